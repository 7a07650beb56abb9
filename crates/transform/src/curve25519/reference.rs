//! The definition: field elements, scalars and points, one at a time, as the oracle of all other code.
//!
//! A value's bits never decide a branch or an address: loops have fixed lengths, and choices are masks.
//! (Decoding a point tells whether it is one, which is public.)

/// Words of 2^255 - 19, least significant first.
pub(crate) const P: [u64; 4] = [0xffff_ffff_ffff_ffed, u64::MAX, u64::MAX, 0x7fff_ffff_ffff_ffff];

/// Words of the order of the base point, 2^252 + 27742317777372353535851937790883648493.
pub(crate) const ORDER: [u64; 4] = [0x5812_631a_5cf5_d3ed, 0x14de_f9de_a2f7_9cd6, 0, 0x1000_0000_0000_0000];

/// Returns all ones if `bit` is one, and zero if it is zero.
///
/// The barrier keeps the compiler from finding out that there are two cases only, and from branching.
fn mask(bit: u64) -> u64 {
    core::hint::black_box(bit).wrapping_neg()
}

/// Returns `a + b` without its carry, and the carry.
fn add_words(a: &[u64; 4], b: &[u64; 4]) -> ([u64; 4], u64) {
    let mut sum = [0; 4];
    let mut carry = 0u128;
    for i in 0..4 {
        carry += u128::from(a[i]) + u128::from(b[i]);
        sum[i] = carry as u64;
        carry >>= 64;
    }
    (sum, carry as u64)
}

/// Returns `a - b` modulo 2^256, and the borrow.
fn sub_words(a: &[u64; 4], b: &[u64; 4]) -> ([u64; 4], u64) {
    let mut difference = [0; 4];
    let mut borrow = 0;
    for i in 0..4 {
        let wide = u128::from(a[i]).wrapping_sub(u128::from(b[i])).wrapping_sub(borrow);
        difference[i] = wide as u64;
        borrow = (wide >> 64) & 1;
    }
    (difference, borrow as u64)
}

/// Returns `one` if `bit` is one, else `zero`.
fn choose(bit: u64, zero: &[u64; 4], one: &[u64; 4]) -> [u64; 4] {
    let mask = mask(bit);
    core::array::from_fn(|i| zero[i] ^ (mask & (zero[i] ^ one[i])))
}

/// Subtracts `modulus` if the value, with `carry` as its 257th bit, is not below it.
fn reduce_once(value: &[u64; 4], carry: u64, modulus: &[u64; 4]) -> [u64; 4] {
    let (smaller, borrow) = sub_words(value, modulus);
    choose(borrow & (1 - carry), &smaller, value)
}

/// Returns the words of 32 little-endian bytes.
pub(crate) fn words_of(bytes: &[u8; 32]) -> [u64; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}

/// Returns the little-endian bytes of four words.
pub(crate) fn bytes_of(words: &[u64; 4]) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    bytes
}

/// An element of the field of 2^255 - 19, always below that number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element(pub(crate) [u64; 4]);

impl Element {
    pub(crate) const ZERO: Self = Self([0; 4]);
    pub(crate) const ONE: Self = Self([1, 0, 0, 0]);
    /// The d of the Edwards curve, -121665 / 121666.
    pub(crate) const D: Self =
        Self([0x75eb_4dca_1359_78a3, 0x0070_0a4d_4141_d8ab, 0x8cc7_4079_7779_e898, 0x5203_6cee_2b6f_fe73]);
    /// A square root of -1.
    const ROOT: Self =
        Self([0xc4ee_1b27_4a0e_a0b0, 0x2f43_1806_ad2f_e478, 0x2b4d_0099_3dfb_d7a7, 0x2b83_2480_4fc1_df0b]);

    /// Reads 255 bits, which may stand for a number from 2^255 - 19 on; the last bit is ignored.
    pub(crate) fn from_bytes(bytes: &[u8; 32]) -> Self {
        let mut words = words_of(bytes);
        words[3] &= u64::MAX >> 1;
        Self(reduce_once(&words, 0, &P))
    }

    pub(crate) fn to_bytes(self) -> [u8; 32] {
        bytes_of(&self.0)
    }

    pub(crate) fn add(self, other: Self) -> Self {
        let (sum, carry) = add_words(&self.0, &other.0);
        Self(reduce_once(&sum, carry, &P))
    }

    pub(crate) fn sub(self, other: Self) -> Self {
        let (difference, borrow) = sub_words(&self.0, &other.0);
        let (above, _) = add_words(&difference, &P);
        Self(choose(borrow, &difference, &above))
    }

    pub(crate) fn neg(self) -> Self {
        Self::ZERO.sub(self)
    }

