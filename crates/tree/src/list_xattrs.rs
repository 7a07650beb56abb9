//! The names of an entry's extended attributes, asked for by its name in an open directory.
//!
//! Guarantees: the entry is not opened, and a symbolic link is not followed; a kernel that has no such call (before Linux
//! 6.13) is noticed.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

/// `listxattrat(2)`: the number is the same on all architectures.
const LISTXATTRAT: libc::c_long = 465;

/// Fills `list` with the names, each with a NUL behind it, and returns their length in bytes. [`Errno::NOSYS`] means that
/// the kernel has no such call.
pub(crate) fn list_at(directory: BorrowedFd<'_>, name: &CStr, list: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the name ends with a NUL, the kernel writes no more than the given length of the list, and both outlive
    // the call; the descriptor is borrowed for its duration.
    let length = unsafe {
        libc::syscall(
            LISTXATTRAT,
            directory.as_raw_fd(),
            name.as_ptr(),
            libc::AT_SYMLINK_NOFOLLOW,
            list.as_mut_ptr(),
            list.len(),
        )
    };
    match usize::try_from(length) {
        Ok(length) => Ok(length),
        Err(_) => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}
