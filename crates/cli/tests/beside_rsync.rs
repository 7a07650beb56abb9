//! Options that rsync has too: what they do, on every way to a target, is what rsync does here.

#[path = "beside_rsync/as_root.rs"]
mod as_root;
mod program;
#[path = "../../../testing/sshd.rs"]
mod sshd;
mod support;

use program::{Ends, or_skip, sealane, set_mode, skip, text};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, lgetxattr, llistxattr, utimensat};
use sshd::PrivateSshd;
use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{MetadataExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};
use support::daemon::Served;

const ALL_RIGHTS: &str = "read,write,delete,owner,set-id,devices,privileges";

/// How a case is copied. ssh carries the same messages as a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Near,
    ToDaemon,
    FromDaemon,
    ToSftp,
    FromSftp,
}

const LOCAL: [Way; 3] = [Way::Near, Way::ToDaemon, Way::FromDaemon];
const ALL: [Way; 5] = [Way::Near, Way::ToDaemon, Way::FromDaemon, Way::ToSftp, Way::FromSftp];

impl Way {
    fn is_sftp(self) -> bool {
        matches!(self, Self::ToSftp | Self::FromSftp)
    }
}

/// The options of one copy.
struct Case {
    ours: &'static [&'static str],
    theirs: &'static [&'static str],
    over_sftp: bool,
}

/// A case whose options have the same names.
const fn same(options: &'static [&'static str]) -> Case {
    Case { ours: options, theirs: options, over_sftp: true }
}

/// The servers.
struct Scene {
    served: Served,
    sshd: Option<PrivateSshd>,
}

/// An entry: what it is and has, its mode, its time in seconds, and its owner and group.
type Fact = (String, u32, i64, u32, u32);

fn touch(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    File::open(path).and_then(|file| file.set_times(FileTimes::new().set_modified(time))).expect("a time");
}

/// The time of most entries.
const THEN: u64 = 1_500_000_000;

/// Writes a file of that time, which everybody may read.
fn put_then(path: &Path, content: &[u8]) {
    put(path, content, 0o644, THEN);
}

fn put(path: &Path, content: &[u8], mode: u32, seconds: u64) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
    fs::write(path, content).expect("a file");
    set_mode(path, mode);
    touch(path, seconds);
}

fn cp(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-aT").args([from, to]).status().expect("cp starts");
    assert!(status.success());
}

/// Makes a source and a target that has older, newer, equal and other entries.
fn plant(root: &Path) {
    let (source, target) = (root.join("source"), root.join("target"));
    for (name, bytes, mode) in [
        ("empty", 0, 0o644),
        ("small", 100, 0o600),
        ("run", 1000, 0o755),
        ("deep/er/medium", 40_000, 0o640),
        ("deep/large", 2_000_000, 0o664),
        ("equal/one", 500, 0o644),
        ("equal/two", 70_000, 0o644),
        ("new/only", 300, 0o644),
        ("new/large", 300_000, 0o644),
    ] {
        let content: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8 ^ name.len() as u8).collect();
        put(&source.join(name), &content, mode, THEN);
    }
    for name in ["deep/size", "deep/time", "deep/near", "deep/content", "deep/mode"] {
        put_then(&source.join(name), b"from the source");
    }
    symlink("small", source.join("link")).expect("a link");
    symlink("elsewhere", source.join("deep/other")).expect("a link");
    cp(&source, &target);
    fs::remove_dir_all(target.join("new")).expect("it was there");
    fs::remove_file(target.join("run")).expect("it was there");
    fs::remove_file(target.join("deep/other")).expect("it was there");
    symlink("nowhere", target.join("deep/other")).expect("a link");
    let old = Timespec { tv_sec: 1_400_000_000, tv_nsec: 0 };
    let times = Timestamps { last_access: old, last_modification: old };
    utimensat(CWD, target.join("deep/other"), &times, AtFlags::SYMLINK_NOFOLLOW).expect("a time");
    put_then(&target.join("deep/size"), b"shorter");
    put(&target.join("deep/time"), b"of other times!", 0o644, 1_400_000_000);
    put(&target.join("deep/near"), b"of nearly then!", 0o644, 1_500_000_002);
    put_then(&target.join("deep/content"), b"looks the same!");
    set_mode(target.join("deep/mode"), 0o666);
    put(&target.join("extra/file"), b"the source has it not", 0o644, 1_450_000_000);
    put(&target.join("large"), &[7; 400_000], 0o644, 1_450_000_000);
    for folder in ["deep/er", "deep", "equal", "new", "extra", ""] {
        for tree in [&source, &target].into_iter().filter(|tree| tree.join(folder).exists()) {
            touch(&tree.join(folder), 1_600_000_000);
        }
    }
}

