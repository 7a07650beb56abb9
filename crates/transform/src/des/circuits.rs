//! The DES S-boxes as circuits of three-input gates, one `vpternlog` each on AVX-512.
//!
//! They were found by our own search (a randomised form of Kwan's recursion over three-input functions); the tests
//! verify them over all 64 inputs. `[a, b, c, d, e, f]` are the six bits of a row of E, most significant first; the
//! four outputs likewise.

use crate::simd::Bits;

/// S1: 26 gates.
#[inline(always)]
pub(crate) fn s1<V: Bits>([a, b, c, d, e, f]: [V; 6]) -> [V; 4] {
    let g1 = V::gate::<0x21>(a, d, f);
    let g2 = V::gate::<0xa5>(b, d, f);
    let g3 = V::gate::<0x96>(g2, g1, d);
    let g4 = V::gate::<0x3e>(g3, d, f);
    let g5 = V::gate::<0x29>(g3, g1, a);
    let g6 = V::gate::<0x96>(g4, a, f);
    let g7 = V::gate::<0x95>(g6, g3, f);
    let g8 = V::gate::<0x1b>(g7, g5, e);
    let g9 = V::gate::<0xb1>(g7, g6, b);
    let g10 = V::gate::<0xbd>(g8, g3, b);
    let g11 = V::gate::<0xb1>(g9, g3, e);
    let g12 = V::gate::<0x97>(g10, g5, c);
    let g13 = V::gate::<0xe4>(g11, g8, c);
    let g14 = V::gate::<0x87>(g12, g4, g2);
    let g15 = V::gate::<0x69>(g14, g9, g4);
    let g16 = V::gate::<0xc1>(g14, g13, g5);
    let g17 = V::gate::<0xc6>(g15, g6, c);
    let g18 = V::gate::<0x72>(g17, g12, e);
    let g19 = V::gate::<0x8c>(g18, g10, g6);
    let g20 = V::gate::<0x6d>(g19, g7, c);
    let g21 = V::gate::<0xd3>(g19, g13, g5);
    let g22 = V::gate::<0xd8>(g20, g16, e);
    let g23 = V::gate::<0x96>(g21, a, e);
    let g24 = V::gate::<0x43>(g22, g13, e);
    let g25 = V::gate::<0x96>(g24, g18, b);
    let g26 = V::gate::<0xd8>(g25, g23, f);
    [g26, g22, g13, g18]
}

/// S2: 27 gates.
#[inline(always)]
pub(crate) fn s2<V: Bits>([a, b, c, d, e, f]: [V; 6]) -> [V; 4] {
    let g1 = V::gate::<0xac>(a, b, e);
    let g2 = V::gate::<0x19>(a, e, f);
    let g3 = V::gate::<0x90>(g1, a, f);
    let g4 = V::gate::<0x05>(a, b, e);
    let g5 = V::gate::<0xe1>(g3, g1, d);
    let g6 = V::gate::<0x93>(a, b, d);
    let g7 = V::gate::<0x36>(g4, g2, b);
    let g8 = V::gate::<0x58>(g5, a, d);
    let g9 = V::gate::<0x48>(g5, g6, e);
    let g10 = V::gate::<0x1e>(g7, g3, c);
    let g11 = V::gate::<0x36>(g8, g6, g2);
    let g12 = V::gate::<0x36>(g9, g10, d);
    let g13 = V::gate::<0x1e>(g11, g8, f);
    let g14 = V::gate::<0xc0>(g7, g6, c);
    let g15 = V::gate::<0xeb>(g13, g12, b);
    let g16 = V::gate::<0xf6>(g12, g14, e);
    let g17 = V::gate::<0x96>(g7, c, e);
    let g18 = V::gate::<0xe3>(g16, g7, b);
    let g19 = V::gate::<0x69>(g15, g16, g17);
    let g20 = V::gate::<0x4b>(g14, g2, d);
    let g21 = V::gate::<0x35>(g19, g18, g10);
    let g22 = V::gate::<0x97>(g20, g3, c);
    let g23 = V::gate::<0x2c>(g21, g13, a);
    let g24 = V::gate::<0x4b>(g11, g20, c);
    let g25 = V::gate::<0x36>(g23, g22, g6);
    let g26 = V::gate::<0x78>(g19, g18, a);
    let g27 = V::gate::<0x2d>(g25, g15, g16);
    [g12, g27, g24, g26]
}

