//! Two rings of messages in shared memory, each with one producer and one consumer: one for requests, the other for
//! answers.
//!
//! A message is a descriptor of one cache line. Up to [`INLINE_BYTES`] of content are in the descriptor; longer
//! content is in the payloads of as many consecutive slots as it needs.
//!
//! **Guarantees**, regardless of the values and times of the other process's writes: each end uses its own count, and
//! uses the other's only within the bounds of the ring; each word is read once into private memory, checked, and used
//! from there; a consumer copies at most [`MESSAGE_BYTES_MAX`]. An impossible count or length is a [`Lie`], after
//! which the ring must be given up. Between two honest ends every message arrives once, whole and in order. No
//! function waits.

use crate::sync::{AtomicU64, Ordering};
use zeroize::Zeroize as _;

/// The number of slots of a ring, each with a descriptor and a payload.
pub const SLOTS: usize = 128;

/// The maximum number of bytes of content in a descriptor.
const INLINE_BYTES: usize = 32;

/// The number of bytes of a payload: those of a packet.
const PAYLOAD_BYTES: usize = 2048;

/// The maximum length of the content: half a ring, so that there is room for it as soon as half is free.
pub const MESSAGE_BYTES_MAX: usize = SLOTS / 2 * PAYLOAD_BYTES;

/// The number of descriptors that a producer keeps in its own core's cache, ready to be written.
const PREPARED: usize = 32;

/// The number of words from one count to the next: two cache lines, because processors fetch them in pairs.
const COUNT_WORDS: usize = 16;
const DESCRIPTOR_WORDS: usize = 8;
const PAYLOAD_WORDS: usize = PAYLOAD_BYTES / 8;
const RING_WORDS: usize = 2 * COUNT_WORDS + SLOTS * (DESCRIPTOR_WORDS + PAYLOAD_WORDS);

/// The number of words of both rings.
pub const WORDS: usize = 2 * RING_WORDS;

/// A place of the words: shared memory, or an array in a test.
pub trait Words {
    /// Returns all words.
    fn words(&self) -> &[AtomicU64; WORDS];
}

/// One of the two rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The ring from a client to the service.
    Requests,
    /// The ring from the service to a client.
    Answers,
}

impl Direction {
    #[inline]
    fn base(self) -> usize {
        match self {
            Self::Requests => 0,
            Self::Answers => RING_WORDS,
        }
    }

    /// Returns the producer's count.
    #[inline]
    fn tail<W: Words>(self, words: &W) -> &AtomicU64 {
        &words.words()[self.base()]
    }

    /// Returns the consumer's count.
    #[inline]
    fn head<W: Words>(self, words: &W) -> &AtomicU64 {
        &words.words()[self.base() + COUNT_WORDS]
    }

    #[inline]
    fn descriptor<W: Words>(self, words: &W, count: u64) -> &[AtomicU64; DESCRIPTOR_WORDS] {
        let from = self.base() + 2 * COUNT_WORDS + slot(count) * DESCRIPTOR_WORDS;
        words.words()[from..].first_chunk().expect("descriptors are followed by payloads")
    }

    fn payload<W: Words>(self, words: &W, count: u64) -> &[AtomicU64] {
        let from = self.base() + 2 * COUNT_WORDS + SLOTS * DESCRIPTOR_WORDS + slot(count) * PAYLOAD_WORDS;
        &words.words()[from..from + PAYLOAD_WORDS]
    }
}

#[inline]
fn slot(count: u64) -> usize {
    (count % SLOTS as u64) as usize
}

/// Returns the number of slots for content of this length.
#[inline]
pub const fn slots(length: usize) -> usize {
    if length <= INLINE_BYTES { 1 } else { length.div_ceil(PAYLOAD_BYTES) }
}

/// The data of a message besides its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The client's number of a job, which its answer repeats.
    pub tag: u64,
    /// An operation, or a status.
    pub code: u32,
    /// The key's handle.
    pub key: u32,
    /// The operation's parameters.
    pub parameters: u32,
}

/// The error for a value that no honest process writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ring's other end wrote a count or a length that cannot be")]
pub struct Lie;

/// The reason for which a message was not pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotPushed {
    /// There is no room for it now.
    Full,
    /// It is longer than [`MESSAGE_BYTES_MAX`].
    TooLong,
    /// The consumer's count is impossible.
    Lie,
}

/// The end that writes messages.
#[derive(Debug)]
pub struct Producer {
    direction: Direction,
    /// The number of slots written so far; [`Producer::publish`] reports it to the consumer.
    tail: u64,
    /// The number of slots that the consumer had given back at the last read of its count.
    head: u64,
    /// The number of slots whose descriptors [`Producer::prepare`] has touched.
    prepared: u64,
}

impl Producer {
    /// Returns the producer of an unused ring.
    pub fn new(direction: Direction) -> Self {
        Self { direction, tail: 0, head: 0, prepared: 0 }
    }

