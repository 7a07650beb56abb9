//! Peers that speak IKEv2 (RFC 7296), as other gateways do.
//!
//! ```toml
//! [peers.ike]
//! id = "branch.example"
//! local-id = "hq.example"
//! local-networks = ["10.91.1.0/24"]
//! psk-file = "branch.psk"
//! ```
//!
//! In place of `psk-file`, the gateway can prove its identity by `private-key` with its `certificate`, and the peer
//! by a certificate of the authority `ca`, by its exact `public-key`, or by the `key` that `sealane id` prints there.
//! `crls` are lists of revoked certificates of that authority.
//!
//! One peer may stand for many clients, which get addresses of the site's [pool](super::pool):
//!
//! ```toml
//! [peers.ike]
//! any = true
//! local-id = "vpn.example.org"
//! private-key = "vpn.example.org.key"
//! certificate = "vpn.example.org.crt"
//! users-file = "users"
//! ```
//!
//! `users-file` has users with passwords (EAP-MSCHAPv2), `users-ca` is the authority of users with certificates
//! (EAP-TLS), and `ca` that of clients that prove themselves by certificates in IKE itself.
//!
//! ESP is sent in UDP, whether there is a NAT or not. With `encapsulation = "none"` beside `listen` it is sent as a
//! protocol of its own, and associations are refused to peers behind a NAT. `mode = "transport"` takes that; with a peer
//! that is no gateway of this program, the addresses inside are the outer ones.
//!
//! `protocol = "ah"` beside `listen` negotiates AH, with `ah-proposals` such as `sha256-x25519`.
//!
//! With `children = 4`, up to four pairs of associations share the peer's flows (RFC 9611), so that lanes do not all
//! count in one sequence and one replay window. Both ends must allow them; the others are told so. They share one UDP
//! port. It is one without a word, and with several [queues](super::queues) one for each.
//!
//! A gateway that is itself a client has `virtual-addresses = true`, and `user` with `password-file`, or with
//! `private-key` and `certificate`, if it is to prove itself by EAP.

mod proof;

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use sealane_ike::{Families, Identity, Offer, offer::OfferError};
use sealane_ipsec::{
    association::{Mode, Protocol},
    esp::Shape,
    selector::Prefix,
    suite::Suite,
};
use sealane_peer::PublicKey;
use serde::Deserialize;
use toml::Spanned;

use super::{Encapsulation, PORT_DEFAULT, REKEY_S_DEFAULT, RawPeer, Site, SiteError, Text, parsed_seconds};

/// The default proposals for IKE, the preferred one first.
const PROPOSALS_DEFAULT: [&str; 3] = [
    "aes256gcm16-prfsha384-x25519-ke1_mlkem768",
    "aes256gcm16-aes128gcm16-chacha20poly1305-prfsha384-prfsha256-x25519-ecp384-ecp256-modp3072-modp2048",
    "aes256-aes128-sha384-sha256-prfsha384-prfsha256-x25519-ecp384-ecp256-modp3072-modp2048",
];
/// The default proposals for ESP. Their packets have one layout, so that bursts have no gaps. The second one has no
/// key exchange, because a peer without one would refuse to rekey.
const ESP_PROPOSALS_DEFAULT: [&str; 2] = [
    "aes256gcm16-aes128gcm16-chacha20poly1305-x25519-ecp384-ecp256-modp3072-modp2048",
    "aes256gcm16-aes128gcm16-chacha20poly1305",
];
/// The default proposals for AH, likewise.
const AH_PROPOSALS_DEFAULT: [&str; 2] = ["sha256-x25519-ecp384-ecp256-modp3072-modp2048", "sha256"];
/// The default age in seconds at which an IKE SA gets new keys.
const IKE_REKEY_S_DEFAULT: u32 = 14_400;
/// The maximum number of networks of one side: a message has room for 32 selectors, and the packet that causes the
/// request needs one of them.
const NETWORKS_MAX: usize = 31;
/// The maximum number of children that share the flows of a peer.
const CHILDREN_MAX: u16 = 64;
/// The maximum length of an identity in bytes.
const IDENTITY_BYTES_MAX: usize = 255;

