//! Tests of every cipher: published vectors through every tier, then the reference against every faster tier and
//! against foreign implementations, at every boundary and in random batches, in place and out of place.

mod common;

use cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use common::every_kernel;
use hex_literal::hex;
use proptest::prelude::*;
use sealane_transform::{
    Algorithm, BlockCipher, Buffer, Cipher, CipherJob, CipherKey, Direction, Kernels, Mode, Status, Tier,
};

#[track_caller]
fn check(algorithm: Cipher, key: &[u8], iv: &[u8], plain: &[u8], sealed: &[u8]) {
    let key = CipherKey::new(algorithm, key).unwrap();
    for (name, kernels) in every_kernel() {
        let mut data = plain.to_vec();
        let mut jobs = [CipherJob::new(&key, iv, Buffer::in_place(&mut data))];
        assert_eq!(kernels.encrypt(algorithm, &mut jobs), 0, "{algorithm} {name}");
        assert_eq!(data, sealed, "{algorithm} {name} encrypt");
        let mut opened = vec![0; data.len()];
        let mut jobs = [CipherJob::new(&key, iv, Buffer::out_of_place(&data, &mut opened).unwrap())];
        assert_eq!(kernels.decrypt(algorithm, &mut jobs), 0);
        assert_eq!(opened, plain, "{algorithm} {name} decrypt");
    }
}

fn ecb(cipher: BlockCipher) -> Cipher {
    Cipher::Block(cipher, Mode::Ecb)
}

fn cbc(cipher: BlockCipher) -> Cipher {
    Cipher::Block(cipher, Mode::Cbc)
}

fn count_up(from: u8, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| from.wrapping_add(i as u8)).collect()
}

#[test]
fn des() {
    check(
        ecb(BlockCipher::Des),
        &hex!("133457799bbcdff1"),
        &[],
        &hex!("0123456789abcdef"),
        &hex!("85e813540f0ab405"),
    );
    check(
        cbc(BlockCipher::Des),
        &hex!("0123456789abcdef"),
        &hex!("1234567890abcdef"),
        b"Now is the time for all ",
        &hex!("e5c7cdde872bf27c43e934008c389c0f683788499a7c05f6"),
    );
    check(
        ecb(BlockCipher::TripleDes),
        &hex!("0123456789abcdef23456789abcdef01456789abcdef0123"),
        &[],
        // SP 800-67 has it so.
        b"The qufck brown fox jump",
        &hex!("a826fd8ce53b855fcce21c8112256fe668d5c05dd9b6b900"),
    );
}

#[test]
fn aes_of_fips_197_and_sp_800_38a() {
    let plain = hex!("00112233445566778899aabbccddeeff");
    check(ecb(BlockCipher::Aes128), &count_up(0, 16), &[], &plain, &hex!("69c4e0d86a7b0430d8cdb78070b4c55a"));
    check(ecb(BlockCipher::Aes192), &count_up(0, 24), &[], &plain, &hex!("dda97ca4864cdfe06eaf70a0ec0d7191"));
    check(ecb(BlockCipher::Aes256), &count_up(0, 32), &[], &plain, &hex!("8ea2b7ca516745bfeafc49904b496089"));
    let key = hex!("2b7e151628aed2a6abf7158809cf4f3c");
    let plain = hex!("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51");
    check(
        cbc(BlockCipher::Aes128),
        &key,
        &count_up(0, 16),
        &plain,
        &hex!("7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2"),
    );
    check(
        Cipher::Block(BlockCipher::Aes128, Mode::Ctr),
        &key,
        &count_up(0xf0, 16),
        &plain,
        &hex!("874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff"),
    );
}

