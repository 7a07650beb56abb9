//! Jobs over one buffer.
//!
//! Guarantees: a job names its bytes by spans of the work's buffer, its keys by their index among the work's
//! sessions, and carries everything else itself; so it can run anywhere, and again, with the same result.

use std::{ops::Range, sync::Arc};

use arrayvec::ArrayVec;
use sealane_transform::{Cipher, Mode};

use crate::{Buffer, Protection, Session};

/// The maximum number of parts of one job.
pub const PARTS_MAX: usize = 8;

/// A range of bytes of a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// The position of the first byte.
    pub start: u32,
    /// The number of bytes.
    pub len: u32,
}

impl Span {
    /// Makes a span of `len` bytes from `start` on.
    pub const fn new(start: u32, len: u32) -> Self {
        Self { start, len }
    }

    /// Returns the end of the bytes; it is beyond the end of any buffer if the sum overflows.
    pub const fn end(self) -> usize {
        (self.start as usize).saturating_add(self.len as usize)
    }

    /// Returns the span as a range of a buffer's bytes.
    pub const fn range(self) -> Range<usize> {
        self.start as usize..self.end()
    }

    /// Returns whether the span has no bytes.
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }
}

/// Up to 8 bytes that are authenticated as if they followed a job's other bytes, though no buffer holds them: the
/// half of an extended sequence number that is not sent (RFC 4303, section 2.2.1). With an AEAD they may be among the
/// clear bytes instead ([`Self::behind_first`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Suffix {
    bytes: [u8; Self::BYTES_MAX],
    len: u8,
    /// The number of bytes of `clear` in front of it, unless it follows all bytes.
    front_bytes: Option<u8>,
}

impl Suffix {
    /// The maximum length in bytes.
    pub const BYTES_MAX: usize = 8;
    /// No bytes.
    pub const NONE: Self = Self { bytes: [0; Self::BYTES_MAX], len: 0, front_bytes: None };

    /// Returns a suffix of all `bytes`, or `None` if they are more than [`Self::BYTES_MAX`].
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut suffix = Self::NONE;
        suffix.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        suffix.len = bytes.len() as u8;
        Some(suffix)
    }

    /// Returns the bytes without their place.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Returns a suffix of the same bytes behind the first `clear_bytes` of the clear bytes, as in GMAC's packets
    /// (RFC 4543, section 3.3). Only AEADs take such a suffix; with any other protection the job is malformed.
    #[must_use]
    pub const fn behind_first(self, clear_bytes: u8) -> Self {
        Self { front_bytes: Some(clear_bytes), ..self }
    }

    /// Returns the number of bytes of `clear` in front of it, if it is among them.
    pub(crate) fn front_bytes(&self) -> Option<usize> {
        self.front_bytes.map(usize::from)
    }
}

impl From<[u8; 4]> for Suffix {
    fn from(bytes: [u8; 4]) -> Self {
        let mut suffix = Self { len: 4, ..Self::NONE };
        suffix.bytes[..4].copy_from_slice(&bytes);
        suffix
    }
}

impl From<[u8; 8]> for Suffix {
    fn from(bytes: [u8; 8]) -> Self {
        Self { bytes, len: 8, front_bytes: None }
    }
}

/// The direction in which jobs run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Protect.
    #[default]
    Seal,
    /// Verify and unprotect.
    Open,
}

/// The outcome of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobStatus {
    /// The job has not run; its bytes are unchanged.
    #[default]
    Pending,
    /// The job is done.
    Done,
    /// The tag is wrong. The body must not be used.
    Forged,
    /// The caller made a mistake: spans that lie outside the buffer or overlap, a session that does not exist, or a
    /// length that the protection does not take. The bytes are unchanged.
    Malformed,
}

