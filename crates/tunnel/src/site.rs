//! Site files: the properties of one gateway, and its peers.
//!
//! ```toml
//! device = "sl0"
//! listen = "0.0.0.0:4500"
//! addresses = ["10.91.1.1/24"]
//!
//! [[peers]]
//! name = "branch"
//! endpoint = "198.51.100.7:4500"
//! networks = ["10.91.2.0/24"]
//! key = "sealane1:…"
//! ```
//!
//! In place of `key`, which `sealane id` prints on the peer, a peer may have keys from files:
//!
//! ```toml
//! [peers.manual]
//! suite = "aes-128-cbc+hmac-sha256-128"
//! send = { spi = 0x1001, key-file = "to-branch.key" }
//! receive = { spi = 0x2001, key-file = "from-branch.key" }
//! ```
//!
//! A peer that is another implementation has a `[peers.ike]` table; see [`ike`].
//!
//! `encapsulation = "none"` beside `listen` sends ESP as an IP protocol of its own (50) instead of inside UDP, as
//! other gateways may require; it is slower, because the kernel takes such packets one by one, and passes no NAT.
//! `direct = true` beside it passes ESP packets over IPv4 to the network device itself, if that is an Ethernet
//! device: the rate is about 1.4 times as high, but the host's firewall rules for output and its address translation
//! do not apply to the packets.
//!
//! `fail-open = true` beside `listen` lets packets for the peers' networks leave in clear while no gateway runs;
//! otherwise they are unreachable from the first `up` until `down`.
//!
//! `protocol = "ah"` beside `listen` protects packets by AH (RFC 4302), which encrypts nothing and covers the outer
//! addresses too: it requires `encapsulation = "none"` and one address to listen on, and its suites are integrity
//! checks alone.
//!
//! `keepalive = 25` at a peer sends it a keep-alive after so many seconds without another packet, so that a NAT on
//! the way keeps its mapping; if a call finds a NAT before us, 25 is the default, and 0 turns keep-alives off.
//!
//! `mode = "transport"` at a peer joins two hosts: `networks` is the peer's one address inside, and the gateway has
//! one address of its family, so the inner header need not be sent; it is restored at the other end. On the wire,
//! this is transport mode (RFC 4303, section 3.1.1) between the outer addresses. The addresses inside may be the outer
//! ones, as other implementations require, if `endpoint` says which address that is: then the route into the device
//! does not apply to the tunnel's own packets. Fragments and packets with IPv4 options are not carried.
//!
//! Flows take turns where packets wait (`queueing = "fq-codel"` beside `listen`, the default), or leave in their order (`"fifo"`). With
//! the former `rate = "95Mbit"` at a peer bounds what leaves for it.
//!
//! `queues = 4` beside `listen` opens the device with so many queues, each with lanes and, for a peer with `ike`, an association of its
//! own; see [`queues`]. It is for hosts with more than four processors and many flows, and one is the default.
//!
//! `ml-dsa = true` beside `listen` lets keys and certificates of ML-DSA prove who ends with `ike` are; the standard is a draft.
//!
//! `up` and `down` beside `listen` are commands for the shell, run when packets flow and when the gateway has ended,
//! with the rights of the user who starts the gateway. `dns` names resolvers that this host uses while the gateway is
//! up, and `dns-search` the domains for which it uses them; without it, it uses them for all.
//!
//! Guarantees: an accepted file has exactly one meaning, and only its user and root can have written it; a file is
//! refused with the line and column of its fault; nothing is opened or resolved here.

mod faults;
mod hooks;
pub mod ike;
pub mod pool;
mod protocols;
pub mod queues;
mod rate;
mod tcp;
mod transport;

