//! A suite with its keys: from records to jobs.
//!
//! Guarantees: a record's number goes into its nonce or its tag, so the same record under another number is forged; no
//! padding is looked at before the tag was verified, so it cannot serve as an oracle.

use std::{fmt, sync::Arc};

use zeroize::{Zeroize, ZeroizeOnDrop};

use super::{
    Suite,
    batch::{Job, JobStatus},
    suite::Numbering,
};
use crate::{Direction, Implementations, KeyError, Span, Suffix};

/// One association's suite and keys; used from any lane, by shared reference.
pub struct Session {
    suite: Suite,
    session: Arc<crate::Session>,
    mask: NonceMask,
}

/// What makes nonces of sequence numbers (RFC 8446, section 5.3).
#[derive(Zeroize, ZeroizeOnDrop)]
struct NonceMask([u8; 12]);

impl NonceMask {
    /// The nonce of a record.
    fn nonce(&self, sequence: u64) -> [u8; 12] {
        let mut nonce = self.0;
        for (byte, count) in nonce[4..].iter_mut().zip(sequence.to_be_bytes()) {
            *byte ^= count;
        }
        nonce
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("suite", &self.suite).finish_non_exhaustive()
    }
}

impl Session {
    /// Makes a session of exactly [`Suite::key_bytes`] bytes of key material.
    ///
    /// # Errors
    /// Any other length is refused.
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

    /// The suite.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// The engine's session.
    pub(super) fn session(&self) -> &Arc<crate::Session> {
        &self.session
    }

    /// The job that a record comes to, but for its session's place; the body is padded.
    pub(super) fn record(
        &self,
        direction: Direction,
        bytes: &mut [u8],
        job: &Job,
    ) -> Result<crate::Job, JobStatus> {
        let protection = self.suite.protection();
        let (tag_bytes, granule) = (protection.tag_bytes(), protection.granule_bytes());
        let room = match direction {
            Direction::Seal => self.suite.expansion_bytes(job.body_bytes),
            Direction::Open => 0,
        };
        let body_at = job.offset.checked_add(job.header_bytes).ok_or(JobStatus::OutOfRange)?;
        let end = body_at.checked_add(job.body_bytes).and_then(|end| end.checked_add(room));
        let end = end.filter(|&end| end <= bytes.len()).ok_or(JobStatus::OutOfRange)?;
        // Where the tag starts; a record that cannot even hold one was not sealed by anybody.
        let tag_at = end.checked_sub(tag_bytes).filter(|&at| at >= body_at).ok_or(JobStatus::Forged)?;
        if !(tag_at - body_at).is_multiple_of(granule) {
            return Err(JobStatus::Forged);
        }
        if direction == Direction::Seal {
            // PKCS#7 (RFC 5652, section 6.3), where the suite made room for that.
            let padding = &mut bytes[body_at + job.body_bytes..tag_at];
            padding.fill(padding.len() as u8);
        }
        let span = |from: usize, to: usize| {
            let (start, len) = (u32::try_from(from), u32::try_from(to - from));
            start.ok().zip(len.ok()).map(|(start, len)| Span::new(start, len)).ok_or(JobStatus::OutOfRange)
        };
        let clear_end = if self.suite.encrypts() { body_at } else { tag_at };
        let mut record = crate::Job {
            clear: span(job.offset, clear_end)?,
            body: span(clear_end, tag_at)?,
            tag: span(tag_at, end)?,
            ..crate::Job::default()
        };
        match self.suite.numbering() {
            Numbering::Nowhere => {}
            Numbering::Nonce => record.iv[..12].copy_from_slice(&self.mask.nonce(job.sequence)),
            Numbering::Behind => record.suffix = job.sequence.to_be_bytes().into(),
            Numbering::BehindLittleEndian => record.suffix = Suffix::from(job.sequence.to_le_bytes()),
            Numbering::ChainsAndBehind => {
                // A key has far fewer numbers, and a record far fewer chains, than the shift leaves room for.
                record.iv[..8].copy_from_slice(&(job.sequence << 16).to_be_bytes());
                record.suffix = job.sequence.to_be_bytes().into();
            }
        }
        Ok(record)
    }

    /// What a record comes to whose job is done.
    pub(super) fn settle(
        &self,
        direction: Direction,
        bytes: &[u8],
        job: &Job,
        record: &crate::Job,
    ) -> JobStatus {
        if direction == Direction::Seal {
            return JobStatus::Done {
                body_bytes: job.body_bytes + self.suite.expansion_bytes(job.body_bytes),
            };
        }
        let sealed_bytes = job.body_bytes - record.tag.len as usize;
        let granule = self.suite.protection().granule_bytes();
        let plain_bytes = match granule {
            1 => Some(sealed_bytes),
            _ => unpadded(&bytes[record.body.range()], granule),
        };
        plain_bytes.map_or(JobStatus::Forged, |body_bytes| JobStatus::Done { body_bytes })
    }
}

/// What is left of an authentic body without its padding.
fn unpadded(body: &[u8], granule: usize) -> Option<usize> {
    let padding = usize::from(*body.last()?);
    let plain_bytes = body.len().checked_sub(padding)?;
    let alike = body[plain_bytes..].iter().all(|&byte| usize::from(byte) == padding);
    ((1..=granule).contains(&padding) && alike).then_some(plain_bytes)
}
