//! SEAL 3.0 by gathers: two groups of sixteen messages on AVX-512, four of eight on AVX2.
//!
//! A gather needs one base for all its ways, so T of every key in use is copied here; ways of one key share a copy.
//! S and R are read in place. `unsafe`: gathers, and rows under the contract of [`crate::cipher_ways::WaysKernel`].
#![allow(unsafe_code)]

use super::generic::{PAGE_CHUNKS, State, rest};
use super::{Key, ZERO};
use crate::cipher_ways::{Alone, CHUNK, Rows, WaysKernel};
use crate::isa::{Avx2, Avx512};
use crate::schedule::Schedule;
use crate::simd::avx2::Y;
use crate::simd::avx512::Z;
use crate::simd::gather::Gather;
use crate::wipe::wipe;

/// Messages side by side.
const L: usize = 32;

/// A way that has no table.
const NONE: u8 = u8::MAX;

/// Number of ways from which on the starts of pages run in vectors.
const START_TOGETHER: usize = 6;

/// The batch kernel.
#[repr(C, align(64))]
pub(crate) struct SealGather<'k> {
    tables: [[u32; 512]; L],
    /// A, B, C, D, then n1 to n4.
    words: [[u32; L]; 8],
    /// Start of each way's table, in bytes from the first.
    offsets: [u32; L],
    keys: [&'k Key; L],
    index: [u32; L],
    chunk: [usize; L],
    /// The key of each table, and the number of ways that use it.
    held: [Option<&'k Key>; L],
    users: [u8; L],
    table_of: [u8; L],
    crypt_chunks: unsafe fn(&mut Self, &mut Rows<L>, usize),
}

impl Drop for SealGather<'_> {
    fn drop(&mut self) {
        for (table, held) in self.tables.iter_mut().zip(&self.held) {
            if held.is_some() {
                wipe(table, 0);
            }
        }
        wipe(&mut self.words, [0; L]);
    }
}

/// Returns each way's word of T.
///
/// # Safety
/// `tables` is readable for `2048 * L` bytes. Each element of `base` is a multiple of 2048 below that, and
/// each of `offset` is a multiple of four below 2048. The CPU has the features of `V`.
#[inline(always)]
unsafe fn look<V: Gather>(tables: *const u32, base: V, offset: V) -> V {
    // SAFETY: the contract: the sum lies within the tables, as does the word there.
    unsafe { V::gather(tables, base.add(offset)) }
}

/// Runs four steps of the start of a page.
///
/// # Safety
/// `tables` and `base` are as the contract of [`look`] says. The CPU has the features of `V`.
#[inline(always)]
unsafe fn warm<V: Gather, const G: usize>(tables: *const u32, base: &[V; G], x: &mut [[V; G]; 4]) {
    for i in 0..4 {
        for n in 0..G {
            let offset = x[i][n].and(V::splat(0x7fc));
            // SAFETY: the contract for tables and base; the mask makes multiples of four below 2048.
            x[(i + 1) % 4][n] = x[(i + 1) % 4][n].add(unsafe { look(tables, base[n], offset) });
            x[i][n] = x[i][n].rotl::<23>();
        }
    }
}

impl<'k> SealGather<'k> {
    fn new(crypt_chunks: unsafe fn(&mut Self, &mut Rows<L>, usize)) -> Self {
        Self {
            tables: [[0; 512]; L],
            words: [[0; L]; 8],
            offsets: [0; L],
            keys: [&ZERO; L],
            index: [0; L],
            chunk: [0; L],
            held: [None; L],
            users: [0; L],
            table_of: [NONE; L],
            crypt_chunks,
        }
    }

    fn state(&self, way: usize) -> State {
        State { words: self.words.map(|row| row[way]), index: self.index[way], chunk: self.chunk[way] }
    }

    fn store(&mut self, way: usize, words: [u32; 8]) {
        for (row, word) in self.words.iter_mut().zip(words) {
            row[way] = word;
        }
    }

    /// Starts pages of the ways that are at the beginning of one.
    ///
    /// # Safety
    /// `G * V::WAYS` is `L`, and the CPU has the features of `V`.
    #[inline(always)]
    unsafe fn start<V: Gather, const G: usize>(&mut self) {
        let fresh = |kernel: &Self, way: usize| kernel.chunk[way].is_multiple_of(PAGE_CHUNKS);
        let count = (0..L).filter(|&way| fresh(self, way)).count();
        if count == 0 {
            return;
        }
        if count < START_TOGETHER {
            for way in 0..L {
                if fresh(self, way) {
                    let mut state = self.state(way);
                    state.start(self.keys[way]);
                    self.store(way, state.words);
                }
            }
            return;
        }
        let mut first = [[0; L]; 4];
        for way in 0..L {
            let r = &self.keys[way].r[4 * self.state(way).page()..][..4];
            for (i, row) in first.iter_mut().enumerate() {
                row[way] = self.index[way].rotate_right(8 * i as u32) ^ r[i];
            }
        }
        // SAFETY: rows of L = G * WAYS words; `offsets` are starts of tables, of which there are L.
        unsafe {
            let load = |row: &[u32; L], n: usize| V::load(row.as_ptr().add(n * V::WAYS));
            let base: [V; G] = core::array::from_fn(|n| load(&self.offsets, n));
            let tables = self.tables.as_ptr().cast::<u32>();
            let mut x: [[V; G]; 4] = core::array::from_fn(|i| core::array::from_fn(|n| load(&first[i], n)));
            warm(tables, &base, &mut x);
            warm(tables, &base, &mut x);
            let [a, b, c, d] = x;
            warm(tables, &base, &mut x);
            let words = [x[0], x[1], x[2], x[3], d, b, a, c];
            let mut made = [[0; L]; 8];
            for (row, groups) in made.iter_mut().zip(words) {
                for (n, group) in groups.into_iter().enumerate() {
                    group.store(row.as_mut_ptr().add(n * V::WAYS));
                }
            }
            for way in 0..L {
                if fresh(self, way) {
                    self.store(way, made.map(|row| row[way]));
                }
            }
        }
    }

