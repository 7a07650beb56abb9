//! The reading half of a sending stream: the answer to its join if nobody waited for it, then the receiver's records,
//! which contain the number of records that it has taken over.
//!
//! Guarantees: a count is accepted only if it was sealed under the opening's key, in order, by a receiver that has
//! proved itself; no more than a few records are held.

use sealane_engine::record::Association;
use sealane_engine::{Buffer, Direction, Software, Work, record::Record};

use crate::{
    line::LineError,
    proto::{
        join::{Awaited, JOINED_BYTES, Joined},
        record::{HEADER_BYTES, Header, Kind},
    },
};

const ACKNOWLEDGEMENT_BYTES: usize = 4096;

/// The reader, reused for each opening.
#[derive(Debug)]
pub(crate) struct Acknowledgements {
    association: Option<Association>,
    /// The answer that comes before the first record.
    awaited: Option<Awaited>,
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
        Self { association: None, awaited: None, work, filled: 0, software: Software::default() }
    }

    /// Starts a new connection, on which the answer `awaited`, if any, comes before the first record.
    pub(crate) fn open(&mut self, association: Association, awaited: Option<Awaited>) {
        self.association = Some(association);
        self.awaited = awaited;
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
        if let Some(awaited) = &self.awaited {
            let Some(answer) = self.work.buffer.bytes()[..self.filled].first_chunk::<JOINED_BYTES>() else {
                return Ok(None);
            };
            match awaited.verify(answer) {
                Some(Joined { accepted: true, .. }) => {}
                Some(Joined { accepted: false, .. }) => return Err(LineError::Cut),
                None => return Err(LineError::forged(stream, "an answer that is not the peer's")),
            }
            self.awaited = None;
            self.work.buffer.bytes_mut().copy_within(JOINED_BYTES..self.filled, 0);
            self.filled -= JOINED_BYTES;
        }
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

#[cfg(test)]
mod tests {
    use sealane_engine::Suite;
    use sealane_engine::record::Secret;

    use super::*;
    use crate::{
        options::Level,
        proto::{
            join::{Join, Prover},
            keys::{StreamDirection, TransferKeys},
            record::seal,
        },
    };

    /// Returns the outcome of bytes that arrive in pieces of `step`, behind a join that nobody answered yet.
    fn read(bytes: &[u8], step: usize, prover: &Prover, keys: Association) -> Result<Option<u64>, LineError> {
        let join = prover.join(&Join { transfer: [1; 16], stream: 0, generation: 1, last: 0, taken: 0 });
        let mut reader = Acknowledgements::new();
        reader.open(keys, Some(prover.awaited(join)));
        let mut latest = None;
        for piece in bytes.chunks(step) {
            reader.room()[..piece.len()].copy_from_slice(piece);
            latest = reader.take(0, piece.len())?.or(latest);
        }
        Ok(latest)
    }

    #[test]
    fn an_answer_comes_before_the_first_record_and_must_be_the_peers() {
        let transfer = TransferKeys::new(Default::default(), &Secret::new([3; 32]), b"request", b"accept");
        let keys = || transfer.stream(Suite::Aes128Gcm, 0, 1, StreamDirection::Backward);
        let prover = Prover::new(&transfer.join(), Level::Private);
        let join = prover.join(&Join { transfer: [1; 16], stream: 0, generation: 1, last: 0, taken: 0 });
        let answer = |accepted| prover.joined(&join, &Joined { accepted, taken: 7 }).to_vec();
        let record = seal(&mut keys(), Kind::Acknowledge, 0, 5, &[]);
        for step in [1, 2, 28, 29, 30, 1000] {
            let bytes = [answer(true), record.clone()].concat();
            assert_eq!(read(&bytes, step, &prover, keys()).unwrap(), Some(5), "{step}");
            let refused = [answer(false), record.clone()].concat();
            assert!(matches!(read(&refused, step, &prover, keys()), Err(LineError::Cut)), "{step}");
            let mut forged = bytes.clone();
            forged[20] ^= 1;
            for bytes in [&forged, &record] {
                let bytes = [&bytes[..], &[0; JOINED_BYTES][..]].concat();
                assert!(matches!(read(&bytes, step, &prover, keys()), Err(LineError::Fatal(_))), "{step}");
            }
        }
    }
}
