//! SHA-1, FIPS 180-4. It is broken as a signature hash; HMAC-SHA1 still protects IPsec and older TLS.

#[cfg(target_arch = "x86_64")]
pub(crate) mod ni;
pub(crate) mod reference;
pub(crate) mod ways;

use crate::descriptor::{DigestDescriptor, Making, PeerNames, Promise};
use crate::facts::{ByteOrder, Facts, Standing};
#[cfg(target_arch = "x86_64")]
use crate::hash::HashWays;
#[cfg(target_arch = "x86_64")]
use crate::hash::ways::{Drive, Width, drive_avx2, drive_avx512};
use crate::hash::{self, Compress, Hash};
use crate::isa::{Features, Tier};
#[cfg(target_arch = "x86_64")]
use crate::order::WaysCost;
use crate::word::Counted;

/// SHA-1 as the catalogue knows it.
pub(crate) static SHA1: DigestDescriptor = DigestDescriptor {
    name: "sha1",
    facts: FACTS,
    making: Making::Hash(&HASH),
    peers: PeerNames::NONE
        .openssl("SHA1")
        .aws_lc("SHA1_FOR_LEGACY_USE_ONLY")
        .rust_crypto("sha1")
        .ipsec_mb("SHA_1"),
    promises: &[
        Promise::new("4sha12ni9blocks_ni", "sha1rnds4", 16),
        Promise::new("4sha14ways9avx512_16", "vprold", 64),
    ],
};

pub(crate) const FACTS: Facts = hash::facts(80, 20, ByteOrder::Big, Standing::Broken, "FIPS 180-4");

pub(crate) static HASH: Hash = Hash {
    name: "sha1",
    initial: INITIAL,
    words: 5,
    is_little_endian: false,
    compress: |tier, features| match tier {
        Tier::Reference => reference::blocks,
        Tier::Generic => ways::one,
        Tier::Native | Tier::Batch => native(features).unwrap_or(ways::one),
    },
    has_instructions: |features| native(features).is_some(),
    traced: reference::compress::<Counted>,
    #[cfg(target_arch = "x86_64")]
    ways: |features, _| {
        let cost = match features.sha {
            // Single messages are fast.
            Some(_) => WaysCost { few: 4, fixed_bytes: 352, job_bytes: 32 },
            None => WaysCost { few: 1, fixed_bytes: 112, job_bytes: 16 },
        };
        let (widths, drive): (&[Width], Drive) = match (features.avx512, features.avx2) {
            (Some(_), _) => {
                (&[ways::avx512_16::WIDTH, ways::avx512_32::WIDTH], drive_avx512::<ways::Sha1, 5>)
            }
            (_, Some(_)) => (&[ways::avx2_8::WIDTH], drive_avx2::<ways::Sha1, 5>),
            _ => return None,
        };
        Some(HashWays { cost, widths, drive })
    },
    #[cfg(not(target_arch = "x86_64"))]
    ways: |_, _| None,
};

/// FIPS 180-4 section 5.3.1.
pub(crate) const INITIAL: [u32; 8] = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0, 0, 0, 0];

/// The constants of the four times twenty steps.
pub(crate) const CONSTANTS: [u32; 4] = [0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6];

/// Returns the kernel by this CPU's instructions for SHA-1, if it has any: our own kernel, or AWS-LC's on
/// architectures for which we have none.
pub(crate) fn native(features: Features) -> Option<Compress> {
    #[cfg(target_arch = "x86_64")]
    return features.sha.map(|_| ni::blocks as Compress);
    #[cfg(not(target_arch = "x86_64"))]
    return features.have_libraries().then_some(hash::library::sha1 as Compress);
}
