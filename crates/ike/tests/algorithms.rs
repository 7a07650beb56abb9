//! Edge cases of the algorithms, and the names that other programs use for them.

use aws_lc_rs::{
    rand::SystemRandom,
    rsa::KeySize,
    signature::{self, EcdsaKeyPair, Ed25519KeyPair},
};
use hex_literal::hex;
use proptest::prelude::*;
use sealane_ike::{
    Offer,
    crypto::{
        CryptoError, Encryption, Integrity, KeyExchange, Ongoing, Sealer, exchange,
        sign::{self, Allowed, Hash, Method, NoSignature, SigningKey},
    },
    eap::mschapv2::{PasswordHash, challenge_hash, server_proof, session_key, user_proof},
    offer::{self, Exchanges},
    wire::{Announcement, Protocol, Transform, TransformType},
};

#[test]
fn both_ends_of_every_key_exchange_have_the_same_secret() {
    for &method in KeyExchange::ALL {
        let ongoing = Ongoing::begin(method).unwrap();
        let (public, secret) = exchange::respond(method, ongoing.public()).unwrap();
        assert_eq!(ongoing.finish(&public).unwrap(), secret, "{method:?}");
    }
}

#[test]
fn public_values_that_are_none_are_refused() {
    let refused = |method| Err(CryptoError::PublicValue { method });
    for &method in KeyExchange::ALL {
        let public = Ongoing::begin(method).unwrap().public().to_vec();
        for wrong in [&[][..], &public[1..], &[&public[..], &[0]].concat()] {
            let answer = exchange::respond(method, wrong).map(|_| ());
            assert_eq!(answer, refused(method), "{method:?} with {} bytes", wrong.len());
        }
    }
    // Values whose result everybody knows are refused.
    for method in [KeyExchange::X25519, KeyExchange::P256, KeyExchange::Modp2048] {
        let length = Ongoing::begin(method).unwrap().public().len();
        let zero = vec![0; length];
        // The curve's numbers are encoded with the least significant byte first.
        let mut one = [&zero[1..], &[1]].concat();
        if method == KeyExchange::X25519 {
            one.reverse();
        }
        for wrong in [&zero, &one] {
            assert_eq!(exchange::respond(method, wrong).map(|_| ()), refused(method), "{method:?}");
        }
    }
    let mut prime = hex!(
        "ffffffffffffffffc90fdaa22168c234c4c6628b80dc1cd129024e088a67cc74020bbea63b139b22514a08798e3404dd"
        "ef9519b3cd3a431b302b0a6df25f14374fe1356d6d51c245e485b576625e7ec6f44c42e9a637ed6b0bff5cb6f406b7ed"
        "ee386bfb5a899fa5ae9f24117c4b1fe649286651ece45b3dc2007cb8a163bf0598da48361c55d39a69163fa8fd24cf5f"
        "83655d23dca3ad961c62f356208552bb9ed529077096966d670c354e4abc9804f1746c08ca18217c32905e462e36ce3b"
        "e39e772c180e86039b2783a2ec07a28fb5c55df06f4c52c9de2bcbf6955817183995497cea956ae515d2261898fa0510"
        "15728e5a8aacaa68ffffffffffffffff"
    );
    for _ in 0..2 {
        // The next values are p, and p - 1.
        assert_eq!(
            exchange::respond(KeyExchange::Modp2048, &prime).map(|_| ()),
            refused(KeyExchange::Modp2048)
        );
        prime[255] -= 1;
    }
    assert!(exchange::respond(KeyExchange::Modp2048, &prime).is_ok(), "p - 2");
}

