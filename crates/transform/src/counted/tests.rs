//! The counted loops make what the references make, and do the same operations whatever their operands are.

use super::*;
use crate::curve25519::clamp;
use crate::curve25519::reference::{Element, Point, ladder};
use crate::montgomery::reference::{Modulus, from_bytes};
use crate::p256::P256PrivateKey;
use crate::p256::reference::ecdh_reference;
use crate::word::Plain;
use crate::{keccak as definition, ml_kem};

/// Returns a number without reporting anything.
fn wide(words: &[u64; 4]) -> Wide<Plain> {
    constant(words)
}

fn mask(bytes: &[u8; 32], bit: usize) -> Plain {
    Plain::spread(bytes[bit / 8] >> (bit % 8) & 1 == 1)
}

fn secret(seed: u32) -> [u8; 32] {
    core::array::from_fn(|i| word(seed, i) as u8)
}

#[test]
fn powers_are_the_references() {
    let halves = |words: &[u64]| words.iter().flat_map(|word| [*word as u32, (word >> 32) as u32]).collect();
    for size in [16, 32] {
        let number = |seed: u32| {
            let bytes: Vec<u8> = (0..8 * size).map(|i| word(seed, i) as u8).collect();
            from_bytes(&bytes, size)
        };
        let mut odd = number(1);
        (odd[0], odd[size - 1]) = (odd[0] | 1, odd[size - 1] | 1 << 63);
        let modulus = Modulus::new(&odd).unwrap();
        let r = modulus.power_of_two(64 * size);
        let base = modulus.reduce(&[number(2).to_vec(), vec![0; size]].concat());
        let exponent = 0xa5c3_0f01_u32;
        let mut power = modular::Power::new(halves(&odd), halves(&modulus.multiply(&base, &r)), halves(&r));
        (0..32).rev().for_each(|bit| power.take_bit::<Plain>(exponent, bit));
        let expected: Vec<u32> = halves(&modulus.multiply(&modulus.power(&base, &[u64::from(exponent)]), &r));
        assert_eq!(power.words(), expected, "{size}");
    }
}

#[test]
fn the_ladder_is_the_references() {
    let f = field25519::Field::new();
    for seed in [1, 2, 3] {
        let (scalar, u) = (clamp(secret(seed)), Element::from_bytes(&secret(seed + 10)));
        let base = wide(&u.0);
        let (zero, one) = (wide(&[0; 4]), wide(&[1, 0, 0, 0]));
        let state = (0..255).rev().fold([one, zero, base, one], |state, bit| {
            curves::ladder_step(&f, &base, &state, mask(&scalar, bit))
        });
        assert_eq!(f.mul(&wide(&ladder(&scalar, u).0), &state[1]), state[0]);
    }
}

#[test]
fn multiples_on_the_edwards_curve_are_the_references() {
    let f = field25519::Field::new();
    let [neutral, base] = [Point::NEUTRAL, Point::BASE].map(|point| {
        let (x, y) = (wide(&point.x.0), wide(&point.y.0));
        [x, y, wide(&[1, 0, 0, 0]), f.mul(&x, &y)]
    });
    let scalar = secret(5);
    let sum =
        (0..256).rev().fold(neutral, |sum, bit| curves::edwards_bit(&f, &base, &sum, mask(&scalar, bit)));
    let expected = Point::BASE.multiply(&crate::curve25519::reference::words_of(&scalar)).normal();
    assert_eq!(f.mul(&wide(&expected.x.0), &sum[2]), sum[0]);
    assert_eq!(f.mul(&wide(&expected.y.0), &sum[2]), sum[1]);
}

#[test]
fn multiples_on_p256_are_the_references() {
    let f = field_p256::Field::new();
    // 2^256 and 2^512 modulo the prime, by doublings of 1.
    let double = |from: &Wide<Plain>| (0..256).fold(*from, |sum, _| f.add(&sum, &sum));
    let one = double(&wide(&[1, 0, 0, 0]));
    let square = double(&one);
    let enter = |bytes: &[u8]| {
        let words: [u64; 4] =
            core::array::from_fn(|i| u64::from_be_bytes(bytes[24 - 8 * i..][..8].try_into().unwrap()));
        f.mul(&wide(&words), &square)
    };
    let mut scalar = secret(6);
    scalar[0] = 0x7f;
    let peer = P256PrivateKey::new(&secret(7)).unwrap().public_key().to_bytes();
    let mut shared = [0; 32];
    assert!(ecdh_reference(&P256PrivateKey::new(&scalar).unwrap(), &peer, &mut shared));
    scalar.reverse();
    let point = [enter(&peer[1..33]), enter(&peer[33..]), one];
    let zero = wide(&[0; 4]);
    let sum = (0..256)
        .rev()
        .fold([zero, one, zero], |sum, bit| curves::weierstrass_bit(&f, &point, &sum, mask(&scalar, bit)));
    assert_eq!(f.mul(&enter(&shared), &sum[2]), sum[0]);
}

