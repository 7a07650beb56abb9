//! Keys of passphrases by scrypt (RFC 7914), which aws-lc-rs does not have.
//!
//! **Guarantee:** it takes no more than 64 MiB of memory.
#![allow(unsafe_code)]

use crate::outcome::{Refused, yes};

/// The length of memory that scrypt may take, in bytes.
const MEMORY_BYTES_MAX: usize = 64 << 20;

/// Fills `key` by scrypt with N = 2^`log_n`, r = 8 and p = 1.
///
/// # Errors
/// It takes more than 64 MiB.
pub fn scrypt(passphrase: &[u8], salt: &[u8], log_n: u8, key: &mut [u8]) -> Result<(), Refused> {
    let n = 1u64.checked_shl(log_n.into()).ok_or(Refused)?;
    // SAFETY: slices have their lengths.
    yes(unsafe {
        aws_lc_sys::EVP_PBE_scrypt(
            passphrase.as_ptr().cast(),
            passphrase.len(),
            salt.as_ptr(),
            salt.len(),
            n,
            8,
            1,
            MEMORY_BYTES_MAX,
            key.as_mut_ptr(),
            key.len(),
        )
    })
}
