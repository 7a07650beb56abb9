//! The reading half of a sending stream: the receiver's records, which contain the number of records that it has
//! taken over.
//!
//! Guarantees: a count is accepted only if it was sealed under the opening's key, in order; no more than a few
//! records are held.

use sealane_engine::{Buffer, Direction, Software, Work, record::Record};
use sealane_stack::Association;

use crate::{
    line::LineError,
    proto::record::{HEADER_BYTES, Header, Kind},
};

const ACKNOWLEDGEMENT_BYTES: usize = 4096;

/// The reader, reused for each opening.
#[derive(Debug)]
pub(crate) struct Acknowledgements {
    association: Option<Association>,
    /// Its buffer holds the received bytes, whose first record is opened in place.
    work: Work,
    filled: usize,
    /// Opening an acknowledgement here costs less than a job of an engine.
    software: Software,
}

impl Acknowledgements {
    pub(crate) fn new() -> Self {
        let buffer = Buffer::new(ACKNOWLEDGEMENT_BYTES);
        let work = Work { buffer, direction: Direction::Open, ..Work::default() };
        Self { association: None, work, filled: 0, software: Software::default() }
    }

    pub(crate) fn open(&mut self, association: Association) {
        self.association = Some(association);
        self.filled = 0;
    }

    /// Returns the place of the next bytes. It is never empty: whole records are removed, and no record is as long as
    /// the buffer.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.work.buffer.bytes_mut()[self.filled..]
    }

    /// Takes `received` more bytes and returns the latest count among the complete records, if any.
    pub(crate) fn take(&mut self, stream: u16, received: usize) -> Result<Option<u64>, LineError> {
        let Some(association) = &mut self.association else { return Ok(None) };
        self.filled += received;
        let mut latest = None;
        while let Some(header) = self.work.buffer.bytes()[..self.filled].first_chunk::<HEADER_BYTES>() {
            let header =
                Header::decode(header).map_err(|error| LineError::forged(stream, &error.to_string()))?;
            if header.kind != Kind::Acknowledge || header.body_bytes > 64 {
                return Err(LineError::forged(stream, "a record that is no acknowledgement"));
            }
            let record_bytes = HEADER_BYTES + header.body_bytes;
            if self.filled < record_bytes {
                break;
            }
            let claim = association.claim(1);
            let (body_bytes, sequence) = (header.body_bytes, claim.first_sequence);
            let record = Record { offset: 0, header_bytes: HEADER_BYTES, body_bytes, sequence };
            self.work.jobs.clear();
            self.work.sessions.clear();
            let is_laid = claim.session.lay(&mut self.work, &record).is_ok();
            self.software.run(&mut self.work);
            if !is_laid || association.suite().opened(&self.work, 0, &record).is_none() {
                return Err(LineError::forged(stream, "an acknowledgement that is not authentic"));
            }
            latest = Some(header.offset);
            self.work.buffer.bytes_mut().copy_within(record_bytes..self.filled, 0);
            self.filled -= record_bytes;
        }
        Ok(latest)
    }
}
