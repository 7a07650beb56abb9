//! The works that a card has taken, and their fates.
//!
//! Guarantees: no thread and no clock of its own; at most `depth` works are held; each work that was taken is handed
//! out once, except that a card that hangs hands it out when it recovers.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    Answers,
    dice::Dice,
    timing::{Schedule, Timing},
};
use sealane_engine::{Direction, JobStatus, Software, Work};

/// The behaviour of a card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// The card works correctly.
    #[default]
    Sound,
    /// The card takes works and answers none. It answers them late, when it recovers.
    Hung,
    /// Each work that it takes now is due after this many times its usual time.
    Slow(u32),
    /// Works that it takes now are answered in irregular order.
    Disordered,
    /// One job of each work has a wrong result or a wrong verdict.
    Wrong,
    /// It hands works back without having run all of their jobs.
    Failing,
    /// The card is absent: works that it had, and new ones, are handed back at once without running any job.
    Unplugged,
}

impl Condition {
    /// All conditions in which the card fails.
    const FAULTS: [Self; 6] =
        [Self::Hung, Self::Slow(20), Self::Disordered, Self::Wrong, Self::Failing, Self::Unplugged];
}

/// A work that the card holds.
pub(crate) struct Held {
    pub(crate) work: Work,
    pub(crate) answers: Arc<Answers>,
    pub(crate) fate: Fate,
}

/// The way in which the card handles a work when it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Computed,
    /// Each job is done, and its bytes are as they were.
    TimeOnly,
    Wrong,
    InPart,
    Untouched,
}

/// The card's state. Times are nanoseconds since the card was made.
pub(crate) struct Core {
    schedule: Schedule,
    depth: usize,
    /// Whether the card takes its time and computes nothing.
    pub(crate) is_time_only: bool,
    condition: Condition,
    faults: Option<Faults>,
    /// The works by due time and number.
    held: BTreeMap<(u64, u64), Held>,
    taken: u64,
    /// The queues that found no room.
    pub(crate) wanting: Vec<Arc<Answers>>,
}

/// Conditions that change by themselves.
struct Faults {
    dice: Dice,
    /// The end of the present condition.
    until_ns: u64,
}

/// The maximum duration of a condition; about every other condition is sound.
const CONDITION_NS_MAX: u64 = 200_000_000;
/// The duration of the first condition, which is sound.
const SOUND_NS: u64 = 3_000_000;

impl Faults {
    fn next(&mut self, now_ns: u64) -> Condition {
        self.until_ns = now_ns + 1 + self.dice.below(CONDITION_NS_MAX);
        let choice = self.dice.below(2 * Condition::FAULTS.len() as u64) as usize;
        Condition::FAULTS.get(choice).copied().unwrap_or_default()
    }
}

impl Core {
    /// Makes a sound card; with a seed, its condition changes by itself.
    pub(crate) fn new(timing: Timing, depth: usize, faults: Option<u64>) -> Self {
        let faults = faults.map(|seed| Faults { dice: Dice::new(seed), until_ns: SOUND_NS });
        Self {
            schedule: Schedule::new(timing, 1),
            depth,
            is_time_only: false,
            condition: Condition::Sound,
            faults,
            held: BTreeMap::new(),
            taken: 0,
            wanting: Vec::new(),
        }
    }

    pub(crate) fn set(&mut self, condition: Condition) {
        self.condition = condition;
    }

    /// Changes the condition if its time is over.
    fn look_at_faults(&mut self, now_ns: u64) {
        if let Some(faults) = &mut self.faults
            && faults.until_ns <= now_ns
        {
            self.condition = faults.next(now_ns);
        }
    }

