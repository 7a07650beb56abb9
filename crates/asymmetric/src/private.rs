//! Private keys: their import, generation and use.

use crate::der::private_for_pss;
use crate::formats::{Found, look};
use crate::library::{self, oaep, pkcs1, pss};
use crate::ml_dsa::{Made, MlDsaFault, MlDsaKey};
use sealane_client::key::of_pem;
use sealane_client::{Answer, KeyKind, MlDsaSet, Operation, Status};
use sealane_native::key::{Key, Padding};
use sealane_transform::AsymmetricOperation;
use sealane_transform::ed25519::Ed25519Key;
use sealane_transform::p256::P256PrivateKey;
use sealane_transform::rsa::RsaPrivateKey;
use sealane_transform::x25519::X25519Key;
use std::ffi::CString;
use std::fmt;
use std::sync::{Arc, OnceLock};
use zeroize::{Zeroize as _, Zeroizing};

/// A private key with its public half; `Debug` prints only its kind.
pub struct PrivateKey {
    key: Half,
    kind: KeyKind,
    public: Vec<u8>,
    /// Its form for the kernels that compute several at once, made when it is first needed; `None` if they have no such keys.
    for_kernels: OnceLock<Option<KernelKey>>,
}

/// The private half.
enum Half {
    Library(Key),
    MlDsa(MlDsaKey),
}

/// A private key in the form of the kernels that run several operations side by side.
pub(crate) enum KernelKey {
    Rsa(Arc<RsaPrivateKey>),
    P256(Arc<P256PrivateKey>),
    Ed25519(Arc<Ed25519Key>),
    X25519(Arc<X25519Key>),
}

/// The error for bytes that contain no private key of a supported kind, or for a wrong passphrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no private key of a kind that the engine has, or the passphrase is wrong")]
pub struct NoKey;

/// The error of an import.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// There is no private key, or the passphrase is wrong.
    #[error(transparent)]
    NoKey(#[from] NoKey),
    /// There is one, of a kind or in a form that is not supported.
    #[error("{found} is not supported")]
    Unsupported {
        /// The name of what was found.
        found: String,
    },
    /// There is one of ML-DSA whose parts do not fit together.
    #[error(transparent)]
    MlDsa(#[from] MlDsaFault),
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({})", self.kind)
    }
}

impl PrivateKey {
    fn of(key: Key) -> Result<Self, NoKey> {
        if let Some(set) = library::ml_dsa_set(&key) {
            let expanded = library::expanded(&key).map_err(|_| NoKey)?;
            let seed = key.to_pkcs8().ok().and_then(|pkcs8| Self::of_ml_dsa(&pkcs8)?.ok());
            let of_expanded = || MlDsaKey::of_expanded(set, &expanded).map_err(|_| NoKey);
            return seed.map_or_else(|| of_expanded().map(|made| Self::made(set, made)), Ok);
        }
        let (key, kind) = library::unbound(key).ok_or(NoKey)?;
        Self::of_unbound(key, kind)
    }

    fn of_unbound(key: Key, kind: KeyKind) -> Result<Self, NoKey> {
        let public = library::to_public_of(&key, kind).ok_or(NoKey)?;
        Ok(Self { key: Half::Library(key), kind, public, for_kernels: OnceLock::new() })
    }

    fn made(set: MlDsaSet, (key, public): Made) -> Self {
        Self { key: Half::MlDsa(key), kind: KeyKind::MlDsa(set), public, for_kernels: OnceLock::new() }
    }

    /// Reads a key of ML-DSA from PKCS#8; returns `None` if it is of another algorithm.
    fn of_ml_dsa(pkcs8: &[u8]) -> Option<Result<Self, MlDsaFault>> {
        let (set, found) = MlDsaKey::of_pkcs8(pkcs8)?;
        Some(found.map(|found| Self::made(set, found)))
    }

    /// Reads a key of ML-DSA from PKCS#8 as DER or PEM, not encrypted: of encrypted ones the library says less.
    fn import_ml_dsa(bytes: &[u8]) -> Option<Result<Self, MlDsaFault>> {
        match std::str::from_utf8(bytes).ok().filter(|text| text.contains("-----BEGIN ")) {
            Some(text) => Self::of_ml_dsa(&of_pem("PRIVATE KEY", text)?),
            None => Self::of_ml_dsa(bytes),
        }
    }

