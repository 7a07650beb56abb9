//! P-256, one operation at a time: ECDH, and ECDSA with the caller's nonce, which aws-lc-rs does not take.
//!
//! **Guarantees:** a point is on the curve, and not the neutral one; keys and shared secrets are wiped when dropped.
#![allow(unsafe_code)]

use core::ptr::{null, null_mut};

use aws_lc_sys as c;

use crate::number::{self, Natural};
use crate::outcome::{Refused, owned, yes};

owned! {
    /// A key, private or public.
    pub struct Key(c::EC_KEY), EC_KEY_free
}
owned! {
    /// A point, which may be a shared secret.
    struct Point(c::EC_POINT), EC_POINT_clear_free
}
owned! {
    /// The numbers r and s of a signature.
    struct Signature(c::ECDSA_SIG), ECDSA_SIG_free
}

// SAFETY: AWS-LC's keys are not bound to a thread, and after construction they are only read.
unsafe impl Send for Key {}
// SAFETY: the functions that take a const key may be called at the same time from several threads.
unsafe impl Sync for Key {}

/// Returns AWS-LC's static description of the curve.
fn group() -> *const c::EC_GROUP {
    // SAFETY: no precondition.
    unsafe { c::EC_group_p256() }
}

impl Point {
    fn neutral() -> Result<Self, Refused> {
        // SAFETY: the group is static; the point is new.
        unsafe { Self::take(c::EC_POINT_new(group())) }
    }

    fn of_bytes(bytes: &[u8]) -> Result<Self, Refused> {
        // AWS-LC reads also the neutral point, of one byte, and the hybrid form.
        if !matches!((bytes.len(), bytes.first()), (65, Some(4)) | (33, Some(2 | 3))) {
            return Err(Refused);
        }
        let point = Self::neutral()?;
        // SAFETY: all pointers are valid, and the function reads the bytes given. It checks that the point is on the curve.
        yes(unsafe {
            c::EC_POINT_oct2point(group(), point.as_ptr(), bytes.as_ptr(), bytes.len(), null_mut())
        })?;
        Ok(point)
    }
}

impl Key {
    fn empty() -> Result<Self, Refused> {
        // SAFETY: no precondition; the key is new.
        unsafe { Self::take(c::EC_KEY_new_by_curve_name(c::NID_X9_62_prime256v1)) }
    }

    /// Takes a private key, big-endian, without its public key.
    ///
    /// # Errors
    /// The number is zero or not below the order of the group.
    pub fn private(scalar: &[u8; 32]) -> Result<Self, Refused> {
        let (key, number) = (Self::empty()?, Natural::from_bytes(scalar)?);
        // SAFETY: both pointers are valid; the function copies the number.
        yes(unsafe { c::EC_KEY_set_private_key(key.as_ptr(), number.number()) })?;
        Ok(key)
    }

    /// Takes an encoded point (SEC 1, 2.3.4), compressed or not.
    ///
    /// # Errors
    /// The encoding is another, or the point is not on the curve.
    pub fn public(bytes: &[u8]) -> Result<Self, Refused> {
        let (key, point) = (Self::empty()?, Point::of_bytes(bytes)?);
        // SAFETY: both pointers are valid; the function copies the point.
        yes(unsafe { c::EC_KEY_set_public_key(key.as_ptr(), point.as_ptr()) })?;
        Ok(key)
    }

    /// Writes the x coordinate of the point that a private key shares with a peer's.
    ///
    /// # Errors
    /// The peer's is no point.
    pub fn agree(&self, peer: &[u8], shared: &mut [u8; 32]) -> Result<(), Refused> {
        let point = Point::of_bytes(peer)?;
        // SAFETY: all pointers are valid, and the function writes at most the 32 bytes of the coordinate.
        let written = unsafe {
            c::ECDH_compute_key(shared.as_mut_ptr().cast(), 32, point.as_ptr(), self.as_ptr(), None)
        };
        yes((written == 32).into())
    }

    /// Signs a digest with a private key and a nonce, which must be secret and depend on both, as RFC 6979's do. Without a
    /// signature, `signature` is left as it was.
    ///
    /// # Errors
    /// The nonce is zero, not below the order, or makes a number of the signature zero.
    pub fn sign_with(
        &self,
        digest: &[u8],
        nonce: &[u8; 32],
        signature: &mut [u8; 64],
    ) -> Result<(), Refused> {
        // SAFETY: all pointers are valid, the function reads the lengths given, and the signature is new.
        let signed = unsafe {
            Signature::take(c::ECDSA_sign_with_nonce_and_leak_private_key_for_testing(
                digest.as_ptr(),
                digest.len(),
                self.as_ptr(),
                nonce.as_ptr(),
                nonce.len(),
            ))
        }?;
        let (r, s) = signature.split_at_mut(32);
        // SAFETY: the signature is valid, and its numbers live as long.
        unsafe {
            number::write(c::ECDSA_SIG_get0_r(signed.as_ptr()), r)?;
            number::write(c::ECDSA_SIG_get0_s(signed.as_ptr()), s)
        }
    }

    /// Fails unless r and s, big-endian, sign a digest by the private half of a public key.
    ///
    /// # Errors
    /// They do not.
    pub fn verify(&self, digest: &[u8], r: &[u8; 32], s: &[u8; 32]) -> Result<(), Refused> {
        let (mut r, mut s) = (Natural::from_bytes(r)?, Natural::from_bytes(s)?);
        // SAFETY: no precondition; the signature is new.
        let signature = unsafe { Signature::take(c::ECDSA_SIG_new()) }?;
        // SAFETY: all pointers are valid. The signature owns the numbers once the function succeeds; it fails only for null
        // pointers.
        yes(unsafe { c::ECDSA_SIG_set0(signature.as_ptr(), r.number_mut(), s.number_mut()) })?;
        r.given_away();
        s.given_away();
        // SAFETY: all pointers are valid, and the function reads the length given.
        yes(unsafe { c::ECDSA_do_verify(digest.as_ptr(), digest.len(), signature.as_ptr(), self.as_ptr()) })
    }
}

/// Returns the public point of a private key, big-endian; the point is not compressed.
///
/// # Errors
/// There is no memory, or the scalar is zero.
pub fn public_of(scalar: &[u8; 32]) -> Result<[u8; 65], Refused> {
    let (number, point) = (Natural::from_bytes(scalar)?, Point::neutral()?);
    let mut bytes = [0; 65];
    // SAFETY: all pointers are valid, and those to factors that are not used are null; the last function writes at most the
    // length given.
    let written = unsafe {
        let none: *const c::EC_POINT = null();
        let (out, scalar) = (point.as_ptr(), number.number());
        yes(c::EC_POINT_mul(group(), out, scalar, none, null(), null_mut()))?;
        let form = c::point_conversion_form_t::POINT_CONVERSION_UNCOMPRESSED;
        c::EC_POINT_point2oct(group(), out, form, bytes.as_mut_ptr(), bytes.len(), null_mut())
    };
    yes((written == bytes.len()).into())?;
    Ok(bytes)
}
