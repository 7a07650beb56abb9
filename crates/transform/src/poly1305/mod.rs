//! Poly1305, RFC 8439 section 2.5.

pub(crate) mod generic;
