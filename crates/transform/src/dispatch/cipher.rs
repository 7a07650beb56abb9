//! Ciphers without authentication.

use super::{Kernels, Lanes};
use crate::catalogue::{BlockCipher, Cipher, Mode};
use crate::isa::{Isa, Tier};
use crate::job::{CipherJob, Direction, Status};
use crate::key::Schedule;
use crate::lanes;
use crate::order::{WINDOW, by_length};
use crate::{aes, blowfish, des, idea, modes, rc4, rc5, rc6, seal};

/// The fewest jobs for which lanes beat one message after the other, from rates measured on Zen 5 at 1408 bytes:
/// lanes times the single-message rate over the rate of full lanes. `None` where there are no lanes.
const fn lane_threshold(algorithm: Cipher, isa: Isa) -> Option<usize> {
    match (algorithm, isa) {
        (Cipher::Block(BlockCipher::Des | BlockCipher::TripleDes, Mode::Ecb | Mode::Cbc), isa) => {
            Some(match isa {
                Isa::Avx2 => 20,
                Isa::Portable | Isa::Avx512 => 16,
            })
        }
        (_, Isa::Portable) => None,
        (Cipher::Block(BlockCipher::Aes128 | BlockCipher::Aes192 | BlockCipher::Aes256, mode), isa) => {
            Some(match (mode, isa) {
                (Mode::Ctr, Isa::Avx512) => 21,
                _ => 4,
            })
        }
        (Cipher::Block(BlockCipher::Rc5 | BlockCipher::Rc5R16, _), _) => Some(4),
        (Cipher::Block(BlockCipher::Rc6, _), _) => Some(4),
        (Cipher::Block(BlockCipher::Idea, _), _) => Some(6),
        _ => None,
    }
}

