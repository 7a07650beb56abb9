//! RSA by AWS-LC: the native tier, one operation at a time. AWS-LC blinds and checks private operations itself.

use super::{PrivateJob, PublicJob, RsaOutcome};

/// Runs a private operation by AWS-LC.
pub(crate) fn private(job: &mut PrivateJob<'_>) {
    if !job.fits(job.key.public().bytes()) {
        return;
    }
    let outcome = if job.key.library().run_private(job.input, job.output).is_ok() {
        RsaOutcome::Done
    } else if job.key.public().takes_private(job.input) {
        RsaOutcome::Fault
    } else {
        RsaOutcome::OutOfRange
    };
    job.finish(outcome);
}

/// Runs a public operation by AWS-LC.
pub(crate) fn public(job: &mut PublicJob<'_>) {
    if !job.fits(job.key.bytes()) {
        return;
    }
    let outcome = if job.key.library().run_public(job.input, job.output).is_ok() {
        RsaOutcome::Done
    } else if job.key.takes_public(job.input) {
        RsaOutcome::Fault
    } else {
        RsaOutcome::OutOfRange
    };
    job.finish(outcome);
}
