//! provider-signature(7): RSA, ECDSA, Ed25519.

#![allow(unsafe_code)]

use super::params::{INTEGER, OCTET_STRING, Param, Params, UTF8_STRING};
use super::signs::{duplicate, message_init, new, sign, verify};
use super::{Context, Dispatch, Settable, bytes, described, give, table};
use crate::library;
use crate::reason::Reason;
use crate::signing::{Padding, Salt, Signature as _, Signing, hash_of};
use sealane_client::Hash;
use std::ffi::{CStr, CString, c_int, c_uchar, c_void};

type SigningContext = Context<Signing>;

macro_rules! of_digests {
    ($family:literal $(, $id:literal => $function:expr)*) => {
        table![
            1 => new::<Signing, $family>,
            2 => SigningContext::init,
            3 => sign::<Signing>,
            4 => SigningContext::init,
            5 => verify::<Signing>,
            $($id => $function,)*
            8 => message_init::<Signing>,
            9 => update,
            10 => sign_final,
            12 => message_init::<Signing>,
            13 => update,
            14 => verify_final,
            16 => SigningContext::free,
            17 => duplicate::<Signing>,
            18 => get_params,
            19 => gettable_params,
            20 => SigningContext::set_params,
            21 => settable_params,
        ]
    };
}

pub(super) static RSA: &[Dispatch] = of_digests!(0, 6 => SigningContext::init, 7 => recover);
pub(super) static ECDSA: &[Dispatch] = of_digests!(1);
pub(super) static ED25519: &[Dispatch] = table![
    1 => new::<Signing, 2>,
    8 => message_init::<Signing>,
    11 => sign_message,
    12 => message_init::<Signing>,
    15 => verify_message,
    16 => SigningContext::free,
    17 => duplicate::<Signing>,
    18 => get_params,
    19 => gettable_params,
];

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`new`] or [`duplicate`];
/// `length` is writable; `out` has `capacity` bytes or is null; `signature` has `signature_length` bytes or
/// is null.
unsafe extern "C" fn recover(
    context: *mut c_void,
    out: *mut c_uchar,
    length: *mut usize,
    capacity: usize,
    signature: *const c_uchar,
    signature_length: usize,
) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`, and bytes with their lengths.
    let (own, signature) = unsafe { (SigningContext::shared(context), bytes(signature, signature_length)) };
    own.core.succeeds(|| {
        let most = own.value.size()?;
        // SAFETY: OpenSSL hands in a place for the length, and a buffer of the capacity or null.
        unsafe { give(out, length, capacity, most, || own.value.recover(signature)) }
    })
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`new`] or [`duplicate`];
/// `data` has `length` bytes or is null.
unsafe extern "C" fn update(context: *mut c_void, data: *const c_uchar, length: usize) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`, and bytes with their length.
    let (own, data) = unsafe { (SigningContext::of(context), bytes(data, length)) };
    let core = own.core;
    core.succeeds(|| own.value.update(data))
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`new`] or [`duplicate`];
/// `length` is writable; `out` has `capacity` bytes or is null.
unsafe extern "C" fn sign_final(
    context: *mut c_void,
    out: *mut c_uchar,
    length: *mut usize,
    capacity: usize,
) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`.
    let own = unsafe { SigningContext::of(context) };
    let core = own.core;
    core.succeeds(|| {
        let most = own.value.size()?;
        let signing = &mut own.value;
        let make = || {
            let digest = signing.digest()?;
            signing.sign(&digest)
        };
        // SAFETY: OpenSSL hands in a place for the length, and a buffer of the capacity or null.
        unsafe { give(out, length, capacity, most, make) }
    })
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`new`] or [`duplicate`];
/// `signature` has `length` bytes or is null.
unsafe extern "C" fn verify_final(context: *mut c_void, signature: *const c_uchar, length: usize) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`, and bytes with their length.
    let (own, signature) = unsafe { (SigningContext::of(context), bytes(signature, length)) };
    let core = own.core;
    let good = core.outcome(|| {
        let digest = own.value.digest()?;
        own.value.verify(&digest, signature)
    });
    c_int::from(good.unwrap_or(false))
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`new`] or [`duplicate`];
/// `length` is writable; `out` has `capacity` bytes or is null; `message` has `message_length` bytes or is
/// null.
unsafe extern "C" fn sign_message(
    context: *mut c_void,
    out: *mut c_uchar,
    length: *mut usize,
    capacity: usize,
    message: *const c_uchar,
    message_length: usize,
) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`, and bytes with their lengths.
    let (own, message) = unsafe { (SigningContext::of(context), bytes(message, message_length)) };
    let core = own.core;
    core.succeeds(|| {
        let most = own.value.size()?;
        let signing = &mut own.value;
        // SAFETY: OpenSSL hands in a place for the length, and a buffer of the capacity or null.
        unsafe { give(out, length, capacity, most, || signing.sign_message(message)) }
    })
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`new`] or [`duplicate`];
/// `signature` and `message` have the lengths beside them or are null.
unsafe extern "C" fn verify_message(
    context: *mut c_void,
    signature: *const c_uchar,
    signature_length: usize,
    message: *const c_uchar,
    message_length: usize,
) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`, and bytes with their lengths.
    let (own, signature, message) = unsafe {
        (SigningContext::of(context), bytes(signature, signature_length), bytes(message, message_length))
    };
    let core = own.core;
    let good = core.outcome(|| own.value.verify_message(message, signature));
    c_int::from(good.unwrap_or(false))
}

