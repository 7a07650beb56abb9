//! A suite with its keys, which turns records into jobs.
//!
//! Guarantees: a record's number enters its nonce or its tag, so the same record under another number is forged;
//! padding is examined only after the tag was verified, so it cannot serve as an oracle; a job names no byte outside
//! its work's buffer; the body of a record whose job is not done is never returned.

use std::sync::Arc;

use zeroize::{Zeroize, ZeroizeOnDrop};

use super::{Suite, suite::Numbering};
use crate::{Direction, Implementations, Job, JobStatus, KeyError, Span, Suffix, Work};
use sealane_transform::debug_only;

/// One record in a work's buffer: `header_bytes` that are authenticated only, then the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The position of the header in the buffer.
    pub offset: usize,
    /// The length of the header.
    pub header_bytes: usize,
    /// The length of the body: of the plaintext for [`Direction::Seal`] (room for the expansion must follow), of the
    /// sealed body for [`Direction::Open`].
    pub body_bytes: usize,
    /// The number of the record under its key; the nonce is derived from it, so it must never recur when sealing.
    pub sequence: u64,
}

/// The reason for which a record has no job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayError {
    /// The record is too short to have a tag, or has a length that no sender produces.
    #[error("a record of a length that nobody seals")]
    Forged,
    /// The caller made a mistake: the record does not fit the buffer, or the work has no room for one more session.
    #[error("a record beyond its buffer, or under more keys than a work can name")]
    OutOfRange,
}

/// One association's suite and keys; used from any lane, by shared reference. It turns records into jobs, which any
/// engine runs.
pub struct SuiteKeys {
    suite: Suite,
    session: Arc<crate::Session>,
    mask: NonceMask,
}

/// The mask that turns sequence numbers into nonces (RFC 8446, section 5.3).
#[derive(Zeroize, ZeroizeOnDrop)]
struct NonceMask([u8; 12]);

impl NonceMask {
    /// Returns the nonce of a record.
    fn nonce(&self, sequence: u64) -> [u8; 12] {
        let mut nonce = self.0;
        for (byte, count) in nonce[4..].iter_mut().zip(sequence.to_be_bytes()) {
            *byte ^= count;
        }
        nonce
    }
}

debug_only!(SuiteKeys { suite });

impl SuiteKeys {
    /// Makes keys from exactly [`Suite::key_bytes`] bytes of key material.
    ///
    /// # Errors
    /// Fails if the material has another length.
    pub fn new(
        implementations: impl Into<Implementations>,
        suite: Suite,
        material: &[u8],
    ) -> Result<Self, KeyError> {
        let (expected, given) = (suite.key_bytes(), material.len());
        if given != expected {
            return Err(KeyError::Length { expected, given });
        }
        let (keys, rest) = material.split_at(suite.protection().key_bytes());
        let mut mask = NonceMask([0; 12]);
        mask.0[..rest.len()].copy_from_slice(rest);
        let session = crate::Session::with(implementations, suite.protection(), keys)?;
        Ok(Self { suite, session: Arc::new(session), mask })
    }

    /// Returns the suite by which records are laid out.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// Adds the record's job to `work`, whose buffer holds the record; when sealing, pads the body.
    ///
    /// # Errors
    /// Fails if the record is too short or has an impossible length, or does not fit. Then no job is added.
    pub fn lay(&self, work: &mut Work, record: &Record) -> Result<(), LayError> {
        let job = self.job(work.direction, work.buffer.bytes_mut(), record)?;
        let session = work.session(&self.session).ok_or(LayError::OutOfRange)?;
        work.jobs.push(Job { session, ..job });
        Ok(())
    }

    /// Pads the body and returns the record's job, without the session's index.
    fn job(&self, direction: Direction, bytes: &mut [u8], record: &Record) -> Result<Job, LayError> {
        let protection = self.suite.protection();
        let (tag_bytes, granule) = (protection.tag_bytes(), protection.granule_bytes());
        let room = match direction {
            Direction::Seal => self.suite.expansion_bytes(record.body_bytes),
            Direction::Open => 0,
        };
        let body_at = record.offset.checked_add(record.header_bytes).ok_or(LayError::OutOfRange)?;
        let end = body_at.checked_add(record.body_bytes).and_then(|end| end.checked_add(room));
        let end = end.filter(|&end| end <= bytes.len()).ok_or(LayError::OutOfRange)?;
        // The tag starts here; a record without room for a tag was not sealed by anybody.
        let tag_at = end.checked_sub(tag_bytes).filter(|&at| at >= body_at).ok_or(LayError::Forged)?;
        if !(tag_at - body_at).is_multiple_of(granule) {
            return Err(LayError::Forged);
        }
        if direction == Direction::Seal {
            // This is PKCS#7 padding (RFC 5652, section 6.3), if the suite made room for it.
            let padding = &mut bytes[body_at + record.body_bytes..tag_at];
            padding.fill(padding.len() as u8);
        }
        let span = |from: usize, to: usize| {
            let (start, len) = (u32::try_from(from), u32::try_from(to - from));
            start.ok().zip(len.ok()).map(|(start, len)| Span::new(start, len)).ok_or(LayError::OutOfRange)
        };
        let clear_end = if self.suite.encrypts() { body_at } else { tag_at };
        let mut job = Job {
            clear: span(record.offset, clear_end)?,
            body: span(clear_end, tag_at)?,
            tag: span(tag_at, end)?,
            ..Job::default()
        };
        match self.suite.numbering() {
            Numbering::Nowhere => {}
            Numbering::Nonce => job.iv[..12].copy_from_slice(&self.mask.nonce(record.sequence)),
            Numbering::Behind => job.suffix = record.sequence.to_be_bytes().into(),
            Numbering::BehindLittleEndian => job.suffix = Suffix::from(record.sequence.to_le_bytes()),
            Numbering::ChainsAndBehind => {
                // A key has far fewer records, and a record far fewer chains, than the shift provides for.
                job.iv[..8].copy_from_slice(&(record.sequence << 16).to_be_bytes());
                job.suffix = record.sequence.to_be_bytes().into();
            }
        }
        Ok(job)
    }
}

impl Suite {
    /// Returns the plain body of the record whose job has the index `place` in `work`, once an engine has opened it;
    /// `None` unless it is genuine.
    pub fn opened<'a>(self, work: &'a Work, place: usize, record: &Record) -> Option<&'a [u8]> {
        work.jobs.get(place).filter(|job| job.status == JobStatus::Done)?;
        let start = record.offset.checked_add(record.header_bytes)?;
        let sealed_bytes = record.body_bytes.checked_sub(self.protection().tag_bytes())?;
        let sealed = work.buffer.bytes().get(start..start.checked_add(sealed_bytes)?)?;
        let plain_bytes = match self.protection().granule_bytes() {
            1 => sealed_bytes,
            granule => unpadded(sealed, granule)?,
        };
        Some(&sealed[..plain_bytes])
    }
}

/// Returns the length of an authentic body without its padding; `None` if the padding is wrong.
fn unpadded(body: &[u8], granule: usize) -> Option<usize> {
    let padding = usize::from(*body.last()?);
    let plain_bytes = body.len().checked_sub(padding)?;
    let alike = body[plain_bytes..].iter().all(|&byte| usize::from(byte) == padding);
    ((1..=granule).contains(&padding) && alike).then_some(plain_bytes)
}
