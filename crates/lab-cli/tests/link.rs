//! Tests of `sealane lab link`, which runs a command behind an emulated link.

#[path = "../../cli/tests/program/mod.rs"]
mod program;
#[path = "../../../testing/sshd.rs"]
mod sshd;

use program::Ends;
use sshd::PrivateSshd;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn behind(link: &[&str], script: &str) -> Output {
    let mut command = Command::new(program::path());
    command.args(["lab", "link"]).args(link).args(["--", "sh", "-c", script]).env("SEALANE", program::path());
    command.output().expect("the program starts")
}

/// Returns whether links can be made here; if not, prints the reason.
fn is_possible() -> bool {
    let output = behind(&[], "true");
    let is_made = output.status.success();
    if !is_made {
        program::skip(String::from_utf8_lossy(&output.stderr));
    }
    is_made
}

/// Returns the number of processes of the link with that seed.
fn links(seed: &str) -> usize {
    let is_one = |directory: &Path| {
        let words = fs::read(directory.join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).contains(&format!("--seed\0{seed}\0--stage\0link"))
    };
    fs::read_dir("/proc").unwrap().flatten().filter(|entry| is_one(&entry.path())).count()
}

#[test]
fn a_command_behind_a_link_waits_for_it_and_keeps_its_status() {
    if !is_possible() {
        return;
    }
    let began = Instant::now();
    // A refused connection takes one round trip.
    let output = behind(&["--rtt", "400ms", "--seed", "71"], "curl -s http://127.0.0.1:9; exit 3");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(began.elapsed() >= Duration::from_millis(400));
    // The link ends when nobody is behind it any more, even if the command was killed.
    let output = behind(&["--seed", "72"], "kill -9 $$");
    assert!(!output.status.success());
    assert!(program::eventually(|| links("71") + links("72") == 0), "links are left");
    let output = behind(&[], "exec /nonexistent/command");
    assert!(!output.status.success());
}

#[test]
fn a_copy_over_a_bad_link_is_whole() {
    if !is_possible() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
    fs::write(&file, &bytes).unwrap();
    let link = ["--rtt", "4ms", "--loss", "1%", "--reorder", "1", "--duplicate", "1", "--rate", "20M"];
    let script = format!(
        "exec \"$SEALANE\" cp --level private --streams 3 {} {}",
        file.display(),
        folder.path().join("copy").display()
    );
    behind(&link, &script).ends(0);
    assert!(fs::read(folder.path().join("copy")).unwrap() == bytes);
}

/// The number of streams that a copy says it has used.
fn streams(output: &Output) -> u64 {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8_lossy(&output.stdout);
    let done = lines.lines().last().and_then(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    done.and_then(|event| event["streams"].as_u64()).expect("a number of streams")
}

#[test]
fn the_path_decides_how_many_streams_there_are() {
    if !is_possible() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (large, small) = (folder.path().join("large"), folder.path().join("small"));
    fs::write(&large, vec![7; 40 << 20]).unwrap();
    fs::write(&small, [7; 1000]).unwrap();
    let copy = |from: &Path, to: &str| {
        let to = folder.path().join(to);
        format!("exec \"$SEALANE\" cp --json {} {}", from.display(), to.display())
    };
    let near = Command::new(program::path())
        .args(["cp", "--json"])
        .args([&large, &folder.path().join("near")])
        .output();
    let at_first = streams(&near.unwrap());
    assert!(at_first <= 8, "as many as there are processors, at most: {at_first}");
    let far = ["--rtt", "60ms"];
    let output = behind(&far, &copy(&large, "far"));
    assert!(streams(&output) >= 8, "a long path is worth more: {}", streams(&output));
    assert!(fs::read(folder.path().join("far")).unwrap() == fs::read(&large).unwrap());
    // A file that fits into a few segments is not worth another connection; it may end before all of the first ones are there.
    let tiny = streams(&behind(&far, &copy(&small, "tiny")));
    assert!(tiny <= at_first, "{tiny} of {at_first}");
}

/// The environment variable that makes the test below take its place behind the link.
const BEHIND: &str = "SEALANE_TEST_BEHIND_LINK";
/// So long that whatever else takes time is short beside it.
const ROUND_TRIP: Duration = Duration::from_millis(300);
/// The round trips that a copy of a tiny file may take beyond those of `ssh HOST true`.
const ROUND_TRIPS: f64 = 3.0;
/// The far end passes little data on to its own port, and the emulated link, which has all of 127.0.0.1 behind it, delays that
/// connection and the data as well. No other link does.
const OWN_PORT_TRIPS: f64 = 1.5;

/// Runs a test of this file behind a link with a server of its own, and returns its output; `None` if there is no server.
fn itself_behind(rtt: &str, test: &str) -> Option<String> {
    let this = std::env::current_exe().unwrap();
    let script = format!("{BEHIND}=1 exec '{}' --exact {test} --nocapture", this.display());
    let output = behind(&["--rtt", rtt], &script);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said} {}", String::from_utf8_lossy(&output.stderr));
    match said.lines().find(|line| line.contains("no server: ")) {
        Some(reason) => {
            program::skip(reason);
            None
        }
        None => Some(said),
    }
}

