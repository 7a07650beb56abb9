//! AWS-LC's big numbers, as far as keys and the native tier need them.
//!
//! `unsafe`: calls of C. Every function that can fail returns `None`, which means that AWS-LC refused the
//! values or had no memory.
#![allow(unsafe_code)]

use core::ptr::{self, NonNull};

use aws_lc_sys::{
    BIGNUM, BN_CTX, BN_CTX_free, BN_CTX_new, BN_MONT_CTX, BN_MONT_CTX_free, BN_MONT_CTX_new_consttime,
    BN_bin2bn, BN_bn2bin_padded, BN_clear_free, BN_mod_exp_mont, BN_mod_exp_mont_consttime, BN_mod_inverse,
    BN_mod_inverse_blinded, BN_mod_mul_montgomery, BN_mul, BN_new, BN_num_bits, BN_rand_range_ex,
    BN_sub_word, BN_to_montgomery,
};

/// A number, wiped when dropped.
pub(crate) struct Natural(NonNull<BIGNUM>);

// SAFETY: a BIGNUM has no ties to a thread, and is changed through `&mut` only.
unsafe impl Send for Natural {}
// SAFETY: a BIGNUM is only read through shared references.
unsafe impl Sync for Natural {}

impl Drop for Natural {
    fn drop(&mut self) {
        // SAFETY: the constructor's number, freed once.
        unsafe { BN_clear_free(self.0.as_ptr()) };
    }
}

impl Natural {
    /// Returns 0.
    pub(crate) fn zero() -> Option<Self> {
        // SAFETY: no arguments.
        NonNull::new(unsafe { BN_new() }).map(Self)
    }

    /// Reads a big-endian number.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        // SAFETY: a pointer to so many bytes; a null result asks for a new number.
        NonNull::new(unsafe { BN_bin2bn(bytes.as_ptr(), bytes.len(), ptr::null_mut()) }).map(Self)
    }

    /// Writes the number to all of `bytes`, big-endian.
    pub(crate) fn to_bytes(&self, bytes: &mut [u8]) -> Option<()> {
        // SAFETY: a pointer to so many bytes.
        let is_written = unsafe { BN_bn2bin_padded(bytes.as_mut_ptr(), bytes.len(), self.as_ptr()) };
        (is_written == 1).then_some(())
    }

    /// Returns the length in bits, without leading zeros.
    pub(crate) fn bits(&self) -> usize {
        // SAFETY: a valid number.
        unsafe { BN_num_bits(self.as_ptr()) as usize }
    }

    /// Returns the pointer for AWS-LC's calls, valid while `self` is.
    pub(crate) const fn as_ptr(&self) -> *const BIGNUM {
        self.0.as_ptr()
    }
}

/// AWS-LC's memory for intermediate values.
pub(crate) struct Temporaries(NonNull<BN_CTX>);

impl Drop for Temporaries {
    fn drop(&mut self) {
        // SAFETY: the constructor's context, freed once.
        unsafe { BN_CTX_free(self.0.as_ptr()) };
    }
}

impl Temporaries {
    /// Returns fresh memory.
    pub(crate) fn new() -> Option<Self> {
        // SAFETY: no arguments.
        NonNull::new(unsafe { BN_CTX_new() }).map(Self)
    }
}

/// One of the library's functions for powers: result, base, exponent, modulus, memory, constants.
type Power = unsafe extern "C" fn(
    *mut BIGNUM,
    *const BIGNUM,
    *const BIGNUM,
    *const BIGNUM,
    *mut BN_CTX,
    *const BN_MONT_CTX,
) -> core::ffi::c_int;

/// An odd modulus with its constants.
pub(crate) struct Modulus {
    modulus: Natural,
    constants: NonNull<BN_MONT_CTX>,
}

// SAFETY: the constants are read only after their construction.
unsafe impl Send for Modulus {}
// SAFETY: the constants are only read through shared references.
unsafe impl Sync for Modulus {}

impl Drop for Modulus {
    fn drop(&mut self) {
        // SAFETY: the constructor's constants, freed once.
        unsafe { BN_MONT_CTX_free(self.constants.as_ptr()) };
    }
}

