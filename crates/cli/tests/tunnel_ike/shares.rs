//! Gateways whose children share the flows of a peer (RFC 9611).

use std::time::Duration;

use super::{INNER, both, dropped, load, own_hosts, own_site, spis, transfer};
use crate::network::Net;
use crate::program::wait_for;

/// Makes two hosts with gateways that allow so many children each.
fn gateways(tag: &str, rest: &str, children: [u16; 2]) -> Option<Net> {
    let mut net = own_hosts(tag)?;
    both(&mut net, |end| format!("{}children = {}\n", own_site(end, rest), children[end]));
    net.wait_for_ping("a", INNER[1]);
    Some(net)
}

#[test]
fn flows_are_spread_over_as_many_children_as_both_gateways_allow() {
    let Some(net) = gateways("ks", "", [4, 3]) else { return };
    // Each connection has a port of its own, and so is a flow of its own; the first ones ask for the children.
    let idle = |host: &str| {
        let status = net.status(host);
        let all = status["peers"][0]["associations"].as_array().expect("a list").clone();
        let out = all.iter().filter(|own| own["direction"] == "out");
        out.filter(|own| own["packets"].as_u64().is_none_or(|packets| packets < 10)).count()
    };
    wait_for("three children that all carry flows", || {
        transfer(&net, 100_000);
        [spis(&net, "a").len(), spis(&net, "b").len(), idle("a"), idle("b")] == [3, 3, 0, 0]
    });
    let status = net.status("a");
    let children = status["peers"][0]["ike"][0]["children"].as_array().expect("a list");
    assert!(children.iter().all(|child| child["traffic"] == "10.91.1.0/24 === 10.91.2.0/24"), "{status}");
    let lost = dropped(&net, "b", &["expired", "unknown_spi", "selector_mismatch", "replay_duplicate"]);
    assert!(lost.is_empty(), "{lost:?}");
}

#[test]
fn children_that_share_flows_get_successors_under_load() {
    let Some(net) = gateways("kg", "rekey-seconds = 2\n", [2, 2]) else { return };
    wait_for("two children", || {
        transfer(&net, 10_000);
        spis(&net, "a").len() == 2
    });
    assert!(load(&net, Duration::from_secs(5)) >= 2);
    for host in ["a", "b"] {
        let lost = dropped(&net, host, &["expired", "unknown_spi", "selector_mismatch", "replay_duplicate"]);
        assert!(lost.is_empty(), "{host}: {lost:?}");
    }
}
