//! GCM by carry-less multiplication and AES instructions: four blocks per zmm register, two per ymm register, or one per xmm
//! register. The kernel is constant-time.
//!
//! A message is hashed in stretches of up to [`POWERS`] blocks. Block i of a stretch of n is multiplied by H^(n - i),
//! the products are summed, and the sum is reduced once at the stretch's end. Multiplications are done between AES
//! rounds, which leave their units free. When opening, the ciphertext is available, so a chunk is hashed between its
//! own rounds. When sealing, it is not, so a chunk is written and hashed between the rounds of the next one.
//!
//! `unsafe`: buffers are read and written through the raw pointers of [`crate::job::Buffer`]; the entry points take
//! tokens.
#![allow(unsafe_code)]

use subtle::ConstantTimeEq as _;

use super::vector::Field;
use super::{Key, POWERS, lengths};
use crate::aead::AeadJob;
use crate::aes::vector::{Blocks as _, Four, One, Two};
use crate::isa::{Avx2, Avx512, Vaes};
use crate::job::Status;
use crate::modes::Direction;
use crate::schedule::AeadSchedule;

/// Vectors of a chunk.
const CHUNK: usize = 8;

/// A running GHASH.
struct Hash<'k, V> {
    key: &'k Key,
    /// Index of the power for the next block in the table; [`POWERS`] at the end of a stretch.
    place: usize,
    /// Blocks of the message behind this stretch.
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

    /// Returns the powers from `place` on, and the sums of their halves.
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

    /// Does the same for two vectors, whose sums of halves share one product.
    #[inline(always)]
    fn multiply_two(&mut self, [a, b]: [V; 2], place: usize) {
        let (of_a, of_b) = (self.powers(place), self.powers(place + V::WAYS));
        self.low = self.low.xor3(a.product::<0x00>(of_a.0), b.product::<0x00>(of_b.0));
        self.high = self.high.xor3(a.product::<0x11>(of_a.0), b.product::<0x11>(of_b.0));
        let sums = a.low_halves(b).xor(a.high_halves(b));
        self.middle = self.middle.xor3(sums.product::<0x00>(of_a.1), sums.product::<0x01>(of_b.1));
    }

    /// Hashes a pair of the next vectors, or the last vector alone if their number is odd.
    #[inline(always)]
    fn take_pair(&mut self, blocks: &[V], pair: usize) {
        let n = 2 * pair;
        let place = self.place + n * V::WAYS;
        match blocks[n..] {
            [a, b, ..] => self.multiply_two([a, b], place),
            [a] => self.multiply(a, place),
            [] => {}
        }
    }

    /// Hashes the next vectors. The last pair comes first, because the first vector, to which the hash so far is
    /// added, is ready last.
    #[inline(always)]
    fn take(&mut self, blocks: &[V]) {
        for pair in (0..blocks.len().div_ceil(2)).rev() {
            self.take_pair(blocks, pair);
        }
        self.pass(blocks.len());
    }

    /// Advances to the powers behind those of that many vectors.
    #[inline(always)]
    fn pass(&mut self, vectors: usize) {
        debug_assert!(vectors == 0 || self.place < POWERS);
        self.place += vectors * V::WAYS;
    }

    /// Returns whether the stretch has ended.
    #[inline(always)]
    const fn at_end(&self) -> bool {
        self.place >= POWERS
    }

    /// Returns the hash so far.
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

    /// Starts the next stretch if the present one has ended and the text goes on: the hash so far is added to its
    /// first blocks.
    #[inline(always)]
    fn turn_at_end(&mut self, next: &mut V) {
        if self.at_end() && self.left != 0 {
            *next = next.xor(V::lead(self.reduced()));
            *self = Self::new(self.key, self.left);
        }
    }

    /// Hashes the last `bytes` of a text, padded with zeros to whole blocks.
    ///
    /// # Safety
    /// `bytes` bytes at `from` are readable, with any alignment, and fill as many blocks as are left of the
    /// text. The CPU has the features of `V`.
    #[inline(always)]
    unsafe fn take_last(&mut self, from: *const u8, bytes: usize) {
        let (mut from, mut bytes) = (from, bytes);
        while bytes >= CHUNK * V::BYTES {
            let mut blocks = [V::zero(); CHUNK];
            for (n, block) in blocks.iter_mut().enumerate() {
                // SAFETY: the contract: `bytes` bytes are readable, and at least as many as a chunk has are
                // left.
                *block = unsafe { V::read(from.add(n * V::BYTES)) }.reverse();
            }
            self.turn_at_end(&mut blocks[0]);
            self.take(&blocks);
            (from, bytes) = (from.wrapping_add(CHUNK * V::BYTES), bytes - CHUNK * V::BYTES);
        }
        while bytes != 0 {
            let part = bytes.min(V::BYTES);
            // SAFETY: the contract: `bytes` bytes are readable, of which this is at most a vector.
            let mut block = unsafe { V::read_part(from, part) }.reverse();
            self.turn_at_end(&mut block);
            self.take(&[block]);
            (from, bytes) = (from.wrapping_add(part), bytes - part);
        }
    }
}