    pub(crate) fn mul(self, other: Self) -> Self {
        let mut product = [0u64; 8];
        for i in 0..4 {
            let mut carry = 0u128;
            for j in 0..4 {
                carry += u128::from(product[i + j]) + u128::from(self.0[i]) * u128::from(other.0[j]);
                product[i + j] = carry as u64;
                carry >>= 64;
            }
            product[i + 4] = carry as u64;
        }
        // 2^256 is 38 here. The second fold carries at most once more, into a value of at most 38 * 38.
        let mut folded = [0; 4];
        let mut carry = 0u128;
        for i in 0..4 {
            carry += u128::from(product[i]) + 38 * u128::from(product[i + 4]);
            folded[i] = carry as u64;
            carry >>= 64;
        }
        let (folded, carry) = add_words(&folded, &[38 * carry as u64, 0, 0, 0]);
        let (folded, _) = add_words(&folded, &[38 * carry, 0, 0, 0]);
        Self(reduce_once(&reduce_once(&folded, 0, &P), 0, &P))
    }

    /// Returns the power by a public exponent.
    fn pow(self, exponent: &[u64; 4]) -> Self {
        let mut power = Self::ONE;
        for bit in (0..256).rev() {
            power = power.mul(power);
            if exponent[bit / 64] >> (bit % 64) & 1 == 1 {
                power = power.mul(self);
            }
        }
        power
    }

    /// Returns the inverse, or zero for zero: the power by 2^255 - 21.
    pub(crate) fn invert(self) -> Self {
        self.pow(&[P[0] - 2, P[1], P[2], P[3]])
    }

    /// Returns the power by 2^252 - 3, which is (p - 5) / 8.
    fn root_power(self) -> Self {
        self.pow(&[u64::MAX - 2, u64::MAX, u64::MAX, 0x0fff_ffff_ffff_ffff])
    }

    pub(crate) fn select(bit: u64, zero: Self, one: Self) -> Self {
        Self(choose(bit, &zero.0, &one.0))
    }
}

/// Returns 512 little-endian bits modulo the order of the base point, by bits from the highest on.
pub(crate) fn scalar_from_wide(bytes: &[u8; 64]) -> [u64; 4] {
    let mut rest = [0; 4];
    for bit in (0..512).rev() {
        let (double, _) = add_words(&rest, &rest);
        let (double, _) = add_words(&double, &[u64::from(bytes[bit / 8] >> (bit % 8) & 1), 0, 0, 0]);
        rest = reduce_once(&double, 0, &ORDER);
    }
    rest
}

/// Returns `a * b + c` modulo the order of the base point; `c` is below it.
pub(crate) fn scalar_multiply_add(a: &[u64; 4], b: &[u64; 4], c: &[u64; 4]) -> [u64; 4] {
    let mut wide = [0; 64];
    wide[..32].copy_from_slice(&bytes_of(b));
    let b = scalar_from_wide(&wide);
    let mut sum = [0; 4];
    for bit in (0..256).rev() {
        sum = reduce_once(&add_words(&sum, &sum).0, 0, &ORDER);
        let more = reduce_once(&add_words(&sum, &b).0, 0, &ORDER);
        sum = choose(a[bit / 64] >> (bit % 64) & 1, &sum, &more);
    }
    reduce_once(&add_words(&sum, c).0, 0, &ORDER)
}

/// Returns whether a scalar is below the order of the base point.
pub(crate) fn is_scalar(words: &[u64; 4]) -> bool {
    sub_words(words, &ORDER).1 == 1
}

/// Returns the u coordinate of the scalar's multiple of the point with that u (RFC 7748 section 5), by
/// Montgomery's ladder. The scalar is clamped already.
pub(crate) fn ladder(scalar: &[u8; 32], u: Element) -> Element {
    let swap = |bit, a: &mut Element, b: &mut Element| {
        (*a, *b) = (Element::select(bit, *a, *b), Element::select(bit, *b, *a));
    };
    let (mut x2, mut z2, mut x3, mut z3) = (Element::ONE, Element::ZERO, u, Element::ONE);
    for bit in (0..255).rev() {
        let bit = u64::from(scalar[bit / 8] >> (bit % 8) & 1);
        swap(bit, &mut x2, &mut x3);
        swap(bit, &mut z2, &mut z3);
        let (a, b, c, d) = (x2.add(z2), x2.sub(z2), x3.add(z3), x3.sub(z3));
        let (aa, bb, da, cb) = (a.mul(a), b.mul(b), d.mul(a), c.mul(b));
        let e = aa.sub(bb);
        let (sum, difference) = (da.add(cb), da.sub(cb));
        x3 = sum.mul(sum);
        z3 = u.mul(difference.mul(difference));
        x2 = aa.mul(bb);
        z2 = e.mul(aa.add(Element([121_665, 0, 0, 0]).mul(e)));
        swap(bit, &mut x2, &mut x3);
        swap(bit, &mut z2, &mut z3);
    }
    x2.mul(z2.invert())
}