    /// Makes a new key.
    ///
    /// # Errors
    /// Fails if the library cannot make one of this kind.
    pub fn generate(kind: KeyKind) -> Result<Self, NoKey> {
        if let KeyKind::MlDsa(set) = kind {
            return Ok(Self::made(set, MlDsaKey::generate(set)));
        }
        Self::of_unbound(library::generate(kind).map_err(|_| NoKey)?, kind)
    }

    /// Reads PKCS#8 in DER (RFC 5958).
    ///
    /// # Errors
    /// Fails if the bytes are not such a key.
    pub fn of_pkcs8(der: &[u8]) -> Result<Self, NoKey> {
        if let Some(found) = Self::of_ml_dsa(der) {
            return found.map_err(|_| NoKey);
        }
        Self::of(Key::of_pkcs8(der).map_err(|_| NoKey)?)
    }

    /// Reads a key in a usual format: PEM (PKCS#8, PKCS#1, SEC 1), DER of these or of PKCS#12 (RFC 7292), encrypted or not, or
    /// OpenSSH's own, not encrypted.
    ///
    /// # Errors
    /// Fails if the bytes have none of these formats, if the passphrase is wrong, or with the name of a key that is not supported.
    pub fn import(bytes: &[u8], passphrase: Option<&[u8]>) -> Result<Self, ImportError> {
        if let Some(found) = Self::import_ml_dsa(bytes) {
            return Ok(found?);
        }
        match (Self::import_by_library(bytes, passphrase), look(bytes)) {
            (Ok(key), _) => Ok(key),
            (Err(_), Some(Found::Pkcs8(pkcs8))) => Ok(Self::of_pkcs8(&pkcs8)?),
            (Err(_), Some(Found::Unsupported(found))) => Err(ImportError::Unsupported { found }),
            (Err(error), None) => Err(error.into()),
        }
    }

    /// Reads what AWS-LC reads.
    fn import_by_library(bytes: &[u8], passphrase: Option<&[u8]>) -> Result<Self, NoKey> {
        let secret = passphrase.unwrap_or_default();
        if bytes.windows(11).any(|window| window == b"-----BEGIN ") {
            // The library writes decrypted PEM and reads it again, which an expanded key of ML-DSA does not survive.
            let sealed =
                std::str::from_utf8(bytes).ok().and_then(|text| of_pem("ENCRYPTED PRIVATE KEY", text));
            let found = match sealed {
                Some(sealed) => Key::of_encrypted_pkcs8(&sealed, secret),
                None => Key::of_pem(bytes, secret),
            };
            return Self::of(found.map_err(|_| NoKey)?);
        }
        let plain = Key::of_pkcs8(bytes);
        let found = plain
            .or_else(|no| if secret.is_empty() { Err(no) } else { Key::of_encrypted_pkcs8(bytes, secret) });
        if let Ok(key) = found {
            return Self::of(key);
        }
        let secret = CString::new(secret).map_err(|error| {
            error.into_vec().zeroize();
            NoKey
        })?;
        let found = Key::of_pkcs12(bytes, &secret);
        secret.into_bytes().zeroize();
        Self::of(found.map_err(|_| NoKey)?)
    }

    /// Returns the key as PKCS#8 in DER.
    ///
    /// # Errors
    /// Fails if the library cannot write it.
    pub fn to_pkcs8(&self) -> Result<Zeroizing<Vec<u8>>, NoKey> {
        let pkcs8 = match &self.key {
            Half::Library(key) => key.to_pkcs8().map_err(|_| NoKey)?,
            Half::MlDsa(key) => return Ok(key.to_pkcs8()),
        };
        match self.kind {
            KeyKind::RsaPss { .. } => private_for_pss(self.kind, &pkcs8).ok_or(NoKey),
            _ => Ok(pkcs8),
        }
    }

    /// Returns its form for the kernels that compute several at once, if they have such keys.
    pub(crate) fn for_kernels(&self) -> Option<&KernelKey> {
        self.for_kernels.get_or_init(|| self.to_kernels()).as_ref()
    }

