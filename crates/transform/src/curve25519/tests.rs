//! Ways against the reference: the field, scalars and points, each way with other operands, edges among
//! them.

use proptest::prelude::*;

use super::reference::{
    Element, ORDER, Point, bytes_of, is_scalar, ladder, scalar_from_wide, scalar_multiply_add, words_of,
};

type Bytes = [u8; 32];

/// Numbers about zero, 2^51 by limbs, 2^255 - 19, 2^255, the order, and patterns.
fn edges() -> Vec<Bytes> {
    let mut edges = vec![[0xff; 32], [0x55; 32], [0xaa; 32], bytes_of(&ORDER)];
    for low in 0..4 {
        edges.push(bytes_of(&[low, 0, 0, 0]));
        edges.push(bytes_of(&[u64::MAX - 19 + low, u64::MAX, u64::MAX, u64::MAX >> 1]));
        edges.push(bytes_of(&[u64::MAX - low, u64::MAX, u64::MAX, u64::MAX >> 1]));
        edges.push(bytes_of(&[ORDER[0] - 2 + low, ORDER[1], ORDER[2], ORDER[3]]));
    }
    for bit in [50, 51, 52, 101, 102, 103, 152, 153, 203, 204, 205, 252, 253, 254] {
        let mut one = [0; 4];
        one[bit / 64] = 1 << (bit % 64);
        let below: [u64; 4] = core::array::from_fn(|i| match i.cmp(&(bit / 64)) {
            core::cmp::Ordering::Less => u64::MAX,
            core::cmp::Ordering::Equal => one[i] - 1,
            core::cmp::Ordering::Greater => 0,
        });
        edges.extend([bytes_of(&one), bytes_of(&below)]);
    }
    edges
}

/// A stream of bytes for tests: reproducible, and not random.
fn stream(seed: u64, count: usize) -> Vec<Bytes> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^ state >> 29
    };
    (0..count).map(|_| bytes_of(&[next(), next(), next(), next()])).collect()
}

#[test]
fn the_ladder_and_the_edwards_curve_have_the_same_multiples() {
    for scalar in stream(3, 8).into_iter().map(super::clamp) {
        let wanted = ladder(&scalar, Element([9, 0, 0, 0]));
        let mut wide = [0; 64];
        wide[..32].copy_from_slice(&scalar);
        assert_eq!(Point::BASE.multiply(&words_of(&scalar)).montgomery_u(), wanted);
        assert_eq!(Point::BASE.multiply(&scalar_from_wide(&wide)).montgomery_u(), wanted);
    }
}

#[test]
fn the_base_point_has_the_order() {
    assert_eq!(Point::BASE.multiply(&ORDER).encode(), Point::NEUTRAL.encode());
    let decoded = Point::decode(&Point::BASE.encode()).expect("a point");
    assert_eq!((decoded.x, decoded.y), (Point::BASE.x, Point::BASE.y));
}

#[test]
fn the_order_divides_the_number_that_is_read_from_it() {
    let mut wide = [0; 64];
    wide[..32].copy_from_slice(&bytes_of(&ORDER));
    assert_eq!(scalar_from_wide(&wide), [0; 4]);
    assert!(!is_scalar(&ORDER));
    assert!(is_scalar(&[ORDER[0] - 1, ORDER[1], ORDER[2], ORDER[3]]));
}

