//! Runs jobs on the calling thread.
//!
//! Guarantees: each job ends exactly as it would alone, in whatever order the jobs are listed; jobs of many sessions
//! go to a kernel together if their algorithm is the same; no byte outside a job's spans is written; spans that make
//! no sense change nothing. No allocation once work of the same size was run.
//!
//! Jobs are sorted by the order of their bytes, so that each kernel call can borrow all its bodies from one buffer.
//! Jobs whose bytes overlap run one after the other, as listed.

use std::{ops::Range, sync::Arc};

use arrayvec::ArrayVec;
use aws_lc_rs::aead;
use sealane_transform::{
    Aead, AeadJob, AeadTotals, BlockCipher, Buffer, Cipher, CipherJob, DigestJob,
    Direction as CipherDirection, Kernels, Mode, Status,
};
use subtle::ConstantTimeEq as _;

use crate::{
    Direction, Job, JobStatus, Mac, Protection, Session, Span, Work,
    keys::{AeadKeys, CipherKeys, MacKey, TAG_BYTES_MAX},
    work::increase,
};

/// The length of an AEAD's longest tag in bytes.
const AEAD_TAG_BYTES: usize = 16;
/// The maximum number of jobs per call: as many as the most ways that a kernel has.
const CALL_MAX: usize = 512;

/// A pending job whose spans make sense.
#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u32,
    index: u32,
    end: u64,
}

/// Computes on the calling thread; every engine falls back on it. Keeps its memory for later works.
#[derive(Debug, Default)]
pub struct Software {
    entries: Vec<Entry>,
    /// The group and the index of each job.
    calls: Vec<(u32, u32)>,
    scratch: Scratch,
}

/// Memory for one call's results. It is on the heap, because arrays for the longest call would be copied at each
/// call.
#[derive(Debug, Default)]
struct Scratch {
    /// The bytes that were in the tags' places.
    given: Vec<[u8; TAG_BYTES_MAX]>,
    /// The tags that were made, and the status of their jobs so far.
    made: Vec<([u8; TAG_BYTES_MAX], JobStatus)>,
    /// The same for AEADs, whose tags are shorter.
    aead_given: Vec<[u8; AEAD_TAG_BYTES]>,
    aead_made: Vec<([u8; AEAD_TAG_BYTES], JobStatus)>,
    /// The places of messages in the staging, if their parts are not adjacent.
    staged: Vec<Option<Range<usize>>>,
    staging: Vec<u8>,
}

/// The jobs of one call, and the data that they refer to.
struct Call<'a> {
    direction: Direction,
    bytes: &'a mut [u8],
    sessions: &'a [Arc<Session>],
    jobs: &'a mut [Job],
    /// The group and index of each job of the call, in the order of their bytes.
    places: &'a [(u32, u32)],
    scratch: &'a mut Scratch,
}

/// The data that the stages use.
struct Stages<'a> {
    direction: Direction,
    bytes: &'a mut [u8],
    sessions: &'a [Arc<Session>],
    jobs: &'a mut [Job],
    calls: &'a mut Vec<(u32, u32)>,
    scratch: &'a mut Scratch,
}

impl Software {
    /// Runs every pending job of `work`; afterwards no job is pending.
    pub fn run(&mut self, work: &mut Work) {
        let Work { buffer, sessions, jobs, direction, .. } = work;
        let bytes = buffer.bytes_mut();
        self.entries.clear();
        for (index, job) in jobs.iter_mut().enumerate().filter(|(_, job)| job.status == JobStatus::Pending) {
            match hull(sessions, bytes.len(), job) {
                Some(hull) => self.entries.push(Entry {
                    start: hull.start as u32,
                    index: index as u32,
                    end: hull.end as u64,
                }),
                None => job.status = JobStatus::Malformed,
            }
        }
        let before = |a: &Entry, b: &Entry| a.end <= u64::from(b.start);
        let mut apart = self.entries.is_sorted_by(before);
        if !apart {
            self.entries.sort_unstable_by_key(|entry| (entry.start, entry.end));
            apart = self.entries.is_sorted_by(before);
        }
        let mut stages = Stages {
            direction: *direction,
            bytes,
            sessions,
            jobs,
            calls: &mut self.calls,
            scratch: &mut self.scratch,
        };
        if apart {
            stages.run(&self.entries);
        } else {
            self.entries.sort_unstable_by_key(|entry| entry.index);
            self.entries.chunks(1).for_each(|entry| stages.run(entry));
        }
    }
}

