//! Unfinished large files at a receiving end: their names, their beginning, and what an earlier run has left of them.
//!
//! Guarantees: the name of an unfinished file is random and known to one journal alone, so two runs never write one
//! file, unless both were asked to write ranges of it; what an earlier run has left counts only where the sender
//! confirms it.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    ops::Range,
    sync::atomic::Ordering::Relaxed,
    thread,
    time::{Duration, Instant},
};

use sealane_tree::{Division, PartFile, RelativePath, TempName, Writer};

use super::{Destination, Files, ReceiveFile};
use crate::{error::Error, journal::Partial, ledger::Ledger, options::Piece, proto::entry::Entry};

/// The time to wait until other transfers have ended that write ranges of a file.
const RANGES_PATIENCE: Duration = Duration::from_secs(3);

impl Files {
    /// Removes the files of a complete transfer that an earlier run began and this one did not continue, because they
    /// are no longer sent or another of their names came first.
    pub(crate) fn discard_abandoned(&self) {
        let Destination::Tree { target, .. } = &self.destination else { return };
        let mut writer = target.writer();
        self.resumable.partial.values().for_each(|partial| partial.discard(&mut writer));
    }

    /// Returns the temporary name of a large file: the one that the journal knows, or a new one, which no other run
    /// knows.
    pub(super) fn temp_for(&self, known: Option<&Partial>) -> TempName {
        let known = known.and_then(|known| TempName::parse(&known.temp_name));
        known.unwrap_or_else(|| TempName::new(self.next_part.fetch_add(1, Relaxed)))
    }

    pub(super) fn begin(
        &self,
        writer: &mut Writer,
        entry: &Entry,
        growing: bool,
        temp: &TempName,
        division: Option<(Division, Piece)>,
    ) -> sealane_tree::Result<PartFile> {
        if let Some((division, piece)) = division {
            return begin_piece(writer, entry, division, piece);
        }
        if growing {
            return writer.begin_growing_file(&entry.path);
        }
        let temp = self.journal.is_some().then_some(temp);
        writer.begin_file(&entry.path, &entry.metadata, temp)
    }

    /// Counts everything that this end claims to have of a file, where no sender could compare it.
    pub(crate) fn keep_all(&self, file: &ReceiveFile) -> Result<(), Error> {
        let known = self.resumable.partial.get(&file.identity);
        known.into_iter().flat_map(|known| known.ledger.ranges()).try_for_each(|range| self.keep(file, range))
    }

    /// Counts a range of which the sender says that it is as this end claims.
    ///
    /// # Errors
    /// Fails if this end claims no such thing.
    pub(in crate::receive) fn keep(&self, file: &ReceiveFile, range: Range<u64>) -> Result<(), Error> {
        let is_known =
            self.resumable.partial.get(&file.identity).is_some_and(|known| known.ledger.covers(&range));
        if !is_known || self.intake.verify_digests {
            return Err(Error::protocol("the sender leaves out what this end does not claim to have"));
        }
        match file.is_claimed {
            true => {
                let kept = file.state().ledger.add(range);
                kept.map(drop).map_err(|error| Error::protocol(error.to_string()))
            }
            // Somebody has removed or replaced it since it was read.
            false => self.write_failed(file, sealane_tree::Error::Busy { path: (&file.entry.path).into() }),
        }
    }

    /// Returns the part of the file that is copied, if it is not the whole.
    pub(super) fn division(&self, entry: &Entry, growing: bool) -> Result<Option<(Division, Piece)>, Error> {
        let Some(portion) = self.intake.treatment.portion else { return Ok(None) };
        let division = Division::new(entry.metadata.size_bytes, portion.range_bytes);
        let is_within = |division: &Division| match portion.piece {
            Piece::Range(index) => division.range(index).is_some(),
            Piece::Name => true,
        };
        match division.filter(is_within) {
            Some(division) if !growing && entry.identity() == portion.identity => {
                Ok(Some((division, portion.piece)))
            }
            _ => Err(Error::protocol("the sender sends a part of another file than was asked for")),
        }
    }

    /// Removes the ranges that other transfers have written of a file, which has its name now or will be copied as a
    /// whole.
    pub(crate) fn discard_ranges(&self) {
        let (Some(portion), Destination::Tree { target, .. }) =
            (self.intake.treatment.portion, &self.destination)
        else {
            return;
        };
        if portion.piece != Piece::Name {
            return;
        }
        let mut writer = target.writer();
        for path in self.intake.permit.names().into_iter().flatten() {
            if let Ok(path) = RelativePath::new(path) {
                // A file that cannot be removed only occupies space.
                let _ = writer.discard(&path, &range_name(portion.identity));
            }
        }
    }
}

/// Begins a part of a file that other transfers write as well.
fn begin_piece(
    writer: &mut Writer,
    entry: &Entry,
    division: Division,
    piece: Piece,
) -> sealane_tree::Result<PartFile> {
    let temp = range_name(entry.identity());
    let give_up = Instant::now() + RANGES_PATIENCE;
    loop {
        let begun = match piece {
            Piece::Range(index) => writer.begin_range(&entry.path, &temp, division, index),
            Piece::Name => writer.gather_ranges(&entry.path, &temp, division),
        };
        match begun {
            // The far end of a mover that was killed a moment ago may not have ended yet.
            Err(sealane_tree::Error::Busy { .. }) if Instant::now() < give_up => {
                thread::sleep(Duration::from_millis(20));
            }
            begun => return begun,
        }
    }
}

/// Adds the bytes that other transfers write to a ledger.
pub(super) fn others(mut ledger: Ledger, division: Division, piece: Piece) -> Result<Ledger, Error> {
    let size = division.size_bytes();
    let own = match piece {
        Piece::Range(index) => division.range(index).unwrap_or_default(),
        Piece::Name => size..size,
    };
    for range in [0..own.start, own.end..size] {
        ledger.add(range).map_err(|error| Error::protocol(error.to_string()))?;
    }
    Ok(ledger)
}

/// Returns the name of an unfinished file that several transfers write together: it follows from the file.
fn range_name(identity: [u8; 16]) -> TempName {
    let [a, b, c, d, e, f, g, h, ..] = identity;
    TempName::new(u64::from_le_bytes([a, b, c, d, e, f, g, h]))
}

/// Returns whether a part is the file of which the journal tells.
pub(super) fn is_claimed(known: &Partial, part: &PartFile) -> bool {
    part.resumed_bytes() == Some(known.size) && known.mark.is_some() && part.mark().ok() == known.mark
}

/// Returns a number that nobody foresees.
pub(super) fn random_number() -> u64 {
    RandomState::new().build_hasher().finish()
}
