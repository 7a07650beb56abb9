//! What a sending stream reads: the receiver's records, which say how many of ours it has taken over.
//!
//! Guarantees: no count is believed that was not sealed under the opening's key, in its order; no more than a few records
//! are held.

use sealane_engine::{
    Buffer, Direction,
    record::{Batch, Job, JobStatus, Runner},
};
use sealane_stack::Association;

use crate::{
    line::LineError,
    proto::record::{HEADER_BYTES, Header, Kind},
};

const ACKNOWLEDGEMENT_BYTES: usize = 4096;

/// The reader of one opening after the other.
#[derive(Debug)]
pub(crate) struct Acknowledgements {
    association: Option<Association>,
    buffer: Buffer,
    filled: usize,
    runner: Runner,
}

impl Acknowledgements {
    pub(crate) fn new() -> Self {
        let buffer = Buffer::new(ACKNOWLEDGEMENT_BYTES);
        Self { association: None, buffer, filled: 0, runner: Runner::default() }
    }

    pub(crate) fn open(&mut self, association: Association) {
        self.association = Some(association);
        self.filled = 0;
    }

    /// Where the next bytes go. It is never empty: whole records are taken out, and none is as long as the buffer.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.buffer.bytes_mut()[self.filled..]
    }

    /// `received` bytes have arrived: the latest count among the records that are whole, if any.
    pub(crate) fn take(&mut self, stream: u16, received: usize) -> Result<Option<u64>, LineError> {
        let Some(association) = &mut self.association else { return Ok(None) };
        self.filled += received;
        let mut latest = None;
        while let Some(header) = self.buffer.bytes()[..self.filled].first_chunk::<HEADER_BYTES>() {
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
            let mut record = Buffer::new(record_bytes);
            record.bytes_mut().copy_from_slice(&self.buffer.bytes()[..record_bytes]);
            let job = Job {
                session: claim.session,
                offset: 0,
                header_bytes: HEADER_BYTES,
                body_bytes: header.body_bytes,
                sequence: claim.first_sequence,
                status: JobStatus::Pending,
            };
            let mut batch = Batch { buffer: record, jobs: vec![job], direction: Direction::Open, ticket: 0 };
            if self.runner.run(&mut batch) > 0 {
                return Err(LineError::forged(stream, "an acknowledgement that is not authentic"));
            }
            latest = Some(header.offset);
            self.buffer.bytes_mut().copy_within(record_bytes..self.filled, 0);
            self.filled -= record_bytes;
        }
        Ok(latest)
    }
}
