//! A client with its own encoder for the order of messages, proposals and fragments, and a gateway of ours.

use std::{net::SocketAddr, time::Instant};

use sealane_ike::{
    Endpoint, Event, Identity,
    crypto::{
        Encryption, Integrity, KeyExchange, Ongoing, Prf,
        prf::Secret,
        sign::{self, Method, SigningKey},
    },
    eap::mschapv2::{PasswordHash, server_proof, session_key, user_proof},
    keys::{IkeKeys, KeyPlan, Nonces, mixed_seed, seed},
    wire::{
        Attribute, Configuration, ConfigurationType, Exchange, HEADER_BYTES, Header, Identification, Notify,
        NotifyType, Payload, PayloadType, Payloads, Proposal, Protocol, Spis, Transform, TransformType,
        payload,
    },
};

use crate::common::{Dice, network};

pub(super) const REDIRECT_SUPPORTED: NotifyType = NotifyType(16406);
/// Configuration attributes that only some clients ask for: mask, DHCP, NetBIOS, Microsoft's servers, DHCP of IPv6.
pub(super) const MASK: u16 = 2;
pub(super) const NBNS: u16 = 4;
pub(super) const DHCP: u16 = 6;
pub(super) const DHCP6: u16 = 12;
pub(super) const SERVER: u16 = 23456;
pub(super) const SERVER6: u16 = 23457;

/// Transforms of one type, by number and key length.
pub(super) type Row = (TransformType, &'static [(u16, u16)]);

pub(super) const E: TransformType = TransformType::ENCRYPTION;
pub(super) const F: TransformType = TransformType::PRF;
pub(super) const I: TransformType = TransformType::INTEGRITY;
pub(super) const D: TransformType = TransformType::KEY_EXCHANGE;
pub(super) const S: TransformType = TransformType::SEQUENCE_NUMBERS;
pub(super) const Q: TransformType = TransformType::additional_key_exchange(0);

pub(super) fn proposal(number: u8, protocol: Protocol, rows: &[Row]) -> Proposal {
    let transforms = rows.iter().flat_map(|(kind, ids)| {
        ids.iter().map(|&(id, bits)| Transform::new(*kind, id, (bits != 0).then_some(bits)))
    });
    let spi = if protocol == Protocol::Esp { vec![0xc0, 1, 2, number] } else { Vec::new() };
    Proposal { number, protocol, spi, transforms: transforms.collect() }
}

pub(super) fn ike(all: &[&[Row]]) -> Vec<Proposal> {
    (1..).zip(all).map(|(number, rows)| proposal(number, Protocol::Ike, rows)).collect()
}

pub(super) fn esp(all: &[&[Row]]) -> Vec<Proposal> {
    (1..).zip(all).map(|(number, rows)| proposal(number, Protocol::Esp, rows)).collect()
}

/// A client and its gateway.
pub(super) struct Client {
    pub(super) gateway: Endpoint,
    pub(super) now: Instant,
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) fragment_bytes: usize,
    pub(super) random: Dice,
    pub(super) spis: Spis,
    pub(super) nonces: Nonces,
    pub(super) request: Vec<u8>,
    pub(super) response: Vec<u8>,
    pub(super) plan: Option<KeyPlan>,
    pub(super) keys: Option<IkeKeys>,
    pub(super) int_auth: Option<[Secret; 2]>,
    pub(super) message_id: u32,
    pub(super) identity: Identification,
    pub(super) auth_id: u32,
    pub(super) events: Vec<Event>,
    /// SKEYSEED of the first keys.
    pub(super) skeyseed: Secret,
    /// All datagrams; `true` marks those of the client.
    pub(super) trace: Option<Vec<(bool, Vec<u8>)>>,
}

pub(super) fn notifies(payloads: &[Payload]) -> Vec<NotifyType> {
    let kinds = payloads.iter().filter_map(|payload| match payload {
        Payload::Notify(notify) => Some(notify.kind),
        _ => None,
    });
    kinds.collect()
}

pub(super) fn errors(payloads: &[Payload]) -> Vec<NotifyType> {
    notifies(payloads).into_iter().filter(|kind| kind.is_error()).collect()
}

pub(super) fn notify(kind: NotifyType, data: impl Into<Vec<u8>>) -> Payload {
    Payload::Notify(Notify::new(kind, data))
}

pub(super) fn asks(kinds: &[u16]) -> Payload {
    let attributes = kinds.iter().map(|&kind| Attribute { kind, value: Vec::new() }).collect();
    Payload::Configuration(Configuration { kind: ConfigurationType::Request, attributes })
}

