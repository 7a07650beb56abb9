//! The facts of public-key algorithms, and the functions that a folder gives to the dispatcher.

use super::{ASYMMETRIC_LANES, Answer, AsymmetricOperation};
use crate::algorithm::Asymmetric;
use crate::descriptor::{PeerNames, Promise};
use crate::facts::Standing;
use crate::isa::{Avx512, Isa};

/// The facts of a public-key algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsymmetricFacts {
    /// The strength against classical attacks, in bits (SP 800-57 part 1, table 2).
    pub security_bits: usize,
    /// Bytes of a public key as protocols send it; of RSA's modulus.
    pub public_bytes: usize,
    /// Bytes of the answer to the operation with the private key: a signature, a secret.
    pub answer_bytes: usize,
    /// Standing today.
    pub standing: Standing,
    /// The definition.
    pub source: &'static str,
}

/// The costs of an operation, as the `crossover` example measures them: nanoseconds on one machine, of which only the
/// ratio applies to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneCosts {
    /// One operation by AWS-LC.
    pub(crate) single_ns: u32,
    /// One pass of the kernel, however many of its lanes are filled.
    pub(crate) pass_ns: u32,
    /// The operations of a pass: eight, or four if each takes two lanes.
    pub(crate) width: usize,
}

impl LaneCosts {
    /// Makes the costs of an operation that takes one lane.
    pub(crate) const fn new(single_ns: u32, pass_ns: u32) -> Self {
        Self { single_ns, pass_ns, width: ASYMMETRIC_LANES }
    }

    /// Returns the least number of operations for which a pass costs no more than as many single operations.
    pub(crate) const fn least(self) -> usize {
        self.pass_ns.div_ceil(self.single_ns) as usize
    }
}

/// A public-key algorithm.
pub(crate) struct AsymmetricDescriptor {
    pub(crate) name: &'static str,
    pub(crate) facts: AsymmetricFacts,
    pub(crate) peers: PeerNames,
    /// The steps, in the order of their numbers.
    pub(crate) steps: &'static [AsymmetricStep],
    pub(crate) promises: &'static [Promise],
}

/// A step of an algorithm: a kind of operation.
#[derive(Clone, Copy, Debug)]
pub struct AsymmetricStep {
    /// Its name: `sign`, `verify`, `agree`.
    pub name: &'static str,
    /// Makes an operation of this kind with a new key and an input that it accepts, for measurements.
    pub sample: fn() -> AsymmetricOperation,
}

/// An algorithm, and the number of a step among the algorithm's: operations of the same class share a batch.
pub(crate) type Class = (Asymmetric, u8);

/// An operation of a folder: it owns its keys and its input.
pub(crate) trait Task {
    /// Returns its class.
    fn class(&self) -> Class;

    /// Returns the costs that decide about batches with an instruction set; `None` if it has no lanes there.
    fn costs(&self, isa: Isa) -> Option<LaneCosts>;

    /// Computes it by code that follows the definition.
    fn reference(&self) -> Answer;

    /// Computes it by AWS-LC.
    fn native(&self) -> Answer;

    /// Computes up to [`ASYMMETRIC_LANES`] tasks of one class, and puts their answers in.
    #[cfg(target_arch = "x86_64")]
    fn lanes(token: Avx512, tasks: &[&Self], answers: &mut [Answer; ASYMMETRIC_LANES]);
}
