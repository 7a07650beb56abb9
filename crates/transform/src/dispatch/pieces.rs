//! Cuts messages for the ways: if blocks do not depend on each other, a few long messages fill ways as well as many
//! short ones do (NPCryptBench's block-level parallelism).
//!
//! Guarantees: cutting reads the blocks from which pieces chain and writes nothing, so the pieces may run in any
//! order, in place too. There are no more than [`PIECES`], on the stack.

use arrayvec::ArrayVec;

use crate::cipher_ways::CHUNK;
use crate::job::{Buffer, CipherJob, Status};
use crate::modes;
use crate::modes::Mode;
use crate::order::Totals;

/// Most pieces of a batch.
const PIECES: usize = 1024;

/// The ways for which messages are cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Width {
    /// Ways of the widest kernel.
    pub(super) ways: usize,
    /// Number of ways that are set up in the time in which the narrowest kernel runs one chunk of each of its ways;
    /// measured.
    pub(super) set_up: usize,
}

/// The totals of messages that cutting needs, collected in a loop that looks at them anyway.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lengths {
    pub(super) totals: Totals,
    /// Chunks of all.
    chunks: usize,
}

impl Lengths {
    /// Adds a message.
    pub(super) fn add(&mut self, bytes: usize) {
        self.totals.add(bytes);
        self.chunks = self.chunks.saturating_add(bytes.div_ceil(CHUNK));
    }
}

/// The result of cutting messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Bytes of each piece but the last one of a message; whole chunks.
    pub(super) bytes: usize,
    /// Number of pieces of this size that the messages would make together.
    pub(super) count: usize,
}

impl Cut {
    /// Returns the totals of the pieces, if all have equal lengths.
    pub(super) const fn totals(self) -> Totals {
        Totals::equal(self.count, self.bytes)
    }
}

impl Width {
    /// Returns the length of pieces. With `n` chunks in pieces of `p`, setting up ways takes `n / p` and running
    /// them `p * set_up`; the sum is least for p² = n / set_up. Pieces are never so short that ways would be too
    /// few. Returns `None` if messages are hardly longer than such pieces.
    pub(super) fn cut(self, lengths: Lengths) -> Option<Cut> {
        let Lengths { totals, chunks } = lengths;
        let longest = totals.longest.div_ceil(CHUNK);
        // This many messages keep ways busy without being cut.
        if longest <= 1 || totals.messages + self.ways > PIECES {
            return None;
        }
        let piece = chunks.div_ceil(self.ways).max((chunks / self.set_up).isqrt()).max(1);
        let cut = Cut { bytes: piece.saturating_mul(CHUNK), count: chunks.div_ceil(piece) };
        (longest > piece + piece / 2).then_some(cut)
    }
}

/// Calls `run` with the pending jobs in pieces of `bytes`, as computed by [`Width::cut`], for blocks of `N` bytes. It
/// is not inlined, because the pieces need a large stack frame.
#[inline(never)]
pub(super) fn with_pieces<const N: usize>(
    mode: Mode,
    jobs: &mut [CipherJob<'_>],
    bytes: usize,
    run: impl FnOnce(Totals, &mut [CipherJob<'_>]) -> bool,
) -> bool {
    let mut totals = Totals::default();
    let mut pieces: ArrayVec<CipherJob<'_>, PIECES> = ArrayVec::new();
    for job in jobs.iter_mut().filter(|job| job.status == Status::Pending) {
        let (mut iv, mut rest) = (job.iv, job.data.reborrow());
        while !rest.is_empty() {
            let at = bytes.min(rest.len());
            let (data, behind) = rest.split_at(at);
            let next = chain_after::<N>(mode, iv, &data);
            totals.add(at);
            pieces.push(CipherJob { key: job.key, iv, data, status: Status::Pending });
            (iv, rest) = (next, behind);
        }
    }
    run(totals, &mut pieces)
}

/// Returns the chain value behind these bytes, which begin with `iv`.
fn chain_after<const N: usize>(mode: Mode, iv: [u8; 16], data: &Buffer<'_>) -> [u8; 16] {
    let mut chain = iv;
    let Some(block) = chain.first_chunk_mut::<N>() else { return chain };
    match mode {
        Mode::Ecb => {}
        Mode::Cbc => *block = data.last_source().unwrap_or(*block),
        Mode::Ctr => modes::increase(block, data.len() / N),
    }
    chain
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: Width = Width { ways: 64, set_up: 4 };

    fn cut(messages: &[usize]) -> Option<Cut> {
        let mut lengths = Lengths::default();
        messages.iter().for_each(|&bytes| lengths.add(bytes));
        WIDTH.cut(lengths)
    }

    #[test]
    fn what_fills_the_ways_stays_whole() {
        assert_eq!(cut(&[1408; 64]), None);
        assert_eq!(cut(&[64; 5]), None);
        assert_eq!(cut(&[]), None);
        // Three rounds of the ways level out the differences.
        assert_eq!(cut(&[[64; 3].as_slice(), &[256]].concat().repeat(48)), None);
    }

    #[test]
    fn long_messages_are_cut_for_all_ways_or_as_many_as_pay() {
        assert_eq!(cut(&[1 << 20]), Some(Cut { bytes: 1 << 14, count: 64 }));
        assert_eq!(cut(&[1408; 4]), Some(Cut { bytes: 4 * 64, count: 22 }));
        assert_eq!(cut(&[1 << 20; 3]), Some(Cut { bytes: 3 << 14, count: 64 }));
    }

    #[test]
    fn there_is_room_for_every_piece() {
        for jobs in [1, 500, PIECES - WIDTH.ways] {
            let mut lengths = vec![65; jobs];
            lengths[0] = 1 << 22;
            let cut = cut(&lengths).unwrap();
            let pieces: usize = lengths.iter().map(|bytes| bytes.div_ceil(cut.bytes)).sum();
            assert!(pieces <= PIECES, "{pieces} pieces of {jobs} jobs");
        }
        assert_eq!(cut(&vec![1 << 12; PIECES - WIDTH.ways + 1]), None);
    }

    #[test]
    fn counters_go_on_through_all_their_bytes() {
        let mut data = [0; 3 * 64];
        let chain = |iv| chain_after::<8>(Mode::Ctr, iv, &Buffer::in_place(&mut data.clone()));
        let mut iv = [0xff; 16];
        assert_eq!(chain(iv)[..8], [0, 0, 0, 0, 0, 0, 0, 23]);
        iv[7] = 0xf0;
        assert_eq!(chain(iv), [0, 0, 0, 0, 0, 0, 0, 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        iv[6] = 3;
        assert_eq!(chain(iv)[5..8], [0xff, 4, 8]);
        data[3 * 64 - 8..].copy_from_slice(&[9; 8]);
        assert_eq!(chain_after::<8>(Mode::Cbc, iv, &Buffer::in_place(&mut data))[..8], [9; 8]);
    }
}