#[test]
fn rc5_of_rfc_2040_and_others() {
    let rc5 =
        |key: &[u8], plain: [u8; 8], sealed: [u8; 8]| check(ecb(BlockCipher::Rc5), key, &[], &plain, &sealed);
    rc5(&[0; 16], [0; 8], hex!("21a5dbee154b8f6d"));
    rc5(&hex!("915f4619be41b2516355a50110a9ce91"), hex!("21a5dbee154b8f6d"), hex!("f7c013ac5b2b8952"));
    rc5(&hex!("783348e75aeb0f2fd7b169bb8dc16787"), hex!("f7c013ac5b2b8952"), hex!("2f42b3b70369fc92"));
    rc5(&hex!("dc49db1375a5584f6485b413b5f12baf"), hex!("2f42b3b70369fc92"), hex!("65c178b284d197cc"));
    rc5(&hex!("5269f149d41ba0152497574d7f153125"), hex!("65c178b284d197cc"), hex!("eb44e415da319824"));
    rc5(&count_up(0, 16), hex!("0001020304050607"), hex!("c8d3b3c486700cfa"));
    check(
        cbc(BlockCipher::Rc5),
        &count_up(1, 16),
        &count_up(1, 8),
        &count_up(0, 16),
        &hex!("eeebae12d768ac9e5b3d6072a9c76c65"),
    );
    check(
        cbc(BlockCipher::Rc5),
        &count_up(0, 16),
        &[0; 8],
        &count_up(0, 48),
        &hex!(
            "c8d3b3c486700cfa1df328ba51d954a9a443912ab4c7cea56f0422d61e4dbb14d1df232dc752b999dae402a65659fa88"
        ),
    );
}

#[test]
fn rc6_of_the_submission() {
    let rc6 = |key: &[u8], plain: [u8; 16], sealed: [u8; 16]| {
        check(ecb(BlockCipher::Rc6), key, &[], &plain, &sealed)
    };
    let plain = hex!("02132435465768798a9bacbdcedfe0f1");
    let key = hex!("0123456789abcdef0112233445566778899aabbccddeeff01032547698badcfe");
    rc6(&[0; 16], [0; 16], hex!("8fc3a53656b1f778c129df4e9848a41e"));
    rc6(&key[..16], plain, hex!("524e192f4715c6231f51f6367ea43f18"));
    rc6(&[0; 24], [0; 16], hex!("6cd61bcb190b30384e8a3f168690ae82"));
    rc6(&key[..24], plain, hex!("688329d019e505041e52e92af95291d4"));
    rc6(&[0; 32], [0; 16], hex!("8f5fbd0510d15fa893fa3fda6e857ec2"));
    rc6(&key, plain, hex!("c8241816f0d7e48920ad16a1674e5d48"));
    check(
        cbc(BlockCipher::Rc6),
        &count_up(0, 16),
        &[0; 16],
        &count_up(0, 48),
        &hex!(
            "3a96f9c7f6755cfe46f00e3dcd5d2a3c6be8bdedc1465f58c46aeea08eae864e3e7311a20d98abc5809b4f4aeb101197"
        ),
    );
}

#[test]
fn idea_of_lai_and_ideaval() {
    let idea = |key: [u8; 16], plain: [u8; 8], sealed: [u8; 8]| {
        check(ecb(BlockCipher::Idea), &key, &[], &plain, &sealed);
    };
    let key = hex!("00010002000300040005000600070008");
    idea(key, hex!("0000000100020003"), hex!("11fbed2b01986de5"));
    idea(key, hex!("0102030405060708"), hex!("540e5fea18c2f8b1"));
    idea(key, hex!("0019324b647d96af"), hex!("9f0a0ab6e10ced78"));
    idea(key, hex!("f5202d5b9c671b08"), hex!("cf18fd7355e2c5c5"));
    idea(key, hex!("fae6d2beaa96826e"), hex!("85df52005608193d"));
    idea(hex!("0005000a000f00140019001e00230028"), hex!("0102030405060708"), hex!("3ec04780beff6e20"));
    idea(hex!("3a984e2000195db32ee501c8c47cea60"), hex!("0102030405060708"), hex!("97bcd8200780da86"));
    idea(hex!("006400c8012c019001f4025802bc0320"), hex!("05320a6414c819fa"), hex!("65be87e7a2538aed"));
    idea(hex!("9d4075c103bc322afb03e7be6ab30006"), hex!("0808080808080808"), hex!("f5db1ac45e5ef9f9"));
    check(
        cbc(BlockCipher::Idea),
        &key,
        &[0; 8],
        &count_up(0, 32),
        &hex!("a772240c9d4b7ac27da80889afaf458fca3963f36bb44a6c280cf739b9a21bb1"),
    );
}

