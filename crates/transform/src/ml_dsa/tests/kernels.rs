//! Tests of the kernels of all machines against the reference, at the edges of their ranges.

use super::*;
use crate::keccak::{SHAKE256, reference::hash};
use crate::ml_dsa::arithmetic::Poly;
use crate::ml_dsa::coding::{pack, pack_hints, unpack_hints};
use crate::ml_dsa::machine::{Machine, Portable, ROW_BYTES, STREAMS_MAX};
use crate::ml_dsa::parameters::Parameters;

/// Runs a test on every machine there is.
macro_rules! on_every_machine {
    ($test:ident($($argument:expr),*)) => {
        $test(Portable $(, $argument)*);
        #[cfg(target_arch = "x86_64")]
        {
            let features = crate::isa::Features::detect();
            if let Some(token) = features.avx2 {
                $test(token $(, $argument)*);
            }
            if let Some(token) = features.avx512 {
                $test(token $(, $argument)*);
            }
        }
    };
}

/// Returns a polynomial of coefficients below q: edges of rounding first, then any.
fn numbers(p: &Parameters, seed: u8) -> [u32; N] {
    let random = hash::<{ 4 * N }>(SHAKE256, &[&[seed]]);
    let words = random.as_chunks::<4>().0;
    core::array::from_fn(|i| {
        let word = u32::from_le_bytes(words[i]);
        let edge = (word >> 8) % 45 * 2 * p.gamma2;
        match i % 4 {
            // Around multiples of 2 gamma2, halfway between them, and around 0 and q.
            0 => (edge + Q + word % 5 - 2) % Q,
            1 => (edge + p.gamma2 + Q + word % 5 - 2) % Q,
            2 if i < 32 => (Q + word % 5 - 2) % Q,
            _ => word % Q,
        }
    })
}

fn signed(f: &[u32; N]) -> Poly {
    Poly(f.map(u32::cast_signed))
}

/// Returns coefficients modulo q.
fn modulo_q(f: &Poly) -> [u32; N] {
    f.0.map(|value| value.rem_euclid(Q.cast_signed()).cast_unsigned())
}

fn transforms_and_products<M: Machine>(machine: M) {
    let p = MlDsaSet::MlDsa65.parameters();
    let extremes = [[0; N], [Q - 1; N], core::array::from_fn(|i| if i % 2 == 0 { Q - 1 } else { 0 })];
    for f in (0..6).map(|seed| numbers(p, seed)).chain(extremes) {
        let mut expected = f;
        reference::ntt(&mut expected);
        let mut in_order = signed(&expected);
        machine.reorder(&mut in_order);
        let mut found = signed(&f);
        machine.transform(&mut found);
        assert!(found.0.iter().all(|value| value.unsigned_abs() < 9 * Q));
        assert_eq!(modulo_q(&found), modulo_q(&in_order));
        machine.reduce(&mut found);
        assert!(found.0.iter().all(|value| value.unsigned_abs() < Q / 4 * 3));
        assert_eq!(modulo_q(&found), modulo_q(&in_order));
        // Eight products of the largest transforms, the sum of which comes back by the inverse.
        let mut other = Poly([8 * Q.cast_signed(); N]);
        (0..N).step_by(3).for_each(|i| other.0[i] = -other.0[i]);
        let (row, v) = ([found; 8], [other; 8]);
        let mut sum = Poly::ZERO;
        machine.multiply_row(&row, &v, &mut sum);
        assert!(sum.0.iter().all(|value| value.unsigned_abs() < Q / 100 * 85));
        let mut one = Poly::ZERO;
        one.0[0] = 1;
        machine.transform(&mut one);
        machine.multiply_row(&[found; 3], &[one; 3], &mut sum);
        machine.inverse(&mut sum);
        assert!(sum.0.iter().all(|value| value.unsigned_abs() < Q / 4 * 3));
        assert_eq!(modulo_q(&sum), f.map(|value| (3 * u64::from(value) % u64::from(Q)) as u32));
    }
}