    /// Returns the number of free slots according to the consumer's present count.
    ///
    /// # Errors
    /// Fails if the count is impossible.
    #[inline]
    pub fn free<W: Words>(&mut self, words: &W) -> Result<usize, Lie> {
        let head = self.direction.head(words).load(Ordering::Acquire);
        let used = self.tail.wrapping_sub(head);
        // The consumer's count only grows, and does not pass ours.
        if used > SLOTS as u64 || used > self.tail.wrapping_sub(self.head) {
            return Err(Lie);
        }
        self.head = head;
        Ok(SLOTS - used as usize)
    }

    /// Returns whether `slots` slots are free; reads the consumer's count only if they were not at the last reading.
    ///
    /// # Errors
    /// Fails if the count is impossible.
    #[inline]
    pub fn fits<W: Words>(&mut self, words: &W, slots: usize) -> Result<bool, Lie> {
        let free = SLOTS - self.tail.wrapping_sub(self.head) as usize;
        Ok(free >= slots || self.free(words)? >= slots)
    }

    /// Writes a message into the ring; the consumer sees it after [`Producer::publish`].
    ///
    /// # Errors
    /// Fails if it does not fit now, or is too long.
    #[inline]
    pub fn push<W: Words>(&mut self, words: &W, head: Head, content: &[u8]) -> Result<(), NotPushed> {
        if content.len() > MESSAGE_BYTES_MAX {
            return Err(NotPushed::TooLong);
        }
        let needed = slots(content.len());
        if !self.fits(words, needed).map_err(|Lie| NotPushed::Lie)? {
            return Err(NotPushed::Full);
        }
        let descriptor = self.direction.descriptor(words, self.tail);
        let store = |at: usize, word: u64| descriptor[at].store(word, Ordering::Relaxed);
        store(0, head.tag);
        store(1, pair(head.code, head.key));
        store(2, pair(content.len() as u32, head.parameters));
        if !content.is_empty() {
            self.write(words, content);
        }
        self.tail = self.tail.wrapping_add(needed as u64);
        Ok(())
    }

    fn write<W: Words>(&self, words: &W, content: &[u8]) {
        if content.len() <= INLINE_BYTES {
            write(&self.direction.descriptor(words, self.tail)[4..], content);
        } else {
            for (count, part) in (self.tail..).zip(content.chunks(PAYLOAD_BYTES)) {
                write(self.direction.payload(words, count), part);
            }
        }
    }

    /// Publishes all pushed messages to the consumer.
    #[inline]
    pub fn publish<W: Words>(&self, words: &W) {
        self.direction.tail(words).store(self.tail, Ordering::Release);
    }

    /// Fetches the next descriptors from the consumer's cache, which takes as long as many messages; the caller does this
    /// when it has nothing better to do. They hold nothing then, so a store is as good as a hint.
    pub fn prepare<W: Words>(&mut self, words: &W) {
        if !self.fits(words, PREPARED).unwrap_or(false) {
            return;
        }
        let until = self.tail.wrapping_add(PREPARED as u64);
        // Both differences are at most a ring's length.
        let from =
            if until.wrapping_sub(self.prepared) > PREPARED as u64 { self.tail } else { self.prepared };
        for count in 0..until.wrapping_sub(from) {
            self.direction.descriptor(words, from.wrapping_add(count))[0].store(0, Ordering::Relaxed);
        }
        self.prepared = until;
    }
}

/// The end that reads messages.
#[derive(Debug)]
pub struct Consumer {
    direction: Direction,
    /// The number of slots read so far; [`Consumer::release`] reports it to the producer.
    head: u64,
    /// The number of slots that the producer had published at the last read of its count.
    tail: u64,
}

impl Consumer {
    /// Returns the consumer of an unused ring.
    pub fn new(direction: Direction) -> Self {
        Self { direction, head: 0, tail: 0 }
    }

    /// Returns whether there is a message according to the producer's present count, which may be a lie.
    #[inline]
    pub fn is_pending<W: Words>(&self, words: &W) -> bool {
        self.tail_now(words) != self.head
    }

    /// Returns about how many messages of the next one's length wait: exactly that many if all have that length.
    ///
    /// # Errors
    /// Fails if a count or the length is impossible.
    pub fn waiting<W: Words>(&self, words: &W) -> Result<usize, Lie> {
        let Some((_, length)) = self.next(words)? else { return Ok(0) };
        Ok((self.shown(self.tail_now(words))? as usize).div_ceil(slots(length)))
    }

