//! ML-KEM by the algorithms of FIPS 203: the oracle. Names in comments are the standard's.
//!
//! No branch and no address depends on a secret. The matrix is sampled from the public seed rho with branches, and
//! divisions by q are multiplications, because a processor's division takes time that depends on its operands.

use zeroize::Zeroize as _;

use super::parameters::{
    CIPHERTEXT_BYTES_MAX, ETA2, K_MAX, N, NOISE_BYTES_MAX, POLY_BYTES, Parameters, Q, SEED_BYTES,
};
use super::{Decapsulate, Encapsulate, Generate, Secret, public_parts};
use crate::keccak::reference::{Squeezing, hash};
use crate::keccak::{SHA3_256, SHA3_512, SHAKE128, SHAKE256};

/// A polynomial, or its transform: coefficients below q.
type Poly = [u16; N];

/// A vector of polynomials: the first k count.
type Vector = [Poly; K_MAX];

/// Returns `value / q` and `value % q` for values below 2^24.
pub(crate) const fn divide(value: u32) -> (u32, u32) {
    // 2^36 / q, rounded up: exact for values below 2^24, because 2^24 * (the error below 1) is below 2^36 / q.
    const RECIPROCAL: u64 = (1 << 36) / Q as u64 + 1;
    let quotient = ((value as u64 * RECIPROCAL) >> 36) as u32;
    (quotient, value - quotient * Q as u32)
}

fn times(a: u16, b: u16) -> u16 {
    divide(u32::from(a) * u32::from(b)).1 as u16
}

fn plus(a: u16, b: u16) -> u16 {
    divide(u32::from(a) + u32::from(b)).1 as u16
}

fn minus(a: u16, b: u16) -> u16 {
    divide(u32::from(a) + u32::from(Q - b)).1 as u16
}

/// Returns 17^`exponent` modulo q: 17 is the standard's zeta.
pub(crate) const fn power(exponent: u32) -> u16 {
    let (mut result, mut left) = (1, exponent);
    while left > 0 {
        result = result * 17 % Q as u32;
        left -= 1;
    }
    result as u16
}

/// BitRev7.
pub(crate) const fn reversed(value: u32) -> u32 {
    value.reverse_bits() >> 25
}

/// The standard's zeta to the power of BitRev7(i), for i below 128.
pub(crate) const ZETAS: [u16; 128] = {
    let mut all = [0; 128];
    let mut i = 0;
    while i < 128 {
        all[i] = power(reversed(i as u32));
        i += 1;
    }
    all
};

/// NTT, algorithm 9.
pub(crate) fn transform(f: &mut Poly) {
    let mut i = 1;
    let mut length = 128;
    while length >= 2 {
        for start in (0..N).step_by(2 * length) {
            let zeta = ZETAS[i];
            i += 1;
            for j in start..start + length {
                let t = times(zeta, f[j + length]);
                f[j + length] = minus(f[j], t);
                f[j] = plus(f[j], t);
            }
        }
        length /= 2;
    }
}

/// The inverse of NTT, algorithm 10.
fn inverse(f: &mut Poly) {
    let mut i = 127;
    let mut length = 2;
    while length <= 128 {
        for start in (0..N).step_by(2 * length) {
            let zeta = ZETAS[i];
            i -= 1;
            for j in start..start + length {
                let t = f[j];
                f[j] = plus(t, f[j + length]);
                f[j + length] = times(zeta, minus(f[j + length], t));
            }
        }
        length *= 2;
    }
    // 128^-1.
    f.iter_mut().for_each(|value| *value = times(*value, 3303));
}

/// Adds the product of two transforms to a third, algorithm 11.
fn add_product(sum: &mut Poly, f: &Poly, g: &Poly) {
    for i in 0..N / 2 {
        // Zeta to the power of 2 BitRev7(i) + 1.
        let gamma = times(times(ZETAS[i], ZETAS[i]), 17);
        let (a0, a1, b0, b1) = (f[2 * i], f[2 * i + 1], g[2 * i], g[2 * i + 1]);
        sum[2 * i] = plus(sum[2 * i], plus(times(a0, b0), times(times(a1, b1), gamma)));
        sum[2 * i + 1] = plus(sum[2 * i + 1], plus(times(a0, b1), times(a1, b0)));
    }
}

fn add(sum: &mut Poly, other: &Poly) {
    sum.iter_mut().zip(other).for_each(|(sum, &other)| *sum = plus(*sum, other));
}

/// SampleNTT, algorithm 7, over rho and two indices: the seed is public. A test knows the function by its name.
#[inline(never)]
fn sample_matrix(rho: &[u8; SEED_BYTES], column: u8, row: u8) -> Poly {
    let mut stream = Squeezing::new(SHAKE128, &[rho, &[column, row]]);
    let mut result = [0; N];
    let mut filled = 0;
    while filled < N {
        let mut c = [0; 3];
        stream.squeeze(&mut c);
        let [a, b, c] = c.map(u16::from);
        for candidate in [a + 256 * (b % 16), b / 16 + 16 * c] {
            if candidate < Q && filled < N {
                result[filled] = candidate;
                filled += 1;
            }
        }
    }
    result
}