/// Returns the range from a job's first to its last byte, or `None` if its spans make no sense.
pub(crate) fn hull(sessions: &[Arc<Session>], buffer_bytes: usize, job: &Job) -> Option<Range<usize>> {
    let limits = sessions.get(usize::from(job.session))?.limits();
    let Job { clear, body, tag, .. } = *job;
    let inside = [clear, body, tag].into_iter().all(|span| span.end() <= buffer_bytes);
    let tag_fits = tag.len == limits.tag_bytes;
    let tag_apart = apart(tag, body) && (apart(tag, clear) || within(tag, clear));
    let whole = limits.granule_bytes == 1 || body.len.is_multiple_of(limits.granule_bytes);
    let hashed = job.clear.len as usize + job.body.len as usize + job.suffix.bytes().len();
    let short = hashed <= limits.message_bytes_max;
    let suffix_fits = job.suffix.front_bytes().is_none_or(|front| {
        let protection = sessions[usize::from(job.session)].protection();
        front <= clear.len as usize && protection.aead().is_some()
    });
    if !(inside && tag_fits && tag_apart && whole && short && suffix_fits && apart(clear, body)) {
        return None;
    }
    let spans = [clear, body, tag].into_iter().filter(|span| !span.is_empty());
    let start = spans.clone().map(|span| span.start as usize).min().unwrap_or(0);
    Some(start..spans.map(Span::end).max().unwrap_or(start))
}

fn apart(one: Span, other: Span) -> bool {
    one.is_empty()
        || other.is_empty()
        || one.end() <= other.start as usize
        || other.end() <= one.start as usize
}

fn within(inner: Span, outer: Span) -> bool {
    outer.start <= inner.start && inner.end() <= outer.end()
}

/// Returns the range of a span's bytes; an empty span gives the range 0 to 0.
fn place(span: Span) -> Range<usize> {
    if span.is_empty() { 0..0 } else { span.range() }
}