/// The authorities that answer for a peer's certificate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Trust {
    /// The file of their certificates, in PEM.
    pub authorities: PathBuf,
    /// The files of their lists of revoked certificates, in PEM or DER.
    pub revocations: Vec<PathBuf>,
}

/// The proof of an end's identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Both ends have the secret in this file.
    Shared(PathBuf),
    /// The keys are in these files.
    Keys {
        /// Our private key, PKCS #8 in PEM; `None` for the gateway's own key.
        private: Option<PathBuf>,
        /// Its certificate in PEM, which may be followed by intermediate certificates; `None` if the peer has our
        /// public key.
        certificate: Option<PathBuf>,
        /// The verification of the peer.
        peer: Known,
    },
    /// We are a user of the peer, and prove it by EAP.
    User {
        /// The user's name.
        name: String,
        /// The proof.
        secret: UserSecret,
        /// The verification of the peer.
        server: Trust,
    },
    /// The peers are many clients.
    Clients {
        /// Our private key.
        private: PathBuf,
        /// Its certificate in PEM, which may be followed by intermediate certificates.
        certificate: PathBuf,
        /// The file of users with passwords.
        users: Option<PathBuf>,
        /// The authorities of users with certificates.
        users_trust: Option<Trust>,
        /// The authorities of clients that prove themselves without EAP.
        trust: Option<Trust>,
    },
}

impl Proof {
    /// Returns the files that it names; `own_key` is the file of the gateway's own key.
    pub fn files(&self, own_key: Option<&Path>) -> Vec<PathBuf> {
        let of_trust = |trust: &Trust| -> Vec<PathBuf> {
            std::iter::once(&trust.authorities).chain(&trust.revocations).cloned().collect()
        };
        let mut files = Vec::new();
        match self {
            Self::Shared(path) => files.push(path.clone()),
            Self::Keys { private, certificate, peer } => {
                files.extend(private.clone().or_else(|| own_key.map(Path::to_owned)));
                files.extend(certificate.clone());
                match peer {
                    Known::Authorities(trust) => files.extend(of_trust(trust)),
                    Known::PublicKey(path) => files.push(path.clone()),
                    Known::Key(_) => {}
                }
            }
            Self::User { secret, server, .. } => {
                match secret {
                    UserSecret::Password(path) => files.push(path.clone()),
                    UserSecret::Certificate { private, certificate } => {
                        files.extend([private.clone(), certificate.clone()]);
                    }
                }
                files.extend(of_trust(server));
            }
            Self::Clients { private, certificate, users, users_trust, trust } => {
                files.extend([private.clone(), certificate.clone()]);
                files.extend(users.clone());
                files.extend(users_trust.iter().chain(trust).flat_map(of_trust));
            }
        }
        files
    }
}

/// The verification of a peer that signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// Its certificate is issued by one of these authorities.
    Authorities(Trust),
    /// Its public key is in this file, in PEM.
    PublicKey(PathBuf),
    /// It has this key, as `sealane id` prints it.
    Key(PublicKey),
}

/// The proof of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserSecret {
    /// The password in this file.
    Password(PathBuf),
    /// A certificate of the user and its private key, in these files.
    Certificate {
        /// The private key, PKCS #8 in PEM.
        private: PathBuf,
        /// The certificate in PEM, which may be followed by intermediate certificates.
        certificate: PathBuf,
    },
}

