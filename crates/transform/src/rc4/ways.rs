//! RC4, eight messages interleaved: each byte waits for three look-ups and two stores of the same table.
//!
//! A row holds one entry of every way's permutation, so one load reads S[i] of all. A first-level cache takes one
//! store per cycle, or two of one line: ways store S[i] in pairs, then S[j]. All ways share i, in rows: a message
//! that begins later than others has its entry 0 in the present row of i, and adds that start when it looks up a sum.
//!
//! `unsafe`: rows are read and written under the contract of [`crate::cipher_ways::WaysKernel`]; the assembly is
//! behind the token for AVX2, and exists because the compiler extends every byte that it adds and runs out of
//! registers.
#![allow(unsafe_code)]

use core::arch::x86_64::*;
use core::mem::offset_of;

use super::{Key, single};
use crate::cipher_ways::{Alone, CHUNK, Rows, WaysKernel};
use crate::isa::Avx2;
use crate::schedule::Schedule;
use crate::wipe::wipe;

/// Messages side by side.
pub(crate) const WAYS: usize = 8;

/// The streams of eight messages; `'k` is the lifetime of their keys.
#[repr(C, align(64))]
pub(crate) struct Rc4Ways<'k> {
    s: [[u8; WAYS]; 256],
    /// The row of each way's entry 0.
    start: [u8; WAYS],
    /// The row of each way's j ...
    j: [u8; WAYS],
    /// ... and of every way's i, a multiple of [`CHUNK`].
    i: u8,
    /// Keys of the messages that begin with the next chunk.
    new: [Option<&'k Key>; WAYS],
}

impl Drop for Rc4Ways<'_> {
    fn drop(&mut self) {
        wipe(&mut self.s, [0; WAYS]);
        wipe(&mut self.j, 0);
    }
}

impl Rc4Ways<'_> {
    /// Ways that have no key yet.
    pub(crate) fn new(_: Avx2) -> Self {
        Self { s: [[0; WAYS]; 256], start: [0; WAYS], j: [0; WAYS], i: 0, new: [None; WAYS] }
    }

    /// Begins the new messages.
    fn begin(&mut self) {
        let new = self.new.iter().filter(|key| key.is_some()).count();
        if new == 0 {
            return;
        }
        if new == WAYS {
            self.i = 0;
        }
        self.lay();
        for way in (0..WAYS).filter(|&way| self.new[way].is_some()) {
            (self.start[way], self.j[way]) = (self.i, self.i);
        }
        self.new = [None; WAYS];
    }

    /// Writes the new messages' permutations into the rows.
    fn lay(&mut self) {
        let mut new = [0; WAYS];
        for (new, _) in new.iter_mut().zip(&self.new).filter(|(_, key)| key.is_some()) {
            *new = 0xff;
        }
        let new = u64::from_le_bytes(new);
        let start = usize::from(self.i);
        for (block, rows) in self.s.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let from = (16 * block).wrapping_sub(start) & 255;
            // SAFETY: SSE2 is part of the architecture; `from` is a multiple of 16 below 256, and 16 rows are eight
            // vectors.
            unsafe {
                let mut x = [_mm_setzero_si128(); WAYS];
                for (x, key) in x.iter_mut().zip(&self.new) {
                    if let Some(key) = key {
                        *x = _mm_loadu_si128(key.permutation.as_ptr().add(from).cast());
                    }
                }
                for _ in 0..3 {
                    let [a, b, c, d, e, f, g, h] = x;
                    let pair = |a, b| [_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)];
                    let ([a, e], [b, f], [c, g], [d, h]) = (pair(a, e), pair(b, f), pair(c, g), pair(d, h));
                    x = [a, e, b, f, c, g, d, h];
                }
                let new = _mm_set1_epi64x(new.cast_signed());
                for (n, x) in x.into_iter().enumerate() {
                    let rows = rows.as_mut_ptr().add(2 * n).cast();
                    _mm_storeu_si128(rows, _mm_or_si128(_mm_andnot_si128(new, _mm_loadu_si128(rows)), x));
                }
            }
        }
    }
}

