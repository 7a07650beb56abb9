//! Deltas through the real program: of a file of which the target has another version only what differs is sent, and what arrives
//! is the source, whatever happens meanwhile.

mod program;
#[path = "../../../testing/sshd.rs"]
mod sshd;
mod support;

use program::{or_skip, write};
use sshd::PrivateSshd;
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use support::Chance;
use support::daemon::Served;
use support::run::{Run, run, run_to_end};
use support::tree;

const MEBIBYTE: usize = 1 << 20;

/// A new version of `old`, and the most bytes of it that may be sent.
fn versions(old: &[u8]) -> Vec<(&'static str, Vec<u8>, u64)> {
    let mut chance = Chance::new(11);
    let changed = (old.len() / 4096 / 100 + 1) as u64 * 4096;
    let half = old.len() / 2;
    vec![
        ("one block in a hundred", with_new_blocks(old, 100), changed + 65_536),
        ("a byte before all", [b"!", old].concat(), 65_536),
        ("a byte within", [&old[..half], b"!", &old[half..]].concat(), 65_536),
        ("grown", [old, &chance.bytes(500_000)].concat(), 600_000),
        ("cut short", old[..half + 77].to_vec(), 65_536),
        ("its beginning gone", old[MEBIBYTE + 5..].to_vec(), 131_072),
        ("halves that changed places", [&old[half..], &old[..half]].concat(), 3 * 262_144),
        ("all new", chance.bytes(old.len()), old.len() as u64),
    ]
}

/// Writes an old version, with a time long ago: size and time tell versions apart.
fn write_old(path: &Path, content: &[u8]) {
    write(path, content);
    let times = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000));
    File::options().write(true).open(path).and_then(|file| file.set_times(times)).expect("a time");
}

/// Returns the old version of these tests.
fn old_version(bytes: usize) -> Vec<u8> {
    Chance::new(5).bytes(bytes)
}

/// Returns a new one in which every block of this many is new.
fn with_new_blocks(old: &[u8], every: usize) -> Vec<u8> {
    let (mut new, mut chance) = (old.to_vec(), Chance::new(12));
    for block in (3..old.len() / 4096).step_by(every) {
        new[block * 4096..][..4096].copy_from_slice(&chance.bytes(4096));
    }
    new
}

#[test]
fn only_what_differs_is_sent_in_every_way() {
    let served = Served::start(None);
    let root = served.root();
    let old = old_version(8 * MEBIBYTE);
    let sshd = or_skip(PrivateSshd::start());
    let config = sshd.as_ref().map(|sshd| sshd.client_config().to_str().expect("UTF-8").to_owned());
    let program = format!("--remote-program={}", env!("CARGO_BIN_EXE_sealane"));
    let local = |name: &str| root.join(name).to_str().expect("UTF-8").to_owned();
    let far = |name: &str| format!("{}:{}", PrivateSshd::HOST, local(name));
    for (what, new, sent_max) in versions(&old) {
        write(&root.join("source"), &new);
        let mut ways = vec![
            (local("source"), served.place("target"), vec![]),
            (served.place("source"), local("target"), vec![]),
            (local("source"), local("target"), vec!["--streams=1", "--lanes=2", "--placement=packet"]),
        ];
        if let Some(config) = &config {
            let options = vec!["-F", config.as_str(), program.as_str(), "--far-end=sealane"];
            ways.push((local("source"), far("target"), options.clone()));
            ways.push((far("source"), local("target"), [&options[..], &["--through-ssh"]].concat()));
            ways.push((far("source"), far("target"), options));
        }
        for (from, to, options) in ways {
            write_old(&root.join("target"), &old);
            let arguments = ["--delta=always", "--accept-new", "-T"];
            let arguments = [&arguments[..], &options, &[from.as_str(), to.as_str()]].concat();
            let ended = run(&served.home(), &arguments);
            assert!(fs::read(root.join("target")).expect("a file") == new, "{what}: {arguments:?}");
            let (sent, matched) = (ended.done("bytes"), ended.done("matched_bytes"));
            assert!(sent <= sent_max, "{what}: {sent} bytes of {sent_max}, {arguments:?}");
            assert_eq!(sent + matched, new.len() as u64, "{what}: {arguments:?}");
        }
    }
}

/// Returns a daemon with an old version of a file, a new one near it, and their content.
fn two_versions(bytes: usize, every: usize) -> (Served, Vec<u8>, Vec<u8>) {
    let served = Served::start(None);
    let old = old_version(bytes);
    let new = with_new_blocks(&old, every);
    write(&served.root().join("source"), &new);
    write_old(&served.root().join("target"), &old);
    (served, old, new)
}

