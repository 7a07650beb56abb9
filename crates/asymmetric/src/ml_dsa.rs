//! Keys of ML-DSA (FIPS 204): their PKCS#8 in the three forms of RFC 9881, and what is prepared of them for signatures.
//!
//! A seed, an expanded key or both are read, and the two bare forms that OpenSSL can write; a seed is written if it is
//! known, and the expanded key otherwise. **Guarantees:** any bytes are a key, a fault that says what does not fit, or no key of
//! ML-DSA; a key's parts agree with each other and with the public key beside them; a key at rest keeps 32 bytes or the expanded
//! key. What signatures need of it, up to 84 KiB, is kept of the [`PREPARED_MAX`] keys that were used last, and wiped when it is left out or the key
//! is dropped.

use crate::der::{self, MlDsaParts, SEED, expect, expect_integer};
use crate::library::random;
use sealane_client::key::MU_BYTES;
use sealane_client::{Answer, KeyKind, MlDsaSet, Status};
use sealane_transform::debug_only;
use sealane_transform::ml_dsa::{ML_DSA_SEED_BYTES, MlDsaKeyError, MlDsaMessage, MlDsaPrivateKey, Operation};
use sealane_transform::{AsymmetricJob, AsymmetricOperation, Kernels, ml_dsa};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zeroize::Zeroizing;

/// The maximum number of keys of which all is kept that signatures need: together at most 22 MiB.
pub const PREPARED_MAX: usize = 256;

/// `[1]`, primitive: the public key in version 1 of PKCS#8 (RFC 5958, 2).
const PUBLIC: u8 = 0x81;
/// `[0]`, constructed: attributes.
const ATTRIBUTES: u8 = 0xa0;

/// The fault of a key of ML-DSA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MlDsaFault {
    /// It has none of the forms of RFC 9881.
    #[error(
        "its {} private key is neither a seed of 32 bytes, nor an expanded key, nor both, so the file is damaged, or was \
         written before RFC 9881: have the program that made it write it again", .set.name()
    )]
    Form {
        /// The parameter set.
        set: MlDsaSet,
    },
    /// The parts of the expanded key do not agree.
    #[error("the parts of its expanded {} private key do not agree, so the file is damaged: use a copy of it", .set.name())]
    Inconsistent {
        /// The parameter set.
        set: MlDsaSet,
    },
    /// The seed makes another expanded key.
    #[error(
        "its {} seed and its expanded private key are those of different keys: the program that wrote them is at fault, or \
         the file is damaged", .set.name()
    )]
    Mismatched {
        /// The parameter set.
        set: MlDsaSet,
    },
    /// The public key beside the private one is another one's.
    #[error(
        "the public key in it is not that of its {} private key: the program that wrote them is at fault, or the file is \
         damaged", .set.name()
    )]
    OtherPublic {
        /// The parameter set.
        set: MlDsaSet,
    },
}

/// Returns the set in the kernels' terms.
pub(crate) const fn set_of(set: MlDsaSet) -> ml_dsa::MlDsaSet {
    match set {
        MlDsaSet::MlDsa44 => ml_dsa::MlDsaSet::MlDsa44,
        MlDsaSet::MlDsa65 => ml_dsa::MlDsaSet::MlDsa65,
        MlDsaSet::MlDsa87 => ml_dsa::MlDsaSet::MlDsa87,
    }
}

/// The private half as it is kept.
enum Kept {
    Seed(Zeroizing<[u8; ML_DSA_SEED_BYTES]>),
    Expanded(Zeroizing<Vec<u8>>),
}

/// A private key.
pub(crate) struct MlDsaKey {
    set: MlDsaSet,
    kept: Kept,
    /// Its number in [`PREPARED`].
    id: u64,
}

debug_only!(MlDsaKey { set });

/// Keys with all that signatures need, by their numbers, each with the time of its last use.
#[derive(Default)]
struct Prepared {
    keys: BTreeMap<u64, (u64, Arc<MlDsaPrivateKey>)>,
    /// It grows with each use.
    time: u64,
}

static PREPARED: Mutex<Prepared> = Mutex::new(Prepared { keys: BTreeMap::new(), time: 0 });

