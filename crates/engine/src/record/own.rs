//! Records by our own kernels, many in one call.
//!
//! Guarantees: whether a record goes to a kernel alone or with its neighbours, it is taken apart in one place, and
//! comes out the same.

use arrayvec::ArrayVec;
use sealane_transform::{AeadJob, AeadKey, Buffer, Kernels, Status};

use super::{
    batch::JobStatus,
    legacy::Legacy,
    session::{NonceMask, Protection},
    together::{Record, TOGETHER_MAX},
};
use crate::Direction;

/// Tag of every AEAD that our own kernels run.
const TAG_BYTES: usize = 16;

/// Keys of our own kernels.
pub(crate) enum Own {
    /// An AEAD, or GMAC.
    Aead(OwnAead),
    /// A suite of 2007.
    Legacy(Box<Legacy>),
}

impl Own {
    /// Runs records of this suite, each under its own session.
    pub(crate) fn run(&self, direction: Direction, records: &mut [Record<'_>]) {
        match self {
            Self::Aead(aead) => aead.run(direction, records),
            Self::Legacy(legacy) => legacy.run(direction, records),
        }
    }
}

/// An AEAD's key, and what runs it.
pub(crate) struct OwnAead {
    pub(crate) kernels: Kernels,
    pub(crate) key: AeadKey,
    pub(crate) nonces: NonceMask,
    /// Nothing is encrypted: records are associated data.
    pub(crate) is_gmac: bool,
}

impl OwnAead {
    fn run(&self, direction: Direction, records: &mut [Record<'_>]) {
        let mut calls: ArrayVec<AeadJob<'_>, TOGETHER_MAX> = ArrayVec::new();
        let mut ends: ArrayVec<(&mut [u8; TAG_BYTES], &mut JobStatus, usize), TOGETHER_MAX> = ArrayVec::new();
        for record in records {
            let Record { session, sequence, bytes, header_bytes, body_bytes, status } = record;
            let Protection::Own(Own::Aead(own)) = session.protection() else { continue };
            match own.call(direction, *sequence, bytes, *header_bytes) {
                Some((call, tag)) => {
                    calls.push(call);
                    ends.push((tag, status, *body_bytes));
                }
                None => **status = JobStatus::Forged,
            }
        }
        match direction {
            Direction::Seal => self.kernels.seal(self.key.algorithm(), &mut calls),
            Direction::Open => self.kernels.open(self.key.algorithm(), &mut calls),
        };
        for (call, (tag, status, body_bytes)) in calls.iter().zip(ends) {
            *status = match (call.status, direction) {
                (Status::Done, Direction::Seal) => {
                    *tag = call.tag;
                    JobStatus::Done { body_bytes: body_bytes + TAG_BYTES }
                }
                (Status::Done, Direction::Open) => JobStatus::Done { body_bytes: body_bytes - TAG_BYTES },
                _ => JobStatus::Forged,
            };
        }
    }

    /// The call for a record (header, body, tag), and where its tag lies; `None` if it is too short for both.
    fn call<'a>(
        &'a self,
        direction: Direction,
        sequence: u64,
        record: &'a mut [u8],
        header_bytes: usize,
    ) -> Option<(AeadJob<'a>, &'a mut [u8; TAG_BYTES])> {
        let (text, tag) = record.split_last_chunk_mut()?;
        let clear_bytes = if self.is_gmac { text.len() } else { header_bytes };
        let (clear, body) = text.split_at_mut_checked(clear_bytes)?;
        let (nonce, body) = (self.nonces.nonce(sequence), Buffer::in_place(body));
        let call = match direction {
            Direction::Seal => AeadJob::seal(&self.key, nonce, clear, body),
            Direction::Open => AeadJob::open(&self.key, nonce, clear, body, *tag),
        };
        Some((call, tag))
    }
}
