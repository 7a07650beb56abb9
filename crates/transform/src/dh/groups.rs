//! The groups of RFC 3526: p = 2^n - 2^(n - 64) - 1 + 2^64 (floor(2^(n - 130) pi) + c), with generator 2.
//!
//! Each p is a safe prime, (p - 1) / 2 is prime, and 2 generates the subgroup of that order.

use crate::blowfish::pi::PI;

/// The prime of 2048 bits: group 14.
pub(crate) const PRIME_2048: [u8; 256] = prime(124_476);

/// The prime of 3072 bits: group 15.
pub(crate) const PRIME_3072: [u8; 384] = prime(1_690_314);

/// The prime of 4096 bits: group 16.
pub(crate) const PRIME_4096: [u8; 512] = prime(240_904);

const fn prime<const BYTES: usize>(c: u32) -> [u8; BYTES] {
    let mut bytes = [0xff; BYTES];
    // Between 64 ones at either end stand pi's two bits before the point, 0b11, and its fraction, plus c, minus the one
    // that the lower ones have borrowed.
    let (mut at, mut carry) = (BYTES / 4 - 4, c - 1);
    while at > 0 {
        at -= 1;
        let before = if at == 0 { 0b11 } else { PI[at - 1] };
        let (word, carries) = (before << 30 | PI[at] >> 2).overflowing_add(carry);
        carry = carries as u32;
        let mut byte = 0;
        while byte < 4 {
            bytes[8 + 4 * at + byte] = word.to_be_bytes()[byte];
            byte += 1;
        }
    }
    bytes
}

/// Digests of the primes as RFC 3526 prints them.
#[test]
fn the_primes_are_the_published_ones() {
    let of = |prime: &[u8]| {
        let made = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, prime);
        made.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    assert_eq!(of(&PRIME_2048), "d66436f79bbd6b2e38c0ffbd079be904d2641415e2e67140e09448be9a60890e");
    assert_eq!(of(&PRIME_3072), "48cf8b092fbce4359d9871abf74f98e25b6163379eaa15cd9087e800c6d1c55c");
    assert_eq!(of(&PRIME_4096), "4ee95187682bcb230ad26a95205f6920e84708f6251b3894329b09ec23919e33");
}