fn utf8(path: PathBuf) -> String {
    path.into_os_string().into_string().expect("UTF-8")
}

#[test]
fn a_killed_delta_goes_on() {
    for (first, second) in [("always", "always"), ("always", "never"), ("never", "always")] {
        let (served, _, new) = two_versions(24 * MEBIBYTE, 4);
        let (home, root) = (served.home(), served.root());
        let (from, to) = (utf8(root.join("source")), served.place("target"));
        let delta = |how: &str| format!("--delta={how}");
        let slow = ["--accept-new", "--limit-rate=3M", "-T", &delta(first), &from, &to];
        let mut killed = Run::start(&home, &slow);
        killed.wait_for_bytes(2 << 20);
        killed.kill();
        killed.end().expect("it ends");
        assert!(fs::read(root.join("target")).expect("a file") != new, "{first}: it was too fast");
        let ended = run(&home, &["--accept-new", "-T", &delta(second), &from, &to]);
        assert!(fs::read(root.join("target")).expect("a file") == new, "{first}, {second}");
        assert!(ended.done("resumed_bytes") > 0, "{first}, {second}: {ended:?}");
        assert_eq!(ended.done("matched_bytes") > 0, second == "always", "{ended:?}");
        let total = ended.done("bytes") + ended.done("matched_bytes") + ended.done("resumed_bytes");
        assert_eq!(total, new.len() as u64, "{first}, {second}: {ended:?}");
        assert_eq!(tree::leftovers(&root), Vec::<PathBuf>::new());
    }
}

#[test]
fn deltas_go_together_with_other_options() {
    let served = Served::start(None);
    served.grant("read,write,delete");
    let (home, root) = (served.home(), served.root());
    let old = old_version(2 * MEBIBYTE);
    for (number, options) in [
        &["-z"][..],
        &["--digest"],
        &["--checksum"],
        &["--delete", "--hard-links"],
        &["--level=safe", "--streams=4"],
        &["--level=clear", "--digest"],
        &["--link-dest=../earlier", "-z"],
        &["--backup", "--fsync"],
        &["--no-resume"],
        &["--update", "--limit-rate=50M"],
    ]
    .into_iter()
    .enumerate()
    {
        let (source, target) = (root.join(format!("source{number}")), root.join(format!("target{number}")));
        for folder in [&source, &target] {
            fs::create_dir_all(folder.join("deep")).expect("folders");
        }
        fs::create_dir_all(root.join("earlier")).expect("a folder");
        for file in 0..90 {
            let name = format!("deep/{file}");
            let bytes = 270_000 + 1000 * file;
            write(&source.join(&name), &with_new_blocks(&old[file..file + bytes], 20));
            write_old(&target.join(&name), &old[file..file + bytes]);
        }
        write(&source.join("large"), &[b"!", &old[..]].concat());
        write_old(&target.join("large"), &old);
        if options.contains(&"--delete") {
            write_old(&target.join("extraneous"), &old);
        }
        fs::hard_link(source.join("large"), source.join("deep/other name")).expect("a link");
        symlink("large", source.join("link")).expect("a link");
        let sparse = File::create(source.join("sparse")).expect("a file");
        sparse.set_len(40 << 20).expect("a length");
        sparse.write_all_at(&old[..300_000], 20 << 20).expect("a write");
        sparse.write_all_at(&old[7..1_000_000], 30 << 20).expect("a write");
        write_old(&target.join("sparse"), &old);
        // A daemon takes nothing without integrity. Where both ends digest all that arrives, nothing is compared.
        let is_clear = options.contains(&"--level=clear");
        let place = if is_clear { utf8(target.clone()) } else { served.place(&format!("target{number}")) };
        let both = [utf8(source.clone()), place];
        let arguments = ["-rT", "--delta=always", "--accept-new"];
        let arguments = [&arguments[..], options, &[&both[0], &both[1]]].concat();
        let ended = run(&home, &arguments);
        if options.contains(&"--backup") {
            assert_eq!(fs::read(target.join("large~")).expect("a backup"), old);
            let backups = tree::files(&target).into_keys().filter(|path| utf8(path.clone()).ends_with('~'));
            backups.for_each(|backup| fs::remove_file(target.join(backup)).expect("a backup"));
            assert_eq!(tree::wrong(&source, &target), Vec::<PathBuf>::new(), "{arguments:?}");
        } else {
            assert_eq!(tree::differences(&source, &target), Vec::<String>::new(), "{arguments:?}");
        }
        assert_eq!(ended.done("matched_bytes") > 20 << 20, !is_clear, "{arguments:?}: {ended:?}");
        assert_eq!(ended.done("failed"), 0);
        assert!(fs::metadata(target.join("sparse")).expect("a file").blocks() < 8192, "holes are kept");
        if options.contains(&"--digest") {
            let digests = ended.events.iter().filter(|event| event["event"] == "digest").count();
            assert!(digests >= 92, "{ended:?}");
        }
        let again = run(&home, &arguments);
        assert_eq!((again.done("bytes"), again.done("matched_bytes")), (0, 0), "{arguments:?}: {again:?}");
    }
}

