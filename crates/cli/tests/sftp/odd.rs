//! Far ends that fail in ways that look like success, or lie to take memory.

use super::program::{Ends, sealane, set_mode, skip, text, write_script};
use super::servers::{Maker, Server};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

/// Returns the names in a folder and below it.
fn names(folder: &Path) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(names(&path));
        }
        found.push(path.file_name().expect("a name").to_string_lossy().into_owned());
    }
    found.sort();
    found
}

/// A server whose lists fail reports their end, as one does whose folders are empty.
#[test]
fn a_list_that_fails_empties_no_target() {
    let Some(server) = Server::start(Maker::AsyncSsh("lists-nothing")) else { return };
    fs::create_dir_all(server.home("source/sub")).expect("folders");
    server.give_away();
    let near = tempfile::tempdir().expect("a folder");
    let mirror = near.path().join("mirror");
    let fill = || {
        fs::create_dir_all(mirror.join("sub")).expect("folders");
        for name in ["one", "two", "sub/three"] {
            fs::write(mirror.join(name), b"kept").expect("a file");
        }
    };
    let copy = |options: &[&str]| -> (Option<i32>, String) {
        let mut command = sealane(&["cp", "-rT", "--far-end", "sftp", "-F"]);
        command.arg(server.config()).args(options).arg("far:source").arg(&mirror);
        let output = command.env("XDG_STATE_HOME", near.path().join("state")).output().expect("it starts");
        (output.status.code(), text(&output.stderr).to_owned())
    };
    fill();
    let all = names(&mirror);
    for options in [&["--delete"][..], &["--delete", "-n"], &["--delete-excluded"], &["--max-delete", "3"]] {
        let (code, said) = copy(options);
        assert_eq!(names(&mirror), all, "{options:?}: {said}");
        assert_eq!(code, Some(1), "{options:?}: {said}");
        if options[0] != "--max-delete" {
            assert!(said.contains("lists it as empty") && said.contains("--delete twice"), "{said}");
        }
    }
    for options in [&["--delete", "--delete"][..], &["--max-delete", "4"]] {
        fill();
        let (code, said) = copy(options);
        assert_eq!((code, names(&mirror)), (Some(0), Vec::new()), "{options:?}: {said}");
    }
    // A folder that is empty at both ends is nothing to speak of.
    assert_eq!(copy(&["--delete"]), (Some(0), String::new()));
}

/// As with a far end of our own: one line, and the status of a target that cannot be written.
#[test]
fn a_folder_that_cannot_be_written_is_one_line() {
    let Some(server) = Server::start(Maker::OpenSsh) else { return };
    let near = tempfile::tempdir().expect("a folder");
    let tree = near.path().join("tree");
    fs::create_dir_all(tree.join("sub")).expect("folders");
    for number in 0..120 {
        fs::write(tree.join(number.to_string()), b"some").expect("a file");
        fs::write(tree.join("sub").join(number.to_string()), b"some").expect("a file");
    }
    // It belongs to root, and the server's user may only look.
    fs::create_dir(server.home("shut")).expect("a folder");
    let home = server.home("");
    set_mode(&home, 0o755);
    let state = near.path().join("state");
    for (options, target) in [(&["-r"][..], "far:shut"), (&["-rT"], "far:shut"), (&["-rT"], "far:shut/new")] {
        let mut command = sealane(&["cp", "-q", "--far-end", "sftp", "-F"]);
        command.arg(server.config()).args(options).arg(&tree).arg(target);
        let output = command.env("XDG_STATE_HOME", &state).output().expect("it starts");
        let said = text(&output.stderr);
        assert_eq!(said.lines().count(), 1, "{target}: {said}");
        assert!(said.contains("cannot write to") && said.contains("permission denied"), "{target}: {said}");
        assert_eq!(output.status.code(), Some(5), "{target}: {said}");
        assert_eq!(names(&server.home("shut")), Vec::<String>::new());
        assert_eq!(names(&state), ["sealane"], "no journal is left");
    }
    // If only some folder below is shut, the rest arrives, and the copy names what does not.
    fs::create_dir_all(server.home("mixed/sub")).expect("folders");
    server.give_away();
    std::os::unix::fs::chown(server.home("mixed/sub"), Some(0), Some(0)).expect("root may");
    let mut command = sealane(&["cp", "-rT", "-q", "--far-end", "sftp", "-F"]);
    command.arg(server.config()).arg(&tree).arg("far:mixed");
    command.env("XDG_STATE_HOME", &state).ends(1);
    assert_eq!(names(&server.home("mixed")).len(), 121);
}

