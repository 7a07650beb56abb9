//! Lifetimes in packets and bytes (RFC 4301, section 4.4.2.1): at the soft limit a successor is requested, and after
//! the hard limit nothing is sent or accepted until there is one.

mod processing;

use std::time::{Duration, Instant};

use processing::{Processors, association, far_of, packet, passed, peers, site};
use sealane_ipsec::{
    counters::DropReason,
    database::Request,
    lifetime::{Lifetime, Limits},
    policy::PeerId,
};

const BYTES: usize = 100;

/// Sends ten packets one by one. Returns the number that arrived, and the lanes' requests after each.
fn ten(soft: Limits, hard: Limits) -> (usize, Vec<Vec<Request>>) {
    let now = Instant::now();
    let near_site = site("aes-128-gcm", 1);
    let far_site = far_of(&near_site);
    let (near, far) = (peers(&near_site, now), peers(&far_site, now));
    let (mut sender, mut receiver) = (Processors::new(&near_site, &near), Processors::new(&far_site, &far));
    let suite = near_site.peers[0].suite();
    let make = |spi, lifetime| association(suite, spi, PeerId(0), spi as u8, lifetime, now);
    let (outbound, inbound) = make(0x101, Lifetime { soft, hard });
    near.database().install_outbound(outbound);
    far.database().install_inbound(inbound).expect("an index of its own");
    let mut arrived = 0;
    let mut asked = Vec::new();
    let mut send = |number, now: Instant| {
        sender.give([packet(number, BYTES).as_slice()]);
        sender.seal(now);
        let sealed: Vec<Vec<u8>> = passed(&sender.load.batch).map(<[u8]>::to_vec).collect();
        receiver.arrive(sealed.iter().map(Vec::as_slice));
        receiver.accept(now);
        passed(&receiver.arrival.batch).count()
    };
    for number in 0..10 {
        arrived += send(number, now + Duration::from_secs(number));
        asked.push(near.database().standing_requests());
    }
    let lost = 10 - arrived as u64;
    assert_eq!(near.drops().of(DropReason::Expired), lost, "what is not sent is counted");
    // The successor carries packets, and there are no more requests.
    let (outbound, inbound) = make(0x102, Lifetime::default());
    far.database().install_inbound(inbound).expect("an index of its own");
    near.database().install_outbound(outbound);
    assert_eq!(send(10, now), 1);
    assert_eq!(near.database().standing_requests(), []);
    (arrived, asked)
}

#[test]
fn limits_are_kept_to_the_packet() {
    let packets = |packets| Limits { packets: Some(packets), ..Limits::default() };
    let bytes = |bytes| Limits { bytes: Some(bytes), ..Limits::default() };
    let age = |seconds| Limits { age: Some(Duration::from_secs(seconds)), ..Limits::default() };
    for (soft, hard) in
        [(packets(4), packets(7)), (bytes(4 * BYTES as u64), bytes(7 * BYTES as u64)), (age(4), age(7))]
    {
        let (arrived, asked) = ten(soft, hard);
        assert_eq!(arrived, 7, "{hard:?}");
        for (sent, asked) in asked.iter().enumerate() {
            assert_eq!(asked.contains(&Request::Rekey(PeerId(0))), sent >= 4, "{soft:?}: after {sent}");
            assert_eq!(asked.contains(&Request::Expired(PeerId(0))), sent >= 7, "{hard:?}: after {sent}");
        }
    }
}
