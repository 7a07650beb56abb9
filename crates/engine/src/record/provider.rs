//! Whose implementation of an AEAD a session runs: AWS-LC's, or the kernels of [`sealane_transform`].
//!
//! Guarantees: both compute the same bytes, so the ends of an association need not agree; what the user forces is
//! taken, and refused where this machine cannot run it.

use std::{fmt, str::FromStr, sync::OnceLock};

use sealane_transform::{Isa, Kernels};

use super::Suite;

/// The variable that forces one for all sessions.
const VARIABLE: &str = "SEALANE_AEAD";

/// An implementation of AES-GCM, GMAC and ChaCha20-Poly1305.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// AWS-LC, one message after the other.
    AwsLc,
    /// Our own kernels.
    Sealane,
}

/// `SEALANE_AEAD`, `SEALANE_TIER` or `SEALANE_ISA` asks for what there is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    message: String,
}

impl Provider {
    /// What the environment forces (`SEALANE_AEAD`: `aws-lc` or `sealane`), read once.
    ///
    /// # Errors
    /// The variable has another value, or the kernels it asks for are not for this machine.
    pub fn forced() -> Result<Option<Self>, ProviderError> {
        static FORCED: OnceLock<Result<Option<Provider>, ProviderError>> = OnceLock::new();
        FORCED
            .get_or_init(|| {
                kernels()?;
                let word = std::env::var(VARIABLE).ok().filter(|word| !word.is_empty());
                word.map(|word| word.parse()).transpose()
            })
            .clone()
    }

    /// The one for `suite`: what is forced, else the faster on this machine with records of 64 KiB.
    pub(crate) fn of(suite: Suite) -> Self {
        // A mistaken variable is the program's to report at its start; here it forces nothing.
        let forced = Self::forced().ok().flatten();
        let wide = || kernels().is_ok_and(|kernels| kernels.isa() == Isa::Avx512);
        forced.unwrap_or_else(|| match suite {
            // With 512-bit registers, on Zen 5, 1.1 (seal) and 1.3 (open) times AWS-LC, 1.4 times, and 1.9 times where
            // some records go together. AES-256-GCM is no faster, and with narrower registers AWS-LC is ahead.
            Suite::Aes128Gcm | Suite::Aes128Gmac | Suite::ChaCha20Poly1305 if wide() => Self::Sealane,
            _ => Self::AwsLc,
        })
    }

    /// As in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::AwsLc => "aws-lc",
            Self::Sealane => "sealane",
        }
    }
}

/// The kernels that sessions run, whatever a mistaken variable asks for: that is the program's to report at its start.
pub(crate) fn kernels_or_best() -> Kernels {
    kernels().unwrap_or_else(|_| Kernels::select(None, None).expect("a machine has the best that it has"))
}

/// The kernels that sessions run.
pub(crate) fn kernels() -> Result<Kernels, ProviderError> {
    Kernels::detect().map_err(|error| ProviderError { message: error.to_string() })
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Provider {
    type Err = ProviderError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        [Self::AwsLc, Self::Sealane]
            .into_iter()
            .find(|provider| provider.name() == word)
            .ok_or_else(|| ProviderError { message: format!("{VARIABLE}={word}: choose aws-lc or sealane") })
    }
}
