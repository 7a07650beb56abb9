//! Natural numbers, and arithmetic modulo an odd one.
//!
//! **Guarantees:** numbers are wiped when dropped; a power with a secret exponent, an inverse and a product take a time that
//! does not depend on the numbers, lengths aside.
#![allow(unsafe_code)]

use core::ffi::c_int;
use core::ptr::null_mut;

use aws_lc_sys as c;

use crate::outcome::{Refused, owned, yes};

owned! {
    /// A number, wiped when dropped.
    pub struct Natural(c::BIGNUM), BN_clear_free
}

// SAFETY: a BIGNUM has no ties to a thread, and is changed by its only owner.
unsafe impl Send for Natural {}
// SAFETY: a BIGNUM is only read through shared references.
unsafe impl Sync for Natural {}

impl Natural {
    fn zero() -> Result<Self, Refused> {
        // SAFETY: no arguments; the number is new.
        unsafe { Self::take(c::BN_new()) }
    }

    /// Reads a big-endian number.
    ///
    /// # Errors
    /// There is no memory.
    #[inline]
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Refused> {
        // SAFETY: a pointer to so many bytes; a null result asks for a new number.
        unsafe { Self::take(c::BN_bin2bn(bytes.as_ptr(), bytes.len(), null_mut())) }
    }

    /// Writes the number to all of `bytes`, big-endian.
    ///
    /// # Errors
    /// The number is longer.
    #[inline]
    pub fn to_bytes(&self, bytes: &mut [u8]) -> Result<(), Refused> {
        // SAFETY: the number lives as long as `self`.
        unsafe { write(self.number(), bytes) }
    }

    /// Returns the length in bits, without leading zeros.
    pub fn bits(&self) -> usize {
        // SAFETY: a valid number.
        unsafe { c::BN_num_bits(self.number()) as usize }
    }

    pub(crate) const fn number(&self) -> *const c::BIGNUM {
        self.as_ptr()
    }

    /// Returns the pointer for a function that becomes the owner, and has succeeded.
    pub(crate) const fn given_away(self) {
        core::mem::forget(self);
    }

    #[expect(clippy::needless_pass_by_ref_mut, reason = "whatever takes the pointer changes the object")]
    pub(crate) const fn number_mut(&mut self) -> *mut c::BIGNUM {
        self.as_ptr()
    }
}

/// Writes a number to all of `bytes`, big-endian.
///
/// # Safety
/// `number` is null, or a number that nobody writes or frees during the call.
#[inline]
pub(crate) unsafe fn write(number: *const c::BIGNUM, bytes: &mut [u8]) -> Result<(), Refused> {
    if number.is_null() {
        return Err(Refused);
    }
    // SAFETY: the contract: a number; and a pointer to so many bytes.
    yes(unsafe { c::BN_bn2bin_padded(bytes.as_mut_ptr(), bytes.len(), number) })
}

owned! {
    /// AWS-LC's memory for intermediate values.
    struct Temporaries(c::BN_CTX), BN_CTX_free
}

impl Temporaries {
    fn new() -> Result<Self, Refused> {
        // SAFETY: no arguments; the memory is new.
        unsafe { Self::take(c::BN_CTX_new()) }
    }
}

owned! {
    /// The constants of a modulus.
    struct Constants(c::BN_MONT_CTX), BN_MONT_CTX_free
}

/// One of the library's functions for powers: result, base, exponent, modulus, memory, constants.
type Power = unsafe extern "C" fn(
    *mut c::BIGNUM,
    *const c::BIGNUM,
    *const c::BIGNUM,
    *const c::BIGNUM,
    *mut c::BN_CTX,
    *const c::BN_MONT_CTX,
) -> c_int;

/// An odd modulus with its constants.
#[derive(Debug)]
pub struct Modulus {
    modulus: Natural,
    constants: Constants,
}

// SAFETY: the constants are read only after their construction.
unsafe impl Send for Modulus {}
// SAFETY: the constants are only read through shared references.
unsafe impl Sync for Modulus {}

