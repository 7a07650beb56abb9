//! The queue of one process, for a coordinator or for a study on one host.
//!
//! Guarantees: those of [`Queue`]. Waiting jobs are bounded in number and bytes; in addition memory holds only the
//! ids of finished jobs. With a journal a result is on stable storage before its holder learns that it is kept.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::journal::Journal;
use crate::queue::{
    CoordinatorQueue, Finished, Job, JobId, Lease, Outcome, Put, Queue, RESULT_BYTES_PER_ANSWER,
    RESULTS_PER_ANSWER, Standing, Taken, Weight, check_body, check_order, check_result,
};

/// The bounds of the waiting jobs.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The maximum number of jobs.
    pub jobs: usize,
    /// Bytes of their bodies. One job may always wait.
    pub bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { jobs: 64, bytes: 8 << 20 }
    }
}

/// A queue in memory.
#[derive(Debug)]
pub struct MemoryQueue {
    bounds: Bounds,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
enum Results {
    Memory(Vec<Outcome>, HashMap<JobId, usize>),
    Journal(Journal),
}

impl Results {
    fn has(&self, id: &JobId) -> bool {
        match self {
            Self::Memory(_, places) => places.contains_key(id),
            Self::Journal(journal) => journal.has(id),
        }
    }

    fn append(&mut self, id: JobId, result: &[u8]) -> Result<()> {
        match self {
            Self::Memory(all, places) => {
                places.insert(id, all.len());
                all.push(Outcome { number: all.len() as u64 + 1, id, result: result.to_vec() });
            }
            Self::Journal(journal) => drop(journal.append(id, result)?),
        }
        Ok(())
    }

    fn result(&self, id: &JobId) -> Result<Option<Vec<u8>>> {
        match self {
            Self::Memory(all, places) => Ok(places.get(id).map(|&at| all[at].result.clone())),
            Self::Journal(journal) => journal.result(id),
        }
    }

    fn last_number(&self) -> u64 {
        match self {
            Self::Memory(all, _) => all.len() as u64,
            Self::Journal(journal) => journal.last_number(),
        }
    }

    fn read(&self, number: u64) -> Result<Option<Outcome>> {
        match self {
            Self::Memory(all, _) => Ok(all.get(number as usize - 1).cloned()),
            Self::Journal(journal) => journal.read(number),
        }
    }
}

#[derive(Debug)]
struct Waiting {
    job: Job,
    /// The number of times it was handed out.
    attempts: u32,
    /// The time before which the job must not be handed out.
    not_before: Option<Instant>,
}

#[derive(Debug)]
struct Held {
    job: Job,
    attempts: u32,
    done: Weight,
}

#[derive(Debug)]
struct State {
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    held: HashMap<u64, Held>,
    /// The jobs that wait or are held.
    open: HashSet<JobId>,
    next_token: u64,
    is_sealed: bool,
    results: Results,
    order: Vec<u8>,
    put: Weight,
    finished: Weight,
}

impl State {
    fn wait(&mut self, waiting: Waiting, is_first: bool) {
        self.waiting_bytes += waiting.job.body.len();
        self.open.insert(waiting.job.id);
        if is_first { self.waiting.push_front(waiting) } else { self.waiting.push_back(waiting) }
    }

    fn is_over(&self) -> bool {
        self.is_sealed && self.waiting.is_empty() && self.held.is_empty()
    }

    fn hand_out(&mut self, now: Instant) -> Option<Lease> {
        let at = self.waiting.iter().position(|found| found.not_before.is_none_or(|then| then <= now))?;
        let Waiting { job, attempts, .. } = self.waiting.remove(at)?;
        self.waiting_bytes -= job.body.len();
        let attempts = attempts.saturating_add(1);
        let token = self.next_token;
        self.next_token += 1;
        self.held.insert(token, Held { job: job.clone(), attempts, done: Weight::default() });
        Some(Lease { job, attempt: attempts, token })
    }
}

impl Default for MemoryQueue {
    fn default() -> Self {
        Self::new(Bounds::default())
    }
}

impl MemoryQueue {
    /// Creates an empty queue whose results are in memory too.
    pub fn new(bounds: Bounds) -> Self {
        Self::with(bounds, Results::Memory(Vec::new(), HashMap::new()))
    }

    /// Creates an empty queue whose results go into a journal; jobs with a result there are known.
    pub fn journaled(bounds: Bounds, journal: Journal) -> Self {
        Self::with(bounds, Results::Journal(journal))
    }