/// Prints the round trips beyond those of `ssh HOST true`, of a copy to the host and of one from it.
fn count_round_trips() {
    let Some(sshd) = program::or_skip(PrivateSshd::start()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    fs::write(at("tiny"), "tiny").unwrap();
    let timed = |command: &mut Command| {
        let began = Instant::now();
        command.ends(0);
        began.elapsed()
    };
    let login = timed(sshd.command(Path::new("ssh")).args([PrivateSshd::HOST, "true"]));
    let far = |name: &str| format!("{}:{}", PrivateSshd::HOST, at(name));
    for (name, from, to) in [("push", at("tiny"), far("sent")), ("pull", far("tiny"), at("fetched"))] {
        let mut command = Command::new(program::path());
        command.args(["cp", "--remote-program"]).arg(program::path()).arg("-F").arg(sshd.client_config());
        let beyond = timed(command.args([from, to])).saturating_sub(login);
        println!("{name}: {}", beyond.as_secs_f64() / ROUND_TRIP.as_secs_f64());
    }
    assert_eq!(fs::read(at("sent")).unwrap(), fs::read(at("fetched")).unwrap());
}

#[test]
fn a_tiny_file_takes_few_round_trips_more_than_a_login() {
    if std::env::var_os(BEHIND).is_some() {
        return count_round_trips();
    }
    if !is_possible() {
        return;
    }
    let mut fewest = [("push", f64::INFINITY), ("pull", f64::INFINITY)];
    // Whatever else runs on this machine only adds to the count, so the lowest of a few counts.
    for _ in 0..4 {
        let rtt = format!("{}ms", ROUND_TRIP.as_millis());
        let Some(said) = itself_behind(&rtt, "a_tiny_file_takes_few_round_trips_more_than_a_login") else {
            return;
        };
        for (name, trips) in &mut fewest {
            let told = said.lines().find_map(|line| line.rsplit_once(&format!("{name}: "))?.1.parse().ok());
            *trips = trips.min(told.unwrap_or_else(|| panic!("no count of a {name}: {said}")));
        }
        if fewest.iter().all(|(_, trips)| *trips < ROUND_TRIPS + OWN_PORT_TRIPS + 1.0) {
            return;
        }
    }
    panic!("round trips beyond a login: {fewest:?}");
}

/// Copies to a host with sshd alone, through an ssh that notes its arguments, with different configurations.
fn copy_through_channels() {
    let Some(sshd) = program::or_skip(PrivateSshd::start()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("tree/many")).unwrap();
    fs::write(at("tree/large"), (0..24 << 20).map(|i: u32| (i >> 7) as u8).collect::<Vec<_>>()).unwrap();
    for number in 0..600 {
        fs::write(at(&format!("tree/many/{number}")), [number as u8; 3000]).unwrap();
    }
    fs::create_dir(at("bin")).unwrap();
    let (noted, ssh) = (at("noted"), at("bin/ssh"));
    let path = std::env::var("PATH").unwrap_or_default();
    let script = format!("#!/bin/sh\necho \"$@\" >>'{}'\nPATH='{path}' exec ssh \"$@\"\n", noted.display());
    fs::write(&ssh, script).unwrap();
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
    let own = format!("ControlPath={}", at("users").display());
    // One login serves all channels, the first one, too.
    let cases: [(&[&str], usize); 3] = [(&[], 2), (&["--streams", "1"], 1), (&["-o", &own], 0)];
    for (number, (options, channels)) in cases.into_iter().enumerate() {
        let sent = format!("sent{number}");
        let mut command = Command::new(program::path());
        command.args(["cp", "-rT", "-q", "--far-end", "sftp", "-F"]).arg(sshd.client_config()).args(options);
        command.arg(at("tree")).arg(format!("{}:{}", PrivateSshd::HOST, at(&sent).display()));
        command.env("XDG_STATE_HOME", at("state")).env("PATH", format!("{}:{path}", at("bin").display()));
        let _ = fs::remove_file(&noted);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{options:?}: {}", String::from_utf8_lossy(&output.stderr));
        let same = Command::new("diff").arg("-r").args([at("tree"), at(&sent)]).status().unwrap();
        assert!(same.success(), "{options:?}");
        let lines = fs::read_to_string(&noted).unwrap();
        let through = |line: &&str| {
            line.contains("-oControlMaster=no")
                && line.contains(&format!("-oControlPath={}", at("state").display()))
        };
        assert_eq!(lines.lines().filter(through).count(), channels, "{options:?}: {lines}");
        let left: Vec<_> =
            fs::read_dir(at("state/sealane")).unwrap().flatten().map(|entry| entry.path()).collect();
        assert!(left.is_empty(), "{options:?}: {left:?}");
    }
}

#[test]
fn a_long_path_has_a_second_channel_unless_the_user_shares_connections() {
    if std::env::var_os(BEHIND).is_some() {
        return copy_through_channels();
    }
    if is_possible() {
        itself_behind("8ms", "a_long_path_has_a_second_channel_unless_the_user_shares_connections");
    }
}

#[test]
fn what_is_no_link_is_refused() {
    for words in [&["--loss", "101"][..], &["--rtt", "5m"], &["--rate", "0"], &["--loss", "x"]] {
        let output = behind(words, "true");
        assert_eq!(output.status.code(), Some(2), "{words:?}");
    }
    Command::new(program::path()).args(["lab", "link", "--rtt", "1ms"]).output().unwrap().ends(2);
}
