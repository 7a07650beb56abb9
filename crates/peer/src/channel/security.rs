//! The layer between frames and the wire: nothing, or TLS. Neither ever blocks.

use std::io::{self, IoSlice, Read, Write};

use rustls::Connection;
use zeroize::{Zeroize, Zeroizing};

use super::wire::{Wire, now_or_never};
use crate::error::ChannelError;
use crate::frame::Framer;
use crate::key::PublicKey;

/// The parameters that the two ends of a TLS connection agreed upon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFacts {
    /// The key exchange group, such as `X25519MLKEM768`.
    pub group: String,
    /// The cipher suite, such as `TLS13_AES_256_GCM_SHA384`.
    pub suite: String,
    /// The key that the other end has proved to own.
    pub peer_key: PublicKey,
}

/// Bytes read from the wire at once.
const CHUNK_BYTES: usize = 64 << 10;
/// Most bytes of foreign text in a message.
const BANNER_BYTES: usize = 200;

/// The state between frames and wire.
pub(super) enum Security {
    /// Plain bytes, over a transport that is confidential by itself.
    Plain {
        /// Frames under way, possibly with secrets.
        out: Zeroizing<Vec<u8>>,
        /// Number of bytes of `out` that are written.
        written: usize,
        chunk: Zeroizing<Vec<u8>>,
        /// Number of bytes of `chunk` that the last read filled.
        filled: usize,
    },
    /// TLS after its handshake.
    Tls {
        connection: Box<Connection>,
        /// Our own key, for the message if the server refuses it.
        ours: PublicKey,
        chunk: Zeroizing<Vec<u8>>,
    },
}

/// The result of a read.
pub(super) enum Filled {
    /// Something arrived.
    Some,
    /// There are no bytes now.
    Nothing,
    /// The stream ended; `orderly` if the peer announced it.
    End { orderly: bool },
}

impl Security {
    pub(super) fn plain() -> Self {
        let chunk = Zeroizing::new(vec![0; CHUNK_BYTES]);
        Self::Plain { out: Zeroizing::default(), written: 0, chunk, filled: 0 }
    }

    pub(super) fn tls(mut connection: Connection, ours: PublicKey) -> Self {
        // A frame is at most 1 MiB, and one is written before the next is accepted.
        connection.set_buffer_limit(None);
        Self::Tls { connection: Box::new(connection), ours, chunk: Zeroizing::new(vec![0; CHUNK_BYTES]) }
    }

    /// Returns the beginning of the bytes of the last read.
    pub(super) fn first_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Plain { chunk, filled, .. } => Some(&chunk[..(*filled).min(BANNER_BYTES)]),
            Self::Tls { .. } => None,
        }
    }

    /// Queues a frame for writing; its length has been checked.
    pub(super) fn queue(&mut self, header: &[u8], body: &[u8]) -> Result<(), ChannelError> {
        match self {
            Self::Plain { out, .. } => {
                // The capacity is reserved at once, because a growing buffer would leave copies of secrets behind.
                out.reserve_exact(header.len() + body.len());
                out.extend_from_slice(header);
                out.extend_from_slice(body);
                Ok(())
            }
            Self::Tls { connection, .. } => {
                let mut parts = [IoSlice::new(header), IoSlice::new(body)];
                let mut parts = &mut parts[..];
                let mut left = header.len() + body.len();
                while left > 0 {
                    let n =
                        connection.writer().write_vectored(parts).map_err(ChannelError::io("encrypting"))?;
                    if n == 0 {
                        return Err(ChannelError::Poisoned);
                    }
                    left -= n;
                    IoSlice::advance_slices(&mut parts, n);
                }
                Ok(())
            }
        }
    }

    /// Returns whether bytes wait to be written.
    pub(super) fn has_output(&self) -> bool {
        match self {
            Self::Plain { out, .. } => !out.is_empty(),
            Self::Tls { connection, .. } => connection.wants_write(),
        }
    }

    /// Writes as many bytes as the wire takes now.
    pub(super) fn flush(&mut self, wire: &Wire) -> io::Result<()> {
        match self {
            Self::Plain { out, written, .. } => {
                while *written < out.len() {
                    match now_or_never(|| (&*wire).write(&out[*written..]))? {
                        Some(0) => return Err(io::ErrorKind::WriteZero.into()),
                        Some(n) => *written += n,
                        None => return Ok(()),
                    }
                }
                *written = 0;
                if out.capacity() > CHUNK_BYTES {
                    // Wiping covers the whole allocation, a cost that the next small frame should not have.
                    *out = Zeroizing::default();
                } else {
                    out.zeroize();
                }
                Ok(())
            }
            Self::Tls { connection, .. } => flush_tls(connection, wire),
        }
    }

    /// Reads the available bytes, at most one chunk, into the framer.
    pub(super) fn fill(&mut self, wire: &Wire, framer: &mut Framer) -> Result<Filled, ChannelError> {
        match self {
            Self::Plain { chunk, filled, .. } => {
                let read = now_or_never(|| (&*wire).read(&mut chunk[..]));
                match read {
                    Ok(Some(0)) => Ok(Filled::End { orderly: framer.at_boundary() }),
                    Ok(Some(n)) => {
                        *filled = n;
                        framer.push(&chunk[..n])?;
                        Ok(Filled::Some)
                    }
                    Ok(None) => Ok(Filled::Nothing),
                    Err(e) if is_cut(&e) => Ok(Filled::End { orderly: false }),
                    Err(source) => Err(ChannelError::Io { doing: "reading", source }),
                }
            }
            Self::Tls { connection, ours, chunk } => {
                // Bytes that are decrypted already come first: the handshake may have read the first frames, or even
                // the end, and then no more bytes need ever come.
                match drain(connection, chunk, framer)? {
                    Filled::Nothing => {}
                    filled => return Ok(filled),
                }
                let read = now_or_never(|| connection.read_tls(&mut &*wire));
                match read {
                    Ok(Some(0)) => return Ok(Filled::End { orderly: false }),
                    Ok(Some(_)) => {}
                    Ok(None) => return Ok(Filled::Nothing),
                    Err(e) if is_cut(&e) => return Ok(Filled::End { orderly: false }),
                    Err(source) => return Err(ChannelError::Io { doing: "reading", source }),
                }
                if let Err(error) = connection.process_new_packets() {
                    // This sends the peer the reason, if it still listens.
                    let _ = flush_tls(connection, wire);
                    return Err(explain(error, *ours));
                }
                match drain(connection, chunk, framer)? {
                    Filled::Nothing => Ok(Filled::Some),
                    filled => Ok(filled),
                }
            }
        }
    }

    /// Asks TLS for fresh keys in both directions.
    #[cfg(test)]
    pub(super) fn update_keys(&mut self) {
        if let Self::Tls { connection, .. } = self {
            connection.refresh_traffic_keys().unwrap();
        }
    }

    /// Queues TLS's own goodbye.
    pub(super) fn queue_goodbye(&mut self) {
        if let Self::Tls { connection, .. } = self {
            connection.send_close_notify();
        }
    }
}

