//! One flow, one direction: algorithm, keys, sequence numbers.
//!
//! Guarantees: a sequence number is given once; the key changes before [`Suite::records_per_key`] records
//! were sealed under it, at the same record on both ends and without a message; secrets are wiped on drop.

use std::{fmt, sync::Arc};

use aws_lc_rs::hkdf;
use sealane_engine::{Implementations, Suite, record::Session};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// 256 bits from which keys are derived, wiped on drop, never printed.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Secret([u8; 32]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// Takes uniformly random bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes, for the one channel that may carry them.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// A secret for another purpose: HKDF-SHA-256 (RFC 5869) with this one as input. Each of `context`'s
    /// parts is prefixed by its length, so no two contexts run together.
    pub fn derive(&self, context: &[&[u8]]) -> Self {
        let mut derived = Self([0; 32]);
        self.expand(context, &mut derived.0);
        derived
    }

    fn expand(&self, context: &[&[u8]], output: &mut [u8]) {
        struct Length(usize);
        impl hkdf::KeyType for Length {
            fn len(&self) -> usize {
                self.0
            }
        }
        let mut info = Vec::new();
        for part in context {
            info.extend_from_slice(&(part.len() as u64).to_le_bytes());
            info.extend_from_slice(part);
        }
        let length = output.len();
        hkdf::Salt::new(hkdf::HKDF_SHA256, b"sealane 1")
            .extract(&self.0)
            .expand(&[&info], Length(length))
            .and_then(|okm| okm.fill(output))
            .expect("HKDF-SHA-256 gives up to 8160 bytes, a session needs at most 68");
    }
}

/// Records that may now be sealed or opened, in order.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Number of the first record.
    pub first_sequence: u64,
    /// How many, at least 1 and at most as many as asked for; fewer where the key changes.
    pub records: u64,
    /// Algorithm and keys for all of them.
    pub session: Arc<Session>,
}

impl Claim {
    /// Each record's number, with the keys that go with it.
    pub fn numbers(&self) -> impl Iterator<Item = (u64, &Arc<Session>)> {
        (self.first_sequence..self.first_sequence + self.records).map(|sequence| (sequence, &self.session))
    }
}

/// One direction of one flow.
#[derive(Debug)]
pub struct Association {
    implementations: Implementations,
    suite: Suite,
    secret: Secret,
    next_sequence: u64,
    epoch: u64,
    session: Arc<Session>,
}

impl Association {
    /// Starts at sequence number 0. Both ends derive the same keys from the same `secret`, which must serve
    /// no other association: derive it with a context that names flow and direction.
    pub fn new(implementations: Implementations, suite: Suite, secret: Secret) -> Self {
        let session = session(implementations, suite, &secret, 0);
        Self { implementations, suite, secret, next_sequence: 0, epoch: 0, session }
    }

    /// The algorithm.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// Records claimed so far.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Gives the next up to `records` (at least 1) sequence numbers and the keys that go with them.
    pub fn claim(&mut self, records: u64) -> Claim {
        let per_key = self.suite.records_per_key();
        let epoch = self.next_sequence / per_key;
        if epoch != self.epoch {
            self.epoch = epoch;
            self.session = session(self.implementations, self.suite, &self.secret, epoch);
        }
        let records = records.clamp(1, (epoch + 1) * per_key - self.next_sequence);
        let first_sequence = self.next_sequence;
        self.next_sequence += records;
        Claim { first_sequence, records, session: self.session.clone() }
    }

    /// Gives all of `records` sequence numbers: in one claim, or in several where the key changes.
    pub fn claim_all(&mut self, records: u64) -> Vec<Claim> {
        let mut claims = Vec::with_capacity(1);
        let mut left = records;
        while left > 0 {
            let claim = self.claim(left);
            left -= claim.records;
            claims.push(claim);
        }
        claims
    }
}

fn session(implementations: Implementations, suite: Suite, secret: &Secret, epoch: u64) -> Arc<Session> {
    let mut material = Zeroizing::new(vec![0; suite.key_bytes()]);
    if !material.is_empty() {
        secret.expand(&[b"key", suite.name().as_bytes(), &epoch.to_le_bytes()], &mut material);
    }
    Arc::new(Session::new(implementations, suite, &material).expect("the material has the suite's length"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_never_overlap_and_stop_where_the_key_changes() {
        let suite = Suite::TripleDesCbcHmacSha1;
        let mut association = Association::new(Implementations::default(), suite, Secret::new([7; 32]));
        let mut expected = 0;
        let mut sessions: Vec<Arc<Session>> = Vec::new();
        while expected < 3 * suite.records_per_key() {
            let claim = association.claim(1000);
            assert_eq!(claim.first_sequence, expected);
            assert!((1..=1000).contains(&claim.records));
            let last = claim.first_sequence + claim.records - 1;
            assert_eq!(claim.first_sequence / suite.records_per_key(), last / suite.records_per_key());
            if !sessions.iter().any(|session| Arc::ptr_eq(session, &claim.session)) {
                sessions.push(claim.session);
            }
            expected += claim.records;
        }
        assert_eq!(sessions.len(), 3);
    }

    #[test]
    fn contexts_do_not_run_together() {
        let secret = Secret::new([1; 32]);
        assert_ne!(secret.derive(&[b"ab", b"c"]).expose(), secret.derive(&[b"a", b"bc"]).expose());
        assert_ne!(secret.derive(&[b"ab"]).expose(), secret.derive(&[b"ab", b""]).expose());
        assert_eq!(secret.derive(&[b"ab"]).expose(), secret.clone().derive(&[b"ab"]).expose());
    }

    #[test]
    fn a_secret_is_not_printed() {
        assert_eq!(format!("{:?}", Secret::new([0xab; 32])), "Secret(..)");
    }
}