    fn with(bounds: Bounds, results: Results) -> Self {
        let state = State {
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            held: HashMap::new(),
            open: HashSet::new(),
            next_token: 1,
            is_sealed: false,
            results,
            order: Vec::new(),
            put: Weight::default(),
            finished: Weight::default(),
        };
        Self { bounds, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is valid at every step, so a panic elsewhere leaves it valid.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue for MemoryQueue {
    fn put(&self, job: &Job) -> Result<Put> {
        check_body(job)?;
        let mut state = self.state();
        if state.open.contains(&job.id) || state.results.has(&job.id) {
            return Ok(Put::Known);
        }
        let is_full = state.waiting.len() >= self.bounds.jobs
            || state.waiting_bytes.saturating_add(job.body.len()) > self.bounds.bytes;
        if is_full && !state.waiting.is_empty() {
            return Ok(Put::Full);
        }
        state.put = state.put.plus(job.weight);
        state.wait(Waiting { job: job.clone(), attempts: 0, not_before: None }, false);
        self.changed.notify_one();
        Ok(Put::New)
    }

    fn take(&self, wait: Duration) -> Result<Taken> {
        let deadline = Instant::now() + wait;
        let mut state = self.state();
        loop {
            let now = Instant::now();
            if let Some(lease) = state.hand_out(now) {
                return Ok(Taken::Job(lease));
            }
            if state.is_over() {
                return Ok(Taken::Over);
            }
            let next = state.waiting.iter().filter_map(|found| found.not_before).min();
            let until = next.unwrap_or(deadline).min(deadline);
            if now >= deadline {
                return Ok(Taken::Nothing);
            }
            let left = until.saturating_duration_since(now).max(Duration::from_millis(1));
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn extend(&self, lease: &Lease, done: Weight) -> Result<()> {
        if let Some(held) = self.state().held.get_mut(&lease.token) {
            held.done = done;
        }
        Ok(())
    }

    fn finish(&self, lease: Lease, result: &[u8]) -> Result<Finished> {
        check_result(result)?;
        let mut state = self.state();
        let id = lease.job.id;
        if state.results.has(&id) {
            state.held.remove(&lease.token);
            self.changed.notify_all();
            return Ok(Finished::Known);
        }
        state.results.append(id, result)?;
        // Other holders of the job, present or future, need not do it any more.
        let weight = lease.job.weight;
        state.held.retain(|_, held| held.job.id != id);
        if let Some(at) = state.waiting.iter().position(|waiting| waiting.job.id == id)
            && let Some(found) = state.waiting.remove(at)
        {
            state.waiting_bytes -= found.job.body.len();
        }
        state.open.remove(&id);
        state.finished = state.finished.plus(weight);
        self.changed.notify_all();
        Ok(Finished::First)
    }

    fn give_back(&self, lease: Lease, after: Duration) -> Result<()> {
        let mut state = self.state();
        if let Some(Held { job, attempts, .. }) = state.held.remove(&lease.token) {
            let not_before = (!after.is_zero()).then(|| Instant::now() + after);
            state.wait(Waiting { job, attempts, not_before }, false);
            self.changed.notify_all();
        }
        Ok(())
    }

    fn result(&self, id: &JobId) -> Result<Option<Vec<u8>>> {
        self.state().results.result(id)
    }

    fn announcement(&self) -> Result<Vec<u8>> {
        Ok(self.state().order.clone())
    }
}

impl CoordinatorQueue for MemoryQueue {
    fn seal(&self) -> Result<()> {
        self.state().is_sealed = true;
        self.changed.notify_all();
        Ok(())
    }

    fn results(&self, after: u64) -> Result<Vec<Outcome>> {
        let state = self.state();
        let (mut found, mut bytes) = (Vec::new(), 0);
        for number in after + 1..=state.results.last_number() {
            if found.len() >= RESULTS_PER_ANSWER || bytes >= RESULT_BYTES_PER_ANSWER {
                break;
            }
            if let Some(outcome) = state.results.read(number)? {
                bytes += outcome.result.len();
                found.push(outcome);
            }
        }
        Ok(found)
    }

    fn announce(&self, order: &[u8]) -> Result<()> {
        check_order(order)?;
        self.state().order = order.to_vec();
        Ok(())
    }

    fn standing(&self) -> Result<Standing> {
        let state = self.state();
        Ok(Standing {
            waiting: state.waiting.len(),
            held: state.held.len(),
            put: state.put,
            finished: state.finished,
            under_way: state.held.values().fold(Weight::default(), |sum, held| sum.plus(held.done)),
        })
    }

    /// Ends the lease of a lost holder: its job is the next to be handed out.
    fn expire(&self, token: u64) {
        let mut state = self.state();
        if let Some(Held { job, attempts, .. }) = state.held.remove(&token) {
            state.wait(Waiting { job, attempts, not_before: None }, true);
            self.changed.notify_all();
        }
    }
}
