//! The part of provider-signature(7) that is the same for all algorithms.

#![allow(unsafe_code)]

use super::params::{Param, Params};
use super::{Context, Settable, bytes, give, key_of, text};
use crate::key::Family;
use crate::signing::Signature;
use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::ptr::null_mut;

/// # Safety
/// The contract of provider functions, see [`super`]: `provider`. The property query is not used.
pub(super) unsafe extern "C" fn new<S: Signature, const FAMILY: u8>(
    provider: *mut c_void,
    _: *const c_char,
) -> *mut c_void {
    // SAFETY: OpenSSL hands in the context of this provider.
    let core = unsafe { Context::<()>::shared(provider) }.core;
    Context::give(core, S::new(Family::of_number(FAMILY)))
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`new`] or [`duplicate`].
pub(super) unsafe extern "C" fn duplicate<S: Signature>(context: *mut c_void) -> *mut c_void {
    // SAFETY: OpenSSL hands in a value of `new`.
    let own = unsafe { Context::<S>::shared(context) };
    let copy = own.core.outcome(|| own.value.duplicate());
    copy.map_or(null_mut(), |copy| Context::give(own.core, copy))
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`new`] or [`duplicate`];
/// `hash` is null or a string; `key` is null or a key; `array`.
pub(super) unsafe extern "C" fn message_init<S: Signature + Settable>(
    context: *mut c_void,
    hash: *const c_char,
    key: *mut c_void,
    array: *const Param,
) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`, a key of this provider or null, and an array with a
    // terminator or null; the name is a string or null.
    let (own, key, params, hash) =
        unsafe { (Context::<S>::of(context), key_of(key), Params::new(array), text(hash)) };
    let core = own.core;
    core.succeeds(|| {
        own.value.start_message(hash, key)?;
        own.value.set(params)
    })
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`new`] or [`duplicate`];
/// `length` is writable; `out` has `capacity` bytes or is null; `content` has `content_length` bytes or is
/// null.
pub(super) unsafe extern "C" fn sign<S: Signature>(
    context: *mut c_void,
    out: *mut c_uchar,
    length: *mut usize,
    capacity: usize,
    content: *const c_uchar,
    content_length: usize,
) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`, and bytes with their lengths.
    let (own, content) = unsafe { (Context::<S>::shared(context), bytes(content, content_length)) };
    own.core.succeeds(|| {
        let most = own.value.size()?;
        // SAFETY: OpenSSL hands in a place for the length, and a buffer of the capacity or null.
        unsafe { give(out, length, capacity, most, || own.value.sign(content)) }
    })
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`new`] or [`duplicate`];
/// `signature` and `content` have the lengths beside them or are null.
pub(super) unsafe extern "C" fn verify<S: Signature>(
    context: *mut c_void,
    signature: *const c_uchar,
    signature_length: usize,
    content: *const c_uchar,
    content_length: usize,
) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`, and bytes with their lengths.
    let (own, signature, content) = unsafe {
        (Context::<S>::shared(context), bytes(signature, signature_length), bytes(content, content_length))
    };
    let good = own.core.outcome(|| own.value.verify(content, signature));
    c_int::from(good.unwrap_or(false))
}