#[test]
fn blowfish_of_its_author() {
    let blowfish = |key: [u8; 8], plain: [u8; 8], sealed: [u8; 8]| {
        check(ecb(BlockCipher::Blowfish), &key, &[], &plain, &sealed);
    };
    blowfish([0; 8], [0; 8], hex!("4ef997456198dd78"));
    blowfish([0xff; 8], [0xff; 8], hex!("51866fd5b85ecb8a"));
    blowfish(hex!("3000000000000000"), hex!("1000000000000001"), hex!("7d856f9a613063f2"));
    blowfish(hex!("0123456789abcdef"), hex!("1111111111111111"), hex!("61f9c3802281b096"));
    check(
        cbc(BlockCipher::Blowfish),
        &hex!("0123456789abcdeff0e1d2c3b4a59687"),
        &hex!("fedcba9876543210"),
        b"7654321 Now is the time for \0\0\0\0",
        &hex!("6b77b4d63006dee605b156e27403979358deb9e7154616d959f1652bd5ff92cc"),
    );
}

/// RFC 6229 has the streams of a 40-bit and a 128-bit key.
#[test]
fn rc4_of_rfc_6229() {
    check(
        Cipher::Rc4,
        &hex!("0102030405"),
        &[],
        &[0; 32],
        &hex!("b2396305f03dc027ccc3524a0a1118a86982944f18fc82d589c403a47a0d0919"),
    );
    check(
        Cipher::Rc4,
        &count_up(1, 16),
        &[],
        &[0; 32],
        &hex!("9ac7cc9a609d1ef7b2932899cde41b975248c4959014126a6e8a84f11d1a9e1c"),
    );
    check(Cipher::Rc4, b"Key", &[], b"Plaintext", &hex!("bbf316e8d940af0ad3"));
}

#[test]
fn seal_of_its_paper() {
    use sha2::Digest as _;
    let key = CipherKey::new(Cipher::Seal3, &hex!("67452301efcdab8998badcfe10325476c3d2e1f0")).unwrap();
    for (name, kernels) in every_kernel() {
        let stream = |index: u32| {
            let mut stream = vec![0; 4096];
            let mut jobs = [CipherJob::new(&key, &index.to_be_bytes(), Buffer::in_place(&mut stream))];
            assert_eq!(kernels.encrypt(Cipher::Seal3, &mut jobs), 0);
            stream
        };
        let paper = stream(0x013577af);
        assert_eq!(paper[..16], hex!("37a005959b84c49ca4be1e050673530f"), "{name}");
        assert_eq!(paper[4080..], hex!("4d1a6134fed9fede636504aa691e08e4"));
        assert_eq!(
            sha2::Sha256::digest(&paper)[..],
            hex!("e1ea8e58365c93b17ab09343f37250fa4c3c30ca3e2bd4e8dbc830758d9c3c9f")
        );
        assert_eq!(stream(0)[..16], hex!("e88f195bfeebaf960c4d7838f34ca16c"));
        assert_eq!(stream(1)[..16], hex!("5bd0340b7fc284c099fb206ba6dfb35e"));
    }
}