fn rounding_and_hints<M: Machine>(machine: M, set: MlDsaSet) {
    let p = set.parameters();
    let half = (Q - 1) / 2;
    let centered =
        |value: u32| if value > half { value.cast_signed() - Q.cast_signed() } else { value.cast_signed() };
    for seed in 0..40 {
        let f = numbers(p, seed);
        // Numbers above -q and below q count.
        let mut low = Poly(core::array::from_fn(|i| {
            f[i].cast_signed() - if i % 3 == 0 && f[i] > 0 { Q.cast_signed() } else { 0 }
        }));
        let (mut again, mut high) = (low, Poly::ZERO);
        machine.decompose(p.gamma2, &mut low, &mut high);
        for (f, (high, low)) in f.iter().zip(high.0.iter().zip(&low.0)) {
            let (r1, r0) = decompose(p, *f);
            assert_eq!((*high, *low), (r1.cast_signed(), centered(r0)), "{f}");
        }
        let mut t1 = Poly::ZERO;
        machine.power2_round(&mut again, &mut t1);
        for (f, (t1, t0)) in f.iter().zip(t1.0.iter().zip(&again.0)) {
            assert_eq!((t1 << 13) + t0, f.cast_signed());
            assert!((-4095..=4096).contains(t0));
        }
        // A change of the low bits, up to just beyond gamma2.
        let changes = numbers(p, seed + 100).map(|value| value % 5);
        let mut hints = Poly(core::array::from_fn(|i| {
            let edge = p.gamma2.cast_signed() + changes[i].cast_signed() - 2;
            [edge, -edge, low.0[i] / 2][i % 3]
        }));
        let expected: [i32; N] = core::array::from_fn(|i| {
            let moved = (f[i] + Q + Q.wrapping_add_signed(hints.0[i] - low.0[i])) % Q;
            i32::from(high_bits(p, moved) != high_bits(p, f[i]))
        });
        machine.make_hint(p.gamma2, &mut hints, &high);
        assert_eq!(hints.0, expected);
    }
}

fn checks_and_packing<M: Machine>(machine: M, set: MlDsaSet) {
    let p = set.parameters();
    for at in [0, 1, 7, 8, 15, 16, 128, 254, 255] {
        for value in [99, 100, 101, -99, -100, -101] {
            let mut f = Poly::ZERO;
            f.0[at] = value;
            assert_eq!(machine.is_below(&f, 100), value.abs() < 100, "{value} at {at}");
        }
    }
    let gamma1 = p.gamma1().cast_signed();
    let f = Poly(numbers(p, 7).map(|value| gamma1 - (value % (2 * p.gamma1())).cast_signed()));
    let mut bytes = vec![0; p.z_bytes() + 32];
    pack(&f, p.z_bits(), Some(gamma1), &mut bytes[..p.z_bytes()]);
    let mut back = Poly::ZERO;
    machine.unpack_z(&bytes, p.gamma1_bits, &mut back);
    assert_eq!(back.0, f.0);
    assert_eq!(
        simple_bit_unpack(&bytes[..p.z_bytes()], p.z_bits()).map(u32::cast_signed),
        f.0.map(|value| gamma1 - value)
    );
    for bits in [3, 4, 6, 10, 13] {
        let f = numbers(p, 9).map(|value| value % (1 << bits));
        let mut bytes = vec![0; N / 8 * bits as usize];
        pack(&signed(&f), bits, None, &mut bytes);
        assert_eq!(simple_bit_unpack(&bytes, bits), f, "{bits} bits");
    }
}