/// Moves decrypted bytes into the framer.
fn drain(connection: &mut Connection, chunk: &mut [u8], framer: &mut Framer) -> Result<Filled, ChannelError> {
    let mut filled = Filled::Nothing;
    while let Some(n) =
        now_or_never(|| connection.reader().read(chunk)).map_err(ChannelError::io("decrypting"))?
    {
        if n == 0 {
            // The peer's close_notify.
            return Ok(Filled::End { orderly: framer.at_boundary() });
        }
        framer.push(&chunk[..n])?;
        filled = Filled::Some;
    }
    Ok(filled)
}

/// Writes as many bytes as the wire takes now.
pub(crate) fn flush_tls(connection: &mut Connection, wire: &Wire) -> io::Result<()> {
    while connection.wants_write() {
        match now_or_never(|| connection.write_tls(&mut &*wire))? {
            Some(0) => return Err(io::ErrorKind::WriteZero.into()),
            Some(_) => {}
            None => break,
        }
    }
    Ok(())
}

/// Returns whether the error means that the peer is gone.
pub(crate) fn is_cut(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    matches!(
        error.kind(),
        K::ConnectionReset | K::ConnectionAborted | K::BrokenPipe | K::UnexpectedEof | K::TimedOut
    )
}

/// Returns a TLS error as an error of this crate.
pub(crate) fn explain(error: rustls::Error, ours: PublicKey) -> ChannelError {
    use rustls::AlertDescription as A;
    match error {
        rustls::Error::AlertReceived(A::AccessDenied) => ChannelError::Refused { ours },
        rustls::Error::AlertReceived(A::NoApplicationProtocol) | rustls::Error::NoApplicationProtocol => {
            ChannelError::WrongProtocol
        }
        // This alert covers anything that cannot be agreed upon (RFC 8446, section 6.2); our ends agree in all but
        // the key exchange.
        rustls::Error::AlertReceived(A::HandshakeFailure)
        | rustls::Error::PeerIncompatible(rustls::PeerIncompatible::NoKxGroupsInCommon) => {
            ChannelError::NoKeyExchange
        }
        rustls::Error::PeerIncompatible(rustls::PeerIncompatible::NoSignatureSchemesInCommon) => {
            ChannelError::NoHybrid
        }
        rustls::Error::InvalidCertificate(rustls::CertificateError::BadSignature) => ChannelError::NotOwner,
        rustls::Error::InvalidCertificate(rustls::CertificateError::BadEncoding) => ChannelError::NoKey,
        source if is_altered(&source) => ChannelError::Altered { source },
        other => ChannelError::Tls(other),
    }
}

/// Returns whether bytes arrived that no honest end of this connection sends, here or, by its own account, there.
fn is_altered(error: &rustls::Error) -> bool {
    use rustls::AlertDescription as A;
    use rustls::Error as E;
    match error {
        E::DecryptError
        | E::InvalidMessage(_)
        | E::InappropriateMessage { .. }
        | E::InappropriateHandshakeMessage { .. }
        | E::PeerMisbehaved(_) => true,
        E::AlertReceived(alert) => matches!(
            alert,
            A::BadRecordMac | A::DecryptError | A::DecodeError | A::IllegalParameter | A::UnexpectedMessage
        ),
        _ => false,
    }
}