fn prepared() -> MutexGuard<'static, Prepared> {
    PREPARED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Prepared {
    fn get(&mut self, id: u64) -> Option<Arc<MlDsaPrivateKey>> {
        self.time += 1;
        let (used, key) = self.keys.get_mut(&id)?;
        *used = self.time;
        Some(Arc::clone(key))
    }

    /// Keeps a key; returns the one that it drives out, which is wiped after the lock.
    fn put(&mut self, id: u64, key: Arc<MlDsaPrivateKey>) -> Option<Arc<MlDsaPrivateKey>> {
        let oldest = || self.keys.iter().min_by_key(|(_, (used, _))| *used).map(|(id, _)| *id);
        let out = if self.keys.len() < PREPARED_MAX { None } else { oldest() };
        let out = out.and_then(|id| self.keys.remove(&id)).map(|(_, key)| key);
        self.keys.insert(id, (self.time, key));
        out
    }
}

/// A key with its SubjectPublicKeyInfo.
pub(crate) type Made = (MlDsaKey, Vec<u8>);

impl Drop for MlDsaKey {
    fn drop(&mut self) {
        let own = prepared().keys.remove(&self.id);
        drop(own);
    }
}

impl MlDsaKey {
    fn new(set: MlDsaSet, key: MlDsaPrivateKey) -> Made {
        /// The number of the next key.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let kept = match key.seed() {
            Some(seed) => Kept::Seed(Zeroizing::new(*seed)),
            None => Kept::Expanded(Zeroizing::new(key.expanded().to_vec())),
        };
        let public = der::public_of(KeyKind::MlDsa(set), key.public().as_bytes());
        (Self { set, kept, id: NEXT.fetch_add(1, Ordering::Relaxed) }, public)
    }

    /// Makes a new key, and its SubjectPublicKeyInfo.
    pub(crate) fn generate(set: MlDsaSet) -> Made {
        let mut seed = Zeroizing::new([0; ML_DSA_SEED_BYTES]);
        random(&mut seed[..]);
        Self::new(set, MlDsaPrivateKey::from_seed(set_of(set), &seed))
    }

    /// Reads an expanded key without its seed.
    pub(crate) fn of_expanded(set: MlDsaSet, expanded: &[u8]) -> Result<Made, MlDsaFault> {
        let key = MlDsaPrivateKey::from_expanded(set_of(set), expanded).map_err(|error| fault(set, error))?;
        Ok(Self::new(set, key))
    }

    /// Reads PKCS#8; returns `None` if it has no key of ML-DSA. The key comes with its SubjectPublicKeyInfo.
    pub(crate) fn of_pkcs8(pkcs8: &[u8]) -> Option<(MlDsaSet, Result<Made, MlDsaFault>)> {
        let (info, nothing) = expect(pkcs8, der::SEQUENCE)?;
        let (version, rest) = expect_integer(info)?;
        let (algorithm, rest) = expect(rest, der::SEQUENCE)?;
        let (object, parameters) = expect(algorithm, der::OBJECT)?;
        let set = MlDsaSet::ALL.into_iter().find(|set| der::ml_dsa_object(*set) == object)?;
        let read = || {
            let form = MlDsaFault::Form { set };
            let (content, rest) = expect(rest, der::OCTET_STRING).ok_or(form)?;
            if !nothing.is_empty() || !parameters.is_empty() || version.len() != 1 || version[0] > 1 {
                return Err(form);
            }
            let key = read(set, content)?;
            let rest = expect(rest, ATTRIBUTES).map_or(rest, |(_, rest)| rest);
            match expect(rest, PUBLIC) {
                Some((bits, [])) => match bits.strip_prefix(&[0]) {
                    Some(public) if public == key.public().as_bytes() => Ok(Self::new(set, key)),
                    _ => Err(MlDsaFault::OtherPublic { set }),
                },
                None if rest.is_empty() => Ok(Self::new(set, key)),
                _ => Err(form),
            }
        };
        Some((set, read()))
    }

    /// Returns the key as PKCS#8: with its seed if that is known, otherwise the expanded key.
    pub(crate) fn to_pkcs8(&self) -> Zeroizing<Vec<u8>> {
        let parts = match &self.kept {
            Kept::Seed(seed) => MlDsaParts { seed: Some(&seed[..]), expanded: None },
            Kept::Expanded(expanded) => MlDsaParts { seed: None, expanded: Some(expanded) },
        };
        der::private_of_ml_dsa(self.set, parts)
    }

    /// Returns the key with what signatures need of it.
    fn prepared(&self) -> Option<Arc<MlDsaPrivateKey>> {
        if let Some(key) = prepared().get(self.id) {
            return Some(key);
        }
        let set = set_of(self.set);
        let key = Arc::new(match &self.kept {
            Kept::Seed(seed) => MlDsaPrivateKey::from_seed(set, seed),
            Kept::Expanded(expanded) => MlDsaPrivateKey::from_expanded(set, expanded).ok()?,
        });
        let out = prepared().put(self.id, Arc::clone(&key));
        drop(out);
        Some(key)
    }

    /// Returns the signing of a representative as an operation of the kernels.
    pub(crate) fn signing(&self, mu: &[u8; MU_BYTES], is_deterministic: bool) -> Option<AsymmetricOperation> {
        let (key, message) = (self.prepared()?, MlDsaMessage::of_representative(mu));
        let sign = if is_deterministic { Operation::sign_deterministic } else { Operation::sign };
        Some(sign(key, message).into())
    }

    /// Signs a representative.
    pub(crate) fn sign(&self, content: &[u8], is_deterministic: bool) -> Answer {
        let mu = content.try_into().map_err(|_| Status::BadContent)?;
        let mut job = AsymmetricJob::new(self.signing(mu, is_deterministic).ok_or(Status::Failed)?);
        Kernels::best().asymmetric([&mut job]);
        job.into_answer().map_err(|_| Status::Failed)
    }
}

