//! Distinguishes control connections from data streams on one listener, before anything is read.

use std::net::TcpStream;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::ChannelError;

/// The first byte of a data stream's magic. No TLS record and no text protocol begins with it.
pub const DATA_FIRST_BYTE: u8 = 0xD5;

/// The type of a TLS handshake record (RFC 8446 section 5.1), with which every ClientHello begins.
const TLS_FIRST_BYTE: u8 = 0x16;

/// The kind of a new TCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionKind {
    /// A control connection: hand it to [`accept_tls`](crate::accept_tls).
    Tls,
    /// A data stream.
    Data,
    /// Another connection, or one that sent nothing in time: drop it.
    Unknown,
}

/// Peeks at the first byte of a new connection, and leaves it unread.
///
/// A stranger costs one poll and one byte, and gets no answer.
///
/// # Errors
/// Fails if the system cannot poll; a connection that breaks is [`ConnectionKind::Unknown`].
pub fn peek_kind(stream: &TcpStream, deadline: Instant) -> Result<ConnectionKind, ChannelError> {
    let doing = "looking at a new connection";
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // A deadline beyond the kernel's range means no deadline.
        let timeout = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(stream, PollFlags::IN)], timeout.as_ref()) {
            Ok(0) => return Ok(ConnectionKind::Unknown),
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(ChannelError::Io { doing, source: e.into() }),
        }
    }
    // The stream is readable, so this does not wait, whether the stream blocks or not.
    let mut first = [0];
    Ok(match stream.peek(&mut first) {
        Ok(1) if first[0] == TLS_FIRST_BYTE => ConnectionKind::Tls,
        Ok(1) if first[0] == DATA_FIRST_BYTE => ConnectionKind::Data,
        _ => ConnectionKind::Unknown,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::Duration;

    #[test]
    fn first_bytes() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        for (bytes, want) in [
            (&[0x16, 3, 1][..], ConnectionKind::Tls),
            (&[DATA_FIRST_BYTE], ConnectionKind::Data),
            (b"GET / HTTP/1.1\r\n", ConnectionKind::Unknown),
            (b"SSH-2.0-x\r\n", ConnectionKind::Unknown),
        ] {
            let mut client = TcpStream::connect(address).unwrap();
            let (mut server, _) = listener.accept().unwrap();
            assert_eq!(
                peek_kind(&server, Instant::now()).unwrap(),
                ConnectionKind::Unknown,
                "nothing came yet"
            );
            client.write_all(bytes).unwrap();
            assert_eq!(peek_kind(&server, Instant::now() + Duration::from_secs(20)).unwrap(), want);
            let mut got = vec![0; bytes.len()];
            server.read_exact(&mut got).unwrap();
            assert_eq!(got, bytes, "nothing was consumed");
            drop(client);
            let closed = peek_kind(&server, Instant::now() + Duration::from_secs(20)).unwrap();
            assert_eq!(closed, ConnectionKind::Unknown);
        }
    }
}
