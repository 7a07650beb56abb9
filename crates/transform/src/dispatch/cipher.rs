//! Ciphers without authentication.

use super::pieces::{self, Lengths, Width};
use super::{Kernels, Ways};
use crate::algorithm::Cipher;
use crate::cipher_ways::{HandOver, lengths};
use crate::descriptor::Alone;
use crate::isa::{Isa, Tier};
use crate::job::{Buffer, CipherJob, Status};
use crate::modes::{Direction, Mode};
use crate::order::{Totals, WINDOW, WaysCost, by_length};
use crate::schedule::Schedule;
use crate::wipe;

/// Returns the cost of `count` jobs side by side. Returns `None` if there are no ways.
fn ways_cost(algorithm: Cipher, direction: Direction, isa: Isa, count: usize) -> Option<WaysCost> {
    let ways = algorithm.descriptor().ways.as_ref()?;
    (ways.cost)(mode_of(algorithm), direction, isa, count)
}

/// Returns the cipher's mode; stream ciphers ignore it.
const fn mode_of(algorithm: Cipher) -> Mode {
    if let Cipher::Block(_, mode) = algorithm { mode } else { Mode::Ecb }
}

impl Kernels {
    /// Returns whether single messages run by instructions made for this cipher, and so about as fast as their bytes
    /// can be copied.
    pub fn has_instructions(&self, algorithm: Cipher) -> bool {
        self.single() == Tier::Native && (algorithm.descriptor().has_instructions)(self.features)
    }

