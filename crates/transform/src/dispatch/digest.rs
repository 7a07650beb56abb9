//! Digests and MACs.

use super::{Kernels, Ways};
use crate::algorithm::Digest;
use crate::descriptor::{Making, OwnDigest, RunTogether};
use crate::hash::ways;
use crate::hash::{self, Hash, HashWays};
use crate::isa::Tier;
use crate::job::{DigestJob, Status};
use crate::order::{Totals, WINDOW, WaysCost, by_length};
use crate::wipe;

/// Least bytes of a message that is not short.
const LONG: usize = 1408;

/// Returns the number of bytes in the blocks of a job, with `outer` bytes beside its message.
fn hashed_bytes(job: &DigestJob<'_>, outer: usize) -> usize {
    Hash::padded_bytes(job.input.len()) + outer
}

impl Kernels {
    /// Digests every job with `algorithm`; a job whose key belongs to another algorithm is marked, and does not run.
    /// Returns the number of jobs that failed.
    pub fn digest(&self, algorithm: Digest, jobs: &mut [DigestJob<'_>]) -> usize {
        let descriptor = algorithm.descriptor();
        let mut failed = 0;
        for window in jobs.chunks_mut(WINDOW) {
            failed += match &descriptor.making {
                Making::Hash(hash) => self.hash(algorithm, hash, 0, window),
                // The outer hash takes one more block.
                Making::Hmac(hash) => self.hash(algorithm, hash, 64, window),
                Making::Own(own) => self.own(algorithm, own, window),
            };
        }
        if descriptor.facts.key_bytes.max > 0 {
            wipe::registers(self.features);
        }
        failed
    }

    /// Returns the tier that [`Self::digest`] would use for `count` jobs of equal length, if that is not short.
    pub fn digest_tier(&self, algorithm: Digest, count: usize) -> Tier {
        match &algorithm.descriptor().making {
            Making::Hash(hash) | Making::Hmac(hash) => {
                if self.ways_kernel(hash, count).is_some() {
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

    /// Runs jobs of a hash, with that many bytes to hash beside each message; returns the number that failed.
    fn hash(
        &self,
        algorithm: Digest,
        hash: &'static Hash,
        outer: usize,
        jobs: &mut [DigestJob<'_>],
    ) -> usize {
        let is_forced = self.ways_wanted() == Ways::Always;
        // A single message has no other one to share ways with.
        let found = if is_forced || jobs.len() > 1 { self.ways_of(hash, jobs.len()) } else { None };
        let take = |job: &mut DigestJob<'_>| {
            let right = job.key.algorithm() == algorithm;
            job.status = if right { Status::Pending } else { Status::WrongKey };
            right
        };
        if let Some(ways) = found
            && (is_forced || ways.cost.may_be_worth_of(jobs.iter().map(|job| hashed_bytes(job, outer))))
            && let Some(failed) = self.hash_side_by_side(hash, outer, &ways, take, jobs)
        {
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

    /// Runs the jobs that `take` accepts side by side, if that pays or is forced; returns the number of jobs not accepted. Returns
    /// `None` if ways do not pay.
    #[inline(never)]
    fn hash_side_by_side(
        &self,
        hash: &'static Hash,
        outer: usize,
        ways: &HashWays,
        take: impl Fn(&mut DigestJob<'_>) -> bool,
        jobs: &mut [DigestJob<'_>],
    ) -> Option<usize> {
        let kernel = self.kernel_of(hash, ways, jobs.len())?;
        let is_forced = self.ways_wanted() == Ways::Always;
        let bytes = |job: &mut DigestJob<'_>| take(job).then(|| hashed_bytes(job, outer));
        by_length(jobs, bytes, |jobs, order| {
            let lengths = order.iter().map(|&index| hashed_bytes(&jobs[usize::from(index)], outer));
            (is_forced || ways.cost.is_worth(lengths)).then(|| {
                kernel.digest_jobs(jobs, order);
                jobs.len() - order.len()
            })
        })
    }

    /// Returns the kernel for `count` messages, if ways may pay for that many or are forced.
    pub(super) fn ways_kernel(&self, hash: &Hash, count: usize) -> Option<ways::Kernel> {
        self.kernel_of(hash, &self.ways_of(hash, count)?, count)
    }

    /// Returns the ways of a hash for `count` messages, if there are any and they are not ruled out.
    fn ways_of(&self, hash: &Hash, count: usize) -> Option<HashWays> {
        if self.ways_wanted() == Ways::Never { None } else { (hash.ways)(self.features, count) }
    }

    fn kernel_of(&self, hash: &Hash, ways: &HashWays, count: usize) -> Option<ways::Kernel> {
        // If the batch tier is forced, its kernels do all the work.
        let few = if self.ways_wanted() == Ways::Always { 0 } else { ways.cost.few() };
        let alone = (hash.compress)(Tier::Native, self.features);
        (count > few).then_some(ways::Kernel { widths: ways.widths, few, alone, drive: ways.drive })
    }

    /// Returns the function that runs such messages of a digest that is not a [`Hash`] together, and its cost.
    fn together(&self, own: &OwnDigest, of: Totals) -> Option<(WaysCost, RunTogether)> {
        let wanted = self.ways_wanted();
        if wanted == Ways::Never || of.messages == 0 {
            return None;
        }
        let together = own.together.as_ref()?;
        let cost = (together.cost)(self.features, of)?;
        (wanted == Ways::Always || of.messages > cost.few()).then_some((cost, together.run))
    }

    /// Runs jobs of a digest that is not a [`Hash`]; returns the number that failed.
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
                (own.digest)(self.features, tier, job);
                job.status = Status::Done;
            }
        }
        failed
    }

    /// Runs the valid jobs together if that pays or is forced; returns the number of invalid ones. Returns `None` if
    /// it does not pay.
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
        // If the batch tier is forced, its kernels do all the work.
        let cost = (self.ways_wanted() != Ways::Always).then_some(cost);
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
                run(self.features, cost.map_or(0, WaysCost::few), jobs, order);
                jobs.len() - order.len()
            })
        })
    }
}