/// Tests that need the ways' CPU features do nothing elsewhere.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod ways {
    use super::super::WAYS;
    use super::super::base::Base;
    use super::super::edwards;
    use super::super::field::{self, Fe, Rows};
    use super::super::inverse;
    use super::super::scalar::{DIGITS, Scalar};
    use super::*;
    use crate::isa::{Avx512, Features};

    fn token() -> Option<Avx512> {
        Features::detect().avx512
    }

    fn rows(numbers: &[Bytes]) -> Rows<4> {
        let mut rows = Rows::ZERO;
        for (way, number) in numbers.iter().enumerate() {
            rows.set(way, &words_of(number));
        }
        rows
    }

    fn bytes(rows: &Rows<4>) -> Vec<Bytes> {
        (0..WAYS).map(|way| bytes_of(&rows.get(way))).collect()
    }

    /// All pairs of edges, then pairs from the stream, in eights.
    fn pairs() -> Vec<[Vec<Bytes>; 2]> {
        let edges = edges();
        let mut pairs: Vec<(Bytes, Bytes)> =
            edges.iter().flat_map(|a| edges.iter().map(|b| (*a, *b))).collect();
        pairs.extend(stream(1, 800).into_iter().zip(stream(2, 800)));
        pairs
            .chunks_exact(WAYS)
            .map(|pairs| {
                let (a, b): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
                [a, b]
            })
            .collect()
    }

    #[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
    fn operations(a: &Rows<4>, b: &Rows<4>) -> [Rows<4>; 9] {
        let (a, b) = (Fe::from_words(&a.load()), Fe::from_words(&b.load()));
        let (ab, aa) = (field::mul(&a, &b), field::square(&a));
        let store = |value: &field::Wide| Rows::store(&field::carry(value).to_words());
        [
            Rows::store(&a.to_words()),
            store(&ab),
            store(&aa),
            store(&field::add(&ab, &aa)),
            store(&field::sub(&ab, &aa)),
            store(&field::mul_small(&ab, &a, 121_665)),
            store(&field::mul(&field::negate_some(0xff, &a), &field::negate_some(0xff, &b))),
            store(&field::mul(&field::negate_some(0x0f, &a), &field::carry(&ab))),
            store(&field::select(0x3c, &a, &b).wide()),
        ]
    }

    #[test]
    fn the_field_is_the_references() {
        if token().is_none() {
            return;
        }
        for [a, b] in pairs() {
            // SAFETY: the token proves the features.
            let made = unsafe { operations(&rows(&a), &rows(&b)) };
            for way in 0..WAYS {
                let (x, y) = (Element::from_bytes(&a[way]), Element::from_bytes(&b[way]));
                let (xy, xx) = (x.mul(y), x.mul(x));
                let wanted = [
                    x,
                    xy,
                    xx,
                    xy.add(xx),
                    xy.sub(xx),
                    xy.add(x.mul(Element([121_665, 0, 0, 0]))),
                    xy,
                    if way < 4 { x.neg().mul(xy) } else { x.mul(xy) },
                    if (2..6).contains(&way) { y } else { x },
                ];
                for (n, (made, wanted)) in made.iter().zip(wanted).enumerate() {
                    assert_eq!(made.get(way), wanted.0, "operation {n} of {x:x?} and {y:x?}");
                }
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
    fn largest(limb: u64) -> [Rows<4>; 3] {
        let a = Fe::splat(&[limb; 5]);
        let (square, product) = (field::square(&a), field::mul(&a, &a));
        let sum = field::add(&square, &field::sub(&product, &square));
        let store = |value: &field::Wide| Rows::store(&field::carry(value).to_words());
        [store(&square), store(&product), store(&sum)]
    }

    #[test]
    fn limbs_as_large_as_can_be_do_not_overflow() {
        if token().is_none() {
            return;
        }
        for limb in [(1 << 51) + (1 << 17), (1 << 52) - 1, 1 << 51, 0] {
            // SAFETY: the token proves the features.
            let made = unsafe { largest(limb) };
            let weight = Element([1 << 51, 0, 0, 0]);
            let number = (0..5).fold(Element::ZERO, |sum, _| sum.mul(weight).add(Element([limb, 0, 0, 0])));
            for made in made {
                assert_eq!(made.get(3), number.mul(number).0);
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
    fn inverses(a: &Rows<4>) -> (Rows<4>, u8, u8) {
        let a = Fe::from_words(&a.load());
        (Rows::store(&field::invert(&a).to_words()), a.is_zero(), a.is_odd())
    }

    #[test]
    fn inverses_and_signs_are_the_references() {
        if token().is_none() {
            return;
        }
        let numbers = [edges(), stream(5, 60)].concat();
        for numbers in numbers.chunks(WAYS) {
            // SAFETY: the token proves the features.
            let (made, zero, odd) = unsafe { inverses(&rows(numbers)) };
            for (way, number) in numbers.iter().enumerate() {
                let number = Element::from_bytes(number);
                assert_eq!(made.get(way), number.invert().0, "{number:x?}");
                assert_eq!(zero >> way & 1 == 1, number == Element::ZERO);
                assert_eq!(odd >> way & 1, number.0[0] as u8 & 1);
            }
        }
    }

    #[test]
    fn division_steps_invert_every_number() {
        let small = (0..512).map(|n| bytes_of(&[n, 0, 0, 0]));
        let powers = (0..255).map(|bit| {
            let mut words = [0; 4];
            words[bit / 64] = 1 << (bit % 64);
            bytes_of(&words)
        });
        for number in small.chain(powers).chain(edges()).chain(stream(9, 2000)) {
            let number = Element::from_bytes(&number);
            let limbs = inverse::invert(&number.0);
            assert!(limbs[..4].iter().all(|limb| limb >> 51 == 0) && limbs[4] >> 58 == 0);
            let weight = Element([1 << 51, 0, 0, 0]);
            let made = limbs
                .iter()
                .rev()
                .fold(Element::ZERO, |sum, limb| sum.mul(weight).add(Element([*limb, 0, 0, 0])));
            let wanted = if number == Element::ZERO { number } else { Element::ONE };
            assert_eq!(made.mul(number), wanted);
            assert!(number != Element::ZERO || made == Element::ZERO);
        }
    }

    #[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
    fn scalars(a: &Rows<4>, b: &Rows<4>) -> ([Rows<4>; 3], u8, Vec<(Rows<1>, u8)>) {
        let ([a0, a1, a2, a3], [b0, b1, b2, b3]) = (a.load(), b.load());
        let wide = Scalar::from_wide_words(&[a0, a1, a2, a3, b0, b1, b2, b3]);
        let (a, b) = (Scalar::from_words(&[a0, a1, a2, a3]), Scalar::from_words(&[b0, b1, b2, b3]));
        let reduced = b.reduce();
        let digits = wide.digits();
        let mut all = Vec::new();
        for place in 0..DIGITS {
            let (magnitude, negative) = digits.get(place);
            all.push((Rows::store(&[magnitude]), negative));
        }
        let made = [wide, reduced, a.multiply_add(&reduced, &wide)];
        (made.map(|made| Rows::store(&made.to_words())), a.is_below_order(), all)
    }

    #[test]
    fn scalars_are_the_references() {
        if token().is_none() {
            return;
        }
        for [a, b] in pairs().into_iter().step_by(3) {
            // SAFETY: the token proves the features.
            let (made, below, digits) = unsafe { scalars(&rows(&a), &rows(&b)) };
            for way in 0..WAYS {
                let mut wide = [0; 64];
                wide[..32].copy_from_slice(&b[way]);
                let reduced = scalar_from_wide(&wide);
                wide[..32].copy_from_slice(&a[way]);
                wide[32..].copy_from_slice(&b[way]);
                let whole = scalar_from_wide(&wide);
                let words = words_of(&a[way]);
                let wanted = [whole, reduced, scalar_multiply_add(&words, &reduced, &whole)];
                assert_eq!([0, 1, 2].map(|n| made[n].get(way)), wanted);
                assert_eq!(below >> way & 1 == 1, is_scalar(&words));
                // Digits from the highest on make the scalar, here modulo the order.
                let sum = digits.iter().rev().fold([0; 4], |sum, (magnitude, negative)| {
                    let [magnitude] = magnitude.get(way);
                    assert!(magnitude <= 16);
                    let negative = negative >> way & 1 == 1;
                    let digit = [magnitude, 0, 0, 0];
                    let minus =
                        scalar_multiply_add(&[ORDER[0] - 1, ORDER[1], ORDER[2], ORDER[3]], &digit, &[0; 4]);
                    scalar_multiply_add(&sum, &[32, 0, 0, 0], if negative { &minus } else { &digit })
                });
                assert_eq!(sum, whole);
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
    fn multiples(scalars: &Rows<4>, base: Base) -> Rows<4> {
        let digits = Scalar::from_words(&scalars.load()).reduce().digits();
        let (x, y, z) = base.multiply(&digits).coordinates();
        Rows::store(&edwards::encode(&x, &y, &field::invert(&z)))
    }

    #[test]
    fn multiples_of_the_base_point_are_the_references() {
        let Some(token) = token() else { return };
        let base = Base::get(token);
        let mut numbers = [edges(), stream(6, 30)].concat();
        // Every digit's magnitude at every place.
        for digit in 1..=16u64 {
            let all =
                (0..50).fold([0; 4], |sum, _| scalar_multiply_add(&sum, &[32, 0, 0, 0], &[digit, 0, 0, 0]));
            numbers.push(bytes_of(&all));
        }
        for numbers in numbers.chunks(WAYS) {
            // SAFETY: the token proves the features.
            let made = bytes(&unsafe { multiples(&rows(numbers), base) });
            for (number, made) in numbers.iter().zip(made) {
                assert_eq!(made, Point::BASE.multiply(&words_of(number)).encode(), "{number:02x?}");
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
    fn decoded(first: &Rows<4>, second: &Rows<4>) -> [(Rows<4>, Rows<4>, u8); 2] {
        edwards::decode(&[first.load(), second.load()])
            .map(|(x, y, valid)| (Rows::store(&x.to_words()), Rows::store(&y.to_words()), valid))
    }

    #[test]
    fn points_decode_as_the_references_do() {
        if token().is_none() {
            return;
        }
        let mut numbers = [edges(), stream(8, 120)].concat();
        let signed: Vec<Bytes> = numbers.iter().map(|number| number.map(|byte| byte ^ 0x80)).collect();
        numbers.extend(numbers.clone().into_iter().zip(&signed).map(|(mut number, signed)| {
            number[31] = signed[31];
            number
        }));
        let mut points = 0;
        for numbers in numbers.chunks(2 * WAYS) {
            let (first, second) = numbers.split_at(numbers.len().min(WAYS));
            // SAFETY: the token proves the features.
            let made = unsafe { decoded(&rows(first), &rows(second)) };
            for (numbers, (x, y, valid)) in [first, second].into_iter().zip(made) {
                for (way, number) in numbers.iter().enumerate() {
                    let wanted = Point::decode(number);
                    assert_eq!(valid >> way & 1 == 1, wanted.is_some(), "{number:02x?}");
                    if let Some(wanted) = wanted {
                        points += 1;
                        assert_eq!((x.get(way), y.get(way)), (wanted.x.0, wanted.y.0));
                        assert_eq!(wanted.encode(), *number);
                    }
                }
            }
        }
        assert!(points > 50);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn the_field_is_the_references_on_any_operands(numbers: [Bytes; 16]) {
            if token().is_some() {
                let (a, b) = numbers.split_at(WAYS);
                // SAFETY: the token proves the features.
                let made = unsafe { operations(&rows(a), &rows(b)) };
                for way in 0..WAYS {
                    let (x, y) = (Element::from_bytes(&a[way]), Element::from_bytes(&b[way]));
                    prop_assert_eq!(made[1].get(way), x.mul(y).0);
                    prop_assert_eq!(made[4].get(way), x.mul(y).sub(x.mul(x)).0);
                }
            }
        }
    }
}