/// Returns a daemon with a source and a mirror of it from before files were renamed, moved and changed, and what is new.
fn moved_files() -> (Served, u64) {
    let served = Served::start(None);
    served.grant("read,write,delete");
    let at = |name: &str| served.root().join(name);
    for tree in ["source", "target"] {
        for folder in ["kept", "other", "old/deep", "new/deep"] {
            fs::create_dir_all(at(tree).join(folder)).expect("a folder");
        }
    }
    let (mut chance, mut length) = (Chance::new(21), 4 * MEBIBYTE);
    let mut put = |before: &str, after: &str, every: Option<usize>| {
        // Size and time tell files apart.
        length += 8192;
        let content = chance.bytes(length);
        write_old(&at("target").join(before), &content);
        match every {
            None => write_old(&at("source").join(after), &content),
            Some(every) => write(&at("source").join(after), &with_new_blocks(&content, every)),
        }
        every.map_or(0, |every| (content.len() / 4096 / every + 1) as u64 * 4096)
    };
    let new = [
        put("kept/one", "kept/renamed", None),
        put("old/two", "new/two", None),
        put("old/deep/three", "new/deep/three", None),
        put("old/deep/four", "other/four", Some(50)),
        // A newer one takes the name, and the older one gets another.
        put("kept/log", "kept/log.1", None),
        put("other/same", "other/same", Some(50)),
    ];
    fs::remove_dir_all(at("source/old")).expect("a folder");
    let log = Chance::new(22).bytes(300_000);
    write(&at("source/kept/log"), &log);
    (served, new.iter().sum::<u64>() + log.len() as u64)
}

#[test]
fn files_that_were_moved_are_not_sent_to_a_mirror() {
    let options: [&[&str]; 2] =
        [&["-aT", "--delete", "--delta=always"], &["-aT", "--delete", "--delta=always", "--checksum"]];
    for options in options {
        for is_pushed in [true, false] {
            let (served, new_bytes) = moved_files();
            let local = |name: &str| utf8(served.root().join(name));
            let (from, to) = match is_pushed {
                true => (local("source"), served.place("target")),
                false => (served.place("source"), local("target")),
            };
            let arguments = [options, &["--accept-new", from.as_str(), to.as_str()]].concat();
            let ended = run(&served.home(), &arguments);
            let (source, target) = (served.root().join("source"), served.root().join("target"));
            let differences = tree::differences(&source, &target);
            assert!(differences.is_empty(), "{arguments:?}: {differences:?}");
            let (sent, matched) = (ended.done("bytes"), ended.done("matched_bytes"));
            assert!(sent <= new_bytes + 3 * 65_536, "{sent} of {new_bytes}, {arguments:?}: {ended:?}");
            assert!(matched > 20 << 20, "{matched}, {arguments:?}");
            assert_eq!(tree::leftovers(&target), Vec::<PathBuf>::new());
        }
    }
    // Nothing is looked for where nothing is deleted.
    let (served, _) = moved_files();
    let to = served.place("target");
    let arguments =
        ["-aT", "--delta=always", "--accept-new", &utf8(served.root().join("source")), to.as_str()];
    let ended = run(&served.home(), &arguments);
    assert!(ended.done("bytes") > 16 << 20, "{ended:?}");
}

#[test]
fn an_earlier_copy_has_what_did_not_change_of_a_file_that_did() {
    for option in ["--link-dest", "--copy-dest", "--compare-dest"] {
        let served = Served::start(None);
        let at = |name: &str| served.root().join(name);
        for folder in ["source", "first", "second"] {
            fs::create_dir(at(folder)).expect("a folder");
        }
        let old = old_version(8 * MEBIBYTE);
        let new = with_new_blocks(&old, 100);
        write_old(&at("first/file"), &old);
        write(&at("source/file"), &new);
        let (from, to) = (utf8(at("source")), served.place("second"));
        let basis = format!("{option}=../first");
        let arguments = ["-aT", "--delta=always", "--accept-new", basis.as_str(), from.as_str(), to.as_str()];
        let ended = run(&served.home(), &arguments);
        assert!(fs::read(at("second/file")).expect("a file") == new, "{option}");
        assert!(fs::read(at("first/file")).expect("a file") == old, "{option}");
        assert!(ended.done("bytes") < 200_000, "{option}: {ended:?}");
    }
}

