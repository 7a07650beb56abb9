//! Scripts of the clients that are built into phones and laptops: the messages of iOS, macOS, Windows and Android.
//! Their behaviour is taken from public logs and from their documentation.

use std::sync::Arc;

use sealane_ike::{
    EapServer, EapTls, Endpoint, Event, Expect, Identity, Offer, Peer, Prove, Settings,
    crypto::{
        KeyExchange,
        sign::{Method, SigningKey},
    },
    wire::{
        Attribute, Exchange, NotifyType, Payload, PayloadType, Proposal, Protocol, TrafficSelector, Transform,
    },
};
use zeroize::Zeroizing;

use crate::{
    Certificates, certificates,
    client::*,
    common::{
        Dice,
        authority::{P256, RSA},
        network, peer,
    },
    settings, tls, users,
};

/// Returns a gateway that is configured for phones and laptops.
fn gateway(
    made: &Certificates,
    change: impl FnOnce(&mut Peer, &mut Settings),
) -> (Endpoint, Arc<SigningKey>) {
    let (key, certificate) = &made.gateway;
    let key = Arc::new(SigningKey::from_pkcs8(key).unwrap());
    let mut open = peer(1);
    (open.remote, open.remote_identity) = (None, None);
    open.prove = Prove::Signature { key: key.clone(), certificates: vec![certificate.clone()] };
    open.expect = Expect::Eap(Arc::new(EapServer { users: users(), tls: None::<EapTls> }));
    open.proposals = Offer::standard_ike();
    open.children[0].proposals = Offer::standard_esp();
    open.children[0].local = vec![network("0.0.0.0/0")];
    open.children[0].remote = vec![network("10.9.0.0/24"), network("fd09::/64")];
    open.pool = Some(0);
    open.mobike = true;
    let mut settings = Settings { allow_sha1: true, ..settings() };
    change(&mut open, &mut settings);
    (Endpoint::new(settings, vec![open], Dice::random(3)), key)
}

fn everything() -> [Payload; 2] {
    let all: Vec<TrafficSelector> = vec![network("0.0.0.0/0"), network("::/0")];
    [Payload::SelectorsInitiator(all.clone()), Payload::SelectorsResponder(all)]
}

/// Returns the payloads that Apple's clients send with their identity.
fn apple(esp: Vec<Proposal>) -> Vec<Payload> {
    let kinds = [
        Attribute::INTERNAL_IP4_ADDRESS,
        MASK,
        DHCP,
        Attribute::INTERNAL_IP4_DNS,
        Attribute::INTERNAL_IP6_ADDRESS,
        DHCP6,
        Attribute::INTERNAL_IP6_DNS,
        Attribute::INTERNAL_DNS_DOMAIN,
    ];
    let mut all = vec![
        notify(NotifyType::INITIAL_CONTACT, []),
        Payload::IdResponder(Identity::from_text("end1.example").to_wire()),
        asks(&kinds),
        notify(NotifyType::ESP_TFC_PADDING_NOT_SUPPORTED, []),
        notify(NotifyType::NON_FIRST_FRAGMENTS_ALSO, []),
        Payload::SecurityAssociation(esp),
    ];
    all.extend(everything());
    all.extend([notify(NotifyType::MOBIKE_SUPPORTED, []), notify(NotifyType::EAP_ONLY_AUTHENTICATION, [])]);
    all
}

fn apple_first() -> [Payload; 2] {
    [notify(REDIRECT_SUPPORTED, []), notify(NotifyType::IKEV2_FRAGMENTATION_SUPPORTED, [])]
}

