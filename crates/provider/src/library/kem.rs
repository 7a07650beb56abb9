//! ML-KEM (FIPS 203).

use super::{No, some, yes};
use aws_lc_sys as c;
use sealane_transform::ml_kem::MlKemSet;
use std::ffi::c_int;
use std::ptr::{NonNull, null_mut};
use zeroize::Zeroizing;

/// The length of the seed (d, z) of a pair of keys in bytes.
pub(crate) const SEED_BYTES: usize = 64;
/// The length of a shared secret in bytes.
pub(crate) const SECRET_BYTES: usize = 32;

/// Returns the place of the encapsulation key within the decapsulation key: its hash and a secret value are behind it
/// (FIPS 203, algorithm 16).
fn public_at(set: MlKemSet) -> usize {
    set.decapsulation_key_bytes() - 64 - set.encapsulation_key_bytes()
}

fn nid(set: MlKemSet) -> c_int {
    match set {
        MlKemSet::MlKem512 => c::NID_MLKEM512,
        MlKemSet::MlKem768 => c::NID_MLKEM768,
        MlKemSet::MlKem1024 => c::NID_MLKEM1024,
    }
}

// # Safety
// The declaration is that of AWS-LC at the version in the name. `context` is a context that was initialised to generate
// keys; `key` is a place for a pointer to a key, null or owned by the caller, and `seed_length` for a number; `seed` is
// readable for `*seed_length` bytes. Both `key` and `seed` may be null, and then only the length is written.
unsafe extern "C" {
    /// Makes the pair of keys of a seed. The bindings have no declaration of it; the name contains the library's
    /// version, so another version does not link.
    #[link_name = "aws_lc_0_47_0_EVP_PKEY_keygen_deterministic"]
    fn keygen_deterministic(
        context: *mut c::EVP_PKEY_CTX,
        key: *mut *mut c::EVP_PKEY,
        seed: *const u8,
        seed_length: *mut usize,
    ) -> c_int;
}

/// An encapsulation key, with or without its decapsulation key: an `EVP_PKEY`.
#[derive(Debug)]
pub(crate) struct Kem {
    set: MlKemSet,
    key: NonNull<c::EVP_PKEY>,
    seed: Option<Zeroizing<[u8; SEED_BYTES]>>,
    has_private: bool,
}

// SAFETY: an EVP_PKEY may be used by several threads at once as long as none changes it, and nothing here does.
unsafe impl Send for Kem {}
// SAFETY: operations only read the object, and its count of references is atomic.
unsafe impl Sync for Kem {}

impl Drop for Kem {
    fn drop(&mut self) {
        // SAFETY: this value owns one reference. The library zeroes what it frees.
        unsafe { c::EVP_PKEY_free(self.key.as_ptr()) };
    }
}

/// An `EVP_PKEY_CTX`, one operation.
struct Context(NonNull<c::EVP_PKEY_CTX>);

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: this value owns it.
        unsafe { c::EVP_PKEY_CTX_free(self.0.as_ptr()) };
    }
}

impl Kem {
    /// Makes a new pair of keys.
    pub(crate) fn generate(set: MlKemSet) -> Result<Self, No> {
        let mut seed = Zeroizing::new([0; SEED_BYTES]);
        // SAFETY: the buffer has as many bytes.
        yes(unsafe { c::RAND_bytes(seed.as_mut_ptr(), SEED_BYTES) })?;
        Self::of_seed(set, &seed)
    }

    /// Makes the pair of keys of a seed.
    pub(crate) fn of_seed(set: MlKemSet, seed: &[u8; SEED_BYTES]) -> Result<Self, No> {
        // SAFETY: the function takes a constant, and no engine.
        let context = Context(some(unsafe { c::EVP_PKEY_CTX_new_id(c::EVP_PKEY_KEM, null_mut()) })?);
        let mut key = null_mut();
        let mut length = SEED_BYTES;
        // SAFETY: the context is valid; the seed is a buffer of the stated length.
        unsafe {
            yes(c::EVP_PKEY_CTX_kem_set_params(context.0.as_ptr(), nid(set)))?;
            yes(c::EVP_PKEY_keygen_init(context.0.as_ptr()))?;
            yes(keygen_deterministic(context.0.as_ptr(), &mut key, seed.as_ptr(), &mut length))?;
        }
        Ok(Self { set, key: some(key)?, seed: Some(Zeroizing::new(*seed)), has_private: true })
    }

    /// Reads an encapsulation key.
    ///
    /// # Errors
    /// Fails if it does not have the form of one.
    pub(crate) fn of_public(set: MlKemSet, public: &[u8]) -> Result<Self, No> {
        // SAFETY: the bytes are a slice with its length.
        let key = unsafe { c::EVP_PKEY_kem_new_raw_public_key(nid(set), public.as_ptr(), public.len()) };
        let kem = Self { set, key: some(key)?, seed: None, has_private: false };
        // The coefficients are checked by the first use (FIPS 203, 7.2).
        kem.encapsulate().map(|_| ())?;
        Ok(kem)
    }

