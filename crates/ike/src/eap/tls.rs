//! EAP-TLS: both ends prove themselves with certificates (RFC 5216 over TLS 1.2; RFC 9190 over TLS 1.3).
//!
//! Guarantees: rustls implements TLS itself; certificates are judged as those of IKE are, within the handshake; a
//! server accepts a user only with a certificate that contains the name which the user gave; no session is resumed; a
//! message in fragments has at most [`MAX_TLS_BYTES`] bytes.

use std::{
    fmt,
    io::{Cursor, Read as _, Write as _},
    sync::{Arc, LazyLock},
    time::Duration,
};

use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, DistinguishedName, ProtocolVersion,
    ServerConfig, ServerConnection, SignatureScheme,
    client::{
        Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, aws_lc_rs as provider, verify_tls12_signature, verify_tls13_signature},
    server::{
        NoServerSessionStorage,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    sign::{CertifiedKey, SingleCertAndKey},
    version::{TLS12, TLS13},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use zeroize::Zeroizing;

use super::{Step, has_user};
use crate::{
    certificate::Authorities,
    crypto::{prf::Secret, sign::KeyError},
    identity::Identity,
};

/// Longest message that is assembled from fragments.
const MAX_TLS_BYTES: usize = 65_536;
/// Bytes of TLS that we put into one packet; every implementation of EAP accepts this size.
const FRAGMENT_BYTES: usize = 1024;

const FLAG_LENGTH: u8 = 0x80;
const FLAG_MORE: u8 = 0x40;
const FLAG_START: u8 = 0x20;

/// The data that a server of TLS 1.3 sends when it has accepted the client (RFC 9190, section 2.1.1).
const COMMITMENT: [u8; 1] = [0];

/// Hybrid key exchanges are left out: the surrounding IKE has its own, and they would make the first message two
/// packets long.
static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| {
    let kx_groups =
        vec![provider::kx_group::X25519, provider::kx_group::SECP256R1, provider::kx_group::SECP384R1];
    Arc::new(CryptoProvider { kx_groups, ..provider::default_provider() })
});

/// A key with its certificate, for TLS.
#[derive(Clone)]
pub struct TlsIdentity(Arc<CertifiedKey>);

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsIdentity")
    }
}

impl TlsIdentity {
    /// Takes a private key, PKCS #8 in DER, and its certificate with those that lead to an authority, in DER.
    ///
    /// # Errors
    /// Fails if the key is not of a kind that signs here, or if there is no certificate.
    pub fn new(pkcs8: &[u8], certificates: &[Vec<u8>]) -> Result<Self, KeyError> {
        if certificates.is_empty() {
            return Err(KeyError);
        }
        let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pkcs8));
        let key = provider::sign::any_supported_type(&der).map_err(|_| KeyError)?;
        let chain = certificates.iter().map(|der| CertificateDer::from(der.clone())).collect();
        Ok(Self(Arc::new(CertifiedKey::new(chain, key))))
    }
}

/// Our certificate, and the authorities for the other end's.
#[derive(Clone, Debug)]
pub struct EapTls {
    /// Our key and certificate.
    pub identity: TlsIdentity,
    /// The authorities that vouch for the other end.
    pub authorities: Arc<Authorities>,
}

/// Judges the other end's certificates at a given time.
#[derive(Debug)]
struct Judge {
    authorities: Arc<Authorities>,
    /// The identity that the other end must have, if it is known at this point.
    expected: Option<Identity>,
    unix_time: Duration,
    subjects: Vec<DistinguishedName>,
}

impl Judge {
    fn new(config: &EapTls, expected: Option<Identity>, unix_time: Duration) -> Self {
        let subjects = config.authorities.subjects().map(DistinguishedName::in_sequence).collect();
        Self { authorities: config.authorities.clone(), expected, unix_time, subjects }
    }

    fn judge(&self, end: &CertificateDer<'_>, others: &[CertificateDer<'_>]) -> Result<(), rustls::Error> {
        let certificates: Vec<&[u8]> = std::iter::once(end).chain(others).map(|der| &**der).collect();
        let judged = match &self.expected {
            Some(identity) => self.authorities.verify(&certificates, identity, self.unix_time).map(|_| ()),
            None => self.authorities.verify_anybody(&certificates, self.unix_time),
        };
        judged.map_err(rustls::Error::General)
    }
}

macro_rules! signatures_by_the_provider {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            let algorithms = &PROVIDER.signature_verification_algorithms;
            verify_tls12_signature(message, certificate, signature, algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            let algorithms = &PROVIDER.signature_verification_algorithms;
            verify_tls13_signature(message, certificate, signature, algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            PROVIDER.signature_verification_algorithms.supported_schemes()
        }
    };
}

impl ServerCertVerifier for Judge {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.judge(end, others).map(|()| ServerCertVerified::assertion())
    }

    signatures_by_the_provider!();
}

impl ClientCertVerifier for Judge {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.subjects
    }

    fn verify_client_cert(
        &self,
        end: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.judge(end, others).map(|()| ClientCertVerified::assertion())
    }

    signatures_by_the_provider!();
}

