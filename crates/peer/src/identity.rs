//! Our own key, of Ed25519 or of Ed25519 and ML-DSA-65: generated, stored and loaded so that no other user can read it.
//!
//! The file is PKCS#8 in PEM; one of Ed25519 alone is as `openssl pkey` reads and writes it, and a hybrid one has the object
//! identifier and the two seeds of draft-ietf-lamps-pq-composite-sigs. Both halves of a hybrid key are new: a half that is also
//! a key of its own could sign elsewhere what only both may sign here. A file is created with mode 0600 and never
//! overwritten, and a file that others can reach, or that another user owns, is not used. The checks apply to the
//! opened file, not to its name, so they hold for the bytes that are read.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use pem_rfc7468::LineEnding;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::{CertifiedKey, SigningKey};
use zeroize::Zeroizing;

use crate::composite::CompositeKey;
use crate::error::PeerError;
use crate::key::{KeyKind, PublicKey, ed25519_spki, signed};
use crate::proof::CompositeSigner;
use sealane_transform::debug_only;

/// A PKCS#8 PEM of either kind has less than 250 bytes; comments around it are not allowed.
const MAX_FILE_BYTES: usize = 4096;
const PEM_LABEL: &str = "PRIVATE KEY";

/// Our own key pair. Dropping it wipes it.
pub struct Identity {
    public: PublicKey,
    private: Private,
    /// The key for rustls, with the public key in place of a certificate (RFC 7250).
    certified: Arc<CertifiedKey>,
}

enum Private {
    /// DER, PKCS#8 version 1.
    Ed25519(Zeroizing<Vec<u8>>),
    Hybrid(Arc<CompositeKey>),
}

debug_only!(Identity { public });

impl Identity {
    /// Returns a new Ed25519 key that is not stored.
    ///
    /// # Errors
    /// The random generator failed.
    pub fn generate() -> Result<Self, PeerError> {
        let fault = |_| PeerError::Crypto { doing: "make a key" };
        let pair = Ed25519KeyPair::generate().map_err(fault)?;
        let document = pair.to_pkcs8v1().map_err(fault)?;
        Self::from_ed25519(Zeroizing::new(document.as_ref().to_vec()))
            .ok_or(PeerError::Crypto { doing: "make a key" })
    }

