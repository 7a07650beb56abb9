//! Far ends that fail in ways that look like success, or lie to take memory.

use super::program::{sealane, skip, text};
use super::servers::{Maker, Server};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

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
        skip(&format!("there is no {program}"));
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
    fs::write(at.join("bin/ssh"), script).expect("a file");
    fs::set_permissions(at.join("bin/ssh"), fs::Permissions::from_mode(0o755)).expect("its mode");
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
