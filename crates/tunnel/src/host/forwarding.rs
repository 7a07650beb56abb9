//! Forwarding of packets between a gateway's device and the interfaces towards our networks.
//!
//! For IPv4 the setting `net.ipv4.conf.DEVICE.forwarding` of each interface is enough. IPv6 has one setting for all of them,
//! `net.ipv6.conf.all.forwarding`, which also stops interfaces from taking routes from routers; those that have taken them go
//! on (`accept_ra` 2).
//!
//! Guarantees: only settings that are needed are changed; a change is undone when the gateway ends, however it ends, unless its
//! keeper is killed, and then by the next `up` or by `down`, from a [file](Record); nobody's later change is undone.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use sealane_ipsec::selector::Prefix;
use sealane_peer::open_trusted;
use serde::{Deserialize, Serialize};

use super::{Wanted, blocked::Needed, netlink::Kernel};

/// The settings of interfaces.
const CONF: &str = "/proc/sys/net/ipv6/conf";
/// The setting that IPv6 has for all interfaces together.
const IPV6: &str = "/proc/sys/net/ipv6/conf/all/forwarding";
/// The maximum length of a record in bytes.
const RECORD_BYTES_MAX: u64 = 1 << 20;

/// A setting that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Changed {
    path: PathBuf,
    /// The values before and after.
    values: (String, String),
}

impl Changed {
    /// Returns whether it is a setting that this module changes; a record may be damaged.
    fn is_possible(&self) -> bool {
        let inside = ["/proc/sys/net/ipv4/conf", CONF]
            .iter()
            .find_map(|conf| self.path.strip_prefix(conf).ok())
            .map(|rest| rest.iter().map(|part| part.to_string_lossy().into_owned()).collect::<Vec<_>>());
        let is_setting = inside.is_some_and(|parts| {
            matches!(&parts[..], [device, name]
                if device != ".." && matches!(name.as_str(), "forwarding" | "accept_ra"))
        });
        let is_digit = |value: &String| matches!(value.as_str(), "0" | "1" | "2");
        is_setting && is_digit(&self.values.0) && is_digit(&self.values.1)
    }

    fn undo(&self) {
        let (before, after) = &self.values;
        // The device may be gone, and its setting with it.
        if value(&self.path).as_ref() == Some(after) {
            let _ = fs::write(&self.path, before);
        }
    }
}

fn value(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// The changed settings, and the file that holds them as long as they are changed.
#[derive(Debug)]
pub(super) struct Record {
    file: PathBuf,
    changed: Vec<Changed>,
}

impl Record {
    /// Returns the record of the gateway with this device. What one has left that was killed is undone.
    pub(super) fn begin(folder: &Path, device: &str) -> Self {
        let mut record =
            Self { file: folder.join(format!("tunnel-{device}.forwarding")), changed: Vec::new() };
        record.changed = record.read().unwrap_or_default();
        record.undo();
        record
    }

    fn read(&self) -> Option<Vec<Changed>> {
        let mut text = String::new();
        open_trusted(&self.file).ok()?.take(RECORD_BYTES_MAX).read_to_string(&mut text).ok()?;
        let mut changed: Vec<Changed> = serde_json::from_str(&text).ok()?;
        changed.retain(Changed::is_possible);
        Some(changed)
    }

    /// Writes the file, whole or not at all.
    fn write(&self) -> io::Result<()> {
        let new = self.file.with_extension("forwarding-new");
        let mut file = fs::File::create(&new)?;
        file.write_all(&serde_json::to_vec(&self.changed)?)?;
        fs::rename(new, &self.file)
    }

    /// Turns forwarding on. Returns the problem, in words.
    pub(super) fn turn_on(&mut self, wanted: &Wanted, kernel: &mut Kernel) -> Option<String> {
        let mut problem = None;
        let mut new: Vec<Changed> = Vec::new();
        let mut change = |path: PathBuf, before: &str, after: &str| {
            if value(&path).as_deref() == Some(before) {
                new.push(Changed { path, values: (before.to_owned(), after.to_owned()) });
            }
        };
        let v4 = PathBuf::from("/proc/sys/net/ipv4/conf");
        devices(wanted, kernel)
            .iter()
            .for_each(|device| change(v4.join(device).join("forwarding"), "0", "1"));
        if is_v6(wanted) && value(Path::new(IPV6)).as_deref() == Some("0") {
            for device in fs::read_dir(CONF).into_iter().flatten().flatten() {
                if !matches!(device.file_name().to_str(), Some("all" | "default")) {
                    change(device.path().join("accept_ra"), "1", "2");
                }
            }
            change(PathBuf::from(IPV6), "0", "1");
        }
        if new.is_empty() {
            return None;
        }
        // A killed keeper has said what it was about to do.
        let before = self.changed.len();
        self.changed.extend(new);
        // If the folder cannot be written, only a kill leaves something.
        let _ = self.write();
        let mut done = self.changed.split_off(before);
        done.retain(|change| match fs::write(&change.path, &change.values.1) {
            Ok(()) => true,
            Err(error) => {
                let path = change.path.display();
                problem = Some(format!(
                    "cannot turn forwarding on, so hosts behind this one are not reached: {path}: {error}"
                ));
                false
            }
        });
        self.changed.extend(done);
        problem
    }

    /// Undoes the changes.
    pub(super) fn undo(&mut self) {
        // The setting of all interfaces comes last, and goes first.
        self.changed.drain(..).rev().for_each(|changed| changed.undo());
        let _ = fs::remove_file(&self.file);
    }
}

/// Undoes what killed gateways have left: the one with this device, or all for which `is_running` says no. Returns the names of
/// their devices.
pub(super) fn take_away(
    folder: &Path,
    device: Option<&str>,
    is_running: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut gone = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_str().and_then(|name| name.strip_prefix("tunnel-")?.strip_suffix(".forwarding"));
        let Some(name) = name else { continue };
        if device.map_or_else(|| !is_running(name), |device| device == name) {
            drop(Record::begin(folder, name));
            gone.push(name.to_owned());
        }
    }
    gone
}

