//! A key in OpenSSL's hands: the public half, and a private half that is here, in the service, or nowhere.

use crate::engine::EngineKey;
use crate::reason::Reason;
use sealane_asymmetric::{PrivateKey, PublicKey};
use sealane_client::{KeyKind, MlDsaSet, Operation, Uri};
use std::ffi::CStr;
use std::sync::OnceLock;
use zeroize::Zeroizing;

/// OpenSSL's types of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Family {
    Rsa = 0,
    Ec = 1,
    Ed25519 = 2,
    X25519 = 3,
    RsaPss = 4,
    MlDsa44 = 5,
    MlDsa65 = 6,
    MlDsa87 = 7,
}

impl Family {
    pub(crate) fn of_number(number: u8) -> Self {
        match number {
            0 => Self::Rsa,
            1 => Self::Ec,
            2 => Self::Ed25519,
            3 => Self::X25519,
            4 => Self::RsaPss,
            5 => Self::MlDsa44,
            6 => Self::MlDsa65,
            _ => Self::MlDsa87,
        }
    }

    pub(crate) fn of_kind(kind: KeyKind) -> Self {
        match kind {
            KeyKind::Rsa { .. } => Self::Rsa,
            KeyKind::RsaPss { .. } => Self::RsaPss,
            KeyKind::P256 | KeyKind::P384 | KeyKind::P521 => Self::Ec,
            KeyKind::Ed25519 => Self::Ed25519,
            KeyKind::X25519 => Self::X25519,
            KeyKind::MlDsa(MlDsaSet::MlDsa44) => Self::MlDsa44,
            KeyKind::MlDsa(MlDsaSet::MlDsa65) => Self::MlDsa65,
            KeyKind::MlDsa(MlDsaSet::MlDsa87) => Self::MlDsa87,
        }
    }

    pub(crate) fn name(self) -> &'static CStr {
        match self {
            Self::Rsa => c"RSA",
            Self::RsaPss => c"RSA-PSS",
            Self::Ec => c"EC",
            Self::Ed25519 => c"ED25519",
            Self::X25519 => c"X25519",
            Self::MlDsa44 => c"ML-DSA-44",
            Self::MlDsa65 => c"ML-DSA-65",
            Self::MlDsa87 => c"ML-DSA-87",
        }
    }

    /// Returns its parameter set, if it is a family of ML-DSA.
    pub(crate) fn ml_dsa(self) -> Option<MlDsaSet> {
        match self {
            Self::MlDsa44 => Some(MlDsaSet::MlDsa44),
            Self::MlDsa65 => Some(MlDsaSet::MlDsa65),
            Self::MlDsa87 => Some(MlDsaSet::MlDsa87),
            Self::Rsa | Self::RsaPss | Self::Ec | Self::Ed25519 | Self::X25519 => None,
        }
    }
}

/// The place of the private half.
#[derive(Debug)]
pub(crate) enum Private {
    Nowhere,
    Engine(EngineKey),
    Own(PrivateKey),
}

/// A key.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) kind: KeyKind,
    pub(crate) public: PublicKey,
    pub(crate) private: Private,
}

impl Content {
    pub(crate) fn of_public(der: &[u8]) -> Result<Self, Reason> {
        let public = PublicKey::of_der(der).map_err(|_| Reason::NoKey)?;
        Ok(Self { kind: public.kind(), public, private: Private::Nowhere })
    }

    pub(crate) fn of_private(key: PrivateKey) -> Result<Self, Reason> {
        let public = Self::of_public(key.public())?;
        Ok(Self { private: Private::Own(key), ..public })
    }

    /// Opens a key of the service.
    pub(crate) fn of_uri(uri: &Uri) -> Result<Self, Reason> {
        let key = EngineKey::open(uri)?;
        let public = Self::of_public(&key.key.info.public)?;
        Ok(Self { private: Private::Engine(key), ..public })
    }

    pub(crate) fn has_private(&self) -> bool {
        !matches!(self.private, Private::Nowhere)
    }

    /// Returns the result of an operation of the private half on `content`.
    pub(crate) fn run(&self, operation: Operation, content: &[u8]) -> Result<Zeroizing<Vec<u8>>, Reason> {
        match &self.private {
            Private::Nowhere => Err(Reason::NoPrivateKey),
            Private::Engine(key) => key.call(operation, content),
            Private::Own(key) => key.run(operation, content).map_err(Reason::from),
        }
    }

