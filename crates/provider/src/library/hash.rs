//! SHA-1, SHA-2 and SHA-3 (FIPS 180-4, FIPS 202), and for signatures of old protocols MD5, alone or before SHA-1 (RFC 2246).

use super::{No, some, yes};
use aws_lc_sys as c;
use std::ffi::c_uint;
use std::ptr::{NonNull, null_mut};

/// A hash function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hash {
    /// The name, in capitals and without signs.
    name: &'static str,
    pub(crate) bytes: usize,
    function: unsafe extern "C" fn() -> *const c::EVP_MD,
}

/// The maximum length of a digest in bytes.
pub(crate) const DIGEST_BYTES_MAX: usize = 64;

impl Hash {
    /// The hash functions that signatures may use.
    pub(crate) const ALL: [Self; 13] = [
        Self::new("SHA1", 20, c::EVP_sha1),
        Self::new("SHA2224", 28, c::EVP_sha224),
        Self::new("SHA2256", 32, c::EVP_sha256),
        Self::new("SHA2384", 48, c::EVP_sha384),
        Self::new("SHA2512", 64, c::EVP_sha512),
        Self::new("SHA2512224", 28, c::EVP_sha512_224),
        Self::new("SHA2512256", 32, c::EVP_sha512_256),
        Self::new("SHA3224", 28, c::EVP_sha3_224),
        Self::new("SHA3256", 32, c::EVP_sha3_256),
        Self::new("SHA3384", 48, c::EVP_sha3_384),
        Self::new("SHA3512", 64, c::EVP_sha3_512),
        Self::new("MD5", 16, c::EVP_md5),
        Self::new("MD5SHA1", 36, c::EVP_md5_sha1),
    ];

    /// OpenSSL's names of them.
    const OPENSSL_NAMES: [&str; 13] = [
        "SHA1",
        "SHA2-224",
        "SHA2-256",
        "SHA2-384",
        "SHA2-512",
        "SHA2-512/224",
        "SHA2-512/256",
        "SHA3-224",
        "SHA3-256",
        "SHA3-384",
        "SHA3-512",
        "MD5",
        "MD5-SHA1",
    ];

    const fn new(
        name: &'static str,
        bytes: usize,
        function: unsafe extern "C" fn() -> *const c::EVP_MD,
    ) -> Self {
        Self { name, bytes, function }
    }

    /// Returns the hash by a name of OpenSSL's.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let mut plain: String =
            name.chars().filter(char::is_ascii_alphanumeric).map(|char| char.to_ascii_uppercase()).collect();
        // The functions of SHA-2 have names with and without their family's.
        if matches!(plain.as_str(), "SHA224" | "SHA256" | "SHA384" | "SHA512" | "SHA512224" | "SHA512256") {
            plain.insert(3, '2');
        }
        Self::ALL.into_iter().find(|hash| hash.name == plain)
    }

    /// Returns the hash of a signature by a name of OpenSSL's.
    pub(crate) fn of_signature(name: &str) -> Option<Self> {
        let is_of_tls = name.eq_ignore_ascii_case("SSL3-SHA1");
        if is_of_tls { Some(Self::ALL[0]) } else { Self::of_name(name) }
    }

    /// Returns its place in [`Self::ALL`].
    fn place(&self) -> usize {
        Self::ALL.iter().position(|hash| hash.is(self)).unwrap_or_default()
    }

    /// Returns OpenSSL's name of it.
    pub(crate) fn openssl_name(&self) -> &'static str {
        Self::OPENSSL_NAMES[self.place()]
    }

    /// Returns the hash of the service's operations, if they have it.
    pub(crate) fn of_service(&self) -> Option<sealane_client::Hash> {
        sealane_client::Hash::ALL.get(self.place()).copied()
    }

    /// Returns the hash of one of the service's.
    pub(crate) fn of_client(hash: sealane_client::Hash) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.of_service() == Some(hash))
    }

    /// Returns the last number of its object identifier, behind 2.16.840.1.101.3.4.2; SHA-1 and MD5 have other identifiers.
    pub(crate) fn nist_number(&self) -> Option<u8> {
        const NUMBERS: [Option<u8>; 11] =
            [None, Some(4), Some(1), Some(2), Some(3), Some(5), Some(6), Some(7), Some(8), Some(9), Some(10)];
        NUMBERS.get(self.place()).copied().flatten()
    }

    pub(crate) fn is_md5(&self) -> bool {
        self.name == "MD5"
    }

    /// Returns whether it is that of TLS 1.0 and 1.1, whose digest RSA pads without saying what it is.
    pub(crate) fn is_of_old_tls(&self) -> bool {
        self.name == "MD5SHA1"
    }

    pub(super) fn function(&self) -> *const c::EVP_MD {
        // SAFETY: the function takes no arguments and returns a constant.
        unsafe { (self.function)() }
    }

    /// Returns whether two values are the same function.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// A digest under way: an `EVP_MD_CTX`.
#[derive(Debug)]
pub(crate) struct Digest {
    context: NonNull<c::EVP_MD_CTX>,
    hash: Hash,
}

// SAFETY: the context is used by its owner alone, and the library ties it to no thread.
unsafe impl Send for Digest {}

impl Drop for Digest {
    fn drop(&mut self) {
        // SAFETY: this value owns it.
        unsafe { c::EVP_MD_CTX_free(self.context.as_ptr()) };
    }
}

impl Digest {
    pub(crate) fn new(hash: Hash) -> Result<Self, No> {
        // SAFETY: the function takes no arguments.
        let context = some(unsafe { c::EVP_MD_CTX_new() })?;
        let mut digest = Self { context, hash };
        digest.start()?;
        Ok(digest)
    }

    /// Returns a copy that goes on from the same state.
    pub(crate) fn duplicate(&self) -> Result<Self, No> {
        // SAFETY: the function takes no arguments.
        let context = some(unsafe { c::EVP_MD_CTX_new() })?;
        let copy = Self { context, hash: self.hash };
        // SAFETY: both are contexts.
        yes(unsafe { c::EVP_MD_CTX_copy_ex(context.as_ptr(), self.context.as_ptr()) })?;
        Ok(copy)
    }

    /// Begins a new message.
    pub(crate) fn start(&mut self) -> Result<(), No> {
        // SAFETY: this is a context, and the function's description is static.
        yes(unsafe { c::EVP_DigestInit_ex(self.context.as_ptr(), self.hash.function(), null_mut()) })
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) -> Result<(), No> {
        // SAFETY: the context has a function; the bytes are a slice with its length.
        yes(unsafe { c::EVP_DigestUpdate(self.context.as_ptr(), bytes.as_ptr().cast(), bytes.len()) })
    }

    /// Returns the digest; only its first bytes, as many as the hash has, count.
    pub(crate) fn finish(&mut self) -> Result<[u8; DIGEST_BYTES_MAX], No> {
        let mut digest = [0; DIGEST_BYTES_MAX];
        let mut length: c_uint = 0;
        // SAFETY: no digest is longer than the buffer.
        yes(unsafe { c::EVP_DigestFinal_ex(self.context.as_ptr(), digest.as_mut_ptr(), &mut length) })?;
        Ok(digest)
    }
}
