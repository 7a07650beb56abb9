//! Libraries to compare with: alternatives for the same messages.
//!
//! A context is kept for each association, and the cost of a message includes its IV, its start, its bytes and its
//! end. All but one handle one message after the other, as by their interfaces; Intel's library handles batches.

mod aws_lc;
mod ipsec_mb;
mod openssl;
mod rust_crypto;

use super::SpeedError;
use super::work::Runner;
use sealane_transform::Algorithm;

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
}

impl Peer {
    /// All peers.
    pub const ALL: [Self; 4] = [Self::OpenSsl, Self::AwsLc, Self::RustCrypto, Self::IpsecMb];

    /// Returns the name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenSsl => "openssl",
            Self::AwsLc => "aws-lc-rs",
            Self::RustCrypto => "rustcrypto",
            Self::IpsecMb => "ipsec-mb",
        }
    }

    /// Returns whether its interface accepts many messages at once.
    pub const fn takes_batches(self) -> bool {
        matches!(self, Self::IpsecMb)
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
    }
}

/// Returns the runner of the library's kernels.
pub(super) fn runner(peer: Peer) -> Result<Box<dyn Runner>, SpeedError> {
    match peer {
        Peer::OpenSsl => openssl::runner(),
        Peer::AwsLc => Ok(Box::new(aws_lc::AwsLc)),
        Peer::RustCrypto => Ok(Box::new(rust_crypto::RustCrypto)),
        Peer::IpsecMb => ipsec_mb::runner(),
    }
}
