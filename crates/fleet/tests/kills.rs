//! Worker processes are killed at random: every job has its result, once. `SEALANE_FLEET_JOBS=2000
//! SEALANE_FLEET_KILLS=20 SEALANE_FLEET_WORK_MS=40 cargo test -p sealane-fleet --test kills` is the full test; the default
//! is short.
//!
//! The processes are this program itself, so it has no harness: a worker writes its messages to standard output.

#[path = "common/nats.rs"]
#[cfg(feature = "nats")]
mod nats;
#[path = "../../../testing/skip.rs"]
mod skip;
#[path = "../../../testing/wait.rs"]
mod wait;

use sealane_fleet::journal::Journal;
use sealane_fleet::{
    Bounds, CoordinatorQueue, Job, JobId, MemoryQueue, Part, Put, Queue, Remote, Taken, Weight, serve,
};
use sealane_peer::{Channel, PublicKey, RemoteCommand, SshCommand};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use wait::eventually;

const WORKERS: u64 = 4;
/// The number of attempts to kill between two counts of results.
const KILLS_PER_COUNT: u64 = 8;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn main() {
    if let Some(folder) = std::env::var_os("FLEET_WORKER") {
        return worker(Path::new(&folder));
    }
    let (jobs, kills) = (setting("SEALANE_FLEET_JOBS", 300), setting("SEALANE_FLEET_KILLS", 3));
    over_pipes(jobs, kills);
    #[cfg(feature = "nats")]
    match nats::Served::start() {
        Ok(served) => over_nats(&served, jobs, kills),
        Err(why) => skip::skip(&why),
    }
}

fn job(number: u64) -> Job {
    let body = format!("job {number}").into_bytes();
    Job { id: JobId::of(&[&body]), weight: Weight { files: 1, bytes: 1 }, body }
}

/// Runs a worker process, which announces itself so that it can be killed.
fn worker(folder: &Path) {
    let process = folder.join(std::process::id().to_string());
    fs::write(&process, "").expect("a file");
    #[cfg(feature = "nats")]
    if let Ok(address) = std::env::var("FLEET_QUEUE") {
        let server = address.parse().expect("an address");
        // A server that is just restarting is waited for.
        let give_up = Instant::now() + Duration::from_secs(30);
        loop {
            match sealane_fleet::nats::NatsQueue::connect(&server, None, "run", None) {
                Ok(queue) => break labour(&queue),
                Err(error) if Instant::now() > give_up => panic!("{error}"),
                Err(_) => thread::sleep(Duration::from_millis(50)),
            }
        }
        return;
    }
    let mut channel = Channel::stdio(None).expect("standard input and output");
    Remote::greeted(&mut channel).expect("a greeting");
    labour(&Remote::new(channel).expect("the same version"));
}

fn labour(queue: &dyn Queue) {
    let work = Duration::from_millis(setting("SEALANE_FLEET_WORK_MS", 5));
    loop {
        match queue.take(Duration::from_secs(1)) {
            Ok(Taken::Job(lease)) => {
                thread::sleep(work);
                let result = lease.job.body.iter().rev().copied().collect::<Vec<u8>>();
                if queue.finish(lease, &result).is_err() {
                    return;
                }
            }
            Ok(Taken::Nothing) => {}
            Ok(Taken::Over) | Err(_) => return,
        }
    }
}

/// Puts all jobs, and kills workers at random until there were enough kills; then waits for the end.
fn put_and_kill(queue: &dyn CoordinatorQueue, folder: &Path, jobs: u64, kills: u64) {
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..jobs {
                while queue.put(&job(number)).expect("a queue") == Put::Full {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            queue.seal().expect("a queue");
        });
        let mut killed = 0;
        let mut chance = 1_u64;
        let give_up = Instant::now() + Duration::from_secs(60 + jobs / 10);
        for turn in 0.. {
            if killed >= kills * WORKERS || (turn % KILLS_PER_COUNT == 0 && count(queue) >= jobs) {
                break;
            }
            assert!(Instant::now() < give_up, "it hangs");
            thread::sleep(Duration::from_millis(20));
            let workers: Vec<_> = fs::read_dir(folder).expect("a folder").flatten().collect();
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let Some(process) = workers.get((chance >> 33) as usize % workers.len().max(1)) else { continue };
            fs::remove_file(process.path()).expect("it is there");
            let number = process.file_name().to_str().and_then(|name| name.parse().ok()).expect("a number");
            let number = rustix::process::Pid::from_raw(number).expect("a process");
            killed += u64::from(rustix::process::kill_process(number, rustix::process::Signal::KILL).is_ok());
        }
        println!("{killed} kills");
    });
}