fn sealers() -> Vec<[Sealer; 2]> {
    let pairs = [
        (Encryption::Aes256Gcm, None),
        (Encryption::Aes128Gcm, None),
        (Encryption::ChaCha20Poly1305, None),
        (Encryption::Aes256Ccm16, None),
        (Encryption::Aes128Ccm12, None),
        (Encryption::Aes128Ccm8, None),
        (Encryption::Aes256Cbc, Some(Integrity::HmacSha256)),
        (Encryption::Aes128Cbc, Some(Integrity::HmacSha512)),
    ];
    pairs
        .map(|(encryption, integrity)| {
            let key = vec![3; encryption.key_bytes() + encryption.salt_bytes()];
            let check = vec![5; integrity.map_or(0, Integrity::key_bytes)];
            [(); 2].map(|()| Sealer::new(encryption, integrity, &key, &check).unwrap())
        })
        .into()
}

proptest! {
    #[test]
    fn what_is_sealed_opens_and_nothing_else_does(
        head in prop::collection::vec(any::<u8>(), 28..60),
        clear in prop::collection::vec(any::<u8>(), 0..300),
        (at, bit) in (any::<prop::sample::Index>(), 0u8..8),
    ) {
        for [mut sealer, opener] in sealers() {
            let mut message = head.clone();
            sealer.seal(&mut message, &clear).unwrap();
            prop_assert_eq!(message.len(), head.len() + sealer.sealed_bytes(clear.len()));
            prop_assert!(sealer.sealed_bytes(clear.len()) <= clear.len() + sealer.overhead_bytes());
            let opened = opener.open(&message, head.len()).unwrap();
            prop_assert_eq!(opened.as_slice(), clear.as_slice());
            let at = at.index(message.len());
            message[at] ^= 1u8 << bit;
            prop_assert_eq!(opener.open(&message, head.len()), Err(CryptoError::NotGenuine));
            for cut in 0..message.len() {
                prop_assert!(opener.open(&message[..cut], head.len()).is_err());
            }
        }
    }
}

const NONE: Allowed = Allowed { sha1: false, ml_dsa: false };
const SHA1: Allowed = Allowed { sha1: true, ml_dsa: false };
const ML_DSA: Allowed = Allowed { sha1: false, ml_dsa: true };

/// Returns a key of each set of ML-DSA.
fn keys_of_ml_dsa() -> [SigningKey; 3] {
    [&signature::ML_DSA_44_SIGNING, &signature::ML_DSA_65_SIGNING, &signature::ML_DSA_87_SIGNING].map(|set| {
        let pair = signature::PqdsaKeyPair::generate(set).unwrap();
        SigningKey::from_pkcs8(pair.to_pkcs8v1().unwrap().as_ref()).unwrap()
    })
}

#[test]
fn ml_dsa_signs_where_both_ends_allow_it() {
    let keys = keys_of_ml_dsa();
    let all: Vec<u16> = Hash::ALL.iter().map(|hash| hash.number()).collect();
    for (key, last) in keys.iter().zip([0x11, 0x12, 0x13]) {
        assert!(sign::is_ml_dsa(key.public_key()));
        assert_eq!(key.sign(&all, None, NONE, b"octets"), Err(NoSignature::MlDsa));
        // It signs the message itself.
        assert_eq!(key.sign(&[2, 3, 4], None, ML_DSA, b"octets"), Err(NoSignature::NotTaken));
        assert_eq!(key.sign(&[], None, ML_DSA, b"octets"), Err(NoSignature::NotTaken));
        let (method, data) = key.sign(&all, None, ML_DSA, b"octets").unwrap();
        // The draft's identifier, of 13 bytes.
        let identifier = hex!("0d 30 0b 06 09 60 86 48 01 65 03 04 03");
        assert_eq!((method, &data[..13], data[13]), (Method::DIGITAL_SIGNATURE, &identifier[..], last));
        let public = key.public_key();
        assert_eq!(sign::verify(public, method, ML_DSA, b"octets", &data), Ok(()));
        assert!(sign::verify(public, method, NONE, b"octets", &data).is_err());
        assert!(sign::verify(public, method, ML_DSA, b"others", &data).is_err());
        for other in keys.iter().filter(|other| other.public_key() != public) {
            assert!(sign::verify(other.public_key(), method, ML_DSA, b"octets", &data).is_err());
        }
        for cut in (0..data.len()).step_by(97) {
            assert!(sign::verify(public, method, ML_DSA, b"octets", &data[..cut]).is_err());
        }
    }
}