/// S3: 26 gates.
#[inline(always)]
pub(crate) fn s3<V: Bits>([a, b, c, d, e, f]: [V; 6]) -> [V; 4] {
    let g1 = V::gate::<0x95>(b, c, f);
    let g2 = V::gate::<0x69>(a, b, c);
    let g3 = V::gate::<0x27>(g2, g1, a);
    let g4 = V::gate::<0x36>(g1, c, f);
    let g5 = V::gate::<0xca>(g4, g3, g2);
    let g6 = V::gate::<0xe4>(g3, c, d);
    let g7 = V::gate::<0xb1>(g5, g3, e);
    let g8 = V::gate::<0x66>(g4, g2, f);
    let g9 = V::gate::<0x96>(g7, g1, a);
    let g10 = V::gate::<0x16>(g7, a, d);
    let g11 = V::gate::<0x7a>(g9, g6, e);
    let g12 = V::gate::<0x8d>(g10, g6, b);
    let g13 = V::gate::<0x6c>(g11, g7, d);
    let g14 = V::gate::<0x87>(g8, c, e);
    let g15 = V::gate::<0x90>(g13, g5, f);
    let g16 = V::gate::<0x34>(g13, g6, f);
    let g17 = V::gate::<0x4b>(g15, g12, g10);
    let g18 = V::gate::<0x56>(g16, g10, b);
    let g19 = V::gate::<0x24>(g17, g6, c);
    let g20 = V::gate::<0xec>(g7, d, f);
    let g21 = V::gate::<0x9c>(g12, g8, e);
    let g22 = V::gate::<0x0b>(g19, g1, e);
    let g23 = V::gate::<0x4c>(g18, g14, b);
    let g24 = V::gate::<0x2d>(g21, g20, a);
    let g25 = V::gate::<0x6c>(g22, g23, d);
    let g26 = V::gate::<0x72>(g18, g17, g24);
    [g13, g25, g26, g24]
}

/// S4: 19 gates.
#[inline(always)]
pub(crate) fn s4<V: Bits>([a, b, c, d, e, f]: [V; 6]) -> [V; 4] {
    let g1 = V::gate::<0x69>(a, c, e);
    let g2 = V::gate::<0x62>(a, c, e);
    let g3 = V::gate::<0x5e>(g2, g1, d);
    let g4 = V::gate::<0x85>(g3, b, c);
    let g5 = V::gate::<0x5e>(g4, g1, e);
    let g6 = V::gate::<0x62>(g5, b, d);
    let g7 = V::gate::<0xc1>(g6, d, e);
    let g8 = V::gate::<0xe7>(g7, g4, g2);
    let g9 = V::gate::<0x3e>(g7, g3, c);
    let g10 = V::gate::<0x96>(g8, g1, b);
    let g11 = V::gate::<0x5c>(g10, g5, c);
    let g12 = V::gate::<0x9c>(g10, g9, g6);
    let g13 = V::gate::<0x9c>(g11, g9, d);
    let g14 = V::gate::<0x67>(g11, g4, b);
    let g15 = V::gate::<0xc6>(g13, g4, f);
    let g16 = V::gate::<0x1b>(g14, g12, f);
    let g17 = V::gate::<0x96>(g15, g10, d);
    let g18 = V::gate::<0x8d>(g14, g12, f);
    let g19 = V::gate::<0x69>(g17, g13, f);
    [g16, g18, g19, g17]
}

