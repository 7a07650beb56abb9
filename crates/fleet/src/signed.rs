//! Words that only the coordinator of a run can say: bytes with its signature.
//!
//! Guarantees: a signature is for one purpose, and that of a job is for this job alone, so nothing that was signed once
//! can be passed off as something else.

use sealane_peer::{Identity, PublicKey};
use serde::{Deserialize, Serialize};

use crate::error::{FleetError, Result};
use crate::queue::JobId;

/// The purpose of the bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose<'a> {
    /// The announcement of the run.
    Announcement,
    /// The work of the job of this name.
    Job(&'a JobId),
}

/// Bytes of the coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Signed {
    body: Vec<u8>,
    signature: Vec<u8>,
}

impl Purpose<'_> {
    fn context(self) -> &'static str {
        match self {
            Self::Announcement => "sealane fleet: announcement",
            Self::Job(_) => "sealane fleet: job",
        }
    }

    fn message(self, body: &[u8]) -> Vec<u8> {
        match self {
            Self::Announcement => body.to_vec(),
            Self::Job(id) => [&id.0[..], body].concat(),
        }
    }
}

impl Signed {
    /// Signs these bytes with the key of the run.
    ///
    /// # Errors
    /// The key cannot sign.
    pub(crate) fn by(signer: &Identity, purpose: Purpose<'_>, body: Vec<u8>) -> Result<Self> {
        let signature = signer.sign(purpose.context(), &purpose.message(&body))?;
        Ok(Self { body, signature })
    }

    /// Returns the bytes, if the owner of this key has signed them for this purpose.
    ///
    /// # Errors
    /// Somebody else has made them.
    pub(crate) fn open(&self, key: &PublicKey, purpose: Purpose<'_>) -> Result<&[u8]> {
        let message = purpose.message(&self.body);
        match key.has_signed(purpose.context(), &message, &self.signature) {
            true => Ok(&self.body),
            false => Err(FleetError::Forged { key: *key }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_of_the_key_speaks_and_only_for_one_purpose() {
        for make in [Identity::generate, Identity::generate_hybrid] {
            check(&make().expect("a key"), &make().expect("a key"));
        }
    }

    fn check(ours: &Identity, other: &Identity) {
        let (one, two) = (JobId([1; 16]), JobId([2; 16]));
        let signed = Signed::by(ours, Purpose::Job(&one), b"body".to_vec()).expect("it signs");
        assert_eq!(signed.open(&ours.public_key(), Purpose::Job(&one)).expect("it is ours"), b"body");
        for (key, purpose) in
            [(other, Purpose::Job(&one)), (ours, Purpose::Job(&two)), (ours, Purpose::Announcement)]
        {
            let opened = signed.open(&key.public_key(), purpose);
            assert!(matches!(opened, Err(FleetError::Forged { .. })), "{purpose:?}: {opened:?}");
        }
        for altered in [
            Signed { body: b"bode".to_vec(), ..signed.clone() },
            Signed { signature: vec![0; 64], ..signed.clone() },
            Signed { signature: Vec::new(), ..signed },
        ] {
            assert!(altered.open(&ours.public_key(), Purpose::Job(&one)).is_err());
        }
    }
}
