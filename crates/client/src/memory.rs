//! The memory that a client and the service share, accessed as atomic words.
//!
//! **Guarantees:** its length does not change as long as it is mapped, because it is sealed against shrinking before
//! another process gets it: no process can make an access fail. Regardless of the writes of the other process, a read
//! returns some word: this module gives out no references into the memory other than to atomics.

#![allow(unsafe_code)]

use crate::doorbell::Bells;
use crate::ring::{WORDS, Words};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// The length of the doorbells, at the start.
const BELLS_BYTES: usize = 256;

/// The length of the whole memory in bytes.
const BYTES: usize = BELLS_BYTES + WORDS * 8;

const _: () = assert!(size_of::<Bells>() == BELLS_BYTES && align_of::<Bells>() <= 4096);

/// A mapping of the shared memory.
#[derive(Debug)]
pub struct Memory {
    address: NonNull<u8>,
}

// SAFETY: all accesses go through atomics, and the mapping lives until the value is dropped.
unsafe impl Send for Memory {}
// SAFETY: all accesses go through atomics.
unsafe impl Sync for Memory {}

impl Memory {
    /// Makes new memory, zeroed and sealed; returns it with the descriptor by which another process maps it.
    ///
    /// # Errors
    /// Fails if the kernel does.
    pub fn create() -> io::Result<(Self, OwnedFd)> {
        let fd = memfd_create("sealane-rings", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&fd, BYTES as u64)?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((Self::map_whole(fd.as_fd())?, fd))
    }

    /// Maps the memory that another process has created.
    ///
    /// # Errors
    /// Fails with `InvalidData` if it has another size or could shrink, or if the kernel fails.
    pub fn map(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let is_sealed = fcntl_get_seals(fd)?.contains(SealFlags::SHRINK);
        if !is_sealed || usize::try_from(fstat(fd)?.st_size) != Ok(BYTES) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the shared memory is not what was agreed",
            ));
        }
        Self::map_whole(fd)
    }

    fn map_whole(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let address = unsafe { mmap(std::ptr::null_mut(), BYTES, protection, MapFlags::SHARED, fd, 0) }?;
        let address = NonNull::new(address.cast()).ok_or_else(|| io::Error::other("mmap gave no address"))?;
        Ok(Self { address })
    }

    /// Returns the bells by which either side wakes the other.
    #[inline]
    pub fn bells(&self) -> &Bells {
        // SAFETY: the mapping begins at a page, is longer than `Bells`, lives as long as `self`, and `Bells` consists
        // of atomics only, for which any bytes are valid.
        unsafe { self.address.cast::<Bells>().as_ref() }
    }
}

impl Words for Memory {
    #[inline]
    fn words(&self) -> &[AtomicU64; WORDS] {
        // SAFETY: the mapping has `WORDS` words behind the bells, at a multiple of eight; it lives as long as `self`,
        // and any bytes are a valid value of an atomic.
        unsafe { self.address.add(BELLS_BYTES).cast::<[AtomicU64; WORDS]>().as_ref() }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: exactly what `map_whole` has mapped; no reference outlives `self`. A failure leaves the mapping in
        // place.
        let _ = unsafe { munmap(self.address.as_ptr().cast(), BYTES) };
    }
}
