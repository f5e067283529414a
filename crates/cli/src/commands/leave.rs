//! `steadfast drain MEMBER` and `steadfast planned-leave MEMBER`: somebody answers for it that a member
//! goes.
//!
//! Both are requests with an id, so that one whose answer was lost can be sent again. A drain also waits:
//! what an operator wants to know is when the machine can be switched off.

use std::time::Duration;

use anyhow::Context;
use steadfast_api::{MemberInfo, PlannedLeave, PlannedLeaveRequest};
use steadfast_client::{Client, ClientError};
use steadfast_model::{MemberStatus, MemberUuid};

use super::show::show;
use crate::arguments::LeaveArguments;
use crate::connect::Coordinators;
use crate::out::Account;
use crate::runtime::{DETACHED, unless_asked_to_end};
use crate::{out, random, runtime};

/// Between two looks at a member that is being drained.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// # Errors
/// No coordinator can be asked, there is no such member, or the request is refused.
pub fn plan(arguments: &LeaveArguments, coordinators: &Coordinators) -> anyhow::Result<u8> {
    let (member, request) = prepare(arguments, coordinators)?;
    let ask = async |client: &Client| client.plan_leave(member, &request).await;
    show(coordinators, arguments.json, ask, |leave| {
        let PlannedLeave { member_uuid, request_id, actor, expires, .. } = leave;
        format!(
            "{actor} plans the leave of member {member_uuid} (request {request_id}): it is planned if \
             it goes before {expires}"
        )
    })
}

/// # Errors
/// As [`plan`].
pub fn drain(arguments: &LeaveArguments, coordinators: &Coordinators) -> anyhow::Result<u8> {
    let (member, request) = prepare(arguments, coordinators)?;
    let ask = async |client: &Client| client.drain(member, &request).await;
    let code = show(coordinators, arguments.json, ask, |leave| {
        let PlannedLeave { member_uuid, request_id, actor, .. } = leave;
        format!("{actor} drains member {member_uuid} (request {request_id})")
    })?;
    if code != 0 {
        return Ok(code);
    }
    let client = coordinators.client()?;
    let waited = runtime::light(async { Ok(wait(&client, member, arguments.json).await) })?;
    waited.map_err(|error| coordinators.explain(error))
}

fn prepare(
    arguments: &LeaveArguments,
    coordinators: &Coordinators,
) -> anyhow::Result<(MemberUuid, PlannedLeaveRequest)> {
    let LeaveArguments { member, reason, request_id, valid_seconds, json: _ } = arguments;
    let member = match member.parse() {
        Ok(uuid) => uuid,
        Err(_) => {
            let client = coordinators.client()?;
            let members = runtime::light(async { Ok(client.members().await) })?;
            only_one(member, &members.map_err(|error| coordinators.explain(error))?)?
        }
    };
    let request_id = match request_id {
        Some(id) => id.clone(),
        None => random::hex::<8>().context("cannot make a request id")?.parse()?,
    };
    let request =
        PlannedLeaveRequest { request_id, reason: reason.clone(), valid_seconds: *valid_seconds };
    Ok((member, request))
}

/// The member whose UUID begins so. Lost ones count too: whoever names one has to hear that it is gone
/// rather than drain another.
fn only_one(beginning: &str, members: &[MemberInfo]) -> anyhow::Result<MemberUuid> {
    let beginning = beginning.to_ascii_lowercase();
    let mut fitting = members
        .iter()
        .map(|member| member.uuid)
        .filter(|uuid| uuid.to_string().starts_with(&beginning));
    let first = fitting.next().with_context(|| {
        format!("no member's UUID begins with {beginning}; `steadfast members` lists them")
    })?;
    if let Some(second) = fitting.next() {
        anyhow::bail!("{first} and {second} both begin with {beginning}; give more of it");
    }
    Ok(first)
}

/// Waits until the member holds nothing; a coordinator that is away is waited for.
async fn wait(client: &Client, member: MemberUuid, as_json: bool) -> Result<u8, ClientError> {
    let mut account = if as_json { Account::on_stderr() } else { Account::on_stdout() };
    let emptied =
        unless_asked_to_end(until_empty(client, member, &mut account)).await.transpose()?;
    account.close();
    let Some(()) = emptied else {
        out::notice(&format!(
            "detached: the drain of member {member} goes on. `steadfast members` shows it"
        ));
        return Ok(DETACHED);
    };
    Ok(0)
}

async fn until_empty(
    client: &Client,
    member: MemberUuid,
    account: &mut Account,
) -> Result<(), ClientError> {
    let mut is_away = false;
    loop {
        match client.members().await {
            Ok(members) => {
                if is_away {
                    account.lasting("a coordinator answers again");
                    is_away = false;
                }
                let now = members.iter().find(|one| one.uuid == member);
                match now.filter(|now| now.status != MemberStatus::Lost) {
                    None => {
                        account.lasting(&format!("member {member} has gone"));
                        return Ok(());
                    }
                    Some(MemberInfo { used_slots: 0, pid, host, .. }) => {
                        account.lasting(&format!(
                            "member {member} holds nothing any more: its agent (pid {pid} on {host}) \
                             can be ended"
                        ));
                        return Ok(());
                    }
                    Some(MemberInfo { used_slots, .. }) => account.passing(&format!(
                        "member {member}: {used_slots} containers are still there"
                    )),
                }
            }
            Err(ClientError::Unreachable { .. }) => {
                if !is_away {
                    account.lasting("no coordinator answers: waiting for one (the drain goes on)");
                    is_away = true;
                }
            }
            Err(error) => return Err(error),
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members() -> Vec<MemberInfo> {
        ["23cc7ea6-6374-4f2b-8a33-df75b5e58f52", "23cd7ea6-6374-4f2b-8a33-df75b5e58f52"]
            .into_iter()
            .map(|uuid| {
                serde_json::from_value(serde_json::json!({
                    "uuid": uuid, "host": "h", "address": "127.0.0.1:1", "pid": 7, "status": "ALIVE",
                    "slots": 4, "usedSlots": 2, "lastSeen": "2026-11-30T09:31:02.123Z",
                    "version": "0.1.0", "featureLevel": 1, "tags": {}
                }))
                .unwrap()
            })
            .collect()
    }

    #[test]
    fn a_beginning_names_a_member_where_no_other_has_it() {
        let members = members();
        for beginning in ["23cc", "23CC7EA6-63", "23cc7ea6-6374-4f2b-8a33-df75b5e58f52"] {
            assert_eq!(only_one(beginning, &members).unwrap(), members[0].uuid, "{beginning}");
        }
        for (beginning, complaint) in
            [("23c", "give more of it"), ("", "give more of it"), ("24", "`steadfast members`")]
        {
            let refused = only_one(beginning, &members).unwrap_err().to_string();
            assert!(refused.contains(complaint), "{beginning}: {refused}");
        }
    }
}
