//! Digests and MACs.

use super::{Kernels, Lanes};
use crate::aha;
use crate::blake3;
use crate::catalogue::Digest;
use crate::checksum;
use crate::hash::lanes::{self, Width};
use crate::hash::{self, Hash};
use crate::isa::Tier;
use crate::job::{DigestJob, Status};
use crate::order::{LaneCost, WINDOW, by_length};
use crate::{md5, sha1, sha256, wipe};

impl Kernels {
    /// Digests every job with `algorithm`; a job whose key is another algorithm's is marked, not run.
    /// Returns how many jobs failed.
    pub fn digest(&self, algorithm: Digest, jobs: &mut [DigestJob<'_>]) -> usize {
        let mut failed = 0;
        for window in jobs.chunks_mut(WINDOW) {
            failed += match Hash::of(algorithm) {
                Some(hash) => self.hash(algorithm, hash, window),
                None => window.iter_mut().map(|job| usize::from(!self.digest_one(algorithm, job))).sum(),
            };
        }
        if algorithm.facts().key_bytes.max > 0 {
            wipe::registers(self.features);
        }
        failed
    }

    /// The tier that [`Self::digest`] would use for `count` jobs of equal length, if that is not short.
    pub fn digest_tier(&self, algorithm: Digest, count: usize) -> Tier {
        match Hash::of(algorithm) {
            Some(hash) if self.lane_kernel(hash, count).is_some() => Tier::Batch,
            None if algorithm == Digest::Blake3 => self.blake3_tier(),
            Some(Hash::Md5) | None => self.single().min(Tier::Generic),
            Some(_) if self.features.sha.is_none() => self.single().min(Tier::Generic),
            Some(_) => self.single(),
        }
    }

    /// The authors' crate finds instructions by itself, so it cannot run where there are to be none.
    pub(super) fn blake3_tier(&self) -> Tier {
        if self.features.avx2.is_some() { self.single() } else { self.single().min(Tier::Generic) }
    }

    fn hash(&self, algorithm: Digest, hash: Hash, jobs: &mut [DigestJob<'_>]) -> usize {
        let compress = hash.compress(self.single(), self.features);
        let forced = self.lanes_wanted() == Lanes::Always;
        // HMAC's outer hash is one more block.
        let outer = if algorithm.facts().key_bytes.max > 0 { 64 } else { 0 };
        let work = |job: &DigestJob<'_>| Hash::padded_bytes(job.input.len()) + outer;
        let mut failed = 0;
        let mut takes = |job: &mut DigestJob<'_>| {
            let right = job.key.algorithm() == algorithm;
            if !right {
                job.status = Status::WrongKey;
                failed += 1;
            }
            right
        };
        match self.lane_kernel(hash, jobs.len()) {
            Some((cost, _)) if forced || cost.may_be_worth(jobs.iter().map(work)) => {
                let bytes = |job: &mut DigestJob<'_>| takes(job).then(|| work(job));
                by_length(jobs, bytes, |jobs, order| {
                    let lengths = order.iter().map(|&index| work(&jobs[usize::from(index)]));
                    match self.lane_kernel(hash, order.len()) {
                        Some((_, kernel)) if forced || cost.is_worth(lengths) => {
                            kernel.run(hash, jobs, order)
                        }
                        _ => order
                            .iter()
                            .for_each(|&index| hash::one(hash, compress, &mut jobs[usize::from(index)])),
                    }
                });
            }
            _ => jobs
                .iter_mut()
                .filter_map(|job| takes(job).then_some(job))
                .for_each(|job| hash::one(hash, compress, job)),
        }
        failed
    }

    /// The kernel for `count` messages, and what its lanes cost.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn lane_kernel(&self, hash: Hash, count: usize) -> Option<(LaneCost, lanes::Kernel)> {
        let wanted = self.lanes_wanted();
        if wanted == Lanes::Never || count == 0 {
            return None;
        }
        let fast_alone = hash != Hash::Md5 && self.features.sha.is_some();
        let avx512 = self.features.avx512.is_some();
        if !avx512 {
            self.features.avx2?;
        }
        // Measured by the `crossover` example.
        let (few, fixed_bytes, job_bytes) = match hash {
            Hash::Sha1 if fast_alone => (4, 256, 32),
            // Eight lanes of AVX2 hardly beat the SHA extensions.
            Hash::Sha256 if fast_alone && !avx512 => (usize::MAX, 0, 0),
            Hash::Sha256 if fast_alone => (6, 64, 16),
            _ => (1, 112, 16),
        };
        if wanted == Lanes::WhereTheyPay && count <= few {
            return None;
        }
        let widths: &[Width] = match (avx512, hash) {
            (true, Hash::Md5) => {
                &[md5::lanes::avx512_16::WIDTH, md5::lanes::avx512_32::WIDTH, md5::lanes::avx512_64::WIDTH]
            }
            (true, Hash::Sha1) => &[sha1::lanes::avx512_16::WIDTH, sha1::lanes::avx512_32::WIDTH],
            (true, Hash::Sha256) => &[sha256::lanes::avx512_16::WIDTH, sha256::lanes::avx512_32::WIDTH],
            (false, Hash::Md5) => &[md5::lanes::avx2_8::WIDTH, md5::lanes::avx2_16::WIDTH],
            (false, Hash::Sha1) => &[sha1::lanes::avx2_8::WIDTH],
            (false, Hash::Sha256) => &[sha256::lanes::avx2_8::WIDTH],
        };
        // When the batch tier is forced, its kernels do all the work.
        let last_few = if wanted == Lanes::Always { 0 } else { few };
        let alone = hash.compress(Tier::Native, self.features);
        let drive = if avx512 { lanes::drive_avx512 } else { lanes::drive_avx2 };
        Some((
            LaneCost { few, fixed_bytes, job_bytes },
            lanes::Kernel { widths, few: last_few, alone, drive },
        ))
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(super) fn lane_kernel(&self, _: Hash, _: usize) -> Option<(LaneCost, lanes::Kernel)> {
        None
    }

    /// One job of what is no [`Hash`]; says whether it could be done.
    fn digest_one(&self, algorithm: Digest, job: &mut DigestJob<'_>) -> bool {
        if job.key.algorithm() != algorithm {
            job.status = Status::WrongKey;
            return false;
        }
        if job.key.bucket().is_some() && !crate::bucket::BucketKey::takes(job.input.len()) {
            job.status = Status::BadLength;
            return false;
        }
        let tier = self.single();
        match algorithm {
            Digest::Touch => job.output[..8].copy_from_slice(&checksum::touch(job.input).to_le_bytes()),
            Digest::InternetChecksum => {
                job.output[..2].copy_from_slice(&checksum::internet(tier, job.input).to_be_bytes());
            }
            Digest::Blake3 if self.blake3_tier() == Tier::Native => {
                blake3::native(job.input, &mut job.output);
            }
            Digest::Blake3 => blake3::reference::digest(job.input, &mut job.output),
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
        true
    }
}
