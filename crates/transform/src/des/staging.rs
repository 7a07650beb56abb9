//! Converts between a chunk of every way and the planes of its eight blocks.
//!
//! A chunk is staged as it is loaded, each block is converted to planes and back, and the chunk is stored. The layout
//! on the stage depends on the vector; in planes, way `64 e + i` is always bit i of element e.
//!
//! `unsafe`: rows are read through pointers under the contract of [`crate::cipher_ways::WaysKernel`].
#![allow(unsafe_code)]

use crate::simd::{Blocks, Planes};

/// A block of every way. The last vector only keeps the blocks of a chunk out of each other's cache sets.
pub(crate) type Block<V> = [V; 65];

/// Room for 64 vectors between two steps.
pub(crate) type Half<V> = [[V; 8]; 8];

/// Vectors that can be staged.
pub(crate) trait Staged: Planes {
    /// Reads a chunk of every way.
    ///
    /// # Safety
    /// `rows` are `64 * ELEMENTS` pointers, each to 64 readable bytes, with any alignment. The CPU has the
    /// vector's features.
    unsafe fn load_chunk(rows: *const *const u8, blocks: &mut [Block<Self>; 8]);

    /// Stores the stage, the inverse of [`Self::load_chunk`].
    ///
    /// # Safety
    /// `rows` are `64 * ELEMENTS` pointers, each to 64 writable bytes, with any alignment. The CPU has the
    /// vector's features.
    unsafe fn store_chunk(blocks: &[Block<Self>; 8], rows: *const *mut u8);

    /// Converts a block to planes: `write(n, ..)` gets planes 8n and up.
    fn to_planes(block: &Block<Self>, half: &mut Half<Self>, write: impl FnMut(usize, [Self; 8]));

    /// Converts planes to a block, the inverse of [`Self::to_planes`].
    fn from_planes(block: &mut Block<Self>, half: &mut Half<Self>, read: impl Fn(usize) -> Self);
}

/// Exchanges row index and bit index of 64 rows of 64 bits, in every element at once. It takes the rows one by one
/// and returns them in eights: `write(n, ..)` gets rows 8n and up. `half` is room for them between the two steps.
#[inline(always)]
pub(super) fn transpose<V: Planes>(
    half: &mut Half<V>,
    read: impl Fn(usize) -> V,
    mut write: impl FnMut(usize, [V; 8]),
) {
    macro_rules! exchange {
        ($rows:ident, $distance:literal, $shift:literal, $mask:literal) => {
            let mask = V::splat($mask);
            for i in 0..8 {
                if i & $distance == 0 {
                    let (a, b) = ($rows[i], $rows[i + $distance]);
                    $rows[i] = V::lut::<0xca>(mask, a, b.shl::<$shift>());
                    $rows[i + $distance] = V::lut::<0xca>(mask, a.shr::<$shift>(), b);
                }
            }
        };
    }
    for base in 0..8 {
        let mut rows = [V::splat(0); 8];
        for (i, row) in rows.iter_mut().enumerate() {
            *row = read(base + 8 * i);
        }
        exchange!(rows, 4, 32, 0x0000_0000_ffff_ffff);
        exchange!(rows, 2, 16, 0x0000_ffff_0000_ffff);
        exchange!(rows, 1, 8, 0x00ff_00ff_00ff_00ff);
        for (half, row) in half.iter_mut().zip(rows) {
            half[base] = row;
        }
    }
    for (n, &mut mut rows) in half.iter_mut().enumerate() {
        exchange!(rows, 4, 4, 0x0f0f_0f0f_0f0f_0f0f);
        exchange!(rows, 2, 2, 0x3333_3333_3333_3333);
        exchange!(rows, 1, 1, 0x5555_5555_5555_5555);
        write(n, rows);
    }
}

