//! The kinds of operations of each algorithm. Beside those with any numbers there are kinds near what is valid, of which
//! one byte or none is altered: their inputs come past the first check.

use std::sync::{Arc, LazyLock};

use sealane_transform::dh::{self, DhExponent, DhGroup, DhPrivateKey};
use sealane_transform::ed25519::{self, Ed25519Key, Ed25519PublicKey};
use sealane_transform::ml_dsa::{self, MlDsaMessage, MlDsaPrivateKey, MlDsaPublicKey, MlDsaSet};
use sealane_transform::ml_kem::{self, MlKemDecapsulationKey, MlKemEncapsulationKey, MlKemSet};
use sealane_transform::p256::{self, P256PrivateKey, P256PublicKey, signature_of_der, signature_to_der};
use sealane_transform::rsa::{self, RsaPrivateKey, RsaPublicKey};
use sealane_transform::x25519::{self, X25519Key};
use zeroize::Zeroizing;

use super::{Algorithm, Source, made};

const RSA_DER: &[u8] = include_bytes!("../../keys/rsa-2048.pkcs8");

static RSA_KEY: LazyLock<Arc<RsaPrivateKey>> =
    LazyLock::new(|| Arc::new(RsaPrivateKey::from_der(RSA_DER).expect("a key")));

/// Returns the modulus: the first integer of 257 bytes, of which the first is zero.
fn rsa_modulus() -> [u8; 256] {
    const HEAD: &[u8] = &[0x02, 0x82, 0x01, 0x01, 0x00];
    let at = RSA_DER.windows(HEAD.len()).position(|bytes| bytes == HEAD).expect("a modulus of 2048 bits");
    *RSA_DER[at + HEAD.len()..].first_chunk().expect("a whole key")
}

/// RSA: any blocks and moduli, and private keys from any DER.
pub const RSA: Algorithm = Algorithm {
    target: "public_keys_rsa",
    kinds: &[
        |source| {
            let block = Zeroizing::new(source.vector(256));
            Some(rsa::Operation::Private { key: Arc::clone(&RSA_KEY), block }.into())
        },
        |source| {
            let bytes = source.choice(&[256, 384, 512]);
            let mut modulus = source.vector(bytes);
            modulus[0] |= 0x80;
            let exponent_bytes = 1 + usize::from(source.byte() % 5);
            let key = Arc::new(RsaPublicKey::new(&modulus, &source.vector(exponent_bytes)).ok()?);
            Some(rsa::Operation::Public { key, block: Zeroizing::new(source.vector(bytes)) }.into())
        },
        |source| {
            // A block near the modulus, or near 0.
            let (key, mut block) = (RSA_KEY.share_public(), Zeroizing::new(vec![0; 256]));
            if source.byte().is_multiple_of(2) {
                block.copy_from_slice(&rsa_modulus());
            }
            source.alter(&mut block);
            source.alter(&mut block[255..]);
            Some(rsa::Operation::Public { key, block }.into())
        },
        |source| {
            let key = Arc::new(RsaPrivateKey::from_der(source.bytes).ok()?);
            let block = Zeroizing::new(source.vector(key.public().bytes()));
            Some(rsa::Operation::Private { key, block }.into())
        },
    ],
    is_dear: true,
};

fn dh_key(source: &mut Source<'_>) -> Option<Arc<DhPrivateKey>> {
    let group = source.choice(&[DhGroup::Modp2048, DhGroup::Modp2048, DhGroup::Modp3072, DhGroup::Modp4096]);
    // A full exponent of the larger groups takes the reference a second.
    let lengths =
        [DhExponent::Short, if group == DhGroup::Modp2048 { DhExponent::Full } else { DhExponent::Short }];
    let length = source.choice(&lengths);
    DhPrivateKey::new(group, length, &Zeroizing::new(source.vector(32))).ok().map(Arc::new)
}

