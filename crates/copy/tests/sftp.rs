//! Tests of copies to and from a far host that has only an SFTP server: OpenSSH's own, behind a substitute for ssh.

#[path = "sftp/scene.rs"]
mod scene;
#[path = "../../../testing/skip.rs"]
mod skip;

use scene::*;
use sealane_copy::{
    Backup, Deletion, ErrorKind, FarEndChoice, Following, Level, Notice, Options, Ownership, Pattern,
    Progress, RelativePath,
};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

#[test]
fn a_tree_goes_there_and_comes_back() {
    let Some(scene) = Scene::set() else { return };
    plant(&scene.at("near/tree"));
    for streams in [None, Some(3)] {
        let options = Options { streams, ..scene.options() };
        let name = format!("sent{}", streams.unwrap_or(1));
        let (summary, _) = scene.copy("tree", &format!("host:{name}"), &options);
        assert_eq!((summary.files, summary.skipped), (310, 0));
        assert!(summary.streams <= streams.unwrap_or(8));
        same(&scene.at("near/tree"), &scene.far(&name));
        // The same command again finds everything present, by whole seconds.
        let (again, _) =
            scene.copy("tree", &format!("host:{name}"), &wishing(&options, |wishes| wishes.as_named = true));
        assert_eq!((again.bytes, again.skipped), (0, 310), "{again:?}");
        let back = format!("back{}", streams.unwrap_or(1));
        let (summary, _) = scene.copy(&format!("host:{name}"), &back, &options);
        assert_eq!((summary.files, summary.skipped), (310, 0));
        same(&scene.at("near/tree"), &scene.at("near").join(&back));
        let (again, _) =
            scene.copy(&format!("host:{name}"), &back, &wishing(&options, |wishes| wishes.as_named = true));
        assert_eq!((again.bytes, again.skipped), (0, 310), "{again:?}");
    }
    assert_eq!(fs::read_dir(scene.at("state")).unwrap().count(), 0, "journals have served");
}

