//! Poly1305 in words of 64 bits; constant-time.

use zeroize::Zeroize as _;

/// The factor r, clamped, and 5/4 of its upper word: words carried past 2^130 come back times 5, and past 2^128, where
/// they are counted in fours, times 5/4.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Factor {
    r: [u64; 2],
    s: u64,
}

/// A sum of blocks times r, below 2^130 + 2^64.
#[derive(Clone, Copy)]
pub(super) struct Sum {
    pub(super) low: u128,
    pub(super) high: u64,
}

/// The state of a text.
#[derive(Clone, Copy)]
pub(crate) struct State {
    pub(super) factor: Factor,
    pub(super) sum: Sum,
    pad: u128,
}

impl Factor {
    const ZERO: Self = Self { r: [0; 2], s: 0 };

    /// Returns the factor, clamped as in section 2.5.1.
    fn new(r: u128) -> Self {
        let r = r & 0x0fff_fffc_0fff_fffc_0fff_fffc_0fff_ffff;
        let [r0, r1] = [r as u64, (r >> 64) as u64];
        Self { r: [r0, r1], s: r1 + (r1 >> 2) }
    }

    /// Returns the words of r.
    #[cfg(target_arch = "x86_64")]
    pub(super) const fn words(&self) -> [u64; 2] {
        self.r
    }
}

impl Sum {
    const ZERO: Self = Self { low: 0, high: 0 };

    /// Returns the sum in limbs of 44, 44 and 43 bits.
    #[cfg(target_arch = "x86_64")]
    pub(super) const fn limbs(self) -> [u64; 3] {
        const LIMB: u64 = (1 << 44) - 1;
        let Self { low, high } = self;
        [low as u64 & LIMB, (low >> 44) as u64 & LIMB, (low >> 88) as u64 | high << 40]
    }

    /// Makes a sum from limbs of 44 bits, each of which may have grown by twenty bits.
    #[cfg(target_arch = "x86_64")]
    pub(super) const fn of_limbs([l0, l1, l2]: [u64; 3]) -> Self {
        let (low, carry) = (l0 as u128 + ((l1 as u128) << 44)).overflowing_add((l2 as u128) << 88);
        let high = (l2 >> 40) + carry as u64;
        let (low, carry) = low.overflowing_add(((high & !3) + (high >> 2)) as u128);
        Self { low, high: (high & 3) + carry as u64 }
    }

    /// Adds a block with the bits above it, and multiplies by the factor.
    #[inline(always)]
    fn absorb(self, block: [u8; 16], top: u64, Factor { r: [r0, r1], s }: Factor) -> Self {
        let mul = |a: u64, b: u64| u128::from(a) * u128::from(b);
        let (low, carry) = self.low.overflowing_add(u128::from_le_bytes(block));
        let (h0, h1, h2) = (low as u64, (low >> 64) as u64, self.high + top + u64::from(carry));
        let d0 = mul(h0, r0) + mul(h1, s);
        let d1 = mul(h0, r1) + mul(h1, r0) + u128::from(h2 * s) + (d0 >> 64);
        let d2 = h2 * r0 + (d1 >> 64) as u64;
        let low = u128::from(d0 as u64) | d1 << 64;
        let (low, carry) = low.overflowing_add(u128::from((d2 & !3) + (d2 >> 2)));
        Self { low, high: (d2 & 3) + u64::from(carry) }
    }

    /// Returns the sum modulo 2^130 - 5 and 2^128, plus the second half of the key.
    fn tag(self, pad: u128) -> [u8; 16] {
        // This is h - p, if that is not negative: h + 5 then reaches 2^130.
        let (less, carry) = self.low.overflowing_add(5);
        let past = u128::from((self.high + u64::from(carry)) >> 2).wrapping_neg();
        (less & past | self.low & !past).wrapping_add(pad).to_le_bytes()
    }
}

impl State {
    pub(crate) const ZERO: Self = Self { factor: Factor::ZERO, sum: Sum::ZERO, pad: 0 };

    /// Starts with the one-time key r || s.
    pub(crate) fn start(&mut self, key: &[u8; 32]) {
        let (halves, _) = key.as_chunks::<16>();
        let [r, pad] = [halves[0], halves[1]].map(u128::from_le_bytes);
        (self.factor, self.sum, self.pad) = (Factor::new(r), Sum::ZERO, pad);
    }

    /// Absorbs bytes; all but the last call's must be whole 16-byte blocks.
    fn update(&mut self, data: &[u8]) {
        let (blocks, tail) = data.as_chunks::<16>();
        let mut sum = self.sum;
        for &block in blocks {
            sum = sum.absorb(block, 1, self.factor);
        }
        if !tail.is_empty() {
            let mut last = [0; 16];
            last[..tail.len()].copy_from_slice(tail);
            last[tail.len()] = 1;
            sum = sum.absorb(last, 0, self.factor);
        }
        self.sum = sum;
    }

    /// Absorbs bytes with zeros after them, up to whole blocks.
    pub(crate) fn update_padded(&mut self, data: &[u8]) {
        let (blocks, tail) = data.as_chunks::<16>();
        self.update(blocks.as_flattened());
        if !tail.is_empty() {
            let mut padded = [0; 16];
            padded[..tail.len()].copy_from_slice(tail);
            self.update(&padded);
        }
    }

    pub(crate) fn tag(&self) -> [u8; 16] {
        self.sum.tag(self.pad)
    }
}

/// A running authenticator.
#[derive(Clone)]
pub(crate) struct Poly1305(State);

impl Drop for Poly1305 {
    fn drop(&mut self) {
        self.0.factor.r.zeroize();
        self.0.factor.s.zeroize();
        self.0.sum.low.zeroize();
        self.0.sum.high.zeroize();
        self.0.pad.zeroize();
    }
}

impl Poly1305 {
    /// Starts with the one-time key r || s.
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        let mut poly = Self(State::ZERO);
        poly.0.start(key);
        poly
    }

    /// Returns the state of the text.
    #[cfg(target_arch = "x86_64")]
    pub(super) const fn state(&mut self) -> &mut State {
        &mut self.0
    }

    /// Absorbs bytes; all but the last call's must be whole 16-byte blocks.
    pub(crate) fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    /// Does as [`State::update_padded`].
    pub(crate) fn update_padded(&mut self, data: &[u8]) {
        self.0.update_padded(data);
    }

    /// Returns the tag.
    pub(crate) fn finish(self) -> [u8; 16] {
        self.0.tag()
    }

    /// Returns the tag of what was absorbed.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn tag(&self) -> [u8; 16] {
        self.0.tag()
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

    /// These are the cases of RFC 8439 appendix A.3 about carries and the final reduction.
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