/// Returns the remainder of the blocks' products, multiplied by x^128, which the powers in [`Key`] compensate.
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

/// Returns the key of a round, in every block.
#[inline(always)]
fn round_key<V: Field>(keys: &[[u8; 16]; 15], round: usize) -> V {
    // SAFETY: a block of the schedule's fifteen.
    V::splat(unsafe { One::load(&raw const keys[round]) })
}

/// Blocks, encrypted.
#[inline(always)]
fn encrypted<V: Field, const ROUNDS: usize>(keys: &[[u8; 16]; 15], blocks: V) -> V {
    let mut x = blocks.xor(round_key(keys, 0));
    for round in 1..ROUNDS {
        x = x.encrypt(round_key(keys, round));
    }
    x.encrypt_last(round_key(keys, ROUNDS))
}

/// The cipher's round keys and the counter of the next chunk.
struct Stream<'k, V> {
    keys: &'k [[u8; 16]; 15],
    /// The counter block in each of a vector's blocks, with its bytes reversed, so that the number is the lowest
    /// word. The number is that of the next block less [`FIRST`], a multiple of the blocks of a chunk.
    counter: V,
}

impl<V: Field> Stream<'_, V> {
    /// Returns the key of a round, in every block.
    #[inline(always)]
    fn key(&self, round: usize) -> V {
        round_key(self.keys, round)
    }

    /// Returns the counters of the next `N` vectors, XORed with the cipher's first key.
    #[inline(always)]
    fn counters<const N: usize>(&self) -> [V; N] {
        let first = self.key(0);
        let base = self.counter.reverse().xor(first);
        let mut x = [base; N];
        for (n, x) in x.iter_mut().enumerate() {
            let number = FIRST + n * V::WAYS;
            // The low bits of the counter are zeros, so a number below a chunk's blocks changes the last byte alone.
            *x = if number + V::WAYS <= CHUNK * V::WAYS {
                base.numbered(number as u8)
            } else {
                self.counter.count(number as u32).reverse().xor(first)
            };
        }
        x
    }

    /// Makes the next `N` vectors of key stream. A pair of vectors is hashed after every other AES round.
    #[inline(always)]
    fn next<const ROUNDS: usize, const N: usize, H: Pairs<V>>(&mut self, mut hashed: H) -> [V; N] {
        const { assert!(2 * H::PAIRS < ROUNDS) };
        let mut x = self.counters::<N>();
        // This is not a loop, because the compiler does not unroll one that contains `pinned`.
        macro_rules! rounds {
            ($($round:literal)*) => {$(
                if $round < ROUNDS {
                    let key = self.key($round);
                    for x in &mut x {
                        *x = x.encrypt(key);
                    }
                    if $round % 2 == 0 && $round <= 2 * H::PAIRS {
                        // Without this the compiler puts the whole hash before the first round.
                        for x in &mut x {
                            *x = x.pinned();
                        }
                        hashed.pair(H::PAIRS - $round / 2);
                    }
                }
            )*};
        }
        rounds!(1 2 3 4 5 6 7 8 9 10 11 12 13);
        let last = self.key(ROUNDS);
        for x in &mut x {
            *x = x.encrypt_last(last);
        }
        self.counter = self.counter.plus((CHUNK * V::WAYS) as u32);
        x
    }
}

