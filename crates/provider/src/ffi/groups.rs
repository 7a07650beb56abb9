//! provider-base(7), CAPABILITIES: the groups of TLS whose keys are made here. OpenSSL takes a group only from the
//! provider whose keys it uses.

#![allow(unsafe_code)]

use super::params::{Built, Param};
use super::text;
use std::ffi::{CStr, c_char, c_int, c_void};

type Callback = unsafe extern "C" fn(*const Param, *mut c_void) -> c_int;

/// A group of TLS (IANA's registry of supported groups).
struct Group {
    name: &'static CStr,
    /// The name that generation of a key takes.
    internal: &'static CStr,
    algorithm: &'static CStr,
    number: c_int,
    security_bits: c_int,
    is_kem: bool,
}

const GROUPS: [Group; 9] = [
    Group::of_curve(c"secp256r1", c"prime256v1", c"EC", 23, 128),
    Group::of_curve(c"P-256", c"prime256v1", c"EC", 23, 128),
    Group::of_curve(c"secp384r1", c"secp384r1", c"EC", 24, 192),
    Group::of_curve(c"P-384", c"secp384r1", c"EC", 24, 192),
    Group::of_curve(c"x25519", c"X25519", c"X25519", 29, 128),
    Group::of_curve(c"X25519", c"X25519", c"X25519", 29, 128),
    Group::of_kem(c"MLKEM512", c"ML-KEM-512", 0x0200, 128),
    Group::of_kem(c"MLKEM768", c"ML-KEM-768", 0x0201, 192),
    Group::of_kem(c"MLKEM1024", c"ML-KEM-1024", 0x0202, 256),
];

impl Group {
    const fn of_curve(
        name: &'static CStr,
        internal: &'static CStr,
        algorithm: &'static CStr,
        number: c_int,
        security_bits: c_int,
    ) -> Self {
        Self { name, internal, algorithm, number, security_bits, is_kem: false }
    }

    const fn of_kem(
        name: &'static CStr,
        algorithm: &'static CStr,
        number: c_int,
        security_bits: c_int,
    ) -> Self {
        Self { name, internal: c"", algorithm, number, security_bits, is_kem: true }
    }

    fn build(&self) -> Built {
        let mut built = Built::default();
        built.text(c"tls-group-name", self.name);
        built.text(c"tls-group-name-internal", self.internal);
        built.text(c"tls-group-alg", self.algorithm);
        built.integer(c"tls-group-id", self.number);
        built.integer(c"tls-group-sec-bits", self.security_bits);
        built.integer(c"tls-group-is-kem", self.is_kem.into());
        // 0 is no limit, and -1 is never. The first versions are TLS 1.0, DTLS 1.0 and TLS 1.3.
        let (tls, dtls) = if self.is_kem { (0x304, -1) } else { (0x301, 0xfeff) };
        built.integer(c"tls-min-tls", tls);
        built.integer(c"tls-max-tls", 0);
        built.integer(c"tls-min-dtls", dtls);
        built.integer(c"tls-max-dtls", if self.is_kem { -1 } else { 0 });
        built
    }
}

/// # Safety
/// The contract of provider functions, see [`super`]: `capability` is null or a string; `callback` may be
/// called with `argument`.
pub(super) unsafe extern "C" fn get_capabilities(
    _: *mut c_void,
    capability: *const c_char,
    callback: Option<Callback>,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: OpenSSL hands in a string.
    let capability = unsafe { text(capability) };
    let Some(callback) =
        callback.filter(|_| capability.is_some_and(|name| name.eq_ignore_ascii_case("TLS-GROUP")))
    else {
        return 0;
    };
    // SAFETY: OpenSSL's own function with its argument, and an array with a terminator.
    let all =
        GROUPS.iter().all(|group| group.build().with(|array| unsafe { callback(array, argument) }) == 1);
    c_int::from(all)
}
