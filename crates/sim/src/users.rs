//! Users: they submit jobs, stop some, and ask again when nobody answers.

use steadfast_engine::{Input, Reply, Ticket};
use steadfast_model::{JobId, JobStatus};

use crate::world::{Event, Waiter, World};

/// How long a user waits for an answer.
const PATIENCE_MS: u64 = 4_000;

impl World {
    pub fn submit(&mut self, number: usize) {
        if self.submitted[number].is_some() {
            return;
        }
        // Asking again may submit a job twice; a coordinator that only sleeps gets one request.
        if self.coordinator.is_up() && !self.coordinator.stopped && !self.is_lost() {
            let ticket = Ticket(self.number());
            self.waiters.insert(ticket, Waiter::Submitter(number));
            let spec = Box::new(self.plan.jobs[number].spec.clone());
            self.hear(Input::Submit { ticket, spec });
        }
        self.at(self.now + PATIENCE_MS, Event::Submit(number));
    }

    pub fn submit_answered(&mut self, number: usize, id: JobId) {
        self.submitted[number].get_or_insert(id);
    }

    pub fn stop(&mut self, job: JobId) {
        if !self.durable.jobs.contains_key(&job) || self.stopped.contains(&job) {
            return;
        }
        if self.coordinator.is_up() && !self.is_lost() {
            let ticket = Ticket(self.number());
            self.waiters.insert(ticket, Waiter::Stopper(job));
            self.hear(Input::Stop { ticket, job });
        }
        self.at(self.now + PATIENCE_MS, Event::Stop(job));
    }

    pub fn stop_answered(&mut self, job: JobId, reply: &Reply) {
        if *reply == Reply::Stopping(JobStatus::Canceling) {
            self.stopped.insert(job);
        }
    }
}
