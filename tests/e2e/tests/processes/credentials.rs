//! Who may do what, at a real cluster: the refusals, and that asking twice is asking once.

use serde_json::Value;
use steadfast_e2e::{Answer, Cluster, MemberStatus, Rest, Role};

const STRANGER: &str = "23cc7ea6-6374-4f2b-8a33-df75b5e58f52";

#[track_caller]
fn ask(rest: &Rest, member: &str, what: &str, body: &str) -> Answer {
    rest.post(&format!("/members/{member}/{what}"), "application/json", body.as_bytes())
}

#[test]
fn a_drain_needs_an_operator_and_a_member_and_an_unused_request() {
    let cluster = Cluster::start_with_auth(2, 1);
    let operator = cluster.rest();
    let anybody = Rest::new(operator.url());
    let reader = anybody.with_token(&cluster.access().token(Role::Reader));
    let members = operator.members();
    let [first, second] = &members[..] else { panic!("{members:?}") };
    let body = r#"{"requestId": "kernel-7", "reason": "new kernel"}"#;
    for what in ["drain", "planned-leave"] {
        for (rest, status) in [(&anybody, 401), (&anybody.with_token("wrong"), 401), (&reader, 403)]
        {
            let refused = ask(rest, &first.uuid, what, body);
            assert_eq!(refused.status, status, "{what}: {refused:?}");
        }
        let unknown = ask(operator, STRANGER, what, body);
        assert_eq!(unknown.status, 404, "{what}: {unknown:?}");
        for bad in [
            r#"{"requestId": "a/b", "reason": "x"}"#,
            r#"{"requestId": "a", "reason": ""}"#,
            r#"{"requestId": "a", "reason": "x", "validSeconds": 3601}"#,
            r#"{"requestId": "a", "reason": "x", "valid": 1}"#,
            "{}",
            "",
        ] {
            let refused = ask(operator, &first.uuid, what, bad);
            assert_eq!(refused.status, 400, "{what} {bad}: {refused:?}");
        }
    }
    assert_eq!(reader.members().len(), 2, "a reader may look");
    let alive = operator.members().iter().filter(|one| one.status == MemberStatus::Alive).count();
    assert_eq!(alive, 2, "nothing has happened");

    let drained = ask(operator, &first.uuid, "drain", body);
    assert_eq!(drained.status, 200, "{drained:?}");
    let registered: Value = drained.json();
    assert_eq!(registered["memberUuid"], first.uuid.as_str());
    assert_eq!(
        (&registered["actor"], &registered["reason"]),
        (&"on-call".into(), &"new kernel".into())
    );
    assert_eq!(
        (&registered["requestId"], &registered["draining"]),
        (&"kernel-7".into(), &true.into())
    );

    let again = ask(operator, &first.uuid, "drain", body);
    assert_eq!((again.status, again.body), (200, drained.body), "asked twice, answered as once");
    for (member, what, body) in [
        (&second.uuid, "drain", body),
        (&first.uuid, "planned-leave", body),
        (&first.uuid, "drain", r#"{"requestId": "kernel-7", "reason": "another"}"#),
        (&first.uuid, "drain", r#"{"requestId": "kernel-8", "reason": "new kernel"}"#),
    ] {
        let refused = ask(operator, member, what, body);
        assert_eq!(refused.status, 409, "{what} {member} {body}: {refused:?}");
    }
    let now = operator.members();
    let status = |uuid: &str| now.iter().find(|one| one.uuid == uuid).map(|one| one.status);
    assert_eq!(status(&first.uuid), Some(MemberStatus::Draining));
    assert_eq!(status(&second.uuid), Some(MemberStatus::Alive));
}

#[test]
fn without_auth_nobody_can_answer_for_a_leave() {
    let cluster = Cluster::start(1, 1);
    let member = &cluster.rest().members()[0].uuid;
    for (rest, what) in
        [(cluster.rest(), "drain"), (&cluster.rest().with_token("any"), "planned-leave")]
    {
        let body = r#"{"requestId": "a", "reason": "b"}"#;
        let refused = ask(rest, member, what, body);
        assert_eq!(refused.status, 403, "{refused:?}");
        assert!(refused.body.contains("--auth"), "it says what to do: {refused:?}");
        let refused = cluster.run(&mut cluster.steadfast([what, member]));
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains("--auth"), "{refused:?}");
    }
}

/// What is wrong with a token file is said with its place, and nothing is started.
#[test]
fn a_bad_token_file_starts_nothing() {
    for arguments in [vec!["dev", "--data"], vec!["coordinator", "--store"]] {
        let folder = tempfile::tempdir().expect("a folder for temporary files is needed");
        let (file, data) = (folder.path().join("tokens.conf"), folder.path().join("data"));
        std::fs::write(&file, "tokens = [\n  { name = a, role = admin, sha256 = b }\n]")
            .expect("it is ours");
        let store = match arguments[0] {
            "dev" => data.clone().into_os_string(),
            _ => format!("embedded:{}", data.display()).into(),
        };
        let mut command = std::process::Command::new(steadfast_e2e::binary("steadfast"));
        command.args(&arguments).arg(store).args(["--http", "127.0.0.1:0", "--auth"]).arg(&file);
        let refused = command.output().expect("it was built");
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        let stderr = String::from_utf8_lossy(&refused.stderr);
        assert!(stderr.contains(&format!("{}:2:", file.display())), "{stderr}");
        assert!(stderr.contains("tokens[0].role"), "{stderr}");
        assert!(!data.exists(), "nothing is started");
    }
}

#[test]
fn the_command_line_shows_the_token_that_it_is_told_to() {
    let cluster = Cluster::start_with_auth(1, 1);
    let members = cluster.run(&mut cluster.steadfast(["members", "--json"]));
    assert_eq!(members.code, Some(0), "{members:?}");
    let refused = cluster.run(cluster.steadfast(["members"]).env_remove("STEADFAST_TOKEN_FILE"));
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("--token-file"), "it says what to do: {refused:?}");
    let reader = cluster.access().token_file(Role::Reader);
    let reader = reader.to_str().expect("temporary folders have plain names");
    for (arguments, code) in [
        (vec!["members", "--token-file", reader], 0),
        (vec!["--token-file", reader, "stop", "7"], 2),
        (vec!["members", "--token-file", "there-is-none"], 2),
    ] {
        let ran = cluster.run(&mut cluster.steadfast(arguments.clone()));
        assert_eq!(ran.code, Some(code), "{arguments:?}: {ran:?}");
    }
}