/// Returns all extended attributes of an entry, lists among them, but for labels of the system.
fn attributes(path: &Path) -> Vec<String> {
    let mut names = vec![0; 4096];
    let length = llistxattr(path, names.as_mut_slice()).unwrap_or(0);
    let names = names[..length].split(|&byte| byte == 0).filter(|name| !name.is_empty());
    let mut all: Vec<_> = names
        .map(|name| text(name).to_owned())
        .filter(|name| name != "security.selinux")
        .map(|name| {
            let mut value = vec![0; 4096];
            let length = lgetxattr(path, name.as_str(), value.as_mut_slice()).unwrap_or(0);
            format!("{name}={}", program::hex(&value[..length]))
        })
        .collect();
    all.sort();
    all
}

/// Returns everything in a tree, itself included.
fn look(tree: &Path) -> BTreeMap<PathBuf, Fact> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![tree.to_owned()];
    while let Some(path) = waiting.pop() {
        let metadata = path.symlink_metadata().expect("it is there");
        let what = match metadata.file_type() {
            kind if kind.is_dir() => {
                waiting.extend(fs::read_dir(&path).expect("a folder").flatten().map(|entry| entry.path()));
                "folder".to_owned()
            }
            kind if kind.is_symlink() => format!("link to {:?}", fs::read_link(&path).expect("a link")),
            kind if !kind.is_file() => format!("{kind:?} {:x}", metadata.rdev()),
            _ => {
                let content = fs::read(&path).expect("a file");
                format!(
                    "file of {} bytes, {}",
                    content.len(),
                    program::hex(blake3::hash(&content).as_bytes())
                )
            }
        };
        // A link was made a moment ago.
        let (mode, time) = match metadata.is_symlink() {
            true => (0, 0),
            false => (metadata.mode() & 0o7777, metadata.mtime()),
        };
        let what = format!("{what} {}", attributes(&path).join(" "));
        let name = path.strip_prefix(tree).expect("it lies below").to_owned();
        found.insert(name, (what, mode, time, metadata.uid(), metadata.gid()));
    }
    found
}

impl Scene {
    fn set() -> Option<Self> {
        if Command::new("rsync").arg("--version").output().is_err() {
            skip("rsync is not installed");
            return None;
        }
        let served = Served::start(None);
        served.grant(ALL_RIGHTS);
        let sshd = or_skip(PrivateSshd::start());
        Some(Self { served, sshd })
    }

