//! provider-cipher(7): AES-GCM, AES-CBC, AES-CTR and ChaCha20-Poly1305.

#![allow(unsafe_code)]

use super::params::{INTEGER, OCTET_PTR, OCTET_STRING, Param, Params, UNSIGNED};
use super::{Context, Dispatch, Settable, bytes, described, table};
use crate::ciphering::{Ciphering, TAG_BYTES};
use crate::library::{Kind, Mode, Text};
use crate::reason::Reason;
use std::ffi::{c_int, c_uchar, c_void};
use std::ptr::null_mut;

type CipherContext = Context<Ciphering>;

macro_rules! cipher {
    ($place:literal) => {
        table![
            1 => new::<$place>,
            2 => encrypt_init,
            3 => decrypt_init,
            4 => update,
            5 => finish,
            6 => transform,
            7 => CipherContext::free,
            8 => duplicate,
            9 => get_params::<$place>,
            10 => get_context_params,
            11 => CipherContext::set_params,
            12 => gettable_params,
            13 => gettable_context_params,
            14 => settable_context_params,
        ]
    };
}

pub(super) static AES_128_GCM: &[Dispatch] = cipher!(0);
pub(super) static AES_192_GCM: &[Dispatch] = cipher!(1);
pub(super) static AES_256_GCM: &[Dispatch] = cipher!(2);
pub(super) static AES_128_CBC: &[Dispatch] = cipher!(3);
pub(super) static AES_192_CBC: &[Dispatch] = cipher!(4);
pub(super) static AES_256_CBC: &[Dispatch] = cipher!(5);
pub(super) static AES_128_CTR: &[Dispatch] = cipher!(6);
pub(super) static AES_192_CTR: &[Dispatch] = cipher!(7);
pub(super) static AES_256_CTR: &[Dispatch] = cipher!(8);
pub(super) static CHACHA20_POLY1305: &[Dispatch] = cipher!(9);

