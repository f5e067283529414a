//! Simulated containers that ask whether they may go on, by the rules of the wrapper: what is no verdict is
//! asked of the next coordinator at once, each one once; then there is a pause, the first one random.
//!
//! Some share a task and its connections, which stay open. Ten thousand with three connections each would
//! be a load of this machine's own: here the containers, the coordinators and etcd share its cores.

use std::sync::Arc;
use std::time::Duration;

use steadfast_api::LaunchOrder;
use steadfast_model::{Epoch, Verdict};
use tokio::time::{Instant, sleep_until};

use crate::Failure;
use crate::asking::{Random, ask};
use crate::http1::Connection;
use crate::takeover::Seen;

const SCHEDULE_MS: u64 = 1_000;
const SECRET: &str = "STEADFAST_CONTAINER_SECRET";

/// Containers that share a connection to each coordinator.
pub struct Crowd {
    ports: Vec<u16>,
    connections: Vec<Option<Connection>>,
    containers: Vec<Container>,
    seen: Arc<Seen>,
    random: Random,
}

struct Container {
    id: String,
    secret: String,
    /// When it asks next.
    due: Instant,
    /// Whom it asks, by place.
    coordinator: usize,
    asked_in_round: usize,
    had_silence: bool,
    epoch: Option<Epoch>,
}

impl Crowd {
    /// `seed` must differ between crowds.
    pub fn new(
        orders: &[LaunchOrder],
        ports: &[u16],
        seen: Arc<Seen>,
        seed: u64,
    ) -> Result<Self, Failure> {
        let mut crowd = Self {
            ports: ports.to_vec(),
            connections: ports.iter().map(|_| None).collect(),
            containers: Vec::new(),
            seen,
            random: Random(seed),
        };
        for order in orders {
            let pause = Duration::from_millis(crowd.random.next() % SCHEDULE_MS);
            crowd.containers.push(Container {
                id: order.execution_resource_id.to_string(),
                secret: order.environment.get(SECRET).ok_or("a launch without a secret")?.clone(),
                due: Instant::now() + pause,
                coordinator: 0,
                asked_in_round: 0,
                had_silence: false,
                epoch: None,
            });
        }
        Ok(crowd)
    }

    /// Asks until it is dropped.
    pub async fn live(mut self) {
        let places = 0..self.containers.len();
        while let Some(next) = places.clone().min_by_key(|place| self.containers[*place].due) {
            sleep_until(self.containers[next].due).await;
            let verdict = self.ask(next).await;
            self.hear(next, verdict);
        }
    }

    fn hear(&mut self, place: usize, verdict: Verdict) {
        let random = self.random.next();
        let Self { containers, seen, ports, .. } = self;
        let container = &mut containers[place];
        let now = Instant::now();
        container.asked_in_round += 1;
        let pause_ms = match verdict {
            Verdict::Valid { next_poll_ms, epoch, .. } => {
                let is_first = container.epoch.replace(epoch).is_none_or(|before| before < epoch);
                seen.note_valid(epoch, now, is_first);
                container.asked_in_round = 0;
                container.had_silence = false;
                next_poll_ms
            }
            Verdict::Invalid { .. } => {
                seen.note_told_no();
                SCHEDULE_MS
            }
            Verdict::Unknown => {
                container.coordinator = (container.coordinator + 1) % ports.len();
                if container.asked_in_round < ports.len() {
                    0
                } else {
                    container.asked_in_round = 0;
                    let silent_before = std::mem::replace(&mut container.had_silence, true);
                    if silent_before { SCHEDULE_MS } else { random % SCHEDULE_MS }
                }
            }
        };
        container.due = now + Duration::from_millis(pause_ms);
    }

    async fn ask(&mut self, place: usize) -> Verdict {
        let nonce = self.random.nonce();
        let Container { id, secret, coordinator, .. } = &self.containers[place];
        let (connection, port) = (&mut self.connections[*coordinator], self.ports[*coordinator]);
        ask(connection, port, (id, secret), nonce).await
    }
}
