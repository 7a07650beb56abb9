//! Public-key operations from any bytes: keys, points, signatures, blocks and ciphertexts. Every tier must give the
//! same answer or the same refusal.
//!
//! Each algorithm is a target of its own over one body: [`agree`] takes the algorithm, whose kinds of operations are
//! in `kinds`, and an input, whose first two bytes choose the kind and the number of operations.

mod kinds;

use sealane_transform::{ASYMMETRIC_WAYS, AsymmetricJob, AsymmetricOperation, Kernels, Refusal, Tier};
use zeroize::Zeroizing;

pub use kinds::{DH, ECDH_P256, ECDSA_P256, ED25519, ML_DSA, ML_KEM, RSA, X25519};

/// An algorithm: the kinds of its operations, which each make one from bytes; `None` if the bytes are no key.
#[derive(Debug)]
pub struct Algorithm {
    /// The name of the target.
    pub target: &'static str,
    kinds: &'static [fn(&mut Source<'_>) -> Option<AsymmetricOperation>],
    /// Whether the reference takes so long that one operation of an input is enough for it.
    is_dear: bool,
}

/// All algorithms.
pub const ALL: [&Algorithm; 8] = [&RSA, &DH, &X25519, &ECDH_P256, &ECDSA_P256, &ED25519, &ML_DSA, &ML_KEM];

/// An input without an end: its bytes over and over, other ones each time.
struct Source<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Source<'_> {
    fn byte(&mut self) -> u8 {
        let Some(length) = std::num::NonZeroUsize::new(self.bytes.len()) else { return 0 };
        let byte = self.bytes[self.at % length] ^ (self.at / length) as u8;
        self.at += 1;
        byte
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.byte())
    }

    fn vector(&mut self, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|_| self.byte()).collect()
    }

    fn secret<const N: usize>(&mut self) -> Zeroizing<[u8; N]> {
        Zeroizing::new(self.array())
    }

    /// Returns one of the choices.
    fn choice<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.byte()) % choices.len()]
    }

    /// Alters one of the bytes, or none.
    fn alter(&mut self, bytes: &mut [u8]) {
        let at = usize::from(u16::from_le_bytes(self.array())) % bytes.len();
        bytes[at] ^= self.byte();
    }
}

fn outcomes(tier: Tier, jobs: &mut [AsymmetricJob]) -> Vec<Result<Vec<u8>, Refusal>> {
    jobs.iter_mut().for_each(AsymmetricJob::reset);
    let Ok(kernels) = Kernels::select(Some(tier), None) else { return Vec::new() };
    kernels.asymmetric(&mut *jobs);
    jobs.iter().map(|job| job.answer().expect("it has run").map(<[u8]>::to_vec)).collect()
}

/// Returns the answer of AWS-LC.
fn made(operation: impl Into<AsymmetricOperation>) -> Option<Vec<u8>> {
    outcomes(Tier::Native, &mut [AsymmetricJob::new(operation)]).pop()?.ok()
}

/// Runs up to sixteen operations of one kind, or of all kinds in turn, with the bytes behind the first two as their
/// keys and inputs; returns how many there were.
///
/// # Panics
/// Panics if tiers disagree about an answer or a refusal.
pub fn agree(algorithm: &Algorithm, input: &[u8]) -> usize {
    let Some((&[kind, count], bytes)) = input.split_first_chunk() else { return 0 };
    let mut source = Source { bytes, at: 0 };
    let kinds = algorithm.kinds;
    let chosen = usize::from(kind) % (kinds.len() + 1);
    let count = 1 + usize::from(count) % (2 * ASYMMETRIC_WAYS);
    let operations =
        (0..count).filter_map(|n| kinds.get(chosen).unwrap_or(&kinds[n % kinds.len()])(&mut source));
    let mut jobs: Vec<AsymmetricJob> = operations.map(AsymmetricJob::new).collect();
    let expected = outcomes(Tier::Native, &mut jobs);
    assert_eq!(outcomes(Tier::Batch, &mut jobs), expected, "{jobs:?}");
    let few = if algorithm.is_dear { jobs.len().min(1) } else { jobs.len() };
    assert_eq!(outcomes(Tier::Reference, &mut jobs[..few]), expected[..few], "{jobs:?}");
    jobs.len()
}
