//! Our own Ed25519 key: generated, stored and loaded so that no other user can read it.
//!
//! The file is PKCS#8 in PEM, as `openssl pkey` reads and writes it. It is created with mode 0600 and never
//! overwritten, and a file that others can reach, or that another user owns, is not used. The checks apply to the
//! opened file, not to its name, so they hold for the bytes that are read.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::signature::{ED25519_PUBLIC_KEY_LEN, Ed25519KeyPair, KeyPair};
use pem_rfc7468::LineEnding;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use zeroize::Zeroizing;

use crate::error::PeerError;
use crate::key::{PublicKey, SIGNATURE_BYTES, signed};

/// An Ed25519 PKCS#8 PEM has less than 200 bytes; comments around it are not allowed.
const MAX_FILE_BYTES: usize = 4096;
const PEM_LABEL: &str = "PRIVATE KEY";

/// Our own key pair. Dropping it wipes it.
pub struct Identity {
    public: PublicKey,
    /// DER, PKCS#8 version 1.
    pkcs8: Zeroizing<Vec<u8>>,
    /// The key for rustls, with the public key in place of a certificate (RFC 7250).
    certified: Arc<CertifiedKey>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("public", &self.public).finish_non_exhaustive()
    }
}

impl Identity {
    /// Returns a new key that is not stored.
    ///
    /// # Errors
    /// The random generator failed.
    pub fn generate() -> Result<Self, PeerError> {
        let fault = |_| PeerError::Crypto { doing: "make a key" };
        let pair = Ed25519KeyPair::generate().map_err(fault)?;
        let document = pair.to_pkcs8v1().map_err(fault)?;
        Self::from_pkcs8(Zeroizing::new(document.as_ref().to_vec()))
            .ok_or(PeerError::Crypto { doing: "make a key" })
    }

    /// The default file of the key in a user's configuration directory.
    pub const FILE_NAME: &str = "identity";

    /// Loads the key in this file.
    ///
    /// # Errors
    /// Fails if the file cannot be read, can be read by other users, belongs to another user, or does not contain
    /// such a key.
    pub fn load(path: &Path) -> Result<Self, PeerError> {
        let file_error = |source| PeerError::File { doing: "read", path: path.into(), source };
        let mut file = File::open(path).map_err(file_error)?;
        let meta = file.metadata().map_err(file_error)?;
        let uid = rustix::process::geteuid().as_raw();
        // A daemon that has dropped its rights may use a file of root, which root gave it.
        if meta.uid() != uid && meta.uid() != 0 {
            return Err(PeerError::IdentityForeign { path: path.into(), uid: meta.uid() });
        }
        let mode = meta.mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(PeerError::IdentityExposed { path: path.into(), mode });
        }
        Self::read(&mut file, path)
    }

    /// Returns the public key of the identity in this file, whoever owns it: that of a service, for its administrator. The
    /// private key is used for nothing.
    ///
    /// # Errors
    /// Fails if the file cannot be read or does not contain such a key.
    pub fn public_key_in(path: &Path) -> Result<PublicKey, PeerError> {
        let file_error = |source| PeerError::File { doing: "read", path: path.into(), source };
        let mut file = File::open(path).map_err(file_error)?;
        Self::read(&mut file, path).map(|identity| identity.public)
    }

    fn read(file: &mut File, path: &Path) -> Result<Self, PeerError> {
        let file_error = |source| PeerError::File { doing: "read", path: path.into(), source };
        // The buffer has a fixed size, because a growing one would leave copies of the key behind.
        let mut pem = Zeroizing::new([0; MAX_FILE_BYTES]);
        let mut len = 0;
        while len < pem.len() {
            match file.read(&mut pem[len..]) {
                Ok(0) => break,
                Ok(n) => len += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(file_error(e)),
            }
        }
        Self::from_pem(&pem[..len]).ok_or_else(|| PeerError::IdentityMalformed { path: path.into() })
    }

    /// Generates a key and stores it in this file, which must not exist; missing directories are made with mode 0700.
    ///
    /// # Errors
    /// Fails if the file exists or cannot be written, or the random generator fails.
    pub fn create(path: &Path) -> Result<Self, PeerError> {
        let file_error = |source| PeerError::File { doing: "create", path: path.into(), source };
        let identity = Self::generate()?;
        let mut pem = Zeroizing::new([0; MAX_FILE_BYTES]);
        let text = pem_rfc7468::encode(PEM_LABEL, LineEnding::LF, &identity.pkcs8, &mut pem[..])
            .map_err(|_| PeerError::Crypto { doing: "encode a key" })?;
        if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(file_error)?;
        }
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(file_error)?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        if let Err(e) = written {
            // A partial key would prevent that a complete one is made.
            let _ = std::fs::remove_file(path);
            return Err(file_error(e));
        }
        Ok(identity)
    }

    /// Loads the key in this file, or generates it if there is no such file.
    ///
    /// # Errors
    /// Fails as [`load`](Self::load) and [`create`](Self::create) do.
    pub fn load_or_create(path: &Path) -> Result<Self, PeerError> {
        let missing =
            |e: &PeerError, kind| matches!(e, PeerError::File { source, .. } if source.kind() == kind);
        match Self::load(path) {
            Err(e) if missing(&e, io::ErrorKind::NotFound) => match Self::create(path) {
                // Another process was faster.
                Err(e) if missing(&e, io::ErrorKind::AlreadyExists) => Self::load(path),
                made => made,
            },
            loaded => loaded,
        }
    }

    /// Returns the public key, which identifies us.
    #[must_use]
    pub fn public_key(&self) -> PublicKey {
        self.public
    }

    /// Signs a message. The `context` names its purpose, so that no signature is one for another purpose.
    ///
    /// # Errors
    /// The key cannot sign.
    pub fn sign(&self, context: &str, message: &[u8]) -> Result<[u8; SIGNATURE_BYTES], PeerError> {
        let fault = PeerError::Crypto { doing: "sign" };
        let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&self.pkcs8) else { return Err(fault) };
        let signature = pair.sign(&signed(context, message));
        signature.as_ref().try_into().map_err(|_| fault)
    }

    pub(crate) fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }

    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.certified)
    }

    fn from_pem(pem: &[u8]) -> Option<Self> {
        let mut der = Zeroizing::new([0; MAX_FILE_BYTES]);
        let (label, der) = pem_rfc7468::decode(pem, &mut der[..]).ok()?;
        if label != PEM_LABEL {
            return None;
        }
        // Versions 1 and 2 are in use; we write version 1, which every tool reads.
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).ok()?;
        let document = pair.to_pkcs8v1().ok()?;
        Self::from_pkcs8(Zeroizing::new(document.as_ref().to_vec()))
    }

    fn from_pkcs8(pkcs8: Zeroizing<Vec<u8>>) -> Option<Self> {
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&pkcs8).ok()?;
        let bytes: [u8; ED25519_PUBLIC_KEY_LEN] = pair.public_key().as_ref().try_into().ok()?;
        let public = PublicKey::from_bytes(bytes);
        // The key is borrowed, so rustls makes no copy of these bytes that it would not wipe.
        let signer =
            rustls::crypto::aws_lc_rs::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(&pkcs8[..])).ok()?;
        let certified = CertifiedKey::new(vec![CertificateDer::from(public.to_spki().to_vec())], signer);
        Some(Self { public, pkcs8, certified: Arc::new(certified) })
    }
}

