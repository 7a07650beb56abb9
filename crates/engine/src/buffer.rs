//! Memory that holds the bytes of jobs.
//!
//! Guarantees: a buffer never grows after it was made; a buffer that was allocated here starts on a cache line; only
//! the owner of a buffer can write its bytes.

use std::fmt;

const CACHE_LINE_BYTES: usize = 64;

/// Memory that is allocated elsewhere, such as huge pages or pages that a device may access. Its length never
/// changes.
///
/// An implementation promises that nobody else writes these bytes as long as it exists: no other thread, no device
/// that was not given the work, and no other process. Code that verifies a tag and then reads the bytes again relies
/// on that, and so does every `&[u8]`. Memory that another process has mapped writable is therefore never a `Memory`,
/// even if that process has agreed not to write it: the bytes are copied into a [`Buffer`] before they are first
/// read, and results are copied out.
pub trait Memory: Send + Sync {
    /// Returns all bytes.
    fn bytes(&self) -> &[u8];

    /// Returns all bytes for writing.
    fn bytes_mut(&mut self) -> &mut [u8];
}

/// A fixed block of bytes.
pub struct Buffer {
    owner: Owner,
}

enum Owner {
    Heap { storage: Vec<u8>, start: usize, capacity_bytes: usize },
    Memory(Box<dyn Memory>),
}

impl Buffer {
    /// Allocates `capacity_bytes` zero bytes, which start on a cache line.
    pub fn new(capacity_bytes: usize) -> Self {
        let storage = vec![0; capacity_bytes + CACHE_LINE_BYTES];
        let start = storage.as_ptr().align_offset(CACHE_LINE_BYTES).min(CACHE_LINE_BYTES);
        Self { owner: Owner::Heap { storage, start, capacity_bytes } }
    }

    /// Makes a buffer from memory that the caller provides.
    pub fn from_memory(memory: Box<dyn Memory>) -> Self {
        Self { owner: Owner::Memory(memory) }
    }

    /// Returns all bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.owner {
            Owner::Heap { storage, start, capacity_bytes } => &storage[*start..*start + *capacity_bytes],
            Owner::Memory(memory) => memory.bytes(),
        }
    }

    /// Returns all bytes for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.owner {
            Owner::Heap { storage, start, capacity_bytes } => &mut storage[*start..*start + *capacity_bytes],
            Owner::Memory(memory) => memory.bytes_mut(),
        }
    }

    /// Returns the fixed size in bytes.
    pub fn capacity_bytes(&self) -> usize {
        match &self.owner {
            Owner::Heap { capacity_bytes, .. } => *capacity_bytes,
            Owner::Memory(memory) => memory.bytes().len(),
        }
    }
}

impl Default for Buffer {
    /// Returns a buffer without bytes, which allocates nothing: it replaces a buffer that was taken out.
    fn default() -> Self {
        Self { owner: Owner::Heap { storage: Vec::new(), start: 0, capacity_bytes: 0 } }
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
