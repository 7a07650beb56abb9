//! The operations on a key and their outcomes, as values and as numbers in a ring.
//!
//! **Guarantee:** every pair of numbers is an operation or is refused; [`Operation::to_numbers`] and
//! [`Operation::of_numbers`] are each other's inverse.

use crate::hash::Hash;
use crate::key::{KeyKind, MlDsaSet, PssLimits};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// An operation with a private key. The documentation of each one states its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// No operation: returns the content unchanged, without a key. It is meant for measurements.
    Null,
    /// RSASSA-PKCS1-v1_5 (RFC 8017, 8.2). The content is the digest; without a hash, the bytes to be padded (TLS
    /// 1.0's MD5 and SHA-1).
    SignPkcs1(Option<Hash>),
    /// RSASSA-PSS (RFC 8017, 8.1). The content is the digest.
    SignPss {
        /// The hash of the message.
        hash: Hash,
        /// The hash of the mask.
        mask: Hash,
        /// The length of the salt in bytes.
        salt_bytes: u16,
    },
    /// ECDSA (FIPS 186-5); the answer is in DER. The content is the digest.
    SignEcdsa,
    /// Ed25519 (RFC 8032). The content is the message.
    SignEd25519,
    /// RSAES-PKCS1-v1_5 (RFC 8017, 7.2). The content is the ciphertext.
    DecryptPkcs1,
    /// RSAES-OAEP (RFC 8017, 7.1) with an empty label. The content is the ciphertext.
    DecryptOaep {
        /// The hash of the label.
        hash: Hash,
        /// The hash of the mask.
        mask: Hash,
    },
    /// ECDH (SP 800-56A), or X25519 (RFC 7748). The content is the peer's public key, as an uncompressed point or 32
    /// bytes.
    Derive,
    /// Seals a record under a session's key ([`RecordCipher`]). The content is a nonce of 12 bytes, `clear_bytes` that
    /// are only authenticated, and the text; the answer is the ciphertext with its tag of 16 bytes.
    Seal {
        /// The number of bytes that are only authenticated.
        clear_bytes: u32,
    },
    /// Opens such a record. The content ends with the tag; the answer is the text.
    Open {
        /// The number of bytes that are only authenticated.
        clear_bytes: u32,
    },
    /// ML-DSA (FIPS 204). The content is the message's representative mu, which whoever has the public key can compute
    /// (algorithm 7, line 6).
    SignMlDsa {
        /// Whether the same mu has one signature only. Random bytes hedge it otherwise, which is the standard's default.
        is_deterministic: bool,
    },
}

/// The ciphers of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RecordCipher {
    /// AES-128-GCM (NIST SP 800-38D).
    Aes128Gcm,
    /// AES-256-GCM.
    Aes256Gcm,
    /// ChaCha20-Poly1305 (RFC 8439).
    ChaCha20Poly1305,
}

/// The length of a record's nonce in bytes.
pub const NONCE_BYTES: usize = 12;

/// The length of a record's tag in bytes.
pub const TAG_BYTES: usize = 16;

/// The length of the longest answer to a private key's operation other than ML-DSA's in bytes: a signature of an RSA key
/// of 8,192 bits.
const RESULT_BYTES_MAX: usize = 1024;

/// The code of [`Operation::SignMlDsa`].
const SIGN_ML_DSA: u32 = 10;

/// Returns the length that no answer to a job exceeds whose operation has this code and whose content has this length.
/// Both ends reserve room for that much.
#[inline]
pub const fn answer_bytes_max(code: u32, content_bytes: usize) -> usize {
    let least = if code == SIGN_ML_DSA { MlDsaSet::MlDsa87.signature_bytes() } else { RESULT_BYTES_MAX };
    let bytes = content_bytes.saturating_add(TAG_BYTES);
    if bytes < least { least } else { bytes }
}

/// The uses of a key that a policy allows or forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Use {
    /// Signing.
    Sign,
    /// Decryption.
    Decrypt,
    /// Agreement on a secret.
    Derive,
}

impl Operation {
    /// Returns a signature by RSASSA-PSS of a digest of this hash, with the mask that a key's limits require and a salt as long as
    /// the digest, or as long as they require.
    pub fn sign_pss(hash: Hash, limits: Option<PssLimits>) -> Self {
        let mask = limits.map_or(hash, |limits| limits.mask);
        let salt_bytes = limits.map_or(0, |limits| limits.salt_bytes).max(hash.bytes() as u16);
        Self::SignPss { hash, mask, salt_bytes }
    }

