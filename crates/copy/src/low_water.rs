//! `SO_RCVLOWAT`: the number of bytes that must have arrived before a poll for input returns. No library wraps it.
//!
//! `unsafe`: setsockopt(2).
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Makes a poll of the socket return when `bytes` can be read, or at the end of the stream. If the kernel refuses,
/// polls return earlier.
pub(crate) fn set(socket: BorrowedFd<'_>, bytes: usize) {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    // SAFETY: the descriptor is live, and the pointer is to an integer of the given size.
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
