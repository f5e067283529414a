//! A whole cluster of real processes, started by the one command that a person types, and ended with
//! everything that belongs to it, whatever became of the test.

mod coordinators;
mod members;

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::{
    Access, Counts, Finished, Job, JobStatus, Marker, Output, PATIENCE, Process, Rest, Role,
    Running, Signal, binary, example_job, input, logs, wait_until, wc,
};

/// How long `dev` may take to end what it started, before the rest is killed.
const GOOD_BYE: Duration = Duration::from_secs(10);

/// How large a cluster is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Agents.
    pub members: u32,
    /// Containers that each can hold.
    pub slots: u32,
}

/// `steadfast dev` and all that belongs to it.
#[derive(Debug)]
pub struct Cluster {
    folder: TempDir,
    marker: Marker,
    dev: Running,
    size: Size,
    /// What else `dev` is started with, each time.
    more: Vec<OsString>,
    /// Where the coordinator wants tokens; the tests are an operator then.
    access: Option<Access>,
    rest: Rest,
    names: AtomicU64,
}

impl Cluster {
    /// Starts a cluster on a free port and waits until it is ready.
    ///
    /// # Panics
    /// When it does not get ready.
    #[track_caller]
    pub fn start(members: u32, slots: u32) -> Self {
        let mut cluster = Self::launch(members, slots, |_, _| {});
        cluster.wait_until_ready();
        cluster
    }

    /// Starts a cluster whose coordinator wants tokens, and waits until it is ready.
    ///
    /// # Panics
    /// When it does not get ready.
    #[track_caller]
    pub fn start_with_auth(members: u32, slots: u32) -> Self {
        Self::start_with_auth_at(members, slots, Ipv4Addr::LOCALHOST)
    }

    /// The same at another address of this machine than the usual one.
    ///
    /// # Panics
    /// When it does not get ready.
    #[track_caller]
    pub fn start_with_auth_at(members: u32, slots: u32, address: Ipv4Addr) -> Self {
        Self::start_with_auth_and(address, Size { members, slots }, |_| {})
    }

    /// The same with more arguments for `dev`.
    #[track_caller]
    fn start_with_auth_and(address: Ipv4Addr, size: Size, more: impl FnOnce(&mut Command)) -> Self {
        let mut access = None;
        let mut cluster = Self::launch_at(address, size, |folder, dev| {
            more(dev);
            let made = Access::make(folder);
            dev.arg("--auth").arg(made.file());
            access = Some(made);
        });
        cluster.access = access;
        cluster.wait_until_ready();
        cluster
    }

    /// The tokens of its people.
    ///
    /// # Panics
    /// When the cluster wants none.
    #[track_caller]
    pub fn access(&self) -> &Access {
        self.access.as_ref().expect("the cluster was started with --auth")
    }

    /// Starts a cluster whose `dev` is given more arguments, and does not wait for it. The folder is the
    /// cluster's own.
    ///
    /// # Panics
    /// When `dev` cannot be started.
    #[track_caller]
    pub fn launch(members: u32, slots: u32, more: impl FnOnce(&Path, &mut Command)) -> Self {
        Self::launch_at(Ipv4Addr::LOCALHOST, Size { members, slots }, more)
    }

    #[track_caller]
    fn launch_at(address: Ipv4Addr, size: Size, more: impl FnOnce(&Path, &mut Command)) -> Self {
        let folder = tempfile::Builder::new().prefix("steadfast-e2e-").tempdir();
        let folder = folder.expect("a folder for temporary files is needed");
        let marker = Marker::new();
        let mut command = dev(folder.path(), &marker, size, &format!("{address}:0"));
        let own = command.get_args().count();
        more(folder.path(), &mut command);
        let more = command.get_args().skip(own).map(ToOwned::to_owned).collect();
        let dev = Running::start(&mut command, folder.path(), "dev");
        let (access, rest, names) = (None, Rest::new(""), AtomicU64::new(0));
        Self { folder, marker, dev, size, more, access, rest, names }
    }

    /// Starts the cluster anew on its data folder and its port, with what it was started with before.
    ///
    /// # Panics
    /// When its `dev` has not ended, or it does not get ready.
    #[track_caller]
    pub fn start_again(&mut self) {
        self.dev.finish(PATIENCE);
        let address = self.rest.url().trim_start_matches("http://");
        let mut command = dev(self.folder.path(), &self.marker, self.size, address);
        command.args(&self.more);
        self.dev = Running::start(&mut command, self.folder.path(), &self.name("dev"));
        self.wait_until_ready();
    }

