//! ML-DSA (FIPS 204), one operation at a time, with keys as bytes.
//!
//! The functions are exported for tests by NIST's server: those of EVP choose the random value of a signature
//! themselves, so that theirs could be compared with no other implementation's. Their names contain the library's version, so
//! another version does not link.
//!
//! **Guarantees:** the lengths of all slices are checked; what a failure leaves of a key or a signature is wiped.
#![allow(unsafe_code)]

use core::ffi::c_int;
use core::ptr::null;

use zeroize::Zeroize as _;

use crate::outcome::{Refused, yes};

/// A parameter set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// Security category 2.
    MlDsa44,
    /// Security category 3.
    MlDsa65,
    /// Security category 5.
    MlDsa87,
}

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

/// The lengths of a public key, an expanded private key and a signature in bytes (FIPS 204, table 2).
struct Lengths {
    public: usize,
    private: usize,
    signature: usize,
}

impl Set {
    const fn lengths(self) -> Lengths {
        match self {
            Self::MlDsa44 => Lengths { public: 1312, private: 2560, signature: 2420 },
            Self::MlDsa65 => Lengths { public: 1952, private: 4032, signature: 3309 },
            Self::MlDsa87 => Lengths { public: 2592, private: 4896, signature: 4627 },
        }
    }

    fn functions(self) -> Functions {
        match self {
            Self::MlDsa44 => functions!(
                "aws_lc_0_47_0_ml_dsa_44_keypair_internal",
                "aws_lc_0_47_0_ml_dsa_44_pack_pk_from_sk",
                "aws_lc_0_47_0_ml_dsa_extmu_44_sign_internal",
                "aws_lc_0_47_0_ml_dsa_extmu_44_verify_internal"
            ),
            Self::MlDsa65 => functions!(
                "aws_lc_0_47_0_ml_dsa_65_keypair_internal",
                "aws_lc_0_47_0_ml_dsa_65_pack_pk_from_sk",
                "aws_lc_0_47_0_ml_dsa_extmu_65_sign_internal",
                "aws_lc_0_47_0_ml_dsa_extmu_65_verify_internal"
            ),
            Self::MlDsa87 => functions!(
                "aws_lc_0_47_0_ml_dsa_87_keypair_internal",
                "aws_lc_0_47_0_ml_dsa_87_pack_pk_from_sk",
                "aws_lc_0_47_0_ml_dsa_extmu_87_sign_internal",
                "aws_lc_0_47_0_ml_dsa_extmu_87_verify_internal"
            ),
        }
    }

    /// Makes the key pair of a seed: ML-DSA.KeyGen_internal.
    ///
    /// # Errors
    /// A length is not the set's.
    pub fn generate(self, seed: &[u8; 32], public: &mut [u8], private: &mut [u8]) -> Result<(), Refused> {
        let lengths = self.lengths();
        if public.len() != lengths.public || private.len() != lengths.private {
            return Err(Refused);
        }
        // SAFETY: places of the keys' lengths, and a seed of 32 bytes.
        let outcome =
            unsafe { (self.functions().key_pair)(public.as_mut_ptr(), private.as_mut_ptr(), seed.as_ptr()) };
        yes(outcome).inspect_err(|_| private.zeroize())
    }

    /// Writes the public key of an expanded private key.
    ///
    /// # Errors
    /// A length is not the set's, or the key's parts do not agree.
    pub fn public_of(self, private: &[u8], public: &mut [u8]) -> Result<(), Refused> {
        let lengths = self.lengths();
        if public.len() != lengths.public || private.len() != lengths.private {
            return Err(Refused);
        }
        // SAFETY: a place of the public key's length, and a private key of its length.
        yes(unsafe { (self.functions().public_of)(public.as_mut_ptr(), private.as_ptr()) })
    }

    /// Signs a representative with an expanded private key and a random value: ML-DSA.Sign_internal.
    ///
    /// # Errors
    /// A length is not the set's.
    pub fn sign(
        self,
        private: &[u8],
        representative: &[u8; 64],
        random: &[u8; 32],
        signature: &mut [u8],
    ) -> Result<(), Refused> {
        let lengths = self.lengths();
        if private.len() != lengths.private || signature.len() != lengths.signature {
            return Err(Refused);
        }
        let mut written = signature.len();
        // SAFETY: a private key, a place for the signature, a representative and a random value of their lengths; a
        // prefix of no bytes.
        let outcome = unsafe {
            (self.functions().sign)(
                private.as_ptr(),
                signature.as_mut_ptr(),
                &raw mut written,
                representative.as_ptr(),
                representative.len(),
                null(),
                0,
                random.as_ptr(),
            )
        };
        yes((outcome == 1 && written == lengths.signature).into()).inspect_err(|_| signature.zeroize())
    }

    /// Fails unless a signature of a representative was made with the private half: ML-DSA.Verify_internal.
    ///
    /// # Errors
    /// It was not, or a length is not the set's.
    pub fn verify(self, public: &[u8], representative: &[u8; 64], signature: &[u8]) -> Result<(), Refused> {
        let lengths = self.lengths();
        if public.len() != lengths.public || signature.len() != lengths.signature {
            return Err(Refused);
        }
        // SAFETY: a public key, a signature and a representative of their lengths; a prefix of no bytes.
        yes(unsafe {
            (self.functions().verify)(
                public.as_ptr(),
                signature.as_ptr(),
                signature.len(),
                representative.as_ptr(),
                representative.len(),
                null(),
                0,
            )
        })
    }
}
