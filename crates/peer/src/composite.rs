//! Composite signatures of ML-DSA-65 and Ed25519: one key, one signature, and both parts must verify.
//!
//! The algorithm is id-MLDSA65-Ed25519-SHA512 of draft-ietf-lamps-pq-composite-sigs: what both parts sign names the
//! composite and holds SHA-512 of the message, and ML-DSA's context is the composite's label, so that neither part alone is
//! a signature of anything else that we sign. A public key is the two public keys one behind the other, ML-DSA's first; so are
//! a private key (a seed of 32 bytes each) and a signature. All lengths are fixed.
//!
//! **Guarantees.** Bytes of any length are a key, a signature, or refused, without an allocation for what they claim. A
//! signature is valid only if both parts are. ML-DSA's part is hedged by random bytes. Private keys are wiped when they are
//! dropped.

use std::sync::Arc;

use aws_lc_rs::digest;
use aws_lc_rs::signature::{ED25519, ED25519_PUBLIC_KEY_LEN, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use sealane_transform::debug_only;
use sealane_transform::ml_dsa::{
    ML_DSA_SEED_BYTES, MlDsaMessage, MlDsaPrivateKey, MlDsaPublicKey, MlDsaSet, Operation,
};
use sealane_transform::{AsymmetricJob, AsymmetricOperation, Kernels};
use zeroize::Zeroizing;

const SET: MlDsaSet = MlDsaSet::MlDsa65;
const ED25519_SEED_BYTES: usize = 32;
const ED25519_SIGNATURE_BYTES: usize = 64;
const SEED_BYTES: usize = ML_DSA_SEED_BYTES + ED25519_SEED_BYTES;
const PUBLIC_BYTES: usize = SET.public_bytes() + ED25519_PUBLIC_KEY_LEN;
/// Bytes of a signature.
pub(crate) const SIGNATURE_BYTES: usize = SET.signature_bytes() + ED25519_SIGNATURE_BYTES;

/// The beginning of what is signed.
const PREFIX: &[u8] = b"CompositeAlgorithmSignatures2025";
/// The name of this composite in what is signed, and ML-DSA's context.
const LABEL: &[u8] = b"COMPSIG-MLDSA65-Ed25519-SHA512";

/// DER of an `AlgorithmIdentifier` with the object identifier 1.3.6.1.5.5.7.6.48, and no parameters.
const ALGORITHM: [u8; 12] = [0x30, 0x0a, 0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x06, 0x30];
/// DER of a `SubjectPublicKeyInfo` before the algorithm: a sequence of the given length.
const SPKI_HEAD: [u8; 4] = [0x30, 0x82, 0x07, 0xd1];
/// DER of a `SubjectPublicKeyInfo` between the algorithm and the key: a bit string without unused bits.
const SPKI_KEY: [u8; 5] = [0x03, 0x82, 0x07, 0xc1, 0x00];
/// Bytes of a `SubjectPublicKeyInfo`.
pub(crate) const SPKI_BYTES: usize = SPKI_HEAD.len() + ALGORITHM.len() + SPKI_KEY.len() + PUBLIC_BYTES;
/// DER of a PKCS#8 `PrivateKeyInfo` before the algorithm: a sequence, and version 1.
const PKCS8_HEAD: [u8; 5] = [0x30, 0x51, 0x02, 0x01, 0x00];
/// DER of a PKCS#8 `PrivateKeyInfo` between the algorithm and the seeds: an octet string.
const PKCS8_KEY: [u8; 2] = [0x04, 0x40];
/// Bytes of a PKCS#8 `PrivateKeyInfo`.
const PKCS8_BYTES: usize = PKCS8_HEAD.len() + ALGORITHM.len() + PKCS8_KEY.len() + SEED_BYTES;

const _: () = {
    assert!(SPKI_BYTES - SPKI_HEAD.len() == 0x07d1 && PUBLIC_BYTES + 1 == 0x07c1);
    assert!(PKCS8_BYTES - 2 == 0x51 && SEED_BYTES == 0x40);
};

/// Returns M', which both parts sign, for an empty context of the composite.
fn representative(message: &[u8]) -> Vec<u8> {
    [PREFIX, LABEL, &[0], digest::digest(&digest::SHA512, message).as_ref()].concat()
}

/// Returns the representative as ML-DSA takes it.
fn ml_dsa_message(representative: &[u8]) -> MlDsaMessage {
    MlDsaMessage::with_context(LABEL, representative).expect("the label has less than 256 bytes")
}

/// Computes one operation; `None` if it is refused.
fn computed(operation: impl Into<AsymmetricOperation>) -> Option<Zeroizing<Vec<u8>>> {
    let mut job = AsymmetricJob::new(operation);
    Kernels::best().asymmetric([&mut job]);
    job.into_answer().ok()
}

/// The two halves of a key that a peer shows, borrowed from its encoding.
pub(crate) struct CompositePublicKey<'a> {
    ml_dsa: &'a [u8],
    ed25519: &'a [u8],
}

