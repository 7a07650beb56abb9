//! Ciphers without authentication.

use core::iter::repeat_n;

use super::pieces::{self, Lengths, Width};
use super::{Kernels, Lanes};
use crate::catalogue::{BlockCipher, Cipher, Mode};
use crate::isa::{Isa, Tier};
use crate::job::{Buffer, CipherJob, Direction, Status};
use crate::key::Schedule;
use crate::lanes::{self, HandOver, Interleave};
use crate::order::{LaneCost, WINDOW, by_length};
use crate::{aes, blowfish, des, idea, modes, rc4, rc5, rc6, seal, wipe};

/// What lanes cost `count` jobs, measured by the `crossover` example. `None` where there are none.
fn lane_cost(algorithm: Cipher, direction: Direction, isa: Isa, count: usize) -> Option<LaneCost> {
    let backward = matches!(direction, Direction::Decrypt);
    // Kernels of one, of two and of four vectors, of this many lanes in a vector of AVX-512.
    let by_width = |lanes: usize, few: [usize; 3]| {
        let lanes = if isa == Isa::Avx512 { lanes } else { lanes / 2 };
        few[usize::from(count > lanes) + usize::from(count > 2 * lanes)]
    };
    let (few, fixed_bytes, job_bytes) = match (algorithm, isa) {
        (Cipher::Block(BlockCipher::Des, Mode::Ecb | Mode::Cbc), Isa::Portable) => (21, 256, 8),
        (Cipher::Block(BlockCipher::Des, Mode::Ecb | Mode::Cbc), Isa::Avx2) => (24, 384, 8),
        (Cipher::Block(BlockCipher::Des, Mode::Ecb | Mode::Cbc), Isa::Avx512) => (4, 256, 8),
        (Cipher::Block(BlockCipher::TripleDes, Mode::Ecb | Mode::Cbc), Isa::Avx512) => (4, 256, 8),
        (Cipher::Block(BlockCipher::TripleDes, Mode::Ecb | Mode::Cbc), _) => (20, 256, 8),
        (Cipher::Block(BlockCipher::Blowfish, _), _) => (1, if backward { 256 } else { 192 }, 24),
        (Cipher::Seal3, _) => (1, 320, 0),
        (_, Isa::Portable) => return None,
        (Cipher::Rc4, _) => (4, 96, 12),
        (Cipher::Block(BlockCipher::Aes128 | BlockCipher::Aes192 | BlockCipher::Aes256, mode), isa) => {
            match (mode, direction, isa) {
                // One message alone keeps the AES units busy: lanes would only add their transpositions.
                (Mode::Ecb | Mode::Ctr, ..) | (Mode::Cbc, Direction::Decrypt, _) => (usize::MAX, 0, 0),
                // Few jobs take eight lanes, more take 32.
                (.., Isa::Avx512) if count > 32 => (5, 640, 60),
                _ => (2, 128, 72),
            }
        }
        (Cipher::Block(BlockCipher::Rc5 | BlockCipher::Rc5R16, mode), isa) => match (mode, direction, isa) {
            (Mode::Cbc, Direction::Encrypt, Isa::Avx512) => (by_width(16, [1, 2, 3]), 224, 8),
            (Mode::Cbc, Direction::Encrypt, _) => (by_width(16, [2, 2, 3]), 64, 12),
            (_, _, Isa::Avx512) => (by_width(16, [2, 3, 4]), 128, 16),
            _ => (by_width(16, [3, 4, 6]), 64, 24),
        },
        (Cipher::Block(BlockCipher::Rc6, _), _) => (by_width(16, [1, 2, 2]), 224, 12),
        (Cipher::Block(BlockCipher::Idea, _), Isa::Avx512) => (by_width(32, [2, 3, 5]), 96, 4),
        (Cipher::Block(BlockCipher::Idea, _), _) => (by_width(32, [1, 1, 2]), 64, 4),
        _ => return None,
    };
    Some(LaneCost { few, fixed_bytes, job_bytes })
}

/// SEAL by gathers against SEAL interleaved, and against single messages when few lanes are left.
const SEAL_GATHER: LaneCost = LaneCost { few: 12, fixed_bytes: 8192, job_bytes: 256 };
const SEAL_GATHER_FEW: usize = 5;

/// Stream ciphers have none; what they get is not looked at.
const fn mode_of(algorithm: Cipher) -> Mode {
    if let Cipher::Block(_, mode) = algorithm { mode } else { Mode::Ecb }
}