impl Modulus {
    /// Prepares a big-endian modulus.
    ///
    /// # Errors
    /// It is even.
    pub fn new(bytes: &[u8]) -> Result<Self, Refused> {
        let (modulus, temporaries) = (Natural::from_bytes(bytes)?, Temporaries::new()?);
        // SAFETY: valid numbers and memory; an even modulus gives null, and others new constants.
        let constants =
            unsafe { Constants::take(c::BN_MONT_CTX_new_consttime(modulus.number(), temporaries.as_ptr())) };
        Ok(Self { modulus, constants: constants? })
    }

    /// Returns `base` to the power of a secret exponent.
    ///
    /// # Errors
    /// The base is not below the modulus.
    pub fn power_secret(&self, base: &Natural, exponent: &Natural) -> Result<Natural, Refused> {
        self.power(c::BN_mod_exp_mont_consttime, base, exponent)
    }

    /// Returns `base` to the power of a public exponent.
    ///
    /// # Errors
    /// The base is not below the modulus.
    pub fn power_public(&self, base: &Natural, exponent: &Natural) -> Result<Natural, Refused> {
        self.power(c::BN_mod_exp_mont, base, exponent)
    }

    fn power(&self, power: Power, base: &Natural, exponent: &Natural) -> Result<Natural, Refused> {
        let (mut out, temporaries) = (Natural::zero()?, Temporaries::new()?);
        // SAFETY: one of the library's functions, with valid numbers, memory, and constants of this modulus.
        yes(unsafe {
            power(
                out.number_mut(),
                base.number(),
                exponent.number(),
                self.modulus.number(),
                temporaries.as_ptr(),
                self.constants.as_ptr(),
            )
        })?;
        Ok(out)
    }

    /// Returns a random number from 1 to m - 1.
    ///
    /// # Errors
    /// There is no memory.
    pub fn random(&self) -> Result<Natural, Refused> {
        let mut out = Natural::zero()?;
        // SAFETY: valid numbers.
        yes(unsafe { c::BN_rand_range_ex(out.number_mut(), 1, self.modulus.number()) })?;
        Ok(out)
    }

    /// Returns 1 / `number`, in time that does not depend on the number.
    ///
    /// # Errors
    /// There is none.
    pub fn inverse(&self, number: &Natural) -> Result<Natural, Refused> {
        let (mut out, temporaries) = (Natural::zero()?, Temporaries::new()?);
        let mut has_none = 0;
        // SAFETY: valid numbers, memory and constants.
        yes(unsafe {
            c::BN_mod_inverse_blinded(
                out.number_mut(),
                &raw mut has_none,
                number.number(),
                self.constants.as_ptr(),
                temporaries.as_ptr(),
            )
        })?;
        Ok(out)
    }

    /// Returns a b.
    ///
    /// # Errors
    /// One of the two is not below the modulus.
    pub fn multiply(&self, a: &Natural, b: &Natural) -> Result<Natural, Refused> {
        let (mut out, temporaries) = (Natural::zero()?, Temporaries::new()?);
        let (product, constants, memory) = (out.number_mut(), self.constants.as_ptr(), temporaries.as_ptr());
        // SAFETY: valid numbers, memory and constants; the result may be an operand.
        unsafe {
            yes(c::BN_to_montgomery(product, a.number(), constants, memory))?;
            yes(c::BN_mod_mul_montgomery(product, product, b.number(), constants, memory))?;
        }
        Ok(out)
    }
}

/// Returns the private exponent of RSA, 1 / e mod (p - 1)(q - 1), for big-endian primes.
///
/// # Errors
/// There is none.
pub fn private_exponent(e: &Natural, p: &[u8], q: &[u8]) -> Result<Natural, Refused> {
    let (mut p, mut q, temporaries) = (Natural::from_bytes(p)?, Natural::from_bytes(q)?, Temporaries::new()?);
    let (mut product, mut out) = (Natural::zero()?, Natural::zero()?);
    let memory = temporaries.as_ptr();
    // SAFETY: valid numbers and memory. The inverse is written to a number that is there.
    unsafe {
        yes(c::BN_sub_word(p.number_mut(), 1))?;
        yes(c::BN_sub_word(q.number_mut(), 1))?;
        yes(c::BN_mul(product.number_mut(), p.number(), q.number(), memory))?;
        let inverse = c::BN_mod_inverse(out.number_mut(), e.number(), product.number(), memory);
        yes((!inverse.is_null()).into())?;
    }
    Ok(out)
}