impl<'a> CompositePublicKey<'a> {
    /// Returns the key in a DER `SubjectPublicKeyInfo`, or `None` if that is no such key in its one encoding.
    pub(crate) fn from_spki(spki: &'a [u8]) -> Option<Self> {
        let key = spki.strip_prefix(&SPKI_HEAD)?.strip_prefix(&ALGORITHM)?.strip_prefix(&SPKI_KEY)?;
        if key.len() != PUBLIC_BYTES {
            return None;
        }
        let (ml_dsa, ed25519) = key.split_at_checked(SET.public_bytes())?;
        Some(Self { ml_dsa, ed25519 })
    }

    /// Returns whether both parts of this signature are of this message.
    pub(crate) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        if signature.len() != SIGNATURE_BYTES {
            return false;
        }
        let (ml_dsa, ed25519) = signature.split_at(SET.signature_bytes());
        let Ok(key) = MlDsaPublicKey::new(SET, self.ml_dsa) else { return false };
        let representative = representative(message);
        // The cheaper part comes first.
        UnparsedPublicKey::new(&ED25519, self.ed25519).verify(&representative, ed25519).is_ok()
            && computed(Operation::Verify {
                key: Arc::new(key),
                message: ml_dsa_message(&representative),
                signature: ml_dsa.to_vec(),
            })
            .is_some()
    }
}

/// A private key; wiped when dropped.
pub(crate) struct CompositeKey {
    /// ML-DSA's seed, then Ed25519's.
    seeds: Zeroizing<[u8; SEED_BYTES]>,
    ml_dsa: Arc<MlDsaPrivateKey>,
    ed25519: Ed25519KeyPair,
}

debug_only!(CompositeKey {});

impl CompositeKey {
    /// Returns a new key, of which both parts are new; `None` if the random generator fails.
    pub(crate) fn generate() -> Option<Self> {
        let mut seeds = Zeroizing::new([0; SEED_BYTES]);
        aws_lc_rs::rand::fill(&mut *seeds).ok()?;
        Self::from_seeds(seeds)
    }

    fn from_seeds(seeds: Zeroizing<[u8; SEED_BYTES]>) -> Option<Self> {
        let (ml_dsa, ed25519) = seeds.split_first_chunk()?;
        let ml_dsa = Arc::new(MlDsaPrivateKey::from_seed(SET, ml_dsa));
        let ed25519 = Ed25519KeyPair::from_seed_unchecked(ed25519).ok()?;
        Some(Self { seeds, ml_dsa, ed25519 })
    }

    /// Returns the key in a DER PKCS#8 `PrivateKeyInfo`, or `None` if that is no such key in its one encoding.
    pub(crate) fn from_pkcs8(pkcs8: &[u8]) -> Option<Self> {
        let key = pkcs8.strip_prefix(&PKCS8_HEAD)?.strip_prefix(&ALGORITHM)?.strip_prefix(&PKCS8_KEY)?;
        let mut seeds = Zeroizing::new([0; SEED_BYTES]);
        if key.len() != seeds.len() {
            return None;
        }
        seeds.copy_from_slice(key);
        Self::from_seeds(seeds)
    }

    /// Returns the key as a DER PKCS#8 `PrivateKeyInfo` (RFC 5208).
    pub(crate) fn to_pkcs8(&self) -> Zeroizing<Vec<u8>> {
        let mut pkcs8 = Zeroizing::new(Vec::with_capacity(PKCS8_BYTES));
        for part in [&PKCS8_HEAD[..], &ALGORITHM, &PKCS8_KEY, &*self.seeds] {
            pkcs8.extend_from_slice(part);
        }
        pkcs8
    }

    /// Returns the public key as a DER `SubjectPublicKeyInfo`.
    pub(crate) fn spki(&self) -> Vec<u8> {
        let ed25519 = self.ed25519.public_key().as_ref();
        [&SPKI_HEAD[..], &ALGORITHM, &SPKI_KEY, self.ml_dsa.public().as_bytes(), ed25519].concat()
    }

    /// Signs a message; `None` if the key cannot sign.
    pub(crate) fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let representative = representative(message);
        let message = ml_dsa_message(&representative);
        let ml_dsa = computed(Operation::sign(Arc::clone(&self.ml_dsa), message))?;
        Some([&ml_dsa[..], self.ed25519.sign(&representative).as_ref()].concat())
    }
}

#[cfg(test)]
impl CompositeKey {
    /// Returns a key of one's ML-DSA half and the other's Ed25519 half.
    pub(crate) fn of_halves(ml_dsa: &Self, ed25519: &Self) -> Self {
        let mut seeds = ml_dsa.seeds.clone();
        seeds[ML_DSA_SEED_BYTES..].copy_from_slice(&ed25519.seeds[ML_DSA_SEED_BYTES..]);
        Self::from_seeds(seeds).unwrap()
    }

