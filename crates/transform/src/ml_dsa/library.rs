//! ML-DSA by AWS-LC: the native tier, one operation at a time, with keys as bytes.

use sealane_native::ml_dsa::Set;

use super::{Generate, MlDsaSet, Signing, Verifying};

/// Returns AWS-LC's name of a parameter set.
const fn set_of(set: MlDsaSet) -> Set {
    match set {
        MlDsaSet::MlDsa44 => Set::MlDsa44,
        MlDsaSet::MlDsa65 => Set::MlDsa65,
        MlDsaSet::MlDsa87 => Set::MlDsa87,
    }
}

/// ML-DSA.KeyGen_internal by AWS-LC. Returns whether it ran.
pub(crate) fn generate_native(job: &mut Generate<'_>) -> bool {
    set_of(job.set).generate(job.seed, job.public, job.private).is_ok()
}

/// Returns the public key of an expanded private key; none if its parts do not agree.
pub(crate) fn public_of(set: MlDsaSet, private: &[u8]) -> Option<Vec<u8>> {
    let mut public = vec![0; set.public_bytes()];
    set_of(set).public_of(private, &mut public).ok()?;
    Some(public)
}

/// ML-DSA.Sign_internal by AWS-LC. Returns whether it ran; the signature is zero if not.
pub(crate) fn sign_native(job: &mut Signing<'_>) -> bool {
    let set = set_of(job.key.set());
    set.sign(job.key.expanded(), &job.mu, job.rnd, job.signature).is_ok()
}

/// ML-DSA.Verify_internal by AWS-LC.
pub(crate) fn verify_native(job: &Verifying<'_>) -> bool {
    let set = set_of(job.key.set());
    set.verify(job.key.as_bytes(), &job.mu, job.signature).is_ok()
}