impl Client {
    pub(super) fn new(gateway: Endpoint, identity: &Identity) -> Self {
        let mut random = Dice::new(7);
        Self {
            gateway,
            now: Instant::now(),
            from: "198.51.100.7:4711".parse().unwrap(),
            to: SocketAddr::new(crate::common::address(1), 500),
            fragment_bytes: 1200,
            spis: Spis { initiator: random.next(), responder: 0 },
            random,
            nonces: Nonces { initiator: Vec::new(), responder: Vec::new() },
            request: Vec::new(),
            response: Vec::new(),
            plan: None,
            keys: None,
            int_auth: None,
            message_id: 0,
            identity: identity.to_wire(),
            auth_id: 0,
            events: Vec::new(),
            skeyseed: Secret::default(),
            trace: None,
        }
    }

    pub(super) fn header(&self, first: PayloadType, exchange: Exchange) -> Header {
        let (spis, message_id) = (self.spis, self.message_id);
        Header { spis, first, exchange, is_from_initiator: true, is_response: false, message_id }
    }

    pub(super) fn deliver(&mut self, datagram: &[u8]) -> Vec<Vec<u8>> {
        let marker: &[u8] = if self.to.port() == 500 { &[] } else { &[0; 4] };
        let sent = [marker, datagram].concat();
        self.gateway.handle(&sent, self.from, self.to, self.now);
        self.trace.iter_mut().for_each(|trace| trace.push((true, sent.clone())));
        self.events.extend(std::iter::from_fn(|| self.gateway.poll_event()));
        let (gateway, trace) = (&mut self.gateway, &mut self.trace);
        let sent = std::iter::from_fn(|| gateway.poll_transmit());
        let stripped = sent.map(|transmit| {
            trace.iter_mut().for_each(|trace| trace.push((false, transmit.bytes.clone())));
            assert_eq!((transmit.path.remote, transmit.path.local), (self.from, self.to));
            transmit.bytes.strip_prefix(marker).expect("the marker").to_vec()
        });
        stripped.collect()
    }

    /// Sends the first message. Returns the answer.
    pub(super) fn begin(
        &mut self,
        proposals: &[Proposal],
        method: KeyExchange,
        more: &[Payload],
    ) -> Vec<Payload> {
        let ongoing = Ongoing::begin(method).unwrap();
        self.nonces.initiator = (0..4).flat_map(|_| self.random.next().to_be_bytes()).collect();
        let mut all = vec![
            Payload::SecurityAssociation(proposals.to_vec()),
            Payload::KeyExchange { method: method.number(), data: ongoing.public().to_vec() },
            Payload::Nonce(self.nonces.initiator.clone()),
        ];
        all.extend_from_slice(more);
        // The client is behind a NAT, as usual.
        all.extend(
            [NotifyType::NAT_DETECTION_SOURCE_IP, NotifyType::NAT_DETECTION_DESTINATION_IP]
                .map(|kind| notify(kind, [7; 20])),
        );
        let payloads: Payloads = all.into_iter().collect();
        let header = self.header(payloads.first(), Exchange::Init);
        self.request = [&header.to_bytes(HEADER_BYTES + payloads.bytes().len()), payloads.bytes()].concat();
        let request = self.request.clone();
        let mut answers = self.deliver(&request);
        assert_eq!(answers.len(), 1, "one answer");
        self.response = answers.remove(0);
        let header = Header::parse(&self.response).unwrap();
        let answered = payload::parse_all(header.first, &self.response[HEADER_BYTES..]).unwrap();
        let chosen = answered.iter().find_map(|payload| match payload {
            Payload::SecurityAssociation(chosen) => Some(&chosen[0]),
            _ => None,
        });
        let Some(chosen) = chosen else { return answered };
        self.spis.responder = header.spis.responder;
        let (mut shared, mut nonce) = (None, Vec::new());
        for payload in &answered {
            match payload {
                Payload::KeyExchange { data, .. } => shared = Some(data.clone()),
                Payload::Nonce(data) => nonce.clone_from(data),
                _ => {}
            }
        }
        self.nonces.responder = nonce;
        let of = |kind| chosen.of(kind).next().copied();
        let plan = KeyPlan {
            encryption: *Encryption::ALL.iter().find(|a| Some(a.transform()) == of(E)).unwrap(),
            integrity: Integrity::ALL.iter().find(|a| Some(a.transform()) == of(I)).copied(),
            prf: *Prf::ALL.iter().find(|a| Some(a.transform()) == of(F)).unwrap(),
        };
        let shared = ongoing.finish(&shared.unwrap()).unwrap();
        let seed = seed(plan.prf, &self.nonces, &shared);
        self.keys = Some(IkeKeys::derive(plan, &seed, &self.nonces, self.spis).unwrap());
        self.skeyseed = seed;
        self.plan = Some(plan);
        (self.message_id, self.to) = (1, SocketAddr::new(self.to.ip(), 4500));
        answered
    }

