//! Jobs over one buffer.
//!
//! Guarantees: a job names its bytes by spans of the work's buffer, its keys by their place among the work's sessions,
//! and carries everything else itself; so it can run anywhere, and again, with the same result.

use std::{ops::Range, sync::Arc};

use arrayvec::ArrayVec;
use sealane_transform::{Cipher, Mode};

use crate::{Buffer, Protection, Session};

/// Most parts of one job.
pub const PARTS_MAX: usize = 8;

/// Bytes of a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// Where they start.
    pub start: u32,
    /// How many there are.
    pub len: u32,
}

impl Span {
    /// `len` bytes from `start` on.
    pub const fn new(start: u32, len: u32) -> Self {
        Self { start, len }
    }

    /// Where the bytes end; beyond any buffer's length if the sum is beyond what a span can say.
    pub const fn end(self) -> usize {
        (self.start as usize).saturating_add(self.len as usize)
    }

    /// As a range of a buffer's bytes.
    pub const fn range(self) -> Range<usize> {
        self.start as usize..self.end()
    }

    /// Whether there are no bytes.
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }
}

/// Up to 8 bytes that are authenticated as if they stood behind a job's other bytes, though no buffer holds them: the
/// half of an extended sequence number that does not travel (RFC 4303, section 2.2.1). With an AEAD they may stand among the
/// clear bytes instead ([`Self::behind_first`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Suffix {
    bytes: [u8; Self::BYTES_MAX],
    len: u8,
    /// Bytes of `clear` in front of it, where it does not stand behind everything.
    front_bytes: Option<u8>,
}

impl Suffix {
    /// The longest.
    pub const BYTES_MAX: usize = 8;
    /// No bytes.
    pub const NONE: Self = Self { bytes: [0; Self::BYTES_MAX], len: 0, front_bytes: None };

    /// All of `bytes`, or `None` if they are more than [`Self::BYTES_MAX`].
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut suffix = Self::NONE;
        suffix.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        suffix.len = bytes.len() as u8;
        Some(suffix)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The same bytes behind the first `clear_bytes` of the clear bytes, as in GMAC's packets (RFC 4543, section 3.3). An AEAD
    /// takes it; to any other protection the job is malformed.
    #[must_use]
    pub const fn behind_first(self, clear_bytes: u8) -> Self {
        Self { front_bytes: Some(clear_bytes), ..self }
    }

    /// Bytes of `clear` in front of it, where it stands among them.
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

/// Which way jobs run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Protect.
    #[default]
    Seal,
    /// Verify and unprotect.
    Open,
}

/// What became of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobStatus {
    /// Not run: its bytes are what they were.
    #[default]
    Pending,
    /// Done.
    Done,
    /// The tag is wrong. Its body is not to be used.
    Forged,
    /// Spans that lie outside the buffer or within each other, a session that is not there, or a length that the
    /// protection does not take: a fault of the caller. Its bytes are what they were.
    Malformed,
}

/// One packet's or record's cryptography.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// Place of the session in [`Work::sessions`].
    pub session: u16,
    /// Authenticated only.
    pub clear: Span,
    /// Transformed in place, and authenticated as it travels.
    pub body: Span,
    /// Where the tag goes, or comes from; as long as the session's protection says. Apart from the body. If it lies
    /// within `clear`, its bytes count as zero there, as in AH (RFC 4302, section 3.3.3.1).
    pub tag: Span,
    /// What the protection takes of its front: an AEAD's 12-byte nonce, a block cipher's IV or first counter block.
    pub iv: [u8; 16],
    /// Authenticated behind `clear` and `body`; with an AEAD behind `clear`. A cipher alone takes none.
    pub suffix: Suffix,
    /// Outcome.
    pub status: JobStatus,
}

/// Jobs over one buffer: the unit of submission. Knows no order among others.
#[derive(Debug, Default)]
pub struct Work {
    /// The owner's: by it the owner knows the work again, which an engine hands back in any order. No engine changes
    /// it.
    pub token: u64,
    /// The bytes.
    pub buffer: Buffer,
    /// The sessions that the jobs name.
    pub sessions: Vec<Arc<Session>>,
    /// What to do.
    pub jobs: Vec<Job>,
    /// Which way.
    pub direction: Direction,
}

impl Work {
    /// The place of `session`, for [`Job::session`]; it is added if it is not there. `None` if there is no room for one
    /// more. Looks at the last first: neighbours mostly share one.
    pub fn session(&mut self, session: &Arc<Session>) -> Option<u16> {
        let known = self.sessions.iter().rposition(|known| Arc::ptr_eq(known, session));
        let place = u16::try_from(known.unwrap_or(self.sessions.len())).ok()?;
        if known.is_none() {
            self.sessions.push(Arc::clone(session));
        }
        Some(place)
    }

    /// A job as up to `parts` jobs over consecutive bytes of its body, which may run at the same time (`block` placement).
    /// `None` where blocks wait for one another, or for a tag: only a cipher alone comes apart, in ECB or CTR mode, or to
    /// be opened in CBC mode. The job must not have run. A digest comes apart by [`Self::cut_tree`].
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
        // The last part takes what is no whole block.
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

    /// Jobs that have not run.
    pub fn pending(&self) -> usize {
        self.jobs.iter().filter(|job| job.status == JobStatus::Pending).count()
    }
}

/// Adds to a big-endian number.
pub(crate) fn increase(number: &mut [u8], by: usize) {
    let mut carry = by;
    for byte in number.iter_mut().rev() {
        let sum = usize::from(*byte) + (carry & 0xff);
        *byte = sum as u8;
        carry = (carry >> 8) + (sum >> 8);
    }
}
