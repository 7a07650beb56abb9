//! `SO_RCVLOWAT`: how much must have arrived before a poll for input wakes. No library wraps it.
//!
//! `unsafe`: setsockopt(2).
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd as _, BorrowedFd};

/// A poll of the socket wakes when `bytes` can be read, or the end. Where the kernel refuses, it wakes earlier.
pub(crate) fn set(socket: BorrowedFd<'_>, bytes: usize) {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    // SAFETY: a live descriptor, and an integer of the size that is told.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const bytes).cast(),
            size_of_val(&bytes) as libc::socklen_t,
        );
    }
}
