//! Key schedule of a transfer.
//!
//! ```text
//! master (from the control channel) ──► transfer = derive(master, "transfer", hash of request and answer)
//!                 between two servers ──► transfer = derive(master, "relayed", the transfer's name)
//! transfer ──► join key    = derive("join")
//! transfer ──► folders key = derive("folders")
//! transfer ──► delta key   = derive("delta")
//! transfer ──► stream key  = derive("stream", index, generation, direction)     one per TCP connection and way
//! ```
//!
//! Guarantees: both ends have the same keys only if they saw the same request and the same answer, so lowering the
//! level on the way makes the transfer fail (between two servers, their client compares); no two connections,
//! openings or directions share a key.

use sealane_engine::record::{Association, Secret};
use sealane_engine::{Implementations, Suite};

/// The label of the TLS exporter (RFC 8446, section 7.5) that gives the master secret.
pub const EXPORTER_LABEL: &[u8] = b"EXPORTER-sealane-transfer-1";

/// The direction of a data stream's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamDirection {
    /// File contents, from the sender to the receiver.
    Forward,
    /// Acknowledgements, from the receiver to the sender.
    Backward,
}

/// The secrets of one transfer.
#[derive(Clone, Debug)]
pub struct TransferKeys {
    implementations: Implementations,
    transfer: Secret,
}

impl TransferKeys {
    /// Derives the keys from the master secret and the two handshake frames as they crossed the control channel.
    pub fn new(implementations: Implementations, master: &Secret, request: &[u8], answer: &[u8]) -> Self {
        let mut transcript = blake3::Hasher::new();
        transcript.update(&(request.len() as u64).to_le_bytes());
        transcript.update(request).update(answer);
        Self { implementations, transfer: master.derive(&[b"transfer", transcript.finalize().as_bytes()]) }
    }

    /// Derives the keys from the master secret and the transfer's name, for streams between two servers of one
    /// client: each has its own request and answer, which the client compares.
    pub fn relayed(implementations: Implementations, master: &Secret, transfer: &[u8; 16]) -> Self {
        Self { implementations, transfer: master.derive(&[b"relayed", transfer]) }
    }

    /// Returns the key that proves that a TCP connection belongs to the transfer.
    pub fn join(&self) -> Secret {
        self.transfer.derive(&[b"join"])
    }

    /// Returns the key of the digests by which folders are compared: nobody can make two folders that look the same before
    /// the transfer has begun.
    pub fn folders(&self) -> Secret {
        self.transfer.derive(&[b"folders"])
    }

    /// Returns the key of the hashes by which versions of a file are compared: nobody can make two pieces that look the same
    /// before the transfer has begun.
    pub fn delta(&self) -> Secret {
        self.transfer.derive(&[b"delta"])
    }

    /// Returns the keys of one direction of one opening of one stream.
    pub fn stream(
        &self,
        suite: Suite,
        stream: u16,
        generation: u32,
        direction: StreamDirection,
    ) -> Association {
        let way: &[u8] = match direction {
            StreamDirection::Forward => b"forward",
            StreamDirection::Backward => b"backward",
        };
        let secret =
            self.transfer.derive(&[b"stream", &stream.to_le_bytes(), &generation.to_le_bytes(), way]);
        Association::new(self.implementations, suite, secret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_handshake_changes_every_key() {
        let master = Secret::new([9; 32]);
        let best = Implementations::default();
        let keys = TransferKeys::new(best, &master, b"private", b"ok");
        assert_eq!(keys.join().expose(), TransferKeys::new(best, &master, b"private", b"ok").join().expose());
        for (request, answer) in [(&b"clear"[..], &b"ok"[..]), (b"private", b"ok!"), (b"privat", b"eok")] {
            let other = TransferKeys::new(best, &master, request, answer);
            assert_ne!(keys.join().expose(), other.join().expose());
        }
    }
}
