//! GCM by carry-less multiplication and AES instructions: four blocks to a zmm register or one to an xmm register.
//! Constant time.
//!
//! A message is hashed in stretches of up to [`POWERS`] blocks: every block is multiplied by the power of H that its
//! distance to the stretch's end asks for, all products are summed, and the sum is reduced once. The blocks of one
//! chunk of ciphertext are multiplied between the AES rounds of the next.
//!
//! `unsafe`: buffers are read and written through the raw pointers of [`crate::job::Buffer`]; the entry points take
//! tokens.
#![allow(unsafe_code)]

use subtle::ConstantTimeEq as _;

use super::vector::Field;
use super::{Key, POWERS, lengths};
use crate::aead::{AeadJob, AeadSchedule};
use crate::aes::vector::{Blocks as _, Four, One};
use crate::isa::{Avx2, Avx512};
use crate::job::{Direction, Status};

/// Vectors of a chunk.
const CHUNK: usize = 8;

/// A running GHASH.
struct Hash<'k, V> {
    key: &'k Key,
    /// Index of the next block's power; [`POWERS`] at a stretch's end.
    place: usize,
    /// Blocks of the message that no stretch holds yet.
    left: usize,
    /// Sums of products of low halves, of high halves, and of sums of both (Karatsuba).
    low: V,
    high: V,
    middle: V,
}

impl<'k, V: Field> Hash<'k, V> {
    /// Starts a text of `blocks` blocks.
    #[inline(always)]
    fn new(key: &'k Key, blocks: usize) -> Self {
        let first = blocks.min(POWERS);
        let zero = V::zero();
        Self { key, place: POWERS - first, left: blocks - first, low: zero, middle: zero, high: zero }
    }

    /// The powers from `place` on, and the sums of their halves.
    #[inline(always)]
    fn powers(&self, place: usize) -> (V, V) {
        // SAFETY: `place` is at most POWERS, and a vector of powers follows it or is completed by zeros: 4 of them.
        unsafe {
            (
                V::read(self.key.powers.as_ptr().add(place).cast()),
                V::read(self.key.sums.as_ptr().add(place).cast()),
            )
        }
    }

    /// Multiplies by the powers from `place` on and adds.
    #[inline(always)]
    fn multiply(&mut self, blocks: V, place: usize) {
        let (powers, sums) = self.powers(place);
        self.low = self.low.xor(blocks.product::<0x00>(powers));
        self.high = self.high.xor(blocks.product::<0x11>(powers));
        self.middle = self.middle.xor(blocks.xor(blocks.swap_halves()).product::<0x00>(sums));
    }

    /// The same for two vectors, the sums of whose halves make one.
    #[inline(always)]
    fn multiply_two(&mut self, [a, b]: [V; 2], place: usize) {
        let (of_a, of_b) = (self.powers(place), self.powers(place + V::LANES));
        self.low = self.low.xor3(a.product::<0x00>(of_a.0), b.product::<0x00>(of_b.0));
        self.high = self.high.xor3(a.product::<0x11>(of_a.0), b.product::<0x11>(of_b.0));
        let sums = a.low_halves(b).xor(a.high_halves(b));
        self.middle = self.middle.xor3(sums.product::<0x00>(of_a.1), sums.product::<0x01>(of_b.1));
    }

    /// Takes one pair of the next blocks, or the single last vector of an odd number. Pairs go from the last to the
    /// first, whose sum may be late.
    #[inline(always)]
    fn take_pair(&mut self, blocks: &[V], pair: usize) {
        let n = blocks.len().next_multiple_of(2) - 2 * pair;
        let place = self.place + n * V::LANES;
        match blocks[n..] {
            [a, b, ..] => self.multiply_two([a, b], place),
            [a] => self.multiply(a, place),
            [] => {}
        }
    }

    /// Takes the next blocks, most significant coefficient first.
    #[inline(always)]
    fn take(&mut self, blocks: &[V]) {
        for pair in 1..=blocks.len().div_ceil(2) {
            self.take_pair(blocks, pair);
        }
        self.pass(blocks.len());
    }

    /// Goes on by so many vectors.
    #[inline(always)]
    fn pass(&mut self, vectors: usize) {
        debug_assert!(vectors == 0 || self.place < POWERS);
        self.place += vectors * V::LANES;
    }

    /// Whether the stretch has ended.
    #[inline(always)]
    const fn at_end(&self) -> bool {
        self.place >= POWERS
    }

    /// The hash so far.
    #[inline(always)]
    fn reduced(&self) -> One {
        reduce(self.low, self.middle, self.high).total()
    }

