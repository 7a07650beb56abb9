//! Operations of a session with one key: signing, verifying, decrypting, in the order of PKCS#11's calls.
//!
//! **Guarantees:** asking for a length, or for a result with too little room, changes nothing; a private operation is
//! the service's, and a plaintext that found no room is not computed again.

use crate::connections::Connections;
use crate::mechanism::{Mechanism, Scheme};
use crate::object::{Content, Half, Object};
use crate::refused::Refused;
use aws_lc_rs::digest::{self, Algorithm, Context};
use cryptoki_sys as c;
use sealane_asymmetric::{PublicKey, Verification, der};
use sealane_client::{Hash, Operation};
use std::fmt;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The answer to a call that returns bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// The room that the bytes need at most; nothing was computed.
    Length(usize),
    /// There is too little room: the room that they need.
    TooSmall(usize),
    Bytes(Zeroizing<Vec<u8>>),
}

/// The maximum number of bytes of a digest that ECDSA looks at, with any curve.
const ECDSA_BYTES_MAX: usize = 64;

fn algorithm(hash: Hash) -> &'static Algorithm {
    match hash {
        Hash::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        Hash::Sha224 => &digest::SHA224,
        Hash::Sha256 => &digest::SHA256,
        Hash::Sha384 => &digest::SHA384,
        Hash::Sha512 => &digest::SHA512,
    }
}

/// A key, a mechanism, and the data so far.
struct Signature {
    content: Arc<Content>,
    mechanism: Mechanism,
    /// The digest of the parts, once there is one.
    parts: Option<Context>,
}

impl Signature {
    fn start(object: Object, half: Half, mechanism: Mechanism) -> Result<Self, Refused> {
        let Object { content, half: found } = object;
        if let Scheme::Oaep { .. } = mechanism.scheme {
            return Err(Refused(c::CKR_MECHANISM_INVALID));
        }
        check(&content, found, half, &mechanism)?;
        if let Scheme::Pss { hash, salt_bytes, .. } = mechanism.scheme
            && content.signature_bytes() < hash.bytes() + usize::from(salt_bytes) + 2
        {
            return Err(Refused(c::CKR_MECHANISM_PARAM_INVALID));
        }
        Ok(Self { content, mechanism, parts: None })
    }

    /// Adds a part of the message.
    fn update(&mut self, part: &[u8]) -> Result<(), Refused> {
        let Some(hash) = self.mechanism.hash else { return Err(Refused(c::CKR_FUNCTION_NOT_SUPPORTED)) };
        self.parts.get_or_insert_with(|| Context::new(algorithm(hash))).update(part);
        Ok(())
    }

    /// Returns the bytes that are signed of data that come whole: a digest, or the data themselves.
    ///
    /// # Errors
    /// Fails if parts have come before, or if the mechanism takes no data of this length.
    fn whole(&self, data: &[u8]) -> Result<Vec<u8>, Refused> {
        if self.parts.is_some() {
            return Err(Refused(c::CKR_OPERATION_ACTIVE));
        }
        if let Some(hash) = self.mechanism.hash {
            return Ok(digest::digest(algorithm(hash), data).as_ref().to_vec());
        }
        let (is_right, data) = match self.mechanism.scheme {
            Scheme::Pkcs1 => (data.len() + 11 <= self.content.signature_bytes(), data),
            Scheme::Pss { hash, .. } => (data.len() == hash.bytes(), data),
            Scheme::Ecdsa => (!data.is_empty(), &data[..data.len().min(ECDSA_BYTES_MAX)]),
            Scheme::MlDsa { ref context, .. } => {
                let public = self.content.public().map_err(|_| Refused(c::CKR_DEVICE_ERROR))?;
                let mu = public.representative(context, data).ok_or(Refused(c::CKR_DEVICE_ERROR))?;
                return Ok(mu.to_vec());
            }
            Scheme::Eddsa | Scheme::Oaep { .. } => (true, data),
        };
        if is_right { Ok(data.to_vec()) } else { Err(Refused(c::CKR_DATA_LEN_RANGE)) }
    }

    /// Returns the digest of the parts, which may be none.
    fn digest(&self) -> Result<Vec<u8>, Refused> {
        let Some(hash) = self.mechanism.hash else { return Err(Refused(c::CKR_FUNCTION_NOT_SUPPORTED)) };
        let context = self.parts.clone().unwrap_or_else(|| Context::new(algorithm(hash)));
        Ok(context.finish().as_ref().to_vec())
    }
}

/// Fails if a half of a key cannot be used for this, or if the mechanism is for other keys.
fn check(content: &Content, found: Half, needed: Half, mechanism: &Mechanism) -> Result<(), Refused> {
    if found != needed {
        return Err(Refused(c::CKR_KEY_FUNCTION_NOT_PERMITTED));
    }
    if !mechanism.suits(content.kind()) {
        return Err(Refused(c::CKR_KEY_TYPE_INCONSISTENT));
    }
    Ok(())
}

/// A signature that is being made.
pub(crate) struct Signing(Signature);

impl Signing {
    pub(crate) fn start(object: Object, mechanism: Mechanism) -> Result<Self, Refused> {
        Signature::start(object, Half::Private, mechanism).map(Self)
    }

    pub(crate) fn update(&mut self, part: &[u8]) -> Result<(), Refused> {
        self.0.update(part)
    }

