//! The agreement that was computed ahead for the connection that a thread advances, and the key exchange group that
//! takes it.
//!
//! Guarantees: an agreement serves one connection, once, and only for the very share that it was computed from; an
//! unused one is wiped when its connection goes on.

use std::cell::RefCell;

use rustls::NamedGroup;
use rustls::crypto::aws_lc_rs::kx_group::X25519MLKEM768;
use rustls::crypto::{ActiveKeyExchange, CompletedKeyExchange, SharedSecret, SupportedKxGroup};
use rustls::ffdhe_groups::FfdheGroup;
use zeroize::Zeroizing;

use super::hello::SHARE_BYTES;
use super::own::Own;

/// An agreement with a client, computed before TLS has asked for it.
pub(super) struct Agreement {
    /// The client's share.
    pub(super) share: Box<[u8; SHARE_BYTES]>,
    /// The server's share: a ciphertext, then an X25519 public key.
    pub(super) answer: Vec<u8>,
    /// The secret of ML-KEM, then that of X25519.
    pub(super) secret: Zeroizing<Vec<u8>>,
}

thread_local! {
    /// The agreement of the connection that this thread advances.
    pub(super) static AT_HAND: RefCell<Option<Agreement>> = const { RefCell::new(None) };
}

/// Runs `advance` with an agreement at hand, which is wiped afterwards if it was not used.
pub(super) fn with<T>(agreement: Option<Agreement>, advance: impl FnOnce() -> T) -> T {
    AT_HAND.set(agreement);
    let advanced = advance();
    AT_HAND.take();
    advanced
}

/// X25519MLKEM768, which takes the agreement that is at hand.
#[derive(Debug)]
pub(super) struct Group;

impl SupportedKxGroup for Group {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, rustls::Error> {
        Ok(Box::new(Own::start()?))
    }

    fn start_and_complete(&self, share: &[u8]) -> Result<CompletedKeyExchange, rustls::Error> {
        match AT_HAND.take() {
            Some(agreement) if agreement.share[..] == *share => Ok(CompletedKeyExchange {
                group: self.name(),
                secret: SharedSecret::from(&agreement.secret[..]),
                pub_key: agreement.answer,
            }),
            _ => X25519MLKEM768.start_and_complete(share),
        }
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn name(&self) -> NamedGroup {
        X25519MLKEM768.name()
    }

    fn usable_for_version(&self, version: rustls::ProtocolVersion) -> bool {
        X25519MLKEM768.usable_for_version(version)
    }
}
