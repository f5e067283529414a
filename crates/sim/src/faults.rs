//! What goes wrong, when, and how it ends.

use steadfast_model::{ExecutionId, JobId};

use crate::agents::{AgentNumber, Machine, Process};
use crate::ambush::{Ambush, Blow};
use crate::coordinator::CoordinatorNumber;
use crate::plan::Fault;
use crate::rng::Rng;
use crate::world::{Event, World};

/// Slots of the machine that comes when the faults stop: enough for every job.
const SPARE_SLOTS: u32 = 1_000;

impl World {
    pub fn fault(&mut self) {
        if !self.faulty {
            return;
        }
        let next_ms = self.fault_rng.between(1, 2 * self.plan.fault_every_ms);
        self.at(self.now + next_ms, Event::Fault);
        let Some(fault) = self.fault_rng.pick(&self.plan.faults.clone()) else { return };
        self.trace.note(self.now, || format!("fault {fault:?}"));
        match fault {
            Fault::AgentKilled => {
                if let Some(agent) = self.some_agent() {
                    self.agent_ends(agent);
                }
            }
            Fault::AgentStopped => self.stop_an_agent(),
            Fault::AgentLeaves => {
                if let Some(agent) = self.some_agent() {
                    self.leave(agent);
                }
            }
            Fault::MachineLost => self.lose_a_machine(),
            Fault::CutOff => self.cut_off_a_machine(),
            Fault::ConnectionLost => {
                let agent = self.some_agent();
                let connection = agent.and_then(|agent| self.agents.get(&agent)?.connection);
                if let Some(connection) = connection {
                    self.cut(connection);
                }
            }
            Fault::ProgramKilled => {
                if let Some(execution) = self.some_container() {
                    self.program_ends(execution, -9);
                }
            }
            Fault::WrapperKilled => {
                if let Some(execution) = self.some_container() {
                    self.wrapper_killed(execution);
                }
            }
            Fault::CoordinatorKilled => self.hit_a_coordinator(|_| Blow::Killed),
            Fault::CoordinatorStopped => {
                self.hit_a_coordinator(|rng| Blow::Stopped(rng.between(100, 30_000)));
            }
            Fault::CoordinatorCutOff => self.cut_off_a_coordinator(),
            Fault::EtcdStopped => self.stop_etcd(),
            Fault::Cancel => {
                let jobs: Vec<JobId> = self.durable.jobs.keys().copied().collect();
                // Cancelling is final: not at every turn.
                if let Some(job) = self.fault_rng.pick(&jobs)
                    && self.fault_rng.chance(300)
                {
                    self.stop(job);
                }
            }
        }
    }

    fn some_agent(&mut self) -> Option<AgentNumber> {
        let alive: Vec<AgentNumber> =
            self.machines.iter().filter_map(|machine| machine.agent).collect();
        self.fault_rng.pick(&alive)
    }

    fn some_container(&mut self) -> Option<ExecutionId> {
        let running = self.containers.iter().filter(|(_, container)| container.runs());
        let running: Vec<ExecutionId> = running.map(|(execution, _)| *execution).collect();
        self.fault_rng.pick(&running)
    }

    fn stop_an_agent(&mut self) {
        let for_ms = self.fault_rng.between(500, 15_000);
        if let Some(number) = self.some_agent() {
            self.stop_agent(number, for_ms);
        }
    }

    pub fn stop_agent(&mut self, number: AgentNumber, for_ms: u64) {
        if let Some(agent) = self.agents.get_mut(&number)
            && agent.process == Process::Runs
        {
            agent.process = Process::Stopped;
            self.at(self.now + for_ms, Event::AgentContinues(number));
        }
    }

    fn lose_a_machine(&mut self) {
        let back_ms = self.fault_rng.between(1_000, 15_000);
        if let Some(number) = self.some_agent() {
            self.lose_machine_of(number, back_ms);
        }
    }

