//! Hybrid keys in the handshake: with keys of both kinds, with liars, and with ends that know no such keys.

use std::fmt;
use std::sync::Mutex;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::{Signer, SigningKey};
use rustls::{DigitallySignedStruct, DistinguishedName, SignatureAlgorithm, SignatureScheme};

use super::*;
use crate::composite::{CompositeKey, SIGNATURE_BYTES};
use crate::key::KeyKind;
use crate::proof::COMPOSITE;
use crate::trust::KnownPeers;

/// Bytes of ML-DSA's part, the first of a signature; Ed25519's has 64.
const ML_DSA_BYTES: usize = SIGNATURE_BYTES - 64;

type Sign = dyn Fn(&[u8]) -> Vec<u8> + Send + Sync;

/// Signs whatever a function makes of the transcript, by a scheme that nobody has to offer.
#[derive(Clone)]
struct Liar {
    scheme: SignatureScheme,
    sign: Arc<Sign>,
}

impl fmt::Debug for Liar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Liar")
    }
}

impl SigningKey for Liar {
    fn choose_scheme(&self, _offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        Some(Box::new(self.clone()))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ED25519
    }
}

impl Signer for Liar {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        Ok((self.sign)(message))
    }

    fn scheme(&self) -> SignatureScheme {
        self.scheme
    }
}

fn hybrid() -> Identity {
    Identity::generate_hybrid().unwrap()
}

/// Returns an identity that shows the key of `victim` and signs by a function.
fn liar(
    victim: &Identity,
    scheme: SignatureScheme,
    sign: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static,
) -> Identity {
    Identity::liar(victim, Arc::new(Liar { scheme, sign: Arc::new(sign) }))
}

/// Returns who may pose as the owner of a hybrid key, with the key's own halves where a lie needs them to be right.
fn liars(victim: &Identity) -> Vec<(&'static str, Identity)> {
    let (key, other) = (victim.composite(), CompositeKey::generate().unwrap());
    let halves = |ml_dsa: &CompositeKey, ed25519: &CompositeKey| {
        let key = CompositeKey::of_halves(ml_dsa, ed25519);
        move |message: &[u8]| key.sign(message).unwrap()
    };
    let of = |change: fn(Vec<u8>) -> Vec<u8>| {
        let key = Arc::clone(&key);
        move |message: &[u8]| change(key.sign(message).unwrap())
    };
    let elsewhere = Arc::clone(&key);
    let half = victim.ed25519_half().certified().key.clone();
    let alone = move |message: &[u8]| {
        let signer = half.choose_scheme(&[SignatureScheme::ED25519]).unwrap();
        signer.sign(message).unwrap()
    };
    let alone_too = alone.clone();
    vec![
        ("another ML-DSA half", liar(victim, COMPOSITE, halves(&other, &key))),
        ("another Ed25519 half", liar(victim, COMPOSITE, halves(&key, &other))),
        ("zeros for ML-DSA", {
            let zeros = of(|mut signature| {
                signature[..ML_DSA_BYTES].fill(0);
                signature
            });
            liar(victim, COMPOSITE, zeros)
        }),
        ("no ML-DSA", liar(victim, COMPOSITE, of(|signature| signature[ML_DSA_BYTES..].to_vec()))),
        ("no Ed25519", liar(victim, COMPOSITE, of(|signature| signature[..ML_DSA_BYTES].to_vec()))),
        ("halves in the other order", {
            let turned = of(|signature| [&signature[ML_DSA_BYTES..], &signature[..ML_DSA_BYTES]].concat());
            liar(victim, COMPOSITE, turned)
        }),
        ("a byte more", liar(victim, COMPOSITE, of(|signature| [&signature[..], &[0]].concat()))),
        ("60,000 bytes", {
            let long = of(|signature| signature.into_iter().cycle().take(60_000).collect());
            liar(victim, COMPOSITE, long)
        }),
        ("no bytes", liar(victim, COMPOSITE, |_| Vec::new())),
        ("Ed25519 under the hybrid scheme", liar(victim, COMPOSITE, alone)),
        ("Ed25519 alone", liar(victim, SignatureScheme::ED25519, alone_too)),
        ("both halves, as Ed25519", liar(victim, SignatureScheme::ED25519, of(|signature| signature))),
        ("ML-DSA's own scheme", {
            let ml_dsa = of(|signature| signature[..ML_DSA_BYTES].to_vec());
            liar(victim, SignatureScheme::ML_DSA_65, ml_dsa)
        }),
        ("the other end's words", {
            // The context of RFC 8446, section 4.4.3, stands behind 64 spaces; a client's signature is no server's.
            let turned = move |message: &[u8]| {
                let text = String::from_utf8_lossy(&message[64..98]).into_owned();
                let (from, to) =
                    if text.contains("server") { ("server", "client") } else { ("client", "server") };
                let at = message.windows(6).position(|window| window == from.as_bytes()).unwrap();
                let mut message = message.to_vec();
                message[at..at + 6].copy_from_slice(to.as_bytes());
                elsewhere.sign(&message).unwrap()
            };
            liar(victim, COMPOSITE, turned)
        }),
        ("a key of its own", Identity::liar(victim, hybrid().certified().key.clone())),
    ]
}

