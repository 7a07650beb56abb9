//! ML-DSA by the algorithms of FIPS 204: the oracle. Functions have the standard's names.
//!
//! No branch and no address depends on a secret, except where the standard rejects candidates: [`rej_bounded_poly`]
//! shows which candidates of a secret polynomial it drops, which are independent of those that it keeps, and
//! [`sign_internal`] shows how many attempts it makes, and the challenges of those that it rejects. The norm checks
//! do not show which coefficient is too large. Divisions are multiplications, because a processor's division takes
//! time that depends on its operands. What may decide by bytes that come of a secret is not inlined, so that a test
//! can name it.

use zeroize::{Zeroize as _, Zeroizing};

use super::parameters::{
    ATTEMPTS_MAX, CHALLENGE_BYTES_MAX, D, MU_BYTES, N, PRIVATE_SEED_BYTES, Parameters, Q, SEED_BYTES,
    T0_BYTES, T1_BYTES, TR_BYTES,
};
use super::{Generate, Signing, Verifying};
use crate::keccak::reference::{Squeezing, hash};
use crate::keccak::{SHAKE128, SHAKE256};

/// A polynomial, or its transform: coefficients below q.
pub(crate) type Poly = [u32; N];

/// Returns `value` modulo q.
const fn modulo(value: u64) -> u32 {
    // The quotient is the right one or one too small.
    const RECIPROCAL: u128 = (1 << 64) / Q as u128;
    let quotient = ((value as u128 * RECIPROCAL) >> 64) as u64;
    let rest = (value - quotient * Q as u64) as u32;
    rest.wrapping_sub(Q & mask(rest >= Q))
}

/// Returns all ones or nothing, without a branch.
const fn mask(condition: bool) -> u32 {
    (condition as u32).wrapping_neg()
}

/// Returns `value / by` for values below 2^24 and divisors below 2^20.
const fn divide(value: u32, by: u32) -> u32 {
    // The divisor is public.
    let reciprocal = (1 << 48) / by as u64 + 1;
    ((value as u64 * reciprocal) >> 48) as u32
}

const fn times(a: u32, b: u32) -> u32 {
    modulo(a as u64 * b as u64)
}

const fn plus(a: u32, b: u32) -> u32 {
    modulo(a as u64 + b as u64)
}

const fn minus(a: u32, b: u32) -> u32 {
    modulo(a as u64 + (Q - b) as u64)
}

/// Returns a small signed number modulo q.
const fn from_signed(value: i32) -> u32 {
    (value as u32).wrapping_add(Q & mask(value < 0))
}

/// Returns `value` mod+- q: the representative of the least amount.
const fn centered(value: u32) -> i32 {
    value.wrapping_sub(Q & mask(value > Q / 2)) as i32
}

/// Returns the amount of `value` mod+- q.
const fn amount(value: u32) -> u32 {
    let value = centered(value);
    let sign = value >> 31;
    ((value ^ sign) - sign) as u32
}

/// BitRev8, algorithm 43.
const fn bit_rev_8(value: u32) -> u32 {
    value.reverse_bits() >> 24
}

/// The zetas of appendix B: 1753 to the power of BitRev8(i).
pub(crate) const ZETAS: [u32; N] = {
    let mut all = [0; N];
    let mut i = 0;
    while i < N {
        let (mut power, mut left) = (1, bit_rev_8(i as u32));
        while left > 0 {
            power = (power * 1753) % Q as u64;
            left -= 1;
        }
        all[i] = power as u32;
        i += 1;
    }
    all
};

/// NTT, algorithm 41.
pub(crate) fn ntt(w: &mut Poly) {
    let mut m = 0;
    let mut len = 128;
    while len >= 1 {
        for start in (0..N).step_by(2 * len) {
            m += 1;
            for j in start..start + len {
                let t = times(ZETAS[m], w[j + len]);
                w[j + len] = minus(w[j], t);
                w[j] = plus(w[j], t);
            }
        }
        len /= 2;
    }
}

/// NTT^-1, algorithm 42.
fn ntt_inverse(w: &mut Poly) {
    let mut m = N;
    let mut len = 1;
    while len < N {
        for start in (0..N).step_by(2 * len) {
            m -= 1;
            for j in start..start + len {
                let t = w[j];
                w[j] = plus(t, w[j + len]);
                w[j + len] = times(Q - ZETAS[m], minus(t, w[j + len]));
            }
        }
        len *= 2;
    }
    // 256^-1.
    w.iter_mut().for_each(|value| *value = times(*value, 8_347_681));
}

