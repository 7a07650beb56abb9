//! TLS to the server of a queue, which is a program of somebody else's and knows certificates only.
//!
//! * As between ends of ours: TLS 1.3, X25519MLKEM768, Ed25519 keys on both sides, no resumption. There are no hybrid keys:
//!   such a program cannot verify them.
//! * The server's certificate is one that `sealane id --certificate` makes; its key is judged as a daemon's is, by the file of
//!   known peers, before ours is shown.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, SignatureScheme};

use super::{PROVIDER, no_tls12, verify_signature};
use crate::address::HostPort;
use crate::certificate::key_of;
use crate::error::{ChannelError, PeerError};
use crate::identity::Identity;
use crate::key::{PublicKey, ed25519_spki};
use crate::trust::{KnownPeer, KnownPeers, Recognition, ServerTrust};

/// TLS to one queue's server, and the verdict on its key.
#[derive(Debug)]
pub struct QueueTls {
    verifier: Arc<Verifier>,
    identity: Arc<CertifiedKey>,
    key: PublicKey,
}

impl QueueTls {
    /// For the server at this address.
    ///
    /// # Errors
    /// The file of known peers cannot be read, or our key makes no certificate: a hybrid one has none.
    pub fn new(address: HostPort, identity: &Identity, trust: ServerTrust) -> Result<Self, PeerError> {
        let known = trust.file().map(KnownPeers::load).transpose()?.unwrap_or_default();
        let certificate = CertificateDer::from(identity.certificate()?);
        let key = identity.public_key();
        let identity = Arc::new(CertifiedKey::new(vec![certificate], identity.certified().key.clone()));
        let verifier = Arc::new(Verifier { trust, known, address, seen: Mutex::default() });
        Ok(Self { verifier, identity, key })
    }

    /// Our key, whose label the server knows us by.
    #[must_use]
    pub fn key(&self) -> PublicKey {
        self.key
    }

    /// For the client that connects.
    ///
    /// # Errors
    /// The library has not what this takes.
    pub fn config(&self) -> Result<ClientConfig, PeerError> {
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&PROVIDER))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(ChannelError::Tls)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&self.verifier) as Arc<dyn ServerCertVerifier>)
            .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(CertifiedKey::clone(&self.identity))));
        config.resumption = Resumption::disabled();
        Ok(config)
    }

    /// After an attempt to connect: whether the server may be trusted. The key of a new one is noted where that was asked for,
    /// if `is_connected`, so that it has proved to own it.
    ///
    /// # Errors
    /// It is unknown, or another than is known.
    pub fn judge(&self, is_connected: bool) -> Result<(), PeerError> {
        let Verifier { trust, address, seen, .. } = &*self.verifier;
        let address = address.clone();
        let file = || trust.file().map(Into::into).unwrap_or_default();
        match *seen.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((key, Recognition::New)) if is_connected => match trust.file() {
                Some(file) => KnownPeers::append_first(file, &KnownPeer { address, key }),
                None => Ok(()),
            },
            Some((key, Recognition::Unknown)) => Err(PeerError::UnknownServer { address, key, file: file() }),
            Some((found, Recognition::Mismatch(known))) => {
                let place = file().display().to_string().into();
                Err(PeerError::WrongServer { address, found, known, place })
            }
            _ => Ok(()),
        }
    }
}

/// Judges the server's key, the same one whenever the client connects again.
#[derive(Debug)]
struct Verifier {
    trust: ServerTrust,
    known: KnownPeers,
    address: HostPort,
    seen: Mutex<Option<(PublicKey, Recognition)>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let key = key_of(end_entity).ok_or(CertificateError::BadEncoding)?;
        let verdict = self.trust.judge(&self.known, &self.address, &key);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (first, verdict) = *seen.get_or_insert((key, verdict));
        match verdict {
            Recognition::Known | Recognition::New if first == key => Ok(ServerCertVerified::assertion()),
            _ => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = key_of(cert).ok_or(CertificateError::BadEncoding)?;
        let key = key.ed25519().ok_or(CertificateError::BadEncoding)?;
        verify_signature(message, &CertificateDer::from(ed25519_spki(key).to_vec()), dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}