/// Lengths in the order of `order`.
fn lengths(jobs: &[CipherJob<'_>], order: &[u16]) -> impl ExactSizeIterator<Item = usize> {
    order.iter().map(|&index| jobs[usize::from(index)].data.len())
}

/// This many busy lanes of 512 are no faster at DES than as many single messages.
const SLICED_DES_FEW: usize = 16;

/// This many busy lanes of 64 are no faster at Blowfish than as many single messages.
const PERMUTED_BLOWFISH_FEW: usize = 5;

/// Whether all jobs have the same key.
fn one_key(jobs: &[CipherJob<'_>], order: &[u16]) -> bool {
    let mut keys = order.iter().map(|&index| jobs[usize::from(index)].key);
    let first = keys.next();
    keys.all(|key| first.is_some_and(|first| core::ptr::eq(key, first)))
}

/// Whether few lanes are faster than many, whose step takes longer than theirs by a ratio: for few jobs, or where a
/// few long ones would leave lanes empty.
fn few_lanes_do(
    jobs: &[CipherJob<'_>],
    order: &[u16],
    few: usize,
    many: usize,
    ratio: (usize, usize),
) -> bool {
    let chunks = |bytes: usize| bytes.div_ceil(lanes::CHUNK);
    let longest = lengths(jobs, order).next().map_or(0, chunks);
    let all = lengths(jobs, order).fold(0usize, |all, bytes| all.saturating_add(chunks(bytes)));
    ratio.1 * longest.max(all.div_ceil(few)) < ratio.0 * longest.max(all.div_ceil(many))
}

impl Kernels {
    /// Encrypts every job with `algorithm`; see [`Self::cipher`].
    pub fn encrypt(&self, algorithm: Cipher, jobs: &mut [CipherJob<'_>]) -> usize {
        self.cipher(algorithm, Direction::Encrypt, jobs)
    }

    /// Decrypts every job with `algorithm`; see [`Self::cipher`].
    pub fn decrypt(&self, algorithm: Cipher, jobs: &mut [CipherJob<'_>]) -> usize {
        self.cipher(algorithm, Direction::Decrypt, jobs)
    }

    /// Runs every job through `algorithm`. A job whose key is another algorithm's, or whose length the mode does
    /// not take, is marked and its buffers are left alone. Returns how many jobs failed.
    pub fn cipher(&self, algorithm: Cipher, direction: Direction, jobs: &mut [CipherJob<'_>]) -> usize {
        let granule = algorithm.granule_bytes();
        let longest = if algorithm == Cipher::Seal3 { seal::MAX_BYTES } else { usize::MAX };
        let mut failed = 0;
        for window in jobs.chunks_mut(WINDOW) {
            let mut lengths = Lengths::default();
            for job in window.iter_mut() {
                let bytes = job.data.len();
                job.status = if job.key.algorithm() != algorithm {
                    Status::WrongKey
                } else if !bytes.is_multiple_of(granule) || bytes > longest {
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
            if self.cipher_pieces(algorithm, direction, lengths, window)
                || self.cipher_lanes(algorithm, direction, window)
            {
                continue;
            }
            for job in window.iter_mut().filter(|job| job.status == Status::Pending) {
                self.cipher_alone(mode_of(algorithm), direction, job.key.schedule(), &job.iv, &mut job.data);
                job.status = Status::Done;
            }
        }
        if !jobs.is_empty() {
            wipe::registers(self.features);
        }
        failed
    }

    /// The tier that [`Self::cipher`] would use for `count` jobs of equal length, if that is not short.
    pub fn cipher_tier(&self, algorithm: Cipher, direction: Direction, count: usize) -> Tier {
        let is_cut = count != 0 && self.width(algorithm, direction).is_some();
        let instructions = matches!(
            algorithm,
            Cipher::Block(BlockCipher::Aes128 | BlockCipher::Aes192 | BlockCipher::Aes256, _)
        ) && self.features.avx2.is_some();
        match (is_cut || self.enough_for_lanes(algorithm, direction, count), instructions) {
            (true, _) => Tier::Batch,
            (false, true) => self.single(),
            (false, false) => self.single().min(Tier::Generic),
        }
    }

    /// Whether lanes may pay for so many jobs.
    fn enough_for_lanes(&self, algorithm: Cipher, direction: Direction, count: usize) -> bool {
        lane_cost(algorithm, direction, self.isa(), count).is_some_and(|cost| match self.lanes_wanted() {
            Lanes::Never => false,
            Lanes::WhereTheyPay => count > cost.few,
            Lanes::Always => true,
        })
    }

    /// Runs the pending jobs in lanes, cut into pieces, and says so; or leaves them, as they cannot be cut or need not be.
    fn cipher_pieces(
        &self,
        algorithm: Cipher,
        direction: Direction,
        lengths: Lengths,
        jobs: &mut [CipherJob<'_>],
    ) -> bool {
        let Cipher::Block(cipher, mode) = algorithm else { return false };
        let width = self.width(algorithm, direction);
        let Some(cut) = width.and_then(|width| width.cut(lengths)) else { return false };
        let cost = lane_cost(algorithm, direction, self.isa(), cut.count);
        let forced = self.lanes_wanted() == Lanes::Always;
        if !forced && !cost.is_some_and(|cost| cost.may_be_worth(repeat_n(cut.bytes, cut.count))) {
            return false;
        }
        let run = |pieces: &mut [CipherJob<'_>]| self.cipher_lanes(algorithm, direction, pieces);
        let runs = match cipher.block_bytes() {
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

    /// What messages are cut for. `None` if they are not.
    fn width(&self, algorithm: Cipher, direction: Direction) -> Option<Width> {
        let Cipher::Block(cipher, mode) = algorithm else { return None };
        if !pieces::can_cut(mode, direction) || self.lanes_wanted() == Lanes::Never {
            return None;
        }
        let ([portable, avx2, avx512], set_up) = match cipher {
            BlockCipher::Des | BlockCipher::TripleDes => ([64, 256, 512], 256),
            BlockCipher::Blowfish => ([6, 6, 64], 64),
            BlockCipher::Rc5 | BlockCipher::Rc5R16 | BlockCipher::Rc6 => ([1, 32, 64], 4),
            BlockCipher::Idea => ([1, 64, 128], 16),
            // One message alone keeps the AES units busy.
            BlockCipher::Aes128 | BlockCipher::Aes192 | BlockCipher::Aes256 => return None,
        };
        let lanes = match self.isa() {
            Isa::Portable => portable,
            Isa::Avx2 => avx2,
            Isa::Avx512 => avx512,
        };
        (lanes > 1).then_some(Width { lanes, set_up })
    }

    /// Runs the pending jobs in lanes and says so, or leaves them.
    fn cipher_lanes(&self, algorithm: Cipher, direction: Direction, jobs: &mut [CipherJob<'_>]) -> bool {
        if !self.enough_for_lanes(algorithm, direction, jobs.len()) {
            return false;
        }
        let mode = mode_of(algorithm);
        let alone = |key: &Schedule, iv: &[u8; 16], rest: &mut [u8]| {
            self.cipher_alone(mode, direction, key, iv, &mut Buffer::in_place(rest));
        };
        // When the batch tier is forced, its kernels do all the work.
        let forced = self.lanes_wanted() == Lanes::Always;
        let cost = lane_cost(algorithm, direction, self.isa(), jobs.len()).filter(|_| !forced);
        let sizes = jobs.iter().filter(|job| job.status == Status::Pending).map(|job| job.data.len());
        if cost.is_some_and(|cost| !cost.may_be_worth(sizes)) {
            return false;
        }
        let hand_over = HandOver { few: cost.map_or(0, |cost| cost.few), alone: &alone };
        let bytes = |job: &mut CipherJob<'_>| (job.status == Status::Pending).then_some(job.data.len());
        by_length(jobs, bytes, |jobs, order| {
            if cost.is_some_and(|cost| !cost.is_worth(lengths(jobs, order))) {
                for &index in order {
                    let job = &mut jobs[usize::from(index)];
                    self.cipher_alone(mode, direction, job.key.schedule(), &job.iv, &mut job.data);
                    job.status = Status::Done;
                }
                return;
            }
            match algorithm {
                #[cfg(target_arch = "x86_64")]
                Cipher::Rc4 => {
                    if let Some(proof) = self.features.avx2 {
                        lanes::run(&mut rc4::lanes::Rc4Lanes::new(proof), jobs, order, &hand_over);
                    }
                }
                #[cfg(not(target_arch = "x86_64"))]
                Cipher::Rc4 => {}
                Cipher::Seal3 => self.seal_lanes(jobs, order, forced, &hand_over),
                Cipher::Block(cipher, _) => {
                    self.block_lanes(cipher, mode, direction, jobs, order, &hand_over)
                }
                Cipher::Null => {}
            }
        });
        true
    }

    fn seal_lanes(&self, jobs: &mut [CipherJob<'_>], order: &[u16], forced: bool, hand_over: &HandOver<'_>) {
        #[cfg(target_arch = "x86_64")]
        if forced || SEAL_GATHER.is_worth(lengths(jobs, order)) {
            let few = if forced { 0 } else { SEAL_GATHER_FEW };
            let hand_over = &HandOver { few, alone: hand_over.alone };
            match (self.features.avx512, self.features.avx2) {
                (Some(proof), _) => {
                    return lanes::run(&mut seal::lanes::avx512(proof), jobs, order, hand_over);
                }
                (_, Some(proof)) => return lanes::run(&mut seal::lanes::avx2(proof), jobs, order, hand_over),
                _ => {}
            }
        }
        let kernel = seal::generic::SealLanes::<{ seal::generic::LANES }>::new();
        lanes::run(&mut Interleave(kernel), jobs, order, hand_over);
    }

    fn block_lanes(
        &self,
        cipher: BlockCipher,
        mode: Mode,
        direction: Direction,
        jobs: &mut [CipherJob<'_>],
        order: &[u16],
        hand_over: &HandOver<'_>,
    ) {
        /// The kernels of the largest instruction set there is.
        macro_rules! largest {
            ($kernels:path $(, $argument:expr)*) => {{
                use $kernels as kernels;
                if let Some(proof) = self.features.avx512 {
                    kernels::avx512(proof, mode, direction $(, $argument)*, jobs, order, hand_over);
                } else if let Some(proof) = self.features.avx2 {
                    kernels::avx2(proof, mode, direction $(, $argument)*, jobs, order, hand_over);
                }
            }};
        }
        match cipher {
            BlockCipher::Des => self.sliced_des(mode, direction, 1, jobs, order, hand_over),
            BlockCipher::TripleDes => self.sliced_des(mode, direction, 3, jobs, order, hand_over),
            BlockCipher::Blowfish => {
                // Where tables serve all lanes.
                #[cfg(target_arch = "x86_64")]
                if let Some(proof) = self.features.avx512
                    && one_key(jobs, order)
                    && !few_lanes_do(jobs, order, blowfish::lanes::LANES, blowfish::permuted::LANES, (19, 4))
                {
                    let few = if hand_over.few == 0 { 0 } else { PERMUTED_BLOWFISH_FEW };
                    let kernel = &mut blowfish::permuted::Permuted::new(proof, mode, direction);
                    return lanes::run(kernel, jobs, order, &HandOver { few, alone: hand_over.alone });
                }
                let kernel = blowfish::lanes::BlowfishLanes::<{ blowfish::lanes::LANES }>::new(
                    mode,
                    direction,
                    self.features.avx2,
                );
                lanes::run(&mut Interleave(kernel), jobs, order, hand_over);
            }
            #[cfg(target_arch = "x86_64")]
            BlockCipher::Aes128 | BlockCipher::Aes192 | BlockCipher::Aes256 => {
                let rounds = cipher.facts().rounds;
                let narrow = few_lanes_do(jobs, order, 8, 32, (7, 2));
                if let Some(proof) = self.features.avx512.filter(|_| !narrow) {
                    let kernel = &mut aes::lanes::avx512(proof, mode, direction, rounds);
                    lanes::run(kernel, jobs, order, hand_over);
                } else if let Some(proof) = self.features.avx2 {
                    let kernel = &mut aes::lanes::avx2(proof, mode, direction, rounds);
                    lanes::run(kernel, jobs, order, hand_over);
                }
            }
            #[cfg(target_arch = "x86_64")]
            BlockCipher::Rc5 | BlockCipher::Rc5R16 => {
                let key_words = 2 * cipher.facts().rounds + 2;
                let half = rc5::lanes::MOST_LANES / 2;
                if let Some(proof) = self.features.avx512
                    && (mode, direction) == (Mode::Cbc, Direction::Encrypt)
                    // Or else half the lanes would be empty in the end.
                    && order.len().div_ceil(half).is_multiple_of(2)
                    && !few_lanes_do(jobs, order, half, rc5::lanes::MOST_LANES, (37, 20))
                {
                    return rc5::lanes::seal_cbc(proof, key_words, jobs, order, hand_over);
                }
                largest!(rc5::lanes, key_words);
            }
            #[cfg(target_arch = "x86_64")]
            BlockCipher::Rc6 => largest!(rc6::lanes, 44),
            #[cfg(target_arch = "x86_64")]
            BlockCipher::Idea => largest!(idea::lanes),
            // `few` has no lanes for these on other machines.
            #[cfg(not(target_arch = "x86_64"))]
            _ => {}
        }
    }

    fn sliced_des(
        &self,
        mode: Mode,
        direction: Direction,
        passes: usize,
        jobs: &mut [CipherJob<'_>],
        order: &[u16],
        hand_over: &HandOver<'_>,
    ) {
        #[cfg(target_arch = "x86_64")]
        match (self.features.avx512, self.features.avx2) {
            (Some(proof), _) if few_lanes_do(jobs, order, 64, 512, (13, 2)) => {
                return if passes == 1 {
                    let kernel = &mut des::permuted::Permuted::<1>::new(proof, mode, direction);
                    lanes::run(kernel, jobs, order, hand_over)
                } else {
                    let kernel = &mut des::permuted::Permuted::<3>::new(proof, mode, direction);
                    lanes::run(kernel, jobs, order, hand_over)
                };
            }
            // A step of 512 lanes costs less than one of 256 by AVX2, however few are busy.
            (Some(proof), _) => {
                let kernel = &mut des::sliced::avx512(proof, mode, direction, passes);
                let few = if hand_over.few == 0 { 0 } else { SLICED_DES_FEW };
                return lanes::run(kernel, jobs, order, &HandOver { few, alone: hand_over.alone });
            }
            (_, Some(proof)) => {
                let kernel = &mut des::sliced::avx2(proof, mode, direction, passes);
                return lanes::run(kernel, jobs, order, hand_over);
            }
            _ => {}
        }
        lanes::run(&mut des::sliced::portable(mode, direction, passes), jobs, order, hand_over);
    }

    /// One message, by the best kernel for single messages.
    fn cipher_alone(
        &self,
        mode: Mode,
        direction: Direction,
        key: &Schedule,
        iv: &[u8; 16],
        data: &mut Buffer<'_>,
    ) {
        let reference = self.single() == Tier::Reference;
        #[cfg(target_arch = "x86_64")]
        if let (Schedule::Aes(key), Tier::Native) = (key, self.single()) {
            if let Some(proof) = self.features.avx512
                && pieces::can_cut(mode, direction)
            {
                return aes::ni::avx512(proof, key, mode, direction, iv, data);
            }
            if let Some(proof) = self.features.avx2 {
                return aes::ni::avx2(proof, key, mode, direction, iv, data);
            }
        }
        let data = data.copied_in_place();
        match (key, reference) {
            (Schedule::Null, _) => {}
            (Schedule::Des(key), true) => {
                modes::run(mode, direction, iv, data, |d, b| des::reference::plain(key, d, b));
            }
            (Schedule::Des(key), false) => des::generic::run(key, mode, direction, iv, data),
            (Schedule::TripleDes(key), true) => {
                modes::run(mode, direction, iv, data, |d, b| des::reference::plain_triple(key, d, b));
            }
            (Schedule::TripleDes(key), false) => {
                des::generic::run_triple(key, mode, direction, iv, data);
            }
            (Schedule::Aes(key), true) => {
                modes::run(mode, direction, iv, data, |d, b| aes::reference::plain(key, d, b));
            }
            (Schedule::Aes(key), false) => aes::generic::run(key, mode, direction, iv, data),
            (Schedule::Rc5(key), false) => {
                modes::run(mode, direction, iv, data, |d, b| rc5::lanes::one(key, d, b));
            }
            (Schedule::Rc5(key), true) => {
                modes::run(mode, direction, iv, data, |d, b| rc5::reference::plain(key, d, b));
            }
            (Schedule::Rc6(key), false) => {
                modes::run(mode, direction, iv, data, |d, b| rc6::lanes::one(key, d, b));
            }
            (Schedule::Rc6(key), true) => {
                modes::run(mode, direction, iv, data, |d, b| rc6::reference::plain(key, d, b));
            }
            (Schedule::Blowfish(key), false) => {
                modes::run(mode, direction, iv, data, |d, b| blowfish::lanes::one(key, d, b));
            }
            (Schedule::Blowfish(key), true) => {
                modes::run(mode, direction, iv, data, |d, b| blowfish::reference::plain(key, d, b));
            }
            (Schedule::Idea(key), false) => {
                modes::run(mode, direction, iv, data, |d, b| idea::generic::crypt(key, d, b));
            }
            (Schedule::Idea(key), true) => {
                modes::run(mode, direction, iv, data, |d, b| idea::reference::plain(key, d, b));
            }
            (Schedule::Rc4(key), false) => rc4::single::one(key, data),
            (Schedule::Rc4(key), true) => rc4::reference::plain(key, data),
            (Schedule::Seal(key), false) => {
                seal::generic::rest(key, seal::generic::State::new(seal::index(iv)), data);
            }
            (Schedule::Seal(key), true) => seal::reference::plain(key, seal::index(iv), data),
        }
    }
}