/// Candidates around q, which stand for three bytes each.
fn uniform<M: Machine>(machine: M) {
    let values: [u32; 56] =
        core::array::from_fn(|i| [Q - 1, Q, Q + 1, 0, (1 << 23) - 1, 77][i * i % 6] | 1 << 23);
    let block: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()[..3].to_vec()).collect();
    let mut found = [0; N + 80];
    let count = machine.uniform(&block, &mut found, 3);
    let expected: Vec<i32> = values
        .iter()
        .map(|value| (value & 0x7f_ffff).cast_signed())
        .filter(|value| *value < Q.cast_signed())
        .collect();
    assert_eq!(found[3..count], expected);
}

fn streams<M: Machine>(machine: M) {
    let messages: [[u8; 300]; STREAMS_MAX] = core::array::from_fn(|n| hash(SHAKE256, &[&[n as u8]]));
    for bytes in [0, 1, 64, 135, 136, 137, 272, 300] {
        let views: Vec<&[u8]> = messages[..M::STREAMS].iter().map(|message| &message[..bytes]).collect();
        let mut outputs = [[0; 64]; STREAMS_MAX];
        machine.hash(SHAKE256, &views, &mut outputs);
        for (view, output) in views.iter().zip(&outputs) {
            assert_eq!(*output, hash::<64>(SHAKE256, &[view]), "{bytes} bytes");
        }
    }
    let seeds: Vec<_> =
        (0..M::STREAMS).map(|n| (&messages[n][..64], (n % 2 == 0).then_some(n as u16 * 300))).collect();
    let mut rows = [[0; ROW_BYTES]; STREAMS_MAX];
    let mut states = machine.streams(SHAKE256, &seeds);
    machine.squeeze(&mut states, SHAKE256, 5, &mut rows);
    for ((seed, number), row) in seeds.iter().zip(&rows) {
        let number = number.map_or(Vec::new(), |number| number.to_le_bytes().to_vec());
        assert_eq!(row[..680], hash::<680>(SHAKE256, &[seed, &number]));
    }
}

#[test]
fn transforms_products_and_their_bounds_are_the_references() {
    on_every_machine!(transforms_and_products());
}

#[test]
fn rounding_and_hints_are_the_references() {
    for set in [MlDsaSet::MlDsa44, MlDsaSet::MlDsa65] {
        on_every_machine!(rounding_and_hints(set));
    }
}

#[test]
fn checks_and_packing_are_exact() {
    for set in [MlDsaSet::MlDsa44, MlDsaSet::MlDsa65] {
        on_every_machine!(checks_and_packing(set));
    }
}

#[test]
fn streams_and_candidates_are_the_references() {
    on_every_machine!(streams());
    on_every_machine!(uniform());
}

#[test]
fn hints_are_packed_and_read_as_the_reference_does() {
    for set in MlDsaSet::ALL {
        let p = set.parameters();
        for seed in 0..60u8 {
            // One byte in two is altered: in the places, or in the ends.
            let random = hash::<200>(SHAKE256, &[&[seed]]);
            let mut hints = vec![Poly::ZERO; p.k];
            let count = usize::from(random[0]) % (p.omega + 1);
            for n in 0..count {
                hints[usize::from(random[1 + n]) % p.k].0[usize::from(random[100 + n])] = 1;
            }
            let mut bytes = vec![0xa5; p.omega + p.k];
            pack_hints(p, &hints, &mut bytes);
            if seed % 2 == 1 {
                let at = (usize::from(random[190]) + 256 * usize::from(random[191])) % bytes.len();
                bytes[at] ^= 1 << (random[192] % 8);
            }
            let mut found = vec![[false; N]; p.k];
            let is_read = unpack_hints(p, &bytes, |i, j| found[i][j] = true);
            let expected = reference::hint_bit_unpack(p, &bytes);
            assert_eq!(is_read, expected.is_some());
            if let Some(expected) = expected {
                assert!(found == expected);
                let are_given =
                    hints.iter().zip(&found).all(|(hint, found)| hint.0.map(|one| one == 1) == *found);
                assert!(are_given || seed % 2 == 1);
            }
        }
    }
}
