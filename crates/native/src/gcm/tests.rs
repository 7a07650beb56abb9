//! The parts of texts against AWS-LC's public functions, which take each text as a whole.
//!
//! AWS-LC's functions differ by processor. `OPENSSL_ia32cap=':~0x600d0230000'` hides AVX-512 and the wide AES units from it,
//! and `OPENSSL_ia32cap='~0x1000000000000000:~0x600d0230020'` all vectors of 256 bits too.

use core::ptr::{null, null_mut};

use proptest::prelude::*;

use super::*;

/// Returns a text encrypted as a whole, and its tag.
fn whole(key: &[u8], iv: &[u8], data: &[u8], text: &[u8]) -> (Vec<u8>, Block) {
    let (mut out, mut tag, mut written) = (vec![0; text.len()], [0; BLOCK], 0);
    // SAFETY: all slices are given with their lengths, and the context is freed after its last use.
    unsafe {
        let cipher = match key.len() {
            16 => c::EVP_aes_128_gcm(),
            24 => c::EVP_aes_192_gcm(),
            _ => c::EVP_aes_256_gcm(),
        };
        let context = c::EVP_CIPHER_CTX_new();
        let update = |to: *mut u8, written: &mut c_int, from: &[u8]| {
            c::EVP_EncryptUpdate(context, to, written, from.as_ptr(), from.len() as c_int)
        };
        assert_eq!(c::EVP_EncryptInit_ex(context, cipher, null_mut(), null(), null()), 1);
        let (set_length, get_tag) = (c::EVP_CTRL_AEAD_SET_IVLEN, c::EVP_CTRL_AEAD_GET_TAG);
        assert_eq!(c::EVP_CIPHER_CTX_ctrl(context, set_length, iv.len() as c_int, null_mut()), 1);
        assert_eq!(c::EVP_EncryptInit_ex(context, null(), null_mut(), key.as_ptr(), iv.as_ptr()), 1);
        assert_eq!(update(null_mut(), &mut written, data), 1);
        assert_eq!(update(out.as_mut_ptr(), &mut written, text), 1);
        assert_eq!(c::EVP_EncryptFinal_ex(context, out.as_mut_ptr().add(text.len()), &raw mut written), 1);
        assert_eq!(c::EVP_CIPHER_CTX_ctrl(context, get_tag, BLOCK as c_int, tag.as_mut_ptr().cast()), 1);
        c::EVP_CIPHER_CTX_free(context);
    }
    (out, tag)
}

/// Returns a text transformed in parts that end at these places, and its tag.
fn in_parts(gcm: &mut Gcm, data: &[u8], text: &[u8], cuts: &[usize], is_in_place: bool) -> (Vec<u8>, Block) {
    let (one, other) = data.split_at(cuts.first().map_or(0, |cut| cut % (data.len() + 1)));
    gcm.authenticate(one).unwrap();
    gcm.authenticate(other).unwrap();
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (text.len() + 1)).chain([text.len()]).collect();
    ends.sort_unstable();
    let mut out = if is_in_place { text.to_vec() } else { vec![0; text.len()] };
    let mut start = 0;
    for end in ends {
        let to = out[start..].as_mut_ptr();
        let from = if is_in_place { to.cast_const() } else { text[start..].as_ptr() };
        // SAFETY: both places have as many bytes.
        gcm.update(&unsafe { Text::new(from, end - start, to, text.len() - start) }).unwrap();
        start = end;
    }
    let mut tag = [0; BLOCK];
    gcm.finish(&mut tag).unwrap();
    (out, tag)
}

fn bytes(lengths: core::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), lengths)
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![bytes(16..17), bytes(24..25), bytes(32..33)]
}

fn vector() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![4 => bytes(12..13), 1 => bytes(1..80)]
}

/// Lengths around those at which other functions compute a part.
fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![bytes(0..40), bytes(100..300), bytes(1000..3000)]
}

proptest! {
    #[test]
    fn texts_in_parts_are_what_they_are_as_a_whole(
        keys in proptest::collection::vec(key(), 1..3),
        texts in proptest::collection::vec((vector(), bytes(0..70), text()), 1..4),
        cuts in proptest::collection::vec(any::<usize>(), 0..7),
        is_in_place in any::<bool>(),
    ) {
        // One value serves several keys and texts.
        let mut gcm = Gcm::without_key();
        for key in &keys {
            for (iv, data, text) in &texts {
                let (encrypted, tag) = whole(key, iv, data, text);
                gcm.set_key(key).unwrap();
                gcm.begin(true, iv).unwrap();
                prop_assert_eq!(in_parts(&mut gcm, data, text, &cuts, is_in_place), (encrypted.clone(), tag));
                gcm.begin(false, iv).unwrap();
                prop_assert_eq!(in_parts(&mut gcm, data, &encrypted, &cuts, is_in_place), (text.clone(), tag));
            }
        }
    }
}

#[test]
fn nothing_is_done_without_a_key_a_vector_or_room() {
    let mut gcm = Gcm::without_key();
    let mut tag = [0; BLOCK];
    assert!(
        gcm.begin(true, &[0; 12]).is_err() && gcm.finish(&mut tag).is_err() && gcm.set_key(&[0; 17]).is_err()
    );
    gcm.set_key(&[7; 16]).unwrap();
    assert!(gcm.authenticate(b"data").is_err() && gcm.finish(&mut tag).is_err());
    gcm.begin(true, &[0; 12]).unwrap();
    let mut out = [0; 4];
    // SAFETY: the places are as long as stated.
    let text = unsafe { Text::new([1; 8].as_ptr(), 8, out.as_mut_ptr(), 4) };
    assert!(gcm.update(&text).is_err() && out == [0; 4]);
    gcm.finish(&mut tag).unwrap();
    assert!(gcm.finish(&mut tag).is_err(), "a vector is used for one text");
}
