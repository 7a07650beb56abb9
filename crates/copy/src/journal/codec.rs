//! The format of a journal, and the replay of its entries.
//!
//! Guarantees: [`replay`] takes any bytes without panic. It stops at the first entry that is cut off or does not
//! match its check, so every returned entry is as it was written. The state it builds is bounded
//! ([`STATE_BYTES_MAX`]), whatever the bytes contain. Entries beyond the bound are forgotten, which is always safe:
//! forgotten work is repeated.
//!
//! ```text
//!   journal:  "sealane3" entry*
//!   entry:    | body bytes (4) | check (4) | body |        check = BLAKE3(body bytes ‖ body), cut
//!   body:     1 | identity (16) | size (8) | bytes of the temporary name (4) | temporary name | path
//!             2 | identity (16) | start (8) | end (8)
//!             3 | identity (16) | path
//!             4 | mode (4) | path
//!             6 | path
//!             5 | identity (16) | inode (8) | seconds of its birth (8) | nanoseconds of it (4)
//! ```
//!
//! All integers are little-endian.

use std::collections::{BTreeSet, HashMap};

use sealane_tree::{FileMark, RelativePath, TempName, Writer};

use super::JournalError;
use crate::ledger::Ledger;

/// The identity of an entry of a transfer: a hash over path, size and time of modification.
pub(crate) type Identity = [u8; 16];

/// The longest names (temporary name and path together) that an entry holds.
pub(crate) const NAMES_BYTES_MAX: usize = 128 * 1024;

/// The front of every journal. Another format gets another last byte.
pub(super) const MAGIC: [u8; 8] = *b"sealane3";

/// The maximum memory of a replayed state, by the estimates below: some two million finished entries.
const STATE_BYTES_MAX: usize = 256 << 20;

/// The cost of a finished entry or an opened directory: a hash table's slot at the least favourable load, and its
/// allocation, without the path.
const DONE_COST_BYTES: usize = 112;
/// The cost of a partial file: a hash table's slot and its allocations, without the names.
const PARTIAL_COST_BYTES: usize = 384;
/// The cost of a range: a B-tree's slot at the least favourable load.
const RANGE_COST_BYTES: usize = 48;

const FRAME_BYTES: usize = 8;
const STARTED_BYTES: usize = 1 + 16 + 8 + 4;
const DONE_BYTES: usize = 1 + 16;
const OPENED_BYTES: usize = 1 + 4;
const COVERS_BYTES: usize = 1;
/// The maximum number of names that a journal covers.
pub(crate) const COVERED_MAX: usize = 1024;
const MARKED_BYTES: usize = 1 + 16 + 8 + 8 + 4;
const BODY_BYTES_MAX: usize = STARTED_BYTES + NAMES_BYTES_MAX;

const STARTED: u8 = 1;
const RANGE: u8 = 2;
const DONE: u8 = 3;
const OPENED: u8 = 4;
const MARKED: u8 = 5;
const COVERS: u8 = 6;

/// One entry of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A large file was begun, under a temporary name. Earlier entries of this identity are void.
    Started {
        /// The entry's identity.
        identity: Identity,
        /// The file's name until it is complete.
        temp_name: Vec<u8>,
        /// The final path, relative to the target.
        path: Vec<u8>,
        /// Bytes of its content.
        size: u64,
    },
    /// The file that was made for a file that was started: another one under its temporary name is not ours.
    Marked {
        /// The entry's identity.
        identity: Identity,
        /// The mark of the file.
        mark: FileMark,
    },
    /// Content was written to a file that was started.
    Range {
        /// The entry's identity.
        identity: Identity,
        /// First byte.
        start: u64,
        /// The byte after the last.
        end: u64,
    },
    /// A file, large or small, is complete and has its own name.
    Done {
        /// The entry's identity.
        identity: Identity,
        /// The path, relative to the target.
        path: Vec<u8>,
    },
    /// The transfer brings entries of this name, and below it; an empty one stands for every name.
    Covers {
        /// The name, relative to the target.
        path: Vec<u8>,
    },
    /// An existing directory was made writable for its owner.
    Opened {
        /// The mode that it had.
        mode: u32,
        /// The path, relative to the target.
        path: Vec<u8>,
    },
}

