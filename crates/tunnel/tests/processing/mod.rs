//! The processors of a gateway's packets, without a device, a socket or a clock.
#![allow(dead_code, reason = "each test file uses its part of it")]

use std::{net::SocketAddr, num::NonZeroUsize, path::Path, sync::Arc, time::Instant};

use sealane_engine::{Engine, Implementations, Inline};
use sealane_ipsec::{
    association::{Inbound, Outbound},
    lifetime::Lifetime,
    policy::PeerId,
    suite::Suite,
};
use sealane_lanes::{Bells, Recycle as _};
use sealane_port::Batch;
use sealane_tunnel::{
    in_memory,
    inward::{Acceptor, Arrival, Opener},
    outward::{Load, Router, Sealer, room},
    peers::Peers,
    pipeline::Processor as _,
    site::Site,
};

/// Returns the site of a gateway with `count` peers, whose networks are `10.128.0.0/24` and those after it; the
/// packets made here go to the first one.
pub(crate) fn site(suite: &str, count: usize) -> Site {
    let mut text = "device = \"sl0\"\nlisten = \"192.0.2.1:4500\"\nmtu = 1436\n".to_owned();
    for peer in 0..count {
        let (high, low) = (128 + peer / 256, peer % 256);
        text += &format!(
            "[[peers]]\nname = \"p{peer}\"\nendpoint = \"192.0.2.2:4500\"\nnetworks = [\"10.{high}.{low}.0/24\"]\n\
             [peers.manual]\nsuite = \"{suite}\"\nsend = {{ spi = {0}, key-file = \"a\" }}\n\
             receive = {{ spi = {0}, key-file = \"b\" }}\n",
            256 + peer,
        );
    }
    Site::parse(Path::new("site.toml"), &text).expect("a site of this test")
}

/// Returns the site of the first peer, which has the gateway's network in place of its own.
pub(crate) fn far_of(site: &Site) -> Site {
    let mut far = site.clone();
    far.peers[0].networks = vec!["10.1.0.0/16".parse().expect("a network")];
    far
}

/// Returns the gateway's peers, without associations.
pub(crate) fn peers(site: &Site, now: Instant) -> Peers {
    Peers::new(site, now, Bells::new(1).expect("bells"))
}

/// Returns both sides of an association, with keys derived from `seed`.
pub(crate) fn association(
    suite: Suite,
    spi: u32,
    peer: PeerId,
    seed: u8,
    lifetime: Lifetime,
    now: Instant,
) -> (Arc<Outbound>, Arc<Inbound>) {
    in_memory::association(Implementations::default(), suite, spi, peer, seed, lifetime, now)
        .expect("good parameters")
}

/// Returns a UDP packet of `bytes` bytes from the gateway's inside to the first peer's, whose data begins with
/// `number`.
pub(crate) fn packet(number: u64, bytes: usize) -> Vec<u8> {
    let mut packet = vec![number as u8; bytes.max(36)];
    in_memory::write_packet(&mut packet, [10, 128, 0, 1].into(), number);
    packet
}

/// One gateway's lane in either direction.
pub(crate) struct Processors<'a> {
    site: &'a Site,
    router: Router<'a>,
    sealer: Sealer,
    opener: Opener<'a>,
    acceptor: Acceptor<'a>,
    pub(crate) load: Load,
    pub(crate) arrival: Arrival,
}

impl<'a> Processors<'a> {
    pub(crate) fn new(site: &'a Site, peers: &'a Peers) -> Self {
        Self::on(&Inline::new(Implementations::default()), site, peers)
    }

    pub(crate) fn on(engine: &dyn Engine, site: &'a Site, peers: &'a Peers) -> Self {
        let queue = || engine.queue(NonZeroUsize::MIN).expect("descriptors for a queue");
        Self {
            site,
            router: Router::new(peers),
            sealer: Sealer::new(queue(), site.listen.ip()),
            opener: Opener::new(peers, queue()),
            acceptor: Acceptor::new(peers),
            load: Load::new(),
            arrival: Arrival::new(),
        }
    }

    /// Places `packets` of the device in the load.
    pub(crate) fn give<'p>(&mut self, packets: impl IntoIterator<Item = &'p [u8]>) {
        self.load.recycle();
        let room = room(self.site);
        for packet in packets {
            assert!(room.push_bytes(&mut self.load.batch, packet), "a batch has room");
        }
    }

    /// Plans and seals the load.
    pub(crate) fn seal(&mut self, now: Instant) {
        self.router.plan(&mut self.load, now);
        self.sealer.work(&mut self.load);
    }

    /// Places `packets` of a peer in the arrival.
    pub(crate) fn arrive<'p>(&mut self, packets: impl IntoIterator<Item = &'p [u8]>) {
        self.arrival.recycle();
        self.arrival.source = Some(SocketAddr::from(([192, 0, 2, 2], 4500)).into());
        for packet in packets {
            assert!(self.arrival.batch.push_bytes(0, packet, 0), "a batch has room");
        }
    }

    /// Opens and accepts the arrival.
    pub(crate) fn accept(&mut self, now: Instant) {
        self.arrival.time = now;
        self.opener.work(&mut self.arrival);
        self.acceptor.accept(&mut self.arrival);
    }
}

/// Returns the packets of a batch that were not dropped.
pub(crate) fn passed(batch: &Batch) -> impl Iterator<Item = &[u8]> {
    batch.passed().filter(|packet| !packet.is_empty())
}