#[test]
fn bad_jobs_are_marked_and_left_alone() {
    let algorithm = cbc(BlockCipher::Des);
    let key = CipherKey::new(algorithm, &[1; 8]).unwrap();
    let other = CipherKey::new(ecb(BlockCipher::Des), &[1; 8]).unwrap();
    for (name, kernels) in every_kernel() {
        let mut data = vec![vec![9u8; 24]; 20];
        data[3].truncate(23);
        let mut jobs: Vec<_> = data
            .iter_mut()
            .enumerate()
            .map(|(i, data)| CipherJob::new(if i == 7 { &other } else { &key }, &[], Buffer::in_place(data)))
            .collect();
        assert_eq!(kernels.encrypt(algorithm, &mut jobs), 2, "{name}");
        assert_eq!((jobs[3].status, jobs[7].status), (Status::BadLength, Status::WrongKey));
        drop(jobs);
        assert!(data[3].iter().chain(&data[7]).all(|&byte| byte == 9));
        assert!(data[4] == data[5] && data[4] != [9; 24]);
    }
    let seal = CipherKey::new(Cipher::Seal3, &[0; 20]).unwrap();
    let mut long = vec![0; 65_537];
    let mut jobs = [CipherJob::new(&seal, &[], Buffer::in_place(&mut long))];
    assert_eq!(Kernels::best().encrypt(Cipher::Seal3, &mut jobs), 1);
    assert!(CipherKey::new(cbc(BlockCipher::Aes128), &[0; 17]).is_err());
    assert!(Buffer::out_of_place(&[1, 2], &mut [0]).is_err());
}

/// Transforms one block by another implementation; returns false if there is none.
fn foreign(cipher: BlockCipher, key: &[u8], direction: Direction, block: &mut [u8]) -> bool {
    fn crypt_block<C: KeyInit + BlockCipherEncrypt + BlockCipherDecrypt>(
        key: &[u8],
        direction: Direction,
        block: &mut [u8],
    ) {
        let cipher = C::new_from_slice(key).unwrap();
        let block = block.try_into().unwrap();
        match direction {
            Direction::Encrypt => cipher.encrypt_block(block),
            Direction::Decrypt => cipher.decrypt_block(block),
        }
    }
    match cipher {
        BlockCipher::Des => crypt_block::<des::Des>(key, direction, block),
        BlockCipher::TripleDes => crypt_block::<des::TdesEde3>(key, direction, block),
        BlockCipher::Aes128 => crypt_block::<aes::Aes128>(key, direction, block),
        BlockCipher::Aes192 => crypt_block::<aes::Aes192>(key, direction, block),
        BlockCipher::Aes256 => crypt_block::<aes::Aes256>(key, direction, block),
        BlockCipher::Blowfish => crypt_block::<blowfish::Blowfish>(key, direction, block),
        BlockCipher::Idea => crypt_block::<idea::Idea>(key, direction, block),
        // The rc5 and rc6 crates fix their parameters in the type.
        BlockCipher::Rc5 => {
            crypt_block::<rc5::RC5<u32, cipher::consts::U12, cipher::consts::U16>>(key, direction, block)
        }
        BlockCipher::Rc5R16 => {
            crypt_block::<rc5::RC5<u32, cipher::consts::U16, cipher::consts::U16>>(key, direction, block)
        }
        BlockCipher::Rc6 => {
            crypt_block::<rc6::RC6<u32, cipher::consts::U20, cipher::consts::U16>>(key, direction, block)
        }
        #[allow(unreachable_patterns, reason = "a new cipher may be nobody else's")]
        _ => return false,
    }
    true
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn the_reference_agrees_with_foreigners(seed in any::<[u8; 48]>(), reverse in any::<bool>()) {
        let direction = if reverse { Direction::Decrypt } else { Direction::Encrypt };
        let reference = Kernels::select(Some(Tier::Reference), None).unwrap();
        for cipher in BlockCipher::ALL {
            let raw = &seed[..cipher.facts().key_bytes.usual];
            let key = CipherKey::new(ecb(cipher), raw).unwrap();
            let mut ours = seed[32..32 + cipher.block_bytes()].to_vec();
            let mut theirs = ours.clone();
            if !foreign(cipher, raw, direction, &mut theirs) {
                prop_assert_eq!(cipher.peers().rust_crypto, None, "{}", cipher.name());
                continue;
            }
            let mut jobs = [CipherJob::new(&key, &[], Buffer::in_place(&mut ours))];
            reference.cipher(ecb(cipher), direction, &mut jobs);
            prop_assert_eq!(&ours, &theirs, "{}", cipher.name());
        }
    }
}