    /// Returns the result of the bare RSA function on a block. The service has no such operation.
    pub(crate) fn run_bare(&self, block: &[u8]) -> Result<Zeroizing<Vec<u8>>, Reason> {
        match &self.private {
            Private::Nowhere => Err(Reason::NoPrivateKey),
            Private::Engine(_) => Err(Reason::NotAllowed),
            Private::Own(key) => key.run_bare(block).map_err(Reason::from),
        }
    }

    /// Returns the maximum length of a signature or a secret.
    pub(crate) fn size(&self) -> usize {
        size(self.kind)
    }
}

/// Returns the length of a key in bits, in OpenSSL's count.
pub(crate) fn bits(kind: KeyKind) -> u32 {
    match kind {
        KeyKind::Rsa { bits } | KeyKind::RsaPss { bits, .. } => bits.into(),
        KeyKind::P256 | KeyKind::Ed25519 => 256,
        KeyKind::P384 => 384,
        KeyKind::P521 => 521,
        KeyKind::X25519 => 253,
        // As OpenSSL counts: the bytes of the public key.
        KeyKind::MlDsa(set) => 8 * set.public_bytes() as u32,
    }
}

/// Returns the strength by NIST SP 800-57, part 1, table 2, in OpenSSL's count.
pub(crate) fn security_bits(kind: KeyKind) -> u32 {
    match kind {
        KeyKind::Rsa { bits } | KeyKind::RsaPss { bits, .. } => match bits {
            7680.. => 192,
            4096.. => 152,
            3072.. => 128,
            _ => 112,
        },
        KeyKind::P256 | KeyKind::Ed25519 | KeyKind::X25519 | KeyKind::MlDsa(MlDsaSet::MlDsa44) => 128,
        KeyKind::P384 | KeyKind::MlDsa(MlDsaSet::MlDsa65) => 192,
        KeyKind::P521 | KeyKind::MlDsa(MlDsaSet::MlDsa87) => 256,
    }
}

/// Returns the maximum length of a signature or a secret.
pub(crate) fn size(kind: KeyKind) -> usize {
    match kind {
        KeyKind::Rsa { bits } | KeyKind::RsaPss { bits, .. } => usize::from(bits) / 8,
        KeyKind::P256 => 72,
        KeyKind::P384 => 104,
        KeyKind::P521 => 139,
        KeyKind::Ed25519 => 64,
        KeyKind::X25519 => 32,
        KeyKind::MlDsa(set) => set.signature_bytes(),
    }
}

/// An object that OpenSSL makes before its content is known.
#[derive(Debug)]
pub(crate) struct KeyBox {
    pub(crate) family: Family,
    /// The kind, where it is known before the content: the parameters of a curve.
    kind: Option<KeyKind>,
    content: OnceLock<Content>,
}

impl KeyBox {
    pub(crate) fn new(family: Family) -> Self {
        let kind = match family {
            Family::Rsa | Family::RsaPss | Family::Ec => None,
            Family::Ed25519 => Some(KeyKind::Ed25519),
            Family::X25519 => Some(KeyKind::X25519),
            Family::MlDsa44 | Family::MlDsa65 | Family::MlDsa87 => family.ml_dsa().map(KeyKind::MlDsa),
        };
        Self { family, kind, content: OnceLock::new() }
    }

    /// Makes an object that has a kind, and gets its public half later.
    pub(crate) fn of_kind(kind: KeyKind) -> Self {
        Self { kind: Some(kind), ..Self::new(Family::of_kind(kind)) }
    }

    pub(crate) fn of(content: Content) -> Self {
        let empty = Self::of_kind(content.kind);
        Self { content: content.into(), ..empty }
    }

    /// # Errors
    /// Fails if there is a key already, or if the key is of another family.
    pub(crate) fn fill(&self, content: Content) -> Result<(), Reason> {
        if Family::of_kind(content.kind) != self.family {
            return Err(Reason::Unsupported);
        }
        self.content.set(content).map_err(|_| Reason::NoKey)
    }

    pub(crate) fn content(&self) -> Result<&Content, Reason> {
        self.content.get().ok_or(Reason::NoKey)
    }

    /// Returns the kind of the key, or of the key that will be here.
    pub(crate) fn kind(&self) -> Result<KeyKind, Reason> {
        self.content.get().map(|content| content.kind).or(self.kind).ok_or(Reason::NoKey)
    }
}
