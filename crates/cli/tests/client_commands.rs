//! The client commands as a script sees them: exit codes, and standard output to the byte.
//!
//! The process is the real one; only the coordinator is made up, so that each answer can be had at will.

mod fake_coordinator;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use fake_coordinator::{Answer, FakeCoordinator};

const JOB_FILE: &str = r#"env { job.name = "j" }
pipelines = [{ name = "p", tasks = [
  { name = "t", parallelism = ${N}, command = ["true"] }
] }]
"#;
const ACCEPTED: &str = r#"{"jobId":"7","jobName":"j"}"#;

struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn steadfast(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
    command.env_remove("STEADFAST_COORDINATORS").env_remove("STEADFAST_TOKEN_FILE");
    command.stdin(Stdio::null()).args(arguments);
    command
}

fn run(arguments: &[&str]) -> Ran {
    let output = steadfast(arguments).output().unwrap();
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn job_file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("job.conf");
    fs::write(&path, text).unwrap();
    (folder, path)
}

/// `GET /job-info/7` with this status.
fn job(status: &str) -> Answer {
    let body = format!(
        r#"{{"jobId":"7","jobName":"j","jobStatus":"{status}","createTime":"2026-11-30T09:31:02.123Z","finishTime":null,"envOptions":{{}},"errorMsg":null,"counts":{{"memberLoss":0,"program":0,"ladder":0,"planned":0}},"pipelines":[]}}"#
    );
    Some((200, body))
}

/// Accepts the job, then shows it with each status once, the last for ever.
fn goes_through(statuses: &'static [&'static str]) -> FakeCoordinator {
    FakeCoordinator::start(move |what, before| match what {
        "POST /submit-job" => Some((200, ACCEPTED.into())),
        "GET /job-info/7" => job(statuses[before.min(statuses.len() - 1)]),
        _ => None,
    })
}

#[test]
fn submit_waits_and_ends_as_the_job_ended() {
    for (end, code) in [("FINISHED", 0), ("FAILED", 1), ("CANCELED", 3)] {
        let coordinator = match end {
            "FINISHED" => goes_through(&["PENDING", "RUNNING", "RUNNING", "FINISHED"]),
            "FAILED" => goes_through(&["PENDING", "RUNNING", "RUNNING", "FAILED"]),
            _ => goes_through(&["PENDING", "RUNNING", "RUNNING", "CANCELED"]),
        };
        let (_folder, path) = job_file(JOB_FILE);
        let path = path.to_str().unwrap();
        let ran = run(&["submit", path, "--set", "N=2", "--coordinators", &coordinator.url]);
        assert_eq!(ran.code, Some(code), "{}", ran.stderr);
        assert_eq!(
            ran.stdout,
            format!(
                "submitted j as job 7\njob 7 j: PENDING; 0 of 0 task groups run\n\
                 job 7 j: RUNNING; 0 of 0 task groups run\njob 7 j: {end}\n"
            )
        );
        let sent = &coordinator.asked()[0];
        assert_eq!(sent.what, "POST /submit-job");
        // Checked and filled: the number is one, and nothing is left to substitute.
        assert_eq!(
            sent.body,
            r#"{"env":{"job.name":"j"},"pipelines":[{"name":"p","tasks":[{"command":["true"],"name":"t","parallelism":2}]}]}"#
        );
    }
}

#[test]
fn detached_as_json_it_prints_the_answer_and_nothing_else() {
    let coordinator = goes_through(&["RUNNING"]);
    let (_folder, path) = job_file(JOB_FILE);
    let path = path.to_str().unwrap();
    let arguments = ["--coordinators", &coordinator.url, "submit", "--detach", "--json", path];
    let ran = run(&[arguments.as_slice(), &["--set", "N=1"]].concat());
    assert_eq!((ran.code, ran.stdout), (Some(0), format!("{ACCEPTED}\n")));
    assert_eq!(ran.stderr, "");
    assert_eq!(coordinator.asked().len(), 1, "nobody waits");
}