#[test]
fn a_key_signs_what_the_other_end_announces_and_nothing_else() {
    let all: Vec<u16> = Hash::ALL.iter().map(|hash| hash.number()).collect();
    let (usual, more) = (sign::announcements(NONE), sign::announcements(ML_DSA));
    let [_, ml_dsa, _] = &keys_of_ml_dsa();
    assert_eq!(ml_dsa.sign(&all, Some(&usual), ML_DSA, b"octets"), Err(NoSignature::NotAnnounced));
    assert!(ml_dsa.sign(&all, Some(&more), ML_DSA, b"octets").is_ok());
    for key in &keys() {
        assert!(key.sign(&all, Some(&usual), NONE, b"octets").is_ok(), "{key:?}");
        let shared = [Announcement { method: Method::SHARED_KEY.0, identifier: Vec::new() }];
        assert_eq!(key.sign(&all, Some(&shared), NONE, b"octets"), Err(NoSignature::NotAnnounced));
        // The method alone stands for all of its algorithms.
        let any = [Announcement { method: Method::DIGITAL_SIGNATURE.0, identifier: Vec::new() }];
        assert!(key.sign(&all, Some(&any), NONE, b"octets").is_ok(), "{key:?}");
    }
    // RSA finds another padding.
    let rsa = keys().pop().unwrap();
    let pkcs1: Vec<_> = usual.into_iter().filter(|one| one.identifier.get(12) == Some(&0x0c)).collect();
    assert_eq!(pkcs1.len(), 1);
    let (method, data) = rsa.sign(&all, Some(&pkcs1), NONE, b"octets").unwrap();
    assert!(data[1..].starts_with(&pkcs1[0].identifier));
    assert_eq!(sign::verify(rsa.public_key(), method, NONE, b"octets", &data), Ok(()));
}