/// Conversion by shifts and masks: the stage has a row for every 64th way.
macro_rules! by_shifts {
    ($vector:ty) => {
        impl Staged for $vector {
            /// # Safety
            /// The contract of [`Staged::load_chunk`].
            #[inline(always)]
            unsafe fn load_chunk(rows: *const *const u8, blocks: &mut [Block<Self>; 8]) {
                for i in 0..64 {
                    // SAFETY: the contract: rows i, i + 64, ... are ways, each with a chunk to read.
                    let eight = unsafe { Self::load_blocks(rows.add(i)) };
                    for (block, row) in blocks.iter_mut().zip(eight) {
                        block[i] = row;
                    }
                }
            }
            /// # Safety
            /// The contract of [`Staged::store_chunk`].
            #[inline(always)]
            unsafe fn store_chunk(blocks: &[Block<Self>; 8], rows: *const *mut u8) {
                for i in 0..64 {
                    // SAFETY: the contract: rows i, i + 64, ... are ways, each with a chunk to write.
                    unsafe { Self::store_blocks(core::array::from_fn(|n| blocks[n][i]), rows.add(i)) };
                }
            }
            #[inline(always)]
            fn to_planes(block: &Block<Self>, half: &mut Half<Self>, write: impl FnMut(usize, [Self; 8])) {
                transpose(half, |i| block[i], write);
            }
            #[inline(always)]
            fn from_planes(block: &mut Block<Self>, half: &mut Half<Self>, read: impl Fn(usize) -> Self) {
                transpose(half, read, |n, eight| block[8 * n..8 * n + 8].copy_from_slice(&eight));
            }
        }
    };
}
by_shifts!(u64);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use core::arch::x86_64::*;

    use super::*;
    use crate::simd::avx2::Y;
    use crate::simd::avx512::Z;

    by_shifts!(Y);

    /// Conversion by bytes. The index of a vector (v) and that of a byte in 16 (p) form one number, v above p;
    /// interleaving the bytes of the vectors' halves rotates it left by one bit, and an affine map whose matrix is
    /// the data exchanges byte and bit in every eight bytes. So a way's number is 128 times its place in a vector,
    /// plus 8 times its byte's index in planes, plus its bit's index.
    ///
    /// On the stage of a chunk just loaded, vector `16 * (byte / 2) + way / 8 % 16` of a block has, in every 16 bytes,
    /// each bit of two bytes; of a chunk to store, vector `8 * (way / 16 % 8) + byte` has each way's byte.
    impl Staged for Z {
        /// # Safety
        /// The contract of [`Staged::load_chunk`], for 512 rows. The CPU has AVX-512 F and BW, and GFNI.
        #[inline(always)]
        unsafe fn load_chunk(rows: *const *const u8, blocks: &mut [Block<Self>; 8]) {
            for group in 0..16 {
                for (two, blocks) in blocks.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                    // SAFETY: the contract: way 128 q + 8 group + 7 - i has a chunk to read, of which this
                    // is a quarter.
                    let ways = core::array::from_fn(|i| unsafe {
                        let at = |q: usize| (*rows.add(128 * q + 8 * group + 7 - i)).add(16 * two);
                        Self::load_quarters([at(0), at(1), at(2), at(3)])
                    });
                    let bytes = Self::transpose_8(ways);
                    for (i, bytes) in bytes.into_iter().enumerate() {
                        blocks[i / 4][16 * (i % 4) + group] = bytes;
                    }
                }
            }
        }

        /// # Safety
        /// The contract of [`Staged::store_chunk`], for 512 rows. The CPU has AVX-512 F and BW.
        #[inline(always)]
        unsafe fn store_chunk(blocks: &[Block<Self>; 8], rows: *const *mut u8) {
            for group in 0..8 {
                for (two, blocks) in blocks.as_chunks::<2>().0.iter().enumerate() {
                    let mut bytes = [blocks[0][0]; 16];
                    for (i, bytes) in bytes.iter_mut().enumerate() {
                        *bytes = blocks[i / 8][8 * group + i % 8];
                    }
                    let ways = Self::transpose_16(bytes);
                    for (i, ways) in ways.into_iter().enumerate() {
                        // SAFETY: the contract: way 128 q + 16 group + i has a chunk to write, of which this
                        // is a quarter.
                        unsafe {
                            let at = |q: usize| (*rows.add(128 * q + 16 * group + i)).add(16 * two);
                            ways.store_quarters([at(0), at(1), at(2), at(3)]);
                        }
                    }
                }
            }
        }

        #[inline(always)]
        fn to_planes(block: &Block<Self>, _: &mut Half<Self>, mut write: impl FnMut(usize, [Self; 8])) {
            for (two, bytes) in block.as_chunks::<16>().0.iter().enumerate() {
                let planes = Self::transpose_16(*bytes);
                for (i, eight) in planes.as_chunks().0.iter().enumerate() {
                    write(2 * two + i, *eight);
                }
            }
        }

        #[inline(always)]
        fn from_planes(block: &mut Block<Self>, _: &mut Half<Self>, read: impl Fn(usize) -> Self) {
            for n in 0..8 {
                let planes = core::array::from_fn(|i| read(8 * n + 7 - i));
                let bytes = Self::transpose_8(planes);
                for (group, bytes) in bytes.into_iter().enumerate() {
                    block[8 * group + n] = bytes;
                }
            }
        }
    }

    /// Interleaves the bytes of the first half of the vectors with those of the second half.
    macro_rules! interleave {
        ($name:ident, $count:literal: $($i:literal)*) => {
            #[inline(always)]
            fn $name(vectors: [Self; $count]) -> [Self; $count] {
                [$({
                    let (a, b) = (vectors[$i / 2].0, vectors[$count / 2 + $i / 2].0);
                    // SAFETY: reached only under the Avx512 token, as the contract of `simd` says.
                    Self(unsafe {
                        if $i % 2 == 0 { _mm512_unpacklo_epi8(a, b) } else { _mm512_unpackhi_epi8(a, b) }
                    })
                }),*]
            }
        };
    }

    impl Z {
        interleave!(interleave_8, 8: 0 1 2 3 4 5 6 7);
        interleave!(interleave_16, 16: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);

        /// Transposes 16 rows of 16 bytes, in every 16 bytes of the vectors.
        #[inline(always)]
        pub(in super::super) fn transpose_16(rows: [Self; 16]) -> [Self; 16] {
            Self::interleave_16(Self::interleave_16(Self::interleave_16(Self::interleave_16(rows))))
        }

        /// Transposes 8 rows of 16 bytes, in pairs of columns, whose bits and bytes are exchanged as well.
        #[inline(always)]
        fn transpose_8(rows: [Self; 8]) -> [Self; 8] {
            Self::interleave_8(Self::interleave_8(Self::interleave_8(rows))).map(Self::exchange_bits)
        }

        /// Moves bit i of byte j of every eight bytes to bit j of byte 7 - i.
        #[inline(always)]
        fn exchange_bits(self) -> Self {
            // SAFETY: reached only under the Avx512 token, as the contract of `simd` says.
            Self(unsafe {
                _mm512_gf2p8affine_epi64_epi8::<0>(
                    _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64),
                    self.0,
                )
            })
        }

        /// Loads 16 bytes from each of four places.
        ///
        /// # Safety
        /// 16 bytes at each place are readable, with any alignment. The CPU has AVX-512 F.
        #[inline(always)]
        pub(in super::super) unsafe fn load_quarters(from: [*const u8; 4]) -> Self {
            // SAFETY: the contract: 16 bytes at each place, which are read whole; for the features that of
            // `simd`.
            unsafe {
                let quarter = |q: usize| _mm_loadu_si128(from[q].cast());
                let half = |q: usize| {
                    _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(quarter(q)), quarter(q + 1))
                };
                Self(_mm512_inserti64x4::<1>(_mm512_castsi256_si512(half(0)), half(2)))
            }
        }

        /// Stores a vector, the inverse of [`Self::load_quarters`].
        ///
        /// # Safety
        /// 16 bytes at each place are writable, with any alignment. The CPU has AVX-512 F.
        #[inline(always)]
        pub(in super::super) unsafe fn store_quarters(self, to: [*mut u8; 4]) {
            // SAFETY: the contract: 16 bytes at each place, which are written whole; for the features that of
            // `simd`.
            unsafe {
                _mm_storeu_si128(to[0].cast(), _mm512_castsi512_si128(self.0));
                _mm_storeu_si128(to[1].cast(), _mm512_extracti32x4_epi32::<1>(self.0));
                _mm_storeu_si128(to[2].cast(), _mm512_extracti32x4_epi32::<2>(self.0));
                _mm_storeu_si128(to[3].cast(), _mm512_extracti32x4_epi32::<3>(self.0));
            }
        }
    }
}