/// The vectors hashed between AES rounds: in pairs, the last pair first.
trait Pairs<V> {
    const PAIRS: usize;
    /// Hashes a pair.
    fn pair(&mut self, pair: usize);
}

/// Hashes nothing.
impl<V> Pairs<V> for () {
    const PAIRS: usize = 0;
    #[inline(always)]
    fn pair(&mut self, _: usize) {}
}

/// When opening: the ciphertext of the chunk that the rounds are for, with the bytes of blocks reversed.
struct Ahead<'h, 'k, V, const N: usize> {
    hash: &'h mut Hash<'k, V>,
    blocks: [V; N],
}

impl<V: Field, const N: usize> Pairs<V> for Ahead<'_, '_, V, N> {
    const PAIRS: usize = N.div_ceil(2);

    #[inline(always)]
    fn pair(&mut self, pair: usize) {
        self.hash.take_pair(&self.blocks, pair);
        self.hash.middle = self.hash.middle.pinned();
    }
}

/// When sealing: the chunk before, whose stream waits; if registers are few, its ciphertext.
struct Behind<'h, 'k, V> {
    hash: &'h mut Hash<'k, V>,
    waiting: [V; CHUNK],
    /// Added to the first block.
    carry: V,
    /// The end of the chunk.
    source: *const u8,
    destination: *mut u8,
}

impl<'h, 'k, V: Field> Behind<'h, 'k, V> {
    #[inline(always)]
    fn new(hash: &'h mut Hash<'k, V>, waiting: [V; CHUNK], source: *const u8, destination: *mut u8) -> Self {
        let mut carry = V::zero();
        hash.turn_at_end(&mut carry);
        Self { hash, waiting, carry, source, destination }
    }
}

impl<V: Field> Pairs<V> for Behind<'_, '_, V> {
    const PAIRS: usize = CHUNK / 2;

    #[inline(always)]
    fn pair(&mut self, pair: usize) {
        let mut blocks = [self.waiting[2 * pair], self.waiting[2 * pair + 1]];
        for (n, block) in blocks.iter_mut().enumerate() {
            if V::AHEAD {
                let back = (CHUNK - 2 * pair - n) * V::BYTES;
                // SAFETY: the chunk before, which `Walk::stream` and `Walk::crypt_and_hash` vouch for.
                *block = unsafe { crypt(*block, self.source.sub(back), self.destination.sub(back)) };
            }
            *block = block.pinned().reverse();
        }
        if pair == 0 {
            blocks[0] = blocks[0].xor(self.carry);
        }
        self.hash.multiply_two(blocks, self.hash.place + 2 * pair * V::WAYS);
        self.hash.middle = self.hash.middle.pinned();
    }
}

/// Crypts a vector. Returns the output.
///
/// # Safety
/// A vector's bytes are readable at `source` and writable at `destination`, with any alignment, equal or
/// disjoint. The CPU has the features of `V`.
#[inline(always)]
unsafe fn crypt<V: Field>(stream: V, source: *const u8, destination: *mut u8) -> V {
    // SAFETY: the contract: a vector at both places.
    unsafe {
        let output = V::read(source).xor(stream);
        output.write(destination);
        output
    }
}

/// The position in a message: `bytes` bytes lie ahead at both places, equal or disjoint, and the hash waits for
/// exactly their blocks, behind those of the chunk before if that waits.
struct Walk<'k, V, const ROUNDS: usize> {
    hash: Hash<'k, V>,
    stream: Stream<'k, V>,
    source: *const u8,
    destination: *mut u8,
    bytes: usize,
}