    /// Returns the signature of whole data, or of the parts so far if there are none. `room` is the caller's, in bytes.
    pub(crate) fn finish(
        &self,
        data: Option<&[u8]>,
        room: Option<usize>,
        connections: &Connections,
    ) -> Result<Given, Refused> {
        let Signature { content, mechanism, .. } = &self.0;
        let length = content.signature_bytes();
        match room {
            None => return Ok(Given::Length(length)),
            Some(room) if room < length => return Ok(Given::TooSmall(length)),
            Some(_) => {}
        }
        let bytes = data.map_or_else(|| self.0.digest(), |data| self.0.whole(data))?;
        let operation = match mechanism.scheme {
            Scheme::Pkcs1 => Operation::SignPkcs1(mechanism.hash),
            Scheme::Pss { hash, mask, salt_bytes } => Operation::SignPss { hash, mask, salt_bytes },
            Scheme::Ecdsa => Operation::SignEcdsa,
            Scheme::Eddsa => Operation::SignEd25519,
            Scheme::MlDsa { is_deterministic, .. } => Operation::SignMlDsa { is_deterministic },
            Scheme::Oaep { .. } => return Err(Refused(c::CKR_MECHANISM_INVALID)),
        };
        let made = connections.call(&content.key, operation, &bytes)?;
        if mechanism.scheme != Scheme::Ecdsa {
            return Ok(Given::Bytes(made));
        }
        let pair = der::of_signature(&made, length / 2).ok_or(Refused(c::CKR_DEVICE_ERROR))?;
        Ok(Given::Bytes(pair.into()))
    }
}

/// A signature that is being verified.
pub(crate) struct Verifying {
    signature: Signature,
    public: PublicKey,
}

impl Verifying {
    pub(crate) fn start(object: Object, mechanism: Mechanism) -> Result<Self, Refused> {
        let signature = Signature::start(object, Half::Public, mechanism)?;
        let public = signature.content.public().map_err(|_| Refused(c::CKR_DEVICE_ERROR))?;
        Ok(Self { signature, public })
    }

    pub(crate) fn update(&mut self, part: &[u8]) -> Result<(), Refused> {
        self.signature.update(part)
    }

    /// Succeeds if the signature is that of whole data, or of the parts so far if there are none.
    pub(crate) fn finish(&self, data: Option<&[u8]>, signature: &[u8]) -> Result<(), Refused> {
        let Signature { content, mechanism, .. } = &self.signature;
        let bytes = data.map_or_else(|| self.signature.digest(), |data| self.signature.whole(data))?;
        if signature.len() != content.signature_bytes() {
            return Err(Refused(c::CKR_SIGNATURE_LEN_RANGE));
        }
        let how = match mechanism.scheme {
            Scheme::Pkcs1 => Verification::Pkcs1(mechanism.hash),
            Scheme::Pss { hash, mask, salt_bytes } => {
                Verification::Pss { hash, mask, salt_bytes: Some(salt_bytes) }
            }
            Scheme::Ecdsa => Verification::Ecdsa,
            Scheme::Eddsa => Verification::Ed25519,
            Scheme::MlDsa { .. } => Verification::MlDsa,
            Scheme::Oaep { .. } => return Err(Refused(c::CKR_MECHANISM_INVALID)),
        };
        let is_valid = if mechanism.scheme == Scheme::Ecdsa {
            self.public.verifies(how, &bytes, &der::signature_of(signature))
        } else {
            self.public.verifies(how, &bytes, signature)
        };
        if is_valid { Ok(()) } else { Err(Refused(c::CKR_SIGNATURE_INVALID)) }
    }
}

/// A ciphertext that is being decrypted.
pub(crate) struct Decrypting {
    content: Arc<Content>,
    operation: Operation,
    /// A ciphertext and its plaintext, which did not find enough room.
    kept: Option<(Vec<u8>, Zeroizing<Vec<u8>>)>,
}

impl Decrypting {
    pub(crate) fn start(object: Object, mechanism: Mechanism) -> Result<Self, Refused> {
        let Object { content, half } = object;
        let operation = match (&mechanism.scheme, mechanism.hash) {
            (Scheme::Pkcs1, None) => Operation::DecryptPkcs1,
            (Scheme::Oaep { hash, mask }, _) => Operation::DecryptOaep { hash: *hash, mask: *mask },
            _ => return Err(Refused(c::CKR_MECHANISM_INVALID)),
        };
        check(&content, half, Half::Private, &mechanism)?;
        Ok(Self { content, operation, kept: None })
    }

    /// Returns the plaintext. `room` is the caller's, in bytes.
    pub(crate) fn finish(
        &mut self,
        ciphertext: &[u8],
        room: Option<usize>,
        connections: &Connections,
    ) -> Result<Given, Refused> {
        if ciphertext.len() != self.content.signature_bytes() {
            return Err(Refused(c::CKR_ENCRYPTED_DATA_LEN_RANGE));
        }
        let kept = self.kept.take().filter(|(of, _)| of == ciphertext);
        let Some(room) = room else {
            let length = kept.as_ref().map_or(ciphertext.len(), |(_, text)| text.len());
            self.kept = kept;
            return Ok(Given::Length(length));
        };
        let text = match kept {
            Some((_, text)) => text,
            None => connections.call(&self.content.key, self.operation, ciphertext)?,
        };
        if room >= text.len() {
            return Ok(Given::Bytes(text));
        }
        let length = text.len();
        self.kept = Some((ciphertext.to_vec(), text));
        Ok(Given::TooSmall(length))
    }
}

impl fmt::Debug for Signing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signing({:?})", self.0.mechanism)
    }
}

impl fmt::Debug for Verifying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verifying({:?})", self.signature.mechanism)
    }
}

impl fmt::Debug for Decrypting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Decrypting({:?})", self.operation)
    }
}