described! { settable_params(*mut c_void, *mut c_void):
    c"digest" => UTF8_STRING,
    c"properties" => UTF8_STRING,
    c"pad-mode" => UTF8_STRING,
    c"mgf1-digest" => UTF8_STRING,
    c"mgf1-properties" => UTF8_STRING,
    c"saltlen" => UTF8_STRING,
}

/// Returns a value that may be given by its name or by its number.
pub(super) fn named<T>(
    params: Params<'_>,
    key: &CStr,
    of_name: fn(&str) -> Option<T>,
    of_number: fn(i64) -> Option<T>,
) -> Result<Option<T>, Reason> {
    if !params.has(key) {
        return Ok(None);
    }
    let found = match params.text(key) {
        Some(name) => of_name(name),
        None => params.number(key).and_then(of_number),
    };
    found.map(Some).ok_or(Reason::Unsupported)
}

/// Returns a hash by its name, if one is given.
pub(super) fn hash(params: Params<'_>, key: &CStr) -> Result<Option<Hash>, Reason> {
    named(params, key, hash_of, |_| None)
}

impl Settable for Signing {
    fn set(&mut self, params: Params<'_>) -> Result<(), Reason> {
        if let Some(hash) = named(params, c"digest", library::Hash::of_signature, |_| None)? {
            self.set_hash(hash)?;
        }
        if let Some(padding) = named(params, c"pad-mode", Padding::of_name, Padding::of_number)? {
            self.set_padding(padding)?;
        }
        if let Some(mask) = hash(params, c"mgf1-digest")? {
            self.set_mask(mask)?;
        }
        if let Some(salt) = named(params, c"saltlen", Salt::of_name, Salt::of_number)? {
            self.set_salt(salt)?;
        }
        Ok(())
    }
}

described! { gettable_params(*mut c_void, *mut c_void):
    c"algorithm-id" => OCTET_STRING,
    c"digest" => UTF8_STRING,
    c"pad-mode" => UTF8_STRING,
    c"mgf1-digest" => UTF8_STRING,
    c"saltlen" => INTEGER,
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`new`] or [`duplicate`];
/// `array`.
unsafe extern "C" fn get_params(context: *mut c_void, array: *mut Param) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`, and an array with a terminator.
    let (own, params) = unsafe { (SigningContext::shared(context), Params::new(array)) };
    own.core.succeeds(|| {
        let signing = &own.value;
        let mut filled = true;
        if params.has(c"algorithm-id") {
            filled &= params.fill_octets(c"algorithm-id", &signing.algorithm_id()?);
        }
        if let Some(hash) = signing.hash() {
            let mask = signing.mask.and_then(library::Hash::of_client).unwrap_or(hash);
            filled &= fill_name(params, c"digest", hash.openssl_name());
            filled &= fill_name(params, c"mgf1-digest", mask.openssl_name());
        }
        // These are filled in by number or by name, as requested.
        filled &= params.fill_number(c"pad-mode", signing.padding().number())
            || fill_name(params, c"pad-mode", signing.padding().name());
        filled &= params.fill_number(c"saltlen", signing.salt.number())
            || fill_name(params, c"saltlen", &signing.salt.number().to_string());
        if filled { Ok(()) } else { Err(Reason::BufferTooSmall) }
    })
}

fn fill_name(params: Params<'_>, key: &CStr, name: &str) -> bool {
    CString::new(name).is_ok_and(|name| params.fill_string(key, &name))
}