/// SamplePolyCBD, algorithm 8, over PRF's output of algorithm 13 and 14's seed and counter.
fn sample_noise(eta: usize, seed: &[u8; SEED_BYTES], counter: usize) -> Poly {
    // More bytes than are needed change nothing in the first ones.
    let mut bytes = hash::<NOISE_BYTES_MAX>(SHAKE256, &[seed, &[counter as u8]]);
    let bit = |at: usize| u16::from(bytes[at / 8] >> (at % 8) & 1);
    let result = core::array::from_fn(|i| {
        let x = (0..eta).map(|j| bit(2 * i * eta + j)).sum();
        let y = (0..eta).map(|j| bit(2 * i * eta + eta + j)).sum();
        minus(x, y)
    });
    bytes.zeroize();
    result
}

/// ByteEncode, algorithm 5, of coefficients of `bits` bits.
fn encode(f: &Poly, bits: usize, output: &mut [u8]) {
    output.fill(0);
    for at in 0..N * bits {
        let bit = f[at / bits] >> (at % bits) & 1;
        output[at / 8] |= (bit as u8) << (at % 8);
    }
}

/// ByteDecode, algorithm 6, of coefficients of `bits` bits, without a reduction.
fn decode(bytes: &[u8], bits: usize) -> Poly {
    let mut f = [0; N];
    for at in 0..N * bits {
        f[at / bits] |= u16::from(bytes[at / 8] >> (at % 8) & 1) << (at % bits);
    }
    f
}

/// ByteDecode12 of a vector, whose coefficients count modulo q.
fn decode_vector(bytes: &[u8]) -> Vector {
    let mut vector = [[0; N]; K_MAX];
    for (poly, bytes) in vector.iter_mut().zip(bytes.chunks_exact(POLY_BYTES)) {
        *poly = decode(bytes, 12).map(|value| divide(value.into()).1 as u16);
    }
    vector
}

/// Compress, equation 4.7, of values below q.
pub(crate) const fn compress(value: u16, bits: u32) -> u16 {
    let rounded = divide(((value as u32) << bits) + Q as u32 / 2).0;
    (rounded & ((1 << bits) - 1)) as u16
}

/// Decompress, equation 4.8.
pub(crate) const fn decompress(value: u16, bits: u32) -> u16 {
    ((value as u32 * Q as u32 + (1 << (bits - 1))) >> bits) as u16
}

/// The seeds of a key pair that K-PKE.KeyGen, algorithm 13, takes from d: rho, which is public, and sigma.
fn expand_seed(p: &Parameters, d: &[u8]) -> ([u8; SEED_BYTES], [u8; SEED_BYTES]) {
    let mut both = hash::<64>(SHA3_512, &[d, &[p.k as u8]]);
    let seeds = halves(&both);
    both.zeroize();
    seeds
}

/// ML-KEM.KeyGen_internal, algorithm 16.
pub(crate) fn generate_reference(job: &mut Generate<'_>) {
    let (d, z) = job.seed.split_at(SEED_BYTES);
    let (rho, mut sigma) = expand_seed(job.set.parameters(), d);
    generate_from(&rho, &sigma, z, job);
    sigma.zeroize();
}

/// The rest of key generation after [`expand_seed`].
fn generate_from(rho: &[u8; SEED_BYTES], sigma: &[u8; SEED_BYTES], z: &[u8], job: &mut Generate<'_>) {
    let p = job.set.parameters();
    let noise = |counter: usize| {
        let mut f = sample_noise(p.eta1, sigma, counter);
        transform(&mut f);
        f
    };
    let mut s: Vector = core::array::from_fn(noise);
    let mut t: Vector = core::array::from_fn(|i| noise(p.k + i));
    for (i, t) in t[..p.k].iter_mut().enumerate() {
        for (j, s) in s[..p.k].iter().enumerate() {
            add_product(t, &sample_matrix(rho, j as u8, i as u8), s);
        }
    }
    let (vector, rest) = job.decapsulation_key.split_at_mut(p.packed_bytes());
    for (s, bytes) in s.iter().zip(vector.chunks_exact_mut(POLY_BYTES)) {
        encode(s, 12, bytes);
    }
    let (ek, rest) = rest.split_at_mut(p.packed_bytes() + SEED_BYTES);
    for (t, bytes) in t.iter().zip(ek.chunks_exact_mut(POLY_BYTES)) {
        encode(t, 12, bytes);
    }
    ek[p.packed_bytes()..].copy_from_slice(rho);
    let (h, rejection) = rest.split_at_mut(SEED_BYTES);
    h.copy_from_slice(&hash::<SEED_BYTES>(SHA3_256, &[ek]));
    rejection.copy_from_slice(z);
    s.zeroize();
    t.zeroize();
}

