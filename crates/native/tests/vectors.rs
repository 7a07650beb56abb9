//! Published vectors, and refusals.

use hex_literal::hex;
use sealane_native::key::{Key, Kind, Padding};
use sealane_native::number::{Modulus, Natural, private_exponent};
use sealane_native::{
    Ccm, Digest, Hash, Refused, aes, curve25519, ml_dsa, ml_kem, p256, rsa, scrypt, states, unpad,
};

/// RFC 7748, 6.1.
#[test]
fn x25519_of_rfc_7748() {
    let bob = hex!("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb");
    let of_alice = hex!("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
    let mut out = [0; 32];
    curve25519::x25519_public(&mut out, &bob);
    assert_eq!(out, hex!("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"));
    assert!(curve25519::x25519(&mut out, &bob, &of_alice));
    assert_eq!(out, hex!("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"));
    assert!(!curve25519::x25519(&mut out, &bob, &[0; 32]), "a point of small order");
}

/// RFC 8032, 7.1, test 2.
#[test]
fn ed25519_of_rfc_8032() {
    let mut pair = [0; 64];
    curve25519::ed25519_pair(
        &mut pair,
        &hex!("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"),
    );
    let public = hex!("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c");
    assert_eq!(pair[32..], public);
    let mut signature = [0; 64];
    assert!(curve25519::ed25519_sign(&mut signature, &[0x72], &pair));
    assert_eq!(
        signature,
        hex!(
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
            "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
        )
    );
    assert!(curve25519::ed25519_verify(&[0x72], &signature, &public));
    assert!(!curve25519::ed25519_verify(&[0x73], &signature, &public));
}

/// RFC 6979, A.2.5, with SHA-256 and the message "sample".
#[test]
fn p256_of_rfc_6979() {
    let scalar = hex!("c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721");
    let nonce = hex!("a6e3c57dd01abe90086538398355dd4c3b17aa873382b0f24d6129493d8aad60");
    let mut digest = Digest::new(Hash::Sha256).unwrap();
    digest.update(b"sample").unwrap();
    let digest = &digest.finish().unwrap()[..32];
    let (key, mut signature) = (p256::Key::private(&scalar).unwrap(), [0; 64]);
    key.sign_with(digest, &nonce, &mut signature).unwrap();
    assert_eq!(
        signature,
        hex!(
            "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716"
            "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8"
        )
    );
    let point = p256::public_of(&scalar).unwrap();
    let public = p256::Key::public(&point).unwrap();
    let ([r, s], []) = signature.as_chunks() else { unreachable!() };
    public.verify(digest, r, s).unwrap();
    assert_eq!(public.verify(digest, s, r), Err(Refused));
    let (other, mut one, mut two) = ([7; 32], [0; 32], [0; 32]);
    key.agree(&p256::public_of(&other).unwrap(), &mut one).unwrap();
    p256::Key::private(&other).unwrap().agree(&point, &mut two).unwrap();
    assert_eq!(one, two);
    assert_eq!(key.sign_with(digest, &[0; 32], &mut signature), Err(Refused), "a nonce of zero");
    assert!(p256::Key::private(&[0xff; 32]).is_err() && p256::Key::public(&[0]).is_err());
    assert_eq!(public.sign_with(digest, &nonce, &mut signature), Err(Refused), "a public key");
    assert_eq!(public.agree(&point, &mut one), Err(Refused), "a public key");
    assert_eq!(key.verify(digest, &[1; 32], &[1; 32]), Err(Refused), "a private key alone");
    let mut off_the_curve = point;
    off_the_curve[64] ^= 1;
    assert_eq!(key.agree(&off_the_curve, &mut one), Err(Refused));
}

#[test]
fn numbers_of_a_small_modulus() {
    let number = |value: u8| Natural::from_bytes(&[value]).unwrap();
    let byte = |number: Natural| {
        let mut out = [0; 1];
        number.to_bytes(&mut out).map(|()| out[0])
    };
    let modulus = Modulus::new(&[101]).unwrap();
    for (base, exponent) in [(3, 5), (100, 2), (7, 0)] {
        let wanted = (0..exponent).fold(1u32, |power, _| power * u32::from(base) % 101) as u8;
        assert_eq!(byte(modulus.power_secret(&number(base), &number(exponent)).unwrap()), Ok(wanted));
        assert_eq!(byte(modulus.power_public(&number(base), &number(exponent)).unwrap()), Ok(wanted));
    }
    assert_eq!(byte(modulus.multiply(&number(50), &number(3)).unwrap()), Ok(49));
    assert_eq!(byte(modulus.inverse(&number(50)).unwrap()), Ok(99));
    assert!(modulus.inverse(&number(0)).is_err());
    assert!((1..=100).contains(&byte(modulus.random().unwrap()).unwrap()));
    // (11 - 1)(17 - 1) = 160, and 3 · 107 = 321 = 2 · 160 + 1.
    assert_eq!(byte(private_exponent(&number(3), &[11], &[17]).unwrap()), Ok(107));
    assert!(private_exponent(&number(5), &[11], &[17]).is_err());
    assert_eq!(Natural::from_bytes(&[1, 0]).unwrap().to_bytes(&mut [0]), Err(Refused));
}

#[test]
fn rsa_runs_both_ways_and_refuses_what_is_not_its_own() {
    let key = rsa::Key::generate(2048, 3).unwrap();
    let parts = key.components();
    let public = rsa::Key::public(&parts.public[0], &parts.public[1]).unwrap();
    let mut block = [0x5a; 256];
    block[0] = 0;
    let (mut sealed, mut opened) = ([0; 256], [0; 256]);
    public.run_public(&block, &mut sealed).unwrap();
    key.run_private(&sealed, &mut opened).unwrap();
    assert_eq!(opened, block);
    assert_eq!(key.run_private(&[0xff; 256], &mut opened), Err(Refused));
    assert_eq!(key.run_private(&sealed[1..], &mut opened), Err(Refused));
    assert_eq!(key.run_private(&sealed, &mut opened[1..]), Err(Refused));
    assert_eq!(public.run_private(&sealed, &mut opened), Err(Refused), "a public key");
    assert!(public.to_pkcs1().is_err() && public.components().secret.iter().all(|part| part.is_empty()));
    let again = rsa::Key::of_der(&key.to_pkcs1().unwrap()).unwrap();
    assert_eq!(again.components().secret, parts.secret);
    let pkcs8 = Key::generate(Kind::P256).unwrap().to_pkcs8().unwrap();
    assert!(rsa::Key::of_der(&pkcs8).is_err() && rsa::Key::of_der(b"none").is_err());
}

#[test]
fn keys_of_all_kinds_sign_agree_and_are_read_again() {
    for kind in [Kind::Rsa { bits: 2048 }, Kind::P256, Kind::P384, Kind::P521, Kind::Ed25519, Kind::X25519] {
        let key = Key::generate(kind).unwrap();
        assert_eq!(key.kind(), Some(kind));
        let again = Key::of_pkcs8(&key.to_pkcs8().unwrap()).unwrap();
        let der = key.to_public().unwrap();
        assert_eq!(again.to_public().unwrap(), der);
        let public = Key::of_public(&der).unwrap();
        assert!(Key::of_public(&[&der[..], &[0]].concat()).is_err(), "bytes behind the key");
        let curves = [(Kind::P256, 32), (Kind::P384, 48), (Kind::P521, 66)];
        let curve = curves.into_iter().find(|(curve, _)| *curve == kind);
        match curve {
            Some((_, bytes)) => {
                let scalar = key.scalar(bytes).unwrap();
                assert!(scalar.iter().any(|byte| *byte != 0) && public.scalar(bytes).is_err());
                let point = &der[der.len() - 2 * bytes - 1..];
                let other = Key::generate(kind).unwrap();
                let theirs = other.to_public().unwrap();
                let theirs = &theirs[theirs.len() - 2 * bytes - 1..];
                assert_eq!(key.derive(theirs).unwrap(), other.derive(point).unwrap());
                assert!(key.derive(&theirs[1..]).is_err());
            }
            None => assert!(key.scalar(32).is_err()),
        }
        assert_eq!(key.raw_private(32).is_ok(), matches!(kind, Kind::Ed25519 | Kind::X25519));
        assert!(kind == Kind::X25519 || key.derive(&[9; 32]).is_err());
        assert!(kind == Kind::Ed25519 || key.sign_message(b"message").is_err());
        assert!(!key.is_ml_dsa() && !key.is_rsa_pss() && key.size() > 0);
        let is_rsa = matches!(kind, Kind::Rsa { .. });
        assert_eq!((key.to_unbound().is_ok(), key.pss_limits().is_ok()), (is_rsa, false));
        let padding = match kind {
            Kind::X25519 => {
                let mut of_nine = [0; 32];
                let scalar = key.raw_private(32).unwrap();
                curve25519::x25519_public(&mut of_nine, scalar.as_slice().try_into().unwrap());
                assert_eq!(key.derive(&[9; 32]).unwrap().len(), 32);
                assert!(der.ends_with(&of_nine) && key.derive(&[0; 32]).is_err());
                continue;
            }
            Kind::Ed25519 => {
                let signature = key.sign_message(b"message").unwrap();
                public.verify_message(b"message", &signature).unwrap();
                assert!(public.verify_message(b"massage", &signature).is_err());
                continue;
            }
            Kind::Rsa { .. } => {
                let hash = Hash::Sha256;
                let oaep = Padding::Oaep { hash, mask: hash };
                let sealed = public.encrypt(oaep, b"secret").unwrap();
                assert_eq!(key.decrypt(oaep, &sealed).unwrap().as_slice(), b"secret");
                assert!(key.decrypt(Padding::Pkcs1(None), &sealed).is_err());
                Some(Padding::Pss { hash, mask: hash, salt_bytes: Some(32) })
            }
            Kind::P256 | Kind::P384 | Kind::P521 => None,
        };
        let signature = key.sign(padding, &[7; 32]).unwrap();
        public.verify(padding, &[7; 32], &signature).unwrap();
        assert!(public.verify(padding, &[8; 32], &signature).is_err());
        assert!(public.sign(padding, &[7; 32]).is_err(), "a public key signs nothing");
    }
}

#[test]
fn hashes_go_on_from_a_state() {
    let digest = |hash, message: &[u8]| {
        let mut digest = Digest::new(hash).unwrap();
        digest.update(message).unwrap();
        let copy = digest.duplicate().unwrap().finish().unwrap();
        assert_eq!(digest.finish().unwrap(), copy);
        assert_eq!((digest.update(message), digest.finish()), (Err(Refused), Err(Refused)), "it has ended");
        digest.start().unwrap();
        assert_ne!(digest.finish().unwrap(), copy);
        copy
    };
    let message: Vec<u8> = (0..300).map(|at| at as u8).collect();
    let initial = [
        0x6a09_e667_f3bc_c908,
        0xbb67_ae85_84ca_a73b,
        0x3c6e_f372_fe94_f82b,
        0xa54f_f53a_5f1d_36f1,
        0x510e_527f_ade6_82d1,
        0x9b05_688c_2b3e_6c1f,
        0x1f83_d9ab_fb41_bd6b,
        0x5be0_cd19_137e_2179,
    ];
    digest(Hash::Sha3_256, &message);
    digest(Hash::Md5Sha1, &message);
    let wanted = digest(Hash::Sha512, &message);
    assert_eq!(states::sha512_end(&initial, 0, [&message[..7], &message[7..]]), wanted);
    let mut state = initial;
    states::sha512(&mut state, message.first_chunk().unwrap());
    assert_eq!(states::sha512_end(&state, 128, [&[], &message[128..]]), wanted);
    // "abc" with its padding (FIPS 180-4, 5.1.1).
    let mut block = [0; 64];
    block[..4].copy_from_slice(b"abc\x80");
    block[63] = 24;
    let mut state = initial.map(|word: u64| (word >> 32) as u32);
    states::sha256(&mut state, &[block]);
    assert_eq!(state.map(u32::to_be_bytes).as_flattened(), &digest(Hash::Sha256, b"abc")[..32]);
    let mut state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0, 0, 0, 0];
    states::sha1(&mut state, &[block]);
    assert_eq!(&state.map(u32::to_be_bytes).as_flattened()[..20], &digest(Hash::Sha1, b"abc")[..20]);
}