/// MultiplyNTT and AddNTT, algorithms 44 and 45: adds the product of two transforms to a third.
fn add_multiply_ntt(sum: &mut Poly, a: &Poly, b: &Poly) {
    for ((sum, a), b) in sum.iter_mut().zip(a).zip(b) {
        *sum = plus(*sum, times(*a, *b));
    }
}

/// MatrixVectorNTT, algorithm 48.
fn matrix_vector_ntt(matrix: &[Vec<Poly>], v: &[Poly]) -> Vec<Poly> {
    let row = |row: &Vec<Poly>| {
        let mut sum = [0; N];
        row.iter().zip(v).for_each(|(a, b)| add_multiply_ntt(&mut sum, a, b));
        sum
    };
    matrix.iter().map(row).collect()
}

/// Returns the product of a transform and each polynomial of a vector of transforms.
fn scalar_vector_ntt(c: &Poly, v: &[Poly]) -> Vec<Poly> {
    let product = |v: &Poly| {
        let mut product = [0; N];
        add_multiply_ntt(&mut product, c, v);
        ntt_inverse(&mut product);
        product
    };
    v.iter().map(product).collect()
}

fn add(a: &[Poly], b: &[Poly]) -> Vec<Poly> {
    let sum = |(a, b): (&Poly, &Poly)| core::array::from_fn(|i| plus(a[i], b[i]));
    a.iter().zip(b).map(sum).collect()
}

fn subtract(a: &[Poly], b: &[Poly]) -> Vec<Poly> {
    let difference = |(a, b): (&Poly, &Poly)| core::array::from_fn(|i| minus(a[i], b[i]));
    a.iter().zip(b).map(difference).collect()
}

/// Returns whether the amount of every coefficient is below `bound`, and nothing else.
fn is_norm_below(v: &[Poly], bound: u32) -> bool {
    let outside = v.iter().flatten().fold(0, |all, value| all | mask(amount(*value) >= bound));
    core::hint::black_box(outside) == 0
}

/// SimpleBitPack, algorithm 16: coefficients of `bits` bits, the lowest first.
fn simple_bit_pack(w: &Poly, bits: u32, output: &mut [u8]) {
    let (mut pending, mut count, mut at) = (0u64, 0, 0);
    for value in w {
        pending |= u64::from(*value) << count;
        count += bits;
        while count >= 8 {
            output[at] = pending as u8;
            pending >>= 8;
            count -= 8;
            at += 1;
        }
    }
}

/// SimpleBitUnpack, algorithm 18.
pub(crate) fn simple_bit_unpack(bytes: &[u8], bits: u32) -> Poly {
    core::array::from_fn(|i| {
        let first = i * bits as usize;
        let window = (0..4).fold(0u32, |window, n| {
            window | u32::from(bytes.get(first / 8 + n).copied().unwrap_or(0)) << (8 * n)
        });
        (window >> (first % 8)) & ((1 << bits) - 1)
    })
}

/// BitPack, algorithm 17: coefficients from b - 2^bits + 1 to b.
fn bit_pack(w: &Poly, b: u32, bits: u32, output: &mut [u8]) {
    simple_bit_pack(&w.map(|value| minus(b, value)), bits, output);
}

/// BitUnpack, algorithm 19. Values above a + b, which only the caller can exclude, give coefficients below -a.
fn bit_unpack(bytes: &[u8], b: u32, bits: u32) -> Poly {
    simple_bit_unpack(bytes, bits).map(|value| minus(b, value))
}

/// HintBitPack, algorithm 20.
#[inline(never)]
fn hint_bit_pack(p: &Parameters, h: &[[bool; N]], y: &mut [u8]) {
    let mut index = 0;
    for (i, h) in h.iter().enumerate() {
        for (j, _) in h.iter().enumerate().filter(|(_, is_set)| **is_set) {
            y[index] = j as u8;
            index += 1;
        }
        y[p.omega + i] = index as u8;
    }
}

