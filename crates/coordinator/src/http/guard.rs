//! Who may make which call: one layer over the whole router.
//!
//! The table is closed, not open: a call that is not named in [`need`] takes at least a reader's token, and
//! an operator's where it changes something. So a new endpoint is guarded before anybody thinks of it, and
//! a stranger does not even learn which paths there are.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use steadfast_api::paths;

use super::respond::Failure;
use super::validity::bearer;
use crate::credentials::Role;
use crate::shared::Shared;

/// Who makes a call, as its token says. There is none where the coordinator runs without `--auth`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Actor {
    pub name: String,
}

/// What a call takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// Nothing of ours: a probe, or a container that has a secret of its own.
    Nothing,
    /// A token of this role, or of one that may do all that it may.
    Token(Role),
}

fn need(method: &Method, path: &str) -> Need {
    match path {
        paths::HEALTH_LIVE | paths::HEALTH_READY => Need::Nothing,
        paths::IS_CONTAINER_VALID | paths::CONTAINER_ENDED | paths::CHECKPOINT => Need::Nothing,
        // Samza's client has no secret to show; it learns whether an id lives, as without one elsewhere.
        paths::CONTAINER_HEARTBEAT => Need::Nothing,
        paths::AGENT => Need::Token(Role::Member),
        _ if *method == Method::GET || *method == Method::HEAD => Need::Token(Role::Reader),
        _ => Need::Token(Role::Operator),
    }
}

/// Whether a token of this role will do where that role is needed.
fn may(role: Role, needed: Role) -> bool {
    role == needed || (role, needed) == (Role::Operator, Role::Reader)
}

/// Lets a call through with its [`Actor`], or refuses it before anything of it is read.
pub(crate) async fn guard(
    State(shared): State<Arc<Shared>>,
    mut request: Request,
    next: Next,
) -> Response {
    match admit(&shared, &request) {
        Ok(actor) => {
            if let Some(actor) = actor {
                request.extensions_mut().insert(actor);
            }
            next.run(request).await
        }
        Err(failure) => failure.into_response(),
    }
}

fn admit(shared: &Shared, request: &Request) -> Result<Option<Actor>, Failure> {
    let Some(credentials) = &shared.credentials else { return Ok(None) };
    let path = request.uri().path();
    let Need::Token(needed) = need(request.method(), path) else { return Ok(None) };
    let Some(token) = bearer(request.headers()) else {
        return Err(Failure::unauthorized(format!(
            "this coordinator wants a token: Authorization: Bearer TOKEN, from a client \
             --token-file FILE or STEADFAST_TOKEN_FILE, of the role {needed} for this call"
        )));
    };
    let Some(holder) = credentials.holder(token) else {
        return Err(Failure::unauthorized(
            "this token is in none of the files that this coordinator was started with (--auth)",
        ));
    };
    if !may(holder.role(), needed) {
        let (name, role) = (holder.name(), holder.role());
        return Err(Failure::forbidden(format!(
            "{} {path} takes the role {needed}, and {name} has the role {role}",
            request.method()
        )));
    }
    Ok(Some(Actor { name: holder.name().to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_takes_what_is_written_here() {
        let table = [
            ("GET", "/health/live", Need::Nothing),
            ("GET", "/health/ready", Need::Nothing),
            ("GET", "/isContainerValid", Need::Nothing),
            ("POST", "/containerEnded", Need::Nothing),
            ("GET", "/containerHeartbeat", Need::Nothing),
            ("GET", "/metrics", Need::Token(Role::Reader)),
            ("GET", "/checkpoint", Need::Nothing),
            ("PUT", "/checkpoint", Need::Nothing),
            ("GET", "/agent", Need::Token(Role::Member)),
            ("GET", "/overview", Need::Token(Role::Reader)),
            ("GET", "/members", Need::Token(Role::Reader)),
            ("HEAD", "/members", Need::Token(Role::Reader)),
            ("GET", "/running-jobs", Need::Token(Role::Reader)),
            ("GET", "/finished-jobs/FAILED", Need::Token(Role::Reader)),
            ("GET", "/job-info/7", Need::Token(Role::Reader)),
            ("GET", "/job-info/7/recovery-episodes", Need::Token(Role::Reader)),
            ("GET", "/job-info/7/explain", Need::Token(Role::Reader)),
            ("GET", "/job-info/7/logs/1", Need::Token(Role::Reader)),
            ("GET", "/events", Need::Token(Role::Reader)),
            ("POST", "/submit-job", Need::Token(Role::Operator)),
            ("POST", "/stop-job", Need::Token(Role::Operator)),
            ("POST", "/members/x/planned-leave", Need::Token(Role::Operator)),
            ("POST", "/members/x/drain", Need::Token(Role::Operator)),
            // What nobody has thought of is not open.
            ("GET", "/", Need::Token(Role::Reader)),
            ("GET", "/health/live/x", Need::Token(Role::Reader)),
            ("GET", "//health/live", Need::Token(Role::Reader)),
            ("DELETE", "/members", Need::Token(Role::Operator)),
            ("BREW", "/overview", Need::Token(Role::Operator)),
        ];
        for (method, path, needed) in table {
            assert_eq!(need(&method.parse().unwrap(), path), needed, "{method} {path}");
        }
    }

    #[test]
    fn an_operator_may_look_and_nobody_else_may_what_others_may() {
        for role in Role::ALL {
            for needed in Role::ALL {
                let stands_in = role == Role::Operator && needed == Role::Reader;
                assert_eq!(may(role, needed), role == needed || stands_in, "{role} for {needed}");
            }
        }
    }
}