    pub(super) fn sealed(&mut self, header: Header, body: &[u8], numbers: &[u8]) -> Vec<u8> {
        let inner = header.first;
        let kind = if numbers.is_empty() { PayloadType::ENCRYPTED } else { PayloadType::ENCRYPTED_FRAGMENT };
        let sealer = &mut self.keys.as_mut().unwrap().initiator;
        let length = 4 + numbers.len() + sealer.sealed_bytes(body.len());
        let mut message = Header { first: kind, ..header }.to_bytes(HEADER_BYTES + length).to_vec();
        message.extend([inner.0, 0]);
        message.extend((length as u16).to_be_bytes());
        message.extend(numbers);
        sealer.seal(&mut message, body).unwrap();
        message
    }

    /// Sends an encrypted request, in fragments if it is long. Returns the answer.
    pub(super) fn ask(&mut self, exchange: Exchange, payloads: &Payloads) -> Vec<Payload> {
        let header = self.header(payloads.first(), exchange);
        let parts: Vec<&[u8]> = payloads.bytes().chunks(self.fragment_bytes - 80).collect();
        let mut answers = Vec::new();
        if parts.len() < 2 {
            let message = self.sealed(header, payloads.bytes(), &[]);
            answers = self.deliver(&message);
        } else {
            for (index, part) in parts.iter().enumerate() {
                let first = if index == 0 { header.first } else { PayloadType::NONE };
                let numbers = [0, index as u8 + 1, 0, parts.len() as u8];
                let message = self.sealed(Header { first, ..header }, part, &numbers);
                assert!(message.len() <= self.fragment_bytes);
                answers.extend(self.deliver(&message));
            }
        }
        self.message_id += 1;
        self.open(&answers).1
    }

    pub(super) fn open(&self, datagrams: &[Vec<u8>]) -> (Vec<u8>, Vec<Payload>) {
        let (mut clear, mut inner) = (Vec::new(), PayloadType::NONE);
        for datagram in datagrams {
            let header = Header::parse(datagram).unwrap();
            let is_fragment = header.first == PayloadType::ENCRYPTED_FRAGMENT;
            let body_at = HEADER_BYTES + 4 + if is_fragment { 4 } else { 0 };
            if clear.is_empty() {
                inner = PayloadType(datagram[HEADER_BYTES]);
            }
            clear.extend_from_slice(&self.keys.as_ref().unwrap().responder.open(datagram, body_at).unwrap());
        }
        let payloads = payload::parse_all(inner, &clear).unwrap();
        let mut authenticated = vec![inner.0];
        authenticated.extend(clear);
        (authenticated, payloads)
    }

    /// Performs the chosen additional key exchange in IKE_INTERMEDIATE.
    pub(super) fn intermediate(&mut self, method: KeyExchange) {
        let ongoing = Ongoing::begin(method).unwrap();
        let key_exchange = Payload::KeyExchange { method: method.number(), data: ongoing.public().to_vec() };
        let payloads: Payloads = [key_exchange].into_iter().collect();
        let header = self.header(payloads.first(), Exchange::Intermediate);
        let message = self.sealed(header, payloads.bytes(), &[]);
        let answers = self.deliver(&message);
        let (authenticated, answered) = self.open(&answers);
        let [Payload::KeyExchange { data, .. }] = &answered[..] else { panic!("{answered:?}") };
        let shared = ongoing.finish(data).unwrap();
        let (plan, keys) = (self.plan.unwrap(), self.keys.take().unwrap());
        // The header and the Encrypted payload's header are those of a message without encryption and fragments (RFC
        // 9242, section 3.3.2).
        let octets = |is_response: bool, inner: u8, clear: &[u8]| {
            let header = Header {
                first: PayloadType::ENCRYPTED,
                is_response,
                is_from_initiator: !is_response,
                ..header
            };
            let length = (clear.len() + 4) as u16;
            let mut octets = header.to_bytes(HEADER_BYTES + usize::from(length)).to_vec();
            octets.extend([inner, 0]);
            octets.extend(length.to_be_bytes());
            octets.extend(clear);
            octets
        };
        let (inner, clear) = authenticated.split_first().unwrap();
        self.int_auth = Some([
            plan.prf.compute(&keys.proof_initiator, &[&octets(false, payloads.first().0, payloads.bytes())]),
            plan.prf.compute(&keys.proof_responder, &[&octets(true, *inner, clear)]),
        ]);
        let seed = mixed_seed(plan.prf, &keys.derive, &self.nonces, &shared);
        self.keys = Some(IkeKeys::derive(plan, &seed, &self.nonces, self.spis).unwrap());
        self.message_id += 1;
    }