/// See [`WaysKernel::crypt_chunks`]; `TOGETHER` says that all ways start in row 0.
///
/// # Safety
/// The contract of [`WaysKernel::crypt_chunks`]; the CPU has AVX2. `kernel.i` is a multiple of 16.
#[target_feature(enable = "avx2")]
#[allow(unused_assignments)] // The rest of a row after its last ways is not used.
unsafe fn crypt_ways<const TOGETHER: bool>(kernel: &mut Rc4Ways<'_>, rows: &mut Rows<WAYS>, chunks: usize) {
    /// Bytes of stream that are computed at once.
    const STEP: usize = 16;
    const { assert!(offset_of!(Rc4Ways<'_>, s) == 0 && offset_of!(Rc4Ways<'_>, start) == 2048) };
    let mut j = kernel.j.map(u64::from);
    let mut i = usize::from(kernel.i);
    let s = (&raw mut *kernel).cast::<u8>();
    for _ in 0..chunks {
        for at in (0..CHUNK).step_by(STEP) {
            let mut stream = [_mm_setzero_si128(); WAYS];
            // Processes ways n and n + 4, whose S[i] are the lowest bytes of `$a` and `$b`; the next ways' follow.
            macro_rules! two {
                ($n:literal $byte:literal $a:ident $b:ident $row:ident $in_row:ident $($add_start:literal)*) => {
                    core::arch::asm!(
                        "add {i:l}, {a:l}",
                        "add {j:l}, {b:l}",
                        "movzx {c:e}, byte ptr [{s} + 8*{i} + {n}]",
                        "movzx {d:e}, byte ptr [{s} + 8*{j} + {n} + 4]",
                        "mov byte ptr [{row} + {in_row} + {n}], {c:l}",
                        "mov byte ptr [{row} + {in_row} + {n} + 4], {d:l}",
                        "mov byte ptr [{s} + 8*{i} + {n}], {a:l}",
                        "mov byte ptr [{s} + 8*{j} + {n} + 4], {b:l}",
                        "add {c:l}, {a:l}",
                        "add {d:l}, {b:l}",
                        $($add_start,)*
                        "shr {a:e}, 8",
                        "shr {b:e}, 8",
                        "vpinsrb {x}, {x}, byte ptr [{s} + 8*{c} + {n}], {byte}",
                        "vpinsrb {y}, {y}, byte ptr [{s} + 8*{d} + {n} + 4], {byte}",
                        s = in(reg) s, row = in(reg) $row, i = inout(reg) j[$n], j = inout(reg) j[$n + 4],
                        a = inout(reg) $a, b = inout(reg) $b, c = out(reg) _, d = out(reg) _,
                        x = inout(xmm_reg) stream[$n], y = inout(xmm_reg) stream[$n + 4],
                        n = const $n, byte = const $byte, in_row = const $in_row, options(nostack),
                    )
                };
            }
            macro_rules! bytes {
                ($($byte:literal)*) => { $( {
                    // Only the last of sixteen can wrap.
                    const LAST: bool = $byte == STEP - 1;
                    const IN_ROW: usize = if LAST { 0 } else { 8 * ($byte + 1) };
                    // SAFETY: rows of the table.
                    let (row, [mut a, mut b]) = unsafe {
                        let row = s.add(8 * if LAST { (i + STEP) & 255 } else { i });
                        (row, row.add(IN_ROW).cast::<[u32; 2]>().read())
                    };
                    macro_rules! ways {
                        ($n:literal) => {
                            // SAFETY: every index into the table is a byte, as the rest of its register is zero.
                            unsafe {
                                if TOGETHER {
                                    two!($n $byte a b row IN_ROW);
                                } else {
                                    two!($n $byte a b row IN_ROW
                                        "add {c:l}, byte ptr [{s} + 2048 + {n}]"
                                        "add {d:l}, byte ptr [{s} + 2048 + {n} + 4]");
                                }
                            }
                        };
                    }
                    ways!(0);
                    ways!(1);
                    ways!(2);
                    ways!(3);
                } )* };
            }
            bytes!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
            i = (i + STEP) & 255;
            for (n, stream) in stream.into_iter().enumerate() {
                // SAFETY: the trait's contract: sixteen bytes of the way's chunk at both places.
                unsafe {
                    let data = _mm_loadu_si128(rows.source[n].add(at).cast());
                    _mm_storeu_si128(rows.destination[n].add(at).cast(), _mm_xor_si128(data, stream));
                }
            }
        }
        rows.advance();
    }
    kernel.j = j.map(|j| j as u8);
    kernel.i = i as u8;
}

impl<'k> WaysKernel<'k, WAYS> for Rc4Ways<'k> {
    fn set(&mut self, way: usize, key: &'k Schedule, _: &[u8; 16]) {
        if let Schedule::Rc4(key) = key {
            self.new[way] = Some(key);
        }
    }

    /// # Safety
    /// The contract of [`WaysKernel::crypt_chunks`].
    unsafe fn crypt_chunks(&mut self, rows: &mut Rows<WAYS>, chunks: usize) {
        self.begin();
        // SAFETY: `new` was given the token, which proves AVX2; for the rows, the trait's contract; `i` is a
        // multiple of CHUNK.
        unsafe {
            if self.start == [0; WAYS] {
                crypt_ways::<true>(self, rows, chunks);
            } else {
                crypt_ways::<false>(self, rows, chunks);
            }
        }
    }

    fn finish(&mut self, way: usize, _: &'k Schedule, rest: &mut [u8], _: &Alone<'_>) {
        if let Some(key) = self.new[way] {
            return single::one(key, rest);
        }
        let start = self.start[way];
        let s = core::array::from_fn(|x| self.s[(x + usize::from(start)) & 255][way]);
        single::crypt_from(s, self.i.wrapping_sub(start), self.j[way].wrapping_sub(start), rest);
    }
}
