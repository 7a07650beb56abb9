//! Records by our own kernels.
//!
//! Guarantees: a record is taken apart in one place, whether it goes to a kernel alone or with its neighbours.

use sealane_transform::{AeadJob, AeadKey, Buffer, Kernels};

use crate::{batch::Direction, session::NonceMask};

/// Tag of every AEAD that our own kernels run.
pub(crate) const TAG_BYTES: usize = 16;

/// An AEAD's key, and what runs it.
pub(crate) struct OwnAead {
    pub(crate) kernels: Kernels,
    pub(crate) key: AeadKey,
    pub(crate) nonces: NonceMask,
    /// Nothing is encrypted: records are associated data.
    pub(crate) is_gmac: bool,
}

impl OwnAead {
    /// The call for a record (header, body, tag), and where its tag lies; `None` if it is too short for both.
    pub(crate) fn call<'a>(
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

    /// Runs calls of this algorithm, whatever their keys.
    pub(crate) fn run(&self, direction: Direction, calls: &mut [AeadJob<'_>]) {
        match direction {
            Direction::Seal => self.kernels.seal(self.key.algorithm(), calls),
            Direction::Open => self.kernels.open(self.key.algorithm(), calls),
        };
    }
}
