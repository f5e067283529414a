//! Somebody who asks all the time, as containers and their Samza clients do, and keeps what was answered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};

use crate::{Answer, Cluster, Container, PATIENCE, Rest, wait_until};

/// What containers are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Told {
    /// It is valid, it is alive.
    Yes,
    /// It is not: 200 with a `false`.
    No,
    /// 503.
    CannotKnow,
    /// No connection, or none that answered.
    Nothing,
    /// Anything else.
    Other(u16),
}

/// Which question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asked {
    /// `/isContainerValid` with the container's secret.
    Validity,
    /// `/isContainerValid` without it.
    ValidityWithoutSecret,
    /// `/containerHeartbeat`.
    Heartbeat,
}

/// Every combination that was seen, and how often.
pub type Tally = BTreeMap<(Asked, Told), u64>;

/// Asks until it is dropped or asked for its tally.
#[derive(Debug)]
pub struct Witness {
    done: Arc<AtomicBool>,
    asking: JoinHandle<Tally>,
    news: Receiver<(Asked, Told)>,
}

impl Witness {
    /// Asks for these containers, which run.
    #[track_caller]
    pub fn of(cluster: &Cluster, containers: &[Container]) -> Self {
        Self::at(cluster.rest(), containers)
    }

    /// Asks this coordinator for these containers, which run.
    #[track_caller]
    pub fn at(rest: &Rest, containers: &[Container]) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let (sender, news) = mpsc::channel();
        let ids: Vec<(String, String)> =
            containers.iter().map(|one| (one.id.clone(), one.secret())).collect();
        let rest = rest.clone();
        let asking = thread::spawn({
            let done = Arc::clone(&done);
            move || {
                let mut tally = Tally::new();
                while !done.load(Ordering::SeqCst) {
                    for (id, secret) in &ids {
                        for (asked, answer) in ask(&rest, id, secret) {
                            let told = Told::read(answer.as_ref());
                            *tally.entry((asked, told)).or_default() += 1;
                            // Nobody may listen.
                            let _ = sender.send((asked, told));
                        }
                    }
                }
                tally
            }
        });
        Self { done, asking, news }
    }

    /// Waits until each question got this answer from now on.
    ///
    /// # Panics
    /// When one does not in time, or somebody is told that a container is not valid.
    #[track_caller]
    pub fn wait_for(&self, told: Told) {
        while self.news.try_recv().is_ok() {}
        let mut missing = vec![Asked::Validity, Asked::ValidityWithoutSecret, Asked::Heartbeat];
        wait_until(PATIENCE, &format!("{told:?} to every question"), || {
            for (asked, answer) in self.news.try_iter() {
                assert_ne!(answer, Told::No, "{asked:?} was answered with `false`");
                missing.retain(|one| (*one, told) != (asked, answer));
            }
            missing.is_empty().then_some(())
        });
    }

    /// What was answered in all this time.
    ///
    /// # Panics
    /// When it could not go on asking.
    #[track_caller]
    pub fn tally(self) -> Tally {
        self.done.store(true, Ordering::SeqCst);
        self.asking.join().expect("it only asks")
    }
}

fn ask(rest: &Rest, id: &str, secret: &str) -> [(Asked, Option<Answer>); 3] {
    let validity = format!("/isContainerValid?execution_resource_id={id}");
    let heartbeat = format!("/containerHeartbeat?executionContainerId={id}");
    [
        (Asked::Validity, rest.with_token(secret).get(&validity)),
        (Asked::ValidityWithoutSecret, rest.get(&validity)),
        (Asked::Heartbeat, rest.get(&heartbeat)),
    ]
}

impl Told {
    fn read(answer: Option<&Answer>) -> Self {
        let Some(answer) = answer else { return Self::Nothing };
        match answer.status {
            200 => {
                let body = answer.json();
                let yes = body["isValid"] == true || body["alive"] == true;
                if yes { Self::Yes } else { Self::No }
            }
            503 => Self::CannotKnow,
            other => Self::Other(other),
        }
    }
}
