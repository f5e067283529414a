//! The command line's grammar. What a command does lies in `commands`, one module each.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use steadfast_coordinator::Role;
use steadfast_model::{JobId, RequestId};

use crate::options::OptionArguments;

/// Coordinates long-running jobs: one valid container per task group, and an honest recovery count.
#[derive(Debug, Parser)]
#[command(name = "steadfast", version, max_term_width = 100)]
pub struct Arguments {
    /// The coordinators' URLs; whichever leads is found [default: http://127.0.0.1:8080]. With `dev`: how many
    #[arg(
        long,
        global = true,
        env = "STEADFAST_COORDINATORS",
        value_name = "URL,…",
        value_delimiter = ',',
        hide_env_values = true
    )]
    pub coordinators: Vec<String>,
    /// The file whose first line is the token to show, where coordinators ask for one
    #[arg(long, global = true, env = "STEADFAST_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a whole cluster on this machine
    Dev(DevArguments),
    /// Run a coordinator
    Coordinator(CoordinatorArguments),
    /// Run a member, which runs containers
    Agent(AgentArguments),
    /// Submit a job file and wait for the job's end
    Submit(SubmitArguments),
    /// List the jobs, running and ended
    Jobs(ListArguments),
    /// Show one job
    Job(JobArguments),
    /// Tell a job's recoveries as a story
    Explain(JobArguments),
    /// Print what a container of a job has written
    Logs(LogsArguments),
    /// Stop a job
    Stop(JobArguments),
    /// List the members
    Members(ListArguments),
    /// List the coordinators: which one leads, and how far the others follow
    Coordinators(ListArguments),
    /// Move everything away from a member, so that it can be ended
    Drain(LeaveArguments),
    /// Announce that a member is about to be ended
    PlannedLeave(LeaveArguments),
    /// Move a cluster's state from one store to another
    Store(StoreArguments),
    /// Make a token and its entry for the file of --auth
    Token(TokenArguments),
    /// List the options: which value is in force, and where it came from
    Config(ConfigArguments),
    /// Run a program under a container's lease
    Exec(ExecArguments),
}

#[derive(Debug, Args)]
pub struct DevArguments {
    /// How many members
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub members: u32,
    /// Containers that each member can hold at once
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub slots: u32,
    /// Where everything is kept; a later run on the same folder goes on from it
    #[arg(long, value_name = "DIR", default_value = "steadfast-data")]
    pub data: PathBuf,
    /// Where the coordinator listens; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = DEFAULT_HTTP, value_parser = address)]
    pub http: SocketAddr,
    /// Keep the state in this etcd, so that there can be several: --coordinators 3
    #[arg(long, value_name = "URL,…", value_parser = etcd)]
    pub etcd: Option<String>,
    /// Submit these job files, and end when their jobs have ended
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub submit: Vec<PathBuf>,
    /// Ask everybody for a token that is in this file, or in one of several; `steadfast token` makes them
    #[arg(long, value_name = "FILE")]
    pub auth: Vec<PathBuf>,
    #[command(flatten)]
    pub options: OptionArguments,
    #[command(flatten)]
    pub variables: Variables,
}

#[derive(Debug, Args)]
pub struct CoordinatorArguments {
    /// Where the cluster's state is kept: embedded:DIR, or etcd:URL,…
    #[arg(long, value_name = "STORE", value_parser = store)]
    pub store: StoreUrl,
    /// Where it listens; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = DEFAULT_HTTP, value_parser = address)]
    pub http: SocketAddr,
    /// Ask everybody for a token that is in this file, or in one of several; `steadfast token` makes them
    #[arg(long, value_name = "FILE")]
    pub auth: Vec<PathBuf>,
    #[command(flatten)]
    pub options: OptionArguments,
}

#[derive(Debug, Args)]
pub struct ConfigArguments {
    #[command(flatten)]
    pub options: OptionArguments,
    /// Print them as JSON on one line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct AgentArguments {
    /// The agent's own folder: its containers' logs and working directories
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Containers that it can hold at once
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub slots: u32,
    /// What placement can ask for, such as zone=a
    #[arg(long = "tag", value_name = "NAME=VALUE", value_parser = pair)]
    pub tags: Vec<(String, String)>,
}

#[derive(Debug, Args)]
pub struct SubmitArguments {
    /// The job file: HOCON, or JSON
    pub file: PathBuf,
    #[command(flatten)]
    pub variables: Variables,
    /// Say what is wrong with the file, submit nothing
    #[arg(long, conflicts_with = "detach")]
    pub check: bool,
    /// Do not wait for the job's end
    #[arg(long)]
    pub detach: bool,
    /// Print the coordinator's answer as JSON on one line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ListArguments {
    /// Print the coordinator's answer as JSON on one line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct JobArguments {
    /// The job's id, as `steadfast jobs` shows it
    #[arg(value_name = "ID")]
    pub job: JobId,
    /// Print the coordinator's answer as JSON on one line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct LogsArguments {
    /// The job's id, as `steadfast jobs` shows it
    #[arg(value_name = "ID")]
    pub job: JobId,
    /// The task group: its number, its task, or TASK/INDEX; not needed where the job has only one
    pub task_group: Option<String>,
    /// The attempt, from 1 [default: the newest]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub attempt: Option<u32>,
    /// What it has written to standard error
    #[arg(long, conflicts_with = "wrapper")]
    pub stderr: bool,
    /// What the wrapper around it has to say: its lease, its verdicts, its end
    #[arg(long)]
    pub wrapper: bool,
    /// Only the last lines
    #[arg(long, value_name = "LINES")]
    pub tail: Option<u64>,
    /// Go on until the container has ended
    #[arg(long, short)]
    pub follow: bool,
}

