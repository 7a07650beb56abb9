//! RSA by AWS-LC: the native tier, the check of keys, and their DER encodings.
//!
//! `unsafe`: calls of C. A key is prepared once and freed once; AWS-LC blinds and checks private operations
//! itself.
#![allow(unsafe_code)]

use core::ptr::NonNull;

use aws_lc_sys::{
    BIGNUM, BN_bn2bin, BN_num_bytes, CBS, CBS_init, ERR_clear_error, EVP_PKEY_free, EVP_PKEY_get1_RSA,
    EVP_parse_private_key, RSA, RSA_NO_PADDING, RSA_free, RSA_get0_d, RSA_get0_dmp1, RSA_get0_dmq1,
    RSA_get0_e, RSA_get0_iqmp, RSA_get0_n, RSA_get0_p, RSA_get0_q, RSA_new_private_key,
    RSA_new_private_key_large_e, RSA_new_public_key, RSA_new_public_key_large_e, RSA_private_key_from_bytes,
    RSA_sign_raw, RSA_verify_raw,
};
use zeroize::Zeroizing;

use super::{PrivateJob, PublicJob, RsaOutcome};
use crate::montgomery::library::Natural;

/// Bits of the longest public exponent that AWS-LC takes by its common functions.
const COMMON_EXPONENT_BITS: usize = 33;

/// A key of AWS-LC, private or public.
pub(crate) struct Key(NonNull<RSA>);

// SAFETY: AWS-LC's RSA objects lock their mutable parts, and their documentation allows concurrent
// operations.
unsafe impl Send for Key {}
// SAFETY: operations of several threads on one object lock its mutable parts.
unsafe impl Sync for Key {}

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: the constructor's key, freed once; AWS-LC wipes it.
        unsafe { RSA_free(self.0.as_ptr()) };
    }
}

/// The numbers of a private key, big-endian.
pub(crate) struct Components {
    /// Modulus and public exponent.
    pub(crate) public: [Zeroizing<Vec<u8>>; 2],
    /// d, p, q, d mod p - 1, d mod q - 1, 1 / q mod p; empty where the key lacks one.
    pub(crate) secret: [Zeroizing<Vec<u8>>; 6],
}

impl Key {
    /// Takes a public key, whose numbers AWS-LC checks.
    pub(crate) fn public(n: &[u8], e: &[u8]) -> Option<Self> {
        let (n, e) = (Natural::from_bytes(n)?, Natural::from_bytes(e)?);
        let new =
            if e.bits() > COMMON_EXPONENT_BITS { RSA_new_public_key_large_e } else { RSA_new_public_key };
        // SAFETY: valid numbers, which AWS-LC copies.
        Self::take(unsafe { new(n.as_ptr(), e.as_ptr()) })
    }

    /// Takes a private key (n, e, d, p, q, dp, dq, 1 / q), whose numbers AWS-LC checks against each other.
    pub(crate) fn private(numbers: [&Natural; 8]) -> Option<Self> {
        let new = if numbers[1].bits() > COMMON_EXPONENT_BITS {
            RSA_new_private_key_large_e
        } else {
            RSA_new_private_key
        };
        let [n, e, d, p, q, dp, dq, qinv] = numbers.map(Natural::as_ptr);
        // SAFETY: valid numbers, which AWS-LC copies.
        Self::take(unsafe { new(n, e, d, p, q, dp, dq, qinv) })
    }