    /// Returns a new key of Ed25519 and ML-DSA-65 that is not stored.
    ///
    /// # Errors
    /// The random generator failed.
    pub fn generate_hybrid() -> Result<Self, PeerError> {
        let key = CompositeKey::generate().and_then(Self::from_composite);
        key.ok_or(PeerError::Crypto { doing: "make a key" })
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

    /// Generates an Ed25519 key and stores it in this file, which must not exist; missing directories are made with mode
    /// 0700.
    ///
    /// # Errors
    /// Fails if the file exists or cannot be written, or the random generator fails.
    pub fn create(path: &Path) -> Result<Self, PeerError> {
        Self::generate()?.stored(path)
    }

    /// Stores the key in this file, which must not exist.
    fn stored(self, path: &Path) -> Result<Self, PeerError> {
        let file_error = |source| PeerError::File { doing: "create", path: path.into(), source };
        let identity = self;
        let pkcs8 = match &identity.private {
            Private::Ed25519(pkcs8) => pkcs8.clone(),
            Private::Hybrid(key) => key.to_pkcs8(),
        };
        let mut pem = Zeroizing::new([0; MAX_FILE_BYTES]);
        let text = pem_rfc7468::encode(PEM_LABEL, LineEnding::LF, &pkcs8, &mut pem[..])
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

    /// Loads the key in this file, of either kind, or generates one of Ed25519 if there is no such file.
    ///
    /// # Errors
    /// Fails as [`load`](Self::load) and [`create`](Self::create) do.
    pub fn load_or_create(path: &Path) -> Result<Self, PeerError> {
        Self::load_or_make(path, Self::generate)
    }

    /// Loads the hybrid key in this file, or generates it if there is no such file.
    ///
    /// # Errors
    /// Fails as [`load`](Self::load) and [`create`](Self::create) do, and if the file has a key of Ed25519 alone.
    pub fn load_or_create_hybrid(path: &Path) -> Result<Self, PeerError> {
        let identity = Self::load_or_make(path, Self::generate_hybrid)?;
        match identity.public.kind() {
            KeyKind::Hybrid => Ok(identity),
            KeyKind::Ed25519 => Err(PeerError::IdentityNotHybrid { path: path.into() }),
        }
    }

    fn load_or_make(
        path: &Path,
        generate: impl FnOnce() -> Result<Self, PeerError>,
    ) -> Result<Self, PeerError> {
        let missing =
            |e: &PeerError, kind| matches!(e, PeerError::File { source, .. } if source.kind() == kind);
        match Self::load(path) {
            Err(e) if missing(&e, io::ErrorKind::NotFound) => match generate()?.stored(path) {
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

    /// Signs a message. The `context` names its purpose, so that no signature is one for another purpose. The signature of a
    /// hybrid key begins with the key itself, of which a [`PublicKey`] is the digest: 64 bytes, or 5,378.
    ///
    /// # Errors
    /// The key cannot sign.
    pub fn sign(&self, context: &str, message: &[u8]) -> Result<Vec<u8>, PeerError> {
        let message = signed(context, message);
        let signature = match &self.private {
            Private::Ed25519(pkcs8) => Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8)
                .ok()
                .map(|pair| pair.sign(&message).as_ref().to_vec()),
            Private::Hybrid(key) => key.sign(&message).map(|signature| [key.spki(), signature].concat()),
        };
        signature.ok_or(PeerError::Crypto { doing: "sign" })
    }

    /// Returns the PKCS#8 of an Ed25519 key, in DER; `None` for a hybrid key.
    pub(crate) fn ed25519_pkcs8(&self) -> Option<&[u8]> {
        match &self.private {
            Private::Ed25519(pkcs8) => Some(pkcs8),
            Private::Hybrid(_) => None,
        }
    }

    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.certified)
    }

    /// Returns the key in the text of such a file; `None` for any other text.
    #[must_use]
    pub fn from_pem(pem: &[u8]) -> Option<Self> {
        let mut der = Zeroizing::new([0; MAX_FILE_BYTES]);
        let (label, der) = pem_rfc7468::decode(pem, &mut der[..]).ok()?;
        if label != PEM_LABEL {
            return None;
        }
        if let Some(key) = CompositeKey::from_pkcs8(der) {
            return Self::from_composite(key);
        }
        // Versions 1 and 2 are in use; we write version 1, which every tool reads.
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).ok()?;
        let document = pair.to_pkcs8v1().ok()?;
        Self::from_ed25519(Zeroizing::new(document.as_ref().to_vec()))
    }

    fn from_ed25519(pkcs8: Zeroizing<Vec<u8>>) -> Option<Self> {
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&pkcs8).ok()?;
        let spki = ed25519_spki(pair.public_key().as_ref().try_into().ok()?).to_vec();
        // The key is borrowed, so rustls makes no copy of these bytes that it would not wipe.
        let signer =
            rustls::crypto::aws_lc_rs::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(&pkcs8[..])).ok()?;
        Self::shown_as(spki, signer, Private::Ed25519(pkcs8))
    }

    pub(crate) fn from_composite(key: CompositeKey) -> Option<Self> {
        let key = Arc::new(key);
        Self::shown_as(key.spki(), Arc::new(CompositeSigner(Arc::clone(&key))), Private::Hybrid(key))
    }

    fn shown_as(spki: Vec<u8>, signer: Arc<dyn SigningKey>, private: Private) -> Option<Self> {
        let public = PublicKey::from_spki(&spki)?;
        let certified = Arc::new(CertifiedKey::new(vec![CertificateDer::from(spki)], signer));
        Some(Self { public, private, certified })
    }
}

#[cfg(test)]
impl Identity {
    /// Returns an identity that shows the key of `victim` and signs with its own, like an attacker who has only
    /// public data.
    pub(crate) fn impostor(victim: &Self) -> Self {
        Self::liar(victim, Self::generate().unwrap().certified.key.clone())
    }