impl Modulus {
    /// Prepares an odd big-endian modulus.
    pub(crate) fn new(bytes: &[u8]) -> Option<Self> {
        let (modulus, temporaries) = (Natural::from_bytes(bytes)?, Temporaries::new()?);
        // SAFETY: valid numbers and memory; an even modulus gives null.
        let constants = unsafe { BN_MONT_CTX_new_consttime(modulus.as_ptr(), temporaries.0.as_ptr()) };
        NonNull::new(constants).map(|constants| Self { modulus, constants })
    }

    /// Returns `base` to the power of a secret exponent; the base is below the modulus.
    pub(crate) fn power_secret(&self, base: &Natural, exponent: &Natural) -> Option<Natural> {
        self.power(BN_mod_exp_mont_consttime, base, exponent)
    }

    /// Returns `base` to the power of a public exponent; the base is below the modulus.
    pub(crate) fn power_public(&self, base: &Natural, exponent: &Natural) -> Option<Natural> {
        self.power(BN_mod_exp_mont, base, exponent)
    }

    fn power(&self, power: Power, base: &Natural, exponent: &Natural) -> Option<Natural> {
        let (out, temporaries) = (Natural::zero()?, Temporaries::new()?);
        let (modulus, constants) = (self.modulus.as_ptr(), self.constants.as_ptr());
        // SAFETY: one of the library's functions, with valid numbers, memory, and constants of this modulus.
        let is_done = unsafe {
            power(
                out.0.as_ptr(),
                base.as_ptr(),
                exponent.as_ptr(),
                modulus,
                temporaries.0.as_ptr(),
                constants,
            )
        };
        (is_done == 1).then_some(out)
    }

    /// Returns a random number from 1 to m - 1.
    pub(crate) fn random(&self) -> Option<Natural> {
        let out = Natural::zero()?;
        // SAFETY: valid numbers.
        let is_done = unsafe { BN_rand_range_ex(out.0.as_ptr(), 1, self.modulus.as_ptr()) };
        (is_done == 1).then_some(out)
    }

    /// Returns 1 / `number`, in time that does not depend on the number; `None` if there is none.
    pub(crate) fn inverse(&self, number: &Natural) -> Option<Natural> {
        let (out, temporaries) = (Natural::zero()?, Temporaries::new()?);
        let mut has_none = 0;
        // SAFETY: valid numbers, memory and constants.
        let is_done = unsafe {
            BN_mod_inverse_blinded(
                out.0.as_ptr(),
                &raw mut has_none,
                number.as_ptr(),
                self.constants.as_ptr(),
                temporaries.0.as_ptr(),
            )
        };
        (is_done == 1).then_some(out)
    }

    /// Returns a b; both are below the modulus.
    pub(crate) fn multiply(&self, a: &Natural, b: &Natural) -> Option<Natural> {
        let (out, temporaries) = (Natural::zero()?, Temporaries::new()?);
        let (out_ptr, constants, memory) = (out.0.as_ptr(), self.constants.as_ptr(), temporaries.0.as_ptr());
        // SAFETY: valid numbers, memory and constants; the result may be an operand.
        let is_done = unsafe {
            BN_to_montgomery(out_ptr, a.as_ptr(), constants, memory) == 1
                && BN_mod_mul_montgomery(out_ptr, out_ptr, b.as_ptr(), constants, memory) == 1
        };
        is_done.then_some(out)
    }
}

/// Returns the private exponent 1 / e mod (p - 1)(q - 1); `None` if there is none.
pub(crate) fn private_exponent(e: &Natural, p: &[u8], q: &[u8]) -> Option<Natural> {
    let (p, q, temporaries) = (Natural::from_bytes(p)?, Natural::from_bytes(q)?, Temporaries::new()?);
    let (product, out) = (Natural::zero()?, Natural::zero()?);
    // SAFETY: valid numbers and memory.
    let is_done = unsafe {
        BN_sub_word(p.0.as_ptr(), 1) == 1
            && BN_sub_word(q.0.as_ptr(), 1) == 1
            && BN_mul(product.0.as_ptr(), p.as_ptr(), q.as_ptr(), temporaries.0.as_ptr()) == 1
            && !BN_mod_inverse(out.0.as_ptr(), e.as_ptr(), product.as_ptr(), temporaries.0.as_ptr()).is_null()
    };
    is_done.then_some(out)
}
