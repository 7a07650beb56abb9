//! provider-signature(7) of ML-DSA, with the parameters of EVP_SIGNATURE-ML-DSA(7) (OpenSSL 3.5).

#![allow(unsafe_code)]

use super::params::{INTEGER, OCTET_STRING, Param, Params};
use super::{Context, Dispatch, bytes, descriptions, give, key_of, table, text};
use crate::key::Family;
use crate::ml_dsa::MlDsaSigning;
use crate::reason::Reason;
use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::ptr::null_mut;

type SigningContext = Context<MlDsaSigning>;

macro_rules! of_set {
    ($family:literal) => {
        table![
            1 => new::<$family>,
            3 => sign,
            5 => verify,
            8 => message_init,
            11 => sign,
            12 => message_init,
            15 => verify,
            16 => free,
            17 => duplicate,
            18 => get_params,
            19 => gettable_params,
            20 => set_params,
            21 => settable_params,
            27 => init,
            30 => init,
        ]
    };
}

pub(super) static ML_DSA_44: &[Dispatch] = of_set!(5);
pub(super) static ML_DSA_65: &[Dispatch] = of_set!(6);
pub(super) static ML_DSA_87: &[Dispatch] = of_set!(7);

/// The message is encoded as FIPS 204 has it, not given whole (`OSSL_SIGNATURE_PARAM_MESSAGE_ENCODING`).
const ENCODED: i64 = 1;

/// # Safety
/// The contract of provider functions, see [`super`]: `provider`. The property query is not used.
unsafe extern "C" fn new<const FAMILY: u8>(provider: *mut c_void, _: *const c_char) -> *mut c_void {
    // SAFETY: OpenSSL hands in the context of this provider.
    let core = unsafe { Context::<()>::shared(provider) }.core;
    SigningContext::give(core, MlDsaSigning::new(Family::of_number(FAMILY)))
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is null or a value of [`new`] or
/// [`duplicate`], and is used by nobody afterwards.
unsafe extern "C" fn free(context: *mut c_void) {
    // SAFETY: OpenSSL frees it once.
    unsafe { SigningContext::free(context) };
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`new`] or [`duplicate`].
unsafe extern "C" fn duplicate(context: *mut c_void) -> *mut c_void {
    // SAFETY: OpenSSL hands in a value of `new`.
    let own = unsafe { SigningContext::shared(context) };
    let copy = own.core.outcome(|| Ok(own.value.clone()));
    copy.map_or(null_mut(), |copy| SigningContext::give(own.core, copy))
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`new`] or [`duplicate`]; `key`
/// is null or a key; `array`.
unsafe extern "C" fn init(context: *mut c_void, key: *mut c_void, array: *const Param) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`, a key of this provider or null, and an array with a terminator or
    // null.
    let (own, key, params) = unsafe { (SigningContext::of(context), key_of(key), Params::new(array)) };
    let core = own.core;
    core.succeeds(|| {
        own.value.start(key)?;
        set(&mut own.value, params)
    })
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`new`] or [`duplicate`];
/// `hash` is null or a string; `key` is null or a key; `array`.
unsafe extern "C" fn message_init(
    context: *mut c_void,
    hash: *const c_char,
    key: *mut c_void,
    array: *const Param,
) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`, a key of this provider or null, and an array with a
    // terminator or null; the name is a string or null.
    let (own, key, params, hash) =
        unsafe { (SigningContext::of(context), key_of(key), Params::new(array), text(hash)) };
    let core = own.core;
    core.succeeds(|| {
        own.value.start_message(hash, key)?;
        set(&mut own.value, params)
    })
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`new`] or [`duplicate`];
/// `length` is writable; `out` has `capacity` bytes or is null; `message` has `message_length` bytes or is
/// null.
unsafe extern "C" fn sign(
    context: *mut c_void,
    out: *mut c_uchar,
    length: *mut usize,
    capacity: usize,
    message: *const c_uchar,
    message_length: usize,
) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`, and bytes with their lengths.
    let (own, message) = unsafe { (SigningContext::shared(context), bytes(message, message_length)) };
    own.core.succeeds(|| {
        let most = own.value.size()?;
        // SAFETY: OpenSSL hands in a place for the length, and a buffer of the capacity or null.
        unsafe { give(out, length, capacity, most, || own.value.sign(message)) }
    })
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`new`] or [`duplicate`];
/// `signature` and `message` have the lengths beside them or are null.
unsafe extern "C" fn verify(
    context: *mut c_void,
    signature: *const c_uchar,
    signature_length: usize,
    message: *const c_uchar,
    message_length: usize,
) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`, and bytes with their lengths.
    let (own, signature, message) = unsafe {
        (SigningContext::shared(context), bytes(signature, signature_length), bytes(message, message_length))
    };
    let good = own.core.outcome(|| own.value.verify(message, signature));
    c_int::from(good.unwrap_or(false))
}

extern "C" fn settable_params(_: *mut c_void, _: *mut c_void) -> *const Param {
    static TABLE: &[Param] = descriptions![
        c"context-string" => OCTET_STRING,
        c"message-encoding" => INTEGER,
        c"deterministic" => INTEGER,
        c"mu" => INTEGER,
    ];
    TABLE.as_ptr()
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`new`] or [`duplicate`];
/// `array`.
unsafe extern "C" fn set_params(context: *mut c_void, array: *const Param) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`, and an array with a terminator.
    let (own, params) = unsafe { (SigningContext::of(context), Params::new(array)) };
    let core = own.core;
    core.succeeds(|| set(&mut own.value, params))
}

fn set(signing: &mut MlDsaSigning, params: Params<'_>) -> Result<(), Reason> {
    if let Some(context) = params.octets(c"context-string") {
        signing.set_context(context)?;
    }
    if let Some(is_deterministic) = params.number(c"deterministic") {
        signing.is_deterministic = is_deterministic != 0;
    }
    if let Some(is_representative) = params.number(c"mu") {
        signing.is_representative = is_representative != 0;
    }
    // The service hedges by its own random bytes, and signs no message whose encoding is not FIPS 204's.
    let is_encoded = params.number(c"message-encoding").is_none_or(|encoding| encoding == ENCODED);
    if is_encoded && !params.has(c"test-entropy") { Ok(()) } else { Err(Reason::Unsupported) }
}

extern "C" fn gettable_params(_: *mut c_void, _: *mut c_void) -> *const Param {
    static TABLE: &[Param] = descriptions![c"algorithm-id" => OCTET_STRING];
    TABLE.as_ptr()
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`new`] or [`duplicate`];
/// `array`.
unsafe extern "C" fn get_params(context: *mut c_void, array: *mut Param) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`, and an array with a terminator.
    let (own, params) = unsafe { (SigningContext::shared(context), Params::new(array)) };
    own.core.succeeds(|| {
        let is_filled =
            !params.has(c"algorithm-id") || params.fill_octets(c"algorithm-id", &own.value.algorithm_id()?);
        if is_filled { Ok(()) } else { Err(Reason::BufferTooSmall) }
    })
}
