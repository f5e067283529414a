//! `steadfast store copy FROM TO`: the whole state at another place, in the same or another kind of store.
//! Each step lies in the store's own crate; here it is told, and can be broken off.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use serde_json::{Map, json};
use steadfast_model::Timestamp;
use steadfast_store::copy::{Copied, Location, Progress, Request, copy};
use steadfast_store::{Kind, LeaderInfo};

use crate::arguments::{CopyArguments, StoreArguments, StoreCommand, StoreUrl};
use crate::out::Account;
use crate::runtime::EndRequests;
use crate::tables::{columns, text};
use crate::{out, runtime};

/// # Errors
/// Whatever keeps the state from being moved.
pub fn run(arguments: StoreArguments) -> anyhow::Result<u8> {
    let StoreArguments { command: StoreCommand::Copy(arguments) } = arguments;
    let CopyArguments { from, to, again, backup, json } = arguments;
    let (from, to) = (location(from), location(to));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
    let now = Timestamp::from_millis(u64::try_from(now.as_millis())?);
    let request = Request { from, to, me: me(now), now, again, backup };
    // Several threads: one keeps the lease while another reads.
    let copied = runtime::server(async {
        let asked_to_end = listen()?;
        let mut account = Account::on_stderr();
        let outcome = copy(&request, &mut |step| {
            tell(&mut account, step);
            if asked_to_end.load(Ordering::Relaxed) {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })
        .await;
        account.close();
        Ok(outcome?)
    })?;
    if json {
        out::json(&as_json(&request, &copied))?
    } else {
        out::line(&render(&request, &copied))
    }
    Ok(0)
}

fn location(store: StoreUrl) -> Location {
    match store {
        StoreUrl::Embedded(folder) => Location::Embedded(folder),
        #[cfg(feature = "etcd")]
        StoreUrl::Etcd(location) => Location::Etcd(location),
    }
}

/// Whoever finds the source led is told by whom. It serves nowhere.
fn me(since: Timestamp) -> LeaderInfo {
    let me = LeaderInfo::of_this_process(String::new(), since);
    LeaderInfo { url: format!("steadfast-store-copy://{}", me.host), ..me }
}

/// Becomes true when this process is asked to end; the copy then ends at its next step.
fn listen() -> anyhow::Result<Arc<AtomicBool>> {
    let mut end = EndRequests::listen()?;
    let asked = Arc::new(AtomicBool::new(false));
    let told = asked.clone();
    tokio::spawn(async move {
        end.next().await;
        told.store(true, Ordering::Relaxed);
    });
    Ok(asked)
}

fn tell(account: &mut Account, step: Progress) {
    let counted =
        |verb: &str, kind: Kind, so_far: u64| format!("{verb} {}: {so_far} …", kind.name());
    match step {
        Progress::Lead => account.lasting("taking the lead of the source"),
        Progress::Begin => account.lasting("marking the target"),
        Progress::Clean => account.passing("removing what an earlier copy has left"),
        Progress::Copy(kind, 0) => account.lasting(&format!("copying {}", kind.name())),
        Progress::Copy(kind, so_far) => account.passing(&counted("copying", kind, so_far)),
        Progress::Verify(kind, 0) => account.lasting(&format!("comparing {}", kind.name())),
        Progress::Verify(kind, so_far) => account.passing(&counted("comparing", kind, so_far)),
        Progress::Move => account.lasting("marking the source as moved"),
        Progress::Finish => account.lasting("opening the target"),
    }
}

fn render(request: &Request, copied: &Copied) -> String {
    let mut rows = columns();
    for (kind, count) in &copied.records {
        rows.add_row([kind.name().to_owned(), count.to_string()]);
    }
    let Request { from, to, .. } = request;
    format!(
        "{}\nAll of these were read on both sides and compared. The epoch was {}; every one at the new place \
         is greater than {}.\nStart coordinators with --store {to}; on {from} none starts any more.",
        text(&rows),
        copied.epoch_before,
        copied.epoch
    )
}

fn as_json(request: &Request, copied: &Copied) -> serde_json::Value {
    let counts = copied.records.iter().map(|(kind, count)| (kind.name().to_owned(), json!(count)));
    json!({
        "from": request.from.to_string(),
        "to": request.to.to_string(),
        "records": counts.collect::<Map<_, _>>(),
        "epochBefore": copied.epoch_before,
        "epoch": copied.epoch,
    })
}