/// NIST SP 800-38C, example 1, and its parts.
#[test]
fn ccm_of_sp_800_38c() {
    let key = hex!("404142434445464748494a4b4c4d4e4f");
    let (nonce, aad) = (hex!("10111213141516"), hex!("0001020304050607"));
    let (mut data, mut tag) = (hex!("20212223"), [0; 16]);
    Ccm::new(&key, 7, 4, true).unwrap().seal(&nonce, &aad, &mut data, &mut tag).unwrap();
    assert_eq!((data, &tag[..4]), (hex!("7162015b"), &hex!("4dac255d")[..]));
    let mut opened = [0; 4];
    let mut ccm = Ccm::new(&key, 7, 4, false).unwrap();
    ccm.open(&nonce, &aad, &data, &tag, &mut opened).unwrap();
    assert_eq!(opened, hex!("20212223"));
    tag[0] ^= 1;
    assert_eq!(ccm.open(&nonce, &aad, &data, &tag, &mut opened), Err(Refused));
    assert_eq!(ccm.open(&nonce[1..], &aad, &data, &tag, &mut opened), Err(Refused));
    assert_eq!(ccm.seal(&nonce, &aad, &mut opened, &mut tag), Err(Refused), "a key that opens");
    let mut ccm = Ccm::new(&key, 7, 4, true).unwrap();
    assert_eq!(ccm.open(&nonce, &aad, &data, &tag, &mut opened), Err(Refused), "a key that seals");
    assert!(Ccm::new(&key[1..], 7, 4, true).is_err() && Ccm::new(&key, 3, 4, true).is_err());
}

