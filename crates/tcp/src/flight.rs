//! The scoreboard: segments sent and not yet acknowledged, in order, with the state of each (RFC 6675).
//!
//! Every segment is in one of four states: under way, selectively acknowledged, lost, or lost and sent again. Sums
//! over the states are maintained, so that reading the bytes under way ([`Flight::pipe_bytes`]) costs nothing.

use crate::queue::Cursor;
use crate::ring::Ring;
use crate::{Seq, Time};

/// RFC 6675, section 2: number of later segments whose arrival means that a segment is lost.
const DUPLICATE_THRESHOLD: u32 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum State {
    #[default]
    UnderWay,
    Sacked,
    Lost,
    /// Lost, and sent again.
    Resent,
}

/// A segment sent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sent {
    pub(crate) seq: Seq,
    /// Length in sequence space: payload, and one for FIN.
    pub(crate) bytes: u32,
    /// Start of its payload in the queue.
    pub(crate) at: Cursor,
    pub(crate) sent_at: Time,
    pub(crate) state: State,
    pub(crate) fin: bool,
    /// Whether it was sent more than once: then its acknowledgement gives no sample of the round trip (Karn).
    pub(crate) retried: bool,
}

impl Sent {
    pub(crate) fn end(&self) -> Seq {
        self.seq + self.bytes
    }

    pub(crate) fn payload_bytes(&self) -> u32 {
        self.bytes - u32::from(self.fin)
    }
}

/// The result of an acknowledgement.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Acknowledged {
    /// Bytes that had not been selectively acknowledged before.
    pub(crate) delivered_bytes: u32,
    /// The time at which the latest of the segments was sent. `None` if one of them was sent twice: the others may
    /// have waited at the receiver for it (Karn).
    pub(crate) sent_at: Option<Time>,
    pub(crate) fin: bool,
}

#[derive(Debug)]
pub(crate) struct Flight {
    ring: Ring<Sent>,
    bytes: u32,
    sacked_bytes: u32,
    /// Lost and not sent again.
    lost_bytes: u32,
    /// No segment before this position waits to be sent again.
    search_from: u32,
}

