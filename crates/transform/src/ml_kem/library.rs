//! ML-KEM by AWS-LC: the native tier, one operation at a time.
//!
//! A key's object is made once; each operation makes a small context for it, because AWS-LC does not promise that
//! threads may share one. `unsafe`: calls of the C library.
#![allow(unsafe_code)]

use core::ptr::{self, NonNull};

use aws_lc_sys::{
    EVP_PKEY, EVP_PKEY_CTX, EVP_PKEY_CTX_free, EVP_PKEY_CTX_kem_set_params, EVP_PKEY_CTX_new,
    EVP_PKEY_CTX_new_id, EVP_PKEY_KEM, EVP_PKEY_decapsulate, EVP_PKEY_encapsulate_deterministic,
    EVP_PKEY_free, EVP_PKEY_get_raw_private_key, EVP_PKEY_kem_new_raw_public_key,
    EVP_PKEY_kem_new_raw_secret_key, EVP_PKEY_keygen_deterministic, EVP_PKEY_keygen_init, NID_MLKEM512,
    NID_MLKEM768, NID_MLKEM1024,
};
use zeroize::Zeroize as _;

use super::{Decapsulate, Encapsulate, Generate, MlKemSet};

/// Returns AWS-LC's number of a parameter set.
const fn number(set: MlKemSet) -> i32 {
    match set {
        MlKemSet::MlKem512 => NID_MLKEM512,
        MlKemSet::MlKem768 => NID_MLKEM768,
        MlKemSet::MlKem1024 => NID_MLKEM1024,
    }
}

/// AWS-LC's object of a key.
pub(crate) struct Key(NonNull<EVP_PKEY>);

// SAFETY: operations only read the object, and its count of references is atomic.
unsafe impl Send for Key {}
// SAFETY: operations through shared references only read the object.
unsafe impl Sync for Key {}

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: an object of this value's own; AWS-LC wipes the secret key in it.
        unsafe { EVP_PKEY_free(self.0.as_ptr()) };
    }
}

impl Key {
    /// Copies an encapsulation key; none if there is no memory.
    pub(crate) fn public(set: MlKemSet, bytes: &[u8]) -> Option<Self> {
        // SAFETY: the pointer and the length are those of a slice.
        NonNull::new(unsafe { EVP_PKEY_kem_new_raw_public_key(number(set), bytes.as_ptr(), bytes.len()) })
            .map(Self)
    }

    /// Copies a decapsulation key; none if there is no memory.
    pub(crate) fn private(set: MlKemSet, bytes: &[u8]) -> Option<Self> {
        // SAFETY: the pointer and the length are those of a slice.
        NonNull::new(unsafe { EVP_PKEY_kem_new_raw_secret_key(number(set), bytes.as_ptr(), bytes.len()) })
            .map(Self)
    }
}

/// The context of one operation.
struct Context(NonNull<EVP_PKEY_CTX>);

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: a context of this value's own.
        unsafe { EVP_PKEY_CTX_free(self.0.as_ptr()) };
    }
}

impl Context {
    fn of(key: &Key) -> Option<Self> {
        // SAFETY: a live key; the context holds a reference to it.
        NonNull::new(unsafe { EVP_PKEY_CTX_new(key.0.as_ptr(), ptr::null_mut()) }).map(Self)
    }
}

/// ML-KEM.KeyGen_internal by AWS-LC. Returns whether it ran: it fails without memory only.
pub(crate) fn generate_native(job: &mut Generate<'_>) -> bool {
    generate(job).is_some()
}

fn generate(job: &mut Generate<'_>) -> Option<()> {
    // SAFETY: makes a context, or none.
    let context = Context(NonNull::new(unsafe { EVP_PKEY_CTX_new_id(EVP_PKEY_KEM, ptr::null_mut()) })?);
    let mut made = ptr::null_mut();
    let mut seed_bytes = job.seed.len();
    // SAFETY: a live context, and a seed of the length that is given with it.
    let done = unsafe {
        EVP_PKEY_CTX_kem_set_params(context.0.as_ptr(), number(job.set)) == 1
            && EVP_PKEY_keygen_init(context.0.as_ptr()) == 1
            && EVP_PKEY_keygen_deterministic(
                context.0.as_ptr(),
                &raw mut made,
                job.seed.as_ptr(),
                &raw mut seed_bytes,
            ) == 1
    };
    let key = Key(NonNull::new(made)?);
    let mut private = job.decapsulation_key.len();
    // SAFETY: a live key, and room of the length that is given with it.
    let copied = unsafe {
        EVP_PKEY_get_raw_private_key(key.0.as_ptr(), job.decapsulation_key.as_mut_ptr(), &raw mut private)
            == 1
    };
    (done && copied).then_some(())
}

/// ML-KEM.Encaps_internal by AWS-LC. Returns whether it ran: it fails without memory only; outputs are zero then.
pub(crate) fn encapsulate_native(job: &mut Encapsulate<'_>) -> bool {
    let done = job.key.native().and_then(Context::of).is_some_and(|context| {
        let (mut ciphertext, mut secret, mut seed) =
            (job.ciphertext.len(), job.secret.len(), job.message.len());
        // SAFETY: a live context, and slices of the lengths that are given with them.
        let result = unsafe {
            EVP_PKEY_encapsulate_deterministic(
                context.0.as_ptr(),
                job.ciphertext.as_mut_ptr(),
                &raw mut ciphertext,
                job.secret.as_mut_ptr(),
                &raw mut secret,
                job.message.as_ptr(),
                &raw mut seed,
            )
        };
        result == 1
    });
    if !done {
        job.ciphertext.zeroize();
        job.secret.zeroize();
    }
    done
}

/// ML-KEM.Decaps_internal by AWS-LC. Returns whether it ran: it fails without memory only; the secret is zero then.
pub(crate) fn decapsulate_native(job: &mut Decapsulate<'_>) -> bool {
    let done = job.key.native().and_then(Context::of).is_some_and(|context| {
        let mut secret = job.secret.len();
        // SAFETY: a live context, and slices of the lengths that are given with them.
        let result = unsafe {
            EVP_PKEY_decapsulate(
                context.0.as_ptr(),
                job.secret.as_mut_ptr(),
                &raw mut secret,
                job.ciphertext.as_ptr(),
                job.ciphertext.len(),
            )
        };
        result == 1
    });
    if !done {
        job.secret.zeroize();
    }
    done
}