    /// See [`WaysKernel::crypt_chunks`]; `G * V::WAYS` is `L`.
    ///
    /// # Safety
    /// The contract of [`WaysKernel::crypt_chunks`], and `G * V::WAYS` is `L`. The CPU has the features of
    /// `V`.
    #[inline(always)]
    unsafe fn go<V: Gather, const G: usize>(&mut self, rows: &mut Rows<L>, chunks: usize) {
        debug_assert_eq!(G * V::WAYS, L);
        for _ in 0..chunks {
            // SAFETY: the contract: L ways and the features for all three, and a chunk at each row for the
            // last.
            unsafe {
                self.start::<V, G>();
                let x = self.stream::<V, G>();
                self.xor::<V, G>(x, rows);
            }
            for chunk in &mut self.chunk {
                *chunk += 1;
            }
            rows.advance();
        }
    }

    /// Returns the next chunk of every stream, before S is mixed in.
    ///
    /// # Safety
    /// `G * V::WAYS` is `L`, and the CPU has the features of `V`.
    #[inline(always)]
    unsafe fn stream<V: Gather, const G: usize>(&mut self) -> [[V; 16]; G] {
        // SAFETY: rows of L = G * WAYS words.
        let load = |row: &[u32; L], n: usize| unsafe { V::load(row.as_ptr().add(n * V::WAYS)) };
        let tables = self.tables.as_ptr().cast::<u32>();
        let base: [V; G] = core::array::from_fn(|n| load(&self.offsets, n));
        let [mut a, mut b, mut c, mut d]: [[V; G]; 4] =
            core::array::from_fn(|i| core::array::from_fn(|n| load(&self.words[i], n)));
        let mask = V::splat(0x7fc);
        let (mut p, mut q) = ([mask; G], [mask; G]);
        let mut x = [[mask; 16]; G];
        // SAFETY: `base` has starts of tables, of which there are L; `offset` was masked with 0x7fc.
        let t = |n: usize, offset: V| unsafe { look(tables, base[n], offset) };
        macro_rules! each {
            ($n:ident, $($body:tt)*) => { for $n in 0..G { $($body)* } };
        }
        for i in 0..4 {
            each!(n, p[n] = a[n].and(mask); a[n] = a[n].rotl::<23>(); b[n] = b[n].add(t(n, p[n])).xor(a[n]););
            each!(n, q[n] = b[n].and(mask); b[n] = b[n].rotl::<23>(); c[n] = c[n].xor(t(n, q[n])).add(b[n]););
            each!(n, p[n] = p[n].add(c[n]).and(mask); c[n] = c[n].rotl::<23>();
                d[n] = d[n].add(t(n, p[n])).xor(c[n]););
            each!(n, q[n] = q[n].add(d[n]).and(mask); d[n] = d[n].rotl::<23>();
                a[n] = a[n].xor(t(n, q[n])).add(d[n]););
            each!(n, p[n] = p[n].add(a[n]).and(mask); b[n] = b[n].xor(t(n, p[n])); a[n] = a[n].rotl::<23>(););
            each!(n, q[n] = q[n].add(b[n]).and(mask); c[n] = c[n].add(t(n, q[n])); b[n] = b[n].rotl::<23>(););
            each!(n, p[n] = p[n].add(c[n]).and(mask); d[n] = d[n].xor(t(n, p[n])); c[n] = c[n].rotl::<23>(););
            each!(n, q[n] = q[n].add(d[n]).and(mask); d[n] = d[n].rotl::<23>(); a[n] = a[n].add(t(n, q[n])););
            each!(n,
                [x[n][4 * i], x[n][4 * i + 1], x[n][4 * i + 2], x[n][4 * i + 3]] = [b[n], c[n], d[n], a[n]];
                let from = if i % 2 == 0 { 4 } else { 6 };
                let (first, second) = (load(&self.words[from], n), load(&self.words[from + 1], n));
                a[n] = a[n].add(first);
                b[n] = b[n].add(second);
                c[n] = c[n].xor(first);
                d[n] = d[n].xor(second);
            );
        }
        for (row, groups) in self.words.iter_mut().zip([a, b, c, d]) {
            for (n, group) in groups.into_iter().enumerate() {
                // SAFETY: rows of L = G * WAYS words.
                unsafe { group.store(row.as_mut_ptr().add(n * V::WAYS)) };
            }
        }
        x
    }