/// NIST SP 800-38A, F.2.1 and F.5.1.
#[test]
fn aes_of_sp_800_38a() {
    let key = aes::Key::encrypting(&hex!("2b7e151628aed2a6abf7158809cf4f3c")).unwrap();
    let block = hex!("6bc1bee22e409f96e93d7e117393172a");
    let mut chain = hex!("000102030405060708090a0b0c0d0e0f");
    key.chain(&mut chain, &block);
    assert_eq!(chain, hex!("7649abac8119b246cee98e9b12e9197d"));
    let mut data = block;
    key.count(hex!("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"), &mut data);
    assert_eq!(data, hex!("874d6191b620e3261bef6864990db6ce"));
    assert!(aes::Key::encrypting(&[0; 17]).is_err());
}

#[test]
fn ml_kem_and_ml_dsa_check_lengths() {
    for (set, bytes) in [
        (ml_kem::Set::MlKem512, [800, 1632, 768]),
        (ml_kem::Set::MlKem768, [1184, 2400, 1088]),
        (ml_kem::Set::MlKem1024, [1568, 3168, 1568]),
    ] {
        let [mut public, mut private, mut ciphertext] = bytes.map(|bytes| vec![0; bytes]);
        let pair = ml_kem::Key::of_seed(set, &[3; 64]).unwrap();
        pair.write_public(&mut public).unwrap();
        pair.write_private(&mut private).unwrap();
        let (mut one, mut other) = ([0; 32], [0; 32]);
        let owner = ml_kem::Key::of_both(set, &public, &private).unwrap();
        let sender = ml_kem::Key::of_public(set, &public).unwrap();
        sender.encapsulate(Some(&[5; 32]), &mut ciphertext, &mut one).unwrap();
        owner.decapsulate(&ciphertext, &mut other).unwrap();
        assert_eq!(one, other);
        assert_eq!(owner.decapsulate(&ciphertext[1..], &mut other), Err(Refused));
        assert_eq!(sender.encapsulate(None, &mut ciphertext[1..], &mut one), Err(Refused));
        assert_eq!(pair.write_private(&mut private[1..]), Err(Refused));
        let alone = ml_kem::Key::of_private(set, &private).unwrap();
        alone.decapsulate(&ciphertext, &mut other).unwrap();
        assert_eq!(one, other);
        assert_eq!(alone.encapsulate(None, &mut ciphertext, &mut one), Err(Refused), "a private key alone");
        assert_eq!(alone.write_public(&mut public), Err(Refused));
        assert_eq!(sender.decapsulate(&ciphertext, &mut one), Err(Refused), "a public key");
        assert_eq!(sender.write_private(&mut private), Err(Refused));
        public[0] ^= 1;
        assert!(ml_kem::Key::of_both(set, &public, &private).is_err());
    }
    for (set, bytes) in [
        (ml_dsa::Set::MlDsa44, [1312, 2560, 2420]),
        (ml_dsa::Set::MlDsa65, [1952, 4032, 3309]),
        (ml_dsa::Set::MlDsa87, [2592, 4896, 4627]),
    ] {
        let [mut public, mut private, mut signature] = bytes.map(|bytes| vec![0; bytes]);
        set.generate(&[3; 32], &mut public, &mut private).unwrap();
        let mut again = public.clone();
        set.public_of(&private, &mut again).unwrap();
        assert_eq!(again, public);
        set.sign(&private, &[7; 64], &[0; 32], &mut signature).unwrap();
        set.verify(&public, &[7; 64], &signature).unwrap();
        assert_eq!(set.verify(&public, &[8; 64], &signature), Err(Refused));
        assert_eq!(set.verify(&public[1..], &[7; 64], &signature), Err(Refused));
        assert_eq!(set.verify(&public, &[7; 64], &signature[1..]), Err(Refused));
        assert_eq!(set.sign(&private[1..], &[7; 64], &[0; 32], &mut signature), Err(Refused));
        assert_eq!(set.sign(&private, &[7; 64], &[0; 32], &mut signature[1..]), Err(Refused));
        assert_eq!(set.public_of(&private[1..], &mut again), Err(Refused));
        assert_eq!(set.generate(&[3; 32], &mut public[1..], &mut private), Err(Refused));
    }
}