/// Finite-field Diffie-Hellman.
pub const DH: Algorithm = Algorithm {
    target: "public_keys_dh",
    kinds: &[
        |source| {
            let key = dh_key(source)?;
            let peer = source.vector(key.group().bytes());
            Some(dh::Operation::Agree { key, peer }.into())
        },
        |source| {
            // A value near the prime, or near 0.
            let key = dh_key(source)?;
            let mut peer = key.group().prime().to_vec();
            if source.byte().is_multiple_of(2) {
                peer.fill(0);
            }
            source.alter(&mut peer);
            let last = peer.len() - 1;
            source.alter(&mut peer[last..]);
            Some(dh::Operation::Agree { key, peer }.into())
        },
        |source| Some(dh::Operation::Public { key: dh_key(source)? }.into()),
    ],
    is_dear: true,
};

fn x25519_key(source: &mut Source<'_>) -> Arc<X25519Key> {
    Arc::new(X25519Key::new(&source.secret()))
}

/// The prime 2^255 - 19, little-endian.
const FIELD: [u8; 32] = {
    let mut bytes = [0xff; 32];
    (bytes[0], bytes[31]) = (0xed, 0x7f);
    bytes
};

/// The u coordinate of a point of order eight (RFC 7748's curve; Cremers and Jackson 2019, table 1).
const ORDER_EIGHT: [u8; 32] = [
    0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4, 0x6a, 0xda,
    0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49, 0xb8, 0x00,
];

/// X25519: peers of any bytes, and bytes next to points of small order.
pub const X25519: Algorithm = Algorithm {
    target: "public_keys_x25519",
    kinds: &[
        |source| Some(x25519::Operation::Agree { key: x25519_key(source), peer: source.array() }.into()),
        |source| {
            let mut peer = source.choice(&[[0; 32], FIELD, ORDER_EIGHT]);
            source.alter(&mut peer);
            Some(x25519::Operation::Agree { key: x25519_key(source), peer }.into())
        },
        |source| Some(x25519::Operation::Public { key: x25519_key(source) }.into()),
    ],
    is_dear: false,
};

fn p256_key(source: &mut Source<'_>) -> Option<Arc<P256PrivateKey>> {
    P256PrivateKey::new(&source.secret()).ok().map(Arc::new)
}

/// ECDH on P-256.
pub const ECDH_P256: Algorithm = Algorithm {
    target: "public_keys_ecdh_p256",
    kinds: &[
        |source| {
            let bytes = source.choice(&[65, 33]);
            let mut peer = source.vector(bytes);
            // The compressed form makes half of all numbers points.
            if source.byte().is_multiple_of(2) {
                peer[0] = if bytes == 65 { 4 } else { 2 | peer[0] & 1 };
            }
            Some(
                p256::Operation::Agree { key: p256_key(source)?, peer: peer.as_slice().try_into().ok()? }
                    .into(),
            )
        },
        |source| {
            let mut peer = made(p256::Operation::Public { key: p256_key(source)? })?;
            source.alter(&mut peer);
            Some(
                p256::Operation::Agree { key: p256_key(source)?, peer: peer.as_slice().try_into().ok()? }
                    .into(),
            )
        },
        |source| Some(p256::Operation::Public { key: p256_key(source)? }.into()),
    ],
    is_dear: false,
};

/// ECDSA on P-256, and signatures in DER: what is read is written again as the same bytes.
pub const ECDSA_P256: Algorithm = Algorithm {
    target: "public_keys_ecdsa_p256",
    kinds: &[
        |source| {
            let (key, bytes) = (p256_key(source)?, usize::from(source.byte() % 65));
            let (hedge, digest) = (source.array(), source.vector(bytes));
            let hedge = bytes.is_multiple_of(3).then_some(hedge);
            Some(p256::Operation::Sign { key, digest: digest.as_slice().try_into().ok()?, hedge }.into())
        },
        |source| {
            if let Some(signature) = signature_of_der(source.bytes) {
                assert_eq!(signature_to_der(&signature).as_slice(), source.bytes);
            }
            // The compressed form makes half of all numbers points.
            let mut point = source.vector(33);
            point[0] = 2 | point[0] & 1;
            let (key, bytes) = (Arc::new(P256PublicKey::new(&point).ok()?), usize::from(source.byte() % 65));
            let (signature, digest) = (source.array(), source.vector(bytes));
            let digest = digest.as_slice().try_into().ok()?;
            Some(p256::Operation::Verify { key, digest, signature }.into())
        },
        |source| {
            let key = p256_key(source)?;
            let mut digest = source.array::<32>();
            let taken = digest.as_slice().try_into().ok()?;
            let mut signature =
                made(p256::Operation::Sign { key: Arc::clone(&key), digest: taken, hedge: None })?;
            let mut point = made(p256::Operation::Public { key })?;
            match source.byte() % 4 {
                0 => source.alter(&mut digest),
                1 => source.alter(&mut signature),
                2 => source.alter(&mut point),
                _ => {}
            }
            let key = Arc::new(P256PublicKey::new(&point).ok()?);
            let digest = digest.as_slice().try_into().ok()?;
            Some(p256::Operation::Verify { key, digest, signature: signature.try_into().ok()? }.into())
        },
    ],
    is_dear: false,
};

