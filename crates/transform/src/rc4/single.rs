//! RC4, one message.

use core::hint::select_unpredictable;

use super::Key;
use crate::wipe::wipe;

/// XORs the rest of a stream into a message, and wipes the stream's state.
pub(crate) fn crypt_from(mut s: [u8; 256], mut i: u8, mut j: u8, data: &mut [u8]) {
    let mut a = s[usize::from(i.wrapping_add(1))];
    let mut next = || {
        i = i.wrapping_add(1);
        j = j.wrapping_add(a);
        let (b, soon) = (s[usize::from(j)], i.wrapping_add(1));
        // The entry is loaded before the stores, so that it need not wait for their addresses.
        let after = s[usize::from(soon)];
        s[usize::from(i)] = b;
        s[usize::from(j)] = a;
        let stream = s[usize::from(a.wrapping_add(b))];
        a = select_unpredictable(j == soon, a, after);
        stream
    };
    let (words, rest) = data.as_chunks_mut::<8>();
    for word in words {
        let stream = (0..8).fold(0, |stream, byte| stream | u64::from(next()) << (8 * byte));
        *word = (u64::from_le_bytes(*word) ^ stream).to_le_bytes();
    }
    for byte in rest {
        *byte ^= next();
    }
    wipe(&mut s, 0);
}

/// XORs the stream of a key into one message.
pub(crate) fn one(key: &Key, data: &mut [u8]) {
    crypt_from(key.permutation, 0, 0, data);
}
