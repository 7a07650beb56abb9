//! The facts of public-key algorithms, and their steps.

use super::AsymmetricOperation;
use crate::descriptor::{PeerNames, Promise};
use crate::facts::Standing;

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

impl AsymmetricDescriptor {
    /// Returns the descriptor of a parameter set of a standard in force. Its names are ours and the one that OpenSSL and
    /// AWS-LC have; its lengths are those of a public key and of an answer.
    pub(crate) const fn of_set(
        source: &'static str,
        [name, elsewhere]: [&'static str; 2],
        security_bits: usize,
        [public_bytes, answer_bytes]: [usize; 2],
        promises: &'static [Promise],
        steps: &'static [AsymmetricStep],
    ) -> Self {
        let standing = Standing::Current;
        let facts = AsymmetricFacts { security_bits, public_bytes, answer_bytes, standing, source };
        let peers = PeerNames::NONE.openssl(elsewhere).aws_lc(elsewhere);
        Self { name, facts, peers, steps, promises }
    }
}
