//! Messages, and their representatives mu: FIPS 204, algorithms 2 and 7, line 6.

use super::parameters::{MU_BYTES, TR_BYTES};
use crate::keccak::{SHAKE256, alone};

/// The context of a message has more than 255 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a context of {given_bytes} bytes; ML-DSA takes at most 255")]
pub struct ContextTooLong {
    /// The given length.
    pub given_bytes: usize,
}

/// A message to sign, in its context, or its representative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MlDsaMessage(Form);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    /// M' of algorithm 2: a zero, the length of the context, the context, the message.
    Pure(Vec<u8>),
    /// The representative that a caller with the public key made.
    Mu(Box<[u8; MU_BYTES]>),
}

/// Returns the head of M': a zero, the length of the context, the context.
fn head(context: &[u8]) -> Result<Vec<u8>, ContextTooLong> {
    let length = u8::try_from(context.len()).map_err(|_| ContextTooLong { given_bytes: context.len() })?;
    Ok([&[0, length], context].concat())
}

impl MlDsaMessage {
    /// Returns a message with no context, as certificates, TLS and IKEv2 sign it.
    pub fn new(message: &[u8]) -> Self {
        Self(Form::Pure([&[0, 0], message].concat()))
    }

    /// Returns a message in a context.
    ///
    /// # Errors
    /// The context has more than 255 bytes.
    pub fn with_context(context: &[u8], message: &[u8]) -> Result<Self, ContextTooLong> {
        let mut whole = head(context)?;
        whole.extend_from_slice(message);
        Ok(Self(Form::Pure(whole)))
    }

    /// Returns the message of which the representative is given.
    pub fn of_representative(mu: &[u8; MU_BYTES]) -> Self {
        Self(Form::Mu(Box::new(*mu)))
    }

    /// Returns the representative under a public key with the hash `tr`.
    pub(crate) fn representative(&self, tr: &[u8; TR_BYTES]) -> [u8; MU_BYTES] {
        match &self.0 {
            Form::Pure(whole) => alone::hash(SHAKE256, &[tr, whole]),
            Form::Mu(mu) => **mu,
        }
    }
}
