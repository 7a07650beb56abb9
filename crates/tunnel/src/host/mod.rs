//! The changes of a gateway to its host: addresses and routes of its device, policy rules, closing routes, a firewall
//! table.
//!
//! - [`Wanted`] is the state of the host that a site requires; [`plan`] compares it with the present state, without
//!   I/O.
//! - [`netlink`] reads and changes the kernel's routing, [`firewall`] its packet filter; both use netlink sockets, so
//!   no program is needed.
//! - [`keeper`] is a small process of its own that makes all changes and keeps the one privilege that they need, so
//!   that the gateway, which reads packets of strangers, keeps none.
//!
//! All changes carry [`PROTOCOL`] and a [number](number) that is derived from the device's name alone. So `sealane
//! tunnel down` and the next `up` find in the kernel the remains of a gateway that was killed, even if its files are
//! gone.
//!
//! Guarantees: an existing route is never replaced or removed; all changes are removed when a gateway ends in order
//! or does not start; when a gateway is killed, the closing routes, the rules and the firewall table remain, and
//! nothing else.

pub mod blocked;
pub mod firewall;
pub mod forwarding;
pub mod keeper;
pub mod netlink;
pub mod plan;

use std::{collections::HashSet, io, net::IpAddr, path::Path};

use sealane_ipsec::{association::Protocol, selector::Prefix};
use serde::{Deserialize, Serialize};

use crate::{
    device,
    keying::carrier::IKE_PORT,
    site::{Encapsulation, Keys, Site},
};
use blocked::Needed;
use netlink::Kernel;

/// The originator of a route or a rule, as `ip route` shows it (`proto 83`); no routing daemon in iproute2's list has
/// this number.
pub const PROTOCOL: u8 = 83;

/// The upper byte of the numbers of gateways.
const NUMBER_BASE: u32 = 0x5300_0000;

/// Returns the number of the gateway with this device. It is the number of the routing table, the mark of the
/// sockets, and the metric of the closing routes, which is therefore above every metric that people choose.
pub fn number(device: &str) -> u32 {
    // FNV-1a, folded to 24 bits; any function will do that rarely maps two names of a host to one number.
    let hash =
        device.bytes().fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    NUMBER_BASE | ((hash >> 24) ^ (hash & 0x00ff_ffff))
}

/// Returns whether a table, mark or metric is a gateway's number.
fn is_number(value: u32) -> bool {
    value >> 24 == NUMBER_BASE >> 24
}

/// The state of the host that a site requires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// The name of the device.
    pub device: String,
    /// The device's MTU in bytes.
    pub mtu: u16,
    /// The maximum length in bytes of the GSO packets that this host's own sockets make.
    pub gso_packet_bytes: u32,
    /// The gateway's addresses inside, with the bits of their networks.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The networks beyond the peers.
    #[serde(with = "prefixes")]
    pub networks: Vec<Prefix>,
    /// The networks among them that [are apart](Wanted::is_apart), in order.
    #[serde(with = "prefixes")]
    pub apart: Vec<Prefix>,
    /// The protocol number of packets that are sent without UDP.
    pub bare_protocol: Option<u8>,
    /// Packets for the networks may leave in clear while no gateway runs.
    pub fails_open: bool,
    /// The networks on our side that this host forwards packets between and the device; `None` if it is not to forward. If there
    /// are none, they are those of all its interfaces.
    #[serde(with = "some_prefixes", default)]
    pub forwards: Option<Vec<Prefix>>,
    /// The networks whose packets get this host's address when they leave by another interface than the device.
    #[serde(with = "prefixes", default)]
    pub masquerades: Vec<Prefix>,
}

impl Wanted {
    /// Returns the state that `site` requires, with its device called `device`.
    pub fn of(site: &Site, device: &str) -> Self {
        let mut networks: Vec<Prefix> =
            site.peers.iter().flat_map(|peer| peer.networks.iter().copied()).collect();
        networks.sort_by_key(|&network| order(network));
        networks.dedup();
        let endpoints: Vec<IpAddr> =
            site.peers.iter().filter_map(|peer| Some(peer.endpoint.as_ref()?.address()?.ip())).collect();
        let apart = apart(&networks, &endpoints);
        let bare_protocol = match (site.encapsulation, site.protocol) {
            (Encapsulation::Udp, _) => None,
            (Encapsulation::None, Protocol::Esp) => Some(sealane_wire::protocol::ESP),
            (Encapsulation::None, Protocol::Ah) => Some(sealane_wire::protocol::AH),
        };
        Self {
            device: device.to_owned(),
            mtu: site.mtu,
            gso_packet_bytes: device::gso_packet_bytes(site) as u32,
            addresses: site.addresses.clone(),
            networks,
            apart,
            bare_protocol,
            fails_open: site.fails_open,
            forwards: site.forwards.then(|| site.other_networks()),
            masquerades: site
                .pool
                .iter()
                .filter(|_| site.masquerades)
                .flat_map(|pool| pool.networks.clone())
                .collect(),
        }
    }

