//! Digests and MACs.

use super::{Kernels, Lanes};
use crate::catalogue::Digest;
use crate::descriptor::{Making, OwnDigest, RunTogether};
use crate::hash::hash_lanes;
use crate::hash::{self, Hash};
use crate::isa::Tier;
use crate::job::{DigestJob, Status};
use crate::order::{LaneCost, WINDOW, by_length};
use crate::wipe;

impl Kernels {
    /// Digests every job with `algorithm`; a job whose key is another algorithm's is marked, not run.
    /// Returns how many jobs failed.
    pub fn digest(&self, algorithm: Digest, jobs: &mut [DigestJob<'_>]) -> usize {
        let descriptor = algorithm.descriptor();
        let mut failed = 0;
        for window in jobs.chunks_mut(WINDOW) {
            failed += match &descriptor.making {
                Making::Hash(hash) => self.hash(algorithm, hash, 0, window),
                // The outer hash is one more block.
                Making::Hmac(hash) => self.hash(algorithm, hash, 64, window),
                Making::Own(own) => self.own(algorithm, own, window),
            };
        }
        if descriptor.facts.key_bytes.max > 0 {
            wipe::registers(self.features);
        }
        failed
    }

    /// The tier that [`Self::digest`] would use for `count` jobs of equal length, if that is not short.
    pub fn digest_tier(&self, algorithm: Digest, count: usize) -> Tier {
        match &algorithm.descriptor().making {
            Making::Hash(hash) | Making::Hmac(hash) => {
                if self.lane_kernel(hash, count).is_some() {
                    Tier::Batch
                } else if (hash.has_instructions)(self.features) {
                    self.single()
                } else {
                    self.single().min(Tier::Generic)
                }
            }
            Making::Own(own) => match self.together(own, count) {
                Some(_) => Tier::Batch,
                None => (own.tier)(self.single(), self.features),
            },
        }
    }

    /// Jobs of a hash, with so many bytes to hash beside each message.
    fn hash(
        &self,
        algorithm: Digest,
        hash: &'static Hash,
        outer: usize,
        jobs: &mut [DigestJob<'_>],
    ) -> usize {
        let compress = (hash.compress)(self.single(), self.features);
        let forced = self.lanes_wanted() == Lanes::Always;
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
                            kernel.digest_jobs(jobs, order)
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
    pub(super) fn lane_kernel(&self, hash: &Hash, count: usize) -> Option<(LaneCost, hash_lanes::Kernel)> {
        let wanted = self.lanes_wanted();
        if wanted == Lanes::Never || count == 0 {
            return None;
        }
        let found = (hash.lanes)(self.features)?;
        if wanted == Lanes::WhereTheyPay && count <= found.cost.few {
            return None;
        }
        // When the batch tier is forced, its kernels do all the work.
        let few = if wanted == Lanes::Always { 0 } else { found.cost.few };
        let alone = (hash.compress)(Tier::Native, self.features);
        Some((found.cost, hash_lanes::Kernel { widths: found.widths, few, alone, drive: found.drive }))
    }

    /// What runs `count` messages of what is no [`Hash`] together, and what that costs.
    fn together(&self, own: &OwnDigest, count: usize) -> Option<(LaneCost, RunTogether)> {
        let wanted = self.lanes_wanted();
        if wanted == Lanes::Never || count == 0 {
            return None;
        }
        let together = own.together.as_ref()?;
        let cost = (together.cost)(self.features)?;
        (wanted == Lanes::Always || count > cost.few).then_some((cost, together.run))
    }

    /// Jobs of what is no [`Hash`]; says how many could not be done.
    fn own(&self, algorithm: Digest, own: &OwnDigest, jobs: &mut [DigestJob<'_>]) -> usize {
        let tier = (own.tier)(self.single(), self.features);
        let longest = algorithm.descriptor().facts.limits.bytes_a_nonce;
        let forced = self.lanes_wanted() == Lanes::Always;
        let mut failed = 0;
        let mut takes = |job: &mut DigestJob<'_>| {
            job.status = if job.key.algorithm() != algorithm {
                Status::WrongKey
            } else if job.input.len() as u64 > longest {
                Status::BadLength
            } else {
                Status::Pending
            };
            failed += usize::from(job.status != Status::Pending);
            job.status == Status::Pending
        };
        let alone = |job: &mut DigestJob<'_>| {
            (own.digest)(tier, job);
            job.status = Status::Done;
        };
        let together = self.together(own, jobs.len());
        match together {
            Some((cost, run)) if forced || cost.may_be_worth(jobs.iter().map(|job| job.input.len())) => {
                let bytes = |job: &mut DigestJob<'_>| takes(job).then_some(job.input.len());
                by_length(jobs, bytes, |jobs, order| {
                    if forced
                        || cost.is_worth(order.iter().map(|&index| jobs[usize::from(index)].input.len()))
                    {
                        // When the batch tier is forced, its kernels do all the work.
                        run(self.features, if forced { 0 } else { cost.few }, jobs, order);
                    } else {
                        order.iter().for_each(|&index| alone(&mut jobs[usize::from(index)]));
                    }
                });
            }
            _ => jobs.iter_mut().filter_map(|job| takes(job).then_some(job)).for_each(alone),
        }
        failed
    }
}
