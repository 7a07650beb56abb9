//! The proof that a TCP connection is a data stream of a transfer.
//!
//! ```text
//! connector:  magic(4) transfer(16) stream(2) generation(4) last(4) taken(8) proof(16)     = 54 bytes
//! acceptor:   magic(4) status(1)                                    taken(8) proof(16)     = 29 bytes
//! ```
//!
//! Guarantees: both proofs are HMAC-SHA-256 (RFC 2104, truncated to 128 bits) under the transfer's join key over all
//! preceding bytes, the acceptor's also over the connector's message: a stranger learns nothing and can only
//! disconnect, even after listening to earlier joins. At level `clear` the acceptor proves nothing: its proof is
//! zero. A generation can join only once.
//!
//! A connector whose records are encrypted may send them behind its message, without waiting for the answer: they say
//! nothing to a stranger who answers on the port. Until the proof is verified, an acceptor reads nothing but the
//! message; the rest stays in the kernel's buffer.

use aws_lc_rs::hmac;
use sealane_engine::record::Secret;
use subtle::ConstantTimeEq;

use crate::options::Level;

/// First bytes of a data stream. The first byte distinguishes it from a TLS ClientHello.
pub const MAGIC: [u8; 4] = [sealane_peer::DATA_FIRST_BYTE, b'S', b'L', 1];
/// Length of the connector's message.
pub const JOIN_BYTES: usize = 54;
/// Length of the acceptor's message.
pub const JOINED_BYTES: usize = 29;
const PROOF_BYTES: usize = 16;

/// The connector's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Join {
    /// The name of the transfer.
    pub transfer: [u8; 16],
    /// The index of the stream.
    pub stream: u16,
    /// The number of earlier openings of this stream.
    pub generation: u32,
    /// The last opening known to the connector. The acceptor may have accepted a later one whose answer was lost, and
    /// then must not count the following number as of that opening.
    pub last: u32,
    /// If the connector receives: the records taken over from that opening.
    pub taken: u64,
}

/// The acceptor's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// Whether the stream is open; a refusal means that this generation was used before.
    pub accepted: bool,
    /// If the acceptor receives: the records taken over from the stream's last opening.
    pub taken: u64,
}

/// The answer that a connector waits for.
#[derive(Clone, Debug)]
pub struct Awaited {
    prover: Prover,
    join: [u8; JOIN_BYTES],
}

impl Awaited {
    /// Reads the answer; returns `None` if its proof or form is wrong.
    pub fn verify(&self, bytes: &[u8; JOINED_BYTES]) -> Option<Joined> {
        self.prover.verify_joined(&self.join, bytes)
    }
}

/// Makes and checks proofs.
#[derive(Clone, Debug)]
pub struct Prover {
    key: hmac::Key,
    /// The acceptor proves itself too.
    mutual: bool,
}

