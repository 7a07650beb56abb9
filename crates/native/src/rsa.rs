//! RSA's bare functions (RFC 8017, 5.1 and 5.2), the check of keys, and their numbers, which aws-lc-rs does not tell.
//!
//! **Guarantees:** a key's numbers belong together; private operations are blinded and checked; keys and their secret numbers are
//! wiped when dropped.
#![allow(unsafe_code)]

use core::ffi::c_int;
use core::ptr::null_mut;

use aws_lc_sys as c;
use zeroize::Zeroizing;

use crate::key::{self, built, reader};
use crate::number::{self, Natural};
use crate::outcome::{Refused, owned, yes};

/// Bits of the longest public exponent that AWS-LC takes by its common functions.
const COMMON_EXPONENT_BITS: usize = 33;

owned! {
    /// A key of AWS-LC, private or public.
    pub struct Key(c::RSA), RSA_free
}

// SAFETY: AWS-LC's RSA objects lock their mutable parts, and their documentation allows concurrent operations.
unsafe impl Send for Key {}
// SAFETY: operations of several threads on one object lock its mutable parts.
unsafe impl Sync for Key {}

/// The numbers of a private key, big-endian.
#[derive(Clone)]
pub struct Components {
    /// Modulus and public exponent.
    pub public: [Zeroizing<Vec<u8>>; 2],
    /// d, p, q, d mod p - 1, d mod q - 1, 1 / q mod p; empty where the key lacks one.
    pub secret: [Zeroizing<Vec<u8>>; 6],
}

/// One of the library's functions for blocks: key, length and place of the result, its room, block, its length, padding.
type Raw = unsafe extern "C" fn(*mut c::RSA, *mut usize, *mut u8, usize, *const u8, usize, c_int) -> c_int;

impl Key {
    /// Takes a modulus and a public exponent, big-endian.
    ///
    /// # Errors
    /// They are none.
    pub fn public(n: &[u8], e: &[u8]) -> Result<Self, Refused> {
        let (n, e) = (Natural::from_bytes(n)?, Natural::from_bytes(e)?);
        let is_common = e.bits() <= COMMON_EXPONENT_BITS;
        let new = if is_common { c::RSA_new_public_key } else { c::RSA_new_public_key_large_e };
        // SAFETY: valid numbers, which AWS-LC copies; the key is new.
        unsafe { Self::take(new(n.number(), e.number())) }
    }

    /// Takes a private key: n, e, d, p, q, d mod p - 1, d mod q - 1, 1 / q mod p.
    ///
    /// # Errors
    /// The numbers do not belong together.
    pub fn private(numbers: [&Natural; 8]) -> Result<Self, Refused> {
        let is_common = numbers[1].bits() <= COMMON_EXPONENT_BITS;
        let new = if is_common { c::RSA_new_private_key } else { c::RSA_new_private_key_large_e };
        let [n, e, d, p, q, dp, dq, qinv] = numbers.map(Natural::number);
        // SAFETY: valid numbers, which AWS-LC copies; the key is new.
        unsafe { Self::take(new(n, e, d, p, q, dp, dq, qinv)) }
    }

    /// Reads PKCS #8 or PKCS #1, all of `der`.
    ///
    /// # Errors
    /// The bytes are neither, or of another algorithm.
    pub fn of_der(der: &[u8]) -> Result<Self, Refused> {
        let mut input = reader(der);
        // SAFETY: the reader is over the slice; the key is new.
        let Ok(key) = (unsafe { key::Key::read(c::EVP_parse_private_key(&raw mut input)) }) else {
            // SAFETY: a pointer to so many bytes; the key is new.
            return unsafe { Self::take(c::RSA_private_key_from_bytes(der.as_ptr(), der.len())) };
        };
        // SAFETY: the key lives; one of another algorithm gives null. The numbers have a reference of their own.
        let key = unsafe { Self::take(c::EVP_PKEY_get1_RSA(key.key()))? };
        if input.len == 0 { Ok(key) } else { Err(Refused) }
    }

    /// Makes a private key of so many bits with a public exponent.
    ///
    /// # Errors
    /// The exponent is none, or the length is too small or too large.
    pub fn generate(bits: u16, exponent: u32) -> Result<Self, Refused> {
        let e = Natural::from_bytes(&exponent.to_be_bytes())?;
        // SAFETY: no arguments; the key is new.
        let key = unsafe { Self::take(c::RSA_new()) }?;
        // SAFETY: valid pointers; no function is called on the way.
        yes(unsafe { c::RSA_generate_key_ex(key.as_ptr(), bits.into(), e.number(), null_mut()) })?;
        Ok(key)
    }

    /// Writes a private key as PKCS #1.
    ///
    /// # Errors
    /// The key lacks its primes.
    pub fn to_pkcs1(&self) -> Result<Zeroizing<Vec<u8>>, Refused> {
        // SAFETY: key and builder live through the call.
        built(|builder| unsafe { c::RSA_marshal_private_key(builder, self.as_ptr()) })
    }

    /// Returns the key's numbers.
    #[must_use]
    pub fn components(&self) -> Components {
        let key = self.as_ptr().cast_const();
        // SAFETY: a valid key; the numbers live as long as it.
        unsafe {
            Components {
                public: [c::RSA_get0_n(key), c::RSA_get0_e(key)].map(|number| bytes(number)),
                secret: [
                    c::RSA_get0_d(key),
                    c::RSA_get0_p(key),
                    c::RSA_get0_q(key),
                    c::RSA_get0_dmp1(key),
                    c::RSA_get0_dmq1(key),
                    c::RSA_get0_iqmp(key),
                ]
                .map(|number| bytes(number)),
            }
        }
    }

    /// Applies the private function to a block; `output` is as long as the modulus.
    ///
    /// # Errors
    /// The block is not as long as the modulus, not below it, or the result does not pass its check.
    pub fn run_private(&self, input: &[u8], output: &mut [u8]) -> Result<(), Refused> {
        self.run(c::RSA_sign_raw, input, output)
    }

    /// Applies the public function to a block; `output` is as long as the modulus.
    ///
    /// # Errors
    /// The block is not as long as the modulus, or not below it.
    pub fn run_public(&self, input: &[u8], output: &mut [u8]) -> Result<(), Refused> {
        self.run(c::RSA_verify_raw, input, output)
    }

    fn run(&self, operation: Raw, input: &[u8], output: &mut [u8]) -> Result<(), Refused> {
        let mut written = 0;
        // SAFETY: a valid key, and pointers to so many bytes; AWS-LC locks what it changes in the key.
        let outcome = unsafe {
            operation(
                self.as_ptr(),
                &raw mut written,
                output.as_mut_ptr(),
                output.len(),
                input.as_ptr(),
                input.len(),
                c::RSA_NO_PADDING,
            )
        };
        yes((outcome == 1 && written == output.len()).into())
    }
}

/// Copies a number.
///
/// # Safety
/// `number` is null, or a number of AWS-LC that nobody writes or frees during the call.
unsafe fn bytes(number: *const c::BIGNUM) -> Zeroizing<Vec<u8>> {
    if number.is_null() {
        return Zeroizing::default();
    }
    // SAFETY: the contract: a valid number.
    let mut out = Zeroizing::new(vec![0; unsafe { c::BN_num_bytes(number) } as usize]);
    // SAFETY: the contract: a valid number.
    let written = unsafe { number::write(number, &mut out) };
    debug_assert_eq!(written, Ok(()), "there is room for all its bytes");
    out
}
