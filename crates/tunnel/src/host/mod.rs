//! What a gateway changes of its host: addresses and routes of its device, policy rules, routes that close, a firewall table.
//!
//! - [`Wanted`] is what a site asks of the host; [`plan`] compares it with what is there, without I/O.
//! - [`netlink`] reads and changes the kernel's routing, [`firewall`] its packet filter; both speak netlink themselves, so no
//!   program is needed.
//! - [`keeper`] is a small process of its own that does all this and keeps the one privilege that it takes, so that the gateway,
//!   which reads what strangers send, keeps none.
//!
//! Everything that is set carries [`PROTOCOL`] and a [number](number) that follows from the device's name alone. So `sealane tunnel
//! down` and the next `up` find in the kernel what a gateway has left that was killed, whatever became of its files.
//!
//! Guarantees: a route that exists is never replaced or removed; what was set is taken away again when a gateway ends in order or
//! does not come up; from a gateway that is killed the closing routes, the rules and the firewall table remain, and nothing else.

pub mod firewall;
pub mod keeper;
pub mod netlink;
pub mod plan;

use std::{collections::HashSet, io, net::IpAddr};

use sealane_ipsec::{association::Protocol, selector::Prefix};
use serde::{Deserialize, Serialize};

use crate::{
    device,
    site::{Encapsulation, Site},
};
use netlink::Kernel;

/// Who has set a route or a rule, as `ip route` shows it (`proto 83`): a number that no routing daemon of iproute2's list has.
pub const PROTOCOL: u8 = 83;

/// Upper byte of the numbers of gateways.
const NUMBER_BASE: u32 = 0x5300_0000;

/// The number of the gateway with this device: of its routing table, of the mark on its sockets, and the metric of its closing
/// routes, which is thus above every metric that people choose.
pub fn number(device: &str) -> u32 {
    // FNV-1a, folded to 24 bits: any function of the name does that seldom maps two names of a host to one number.
    let hash =
        device.bytes().fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    NUMBER_BASE | ((hash >> 24) ^ (hash & 0x00ff_ffff))
}

/// Whether a table, mark or metric is a gateway's number.
fn is_number(value: u32) -> bool {
    value >> 24 == NUMBER_BASE >> 24
}

/// What a site asks of its host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Name of the device.
    pub device: String,
    /// Its MTU, in bytes.
    pub mtu: u16,
    /// The longest superpacket that this host's own sockets are to make, in bytes.
    pub superpacket_bytes: u32,
    /// The gateway's addresses inside, with the bits of their networks.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Networks beyond the peers.
    #[serde(with = "prefixes")]
    pub networks: Vec<Prefix>,
    /// Of these, those that [are apart](Wanted::is_apart), in order.
    #[serde(with = "prefixes")]
    pub apart: Vec<Prefix>,
    /// The protocol number of packets that travel without UDP.
    pub bare_protocol: Option<u8>,
    /// Whether packets for the networks may leave in clear while no gateway runs.
    pub fails_open: bool,
}

impl Wanted {
    /// What `site` asks, with its device called `device`.
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
            superpacket_bytes: device::superpacket_bytes(site) as u32,
            addresses: site.addresses.clone(),
            networks,
            apart,
            bare_protocol,
            fails_open: site.fails_open,
        }
    }

    /// The gateway's [number].
    pub fn number(&self) -> u32 {
        number(&self.device)
    }

    /// Whether a network's route stands in a table of its own, which the gateway's own packets do not look at: of networks that
    /// contain a peer's end point, as a default route does, the route would lead the tunnel's packets into the tunnel.
    pub fn is_apart(&self, network: Prefix) -> bool {
        self.apart.binary_search_by_key(&order(network), |&apart| order(apart)).is_ok()
    }

    /// The mark that the gateway's own sockets are to carry, if they are to carry one.
    pub fn mark(&self) -> Option<u32> {
        (!self.apart.is_empty()).then(|| self.number())
    }
}

fn order(network: Prefix) -> (IpAddr, u8) {
    (network.address(), network.bits())
}

/// Those of some networks that contain one of these end points, or everything. In order.
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

/// Networks as text.
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

/// Why a host is not as a gateway needs it.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// Something of the host is in the way.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Conflict(Vec<plan::Conflict>),
    /// The kernel refuses a step.
    #[error("cannot {step}: {source}")]
    Refused {
        /// What was to be done.
        step: String,
        /// The kernel's words.
        source: io::Error,
    },
    /// The process that keeps the host's state says no, or is gone.
    #[error("{0}")]
    Keeper(String),
}

/// Gives a kernel's refusal its step.
fn refused(step: impl Into<String>) -> impl FnOnce(io::Error) -> HostError {
    let step = step.into();
    move |source| HostError::Refused { step, source }
}

/// What `sealane tunnel up` would find and do on this host. It changes nothing, and takes no privilege; with CAP_NET_ADMIN the
/// kernel is also asked whether it takes the firewall table.
///
/// # Errors
/// The kernel does not say what its routes are.
pub fn forecast(wanted: &Wanted) -> Result<plan::Plan, HostError> {
    let mut kernel = Kernel::open().map_err(refused("ask the kernel for its routes"))?;
    let state = kernel.state(wanted).map_err(refused("read the kernel's routes"))?;
    let mut plan = plan::plan(wanted, &state);
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

/// Takes away what the gateway with this device has left on the host; without a device, what all gateways have left that no longer
/// run. Says what.
///
/// # Errors
/// The kernel refuses, for lack of CAP_NET_ADMIN for instance.
pub fn take_away(device: Option<&str>) -> Result<Vec<String>, HostError> {
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
        // A newer program must find what an older one has left.
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
            superpacket_bytes: 60_000,
            addresses: vec![("10.91.1.1".parse().expect("an address"), 24)],
            networks: ["0.0.0.0/0", "fd91:2::/64"].map(|word| word.parse().expect("a network")).to_vec(),
            apart: vec!["0.0.0.0/0".parse().expect("a network")],
            bare_protocol: Some(50),
            fails_open: false,
        };
        let text = serde_json::to_string(&wanted).expect("plain data");
        assert_eq!(serde_json::from_str::<Wanted>(&text).expect("the same"), wanted);
        assert!(serde_json::from_str::<Wanted>(&text.replace("0.0.0.0/0", "0.0.0.1/0")).is_err());
    }
}
