//! K-PKE of one operation over vectors of any width: key generation, encryption and decryption after the sampling.
//!
//! Everything is inlined into functions of a machine's instructions, with one instance per parameter set. Products are
//! divided by 2^16 on the way, which the inverse transform undoes.
//!
//! No branch and no address depends on a coefficient.

use super::parameters::{K_MAX, N, POLY_BYTES, Parameters, SEED_BYTES};
use crate::wipe::wipe;

/// Coefficients that sampling may write behind a polynomial.
pub(crate) const SAMPLE_SLACK: usize = 16;

/// A polynomial of a matrix, with room behind it.
pub(crate) type Sampled = [u16; N + SAMPLE_SLACK];

/// A polynomial of noise: coefficients of at most three in amount.
#[repr(align(64))]
#[derive(Clone, Copy)]
pub(crate) struct Noise(pub(crate) [i16; N]);

impl Noise {
    pub(crate) const ZERO: Self = Self([0; N]);
}

/// A seed or a message of 32 bytes.
pub(crate) type Seed = [u8; SEED_BYTES];

/// Polynomials in vectors. Coefficients are signed; each function states how large.
///
/// # Safety
/// The functions of an implementation are called only where its instructions are enabled.
pub(crate) trait Vectors {
    /// A polynomial.
    type Poly: Copy;
    /// A transform prepared to be a factor.
    type Factor: Copy;
    /// Sums of products.
    type Sum;

    const ZERO: Self::Poly;
    const NO_FACTOR: Self::Factor;

    fn load(coefficients: &Noise) -> Self::Poly;
    fn load_sampled(coefficients: &Sampled) -> Self::Poly;
    /// NTT of coefficients up to 1.5 q; the result is below 0.64 q in amount.
    fn transform(f: &mut Self::Poly);
    /// The inverse of NTT, times 2^16. Coefficients up to q; the result is below 0.6 q in amount.
    fn inverse(f: &mut Self::Poly);
    /// Prepares a reduced transform to be a factor.
    fn prepare(f: &Self::Poly) -> Self::Factor;
    fn nothing() -> Self::Sum;
    /// Adds the product of a transform, below q in amount, and a factor; four products fit.
    fn add_product(sum: &mut Self::Sum, a: &Self::Poly, b: &Self::Factor);
    /// Returns sums divided by 2^16 modulo q: below q in amount.
    fn reduce_sum(sum: &Self::Sum) -> Self::Poly;
    /// Returns `f` times 2^16.
    fn restore(f: &Self::Poly) -> Self::Poly;
    /// Adds another polynomial, and reduces: both up to 4 q in amount.
    fn add(f: &mut Self::Poly, other: &Self::Poly);
    /// Returns `a - b`, reduced.
    fn subtract(a: &Self::Poly, b: &Self::Poly) -> Self::Poly;
    /// ByteDecode12; coefficients count modulo q.
    fn decode_12(bytes: &[u8]) -> Self::Poly;
    /// ByteEncode12 of a polynomial above -q and below q; up to 16 bytes behind it are overwritten.
    fn encode_12(f: &Self::Poly, output: &mut [u8]);
    /// Decompress of a coded polynomial of that many bits a coefficient.
    fn decompress(bits: usize, bytes: &[u8]) -> Self::Poly;
    /// Compress of a polynomial above -q and below q; up to 24 bytes of `output` behind it are overwritten.
    fn compress(bits: usize, f: &Self::Poly, output: &mut [u8]);
    /// Decompress of a message.
    fn from_message(message: &Seed) -> Self::Poly;
    /// Compress to a message of a reduced polynomial.
    fn to_message(f: &Self::Poly) -> Seed;
}

/// Transforms polynomials, and returns them as factors.
#[inline(always)]
fn transform_vector<V: Vectors, const K: usize>(polys: &mut [V::Poly; K]) -> [V::Factor; K] {
    let mut factors = [V::NO_FACTOR; K];
    for (poly, factor) in polys.iter_mut().zip(&mut factors) {
        V::transform(poly);
        *factor = V::prepare(poly);
    }
    factors
}

