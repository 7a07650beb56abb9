//! TCP segments: their maximum size, and whether they arrive. No library wraps these options.
//!
//! `unsafe`: setsockopt(2), getsockopt(2).
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::time::Duration;

/// Limits the segments of the socket's connections made after this call, in both directions, to `bytes`. If the
/// kernel refuses, their size is unchanged.
pub(crate) fn limit(socket: BorrowedFd<'_>, bytes: u16) {
    let bytes = libc::c_int::from(bytes);
    // SAFETY: the descriptor is live, and the pointer is to an integer of the given size.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_MAXSEG,
            (&raw const bytes).cast(),
            size_of_val(&bytes) as libc::socklen_t,
        );
    }
}

/// Returns the length of the largest segment that this end sends in bytes. The result is 0 for other sockets than
/// TCP.
pub(crate) fn size(socket: BorrowedFd<'_>) -> usize {
    let mut bytes: libc::c_int = 0;
    let mut length = size_of_val(&bytes) as libc::socklen_t;
    // SAFETY: the descriptor is live, and the pointer is to an integer of the given size.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_MAXSEG,
            (&raw mut bytes).cast(),
            &raw mut length,
        )
    };
    if outcome == 0 { usize::try_from(bytes).unwrap_or(0) } else { 0 }
}

/// Returns the number of times in a row that the kernel has sent the oldest segment again, without an answer. The
/// result is 0 for other sockets than TCP.
pub(crate) fn unanswered(socket: BorrowedFd<'_>) -> u8 {
    // `tcpi_retransmits` of `struct tcp_info`.
    info::<8>(socket)[2]
}

/// Returns the number of segments that were sent again or that arrived before earlier ones. The result is 0 for other
/// sockets than TCP.
pub(crate) fn losses(socket: BorrowedFd<'_>) -> u64 {
    const TOTAL_RETRANS: usize = 100;
    const RCV_OOOPACK: usize = 224;
    let info = info::<228>(socket);
    field(&info, TOTAL_RETRANS) + field(&info, RCV_OOOPACK)
}

/// Returns the shortest round trip that the kernel has measured on a connection, with its first packets. The result
/// is zero for other sockets than TCP.
pub(crate) fn round_trip(socket: BorrowedFd<'_>) -> Duration {
    const MIN_RTT: usize = 148;
    Duration::from_micros(field(&info::<228>(socket), MIN_RTT))
}

fn field(info: &[u8], at: usize) -> u64 {
    let bytes = info.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    u64::from(bytes.map_or(0, u32::from_ne_bytes))
}

/// Returns the first bytes of the kernel's `struct tcp_info`, zeros if it has none. The positions of its fields are
/// the same in all versions.
fn info<const BYTES: usize>(socket: BorrowedFd<'_>) -> [u8; BYTES] {
    let mut info = [0u8; BYTES];
    let mut length = BYTES as libc::socklen_t;
    // SAFETY: the descriptor is live, and the pointer is to a buffer of the given size; the kernel writes at most
    // that many bytes.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    if outcome == 0 { info } else { [0; BYTES] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd as _;

    #[test]
    fn segments_of_the_loopback_device_are_large_unless_they_are_limited() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(size(stream.as_fd()) >= 16 << 10);
        assert!((1..1_000_000).contains(&round_trip(stream.as_fd()).as_micros()));
        limit(listener.as_fd(), 1000);
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!((1..=1000).contains(&size(stream.as_fd())));
        let (unix, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!((size(unix.as_fd()), losses(unix.as_fd()), losses(stream.as_fd())), (0, 0, 0));
    }
}
