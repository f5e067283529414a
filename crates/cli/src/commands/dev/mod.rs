//! `steadfast dev`: a whole cluster on this machine, of real processes.
//!
//! It is what the product is on many machines, in small: the coordinator and each member are processes
//! of their own, made from this program's own file, so that any of them can be killed to see what
//! happens. Only coordinators are started again; a member that is lost stays lost.
//!
//! Everything lies in one folder, and a later run on it goes on from there:
//! ```text
//! DIR/store/         the coordinator's state, unless that is on etcd
//! DIR/members/N/     each member's folder, with the logs of its containers
//! DIR/log/           what the processes say
//! DIR/auth/          with --auth: the members' token, and what lets it in
//! DIR/dev.json       which processes were started
//! DIR/dev.lock       held while `steadfast dev` runs here
//! ```

mod cluster;
mod folder;
mod keys;
mod leftovers;
mod process;
mod watch;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use steadfast_client::Client;
use steadfast_coordinator::check_address;
use steadfast_model::{JobId, MemberStatus};

use self::cluster::{Cluster, Role, Setup};
use self::folder::Folder;
use self::keys::Keys;
use super::COULD_NOT;
use super::coordinator::{credentials, with_port};
use super::submit::{NotSubmitted, send};
use crate::arguments::DevArguments;
use crate::job_document::{JobDocument, render, share_out};
use crate::options::Options;
use crate::out::Account;
use crate::runtime::EndRequests;
use crate::{out, runtime};

/// Between two looks at a cluster that is starting.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// What Ctrl-C makes of a run that was to bring jobs to their end.
const INTERRUPTED: u8 = 130;

/// # Errors
/// The folder, the address, an option or a token file cannot be used, or a process dies while the cluster starts.
pub fn run(arguments: &DevArguments, coordinators: u32) -> anyhow::Result<u8> {
    anyhow::ensure!(
        coordinators == 1 || arguments.etcd.is_some(),
        "{coordinators} coordinators need a store that they can share; expected --etcd URL,… with it"
    );
    let Some(documents) = load(arguments)? else { return Ok(COULD_NOT) };
    let has_credentials = credentials(&arguments.auth)?.is_some();
    check_address(arguments.http, has_credentials)?;
    let options = Options::load(&arguments.options)?;
    let options = options.iter().map(|(name, value, _)| format!("{name}={value}")).collect();
    let folder = Folder::hold(&arguments.data)?;
    folder.keep_state_in(arguments.etcd.as_deref())?;
    let path = folder.path().display();
    out::line(&match &arguments.etcd {
        None => format!("steadfast: everything is kept in {path}"),
        Some(etcd) => format!(
            "steadfast: the state is kept in etcd at {etcd}, so give --etcd to go on from it; logs are in {path}"
        ),
    });
    for line in leftovers::end(&folder.record())? {
        out::line(&format!("steadfast: {line}"));
    }
    let keys = has_credentials.then(|| Keys::make(&folder, &arguments.auth)).transpose()?;
    let mut listen = vec![with_port(arguments.http)?];
    for _ in 1..coordinators {
        listen.push(with_port(SocketAddr::new(arguments.http.ip(), 0))?);
    }
    let (store, slots) = (store(arguments, &folder)?, arguments.slots);
    let setup = Setup { listen, store, slots, keys, options };
    runtime::light(async {
        let mut end = EndRequests::listen()?;
        let account = RefCell::new(Account::on_stdout());
        let mut cluster = Cluster::new(folder, setup, &account)?;
        let outcome = tokio::select! {
            outcome = live(&mut cluster, arguments.members, &documents, &account) => outcome,
            () = end.next() => {
                account.borrow_mut().lasting("steadfast: stopping");
                Ok(if documents.is_empty() { 0 } else { INTERRUPTED })
            }
        };
        cluster.stop(&mut end).await;
        account.borrow_mut().close();
        outcome
    })
}

