//! Gateways whose devices have several queues, each with an association of its own.

use std::collections::BTreeSet;
use std::fs;
use std::thread;
use std::time::Duration;

use super::{ENDPOINT, INNER, both, by_psk, dropped, load, own_hosts, own_site, site, spis, transfer_to};
use crate::network::Net;
use crate::network::strongswan::{self, StrongSwan};
use crate::program::{pattern, text, wait_for};

/// Connections in each direction at a time.
const CONNECTIONS: usize = 12;
/// Reasons for which no packet is dropped while associations come and go.
const REASONS: [&str; 6] =
    ["expired", "unknown_spi", "selector_mismatch", "replay_duplicate", "replay_too_old", "no_association"];

/// Returns the site file of one of our ends, with additional first lines, lines of the peer and lines about IKE.
fn queued(end: usize, first: &str, peer: &str, ike: &str) -> String {
    format!("{first}{}{ike}", own_site(end, peer))
}

/// Makes two hosts with gateways, each with these first lines and these lines about IKE.
fn gateways(tag: &str, peer: &str, ends: [(&str, &str); 2]) -> Option<Net> {
    let mut net = own_hosts(tag)?;
    both(&mut net, |end| queued(end, ends[end].0, peer, ends[end].1));
    net.wait_for_ping("a", INNER[1]);
    Some(net)
}

/// Carries bytes by many connections in both directions at once, and compares them.
fn many(net: &Net, bytes: usize) {
    let content = pattern(bytes);
    thread::scope(|scope| {
        for (from, to, inner) in [("a", "b", INNER[1]), ("b", "a", INNER[0])] {
            for _ in 0..CONNECTIONS {
                let content = &content;
                scope.spawn(move || transfer_to(net, from, (to, inner), content));
            }
        }
    });
}

/// Returns the number of associations under which a gateway sends, and of those that have carried packets.
fn sending(net: &Net, host: &str) -> (usize, usize) {
    let status = net.status(host);
    let all = status["peers"][0]["associations"].as_array().expect("a list").clone();
    let out: Vec<_> = all.iter().filter(|own| own["direction"] == "out").collect();
    let used = out.iter().filter(|own| own["packets"].as_u64() > Some(10)).count();
    (out.len(), used)
}

/// Whatever the other end has, flows of both directions carry their bytes, and each queue has an association if the other end allows as
/// many.
#[test]
fn each_queue_has_an_association_if_the_other_end_allows_it() {
    let queues = "queues = 4\n";
    for (tag, far, expected) in [
        ("qb", (queues, ""), 4),
        ("qo", ("", "children = 4\n"), 4),
        ("qt", ("queues = 2\nqueueing = \"fifo\"\n", ""), 2),
        ("q1", ("", ""), 1),
    ] {
        let Some(net) = gateways(tag, "", [(queues, ""), far]) else { return };
        wait_for("associations for the queues", || {
            many(&net, 30_000);
            sending(&net, "a") == (expected, expected) && sending(&net, "b") == (expected, expected)
        });
        many(&net, 1_000_000);
        // It stays so, and no more are asked for.
        assert_eq!((sending(&net, "a").0, sending(&net, "b").0), (expected, expected), "{tag}");
        for host in ["a", "b"] {
            let lost = dropped(&net, host, &REASONS[..5]);
            assert!(lost.is_empty(), "{tag} {host}: {lost:?}");
            let status = net.status(host);
            let peer = &status["peers"][0];
            let children = peer["ike"][0]["children"].as_array().expect("a list");
            assert_eq!(children.len(), expected, "{status}");
            // The packets of all of them are the peer's.
            let out = peer["associations"].as_array().expect("a list").iter();
            let out = out.filter(|own| own["direction"] == "out").map(|own| own["packets"].as_u64());
            let packets: u64 = out.map(|packets| packets.expect("a count")).sum();
            assert!(packets > 1000 && peer["sent_packets"].as_u64() >= Some(packets / 2), "{status}");
        }
    }
}

/// Each association has successors of its own, and all of them end with a gateway that ends.
#[test]
fn associations_of_queues_get_successors_and_end_with_their_gateway() {
    let queues = "queues = 3\n";
    let Some(mut net) = gateways("qg", "rekey-seconds = 2\n", [(queues, ""), (queues, "")]) else { return };
    wait_for("associations for the queues", || {
        many(&net, 30_000);
        [spis(&net, "a").len(), spis(&net, "b").len()] == [3, 3]
    });
    let before: BTreeSet<u64> = spis(&net, "a").into_iter().collect();
    assert!(load(&net, Duration::from_secs(6)) >= 3);
    wait_for("successors of all", || {
        many(&net, 30_000);
        let now = spis(&net, "a");
        now.len() == 3 && now.iter().all(|spi| !before.contains(spi))
    });
    for host in ["a", "b"] {
        let lost = dropped(&net, host, &REASONS);
        assert!(lost.iter().all(|drop| drop[0] == "no_association"), "{host}: {lost:?}");
    }
    // The other gateway is killed, and comes back without its state.
    net.children.pop().expect("it runs");
    net.gateway("b", 1400, &queued(1, queues, "", ""));
    net.wait_for_ping("b", INNER[0]);
    let known = |net: &Net, host: &str, direction: &str| -> BTreeSet<u64> {
        net.spis(host, direction).into_iter().collect()
    };
    // Associations that have ended still receive for a while.
    wait_for("associations for the queues again, and none of before", || {
        many(&net, 30_000);
        let [out, back] = [known(&net, "a", "out"), known(&net, "b", "out")];
        let are_known = out.is_subset(&known(&net, "b", "in")) && back.is_subset(&known(&net, "a", "in"));
        out.len() == 3 && back.len() == 3 && are_known
    });
}

/// strongSwan takes a request for another child for one of any child, so the queues share the first.
#[test]
fn queues_share_the_only_association_with_strongswan() {
    let Some(mut net) = super::two_hosts("qs", strongswan::missing) else { return };
    let text = by_psk(["aes256gcm16-prfsha384-x25519", "aes256gcm16-x25519"], "", "");
    let far = StrongSwan::start(&mut net, "b", &text, |_| {});
    let own = site(&format!("{ENDPOINT}rekey-seconds = 3\n"), "psk-file = \"psk\"");
    net.gateway("a", 1400, &format!("queues = 4\n{own}"));
    net.wait_for_ping("a", INNER[1]);
    many(&net, 100_000);
    assert_eq!(spis(&net, "a").len(), 1, "{}", far.log());
    assert!(load(&net, Duration::from_secs(7)) >= 1, "{}", far.log());
    many(&net, 300_000);
    // strongSwan sends under a new association before its answer has come, also under the one that is then deleted.
    let lost = dropped(&net, "a", &REASONS[..5]);
    assert!(lost.iter().all(|drop| drop[0] == "unknown_spi"), "{lost:?}\n{}", far.log());
    wait_for("one association", || spis(&net, "a").len() == 1);
    super::wait_for_words(&mut net, 1, "1 of 4 pairs of associations");
}

#[test]
fn another_number_of_queues_takes_a_restart() {
    let Some(mut net) = own_hosts("qr") else { return };
    net.gateway("a", 1400, &queued(0, "queues = 2\n", "", ""));
    let path = net.folder.path().join("a.toml");
    let before = fs::read_to_string(&path).expect("it is there");
    fs::write(&path, before.replace("queues = 2", "queues = 3")).expect("a file");
    let output = net.tunnel("a", "reload").output().expect("it runs");
    let said = text(&output.stderr);
    assert!(said.contains("queues has changed, which takes a restart"), "{said}");
}
