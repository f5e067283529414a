//! The coordinators of a cluster: which there are, who of them leads, and one more, started by hand.

use std::net::Ipv4Addr;

use super::{Size, steadfast};
use crate::{
    Cluster, Etcd, Network, PATIENCE, Process, Rest, Running, Standing, binary, wait_until,
};

impl Cluster {
    /// Starts a cluster of several coordinators on an etcd, and waits until it is ready.
    ///
    /// # Panics
    /// When it does not get ready.
    #[track_caller]
    pub fn start_on_etcd(members: u32, slots: u32, coordinators: u32, etcd: &str) -> Self {
        let mut cluster = Self::launch(members, slots, |_, dev| {
            dev.args(["--coordinators", &coordinators.to_string(), "--etcd", etcd]);
        });
        cluster.wait_until_ready();
        cluster.wait_until_known(coordinators as usize);
        cluster
    }

    /// Starts a cluster of several coordinators, at an address that a network's inside reaches, which want
    /// tokens.
    ///
    /// # Panics
    /// When it does not get ready.
    #[track_caller]
    pub fn start_on_etcd_with_auth_at(
        address: Ipv4Addr,
        size: Size,
        coordinators: u32,
        etcd: &Etcd,
    ) -> Self {
        Self::start_with_auth_and(address, size, |dev| {
            dev.args(["--coordinators", &coordinators.to_string(), "--etcd", &etcd.urls()]);
        })
    }

    /// Starts one more coordinator, inside a network, and waits until it stands by.
    ///
    /// # Panics
    /// When it does not.
    #[track_caller]
    pub fn add_coordinator_in(&mut self, network: &Network, etcd: &Etcd) -> (Rest, Process) {
        let name = self.name("coordinator");
        let mut command = steadfast("nsenter".as_ref(), &self.marker);
        command.arg(format!("--net={}", network.path().display())).arg(binary("steadfast"));
        command.args(["coordinator", "--store", &format!("etcd:{}", etcd.urls())]);
        command.args(["--http", &format!("{}:8080", network.inside())]);
        command.arg("--auth").arg(self.access().file());
        command.arg("--auth").arg(self.data().join("auth/tokens.conf"));
        let coordinator = Running::start(&mut command, self.folder.path(), &name);
        let url = format!("http://{}:8080", network.inside());
        let rest = self.rest.at(&url);
        wait_until(PATIENCE, "one more coordinator to stand by", || {
            matches!(rest.standing(), Standing::StandsBy { .. }).then_some(())
        });
        self.rest = self.rest.and(&url);
        (rest, self.process(coordinator.pid()))
    }

    /// Each coordinator that `dev` has started, by itself: asked directly, and taken at its word.
    pub fn coordinators(&self) -> Vec<Rest> {
        self.rest.urls().iter().map(|url| self.rest.at(url)).collect()
    }

    /// The process of each coordinator.
    pub fn coordinator_processes(&self) -> Vec<Process> {
        let mut processes = self.processes();
        processes.retain(|one| one.arguments().get(1).is_some_and(|word| word == "coordinator"));
        processes
    }

    /// Whoever leads, by its own word, and its process.
    #[track_caller]
    pub fn leader(&self) -> (Rest, Process) {
        let overview = self.rest.overview();
        (self.rest.at(&overview.coordinator.url), self.process(overview.coordinator.pid))
    }

    /// The coordinator's process.
    #[track_caller]
    pub fn coordinator(&self) -> Process {
        self.process(self.rest.overview().coordinator.pid)
    }

    /// Waits for a coordinator other than the killed one, and gives its epoch.
    ///
    /// # Panics
    /// When there is none in time.
    #[track_caller]
    pub fn wait_until_led_again(&self, old: Process) -> u64 {
        wait_until(PATIENCE, "the coordinator to be started again", || {
            let ready = !old.is_alive() && self.rest.is_ready();
            let coordinator = self.rest.overview_now().filter(|_| ready)?.coordinator;
            (coordinator.pid != old.pid).then_some(coordinator.epoch)
        })
    }

    /// Waits until another coordinator than this one, which still lives, leads; gives its epoch.
    ///
    /// # Panics
    /// When none does in time.
    #[track_caller]
    pub fn wait_until_another_leads(&self, old: &Rest) -> u64 {
        let others: Vec<Rest> =
            self.coordinators().into_iter().filter(|one| one.url() != old.url()).collect();
        wait_until(PATIENCE, "another coordinator to lead", || {
            others.iter().find_map(|one| match one.standing() {
                Standing::Leads { epoch } => Some(epoch),
                _ => None,
            })
        })
    }

    /// Waits until whoever leads knows so many: programs are told at their start whom they may ask when
    /// one is gone.
    #[track_caller]
    pub fn wait_until_known(&self, coordinators: usize) {
        wait_until(PATIENCE, "all coordinators to be known", || {
            let known = self.rest.get("/overview")?.json()["coordinators"].as_array()?.len();
            (known == coordinators).then_some(())
        });
    }
}