/// Ed25519: signatures as made, altered, and of any bytes.
pub const ED25519: Algorithm = Algorithm {
    target: "public_keys_ed25519",
    kinds: &[
        |source| {
            let (key, bytes) = (Arc::new(Ed25519Key::from_seed(&source.secret())), source.byte());
            Some(ed25519::Operation::Sign { key, message: source.vector(bytes.into()) }.into())
        },
        |source| {
            let (key, bytes) = (Arc::new(Ed25519PublicKey::new(&source.array())), source.byte() % 64);
            let (signature, message) = (source.array(), source.vector(bytes.into()));
            Some(ed25519::Operation::Verify { key, message, signature }.into())
        },
        |source| {
            let (key, bytes) = (Arc::new(Ed25519Key::from_seed(&source.secret())), source.byte());
            let (mut message, mut point) = (source.vector(usize::from(bytes) + 1), *key.public());
            let mut signature = made(ed25519::Operation::Sign { key, message: message.clone() })?;
            match source.byte() % 4 {
                0 => source.alter(&mut message),
                1 => source.alter(&mut signature),
                2 => source.alter(&mut point),
                _ => {}
            }
            let (key, signature) = (Arc::new(Ed25519PublicKey::new(&point)), signature.try_into().ok()?);
            Some(ed25519::Operation::Verify { key, message, signature }.into())
        },
        |source| {
            // The neutral point as R and as key: it verifies if s is zero.
            let (mut point, mut signature) = ([0; 32], [0; 64]);
            (point[0], signature[0]) = (1, 1);
            source.alter(&mut point);
            source.alter(&mut signature);
            let (key, bytes) = (Arc::new(Ed25519PublicKey::new(&point)), source.byte());
            Some(ed25519::Operation::Verify { key, message: source.vector(bytes.into()), signature }.into())
        },
    ],
    is_dear: false,
};

fn ml_kem_pair(source: &mut Source<'_>) -> Option<(MlKemSet, Vec<u8>)> {
    let set = source.choice(&MlKemSet::ALL);
    Some((set, made(ml_kem::Operation::Generate { set, seed: source.secret() })?))
}

/// ML-KEM with any parameter set.
pub const ML_KEM: Algorithm = Algorithm {
    target: "public_keys_ml_kem",
    kinds: &[
        |source| {
            let set = source.choice(&MlKemSet::ALL);
            Some(ml_kem::Operation::Generate { set, seed: source.secret() }.into())
        },
        |source| {
            let set = source.choice(&MlKemSet::ALL);
            let bytes = set.encapsulation_key_bytes();
            let mut key = source.vector(bytes);
            // Most coefficients of 12 bits are below the modulus if the highest bits are 0.
            key[..bytes - 32].chunks_exact_mut(3).for_each(|three| {
                three[1] &= 0xf7;
                three[2] &= 0x7f;
            });
            let key = Arc::new(MlKemEncapsulationKey::new(set, &key).ok()?);
            Some(ml_kem::Operation::Encapsulate { key, message: source.secret() }.into())
        },
        |source| {
            let (set, pair) = ml_kem_pair(source)?;
            let key = Arc::new(MlKemDecapsulationKey::new(set, &pair).ok()?);
            let ciphertext = source.vector(set.ciphertext_bytes());
            Some(ml_kem::Operation::Decapsulate { key, ciphertext }.into())
        },
        |source| {
            // The secret vector is any: the hash covers only the encapsulation key.
            let (set, mut pair) = ml_kem_pair(source)?;
            source.alter(&mut pair);
            let key = MlKemDecapsulationKey::new(set, &pair).ok()?;
            let peer = Arc::new(key.encapsulation_key());
            let mut sent = made(ml_kem::Operation::Encapsulate { key: peer, message: source.secret() })?;
            sent.truncate(set.ciphertext_bytes());
            source.alter(&mut sent);
            let ciphertext = sent;
            Some(ml_kem::Operation::Decapsulate { key: Arc::new(key), ciphertext }.into())
        },
    ],
    is_dear: false,
};

