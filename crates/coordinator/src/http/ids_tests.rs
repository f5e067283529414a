//! Whatever stands where an id should be: 400 or the right answer, never another container's. And without
//! the container's own secret nothing is extended, told to the loop, read or written.

use steadfast_model::ExecutionId;

use super::stage::{CHECKPOINT, INVALID, LIVE, PLAIN, Stage, UNKNOWN};

/// What stands in the place of the id, as it goes over the wire.
pub(super) fn bad_ids() -> Vec<String> {
    let after = ["&", "%26", "/", "%2F", "%00", "%20", "+", "%C3%A4", "%FF", "%", "%0A", ";", "'"];
    let mut ids: Vec<String> = after.iter().map(|it| format!("{LIVE}{it}x")).collect();
    ids.extend(["%00", "%20", "%C3%A4", "../", "x", "%E2%80%AE"].map(str::to_owned));
    ids.push(String::new());
    ids.push("x".repeat(10_000));
    ids.push(format!("{LIVE}{}", "0".repeat(10_000)));
    ids.push(format!("{LIVE}%00"));
    ids.push(format!("%20{LIVE}"));
    ids.push(LIVE.to_string().to_uppercase());
    ids
}

/// Every route that takes an id in its query, with the name of the key.
const ROUTES: [(&str, &str, &str); 4] = [
    ("GET", "/isContainerValid", "execution_resource_id"),
    ("GET", "/containerHeartbeat", "executionContainerId"),
    ("GET", "/checkpoint", "execution_resource_id"),
    ("PUT", "/checkpoint", "execution_resource_id"),
];

fn assert_untouched(stage: &mut Stage, what: &str) {
    assert_eq!(stage.term.index.standing(LIVE).lease_ends, None, "extended: {what}");
    assert_eq!(stage.checkpoint().as_deref(), Some(CHECKPOINT.as_bytes()), "written: {what}");
    assert!(stage.inputs.try_recv().is_err(), "told: {what}");
}

#[test]
fn what_is_no_id_is_refused_whatever_it_holds() {
    let mut stage = Stage::leading();
    let secret = stage.secret(LIVE);
    for (method, path, key) in ROUTES {
        let mut queries: Vec<String> = bad_ids().iter().map(|id| format!("?{key}={id}")).collect();
        queries.push(String::new());
        queries.push("?".to_owned());
        queries.push(format!("?{key}"));
        queries.push(format!("?{key}={LIVE}&{key}={LIVE}"));
        queries.push(format!("?{key}={UNKNOWN}&{key}={LIVE}"));
        queries.push(format!("?{key}={LIVE}&{key}="));
        queries.push(format!("?{key}={LIVE}&other=1"));
        queries.push(format!("?{}={LIVE}", key.to_uppercase()));
        for query in queries {
            let answer = stage.call(method, &format!("{path}{query}"), Some(&secret), "stolen");
            let shown = &query[..query.len().min(90)];
            assert_eq!(answer.status, 400, "{method} {path}{shown}: {answer:?}");
            assert!(answer.body.len() < 1_000, "it repeats what was sent: {}", answer.body.len());
            assert!(!answer.body.contains(CHECKPOINT), "{answer:?}");
            assert_untouched(&mut stage, &format!("{method} {path}{shown}"));
        }
    }
}

#[test]
fn a_raw_target_that_is_none_is_refused() {
    let mut stage = Stage::leading();
    let secret = stage.secret(LIVE);
    for (method, path, key) in ROUTES {
        for raw in [" ", "\u{e4}", "\u{0}", "\t"] {
            let target = format!("{path}?{key}={LIVE}{raw}x");
            let answer = stage.call(method, &target, Some(&secret), "stolen");
            assert_eq!(answer.status, 400, "{method} {target:?}: {answer:?}");
            assert_untouched(&mut stage, &target);
        }
    }
}

