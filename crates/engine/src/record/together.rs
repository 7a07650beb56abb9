//! Records of a batch, run one by one or, where our own kernels run them, together.
//!
//! Guarantees: each job ends exactly as it would alone; no byte outside its range is touched, and a range that does not
//! fit the buffer is refused. Only records that lie in ascending order, apart from one another, go together. Nothing is
//! allocated.

use std::ops::Range;

use arrayvec::ArrayVec;

use super::{
    Session,
    batch::{Job, JobStatus},
    session::Protection,
};
use crate::Direction;

/// Most records of one call. More than a kernel has lanes; few enough to lie on the stack.
pub(crate) const TOGETHER_MAX: usize = 32;

/// A job with its bytes.
pub(crate) struct Record<'a> {
    pub(crate) session: &'a Session,
    pub(crate) sequence: u64,
    /// Header, body and, to be sealed, exactly the room that the suite's expansion takes.
    pub(crate) bytes: &'a mut [u8],
    pub(crate) header_bytes: usize,
    /// Length of the body: plain to be sealed, sealed to be opened.
    pub(crate) body_bytes: usize,
    pub(crate) status: &'a mut JobStatus,
}

/// Runs every pending job.
pub(crate) fn run(direction: Direction, bytes: &mut [u8], mut jobs: &mut [Job]) {
    while !jobs.is_empty() {
        let count = neighbours(direction, bytes.len(), jobs).max(1);
        let (group, rest) = jobs.split_at_mut(count);
        run_group(direction, bytes, group);
        jobs = rest;
    }
}

/// The record's bytes within the buffer.
fn range(direction: Direction, job: &Job) -> Option<Range<usize>> {
    let room = match direction {
        Direction::Seal => job.session.suite().expansion_bytes(job.body_bytes),
        Direction::Open => 0,
    };
    let end = job.offset.checked_add(job.header_bytes)?.checked_add(job.body_bytes)?.checked_add(room)?;
    Some(job.offset..end)
}

/// How many jobs at the front can go together.
fn neighbours(direction: Direction, buffer_bytes: usize, jobs: &[Job]) -> usize {
    let Some(suite) = jobs.first().map(|job| job.session.suite()) else { return 0 };
    let mut end = 0;
    let fits = |job: &&Job| {
        let own = matches!(job.session.protection(), Protection::Own(_));
        let alike = job.status == JobStatus::Pending && own && job.session.suite() == suite;
        let range = range(direction, job).filter(|range| range.start >= end && range.end <= buffer_bytes);
        range.filter(|_| alike).map(|range| end = range.end).is_some()
    };
    jobs.iter().take(TOGETHER_MAX).take_while(fits).count()
}

/// Runs one job, or a group of neighbours.
fn run_group(direction: Direction, bytes: &mut [u8], jobs: &mut [Job]) {
    let mut records: ArrayVec<Record<'_>, TOGETHER_MAX> = ArrayVec::new();
    let (mut rest, mut passed) = (bytes, 0);
    for job in jobs.iter_mut().filter(|job| job.status == JobStatus::Pending) {
        let range = range(direction, job).filter(|range| range.end <= passed + rest.len());
        let Some(range) = range else {
            job.status = JobStatus::OutOfRange;
            continue;
        };
        let (record, behind) = rest.split_at_mut(range.start - passed).1.split_at_mut(range.len());
        (rest, passed) = (behind, range.end);
        let Job { session, header_bytes, body_bytes, sequence, status, .. } = job;
        records.push(Record {
            session,
            sequence: *sequence,
            bytes: record,
            header_bytes: *header_bytes,
            body_bytes: *body_bytes,
            status,
        });
    }
    match records.first().map(|record| record.session.protection()) {
        Some(Protection::Own(own)) => own.run(direction, &mut records),
        Some(Protection::Library(library)) => {
            records.iter_mut().for_each(|record| library.run(direction, record));
        }
        None => {}
    }
}