/// The clients are iOS 16 and macOS 13, set up by hand; macOS offers only the first proposal.
#[test]
fn ios_and_macos_by_hand_come_up_with_a_password() {
    let cbc: &[(u16, u16)] = &[(12, 256)];
    let first: &[Row] = &[(E, cbc), (F, &[(5, 0)]), (I, &[(12, 0)]), (D, &[(14, 0)])];
    let all: [&[Row]; 5] = [
        first,
        &[(E, cbc), (F, &[(5, 0)]), (I, &[(12, 0)]), (D, &[(19, 0)])],
        &[(E, cbc), (F, &[(5, 0)]), (I, &[(12, 0)]), (D, &[(5, 0)])],
        &[(E, &[(12, 128)]), (F, &[(2, 0)]), (I, &[(2, 0)]), (D, &[(2, 0)])],
        &[(E, &[(3, 0)]), (F, &[(2, 0)]), (I, &[(2, 0)]), (D, &[(2, 0)])],
    ];
    // iOS renews keys with or without a key exchange, macOS without.
    for (proposals, kind, method, renews_by) in [
        (&all[..], RSA, Method::RSA, Some(KeyExchange::Modp2048)),
        (&all[..], RSA, Method::RSA, None),
        (&all[..1], P256, Method::ECDSA_256, None),
    ] {
        let Some(made) = certificates(kind) else { return };
        let (gateway, key) = gateway(&made, |_, _| {});
        let mut client = Client::new(gateway, &Identity::from_text("alice"));
        client.fragment_bytes = 532;
        let answered = client.begin(&ike(proposals), KeyExchange::Modp2048, &apple_first());
        if errors(&answered) == [NotifyType::INVALID_KE_PAYLOAD] {
            // The gateway prefers another one of its proposals.
            let answered = client.begin(&ike(proposals), KeyExchange::P256, &apple_first());
            assert_eq!(errors(&answered), []);
        }
        let child: &[Row] = &[(E, cbc), (I, &[(12, 0)]), (S, &[(0, 0)])];
        let answered = client.authenticate(apple(esp(&[child])));
        client.check_gateway(&answered, &key, method);
        let answered = client.by_password(answered, "alice", "correct horse");
        assert_eq!(errors(&answered), []);
        assert!(notifies(&answered).contains(&NotifyType::MOBIKE_SUPPORTED));
        assert_eq!((client.user(), client.installed()), (Some("alice"), 1));
        let given = answered.iter().find_map(|payload| match payload {
            Payload::Configuration(reply) => {
                Some(reply.attributes.iter().map(|a| a.kind).collect::<Vec<_>>())
            }
            _ => None,
        });
        let expected = [
            Attribute::INTERNAL_IP4_ADDRESS,
            Attribute::INTERNAL_IP6_ADDRESS,
            Attribute::INTERNAL_IP4_DNS,
            Attribute::INTERNAL_DNS_DOMAIN,
        ];
        assert_eq!(given.as_deref(), Some(&expected[..]));
        let with: &[Row] = &[(E, cbc), (I, &[(12, 0)]), (D, &[(14, 0)]), (S, &[(0, 0)])];
        let answered = client.rekey_child(esp(&[if renews_by.is_some() { with } else { child }]), renews_by);
        assert_eq!((errors(&answered), client.installed()), (vec![], 2));
    }
}

/// The clients are a profile with AES-GCM and P-256, and iOS 26 with ML-KEM-768 in IKE_INTERMEDIATE.
#[test]
fn apple_profiles_come_up_with_a_password_and_with_post_quantum_keys() {
    let Some(made) = certificates(P256) else { return };
    let gcm: &[(u16, u16)] = &[(20, 256)];
    let classic: &[Row] = &[(E, gcm), (F, &[(5, 0)]), (D, &[(19, 0)])];
    let quantum: &[Row] = &[(E, gcm), (F, &[(6, 0)]), (D, &[(31, 0)]), (Q, &[(36, 0)])];
    for (rows, method) in [(classic, KeyExchange::P256), (quantum, KeyExchange::X25519)] {
        let (gateway, key) = gateway(&made, |_, _| {});
        let mut client = Client::new(gateway, &Identity::from_text("alice"));
        let mut first = apple_first().to_vec();
        if method == KeyExchange::X25519 {
            first.push(notify(NotifyType::INTERMEDIATE_EXCHANGE_SUPPORTED, []));
        }
        assert_eq!(errors(&client.begin(&ike(&[rows]), method, &first)), []);
        if method == KeyExchange::X25519 {
            client.intermediate(KeyExchange::MlKem768);
        }
        let child: &[Row] = &[(E, gcm), (S, &[(0, 0)])];
        let answered = client.authenticate(apple(esp(&[child])));
        client.check_gateway(&answered, &key, Method::ECDSA_256);
        let answered = client.by_password(answered, "alice", "correct horse");
        assert_eq!((errors(&answered), client.installed()), (vec![], 1));
    }
}

/// Returns the payloads that Windows sends with its identity: many known authorities, and its requests.
fn windows(esp: Vec<Proposal>) -> Vec<Payload> {
    let kinds = [
        Attribute::INTERNAL_IP4_ADDRESS,
        Attribute::INTERNAL_IP4_DNS,
        NBNS,
        SERVER,
        Attribute::INTERNAL_IP6_ADDRESS,
        Attribute::INTERNAL_IP6_DNS,
        SERVER6,
    ];
    let mut all = vec![
        Payload::CertificateRequest { encoding: 4, data: (0..1100).map(|byte| byte as u8).collect() },
        asks(&kinds),
        Payload::SecurityAssociation(esp),
    ];
    all.extend(everything());
    all.push(notify(NotifyType::MOBIKE_SUPPORTED, []));
    all
}

