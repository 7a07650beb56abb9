//! Authenticated encryption.

use super::Kernels;
use crate::aead::AeadJob;
use crate::catalogue::Aead;
use crate::isa::Tier;
use crate::job::{Direction, Status};

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
        let descriptor = algorithm.descriptor();
        for job in jobs.iter_mut() {
            job.status = if job.key.algorithm() != algorithm {
                Status::WrongKey
            } else if job.data.len() as u64 > descriptor.facts.limits.bytes_a_nonce {
                Status::BadLength
            } else {
                Status::Pending
            };
        }
        match self.aead_tier(algorithm, jobs.len()) {
            Tier::Batch => (descriptor.instructions)(self.features, direction, jobs),
            Tier::Native => {
                for job in jobs.chunks_mut(1) {
                    (descriptor.instructions)(self.features, direction, job);
                }
            }
            Tier::Reference | Tier::Generic => {}
        }
        for job in jobs.iter_mut().filter(|job| job.status == Status::Pending) {
            (descriptor.portable)(self.single(), direction, job);
        }
        jobs.iter().filter(|job| job.status != Status::Done).count()
    }
}
