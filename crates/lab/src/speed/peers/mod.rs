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
use super::public_key::work::{Load, Ours};
use super::work::Runner;
use sealane_transform::{Algorithm, Asymmetric};

/// A library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// The system's OpenSSL 3, loaded at run time.
    OpenSsl,
    /// AWS-LC, as `cp` uses it.
    AwsLc,
    /// The crates of the RustCrypto project.
    RustCrypto,
    /// Intel's multi-buffer library, version 1.3, loaded at run time.
    IpsecMb,
    /// Intel's multi-buffer library of public-key operations, loaded at run time.
    CryptoMb,
}

impl Peer {
    /// All peers.
    pub const ALL: [Self; 5] = [Self::OpenSsl, Self::AwsLc, Self::RustCrypto, Self::IpsecMb, Self::CryptoMb];

    /// Returns the name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenSsl => "openssl",
            Self::AwsLc => "aws-lc-rs",
            Self::RustCrypto => "rustcrypto",
            Self::IpsecMb => "ipsec-mb",
            Self::CryptoMb => "crypto-mb",
        }
    }

    /// Returns whether its interface accepts many messages at once.
    pub const fn takes_batches(self) -> bool {
        matches!(self, Self::IpsecMb | Self::CryptoMb)
    }

    /// Returns the error that it is not available, with the reason.
    fn fails(self, reason: impl Into<String>) -> SpeedError {
        SpeedError::Peer { peer: self.name(), reason: reason.into() }
    }

    /// Returns the error that it has no such algorithm.
    pub(super) fn refuses(self, algorithm: Algorithm) -> SpeedError {
        self.fails(format!("does not run {algorithm}"))
    }

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
pub(super) fn runner_of_operations(peer: Peer) -> Result<Box<dyn Runner<Load>>, SpeedError> {
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