#[track_caller]
fn check_not_owner(lie: &str, error: &PeerError) {
    assert!(matches!(error, PeerError::Channel(ChannelError::NotOwner)), "{lie}: {error:?}");
    // It says whose fault it may be, and what to look at.
    let text = error.to_string();
    assert!(text.contains("posing as the peer") && text.contains("identity file"), "{text}");
}

#[test]
fn ends_of_both_kinds_reach_each_other() {
    let kinds: [fn() -> Identity; 2] = [|| Identity::generate().unwrap(), hybrid];
    for (server, client) in kinds.into_iter().flat_map(|one| kinds.map(|other| (one(), other()))) {
        let trust = ServerTrust::exactly(server.public_key());
        let (its, ours) = (server.public_key(), client.public_key());
        let (address, accepted) = listen(server, ours);
        let mut near = connect_tls(APPLICATION, &address, &client, &trust, soon()).unwrap();
        let (mut far, entry) = accepted.join().unwrap().unwrap();
        assert_eq!((near.tls().unwrap().peer_key, far.tls().unwrap().peer_key), (its, ours));
        assert_eq!(entry.key, ours);
        near.send(b"ping", soon()).unwrap();
        assert_eq!(far.recv(soon()).unwrap().as_deref(), Some(&b"ping"[..]));
    }
}

#[test]
fn a_lying_server_is_refused_and_not_remembered() {
    let (victim, client) = (hybrid(), Identity::generate().unwrap());
    let dir = tempfile::tempdir().unwrap();
    for (lie, liar) in liars(&victim) {
        let file = dir.path().join("known-peers");
        for trust in [ServerTrust::exactly(victim.public_key()), ServerTrust::accept_new(&file)] {
            let (address, accepted) = listen(Identity::showing_as(&liar), client.public_key());
            let error = connect_tls(APPLICATION, &address, &client, &trust, soon()).unwrap_err();
            check_not_owner(lie, &error);
            accepted.join().unwrap().unwrap_err();
        }
        assert!(!file.exists(), "{lie}");
    }
}

#[test]
fn a_lying_client_is_refused() {
    let (server, victim) = (Identity::generate().unwrap(), hybrid());
    let trust = ServerTrust::exactly(server.public_key());
    for (lie, liar) in liars(&victim) {
        let (address, accepted) = listen(Identity::showing_as(&server), victim.public_key());
        // A client ends its half before it is judged.
        let mut channel = connect_tls(APPLICATION, &address, &liar, &trust, soon()).unwrap();
        channel.recv(soon()).unwrap_err();
        drop(channel);
        check_not_owner(lie, &accepted.join().unwrap().unwrap_err());
    }
}

/// A signature that was right in one connection is wrong in the next one.
#[test]
fn a_signature_of_another_connection_is_refused() {
    let once = |victim: &Identity| {
        let (key, seen) = (victim.composite(), Mutex::new(None::<Vec<u8>>));
        liar(victim, COMPOSITE, move |message| {
            seen.lock().unwrap().get_or_insert_with(|| key.sign(message).unwrap()).clone()
        })
    };
    let (server, client) = (hybrid(), hybrid());
    let trust = ServerTrust::exactly(server.public_key());
    let (again, its) = (once(&server), server.public_key());
    for is_first in [true, false] {
        let (address, accepted) = listen(Identity::showing_as(&again), client.public_key());
        match connect_tls(APPLICATION, &address, &client, &ServerTrust::exactly(its), soon()) {
            Ok(_) => assert!(is_first && accepted.join().unwrap().is_ok()),
            Err(error) => {
                assert!(!is_first);
                check_not_owner("replayed by a server", &error);
            }
        }
    }
    let again = once(&client);
    for is_first in [true, false] {
        let (address, accepted) = listen(Identity::showing_as(&server), client.public_key());
        let near = connect_tls(APPLICATION, &address, &again, &trust, soon());
        match accepted.join().unwrap() {
            Ok(_) => assert!(is_first && near.is_ok()),
            Err(error) => {
                assert!(!is_first);
                check_not_owner("replayed by a client", &error);
            }
        }
    }
}

