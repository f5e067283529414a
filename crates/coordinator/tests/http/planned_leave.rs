//! Planning a leave and draining, by a real coordinator with real agents that hold nothing. What becomes of
//! containers is shown by the engine's scenarios and by the end-to-end tests.

use serde_json::{Value, json};
use steadfast_coordinator::Role;

use crate::agent::Agent;
use crate::server::{Answer, Server, credentials, token};

const STRANGER: &str = "23cc7ea6-6374-4f2b-8a33-df75b5e58f52";

fn members(server: &Server) -> Vec<(String, String)> {
    let listed = server.get("/members", Some(&token(Role::Reader))).json();
    let text = |member: &Value, key: &str| member[key].as_str().unwrap().to_owned();
    let listed = listed.as_array().unwrap().iter();
    listed.map(|member| (text(member, "uuid"), text(member, "status"))).collect()
}

/// A cluster of so many members, and their UUIDs.
fn cluster(count: usize) -> (Server, Vec<Agent>, Vec<String>) {
    let server = Server::start(Some(credentials()));
    let agents = (0..count).map(|_| Agent::start(&server)).collect();
    server.until("the members are alive", || {
        members(&server).iter().filter(|(_, status)| status == "ALIVE").count() == count
    });
    let uuids = members(&server).into_iter().map(|(uuid, _)| uuid).collect();
    (server, agents, uuids)
}

fn ask(server: &Server, member: &str, what: &str, body: &Value) -> Answer {
    let operator = token(Role::Operator);
    server.post(&format!("/members/{member}/{what}"), Some(&operator), &body.to_string())
}

#[test]
fn a_request_is_registered_once_and_answered_as_often_as_it_is_asked() {
    let (server, _agents, uuids) = cluster(2);
    let body = json!({"requestId": "kernel-7", "reason": "new kernel", "validSeconds": 60});
    let planned = ask(&server, &uuids[0], "planned-leave", &body);
    assert_eq!(planned.status, 200, "{planned:?}");
    let mut told = planned.json();
    let times = ["registered", "expires"].map(|key| told.as_object_mut().unwrap().remove(key));
    let [Some(Value::String(registered)), Some(Value::String(expires))] = times else {
        panic!("{planned:?}")
    };
    assert!(registered < expires, "{planned:?}");
    assert_eq!(
        told,
        json!({"memberUuid": uuids[0], "requestId": "kernel-7", "actor": "on-call",
            "reason": "new kernel", "draining": false})
    );
    let again = ask(&server, &uuids[0], "planned-leave", &body);
    assert_eq!((again.status, &again.body), (200, &planned.body), "with the same times");

    let another = json!({"requestId": "kernel-7", "reason": "another"});
    for (member, what, body) in [
        (&uuids[1], "planned-leave", &body),
        (&uuids[0], "drain", &body),
        (&uuids[0], "planned-leave", &another),
    ] {
        let refused = ask(&server, member, what, body);
        assert_eq!(refused.status, 409, "{what} {body}: {refused:?}");
        assert!(refused.message().contains("kernel-7"), "{refused:?}");
    }
    assert!(members(&server).iter().all(|(_, status)| status == "ALIVE"), "nothing moves");
}

#[test]
fn a_drained_member_is_draining_until_it_goes() {
    let (server, agents, uuids) = cluster(2);
    let body = json!({"requestId": "kernel-7", "reason": "new kernel"});
    let drained = ask(&server, &uuids[0], "drain", &body);
    assert_eq!((drained.status, &drained.json()["draining"]), (200, &json!(true)), "{drained:?}");
    let status = |uuid: &str| {
        members(&server).into_iter().find(|(one, _)| one == uuid).map(|(_, status)| status)
    };
    assert_eq!(status(&uuids[0]).as_deref(), Some("DRAINING"));
    assert_eq!(status(&uuids[1]).as_deref(), Some("ALIVE"));
    assert_eq!(ask(&server, &uuids[0], "drain", &body).body, drained.body);
    let once_more = json!({"requestId": "kernel-8", "reason": "new kernel"});
    assert_eq!(ask(&server, &uuids[0], "drain", &once_more).status, 409);

    drop(agents);
    server.until("they are lost", || members(&server).iter().all(|(_, status)| status == "LOST"));
    let late = json!({"requestId": "kernel-9", "reason": "new kernel"});
    let refused = ask(&server, &uuids[1], "planned-leave", &late);
    assert_eq!(refused.status, 409, "it is too late: {refused:?}");
}

#[test]
fn what_cannot_be_a_request_is_refused_before_anybody_looks_for_the_member() {
    let server = Server::start(Some(credentials()));
    let good = json!({"requestId": "kernel-7", "reason": "new kernel"});
    for what in ["planned-leave", "drain"] {
        let unknown = ask(&server, STRANGER, what, &good);
        assert_eq!(unknown.status, 404, "{unknown:?}");
        assert!(unknown.message().contains(STRANGER), "{unknown:?}");
        assert_eq!(ask(&server, "23cc", what, &good).status, 400);
        for (body, complaint) in [
            (json!({}), "requestId"),
            (json!({"requestId": "a/b", "reason": "x"}), "a request id"),
            (json!({"requestId": "a".repeat(65), "reason": "x"}), "a request id"),
            (json!({"requestId": "a"}), "reason"),
            (json!({"requestId": "a", "reason": ""}), "reason"),
            (json!({"requestId": "a", "reason": "x\ny"}), "reason"),
            (json!({"requestId": "a", "reason": "x".repeat(201)}), "reason"),
            (json!({"requestId": "a", "reason": "x", "validSeconds": 0}), "validSeconds"),
            (json!({"requestId": "a", "reason": "x", "validSeconds": 3_601}), "validSeconds"),
            (json!({"requestId": "a", "reason": "x", "validSeconds": -1}), "validSeconds"),
            (json!({"requestId": "a", "reason": "x", "actor": "me"}), "actor"),
        ] {
            let refused = ask(&server, STRANGER, what, &body);
            assert_eq!(refused.status, 400, "{body}: {refused:?}");
            assert!(refused.message().contains(complaint), "{body}: {refused:?}");
        }
    }
}

#[test]
fn without_credentials_nobody_can_answer_for_a_leave() {
    let server = Server::start(None);
    for what in ["planned-leave", "drain"] {
        let refused = ask(&server, STRANGER, what, &json!({}));
        assert_eq!(refused.status, 403, "{refused:?}");
        assert!(refused.message().contains("start the coordinator with --auth"), "{refused:?}");
    }
}
