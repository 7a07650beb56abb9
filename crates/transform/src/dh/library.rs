//! Diffie-Hellman by AWS-LC's modular exponentiation: the native tier.

use super::{DhJob, DhOutcome};
use crate::montgomery::library::Natural;
use crate::montgomery::reference::from_bytes;

/// Runs an operation.
pub(crate) fn run(job: &mut DhJob<'_>) {
    if !job.fits() {
        return;
    }
    let outcome = compute(job).unwrap_or(DhOutcome::Fault);
    job.finish(outcome);
}

fn compute(job: &mut DhJob<'_>) -> Option<DhOutcome> {
    let group = job.key.group().prepared();
    let words = job.key.group().bits() / 64;
    let base = job.peer.unwrap_or(&[2]);
    if !group.bounds.hold(&from_bytes(base, words)) {
        return Some(DhOutcome::BadPeer);
    }
    let power = group.library.as_ref()?.power_secret(&Natural::from_bytes(base)?, job.key.library()?)?;
    power.to_bytes(job.output)?;
    let is_taken = job.peer.is_none() || group.bounds.hold(&from_bytes(job.output, words));
    Some(if is_taken { DhOutcome::Done } else { DhOutcome::BadPeer })
}