/// Half of a key, and a key with one half exchanged, are other keys than the one in a file.
#[test]
fn an_entry_accepts_its_whole_key_and_nothing_less() {
    let (whole, client) = (hybrid(), hybrid());
    let key = whole.composite();
    let other = CompositeKey::generate().unwrap();
    let of = |ml_dsa: &CompositeKey, ed25519: &CompositeKey| {
        Identity::from_composite(CompositeKey::of_halves(ml_dsa, ed25519)).unwrap()
    };
    let shown = [whole.ed25519_half(), of(&other, &key), of(&key, &other)];
    for (entry, shown) in shown
        .iter()
        .map(|shown| (whole.public_key(), shown))
        .chain([(whole.ed25519_half().public_key(), &whole)])
    {
        let trust = ServerTrust::exactly(entry);
        let (address, accepted) = listen(Identity::showing_as(shown), client.public_key());
        let error = connect_tls(APPLICATION, &address, &client, &trust, soon()).unwrap_err();
        assert!(
            matches!(error, PeerError::WrongServer { found, known, .. } if found == shown.public_key() && known == entry),
            "{error:?}"
        );
        accepted.join().unwrap().unwrap_err();

        let trust = ServerTrust::exactly(client.public_key());
        let (address, accepted) = listen(Identity::showing_as(&client), entry);
        let mut channel = connect_tls(APPLICATION, &address, shown, &trust, soon()).unwrap();
        assert!(
            matches!(channel.recv(soon()), Err(ChannelError::Refused { ours }) if ours == shown.public_key())
        );
        drop(channel);
        let error = accepted.join().unwrap().unwrap_err();
        assert!(matches!(error, PeerError::NotAuthorised { key } if key == shown.public_key()), "{error:?}");
    }
}

#[test]
fn a_new_hybrid_server_is_remembered_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("known-peers");
    let (server, client) = (hybrid(), Identity::generate().unwrap());
    let trust = ServerTrust::accept_new(&file);
    let (address, accepted) = listen(Identity::showing_as(&server), client.public_key());
    connect_tls(APPLICATION, &address, &client, &trust, soon()).unwrap();
    accepted.join().unwrap().unwrap();
    let known = KnownPeers::load(&file).unwrap();
    let [key] = known.keys(&address).collect::<Vec<_>>()[..] else { panic!("{known:?}") };
    assert_eq!((key, key.kind()), (server.public_key(), KeyKind::Hybrid));
}

#[test]
fn bytes_that_are_no_key_are_refused() {
    let (server, client) = (hybrid(), hybrid());
    let spki = server.certified().cert[0].to_vec();
    let mut altered = spki.clone();
    altered[10] ^= 1;
    let longest = spki.iter().copied().cycle().take(60_000).collect();
    for shown in [
        [&spki[..], &[0]].concat(),
        spki[..spki.len() - 1].to_vec(),
        altered,
        longest,
        vec![0x30],
        vec![0; 44],
    ] {
        let bytes = shown.len();
        let liar = |owner: &Identity| Identity::showing(shown.clone(), owner.certified().key.clone());
        for trust in
            [ServerTrust::exactly(server.public_key()), ServerTrust::accept_new("/nowhere/known-peers")]
        {
            let (address, accepted) = listen(liar(&server), client.public_key());
            let error = connect_tls(APPLICATION, &address, &client, &trust, soon()).unwrap_err();
            assert!(matches!(error, PeerError::Channel(ChannelError::NoKey)), "{bytes} bytes: {error:?}");
            assert!(error.to_string().contains("same version at both ends"), "{error}");
            accepted.join().unwrap().unwrap_err();
        }
        let trust = ServerTrust::exactly(server.public_key());
        let (address, accepted) = listen(Identity::showing_as(&server), client.public_key());
        connect_tls(APPLICATION, &address, &liar(&client), &trust, soon())
            .and_then(|mut channel| Ok(channel.recv(soon())?))
            .unwrap_err();
        let error = accepted.join().unwrap().unwrap_err();
        assert!(matches!(error, PeerError::Channel(ChannelError::NoKey)), "{bytes} bytes: {error:?}");
    }
}

