//! ChaCha20, RFC 8439 section 2.4.

pub(crate) mod aead;
#[cfg(target_arch = "x86_64")]
pub(crate) mod lanes;
#[cfg(target_arch = "x86_64")]
mod long;
pub(crate) mod reference;
