//! The shell around the engine, as the order law asks for it: freeze, commit, index, effects, view.
//!
//! One batch of steps is in flight at a time; what is heard meanwhile waits. Before each turn, behind each
//! commit and before each effect the leader looks at its clock: what its lease may not cover any more does
//! not happen. The coordinator is stopped or killed between any two of these.

use steadfast_engine::{AgentMessage, Effect, IndexChange, Input, MAX_LEAVE_VALID_MS, Reply, Step};
use steadfast_model::{ExecutionId, Timestamp};

use crate::commit::Batch;
use crate::coordinator::{Carrying, CoordinatorNumber};
use crate::invariants::{Act, View};
use crate::mutation::Mutation;
use crate::world::{Event, Waiter, World};

const MAX_BATCH: u64 = 4;

impl World {
    pub fn wake(&mut self, term: u64) {
        let Some(c) = self.awake_leader(term, Event::Wake(term)) else { return };
        if let Some(term) = self.term_mut(c) {
            term.wake_at = None;
        }
        self.pump(c);
    }

    fn is_free(&self, c: CoordinatorNumber) -> bool {
        let free = self.term(c).is_some_and(|t| t.in_flight.is_none() && t.carrying.is_none());
        free && self.coordinators[c].runs()
    }

    /// Whether it may still act, by its own clock.
    pub fn still_leads(&self, c: CoordinatorNumber) -> bool {
        self.term(c).is_some_and(|term| term.holds(self.now))
    }

    /// Steps the engine through what waits, until a commit is under way.
    pub fn pump(&mut self, c: CoordinatorNumber) {
        while self.is_free(c) {
            if !self.still_leads(c) {
                self.drop_term(c, "it could not renew its lead in time");
                return;
            }
            let batch = self.decide(c);
            if batch.steps.is_empty() {
                break;
            }
            if batch.writes_nothing() {
                self.observe(&batch);
                self.carry_out(c, batch, usize::MAX);
            } else if self.is_of_the_label(&batch) {
                // It takes no time: what the label alone writes must not change when the next step comes.
                let head = self.next_head(c);
                self.apply(&batch, head);
                self.carry_out(c, batch, usize::MAX);
            } else {
                self.begin_commit(c, batch);
            }
        }
        self.set_alarm(c);
    }

    fn decide(&mut self, c: CoordinatorNumber) -> Batch {
        let mut batch = Batch::default();
        let (mut counted, mut most) = (0, u64::MAX);
        while counted < most {
            let Some(input) = self.next_input(c) else { break };
            // The label must not change which steps are committed together: neither what it alone
            // brings counts, nor the ticks that follow it.
            if !matches!(input, Input::LedgerRefused { .. } | Input::Deadline) {
                most = self.chance_of(c, 1).between(1, MAX_BATCH);
                counted += 1;
            }
            self.step(c, input, &mut batch);
        }
        batch
    }

    /// Time comes first: what it has brought about must not be mixed up with a report, so that the
    /// oracle knows which of the two was first.
    fn next_input(&mut self, c: CoordinatorNumber) -> Option<Input> {
        let now = self.now;
        let term = self.term_mut(c)?;
        let loading = matches!(term.inbox.front(), Some(Input::TookOver));
        let due = term.engine.next_deadline().is_some_and(|deadline| deadline <= term.clock(now));
        if due && !loading {
            return Some(Input::Deadline);
        }
        term.inbox.pop_front()
    }

    fn step(&mut self, c: CoordinatorNumber, input: Input, batch: &mut Batch) {
        let Some(term) = self.coordinators[c].term.as_deref_mut() else { return };
        let now = term.clock(self.now);
        if let Some(recording) = &mut self.recording {
            recording.step(c, input.clone(), now);
        }
        let mut told = input.clone();
        if let Input::PlanLeave { request, .. } = &mut told
            && self.mutation == Some(Mutation::ExpiryIgnored)
        {
            request.valid_ms = MAX_LEAVE_VALID_MS;
        }
        let mut step = term.engine.step(now, told);
        if self.mutation == Some(Mutation::DrainBurnsARestore) {
            burn_a_restore(&input, &mut step);
        }
        if !(step.writes_nothing() && matches!(input, Input::Heard { .. } | Input::Deadline)) {
            self.trace.note(self.now, || format!("{c}: {}{}", brief(&input), outcome(&step)));
        }
        self.steps += 1;
        for execution in &step.freeze {
            if self.mutation == Some(Mutation::IndexNotFrozen) {
                let last = term.index.last_answer(*execution);
                term.told_early.insert(*execution, last);
            } else if self.mutation != Some(Mutation::RevokedGoesOn) {
                term.index.freeze(*execution);
            }
        }
        batch.steps.push((input, step));
    }