/// One end of a TLS handshake, in packets of EAP.
pub(super) struct Tls {
    connection: Connection,
    /// The fragments of a message received so far.
    incoming: Vec<u8>,
    /// The bytes that are still to be sent.
    outgoing: Vec<u8>,
    sent: usize,
    rounds: u16,
    /// Whether the server has said that it accepts the client.
    is_committed: bool,
    /// The reason why the handshake failed, while the alert to the other end is under way.
    problem: Option<String>,
}

impl Tls {
    fn new(connection: impl Into<Connection>) -> Self {
        Self {
            connection: connection.into(),
            incoming: Vec::new(),
            outgoing: Vec::new(),
            sent: 0,
            rounds: 0,
            is_committed: false,
            problem: None,
        }
    }

    /// Returns a server, and the data of its first request.
    pub(super) fn server(config: &EapTls, unix_time: Duration) -> Result<(Self, Vec<u8>), String> {
        let judge = Arc::new(Judge::new(config, None, unix_time));
        let made = ServerConfig::builder_with_provider(PROVIDER.clone())
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map(|builder| {
                let key = SingleCertAndKey::from(config.identity.0.clone());
                builder.with_client_cert_verifier(judge).with_cert_resolver(Arc::new(key))
            });
        let connection = made.and_then(|mut config| {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
            config.max_early_data_size = 0;
            ServerConnection::new(Arc::new(config))
        });
        let connection = connection.map_err(|error| format!("TLS: {error}"))?;
        Ok((Self::new(connection), vec![FLAG_START]))
    }

    /// Returns a client that answers a server's first request.
    pub(super) fn client(
        config: &EapTls,
        server: &Identity,
        data: &[u8],
        unix_time: Duration,
    ) -> Result<(Self, Vec<u8>), String> {
        if data.first().is_none_or(|flags| flags & FLAG_START == 0) {
            return Err("the server does not begin EAP-TLS as it should".to_owned());
        }
        let judge = Arc::new(Judge::new(config, Some(server.clone()), unix_time));
        let made = ClientConfig::builder_with_provider(PROVIDER.clone())
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map(|builder| {
                let key = SingleCertAndKey::from(config.identity.0.clone());
                let builder = builder.dangerous().with_custom_certificate_verifier(judge);
                builder.with_client_cert_resolver(Arc::new(key))
            });
        let connection = made.and_then(|mut config| {
            config.resumption = Resumption::disabled();
            // The names in the certificate are judged by our own code, and the server's name is not disclosed to
            // others.
            config.enable_sni = false;
            let name = ServerName::try_from("server").expect("a name");
            ClientConnection::new(Arc::new(config), name)
        });
        let connection = connection.map_err(|error| format!("TLS: {error}"))?;
        let mut tls = Self::new(connection);
        tls.flush()?;
        let answer = tls.next_fragment();
        Ok((tls, answer))
    }

    /// Returns whether the other end has not answered yet.
    pub(super) fn is_fresh(&self) -> bool {
        self.rounds == 0
    }

    /// Collects the bytes that TLS wants to send.
    fn flush(&mut self) -> Result<(), String> {
        self.outgoing.clear();
        self.sent = 0;
        while self.connection.wants_write() {
            self.connection.write_tls(&mut self.outgoing).map_err(|error| format!("TLS: {error}"))?;
        }
        Ok(())
    }

    fn has_more(&self) -> bool {
        self.sent < self.outgoing.len()
    }

    /// Returns the data of the next packet; if nothing is to be sent, a bare acknowledgement.
    fn next_fragment(&mut self) -> Vec<u8> {
        let rest = &self.outgoing[self.sent..];
        let part = &rest[..rest.len().min(FRAGMENT_BYTES)];
        let is_cut = part.len() < rest.len();
        let mut data = vec![if is_cut { FLAG_MORE } else { 0 }];
        if self.sent == 0 && is_cut {
            data[0] |= FLAG_LENGTH;
            let total = u32::try_from(self.outgoing.len()).expect("a handshake is far shorter");
            data.extend(total.to_be_bytes());
        }
        data.extend(part);
        self.sent += part.len();
        data
    }

    /// Takes a packet's data. Returns whether the message is complete.
    fn assemble(&mut self, data: &[u8]) -> Result<bool, String> {
        let malformed = || "its EAP-TLS packet is malformed".to_owned();
        let (&flags, mut part) = data.split_first().ok_or_else(malformed)?;
        if flags & FLAG_LENGTH != 0 {
            part = part.get(4..).ok_or_else(malformed)?;
        }
        if self.incoming.len() + part.len() > MAX_TLS_BYTES {
            return Err(format!("its TLS message has more than {MAX_TLS_BYTES} bytes"));
        }
        self.incoming.extend(part);
        Ok(flags & FLAG_MORE == 0)
    }