use std::{
    fmt,
    io::Read as _,
    net::{IpAddr, SocketAddr},
    num::{NonZeroU16, NonZeroU64},
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use sealane_ipsec::{
    association::{Kind, Mode, Protocol},
    replay::{ReplayWindow, WINDOW_PACKETS_MAX},
    selector::Prefix,
    sequence::SequenceBits,
    suite::Suite,
};
use sealane_peer::{PeerError, PublicKey, open_trusted};
use serde::Deserialize;
use toml::Spanned;

use crate::{endpoint::Endpoint, keep_alive::KEEP_ALIVE_S_MAX, queueing::Queueing};
use faults::{one_table, own_network};
pub use hooks::Hooks;
use ike::{IkePeer, RawIke};
use pool::{Pool, RawPool};
use protocols::Protocols;
use tcp::RawTcp;
pub use transport::Hosts;
use transport::hosts;

/// The maximum number of peers in one file.
const PEERS_MAX: usize = 65_536;
/// The maximum length of a file in bytes.
pub const FILE_BYTES_MAX: u64 = 16 << 20;
/// The default limit of inner packets: with any suite over IPv6, they fit into 1,500 bytes outside.
pub const MTU_DEFAULT: u16 = 1400;

/// The port of ESP in UDP (RFC 3948).
const PORT_DEFAULT: u16 = 4500;
/// The maximum length of a peer's name in bytes.
const NAME_BYTES_MAX: usize = 64;

/// The suite of ESP for peers that name none.
pub const SUITE_DEFAULT: &str = "aes-256-gcm";
/// The default suite of AH.
const SUITE_DEFAULT_AH: &str = "hmac-sha256-128";
/// The default age in seconds at which associations get successors.
const REKEY_S_DEFAULT: u32 = 600;
/// The maximum age that may be configured.
const REKEY_S_MAX: u32 = 86_400;

/// The fault of a site file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct SiteError {
    /// The file's path as given.
    pub path: PathBuf,
    /// The line and column, from 1; `None` if the fault is in the file as a whole.
    pub at: Option<(usize, usize)>,
    /// The fault, and its remedy.
    pub message: String,
}

impl fmt::Display for SiteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some((line, column)) = self.at {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// The protocol that carries ESP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encapsulation {
    /// UDP (RFC 3948).
    #[default]
    Udp,
    /// IP itself, as protocol 50 (RFC 4303).
    None,
}

/// One gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The name of the TUN device.
    pub device: String,
    /// The address for packets of peers, and for calls by TCP.
    pub listen: SocketAddr,
    /// The protocol that carries the packets.
    pub encapsulation: Encapsulation,
    /// Packets are sent to the device past IP, see [`Raw::send_directly`](sealane_port::raw::Raw::send_directly).
    pub is_direct: bool,
    /// The protocol that protects the packets.
    pub protocol: Protocol,
    /// The gateway's own addresses inside, with their networks.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The length of the largest packet inside in bytes.
    pub mtu: u16,
    /// The file of the gateway's own key; `None` for the system's or the user's own identity.
    pub identity: Option<PathBuf>,
    /// The changes to the host beside the device.
    pub hooks: Hooks,
    /// Packets for the peers' networks may leave in clear while no gateway runs.
    pub fails_open: bool,
    /// This host forwards packets between the device and its interfaces towards our networks while the gateway is up.
    pub forwards: bool,
    /// Packets of clients that leave by other interfaces than the device get this host's address.
    pub masquerades: bool,
    /// Peers that speak IKE, and this gateway, may prove themselves by ML-DSA.
    pub ml_dsa: bool,
    /// The order in which packets of the device leave.
    pub queueing: Queueing,
    /// The number of queues of the device.
    pub queues: NonZeroU16,
    /// The addresses for clients.
    pub pool: Option<Pool>,
    /// The peers, at most 65,536, in the order of the file.
    pub peers: Vec<PeerSite>,
}

/// One peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSite {
    /// The name in messages and statistics.
    pub name: String,
    /// The endpoint; `None` if the peer calls, and is answered at the address that it calls from.
    pub endpoint: Option<Endpoint>,
    /// The longest time without a packet to the peer, after which a keep-alive is sent; zero for no keep-alives;
    /// `None` if a call finds out whether a NAT requires them.
    pub keep_alive: Option<Duration>,
    /// The networks beyond the peer.
    pub networks: Vec<Prefix>,
    /// The protocol that protects the peer's packets.
    pub protocol: Protocol,
    /// The two hosts that transport mode joins; `None` in tunnel mode.
    pub hosts: Option<Hosts>,
    /// The size of the replay window in packets.
    pub window_packets: u32,
    /// The source of the peer's keys.
    pub keys: Keys,
    /// The rate that packets to the peer must not exceed outside, in bytes per second.
    pub rate: Option<NonZeroU64>,
    /// The TCP port by which the peer is reached, or comes, where UDP does not pass; `None` if only UDP is used.
    pub tcp: Option<u16>,
}

impl PeerSite {
    /// Returns whether the entry stands for many clients.
    pub fn is_many(&self) -> bool {
        matches!(&self.keys, Keys::Ike(ike) if ike.id.is_none())
    }

