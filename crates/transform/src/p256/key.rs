//! Keys of P-256: validated once, wiped when dropped.

use std::sync::OnceLock;

use sealane_native::p256 as library;
use subtle::ConstantTimeEq as _;
use zeroize::{Zeroize as _, Zeroizing};

use super::curve::{self, Affine};
use super::integer::{self, N, U256};
use crate::debug_only;

/// A key of P-256 is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum P256KeyError {
    /// The private key is zero or not below the order of the group.
    #[error("the private key is not between zero and the order of the group")]
    PrivateRange,
    /// The library gave no random numbers.
    #[error("the library gave no random numbers")]
    Random,
    /// The encoding of the point is unknown.
    #[error(
        "{given_bytes} bytes are no point of P-256: a point has 65 bytes and starts with 4, or 33 and 2 or 3"
    )]
    PointEncoding {
        /// The given length.
        given_bytes: usize,
    },
    /// The coordinates are too large, or the point is off the curve.
    #[error("the point is not on the curve P-256")]
    OffCurve,
}

/// Returns the point of an encoding by SEC 1 section 2.3.4, uncompressed or compressed; the neutral point and
/// the hybrid form are refused.
pub(super) fn point_of_bytes(bytes: &[u8]) -> Option<Affine> {
    match (bytes.split_first_chunk::<1>()?, bytes.len()) {
        (([4], coordinates), 65) => {
            let (halves, _) = coordinates.as_chunks::<32>();
            Affine::new(integer::from_bytes(&halves[0]), integer::from_bytes(&halves[1]))
        }
        (([tag @ (2 | 3)], x), 33) => Affine::decompress(integer::from_bytes(x.first_chunk()?), *tag == 3),
        _ => None,
    }
}

/// Returns the uncompressed encoding of a point.
fn bytes_of_point(point: &Affine) -> [u8; 65] {
    let mut bytes = [4; 65];
    bytes[1..33].copy_from_slice(&integer::to_bytes(&point.x));
    bytes[33..].copy_from_slice(&integer::to_bytes(&point.y));
    bytes
}

/// Returns the big-endian bytes of a private key.
fn secret_bytes(scalar: &U256) -> Zeroizing<[u8; 32]> {
    Zeroizing::new(integer::to_bytes(scalar))
}

/// A private key of P-256 for ECDH and ECDSA, FIPS 186-5 section 6.1 and SP 800-56A.
pub struct P256PrivateKey {
    scalar: U256,
    /// The public key, made when it is first needed.
    public: OnceLock<P256PublicKey>,
    /// AWS-LC's form, made when the first single operation needs it.
    library: OnceLock<Option<library::Key>>,
}

debug_only!(P256PrivateKey {});

impl Drop for P256PrivateKey {
    fn drop(&mut self) {
        self.scalar.zeroize();
    }
}

impl P256PrivateKey {
    /// Takes a big-endian integer.
    ///
    /// # Errors
    /// Fails unless the integer is between zero and the order of the group.
    pub fn new(bytes: &[u8; 32]) -> Result<Self, P256KeyError> {
        let scalar = integer::from_bytes(bytes);
        if !bool::from(N.contains(&scalar) & !integer::is_zero(&scalar)) {
            return Err(P256KeyError::PrivateRange);
        }
        Ok(Self { scalar, public: OnceLock::new(), library: OnceLock::new() })
    }

    /// Draws a key.
    ///
    /// # Errors
    /// The library gave no random numbers.
    pub fn generate() -> Result<Self, P256KeyError> {
        let mut bytes = Zeroizing::new([0; 32]);
        // All but one in 2^32 of such numbers are keys.
        for _ in 0..8 {
            aws_lc_rs::rand::fill(&mut *bytes).map_err(|_| P256KeyError::Random)?;
            if let Ok(key) = Self::new(&bytes) {
                return Ok(key);
            }
        }
        Err(P256KeyError::Random)
    }

    /// Returns the public key, which AWS-LC computes at its first use (the reference, where AWS-LC has no memory).
    pub fn public_key(&self) -> &P256PublicKey {
        self.public.get_or_init(|| {
            let made = P256PublicKey::by_library(&self.scalar);
            made.unwrap_or_else(|| P256PublicKey::of_point(curve::public_point(&self.scalar)))
        })
    }

    pub(super) const fn scalar(&self) -> &U256 {
        &self.scalar
    }

    /// Returns AWS-LC's form; none if memory is short.
    pub(super) fn library(&self) -> Option<&library::Key> {
        self.library.get_or_init(|| library::Key::private(&secret_bytes(&self.scalar)).ok()).as_ref()
    }
}

impl PartialEq for P256PrivateKey {
    fn eq(&self, other: &Self) -> bool {
        self.scalar.ct_eq(&other.scalar).into()
    }
}

impl Eq for P256PrivateKey {}

/// A public key of P-256.
pub struct P256PublicKey {
    point: Affine,
    /// AWS-LC's form, made when the first single operation needs it.
    library: OnceLock<Option<library::Key>>,
}

debug_only!(P256PublicKey { point });

impl P256PublicKey {
    /// Takes a point by SEC 1: 65 bytes that start with 4, or 33 that start with 2 or 3.
    ///
    /// # Errors
    /// Fails on another encoding, and on a point that is not on the curve.
    pub fn new(bytes: &[u8]) -> Result<Self, P256KeyError> {
        let is_known = matches!((bytes.len(), bytes.first()), (65, Some(4)) | (33, Some(2 | 3)));
        if !is_known {
            return Err(P256KeyError::PointEncoding { given_bytes: bytes.len() });
        }
        point_of_bytes(bytes).map(Self::of_point).ok_or(P256KeyError::OffCurve)
    }

    /// Returns the public key of a private one, as AWS-LC computes it; none if memory is short.
    pub(super) fn by_library(scalar: &U256) -> Option<Self> {
        point_of_bytes(&library::public_of(&secret_bytes(scalar)).ok()?).map(Self::of_point)
    }

    pub(super) const fn of_point(point: Affine) -> Self {
        Self { point, library: OnceLock::new() }
    }

    /// Returns the point, uncompressed.
    pub fn to_bytes(&self) -> [u8; 65] {
        bytes_of_point(&self.point)
    }

    pub(super) const fn point(&self) -> &Affine {
        &self.point
    }

    /// Returns AWS-LC's form; none if memory is short.
    pub(super) fn library(&self) -> Option<&library::Key> {
        self.library.get_or_init(|| library::Key::public(&self.to_bytes()).ok()).as_ref()
    }
}

impl PartialEq for P256PublicKey {
    fn eq(&self, other: &Self) -> bool {
        self.point == other.point
    }
}

impl Eq for P256PublicKey {}
