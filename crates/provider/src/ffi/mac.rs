//! provider-mac(7): HMAC.

#![allow(unsafe_code)]

use super::params::{OCTET_STRING, Param, Params, UNSIGNED, UTF8_STRING};
use super::{Context, Dispatch, bytes, descriptions, give, table};
use crate::authenticating::Authenticating;
use crate::reason::Reason;
use std::ffi::{c_int, c_uchar, c_void};
use std::ptr::null_mut;

type MacContext = Context<Authenticating>;

pub(super) static TABLE: &[Dispatch] = table![
    1 => new,
    2 => duplicate,
    3 => free,
    4 => init,
    5 => update,
    6 => finish,
    8 => get_context_params,
    9 => set_context_params,
    11 => gettable_context_params,
    12 => settable_context_params,
];

unsafe extern "C" fn new(provider: *mut c_void) -> *mut c_void {
    // SAFETY: OpenSSL hands in the context of this provider.
    let core = unsafe { Context::<()>::shared(provider) }.core;
    MacContext::give(core, Authenticating::default())
}

unsafe extern "C" fn free(context: *mut c_void) {
    // SAFETY: OpenSSL frees it once.
    unsafe { MacContext::free(context) };
}

unsafe extern "C" fn duplicate(context: *mut c_void) -> *mut c_void {
    // SAFETY: OpenSSL hands in a value of `new`.
    let own = unsafe { MacContext::shared(context) };
    let made = own.core.outcome(|| own.value.duplicate());
    made.map_or(null_mut(), |copy| MacContext::give(own.core, copy))
}

unsafe extern "C" fn init(
    context: *mut c_void,
    key: *const c_uchar,
    length: usize,
    array: *const Param,
) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`, a key with its length or null, and an array with a terminator or
    // null.
    let (own, key_bytes, params) =
        unsafe { (MacContext::of(context), bytes(key, length), Params::new(array)) };
    let core = own.core;
    core.succeeds(|| {
        set(&mut own.value, params)?;
        own.value.start((!key.is_null()).then_some(key_bytes))
    })
}

unsafe extern "C" fn update(context: *mut c_void, data: *const c_uchar, length: usize) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`.
    let own = unsafe { MacContext::of(context) };
    let core = own.core;
    core.succeeds(|| match own.value.expects() {
        None => {
            // SAFETY: OpenSSL hands in bytes with their length.
            own.value.update(unsafe { bytes(data, length) })
        }
        Some(whole) if whole >= length && !data.is_null() => {
            // SAFETY: OpenSSL has stated by `tls-data-size` that so many bytes are there: the content, and behind it
            // its code and padding.
            own.value.update_record(unsafe { bytes(data, whole) }, length)
        }
        Some(_) => Err(Reason::BadContent),
    })
}

unsafe extern "C" fn finish(
    context: *mut c_void,
    out: *mut c_uchar,
    length: *mut usize,
    capacity: usize,
) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`.
    let own = unsafe { MacContext::of(context) };
    let core = own.core;
    core.succeeds(|| {
        let most = own.value.hash().ok_or(Reason::NoKey)?.bytes;
        let mac = &mut own.value;
        // SAFETY: OpenSSL hands in a place for the length, and a buffer of the capacity or null.
        unsafe {
            give(out, length, capacity, most, || mac.finish().map(|mut code| std::mem::take(&mut *code)))
        }
    })
}

unsafe extern "C" fn gettable_context_params(_: *mut c_void, _: *mut c_void) -> *const Param {
    static TABLE: &[Param] = descriptions![c"size" => UNSIGNED, c"block-size" => UNSIGNED];
    TABLE.as_ptr()
}

unsafe extern "C" fn get_context_params(context: *mut c_void, array: *mut Param) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`, and an array with a terminator.
    let (own, params) = unsafe { (MacContext::shared(context), Params::new(array)) };
    let (bytes, block_bytes) = own.value.hash().map_or((0, 0), |hash| (hash.bytes, hash.block_bytes));
    let filled =
        params.fill_number(c"size", bytes as i64) && params.fill_number(c"block-size", block_bytes as i64);
    c_int::from(filled)
}

unsafe extern "C" fn settable_context_params(_: *mut c_void, _: *mut c_void) -> *const Param {
    static TABLE: &[Param] = descriptions![
        c"digest" => UTF8_STRING,
        c"properties" => UTF8_STRING,
        c"key" => OCTET_STRING,
        c"tls-data-size" => UNSIGNED,
    ];
    TABLE.as_ptr()
}

unsafe extern "C" fn set_context_params(context: *mut c_void, array: *const Param) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`, and an array with a terminator.
    let (own, params) = unsafe { (MacContext::of(context), Params::new(array)) };
    let core = own.core;
    core.succeeds(|| set(&mut own.value, params))
}

fn set(mac: &mut Authenticating, params: Params<'_>) -> Result<(), Reason> {
    if let Some(name) = params.text(c"digest") {
        mac.set_hash(name)?;
    }
    if let Some(key) = params.octets(c"key") {
        mac.set_key(key)?;
    }
    if let Some(length) = params.length(c"tls-data-size") {
        mac.set_record_bytes(length);
    }
    Ok(())
}