#[test]
fn transforms_and_permutations_are_the_references() {
    let mut expected: [u16; 256] = core::array::from_fn(|i| (word(8, i) % u32::from(ml_kem::Q)) as u16);
    let mut found = expected.map(u32::from);
    ml_kem::reference::transform(&mut expected);
    transform::transform::<Plain>(&mut found);
    assert_eq!(found, expected.map(u32::from));

    let mut expected: [u64; 25] =
        core::array::from_fn(|i| u64::from(word(9, i)) << 32 | u64::from(word(10, i)));
    let mut found = expected.map(|word| [Plain::imm(word as u32), Plain::imm((word >> 32) as u32)]);
    definition::reference::permute(&mut expected, definition::ROUNDS);
    keccak::permute(&mut found);
    assert_eq!(found, expected.map(|word| [Plain::imm(word as u32), Plain::imm((word >> 32) as u32)]));
}

/// The sequence of operations of a pass, without the operands' bits.
fn operations(run: impl FnOnce()) -> Vec<core::mem::Discriminant<Event>> {
    let mut found = Vec::new();
    begin();
    run();
    end_block(&mut |event| found.push(core::mem::discriminant(&event)));
    found
}

#[test]
fn operands_change_no_operation() {
    let ladder = |seed: u32, bit: bool| {
        operations(|| {
            let state = [seed, seed + 1, seed + 2, seed + 3].map(number);
            curves::ladder_step::<Counted>(
                &field25519::Field::new(),
                &number(seed),
                &state,
                Counted::spread(bit),
            );
        })
    };
    assert_eq!(ladder(1, false), ladder(100, true));
    let weierstrass = |seed: u32, bit: bool| {
        operations(|| {
            let (point, sum) = ([seed, 2, 3].map(number), [4, 5, seed].map(number));
            curves::weierstrass_bit::<Counted>(&field_p256::Field::new(), &point, &sum, Counted::spread(bit));
        })
    };
    assert_eq!(weierstrass(1, false), weierstrass(100, true));
    let power = |seed: u32, exponent: u32| {
        operations(|| {
            let words = |seed| (0..8).map(|i| word(seed, i) | 1).collect::<Vec<_>>();
            modular::Power::new(words(seed), words(seed + 1), words(seed + 2))
                .take_bit::<Counted>(exponent, 0);
        })
    };
    assert_eq!(power(1, 0), power(100, 1));
}

/// The counts follow from the formulas: 32-bit words make four times the products of 64-bit ones, and a product is two
/// multiplications.
#[test]
fn multiplications_are_as_many_as_the_formulas_have() {
    let found = |name: &str| {
        let mut mix = crate::word::Mix::default();
        PUBLIC_LOOPS.iter().find(|one| one.name == name).unwrap().trace(|event| mix.add(event));
        mix
    };
    // Two products and two reductions of 32 by 32 words, and a factor for each word of a reduction.
    assert_eq!(found("rsa-2048").complex_alu, 4 * 2 * 32 * 32 + 2 * 32);
    assert_eq!(found("dh-2048").complex_alu, 4 * 2 * 64 * 64 + 2 * 64);
    // Ten products of 8 by 8 words, with 8 products and one for the folding.
    assert_eq!(found("x25519").complex_alu, 10 * (2 * 64 + 2 * 8 + 1));
    assert_eq!(found("ed25519").complex_alu, 2 * 9 * (2 * 64 + 2 * 8 + 1));
    // Seventeen products and reductions of 8 by 8 words twice over, and a factor for each word.
    assert_eq!(found("p256").complex_alu, 2 * 17 * (2 * 2 * 64 + 8));
    // A butterfly multiplies once, and divides three times.
    assert_eq!(found("ml-kem-768, NTT").complex_alu, 7 * 128 * (1 + 3 * 2));
    let keccak = found("ml-kem-768, Keccak");
    assert_eq!((keccak.complex_alu, keccak.branch), (0, 24));
}
