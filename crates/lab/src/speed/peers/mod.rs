//! Libraries to compare with: alternatives for the same messages.
//!
//! A context is kept for each association, and the cost of a message includes its IV, its start, its bytes and its
//! end. All but Intel's two handle one message after the other, as by their interfaces. Public-key operations have keys
//! of the library's own, prepared before they are measured, and each is checked once for being right.

mod aws_lc;
mod crypto_mb;
mod ipsec_mb;
mod openssl;
mod rust_crypto;

use super::SpeedError;
use super::peer::Peer;
use super::public_key::work::{Ours, StepTask};
use super::work::Runner;
use sealane_transform::{Algorithm, Asymmetric};

impl Peer {
    /// Returns the version in use, if it is known.
    pub fn version(self) -> Option<String> {
        match self {
            Self::OpenSsl => openssl::version(),
            Self::CryptoMb => crypto_mb::version(),
            Self::AwsLc | Self::RustCrypto | Self::IpsecMb => None,
        }
    }
}

/// Returns whether the library has the algorithm.
pub(super) fn has(peer: Peer, algorithm: Algorithm) -> bool {
    match peer {
        Peer::OpenSsl => openssl::has(algorithm),
        Peer::AwsLc => aws_lc::has(algorithm),
        Peer::RustCrypto => rust_crypto::has(algorithm),
        Peer::IpsecMb => ipsec_mb::has(algorithm),
        Peer::CryptoMb => false,
    }
}

/// Returns whether the library has the step of a public-key algorithm.
pub(super) fn has_step(peer: Peer, algorithm: Asymmetric, step: &str) -> bool {
    match peer {
        Peer::OpenSsl => openssl::has_step(algorithm.name(), step),
        // It is our own native tier.
        Peer::AwsLc => true,
        Peer::RustCrypto | Peer::IpsecMb => false,
        Peer::CryptoMb => crypto_mb::has_step(algorithm.name(), step),
    }
}

/// Returns an error if the library is not available.
pub(super) fn require(peer: Peer) -> Result<(), SpeedError> {
    match peer {
        Peer::OpenSsl => openssl::runner().map(drop),
        Peer::AwsLc | Peer::RustCrypto => Ok(()),
        Peer::IpsecMb => ipsec_mb::runner().map(drop),
        Peer::CryptoMb => crypto_mb::runner().map(drop),
    }
}

/// Returns the runner of the library's public-key operations.
pub(super) fn runner_of_operations(peer: Peer) -> Result<Box<dyn Runner<StepTask>>, SpeedError> {
    match peer {
        Peer::OpenSsl => openssl::runner_of_operations(),
        Peer::AwsLc => Ok(Box::new(Ours::aws_lc()?)),
        Peer::RustCrypto | Peer::IpsecMb => Err(peer.fails("has no public-key operations")),
        Peer::CryptoMb => crypto_mb::runner(),
    }
}

/// Returns the runner of the library's kernels.
pub(super) fn runner(peer: Peer) -> Result<Box<dyn Runner>, SpeedError> {
    match peer {
        Peer::OpenSsl => openssl::runner(),
        Peer::AwsLc => Ok(Box::new(aws_lc::AwsLc)),
        Peer::RustCrypto => Ok(Box::new(rust_crypto::RustCrypto)),
        Peer::IpsecMb => ipsec_mb::runner(),
        Peer::CryptoMb => Err(peer.fails("has public-key operations only")),
    }
}
