//! Triple-DES in CBC mode with IVs made of the record's number, for the 2007 suite.
//!
//! Guarantees: the IV is the record number enciphered under a key of its own, so an observer cannot predict
//! it (NIST SP 800-38A, appendix C) and it takes no room on the wire. Padding is examined only after the
//! caller has verified the authenticator, so it cannot serve as an oracle.

use cbc::cipher::{
    Block, BlockCipherEncrypt, BlockModeDecrypt, BlockModeEncrypt, InnerIvInit, KeyInit, block_padding::Pkcs7,
};
use des::TdesEde3;

pub(crate) const BLOCK_BYTES: usize = 8;

pub(crate) struct CbcCipher {
    data: TdesEde3,
    iv: TdesEde3,
}

impl CbcCipher {
    /// Takes two 24-byte keys: for the data and for the IVs.
    pub(crate) fn new(material: &[u8]) -> Option<Self> {
        let (data, iv) = material.split_at_checked(24)?;
        Some(Self { data: TdesEde3::new_from_slice(data).ok()?, iv: TdesEde3::new_from_slice(iv).ok()? })
    }

    /// Enciphers `body_bytes` of `body`, which ends right after the padding.
    pub(crate) fn encrypt(&self, sequence: u64, body: &mut [u8], body_bytes: usize) {
        let encryptor = cbc::Encryptor::inner_iv_init(&self.data, &self.iv(sequence));
        encryptor
            .encrypt_padded::<Pkcs7>(body, body_bytes)
            .expect("the suite's expansion leaves room for the padding");
    }

    /// Deciphers `body` and returns the length without padding.
    pub(crate) fn decrypt(&self, sequence: u64, body: &mut [u8]) -> Option<usize> {
        if body.is_empty() || !body.len().is_multiple_of(BLOCK_BYTES) {
            return None;
        }
        let decryptor = cbc::Decryptor::inner_iv_init(&self.data, &self.iv(sequence));
        Some(decryptor.decrypt_padded::<Pkcs7>(body).ok()?.len())
    }

    fn iv(&self, sequence: u64) -> Block<TdesEde3> {
        let mut block = Block::<TdesEde3>::from(sequence.to_be_bytes());
        self.iv.encrypt_block(&mut block);
        block
    }
}
