//! Users: they submit jobs, stop some, and ask again when nobody answers.

use steadfast_engine::{Input, Reply};
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
        if let Some(c) = self.serving()
            && !self.is_lost()
        {
            let spec = Box::new(self.plan.jobs[number].spec.clone());
            self.request(c, Waiter::Submitter(number), |ticket| Input::Submit { ticket, spec });
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
        if let Some(c) = self.serving_or_asleep()
            && !self.is_lost()
        {
            self.request(c, Waiter::Stopper(job), |ticket| Input::Stop { ticket, job });
        }
        self.at(self.now + PATIENCE_MS, Event::Stop(job));
    }

    pub fn stop_answered(&mut self, job: JobId, reply: &Reply) {
        if *reply == Reply::Stopping(JobStatus::Canceling) {
            self.stopped.insert(job);
        }
    }
}
