//! A tree hash in subtrees: merged subtrees that were computed separately give the same result as the whole message,
//! at every boundary, for any number of parts and any place of the tag; a change anywhere is detected as forged.

use std::{collections::VecDeque, num::NonZeroUsize, sync::Arc};

use proptest::prelude::*;
use sealane_engine::{
    Buffer, CHAINING_BYTES, Direction, Engine, Implementations, Inline, Job, JobStatus, Mac, Protection,
    Session, Span, Suffix, Work,
};
use sealane_transform::{Digest, Isa, Kernels, LEAF_BYTES, Tier};

const UNKEYED: Protection = Protection::Mac { mac: Mac::Digest(Digest::Blake3), tag_bytes: 32 };
const KEYED: Protection = Protection::Mac { mac: Mac::KeyedBlake3, tag_bytes: 32 };
const KEY: [u8; 32] = [0x6b; 32];

/// The place of a tag.
#[derive(Clone, Copy, Debug)]
enum Layout {
    /// The tag is in the message, as in a header: its bytes count as zero.
    Within,
    Before,
    Behind,
    /// The tag is behind a message whose second half is a body.
    BehindBody,
}

const LAYOUTS: [Layout; 4] = [Layout::Within, Layout::Before, Layout::Behind, Layout::BehindBody];

fn slow() -> Kernels {
    Kernels::select(Some(Tier::Reference), None).unwrap()
}

/// Returns kernels whose vectors hold 1 leaf, then as many as this machine supports.
fn kernels() -> Vec<Kernels> {
    let isas = Isa::ALL.into_iter().filter(|&isa| isa <= Kernels::best().isa());
    std::iter::once(slow()).chain(isas.map(|isa| Kernels::select(None, Some(isa)).unwrap())).collect()
}

fn session(kernels: Kernels, protection: Protection) -> Arc<Session> {
    Arc::new(Session::with(kernels, protection, &KEY[..protection.key_bytes()]).unwrap())
}

fn tag_of(protection: Protection, message: &[u8]) -> [u8; 32] {
    *if protection == KEYED { blake3::keyed_hash(&KEY, message) } else { blake3::hash(message) }.as_bytes()
}

/// Returns a work of one job over `bytes` bytes at an unaligned position.
fn work(session: &Arc<Session>, bytes: u32, layout: Layout, direction: Direction) -> Work {
    let (message, tag) = match layout {
        Layout::Within => (Span::new(7, bytes), Span::new(7 + 4, 32)),
        Layout::Before => (Span::new(39, bytes), Span::new(5, 32)),
        Layout::Behind | Layout::BehindBody => (Span::new(7, bytes), Span::new(7 + bytes + 3, 32)),
    };
    let clear_bytes = if matches!(layout, Layout::BehindBody) { bytes / 2 } else { bytes };
    let clear = Span::new(message.start, clear_bytes);
    let body = Span::new(clear.end() as u32, bytes - clear_bytes);
    let mut buffer = Buffer::new(message.end().max(tag.end()) + 9);
    buffer.bytes_mut().iter_mut().zip(0u32..).for_each(|(byte, at)| *byte = (at * 7 + at / 251) as u8);
    let jobs = vec![Job { clear, body, tag, ..Job::default() }];
    Work { buffer, sessions: vec![session.clone()], jobs, direction, ..Work::default() }
}

fn copy_of(work: &Work) -> Work {
    let mut buffer = Buffer::new(work.buffer.capacity_bytes());
    buffer.bytes_mut().copy_from_slice(work.buffer.bytes());
    let (sessions, jobs) = (work.sessions.clone(), work.jobs.clone());
    Work { buffer, sessions, jobs, direction: work.direction, ..Work::default() }
}

fn run(work: Work) -> Work {
    let mut queue = Inline::default().queue(NonZeroUsize::MIN).unwrap();
    queue.submit(&mut VecDeque::from([work]));
    queue.finished().unwrap()
}

/// Returns the message in the form in which it is hashed.
fn hashed(work: &Work) -> Vec<u8> {
    let Job { clear, body, tag, .. } = work.jobs[0];
    let mut bytes = work.buffer.bytes().to_vec();
    if clear.start <= tag.start && tag.end() <= clear.end() {
        bytes[tag.range()].fill(0);
    }
    bytes[clear.start as usize..body.end().max(clear.end())].to_vec()
}