impl Stages<'_> {
    /// Runs jobs that do not overlap, in the order of their bytes.
    fn run(&mut self, entries: &[Entry]) {
        match self.direction {
            Direction::Seal => {
                self.ciphers(entries);
                self.aeads(entries);
                self.macs(entries);
            }
            Direction::Open => {
                self.macs(entries);
                self.aeads(entries);
                self.ciphers(entries);
            }
        }
        for entry in entries {
            let status = &mut self.jobs[entry.index as usize].status;
            if *status == JobStatus::Pending {
                *status = JobStatus::Done;
            }
        }
    }

    fn ciphers(&mut self, entries: &[Entry]) {
        self.stage(
            entries,
            |session| session.keys().cipher.as_ref().map(|part| part.group),
            |mut call, session| match session.protection() {
                Protection::ChainsThenMac { cipher, .. } => call.chains(session.kernels(), cipher),
                Protection::Cipher(cipher) | Protection::EncryptThenMac { cipher, .. } => {
                    call.cipher(session.kernels(), cipher);
                }
                Protection::Null
                | Protection::Aead(_)
                | Protection::ShortAead { .. }
                | Protection::Mac { .. } => {}
            },
        );
    }

    fn aeads(&mut self, entries: &[Entry]) {
        self.stage(
            entries,
            |session| session.keys().aead.as_ref().map(|part| part.group),
            |mut call, session| {
                let (kernels, Some((algorithm, _))) = (session.kernels(), session.protection().aead()) else {
                    return;
                };
                match session.keys().aead.as_ref().map(|part| &part.key) {
                    Some(AeadKeys::Either(..)) if call.is_own_cheaper(kernels, algorithm) => {
                        call.own_aead(kernels, algorithm);
                    }
                    Some(AeadKeys::Own(_)) => call.own_aead(kernels, algorithm),
                    Some(AeadKeys::Either(..) | AeadKeys::Library(_)) => call.library_aead(),
                    None => {}
                }
            },
        );
    }

    fn macs(&mut self, entries: &[Entry]) {
        self.stage(
            entries,
            |session| session.keys().mac.as_ref().map(|part| part.group),
            |mut call, session| call.mac(session.kernels()),
        );
    }

    /// Calls `run` with the pending jobs of every group, and a session of the group.
    fn stage(
        &mut self,
        entries: &[Entry],
        group: impl Fn(&Session) -> Option<u32>,
        run: impl Fn(Call<'_>, &Session),
    ) {
        if !self.sessions.iter().any(|session| group(session).is_some()) {
            return;
        }
        self.calls.clear();
        for entry in entries {
            let job = &self.jobs[entry.index as usize];
            let session = &self.sessions[usize::from(job.session)];
            if let Some(group) = group(session).filter(|_| job.status == JobStatus::Pending) {
                self.calls.push((group, entry.index));
            }
        }
        if !self.calls.is_sorted_by_key(|call| call.0) {
            let jobs = &*self.jobs;
            // The hull's start orders jobs that do not overlap; a job without bytes may be at any position.
            self.calls.sort_unstable_by_key(|&(group, index)| (group, start(&jobs[index as usize]), index));
        }
        for places in self.calls.chunk_by(|one, other| one.0 == other.0) {
            let Some(&(_, first)) = places.first() else { continue };
            let session = &self.sessions[usize::from(self.jobs[first as usize].session)];
            for places in places.chunks(CALL_MAX) {
                let call = Call {
                    direction: self.direction,
                    bytes: self.bytes,
                    sessions: self.sessions,
                    jobs: self.jobs,
                    places,
                    scratch: self.scratch,
                };
                run(call, session);
            }
        }
    }
}

fn start(job: &Job) -> u32 {
    let spans = [job.clear, job.body, job.tag].into_iter().filter(|span| !span.is_empty());
    spans.map(|span| span.start).min().unwrap_or(0)
}

/// Takes ranges in ascending order out of a slice.
struct Cut<'a> {
    rest: &'a mut [u8],
    passed: usize,
}

impl<'a> Cut<'a> {
    fn new(bytes: &'a mut [u8]) -> Self {
        Self { rest: bytes, passed: 0 }
    }

    fn take(&mut self, range: Range<usize>) -> &'a mut [u8] {
        if range.is_empty() {
            return &mut [];
        }
        let (_, rest) = std::mem::take(&mut self.rest).split_at_mut(range.start - self.passed);
        let (taken, rest) = rest.split_at_mut(range.len());
        (self.rest, self.passed) = (rest, range.end);
        taken
    }
}

/// The functions that run a call are not inlined: their arrays for the longest call would enlarge the caller's frame
/// as well, all of whose pages are touched at every call.
impl<'a> Call<'a> {
    fn way(&self) -> CipherDirection {
        match self.direction {
            Direction::Seal => CipherDirection::Encrypt,
            Direction::Open => CipherDirection::Decrypt,
        }
    }

    fn job(&self, place: (u32, u32)) -> &Job {
        &self.jobs[place.1 as usize]
    }

