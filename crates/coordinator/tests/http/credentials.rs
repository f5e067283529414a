//! Who is let in, by a real coordinator.

use steadfast_coordinator::{Config, Role, check_address};
use steadfast_store::MemoryStore;

use crate::server::{Server, credentials, token};

/// Every call of people, with what it takes.
const CALLS: [(&str, &str, Role); 12] = [
    ("GET", "/overview", Role::Reader),
    ("GET", "/members", Role::Reader),
    ("GET", "/running-jobs", Role::Reader),
    ("GET", "/finished-jobs", Role::Reader),
    ("GET", "/finished-jobs/FAILED", Role::Reader),
    ("GET", "/job-info/7", Role::Reader),
    ("GET", "/job-info/7/recovery-episodes", Role::Reader),
    ("GET", "/job-info/7/explain", Role::Reader),
    ("POST", "/submit-job", Role::Operator),
    ("POST", "/stop-job", Role::Operator),
    ("POST", "/members/23cc7ea6-6374-4f2b-8a33-df75b5e58f52/planned-leave", Role::Operator),
    ("POST", "/members/23cc7ea6-6374-4f2b-8a33-df75b5e58f52/drain", Role::Operator),
];

#[test]
fn every_call_is_made_by_those_who_may_and_by_nobody_else() {
    let server = Server::start(Some(credentials()));
    for (method, path, needed) in CALLS {
        let call = |token: Option<&str>| server.call(method, path, token, "{}");
        for stranger in [None, Some("wrong"), Some(""), Some("the-operator-token2")] {
            let refused = call(stranger);
            assert_eq!(refused.status, 401, "{method} {path} with {stranger:?}: {refused:?}");
            assert!(refused.has_header("www-authenticate: Bearer"), "{refused:?}");
            assert!(!refused.body.contains("the-operator-token2"), "{refused:?}");
        }
        for role in Role::ALL {
            let answer = call(Some(&token(role)));
            if role == needed || role == Role::Operator {
                assert!(
                    ![401, 403].contains(&answer.status),
                    "{method} {path}, {role}: {answer:?}"
                );
            } else {
                assert_eq!(answer.status, 403, "{method} {path} by a {role}: {answer:?}");
                assert!(answer.message().contains(&needed.to_string()), "{answer:?}");
            }
        }
    }
}

#[test]
fn probes_are_open_and_containers_have_their_own_secrets() {
    let server = Server::start(Some(credentials()));
    assert_eq!(server.get("/health/live", None).status, 200);
    assert_eq!(server.get("/health/ready", None).status, 200);
    let id = "execution_resource_id=container_00000000000000ab_7";
    let asked = server.get(&format!("/isContainerValid?{id}"), None);
    assert_eq!(
        asked.status, 200,
        "without a secret it learns only that it is not valid: {asked:?}"
    );
    // An operator is no container.
    let operator = token(Role::Operator);
    for token in [None, Some(operator.as_str())] {
        let read = server.get(&format!("/checkpoint?{id}"), token);
        assert_eq!(read.status, 401, "{read:?}");
        assert!(read.message().contains("container's own secret"), "{read:?}");
    }
}

#[test]
fn an_agent_needs_a_members_token() {
    let server = Server::start(Some(credentials()));
    for (token, status) in [
        (None, 401),
        (Some("wrong".to_owned()), 401),
        (Some(token(Role::Operator)), 403),
        (Some(token(Role::Reader)), 403),
        (Some(token(Role::Member)), 101),
    ] {
        let answer = server.get("/agent", token.as_deref());
        assert_eq!(answer.status, status, "{token:?}: {answer:?}");
    }
}

#[test]
fn a_stranger_does_not_learn_which_paths_there_are() {
    let server = Server::start(Some(credentials()));
    for path in ["/", "/nothing", "/health/live/", "/Members", "/members?x=1", "/%6dembers"] {
        assert_eq!(server.get(path, None).status, 401, "{path}");
    }
    assert_eq!(server.get("/nothing", Some(&token(Role::Reader))).status, 404);
    assert_eq!(server.call("DELETE", "/members", Some(&token(Role::Reader)), "").status, 403);
    assert_eq!(server.call("DELETE", "/members", Some(&token(Role::Operator)), "").status, 405);
}

#[test]
fn without_credentials_everybody_on_this_machine_may_look_and_submit() {
    let server = Server::start(None);
    for token in [None, Some("whatever")] {
        assert_eq!(server.get("/members", token).status, 200);
        assert_eq!(server.post("/submit-job", token, "{}").status, 400, "it is read");
    }
}

#[test]
fn without_credentials_nobody_else_can_reach_it() {
    let address = |text: &str| text.parse().unwrap();
    for (listen, has_credentials, complaint) in [
        ("127.0.0.1:8080", false, None),
        ("[::1]:8080", false, None),
        ("127.0.0.1:8080", true, None),
        ("192.0.2.7:8080", true, None),
        (
            "192.0.2.7:8080",
            false,
            Some("without --auth FILE a coordinator listens on loopback only"),
        ),
        ("0.0.0.0:8080", false, Some("without --auth FILE")),
        ("0.0.0.0:8080", true, Some("name the address under which they reach it")),
        ("[::]:8080", true, Some("name the address under which they reach it")),
    ] {
        let refused = check_address(address(listen), has_credentials).err();
        let refused = refused.map(|error| error.to_string());
        match complaint {
            None => assert_eq!(refused, None, "{listen}"),
            Some(complaint) => {
                assert!(refused.is_some_and(|it| it.contains(complaint)), "{listen}")
            }
        }
    }
    let config = Config {
        listen: address("0.0.0.0:0"),
        urls: Vec::new(),
        credentials: None,
        settings: Default::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = std::sync::Arc::new(MemoryStore::new());
    let run = steadfast_coordinator::run(store, config, std::future::pending());
    assert!(runtime.block_on(run).unwrap_err().to_string().contains("--auth"));
}
