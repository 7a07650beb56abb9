//! A peer of IKEv2 that has the keys of its IKE SA, knows no secret that proves an identity, and follows a script.
//!
//! A script is a sequence of steps: a byte for the kind of step, a length of two bytes, and that many bytes.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use sealane_ike::{
    ChildPolicy, EapServer, EapTls, Endpoint, Event, Expect, Families, Identity, Mode, Offer, Peer, Pool,
    Prove, Random, Settings, TlsIdentity, Users,
    certificate::Authorities,
    crypto::{Encryption, KeyExchange, Ongoing, Prf, sign::SigningKey},
    keys::{IkeKeys, KeyPlan, Nonces, seed},
    wire::{
        Exchange, HEADER_BYTES, Header, Identification, Notify, NotifyType, Payload, PayloadType, Payloads,
        Spis, TrafficSelector, payload,
    },
};

const AUTHORITY: &[u8] = include_bytes!("ca.der");
const CERTIFICATE: &[u8] = include_bytes!("end.der");
const KEY: &[u8] = include_bytes!("end.key");

/// Maximum number of steps in a script.
const MAX_STEPS: usize = 24;

fn gateway() -> Endpoint {
    let network = |last| TrafficSelector::network([10, last, 0, 0].into(), 16);
    let authorities = Arc::new(Authorities::new(&[AUTHORITY.to_vec()]).expect("an authority's certificate"));
    let certificates = vec![CERTIFICATE.to_vec()];
    let mut users = Users::default();
    users.insert("alice", "a password that no fuzzer guesses");
    let identity = TlsIdentity::new(KEY, &certificates).expect("a key");
    let tls = Some(EapTls { identity, authorities: authorities.clone() });
    let open = Peer {
        name: "anybody".to_owned(),
        local: None,
        remote: None,
        local_identity: Identity::from_text("end.example"),
        remote_identity: None,
        prove: Prove::Signature { key: Arc::new(SigningKey::from_pkcs8(KEY).expect("a key")), certificates },
        expect: Expect::Eap(Arc::new(EapServer { users, tls })),
        proposals: vec![Offer::ike("aes128gcm16-prfsha256-x25519").expect("a proposal")],
        children: vec![ChildPolicy {
            name: "net".to_owned(),
            local: vec![network(1)],
            remote: vec![network(9)],
            proposals: vec![Offer::esp("aes128gcm16").expect("a proposal")],
            mode: Mode::Tunnel,
            resources: 0,
        }],
        pool: Some(0),
        asks_for: Families::default(),
        always_encapsulate: false,
        mobike: true,
        childless: false,
        ike_lifetime: None,
        child_lifetime: None,
        probe_after: None,
    };
    let named = Peer {
        name: "end".to_owned(),
        remote_identity: Some(Identity::from_text("end.example")),
        expect: Expect::Certificate(authorities),
        ..open.clone()
    };
    let pool = Pool { addresses: vec![([10, 9, 0, 1].into(), [10, 9, 0, 9].into())], ..Pool::default() };
    let settings = Settings { allow_sha1: true, ml_dsa: true, pools: vec![pool], ..Settings::default() };
    Endpoint::new(settings, vec![named, open], Random::system())
}

struct Talk {
    gateway: Endpoint,
    now: Instant,
    spis: Spis,
    keys: IkeKeys,
    message_id: u32,
    /// The identifier of the gateway's newest EAP request.
    eap: u8,
    answers: usize,
}

fn ends() -> [SocketAddr; 2] {
    [([192, 0, 2, 1], 500).into(), ([192, 0, 2, 2], 500).into()]
}

impl Talk {
    fn begin() -> Self {
        let (mut gateway, now) = (gateway(), Instant::now());
        let ongoing = Ongoing::begin(KeyExchange::X25519).expect("the library works");
        let offer = Offer::ike("aes128gcm16-prfsha256-x25519").expect("a proposal");
        let nonce = vec![1; 32];
        let payloads: Payloads = [
            Payload::SecurityAssociation(vec![offer.to_wire(1, Vec::new())]),
            Payload::KeyExchange { method: KeyExchange::X25519.number(), data: ongoing.public().to_vec() },
            Payload::Nonce(nonce.clone()),
            // Without this notification the gateway's Ed25519 key proves nothing, and EAP would not begin.
            Payload::Notify(Notify::new(NotifyType::SIGNATURE_HASH_ALGORITHMS, [0, 5])),
        ]
        .into_iter()
        .collect();
        let mut spis = Spis { initiator: 1, responder: 0 };
        let header = Header {
            spis,
            first: payloads.first(),
            exchange: Exchange::Init,
            is_from_initiator: true,
            is_response: false,
            message_id: 0,
        };
        let message = [&header.to_bytes(HEADER_BYTES + payloads.bytes().len()), payloads.bytes()].concat();
        let [from, to] = ends();
        gateway.handle(&message, from, to, now);
        let answer = gateway.poll_transmit().expect("a first message is answered").bytes;
        let header = Header::parse(&answer).expect("our own");
        spis.responder = header.spis.responder;
        let mut nonces = Nonces { initiator: nonce, responder: Vec::new() };
        let mut public = Vec::new();
        for payload in payload::parse_all(header.first, &answer[HEADER_BYTES..]).expect("our own") {
            match payload {
                Payload::KeyExchange { data, .. } => public = data,
                Payload::Nonce(nonce) => nonces.responder = nonce,
                _ => {}
            }
        }
        let shared = ongoing.finish(&public).expect("our own");
        let plan = KeyPlan { encryption: Encryption::Aes128Gcm, integrity: None, prf: Prf::HmacSha256 };
        let keys = IkeKeys::derive(plan, &seed(plan.prf, &nonces, &shared), &nonces, spis).expect("keys");
        Self { gateway, now, spis, keys, message_id: 1, eap: 0, answers: 0 }
    }