    /// Returns the session of a job, which outlives the borrow of the call.
    fn session(&self, place: (u32, u32)) -> &'a Session {
        &self.sessions[usize::from(self.job(place).session)]
    }

    fn cipher_keys(&self, place: (u32, u32)) -> Option<&'a CipherKeys> {
        self.session(place).keys().cipher.as_ref().map(|part| &part.key)
    }

    /// Runs one call of a cipher's kernels.
    #[inline(never)]
    fn cipher(&mut self, kernels: Kernels, algorithm: Cipher) {
        let way = self.way();
        let mut calls: ArrayVec<CipherJob<'_>, CALL_MAX> = ArrayVec::new();
        let mut cut = Cut::new(self.bytes);
        for &(_, index) in self.places {
            let job = &self.jobs[index as usize];
            let session: &Session = &self.sessions[usize::from(job.session)];
            let Some(part) = &session.keys().cipher else { continue };
            let body = Buffer::in_place(cut.take(place(job.body)));
            calls.push(CipherJob::new(&part.key.data, &job.iv, body));
        }
        if kernels.cipher(algorithm, way, &mut calls) > 0 {
            for (call, &(_, index)) in calls.iter().zip(self.places) {
                if call.status != Status::Done {
                    self.jobs[index as usize].status = JobStatus::Malformed;
                }
            }
        }
    }

    /// Enciphers or deciphers bodies in chains: each call runs as many chains as the kernel has ways.
    #[inline(never)]
    fn chains(&mut self, kernels: Kernels, cipher: BlockCipher) {
        let (way, places) = (self.way(), self.places);
        let mut chains: ArrayVec<(&CipherKeys, [u8; 16], &mut [u8]), CALL_MAX> = ArrayVec::new();
        let mut bodies: ArrayVec<(&CipherKeys, [u8; 16], Range<usize>), CALL_MAX> = ArrayVec::new();
        for &at in places {
            if let Some(keys) = self.cipher_keys(at) {
                let job = self.job(at);
                bodies.push((keys, job.iv, place(job.body)));
            }
        }
        let mut cut = Cut::new(self.bytes);
        for (keys, mut iv, body) in bodies {
            let Some(bytes) = keys.chains.as_ref().map(|chains| chains.bytes) else { continue };
            for chain in cut.take(body).chunks_mut(bytes) {
                chains.push((keys, iv, chain));
                increase(&mut iv[..cipher.block_bytes()], 1);
                if chains.is_full() {
                    run_chains(kernels, cipher, way, &mut chains);
                    chains.clear();
                }
            }
        }
        run_chains(kernels, cipher, way, &mut chains);
    }

    /// Returns whether our kernels run these jobs at no higher cost than AWS-LC.
    fn is_own_cheaper(&self, kernels: Kernels, algorithm: Aead) -> bool {
        let mut jobs = AeadTotals::default();
        for &place in self.places {
            let job = self.job(place);
            jobs.add(job.body.len as usize, job.clear.len as usize + job.suffix.bytes().len());
        }
        kernels.is_own_cheaper(algorithm, self.way(), jobs)
    }

    /// Runs one call of an AEAD's kernels.
    #[inline(never)]
    fn own_aead(&mut self, kernels: Kernels, algorithm: Aead) {
        self.scratch.aead_given.clear();
        let mut has_suffix = false;
        for &(_, index) in self.places {
            let job = &self.jobs[index as usize];
            let tag = &mut self.bytes[place(job.tag)];
            // The plan lets no job through with a longer tag than its session's.
            let mut given = [0; AEAD_TAG_BYTES];
            given[..tag.len()].copy_from_slice(tag);
            self.scratch.aead_given.push(given);
            if !apart(job.tag, job.clear) {
                tag.fill(0);
            }
            has_suffix |= !job.suffix.bytes().is_empty();
        }
        self.scratch.staged.clear();
        if has_suffix {
            self.stage_messages(|job| !job.suffix.bytes().is_empty(), clear_parts);
        }
        let Scratch { aead_given: given, aead_made: made, staged, staging, .. } = &mut *self.scratch;
        made.clear();
        {
            let mut calls: ArrayVec<AeadJob<'_>, CALL_MAX> = ArrayVec::new();
            let mut cut = Cut::new(self.bytes);
            for (at, (&(_, index), given)) in self.places.iter().zip(&*given).enumerate() {
                let job = &self.jobs[index as usize];
                let session: &Session = &self.sessions[usize::from(job.session)];
                let Some(key) = session.keys().aead.as_ref().and_then(|part| part.key.own()) else {
                    continue;
                };
                let (clear, body) = (place(job.clear), place(job.body));
                let hull = start(job) as usize;
                let hull_bytes = cut.take(hull..clear.end.max(body.end).max(hull));
                let inner = |range: Range<usize>| match range.is_empty() {
                    true => 0..0,
                    false => range.start - hull..range.end - hull,
                };
                let parts = hull_bytes.get_disjoint_mut([inner(clear), inner(body)]);
                let [clear, body] = parts.expect("the plan lets no job through whose spans overlap");
                let staged = staged.get(at).and_then(Option::as_ref);
                let aad = staged.map_or(&*clear, |range| &staging[range.clone()]);
                let nonce = *job.iv.first_chunk().expect("an IV's room holds a nonce");
                let body = Buffer::in_place(body);
                calls.push(match self.direction {
                    Direction::Seal => AeadJob::seal(key, nonce, aad, body),
                    Direction::Open => AeadJob::open(key, nonce, aad, body, *given),
                });
            }
            match self.direction {
                Direction::Seal => kernels.seal(algorithm, &mut calls),
                Direction::Open => kernels.open(algorithm, &mut calls),
            };
            made.extend(calls.iter().map(|call| {
                let status = match call.status {
                    Status::Done => JobStatus::Pending,
                    Status::Forged => JobStatus::Forged,
                    Status::Pending | Status::WrongKey | Status::BadLength => JobStatus::Malformed,
                };
                (call.tag, status)
            }));
        }
        for (&(made, status), (given, &(_, index))) in made.iter().zip(given.iter().zip(self.places)) {
            let job = &mut self.jobs[index as usize];
            let sealed = self.direction == Direction::Seal && status == JobStatus::Pending;
            let tag = if sealed { &made } else { given };
            put_tag(self.bytes, job.tag, tag);
            job.status = status;
        }
    }

    /// Runs a library's AEAD on one job after the other.
    fn library_aead(&mut self) {
        for &(_, index) in self.places {
            let job = &mut self.jobs[index as usize];
            let session = &self.sessions[usize::from(job.session)];
            let Some(key) = session.keys().aead.as_ref().and_then(|part| part.key.library()) else {
                continue;
            };
            job.status = match library_aead(self.direction, key, self.bytes, job, &mut self.scratch.staging) {
                Some(()) => JobStatus::Pending,
                None => JobStatus::Forged,
            };
        }
    }

    /// Runs one call of a digest's kernels, or many calls of a library.
    #[inline(never)]
    fn mac(&mut self, kernels: Kernels) {
        self.take_tags();
        self.stage_messages(|job| message(job).is_none(), |job| [place(job.clear), place(job.body)]);
        let Scratch { given, made, staged, staging, .. } = &mut *self.scratch;
        made.clear();
        {
            let mut calls: ArrayVec<DigestJob<'_>, CALL_MAX> = ArrayVec::new();
            for (&(_, index), staged) in self.places.iter().zip(&*staged) {
                let job = &self.jobs[index as usize];
                let session: &Session = &self.sessions[usize::from(job.session)];
                let Some(part) = &session.keys().mac else { continue };
                let message = match staged {
                    Some(range) => &staging[range.clone()],
                    None => &self.bytes[message(job).unwrap_or_default()],
                };
                match &part.key {
                    MacKey::Digest(key) => {
                        let mut call = DigestJob::new(key, message);
                        call.nonce.copy_from_slice(&job.iv[..12]);
                        calls.push(call);
                    }
                    MacKey::KeyedBlake3(key) => {
                        let tag = blake3::keyed_hash(key, message);
                        made.push((widen(tag.as_bytes()), JobStatus::Pending));
                    }
                    MacKey::Tree(key) => made.push(match key.subtree(&job.iv, message) {
                        Some(value) => (widen(&value), JobStatus::Pending),
                        None => ([0; TAG_BYTES_MAX], JobStatus::Malformed),
                    }),
                }
            }
            if let Some(algorithm) = calls.first().map(|call| call.key.algorithm()) {
                kernels.digest(algorithm, &mut calls);
                made.extend(calls.iter().map(|call| (widen(&call.output), JobStatus::Pending)));
            }
        }
        for ((made, given), &(_, index)) in made.iter().zip(given).zip(self.places) {
            let job = &mut self.jobs[index as usize];
            let (tag, status) = made;
            let tag_bytes = job.tag.len as usize;
            // A chaining value is written in both directions.
            let is_written = self.direction == Direction::Seal
                || matches!(
                    self.sessions[usize::from(job.session)].protection().mac(),
                    Some(Mac::Subtree { .. })
                );
            if *status == JobStatus::Malformed {
                put_tag(self.bytes, job.tag, given);
                job.status = JobStatus::Malformed;
            } else if is_written {
                put_tag(self.bytes, job.tag, tag);
            } else {
                put_tag(self.bytes, job.tag, given);
                if !bool::from(tag[..tag_bytes].ct_eq(&given[..tag_bytes])) {
                    job.status = JobStatus::Forged;
                }
            }
        }
    }

    /// Saves the bytes in the tags' places. Then writes the bytes that are to be hashed there: zeros if a tag is
    /// within clear bytes, a suffix if the tag is right behind the message.
    fn take_tags(&mut self) {
        self.scratch.given.clear();
        for &(_, index) in self.places {
            let job = &self.jobs[index as usize];
            let tag = &mut self.bytes[place(job.tag)];
            self.scratch.given.push(widen(tag));
            if !apart(job.tag, job.clear) {
                tag.fill(0);
            } else if message(job).is_some() {
                // A message with a suffix is contiguous only if the suffix fits into the tag's place.
                let suffix = job.suffix.bytes();
                tag[..suffix.len()].copy_from_slice(suffix);
            }
        }
    }

    /// Assembles the messages for which `is_staged` returns true, each from two ranges and the suffix behind or
    /// between them.
    fn stage_messages(
        &mut self,
        is_staged: impl Fn(&Job) -> bool,
        ranges: impl Fn(&Job) -> [Range<usize>; 2],
    ) {
        let Scratch { staged, staging, .. } = &mut *self.scratch;
        staged.clear();
        staging.clear();
        for &(_, index) in self.places {
            let job = &self.jobs[index as usize];
            staged.push(is_staged(job).then(|| stage_message(staging, self.bytes, job, ranges(job))));
        }
    }
}