/// HintBitUnpack, algorithm 21: none if the encoding is malformed.
pub(crate) fn hint_bit_unpack(p: &Parameters, y: &[u8]) -> Option<Vec<[bool; N]>> {
    let mut h = vec![[false; N]; p.k];
    let mut index = 0;
    for (i, h) in h.iter_mut().enumerate() {
        let end = usize::from(y[p.omega + i]);
        if end < index || end > p.omega {
            return None;
        }
        let ones = &y[index..end];
        if !ones.is_sorted_by(|one, next| one < next) {
            return None;
        }
        ones.iter().for_each(|one| h[usize::from(*one)] = true);
        index = end;
    }
    y[index..p.omega].iter().all(|byte| *byte == 0).then_some(h)
}

/// SampleInBall, algorithm 29.
#[inline(never)]
pub(crate) fn sample_in_ball(p: &Parameters, rho: &[u8]) -> Poly {
    let mut stream = Squeezing::new(SHAKE256, &[rho]);
    let mut signs = [0; 8];
    stream.squeeze(&mut signs);
    let signs = u64::from_le_bytes(signs);
    let mut c = [0; N];
    for i in N - p.tau..N {
        let mut j = [0];
        stream.squeeze(&mut j);
        while usize::from(j[0]) > i {
            stream.squeeze(&mut j);
        }
        c[i] = c[usize::from(j[0])];
        c[usize::from(j[0])] = if signs >> (i + p.tau - N) & 1 == 1 { Q - 1 } else { 1 };
    }
    c
}

/// RejNTTPoly, algorithm 30, with CoeffFromThreeBytes, algorithm 14. The seed is public.
#[inline(never)]
fn rej_ntt_poly(rho: &[u8]) -> Poly {
    let mut stream = Squeezing::new(SHAKE128, &[rho]);
    let mut a = [0; N];
    let mut j = 0;
    while j < N {
        let mut s = [0; 3];
        stream.squeeze(&mut s);
        let z = u32::from(s[2] & 0x7f) << 16 | u32::from(s[1]) << 8 | u32::from(s[0]);
        if z < Q {
            a[j] = z;
            j += 1;
        }
    }
    a
}

/// RejBoundedPoly, algorithm 31, with CoeffFromHalfByte, algorithm 15.
#[inline(never)]
fn rej_bounded_poly(p: &Parameters, rho: &[u8]) -> Poly {
    let mut stream = Squeezing::new(SHAKE256, &[rho]);
    let mut a = [0; N];
    let mut j = 0;
    while j < N {
        let mut z = [0];
        stream.squeeze(&mut z);
        for half in [z[0] & 15, z[0] >> 4] {
            let half = u32::from(half);
            let is_kept = half < if p.eta == 2 { 15 } else { 9 };
            if is_kept && j < N {
                let value = if p.eta == 2 { half - 5 * divide(half, 5) } else { half };
                a[j] = minus(p.eta, value);
                j += 1;
            }
        }
    }
    a
}

/// ExpandA, algorithm 32.
fn expand_a(p: &Parameters, rho: &[u8]) -> Vec<Vec<Poly>> {
    let entry = |r: usize, s: usize| rej_ntt_poly(&[rho, &[s as u8, r as u8]].concat());
    (0..p.k).map(|r| (0..p.l).map(|s| entry(r, s)).collect()).collect()
}

/// ExpandS, algorithm 33.
fn expand_s(p: &Parameters, rho: &[u8; PRIVATE_SEED_BYTES]) -> (Zeroizing<Vec<Poly>>, Zeroizing<Vec<Poly>>) {
    let poly = |r: usize| {
        let seed = Zeroizing::new([&rho[..], &(r as u16).to_le_bytes()].concat());
        rej_bounded_poly(p, &seed)
    };
    let s1 = (0..p.l).map(poly).collect();
    let s2 = (p.l..p.l + p.k).map(poly).collect();
    (Zeroizing::new(s1), Zeroizing::new(s2))
}

/// ExpandMask, algorithm 34.
fn expand_mask(p: &Parameters, rho: &[u8; PRIVATE_SEED_BYTES], mu: u16) -> Zeroizing<Vec<Poly>> {
    let poly = |r: usize| {
        let seed = (mu + r as u16).to_le_bytes();
        let mut v = Zeroizing::new(vec![0; p.z_bytes()]);
        Squeezing::new(SHAKE256, &[rho, &seed]).squeeze(&mut v);
        bit_unpack(&v, p.gamma1(), p.z_bits())
    };
    Zeroizing::new((0..p.l).map(poly).collect())
}

