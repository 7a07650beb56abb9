//! One direction of one flow: algorithm, keys, sequence numbers.
//!
//! Guarantees: a sequence number is given once; the key changes before [`Suite::records_per_key`] records were sealed
//! under it, at the same record on both ends and without a message; secrets are wiped on drop.

use std::{fmt, sync::Arc};

use aws_lc_rs::hkdf;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::{Keys, Suite, SuiteKeys};
use crate::Implementations;

/// 256 bits from which keys are derived; wiped on drop and never printed.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Secret([u8; 32]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// Makes a secret from uniformly random bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes, for the one channel that may carry them.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns a secret for another purpose: the output of HKDF-SHA-256 (RFC 5869) with this secret as input. Each
    /// part of `context` is prefixed by its length, so that contexts with different parts differ.
    pub fn derive(&self, context: &[&[u8]]) -> Self {
        let mut derived = Self([0; 32]);
        self.expand(context, &mut derived.0);
        derived
    }

    /// Fills `output` in the same way, for keys: at most 8160 bytes.
    ///
    /// # Panics
    /// Panics for more.
    pub fn expand(&self, context: &[&[u8]], output: &mut [u8]) {
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
#[derive(Debug)]
pub struct Claim<S = SuiteKeys> {
    /// The number of the first record.
    pub first_sequence: u64,
    /// The number of records, at least 1 and at most the requested number; it is smaller if the key changes.
    pub records: u64,
    /// Algorithm and keys for all of them.
    pub session: Arc<S>,
}

impl<S> Claim<S> {
    /// Returns each record's number and its keys.
    pub fn numbers(&self) -> impl Iterator<Item = (u64, &Arc<S>)> {
        (self.first_sequence..self.first_sequence + self.records).map(|sequence| (sequence, &self.session))
    }
}

/// Keys that change after [`Suite::records_per_key`] records, each derived from one secret and the number of keys
/// before it. There is no last key.
#[derive(Debug)]
pub struct Epochs {
    implementations: Implementations,
    suite: Suite,
    secret: Secret,
    epoch: u64,
    session: Arc<SuiteKeys>,
}

impl Keys for Epochs {
    type Session = SuiteKeys;

    fn at(&mut self, first: u64, count: u64) -> Option<(u64, Arc<SuiteKeys>)> {
        let per_key = self.suite.records_per_key();
        let epoch = first / per_key;
        if epoch != self.epoch {
            self.epoch = epoch;
            self.session = session(self.implementations, self.suite, &self.secret, epoch);
        }
        Some((count.min((epoch + 1) * per_key - first), Arc::clone(&self.session)))
    }
}

/// One direction of one flow: its sequence numbers, and the keys that [`Keys`] assigns to them.
#[derive(Debug)]
pub struct Association<K = Epochs> {
    keys: K,
    next_sequence: u64,
}

impl<K: Keys> Association<K> {
    /// Starts at sequence number 0.
    pub fn with(keys: K) -> Self {
        Self { keys, next_sequence: 0 }
    }

    /// Returns the number of records claimed so far.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Claims the next sequence numbers, up to `records` (at least 1), and their keys; returns `None` when there are
    /// no more keys.
    fn try_claim(&mut self, records: u64) -> Option<Claim<K::Session>> {
        let first_sequence = self.next_sequence;
        let (records, session) = self.keys.at(first_sequence, records.max(1))?;
        self.next_sequence += records;
        Some(Claim { first_sequence, records, session })
    }
}

impl Association<Epochs> {
    /// Starts at sequence number 0. Both ends derive the same keys from the same `secret`, which must serve no other
    /// association: derive it with a context that names flow and direction.
    pub fn new(implementations: Implementations, suite: Suite, secret: Secret) -> Self {
        let session = session(implementations, suite, &secret, 0);
        Self::with(Epochs { implementations, suite, secret, epoch: 0, session })
    }

    /// Returns the suite, the same in all epochs.
    pub fn suite(&self) -> Suite {
        self.keys.suite
    }

    /// Claims the next sequence numbers, up to `records` (at least 1), and their keys.
    pub fn claim(&mut self, records: u64) -> Claim {
        self.try_claim(records).expect("epochs never end")
    }

    /// Claims all of `records` sequence numbers: in one claim, or in several if the key changes.
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

fn session(implementations: Implementations, suite: Suite, secret: &Secret, epoch: u64) -> Arc<SuiteKeys> {
    let mut material = Zeroizing::new(vec![0; suite.key_bytes()]);
    if !material.is_empty() {
        secret.expand(&[b"key", suite.name().as_bytes(), &epoch.to_le_bytes()], &mut material);
    }
    Arc::new(SuiteKeys::new(implementations, suite, &material).expect("the material has the suite's length"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_never_overlap_and_stop_where_the_key_changes() {
        let suite = Suite::TripleDesCbcHmacSha1;
        let mut association = Association::new(Implementations::default(), suite, Secret::new([7; 32]));
        let mut expected = 0;
        let mut sessions: Vec<Arc<SuiteKeys>> = Vec::new();
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
    fn a_fixed_key_has_an_end() {
        let mut association = Association::with(super::super::Fixed::new(Arc::new("key"), 5));
        let claims: Vec<_> = std::iter::from_fn(|| association.try_claim(3)).collect();
        let numbers: Vec<u64> =
            claims.iter().flat_map(|claim| claim.numbers().map(|(number, _)| number)).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4]);
        assert_eq!(association.next_sequence(), 5);
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
