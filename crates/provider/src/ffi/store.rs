//! provider-storemgmt(7) and provider-decoder(7): they open the key of a reference, and a store also has its certificates.

#![allow(unsafe_code)]

use super::params::{Built, INTEGER, Param, Params};
use super::{Context, Core, Dispatch, KeyContext, described, table, text};
use crate::engine;
use crate::key::{Content, Family, KeyBox};
use crate::reason::Reason;
use sealane_client::Uri;
use sealane_client::key::PEM_LABEL;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

/// `OSSL_OBJECT_PKEY` and `OSSL_OBJECT_CERT`.
const OBJECT_KEY: c_int = 2;
const OBJECT_CERTIFICATE: c_int = 3;

/// `OSSL_STORE_INFO_CERT`, as what a caller expects; 0 expects anything.
const EXPECTS_CERTIFICATES: i64 = 5;

/// The maximum length of a PEM file in bytes.
const PEM_BYTES_MAX: usize = 4096;

type Callback = unsafe extern "C" fn(*const Param, *mut c_void) -> c_int;

/// Offers a key to OpenSSL, which takes it by `keymgmt`'s `load`, or does not take it.
fn hand_over(core: Core, content: Content, callback: Callback, argument: *mut c_void) -> c_int {
    let family = Family::of_kind(content.kind);
    let key = KeyContext::give(core, Arc::new(KeyBox::of(content)));
    let place = (key as usize).to_ne_bytes();
    let mut built = Built::default();
    built.integer(c"type", OBJECT_KEY);
    built.text(c"data-type", family.name());
    built.octets(c"reference", &place);
    let (outcome, left) = built.with_last(|array| {
        // SAFETY: OpenSSL's own function with its argument, and an array with a terminator.
        unsafe { callback(array, argument) }
    });
    if left == place {
        // SAFETY: OpenSSL has not taken it, so it is still ours.
        unsafe { KeyContext::free(key) };
    }
    outcome
}

/// A reference that was opened, and what of it is still to be delivered.
struct Opened {
    uri: Uri,
    expects: i64,
    has_key: bool,
    /// The certificates in reverse; `None` before they have been asked for.
    certificates: Option<Vec<Vec<u8>>>,
}

impl Opened {
    /// Returns whether nothing is left. Certificates are asked for only where they are expected.
    fn is_over(&self) -> bool {
        match &self.certificates {
            Some(left) => !self.has_key && left.is_empty(),
            None => !self.has_key && self.expects != EXPECTS_CERTIFICATES,
        }
    }

    /// Asks for the certificates, at the latest when the key is delivered: it may be the last.
    fn ask(&mut self) -> Result<(), Reason> {
        if self.certificates.is_none() && [0, EXPECTS_CERTIFICATES].contains(&self.expects) {
            let mut chain = engine::certificates(&self.uri)?;
            chain.reverse();
            self.certificates = Some(chain);
        }
        Ok(())
    }
}

type OpenedContext = Context<Opened>;

pub(super) static STORE: &[Dispatch] = table![
    1 => store_open,
    3 => store_settable_params,
    4 => store_set_params,
    5 => store_load,
    6 => store_eof,
    7 => store_close,
];

/// # Safety
/// The contract of provider functions, see [`super`]: `provider`; `uri` is null or a string.
unsafe extern "C" fn store_open(provider: *mut c_void, uri: *const c_char) -> *mut c_void {
    // SAFETY: OpenSSL hands in the context of this provider, and a string.
    let (core, uri) = unsafe { (Context::<()>::shared(provider).core, text(uri)) };
    let uri = core.outcome(|| uri.and_then(|uri| uri.parse().ok()).ok_or(Reason::BadReference));
    let opened = |uri| Opened { uri, expects: 0, has_key: true, certificates: None };
    uri.map_or(null_mut(), |uri| OpenedContext::give(core, opened(uri)))
}

