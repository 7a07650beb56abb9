//! Certificates that the service keeps beside its keys, as objects.

use crate::attribute::{flag, identifier, number};
use crate::refused::Refused;
use cryptoki_sys as c;
use sealane_asymmetric::der;

/// An X.509 certificate with its attributes as PKCS #11 names them.
#[derive(Debug)]
pub(crate) struct Certificate {
    /// The name of the key.
    pub(crate) label: String,
    pub(crate) value: Vec<u8>,
    /// The identifier of its own key, which is that of the private key where it is for that one.
    id: Vec<u8>,
    subject: Vec<u8>,
    issuer: Vec<u8>,
    serial: Vec<u8>,
}

impl Certificate {
    /// Returns `None` for bytes that are none.
    pub(crate) fn of(label: &str, value: Vec<u8>) -> Option<Self> {
        let parts = der::of_certificate(&value)?;
        let id = identifier(der::of_public(parts.public)?);
        let (subject, issuer) = (parts.subject.to_vec(), parts.issuer.to_vec());
        let serial = parts.serial.to_vec();
        Some(Self { label: label.to_owned(), id, subject, issuer, serial, value })
    }

    pub(crate) fn attribute(&self, kind: c::CK_ATTRIBUTE_TYPE) -> Result<Vec<u8>, Refused> {
        Ok(match kind {
            c::CKA_CLASS => number(c::CKO_CERTIFICATE),
            c::CKA_TOKEN => flag(true),
            c::CKA_PRIVATE | c::CKA_MODIFIABLE | c::CKA_COPYABLE | c::CKA_DESTROYABLE | c::CKA_TRUSTED => {
                flag(false)
            }
            c::CKA_CERTIFICATE_TYPE => number(c::CKC_X_509),
            // Unspecified: neither a user's nor an authority's.
            c::CKA_CERTIFICATE_CATEGORY | c::CKA_JAVA_MIDP_SECURITY_DOMAIN => number(0),
            c::CKA_LABEL => self.label.clone().into_bytes(),
            c::CKA_ID => self.id.clone(),
            c::CKA_SUBJECT => self.subject.clone(),
            c::CKA_ISSUER => self.issuer.clone(),
            c::CKA_SERIAL_NUMBER => self.serial.clone(),
            c::CKA_VALUE => self.value.clone(),
            c::CKA_START_DATE | c::CKA_END_DATE | c::CKA_URL => Vec::new(),
            _ => return Err(Refused(c::CKR_ATTRIBUTE_TYPE_INVALID)),
        })
    }
}
