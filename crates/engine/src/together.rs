//! Records of a batch that go to a kernel in one call.
//!
//! Guarantees: each job ends exactly as it would alone; jobs that overlap, or lie in no ascending order, are left to
//! be run one by one. Nothing is allocated.

use std::ops::Range;

use arrayvec::ArrayVec;
use sealane_transform::{AeadJob, Status};

use crate::{
    batch::{Direction, Job, JobStatus},
    own::TAG_BYTES,
};

/// Most records of one call. More than a kernel has lanes; few enough to lie on the stack.
const TOGETHER_MAX: usize = 32;

/// Runs every pending job that has neighbours with the same algorithm of our own kernels; leaves the rest pending.
pub(crate) fn run(direction: Direction, bytes: &mut [u8], jobs: &mut [Job]) {
    let mut first = 0;
    while first < jobs.len() {
        let count = neighbours(direction, bytes.len(), &jobs[first..]);
        if count > 1 {
            let statuses = run_group(direction, bytes, &jobs[first..first + count]);
            for (job, status) in jobs[first..].iter_mut().zip(statuses) {
                job.status = status;
            }
        }
        first += count.max(1);
    }
}

/// The record's bytes within the buffer, if it can have a tag.
fn range(direction: Direction, job: &Job) -> Option<Range<usize>> {
    let room = match direction {
        Direction::Seal => TAG_BYTES,
        Direction::Open => 0,
    };
    let sealed_bytes = job.body_bytes.checked_add(room).filter(|&bytes| bytes >= TAG_BYTES)?;
    let end = job.offset.checked_add(job.header_bytes)?.checked_add(sealed_bytes)?;
    Some(job.offset..end)
}

/// How many jobs at the front can go together.
fn neighbours(direction: Direction, buffer_bytes: usize, jobs: &[Job]) -> usize {
    let Some(suite) = jobs.first().map(|job| job.session.suite()) else { return 0 };
    let mut end = 0;
    let fits = |job: &&Job| {
        let alike = job.status == JobStatus::Pending && job.session.suite() == suite;
        let range = range(direction, job).filter(|range| range.start >= end && range.end <= buffer_bytes);
        let Some(range) = range.filter(|_| alike && job.session.own().is_some()) else { return false };
        end = range.end;
        true
    };
    jobs.iter().take(TOGETHER_MAX).take_while(fits).count()
}

fn run_group(direction: Direction, bytes: &mut [u8], jobs: &[Job]) -> ArrayVec<JobStatus, TOGETHER_MAX> {
    let mut calls: ArrayVec<AeadJob<'_>, TOGETHER_MAX> = ArrayVec::new();
    let mut tags: ArrayVec<&mut [u8; TAG_BYTES], TOGETHER_MAX> = ArrayVec::new();
    let (mut rest, mut passed) = (bytes, 0);
    for job in jobs {
        // All of it holds for a group.
        let (Some(own), Some(range)) = (job.session.own(), range(direction, job)) else { break };
        let (record, behind) = rest.split_at_mut(job.offset - passed).1.split_at_mut(range.end - job.offset);
        (rest, passed) = (behind, range.end);
        let Some((call, tag)) = own.call(direction, job.sequence, record, job.header_bytes) else { break };
        calls.push(call);
        tags.push(tag);
    }
    if let Some(own) = jobs.first().and_then(|job| job.session.own()) {
        own.run(direction, &mut calls);
    }
    let mut statuses = ArrayVec::new();
    for ((job, call), tag) in jobs.iter().zip(&calls).zip(tags) {
        statuses.push(match (call.status, direction) {
            (Status::Done, Direction::Seal) => {
                *tag = call.tag;
                JobStatus::Done { body_bytes: job.body_bytes + TAG_BYTES }
            }
            (Status::Done, Direction::Open) => JobStatus::Done { body_bytes: job.body_bytes - TAG_BYTES },
            _ => JobStatus::Forged,
        });
    }
    statuses
}
