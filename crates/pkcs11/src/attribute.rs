//! Values of attributes.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use cryptoki_sys as c;

/// Types of attributes with values.
pub(crate) type Template = Vec<(c::CK_ATTRIBUTE_TYPE, Vec<u8>)>;

/// Returns the identifier of a public key (RFC 5280, 4.2.1.2, method 1), as certificates have it.
pub(crate) fn identifier(bits: &[u8]) -> Vec<u8> {
    digest(&SHA1_FOR_LEGACY_USE_ONLY, bits).as_ref().to_vec()
}

pub(crate) fn flag(value: bool) -> Vec<u8> {
    vec![if value { c::CK_TRUE } else { c::CK_FALSE }]
}

pub(crate) fn number(value: c::CK_ULONG) -> Vec<u8> {
    value.to_ne_bytes().to_vec()
}
