//! One operation on two workers: a half for each, and the rule that decides when.
//!
//! **The rule:** an operation is divided if it has been the only one for a while ([`Solitude`]), another worker does nothing,
//! and two processors have no other thread to run ([`sealane_client::Cores`]). Several operations share a kernel's passes or processors without
//! the additional work of a division.
//!
//! **Guarantees:** the worker that finishes the second half joins both and answers; none waits for the other. If a half
//! fails, the second worker computes the whole anew; a result that fails its check is not answered.

use crate::connection::{Job, compute};
use crate::handover::Meeting;
use sealane_asymmetric::{Half, Halves, Prime, Spent};
use sealane_client::Status;
use sealane_transform::Kernels;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The number of computations in a row, each of one job and without another beside it, after which one is divided: two
/// clients that both have work reach it hardly ever.
const ALONE: u32 = 8;

/// The recent computations that were the only ones.
#[derive(Debug, Default)]
pub(crate) struct Solitude(AtomicU32);

impl Solitude {
    /// Records whether a computation is the only one at its start; returns whether there have been enough of them in a row.
    pub(crate) fn lasts(&self, is_alone: bool) -> bool {
        let so_far = self.0.load(Relaxed);
        self.0.store(if is_alone { (so_far + 1).min(ALONE) } else { 0 }, Relaxed);
        is_alone && so_far >= ALONE
    }

    /// Records that another request waits, or that no worker came for a half.
    pub(crate) fn ends(&self) {
        self.0.store(0, Relaxed);
    }
}

/// The outcome of one half.
#[derive(Debug)]
struct Arrived {
    prime: Prime,
    /// `None` if it failed.
    half: Option<Half>,
    cost_ns: u64,
}

/// An operation of which two workers compute a half each.
#[derive(Debug)]
pub(crate) struct Divided {
    halves: Halves,
    /// The job, until it has its answer.
    job: Mutex<Option<Job>>,
    meeting: Meeting<Arrived>,
}

impl Divided {
    /// Begins the operation of a job; returns the job if it has no halves.
    pub(crate) fn begin(kernels: &Kernels, job: Job) -> Result<(Self, Spent), Job> {
        match catch_unwind(AssertUnwindSafe(|| job.halves(kernels))).ok().flatten() {
            Some((halves, spent)) => {
                Ok((Self { halves, job: Mutex::new(Some(job)), meeting: Meeting::new() }, spent))
            }
            None => Err(job),
        }
    }

    /// Computes a half. If it is the second one, returns the job with its answer, and the nanoseconds that both have taken.
    pub(crate) fn compute(&self, kernels: &Kernels, prime: Prime) -> Option<(Job, u64)> {
        let start = Instant::now();
        // A panic fails the half, and the whole is computed instead.
        let half = catch_unwind(AssertUnwindSafe(|| self.halves.half(prime))).ok().flatten();
        let [one, other] = self.meeting.arrive(Arrived { prime, half, cost_ns: nanoseconds(start) })?;
        let mut job = self.job.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let cost_ns = one.cost_ns + other.cost_ns;
        let start = Instant::now();
        let [p, q] = if one.prime == Prime::P { [one.half, other.half] } else { [other.half, one.half] };
        let _ = catch_unwind(AssertUnwindSafe(|| match (p, q) {
            (Some(p), Some(q)) => {
                let answer = self.halves.join(&p, &q);
                // A status of a lower layer names the machine's fault and no more.
                job.set_answer(answer.map_err(|_| Status::Failed));
            }
            _ => compute(kernels, std::slice::from_mut(&mut job)),
        }));
        Some((job, cost_ns + nanoseconds(start)))
    }
}

fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::closer::Closer;
    use crate::connection::{ClientBell, End, StoredKey};
    use sealane_asymmetric::PrivateKey;
    use sealane_client::{Answer, Bell, Hash, KeyInfo, KeyKind, Memory, Operation};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64};

    pub(crate) const SIGN: Operation = Operation::SignPkcs1(Some(Hash::Sha256));

    /// Returns a key, and the signature that it makes of the bytes of [`signing`].
    pub(crate) fn key() -> (Arc<StoredKey>, Answer) {
        let kind = KeyKind::Rsa { bits: 2048 };
        let key = PrivateKey::generate(kind).unwrap();
        let answer = key.run(SIGN, &[7; 32]);
        let info = KeyInfo { name: "web".to_owned(), kind, public: key.public().to_vec() };
        (Arc::new(StoredKey { info, key, removed: AtomicBool::new(false), used: AtomicU64::new(0) }), answer)
    }

    /// Returns a client's end, jobs of it that sign, and the right answer.
    pub(crate) fn signing() -> (Arc<End>, impl Fn() -> Job, Answer) {
        let (key, answer) = key();
        let (memory, _) = Memory::create().unwrap();
        let end = Arc::new(End::new(memory, ClientBell::new(Bell::pair().unwrap().0, &Closer::default())));
        let owner = Arc::clone(&end);
        (end, move || Job::of_test(&owner, &key, SIGN, &[7; 32]), answer)
    }

    fn begin(job: Job) -> Divided {
        Divided::begin(&Kernels::best(), job).unwrap().0
    }

    #[test]
    fn whoever_is_second_has_the_answer() {
        let (_, job, wanted) = signing();
        for order in [[Prime::P, Prime::Q], [Prime::Q, Prime::P]] {
            let divided = begin(job());
            assert!(divided.compute(&Kernels::best(), order[0]).is_none());
            let (job, _) = divided.compute(&Kernels::best(), order[1]).unwrap();
            assert_eq!(job.answer(), Some(&wanted));
        }
    }

    #[test]
    fn a_half_that_fails_has_the_whole_computed() {
        let (_, job, wanted) = signing();
        for prime in [Prime::P, Prime::Q] {
            let divided = begin(job());
            let other = if prime == Prime::P { Prime::Q } else { Prime::P };
            assert!(divided.meeting.arrive(Arrived { prime, half: None, cost_ns: 0 }).is_none());
            let (job, _) = divided.compute(&Kernels::best(), other).unwrap();
            assert_eq!(job.answer(), Some(&wanted));
        }
    }

    #[test]
    fn a_wrong_half_is_not_answered() {
        let (_, job, _) = signing();
        let (divided, another) = (begin(job()), begin(job()));
        // Another blinding makes another half.
        let half = another.halves.half(Prime::Q);
        assert!(divided.meeting.arrive(Arrived { prime: Prime::Q, half, cost_ns: 0 }).is_none());
        let (job, _) = divided.compute(&Kernels::best(), Prime::P).unwrap();
        assert_eq!(job.answer(), Some(&Err(Status::Failed)));
    }

    #[test]
    fn only_what_has_been_alone_for_a_while_is_divided() {
        let solitude = Solitude::default();
        let run = |alone: bool| solitude.lasts(alone);
        assert!((0..ALONE).all(|_| !run(true)));
        assert!((0..20).all(|_| run(true)));
        assert!(!run(false));
        assert!((0..ALONE).all(|_| !run(true)) && run(true), "a crowd is remembered");
        solitude.ends();
        assert!((0..ALONE).all(|_| !run(true)) && run(true));
    }

    #[test]
    fn two_clients_in_turns_are_never_alone() {
        let solitude = Solitude::default();
        assert!((0..100).all(|round| !solitude.lasts(round % (ALONE + 1) != 0)));
    }
}