    /// Starts a text of `blocks` blocks with `y` added to the first.
    #[inline(always)]
    fn with(key: &'k Key, y: One, blocks: usize) -> Self {
        let mut hash = Self::new(key, blocks);
        if blocks == 0 {
            (hash.middle, hash.high) = (V::lead(y), V::lead(y));
        } else {
            hash.multiply(V::lead(y), hash.place);
        }
        hash
    }

    /// Ends a stretch if it is at its end and the text goes on: with `next`, to which the hash so far is added.
    #[inline(always)]
    fn turn_at_end(&mut self, next: &mut V) {
        if self.at_end() && self.left != 0 {
            *next = next.xor(V::lead(self.reduced()));
            *self = Self::new(self.key, self.left);
        }
    }

    /// Takes `bytes`, padded with zeros to whole blocks; the text ends with them.
    #[inline(always)]
    unsafe fn take_last(&mut self, from: *const u8, bytes: usize) {
        let (mut from, mut bytes) = (from, bytes);
        while bytes >= CHUNK * V::BYTES {
            let mut blocks = [V::zero(); CHUNK];
            for (n, block) in blocks.iter_mut().enumerate() {
                // SAFETY: the caller's bytes.
                *block = unsafe { V::read(from.add(n * V::BYTES)) }.reverse();
            }
            self.turn_at_end(&mut blocks[0]);
            self.take(&blocks);
            (from, bytes) = (from.wrapping_add(CHUNK * V::BYTES), bytes - CHUNK * V::BYTES);
        }
        while bytes != 0 {
            let part = bytes.min(V::BYTES);
            // SAFETY: the caller's bytes.
            let mut block = unsafe { V::read_part(from, part) }.reverse();
            self.turn_at_end(&mut block);
            self.take(&[block]);
            (from, bytes) = (from.wrapping_add(part), bytes - part);
        }
    }
}

/// The remainder of the blocks' products; multiplied by x^128, which [`Key`]'s powers make up for.
#[inline(always)]
fn reduce<V: Field>(low: V, middle: V, high: V) -> V {
    let factor = V::splat(One::number(0xc2 << 56));
    let middle = middle.xor3(low, high);
    let low = low.xor(middle.low_to_high());
    let high = high.xor(middle.high_to_low());
    let low = low.swap_halves().xor(low.product::<0x00>(factor));
    low.swap_halves().xor3(low.product::<0x00>(factor), high)
}

/// The number of a message's first block.
const FIRST: usize = 2;

/// The cipher's round keys and the counter of the next chunk.
struct Stream<'k, V> {
    keys: &'k [[u8; 16]; 15],
    /// In every block, reversed, so that the number is the lowest word: [`FIRST`] less than the next block's, which is
    /// a multiple of a chunk's blocks.
    counter: V,
}

impl<V: Field> Stream<'_, V> {
    /// The key of a round, in every block.
    #[inline(always)]
    fn key(&self, round: usize) -> V {
        // SAFETY: a block of the schedule's fifteen.
        V::splat(unsafe { One::load(&raw const self.keys[round]) })
    }

    /// The counter as it is, encrypted.
    #[inline(always)]
    fn block<const ROUNDS: usize>(&self) -> V {
        let mut x = self.counter.reverse().xor(self.key(0));
        for round in 1..ROUNDS {
            x = x.encrypt(self.key(round));
        }
        x.encrypt_last(self.key(ROUNDS))
    }

    /// The next `N` vectors of the stream. Hashes a pair of `blocks` after every other round.
    #[inline(always)]
    fn next<const ROUNDS: usize, const N: usize, const H: usize>(
        &mut self,
        hash: &mut Hash<'_, V>,
        mut blocks: [V; H],
    ) -> [V; N] {
        const { assert!(H < ROUNDS - 1) };
        let first = self.key(0);
        let base = self.counter.reverse().xor(first);
        let mut x = [base; N];
        for (n, x) in x.iter_mut().enumerate() {
            let number = FIRST + n * V::LANES;
            // The counter's bits below a chunk's blocks are zeros: its last byte takes up numbers that have no others.
            *x = if number + V::LANES <= CHUNK * V::LANES {
                base.numbered(number as u8)
            } else {
                self.counter.count(number as u32).reverse().xor(first)
            };
        }
        // Not a loop: the compiler leaves one rolled up where it finds what it may not reorder.
        macro_rules! rounds {
            ($($round:literal)*) => {$(
                if $round < ROUNDS {
                    let key = self.key($round);
                    for x in &mut x {
                        *x = x.encrypt(key);
                    }
                    if $round % 2 == 0 && $round <= H.next_multiple_of(2) {
                        // Or all of the hash would come before the cipher.
                        for x in &mut x {
                            (*x, blocks[H - 1]) = x.tied(blocks[H - 1]);
                        }
                        hash.take_pair(&blocks, $round / 2);
                        for x in &mut x {
                            (*x, hash.middle) = x.tied(hash.middle);
                        }
                    }
                }
            )*};
        }
        rounds!(1 2 3 4 5 6 7 8 9 10 11 12 13);
        hash.pass(H);
        let last = self.key(ROUNDS);
        for x in &mut x {
            *x = x.encrypt_last(last);
        }
        self.counter = self.counter.plus((CHUNK * V::LANES) as u32);
        x
    }
}

