//! The server's half: admits the keys in a list and tells everyone else that they are not.

use std::io::Read;
use std::net::TcpStream;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, ServerConfig, ServerConnection,
    SignatureScheme,
};

use super::{ALPN, PROVIDER, facts, handshake, no_tls12, raw_key, signature_schemes, verify_signature, wire};
use crate::channel::{Channel, PeerName, Wire, now_or_never};
use crate::error::{ChannelError, PeerError};
use crate::identity::Identity;
use crate::key::PublicKey;
use crate::trust::{AuthorisedPeer, AuthorisedPeers};

/// How long a refused client is listened to, so that it can read why.
const LINGER: Duration = Duration::from_secs(1);
/// What a refused client may send meanwhile.
const LINGER_BYTES: usize = 64 << 10;

/// Takes a TCP connection whose first byte says TLS, and authenticates both ends.
///
/// # Errors
/// The client is not authorised, does not speak our protocol, or the deadline passed.
pub fn accept_tls(
    stream: TcpStream,
    identity: &Identity,
    authorised: Arc<AuthorisedPeers>,
    deadline: Instant,
) -> Result<(Channel, AuthorisedPeer), PeerError> {
    let verifier = Arc::new(ClientVerifier { authorised, seen: OnceLock::new() });
    let mut config = ServerConfig::builder_with_provider(Arc::clone(&PROVIDER))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(ChannelError::Tls)?
        .with_client_cert_verifier(Arc::clone(&verifier) as Arc<dyn ClientCertVerifier>)
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(identity.certified())));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;

    let (from, mut wire) = wire(stream).map_err(ChannelError::io("preparing a connection"))?;
    let connection = ServerConnection::new(Arc::new(config)).map_err(ChannelError::Tls)?;
    let mut connection = rustls::Connection::from(connection);
    let ours = identity.public_key();
    let shaken = handshake(&wire, &mut connection, ours, deadline);
    let admitted = verifier.seen.get().map(|key| (*key, verifier.authorised.find(key)));
    match (shaken, admitted) {
        (Ok(()), Some((key, Some(entry)))) => {
            let facts = facts(&connection, key);
            let peer = PeerName::Client { name: entry.name.clone(), from };
            Ok((Channel::over_tls(wire, connection, ours, peer, from, facts), entry.clone()))
        }
        (shaken, admitted) => {
            linger(&mut wire, deadline);
            match (shaken, admitted) {
                (_, Some((key, None))) => Err(PeerError::NotAuthorised { key }),
                (Err(error), _) => Err(error.into()),
                // A handshake without a key to judge does not exist in this configuration.
                (Ok(()), _) => Err(ChannelError::WrongProtocol.into()),
            }
        }
    }
}

/// Closes our half and reads on for a moment: closing at once over unread bytes would reset the connection, and the
/// alert that explains the refusal would be lost on its way.
fn linger(wire: &mut Wire, deadline: Instant) {
    wire.shutdown_write();
    let deadline = deadline.min(Instant::now() + LINGER);
    let mut chunk = [0; 4096];
    let mut left = LINGER_BYTES;
    while left > 0 && Instant::now() < deadline {
        match now_or_never(|| (&*wire).read(&mut chunk)) {
            Ok(Some(0)) | Err(_) => return,
            Ok(Some(n)) => left = left.saturating_sub(n),
            Ok(None) => {
                if wire.wait(true, false, None, deadline).is_err() {
                    return;
                }
            }
        }
    }
}

/// Judges one client's key, once.
#[derive(Debug)]
struct ClientVerifier {
    authorised: Arc<AuthorisedPeers>,
    seen: OnceLock<PublicKey>,
}

impl ClientCertVerifier for ClientVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let key = raw_key(end_entity, intermediates)?;
        // One handshake shows one key; what is reported must be what was judged.
        if self.seen.set(key).is_ok() && self.authorised.find(&key).is_some() {
            Ok(ClientCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
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
        verify_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        signature_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
