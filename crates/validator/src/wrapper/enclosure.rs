//! What holds a program in, as far as the system allows: a [`Cgroup`] and a [`Namespace`]. Both may be
//! missing; what is missing is no news, and the wrapper's own proof (a subreaper without children) holds
//! without them.

use std::os::fd::OwnedFd;
use std::process::{Child, Command};

use rustix::process::{Pid, WaitStatus};
use steadfast_api::WrapperMessage;
use steadfast_model::ExecutionId;

use super::cgroup::Cgroup;
use super::init::Order;
use super::namespace::Namespace;
use super::spawn::{Surroundings, spawn_bound};
use crate::clock::BootTime;

/// A container's walls.
#[derive(Debug, Default)]
pub(super) struct Enclosure {
    cgroup: Option<Cgroup>,
    namespace: Option<Namespace>,
}

impl Enclosure {
    /// Builds what can be built. To be called on the main thread only.
    pub(super) fn build(id: ExecutionId) -> Self {
        let cgroup = Cgroup::make(id)
            .inspect_err(|error| tracing::debug!(%error, "no cgroup for the container"))
            .ok();
        let door = cgroup.as_ref().and_then(|cgroup| cgroup.door().ok());
        let namespace = Namespace::make(door)
            .inspect_err(|error| tracing::debug!(%error, "no pid namespace for the container"))
            .ok();
        Self { cgroup, namespace }
    }

    /// Starts the program inside. To be called on the main thread only.
    pub(super) fn spawn(
        &self,
        command: &mut Command,
        progress: Option<OwnedFd>,
    ) -> std::io::Result<Child> {
        let cgroup = self.cgroup.as_ref().and_then(|cgroup| cgroup.door().ok());
        let surroundings = Surroundings { cgroup, own_proc: self.namespace.is_some(), progress };
        match &self.namespace {
            Some(namespace) => namespace.spawn(command, surroundings),
            None => spawn_bound(command, surroundings),
        }
    }

    /// What an agent must know to prove the end of this program when the wrapper no longer can. A wall
    /// that the program is not behind proves nothing and is left out.
    pub(super) fn around(&self, pid: u32) -> Option<WrapperMessage> {
        let cgroup = self.cgroup.as_ref().filter(|cgroup| cgroup.holds(pid));
        let init = self.namespace.as_ref().and_then(Namespace::init);
        let cgroup = cgroup.and_then(|cgroup| cgroup.folder().to_str()).map(str::to_owned);
        let init_pid = init.map(|init| init.as_raw_pid().cast_unsigned());
        (cgroup.is_some() || init_pid.is_some())
            .then_some(WrapperMessage::Enclosed { cgroup, init_pid })
    }

    /// Everything inside ends at this instant, whether or not the wrapper can see to it.
    pub(super) fn ends_at(&self, at: BootTime) {
        if let Some(namespace) = &self.namespace {
            namespace.order(Order::EndAt(at));
        }
    }

    /// The program has ended: the namespace ends with the last that it left behind.
    pub(super) fn ends_when_empty(&self) {
        if let Some(namespace) = &self.namespace {
            namespace.order(Order::EndWhenEmpty);
        }
    }

    /// SIGKILL to everything inside.
    pub(super) fn kill(&self) {
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
        if let Some(namespace) = &self.namespace {
            namespace.kill();
        }
    }

    /// A child was reaped that may have been the namespace's init; whether it took others with it.
    pub(super) fn reaped(&self, pid: Pid, status: WaitStatus) -> bool {
        let Some(namespace) = self.namespace.as_ref().filter(|it| it.init() == Some(pid)) else {
            return false;
        };
        namespace.is_over();
        status.exit_status() != Some(0)
    }

    /// Takes it down, and with it whatever is still inside.
    pub(super) fn take_down(&self) {
        if let Some(namespace) = &self.namespace {
            namespace.end();
        }
        if let Some(cgroup) = &self.cgroup {
            cgroup.remove();
        }
    }
}