described! { store_settable_params(*mut c_void): c"expect" => INTEGER }

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`store_open`]; `array`.
unsafe extern "C" fn store_set_params(context: *mut c_void, array: *const Param) -> c_int {
    // SAFETY: OpenSSL hands in a value of `store_open`, and an array with a terminator.
    let (own, params) = unsafe { (OpenedContext::of(context), Params::new(array)) };
    // OpenSSL checks the results as well.
    if let Some(expects) = params.number(c"expect") {
        own.value.expects = expects;
        own.value.has_key = expects != EXPECTS_CERTIFICATES;
    }
    1
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`store_open`], which the
/// callback does not use; `callback` may be called with `argument`. The other arguments are not used.
unsafe extern "C" fn store_load(
    context: *mut c_void,
    callback: Option<Callback>,
    argument: *mut c_void,
    _: *const c_void,
    _: *mut c_void,
) -> c_int {
    // SAFETY: OpenSSL hands in a value of `store_open`.
    let own = unsafe { OpenedContext::of(context) };
    let Some(callback) = callback else { return 0 };
    let has_key = std::mem::take(&mut own.value.has_key);
    let found = own.core.outcome(|| {
        if !has_key {
            return own.value.ask().map(|()| None);
        }
        let content = Content::of_uri(&own.value.uri)?;
        // The key is there whatever becomes of its certificates.
        let _ = own.value.ask();
        Ok(Some(content))
    });
    match found {
        None => {
            own.value.certificates = Some(Vec::new());
            0
        }
        Some(Some(content)) => hand_over(own.core, content, callback, argument),
        Some(None) => match own.value.certificates.as_mut().and_then(Vec::pop) {
            Some(der) => {
                let mut built = Built::default();
                built.integer(c"type", OBJECT_CERTIFICATE);
                built.octets(c"data", &der);
                // SAFETY: OpenSSL's own function with its argument, and an array with a terminator.
                built.with(|array| unsafe { callback(array, argument) })
            }
            None => 0,
        },
    }
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`store_open`].
unsafe extern "C" fn store_eof(context: *mut c_void) -> c_int {
    // SAFETY: OpenSSL hands in a value of `store_open`.
    c_int::from(unsafe { OpenedContext::shared(context) }.value.is_over())
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is null or a value of [`store_open`], and is
/// used by nobody afterwards.
unsafe extern "C" fn store_close(context: *mut c_void) -> c_int {
    // SAFETY: OpenSSL closes it once.
    unsafe { OpenedContext::free(context) };
    1
}

type DecoderContext = Context<Family>;

macro_rules! decoder {
    ($family:literal, $decode:expr) => {
        table![
            1 => decoder_new::<$family>,
            2 => DecoderContext::free,
            10 => decoder_does_selection,
            11 => $decode,
        ]
    };
}

/// The decoder from PEM to its content.
pub(super) static PEM_TO_DER: &[Dispatch] = decoder!(0, pem_to_der);
pub(super) static RSA_DER: &[Dispatch] = decoder!(0, decode_der);
pub(super) static RSA_PSS_DER: &[Dispatch] = decoder!(4, decode_der);
pub(super) static EC_DER: &[Dispatch] = decoder!(1, decode_der);
pub(super) static ED25519_DER: &[Dispatch] = decoder!(2, decode_der);
pub(super) static X25519_DER: &[Dispatch] = decoder!(3, decode_der);
pub(super) static ML_DSA_44_DER: &[Dispatch] = decoder!(5, decode_der);
pub(super) static ML_DSA_65_DER: &[Dispatch] = decoder!(6, decode_der);
pub(super) static ML_DSA_87_DER: &[Dispatch] = decoder!(7, decode_der);

/// # Safety
/// The contract of provider functions, see [`super`]: `provider`.
unsafe extern "C" fn decoder_new<const FAMILY: u8>(provider: *mut c_void) -> *mut c_void {
    // SAFETY: OpenSSL hands in the context of this provider.
    let core = unsafe { Context::<()>::shared(provider) }.core;
    DecoderContext::give(core, Family::of_number(FAMILY))
}

extern "C" fn decoder_does_selection(_: *mut c_void, selection: c_int) -> c_int {
    // The selection may be empty, or include a private key, which comes with its public half.
    c_int::from(selection == 0 || selection & 1 != 0)
}

/// Passes on the content of a PEM file with a reference.
///
/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`decoder_new`]; `file` is a
/// file of OpenSSL's that its functions may read during the call; `callback` may be called with `argument`.
/// The other arguments are not used.
unsafe extern "C" fn pem_to_der(
    context: *mut c_void,
    file: *mut c_void,
    _: c_int,
    callback: Option<Callback>,
    argument: *mut c_void,
    _: *const c_void,
    _: *mut c_void,
) -> c_int {
    // SAFETY: OpenSSL hands in a value of `decoder_new`.
    let own = unsafe { DecoderContext::shared(context) };
    let uri = read_reference(own.core, file).and_then(|pem| Uri::of_pem(&pem).ok());
    let (Some(uri), Some(callback)) = (uri, callback) else { return 1 };
    let mut built = Built::default();
    built.integer(c"type", OBJECT_KEY);
    built.octets(c"data", &uri.to_der());
    // SAFETY: OpenSSL's own function with its argument, and an array with a terminator.
    built.with(|array| unsafe { callback(array, argument) })
}

