//! Tests the lab's view of the program under test with scripts: success, every failure, a kill.

use sealane_lab::LabError;
use sealane_lab::program::{CopyRequest, End, KillRule, Killed, Level, Program};
use sealane_lanes::Placement;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn fake(name: &str) -> Program {
    Program::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake").join(name))
}

struct SourceAndTarget {
    _directory: tempfile::TempDir,
    source: PathBuf,
    target: PathBuf,
}

fn place() -> SourceAndTarget {
    let directory = tempfile::tempdir().unwrap();
    let (source, target) = (directory.path().join("file"), directory.path().join("target"));
    std::fs::write(&source, vec![7; 10_000]).unwrap();
    std::fs::create_dir(&target).unwrap();
    SourceAndTarget { _directory: directory, source, target }
}

fn copy(name: &str, request: &CopyRequest) -> Result<sealane_lab::program::Finished, LabError> {
    let place = place();
    fake(name).copy(request, std::slice::from_ref(&place.source), &place.target)
}

#[test]
fn the_facts_of_a_copy_arrive() {
    let request = CopyRequest {
        level: Some(Level::Safe),
        suite: Some("blake3".to_owned()),
        streams: Some(3),
        lanes: Some(2),
        placement: Some(Placement::Packet),
        end: Some(End::Receive),
        discard: true,
        ..CopyRequest::default()
    };
    let finished = copy("sealane", &request).unwrap();
    assert_eq!(finished.done.bytes, 10_000);
    assert_eq!(finished.done.cpu_seconds.local, 0.25);
    assert_eq!((&*finished.done.level, &*finished.done.suite), ("safe", "blake3"));
    assert_eq!((finished.done.streams, finished.done.lanes), (3, 2));
    assert_eq!(finished.done.placement, "packet");
    assert!(finished.wall > Duration::ZERO);
    assert_eq!(finished.done.resumed_bytes, 0);
}

#[test]
fn a_refusal_keeps_its_kind_and_its_words() {
    let error = copy("refusing", &CopyRequest::default()).unwrap_err();
    assert_eq!(error.to_string(), "the copy failed (refused): the peer wants none of it");
}

#[test]
fn a_crash_shows_the_end_of_its_complaint() {
    let error = copy("crashing", &CopyRequest::default()).unwrap_err();
    let LabError::NoResult { status, stderr_tail } = &error else { panic!("{error}") };
    assert!(status.contains("101"));
    assert_eq!(stderr_tail, "something is on fire\n");
}

#[test]
fn a_missing_program_is_named() {
    let error = copy("absent", &CopyRequest::default()).unwrap_err();
    assert!(matches!(&error, LabError::Start { program, .. } if program.ends_with("absent")), "{error}");
}

#[test]
fn a_copy_that_never_ends_is_ended() {
    let place = place();
    let mut program = fake("hanging");
    program.limit = Duration::from_millis(200);
    let error = program.copy(&CopyRequest::default(), &[place.source], &place.target).unwrap_err();
    assert!(matches!(error, LabError::TimedOut { .. }));
}

#[test]
fn a_kill_comes_when_the_rule_says_and_the_next_run_continues() {
    let place = place();
    let program = fake("sealane");
    let sources = [place.source.clone()];
    let slow = CopyRequest { limit_rate: Some(1000), ..CopyRequest::default() };
    let rule = KillRule { moved_bytes: 6_000, after: Duration::from_secs(30) };
    let killed = program.copy_killed(&slow, &sources, &place.target, rule).unwrap();
    assert_eq!(killed, Killed::Midway { moved_bytes: Some(8_000) });
    let finished = program.copy(&CopyRequest::default(), &sources, &place.target).unwrap();
    assert_eq!(finished.done.resumed_bytes, 5_000);
    assert_eq!(std::fs::read(place.target.join("file")).unwrap(), vec![7; 10_000]);
}

#[test]
fn a_copy_that_is_faster_than_the_kill_says_so() {
    let place = place();
    let rule = KillRule { moved_bytes: u64::MAX, after: Duration::from_secs(30) };
    let request = CopyRequest::default();
    let killed = fake("sealane").copy_killed(&request, &[place.source], &place.target, rule).unwrap();
    assert!(matches!(killed, Killed::Finished(_)));
}
