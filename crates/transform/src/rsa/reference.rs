//! RSA as RFC 8017 section 5 defines it: the oracle.
//!
//! The private operation follows section 5.1.2, step 2 b, with plain numbers: no branch and no address
//! depends on a secret, but nothing is blinded.

use super::key::Secret;
use super::{PrivateJob, PublicJob, RsaOutcome};
use crate::montgomery::reference::{Words, add_masked, equals, from_bytes, multiply, subtract, to_bytes};

/// Returns the result of the private operation on a number below n: no branch and no address depends on the
/// secret.
pub(crate) fn signature(secret: &Secret, message: &[u64]) -> Words {
    let first = secret.p.power(&secret.p.reduce(message), &secret.dp);
    let second = secret.q.power(&secret.q.reduce(message), &secret.dq);
    joined(secret, &first, &second)
}

/// Returns the number below n that is `first` modulo p and `second` modulo q, which are below p and q.
pub(super) fn joined(secret: &Secret, first: &[u64], second: &[u64]) -> Words {
    // first - second + 2 p is positive, because q < 2^(bits / 2) <= 2 p, and below 4 p: reduced as a number
    // of twice the words.
    let longer = |number: &[u64]| {
        let mut out = Words::new(number.to_vec());
        out.resize(2 * first.len(), 0);
        out
    };
    let (mut difference, other, prime) = (longer(first), longer(second), longer(secret.p.words()));
    add_masked(&mut difference, &prime, u64::MAX);
    add_masked(&mut difference, &prime, u64::MAX);
    subtract(&mut difference, &other);
    let factor = secret.p.multiply(&secret.p.reduce(&difference), &secret.qinv);
    let mut signature = multiply(&factor, secret.q.words());
    add_masked(&mut signature, &other, u64::MAX);
    signature
}

/// Runs a private operation.
pub(crate) fn private(job: &mut PrivateJob<'_>) {
    if !job.fits(job.key.public().bytes()) {
        return;
    }
    let (key, public) = (job.key, job.key.public());
    if !public.takes_private(job.input) {
        job.finish(RsaOutcome::OutOfRange);
        return;
    }
    let message = from_bytes(job.input, public.bytes() / 8);
    let signature = signature(key.secret(), &message);
    let check = public.modulus().power(&signature, public.exponent());
    // Whether the check passed is no secret.
    let outcome = if equals(&check, &message) == 0 { RsaOutcome::Fault } else { RsaOutcome::Done };
    to_bytes(&signature, job.output);
    job.finish(outcome);
}

/// Runs a public operation.
pub(crate) fn public(job: &mut PublicJob<'_>) {
    if !job.fits(job.key.bytes()) {
        return;
    }
    if !job.key.takes_public(job.input) {
        job.finish(RsaOutcome::OutOfRange);
        return;
    }
    let message = from_bytes(job.input, job.key.bytes() / 8);
    to_bytes(&job.key.modulus().power(&message, job.key.exponent()), job.output);
    job.finish(RsaOutcome::Done);
}