#[test]
fn a_file_that_the_client_refuses_reaches_nobody() {
    let coordinator = goes_through(&["RUNNING"]);
    let (_folder, path) = job_file(&JOB_FILE.replace("job.name", "job.nmae"));
    let path = path.to_str().unwrap();
    let arguments = ["submit", path, "--set", "N=0", "--coordinators", &coordinator.url];
    let ran = run(&arguments);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert_eq!(lines.len(), 4, "{}", ran.stderr);
    assert_eq!(
        lines[0],
        format!("error: the job file {path} has 3 problems; nothing was submitted")
    );
    assert!(lines[1].starts_with(&format!("{path}:1:5: env.job.name: this key is missing")));
    assert!(
        lines[2].starts_with(&format!(
            "{path}:1:11: env.job.nmae: unknown key (did you mean job.name?)"
        ))
    );
    assert!(
        lines[3].starts_with(&format!("{path}:3:31: pipelines[0].tasks[0].parallelism: expected"))
    );

    let ran = run(&[arguments.as_slice(), &["--json", "--detach"]].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(2), ""));
    let body: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&body["status"], ran.stdout.lines().count()), (&"fail".into(), 1));
    let problem = &body["details"][2];
    assert_eq!((&problem["file"], &problem["line"]), (&path.into(), &3.into()));
    assert_eq!(problem["key"], "pipelines[0].tasks[0].parallelism");
    assert_eq!(coordinator.asked(), []);
}

#[test]
fn what_only_the_coordinator_finds_gets_its_place_in_the_file() {
    let coordinator = FakeCoordinator::start(|_, _| {
        let body = r#"{"status":"fail","message":"refused","details":[{"file":null,"line":1,"column":70,"key":"pipelines[0].tasks[0].parallelism","message":"too many"}]}"#;
        Some((400, body.into()))
    });
    let (_folder, path) = job_file(JOB_FILE);
    let path = path.to_str().unwrap();
    let arguments = ["submit", path, "--set", "N=9", "--coordinators", &coordinator.url];
    let ran = run(&arguments);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    let problem = "pipelines[0].tasks[0].parallelism: too many";
    assert_eq!(ran.stderr, format!("error: refused\n{path}:3:31: {problem}\n"));

    let ran = run(&[arguments.as_slice(), &["--json"]].concat());
    assert_eq!(ran.code, Some(2));
    assert_eq!(
        ran.stdout,
        format!(
            r#"{{"status":"fail","message":"refused","details":[{{"file":"{path}","line":3,"column":31,"key":"pipelines[0].tasks[0].parallelism","message":"too many"}}]}}"#
        ) + "\n"
    );
}

#[test]
fn check_submits_nothing_and_works_without_a_coordinator() {
    let coordinator = FakeCoordinator::start(|what, _| match what {
        "POST /submit-job?dryRun=true" => Some((200, r#"{"jobId":null,"jobName":"j"}"#.into())),
        _ => None,
    });
    let (_folder, path) = job_file(JOB_FILE);
    let path = path.to_str().unwrap();
    let check = ["submit", path, "--check", "--set", "N=1", "--coordinators"];
    let ran = run(&[check.as_slice(), &[&coordinator.url]].concat());
    let right = format!("{path} is right: job j, not submitted\n");
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), right.as_str(), ""));

    let ran = run(&[check.as_slice(), &[nobody().as_str()]].concat());
    assert_eq!((ran.code, ran.stdout), (Some(0), right));
    assert!(ran.stderr.contains("checked by this program alone"), "{}", ran.stderr);
}

#[test]
fn a_coordinator_that_is_away_is_waited_for() {
    // No answer at all, long enough for the client to give up asking once.
    let coordinator = FakeCoordinator::start(|what, before| match (what, before) {
        ("POST /submit-job", _) => Some((200, ACCEPTED.into())),
        (_, 0) => job("RUNNING"),
        (_, 1..=8) => None,
        _ => job("FINISHED"),
    });
    let (_folder, path) = job_file(JOB_FILE);
    let path = path.to_str().unwrap();
    let ran = run(&["submit", path, "--set", "N=1", "--coordinators", &coordinator.url]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(
        ran.stdout,
        "submitted j as job 7\njob 7 j: RUNNING; 0 of 0 task groups run\n\
         no coordinator answers: waiting for one (the job goes on)\n\
         a coordinator answers again\njob 7 j: FINISHED\n"
    );
}

#[test]
fn an_interrupt_detaches_and_says_how_to_stop_the_job() {
    let coordinator = goes_through(&["RUNNING"]);
    let (_folder, path) = job_file(JOB_FILE);
    let path = path.to_str().unwrap();
    let mut child = steadfast(&["submit", path, "--set", "N=1"])
        .env("STEADFAST_COORDINATORS", &coordinator.url)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Once the job's state is told, the handler stands.
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let told = stdout.lines().map_while(Result::ok).any(|line| line.contains("RUNNING"));
    assert!(told);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        stderr,
        "detached: job 7 goes on. `steadfast job 7` shows it, `steadfast stop 7` stops it\n"
    );
    assert!(coordinator.asked().iter().all(|asked| !asked.what.contains("stop-job")));
}

