//! Two ends whose owners want one IKE SA with one child, and whose exchanges cross while a network loses, repeats and
//! reorders them, as a seed determines.

use std::time::Duration;

use sealane_ike::{IkeId, Offer, Reason};

use super::{Dice, Pair, Weather, histories, peer};

/// An exchange that an end begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Nothing,
    Begin,
    AddChild,
    RekeyChild,
    DeleteChild,
    RekeyIke,
    Close,
    Probe,
    Move,
}

const ACTS: [Act; 9] = [
    Act::Nothing,
    Act::Begin,
    Act::AddChild,
    Act::RekeyChild,
    Act::DeleteChild,
    Act::RekeyIke,
    Act::Close,
    Act::Probe,
    Act::Move,
];

impl Act {
    fn run(self, pair: &mut Pair, end: usize) {
        let (now, ike): (_, Option<IkeId>) = (pair.now, pair.ends[end].up.first().copied());
        let endpoint = &mut pair.ends[end].endpoint;
        match (self, ike) {
            (Self::Nothing, _) => {}
            (Self::Begin, None) => drop(endpoint.acquire(0, 0, None, now)),
            (Self::Begin, Some(_)) => {}
            (Self::AddChild, _) => drop(endpoint.acquire(0, 0, None, now)),
            (Self::RekeyChild, _) => histories::rekey_child(pair, end),
            (Self::RekeyIke, _) => histories::rekey_ike(pair, end),
            (Self::DeleteChild, _) => {
                if let Some(child) = histories::only(pair, end) {
                    pair.ends[end].endpoint.delete_child(child, now);
                }
            }
            (Self::Close, Some(ike)) => endpoint.close(ike, now),
            (Self::Probe, Some(ike)) => endpoint.probe(ike, now),
            (Self::Move, Some(ike)) => {
                let own = std::net::SocketAddr::new(super::address(end), 4500);
                endpoint.relocate(ike, own, now);
            }
            (_, None) => {}
        }
        pair.collect();
    }
}

/// An owner wants a child, and begins again after a pause if there is none.
#[derive(Default)]
struct Owner {
    waits: u64,
    /// The number of children that were asked for.
    asked: usize,
}

/// The time between two looks of an owner.
const LOOK: Duration = Duration::from_millis(500);

impl Owner {
    fn look(&mut self, pair: &mut Pair, end: usize, dice: &mut Dice, may_begin: bool) {
        let own = &pair.ends[end];
        if !own.children.is_empty() {
            self.waits = 2 + dice.below(8);
            return;
        }
        self.waits = self.waits.saturating_sub(1);
        if self.waits == 0 && (may_begin || !own.up.is_empty()) {
            self.waits = 4 + dice.below(8);
            self.asked += usize::from(!own.up.is_empty());
            let now = pair.now;
            pair.ends[end].endpoint.acquire(0, 0, None, now);
            pair.collect();
        }
    }
}

/// Runs the model of one seed.
pub(crate) fn model(seed: u64) {
    let mut dice = Dice::new(seed ^ 0x00de1);
    let pairs = (ACTS.len() * ACTS.len()) as u64;
    let (first, second) = (ACTS[(seed % 9) as usize], ACTS[(seed % pairs / 9) as usize]);
    let mut peers = [peer(0), peer(1)];
    let has_followups = dice.percent(25);
    let (childless, mobike) = (dice.percent(20), dice.percent(50));
    let lives = dice.percent(50);
    for peer in &mut peers {
        peer.probe_after = Some(Duration::from_secs(20));
        (peer.childless, peer.mobike) = (childless, mobike);
        if lives {
            peer.child_lifetime = Some(Duration::from_secs(60 + dice.below(100)));
            peer.ike_lifetime = Some(Duration::from_secs(100 + dice.below(200)));
        }
        if has_followups {
            peer.proposals = vec![Offer::ike("aes256gcm16-prfsha384-x25519-ke1_mlkem768").unwrap()];
            peer.children[0].proposals = vec![Offer::esp("aes256gcm16-x25519-ke1_mlkem768").unwrap()];
        }
    }
    let mut pair = Pair::new(peers.map(|peer| vec![peer]), seed);
    let both_begin = dice.percent(50);
    let mut owners = [Owner::default(), Owner::default()];
    let mut live = |pair: &mut Pair, dice: &mut Dice, looks: u64| -> usize {
        for _ in 0..looks {
            pair.run(LOOK);
            for (end, owner) in owners.iter_mut().enumerate() {
                owner.look(pair, end, dice, both_begin || end == 0);
            }
        }
        owners.iter().map(|owner| owner.asked).sum()
    };
    // In some histories even the first negotiation meets bad weather, and both ends may begin it.
    let is_calm = dice.percent(50);
    let bad = Weather { lost_percent: dice.below(40), repeated_percent: 15, delay_max_ms: dice.below(2500) };
    pair.weather = if is_calm { Weather::default() } else { bad };
    live(&mut pair, &mut dice, 20);
    pair.weather = bad;
    let mut added = 0;
    for _ in 0..1 + dice.below(3) {
        first.run(&mut pair, 0);
        pair.run(Duration::from_millis(dice.below(300)));
        second.run(&mut pair, 1);
        added += [first, second].iter().filter(|act| **act == Act::AddChild).count();
        let looks = dice.below(40);
        live(&mut pair, &mut dice, looks);
    }
    pair.weather = Weather::default();
    let what = format!("seed {seed}: {first:?} and {second:?}");
    for end in &pair.ends {
        let is_fault = |reason: &&Reason| matches!(reason, Reason::Protocol(_) | Reason::Crypto(_));
        assert!(end.down.iter().find(is_fault).is_none(), "{what}: {:?}", end.down);
    }
    let is_done = |pair: &Pair, asked: usize| {
        let one = |end: &super::End| {
            let is_live = end.children.values().all(|child| child.is_outbound_live);
            // If both began, either end may ask for a child of the IKE SA that stays, in place of the other one's.
            let most = 1 + added + asked + 2 * usize::from(both_begin);
            end.up.len() == 1
                && end.endpoint.sas() == 1
                && is_live
                && (1..=most).contains(&end.children.len())
        };
        pair.agrees() && pair.ends.iter().all(one)
    };
    // Ends whose keys live for short times are seldom at rest.
    for _ in 0..2400 {
        let asked = live(&mut pair, &mut dice, 1);
        if is_done(&pair, asked) && (lives || pair.now_is_calm()) {
            return;
        }
    }
    let told = |end: usize| {
        let end = &pair.ends[end];
        (
            end.up.len(),
            end.endpoint.sas(),
            end.children.len(),
            end.keys(),
            end.down.clone(),
            end.failed.clone(),
        )
    };
    panic!("{what} does not come to rest, {added} added: {:?}\n{:?}", told(0), told(1));
}