/// Runs a subtree's job in a separate buffer, in either direction; `change` may modify its bytes.
fn elsewhere(work: &Work, job: &Job, change: impl Fn(&mut [u8])) -> [u8; 32] {
    let subtrees = session_of(work).subtrees().unwrap();
    let len = job.clear.len;
    let mut buffer = Buffer::new(len as usize + CHAINING_BYTES);
    buffer.bytes_mut()[..len as usize].copy_from_slice(&work.buffer.bytes()[job.clear.range()]);
    change(&mut buffer.bytes_mut()[..len as usize]);
    let tag = Span::new(len, CHAINING_BYTES as u32);
    let jobs = vec![Job { session: 0, clear: Span::new(0, len), body: Span::new(len, 0), tag, ..*job }];
    let sessions = vec![subtrees.clone()];
    let part = run(Work { buffer, sessions, jobs, direction: work.direction, ..Work::default() });
    assert_eq!(part.jobs[0].status, JobStatus::Done);
    *part.buffer.bytes()[tag.range()].first_chunk().unwrap()
}

fn session_of(work: &Work) -> &Arc<Session> {
    &work.sessions[0]
}

/// Runs a work's only job in subtrees, and returns how many there were; `None` if the job cannot be cut and is
/// unchanged. `spoilt` is the number of the subtree of which a byte is changed before it is hashed.
fn apart(mut work: Work, parts: usize, spoilt: Option<usize>) -> (Work, Option<usize>) {
    let whole = work.jobs[0];
    let message = whole.clear.start..whole.body.end().max(whole.clear.end()) as u32;
    let before = copy_of(&work);
    let Some((tree, others)) = work.cut_tree(0, parts) else {
        assert_eq!((&work.jobs, work.sessions.len()), (&before.jobs, 1));
        return (run(work), None);
    };
    assert_eq!(tree.job(), 0);
    let pieces: Vec<Span> = std::iter::once(&work.jobs[0]).chain(&others).map(|job| job.clear).collect();
    let tiled = pieces.windows(2).all(|pair| pair[0].end() == pair[1].start as usize);
    assert!(
        tiled && pieces[0].start == message.start && pieces[pieces.len() - 1].end() == message.end as usize
    );
    let values: Vec<_> = (1..)
        .zip(&others)
        .map(|(number, job)| {
            let change = |bytes: &mut [u8]| bytes[bytes.len() / 3] ^= u8::from(spoilt == Some(number));
            (job.clear.start, elsewhere(&work, job, change))
        })
        .collect();
    if spoilt == Some(0) {
        // This byte is behind the tag, if the tag is in the message.
        work.buffer.bytes_mut()[message.start as usize + 100] ^= 1;
    }
    let mut work = run(work);
    // The lanes finish in another order.
    work.join_tree(&tree, values.into_iter().rev());
    (work, Some(pieces.len()))
}

fn check(
    kernels: Kernels,
    protection: Protection,
    bytes: u32,
    layout: Layout,
    parts: usize,
) -> Option<usize> {
    let at = (protection, bytes, layout, parts);
    let session = session(kernels, protection);
    let plain = work(&session, bytes, layout, Direction::Seal);
    let tag = tag_of(protection, &hashed(&plain));
    let whole = run(copy_of(&plain));
    let span = whole.jobs[0].tag;
    assert_eq!(whole.buffer.bytes()[span.range()], tag, "{at:?}");
    let (sealed, pieces) = apart(plain, parts, None);
    assert_eq!(sealed.jobs, whole.jobs, "{at:?}");
    assert!(sealed.buffer.bytes() == whole.buffer.bytes(), "{at:?}");
    let pending = Job { status: JobStatus::Pending, ..sealed.jobs[0] };
    let sealed = Work { jobs: vec![pending], direction: Direction::Open, ..sealed };
    let sealed = Work { sessions: vec![session], ..sealed };
    let (opened, again) = apart(copy_of(&sealed), parts, None);
    assert_eq!((opened.jobs[0].status, again), (JobStatus::Done, pieces), "{at:?}");
    assert!(opened.buffer.bytes() == sealed.buffer.bytes(), "{at:?}: what is opened stays");
    for piece in 0..pieces.unwrap_or(0) {
        let (forged, _) = apart(copy_of(&sealed), parts, Some(piece));
        assert_eq!(forged.jobs[0].status, JobStatus::Forged, "{at:?}, {piece}");
    }
    let mut forged = copy_of(&sealed);
    forged.buffer.bytes_mut()[span.start as usize + 31] ^= 0x80;
    let given = copy_of(&forged);
    let (forged, _) = apart(forged, parts, None);
    assert_eq!(forged.jobs[0].status, JobStatus::Forged, "{at:?}");
    assert!(forged.buffer.bytes() == given.buffer.bytes(), "{at:?}: a tag stays");
    pieces
}