/// rclone's server takes content only from front to back, and says "failure" to everything else. The others take it in any
/// order, with holes.
#[test]
fn large_and_sparse_files_arrive_at_servers_of_any_order() {
    for maker in [Maker::Rclone, Maker::ProFtpd, Maker::AsyncSsh(""), Maker::Paramiko] {
        let Some(server) = Server::start(maker) else { continue };
        let near = tempfile::tempdir().expect("a folder");
        let tree = near.path().join("tree");
        fs::create_dir(&tree).expect("a folder");
        fs::write(tree.join("large"), super::program::pattern(9_000_011)).expect("a file");
        fs::write(tree.join("small"), b"small").expect("a file");
        let sparse = fs::File::create(tree.join("sparse")).expect("a file");
        sparse.write_all_at(b"island", 3_000_000).expect("an island");
        sparse.write_all_at(&super::program::pattern(300_000), 5_000_000).expect("an island");
        sparse.set_len(7_000_000).expect("its size");
        fs::File::create(tree.join("hole")).and_then(|hole| hole.set_len(2_000_000)).expect("a file");
        for (sent, options) in [("default", &[][..]), ("three", &["--streams", "3"])] {
            let mut command = sealane(&["cp", "-rT", "--far-end", "sftp", "-F"]);
            command.arg(server.config()).args(options).arg(&tree).arg(format!("far:{sent}"));
            let output = command.env("XDG_STATE_HOME", near.path().join("state")).output();
            let output = output.expect("it starts");
            let said = text(&output.stderr);
            let expected = names(&tree);
            assert_eq!(output.status.code(), Some(0), "{maker:?}: {said}");
            assert_eq!(names(&server.home(sent)), expected, "{maker:?}: {said}");
            for name in expected {
                let read = |folder: &Path| fs::read(folder.join(&name)).expect("a file");
                assert!(read(&tree) == read(&server.home(sent)), "{maker:?}: {name} differs: {said}");
            }
        }
        if maker == Maker::Rclone {
            // Input that is gone once it is read cannot be written again on another connection.
            let mut command = sealane(&["cp", "-q", "--far-end", "sftp", "-F"]);
            command.arg(server.config()).args(["-", "far:input"]);
            command.stdin(fs::File::open(tree.join("large")).expect("a file"));
            let output =
                command.env("XDG_STATE_HOME", near.path().join("state")).output().expect("it starts");
            let said = text(&output.stderr);
            assert!(said.contains("takes content only from front to back"), "{}: {said}", output.status);
            assert!(!output.status.success() && !server.home("input").exists(), "{said}");
        }
    }
}

/// Returns the servers of SFTP that run in this home folder, in the order in which they started.
fn sftp_servers(home: &Path) -> Vec<i32> {
    let mut found: Vec<i32> = Vec::new();
    for entry in fs::read_dir("/proc").expect("a folder").flatten() {
        let is_one = fs::read_to_string(entry.path().join("comm"))
            .is_ok_and(|name| name.trim() == "sftp-server")
            && fs::read_link(entry.path().join("cwd")).is_ok_and(|folder| folder == home);
        found.extend(entry.file_name().to_str().and_then(|id| id.parse::<i32>().ok()).filter(|_| is_one));
    }
    found.sort_unstable();
    found
}

/// A path on which a copy opens a second channel of its first connection: the connection outlives the first server.
#[test]
fn a_server_that_is_killed_is_noticed_at_once() {
    let Some(server) = Server::start(Maker::Dropbear) else { return };
    let near = tempfile::tempdir().expect("a folder");
    let large = near.path().join("large");
    fs::write(&large, super::program::pattern(40_000_000)).expect("a file");
    let proxy = format!("ProxyCommand=python3 {} %p 0.005", server.at("delay.py").display());
    for number in 0..2 {
        let sent = format!("sent{number}");
        // It would give up a silent server only after five minutes.
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "60"]).arg(super::program::path());
        command.args([
            "cp",
            "--far-end",
            "sftp",
            "--timeout",
            "300",
            "--limit-rate",
            "20M",
            "-o",
            &proxy,
            "-F",
        ]);
        command.arg(server.config()).arg(&large).arg(format!("far:{sent}"));
        command.env("XDG_STATE_HOME", near.path().join("state")).env("HOME", "/nonexistent");
        let copy = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let home = server.home("");
        let victims = (0..1000).find_map(|_| {
            thread::sleep(Duration::from_millis(10));
            let is_begun = fs::read_dir(&home).expect("a folder").flatten().any(|entry| {
                let is_part = entry.file_name().to_string_lossy().ends_with(".part");
                is_part && entry.metadata().is_ok_and(|there| there.blocks() > 10_000)
            });
            Some(sftp_servers(&home)).filter(|servers| is_begun && servers.len() > 1)
        });
        let victims = victims.expect("two servers, and some of the content");
        let victim = rustix::process::Pid::from_raw(victims[number]).expect("a process");
        rustix::process::kill_process(victim, rustix::process::Signal::KILL).expect("it is there");
        let output = copy.wait_with_output().expect("an end");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{}: {said}", output.status);
        assert!(fs::read(&large).expect("it") == fs::read(server.home(&sent)).expect("its copy"), "{said}");
    }
}

