//! Ten minutes of a bad network, in virtual time: packets are lost, late, doubled, replayed, damaged and invented,
//! while keys change. Every packet that arrives for the first time is accepted, and no other.

mod processing;

use std::{
    collections::{HashSet, VecDeque},
    time::{Duration, Instant},
};

use processing::{Processors, association, far_of, packet, passed, peers, site};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use sealane_ipsec::{association::Protocol, counters::DropReason, lifetime::Lifetime, policy::PeerId};
use sealane_port::Batch;
use sealane_port::{
    Room,
    link::{Emulation, Link},
};

const MINUTES: u64 = 10;
/// The interval between two packets of a direction.
const PACE: Duration = Duration::from_millis(10);
const REKEY: Duration = Duration::from_secs(20);
/// The time for which an end still receives under an old association; no packet is on the way for longer.
const GRACE: Duration = Duration::from_secs(2);

/// Pseudo-random numbers from a seed.
struct Random(SplitMix64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

#[test]
fn ten_minutes_of_a_bad_network() {
    let suite = "aes-128-gcm";
    let begun = Instant::now();
    let near_site = site(suite, 1);
    let far_site = far_of(&near_site);
    let (near, far) = (peers(&near_site, begun), peers(&far_site, begun));
    let (mut sender, mut receiver) = (Processors::new(&near_site, &near), Processors::new(&far_site, &far));
    let mut link = Emulation::new(Link {
        delay: Duration::from_millis(20),
        loss: 0.03,
        reorder: 0.1,
        lateness: Duration::from_millis(90),
        duplicate: 0.02,
        seed: 17,
        ..Link::PERFECT
    });
    let mut random = Random(SplitMix64::seed_from_u64(7));
    let mut old: VecDeque<(Instant, u32)> = VecDeque::new();
    // The packets that an attacker behind the link has seen.
    let mut seen: Vec<Vec<u8>> = Vec::new();
    let (mut accepted, mut sent, mut attacks, mut rekeyed) = (HashSet::new(), 0u64, 0u64, 0u32);
    let mut arrivals = Batch::new(1 << 20, 512);
    let end = begun + Duration::from_secs(60 * MINUTES);
    let mut now = begun;
    let mut next_rekey = begun;
    while now < end + GRACE {
        if now >= next_rekey && now < end {
            // RFC 7296, section 2.8: the new association receives first, then it sends; the old one drains.
            rekeyed += 1;
            let (spi, seed) = (0x1000 + rekeyed, rekeyed as u8);
            let suite = near_site.peers[0].suite();
            let (outbound, inbound) = association(suite, spi, PeerId(0), seed, Lifetime::default(), now);
            far.database().install_inbound(inbound).expect("an index of its own");
            near.database().install_outbound(outbound);
            old.push_back((now + REKEY + GRACE, spi));
            next_rekey = now + REKEY;
        }
        while let Some(&(until, spi)) = old.front().filter(|(until, _)| *until <= now) {
            let _ = until;
            assert!(far.database().remove_inbound(Protocol::Esp, spi));
            old.pop_front();
        }
        if now < end {
            let inner: Vec<Vec<u8>> = (0..1 + random.below(3) as u64)
                .map(|at| packet(sent + at, 40 + random.below(1300)))
                .collect();
            sent += inner.len() as u64;
            sender.give(inner.iter().map(Vec::as_slice));
            sender.seal(now);
            passed(&sender.load.batch).for_each(|sealed| link.offer(now, sealed));
        }
        arrivals.clear();
        link.take(now, Room::NONE, &mut arrivals);
        let mut batch: Vec<Vec<u8>> = arrivals.passed().map(<[u8]>::to_vec).collect();
        let genuine = batch.len();
        for _ in 0..random.below(3) {
            attacks += 1;
            let chosen = (!seen.is_empty()).then(|| seen[random.below(seen.len())].clone());
            batch.push(match (random.below(3), chosen) {
                // A replay.
                (0, Some(replay)) => replay,
                // Damage.
                (1, Some(mut damaged)) => {
                    let at = random.below(damaged.len());
                    damaged[at] ^= 1 << random.below(8);
                    damaged
                }
                // Garbage, some of it with an SPI that is in use.
                _ => {
                    let mut garbage: Vec<u8> = (0..random.below(200)).map(|_| random.next() as u8).collect();
                    if let (Some(start), true) = (garbage.first_chunk_mut(), random.below(2) == 0) {
                        *start = (0x1000 + rekeyed).to_be_bytes();
                    }
                    garbage
                }
            });
        }
        receiver.arrive(batch.iter().map(Vec::as_slice));
        receiver.accept(now);
        for inner in passed(&receiver.arrival.batch) {
            let number = u64::from_be_bytes(*inner[28..].first_chunk().expect("it was made here"));
            assert_eq!(inner, packet(number, inner.len()), "changed on the way");
            assert!(accepted.insert(number), "packet {number} came twice");
        }
        batch.truncate(genuine);
        seen.extend(batch);
        let keeps = seen.len().saturating_sub(4000);
        seen.drain(..keeps);
        now += PACE;
    }
    let fates = link.fates;
    assert_eq!((fates.offered, fates.dropped), (sent, 0));
    assert_eq!(accepted.len() as u64, sent - fates.lost, "all that arrived is kept");
    let drops: u64 = far.drops().iter().map(|(_, count)| count).sum();
    assert_eq!(drops, attacks + fates.twice, "all else is counted, once");
    for reason in [DropReason::Duplicate, DropReason::BadIntegrity, DropReason::UnknownSpi] {
        assert!(far.drops().of(reason) > 100, "{}", reason.name());
    }
    assert!(
        rekeyed == 30 && fates.lost > 1000 && fates.late > 5_000 && fates.twice > 1000 && attacks > 10_000
    );
}
