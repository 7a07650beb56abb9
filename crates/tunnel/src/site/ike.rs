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
//! by a certificate of the authority `ca` or by its exact `public-key`.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use sealane_ike::Offer;
use sealane_ipsec::{
    association::{Mode, Protocol},
    esp::Shape,
    selector::Prefix,
    suite::Suite,
};
use serde::Deserialize;
use toml::Spanned;

use super::{Encapsulation, PORT_DEFAULT, REKEY_S_DEFAULT, RawPeer, Site, SiteError, Text, parsed_seconds};

/// The default proposals for IKE, the preferred one first.
const PROPOSALS_DEFAULT: [&str; 3] = [
    "aes256gcm16-prfsha384-x25519-ke1_mlkem768",
    "aes256gcm16-aes128gcm16-chacha20poly1305-prfsha384-prfsha256-x25519-ecp384-ecp256-modp3072-modp2048",
    "aes256-aes128-sha384-sha256-prfsha384-prfsha256-x25519-ecp384-ecp256-modp3072-modp2048",
];
/// The default proposals for ESP. Their packets have one layout, so that trains have no gaps. The second one has no
/// key exchange, because a peer without one would refuse to rekey.
const ESP_PROPOSALS_DEFAULT: [&str; 2] = [
    "aes256gcm16-aes128gcm16-chacha20poly1305-x25519-ecp384-ecp256-modp3072-modp2048",
    "aes256gcm16-aes128gcm16-chacha20poly1305",
];
/// The default age in seconds at which an IKE SA gets new keys.
const IKE_REKEY_S_DEFAULT: u32 = 14_400;
/// The maximum number of networks of one side: a message has room for 32 selectors, and the packet that causes the
/// request needs one of them.
const NETWORKS_MAX: usize = 31;
/// The maximum length of an identity in bytes.
const IDENTITY_BYTES_MAX: usize = 255;

/// The proof of an end's identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Both ends have the secret in this file.
    Shared(PathBuf),
    /// The keys are in these files.
    Keys {
        /// Our private key, PKCS #8 in PEM.
        private: PathBuf,
        /// Its certificate in PEM, which may be followed by intermediate certificates; `None` if the peer has our
        /// public key.
        certificate: Option<PathBuf>,
        /// The verification of the peer.
        peer: Known,
    },
}

/// The verification of a peer that signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// Its certificate is issued by one of the authorities in this file, in PEM.
    Authorities(PathBuf),
    /// Its public key is in this file, in PEM.
    PublicKey(PathBuf),
}

/// A peer that speaks IKEv2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IkePeer {
    /// The peer's identity.
    pub id: String,
    /// Our identity for the peer.
    pub local_id: String,
    /// The networks on our side.
    pub local_networks: Vec<Prefix>,
    /// The proofs of both ends' identities.
    pub proof: Proof,
    /// The proposals for IKE, the preferred one first.
    pub proposals: Vec<Offer>,
    /// The proposals for ESP.
    pub esp_proposals: Vec<Offer>,
    /// The age at which associations get successors.
    pub rekey: Duration,
    /// The age at which an IKE SA gets new keys.
    pub ike_rekey: Duration,
}

impl IkePeer {
    /// Returns the suites of the ESP proposals.
    pub fn suites(&self) -> impl Iterator<Item = Suite> {
        self.esp_proposals
            .iter()
            .flat_map(Offer::esp_suites)
            .map(|suite| suite.name().parse().expect("crate `ike` names suites as crate `ipsec` does"))
    }