/// A peer that speaks IKEv2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IkePeer {
    /// The peer's identity; `None` if the entry stands for many clients.
    pub id: Option<String>,
    /// Our identity for the peer.
    pub local_id: String,
    /// The networks on our side.
    pub local_networks: Vec<Prefix>,
    /// The families of the addresses that we ask the peer for.
    pub asks_for: Families,
    /// The resolvers that the peer names are used.
    pub takes_resolvers: bool,
    /// The proofs of both ends' identities.
    pub proof: Proof,
    /// The proposals for IKE, the preferred one first.
    pub proposals: Vec<Offer>,
    /// The proposals for ESP, or for AH if that is the site's protocol.
    pub child_proposals: Vec<Offer>,
    /// The number of children that share the peer's flows, the first one included.
    pub children: u16,
    /// The age at which associations get successors.
    pub rekey: Duration,
    /// The age at which an IKE SA gets new keys.
    pub ike_rekey: Duration,
}

impl IkePeer {
    /// Returns the suites of the proposals for ESP or AH.
    pub fn suites(&self) -> impl Iterator<Item = Suite> {
        self.child_proposals
            .iter()
            .flat_map(Offer::child_suites)
            .map(|suite| suite.name().parse().expect("crate `ike` names suites as crate `ipsec` does"))
    }