fn windows_first() -> Vec<Payload> {
    let mut all = vec![notify(NotifyType::IKEV2_FRAGMENTATION_SUPPORTED, [])];
    all.extend((0..4).map(|vendor| Payload::VendorId(vec![vendor; 16])));
    all
}

/// Returns Windows' proposals: each pair of a cipher and a digest, with `methods`.
fn windows_proposals(methods: &'static [(u16, u16)]) -> Vec<Proposal> {
    let ciphers: [&[(u16, u16)]; 4] = [&[(3, 0)], &[(12, 128)], &[(12, 192)], &[(12, 256)]];
    let digests: [(u16, u16); 3] = [(2, 2), (5, 12), (6, 13)];
    let pairs = ciphers.iter().flat_map(|cipher| digests.iter().map(move |digest| (*cipher, *digest)));
    let all = (1..).zip(pairs).map(|(number, (cipher, (function, integrity)))| {
        let mut made = proposal(number, Protocol::Ike, &[(E, cipher), (D, methods)]);
        made.transforms.insert(1, Transform::new(F, function, None));
        made.transforms.insert(2, Transform::new(I, integrity, None));
        made
    });
    all.collect()
}

#[test]
fn windows_out_of_the_box_is_told_that_no_proposal_fits() {
    let Some(made) = certificates(P256) else { return };
    let (gateway, _) = gateway(&made, |_, _| {});
    let mut client = Client::new(gateway, &Identity::from_text("10.0.0.7"));
    let answered = client.begin(&windows_proposals(&[(2, 0)]), KeyExchange::Modp2048, &windows_first());
    assert_eq!(errors(&answered), [NotifyType::NO_PROPOSAL_CHOSEN]);
    let [Event::Refused { reason, .. }] = &client.events[..] else { panic!("{:?}", client.events) };
    let told = reason.to_string();
    assert!(told.contains("key exchange") && told.contains("the peer offers number 2"), "{told}");
}

/// The clients use the registry's value for AES-256 and MODP-2048, or a proposal set with PowerShell.
#[test]
fn windows_comes_up_with_a_password_behind_a_refused_eap_tls() {
    let set: &[Row] = &[(E, &[(20, 256)]), (F, &[(6, 0)]), (D, &[(20, 0)])];
    for (proposals, method, kind, proof) in [
        (windows_proposals(&[(14, 0)]), KeyExchange::Modp2048, RSA, Method::RSA),
        (ike(&[set]), KeyExchange::P384, P256, Method::ECDSA_256),
    ] {
        let Some(made) = certificates(kind) else { return };
        let with_tls = EapServer { users: users(), tls: Some(tls(&made.authority, &made.gateway)) };
        let (gateway, key) = gateway(&made, |peer, _| {
            peer.expect = Expect::Eap(Arc::new(with_tls));
            peer.children[0].proposals.push(Offer::esp("aes256-sha1").unwrap());
        });
        let mut client = Client::new(gateway, &Identity::from_text("10.0.0.7"));
        client.fragment_bytes = 580;
        let answered = client.begin(&proposals, method, &windows_first());
        assert_eq!(errors(&answered), []);
        let child: [&[Row]; 3] = [
            &[(E, &[(12, 256)]), (I, &[(2, 0)]), (S, &[(0, 0)])],
            &[(E, &[(12, 128)]), (I, &[(2, 0)]), (S, &[(0, 0)])],
            &[(E, &[(3, 0)]), (I, &[(2, 0)]), (S, &[(0, 0)])],
        ];
        let answered = client.authenticate(windows(esp(&child)));
        client.check_gateway(&answered, &key, proof);
        let answered = client.by_password(answered, "bob", "battery staple");
        assert_eq!((errors(&answered), client.user(), client.installed()), (vec![], Some("bob"), 1));
        let answered = client.rekey_child(esp(&child), None);
        assert_eq!((errors(&answered), client.installed()), (vec![], 2));
    }
}

