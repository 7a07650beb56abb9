//! TLS records that CBC has encrypted (RFC 5246, 6.2.3.2): padding and code are found in a time that does not depend on the
//! secret length of the padding.
//!
//! The functions are AWS-LC's own, which its header for programs does not declare. The names contain the library's
//! version, so another version does not link.
//!
//! **Guarantee:** a record of any bytes gives a content and a code that are within it, or an error.
#![allow(unsafe_code)]

use crate::digest::DIGEST_BYTES_MAX;
use crate::outcome::{Refused, yes};
use aws_lc_sys as c;
use core::ffi::c_int;
use subtle::{Choice, ConditionallySelectable as _};

// # Safety
// The declarations are those of AWS-LC at the version in the names. A record is readable for `record_length` bytes, and
// places for numbers are aligned and writable. For `copy_mac`, `bytes` is from 1 to `DIGEST_BYTES_MAX` and at most
// `length`, which is at most `record_length`; `out` is writable for `bytes`, and does not overlap the record.
unsafe extern "C" {
    #[link_name = "aws_lc_0_47_0_EVP_tls_cbc_remove_padding"]
    fn remove_padding(
        good: *mut usize,
        length: *mut usize,
        record: *const u8,
        record_length: usize,
        block: usize,
        code: usize,
    ) -> c_int;
    #[link_name = "aws_lc_0_47_0_EVP_tls_cbc_copy_mac"]
    fn copy_mac(out: *mut u8, bytes: usize, record: *const u8, length: usize, record_length: usize);
}

/// A record without its padding.
#[derive(Debug)]
pub struct Unpadded {
    /// The secret length of the content.
    pub length: usize,
    /// The code that came with it; random if the padding is wrong, so that it does not verify.
    pub code: [u8; DIGEST_BYTES_MAX],
    /// Whether the padding is right.
    pub is_good: Choice,
}

/// Finds the content and the code of `code_bytes` in a decrypted record.
///
/// # Errors
/// Fails if the record is shorter than code and padding, which is no secret.
pub fn unpad(record: &[u8], code_bytes: usize) -> Result<Unpadded, Refused> {
    if code_bytes > DIGEST_BYTES_MAX {
        return Err(Refused);
    }
    let (mut good, mut length) = (0, 0);
    // SAFETY: the record is a slice with its length.
    yes(unsafe { remove_padding(&mut good, &mut length, record.as_ptr(), record.len(), 16, code_bytes) })?;
    let is_good = Choice::from((good & 1) as u8);
    let mut code = [0; DIGEST_BYTES_MAX];
    // SAFETY: the buffer has as many bytes; without a code to be checked nobody reads them.
    yes(unsafe { c::RAND_bytes(code.as_mut_ptr(), code_bytes) })?;
    if code_bytes > 0 {
        let mut found = [0; DIGEST_BYTES_MAX];
        // SAFETY: `remove_padding` returns no length below that of a code, and none above that of the record.
        unsafe { copy_mac(found.as_mut_ptr(), code_bytes, record.as_ptr(), length, record.len()) };
        for (random, found) in code.iter_mut().zip(found) {
            random.conditional_assign(&found, is_good);
        }
    }
    Ok(Unpadded { length: length - code_bytes, code, is_good })
}
