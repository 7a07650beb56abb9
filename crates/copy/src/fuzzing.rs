//! Entry points for the fuzz targets, which live in another workspace: private code that parses bytes of a transfer's
//! far end.

use std::{os::fd::AsFd, path::Path, sync::Arc};

use sealane_engine::record::Association;
use sealane_tree::{Target, TargetOptions};

use crate::{
    error::Error,
    journal::{Journal, State},
    line::LineError,
    proto::record::Header,
    receive::{
        apply::Applier,
        files::{Destination, Files, Intake, Treatment},
        permit::{ITSELF, Permit},
    },
    send::acknowledgements::Acknowledgements,
    shared::Stop,
    summary::Notice,
    transfer::ends::check_presence,
};

fn failure(error: LineError) -> Error {
    match error {
        LineError::Fatal(error) => error,
        LineError::Cut | LineError::Stalled => Error::protocol("the stream was cut off"),
    }
}

/// The bytes that a sending end reads.
#[derive(Debug)]
pub struct SendingEnd(Acknowledgements);

impl SendingEnd {
    /// `keys` open the receiver's records.
    pub fn new(keys: Association) -> Self {
        let mut acknowledgements = Acknowledgements::new();
        acknowledgements.open(keys, None);
        Self(acknowledgements)
    }

    /// Consumes the front of the received bytes. Returns the number of consumed bytes, and the latest count among the
    /// complete records.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(usize, Option<u64>), Error> {
        let room = self.0.room();
        let taken = room.len().min(bytes.len());
        room[..taken].copy_from_slice(&bytes[..taken]);
        Ok((taken, self.0.take(0, taken).map_err(failure)?))
    }
}

/// The handling of opened records at a receiving end.
#[derive(Debug)]
pub struct ReceivingEnd {
    files: Files,
    stop: Stop,
    /// The channel is not read, but must stay open.
    _notices: crossbeam_channel::Receiver<Notice>,
}

/// A lane of the receiving end.
#[derive(Debug)]
pub struct ReceivingLane<'a>(Applier<'a>);

impl ReceivingEnd {
    /// Receives into `root` the entries below `names`, or all entries. With a journal, it continues where the last
    /// transfer with a journal stopped.
    pub fn new(
        root: &Path,
        names: Option<&[&[u8]]>,
        with_journal: bool,
        verify_digests: bool,
    ) -> Result<Self, Error> {
        let options = TargetOptions { resumable_as: with_journal.then_some(7), ..TargetOptions::default() };
        let target = Target::open(root, options)?;
        let mut journal = None;
        let mut resumable = State::default();
        if with_journal {
            let opened = Journal::open(target.open_root()?.as_fd(), [7; 16], &[]);
            let (opened, mut state) = opened.map_err(|error| Error::io("cannot keep a journal", &error))?;
            check_presence(&target, &mut state);
            journal = Some(opened);
            resumable = state;
        }
        let permit = match names {
            Some(names) => Permit::new(None, names.iter().copied(), true, true),
            None => Permit::new(Some(ITSELF), [], true, true),
        };
        let intake = Intake {
            permit,
            treatment: Treatment { digest: verify_digests, ..Treatment::default() },
            verify_digests,
            compressed: true,
            open_max: 64,
        };
        let destination = Destination::Tree { target, sole: None, shown: root.to_owned() };
        let (notices, kept) = crossbeam_channel::unbounded();
        let files = Files::new(destination, intake, journal, resumable, notices, Arc::default());
        Ok(Self { files, stop: Stop::new(), _notices: kept })
    }

    /// Returns a lane that takes batches of records.
    pub fn lane(&self) -> ReceivingLane<'_> {
        ReceivingLane(Applier::new(&self.files, &self.stop))
    }

    /// A lane has failed.
    pub fn poison(&self) {
        self.files.poison();
    }

    /// The transfer fails. With a journal, the next transfer can continue.
    pub fn give_up(self) {
        let goes_on = self.files.journal.is_some();
        self.files.close_all(!goes_on);
        if goes_on {
            self.files.restore_modes();
        } else {
            self.files.abandon_folders();
        }
    }
}

impl ReceivingLane<'_> {
    /// Writes records to their places. Returns the bytes of content.
    pub fn put(&mut self, records: &[(&Header, &[u8])]) -> Result<u64, Error> {
        self.0.put(records)
    }
}
