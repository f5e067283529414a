//! `logs`: what a program has written, to the byte, while it runs and after, whoever is killed meanwhile.

use std::process::Output;

use steadfast_e2e::{Cluster, PATIENCE, Signal, wait_until};

/// No text, no end of the last line, and a line that no buffer holds.
const SCRIPT: &str = r"printf 'first \0 \377 bytes\n'; echo wrong >&2
    head -c 3000000 /dev/zero | tr '\0' x; printf '\nlast without an end'; exec sleep 600";

fn written() -> Vec<u8> {
    [b"first \0 \xff bytes\n".to_vec(), vec![b'x'; 3_000_000], b"\nlast without an end".to_vec()]
        .concat()
}

fn logs(cluster: &Cluster, id: &str, more: &[&str]) -> Output {
    let mut command = cluster.steadfast(["logs", id]);
    command.args(more).output().expect("the product's binary starts")
}

#[test]
fn output_is_read_to_the_byte_whoever_is_killed_meanwhile() {
    let cluster = Cluster::start(2, 2);
    let job = serde_json::json!({
        "env": {"job.name": "talker"},
        "pipelines": [{"name": "p", "tasks": [
            {"name": "talks", "command": ["sh", "-c", SCRIPT]},
            {"name": "listens", "command": ["sleep", "600"]},
        ]}],
    });
    let id = cluster.submit_text("job.json", &job.to_string());
    let running = cluster.wait_until_runs(&id, 1);
    let all = written();
    wait_until(PATIENCE, "everything to be written", || {
        (logs(&cluster, &id, &["talks"]).stdout.len() == all.len()).then_some(())
    });
    let read = |more: &[&str]| {
        let read = logs(&cluster, &id, more);
        assert_eq!(read.status.code(), Some(0), "{}", String::from_utf8_lossy(&read.stderr));
        read.stdout
    };
    assert!(read(&["talks/0"]) == all, "the bytes are the program's");
    assert_eq!(read(&["1", "--tail", "1"]), b"last without an end");
    assert_eq!(read(&["1", "--stderr"]), b"wrong\n");
    assert_eq!(read(&["listens"]), b"");
    let unnamed = logs(&cluster, &id, &[]);
    let complaint = String::from_utf8_lossy(&unnamed.stderr).into_owned();
    assert_eq!((unnamed.status.code(), unnamed.stdout.len()), (Some(2), 0), "{complaint}");
    assert!(complaint.contains("1 (talks/0), 2 (listens/0)"), "{complaint}");

    // Followed over the coordinator's death to the program's.
    let mut follow = cluster.steadfast(["logs", &id, "1", "--follow"]);
    let mut following = cluster.spawn(&mut follow);
    wait_until(PATIENCE, "the follower to have read what there is", || {
        following.stdout().ends_with("without an end").then_some(())
    });
    let coordinator = cluster.coordinator();
    coordinator.signal(Signal::KILL);
    cluster.wait_until_led_again(coordinator);
    wait_until(PATIENCE, "the follower to read on", || {
        following.stderr().contains("the output goes on").then_some(())
    });
    let program = running.task_groups().next().and_then(|group| group.pid).expect("it runs");
    cluster.process(program).signal(Signal::KILL);
    let followed = following.finish(PATIENCE);
    assert_eq!(followed.code, Some(0), "{}", followed.stderr);
    assert!(
        followed.stdout == String::from_utf8_lossy(&all),
        "each byte once: {}",
        followed.stderr
    );
    assert!(followed.stderr.contains("attempt 1 of task group 1 has ended"), "{}", followed.stderr);

    let again = cluster.wait_until_runs(&id, 2);
    assert!(read(&["1", "--attempt", "1"]) == all, "an attempt that has ended is kept");
    wait_until(PATIENCE, "the second attempt to have written as much", || {
        (read(&["1"]).len() == all.len()).then_some(())
    });

    // The member of the second attempt is gone for good.
    let host = again.task_groups().next().and_then(|group| group.member_uuid.clone());
    let members = cluster.present_members();
    let host = members.into_iter().find(|one| Some(&one.uuid) == host.as_ref()).expect("it hosts");
    cluster.process(host.pid).signal(Signal::KILL);
    cluster.wait_until_lost(&host);
    cluster.wait_until_runs(&id, 3);
    let lost = logs(&cluster, &id, &["1", "--attempt", "2"]);
    let complaint = String::from_utf8_lossy(&lost.stderr).into_owned();
    assert_eq!((lost.status.code(), lost.stdout.len()), (Some(2), 0), "{complaint}");
    assert!(complaint.contains(&host.uuid) && complaint.contains("LOST"), "{complaint}");
}