/// Power2Round, algorithm 35.
fn power2_round(r: u32) -> (u32, u32) {
    let r1 = (r + (1 << (D - 1)) - 1) >> D;
    (r1, from_signed(r as i32 - (r1 << D) as i32))
}

/// Decompose, algorithm 36.
pub(crate) const fn decompose(p: &Parameters, r: u32) -> (u32, u32) {
    let r1 = divide(r + p.gamma2 - 1, 2 * p.gamma2);
    let r0 = r as i32 - (r1 * 2 * p.gamma2) as i32;
    let is_top = r1 == (Q - 1) / (2 * p.gamma2);
    (r1 & !mask(is_top), from_signed(r0 - is_top as i32))
}

/// HighBits, algorithm 37.
pub(crate) const fn high_bits(p: &Parameters, r: u32) -> u32 {
    decompose(p, r).0
}

/// LowBits, algorithm 38.
const fn low_bits(p: &Parameters, r: u32) -> u32 {
    decompose(p, r).1
}

/// MakeHint, algorithm 39.
const fn make_hint(p: &Parameters, z: u32, r: u32) -> bool {
    high_bits(p, r) != high_bits(p, plus(r, z))
}

/// UseHint, algorithm 40. Everything is public.
pub(crate) const fn use_hint(p: &Parameters, h: bool, r: u32) -> u32 {
    let m = (Q - 1) / (2 * p.gamma2);
    let (r1, r0) = decompose(p, r);
    match (h, centered(r0) > 0) {
        (false, _) => r1,
        (true, true) => (r1 + 1) % m,
        (true, false) => (r1 + m - 1) % m,
    }
}

/// w1Encode, algorithm 28.
fn w1_encode(p: &Parameters, w1: &[Poly]) -> Zeroizing<Vec<u8>> {
    let mut output = Zeroizing::new(vec![0; p.k * p.w1_bytes()]);
    for (w1, bytes) in w1.iter().zip(output.chunks_exact_mut(p.w1_bytes())) {
        simple_bit_pack(w1, p.w1_bits(), bytes);
    }
    output
}

/// pkEncode, algorithm 22.
fn pk_encode(rho: &[u8], t1: &[Poly], output: &mut [u8]) {
    let (first, rest) = output.split_at_mut(SEED_BYTES);
    first.copy_from_slice(rho);
    t1.iter().zip(rest.chunks_exact_mut(T1_BYTES)).for_each(|(t1, bytes)| simple_bit_pack(t1, 10, bytes));
}

/// pkDecode, algorithm 23: rho and t1.
fn pk_decode(pk: &[u8]) -> (&[u8], Vec<Poly>) {
    let (rho, rest) = pk.split_at(SEED_BYTES);
    (rho, rest.chunks_exact(T1_BYTES).map(|bytes| simple_bit_unpack(bytes, 10)).collect())
}

/// A private key: what skDecode, algorithm 25, returns.
struct Private<'a> {
    rho: &'a [u8],
    k: &'a [u8],
    s1: Zeroizing<Vec<Poly>>,
    s2: Zeroizing<Vec<Poly>>,
    t0: Zeroizing<Vec<Poly>>,
}

/// skDecode, algorithm 25.
fn sk_decode<'a>(p: &Parameters, sk: &'a [u8]) -> Private<'a> {
    let (rho, rest) = sk.split_at(SEED_BYTES);
    let (k, rest) = rest.split_at(SEED_BYTES);
    let (s1, rest) = rest[TR_BYTES..].split_at(p.l * p.eta_bytes());
    let (s2, t0) = rest.split_at(p.k * p.eta_bytes());
    let small = |bytes: &[u8]| {
        let poly = |bytes| bit_unpack(bytes, p.eta, p.eta_bits());
        Zeroizing::new(bytes.chunks_exact(p.eta_bytes()).map(poly).collect())
    };
    let t0 = t0.chunks_exact(T0_BYTES).map(|bytes| bit_unpack(bytes, 1 << (D - 1), D)).collect();
    Private { rho, k, s1: small(s1), s2: small(s2), t0: Zeroizing::new(t0) }
}