#[test]
fn subtrees_make_what_the_whole_makes_at_every_boundary() {
    let around = |leaves: u32| [1024 * leaves - 1, 1024 * leaves, 1024 * leaves + 1];
    let bounds = [1, 2, 3, 4, 7, 8, 9, 16, 17, 31, 32, 33, 63, 64].map(around);
    let lengths = [100, 1060].into_iter().chain(bounds.into_iter().flatten());
    for kernels in kernels() {
        let is_slow = kernels.tier() == Some(Tier::Reference);
        for bytes in lengths.clone().chain([65_536 + 36]) {
            if is_slow && bytes > 20_000 && bytes != 65_536 + 36 {
                continue;
            }
            for (layout, parts) in LAYOUTS.into_iter().zip([2, 3, 8, 5]).chain([(Layout::Within, 2)]) {
                for protection in [UNKEYED, KEYED] {
                    let pieces = check(kernels, protection, bytes, layout, parts);
                    let fewest = kernels.blake3_leaves(protection == KEYED) as u32;
                    let is_cut = bytes.div_ceil(1024) >= 2 * fewest;
                    assert_eq!(pieces.is_some(), is_cut, "{protection:?}, {bytes}, {layout:?}, {parts}");
                }
            }
        }
    }
}

#[test]
fn messages_of_hardly_any_bytes_stay_whole() {
    for bytes in [0, 1, 31, 64] {
        for protection in [UNKEYED, KEYED] {
            assert_eq!(check(slow(), protection, bytes, Layout::Behind, 2), None);
        }
    }
}

/// Returns the number of leaves of each subtree.
fn leaves(kernels: Kernels, leaves: u32, parts: usize) -> Vec<usize> {
    let bytes = leaves * LEAF_BYTES as u32 - 10;
    let mut work = work(&session(kernels, UNKEYED), bytes, Layout::Within, Direction::Seal);
    let Some((_, others)) = work.cut_tree(0, parts) else { return Vec::new() };
    std::iter::once(&work.jobs[0])
        .chain(&others)
        .map(|job| job.clear.range().len().div_ceil(LEAF_BYTES))
        .collect()
}

#[test]
fn shares_are_as_even_as_a_tree_can_be_cut() {
    let cut = |count: u32, parts: usize| leaves(slow(), count, parts);
    assert_eq!(cut(65, 2), [32, 32, 1]);
    assert_eq!(cut(64, 2), [32, 32]);
    assert_eq!(cut(63, 2), [32, 31], "not 16 and 47");
    assert_eq!(cut(48, 2).len(), 3);
    assert_eq!(cut(9, 2), [4, 4, 1]);
    assert_eq!(cut(65, 3), [16, 16, 16, 16, 1]);
    assert_eq!(cut(65, 4), [16, 16, 16, 16, 1]);
    assert_eq!(cut(127, 8), [[16; 7].as_slice(), &[15]].concat());
    assert_eq!(cut(2, 2), [1, 1]);
    assert_eq!(cut(2, 8), [1, 1]);
    for parts in [0, 1] {
        assert_eq!(cut(65, parts), []);
    }
    assert_eq!(cut(1, 2), []);
}

/// If a vector holds several leaves, fewer leaves per lane gain nothing: a packet of 4 KB stays whole.
#[test]
fn no_lane_gets_less_than_a_vector() {
    for kernels in kernels() {
        let fewest = kernels.blake3_leaves(false);
        for count in 1..80u32 {
            for parts in 2..9 {
                let cut = leaves(kernels, count, parts);
                assert_eq!(cut.is_empty(), (count as usize) < 2 * fewest, "{count} leaves");
                assert!(cut.first().is_none_or(|&leaves| leaves >= fewest), "{cut:?}");
            }
        }
    }
}

