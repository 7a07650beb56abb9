//! Tests that every installed peer copies a small file and a small tree, and compares the copies.

use super::*;
use crate::experiment::{CPU_PER_GIB, RATE, WALL};
use crate::rng::Rng;
use std::fs;
use tempfile::TempDir;

/// Returns the server, or `None` after printing the reason.
pub(super) fn started(sshd: Result<PrivateSshd, Skipped>) -> Option<PrivateSshd> {
    sshd.map_err(|skipped| crate::skip::skip(&skipped.reason)).ok()
}

/// Returns a file of slightly more than 4 MiB, under a name that needs quoting.
pub(super) fn a_file() -> (TempDir, Workload) {
    let directory = tempfile::tempdir().unwrap();
    let mut content = vec![0; (4 << 20) + 1];
    Rng::new(1).fill(&mut content);
    let source = directory.path().join("a file");
    fs::write(&source, content).unwrap();
    let workload = Workload::new(&source, &directory.path().join("the target")).unwrap();
    (directory, workload)
}

fn a_tree() -> (TempDir, Workload) {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("tree");
    let mut rng = Rng::new(2);
    for branch in ["", "x", "x/y z"] {
        fs::create_dir_all(source.join(branch)).unwrap();
        for size in [0, 1, 4096, 70_000] {
            let mut content = vec![0; size];
            rng.fill(&mut content);
            fs::write(source.join(branch).join(format!("file {size}")), content).unwrap();
        }
    }
    let workload = Workload::new(&source, &directory.path().join("the target")).unwrap();
    (directory, workload)
}

/// Runs a probed peer and compares its copy.
pub(super) fn copies(peer: &mut dyn Peer, workload: &Workload) {
    workload.clear_target().unwrap();
    let run = peer.run(workload).unwrap_or_else(|error| panic!("{}: {error}", peer.name()));
    let [seconds, rate, cpu] = [WALL, RATE, CPU_PER_GIB].map(|measure| run.value(measure).unwrap_or(0.0));
    assert!(seconds > 0.0 && cpu > 0.0, "{}: {run:?}", peer.name());
    assert!((rate * 1e6 * seconds / workload.bytes() as f64 - 1.0).abs() < 1e-6, "{}: {run:?}", peer.name());
    if peer.leaves_a_copy() {
        workload.verify().unwrap_or_else(|error| panic!("{}: {error}", peer.name()));
    }
    println!("{}: {seconds:.3} s, {cpu:.3} CPU s/GiB", peer.name());
}

/// Runs the named peers, in one set so that they share their server.
fn check(names: &[&str]) {
    let workloads = [a_file(), a_tree()];
    let mut peers = all(&Arc::default());
    for name in names {
        let peer = peers.iter_mut().find(|peer| peer.name() == *name).unwrap();
        match peer.probe() {
            Err(skipped) => crate::skip::skip(&skipped.reason),
            Ok(version) => {
                println!("{name}: {}", version.0);
                assert!(!version.0.is_empty());
                for (_, workload) in &workloads {
                    if peer.carries(workload.kind()) {
                        copies(peer.as_mut(), workload);
                    }
                }
            }
        }
    }
}

#[test]
fn cp_copies() {
    check(&["cp"]);
}

#[test]
fn openssh_copies() {
    check(&["scp", "sftp", "tar-ssh"]);
}

#[test]
fn rsync_copies() {
    check(&["rsync-ssh", "rsync-daemon"]);
}

#[test]
fn rclone_copies() {
    check(&["rclone-sftp", "rclone-sftp-unchecked"]);
}

#[test]
fn curl_copies_from_https() {
    check(&["curl-https"]);
}

#[test]
fn iperf3_moves_bytes() {
    check(&["iperf3"]);
}

/// No distribution packages it, so it is never required.
#[test]
fn wdt_copies() {
    for name in ["wdt", "wdt-clear"] {
        let is_here = all(&Arc::default()).iter_mut().any(|peer| peer.name() == name && peer.probe().is_ok());
        if is_here {
            check(&[name]);
        } else {
            crate::skip::say(format_args!("{name} is not here or may not run here"));
        }
    }
}

#[test]
fn names_are_unique_and_a_failure_has_its_reason() {
    let mut names: Vec<_> = all(&Arc::default()).iter().map(|peer| peer.name().to_owned()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all(&Arc::default()).len());

    let (directory, workload) = a_file();
    let mut peer = Installed::between(&tool::CP, &Arc::default(), Hosts::default()).unwrap();
    fs::remove_file(directory.path().join("a file")).unwrap();
    workload.clear_target().unwrap();
    let error = peer.run(&workload).unwrap_err().to_string();
    assert!(error.contains("(cp)") && error.contains("No such file"), "{error}");
}