    /// Returns the gateway's [number].
    pub fn number(&self) -> u32 {
        number(&self.device)
    }

    /// Returns whether a network's route is in a table of its own, which does not apply to the gateway's own packets.
    /// That is so for networks that contain a peer's endpoint, as a default route does: the route would lead the
    /// tunnel's packets into the tunnel.
    pub fn is_apart(&self, network: Prefix) -> bool {
        self.apart.binary_search_by_key(&order(network), |&apart| order(apart)).is_ok()
    }

    /// Returns the mark of the gateway's own sockets, if they need one.
    pub fn mark(&self) -> Option<u32> {
        (!self.apart.is_empty()).then(|| self.number())
    }
}

fn order(network: Prefix) -> (IpAddr, u8) {
    (network.address(), network.bits())
}

/// Returns the networks that contain one of these endpoints, or everything. They are in order.
fn apart(networks: &[Prefix], endpoints: &[IpAddr]) -> Vec<Prefix> {
    let all: HashSet<Prefix> = networks.iter().copied().collect();
    let around = |endpoint: &IpAddr| {
        let address = *endpoint;
        (1..=128).map(move |bits| Prefix::containing(address, bits))
    };
    let mut apart: Vec<Prefix> = [Prefix::ALL_V4, Prefix::ALL_V6]
        .into_iter()
        .chain(endpoints.iter().flat_map(around))
        .filter(|network| all.contains(network))
        .collect();
    apart.sort_by_key(|&network| order(network));
    apart.dedup();
    apart
}

