//! ML-DSA by AWS-LC: the native tier, one operation at a time, with keys as bytes.
//!
//! The functions are exported for tests by NIST's server: those of EVP choose the random value of a signature
//! themselves, so that theirs could be compared with no other tier's. Their names contain the library's version, so
//! another version does not link.
//!
//! `unsafe`: calls of the C library.
#![allow(unsafe_code)]

use core::ffi::c_int;
use core::ptr;

use zeroize::Zeroize as _;

use super::{Generate, MlDsaSet, Signing, Verifying};

/// Makes a key pair: public, private, seed.
type KeyPair = unsafe extern "C" fn(*mut u8, *mut u8, *const u8) -> c_int;
/// Writes the public key of a private key, and checks its parts.
type PublicOf = unsafe extern "C" fn(*mut u8, *const u8) -> c_int;
/// Signs: private key, signature and its length, representative, an unused prefix, the random value.
type Sign = unsafe extern "C" fn(
    *const u8,
    *mut u8,
    *mut usize,
    *const u8,
    usize,
    *const u8,
    usize,
    *const u8,
) -> c_int;
/// Verifies: public key, signature, representative, an unused prefix.
type Verify = unsafe extern "C" fn(*const u8, *const u8, usize, *const u8, usize, *const u8, usize) -> c_int;

/// The functions of a parameter set.
struct Functions {
    key_pair: KeyPair,
    public_of: PublicOf,
    sign: Sign,
    verify: Verify,
}

macro_rules! functions {
    ($key_pair:literal, $public_of:literal, $sign:literal, $verify:literal) => {{
        // # Safety
        // Places for keys and signatures are as long as the set's are, the seed and the random value have 32 bytes, a
        // representative and a prefix as many as their lengths say; an empty prefix may be null.
        unsafe extern "C" {
            #[link_name = $key_pair]
            fn key_pair(public: *mut u8, private: *mut u8, seed: *const u8) -> c_int;
            #[link_name = $public_of]
            fn public_of(public: *mut u8, private: *const u8) -> c_int;
            #[link_name = $sign]
            fn sign(
                private: *const u8,
                signature: *mut u8,
                signature_bytes: *mut usize,
                mu: *const u8,
                mu_bytes: usize,
                prefix: *const u8,
                prefix_bytes: usize,
                rnd: *const u8,
            ) -> c_int;
            #[link_name = $verify]
            fn verify(
                public: *const u8,
                signature: *const u8,
                signature_bytes: usize,
                mu: *const u8,
                mu_bytes: usize,
                prefix: *const u8,
                prefix_bytes: usize,
            ) -> c_int;
        }
        Functions { key_pair, public_of, sign, verify }
    }};
}

impl Functions {
    fn of(set: MlDsaSet) -> Self {
        match set {
            MlDsaSet::MlDsa44 => functions!(
                "aws_lc_0_47_0_ml_dsa_44_keypair_internal",
                "aws_lc_0_47_0_ml_dsa_44_pack_pk_from_sk",
                "aws_lc_0_47_0_ml_dsa_extmu_44_sign_internal",
                "aws_lc_0_47_0_ml_dsa_extmu_44_verify_internal"
            ),
            MlDsaSet::MlDsa65 => functions!(
                "aws_lc_0_47_0_ml_dsa_65_keypair_internal",
                "aws_lc_0_47_0_ml_dsa_65_pack_pk_from_sk",
                "aws_lc_0_47_0_ml_dsa_extmu_65_sign_internal",
                "aws_lc_0_47_0_ml_dsa_extmu_65_verify_internal"
            ),
            MlDsaSet::MlDsa87 => functions!(
                "aws_lc_0_47_0_ml_dsa_87_keypair_internal",
                "aws_lc_0_47_0_ml_dsa_87_pack_pk_from_sk",
                "aws_lc_0_47_0_ml_dsa_extmu_87_sign_internal",
                "aws_lc_0_47_0_ml_dsa_extmu_87_verify_internal"
            ),
        }
    }
}

/// ML-DSA.KeyGen_internal by AWS-LC. Returns whether it ran.
///
/// # Panics
/// The places for the keys have not their lengths.
pub(crate) fn generate_native(job: &mut Generate<'_>) -> bool {
    let set = job.set;
    assert!(job.public.len() == set.public_bytes() && job.private.len() == set.private_bytes());
    // SAFETY: places of the keys' lengths, and a seed of 32 bytes.
    let done = unsafe {
        (Functions::of(set).key_pair)(job.public.as_mut_ptr(), job.private.as_mut_ptr(), job.seed.as_ptr())
    };
    if done != 1 {
        job.private.zeroize();
    }
    done == 1
}

/// Returns the public key of an expanded private key; none if its parts do not agree.
///
/// # Panics
/// The private key has another length.
pub(crate) fn public_of(set: MlDsaSet, private: &[u8]) -> Option<Vec<u8>> {
    assert_eq!(private.len(), set.private_bytes());
    let mut public = vec![0; set.public_bytes()];
    // SAFETY: a place of the public key's length, and a private key of its length.
    let done = unsafe { (Functions::of(set).public_of)(public.as_mut_ptr(), private.as_ptr()) };
    (done == 1).then_some(public)
}

/// ML-DSA.Sign_internal by AWS-LC. Returns whether it ran; the signature is zero if not.
///
/// # Panics
/// The place for the signature has not its length.
pub(crate) fn sign_native(job: &mut Signing<'_>) -> bool {
    let set = job.key.set();
    assert_eq!(job.signature.len(), set.signature_bytes());
    let mut written = job.signature.len();
    // SAFETY: a private key, a place for the signature, a representative and a random value of their lengths; a
    // prefix of no bytes.
    let done = unsafe {
        (Functions::of(set).sign)(
            job.key.expanded().as_ptr(),
            job.signature.as_mut_ptr(),
            &raw mut written,
            job.mu.as_ptr(),
            job.mu.len(),
            ptr::null(),
            0,
            job.rnd.as_ptr(),
        )
    };
    let is_done = done == 1 && written == job.signature.len();
    if !is_done {
        job.signature.zeroize();
    }
    is_done
}

/// ML-DSA.Verify_internal by AWS-LC.
pub(crate) fn verify_native(job: &Verifying<'_>) -> bool {
    let set = job.key.set();
    if job.signature.len() != set.signature_bytes() {
        return false;
    }
    // SAFETY: a public key, a signature and a representative of their lengths; a prefix of no bytes.
    let done = unsafe {
        (Functions::of(set).verify)(
            job.key.as_bytes().as_ptr(),
            job.signature.as_ptr(),
            job.signature.len(),
            job.mu.as_ptr(),
            job.mu.len(),
            ptr::null(),
            0,
        )
    };
    done == 1
}
