//! Public-key operations as loads of an engine.
//!
//! Guarantees: an operation owns its keys, its input and its random values, so it can run again on any engine with the
//! same answer; operations of one class, from any submitters, share a batch ([`sealane_transform::Kernels::asymmetric`]).

use sealane_transform::{ASYMMETRIC_WAYS, Asymmetric, AsymmetricJob, Kernels};

use crate::load::Load;

/// One public-key operation under way.
#[derive(Debug)]
pub struct Operation {
    /// The owner's number for it.
    pub token: u64,
    /// The operation, and its answer when it has run.
    pub job: AsymmetricJob,
}

/// The kernels of this machine.
pub(crate) struct Best(Kernels);

impl Default for Best {
    fn default() -> Self {
        Self(Kernels::best())
    }
}

impl Load for Operation {
    type Runner = Best;
    type Class = (Asymmetric, u8);

    fn share(&self) -> Option<f32> {
        Some(1.0 / ASYMMETRIC_WAYS as f32)
    }

    fn class(&self) -> Self::Class {
        self.job.operation().class()
    }

    fn run(loads: &mut [Self], kernels: &mut Best) {
        kernels.0.asymmetric(loads.iter_mut().map(|operation| &mut operation.job));
    }

    fn run_gathered(loads: &mut [Self], kernels: &mut Best) {
        Self::run(loads, kernels);
    }
}
