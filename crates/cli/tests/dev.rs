//! `steadfast dev` as a process that owns others: what it starts, what it leaves alone, and that it
//! leaves nothing behind. What a cluster does is shown by the end-to-end tests.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// Far more than anything here takes; only a failing test ever waits so long.
const PATIENCE: Duration = Duration::from_secs(60);

struct Dev {
    process: Child,
    lines: Receiver<String>,
}

fn command(data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
    command.args(["dev", "--members", "1", "--slots", "1", "--data"]).arg(data);
    command.stdin(Stdio::null());
    command
}

impl Dev {
    fn start(data: &Path) -> Self {
        let mut command = command(data);
        let mut process =
            command.args(["--http", "127.0.0.1:0"]).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        let (said, lines) = mpsc::channel();
        thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| said.send(line))
        });
        Self { process, lines }
    }

    /// The next line with this in it, and those before it.
    fn until(&self, part: &str) -> Vec<String> {
        let mut seen = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        while let Ok(line) =
            self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {
            seen.push(line);
            if seen.last().is_some_and(|line| line.contains(part)) {
                return seen;
            }
        }
        panic!("{part:?} was never said, only {seen:#?}");
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // Only where the test failed before it ended; then its processes go with it.
        if self.process.try_wait().is_ok_and(|status| status.is_none()) {
            self.signal(Signal::TERM);
            let _ = self.process.wait();
        }
    }
}

fn pids(data: &Path) -> Vec<(String, Pid)> {
    let record = fs::read(data.join("dev.json")).unwrap();
    let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
    let children = record["children"].as_array().unwrap();
    children
        .iter()
        .map(|child| {
            let pid = i32::try_from(child["pid"].as_i64().unwrap()).unwrap();
            (child["name"].as_str().unwrap().to_owned(), Pid::from_raw(pid).unwrap())
        })
        .collect()
}

#[test]
fn it_restarts_the_coordinator_alone_and_stops_all_that_it_started() {
    let data = tempfile::tempdir().unwrap();
    let mut dev = Dev::start(data.path());
    let said = dev.until("steadfast: ready at http://127.0.0.1:");
    assert_eq!(said.len(), 2, "{said:?}");
    let first = pids(data.path());
    let [(member, member_pid), (coordinator, coordinator_pid)] = first.as_slice() else {
        panic!("{first:?}")
    };
    assert_eq!((member.as_str(), coordinator.as_str()), ("member-1", "coordinator"));

    kill_process(*coordinator_pid, Signal::KILL).unwrap();
    dev.until("was ended by signal 9; starting it again");
    kill_process(*member_pid, Signal::KILL).unwrap();
    dev.until("was ended by signal 9; it is not replaced");
    let second = pids(data.path());
    let [(name, again)] = second.as_slice() else { panic!("{second:?}") };
    assert_eq!(name, "coordinator");
    assert_ne!(again, coordinator_pid);

    dev.signal(Signal::INT);
    assert_eq!(dev.process.wait().unwrap().code(), Some(0));
    assert_eq!(pids(data.path()), []);
    assert!(test_kill_process(*again).is_err(), "the coordinator is gone");
}

#[test]
fn what_a_killed_run_left_is_ended_by_the_next() {
    let data = tempfile::tempdir().unwrap();
    let mut first = Dev::start(data.path());
    first.until("steadfast: ready at");
    let left = pids(data.path());
    first.signal(Signal::KILL);
    first.process.wait().unwrap();

    let mut second = Dev::start(data.path());
    let said = second.until("steadfast: ready at");
    assert_eq!(said.len(), 4, "{said:?}");
    assert!(said[1].contains("ended member-1 (pid "), "{said:?}");
    assert!(said[2].contains("ended coordinator (pid "), "{said:?}");
    for (name, pid) in &left {
        assert!(pids(data.path()).iter().all(|(_, new)| new != pid), "{name} is a new process");
    }
    second.signal(Signal::TERM);
    assert_eq!(second.process.wait().unwrap().code(), Some(0));
}

#[test]
fn a_child_that_dies_at_the_start_is_told_with_its_log() {
    let data = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = command(data.path()).args(["--http", &address]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    let log = data.path().join("log/coordinator.log").display().to_string();
    let expected = "error: the coordinator ended with exit code 2 before the coordinator is ready";
    assert!(stderr.starts_with(&format!("{expected}; its log is {log}, and ends:\n")), "{stderr}");
    assert!(stderr.contains(&format!("cannot listen on {address}")), "{stderr}");
}

#[test]
fn a_refused_job_file_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("job.conf");
    fs::write(&file, "env { job.name = j").unwrap();
    let data = folder.path().join("data");
    let output = command(&data).arg("--submit").arg(&file).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains(&format!("{}:1:", file.display())), "{stderr}");
    assert!(!data.exists());
}
