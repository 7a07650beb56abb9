//! IDEA unrolled, with products without a branch: constant-time.

use super::Key;
use crate::modes::Direction;

/// Returns the product mod 2^16 + 1 with 0 for 2^16: the low half minus the high half, plus one if that wraps. If a
/// factor is 0, which means -1, the result is 1 minus both. It uses sums and masks only, for constant time.
#[inline(always)]
fn product(a: u32, b: u32) -> u32 {
    let wide = a * b;
    let (rest, below) = (wide & 0xffff).overflowing_sub(wide >> 16);
    let zero = 0u32.wrapping_sub(u32::from(wide < 1));
    let instead = 1u32.wrapping_sub(a).wrapping_sub(b) & zero;
    rest.wrapping_add(u32::from(below)).wrapping_add(instead) & 0xffff
}

/// Transforms one block.
pub(crate) fn crypt(key: &Key, direction: Direction, block: &mut [u8; 8]) {
    let keys = match direction {
        Direction::Encrypt => &key.encrypt,
        Direction::Decrypt => &key.decrypt,
    };
    let k = |i: usize| u32::from(keys[i]);
    let value = u64::from_be_bytes(*block);
    let word = |shift: u32| (value >> shift) as u32 & 0xffff;
    let [mut a, mut b, mut c, mut d] = [word(48), word(32), word(16), word(0)];
    for round in 0..8 {
        a = product(a, k(6 * round));
        b = (b + k(6 * round + 1)) & 0xffff;
        c = (c + k(6 * round + 2)) & 0xffff;
        d = product(d, k(6 * round + 3));
        let e = product(a ^ c, k(6 * round + 4));
        let f = product(((b ^ d) + e) & 0xffff, k(6 * round + 5));
        let e = (e + f) & 0xffff;
        (a, b, c, d) = (a ^ f, c ^ f, b ^ e, d ^ e);
    }
    let out = [product(a, k(48)), (c + k(49)) & 0xffff, (b + k(50)) & 0xffff, product(d, k(51))];
    *block = out.into_iter().fold(0, |value, word| value << 16 | u64::from(word)).to_be_bytes();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_corners_and_a_coarse_grid() {
        let wide = |x: u32| if x == 0 { 65_536u64 } else { u64::from(x) };
        let corners = [0, 1, 2, 3, 255, 256, 257, 32_767, 32_768, 32_769, 65_534, 65_535];
        for a in (0..65_536).step_by(97).chain(corners) {
            for b in (0..65_536).step_by(89).chain(corners) {
                let expected = (wide(a) * wide(b) % 65_537) as u32 & 0xffff;
                assert_eq!(product(a, b), expected, "{a} {b}");
            }
        }
    }
}