#[test]
fn lists_are_the_coordinators_answer_for_scripts_and_a_table_for_people() {
    let running = r#"{"jobId":"9","jobName":"b","jobStatus":"RUNNING","createTime":"2026-11-30T09:31:02.123Z","finishTime":null,"dirtyTask":{"dirty":false,"evaluationStatus":"CLEAN","recoveryAttemptCount":1}}"#;
    let ended = r#"{"jobId":"7","jobName":"a","jobStatus":"FINISHED","createTime":"2026-11-30T08:00:00.000Z","finishTime":"2026-11-30T08:00:05.000Z"}"#;
    let coordinator = FakeCoordinator::start(move |what, _| match what {
        "GET /running-jobs" => Some((200, format!("[{running}]"))),
        "GET /finished-jobs" => Some((200, format!("[{ended}]"))),
        _ => None,
    });
    let ran = run(&["jobs", "--json", "--coordinators", &coordinator.url]);
    assert_eq!((ran.code, ran.stdout), (Some(0), format!("[{running},{ended}]\n")));

    let ran = run(&["jobs", "--coordinators", &coordinator.url]);
    let rows: Vec<Vec<&str>> =
        ran.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        rows,
        [
            vec!["JOB", "NAME", "STATUS", "LABEL", "RECOVERIES", "SUBMITTED", "ENDED"],
            vec!["9", "b", "RUNNING", "CLEAN", "1", "2026-11-30T09:31:02.123Z", "-"],
            vec![
                "7",
                "a",
                "FINISHED",
                "-",
                "-",
                "2026-11-30T08:00:00.000Z",
                "2026-11-30T08:00:05.000Z"
            ],
        ]
    );
}

