//! The requests of all connections, and the choice of the next ones. Workers share it under one lock, which is held
//! while they look at the rings and copy requests.
//!
//! **Guarantees:** the connections of the user whose turn it is ([`crate::fair`]) are served in rotation; a
//! connection with a lie is dropped here at once; a connection is in this list before its client can submit anything,
//! so no request is missed. A connection that has been quiet for a while is parked: its client rings for its next request, whatever
//! the workers do, and until then nobody looks at its ring. So thousands of idle connections cost the others nothing.

use crate::connection::{End, Handle, Intake, TakenRequests};
use crate::counters::Counters;
use crate::fair::{Account, Turns};
use crate::policy::Grant;
use sealane_client::setup::ClientStatus;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The number of a connection in the service.
pub(crate) type Id = u64;

/// The maximum number of requests without computation per turn: as many as the fastest client submits at once.
const READY_PER_TURN: usize = 32;

/// The cost of a request without computation in nanoseconds.
const READY_NS: u64 = 200;

/// The time without a request after which a connection is parked.
const QUIET: Duration = Duration::from_millis(50);

/// The time between two looks for such connections.
const SWEEP: Duration = Duration::from_millis(25);

#[derive(Debug)]
struct Client {
    account: Account,
    /// The connections that are not parked, in the order of their turns.
    connections: VecDeque<Id>,
    status: ClientStatus,
}

/// The clients and their connections.
#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    clients: BTreeMap<u32, Client>,
    /// The connections at whose rings workers look.
    intakes: BTreeMap<Id, Intake>,
    parked: BTreeMap<Id, Intake>,
    /// The time of the next look for connections to be parked.
    sweep_at: Option<Instant>,
    turns: Turns,
    /// Whether a core was idle at the last look, which clients are told.
    pub(crate) core_is_free: bool,
    /// The connections that were dropped because of a lie, for the thread that has their sockets.
    fallen: Vec<Id>,
}

/// The numbers of jobs that one worker takes at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    /// The least number that is taken if not one.
    pub(crate) least: usize,
    /// The largest number.
    pub(crate) most: usize,
    /// Whether only jobs that gain without wide vectors are taken together.
    pub(crate) is_narrow: bool,
}

/// The result of a look for work.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Work was taken.
    Work,
    /// There is no work; at the given time a client whose rate is used up may go on.
    Nothing(Option<Instant>),
}

/// Returns how many of `share` jobs to take, if `pass` of them take as long as fewer: what is left over waits for others
/// that fill its pass.
const fn whole_passes(share: usize, pass: usize) -> usize {
    if share > pass { share - share % pass } else { share }
}

impl Scheduler {
    pub(crate) fn add(&mut self, id: Id, end: Arc<End>, user: u32, rate: Option<u32>, now: Instant) {
        let client = self.clients.entry(user).or_insert_with(|| Client {
            account: Account::new(rate, now),
            connections: VecDeque::new(),
            status: ClientStatus { user, ..ClientStatus::default() },
        });
        // It may be that of earlier connections.
        client.account.set_rate(rate, now);
        client.status.connections += 1;
        self.parked.insert(id, Intake::new(end, user, now));
    }

    /// Puts a connection that rings among those at whose rings workers look.
    pub(crate) fn unpark(&mut self, id: Id, now: Instant) {
        let Some(mut intake) = self.parked.remove(&id) else { return };
        intake.used_at = now;
        if let Some(client) = self.clients.get_mut(&intake.user) {
            client.connections.push_back(id);
        }
        self.intakes.insert(id, intake);
    }

    /// Returns whether there are parked connections, whose rings are heard by waiting for them alone.
    pub(crate) fn has_parked(&self) -> bool {
        !self.parked.is_empty()
    }

    /// Parks connections that have been quiet, now and then.
    pub(crate) fn park_quiet(&mut self, now: Instant) {
        if self.sweep_at.is_some_and(|at| now < at) {
            return;
        }
        self.sweep_at = Some(now + SWEEP);
        let is_quiet =
            |intake: &Intake| now.saturating_duration_since(intake.used_at) > QUIET && intake.is_quiet();
        let quiet: Vec<Id> =
            self.intakes.iter().filter(|(_, intake)| is_quiet(intake)).map(|(id, _)| *id).collect();
        for id in quiet {
            let Some(intake) = self.intakes.get(&id) else { continue };
            intake.end.memory.bells().service_is_about_to_sleep();
            // A request that came before the announcement is not rung for.
            if !intake.is_quiet() {
                continue;
            }
            if let Some(client) = self.clients.get_mut(&intake.user) {
                client.connections.retain(|other| *other != id);
            }
            if let Some(intake) = self.intakes.remove(&id) {
                self.parked.insert(id, intake);
            }
        }
    }

