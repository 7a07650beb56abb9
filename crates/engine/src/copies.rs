//! Copies of works, for an engine that must not have a job's only bytes, and for jobs of several works that run as
//! one work.
//!
//! Guarantees: a copy has the pending jobs, with the same bytes and IVs; only the bytes that a job may change are
//! copied back, each job's separately; no allocation per copy once copies of such sizes were made.

use std::{ops::Range, sync::Arc};

use crate::{Buffer, Job, JobStatus, Session, Software, Span, Work, run::hull};

/// Works that serve as copies again and again.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    spare: Vec<Work>,
}

/// The maximum number of copies kept for later.
const SPARE_MAX: usize = 16;

impl Copies {
    /// Returns a copy of the bytes and jobs of `work`.
    pub(crate) fn of(&mut self, work: &Work) -> Work {
        let bytes = bytes_of(&work.sessions, work.buffer.capacity_bytes(), &work.jobs);
        let mut copy = self.spare.pop().unwrap_or_default();
        if copy.buffer.capacity_bytes() < bytes.end {
            copy.buffer = Buffer::new(bytes.end.next_power_of_two());
        }
        copy.buffer.bytes_mut()[bytes.clone()].copy_from_slice(&work.buffer.bytes()[bytes]);
        copy.sessions.clear();
        copy.sessions.extend_from_slice(&work.sessions);
        copy.jobs.clear();
        copy.jobs.extend_from_slice(&work.jobs);
        copy.direction = work.direction;
        copy
    }

    /// Keeps a copy that is not needed any more for later.
    pub(crate) fn give(&mut self, copy: Work) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(copy);
        }
    }
}

/// Returns the range from the first to the last byte of the jobs whose spans make sense.
fn bytes_of(sessions: &[Arc<Session>], buffer_bytes: usize, jobs: &[Job]) -> Range<usize> {
    let hulls =
        jobs.iter().filter_map(|job| hull(sessions, buffer_bytes, job)).filter(|hull| !hull.is_empty());
    hulls.reduce(|one, other| one.start.min(other.start)..one.end.max(other.end)).unwrap_or(0..0)
}

/// Returns whether no two of the jobs share a byte, so that each can run without the others.
pub(crate) fn are_apart(work: &Work, hulls: &mut Vec<Range<usize>>) -> bool {
    hulls.clear();
    let bytes = work.buffer.capacity_bytes();
    hulls.extend(work.jobs.iter().filter_map(|job| hull(&work.sessions, bytes, job)));
    let before = |one: &Range<usize>, other: &Range<usize>| one.end <= other.start;
    if !hulls.is_sorted_by(before) {
        hulls.sort_unstable_by_key(|hull| (hull.start, hull.end));
    }
    hulls.is_sorted_by(before)
}

/// Returns the bytes that a job may change.
pub(crate) fn changed(job: &Job) -> [Range<usize>; 2] {
    [job.body, job.tag].map(|span: Span| if span.is_empty() { 0..0 } else { span.range() })
}

/// Copies the result of a job back from its copy, which may lie at another place.
pub(crate) fn take_back(work: &mut Work, index: usize, copy: &Buffer, copied: &Job) {
    let Some(job) = work.jobs.get_mut(index) else { return };
    job.status = copied.status;
    if matches!(copied.status, JobStatus::Done | JobStatus::Forged) {
        for (range, from) in changed(job).into_iter().zip(changed(copied)) {
            work.buffer.bytes_mut()[range].copy_from_slice(&copy.bytes()[from]);
        }
    }
}

/// Returns whether the job's result in `copy` equals that in the work.
pub(crate) fn is_same(work: &Work, index: usize, copy: &Buffer) -> bool {
    work.jobs.get(index).is_some_and(|job| {
        changed(job).into_iter().all(|range| work.buffer.bytes()[range.clone()] == copy.bytes()[range])
    })
}

/// Jobs of several works as one work, which shares no memory with them.
#[derive(Debug, Default)]
pub(crate) struct Joined {
    work: Work,
    /// For each job, the number of its work and its index in that work.
    from: Vec<(usize, usize)>,
}

/// Works start on cache lines.
const ALIGN_BYTES: usize = 64;

/// Returns the number of bytes that a copy of a work's jobs takes.
pub(crate) fn hull_bytes(work: &Work) -> usize {
    bytes_of(&work.sessions, work.buffer.capacity_bytes(), &work.jobs).len()
}

impl Joined {
    /// Runs the pending jobs of all works, which have the same direction.
    pub(crate) fn run(&mut self, works: &mut [&mut Work], software: &mut Software) {
        let Self { work: joined, from } = self;
        joined.sessions.clear();
        joined.jobs.clear();
        from.clear();
        let aligned = |bytes: usize| bytes.next_multiple_of(ALIGN_BYTES);
        let all_bytes: usize = works.iter().map(|work| aligned(hull_bytes(work))).sum();
        if joined.buffer.capacity_bytes() < all_bytes {
            joined.buffer = Buffer::new(all_bytes.next_power_of_two());
        }
        let mut start = 0;
        for (number, work) in works.iter().enumerate() {
            joined.direction = work.direction;
            let bytes = bytes_of(&work.sessions, work.buffer.capacity_bytes(), &work.jobs);
            joined.buffer.bytes_mut()[start..][..bytes.len()]
                .copy_from_slice(&work.buffer.bytes()[bytes.clone()]);
            let moved = |span: Span| match span.is_empty() {
                true => Span::default(),
                false => Span::new((span.start as usize - bytes.start + start) as u32, span.len),
            };
            for (index, job) in work.jobs.iter().enumerate() {
                let makes_sense = hull(&work.sessions, work.buffer.capacity_bytes(), job).is_some();
                if job.status != JobStatus::Pending || !makes_sense {
                    continue;
                }
                let Some(session) = joined.session(&work.sessions[usize::from(job.session)]) else {
                    continue;
                };
                let (clear, body, tag) = (moved(job.clear), moved(job.body), moved(job.tag));
                joined.jobs.push(Job { session, clear, body, tag, ..*job });
                from.push((number, index));
            }
            start += aligned(bytes.len());
        }
        software.run(joined);
        for (copied, &(number, index)) in joined.jobs.iter().zip(&*from) {
            take_back(works[number], index, &joined.buffer, copied);
        }
        for work in works.iter_mut().filter(|work| work.pending() > 0) {
            software.run(work);
        }
        joined.sessions.clear();
    }
}
