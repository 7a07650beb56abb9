//! Entries and attributes that only root copies: devices, `security.` and `trusted.`.

use super::*;
use rustix::fs::{FileType, Mode, XattrFlags, lsetxattr, makedev, mknodat};
use std::os::unix::process::CommandExt;

/// The same, with devices, pipes and sockets. The target has others, and other entries in their place.
fn plant_specials(root: &Path) {
    plant(root);
    let make = |name: &str, kind, mode, number| {
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        mknodat(CWD, &path, kind, Mode::from_raw_mode(0o600), number).expect("root may");
        set_mode(&path, mode);
        let then = Timespec { tv_sec: THEN as i64, tv_nsec: 5 };
        let times = Timestamps { last_access: then, last_modification: then };
        utimensat(CWD, &path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("a time");
    };
    let null = makedev(1, 3);
    make("source/dev/null", FileType::CharacterDevice, 0o666, null);
    make("source/dev/same", FileType::CharacterDevice, 0o600, null);
    make("source/dev/disk", FileType::BlockDevice, 0o640, makedev(240, 300));
    make("source/dev/new", FileType::BlockDevice, 0o600, makedev(240, 1));
    make("source/pipe", FileType::Fifo, 0o622, 0);
    make("source/deep/socket", FileType::Socket, 0o755, 0);
    lchown(root.join("source/dev/disk"), Some(7), Some(8)).expect("root may");
    make("target/dev/null", FileType::CharacterDevice, 0o666, makedev(1, 5));
    make("target/dev/same", FileType::CharacterDevice, 0o640, null);
    make("target/pipe", FileType::Socket, 0o600, 0);
    make("target/extra/pipe", FileType::Fifo, 0o600, 0);
    put_then(&root.join("target/deep/socket"), b"a file");
    symlink("null", root.join("target/dev/disk")).expect("a link");
    for folder in ["dev", "deep", "extra", ""] {
        for tree in ["source", "target"].map(|tree| root.join(tree).join(folder)) {
            if tree.exists() {
                touch(&tree, 1_600_000_000);
            }
        }
    }
}

#[test]
fn devices_pipes_and_sockets_are_made_by_who_may() {
    let Some(scene) = Scene::set() else { return };
    let there = tempfile::tempdir().expect("a folder");
    let probe = mknodat(
        CWD,
        there.path().join("null"),
        FileType::CharacterDevice,
        Mode::from_raw_mode(0o600),
        makedev(1, 3),
    );
    if probe.is_err() {
        return skip("this user may not make devices");
    }
    let near = |ours, theirs| Case { ours, theirs, over_sftp: false };
    scene.compare(
        "specials",
        plant_specials,
        &[
            near(&["-D"], &[]),
            near(&["-D", "--delete"], &["--delete"]),
            near(&["-D", "--checksum", "--existing"], &["--checksum", "--existing"]),
            near(&["-D", "--chmod=go-w"], &["--chmod=go-w"]),
            near(&["--specials"], &[]),
        ],
    );
    let folder = scene.served.root().join("unasked");
    fs::create_dir(&folder).expect("a folder");
    plant_specials(&folder);
    let before = look(&folder.join("target"));
    // Without the option they are named, and nothing of theirs is touched.
    let passed_over = scene.cp(&folder, Way::ToDaemon, &[]).ends(1);
    let said = text(&passed_over.stderr);
    assert_eq!(said.matches("it is a device, pipe or socket; -D copies it").count(), 6, "{said}");
    let of_special = |tree: &BTreeMap<PathBuf, Fact>| {
        let named = ["pipe", "dev/null", "dev/same", "dev/disk", "deep/socket", "extra/pipe"];
        named.map(|name| tree.get(Path::new(name)).cloned())
    };
    assert_eq!(of_special(&look(&folder.join("target"))), of_special(&before));
    // Over SFTP nobody makes them.
    for way in [Way::ToSftp, Way::FromSftp].into_iter().filter(|way| scene.ways().contains(way)) {
        scene.cp(&folder, way, &["-D"]).complains(2, &["-D (SFTP makes no devices"]);
    }
    // A daemon wants a right for them, and for what gives programs capabilities, before anything is changed.
    let before = look(&folder.join("target"));
    for (option, lacking, right) in
        [("-D", "devices", "devices"), ("-X", "privileges", "extended attributes")]
    {
        let rights: Vec<_> = ALL_RIGHTS.split(',').filter(|word| *word != lacking).collect();
        scene.served.grant(&rights.join(","));
        let refused = scene.cp(&folder, Way::ToDaemon, &[option]).output().expect("the program starts");
        assert_ne!(refused.status.code(), Some(0), "{refused:?}");
        let said = text(&refused.stderr);
        assert!(said.contains("no right to") && said.contains(right), "{said}");
        assert_eq!(look(&folder.join("target")), before, "{option}");
        // Reading takes no right.
        scene.cp(&folder, Way::FromDaemon, &[option, "--exclude=*", "-n"]).ends(0);
    }
}

/// A program may read all files.
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// The same, with attributes of all namespaces, and owners whose change takes capabilities away.
fn plant_attributes(root: &Path) {
    plant_owned(root);
    let set = |name: &str, attribute: &str, value: &[u8]| {
        lsetxattr(root.join(name), attribute, value, XattrFlags::empty()).expect("root may");
    };
    for name in ["source/small", "source/run", "source/equal/one", "source/deep/large", "source/new/large"] {
        set(name, "security.capability", &CAPABILITY);
    }
    for (name, attribute) in [
        ("source/run", "user.comment"),
        ("source/run", "trusted.mark"),
        ("source/equal/two", "trusted.mark"),
        ("source/deep", "trusted.folder"),
        ("source/deep", "security.folder"),
        ("target/deep/large", "trusted.other"),
        ("target/equal/one", "security.other"),
        ("target/equal/two", "trusted.other"),
        ("target/equal", "trusted.other"),
    ] {
        set(name, attribute, name.as_bytes());
    }
    set("target/equal/two", "trusted.mark", b"another value");
}

#[test]
fn attributes_of_root_are_kept_where_that_is_asked_for() {
    let Some(scene) = Scene::set() else { return };
    let there = tempfile::tempdir().expect("a folder");
    let probe = there.path().join("probe");
    fs::write(&probe, "").expect("a file");
    let may = |name, value: &[u8]| lsetxattr(&probe, name, value, XattrFlags::empty()).is_ok();
    if !may("trusted.probe", b"") || !may("security.capability", &CAPABILITY) {
        return skip("this user may not set attributes of trusted. and security.");
    }
    let near = |ours, theirs| Case { ours, theirs, over_sftp: false };
    scene.compare(
        "attributes",
        plant_attributes,
        &[
            near(&["-X"], &["-X"]),
            near(&["--xattrs", "--delete", "--checksum"], &["-X", "--delete", "--checksum"]),
            near(&["-X", "-A", "--ignore-times"], &["-X", "-A", "-I"]),
        ],
    );
    // Without the option they stay as they are, and -a keeps those of users.
    let folder = scene.served.root().join("users");
    fs::create_dir(&folder).expect("a folder");
    plant_attributes(&folder);
    scene.cp(&folder, Way::ToDaemon, &[]).ends(0);
    let of = |name: &str| attributes(&folder.join("target").join(name));
    assert_eq!(of("run"), ["user.comment=736f757263652f72756e"]);
    assert_eq!(of("equal/one"), [format!("security.other={}", program::hex(b"target/equal/one"))]);
}

#[test]
fn who_is_not_root_is_told_that_capabilities_are_not_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, target) = (folder.path().join("source"), folder.path().join("own/target"));
    put(&source.join("run"), b"a program", 0o755, THEN);
    let set =
        |name: &str, value: &[u8]| lsetxattr(source.join("run"), name, value, XattrFlags::empty()).is_ok();
    if !set("security.capability", &CAPABILITY) || !set("user.comment", b"kept") {
        return skip("this user may not give programs capabilities");
    }
    let own = folder.path().join("own");
    fs::create_dir(&own).expect("a folder");
    lchown(&own, Some(65_534), Some(65_534)).expect("root may");
    set_mode(folder.path(), 0o755);
    let mut command = sealane(&["cp", "-aTX"]);
    command.arg(&source).arg(&target).env("HOME", &own).env_remove("XDG_RUNTIME_DIR");
    let output = match command.uid(65_534).gid(65_534).output() {
        Ok(output) => output,
        Err(error) => {
            return skip(format!("another user cannot run the program: {error}"));
        }
    };
    output.complains(0, &["capabilities among them, are not kept"]);
    assert_eq!(attributes(&target.join("run")), ["user.comment=6b657074"]);
}