/// Delivers the key for the content of such a file; ignores all other bytes.
///
/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`decoder_new`]; `file` is a
/// file of OpenSSL's that its functions may read during the call; `callback` may be called with `argument`.
/// The other arguments are not used.
unsafe extern "C" fn decode_der(
    context: *mut c_void,
    file: *mut c_void,
    _: c_int,
    callback: Option<Callback>,
    argument: *mut c_void,
    _: *const c_void,
    _: *mut c_void,
) -> c_int {
    // SAFETY: OpenSSL hands in a value of `decoder_new`.
    let own = unsafe { DecoderContext::shared(context) };
    match Uri::of_der(&read_der(own.core, file)) {
        Ok(uri) => give_key(own, &uri, callback, argument),
        Err(_) => 1,
    }
}

fn give_key(own: &DecoderContext, uri: &Uri, callback: Option<Callback>, argument: *mut c_void) -> c_int {
    let Some(content) = own.core.outcome(|| Content::of_uri(uri)) else { return 0 };
    if Family::of_kind(content.kind) != own.value {
        // The decoder of its family follows later.
        return 1;
    }
    callback.map_or(0, |callback| hand_over(own.core, content, callback, argument))
}

/// Reads a file up to slightly more than the maximum length of a reference, so that a longer file is detected.
fn read_der(core: Core, file: *mut c_void) -> Vec<u8> {
    let mut bytes = vec![0; PEM_BYTES_MAX];
    let mut filled = 0;
    while let Some(read) = core.read.filter(|_| filled < bytes.len()) {
        let rest = &mut bytes[filled..];
        let mut length = 0;
        // SAFETY: OpenSSL's own function with its file, and a buffer with its length.
        let outcome = unsafe { read(file, rest.as_mut_ptr().cast(), rest.len(), &mut length) };
        if outcome != 1 || length == 0 || length > rest.len() {
            break;
        }
        filled += length;
    }
    bytes.truncate(filled);
    bytes
}

/// Returns the first PEM text of a file, if it is a reference.
fn read_reference(core: Core, file: *mut c_void) -> Option<String> {
    let gets = core.gets?;
    let begin = format!("-----BEGIN {PEM_LABEL}-----");
    let mut pem = String::new();
    let mut read = 0;
    let mut line = [0u8; 256];
    while read < PEM_BYTES_MAX {
        // SAFETY: OpenSSL's own function with its file, and a buffer with its length.
        let length = unsafe { gets(file, line.as_mut_ptr().cast(), line.len() as c_int) };
        let length = usize::try_from(length).ok().filter(|length| (1..=line.len()).contains(length))?;
        read += length;
        let Ok(found) = std::str::from_utf8(&line[..length]) else { return None };
        if pem.is_empty() && found.starts_with("-----BEGIN ") && found.trim_end() != begin {
            return None;
        }
        if !pem.is_empty() || found.trim_end() == begin {
            pem.push_str(found);
        }
        if !pem.is_empty() && found.starts_with("-----END ") {
            return Some(pem);
        }
    }
    None
}