    /// Returns an identity that shows the key of `victim` and signs by `signer`.
    pub(crate) fn liar(victim: &Self, signer: Arc<dyn SigningKey>) -> Self {
        let shown = victim.certified.cert[0].clone();
        Self::showing(shown.to_vec(), signer)
    }

    /// Returns another identity that shows and signs the same.
    pub(crate) fn showing_as(other: &Self) -> Self {
        let certified = Arc::clone(&other.certified);
        Self { public: other.public, certified, ..Self::generate().unwrap() }
    }

    /// Returns an identity that shows these bytes as its key and signs by `signer`.
    pub(crate) fn showing(shown: Vec<u8>, signer: Arc<dyn SigningKey>) -> Self {
        let certified = CertifiedKey::new(vec![CertificateDer::from(shown)], signer);
        Self { certified: Arc::new(certified), ..Self::generate().unwrap() }
    }

    /// Returns the hybrid private key.
    pub(crate) fn composite(&self) -> Arc<CompositeKey> {
        match &self.private {
            Private::Hybrid(key) => Arc::clone(key),
            Private::Ed25519(_) => panic!("a hybrid identity"),
        }
    }

    /// Returns the Ed25519 half of a hybrid identity as an identity of its own.
    pub(crate) fn ed25519_half(&self) -> Self {
        Self::from_ed25519(self.composite().ed25519_alone()).unwrap()
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
    fn a_hybrid_identity_is_stored_and_no_other_is_made_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let (path, plain) = (dir.path().join("hybrid"), dir.path().join("plain"));
        let made = Identity::load_or_create_hybrid(&path).unwrap();
        let key = made.public_key();
        assert_eq!(key.kind(), KeyKind::Hybrid);
        assert!(key.to_string().starts_with("sealane2:"));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        for again in [Identity::load, Identity::load_or_create, Identity::load_or_create_hybrid] {
            assert_eq!(again(&path).unwrap().public_key(), key);
        }
        assert_eq!(Identity::public_key_in(&path).unwrap(), key);
        assert!(format!("{made:?}").len() < 120, "the key alone is printed");

        Identity::create(&plain).unwrap();
        let before = std::fs::read(&plain).unwrap();
        let error = Identity::load_or_create_hybrid(&plain).unwrap_err();
        assert!(matches!(error, PeerError::IdentityNotHybrid { .. }), "{error}");
        assert_eq!(std::fs::read(&plain).unwrap(), before);
    }

    #[test]
    fn signatures_are_of_one_key_one_purpose_and_one_message() {
        let hybrid = Identity::generate_hybrid().unwrap();
        let half = hybrid.ed25519_half();
        let other = Identity::generate_hybrid().unwrap();
        for identity in [&hybrid, &half] {
            let key = identity.public_key();
            let signature = identity.sign("purpose", b"message").unwrap();
            assert!(key.has_signed("purpose", b"message", &signature));
            assert!(!key.has_signed("purposf", b"message", &signature));
            assert!(!key.has_signed("purpose", b"messagf", &signature));
            for length in [0, 63, 64, signature.len() - 1] {
                let cut = &signature[..length.min(signature.len() - 1)];
                assert!(!key.has_signed("purpose", b"message", cut), "{length} bytes");
            }
            assert!(!key.has_signed("purpose", b"message", &[&signature[..], &[0]].concat()));
        }
        // Neither half speaks for both, and no other key for this one.
        let key = hybrid.public_key();
        let ed25519 = half.sign("purpose", b"message").unwrap();
        assert!(!key.has_signed("purpose", b"message", &ed25519));
        let foreign = other.sign("purpose", b"message").unwrap();
        assert!(!key.has_signed("purpose", b"message", &foreign));
        let spki = hybrid.composite().spki();
        assert!(!key.has_signed("purpose", b"message", &[&spki[..], &foreign[spki.len()..]].concat()));
        let signature = hybrid.sign("purpose", b"message").unwrap();
        assert!(!half.public_key().has_signed("purpose", b"message", &signature[signature.len() - 64..]));
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
        assert_eq!(identity.public_key().ed25519().unwrap()[..], public[..]);
        assert!(!format!("{identity:?}").contains("pkcs8"));
    }
}