/// The methods of both kinds of verifiers that [`Old`] changes, or leaves to the one within.
macro_rules! judges_ed25519_alone {
    () => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _cert: &CertificateDer<'_>,
            _dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Err(judge::no_tls12())
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            self.0.verify_tls13_signature(message, cert, dss)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

/// Judges as an end that knows keys of Ed25519 alone.
#[derive(Debug)]
struct Old<T: ?Sized>(Arc<T>);

impl ServerCertVerifier for Old<dyn ServerCertVerifier> {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    judges_ed25519_alone!();
}

impl ClientCertVerifier for Old<dyn ClientCertVerifier> {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.0.verify_client_cert(end_entity, intermediates, now)
    }

    judges_ed25519_alone!();
}

#[track_caller]
fn check_no_hybrid(error: &PeerError) {
    assert!(matches!(error, PeerError::Channel(ChannelError::NoHybrid)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("same version at both ends") && text.contains("--identity FILE"), "{text}");
}

#[test]
fn an_older_client_is_told_of_and_gets_no_weaker_proof() {
    let (server, client) = (hybrid(), Identity::generate().unwrap());
    let mut config =
        (*client_config(PROVIDER.kx_groups.clone(), Some(APPLICATION.alpn()), &client, &server.public_key()))
            .clone();
    let old = Old(Arc::new(judge::tests::of_server(&server.public_key())) as Arc<dyn ServerCertVerifier>);
    config.dangerous().set_certificate_verifier(Arc::new(old));
    let (shaken, accepted) = shake(Arc::new(config), server, &client);
    shaken.unwrap_err();
    check_no_hybrid(&accepted.unwrap_err());
}

#[test]
fn a_hybrid_client_says_that_a_server_is_older() {
    let (server, client) = (Identity::generate().unwrap(), hybrid());
    let trust = ServerTrust::exactly(server.public_key());
    let old = Old(Arc::new(judge::tests::of_client(&client.public_key())) as Arc<dyn ClientCertVerifier>);
    let (listener, address) = bound();
    let served = thread::spawn(move || {
        let keys = rustls::server::AlwaysResolvesServerRawPublicKeys::new(server.certified());
        let mut config = rustls::ServerConfig::builder_with_provider(Arc::clone(&PROVIDER))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(Arc::new(old))
            .with_cert_resolver(Arc::new(keys));
        config.alpn_protocols = vec![APPLICATION.alpn().to_vec()];
        let mut connection = Connection::from(rustls::ServerConnection::new(Arc::new(config)).unwrap());
        let wire = Wire::socket(listener.accept().unwrap().0.into()).unwrap();
        handshake(APPLICATION, &wire, &mut connection, server.public_key(), soon())
    });
    check_no_hybrid(&connect_tls(APPLICATION, &address, &client, &trust, soon()).unwrap_err());
    served.join().unwrap().unwrap_err();
}

/// Whoever takes the hybrid scheme out of the client's offer on the way gains nothing but a failure at both ends.
#[test]
fn an_offer_that_was_stripped_on_the_way_ends_the_handshake() {
    for server in [hybrid(), Identity::generate().unwrap()] {
        let client = hybrid();
        let (trust, kind) = (ServerTrust::exactly(server.public_key()), server.public_key().kind());
        let (address, accepted) = listen(server, client.public_key());
        let (between, proxied) = bound();
        let proxy = thread::spawn(move || {
            let (mut client, _) = between.accept().unwrap();
            let mut server = TcpStream::connect((address.host.as_str(), address.port)).unwrap();
            let mut back = (server.try_clone().unwrap(), client.try_clone().unwrap());
            let backwards = thread::spawn(move || {
                let _ = io::copy(&mut back.0, &mut back.1);
                let _ = back.1.shutdown(std::net::Shutdown::Write);
            });
            let mut hello = first_record(&mut client);
            let offered = [0xfe, 0x30, 0x08, 0x07];
            let at = hello.windows(4).position(|window| window == offered).expect("both schemes");
            hello[at..at + 2].copy_from_slice(&[0x08, 0x07]);
            server.write_all(&hello).unwrap();
            let _ = io::copy(&mut client, &mut server);
            let _ = server.shutdown(std::net::Shutdown::Write);
            backwards.join().unwrap();
        });
        let near = connect_tls(APPLICATION, &proxied, &client, &trust, soon()).unwrap_err();
        let far = accepted.join().unwrap().unwrap_err();
        match kind {
            KeyKind::Hybrid => check_no_hybrid(&far),
            // The two ends have other transcripts, and so other keys.
            KeyKind::Ed25519 => {
                assert!(matches!(near, PeerError::Channel(ChannelError::Altered { .. })), "{near:?}");
            }
        }
        proxy.join().unwrap();
    }
}