/// A server of one folder whose list never ends, and whose files are longer than what is read of them. Arguments: the names
/// of one answer, as an expression, and what follows the data of a read.
const ENDLESS: &str = r#"
use strict; my ($names, $behind) = @ARGV; my $count = 0;
sub get { my $n = shift; my $b = ''; while (length $b < $n) { sysread(STDIN, $b, $n - length $b, length $b) or exit } $b }
sub put { my $b = join '', @_; $b = pack('N', length $b) . $b; my $at = 0;
    while ($at < length $b) { my $n = syswrite(STDOUT, $b, length($b) - $at, $at); exit unless $n; $at += $n } }
sub str { pack 'N/a*', shift }
sub attrs { pack 'NQ>NNNNN', 15, 1 << 30, 0, 0, shift, 1, 1 }
get(unpack 'N', get 4); put(pack 'CN', 2, 3);
while (1) {
    my $packet = get(unpack 'N', get 4); my ($type, $id) = unpack 'CN', $packet; $id = pack 'N', $id;
    if ($type == 16) { put chr 104, $id, pack('N', 1), str('/home'), str(''), pack('N', 0) }
    elsif ($type == 7 or $type == 17) { put chr 105, $id, attrs($packet =~ /root$/ ? 040755 : 0100644) }
    elsif ($type == 3 or $type == 11) { put chr 102, $id, str('h') }
    elsif ($type == 12) {
        my @names = eval $names; $count += @names;
        put chr 104, $id, pack('N', scalar @names), map { str($_), str(''), attrs(0100644) } @names;
    }
    elsif ($type == 5) { put chr 103, $id, str('x'), $behind x 250000 }
    else { put chr 101, $id, pack('N', $type == 19 ? 8 : 0), str(''), str('') }
}
"#;

fn copy_from_endless(names: &str, behind: &str, from: &str) -> Option<(Output, PathBuf, tempfile::TempDir)> {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if let Some(program) = ["perl", "prlimit", "timeout"].into_iter().find(|program| !has(program)) {
        skip(format!("there is no {program}"));
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    fs::write(at.join("endless.pl"), ENDLESS).expect("a file");
    fs::create_dir(at.join("bin")).expect("a folder");
    let script = format!(
        "#!/bin/sh\ntest \"$1\" = -G && exit 1\nexec perl {}/endless.pl '{names}' '{behind}'\n",
        at.display()
    );
    write_script(at.join("bin/ssh"), &script);
    let target = at.join("target");
    // The program may have this much memory, with its stacks.
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60", "prlimit", "--data=600000000"]).arg(super::program::path());
    command.args(["cp", "-r", "--far-end", "sftp", from]).arg(&target);
    let search = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{search}", at.join("bin").display())).env("HOME", "/nonexistent");
    let output = command.env("XDG_STATE_HOME", at.join("state")).output().expect("it starts");
    Some((output, target, folder))
}

#[test]
fn a_list_without_end_takes_bounded_memory() {
    for (names, reason) in [
        // Names that are left out count too.
        ("(\".\") x 5000", "too many names"),
        ("map { sprintf \"%0700d\", $count + $_ } 1..340", "too many names"),
        ("(\"n\" x 250000)", "a name of 250000 bytes"),
    ] {
        let Some((output, ..)) = copy_from_endless(names, "", "far:root") else { return };
        let said = text(&output.stderr);
        assert!(output.status.code().is_some() && !output.status.success(), "{}: {said}", output.status);
        assert!(said.contains(reason), "{said}");
    }
}

#[test]
fn bytes_behind_what_was_asked_for_are_refused() {
    let Some((output, target, _folder)) = copy_from_endless("()", "y", "far:file") else { return };
    let said = text(&output.stderr);
    assert!(said.contains("250000 bytes after a data"), "{}: {said}", output.status);
    assert!(!target.exists(), "{said}");
}
