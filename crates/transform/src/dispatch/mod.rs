//! Selects kernels for slices of jobs.
//!
//! The module selects tier and instruction set: the forced tier, if there is one; otherwise by the features of this
//! machine and the number of jobs, with cross-over points measured on real machines. A kernel fills its own ways
//! with its jobs; the engine decides before whether a library runs an AEAD instead.

mod aead;
mod asymmetric;
mod cipher;
mod digest;
mod pieces;
mod stream;
mod tree;

use crate::isa::{Features, Isa, SelectError, Tier};

/// The kernels of this machine, or of a selected part of it.
///
/// Cheap to copy. All methods take any number of jobs, of any lengths, and never allocate.
#[derive(Clone, Copy, Debug)]
pub struct Kernels {
    features: Features,
    tier: Option<Tier>,
}

impl Kernels {
    /// Returns all kernels of this machine, chosen by batch size.
    pub fn best() -> Self {
        Self { features: Features::detect(), tier: None }
    }

    /// Returns the kernels of a tier and instruction set; `None` leaves the choice to batch size and machine.
    ///
    /// # Errors
    /// Fails if this machine lacks the instruction set.
    pub fn select(tier: Option<Tier>, isa: Option<Isa>) -> Result<Self, SelectError> {
        let features = Features::detect();
        let features = features.limited_to(isa.unwrap_or_else(|| features.best()))?;
        Ok(Self { features, tier })
    }

    pub(crate) const fn features(&self) -> Features {
        self.features
    }

    /// Returns the instruction set in use.
    pub const fn isa(&self) -> Isa {
        self.features.best()
    }

    /// Returns the forced tier, if there is one.
    pub const fn tier(&self) -> Option<Tier> {
        self.tier
    }

    /// Returns the best tier for single messages.
    fn single(&self) -> Tier {
        self.tier.unwrap_or(Tier::Native).min(Tier::Native)
    }

    /// Returns whether ways may be used, and whether they must.
    fn ways_wanted(&self) -> Ways {
        match self.tier {
            None => Ways::WhereTheyPay,
            Some(Tier::Batch) => Ways::Always,
            Some(_) => Ways::Never,
        }
    }
}

/// The use of the batch tier in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ways {
    /// A lower tier is forced.
    Never,
    /// Ways are used from the cross-over on.
    WhereTheyPay,
    /// The batch tier is forced, even for one message.
    Always,
}
