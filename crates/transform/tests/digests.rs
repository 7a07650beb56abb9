//! Tests of every digest and MAC: published vectors through every tier, then the reference against every faster tier
//! and against foreign implementations, at every boundary and in random batches.

mod common;

use common::every_kernel;
use hex_literal::hex;
use hmac::{KeyInit as _, Mac as _};
use proptest::prelude::*;
use sealane_transform::{Digest, DigestJob, DigestKey, KeccakStream, Kernels, LEAF_BYTES, Status, Tier};
use sha2::Digest as _;

#[track_caller]
fn check(algorithm: Digest, key: &[u8], message: &[u8], expected: &[u8]) {
    let key = DigestKey::new(algorithm, key).unwrap();
    for (name, kernels) in every_kernel() {
        let mut jobs = [DigestJob::new(&key, message)];
        assert_eq!(kernels.digest(algorithm, &mut jobs), 0);
        assert_eq!(jobs[0].status, Status::Done);
        assert_eq!(jobs[0].digest(), expected, "{} {name}", algorithm.name());
        assert!(jobs[0].verifies(expected));
    }
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i % 251) as u8).collect()
}

#[test]
fn md5_of_rfc_1321() {
    let md5 = |message: &str, digest: [u8; 16]| check(Digest::Md5, &[], message.as_bytes(), &digest);
    md5("", hex!("d41d8cd98f00b204e9800998ecf8427e"));
    md5("a", hex!("0cc175b9c0f1b6a831c399e269772661"));
    md5("abc", hex!("900150983cd24fb0d6963f7d28e17f72"));
    md5("message digest", hex!("f96b697d7cb7938d525a2f31aaf161d0"));
    md5("abcdefghijklmnopqrstuvwxyz", hex!("c3fcd3d76192e4007dfb496cca67e13b"));
    md5(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
        hex!("d174ab98d277d9f5a5611c2c9f419d9f"),
    );
    md5(&"1234567890".repeat(8), hex!("57edf4a22be3c955ac49da2e2107b67a"));
}

/// ATOMIC-2's driver prints this digest for `-c 60 -l 100000`.
#[test]
fn golden_digest_of_the_atomic_2_driver() {
    let block: Vec<u8> = (0..100_000u32).map(|i| i as u8).collect();
    check(Digest::Md5, &[], &block.repeat(60), &hex!("36023ea6e959c9e678702bdba0f95ff8"));
}