    pub(super) fn octets(&self, is_ours: bool, identity: &Identification) -> Vec<u8> {
        let (plan, keys) = (self.plan.unwrap(), self.keys.as_ref().unwrap());
        let (message, nonce, key) = if is_ours {
            (&self.request, &self.nonces.responder, &keys.proof_initiator)
        } else {
            (&self.response, &self.nonces.initiator, &keys.proof_responder)
        };
        let mut octets = [message, nonce, &plan.prf.compute(key, &[&identity.to_bytes()])[..]].concat();
        if let Some([initiator, responder]) = &self.int_auth {
            octets.extend_from_slice(initiator);
            octets.extend_from_slice(responder);
            octets.extend(self.auth_id.to_be_bytes());
        }
        octets
    }

    pub(super) fn proof(&self, key: &Secret, octets: &[u8]) -> Secret {
        let prf = self.plan.unwrap().prf;
        prf.compute(&prf.compute(key, &[b"Key Pad for IKEv2"]), &[octets])
    }

    /// Sends the first IKE_AUTH, with the client's identity and the payloads `more`. Returns the answer.
    pub(super) fn authenticate(&mut self, more: Vec<Payload>) -> Vec<Payload> {
        self.auth_id = self.message_id;
        let all = std::iter::once(Payload::IdInitiator(self.identity.clone())).chain(more);
        self.ask(Exchange::Auth, &all.collect())
    }

    /// Checks the gateway's proof with its public key.
    pub(super) fn check_gateway(&self, answered: &[Payload], key: &SigningKey, expected: Method) {
        let (mut identity, mut proof, mut has_certificate) = (None, None, false);
        for payload in answered {
            match payload {
                Payload::IdResponder(found) => identity = Some(found),
                Payload::Authentication { method, data } => proof = Some((Method(*method), data)),
                Payload::Certificate { encoding: 4, .. } => has_certificate = true,
                _ => {}
            }
        }
        assert!(has_certificate, "clients get a certificate although they did not ask for one");
        let identity = identity.unwrap();
        assert_eq!(Identity::from_wire(identity), Ok(Identity::from_text("end1.example")));
        let (method, data) = proof.unwrap();
        assert_eq!(method, expected);
        let octets = self.octets(false, identity);
        sign::verify(key.public_key(), method, sign::Allowed { sha1: true, ml_dsa: false }, &octets, data)
            .expect("the gateway's proof");
    }

    /// Performs EAP as a client with a password. Returns the last answer, after the proof with the conversation's
    /// key.
    pub(super) fn by_password(&mut self, answered: Vec<Payload>, user: &str, password: &str) -> Vec<Payload> {
        let mut answered = answered;
        let (hash, mut key, mut sent_proof) = (PasswordHash::of(password), None, None);
        let peer: [u8; 16] = [5; 16];
        for _ in 0..10 {
            let packet = answered.iter().find_map(|payload| match payload {
                Payload::Eap(packet) => Some(packet.clone()),
                _ => None,
            });
            let packet = packet.unwrap_or_else(|| panic!("{answered:?}"));
            let id = packet[1];
            let respond = |kind: u8, data: &[u8]| {
                let length = (5 + data.len()) as u16;
                let mut bytes = vec![2, id];
                bytes.extend(length.to_be_bytes());
                bytes.push(kind);
                bytes.extend(data);
                bytes
            };
            let answer = match (packet[0], packet.get(4)) {
                (3, _) => break,
                (4, _) => return answered,
                (1, Some(1)) => respond(1, user.as_bytes()),
                (1, Some(26)) if packet[5] == 1 => {
                    let challenge: [u8; 16] = packet[10..26].try_into().unwrap();
                    let proof = user_proof(&challenge, &peer, user, &hash);
                    sent_proof = Some((challenge, proof));
                    let mut data = vec![2, packet[6], 0, 54 + user.len() as u8, 49];
                    data.extend(peer);
                    data.extend([0; 8]);
                    data.extend(proof);
                    data.push(0);
                    data.extend(user.as_bytes());
                    respond(26, &data)
                }
                (1, Some(26)) if packet[5] == 3 => {
                    let (challenge, proof) = sent_proof.unwrap();
                    assert_eq!(packet[9..51], server_proof(&challenge, &peer, user, &hash, &proof));
                    key = Some(session_key(&hash, &proof));
                    respond(26, &[3])
                }
                (1, Some(26)) => respond(26, &[4]),
                // The client does not have this method: it asks for passwords.
                (1, Some(_)) => respond(3, &[26]),
                other => panic!("{other:?}"),
            };
            answered = self.ask(Exchange::Auth, &[Payload::Eap(answer)].into_iter().collect());
        }
        let key = key.expect("the gateway has proved that it knows the password");
        let proof = self.proof(&key, &self.octets(true, &self.identity)).to_vec();
        let proof = Payload::Authentication { method: Method::SHARED_KEY.0, data: proof };
        let answered = self.ask(Exchange::Auth, &[proof].into_iter().collect());
        let theirs = Identity::from_text("end1.example").to_wire();
        let expected = self.proof(&key, &self.octets(false, &theirs)).to_vec();
        assert!(answered.contains(&Payload::Authentication { method: Method::SHARED_KEY.0, data: expected }));
        answered
    }