impl Flight {
    pub(crate) fn new(segments_max: u32) -> Self {
        Self { ring: Ring::new(segments_max), bytes: 0, sacked_bytes: 0, lost_bytes: 0, search_from: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.ring.is_full()
    }

    /// Returns the number of bytes from the first segment to the last, in whatever state.
    pub(crate) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Returns the number of bytes that are assumed to be in the network.
    pub(crate) fn pipe_bytes(&self) -> u32 {
        self.bytes - self.sacked_bytes - self.lost_bytes
    }

    pub(crate) fn push(&mut self, sent: Sent) {
        self.bytes += sent.bytes;
        self.ring.push(sent);
    }

    pub(crate) fn get(&self, index: u32) -> Option<&Sent> {
        self.ring.get(index)
    }

    fn count(&mut self, state: State, bytes: u32, is_added: bool) {
        let sum = match state {
            State::UnderWay | State::Resent => return,
            State::Sacked => &mut self.sacked_bytes,
            State::Lost => &mut self.lost_bytes,
        };
        if is_added {
            *sum += bytes;
        } else {
            *sum -= bytes;
        }
    }

    fn set(&mut self, index: u32, state: State) {
        let Some(sent) = self.ring.get_mut(index) else { return };
        let (old, bytes) = (sent.state, sent.bytes);
        sent.state = state;
        self.count(old, bytes, false);
        self.count(state, bytes, true);
        if state == State::Lost {
            let position = self.ring.head().wrapping_add(index);
            if position.wrapping_sub(self.search_from) as i32 > 0 {
                return;
            }
            self.search_from = position;
        }
    }

    /// Removes the segments before `ack`. `skip` moves a cursor on, for a segment of which only a part was
    /// acknowledged.
    pub(crate) fn acknowledge(&mut self, ack: Seq, skip: impl Fn(Cursor, u32) -> Cursor) -> Acknowledged {
        let mut found = Acknowledged::default();
        let mut is_any_retried = false;
        while let Some(sent) = self.ring.get(0).copied() {
            if !sent.seq.is_before(ack) {
                break;
            }
            let bytes = ack.since(sent.seq).min(sent.bytes);
            self.count(sent.state, bytes, false);
            self.bytes -= bytes;
            if sent.state != State::Sacked {
                found.delivered_bytes += bytes;
            }
            if bytes < sent.bytes {
                if let Some(front) = self.ring.get_mut(0) {
                    front.seq += bytes;
                    front.bytes -= bytes;
                    front.at = skip(front.at, bytes);
                }
                break;
            }
            is_any_retried |= sent.retried;
            if sent.state != State::Sacked {
                found.sent_at = Some(sent.sent_at);
            }
            found.fin |= sent.fin;
            self.ring.pop();
        }
        if is_any_retried {
            found.sent_at = None;
        }
        if self.search_from.wrapping_sub(self.ring.head()) as i32 <= 0 {
            self.search_from = self.ring.head();
        }
        found
    }

    /// Marks segments that lie wholly within `from..to`; returns the number of bytes that were not marked before.
    pub(crate) fn sack(&mut self, from: Seq, to: Seq) -> u32 {
        let mut news_bytes = 0;
        let mut index = self.ring.partition_point(|sent| sent.seq.is_before(from));
        while let Some(sent) = self.ring.get(index).copied() {
            if !sent.end().is_at_most(to) {
                break;
            }
            if sent.state != State::Sacked {
                news_bytes += sent.bytes;
                self.set(index, State::Sacked);
            }
            index += 1;
        }
        news_bytes
    }

    /// Applies RFC 6675's `IsLost` to all segments: one is lost if three segments, or more than the bytes of two full
    /// ones, arrived behind it. Segments that were sent again are not judged a second time. Returns whether any was
    /// found lost.
    pub(crate) fn mark_lost(&mut self, mss: u32) -> bool {
        let (mut segments, mut bytes, mut is_any) = (0, 0, false);
        for index in (0..self.ring.len()).rev() {
            let Some(sent) = self.ring.get(index).copied() else { break };
            if sent.state == State::Sacked {
                segments += 1;
                bytes += sent.bytes;
            } else if sent.state == State::UnderWay
                && (segments >= DUPLICATE_THRESHOLD || bytes > (DUPLICATE_THRESHOLD - 1) * mss)
            {
                self.set(index, State::Lost);
                is_any = true;
            }
        }
        is_any
    }

    /// Marks the first segment, unless it was sent again already.
    pub(crate) fn mark_first_lost(&mut self) {
        if self.ring.get(0).is_some_and(|sent| sent.state == State::UnderWay) {
            self.set(0, State::Lost);
        }
    }

    /// Marks the first segment even if it was sent again, unless it has arrived.
    pub(crate) fn mark_front_lost(&mut self) {
        if self.ring.get(0).is_some_and(|sent| sent.state != State::Sacked) {
            self.set(0, State::Lost);
        }
    }

    /// Marks all segments after a timeout; selective acknowledgements no longer count, because the other end may have
    /// dropped that data (RFC 2018, section 8).
    pub(crate) fn mark_all_lost(&mut self) {
        for index in (0..self.ring.len()).rev() {
            self.set(index, State::Lost);
        }
    }

    /// Returns the first segment that is lost and waits to be sent again.
    pub(crate) fn next_lost(&mut self) -> Option<u32> {
        if self.lost_bytes == 0 {
            return None;
        }
        let mut index = self.search_from.wrapping_sub(self.ring.head());
        while self.ring.get(index).is_some_and(|sent| sent.state != State::Lost) {
            index += 1;
        }
        self.search_from = self.ring.head().wrapping_add(index.min(self.ring.len()));
        self.ring.get(index).map(|_| index)
    }

    /// Notes that the segment at `index` was sent again.
    pub(crate) fn resent(&mut self, index: u32, now: Time) {
        self.set(index, State::Resent);
        if let Some(sent) = self.ring.get_mut(index) {
            sent.retried = true;
            sent.sent_at = now;
        }
    }

    /// Asserts that the sums are right and that segments follow each other from `una` to `nxt`.
    pub(crate) fn assert_invariants(&self, una: Seq, nxt: Seq) {
        let (mut at, mut sacked_bytes, mut lost_bytes) = (una, 0, 0);
        for (index, sent) in self.ring.iter().enumerate() {
            assert_eq!(sent.seq, at, "segments in flight follow each other");
            assert!(sent.bytes > 0, "a segment in flight takes sequence space");
            at = sent.end();
            match sent.state {
                State::Sacked => sacked_bytes += sent.bytes,
                State::Lost => {
                    lost_bytes += sent.bytes;
                    let position = self.ring.head().wrapping_add(index as u32);
                    assert!(
                        position.wrapping_sub(self.search_from) as i32 >= 0,
                        "a lost segment is overlooked"
                    );
                }
                State::UnderWay | State::Resent => {}
            }
        }
        assert_eq!(at, nxt, "what is in flight ends where the next segment starts");
        let sums = (self.bytes, self.sacked_bytes, self.lost_bytes);
        assert_eq!(sums, (nxt.since(una), sacked_bytes, lost_bytes), "sums over the flight");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns ten segments of 100 bytes from 1000 on.
    fn ten() -> Flight {
        let mut flight = Flight::new(16);
        for index in 0..10 {
            let seq = Seq(1000 + 100 * index);
            flight.push(Sent { seq, bytes: 100, sent_at: Time::from_ns(index.into()), ..Sent::default() });
        }
        flight
    }

    fn states(flight: &Flight) -> alloc::string::String {
        flight.assert_invariants(flight.ring.get(0).map_or(Seq(2000), |sent| sent.seq), Seq(2000));
        let letter = |sent: &Sent| match sent.state {
            State::UnderWay => 'u',
            State::Sacked => 's',
            State::Lost => 'l',
            State::Resent => 'r',
        };
        flight.ring.iter().map(letter).collect()
    }

    #[test]
    fn three_segments_behind_make_one_lost() {
        let mut flight = ten();
        assert_eq!(flight.sack(Seq(1200), Seq(1400)), 200);
        assert!(!flight.mark_lost(100));
        assert_eq!(flight.sack(Seq(1200), Seq(1500)), 100, "only what is new counts");
        assert!(flight.mark_lost(100));
        assert_eq!(states(&flight), "llsssuuuuu");
        assert_eq!(flight.pipe_bytes(), 500);
        assert_eq!(flight.next_lost(), Some(0));
        flight.resent(0, Time::ZERO);
        assert_eq!(flight.next_lost(), Some(1));
        assert_eq!(flight.pipe_bytes(), 600);
        assert!(!flight.mark_lost(1000), "few bytes and few segments");
        assert_eq!(states(&flight), "rlsssuuuuu");
    }

    #[test]
    fn more_than_two_full_segments_of_bytes_make_one_lost() {
        let mut flight = ten();
        flight.sack(Seq(1800), Seq(2000));
        assert!(!flight.mark_lost(100));
        assert!(flight.mark_lost(99));
        assert_eq!(states(&flight), "llllllllss");
    }

    #[test]
    fn acknowledgements_take_parts_and_tell_of_the_last_sent() {
        let mut flight = ten();
        flight.sack(Seq(1100), Seq(1200));
        let skip = |at: Cursor, _| at;
        let found = flight.acknowledge(Seq(1350), skip);
        assert_eq!((found.delivered_bytes, found.sent_at), (250, Some(Time::from_ns(2))));
        assert_eq!(states(&flight), "uuuuuuu");
        assert_eq!(flight.get(0).map(|sent| (sent.seq, sent.bytes)), Some((Seq(1350), 50)));
        flight.mark_all_lost();
        flight.resent(0, Time::from_ns(99));
        let found = flight.acknowledge(Seq(1500), skip);
        assert_eq!(found.sent_at, None, "Karn: one was sent twice, and the other may have waited for it");
        assert_eq!(flight.next_lost(), Some(0));
    }

    #[test]
    fn a_block_that_covers_a_part_of_a_segment_says_nothing_of_it() {
        let mut flight = ten();
        assert_eq!(flight.sack(Seq(1150), Seq(1250)), 0);
        assert_eq!(flight.sack(Seq(1050), Seq(1299)), 100);
        assert_eq!(states(&flight), "usuuuuuuuu");
    }

    #[test]
    fn a_timeout_forgets_what_was_selectively_acknowledged() {
        let mut flight = ten();
        flight.sack(Seq(1500), Seq(1600));
        flight.mark_all_lost();
        assert_eq!(states(&flight), "llllllllll");
        assert_eq!(flight.pipe_bytes(), 0);
    }
}