fn ciphers() -> Vec<Cipher> {
    Algorithm::all().filter_map(|a| if let Algorithm::Cipher(c) = a { Some(c) } else { None }).collect()
}

/// Runs messages of these lengths as one batch through every kernel, in place and out of place, in both directions;
/// all results must agree with the reference.
#[track_caller]
fn agree(algorithm: Cipher, lengths: &[usize], seed: u64) {
    // These keys are expensive to expand; ways may share the tables of one.
    let counts: &[usize] = match algorithm {
        Cipher::Block(BlockCipher::Blowfish, _) => &[1, 3],
        Cipher::Seal3 => &[3],
        _ => &[20],
    };
    for &keys in counts {
        agree_under(keys, algorithm, lengths, seed);
    }
}

#[track_caller]
fn agree_under(keys: usize, algorithm: Cipher, lengths: &[usize], seed: u64) {
    let mut word = seed | 1;
    let mut byte = || {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (word >> 56) as u8
    };
    let key_lengths = algorithm.facts().key_bytes;
    let keys: Vec<_> = (0..keys)
        .map(|_| {
            let raw: Vec<u8> = (0..key_lengths.usual).map(|_| byte()).collect();
            CipherKey::new(algorithm, &raw).unwrap()
        })
        .collect();
    let granule = algorithm.granule_bytes();
    let messages: Vec<Vec<u8>> =
        lengths.iter().map(|n| (0..n / granule * granule).map(|_| byte()).collect()).collect();
    let ivs: Vec<[u8; 16]> = messages
        .iter()
        .enumerate()
        .map(|(i, _)| {
            // Some counters are about to carry into every byte.
            let mut iv: [u8; 16] = core::array::from_fn(|_| byte());
            if i % 3 == 0 {
                iv[i % 5..].fill(0xff);
            }
            iv
        })
        .collect();
    let run = |kernels: &Kernels, direction, in_place: bool| {
        let mut out =
            if in_place { messages.clone() } else { messages.iter().map(|m| vec![0xaa; m.len()]).collect() };
        let mut jobs: Vec<_> = out
            .iter_mut()
            .enumerate()
            .map(|(i, out)| {
                let data = if in_place {
                    Buffer::in_place(out)
                } else {
                    Buffer::out_of_place(&messages[i], out).unwrap()
                };
                CipherJob::new(&keys[i % keys.len()], &ivs[i], data)
            })
            .collect();
        assert_eq!(kernels.cipher(algorithm, direction, &mut jobs), 0);
        assert!(jobs.iter().all(|job| job.status == Status::Done));
        drop(jobs);
        out
    };
    let reference = Kernels::select(Some(Tier::Reference), None).unwrap();
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        let expected = run(&reference, direction, true);
        for (name, kernels) in every_kernel() {
            for in_place in [true, false] {
                let got = run(&kernels, direction, in_place);
                for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
                    let place = got.iter().zip(expected).position(|(a, b)| a != b);
                    assert_eq!(
                        place,
                        None,
                        "{algorithm} {direction:?} {name} in place {in_place}: job {i} of {}, {} bytes",
                        lengths.len(),
                        got.len()
                    );
                }
            }
        }
    }
}

#[test]
fn every_length_to_two_chunks_in_one_batch() {
    let mut lengths: Vec<usize> = (0..=136).collect();
    lengths.extend([191, 192, 200, 255, 256, 576, 1024, 1408, 1496, 1500, 4096]);
    for algorithm in ciphers() {
        agree(algorithm, &lengths, 7);
    }
}

