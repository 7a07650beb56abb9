//! ML-KEM by AWS-LC: the native tier, one operation at a time. A key's object is made once.

use sealane_native::Refused;
use sealane_native::ml_kem::{Key, Set};
use zeroize::Zeroize as _;

use super::{Decapsulate, Encapsulate, Generate, MlKemSet};

/// Returns AWS-LC's name of a parameter set.
const fn set_of(set: MlKemSet) -> Set {
    match set {
        MlKemSet::MlKem512 => Set::MlKem512,
        MlKemSet::MlKem768 => Set::MlKem768,
        MlKemSet::MlKem1024 => Set::MlKem1024,
    }
}

/// Returns AWS-LC's object of an encapsulation key; none if there is no memory.
pub(crate) fn public(set: MlKemSet, bytes: &[u8]) -> Option<Key> {
    Key::of_public(set_of(set), bytes).ok()
}

/// Returns AWS-LC's object of a decapsulation key; none if there is no memory.
pub(crate) fn private(set: MlKemSet, bytes: &[u8]) -> Option<Key> {
    Key::of_private(set_of(set), bytes).ok()
}

/// ML-KEM.KeyGen_internal by AWS-LC. Returns whether it ran: it fails without memory only.
pub(crate) fn generate_native(job: &mut Generate<'_>) -> bool {
    let pair = Key::of_seed(set_of(job.set), job.seed);
    pair.and_then(|pair| pair.write_private(job.decapsulation_key)).is_ok()
}

/// ML-KEM.Encaps_internal by AWS-LC. Returns whether it ran: it fails without memory only; outputs are zero then.
pub(crate) fn encapsulate_native(job: &mut Encapsulate<'_>) -> bool {
    let key = job.key.native().ok_or(Refused);
    let made = key.and_then(|key| key.encapsulate(Some(job.message), job.ciphertext, job.secret));
    if made.is_err() {
        job.ciphertext.zeroize();
        job.secret.zeroize();
    }
    made.is_ok()
}

/// ML-KEM.Decaps_internal by AWS-LC. Returns whether it ran: it fails without memory only; the secret is zero then.
pub(crate) fn decapsulate_native(job: &mut Decapsulate<'_>) -> bool {
    let key = job.key.native().ok_or(Refused);
    let made = key.and_then(|key| key.decapsulate(job.ciphertext, job.secret));
    if made.is_err() {
        job.secret.zeroize();
    }
    made.is_ok()
}