fn count(queue: &dyn CoordinatorQueue) -> u64 {
    let (mut all, mut after) = (0, 0);
    loop {
        let results = queue.results(after).expect("a queue");
        let Some(last) = results.last() else { return all };
        (all, after) = (all + results.len() as u64, last.number);
    }
}

fn check(queue: &dyn CoordinatorQueue, jobs: u64) {
    assert!(eventually(|| count(queue) >= jobs), "{} of {jobs} results", count(queue));
    let (mut ids, mut after) = (BTreeSet::new(), 0);
    loop {
        let results = queue.results(after).expect("a queue");
        let Some(last) = results.last() else { break };
        after = last.number;
        for outcome in &results {
            assert!(ids.insert(outcome.id), "a job has two results");
            let body: Vec<u8> = outcome.result.iter().rev().copied().collect();
            assert_eq!(JobId::of(&[&body]), outcome.id, "a wrong result");
        }
    }
    assert_eq!(ids.len() as u64, jobs);
}

/// Tests the coordinator in this process with workers at the other ends of streams.
fn over_pipes(jobs: u64, kills: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let workers = folder.path().join("workers");
    fs::create_dir(&workers).expect("a folder");
    // The script stands in for ssh.
    let script = folder.path().join("ssh");
    let program = std::env::current_exe().expect("this program");
    let text = format!("#!/bin/sh\nFLEET_WORKER={} exec {}\n", workers.display(), program.display());
    fs::write(&script, text).expect("a file");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("a mode");
    let journal = Journal::open(&folder.path().join("results"), |_| true).expect("a journal");
    let queue = MemoryQueue::journaled(Bounds::default(), journal);
    let (is_stopped, started) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for number in 0..WORKERS {
            let (queue, script, is_stopped, started) = (&queue, &script, &is_stopped, &started);
            scope.spawn(move || {
                while !is_stopped.load(SeqCst) {
                    let mut ssh = SshCommand::new("host");
                    ssh.program = script.into();
                    let mut channel =
                        Channel::from_child(ssh.spawn(RemoteCommand::Fleet).expect("it starts"))
                            .expect("a channel");
                    started.fetch_add(1, SeqCst);
                    let part = Part::Work {
                        host: "host".into(),
                        number: number as u32,
                        key: PublicKey::from_bytes([0; 32]).to_string(),
                    };
                    let never = AtomicBool::new(false);
                    let served = serve(&mut channel, queue, part, |_| false, &never, is_stopped, &|| ());
                    if served.ended.is_ok() {
                        return;
                    }
                }
            });
        }
        put_and_kill(&queue, &workers, jobs, kills);
        check(&queue, jobs);
        is_stopped.store(true, SeqCst);
    });
    println!("over pipes: {jobs} jobs, {} workers", started.into_inner());
}

/// The coordinator only puts jobs; workers reach the queue by themselves.
#[cfg(feature = "nats")]
fn over_nats(served: &nats::Served, jobs: u64, kills: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let queue = served.coordinator();
    let program = std::env::current_exe().expect("this program");
    let (is_stopped, started) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while !is_stopped.load(SeqCst) {
                    let mut command = std::process::Command::new(&program);
                    command.env("FLEET_WORKER", folder.path()).env("FLEET_QUEUE", served.address());
                    let mut child = command.spawn().expect("it starts");
                    started.fetch_add(1, SeqCst);
                    if child.wait().expect("its status").success() {
                        return;
                    }
                }
            });
        }
        put_and_kill(queue, folder.path(), jobs, kills);
        check(queue, jobs);
        is_stopped.store(true, SeqCst);
    });
    println!("over NATS: {jobs} jobs, {} workers", started.into_inner());
}
