//! What an engine was told over all of its terms, so that it can be told again with nothing around it:
//! that is what the engine alone costs.

use std::collections::BTreeMap;

use steadfast_engine::records::Snapshot;
use steadfast_engine::{Engine, Input, Settings};
use steadfast_model::{TermNonce, Timestamp};

use crate::coordinator::CoordinatorNumber;

#[derive(Clone, Debug)]
enum Told {
    Load(Box<(Snapshot, Settings, TermNonce)>, Timestamp),
    Step(Input, Timestamp),
}

/// Loads and inputs, in order, each with the coordinator whose engine it was.
#[derive(Clone, Debug, Default)]
pub struct Recording(Vec<(CoordinatorNumber, Told)>);

impl Recording {
    pub(crate) fn load(
        &mut self,
        c: CoordinatorNumber,
        from: (Snapshot, Settings, TermNonce),
        now: Timestamp,
    ) {
        self.0.push((c, Told::Load(Box::new(from), now)));
    }

    pub(crate) fn step(&mut self, c: CoordinatorNumber, input: Input, now: Timestamp) {
        self.0.push((c, Told::Step(input, now)));
    }

    /// Tells an engine all of it again; how many steps that took.
    pub fn replay(self) -> u64 {
        let (mut engines, mut steps) = (BTreeMap::new(), 0);
        for (c, told) in self.0 {
            match told {
                Told::Load(from, now) => {
                    let (snapshot, settings, nonce) = *from;
                    engines.insert(c, Engine::load(snapshot, settings, nonce, now));
                }
                Told::Step(input, now) => {
                    if let Some(engine) = engines.get_mut(&c) {
                        let _ = std::hint::black_box(engine.step(now, input));
                        steps += 1;
                    }
                }
            }
        }
        steps
    }
}