/// Where a message stands.
struct Walk<'k, V, const ROUNDS: usize, const OPEN: bool> {
    hash: Hash<'k, V>,
    stream: Stream<'k, V>,
    source: *const u8,
    destination: *mut u8,
    bytes: usize,
    /// Sealing: the last chunk's ciphertext, reversed and not hashed yet.
    waiting: [V; CHUNK],
}

impl<V: Field, const ROUNDS: usize, const OPEN: bool> Walk<'_, V, ROUNDS, OPEN> {
    /// Crypts `N` vectors, the last of `last` bytes, and hashes what waits, if `WAITS`. Opening hashes them as well;
    /// sealing leaves them waiting.
    ///
    /// # Safety
    /// As many bytes lie ahead.
    #[inline(always)]
    unsafe fn chunk<const N: usize, const WAITS: bool>(&mut self, last: usize) {
        let mut input = [V::zero(); N];
        for (n, input) in input.iter_mut().enumerate() {
            // SAFETY: N - 1 vectors and `last` bytes lie ahead.
            *input = unsafe {
                let from = self.source.add(n * V::BYTES);
                if n + 1 == N && last != V::BYTES { V::read_part(from, last) } else { V::read(from) }
            };
        }
        let stream: [V; N] = if OPEN {
            let mut blocks = input;
            for block in &mut blocks {
                *block = block.reverse();
            }
            self.hash.turn_at_end(&mut blocks[0]);
            self.stream.next::<ROUNDS, N, N>(&mut self.hash, blocks)
        } else if WAITS {
            self.hash.turn_at_end(&mut self.waiting[0]);
            self.stream.next::<ROUNDS, N, CHUNK>(&mut self.hash, self.waiting)
        } else {
            self.stream.next::<ROUNDS, N, 0>(&mut self.hash, [])
        };
        for (n, (input, stream)) in input.into_iter().zip(stream).enumerate() {
            let mut output = input.xor(stream);
            // SAFETY: as above.
            unsafe {
                let to = self.destination.add(n * V::BYTES);
                if n + 1 == N && last != V::BYTES {
                    output = output.first(last);
                    output.write_part(to, last);
                } else {
                    output.write(to);
                }
            }
            self.waiting[n] = output.reverse();
        }
    }

    /// Hashes the `N` vectors that wait.
    #[inline(always)]
    fn settle<const N: usize>(&mut self) {
        self.hash.turn_at_end(&mut self.waiting[0]);
        self.hash.take(&self.waiting[..N]);
    }

    /// The last chunk, of `N` vectors.
    ///
    /// # Safety
    /// `bytes` bytes lie ahead, and they fill N vectors but for some bytes of the last.
    #[inline(always)]
    unsafe fn tail<const N: usize>(&mut self, waits: bool) {
        let last = self.bytes - (N - 1) * V::BYTES;
        // SAFETY: the caller's contract.
        unsafe {
            if waits {
                self.chunk::<N, true>(last);
            } else {
                self.chunk::<N, false>(last);
            }
        }
        if !OPEN {
            self.settle::<N>();
        }
    }

    /// The whole message.
    ///
    /// # Safety
    /// `bytes` bytes may be read at `source` and written at `destination`.
    #[inline(always)]
    unsafe fn run(&mut self) {
        let mut waits = false;
        while self.bytes >= CHUNK * V::BYTES {
            // SAFETY: a whole chunk lies ahead.
            unsafe {
                if waits {
                    self.chunk::<CHUNK, true>(V::BYTES);
                } else {
                    self.chunk::<CHUNK, false>(V::BYTES);
                    waits = !OPEN;
                }
                self.source = self.source.add(CHUNK * V::BYTES);
                self.destination = self.destination.add(CHUNK * V::BYTES);
            }
            self.bytes -= CHUNK * V::BYTES;
        }
        // SAFETY: `bytes` fill this many vectors but for some bytes of the last.
        unsafe {
            match self.bytes.div_ceil(V::BYTES) {
                0 if waits => self.settle::<CHUNK>(),
                0 => {}
                1 => self.tail::<1>(waits),
                2 => self.tail::<2>(waits),
                3 => self.tail::<3>(waits),
                4 => self.tail::<4>(waits),
                5 => self.tail::<5>(waits),
                6 => self.tail::<6>(waits),
                7 => self.tail::<7>(waits),
                _ => self.tail::<CHUNK>(waits),
            }
        }
    }
}