/// Returns versions of a small, a sparse and a large file, by their names.
fn over_and_over(old: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let shorter = old[..3 * MEBIBYTE + 77].to_vec();
    let longer = [&with_new_blocks(old, 100)[..], &[7; 500_000]].concat();
    let moved = [b"!", &old[..old.len() / 2], &old[old.len() / 2 + 1..]].concat();
    let mut sparse = old.to_vec();
    sparse[MEBIBYTE..5 * MEBIBYTE].fill(0);
    vec![
        ("empty", Vec::new()),
        ("small", b"a few bytes".to_vec()),
        ("shorter", shorter),
        ("longer", longer),
        ("moved", moved),
        ("sparse", sparse),
        ("blocks", with_new_blocks(old, 50)),
    ]
}

#[test]
fn files_are_written_over_where_that_is_asked_for() {
    for options in [&["--delta=always"][..], &["--delta=never"], &["--delta=always", "-u", "--digest"]] {
        let served = Served::start(None);
        let at = |name: &str| served.root().join(name);
        for folder in ["source", "target"] {
            fs::create_dir(at(folder)).expect("a folder");
        }
        let old = old_version(8 * MEBIBYTE);
        let all = over_and_over(&old);
        for (name, new) in &all {
            write(&at("source").join(name), new);
            if *name == "sparse" {
                let file = File::options().write(true).open(at("source/sparse")).expect("a file");
                let hole = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
                let _ = rustix::fs::fallocate(&file, hole, MEBIBYTE as u64, 4 << 20);
            }
            write_old(&at("target").join(name), &old);
            fs::hard_link(at("target").join(name), at(&format!("{name}.other"))).expect("a link");
        }
        symlink("blocks.other", at("target/link")).expect("a link");
        write(&at("source/link"), b"a file in place of a link");
        let (from, to) = (utf8(at("source")), served.place("target"));
        let arguments = [&["-rT", "--in-place", "--accept-new"], options, &[&from, &to]].concat();
        let ended = run(&served.home(), &arguments);
        for (name, new) in &all {
            let (file, other) = (at("target").join(name), at(&format!("{name}.other")));
            assert!(fs::read(&file).expect("a file") == *new, "{name}, {options:?}");
            let number = |path: &Path| fs::metadata(path).expect("a file").ino();
            assert_eq!(number(&file), number(&other), "{name}, {options:?}: it is another file now");
        }
        assert_eq!(fs::read(at("target/link")).expect("a file"), b"a file in place of a link");
        assert!(!at("target/link").is_symlink());
        assert_eq!(ended.done("matched_bytes") > 20 << 20, options[0] == "--delta=always");
        assert_eq!(tree::leftovers(&served.root()), Vec::<PathBuf>::new());
        // Nothing is sent again.
        assert_eq!(run(&served.home(), &arguments).done("bytes"), 0, "{options:?}");
    }
}

#[test]
fn a_file_that_is_written_over_by_a_killed_copy_is_complete_after_the_next() {
    let (served, _, new) = two_versions(24 * MEBIBYTE, 4);
    let (home, root) = (served.home(), served.root());
    let (from, to) = (utf8(root.join("source")), served.place("target"));
    let slow = ["--accept-new", "--in-place", "--limit-rate=3M", "-T", "--delta=never", &from, &to];
    let mut killed = Run::start(&home, &slow);
    killed.wait_for_bytes(2 << 20);
    killed.kill();
    killed.end().expect("it ends");
    for how in ["--delta=always", "--delta=never"] {
        run(&home, &["--accept-new", "--in-place", "-T", how, &from, &to]);
        assert!(fs::read(root.join("target")).expect("a file") == new, "{how}");
    }
    assert_eq!(tree::leftovers(&root), Vec::<PathBuf>::new());
}

