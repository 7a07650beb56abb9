//! ChaCha20, RFC 8439 section 2.4.

pub(crate) mod aead;
pub(crate) mod reference;