/// Returns the packets that are forwarded.
pub(super) fn needed(wanted: &Wanted, kernel: &mut Kernel) -> Vec<Needed> {
    let all = devices(wanted, kernel);
    let pairs = all.iter().skip(1).flat_map(|other| {
        let (device, other) = (wanted.device.as_str(), other.as_str());
        [(device, other, "from peers to hosts behind"), (other, device, "to peers from hosts behind")]
    });
    let needed = pairs.map(|(from, to, way)| Needed {
        what: format!("packets {way} {}", if from == wanted.device { to } else { from }),
        is_input: false,
        devices: [from, to].map(|name| Some(name.to_owned())),
        protocol: None,
    });
    needed.collect()
}

fn is_v6(wanted: &Wanted) -> bool {
    wanted.forwards.iter().flatten().any(|network| network.address().is_ipv6())
}

fn overlap(one: Prefix, other: Prefix) -> bool {
    one.contains(other.address()) || other.contains(one.address())
}

/// Returns the interfaces whose settings of IPv4 count, the gateway's device first.
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

/// Returns the words about the settings that would be changed.
pub(super) fn notes(wanted: &Wanted, kernel: &mut Kernel) -> Vec<String> {
    let all = devices(wanted, kernel);
    let v4 = (!all.is_empty()).then(|| {
        format!(
            "forwarding of IPv4 is turned on for {} where it is off, and off again at the end",
            all.join(" and ")
        )
    });
    let is_off = value(Path::new(IPV6)).as_deref() == Some("0");
    let v6 = (is_v6(wanted) && is_off).then(|| {
        "forwarding of IPv6 is turned on for this host, and off again at the end; interfaces that take routes from routers \
         go on to do so (accept_ra 2)"
            .to_owned()
    });
    v4.into_iter().chain(v6).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_record_changes_no_other_setting() {
        let changed = |path: &str, before: &str| Changed {
            path: path.into(),
            values: (before.to_owned(), "1".to_owned()),
        };
        for good in ["/proc/sys/net/ipv4/conf/eth0/forwarding", "/proc/sys/net/ipv6/conf/eth0.7/accept_ra"] {
            assert!(changed(good, "0").is_possible(), "{good}");
        }
        for bad in [
            "/proc/sys/net/ipv4/conf/../forwarding",
            "/proc/sys/net/ipv4/conf/eth0/rp_filter",
            "/proc/sys/net/ipv4/conf/eth0/x/forwarding",
            "/proc/sys/kernel/core_pattern",
            "/etc/passwd",
            "",
        ] {
            assert!(!changed(bad, "0").is_possible(), "{bad}");
        }
        assert!(!changed("/proc/sys/net/ipv4/conf/eth0/forwarding", "|evil").is_possible());
    }
}