    /// Waits until `dev` says that it is ready.
    ///
    /// # Panics
    /// When it ends instead.
    #[track_caller]
    pub fn wait_until_ready(&mut self) {
        const READY: &str = "steadfast: ready at ";
        let urls = wait_until(PATIENCE, "`dev` to be ready", || {
            if let Some(ended) = self.dev.ended() {
                panic!("dev ended before it was ready: {ended:?}");
            }
            let stdout = self.dev.stdout();
            let line = stdout.lines().find_map(|line| line.strip_prefix(READY))?;
            Some(line.split_whitespace().next()?.to_owned())
        });
        self.rest = Rest::of_any(urls.split(','));
        if let Some(access) = &self.access {
            self.rest = self.rest.with_token(&access.token(Role::Operator));
        }
    }

    /// The interface of whichever coordinator leads.
    pub fn rest(&self) -> &Rest {
        &self.rest
    }

    /// A folder of this cluster's own; it goes with it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A new folder in it.
    #[track_caller]
    pub fn new_folder(&self, what: &str) -> PathBuf {
        let folder = self.folder.path().join(self.name(what));
        std::fs::create_dir(&folder).expect("the cluster's folder can be written");
        folder
    }

    /// The data folder that `dev` was given.
    pub fn data(&self) -> PathBuf {
        data(self.folder.path())
    }

    /// The file that the jobs count.
    pub fn input(&self) -> PathBuf {
        input(self.folder.path())
    }

    /// What the parts have to add up to.
    pub fn expected(&self) -> Counts {
        wc(&self.input())
    }

    /// The `dev` process itself.
    #[track_caller]
    pub fn dev(&self) -> Process {
        self.marker.process(self.dev.pid())
    }

    /// Waits for the end of `dev`.
    #[track_caller]
    pub fn dev_ended(&mut self) -> Finished {
        self.dev.finish(PATIENCE)
    }

    /// A process of this cluster, by a pid that it has told.
    #[track_caller]
    pub fn process(&self, pid: u32) -> Process {
        self.marker.process(pid)
    }

    /// Every living process of this cluster.
    pub fn processes(&self) -> Vec<Process> {
        self.marker.processes()
    }

    /// A command of the product that speaks to this cluster.
    pub fn steadfast<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Command {
        self.command(&binary("steadfast"), arguments)
    }

    /// A command that speaks to this cluster and belongs to it, of this program.
    pub fn command<'a>(
        &self,
        executable: &Path,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> Command {
        let mut command = steadfast(executable, &self.marker);
        command.env("STEADFAST_COORDINATORS", self.rest.urls().join(",")).args(arguments);
        if let Some(access) = &self.access {
            command.env("STEADFAST_TOKEN_FILE", access.token_file(Role::Operator));
        }
        command
    }

    /// Starts a command with its output in files of this cluster's folder.
    #[track_caller]
    pub fn spawn(&self, command: &mut Command) -> Running {
        Running::start(command, self.folder.path(), &self.name("command"))
    }

    /// Runs a command to its end.
    #[track_caller]
    pub fn run(&self, command: &mut Command) -> Finished {
        self.spawn(command).finish(PATIENCE)
    }

    /// `submit` for the example job, at this many lines a second and task group, and its output.
    pub fn submit_command(&self, rate: u32, more: &[&str]) -> (Command, Output) {
        let output = Output::new(self.folder.path().join(self.name("output")));
        let mut command = self.steadfast(["submit"]);
        command.arg(example_job()).args(more);
        command.arg("--set").arg(assignment("INPUT", &self.input()));
        command.arg("--set").arg(assignment("OUTPUT", output.path()));
        command.arg("--set").arg(format!("RATE={rate}"));
        (command, output)
    }

    /// Submits the example job and gives its id.
    #[track_caller]
    pub fn submit(&self, rate: u32) -> (String, Output) {
        let (mut command, output) = self.submit_command(rate, &["--detach", "--json"]);
        (self.submitted(&mut command), output)
    }

