//! ChaCha20's block function as RFC 8439 section 2.3 defines it.

use crate::word::{Plain, Region, Word};

/// Returns the sixteen words of a block: constants, key, counter, nonce.
pub(crate) fn input(key: &[u8; 32], counter: u32, nonce: &[u8; 12]) -> [u32; 16] {
    let word = |bytes: &[u8], i: usize| u32::from_le_bytes(bytes.as_chunks().0[i]);
    core::array::from_fn(|i| match i {
        0..4 => word(b"expand 32-byte k", i),
        4..12 => word(key, i - 4),
        12 => counter,
        _ => word(nonce, i - 13),
    })
}

/// Returns one block of keystream.
pub(crate) fn block<W: Word>(input: &[u32; 16]) -> [u8; 64] {
    let start: [W; 16] = core::array::from_fn(|i| W::load(Region::State.word(i), input[i]));
    let mut s = start;
    let mut quarter = |a: usize, b: usize, c: usize, d: usize| {
        s[a] = s[a] + s[b];
        s[d] = (s[d] ^ s[a]).rotl(16);
        s[c] = s[c] + s[d];
        s[b] = (s[b] ^ s[c]).rotl(12);
        s[a] = s[a] + s[b];
        s[d] = (s[d] ^ s[a]).rotl(8);
        s[c] = s[c] + s[d];
        s[b] = (s[b] ^ s[c]).rotl(7);
    };
    for round in 0..10 {
        quarter(0, 4, 8, 12);
        quarter(1, 5, 9, 13);
        quarter(2, 6, 10, 14);
        quarter(3, 7, 11, 15);
        quarter(0, 5, 10, 15);
        quarter(1, 6, 11, 12);
        quarter(2, 7, 8, 13);
        quarter(3, 4, 9, 14);
        W::branch(round != 9);
    }
    let mut out = [0; 64];
    for (i, bytes) in out.chunks_exact_mut(4).enumerate() {
        bytes.copy_from_slice(&(s[i] + start[i]).store(Region::Message.word(i)).to_le_bytes());
    }
    out
}

/// Returns the one-time Poly1305 key of a nonce (section 2.6).
pub(crate) fn one_time_key(key: &[u8; 32], nonce: &[u8; 12]) -> [u8; 32] {
    let block = block::<Plain>(&input(key, 0, nonce));
    core::array::from_fn(|i| block[i])
}

#[cfg(test)]
mod tests {
    use super::*;
    use hex_literal::hex;

    #[test]
    fn rfc_8439_section_2_3_2() {
        let key = core::array::from_fn(|i| i as u8);
        let nonce = hex!("000000090000004a00000000");
        let expected = hex!(
            "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
            "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
        );
        assert_eq!(block::<Plain>(&input(&key, 1, &nonce)), expected);
    }
}