/// # Safety
/// The contract of provider functions, see [`super`]: `provider`.
unsafe extern "C" fn new<const PLACE: usize>(provider: *mut c_void) -> *mut c_void {
    // SAFETY: OpenSSL hands in the context of this provider.
    let core = unsafe { Context::<()>::shared(provider) }.core;
    let made = core.outcome(|| Ciphering::new(PLACE));
    made.map_or(null_mut(), |ciphering| CipherContext::give(core, ciphering))
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`new`] or [`duplicate`].
unsafe extern "C" fn duplicate(context: *mut c_void) -> *mut c_void {
    // SAFETY: OpenSSL hands in a value of `new`.
    let own = unsafe { CipherContext::shared(context) };
    let made = own.core.outcome(|| own.value.duplicate());
    made.map_or(null_mut(), |ciphering| CipherContext::give(own.core, ciphering))
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`new`] or [`duplicate`]; `key`
/// and `iv` have the lengths beside them or are null; `array`.
unsafe extern "C" fn encrypt_init(
    context: *mut c_void,
    key: *const c_uchar,
    key_length: usize,
    iv: *const c_uchar,
    iv_length: usize,
    array: *const Param,
) -> c_int {
    // SAFETY: the contract is that of `init`.
    unsafe { init(context, true, (key, key_length), (iv, iv_length), array) }
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`new`] or [`duplicate`]; `key`
/// and `iv` have the lengths beside them or are null; `array`.
unsafe extern "C" fn decrypt_init(
    context: *mut c_void,
    key: *const c_uchar,
    key_length: usize,
    iv: *const c_uchar,
    iv_length: usize,
    array: *const Param,
) -> c_int {
    // SAFETY: the contract is that of `init`.
    unsafe { init(context, false, (key, key_length), (iv, iv_length), array) }
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`new`] or [`duplicate`]; `key`
/// and `iv` have the lengths beside them or are null; `array`.
unsafe fn init(
    context: *mut c_void,
    encrypts: bool,
    key: (*const c_uchar, usize),
    iv: (*const c_uchar, usize),
    array: *const Param,
) -> c_int {
    // SAFETY: the contract: a value of `new`, bytes with their lengths, and an array with a terminator or
    // null.
    let (Context { core, value }, key_bytes, iv_bytes, params) =
        unsafe { (CipherContext::of(context), bytes(key.0, key.1), bytes(iv.0, iv.1), Params::new(array)) };
    core.succeeds(|| {
        let (key, iv) = ((!key.0.is_null()).then_some(key_bytes), (!iv.0.is_null()).then_some(iv_bytes));
        value.start(encrypts, key, iv)?;
        value.set(params)
    })
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`new`] or [`duplicate`];
/// `written` is writable; `input` has `length` bytes or is null; `out` is null or has room for the outcome,
/// at most `capacity` bytes, and is `input` or does not overlap its bytes (EVP_EncryptInit(3)). `capacity`
/// may be above the room that the program has: OpenSSL states the input's length and a block.
unsafe extern "C" fn update(
    context: *mut c_void,
    out: *mut c_uchar,
    written: *mut usize,
    capacity: usize,
    input: *const c_uchar,
    length: usize,
) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`, bytes with their length, and a place for the outcome or null.
    let (Context { core, value }, text) =
        unsafe { (CipherContext::of(context), Text::new(input, length, out, capacity)) };
    // SAFETY: OpenSSL hands in a place for the length.
    core.succeeds(|| value.update(&text).map(|length| unsafe { written.write(length) }))
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`new`] or [`duplicate`];
/// `written` is writable; `out` is null or has room for the outcome, at most `capacity` bytes.
unsafe extern "C" fn finish(
    context: *mut c_void,
    out: *mut c_uchar,
    written: *mut usize,
    capacity: usize,
) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`, and a place for the outcome or null.
    let (Context { core, value }, out) =
        unsafe { (CipherContext::of(context), Text::new(std::ptr::null(), 0, out, capacity)) };
    // SAFETY: OpenSSL hands in a place for the length.
    core.succeeds(|| value.finish(&out).map(|length| unsafe { written.write(length) }))
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`new`] or [`duplicate`];
/// `written` is writable; `input` has `length` bytes or is null; `out` is null or has room for the outcome,
/// at most `capacity` bytes, and is `input` or does not overlap its bytes (EVP_EncryptInit(3)). `capacity`
/// may be above the room that the program has: OpenSSL states the input's length and a block.
unsafe extern "C" fn transform(
    context: *mut c_void,
    out: *mut c_uchar,
    written: *mut usize,
    capacity: usize,
    input: *const c_uchar,
    length: usize,
) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`, bytes with their length, and a place for the outcome or
    // null.
    let (Context { core, value }, text) =
        unsafe { (CipherContext::of(context), Text::new(input, length, out, capacity)) };
    // SAFETY: OpenSSL hands in a place for the length.
    core.succeeds(|| value.transform(&text).map(|length| unsafe { written.write(length) }))
}

/// Returns OpenSSL's number of a mode (`EVP_CIPH_…_MODE`).
fn number_of(mode: Mode) -> i64 {
    match mode {
        Mode::ChaCha20Poly1305 => 0,
        Mode::Cbc => 2,
        Mode::Ctr => 5,
        Mode::Gcm => 6,
    }
}

described! { gettable_params(*mut c_void):
    c"mode" => UNSIGNED,
    c"keylen" => UNSIGNED,
    c"ivlen" => UNSIGNED,
    c"blocksize" => UNSIGNED,
    c"aead" => INTEGER,
    c"custom-iv" => INTEGER,
    c"cts" => INTEGER,
    c"tls-multi" => INTEGER,
    c"has-randkey" => INTEGER,
    c"encrypt-then-mac" => INTEGER,
}

/// # Safety
/// The contract of provider functions, see [`super`]: `array`.
unsafe extern "C" fn get_params<const PLACE: usize>(array: *mut Param) -> c_int {
    // SAFETY: OpenSSL hands in an array with a terminator.
    let params = unsafe { Params::new(array) };
    let kind = &Kind::ALL[PLACE];
    let is_aead = kind.is_aead().into();
    let filled = params.fill_number(c"mode", number_of(kind.mode))
        && params.fill_number(c"keylen", kind.key_bytes as i64)
        && params.fill_number(c"ivlen", kind.iv_bytes() as i64)
        && params.fill_number(c"blocksize", kind.block_bytes() as i64)
        && params.fill_number(c"aead", is_aead)
        && params.fill_number(c"custom-iv", is_aead)
        && [c"cts", c"tls-multi", c"has-randkey", c"encrypt-then-mac"]
            .iter()
            .all(|key| params.fill_number(key, 0));
    c_int::from(filled)
}

described! { gettable_context_params(*mut c_void, *mut c_void):
    c"keylen" => UNSIGNED,
    c"ivlen" => UNSIGNED,
    c"padding" => UNSIGNED,
    c"num" => UNSIGNED,
    c"iv" => OCTET_STRING,
    c"updated-iv" => OCTET_STRING,
    c"taglen" => UNSIGNED,
    c"tag" => OCTET_STRING,
    c"tlsaadpad" => UNSIGNED,
    c"tlsivgen" => OCTET_STRING,
    c"tls-mac" => OCTET_PTR,
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`new`] or [`duplicate`];
/// `array`. Values that OpenSSL takes as pointers are valid until the context is used again.
unsafe extern "C" fn get_context_params(context: *mut c_void, array: *mut Param) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`, and an array with a terminator.
    let (Context { core, value: ciphering }, params) =
        unsafe { (CipherContext::of(context), Params::new(array)) };
    core.succeeds(|| {
        let is_aead = ciphering.kind().is_aead();
        let mut filled = true;
        for (name, param) in params.each() {
            filled &= match name {
                b"keylen" => param.fill_number(ciphering.kind().key_bytes as i64),
                b"ivlen" => param.fill_number(ciphering.iv_bytes() as i64),
                b"padding" => param.fill_number(ciphering.pads().into()),
                b"num" => param.fill_number(ciphering.used().into()),
                b"taglen" | b"tlsaadpad" if is_aead => param.fill_number(TAG_BYTES as i64),
                // SAFETY: the vector stays in the context.
                b"iv" => unsafe { param.fill_octets_or_pointer(ciphering.iv()) },
                // SAFETY: the vector stays in the context.
                b"updated-iv" if is_aead => unsafe { param.fill_octets_or_pointer(ciphering.iv()) },
                // SAFETY: the copy of the vector stays in the context.
                b"updated-iv" => unsafe { param.fill_octets_or_pointer(ciphering.keep_next_iv()) },
                b"tag" if is_aead => param.fill_octets(ciphering.tag(param.size())?),
                b"tlsivgen" if is_aead => {
                    let whole = ciphering.iv_bytes();
                    let length = if param.size() == 0 { whole } else { param.size().min(whole) };
                    let mut iv = vec![0; length];
                    ciphering.generate_iv(&mut iv)?;
                    param.fill_octets(&iv)
                }
                // SAFETY: the code stays in the context.
                b"tls-mac" if !is_aead => unsafe { param.fill_octets_or_pointer(ciphering.code()) },
                _ => true,
            };
        }
        if filled { Ok(()) } else { Err(Reason::BufferTooSmall) }
    })
}

