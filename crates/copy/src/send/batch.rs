//! A batch of records under construction.
//!
//! Guarantees: records lie one after another exactly as they go onto the wire; a record is begun only if its longest
//! form fits; the list of the batch's contents is complete, so a lost batch can be repeated.

use std::sync::Arc;

use sealane_engine::record::Claim;
use sealane_engine::{Buffer, Direction, JobStatus, Suite, Work, record::Record};
use serde::Serialize;

use crate::{
    proto::{
        entry::{self, Closing},
        record::{DATA_BYTES_MAX, HEADER_BYTES, Header, Kind},
    },
    send::{
        compress::{Press, RECORDS_MAX},
        line::Outgoing,
        work::{Content, SendFile},
    },
};

/// Records being laid into a buffer.
#[derive(Debug)]
pub(crate) struct Builder {
    buffer: Buffer,
    /// The offset and plain length of each record.
    records: Vec<(usize, usize)>,
    end: usize,
    suite: Suite,
    /// Records whose bodies are left in their files, by their index, and the bytes that such bodies may still have;
    /// `None` if all bodies lie in the buffer.
    left: Vec<(usize, usize, Arc<SendFile>)>,
    left_room_bytes: Option<usize>,
    /// The contents of the batch.
    pub(crate) contents: Vec<Content>,
    /// The file announced last, whose data may follow.
    pub(crate) announced: Option<u32>,
    /// Whether the queue counts the batch as in flight.
    pub(crate) counted: bool,
    /// Compresses content, if it is to be.
    press: Option<Box<Press>>,
    /// The sample of [`Governor`](crate::send::compress::Governor) that the batch belongs to.
    sample: u32,
}

/// The body of a record that is not sealed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Body<'a> {
    /// It lies in the batch.
    Here(&'a [u8]),
    /// It stays in this file, at the record's offset.
    Left(&'a Arc<SendFile>),
}

impl<'a> Body<'a> {
    /// Returns the bytes of a record that is no data.
    pub(crate) fn bytes(self) -> &'a [u8] {
        match self {
            Self::Here(bytes) => bytes,
            Self::Left(_) => &[],
        }
    }
}

/// Longest body of a closing record. All other records leave room for one, so that the lane that finishes the last
/// range of a file can close it.
pub(crate) const CLOSING_BYTES_MAX: usize = 1024;

/// Returns the maximum room that one more record of `body_bytes` takes.
pub(crate) fn record_bytes_max(suite: Suite, body_bytes: usize) -> usize {
    HEADER_BYTES + body_bytes + suite.expansion_bytes_max()
}

impl Builder {
    /// Starts a batch in `buffer`.
    pub(crate) fn new(buffer: Buffer, suite: Suite) -> Self {
        Self {
            buffer,
            records: Vec::with_capacity(16),
            end: 0,
            suite,
            left: Vec::new(),
            left_room_bytes: None,
            contents: Vec::new(),
            announced: None,
            counted: false,
            press: None,
            sample: 0,
        }
    }

    /// From now on content is compressed.
    pub(crate) fn compress_by(&mut self, press: Box<Press>) {
        self.press = Some(press);
    }

    /// From now on content goes as it is. Returns the press, if there is one.
    pub(crate) fn stop_compressing(&mut self) -> Option<Box<Press>> {
        self.press.take()
    }

    /// The batch belongs to a sample.
    pub(crate) fn belongs_to(&mut self, sample: u32) {
        self.sample = sample;
    }

    /// Starts a batch that is not sealed, whose content of large files stays in the files: at most `bytes_max`.
    pub(crate) fn leaving_content(buffer: Buffer, bytes_max: usize) -> Self {
        Self { left_room_bytes: Some(bytes_max), ..Self::new(buffer, Suite::Null) }
    }

    /// Returns whether a record of any length still fits.
    pub(crate) fn takes_more(&self) -> bool {
        self.room() == DATA_BYTES_MAX && self.left_room_bytes != Some(0)
    }

    /// Returns the bytes of files that may still be left in them; `None` if content goes into the buffer.
    pub(crate) fn left_room_bytes(&self) -> Option<usize> {
        self.left_room_bytes
    }

