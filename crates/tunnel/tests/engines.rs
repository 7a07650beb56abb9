//! A tunnel's processors on engines that answer late, out of order and not for all jobs: no packet is lost, reordered or
//! sealed twice.

#[path = "../../../testing/late_engine.rs"]
mod late_engine;
mod processing;

use std::{
    io,
    num::NonZeroUsize,
    os::{fd::AsFd as _, unix::net::UnixDatagram},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use late_engine::LateEngine;
use processing::{Processors, association, far_of, packet, passed, peers, site};
use sealane_card::KINDS;
use sealane_engine::{Engine, EngineChoice, Implementations, Lanes};
use sealane_ipsec::{lifetime::Lifetime, policy::PeerId};
use sealane_transform::Kernels;
use sealane_tunnel::{
    inward::{Acceptor, Arrival, Opener},
    outward::{Load, Router, Sealer, room},
    peers::Peers,
    pipeline::{LOADS, Pipeline},
    site::Site,
};

const SUITES: [&str; 5] = [
    "aes-256-gcm",
    "aes-128-gmac",
    "chacha20-poly1305",
    "aes-128-cbc+hmac-sha256-128",
    "aes-256-ctr+hmac-sha512-256",
];

/// Returns both ends, with one association from the first to the second.
fn ends(suite: &str, now: Instant) -> ([Site; 2], [Peers; 2]) {
    let near = site(suite, 1);
    let far = far_of(&near);
    let both = [peers(&near, now), peers(&far, now)];
    let suite = near.peers[0].suite();
    let (outbound, inbound) = association(suite, 0x101, PeerId(0), 1, Lifetime::default(), now);
    both[0].database().install_outbound(outbound);
    both[1].database().install_inbound(inbound).expect("the first of its index");
    ([near, far], both)
}

#[test]
fn one_lane_loses_nothing() {
    let now = Instant::now();
    for suite in SUITES {
        let ([near_site, far_site], [near, far]) = ends(suite, now);
        let late = LateEngine::new(3);
        let mut sender = Processors::on(&late, &near_site, &near);
        let mut receiver = Processors::on(&late, &far_site, &far);
        for load in 0..30 {
            let sent: Vec<Vec<u8>> =
                (0..20).map(|index| packet(20 * load + index, 40 + 60 * index as usize)).collect();
            sender.give(sent.iter().map(Vec::as_slice));
            sender.seal(now);
            let sealed: Vec<Vec<u8>> = passed(&sender.load.batch).map(<[u8]>::to_vec).collect();
            receiver.arrive(sealed.iter().map(Vec::as_slice));
            receiver.accept(now);
            assert!(
                passed(&receiver.arrival.batch).eq(sent.iter().map(Vec::as_slice)),
                "{suite}, load {load}"
            );
        }
        let done = late.done();
        assert!(
            done.pending_jobs.load(Relaxed) > 100 && done.refusals.load(Relaxed) > 5,
            "{suite}: {done:?}"
        );
        assert_eq!(done.nonces.load(Relaxed) > 0, !suite.contains("cbc"), "{suite}: {done:?}");
    }
}

/// The lanes of both ends restore the order, on an engine that does not keep it.
#[test]
fn lanes_lose_and_reorder_nothing() {
    const LOADS: u64 = 150;
    const PER_LOAD: u64 = 8;
    let two = NonZeroUsize::new(2).expect("two");
    let threads = Lanes::new(Kernels::best(), two, NonZeroUsize::MIN).expect("threads");
    let failing =
        EngineChoice::among(KINDS, "round-robin:card:faults=5,card:faults=6,lanes:2").expect("an engine");
    let failing = failing.make(Implementations::default()).expect("threads");
    for engine in [&LateEngine::new(5) as &dyn Engine, &threads, &*failing] {
        let now = Instant::now();
        let ([near_site, _], [near, far]) = ends("aes-256-gcm", now);
        let sealed: Mutex<Vec<Vec<Vec<u8>>>> = Mutex::default();
        let router = (0, Router::new(&near));
        let outward = Pipeline::new(3, Load::new, router, &sealed);
        run_lanes(engine, 3, |queue| {
            let mut sealer = Sealer::new(queue, near_site.listen.ip());
            outward.run(
                &mut sealer,
                |_| None,
                |(loads, router), load| {
                    if *loads == LOADS {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    for index in 0..PER_LOAD {
                        let inner = packet(*loads * PER_LOAD + index, 300);
                        assert!(room(&near_site).push_bytes(&mut load.batch, &inner));
                    }
                    *loads += 1;
                    router.plan(load, now);
                    Ok(())
                },
                |sealed, load| {
                    let packets = passed(&load.batch).map(<[u8]>::to_vec).collect();
                    sealed.lock().expect("nobody panics holding it").push(packets);
                    Ok(())
                },
            )
        });
        let sealed = sealed.into_inner().expect("nobody panics holding it");
        assert_eq!(sealed.len() as u64, LOADS);
        let arrived = AtomicU64::new(0);
        let inward = Pipeline::new(3, Arrival::new, sealed.into_iter(), Acceptor::new(&far));
        run_lanes(engine, 3, |queue| {
            let mut opener = Opener::new(&far, queue);
            inward.run(
                &mut opener,
                |_| None,
                |sealed, arrival| {
                    arrival.time = now;
                    let packets = sealed.next().ok_or(io::ErrorKind::UnexpectedEof)?;
                    packets.iter().for_each(|packet| assert!(arrival.batch.push_bytes(0, packet, 0)));
                    Ok(())
                },
                |acceptor, arrival| {
                    acceptor.accept(arrival);
                    for inner in passed(&arrival.batch) {
                        let number = arrived.fetch_add(1, Relaxed);
                        assert!(inner == packet(number, 300), "packet {number} on {}", engine.name());
                    }
                    Ok(())
                },
            )
        });
        assert_eq!(arrived.into_inner(), LOADS * PER_LOAD, "{}", engine.name());
    }
}

/// Runs lanes until their source has ended.
fn run_lanes(
    engine: &dyn Engine,
    lanes: usize,
    life: impl Fn(Box<dyn sealane_engine::Queue>) -> io::Result<()> + Sync,
) {
    thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                let ended = life(engine.queue(LOADS).expect("descriptors for a queue"));
                assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
            });
        }
    });
}