impl Prover {
    /// Returns a prover for the given join key, at the given level.
    pub fn new(key: &Secret, level: Level) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, key.expose()), mutual: level > Level::Clear }
    }

    fn proof(&self, parts: &[&[u8]]) -> [u8; PROOF_BYTES] {
        let mut proof = [0; PROOF_BYTES];
        let mut context = hmac::Context::with_key(&self.key);
        parts.iter().for_each(|part| context.update(part));
        proof.copy_from_slice(&context.sign().as_ref()[..PROOF_BYTES]);
        proof
    }

    fn answer_proof(&self, join: &[u8; JOIN_BYTES], answer: &[u8]) -> [u8; PROOF_BYTES] {
        match self.mutual {
            true => self.proof(&[b"joined", join, answer]),
            false => [0; PROOF_BYTES],
        }
    }

    /// Returns the connector's message.
    pub fn join(&self, join: &Join) -> [u8; JOIN_BYTES] {
        let mut bytes = [0; JOIN_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..20].copy_from_slice(&join.transfer);
        bytes[20..22].copy_from_slice(&join.stream.to_le_bytes());
        bytes[22..26].copy_from_slice(&join.generation.to_le_bytes());
        bytes[26..30].copy_from_slice(&join.last.to_le_bytes());
        bytes[30..38].copy_from_slice(&join.taken.to_le_bytes());
        let proof = self.proof(&[b"join", &bytes[..38]]);
        bytes[38..].copy_from_slice(&proof);
        bytes
    }

    /// Returns whether the connector's proof is right.
    pub fn verify_join(&self, bytes: &[u8; JOIN_BYTES]) -> bool {
        self.proof(&[b"join", &bytes[..38]]).ct_eq(&bytes[38..]).into()
    }

    /// Returns the acceptor's answer to `join`.
    pub fn joined(&self, join: &[u8; JOIN_BYTES], joined: &Joined) -> [u8; JOINED_BYTES] {
        let mut bytes = [0; JOINED_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = u8::from(joined.accepted);
        bytes[5..13].copy_from_slice(&joined.taken.to_le_bytes());
        let proof = self.answer_proof(join, &bytes[..13]);
        bytes[13..].copy_from_slice(&proof);
        bytes
    }

    /// Returns the check of the answer to `join`, for a reader of its own.
    pub fn awaited(&self, join: [u8; JOIN_BYTES]) -> Awaited {
        Awaited { prover: self.clone(), join }
    }

    /// Reads the acceptor's answer to `join`; returns `None` if its proof or form is wrong.
    pub fn verify_joined(&self, join: &[u8; JOIN_BYTES], bytes: &[u8; JOINED_BYTES]) -> Option<Joined> {
        let proven: bool = self.answer_proof(join, &bytes[..13]).ct_eq(&bytes[13..]).into();
        let taken = u64::from_le_bytes(*bytes[5..].first_chunk()?);
        (proven && bytes[..4] == MAGIC && bytes[4] <= 1).then_some(Joined { accepted: bytes[4] == 1, taken })
    }
}

/// Reads the connector's message without checking its proof: the key is found by the transfer named in it.
pub fn decode(bytes: &[u8; JOIN_BYTES]) -> Option<Join> {
    (bytes[..4] == MAGIC).then_some(())?;
    Some(Join {
        transfer: *bytes[4..].first_chunk()?,
        stream: u16::from_le_bytes(*bytes[20..].first_chunk()?),
        generation: u32::from_le_bytes(*bytes[22..].first_chunk()?),
        last: u32::from_le_bytes(*bytes[26..].first_chunk()?),
        taken: u64::from_le_bytes(*bytes[30..].first_chunk()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOIN: Join = Join { transfer: [5; 16], stream: 3, generation: 7, last: 5, taken: 1 << 40 };

    #[test]
    fn both_messages_round_trip_and_any_flipped_bit_is_noticed() {
        let prover = Prover::new(&Secret::new([1; 32]), Level::Authenticated);
        let join = prover.join(&JOIN);
        assert_eq!(decode(&join), Some(JOIN));
        assert!(prover.verify_join(&join));
        let answer = Joined { accepted: true, taken: 12 };
        let joined = prover.joined(&join, &answer);
        assert_eq!(prover.verify_joined(&join, &joined), Some(answer));
        for bit in 0..JOIN_BYTES * 8 {
            let mut bad = join;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&bad).is_none() || !prover.verify_join(&bad));
            assert_eq!(prover.verify_joined(&bad, &joined), None);
        }
        for bit in 0..JOINED_BYTES * 8 {
            let mut bad = joined;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(prover.verify_joined(&join, &bad), None);
        }
    }

    #[test]
    fn nobody_joins_without_the_key_at_any_level() {
        for level in Level::ALL {
            let prover = Prover::new(&Secret::new([1; 32]), level);
            let mut join = prover.join(&JOIN);
            assert!(prover.verify_join(&join));
            assert!(!Prover::new(&Secret::new([2; 32]), level).verify_join(&join));
            // A listener could alter a recorded join to the stream's next opening.
            join[22] += 1;
            assert!(!prover.verify_join(&join), "{level}");
            join[38..].fill(0);
            assert!(!prover.verify_join(&join), "{level}");
            let answer = Joined { accepted: true, taken: 3 };
            assert_eq!(prover.verify_joined(&join, &prover.joined(&join, &answer)), Some(answer));
        }
    }
}
