//! Digests and MACs.

use super::{Kernels, Lanes};
use crate::catalogue::Digest;
use crate::descriptor::{Making, OwnDigest, RunTogether};
use crate::hash::hash_lanes;
use crate::hash::{self, Hash};
use crate::isa::Tier;
use crate::job::{DigestJob, Status};
use crate::order::{LaneCost, Totals, WINDOW, by_length};
use crate::wipe;

/// Bytes of the blocks that a job is, with so many beside its message.
fn hashed_bytes(job: &DigestJob<'_>, outer: usize) -> usize {
    Hash::padded_bytes(job.input.len()) + outer
}

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

    /// Jobs of a hash, with so many bytes to hash beside each message; says how many could not be done.
    fn hash(
        &self,
        algorithm: Digest,
        hash: &'static Hash,
        outer: usize,
        jobs: &mut [DigestJob<'_>],
    ) -> usize {
        let mut totals = Totals::default();
        let mut failed = 0;
        for job in jobs.iter_mut() {
            if job.key.algorithm() == algorithm {
                job.status = Status::Pending;
                totals.add(hashed_bytes(job, outer));
            } else {
                job.status = Status::WrongKey;
                failed += 1;
            }
        }
        let cost = match self.lanes_wanted() {
            Lanes::Always => None,
            Lanes::Never => Some(LaneCost::NEVER),
            // One message has none to share lanes with.
            Lanes::WhereTheyPay if totals.messages < 2 => Some(LaneCost::NEVER),
            Lanes::WhereTheyPay => Some((hash.lane_cost)(self.features)),
        };
        if cost.is_none_or(|cost| cost.may_be_worth(totals))
            && self.hash_in_lanes(hash, outer, cost, totals.messages, jobs)
        {
            return failed;
        }
        let compress = (hash.compress)(self.single(), self.features);
        let pending = jobs.iter_mut().filter(|job| job.status == Status::Pending);
        pending.for_each(|job| hash::one(hash, compress, job));
        failed
    }

    /// Runs the pending jobs in lanes where they pay at such a cost, or at any price, and says so; or leaves them.
    #[inline(never)]
    fn hash_in_lanes(
        &self,
        hash: &'static Hash,
        outer: usize,
        cost: Option<LaneCost>,
        messages: usize,
        jobs: &mut [DigestJob<'_>],
    ) -> bool {
        let Some(kernel) = self.lane_kernel(hash, messages) else { return false };
        let bytes =
            |job: &mut DigestJob<'_>| (job.status == Status::Pending).then(|| hashed_bytes(job, outer));
        by_length(jobs, bytes, |jobs, order| {
            let lengths = order.iter().map(|&index| hashed_bytes(&jobs[usize::from(index)], outer));
            let pays = cost.is_none_or(|cost| cost.is_worth(lengths));
            if pays {
                kernel.digest_jobs(jobs, order);
            }
            pays
        })
    }

    /// The kernel for `count` messages, where lanes may pay for as many or must run them.
    pub(super) fn lane_kernel(&self, hash: &Hash, count: usize) -> Option<hash_lanes::Kernel> {
        // When the batch tier is forced, its kernels do all the work.
        let few = match self.lanes_wanted() {
            Lanes::Never => return None,
            Lanes::Always => 0,
            Lanes::WhereTheyPay => (hash.lane_cost)(self.features).few(),
        };
        if count <= few {
            return None;
        }
        let found = (hash.lanes)(self.features)?;
        let alone = (hash.compress)(Tier::Native, self.features);
        Some(hash_lanes::Kernel { widths: found.widths, few, alone, drive: found.drive })
    }

    /// What runs `count` messages of what is no [`Hash`] together, and what that costs.
    fn together(&self, own: &OwnDigest, count: usize) -> Option<(LaneCost, RunTogether)> {
        let wanted = self.lanes_wanted();
        if wanted == Lanes::Never || count == 0 {
            return None;
        }
        let together = own.together.as_ref()?;
        let cost = (together.cost)(self.features)?;
        (wanted == Lanes::Always || count > cost.few()).then_some((cost, together.run))
    }

    /// Jobs of what is no [`Hash`]; says how many could not be done.
    fn own(&self, algorithm: Digest, own: &OwnDigest, jobs: &mut [DigestJob<'_>]) -> usize {
        let tier = (own.tier)(self.single(), self.features);
        let longest = algorithm.descriptor().facts.limits.bytes_a_nonce;
        let mut totals = Totals::default();
        let mut failed = 0;
        for job in jobs.iter_mut() {
            job.status = if job.key.algorithm() != algorithm {
                Status::WrongKey
            } else if job.input.len() as u64 > longest {
                Status::BadLength
            } else {
                Status::Pending
            };
            if job.status == Status::Pending {
                totals.add(job.input.len());
            } else {
                failed += 1;
            }
        }
        if self.own_together(own, totals, jobs) {
            return failed;
        }
        for job in jobs.iter_mut().filter(|job| job.status == Status::Pending) {
            (own.digest)(tier, job);
            job.status = Status::Done;
        }
        failed
    }

    /// Runs the pending jobs, of which so much is known, together where that pays or is forced, and says so; or leaves them.
    fn own_together(&self, own: &OwnDigest, totals: Totals, jobs: &mut [DigestJob<'_>]) -> bool {
        let Some((cost, run)) = self.together(own, totals.messages) else { return false };
        // When the batch tier is forced, its kernels do all the work.
        let cost = (self.lanes_wanted() != Lanes::Always).then_some(cost);
        if cost.is_some_and(|cost| !cost.may_be_worth(totals)) {
            return false;
        }
        let bytes = |job: &mut DigestJob<'_>| (job.status == Status::Pending).then_some(job.input.len());
        by_length(jobs, bytes, |jobs, order| {
            let lengths = order.iter().map(|&index| jobs[usize::from(index)].input.len());
            let pays = cost.is_none_or(|cost| cost.is_worth(lengths));
            if pays {
                run(self.features, cost.map_or(0, LaneCost::few), jobs, order);
            }
            pays
        })
    }
}
