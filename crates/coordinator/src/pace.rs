//! How long a container waits before it asks again (05, `nextPollMs`; cases, V11 and V15).
//!
//! A coordinator that cannot keep up asks for fewer questions instead of answering them late: the interval
//! grows with the questions that its containers would ask in a second, and with how late this process
//! itself is. It never grows beyond a third of `L − G − m`, so that a lease still holds three of them, as
//! every lease must at submission: two questions in a row may be lost, and nobody stops.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use steadfast_model::{LeaseTerms, Timestamp};

/// Questions a second that one coordinator takes before it asks for fewer: well below what a core answers
/// (`cargo xtask bench validity`), since the loop, agents and people want it too.
const QUESTIONS_PER_SECOND: u64 = 10_000;
/// Lateness below this is how any machine schedules.
const PUNCTUAL_MS: u64 = 20;
/// So much lateness beyond it is one more interval.
const MS_PER_INTERVAL: u64 = 50;
/// Between two looks at how late this process is.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What the intervals of a job's containers may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    schedule_ms: u32,
    longest_ms: u32,
}

impl Pace {
    pub fn of(terms: LeaseTerms) -> Self {
        let bounded = |ms: u64| u32::try_from(ms).unwrap_or(u32::MAX);
        let longest_ms = (terms.stop_after_ms() / 3).max(terms.schedule_ms);
        Self { schedule_ms: bounded(terms.schedule_ms), longest_ms: bounded(longest_ms) }
    }

    /// The interval that the job asks for.
    pub fn schedule_ms(self) -> u64 {
        self.schedule_ms.into()
    }

    /// The interval under this load, before jitter.
    pub fn interval_ms(self, load: &Load) -> u64 {
        let stretched = self.schedule_ms().saturating_mul(load.stretch_permille()) / 1_000;
        stretched.min(self.longest_ms.into()).max(self.schedule_ms())
    }

    /// When this container asks again: up to a tenth earlier than the interval, so that ten thousand that
    /// began together do not go on together. Earlier and never later: what a lease allows stays allowed.
    /// `hash` is the container's own number.
    pub fn next_poll_ms(self, load: &Load, hash: u64, now: Timestamp) -> u64 {
        let interval_ms = self.interval_ms(load);
        interval_ms - jitter(hash, now) % (interval_ms / 10 + 1)
    }

    /// Questions that one such container asks in a thousand seconds.
    fn per_1000_s(self) -> u64 {
        1_000_000 / self.schedule_ms().max(1)
    }
}

