//! The reasons of failures, as return values of PKCS#11.

use cryptoki_sys as c;
use sealane_client::{ClientError, Refusal, Status};

/// A return value other than `CKR_OK`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) c::CK_RV);

impl From<ClientError> for Refused {
    fn from(error: ClientError) -> Self {
        Self(match error {
            ClientError::Unreachable { .. } | ClientError::Ended | ClientError::Late { .. } => {
                c::CKR_DEVICE_REMOVED
            }
            ClientError::Refused(Refusal::NoSuchKey) | ClientError::OtherKey { .. } => {
                c::CKR_KEY_HANDLE_INVALID
            }
            ClientError::Refused(Refusal::Limit { .. }) | ClientError::Full => c::CKR_DEVICE_MEMORY,
            ClientError::Refused(Refusal::NotAllowed | Refusal::NotAdmin) => c::CKR_FUNCTION_REJECTED,
            ClientError::Refused(Refusal::Exists | Refusal::BadName) => c::CKR_ATTRIBUTE_VALUE_INVALID,
            ClientError::Job(status) => return status.into(),
            ClientError::TooLong => c::CKR_DATA_LEN_RANGE,
            ClientError::Refused(_) | ClientError::Protocol { .. } | ClientError::Io(_) => {
                c::CKR_DEVICE_ERROR
            }
        })
    }
}

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        Self(match status {
            Status::NotAllowed => c::CKR_KEY_FUNCTION_NOT_PERMITTED,
            Status::BadContent => c::CKR_DATA_INVALID,
            Status::WrongKind => c::CKR_KEY_TYPE_INCONSISTENT,
            Status::NotDecrypted => c::CKR_ENCRYPTED_DATA_INVALID,
            Status::UnknownKey | Status::Removed => c::CKR_KEY_HANDLE_INVALID,
            Status::UnknownOperation => c::CKR_MECHANISM_INVALID,
            Status::Done | Status::Failed => c::CKR_DEVICE_ERROR,
        })
    }
}
