//! The claims of a receiver: what its journal says of unfinished files, read again before it counts.
//!
//! Guarantees: a piece is claimed only if the file under the temporary name is the very one that the journal's run made,
//! and every byte of the piece could be read just now; unless the user trusts the journal, the claim carries the hash of
//! what was read, and the sender compares it with the source. What is not claimed is sent again. The number of claims
//! is bounded ([`PIECES_MAX`]).

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use sealane_tree::{OpenFile, Target, Writer};

use crate::{
    content::spread,
    digest::{GROUP_BYTES, hash_piece},
    error::Error,
    journal::{Identity, Partial as Journaled, State as JournalState},
    ledger::Ledger,
    proto::message::{Checked, Have, Message, PIECES_PER_MESSAGE, Partial, Piece},
    receive::files::Files,
};

/// The length of a piece: whole groups of the digest, and few enough hashes for the longest file.
pub(crate) const PIECE_BYTES: u64 = 16 << 20;
/// The maximum number of pieces that a receiver claims of its partial files, and that a sender keeps.
pub(crate) const PIECES_MAX: usize = 1 << 20;

/// How claims are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// The number of threads that read.
    pub(crate) threads: u16,
    /// The journal counts without reading.
    pub(crate) trust: bool,
}

/// Opens an unfinished file of a journal, if it is the one that the journal's run made.
pub(crate) fn open(writer: &mut Writer, partial: &Journaled) -> Option<OpenFile> {
    let (path, temp) = partial.names()?;
    let (file, found) = writer.read_unfinished(&path, &temp)?;
    (Some(found) == partial.mark && file.metadata().size_bytes == partial.size).then_some(file)
}

/// The time that a write may take longer than its entry in the journal.
const WRITE_SECONDS: i64 = 2;

/// Keeps only those unfinished files that nobody has changed since the journal was written: for a receiver whose sender
/// cannot compare. What is kept is what the journal says.
pub(crate) fn keep_unaltered(files: &mut Files, trust: bool) {
    let (Some(mut writer), Some(journal), false) = (files.writer(), &files.journal, trust) else { return };
    let last_written = journal.last_written();
    files.resumable.partial.retain(|_, partial| {
        let changed = open(&mut writer, partial).map(|file| file.changed());
        let is_kept = changed.is_some_and(|changed| changed.seconds <= last_written.seconds + WRITE_SECONDS);
        if !is_kept {
            partial.discard(&mut writer);
        }
        is_kept
    });
}

/// Returns the pieces of a file whose groups are all written.
pub(crate) fn pieces(partial: &Journaled) -> Vec<(u64, u64)> {
    let mut pieces = Vec::new();
    let group = GROUP_BYTES as u64;
    for range in partial.ledger.ranges() {
        // A group that is covered in part is sent again.
        let mut start = range.start.div_ceil(group) * group;
        let last = if range.end == partial.size { range.end } else { range.end / group * group };
        while start < last {
            let end = last.min((start / PIECE_BYTES + 1) * PIECE_BYTES);
            pieces.push((start, end));
            start = end;
        }
    }
    pieces
}

/// Reads a piece, and returns its hash; `None` if it cannot be read, or if it is over.
fn read(
    file: &OpenFile,
    start: u64,
    end: u64,
    size: u64,
    count: &AtomicU64,
    is_over: &AtomicBool,
) -> Option<[u8; 32]> {
    let fill = |at, group: &mut [u8]| {
        let is_whole = !is_over.load(Relaxed) && file.read_at(at, group).map_err(drop)? == group.len();
        count.fetch_add(group.len() as u64, Relaxed);
        if is_whole { Ok(()) } else { Err(()) }
    };
    hash_piece(start..end, size, fill, |_| Ok(())).ok()
}

