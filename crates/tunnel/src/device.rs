//! How long the packets are that the kernel hands to the device at once.

use std::fs;

use sealane_port::udp::{TRAIN_MAX_BYTES, TRAIN_MAX_DATAGRAMS};

use crate::{outward, site::Site};

/// What the kernel sets aside for headers before it fills a superpacket with segments (MAX_TCP_HEADER + 1), from the least to the
/// most that its configuration makes of it.
const SET_ASIDE_BYTES: [usize; 2] = [257, 384];
/// Of a segment's IPv4 and TCP headers with time stamps, as TCP mostly has them.
const TCP_HEADERS_BYTES: usize = 20 + 20 + 12;
/// The same over IPv6, whose segments are the shortest.
const TCP_HEADERS_V6_BYTES: usize = 40 + 20 + 12;
/// What says whether this host forwards packets.
const FORWARDING: [&str; 2] =
    ["/proc/sys/net/ipv4/conf/all/forwarding", "/proc/sys/net/ipv6/conf/all/forwarding"];

/// Bytes of a superpacket of TCP that becomes one train of UDP, as full as it can be: one segment less a train costs 5 % of the
/// throughput, one more a second train.
pub fn superpacket_bytes(site: &Site) -> usize {
    let mtu = usize::from(site.mtu);
    let packets = (TRAIN_MAX_BYTES / outward::room(site).total_bytes(mtu)).clamp(1, TRAIN_MAX_DATAGRAMS);
    let [least, most] = SET_ASIDE_BYTES;
    let as_many = packets * (mtu - TCP_HEADERS_BYTES) + most;
    let not_one_more = (packets + 1) * (mtu - TCP_HEADERS_V6_BYTES) + least - 1;
    as_many.min(not_one_more)
}

/// Whether packets of other hosts may come to the device. The kernel cuts a forwarded superpacket that is longer than the device says
/// into all its packets, each of which then pays its own way: two trains cost far less. This host's own sockets make no longer ones.
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