#[test]
fn every_batch_size_around_the_ways() {
    for algorithm in ciphers() {
        for count in [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 255, 257] {
            let lengths: Vec<usize> = (0..count).map(|i| i * 24 % 200).collect();
            agree(algorithm, &lengths, count as u64);
        }
    }
}

/// These messages are cut for the ways if their blocks do not depend on each other.
#[test]
fn a_few_long_messages() {
    for algorithm in ciphers() {
        agree(algorithm, &[40_008], 1);
        agree(algorithm, &[9_000, 24, 0, 8_248, 64, 30_003], 2);
        let ragged: Vec<usize> = (0..100).map(|i| [64, 576, 64, 1500][i % 4]).collect();
        agree(algorithm, &ragged, 3);
    }
}

/// The four bytes in which kernels count overflow at every place of the vectors in flight.
#[test]
fn counters_carry_within_and_between_vectors() {
    let algorithm = Cipher::Block(BlockCipher::Aes128, Mode::Ctr);
    let key = CipherKey::new(algorithm, &[7; 16]).unwrap();
    let plain = count_up(3, 70 * 16 + 5);
    for before in 0..=70u32 {
        let mut iv = [0xff; 16];
        iv[12..].copy_from_slice(&0u32.wrapping_sub(before).to_be_bytes());
        let mut expected = None;
        for (name, kernels) in every_kernel() {
            let mut out = plain.clone();
            let mut jobs = [CipherJob::new(&key, &iv, Buffer::in_place(&mut out))];
            assert_eq!(kernels.encrypt(algorithm, &mut jobs), 0);
            let expected = expected.get_or_insert_with(|| out.clone());
            assert!(out == *expected, "{name}, {before} blocks before the carry");
        }
    }
}

/// There are more jobs than the widest kernel has ways, so that ways are refilled and the last job is handed over.
#[test]
fn full_ways_and_one_more() {
    for cipher in BlockCipher::ALL {
        let lengths: Vec<usize> = (0..513).map(|i| if i % 50 == 0 { 208 } else { 48 }).collect();
        agree(cbc(cipher), &lengths, 513);
    }
}

/// The lengths are so even that DES and RC5 fill their widest kernels, and run out of jobs in them.
#[test]
fn even_lengths_in_the_widest_ways() {
    let lengths: Vec<usize> = (0..710).map(|i| 400 + i % 20 * 8).collect();
    for cipher in [BlockCipher::Des, BlockCipher::TripleDes, BlockCipher::Rc5] {
        agree(cbc(cipher), &lengths, 710);
    }
}

/// A factor of 0 stands for 2^16; the keys and blocks are full of such factors.
#[test]
fn idea_with_factors_of_zero() {
    for mode in [Mode::Ecb, Mode::Cbc, Mode::Ctr] {
        let algorithm = Cipher::Block(BlockCipher::Idea, mode);
        let raw = [[0; 16], [0xff; 16], hex!("00000001000000010000000000010000")];
        for raw in raw {
            let key = CipherKey::new(algorithm, &raw).unwrap();
            let run = |kernels: &Kernels, direction| {
                let mut data: Vec<Vec<u8>> = (0..140).map(|i| vec![(i % 2) as u8; 64]).collect();
                let jobs = data.iter_mut().map(|data| CipherJob::new(&key, &[], Buffer::in_place(data)));
                let mut jobs: Vec<_> = jobs.collect();
                assert_eq!(kernels.cipher(algorithm, direction, &mut jobs), 0);
                drop(jobs);
                data
            };
            let reference = Kernels::select(Some(Tier::Reference), None).unwrap();
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                let expected = run(&reference, direction);
                for (name, kernels) in every_kernel() {
                    assert!(run(&kernels, direction) == expected, "{algorithm} {direction:?} {name}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn random_batches(
        lengths in prop::collection::vec(0usize..1600, 1..90),
        which in prop::sample::select(ciphers()),
        seed in any::<u64>(),
    ) {
        agree(which, &lengths, seed);
    }
}