    /// Reads a decapsulation key, which contains its encapsulation key.
    ///
    /// # Errors
    /// Fails if the two do not belong together.
    pub(crate) fn of_private(set: MlKemSet, private: &[u8]) -> Result<Self, No> {
        if private.len() != set.decapsulation_key_bytes() {
            return Err(No);
        }
        let public = &private[public_at(set)..][..set.encapsulation_key_bytes()];
        // SAFETY: the bytes are slices with their lengths.
        let key = unsafe {
            c::EVP_PKEY_kem_new_raw_key(
                nid(set),
                public.as_ptr(),
                public.len(),
                private.as_ptr(),
                private.len(),
            )
        };
        let kem = Self { set, key: some(key)?, seed: None, has_private: true };
        // SAFETY: this is a key.
        yes(unsafe { c::EVP_PKEY_kem_check_key(kem.key.as_ptr()) })?;
        Ok(kem)
    }

    pub(crate) fn set(&self) -> MlKemSet {
        self.set
    }

    pub(crate) fn seed(&self) -> Option<&[u8; SEED_BYTES]> {
        self.seed.as_deref()
    }

    pub(crate) fn has_private(&self) -> bool {
        self.has_private
    }

    pub(crate) fn public(&self) -> Result<Vec<u8>, No> {
        let mut length = self.set.encapsulation_key_bytes();
        let mut public = vec![0; length];
        // SAFETY: the buffer has the stated length.
        yes(unsafe { c::EVP_PKEY_get_raw_public_key(self.key.as_ptr(), public.as_mut_ptr(), &mut length) })?;
        if length == public.len() { Ok(public) } else { Err(No) }
    }

    pub(crate) fn private(&self) -> Result<Zeroizing<Vec<u8>>, No> {
        let mut length = self.set.decapsulation_key_bytes();
        let mut private = Zeroizing::new(vec![0; length]);
        // SAFETY: the buffer has the stated length.
        yes(unsafe {
            c::EVP_PKEY_get_raw_private_key(self.key.as_ptr(), private.as_mut_ptr(), &mut length)
        })?;
        if length == private.len() { Ok(private) } else { Err(No) }
    }

    fn context(&self) -> Result<Context, No> {
        // SAFETY: this is a key, of which the context takes a reference.
        some(unsafe { c::EVP_PKEY_CTX_new(self.key.as_ptr(), null_mut()) }).map(Context)
    }

    /// Makes a shared secret and a ciphertext for the owner of the decapsulation key.
    pub(crate) fn encapsulate(&self) -> Result<(Vec<u8>, Zeroizing<[u8; SECRET_BYTES]>), No> {
        let context = self.context()?;
        let (mut ciphertext_length, mut secret_length) = (self.set.ciphertext_bytes(), SECRET_BYTES);
        let (mut ciphertext, mut secret) = (vec![0; ciphertext_length], Zeroizing::new([0; SECRET_BYTES]));
        // SAFETY: the buffers have the stated lengths.
        yes(unsafe {
            c::EVP_PKEY_encapsulate(
                context.0.as_ptr(),
                ciphertext.as_mut_ptr(),
                &mut ciphertext_length,
                secret.as_mut_ptr(),
                &mut secret_length,
            )
        })?;
        Ok((ciphertext, secret))
    }

    /// Returns the secret of a ciphertext; one that was changed has a secret that nobody else knows.
    pub(crate) fn decapsulate(&self, ciphertext: &[u8]) -> Result<Zeroizing<[u8; SECRET_BYTES]>, No> {
        let context = self.context()?;
        let mut secret = Zeroizing::new([0; SECRET_BYTES]);
        let mut length = SECRET_BYTES;
        // SAFETY: the buffer has the stated length; the ciphertext is a slice with its length.
        yes(unsafe {
            c::EVP_PKEY_decapsulate(
                context.0.as_ptr(),
                secret.as_mut_ptr(),
                &mut length,
                ciphertext.as_ptr(),
                ciphertext.len(),
            )
        })?;
        Ok(secret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_have_the_same_secret() {
        for set in MlKemSet::ALL {
            let pair = Kem::generate(set).unwrap();
            let public = Kem::of_public(set, &pair.public().unwrap()).unwrap();
            assert!(!public.has_private() && pair.has_private());
            let again = Kem::of_private(set, &pair.private().unwrap()).unwrap();
            let (ciphertext, secret) = public.encapsulate().unwrap();
            for key in [&pair, &again, &Kem::of_seed(set, pair.seed().unwrap()).unwrap()] {
                assert_eq!(*key.decapsulate(&ciphertext).unwrap(), *secret);
            }
            let mut changed = ciphertext.clone();
            changed[7] ^= 1;
            assert_ne!(*pair.decapsulate(&changed).unwrap(), *secret);
            assert_eq!(pair.decapsulate(&ciphertext[1..]), Err(No));
            let mut private = pair.private().unwrap();
            private[public_at(set)] ^= 1;
            assert!(Kem::of_private(set, &private).is_err());
            // All coefficients are 4095, above the modulus.
            assert!(Kem::of_public(set, &vec![0xff; set.encapsulation_key_bytes()]).is_err());
            for other in MlKemSet::ALL.into_iter().filter(|other| *other != set) {
                assert!(Kem::of_public(other, &pair.public().unwrap()).is_err());
                assert!(Kem::of_private(other, &pair.private().unwrap()).is_err());
            }
        }
    }
}