/// Transforms a vector.
fn ntt_vector(v: &[Poly]) -> Zeroizing<Vec<Poly>> {
    let mut v = Zeroizing::new(v.to_vec());
    v.iter_mut().for_each(ntt);
    v
}

/// ML-DSA.KeyGen_internal, algorithm 6.
pub(crate) fn key_gen_internal(job: &mut Generate<'_>) {
    let p = job.set.parameters();
    let seeds = Zeroizing::new(hash::<128>(SHAKE256, &[job.seed, &[p.k as u8, p.l as u8]]));
    let (rho, rest) = seeds.split_at(SEED_BYTES);
    let (rho_prime, k) = rest.split_first_chunk().expect("96 bytes");
    let (s1, s2) = expand_s(p, rho_prime);
    let mut product = Zeroizing::new(matrix_vector_ntt(&expand_a(p, rho), &ntt_vector(&s1)));
    product.iter_mut().for_each(ntt_inverse);
    let t = Zeroizing::new(add(&product, &s2));
    let t1: Vec<Poly> = t.iter().map(|t| t.map(|r| power2_round(r).0)).collect();
    pk_encode(rho, &t1, job.public);
    let tr = hash::<TR_BYTES>(SHAKE256, &[job.public]);
    // skEncode, algorithm 24.
    let (first, rest) = job.private.split_at_mut(SEED_BYTES);
    first.copy_from_slice(rho);
    let (second, rest) = rest.split_at_mut(SEED_BYTES);
    second.copy_from_slice(k);
    let (third, rest) = rest.split_at_mut(TR_BYTES);
    third.copy_from_slice(&tr);
    let (small, rest) = rest.split_at_mut((p.l + p.k) * p.eta_bytes());
    for (s, bytes) in s1.iter().chain(s2.iter()).zip(small.chunks_exact_mut(p.eta_bytes())) {
        bit_pack(s, p.eta, p.eta_bits(), bytes);
    }
    for (t, bytes) in t.iter().zip(rest.chunks_exact_mut(T0_BYTES)) {
        bit_pack(&t.map(|r| power2_round(r).1), 1 << (D - 1), D, bytes);
    }
}

/// ML-DSA.Sign_internal, algorithm 7, from the message's representative mu on; returns the number of attempts, or
/// none if there were [`ATTEMPTS_MAX`].
pub(crate) fn sign_internal(job: &mut Signing<'_>) -> Option<usize> {
    let p = job.key.set().parameters();
    let key = sk_decode(p, job.key.expanded());
    let (s1, s2, t0) = (ntt_vector(&key.s1), ntt_vector(&key.s2), ntt_vector(&key.t0));
    let a = expand_a(p, key.rho);
    let rho = Zeroizing::new(hash::<PRIVATE_SEED_BYTES>(SHAKE256, &[key.k, job.rnd, &job.mu]));
    for attempt in 0..ATTEMPTS_MAX {
        let y = expand_mask(p, &rho, (attempt * p.l) as u16);
        let mut w = Zeroizing::new(matrix_vector_ntt(&a, &ntt_vector(&y)));
        w.iter_mut().for_each(ntt_inverse);
        let w1 = Zeroizing::new(w.iter().map(|w| w.map(|r| high_bits(p, r))).collect::<Vec<_>>());
        let commitment = commitment_hash(p, &job.mu, &w1);
        // The challenge is public, even that of an attempt that is rejected.
        let commitment = core::hint::black_box(&commitment);
        let mut c = sample_in_ball(p, &commitment[..p.challenge_bytes]);
        ntt(&mut c);
        let z = Zeroizing::new(add(&y, &scalar_vector_ntt(&c, &s1)));
        let difference = Zeroizing::new(subtract(&w, &scalar_vector_ntt(&c, &s2)));
        let r0 = Zeroizing::new(difference.iter().map(|w| w.map(|r| low_bits(p, r))).collect::<Vec<_>>());
        if !(is_norm_below(&z, p.gamma1() - p.beta()) & is_norm_below(&r0, p.gamma2 - p.beta())) {
            continue;
        }
        let ct0 = Zeroizing::new(scalar_vector_ntt(&c, &t0));
        let sum = Zeroizing::new(add(&difference, &ct0));
        let hint = |(ct0, r): (&Poly, &Poly)| core::array::from_fn(|i| make_hint(p, minus(0, ct0[i]), r[i]));
        let h: Vec<[bool; N]> = ct0.iter().zip(sum.iter()).map(hint).collect();
        let ones: usize = h.iter().flatten().map(|is_set| usize::from(*is_set)).sum();
        if !is_norm_below(&ct0, p.gamma2) | (ones > p.omega) {
            continue;
        }
        // sigEncode, algorithm 26.
        let (first, rest) = job.signature.split_at_mut(p.challenge_bytes);
        first.copy_from_slice(&commitment[..p.challenge_bytes]);
        let (packed, hints) = rest.split_at_mut(p.l * p.z_bytes());
        for (z, bytes) in z.iter().zip(packed.chunks_exact_mut(p.z_bytes())) {
            bit_pack(z, p.gamma1(), p.z_bits(), bytes);
        }
        hints.zeroize();
        hint_bit_pack(p, &h, hints);
        return Some(attempt + 1);
    }
    None
}

