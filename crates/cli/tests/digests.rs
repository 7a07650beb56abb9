//! `sealane md5` and its siblings compared with coreutils: the same lines and the same verdicts, for any names.

mod program;

use program::{Ends, pattern, sealane, text, write};
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const OTHERS: [(&str, &str); 6] = [
    ("md5", "md5sum"),
    ("sha1", "sha1sum"),
    ("sha224", "sha224sum"),
    ("sha256", "sha256sum"),
    ("sha384", "sha384sum"),
    ("sha512", "sha512sum"),
];

fn run(folder: &Path, arguments: &[&str]) -> Output {
    sealane(arguments).current_dir(folder).output().expect("the program starts")
}

/// Returns the output of another program, if it is installed.
fn other(folder: &Path, program: &str, arguments: &[&str]) -> Option<Output> {
    let output = Command::new(program).args(arguments).current_dir(folder).env("LC_ALL", "C").output();
    if output.is_err() {
        program::skip(format!("there is no {program}"));
    }
    output.ok()
}

/// Makes files with lengths around every boundary of blocks and pieces, and names that need care.
fn files() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for bytes in [0, 1, 55, 56, 63, 64, 65, 1000, 32_767, 32_768, 32_769, 65_536, 100_000, 300_000] {
        write(&folder.path().join(format!("{bytes}")), &pattern(bytes));
    }
    for (index, name) in
        ["a\nb", "c\\d", "e\rf", " lead", "trail ", "(x) = y", "ünï", "--check", "*star"].iter().enumerate()
    {
        write(&folder.path().join(name), &pattern(10 + index));
    }
    write(&folder.path().join(std::ffi::OsString::from_vec(b"raw\xff".to_vec())), b"raw");
    folder
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = entries.filter_map(|name| name.into_string().ok()).collect();
    names.sort_unstable();
    names
}

#[test]
fn lines_are_those_of_coreutils() {
    let folder = files();
    let names = names(folder.path());
    for (name, program) in OTHERS {
        for style in [&[][..], &["--tag"], &["-z"], &["-b"]] {
            let mut arguments = style.to_vec();
            arguments.push("--");
            arguments.extend(names.iter().map(String::as_str));
            let Some(theirs) = other(folder.path(), program, &arguments) else { continue };
            let ours = run(folder.path(), &[&[name], &*arguments].concat()).ends(0);
            assert_eq!(text(&ours.stdout), text(&theirs.stdout), "{name} {style:?}");
        }
    }
}

/// There are more files than slots, so lanes are reused many times, and results wait for their turn.
#[test]
fn many_files_come_in_their_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut names = Vec::new();
    for index in 0..300 {
        let name = format!("{index}");
        write(&folder.path().join(&name), &pattern(index * 331 % 70_000));
        names.push(name);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for (name, program) in OTHERS {
        let Some(theirs) = other(folder.path(), program, &names) else { continue };
        let ours = run(folder.path(), &[&[name], &*names].concat());
        assert!(ours.stdout == theirs.stdout, "{name}");
    }
}

/// The values are from the BLAKE3 project's test vectors: inputs are 0, 1, … 250, 0, 1, …
#[test]
fn blake3_has_the_published_digests() {
    let folder = tempfile::tempdir().expect("a folder");
    for (bytes, digest) in [
        (0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"),
        (1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213"),
        (1024, "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7"),
    ] {
        let input: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
        write(&folder.path().join("input"), &input);
        let output = run(folder.path(), &["blake3", "input"]);
        assert_eq!(text(&output.stdout), format!("{digest}  input\n"));
    }
    let large = pattern(3_000_000);
    write(&folder.path().join("large"), &large);
    let output = run(folder.path(), &["blake3", "large"]);
    assert_eq!(text(&output.stdout), format!("{}  large\n", blake3::hash(&large).to_hex()));
}

/// RFC 9861, section 5, and FIPS 202's example; and a file of many chunks against its list.
#[test]
fn sha_3_and_kangaroo_twelve_have_the_published_digests() {
    let folder = tempfile::tempdir().expect("a folder");
    for (command, bytes, digest) in [
        ("kt128", 0, "1ac2d450fc3b4205d19da7bfca1b37513c0803577ac7167f06fe2ce1f0ef39e5"),
        ("kt128", 17 * 17 * 17 * 17, "8701045e22205345ff4dda05555cbb5c3af1a771c2b89baef37db43d9998b9fe"),
        ("kt128", 17 * 17 * 17 * 17 * 17, "844d610933b1b9963cbdeb5ae3b6b05cc7cbd67ceedf883eb678a0a8e0371682"),
        ("sha3-256", 0, "a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a"),
    ] {
        let input: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
        write(&folder.path().join("input"), &input);
        let output = run(folder.path(), &[command, "input"]);
        assert_eq!(text(&output.stdout), format!("{digest}  input\n"), "{command} of {bytes}");
        write(&folder.path().join("list"), &output.stdout);
        assert_eq!(text(&run(folder.path(), &[command, "--check", "list"]).stdout), "input: OK\n");
    }
}

#[test]
fn standard_input_is_a_file_too() {
    for arguments in [&["md5"][..], &["md5", "-"]] {
        let mut child = sealane(arguments).stdin(Stdio::piped()).spawn().expect("the program starts");
        let mut pipe = child.stdin.take().expect("a pipe");
        // Two writes give the program a short read.
        pipe.write_all(b"ab").and_then(|()| pipe.flush()).expect("it reads");
        std::thread::sleep(std::time::Duration::from_millis(50));
        pipe.write_all(b"c").expect("it reads");
        drop(pipe);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(text(&output.stdout), "900150983cd24fb0d6963f7d28e17f72  -\n");
    }
}

#[test]
fn what_cannot_be_read_does_not_keep_the_rest() {
    let folder = files();
    let output = run(folder.path(), &["sha1", "0", "nosuch", ".", "64"]).ends(1);
    let lines: Vec<&str> = text(&output.stdout).lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].ends_with("  0") && lines[1].ends_with("  64"));
    let complaints = text(&output.stderr);
    assert!(complaints.contains("nosuch: No such file or directory"), "{complaints}");
    assert!(complaints.contains(".: Is a directory"), "{complaints}");
}

