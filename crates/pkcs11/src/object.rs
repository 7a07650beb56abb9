//! Keys of the service as objects: each is a private key and a public key of the same name. Beside them there are its
//! certificates, and secrets of sessions.
//!
//! **Guarantees:** a handle names the same half of the same key as long as the module is initialised, and no other one
//! afterwards; no attribute has bytes of a private half, because none are here.

use crate::attribute::{flag, identifier, number};
use crate::certificate::Certificate;
use crate::mechanism;
use crate::refused::Refused;
use crate::secret::Secret;
use cryptoki_sys as c;
use sealane_asymmetric::{NoKey, PublicKey, der};
use sealane_client::{Key, KeyInfo, KeyKind, MlDsaSet};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The object identifiers of curves in DER: P-256, P-384 and P-521 (RFC 5480, 2.1.1.1), Ed25519 and X25519 (RFC 8410, 3).
const P256: &[u8] = &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22];
const P521: &[u8] = &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x23];
const ED25519: &[u8] = &[0x06, 0x03, 0x2b, 0x65, 0x70];
const X25519: &[u8] = &[0x06, 0x03, 0x2b, 0x65, 0x6e];

/// The maximum number of secrets of a process.
const SECRETS_MAX: usize = 1024;

/// Returns the kind of key with these parameters of a curve, in DER: an object identifier, or a name of RFC 8032's or RFC 7748's curves.
pub(crate) fn kind_of_curve(parameters: &[u8]) -> Option<KeyKind> {
    match parameters {
        P256 => Some(KeyKind::P256),
        P384 => Some(KeyKind::P384),
        P521 => Some(KeyKind::P521),
        ED25519 | b"\x13\x0cedwards25519" => Some(KeyKind::Ed25519),
        X25519 | b"\x13\x0acurve25519" => Some(KeyKind::X25519),
        _ => None,
    }
}

/// Returns the number of a parameter set of ML-DSA (PKCS#11 3.2).
pub(crate) fn parameter_set(set: MlDsaSet) -> c::CK_ULONG {
    match set {
        MlDsaSet::MlDsa44 => c::CKP_ML_DSA_44,
        MlDsaSet::MlDsa65 => c::CKP_ML_DSA_65,
        MlDsaSet::MlDsa87 => c::CKP_ML_DSA_87,
    }
}

/// The public half as PKCS#11 has it.
#[derive(Debug)]
enum Numbers {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    Curve { parameters: &'static [u8], point: Vec<u8> },
    MlDsa { set: MlDsaSet, value: Vec<u8> },
}

/// A key of the service for which there are mechanisms.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) key: Key,
    numbers: Numbers,
    id: Vec<u8>,
}

impl Content {
    /// Returns `None` for public halves that cannot be read.
    fn of(info: KeyInfo) -> Option<Self> {
        let bits = der::of_public(&info.public)?;
        let curve = |parameters| Numbers::Curve { parameters, point: der::octet_string(bits).to_vec() };
        let numbers = match info.kind {
            KeyKind::Rsa { .. } | KeyKind::RsaPss { .. } => {
                let (modulus, exponent) = der::of_rsa_public(&info.public)?;
                Numbers::Rsa { modulus: modulus.to_vec(), exponent: exponent.to_vec() }
            }
            KeyKind::P256 => curve(P256),
            KeyKind::P384 => curve(P384),
            KeyKind::P521 => curve(P521),
            KeyKind::Ed25519 => curve(ED25519),
            KeyKind::X25519 => curve(X25519),
            KeyKind::MlDsa(set) => Numbers::MlDsa { set, value: bits.to_vec() },
        };
        let id = identifier(bits);
        Some(Self { key: Key { info }, numbers, id })
    }

    pub(crate) fn kind(&self) -> KeyKind {
        self.key.info.kind
    }

    /// Returns the public half for verification.
    pub(crate) fn public(&self) -> Result<PublicKey, NoKey> {
        PublicKey::of_der(&self.key.info.public)
    }

    /// Returns the length of a signature in bytes; for RSA, that of the modulus.
    pub(crate) fn signature_bytes(&self) -> usize {
        match self.kind() {
            KeyKind::Rsa { bits } | KeyKind::RsaPss { bits, .. } => usize::from(bits) / 8,
            KeyKind::P256 | KeyKind::Ed25519 | KeyKind::X25519 => 64,
            KeyKind::P384 => 96,
            KeyKind::P521 => 132,
            KeyKind::MlDsa(set) => set.signature_bytes(),
        }
    }
}

/// The halves of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    Private,
    Public,
}

/// An object: a half of a key.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) content: Arc<Content>,
    pub(crate) half: Half,
}

