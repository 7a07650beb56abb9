//! TCP segments: how large they may be, and whether they arrive. No library wraps these options.
//!
//! `unsafe`: setsockopt(2), getsockopt(2).
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::time::Duration;

/// Neither end of a connection that is made after this sends segments of more than so many bytes. Where the kernel
/// refuses, they are as large as ever.
pub(crate) fn limit(socket: BorrowedFd<'_>, bytes: u16) {
    let bytes = libc::c_int::from(bytes);
    // SAFETY: a live descriptor, and an integer of the size that is told.
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

/// Bytes of the largest segment that this end sends. 0 for what is no TCP.
pub(crate) fn size(socket: BorrowedFd<'_>) -> usize {
    let mut bytes: libc::c_int = 0;
    let mut length = size_of_val(&bytes) as libc::socklen_t;
    // SAFETY: a live descriptor, and an integer of the size that is told.
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

/// How often in a row the kernel has sent the oldest segment again, without any answer to it. 0 for what is no TCP.
pub(crate) fn unanswered(socket: BorrowedFd<'_>) -> u8 {
    // `tcpi_retransmits` of `struct tcp_info`.
    info::<8>(socket)[2]
}

/// Segments that were sent again, and segments that arrived before one that was sent earlier. 0 for what is no TCP.
pub(crate) fn losses(socket: BorrowedFd<'_>) -> u64 {
    const TOTAL_RETRANS: usize = 100;
    const RCV_OOOPACK: usize = 224;
    let info = info::<228>(socket);
    field(&info, TOTAL_RETRANS) + field(&info, RCV_OOOPACK)
}

/// The shortest round trip that the kernel has seen on a connection, with its first packets. Zero for what is no TCP.
pub(crate) fn round_trip(socket: BorrowedFd<'_>) -> Duration {
    const MIN_RTT: usize = 148;
    Duration::from_micros(field(&info::<228>(socket), MIN_RTT))
}

fn field(info: &[u8], at: usize) -> u64 {
    let bytes = info.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    u64::from(bytes.map_or(0, u32::from_ne_bytes))
}

/// The first bytes of the kernel's `struct tcp_info`, zeros where it knows none. Its fields stay where they are from
/// version to version.
fn info<const BYTES: usize>(socket: BorrowedFd<'_>) -> [u8; BYTES] {
    let mut info = [0u8; BYTES];
    let mut length = BYTES as libc::socklen_t;
    // SAFETY: a live descriptor, and a buffer of the size that is told; the kernel gives as much as there is room for.
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