    fn intake(&mut self, id: Id) -> Option<&mut Intake> {
        self.intakes.get_mut(&id).or_else(|| self.parked.get_mut(&id))
    }

    pub(crate) fn remove(&mut self, id: Id) {
        let Some(intake) = self.intakes.remove(&id).or_else(|| self.parked.remove(&id)) else { return };
        intake.end.is_over.store(true, Ordering::Release);
        if let Some(client) = self.clients.get_mut(&intake.user) {
            client.connections.retain(|other| *other != id);
            client.status.connections -= 1;
        }
    }

    /// Drops a connection whose client has lied outside of its rings.
    pub(crate) fn has_lied(&mut self, id: Id) {
        if self.intake(id).is_some() {
            self.remove(id);
            self.fallen.push(id);
        }
    }

    /// Returns the connections of a user that have nothing to do and nothing to lose, at most `most`, those that were used last
    /// at the end.
    pub(crate) fn idle(&self, user: u32, most: usize) -> Vec<Id> {
        let all = self.parked.iter().chain(&self.intakes).filter(|(_, intake)| intake.user == user);
        let mut idle: Vec<_> = all.filter(|(_, intake)| intake.is_idle()).collect();
        idle.sort_by_key(|(_, intake)| intake.used_at);
        idle.into_iter().map(|(id, _)| *id).take(most).collect()
    }

    /// Applies a changed policy to a connection.
    pub(crate) fn change_grant(&mut self, id: Id, rate: Option<u32>, grant: &Grant, now: Instant) {
        let Some(intake) = self.intake(id) else { return };
        intake.change_grant(grant);
        let user = intake.user;
        if let Some(client) = self.clients.get_mut(&user) {
            client.account.set_rate(rate, now);
        }
    }

    /// Returns the end of a connection that still exists.
    pub(crate) fn end(&self, id: Id) -> Option<Arc<End>> {
        let intake = self.intakes.get(&id).or_else(|| self.parked.get(&id))?;
        Some(Arc::clone(&intake.end))
    }

    /// Removes clients without connections, whose accounts would fill the list otherwise. An account with a rate is kept until
    /// all of the rate is there again: who connects anew gets no new one.
    pub(crate) fn forget_idle(&mut self, now: Instant) {
        self.clients.retain(|_, client| client.status.connections > 0 || !client.account.is_full(now));
    }

    pub(crate) fn open(&mut self, id: Id, handle: Handle) -> Option<u32> {
        self.intake(id)?.open(handle)
    }

    pub(crate) fn close(&mut self, id: Id, handle: u32) {
        if let Some(intake) = self.intake(id) {
            intake.close(handle);
        }
    }

    /// Takes the next work for one of `free` workers: its share of the waiting requests, in whole passes of the kernels,
    /// if that is at least `batch.least`, and otherwise one job. Each job is from the connection whose turn it is.
    pub(crate) fn next(
        &mut self,
        batch: Batch,
        free: usize,
        now: Instant,
        work: &mut TakenRequests,
        counters: &Counters,
    ) -> Next {
        let mut most = 1;
        loop {
            let (user, id) = match self.whose_turn(now) {
                Ok(found) => found,
                Err(_) if !work.jobs.is_empty() => return Next::Work,
                Err(until) => return Next::Nothing(until),
            };
            let had = work.jobs.len();
            self.take(user, id, now, work, counters);
            if had == 0
                && let Some(first) = work.jobs.first()
                && batch.most > 1
                && (first.gains_without_wide_vectors() || !batch.is_narrow)
            {
                let pass = first.pass();
                let waiting = 1 + self.waiting(batch.most * free, now);
                if waiting >= batch.least * free {
                    most = whole_passes(waiting.div_ceil(free.max(1)).min(batch.most), pass);
                }
            }
            // A client that waits for answers without computation is woken before more is taken. A client that changes
            // its request's length at the right moment has nothing taken; it does not keep the lock by that.
            if work.jobs.len() >= most || work.answered > 0 || work.jobs.len() == had {
                return Next::Work;
            }
        }
    }

