//! `steadfast coordinators`: which one leads, since when, and how far the others follow. Each is asked
//! itself, so that this answers also while nobody leads.

use std::cell::Cell;

use steadfast_api::{CoordinatorRole, CoordinatorStanding, Readiness};
use steadfast_client::Client;

use super::COULD_NOT;
use super::show::show;
use crate::arguments::ListArguments;
use crate::connect::Coordinators;
use crate::tables::{or_dash, table, text};

/// [`COULD_NOT`] where nobody who answers leads or knows who does: what a script asks for.
///
/// # Errors
/// What was named is no URL.
pub fn run(arguments: &ListArguments, coordinators: &Coordinators) -> anyhow::Result<u8> {
    let somebody_leads = Cell::new(false);
    let ask = async |client: &Client| {
        let standings = client.coordinators().await?;
        somebody_leads.set(standings.iter().any(|one| one.readiness.is_some()));
        Ok(standings)
    };
    let shown = show(coordinators, arguments.json, ask, |standings| render(standings))?;
    Ok(if somebody_leads.get() { shown } else { COULD_NOT })
}

fn render(standings: &[CoordinatorStanding]) -> String {
    let mut rows = table(&["COORDINATOR", "ROLE", "LEADS SINCE", "COMMITS BEHIND", "VERSION"]);
    let ready = || standings.iter().filter_map(|one| one.readiness.as_ref());
    let leader = ready().find(|one| one.role == CoordinatorRole::Leader);
    for CoordinatorStanding { url, readiness, error } in standings {
        let role = match (readiness, error) {
            (Some(Readiness { role: CoordinatorRole::Leader, .. }), _) => "leader".to_owned(),
            (Some(Readiness { role: CoordinatorRole::Standby, .. }), _) => "standby".to_owned(),
            (None, why) => format!("unknown: {}", or_dash(why.as_ref())),
        };
        let is_leader = |one: &&Readiness| one.role == CoordinatorRole::Leader;
        let since = readiness.as_ref().filter(is_leader).map(|leader| leader.since);
        let standby = readiness.as_ref().filter(|one| !is_leader(one));
        let behind = standby.zip(leader).map(|(standby, leader)| {
            // Asked one after the other, so the standby may have gone on meanwhile.
            leader.revision.saturating_sub(standby.revision)
        });
        let version = readiness.as_ref().map(|one| &one.version);
        rows.add_row([url.clone(), role, or_dash(since), or_dash(behind), or_dash(version)]);
    }
    let troubled = ready().filter_map(|one| Some((&one.url, one.message.as_ref()?)));
    let troubles = troubled.map(|(url, why)| format!("\n{url}: {why}"));
    text(&rows) + &troubles.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(url: &str, role: &str, revision: u64) -> CoordinatorStanding {
        let readiness = serde_json::json!({
            "status": "ready", "role": role, "url": url, "version": "0.1.0", "revision": revision,
            "leader": "http://a:1", "since": "2026-11-30T09:31:02.123Z", "coordinators": [],
        });
        let readiness = serde_json::from_value(readiness).unwrap();
        CoordinatorStanding { url: url.to_owned(), readiness: Some(readiness), error: None }
    }

    #[test]
    fn who_leads_on_a_full_store_is_named_with_what_is_wrong() {
        let mut leads = ready("http://a:1", "leader", 12);
        leads.readiness.as_mut().unwrap().message = Some("the store is full".into());
        let rendered = render(&[leads, ready("http://b:1", "standby", 12)]);
        let lines: Vec<&str> = rendered.lines().collect();
        assert!(lines[1].starts_with("http://a:1") && lines[1].contains("leader"), "{rendered}");
        assert_eq!(lines[3..], ["http://a:1: the store is full"], "{rendered}");
    }

    #[test]
    fn the_leader_has_a_time_and_the_others_how_far_they_are_behind() {
        let away = CoordinatorStanding {
            url: "http://c:1".into(),
            readiness: None,
            error: Some("Connection refused".into()),
        };
        let standings =
            [ready("http://a:1", "leader", 12), ready("http://b:1", "standby", 9), away];
        let rendered = render(&standings);
        let rows: Vec<Vec<&str>> =
            rendered.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["http://a:1", "leader", "2026-11-30T09:31:02.123Z", "-", "0.1.0"]);
        assert_eq!(rows[1], ["http://b:1", "standby", "-", "3", "0.1.0"]);
        assert_eq!(rows[2], ["http://c:1", "unknown:", "Connection", "refused", "-", "-", "-"]);
    }
}