described! { settable_context_params(*mut c_void, *mut c_void):
    c"keylen" => UNSIGNED,
    c"ivlen" => UNSIGNED,
    c"padding" => UNSIGNED,
    c"num" => UNSIGNED,
    c"tag" => OCTET_STRING,
    c"tlsaad" => OCTET_STRING,
    c"tlsivfixed" => OCTET_STRING,
    c"tlsivinv" => OCTET_STRING,
    c"tls-version" => UNSIGNED,
    c"tls-mac-size" => UNSIGNED,
}

impl Settable for Ciphering {
    fn set(&mut self, params: Params<'_>) -> Result<(), Reason> {
        for (name, param) in params.each() {
            match name {
                b"keylen" if param.length().is_some_and(|length| length != self.kind().key_bytes) => {
                    return Err(Reason::KeyLength);
                }
                b"ivlen" => param.length().map_or(Ok(()), |length| self.set_iv_bytes(length))?,
                b"padding" => param.number().map_or((), |pads| self.set_padding(pads != 0)),
                b"num" if param.number().is_some_and(|used| used != 0) => return Err(Reason::Unsupported),
                b"tag" => self.set_tag(param.octets(), param.size())?,
                b"tlsivfixed" => param.octets().map_or(Ok(()), |fixed| self.set_fixed_iv(fixed))?,
                b"tlsivinv" => param.octets().map_or(Ok(()), |explicit| self.set_explicit_iv(explicit))?,
                b"tlsaad" => {
                    param.octets().map_or(Ok(()), |header| self.set_header(header).map(|_| ()))?;
                }
                b"tls-version" => param.number().map_or(Ok(()), |version| self.set_version(version))?,
                b"tls-mac-size" => param.length().map_or(Ok(()), |length| self.set_code_bytes(length))?,
                _ => {}
            }
        }
        Ok(())
    }
}