/// The progress of a receiving end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// Complete files and their paths, relative to the target.
    pub(crate) done: HashMap<Identity, Vec<u8>>,
    /// Incomplete large files.
    pub(crate) partial: HashMap<Identity, Partial>,
    /// Directories that were made writable, and their original modes.
    pub(crate) opened: HashMap<Vec<u8>, u32>,
    /// The names that the transfer brings; empty if the journal does not say.
    pub(crate) covers: BTreeSet<Vec<u8>>,
}

/// The progress of a large file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Partial {
    /// The file's name until it is complete.
    pub(crate) temp_name: Vec<u8>,
    /// The final path, relative to the target.
    pub(crate) path: Vec<u8>,
    /// Bytes of its content.
    pub(crate) size: u64,
    /// The mark of the file, once it was made.
    pub(crate) mark: Option<FileMark>,
    /// The ranges that are written.
    pub(crate) ledger: Ledger,
}

impl Entry {
    /// Appends the entry to `out`.
    ///
    /// # Errors
    /// [`JournalError::NamesTooLong`]; nothing is appended then.
    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) -> Result<(), JournalError> {
        match self {
            Self::Started { identity, temp_name, path, size } => {
                let names_bytes = temp_name.len().saturating_add(path.len());
                if names_bytes > NAMES_BYTES_MAX {
                    return Err(JournalError::NamesTooLong { bytes: names_bytes });
                }
                let temp_name_bytes = (temp_name.len() as u32).to_le_bytes();
                frame(out, &[&[STARTED], identity, &size.to_le_bytes(), &temp_name_bytes, temp_name, path]);
            }
            Self::Range { identity, start, end } => {
                frame(out, &[&[RANGE], identity, &start.to_le_bytes(), &end.to_le_bytes()]);
            }
            Self::Marked { identity, mark } => {
                let FileMark { inode, born_seconds, born_nanoseconds } = mark;
                let (inode, seconds) = (inode.to_le_bytes(), born_seconds.to_le_bytes());
                frame(out, &[&[MARKED], identity, &inode, &seconds, &born_nanoseconds.to_le_bytes()]);
            }
            Self::Done { identity, path } => {
                if path.len() > NAMES_BYTES_MAX {
                    return Err(JournalError::NamesTooLong { bytes: path.len() });
                }
                frame(out, &[&[DONE], identity, path]);
            }
            Self::Covers { path } => {
                if path.len() > NAMES_BYTES_MAX {
                    return Err(JournalError::NamesTooLong { bytes: path.len() });
                }
                frame(out, &[&[COVERS], path]);
            }
            Self::Opened { mode, path } => {
                if path.len() > NAMES_BYTES_MAX {
                    return Err(JournalError::NamesTooLong { bytes: path.len() });
                }
                frame(out, &[&[OPENED], &mode.to_le_bytes(), path]);
            }
        }
        Ok(())
    }

    /// Reads a body; returns `None` for anything that [`encode_into`](Self::encode_into) does not write.
    fn decode(body: &[u8]) -> Option<Self> {
        let (&kind, rest) = body.split_first()?;
        if kind == OPENED {
            let (&mode, path) = rest.split_first_chunk()?;
            let fits = path.len() <= NAMES_BYTES_MAX;
            return fits.then(|| Self::Opened { mode: u32::from_le_bytes(mode), path: path.to_vec() });
        }
        if kind == COVERS {
            return (rest.len() <= NAMES_BYTES_MAX).then(|| Self::Covers { path: rest.to_vec() });
        }
        let (&identity, rest) = rest.split_first_chunk()?;
        match kind {
            STARTED => {
                let (&size, rest) = rest.split_first_chunk()?;
                let (&temp_name_bytes, rest) = rest.split_first_chunk()?;
                let (temp_name, path) = rest.split_at_checked(u32::from_le_bytes(temp_name_bytes) as usize)?;
                let size = u64::from_le_bytes(size);
                Some(Self::Started { identity, temp_name: temp_name.to_vec(), path: path.to_vec(), size })
            }
            RANGE => {
                let (&start, rest) = rest.split_first_chunk()?;
                let &end = rest.as_array()?;
                Some(Self::Range { identity, start: u64::from_le_bytes(start), end: u64::from_le_bytes(end) })
            }
            MARKED => {
                let (&inode, rest) = rest.split_first_chunk()?;
                let (&seconds, rest) = rest.split_first_chunk()?;
                let &nanoseconds = rest.as_array()?;
                let mark = FileMark {
                    inode: u64::from_le_bytes(inode),
                    born_seconds: i64::from_le_bytes(seconds),
                    born_nanoseconds: u32::from_le_bytes(nanoseconds),
                };
                Some(Self::Marked { identity, mark })
            }
            DONE if rest.len() <= NAMES_BYTES_MAX => Some(Self::Done { identity, path: rest.to_vec() }),
            _ => None,
        }
    }
}

