//! The two halves of a receiving stream's connection as values: [`Inbound`] takes bytes and returns whole records,
//! [`Outbound`] takes counts and returns the bytes of acknowledgements. They have no socket and no clock.
//!
//! Guarantees: records are returned whole, in the order of the stream, each with its number under the opening's key;
//! at most one buffer is held for an incomplete record; every acknowledged record was taken over, with all records
//! before it.

use crate::shared::Pool;
use sealane_engine::record::{Association, Claim};
use sealane_engine::{
    Buffer, Direction, Suite, Work,
    record::{LayError, Record},
};

use crate::{
    line::LineError,
    proto::record::{DATA_BYTES_MAX, HEADER_BYTES, Header, Kind, seal, split_records},
};

/// The number of records after which an acknowledgement is due; an idle stream is acknowledged at once.
const RECORDS_PER_ACKNOWLEDGEMENT: u64 = 32;

/// Whole records.
#[derive(Debug)]
pub(crate) struct Arrived {
    suite: Suite,
    /// The buffer that contains the records, and their jobs once they are laid.
    pub(crate) work: Work,
    pub(crate) headers: Vec<Header>,
    pub(crate) records: Vec<Record>,
    /// Their numbers and keys, in order.
    claims: Vec<Claim>,
}

impl Arrived {
    /// Lays the records' jobs, with the buffer, into `work`, for an engine to open.
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

    /// Returns the work without its buffer, for the memory of its jobs, after the records have been read. Keys are
    /// not kept longer than the records.
    pub(crate) fn reclaim(&mut self) -> Work {
        let mut work = std::mem::take(&mut self.work);
        std::mem::swap(&mut work.buffer, &mut self.work.buffer);
        work.jobs.clear();
        work.sessions.clear();
        work
    }

    /// Returns the header and the plain body of each record after an engine has run its job; a record that is not
    /// genuine has no body.
    pub(crate) fn opened(&self) -> impl Iterator<Item = (&Header, Option<&[u8]>)> {
        let places = self.headers.iter().zip(&self.records).enumerate();
        places.map(|(place, (header, record))| (header, self.suite.opened(&self.work, place, record)))
    }
}

/// The receiving half, up to the numbering of records.
#[derive(Debug, Default)]
pub(crate) struct Inbound {
    /// `None` while there is no connection.
    association: Option<Association>,
    /// The buffer of an incomplete record.
    buffer: Option<Buffer>,
    filled: usize,
}

impl Inbound {
    /// Starts a new connection, whose records are sealed with these keys.
    pub(crate) fn open(&mut self, keys: Association) {
        self.association = Some(keys);
    }

    /// Ends the connection, and returns its buffer.
    pub(crate) fn cut(&mut self) -> Option<Buffer> {
        self.association = None;
        self.filled = 0;
        self.buffer.take()
    }

    /// Returns the place of the next bytes; `None` if there is no room for any.
    pub(crate) fn room(&mut self, pool: &Pool) -> Option<&mut [u8]> {
        if self.buffer.is_none() {
            self.buffer = pool.take();
        }
        let room = &mut self.buffer.as_mut()?.bytes_mut()[self.filled..];
        (!room.is_empty()).then_some(room)
    }

    /// Records that this many bytes have arrived there.
    pub(crate) fn received(&mut self, bytes: usize) {
        self.filled += bytes;
    }

    /// Returns the number of bytes that a lane may sleep for on a stream that has filled its buffer: every wake-up
    /// costs a context switch, and on another core an interrupt.
    pub(crate) fn bulk_bytes(&self) -> Option<usize> {
        let capacity = self.buffer.as_ref()?.capacity_bytes();
        (self.filled == capacity).then_some(capacity / DATA_BYTES_MAX * DATA_BYTES_MAX)
    }

    /// Returns whether a complete record waits to be taken.
    pub(crate) fn holds_records(&self) -> bool {
        let Some(buffer) = &self.buffer else { return false };
        let mut found = Vec::new();
        split_records(&buffer.bytes()[..self.filled], &mut found).is_ok() && !found.is_empty()
    }

    /// Returns the complete records, and the number after the last of them. Returns `None` if there are none, or
    /// there is no buffer for the bytes behind them.
    ///
    /// # Errors
    /// Fails if a header is malformed.
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
            // The incomplete tail goes to the front of another buffer, so that the next lane can continue to read. If
            // there is none, nothing is lost: the records wait in this one until another lane returns a buffer.
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

/// The acknowledging half: the count of records that were taken over.
#[derive(Debug, Default)]
pub(crate) struct Outbound {
    association: Option<Association>,
    taken: u64,
    acknowledged: u64,
    /// Whether records were lost; records after them do not count.
    has_gap: bool,
    /// An acknowledgement that the connection has not accepted completely.
    unsent: Vec<u8>,
}

impl Outbound {
    /// Starts a new connection, whose acknowledgements are sealed with these keys.
    pub(crate) fn open(&mut self, keys: Association) {
        *self = Self { association: Some(keys), ..Self::default() };
    }

    /// Counts the next records in order as taken over, up to this number; `None` if they were not.
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

    /// Returns the number of records of this connection that were taken over.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Returns whether an acknowledgement is due.
    pub(crate) fn is_due(&self) -> bool {
        self.taken - self.acknowledged >= RECORDS_PER_ACKNOWLEDGEMENT
    }

    /// Returns the bytes of the next acknowledgement; `None` if the sender knows the count.
    pub(crate) fn unsent(&mut self) -> Option<&[u8]> {
        if self.unsent.is_empty() && self.taken > self.acknowledged {
            self.unsent = seal(self.association.as_mut()?, Kind::Acknowledge, 0, self.taken, &[]);
            self.acknowledged = self.taken;
        }
        (!self.unsent.is_empty()).then_some(&*self.unsent)
    }

    /// Notes that the connection accepted this many bytes.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.unsent.drain(..bytes);
    }
}