impl<V: Field, const ROUNDS: usize> Walk<'_, V, ROUNDS> {
    /// Goes on by a chunk.
    #[inline(always)]
    fn advance(&mut self) {
        self.source = self.source.wrapping_add(CHUNK * V::BYTES);
        self.destination = self.destination.wrapping_add(CHUNK * V::BYTES);
        self.bytes -= CHUNK * V::BYTES;
    }

    /// Reads `N` vectors, the last of `last` bytes.
    ///
    /// # Safety
    /// `N - 1` vectors and `last` bytes, at most a vector, are readable at `source`. The CPU has the features
    /// of `V`.
    #[inline(always)]
    unsafe fn read<const N: usize>(&self, last: usize) -> [V; N] {
        let mut input = [V::zero(); N];
        for (n, input) in input.iter_mut().enumerate() {
            // SAFETY: the contract: N - 1 vectors and `last` bytes lie ahead.
            *input = unsafe {
                let from = self.source.add(n * V::BYTES);
                if n + 1 == N && last != V::BYTES { V::read_part(from, last) } else { V::read(from) }
            };
        }
        input
    }

    /// Crypts and writes `N` vectors, the last of `last` bytes. Returns the output.
    ///
    /// # Safety
    /// `N - 1` vectors and `last` bytes, at most a vector, are writable at `destination`. The CPU has the
    /// features of `V`.
    #[inline(always)]
    unsafe fn write<const N: usize>(&self, input: [V; N], stream: [V; N], last: usize) -> [V; N] {
        let mut outputs = stream;
        for (n, (input, output)) in input.into_iter().zip(&mut outputs).enumerate() {
            *output = input.xor(*output);
            // SAFETY: the contract: N - 1 vectors and `last` bytes lie ahead.
            unsafe {
                let to = self.destination.add(n * V::BYTES);
                if n + 1 == N && last != V::BYTES {
                    *output = output.first(last);
                    output.write_part(to, last);
                } else {
                    output.write(to);
                }
            }
        }
        outputs
    }

    /// Opens `N` vectors, the last of `last` bytes, and hashes them between the rounds.
    ///
    /// # Safety
    /// `N - 1` vectors and `last` bytes, at most a vector, are readable at `source` and writable at
    /// `destination`, equal or disjoint. The CPU has the features of `V`.
    #[inline(always)]
    unsafe fn open<const N: usize>(&mut self, last: usize) {
        // SAFETY: the contract: so many bytes are readable.
        let input = unsafe { self.read::<N>(last) };
        let mut blocks = input;
        for block in &mut blocks {
            *block = block.reverse();
        }
        self.hash.turn_at_end(&mut blocks[0]);
        let stream = self.stream.next::<ROUNDS, N, _>(Ahead { hash: &mut self.hash, blocks });
        self.hash.pass(N);
        // SAFETY: the contract: so many bytes are writable.
        unsafe { self.write(input, stream, last) };
    }

    /// Returns the next `N` vectors of the stream, when sealing. It hashes `waiting` if `WAITS`.
    ///
    /// # Safety
    /// If `WAITS`, the chunk before `source` is readable, and the one before `destination` is writable, equal
    /// or disjoint. The CPU has the features of `V`.
    #[inline(always)]
    unsafe fn stream<const N: usize, const WAITS: bool>(&mut self, waiting: [V; CHUNK]) -> [V; N] {
        if !WAITS {
            return self.stream.next::<ROUNDS, N, _>(());
        }
        let behind = Behind::new(&mut self.hash, waiting, self.source, self.destination);
        let stream = self.stream.next::<ROUNDS, N, _>(behind);
        self.hash.pass(CHUNK);
        stream
    }

    /// Makes a whole chunk's stream, and returns it as the next waiting one.
    ///
    /// # Safety
    /// A chunk is readable at `source` and writable at `destination`, equal or disjoint; if `WAITS`, the same
    /// holds for the chunk before. The CPU has the features of `V`.
    #[inline(always)]
    unsafe fn seal<const WAITS: bool>(&mut self, waiting: [V; CHUNK]) -> [V; CHUNK] {
        // SAFETY: the contract: the chunk ahead is read and written whole; that behind is `stream`'s.
        unsafe {
            let stream = self.stream::<CHUNK, WAITS>(waiting);
            if V::AHEAD { stream } else { self.write(self.read(V::BYTES), stream, V::BYTES) }
        }
    }

    /// Processes the last chunk, of `N` vectors.
    ///
    /// # Safety
    /// `bytes` bytes are readable at `source` and writable at `destination`, equal or disjoint; they fill `N`
    /// vectors except for less than a vector. If `waiting` is given, the same holds for the chunk before. The
    /// CPU has the features of `V`.
    #[inline(always)]
    unsafe fn tail<const OPEN: bool, const N: usize>(&mut self, waiting: Option<[V; CHUNK]>) {
        let last = self.bytes - (N - 1) * V::BYTES;
        // SAFETY: the contract: N - 1 vectors and `last` bytes lie ahead; a chunk lies behind if one waits.
        unsafe {
            if OPEN {
                return self.open::<N>(last);
            }
            let stream = match waiting {
                Some(waiting) => self.stream::<N, true>(waiting),
                None => self.stream::<N, false>([V::zero(); CHUNK]),
            };
            let mut blocks = self.write(self.read::<N>(last), stream, last);
            for block in &mut blocks {
                *block = block.reverse();
            }
            self.hash.turn_at_end(&mut blocks[0]);
            self.hash.take(&blocks);
        }
    }

    /// Processes the whole message.
    ///
    /// # Safety
    /// `bytes` bytes are readable at `source` and writable at `destination`, equal or disjoint. The CPU has
    /// the features of `V`.
    #[inline(always)]
    unsafe fn crypt_and_hash<const OPEN: bool>(&mut self) {
        let mut waiting = None;
        // SAFETY: whole chunks lie ahead; then `bytes` fill so many vectors but for some bytes of the last.
        unsafe {
            if OPEN {
                while self.bytes >= CHUNK * V::BYTES {
                    self.open::<CHUNK>(V::BYTES);
                    self.advance();
                }
            } else if self.bytes >= CHUNK * V::BYTES {
                let mut chunk = self.seal::<false>([V::zero(); CHUNK]);
                self.advance();
                while self.bytes >= CHUNK * V::BYTES {
                    chunk = self.seal::<true>(chunk);
                    self.advance();
                }
                waiting = Some(chunk);
            }
            match self.bytes.div_ceil(V::BYTES) {
                0 => {
                    if let Some(waiting) = waiting {
                        let mut behind = Behind::new(&mut self.hash, waiting, self.source, self.destination);
                        for pair in (0..CHUNK / 2).rev() {
                            behind.pair(pair);
                        }
                    }
                }
                1 => self.tail::<OPEN, 1>(waiting),
                2 => self.tail::<OPEN, 2>(waiting),
                3 => self.tail::<OPEN, 3>(waiting),
                4 => self.tail::<OPEN, 4>(waiting),
                5 => self.tail::<OPEN, 5>(waiting),
                6 => self.tail::<OPEN, 6>(waiting),
                7 => self.tail::<OPEN, 7>(waiting),
                _ => self.tail::<OPEN, CHUNK>(waiting),
            }
        }
    }
}

