//! HMAC, RFC 2104, with the catalogue's hashes; [`crate::hash`] runs it.

use crate::descriptor::{DigestDescriptor, Making, PeerNames};
use crate::facts::{Facts, KeyBytes, Standing};
use crate::{md5, sha1, sha256, sha512};

/// HMAC-MD5 as the catalogue knows it.
pub(crate) static MD5: DigestDescriptor = DigestDescriptor {
    name: "hmac-md5",
    facts: keyed(md5::FACTS, Standing::Legacy, "RFC 2104, RFC 2202"),
    making: Making::Hmac(&md5::HASH),
    peers: PeerNames::NONE.openssl("MD5").rust_crypto("md-5").ipsec_mb("MD5"),
    promises: &[],
};

/// HMAC-SHA-1 as the catalogue knows it.
pub(crate) static SHA1: DigestDescriptor = DigestDescriptor {
    name: "hmac-sha1",
    facts: keyed(sha1::FACTS, Standing::Legacy, "RFC 2104, RFC 2202"),
    making: Making::Hmac(&sha1::HASH),
    peers: PeerNames::NONE
        .openssl("SHA1")
        .aws_lc("HMAC_SHA1_FOR_LEGACY_USE_ONLY")
        .rust_crypto("sha1")
        .ipsec_mb("SHA_1"),
    promises: &[],
};

/// HMAC-SHA-256 as the catalogue knows it.
pub(crate) static SHA256: DigestDescriptor = DigestDescriptor {
    name: "hmac-sha256",
    facts: keyed(sha256::FACTS, Standing::Current, "RFC 2104, RFC 4868"),
    making: Making::Hmac(&sha256::HASH),
    peers: PeerNames::NONE.openssl("SHA2-256").aws_lc("HMAC_SHA256").rust_crypto("sha2").ipsec_mb("SHA_256"),
    promises: &[],
};

/// HMAC-SHA-384 as the catalogue knows it.
pub(crate) static SHA384: DigestDescriptor = DigestDescriptor {
    name: "hmac-sha384",
    facts: keyed(sha512::FACTS_384, Standing::Current, "RFC 2104, RFC 4868"),
    making: Making::Own(sha512::own_hmac::<384>()),
    peers: PeerNames::NONE.openssl("SHA2-384").aws_lc("HMAC_SHA384").rust_crypto("sha2").ipsec_mb("SHA_384"),
    promises: &[],
};

/// HMAC-SHA-512 as the catalogue knows it.
pub(crate) static SHA512: DigestDescriptor = DigestDescriptor {
    name: "hmac-sha512",
    facts: keyed(sha512::FACTS_512, Standing::Current, "RFC 2104, RFC 4868"),
    making: Making::Own(sha512::own_hmac::<512>()),
    peers: PeerNames::NONE.openssl("SHA2-512").aws_lc("HMAC_SHA512").rust_crypto("sha2").ipsec_mb("SHA_512"),
    promises: &[],
};

/// Returns the facts of HMAC with this hash.
const fn keyed(hash: Facts, standing: Standing, source: &'static str) -> Facts {
    Facts {
        key_bytes: KeyBytes { min: 0, max: usize::MAX, usual: hash.output_bytes },
        working_set_bytes: hash.working_set_bytes + 2 * hash.output_bytes,
        standing,
        source,
        ..hash
    }
}
