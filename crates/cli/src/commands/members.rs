//! `steadfast members`: who runs containers, and who was lost lately.

use steadfast_api::MemberInfo;

use crate::arguments::ListArguments;
use crate::connect::Coordinators;
use crate::tables::{table, text};
use crate::{out, runtime};

/// # Errors
/// No coordinator can be asked.
pub fn run(arguments: &ListArguments, coordinators: &Coordinators) -> anyhow::Result<u8> {
    let client = coordinators.client()?;
    let members = runtime::light(async {
        client.members().await.map_err(|error| coordinators.explain(error))
    })?;
    if arguments.json {
        out::json(&members)?;
    } else if members.is_empty() {
        out::line("no members; `steadfast agent --coordinators URL,… --data DIR` starts one");
    } else {
        out::line(&render(&members));
    }
    Ok(0)
}

fn render(members: &[MemberInfo]) -> String {
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