impl Object {
    /// Returns the value of an attribute.
    ///
    /// # Errors
    /// Fails with `CKR_ATTRIBUTE_SENSITIVE`, or with `CKR_ATTRIBUTE_TYPE_INVALID` if the object has none of this type.
    pub(crate) fn attribute(&self, kind: c::CK_ATTRIBUTE_TYPE) -> Result<Vec<u8>, Refused> {
        let of_half = match self.half {
            Half::Private => self.of_private(kind)?,
            Half::Public => self.of_public(kind),
        };
        of_half
            .or_else(|| self.of_both(kind))
            .or_else(|| self.of_numbers(kind))
            .ok_or(Refused(c::CKR_ATTRIBUTE_TYPE_INVALID))
    }

    fn of_both(&self, kind: c::CK_ATTRIBUTE_TYPE) -> Option<Vec<u8>> {
        let info = &self.content.key.info;
        Some(match kind {
            c::CKA_TOKEN => flag(true),
            // It is visible without a login. The service cannot tell an imported key from one that it made.
            c::CKA_PRIVATE | c::CKA_LOCAL => flag(false),
            c::CKA_MODIFIABLE | c::CKA_COPYABLE | c::CKA_DESTROYABLE => flag(false),
            c::CKA_LABEL => info.name.clone().into_bytes(),
            c::CKA_ID => self.content.id.clone(),
            c::CKA_SUBJECT | c::CKA_START_DATE | c::CKA_END_DATE => Vec::new(),
            c::CKA_PUBLIC_KEY_INFO => info.public.clone(),
            c::CKA_KEY_GEN_MECHANISM => number(c::CK_UNAVAILABLE_INFORMATION),
            c::CKA_ALLOWED_MECHANISMS => {
                mechanism::of_kind(info.kind).flat_map(c::CK_ULONG::to_ne_bytes).collect()
            }
            c::CKA_KEY_TYPE => number(match info.kind {
                KeyKind::Rsa { .. } | KeyKind::RsaPss { .. } => c::CKK_RSA,
                KeyKind::P256 | KeyKind::P384 | KeyKind::P521 => c::CKK_EC,
                KeyKind::Ed25519 => c::CKK_EC_EDWARDS,
                KeyKind::X25519 => c::CKK_EC_MONTGOMERY,
                KeyKind::MlDsa(_) => c::CKK_ML_DSA,
            }),
            _ => return None,
        })
    }

    fn of_private(&self, kind: c::CK_ATTRIBUTE_TYPE) -> Result<Option<Vec<u8>>, Refused> {
        let is_rsa = matches!(self.content.numbers, Numbers::Rsa { .. });
        Ok(Some(match kind {
            c::CKA_CLASS => number(c::CKO_PRIVATE_KEY),
            c::CKA_SENSITIVE => flag(true),
            c::CKA_SIGN => flag(self.content.kind() != KeyKind::X25519),
            c::CKA_DERIVE => flag(mechanism::derives(self.content.kind())),
            c::CKA_DECRYPT => flag(matches!(self.content.kind(), KeyKind::Rsa { .. })),
            // An imported key has been elsewhere before, so that neither can be promised.
            c::CKA_ALWAYS_SENSITIVE | c::CKA_NEVER_EXTRACTABLE => flag(false),
            c::CKA_EXTRACTABLE | c::CKA_ALWAYS_AUTHENTICATE | c::CKA_WRAP_WITH_TRUSTED => flag(false),
            c::CKA_SIGN_RECOVER | c::CKA_UNWRAP => flag(false),
            c::CKA_PRIVATE_EXPONENT
            | c::CKA_PRIME_1
            | c::CKA_PRIME_2
            | c::CKA_EXPONENT_1
            | c::CKA_EXPONENT_2
            | c::CKA_COEFFICIENT
                if is_rsa =>
            {
                return Err(Refused(c::CKR_ATTRIBUTE_SENSITIVE));
            }
            c::CKA_VALUE if !is_rsa => return Err(Refused(c::CKR_ATTRIBUTE_SENSITIVE)),
            c::CKA_SEED if matches!(self.content.numbers, Numbers::MlDsa { .. }) => {
                return Err(Refused(c::CKR_ATTRIBUTE_SENSITIVE));
            }
            _ => return Ok(None),
        }))
    }

    fn of_public(&self, kind: c::CK_ATTRIBUTE_TYPE) -> Option<Vec<u8>> {
        Some(match (kind, &self.content.numbers) {
            (c::CKA_CLASS, _) => number(c::CKO_PUBLIC_KEY),
            (c::CKA_VERIFY, _) => flag(self.content.kind() != KeyKind::X25519),
            (c::CKA_DERIVE, _) => flag(false),
            (c::CKA_ENCRYPT | c::CKA_WRAP | c::CKA_VERIFY_RECOVER | c::CKA_TRUSTED, _) => flag(false),
            (c::CKA_MODULUS_BITS, Numbers::Rsa { modulus, .. }) => number(8 * modulus.len() as c::CK_ULONG),
            (c::CKA_VALUE, Numbers::MlDsa { value, .. }) => value.clone(),
            _ => return None,
        })
    }

