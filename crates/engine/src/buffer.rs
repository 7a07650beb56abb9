//! Memory that holds the bytes of jobs.
//!
//! Guarantees: a buffer never grows after it was made; a buffer that was allocated here starts on a cache line; only
//! the owner of a buffer can write its bytes.

use std::fmt;

const CACHE_LINE_BYTES: usize = 64;

/// A fixed block of bytes. Nobody but its owner writes them: code that verifies a tag and then reads the bytes again relies on
/// that. What another process can write is copied into a buffer before it is first read, and results are copied out.
#[derive(Default)]
pub struct Buffer {
    storage: Vec<u8>,
    start: usize,
    capacity_bytes: usize,
}

impl Buffer {
    /// Allocates `capacity_bytes` zero bytes, which start on a cache line. The default has none, and allocates nothing: it
    /// replaces a buffer that was taken out.
    pub fn new(capacity_bytes: usize) -> Self {
        let storage = vec![0; capacity_bytes + CACHE_LINE_BYTES];
        let start = storage.as_ptr().align_offset(CACHE_LINE_BYTES).min(CACHE_LINE_BYTES);
        Self { storage, start, capacity_bytes }
    }

    /// Returns all bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.storage[self.start..self.start + self.capacity_bytes]
    }

    /// Returns all bytes for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.storage[self.start..self.start + self.capacity_bytes]
    }

    /// Returns the fixed size in bytes.
    pub fn capacity_bytes(&self) -> usize {
        self.capacity_bytes
    }
}

impl sealane_lanes::Recycle for Buffer {
    /// Does nothing: the user of a buffer knows how much of it is filled.
    fn recycle(&mut self) {}
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The contents may be plaintext.
        f.debug_struct("Buffer").field("capacity_bytes", &self.capacity_bytes()).finish_non_exhaustive()
    }
}