/// RFC 7914, 12, has no vector with these parameters but the last's N; what is checked are the bound and that all inputs count.
#[test]
fn scrypt_takes_no_more_memory_than_it_says() {
    let mut keys = [[0; 32]; 3];
    scrypt(b"pleaseletmein", b"SodiumChloride", 10, &mut keys[0]).unwrap();
    scrypt(b"pleaseletmein", b"SodiumChlorida", 10, &mut keys[1]).unwrap();
    scrypt(b"pleaseletmein", b"SodiumChloride", 11, &mut keys[2]).unwrap();
    assert!(keys[0] != keys[1] && keys[0] != keys[2]);
    assert_eq!(scrypt(b"", b"", 17, &mut keys[0]), Err(Refused));
    assert_eq!(scrypt(b"", b"", 64, &mut keys[0]), Err(Refused));
}

#[test]
fn a_record_of_tls_loses_its_padding_whatever_it_is() {
    let record = |padding: &[u8]| [&[1, 2, 3, 4, 5, 6, 7, 8], padding].concat();
    let good = unpad(&record(&[7; 8]), 4).unwrap();
    assert!(bool::from(good.is_good));
    assert_eq!((good.length, &good.code[..4]), (4, &[5, 6, 7, 8][..]));
    let bad = unpad(&record(&[7, 7, 7, 7, 7, 7, 6, 7]), 4).unwrap();
    assert!(!bool::from(bad.is_good) && bad.length <= 16);
    for length in 0..5 {
        assert!(unpad(&vec![0; length], 4).is_err(), "{length} bytes hold no code and no padding");
    }
    assert!(unpad(&[0; 512], 65).is_err());
}
