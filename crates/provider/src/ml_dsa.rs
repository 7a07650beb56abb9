//! Signatures by ML-DSA in the order of OpenSSL's calls: a key, parameters, then a whole message.
//!
//! The message is digested here, to the representative mu that depends on the public key and the context: the service gets its
//! 64 bytes, whatever the length of the message. **Guarantee:** parameters that would change what is signed, and that are
//! not kept to, fail the call that sets them.

use crate::counters::Counted;
use crate::key::{Content, Family, KeyBox};
use crate::reason::Reason;
use crate::signing::{Keyed, Signature};
use sealane_asymmetric::Verification;
use sealane_asymmetric::der::algorithm_of_key;
use sealane_client::Operation;
use sealane_client::key::{CONTEXT_BYTES_MAX, MU_BYTES};
use std::sync::Arc;

/// A signature that is being made or verified.
#[derive(Clone)]
pub(crate) struct MlDsaSigning {
    family: Family,
    key: Option<Arc<KeyBox>>,
    context: Vec<u8>,
    /// Whether the same message has one signature only.
    pub(crate) is_deterministic: bool,
    /// Whether messages are given as their representatives.
    pub(crate) is_representative: bool,
}

impl Keyed for MlDsaSigning {
    /// Starts a new operation; without a key, it uses that of the last one with its parameters.
    fn start(&mut self, key: Option<Arc<KeyBox>>) -> Result<(), Reason> {
        if let Some(key) = key {
            key.content()?;
            if key.family != self.family {
                return Err(Reason::NoKey);
            }
            *self = Self { key: Some(key), ..Self::new(self.family) };
        }
        self.content().map(|_| ())
    }
}

impl Signature for MlDsaSigning {
    fn new(family: Family) -> Self {
        Self { family, key: None, context: Vec::new(), is_deterministic: false, is_representative: false }
    }

    fn duplicate(&self) -> Result<Self, Reason> {
        Ok(self.clone())
    }

    /// Starts a new operation for which a hash may be named: only none is right.
    fn start_message(&mut self, hash: Option<&str>, key: Option<Arc<KeyBox>>) -> Result<(), Reason> {
        if hash.is_some_and(|name| !name.is_empty()) {
            return Err(Reason::Unsupported);
        }
        self.start(key)
    }

    fn size(&self) -> Result<usize, Reason> {
        self.content().map(Content::size)
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Reason> {
        let operation = Operation::SignMlDsa { is_deterministic: self.is_deterministic };
        let mu = self.representative(message)?;
        Counted::SIGN.add();
        self.content()?.run(operation, &mu).map(|signature| signature.to_vec())
    }

    fn verify(&self, message: &[u8], signature: &[u8]) -> Result<bool, Reason> {
        let mu = self.representative(message)?;
        Counted::VERIFY.add();
        Ok(self.content()?.public.verifies(Verification::MlDsa, &mu, signature))
    }
}

impl MlDsaSigning {
    pub(crate) fn set_context(&mut self, context: &[u8]) -> Result<(), Reason> {
        if context.len() > CONTEXT_BYTES_MAX {
            return Err(Reason::BadContent);
        }
        self.context = context.to_vec();
        Ok(())
    }

    fn content(&self) -> Result<&Content, Reason> {
        self.key.as_ref().ok_or(Reason::NoKey)?.content()
    }

    fn representative(&self, message: &[u8]) -> Result<[u8; MU_BYTES], Reason> {
        if self.is_representative {
            return message.try_into().map_err(|_| Reason::BadContent);
        }
        self.content()?.public.representative(&self.context, message).ok_or(Reason::NoKey)
    }

    /// Returns the AlgorithmIdentifier for certificates (RFC 9881, 2), in DER.
    pub(crate) fn algorithm_id(&self) -> Result<Vec<u8>, Reason> {
        Ok(algorithm_of_key(self.content()?.kind).to_vec())
    }
}
