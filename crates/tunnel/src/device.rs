//! Addresses, MTU and routes of the device, set by `ip` (iproute2).
//!
//! Guarantees: everything set here hangs on the device, which is not persistent: it goes with the process, however that ends.

use std::{
    fs,
    io::{self, Write as _},
    process::{Command, Stdio},
};

use crate::site::Site;

/// Bytes of a superpacket that becomes a train of one UDP datagram over IPv4 with any suite: 44 packets of 1,438 bytes and their
/// headers stay below 65,507.
const SUPERPACKET_BYTES: u32 = 61_000;
/// Packets that wait in the device. A lane may have to wait some milliseconds for a processor; of packets that come one by one the
/// kernel's own 500 are those of 3 ms at 150,000 a second.
const QUEUE_PACKETS: u32 = 2000;
/// What says whether this host forwards packets.
const FORWARDING: [&str; 2] =
    ["/proc/sys/net/ipv4/conf/all/forwarding", "/proc/sys/net/ipv6/conf/all/forwarding"];

/// Why the device cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// `ip` cannot be run.
    #[error("cannot run ip, which Debian has in the package iproute2: {0}")]
    Run(#[source] io::Error),
    /// `ip` says no.
    #[error("ip refuses to set up the device: {0}")]
    Refused(String),
}

/// The commands that set up `device` for `site`, as `ip -batch` takes them.
pub fn commands(site: &Site, device: &str) -> String {
    let mut batch = format!("link set dev {device} mtu {} txqueuelen {QUEUE_PACKETS} up\n", site.mtu);
    for (address, bits) in &site.addresses {
        batch += &format!("address add {address}/{bits} dev {device}\n");
    }
    for network in site.peers.iter().flat_map(|peer| &peer.networks) {
        // The most precise route wins, so a peer's network may contain our own.
        batch += &format!("route replace {network} dev {device}\n");
    }
    batch
}

/// Sets up `device`.
///
/// # Errors
/// `ip` is missing or refuses.
pub fn set_up(site: &Site, device: &str) -> Result<(), DeviceError> {
    ip(&commands(site, device))?;
    // The kernel cuts a forwarded superpacket that is longer than this into all its packets, each of which then pays its own way: two
    // trains cost far less. This host's own sockets make no longer ones.
    if !forwards() {
        // Older kernels and iproute2 do not know it; trains are then split, which costs, but works.
        let _ = ip(&format!("link set dev {device} gso_max_size {SUPERPACKET_BYTES}\n"));
    }
    Ok(())
}

/// Whether packets of other hosts may come to the device.
fn forwards() -> bool {
    FORWARDING.iter().any(|path| fs::read_to_string(path).is_ok_and(|text| text.trim() != "0"))
}

fn ip(batch: &str) -> Result<(), DeviceError> {
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(DeviceError::Run)?;
    // If it ends early, its status says why.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(batch.as_bytes()));
    let output = child.wait_with_output().map_err(DeviceError::Run)?;
    if output.status.success() {
        return Ok(());
    }
    Err(DeviceError::Refused(String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ")))
}
