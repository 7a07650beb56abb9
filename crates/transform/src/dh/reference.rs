//! Diffie-Hellman by plain numbers: the oracle. No branch and no address depends on an exponent or a secret.

use super::{DhJob, DhOutcome};
use crate::montgomery::reference::{from_bytes, to_bytes};

/// Runs an operation.
pub(crate) fn run(job: &mut DhJob<'_>) {
    if !job.fits() {
        return;
    }
    let group = job.key.group().prepared();
    let words = job.key.group().bits() / 64;
    let base = from_bytes(job.peer.unwrap_or(&[2]), words);
    // Whether a value is refused is no secret.
    if !group.bounds.hold(&base) {
        job.finish(DhOutcome::BadPeer);
        return;
    }
    let result = group.modulus.power(&base, job.key.exponent());
    let is_taken = job.peer.is_none() || group.bounds.hold(&result);
    to_bytes(&result, job.output);
    job.finish(if is_taken { DhOutcome::Done } else { DhOutcome::BadPeer });
}
