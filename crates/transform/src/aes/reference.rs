//! AES as FIPS 197 section 5 defines it, one byte at a time.

use super::{INVERSE_S, Key, S};
use crate::modes::Direction;
use crate::word::{Plain, Region, Word};

type State<W> = [W; 16];

fn add_round_key<W: Word>(state: &mut State<W>, key: &[u8; 16]) {
    for (i, (byte, key)) in state.iter_mut().zip(key).enumerate() {
        *byte = *byte ^ W::load(Region::Key.part(i, 1), u32::from(*key));
    }
}

fn substitute<W: Word>(state: &mut State<W>, region: &'static str, table: &[u8; 256]) {
    for byte in state {
        *byte = W::lookup(region, 0, table, *byte);
    }
}

/// Row r moves left by r; a column is four neighbouring bytes.
fn shift_rows<W: Word>(state: &mut State<W>) {
    let old = *state;
    for i in 0..16 {
        state[i] = old[(i + 4 * (i % 4)) % 16];
    }
}

fn unshift_rows<W: Word>(state: &mut State<W>) {
    let old = *state;
    for i in 0..16 {
        state[(i + 4 * (i % 4)) % 16] = old[i];
    }
}

fn times_x<W: Word>(byte: W) -> W {
    (byte.shl(1) ^ byte.shr(7).mul(W::imm(0x1b))) & W::imm(0xff)
}

fn mix_columns<W: Word>(state: &mut State<W>) {
    for column in state.as_chunks_mut::<4>().0 {
        let old = *column;
        for i in 0..4 {
            let (a, b) = (old[i], old[(i + 1) % 4]);
            column[i] = times_x(a) ^ times_x(b) ^ b ^ old[(i + 2) % 4] ^ old[(i + 3) % 4];
        }
    }
}

fn unmix_columns<W: Word>(state: &mut State<W>) {
    // The inverse is the cube, that is three more mixings.
    for _ in 0..3 {
        mix_columns(state);
    }
}

/// Transforms one block.
pub(crate) fn crypt<W: Word>(key: &Key, direction: Direction, block: &mut [u8; 16]) {
    let mut state: State<W> =
        core::array::from_fn(|i| W::load(Region::Message.part(i, 1), u32::from(block[i])));
    let rounds = key.rounds;
    match direction {
        Direction::Encrypt => {
            add_round_key(&mut state, &key.encrypt[0]);
            for round in 1..=rounds {
                substitute(&mut state, "S", &S);
                shift_rows(&mut state);
                if round != rounds {
                    mix_columns(&mut state);
                }
                add_round_key(&mut state, &key.encrypt[round]);
                W::branch(round != rounds);
            }
        }
        Direction::Decrypt => {
            for round in (1..=rounds).rev() {
                add_round_key(&mut state, &key.encrypt[round]);
                if round != rounds {
                    unmix_columns(&mut state);
                }
                unshift_rows(&mut state);
                substitute(&mut state, "inverse S", &INVERSE_S);
                W::branch(round != 1);
            }
            add_round_key(&mut state, &key.encrypt[0]);
        }
    }
    for (i, (byte, state)) in block.iter_mut().zip(state).enumerate() {
        *byte = state.store(Region::Message.part(i, 1)) as u8;
    }
}

/// Transforms one block, without counting operations.
pub(crate) fn plain(key: &Key, direction: Direction, block: &mut [u8; 16]) {
    crypt::<Plain>(key, direction, block);
}