#[test]
fn what_does_not_come_apart_stays_as_it_is() {
    let bytes = 65 * 1024;
    let uncut = |protection, change: &dyn Fn(&mut Work)| {
        let mut work = work(&session(slow(), protection), bytes, Layout::Within, Direction::Seal);
        change(&mut work);
        let before = copy_of(&work);
        assert!(work.cut_tree(0, 2).is_none(), "{protection:?} {:?}", before.jobs);
        assert_eq!((&work.jobs, work.sessions.len()), (&before.jobs, before.sessions.len()));
        assert!(work.buffer.bytes() == before.buffer.bytes());
    };
    let md5 = Protection::Mac { mac: Mac::Digest(Digest::Md5), tag_bytes: 16 };
    uncut(md5, &|work| work.jobs[0].tag.len = 16);
    let short = Protection::Mac { mac: Mac::KeyedBlake3, tag_bytes: 16 };
    uncut(short, &|work| work.jobs[0].tag.len = 16);
    uncut(UNKEYED, &|work| work.jobs[0].suffix = Suffix::from([1; 4]));
    uncut(UNKEYED, &|work| work.jobs[0].tag.start += 40_000);
    uncut(UNKEYED, &|work| work.jobs[0].tag.start = 7 + 32 * 1024 - 16);
    uncut(UNKEYED, &|work| work.jobs[0].tag.start = u32::MAX);
    uncut(UNKEYED, &|work| work.jobs[0].clear.len = u32::MAX);
    uncut(UNKEYED, &|work| work.jobs[0].status = JobStatus::Done);
    uncut(UNKEYED, &|work| work.jobs[0].session = 3);
    uncut(UNKEYED, &|work| work.jobs.clear());
    // The clear bytes and the body are not adjacent.
    uncut(UNKEYED, &|work| {
        work.jobs[0].clear.len -= 2000;
        work.jobs[0].body = Span::new(work.jobs[0].clear.end() as u32 + 1, 1000);
    });
}

/// A lane that has computed nothing leaves no digest behind, and the bytes in the tag's place are restored.
#[test]
fn a_subtree_that_is_missing_makes_the_job_malformed() {
    for direction in [Direction::Seal, Direction::Open] {
        let whole = work(&session(slow(), UNKEYED), 65 * 1024, Layout::Within, direction);
        for has_run in [false, true] {
            let mut work = copy_of(&whole);
            let (tree, others) = work.cut_tree(0, 2).unwrap();
            let values = others.iter().skip(usize::from(has_run)).map(|job| (job.clear.start, [0; 32]));
            let values: Vec<_> = values.collect();
            let mut work = if has_run { run(work) } else { work };
            work.join_tree(&tree, values);
            assert_eq!(work.jobs[0], Job { status: JobStatus::Malformed, ..whole.jobs[0] });
            assert_eq!(work.buffer.bytes()[12..], whole.buffer.bytes()[12..]);
        }
    }
}

/// A subtree's job ends in a status, even if its position is impossible.
#[test]
fn jobs_of_subtrees_that_there_cannot_be_are_malformed() {
    for kernels in kernels() {
        for protection in [UNKEYED, KEYED] {
            let session = session(kernels, protection).subtrees().unwrap().clone();
            for (leaf, bytes) in [(0u64, 0u32), (1, 1025), (2, 2049), (u64::MAX, 10), (1 << 54, 10)] {
                for direction in [Direction::Seal, Direction::Open] {
                    let mut work = work(&session, bytes, Layout::Behind, direction);
                    work.jobs[0].iv[..8].copy_from_slice(&leaf.to_le_bytes());
                    let before = copy_of(&work);
                    let work = run(work);
                    assert_eq!(work.jobs[0].status, JobStatus::Malformed, "{leaf}, {bytes}");
                    assert!(work.buffer.bytes() == before.buffer.bytes());
                }
            }
        }
    }
}

#[test]
fn a_session_of_subtrees_takes_its_digests_key() {
    for (is_keyed, key_bytes) in [(false, 0), (true, 32)] {
        let protection = Protection::Mac { mac: Mac::Subtree { is_keyed }, tag_bytes: 32 };
        assert_eq!((protection.key_bytes(), protection.iv_bytes()), (key_bytes, 8));
        assert!(Session::with(Kernels::best(), protection, &KEY[..key_bytes]).unwrap().subtrees().is_none());
        assert!(Session::with_keys(Kernels::best(), protection, &[], &KEY[..31]).is_err());
        assert_ne!(Implementations::default().name(protection), "none");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_length_in_any_number_of_parts(
        bytes in 36..80_000u32,
        layout in prop::sample::select(&LAYOUTS),
        parts in 0..12usize,
        is_keyed: bool,
    ) {
        let kernels = Kernels::select(Some(Tier::Native), None).unwrap();
        check(kernels, if is_keyed { KEYED } else { UNKEYED }, bytes, layout, parts);
    }
}