    /// Renews the child's keys. Returns the answer.
    pub(super) fn rekey_child(
        &mut self,
        proposals: Vec<Proposal>,
        method: Option<KeyExchange>,
    ) -> Vec<Payload> {
        let mut payloads = Payloads::new();
        let ours = self.events.iter().rev().find_map(|event| match event {
            Event::Install(install) => Some(install.outbound.spi),
            _ => None,
        });
        payloads.push(&Payload::Notify(Notify::about_child(
            NotifyType::REKEY_SA,
            Protocol::Esp,
            ours.unwrap_or(0xc001_0201),
        )));
        payloads.push(&Payload::SecurityAssociation(proposals));
        payloads.push(&Payload::Nonce(vec![9; 32]));
        if let Some(method) = method {
            let data = Ongoing::begin(method).unwrap().public().to_vec();
            payloads.push(&Payload::KeyExchange { method: method.number(), data });
        }
        payloads.push(&Payload::SelectorsInitiator(vec![network("0.0.0.0/0")]));
        payloads.push(&Payload::SelectorsResponder(vec![network("0.0.0.0/0")]));
        self.ask(Exchange::CreateChild, &payloads)
    }

    /// Recomputes SK_ei and SK_er of a cipher without integrity keys, `length` bytes each (RFC 7296, section 2.14).
    pub(super) fn encryption_keys(&self, length: usize) -> [Vec<u8>; 2] {
        let prf = self.plan.unwrap().prf;
        let seed = [&self.nonces.initiator, &self.nonces.responder, &self.spis.to_bytes()[..]];
        let all = prf.plus(&self.skeyseed, &seed, prf.output_bytes() + 2 * length);
        let keys = &all[prf.output_bytes()..];
        [keys[..length].to_vec(), keys[length..].to_vec()]
    }

    /// Returns all datagrams as a capture of IPv4 packets.
    pub(super) fn capture(&self) -> Vec<u8> {
        let mut capture = Vec::new();
        for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 101] {
            capture.extend(word.to_le_bytes());
        }
        for (number, (is_ours, datagram)) in (0u32..).zip(self.trace.iter().flatten()) {
            let gateway =
                SocketAddr::new(self.to.ip(), if datagram.starts_with(&[0; 4]) { 4500 } else { 500 });
            let (from, to) = if *is_ours { (self.from, gateway) } else { (gateway, self.from) };
            let octets = |address: SocketAddr| match address.ip() {
                std::net::IpAddr::V4(address) => address.octets(),
                std::net::IpAddr::V6(_) => panic!("the test's addresses are of IPv4"),
            };
            let mut packet = vec![0x45, 0];
            packet.extend((28 + datagram.len() as u16).to_be_bytes());
            packet.extend([0, 0, 0, 0, 64, 17, 0, 0]);
            packet.extend(octets(from));
            packet.extend(octets(to));
            packet.extend(from.port().to_be_bytes());
            packet.extend(to.port().to_be_bytes());
            packet.extend((8 + datagram.len() as u16).to_be_bytes());
            packet.extend([0, 0]);
            packet.extend(datagram);
            for word in [number, 0, packet.len() as u32, packet.len() as u32] {
                capture.extend(word.to_le_bytes());
            }
            capture.extend(packet);
        }
        capture
    }

    pub(super) fn installed(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, Event::Install(_))).count()
    }

    pub(super) fn user(&self) -> Option<&str> {
        self.events.iter().find_map(|event| match event {
            Event::Established { user, .. } => Some(user.as_deref()),
            _ => None,
        })?
    }
}