/// A hash of `aad` that waits for the data's blocks.
#[inline(always)]
fn begin<'k, V: Field>(key: &'k Key, aad: &[u8], data_blocks: usize) -> Hash<'k, V> {
    let aad_blocks = aad.len().div_ceil(16);
    if aad_blocks <= V::LANES && aad_blocks + data_blocks <= POWERS {
        let mut hash = Hash::new(key, aad_blocks + data_blocks);
        // SAFETY: no longer than a vector.
        let blocks = unsafe { V::read_part(aad.as_ptr(), aad.len()) };
        hash.multiply(blocks.reverse(), hash.place);
        hash.place += aad_blocks;
        return hash;
    }
    let mut alone = Hash::<V>::new(key, aad_blocks);
    // SAFETY: the slice's bytes.
    unsafe { alone.take_last(aad.as_ptr(), aad.len()) };
    Hash::with(key, alone.reduced(), data_blocks)
}

/// Messages that are crypted and hashed but for the lengths: as many as a vector has blocks are finished together.
struct Group<'k, V> {
    count: usize,
    /// Indices of their jobs.
    jobs: [usize; 4],
    keys: [Option<&'k Key>; 4],
    /// Counter blocks of the tags, reversed.
    first: [One; 4],
    lengths: [One; 4],
    low: [V; 4],
    middle: [V; 4],
    high: [V; 4],
}

impl<'k, V: Field> Group<'k, V> {
    #[inline(always)]
    fn new() -> Self {
        let zero = [V::zero(); 4];
        let (count, jobs, keys, first, lengths) = (0, [0; 4], [None; 4], [One::zero(); 4], [One::zero(); 4]);
        Self { count, jobs, keys, first, lengths, low: zero, middle: zero, high: zero }
    }

    /// Crypts and hashes the message of a job.
    ///
    /// # Safety
    /// The CPU has the vector's instructions. The group is not full.
    #[inline(always)]
    unsafe fn add<const ROUNDS: usize, const OPEN: bool>(&mut self, index: usize, job: &mut AeadJob<'k>) {
        let AeadSchedule::Gcm(key) = job.key.schedule() else { return };
        let bytes = job.data.len();
        let zeroth = One::nonce(&job.nonce).reverse();
        let mut walk = Walk::<V, ROUNDS, OPEN> {
            hash: begin(key, job.aad, bytes.div_ceil(16)),
            stream: Stream { keys: &key.cipher.encrypt, counter: V::splat(zeroth) },
            source: job.data.source(),
            destination: job.data.destination(),
            bytes,
            waiting: [V::zero(); CHUNK],
        };
        // SAFETY: the job's buffer.
        unsafe { walk.run() };
        let n = self.count & 3;
        self.count += 1;
        self.jobs[n] = index;
        self.keys[n] = Some(key);
        self.first[n] = zeroth.plus(1);
        self.lengths[n] = One::number(lengths(job.aad.len(), bytes));
        (self.low[n], self.middle[n], self.high[n]) = (walk.hash.low, walk.hash.middle, walk.hash.high);
    }

    /// The encrypted counter blocks, and H/x, of every message.
    #[inline(always)]
    fn masks<const ROUNDS: usize>(&self, any: &Key) -> (V, V) {
        let (mut masks, mut powers) = ([One::zero(); 4], [One::zero(); 4]);
        for n in 0..V::LANES {
            let key = self.keys[n].unwrap_or(any);
            let stream = Stream { keys: &key.cipher.encrypt, counter: self.first[n] };
            (masks[n], powers[n]) = (stream.block::<ROUNDS>(), One::number(key.powers[POWERS - 1]));
        }
        (V::of(masks), V::of(powers))
    }

