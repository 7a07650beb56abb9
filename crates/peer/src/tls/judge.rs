//! The one judge of the other end's key, for a client, for a server, and for the client of a queue. What differs is who is trusted,
//! and the form in which the key is shown.
//!
//! **Guarantees:** a key is accepted only if those who are trusted have it, or may be added to; the first key that is shown is the
//! one that is judged and reported, and another is refused, on later connections of a queue's client too; whoever shows a key has
//! signed the handshake with all of it, by the one scheme of its kind; of TLS 1.2 nothing is accepted.

use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::verify_tls13_signature_with_raw_key;
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, SignatureScheme};

use super::PROVIDER;
use crate::address::HostPort;
use crate::certificate::key_of;
use crate::composite::CompositePublicKey;
use crate::error::PeerError;
use crate::key::{PublicKey, ed25519_spki};
use crate::proof::COMPOSITE;
use crate::trust::{AuthorisedPeers, KnownPeer, KnownPeers, Recognition, ServerTrust};

/// The form in which the other end shows its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Bare (RFC 7250), and alone.
    Raw,
    /// In a certificate, as programs of somebody else's know it. It is of Ed25519.
    Certificate,
}

/// Those who are trusted.
#[derive(Debug)]
enum Trusted {
    /// One server, at its address.
    Server(KnownServer),
    /// The clients in a list.
    Clients(Arc<AuthorisedPeers>),
}

/// A server at an address, by what is known of it.
#[derive(Debug)]
struct KnownServer {
    address: HostPort,
    trust: ServerTrust,
    known: KnownPeers,
}

/// Judges the key of one other end.
#[derive(Debug)]
pub(super) struct Judge {
    form: Form,
    trusted: Trusted,
    seen: OnceLock<(PublicKey, Recognition)>,
}

impl Judge {
    /// Makes the judge of the server at an address, as the file of known peers has it now.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn of_server(form: Form, address: HostPort, trust: ServerTrust) -> Result<Self, PeerError> {
        let known = trust.file().map(KnownPeers::load).transpose()?.unwrap_or_default();
        Ok(Self::new(form, Trusted::Server(KnownServer { address, trust, known })))
    }

    /// Makes the judge of a client, who must be in the list.
    pub(super) fn of_clients(authorised: Arc<AuthorisedPeers>) -> Self {
        Self::new(Form::Raw, Trusted::Clients(authorised))
    }

    fn new(form: Form, trusted: Trusted) -> Self {
        Self { form, trusted, seen: OnceLock::new() }
    }

    /// Returns the key that was shown, accepted or not.
    pub(super) fn seen(&self) -> Option<PublicKey> {
        self.seen.get().map(|(key, _)| *key)
    }

    /// Concludes an attempt to reach a server: says why it is not trusted, or notes a new one's key where that was asked for, if it
    /// has proved to own the key.
    ///
    /// # Errors
    /// The server is unknown, or another than is known, or its key cannot be noted.
    pub(super) fn conclude(&self, has_proved: bool) -> Result<(), PeerError> {
        let Trusted::Server(KnownServer { address, trust, .. }) = &self.trusted else { return Ok(()) };
        let address = address.clone();
        match self.seen.get().copied() {
            Some((key, Recognition::New)) if has_proved => match trust.file() {
                Some(file) => KnownPeers::append_first(file, &KnownPeer { address, key }),
                None => Ok(()),
            },
            Some((key, Recognition::Unknown)) => {
                let file = trust.file().map(Into::into).unwrap_or_default();
                Err(PeerError::UnknownServer { address, key, file })
            }
            Some((found, Recognition::Mismatch(known))) => {
                let place =
                    trust.file().map_or_else(|| "the command line".into(), |file| file.display().to_string());
                Err(PeerError::WrongServer { address, found, known, place: place.into() })
            }
            Some((_, Recognition::New | Recognition::Known)) | None => Ok(()),
        }
    }

    /// Returns the key that is shown.
    fn shown(
        &self,
        end_entity: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
    ) -> Result<PublicKey, rustls::Error> {
        let key = match (self.form, rest) {
            (Form::Raw, []) => PublicKey::from_spki(end_entity),
            (Form::Raw, _) => None,
            // Whoever signed the certificate is not asked.
            (Form::Certificate, _) => key_of(end_entity),
        };
        key.ok_or_else(|| CertificateError::BadEncoding.into())
    }

    fn judge(
        &self,
        end_entity: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
    ) -> Result<(), rustls::Error> {
        let key = self.shown(end_entity, rest)?;
        let (first, verdict) = self.seen.get_or_init(|| {
            let verdict = match &self.trusted {
                Trusted::Server(KnownServer { address, trust, known }) => trust.judge(known, address, &key),
                Trusted::Clients(list) if list.find(&key).is_some() => Recognition::Known,
                Trusted::Clients(_) => Recognition::Unknown,
            };
            (key, verdict)
        });
        match verdict {
            Recognition::Known | Recognition::New if *first == key => Ok(()),
            _ => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_signature(
        &self,
        message: &[u8],
        end_entity: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        match self.form {
            Form::Raw => verify_signature(message, end_entity, signature),
            Form::Certificate => {
                let key = self.shown(end_entity, &[])?;
                let key = key.ed25519().ok_or(CertificateError::BadEncoding)?;
                verify_signature(message, &CertificateDer::from(ed25519_spki(key).to_vec()), signature)
            }
        }
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        match self.form {
            Form::Raw => vec![COMPOSITE, SignatureScheme::ED25519],
            Form::Certificate => vec![SignatureScheme::ED25519],
        }
    }
}

/// Checks that the other end owns the key it shows: all of it, by the one scheme of its kind.
fn verify_signature(
    message: &[u8],
    key: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, rustls::Error> {
    let bad = || Err(CertificateError::BadSignature.into());
    match (CompositePublicKey::from_spki(key), signature.scheme) {
        (Some(key), COMPOSITE) => match key.has_signed(message, signature.signature()) {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => bad(),
        },
        (None, SignatureScheme::ED25519) => verify_tls13_signature_with_raw_key(
            message,
            &SubjectPublicKeyInfoDer::from(key.as_ref()),
            signature,
            &PROVIDER.signature_verification_algorithms,
        ),
        _ => bad(),
    }
}

/// Returns the error for TLS 1.2, which is not compiled in; if it were, this would refuse it.
pub(super) fn no_tls12() -> rustls::Error {
    rustls::Error::PeerIncompatible(rustls::PeerIncompatible::Tls12NotOffered)
}

/// The methods that rustls wants of the judges of both ends.
macro_rules! signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Err(no_tls12())
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            end_entity: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            self.verify_signature(message, end_entity, signature)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.schemes()
        }

        fn requires_raw_public_keys(&self) -> bool {
            self.form == Form::Raw
        }
    };
}