/// Appends a message to the staging: two ranges and the suffix behind or between them. Returns its place.
fn stage_message(staging: &mut Vec<u8>, bytes: &[u8], job: &Job, ranges: [Range<usize>; 2]) -> Range<usize> {
    let start = staging.len();
    let [first, second] = ranges.map(|range| &bytes[range]);
    let suffix = job.suffix.bytes();
    let parts = match job.suffix.front_bytes() {
        Some(_) => [first, suffix, second],
        None => [first, second, suffix],
    };
    match parts.map(<[u8; 4]>::try_from) {
        // These are the SPI and both halves of a number (RFC 4106, section 5): parts whose lengths are known are
        // copied without a function call.
        [Ok(first), Ok(second), Ok(third)] => {
            staging.extend_from_slice([first, second, third].as_flattened());
        }
        _ => parts.into_iter().for_each(|part| staging.extend_from_slice(part)),
    }
    start..staging.len()
}

/// Returns the ranges of an AEAD's clear bytes in front of the suffix and behind it.
fn clear_parts(job: &Job) -> [Range<usize>; 2] {
    let clear = place(job.clear);
    match job.suffix.front_bytes() {
        Some(front) => [clear.start..clear.start + front, clear.start + front..clear.end],
        None => [clear, 0..0],
    }
}