/// A point of the twisted Edwards curve: x = X / Z, y = Y / Z, and x * y = T / Z.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) x: Element,
    pub(crate) y: Element,
    z: Element,
    t: Element,
}

impl Point {
    pub(crate) const NEUTRAL: Self =
        Self { x: Element::ZERO, y: Element::ONE, z: Element::ONE, t: Element::ZERO };

    /// Returns the base point: y = 4 / 5, and x is even.
    pub(crate) const BASE: Self = Self {
        x: Element([
            0xc956_2d60_8f25_d51a,
            0x692c_c760_9525_a7b2,
            0xc0a4_e231_fdd6_dc5c,
            0x2169_36d3_cd6e_53fe,
        ]),
        y: Element([
            0x6666_6666_6666_6658,
            0x6666_6666_6666_6666,
            0x6666_6666_6666_6666,
            0x6666_6666_6666_6666,
        ]),
        z: Element::ONE,
        t: Element([
            0x6dde_8ab3_a5b7_dda3,
            0x20f0_9f80_7751_52f5,
            0x66ea_4e8e_64ab_e37d,
            0x6787_5f0f_d78b_7665,
        ]),
    };

    /// Returns the sum, by formulas that are complete on this curve (RFC 8032 section 5.1.4).
    pub(crate) fn add(self, other: Self) -> Self {
        let a = self.y.sub(self.x).mul(other.y.sub(other.x));
        let b = self.y.add(self.x).mul(other.y.add(other.x));
        let c = self.t.mul(Element::D.add(Element::D)).mul(other.t);
        let d = self.z.add(self.z).mul(other.z);
        let (e, f, g, h) = (b.sub(a), d.sub(c), d.add(c), b.add(a));
        Self { x: e.mul(f), y: g.mul(h), z: f.mul(g), t: e.mul(h) }
    }

    pub(crate) fn neg(self) -> Self {
        Self { x: self.x.neg(), t: self.t.neg(), ..self }
    }

    /// Returns the scalar's multiple: 256 doublings, and as many additions of which a mask chooses.
    pub(crate) fn multiply(self, scalar: &[u64; 4]) -> Self {
        let mut sum = Self::NEUTRAL;
        for bit in (0..256).rev() {
            sum = sum.add(sum);
            let more = sum.add(self);
            let bit = scalar[bit / 64] >> (bit % 64) & 1;
            sum = Self {
                x: Element::select(bit, sum.x, more.x),
                y: Element::select(bit, sum.y, more.y),
                z: Element::select(bit, sum.z, more.z),
                t: Element::select(bit, sum.t, more.t),
            };
        }
        sum
    }

    /// Returns the same point with Z = 1.
    pub(crate) fn normal(self) -> Self {
        let inverse = self.z.invert();
        let (x, y) = (self.x.mul(inverse), self.y.mul(inverse));
        Self { x, y, z: Element::ONE, t: x.mul(y) }
    }

    /// Returns the encoding (RFC 8032 section 5.1.2).
    pub(crate) fn encode(self) -> [u8; 32] {
        let point = self.normal();
        let mut bytes = point.y.to_bytes();
        bytes[31] |= (point.x.0[0] as u8 & 1) << 7;
        bytes
    }

    /// Decodes a point (RFC 8032 section 5.1.3), whose encoding must be the one that [`Self::encode`] makes.
    pub(crate) fn decode(bytes: &[u8; 32]) -> Option<Self> {
        let y = Element::from_bytes(bytes);
        let sign = bytes[31] >> 7;
        let mut canonical = y.to_bytes();
        canonical[31] |= sign << 7;
        if canonical != *bytes {
            return None;
        }
        let square = y.mul(y);
        let (u, v) = (square.sub(Element::ONE), Element::D.mul(square).add(Element::ONE));
        let mut x = u.mul(u.mul(v).root_power());
        let made = v.mul(x.mul(x));
        if made == u.neg() {
            x = x.mul(Element::ROOT);
        } else if made != u {
            return None;
        }
        if x == Element::ZERO && sign == 1 {
            return None;
        }
        if x.0[0] as u8 & 1 != sign {
            x = x.neg();
        }
        Some(Self { x, y, z: Element::ONE, t: x.mul(y) })
    }

    /// Returns u of the same point in Montgomery's form, (1 + y) / (1 - y), and zero for the neutral point.
    #[cfg(test)]
    pub(crate) fn montgomery_u(self) -> Element {
        self.z.add(self.y).mul(self.z.sub(self.y).invert())
    }
}