    fn of_numbers(&self, kind: c::CK_ATTRIBUTE_TYPE) -> Option<Vec<u8>> {
        match (kind, &self.content.numbers) {
            (c::CKA_MODULUS, Numbers::Rsa { modulus, .. }) => Some(modulus.clone()),
            (c::CKA_PUBLIC_EXPONENT, Numbers::Rsa { exponent, .. }) => Some(exponent.clone()),
            (c::CKA_EC_PARAMS, Numbers::Curve { parameters, .. }) => Some(parameters.to_vec()),
            (c::CKA_EC_POINT, Numbers::Curve { point, .. }) => Some(point.clone()),
            (c::CKA_PARAMETER_SET, Numbers::MlDsa { set, .. }) => Some(number(parameter_set(*set))),
            _ => None,
        }
    }
}

/// An object of any class.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Key(Object),
    Certificate(Arc<Certificate>),
    Secret(Arc<Secret>),
}

impl Item {
    /// Returns the value of an attribute.
    ///
    /// # Errors
    /// As [`Object::attribute`].
    pub(crate) fn attribute(&self, kind: c::CK_ATTRIBUTE_TYPE) -> Result<Vec<u8>, Refused> {
        match self {
            Self::Key(object) => object.attribute(kind),
            Self::Certificate(certificate) => certificate.attribute(kind),
            Self::Secret(secret) => secret.attribute(kind),
        }
    }

    /// Returns whether it has all attributes of a template, each with the same value.
    fn matches(&self, template: &[(c::CK_ATTRIBUTE_TYPE, Vec<u8>)]) -> bool {
        template.iter().all(|(kind, value)| self.attribute(*kind).as_ref() == Ok(value))
    }
}

/// An object or two by its number, which the halves of a key share.
#[derive(Debug)]
enum Entry {
    Key(Arc<Content>),
    Certificate(Arc<Certificate>),
    Secret(c::CK_SESSION_HANDLE, Arc<Secret>),
}

/// The objects of a token and of sessions, by handles.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    by_number: BTreeMap<u64, Entry>,
    last: u64,
    /// The number of secrets.
    secrets: usize,
}

impl Objects {
    /// Takes over the present keys of the service, and certificates by their keys' names. A key that is no longer there, or has
    /// another public half, loses its handles, and so does a certificate that is no longer there.
    pub(crate) fn update(&mut self, keys: Vec<KeyInfo>, chains: BTreeMap<String, Vec<Vec<u8>>>) {
        let mut listed: BTreeMap<String, KeyInfo> =
            keys.into_iter().map(|info| (info.name.clone(), info)).collect();
        let mut certified: BTreeSet<(String, Vec<u8>)> = chains
            .into_iter()
            .filter(|(name, _)| listed.contains_key(name))
            .flat_map(|(name, chain)| chain.into_iter().map(move |der| (name.clone(), der)))
            .collect();
        self.by_number.retain(|_, entry| match entry {
            Entry::Key(content) => {
                let info = &content.key.info;
                let remains = listed.get(&info.name) == Some(info);
                if remains {
                    listed.remove(&info.name);
                }
                remains
            }
            Entry::Certificate(own) => certified.remove(&(own.label.clone(), own.value.clone())),
            Entry::Secret(..) => true,
        });
        for content in listed.into_values().filter_map(Content::of) {
            self.add(Entry::Key(Arc::new(content)));
        }
        for certificate in certified.into_iter().filter_map(|(label, der)| Certificate::of(&label, der)) {
            self.add(Entry::Certificate(Arc::new(certificate)));
        }
    }

    fn add(&mut self, entry: Entry) -> u64 {
        self.last += 1;
        self.by_number.insert(self.last, entry);
        self.last
    }

    /// Adds a secret of a session, and returns its handle.
    pub(crate) fn add_secret(
        &mut self,
        session: c::CK_SESSION_HANDLE,
        secret: Secret,
    ) -> Result<c::CK_OBJECT_HANDLE, Refused> {
        if self.secrets >= SECRETS_MAX {
            return Err(Refused(c::CKR_DEVICE_MEMORY));
        }
        self.secrets += 1;
        Ok(2 * self.add(Entry::Secret(session, Arc::new(secret))))
    }

    /// Destroys a secret. Nothing of the token is destroyed by a program.
    pub(crate) fn destroy(&mut self, handle: c::CK_OBJECT_HANDLE) -> Result<(), Refused> {
        match self.get(handle) {
            Some(Item::Secret(_)) => {
                self.by_number.remove(&(handle / 2));
                self.secrets -= 1;
                Ok(())
            }
            Some(_) => Err(Refused(c::CKR_ACTION_PROHIBITED)),
            None => Err(Refused(c::CKR_OBJECT_HANDLE_INVALID)),
        }
    }

