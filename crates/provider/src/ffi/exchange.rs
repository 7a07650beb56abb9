//! provider-keyexch(7): ECDH and X25519, with ANSI X9.63's function after it if it is wanted.

#![allow(unsafe_code)]

use super::params::{INTEGER, OCTET_STRING, Params, UNSIGNED, UTF8_STRING};
use super::{Context, Dispatch, Settable, described, give, key_of, table};
use crate::library;
use crate::reason::Reason;
use crate::signing::Agreeing;
use std::ffi::{c_int, c_uchar, c_void};

type AgreeingContext = Context<Agreeing>;

pub(super) static TABLE: &[Dispatch] = table![
    1 => AgreeingContext::begin,
    2 => AgreeingContext::init,
    3 => derive,
    4 => set_peer,
    5 => AgreeingContext::free,
    6 => AgreeingContext::duplicate,
    7 => AgreeingContext::set_params,
    8 => settable_params,
];

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of `begin` or a copy;
/// `peer` is null or a key.
unsafe extern "C" fn set_peer(context: *mut c_void, peer: *mut c_void) -> c_int {
    // SAFETY: OpenSSL hands in a value of `begin`, and a key of this provider.
    let (own, peer) = unsafe { (AgreeingContext::of(context), key_of(peer)) };
    let core = own.core;
    core.succeeds(|| own.value.set_peer(peer.ok_or(Reason::NoKey)?))
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of `begin` or a copy;
/// `length` is writable; `out` has `capacity` bytes or is null.
unsafe extern "C" fn derive(
    context: *mut c_void,
    out: *mut c_uchar,
    length: *mut usize,
    capacity: usize,
) -> c_int {
    // SAFETY: OpenSSL hands in a value of `begin`.
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

described! { settable_params(*mut c_void, *mut c_void):
    c"ecdh-cofactor-mode" => INTEGER,
    c"kdf-type" => UTF8_STRING,
    c"kdf-digest" => UTF8_STRING,
    c"kdf-digest-props" => UTF8_STRING,
    c"kdf-outlen" => UNSIGNED,
    c"kdf-ukm" => OCTET_STRING,
}

impl Settable for Agreeing {
    /// All curves here have the cofactor one, so its mode changes nothing.
    fn set(&mut self, params: Params<'_>) -> Result<(), Reason> {
        match params.text(c"kdf-type") {
            None => {}
            Some("") => self.is_derived = false,
            Some(name) if name.eq_ignore_ascii_case("X963KDF") => self.is_derived = true,
            Some(_) => return Err(Reason::Unsupported),
        }
        if let Some(name) = params.text(c"kdf-digest") {
            self.derivation.hash = Some(library::Hash::of_name(name).ok_or(Reason::Unsupported)?);
        }
        if let Some(bytes) = params.number(c"kdf-outlen") {
            self.derivation.bytes = usize::try_from(bytes).map_err(|_| Reason::BadContent)?;
        }
        if params.has(c"kdf-ukm") {
            self.derivation.shared = params.octets(c"kdf-ukm").unwrap_or_default().to_vec();
        }
        Ok(())
    }
}
