//! A near host, and a far one with only an SFTP server; trees to copy between them, and comparisons of the results.

use crate::skip;
use sealane_copy::{Error, FarEndChoice, Location, Notice, Options, Progress, Summary, Wishes, copy};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub(crate) const SERVERS: [&str; 2] = ["/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server"];
/// The server of Go's pkg/sftp.
pub(crate) const FOREIGN: &str = "server_standalone";
pub(crate) const LARGE_BYTES: usize = 3_000_011;

/// A near host, and a far one whose home folder is beside it.
pub(crate) struct Scene {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) server: &'static str,
}

/// Returns the options with other wishes.
pub(crate) fn wishing(options: &Options, change: impl FnOnce(&mut Wishes)) -> Options {
    let mut options = options.clone();
    change(&mut options.wishes);
    options
}

impl Scene {
    pub(crate) fn set() -> Option<Self> {
        let Some(server) = SERVERS.into_iter().find(|server| Path::new(server).exists()) else {
            skip::skip("OpenSSH's sftp-server is not installed");
            return None;
        };
        let scene = Self { folder: tempfile::tempdir().unwrap(), server };
        for name in ["far", "near", "state"] {
            fs::create_dir(scene.at(name)).unwrap();
        }
        scene.answer("exec SERVER");
        Some(scene)
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn far(&self, name: &str) -> PathBuf {
        self.at("far").join(name)
    }

    /// From now on this command runs if ssh is asked for SFTP; no other command is found, as on a host without
    /// sealane.
    pub(crate) fn answer(&self, server: &str) {
        let script = format!(
            "#!/bin/sh\ntest \"$1\" = -G && exit 1\nfor last; do :; done\ncd '{}' || exit 1\n\
             test \"$last\" = sftp || exit 127\n{}\n",
            self.at("far").display(),
            server.replace("SERVER", self.server)
        );
        self.install(&script);
    }

    pub(crate) fn install(&self, script: &str) {
        // A process of its own writes the file: a descriptor of this process would be open in children that other tests
        // start at the moment, and a file that is open for writing does not run.
        let text = self.at("ssh.text");
        fs::write(&text, script).unwrap();
        let (new, program) = (self.at("ssh.new"), self.at("ssh"));
        let copied = Command::new("install").args(["-m", "755"]).args([&text, &new]).status().unwrap();
        assert!(copied.success(), "install failed");
        fs::rename(new, program).unwrap();
    }

    /// Does the same, on a host where a shell runs other commands as well, after this text.
    pub(crate) fn answer_with_a_shell(&self, before: &str) {
        self.answer("exec SERVER");
        let program = fs::read_to_string(self.at("ssh")).unwrap();
        let shell = format!("case \"$last\" in 'sh -c '*) {before}\n exec sh -c \"$last\";; esac\n");
        let at = program.find("test \"$last\"").unwrap();
        self.install(&[&program[..at], &shell, &program[at..]].concat());
    }

    pub(crate) fn options(&self) -> Options {
        let wishes = Wishes { recursive: true, timeout: Duration::from_secs(20), ..Wishes::default() };
        let mut options = Options { wishes, ..Options::default() };
        options.remote.ssh_program = Some(self.at("ssh").into());
        options.remote.far_end = FarEndChoice::Sftp;
        options.remote.state_dir = Some(self.at("state"));
        options
    }

    pub(crate) fn run(
        &self,
        from: &[&str],
        to: &str,
        options: &Options,
    ) -> (Result<Summary, Error>, Vec<Notice>) {
        self.run_with(from, to, options, &Arc::default())
    }

    pub(crate) fn run_with(
        &self,
        from: &[&str],
        to: &str,
        options: &Options,
        progress: &Arc<Progress>,
    ) -> (Result<Summary, Error>, Vec<Notice>) {
        let place = |text: &str| match text.strip_prefix("host:") {
            Some(_) => Location::parse(OsStr::new(text)).unwrap(),
            None => Location::Local(self.at("near").join(text)),
        };
        let sources: Vec<_> = from.iter().map(|text| place(text)).collect();
        let mut notices = Vec::new();
        let outcome =
            copy(&sources, &place(to), options, progress, &mut |notice: Notice| notices.push(notice));
        (outcome, notices)
    }

    #[track_caller]
    pub(crate) fn copy(&self, from: &str, to: &str, options: &Options) -> (Summary, Vec<Notice>) {
        let (outcome, notices) = self.run(&[from], to, options);
        let summary = outcome.unwrap_or_else(|error| panic!("{from} to {to}: {error}: {notices:?}"));
        assert_eq!(summary.failed, 0, "{notices:?}");
        (summary, notices)
    }
}

pub(crate) fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251) as u8 ^ (at / 251 % 256) as u8).collect()
}

