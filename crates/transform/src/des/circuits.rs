//! The DES S-boxes as circuits of three-input gates, one `vpternlog` each on AVX-512.
//!
//! Found by our own search (a randomised form of Kwan's recursion over three-input functions), which the tests
//! verify over all 64 inputs. `[a, b, c, d, e, f]` are the six bits of a row of E, most significant first; the
//! four outputs likewise.

use crate::simd::Bits;

/// S1: 28 gates.
#[inline(always)]
pub(crate) fn s1<V: Bits>([a, b, c, d, e, f]: [V; 6]) -> [V; 4] {
    let g1 = V::lut::<0x46>(f, a, b);
    let g2 = V::lut::<0x17>(g1, f, b);
    let g3 = V::lut::<0xca>(d, g1, g2);
    let g4 = V::lut::<0x35>(d, f, a);
    let g5 = V::lut::<0x12>(g4, e, b);
    let g6 = V::lut::<0x4a>(e, g3, g5);
    let g7 = V::lut::<0x38>(b, g3, f);
    let g8 = V::lut::<0x69>(d, f, b);
    let g9 = V::lut::<0x5e>(g8, g1, a);
    let g10 = V::lut::<0xca>(e, g7, g9);
    let g11 = V::lut::<0xca>(c, g6, g10);
    let g12 = V::lut::<0x06>(g4, g10, b);
    let g13 = V::lut::<0x29>(g12, g9, c);
    let g14 = V::lut::<0x56>(g2, f, g3);
    let g15 = V::lut::<0xbc>(g14, b, a);
    let g16 = V::lut::<0x65>(a, g4, g3);
    let g17 = V::lut::<0xac>(c, g15, g16);
    let g18 = V::lut::<0xca>(e, g13, g17);
    let g19 = V::lut::<0x69>(g1, g18, g2);
    let g20 = V::lut::<0xa4>(g19, g9, g11);
    let g21 = V::lut::<0x51>(g15, g18, g12);
    let g22 = V::lut::<0x97>(g21, c, g7);
    let g23 = V::lut::<0xca>(e, g20, g22);
    let g24 = V::lut::<0x19>(e, g11, g23);
    let g25 = V::lut::<0x96>(g24, b, g18);
    let g26 = V::lut::<0x61>(g11, g21, g9);
    let g27 = V::lut::<0x96>(g26, g8, e);
    let g28 = V::lut::<0xac>(f, g25, g27);
    [g28, g23, g11, g18]
}

/// S2: 27 gates.
#[inline(always)]
pub(crate) fn s2<V: Bits>([a, b, c, d, e, f]: [V; 6]) -> [V; 4] {
    let g1 = V::lut::<0xbc>(e, f, a);
    let g2 = V::lut::<0x46>(e, f, a);
    let g3 = V::lut::<0xca>(b, g1, g2);
    let g4 = V::lut::<0x32>(g3, a, b);
    let g5 = V::lut::<0xa7>(g4, e, f);
    let g6 = V::lut::<0xc6>(c, g3, g5);
    let g7 = V::lut::<0x3b>(f, e, a);
    let g8 = V::lut::<0x65>(g7, b, g6);
    let g9 = V::lut::<0xca>(d, g6, g8);
    let g10 = V::lut::<0x95>(a, d, b);
    let g11 = V::lut::<0x71>(f, d, g7);
    let g12 = V::lut::<0xbc>(g11, b, g2);
    let g13 = V::lut::<0xac>(g1, g10, g12);
    let g14 = V::lut::<0x77>(g8, g10, g3);
    let g15 = V::lut::<0xe1>(g14, d, g1);
    let g16 = V::lut::<0xc6>(c, g13, g15);
    let g17 = V::lut::<0x09>(b, d, g8);
    let g18 = V::lut::<0x69>(g17, e, c);
    let g19 = V::lut::<0x5c>(g2, g18, g10);
    let g20 = V::lut::<0x14>(e, g14, g9);
    let g21 = V::lut::<0x96>(g20, g18, g3);
    let g22 = V::lut::<0xca>(a, g19, g21);
    let g23 = V::lut::<0x6b>(g15, c, g5);
    let g24 = V::lut::<0xb4>(g23, g17, g20);
    let g25 = V::lut::<0x6b>(g19, g4, g6);
    let g26 = V::lut::<0x49>(g25, g21, g17);
    let g27 = V::lut::<0xc6>(g10, g24, g26);
    [g9, g27, g16, g22]
}

