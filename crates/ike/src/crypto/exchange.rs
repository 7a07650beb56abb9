//! Key exchanges: two ends, one public value in each direction, one secret. Diffie-Hellman and key encapsulation have
//! the same interface.

use std::sync::Arc;

use aws_lc_rs::{
    agreement::{self, PrivateKey, UnparsedPublicKey},
    rand,
};
use sealane_transform::debug_only;
use sealane_transform::{
    AsymmetricJob, AsymmetricOperation, Kernels, Refusal,
    dh::{self, DhExponent, DhGroup, DhPrivateKey},
    ml_kem::{self, MlKemEncapsulationKey, MlKemEphemeralKey, MlKemSet},
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

debug_only!(Ongoing { method });

/// A private value of one exchange.
enum Private {
    X25519(Arc<X25519Key>),
    P256(Arc<P256PrivateKey>),
    /// P-384 and P-521, which the kernels do not have.
    Curve(PrivateKey),
    Modp(Arc<DhPrivateKey>),
    /// Made by [`Private::public`]; the matrix of its generation serves its one decapsulation.
    Kem(Arc<MlKemEphemeralKey>),
}

/// A public value or a secret: computed already, or left to the kernels, which compute those of several exchanges side
/// by side.
enum Value {
    Computed(Secret),
    Left(Box<AsymmetricJob>),
}

impl Value {
    fn left(operation: impl Into<AsymmetricOperation>) -> Self {
        Self::Left(Box::new(AsymmetricJob::new(operation)))
    }

    fn job(&mut self) -> Option<&mut AsymmetricJob> {
        match self {
            Self::Left(job) => Some(job),
            Self::Computed(_) => None,
        }
    }

    /// Takes the value out, for which the kernels must have run.
    fn finish(self, method: KeyExchange) -> Result<Secret, CryptoError> {
        match self {
            Self::Computed(value) => Ok(value),
            Self::Left(job) => job.into_answer().map_err(|refusal| match refusal {
                Refusal::BadInput => CryptoError::PublicValue { method },
                Refusal::NotVerified | Refusal::Fault => CryptoError::Library,
            }),
        }
    }

    /// Computes the value alone.
    fn compute(mut self, method: KeyExchange) -> Result<Secret, CryptoError> {
        Kernels::best().asymmetric(self.job());
        self.finish(method)
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

/// Returns a public value as it is sent: of a point, both coordinates.
fn sent(method: KeyExchange, public: &[u8]) -> Vec<u8> {
    public[usize::from(coordinate_bytes(method) > 0)..].to_vec()
}

/// Returns the point of the coordinates that were sent.
fn point(method: KeyExchange, theirs: &[u8]) -> Result<Vec<u8>, CryptoError> {
    if theirs.len() == 2 * coordinate_bytes(method) {
        Ok([&[UNCOMPRESSED], theirs].concat())
    } else {
        Err(CryptoError::PublicValue { method })
    }
}

impl Private {
    /// Draws a private value.
    fn generate(method: KeyExchange) -> Result<Self, CryptoError> {
        let curve =
            |algorithm| PrivateKey::generate(algorithm).map(Self::Curve).map_err(|_| CryptoError::Library);
        let modp = |group| {
            let key = DhPrivateKey::generate(group, DhExponent::Short);
            key.map(|key| Self::Modp(Arc::new(key))).map_err(|_| CryptoError::Library)
        };
        match method {
            KeyExchange::X25519 => Ok(Self::X25519(Arc::new(X25519Key::new(&*random()?)))),
            KeyExchange::P256 => {
                let key = P256PrivateKey::generate().map_err(|_| CryptoError::Library)?;
                Ok(Self::P256(Arc::new(key)))
            }
            KeyExchange::P384 => curve(&agreement::ECDH_P384),
            KeyExchange::P521 => curve(&agreement::ECDH_P521),
            KeyExchange::Modp2048 => modp(DhGroup::Modp2048),
            KeyExchange::Modp3072 => modp(DhGroup::Modp3072),
            KeyExchange::Modp4096 => modp(DhGroup::Modp4096),
            KeyExchange::MlKem512 => Ok(Self::kem(MlKemSet::MlKem512)),
            KeyExchange::MlKem768 => Ok(Self::kem(MlKemSet::MlKem768)),
            KeyExchange::MlKem1024 => Ok(Self::kem(MlKemSet::MlKem1024)),
        }
    }

    fn kem(set: MlKemSet) -> Self {
        Self::Kem(Arc::new(MlKemEphemeralKey::new(set)))
    }

    /// Returns the public value, of a curve as the point's encoding.
    fn public(&self) -> Result<Value, CryptoError> {
        Ok(match self {
            Self::X25519(key) => Value::left(x25519::Operation::Public { key: Arc::clone(key) }),
            Self::P256(key) => Value::left(p256::Operation::Public { key: Arc::clone(key) }),
            Self::Modp(key) => Value::left(dh::Operation::Public { key: Arc::clone(key) }),
            Self::Curve(key) => {
                let public = key.compute_public_key().map_err(|_| CryptoError::Library)?;
                Value::Computed(Zeroizing::new(public.as_ref().to_vec()))
            }
            Self::Kem(key) => {
                let (key, seed) = (Arc::clone(key), random()?);
                Value::left(ml_kem::Operation::GenerateEphemeral { key, seed })
            }
        })
    }

    /// Returns the secret shared with the owner of `theirs`. A value that is none of the method's is refused here, or
    /// when the secret is computed.
    fn agree(&self, method: KeyExchange, theirs: &[u8]) -> Result<Value, CryptoError> {
        let refused = CryptoError::PublicValue { method };
        Ok(match self {
            Self::X25519(key) => {
                let peer = theirs.try_into().map_err(|_| refused)?;
                Value::left(x25519::Operation::Agree { key: Arc::clone(key), peer })
            }
            Self::P256(key) => {
                let peer = point(method, theirs)?.as_slice().try_into().map_err(|_| refused)?;
                Value::left(p256::Operation::Agree { key: Arc::clone(key), peer })
            }
            Self::Modp(key) => {
                Value::left(dh::Operation::Agree { key: Arc::clone(key), peer: theirs.to_vec() })
            }
            Self::Curve(key) => {
                let theirs = UnparsedPublicKey::new(key.algorithm(), point(method, theirs)?);
                let secret = |secret: &[u8]| Ok(Zeroizing::new(secret.to_vec()));
                Value::Computed(agreement::agree(key, theirs, refused, secret)?)
            }
            Self::Kem(key) => {
                let (key, ciphertext) = (Arc::clone(key), theirs.to_vec());
                Value::left(ml_kem::Operation::DecapsulateEphemeral { key, ciphertext })
            }
        })
    }
}

impl Ongoing {
    /// Begins an exchange.
    ///
    /// # Errors
    /// Fails if the library fails.
    pub fn begin(method: KeyExchange) -> Result<Self, CryptoError> {
        let secret = Private::generate(method)?;
        let public = sent(method, &secret.public()?.compute(method)?);
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
        self.secret.agree(self.method, theirs)?.compute(self.method)
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
    let begin = |&(method, theirs): &(KeyExchange, &[u8])| Answer::begin(method, theirs);
    let mut answers: Vec<_> = exchanges.iter().map(begin).collect();
    Kernels::best().asymmetric(answers.iter_mut().flatten().flat_map(Answer::jobs));
    exchanges.iter().zip(answers).map(|((method, _), answer)| answer?.finish(*method)).collect()
}

/// The responder's side of an exchange.
enum Answer {
    /// The public value and the secret.
    Both(Value, Value),
    /// The ciphertext with the secret behind it.
    Encapsulated(MlKemSet, Value),
}

impl Answer {
    fn begin(method: KeyExchange, theirs: &[u8]) -> Result<Self, CryptoError> {
        if let Some(set) = method.ml_kem() {
            let key =
                MlKemEncapsulationKey::new(set, theirs).map_err(|_| CryptoError::PublicValue { method })?;
            let operation = ml_kem::Operation::Encapsulate { key: Arc::new(key), message: random()? };
            return Ok(Self::Encapsulated(set, Value::left(operation)));
        }
        let secret = Private::generate(method)?;
        Ok(Self::Both(secret.public()?, secret.agree(method, theirs)?))
    }

    fn jobs(&mut self) -> impl Iterator<Item = &mut AsymmetricJob> {
        let (one, other) = match self {
            Self::Both(public, secret) => (public, Some(secret)),
            Self::Encapsulated(_, both) => (both, None),
        };
        [Some(one), other].into_iter().flatten().filter_map(Value::job)
    }

    fn finish(self, method: KeyExchange) -> Result<Response, CryptoError> {
        match self {
            Self::Both(public, secret) => Ok((sent(method, &public.finish(method)?), secret.finish(method)?)),
            Self::Encapsulated(set, both) => {
                let both = both.finish(method)?;
                let (ciphertext, secret) = both.split_at(set.ciphertext_bytes());
                Ok((ciphertext.to_vec(), Zeroizing::new(secret.to_vec())))
            }
        }
    }
}

fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, CryptoError> {
    let mut bytes = Zeroizing::new([0; N]);
    rand::fill(&mut *bytes).map_err(|_| CryptoError::Library)?;
    Ok(bytes)
}