/// S5: 25 gates.
#[inline(always)]
pub(crate) fn s5<V: Bits>([a, b, c, d, e, f]: [V; 6]) -> [V; 4] {
    let g1 = V::gate::<0x49>(a, c, e);
    let g2 = V::gate::<0x67>(a, c, f);
    let g3 = V::gate::<0xed>(g1, a, f);
    let g4 = V::gate::<0x69>(g1, b, f);
    let g5 = V::gate::<0x93>(g3, g2, e);
    let g6 = V::gate::<0xa6>(g4, g3, e);
    let g7 = V::gate::<0x6a>(g5, g3, f);
    let g8 = V::gate::<0x86>(b, c, d);
    let g9 = V::gate::<0xd8>(g7, g4, g2);
    let g10 = V::gate::<0x41>(g1, d, e);
    let g11 = V::gate::<0xd2>(g9, a, b);
    let g12 = V::gate::<0xc7>(g7, g10, g8);
    let g13 = V::gate::<0x72>(g11, g4, d);
    let g14 = V::gate::<0x4e>(g12, g5, d);
    let g15 = V::gate::<0x6d>(g13, g6, d);
    let g16 = V::gate::<0x4d>(g15, g1, b);
    let g17 = V::gate::<0xac>(g15, d, f);
    let g18 = V::gate::<0x74>(g16, g13, g3);
    let g19 = V::gate::<0x93>(g15, g14, b);
    let g20 = V::gate::<0x49>(g18, g4, g8);
    let g21 = V::gate::<0x78>(g20, g17, g5);
    let g22 = V::gate::<0xda>(g21, g17, g10);
    let g23 = V::gate::<0xac>(g22, a, b);
    let g24 = V::gate::<0xe1>(g23, g21, e);
    let g25 = V::gate::<0x96>(g24, g19, g13);
    [g25, g13, g19, g21]
}

/// S6: 26 gates.
#[inline(always)]
pub(crate) fn s6<V: Bits>([a, b, c, d, e, f]: [V; 6]) -> [V; 4] {
    let g1 = V::gate::<0xb2>(a, b, d);
    let g2 = V::gate::<0x5c>(a, b, f);
    let g3 = V::gate::<0x69>(a, d, e);
    let g4 = V::gate::<0x09>(g2, g1, c);
    let g5 = V::gate::<0x96>(g3, b, f);
    let g6 = V::gate::<0x38>(g4, b, c);
    let g7 = V::gate::<0x1b>(g6, g5, a);
    let g8 = V::gate::<0xe0>(a, b, d);
    let g9 = V::gate::<0x36>(g7, g4, f);
    let g10 = V::gate::<0xc6>(g8, g1, e);
    let g11 = V::gate::<0x39>(g9, g5, e);
    let g12 = V::gate::<0xe4>(g10, g3, f);
    let g13 = V::gate::<0xb4>(g11, g2, c);
    let g14 = V::gate::<0x96>(g6, g8, f);
    let g15 = V::gate::<0x4b>(g13, g9, g1);
    let g16 = V::gate::<0x70>(g12, g5, f);
    let g17 = V::gate::<0xe8>(g15, g14, g12);
    let g18 = V::gate::<0x36>(g16, g5, e);
    let g19 = V::gate::<0x94>(g17, g9, g16);
    let g20 = V::gate::<0x8d>(g18, g12, c);
    let g21 = V::gate::<0x4e>(g19, g14, e);
    let g22 = V::gate::<0x1e>(g19, b, c);
    let g23 = V::gate::<0x4d>(g21, g12, c);
    let g24 = V::gate::<0xca>(g23, g22, g18);
    let g25 = V::gate::<0xf1>(g24, g7, g8);
    let g26 = V::gate::<0xb4>(g25, g9, a);
    [g20, g21, g13, g26]
}