    fn ways(&self) -> &'static [Way] {
        if self.sshd.is_some() { &ALL } else { &LOCAL }
    }

    fn cp(&self, case: &Path, way: Way, options: &[&str]) -> Command {
        let near = |name: &str| case.join(name).to_str().expect("UTF-8").to_owned();
        let below = case.strip_prefix(self.served.root()).expect("it lies below").to_str().expect("UTF-8");
        let daemon = |name: &str| self.served.place(&format!("{below}/{name}"));
        let far = |name: &str| format!("{}:{}", PrivateSshd::HOST, near(name));
        let (from, to) = match way {
            Way::Near => (near("source"), near("target")),
            Way::ToDaemon => (near("source"), daemon("target")),
            Way::FromDaemon => (daemon("source"), near("target")),
            Way::ToSftp => (near("source"), far("target")),
            Way::FromSftp => (far("source"), near("target")),
        };
        let mut command = sealane(&["cp", "-aT", "--accept-new", "--timeout", "20"]);
        if way.is_sftp() {
            command.arg("--far-end=sftp");
        }
        if let Some(sshd) = &self.sshd {
            command.arg("-F").arg(sshd.client_config());
        }
        command.args(options).args([from, to]).env("HOME", self.served.home());
        command
    }

    /// Compares the results of all cases in all ways with those of rsync.
    fn compare(&self, name: &str, plant: fn(&Path), cases: &[Case]) {
        for (number, case) in cases.iter().enumerate() {
            let folder = |what: &str| {
                let folder = self.served.root().join(format!("{name}{number}{what}"));
                fs::create_dir(&folder).expect("a folder");
                plant(&folder);
                folder
            };
            let theirs = folder("theirs");
            let mut rsync = Command::new("rsync");
            rsync.arg("-a").args(case.theirs).arg(format!("{}/", theirs.join("source").display()));
            rsync.arg(theirs.join("target")).ends(0);
            let expected = look(&theirs.join("target"));
            for &way in self.ways() {
                if way.is_sftp() && !case.over_sftp {
                    continue;
                }
                let (ours, what) = (folder(&format!("{way:?}")), format!("{:?}, {way:?}", case.ours));
                let before = look(&ours.join("target"));
                self.cp(&ours, way, &[case.ours, &["-n", "-v"]].concat()).ends(0);
                assert_eq!(look(&ours.join("target")), before, "{what}: a list changes something");
                self.cp(&ours, way, case.ours).ends(0);
                let found = look(&ours.join("target"));
                let differing: Vec<_> = expected
                    .keys()
                    .chain(found.keys())
                    .filter(|path| expected.get(*path) != found.get(*path))
                    .map(|path| (path, expected.get(path), found.get(path)))
                    .collect();
                assert!(differing.is_empty(), "{what}: rsync, sealane: {differing:#?}");
                // A second copy changes nothing.
                let again = self.cp(&ours, way, &[case.ours, &["-v"]].concat()).ends(0);
                assert_eq!(look(&ours.join("target")), expected, "{what}, again");
                let told = text(&again.stdout);
                let sends_all = case.ours.contains(&"--ignore-times");
                let is_change = |line: &&str| !sends_all && line.starts_with(['>', 'c', '*']);
                assert_eq!(told.lines().filter(is_change).count(), 0, "{what}, again: {told}");
            }
        }
    }
}

#[test]
fn files_of_other_sizes_are_passed_over() {
    let Some(scene) = Scene::set() else { return };
    scene.compare(
        "sizes",
        plant,
        &[
            same(&["--min-size=1000"]),
            same(&["--max-size=70000"]),
            same(&["--min-size=1", "--max-size=1999999", "--delete"]),
            same(&["--max-size=0", "--checksum"]),
            Case { ours: &["--max-size=40k"], theirs: &["--max-size=40KB"], over_sftp: true },
        ],
    );
}

#[test]
fn what_is_there_or_is_not_there_is_passed_over() {
    let Some(scene) = Scene::set() else { return };
    scene.compare(
        "existing",
        plant,
        &[
            same(&["--existing"]),
            same(&["--ignore-existing"]),
            same(&["--existing", "--ignore-existing", "--delete"]),
            same(&["--ignore-existing", "--checksum"]),
            same(&["--existing", "--ignore-times"]),
            same(&["--existing", "--update", "--delete"]),
            Case {
                ours: &["--ignore-existing", "--no-skip-same"],
                theirs: &["--ignore-existing", "-I"],
                over_sftp: true,
            },
        ],
    );
}

#[test]
fn files_are_the_same_by_what_is_asked_for() {
    let Some(scene) = Scene::set() else { return };
    scene.compare(
        "sameness",
        plant,
        &[
            same(&["--size-only"]),
            same(&["--size-only", "--delete", "--max-size=500KB"]),
            same(&["--modify-window=2"]),
            same(&["--modify-window=1", "--delete"]),
            same(&["--modify-window=2", "--ignore-existing"]),
        ],
    );
}

#[test]
fn modes_are_changed_on_the_way() {
    let Some(scene) = Scene::set() else { return };
    scene.compare(
        "chmod",
        plant,
        &[
            same(&["--chmod=D2750,F640"]),
            same(&["--chmod=go-w,a+X", "--chmod=Fu=rw,Do="]),
            same(&["--chmod=Fa-x,+w", "--checksum"]),
        ],
    );
}