fn keys() -> Vec<SigningKey> {
    let random = SystemRandom::new();
    let p256 = EcdsaKeyPair::generate_pkcs8(&signature::ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
    let p384 = EcdsaKeyPair::generate_pkcs8(&signature::ECDSA_P384_SHA384_ASN1_SIGNING, &random).unwrap();
    let ed25519 = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
    let rsa = aws_lc_rs::rsa::KeyPair::generate(KeySize::Rsa2048).unwrap();
    let rsa = aws_lc_rs::encoding::AsDer::<aws_lc_rs::encoding::Pkcs8V1Der<'_>>::as_der(&rsa).unwrap();
    [ed25519.as_ref(), p256.as_ref(), p384.as_ref(), rsa.as_ref()]
        .map(|der| SigningKey::from_pkcs8(der).unwrap())
        .into()
}

#[test]
fn signatures_are_their_keys_alone() {
    let keys = keys();
    let all: Vec<u16> = Hash::ALL.iter().map(|hash| hash.number()).collect();
    for (index, key) in keys.iter().enumerate() {
        let (method, data) = key.sign(&all, None, NONE, b"octets").unwrap();
        assert_eq!(method, Method::DIGITAL_SIGNATURE);
        for (other, verifier) in keys.iter().enumerate() {
            let verified = sign::verify(verifier.public_key(), method, NONE, b"octets", &data);
            assert_eq!(verified.is_ok(), index == other);
        }
        let public = key.public_key();
        assert!(sign::verify(public, method, NONE, b"other octets", &data).is_err());
        assert!(sign::verify(public, Method::SHARED_KEY, SHA1, b"octets", &data).is_err());
        for cut in 0..data.len() {
            assert!(sign::verify(public, method, SHA1, b"octets", &data[..cut]).is_err());
        }
    }
    let [ed25519, p256, p384, rsa] = &keys[..] else { panic!("four keys") };
    // A peer without RFC 7427 accepts r and s, and RSA with SHA-1 only.
    for (key, method) in [(p256, Method::ECDSA_256), (p384, Method::ECDSA_384)] {
        let (made, data) = key.sign(&[], None, NONE, b"octets").unwrap();
        assert_eq!(made, method);
        assert_eq!(sign::verify(key.public_key(), method, NONE, b"octets", &data), Ok(()));
    }
    assert!(
        rsa.sign(&[], None, NONE, b"octets").is_err() && ed25519.sign(&[], None, SHA1, b"octets").is_err()
    );
    let (method, data) = rsa.sign(&[], None, SHA1, b"octets").unwrap();
    assert_eq!(method, Method::RSA);
    assert!(sign::verify(rsa.public_key(), method, SHA1, b"octets", &data).is_ok());
    assert!(sign::verify(rsa.public_key(), method, NONE, b"octets", &data).is_err());
    assert!(sign::verify(rsa.public_key(), method, SHA1, b"others", &data).is_err());
    assert!(ed25519.sign(&[2, 3, 4], None, NONE, b"octets").is_err(), "without Identity there is no Ed25519");
    assert!(SigningKey::from_pkcs8(b"no key").is_err());
    assert!(sign::verify(b"no key", Method::DIGITAL_SIGNATURE, NONE, b"", b"").is_err());
}

#[test]
fn suites_are_known_to_esp_by_name_and_length() {
    let combined = Encryption::ALL.iter().filter(|encryption| encryption.is_combined());
    let ciphers = combined.map(|encryption| encryption.name().to_owned());
    let pairs = ["aes256", "aes128"].into_iter().flat_map(|cipher| {
        ["sha512", "sha384", "sha256", "sha1"].map(|integrity| format!("{cipher}-{integrity}"))
    });
    let mut suites = 0;
    for text in ciphers.chain(pairs) {
        let offer = Offer::esp(&text).unwrap();
        let (choice, _) = offer::select(
            std::slice::from_ref(&offer),
            &[offer.to_wire(1, vec![0, 0, 1, 0])],
            Exchanges::None,
        )
        .unwrap();
        let suite = choice.child_suite();
        let esp: sealane_ipsec::suite::Suite = suite.name().parse().expect("ESP knows it");
        assert!(esp.is_for_esp());
        assert_eq!(esp.material_bytes(), suite.material_bytes(), "{text}");
        suites += 1;
    }
    assert_eq!(suites, 17);
    for integrity in ["sha512", "sha384", "sha256", "sha1"] {
        let [suite, _] = Offer::ah(integrity).unwrap().child_suites()[..] else {
            panic!("with ESN and without")
        };
        let ah: sealane_ipsec::suite::Suite = suite.name().parse().expect("AH knows it");
        assert!(ah.is_for_ah() && suite.protocol() == Protocol::Ah);
        assert_eq!(ah.material_bytes(), suite.material_bytes(), "{integrity}");
    }
    for (text, says) in [
        ("aes256-sha256", "encrypts nothing"),
        ("x25519", "no integrity"),
        ("sha256-prfsha256", "only IKE itself needs"),
    ] {
        assert!(Offer::ah(text).unwrap_err().to_string().contains(says), "{text}");
    }
}

#[test]
fn proposals_are_read_or_say_what_is_missing() {
    for text in
        ["aes256gcm16-prfsha384-x25519-ke1_mlkem768", "aes256-aes128-sha256-prfsha256-ecp256-modp2048"]
    {
        assert_eq!(Offer::ike(text).unwrap().to_string(), text);
    }
    assert_eq!(Offer::ike("aes256-sha256-modp2048").unwrap().to_string(), "aes256-sha256-prfsha256-modp2048");
    for (text, problem) in [
        ("aes256gcm16-x25519", "pseudo-random function"),
        ("aes256gcm16-prfsha256", "key exchange"),
        ("aes256gcm16-prfsha256-mlkem768", "ke1_"),
        ("aes256-prfsha256-x25519", "integrity"),
        ("aes256gcm16-aes128-sha256-prfsha256-x25519", "two proposals"),
        ("aes256-sha1-prfsha256-x25519", "SHA-1"),
        ("aes256gcm16-prfsha256-x25519-ke2_mlkem768", "the one before"),
        ("rot13-prfsha256-x25519", "\"rot13\" is no algorithm"),
        ("", "\"\" is no algorithm"),
        ("aes256gcm16-prfsha256-x25519-ke8_mlkem768", "ke8_mlkem768"),
    ] {
        let error = Offer::ike(text).expect_err(text).to_string();
        assert!(error.contains(problem), "{text}: {error}");
    }
    assert!(Offer::esp("aes256gcm16-prfsha256").is_err());
}

#[test]
fn what_is_chosen_was_offered_by_both() {
    let ours = [
        Offer::ike("aes256gcm16-prfsha384-x25519-ke1_mlkem768"),
        Offer::ike("aes256-sha256-ecp256-modp2048"),
    ]
    .map(Result::unwrap);
    let theirs =
        Offer::ike("aes256-sha256-prfsha512-prfsha256-modp2048-ecp256").unwrap().to_wire(1, Vec::new());
    let (choice, reply) = offer::select(&ours, std::slice::from_ref(&theirs), Exchanges::Required).unwrap();
    assert_eq!(choice.exchange, Some(KeyExchange::P256), "our order decides");
    assert_eq!(reply.transforms.len(), 4);
    assert_eq!(offer::accept(&ours[1..], std::slice::from_ref(&reply), Exchanges::Required), Ok(choice));
    // An answer with two algorithms of one type, or with an attribute that nobody asked for, is not accepted.
    let mut two = reply.clone();
    two.transforms.push(KeyExchange::Modp2048.transform(TransformType::KEY_EXCHANGE));
    assert!(offer::accept(&ours[1..], &[two], Exchanges::Required).is_err());
    let mut marked = reply;
    marked.transforms[0].has_unknown_attributes = true;
    assert!(offer::accept(&ours[1..], &[marked], Exchanges::Required).is_err());
    // Without a transform for sequence numbers, ESP uses 32 bits.
    let esp = Offer::esp("aes256gcm16").unwrap();
    let mut silent = esp.to_wire(1, vec![0, 0, 1, 0]);
    silent.transforms.retain(|transform: &Transform| transform.kind != TransformType::SEQUENCE_NUMBERS);
    let (choice, _) = offer::select(&[esp], &[silent], Exchanges::None).unwrap();
    assert!(!choice.extended);
}

/// The example of RFC 2759, section 9.2, and of RFC 3079, section 3.5.3.
#[test]
fn mschapv2_computes_what_its_documents_say() {
    let server = hex!("5b5d7c7d7b3f2f3e3c2c602132262628");
    let peer = hex!("21402324255e262a28295f2b3a337c7e");
    let hash = PasswordHash::of("clientPass");
    assert_eq!(challenge_hash(&peer, &server, "User"), hex!("d02e4386bce91226"));
    let proof = user_proof(&server, &peer, "User", &hash);
    assert_eq!(proof, hex!("82309ecd8d708b5ea08faa3981cd83544233114a3d85d6df"));
    let answer = server_proof(&server, &peer, "User", &hash, &proof);
    assert_eq!(str::from_utf8(&answer), Ok("S=407A5589115FD0D6209F510FE9C04566932CDA56"));
    let key = session_key(&hash, &proof);
    assert_eq!(key[16..32], hex!("8b7cdc149b993a1ba118cb153f56dccb"));
    assert_eq!((key.len(), &key[32..]), (64, &[0; 32][..]));
}