    /// Makes or checks the tags and empties the group.
    ///
    /// # Safety
    /// The CPU has the vector's instructions. The jobs are those that were added.
    #[inline(always)]
    unsafe fn finish<const ROUNDS: usize, const OPEN: bool>(&mut self, jobs: &mut [AeadJob<'k>]) {
        let Some(key) = self.keys[0] else { return };
        let same =
            self.keys[..self.count].iter().all(|other| other.is_some_and(|other| core::ptr::eq(other, key)));
        let (mask, power) = if same {
            let stream = Stream { keys: &key.cipher.encrypt, counter: V::of(self.first) };
            (stream.block::<ROUNDS>(), V::splat(One::number(key.powers[POWERS - 1])))
        } else {
            self.masks::<ROUNDS>(key)
        };
        let y = reduce(V::totals(self.low), V::totals(self.middle), V::totals(self.high));
        let y = y.xor(V::of(self.lengths));
        let middle = y.xor(y.swap_halves()).product::<0x00>(power.xor(power.swap_halves()));
        let y = reduce(y.product::<0x00>(power), middle, y.product::<0x11>(power));
        let mut tags = [[0; 16]; 4];
        // SAFETY: as many blocks as a vector's, at most four.
        unsafe { y.reverse().xor(mask).store(tags.as_mut_ptr()) };
        for (&index, tag) in self.jobs[..self.count].iter().zip(tags) {
            let job = &mut jobs[index];
            job.status = if !OPEN {
                job.tag = tag;
                Status::Done
            } else if bool::from(u128::from_le_bytes(tag).ct_eq(&u128::from_le_bytes(job.tag))) {
                Status::Done
            } else {
                // SAFETY: the job's buffer. What was deciphered under a wrong tag is not to be seen.
                unsafe { job.data.destination().write_bytes(0, job.data.len()) };
                Status::Forged
            };
        }
        self.count = 0;
    }

    /// Clears the sums, which tell of the hash key.
    #[inline(always)]
    fn wipe(&mut self) {
        for sum in self.low.iter_mut().chain(&mut self.middle).chain(&mut self.high) {
            // SAFETY: a write to what is borrowed; volatile, as nobody reads it.
            unsafe { core::ptr::write_volatile(sum, V::zero()) };
        }
    }
}

/// Every pending job.
#[inline(always)]
unsafe fn all<V: Field, const ROUNDS: usize, const OPEN: bool>(jobs: &mut [AeadJob<'_>]) {
    let mut group = Group::<V>::new();
    for index in 0..jobs.len() {
        if jobs[index].status == Status::Pending {
            // SAFETY: the caller's contract; a full group is emptied at once.
            unsafe {
                group.add::<ROUNDS, OPEN>(index, &mut jobs[index]);
                if group.count == V::LANES {
                    group.finish::<ROUNDS, OPEN>(jobs);
                }
            }
        }
    }
    if group.count != 0 {
        // SAFETY: the caller's contract.
        unsafe { group.finish::<ROUNDS, OPEN>(jobs) };
    }
    group.wipe();
}

#[target_feature(enable = "aes,pclmulqdq,sse4.1,ssse3,avx2")]
unsafe fn all_avx2<const ROUNDS: usize, const OPEN: bool>(jobs: &mut [AeadJob<'_>]) {
    // SAFETY: the features of One.
    unsafe { all::<One, ROUNDS, OPEN>(jobs) }
}

#[target_feature(enable = "aes,pclmulqdq,avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq")]
unsafe fn all_avx512<const ROUNDS: usize, const OPEN: bool>(jobs: &mut [AeadJob<'_>]) {
    // SAFETY: the features of Four.
    unsafe { all::<Four, ROUNDS, OPEN>(jobs) }
}

/// Runs the pending jobs, whose keys are AES-128's if `rounds` is 10 and AES-256's otherwise.
pub(crate) fn avx2(_: Avx2, rounds: usize, direction: Direction, jobs: &mut [AeadJob<'_>]) {
    // SAFETY: the token.
    unsafe {
        match (rounds, direction) {
            (10, Direction::Encrypt) => all_avx2::<10, false>(jobs),
            (10, Direction::Decrypt) => all_avx2::<10, true>(jobs),
            (_, Direction::Encrypt) => all_avx2::<14, false>(jobs),
            (_, Direction::Decrypt) => all_avx2::<14, true>(jobs),
        }
    }
}

/// As [`avx2`].
pub(crate) fn avx512(_: Avx512, rounds: usize, direction: Direction, jobs: &mut [AeadJob<'_>]) {
    // SAFETY: the token.
    unsafe {
        match (rounds, direction) {
            (10, Direction::Encrypt) => all_avx512::<10, false>(jobs),
            (10, Direction::Decrypt) => all_avx512::<10, true>(jobs),
            (_, Direction::Encrypt) => all_avx512::<14, false>(jobs),
            (_, Direction::Decrypt) => all_avx512::<14, true>(jobs),
        }
    }
}