    /// Submits this as a file of this name and gives the job's id.
    ///
    /// # Panics
    /// When it is refused.
    #[track_caller]
    pub fn submit_text(&self, file_name: &str, text: &str) -> String {
        let file = self.new_folder("job").join(file_name);
        std::fs::write(&file, text).expect("the cluster's folder can be written");
        self.submitted(self.steadfast(["submit", "--detach", "--json"]).arg(file))
    }

    /// Runs a `submit --detach --json` and gives the job's id.
    #[track_caller]
    pub fn submitted(&self, command: &mut Command) -> String {
        let finished = self.run(command);
        assert_eq!(finished.code, Some(0), "{finished:?}");
        let answer: serde_json::Value = serde_json::from_str(&finished.stdout)
            .unwrap_or_else(|error| panic!("{finished:?}: {error}"));
        answer["jobId"].as_str().unwrap_or_else(|| panic!("{finished:?}")).to_owned()
    }

    /// Waits until every task group runs in a container of this deployment.
    #[track_caller]
    pub fn wait_until_runs(&self, id: &str, attempt: u32) -> Job {
        let what = format!("every task group runs, attempt {attempt}");
        self.rest.wait_for_job(id, &what, |job| job.runs(attempt))
    }

    /// Waits for the end of the job, and checks that it finished with the right sums and that at no time
    /// two containers of one task group ran.
    #[track_caller]
    pub fn wait_until_finished(&self, id: &str, output: &Output) -> Job {
        let job = self.wait_until_sums_are_right(id, output);
        output.assert_no_overlap();
        job
    }

    /// Waits for the end of the job, and checks that it finished with the right sums.
    #[track_caller]
    pub fn wait_until_sums_are_right(&self, id: &str, output: &Output) -> Job {
        let job = wait_until(2 * PATIENCE, &format!("the end of job {id}"), || {
            let job = self.rest.job_now(id)?;
            let ended = [JobStatus::Finished, JobStatus::Failed, JobStatus::Canceled]
                .contains(&job.job_status);
            ended.then_some(job)
        });
        assert_eq!(job.job_status, JobStatus::Finished, "{job:#?}");
        assert_eq!(output.sum(), self.expected(), "the parts do not add up to what wc says");
        job
    }

    /// `kill -9` of every process of the cluster, `dev` first, so that it starts nothing again.
    ///
    /// # Panics
    /// When some process cannot be ended.
    #[track_caller]
    pub fn kill_everything(&mut self) {
        self.marker.process(self.dev.pid()).signal(Signal::KILL);
        self.kill_the_rest();
        self.dev.finish(PATIENCE);
    }

    fn kill_the_rest(&self) {
        wait_until(PATIENCE, "the end of all processes", || {
            let left = self.marker.processes();
            for process in &left {
                process.try_signal(Signal::KILL);
            }
            left.is_empty().then_some(())
        });
    }

    fn name(&self, what: &str) -> String {
        format!("{what}-{}", 1 + self.names.fetch_add(1, Ordering::Relaxed))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            logs::print(self.folder.path());
        }
        if let Some(dev) = self.marker.processes().iter().find(|one| one.pid == self.dev.pid()) {
            dev.try_signal(Signal::CONT);
            dev.try_signal(Signal::TERM);
        }
        let deadline = Instant::now() + GOOD_BYE;
        while self.dev.ended().is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10)); // polls
        }
        for _ in 0..100 {
            let left = self.marker.processes();
            if left.is_empty() {
                break;
            }
            for process in left {
                process.try_signal(Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(10)); // polls
        }
        // Reaps it where it had to be killed.
        let _ = self.dev.ended();
    }
}

fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

fn dev(folder: &Path, marker: &Marker, size: Size, http: &str) -> Command {
    let Size { members, slots } = size;
    let mut command = steadfast(&binary("steadfast"), marker);
    command.arg("dev").arg("--data").arg(data(folder)).args(["--http", http]);
    command.args(["--members", &members.to_string(), "--slots", &slots.to_string()]);
    command
}

fn steadfast(executable: &Path, marker: &Marker) -> Command {
    let mut command = Command::new(executable);
    let (name, value) = marker.variable();
    command.env(name, value);
    // The person who runs the tests may have a cluster of their own.
    command.env_remove("STEADFAST_COORDINATORS").env_remove("STEADFAST_TOKEN_FILE");
    command
}

fn assignment(name: &str, path: &Path) -> OsString {
    let mut text = OsString::from(format!("{name}="));
    text.push(path);
    text
}