    /// Encrypts every job with `algorithm`; see [`Self::cipher`].
    pub fn encrypt(&self, algorithm: Cipher, jobs: &mut [CipherJob<'_>]) -> usize {
        self.cipher(algorithm, Direction::Encrypt, jobs)
    }

    /// Decrypts every job with `algorithm`; see [`Self::cipher`].
    pub fn decrypt(&self, algorithm: Cipher, jobs: &mut [CipherJob<'_>]) -> usize {
        self.cipher(algorithm, Direction::Decrypt, jobs)
    }

    /// Runs every job through `algorithm`. A job whose key belongs to another algorithm, or whose length is invalid
    /// for the mode, is marked and its buffers stay untouched. Returns the number of jobs that failed.
    pub fn cipher(&self, algorithm: Cipher, direction: Direction, jobs: &mut [CipherJob<'_>]) -> usize {
        // The granule is a power of two, so that no message costs a division.
        let beyond_granule = algorithm.granule_bytes() - 1;
        let longest = algorithm.descriptor().facts.limits.bytes_a_nonce;
        let mode = mode_of(algorithm);
        let alone = self.alone(algorithm, direction);
        let mut failed = 0;
        for window in jobs.chunks_mut(WINDOW) {
            let mut lengths = Lengths::default();
            for job in window.iter_mut() {
                let bytes = job.data.len();
                job.status = if job.key.algorithm() != algorithm {
                    Status::WrongKey
                } else if bytes & beyond_granule != 0 || bytes as u64 > longest {
                    Status::BadLength
                } else {
                    Status::Pending
                };
                if job.status == Status::Pending {
                    lengths.add(bytes);
                } else {
                    failed += 1;
                }
            }
            if self.may_use_ways(algorithm, direction, lengths.totals)
                && (self.cipher_pieces(algorithm, direction, lengths, window)
                    || self.cipher_ways(algorithm, direction, lengths.totals, window))
            {
                continue;
            }
            for job in window.iter_mut().filter(|job| job.status == Status::Pending) {
                alone(job.key.schedule(), mode, direction, &job.iv, &mut job.data);
                job.status = Status::Done;
            }
        }
        if !jobs.is_empty() {
            wipe::registers(self.features);
        }
        failed
    }

    /// Returns the tier that [`Self::cipher`] would use for `count` jobs of equal length, if that is not short.
    pub fn cipher_tier(&self, algorithm: Cipher, direction: Direction, count: usize) -> Tier {
        let is_cut = count != 0 && self.width(algorithm, direction).is_some();
        let instructions = (algorithm.descriptor().has_instructions)(self.features);
        match (is_cut || self.enough_for_ways(algorithm, direction, count), instructions) {
            (true, _) => Tier::Batch,
            (false, true) => self.single(),
            (false, false) => self.single().min(Tier::Generic),
        }
    }

    /// Returns whether ways may pay for such messages. The check is inlined and does not look at the messages,
    /// because a few short ones are done in the time of a call or two.
    #[inline(always)]
    fn may_use_ways(&self, algorithm: Cipher, direction: Direction, totals: Totals) -> bool {
        let Some(ways) = &algorithm.descriptor().ways else { return false };
        match self.ways_wanted() {
            Ways::Never => false,
            Ways::Always => true,
            Ways::WhereTheyPay => {
                let can_cut = mode_of(algorithm).can_cut(direction);
                let enough = if can_cut {
                    totals.bytes >= ways.least_bytes.free
                } else {
                    totals.bytes - totals.longest >= ways.least_bytes.chained
                };
                enough
                    && (can_cut && ways.cut.is_some()
                        || ways_cost(algorithm, direction, self.isa(), totals.messages)
                            .is_some_and(|cost| cost.may_be_worth(totals)))
            }
        }
    }

    /// Returns whether ways may pay for this many jobs.
    fn enough_for_ways(&self, algorithm: Cipher, direction: Direction, count: usize) -> bool {
        ways_cost(algorithm, direction, self.isa(), count).is_some_and(|cost| match self.ways_wanted() {
            Ways::Never => false,
            Ways::WhereTheyPay => count > cost.few(),
            Ways::Always => true,
        })
    }

    /// Runs the pending jobs side by side, cut into pieces, and returns true; or leaves them and returns false, if they
    /// cannot or need not be cut.
    #[inline(never)]
    fn cipher_pieces(
        &self,
        algorithm: Cipher,
        direction: Direction,
        lengths: Lengths,
        jobs: &mut [CipherJob<'_>],
    ) -> bool {
        let Cipher::Block(_, mode) = algorithm else { return false };
        let width = self.width(algorithm, direction);
        let Some(cut) = width.and_then(|width| width.cut(lengths)) else { return false };
        let cost = ways_cost(algorithm, direction, self.isa(), cut.count);
        let forced = self.ways_wanted() == Ways::Always;
        if !forced && !cost.is_some_and(|cost| cost.may_be_worth(cut.totals())) {
            return false;
        }
        let run =
            |totals, pieces: &mut [CipherJob<'_>]| self.cipher_ways(algorithm, direction, totals, pieces);
        let runs = match algorithm.descriptor().facts.block_bytes {
            8 => pieces::with_pieces::<8>(mode, jobs, cut.bytes, run),
            _ => pieces::with_pieces::<16>(mode, jobs, cut.bytes, run),
        };
        if runs {
            for job in jobs.iter_mut().filter(|job| job.status == Status::Pending) {
                job.status = Status::Done;
            }
        }
        runs
    }

    /// Returns the ways for which messages are cut. Returns `None` if they are not cut.
    fn width(&self, algorithm: Cipher, direction: Direction) -> Option<Width> {
        let cut = algorithm.descriptor().ways.as_ref()?.cut?;
        if !mode_of(algorithm).can_cut(direction) || self.ways_wanted() == Ways::Never {
            return None;
        }
        let ways = cut.ways[self.isa() as usize];
        (ways > 1).then_some(Width { ways, set_up: cut.set_up })
    }

    /// Runs the pending jobs, whose totals are given, side by side and returns true, or leaves them and returns false.
    #[inline(never)]
    fn cipher_ways(
        &self,
        algorithm: Cipher,
        direction: Direction,
        totals: Totals,
        jobs: &mut [CipherJob<'_>],
    ) -> bool {
        let (mode, wanted) = (mode_of(algorithm), self.ways_wanted());
        let Some(ways) = algorithm.descriptor().ways.as_ref().filter(|_| wanted != Ways::Never) else {
            return false;
        };
        let Some(cost) = (ways.cost)(mode, direction, self.isa(), jobs.len()) else { return false };
        // If the batch tier is forced, its kernels do all the work.
        let cost = (wanted != Ways::Always).then_some(cost);
        if cost.is_some_and(|cost| !cost.may_be_worth(totals)) {
            return false;
        }
        let single = self.alone(algorithm, direction);
        let alone = |key: &Schedule, iv: &[u8; 16], rest: &mut [u8]| {
            single(key, mode, direction, iv, &mut Buffer::in_place(rest));
        };
        let hand_over = HandOver { few: cost.map_or(0, WaysCost::few), alone: &alone };
        let bytes = |job: &mut CipherJob<'_>| (job.status == Status::Pending).then_some(job.data.len());
        by_length(jobs, bytes, |jobs, order| {
            let pays = cost.is_none_or(|cost| cost.is_worth(lengths(jobs, order)));
            if pays {
                (ways.run)(self.features, mode, direction, jobs, order, &hand_over);
            }
            pays
        })
    }

    /// Returns the best kernel for single messages.
    fn alone(&self, algorithm: Cipher, direction: Direction) -> Alone {
        (algorithm.descriptor().alone)(self.features, self.single(), mode_of(algorithm), direction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;

    /// The check before the cost never contradicts it: messages of equal length gain most side by side.
    #[test]
    fn fewer_than_the_least_bytes_never_pay() {
        for cipher in Cipher::all() {
            let Some(ways) = &cipher.descriptor().ways else { continue };
            for (direction, isa) in
                [Direction::Encrypt, Direction::Decrypt].into_iter().flat_map(|d| Isa::ALL.map(|i| (d, i)))
            {
                let mode = mode_of(cipher);
                for messages in 1..=512 {
                    let Some(cost) = (ways.cost)(mode, direction, isa, messages) else { continue };
                    let bytes = if mode.can_cut(direction) {
                        // All lengths of a cipher are whole bytes, and the longest message is no shorter than the
                        // average.
                        ways.least_bytes.free.saturating_sub(1)
                    } else {
                        let beside = ways.least_bytes.chained.saturating_sub(1);
                        if messages == 1 {
                            continue;
                        }
                        beside * messages / (messages - 1)
                    };
                    let totals = Totals { messages, bytes, longest: bytes.div_ceil(messages) };
                    assert!(!cost.may_be_worth(totals), "{cipher} {direction:?} {isa:?} {messages} messages");
                }
            }
        }
    }
}
