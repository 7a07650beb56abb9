//! The queue of messages to be sent: by reference, in order, each kept until its last byte is acknowledged. Segments
//! are cut from it by cursor, so that a retransmission finds the same bytes again.

use crate::Seq;
use crate::ring::Ring;
use crate::segment::{Parts, Payload};
use alloc::vec::Vec;

/// Most bytes queued: half the range of sequence numbers that can be compared, less a window.
const BYTES_MAX: u32 = 1 << 30;

/// A place in the queue: a message's position in the ring and an offset in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Cursor {
    message: u32,
    offset: u32,
}

/// Messages from the oldest one that is not wholly acknowledged to the newest.
#[derive(Debug)]
pub(crate) struct Queue {
    ring: Ring<(Payload, Seq)>,
    /// One behind the last queued byte.
    end: Seq,
}

impl Queue {
    pub(crate) fn new(messages_max: u32, first: Seq) -> Self {
        Self { ring: Ring::new(messages_max), end: first }
    }

    pub(crate) fn end(&self) -> Seq {
        self.end
    }

    /// Appends a message that has bytes; returns false if there is no room. `una` is the first byte not acknowledged.
    pub(crate) fn push(&mut self, message: Payload, una: Seq) -> bool {
        let queued = self.end.since(una);
        if self.ring.is_full() || message.bytes > BYTES_MAX || queued > BYTES_MAX - message.bytes {
            return false;
        }
        self.end += message.bytes;
        self.ring.push((message, self.end));
        true
    }

    /// Adds to `parts` at most `bytes_max` bytes from `from` on, of no more messages than a segment may join. Returns
    /// the number of bytes, and the start of the next ones.
    #[inline]
    pub(crate) fn cut(&self, from: Cursor, bytes_max: u32, parts: &mut Parts) -> (u32, Cursor) {
        let (mut bytes, mut next) = (0, from);
        while bytes < bytes_max && parts.len() < Parts::MAX {
            let Some((message, _)) = self.ring.at(next.message) else { break };
            let part = message.skip(next.offset).take(bytes_max - bytes);
            parts.push(part);
            bytes += part.bytes;
            next.offset += part.bytes;
            if next.offset >= message.bytes {
                next = Cursor { message: next.message.wrapping_add(1), offset: 0 };
            }
        }
        (bytes, next)
    }

    /// Returns the number of bytes of the message at `from` that are left from there on.
    pub(crate) fn message_rest(&self, from: Cursor) -> u32 {
        self.ring.at(from.message).map_or(0, |(message, _)| message.bytes - from.offset)
    }

    /// Returns the place `bytes` behind `from`.
    pub(crate) fn skip(&self, from: Cursor, bytes: u32) -> Cursor {
        let mut at = Cursor { message: from.message, offset: from.offset + bytes };
        while let Some((message, _)) = self.ring.at(at.message)
            && at.offset >= message.bytes
        {
            at = Cursor { message: at.message.wrapping_add(1), offset: at.offset - message.bytes };
        }
        at
    }

    /// Hands back the slots of messages that end at or before `una`.
    pub(crate) fn acknowledge(&mut self, una: Seq, acked: &mut Vec<u32>) {
        while let Some(&(message, end)) = self.ring.get(0)
            && end.is_at_most(una)
        {
            acked.push(message.slot);
            self.ring.pop();
        }
    }

    /// Hands back all slots.
    pub(crate) fn abandon(&mut self, abandoned: &mut Vec<u32>) {
        while let Some((message, _)) = self.ring.pop() {
            abandoned.push(message.slot);
        }
    }

    /// Returns the position of the first byte ever queued.
    pub(crate) fn start(&self) -> Cursor {
        Cursor { message: self.ring.head(), offset: 0 }
    }

    pub(crate) fn len(&self) -> u32 {
        self.ring.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(slot: u32, bytes: u32) -> Payload {
        Payload { slot, start: 100, bytes }
    }

    #[test]
    fn cuts_join_messages_and_come_back_the_same() {
        let first = Seq(u32::MAX - 4);
        let mut queue = Queue::new(8, first);
        for (slot, bytes) in [(1, 10), (2, 3), (3, 4), (4, 1), (5, 9)] {
            assert!(queue.push(message(slot, bytes), first));
        }
        let cut = |from: Cursor, bytes_max: u32| {
            let mut parts = Parts::default();
            let (bytes, next) = queue.cut(from, bytes_max, &mut parts);
            assert_eq!(bytes, parts.bytes());
            (parts, next)
        };
        let (parts, next) = cut(queue.start(), 12);
        assert_eq!(&*parts, &[message(1, 10), Payload { slot: 2, start: 100, bytes: 2 }]);
        assert_eq!((parts.bytes(), next), (12, queue.skip(queue.start(), 12)));
        let (parts, next) = cut(next, 100);
        // A segment joins at most four messages.
        assert_eq!(parts[0], Payload { slot: 2, start: 102, bytes: 1 });
        assert_eq!((parts.bytes(), parts.len(), next), (15, 4, queue.skip(queue.start(), 27)));
        assert_eq!(cut(next, 100).0.len(), 0);
    }

    #[test]
    fn slots_come_back_once_their_last_byte_is_acknowledged() {
        let first = Seq(7);
        let mut queue = Queue::new(2, first);
        assert!(queue.push(message(1, 10), first) && queue.push(message(2, 10), first));
        assert!(!queue.push(message(3, 1), first), "the ring is full");
        let mut acked = Vec::new();
        queue.acknowledge(first + 9, &mut acked);
        assert_eq!(acked, [0; 0]);
        queue.acknowledge(first + 10, &mut acked);
        assert_eq!(acked, [1]);
        assert!(!queue.push(message(3, u32::MAX), first + 10), "more than sequence numbers can tell apart");
        let mut rest = Vec::new();
        queue.abandon(&mut rest);
        assert_eq!(rest, [2]);
    }
}