#[test]
fn sha_of_fips_180() {
    check(Digest::Sha1, &[], b"abc", &hex!("a9993e364706816aba3e25717850c26c9cd0d89d"));
    check(
        Digest::Sha1,
        &[],
        b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
        &hex!("84983e441c3bd26ebaae4aa1f95129e5e54670f1"),
    );
    check(Digest::Sha1, &[], b"", &hex!("da39a3ee5e6b4b0d3255bfef95601890afd80709"));
    check(
        Digest::Sha256,
        &[],
        b"abc",
        &hex!("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    );
    check(
        Digest::Sha256,
        &[],
        b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
        &hex!("248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"),
    );
    check(
        Digest::Sha256,
        &[],
        b"",
        &hex!("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
    );
}

#[test]
fn sha_224_of_fips_180() {
    let two = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    check(Digest::Sha224, &[], b"abc", &hex!("23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"));
    check(Digest::Sha224, &[], two, &hex!("75388b16512776cc5dba5da1fd890150b0c6455cb4f58b1952522525"));
    check(Digest::Sha224, &[], b"", &hex!("d14a028c2a3a2bc9476102bb288234c415a2b01f828ea62ac5b3e42f"));
}

#[test]
fn sha_384_and_sha_512_of_fips_180() {
    check(
        Digest::Sha384,
        &[],
        b"abc",
        &hex!(
            "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed"
            "8086072ba1e7cc2358baeca134c825a7"
        ),
    );
    check(
        Digest::Sha512,
        &[],
        b"abc",
        &hex!(
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
            "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
        ),
    );
    let long = b"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu";
    check(
        Digest::Sha384,
        &[],
        long,
        &hex!(
            "09330c33f71147e83d192fc782cd1b4753111b173b3b05d22fa08086e3b0f712"
            "fcc7c71a557e2db966c3e9fa91746039"
        ),
    );
    check(
        Digest::Sha512,
        &[],
        long,
        &hex!(
            "8e959b75dae313da8cf4f72814fc143f8f7779c6eb9f7fa17299aeadb6889018"
            "501d289e4900f7e4331b99dec4b5433ac7d329eeb6dd26545e96e55b874be909"
        ),
    );
}

/// Functions of FIPS 202 with their digests of nothing and of 200 bytes of 0xa3.
type OfFips202 = (Digest, &'static [u8], &'static [u8]);

const SHA_3: [OfFips202; 6] = [
    (
        Digest::Sha3_224,
        &hex!("6b4e03423667dbb73b6e15454f0eb1abd4597f9a1b078e3f5b5a6bc7"),
        &hex!("9376816aba503f72f96ce7eb65ac095deee3be4bf9bbc2a1cb7e11e0"),
    ),
    (
        Digest::Sha3_256,
        &hex!("a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a"),
        &hex!("79f38adec5c20307a98ef76e8324afbfd46cfd81b22e3973c65fa1bd9de31787"),
    ),
    (
        Digest::Sha3_384,
        &hex!(
            "0c63a75b845e4f7d01107d852e4c2485c51a50aaaa94fc61995e71bbee983a2a"
            "c3713831264adb47fb6bd1e058d5f004"
        ),
        &hex!(
            "1881de2ca7e41ef95dc4732b8f5f002b189cc1e42b74168ed1732649ce1dbcdd"
            "76197a31fd55ee989f2d7050dd473e8f"
        ),
    ),
    (
        Digest::Sha3_512,
        &hex!(
            "a69f73cca23a9ac5c8b567dc185a756e97c982164fe25859e0d1dcc1475c80a6"
            "15b2123af1f5f94c11e3e9402c3ac558f500199d95b6d3e301758586281dcd26"
        ),
        &hex!(
            "e76dfad22084a8b1467fcf2ffa58361bec7628edf5f3fdc0e4805dc48caeeca8"
            "1b7c13c30adf52a3659584739a2df46be589c51ca1a4a8416df6545a1ce8ba00"
        ),
    ),
    (
        Digest::Shake128,
        &hex!("7f9c2ba4e88f827d616045507605853ed73b8093f6efbc88eb1a6eacfa66ef26"),
        &hex!("131ab8d2b594946b9c81333f9bb6e0ce75c3b93104fa3469d3917457385da037"),
    ),
    (
        Digest::Shake256,
        &hex!(
            "46b9dd2b0ba88d13233b3feb743eeb243fcd52ea62b81b82b50c27646ed5762f"
            "d75dc4ddd8c0f200cb05019d67b592f6fc821c49479ab48640292eacb3b7c4be"
        ),
        &hex!(
            "cd8a920ed141aa0407a22d59288652e9d9f1a7ee0c1e7c1ca699424da84a904d"
            "2d700caae7396ece96604440577da4f3aa22aeb8857f961c4cd8e06f0ae6610b"
        ),
    ),
];

/// The examples of FIPS 202 for the empty message and one of 1,600 bits (NIST's "SHA3-..._Msg0" and "..._1600"), and of SHAKE.
#[test]
fn sha_3_and_shake_of_fips_202() {
    for (digest, of_nothing, of_a3) in SHA_3 {
        check(digest, &[], b"", of_nothing);
        check(digest, &[], &[0xa3; 200], of_a3);
    }
}

/// RFC 4231, test cases 2 and 6.
/// The vectors of NIST's validation system; those of SHAKE may be longer or shorter than a digest.
#[test]
fn sha_3_and_shake_of_cavp() {
    let text = include_str!("../vectors/sha3.rsp");
    let bytes = |hex: &str| -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    };
    let mut found = [0; 6];
    let (mut digest, mut message) = (None, Vec::new());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            digest = Digest::ALL.into_iter().find(|digest| digest.name() == name);
        } else if let Some(hex) = line.strip_prefix("Msg =") {
            message = bytes(hex.trim());
        } else if let Some(hex) = line.strip_prefix("MD = ") {
            let (digest, expected) = (digest.expect("a name of ours"), bytes(hex));
            let key = DigestKey::new(digest, &[]).unwrap();
            for (name, kernels) in every_kernel() {
                let mut jobs = [DigestJob::new(&key, &message)];
                assert_eq!(kernels.digest(digest, &mut jobs), 0);
                assert!(jobs[0].digest().starts_with(&expected), "{} {name}: {line}", digest.name());
            }
            found[SHA_3.iter().position(|of| of.0 == digest).unwrap()] += 1;
        }
    }
    assert_eq!(found, COUNTS_OF_CAVP);
}

