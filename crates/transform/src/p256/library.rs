//! P-256 by AWS-LC, one operation at a time: the native tier.
//!
//! Signatures take the nonces of RFC 6979 that the other tiers take, so that all tiers write the same
//! signature. `unsafe`: calls of C functions and owned pointers.
#![allow(unsafe_code)]

use core::ptr::{self, NonNull};

use aws_lc_sys as sys;
use zeroize::Zeroize as _;

use super::integer::{self, U256};
use super::key::{P256PrivateKey, P256PublicKey};
use super::nonce::Nonces;
use super::reference::{integer_of_digest, parts_of_signature};

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
    /// A signature.
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

/// As [`super::reference::ecdh_reference`].
pub(crate) fn ecdh_native(key: &P256PrivateKey, peer: &[u8], shared: &mut [u8; 32]) -> bool {
    *shared = [0; 32];
    let Some((point, key)) = point_of_bytes(peer).zip(key.library()) else { return false };
    // SAFETY: all pointers are valid, and the function writes at most the 32 bytes of the coordinate.
    let written = unsafe {
        sys::ECDH_compute_key(shared.as_mut_ptr().cast(), 32, point.0.as_ptr(), key.0.as_ptr(), None)
    };
    written == 32
}

/// As [`super::reference::sign_reference`].
pub(crate) fn sign_native(
    key: &P256PrivateKey,
    digest: &[u8],
    hedge: Option<&[u8; 32]>,
    signature: &mut [u8; 64],
) -> bool {
    *signature = [0; 64];
    let Some(e) = integer_of_digest(digest) else { return false };
    let mut nonces = Nonces::new(key.scalar(), &e, hedge);
    let mut nonce = integer::to_bytes(&nonces.next());
    let is_signed = sign_with(key, digest, &nonce, signature);
    nonce.zeroize();
    is_signed
}

/// Signs with a nonce, and returns whether there is a signature; without one, `signature` is left as it was.
pub(super) fn sign_with(
    key: &P256PrivateKey,
    digest: &[u8],
    nonce: &[u8; 32],
    signature: &mut [u8; 64],
) -> bool {
    let Some(library) = key.library() else { return false };
    // SAFETY: all pointers are valid, and the function reads the lengths given. It leaks the key only if the
    // nonce is bad, and the nonce is RFC 6979's.
    let signed = unsafe {
        sys::ECDSA_sign_with_nonce_and_leak_private_key_for_testing(
            digest.as_ptr(),
            digest.len(),
            library.0.as_ptr(),
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

/// As [`super::reference::verify_reference`].
pub(crate) fn verify_native(key: &P256PublicKey, digest: &[u8], signature: &[u8; 64]) -> bool {
    if digest.len() < super::SHORTEST_DIGEST_BYTES {
        return false;
    }
    let Some(((r, s), key)) = parts_of_signature(signature).zip(key.library()) else { return false };
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

/// Returns the public key of a private key.
pub(crate) fn public_key_native(key: &P256PrivateKey) -> Option<P256PublicKey> {
    let number = Bignum::of(key.scalar())?;
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
    if written != bytes.len() {
        return None;
    }
    super::key::point_of_bytes(&bytes).map(P256PublicKey::of_point)
}