    /// Returns the signing of a representative by ML-DSA in their form, if the key and the content are for it.
    pub(crate) fn ml_dsa_signing(&self, mu: &[u8], is_deterministic: bool) -> Option<AsymmetricOperation> {
        let Half::MlDsa(key) = &self.key else { return None };
        key.signing(mu.try_into().ok()?, is_deterministic)
    }

    fn to_kernels(&self) -> Option<KernelKey> {
        let Half::Library(key) = &self.key else { return None };
        if self.kind.modulus_bits().is_some() {
            let der = key.to_pkcs8().ok()?;
            return Some(KernelKey::Rsa(Arc::new(RsaPrivateKey::from_der(&der).ok()?)));
        }
        let raw = library::raw_private(key).ok()?;
        let raw: &[u8; 32] = raw.as_slice().try_into().ok()?;
        match self.kind {
            KeyKind::P256 => Some(KernelKey::P256(Arc::new(P256PrivateKey::new(raw).ok()?))),
            KeyKind::Ed25519 => Some(KernelKey::Ed25519(Arc::new(Ed25519Key::from_seed(raw)))),
            KeyKind::X25519 => Some(KernelKey::X25519(Arc::new(X25519Key::new(raw)))),
            KeyKind::P384
            | KeyKind::P521
            | KeyKind::Rsa { .. }
            | KeyKind::RsaPss { .. }
            | KeyKind::MlDsa(_) => None,
        }
    }

    /// Returns the algorithm, with the length of an RSA key and its limits.
    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// Returns its public half, a SubjectPublicKeyInfo in DER.
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    /// Applies the bare RSA function (RFC 8017, 5.2.1) to a block that is as long as the modulus. It signs and decrypts
    /// alike, so the service has no such operation.
    ///
    /// # Errors
    /// Fails with [`Status::WrongKind`] or [`Status::BadContent`].
    pub fn run_bare(&self, block: &[u8]) -> Answer {
        let (Half::Library(key), KeyKind::Rsa { .. }) = (&self.key, self.kind) else {
            return Err(Status::WrongKind);
        };
        key.sign(Some(Padding::None), block).map_err(|_| Status::BadContent)
    }

    /// Returns the result of `operation` on `content`. [`Operation::Null`] returns the content.
    ///
    /// # Errors
    /// Fails with a status other than [`Status::Done`].
    pub fn run(&self, operation: Operation, content: &[u8]) -> Answer {
        if !operation.suits(self.kind) {
            return Err(Status::WrongKind);
        }
        let is_digest = match operation {
            Operation::SignPkcs1(Some(hash)) | Operation::SignPss { hash, .. } => {
                content.len() == hash.bytes()
            }
            Operation::SignEcdsa => (1..=64).contains(&content.len()),
            _ => true,
        };
        if !is_digest {
            return Err(Status::BadContent);
        }
        let bad_content = |_| Status::BadContent;
        let own = match (&self.key, operation) {
            (Half::MlDsa(key), Operation::SignMlDsa { is_deterministic }) => {
                return key.sign(content, is_deterministic);
            }
            (Half::MlDsa(_), Operation::Null) => return Ok(Zeroizing::new(content.to_vec())),
            (Half::MlDsa(_), _) => return Err(Status::WrongKind),
            (Half::Library(key), _) => key,
        };
        match operation {
            Operation::Null => Ok(Zeroizing::new(content.to_vec())),
            Operation::SignPkcs1(hash) => own.sign(Some(pkcs1(hash)), content).map_err(bad_content),
            Operation::SignPss { hash, mask, salt_bytes } => {
                own.sign(Some(pss(hash, mask, Some(salt_bytes))), content).map_err(bad_content)
            }
            Operation::SignEcdsa => own.sign(None, content).map_err(|_| Status::Failed),
            Operation::SignEd25519 => own.sign_message(content).map_err(|_| Status::Failed),
            Operation::DecryptPkcs1 => own.decrypt(pkcs1(None), content).map_err(|_| Status::NotDecrypted),
            Operation::DecryptOaep { hash, mask } => {
                own.decrypt(oaep(hash, mask), content).map_err(|_| Status::NotDecrypted)
            }
            Operation::Derive => own.derive(content).map_err(bad_content),
            Operation::Seal { .. } | Operation::Open { .. } | Operation::SignMlDsa { .. } => {
                Err(Status::WrongKind)
            }
        }
    }
}