pub(crate) fn set_time(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::new(seconds, 123_456_789);
    File::open(path).unwrap().set_modified(time).unwrap();
}

/// A tree with one of everything.
pub(crate) fn plant(root: &Path) {
    fs::create_dir_all(root.join("sub/deep")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    fs::write(root.join("small"), b"small").unwrap();
    fs::write(root.join("nothing"), b"").unwrap();
    fs::write(root.join("sub/large"), pattern(LARGE_BYTES)).unwrap();
    fs::write(root.join("sub/deep").join(OsStr::from_bytes(b"\xff\xfe name\n")), b"odd").unwrap();
    for number in 0..300 {
        fs::write(root.join("sub/deep").join(number.to_string()), pattern(number * 20)).unwrap();
    }
    symlink("small", root.join("link")).unwrap();
    symlink("/no/where", root.join("sub/dangling")).unwrap();
    fs::set_permissions(root.join("small"), fs::Permissions::from_mode(0o751)).unwrap();
    set_time(&root.join("small"), 1_000_000_001);
    set_time(&root.join("sub/large"), 1_100_000_001);
    for (folder, mode, seconds) in [("empty", 0o755, 1_200_000_000), ("sub", 0o750, 1_300_000_000)] {
        fs::set_permissions(root.join(folder), fs::Permissions::from_mode(mode)).unwrap();
        set_time(&root.join(folder), seconds);
    }
}

#[derive(Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) kind: char,
    pub(crate) mode: u32,
    pub(crate) seconds: i64,
    pub(crate) content: Vec<u8>,
}

/// Returns everything below a folder, by path, with the times of folders.
pub(crate) fn look(root: &Path) -> BTreeMap<PathBuf, Seen> {
    pub(crate) fn walk(root: &Path, folder: &Path, seen: &mut BTreeMap<PathBuf, Seen>) {
        for found in fs::read_dir(folder).unwrap() {
            let path = found.unwrap().path();
            let stat = fs::symlink_metadata(&path).unwrap();
            let (kind, content) = match stat.file_type() {
                kind if kind.is_dir() => ('d', Vec::new()),
                kind if kind.is_symlink() => ('l', fs::read_link(&path).unwrap().into_os_string().into_vec()),
                _ => ('f', fs::read(&path).unwrap()),
            };
            let mode = if kind == 'l' { 0 } else { stat.mode() & 0o7777 };
            let name = path.strip_prefix(root).unwrap().to_owned();
            seen.insert(name, Seen { kind, mode, seconds: stat.mtime(), content });
            if kind == 'd' {
                walk(root, &path, seen);
            }
        }
    }
    let mut seen = BTreeMap::new();
    walk(root, root, &mut seen);
    seen
}

#[track_caller]
pub(crate) fn same(one: &Path, other: &Path) {
    same_entries(&look(one), &look(other));
}

/// Compares all but the times of symbolic links, which a server without extensions cannot set.
#[track_caller]
pub(crate) fn same_but_links(one: &Path, other: &Path) {
    let (mut one, mut other) = (look(one), look(other));
    for seen in one.values_mut().chain(other.values_mut()).filter(|seen| seen.kind == 'l') {
        seen.seconds = 0;
    }
    same_entries(&one, &other);
}

#[track_caller]
fn same_entries(one: &BTreeMap<PathBuf, Seen>, other: &BTreeMap<PathBuf, Seen>) {
    let facts = |seen: &Seen| (seen.kind, seen.mode, seen.seconds, seen.content.len());
    for (path, seen) in one {
        let found = other.get(path).unwrap_or_else(|| panic!("{path:?} is missing"));
        assert!(seen == found, "{path:?}: {:?} {:?}", facts(seen), facts(found));
    }
    let more = other.iter().filter(|(path, _)| !one.contains_key(*path));
    let more = more.map(|(path, seen)| (path, facts(seen))).collect::<Vec<_>>();
    assert!(more.is_empty(), "{more:?}");
}

pub(crate) fn failures(notices: &[Notice]) -> String {
    let reason = |notice: &Notice| match notice {
        Notice::EntryFailed { reason, .. } => Some(reason.clone()),
        _ => None,
    };
    notices.iter().filter_map(reason).collect::<Vec<_>>().join("\n")
}
