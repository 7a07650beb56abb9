//! Histories of two ends, each determined by a seed: the ends' actions, and the network's faults.

use std::time::Duration;

use sealane_ike::{ChildId, Reason};

use super::{Dice, Pair, Weather, peer};

/// The number of children for resources that either end takes.
const RESOURCES: u16 = 2;

pub(crate) fn only(pair: &Pair, end: usize) -> Option<ChildId> {
    pair.ends[end].children.first_key_value().map(|(child, _)| *child)
}

pub(crate) fn rekey_child(pair: &mut Pair, end: usize) {
    if let Some(child) = only(pair, end) {
        pair.ends[end].endpoint.rekey_child(child, pair.now);
    }
    pair.collect();
}

pub(crate) fn rekey_ike(pair: &mut Pair, end: usize) {
    if let Some(ike) = pair.ends[end].up.first().copied() {
        pair.ends[end].endpoint.rekey(ike, pair.now);
    }
    pair.collect();
}

/// Runs the histories of some seeds; `lost` gives the percentage of datagrams that are lost. Returns the number of
/// histories at whose end the IKE SA is established.
pub(crate) fn histories(seeds: std::ops::Range<u64>, lost: impl Fn(&mut Dice) -> u64) -> u64 {
    let mut ups = 0;
    for seed in seeds {
        let mut dice = Dice::new(seed ^ 0x5eed);
        let mut peers = [peer(0), peer(1)];
        for peer in &mut peers {
            peer.probe_after = Some(Duration::from_secs(20));
            peer.child_lifetime = Some(Duration::from_secs(100 + dice.below(100)));
            peer.ike_lifetime = Some(Duration::from_secs(200 + dice.below(200)));
            peer.childless = dice.percent(20);
            peer.children[0].resources = RESOURCES;
        }
        let mut pair = Pair::new(peers.map(|peer| vec![peer]), seed);
        pair.weather =
            Weather { lost_percent: lost(&mut dice), repeated_percent: 15, delay_max_ms: dice.below(2500) };
        pair.initiate(dice.below(2) as usize);
        for step in 0..12 {
            pair.run(Duration::from_millis(dice.below(20_000)));
            let end = dice.below(2) as usize;
            match dice.below(6) {
                0 if pair.ends[end].endpoint.sas() == 0 => pair.initiate(end),
                0 | 1 => rekey_child(&mut pair, end),
                2 => rekey_ike(&mut pair, end),
                // Other histories remain what they were before there were resources.
                3 if seed % 4 == 2 => {
                    if let Some(ike) = pair.ends[end].up.first().copied() {
                        pair.ends[end].endpoint.add_resource(ike, 0, step, pair.now);
                    }
                }
                3 => {
                    let now = pair.now;
                    pair.ends[end].endpoint.acquire(0, 0, None, now);
                }
                4 if pair.ends[end].children.len() > 1 => {
                    let child = only(&pair, end).expect("it has two");
                    pair.ends[end].endpoint.delete_child(child, pair.now);
                }
                _ => {
                    if let Some(ike) = pair.ends[end].up.first().copied() {
                        pair.ends[end].endpoint.probe(ike, pair.now);
                    }
                }
            }
            pair.collect();
        }
        pair.weather = Weather::default();
        for end in &mut pair.ends {
            assert!(end.down.iter().all(|reason| !matches!(reason, Reason::Protocol(_))), "{:?}", end.down);
        }
        // Exchanges under way and rekeyings that have begun are completed before the two ends are compared.
        pair.run_seconds(400);
        for _ in 0..200 {
            if pair.is_at_rest() {
                break;
            }
            pair.run(Duration::from_millis(500));
        }
        assert!(pair.is_at_rest(), "seed {seed} does not come to rest");
        let told =
            |end: usize| (pair.ends[end].up.len(), pair.ends[end].children.len(), &pair.ends[end].down);
        assert!(pair.agrees(), "seed {seed}: the ends differ: {:?} and {:?}", told(0), told(1));
        for end in &pair.ends {
            assert!(
                end.children.values().all(|child| child.is_outbound_live),
                "seed {seed}: a child is not sent on"
            );
            assert!(!end.up.is_empty() || !end.down.is_empty(), "seed {seed}: down without a reason");
            // Two ends that begin at once have two IKE SAs, each with its children.
            let resources = end.children.values().filter(|child| child.resource.is_some()).count();
            assert!(resources <= usize::from(RESOURCES) * end.up.len(), "seed {seed}: {resources} resources");
        }
        ups += u64::from(!pair.ends[0].up.is_empty());
        for ike in pair.ends[0].up.clone() {
            pair.ends[0].endpoint.close(ike, pair.now);
        }
        pair.run_seconds(400);
        assert!(pair.ends.iter().all(|end| end.endpoint.sas() == 0), "seed {seed}: an IKE SA is left behind");
    }
    ups
}