    /// Takes one job, or answers requests without computation, from a connection.
    fn take(&mut self, user: u32, id: Id, now: Instant, work: &mut TakenRequests, counters: &Counters) {
        let (Some(client), Some(intake)) = (self.clients.get_mut(&user), self.intakes.get_mut(&id)) else {
            return;
        };
        intake.end.memory.bells().set_core_is_free(self.core_is_free);
        let (jobs_before, answered_before) = (work.jobs.len(), work.answered);
        intake.used_at = now;
        let taken = intake.take(1, READY_PER_TURN, work, counters);
        self.turns.begin(&client.account);
        if let Some(at) = client.connections.iter().position(|other| *other == id) {
            client.connections.rotate_left(at + 1);
        }
        let answered = work.answered - answered_before;
        if answered > 0 {
            client.account.charge(answered as u32, READY_NS, now);
        }
        let jobs = &work.jobs[jobs_before..];
        jobs.iter().for_each(|job| client.account.charge(1, job.expected_ns, now));
        client.status.done += (answered + jobs.len()) as u64;
        if taken.is_err() || intake.end.is_over.load(Ordering::Acquire) {
            counters.lies.fetch_add(1, Ordering::Relaxed);
            self.remove(id);
            self.fallen.push(id);
        }
    }

    /// Returns the number of requests that may be taken; from `enough` on it counts no further.
    fn waiting(&self, enough: usize, now: Instant) -> usize {
        let mut waiting = 0;
        for client in self.clients.values().filter(|client| client.account.waits_until(now).is_none()) {
            for intake in client.connections.iter().filter_map(|id| self.intakes.get(id)) {
                if waiting >= enough {
                    return waiting;
                }
                waiting += intake.waiting();
            }
        }
        waiting
    }

    /// Returns the user whose turn it is and the connection to take from, or the time at which a user that waits for
    /// its rate may go on.
    fn whose_turn(&mut self, now: Instant) -> Result<(u32, Id), Option<Instant>> {
        let mut best: Option<(u64, u32, Id)> = None;
        let mut until: Option<Instant> = None;
        for (user, client) in &mut self.clients {
            let pending =
                client.connections.iter().find(|id| self.intakes.get(id).is_some_and(Intake::is_pending));
            let Some(id) = pending else { continue };
            if let Some(due) = client.account.waits_until(now) {
                client.status.waited += 1;
                until = Some(until.map_or(due, |until| until.min(due)));
                continue;
            }
            let rank = self.turns.rank(&mut client.account);
            if best.is_none_or(|(least, ..)| rank < least) {
                best = Some((rank, *user, *id));
            }
        }
        best.map(|(_, user, id)| (user, id)).ok_or(until)
    }

    /// Returns whether any ring shows a request, which perhaps must not be taken: the cheapest look.
    pub(crate) fn is_shown(&self) -> bool {
        self.intakes.values().any(Intake::is_shown)
    }

    /// Returns whether any ring has a request that may be taken.
    pub(crate) fn is_pending(&self, now: Instant) -> bool {
        self.waiting(1, now) > 0
    }

    /// Asks every client that is not parked to wake the service from now on, and publishes whether a core is free. Requests submitted
    /// before may have come without a wake-up, so the rings must be looked at once more.
    pub(crate) fn ask_to_be_woken(&self) {
        for intake in self.intakes.values() {
            intake.end.memory.bells().service_is_about_to_sleep();
            intake.end.memory.bells().set_core_is_free(self.core_is_free);
        }
    }

    /// Tells every client that is not parked that no wake-up is needed, because a worker looks at all rings until it asks again.
    pub(crate) fn ask_for_no_wake(&self) {
        for intake in self.intakes.values() {
            intake.end.memory.bells().service_is_awake();
        }
    }

    /// Replaces the expected cost of a job by its real cost.
    pub(crate) fn correct(&mut self, user: u32, expected_ns: u64, cost_ns: u64) {
        if let Some(client) = self.clients.get_mut(&user) {
            client.account.correct(expected_ns, cost_ns);
            client.status.busy_ns += cost_ns;
        }
    }

    /// Returns the connections that have been dropped here since the last call.
    pub(crate) fn fallen(&mut self) -> Vec<Id> {
        std::mem::take(&mut self.fallen)
    }

    pub(crate) fn has_fallen(&self) -> bool {
        !self.fallen.is_empty()
    }

    pub(crate) fn connections(&self) -> usize {
        self.intakes.len() + self.parked.len()
    }

    pub(crate) fn status(&self, most: usize) -> Vec<ClientStatus> {
        let mut all: Vec<_> = self.clients.values().map(|client| client.status.clone()).collect();
        all.sort_by_key(|client| std::cmp::Reverse(client.busy_ns));
        all.truncate(most);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::whole_passes;

    #[test]
    fn a_pass_that_would_hardly_be_filled_waits() {
        let all = |pass| (1..=8).map(|share| whole_passes(share, pass)).collect::<Vec<_>>();
        assert_eq!(all(4), [1, 2, 3, 4, 4, 4, 4, 8]);
        assert_eq!(all(8), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(all(1), [1, 2, 3, 4, 5, 6, 7, 8]);
    }
}