/// Tells the sender what the journal's unfinished files hold, after reading it; the ledgers of `state` are what was told
/// afterwards.
pub(crate) fn tell(
    target: Option<&Target>,
    state: &mut JournalState,
    rules: Rules,
    mut tell: impl FnMut(Message) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut writer = target.map(Target::writer);
    let mut files: Vec<(Identity, u64, OpenFile)> = Vec::new();
    let mut work: Vec<(usize, u64, u64)> = Vec::new();
    for (&identity, partial) in &state.partial {
        let Some(file) = writer.as_mut().and_then(|writer| open(writer, partial)) else { continue };
        let room = PIECES_MAX.saturating_sub(work.len());
        let index = files.len();
        work.extend(pieces(partial).into_iter().take(room).map(|(start, end)| (index, start, end)));
        files.push((identity, partial.size, file));
    }
    for partial in state.partial.values_mut() {
        partial.ledger = Ledger::new(partial.size);
    }
    let mut hashes: HashMap<(usize, u64), [u8; 32]> = HashMap::new();
    if !rules.trust && !work.is_empty() {
        let of_bytes = work.iter().map(|(_, start, end)| end - start).sum();
        let count = AtomicU64::new(0);
        let one = |(): &mut (), number: usize, is_over: &AtomicBool| {
            let &(index, start, end) = work.get(number)?;
            let (_, size, file) = &files[index];
            Some(((index, start), read(file, start, end, *size, &count, is_over)?))
        };
        let checked = || Checked { bytes: count.load(Relaxed), of_bytes };
        tell(Message::Have(Have { checked: checked(), ..Have::default() }))?;
        let found = spread(
            rules.threads,
            work.len(),
            || (),
            one,
            || tell(Message::Have(Have { checked: checked(), ..Have::default() })),
        )?;
        hashes.extend(found);
        tell(Message::Have(Have { checked: Checked { bytes: of_bytes, of_bytes }, ..Have::default() }))?;
    }
    let mut have: Vec<Partial> = Vec::new();
    let mut told = 0;
    for (index, start, end) in work {
        let hash = hashes.get(&(index, start)).copied();
        if hash.is_none() && !rules.trust {
            continue;
        }
        let (identity, ..) = files[index];
        if let Some(partial) = state.partial.get_mut(&identity) {
            let added = partial.ledger.add(start..end);
            added.map_err(|error| Error::protocol(error.to_string()))?;
        }
        if have.last().is_none_or(|last| last.identity != identity) {
            have.push(Partial { identity, pieces: Vec::new() });
        }
        if let Some(last) = have.last_mut() {
            last.pieces.push(Piece { start, end, hash });
        }
        told += 1;
        if told >= PIECES_PER_MESSAGE {
            told = 0;
            tell(Message::Have(Have { partial: std::mem::take(&mut have), ..Have::default() }))?;
        }
    }
    tell(Message::Have(Have { partial: have, ..Have::default() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journaled(size: u64, ranges: &[(u64, u64)]) -> Journaled {
        let mut ledger = Ledger::new(size);
        for &(start, end) in ranges {
            ledger.add(start..end).unwrap();
        }
        Journaled { temp_name: Vec::new(), path: b"x".to_vec(), size, mark: None, ledger }
    }

    #[test]
    fn pieces_are_whole_groups_of_bounded_length() {
        const GROUP: u64 = GROUP_BYTES as u64;
        let size = 3 * PIECE_BYTES + 100;
        assert_eq!(pieces(&journaled(size, &[(1, GROUP - 1)])), []);
        assert_eq!(pieces(&journaled(size, &[(1, 3 * GROUP + 5)])), [(GROUP, 3 * GROUP)]);
        let ends = [0, PIECE_BYTES, 2 * PIECE_BYTES, 3 * PIECE_BYTES, size];
        let all: Vec<_> = ends.windows(2).map(|pair| (pair[0], pair[1])).collect();
        assert_eq!(pieces(&journaled(size, &[(0, size)])), all);
        let (start, end) = (PIECE_BYTES - GROUP, PIECE_BYTES + GROUP);
        assert_eq!(pieces(&journaled(size, &[(start, end)])), [(start, PIECE_BYTES), (PIECE_BYTES, end)]);
    }
}