/// The same, with entries of several owners.
fn plant_owned(root: &Path) {
    plant(root);
    for (name, uid, gid) in
        [("small", 1, 1), ("run", 54_321, 54_322), ("deep", 2, 3), ("equal/one", 1, 54_321)]
    {
        lchown(root.join("source").join(name), Some(uid), Some(gid)).expect("root may");
    }
    lchown(root.join("source/link"), Some(1), Some(2)).expect("root may");
    lchown(root.join("target/equal/two"), Some(7), Some(7)).expect("root may");
}

#[test]
fn owners_are_kept_or_given() {
    let Some(scene) = Scene::set() else { return };
    if !rustix::process::geteuid().is_root() {
        return skip("only root gives files away");
    }
    scene.compare(
        "owners",
        plant_owned,
        &[
            same(&[]),
            same(&["--numeric-ids", "--delete"]),
            same(&["--chown=1000:54321"]),
            same(&["--chown=:7", "--checksum"]),
            Case { ours: &["--chown=daemon:bin"], theirs: &["--chown=daemon:bin"], over_sftp: false },
        ],
    );
    let folder = scene.served.root().join("nobody");
    fs::create_dir(&folder).expect("a folder");
    plant_owned(&folder);
    let before = look(&folder.join("target"));
    for &way in scene.ways() {
        let refused = scene.cp(&folder, way, &["--chown=no-such-user"]).output().expect("the program starts");
        assert_ne!(refused.status.code(), Some(0), "{way:?}: {refused:?}");
        let said = text(&refused.stderr);
        let expected = if way == Way::ToSftp { "by number" } else { "no user \"no-such-user\"" };
        assert!(said.contains(expected), "{way:?}: {said}");
        assert_eq!(look(&folder.join("target")), before, "{way:?}");
    }
}

/// Runs the command that ssh would run on a host where `daemon` has another number and `bin` is unknown.
const ELSEWHERE: &str = "#!/bin/sh\nif [ \"$1\" = -G ]; then echo 'hostname 127.0.0.1'; exit 0; fi\n\
                         for last; do :; done\nfolder=$(dirname \"$0\")\n\
                         exec unshare -m sh -c \"mount --bind $folder/passwd /etc/passwd && exec $last\"\n";

#[test]
fn owners_have_the_numbers_of_the_host_where_they_arrive() {
    let served = Served::start(None);
    let root = served.root();
    let is_there = Command::new("unshare").args(["-m", "mount", "--bind", "/etc", "/mnt"]).status();
    if !is_there.is_ok_and(|status| status.success()) {
        return skip("no mount namespaces");
    }
    let ssh = root.join("ssh");
    put(&ssh, ELSEWHERE.as_bytes(), 0o755, THEN);
    put_then(&root.join("passwd"), b"root:x:0:0::/root:/bin/sh\ndaemon:x:4242:1::/:/bin/sh\n");
    // On Debian bin is 2, and sys is 3.
    for (name, uid) in [("root", 0), ("daemon", 1), ("bin", 2), ("nobody-at-all", 54_321)] {
        put_then(&root.join("source").join(name), name.as_bytes());
        lchown(root.join("source").join(name), Some(uid), Some(0)).expect("root may");
    }
    let uids = |tree: &str| {
        let owner = |name: &str| root.join(tree).join(name).symlink_metadata().expect("it is there").uid();
        ["root", "daemon", "bin", "nobody-at-all"].map(owner)
    };
    let run = |options: &[&str], from: &str, to: &str| {
        let mut command = sealane(&["cp", "-aTv", "--timeout", "20", "--remote-program"]);
        command.arg(program::path()).args(options).args([from, to]);
        let output = command.env("SEALANE_SSH", &ssh).env("HOME", served.home()).ends(0);
        text(&output.stdout).to_owned()
    };
    let at = |name: &str| root.join(name).to_str().expect("UTF-8").to_owned();
    let far = |name: &str| format!("there:{}", at(name));
    run(&[], &at("source"), &far("pushed"));
    assert_eq!(uids("pushed"), [0, 4242, 2, 54_321]);
    assert_eq!(run(&[], &at("source"), &far("pushed")), "", "nothing has changed");
    run(&[], &far("pushed"), &at("pulled"));
    assert_eq!(uids("pulled"), [0, 1, 2, 54_321]);
    assert_eq!(run(&[], &far("pushed"), &at("pulled")), "", "nothing has changed");
    run(&["--numeric-ids"], &at("source"), &far("pushed"));
    assert_eq!(uids("pushed"), [0, 1, 2, 54_321]);
    run(&["--chown=daemon"], &at("source"), &far("pushed"));
    assert_eq!(uids("pushed"), [4242; 4]);
}

