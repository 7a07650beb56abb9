//! Signatures with prepared keys, of one message or of many: ML-DSA.Sign_internal, algorithm 7.
//!
//! As many signatures run at a time as there are ways, and the next one begins when one is done. The polynomials of
//! y are streams of Keccak: a pass of all ways first takes the streams that the attempts of this round lack, and
//! ways that are left take those of the attempts behind; what a round does not use, the next one does. So no way
//! waits for the slowest signature. The commitments of a round are hashed side by side. They are not made ahead: an
//! attempt that another one's success makes needless costs more than an idle way of a hash.
//!
//! An attempt checks the low bits before z, because they fail more often. Each check is of a whole vector: it shows
//! neither which coefficient is too large nor which polynomial.

use arrayvec::ArrayVec;
use zeroize::Zeroize as _;

use super::Signing;
use super::arithmetic::Poly;
use super::challenges::challenges;
use super::coding::{pack, pack_hints};
use super::machine::{HASH_BYTES, Machine, ROW_BYTES, Rows, STREAMS_MAX, Seed};
use super::parameters::{
    ATTEMPTS_MAX, K_MAX, L_MAX, MU_BYTES, PRIVATE_SEED_BYTES, Parameters, SEED_BYTES, Z_BYTES_MAX,
};
use super::prepared::PreparedPrivate;
use crate::keccak::{SHAKE256, alone};
use crate::wipe::wipe;

/// A signature that runs.
struct Running<'a, 'b> {
    p: &'static Parameters,
    key: &'a PreparedPrivate,
    rho: [u8; PRIVATE_SEED_BYTES],
    /// Polynomials of y that are made and not used, at most one attempt's less one and a pass's. The stream of number
    /// n is at n modulo their number.
    masks: Vec<Poly>,
    /// Streams that were made, and those among them that were used: the counter kappa.
    made: usize,
    used: usize,
    /// Low bits of w, and then what is computed of them; high bits of w.
    low: [Poly; K_MAX],
    high: [Poly; K_MAX],
    /// mu and the packed w1.
    commitment: Vec<u8>,
    /// The job, and its number among the call's.
    job: &'a mut Signing<'b>,
    index: usize,
}

impl Drop for Running<'_, '_> {
    fn drop(&mut self) {
        self.rho.zeroize();
        wipe(&mut self.masks, Poly::ZERO);
        wipe(&mut self.low, Poly::ZERO);
        wipe(&mut self.high, Poly::ZERO);
        self.commitment.zeroize();
    }
}

/// Polynomials that one attempt after the other uses.
struct Scratch {
    vector: [Poly; L_MAX],
    product: Poly,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        wipe(&mut self.vector, Poly::ZERO);
        wipe(core::slice::from_mut(&mut self.product), Poly::ZERO);
    }
}

impl<'a, 'b> Running<'a, 'b> {
    fn new<M: Machine>(machine: M, index: usize, job: &'a mut Signing<'b>) -> Box<Self> {
        let p = job.key.set().parameters();
        let key = job.key;
        let (_, rest) = key.expanded().split_at(SEED_BYTES);
        let rho = alone::hash(SHAKE256, &[&rest[..SEED_BYTES], job.rnd, &job.mu]);
        let mut commitment = vec![0; MU_BYTES + p.k * p.w1_bytes()];
        commitment[..MU_BYTES].copy_from_slice(&job.mu);
        Box::new(Self {
            p,
            key: key.prepared(machine),
            rho,
            masks: vec![Poly::ZERO; p.l - 1 + M::STREAMS],
            made: 0,
            used: 0,
            low: [Poly::ZERO; K_MAX],
            high: [Poly::ZERO; K_MAX],
            commitment,
            job,
            index,
        })
    }

    /// Returns the place of a stream's polynomial.
    fn place(&self, number: usize) -> usize {
        number % self.masks.len()
    }

    /// Returns the streams that the next attempt lacks.
    const fn lacks(&self) -> usize {
        (self.used + self.p.l).saturating_sub(self.made)
    }

    /// Commits to the next masks: w, its halves, and the message to hash.
    fn commit<M: Machine>(&mut self, machine: M, scratch: &mut Scratch) {
        let p = self.p;
        let masks = &mut scratch.vector[..p.l];
        for (n, mask) in masks.iter_mut().enumerate() {
            *mask = self.masks[self.place(self.used + n)];
            machine.transform(mask);
        }
        let packed = self.commitment[MU_BYTES..].chunks_exact_mut(p.w1_bytes());
        let rows = self.key.matrix.chunks_exact(p.l);
        for (((row, bytes), low), high) in rows.zip(packed).zip(&mut self.low).zip(&mut self.high) {
            machine.multiply_row(row, masks, low);
            machine.inverse(low);
            machine.decompose(p.gamma2, low, high);
            pack(high, p.w1_bits(), None, bytes);
        }
    }

