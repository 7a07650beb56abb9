//! Genuine packets in a flood of strangers' packets. The cost of a stranger's packet is counted, not timed.

mod processing;

#[path = "../../../testing/allocations.rs"]
mod allocations;

use std::time::Instant;

use processing::{Processors, association, far_of, packet, passed, peers, site};
use sealane_ipsec::{counters::DropReason, lifetime::Lifetime, policy::PeerId};

/// The number of packets in an arrival, and of arrivals: together 100,000 packets of strangers.
const PACKETS: usize = 500;
const ARRIVALS: usize = 200;

/// Both parts are one test, because the allocations of a test beside it would be counted too.
#[test]
fn a_flood_of_packets_costs_what_it_must_and_no_genuine_packet() {
    strangers_cost_no_key_operation_and_no_allocation();
    packets_with_a_known_index_cost_a_check_each();
}

fn strangers_cost_no_key_operation_and_no_allocation() {
    let now = Instant::now();
    let near_site = site("aes-128-gcm", 1);
    let far_site = far_of(&near_site);
    let (near_peers, far_peers) = (peers(&near_site, now), peers(&far_site, now));
    let suite = "aes-128-gcm".parse().expect("a suite");
    let (outbound, inbound) = association(suite, 0x1000, PeerId(0), 7, Lifetime::default(), now);
    near_peers.database().install_outbound(outbound);
    far_peers.database().install_inbound(inbound).expect("a free index");
    let (mut near, mut far) =
        (Processors::new(&near_site, &near_peers), Processors::new(&far_site, &far_peers));
    // Strangers can send any SPI, any number and any length.
    let strangers: Vec<Vec<u8>> = (0..PACKETS as u32 - 1)
        .map(|number| {
            let spi = 0x1_0000 + number.wrapping_mul(2_654_435_761) % 0xfff0_0000;
            let bytes = 36 + number as usize * 3 % 200;
            [&spi.to_be_bytes()[..], &number.to_be_bytes(), &vec![number as u8; bytes]].concat()
        })
        .collect();
    let (mut allocated, mut arrived) = (0, 0);
    for turn in 0..ARRIVALS {
        let inner = packet(turn as u64, 200);
        near.give([&inner[..]]);
        near.seal(now);
        let genuine = passed(&near.load.batch).next().expect("it is sealed").to_vec();
        let place = turn * 37 % PACKETS;
        let (before, behind) = strangers.split_at(place.min(strangers.len()));
        let burst = before.iter().map(Vec::as_slice).chain([&genuine[..]]);
        let burst: Vec<&[u8]> = burst.chain(behind.iter().map(Vec::as_slice)).collect();
        let begun = allocations::count();
        far.arrive(burst.iter().copied());
        far.accept(now);
        // Later arrivals reuse the buffers of the first one.
        allocated += if turn == 0 { 0 } else { allocations::count() - begun };
        assert_eq!(far.arrival.batch.work.jobs.len(), 1, "the engine sees the genuine packet alone");
        arrived += passed(&far.arrival.batch).filter(|packet| *packet == inner).count();
    }
    assert_eq!(arrived, ARRIVALS, "each in the arrival that it came with");
    // A load that has work for the engine is passed on in a list of one.
    assert!(allocated <= ARRIVALS as u64, "{allocated}, whatever the number of packets");
    let begun = allocations::count();
    far.arrive(strangers.iter().map(Vec::as_slice));
    far.accept(now);
    assert_eq!(allocations::count() - begun, 0, "strangers alone are no work for the engine");
    let drops = far_peers.drops();
    assert_eq!(drops.of(DropReason::UnknownSpi), (strangers.len() * (ARRIVALS + 1)) as u64);
    assert_eq!(drops.iter().map(|(_, count)| count).sum::<u64>(), drops.of(DropReason::UnknownSpi));
}

fn packets_with_a_known_index_cost_a_check_each() {
    let now = Instant::now();
    let near_site = site("aes-128-gcm", 1);
    let far_site = far_of(&near_site);
    let (near_peers, far_peers) = (peers(&near_site, now), peers(&far_site, now));
    let suite = "aes-128-gcm".parse().expect("a suite");
    let (outbound, inbound) = association(suite, 0x1000, PeerId(0), 7, Lifetime::default(), now);
    near_peers.database().install_outbound(outbound);
    far_peers.database().install_inbound(inbound).expect("a free index");
    let (mut near, mut far) =
        (Processors::new(&near_site, &near_peers), Processors::new(&far_site, &far_peers));
    let endpoint = far_peers.endpoint(PeerId(0));
    let mut arrived = 0;
    for turn in 0..20u32 {
        let inner = packet(turn.into(), 200);
        near.give([&inner[..]]);
        near.seal(now);
        let genuine = passed(&near.load.batch).next().expect("it is sealed").to_vec();
        // Numbers far ahead would move the replay window if it moved before the check.
        let forged: Vec<Vec<u8>> = (0..99u32)
            .map(|number| {
                let number = turn * 1000 + 10_000 + number;
                [&0x1000u32.to_be_bytes()[..], &number.to_be_bytes(), &[0x5a; 80]].concat()
            })
            .collect();
        far.arrive(forged.iter().map(Vec::as_slice).chain([&genuine[..]]));
        far.accept(now);
        assert_eq!(far.arrival.batch.work.jobs.len(), 100, "one for each");
        arrived += passed(&far.arrival.batch).filter(|packet| *packet == inner).count();
    }
    assert_eq!(arrived, 20);
    assert_eq!(far_peers.drops().of(DropReason::BadIntegrity), 20 * 99);
    assert_eq!(far_peers.endpoint(PeerId(0)), endpoint);
}
