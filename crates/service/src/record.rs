//! Records of sessions: a program lends a key, and the service seals and opens its records.
//!
//! **Guarantee:** any content is sealed, opened, or refused; the key is zeroed by the library when it is dropped.

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use sealane_client::job::{NONCE_BYTES, RecordCipher, TAG_BYTES};
use sealane_client::{Answer, Operation, Status};
use zeroize::Zeroizing;

/// A key for records. Its program gives the nonces, and is the one that must not repeat them.
#[derive(Debug)]
pub(crate) struct RecordKey(LessSafeKey);

impl RecordKey {
    /// Returns `None` if the key has another length.
    pub(crate) fn new(cipher: RecordCipher, key: &[u8]) -> Option<Self> {
        let algorithm = match cipher {
            RecordCipher::Aes128Gcm => &AES_128_GCM,
            RecordCipher::Aes256Gcm => &AES_256_GCM,
            RecordCipher::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        };
        Some(Self(LessSafeKey::new(UnboundKey::new(algorithm, key).ok()?)))
    }

    /// Returns the result of sealing or opening a record.
    pub(crate) fn run(&self, operation: Operation, mut content: Zeroizing<Vec<u8>>) -> Answer {
        let (clear_bytes, seals) = match operation {
            Operation::Seal { clear_bytes } => (clear_bytes as usize, true),
            Operation::Open { clear_bytes } => (clear_bytes as usize, false),
            _ => return Err(Status::WrongKind),
        };
        let head_bytes = NONCE_BYTES.saturating_add(clear_bytes);
        let (head, text) = content.split_at_mut_checked(head_bytes).ok_or(Status::BadContent)?;
        let (nonce, clear) = head.split_first_chunk().ok_or(Status::BadContent)?;
        let (nonce, aad) = (Nonce::assume_unique_for_key(*nonce), Aad::from(clear));
        let tag = if seals {
            let tag = self.0.seal_in_place_separate_tag(nonce, aad, text).map_err(|_| Status::BadContent)?;
            Some(tag)
        } else {
            self.0.open_in_place(nonce, aad, text).map_err(|_| Status::NotDecrypted)?;
            None
        };
        content.drain(..head_bytes);
        match tag {
            Some(tag) => content.extend_from_slice(tag.as_ref()),
            None => {
                let text_bytes = content.len() - TAG_BYTES;
                content.truncate(text_bytes);
            }
        }
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_changed_ones_do_not() {
        for (cipher, key_bytes) in [
            (RecordCipher::Aes128Gcm, 16),
            (RecordCipher::Aes256Gcm, 32),
            (RecordCipher::ChaCha20Poly1305, 32),
        ] {
            let key = RecordKey::new(cipher, &[7; 32][..key_bytes]).unwrap();
            assert!(RecordKey::new(cipher, &[7; 31]).is_none());
            for (clear, text) in
                [(&b""[..], &b""[..]), (b"clear", b""), (b"", b"a text"), (b"clear", b"a text")]
            {
                let clear_bytes = clear.len() as u32;
                let content = Zeroizing::new([&[3; NONCE_BYTES], clear, text].concat());
                let sealed = key.run(Operation::Seal { clear_bytes }, content).unwrap();
                assert_eq!(sealed.len(), text.len() + TAG_BYTES);
                let mut content = Zeroizing::new([&[3; NONCE_BYTES], clear, &sealed].concat());
                let opened = key.run(Operation::Open { clear_bytes }, content.clone()).unwrap();
                assert_eq!(&opened[..], text);
                *content.last_mut().unwrap() ^= 1;
                assert_eq!(key.run(Operation::Open { clear_bytes }, content), Err(Status::NotDecrypted));
            }
            let short = |bytes| Zeroizing::new(vec![0; bytes]);
            assert_eq!(key.run(Operation::Seal { clear_bytes: 1 }, short(12)), Err(Status::BadContent));
            assert_eq!(
                key.run(Operation::Seal { clear_bytes: u32::MAX }, short(99)),
                Err(Status::BadContent)
            );
            assert_eq!(key.run(Operation::Open { clear_bytes: 0 }, short(27)), Err(Status::NotDecrypted));
            assert_eq!(key.run(Operation::Derive, short(99)), Err(Status::WrongKind));
        }
    }
}
