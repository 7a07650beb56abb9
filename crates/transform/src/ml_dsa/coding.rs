//! Packed polynomials of prepared operations.
//!
//! No branch and no address depends on a coefficient, except in hints, which are public (a test names the function,
//! so it is not inlined).

use super::arithmetic::Poly;
use super::parameters::Parameters;

/// SimpleBitPack, algorithm 16, of coefficients below 2^`BITS`.
#[inline]
fn pack_bits<const BITS: usize>(f: &Poly, of: impl Fn(i32) -> i32, output: &mut [u8]) {
    // Eight coefficients have whole bytes: as many as bits of one.
    for (values, bytes) in f.0.as_chunks::<8>().0.iter().zip(output.as_chunks_mut::<BITS>().0) {
        let all = values
            .iter()
            .enumerate()
            .fold(0u128, |all, (n, value)| all | u128::from(of(*value).cast_unsigned()) << (n * BITS % 128));
        if BITS <= 16 {
            bytes.copy_from_slice(&all.to_le_bytes()[..BITS]);
            continue;
        }
        // Eight of more than sixteen bits are two halves of four.
        let half = |values: &[i32]| {
            values
                .iter()
                .enumerate()
                .fold(0u128, |all, (n, value)| all | u128::from(of(*value).cast_unsigned()) << (n * BITS))
        };
        let (low, high) = bytes.split_at_mut(BITS / 2);
        low.copy_from_slice(&half(&values[..4]).to_le_bytes()[..BITS / 2]);
        high.copy_from_slice(&half(&values[4..]).to_le_bytes()[..BITS / 2]);
    }
}

/// SimpleBitPack of t1 and w1, BitPack of secrets: coefficients of `bits` bits, taken from `from` if there is one.
pub(crate) fn pack(f: &Poly, bits: u32, from: Option<i32>, output: &mut [u8]) {
    let sign = if from.is_some() { -1 } else { 1 };
    let first = from.unwrap_or(0);
    let of = |value: i32| first + sign * value;
    match bits {
        3 => pack_bits::<3>(f, of, output),
        4 => pack_bits::<4>(f, of, output),
        6 => pack_bits::<6>(f, of, output),
        10 => pack_bits::<10>(f, of, output),
        13 => pack_bits::<13>(f, of, output),
        18 => pack_bits::<18>(f, of, output),
        _ => pack_bits::<20>(f, of, output),
    }
}

/// HintBitPack, algorithm 20, of polynomials of zeros and ones, at most omega of them.
#[inline(never)]
pub(crate) fn pack_hints(p: &Parameters, hints: &[Poly], output: &mut [u8]) {
    output.fill(0);
    let mut index = 0;
    for (i, hint) in hints.iter().enumerate() {
        for (j, _) in hint.0.iter().enumerate().filter(|(_, is_set)| **is_set != 0) {
            output[index] = j as u8;
            index += 1;
        }
        output[p.omega + i] = index as u8;
    }
}

/// HintBitUnpack, algorithm 21: calls `each` for the place of every hint, by polynomial and coefficient; returns
/// whether the encoding is well-formed.
pub(crate) fn unpack_hints(p: &Parameters, bytes: &[u8], mut each: impl FnMut(usize, usize)) -> bool {
    let mut index = 0;
    for i in 0..p.k {
        let end = usize::from(bytes[p.omega + i]);
        if end < index || end > p.omega || !bytes[index..end].is_sorted_by(|one, next| one < next) {
            return false;
        }
        bytes[index..end].iter().for_each(|j| each(i, usize::from(*j)));
        index = end;
    }
    bytes[index..p.omega].iter().all(|byte| *byte == 0)
}