    /// Mixes S into streams and XORs them into the data.
    ///
    /// # Safety
    /// `G * V::WAYS` is `L`. 64 bytes at each of the rows' sources are readable, and 64 at each of their
    /// destinations are writable, with any alignment, equal or disjoint. The CPU has the features of `V`.
    #[inline(always)]
    unsafe fn xor<V: Gather, const G: usize>(&self, x: [[V; 16]; G], rows: &Rows<L>) {
        const ODD: [u32; 16] = {
            let mut odd = [0; 16];
            let mut i = 1;
            while i < 16 {
                odd[i] = u32::MAX;
                i += 2;
            }
            odd
        };
        for (n, x) in x.into_iter().enumerate() {
            let mut mixed = [[0u8; CHUNK]; 16];
            let mut to = [core::ptr::null_mut(); 16];
            for (to, mixed) in to.iter_mut().zip(&mut mixed) {
                *to = mixed.as_mut_ptr();
            }
            // SAFETY: 16 rows of 64 bytes; then WAYS words at a time within S, the stream, and by the
            // contract the way's chunk.
            unsafe {
                V::store_rows(x, to.as_ptr(), 0);
                let odd = V::load(ODD.as_ptr());
                for (i, mixed) in mixed.iter().enumerate().take(V::WAYS) {
                    let way = n * V::WAYS + i;
                    let s = &self.keys[way].s.as_chunks::<16>().0[self.chunk[way] % PAGE_CHUNKS];
                    for at in (0..16).step_by(V::WAYS) {
                        let stream = V::load(mixed.as_ptr().cast::<u32>().add(at));
                        let s = V::load(s.as_ptr().add(at));
                        let stream = V::lut::<0xca>(odd, stream.xor(s), stream.add(s)).swap_bytes();
                        let data = V::load(rows.source[way].cast::<u32>().add(at));
                        data.xor(stream).store(rows.destination[way].cast::<u32>().add(at));
                    }
                }
            }
        }
    }
}

impl<'k> WaysKernel<'k, L> for SealGather<'k> {
    fn set(&mut self, way: usize, key: &'k Schedule, iv: &[u8; 16]) {
        let Schedule::Seal3(key) = key else { return };
        self.keys[way] = key;
        self.index[way] = super::index(iv);
        self.chunk[way] = 0;
        if let Some(users) = self.users.get_mut(usize::from(self.table_of[way])) {
            *users -= 1;
        }
        let same = |held: &Option<&Key>| held.is_some_and(|held| core::ptr::eq(held, &**key));
        let table = self.held.iter().position(same).unwrap_or_else(|| {
            // There are as many tables as ways, and this way has none.
            let free = self.users.iter().position(|&users| users == 0).unwrap_or(way);
            self.tables[free] = key.t;
            self.held[free] = Some(key);
            free
        });
        self.users[table] += 1;
        self.table_of[way] = table as u8;
        self.offsets[way] = 2048 * table as u32;
    }

    /// # Safety
    /// The contract of [`WaysKernel::crypt_chunks`].
    unsafe fn crypt_chunks(&mut self, rows: &mut Rows<L>, chunks: usize) {
        // SAFETY: the function that `new` was given has the same contract.
        unsafe { (self.crypt_chunks)(self, rows, chunks) }
    }

    fn finish(&mut self, way: usize, _: &'k Schedule, data: &mut [u8], _: &Alone<'_>) {
        rest(self.keys[way], self.state(way), data);
    }
}

/// # Safety
/// The contract of [`WaysKernel::crypt_chunks`]; the CPU has AVX2.
#[target_feature(enable = "avx2")]
unsafe fn run_avx2(kernel: &mut SealGather<'_>, rows: &mut Rows<L>, chunks: usize) {
    // SAFETY: the contract of this function is that of `go`, and it has the features of Y; four times eight
    // ways.
    unsafe { kernel.go::<Y, 4>(rows, chunks) }
}

/// # Safety
/// The contract of [`WaysKernel::crypt_chunks`]; the CPU has AVX-512 F and BW.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn run_avx512(kernel: &mut SealGather<'_>, rows: &mut Rows<L>, chunks: usize) {
    // SAFETY: the contract of this function is that of `go`, and it has the features of Z; two times sixteen
    // ways.
    unsafe { kernel.go::<Z, 2>(rows, chunks) }
}

/// Gathers of AVX2.
pub(crate) fn avx2<'k>(_: Avx2) -> SealGather<'k> {
    SealGather::new(run_avx2)
}

/// Gathers of AVX-512.
pub(crate) fn avx512<'k>(_: Avx512) -> SealGather<'k> {
    SealGather::new(run_avx512)
}