/// Any number, another one for each container and each question (the finaliser of MurmurHash3).
fn jitter(hash: u64, now: Timestamp) -> u64 {
    let mut z = hash ^ now.as_millis().wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    z = (z ^ (z >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    z ^ (z >> 33)
}

/// How much this coordinator has to do.
#[derive(Debug, Default)]
pub(crate) struct Load {
    /// Questions that its live containers ask in a thousand seconds, each at its job's own interval.
    demand: AtomicU64,
    /// How late this process is.
    late_ms: AtomicU64,
}

impl Load {
    /// One more container asks.
    pub fn joined(&self, pace: Pace) {
        self.demand.fetch_add(pace.per_1000_s(), Ordering::Relaxed);
    }

    /// A container that was counted asks no more.
    pub fn left(&self, pace: Pace) {
        self.demand.fetch_sub(pace.per_1000_s(), Ordering::Relaxed);
    }

    /// Something that was due happened so much later. Lateness is believed at once and forgotten by a
    /// quarter a look, so that a crowd that has slowed down does not come back all at once.
    pub fn late_by(&self, late_ms: u64) {
        let remembered_ms = self.late_ms.load(Ordering::Relaxed);
        let faded_ms = remembered_ms - remembered_ms.div_ceil(4);
        self.late_ms.store(faded_ms.max(late_ms), Ordering::Relaxed);
    }

    /// How many times as long as usual an interval is, in thousandths; 1,000 without load.
    pub fn stretch_permille(&self) -> u64 {
        let demand = self.demand.load(Ordering::Relaxed) / QUESTIONS_PER_SECOND;
        let late_ms = self.late_ms.load(Ordering::Relaxed).saturating_sub(PUNCTUAL_MS);
        let lateness = late_ms.saturating_mul(1_000) / MS_PER_INTERVAL;
        demand.max(1_000).saturating_add(lateness)
    }
}

/// Looks for ever at how late this process is: whoever wakes late answers late.
pub(crate) async fn watch_lateness(load: &Load) {
    loop {
        let due = tokio::time::Instant::now() + LOOK_EVERY;
        tokio::time::sleep_until(due).await;
        load.late_by(u64::try_from(due.elapsed().as_millis()).unwrap_or(u64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: LeaseTerms =
        LeaseTerms { lease_ms: 15_000, grace_ms: 5_000, schedule_ms: 1_000 };

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(1_000_000 + ms)
    }

    fn crowd(containers: u64) -> Load {
        let load = Load::default();
        (0..containers).for_each(|_| load.joined(Pace::of(DEFAULT)));
        load
    }

    #[test]
    fn a_crowd_asks_for_no_more_than_one_coordinator_takes() {
        let interval = |containers| Pace::of(DEFAULT).interval_ms(&crowd(containers));
        assert_eq!([0, 1, 10_000].map(interval), [1_000; 3]);
        assert_eq!(interval(15_000), 1_500);
        assert_eq!(interval(30_000), 3_000);
        // L − G − m = 9,600.
        assert_eq!([32_000, 100_000, 1_000_000].map(interval), [3_200; 3]);
        let load = crowd(30_000);
        (0..20_000).for_each(|_| load.left(Pace::of(DEFAULT)));
        assert_eq!(Pace::of(DEFAULT).interval_ms(&load), 1_000, "those that have gone ask nothing");
    }

    #[test]
    fn a_coordinator_that_is_late_is_asked_less_often_until_it_is_punctual_again() {
        let (load, pace) = (Load::default(), Pace::of(DEFAULT));
        load.late_by(PUNCTUAL_MS);
        assert_eq!(pace.interval_ms(&load), 1_000);
        load.late_by(PUNCTUAL_MS + MS_PER_INTERVAL);
        assert_eq!(pace.interval_ms(&load), 2_000);
        load.late_by(0);
        let eased = pace.interval_ms(&load);
        assert!(1_000 < eased && eased < 2_000, "not all at once: {eased}");
        (0..20).for_each(|_| load.late_by(0));
        assert_eq!(pace.interval_ms(&load), 1_000);
        load.late_by(u64::MAX);
        assert_eq!(pace.interval_ms(&load), 3_200);
    }

    #[tokio::test]
    async fn a_process_that_is_held_up_is_late() {
        let load = std::sync::Arc::new(Load::default());
        let looks = tokio::spawn({
            let load = std::sync::Arc::clone(&load);
            async move { watch_lateness(&load).await }
        });
        // It begins to wait, and then the only thread is busy with something else.
        tokio::task::yield_now().await;
        let began = std::time::Instant::now();
        while began.elapsed() < 3 * LOOK_EVERY {
            std::hint::spin_loop();
        }
        while load.stretch_permille() == 1_000 {
            tokio::task::yield_now().await;
        }
        looks.abort();
    }

    /// Over every lease that a job may have, any load, and a crowd of containers: three questions, each
    /// with its answer lost or late by what is left, fit before the container stops itself; so it ends
    /// before the coordinator would replace it, whatever the load was.
    #[test]
    fn no_load_takes_a_lease_beyond_what_it_holds() {
        let leases = [1_000, 1_500, 4_183, 15_000, 60_000, 3_600_000];
        let graces = [0, 100, 1_000, 5_000, 30_000];
        let schedules = [1, 50, 100, 1_000, 5_000, 60_000];
        let mut seen = 0;
        for lease_ms in leases {
            for grace_ms in graces {
                for schedule_ms in schedules {
                    let terms = LeaseTerms { lease_ms, grace_ms, schedule_ms };
                    if !terms.holds_three_polls() {
                        continue;
                    }
                    seen += 1;
                    for late_ms in [0, 21, 60, 500, u64::MAX] {
                        let load = crowd(40_000);
                        load.late_by(late_ms);
                        let next = |seq| Pace::of(terms).next_poll_ms(&load, seq, at(seq * 37));
                        let longest = (0..200).map(next).max().unwrap();
                        let shortest = (0..200).map(next).min().unwrap();
                        assert!(3 * longest <= terms.stop_after_ms(), "{terms:?} {late_ms}");
                        assert!(shortest >= schedule_ms - schedule_ms / 10, "{terms:?} {late_ms}");
                        let interval_ms = Pace::of(terms).interval_ms(&load);
                        assert!(longest <= interval_ms, "jitter makes nobody later");
                        assert!(shortest >= interval_ms - interval_ms / 10);
                    }
                }
            }
        }
        assert!(seen > 50, "{seen} leases");
    }

    #[test]
    fn those_who_ask_in_one_millisecond_are_told_to_come_back_apart() {
        let (load, pace) = (Load::default(), Pace::of(DEFAULT));
        let mut told = [0_u32; 101];
        for seq in 0..10_000 {
            let next = pace.next_poll_ms(&load, seq, at(0));
            told[usize::try_from(next - 900).unwrap()] += 1;
        }
        assert!(told.iter().all(|count| (50..200).contains(count)), "{told:?}");
    }

    /// Ten thousand containers that come back over one interval, as their own first pause makes them (the
    /// validator's test of a crowd), and go on as they are told, under a load that changes: at no time do
    /// more than three times the average of them ask within 100 ms.
    #[test]
    fn a_crowd_that_came_back_spread_stays_spread_under_a_changing_load() {
        const CONTAINERS: u64 = 10_000;
        const END_MS: u64 = 60_000;
        let (load, pace) = (Load::default(), Pace::of(DEFAULT));
        let mut due: Vec<Vec<u64>> = vec![Vec::new(); END_MS as usize];
        (0..CONTAINERS).for_each(|seq| due[(seq % 1_000) as usize].push(seq));
        let mut asked = vec![0_u64; END_MS as usize];
        for ms in 0..END_MS {
            if ms % 100 == 0 {
                // A storm of ten seconds, another one later.
                load.late_by(if matches!(ms, 10_000..20_000 | 35_000..40_000) { 200 } else { 0 });
            }
            for seq in std::mem::take(&mut due[ms as usize]) {
                asked[ms as usize] += 1;
                let next = ms + pace.next_poll_ms(&load, seq, at(ms));
                if let Some(due) = due.get_mut(next as usize) {
                    due.push(seq);
                }
            }
        }
        let total: u64 = asked.iter().sum();
        let average = total / (END_MS / 100);
        let busiest = asked.windows(100).map(|window| window.iter().sum::<u64>()).max().unwrap();
        assert!(busiest < 3 * average, "{busiest} in 100 ms, {average} on average");
        let calm: u64 = asked[1_000..9_000].iter().sum();
        let storm: u64 = asked[13_000..20_000].iter().sum();
        assert!(
            storm * 8 < calm * 7 / 2,
            "{storm} questions in 7 s of storm, {calm} in 8 s of calm"
        );
    }
}