    /// Returns the suite among them that adds the most to a packet.
    pub fn largest_suite(&self) -> Suite {
        let added = |suite: &Suite| {
            let shape = Shape::of(*suite);
            shape.header_bytes() + shape.align_bytes() + shape.check_bytes()
        };
        self.suites().max_by_key(added).expect("a proposal has an encryption")
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawIke {
    id: Spanned<String>,
    local_id: Spanned<String>,
    #[serde(default)]
    local_networks: Vec<Spanned<String>>,
    psk_file: Option<Spanned<PathBuf>>,
    private_key: Option<Spanned<PathBuf>>,
    certificate: Option<Spanned<PathBuf>>,
    ca: Option<Spanned<PathBuf>>,
    public_key: Option<Spanned<PathBuf>>,
    #[serde(default)]
    proposals: Vec<Spanned<String>>,
    #[serde(default)]
    esp_proposals: Vec<Spanned<String>>,
    ike_rekey_seconds: Option<Spanned<u32>>,
}

/// Reads the `[peers.ike]` table of a peer. `site` has everything but peers.
pub(super) fn read(
    place: &Text<'_>,
    peer: &RawPeer,
    raw: &Spanned<RawIke>,
    mode: Mode,
    site: &Site,
) -> Result<IkePeer, SiteError> {
    let (at, raw) = (raw.span().start, raw.get_ref());
    let fail = |at: usize, message: String| Err(place.error(Some(at), message));
    if site.protocol == Protocol::Ah || site.encapsulation == Encapsulation::None {
        return fail(
            at,
            "a peer with `ike` takes ESP in UDP: leave out `protocol` and `encapsulation`".to_owned(),
        );
    }
    if site.listen.port() != PORT_DEFAULT {
        let message =
            format!("IKE is spoken on UDP ports 500 and {PORT_DEFAULT}: listen on port {PORT_DEFAULT}");
        return fail(at, message);
    }
    if let (Mode::Transport, Some(word)) = (mode, &peer.mode) {
        let message = "a peer with `ike` takes tunnel mode, because this program's transport mode keeps addresses inside apart from \
                       those outside, which no other implementation does";
        return fail(word.span().start, message.to_owned());
    }
    if let Some(word) = &peer.suite {
        return fail(
            word.span().start,
            "a peer with `ike` has `esp-proposals` in place of `suite`".to_owned(),
        );
    }
    let local_networks = local_networks(place, at, raw, site)?;
    if peer.networks.len() > NETWORKS_MAX || local_networks.len() > NETWORKS_MAX {
        return fail(at, format!("IKE agrees on {NETWORKS_MAX} networks of each side at most"));
    }
    let identity = |word: &Spanned<String>| {
        let text = word.get_ref();
        if (1..=IDENTITY_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control) {
            return Ok(text.clone());
        }
        let message =
            "an identity is a host name, a mail address or an IP address, as the peer's configuration has it";
        Err(place.error(Some(word.span().start), message))
    };
    let offers = |words: &[Spanned<String>],
                  defaults: &[&str],
                  read: fn(&str) -> Result<Offer, sealane_ike::offer::OfferError>| {
        if words.is_empty() {
            return Ok(defaults.iter().map(|text| read(text).expect("a good proposal")).collect());
        }
        let read = |word: &Spanned<String>| {
            read(word.get_ref()).map_err(|error| place.error(Some(word.span().start), error))
        };
        words.iter().map(read).collect::<Result<Vec<_>, _>>()
    };
    Ok(IkePeer {
        id: identity(&raw.id)?,
        local_id: identity(&raw.local_id)?,
        local_networks,
        proof: proof(place, at, raw)?,
        proposals: offers(&raw.proposals, &PROPOSALS_DEFAULT, Offer::ike)?,
        esp_proposals: offers(&raw.esp_proposals, &ESP_PROPOSALS_DEFAULT, Offer::esp)?,
        rekey: parsed_seconds(place, peer.rekey_seconds.as_ref(), REKEY_S_DEFAULT)?,
        ike_rekey: parsed_seconds(place, raw.ike_rekey_seconds.as_ref(), IKE_REKEY_S_DEFAULT)?,
    })
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

fn proof(place: &Text<'_>, at: usize, raw: &RawIke) -> Result<Proof, SiteError> {
    let file = |file: &Spanned<PathBuf>| place.beside(Path::new(file.get_ref()));
    let others = [&raw.private_key, &raw.certificate, &raw.ca, &raw.public_key];
    match (&raw.psk_file, &raw.private_key) {
        (Some(psk), _) => match others.into_iter().flatten().next() {
            None => Ok(Proof::Shared(file(psk))),
            Some(other) => {
                let message = "`psk-file` stands alone: with it both ends prove who they are";
                Err(place.error(Some(other.span().start), message))
            }
        },
        (None, None) => {
            let message = "no proof: give `psk-file`, or `private-key` with `certificate` and `ca`, or `private-key` with \
                           the peer's `public-key`";
            Err(place.error(Some(at), message))
        }
        (None, Some(private)) => {
            let peer = match (&raw.ca, &raw.public_key) {
                (Some(ca), None) => Known::Authorities(file(ca)),
                (None, Some(key)) => Known::PublicKey(file(key)),
                (Some(_), Some(key)) => {
                    let message = "the peer is known twice: by `ca` or by `public-key`";
                    return Err(place.error(Some(key.span().start), message));
                }
                (None, None) => {
                    let message =
                        "how is the peer known? By `ca`, the file of its authority, or by `public-key`";
                    return Err(place.error(Some(private.span().start), message));
                }
            };
            let certificate = raw.certificate.as_ref().map(file);
            Ok(Proof::Keys { private: file(private), certificate, peer })
        }
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!((peer.rekey.as_secs(), peer.ike_rekey.as_secs()), (600, 14_400));
        assert_eq!(peer.largest_suite().material_bytes(), 36);
        let shapes: Vec<Shape> = peer.suites().map(Shape::of).collect();
        assert!(shapes.iter().all(|shape| *shape == shapes[0]), "trains would have gaps");
        let short =
            HEAD.to_owned() + "ike = { id = \"b\", local-id = \"a\", psk-file = \"k\" }\nrekey-seconds = 5\n";
        assert!(parse(&short).is_ok());
    }

    #[test]
    fn keys_certificates_and_proposals_are_read() {
        let own = peer(
            "private-key = \"hq.key\"\ncertificate = \"hq.crt\"\nca = \"ca.crt\"\nesp-proposals = [\"aes128-sha256\"]\n\
             local-networks = [\"10.7.0.0/16\"]\nike-rekey-seconds = 60",
        );
        let own = own.expect("a good file");
        let Proof::Keys { private, certificate, peer: known } = &own.proof else { panic!("{own:?}") };
        assert_eq!(private, Path::new("/etc/sealane/hq.key"));
        assert_eq!(certificate.as_deref(), Some(Path::new("/etc/sealane/hq.crt")));
        assert_eq!(*known, Known::Authorities("/etc/sealane/ca.crt".into()));
        assert_eq!(own.largest_suite().to_string(), "aes-128-cbc+hmac-sha256-128");
        assert_eq!(own.local_networks, ["10.7.0.0/16".parse().expect("a network")]);
        assert_eq!(own.ike_rekey.as_secs(), 60);
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
        ] {
            let error = peer(ike).expect_err(ike).to_string();
            assert!(error.contains(says), "{error}");
        }
        let whole = HEAD.to_owned() + "ike = { id = \"b\", local-id = \"a\", psk-file = \"k\" }\n";
        for (from, to, says) in [
            (":4500", ":4501", "listen on port 4500"),
            ("device", "encapsulation = \"none\"\ndevice", "ESP in UDP"),
            ("addresses = [\"10.91.1.1/24\"]\n", "", "local-networks"),
            ("name", "suite = \"aes-256-gcm\"\nname", "esp-proposals"),
            ("name", "key = \"sealane1:x\"\nname", "keys twice"),
        ] {
            let error = parse(&whole.replacen(from, to, 1)).expect_err(to).to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