    /// Answers the challenge of a commitment hash, of which `c` is the transform; returns whether the signature is
    /// done. The masks are used up.
    fn respond<M: Machine>(
        &mut self,
        machine: M,
        commitment: &[u8],
        c: &Poly,
        scratch: &mut Scratch,
    ) -> bool {
        let p = self.p;
        let (s1, s2, t0) = self.key.secrets(p);
        let (beta, gamma1, gamma2) =
            (p.beta().cast_signed(), p.gamma1().cast_signed(), p.gamma2.cast_signed());
        let first = self.used;
        self.used += p.l;
        let c = core::slice::from_ref(c);
        let product = &mut scratch.product;
        let mut is_accepted = true;
        for (s2, low) in s2.iter().zip(&mut self.low) {
            machine.multiply_row(core::slice::from_ref(s2), c, product);
            machine.inverse(product);
            machine.subtract(low, product);
            is_accepted &= machine.is_below(low, gamma2 - beta);
        }
        if !is_accepted {
            return false;
        }
        for (n, (s1, z)) in s1.iter().zip(&mut scratch.vector).enumerate() {
            machine.multiply_row(core::slice::from_ref(s1), c, z);
            machine.inverse(z);
            machine.add(z, &self.masks[self.place(first + n)]);
            is_accepted &= machine.is_below(z, gamma1 - beta);
        }
        if !is_accepted {
            return false;
        }
        let mut ones = 0;
        for ((t0, low), high) in t0.iter().zip(&mut self.low).zip(&self.high) {
            machine.multiply_row(core::slice::from_ref(t0), c, product);
            machine.inverse(product);
            is_accepted &= machine.is_below(product, gamma2);
            machine.add(low, product);
            machine.make_hint(p.gamma2, low, high);
            ones += low.0.iter().sum::<i32>();
        }
        if !is_accepted || ones as usize > p.omega {
            return false;
        }
        let (start, rest) = self.job.signature.split_at_mut(p.challenge_bytes);
        start.copy_from_slice(commitment);
        let (packed, hints) = rest.split_at_mut(p.l * p.z_bytes());
        for (z, bytes) in scratch.vector.iter().zip(packed.chunks_exact_mut(p.z_bytes())) {
            pack(z, p.z_bits(), Some(gamma1), bytes);
        }
        pack_hints(p, &self.low[..p.k], hints);
        true
    }
}

/// Makes streams in one pass of all ways, ExpandMask of algorithm 34.
fn expand_masks<M: Machine>(machine: M, running: &mut [Box<Running<'_, '_>>], rows: &mut Rows) {
    let mut ways: ArrayVec<(usize, usize), STREAMS_MAX> = ArrayVec::new();
    let mut take = |running: &mut [Box<Running<'_, '_>>], at: usize| {
        if ways.len() < M::STREAMS {
            ways.push((at, running[at].made));
            running[at].made += 1;
        }
    };
    for at in 0..running.len() {
        for _ in 0..running[at].lacks() {
            take(running, at);
        }
    }
    // Ways that are left are dealt out in turn.
    for n in 0..M::STREAMS {
        let at = n % running.len();
        if running[at].made < running[at].used + running[at].masks.len() {
            take(running, at);
        }
    }
    let p = running[0].p;
    let mut seeds: [Seed<'_>; STREAMS_MAX] = [(&[], None); STREAMS_MAX];
    for (seed, (at, number)) in seeds.iter_mut().zip(&ways) {
        *seed = (&running[*at].rho, Some(*number as u16));
    }
    let mut states = machine.streams(SHAKE256, &seeds[..ways.len()]);
    machine.squeeze(&mut states, SHAKE256, p.z_bytes().div_ceil(SHAKE256.rate_bytes), rows);
    machine.clear(&mut states);
    for ((at, number), row) in ways.into_iter().zip(rows.iter()) {
        let one = &mut running[at];
        let place = one.place(number);
        machine.unpack_z(row, p.gamma1_bits, &mut one.masks[place]);
    }
}

/// Signs with keys of one set; returns which signatures were made: all, unless [`ATTEMPTS_MAX`] attempts were
/// rejected.
pub(crate) fn sign<M: Machine>(machine: M, jobs: &mut [Signing<'_>]) -> Vec<bool> {
    let mut made = vec![false; jobs.len()];
    let mut waiting = jobs.iter_mut().enumerate();
    let mut running = Vec::with_capacity(M::STREAMS);
    let mut scratch = Scratch { vector: [Poly::ZERO; L_MAX], product: Poly::ZERO };
    let mut rows = [[0; ROW_BYTES]; STREAMS_MAX];
    let mut hashes = [[0; HASH_BYTES]; STREAMS_MAX];
    loop {
        let free = M::STREAMS - running.len();
        running.extend(waiting.by_ref().take(free).map(|(index, job)| Running::new(machine, index, job)));
        if running.is_empty() {
            break;
        }
        while running.iter().any(|one| one.lacks() > 0) {
            expand_masks(machine, &mut running, &mut rows);
        }
        for one in &mut running {
            one.commit(machine, &mut scratch);
        }
        if let [one] = &running[..] {
            hashes[0] = alone::hash(SHAKE256, &[&one.commitment]);
        } else {
            let messages: ArrayVec<&[u8], STREAMS_MAX> =
                running.iter().map(|one| &one.commitment[..]).collect();
            machine.hash(SHAKE256, &messages, &mut hashes);
        }
        let commitments: ArrayVec<&[u8], STREAMS_MAX> =
            running.iter().zip(&hashes).map(|(one, hash)| &hash[..one.p.challenge_bytes]).collect();
        let challenges = challenges(machine, running[0].p, &commitments);
        for ((one, hash), challenge) in running.iter_mut().zip(&hashes).zip(&challenges) {
            let commitment = &hash[..one.p.challenge_bytes];
            made[one.index] = one.respond(machine, commitment, challenge, &mut scratch);
        }
        running.retain(|one| !made[one.index] && one.used < ATTEMPTS_MAX * one.p.l);
    }
    wipe(&mut rows, [0; ROW_BYTES]);
    made
}

const _: () = assert!(Z_BYTES_MAX + 64 <= ROW_BYTES);
