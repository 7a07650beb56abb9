//! The libraries to compare with, by their names.

use super::SpeedError;
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
    pub(super) fn fails(self, reason: impl Into<String>) -> SpeedError {
        SpeedError::Peer { peer: self.name(), reason: reason.into() }
    }

    /// Returns the error that it has no such algorithm.
    pub(super) fn refuses(self, algorithm: Algorithm) -> SpeedError {
        self.fails(format!("does not run {algorithm}"))
    }
}
