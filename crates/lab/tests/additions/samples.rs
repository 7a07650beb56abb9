//! Published vectors of the algorithms that the test of additions adds, through every tier.

mod common;

use common::every_kernel;
use sealane_transform::{Algorithm, Buffer, CipherJob, CipherKey, DigestJob, DigestKey};

#[test]
fn published_blocks_of_xtea() {
    let Ok(Algorithm::Cipher(xtea)) = "xtea-ecb".parse() else { panic!("the catalogue has XTEA") };
    let key: [u8; 16] = core::array::from_fn(|i| i as u8);
    let key = CipherKey::new(xtea, &key).unwrap();
    for (name, kernels) in every_kernel() {
        let mut data = *b"ABCDEFGHAAAAAAAA";
        kernels.encrypt(xtea, &mut [CipherJob::new(&key, &[], Buffer::in_place(&mut data))]);
        assert_eq!(u128::from_be_bytes(data), 0x497d_f3d0_7261_2cb5_e78f_2d13_7443_41d8, "{name}");
        kernels.decrypt(xtea, &mut [CipherJob::new(&key, &[], Buffer::in_place(&mut data))]);
        assert_eq!(&data, b"ABCDEFGHAAAAAAAA", "{name}");
    }
}

#[test]
fn a_published_sum_of_adler_32() {
    let Ok(Algorithm::Digest(adler)) = "adler-32".parse() else { panic!("the catalogue has Adler-32") };
    let key = DigestKey::new(adler, &[]).unwrap();
    for (name, kernels) in every_kernel() {
        let mut jobs = [DigestJob::new(&key, b"Wikipedia")];
        kernels.digest(adler, &mut jobs);
        assert_eq!(jobs[0].digest(), [0x11, 0xe6, 0x03, 0x98], "{name}");
    }
}