    /// Returns the suite among them that adds the most to a packet.
    pub fn largest_suite(&self) -> Suite {
        let added = |suite: &Suite| {
            let shape = Shape::of(*suite);
            shape.header_bytes() + shape.align_bytes() + shape.check_bytes()
        };
        self.suites().max_by_key(added).expect("a proposal has a suite")
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawIke {
    id: Option<Spanned<String>>,
    #[serde(default)]
    any: bool,
    local_id: Option<Spanned<String>>,
    #[serde(default)]
    local_networks: Vec<Spanned<String>>,
    virtual_addresses: Option<Spanned<bool>>,
    peer_dns: Option<Spanned<bool>>,
    psk_file: Option<Spanned<PathBuf>>,
    private_key: Option<Spanned<PathBuf>>,
    certificate: Option<Spanned<PathBuf>>,
    ca: Option<Spanned<PathBuf>>,
    #[serde(default)]
    crls: Vec<Spanned<PathBuf>>,
    public_key: Option<Spanned<PathBuf>>,
    key: Option<Spanned<String>>,
    user: Option<Spanned<String>>,
    password_file: Option<Spanned<PathBuf>>,
    users_file: Option<Spanned<PathBuf>>,
    users_ca: Option<Spanned<PathBuf>>,
    #[serde(default)]
    proposals: Vec<Spanned<String>>,
    #[serde(default)]
    esp_proposals: Vec<Spanned<String>>,
    #[serde(default)]
    ah_proposals: Vec<Spanned<String>>,
    ike_rekey_seconds: Option<Spanned<u32>>,
    children: Option<Spanned<u16>>,
}

impl RawIke {
    /// Returns whether the entry stands for many clients.
    pub(super) fn is_many(&self) -> bool {
        self.any
    }
}

/// Reads the `[peers.ike]` table of a peer. `site` has everything but peers.
pub(super) fn read(
    place: &Text<'_>,
    peer: &RawPeer,
    raw: &Spanned<RawIke>,
    (networks, mode): (&[Prefix], Mode),
    site: &Site,
) -> Result<IkePeer, SiteError> {
    fit(place, peer, raw, mode, site)?;
    let OurSide { networks: local_networks, is_virtual, takes_resolvers } = our_side(place, peer, raw, site)?;
    let (at, raw) = (raw.span().start, raw.get_ref());
    if networks.len() > NETWORKS_MAX || local_networks.len() > NETWORKS_MAX {
        let message = format!("IKE agrees on {NETWORKS_MAX} networks of each side at most");
        return Err(place.error(Some(at), message));
    }
    let asks = |is_of_family: fn(&IpAddr) -> bool| {
        is_virtual && networks.iter().any(|network| is_of_family(&network.address()))
    };
    Ok(IkePeer {
        id: peer_id(place, at, raw)?,
        local_id: local_id(place, at, raw)?,
        local_networks,
        asks_for: Families { ipv4: asks(IpAddr::is_ipv4), ipv6: asks(IpAddr::is_ipv6) },
        takes_resolvers,
        proof: proof::read(place, at, raw)?,
        proposals: offers(place, &raw.proposals, &PROPOSALS_DEFAULT, Offer::ike)?,
        child_proposals: match site.protocol {
            Protocol::Esp => offers(place, &raw.esp_proposals, &ESP_PROPOSALS_DEFAULT, Offer::esp)?,
            Protocol::Ah => offers(place, &raw.ah_proposals, &AH_PROPOSALS_DEFAULT, Offer::ah)?,
        },
        children: children(place, raw, site.queues.get())?,
        rekey: parsed_seconds(place, peer.rekey_seconds.as_ref(), REKEY_S_DEFAULT)?,
        ike_rekey: parsed_seconds(place, raw.ike_rekey_seconds.as_ref(), IKE_REKEY_S_DEFAULT)?,
    })
}

/// Checks that the table fits the gateway, and the other words of the peer.
fn fit(
    place: &Text<'_>,
    peer: &RawPeer,
    raw: &Spanned<RawIke>,
    mode: Mode,
    site: &Site,
) -> Result<(), SiteError> {
    let (at, raw) = (raw.span().start, raw.get_ref());
    let fail = |at: usize, message: &str| Err(place.error(Some(at), message));
    if site.protocol == Protocol::Ah && raw.any {
        return fail(at, "clients take ESP: leave out `protocol`");
    }
    let others = if site.protocol == Protocol::Ah { &raw.esp_proposals } else { &raw.ah_proposals };
    if let Some(word) = others.first() {
        let message = "`esp-proposals` are for ESP, and `ah-proposals` for a gateway with protocol = \"ah\"";
        return fail(word.span().start, message);
    }
    if site.listen.port() != PORT_DEFAULT {
        let message =
            format!("IKE is spoken on UDP ports 500 and {PORT_DEFAULT}: listen on port {PORT_DEFAULT}");
        return fail(at, &message);
    }
    if let (Mode::Transport, Some(word), Encapsulation::Udp) = (mode, &peer.mode, site.encapsulation) {
        let message = "with `ike`, transport mode takes ESP as a protocol of its own: say encapsulation = \"none\", too";
        return fail(word.span().start, message);
    }
    match &peer.suite {
        Some(word) => fail(
            word.span().start,
            "a peer with `ike` has `esp-proposals` or `ah-proposals` in place of `suite`",
        ),
        None => Ok(()),
    }
}

/// Our side of the tunnel.
struct OurSide {
    networks: Vec<Prefix>,
    /// The peer gives us our addresses.
    is_virtual: bool,
    takes_resolvers: bool,
}

/// Returns our side: networks of ours, or whatever the peer gives us.
fn our_side(
    place: &Text<'_>,
    peer: &RawPeer,
    raw: &Spanned<RawIke>,
    site: &Site,
) -> Result<OurSide, SiteError> {
    let (at, raw) = (raw.span().start, raw.get_ref());
    let fail = |at: usize, message: &str| Err(place.error(Some(at), message));
    let is_virtual = raw.virtual_addresses.as_ref().filter(|word| *word.get_ref());
    if let (Some(word), None) = (is_virtual, &peer.endpoint) {
        return fail(word.span().start, "we ask for addresses when we begin: give the peer its `endpoint`");
    }
    let peer_dns = raw.peer_dns.as_ref().filter(|word| *word.get_ref());
    if let (Some(word), None) = (peer_dns, is_virtual) {
        return fail(word.span().start, "resolvers come with addresses: set `virtual-addresses` too");
    }
    let networks = match (is_virtual, raw.local_networks.first()) {
        (None, _) => local_networks(place, at, raw, site)?,
        (Some(_), None) => vec![Prefix::ALL_V4, Prefix::ALL_V6],
        (Some(_), Some(word)) => {
            let message = "with `virtual-addresses` our side is the address that the peer gives us";
            return fail(word.span().start, message);
        }
    };
    Ok(OurSide { networks, is_virtual: is_virtual.is_some(), takes_resolvers: peer_dns.is_some() })
}

/// Returns the peer's identity; `None` if the entry stands for many clients.
fn peer_id(place: &Text<'_>, at: usize, raw: &RawIke) -> Result<Option<String>, SiteError> {
    let fail = |at: usize, message: &str| Err(place.error(Some(at), message));
    match (&raw.id, raw.any) {
        (Some(id), false) => identity(place, id).map(Some),
        (None, true) => Ok(None),
        (Some(id), true) => fail(id.span().start, "`any` stands for every client, so there is no `id`"),
        (None, false) => fail(at, "who is the peer? Give its `id`, or `any = true` for many clients"),
    }
}

/// Returns our identity for the peer, which is our name as its user unless the table says otherwise.
fn local_id(place: &Text<'_>, at: usize, raw: &RawIke) -> Result<String, SiteError> {
    match raw.local_id.as_ref().or(raw.user.as_ref()) {
        Some(word) => identity(place, word),
        None => Err(place.error(Some(at), "who are we to the peer? Give `local-id`")),
    }
}

/// Returns an identity that a peer can send.
fn identity(place: &Text<'_>, word: &Spanned<String>) -> Result<String, SiteError> {
    let text = word.get_ref();
    if (1..=IDENTITY_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control) {
        let is_name = matches!(Identity::from_text(text), Identity::DistinguishedName(_));
        // No host's name has such a sign.
        if is_name || !text.contains('=') {
            return Ok(text.clone());
        }
    }
    let message = "an identity is a host name, a mail address, an IP address or a distinguished name (C=CH, O=Example, \
                   CN=vpn.example: in the order of the certificate), as the peer's configuration has it";
    Err(place.error(Some(word.span().start), message))
}

/// Returns the proposals that the words stand for; without words, `defaults`.
fn offers(
    place: &Text<'_>,
    words: &[Spanned<String>],
    defaults: &[&str],
    read: fn(&str) -> Result<Offer, OfferError>,
) -> Result<Vec<Offer>, SiteError> {
    if words.is_empty() {
        return Ok(defaults.iter().map(|text| read(text).expect("a good proposal")).collect());
    }
    let read = |word: &Spanned<String>| {
        read(word.get_ref()).map_err(|error| place.error(Some(word.span().start), error))
    };
    words.iter().map(read).collect()
}

/// Returns the number of children that share the peer's flows: one for each queue of the device, unless the file says otherwise.
fn children(place: &Text<'_>, raw: &RawIke, queues: u16) -> Result<u16, SiteError> {
    let Some(word) = &raw.children else { return Ok(if raw.is_many() { 1 } else { queues }) };
    let fail = |message: String| Err(place.error(Some(word.span().start), message));
    if raw.any {
        return fail("clients have one child each: leave out `children`".to_owned());
    }
    match *word.get_ref() {
        count @ 1..=CHILDREN_MAX => Ok(count),
        _ => fail(format!("a peer has from 1 to {CHILDREN_MAX} children")),
    }
}

/// Returns the networks of our side: those in the table, or those of the gateway's own addresses.
fn local_networks(place: &Text<'_>, at: usize, raw: &RawIke, site: &Site) -> Result<Vec<Prefix>, SiteError> {
    let named: Vec<Prefix> =
        raw.local_networks.iter().map(|word| place.parsed(word)).collect::<Result<_, _>>()?;
    if !named.is_empty() {
        return Ok(named);
    }
    let own: Vec<Prefix> =
        site.addresses.iter().map(|&(address, bits)| Prefix::containing(address, bits)).collect();
    if own.is_empty() {
        let message = "the peer must know which networks are on our side: name them in `local-networks`";
        return Err(place.error(Some(at), message));
    }
    Ok(own)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::site::Keys;

    const HEAD: &str = "device = \"sl0\"\nlisten = \"0.0.0.0:4500\"\naddresses = [\"10.91.1.1/24\"]\n[[peers]]\nname = \"branch\"\n\
                        networks = [\"10.91.2.0/24\"]\n";

    fn parse(text: &str) -> Result<Site, SiteError> {
        Site::parse(Path::new("/etc/sealane/site.toml"), text)
    }

    fn peer(ike: &str) -> Result<IkePeer, SiteError> {
        let text = format!("{HEAD}[peers.ike]\nid = \"branch.example\"\nlocal-id = \"hq.example\"\n{ike}\n");
        match parse(&text)?.peers.remove(0).keys {
            Keys::Ike(peer) => Ok(*peer),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_peer_that_speaks_ike_takes_three_lines() {
        let peer = peer("psk-file = \"branch.psk\"").expect("a good file");
        assert_eq!(peer.proof, Proof::Shared("/etc/sealane/branch.psk".into()));
        assert_eq!(peer.local_networks, ["10.91.1.0/24".parse().expect("a network")]);
        assert_eq!((peer.rekey.as_secs(), peer.ike_rekey.as_secs(), peer.children), (600, 14_400, 1));
        assert_eq!(peer.largest_suite().material_bytes(), 36);
        let shapes: Vec<Shape> = peer.suites().map(Shape::of).collect();
        assert!(shapes.iter().all(|shape| *shape == shapes[0]), "bursts would have gaps");
        let short =
            HEAD.to_owned() + "ike = { id = \"b\", local-id = \"a\", psk-file = \"k\" }\nrekey-seconds = 5\n";
        assert!(parse(&short).is_ok());
    }

    #[test]
    fn keys_certificates_and_proposals_are_read() {
        let own = peer(
            "private-key = \"hq.key\"\ncertificate = \"hq.crt\"\nca = \"ca.crt\"\nesp-proposals = [\"aes128-sha256\"]\n\
             local-networks = [\"10.7.0.0/16\"]\nike-rekey-seconds = 60\nchildren = 4",
        );
        let own = own.expect("a good file");
        let Proof::Keys { private, certificate, peer: known } = &own.proof else { panic!("{own:?}") };
        assert_eq!(private.as_deref(), Some(Path::new("/etc/sealane/hq.key")));
        assert_eq!(certificate.as_deref(), Some(Path::new("/etc/sealane/hq.crt")));
        let trust = Trust { authorities: "/etc/sealane/ca.crt".into(), revocations: Vec::new() };
        assert_eq!(*known, Known::Authorities(trust));
        assert_eq!(own.largest_suite().to_string(), "aes-128-cbc+hmac-sha256-128");
        assert_eq!(own.local_networks, ["10.7.0.0/16".parse().expect("a network")]);
        assert_eq!((own.ike_rekey.as_secs(), own.children), (60, 4));
    }

    #[test]
    fn a_gateway_of_ah_negotiates_integrity_alone() {
        let text = |more: &str| {
            let head = HEAD.replace(
                "listen = \"0.0.0.0",
                "protocol = \"ah\"\nencapsulation = \"none\"\nlisten = \"192.0.2.1",
            );
            format!("{head}[peers.ike]\nid = \"b\"\nlocal-id = \"a\"\npsk-file = \"k\"\n{more}\n")
        };
        let kind = |more: &str| parse(&text(more)).map(|site| site.peers[0].kind().to_string());
        assert_eq!(kind("").expect("a good file"), "ah hmac-sha256-128");
        assert_eq!(kind("ah-proposals = [\"sha512\"]").expect("a good file"), "ah hmac-sha512-256");
        for (more, says) in [
            ("esp-proposals = [\"aes256gcm16\"]", "are for ESP"),
            ("ah-proposals = [\"aes256gcm16\"]", "encrypts nothing"),
        ] {
            let error = kind(more).expect_err(more).to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn a_peer_has_the_key_that_its_identity_file_has() {
        let key = "sealane1:izc2lja226xppxb4oyeqgtk3qsnyrwvyxf2cd6rsaswzyvljxqhdyaz4";
        let peer = peer(&format!("key = \"{key}\"")).expect("a good file");
        let known = Known::Key(key.parse().expect("a key"));
        assert_eq!(peer.proof, Proof::Keys { private: None, certificate: None, peer: known });
    }

    #[test]
    fn a_hybrid_key_is_none_of_ike() {
        let key = sealane_peer::Identity::generate_hybrid().expect("a key").public_key();
        let error = peer(&format!("key = \"{key}\"")).expect_err("a hybrid key").to_string();
        assert!(error.contains("IKE has no hybrid keys"), "{error}");
    }

    const POOL: &str = "[pool]\nnetworks = [\"10.99.0.0/24\", \"fd99::/64\"]\ndns = [\"10.91.1.53\"]\n";
    const CLIENTS: &str = "any = true\nlocal-id = \"vpn.example\"\nprivate-key = \"a.key\"\ncertificate = \"a.crt\"\n\
                           users-file = \"users\"\nca = \"ca.crt\"\ncrls = [\"ca.crl\"]\n";

    /// Returns a site with one entry for many clients.
    fn with_clients(ike: &str) -> String {
        let head = "device = \"sl0\"\nlisten = \"0.0.0.0:4500\"\naddresses = [\"10.91.1.1/24\"]\n";
        format!("{head}{POOL}[[peers]]\nname = \"phones\"\n[peers.ike]\n{ike}")
    }

    #[test]
    fn one_entry_stands_for_many_clients_with_addresses_of_the_pool() {
        let site = parse(&with_clients(CLIENTS)).expect("a good file");
        let pool = site.pool.as_ref().expect("a pool");
        assert_eq!(site.peers[0].networks, pool.networks);
        assert_eq!(pool.ranges.len(), 2);
        let Keys::Ike(ike) = &site.peers[0].keys else { panic!("{site:?}") };
        assert_eq!(ike.id, None);
        let Proof::Clients { users, users_trust: None, trust: Some(trust), .. } = &ike.proof else {
            panic!("{ike:?}")
        };
        assert_eq!(users.as_deref(), Some(Path::new("/etc/sealane/users")));
        assert_eq!(trust.revocations, [Path::new("/etc/sealane/ca.crl")]);
    }

    #[test]
    fn what_clients_cannot_have_is_explained() {
        let good = with_clients(CLIENTS);
        for (from, to, says) in [
            (POOL, "", "[pool]"),
            ("any = true", "id = \"a\"\nany = true", "there is no `id`"),
            ("any = true\nlocal-id", "local-id", "without networks"),
            ("any = true", "any = true\npsk-file = \"psk\"", "pass for the gateway"),
            ("any = true", "any = true\nchildren = 2", "one child each"),
            ("any = true", "any = true\nvirtual-addresses = true", "give the peer its `endpoint`"),
            ("users-file = \"users\"\nca = \"ca.crt\"", "", "how do clients prove"),
            ("certificate = \"a.crt\"", "", "know the gateway by its certificate"),
            ("[peers.ike]", "endpoint = \"192.0.2.1:4500\"\n[peers.ike]", "clients begin"),
            ("[peers.ike]", "networks = [\"10.98.0.0/24\"]\n[peers.ike]", "networks of the pool"),
            ("10.99.0.0/24", "10.91.1.0/24", "own network"),
            ("10.99.0.0/24", "fd99::/16", "another network"),
            ("\"10.91.1.53\"", "\"a\"", "address of a resolver"),
        ] {
            let error = parse(&good.replacen(from, to, 1)).expect_err(to).to_string();
            assert!(error.contains(says), "{to}: {error}");
        }
        let unused = good.split("[[peers]]").next().expect("the head");
        let error = parse(unused).expect_err("nobody uses the pool").to_string();
        assert!(error.contains("any = true"), "{error}");
    }

    #[test]
    fn we_may_be_a_user_with_addresses_of_the_peer() {
        let head = HEAD
            .replace("addresses = [\"10.91.1.1/24\"]\n", "")
            .replace("networks", "endpoint = \"198.51.100.7:4500\"\nnetworks");
        let user = "virtual-addresses = true\npeer-dns = true\nuser = \"alice\"\npassword-file = \"pw\"\nca = \"ca.crt\"\n";
        let text = format!("{head}[peers.ike]\nid = \"vpn.example\"\n{user}");
        let site = parse(&text).expect("a good file");
        let Keys::Ike(ike) = &site.peers[0].keys else { panic!("{site:?}") };
        assert_eq!((ike.local_id.as_str(), ike.asks_for.ipv4, ike.asks_for.ipv6), ("alice", true, false));
        assert!(matches!(&ike.proof, Proof::User { secret: UserSecret::Password(_), .. }), "{ike:?}");
        for (from, to, says) in [
            ("virtual-addresses = true\n", "", "set `virtual-addresses`"),
            ("endpoint = \"198.51.100.7:4500\"\n", "", "give the peer its `endpoint`"),
            ("ca = \"ca.crt\"\n", "", "knows the peer by `ca`"),
            ("password-file = \"pw\"\n", "", "a `user` has"),
            ("user = \"alice\"\n", "local-id = \"a\"\n", "whose password"),
            ("user", "local-networks = [\"10.1.0.0/16\"]\nuser", "our side is the address"),
        ] {
            let error = parse(&text.replacen(from, to, 1)).expect_err(says).to_string();
            assert!(error.contains(says), "{says}: {error}");
        }
    }

    #[test]
    fn what_cannot_be_is_explained() {
        for (ike, says) in [
            ("", "no proof"),
            ("psk-file = \"a\"\nca = \"b\"", "stands alone"),
            ("private-key = \"a\"", "how is the peer known"),
            ("private-key = \"a\"\nca = \"b\"\npublic-key = \"c\"", "known twice"),
            ("psk-file = \"a\"\nproposals = [\"rot13\"]", "is no algorithm"),
            ("psk-file = \"a\"\nesp-proposals = [\"aes256\"]", "needs an integrity"),
            ("psk-file = \"a\"\nike-rekey-seconds = 0", "from 1 to 86400"),
            ("psk-file = \"a\"\nlocal-networks = [\"10.1.2.3/16\"]", "did you mean"),
            ("psk-file = \"a\"\nchildren = 0", "from 1 to 64"),
            ("psk-file = \"a\"\nchildren = 65", "from 1 to 64"),
        ] {
            let error = peer(ike).expect_err(ike).to_string();
            assert!(error.contains(says), "{error}");
        }
        let whole = HEAD.to_owned() + "ike = { id = \"b\", local-id = \"a\", psk-file = \"k\" }\n";
        for (from, to, says) in [
            (":4500", ":4501", "listen on port 4500"),
            ("psk-file", "ah-proposals = [\"sha256\"], psk-file", "are for ESP"),
            (
                "networks = [\"10.91.2.0/24\"]",
                "networks = [\"10.91.2.1/32\"]\nmode = \"transport\"",
                "encapsulation = \"none\"",
            ),
            ("addresses = [\"10.91.1.1/24\"]\n", "", "local-networks"),
            ("name", "suite = \"aes-256-gcm\"\nname", "esp-proposals"),
            ("name", "key = \"sealane1:x\"\nname", "keys twice"),
        ] {
            let error = parse(&whole.replacen(from, to, 1)).expect_err(to).to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