/// S7: 27 gates.
#[inline(always)]
pub(crate) fn s7<V: Bits>([a, b, c, d, e, f]: [V; 6]) -> [V; 4] {
    let g1 = V::gate::<0x6d>(c, d, e);
    let g2 = V::gate::<0xd9>(c, d, e);
    let g3 = V::gate::<0x69>(g1, a, c);
    let g4 = V::gate::<0x87>(g2, g1, a);
    let g5 = V::gate::<0xb1>(g4, g3, f);
    let g6 = V::gate::<0xde>(g3, b, f);
    let g7 = V::gate::<0x5b>(g6, g5, c);
    let g8 = V::gate::<0x6a>(g1, a, c);
    let g9 = V::gate::<0xd8>(g7, g5, b);
    let g10 = V::gate::<0xe9>(a, c, d);
    let g11 = V::gate::<0xac>(g8, g1, c);
    let g12 = V::gate::<0xba>(g9, g1, d);
    let g13 = V::gate::<0xd2>(g11, g10, b);
    let g14 = V::gate::<0x62>(g12, g8, e);
    let g15 = V::gate::<0x3e>(g9, g13, a);
    let g16 = V::gate::<0x53>(g7, g3, g2);
    let g17 = V::gate::<0x78>(g14, g15, f);
    let g18 = V::gate::<0xb1>(g16, g4, f);
    let g19 = V::gate::<0xb4>(g17, g10, b);
    let g20 = V::gate::<0x42>(g17, g8, g1);
    let g21 = V::gate::<0x96>(g18, g7, e);
    let g22 = V::gate::<0x2c>(g19, g16, g6);
    let g23 = V::gate::<0x81>(g12, g4, g3);
    let g24 = V::gate::<0x39>(g20, g21, b);
    let g25 = V::gate::<0xb6>(g22, g15, g4);
    let g26 = V::gate::<0x36>(g23, g18, b);
    let g27 = V::gate::<0x6c>(g25, g24, a);
    [g26, g19, g27, g9]
}

/// S8: 22 gates.
#[inline(always)]
pub(crate) fn s8<V: Bits>([a, b, c, d, e, f]: [V; 6]) -> [V; 4] {
    let g1 = V::gate::<0x1e>(a, d, e);
    let g2 = V::gate::<0x86>(a, d, e);
    let g3 = V::gate::<0x10>(a, b, e);
    let g4 = V::gate::<0x4e>(g2, g1, b);
    let g5 = V::gate::<0x1e>(g4, g3, c);
    let g6 = V::gate::<0x43>(g1, c, e);
    let g7 = V::gate::<0x2e>(g5, g6, b);
    let g8 = V::gate::<0xfb>(g1, a, f);
    let g9 = V::gate::<0x6c>(g7, c, d);
    let g10 = V::gate::<0x63>(g6, g2, e);
    let g11 = V::gate::<0x56>(g9, g8, b);
    let g12 = V::gate::<0x73>(g5, g8, d);
    let g13 = V::gate::<0x1a>(g11, g5, a);
    let g14 = V::gate::<0x96>(g13, g10, f);
    let g15 = V::gate::<0x69>(g14, g9, g1);
    let g16 = V::gate::<0x80>(g14, g12, b);
    let g17 = V::gate::<0xbf>(g15, g8, g6);
    let g18 = V::gate::<0x86>(g16, g8, g6);
    let g19 = V::gate::<0xd2>(g17, g15, g12);
    let g20 = V::gate::<0x96>(g18, b, d);
    let g21 = V::gate::<0xd8>(g19, g5, f);
    let g22 = V::gate::<0xb1>(g15, g5, f);
    [g21, g14, g20, g22]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::des::s_box;

    #[test]
    fn every_circuit_on_every_input() {
        // Bit v of plane i is bit i of the input v.
        let inputs: [u64; 6] =
            core::array::from_fn(|i| (0..64).fold(0, |plane, v: u64| plane | (v >> (5 - i) & 1) << v));
        let circuits = [s1, s2, s3, s4, s5, s6, s7, s8];
        for (number, circuit) in circuits.into_iter().enumerate() {
            let outputs = circuit(inputs);
            for v in 0..64 {
                let got = outputs.iter().fold(0, |bits, plane| bits << 1 | (plane >> v & 1));
                assert_eq!(got, u64::from(s_box(number, v)), "S{} of {v}", number + 1);
            }
        }
    }
}
