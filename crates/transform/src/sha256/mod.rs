//! SHA-256 and SHA-224, FIPS 180-4: one function of two initial states, whose kernels they share.

#[cfg(target_arch = "x86_64")]
pub(crate) mod ni;
pub(crate) mod reference;
pub(crate) mod ways;

use crate::descriptor::{DigestDescriptor, Making, PeerNames, Promise};
use crate::facts::{ByteOrder, Facts, Standing};
use crate::hash::ways::Rounds;
#[cfg(target_arch = "x86_64")]
use crate::hash::ways::{Drive, Width, drive_avx2, drive_avx512};
use crate::hash::{self, Compress, Hash, HashWays};
use crate::isa::{Features, Tier};
#[cfg(target_arch = "x86_64")]
use crate::order::WaysCost;
use crate::word::Counted;

/// SHA-256 as the catalogue knows it.
pub(crate) static SHA256: DigestDescriptor = DigestDescriptor {
    name: "sha256",
    facts: FACTS,
    making: Making::Hash(&HASH),
    peers: PeerNames {
        openssl: Some("SHA2-256"),
        aws_lc: Some("SHA256"),
        rust_crypto: Some("sha2"),
        ipsec_mb: Some("SHA_256"),
    },
    promises: &[
        Promise::new("6sha2562ni10absorb_one", "sha256rnds2", 16).times(32),
        Promise::new("6sha2562ni10absorb_two", "sha256rnds2", 16).times(64),
        Promise::new("6sha2562ni10outer_pair", "sha256rnds2", 16).times(64),
        Promise::new("6sha2564ways9avx512_16", "vpternlogq", 64),
    ],
};

/// SHA-224 as the catalogue knows it.
pub(crate) static SHA224: DigestDescriptor = DigestDescriptor {
    name: "sha224",
    facts: Facts { output_bytes: 28, ..FACTS },
    making: Making::Hash(&HASH_224),
    peers: PeerNames {
        openssl: Some("SHA2-224"),
        aws_lc: Some("SHA224"),
        rust_crypto: Some("sha2"),
        ipsec_mb: Some("SHA_224"),
    },
    promises: &[],
};

pub(crate) const FACTS: Facts = hash::facts(64, 32, ByteOrder::Big, Standing::Current, "FIPS 180-4");

pub(crate) static HASH: Hash = hash("sha256", INITIAL, kernels::<ways::Sha256>);
/// Its digest is the first seven words of the state.
pub(crate) static HASH_224: Hash = hash("sha224", INITIAL_224, kernels::<ways::Sha224>);

const fn hash(name: &'static str, initial: [u32; 8], ways: fn(Features, usize) -> Option<HashWays>) -> Hash {
    Hash {
        name,
        initial,
        words: 8,
        is_little_endian: false,
        compress: |tier, features| match tier {
            Tier::Reference => reference::blocks,
            Tier::Generic => ways::one,
            Tier::Native | Tier::Batch => native(features).unwrap_or(ways::one),
        },
        has_instructions: |features| native(features).is_some(),
        traced: reference::compress::<Counted>,
        ways,
    }
}

/// The most messages that go in pairs by the instructions where there is AVX-512 too. Sixteen ways take as long as 8 to 9 messages in
/// pairs on Zen 5, and as 14 on Zen 4, whose vectors take two turns.
const PAIRED_MOST: usize = 10;

/// Returns whether so many messages go in pairs by the instructions, if there are any: eight ways of AVX2 are slower.
fn is_for_pairs(features: Features, messages: usize) -> bool {
    features.avx512.is_none() || messages <= PAIRED_MOST
}

/// Returns the multi-way kernels, which begin with the state of one of the functions.
#[cfg(target_arch = "x86_64")]
fn kernels<R: Rounds<8>>(features: Features, messages: usize) -> Option<HashWays> {
    let (few, fixed_bytes, widths, drive): (_, _, &[Width], Drive) =
        match (features.avx512, features.avx2, features.sha) {
            (_, Some(_), Some(_)) if is_for_pairs(features, messages) => {
                (1, 768, &[ni::PAIR], drive_avx2::<R, 8>)
            }
            (Some(_), _, sha) => {
                let (few, fixed_bytes) = if sha.is_some() { (6, 576) } else { (1, 112) };
                (few, fixed_bytes, &[ways::avx512_16::WIDTH, ways::avx512_32::WIDTH], drive_avx512::<R, 8>)
            }
            (_, Some(_), _) => (1, 112, &[ways::avx2_8::WIDTH], drive_avx2::<R, 8>),
            _ => return None,
        };
    Some(HashWays { cost: WaysCost { few, fixed_bytes, job_bytes: 16 }, widths, drive })
}

#[cfg(not(target_arch = "x86_64"))]
fn kernels<R: Rounds<8>>(_: Features, _: usize) -> Option<HashWays> {
    None
}

/// FIPS 180-4 section 5.3.2.
const INITIAL_224: [u32; 8] =
    [0xc1059ed8, 0x367cd507, 0x3070dd17, 0xf70e5939, 0xffc00b31, 0x68581511, 0x64f98fa7, 0xbefa4fa4];

/// FIPS 180-4 section 5.3.3.
pub(crate) const INITIAL: [u32; 8] =
    [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];

/// FIPS 180-4 section 4.2.2: cube roots of the first 64 primes.
pub(crate) const CONSTANTS: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

/// Returns the kernel by this CPU's instructions for SHA-256, if it has any: our own kernel, or AWS-LC's on
/// architectures for which we have none.
pub(crate) fn native(features: Features) -> Option<Compress> {
    #[cfg(target_arch = "x86_64")]
    return features.sha.map(|_| ni::blocks as Compress);
    #[cfg(not(target_arch = "x86_64"))]
    return features.have_libraries().then_some(hash::library::sha256 as Compress);
}