/// The same, with access control lists.
fn plant_lists(root: &Path) {
    plant(root);
    let set = |arguments: &[&str]| {
        let status = Command::new("setfacl").args(arguments).current_dir(root).status();
        assert!(status.expect("setfacl starts").success(), "{arguments:?}");
    };
    set(&["-m", "u:1:rwx,g:54321:r-x", "source/small", "source/equal/one", "source/deep/large"]);
    set(&["-m", "u:2:r", "target/equal/two", "target/deep/large"]);
    set(&["-d", "-m", "u:7:rwx", "source/deep", "target/equal", "source/new"]);
    set(&["-d", "-m", "u:9:rwx,g::r-x", "target/deep", "target"]);
    for tree in ["source", "target"].map(|tree| root.join(tree)) {
        for folder in ["deep/er", "deep", "equal", "new", ""] {
            if tree.join(folder).exists() {
                touch(&tree.join(folder), 1_600_000_000);
            }
        }
    }
}

#[test]
fn access_control_lists_are_kept() {
    let Some(scene) = Scene::set() else { return };
    let there = tempfile::tempdir().expect("a folder");
    let tried = Command::new("setfacl").args(["-m", "u:1:r"]).arg(there.path()).status();
    if !tried.is_ok_and(|status| status.success()) {
        return skip("no access control lists");
    }
    let near = |ours, theirs| Case { ours, theirs, over_sftp: false };
    scene.compare(
        "lists",
        plant_lists,
        &[
            near(&["-A"], &["-A"]),
            near(&["--acls", "--delete", "--checksum"], &["-A", "--delete", "--checksum"]),
        ],
    );
    let folder = scene.served.root().join("refused");
    fs::create_dir(&folder).expect("a folder");
    plant_lists(&folder);
    for way in [Way::ToSftp, Way::FromSftp].into_iter().filter(|way| scene.ways().contains(way)) {
        scene.cp(&folder, way, &["-A"]).complains(2, &["--acls"]);
    }
}

/// The same, with files of rules.
fn plant_rules(root: &Path) {
    plant(root);
    for tree in ["source", "target"].map(|tree| root.join(tree)) {
        put_then(&tree.join(".rules"), b"# comment\n\n- *.tmp\n+ /deep/keep.o\n- *.o\n- /new/large\n");
        put_then(&tree.join("deep/.rules"), b"+ er/wanted.tmp\n- /large\n- er/*.log\n");
        for name in
            ["a.tmp", "a.o", "deep/keep.o", "deep/er/a.o", "deep/er/wanted.tmp", "deep/er/x.log", "x.log"]
        {
            put(&tree.join(name), name.as_bytes(), 0o644, THEN + u64::from(tree.ends_with("target")));
        }
        for folder in ["deep/er", "deep", "new", ""].iter().filter(|folder| tree.join(folder).exists()) {
            touch(&tree.join(folder), 1_600_000_000);
        }
    }
    put_then(&root.join("target/deep/only-there.o"), b"excluded");
    put_then(&root.join("target/deep/er/only-there.log"), b"excluded");
    put_then(&root.join("target/deep/only-there"), b"gone with --delete");
    touch(&root.join("target/deep/er"), 1_600_000_000);
    touch(&root.join("target/deep"), 1_600_000_000);
}