/// S3: 27 gates.
#[inline(always)]
pub(crate) fn s3<V: Bits>([a, b, c, d, e, f]: [V; 6]) -> [V; 4] {
    let g1 = V::lut::<0x93>(b, f, c);
    let g2 = V::lut::<0x99>(g1, b, c);
    let g3 = V::lut::<0xca>(a, g1, g2);
    let g4 = V::lut::<0x4e>(a, g3, c);
    let g5 = V::lut::<0x87>(g4, g1, f);
    let g6 = V::lut::<0xac>(e, g3, g5);
    let g7 = V::lut::<0x16>(g1, a, e);
    let g8 = V::lut::<0xf2>(g7, g6, g3);
    let g9 = V::lut::<0xac>(d, g6, g8);
    let g10 = V::lut::<0x75>(a, g8, f);
    let g11 = V::lut::<0x5a>(g10, b, g2);
    let g12 = V::lut::<0x69>(f, a, g2);
    let g13 = V::lut::<0xac>(d, g11, g12);
    let g14 = V::lut::<0xe9>(d, g6, a);
    let g15 = V::lut::<0x74>(c, d, g3);
    let g16 = V::lut::<0xac>(b, g14, g15);
    let g17 = V::lut::<0xc6>(e, g13, g16);
    let g18 = V::lut::<0x7d>(f, g5, g9);
    let g19 = V::lut::<0x87>(g18, g14, g16);
    let g20 = V::lut::<0x1c>(g15, g9, f);
    let g21 = V::lut::<0x39>(g20, b, g14);
    let g22 = V::lut::<0xca>(g17, g19, g21);
    let g23 = V::lut::<0x6a>(e, c, g12);
    let g24 = V::lut::<0x70>(g23, g21, b);
    let g25 = V::lut::<0x42>(g15, g19, c);
    let g26 = V::lut::<0x0b>(g25, g1, e);
    let g27 = V::lut::<0x6c>(d, g24, g26);
    [g9, g27, g22, g17]
}

/// S4: 22 gates.
#[inline(always)]
pub(crate) fn s4<V: Bits>([a, b, c, d, e, f]: [V; 6]) -> [V; 4] {
    let g1 = V::lut::<0x9e>(e, c, a);
    let g2 = V::lut::<0x6c>(b, g1, c);
    let g3 = V::lut::<0x01>(d, g2, g1);
    let g4 = V::lut::<0xd6>(g3, b, e);
    let g5 = V::lut::<0xca>(d, g2, g4);
    let g6 = V::lut::<0x7e>(g1, a, b);
    let g7 = V::lut::<0x52>(g6, g2, c);
    let g8 = V::lut::<0x62>(a, c, e);
    let g9 = V::lut::<0x85>(g8, g6, b);
    let g10 = V::lut::<0xac>(d, g7, g9);
    let g11 = V::lut::<0x6c>(f, g5, g10);
    let g12 = V::lut::<0x67>(g1, g8, d);
    let g13 = V::lut::<0x84>(g12, b, c);
    let g14 = V::lut::<0x94>(g5, g12, g4);
    let g15 = V::lut::<0xc2>(b, g13, g14);
    let g16 = V::lut::<0x2d>(g1, g13, a);
    let g17 = V::lut::<0x60>(g16, g2, d);
    let g18 = V::lut::<0x86>(g12, g2, g6);
    let g19 = V::lut::<0x6c>(g5, g17, g18);
    let g20 = V::lut::<0xca>(f, g15, g19);
    let g21 = V::lut::<0x96>(g10, f, g11);
    let g22 = V::lut::<0x2e>(g19, f, g15);
    [g20, g22, g21, g11]
}