    /// Returns the kind of the peer's associations.
    pub fn kind(&self) -> Kind {
        let mode = if self.hosts.is_some() { Mode::Transport } else { Mode::Tunnel };
        Kind { protocol: self.protocol, mode, suite: self.suite() }
    }

    /// Returns the suite of the peer's packets; if IKE chooses among suites, the one that adds the most to a packet.
    pub fn suite(&self) -> Suite {
        match &self.keys {
            Keys::Peer(keys) => keys.suite,
            Keys::Manual(manual) => manual.suite,
            Keys::Ike(ike) => ike.largest_suite(),
        }
    }

    /// Returns all suites that may protect the peer's packets.
    pub fn suites(&self) -> Vec<Suite> {
        match &self.keys {
            Keys::Peer(_) | Keys::Manual(_) => vec![self.suite()],
            Keys::Ike(ike) => ike.suites().collect(),
        }
    }
}

/// The source of a peer's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keys {
    /// The peer is known by its own key; associations are agreed with it.
    Peer(PeerKey),
    /// The keys come from files.
    Manual(Manual),
    /// Associations are negotiated with the peer by IKEv2.
    Ike(Box<IkePeer>),
}

/// A peer that is known by its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerKey {
    /// The key as `sealane id` prints it on the peer.
    pub key: PublicKey,
    /// The suite that protects packets.
    pub suite: Suite,
    /// The age at which associations get successors.
    pub rekey: Duration,
}

/// Keys from files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manual {
    /// The suite that protects packets.
    pub suite: Suite,
    /// The size of sequence numbers.
    pub sequence: SequenceBits,
    /// The key of packets to the peer.
    pub send: ManualKey,
    /// The key of packets from the peer.
    pub receive: ManualKey,
}