impl ServerCertVerifier for Judge {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.judge(end_entity, intermediates).map(|()| ServerCertVerified::assertion())
    }

    signatures!();
}

impl ClientCertVerifier for Judge {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.judge(end_entity, intermediates).map(|()| ClientCertVerified::assertion())
    }

    signatures!();
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::identity::Identity;

    /// Accepts the server with this key and no other.
    pub(in crate::tls) fn of_server(key: &PublicKey) -> Judge {
        let address = HostPort { host: "test".into(), port: 1 };
        Judge::of_server(Form::Raw, address, ServerTrust::exactly(*key)).unwrap()
    }

    /// Admits the client with this key and no other.
    pub(in crate::tls) fn of_client(key: &PublicKey) -> Judge {
        let authorised = AuthorisedPeers::parse(format!("{key} a rights=read").as_bytes()).unwrap();
        Judge::of_clients(Arc::new(authorised))
    }

    fn raw(identity: &Identity) -> CertificateDer<'static> {
        CertificateDer::from(ed25519_spki(identity.public_key().ed25519().unwrap()).to_vec())
    }

    #[test]
    fn a_judge_accepts_one_key_in_one_form() {
        let (own, other) = (Identity::generate().unwrap(), Identity::generate().unwrap());
        let certificate = |identity: &Identity| CertificateDer::from(identity.certificate().unwrap());
        let (key, address) = (own.public_key(), HostPort { host: "test".into(), port: 1 });
        for make in [of_server, of_client] {
            let judge = make(&key);
            judge.judge(&certificate(&own), &[]).unwrap_err();
            judge.judge(&raw(&own), &[raw(&own)]).unwrap_err();
            assert_eq!(judge.seen(), None);
            judge.judge(&raw(&own), &[]).unwrap();
            judge.judge(&raw(&other), &[]).unwrap_err();
            judge.judge(&raw(&own), &[]).unwrap();
            assert_eq!(judge.seen(), Some(key));
            // The first key is the judged one, whatever follows it.
            let judge = make(&key);
            judge.judge(&raw(&other), &[]).unwrap_err();
            judge.judge(&raw(&own), &[]).unwrap_err();
            assert_eq!(judge.seen(), Some(other.public_key()));
        }
        let judge = Judge::of_server(Form::Certificate, address, ServerTrust::exactly(key)).unwrap();
        judge.judge(&raw(&own), &[]).unwrap_err();
        judge.judge(&certificate(&own), &[certificate(&other)]).unwrap();
        judge.judge(&certificate(&other), &[]).unwrap_err();
        assert!(!ServerCertVerifier::requires_raw_public_keys(&judge));
    }
}