    /// Returns the Ed25519 half as a key of its own, in PKCS#8.
    pub(crate) fn ed25519_alone(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(self.ed25519.to_pkcs8v1().unwrap().as_ref().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a value of the published vector.
    fn published(name: &str) -> Vec<u8> {
        let text = include_str!("../vectors/composite.rsp");
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
        data_encoding::HEXLOWER.decode(value.expect("a value").as_bytes()).unwrap()
    }

    #[test]
    fn the_published_key_and_signature() {
        let [pkcs8, spki, message, signature] = ["PKCS8", "SPKI", "M", "S"].map(published);
        let key = CompositeKey::from_pkcs8(&pkcs8).unwrap();
        assert_eq!(key.to_pkcs8()[..], pkcs8);
        assert_eq!(key.spki(), spki);
        let public = CompositePublicKey::from_spki(&spki).unwrap();
        assert_eq!(signature.len(), SIGNATURE_BYTES);
        assert!(public.has_signed(&message, &signature));
        // Ours differ in the hedged part alone.
        let ours = key.sign(&message).unwrap();
        assert_eq!(ours.len(), SIGNATURE_BYTES);
        assert_eq!(ours[SET.signature_bytes()..], signature[SET.signature_bytes()..]);
        assert_ne!(ours, key.sign(&message).unwrap());
        assert!(public.has_signed(&message, &ours));
    }

    #[test]
    fn both_parts_must_be_of_the_message() {
        let (key, other) = (CompositeKey::generate().unwrap(), CompositeKey::generate().unwrap());
        let spki = key.spki();
        let public = CompositePublicKey::from_spki(&spki).unwrap();
        let good = key.sign(b"message").unwrap();
        assert!(public.has_signed(b"message", &good));
        assert!(!public.has_signed(b"messagf", &good));
        let (ml_dsa, ed25519) = good.split_at(SET.signature_bytes());
        let foreign = other.sign(b"message").unwrap();
        let (foreign_ml_dsa, foreign_ed25519) = foreign.split_at(SET.signature_bytes());
        let elsewhere = key.sign(b"elsewhere").unwrap();
        let (old_ml_dsa, old_ed25519) = elsewhere.split_at(SET.signature_bytes());
        for bad in [
            [foreign_ml_dsa, ed25519].concat(),
            [ml_dsa, foreign_ed25519].concat(),
            [old_ml_dsa, ed25519].concat(),
            [ml_dsa, old_ed25519].concat(),
            [&vec![0; SET.signature_bytes()][..], ed25519].concat(),
            [ml_dsa, &[0; ED25519_SIGNATURE_BYTES]].concat(),
            [ed25519, ml_dsa].concat(),
            ml_dsa.to_vec(),
            ed25519.to_vec(),
            Vec::new(),
            [&good[..], &[0]].concat(),
            good[..SIGNATURE_BYTES - 1].to_vec(),
        ] {
            assert!(!public.has_signed(b"message", &bad), "{} bytes", bad.len());
        }
        for bit in [0, 7, 8 * SET.signature_bytes() - 1, 8 * SET.signature_bytes(), 8 * SIGNATURE_BYTES - 1] {
            let mut altered = good.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            assert!(!public.has_signed(b"message", &altered), "bit {bit}");
        }
    }

    #[test]
    fn a_key_has_one_encoding() {
        let key = CompositeKey::generate().unwrap();
        let (spki, pkcs8) = (key.spki(), key.to_pkcs8());
        assert_eq!((spki.len(), pkcs8.len()), (SPKI_BYTES, PKCS8_BYTES));
        for at in 0..SPKI_BYTES - PUBLIC_BYTES {
            let mut altered = spki.clone();
            altered[at] ^= 1;
            assert!(CompositePublicKey::from_spki(&altered).is_none(), "byte {at}");
        }
        for at in 0..PKCS8_BYTES - SEED_BYTES {
            let mut altered = pkcs8.to_vec();
            altered[at] ^= 1;
            assert!(CompositeKey::from_pkcs8(&altered).is_none(), "byte {at}");
        }
        for (spki, pkcs8) in [
            (spki[..SPKI_BYTES - 1].to_vec(), pkcs8[..PKCS8_BYTES - 1].to_vec()),
            ([&spki[..], &[0]].concat(), [&pkcs8[..], &[0]].concat()),
        ] {
            assert!(CompositePublicKey::from_spki(&spki).is_none());
            assert!(CompositeKey::from_pkcs8(&pkcs8).is_none());
        }
        assert_eq!(format!("{key:?}"), "CompositeKey { .. }");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = CompositePublicKey::from_spki(&bytes);
            let _ = CompositeKey::from_pkcs8(&bytes);
        }
    }
}
