//! SHA-1, SHA-2 and SHA-3 (FIPS 180-4, FIPS 202), and for signatures of old protocols MD5, alone or before SHA-1 (RFC 2246).

use sealane_native::Hash as Function;

/// A hash function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hash {
    /// The name, in capitals and without signs.
    name: &'static str,
    pub(crate) bytes: usize,
    function: Function,
}

impl Hash {
    /// The hash functions that signatures may use.
    pub(crate) const ALL: [Self; 13] = [
        Self::new("SHA1", 20, Function::Sha1),
        Self::new("SHA2224", 28, Function::Sha224),
        Self::new("SHA2256", 32, Function::Sha256),
        Self::new("SHA2384", 48, Function::Sha384),
        Self::new("SHA2512", 64, Function::Sha512),
        Self::new("SHA2512224", 28, Function::Sha512_224),
        Self::new("SHA2512256", 32, Function::Sha512_256),
        Self::new("SHA3224", 28, Function::Sha3_224),
        Self::new("SHA3256", 32, Function::Sha3_256),
        Self::new("SHA3384", 48, Function::Sha3_384),
        Self::new("SHA3512", 64, Function::Sha3_512),
        Self::new("MD5", 16, Function::Md5),
        Self::new("MD5SHA1", 36, Function::Md5Sha1),
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

    const fn new(name: &'static str, bytes: usize, function: Function) -> Self {
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

    /// Returns AWS-LC's name of it.
    pub(crate) fn function(&self) -> Function {
        self.function
    }

    /// Returns whether two values are the same function.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
