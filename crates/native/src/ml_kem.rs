//! ML-KEM (FIPS 203) with given seeds and messages, which aws-lc-rs does not take.
//!
//! A key's object is made once; each operation makes a small context for it, because AWS-LC does not promise that threads may
//! share one.
//!
//! **Guarantees:** the lengths of all slices are checked; secret keys are wiped when dropped.
#![allow(unsafe_code)]

use core::ffi::c_int;
use core::ptr::null_mut;

use aws_lc_sys as c;

use crate::key;
use crate::outcome::{Refused, yes};

/// The length of the seed (d, z) of a pair of keys in bytes.
pub const SEED_BYTES: usize = 64;
/// The length of a shared secret, and of a message, in bytes.
pub const SECRET_BYTES: usize = 32;

/// A parameter set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// Security category 1.
    MlKem512,
    /// Security category 3.
    MlKem768,
    /// Security category 5.
    MlKem1024,
}

impl Set {
    const fn number(self) -> c_int {
        match self {
            Self::MlKem512 => c::NID_MLKEM512,
            Self::MlKem768 => c::NID_MLKEM768,
            Self::MlKem1024 => c::NID_MLKEM1024,
        }
    }
}

/// An encapsulation key, a decapsulation key, or both.
#[derive(Debug)]
pub struct Key(key::Key);

impl Key {
    /// Makes the pair of keys of a seed.
    ///
    /// # Errors
    /// There is no memory.
    pub fn of_seed(set: Set, seed: &[u8; SEED_BYTES]) -> Result<Self, Refused> {
        let mut context = key::Context::of_algorithm(c::EVP_PKEY_KEM)?;
        let raw = context.context();
        let (mut key, mut length) = (null_mut(), SEED_BYTES);
        // SAFETY: the context lives; the seed has the stated length; the key is new.
        unsafe {
            yes(c::EVP_PKEY_CTX_kem_set_params(raw, set.number()))?;
            yes(c::EVP_PKEY_keygen_init(raw))?;
            yes(c::EVP_PKEY_keygen_deterministic(raw, &raw mut key, seed.as_ptr(), &raw mut length))?;
            key::Key::read(key).map(Self)
        }
    }

    /// Copies an encapsulation key. Its coefficients are checked when it is used (FIPS 203, 7.2).
    ///
    /// # Errors
    /// The length is another.
    pub fn of_public(set: Set, bytes: &[u8]) -> Result<Self, Refused> {
        // SAFETY: the pointer and the length are those of a slice; the key is new.
        unsafe {
            let key = c::EVP_PKEY_kem_new_raw_public_key(set.number(), bytes.as_ptr(), bytes.len());
            key::Key::read(key).map(Self)
        }
    }

    /// Copies a decapsulation key, which alone serves to decapsulate.
    ///
    /// # Errors
    /// The length is another.
    pub fn of_private(set: Set, bytes: &[u8]) -> Result<Self, Refused> {
        // SAFETY: the pointer and the length are those of a slice; the key is new.
        unsafe {
            let key = c::EVP_PKEY_kem_new_raw_secret_key(set.number(), bytes.as_ptr(), bytes.len());
            key::Key::read(key).map(Self)
        }
    }

    /// Copies both.
    ///
    /// # Errors
    /// A length is another, or they do not belong together.
    pub fn of_both(set: Set, public: &[u8], private: &[u8]) -> Result<Self, Refused> {
        // SAFETY: the pointers and the lengths are those of slices; the key is new.
        let key = unsafe {
            key::Key::read(c::EVP_PKEY_kem_new_raw_key(
                set.number(),
                public.as_ptr(),
                public.len(),
                private.as_ptr(),
                private.len(),
            ))?
        };
        // SAFETY: the key lives.
        yes(unsafe { c::EVP_PKEY_kem_check_key(key.key()) })?;
        Ok(Self(key))
    }

    /// Writes the encapsulation key.
    ///
    /// # Errors
    /// There is none, or it has another length.
    pub fn write_public(&self, bytes: &mut [u8]) -> Result<(), Refused> {
        let mut length = bytes.len();
        // SAFETY: the key lives, and there is room of the length that is given with it.
        yes(unsafe { c::EVP_PKEY_get_raw_public_key(self.0.key(), bytes.as_mut_ptr(), &raw mut length) })?;
        yes((length == bytes.len()).into())
    }

    /// Writes the decapsulation key.
    ///
    /// # Errors
    /// There is none, or it has another length.
    pub fn write_private(&self, bytes: &mut [u8]) -> Result<(), Refused> {
        let mut length = bytes.len();
        // SAFETY: the key lives, and there is room of the length that is given with it.
        yes(unsafe { c::EVP_PKEY_get_raw_private_key(self.0.key(), bytes.as_mut_ptr(), &raw mut length) })?;
        yes((length == bytes.len()).into())
    }

    /// Makes a ciphertext and a shared secret, of a message or of a random one.
    ///
    /// # Errors
    /// The length of the ciphertext is another, or a coefficient of the key is not reduced.
    pub fn encapsulate(
        &self,
        message: Option<&[u8; SECRET_BYTES]>,
        ciphertext: &mut [u8],
        secret: &mut [u8; SECRET_BYTES],
    ) -> Result<(), Refused> {
        let mut context = self.0.context()?;
        let (mut ciphertext_bytes, mut secret_bytes, mut message_bytes) =
            (ciphertext.len(), SECRET_BYTES, SECRET_BYTES);
        let (raw, out, out_bytes) = (context.context(), ciphertext.as_mut_ptr(), &raw mut ciphertext_bytes);
        // SAFETY: the context lives, and slices have the lengths that are given with them.
        yes(unsafe {
            match message {
                Some(message) => c::EVP_PKEY_encapsulate_deterministic(
                    raw,
                    out,
                    out_bytes,
                    secret.as_mut_ptr(),
                    &raw mut secret_bytes,
                    message.as_ptr(),
                    &raw mut message_bytes,
                ),
                None => {
                    c::EVP_PKEY_encapsulate(raw, out, out_bytes, secret.as_mut_ptr(), &raw mut secret_bytes)
                }
            }
        })
    }

    /// Writes the secret of a ciphertext; one that was changed has a secret that nobody else knows.
    ///
    /// # Errors
    /// The length of the ciphertext is another, or the key has the hash of another encapsulation key.
    pub fn decapsulate(&self, ciphertext: &[u8], secret: &mut [u8; SECRET_BYTES]) -> Result<(), Refused> {
        let mut context = self.0.context()?;
        let mut secret_bytes = SECRET_BYTES;
        // SAFETY: the context lives, and slices have the lengths that are given with them.
        yes(unsafe {
            c::EVP_PKEY_decapsulate(
                context.context(),
                secret.as_mut_ptr(),
                &raw mut secret_bytes,
                ciphertext.as_ptr(),
                ciphertext.len(),
            )
        })
    }
}
