//! The order in which peers are called.
//!
//! Guarantees: peers are called in turn, so that no peer waits for those before it in the site file; peers that do
//! not answer leave places for those that have not been tried, and both leave places for peers whose associations are
//! in use.

/// The maximum number of our calls at a time.
const CALLS_MAX: usize = 32;

/// The rank of a peer that is to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// The last call failed.
    Failing,
    /// The peer has not been called, or the last call succeeded.
    Fresh,
    /// Packets are sent to the peer under an association that is to get a successor.
    Live,
}

impl Standing {
    /// Returns the limit of calls: a peer of this rank may be called while fewer are under way.
    const fn calls_max(self) -> usize {
        match self {
            Self::Failing => CALLS_MAX / 2,
            Self::Fresh => CALLS_MAX * 3 / 4,
            Self::Live => CALLS_MAX,
        }
    }
}

/// The place of the next round's first peer.
#[derive(Debug, Default)]
pub struct Turns {
    next: usize,
}

impl Turns {
    /// Visits all of `count` peers, beginning with the one whose turn it is. `poll` is called for each, with whether
    /// a call may be begun by its `standing`, and returns whether one was. `under_way` is the present number of
    /// calls.
    pub fn go_round(
        &mut self,
        count: usize,
        mut under_way: usize,
        standing: impl Fn(usize) -> Standing,
        mut poll: impl FnMut(usize, bool) -> bool,
    ) {
        let first = self.next.checked_rem(count).unwrap_or_default();
        for place in (first..count).chain(0..first) {
            let may_call = under_way < CALLS_MAX && under_way < standing(place).calls_max();
            if poll(place, may_call) {
                under_way += 1;
                self.next = place + 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ticks of the housekeeper that a call takes, to a peer that answers and to one that does not.
    const ANSWERED: u32 = 1;
    const UNANSWERED: u32 = 50;
    /// The longest pause between calls that fail.
    const PAUSE: u32 = 160;

    #[derive(Clone, Copy)]
    struct Peer {
        is_dead: bool,
        standing: Standing,
        wants_from: u32,
        until: Option<u32>,
        answered: u32,
    }

    /// Runs for `ticks`; a peer that answers wants the next call `rekey` ticks later.
    fn run(peers: &mut [Peer], ticks: u32, rekey: u32) {
        let mut turns = Turns::default();
        for now in 0..ticks {
            for peer in &mut *peers {
                if peer.until.is_some_and(|until| until <= now) {
                    peer.until = None;
                    peer.answered += u32::from(!peer.is_dead);
                    peer.standing = if peer.is_dead { Standing::Failing } else { Standing::Live };
                    peer.wants_from = now + if peer.is_dead { PAUSE } else { rekey };
                }
            }
            let under_way = peers.iter().filter(|peer| peer.until.is_some()).count();
            let standing: Vec<Standing> = peers.iter().map(|peer| peer.standing).collect();
            turns.go_round(
                peers.len(),
                under_way,
                |place| standing[place],
                |place, may_call| {
                    let peer = &mut peers[place];
                    let is_called = may_call && peer.until.is_none() && now >= peer.wants_from;
                    if is_called {
                        peer.until = Some(now + if peer.is_dead { UNANSWERED } else { ANSWERED });
                    }
                    is_called
                },
            );
            let under_way = peers.iter().filter(|peer| peer.until.is_some()).count();
            assert!(under_way <= CALLS_MAX);
        }
    }

    fn peers(dead: usize, good: usize) -> Vec<Peer> {
        let new =
            |is_dead| Peer { is_dead, standing: Standing::Fresh, wants_from: 0, until: None, answered: 0 };
        [vec![new(true); dead], vec![new(false); good]].concat()
    }

    #[test]
    fn peers_that_do_not_answer_starve_nobody_behind_them() {
        for dead in [103, 1000] {
            let mut peers = peers(dead, 200);
            // The time that it takes to call all of the dead peers once, and a little more.
            let round = (dead as u32 / 24 + 2) * UNANSWERED;
            run(&mut peers, round + 100, u32::MAX / 2);
            assert!(peers[dead..].iter().all(|peer| peer.answered == 1), "{dead} dead");
        }
    }

    #[test]
    fn peers_with_live_associations_are_called_in_time() {
        let mut peers = peers(1000, 20);
        for peer in &mut peers[1000..] {
            peer.standing = Standing::Live;
        }
        run(&mut peers, 1000, 20);
        // One call takes 21 ticks, including the wait for it.
        assert!(peers[1000..].iter().all(|peer| peer.answered >= 45), "of 1000 / 21 at most");
    }

    #[test]
    fn nobody_is_left_out_of_a_round() {
        for (next, count) in [(0, 0), (0, 1), (5, 3), (2, 3)] {
            let mut turns = Turns { next };
            let mut seen = Vec::new();
            turns.go_round(
                count,
                0,
                |_| Standing::Fresh,
                |place, _| {
                    seen.push(place);
                    false
                },
            );
            seen.sort_unstable();
            assert_eq!(seen, (0..count).collect::<Vec<_>>());
        }
    }
}
