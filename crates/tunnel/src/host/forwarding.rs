//! Forwarding of IPv4 packets between a gateway's device and the interfaces towards our networks, by the setting
//! `net.ipv4.conf.DEVICE.forwarding` of each.
//!
//! Guarantees: only interfaces that need it are changed; a change is undone when the gateway ends, however it ends, unless its
//! keeper is killed.

use std::{fs, path::PathBuf};

use sealane_ipsec::selector::Prefix;

use super::{Wanted, netlink::Kernel};

/// The setting that IPv6 has for all interfaces together.
const IPV6: &str = "/proc/sys/net/ipv6/conf/all/forwarding";

fn setting(device: &str) -> PathBuf {
    PathBuf::from(format!("/proc/sys/net/ipv4/conf/{device}/forwarding"))
}

fn overlap(one: Prefix, other: Prefix) -> bool {
    one.contains(other.address()) || other.contains(one.address())
}

/// Returns the interfaces, the gateway's device first.
fn devices(wanted: &Wanted, kernel: &mut Kernel) -> Vec<String> {
    let Some(networks) = &wanted.forwards else { return Vec::new() };
    let leads = |destination: Prefix| {
        let is_v4 = destination.address().is_ipv4();
        // The default route leads to a network of ours only if everything is one.
        let is_default = destination.bits() == 0;
        let is_one =
            |network: &Prefix| overlap(*network, destination) && (!is_default || network.bits() == 0);
        is_v4 && (networks.is_empty() && !is_default || networks.iter().any(is_one))
    };
    // If the kernel does not say, the device alone is changed.
    let mut others = kernel.interfaces_towards(leads).unwrap_or_default();
    others.retain(|name| *name != wanted.device);
    std::iter::once(wanted.device.clone()).chain(others).collect()
}

/// Turns forwarding on. Returns the settings that were off before.
pub(super) fn turn_on(wanted: &Wanted, kernel: &mut Kernel) -> (Vec<PathBuf>, Option<String>) {
    let mut changed = Vec::new();
    let mut problem = None;
    for path in devices(wanted, kernel).iter().map(|device| setting(device)) {
        if fs::read_to_string(&path).is_ok_and(|text| text.trim() == "0") {
            match fs::write(&path, "1") {
                Ok(()) => changed.push(path),
                Err(error) => {
                    let path = path.display();
                    problem = Some(format!(
                        "cannot turn forwarding on, so hosts behind this one are not reached: {path}: {error}"
                    ));
                }
            }
        }
    }
    (changed, problem)
}

/// Turns forwarding off again where it was.
pub(super) fn turn_off(changed: &mut Vec<PathBuf>) {
    for path in changed.drain(..) {
        // The device may be gone, and its setting with it.
        let _ = fs::write(path, "0");
    }
}

/// Returns the words about the settings that would be changed.
pub(super) fn note(wanted: &Wanted, kernel: &mut Kernel) -> Option<String> {
    let all = devices(wanted, kernel);
    (!all.is_empty()).then(|| {
        format!(
            "forwarding of IPv4 is turned on for {} where it is off, and off again at the end",
            all.join(" and ")
        )
    })
}

/// Returns the words about what hosts behind this one need, and `up` does not change.
pub(super) fn warning(wanted: &Wanted) -> Option<String> {
    let is_v6 = wanted.forwards.iter().flatten().any(|network| network.address().is_ipv6());
    let is_off = fs::read_to_string(IPV6).is_ok_and(|text| text.trim() == "0");
    (is_v6 && is_off).then(|| {
        "this host does not forward IPv6: hosts behind it are reached once net.ipv6.conf.all.forwarding is 1, which also \
         stops it from taking routes from routers"
            .to_owned()
    })
}
