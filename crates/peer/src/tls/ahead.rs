//! Key agreements of several arrivals, computed side by side before TLS asks for each of them.
//!
//! The library computes the agreement of one connection inside the call that reads its ClientHello. A thread that
//! serves several arrivals finds their shares beforehand, without taking them from the sockets, and has all their
//! agreements computed by one engine, which computes them side by side.
//!
//! Guarantees: an agreement serves the one connection that it was computed for, once, and only for the very share
//! that it was computed from; an unused one is wiped when its connection goes on; an arrival without one, and a share
//! that is refused here, are the library's, with its answer.

use std::io;
use std::sync::Arc;

use aws_lc_rs::rand;
use sealane_engine::{Engine, Operations};
use sealane_transform::debug_only;
use sealane_transform::ml_kem::{self, MlKemEncapsulationKey};
use sealane_transform::x25519::{self, X25519_BYTES, X25519Key};
use sealane_transform::{AsymmetricJob, Refusal};
use zeroize::Zeroizing;

use super::at_hand::Agreement;
use super::hello::{KEM, SHARE_BYTES, client_share};
use super::serve::TlsArrival;

/// Bytes of a connection's beginning that are looked at: enough for a ClientHello with the hybrid share, of 1,216 bytes.
const FLIGHT_BYTES: usize = 4096;
/// The least number of arrivals whose agreements are computed here: of one, the library's is as fast.
const LEAST: usize = 2;
/// Operations of one agreement.
const OPERATIONS: usize = 3;

/// One thread's agreements with the clients that arrive there.
pub struct Agreements {
    operations: Operations,
    flight: Box<[u8; FLIGHT_BYTES]>,
}

debug_only!(Agreements {});

impl Agreements {
    /// Makes agreements that `engine` computes.
    ///
    /// # Errors
    /// Fails if the system refuses the engine's resources.
    pub fn new(engine: &dyn Engine) -> io::Result<Self> {
        Ok(Self { operations: Operations::new(engine)?, flight: Box::new([0; FLIGHT_BYTES]) })
    }

    /// Computes the agreements of those arrivals that have sent a whole ClientHello and were not advanced yet, if they
    /// are several. It waits for the engine, not for a client.
    pub fn compute<'a>(&mut self, arrivals: impl IntoIterator<Item = &'a mut TlsArrival>) {
        let fresh: Vec<_> = arrivals.into_iter().filter(|arrival| arrival.is_fresh()).collect();
        if fresh.len() < LEAST {
            return;
        }
        let mut asked = Vec::with_capacity(fresh.len());
        let mut jobs = Vec::with_capacity(fresh.len() * OPERATIONS);
        for arrival in fresh {
            let first_bytes = arrival.peek(&mut *self.flight);
            let share = first_bytes.and_then(|bytes| client_share(&self.flight[..bytes]));
            if let Some((share, of_share)) = share.and_then(|share| Some((share, jobs_of(share)?))) {
                jobs.extend(of_share);
                asked.push((arrival, Box::new(*share)));
            }
        }
        self.operations.run(&mut jobs);
        let mut jobs = jobs.into_iter();
        for (arrival, share) in asked {
            let [public, shared, encapsulated] = [(); OPERATIONS].map(|()| taken(jobs.next()));
            if let (Some(public), Some(shared), Some(encapsulated)) = (public, shared, encapsulated) {
                let (ciphertext, secret) = encapsulated.split_at(KEM.ciphertext_bytes());
                arrival.agreement = Some(Agreement {
                    share,
                    answer: [ciphertext, &public].concat(),
                    secret: Zeroizing::new([secret, &shared].concat()),
                });
            }
        }
    }
}

/// Returns the operations with which a server answers a share: its own public key, the two shared secrets. `None` for a
/// share that is not a key, which the library refuses.
fn jobs_of(share: &[u8; SHARE_BYTES]) -> Option<[AsymmetricJob; OPERATIONS]> {
    let (kem_key, peer) = share.split_at(KEM.encapsulation_key_bytes());
    let kem_key = Arc::new(MlKemEncapsulationKey::new(KEM, kem_key).ok()?);
    let peer: [u8; X25519_BYTES] = peer.try_into().ok()?;
    let (mut secret, mut message) = (Zeroizing::new([0; X25519_BYTES]), Zeroizing::new([0; 32]));
    rand::fill(&mut *secret).ok()?;
    rand::fill(&mut *message).ok()?;
    let key = Arc::new(X25519Key::new(&secret));
    Some([
        AsymmetricJob::new(x25519::Operation::Public { key: Arc::clone(&key) }),
        AsymmetricJob::new(x25519::Operation::Agree { key, peer }),
        AsymmetricJob::new(ml_kem::Operation::Encapsulate { key: kem_key, message }),
    ])
}

fn taken(job: Option<AsymmetricJob>) -> Option<Zeroizing<Vec<u8>>> {
    job.map_or(Err(Refusal::Fault), AsymmetricJob::into_answer).ok()
}

#[cfg(test)]
mod tests;