/// Android 12 and later first try MODP-4096, and switch to the method that the gateway asks for.
#[test]
fn android_comes_up_with_a_password_and_with_a_shared_key() {
    let Some(made) = certificates(RSA) else { return };
    let functions: &[(u16, u16)] = &[(7, 0), (6, 0), (5, 0), (4, 0), (8, 0)];
    let methods: &[(u16, u16)] = &[(16, 0), (31, 0), (15, 0), (14, 0)];
    let plain: &[Row] = &[
        (E, &[(13, 256), (12, 256), (13, 192), (12, 192), (13, 128), (12, 128)]),
        (I, &[(14, 0), (13, 0), (12, 0), (5, 0), (8, 0)]),
        (F, functions),
        (D, methods),
    ];
    let combined: &[Row] = &[
        (E, &[(28, 0), (20, 256), (19, 256), (18, 256), (20, 192), (20, 128)]),
        (F, functions),
        (D, methods),
    ];
    let child: [&[Row]; 2] = [
        &[(E, &[(12, 256), (12, 192), (12, 128)]), (I, &[(14, 0), (13, 0), (12, 0)]), (S, &[(0, 0)])],
        &[(E, &[(20, 256), (20, 192), (20, 128), (28, 0)]), (S, &[(0, 0)])],
    ];
    let hashes = notify(NotifyType::SIGNATURE_HASH_ALGORITHMS, [0, 1, 0, 2, 0, 3, 0, 4]);
    let first =
        [notify(NotifyType::IKEV2_FRAGMENTATION_SUPPORTED, []), notify(REDIRECT_SUPPORTED, []), hashes];
    for by_key in [false, true] {
        let shared = Zeroizing::new(b"a long key that both have".to_vec());
        let (gateway, key) = gateway(&made, |peer, _| {
            if by_key {
                peer.prove = Prove::SharedKey(shared.clone());
                peer.expect = Expect::SharedKey(shared.clone());
            }
        });
        let mut client = Client::new(gateway, &Identity::from_text("alice@phone.example"));
        let proposals = ike(&[plain, combined]);
        let answered = client.begin(&proposals, KeyExchange::Modp4096, &first);
        let wanted = answered.iter().find_map(|payload| match payload {
            Payload::Notify(notify) => Some((notify.kind, notify.data.clone())),
            _ => None,
        });
        assert_eq!(wanted, Some((NotifyType::INVALID_KE_PAYLOAD, vec![0, 31])));
        let answered = client.begin(&proposals, KeyExchange::X25519, &first);
        assert_eq!(errors(&answered), []);
        let kinds = [
            Attribute::INTERNAL_IP4_ADDRESS,
            Attribute::INTERNAL_IP6_ADDRESS,
            Attribute::INTERNAL_IP4_DNS,
            Attribute::INTERNAL_IP6_DNS,
        ];
        let mut more = vec![
            Payload::IdResponder(Identity::from_text("end1.example").to_wire()),
            Payload::SecurityAssociation(esp(&child)),
            asks(&kinds),
            notify(NotifyType::MOBIKE_SUPPORTED, []),
            notify(NotifyType::EAP_ONLY_AUTHENTICATION, []),
        ];
        more.extend(everything());
        if by_key {
            client.auth_id = client.message_id;
            let data = client.proof(&shared, &client.octets(true, &client.identity)).to_vec();
            more.push(Payload::Authentication { method: Method::SHARED_KEY.0, data });
        }
        let mut answered = client.authenticate(more);
        if !by_key {
            client.check_gateway(&answered, &key, Method::DIGITAL_SIGNATURE);
            answered = client.by_password(answered, "alice", "correct horse");
        }
        assert_eq!((errors(&answered), client.installed()), (vec![], 1));
        let answered = client.rekey_child(esp(&child), None);
        assert_eq!((errors(&answered), client.installed()), (vec![], 2));
    }
}

