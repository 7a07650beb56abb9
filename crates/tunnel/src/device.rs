//! Addresses, MTU and routes of the device, set by `ip` (iproute2).
//!
//! Guarantees: everything set here hangs on the device, which is not persistent: it goes with the process, however that ends.

use std::{
    fs,
    io::{self, Write as _},
    process::{Command, Stdio},
};

use sealane_port::udp::{TRAIN_MAX_BYTES, TRAIN_MAX_DATAGRAMS};

use crate::{outward, site::Site};

/// What the kernel sets aside for headers before it fills a superpacket with segments (MAX_TCP_HEADER + 1), from the least to the
/// most that its configuration makes of it.
const SET_ASIDE_BYTES: [usize; 2] = [257, 384];
/// Of a segment's IPv4 and TCP headers with time stamps, as TCP mostly has them.
const TCP_HEADERS_BYTES: usize = 20 + 20 + 12;
/// The same over IPv6, whose segments are the shortest.
const TCP_HEADERS_V6_BYTES: usize = 40 + 20 + 12;
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
        let _ = ip(&format!("link set dev {device} gso_max_size {}\n", superpacket_bytes(site)));
    }
    Ok(())
}

/// Bytes of a superpacket of TCP that becomes one train of UDP, as full as it can be: one segment less a train costs 5 % of the
/// throughput, one more a second train.
fn superpacket_bytes(site: &Site) -> usize {
    let mtu = usize::from(site.mtu);
    let packets = (TRAIN_MAX_BYTES / outward::room(site).total_bytes(mtu)).clamp(1, TRAIN_MAX_DATAGRAMS);
    let [least, most] = SET_ASIDE_BYTES;
    let as_many = packets * (mtu - TCP_HEADERS_BYTES) + most;
    let not_one_more = (packets + 1) * (mtu - TCP_HEADERS_V6_BYTES) + least - 1;
    as_many.min(not_one_more)
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn site(mtu: usize, suite: &str) -> Site {
        let text = format!(
            "device = \"sl0\"\nlisten = \"192.0.2.1:4500\"\nmtu = {mtu}\n[[peers]]\nname = \"other\"\n\
             endpoint = \"192.0.2.2:4500\"\nnetworks = [\"10.2.0.0/16\"]\n[peers.manual]\nsuite = \"{suite}\"\n\
             send = {{ spi = 256, key-file = \"a\" }}\nreceive = {{ spi = 256, key-file = \"b\" }}\n"
        );
        Site::parse(Path::new("site.toml"), &text).expect("a good site file")
    }

    /// Whatever the kernel sets aside, with the headers that TCP has.
    #[test]
    fn a_superpacket_is_one_full_train() {
        for suite in ["aes-128-gcm", "chacha20-poly1305", "aes-128-cbc+hmac-sha256-128"] {
            for mtu in (1280..9000).step_by(4).chain([32_000, 65_000]) {
                let site = site(mtu, suite);
                let packet_bytes = outward::room(&site).total_bytes(mtu);
                let most = (TRAIN_MAX_BYTES / packet_bytes).clamp(1, TRAIN_MAX_DATAGRAMS);
                for set_aside in SET_ASIDE_BYTES {
                    let packets = |headers: usize| (superpacket_bytes(&site) - set_aside) / (mtu - headers);
                    assert_eq!(packets(TCP_HEADERS_BYTES), most, "{suite}, {mtu} bytes");
                    assert!(packets(TCP_HEADERS_V6_BYTES) <= most, "{suite}, {mtu} bytes over IPv6");
                }
            }
        }
    }
}
