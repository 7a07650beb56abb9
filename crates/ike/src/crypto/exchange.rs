//! Key exchanges: two ends, one public value in each direction, one secret. Diffie-Hellman and key encapsulation have
//! the same interface.

use std::sync::Arc;

use aws_lc_rs::{
    agreement::{self, PrivateKey, UnparsedPublicKey},
    kem::{Ciphertext, DecapsulationKey, ML_KEM_768},
    rand,
};
use sealane_transform::{
    AsymmetricJob, AsymmetricOperation, Kernels,
    dh::{self, DhExponent, DhGroup, DhPrivateKey},
    ml_kem::{self, ML_KEM_768_CIPHERTEXT_BYTES, MlKem768EncapsulationKey},
    p256::{self, P256PrivateKey},
    x25519::{self, X25519Key},
};
use zeroize::Zeroizing;

use super::{CryptoError, KeyExchange, prf::Secret};

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
    Modp(Arc<DhPrivateKey>),
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
            let key = modp_key(method)?;
            let public = run(dh::Operation::Public { key: Arc::clone(&key) }).ok_or(CryptoError::Library)?;
            (Private::Modp(key), public.to_vec())
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
            Private::Modp(key) => run(dh::Operation::Agree { key, peer: theirs.to_vec() }).ok_or(refused),
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
pub fn respond(method: KeyExchange, theirs: &[u8]) -> Result<Response, CryptoError> {
    respond_all(&[(method, theirs)]).pop().unwrap_or(Err(CryptoError::Library))
}

/// The responder's public value, and the secret.
pub type Response = (Vec<u8>, SharedSecret);

/// Performs the responder's side of several exchanges, each with the initiator's value. Exchanges of one method are
/// computed side by side where that is faster.
pub fn respond_all(exchanges: &[(KeyExchange, &[u8])]) -> Vec<Result<Response, CryptoError>> {
    let mut prepared: Vec<_> = exchanges.iter().map(|&(method, theirs)| jobs(method, theirs)).collect();
    Kernels::best().asymmetric(prepared.iter_mut().flatten().flatten());
    exchanges.iter().zip(prepared).map(|(&(method, theirs), jobs)| response(method, theirs, jobs?)).collect()
}

/// Returns the operations of the responder's side: for our public value and the secret, or for both at once. There are
/// none for the methods that the kernels do not have.
fn jobs(method: KeyExchange, theirs: &[u8]) -> Result<Vec<AsymmetricJob>, CryptoError> {
    let refused = CryptoError::PublicValue { method };
    let [public, agree]: [AsymmetricOperation; 2] = match method {
        KeyExchange::X25519 => {
            let peer = theirs.try_into().map_err(|_| refused)?;
            let key = Arc::new(X25519Key::new(&*random()?));
            let public = x25519::Operation::Public { key: Arc::clone(&key) };
            [public.into(), x25519::Operation::Agree { key, peer }.into()]
        }
        KeyExchange::P256 => {
            let point = [&[UNCOMPRESSED], theirs].concat();
            let peer = point.as_slice().try_into().ok().filter(|_| point.len() == 65).ok_or(refused)?;
            let key = Arc::new(p256_key()?);
            let public = p256::Operation::Public { key: Arc::clone(&key) };
            [public.into(), p256::Operation::Agree { key, peer }.into()]
        }
        KeyExchange::Modp2048 | KeyExchange::Modp3072 | KeyExchange::Modp4096 => {
            let key = modp_key(method)?;
            let public = dh::Operation::Public { key: Arc::clone(&key) };
            [public.into(), dh::Operation::Agree { key, peer: theirs.to_vec() }.into()]
        }
        KeyExchange::MlKem768 => {
            let key = Arc::new(MlKem768EncapsulationKey::new(theirs).map_err(|_| refused)?);
            let operation = ml_kem::Operation::Encapsulate { key, message: random()? };
            return Ok(vec![AsymmetricJob::new(operation)]);
        }
        KeyExchange::P384 | KeyExchange::P521 => return Ok(Vec::new()),
    };
    Ok(vec![AsymmetricJob::new(public), AsymmetricJob::new(agree)])
}

/// Returns the result of the operations of [`jobs`].
fn response(method: KeyExchange, theirs: &[u8], jobs: Vec<AsymmetricJob>) -> Result<Response, CryptoError> {
    let refused = CryptoError::PublicValue { method };
    let mut answers = jobs.into_iter().map(AsymmetricJob::into_answer);
    let Some(first) = answers.next() else {
        let ongoing = Ongoing::begin(method)?;
        let public = ongoing.public.clone();
        return Ok((public, ongoing.finish(theirs)?));
    };
    let first = first.map_err(|_| CryptoError::Library)?;
    if method == KeyExchange::MlKem768 {
        let (ciphertext, secret) = first.split_at(ML_KEM_768_CIPHERTEXT_BYTES);
        return Ok((ciphertext.to_vec(), Zeroizing::new(secret.to_vec())));
    }
    let secret = answers.next().and_then(Result::ok).ok_or(refused)?;
    let public = if method == KeyExchange::P256 { &first[1..] } else { &first[..] };
    Ok((public.to_vec(), secret))
}

/// Runs one operation.
fn run(operation: dh::Operation) -> Option<SharedSecret> {
    let mut job = AsymmetricJob::new(operation);
    Kernels::best().asymmetric([&mut job]);
    job.into_answer().ok()
}

fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, CryptoError> {
    let mut bytes = Zeroizing::new([0; N]);
    rand::fill(&mut *bytes).map_err(|_| CryptoError::Library)?;
    Ok(bytes)
}

fn p256_key() -> Result<P256PrivateKey, CryptoError> {
    // All but one in 2^32 of such numbers are keys.
    for _ in 0..8 {
        if let Ok(key) = P256PrivateKey::new(&*random()?) {
            return Ok(key);
        }
    }
    Err(CryptoError::Library)
}

fn modp_key(method: KeyExchange) -> Result<Arc<DhPrivateKey>, CryptoError> {
    let group = match method {
        KeyExchange::Modp2048 => DhGroup::Modp2048,
        KeyExchange::Modp3072 => DhGroup::Modp3072,
        KeyExchange::Modp4096 => DhGroup::Modp4096,
        _ => return Err(CryptoError::Library),
    };
    let key = DhPrivateKey::generate(group, DhExponent::Short).map_err(|_| CryptoError::Library)?;
    Ok(Arc::new(key))
}
