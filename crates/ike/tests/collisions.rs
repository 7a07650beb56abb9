//! Both ends act at once, and a network loses, repeats and reorders what they send.

mod common;

use std::time::Duration;

use common::{Dice, Pair, Weather, peer};
use sealane_ike::{ChildId, Reason};

/// Whatever happens at two ends at once, in every order of arrival that the seeds give.
fn at_once(seeds: u64, act: impl Fn(&mut Pair, usize)) {
    for seed in 0..seeds {
        let mut pair = Pair::new([vec![peer(0)], vec![peer(1)]], seed);
        pair.initiate((seed % 2) as usize);
        pair.run_seconds(5);
        pair.assert_up(1);
        pair.weather = Weather { delay_max_ms: 400, repeated_percent: 20, lost_percent: (seed % 3) * 10 };
        act(&mut pair, 0);
        pair.run(Duration::from_millis(seed * 37 % 200));
        act(&mut pair, 1);
        pair.run_seconds(60);
        pair.weather = Weather::default();
        pair.run_seconds(300);
        if pair.ends[0].up.is_empty() {
            // So much was lost that one end gave up; the other is told by its own next request, or by its owner.
            continue;
        }
        pair.assert_up(1);
        assert_eq!(pair.ends[0].endpoint.sas(), 1, "seed {seed}: nothing is left behind");
        assert_eq!(pair.ends[1].endpoint.sas(), 1, "seed {seed}: nothing is left behind");
    }
}

fn only(pair: &Pair, end: usize) -> Option<ChildId> {
    pair.ends[end].children.first_key_value().map(|(child, _)| *child)
}

fn rekey_child(pair: &mut Pair, end: usize) {
    if let Some(child) = only(pair, end) {
        pair.ends[end].endpoint.rekey_child(child, pair.now);
    }
    pair.collect();
}

fn rekey_ike(pair: &mut Pair, end: usize) {
    if let Some(ike) = pair.ends[end].up.first().copied() {
        pair.ends[end].endpoint.rekey(ike, pair.now);
    }
    pair.collect();
}

#[test]
fn two_rekeyings_of_a_child_leave_one() {
    at_once(60, rekey_child);
}

#[test]
fn two_rekeyings_of_the_ike_sa_leave_one() {
    at_once(60, rekey_ike);
}

#[test]
fn a_rekeying_of_a_child_meets_one_of_the_ike_sa() {
    at_once(60, |pair, end| if end == 0 { rekey_child(pair, end) } else { rekey_ike(pair, end) });
}

#[test]
fn two_deletions_of_a_child_leave_none() {
    for seed in 0..30 {
        let mut pair = Pair::new([vec![peer(0)], vec![peer(1)]], seed);
        pair.initiate(0);
        pair.run_seconds(5);
        pair.weather = Weather { delay_max_ms: 200, ..Weather::default() };
        for end in 0..2 {
            if let Some(child) = only(&pair, end) {
                pair.ends[end].endpoint.delete_child(child, pair.now);
            }
            pair.collect();
            pair.run(Duration::from_millis(seed * 13 % 100));
        }
        pair.run_seconds(30);
        pair.assert_up(0);
    }
}

#[test]
fn a_deletion_meets_a_rekeying_of_the_same_child() {
    for seed in 0..60 {
        let mut pair = Pair::new([vec![peer(0)], vec![peer(1)]], seed);
        pair.initiate(0);
        pair.run_seconds(5);
        pair.weather = Weather { delay_max_ms: 200, ..Weather::default() };
        rekey_child(&mut pair, 0);
        pair.run(Duration::from_millis(seed * 13 % 150));
        if let Some(child) = only(&pair, 1) {
            pair.ends[1].endpoint.delete_child(child, pair.now);
        }
        pair.run_seconds(60);
        pair.assert_agree();
        assert!(
            pair.ends.iter().all(|end| end.children.values().all(|child| child.is_outbound_live)),
            "seed {seed}"
        );
    }
}

#[test]
fn both_ends_begin_at_once() {
    for seed in 0..40 {
        let mut pair = Pair::new([vec![peer(0)], vec![peer(1)]], seed);
        pair.weather = Weather { delay_max_ms: 200, ..Weather::default() };
        pair.initiate(0);
        pair.run(Duration::from_millis(seed * 7 % 300));
        pair.initiate(1);
        pair.run_seconds(300);
        pair.assert_agree();
        assert!(!pair.ends[0].up.is_empty(), "seed {seed}");
        assert!(!pair.ends[0].children.is_empty(), "seed {seed}");
    }
}

/// How many histories are tried.
const SEEDS: u64 = 250;

#[test]
fn whatever_is_lost_both_ends_are_up_with_the_same_keys_or_down_with_a_reason() {
    let mut ups = 0;
    for seed in 0..SEEDS {
        let mut dice = Dice::new(seed ^ 0x5eed);
        let mut peers = [peer(0), peer(1)];
        for peer in &mut peers {
            peer.probe_after = Some(Duration::from_secs(20));
            peer.child_lifetime = Some(Duration::from_secs(100 + dice.below(100)));
            peer.ike_lifetime = Some(Duration::from_secs(200 + dice.below(200)));
            peer.childless = dice.percent(20);
        }
        let mut pair = Pair::new(peers.map(|peer| vec![peer]), seed);
        pair.weather =
            Weather { lost_percent: dice.below(31), repeated_percent: 15, delay_max_ms: dice.below(2500) };
        pair.initiate(dice.below(2) as usize);
        for _ in 0..12 {
            pair.run(Duration::from_millis(dice.below(20_000)));
            let end = dice.below(2) as usize;
            match dice.below(6) {
                0 if pair.ends[end].endpoint.sas() == 0 => pair.initiate(end),
                0 | 1 => rekey_child(&mut pair, end),
                2 => rekey_ike(&mut pair, end),
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
        // What is under way comes to its end before the two are compared, and so does a rekeying that has begun.
        pair.run_seconds(400);
        for _ in 0..200 {
            if pair.is_at_rest() {
                break;
            }
            pair.run(Duration::from_millis(500));
        }
        assert!(pair.is_at_rest(), "seed {seed} does not come to rest");
        pair.assert_agree();
        for end in &pair.ends {
            assert!(
                end.children.values().all(|child| child.is_outbound_live),
                "seed {seed}: a child is not sent on"
            );
            assert!(!end.up.is_empty() || !end.down.is_empty(), "seed {seed}: down without a reason");
        }
        ups += u64::from(!pair.ends[0].up.is_empty());
        for ike in pair.ends[0].up.clone() {
            pair.ends[0].endpoint.close(ike, pair.now);
        }
        pair.run_seconds(400);
        assert!(pair.ends.iter().all(|end| end.endpoint.sas() == 0), "seed {seed}: an IKE SA is left behind");
    }
    assert!(ups > SEEDS / 4, "{ups} of {SEEDS} stand");
}