    /// Sends a message or a fragment with the contents of a script.
    fn send(&mut self, first: PayloadType, clear: &[u8], fragment: Option<[u8; 2]>) {
        let kind = if fragment.is_some() { PayloadType::ENCRYPTED_FRAGMENT } else { PayloadType::ENCRYPTED };
        let numbers: Vec<u8> = fragment.iter().flat_map(|[number, total]| [0, *number, 0, *total]).collect();
        let length = 4 + numbers.len() + self.keys.initiator.sealed_bytes(clear.len());
        let header = Header {
            spis: self.spis,
            first: kind,
            exchange: Exchange::Auth,
            is_from_initiator: true,
            is_response: false,
            message_id: self.message_id,
        };
        let mut message = header.to_bytes(HEADER_BYTES + length).to_vec();
        message.extend([first.0, 0]);
        message.extend((length as u16).to_be_bytes());
        message.extend(numbers);
        self.keys.initiator.seal(&mut message, clear).expect("the library works");
        let [from, to] = ends();
        self.gateway.handle(&message, from, to, self.now);
        while let Some(event) = self.gateway.poll_event() {
            assert!(matches!(event, Event::Down { .. }), "nothing was proved: {event:?}");
        }
        let mut has_answered = false;
        while let Some(transmit) = self.gateway.poll_transmit() {
            has_answered = true;
            let header = Header::parse(&transmit.bytes).expect("our own");
            let opened =
                self.keys.responder.open(&transmit.bytes, HEADER_BYTES + 4).expect("one datagram, our own");
            assert_eq!(header.message_id, self.message_id);
            for payload in
                payload::parse_all(PayloadType(transmit.bytes[HEADER_BYTES]), &opened).expect("our own")
            {
                if let Payload::Eap(packet) = payload {
                    self.eap = packet[1];
                }
            }
        }
        if has_answered {
            self.message_id += 1;
            self.answers += 1;
        }
    }

    fn step(&mut self, kind: u8, bytes: &[u8]) {
        let identity = |name: &[u8]| Payload::IdInitiator(Identification { kind: 2, data: name.to_vec() });
        let payloads: Payloads = match (kind % 5, bytes) {
            (0, [first, chain @ ..]) => return self.send(PayloadType(*first), chain, None),
            (1, [number, total, first, part @ ..]) => {
                return self.send(PayloadType(*first), part, Some([*number, *total]));
            }
            (2, name) => {
                let all = vec![TrafficSelector::network([0, 0, 0, 0].into(), 0)];
                let offer = Offer::esp("aes128gcm16").expect("a proposal").to_wire(1, vec![1; 4]);
                let payloads = [
                    identity(name),
                    Payload::SecurityAssociation(vec![offer]),
                    Payload::SelectorsInitiator(all.clone()),
                    Payload::SelectorsResponder(all),
                ];
                payloads.into_iter().collect()
            }
            (3, data) => {
                let mut packet = vec![2, self.eap];
                packet.extend((4 + data.len() as u16).to_be_bytes());
                packet.extend(data);
                [Payload::Eap(packet)].into_iter().collect()
            }
            (_, certificate) => {
                let payloads = [
                    identity(b"end.example"),
                    Payload::Certificate { encoding: 4, data: certificate.to_vec() },
                    Payload::Authentication { method: 14, data: vec![7; 72] },
                ];
                payloads.into_iter().collect()
            }
        };
        self.send(payloads.first(), payloads.bytes(), None);
    }
}

/// Follows a script. Returns the number of its messages that were answered.
///
/// # Panics
/// Panics if the gateway accepts a proof, or keeps state for ever.
pub fn follow(script: &[u8]) -> usize {
    let mut talk = Talk::begin();
    let mut rest = script;
    for _ in 0..MAX_STEPS {
        let Some((&[kind, high, low], behind)) = rest.split_first_chunk::<3>() else { break };
        let length = usize::from(u16::from_be_bytes([high, low])).min(behind.len()).min(32_768);
        let (bytes, behind) = behind.split_at(length);
        talk.step(kind, bytes);
        rest = behind;
    }
    let answers = talk.answers;
    let later = talk.now + Settings::default().half_open_timeout + Settings::default().retransmission.total();
    for _ in 0..4 {
        talk.gateway.handle_timeout(later);
    }
    assert_eq!(talk.gateway.sas(), 0, "a half-open one is kept for ever");
    answers
}