#[test]
fn lists_are_checked_as_coreutils_checks_them() {
    let folder = files();
    let names = names(folder.path());
    let zeros = "0".repeat(32);
    for (name, program) in OTHERS {
        for style in [&["-b"][..], &["--tag"]] {
            let mut arguments = style.to_vec();
            arguments.push("--");
            arguments.extend(names.iter().map(String::as_str));
            let Some(list) = other(folder.path(), program, &arguments) else { continue };
            write(&folder.path().join("list"), &list.stdout);
            let (ours, theirs) =
                (run(folder.path(), &[name, "-c", "list"]), other(folder.path(), program, &["-c", "list"]));
            let theirs = theirs.expect("it was there before");
            assert_eq!(text(&ours.stdout), text(&theirs.stdout), "{name} {style:?}");
            assert_eq!(ours.status.code(), Some(0), "{}", text(&ours.stderr));
        }
    }
    // The lists have a wrong entry, a missing file, junk, a comment, and nothing; one is not a list, and one does not
    // exist.
    let good = "d41d8cd98f00b204e9800998ecf8427e";
    for list in [
        format!("{good}  0\n{zeros}  1\n{zeros}  nosuch\njunk\n# comment\n\n"),
        format!("{}  0\r\n", good.to_uppercase()),
        "junk\n".to_owned(),
        String::new(),
        format!("{good}  nosuch\n"),
        format!("{good}  0"),
        format!("junk\n{good}  0\n"),
    ] {
        write(&folder.path().join("list"), list.as_bytes());
        for options in [&[][..], &["--quiet"], &["--status"], &["--strict"], &["--ignore-missing"]] {
            let arguments = [&["-c"], options, &["list"]].concat();
            let Some(theirs) = other(folder.path(), "md5sum", &arguments) else { continue };
            let ours = run(folder.path(), &[&["md5"], &*arguments].concat());
            assert_eq!(text(&ours.stdout), text(&theirs.stdout), "{list} {options:?}");
            assert_eq!(ours.status.code(), theirs.status.code(), "{list} {options:?}");
            let count = |output: &Output| text(&output.stderr).lines().count();
            assert_eq!(count(&ours), count(&theirs), "{list} {options:?} {}", text(&ours.stderr));
        }
    }
    let output = run(folder.path(), &["md5", "--check", "--warn", "list"]);
    assert!(text(&output.stderr).contains("list: 1: improperly formatted MD5 checksum line"));
    assert_eq!(run(folder.path(), &["md5", "-c", "no-list"]).status.code(), Some(1));
}

#[test]
fn kernels_can_be_forced_by_the_environment() {
    let folder = files();
    let names = ["0", "64", "65", "1000", "32769", "100000"];
    let digests = |tier: &str, isa: &str| {
        let mut command = sealane(&[&["sha256"], &names[..]].concat());
        let output =
            command.current_dir(folder.path()).env("SEALANE_TIER", tier).env("SEALANE_ISA", isa).output();
        let output = output.expect("the program starts").ends(0);
        output.stdout
    };
    let expected = digests("", "");
    for tier in ["reference", "generic", "native", "batch"] {
        assert!(digests(tier, "portable") == expected, "{tier}");
        assert!(digests(tier, "") == expected, "{tier}");
    }
    sealane(&["md5"]).env("SEALANE_ISA", "sse9").ends(2);
}