/// S5: 27 gates.
#[inline(always)]
pub(crate) fn s5<V: Bits>([a, b, c, d, e, f]: [V; 6]) -> [V; 4] {
    let g1 = V::lut::<0x3d>(f, c, a);
    let g2 = V::lut::<0xed>(c, a, f);
    let g3 = V::lut::<0x6c>(e, g1, g2);
    let g4 = V::lut::<0x56>(g3, a, e);
    let g5 = V::lut::<0xd6>(g4, c, g2);
    let g6 = V::lut::<0xac>(d, g3, g5);
    let g7 = V::lut::<0x6f>(g4, a, g6);
    let g8 = V::lut::<0xbc>(g7, d, e);
    let g9 = V::lut::<0x6c>(b, g6, g8);
    let g10 = V::lut::<0x61>(c, a, e);
    let g11 = V::lut::<0x96>(g10, f, b);
    let g12 = V::lut::<0x35>(g1, g11, g5);
    let g13 = V::lut::<0xd2>(g12, a, b);
    let g14 = V::lut::<0xca>(d, g11, g13);
    let g15 = V::lut::<0x6d>(c, b, d);
    let g16 = V::lut::<0xa4>(g15, g7, g11);
    let g17 = V::lut::<0x28>(g15, f, g9);
    let g18 = V::lut::<0x6b>(g17, g1, g16);
    let g19 = V::lut::<0xca>(a, g16, g18);
    let g20 = V::lut::<0x46>(g9, f, g12);
    let g21 = V::lut::<0x5a>(g20, g6, g15);
    let g22 = V::lut::<0xca>(g3, g19, g21);
    let g23 = V::lut::<0x1b>(b, a, g22);
    let g24 = V::lut::<0x69>(g23, g14, g9);
    let g25 = V::lut::<0x18>(a, g21, g11);
    let g26 = V::lut::<0xc9>(g25, g22, g24);
    let g27 = V::lut::<0xca>(e, g24, g26);
    [g27, g14, g9, g22]
}

/// S6: 27 gates.
#[inline(always)]
pub(crate) fn s6<V: Bits>([a, b, c, d, e, f]: [V; 6]) -> [V; 4] {
    let g1 = V::lut::<0x69>(e, d, a);
    let g2 = V::lut::<0xd4>(a, d, b);
    let g3 = V::lut::<0x59>(d, g2, a);
    let g4 = V::lut::<0x6c>(e, g2, g3);
    let g5 = V::lut::<0xac>(f, g1, g4);
    let g6 = V::lut::<0x96>(f, g1, b);
    let g7 = V::lut::<0xb3>(f, g5, g6);
    let g8 = V::lut::<0xc6>(e, g6, g7);
    let g9 = V::lut::<0xca>(c, g5, g8);
    let g10 = V::lut::<0x4e>(f, b, a);
    let g11 = V::lut::<0x63>(g10, g6, c);
    let g12 = V::lut::<0x41>(g2, c, g10);
    let g13 = V::lut::<0x48>(g11, e, g2);
    let g14 = V::lut::<0x68>(g13, g3, c);
    let g15 = V::lut::<0xca>(f, g12, g14);
    let g16 = V::lut::<0x6c>(e, g11, g15);
    let g17 = V::lut::<0x2c>(b, g12, c);
    let g18 = V::lut::<0x69>(g17, g3, f);
    let g19 = V::lut::<0x17>(g18, g13, g5);
    let g20 = V::lut::<0xd6>(g19, g15, g7);
    let g21 = V::lut::<0xac>(e, g18, g20);
    let g22 = V::lut::<0x1e>(g8, e, c);
    let g23 = V::lut::<0x1c>(g6, g20, g8);
    let g24 = V::lut::<0xac>(b, g22, g23);
    let g25 = V::lut::<0x52>(g8, g5, g15);
    let g26 = V::lut::<0x6b>(g25, d, g1);
    let g27 = V::lut::<0xc6>(a, g24, g26);
    [g9, g21, g16, g27]
}