#[test]
fn a_job_that_is_not_there_is_said_in_both_languages() {
    let body = r#"{"status":"fail","message":"there is no job 8","details":[]}"#;
    let coordinator = FakeCoordinator::start(move |_, _| Some((404, body.into())));
    for command in ["job", "stop", "explain"] {
        let ran = run(&[command, "8", "--coordinators", &coordinator.url]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
        assert!(ran.stderr.starts_with("error: ") && ran.stderr.contains("there is no job 8"));
        let ran = run(&[command, "8", "--json", "--coordinators", &coordinator.url]);
        assert_eq!((ran.code, ran.stdout), (Some(2), format!("{body}\n")));
    }
}

#[test]
fn nobody_there_is_said_with_whom_was_asked() {
    let nobody = nobody();
    let ran = run(&["members", "--coordinators", &nobody]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert!(
        ran.stderr.contains(&nobody) && ran.stderr.contains("--coordinators"),
        "{}",
        ran.stderr
    );
    let ran = run(&["members", "--coordinators", "localhost"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("expected http://HOST:PORT"), "{}", ran.stderr);
}

const MEMBER: &str = "23cc7ea6-6374-4f2b-8a33-df75b5e58f52";

fn members(status: &str, used: u32) -> Answer {
    let body = format!(
        r#"[{{"uuid":"{MEMBER}","host":"h","address":"127.0.0.1:1","pid":4711,"status":"{status}","slots":4,"usedSlots":{used},"lastSeen":"2026-11-30T09:31:02.123Z","version":"0.1.0","featureLevel":1,"tags":{{}}}}]"#
    );
    Some((200, body))
}

fn leave(draining: bool) -> String {
    format!(
        r#"{{"memberUuid":"{MEMBER}","requestId":"r-1","actor":"on-call","reason":"new kernel","registered":"2026-11-30T09:31:02.123Z","expires":"2026-11-30T09:41:02.123Z","draining":{draining}}}"#
    )
}

#[test]
fn drain_finds_the_member_asks_once_and_waits_until_it_holds_nothing() {
    let drain = format!("POST /members/{MEMBER}/drain");
    let coordinator = FakeCoordinator::start({
        let drain = drain.clone();
        move |what, before| match (what, before) {
            (what, _) if what == drain => Some((200, leave(true))),
            ("GET /members", 0) => members("ALIVE", 2),
            ("GET /members", 1) => members("DRAINING", 2),
            ("GET /members", _) => members("DRAINING", 0),
            _ => None,
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    fs::write(&token, "s3cret\n").unwrap();
    let arguments = ["drain", "23CC", "--reason", "new kernel", "--request-id", "r-1"];
    let more = ["--valid-seconds", "60", "--token-file", token.to_str().unwrap()];
    let ran = run(&[&arguments[..], &more, &["--coordinators", &coordinator.url]].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(
        ran.stdout,
        format!(
            "on-call drains member {MEMBER} (request r-1)\nmember {MEMBER} holds nothing any more: its \
             agent (pid 4711 on h) can be ended\n"
        )
    );
    let asked = coordinator.asked();
    let bodies: Vec<&str> =
        asked.iter().filter(|asked| asked.what == drain).map(|asked| asked.body.as_str()).collect();
    assert_eq!(bodies, [r#"{"reason":"new kernel","requestId":"r-1","validSeconds":60}"#]);
    assert!(
        asked.iter().all(|it| it.authorization.as_deref() == Some("Bearer s3cret")),
        "{asked:?}"
    );
}

#[test]
fn a_planned_leave_is_registered_and_not_waited_for() {
    let coordinator = FakeCoordinator::start(|what, _| {
        (what == format!("POST /members/{MEMBER}/planned-leave")).then(|| (200, leave(false)))
    });
    let arguments = ["planned-leave", MEMBER, "--coordinators", &coordinator.url];
    let ran = run(&arguments);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("it is planned if it goes before 2026-11-30T09:41:02.123Z"));
    let ran = run(&[&arguments[..], &["--json"]].concat());
    assert_eq!((ran.code, ran.stdout), (Some(0), format!("{}\n", leave(false))));
    let asked = coordinator.asked();
    let [first, second] = &asked[..] else { panic!("{asked:?}") };
    assert_ne!(first.body, second.body, "each has an id of its own where none was given");
}

#[test]
fn a_refused_drain_is_said_in_both_languages() {
    let body = r#"{"status":"fail","message":"the others lack 2 slots","details":[]}"#;
    let coordinator = FakeCoordinator::start(move |_, _| Some((409, body.into())));
    let ran = run(&["drain", MEMBER, "--coordinators", &coordinator.url]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert!(ran.stderr.ends_with("refused with 409: the others lack 2 slots\n"), "{}", ran.stderr);
    let ran = run(&["drain", MEMBER, "--json", "--coordinators", &coordinator.url]);
    assert_eq!((ran.code, ran.stdout), (Some(2), format!("{body}\n")));
}

#[test]
fn a_token_goes_to_one_side_and_its_entry_to_the_other() {
    let ran = run(&["token", "on-call", "--role", "operator"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let token = ran.stdout.trim_end();
    assert_eq!(token.len(), 64, "{token}");
    assert!(token.chars().all(|c| c.is_ascii_hexdigit()));
    assert!(ran.stderr.starts_with(r#"{ name = "on-call", role = "operator", sha256 = ""#));
    assert!(!ran.stderr.contains(token));

    let again = run(&["token", "on-call", "--role", "operator", "--json"]);
    let made: serde_json::Value = serde_json::from_str(&again.stdout).unwrap();
    assert_ne!(made["token"], token, "nobody guesses it");
    assert_eq!(
        (&made["entry"]["name"], &made["entry"]["role"]),
        (&"on-call".into(), &"operator".into())
    );
    assert_eq!(again.stderr, "");

    let refused = run(&["token", "on call", "--role", "operator"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""));
}

/// The URL of a port on which nobody listens.
fn nobody() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn logs_prints_what_was_written_and_nothing_else() {
    const WRITTEN: &str = "no end of a line \0 {not json";
    let coordinator = FakeCoordinator::start(|what, _| match what {
        "GET /job-info/7/logs/1?stream=stdout" => Some((200, WRITTEN.into())),
        "GET /job-info/7/logs/1?attempt=2&stream=stderr&tail=3" => Some((200, "wrong".into())),
        "GET /job-info/7/logs/1?stream=wrapper&follow=true" => Some((200, "lease".into())),
        "GET /job-info/7/logs/4?stream=stdout" => {
            let message = "attempt 1 of task group 4 ran on member M (host a, LOST), and …";
            Some((409, format!(r#"{{"status":"fail","message":"{message}","details":[]}}"#)))
        }
        _ => None,
    });
    let logs = |more: &[&str]| {
        run(&[&["logs", "7"], more, &["--coordinators", &coordinator.url]].concat())
    };
    let ran = logs(&["1"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), WRITTEN), "{}", ran.stderr);
    assert_eq!(ran.stderr, "");
    assert_eq!(logs(&["1", "--attempt", "2", "--stderr", "--tail", "3"]).stdout, "wrong");
    let followed = logs(&["1", "--wrapper", "-f"]);
    assert_eq!(followed.stdout, "lease");
    assert!(followed.stderr.contains("task group 1 has ended"), "{}", followed.stderr);
    let lost = logs(&["4"]);
    assert_eq!((lost.code, lost.stdout.as_str()), (Some(2), ""));
    assert!(lost.stderr.contains("member M (host a, LOST)"), "{}", lost.stderr);
}

/// Another program's page where the coordinator should be (cases, V7): the container is not ended, and
/// whoever reads its log learns why, once and not once a second.
#[test]
fn a_page_that_is_no_verdict_is_survived_and_told_loudly_once() {
    let nonce_of = |what: &str| {
        let query = what.split_once('?').map(|(_, query)| query.to_owned());
        query
            .into_iter()
            .flat_map(|query| {
                query
                    .split('&')
                    .filter_map(|pair| pair.strip_prefix("nonce="))
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            })
            .next()
    };
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let coordinator = FakeCoordinator::start(move |what, _| {
        if what == "POST /containerEnded" {
            return Some((200, "{}".into()));
        }
        let nonce = nonce_of(what)?;
        // A yes to begin with, then twelve times a page, then a yes again.
        match asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            1..=6 => Some((404, "<h1>not here</h1>".into())),
            7..=12 => Some((200, "<h1>welcome</h1>".into())),
            _ => Some((
                200,
                format!(
                    r#"{{"isValid":true,"leaseMs":60000,"nextPollMs":10,"fencingToken":1,"coordinatorEpoch":1,"nonce":{nonce}}}"#
                ),
            )),
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let go_on = folder.path().join("go");
    let script = "while ! [ -e go ]; do sleep 0.02; done; exit 7";
    let mut wrapper = steadfast(&["exec", "--", "sh", "-c", script])
        .current_dir(folder.path())
        .env("EXECUTION_RESOURCE_ID", "container_00000000000000ab_7")
        .env("STEADFAST_CONTAINER_SECRET", "secret")
        .env("STEADFAST_COORDINATORS", &coordinator.url)
        .env("STEADFAST_LEASE_MS", "60000")
        .env("STEADFAST_GRACE_MS", "1000")
        .env("STEADFAST_SCHEDULE_MS", "10")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = Vec::new();
    for line in BufReader::new(wrapper.stderr.take().unwrap()).lines().map_while(Result::ok) {
        if line.contains("a verdict again") {
            fs::write(&go_on, "").unwrap();
        }
        log.push(line);
    }
    assert_eq!(wrapper.wait().unwrap().code(), Some(7), "it lived on: {log:#?}");
    let told = |level: &str, what: &str| {
        log.iter().filter(|line| line.contains(level) && line.contains(what)).count()
    };
    assert_eq!(told("ERROR", "status 404"), 1, "{log:#?}");
    assert_eq!(told("ERROR", "status 200"), 1, "{log:#?}");
    assert_eq!(told("ERROR", &coordinator.url), 2, "{log:#?}");
    assert_eq!(told("INFO", "a verdict again, after 12 answers"), 1, "{log:#?}");
}
