//! MD5, RFC 1321. It is broken as a signature hash; it is here because the papers measure it.

pub(crate) mod reference;
pub(crate) mod single;
pub(crate) mod ways;

use crate::descriptor::{DigestDescriptor, Making, PeerNames, Promise};
use crate::facts::{ByteOrder, Facts, Standing};
#[cfg(target_arch = "x86_64")]
use crate::hash::HashWays;
#[cfg(target_arch = "x86_64")]
use crate::hash::ways::{Drive, Width, drive_avx2, drive_avx512};
use crate::hash::{self, Hash};
use crate::isa::Tier;
#[cfg(target_arch = "x86_64")]
use crate::order::WaysCost;
use crate::word::Counted;

/// MD5 as the catalogue knows it.
pub(crate) static MD5: DigestDescriptor = DigestDescriptor {
    name: "md5",
    facts: FACTS,
    making: Making::Hash(&HASH),
    peers: PeerNames::NONE.openssl("MD5").rust_crypto("md-5"),
    promises: &[
        Promise::new("3md54ways9avx512_32", "vpternlogq", 64),
        Promise::new("3md54ways9avx512_32", "vprold", 64),
        Promise::new("3md54ways7avx2_16", "vpaddd", 32),
    ],
};

pub(crate) const FACTS: Facts = hash::facts(64, 16, ByteOrder::Little, Standing::Broken, "RFC 1321");

pub(crate) static HASH: Hash = Hash {
    name: "md5",
    initial: INITIAL,
    words: 4,
    is_little_endian: true,
    compress: |tier, _| if tier == Tier::Reference { reference::blocks } else { single::blocks },
    has_instructions: |_| false,
    traced: reference::compress::<Counted>,
    #[cfg(target_arch = "x86_64")]
    ways: |features, _| {
        let (widths, drive): (&[Width], Drive) = match (features.avx512, features.avx2) {
            (Some(_), _) => (
                &[ways::avx512_16::WIDTH, ways::avx512_32::WIDTH, ways::avx512_64::WIDTH],
                drive_avx512::<ways::Md5, 4>,
            ),
            (_, Some(_)) => (&[ways::avx2_8::WIDTH, ways::avx2_16::WIDTH], drive_avx2::<ways::Md5, 4>),
            _ => return None,
        };
        Some(HashWays { cost: WaysCost { few: 2, fixed_bytes: 112, job_bytes: 16 }, widths, drive })
    },
    #[cfg(not(target_arch = "x86_64"))]
    ways: |_, _| None,
};

/// RFC 1321 section 3.3.
pub(crate) const INITIAL: [u32; 8] = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0, 0, 0, 0];

/// The sines: floor(2^32 * abs(sin(i + 1))).
pub(crate) const SINES: [u32; 64] = [
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
];

/// Rotations of the four rounds, in turn.
pub(crate) const SHIFTS: [[i32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// Returns the index of the message word that a step takes.
pub(crate) const fn word_of(step: usize) -> usize {
    match step / 16 {
        0 => step % 16,
        1 => (5 * step + 1) % 16,
        2 => (3 * step + 5) % 16,
        _ => 7 * step % 16,
    }
}
