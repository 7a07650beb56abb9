//! The reasons of failures, in the form of OpenSSL's error queue.

use crate::library::Refused;
use sealane_client::{ClientError, Refusal, Status};

/// The reason for which an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Reason {
    Panicked = 100,
    NoKey,
    NoSuchKey,
    NotAllowed,
    Unreachable,
    Ended,
    BadContent,
    NotDecrypted,
    Failed,
    Unsupported,
    BufferTooSmall,
    BadReference,
    NoPrivateKey,
    KeyLength,
    VectorLength,
    TagLength,
    NoVector,
    NoTag,
    Late,
    Version,
    Limit,
}

impl Reason {
    /// All reasons with their texts.
    pub(crate) const ALL: [(Self, &std::ffi::CStr); 21] = [
        (Self::Panicked, c"a defect of the provider: please report it"),
        (Self::NoKey, c"no key was given, or it is damaged"),
        (Self::NoSuchKey, c"the engine has no such key, or its policy does not let this user use it"),
        (Self::NotAllowed, c"the engine's policy does not allow this"),
        (Self::Unreachable, c"cannot reach the engine: is `sealane engine serve` running?"),
        (Self::Ended, c"the engine ended the connection"),
        (Self::BadContent, c"the content is not what the operation takes"),
        (Self::NotDecrypted, c"the ciphertext does not decrypt"),
        (Self::Failed, c"the operation failed"),
        (Self::Unsupported, c"the provider does not have this parameter or algorithm"),
        (Self::BufferTooSmall, c"the buffer is too small"),
        (Self::BadReference, c"a reference to a key is sealane:NAME, or sealane:NAME?socket=/PATH"),
        (Self::NoPrivateKey, c"the key has no private half"),
        (Self::KeyLength, c"the cipher has keys of another length"),
        (Self::VectorLength, c"the cipher has initialisation vectors of another length"),
        (Self::TagLength, c"a tag has 1 to 16 bytes"),
        (Self::NoVector, c"the text needs an initialisation vector of its own"),
        (Self::NoTag, c"there is no tag"),
        (Self::Late, c"the engine did not answer in time: is it stopped, or has it too much to do?"),
        (Self::Version, c"the engine and this provider are of versions that do not go together: bring both up to date"),
        (Self::Limit, c"the engine has no place for another connection: see `connections` in its policy, and its audit log"),
    ];
}

impl From<Refused> for Reason {
    fn from(_: Refused) -> Self {
        Self::Failed
    }
}

impl From<Status> for Reason {
    fn from(status: Status) -> Self {
        match status {
            Status::NotAllowed => Self::NotAllowed,
            Status::BadContent | Status::WrongKind => Self::BadContent,
            Status::NotDecrypted => Self::NotDecrypted,
            Status::UnknownKey | Status::Removed => Self::NoSuchKey,
            Status::UnknownOperation => Self::Unsupported,
            Status::Done | Status::Failed => Self::Failed,
        }
    }
}

impl From<&ClientError> for Reason {
    fn from(error: &ClientError) -> Self {
        match error {
            ClientError::Unreachable { .. } => Self::Unreachable,
            ClientError::Ended => Self::Ended,
            ClientError::Refused(Refusal::NoSuchKey) | ClientError::OtherKey { .. } => Self::NoSuchKey,
            ClientError::Refused(Refusal::Version { .. } | Refusal::Unexpected) => Self::Version,
            ClientError::Refused(Refusal::Limit { .. }) => Self::Limit,
            ClientError::Refused(_) => Self::NotAllowed,
            ClientError::Late { .. } => Self::Late,
            ClientError::Job(status) => (*status).into(),
            ClientError::TooLong => Self::BadContent,
            ClientError::Full | ClientError::Protocol { .. } | ClientError::Io(_) => Self::Failed,
        }
    }
}