/// Whether one message alone keeps the AES units busy, so that lanes only add their transpositions.
const fn parallel_inside(algorithm: Cipher, direction: Direction, isa: Isa) -> bool {
    let Cipher::Block(BlockCipher::Aes128 | BlockCipher::Aes192 | BlockCipher::Aes256, mode) = algorithm
    else {
        return false;
    };
    match mode {
        Mode::Ecb => true,
        Mode::Cbc => matches!(direction, Direction::Decrypt),
        Mode::Ctr => matches!(isa, Isa::Avx2),
    }
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
            for job in window.iter_mut() {
                let bytes = job.data.len();
                job.status = if job.key.algorithm() != algorithm {
                    Status::WrongKey
                } else if !bytes.is_multiple_of(granule) || bytes > longest {
                    Status::BadLength
                } else {
                    Status::Pending
                };
                failed += usize::from(job.status != Status::Pending);
            }
            if self.cipher_lanes(algorithm, direction, window) {
                continue;
            }
            for job in window.iter_mut().filter(|job| job.status == Status::Pending) {
                self.cipher_one(algorithm, direction, job);
            }
        }
        failed
    }

    /// The tier that [`Self::cipher`] would use for `count` jobs.
    pub fn cipher_tier(&self, algorithm: Cipher, direction: Direction, count: usize) -> Tier {
        let lanes = self.lanes_wanted();
        let pays = lane_threshold(algorithm, self.isa()).is_some_and(|least| {
            lanes == Lanes::Always
                || (lanes == Lanes::WhereTheyPay
                    && count >= least
                    && !parallel_inside(algorithm, direction, self.isa()))
        });
        let instructions = matches!(
            algorithm,
            Cipher::Block(BlockCipher::Aes128 | BlockCipher::Aes192 | BlockCipher::Aes256, _)
        ) && self.features.avx2.is_some();
        match (pays, instructions) {
            (true, _) => Tier::Batch,
            (false, true) => self.single(),
            (false, false) => self.single().min(Tier::Generic),
        }
    }

    /// Runs the pending jobs in lanes and says so, or leaves them.
    fn cipher_lanes(&self, algorithm: Cipher, direction: Direction, jobs: &mut [CipherJob<'_>]) -> bool {
        if self.cipher_tier(algorithm, direction, jobs.len()) != Tier::Batch {
            return false;
        }
        let Cipher::Block(cipher, mode) = algorithm else { return false };
        let count = jobs.len();
        let shared = core::cell::RefCell::new(jobs);
        let bytes = |i: usize| {
            let jobs = shared.borrow();
            let job = jobs.get(i)?;
            (job.status == Status::Pending).then_some(job.data.len())
        };
        match cipher {
            BlockCipher::Des | BlockCipher::TripleDes => {
                let passes = if cipher == BlockCipher::Des { 1 } else { 3 };
                by_length(count, bytes, |order| {
                    let jobs = &mut shared.borrow_mut();
                    self.sliced_des(mode, direction, passes, jobs, order);
                });
                true
            }
            #[cfg(target_arch = "x86_64")]
            BlockCipher::Rc5 | BlockCipher::Rc5R16 => {
                let words = if cipher == BlockCipher::Rc5 { 26 } else { 34 };
                by_length(count, bytes, |order| {
                    let jobs = &mut shared.borrow_mut();
                    if let Some(proof) = self.features.avx512 {
                        lanes::run(&mut rc5::lanes::avx512(proof, mode, direction, words), jobs, order);
                    } else if let Some(proof) = self.features.avx2 {
                        lanes::run(&mut rc5::lanes::avx2(proof, mode, direction, words), jobs, order);
                    }
                });
                true
            }
            #[cfg(target_arch = "x86_64")]
            BlockCipher::Aes128 | BlockCipher::Aes192 | BlockCipher::Aes256 => {
                let rounds = cipher.facts().rounds;
                by_length(count, bytes, |order| {
                    let jobs = &mut shared.borrow_mut();
                    // Eight lanes are cheaper to set up than thirty-two.
                    let wide = self.features.avx512.filter(|_| order.len() > 16);
                    if let Some(proof) = wide {
                        lanes::run(&mut aes::lanes::avx512(proof, mode, direction, rounds), jobs, order);
                    } else if let Some(proof) = self.features.avx2 {
                        lanes::run(&mut aes::lanes::avx2(proof, mode, direction, rounds), jobs, order);
                    }
                });
                true
            }
            #[cfg(target_arch = "x86_64")]
            BlockCipher::Rc6 => {
                by_length(count, bytes, |order| {
                    let jobs = &mut shared.borrow_mut();
                    if let Some(proof) = self.features.avx512 {
                        lanes::run(&mut rc6::lanes::avx512(proof, mode, direction, 44), jobs, order);
                    } else if let Some(proof) = self.features.avx2 {
                        lanes::run(&mut rc6::lanes::avx2(proof, mode, direction, 44), jobs, order);
                    }
                });
                true
            }
            #[cfg(target_arch = "x86_64")]
            BlockCipher::Idea => {
                by_length(count, bytes, |order| {
                    let jobs = &mut shared.borrow_mut();
                    if let Some(proof) = self.features.avx512 {
                        lanes::run(&mut idea::lanes::avx512(proof, mode, direction), jobs, order);
                    } else if let Some(proof) = self.features.avx2 {
                        lanes::run(&mut idea::lanes::avx2(proof, mode, direction), jobs, order);
                    }
                });
                true
            }
            _ => false,
        }
    }

    fn sliced_des(
        &self,
        mode: Mode,
        direction: Direction,
        passes: usize,
        jobs: &mut [CipherJob<'_>],
        order: &[u16],
    ) {
        #[cfg(target_arch = "x86_64")]
        match (self.features.avx512, self.features.avx2) {
            // A step of 512 lanes costs less than one of 256 by AVX2, however few are busy.
            (Some(proof), _) => {
                return lanes::run(&mut des::sliced::avx512(proof, mode, direction, passes), jobs, order);
            }
            (_, Some(proof)) => {
                return lanes::run(&mut des::sliced::avx2(proof, mode, direction, passes), jobs, order);
            }
            _ => {}
        }
        lanes::run(&mut des::sliced::portable(mode, direction, passes), jobs, order);
    }

    fn cipher_one(&self, algorithm: Cipher, direction: Direction, job: &mut CipherJob<'_>) {
        let reference = self.single() == Tier::Reference;
        let iv = &job.iv;
        let data = job.data.copied_in_place();
        let mode = if let Cipher::Block(_, mode) = algorithm { mode } else { Mode::Ecb };
        #[cfg(target_arch = "x86_64")]
        if let (Schedule::Aes(key), Some(proof), Tier::Native) =
            (job.key.schedule(), self.features.avx2, self.single())
        {
            aes::ni::run(proof, key, mode, direction, iv, data);
            job.status = Status::Done;
            return;
        }
        match (job.key.schedule(), reference) {
            (Schedule::Null, _) => {}
            (Schedule::Des(key), true) => {
                modes::run(mode, direction, iv, data, |d, b| des::reference::plain(key, d, b));
            }
            (Schedule::Des(key), false) => {
                modes::run(mode, direction, iv, data, |d, b| des::generic::crypt(key, d, b));
            }
            (Schedule::TripleDes(key), true) => {
                modes::run(mode, direction, iv, data, |d, b| des::reference::plain_triple(key, d, b));
            }
            (Schedule::TripleDes(key), false) => {
                modes::run(mode, direction, iv, data, |d, b| des::generic::crypt_triple(key, d, b));
            }
            (Schedule::Aes(key), true) => {
                modes::run(mode, direction, iv, data, |d, b| aes::reference::plain(key, d, b));
            }
            (Schedule::Aes(key), false) => {
                modes::run(mode, direction, iv, data, |d, b| aes::generic::crypt(key, d, b));
            }
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
            (Schedule::Blowfish(key), _) => {
                modes::run(mode, direction, iv, data, |d, b| blowfish::reference::plain(key, d, b));
            }
            (Schedule::Idea(key), false) => {
                modes::run(mode, direction, iv, data, |d, b| idea::generic::crypt(key, d, b));
            }
            (Schedule::Idea(key), true) => {
                modes::run(mode, direction, iv, data, |d, b| idea::reference::plain(key, d, b));
            }
            (Schedule::Rc4(key), _) => rc4::reference::plain(key, data),
            (Schedule::Seal(key), _) => {
                let index = u32::from_be_bytes([iv[0], iv[1], iv[2], iv[3]]);
                seal::reference::plain(key, index, data);
            }
        }
        job.status = Status::Done;
    }
}