/// K-PKE.Encrypt, algorithm 14.
fn encrypt(
    p: &Parameters,
    ek: &[u8],
    message: &[u8; SEED_BYTES],
    coins: &[u8; SEED_BYTES],
    output: &mut [u8],
) {
    let (t, rho) = public_parts(ek);
    let t = decode_vector(t);
    let mut y: Vector = core::array::from_fn(|i| sample_noise(p.eta1, coins, i));
    y.iter_mut().for_each(transform);
    let y_used = &y[..p.k];
    let (u_bytes, v_bytes) = output.split_at_mut(p.k * p.u_bytes());
    for (i, bytes) in u_bytes.chunks_exact_mut(p.u_bytes()).enumerate() {
        let mut u = [0; N];
        for (j, y) in y_used.iter().enumerate() {
            // The transposed matrix.
            add_product(&mut u, &sample_matrix(rho, i as u8, j as u8), y);
        }
        inverse(&mut u);
        add(&mut u, &sample_noise(ETA2, coins, p.k + i));
        encode(&u.map(|value| compress(value, p.du as u32)), p.du, bytes);
        u.zeroize();
    }
    let mut v = [0; N];
    t.iter().zip(y_used).for_each(|(t, y)| add_product(&mut v, t, y));
    inverse(&mut v);
    add(&mut v, &sample_noise(ETA2, coins, 2 * p.k));
    add(&mut v, &decode(message, 1).map(|bit| decompress(bit, 1)));
    encode(&v.map(|value| compress(value, p.dv as u32)), p.dv, v_bytes);
    y.zeroize();
    v.zeroize();
}

/// K-PKE.Decrypt, algorithm 15.
fn decrypt(p: &Parameters, s: &[u8], ciphertext: &[u8]) -> [u8; SEED_BYTES] {
    let (u_bytes, v_bytes) = ciphertext.split_at(p.k * p.u_bytes());
    let mut s = decode_vector(s);
    let mut w = [0; N];
    for (s, bytes) in s.iter().zip(u_bytes.chunks_exact(p.u_bytes())) {
        let mut u = decode(bytes, p.du).map(|value| decompress(value, p.du as u32));
        transform(&mut u);
        add_product(&mut w, s, &u);
    }
    inverse(&mut w);
    let v = decode(v_bytes, p.dv).map(|value| decompress(value, p.dv as u32));
    let mut bits: Poly = core::array::from_fn(|i| compress(minus(v[i], w[i]), 1));
    let mut message = [0; SEED_BYTES];
    encode(&bits, 1, &mut message);
    s.zeroize();
    w.zeroize();
    bits.zeroize();
    message
}

/// Splits G's output: the secret and the coins.
fn halves(g: &[u8; 64]) -> (Secret, [u8; SEED_BYTES]) {
    let both = g.as_chunks::<SEED_BYTES>().0;
    (both[0], both[1])
}

/// ML-KEM.Encaps_internal, algorithm 17.
pub(crate) fn encapsulate_reference(job: &mut Encapsulate<'_>) {
    let ek = job.key.as_bytes();
    let mut g = hash::<64>(SHA3_512, &[job.message, &hash::<SEED_BYTES>(SHA3_256, &[ek])]);
    let (secret, mut coins) = halves(&g);
    encrypt(job.key.set().parameters(), ek, job.message, &coins, job.ciphertext);
    *job.secret = secret;
    g.zeroize();
    coins.zeroize();
}

/// ML-KEM.Decaps_internal, algorithm 18.
pub(crate) fn decapsulate_reference(job: &mut Decapsulate<'_>) {
    let (p, key) = (job.key.set().parameters(), job.key.parts());
    let mut message = decrypt(p, key.vector, job.ciphertext);
    let mut g = hash::<64>(SHA3_512, &[&message, key.hash]);
    let (mut secret, mut coins) = halves(&g);
    let mut rejected = hash::<SEED_BYTES>(SHAKE256, &[key.rejection, job.ciphertext]);
    let mut room = [0; CIPHERTEXT_BYTES_MAX];
    let again = &mut room[..job.ciphertext.len()];
    encrypt(p, key.encapsulation_key, &message, &coins, again);
    // All ones if the ciphertexts differ: no branch.
    let difference = again.iter().zip(job.ciphertext).fold(0, |all, (a, b)| all | (a ^ b));
    let mask = (u16::from(difference).wrapping_neg() >> 8) as u8;
    let mask = core::hint::black_box(mask);
    for (output, (secret, rejected)) in job.secret.iter_mut().zip(secret.iter().zip(&rejected)) {
        *output = secret ^ (mask & (secret ^ rejected));
    }
    message.zeroize();
    g.zeroize();
    secret.zeroize();
    coins.zeroize();
    rejected.zeroize();
    room.zeroize();
}
