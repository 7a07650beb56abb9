//! TLS to the server of a queue, which is a program of somebody else's and knows certificates only.
//!
//! * As between ends of ours: TLS 1.3, X25519MLKEM768, Ed25519 keys on both sides, no resumption. There are no hybrid keys:
//!   such a program cannot verify them.
//! * The server's certificate is one that `sealane id --certificate` makes; its key is judged as a daemon's is, by the file of
//!   known peers, before ours is shown.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::CertificateDer;
use rustls::sign::{CertifiedKey, SingleCertAndKey};

use super::PROVIDER;
use super::judge::{Form, Judge};
use crate::address::HostPort;
use crate::error::{ChannelError, PeerError};
use crate::identity::Identity;
use crate::key::PublicKey;
use crate::trust::ServerTrust;

/// TLS to one queue's server, and the verdict on its key.
#[derive(Debug)]
pub struct QueueTls {
    judge: Arc<Judge>,
    identity: Arc<CertifiedKey>,
    key: PublicKey,
}

impl QueueTls {
    /// For the server at this address.
    ///
    /// # Errors
    /// The file of known peers cannot be read, or our key makes no certificate: a hybrid one has none.
    pub fn new(address: HostPort, identity: &Identity, trust: ServerTrust) -> Result<Self, PeerError> {
        let judge = Arc::new(Judge::of_server(Form::Certificate, address, trust)?);
        let certificate = CertificateDer::from(identity.certificate()?);
        let key = identity.public_key();
        let identity = Arc::new(CertifiedKey::new(vec![certificate], identity.certified().key.clone()));
        Ok(Self { judge, identity, key })
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
            .with_custom_certificate_verifier(Arc::clone(&self.judge) as Arc<dyn ServerCertVerifier>)
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
        self.judge.conclude(is_connected)
    }
}