    /// Reads PKCS #8 or PKCS #1, all of `der`.
    pub(crate) fn from_der(der: &[u8]) -> Option<Self> {
        // SAFETY: an array of pointers and lengths, which CBS_init sets.
        let mut input: CBS = unsafe { core::mem::zeroed() };
        // SAFETY: a pointer to so many bytes, alive until the end of this function.
        unsafe { CBS_init(&raw mut input, der.as_ptr(), der.len()) };
        // SAFETY: an initialised input.
        let outer = unsafe { EVP_parse_private_key(&raw mut input) };
        let key = if outer.is_null() {
            // SAFETY: a pointer to so many bytes.
            Self::take(unsafe { RSA_private_key_from_bytes(der.as_ptr(), der.len()) })
        } else {
            // SAFETY: a valid key; another algorithm's gives null. The RSA key has a reference of its own.
            let key = unsafe { EVP_PKEY_get1_RSA(outer) };
            // SAFETY: the key from above, freed once.
            unsafe { EVP_PKEY_free(outer) };
            Self::take(key).filter(|_| input.len == 0)
        };
        // SAFETY: no arguments; the failed attempt's errors would stay in this thread's queue.
        unsafe { ERR_clear_error() };
        key
    }

    fn take(key: *mut RSA) -> Option<Self> {
        if key.is_null() {
            // SAFETY: no arguments.
            unsafe { ERR_clear_error() };
        }
        NonNull::new(key).map(Self)
    }

    /// Returns the key's numbers.
    pub(crate) fn components(&self) -> Components {
        let key = self.0.as_ptr().cast_const();
        // SAFETY: a valid key; the numbers live as long as it.
        unsafe {
            Components {
                public: [RSA_get0_n(key), RSA_get0_e(key)].map(|number| bytes(number)),
                secret: [
                    RSA_get0_d(key),
                    RSA_get0_p(key),
                    RSA_get0_q(key),
                    RSA_get0_dmp1(key),
                    RSA_get0_dmq1(key),
                    RSA_get0_iqmp(key),
                ]
                .map(|number| bytes(number)),
            }
        }
    }

    /// Runs a raw operation, and returns whether it succeeded.
    fn run(&self, operation: Raw, input: &[u8], output: &mut [u8]) -> bool {
        let mut written = 0;
        // SAFETY: a valid key, and pointers to so many bytes; AWS-LC locks what it changes in the key.
        let is_done = unsafe {
            operation(
                self.0.as_ptr(),
                &raw mut written,
                output.as_mut_ptr(),
                output.len(),
                input.as_ptr(),
                input.len(),
                RSA_NO_PADDING,
            )
        };
        let is_done = is_done == 1 && written == output.len();
        if !is_done {
            // SAFETY: no arguments.
            unsafe { ERR_clear_error() };
        }
        is_done
    }
}

type Raw = unsafe extern "C" fn(
    *mut RSA,
    *mut usize,
    *mut u8,
    usize,
    *const u8,
    usize,
    core::ffi::c_int,
) -> core::ffi::c_int;

/// Copies a number.
///
/// # Safety
/// `number` is null, or a number of AWS-LC that nobody writes or frees during the call.
unsafe fn bytes(number: *const BIGNUM) -> Zeroizing<Vec<u8>> {
    if number.is_null() {
        return Zeroizing::default();
    }
    // SAFETY: a valid number.
    let mut out = Zeroizing::new(vec![0; unsafe { BN_num_bytes(number) } as usize]);
    // SAFETY: room for all its bytes.
    unsafe { BN_bn2bin(number, out.as_mut_ptr()) };
    out
}

/// Runs a private operation by AWS-LC.
pub(crate) fn private(job: &mut PrivateJob<'_>) {
    if !job.fits(job.key.public().bytes()) {
        return;
    }
    let outcome = if job.key.library().run(RSA_sign_raw, job.input, job.output) {
        RsaOutcome::Done
    } else if job.key.public().takes_private(job.input) {
        RsaOutcome::Fault
    } else {
        RsaOutcome::OutOfRange
    };
    job.finish(outcome);
}

/// Runs a public operation by AWS-LC.
pub(crate) fn public(job: &mut PublicJob<'_>) {
    if !job.fits(job.key.bytes()) {
        return;
    }
    let outcome = if job.key.library().run(RSA_verify_raw, job.input, job.output) {
        RsaOutcome::Done
    } else if job.key.takes_public(job.input) {
        RsaOutcome::Fault
    } else {
        RsaOutcome::OutOfRange
    };
    job.finish(outcome);
}
