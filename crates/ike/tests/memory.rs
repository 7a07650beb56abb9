//! The memory of an IKE SA with its child.

#[path = "../../../testing/allocations.rs"]
mod allocations;
mod common;

use std::{
    net::{IpAddr, SocketAddr},
    time::Instant,
};

use common::{Dice, peer};
use sealane_ike::{Endpoint, Identity, Offer, Settings};

/// Number of IKE SAs that are established at once.
const PEERS: usize = 300;
/// Maximum number of bytes per IKE SA, with its child.
const MOST_BYTES: i64 = 16 * 1024;

/// Lets a client, seen as `outside`, and the gateway exchange datagrams until neither has one to send; events are
/// dropped.
fn talk(client: &mut Endpoint, gateway: &mut Endpoint, outside: IpAddr, now: Instant) {
    loop {
        let mut is_silent = true;
        while let Some(sent) = client.poll_transmit() {
            let from = SocketAddr::new(outside, sent.path.local.port());
            gateway.handle(&sent.bytes, from, sent.path.remote, now);
            is_silent = false;
        }
        while let Some(sent) = gateway.poll_transmit() {
            let to = SocketAddr::new(common::address(0), sent.path.remote.port());
            client.handle(&sent.bytes, sent.path.local, to, now);
            is_silent = false;
        }
        while client.poll_event().is_some() || gateway.poll_event().is_some() {}
        if is_silent {
            return;
        }
    }
}

#[test]
fn an_ike_sa_with_its_child_fits_16_kib() {
    for suite in ["aes256gcm16-prfsha384-x25519", "aes256-sha512-ecp384"] {
        let proposals = || vec![Offer::ike(suite).unwrap()];
        let mut open = peer(1);
        (open.remote, open.remote_identity, open.proposals) = (None, None, proposals());
        let settings = Settings { cookie_threshold: PEERS, ..Settings::default() };
        let mut gateway = Endpoint::new(settings, vec![open], Dice::random(1));
        let now = Instant::now();
        let before = allocations::live_bytes();
        for index in 0..PEERS {
            let mut own = peer(0);
            own.local_identity = Identity::from_text(&format!("peer{index}.example"));
            own.proposals = proposals();
            let mut client = Endpoint::new(Settings::default(), vec![own], Dice::random(2 + index as u64));
            client.initiate(0, Some(0), None, now).unwrap();
            talk(
                &mut client,
                &mut gateway,
                [198, 51, 100 + (index / 250) as u8, (index % 250) as u8].into(),
                now,
            );
        }
        assert_eq!(gateway.established().count(), PEERS);
        let each = (allocations::live_bytes() - before) / PEERS as i64;
        println!("{suite}: {each} bytes, the cryptographic library's own aside");
        assert!(each <= MOST_BYTES, "{suite}: {each} bytes");
        drop(gateway);
        assert!(allocations::live_bytes() - before < 64 * 1024, "memory is given back");
    }
}
