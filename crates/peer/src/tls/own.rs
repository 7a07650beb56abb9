//! A client's side of X25519MLKEM768, whose encapsulation key keeps its matrix until the server's answer comes.
//!
//! Guarantees: a share and a secret are those of draft-ietf-tls-ecdhe-mlkem, section 4; an answer of another length, and one
//! whose point is of low order, is refused as the library refuses it; everything secret is wiped.

use std::sync::Arc;

use aws_lc_rs::rand;
use rustls::crypto::aws_lc_rs::kx_group::X25519MLKEM768;
use rustls::crypto::{ActiveKeyExchange, SharedSecret};
use rustls::ffdhe_groups::FfdheGroup;
use rustls::{Error, NamedGroup, PeerMisbehaved};
use sealane_transform::ml_kem::{self, MlKemEphemeralKey};
use sealane_transform::x25519::{self, X25519_BYTES, X25519Key};
use sealane_transform::{AsymmetricJob, AsymmetricOperation, Kernels};
use zeroize::Zeroizing;

use super::hello::KEM;

/// An exchange whose share was sent.
pub(super) struct Own {
    kem: Arc<MlKemEphemeralKey>,
    curve: Arc<X25519Key>,
    share: Vec<u8>,
}

fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, Error> {
    let mut bytes = Zeroizing::new([0; N]);
    rand::fill(&mut *bytes).map_err(|_| Error::FailedToGetRandomBytes)?;
    Ok(bytes)
}

/// Computes operations.
fn computed<const N: usize>(
    operations: [AsymmetricOperation; N],
    error: &Error,
) -> Result<[Zeroizing<Vec<u8>>; N], Error> {
    let mut jobs = operations.map(AsymmetricJob::new);
    Kernels::best().asymmetric(&mut jobs);
    let answers = jobs.map(AsymmetricJob::into_answer);
    if answers.iter().any(Result::is_err) {
        return Err(error.clone());
    }
    Ok(answers.map(Result::unwrap_or_default))
}

impl Own {
    /// Draws the keys.
    pub(super) fn start() -> Result<Self, Error> {
        let kem = Arc::new(MlKemEphemeralKey::new(KEM));
        let curve = Arc::new(X25519Key::new(&*random()?));
        let [public, point] = computed(
            [
                ml_kem::Operation::GenerateEphemeral { key: Arc::clone(&kem), seed: random()? }.into(),
                x25519::Operation::Public { key: Arc::clone(&curve) }.into(),
            ],
            &Error::General("a key exchange could not be computed".into()),
        )?;
        Ok(Self { kem, curve, share: [&public[..], &point].concat() })
    }
}

impl ActiveKeyExchange for Own {
    fn complete(self: Box<Self>, answer: &[u8]) -> Result<SharedSecret, Error> {
        let refused = Error::from(PeerMisbehaved::InvalidKeyShare);
        let (ciphertext, peer) =
            answer.split_at_checked(KEM.ciphertext_bytes()).ok_or_else(|| refused.clone())?;
        let peer: [u8; X25519_BYTES] = peer.try_into().map_err(|_| refused.clone())?;
        let [secret, shared] = computed(
            [
                ml_kem::Operation::DecapsulateEphemeral { key: self.kem, ciphertext: ciphertext.to_vec() }
                    .into(),
                x25519::Operation::Agree { key: self.curve, peer }.into(),
            ],
            &refused,
        )?;
        let both = Zeroizing::new([&secret[..], &shared].concat());
        Ok(SharedSecret::from(&both[..]))
    }

    fn pub_key(&self) -> &[u8] {
        &self.share
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn group(&self) -> NamedGroup {
        X25519MLKEM768.name()
    }
}