    fn set_alarm(&mut self, c: CoordinatorNumber) {
        if !self.is_free(c) {
            return;
        }
        let now = self.now;
        let Some(term) = self.term_mut(c) else { return };
        let Some(deadline) = term.engine.next_deadline() else { return };
        let at = deadline.as_millis().saturating_sub(term.clock_ms).max(now);
        if term.wake_at.is_none_or(|wake_at| at < wake_at) {
            term.wake_at = Some(at);
            let number = term.number;
            self.at(at, Event::Wake(number));
        }
    }

    /// Index, effects, view; at most so many effects, where the coordinator dies among them.
    pub fn carry_out(&mut self, c: CoordinatorNumber, mut batch: Batch, most: usize) {
        if !self.still_leads(c) && !self.mutated(Mutation::EffectsPastTenure) {
            self.drop_term(c, "its lead was over before it could act");
            return;
        }
        let mut answers = Vec::new();
        let mut effects = Vec::new();
        for (input, step) in &mut batch.steps {
            self.change_index(c, input, step, &mut answers);
            let of_jobs = step.jobs.iter_mut().flat_map(|job| job.effects.drain(..));
            effects.extend(of_jobs.chain(step.effects.drain(..)));
        }
        self.tell_last_answers(c, answers);
        let cut_short = most < effects.len();
        effects.truncate(most);
        if let Some(term) = self.term_mut(c) {
            term.carrying = Some(Carrying { effects: effects.into(), batch, cut_short });
        }
        self.perform(c);
    }

    fn change_index(
        &mut self,
        c: CoordinatorNumber,
        input: &Input,
        step: &Step,
        answers: &mut Vec<(ExecutionId, Option<Timestamp>)>,
    ) {
        let mutation = self.mutation;
        let Some(term) = self.term_mut(c) else { return };
        let took_over = matches!(input, Input::TookOver);
        term.index.serves |= took_over;
        let jobs = step.jobs.iter().flat_map(|job| &job.index);
        for change in step.index.iter().chain(jobs) {
            match (change, mutation) {
                (IndexChange::Remove(_), Some(Mutation::ContainersRemembered)) => {}
                (IndexChange::Invalid(id, ..), Some(Mutation::RevokedGoesOn)) => {
                    answers.push((*id, term.index.last_answer(*id)));
                }
                (change, Some(Mutation::NothingAssumed)) if took_over => {
                    answers.extend(term.index.change(&without_rest(change)));
                }
                (change, _) => answers.extend(term.index.change(change)),
            }
        }
    }

    fn tell_last_answers(
        &mut self,
        c: CoordinatorNumber,
        mut answers: Vec<(ExecutionId, Option<Timestamp>)>,
    ) {
        if answers.is_empty() || self.mutated(Mutation::LastAnswersUntold) {
            return;
        }
        let unwaited = self.mutated(Mutation::LeaseNotWaitedFor);
        let Some(term) = self.term_mut(c) else { return };
        for (execution, last) in &mut answers {
            if unwaited {
                *last = None;
            }
            if let Some(early) = term.told_early.get(execution) {
                *last = *early;
            }
        }
        term.inbox.push_back(Input::LastAnswers(answers));
    }

    /// Carries out the effects that are left of a durable batch, from where it was stopped.
    pub fn perform(&mut self, c: CoordinatorNumber) {
        while let Some(carrying) = self.term_mut(c).and_then(|term| term.carrying.as_mut()) {
            if carrying.effects.is_empty() {
                return self.performed(c);
            }
            if !self.passes(c) {
                return;
            }
            let Some(term) = self.term_mut(c) else { return };
            let number = term.number;
            let effects = term.carrying.as_mut().map(|carrying| &mut carrying.effects);
            let Some(effect) = effects.and_then(std::collections::VecDeque::pop_front) else {
                return;
            };
            if self.still_leads(c) || self.mutated(Mutation::EffectsPastTenure) {
                self.acts(number, Act::Effect);
                self.take_effect(c, effect);
            }
        }
    }