    /// Returns the code and the length of the next message's content, or `None` if there is no message. The producer may
    /// change both until [`Consumer::take`] has copied the message.
    ///
    /// # Errors
    /// Fails if a count or the length is impossible.
    #[inline]
    pub fn next<W: Words>(&self, words: &W) -> Result<Option<(u32, usize)>, Lie> {
        let tail = if self.has_more() { self.tail } else { self.tail_now(words) };
        if self.shown(tail)? == 0 {
            return Ok(None);
        }
        let descriptor = self.direction.descriptor(words, self.head);
        let first = |at: usize| halves(descriptor[at].load(Ordering::Relaxed)).0;
        let (code, length) = (first(1), first(2) as usize);
        if length > MESSAGE_BYTES_MAX { Err(Lie) } else { Ok(Some((code, length))) }
    }

    /// Checks the producer's present count.
    ///
    /// # Errors
    /// Fails if it is impossible.
    pub fn check<W: Words>(&self, words: &W) -> Result<(), Lie> {
        self.shown(self.tail_now(words)).map(|_| ())
    }

    /// Returns whether a message is left of those that the last reading of the producer's count showed.
    #[inline]
    pub fn has_more(&self) -> bool {
        self.tail != self.head
    }

    #[inline]
    fn tail_now<W: Words>(&self, words: &W) -> u64 {
        self.direction.tail(words).load(Ordering::Acquire)
    }

    /// Returns the number of slots that hold messages according to a count of the producer's.
    #[inline]
    fn shown(&self, tail: u64) -> Result<u64, Lie> {
        let shown = tail.wrapping_sub(self.head);
        if shown > SLOTS as u64 { Err(Lie) } else { Ok(shown) }
    }

    /// Copies the next message out: returns its head, and replaces `content` by its content. `wipe` zeroes the bytes
    /// in the shared memory.
    ///
    /// # Errors
    /// Fails if a count or a length is impossible.
    #[inline]
    pub fn take<W: Words>(
        &mut self,
        words: &W,
        content: &mut Vec<u8>,
        wipe: bool,
    ) -> Result<Option<Head>, Lie> {
        let is_new = !self.has_more();
        if is_new {
            self.tail = self.tail_now(words);
        }
        let shown = self.shown(self.tail)?;
        if shown == 0 {
            return Ok(None);
        }
        if is_new {
            self.fetch(words, shown);
        }
        let descriptor = self.direction.descriptor(words, self.head);
        let load = |at: usize| descriptor[at].load(Ordering::Relaxed);
        let (tag, (code, key), (length, parameters)) = (load(0), halves(load(1)), halves(load(2)));
        let length = length as usize;
        if length > MESSAGE_BYTES_MAX || slots(length) as u64 > shown {
            return Err(Lie);
        }
        content.clear();
        if length > 0 {
            self.read(words, length, content, wipe);
        }
        self.head = self.head.wrapping_add(slots(length) as u64);
        Ok(Some(Head { tag, code, key, parameters }))
    }

    fn read<W: Words>(&self, words: &W, length: usize, content: &mut Vec<u8>, wipe: bool) {
        if length <= INLINE_BYTES {
            read(&self.direction.descriptor(words, self.head)[4..], length, content, wipe);
        } else {
            for count in 0..slots(length) as u64 {
                let left = (length - content.len()).min(PAYLOAD_BYTES);
                read(self.direction.payload(words, self.head.wrapping_add(count)), left, content, wipe);
            }
        }
    }

    /// Reads all new descriptors, so that they come from the producer's cache at the same time and not one after the other.
    fn fetch<W: Words>(&self, words: &W, shown: u64) {
        let first = |count| {
            self.direction.descriptor(words, self.head.wrapping_add(count))[0].load(Ordering::Relaxed)
        };
        std::hint::black_box((1..shown).fold(0, |all, count| all ^ first(count)));
    }

    /// Gives the slots of all taken messages back to the producer.
    #[inline]
    pub fn release<W: Words>(&self, words: &W) {
        self.direction.head(words).store(self.head, Ordering::Release);
    }
}

#[inline]
fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

#[inline]
fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// Writes bytes as words; the last word is padded with zeros.
fn write(words: &[AtomicU64], bytes: &[u8]) {
    let mut whole = bytes.chunks_exact(8);
    for (word, eight) in words.iter().zip(&mut whole) {
        word.store(u64::from_le_bytes(eight.try_into().expect("eight bytes")), Ordering::Relaxed);
    }
    let rest = whole.remainder();
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        words[bytes.len() / 8].store(u64::from_le_bytes(last), Ordering::Relaxed);
        last.zeroize();
    }
}

/// Appends `length` bytes to `content`.
fn read(words: &[AtomicU64], length: usize, content: &mut Vec<u8>, wipe: bool) {
    for (index, word) in words[..length.div_ceil(8)].iter().enumerate() {
        let eight = word.load(Ordering::Relaxed).to_le_bytes();
        content.extend_from_slice(&eight[..(length - index * 8).min(8)]);
        if wipe {
            word.store(0, Ordering::Relaxed);
        }
    }
}