/// Returns a hash of `aad` that waits for the data's blocks.
#[inline(always)]
fn begin<'k, V: Field>(key: &'k Key, aad: &[u8], data_blocks: usize) -> Hash<'k, V> {
    let aad_blocks = aad.len().div_ceil(16);
    if aad_blocks <= V::WAYS && aad_blocks + data_blocks <= POWERS {
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

/// Messages that are crypted and hashed except for the lengths: as many as a vector has blocks are finished together.
struct Group<'k, V> {
    count: usize,
    /// Indices of their jobs.
    jobs: [usize; 4],
    keys: [Option<&'k Key>; 4],
    low: [V; 4],
    middle: [V; 4],
    high: [V; 4],
}

impl<'k, V: Field> Group<'k, V> {
    #[inline(always)]
    fn new() -> Self {
        let zero = [V::zero(); 4];
        Self { count: 0, jobs: [0; 4], keys: [None; 4], low: zero, middle: zero, high: zero }
    }

    /// Crypts and hashes the message of a job.
    ///
    /// # Safety
    /// The CPU has the features of `V`, and the group is not full.
    #[inline(always)]
    unsafe fn add<const ROUNDS: usize, const OPEN: bool>(&mut self, index: usize, job: &mut AeadJob<'k>) {
        let AeadSchedule::Gcm(key) = job.key.schedule() else { return };
        let bytes = job.data.len();
        let zeroth = One::nonce(&job.nonce).reverse();
        let mut walk = Walk::<V, ROUNDS> {
            hash: begin(key, job.aad, bytes.div_ceil(16)),
            stream: Stream { keys: &key.cipher.encrypt, counter: V::splat(zeroth) },
            source: job.data.source(),
            destination: job.data.destination(),
            bytes,
        };
        // SAFETY: the job's buffer has so many bytes at both ends, equal or disjoint.
        unsafe { walk.crypt_and_hash::<OPEN>() };
        let n = self.count & 3;
        self.count += 1;
        self.jobs[n] = index;
        self.keys[n] = Some(key);
        (self.low[n], self.middle[n], self.high[n]) = (walk.hash.low, walk.hash.middle, walk.hash.high);
    }

    /// Returns the encrypted counter blocks of the tags, and H/x, of every message.
    #[inline(always)]
    fn masks<const ROUNDS: usize>(&self, first: [One; 4]) -> (V, V) {
        let (mut masks, mut powers) = (first, [One::zero(); 4]);
        for n in 0..V::WAYS {
            if let Some(key) = self.keys[n] {
                masks[n] = encrypted::<One, ROUNDS>(&key.cipher.encrypt, first[n]);
                powers[n] = One::number(key.powers[POWERS - 1]);
            }
        }
        (V::of(masks), V::of(powers))
    }

    /// Makes or checks the tags and empties the group.
    ///
    /// # Safety
    /// The CPU has the features of `V`. `jobs` is the slice whose jobs were added, by their indices in it.
    #[inline(always)]
    unsafe fn finish<const ROUNDS: usize, const OPEN: bool>(&mut self, jobs: &mut [AeadJob<'k>]) {
        let Some(key) = self.keys[0] else { return };
        let same =
            self.keys[..self.count].iter().all(|other| other.is_some_and(|other| core::ptr::eq(other, key)));
        let (mut first, mut sizes) = ([One::zero(); 4], [One::zero(); 4]);
        for n in 0..V::WAYS {
            // The tags are not kept with the sums: bytes written block by block and read as a vector would wait for
            // the cache.
            let job = &jobs[self.jobs[n]];
            first[n] = One::nonce(&job.nonce).numbered(1);
            sizes[n] = One::number(lengths(job.aad.len(), job.data.len()));
        }
        let (mask, power) = if same {
            let mask = encrypted::<V, ROUNDS>(&key.cipher.encrypt, V::of(first));
            (mask, V::splat(One::number(key.powers[POWERS - 1])))
        } else {
            self.masks::<ROUNDS>(first)
        };
        let y = reduce(V::totals(self.low), V::totals(self.middle), V::totals(self.high));
        let y = y.xor(V::of(sizes));
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
                // SAFETY: the job's buffer. Data deciphered under a wrong tag must not be visible.
                unsafe { job.data.destination().write_bytes(0, job.data.len()) };
                Status::Forged
            };
        }
        self.count = 0;
    }

    /// Clears the sums, which reveal the hash key.
    #[inline(always)]
    fn wipe(&mut self) {
        for sum in self.low.iter_mut().chain(&mut self.middle).chain(&mut self.high) {
            // SAFETY: a write to what is borrowed; volatile, as nobody reads it.
            unsafe { core::ptr::write_volatile(sum, V::zero()) };
        }
    }
}