const COUNTS_OF_CAVP: [usize; 6] = [40, 40, 40, 33, 82, 95];

/// RFC 9861, section 5, for messages without customization: 17 to the power of 0 to 5 bytes.
#[test]
fn kangaroo_twelve_of_rfc_9861() {
    check(Digest::Kt128, &[], &[], &hex!("1ac2d450fc3b4205d19da7bfca1b37513c0803577ac7167f06fe2ce1f0ef39e5"));
    for (power, expected) in [
        hex!("2bda92450e8b147f8a7cb629e784a058efca7cf7d8218e02d345dfaa65244a1f"),
        hex!("6bf75fa2239198db4772e36478f8e19b0f371205f6a9a93a273f51df37122888"),
        hex!("0c315ebcdedbf61426de7dcf8fb725d1e74675d7f5327a5067f367b108ecb67c"),
        hex!("cb552e2ec77d9910701d578b457ddf772c12e322e4ee7fe417f92c758f0d59d0"),
        hex!("8701045e22205345ff4dda05555cbb5c3af1a771c2b89baef37db43d9998b9fe"),
        hex!("844d610933b1b9963cbdeb5ae3b6b05cc7cbd67ceedf883eb678a0a8e0371682"),
    ]
    .iter()
    .enumerate()
    {
        check(Digest::Kt128, &[], &pattern(17_usize.pow(power as u32)), expected);
    }
    // The message ends with a chunk, and just before: of the authors' code.
    for (bytes, expected) in [
        (8191, hex!("1b577636f723643e990cc7d6a659837436fd6a103626600eb8301cd1dbe553d6")),
        (8192, hex!("48f256f6772f9edfb6a8b661ec92dc93b95ebd05a08a17b39ae3490870c926c3")),
        (16_383, hex!("e3ded52118ea64eaf04c7531c6ccb95e32924b7c2b87b2ce68ff2f2ee46e84ef")),
        (16_384, hex!("82778f7f7234c83352e76837b721fbdbb5270b88010d84fa5ab0b61ec8ce0956")),
    ] {
        check(Digest::Kt128, &[], &pattern(bytes), &expected);
    }
    check(
        Digest::Kt256,
        &[],
        &[],
        &hex!(
            "b23d2e9cea9f4904e02bec06817fc10ce38ce8e93ef4c89e6537076af8646404"
            "e3e8b68107b8833a5d30490aa33482353fd4adc7148ecb782855003aaebde4a9"
        ),
    );
    for (bytes, expected) in [
        (
            17 * 17 * 17,
            hex!(
                "647efb49fe9d717500171b41e7f11bd491544443209997ce1c2530d15eb1ffbb"
                "598935ef954528ffc152b1e4d731ee2683680674365cd191d562bae753b84aa5"
            ),
        ),
        (
            17 * 17 * 17 * 17,
            hex!(
                "b06275d284cd1cf205bcbe57dccd3ec1ff6686e3ed15776383e1f2fa3c6ac8f0"
                "8bf8a162829db1a44b2a43ff83dd89c3cf1ceb61ede659766d5ccf817a62ba8d"
            ),
        ),
        (
            17_usize.pow(5),
            hex!(
                "9473831d76a4c7bf77ace45b59f1458b1673d64bcd877a7c66b2664aa6dd149e"
                "60eab71b5c2bab858c074ded81ddce2b4022b5215935c0d4d19bf511aeeb0772"
            ),
        ),
    ] {
        check(Digest::Kt256, &[], &pattern(bytes), &expected);
    }
}

