//! Our identities as X.509 certificates, for programs that know no raw public keys: a NATS server.
//!
//! Guarantees: a certificate of ours says nothing but the key. One key has one certificate, byte for byte, so it can be made
//! again anywhere, and none of another form is read. A hybrid key has none: the programs that read certificates know no
//! composite signatures, and half of a key proves less than its owner's peers ask for.

use aws_lc_rs::signature::Ed25519KeyPair;
use pem_rfc7468::LineEnding;

use crate::error::PeerError;
use crate::identity::Identity;
use crate::key::{PublicKey, SIGNATURE_BYTES, ed25519_spki};

/// DER of an algorithm identifier: Ed25519 (RFC 8410 section 3).
const ED25519: &[u8] = &[0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70];
/// DER of a name: the common name `sealane`.
const NAME: &[u8] = &[
    0x30, 0x12, 0x31, 0x10, 0x30, 0x0e, 0x06, 0x03, 0x55, 0x04, 0x03, 0x0c, 0x07, b's', b'e', b'a', b'l',
    b'a', b'n', b'e',
];
/// DER of a validity: from 2000 on, without a good end (RFC 5280 section 4.1.2.5).
const VALIDITY: &[u8] = b"\x30\x20\x17\x0d000101000000Z\x18\x0f99991231235959Z";
/// DER of an extension: no certificate authority, which rustls and Go demand of a certificate that is trusted itself.
const NO_AUTHORITY: &[u8] =
    &[0x30, 0x0c, 0x06, 0x03, 0x55, 0x1d, 0x13, 0x01, 0x01, 0xff, 0x04, 0x02, 0x30, 0x00];
/// DER of the identifier of alternative names (RFC 5280 section 4.2.1.6).
const ALTERNATIVE_NAMES: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x11];
/// The name that is in all certificates, because a client must ask for some name.
const COMMON: &[u8] = b"sealane";
const PEM_LABEL: &str = "CERTIFICATE";
const PEM_BYTES_MAX: usize = 2048;

/// An element of DER (ITU-T X.690) whose content is these parts, which are shorter than 64 KiB together.
fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = content.len();
    let mut der = vec![tag];
    match length {
        0..0x80 => der.push(length as u8),
        0x80..0x100 => der.extend([0x81, length as u8]),
        _ => der.extend([0x82, (length >> 8) as u8, length as u8]),
    }
    der.extend(content);
    der
}

/// DER of the extensions: the key is no authority; and two names of a host, one that all keys have and the key's own,
/// by which a server tells its clients apart.
fn extensions(key: &PublicKey) -> Vec<u8> {
    let names = [element(0x82, &[COMMON]), element(0x82, &[key.label().as_bytes()])].concat();
    let names = element(0x04, &[&element(0x30, &[&names])]);
    let names = element(0x30, &[ALTERNATIVE_NAMES, &names]);
    element(0xa3, &[&element(0x30, &[NO_AUTHORITY, &names])])
}

/// The part that is signed; `None` for a key without certificates.
fn to_be_signed(key: &PublicKey) -> Option<Vec<u8>> {
    let bytes = key.ed25519()?;
    let version = [0xa0, 0x03, 0x02, 0x01, 0x02];
    // 16 bytes of the key, with a bit that keeps it positive and of this length.
    let mut serial = [0; 16];
    serial.copy_from_slice(&bytes[..16]);
    serial[0] = serial[0] & 0x7f | 0x40;
    let serial = element(0x02, &[&serial]);
    let spki = ed25519_spki(bytes);
    Some(element(0x30, &[&version, &serial, ED25519, NAME, VALIDITY, NAME, &spki, &extensions(key)]))
}

fn certificate(to_be_signed: &[u8], signature: &[u8]) -> Vec<u8> {
    let signature = element(0x03, &[&[0], signature]);
    element(0x30, &[to_be_signed, ED25519, &signature])
}

/// The key of a certificate of ours; `None` for any other.
pub(crate) fn key_of(der: &[u8]) -> Option<PublicKey> {
    let prefix = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
    let at = der.windows(prefix.len()).position(|found| found == prefix)?;
    let spki = der.get(at..at + prefix.len() + 32)?;
    let key = PublicKey::from_spki(spki)?;
    // All but the signature follows from the key; whoever shows it proves that the key is theirs.
    let signature = der.get(der.len().checked_sub(SIGNATURE_BYTES)?..)?;
    (certificate(&to_be_signed(&key)?, signature) == der).then_some(key)
}

impl Identity {
    /// A certificate that says nothing but the key, in DER.
    ///
    /// # Errors
    /// The key is a hybrid one, or cannot sign.
    pub fn certificate(&self) -> Result<Vec<u8>, PeerError> {
        let key = self.public_key();
        let (Some(pkcs8), Some(signed)) = (self.ed25519_pkcs8(), to_be_signed(&key)) else {
            return Err(PeerError::NoCertificate { key });
        };
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8)
            .map_err(|_| PeerError::Crypto { doing: "make a certificate" })?;
        Ok(certificate(&signed, pair.sign(&signed).as_ref()))
    }

    /// The same in PEM, for the file of those whom a server lets in.
    ///
    /// # Errors
    /// As [`Self::certificate`].
    pub fn certificate_pem(&self) -> Result<String, PeerError> {
        let mut text = [0; PEM_BYTES_MAX];
        let text = pem_rfc7468::encode(PEM_LABEL, LineEnding::LF, &self.certificate()?, &mut text);
        text.map(str::to_owned).map_err(|_| PeerError::Crypto { doing: "make a certificate" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    #[test]
    fn a_certificate_says_its_key_and_no_other_form_is_read() {
        let identity = Identity::generate().unwrap();
        let der = identity.certificate().unwrap();
        assert_eq!(der, identity.certificate().unwrap());
        assert_eq!(key_of(&der), Some(identity.public_key()));
        for at in 0..der.len() - SIGNATURE_BYTES {
            let mut altered = der.clone();
            altered[at] ^= 1;
            assert_ne!(key_of(&altered), Some(identity.public_key()), "byte {at}");
        }
        for length in [0, 1, 40, der.len() - 1] {
            assert_eq!(key_of(&der[..length]), None);
        }
    }

    #[test]
    fn a_hybrid_key_has_no_certificate() {
        let error = Identity::generate_hybrid().unwrap().certificate_pem().unwrap_err();
        assert!(matches!(error, PeerError::NoCertificate { .. }) && error.to_string().contains("--identity"));
    }

    #[test]
    fn openssl_reads_and_verifies_it() {
        let pem = Identity::generate().unwrap().certificate_pem().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("certificate");
        std::fs::File::create(&file).unwrap().write_all(pem.as_bytes()).unwrap();
        let mut command = Command::new("openssl");
        command
            .arg("verify")
            .arg("-CAfile")
            .arg(&file)
            .arg("-partial_chain")
            .arg(&file)
            .stderr(Stdio::piped());
        let Ok(output) = command.output() else { return };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