/// Serializes networks as text, if there are any.
mod some_prefixes {
    use sealane_ipsec::selector::Prefix;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(
        prefixes: &Option<Vec<Prefix>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let words = |prefixes: &Vec<Prefix>| prefixes.iter().map(ToString::to_string).collect::<Vec<_>>();
        prefixes.as_ref().map(words).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Vec<Prefix>>, D::Error> {
        let words = Option::<Vec<String>>::deserialize(deserializer)?;
        let read =
            |words: Vec<String>| words.iter().map(|word| word.parse().map_err(D::Error::custom)).collect();
        words.map(read).transpose()
    }
}

/// Serializes networks as text.
mod prefixes {
    use sealane_ipsec::selector::Prefix;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(prefixes: &[Prefix], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(prefixes.iter().map(ToString::to_string))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Prefix>, D::Error> {
        let words = Vec::<String>::deserialize(deserializer)?;
        words.iter().map(|word| word.parse().map_err(D::Error::custom)).collect()
    }
}

/// Reasons why the state of a host does not suit a gateway.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// Something on the host conflicts.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Conflict(Vec<plan::Conflict>),
    /// The kernel refuses a step.
    #[error("cannot {step}: {source}")]
    Refused {
        /// A description of the step.
        step: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The process that maintains the host's state refuses, or is gone.
    #[error("{0}")]
    Keeper(String),
}

/// Returns a function that adds the refused step to a kernel's error.
fn refused(step: impl Into<String>) -> impl FnOnce(io::Error) -> HostError {
    let step = step.into();
    move |source| HostError::Refused { step, source }
}

/// Returns the packets of peers that arrive at this host.
pub fn doors(site: &Site) -> Vec<Needed> {
    let port = site.listen.port();
    let mut protocols = Vec::new();
    match (site.encapsulation, site.protocol) {
        (Encapsulation::Udp, _) => protocols.push(("udp", Some(port))),
        (Encapsulation::None, Protocol::Esp) => protocols.push(("esp", None)),
        (Encapsulation::None, Protocol::Ah) => protocols.push(("ah", None)),
    }
    if site.peers.iter().any(|peer| matches!(peer.keys, Keys::Ike(_))) {
        protocols.extend([("udp", Some(IKE_PORT)), ("udp", Some(port))]);
    }
    if site.peers.iter().any(|peer| matches!(peer.keys, Keys::Peer(_)) && peer.endpoint.is_none()) {
        protocols.push(("tcp", Some(port)));
    }
    protocols.extend(site.tcp_ports().into_iter().map(|port| ("tcp", Some(port))));
    protocols.sort_unstable();
    protocols.dedup();
    let needed = |(protocol, port): (&'static str, Option<u16>)| Needed {
        what: match port {
            Some(port) => format!("packets of peers to {} port {port}", protocol.to_uppercase()),
            None => format!("packets of peers by {}", protocol.to_uppercase()),
        },
        is_input: true,
        devices: [None, None],
        protocol: Some((protocol, port)),
    };
    protocols.into_iter().map(needed).collect()
}

/// Returns the changes that `sealane tunnel up` would make on this host. It changes nothing, and needs no privilege;
/// with CAP_NET_ADMIN it also checks whether the kernel accepts the firewall table, and whether other rules of the firewall
/// drop packets that come by the gateway's `doors` or that it forwards.
///
/// # Errors
/// Fails if the kernel's routes cannot be read.
pub fn forecast(wanted: &Wanted, doors: &[Needed]) -> Result<plan::Plan, HostError> {
    let mut kernel = Kernel::open().map_err(refused("ask the kernel for its routes"))?;
    let state = kernel.state(wanted).map_err(refused("read the kernel's routes"))?;
    let mut plan = plan::plan(wanted, &state);
    plan.notes.extend(forwarding::notes(wanted, &mut kernel));
    let mut needed = doors.to_vec();
    needed.extend(forwarding::needed(wanted, &mut kernel));
    plan.warnings.extend(blocked::lines(&needed));
    match firewall::try_out(wanted) {
        Ok(()) => plan.notes.push(
            "packets that arrive in clear and claim to come from the peers' networks are refused (nftables)"
                .to_owned(),
        ),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            plan.notes.push(
                "whether the kernel has nftables to refuse packets in clear, only root can tell".to_owned(),
            );
        }
        Err(error) => plan.warnings.push(firewall::missing(&error)),
    }
    Ok(plan)
}

/// Removes what the gateway with this device has left on the host; without a device, the remains of all gateways that
/// no longer run. `folder` is the one of their control sockets. Returns a description of what was removed.
///
/// # Errors
/// Fails if the kernel refuses, for lack of CAP_NET_ADMIN for instance.
pub fn take_away(device: Option<&str>, folder: &Path) -> Result<Vec<String>, HostError> {
    let mut kernel = Kernel::open().map_err(refused("ask the kernel for its routes"))?;
    let ask = "read the kernel's routes";
    let numbers = match device {
        Some(device) => vec![number(device)],
        None => {
            let running: Vec<u32> =
                kernel.devices().map_err(refused(ask))?.iter().map(|name| number(name)).collect();
            let mut numbers = kernel.numbers().map_err(refused(ask))?;
            numbers.extend(firewall::numbers());
            numbers.sort_unstable();
            numbers.dedup();
            numbers.retain(|number| !running.contains(number));
            numbers
        }
    };
    let mut said = Vec::new();
    for number in numbers {
        let left = kernel.left(number).map_err(refused(ask))?;
        for step in plan::take_away(&left) {
            kernel.apply(&step).map_err(refused(step.to_string()))?;
            said.push(step.to_string());
        }
        if firewall::take_away(number).map_err(refused("take away the firewall table"))? {
            said.push(format!("take away the firewall table {}", firewall::table_name(number)));
        }
    }
    let names = kernel.devices().map_err(refused(ask))?;
    let is_running = |name: &str| names.iter().any(|own| own == name);
    for device in forwarding::take_away(folder, device, is_running) {
        said.push(format!("turn forwarding for {device} off again"));
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_from_names_and_are_recognised() {
        let mut seen = HashSet::new();
        for device in (0..1000).map(|at| format!("sl{at}")) {
            assert!(is_number(number(&device)), "{device}");
            assert!(seen.insert(number(&device)), "{device}");
        }
        // A newer program must find the remains of an older one.
        assert_eq!(number("sl0"), 1_396_179_450);
        for other in [0, 254, 51_820, u32::MAX] {
            assert!(!is_number(other));
        }
    }

    #[test]
    fn networks_around_end_points_and_default_routes_are_apart() {
        let prefixes = |words: &[&str]| {
            words.iter().map(|word| word.parse().expect("a network")).collect::<Vec<Prefix>>()
        };
        let networks = prefixes(&[
            "192.0.2.0/24",
            "0.0.0.0/0",
            "192.0.2.1/32",
            "192.0.3.0/24",
            "192.0.2.0/25",
            "fd91::/16",
        ]);
        let endpoints =
            ["192.0.2.1", "192.0.2.200", "2001:db8::1"].map(|word| word.parse().expect("an address"));
        let found = prefixes(&["0.0.0.0/0", "192.0.2.0/24", "192.0.2.0/25", "192.0.2.1/32"]);
        assert_eq!(apart(&networks, &endpoints), found);
        assert_eq!(apart(&prefixes(&["192.0.3.0/24", "fd91::/16"]), &endpoints), []);
    }

    #[test]
    fn what_is_wanted_travels_as_text() {
        let wanted = Wanted {
            device: "sl0".to_owned(),
            mtu: 1400,
            gso_packet_bytes: 60_000,
            addresses: vec![("10.91.1.1".parse().expect("an address"), 24)],
            networks: ["0.0.0.0/0", "fd91:2::/64"].map(|word| word.parse().expect("a network")).to_vec(),
            apart: vec!["0.0.0.0/0".parse().expect("a network")],
            bare_protocol: Some(50),
            fails_open: false,
            forwards: Some(vec!["10.91.1.0/24".parse().expect("a network")]),
            masquerades: Vec::new(),
        };
        let text = serde_json::to_string(&wanted).expect("plain data");
        assert_eq!(serde_json::from_str::<Wanted>(&text).expect("the same"), wanted);
        assert!(serde_json::from_str::<Wanted>(&text.replace("0.0.0.0/0", "0.0.0.1/0")).is_err());
    }
}
