//! Gateways that agree with strongSwan on associations of a kernel.

use super::{ENDPOINT, INNER, PSK, connections, dropped, secret, site};
use crate::network::Net;
use crate::network::guest::{self, Guest};
use crate::program::skip;

#[test]
fn a_kernel_behind_strongswan_counts_in_64_bits_inside_udp_and_without() {
    if let Some(why) = guest::missing() {
        return skip(&why);
    }
    for (tag, encap, plain) in [("ke", "yes", ""), ("kf", "no", "encapsulation = \"none\"\n")] {
        let mut net = Net::new(tag, &["a"]);
        secret(net.folder.path(), "psk", PSK);
        let psk = "auth = psk";
        let text = connections(
            ["aes256gcm16-prfsha384-x25519", "aes256gcm16-esn"],
            psk,
            psk,
            "remote_addrs = 10.90.0.1",
            "",
        );
        let guest =
            Guest::start(&net, "a", INNER[1], &text.replace("encap = yes", &format!("encap = {encap}")));
        let ike = "psk-file = \"psk\"\nesp-proposals = [\"aes256gcm16-esn\"]";
        net.gateway("a", 1400, &format!("{plain}{}", site(&format!("{ENDPOINT}rekey-seconds = 2\n"), ike)));
        net.wait_for_ping("a", INNER[1]);
        for count in [4, 8] {
            net.wait_for_ping("a", INNER[1]);
            let output = net.run("a", "ping", &format!("-c {count} -i 0.3 -s 1000 {}", INNER[1]));
            assert!(output.status.success(), "{}", guest.log());
        }
        let state = guest.associations();
        assert!(state.contains("flag") && state.contains("esn"), "{state}\n{}", guest.log());
        assert_eq!(state.contains("espinudp"), plain.is_empty(), "{state}");
        assert!(
            guest.log().contains("rekeyed") || guest.log().contains("CHILD_SA closed"),
            "{}",
            guest.log()
        );
        let lost = dropped(&net, "a", &["expired", "unknown_spi", "selector_mismatch", "bad_integrity"]);
        assert!(lost.is_empty(), "{lost:?}\n{}", guest.log());
    }
}