fn ml_dsa_key(source: &mut Source<'_>) -> MlDsaPrivateKey {
    let set = source.choice(&MlDsaSet::ALL);
    MlDsaPrivateKey::from_seed(set, &source.secret())
}

/// Returns a message of up to 255 bytes, whose context is the first of them, or a representative.
fn ml_dsa_message(source: &mut Source<'_>) -> Option<MlDsaMessage> {
    let (kind, bytes, context_bytes) = (source.byte(), source.byte(), source.byte());
    if kind % 4 == 0 {
        return Some(MlDsaMessage::of_representative(&source.array()));
    }
    let message = source.vector(bytes.into());
    let (context, message) = message.split_at(message.len().min(context_bytes.into()));
    MlDsaMessage::with_context(context, message).ok()
}

/// ML-DSA of all three sets.
pub const ML_DSA: Algorithm = Algorithm {
    target: "public_keys_ml_dsa",
    kinds: &[
        |source| {
            let set = source.choice(&MlDsaSet::ALL);
            Some(ml_dsa::Operation::Generate { set, seed: source.secret() }.into())
        },
        |source| {
            let key = Arc::new(ml_dsa_key(source));
            let message = ml_dsa_message(source)?;
            Some(ml_dsa::Operation::Sign { key, message, random: source.secret() }.into())
        },
        |source| {
            let set = source.choice(&MlDsaSet::ALL);
            let key = Arc::new(MlDsaPublicKey::new(set, &source.vector(set.public_bytes())).ok()?);
            let message = ml_dsa_message(source)?;
            let more = usize::from(source.byte() == 0);
            let mut signature = source.vector(set.signature_bytes() + more);
            if source.byte().is_multiple_of(2) {
                // No hints at all are well-formed.
                let hints = signature.len().saturating_sub(84);
                signature[hints..].fill(0);
            }
            Some(ml_dsa::Operation::Verify { key, message, signature }.into())
        },
        |source| {
            let signer = Arc::new(ml_dsa_key(source));
            let message = ml_dsa_message(source)?;
            let (set, mut public) = (signer.set(), signer.public().as_bytes().to_vec());
            let sign =
                ml_dsa::Operation::Sign { key: signer, message: message.clone(), random: source.secret() };
            let mut signature = made(sign)?;
            match source.byte() % 4 {
                0 => source.alter(&mut signature),
                1 => source.alter(&mut public),
                2 => signature.truncate(signature.len() - usize::from(source.byte() % 2)),
                _ => {}
            }
            let key = Arc::new(MlDsaPublicKey::new(set, &public).ok()?);
            Some(ml_dsa::Operation::Verify { key, message, signature }.into())
        },
        |source| {
            // An expanded key with any K is one, and with another seed's parts it is none.
            let original = ml_dsa_key(source);
            let (set, mut expanded) = (original.set(), original.expanded().to_vec());
            source.alter(&mut expanded[32..64]);
            if source.byte().is_multiple_of(2) {
                source.alter(&mut expanded);
            }
            if let Some(seed) = original.seed() {
                let is_same = expanded == original.expanded();
                assert_eq!(MlDsaPrivateKey::from_both(set, seed, &expanded).is_ok(), is_same);
            }
            let key = Arc::new(MlDsaPrivateKey::from_expanded(set, &expanded).ok()?);
            assert_eq!(key.public().as_bytes(), original.public().as_bytes());
            let message = ml_dsa_message(source)?;
            Some(ml_dsa::Operation::Sign { key, message, random: source.secret() }.into())
        },
    ],
    is_dear: true,
};