/// The commitment hash: H of mu and w1; the set's length of it counts.
fn commitment_hash(p: &Parameters, mu: &[u8; MU_BYTES], w1: &[Poly]) -> [u8; CHALLENGE_BYTES_MAX] {
    hash(SHAKE256, &[mu, &w1_encode(p, w1)])
}

/// ML-DSA.Verify_internal, algorithm 8, from the message's representative mu on.
pub(crate) fn verify_internal(job: &Verifying<'_>) -> bool {
    let p = job.key.set().parameters();
    if job.signature.len() != p.signature_bytes() {
        return false;
    }
    let (rho, t1) = pk_decode(job.key.as_bytes());
    // sigDecode, algorithm 27.
    let (commitment, rest) = job.signature.split_at(p.challenge_bytes);
    let (packed, hints) = rest.split_at(p.l * p.z_bytes());
    let z: Vec<Poly> =
        packed.chunks_exact(p.z_bytes()).map(|bytes| bit_unpack(bytes, p.gamma1(), p.z_bits())).collect();
    let Some(h) = hint_bit_unpack(p, hints) else { return false };
    if !is_norm_below(&z, p.gamma1() - p.beta()) {
        return false;
    }
    let mut c = sample_in_ball(p, commitment);
    ntt(&mut c);
    let shifted: Vec<Poly> = t1.iter().map(|t1| t1.map(|value| value << D)).collect();
    let mut az = matrix_vector_ntt(&expand_a(p, rho), &ntt_vector(&z));
    az.iter_mut().for_each(ntt_inverse);
    let w = subtract(&az, &scalar_vector_ntt(&c, &ntt_vector(&shifted)));
    let used = |(w, h): (&Poly, &[bool; N])| core::array::from_fn(|i| use_hint(p, h[i], w[i]));
    let w1: Vec<Poly> = w.iter().zip(&h).map(used).collect();
    commitment_hash(p, &job.mu, &w1)[..p.challenge_bytes] == *commitment
}

/// Returns the public key of an expanded private key, if its parts agree: s1 and s2 are within their bounds, and t0
/// and tr are those of the public key.
#[cfg(test)]
pub(crate) fn public_of(p: &Parameters, sk: &[u8]) -> Option<Vec<u8>> {
    let key = sk_decode(p, sk);
    let is_bounded = is_norm_below(&key.s1, p.eta + 1) & is_norm_below(&key.s2, p.eta + 1);
    let mut product = Zeroizing::new(matrix_vector_ntt(&expand_a(p, key.rho), &ntt_vector(&key.s1)));
    product.iter_mut().for_each(ntt_inverse);
    let t = Zeroizing::new(add(&product, &key.s2));
    let differs = t.iter().flatten().zip(key.t0.iter().flatten());
    let differs = differs.fold(0, |all, (t, t0)| all | (power2_round(*t).1 ^ t0));
    let t1: Vec<Poly> = t.iter().map(|t| t.map(|r| power2_round(r).0)).collect();
    let mut public = vec![0; p.public_bytes()];
    pk_encode(key.rho, &t1, &mut public);
    let tr = hash::<TR_BYTES>(SHAKE256, &[&public]);
    let differs = tr.iter().zip(&sk[2 * SEED_BYTES..]).fold(differs, |all, (a, b)| all | u32::from(a ^ b));
    (is_bounded & (core::hint::black_box(differs) == 0)).then_some(public)
}
