//! `steadfast members`: who runs containers, and who was lost lately.

use steadfast_api::MemberInfo;
use steadfast_client::Client;

use super::show::show;
use crate::arguments::ListArguments;
use crate::connect::Coordinators;
use crate::tables::{table, text};

/// # Errors
/// No coordinator can be asked.
pub fn run(arguments: &ListArguments, coordinators: &Coordinators) -> anyhow::Result<u8> {
    show(coordinators, arguments.json, Client::members, |members| render(members))
}

fn render(members: &[MemberInfo]) -> String {
    if members.is_empty() {
        return "no members; `steadfast agent --coordinators URL,… --data DIR` starts one".into();
    }
    let mut rows =
        table(&["MEMBER", "STATUS", "HOST", "PID", "SLOTS", "LAST SEEN", "VERSION", "TAGS"]);
    for member in members {
        let tags: Vec<String> =
            member.tags.iter().map(|(name, value)| format!("{name}={value}")).collect();
        rows.add_row([
            member.uuid.to_string(),
            member.status.to_string(),
            member.host.clone(),
            member.pid.to_string(),
            format!("{} of {}", member.used_slots, member.slots),
            member.last_seen.to_string(),
            member.version.clone(),
            tags.join(" "),
        ]);
    }
    text(&rows)
}