#[test]
fn a_good_bye_of_what_is_no_id_is_refused() {
    let mut stage = Stage::leading();
    let secret = stage.secret(LIVE);
    let outcome = r#""outcome":{"outcome":"exited","code":0},"proof":null"#;
    let mut bodies: Vec<String> = ["", "a&b", "a/b", "\\u0000", " ", "\u{e4}", "x"]
        .map(|id| format!(r#"{{"executionResourceId":"{id}",{outcome}}}"#))
        .into();
    let long = "x".repeat(10_000);
    bodies.push(format!(r#"{{"executionResourceId":"{long}",{outcome}}}"#));
    bodies.push(format!(r#"{{"executionResourceId":"{LIVE} ",{outcome}}}"#));
    bodies.push(format!("{{{outcome}}}"));
    bodies.push(format!(
        r#"{{"executionResourceId":"{UNKNOWN}","executionResourceId":"{LIVE}",{outcome}}}"#
    ));
    bodies.push(String::new());
    for body in bodies {
        let answer = stage.call("POST", "/containerEnded", Some(&secret), &body);
        assert_eq!(answer.status, 400, "{body}: {answer:?}");
        assert!(answer.body.len() < 1_000, "{}", answer.body.len());
        assert_untouched(&mut stage, &body);
    }
}

#[test]
fn without_the_containers_own_secret_nothing_is_extended_told_read_or_written() {
    let mut stage = Stage::leading();
    let others = [stage.secret(PLAIN), stage.secret(INVALID), stage.secret(UNKNOWN)];
    let own = stage.secret(LIVE);
    let wrong = [String::new(), "x".to_owned(), own[1..].to_owned(), format!("{own}0")];
    let shown = others.iter().chain(&wrong).map(|secret| Some(secret.as_str()));
    let good_bye = format!(
        r#"{{"executionResourceId":"{LIVE}","outcome":{{"outcome":"exited","code":0}},"proof":null}}"#
    );
    for secret in shown.chain([None]) {
        let query = format!("execution_resource_id={LIVE}");
        let polled = format!("/isContainerValid?{query}&nonce=1&state=started&pid=2&wrapperPid=3");
        let polled = stage.get(&format!("{polled}&progress=9"), secret);
        match secret {
            Some(secret) if !secret.is_empty() => {
                assert_eq!(polled.status, 401, "{secret:?}: {polled:?}")
            }
            _ => assert_eq!(polled.body, r#"{"isValid":true}"#, "it learns no more"),
        }
        for (method, target, body) in [
            ("GET", format!("/checkpoint?{query}"), ""),
            ("PUT", format!("/checkpoint?{query}"), "stolen"),
            ("POST", "/containerEnded".to_owned(), good_bye.as_str()),
        ] {
            let answer = stage.call(method, &target, secret, body);
            assert_eq!(answer.status, 401, "{method} {target} {secret:?}: {answer:?}");
            assert!(!answer.body.contains(CHECKPOINT), "{answer:?}");
        }
        let target = format!("/containerHeartbeat?executionContainerId={LIVE}");
        assert_eq!(stage.get(&target, secret).body, r#"{"alive":true}"#);
        assert_untouched(&mut stage, &format!("{secret:?}"));
    }
}

/// That the tables above would notice: the same calls with the right secret do what they say.
#[test]
fn with_its_own_secret_a_container_is_heard() {
    let mut stage = Stage::leading();
    let ask = |id: ExecutionId| format!("/isContainerValid?execution_resource_id={id}&nonce=4");
    let secret = stage.secret(LIVE);
    let answer = stage.get(&ask(LIVE), Some(&secret)).json();
    assert_eq!((&answer["isValid"], &answer["nonce"]), (&true.into(), &4.into()), "{answer}");
    assert!(stage.term.index.standing(LIVE).lease_ends.is_some());
    let invalid = stage.get(&ask(INVALID), Some(&stage.secret(INVALID))).json();
    assert_eq!(invalid["reason"], "SUPERSEDED", "{invalid}");
    let target = format!("/checkpoint?execution_resource_id={LIVE}");
    assert_eq!(stage.get(&target, Some(&secret)).body, CHECKPOINT);
    assert_eq!(stage.call("PUT", &target, Some(&secret), "position 8").status, 204);
    assert_eq!(stage.checkpoint().as_deref(), Some(&b"position 8"[..]));
    let started = format!("{}&state=started&pid=2&wrapperPid=3", ask(LIVE));
    assert_eq!(stage.get(&started, Some(&secret)).status, 200);
    assert!(stage.inputs.try_recv().is_ok());
    let late = format!("/checkpoint?execution_resource_id={INVALID}");
    assert_eq!(stage.call("PUT", &late, Some(&stage.secret(INVALID)), "old").status, 409);
    assert_eq!(stage.metric("steadfast_fenced_writes_total"), 1.0);
}