    /// Returns the code and the parameters.
    #[inline]
    pub fn to_numbers(self) -> (u32, u32) {
        let number = |hash: Option<Hash>| hash.map_or(0, Hash::to_number);
        match self {
            Self::Null => (0, 0),
            Self::SignPkcs1(hash) => (1, number(hash)),
            Self::SignPss { hash, mask, salt_bytes } => {
                (2, hash.to_number() | mask.to_number() << 8 | u32::from(salt_bytes) << 16)
            }
            Self::SignEcdsa => (3, 0),
            Self::SignEd25519 => (4, 0),
            Self::DecryptPkcs1 => (5, 0),
            Self::DecryptOaep { hash, mask } => (6, hash.to_number() | mask.to_number() << 8),
            Self::Derive => (7, 0),
            Self::Seal { clear_bytes } => (8, clear_bytes),
            Self::Open { clear_bytes } => (9, clear_bytes),
            Self::SignMlDsa { is_deterministic } => (SIGN_ML_DSA, is_deterministic.into()),
        }
    }

    /// Returns the operation with this code and these parameters, if there is one.
    #[inline]
    pub fn of_numbers(code: u32, parameters: u32) -> Option<Self> {
        // It is the only one that costs less than its recognition.
        if (code, parameters) == (0, 0) {
            return Some(Self::Null);
        }
        Self::of_others(code, parameters)
    }

    fn of_others(code: u32, parameters: u32) -> Option<Self> {
        let (hash, mask) = (Hash::of_number(parameters & 0xff), Hash::of_number(parameters >> 8 & 0xff));
        let operation = match code {
            1 => Self::SignPkcs1(hash),
            2 => Self::SignPss { hash: hash?, mask: mask?, salt_bytes: (parameters >> 16) as u16 },
            3 => Self::SignEcdsa,
            4 => Self::SignEd25519,
            5 => Self::DecryptPkcs1,
            6 => Self::DecryptOaep { hash: hash?, mask: mask? },
            7 => Self::Derive,
            8 => Self::Seal { clear_bytes: parameters },
            9 => Self::Open { clear_bytes: parameters },
            SIGN_ML_DSA => Self::SignMlDsa { is_deterministic: parameters == 1 },
            _ => return None,
        };
        (operation.to_numbers() == (code, parameters)).then_some(operation)
    }

    /// Returns whether it takes about as long as a sleep and a wake-up, or less.
    #[inline]
    pub fn is_quick(self) -> bool {
        matches!(self, Self::Null | Self::Seal { .. } | Self::Open { .. })
    }

    /// Returns the use of a private key that it requires, if any.
    pub fn of_use(self) -> Option<Use> {
        match self {
            Self::Null | Self::Seal { .. } | Self::Open { .. } => None,
            Self::SignPkcs1(_)
            | Self::SignPss { .. }
            | Self::SignEcdsa
            | Self::SignEd25519
            | Self::SignMlDsa { .. } => Some(Use::Sign),
            Self::DecryptPkcs1 | Self::DecryptOaep { .. } => Some(Use::Decrypt),
            Self::Derive => Some(Use::Derive),
        }
    }

    /// Returns whether a private key of this kind supports it.
    pub fn suits(self, kind: KeyKind) -> bool {
        match self {
            Self::Null => true,
            Self::Seal { .. } | Self::Open { .. } => false,
            Self::SignPkcs1(_) | Self::DecryptPkcs1 | Self::DecryptOaep { .. } => {
                matches!(kind, KeyKind::Rsa { .. })
            }
            Self::SignPss { hash, mask, salt_bytes } => match kind {
                KeyKind::Rsa { .. } | KeyKind::RsaPss { limits: None, .. } => true,
                KeyKind::RsaPss { limits: Some(limits), .. } => limits.allow(hash, mask, salt_bytes),
                _ => false,
            },
            Self::SignEcdsa => kind.coordinate_bytes().is_some(),
            Self::SignEd25519 => kind == KeyKind::Ed25519,
            Self::SignMlDsa { .. } => matches!(kind, KeyKind::MlDsa(_)),
            Self::Derive => kind.coordinate_bytes().is_some() || kind == KeyKind::X25519,
        }
    }
}

