//! Tests of both ends' lanes, over sockets and in threads, on an engine that answers late, out of order, and not for
//! all jobs: every byte arrives in its place, and no nonce protects two texts.

use std::{
    fs,
    os::unix::net::UnixStream,
    sync::{Arc, atomic::Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use sealane_engine::record::Secret;
use sealane_engine::{Engine, EngineChoice, Implementations, Lanes, Suite};
use sealane_lanes::Placement;
use sealane_tree::{Naming, Source, SourceRoot, Target, TargetOptions, WalkOptions};

use crate::{
    late_engine::LateEngine,
    options::{Compression, Delta, Level, Wishes},
    proto::keys::TransferKeys,
    receive::{self, files::Destination, permit::Permit},
    send::{self, scan},
    socket::Socket,
    transfer::{
        ends::{self, Plan},
        terms::Terms,
    },
};

const LARGE_BYTES: usize = 12 << 20;
const SMALL_FILES: usize = 400;
/// The time after which a copy is given up: nobody opens a connection anew here if a lane finds it stalled, which it
/// must not while other programs have the processors.
const PATIENCE: Duration = Duration::from_secs(120);

/// Copies a tree from one end to the other in this process.
fn copy(engine: Arc<dyn Engine>, placement: Placement, suite: Suite, streams: u16, lanes: u16) {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("tree"), folder.path().join("copy"));
    fs::create_dir(&from).unwrap();
    fs::create_dir(&to).unwrap();
    let large: Vec<u8> = (0..LARGE_BYTES).map(|at| (at / 7 + at / 4093) as u8).collect();
    fs::write(from.join("large"), &large).unwrap();
    for index in 0..SMALL_FILES {
        fs::write(from.join(index.to_string()), index.to_le_bytes().repeat(index)).unwrap();
    }

    let (level, streams_max, compression) = (Level::Private, streams, Compression::None);
    let delta = Delta::Never;
    let terms = Terms { level, suite, streams, streams_max, lanes, placement, compression, delta };
    let wishes = Wishes { timeout: PATIENCE, ..Wishes::default() };
    let plan = Plan { open_files_max: 64, ..Plan::of(wishes, terms, engine) };
    let source = Source::new(vec![SourceRoot::open(&from, &Naming::Basename, false).unwrap()]);
    let (notices, _kept) = crossbeam_channel::unbounded();
    let sending = ends::sending(&plan, Default::default(), notices.clone(), Arc::default()).unwrap();
    let target = Target::open(&to, TargetOptions::default()).unwrap();
    let destination = Destination::Tree { target, sole: None, shown: to.clone() };
    let permit = Permit::new(None, [b"tree".as_slice()], true, false);
    let receiving = ends::receiving(&plan, destination, permit, None, notices, Arc::default()).unwrap();
    let keys = TransferKeys::new(Default::default(), &Secret::new([7; 32]), b"request", b"answer");
    for (sender, receiver) in sending.streams.iter().zip(&receiving.streams) {
        let ends = UnixStream::pair().unwrap();
        let [near, far] = <[UnixStream; 2]>::from(ends).map(|end| Socket::new(end.into()).unwrap());
        receiver.open(&keys, 1, far);
        let _ = sender.open(&keys, 1, near, 0);
    }
    thread::scope(|scope| {
        for lane in 0..usize::from(lanes) {
            let (sending, receiving, source) = (&sending, &receiving, &source);
            scope.spawn(move || send::lane::run(sending, lane, source.reader()));
            scope.spawn(move || receive::lane::run(receiving, lane));
        }
        scan::run(&sending, source.walk(WalkOptions { recursive: true, ..WalkOptions::default() }), || {
            source.reader()
        });
        sending.bells.ring();
        let is_over = || sending.filling.queue.is_done() || sending.stop.is_set() || receiving.stop.is_set();
        let begun = Instant::now();
        while !is_over() && begun.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(1));
        }
        let is_done = sending.filling.queue.is_done();
        let reasons = [sending.stop.reason(), receiving.stop.reason()];
        sending.stop.finish(&sending.bells);
        receiving.stop.finish(&receiving.bells);
        assert!(is_done && reasons.iter().all(Option::is_none), "done: {is_done}, {reasons:?}");
    });
    let copied = to.join("tree");
    assert!(fs::read(copied.join("large")).unwrap() == large, "the large file");
    for index in 0..SMALL_FILES {
        let content = fs::read(copied.join(index.to_string())).unwrap();
        assert!(content == index.to_le_bytes().repeat(index), "file {index}");
    }
}

#[test]
fn lanes_on_a_late_engine_lose_nothing() {
    let cases = [
        (Placement::Packet, Suite::Aes128Gcm, 1, 3),
        (Placement::Packet, Suite::ChaCha20Poly1305, 2, 2),
        (Placement::Connection, Suite::Aes256Gcm, 3, 2),
        (Placement::Packet, Suite::TripleDesCbcHmacSha1, 1, 2),
    ];
    for (seed, (placement, suite, streams, lanes)) in (0..).zip(cases) {
        let late = Arc::new(LateEngine::new(seed));
        copy(Arc::clone(&late) as Arc<dyn Engine>, placement, suite, streams, lanes);
        let done = late.done();
        assert!(done.pending_jobs.load(Relaxed) > 50 && done.refusals.load(Relaxed) > 5, "{done:?}");
        let takes_nonces = suite != Suite::TripleDesCbcHmacSha1;
        assert_eq!(done.nonces.load(Relaxed) > 100, takes_nonces, "{suite}: {done:?}");
    }
}

#[test]
fn lanes_that_share_an_engine_lose_nothing() {
    let two = std::num::NonZeroUsize::new(2).unwrap();
    let engine = Arc::new(Lanes::new(Implementations::default(), two, two).unwrap());
    copy(engine, Placement::Packet, Suite::Aes128Gcm, 2, 3);
}

#[test]
fn lanes_on_a_card_that_fails_lose_nothing() {
    let cases = [
        ("fail-over:card:faults=1,inline", Suite::Aes128Gcm),
        ("hybrid:card:faults=2,lanes:2", Suite::ChaCha20Poly1305),
    ];
    for (text, suite) in cases {
        let engine =
            EngineChoice::among(sealane_card::KINDS, text).unwrap().make(Implementations::default()).unwrap();
        copy(engine, Placement::Packet, suite, 2, 2);
    }
}
