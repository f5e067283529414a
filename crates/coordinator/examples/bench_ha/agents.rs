//! Simulated agents on the product's own connection. Each obeys: what it is told to launch runs from then
//! on, and asks by itself; it says hello with all of them wherever it comes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use steadfast_agent::bench::{Heard, Line};
use steadfast_api::{ContainerReport, ContainerSighting, FromAgent, Hello, LaunchOrder, ToAgent};
use steadfast_client::BaseUrl;
use steadfast_model::{ContainerEvent, Epoch, FEATURE_LEVEL, MemberUuid};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{MissedTickBehavior, interval};

use crate::Failure;
use crate::takeover::Seen;

/// As of an agent.
const BEAT: Duration = Duration::from_secs(1);
const STARTED: ContainerEvent = ContainerEvent::Started { pid: 12_345, wrapper_pid: 12_344 };
/// More than any gets, so that placement has a choice.
const SLOTS: u32 = 2_000;

pub struct Agent {
    line: Line,
    hello: Hello,
    /// On the connection that is there. A beat before the hello would be the end of it.
    is_welcome: bool,
    launched: UnboundedSender<LaunchOrder>,
    seen: Arc<Seen>,
}

impl Agent {
    /// The `number`-th of them. What it launches goes to `launched`.
    pub fn new(
        number: u64,
        coordinators: &[String],
        launched: UnboundedSender<LaunchOrder>,
        seen: Arc<Seen>,
    ) -> Result<Self, Failure> {
        let urls: Vec<BaseUrl> =
            coordinators.iter().map(|url| url.parse()).collect::<Result<_, _>>()?;
        let uuid: MemberUuid = format!("00000000-0000-4000-8000-{number:012x}").parse()?;
        let hello = Hello {
            uuid,
            host: format!("host-{number}"),
            pid: std::process::id(),
            slots: SLOTS,
            tags: BTreeMap::new(),
            version: "bench".to_owned(),
            feature_level: FEATURE_LEVEL,
            welcomed: false,
            highest_epoch: Epoch::new(0),
            cluster: None,
            containers: Vec::new(),
        };
        Ok(Self { line: Line::new(urls), hello, is_welcome: false, launched, seen })
    }

    /// Lives until it is dropped.
    pub async fn live(mut self) {
        let mut beat = interval(BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                heard = self.line.heard() => match heard {
                    Heard::Up => self.line.say(FromAgent::Hello(self.hello.clone())),
                    Heard::Message(message) => self.hear(message),
                    Heard::Down => self.is_welcome = false,
                },
                _ = beat.tick() => if self.is_welcome {
                    self.line.say(FromAgent::Beat);
                },
            }
        }
    }

    fn hear(&mut self, message: ToAgent) {
        match message {
            ToAgent::Welcome { epoch, .. } => {
                self.is_welcome = true;
                self.hello.welcomed = true;
                self.hello.highest_epoch = epoch;
                let url = self.line.url().map(ToString::to_string).unwrap_or_default();
                // The beat that is looked for afterwards.
                self.seen.note_welcome(epoch, url, self.hello.uuid);
                self.line.say(FromAgent::Beat);
            }
            ToAgent::Launch(order) => self.launch(order),
            ToAgent::RegisterAnew | ToAgent::Stop { .. } => self.seen.note_disturbed(),
            ToAgent::Acknowledge { .. } | ToAgent::LeaveAcknowledged | ToAgent::Log(_) => {}
        }
    }

    fn launch(&mut self, order: LaunchOrder) {
        let execution_resource_id = order.execution_resource_id;
        let known = &mut self.hello.containers;
        if known.iter().any(|known| known.execution_resource_id == execution_resource_id) {
            return;
        }
        known.push(ContainerSighting { execution_resource_id, last_event: Some(STARTED) });
        let report = ContainerReport { execution_resource_id, event: STARTED };
        self.line.say(FromAgent::Report(report));
        // Nobody takes them any more only when the bench ends.
        let _ = self.launched.send(order);
    }
}
