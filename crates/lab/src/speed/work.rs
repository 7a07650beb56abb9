//! The measured unit: one batch of messages, run repeatedly, with any implementation.
//!
//! Digests, ciphers and AEADs, ours and other libraries', all become a [`Handler`]: a call that handles the next
//! messages and returns their number. Its resources (keys, buffers, jobs) are prepared before and are not measured;
//! the work per message (IV, start, end) is part of the call.

use super::{Peer, SpeedError};
use crate::rng::Rng;
use sealane_transform::{Aead, AeadJob, AeadKey, Algorithm, Buffer, Direction, Kernels};
use std::ops::{AddAssign, Range};

/// The bytes per call if messages are not computed side by side, so that a call is short for every algorithm.
const STEP_BYTES: usize = 8 << 10;

/// Random bytes of an arena before they repeat.
const RANDOM_BYTES: usize = 256 << 10;

/// Messages start on cache lines.
const LINE_BYTES: usize = 64;

/// The messages and bytes that a call has handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) messages: u64,
    pub(super) bytes: u64,
}

impl AddAssign for Done {
    fn add_assign(&mut self, other: Self) {
        self.messages += other.messages;
        self.bytes += other.bytes;
    }
}

/// Handles the next messages.
pub(super) type Handler<'a> = dyn FnMut() -> Done + 'a;

/// The task of one lane.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) algorithm: Algorithm,
    pub(super) direction: Direction,
    /// Lengths of all messages, in the order of handling; one or more batches.
    pub(super) lengths: Vec<usize>,
    /// Messages handed over together.
    pub(super) batch: usize,
    /// Associations: message i has key i modulo this.
    pub(super) keys: usize,
    pub(super) seed: u64,
}

impl Task {
    /// Returns key number `index`.
    pub(super) fn key(&self, index: usize) -> Vec<u8> {
        let mut key = vec![0; self.algorithm.facts().key_bytes.usual];
        Rng::new(self.seed ^ 0x6b65_7973 ^ (index as u64) << 32).fill(&mut key);
        key
    }

    /// Returns all keys.
    pub(super) fn keys(&self) -> Vec<Vec<u8>> {
        (0..self.keys.clamp(1, self.lengths.len().max(1))).map(|index| self.key(index)).collect()
    }

    /// Returns the error that our kernels do not accept the messages.
    pub(super) fn refused(&self) -> SpeedError {
        let bytes = self.lengths.iter().max().copied().unwrap_or_default();
        SpeedError::Refused { algorithm: self.algorithm.to_string(), bytes }
    }

    /// Returns the messages per call that handles them one after the other.
    pub(super) fn step(&self) -> usize {
        let mean = self.lengths.iter().sum::<usize>() / self.lengths.len().max(1);
        (STEP_BYTES / mean.max(1)).clamp(1, self.batch.max(1))
    }
}

/// The work of every lane, with data of its own.
pub(super) trait Share: Clone + Sync {
    /// Returns what the lane of this number does.
    fn of_lane(&self, lane: usize) -> Self;
}

impl Share for Task {
    fn of_lane(&self, lane: usize) -> Self {
        Self { seed: self.seed ^ (lane as u64) << 48, ..self.clone() }
    }
}

