//! The parameter sets of FIPS 204, table 1, and the lengths that follow from them, table 2.

/// The modulus q.
pub(crate) const Q: u32 = 8_380_417;
/// Coefficients of a polynomial.
pub(crate) const N: usize = 256;
/// The parameter d: bits that are dropped from t.
pub(crate) const D: u32 = 13;
/// Bytes of the seed xi, of the random value rnd, and of the seeds rho and K.
pub(crate) const SEED_BYTES: usize = 32;
/// Bytes of the hash of a public key.
pub(crate) const TR_BYTES: usize = 64;
/// Bytes of a message's representative.
pub(crate) const MU_BYTES: usize = 64;
/// Bytes of the private seeds rho' and rho''.
pub(crate) const PRIVATE_SEED_BYTES: usize = 64;
/// Bytes of a packed polynomial of t1, of ten bits.
pub(crate) const T1_BYTES: usize = 320;
/// Bytes of a packed polynomial of t0, of thirteen bits.
pub(crate) const T0_BYTES: usize = 416;
/// Bytes of the longest commitment hash.
pub(crate) const CHALLENGE_BYTES_MAX: usize = 64;

/// The largest parameter k.
pub(crate) const K_MAX: usize = 8;
/// The largest parameter l.
pub(crate) const L_MAX: usize = 7;
/// Bytes of the longest packed polynomial of z.
pub(crate) const Z_BYTES_MAX: usize = 640;

/// Attempts after which signing gives up, as appendix C allows: the probability is below 2^-320 for keys as the
/// standard makes them.
pub(crate) const ATTEMPTS_MAX: usize = 1024;

/// A parameter set of ML-DSA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MlDsaSet {
    /// Security category 2.
    MlDsa44,
    /// Security category 3.
    MlDsa65,
    /// Security category 5.
    MlDsa87,
}

/// A set's row of table 1, in the letters of the standard.
#[derive(Debug)]
pub(crate) struct Parameters {
    /// Polynomials of t: rows of the matrix.
    pub(crate) k: usize,
    /// Polynomials of s1: columns of the matrix.
    pub(crate) l: usize,
    /// The bound of the secret coefficients.
    pub(crate) eta: u32,
    /// Coefficients of a challenge that are not zero.
    pub(crate) tau: usize,
    /// Bytes of a commitment hash: lambda / 4.
    pub(crate) challenge_bytes: usize,
    /// The binary logarithm of gamma1.
    pub(crate) gamma1_bits: u32,
    /// The low-order rounding range.
    pub(crate) gamma2: u32,
    /// Ones of a hint, at most.
    pub(crate) omega: usize,
}

const ML_DSA_44: Parameters = Parameters {
    k: 4,
    l: 4,
    eta: 2,
    tau: 39,
    challenge_bytes: 32,
    gamma1_bits: 17,
    gamma2: (Q - 1) / 88,
    omega: 80,
};

const ML_DSA_65: Parameters = Parameters {
    k: 6,
    l: 5,
    eta: 4,
    tau: 49,
    challenge_bytes: 48,
    gamma1_bits: 19,
    gamma2: (Q - 1) / 32,
    omega: 55,
};

const ML_DSA_87: Parameters = Parameters {
    k: 8,
    l: 7,
    eta: 2,
    tau: 60,
    challenge_bytes: 64,
    gamma1_bits: 19,
    gamma2: (Q - 1) / 32,
    omega: 75,
};

impl Parameters {
    /// The bound beta of the products of a challenge and a secret.
    pub(crate) const fn beta(&self) -> u32 {
        self.tau as u32 * self.eta
    }

    /// The bound gamma1.
    pub(crate) const fn gamma1(&self) -> u32 {
        1 << self.gamma1_bits
    }

    /// Bits of a packed coefficient of s1 and s2.
    pub(crate) const fn eta_bits(&self) -> u32 {
        (2 * self.eta).ilog2() + 1
    }

    /// Bytes of a packed polynomial of s1 and s2.
    pub(crate) const fn eta_bytes(&self) -> usize {
        N / 8 * self.eta_bits() as usize
    }

    /// Bits of a packed coefficient of z and y.
    pub(crate) const fn z_bits(&self) -> u32 {
        1 + self.gamma1_bits
    }

    /// Bytes of a packed polynomial of z and y.
    pub(crate) const fn z_bytes(&self) -> usize {
        N / 8 * self.z_bits() as usize
    }

    /// Bits of a packed coefficient of w1.
    pub(crate) const fn w1_bits(&self) -> u32 {
        ((Q - 1) / (2 * self.gamma2) - 1).ilog2() + 1
    }

    /// Bytes of a packed polynomial of w1.
    pub(crate) const fn w1_bytes(&self) -> usize {
        N / 8 * self.w1_bits() as usize
    }

    /// Bytes of a public key.
    pub(crate) const fn public_bytes(&self) -> usize {
        SEED_BYTES + self.k * T1_BYTES
    }

    /// Bytes of an expanded private key.
    pub(crate) const fn private_bytes(&self) -> usize {
        2 * SEED_BYTES + TR_BYTES + (self.k + self.l) * self.eta_bytes() + self.k * T0_BYTES
    }

    /// Bytes of a signature.
    pub(crate) const fn signature_bytes(&self) -> usize {
        self.challenge_bytes + self.l * self.z_bytes() + self.omega + self.k
    }
}

impl MlDsaSet {
    /// All sets, the smallest first.
    pub const ALL: [Self; 3] = [Self::MlDsa44, Self::MlDsa65, Self::MlDsa87];

    /// Returns its row of FIPS 204, table 1.
    pub(crate) const fn parameters(self) -> &'static Parameters {
        match self {
            Self::MlDsa44 => &ML_DSA_44,
            Self::MlDsa65 => &ML_DSA_65,
            Self::MlDsa87 => &ML_DSA_87,
        }
    }

    /// Returns the set's name in the standard.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MlDsa44 => "ML-DSA-44",
            Self::MlDsa65 => "ML-DSA-65",
            Self::MlDsa87 => "ML-DSA-87",
        }
    }

    /// Returns the length of a public key in bytes.
    pub const fn public_bytes(self) -> usize {
        self.parameters().public_bytes()
    }

    /// Returns the length of an expanded private key in bytes.
    pub const fn private_bytes(self) -> usize {
        self.parameters().private_bytes()
    }

    /// Returns the length of a signature in bytes.
    pub const fn signature_bytes(self) -> usize {
        self.parameters().signature_bytes()
    }
}
