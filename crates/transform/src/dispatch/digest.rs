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

/// Bytes of a message that is not short.
const LONG: usize = 1408;

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
            Making::Own(own) => match self.together(own, Totals::equal(count, LONG)) {
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
        let cost = match self.lanes_wanted() {
            Lanes::Always => None,
            Lanes::Never => Some(LaneCost::NEVER),
            // One message has none to share lanes with.
            Lanes::WhereTheyPay if jobs.len() < 2 => Some(LaneCost::NEVER),
            Lanes::WhereTheyPay => Some((hash.lane_cost)(self.features)),
        };
        let take = |job: &mut DigestJob<'_>| {
            let right = job.key.algorithm() == algorithm;
            job.status = if right { Status::Pending } else { Status::WrongKey };
            right
        };
        let may_pay = match cost {
            None => true,
            Some(cost) => cost.may_be_worth_of(jobs.iter().map(|job| hashed_bytes(job, outer))),
        };
        if may_pay && let Some(failed) = self.hash_in_lanes(hash, outer, cost, take, jobs) {
            return failed;
        }
        let compress = (hash.compress)(self.single(), self.features);
        let mut failed = 0;
        for job in jobs {
            if take(job) {
                hash::one(hash, compress, job);
            } else {
                failed += 1;
            }
        }
        failed
    }

    /// Runs the jobs that `take` takes in lanes where they pay at such a cost, or at any price; says how many are not taken.
    /// `None`: lanes do not pay.
    #[inline(never)]
    fn hash_in_lanes(
        &self,
        hash: &'static Hash,
        outer: usize,
        cost: Option<LaneCost>,
        take: impl Fn(&mut DigestJob<'_>) -> bool,
        jobs: &mut [DigestJob<'_>],
    ) -> Option<usize> {
        let kernel = self.lane_kernel(hash, jobs.len())?;
        let bytes = |job: &mut DigestJob<'_>| take(job).then(|| hashed_bytes(job, outer));
        by_length(jobs, bytes, |jobs, order| {
            let lengths = order.iter().map(|&index| hashed_bytes(&jobs[usize::from(index)], outer));
            cost.is_none_or(|cost| cost.is_worth(lengths)).then(|| {
                kernel.digest_jobs(jobs, order);
                jobs.len() - order.len()
            })
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

    /// What runs such messages of what is no [`Hash`] together, and what that costs.
    fn together(&self, own: &OwnDigest, of: Totals) -> Option<(LaneCost, RunTogether)> {
        let wanted = self.lanes_wanted();
        if wanted == Lanes::Never || of.messages == 0 {
            return None;
        }
        let together = own.together.as_ref()?;
        let cost = (together.cost)(self.features, of)?;
        (wanted == Lanes::Always || of.messages > cost.few()).then_some((cost, together.run))
    }

    /// Jobs of what is no [`Hash`]; says how many could not be done.
    fn own(&self, algorithm: Digest, own: &OwnDigest, jobs: &mut [DigestJob<'_>]) -> usize {
        let tier = (own.tier)(self.single(), self.features);
        let longest = algorithm.descriptor().facts.limits.bytes_a_nonce;
        let fault = |job: &DigestJob<'_>| {
            if job.key.algorithm() != algorithm {
                Some(Status::WrongKey)
            } else {
                (job.input.len() as u64 > longest).then_some(Status::BadLength)
            }
        };
        if let Some(failed) = self.own_together(own, fault, jobs) {
            return failed;
        }
        let mut failed = 0;
        for job in jobs {
            if let Some(fault) = fault(job) {
                job.status = fault;
                failed += 1;
            } else {
                (own.digest)(tier, job);
                job.status = Status::Done;
            }
        }
        failed
    }

    /// Runs the jobs without a fault together where that pays or is forced; says how many have one. `None`: it does not pay.
    fn own_together(
        &self,
        own: &OwnDigest,
        fault: impl Fn(&DigestJob<'_>) -> Option<Status>,
        jobs: &mut [DigestJob<'_>],
    ) -> Option<usize> {
        own.together.as_ref()?;
        let mut totals = Totals::default();
        jobs.iter().for_each(|job| totals.add(job.input.len()));
        let (cost, run) = self.together(own, totals)?;
        // When the batch tier is forced, its kernels do all the work.
        let cost = (self.lanes_wanted() != Lanes::Always).then_some(cost);
        if cost.is_some_and(|cost| !cost.may_be_worth(totals)) {
            return None;
        }
        let bytes = |job: &mut DigestJob<'_>| {
            job.status = fault(job).unwrap_or(Status::Pending);
            (job.status == Status::Pending).then_some(job.input.len())
        };
        by_length(jobs, bytes, |jobs, order| {
            let lengths = order.iter().map(|&index| jobs[usize::from(index)].input.len());
            cost.is_none_or(|cost| cost.is_worth(lengths)).then(|| {
                run(self.features, cost.map_or(0, LaneCost::few), jobs, order);
                jobs.len() - order.len()
            })
        })
    }
}
