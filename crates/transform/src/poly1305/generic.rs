//! Poly1305 in three limbs of 44, 44 and 42 bits; constant time.

use zeroize::Zeroize as _;

const MASK_44: u64 = (1 << 44) - 1;
const MASK_42: u64 = (1 << 42) - 1;

/// A running authenticator.
pub(crate) struct Poly1305 {
    r: [u64; 3],
    h: [u64; 3],
    pad: [u64; 2],
}

impl Drop for Poly1305 {
    fn drop(&mut self) {
        self.r.zeroize();
        self.h.zeroize();
        self.pad.zeroize();
    }
}

fn words(block: &[u8; 16]) -> (u64, u64) {
    let value = u128::from_le_bytes(*block);
    (value as u64, (value >> 64) as u64)
}

/// The limbs of r, clamped as section 2.5.1 says.
fn clamped(r: &[u8; 16]) -> [u64; 3] {
    let (low, high) = words(r);
    [low & 0xffc_0fff_ffff, (low >> 44 | high << 20) & 0xfff_ffc0_ffff, high >> 24 & 0x00f_ffff_fc0f]
}

impl Poly1305 {
    /// Starts with the one-time key r || s.
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        let (halves, _) = key.as_chunks::<16>();
        let (pad_low, pad_high) = words(&halves[1]);
        Self { r: clamped(&halves[0]), h: [0; 3], pad: [pad_low, pad_high] }
    }

    fn block(&mut self, block: &[u8; 16], top: u64) {
        let (low, high) = words(block);
        let [r0, r1, r2] = self.r;
        let h0 = self.h[0] + (low & MASK_44);
        let h1 = self.h[1] + ((low >> 44 | high << 20) & MASK_44);
        let h2 = self.h[2] + (high >> 24 | top << 40);
        let mul = |a: u64, b: u64| u128::from(a) * u128::from(b);
        // 2^132 = 20 mod p: limbs carried past the top come back times 5 * 4.
        let (s1, s2) = (20 * r1, 20 * r2);
        let d0 = mul(h0, r0) + mul(h1, s2) + mul(h2, s1);
        let d1 = mul(h0, r1) + mul(h1, r0) + mul(h2, s2);
        let d2 = mul(h0, r2) + mul(h1, r1) + mul(h2, r0);
        let d1 = d1 + (d0 >> 44);
        let d2 = d2 + (d1 >> 44);
        let low = (d0 as u64 & MASK_44) + 5 * (d2 >> 42) as u64;
        self.h = [low & MASK_44, (d1 as u64 & MASK_44) + (low >> 44), d2 as u64 & MASK_42];
    }

    /// Absorbs bytes; all but the last call's must be whole 16-byte blocks.
    pub(crate) fn update(&mut self, data: &[u8]) {
        let (blocks, tail) = data.as_chunks::<16>();
        for block in blocks {
            self.block(block, 1);
        }
        if !tail.is_empty() {
            let mut last = [0; 16];
            last[..tail.len()].copy_from_slice(tail);
            last[tail.len()] = 1;
            self.block(&last, 0);
        }
    }

    /// The tag.
    pub(crate) fn finish(self) -> [u8; 16] {
        let [mut h0, mut h1, mut h2] = self.h;
        for _ in 0..2 {
            h1 += h0 >> 44;
            h0 &= MASK_44;
            h2 += h1 >> 44;
            h1 &= MASK_44;
            h0 += 5 * (h2 >> 42);
            h2 &= MASK_42;
        }
        h1 += h0 >> 44;
        h0 &= MASK_44;
        // h - p, if that is not negative.
        let g0 = h0 + 5;
        let g1 = h1 + (g0 >> 44);
        let g2 = (h2 + (g1 >> 44)).wrapping_sub(1 << 42);
        let keep = (g2 >> 63).wrapping_neg();
        h0 = h0 & keep | g0 & MASK_44 & !keep;
        h1 = h1 & keep | g1 & MASK_44 & !keep;
        h2 = h2 & keep | g2 & !keep;
        let value = u128::from(h0) | u128::from(h1) << 44 | u128::from(h2) << 88;
        let pad = u128::from(self.pad[0]) | u128::from(self.pad[1]) << 64;
        value.wrapping_add(pad).to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::Poly1305;
    use hex_literal::hex;

    #[test]
    fn rfc_8439_section_2_5_2() {
        let key = hex!("85d6be7857556d337f4452fe42d506a80103808afb0db2fd4abff6af4149f51b");
        let mut poly = Poly1305::new(&key);
        poly.update(b"Cryptographic Forum Research Group");
        assert_eq!(poly.finish(), hex!("a8061dc1305136c6c22b8baf0c0127a9"));
    }

    /// RFC 8439 appendix A.3, the cases about carries and the final reduction.
    #[test]
    fn edges_of_the_field() {
        let check = |r: [u8; 16], s: [u8; 16], data: &[u8], tag: [u8; 16]| {
            let mut key = [0; 32];
            key[..16].copy_from_slice(&r);
            key[16..].copy_from_slice(&s);
            let mut poly = Poly1305::new(&key);
            poly.update(data);
            assert_eq!(poly.finish(), tag);
        };
        let two = hex!("02000000000000000000000000000000");
        let one = hex!("01000000000000000000000000000000");
        let ones = [0xff; 16];
        check(two, [0; 16], &ones, hex!("03000000000000000000000000000000"));
        check(two, ones, &two, hex!("03000000000000000000000000000000"));
        check(
            one,
            [0; 16],
            &hex!(
                "fffffffffffffffffffffffffffffffff0ffffffffffffffffffffffffffffff11000000000000000000000000000000"
            ),
            hex!("05000000000000000000000000000000"),
        );
        check(
            one,
            [0; 16],
            &hex!(
                "fffffffffffffffffffffffffffffffffbfefefefefefefefefefefefefefefe01010101010101010101010101010101"
            ),
            [0; 16],
        );
        check(
            two,
            [0; 16],
            &hex!("fdffffffffffffffffffffffffffffff"),
            hex!("faffffffffffffffffffffffffffffff"),
        );
    }
}