/// Runs every pending job.
///
/// # Safety
/// The CPU has the features of `V`.
#[inline(always)]
unsafe fn all<V: Field, const ROUNDS: usize, const OPEN: bool>(jobs: &mut [AeadJob<'_>]) {
    let mut group = Group::<V>::new();
    for index in 0..jobs.len() {
        if jobs[index].status == Status::Pending {
            // SAFETY: the contract: the features; the jobs are those of the slice, and a full group is
            // emptied at once.
            unsafe {
                group.add::<ROUNDS, OPEN>(index, &mut jobs[index]);
                if group.count == V::WAYS {
                    group.finish::<ROUNDS, OPEN>(jobs);
                }
            }
        }
    }
    if group.count != 0 {
        // SAFETY: the contract: the features; the jobs are those of the slice.
        unsafe { group.finish::<ROUNDS, OPEN>(jobs) };
    }
    group.wipe();
}

/// # Safety
/// The CPU has AES-NI, PCLMULQDQ, SSE4.1, SSSE3 and AVX2.
#[target_feature(enable = "aes,pclmulqdq,sse4.1,ssse3,avx2")]
unsafe fn all_avx2<const ROUNDS: usize, const OPEN: bool>(jobs: &mut [AeadJob<'_>]) {
    // SAFETY: this function has the features of One.
    unsafe { all::<One, ROUNDS, OPEN>(jobs) }
}

/// # Safety
/// The CPU has AES-NI, PCLMULQDQ, AVX2, VAES and VPCLMULQDQ.
#[target_feature(enable = "aes,pclmulqdq,sse4.1,ssse3,avx2,vaes,vpclmulqdq")]
unsafe fn all_vaes<const ROUNDS: usize, const OPEN: bool>(jobs: &mut [AeadJob<'_>]) {
    // SAFETY: this function has the features of Two.
    unsafe { all::<Two, ROUNDS, OPEN>(jobs) }
}

/// # Safety
/// The CPU has AES-NI, PCLMULQDQ, AVX-512 F, BW, DQ and VL, VAES and VPCLMULQDQ.
#[target_feature(enable = "aes,pclmulqdq,avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq")]
unsafe fn all_avx512<const ROUNDS: usize, const OPEN: bool>(jobs: &mut [AeadJob<'_>]) {
    // SAFETY: this function has the features of Four.
    unsafe { all::<Four, ROUNDS, OPEN>(jobs) }
}

/// Runs the pending jobs, whose keys have that many rounds.
pub(crate) fn avx2<const ROUNDS: usize>(_: Avx2, direction: Direction, jobs: &mut [AeadJob<'_>]) {
    // SAFETY: the token.
    unsafe {
        match direction {
            Direction::Encrypt => all_avx2::<ROUNDS, false>(jobs),
            Direction::Decrypt => all_avx2::<ROUNDS, true>(jobs),
        }
    }
}

/// Does as [`avx2`].
pub(crate) fn vaes<const ROUNDS: usize>(_: Vaes, direction: Direction, jobs: &mut [AeadJob<'_>]) {
    // SAFETY: the token.
    unsafe {
        match direction {
            Direction::Encrypt => all_vaes::<ROUNDS, false>(jobs),
            Direction::Decrypt => all_vaes::<ROUNDS, true>(jobs),
        }
    }
}

/// Does as [`avx2`].
pub(crate) fn avx512<const ROUNDS: usize>(_: Avx512, direction: Direction, jobs: &mut [AeadJob<'_>]) {
    // SAFETY: the token.
    unsafe {
        match direction {
            Direction::Encrypt => all_avx512::<ROUNDS, false>(jobs),
            Direction::Decrypt => all_avx512::<ROUNDS, true>(jobs),
        }
    }
}