/// Returns a tag in an array with room for the longest tag.
fn widen(tag: &[u8]) -> [u8; TAG_BYTES_MAX] {
    let mut wide = [0; TAG_BYTES_MAX];
    wide[..tag.len()].copy_from_slice(tag);
    wide
}

fn put_tag(bytes: &mut [u8], span: Span, tag: &[u8]) {
    bytes[place(span)].copy_from_slice(&tag[..span.len as usize]);
}

/// Returns the range of the bytes that a MAC takes if they are contiguous, with the suffix in the tag's place.
pub(crate) fn message(job: &Job) -> Option<Range<usize>> {
    let (clear, body) = (place(job.clear), place(job.body));
    let both = match (clear.is_empty(), body.is_empty()) {
        (_, true) => clear,
        (true, false) => body,
        (false, false) if clear.end == body.start => clear.start..body.end,
        (false, false) => return None,
    };
    let suffix_bytes = job.suffix.bytes().len();
    if suffix_bytes == 0 {
        return Some(both);
    }
    let behind = job.tag.start as usize == both.end && !both.is_empty();
    let has_room = behind && suffix_bytes <= job.tag.len as usize;
    has_room.then_some(both.start..both.end + suffix_bytes)
}

/// Computes the chains' IVs from their numbers, then runs the chains.
fn run_chains(
    kernels: Kernels,
    cipher: BlockCipher,
    way: CipherDirection,
    chains: &mut [(&CipherKeys, [u8; 16], &mut [u8])],
) {
    let block_bytes = cipher.block_bytes();
    {
        let mut calls: ArrayVec<CipherJob<'_>, CALL_MAX> = ArrayVec::new();
        for (keys, iv, _) in chains.iter_mut() {
            if let Some(chains) = &keys.chains {
                let iv = Buffer::in_place(&mut iv[..block_bytes]);
                calls.push(CipherJob::new(&chains.ivs, &[], iv));
            }
        }
        kernels.encrypt(Cipher::Block(cipher, Mode::Ecb), &mut calls);
    }
    let mut calls: ArrayVec<CipherJob<'_>, CALL_MAX> = chains
        .iter_mut()
        .map(|(keys, iv, bytes)| CipherJob::new(&keys.data, iv, Buffer::in_place(bytes)))
        .collect();
    kernels.cipher(Cipher::Block(cipher, Mode::Cbc), way, &mut calls);
}

