//! MD5 of one message, optimised for the length of its dependency chain.
//!
//! Every step waits for the one before, so the cost is the number of operations between input and output of `b`: five
//! in rounds 1 and 4, four in rounds 2 and 3. All other operands of a step are added up beforehand, and the
//! multiplexer of round 2 is added as two halves, of which only one needs the newest word. Compilers do not optimise
//! for chains: they gather constants and add them last, on the chain. An empty `asm!`, which is why this file needs
//! `unsafe`, makes them add the other operands beforehand.
#![allow(unsafe_code)]

use super::{SHIFTS, SINES, word_of};

/// Absorbs whole blocks.
pub(crate) fn blocks(state: &mut [u32; 8], data: &[u8]) {
    let [mut a, mut b, mut c, mut d] = [state[0], state[1], state[2], state[3]];
    for block in data.as_chunks::<64>().0 {
        let x: [u32; 16] = core::array::from_fn(|i| {
            u32::from_le_bytes([block[4 * i], block[4 * i + 1], block[4 * i + 2], block[4 * i + 3]])
        });
        let old = [a, b, c, d];
        macro_rules! steps {
            ($round:ident: $($step:literal)*) => { $( {
                const STEP: usize = $step;
                let ready = settled(a.wrapping_add(SINES[STEP]).wrapping_add(x[word_of(STEP)]));
                let sum = $round(ready, b, c, d);
                let next = sum.rotate_left(SHIFTS[STEP / 16][STEP % 4] as u32).wrapping_add(b);
                (a, b, c, d) = (d, next, b, c);
            } )* };
        }
        steps!(first: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        steps!(second: 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
        steps!(third: 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47);
        steps!(fourth: 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63);
        a = a.wrapping_add(old[0]);
        b = b.wrapping_add(old[1]);
        c = c.wrapping_add(old[2]);
        d = d.wrapping_add(old[3]);
    }
    (state[0], state[1], state[2], state[3]) = (a, b, c, d);
}

/// Returns the same word, which the compiler computes before all values that depend on it.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
fn settled(mut word: u32) -> u32 {
    // SAFETY: there are no instructions; the word stays in its register.
    unsafe {
        core::arch::asm!("/* {0:e} */", inout(reg) word, options(pure, nomem, nostack, preserves_flags))
    };
    word
}

#[inline(always)]
#[cfg(not(target_arch = "x86_64"))]
fn settled(word: u32) -> u32 {
    word
}

#[inline(always)]
fn first(ready: u32, b: u32, c: u32, d: u32) -> u32 {
    ready.wrapping_add(((c ^ d) & b) ^ d)
}

#[inline(always)]
fn second(ready: u32, b: u32, c: u32, d: u32) -> u32 {
    ready.wrapping_add(!d & c).wrapping_add(d & b)
}

#[inline(always)]
fn third(ready: u32, b: u32, c: u32, d: u32) -> u32 {
    ready.wrapping_add((c ^ d) ^ b)
}

#[inline(always)]
fn fourth(ready: u32, b: u32, c: u32, d: u32) -> u32 {
    ready.wrapping_add(c ^ (b | !d))
}
