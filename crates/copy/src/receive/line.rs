//! The two halves of a receiving stream's connection as values: [`Inbound`] takes bytes and gives whole records,
//! [`Outbound`] takes counts and gives the bytes that tell the sender of them. They have no socket and no clock.
//!
//! Guarantees: records come out whole, in the order of the stream, each with its number under the opening's key; a buffer
//! at most is held for what has not arrived in full; what is told was taken over, with all that came before it.

use sealane_engine::{
    Buffer, Direction, Suite, Work,
    record::{LayError, Record},
};
use sealane_stack::{Association, Claim, Pool};

use crate::{
    line::LineError,
    proto::record::{DATA_BYTES_MAX, HEADER_BYTES, Header, Kind, seal, split_records},
};

/// Records after which an acknowledgement is due; an idle stream is acknowledged at once.
const RECORDS_PER_ACKNOWLEDGEMENT: u64 = 32;

/// Whole records.
#[derive(Debug)]
pub(crate) struct Arrived {
    suite: Suite,
    /// The buffer that they are in, and, once they are laid, their jobs.
    pub(crate) work: Work,
    pub(crate) headers: Vec<Header>,
    pub(crate) records: Vec<Record>,
    /// Their numbers and keys, in order.
    claims: Vec<Claim>,
}

impl Arrived {
    /// Lays the records' jobs into `work`, and the buffer with them, for an engine to open.
    pub(crate) fn lay(&mut self, mut work: Work) -> Result<Work, LayError> {
        work.direction = Direction::Open;
        let sessions = self.claims.iter().flat_map(Claim::numbers).map(|(_, session)| session);
        std::mem::swap(&mut work.buffer, &mut self.work.buffer);
        for (record, session) in self.records.iter().zip(sessions) {
            if let Err(error) = session.lay(&mut work, record) {
                std::mem::swap(&mut work.buffer, &mut self.work.buffer);
                return Err(error);
            }
        }
        Ok(work)
    }

    /// The work without its buffer, for the memory of its jobs: the records have been read. Keys are not kept beyond
    /// them.
    pub(crate) fn reclaim(&mut self) -> Work {
        let mut work = std::mem::take(&mut self.work);
        std::mem::swap(&mut work.buffer, &mut self.work.buffer);
        work.jobs.clear();
        work.sessions.clear();
        work
    }

    /// Returns the header and the plain body of each record, once an engine has run its job; no body of what is not
    /// genuine.
    pub(crate) fn opened(&self) -> impl Iterator<Item = (&Header, Option<&[u8]>)> {
        let places = self.headers.iter().zip(&self.records).enumerate();
        places.map(|(place, (header, record))| (header, self.suite.opened(&self.work, place, record)))
    }
}

/// What arrives, up to where it is numbered.
#[derive(Debug, Default)]
pub(crate) struct Inbound {
    /// `None` while there is no connection.
    association: Option<Association>,
    /// Holds the beginning of a record that has not arrived in full.
    buffer: Option<Buffer>,
    filled: usize,
}

impl Inbound {
    /// A fresh connection, whose records come under these keys.
    pub(crate) fn open(&mut self, keys: Association) {
        self.association = Some(keys);
    }

    /// The connection is gone. Returns its buffer.
    pub(crate) fn cut(&mut self) -> Option<Buffer> {
        self.association = None;
        self.filled = 0;
        self.buffer.take()
    }

    /// Where the next bytes go; `None` where there is no room for any.
    pub(crate) fn room(&mut self, pool: &Pool) -> Option<&mut [u8]> {
        if self.buffer.is_none() {
            self.buffer = pool.take();
        }
        let room = &mut self.buffer.as_mut()?.bytes_mut()[self.filled..];
        (!room.is_empty()).then_some(room)
    }

    /// So many have arrived there.
    pub(crate) fn received(&mut self, bytes: usize) {
        self.filled += bytes;
    }

    /// What a stream that has filled its buffer lets a lane sleep for: every waking costs a context switch, and on another
    /// core an interrupt.
    pub(crate) fn bulk_bytes(&self) -> Option<usize> {
        let capacity = self.buffer.as_ref()?.capacity_bytes();
        (self.filled == capacity).then_some(capacity / DATA_BYTES_MAX * DATA_BYTES_MAX)
    }

