//! Digests of a message in parts, in contexts that can be copied; aws-lc-rs copies them too, but has no MD5, and other limits.
//!
//! **Guarantees:** a context is freed once, by its owner, and wiped.
#![allow(unsafe_code)]

use core::ffi::c_uint;
use core::ptr::null_mut;

use aws_lc_sys as c;

use crate::outcome::{Refused, owned, yes};

/// The length of the longest digest in bytes.
pub const DIGEST_BYTES_MAX: usize = 64;

/// A hash function: SHA-1, SHA-2 (FIPS 180-4), SHA-3 (FIPS 202), and for signatures of old protocols MD5, alone or before
/// SHA-1 (RFC 2246).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they have the standards' names")]
pub enum Hash {
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
    Sha512_224,
    Sha512_256,
    Sha3_224,
    Sha3_256,
    Sha3_384,
    Sha3_512,
    Md5,
    Md5Sha1,
}

impl Hash {
    /// Returns AWS-LC's description, which is static.
    pub(crate) fn table(self) -> *const c::EVP_MD {
        // SAFETY: each function takes no arguments and returns a constant.
        unsafe {
            match self {
                Self::Sha1 => c::EVP_sha1(),
                Self::Sha224 => c::EVP_sha224(),
                Self::Sha256 => c::EVP_sha256(),
                Self::Sha384 => c::EVP_sha384(),
                Self::Sha512 => c::EVP_sha512(),
                Self::Sha512_224 => c::EVP_sha512_224(),
                Self::Sha512_256 => c::EVP_sha512_256(),
                Self::Sha3_224 => c::EVP_sha3_224(),
                Self::Sha3_256 => c::EVP_sha3_256(),
                Self::Sha3_384 => c::EVP_sha3_384(),
                Self::Sha3_512 => c::EVP_sha3_512(),
                Self::Md5 => c::EVP_md5(),
                Self::Md5Sha1 => c::EVP_md5_sha1(),
            }
        }
    }
}

owned! {
    /// The context of a digest, or of a signature of a message.
    pub(crate) struct Context(c::EVP_MD_CTX), EVP_MD_CTX_free
}

// SAFETY: the context is used by its owner alone, and the library ties it to no thread.
unsafe impl Send for Context {}

impl Context {
    pub(crate) fn new() -> Result<Self, Refused> {
        // SAFETY: the function takes no arguments; the context is new.
        unsafe { Self::take(c::EVP_MD_CTX_new()) }
    }

    #[expect(clippy::needless_pass_by_ref_mut, reason = "whatever takes the pointer changes the object")]
    pub(crate) const fn context(&mut self) -> *mut c::EVP_MD_CTX {
        self.as_ptr()
    }
}

/// A digest under way.
#[derive(Debug)]
pub struct Digest {
    context: Context,
    hash: Hash,
    /// Whether the message goes on: C's functions for SHA-3 do not end with a context whose message has.
    is_open: bool,
}

impl Digest {
    /// Begins a message.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(hash: Hash) -> Result<Self, Refused> {
        let mut digest = Self { context: Context::new()?, hash, is_open: false };
        digest.start()?;
        Ok(digest)
    }

    /// Returns a copy that goes on from the same state.
    ///
    /// # Errors
    /// There is no memory.
    pub fn duplicate(&self) -> Result<Self, Refused> {
        let mut context = Context::new()?;
        // SAFETY: both are contexts, and the second is only read.
        yes(unsafe { c::EVP_MD_CTX_copy_ex(context.context(), self.context.as_ptr()) })?;
        Ok(Self { context, hash: self.hash, is_open: self.is_open })
    }

    /// Begins a new message.
    ///
    /// # Errors
    /// There is no memory.
    pub fn start(&mut self) -> Result<(), Refused> {
        // SAFETY: this is a context, and the function's description is static.
        yes(unsafe { c::EVP_DigestInit_ex(self.context.context(), self.hash.table(), null_mut()) })?;
        self.is_open = true;
        Ok(())
    }

    /// Absorbs the message's next bytes.
    ///
    /// # Errors
    /// The message has ended.
    pub fn update(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        if !self.is_open {
            return Err(Refused);
        }
        // SAFETY: the context has a function; the bytes are a slice with its length.
        yes(unsafe { c::EVP_DigestUpdate(self.context.context(), bytes.as_ptr().cast(), bytes.len()) })
    }

    /// Returns the digest; only its first bytes, as many as the hash has, count.
    ///
    /// # Errors
    /// The message has ended before.
    pub fn finish(&mut self) -> Result<[u8; DIGEST_BYTES_MAX], Refused> {
        if !core::mem::replace(&mut self.is_open, false) {
            return Err(Refused);
        }
        let mut digest = [0; DIGEST_BYTES_MAX];
        let mut length: c_uint = 0;
        // SAFETY: no digest is longer than the buffer.
        yes(unsafe { c::EVP_DigestFinal_ex(self.context.context(), digest.as_mut_ptr(), &mut length) })?;
        Ok(digest)
    }
}
