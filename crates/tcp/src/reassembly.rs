//! Payloads that have arrived before their turn: in order of their numbers, without overlap, in a ring of fixed size.

use crate::Seq;
use crate::ring::Ring;
use crate::segment::{Payload, SackBlocks};
use alloc::vec::Vec;

#[derive(Debug, Clone, Copy, Default)]
struct Held {
    seq: Seq,
    payload: Payload,
}

impl Held {
    fn end(&self) -> Seq {
        self.seq + self.payload.bytes
    }
}

#[derive(Debug)]
pub(crate) struct Reassembly {
    ring: Ring<Held>,
    /// Numbers of segments inserted lately, the latest first: RFC 2018, section 4 reports those first.
    recent: [Seq; SackBlocks::MAX],
    recent_count: u8,
}

impl Reassembly {
    pub(crate) fn new(segments_max: u32) -> Self {
        Self { ring: Ring::new(segments_max), recent: [Seq(0); SackBlocks::MAX], recent_count: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Returns the number behind the last byte held, or `None` if the ring is empty.
    pub(crate) fn end(&self) -> Option<Seq> {
        self.ring.get(self.ring.len().checked_sub(1)?).map(Held::end)
    }

    /// Keeps a payload whose first byte is `seq`, cut to what is new. Payloads that it covers whole are replaced, so
    /// that one slot is never held twice. Payloads that are not kept go to `refused`; returns false if that was the
    /// payload itself.
    pub(crate) fn insert(&mut self, seq: Seq, payload: Payload, refused: &mut Vec<u32>) -> bool {
        let (mut seq, mut payload) = (seq, payload);
        let index = self.ring.partition_point(|held| held.seq.is_before(seq));
        if let Some(before) = index.checked_sub(1).and_then(|before| self.ring.get(before))
            && seq.is_before(before.end())
        {
            let known_bytes = before.end().since(seq);
            payload = payload.skip(known_bytes);
            seq = before.end();
        }
        while let Some(behind) = self.ring.get(index).copied()
            && behind.seq.is_before(seq + payload.bytes)
        {
            if !behind.end().is_at_most(seq + payload.bytes) {
                payload = payload.take(behind.seq.since(seq));
                break;
            }
            refused.push(behind.payload.slot);
            self.ring.remove(index);
        }
        if payload.bytes == 0 || self.ring.is_full() {
            refused.push(payload.slot);
            return false;
        }
        self.ring.insert(index, Held { seq, payload });
        self.note(seq);
        true
    }

    fn note(&mut self, seq: Seq) {
        self.recent.rotate_right(1);
        self.recent[0] = seq;
        self.recent_count = (self.recent_count + 1).min(SackBlocks::MAX as u8);
    }

    /// Takes the next payload if it starts at or before `next`, cut to what lies behind it.
    pub(crate) fn take(&mut self, next: Seq, refused: &mut Vec<u32>) -> Option<Payload> {
        while let Some(held) = self.ring.get(0).copied()
            && held.seq.is_at_most(next)
        {
            self.ring.pop();
            if self.ring.is_empty() {
                self.recent_count = 0;
            }
            if next.is_before(held.end()) {
                return Some(held.payload.skip(next.since(held.seq)));
            }
            refused.push(held.payload.slot);
        }
        None
    }

    /// Returns the blocks to report, at most `blocks_max`: the one with the latest arrival first, then those of
    /// earlier ones.
    pub(crate) fn blocks(&self, blocks_max: usize) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        for &seq in &self.recent[..usize::from(self.recent_count)] {
            if blocks.len() == blocks_max {
                break;
            }
            if blocks.iter().any(|&(from, to)| seq.is_within(from, to)) {
                continue;
            }
            if let Some((from, to)) = self.block_round(seq) {
                blocks.push(from, to);
            }
        }
        blocks
    }

    /// Returns the run of payloads without a gap that contains `seq`.
    fn block_round(&self, seq: Seq) -> Option<(Seq, Seq)> {
        let index = self.ring.partition_point(|held| held.seq.is_at_most(seq)).checked_sub(1)?;
        let held = self.ring.get(index)?;
        if !seq.is_before(held.end()) {
            return None;
        }
        let (mut from, mut to) = (held.seq, held.end());
        for before in (0..index).rev().map_while(|before| self.ring.get(before)) {
            if before.end() != from {
                break;
            }
            from = before.seq;
        }
        for behind in (index + 1..self.ring.len()).map_while(|behind| self.ring.get(behind)) {
            if behind.seq != to {
                break;
            }
            to = behind.end();
        }
        Some((from, to))
    }

    /// Gives all slots back.
    pub(crate) fn clear(&mut self, refused: &mut Vec<u32>) {
        while let Some(held) = self.ring.pop() {
            refused.push(held.payload.slot);
        }
        self.recent_count = 0;
    }

    /// Asserts that payloads are in order, do not overlap, and lie in `from..to`.
    pub(crate) fn assert_invariants(&self, from: Seq, to: Seq) {
        let mut at = from;
        for held in self.ring.iter() {
            assert!(
                held.payload.bytes > 0 && at.is_at_most(held.seq),
                "payloads overlap or have been delivered"
            );
            at = held.end();
            assert!(at.is_at_most(to), "a payload beyond the window");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(slot: u32, bytes: u32) -> Payload {
        Payload { slot, start: 0, bytes }
    }

    #[test]
    fn every_slot_is_taken_or_refused_once_and_bytes_come_in_order() {
        let mut random = 7_u32;
        let mut next_random = |below: u32| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 10) % below
        };
        for round in 0..300 {
            let base = Seq(u32::MAX - 50);
            let (mut reassembly, mut refused, mut taken) = (Reassembly::new(8), Vec::new(), Vec::new());
            let mut known = [false; 130];
            for slot in 0..40 {
                let from = 1 + next_random(100);
                let bytes = 1 + next_random(25);
                // A payload's bytes are numbered by their position, so that cutting can be checked.
                let payload = Payload { slot, start: from, bytes };
                if reassembly.insert(base + from, payload, &mut refused) {
                    known[from as usize..(from + bytes) as usize].fill(true);
                }
                reassembly.assert_invariants(base + 1, base + 130);
                for &(from, to) in reassembly.blocks(4).iter() {
                    let (from, to) = (from.since(base) as usize, to.since(base) as usize);
                    assert!(known[from..to].iter().all(|&is_known| is_known), "round {round}");
                    assert!(!known[from - 1] && !known[to], "blocks are as long as can be, round {round}");
                }
            }
            let mut next = base + 1;
            while next != base + 130 {
                match reassembly.take(next, &mut refused) {
                    Some(payload) => {
                        assert_eq!(payload.start, next.since(base), "round {round}");
                        taken.push(payload.slot);
                        next += payload.bytes;
                    }
                    None => {
                        assert!(!known[next.since(base) as usize], "round {round}");
                        next += 1;
                    }
                }
            }
            assert!(reassembly.is_empty());
            taken.extend(refused);
            taken.sort_unstable();
            assert!(taken.into_iter().eq(0..40), "round {round}");
        }
    }

    #[test]
    fn reports_the_latest_block_first() {
        let mut reassembly = Reassembly::new(8);
        let mut refused = Vec::new();
        for (slot, from) in [(0, 100), (1, 300), (2, 500), (3, 700), (4, 900), (5, 110)] {
            assert!(reassembly.insert(Seq(from), payload(slot, 10), &mut refused));
        }
        let blocks = reassembly.blocks(3);
        let expected = [(100, 120), (900, 910), (700, 710)].map(|(from, to)| (Seq(from), Seq(to)));
        assert_eq!(&*blocks, &expected);
    }

    #[test]
    fn a_full_ring_refuses() {
        let mut reassembly = Reassembly::new(1);
        let mut refused = Vec::new();
        assert!(reassembly.insert(Seq(10), payload(1, 5), &mut refused));
        assert!(!reassembly.insert(Seq(20), payload(2, 5), &mut refused));
        assert_eq!(refused, [2]);
        // A payload that covers the one held replaces it.
        assert!(reassembly.insert(Seq(9), payload(3, 7), &mut refused));
        assert_eq!(refused, [2, 1]);
    }
}