    /// Returns whether a record is whole, and waits to be taken.
    pub(crate) fn holds_records(&self) -> bool {
        let Some(buffer) = &self.buffer else { return false };
        let mut found = Vec::new();
        split_records(&buffer.bytes()[..self.filled], &mut found).is_ok() && !found.is_empty()
    }

    /// Returns the records that are whole, and the number after the last of them. `None` when there are none, or no
    /// buffer is left for what comes behind them.
    ///
    /// # Errors
    /// What should be a header is none.
    pub(crate) fn take(&mut self, stream: u16, pool: &Pool) -> Result<Option<(Arrived, u64)>, LineError> {
        let (Some(association), Some(buffer)) = (&mut self.association, &self.buffer) else {
            return Ok(None);
        };
        let mut found = Vec::with_capacity(16);
        let split = split_records(&buffer.bytes()[..self.filled], &mut found);
        let whole = split.map_err(|error| LineError::forged(stream, &error.to_string()))?;
        let tail = whole..self.filled;
        let mut next = None;
        if !tail.is_empty() && !found.is_empty() {
            // The tail goes to the front of another buffer, so that the next lane can read on. Without one nothing is
            // lost: the records wait in this one until another lane gives one back.
            let Some(mut another) = pool.take() else { return Ok(None) };
            another.bytes_mut()[..tail.len()].copy_from_slice(&buffer.bytes()[tail.clone()]);
            next = Some(another);
        } else if found.is_empty() && self.filled > 0 {
            return Ok(None);
        }
        let Some(buffer) = std::mem::replace(&mut self.buffer, next) else { return Ok(None) };
        self.filled = tail.len();
        if found.is_empty() {
            pool.give(buffer);
            return Ok(None);
        }
        let claims = association.claim_all(found.len() as u64);
        let numbers = claims.iter().flat_map(Claim::numbers);
        let record = |(&(offset, header), (sequence, _)): (&(usize, Header), (u64, &_))| Record {
            offset,
            header_bytes: HEADER_BYTES,
            body_bytes: header.body_bytes,
            sequence,
        };
        let records = found.iter().zip(numbers).map(record).collect();
        let headers = found.iter().map(|&(_, header)| header).collect();
        let (suite, work) = (association.suite(), Work { buffer, ..Work::default() });
        let arrived = Arrived { suite, work, headers, records, claims };
        Ok(Some((arrived, association.next_sequence())))
    }
}

/// What goes back: how many records were taken over.
#[derive(Debug, Default)]
pub(crate) struct Outbound {
    association: Option<Association>,
    taken: u64,
    acknowledged: u64,
    /// Records were lost; nothing that comes behind them counts.
    has_gap: bool,
    /// An acknowledgement that the connection has not taken in full.
    unsent: Vec<u8>,
}

impl Outbound {
    /// A fresh connection, whose acknowledgements go under these keys.
    pub(crate) fn open(&mut self, keys: Association) {
        *self = Self { association: Some(keys), ..Self::default() };
    }

    /// The next records in order were taken over, up to this number; `None` if they were not.
    pub(crate) fn take(&mut self, records_end: Option<u64>) {
        match records_end {
            Some(records_end) if !self.has_gap => self.taken = records_end,
            _ => self.has_gap = true,
        }
    }

    /// Returns whether records were lost.
    pub(crate) fn has_gap(&self) -> bool {
        self.has_gap
    }

    /// How many records of this connection were taken over.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Returns whether the sender is to be told.
    pub(crate) fn is_due(&self) -> bool {
        self.taken - self.acknowledged >= RECORDS_PER_ACKNOWLEDGEMENT
    }

    /// Returns the bytes for the connection that tell the sender how far we are; `None` when it was told.
    pub(crate) fn unsent(&mut self) -> Option<&[u8]> {
        if self.unsent.is_empty() && self.taken > self.acknowledged {
            self.unsent = seal(self.association.as_mut()?, Kind::Acknowledge, 0, self.taken, &[]);
            self.acknowledged = self.taken;
        }
        (!self.unsent.is_empty()).then_some(&*self.unsent)
    }

    /// The connection took so many of them.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.unsent.drain(..bytes);
    }
}
