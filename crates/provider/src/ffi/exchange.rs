//! provider-keyexch(7): ECDH and X25519.

#![allow(unsafe_code)]

use super::params::{Param, Params, UTF8_STRING};
use super::{Context, Dispatch, descriptions, give, key_of, table};
use crate::reason::Reason;
use crate::signing::Agreeing;
use std::ffi::{c_int, c_uchar, c_void};

type AgreeingContext = Context<Agreeing>;

pub(super) static TABLE: &[Dispatch] = table![
    1 => new,
    2 => init,
    3 => derive,
    4 => set_peer,
    5 => free,
    6 => duplicate,
    7 => set_params,
    8 => settable_params,
];

unsafe extern "C" fn new(provider: *mut c_void) -> *mut c_void {
    // SAFETY: OpenSSL hands in the context of this provider.
    let core = unsafe { Context::<()>::shared(provider) }.core;
    AgreeingContext::give(core, Agreeing::default())
}

unsafe extern "C" fn free(context: *mut c_void) {
    // SAFETY: OpenSSL frees it once.
    unsafe { AgreeingContext::free(context) };
}

unsafe extern "C" fn duplicate(context: *mut c_void) -> *mut c_void {
    // SAFETY: OpenSSL hands in a value of `new`.
    let own = unsafe { AgreeingContext::shared(context) };
    AgreeingContext::give(own.core, own.value.clone())
}

unsafe extern "C" fn init(context: *mut c_void, key: *mut c_void, array: *const Param) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`, a key of this provider, and an array with a terminator or null.
    let (own, key, params) = unsafe { (AgreeingContext::of(context), key_of(key), Params::new(array)) };
    let core = own.core;
    core.succeeds(|| {
        own.value.start(key.ok_or(Reason::NoKey)?)?;
        check(params)
    })
}

unsafe extern "C" fn set_peer(context: *mut c_void, peer: *mut c_void) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`, and a key of this provider.
    let (own, peer) = unsafe { (AgreeingContext::of(context), key_of(peer)) };
    let core = own.core;
    core.succeeds(|| own.value.set_peer(peer.ok_or(Reason::NoKey)?))
}

unsafe extern "C" fn derive(
    context: *mut c_void,
    out: *mut c_uchar,
    length: *mut usize,
    capacity: usize,
) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`.
    let own = unsafe { AgreeingContext::shared(context) };
    own.core.succeeds(|| {
        let most = own.value.size()?;
        // SAFETY: OpenSSL hands in a place for the length, and a buffer of the capacity or null.
        unsafe {
            give(out, length, capacity, most, || {
                own.value.derive().map(|mut made| std::mem::take(&mut *made))
            })
        }
    })
}

unsafe extern "C" fn settable_params(_: *mut c_void, _: *mut c_void) -> *const Param {
    static TABLE: &[Param] = descriptions![c"kdf-type" => UTF8_STRING];
    TABLE.as_ptr()
}

unsafe extern "C" fn set_params(context: *mut c_void, array: *const Param) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`, and an array with a terminator.
    let (own, params) = unsafe { (AgreeingContext::shared(context), Params::new(array)) };
    own.core.succeeds(|| check(params))
}

/// Fails if a key derivation function is requested: the secret is returned unchanged, and derivations are left to
/// other providers.
fn check(params: Params<'_>) -> Result<(), Reason> {
    match params.text(c"kdf-type") {
        None | Some("") => Ok(()),
        Some(_) => Err(Reason::Unsupported),
    }
}
