//! P-256 by AWS-LC, one operation at a time, over AWS-LC's own keys.
//!
//! `unsafe`: calls of C functions and owned pointers.
#![allow(unsafe_code)]

use core::ptr::{self, NonNull};

use aws_lc_sys as sys;
use zeroize::Zeroize as _;

use super::integer::{self, U256};

/// Declares an owned pointer to one of AWS-LC's types, freed by its own function.
macro_rules! owned {
    ($(#[$doc:meta])* $name:ident($type:ty), $free:ident) => {
        $(#[$doc])*
        pub(super) struct $name(NonNull<$type>);

        impl $name {
            fn new(pointer: *mut $type) -> Option<Self> {
                NonNull::new(pointer).map(Self)
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: the pointer is owned, and this is its only release.
                unsafe { sys::$free(self.0.as_ptr()) }
            }
        }
    };
}

owned! {
    /// A key, private or public.
    EcKey(sys::EC_KEY), EC_KEY_free
}
owned! {
    /// A point, which may be a shared secret.
    EcPoint(sys::EC_POINT), EC_POINT_clear_free
}
owned! {
    /// An integer, which may be a private key.
    Bignum(sys::BIGNUM), BN_clear_free
}
owned! {
    /// The numbers r and s of a signature.
    Signature(sys::ECDSA_SIG), ECDSA_SIG_free
}

// SAFETY: AWS-LC's keys are not bound to a thread, and after construction they are only read.
unsafe impl Send for EcKey {}
// SAFETY: the functions that take a const key may be called at the same time from several threads.
unsafe impl Sync for EcKey {}

impl Bignum {
    fn of(value: &U256) -> Option<Self> {
        let mut bytes = integer::to_bytes(value);
        // SAFETY: the function reads the 32 bytes and returns a new integer or null.
        let number = Self::new(unsafe { sys::BN_bin2bn(bytes.as_ptr(), bytes.len(), ptr::null_mut()) });
        bytes.zeroize();
        number
    }
}

/// Returns AWS-LC's static description of the curve.
fn group() -> *const sys::EC_GROUP {
    // SAFETY: no precondition.
    unsafe { sys::EC_group_p256() }
}

fn point_of_bytes(bytes: &[u8]) -> Option<EcPoint> {
    // AWS-LC reads also the neutral point, of one byte, and the hybrid form.
    if !matches!((bytes.len(), bytes.first()), (65, Some(4)) | (33, Some(2 | 3))) {
        return None;
    }
    // SAFETY: the group is static.
    let point = EcPoint::new(unsafe { sys::EC_POINT_new(group()) })?;
    // SAFETY: all pointers are valid, and the function reads the bytes given. It checks that the point is on
    // the curve.
    let is_point = unsafe {
        sys::EC_POINT_oct2point(group(), point.0.as_ptr(), bytes.as_ptr(), bytes.len(), ptr::null_mut())
    };
    (is_point == 1).then_some(point)
}

impl EcKey {
    fn empty() -> Option<Self> {
        // SAFETY: no precondition.
        Self::new(unsafe { sys::EC_KEY_new_by_curve_name(sys::NID_X9_62_prime256v1) })
    }

    /// Returns a private key, without its public key.
    pub(super) fn private(scalar: &U256) -> Option<Self> {
        let key = Self::empty()?;
        let number = Bignum::of(scalar)?;
        // SAFETY: both pointers are valid; the function copies the number.
        let is_set = unsafe { sys::EC_KEY_set_private_key(key.0.as_ptr(), number.0.as_ptr()) };
        (is_set == 1).then_some(key)
    }

    /// Returns the public key of an encoded point.
    pub(super) fn public(bytes: &[u8]) -> Option<Self> {
        let key = Self::empty()?;
        let point = point_of_bytes(bytes)?;
        // SAFETY: both pointers are valid; the function copies the point.
        let is_set = unsafe { sys::EC_KEY_set_public_key(key.0.as_ptr(), point.0.as_ptr()) };
        (is_set == 1).then_some(key)
    }
}

/// Writes the x coordinate of the shared point, and returns whether the peer's point is valid.
pub(super) fn ecdh(key: &EcKey, peer: &[u8], shared: &mut [u8; 32]) -> bool {
    let Some(point) = point_of_bytes(peer) else { return false };
    // SAFETY: all pointers are valid, and the function writes at most the 32 bytes of the coordinate.
    let written = unsafe {
        sys::ECDH_compute_key(shared.as_mut_ptr().cast(), 32, point.0.as_ptr(), key.0.as_ptr(), None)
    };
    written == 32
}

/// Signs with a nonce, and returns whether there is a signature; without one, `signature` is left as it was.
pub(super) fn sign_with(key: &EcKey, digest: &[u8], nonce: &[u8; 32], signature: &mut [u8; 64]) -> bool {
    // SAFETY: all pointers are valid, and the function reads the lengths given. It leaks the key only if the
    // nonce is bad, and the nonce is RFC 6979's.
    let signed = unsafe {
        sys::ECDSA_sign_with_nonce_and_leak_private_key_for_testing(
            digest.as_ptr(),
            digest.len(),
            key.0.as_ptr(),
            nonce.as_ptr(),
            nonce.len(),
        )
    };
    // An r or s of zero, which needs another nonce, is less likely than an error of the machine.
    let Some(signed) = Signature::new(signed) else { return false };
    // SAFETY: the signature is valid, its integers live as long, and each is below 2^256.
    unsafe {
        let (r, s) = (sys::ECDSA_SIG_get0_r(signed.0.as_ptr()), sys::ECDSA_SIG_get0_s(signed.0.as_ptr()));
        sys::BN_bn2bin_padded(signature.as_mut_ptr(), 32, r) == 1
            && sys::BN_bn2bin_padded(signature[32..].as_mut_ptr(), 32, s) == 1
    }
}

/// Returns whether r and s sign a digest.
pub(super) fn verify(key: &EcKey, digest: &[u8], (r, s): (U256, U256)) -> bool {
    let Some((r, s)) = Bignum::of(&r).zip(Bignum::of(&s)) else { return false };
    // SAFETY: no precondition.
    let Some(parsed) = Signature::new(unsafe { sys::ECDSA_SIG_new() }) else { return false };
    // SAFETY: all pointers are valid. The signature owns the integers once the function succeeds, so that
    // they are forgotten here; it fails only for null pointers.
    unsafe {
        if sys::ECDSA_SIG_set0(parsed.0.as_ptr(), r.0.as_ptr(), s.0.as_ptr()) != 1 {
            return false;
        }
        core::mem::forget((r, s));
        sys::ECDSA_do_verify(digest.as_ptr(), digest.len(), parsed.0.as_ptr(), key.0.as_ptr()) == 1
    }
}

/// Returns the encoded public point of a private key; `None` if memory is short.
pub(super) fn public_bytes(scalar: &U256) -> Option<[u8; 65]> {
    let number = Bignum::of(scalar)?;
    // SAFETY: the group is static.
    let point = EcPoint::new(unsafe { sys::EC_POINT_new(group()) })?;
    let mut bytes = [0; 65];
    // SAFETY: all pointers are valid; the last function writes at most the length given.
    let written = unsafe {
        let (point, number) = (point.0.as_ptr(), number.0.as_ptr());
        let none = ptr::null();
        if sys::EC_POINT_mul(group(), point, number, none, none.cast(), ptr::null_mut()) != 1 {
            return None;
        }
        let form = sys::point_conversion_form_t::POINT_CONVERSION_UNCOMPRESSED;
        sys::EC_POINT_point2oct(group(), point, form, bytes.as_mut_ptr(), bytes.len(), ptr::null_mut())
    };
    (written == bytes.len()).then_some(bytes)
}
