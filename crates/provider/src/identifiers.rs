//! The identifiers of signatures' algorithms, in DER, as OpenSSL asks for them.
//!
//! **Guarantee:** an identifier is that of the standard named at its function, with the parameters that it requires.

use crate::library::Hash;
use sealane_asymmetric::der::{
    NO_PARAMETERS, algorithm, algorithm_of_key, element, integer, octet_string, sequence,
};
use sealane_client::KeyKind;
use zeroize::Zeroizing;

/// The object identifiers of RFC 8017: the arc of PKCS#1, the mask's function, and RSASSA-PSS.
const PKCS1: [u8; 8] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
const MGF1: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x08];
const PSS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0a];

/// The object identifier 2.16.840.1.101.3.4, of NIST's algorithms.
const NIST: [u8; 7] = [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04];

fn hash_object(hash: Hash) -> Vec<u8> {
    match hash.nist_number() {
        Some(number) => [&NIST[..], &[2, number]].concat(),
        None if hash.is_md5() => vec![0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02, 0x05],
        None => vec![0x2b, 0x0e, 0x03, 0x02, 0x1a],
    }
}

/// Returns the AlgorithmIdentifier of a hash.
fn algorithm_of_hash(hash: Hash) -> Zeroizing<Vec<u8>> {
    algorithm(&hash_object(hash), NO_PARAMETERS)
}

/// Returns the DigestInfo of a digest (RFC 8017, 9.2), which RSASSA-PKCS1-v1_5 pads; in TLS 1.0, the digest alone.
pub(crate) fn digest_info(hash: Hash, digest: &[u8]) -> Vec<u8> {
    if hash.is_of_old_tls() {
        return digest.to_vec();
    }
    sequence(&[&algorithm_of_hash(hash), &octet_string(digest)]).to_vec()
}

/// Returns the AlgorithmIdentifier of sha…WithRSAEncryption (RFC 8017, A.2.4), or of
/// id-rsassa-pkcs1-v1-5-with-sha3-… (NIST).
pub(crate) fn algorithm_of_pkcs1(hash: Hash) -> Vec<u8> {
    let last = match hash.nist_number() {
        None if hash.is_md5() => 4,
        None => 5,
        Some(number @ 1..=3) => 10 + number,
        Some(4) => 14,
        Some(number @ 5..=6) => 10 + number,
        Some(number) => {
            let object = [&NIST[..], &[3, 6 + number]].concat();
            return algorithm(&object, NO_PARAMETERS).to_vec();
        }
    };
    algorithm(&[&PKCS1[..], &[last]].concat(), NO_PARAMETERS).to_vec()
}

/// Returns the AlgorithmIdentifier of RSASSA-PSS (RFC 8017, A.2.3).
pub(crate) fn algorithm_of_pss(hash: Hash, mask: Hash, salt_bytes: u16) -> Vec<u8> {
    let mask = algorithm(MGF1, &algorithm_of_hash(mask));
    let salt = integer(&salt_bytes.to_be_bytes());
    let parameters = sequence(&[
        &element(0xa0, &[&algorithm_of_hash(hash)]),
        &element(0xa1, &[&mask]),
        &element(0xa2, &[&salt]),
    ]);
    algorithm(PSS, &parameters).to_vec()
}

/// Returns the AlgorithmIdentifier of ecdsa-with-SHA… (RFC 5758), or of id-ecdsa-with-sha3-… (NIST); `None` if there is
/// none.
pub(crate) fn algorithm_of_ecdsa(hash: Hash) -> Option<Vec<u8>> {
    const ECDSA: [u8; 6] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04];
    let object = match hash.nist_number() {
        None if hash.is_md5() || hash.is_of_old_tls() => return None,
        None => [&ECDSA[..], &[1]].concat(),
        Some(4) => [&ECDSA[..], &[3, 1]].concat(),
        Some(number @ 1..=3) => [&ECDSA[..], &[3, 1 + number]].concat(),
        Some(number @ 7..=10) => [&NIST[..], &[3, 2 + number]].concat(),
        Some(_) => return None,
    };
    Some(algorithm(&object, &[]).to_vec())
}

/// Returns the AlgorithmIdentifier of Ed25519 (RFC 8410).
pub(crate) fn algorithm_of_ed25519() -> Vec<u8> {
    algorithm_of_key(KeyKind::Ed25519).to_vec()
}
