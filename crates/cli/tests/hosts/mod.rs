//! Hosts that are private sshds, the trees that are copied between them, and what becomes of these.

use crate::program::{events, or_skip, sealane, set_mode, text, write, write_script};
use crate::sshd::PrivateSshd;
use crate::support::Chance;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Hosts that are private sshds. Those of one sshd share a file system by themselves.
pub(crate) struct Scene {
    pub(crate) sshds: Vec<PrivateSshd>,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) config: PathBuf,
    pub(crate) program: PathBuf,
}

impl Scene {
    /// All hosts are one sshd by many names.
    pub(crate) fn set() -> Option<Self> {
        Self::of(&["src* dst*"])
    }

    /// One sshd for each of these patterns of names.
    pub(crate) fn of(names: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("ssh_config");
        let (mut sshds, mut all) = (Vec::new(), String::new());
        let programs = folder.path().join("bin");
        fs::create_dir(&programs).expect("a folder");
        for names in names {
            let sshd = or_skip(PrivateSshd::start_with_path(&[programs.as_path()]))?;
            let text = fs::read_to_string(sshd.client_config()).expect("a configuration");
            all.push_str(&text.replacen(&format!("Host {}", PrivateSshd::HOST), &format!("Host {names}"), 1));
            sshds.push(sshd);
        }
        write(&config, all.as_bytes());
        Some(Self { sshds, folder, config, program: crate::program::path().into() })
    }

    /// Runs `sealane fleet` on a host that knows nothing of the scene but the way to its hosts.
    pub(crate) fn fleet_elsewhere(&self, arguments: &[&str]) -> Output {
        // It is not in the search path of the hosts, where it would start itself.
        let (there, ssh) = (self.at("bin/sealane"), self.at("ssh-elsewhere"));
        let state = self.at("state");
        let (program, config) = (self.program.display(), self.config.display());
        // A script that runs cannot be written again.
        if !ssh.exists() {
            script(&there, &format!("XDG_STATE_HOME={} exec {program} \"$@\"", state.display()));
            script(&ssh, &format!("exec ssh -F {config} \"$@\""));
        }
        let mut command = sealane(&[&["fleet"], arguments].concat());
        command.env("XDG_STATE_HOME", self.at("elsewhere")).env("SEALANE_SSH", ssh);
        command.output().expect("the program starts")
    }

    /// From now on the hosts of the sshd of this number see a folder of their own where others see `name`.
    pub(crate) fn part(&mut self, numbers: &[usize], name: &str) {
        let (script, owns) = (self.at("sealane-of-a-host"), self.at("own"));
        for &number in numbers {
            fs::create_dir_all(owns.join(self.sshds[number].port().to_string())).expect("folders");
        }
        let text = format!(
            "#!/bin/sh\nown={}/${{SSH_CONNECTION##* }}\n[ -d \"$own\" ] || exec {program} \"$@\"\n\
             exec unshare -m sh -c 'mount --bind \"$1\" {} && shift && exec {program} \"$@\"' sh \"$own\" \"$@\"\n",
            owns.display(),
            self.at(name).display(),
            program = self.program.display(),
        );
        write_script(&script, &text);
        self.program = script;
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn place(&self, hosts: &str, name: &str) -> String {
        format!("{hosts}:{}", self.at(name).display())
    }

    pub(crate) fn command(&self, options: &[&str], from: &str, to: &str) -> Command {
        let mut command = sealane(&["cp", "-r", "--json", "--timeout", "20", "--remote-program"]);
        command.arg(&self.program).arg("-F").arg(&self.config).args(options).args([from, to]);
        command.env("XDG_STATE_HOME", self.at("state"));
        command
    }

    pub(crate) fn copy(&self, options: &[&str], from: &str, to: &str) -> Output {
        self.command(options, from, to).output().expect("the program starts")
    }

    pub(crate) fn fleet(&self, arguments: &[&str]) -> Output {
        let mut command = sealane(&[&["fleet"], arguments].concat());
        command.env("XDG_STATE_HOME", self.at("state")).output().expect("the program starts")
    }
}

pub(crate) fn script(at: &Path, text: &str) {
    write_script(at, &format!("#!/bin/sh\n{text}\n"));
}

/// A tree with small and large files, links, empty folders and odd names.
pub(crate) fn plant(at: &Path, seed: u64, files: u64) {
    let mut chance = Chance::new(seed);
    for number in 0..files {
        let folder = at.join(format!("f{}/g{}", number % 7, number % 31));
        fs::create_dir_all(&folder).expect("folders");
        let bytes = if number % 500 == 3 { 3_000_000 } else { chance.below(3000) as usize };
        write(&folder.join(format!("n{number}")), &chance.bytes(bytes));
    }
    fs::create_dir_all(at.join("empty/deep")).expect("folders");
    symlink("f0", at.join("link")).expect("a link");
    write(&at.join(std::ffi::OsStr::from_bytes(b"odd \xff\n name")), b"odd");
    set_mode(at.join("f1"), 0o750);
    set_mode(at.join("empty"), 0o555);
}

pub(crate) type Tree = BTreeMap<PathBuf, (u32, i64, Vec<u8>)>;

/// A tree's modes, times and contents.
pub(crate) fn tree(at: &Path) -> Tree {
    let mut found = Tree::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(at.join(&folder)).expect("a folder").flatten() {
            let path = folder.join(entry.file_name());
            let metadata = entry.metadata().expect("an entry");
            let content = match metadata.file_type() {
                kind if kind.is_dir() => {
                    folders.push(path.clone());
                    Vec::new()
                }
                kind if kind.is_symlink() => {
                    fs::read_link(at.join(&path)).expect("a link").into_os_string().as_bytes().to_vec()
                }
                _ => fs::read(at.join(&path)).expect("a file"),
            };
            found.insert(path, (metadata.mode(), metadata.mtime(), content));
        }
    }
    found
}

#[track_caller]
pub(crate) fn same(one: &Path, other: &Path) {
    let (one, other) = (tree(one), tree(other));
    let paths: Vec<_> =
        one.keys().chain(other.keys()).filter(|path| one.get(*path) != other.get(*path)).collect();
    let about =
        |tree: &Tree, path: &Path| tree.get(path).map(|(mode, time, content)| (*mode, *time, content.len()));
    let shown: Vec<_> =
        paths.iter().take(5).map(|path| (path, about(&one, path), about(&other, path))).collect();
    assert!(paths.is_empty(), "{} differ: {shown:?}", paths.len());
}

#[track_caller]
pub(crate) fn succeeds(output: &Output) -> serde_json::Value {
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said} {}", String::from_utf8_lossy(&output.stderr));
    events(&output.stdout).pop().expect("an event")
}

/// A folder with a small file system of its own, as long as the value lives.
pub(crate) struct Small(PathBuf);

impl Small {
    pub(crate) fn mount(at: &Path, bytes: u64, again: bool) -> Option<Self> {
        let size = format!("size={bytes}{}", if again { ",remount" } else { "" });
        let mut command = Command::new("mount");
        let mounted = command.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(at).output().ok()?;
        mounted.status.success().then(|| Self(at.to_owned()))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // It fails only where it was taken away before.
        let _ = Command::new("umount").arg(&self.0).output();
    }
}