    /// Takes a work, or hands it back if there is no room.
    pub(crate) fn submit(&mut self, now_ns: u64, work: Work, answers: &Arc<Answers>) -> Result<(), Work> {
        if self.held.len() >= self.depth {
            return Err(work);
        }
        self.look_at_faults(now_ns);
        let mut due_ns = now_ns;
        if self.condition != Condition::Unplugged {
            for job in work.jobs.iter().filter(|job| job.status == JobStatus::Pending) {
                let bytes = job.clear.len as usize + job.body.len as usize;
                due_ns = due_ns.max(self.schedule.admit(now_ns, bytes));
            }
        }
        let own_ns = due_ns - now_ns;
        let mut fate = if self.is_time_only { Fate::TimeOnly } else { Fate::Computed };
        match self.condition {
            Condition::Sound | Condition::Hung => {}
            Condition::Slow(times) => due_ns = now_ns + own_ns.saturating_mul(times.into()),
            Condition::Disordered => {
                // This delays the work as if later ones had been taken first.
                let faults = self.faults.as_mut().map_or(self.taken, |faults| faults.dice.draw());
                due_ns += faults % (4 * own_ns + 1);
            }
            Condition::Wrong => fate = Fate::Wrong,
            Condition::Failing => fate = Fate::InPart,
            Condition::Unplugged => fate = Fate::Untouched,
        }
        self.taken += 1;
        let held = Held { work, answers: Arc::clone(answers), fate };
        self.held.insert((due_ns, self.taken), held);
        Ok(())
    }

    /// Returns the time at which the next work is due or the condition changes.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        let change_ns = self.faults.as_ref().map(|faults| faults.until_ns);
        if self.held.is_empty() {
            return None;
        }
        let first_ns = match self.condition {
            Condition::Hung => None,
            Condition::Unplugged => Some(0),
            _ => self.held.first_key_value().map(|(&(due_ns, _), _)| due_ns),
        };
        [first_ns, change_ns].into_iter().flatten().min()
    }

    /// Takes out the next work that is due.
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<Held> {
        self.look_at_faults(now_ns);
        match self.condition {
            Condition::Hung => None,
            Condition::Unplugged => {
                let (_, held) = self.held.pop_first()?;
                Some(Held { fate: Fate::Untouched, ..held })
            }
            _ => self.held.first_entry().filter(|first| first.key().0 <= now_ns).map(|first| first.remove()),
        }
    }

    /// Returns whether the card can take another work.
    pub(crate) fn has_room(&self) -> bool {
        self.held.len() < self.depth
    }
}

/// Processes a work according to its fate.
pub(crate) fn run(held: &mut Held, software: &mut Software) {
    let work = &mut held.work;
    match held.fate {
        Fate::Untouched => {}
        Fate::Computed => software.run(work),
        Fate::TimeOnly => {
            let pending = work.jobs.iter_mut().filter(|job| job.status == JobStatus::Pending);
            pending.for_each(|job| job.status = JobStatus::Done);
        }
        Fate::InPart => {
            let mut left = Vec::new();
            for (index, job) in work.jobs.iter_mut().enumerate() {
                // The first of every three jobs is left out, so that a work of one job does not run at all.
                if job.status == JobStatus::Pending && index % 3 == 0 {
                    job.status = JobStatus::Malformed;
                    left.push(index);
                }
            }
            software.run(work);
            left.into_iter().for_each(|index| work.jobs[index].status = JobStatus::Pending);
        }
        Fate::Wrong => {
            software.run(work);
            falsify(work);
        }
    }
}

/// Makes the result of a work's last job wrong.
fn falsify(work: &mut Work) {
    let Work { buffer, jobs, direction, token, .. } = work;
    let Some(job) = jobs.iter_mut().rev().find(|job| job.status != JobStatus::Malformed) else { return };
    job.status = match (job.status, *direction, *token % 2) {
        (JobStatus::Forged, ..) => JobStatus::Done,
        (_, Direction::Open, 0) => JobStatus::Forged,
        (status, ..) => status,
    };
    let span = if job.body.is_empty() { job.tag } else { job.body };
    if let Some(byte) = buffer.bytes_mut()[span.range()].last_mut() {
        *byte ^= 0x10;
    }
}