fn fault(set: MlDsaSet, error: MlDsaKeyError) -> MlDsaFault {
    match error {
        MlDsaKeyError::Length { .. } => MlDsaFault::Form { set },
        MlDsaKeyError::Inconsistent => MlDsaFault::Inconsistent { set },
        MlDsaKeyError::Mismatched => MlDsaFault::Mismatched { set },
    }
}

/// Reads the private key within PKCS#8: ML-DSA-…-PrivateKey of RFC 9881, 6, or the same without tags.
fn read(set: MlDsaSet, content: &[u8]) -> Result<MlDsaPrivateKey, MlDsaFault> {
    let kernels = set_of(set);
    let form = MlDsaFault::Form { set };
    let seed_of = |bytes: &[u8]| {
        let seed: &[u8; ML_DSA_SEED_BYTES] = bytes.try_into().map_err(|_| form)?;
        Ok(Zeroizing::new(*seed))
    };
    let of_seed = |bytes| Ok(MlDsaPrivateKey::from_seed(kernels, &*seed_of(bytes)?));
    let of_expanded =
        |bytes: &[u8]| MlDsaPrivateKey::from_expanded(kernels, bytes).map_err(|error| fault(set, error));
    // No form with tags has these lengths.
    if content.len() == ML_DSA_SEED_BYTES {
        return of_seed(content);
    }
    if content.len() == kernels.private_bytes() {
        return of_expanded(content);
    }
    if let Some((seed, [])) = expect(content, SEED) {
        return of_seed(seed);
    }
    if let Some((expanded, [])) = expect(content, der::OCTET_STRING) {
        return of_expanded(expanded);
    }
    let both = || {
        let (both, []) = expect(content, der::SEQUENCE)? else { return None };
        let (seed, rest) = expect(both, der::OCTET_STRING)?;
        let (expanded, []) = expect(rest, der::OCTET_STRING)? else { return None };
        Some((seed, expanded))
    };
    let (seed, expanded) = both().ok_or(form)?;
    MlDsaPrivateKey::from_both(kernels, &*seed_of(seed)?, expanded).map_err(|error| fault(set, error))
}

#[cfg(test)]
#[path = "ml_dsa/tests.rs"]
mod tests;
