//! System calls of the service that no library here wraps safely.

#![allow(unsafe_code)]

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

/// The other end of a connection, according to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// The number of its process; 0 if it is in another namespace of processes, where it has none here.
    pub(crate) process: i32,
}

/// Returns who has connected (`SO_PEERCRED`, unix(7)).
pub(crate) fn peer(socket: impl AsFd) -> io::Result<Peer> {
    let mut found = MaybeUninit::<libc::ucred>::zeroed();
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    let place = found.as_mut_ptr().cast();
    // SAFETY: `place` is valid for `length` bytes, of which the kernel writes no more.
    let outcome =
        unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, place, &raw mut length) };
    if outcome != 0 || length as usize != size_of::<libc::ucred>() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has written all of it, and any three numbers are a value.
    let found = unsafe { found.assume_init() };
    Ok(Peer { user: found.uid, group: found.gid, process: found.pid })
}

/// `SO_PASSRIGHTS` of Linux 6.16 (asm-generic/socket.h).
const SO_PASSRIGHTS: libc::c_int = 83;

/// Has the kernel refuse whoever sends descriptors to this socket, or to those that are accepted from it; returns whether it can.
pub(crate) fn refuse_descriptors(socket: impl AsFd) -> bool {
    let off: libc::c_int = 0;
    let (value, length) = ((&raw const off).cast(), size_of::<libc::c_int>() as libc::socklen_t);
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `value` is valid for `length` bytes, which the kernel reads.
    unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, SO_PASSRIGHTS, value, length) == 0 }
}

/// The first descriptor that a service manager gives (sd_listen_fds(3)).
const FIRST_GIVEN: RawFd = 3;

/// Returns copies of the descriptors that a service manager has given to this process.
///
/// # Errors
/// Fails if one of them is not open.
pub fn given(count: u32) -> io::Result<Vec<OwnedFd>> {
    let number = |index: u32| RawFd::try_from(index).ok().and_then(|index| FIRST_GIVEN.checked_add(index));
    let copy = |index| {
        let fd = number(index).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: fcntl(2) touches no memory, and fails for a number that is no descriptor. It is not `pidfd_getfd(2)`, which
        // filters of system calls for services refuse.
        let made = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, FIRST_GIVEN) };
        if made < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made it, and nobody else has its number.
        Ok(unsafe { OwnedFd::from_raw_fd(made) })
    };
    (0..count).map(copy).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    #[test]
    fn the_kernel_says_who_is_there() {
        let (one, _other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let own = Peer {
            user: rustix::process::geteuid().as_raw(),
            group: rustix::process::getegid().as_raw(),
            process: std::process::id().cast_signed(),
        };
        assert_eq!(peer(&one).unwrap(), own);
    }

    #[test]
    fn a_descriptor_that_is_not_open_is_an_error() {
        assert!(given(1 << 20).is_err());
        assert_eq!(given(0).unwrap().len(), 0);
    }
}