#[derive(Debug, Args)]
pub struct LeaveArguments {
    /// The member's UUID, or as many of its first characters as no other member has
    pub member: String,
    /// Why, for whoever reads the story later
    #[arg(long, value_name = "TEXT", default_value = "none given")]
    pub reason: String,
    /// What the request is called: the same one twice is answered like once [default: a new one]
    #[arg(long, value_name = "ID")]
    pub request_id: Option<RequestId>,
    /// How long the member has for going [default: 600]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub valid_seconds: Option<u64>,
    /// Print the coordinator's answer as JSON on one line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct StoreArguments {
    #[command(subcommand)]
    pub command: StoreCommand,
}

#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Copy everything, compare it, and let no coordinator start on the source any more
    Copy(CopyArguments),
}

#[derive(Debug, Args)]
pub struct CopyArguments {
    /// What to copy: embedded:DIR or etcd:URL,…, as of `coordinator --store`; no coordinator may run on it
    #[arg(value_name = "FROM", value_parser = store)]
    pub from: StoreUrl,
    /// Where to: an empty place, or one where a copy was interrupted
    #[arg(value_name = "TO", value_parser = store)]
    pub to: StoreUrl,
    /// Copy a source that was moved before, and give up whatever has happened at that place since
    #[arg(long)]
    pub again: bool,
    /// The source is a backup: say of its jobs' counts that nobody knows what happened since
    #[arg(long)]
    pub backup: bool,
    /// Print what was copied as JSON on one line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct TokenArguments {
    /// Who will hold it: the name under which its deeds are kept
    pub name: String,
    /// What its holder may do: operator, reader or member
    #[arg(long, value_parser = role)]
    pub role: Role,
    /// Print token and entry as JSON on one line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ExecArguments {
    /// Standard input is a socket to the agent that started this
    #[arg(long, hide = true)]
    pub agent_on_stdin: bool,
    /// Write the program's output to files in this folder
    #[arg(long, value_name = "DIR")]
    pub log_dir: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// `--set K=V`, as often as needed.
#[derive(Clone, Debug, Args)]
pub struct Variables {
    /// Fill ${NAME} in the job file
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
}

impl Variables {
    /// The variables by name.
    ///
    /// # Errors
    /// A name that is given twice: one of the two values would be lost.
    pub fn by_name(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let mut by_name = BTreeMap::new();
        for (name, value) in &self.set {
            let twice = by_name.insert(name.clone(), value.clone()).is_some();
            anyhow::ensure!(!twice, "--set {name}=… is given twice; give it once");
        }
        Ok(by_name)
    }
}

const DEFAULT_HTTP: &str = "127.0.0.1:8080";

/// Where a coordinator keeps its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreUrl {
    /// A folder of this machine, for one coordinator.
    Embedded(PathBuf),
    /// An etcd, for coordinators on several machines.
    #[cfg(feature = "etcd")]
    Etcd(steadfast_store::EtcdLocation),
}

fn store(text: &str) -> Result<StoreUrl, String> {
    match text.split_once(':') {
        Some(("embedded", folder)) if !folder.is_empty() => {
            Ok(StoreUrl::Embedded(PathBuf::from(folder)))
        }
        #[cfg(feature = "etcd")]
        Some(("etcd", _)) => {
            let location: Result<_, steadfast_store::LocationError> = text.parse();
            location.map(StoreUrl::Etcd).map_err(|error| error.to_string())
        }
        #[cfg(not(feature = "etcd"))]
        Some(("etcd", _)) => Err("etcd is not built into this binary (`cargo build --release \
                                  --features etcd`); use embedded:DIR, which serves one \
                                  coordinator on one machine"
            .into()),
        _ => Err("expected embedded:DIR, such as embedded:/var/lib/steadfast".into()),
    }
}

/// What stands behind `etcd:`, checked.
fn etcd(text: &str) -> Result<String, String> {
    store(&format!("etcd:{text}")).map(|_| text.to_owned())
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let expected = "expected HOST:PORT, such as 127.0.0.1:8080";
    let mut addresses: Vec<SocketAddr> =
        text.to_socket_addrs().map_err(|error| format!("{error}; {expected}"))?.collect();
    // "localhost" is both; the members and the examples say 127.0.0.1.
    addresses.sort_by_key(SocketAddr::is_ipv6);
    addresses.first().copied().ok_or_else(|| expected.into())
}

