//! Tiers, instruction sets, and the tokens that prove that an instruction set is available.
//!
//! A kernel that needs CPU features takes a token; only [`Features::detect`] makes tokens, so a token proves the
//! features that its `#[target_feature]` names. Both the tier and the instruction set can be forced, so that one
//! machine tests every path.

use core::fmt;
use core::str::FromStr;

/// NPCryptBench's levels 0 to 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Obvious code that follows the definition: the oracle.
    Reference,
    /// Split tables, unrolled rounds; no CPU features.
    Generic,
    /// This CPU's instructions, one message at a time.
    Native,
    /// Several messages side by side.
    Batch,
}

/// Instruction sets, in order: each includes the ones before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// The features of every machine of the target.
    Portable,
    /// AVX2, BMI, AES-NI, carry-less multiply; SHA extensions, and VAES with VPCLMULQDQ, if the CPU has them.
    Avx2,
    /// AVX-512 F, BW, DQ, VL, VBMI with GFNI, VAES and VPCLMULQDQ (Ice Lake, Zen 4 and later).
    Avx512,
}

impl Tier {
    /// All tiers, lowest first.
    pub const ALL: [Self; 4] = [Self::Reference, Self::Generic, Self::Native, Self::Batch];

    /// Returns the name used by flags, environment and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Generic => "generic",
            Self::Native => "native",
            Self::Batch => "batch",
        }
    }
}

impl Isa {
    /// All instruction sets, smallest first.
    pub const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    /// Returns the name used by flags, environment and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A tier or instruction set is not available.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// The text is not the name of a tier.
    #[error("unknown tier {0:?} (reference, generic, native or batch)")]
    UnknownTier(String),
    /// The text is not the name of an instruction set.
    #[error("unknown instruction set {0:?} (portable, avx2 or avx512)")]
    UnknownIsa(String),
    /// This machine lacks it.
    #[error("this machine has no {wanted}; its best is {best}")]
    Missing {
        /// The requested instruction set.
        wanted: Isa,
        /// The best one available.
        best: Isa,
    },
}

impl FromStr for Tier {
    type Err = SelectError;

    fn from_str(name: &str) -> Result<Self, SelectError> {
        Self::ALL
            .into_iter()
            .find(|tier| tier.name() == name)
            .ok_or_else(|| SelectError::UnknownTier(name.to_owned()))
    }
}

impl FromStr for Isa {
    type Err = SelectError;

    fn from_str(name: &str) -> Result<Self, SelectError> {
        Self::ALL
            .into_iter()
            .find(|isa| isa.name() == name)
            .ok_or_else(|| SelectError::UnknownIsa(name.to_owned()))
    }
}

/// Proof of [`Isa::Avx2`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

/// Proof of [`Isa::Avx512`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

/// Proof of the SHA extensions (with SSE4.1 and SSSE3).
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShaNi(());

/// Proof of VAES and VPCLMULQDQ for ymm registers, beside AVX2 (Zen 3, Alder Lake and later).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vaes(());

/// The features of this machine, as proofs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Features {
    pub(crate) avx2: Option<Avx2>,
    pub(crate) avx512: Option<Avx512>,
    pub(crate) sha: Option<ShaNi>,
    pub(crate) vaes: Option<Vaes>,
}

impl Features {
    /// The features of every machine.
    pub(crate) const NONE: Self = Self { avx2: None, avx512: None, sha: None, vaes: None };

    /// Asks the CPU.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn detect() -> Self {
        use std::arch::is_x86_feature_detected as has;
        let avx2 = has!("avx2")
            && has!("bmi1")
            && has!("bmi2")
            && has!("ssse3")
            && has!("sse4.1")
            && has!("aes")
            && has!("pclmulqdq");
        let avx512 = avx2
            && has!("avx512f")
            && has!("avx512bw")
            && has!("avx512dq")
            && has!("avx512vl")
            && has!("avx512vbmi")
            && has!("avx512ifma")
            && has!("gfni")
            && has!("vaes")
            && has!("vpclmulqdq");
        let sha = avx2 && has!("sha");
        let vaes = avx2 && has!("vaes") && has!("vpclmulqdq");
        Self {
            avx2: avx2.then_some(Avx2(())),
            avx512: avx512.then_some(Avx512(())),
            sha: sha.then_some(ShaNi(())),
            vaes: vaes.then_some(Vaes(())),
        }
    }

    /// Detects nothing: other architectures have the portable kernels.
    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn detect() -> Self {
        Self::NONE
    }

    /// Returns whether libraries that detect instructions by themselves (AWS-LC, BLAKE3's authors') may run as this
    /// machine's native code. They may not on x86-64 without AVX2: such a machine stands for one without
    /// instructions, and the libraries would find some.
    pub(crate) const fn have_libraries(self) -> bool {
        self.avx2.is_some() || cfg!(not(target_arch = "x86_64"))
    }

    /// Returns the best instruction set that these features prove.
    pub(crate) const fn best(self) -> Isa {
        match self {
            Self { avx512: Some(_), .. } => Isa::Avx512,
            Self { avx2: Some(_), .. } => Isa::Avx2,
            _ => Isa::Portable,
        }
    }

    /// Returns the features without those above `isa`.
    pub(crate) fn limited_to(self, isa: Isa) -> Result<Self, SelectError> {
        if isa > self.best() {
            return Err(SelectError::Missing { wanted: isa, best: self.best() });
        }
        Ok(Self {
            avx2: self.avx2.filter(|_| isa >= Isa::Avx2),
            avx512: self.avx512.filter(|_| isa >= Isa::Avx512),
            sha: self.sha.filter(|_| isa >= Isa::Avx2),
            vaes: self.vaes.filter(|_| isa >= Isa::Avx2),
        })
    }
}