/// Messages around chunks and groups of chunks, several at a time, and the same in parts of any length.
#[test]
fn kangaroo_twelve_in_batches_and_in_parts() {
    let lengths = [0, 1, 167, 168, 8191, 8192, 8193, 16_384, 65_535, 65_536, 73_728, 131_073, 200_000];
    for digest in [Digest::Kt128, Digest::Kt256, Digest::Sha3_256, Digest::TurboShake256] {
        let key = DigestKey::new(digest, &[]).unwrap();
        let messages: Vec<Vec<u8>> = lengths.into_iter().map(pattern).collect();
        let mut expected: Vec<_> = messages.iter().map(|message| DigestJob::new(&key, message)).collect();
        Kernels::select(Some(Tier::Reference), None).unwrap().digest(digest, &mut expected);
        for (name, kernels) in every_kernel() {
            let mut jobs: Vec<_> = messages.iter().map(|message| DigestJob::new(&key, message)).collect();
            assert_eq!(kernels.digest(digest, &mut jobs), 0);
            for (job, expected) in jobs.iter().zip(&expected) {
                let bytes = job.input.len();
                assert_eq!(job.digest(), expected.digest(), "{} {name}, {bytes} bytes", digest.name());
                for part in [1 + bytes / 3, 8192, 30_000, 70_000] {
                    let mut stream = KeccakStream::new(digest).unwrap();
                    job.input.chunks(part).for_each(|part| stream.absorb(&kernels, part));
                    let found = stream.finish(&kernels);
                    assert_eq!(found, expected.digest(), "{} {name}, {bytes} by {part}", digest.name());
                }
            }
        }
    }
    assert!(KeccakStream::new(Digest::Sha256).is_none());
}

#[test]
fn turbo_shake_of_another_implementation() {
    check(
        Digest::TurboShake128,
        &[],
        &hex!(
            "437eb3035217e99baea4232ea2f06c2bea1c2c49e58cc0d59762b53887bc69e9"
            "52dbcfb7a43cc7c817c2d42ae68633fc0f6a9120d02b6616e52cf1074fd8d471"
        ),
        &hex!("8e2e8cec4b4056b7810d78da12751029ad4a5b1694d5ca82ebf8b4de9cb4596a"),
    );
    check(
        Digest::TurboShake256,
        &[],
        &hex!(
            "51a668f743e40bdafa26502aafaf149dfec1d1780344b3a6286f6e74523c4575"
            "a057504d1508d30d326a308f149cd6faedc0a31c164faf514911020c754fef26"
        ),
        &hex!(
            "f344b591079f09bc0d6e3f6277b1aab5354cfab81caf4afd37b7e7de6497632a"
            "2c4108f23331ce11de41e6a2ace2d7dcd5d8a7aef1a1c0c1c389e7dc26e0ca65"
        ),
    );
}

#[test]
fn hmac_of_rfc_4231_with_64_bit_words() {
    let (key, message) = (b"Jefe", b"what do ya want for nothing?");
    check(
        Digest::HmacSha384,
        key,
        message,
        &hex!(
            "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e"
            "8e2240ca5e69e2c78b3239ecfab21649"
        ),
    );
    check(
        Digest::HmacSha512,
        key,
        message,
        &hex!(
            "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554"
            "9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737"
        ),
    );
    let message = b"Test Using Larger Than Block-Size Key - Hash Key First";
    check(
        Digest::HmacSha384,
        &[0xaa; 131],
        message,
        &hex!(
            "4ece084485813e9088d2c63a041bc5b44f9ef1012a2b588f3cd11f05033ac4c6"
            "0c2ef6ab4030fe8296248df163f44952"
        ),
    );
    check(
        Digest::HmacSha512,
        &[0xaa; 131],
        message,
        &hex!(
            "80b24263c7c1a3ebb71493c1dd7be8b49b46d1f41b4aeec1121b013783f8f352"
            "6b56d037e05f2598bd0fd2215d6a1e5295e64f73f63f0aec8b915a985d786598"
        ),
    );
}

