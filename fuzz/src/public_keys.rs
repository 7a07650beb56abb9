//! Public-key operations from any bytes: keys, points, signatures, blocks and ciphertexts.

use std::sync::{Arc, LazyLock};

use sealane_transform::dh::{DhExponent, DhGroup, DhPrivateKey};
use sealane_transform::ed25519::{Ed25519Key, Ed25519PublicKey};
use sealane_transform::ml_kem::{MlKem768DecapsulationKey, MlKem768EncapsulationKey};
use sealane_transform::p256::{P256PrivateKey, P256PublicKey, signature_of_der, signature_to_der};
use sealane_transform::rsa::{RsaPrivateKey, RsaPublicKey};
use sealane_transform::x25519::X25519Key;
use sealane_transform::{
    ASYMMETRIC_LANES, AsymmetricJob, AsymmetricOperation, Kernels, Refusal, Tier, dh, ed25519, ml_kem, p256,
    rsa, x25519,
};
use zeroize::Zeroizing;

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
}

static RSA_KEY: LazyLock<Arc<RsaPrivateKey>> = LazyLock::new(|| {
    let der = include_bytes!("../keys/rsa-2048.pkcs8");
    Arc::new(RsaPrivateKey::from_der(der).expect("a key"))
});

/// Makes an operation of a kind; `None` if the bytes are no key.
fn operation(kind: u8, source: &mut Source<'_>) -> Option<AsymmetricOperation> {
    let x25519_key = |source: &mut Source<'_>| Arc::new(X25519Key::new(&source.secret()));
    let p256_key = |source: &mut Source<'_>| P256PrivateKey::new(&source.secret()).ok().map(Arc::new);
    let length = |source: &mut Source<'_>| {
        if source.byte().is_multiple_of(2) { DhExponent::Short } else { DhExponent::Full }
    };
    Some(match kind % KINDS {
        0 => x25519::Operation::Agree { key: x25519_key(source), peer: source.array() }.into(),
        1 => x25519::Operation::Public { key: x25519_key(source) }.into(),
        2 => {
            let (key, bytes) = (Arc::new(Ed25519Key::from_seed(&source.secret())), source.byte());
            ed25519::Operation::Sign { key, message: source.vector(bytes.into()) }.into()
        }
        3 => {
            let (key, bytes) = (Arc::new(Ed25519PublicKey::new(&source.array())), source.byte() % 64);
            ed25519::Operation::Verify {
                key,
                signature: source.array(),
                message: source.vector(bytes.into()),
            }
            .into()
        }
        4 => {
            let bytes = if source.byte().is_multiple_of(2) { 65 } else { 33 };
            p256::Operation::Agree {
                key: p256_key(source)?,
                peer: source.vector(bytes).as_slice().try_into().ok()?,
            }
            .into()
        }
        5 => p256::Operation::Public { key: p256_key(source)? }.into(),
        6 => {
            let (key, bytes) = (p256_key(source)?, usize::from(source.byte() % 65));
            let (hedge, digest) = (source.array(), source.vector(bytes));
            let hedge = bytes.is_multiple_of(3).then_some(hedge);
            p256::Operation::Sign { key, digest: digest.as_slice().try_into().ok()?, hedge }.into()
        }
        7 => {
            // The compressed form makes half of all numbers points.
            let mut point = source.vector(33);
            point[0] = 2 | point[0] & 1;
            let (key, bytes) = (Arc::new(P256PublicKey::new(&point).ok()?), usize::from(source.byte() % 65));
            let (signature, digest) = (source.array(), source.vector(bytes));
            p256::Operation::Verify { key, digest: digest.as_slice().try_into().ok()?, signature }.into()
        }
        8 => rsa::Operation::Private { key: Arc::clone(&RSA_KEY), block: Zeroizing::new(source.vector(256)) }
            .into(),
        9 => {
            let mut modulus = source.vector(256);
            modulus[0] |= 0x80;
            let bytes = 1 + usize::from(source.byte() % 5);
            let key = Arc::new(RsaPublicKey::new(&modulus, &source.vector(bytes)).ok()?);
            rsa::Operation::Public { key, block: Zeroizing::new(source.vector(256)) }.into()
        }
        10 => {
            let (group, length) = (DhGroup::Modp2048, length(source));
            let exponent = Zeroizing::new(source.vector(32));
            let key = Arc::new(DhPrivateKey::new(group, length, &exponent).ok()?);
            dh::Operation::Agree { key, peer: source.vector(group.bytes()) }.into()
        }
        11 => {
            let mut key = source.vector(1184);
            // Most coefficients of 12 bits are below the modulus if the highest bits are 0.
            key[..1152].chunks_exact_mut(3).for_each(|three| {
                three[1] &= 0xf7;
                three[2] &= 0x7f;
            });
            let key = Arc::new(MlKem768EncapsulationKey::new(&key).ok()?);
            ml_kem::Operation::Encapsulate { key, message: source.secret() }.into()
        }
        _ => {
            let mut made = AsymmetricJob::new(ml_kem::Operation::Generate { seed: source.secret() });
            Kernels::select(Some(Tier::Native), None).ok()?.asymmetric([&mut made]);
            let key = Arc::new(MlKem768DecapsulationKey::new(&made.into_answer().ok()?).ok()?);
            ml_kem::Operation::Decapsulate { key, ciphertext: Box::new(source.array()) }.into()
        }
    })
}

/// The kinds of operations.
const KINDS: u8 = 13;

fn outcomes(tier: Tier, jobs: &mut [AsymmetricJob]) -> Vec<Result<Vec<u8>, Refusal>> {
    jobs.iter_mut().for_each(AsymmetricJob::reset);
    let Ok(kernels) = Kernels::select(Some(tier), None) else { return Vec::new() };
    kernels.asymmetric(&mut *jobs);
    jobs.iter().map(|job| job.answer().expect("it has run").map(<[u8]>::to_vec)).collect()
}

/// Runs up to eight operations of the kind that the first byte names, with the rest as their keys and inputs; returns
/// how many there were.
///
/// # Panics
/// Panics if tiers disagree about an answer or a refusal.
pub fn agree(input: &[u8]) -> usize {
    let Some((&[kind, count], bytes)) = input.split_first_chunk() else { return 0 };
    let mut source = Source { bytes, at: 0 };
    let count = 1 + usize::from(count) % ASYMMETRIC_LANES;
    let operations = (0..count).filter_map(|_| operation(kind, &mut source));
    let mut jobs: Vec<AsymmetricJob> = operations.map(AsymmetricJob::new).collect();
    let expected = outcomes(Tier::Native, &mut jobs);
    assert_eq!(outcomes(Tier::Batch, &mut jobs), expected, "{jobs:?}");
    // One of the dearest operations is enough.
    let few = if matches!(kind % KINDS, 8..=10) { jobs.len().min(1) } else { jobs.len() };
    assert_eq!(outcomes(Tier::Reference, &mut jobs[..few]), expected[..few], "{jobs:?}");
    // Signatures in DER: what is read is written again as the same bytes.
    if let Some(signature) = signature_of_der(bytes) {
        assert_eq!(signature_to_der(&signature).as_slice(), bytes);
    }
    jobs.len()
}