/// Where the coordinators keep their state, as their `--store` says it.
fn store(arguments: &DevArguments, folder: &Folder) -> anyhow::Result<String> {
    if let Some(etcd) = &arguments.etcd {
        return Ok(format!("etcd:{etcd}"));
    }
    let folder = folder.store();
    let text = folder.to_str();
    let text = text.with_context(|| format!("{} has a name that is no text", folder.display()))?;
    Ok(format!("embedded:{text}"))
}

/// The job files, checked before anything is started; `None` if one of them is refused.
fn load(arguments: &DevArguments) -> anyhow::Result<Option<Vec<JobDocument>>> {
    let variables = arguments.variables.by_name()?;
    anyhow::ensure!(
        variables.is_empty() || !arguments.submit.is_empty(),
        "--set fills a job file, and there is none; expected --submit FILE with it"
    );
    let shares = share_out(&arguments.submit, &variables);
    let mut documents = Vec::new();
    let mut all_right = true;
    for (path, variables) in arguments.submit.iter().zip(&shares) {
        match JobDocument::load(path, variables) {
            Ok(document) => documents.push(document),
            Err(refusal) => {
                out::notice(&format!("error: {}", render(&refusal)));
                all_right = false;
            }
        }
    }
    Ok(all_right.then_some(documents))
}

/// Starts the cluster and keeps it, until the submitted jobs have ended; without any, for ever.
async fn live(
    cluster: &mut Cluster<'_>,
    members: u32,
    documents: &[JobDocument],
    account: &RefCell<Account>,
) -> anyhow::Result<u8> {
    let urls = cluster.urls();
    let client = cluster.client()?;
    for number in (1..).take(urls.len()) {
        cluster.start(Role::Coordinator(number))?;
    }
    let coordinators = cluster.coordinator_pids();
    cluster.until("the coordinator is ready", ready(&client, &coordinators)).await?;
    for number in 1..=members {
        cluster.start(Role::Member(number))?;
    }
    let pids = cluster.member_pids();
    cluster.until("all members are alive", alive(&client, &pids)).await?;
    account.borrow_mut().lasting(&format!("steadfast: ready at {}", urls.join(",")));
    let work = async {
        let mut jobs = Vec::new();
        for document in documents {
            match submit(&client, document, account).await? {
                Some(job) => jobs.push(job),
                None => return Ok(COULD_NOT),
            }
        }
        Ok(watch::jobs(&client, &jobs, account).await)
    };
    tokio::select! {
        code = work => code,
        error = cluster.tend() => Err(error),
    }
}

/// Whoever answers on the port must be this cluster's own: members must not join somebody else's.
async fn ready(client: &Client, coordinators: &BTreeSet<u32>) {
    loop {
        let overview = client.overview().await;
        if overview.is_ok_and(|overview| coordinators.contains(&overview.coordinator.pid)) {
            return;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Members of earlier runs are in the list too, so it is these processes that count.
async fn alive(client: &Client, pids: &BTreeSet<u32>) {
    loop {
        if let Ok(members) = client.members().await {
            let alive: BTreeSet<u32> = members
                .iter()
                .filter(|member| member.status == MemberStatus::Alive)
                .map(|member| member.pid)
                .collect();
            if pids.is_subset(&alive) {
                return;
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// `None` if the document is refused.
async fn submit(
    client: &Client,
    document: &JobDocument,
    account: &RefCell<Account>,
) -> anyhow::Result<Option<JobId>> {
    match send(client, document, false).await {
        Ok(answer) => {
            let job = answer.job_id.context("the coordinator took the job and gave it no id")?;
            let line = format!("submitted {} as job {job}", answer.job_name);
            account.borrow_mut().lasting(&line);
            Ok(Some(job))
        }
        Err(NotSubmitted::Refused(refusal)) => {
            out::notice(&format!("error: {}", render(&refusal)));
            Ok(None)
        }
        Err(NotSubmitted::NoAnswer(error)) => Err(error.into()),
    }
}