/// The cryptography of one packet or record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// The index of the session in [`Work::sessions`].
    pub session: u16,
    /// Bytes that are authenticated only.
    pub clear: Span,
    /// Bytes that are transformed in place, and authenticated in the form in which they are sent.
    pub body: Span,
    /// The place of the tag; as long as the session's protection says. It does not overlap the body. If it lies
    /// within `clear`, its bytes count as zero there, as in AH (RFC 4302, section 3.3.3.1).
    pub tag: Span,
    /// The protection uses the first bytes: an AEAD's 12-byte nonce, a block cipher's IV or first counter block.
    pub iv: [u8; 16],
    /// Bytes that are authenticated behind `clear` and `body`; with an AEAD behind `clear`. A cipher without a MAC
    /// ignores them.
    pub suffix: Suffix,
    /// The outcome.
    pub status: JobStatus,
}

/// Jobs over one buffer: the unit of submission. There is no order among works.
#[derive(Debug, Default)]
pub struct Work {
    /// A number of the owner's, by which it recognizes the work, because an engine hands works back in any order.
    /// Engines do not change it.
    pub token: u64,
    /// The bytes.
    pub buffer: Buffer,
    /// The sessions that the jobs name.
    pub sessions: Vec<Arc<Session>>,
    /// The jobs, which keep their order; each has its own outcome.
    pub jobs: Vec<Job>,
    /// The direction of all jobs.
    pub direction: Direction,
}

impl Work {
    /// Returns the index of `session`, for [`Job::session`]; adds the session if it is new. Returns `None` if there
    /// is no room for one more. The last session is compared first, because consecutive jobs mostly share one.
    pub fn session(&mut self, session: &Arc<Session>) -> Option<u16> {
        let known = self.sessions.iter().rposition(|known| Arc::ptr_eq(known, session));
        let place = u16::try_from(known.unwrap_or(self.sessions.len())).ok()?;
        if known.is_none() {
            self.sessions.push(Arc::clone(session));
        }
        Some(place)
    }

    /// Returns a job as up to `parts` jobs over consecutive bytes of its body, which may run at the same time
    /// (`block` placement). Returns `None` if blocks depend on one another, or on a tag: only a cipher without a MAC
    /// can be split, in ECB or CTR mode, or in CBC mode to open. The job must not have run. A digest is split by
    /// [`Self::cut_tree`].
    pub fn split(&self, job: usize, parts: usize) -> Option<ArrayVec<Job, PARTS_MAX>> {
        let job = self.jobs.get(job).filter(|job| job.status == JobStatus::Pending)?;
        let body = self.buffer.bytes().get(job.body.range())?;
        let Protection::Cipher(Cipher::Block(cipher, mode)) =
            self.sessions.get(usize::from(job.session))?.protection()
        else {
            return None;
        };
        if (mode, self.direction) == (Mode::Cbc, Direction::Seal) {
            return None;
        }
        let block_bytes = cipher.block_bytes();
        let blocks = body.len() / block_bytes;
        let part_bytes = blocks.div_ceil(parts.clamp(1, PARTS_MAX)).max(1) * block_bytes;
        let mut split = ArrayVec::new();
        let (mut start, mut iv) = (0, job.iv);
        // The last part includes the bytes that fill no whole block.
        while start < body.len() || split.is_empty() {
            let is_last = body.len() - start < part_bytes + block_bytes;
            let end = if is_last { body.len() } else { start + part_bytes };
            let span = Span::new(job.body.start + start as u32, (end - start) as u32);
            split.push(Job { body: span, iv, ..*job });
            match mode {
                Mode::Ecb => {}
                Mode::Cbc => iv[..block_bytes]
                    .copy_from_slice(&body[end.max(block_bytes) - block_bytes..][..block_bytes]),
                Mode::Ctr => increase(&mut iv[..block_bytes], part_bytes / block_bytes),
            }
            start = end;
        }
        Some(split)
    }

    /// Returns the number of jobs that have not run.
    pub fn pending(&self) -> usize {
        self.jobs.iter().filter(|job| job.status == JobStatus::Pending).count()
    }
}

/// Adds `by` to a big-endian number.
pub(crate) fn increase(number: &mut [u8], by: usize) {
    let mut carry = by;
    for byte in number.iter_mut().rev() {
        let sum = usize::from(*byte) + (carry & 0xff);
        *byte = sum as u8;
        carry = (carry >> 8) + (sum >> 8);
    }
}
