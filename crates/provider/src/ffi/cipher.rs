//! provider-asym_cipher(7): RSA encryption, which is public, and decryption.

#![allow(unsafe_code)]

use super::params::{OCTET_STRING, Param, Params, UTF8_STRING};
use super::signature::{hash, named};
use super::{Context, Dispatch, Settable, bytes, described, give, table};
use crate::reason::Reason;
use crate::signing::{Crypting, Padding};
use std::ffi::{c_int, c_uchar, c_void};

type CryptingContext = Context<Crypting>;

pub(super) static TABLE: &[Dispatch] = table![
    1 => CryptingContext::begin,
    2 => CryptingContext::init,
    3 => encrypt,
    4 => CryptingContext::init,
    5 => decrypt,
    6 => CryptingContext::free,
    7 => CryptingContext::duplicate,
    8 => get_params,
    9 => gettable_params,
    10 => CryptingContext::set_params,
    11 => settable_params,
];

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of `begin` or a copy;
/// `length` is writable; `out` has `capacity` bytes or is null; `plaintext` has `plaintext_length` bytes or
/// is null.
unsafe extern "C" fn encrypt(
    context: *mut c_void,
    out: *mut c_uchar,
    length: *mut usize,
    capacity: usize,
    plaintext: *const c_uchar,
    plaintext_length: usize,
) -> c_int {
    // SAFETY: OpenSSL hands in a value of `begin`, and bytes with their lengths.
    let (own, plaintext) = unsafe { (CryptingContext::shared(context), bytes(plaintext, plaintext_length)) };
    own.core.succeeds(|| {
        let most = own.value.size()?;
        // SAFETY: OpenSSL hands in a place for the length, and a buffer of the capacity or null.
        unsafe { give(out, length, capacity, most, || own.value.encrypt(plaintext)) }
    })
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of `begin` or a copy;
/// `length` is writable; `out` has `capacity` bytes or is null; `ciphertext` has `ciphertext_length` bytes or
/// is null.
unsafe extern "C" fn decrypt(
    context: *mut c_void,
    out: *mut c_uchar,
    length: *mut usize,
    capacity: usize,
    ciphertext: *const c_uchar,
    ciphertext_length: usize,
) -> c_int {
    // SAFETY: OpenSSL hands in a value of `begin`, and bytes with their lengths.
    let (own, ciphertext) =
        unsafe { (CryptingContext::shared(context), bytes(ciphertext, ciphertext_length)) };
    own.core.succeeds(|| {
        let most = own.value.size()?;
        let make = || own.value.decrypt(ciphertext).map(|mut made| std::mem::take(&mut *made));
        // SAFETY: OpenSSL hands in a place for the length, and a buffer of the capacity or null.
        unsafe { give(out, length, capacity, most, make) }
    })
}

described! { settable_params(*mut c_void, *mut c_void):
    c"pad-mode" => UTF8_STRING,
    c"digest" => UTF8_STRING,
    c"digest-props" => UTF8_STRING,
    c"mgf1-digest" => UTF8_STRING,
    c"mgf1-digest-props" => UTF8_STRING,
    c"oaep-label" => OCTET_STRING,
}

impl Settable for Crypting {
    fn set(&mut self, params: Params<'_>) -> Result<(), Reason> {
        if let Some(padding) = named(params, c"pad-mode", Padding::of_name, Padding::of_number)? {
            self.padding = padding;
        }
        if let Some(hash) = hash(params, c"digest")? {
            self.hash = hash;
        }
        if let Some(mask) = hash(params, c"mgf1-digest")? {
            self.mask = Some(mask);
        }
        match params.octets(c"oaep-label") {
            None | Some([]) => Ok(()),
            Some(_) => Err(Reason::Unsupported),
        }
    }
}

described! { gettable_params(*mut c_void, *mut c_void): c"pad-mode" => UTF8_STRING }

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of `begin` or a copy;
/// `array`.
unsafe extern "C" fn get_params(context: *mut c_void, array: *mut Param) -> c_int {
    // SAFETY: OpenSSL hands in a value of `begin`, and an array with a terminator.
    let (own, params) = unsafe { (CryptingContext::shared(context), Params::new(array)) };
    let padding = own.value.padding;
    let filled = params.fill_number(c"pad-mode", padding.number())
        || std::ffi::CString::new(padding.name()).is_ok_and(|name| params.fill_string(c"pad-mode", &name));
    c_int::from(filled)
}
