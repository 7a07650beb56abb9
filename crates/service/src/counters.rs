//! The service's counters, from which the status is made.

use sealane_client::{Operation, Status};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The names of operations, by their codes.
const OPERATIONS: [&str; 11] = [
    "null",
    "sign-pkcs1",
    "sign-pss",
    "sign-ecdsa",
    "sign-ed25519",
    "decrypt-pkcs1",
    "decrypt-oaep",
    "derive",
    "seal",
    "open",
    "sign-ml-dsa",
];

/// The names of statuses, by their numbers.
const STATUSES: [&str; 9] = [
    "done",
    "unknown-operation",
    "unknown-key",
    "wrong-kind",
    "not-allowed",
    "bad-content",
    "not-decrypted",
    "removed",
    "failed",
];

/// Returns the name of an operation.
pub(crate) fn operation_name(operation: Operation) -> &'static str {
    OPERATIONS[operation.to_numbers().0 as usize]
}

/// Counters since the start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    done: [AtomicU64; OPERATIONS.len()],
    refused: [AtomicU64; STATUSES.len()],
    pub(crate) lies: AtomicU64,
    pub(crate) wakes: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) divided: AtomicU64,
    pub(crate) busy_ns: AtomicU64,
    /// Connections that were refused: strangers, and those for which there was no place.
    pub(crate) connections_refused: AtomicU64,
    /// Idle connections that were closed because another one needed their place.
    pub(crate) connections_idle: AtomicU64,
}

impl Counters {
    pub(crate) fn count_done(&self, operation: Operation, jobs: u64) {
        self.done[operation.to_numbers().0 as usize].fetch_add(jobs, Relaxed);
    }

    pub(crate) fn count_refused(&self, status: Status) {
        self.refused[status.to_number() as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn done(&self) -> BTreeMap<String, u64> {
        named(&OPERATIONS, &self.done)
    }

    pub(crate) fn refused(&self) -> BTreeMap<String, u64> {
        named(&STATUSES, &self.refused)
    }
}

/// Returns all counters, so that a rate exists before the first event.
fn named(names: &[&str], counters: &[AtomicU64]) -> BTreeMap<String, u64> {
    names.iter().zip(counters).map(|(name, counter)| ((*name).to_owned(), counter.load(Relaxed))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_and_every_status_has_a_name() {
        assert!(Operation::of_numbers(OPERATIONS.len() as u32 - 1, 0).is_some());
        assert!(Operation::of_numbers(OPERATIONS.len() as u32, 0).is_none());
        assert_eq!(Status::Failed.to_number() as usize, STATUSES.len() - 1);
        let counters = Counters::default();
        counters.count_done(Operation::Derive, 1);
        counters.count_refused(Status::Failed);
        assert_eq!((counters.done()["derive"], counters.done()["null"]), (1, 0));
        assert_eq!((counters.refused()["failed"], counters.refused()["removed"]), (1, 0));
    }
}
