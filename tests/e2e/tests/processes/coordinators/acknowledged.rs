//! An oracle for what was acknowledged: somebody who submits jobs and commits checkpoints all the time,
//! whoever dies meanwhile, and notes each that was answered with a "yes". All of these have to be there
//! afterwards. Where no answer came, either may be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::json;
use steadfast_e2e::{Container, PATIENCE, Rest, wait_until};

/// Below the limit of ten checkpoints a second.
const PAUSE: Duration = Duration::from_millis(150);

/// Somebody who writes.
pub struct Writer {
    done: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
    writing: JoinHandle<Acknowledged>,
}

/// What has to be there.
#[derive(Debug, Default)]
pub struct Acknowledged {
    /// Ids of jobs.
    pub jobs: Vec<String>,
    /// The last checkpoint whose writing was acknowledged.
    pub checkpoint: u64,
    /// The last one that was tried.
    pub tried: u64,
}

impl Writer {
    /// Commits for this container, whose program commits nothing itself.
    #[track_caller]
    pub fn start(rest: &Rest, container: &Container) -> Self {
        let (done, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (rest, id, secret) = (rest.clone(), container.id.clone(), container.secret());
        let writing = thread::spawn({
            let (done, acknowledged) = (Arc::clone(&done), Arc::clone(&acknowledged));
            move || {
                let mut noted = Acknowledged::default();
                while !done.load(Ordering::SeqCst) {
                    noted.write(&rest, &id, &secret);
                    acknowledged.store(noted.rounds(), Ordering::SeqCst);
                    thread::sleep(PAUSE); // polls for what is acknowledged, no faster than is allowed
                }
                noted
            }
        });
        Self { done, acknowledged, writing }
    }

    /// Waits until more of both kinds was acknowledged from now on.
    #[track_caller]
    pub fn wait_for_more(&self) {
        let until = self.acknowledged.load(Ordering::SeqCst) + 3;
        wait_until(PATIENCE, "more to be acknowledged", || {
            (self.acknowledged.load(Ordering::SeqCst) >= until).then_some(())
        });
    }

    /// Ends it.
    #[track_caller]
    pub fn finish(self) -> Acknowledged {
        self.done.store(true, Ordering::SeqCst);
        self.writing.join().expect("it only writes")
    }
}

impl Acknowledged {
    fn write(&mut self, rest: &Rest, id: &str, secret: &str) {
        self.tried += 1;
        let value = self.tried.to_string();
        let answer = rest.try_put_checkpoint(id, secret, value.as_bytes());
        if answer.is_some_and(|answer| answer.status == 204) {
            self.checkpoint = self.tried;
        }
        // More task groups than there will ever be slots: the record is all there is of it.
        let task = json!({ "name": "t", "parallelism": 200, "command": ["true"] });
        let job = json!({
            "env": { "job.name": format!("noted-{value}"), "job.mode": "BATCH" },
            "pipelines": [{ "name": "p", "tasks": [task] }],
        });
        let answer = rest.try_post("/submit-job", "application/json", job.to_string().as_bytes());
        if let Some(answer) = answer.filter(|answer| answer.status == 200) {
            let id = answer.json()["jobId"].as_str().map(str::to_owned);
            self.jobs.push(id.expect("the answer to a job is its id"));
        }
    }

    fn rounds(&self) -> u64 {
        self.checkpoint.min(self.jobs.len() as u64)
    }

    /// Checks that all of it is there; the checkpoint is read by a container of the same task group.
    #[track_caller]
    pub fn assert_is_there(&self, rest: &Rest, container: &Container) {
        assert!(!self.jobs.is_empty() && self.checkpoint > 0, "nothing was acknowledged: {self:?}");
        for id in &self.jobs {
            assert_eq!(rest.job(id).job_id, *id);
        }
        let read = rest.checkpoint(&container.id, &container.secret());
        let read: Option<u64> = read.and_then(|text| text.parse().ok());
        let possible = self.checkpoint..=self.tried;
        assert!(read.is_some_and(|read| possible.contains(&read)), "{read:?} of {possible:?}");
    }
}