#[test]
fn files_in_folders_say_what_is_left_out() {
    let Some(scene) = Scene::set() else { return };
    scene.compare(
        "rules",
        plant_rules,
        &[
            Case { ours: &["--filter-file=.rules"], theirs: &["--filter=: .rules"], over_sftp: false },
            Case {
                ours: &["--filter-file=.rules", "--include=deep/er/x.log", "--delete"],
                theirs: &["--include=deep/er/x.log", "--filter=: .rules", "--delete"],
                over_sftp: false,
            },
            Case {
                ours: &["--filter-file=.rules", "--delete-excluded"],
                theirs: &["--filter=: .rules", "--delete-excluded"],
                over_sftp: false,
            },
        ],
    );
}

/// Returns the files of a tree, by their paths.
fn files(tree: &Path) -> Vec<String> {
    let name = |path: PathBuf| path.to_str().expect("UTF-8").to_owned();
    look(tree)
        .into_iter()
        .filter(|(_, fact)| fact.0.starts_with("file"))
        .map(|(path, _)| name(path))
        .collect()
}

#[test]
fn what_git_ignores_is_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("source");
    let git = |arguments: &[&str]| Command::new("git").current_dir(&source).args(arguments).output();
    fs::create_dir(&source).expect("a folder");
    if !git(&["init", "-q"]).is_ok_and(|output| output.status.success()) {
        return skip("git is not installed");
    }
    let outer = "# comment\n*.o\n!keep.o\n/top\nbuild/\ndoc/*.txt\n**/deep/x\ntrailing  \nspace\\ \n*.[ab]\n\\!odd\nlogs/**\n";
    put_then(&source.join(".gitignore"), outer.as_bytes());
    put_then(&source.join("sub/.gitignore"), b"!a.o\n/top\nkeep.o\n!doc/a.txt\n");
    let names = [
        "a.o",
        "keep.o",
        "top",
        "build/x",
        "doc/a.txt",
        "doc/a.md",
        "deep/x",
        "deep/y",
        "trailing",
        "space ",
        "c.a",
        "c.c",
        "!odd",
        "logs/a",
        "logs/b/c",
        "plain",
    ];
    for name in
        names.into_iter().flat_map(|name| [name.to_owned(), format!("sub/{name}"), format!("sub/sub/{name}")])
    {
        put_then(&source.join(name), b"text");
    }
    put_then(&source.join("sub/build.d/build"), b"a file");
    let listed = git(&["ls-files", "-z", "--others", "--exclude-standard"]).expect("git starts").stdout;
    let mut expected: Vec<_> = text(&listed).split_terminator('\0').map(str::to_owned).collect();
    expected.sort();
    let mut command = sealane(&["cp", "-aT", "--gitignore", "--exclude=.git"]);
    command.arg(&source).arg(folder.path().join("target")).ends(0);
    let mut found = files(&folder.path().join("target"));
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn below_rules_that_cannot_be_understood_nothing_is_copied_or_deleted() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    for (name, rules) in [("long", vec![b'\n'; (1 << 20) + 1]), ("senseless", b"- [\n".to_vec())] {
        let (source, target) = (at(&format!("{name}/source")), at(&format!("{name}/target")));
        put_then(&source.join("sub/.rules"), &rules);
        put_then(&source.join("sub/secret"), b"text");
        put_then(&source.join("other"), b"text");
        put_then(&target.join("extra"), b"text");
        let mut command = sealane(&["cp", "-aT", "--filter-file=.rules", "--delete"]);
        let output = command.arg(&source).arg(&target).ends(1);
        assert_eq!(files(&target), ["extra", "other"], "{name}: {output:?}");
    }
    // A link is no file of rules, and is not followed.
    let source = at("link/source");
    put_then(&at("link/rules"), b"- *\n");
    put_then(&source.join("file"), b"text");
    symlink("../rules", source.join(".rules")).expect("a link");
    let mut command = sealane(&["cp", "-aT", "--filter-file=.rules"]);
    command.arg(&source).arg(at("link/target")).ends(0);
    assert_eq!(files(&at("link/target")), ["file"]);
    // The target would have to know the rules, which are not sent.
    let mut command = sealane(&["cp", "-aT", "--filter-file=.rules", "--exclude=.rules", "--delete"]);
    command.arg(&source).arg(at("link/target")).ends(2);
}