/// The outcome of a job. It is as wide as a pointer, so that an [`Answer`] is moved in whole words: as bytes, moves alone took
/// longer than the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(usize)]
pub enum Status {
    /// The job is done; the answer's content is the result.
    #[error("done")]
    Done,
    /// The service does not know this operation, or its parameters.
    #[error("the service does not know the operation: it may be older than this program")]
    UnknownOperation,
    /// The handle names no key of this connection.
    #[error("no key of this connection has that handle")]
    UnknownKey,
    /// The key is of another kind.
    #[error("the key is of a kind that cannot do this")]
    WrongKind,
    /// The policy does not allow this client this use of the key.
    #[error("the engine's policy does not allow this use of the key")]
    NotAllowed,
    /// The content does not fit the operation, such as a digest of another length or a point off the curve.
    #[error("the content is not what the operation takes")]
    BadContent,
    /// A ciphertext did not decrypt.
    #[error("the ciphertext does not decrypt")]
    NotDecrypted,
    /// The key was removed after it was opened.
    #[error("the key has been removed")]
    Removed,
    /// The computation failed because of an error of the service.
    #[error("the service failed to compute it")]
    Failed,
}

impl Status {
    const ALL: [Self; 9] = [
        Self::Done,
        Self::UnknownOperation,
        Self::UnknownKey,
        Self::WrongKind,
        Self::NotAllowed,
        Self::BadContent,
        Self::NotDecrypted,
        Self::Removed,
        Self::Failed,
    ];

    /// Returns its number in an answer.
    #[inline]
    pub fn to_number(self) -> u32 {
        self as u32
    }

    /// Returns the status with this number; [`Status::Failed`] for a number of a newer service.
    #[inline]
    pub fn of_number(number: u32) -> Self {
        Self::ALL.get(number as usize).copied().unwrap_or(Self::Failed)
    }
}

/// The answer to a job: the result, or the reason for which there is none.
pub type Answer = Result<Zeroizing<Vec<u8>>, Status>;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_an_operation_or_refused(code in 0u32..14, parameters in any::<u32>()) {
            if let Some(operation) = Operation::of_numbers(code, parameters) {
                prop_assert_eq!(operation.to_numbers(), (code, parameters));
            }
        }
    }

    #[test]
    fn a_key_for_pss_alone_does_what_its_limits_allow_and_nothing_else() {
        let (hash, mask) = (Hash::Sha256, Hash::Sha384);
        let free = KeyKind::RsaPss { bits: 2048, limits: None };
        let bound = KeyKind::RsaPss { bits: 2048, limits: Some(PssLimits { hash, mask, salt_bytes: 20 }) };
        let pss = |hash, mask, salt_bytes| Operation::SignPss { hash, mask, salt_bytes };
        for operation in
            [Operation::SignPkcs1(Some(hash)), Operation::DecryptPkcs1, Operation::DecryptOaep { hash, mask }]
        {
            assert!(!operation.suits(free) && !operation.suits(bound), "{operation:?}");
        }
        for (operation, is_allowed) in [
            (pss(hash, mask, 20), true),
            (pss(hash, mask, 32), true),
            (pss(hash, mask, 19), false),
            (pss(Hash::Sha384, mask, 20), false),
            (pss(hash, hash, 20), false),
        ] {
            assert_eq!((operation.suits(free), operation.suits(bound)), (true, is_allowed), "{operation:?}");
        }
        let KeyKind::RsaPss { limits, .. } = bound else { unreachable!() };
        assert_eq!(Operation::sign_pss(hash, limits), pss(hash, mask, 32));
        assert_eq!(Operation::sign_pss(hash, None), pss(hash, hash, 32));
    }

    #[test]
    fn every_operation_comes_back_from_its_numbers() {
        let mut all = vec![
            Operation::Null,
            Operation::SignPkcs1(None),
            Operation::SignEcdsa,
            Operation::SignEd25519,
            Operation::DecryptPkcs1,
            Operation::Derive,
            Operation::Seal { clear_bytes: 8 },
            Operation::Open { clear_bytes: u32::MAX },
            Operation::SignMlDsa { is_deterministic: false },
            Operation::SignMlDsa { is_deterministic: true },
        ];
        for hash in Hash::ALL {
            all.push(Operation::SignPkcs1(Some(hash)));
            all.push(Operation::DecryptOaep { hash, mask: Hash::Sha1 });
            all.push(Operation::SignPss { hash, mask: hash, salt_bytes: u16::MAX });
        }
        for operation in all {
            let (code, parameters) = operation.to_numbers();
            assert_eq!(Operation::of_numbers(code, parameters), Some(operation));
        }
        for status in Status::ALL {
            assert_eq!(Status::of_number(status.to_number()), status);
        }
        assert_eq!(Status::of_number(77), Status::Failed);
    }
}