    fn performed(&mut self, c: CoordinatorNumber) {
        let Some(carrying) = self.term_mut(c).and_then(|term| term.carrying.take()) else { return };
        if carrying.cut_short {
            return;
        }
        if !self.still_leads(c) {
            self.drop_term(c, "its lead was over before it had done all");
            return;
        }
        let Some(term) = self.coordinators[c].term.as_deref_mut() else { return };
        for job in carrying.batch.refused.iter().rev() {
            let durable = self.durable.durable_ledger(*job);
            term.inbox.push_front(Input::LedgerRefused { job: *job, durable });
        }
        if !matches!(term.inbox.front(), Some(Input::LedgerRefused { .. })) {
            self.look_at_view(c);
        }
    }

    pub fn take_effect(&mut self, c: CoordinatorNumber, effect: Effect) {
        match effect {
            Effect::Send(connection, message) => {
                if let AgentMessage::Stop { execution, .. } = &message {
                    self.checks.told_to_stop(*execution);
                }
                self.send_down(connection, message);
            }
            Effect::Reply(ticket, reply) => {
                let Some(term) = self.term_mut(c) else { return };
                let Some(waiter) = term.waiters.remove(&ticket) else { return };
                if self.is_lost() {
                    return;
                }
                match (waiter, reply) {
                    (Waiter::Submitter(number), Reply::Submitted(id)) => {
                        self.submit_answered(number, id);
                    }
                    (Waiter::Wrapper(execution), Reply::EndNoted) => {
                        self.noted.insert(execution);
                        let latency = self.latency();
                        self.at(self.now + latency, Event::GoodByeNoted(execution));
                    }
                    (Waiter::Stopper(job), reply) => self.stop_answered(job, &reply),
                    (Waiter::Operator(errand), reply) => self.leave_answered(errand, reply),
                    _ => {}
                }
            }
        }
    }

    /// What a reader would be shown now.
    fn look_at_view(&mut self, c: CoordinatorNumber) {
        if let Some(term) = &self.coordinators[c].term {
            self.checks.view(&View {
                engine: &term.engine,
                durable: &self.durable,
                index: &term.index,
                now: term.clock(self.now),
                lost_listed_ms: self.plan.settings.lost_listed_ms,
                ttl_ms: self.plan.settings.pending_incident_ttl_ms,
                refused: &self.refused,
                stopped: &self.stopped,
                submitted: &self.submitted,
                planned: &self.planned,
                noted: &self.noted,
            });
        }
    }

    /// The coordinator learns that it leads no more, or can no longer know: it forgets all of the term, and
    /// stands by again.
    pub fn drop_term(&mut self, c: CoordinatorNumber, why: &str) {
        let Some(term) = self.coordinators[c].term.take() else { return };
        self.trace.note(self.now, || format!("coordinator {c} ends its term: {why}"));
        self.links_break(term.number);
        self.resign(c, term.number);
        self.campaign_soon(c);
    }
}

/// A change as a leader would make it that knows of no rest.
fn without_rest(change: &IndexChange) -> IndexChange {
    let mut change = change.clone();
    if let IndexChange::Live(_, entry) | IndexChange::Invalid(_, _, entry) = &mut change {
        entry.assumed_answer = None;
    }
    change
}

fn burn_a_restore(input: &Input, step: &mut Step) {
    if !matches!(input, Input::PlanLeave { .. }) || step.member_event.is_none() {
        return;
    }
    for record in step.jobs.iter_mut().filter_map(|job| job.writes.record.as_mut()) {
        for pipeline in &mut std::sync::Arc::make_mut(record).pipelines {
            pipeline.budget_used += 1;
        }
    }
}

/// What a step decided, as far as it tells the story.
fn outcome(step: &Step) -> String {
    let mut text = String::new();
    if let Some(event) = &step.member_event {
        text.push_str(&format!("\n{:14}lost: {} ({})", "", event.member, event.evidence));
    }
    for job in &step.jobs {
        let ended = job.writes.ended.as_ref().map(|history| &history.job);
        let Some(record) = job.writes.record.as_deref().or(ended) else { continue };
        text.push_str(&format!("\n{:14}job {} {}", "", record.id, record.status));
        for pipeline in &record.pipelines {
            let number = pipeline.attempt;
            text.push_str(&format!(", {} {} #{number}", pipeline.id, pipeline.status));
        }
    }
    text
}

fn brief(input: &Input) -> String {
    match input {
        Input::Submit { spec, .. } => format!("Submit {}", spec.name),
        Input::Hello { connection, member, containers, .. } => {
            format!("Hello {} {connection:?} with {containers:?}", member.uuid)
        }
        Input::Heard { member, .. } => format!("Heard {member}"),
        Input::Container { execution, event, .. } => format!("{execution}: {event:?}"),
        other => format!("{other:?}"),
    }
}