fn library_aead(
    direction: Direction,
    key: &aead::LessSafeKey,
    bytes: &mut [u8],
    job: &Job,
    staging: &mut Vec<u8>,
) -> Option<()> {
    let (clear, body, tag) = (place(job.clear), place(job.body), place(job.tag));
    let mut given = [0; 16];
    given.copy_from_slice(&bytes[tag.clone()]);
    let tag_within = !apart(job.tag, job.clear);
    if tag_within {
        bytes[tag.clone()].fill(0);
    }
    staging.clear();
    let suffixed = !job.suffix.bytes().is_empty();
    if suffixed {
        stage_message(staging, bytes, job, clear_parts(job));
    }
    let nonce = *job.iv.first_chunk().expect("an IV's room holds a nonce");
    let nonce = aead::Nonce::assume_unique_for_key(nonce);
    let behind = direction == Direction::Open && !tag_within && tag.start == body.end && !body.is_empty();
    let in_place = if behind { body.start..tag.end } else { body };
    let [clear, body] = bytes.get_disjoint_mut([clear, in_place]).ok()?;
    match direction {
        Direction::Seal => {
            let aad = aead::Aad::from(if suffixed { staging.as_slice() } else { &*clear });
            let made = key.seal_in_place_separate_tag(nonce, aad, body).ok()?;
            bytes[tag].copy_from_slice(made.as_ref());
        }
        Direction::Open if behind => {
            let aad = aead::Aad::from(if suffixed { staging.as_slice() } else { &*clear });
            key.open_in_place(nonce, aad, body).ok()?;
        }
        Direction::Open => {
            // The library takes the tag right behind the body.
            let aad_bytes = staging.len();
            staging.extend_from_slice(body);
            staging.extend_from_slice(&given);
            let (staged_aad, sealed) = staging.split_at_mut(aad_bytes);
            let aad = aead::Aad::from(if suffixed { &*staged_aad } else { &*clear });
            let opened = key.open_in_place(nonce, aad, sealed).map(|plain| body.copy_from_slice(plain));
            bytes[tag].copy_from_slice(&given);
            opened.ok()?;
        }
    }
    Some(())
}