#[cfg(test)]
impl Identity {
    /// Returns an identity that shows the key of `victim` and signs with its own, like an attacker who has only
    /// public data.
    pub(crate) fn impostor(victim: PublicKey) -> Self {
        let own = Self::generate().unwrap();
        let certified = CertifiedKey::new(
            vec![CertificateDer::from(victim.to_spki().to_vec())],
            own.certified.key.clone(),
        );
        Self { certified: Arc::new(certified), ..own }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn stored_and_loaded_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/er/identity");
        let made = Identity::load_or_create(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(std::fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o7777, 0o700);
        assert_eq!(Identity::load(&path).unwrap().public_key(), made.public_key());
        assert_eq!(Identity::load_or_create(&path).unwrap().public_key(), made.public_key());
        let again = Identity::create(&path).unwrap_err();
        assert!(matches!(again, PeerError::File { doing: "create", .. }), "{again}");
        assert_ne!(Identity::generate().unwrap().public_key(), made.public_key());
    }

    #[test]
    fn exposed_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("identity");
        Identity::create(&path).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o601, 0o660] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let error = Identity::load(&path).unwrap_err();
            assert!(matches!(error, PeerError::IdentityExposed { mode: m, .. } if m == mode), "{error}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
        Identity::load(&path).unwrap();
    }

    #[test]
    fn other_files_are_malformed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("identity");
        Identity::create(&path).unwrap();
        let good = std::fs::read_to_string(&path).unwrap();
        for text in [
            String::new(),
            good.replace("PRIVATE", "PUBLIC"),
            good.replacen("MC4", "MC5", 1),
            good[..good.len() / 2].to_owned(),
            "x".repeat(2 * MAX_FILE_BYTES),
            "\0".repeat(100),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = Identity::load(&path).unwrap_err();
            assert!(matches!(error, PeerError::IdentityMalformed { .. }), "{error}");
        }
    }

    /// RFC 8410 section 10.3 has a version 1 key, and section 10.1 its public key.
    #[test]
    fn published_key() {
        let pem = "-----BEGIN PRIVATE KEY-----\n\
                   MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
                   -----END PRIVATE KEY-----\n";
        let identity = Identity::from_pem(pem.as_bytes()).unwrap();
        let public = data_encoding::BASE64.decode(b"Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=").unwrap();
        assert_eq!(identity.public_key().as_bytes()[..], public[..]);
        assert!(!format!("{identity:?}").contains("pkcs8"));
    }
}