/// A lane that has a load at its engine sends it on when the engine has finished, without waiting for another load.
#[test]
fn a_load_leaves_without_another_one_behind_it() {
    let now = Instant::now();
    let ([near_site, _], [near, _far]) = ends("aes-256-gcm", now);
    for text in ["inline", "lanes:1", "card"] {
        let engine = EngineChoice::among(KINDS, text).expect("an engine");
        let engine = engine.make(Implementations::default()).expect("threads");
        let (from, to) = UnixDatagram::pair().expect("descriptors");
        let (leaving, left) = mpsc::channel();
        let pipeline = Pipeline::new(1, Load::new, (from, Router::new(&near)), leaving);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut sealer =
                    Sealer::new(engine.queue(LOADS).expect("descriptors"), near_site.listen.ip());
                let ended = pipeline.run(
                    &mut sealer,
                    |(from, _)| Some(from.as_fd()),
                    |(from, router), load| {
                        let mut inner = [0; 300];
                        if from.recv(&mut inner)? == 0 {
                            return Err(io::ErrorKind::UnexpectedEof.into());
                        }
                        assert!(room(&near_site).push_bytes(&mut load.batch, &inner));
                        router.plan(load, now);
                        Ok(())
                    },
                    |leaving, load| {
                        leaving.send(passed(&load.batch).count()).expect("the test listens");
                        Ok(())
                    },
                );
                assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
            });
            for number in 0..20 {
                to.send(&packet(number, 300)).expect("a lane reads");
                assert_eq!(left.recv_timeout(Duration::from_secs(30)), Ok(1), "{text}: packet {number}");
            }
            to.send(&[]).expect("a lane reads");
        });
    }
}