/// Returns the product of a coded vector and a vector, divided by 2^16.
#[inline(always)]
fn coded_product<V: Vectors, const K: usize>(coded: &[u8], vector: &[V::Factor; K]) -> V::Poly {
    let mut sum = V::nothing();
    for (bytes, factor) in coded.chunks_exact(POLY_BYTES).zip(vector) {
        V::add_product(&mut sum, &V::decode_12(bytes), factor);
    }
    V::reduce_sum(&sum)
}

/// K-PKE.KeyGen of a matrix, by rows, and of the noise of s and e: writes the secret vector, and behind it t.
#[inline(always)]
pub(crate) fn key_pair<V: Vectors, const K: usize>(matrix: &[Sampled], noise: &[Noise], output: &mut [u8]) {
    const { assert!(K <= K_MAX) }
    let (s, e) = noise.split_at(K);
    let mut polys = [V::ZERO; K];
    for (poly, s) in polys.iter_mut().zip(s) {
        *poly = V::load(s);
    }
    let mut factors = transform_vector::<V, K>(&mut polys);
    // Each overwrites bytes of the next.
    for (i, poly) in polys.iter().enumerate() {
        V::encode_12(poly, &mut output[POLY_BYTES * i..]);
    }
    for (i, (row, e)) in matrix.chunks_exact(K).zip(e).enumerate() {
        let mut sum = V::nothing();
        for (entry, factor) in row.iter().zip(&factors) {
            V::add_product(&mut sum, &V::load_sampled(entry), factor);
        }
        let mut t = V::restore(&V::reduce_sum(&sum));
        let mut e = V::load(e);
        V::transform(&mut e);
        V::add(&mut t, &e);
        V::encode_12(&t, &mut output[POLY_BYTES * (K + i)..]);
    }
    wipe(&mut polys, V::ZERO);
    wipe(&mut factors, V::NO_FACTOR);
}

/// K-PKE.Encrypt with a coded t, the matrix by rows, and the noise of y, e1 and e2.
#[inline(always)]
pub(crate) fn encrypt<V: Vectors, const K: usize>(
    key: &[u8],
    matrix: &[Sampled],
    noise: &[Noise],
    message: &Seed,
    output: &mut [u8],
) {
    let p = const { Parameters::of_k(K) };
    let mut polys = [V::ZERO; K];
    for (poly, y) in polys.iter_mut().zip(noise) {
        *poly = V::load(y);
    }
    let mut y = transform_vector::<V, K>(&mut polys);
    for i in 0..K {
        let mut sum = V::nothing();
        for (j, factor) in y.iter().enumerate() {
            // The transposed matrix.
            V::add_product(&mut sum, &V::load_sampled(&matrix[K * j + i]), factor);
        }
        let mut u = V::reduce_sum(&sum);
        V::inverse(&mut u);
        V::add(&mut u, &V::load(&noise[K + i]));
        // The next polynomial or v overwrites the bytes that this writes too much.
        V::compress(p.du, &u, &mut output[p.u_bytes() * i..]);
    }
    let mut v = coded_product::<V, K>(key, &y);
    V::inverse(&mut v);
    V::add(&mut v, &V::load(&noise[2 * K]));
    V::add(&mut v, &V::from_message(message));
    V::compress(p.dv, &v, &mut output[K * p.u_bytes()..]);
    wipe(&mut polys, V::ZERO);
    wipe(&mut y, V::NO_FACTOR);
    wipe(core::slice::from_mut(&mut v), V::ZERO);
}

/// K-PKE.Decrypt.
#[inline(always)]
pub(crate) fn decrypt<V: Vectors, const K: usize>(secret: &[u8], ciphertext: &[u8]) -> Seed {
    let p = const { Parameters::of_k(K) };
    let (u, v) = ciphertext.split_at(K * p.u_bytes());
    let mut polys = [V::ZERO; K];
    for (poly, bytes) in polys.iter_mut().zip(u.chunks_exact(p.u_bytes())) {
        *poly = V::decompress(p.du, bytes);
    }
    let u = transform_vector::<V, K>(&mut polys);
    let mut w = coded_product::<V, K>(secret, &u);
    V::inverse(&mut w);
    let mut difference = V::subtract(&V::decompress(p.dv, v), &w);
    let message = V::to_message(&difference);
    wipe(core::slice::from_mut(&mut w), V::ZERO);
    wipe(core::slice::from_mut(&mut difference), V::ZERO);
    message
}