    /// Destroys the secrets of sessions that have ended.
    pub(crate) fn keep_secrets_of(&mut self, is_open: impl Fn(c::CK_SESSION_HANDLE) -> bool) {
        if self.secrets > 0 {
            self.by_number.retain(|_, entry| match entry {
                Entry::Secret(session, _) => is_open(*session),
                Entry::Key(_) | Entry::Certificate(_) => true,
            });
            let left = self.by_number.values().filter(|entry| matches!(entry, Entry::Secret(..)));
            self.secrets = left.count();
        }
    }

    fn all(&self) -> impl Iterator<Item = (c::CK_OBJECT_HANDLE, Item)> {
        let handles = self.by_number.keys().flat_map(|number| [2 * *number, 2 * *number + 1]);
        handles.filter_map(|handle| Some((handle, self.get(handle)?)))
    }

    /// Returns the handles of the objects that match a template.
    pub(crate) fn find(&self, template: &[(c::CK_ATTRIBUTE_TYPE, Vec<u8>)]) -> Vec<c::CK_OBJECT_HANDLE> {
        self.all().filter(|(_, item)| item.matches(template)).map(|(handle, _)| handle).collect()
    }

    pub(crate) fn get(&self, handle: c::CK_OBJECT_HANDLE) -> Option<Item> {
        let is_even = handle.is_multiple_of(2);
        match self.by_number.get(&(handle / 2))? {
            Entry::Key(content) => {
                let half = if is_even { Half::Private } else { Half::Public };
                Some(Item::Key(Object { content: Arc::clone(content), half }))
            }
            Entry::Certificate(certificate) if is_even => Some(Item::Certificate(Arc::clone(certificate))),
            Entry::Secret(_, secret) if is_even => Some(Item::Secret(Arc::clone(secret))),
            Entry::Certificate(_) | Entry::Secret(..) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_asymmetric::PrivateKey;

    fn info(name: &str, kind: KeyKind) -> KeyInfo {
        let public = PrivateKey::generate(kind).unwrap().public().to_vec();
        KeyInfo { name: name.to_owned(), kind, public }
    }

    #[test]
    fn handles_stay_with_their_keys() {
        let (web, mail) = (info("web", KeyKind::P256), info("mail", KeyKind::Ed25519));
        let exchange = info("exchange", KeyKind::X25519);
        let mut objects = Objects::default();
        objects.update(vec![mail.clone(), web.clone(), exchange], BTreeMap::new());
        let named = |objects: &Objects, name: &str| objects.find(&[(c::CKA_LABEL, name.as_bytes().to_vec())]);
        let handles = named(&objects, "web");
        assert_eq!(handles.len(), 2);
        assert_eq!(objects.find(&[]).len(), 6);
        assert_eq!(objects.find(&[(c::CKA_CLASS, number(c::CKO_PRIVATE_KEY))]).len(), 3);
        assert_eq!(objects.find(&[(c::CKA_VALUE, Vec::new())]), []);
        objects.update(vec![web.clone()], BTreeMap::new());
        assert_eq!((named(&objects, "web"), objects.find(&[]).len()), (handles.clone(), 2));
        objects.update(vec![mail, info("web", KeyKind::P256)], BTreeMap::new());
        assert!(named(&objects, "web").iter().all(|handle| !handles.contains(handle)));
        assert!(handles.iter().all(|handle| objects.get(*handle).is_none()));
        assert!(objects.get(0).is_none() && objects.get(u64::MAX).is_none());
    }

    #[test]
    fn private_halves_tell_what_is_public() {
        for kind in [
            KeyKind::Rsa { bits: 2048 },
            KeyKind::RsaPss { bits: 2048, limits: None },
            KeyKind::P384,
            KeyKind::Ed25519,
        ] {
            let content = Arc::new(Content::of(info("key", kind)).unwrap());
            let private = Object { content: Arc::clone(&content), half: Half::Private };
            let public = Object { content, half: Half::Public };
            let secret = if kind.modulus_bits().is_some() { c::CKA_PRIME_1 } else { c::CKA_VALUE };
            assert_eq!(private.attribute(secret), Err(Refused(c::CKR_ATTRIBUTE_SENSITIVE)));
            assert_eq!(public.attribute(secret), Err(Refused(c::CKR_ATTRIBUTE_TYPE_INVALID)));
            assert_eq!(private.attribute(c::CKA_ID), public.attribute(c::CKA_ID));
            assert_eq!(private.attribute(c::CKA_VERIFY), Err(Refused(c::CKR_ATTRIBUTE_TYPE_INVALID)));
            assert_eq!(private.attribute(c::CKA_EXTRACTABLE), Ok(flag(false)));
        }
    }
}