/// S7: 27 gates.
#[inline(always)]
pub(crate) fn s7<V: Bits>([a, b, c, d, e, f]: [V; 6]) -> [V; 4] {
    let g1 = V::lut::<0x52>(e, c, d);
    let g2 = V::lut::<0x6b>(e, c, d);
    let g3 = V::lut::<0x6c>(a, g1, g2);
    let g4 = V::lut::<0x96>(a, c, g2);
    let g5 = V::lut::<0xca>(f, g3, g4);
    let g6 = V::lut::<0x06>(b, g4, f);
    let g7 = V::lut::<0xb5>(g6, g5, c);
    let g8 = V::lut::<0xca>(b, g5, g7);
    let g9 = V::lut::<0x53>(g7, g4, g1);
    let g10 = V::lut::<0xe2>(g9, f, g3);
    let g11 = V::lut::<0x23>(g8, d, g2);
    let g12 = V::lut::<0xdb>(g11, g3, g4);
    let g13 = V::lut::<0xc6>(b, g10, g12);
    let g14 = V::lut::<0x27>(g1, g4, g2);
    let g15 = V::lut::<0x1a>(g14, g11, e);
    let g16 = V::lut::<0xe9>(d, c, a);
    let g17 = V::lut::<0xc6>(b, g15, g16);
    let g18 = V::lut::<0x59>(g16, b, g8);
    let g19 = V::lut::<0x83>(g2, g14, g8);
    let g20 = V::lut::<0xc6>(c, g18, g19);
    let g21 = V::lut::<0x6c>(f, g17, g20);
    let g22 = V::lut::<0x96>(g10, g7, e);
    let g23 = V::lut::<0xe7>(g2, g14, g21);
    let g24 = V::lut::<0x6c>(b, g22, g23);
    let g25 = V::lut::<0x47>(g5, g21, g20);
    let g26 = V::lut::<0x6b>(g25, g14, g7);
    let g27 = V::lut::<0x6c>(a, g24, g26);
    [g13, g21, g27, g8]
}

/// S8: 27 gates.
#[inline(always)]
pub(crate) fn s8<V: Bits>([a, b, c, d, e, f]: [V; 6]) -> [V; 4] {
    let g1 = V::lut::<0x1e>(a, e, d);
    let g2 = V::lut::<0x79>(a, e, d);
    let g3 = V::lut::<0xac>(b, g1, g2);
    let g4 = V::lut::<0xfd>(b, e, a);
    let g5 = V::lut::<0xc6>(c, g3, g4);
    let g6 = V::lut::<0x39>(c, g2, b);
    let g7 = V::lut::<0x5b>(b, g5, a);
    let g8 = V::lut::<0x2d>(g7, c, e);
    let g9 = V::lut::<0xca>(d, g6, g8);
    let g10 = V::lut::<0xac>(f, g5, g9);
    let g11 = V::lut::<0x19>(e, c, g1);
    let g12 = V::lut::<0x4b>(g11, g5, d);
    let g13 = V::lut::<0x99>(g2, g11, d);
    let g14 = V::lut::<0xca>(b, g12, g13);
    let g15 = V::lut::<0x16>(e, g11, b);
    let g16 = V::lut::<0x5a>(g15, g6, g2);
    let g17 = V::lut::<0xca>(f, g14, g16);
    let g18 = V::lut::<0x26>(b, d, g12);
    let g19 = V::lut::<0x65>(g18, f, g5);
    let g20 = V::lut::<0x42>(g11, a, g14);
    let g21 = V::lut::<0x14>(g20, g7, f);
    let g22 = V::lut::<0x6c>(e, g19, g21);
    let g23 = V::lut::<0x46>(g7, g11, g8);
    let g24 = V::lut::<0xa5>(g23, g10, g2);
    let g25 = V::lut::<0x4e>(g4, g22, g1);
    let g26 = V::lut::<0x7b>(g25, a, g9);
    let g27 = V::lut::<0xc6>(f, g24, g26);
    [g22, g27, g17, g10]
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