    /// Gives TLS the complete message, and collects its answer.
    fn advance(&mut self) -> Result<(), String> {
        let message = std::mem::take(&mut self.incoming);
        let mut cursor = Cursor::new(message.as_slice());
        let mut result = Ok(());
        while result.is_ok() && (cursor.position() as usize) < message.len() {
            result = match self.connection.read_tls(&mut cursor) {
                Ok(_) => self.connection.process_new_packets().map(|_| ()).map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
        }
        self.flush()?;
        result.map_err(|problem| format!("TLS: {problem}"))
    }

    fn is_modern(&self) -> bool {
        self.connection.protocol_version() == Some(ProtocolVersion::TLSv1_3)
    }

    /// Returns the MSK of a handshake that has ended (RFC 5216, section 2.3; RFC 9190, section 2.3).
    fn key(&self) -> Result<Secret, String> {
        let (label, context) = if self.is_modern() {
            (&b"EXPORTER_EAP_TLS_Key_Material"[..], Some(&[super::TYPE_TLS][..]))
        } else {
            (&b"client EAP encryption"[..], None)
        };
        let output = self
            .connection
            .export_keying_material(Zeroizing::new([0; 128]), label, context)
            .map_err(|error| format!("TLS: {error}"))?;
        Ok(Zeroizing::new(output[..64].to_vec()))
    }

    /// Returns the certificates of the other end, its own first.
    pub(super) fn certificates(&self) -> Vec<Vec<u8>> {
        let shown = self.connection.peer_certificates().unwrap_or_default();
        shown.iter().map(|certificate| certificate.to_vec()).collect()
    }

    /// Handles, as a server, an answer of the user with the name `name`.
    pub(super) fn serve(&mut self, data: &[u8], name: &str, authorities: Option<&Authorities>) -> Step {
        self.rounds += 1;
        if self.has_more() {
            return Step::Send(self.next_fragment());
        }
        if let Some(problem) = self.problem.take() {
            return Step::Failure(problem);
        }
        match self.assemble(data) {
            Ok(true) => {}
            Ok(false) => {
                (self.outgoing, self.sent) = (Vec::new(), 0);
                return Step::Send(self.next_fragment());
            }
            Err(problem) => return Step::Failure(problem),
        }
        let is_acknowledgement = self.incoming.is_empty();
        if is_acknowledgement {
            if self.connection.is_handshaking() || !self.is_committed {
                return Step::Failure("its TLS handshake does not go on".to_owned());
            }
            return match self.key() {
                Ok(key) => Step::Success { user: name.to_owned(), key },
                Err(problem) => Step::Failure(problem),
            };
        }
        let mut result = self.advance();
        if result.is_ok() && !self.connection.is_handshaking() {
            let certificate = self.connection.peer_certificates().and_then(<[_]>::first);
            let has_name = authorities
                .zip(certificate)
                .is_some_and(|(authorities, certificate)| has_user(authorities, certificate, name));
            if !has_name {
                return Step::Failure(format!("its certificate does not have {name:?} as a name"));
            }
            if self.is_modern() && !self.is_committed {
                // Bytes that TLS wanted to send earlier are sent first.
                let before = std::mem::take(&mut self.outgoing);
                result = self.connection.writer().write_all(&COMMITMENT).map_err(|error| error.to_string());
                result = result.and_then(|()| self.flush());
                self.outgoing = [before, std::mem::take(&mut self.outgoing)].concat();
            }
            self.is_committed = true;
        }
        if let Err(problem) = result {
            if self.outgoing.is_empty() {
                return Step::Failure(problem);
            }
            // The alert gives the user's side the reason before the conversation ends.
            self.problem = Some(problem);
        } else if self.outgoing.is_empty() && self.connection.is_handshaking() {
            return Step::Failure("its TLS handshake does not go on".to_owned());
        }
        Step::Send(self.next_fragment())
    }

    /// Handles, as a client, a request. Returns the answer, and the problem if TLS failed.
    pub(super) fn converse(&mut self, data: &[u8]) -> Result<(Vec<u8>, Option<String>), String> {
        self.rounds += 1;
        if self.has_more() {
            return Ok((self.next_fragment(), None));
        }
        (self.outgoing, self.sent) = (Vec::new(), 0);
        if !self.assemble(data)? || self.incoming.is_empty() {
            return Ok((self.next_fragment(), None));
        }
        let problem = self.advance().err();
        if problem.is_some() {
            self.problem.clone_from(&problem);
        } else {
            let mut said = [0; 16];
            // Having nothing to read is reported as an error, and is harmless.
            let length = self.connection.reader().read(&mut said).unwrap_or(0);
            self.is_committed |= said[..length] == COMMITMENT;
        }
        Ok((self.next_fragment(), problem))
    }

    /// Returns, as a client, the MSK if the server has proved itself and accepted us.
    pub(super) fn client_key(&self) -> Option<Secret> {
        let is_done = self.problem.is_none()
            && !self.connection.is_handshaking()
            && !self.has_more()
            && (self.is_committed || !self.is_modern());
        if is_done { self.key().ok() } else { None }
    }
}