    /// Returns the largest possible body of one more record, with room for a closing record after it.
    pub(crate) fn room(&self) -> usize {
        if self.press.is_some() && self.records.len() >= RECORDS_MAX {
            return 0;
        }
        self.room_beside(record_bytes_max(self.suite, CLOSING_BYTES_MAX))
    }

    /// Returns the same with this many bytes left free.
    fn room_beside(&self, kept_bytes: usize) -> usize {
        let left = self.buffer.capacity_bytes() - self.end;
        left.saturating_sub(record_bytes_max(self.suite, 0) + kept_bytes).min(DATA_BYTES_MAX)
    }

    /// Returns whether data of this file may follow.
    pub(crate) fn announces(&self, file: u32) -> bool {
        self.announced == Some(file)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(crate) fn records(&self) -> u64 {
        self.records.len() as u64
    }

    /// Returns the length of the batch on the wire.
    pub(crate) fn wire_bytes(&self) -> u64 {
        let left: usize = self.left.iter().map(|(_, bytes, _)| bytes).sum();
        (self.end + left) as u64
    }

    /// Returns the place of the next record's body.
    pub(crate) fn body(&mut self) -> &mut [u8] {
        let room = self.room();
        self.body_of(room)
    }

    fn body_of(&mut self, room: usize) -> &mut [u8] {
        let start = self.end + HEADER_BYTES;
        self.buffer.bytes_mut().get_mut(start..start + room).unwrap_or_default()
    }

    /// Adds a closing record. Returns false if it does not fit; it always fits if it is at most [`CLOSING_BYTES_MAX`]
    /// long and no other closing record was added since the last [`Self::room`].
    pub(crate) fn push_closing(&mut self, file: u32, closing: &Closing) -> bool {
        let room = self.room_beside(0);
        self.push_encoded(Kind::Close, file, 0, closing, room)
    }

    /// Completes a record whose body is the first `body_bytes` of [`Self::body`].
    pub(crate) fn push(&mut self, kind: Kind, file: u32, offset: u64, body_bytes: usize) {
        assert!(body_bytes <= self.room_beside(0), "the body was written within the room");
        let (kind, body_bytes) = self.compressed(kind, body_bytes).unwrap_or((kind, body_bytes));
        let sealed_bytes = body_bytes + self.suite.expansion_bytes(body_bytes);
        Header { kind, body_bytes: sealed_bytes, file, offset }
            .encode(&mut self.buffer.bytes_mut()[self.end..]);
        self.records.push((self.end, body_bytes));
        self.end += HEADER_BYTES + sealed_bytes;
    }

    /// Compresses the next record's body, if it is content that becomes shorter by this.
    fn compressed(&mut self, kind: Kind, body_bytes: usize) -> Option<(Kind, usize)> {
        let (press, kind) = (self.press.as_mut()?, kind.compressed()?);
        let body = &mut self.buffer.bytes_mut()[self.end + HEADER_BYTES..][..body_bytes];
        Some((kind, press.press(body)?))
    }

    /// Adds a record of data that stay in their file.
    pub(crate) fn push_left(&mut self, file: &Arc<SendFile>, offset: u64, bytes: usize) {
        let room = self.left_room_bytes.as_mut().expect("content stays in files");
        *room -= bytes;
        self.left.push((self.records.len(), bytes, file.clone()));
        self.push(Kind::Data, file.number, offset, 0);
    }

    /// Adds a record whose body is an encoded value. Returns false if it does not fit.
    pub(crate) fn push_value<T: Serialize>(&mut self, kind: Kind, file: u32, offset: u64, value: &T) -> bool {
        let room = self.room();
        self.push_encoded(kind, file, offset, value, room)
    }

    fn push_encoded<T: Serialize>(
        &mut self,
        kind: Kind,
        file: u32,
        offset: u64,
        value: &T,
        room: usize,
    ) -> bool {
        let Some(body_bytes) = entry::encode(value, self.body_of(room)) else { return false };
        self.push(kind, file, offset, body_bytes);
        true
    }

    /// Lays the records' jobs, with the buffer, into `work`. `claims` cover all records, in order: more than one if
    /// the key changes.
    pub(crate) fn lay(&mut self, claims: &[Claim], mut work: Work) -> Work {
        work.direction = Direction::Seal;
        work.jobs.clear();
        work.sessions.clear();
        work.buffer = std::mem::take(&mut self.buffer);
        let numbers = claims.iter().flat_map(Claim::numbers);
        for (&(offset, body_bytes), (sequence, session)) in self.records.iter().zip(numbers) {
            let record = Record { offset, header_bytes: HEADER_BYTES, body_bytes, sequence };
            session.lay(&mut work, &record).expect("each record was begun where its longest form fits");
        }
        assert_eq!(work.jobs.len(), self.records.len(), "claims cover their batch");
        work
    }

    /// Takes the buffer back after an engine has sealed all records. Only sealed records may ever leave.
    pub(crate) fn sealed(&mut self, work: &mut Work) {
        let is_sealed = work.jobs.iter().all(|job| job.status == JobStatus::Done);
        assert!(is_sealed, "what lies within its buffer can be sealed");
        self.buffer = std::mem::take(&mut work.buffer);
        // Keys are not kept beyond their batch.
        work.sessions.clear();
    }

    /// Returns the records before they are sealed, for a receiver that is not reached through a stream.
    pub(crate) fn plain(&self) -> impl Iterator<Item = (Header, Body<'_>)> {
        let mut left = self.left.iter().peekable();
        self.records.iter().enumerate().map(move |(index, &(start, body_bytes))| {
            let bytes = &self.buffer.bytes()[start..];
            let header = bytes.first_chunk().and_then(|header| Header::decode(header).ok());
            let header = header.expect("headers were written here");
            match left.next_if(|&&(of, ..)| of == index) {
                Some((_, body_bytes, file)) => {
                    (Header { body_bytes: *body_bytes, ..header }, Body::Left(file))
                }
                None => {
                    let body = &bytes[HEADER_BYTES..HEADER_BYTES + body_bytes];
                    (Header { body_bytes, ..header }, Body::Here(body))
                }
            }
        })
    }

    /// Returns the contents for a stream to send; the batch is empty afterwards.
    pub(crate) fn hand_over(&mut self, records_end: u64) -> Outgoing {
        self.counted = false;
        let (buffer, contents) = (std::mem::take(&mut self.buffer), std::mem::take(&mut self.contents));
        Outgoing { buffer, wire_bytes: self.end, records_end, contents, sample: self.sample }
    }

    /// The stream did not take it.
    pub(crate) fn take_back(&mut self, Outgoing { buffer, contents, .. }: Outgoing) {
        (self.buffer, self.contents, self.counted) = (buffer, contents, true);
    }

    /// Returns its parts: the buffer, unless an engine has it, the content, and whether the queue counts it as in
    /// flight.
    pub(crate) fn dissolve(&mut self) -> (Option<Buffer>, Vec<Content>, bool) {
        let buffer = std::mem::take(&mut self.buffer);
        let contents = std::mem::take(&mut self.contents);
        ((buffer.capacity_bytes() > 0).then_some(buffer), contents, std::mem::take(&mut self.counted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file's last bytes may fill a batch completely; its closing record still fits behind them.
    #[test]
    fn whatever_is_in_a_batch_a_closing_record_fits() {
        let longest = Closing::Abandoned { reason: "x".repeat(CLOSING_BYTES_MAX - 8) };
        for suite in Suite::ALL {
            for spare in (0..200).chain([4096]) {
                let capacity = 2 * record_bytes_max(suite, DATA_BYTES_MAX) + 4096 - spare;
                let mut batch = Builder::new(Buffer::new(capacity), suite);
                while batch.room() > 0 {
                    let room = batch.room();
                    batch.push(Kind::Data, 0, 0, room);
                }
                assert!(batch.body().is_empty());
                assert!(batch.push_closing(0, &longest), "{suite}, {spare} spared");
            }
        }
    }
}
