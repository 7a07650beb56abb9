//! Digests and MACs.

use super::{Kernels, Lanes};
use crate::aha;
use crate::catalogue::Digest;
use crate::checksum;
use crate::hash::{self, Hash, lanes};
use crate::isa::Tier;
use crate::job::{DigestJob, Status};
use crate::order::{WINDOW, by_length};
use crate::{md5, sha1, sha256, wipe};

/// Measured: how few messages in the lanes cost more than one by one.
struct CrossOver {
    /// Busy lanes at which the rest of a batch goes one by one.
    few: usize,
    /// Messages from which the wider of two kernels pays.
    wide_from: usize,
}

impl Kernels {
    /// Digests every job with `algorithm`; a job whose key is another algorithm's is marked, not run.
    /// Returns how many jobs failed.
    pub fn digest(&self, algorithm: Digest, jobs: &mut [DigestJob<'_>]) -> usize {
        let mut failed = 0;
        for window in jobs.chunks_mut(WINDOW) {
            for job in window.iter_mut() {
                job.status = if job.key.algorithm() != algorithm {
                    Status::WrongKey
                } else if job.key.bucket().is_some() && !crate::bucket::BucketKey::takes(job.input.len()) {
                    Status::BadLength
                } else {
                    Status::Pending
                };
                failed += usize::from(job.status != Status::Pending);
            }
            match Hash::of(algorithm) {
                Some(hash) => self.hash(hash, window),
                None => {
                    for job in window.iter_mut().filter(|job| job.status == Status::Pending) {
                        self.digest_one(algorithm, job);
                    }
                }
            }
        }
        if algorithm.facts().key_bytes.max > 0 {
            wipe::registers(self.features);
        }
        failed
    }

    /// The tier that [`Self::digest`] would use for `count` jobs.
    pub fn digest_tier(&self, algorithm: Digest, count: usize) -> Tier {
        match Hash::of(algorithm) {
            Some(hash) if self.lane_kernel(hash, count).is_some() => Tier::Batch,
            Some(Hash::Md5) | None => self.single().min(Tier::Generic),
            Some(_) if self.features.sha.is_none() => self.single().min(Tier::Generic),
            Some(_) => self.single(),
        }
    }

    fn hash(&self, hash: Hash, jobs: &mut [DigestJob<'_>]) {
        if let Some(kernel) = self.lane_kernel(hash, jobs.len()) {
            let lengths = |jobs: &[DigestJob<'_>], i: usize| {
                let job = jobs.get(i)?;
                (job.status == Status::Pending).then_some(job.input.len())
            };
            // Sorting borrows the jobs before running them does.
            let count = jobs.len();
            let shared = core::cell::RefCell::new(jobs);
            by_length(
                count,
                |i| lengths(&shared.borrow(), i),
                |order| lanes::run(hash, &kernel, &mut shared.borrow_mut(), order),
            );
            return;
        }
        let compress = hash.compress(self.single(), self.features);
        for job in jobs.iter_mut().filter(|job| job.status == Status::Pending) {
            hash::one(hash, compress, job.key.hash_key(), job);
        }
    }

    #[cfg(target_arch = "x86_64")]
    pub(super) fn lane_kernel(&self, hash: Hash, count: usize) -> Option<lanes::Kernel> {
        let wanted = self.lanes_wanted();
        if wanted == Lanes::Never || count == 0 {
            return None;
        }
        let fast_alone = hash != Hash::Md5 && self.features.sha.is_some();
        let (cross, narrow, wide): (_, (usize, lanes::Run), (usize, lanes::Run)) =
            if self.features.avx512.is_some() {
                let few = match hash {
                    Hash::Sha1 if fast_alone => 4,
                    Hash::Sha256 if fast_alone => 6,
                    Hash::Md5 => 2,
                    _ => 1,
                };
                let cross = CrossOver { few, wide_from: 17 };
                match hash {
                    Hash::Md5 => (cross, (16, md5::lanes::avx512_16), (32, md5::lanes::avx512_32)),
                    Hash::Sha1 => (cross, (16, sha1::lanes::avx512_16), (32, sha1::lanes::avx512_32)),
                    Hash::Sha256 => (cross, (16, sha256::lanes::avx512_16), (32, sha256::lanes::avx512_32)),
                }
            } else if self.features.avx2.is_some() {
                let few = match hash {
                    Hash::Sha1 if fast_alone => 4,
                    // Eight lanes of AVX2 only equal the SHA extensions.
                    Hash::Sha256 if fast_alone => usize::MAX,
                    Hash::Md5 => 2,
                    _ => 1,
                };
                let cross = CrossOver { few, wide_from: 9 };
                match hash {
                    Hash::Md5 => (cross, (8, md5::lanes::avx2_8), (16, md5::lanes::avx2_16)),
                    Hash::Sha1 => (cross, (8, sha1::lanes::avx2_8), (16, sha1::lanes::avx2_16)),
                    Hash::Sha256 => (cross, (8, sha256::lanes::avx2_8), (8, sha256::lanes::avx2_8)),
                }
            } else {
                return None;
            };
        if wanted == Lanes::WhereTheyPay && count <= cross.few {
            return None;
        }
        let (lanes, run) = if count >= cross.wide_from { wide } else { narrow };
        // When the batch tier is forced, its kernels do all the work.
        let few = if wanted == Lanes::Always { 0 } else { cross.few };
        let alone = hash.compress(Tier::Native, self.features);
        Some(lanes::Kernel { lanes, run, few, alone })
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(super) fn lane_kernel(&self, _: Hash, _: usize) -> Option<lanes::Kernel> {
        None
    }

    fn digest_one(&self, algorithm: Digest, job: &mut DigestJob<'_>) {
        let tier = self.single();
        match algorithm {
            Digest::Touch => job.output[..8].copy_from_slice(&checksum::touch(job.input).to_le_bytes()),
            Digest::InternetChecksum => {
                job.output[..2].copy_from_slice(&checksum::internet(tier, job.input).to_be_bytes());
            }
            Digest::AhaI => {
                let absorb =
                    if tier == Tier::Reference { aha::reference::blocks } else { aha::generic::blocks };
                aha::digest(absorb, job.input, &mut job.output);
            }
            Digest::Bh140 => {
                if let Some(key) = job.key.bucket() {
                    job.output[..16].copy_from_slice(&key.tag(&job.nonce, job.input));
                }
            }
            // The null digest; the hashes are run by `hash`.
            _ => {}
        }
        job.status = Status::Done;
    }
}