/// Appends a body, given in parts, behind its length and check.
fn frame(out: &mut Vec<u8>, parts: &[&[u8]]) {
    let start = out.len();
    out.extend_from_slice(&[0; FRAME_BYTES]);
    parts.iter().for_each(|part| out.extend_from_slice(part));
    let (front, body) = out[start..].split_at_mut(FRAME_BYTES);
    front[..4].copy_from_slice(&(body.len() as u32).to_le_bytes());
    front[4..].copy_from_slice(&check(body));
}

fn check(body: &[u8]) -> [u8; 4] {
    let hash =
        *blake3::Hasher::new().update(&(body.len() as u32).to_le_bytes()).update(body).finalize().as_bytes();
    [hash[0], hash[1], hash[2], hash[3]]
}

/// Returns the state after the entries of a journal, up to the first that is torn or corrupt.
pub(crate) fn replay(bytes: &[u8]) -> State {
    let mut replayer = Replayer::default();
    replayer.feed(bytes);
    replayer.state
}

/// Replays `bytes` for fuzzing, and returns the number of replayed entries.
///
/// # Panics
/// Panics if encoding and replaying the result gives another result.
pub fn replay_any(bytes: &[u8]) -> usize {
    let state = replay(bytes);
    let mut compact = MAGIC.to_vec();
    for entry in state.entries() {
        entry.encode_into(&mut compact).expect("names that were replayed fit an entry");
    }
    assert_eq!(compact.len() as u64, state.compact_bytes());
    assert_eq!(replay(&compact), state, "a compact journal says the same");
    state.done.len() + state.partial.len() + state.opened.len()
}

/// Builds a [`State`] from a journal that is fed in pieces.
#[derive(Debug, Default)]
pub(super) struct Replayer {
    pub(super) state: State,
    /// The estimated memory of the state; at most [`STATE_BYTES_MAX`].
    state_bytes: usize,
    /// The length of the intact part of the journal.
    pub(super) good_bytes: u64,
    /// Everything after `good_bytes` is ignored.
    pub(super) stopped: bool,
}

impl Replayer {
    /// Consumes whole entries from the front of `bytes`, which continue the bytes consumed before, and returns the
    /// number of consumed bytes.
    ///
    /// The rest is less than one entry: pass it again, with more bytes behind it. This holds unless `stopped` is set.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        if self.good_bytes == 0 && !self.stopped {
            let Some(front) = bytes.first_chunk() else { return 0 };
            if *front != MAGIC {
                self.stopped = true;
                return 0;
            }
            at = MAGIC.len();
        }
        while !self.stopped {
            let Some((&front, rest)) = bytes[at..].split_first_chunk::<FRAME_BYTES>() else { break };
            let [a, b, c, d, found @ ..] = front;
            let body_bytes = u32::from_le_bytes([a, b, c, d]) as usize;
            if body_bytes > BODY_BYTES_MAX {
                self.stopped = true;
                break;
            }
            let Some(body) = rest.get(..body_bytes) else { break };
            match Entry::decode(body) {
                Some(entry) if check(body) == found => self.apply(entry),
                _ => {
                    self.stopped = true;
                    break;
                }
            }
            at += FRAME_BYTES + body_bytes;
        }
        self.good_bytes += at as u64;
        at
    }

    fn apply(&mut self, entry: Entry) {
        match entry {
            Entry::Started { identity, temp_name, path, size } => {
                self.forget(&identity);
                let partial = Partial { temp_name, path, size, mark: None, ledger: Ledger::new(size) };
                if self.reserve(partial.cost_bytes()) {
                    self.state.partial.insert(identity, partial);
                }
            }
            Entry::Marked { identity, mark } => {
                if let Some(partial) = self.state.partial.get_mut(&identity) {
                    partial.mark = Some(mark);
                }
            }
            Entry::Range { identity, start, end } => {
                let has_room = self.state_bytes + RANGE_COST_BYTES <= STATE_BYTES_MAX;
                if let Some(partial) = self.state.partial.get_mut(&identity).filter(|_| has_room) {
                    self.state_bytes -= partial.cost_bytes();
                    // A range that the ledger refuses is sent again.
                    let _ = partial.ledger.add(start..end);
                    self.state_bytes += partial.cost_bytes();
                }
            }
            Entry::Done { identity, path } => {
                self.forget(&identity);
                if self.reserve(DONE_COST_BYTES + path.len()) {
                    self.state.done.insert(identity, path);
                }
            }
            Entry::Covers { path } => {
                let has_room = self.state.covers.len() < COVERED_MAX;
                if has_room
                    && !self.state.covers.contains(&path)
                    && self.reserve(DONE_COST_BYTES + path.len())
                {
                    self.state.covers.insert(path);
                }
            }
            Entry::Opened { mode, path } => {
                if self.state.opened.contains_key(&path) || self.reserve(DONE_COST_BYTES + path.len()) {
                    self.state.opened.insert(path, mode);
                }
            }
        }
    }

    fn forget(&mut self, identity: &Identity) {
        if let Some(path) = self.state.done.remove(identity) {
            self.state_bytes -= DONE_COST_BYTES + path.len();
        }
        if let Some(partial) = self.state.partial.remove(identity) {
            self.state_bytes -= partial.cost_bytes();
        }
    }

    fn reserve(&mut self, cost_bytes: usize) -> bool {
        let fits = self.state_bytes + cost_bytes <= STATE_BYTES_MAX;
        if fits {
            self.state_bytes += cost_bytes;
        }
        fits
    }
}