#[test]
fn a_version_that_is_written_meanwhile_spoils_nothing() {
    let (served, old, new) = two_versions(24 * MEBIBYTE, 4);
    let (home, root) = (served.home(), served.root());
    let (from, to) = (utf8(root.join("source")), served.place("target"));
    let mut slow =
        Run::start(&home, &["--accept-new", "--limit-rate=4M", "-T", "--delta=always", &from, &to]);
    slow.wait_for_bytes(1 << 20);
    let version = File::options().write(true).open(root.join("target")).expect("a file");
    version.write_all_at(&[0x5a; 100_000], old.len() as u64 - 100_000).expect("a write");
    let ended = slow.ends(0);
    assert!(fs::read(root.join("target")).expect("a file") == new);
    assert!(ended.events.iter().any(|event| event["event"] == "begun_again"), "{ended:?}");
    assert_eq!(tree::leftovers(&root), Vec::<PathBuf>::new());
}

#[test]
fn a_source_that_is_written_meanwhile_is_not_copied() {
    let (served, old, _) = two_versions(24 * MEBIBYTE, 4);
    let (home, root) = (served.home(), served.root());
    let (from, to) = (utf8(root.join("source")), served.place("target"));
    let mut slow =
        Run::start(&home, &["--accept-new", "--limit-rate=4M", "-T", "--delta=always", &from, &to]);
    slow.wait_for_bytes(1 << 20);
    let source = File::options().write(true).open(root.join("source")).expect("a file");
    source.write_all_at(&[0x5a; 100_000], 20 << 20).expect("a write");
    slow.ends(1);
    assert!(fs::read(root.join("target")).expect("a file") == old, "the old version stays");
}

#[test]
fn auto_compares_on_slow_lines_only() {
    for (rate, compares) in [(Some("--limit-rate=4M"), true), (None, false)] {
        let (served, _, new) = two_versions(24 * MEBIBYTE, 50);
        let (home, root) = (served.home(), served.root());
        let (from, to) = (utf8(root.join("source")), served.place("target"));
        let mut arguments = vec!["--accept-new", "-T"];
        arguments.extend(rate);
        arguments.extend([from.as_str(), to.as_str()]);
        let ended = run(&home, &arguments);
        assert!(fs::read(root.join("target")).expect("a file") == new);
        // How fast a machine is that does nothing else is not known here.
        if compares {
            assert!(ended.done("matched_bytes") > 20 << 20, "{ended:?}");
        }
        assert_eq!(ended.done("bytes") + ended.done("matched_bytes"), new.len() as u64, "{ended:?}");
    }
}

#[test]
fn who_may_not_read_is_told_no_signatures() {
    let (served, _, new) = two_versions(2 * MEBIBYTE, 50);
    let root = served.root();
    let (from, to) = (utf8(root.join("source")), served.place("target"));
    let writer = served.home().with_file_name("writer");
    fs::create_dir(&writer).expect("a folder");
    let key = program::sealane(&["id"]).env("HOME", &writer).output().expect("the program starts");
    served.authorise_to(program::text(&key.stdout).trim(), "writer", "write");
    let copy = |how: &str| {
        let delta = format!("--delta={how}");
        run_to_end(&writer, &["--accept-new", "-T", &delta, &from, &to]).expect("it ends")
    };
    let refused = copy("always");
    assert_eq!((refused.code, refused.kind()), (Some(3), "refused"), "{refused:?}");
    assert!(refused.message().contains("--delta=auto"), "{refused:?}");
    let ended = copy("auto");
    assert_eq!((ended.code, ended.done("matched_bytes")), (Some(0), 0), "{ended:?}");
    assert!(fs::read(root.join("target")).expect("a file") == new);
}

#[test]
fn an_sftp_server_compares_nothing() {
    let Some(sshd) = or_skip(PrivateSshd::start()) else { return };
    let home = tempfile::tempdir().expect("a folder");
    let at = |name: &str| utf8(home.path().join(name));
    let old = old_version(MEBIBYTE);
    write(&home.path().join("file"), &with_new_blocks(&old, 30));
    write_old(&home.path().join("target"), &old);
    let (config, to) =
        (utf8(sshd.client_config().to_owned()), format!("{}:{}", PrivateSshd::HOST, at("target")));
    let copy = |delta: &str| {
        let arguments = ["-F", &config, "--far-end=sftp", "-T", delta, &at("file"), &to];
        run_to_end(home.path(), &arguments).expect("it ends")
    };
    let refused = copy("--delta=always");
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.message().contains("--delta=auto"), "{refused:?}");
    let ended = copy("--delta=auto");
    assert_eq!((ended.code, ended.done("matched_bytes")), (Some(0), 0), "{ended:?}");
    assert!(fs::read(at("target")).expect("a file") == with_new_blocks(&old, 30));
}
