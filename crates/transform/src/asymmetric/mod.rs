//! Public-key algorithms: facts, and operations that run alone or eight side by side.
//!
//! An [`AsymmetricJob`] owns its whole context: shared keys, the operation's input, random values. It can run again,
//! anywhere, with the same answer. [`crate::Kernels::asymmetric`] runs a slice of jobs of any algorithms. **Guarantees:**
//! all tiers give the same answer, or refuse with the same [`Refusal`]; no input is a panic; answers are zeroed when
//! they are dropped.

mod descriptor;
mod job;
#[cfg(test)]
pub(crate) mod nist;
mod task;

pub(crate) use descriptor::AsymmetricDescriptor;
pub use descriptor::{AsymmetricFacts, AsymmetricStep};
pub use job::{AsymmetricJob, AsymmetricOperation, Refusal};
pub(crate) use task::{Class, Task, WaysCosts};

/// An operation's result.
pub(crate) type Answer = Result<zeroize::Zeroizing<Vec<u8>>, Refusal>;

/// Jobs side by side in a full batch: the 64-bit elements of a zmm register.
pub const ASYMMETRIC_WAYS: usize = 8;

/// Jobs that are sorted into batches at a time, and so the most that a call of a kernel takes.
pub(crate) const ASYMMETRIC_WINDOW: usize = 64;

/// Returns the answer to a verification: no bytes, or the refusal.
pub(crate) fn verified(is_valid: bool) -> Answer {
    if is_valid { Ok(zeroize::Zeroizing::default()) } else { Err(Refusal::NotVerified) }
}

/// Returns the answer to an operation that may refuse its input.
pub(crate) fn accepted<const N: usize>(is_accepted: bool, answer: &[u8; N]) -> Answer {
    if is_accepted { Ok(zeroize::Zeroizing::new(answer.to_vec())) } else { Err(Refusal::BadInput) }
}

/// Returns random bytes, for samples.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).expect("the library ends the process before it fails");
    bytes
}
