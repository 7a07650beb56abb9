//! The parameter sets of FIPS 203, table 2, and the lengths that follow from them, table 3.

/// The modulus q.
pub(crate) const Q: u16 = 3329;
/// Coefficients of a polynomial.
pub(crate) const N: usize = 256;
/// Bytes of every seed, hash, message and secret.
pub(crate) const SEED_BYTES: usize = 32;
/// Bytes of a polynomial whose coefficients have 12 bits.
pub(crate) const POLY_BYTES: usize = 384;

/// The largest parameter k.
pub(crate) const K_MAX: usize = 4;
/// The parameter eta2 of all sets.
pub(crate) const ETA2: usize = 2;
/// Bytes of the noise of a polynomial with the largest eta, 3.
pub(crate) const NOISE_BYTES_MAX: usize = 64 * 3;
/// Bytes of the longest ciphertext.
pub(crate) const CIPHERTEXT_BYTES_MAX: usize = MlKemSet::MlKem1024.ciphertext_bytes();

/// A parameter set of ML-KEM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MlKemSet {
    /// Security category 1.
    MlKem512,
    /// Security category 3.
    MlKem768,
    /// Security category 5.
    MlKem1024,
}

/// A set's row of table 2, in the letters of the standard; eta2 is 2 in all.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parameters {
    /// Polynomials of a vector: rows and columns of the matrix.
    pub(crate) k: usize,
    /// The bound of the secret coefficients.
    pub(crate) eta1: usize,
    /// Bits of a compressed coefficient of u.
    pub(crate) du: usize,
    /// Bits of a compressed coefficient of v.
    pub(crate) dv: usize,
}

const ML_KEM_512: Parameters = Parameters { k: 2, eta1: 3, du: 10, dv: 4 };
const ML_KEM_768: Parameters = Parameters { k: 3, eta1: 2, du: 10, dv: 4 };
const ML_KEM_1024: Parameters = Parameters { k: 4, eta1: 2, du: 11, dv: 5 };

impl Parameters {
    /// Returns the set with that many polynomials of a vector.
    pub(crate) const fn of_k(k: usize) -> &'static Self {
        match k {
            2 => &ML_KEM_512,
            3 => &ML_KEM_768,
            _ => &ML_KEM_1024,
        }
    }

    /// Bytes of a vector of polynomials whose coefficients have 12 bits.
    pub(crate) const fn packed_bytes(&self) -> usize {
        self.k * POLY_BYTES
    }

    /// Bytes of a compressed polynomial of u.
    pub(crate) const fn u_bytes(&self) -> usize {
        N / 8 * self.du
    }

    /// Bytes of the compressed polynomial v.
    pub(crate) const fn v_bytes(&self) -> usize {
        N / 8 * self.dv
    }
}

impl MlKemSet {
    /// All sets, the smallest first.
    pub const ALL: [Self; 3] = [Self::MlKem512, Self::MlKem768, Self::MlKem1024];

    /// Returns its row of FIPS 203, table 2.
    pub(crate) const fn parameters(self) -> &'static Parameters {
        match self {
            Self::MlKem512 => &ML_KEM_512,
            Self::MlKem768 => &ML_KEM_768,
            Self::MlKem1024 => &ML_KEM_1024,
        }
    }

    /// Returns the set's name in the standard.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MlKem512 => "ML-KEM-512",
            Self::MlKem768 => "ML-KEM-768",
            Self::MlKem1024 => "ML-KEM-1024",
        }
    }

    /// Returns the length of an encapsulation key in bytes: a vector of 12-bit coefficients, and the matrix's seed.
    pub const fn encapsulation_key_bytes(self) -> usize {
        self.parameters().packed_bytes() + SEED_BYTES
    }

    /// Returns the length of a decapsulation key in bytes: the secret vector, the encapsulation key, its hash, and the
    /// seed of rejection.
    pub const fn decapsulation_key_bytes(self) -> usize {
        2 * self.parameters().packed_bytes() + 3 * SEED_BYTES
    }

    /// Returns the length of a ciphertext in bytes: the vector u and the polynomial v, compressed.
    pub const fn ciphertext_bytes(self) -> usize {
        let p = self.parameters();
        p.k * p.u_bytes() + p.v_bytes()
    }
}
