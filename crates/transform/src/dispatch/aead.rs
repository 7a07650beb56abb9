//! Authenticated encryption.

use super::Kernels;
use crate::aead::{AeadJob, AeadSchedule};
use crate::catalogue::Aead;
use crate::isa::Tier;
use crate::job::{Direction, Status};
use crate::order::{WINDOW, by_length};
use crate::{chacha, gcm};

/// Bytes of the longest message under one nonce.
const fn longest_bytes(algorithm: Aead) -> u64 {
    match algorithm {
        Aead::Aes128Gcm | Aead::Aes256Gcm => gcm::MAX_BYTES,
        // RFC 8439 section 2.8: block 0 makes the one-time key.
        Aead::ChaCha20Poly1305 => ((1 << 32) - 1) * 64,
    }
}

impl Kernels {
    /// Encrypts the data of every job and makes its tag. A job whose key is another algorithm's, or whose data are
    /// too long for one nonce, is marked and its buffers are left alone. Returns how many jobs failed.
    pub fn seal(&self, algorithm: Aead, jobs: &mut [AeadJob<'_>]) -> usize {
        self.aead(algorithm, Direction::Encrypt, jobs)
    }

    /// Checks the tag of every job, in constant time, and decrypts its data. A job whose tag is wrong ends as
    /// [`Status::Forged`] with zeros where its plaintext would be, also when that is in place. Returns how many jobs
    /// failed.
    pub fn open(&self, algorithm: Aead, jobs: &mut [AeadJob<'_>]) -> usize {
        self.aead(algorithm, Direction::Decrypt, jobs)
    }

    /// The tier that [`Self::seal`] and [`Self::open`] would use for `count` jobs.
    pub fn aead_tier(&self, _: Aead, count: usize) -> Tier {
        if self.features.avx2.is_none() {
            return self.single().min(Tier::Generic);
        }
        self.tier.unwrap_or(if count > 1 { Tier::Batch } else { Tier::Native })
    }

    fn aead(&self, algorithm: Aead, direction: Direction, jobs: &mut [AeadJob<'_>]) -> usize {
        for job in jobs.iter_mut() {
            job.status = if job.key.algorithm() != algorithm {
                Status::WrongKey
            } else if job.data.len() as u64 > longest_bytes(algorithm) {
                Status::BadLength
            } else {
                Status::Pending
            };
        }
        match self.aead_tier(algorithm, jobs.len()) {
            Tier::Batch => self.aead_instructions(algorithm, direction, jobs),
            Tier::Native => {
                for job in jobs.chunks_mut(1) {
                    self.aead_instructions(algorithm, direction, job);
                }
            }
            Tier::Reference | Tier::Generic => {}
        }
        let reference = self.single() == Tier::Reference;
        for job in jobs.iter_mut().filter(|job| job.status == Status::Pending) {
            match job.key.schedule() {
                AeadSchedule::Gcm(key) if reference => gcm::reference::run(key, direction, job),
                AeadSchedule::Gcm(key) => gcm::generic::run(key, direction, job),
                AeadSchedule::ChaCha(key) => chacha::aead::run(key, direction, job),
            }
        }
        jobs.iter().filter(|job| job.status != Status::Done).count()
    }

    /// Runs what this machine has instructions for; the rest stays pending.
    #[cfg(target_arch = "x86_64")]
    fn aead_instructions(&self, algorithm: Aead, direction: Direction, jobs: &mut [AeadJob<'_>]) {
        let rounds = algorithm.facts().rounds;
        match (algorithm, self.features.avx512, self.features.avx2) {
            (Aead::Aes128Gcm | Aead::Aes256Gcm, Some(proof), _) => {
                gcm::kernel::avx512(proof, rounds, direction, jobs);
            }
            (Aead::Aes128Gcm | Aead::Aes256Gcm, _, Some(proof)) => {
                gcm::kernel::avx2(proof, rounds, direction, jobs);
            }
            (Aead::ChaCha20Poly1305, _, Some(avx2)) => {
                for window in jobs.chunks_mut(WINDOW) {
                    let bytes = |job: &mut AeadJob<'_>| {
                        (job.status == Status::Pending).then_some(job.data.len() + job.aad.len())
                    };
                    by_length(window, bytes, |jobs, order| match self.features.avx512 {
                        Some(avx512) => chacha::lanes::avx512(avx512, direction, jobs, order),
                        None => chacha::lanes::avx2(avx2, direction, jobs, order),
                    });
                }
            }
            (_, _, None) => {}
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn aead_instructions(&self, _: Aead, _: Direction, _: &mut [AeadJob<'_>]) {}
}
