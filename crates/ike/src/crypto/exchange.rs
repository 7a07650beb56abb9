//! Key exchanges: two ends, one public value in each direction, one secret. Diffie-Hellman and key encapsulation have
//! the same interface.

use aws_lc_rs::{
    agreement::{self, PrivateKey, UnparsedPublicKey},
    kem::{Ciphertext, DecapsulationKey, EncapsulationKey, ML_KEM_768},
};
use zeroize::Zeroizing;

use super::{CryptoError, KeyExchange, modp, prf::Secret};

/// The secret that both ends have: SK(n) of RFC 9370.
pub type SharedSecret = Secret;

/// First byte of an uncompressed point, which IKE does not send (RFC 5903, section 7).
const UNCOMPRESSED: u8 = 4;

/// The initiator's state of an exchange, between the two public values.
pub struct Ongoing {
    method: KeyExchange,
    secret: Private,
    public: Vec<u8>,
}

enum Private {
    Curve(PrivateKey),
    Modp(modp::Private),
    Kem(Box<DecapsulationKey>),
}

impl std::fmt::Debug for Ongoing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ongoing").field("method", &self.method).finish_non_exhaustive()
    }
}

fn curve(method: KeyExchange) -> Option<&'static agreement::Algorithm> {
    match method {
        KeyExchange::X25519 => Some(&agreement::X25519),
        KeyExchange::P256 => Some(&agreement::ECDH_P256),
        KeyExchange::P384 => Some(&agreement::ECDH_P384),
        KeyExchange::P521 => Some(&agreement::ECDH_P521),
        _ => None,
    }
}

/// Returns the length in bytes of each coordinate of a point; 0 if public values are not points with two coordinates.
fn coordinate_bytes(method: KeyExchange) -> usize {
    match method {
        KeyExchange::P256 => 32,
        KeyExchange::P384 => 48,
        KeyExchange::P521 => 66,
        _ => 0,
    }
}

fn curve_public(method: KeyExchange, key: &PrivateKey) -> Result<Vec<u8>, CryptoError> {
    let public = key.compute_public_key().map_err(|_| CryptoError::Library)?;
    let bytes = public.as_ref();
    Ok(if coordinate_bytes(method) == 0 { bytes.to_vec() } else { bytes[1..].to_vec() })
}

fn curve_agree(method: KeyExchange, key: &PrivateKey, theirs: &[u8]) -> Result<SharedSecret, CryptoError> {
    let refused = CryptoError::PublicValue { method };
    let algorithm = curve(method).ok_or(CryptoError::Library)?;
    let coordinate = coordinate_bytes(method);
    let point;
    let theirs = if coordinate == 0 {
        theirs
    } else if theirs.len() == 2 * coordinate {
        point = [&[UNCOMPRESSED], theirs].concat();
        &point
    } else {
        return Err(refused);
    };
    agreement::agree(key, UnparsedPublicKey::new(algorithm, theirs), refused, |secret| {
        // X25519 with a point of small order yields zeros, whatever our key is (RFC 7748, section 6.1).
        let all = secret.iter().fold(0, |all, byte| all | byte);
        if all == 0 { Err(refused) } else { Ok(Zeroizing::new(secret.to_vec())) }
    })
}

impl Ongoing {
    /// Begins an exchange.
    ///
    /// # Errors
    /// Fails if the library fails.
    pub fn begin(method: KeyExchange) -> Result<Self, CryptoError> {
        let (secret, public) = if let Some(algorithm) = curve(method) {
            let key = PrivateKey::generate(algorithm).map_err(|_| CryptoError::Library)?;
            let public = curve_public(method, &key)?;
            (Private::Curve(key), public)
        } else if method == KeyExchange::MlKem768 {
            let key = DecapsulationKey::generate(&ML_KEM_768).map_err(|_| CryptoError::Library)?;
            let public = key.encapsulation_key().map_err(|_| CryptoError::Library)?;
            let public = public.key_bytes().map_err(|_| CryptoError::Library)?.as_ref().to_vec();
            (Private::Kem(Box::new(key)), public)
        } else {
            let (key, public) = modp::generate(method)?;
            (Private::Modp(key), public)
        };
        Ok(Self { method, secret, public })
    }

    /// Returns the exchange's method.
    pub fn method(&self) -> KeyExchange {
        self.method
    }

    /// Returns the public value for the other end.
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    /// Completes the exchange with the other end's value.
    ///
    /// # Errors
    /// Fails if the value is not valid for the method.
    pub fn finish(self, theirs: &[u8]) -> Result<SharedSecret, CryptoError> {
        let refused = CryptoError::PublicValue { method: self.method };
        match self.secret {
            Private::Curve(key) => curve_agree(self.method, &key, theirs),
            Private::Modp(key) => modp::agree(self.method, &key, theirs),
            Private::Kem(key) => {
                let secret = key.decapsulate(Ciphertext::from(theirs)).map_err(|_| refused)?;
                Ok(Zeroizing::new(secret.as_ref().to_vec()))
            }
        }
    }
}

/// Performs the responder's side. Returns the responder's public value, and the secret.
///
/// # Errors
/// Fails if the initiator's value is not valid for the method, or if the library fails.
pub fn respond(method: KeyExchange, theirs: &[u8]) -> Result<(Vec<u8>, SharedSecret), CryptoError> {
    let refused = CryptoError::PublicValue { method };
    if method == KeyExchange::MlKem768 {
        let key = EncapsulationKey::new(&ML_KEM_768, theirs).map_err(|_| refused)?;
        let (ciphertext, secret) = key.encapsulate().map_err(|_| refused)?;
        return Ok((ciphertext.as_ref().to_vec(), Zeroizing::new(secret.as_ref().to_vec())));
    }
    let ongoing = Ongoing::begin(method)?;
    let public = ongoing.public.clone();
    Ok((public, ongoing.finish(theirs)?))
}
