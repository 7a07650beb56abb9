//! Diffie-Hellman by AWS-LC's modular exponentiation: the native tier.

use sealane_native::Refused;
use sealane_native::number::Natural;

use super::{DhJob, DhOutcome};
use crate::montgomery::reference::from_bytes;

/// Runs an operation.
pub(crate) fn run(job: &mut DhJob<'_>) {
    if !job.fits() {
        return;
    }
    let outcome = compute(job).unwrap_or(DhOutcome::Fault);
    job.finish(outcome);
}

fn compute(job: &mut DhJob<'_>) -> Result<DhOutcome, Refused> {
    let group = job.key.group().prepared();
    let words = job.key.group().bits() / 64;
    let base = job.peer.unwrap_or(&[2]);
    if !group.bounds.hold(&from_bytes(base, words)) {
        return Ok(DhOutcome::BadPeer);
    }
    let (modulus, exponent) = group.library.as_ref().zip(job.key.library()).ok_or(Refused)?;
    let power = modulus.power_secret(&Natural::from_bytes(base)?, exponent)?;
    power.to_bytes(job.output)?;
    let is_taken = job.peer.is_none() || group.bounds.hold(&from_bytes(job.output, words));
    Ok(if is_taken { DhOutcome::Done } else { DhOutcome::BadPeer })
}