/// The SPI and key of one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManualKey {
    /// Security parameters index.
    pub spi: u32,
    /// The file of the key material.
    pub file: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawSite {
    device: Spanned<String>,
    listen: Spanned<String>,
    encapsulation: Option<Spanned<String>>,
    direct: Option<Spanned<bool>>,
    protocol: Option<Spanned<String>>,
    #[serde(default)]
    addresses: Vec<Spanned<String>>,
    mtu: Option<Spanned<u16>>,
    identity: Option<PathBuf>,
    #[serde(default)]
    fail_open: bool,
    #[serde(default)]
    up: Vec<Spanned<String>>,
    #[serde(default)]
    down: Vec<Spanned<String>>,
    #[serde(default)]
    dns: Vec<Spanned<String>>,
    #[serde(default)]
    dns_search: Vec<Spanned<String>>,
    forwarding: Option<bool>,
    masquerade: Option<Spanned<bool>>,
    #[serde(default)]
    ml_dsa: bool,
    queueing: Option<Spanned<String>>,
    queues: Option<Spanned<u16>>,
    pool: Option<Spanned<RawPool>>,
    #[serde(default)]
    peers: Vec<Spanned<RawPeer>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawPeer {
    name: Spanned<String>,
    endpoint: Option<Spanned<String>>,
    keepalive: Option<Spanned<u32>>,
    #[serde(default)]
    networks: Vec<Spanned<String>>,
    mode: Option<Spanned<String>>,
    window: Option<Spanned<u32>>,
    tcp: Option<Spanned<RawTcp>>,
    rate: Option<Spanned<String>>,
    key: Option<Spanned<String>>,
    suite: Option<Spanned<String>>,
    rekey_seconds: Option<Spanned<u32>>,
    manual: Option<Spanned<RawManual>>,
    ike: Option<Spanned<RawIke>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawManual {
    suite: Spanned<String>,
    #[serde(default)]
    extended_sequence_numbers: bool,
    send: RawKey,
    receive: RawKey,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawKey {
    spi: Spanned<u32>,
    key_file: PathBuf,
}

/// The text with its name, for errors that point into it.
struct Text<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Text<'_> {
    fn error(&self, at: Option<usize>, message: impl fmt::Display) -> SiteError {
        let at = at.map(|at| {
            let before = &self.text[..self.text.floor_char_boundary(at)];
            let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
            (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
        });
        SiteError { path: self.path.to_owned(), at, message: message.to_string() }
    }

    /// Returns the path of a file that the text names.
    fn beside(&self, file: &Path) -> PathBuf {
        self.path.parent().unwrap_or_else(|| Path::new("")).join(file)
    }

    fn parsed<T: FromStr<Err: fmt::Display>>(&self, word: &Spanned<String>) -> Result<T, SiteError> {
        word.get_ref().parse().map_err(|error| self.error(Some(word.span().start), error))
    }
}

impl Site {
    /// Returns whether the resolvers that a peer names are used.
    pub fn takes_resolvers(&self) -> bool {
        self.peers.iter().any(|peer| matches!(&peer.keys, Keys::Ike(ike) if ike.takes_resolvers))
    }

    /// Returns the networks on our side that peers are told of, except those of the gateway's own addresses.
    pub fn other_networks(&self) -> Vec<Prefix> {
        let of_peer = |peer: &PeerSite| match &peer.keys {
            Keys::Ike(ike) if ike.asks_for.is_empty() => ike.local_networks.clone(),
            _ => Vec::new(),
        };
        let own: Vec<Prefix> =
            self.addresses.iter().map(|&(at, bits)| Prefix::containing(at, bits)).collect();
        let mut others: Vec<Prefix> = self.peers.iter().flat_map(of_peer).collect();
        others.retain(|network| !own.contains(network) && *network != Prefix::host(network.address()));
        others
    }

    /// Reads the text of the file `path`; key files are relative to its folder.
    ///
    /// # Errors
    /// Fails if anything is malformed, contradictory or repeated.
    pub fn parse(path: &Path, text: &str) -> Result<Self, SiteError> {
        let place = Text { path, text };
        let raw: RawSite = toml::from_str(text).map_err(|error| {
            one_table(&place)
                .unwrap_or_else(|| place.error(error.span().map(|span| span.start), error.message()))
        })?;
        let device = device(&place, &raw.device)?;
        let mtu = mtu(&place, raw.mtu.as_ref())?;
        let addresses: Vec<(IpAddr, u8)> =
            raw.addresses.iter().map(|word| address(&place, word)).collect::<Result<_, _>>()?;
        let Protocols { listen, encapsulation, protocol, is_direct } = protocols::read(&place, &raw)?;
        if raw.peers.len() > PEERS_MAX {
            return Err(place.error(None, format_args!("more than {PEERS_MAX} peers")));
        }
        let pool = raw.pool.as_ref().map(|pool| pool::read(&place, pool, &addresses)).transpose()?;
        let mut site = Self {
            device,
            listen,
            encapsulation,
            is_direct,
            protocol,
            addresses,
            mtu,
            identity: raw.identity.as_ref().map(|file| place.beside(file)),
            hooks: Hooks::read(&place, &raw)?,
            fails_open: raw.fail_open,
            forwards: false,
            ml_dsa: raw.ml_dsa,
            // Most lines are slower than the processor.
            queueing: choice(
                &place,
                raw.queueing.as_ref(),
                &[("fq-codel", Queueing::FqCodel), ("fifo", Queueing::Fifo)],
                "queueing is \"fq-codel\" or \"fifo\"",
            )?,
            queues: queues::read(&place, raw.queues.as_ref(), encapsulation)?,
            masquerades: raw.masquerade.as_ref().is_some_and(|word| *word.get_ref()),
            pool,
            peers: Vec::with_capacity(raw.peers.len()),
        };
        for raw in &raw.peers {
            let peer = peer(&place, raw, &site)?;
            contradiction(&site.peers, &peer)
                .map_or(Ok(()), |message| Err(place.error(Some(raw.span().start), message)))?;
            own_network(&place, raw.get_ref(), &peer, &site.addresses)?;
            site.peers.push(peer);
        }
        needed_pool(&place, &raw, &site)?;
        site.forwards = raw.forwarding.unwrap_or_else(|| !site.other_networks().is_empty());
        Ok(site)
    }

    /// Reads a file that only this user and root can have written: its writer decides which peers the gateway trusts,
    /// and which commands run with its rights.
    ///
    /// # Errors
    /// Fails if the file cannot be read, somebody else could change it, it is too long, or it is malformed.
    pub fn load(path: &Path) -> Result<Self, SiteError> {
        Self::load_with_text(path).map(|(site, _)| site)
    }

    /// Reads a file as [`Self::load`] does, and returns its text, too.
    ///
    /// # Errors
    /// Fails as [`Self::load`] does.
    pub(crate) fn load_with_text(path: &Path) -> Result<(Self, String), SiteError> {
        let whole = |message: String| SiteError { path: path.to_owned(), at: None, message };
        let file = open_trusted(path).map_err(|error| match error {
            PeerError::File { source, .. } => whole(source.to_string()),
            error => whole(format!("the site file is not safe: {error}")),
        })?;
        let mut text = String::new();
        let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
        read.map_err(|error| whole(error.to_string()))?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(whole(format!("a site file has {FILE_BYTES_MAX} bytes at most")));
        }
        Self::parse(path, &text).map(|site| (site, text))
    }
}

/// Returns the name of a device.
fn device(place: &Text<'_>, word: &Spanned<String>) -> Result<String, SiteError> {
    let device = word.get_ref();
    // IFNAMSIZ is 16 including the terminator; the kernel accepts no slash and no space.
    let is_name = (1..16).contains(&device.len())
        && device.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        && !matches!(&**device, "." | "..");
    if !is_name {
        let message = "a device name has 1 to 15 letters, digits, dots, dashes or underscores";
        return Err(place.error(Some(word.span().start), message));
    }
    Ok(device.clone())
}

/// Returns the limit of inner packets in bytes.
fn mtu(place: &Text<'_>, word: Option<&Spanned<u16>>) -> Result<u16, SiteError> {
    match word {
        Some(mtu) if !(1280..=65_000).contains(mtu.get_ref()) => {
            Err(place.error(Some(mtu.span().start), "an MTU is from 1280 to 65000 bytes"))
        }
        Some(mtu) => Ok(*mtu.get_ref()),
        None => Ok(MTU_DEFAULT),
    }
}

/// Refuses a pool that no peer takes addresses from, and address translation without a pool.
fn needed_pool(place: &Text<'_>, raw: &RawSite, site: &Site) -> Result<(), SiteError> {
    if let (Some(word), None) = (raw.masquerade.as_ref().filter(|word| *word.get_ref()), &raw.pool) {
        let message = "it is for clients with addresses of a pool: there is no `[pool]`";
        return Err(place.error(Some(word.span().start), message));
    }
    if let (Some(pool), false) = (&raw.pool, site.peers.iter().any(PeerSite::is_many)) {
        let message = "nobody gets addresses of the pool: clients need a peer with `ike = { any = true, … }`";
        return Err(place.error(Some(pool.span().start), message));
    }
    Ok(())
}

/// Returns an address with the bits of its network.
fn address(place: &Text<'_>, word: &Spanned<String>) -> Result<(IpAddr, u8), SiteError> {
    let (host, bits) = word.get_ref().split_once('/').unwrap_or((word.get_ref(), ""));
    let fail = || {
        let message =
            format!("{:?} is not an address with its network, such as 10.91.1.1/24", word.get_ref());
        place.error(Some(word.span().start), message)
    };
    let host: IpAddr = host.parse().map_err(|_| fail())?;
    let bits_max = if host.is_ipv4() { 32 } else { 128 };
    let bits = if bits.is_empty() { Ok(bits_max) } else { bits.parse().map_err(|_| fail()) }?;
    if bits > bits_max { Err(fail()) } else { Ok((host, bits)) }
}

/// Returns the choice that `word` names; the first one if there is no word.
fn choice<T: Copy>(
    place: &Text<'_>,
    word: Option<&Spanned<String>>,
    choices: &[(&str, T)],
    message: &str,
) -> Result<T, SiteError> {
    let Some(word) = word else { return Ok(choices[0].1) };
    let found = choices.iter().find(|(name, _)| name == word.get_ref());
    found.map(|&(_, value)| value).ok_or_else(|| place.error(Some(word.span().start), message))
}

/// Returns a peer of `site`, of which everything but the peers has been read.
fn peer(place: &Text<'_>, raw: &Spanned<RawPeer>, site: &Site) -> Result<PeerSite, SiteError> {
    let &Site { protocol, listen, ref addresses, .. } = site;
    let (start, raw) = (raw.span().start, raw.get_ref());
    let name = raw.name.get_ref();
    // The name is written to terminals, logs and Prometheus.
    if !(1..=NAME_BYTES_MAX).contains(&name.len()) || name.chars().any(char::is_control) {
        let message = format!("a peer's name has 1 to {NAME_BYTES_MAX} bytes, and no control characters");
        return Err(place.error(Some(raw.name.span().start), message));
    }
    let networks = networks(place, start, raw, site)?;
    let window_packets = match &raw.window {
        Some(window) => ReplayWindow::new(*window.get_ref())
            .map(|_| *window.get_ref())
            .map_err(|error| place.error(Some(window.span().start), error))?,
        None => WINDOW_PACKETS_DEFAULT,
    };
    let endpoint: Option<Endpoint> = raw.endpoint.as_ref().map(|word| place.parsed(word)).transpose()?;
    let keep_alive = match &raw.keepalive {
        Some(seconds) if *seconds.get_ref() > KEEP_ALIVE_S_MAX => {
            let message = format!("a keepalive is from 1 to {KEEP_ALIVE_S_MAX} seconds, or 0 for none");
            return Err(place.error(Some(seconds.span().start), message));
        }
        seconds => seconds.as_ref().map(|seconds| Duration::from_secs((*seconds.get_ref()).into())),
    };
    let modes = [("tunnel", Mode::Tunnel), ("transport", Mode::Transport)];
    let mode = choice(place, raw.mode.as_ref(), &modes, "a mode is \"tunnel\" or \"transport\"")?;
    let hosts = match (mode, &raw.mode) {
        (Mode::Transport, Some(word)) => {
            let outside = (protocol == Protocol::Ah).then_some(listen);
            Some(hosts(place, word.span().start, &networks, outside, addresses)?)
        }
        _ => None,
    };
    let twice = |at: usize| {
        let message = "keys twice: a peer has `key`, or a [peers.manual] or [peers.ike] table";
        Err(place.error(Some(at), message))
    };
    let keys = match (&raw.key, &raw.manual, &raw.ike) {
        (Some(key), None, None) => Keys::Peer(peer_key(place, raw, key, protocol)?),
        (None, Some(manual), None) => {
            let elsewhere = raw.suite.as_ref().map(|suite| suite.span());
            if let Some(span) = elsewhere.or_else(|| raw.rekey_seconds.as_ref().map(|s| s.span())) {
                return Err(place.error(Some(span.start), "this belongs to a peer with `key`"));
            }
            Keys::Manual(manual_keys(place, manual.get_ref(), protocol)?)
        }
        (None, None, Some(ike)) => Keys::Ike(Box::new(ike::read(place, raw, ike, (&networks, mode), site)?)),
        (_, Some(manual), _) => return twice(manual.span().start),
        (Some(_), None, Some(ike)) => return twice(ike.span().start),
        (None, None, None) => {
            let message = "no keys: give the peer the `key` that `sealane id` prints there, or a [peers.ike] or [peers.manual] table";
            return Err(place.error(Some(start), message));
        }
    };
    Ok(PeerSite {
        name: raw.name.get_ref().clone(),
        endpoint,
        keep_alive,
        networks,
        protocol,
        hosts,
        window_packets,
        rate: rate::read(place, raw, site)?,
        tcp: tcp::read(place, raw, &keys, site)?,
        keys,
    })
}

/// Returns the networks beyond a peer: those in its table, or those of the pool if it stands for many clients.
fn networks(place: &Text<'_>, at: usize, raw: &RawPeer, site: &Site) -> Result<Vec<Prefix>, SiteError> {
    let fail = |at: usize, message: &str| Err(place.error(Some(at), message));
    if raw.ike.as_ref().is_some_and(|ike| ike.get_ref().is_many()) {
        if let Some(word) = raw.networks.first() {
            return fail(word.span().start, "clients have the networks of the pool: leave out `networks`");
        }
        if let Some(word) = &raw.endpoint {
            return fail(word.span().start, "clients begin, from wherever they are: leave out `endpoint`");
        }
        return match &site.pool {
            Some(pool) => Ok(pool.networks.clone()),
            None => {
                fail(at, "clients get addresses: say which, by `[pool]` with `networks` beside the peers")
            }
        };
    }
    if raw.networks.is_empty() {
        return fail(at, "a peer without networks would carry nothing");
    }
    raw.networks.iter().map(|word| place.parsed(word)).collect()
}

/// Returns a suite that the protocol can use.
fn suite(place: &Text<'_>, word: &Spanned<String>, protocol: Protocol) -> Result<Suite, SiteError> {
    let suite: Suite = place.parsed(word)?;
    let message = match protocol {
        Protocol::Esp if !suite.is_for_esp() => {
            format!("{suite} is an integrity alone; ESP takes \"null+{suite}\"")
        }
        Protocol::Ah if !suite.is_for_ah() => {
            format!("{suite} is no suite of AH, which takes an integrity alone, such as {SUITE_DEFAULT_AH}")
        }
        _ => return Ok(suite),
    };
    Err(place.error(Some(word.span().start), message))
}

fn peer_key(
    place: &Text<'_>,
    raw: &RawPeer,
    key: &Spanned<String>,
    protocol: Protocol,
) -> Result<PeerKey, SiteError> {
    let default = if protocol == Protocol::Ah { SUITE_DEFAULT_AH } else { SUITE_DEFAULT };
    let suite = match &raw.suite {
        Some(word) => suite(place, word, protocol)?,
        None => default.parse().expect("a suite's name"),
    };
    let rekey = parsed_seconds(place, raw.rekey_seconds.as_ref(), REKEY_S_DEFAULT)?;
    Ok(PeerKey { key: place.parsed(key)?, suite, rekey })
}

/// Returns the time after which keys are replaced.
fn parsed_seconds(
    place: &Text<'_>,
    word: Option<&Spanned<u32>>,
    default_s: u32,
) -> Result<Duration, SiteError> {
    let seconds = match word {
        Some(seconds) if !(1..=REKEY_S_MAX).contains(seconds.get_ref()) => {
            let message = format!("associations last from 1 to {REKEY_S_MAX} seconds");
            return Err(place.error(Some(seconds.span().start), message));
        }
        Some(seconds) => *seconds.get_ref(),
        None => default_s,
    };
    Ok(Duration::from_secs(seconds.into()))
}

fn manual_keys(place: &Text<'_>, manual: &RawManual, protocol: Protocol) -> Result<Manual, SiteError> {
    let key = |raw: &RawKey| {
        let spi = *raw.spi.get_ref();
        if spi < 0x100 {
            return Err(place.error(Some(raw.spi.span().start), "SPIs below 0x100 are reserved"));
        }
        Ok(ManualKey { spi, file: place.beside(&raw.key_file) })
    };
    let suite = suite(place, &manual.suite, protocol)?;
    let sequence =
        if manual.extended_sequence_numbers { SequenceBits::Extended } else { SequenceBits::Short };
    Ok(Manual { suite, sequence, send: key(&manual.send)?, receive: key(&manual.receive)? })
}

/// The window is wide enough for 93 bursts of 44 packets that overtake each other.
const WINDOW_PACKETS_DEFAULT: u32 = 4096;
const _: () = assert!(WINDOW_PACKETS_DEFAULT <= WINDOW_PACKETS_MAX);

/// Returns the reason why `peer` contradicts one of those before it.
fn contradiction(peers: &[PeerSite], peer: &PeerSite) -> Option<String> {
    if let Keys::Manual(own) = &peer.keys
        && own.send.file == own.receive.file
    {
        return Some(format!(
            "{} is the key of both directions; each direction has a key of its own",
            own.send.file.display()
        ));
    }
    peers.iter().find_map(|other| {
        if other.name == peer.name {
            return Some(format!("there are two peers called {:?}", peer.name));
        }
        match (&other.keys, &peer.keys) {
            (Keys::Manual(theirs), Keys::Manual(own)) if theirs.receive.spi == own.receive.spi => {
                return Some(format!("SPI {:#x} is {:?}'s already", own.receive.spi, other.name));
            }
            (Keys::Peer(theirs), Keys::Peer(own)) if theirs.key == own.key => {
                return Some(format!("the key is {:?}'s already", other.name));
            }
            (Keys::Ike(theirs), Keys::Ike(own))
                if (&theirs.id, &theirs.local_id) == (&own.id, &own.local_id) =>
            {
                let who = own.id.as_ref().map_or_else(|| "of any client".to_owned(), |id| format!("{id:?}"));
                // Which entry would it be? The credentials are needed before the peer names its networks.
                return Some(format!(
                    "the identity {who} is {:?}'s already, and a peer proves its identity before it says which networks it is \
                     about: name all networks in one entry (a peer that wants an association for each pair of networks gets \
                     them), or give each entry a `local-id` of its own",
                    other.name
                ));
            }
            _ => {}
        }
        let twice = peer.networks.iter().find(|network| other.networks.contains(network))?;
        Some(format!("network {twice} is behind {:?} already", other.name))
    })
}

#[cfg(test)]
mod tests;
