//! A poller thread that panics, in the library: it asks no more, and the lease runs down though the
//! coordinator would say yes (cases, V6). Alone in its process, because it takes over the log, whose
//! complaint about a useless answer is the one place where somebody else's code runs on that thread.

mod support;
#[path = "support/trap.rs"]
mod trap;

use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};

use steadfast_model::{LeaseTerms, ValidatorKind};
use steadfast_validator::{Killable, Outcome, Settings, Validator};
use support::{FakeCoordinator, SECRET, Says, eventually, yes};
use trap::Trap;

struct Told(Mutex<Sender<()>>);

impl Killable for Told {
    fn shutdown(&self) {
        self.0.lock().unwrap().send(()).unwrap();
    }
}

#[test]
fn a_poller_that_panics_is_a_lease_that_runs_down() {
    tracing::subscriber::set_global_default(Trap).unwrap();
    let coordinator = FakeCoordinator::start(yes());
    // Stops after 6,000 − 4,000 − 220 = 1,780 ms.
    let lease = LeaseTerms { lease_ms: 6_000, grace_ms: 4_000, schedule_ms: 50 };
    let (sender, told) = mpsc::channel();
    let watch = Validator::new(Settings {
        execution_resource_id: coordinator.id.parse().unwrap(),
        secret: SECRET.into(),
        coordinators: vec![coordinator.url.clone()],
        lease,
        validator_enabled: true,
        validator: ValidatorKind::Library,
    })
    .watch(Arc::new(Told(Mutex::new(sender))))
    .unwrap();
    let trap = Says::Page(500, String::new());
    coordinator.says(trap.clone());
    eventually("the trap is sprung", || {
        coordinator.polls().iter().any(|poll| poll.answered == trap).then_some(())
    });
    coordinator.says(yes());
    let asked = coordinator.polls().len();
    told.recv().unwrap();
    assert_eq!(watch.finish(), Outcome::LeaseExpired);
    assert_eq!(coordinator.polls().len(), asked, "nobody has asked since");
}