    pub fn lose_machine_of(&mut self, number: AgentNumber, back_ms: u64) {
        let Some(agent) = self.agents.get_mut(&number) else { return };
        agent.process = Process::Dead;
        let (machine, connection) = (agent.machine, agent.connection.take());
        self.machines[machine].agent = None;
        // Nobody closes the connection: the coordinator hears nothing more, that is all.
        if let Some(link) = connection.and_then(|connection| self.links.get_mut(&connection)) {
            link.up = false;
            link.down = false;
        }
        let there = self.containers.iter().filter(|(_, container)| container.machine == machine);
        let there: Vec<ExecutionId> = there.map(|(execution, _)| *execution).collect();
        for execution in there {
            self.vanish(execution);
        }
        self.at(self.now + back_ms, Event::AgentStarts(machine));
    }

    fn cut_off_a_machine(&mut self) {
        let for_ms = self.fault_rng.between(200, 20_000);
        let number = self.fault_rng.between(0, self.machines.len() as u64 - 1);
        let at = usize::try_from(number).unwrap_or(0);
        if !self.machines[at].reachable {
            return;
        }
        self.machines[at].reachable = false;
        for link in self.links.values_mut() {
            if self.agents.get(&link.agent).is_some_and(|agent| agent.machine == at) {
                link.up = false;
                link.down = false;
            }
        }
        self.at(self.now + for_ms, Event::Reachable(at));
    }

    /// The one that leads, more often than another one.
    fn some_coordinator(&mut self) -> CoordinatorNumber {
        let many = self.coordinators.len();
        if many == 1 {
            return 0;
        }
        let any = self.fault_rng.between(0, many as u64 - 1);
        let any = usize::try_from(any).unwrap_or(0);
        let leader = self.leading().map(|(c, _)| c);
        leader.filter(|_| self.fault_rng.chance(800)).unwrap_or(any)
    }

    /// A coordinator is killed or stopped, at once or at one of its next steps.
    fn hit_a_coordinator(&mut self, blow: fn(&mut Rng) -> Blow) {
        let blow = blow(&mut self.fault_rng);
        let c = self.some_coordinator();
        if self.plan.etcd.is_some() && self.fault_rng.chance(600) {
            let passes = self.fault_rng.between(0, 8);
            self.ambush = Some(Ambush { passes, blow, from_loss: false });
        } else {
            self.strike(c, blow);
        }
    }

    fn cut_off_a_coordinator(&mut self) {
        let for_ms = self.fault_rng.between(500, 15_000);
        let c = self.some_coordinator();
        self.coordinators[c].cut_off = true;
        self.at(self.now + for_ms, Event::CoordinatorReachesEtcd(c));
    }

    pub fn coordinator_reaches_etcd(&mut self, c: CoordinatorNumber) {
        self.coordinators[c].cut_off = false;
        self.campaign_soon(c);
    }

    /// Every node of the store is stopped for a while.
    fn stop_etcd(&mut self) {
        let for_ms = self.fault_rng.between(200, 12_000);
        self.etcd_away_until = self.etcd_away_until.max(self.now + for_ms);
        self.at(self.etcd_away_until, Event::EtcdBack);
    }

    /// The faults stop: whoever is stopped goes on, whatever is cut off can be reached, and there is
    /// room for everybody.
    pub fn faults_end(&mut self) {
        self.trace.note(self.now, || "the faults end".to_owned());
        self.faulty = false;
        self.ambush = None;
        self.etcd_away_until = self.now;
        self.at(self.now, Event::EtcdBack);
        for c in 0..self.coordinators.len() {
            self.coordinator_continues(c);
            self.coordinator_reaches_etcd(c);
        }
        for machine in 0..self.machines.len() {
            if !self.machines[machine].reachable {
                self.reachable(machine);
            }
            if let Some(agent) = self.machines[machine].agent {
                self.agent_continues(agent);
            }
        }
        self.machines.push(Machine::new(SPARE_SLOTS));
        self.at(self.now, Event::AgentStarts(self.machines.len() - 1));
    }
}
