//! Authenticated encryption.

use super::Kernels;
use crate::aead::AeadJob;
use crate::algorithm::Aead;
use crate::cost::{AeadCosts, AeadTotals, Cheaper};
use crate::isa::Tier;
use crate::job::Status;
use crate::modes::Direction;

impl Kernels {
    /// Encrypts the data of every job and makes its tag. A job whose key belongs to another algorithm, or whose data
    /// are too long for one nonce, is marked and its buffers stay untouched. Returns the number of jobs that failed.
    pub fn seal(&self, algorithm: Aead, jobs: &mut [AeadJob<'_>]) -> usize {
        self.aead(algorithm, Direction::Encrypt, jobs)
    }

    /// Checks the tag of every job, in constant time, and decrypts its data. A job with a wrong tag ends as
    /// [`Status::Forged`], with zeros in place of its plaintext, also if that is in place. Returns the number of jobs
    /// that failed.
    pub fn open(&self, algorithm: Aead, jobs: &mut [AeadJob<'_>]) -> usize {
        self.aead(algorithm, Direction::Decrypt, jobs)
    }

    /// Returns the tier that [`Self::seal`] and [`Self::open`] would use for `count` jobs.
    pub fn aead_tier(&self, algorithm: Aead, count: usize) -> Tier {
        if self.features.avx2.is_none() {
            return if self.native(algorithm).is_some() {
                Tier::Native
            } else {
                self.single().min(Tier::Generic)
            };
        }
        self.tier.unwrap_or(if count > 1 { Tier::Batch } else { Tier::Native })
    }

    /// Returns the implementation that costs less for an AEAD on this machine: these kernels, or AWS-LC, which takes
    /// messages one by one.
    pub fn cheaper(&self, algorithm: Aead) -> Cheaper {
        if !algorithm.is_in_library() {
            return Cheaper::Own;
        }
        let of =
            |direction| self.costs(algorithm, direction).map_or(Cheaper::Library, |costs| costs.cheaper());
        let (sealing, opening) = (of(Direction::Encrypt), of(Direction::Decrypt));
        if sealing == opening { sealing } else { Cheaper::Depends }
    }

    /// Returns whether these kernels cost no more than AWS-LC for such jobs in one call.
    pub fn is_own_cheaper(&self, algorithm: Aead, direction: Direction, jobs: AeadTotals) -> bool {
        !algorithm.is_in_library()
            || self.costs(algorithm, direction).is_some_and(|costs| costs.is_own_cheaper(jobs))
    }

    /// Returns the library's code for single messages, if it runs as this machine's native code.
    fn native(&self, algorithm: Aead) -> Option<fn(Direction, &mut AeadJob<'_>)> {
        let is_wanted = self.single() == Tier::Native && self.features.have_libraries();
        algorithm.descriptor().native.filter(|_| is_wanted)
    }

    /// Returns the costs of kernels with instructions; `None` if there are no such kernels, or if others are forced.
    fn costs(&self, algorithm: Aead, direction: Direction) -> Option<AeadCosts> {
        let are_allowed = self.tier.is_none_or(|tier| tier >= Tier::Native);
        are_allowed.then(|| (algorithm.descriptor().costs)(self.features, direction)).flatten()
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
        let native = self.native(algorithm);
        for job in jobs.iter_mut().filter(|job| job.status == Status::Pending) {
            match native {
                Some(native) => native(direction, job),
                None => (descriptor.portable)(self.single(), direction, job),
            }
        }
        jobs.iter().filter(|job| job.status != Status::Done).count()
    }
}
