//! The maximum length of the packets that the kernel passes to the device at once.

use std::fs;

use sealane_port::udp::{BURST_MAX_BYTES, BURST_MAX_DATAGRAMS};

use crate::{outward, site::Site};

/// The room that the kernel reserves for headers before it fills a GSO packet with segments (MAX_TCP_HEADER + 1):
/// the minimum and the maximum over its configurations.
const SET_ASIDE_BYTES: [usize; 2] = [257, 384];
/// The length of a segment's IPv4 and TCP headers with time stamps, as TCP mostly has them.
const TCP_HEADERS_BYTES: usize = 20 + 20 + 12;
/// The same over IPv6, which has the shortest segments.
const TCP_HEADERS_V6_BYTES: usize = 40 + 20 + 12;
/// The files that show whether this host forwards packets.
const FORWARDING: [&str; 2] =
    ["/proc/sys/net/ipv4/conf/all/forwarding", "/proc/sys/net/ipv6/conf/all/forwarding"];

/// Returns the length in bytes of the longest GSO packet of TCP that becomes one burst of UDP: with one segment
/// less, a burst loses 5 % of the throughput; one segment more needs a second burst.
pub fn gso_packet_bytes(site: &Site) -> usize {
    let mtu = usize::from(site.mtu);
    let packets = (BURST_MAX_BYTES / outward::room(site).total_bytes(mtu)).clamp(1, BURST_MAX_DATAGRAMS);
    let [least, most] = SET_ASIDE_BYTES;
    let as_many = packets * (mtu - TCP_HEADERS_BYTES) + most;
    let not_one_more = (packets + 1) * (mtu - TCP_HEADERS_V6_BYTES) + least - 1;
    as_many.min(not_one_more)
}

/// Returns whether packets of other hosts may be routed to the device. The kernel splits a forwarded GSO packet that
/// is longer than the device's limit into single packets, each with its own cost: two bursts are far cheaper. This
/// host's own sockets make GSO packets within the limit.
pub fn forwards() -> bool {
    FORWARDING.iter().any(|path| fs::read_to_string(path).is_ok_and(|text| text.trim() != "0"))
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

    /// The burst is full for every reserved size and TCP's usual headers.
    #[test]
    fn a_gso_packet_of_tcp_is_one_full_burst() {
        for suite in ["aes-128-gcm", "chacha20-poly1305", "aes-128-cbc+hmac-sha256-128"] {
            for mtu in (1280..9000).step_by(4).chain([32_000, 65_000]) {
                let site = site(mtu, suite);
                let packet_bytes = outward::room(&site).total_bytes(mtu);
                let most = (BURST_MAX_BYTES / packet_bytes).clamp(1, BURST_MAX_DATAGRAMS);
                for set_aside in SET_ASIDE_BYTES {
                    let packets = |headers: usize| (gso_packet_bytes(&site) - set_aside) / (mtu - headers);
                    assert_eq!(packets(TCP_HEADERS_BYTES), most, "{suite}, {mtu} bytes");
                    assert!(packets(TCP_HEADERS_V6_BYTES) <= most, "{suite}, {mtu} bytes over IPv6");
                }
            }
        }
    }
}