/// RFC 2202 (MD5, SHA-1) and RFC 4231 (SHA-256).
#[test]
fn hmac_of_the_rfcs() {
    let all = |key: &[u8], data: &[u8], md5: [u8; 16], sha1: [u8; 20], sha256: [u8; 32]| {
        if key.len() != 20 {
            check(Digest::HmacMd5, key, data, &md5);
        }
        check(Digest::HmacSha1, key, data, &sha1);
        check(Digest::HmacSha256, key, data, &sha256);
    };
    all(
        b"Jefe",
        b"what do ya want for nothing?",
        hex!("750c783e6ab0b503eaa86e310a5db738"),
        hex!("effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
        hex!("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
    );
    all(
        &[0x0b; 20],
        b"Hi There",
        [0; 16],
        hex!("b617318655057264e28bc0b6fb378c8ef146be00"),
        hex!("b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
    );
    check(Digest::HmacMd5, &[0x0b; 16], b"Hi There", &hex!("9294727a3638bb1c13f48ef8158bfc9d"));
    let long = b"Test Using Larger Than Block-Size Key - Hash Key First";
    check(Digest::HmacMd5, &[0xaa; 80], long, &hex!("6b1ab7fe4bd7bf8f0b62e6ce61b9d0cd"));
    check(Digest::HmacSha1, &[0xaa; 80], long, &hex!("aa4ae5e15272d00e95705637ce8a3b55ed402112"));
    check(
        Digest::HmacSha256,
        &[0xaa; 131],
        long,
        &hex!("60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"),
    );
}

/// The published file has these vectors: byte i of a message is i modulo 251. The subtrees of a message of two leaves
/// and a bit, computed by every kernel, are merged in the shape of the paper's tree.
#[test]
fn blake3_of_subtrees() {
    let message = pattern(3 * LEAF_BYTES + 1);
    for (name, kernels) in every_kernel() {
        for key in [None, Some(&[7; 32])] {
            let leaf = |leaf: usize, leaves: usize| {
                let bytes = &message[leaf * LEAF_BYTES..];
                let bytes = &bytes[..bytes.len().min(leaves * LEAF_BYTES)];
                kernels.blake3_subtree(key, leaf as u64, bytes)
            };
            let halves = [leaf(0, 1), leaf(1, 1), leaf(2, 1), leaf(3, 1)].map(Option::unwrap);
            let left = kernels.blake3_parent(key, [&halves[0], &halves[1]], false);
            let right = kernels.blake3_parent(key, [&halves[2], &halves[3]], false);
            assert_eq!((leaf(0, 2), leaf(2, 2)), (Some(left), Some(right)), "{name}");
            let whole = key.map_or_else(|| blake3::hash(&message), |key| blake3::keyed_hash(key, &message));
            assert_eq!(kernels.blake3_parent(key, [&left, &right], true), *whole.as_bytes(), "{name}");
            // The arguments are: no bytes, more than a subtree there can have, and more than the last byte that can
            // be counted.
            assert_eq!((leaf(0, 0), leaf(1, 2)), (None, None), "{name}");
            assert_eq!(kernels.blake3_subtree(key, u64::MAX, &[0]), None, "{name}");
            assert_eq!(kernels.blake3_subtree(key, 1 << 54, &[0]), None, "{name}");
        }
    }
}

#[test]
fn blake3_of_its_authors() {
    let data: Vec<u8> = (0..102_400).map(|i| (i % 251) as u8).collect();
    let blake3 = |bytes: usize, digest: [u8; 32]| check(Digest::Blake3, &[], &data[..bytes], &digest);
    blake3(0, hex!("af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"));
    blake3(1, hex!("2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213"));
    blake3(1024, hex!("42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7"));
    blake3(1025, hex!("d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444"));
    blake3(2048, hex!("e776b6028c7cd22a4d0ba182a8bf62205d2ef576467e838ed6f2529b85fba24a"));
    blake3(102_400, hex!("bc3e3d41a1146b069abffad3c0d44860cf664390afce4d9661f7902e7943e085"));
}

#[test]
fn aha_i_of_the_profile() {
    let aha = |message: &[u8], digest: [u8; 16]| check(Digest::AhaI, &[], message, &digest);
    aha(b"", hex!("91eda11ae3e2d3ae1f0ae54a9fa75eae"));
    aha(b"abc", hex!("71a0caafb25b0054805707546732b7a5"));
    aha(&(0..=255).collect::<Vec<u8>>(), hex!("7091581431d54099a36d2c118279d62b"));
    aha(&pattern(1408), hex!("0af66c236871d2d42b99f66b4b6846c8"));
}

#[test]
fn internet_checksum_of_rfc_1071() {
    let sum = |data: &[u8], checksum: [u8; 2]| check(Digest::InternetChecksum, &[], data, &checksum);
    sum(&hex!("0001f203f4f5f6f7"), hex!("220d"));
    sum(&pattern(1408), hex!("81b2"));
    sum(b"", hex!("ffff"));
}

#[test]
fn a_key_of_another_algorithm_is_refused_without_harm_to_its_neighbours() {
    let md5 = DigestKey::new(Digest::Md5, &[]).unwrap();
    let sha1 = DigestKey::new(Digest::Sha1, &[]).unwrap();
    for (name, kernels) in every_kernel() {
        let mut jobs: Vec<_> =
            (0..40).map(|i| DigestJob::new(if i % 3 == 1 { &sha1 } else { &md5 }, b"abc")).collect();
        assert_eq!(kernels.digest(Digest::Md5, &mut jobs), 13, "{name}");
        for (i, job) in jobs.iter().enumerate() {
            if i % 3 == 1 {
                assert_eq!((job.status, job.output), (Status::WrongKey, [0; 64]));
            } else {
                assert_eq!(job.digest(), hex!("900150983cd24fb0d6963f7d28e17f72"));
            }
        }
    }
    assert!(DigestKey::new(Digest::Md5, b"key").is_err());
    assert!(DigestKey::new(Digest::Bh140, b"short").is_err());
    let mut nothing: [DigestJob<'_>; 0] = [];
    assert_eq!(Kernels::best().digest(Digest::Md5, &mut nothing), 0);
}

/// Returns the result of another implementation.
fn foreign(algorithm: Digest, key: &[u8], message: &[u8]) -> Option<Vec<u8>> {
    Some(match algorithm {
        Digest::Md5 => md5::Md5::digest(message).to_vec(),
        Digest::Sha1 => sha1::Sha1::digest(message).to_vec(),
        Digest::Sha224 => sha2::Sha224::digest(message).to_vec(),
        Digest::Sha256 => sha2::Sha256::digest(message).to_vec(),
        Digest::Sha384 => sha2::Sha384::digest(message).to_vec(),
        Digest::Sha512 => sha2::Sha512::digest(message).to_vec(),
        Digest::Sha3_256 => {
            aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA3_256, message).as_ref().to_vec()
        }
        Digest::Sha3_384 => {
            aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA3_384, message).as_ref().to_vec()
        }
        Digest::Sha3_512 => {
            aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA3_512, message).as_ref().to_vec()
        }
        Digest::HmacSha384 => hmac::Hmac::<sha2::Sha384>::new_from_slice(key)
            .unwrap()
            .chain_update(message)
            .finalize()
            .into_bytes()
            .to_vec(),
        Digest::HmacSha512 => hmac::Hmac::<sha2::Sha512>::new_from_slice(key)
            .unwrap()
            .chain_update(message)
            .finalize()
            .into_bytes()
            .to_vec(),
        Digest::HmacMd5 => hmac::Hmac::<md5::Md5>::new_from_slice(key)
            .unwrap()
            .chain_update(message)
            .finalize()
            .into_bytes()
            .to_vec(),
        Digest::HmacSha1 => hmac::Hmac::<sha1::Sha1>::new_from_slice(key)
            .unwrap()
            .chain_update(message)
            .finalize()
            .into_bytes()
            .to_vec(),
        Digest::HmacSha256 => hmac::Hmac::<sha2::Sha256>::new_from_slice(key)
            .unwrap()
            .chain_update(message)
            .finalize()
            .into_bytes()
            .to_vec(),
        _ => return None,
    })
}

/// Runs messages as one batch through every kernel; all results must agree with the reference, and the reference with
/// the foreign implementation.
#[track_caller]
fn agree(algorithm: Digest, keys: &[DigestKey], raw_keys: &[Vec<u8>], messages: &[&[u8]]) {
    let jobs = || -> Vec<_> {
        messages
            .iter()
            .enumerate()
            .map(|(i, message)| DigestJob::new(&keys[i % keys.len()], message))
            .collect()
    };
    let reference = Kernels::select(Some(Tier::Reference), None).unwrap();
    let mut expected = jobs();
    assert_eq!(reference.digest(algorithm, &mut expected), 0);
    for (i, job) in expected.iter().enumerate() {
        if let Some(foreign) = foreign(algorithm, &raw_keys[i % keys.len()], job.input) {
            assert_eq!(job.digest(), foreign, "{} of {} bytes", algorithm.name(), job.input.len());
        }
    }
    for (name, kernels) in every_kernel() {
        let mut got = jobs();
        assert_eq!(kernels.digest(algorithm, &mut got), 0);
        for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
            assert_eq!(got.status, Status::Done);
            assert_eq!(
                got.digest(),
                expected.digest(),
                "{} {name}: job {i} of {}, {} bytes",
                algorithm.name(),
                messages.len(),
                got.input.len()
            );
        }
    }
}