/// Each refusal is the notification that says what a client has to change.
#[test]
fn refusals_say_what_they_are_about() {
    let Some(made) = certificates(P256) else { return };
    let gcm: &[(u16, u16)] = &[(20, 256)];
    let rows: &[Row] = &[(E, gcm), (F, &[(5, 0)]), (D, &[(31, 0)])];
    let child: &[Row] = &[(E, gcm), (S, &[(0, 0)])];
    let begin = |change: &dyn Fn(&mut Peer)| {
        let (gateway, _) = gateway(&made, |peer, _| change(peer));
        let mut client = Client::new(gateway, &Identity::from_text("alice"));
        assert_eq!(errors(&client.begin(&ike(&[rows]), KeyExchange::X25519, &apple_first())), []);
        client
    };
    let unchanged = |_: &mut Peer| {};
    // A wrong password ends with a Failure packet of EAP, and with the notification that ends IKE_AUTH.
    let mut client = begin(&unchanged);
    let answered = client.authenticate(apple(esp(&[child])));
    let answered = client.by_password(answered, "alice", "wrong");
    assert!(matches!(&answered[..], [Payload::Eap(packet), _] if packet[0] == 4), "{answered:?}");
    assert_eq!(errors(&answered), [NotifyType::AUTHENTICATION_FAILED]);
    // The client expects another gateway than this one.
    let mut client = begin(&unchanged);
    let mut more = apple(esp(&[child]));
    more[1] = Payload::IdResponder(Identity::from_text("other.example").to_wire());
    assert_eq!(errors(&client.authenticate(more)), [NotifyType::AUTHENTICATION_FAILED]);
    // If ciphers, traffic or addresses do not fit, the IKE SA remains.
    let null: &[Row] = &[(E, &[(11, 0)]), (I, &[(2, 0)]), (S, &[(0, 0)])];
    let elsewhere: &dyn Fn(&mut Peer) = &|peer| peer.children[0].remote = vec![network("10.55.0.0/24")];
    let nothing: &dyn Fn(&mut Peer) = &unchanged;
    for (change, esp_rows, asks_for_address, expected) in [
        (nothing, null, true, NotifyType::NO_PROPOSAL_CHOSEN),
        (elsewhere, child, true, NotifyType::TS_UNACCEPTABLE),
        (nothing, child, false, NotifyType::FAILED_CP_REQUIRED),
    ] {
        let mut client = begin(change);
        let mut more = apple(esp(&[esp_rows]));
        if !asks_for_address {
            more.remove(2);
        }
        let answered = client.authenticate(more);
        let answered = client.by_password(answered, "alice", "correct horse");
        assert_eq!(errors(&answered), [expected]);
        assert_eq!((client.user(), client.installed()), (Some("alice"), 0));
    }
    // The payload is unknown and must not be skipped.
    let mut client = begin(&unchanged);
    let header = client.header(PayloadType(200), Exchange::Auth);
    let message = client.sealed(header, &[0, 0x80, 0, 8, 1, 2, 3, 4], &[]);
    let answers = client.deliver(&message);
    let (_, answered) = client.open(&answers);
    assert_eq!(errors(&answered), [NotifyType::UNSUPPORTED_CRITICAL_PAYLOAD]);
    // The client asks for a child before everything is proved.
    let mut client = begin(&unchanged);
    let answered = client.rekey_child(esp(&[child]), None);
    assert_eq!((errors(&answered), client.installed()), (vec![NotifyType::INVALID_SYNTAX], 0));
}

/// With the keys, tshark reads every message of ours: headers, encryption, payloads.
#[test]
fn tshark_reads_what_both_ends_say() {
    let Some(made) = certificates(P256) else { return };
    let (gateway, _) = gateway(&made, |_, _| {});
    let mut client = Client::new(gateway, &Identity::from_text("alice"));
    client.trace = Some(Vec::new());
    let rows: &[Row] = &[(E, &[(20, 256)]), (F, &[(6, 0)]), (D, &[(31, 0)])];
    assert_eq!(errors(&client.begin(&ike(&[rows]), KeyExchange::X25519, &apple_first())), []);
    let child: &[Row] = &[(E, &[(20, 256)]), (S, &[(0, 0)])];
    let answered = client.authenticate(apple(esp(&[child])));
    let answered = client.by_password(answered, "alice", "correct horse");
    assert_eq!(errors(&answered), []);
    client.rekey_child(esp(&[child]), None);

    let folder = tempfile::tempdir().expect("a folder");
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let [initiator, responder] = client.encryption_keys(36);
    let cipher = "AES-GCM-256 with 16 octet ICV [RFC5282]";
    let (one, other) = (client.spis.initiator, client.spis.responder);
    let row = format!(
        "{one:016x},{other:016x},{},{},\"{cipher}\",\"\",\"\",\"NONE [RFC4306]\"\n",
        hex(&initiator),
        hex(&responder)
    );
    std::fs::write(folder.path().join("ikev2_decryption_table"), row).expect("a file");
    std::fs::write(folder.path().join("ike.pcap"), client.capture()).expect("a file");
    let output = std::process::Command::new("tshark")
        .env("WIRESHARK_CONFIG_DIR", folder.path())
        .current_dir(folder.path())
        .args(["-r", "ike.pcap", "-V", "-Y", "isakmp"])
        .output();
    let Ok(output) = output else { return crate::skip::skip("no tshark".to_owned()) };
    let told = String::from_utf8_lossy(&output.stdout);
    let count = |text: &str| told.matches(text).count();
    assert_eq!(count("[correct]"), count("Decrypted Data"), "{told}");
    assert!(count("Decrypted Data") >= 12, "{told}");
    for text in [
        "Payload: Extensible Authentication",
        "Payload: Configuration",
        "EAP-MS-AUTH",
        "INTERNAL_IP4_DNS",
        "REKEY_SA",
    ] {
        assert!(told.contains(text), "{text} is not in\n{told}");
    }
    assert!(!told.contains("Malformed"), "{told}");
}