/// An implementation that can run a task.
pub(super) trait Runner<T = Task>: Sync {
    /// Prepares the task on this thread and passes its work to `scope`.
    fn with(&self, task: &T, scope: &mut dyn FnMut(&mut Handler<'_>)) -> Result<(), SpeedError>;
}

/// Passes a call to `scope` that runs `one` for each of the next messages, by number; fails if one of them could not
/// be handled.
pub(super) fn one_by_one(
    task: &Task,
    peer: Peer,
    scope: &mut dyn FnMut(&mut Handler<'_>),
    mut one: impl FnMut(usize, &mut [u8]) -> bool,
) -> Result<(), SpeedError> {
    let mut arena = Arena::new(task);
    let mut messages: Vec<&mut [u8]> = arena.messages(&task.lengths).collect();
    let mut cursor = Cursor::new(&task.lengths, task.step());
    let mut good = true;
    scope(&mut || {
        let (range, done) = cursor.next();
        for index in range {
            good &= one(index, messages[index]);
        }
        done
    });
    if good { Ok(()) } else { Err(peer.refuses(task.algorithm)) }
}

/// Iterates over the messages, `step` at a time, in a cycle.
pub(super) struct Cursor {
    bytes_before: Vec<u64>,
    step: usize,
    at: usize,
}

impl Cursor {
    pub(super) fn new(lengths: &[usize], step: usize) -> Self {
        let mut total = 0;
        let mut bytes_before = vec![0];
        bytes_before.extend(lengths.iter().map(|&bytes| {
            total += bytes as u64;
            total
        }));
        Self { bytes_before, step: step.max(1), at: 0 }
    }

    /// Returns the next messages and their totals.
    pub(super) fn next(&mut self) -> (Range<usize>, Done) {
        let last = self.bytes_before.len() - 1;
        let from = self.at;
        let to = (from + self.step).min(last);
        self.at = if to == last { 0 } else { to };
        let bytes = self.bytes_before[to] - self.bytes_before[from];
        (from..to, Done { messages: (to - from) as u64, bytes })
    }
}

/// Buffers of all messages in one piece of memory: random bytes, starting on cache lines, an odd number of lines
/// apart, because a distance that is a power of two would put all messages into few sets of the cache.
pub(super) struct Arena {
    memory: Vec<u8>,
    start: usize,
    stride: usize,
}

impl Arena {
    /// Returns an arena with room for every message.
    pub(super) fn new(task: &Task) -> Self {
        let stride = stride(&task.lengths);
        let mut memory = vec![0; task.lengths.len() * stride + LINE_BYTES];
        // One stretch of random bytes is repeated: no kernel's time depends on them, and gigabytes would take
        // seconds.
        let stretch_bytes = RANDOM_BYTES.min(memory.len());
        let (stretch, rest) = memory.split_at_mut(stretch_bytes);
        Rng::new(task.seed).fill(stretch);
        rest.chunks_mut(RANDOM_BYTES).for_each(|chunk| chunk.copy_from_slice(&stretch[..chunk.len()]));
        let start = memory.as_ptr().align_offset(LINE_BYTES).min(LINE_BYTES);
        Self { memory, start, stride }
    }

    /// Returns the buffers, each of its message's length.
    pub(super) fn messages<'a>(&'a mut self, lengths: &'a [usize]) -> impl Iterator<Item = &'a mut [u8]> {
        let rooms = self.memory[self.start..].chunks_exact_mut(self.stride);
        rooms.zip(lengths).map(move |(room, &bytes)| &mut room[..bytes])
    }
}

/// The additional data that AEADs authenticate: as long as a small protocol header.
pub(super) const AAD: [u8; 20] = [0xad; 20];

/// Returns the part of a message that is only authenticated, and the part that is encrypted: GMAC authenticates all of
/// it, and other AEADs encrypt all of it and authenticate [`AAD`].
pub(super) fn parts(algorithm: Algorithm, message: &mut [u8]) -> (&[u8], &mut [u8]) {
    match algorithm {
        Algorithm::Gmac(_) => {
            let (message, nothing) = message.split_at_mut(message.len());
            (message, nothing)
        }
        _ => (&AAD, message),
    }
}

/// Returns the IV of a message: a count, then zeros.
pub(super) fn iv(number: u64) -> [u8; 16] {
    let mut iv = [0; 16];
    iv[..8].copy_from_slice(&number.to_le_bytes());
    iv
}

/// Returns the nonce of a message.
pub(super) fn nonce(number: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    nonce
}

/// Sealed messages to open repeatedly, by any implementation: message i under key i and [`nonce`] i.
pub(super) struct Sealed {
    arena: Arena,
    tags: Vec<[u8; 16]>,
}

impl Sealed {
    pub(super) fn new(aead: Aead, task: &Task) -> Result<Self, SpeedError> {
        let refused = || task.refused();
        let keys: Result<Vec<AeadKey>, _> = task.keys().iter().map(|key| AeadKey::new(aead, key)).collect();
        let keys = keys.map_err(|_| refused())?;
        let mut arena = Arena::new(task);
        let mut jobs: Vec<AeadJob<'_>> = arena
            .messages(&task.lengths)
            .enumerate()
            .map(|(index, message)| {
                let key = &keys[index % keys.len()];
                AeadJob::seal(key, nonce(index as u64), &AAD, Buffer::in_place(message))
            })
            .collect();
        if Kernels::select(None, None)?.seal(aead, &mut jobs) > 0 {
            return Err(refused());
        }
        let tags = jobs.iter().map(|job| job.tag).collect();
        Ok(Self { arena, tags })
    }

    /// Returns each message's ciphertext and tag.
    pub(super) fn messages<'a>(
        &'a mut self,
        lengths: &'a [usize],
    ) -> impl Iterator<Item = (&'a [u8], &'a [u8; 16])> {
        let sealed = self.arena.messages(lengths);
        sealed.map(|message| &*message).zip(&self.tags)
    }
}

fn stride(lengths: &[usize]) -> usize {
    let longest = lengths.iter().max().copied().unwrap_or_default();
    (longest.div_ceil(LINE_BYTES) | 1) * LINE_BYTES
}

/// Returns the memory that one side of a task uses for messages.
pub(super) fn memory_bytes(lengths: &[usize]) -> usize {
    lengths.len().saturating_mul(stride(lengths))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(lengths: &[usize]) -> Task {
        Task {
            algorithm: "md5".parse().unwrap(),
            direction: Direction::Encrypt,
            lengths: lengths.to_vec(),
            batch: 2,
            keys: 1,
            seed: 3,
        }
    }

    #[test]
    fn the_cursor_goes_round() {
        let mut cursor = Cursor::new(&[10, 20, 30], 2);
        assert_eq!(cursor.next(), (0..2, Done { messages: 2, bytes: 30 }));
        assert_eq!(cursor.next(), (2..3, Done { messages: 1, bytes: 30 }));
        assert_eq!(cursor.next(), (0..2, Done { messages: 2, bytes: 30 }));
    }

    #[test]
    fn messages_lie_on_lines_and_apart() {
        let task = task(&[1, 64, 100]);
        let mut arena = Arena::new(&task);
        let places: Vec<(usize, usize)> =
            arena.messages(&task.lengths).map(|m| (m.as_ptr().addr(), m.len())).collect();
        assert_eq!(places.iter().map(|place| place.1).collect::<Vec<_>>(), [1, 64, 100]);
        assert!(places.iter().all(|place| place.0 % 64 == 0));
        assert_eq!((places[1].0 - places[0].0) / 64 % 2, 1);
    }
}
