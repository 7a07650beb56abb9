//! SHA-1, FIPS 180-4. Broken as a signature hash; HMAC-SHA1 still protects IPsec and older TLS.

pub(crate) mod lanes;
#[cfg(target_arch = "x86_64")]
pub(crate) mod ni;
pub(crate) mod reference;

use crate::hash::Compress;
use crate::isa::Features;

/// FIPS 180-4 section 5.3.1.
pub(crate) const INITIAL: [u32; 8] = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0, 0, 0, 0];

/// The constants of the four times twenty steps.
pub(crate) const CONSTANTS: [u32; 4] = [0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6];

/// This CPU's instructions for SHA-1, if it has any.
pub(crate) fn native(features: Features) -> Option<Compress> {
    #[cfg(target_arch = "x86_64")]
    return features.sha.map(|_| ni::blocks as Compress);
    #[cfg(not(target_arch = "x86_64"))]
    return features.sha.and(None);
}