fn role(text: &str) -> Result<Role, String> {
    let roles = || Role::ALL.map(Role::name).join(", ");
    Role::named(text).ok_or_else(|| format!("expected one of {}", roles()))
}

pub fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.to_owned()))
        }
        _ => Err("expected NAME=VALUE".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(line: &str) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(line.split(' '))
    }

    fn refused(line: &str) -> String {
        parse(line).unwrap_err().to_string()
    }

    #[test]
    fn the_grammar_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn coordinators_stand_before_or_after_everything_else() {
        for line in [
            "steadfast --coordinators http://a:1,http://b:2 jobs --json",
            "steadfast jobs --coordinators http://a:1,http://b:2 --json",
            "steadfast jobs --json --coordinators http://a:1 --coordinators http://b:2",
        ] {
            let arguments = parse(line).unwrap();
            assert_eq!(arguments.coordinators, ["http://a:1", "http://b:2"], "{line}");
            assert!(matches!(arguments.command, Command::Jobs(ListArguments { json: true })));
        }
    }

    #[test]
    fn dev_has_the_published_defaults() {
        let Command::Dev(dev) = parse("steadfast dev").unwrap().command else { panic!() };
        assert_eq!((dev.members, dev.slots), (3, 4));
        assert_eq!(dev.http.to_string(), "127.0.0.1:8080");
        let line = "steadfast dev --submit a.conf b.conf --set K=V --set EMPTY= --http localhost:0";
        let Command::Dev(dev) = parse(line).unwrap().command else { panic!() };
        assert_eq!(dev.submit, [PathBuf::from("a.conf"), PathBuf::from("b.conf")]);
        let variables = dev.variables.by_name().unwrap();
        assert_eq!((variables["K"].as_str(), variables["EMPTY"].as_str()), ("V", ""));
        assert!(dev.http.ip().is_loopback());
    }

    #[test]
    fn a_value_may_hold_what_a_name_may_not() {
        assert_eq!(pair("K=a=b,c d"), Ok(("K".into(), "a=b,c d".into())));
        for text in ["K", "=v", ""] {
            assert!(pair(text).is_err(), "{text}");
        }
        let line = "steadfast submit f --set K=1 --set K=2";
        let Command::Submit(submit) = parse(line).unwrap().command else { panic!() };
        assert!(submit.variables.by_name().unwrap_err().to_string().contains("K=… is given twice"));
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        for (line, complaint) in [
            ("steadfast job x", "x"),
            #[cfg(not(feature = "etcd"))]
            ("steadfast coordinator --store etcd:http://a:2379", "etcd is not built into this"),
            #[cfg(not(feature = "etcd"))]
            ("steadfast dev --etcd http://a:2379", "etcd is not built into this"),
            #[cfg(feature = "etcd")]
            ("steadfast dev --etcd a:2379", "an endpoint is http://HOST:PORT"),
            #[cfg(feature = "etcd")]
            ("steadfast coordinator --store etcd:a:2379", "an endpoint is http://HOST:PORT"),
            ("steadfast coordinator --store /data", "expected embedded:DIR"),
            ("steadfast coordinator --store embedded:d --http 8080", "expected HOST:PORT"),
            ("steadfast dev --members 0", "1..=100"),
            ("steadfast agent --slots 4", "--data"),
            ("steadfast agent --data d --tag zone", "expected NAME=VALUE"),
            ("steadfast submit f --check --detach", "cannot be used with"),
            ("steadfast drain", "MEMBER"),
            ("steadfast drain 23cc --valid-seconds 3601", "1..=3600"),
            ("steadfast drain 23cc --request-id a/b", "a request id"),
            ("steadfast logs x", "x"),
            ("steadfast logs 7 1 --attempt 0", "0"),
            ("steadfast logs 7 1 --tail -1", "-1"),
            ("steadfast logs 7 1 --stderr --wrapper", "cannot be used with"),
            ("steadfast token on-call", "--role"),
            ("steadfast token on-call --role admin", "operator, reader, member"),
            ("steadfast store copy embedded:a", "TO"),
            ("steadfast store copy embedded:a b", "expected embedded:DIR"),
            ("steadfast exec", "CMD"),
        ] {
            let refused = refused(line);
            assert!(refused.contains(complaint), "{line}: {refused}");
        }
    }

    #[cfg(feature = "etcd")]
    #[test]
    fn an_etcd_is_where_its_urls_say() {
        let line = "steadfast coordinator --store etcd:http://a:2379,http://b:2379?ttl=3";
        let Command::Coordinator(coordinator) = parse(line).unwrap().command else { panic!() };
        let StoreUrl::Etcd(location) = coordinator.store else { panic!() };
        assert_eq!((location.endpoints.len(), location.ttl_seconds), (2, 3));
    }

    #[test]
    fn exec_leaves_the_programs_own_arguments_alone() {
        let line = "steadfast exec --log-dir d -- sh --log-dir -c x --coordinators y";
        let Command::Exec(exec) = parse(line).unwrap().command else { panic!() };
        assert_eq!(exec.command, ["sh", "--log-dir", "-c", "x", "--coordinators", "y"]);
    }
}