fn keys_for(algorithm: Digest, count: usize) -> (Vec<DigestKey>, Vec<Vec<u8>>) {
    let lengths = algorithm.facts().key_bytes;
    let count = if lengths.max == 0 || algorithm == Digest::Bh140 { 1 } else { count };
    let raw: Vec<Vec<u8>> = (0..count)
        .map(|i| {
            let bytes = if lengths.min == lengths.max { lengths.min } else { 1 + 37 * i % 100 };
            (0..bytes).map(|j| (i * 31 + j * 7) as u8).collect()
        })
        .collect();
    (raw.iter().map(|key| DigestKey::new(algorithm, key).unwrap()).collect(), raw)
}

#[test]
fn every_length_to_three_blocks_in_one_batch() {
    let data = pattern(4200);
    let mut lengths: Vec<usize> = (0..=400).collect();
    lengths.extend([255, 256, 257, 511, 512, 1023, 1024, 1408, 1500, 4095, 4096]);
    let messages: Vec<&[u8]> = lengths.iter().map(|&n| &data[n % 7..n % 7 + n]).collect();
    for algorithm in Digest::ALL {
        let (keys, raw) = keys_for(algorithm, 5);
        agree(algorithm, &keys, &raw, &messages);
    }
}

#[test]
fn every_batch_size_around_the_ways() {
    let data = pattern(700);
    for algorithm in [Digest::Md5, Digest::HmacSha1, Digest::Sha256] {
        let (keys, raw) = keys_for(algorithm, 3);
        for count in [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 18, 31, 32, 33, 47, 63, 64, 65, 70, 97, 129] {
            let messages: Vec<&[u8]> = (0..count).map(|i| &data[..i * 13 % 300]).collect();
            agree(algorithm, &keys, &raw, &messages);
        }
    }
}

/// Jobs beyond one window, equal lengths.
#[test]
fn five_thousand_equal_messages() {
    let data = pattern(64);
    let messages: Vec<&[u8]> = (0..5000).map(|i| &data[i % 3..i % 3 + 60]).collect();
    let (keys, raw) = keys_for(Digest::Md5, 1);
    agree(Digest::Md5, &keys, &raw, &messages);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn random_batches(
        lengths in prop::collection::vec(0usize..2000, 1..80),
        which in prop::sample::select(vec![
            Digest::Md5, Digest::Sha1, Digest::Sha256, Digest::HmacMd5, Digest::HmacSha1, Digest::HmacSha256,
            Digest::Blake3, Digest::AhaI, Digest::InternetChecksum, Digest::Touch, Digest::Bh140,
        ]),
        seed in any::<u64>(),
    ) {
        let mut word = seed | 1;
        let data: Vec<u8> = (0..2100).map(|_| {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (word >> 56) as u8
        }).collect();
        let messages: Vec<&[u8]> = lengths.iter().map(|&n| &data[n % 64..n % 64 + n]).collect();
        let (keys, raw) = keys_for(which, 4);
        agree(which, &keys, &raw, &messages);
    }
}
