//! HMAC (RFC 2104), also of TLS records whose padding is secret (RFC 5246, 6.2.3.2).

use super::hash::DIGEST_BYTES_MAX;
use super::{Hash, No, record, some, yes};
use aws_lc_sys as c;
use std::ffi::c_uint;
use std::ptr::{NonNull, null, null_mut};
use zeroize::Zeroizing;

/// The length in bytes of what TLS authenticates before a record: number, type, version and length.
pub(crate) const HEADER_BYTES: usize = 13;

/// A message authentication code under way: an `HMAC_CTX` with a key.
#[derive(Debug)]
pub(crate) struct Mac {
    context: NonNull<c::HMAC_CTX>,
    hash: Hash,
    /// The key, which records with secret padding need.
    key: Zeroizing<Vec<u8>>,
}

// SAFETY: the context is used by its owner alone, and the library ties it to no thread.
unsafe impl Send for Mac {}

impl Drop for Mac {
    fn drop(&mut self) {
        // SAFETY: this value owns it. The library zeroes what it frees.
        unsafe { c::HMAC_CTX_free(self.context.as_ptr()) };
    }
}

impl Mac {
    pub(crate) fn new(hash: Hash, key: &[u8]) -> Result<Self, No> {
        // SAFETY: the function takes no arguments.
        let context = some(unsafe { c::HMAC_CTX_new() })?;
        let mac = Self { context, hash, key: Zeroizing::new(key.to_vec()) };
        // SAFETY: the key is a slice with its length; a null key would mean that of an earlier message.
        yes(unsafe {
            c::HMAC_Init_ex(context.as_ptr(), key.as_ptr().cast(), key.len(), hash.function(), null_mut())
        })?;
        Ok(mac)
    }

    /// Returns a copy that goes on from the same state.
    pub(crate) fn duplicate(&self) -> Result<Self, No> {
        // SAFETY: the function takes no arguments.
        let context = some(unsafe { c::HMAC_CTX_new() })?;
        let copy = Self { context, hash: self.hash, key: self.key.clone() };
        // SAFETY: both are contexts.
        yes(unsafe { c::HMAC_CTX_copy_ex(context.as_ptr(), self.context.as_ptr()) })?;
        Ok(copy)
    }

    pub(crate) fn hash(&self) -> Hash {
        self.hash
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Begins a new message with the same key.
    pub(crate) fn start(&mut self) -> Result<(), No> {
        // SAFETY: the context has a key and a hash, which stay.
        yes(unsafe { c::HMAC_Init_ex(self.context.as_ptr(), null(), 0, null(), null_mut()) })
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) -> Result<(), No> {
        // SAFETY: the bytes are a slice with its length.
        yes(unsafe { c::HMAC_Update(self.context.as_ptr(), bytes.as_ptr(), bytes.len()) })
    }

    /// Returns the code; only its first bytes, as many as the hash has, count.
    pub(crate) fn finish(&mut self) -> Result<[u8; DIGEST_BYTES_MAX], No> {
        let mut code = [0; DIGEST_BYTES_MAX];
        let mut length: c_uint = 0;
        // SAFETY: no code is longer than the buffer.
        yes(unsafe { c::HMAC_Final(self.context.as_ptr(), code.as_mut_ptr(), &mut length) })?;
        Ok(code)
    }

    /// Returns the code of a record's header and its first `length` bytes, in a time that depends only on the length
    /// of the record with code and padding.
    ///
    /// # Errors
    /// Fails if the hash is not one of TLS's with this form of records.
    pub(crate) fn of_record(
        &self,
        header: &[u8; HEADER_BYTES],
        record: &[u8],
        length: usize,
    ) -> Result<[u8; DIGEST_BYTES_MAX], No> {
        if length > record.len() || self.key.len() > self.hash.block_bytes {
            return Err(No);
        }
        record::digest(self.hash, header, record, length, &self.key)
    }
}
