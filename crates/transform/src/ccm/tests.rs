//! The library's tier, which runs on other architectures only, against the reference.

use proptest::prelude::*;

use super::library;
use crate::{Aead, AeadJob, AeadKey, AeadLengths, Buffer, Direction, Kernels, Status, Tier};

proptest! {
    #[test]
    fn the_librarys_tier_is_the_reference(
        key: [u8; 32],
        is_long: bool,
        nonce: [u8; 12],
        nonce_bytes in 7u8..=12,
        half in 2u8..=8,
        aad in prop::collection::vec(any::<u8>(), 0..70),
        data in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..70), prop::collection::vec(any::<u8>(), 1000..2100)
        ],
    ) {
        let (algorithm, key_bytes) = if is_long { (Aead::Aes256Ccm, 32) } else { (Aead::Aes128Ccm, 16) };
        let lengths = AeadLengths { nonce_bytes, tag_bytes: 2 * half };
        let key = AeadKey::with(algorithm, lengths, &key[..key_bytes]).unwrap();
        let (mut ours, mut theirs) = (data.clone(), data.clone());
        let reference = Kernels::select(Some(Tier::Reference), None).unwrap();
        let mut jobs = [AeadJob::seal(&key, nonce, &aad, Buffer::in_place(&mut ours))];
        prop_assert_eq!(reference.seal(algorithm, &mut jobs), 0);
        let tag = jobs[0].tag;
        let mut job = AeadJob::seal(&key, nonce, &aad, Buffer::in_place(&mut theirs));
        library::seal_or_open(Direction::Encrypt, &mut job);
        prop_assert_eq!((job.status, job.tag), (Status::Done, tag));
        prop_assert_eq!(&ours, &theirs);
        let mut job = AeadJob::open(&key, nonce, &aad, Buffer::in_place(&mut theirs), tag);
        library::seal_or_open(Direction::Decrypt, &mut job);
        prop_assert_eq!(job.status, Status::Done);
        prop_assert_eq!(&data, &theirs);
        let mut forged = tag;
        forged[usize::from(lengths.tag_bytes) - 1] ^= 1;
        let mut job = AeadJob::open(&key, nonce, &aad, Buffer::in_place(&mut ours), forged);
        library::seal_or_open(Direction::Decrypt, &mut job);
        prop_assert_eq!(job.status, Status::Forged);
        prop_assert!(ours.iter().all(|&byte| byte == 0));
    }
}