#[test]
fn names_are_those_of_every_other_copy() {
    let Some(scene) = Scene::set() else { return };
    plant(&scene.at("near/tree"));
    let options = scene.options();
    fs::create_dir(scene.far("there")).unwrap();
    scene.copy("tree", "host:there", &options);
    same(&scene.at("near/tree"), &scene.far("there/tree"));
    scene.copy("tree/.", "host:there/contents/", &options);
    same(&scene.at("near/tree"), &scene.far("there/contents"));
    scene.copy("tree/small", "host:~/renamed", &options);
    assert_eq!(fs::read(scene.far("renamed")).unwrap(), b"small");
    scene.copy("host:there/tree/small", "fetched", &options);
    assert_eq!(fs::read(scene.at("near/fetched")).unwrap(), b"small");
    let (outcome, _) = scene.run(&["tree/small", "tree/nothing"], "host:both", &options);
    assert_eq!(outcome.unwrap().files, 2);
    assert!(scene.far("both/small").exists() && scene.far("both/nothing").exists());
    scene.copy("host:there/tree/sub/deep/1?", "tens", &options);
    assert_eq!(fs::read_dir(scene.at("near/tens")).unwrap().count(), 10);
    scene.copy("host:t*/tr*/sm*", "star", &options);
    assert!(scene.at("near/star/small").exists());
    let listed = ["sub/large", "small"].map(|path| RelativePath::new(path).unwrap());
    let some =
        Options { listed: Some(listed.to_vec()), ..wishing(&options, |wishes| wishes.recursive = false) };
    scene.copy("tree", "host:listed", &some);
    scene.copy("host:there/tree", "listed", &some);
    for root in [scene.far("listed"), scene.at("near/listed")] {
        assert_eq!(look(&root).len(), 3, "{:?}", look(&root).keys());
    }
    // Followed links become copies of their targets.
    fs::remove_file(scene.at("near/tree/sub/dangling")).unwrap();
    fs::remove_file(scene.far("there/tree/sub/dangling")).unwrap();
    let follow = wishing(&options, |wishes| wishes.following = Following::Everywhere);
    scene.copy("tree", "host:followed", &follow);
    scene.copy("host:there/tree", "followed", &follow);
    for root in [scene.far("followed"), scene.at("near/followed")] {
        assert_eq!(fs::symlink_metadata(root.join("link")).unwrap().len(), 5);
    }
    for (from, to, expected) in [
        ("tree", "host:no/such/folder", "no/such is not there"),
        ("host:no-such", "x", "no-such is not there"),
        ("host:no-such*", "x", "matches"),
        ("tree/small", "host:renamed/", "is not a directory"),
    ] {
        let (outcome, _) = scene.run(&[from], to, &options);
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn what_is_there_is_kept_replaced_or_deleted_as_asked() {
    let Some(scene) = Scene::set() else { return };
    plant(&scene.at("near/tree"));
    plant(&scene.far("source"));
    let options = wishing(&scene.options(), |wishes| wishes.as_named = true);
    for (from, to, root) in
        [("tree", "host:mirror", scene.far("mirror")), ("host:source", "mirror", scene.at("near/mirror"))]
    {
        scene.copy(from, to, &options);
        fs::write(root.join("extra"), b"extra").unwrap();
        fs::create_dir_all(root.join("old/er")).unwrap();
        fs::write(root.join("old/er/file"), b"x").unwrap();
        fs::write(root.join("keep.o"), b"filtered").unwrap();
        fs::write(root.join("small"), b"newer").unwrap();
        let mut mirror = options.clone();
        mirror.wishes.patterns = vec![Pattern::Exclude("*.o".to_owned())];
        mirror.wishes.upkeep.delete = Some(Deletion::default());
        mirror.wishes.upkeep.itemise = true;
        let dry = wishing(&mirror, |wishes| wishes.dry_run = true);
        let (summary, notices) = scene.copy(from, to, &dry);
        assert_eq!(summary.deleted, 4, "{notices:?}");
        assert!(notices.iter().any(
            |notice| matches!(notice, Notice::WouldSend { change, .. } if change.path.ends_with(b"small"))
        ));
        assert!(root.join("old/er/file").exists() && fs::read(root.join("small")).unwrap() == b"newer");
        // A newer file stays, if requested.
        let (summary, _) = scene.copy(from, to, &wishing(&options, |wishes| wishes.update = true));
        assert_eq!(summary.bytes, 0);
        assert_eq!(fs::read(root.join("small")).unwrap(), b"newer");
        let mut few = mirror.clone();
        few.wishes.upkeep.delete = Some(Deletion { entries_max: Some(1), excluded: false });
        let (summary, notices) = scene.copy(from, to, &few);
        assert!(summary.undeleted > 0 && failures(&notices).contains("--max-delete"), "{notices:?}");
        fs::write(root.join("small"), b"newer").unwrap();
        mirror.wishes.upkeep.backup = Some(Backup { suffix: b"~".to_vec(), folder: None });
        let (summary, notices) = scene.copy(from, to, &mirror);
        assert_eq!(fs::read(root.join("small")).unwrap(), b"small");
        assert_eq!(fs::read(root.join("small~")).unwrap(), b"newer");
        assert_eq!(fs::read(root.join("extra~")).unwrap(), b"extra");
        assert!(root.join("keep.o").exists());
        assert!(summary.deleted >= 2, "{summary:?} {notices:?}");
        let changed = |notice: &Notice| matches!(notice, Notice::Changed(change) if change.path.ends_with(b"small") && change.differences.time && !change.differences.is_new);
        assert!(notices.iter().any(changed), "{notices:?}");
    }
}

fn would_send(notices: &[Notice]) -> Vec<String> {
    let told = notices.iter().filter_map(|notice| match notice {
        Notice::WouldSend { change, .. } => Some(String::from_utf8_lossy(&change.path).into_owned()),
        _ => None,
    });
    let mut told: Vec<_> = told.collect();
    told.sort();
    told
}

#[test]
fn what_is_as_it_was_sent_is_left_alone_and_what_differs_is_brought_up_to_date() {
    let Some(scene) = Scene::set() else { return };
    plant(&scene.at("near/tree"));
    plant(&scene.far("source"));
    let mut options = wishing(&scene.options(), |wishes| wishes.as_named = true);
    options.wishes.upkeep.itemise = true;
    options.wishes.upkeep.backup = Some(Backup { suffix: b"~".to_vec(), folder: None });
    let dry = wishing(&options, |wishes| wishes.dry_run = true);
    for (from, to, source, target) in [
        ("tree", "host:mirror", scene.at("near/tree"), scene.far("mirror")),
        ("host:source", "mirror", scene.far("source"), scene.at("near/mirror")),
    ] {
        let (summary, notices) = scene.copy(from, to, &dry);
        assert_eq!(summary.files, 310, "{:?}", would_send(&notices));
        assert!(summary.bytes > LARGE_BYTES as u64 && !target.exists());
        scene.copy(from, to, &options);
        let link = || fs::symlink_metadata(target.join("link")).unwrap().ino();
        let first = link();
        for options in [&dry, &options] {
            let (summary, notices) = scene.copy(from, to, options);
            let told = |notice: &&Notice| matches!(notice, Notice::Changed(_) | Notice::WouldSend { .. });
            assert!(!notices.iter().any(|notice| told(&notice)), "{notices:?}");
            assert_eq!((summary.files, summary.bytes, summary.skipped), (0, 0, 310), "{notices:?}");
        }
        assert_eq!(link(), first, "the link was made again");
        assert!(fs::symlink_metadata(target.join("link~")).is_err());
        // A mode, a link's target, and a folder's time.
        fs::set_permissions(source.join("small"), fs::Permissions::from_mode(0o640)).unwrap();
        fs::remove_file(source.join("link")).unwrap();
        symlink("nothing", source.join("link")).unwrap();
        set_time(&source.join("empty"), 1_250_000_000);
        let (summary, notices) = scene.copy(from, to, &dry);
        let changed = would_send(&notices);
        let changed: Vec<_> =
            changed.iter().filter(|path| !path.is_empty() && !path.ends_with('.')).collect();
        let names: Vec<_> = changed.iter().filter_map(|path| path.split('/').next_back()).collect();
        assert!(["empty", "link", "small"].iter().all(|name| names.contains(name)), "{names:?}");
        assert_eq!(summary.bytes, 0);
        assert_eq!(link(), first, "a dry run made a link");
        scene.copy(from, to, &options);
        assert_eq!(fs::metadata(target.join("small")).unwrap().mode() & 0o777, 0o640);
        assert_eq!(fs::read_link(target.join("link")).unwrap(), Path::new("nothing"));
        assert_eq!(fs::read_link(target.join("link~")).unwrap(), Path::new("small"));
        assert_eq!(fs::metadata(target.join("empty")).unwrap().mtime(), 1_250_000_000);
        assert!(!target.join("small~").exists(), "its content did not change");
    }
}

#[test]
fn a_dry_run_foretells_failures_and_more_entries_than_can_wait() {
    const FILES: usize = 9_000;
    let Some(scene) = Scene::set() else { return };
    fs::create_dir_all(scene.at("near/tree/many")).unwrap();
    for number in 0..FILES {
        File::create(scene.at("near/tree/many").join(number.to_string())).unwrap();
    }
    fs::create_dir(scene.at("near/tree/folder")).unwrap();
    fs::write(scene.at("near/tree/folder/in"), b"x").unwrap();
    fs::write(scene.at("near/tree/file"), b"x").unwrap();
    fs::create_dir_all(scene.far("tree/file")).unwrap();
    fs::write(scene.far("tree/folder"), b"x").unwrap();
    set_time(&scene.at("near/tree"), 1_000_000_000);
    let options = wishing(&scene.options(), |wishes| wishes.as_named = true);
    for dry_run in [true, false] {
        let (outcome, notices) =
            scene.run(&["tree"], "host:tree", &wishing(&options, |wishes| wishes.dry_run = dry_run));
        let summary = outcome.unwrap();
        let failures = failures(&notices);
        assert!(failures.contains("a file is in the place of the folder"), "{failures}");
        assert!(failures.contains("a folder is in its place"), "{failures}");
        let files = if dry_run { FILES as u64 + 2 } else { 1 };
        assert_eq!((summary.failed, summary.files), (3, files), "{failures}");
        assert!(!scene.far("tree/many").exists());
        if dry_run {
            assert_eq!(would_send(&notices).len() as u64, files);
            fs::remove_dir_all(scene.at("near/tree/many")).unwrap();
            set_time(&scene.at("near/tree"), 1_000_000_000);
        }
    }
}

#[test]
fn contents_are_compared_by_reading_them_back() {
    let Some(scene) = Scene::set() else { return };
    plant(&scene.at("near/tree"));
    let mut options = wishing(&scene.options(), |wishes| wishes.as_named = true);
    scene.copy("tree", "host:tree", &options);
    options.wishes.skip_same = false;
    options.wishes.upkeep.checksum = true;
    // The same content under another time is skipped, another content under the same time is not.
    set_time(&scene.far("tree/sub/large"), 7);
    let stat = fs::metadata(scene.far("tree/small")).unwrap();
    fs::write(scene.far("tree/small"), b"SMALL").unwrap();
    set_time(&scene.far("tree/small"), stat.mtime() as u64);
    let (summary, _) = scene.copy("tree", "host:tree", &options);
    assert_eq!((summary.bytes, summary.files, summary.skipped), (5, 2, 308));
    assert_eq!(fs::metadata(scene.far("tree/sub/large")).unwrap().mtime(), 1_100_000_001);
    assert_eq!(fs::read(scene.far("tree/small")).unwrap(), b"small");
    scene.copy("host:tree", "back", &options);
    fs::write(scene.at("near/back/small"), b"SMALL").unwrap();
    let (summary, _) = scene.copy("host:tree", "back", &options);
    assert_eq!((summary.bytes, summary.skipped), (5, 309));
}

#[test]
fn long_files_are_compared_by_a_program_of_the_far_host() {
    let Some(scene) = Scene::set() else { return };
    plant(&scene.at("near/tree"));
    let mut options = wishing(&scene.options(), |wishes| wishes.as_named = true);
    scene.copy("tree", "host:tree", &options);
    scene.copy("host:tree", "back", &options);
    options.wishes.skip_same = false;
    options.wishes.upkeep.checksum = true;
    let large = scene.far("tree/sub/large");
    let odd = format!(
        "mkdir -p ../odd; printf '#!/bin/sh\\n%s\\n' '{}' >../odd/b3sum; chmod 755 ../odd/b3sum; PATH=$PWD/../odd:$PATH",
        "cat >/dev/null; echo 0000000000000000000000000000000000000000000000000000000000000000"
    );
    // The first shell is an honest one; the others greet, start elsewhere, fail, are a server of SFTP as in an account
    // for that alone, or have a program that lies.
    for before in ["", "echo Welcome;", "cd /;", "exit 1;", "exec SERVER;", &odd] {
        let before = format!("echo used >'{}'; {before}", scene.at("used").display());
        scene.answer_with_a_shell(&before.replace("SERVER", scene.server));
        let _ = fs::remove_file(scene.at("used"));
        for (seconds, change) in [(7, None), (8, Some(1 << 20))] {
            let mut content = pattern(LARGE_BYTES);
            if let Some(at) = change {
                content[at] ^= 1;
            }
            fs::write(&large, &content).unwrap();
            set_time(&large, seconds);
            let bytes = if change.is_some() { LARGE_BYTES as u64 } else { 0 };
            let dry = wishing(&options, |wishes| wishes.dry_run = true);
            let (_, notices) = scene.copy("host:tree", "back", &dry);
            let fetched = notices.iter().map(|notice| match notice {
                Notice::WouldSend { bytes, .. } => *bytes,
                _ => 0,
            });
            assert_eq!(fetched.sum::<u64>(), bytes, "{before}: {notices:?}");
            let (summary, _) = scene.copy("tree", "host:tree", &options);
            assert_eq!((summary.bytes, summary.files), (bytes, 1), "{before}: {summary:?}");
            same(&scene.at("near/tree"), &scene.far("tree"));
        }
        assert!(scene.at("used").exists(), "{before}: no shell was started");
    }
}

#[test]
fn a_server_of_another_maker_is_copied_to_and_from() {
    let Some(scene) = Scene::set() else { return };
    if Command::new(FOREIGN).arg("-h").output().is_err() {
        return skip::skip("the server of Go's pkg/sftp is not installed; `cargo xtask peers` brings it");
    }
    scene.answer(&format!("exec {FOREIGN}"));
    plant(&scene.at("near/tree"));
    fs::hard_link(scene.at("near/tree/small"), scene.at("near/tree/other")).unwrap();
    let mut options =
        Options { streams: Some(2), ..wishing(&scene.options(), |wishes| wishes.as_named = true) };
    options.wishes.preserve.hard_links = true;
    scene.copy("tree", "host:tree", &options);
    let ino = |name: &str| fs::metadata(scene.far("tree").join(name)).unwrap().ino();
    assert_eq!(ino("small"), ino("other"));
    let (again, notices) = scene.copy("tree", "host:tree", &options);
    assert_eq!(again.bytes, 0, "{notices:?}");
    scene.copy("host:tree", "back", &scene.options());
    for root in [scene.far("tree"), scene.at("near/back")] {
        same_but_links(&scene.at("near/tree"), &root);
    }
    let mut mirror = options.clone();
    mirror.wishes.upkeep.delete = Some(Deletion::default());
    fs::write(scene.far("tree/extra"), b"extra").unwrap();
    fs::write(scene.far("tree/small"), b"replaced").unwrap();
    scene.copy("tree", "host:tree", &mirror);
    same_but_links(&scene.at("near/tree"), &scene.far("tree"));
    // Both connections' servers are killed, one after the other, and the same command goes on.
    fs::write(scene.at("near/tree/sub/large"), pattern(20 << 20)).unwrap();
    for seconds in ["0.03", "0.05", "0.07", "0.09"] {
        let (cut, far) = (scene.far("cut"), "host:cut");
        scene.answer(&format!("exec timeout -s KILL {seconds} {FOREIGN}"));
        let _ = scene.run(&["tree"], far, &options);
        nothing_half(&scene.at("near/tree"), &cut);
        scene.answer(&format!("exec {FOREIGN}"));
        scene.copy("tree", far, &options);
        same_but_links(&scene.at("near/tree"), &cut);
        fs::remove_dir_all(cut).unwrap();
    }
}

#[test]
fn owners_set_id_bits_links_and_holes_are_kept() {
    let Some(scene) = Scene::set() else { return };
    let tree = scene.at("near/tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("one"), b"twice").unwrap();
    fs::hard_link(tree.join("one"), tree.join("two")).unwrap();
    let sparse = File::create(tree.join("sparse")).unwrap();
    sparse.set_len(64 << 20).unwrap();
    sparse.write_all_at(b"island", 40 << 20).unwrap();
    fs::write(tree.join("tool"), b"tool").unwrap();
    let is_root = fs::metadata(&tree).unwrap().uid() == 0;
    if is_root {
        std::os::unix::fs::chown(tree.join("tool"), Some(1234), Some(2345)).unwrap();
    }
    fs::set_permissions(tree.join("tool"), fs::Permissions::from_mode(0o4755)).unwrap();
    let mut options = scene.options();
    options.wishes.preserve.hard_links = true;
    options.wishes.preserve.owner = Ownership::Kept;
    scene.copy("tree", "host:tree", &options);
    let stat = |name: &str| fs::metadata(scene.far("tree").join(name)).unwrap();
    assert_eq!(stat("one").ino(), stat("two").ino());
    assert_eq!(stat("tool").mode() & 0o7777, 0o4755);
    if is_root {
        assert_eq!((stat("tool").uid(), stat("tool").gid()), (1234, 2345));
    }
    assert!(stat("sparse").blocks() * 512 < 8 << 20, "{} blocks", stat("sparse").blocks());
    // The same command again makes no link anew, and so keeps no backup of one.
    let mut again = wishing(&options, |wishes| wishes.as_named = true);
    again.wishes.upkeep.backup = Some(Backup { suffix: b"~".to_vec(), folder: None });
    let names =
        || look(&scene.far("tree")).into_keys().map(|path| path.display().to_string()).collect::<Vec<_>>();
    for dry_run in [true, false] {
        let (summary, notices) =
            scene.copy("tree", "host:tree", &wishing(&again, |wishes| wishes.dry_run = dry_run));
        assert_eq!(summary.files, 0, "{summary:?} {notices:?}");
        assert_eq!(names(), ["one", "sparse", "tool", "two"]);
    }
    // A copy that looks the same is another file, and makes room for the link.
    let (one, two) = (scene.far("tree/one"), scene.far("tree/two"));
    fs::remove_file(&two).unwrap();
    assert!(Command::new("cp").arg("-a").args([&one, &two]).status().unwrap().success());
    let (summary, _) = scene.copy("tree", "host:tree", &again);
    // The folder gets its time back, too, if a second has passed: SFTP has no finer times.
    assert!((1..=2).contains(&summary.files), "{summary:?}");
    assert_eq!(names(), ["one", "sparse", "tool", "two", "two~"]);
    assert_eq!(stat("one").ino(), stat("two").ino());
    scene.copy("host:tree", "back", &options);
    let back = scene.at("near/back/sparse");
    assert!(fs::metadata(&back).unwrap().blocks() * 512 < 8 << 20);
    assert_eq!(fs::read(&back).unwrap(), fs::read(tree.join("sparse")).unwrap());
    assert_eq!(fs::metadata(scene.at("near/back/tool")).unwrap().mode() & 0o7777, 0o4755);
    // Without its owner a file does not get the bits that let others act as its owner.
    scene.copy("tree", "host:plain", &scene.options());
    assert_eq!(fs::metadata(scene.far("plain/tool")).unwrap().mode() & 0o7777, 0o755);
}

#[test]
fn servers_without_extensions_do_what_they_can() {
    let Some(scene) = Scene::set() else { return };
    plant(&scene.at("near/tree"));
    fs::hard_link(scene.at("near/tree/small"), scene.at("near/tree/other")).unwrap();
    let all = "posix-rename,hardlink,fsync,lsetstat,limits,statvfs,fstatvfs,expand-path";
    scene.answer(&format!("exec SERVER -P {all}"));
    let options = Options { streams: Some(2), ..wishing(&scene.options(), |wishes| wishes.as_named = true) };
    scene.copy("tree", "host:bare", &options);
    fs::write(scene.far("bare/small"), b"replaced").unwrap();
    scene.copy("tree", "host:bare", &options);
    scene.copy("host:bare", "back", &options);
    for root in [scene.far("bare"), scene.at("near/back")] {
        same_but_links(&scene.at("near/tree"), &root);
    }
    let mut linked = options.clone();
    linked.wishes.preserve.hard_links = true;
    let (outcome, notices) = scene.run(&["tree"], "host:linked", &linked);
    assert_eq!(outcome.unwrap().failed, 1);
    assert!(failures(&notices).contains("makes no hard links"), "{notices:?}");
    let error =
        scene.run(&["tree"], "host:synced", &wishing(&options, |wishes| wishes.fsync = true)).0.unwrap_err();
    assert!(error.to_string().contains("--fsync"), "{error}");
    // A read-only server reports that for every entry.
    scene.answer("exec SERVER -R");
    let (outcome, notices) = scene.run(&["tree/small", "tree/nothing"], "host:bare", &options);
    let failed = outcome.map_or_else(|error| error.to_string(), |_| failures(&notices));
    assert!(failed.contains("permission denied"), "{failed}");
}

/// Asserts that every file with its final name is complete.
#[track_caller]
fn nothing_half(source: &Path, target: &Path) {
    let Ok(_) = fs::metadata(target) else { return };
    let source = look(source);
    for (path, seen) in look(target) {
        // A file of an unfinished copy, or in a folder of one.
        if path.iter().any(|name| name.to_string_lossy().starts_with(".sealane-")) {
            continue;
        }
        let expected = source.get(&path).unwrap_or_else(|| panic!("{path:?} is not of the source"));
        assert!(seen.kind == 'd' || seen.content == expected.content, "{path:?} is half there");
    }
}

/// Copies at this rate until so many bytes have moved, and interrupts the copy.
fn cut_off(scene: &Scene, from: &str, to: &str, rate: u64, bytes: u64) {
    let slow = wishing(&scene.options(), |wishes| wishes.limit_rate = Some(rate));
    let progress = Arc::new(Progress::default());
    let outcome = std::thread::scope(|scope| {
        let progress = &progress;
        scope.spawn(move || {
            while progress.bytes_moved.load(Relaxed) < bytes {
                std::thread::sleep(Duration::from_millis(1));
            }
            progress.cancel.store(true, Relaxed);
        });
        scene.run_with(&[from], to, &slow, progress).0
    });
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Cancelled);
}

#[test]
fn a_copy_that_is_cut_off_goes_on() {
    let Some(scene) = Scene::set() else { return };
    plant(&scene.at("near/tree"));
    let large = scene.at("near/tree/sub/large");
    fs::write(&large, pattern(24 << 20)).unwrap();
    fs::create_dir(scene.at("far/source")).unwrap();
    fs::copy(&large, scene.far("source/large")).unwrap();
    for (from, to, source, target) in [
        ("tree", "host:cut", scene.at("near/tree"), scene.far("cut")),
        ("host:source", "cut", scene.far("source"), scene.at("near/cut")),
    ] {
        cut_off(&scene, from, to, 20 << 20, 6 << 20);
        nothing_half(&source, &target);
        let (summary, notices) = scene.copy(from, to, &scene.options());
        assert!(summary.resumed_bytes > 1 << 20, "{summary:?}");
        assert!(notices.iter().any(|notice| matches!(notice, Notice::Resuming { .. })));
        same(&source, &target);
    }
}

/// An interrupted file has a temporary name that follows from its size and time, so a run after a change begins another.
#[test]
fn a_source_that_has_changed_since_a_copy_was_cut_off_leaves_no_remains() {
    let Some(scene) = Scene::set() else { return };
    const BYTES: usize = 8 << 20;
    type Change = fn(&Path);
    let changes: [(&str, Change, bool); 4] = [
        ("longer", |path| fs::write(path, pattern(BYTES + 1)).unwrap(), false),
        ("small", |path| fs::write(path, b"small").unwrap(), false),
        ("gone", |path| fs::remove_file(path).unwrap(), false),
        // The earlier run was killed before the file had its size.
        ("begun", |path| fs::write(path, pattern(BYTES + 1)).unwrap(), true),
    ];
    for (name, change, is_only_begun) in changes {
        let (near, far) = (scene.at("near").join(name), scene.far(name));
        for (from, to, source, target) in [
            (format!("{name}/tree"), format!("host:{name}/sent"), near.join("tree"), far.join("sent")),
            (format!("host:{name}/tree"), format!("{name}/got"), far.join("tree"), near.join("got")),
        ] {
            fs::create_dir_all(&source).unwrap();
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::write(source.join("large"), pattern(BYTES)).unwrap();
            fs::write(source.join("other"), b"other").unwrap();
            cut_off(&scene, &from, &to, 10 << 20, 1 << 20);
            let is_part = |path: &Path| path.extension().is_some_and(|extension| extension == "part");
            let parts: Vec<_> = look(&target).into_keys().filter(|path| is_part(path)).collect();
            assert_eq!(parts.len(), 1, "{name}: {:?}", look(&target).keys());
            if is_only_begun {
                File::options().write(true).open(target.join(&parts[0])).unwrap().set_len(0).unwrap();
            }
            change(&source.join("large"));
            scene.copy(&from, &to, &wishing(&scene.options(), |wishes| wishes.as_named = true));
            same(&source, &target);
        }
    }
}

#[test]
fn servers_that_are_killed_at_any_moment_leave_nothing_half() {
    let Some(scene) = Scene::set() else { return };
    plant(&scene.at("near/tree"));
    fs::create_dir(scene.far("source")).unwrap();
    let filled =
        Command::new("cp").arg("-a").arg(scene.at("near/tree")).arg(scene.far("source/tree")).status();
    assert!(filled.unwrap().success());
    for (from, to, source, target) in [
        ("tree", "host:killed", scene.at("near/tree"), scene.far("killed")),
        ("host:source/tree", "killed", scene.far("source/tree"), scene.at("near/killed")),
    ] {
        for round in 0..12 {
            scene.answer(&format!("exec timeout -s KILL 0.0{:02} SERVER", round * 5));
            let options =
                Options { streams: Some(2), ..wishing(&scene.options(), |wishes| wishes.as_named = true) };
            let (outcome, _) = scene.run(&[from], to, &options);
            if let Err(error) = outcome {
                assert!(matches!(error.kind(), ErrorKind::Disconnected | ErrorKind::Connect), "{error}");
            }
            nothing_half(&source, &target);
        }
        scene.answer("exec SERVER");
        scene.copy(from, to, &wishing(&scene.options(), |wishes| wishes.as_named = true));
        same(&source, &target);
    }
}

#[test]
fn a_further_connection_that_is_refused_or_lost_costs_nothing() {
    let Some(scene) = Scene::set() else { return };
    plant(&scene.at("near/tree"));
    let options = Options { streams: Some(8), ..scene.options() };
    // Only the first login succeeds: the further ones are those without prompts.
    scene.answer("case \"$*\" in *BatchMode*) echo refused >> ../logins; exit 255;; esac; exec SERVER");
    let (summary, _) = scene.copy("tree", "host:alone", &options);
    assert_eq!(summary.streams, 1);
    same(&scene.at("near/tree"), &scene.far("alone"));
    let logins = fs::read_to_string(scene.at("logins")).unwrap();
    assert_eq!(logins.lines().count(), 1, "a refused login is not tried again");
    // The connections that succeed are lost again.
    scene.answer("case \"$*\" in *BatchMode*) exec timeout -s KILL 0.1 SERVER;; esac; exec SERVER");
    fs::write(scene.at("near/tree/sub/large"), pattern(40 << 20)).unwrap();
    scene.copy("tree", "host:lossy", &options);
    same(&scene.at("near/tree"), &scene.far("lossy"));
    scene.copy("host:lossy", "lossy", &options);
    same(&scene.at("near/tree"), &scene.at("near/lossy"));
}

#[test]
fn a_full_disk_is_told() {
    let Some(scene) = Scene::set() else { return };
    fs::create_dir(scene.far("small")).unwrap();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=2m", "sealane-test"]).arg(scene.far("small"));
    let mounted = mount.output().is_ok_and(|output| output.status.success());
    if !mounted {
        return skip::skip("a small file system cannot be mounted here");
    }
    fs::write(scene.at("near/file"), pattern(8 << 20)).unwrap();
    let (outcome, _) = scene.run(&["file"], "host:small/file", &scene.options());
    let left: Vec<_> =
        fs::read_dir(scene.far("small")).unwrap().map(|found| found.unwrap().file_name()).collect();
    let unmounted = Command::new("umount").arg(scene.far("small")).status();
    assert!(unmounted.unwrap().success());
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::DiskFull);
    assert!(!left.iter().any(|name| name == "file"), "{left:?}");
}

#[test]
fn a_host_without_sealane_is_told_and_copied_to() {
    let Some(scene) = Scene::set() else { return };
    plant(&scene.at("near/tree"));
    let mut options = scene.options();
    options.remote.far_end = FarEndChoice::Auto;
    let (_, notices) = scene.copy("tree", "host:tree", &options);
    assert!(notices.iter().any(|notice| matches!(notice, Notice::OverSftp { host } if host == "host")));
    same(&scene.at("near/tree"), &scene.far("tree"));
    // Options that need sealane at the far end are refused by name.
    for (change, expected) in [
        (
            &(|options: &mut Options| options.wishes.level = Level::Safe) as &dyn Fn(&mut Options),
            "--level safe",
        ),
        (&|options: &mut Options| options.wishes.digest = true, "--digest"),
    ] {
        let mut options = options.clone();
        change(&mut options);
        let error = scene.run(&["tree"], "host:x", &options).0.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert!(
            error.to_string().contains(expected) && error.to_string().contains("--install-far-end"),
            "{error}"
        );
    }
    options.remote.far_end = FarEndChoice::Sealane;
    let error = scene.run(&["tree"], "host:x", &options).0.unwrap_err();
    assert!(error.to_string().contains("not installed"), "{error}");
    // The far end is neither of the two.
    options.remote.far_end = FarEndChoice::Auto;
    scene.answer("exit 1");
    let error = scene.run(&["tree"], "host:x", &options).0.unwrap_err();
    assert!(error.to_string().contains("not installed") && error.to_string().contains("SFTP"), "{error}");
}

#[test]
fn an_account_for_sftp_only_is_copied_to() {
    let Some(scene) = Scene::set() else { return };
    plant(&scene.at("near/tree"));
    let mut options = scene.options();
    options.remote.far_end = FarEndChoice::Auto;
    // This server answers whatever command is requested, as with `ForceCommand internal-sftp`.
    let script = format!(
        "#!/bin/sh\ntest \"$1\" = -G && exit 1\ncd '{}'\nexec {} 2>/dev/null\n",
        scene.at("far").display(),
        scene.server
    );
    fs::write(scene.at("ssh.new"), script).unwrap();
    fs::set_permissions(scene.at("ssh.new"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(scene.at("ssh.new"), scene.at("ssh")).unwrap();
    scene.copy("tree", "host:tree", &options);
    same(&scene.at("near/tree"), &scene.far("tree"));
}

#[test]
fn servers_that_answer_nonsense_are_named() {
    let Some(scene) = Scene::set() else { return };
    plant(&scene.at("near/tree"));
    let version = r"printf '\0\0\0\5\2\0\0\0\3'";
    for (server, kind) in [
        ("echo This service allows sftp connections only.; sleep 1", ErrorKind::Protocol),
        (r"printf '\0\0\0\5\2\0\0\0\4'; sleep 1", ErrorKind::Protocol),
        (&format!("{version}; head -c 30 /dev/zero; sleep 1"), ErrorKind::Protocol),
        (&format!("{version}; cat"), ErrorKind::Protocol),
        (&format!("{version}; head -c 100000 /dev/urandom; sleep 1"), ErrorKind::Protocol),
        ("exit 0", ErrorKind::Connect),
        ("exit 255", ErrorKind::Connect),
    ] {
        scene.answer(server);
        for (from, to) in [("tree", "host:x"), ("host:x", "x")] {
            let error = scene.run(&[from], to, &scene.options()).0.unwrap_err();
            assert_eq!(error.kind(), kind, "{server}: {error}");
            assert!(error.to_string().contains("host"), "{error}");
        }
    }
}

/// A server with one folder of the given names, and files of arbitrary declared and actual sizes.
const LIAR: &str = r#"
use strict; my ($names, $size, $data, $link) = @ARGV; $names = eval qq("$names"); $link = eval qq("$link");
sub get { my $n = shift; my $b = ''; while (length $b < $n) { sysread(STDIN, $b, $n - length $b, length $b) or exit } $b }
sub put { my $b = join '', @_; syswrite STDOUT, pack('N', length $b) . $b }
sub str { pack 'N/a*', shift }
sub attrs { pack 'NQ>NNNNN', 15, shift, 0, 0, shift, 1, 1 }
my $listed = 0;
get(unpack 'N', get 4); put(pack 'CN', 2, 3);
while (1) {
    my $packet = get(unpack 'N', get 4); my ($type, $id) = unpack 'CN', $packet; $id = pack 'N', $id;
    if ($type == 16 or $type == 19) { put chr 104, $id, pack('N', 1), str($type == 16 ? '/home' : $link), str(''), pack('N', 0) }
    elsif ($type == 7 or $type == 17) { my $dir = $packet =~ /root$/; put chr 105, $id, attrs($dir ? 0 : $size, $dir ? 040755 : 0100644) }
    elsif ($type == 8) { put chr 105, $id, attrs($size, 0100644) }
    elsif ($type == 3 or $type == 11) { put chr 102, $id, str('h') }
    elsif ($type == 12 and !$listed++) {
        my @names = split /;/, $names, -1;
        put chr 104, $id, pack('N', scalar @names), map { str($_), str('x'), attrs($size, /^l/ ? 0120777 : 0100644) } @names;
    }
    elsif ($type == 5) { $data eq '' ? put chr 101, $id, pack('N', 1) : put chr 103, $id, str($data) }
    else { put chr 101, $id, pack('N', $type == 12 ? 1 : 0), str(''), str('') }
}
"#;

#[test]
fn a_server_that_lies_in_every_field_gets_nothing_out_of_it() {
    let Some(scene) = Scene::set() else { return };
    if !Command::new("perl").arg("-v").output().is_ok_and(|output| output.status.success()) {
        return skip::skip("perl, which the server is written in, is not installed");
    }
    fs::write(scene.at("liar.pl"), LIAR).unwrap();
    fs::create_dir(scene.at("near/deep")).unwrap();
    let long = "n".repeat(256);
    // Names, the size of each file, the data of a read, the target of a link, and the number of entries that then
    // arrive.
    for (number, (names, size, data, link, files)) in [
        ("../up;/abs;a/b;.;..;;nul\\0;good", "4", "good", "x", 2),
        (&*long, "4", "good", "x", 1),
        ("same;same", "4", "good", "x", 3),
        ("short", "9", "good", "x", 1),
        ("overfull", "2", "good", "x", 1),
        ("empty", "5", "", "x", 1),
        ("huge", "18446744073709551615", "good", "x", 1),
        ("link;lost", "0", "", "", 1),
        ("link", "0", "", "a\\0b", 1),
        (
            ".sealane-0123456789abcdef.part;.sealane-0123456789abcdef0123456789abcdef.journal",
            "4",
            "good",
            "x",
            1,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        scene.answer(&format!("exec perl ../liar.pl '{names}' '{size}' '{data}' '{link}'"));
        let target = format!("deep/target{number}");
        let options = wishing(&scene.options(), |wishes| {
            wishes.limit_rate = None;
            wishes.timeout = Duration::from_secs(5);
        });
        let progress = Arc::new(Progress::default());
        let (outcome, notices) = scene.run_with(&["host:root"], &target, &options, &progress);
        let made = look(&scene.at("near/deep"));
        let is_expected = |path: &Path| {
            let name = path.to_string_lossy();
            let is_of_some = (0..=number).any(|some| path.starts_with(format!("target{some}")));
            is_of_some || name.starts_with(".sealane-") && name.ends_with(".journal")
        };
        let strange: Vec<_> = made.keys().filter(|path| !is_expected(path)).collect();
        assert!(strange.is_empty(), "{names}: {strange:?}");
        assert_eq!(fs::read_dir(scene.at("near")).unwrap().count(), 1, "{names}");
        match outcome {
            Ok(summary) => assert!(summary.files <= files, "{names} {size}: {summary:?} {notices:?}"),
            Err(error) => assert!(!error.to_string().is_empty(), "{names}"),
        }
        let whole = made
            .iter()
            .filter(|(path, seen)| seen.kind == 'f' && !path.to_string_lossy().contains(".sealane-"));
        for (path, seen) in whole {
            assert_eq!(seen.content, b"good", "{names} {size}: {path:?}");
        }
    }
}