impl Partial {
    /// Returns the final path and the temporary name, if they make sense.
    pub(crate) fn names(&self) -> Option<(RelativePath, TempName)> {
        Some((RelativePath::new(&self.path).ok()?, TempName::parse(&self.temp_name)?))
    }

    /// Removes the unfinished file, unless it has become another entry.
    pub(crate) fn discard(&self, writer: &mut Writer) {
        if let Some((path, temp)) = self.names() {
            // A file that cannot be removed only occupies space.
            let _ = writer.discard(&path, &temp);
        }
    }

    fn cost_bytes(&self) -> usize {
        let names_bytes = self.temp_name.len() + self.path.len();
        PARTIAL_COST_BYTES + names_bytes + self.ledger.range_count() * RANGE_COST_BYTES
    }
}

impl State {
    /// Returns the smallest set of entries that gives this state.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        let partial = self.partial.iter().flat_map(|(&identity, partial)| {
            let Partial { temp_name, path, size, mark, ledger } = partial;
            let started =
                Entry::Started { identity, temp_name: temp_name.clone(), path: path.clone(), size: *size };
            let ranges = ledger.ranges().map(move |range| Entry::Range {
                identity,
                start: range.start,
                end: range.end,
            });
            let marked = mark.map(|mark| Entry::Marked { identity, mark });
            std::iter::once(started).chain(marked).chain(ranges)
        });
        let done = self.done.iter().map(|(&identity, path)| Entry::Done { identity, path: path.clone() });
        let opened = self.opened.iter().map(|(path, &mode)| Entry::Opened { mode, path: path.clone() });
        let covers = self.covers.iter().map(|path| Entry::Covers { path: path.clone() });
        covers.chain(partial).chain(done).chain(opened)
    }

    /// Returns the number of bytes of a journal that holds [`entries`](Self::entries).
    pub(super) fn compact_bytes(&self) -> u64 {
        const RANGE_BYTES: usize = FRAME_BYTES + 1 + 16 + 16;
        let partial = self.partial.values().map(|partial| {
            let names_bytes = partial.temp_name.len() + partial.path.len();
            let marked_bytes = partial.mark.map_or(0, |_| FRAME_BYTES + MARKED_BYTES);
            let ranges_bytes = partial.ledger.range_count() * RANGE_BYTES;
            FRAME_BYTES + STARTED_BYTES + names_bytes + marked_bytes + ranges_bytes
        });
        let done = self.done.values().map(|path| FRAME_BYTES + DONE_BYTES + path.len());
        let opened = self.opened.keys().map(|path| FRAME_BYTES + OPENED_BYTES + path.len());
        let covers = self.covers.iter().map(|path| FRAME_BYTES + COVERS_BYTES + path.len());
        let all =
            done.sum::<usize>() + partial.sum::<usize>() + opened.sum::<usize>() + covers.sum::<usize>();
        (MAGIC.len() + all) as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn identity() -> impl Strategy<Value = Identity> {
        // There are few identities, so that entries meet.
        (0_u8..6).prop_map(|number| [number; 16])
    }

    fn entry() -> impl Strategy<Value = Entry> {
        let name = || prop::collection::vec(any::<u8>(), 0..20);
        prop_oneof![
            2 => (identity(), name(), name(), 0_u64..1000).prop_map(|(identity, temp_name, path, size)| {
                Entry::Started { identity, temp_name, path, size }
            }),
            2 => (identity(), any::<(u64, i64, u32)>()).prop_map(|(identity, mark)| {
                let (inode, born_seconds, born_nanoseconds) = mark;
                Entry::Marked { identity, mark: FileMark { inode, born_seconds, born_nanoseconds } }
            }),
            6 => (identity(), 0_u64..1000, 0_u64..200).prop_map(|(identity, start, len)| {
                Entry::Range { identity, start, end: start + len }
            }),
            1 => (identity(), name()).prop_map(|(identity, path)| Entry::Done { identity, path }),
            1 => name().prop_map(|path| Entry::Covers { path }),
            1 => (0_u32..0o10000, prop::collection::vec(0_u8..2, 0..3))
                .prop_map(|(mode, path)| Entry::Opened { mode, path }),
        ]
    }

    fn encode(entries: &[Entry]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        entries.iter().for_each(|entry| entry.encode_into(&mut bytes).unwrap());
        bytes
    }

    /// Returns the state from an obvious model: each identity by itself, from the last entry that settled it.
    fn model(entries: &[Entry]) -> State {
        let mut state = State::default();
        for number in 0..6 {
            let me = [number; 16];
            let own = entries.iter().filter(|entry| match entry {
                Entry::Started { identity, .. }
                | Entry::Marked { identity, .. }
                | Entry::Range { identity, .. }
                | Entry::Done { identity, .. } => *identity == me,
                Entry::Opened { .. } | Entry::Covers { .. } => false,
            });
            let own: Vec<_> = own.collect();
            let settles = |entry: &&Entry| !matches!(entry, Entry::Marked { .. } | Entry::Range { .. });
            let Some(last) = own.iter().rposition(settles) else {
                continue;
            };
            let (temp_name, path, size) = match own[last] {
                Entry::Started { temp_name, path, size, .. } => (temp_name, path, size),
                Entry::Done { path, .. } => {
                    state.done.insert(me, path.clone());
                    continue;
                }
                _ => unreachable!(),
            };
            let (mut ledger, mut mark) = (Ledger::new(*size), None);
            for entry in &own[last + 1..] {
                match entry {
                    Entry::Range { start, end, .. } if end <= size => {
                        ledger.add(*start..*end).unwrap();
                    }
                    Entry::Marked { mark: found, .. } => mark = Some(*found),
                    _ => {}
                }
            }
            let (temp_name, path, size) = (temp_name.clone(), path.clone(), *size);
            state.partial.insert(me, Partial { temp_name, path, size, mark, ledger });
        }
        let opened = entries.iter().filter_map(|entry| match entry {
            Entry::Opened { mode, path } => Some((path.clone(), *mode)),
            _ => None,
        });
        state.opened = opened.collect();
        let covers = entries.iter().filter_map(|entry| match entry {
            Entry::Covers { path } => Some(path.clone()),
            _ => None,
        });
        state.covers = covers.collect();
        state
    }

    proptest! {
        #[test]
        fn replaying_gives_what_was_written(entries in prop::collection::vec(entry(), 0..60)) {
            let bytes = encode(&entries);
            prop_assert_eq!(replay(&bytes), model(&entries));
            replay_any(&bytes);
        }

        #[test]
        fn a_cut_anywhere_leaves_the_entries_before_it(entries in prop::collection::vec(entry(), 1..20), cut: prop::sample::Index) {
            let bytes = encode(&entries);
            let cut = cut.index(bytes.len());
            let whole = (0..=entries.len()).rev().find(|&count| encode(&entries[..count]).len() <= cut).unwrap_or(0);
            prop_assert_eq!(replay(&bytes[..cut]), model(&entries[..whole]));
        }

        #[test]
        fn a_flipped_bit_hides_its_entry_and_what_follows(
            entries in prop::collection::vec(entry(), 1..20),
            at: prop::sample::Index,
            bit in 0_u32..8,
        ) {
            let mut bytes = encode(&entries);
            let at = at.index(bytes.len());
            let whole = (0..=entries.len()).rev().find(|&count| encode(&entries[..count]).len() <= at).unwrap_or(0);
            bytes[at] ^= 1_u8 << bit;
            prop_assert_eq!(replay(&bytes), model(&entries[..whole]));
        }

        #[test]
        fn pieces_give_the_same_as_the_whole(entries in prop::collection::vec(entry(), 0..30), piece in 1_usize..100) {
            let bytes = encode(&entries);
            let (mut replayer, mut rest) = (Replayer::default(), Vec::new());
            for piece in bytes.chunks(piece) {
                rest.extend_from_slice(piece);
                let taken = replayer.feed(&rest);
                rest.drain(..taken);
            }
            prop_assert!(rest.is_empty() && !replayer.stopped);
            prop_assert_eq!(replayer.good_bytes, bytes.len() as u64);
            prop_assert_eq!(replayer.state, model(&entries));
        }

        #[test]
        fn any_bytes_replay(noise in prop::collection::vec(any::<u8>(), 0..300), with_magic: bool) {
            let mut bytes = if with_magic { MAGIC.to_vec() } else { Vec::new() };
            bytes.extend(noise);
            replay_any(&bytes);
        }

        /// Generates arbitrary bodies with correct checks, as only we or a forger would write them.
        #[test]
        fn any_bodies_replay(bodies in prop::collection::vec((0_u8..7, prop::collection::vec(any::<u8>(), 0..60)), 0..20)) {
            let mut bytes = MAGIC.to_vec();
            bodies.iter().for_each(|(kind, body)| frame(&mut bytes, &[&[*kind], body]));
            replay_any(&bytes);
        }
    }

    #[test]
    fn zeros_are_no_entries() {
        // The zeros that a crashed kernel leaves in place of data that was not written back.
        let mut bytes = encode(&[Entry::Done { identity: [1; 16], path: b"a".to_vec() }]);
        let good = bytes.len() as u64;
        bytes.extend([0; 100]);
        let mut replayer = Replayer::default();
        replayer.feed(&bytes);
        assert_eq!((replayer.good_bytes, replayer.stopped), (good, true));
        assert_eq!(replayer.state.done[&[1; 16]], b"a");
    }

    #[test]
    fn names_have_a_bound() {
        let started = |bytes| Entry::Started {
            identity: [1; 16],
            temp_name: vec![b't'; 100],
            path: vec![b'p'; bytes],
            size: 3,
        };
        let longest = encode(&[started(NAMES_BYTES_MAX - 100)]);
        assert_eq!(replay(&longest).partial[&[1; 16]].path.len(), NAMES_BYTES_MAX - 100);
        let mut out = Vec::new();
        let refusal = started(NAMES_BYTES_MAX - 99).encode_into(&mut out);
        assert!(matches!(refusal, Err(JournalError::NamesTooLong { bytes }) if bytes == NAMES_BYTES_MAX + 1));
        let done = |bytes| Entry::Done { identity: [1; 16], path: vec![b'p'; bytes] };
        assert!(done(NAMES_BYTES_MAX + 1).encode_into(&mut out).is_err());
        assert!(out.is_empty());
        assert_eq!(replay(&encode(&[done(NAMES_BYTES_MAX)])).done[&[1; 16]].len(), NAMES_BYTES_MAX);
    }

    #[test]
    fn the_state_has_a_bound() {
        let mut replayer = Replayer::default();
        let names = vec![b'n'; NAMES_BYTES_MAX / 2];
        for number in 0..3000_u32 {
            let mut identity = [0; 16];
            identity[..4].copy_from_slice(&number.to_le_bytes());
            let (temp_name, path) = (names.clone(), names.clone());
            replayer.apply(Entry::Started { identity, temp_name, path, size: 10 });
        }
        let kept = replayer.state.partial.len();
        assert!((1500..2500).contains(&kept), "{kept}");
        assert!(replayer.state_bytes <= STATE_BYTES_MAX);
        // Finishing one makes room, and the estimate returns to zero.
        let identities: Vec<_> = replayer.state.partial.keys().copied().collect();
        for identity in identities {
            replayer.apply(Entry::Range { identity, start: 2, end: 4 });
            replayer.apply(Entry::Range { identity, start: 3, end: 5 });
            replayer.apply(Entry::Done { identity, path: b"path".to_vec() });
        }
        assert_eq!(replayer.state_bytes, kept * (DONE_COST_BYTES + 4));
        assert_eq!(replayer.state.done.len(), kept);
    }
}
