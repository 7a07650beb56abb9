//! From a slice of jobs to a kernel.
//!
//! Tier and instruction set are chosen here: by the forced tier, if there is one; else by what this machine has and how
//! many jobs there are, with cross-over points measured on real machines. A kernel fills its own lanes with what it is
//! given; whether a library runs an AEAD instead is decided before, by the engine.

mod aead;
mod cipher;
mod digest;
mod pieces;
mod stream;
mod tree;

use crate::isa::{Features, Isa, SelectError, Tier};

/// The kernels of this machine, or of the part of it that was asked for.
///
/// Cheap to copy. All methods take any number of jobs, of any lengths, and never allocate.
#[derive(Clone, Copy, Debug)]
pub struct Kernels {
    features: Features,
    tier: Option<Tier>,
}

impl Kernels {
    /// All kernels of this machine, chosen by batch size.
    pub fn best() -> Self {
        Self { features: Features::detect(), tier: None }
    }

    /// The kernels of a tier and instruction set; `None` leaves the choice to batch size and machine.
    ///
    /// # Errors
    /// This machine lacks the instruction set.
    pub fn select(tier: Option<Tier>, isa: Option<Isa>) -> Result<Self, SelectError> {
        let features = Features::detect();
        let features = features.limited_to(isa.unwrap_or_else(|| features.best()))?;
        Ok(Self { features, tier })
    }

    /// The instruction set in use.
    pub const fn isa(&self) -> Isa {
        self.features.best()
    }

    /// The forced tier, if there is one.
    pub const fn tier(&self) -> Option<Tier> {
        self.tier
    }

    /// The best tier for single messages.
    fn single(&self) -> Tier {
        self.tier.unwrap_or(Tier::Native).min(Tier::Native)
    }

    /// Whether lanes may be used, and whether they must.
    fn lanes_wanted(&self) -> Lanes {
        match self.tier {
            None => Lanes::WhereTheyPay,
            Some(Tier::Batch) => Lanes::Always,
            Some(_) => Lanes::Never,
        }
    }
}

/// How a call treats the batch tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lanes {
    /// A lower tier is forced.
    Never,
    /// From the cross-over on.
    WhereTheyPay,
    /// The batch tier is forced, even for one message.
    Always,
}
