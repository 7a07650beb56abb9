//! Symbolic links, on servers that treat them in different ways: nothing that a link points to is changed.

use super::program::{sealane, set_mode, text};
use super::servers::{Maker, Server};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, SystemTime};

/// The treatment of links that a server is known for.
#[derive(Clone, Copy, Debug)]
struct Expected {
    /// Links are made; otherwise they are refused by name.
    makes: bool,
    /// A link in the place of a file gives way to it.
    replaces: bool,
    /// A link that the source does not have is deleted.
    deletes: bool,
    /// Times of links are kept.
    dates: bool,
    /// A link is kept as a backup under another name.
    backs_up: bool,
    /// Modes and owners of files can be set.
    keeps_modes: bool,
}

const ALL: Expected =
    Expected { makes: true, replaces: true, deletes: true, dates: true, backs_up: true, keeps_modes: true };

struct Scene {
    server: Server,
    near: tempfile::TempDir,
    expected: Expected,
}

/// Kind, mode, time and content of an entry.
type Seen = (char, u32, i64, Vec<u8>);

/// Returns everything at and below a path.
fn look(root: &Path) -> BTreeMap<PathBuf, Seen> {
    fn add(path: &Path, seen: &mut BTreeMap<PathBuf, Seen>) {
        let stat = fs::symlink_metadata(path).expect("it is there");
        let (kind, content) = match stat.file_type() {
            kind if kind.is_dir() => ('d', Vec::new()),
            kind if kind.is_symlink() => {
                ('l', fs::read_link(path).expect("a link").into_os_string().into_encoded_bytes())
            }
            _ => ('f', fs::read(path).expect("a file")),
        };
        seen.insert(path.to_owned(), (kind, stat.mode() & 0o7777, stat.mtime(), content));
        if kind == 'd' {
            for found in fs::read_dir(path).expect("a folder") {
                add(&found.expect("an entry").path(), seen);
            }
        }
    }
    let mut seen = BTreeMap::new();
    add(root, &mut seen);
    seen
}

fn set_time(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    File::open(path).expect("it opens").set_modified(time).expect("its time");
}

/// Texts of links that lead out of the target, for a link in the folder `target/tree`.
fn leading_out(outside: &Path) -> Vec<(&'static str, String)> {
    let at = |name: &str| outside.join(name).display().to_string();
    vec![
        ("to-file", at("file")),
        ("to-folder", at("folder")),
        ("to-empty", at("empty")),
        ("to-file-by-steps", "../../outside/file".to_owned()),
        ("up", "..".to_owned()),
        ("nowhere", "/no/where".to_owned()),
        ("itself", "itself".to_owned()),
        ("plain-link", "./plain".to_owned()),
    ]
}

impl Scene {
    fn set(maker: Maker, expected: Expected) -> Option<Self> {
        let server = Server::start(maker)?;
        let outside = server.home("outside");
        fs::create_dir_all(outside.join("folder")).expect("folders");
        fs::create_dir(outside.join("empty")).expect("a folder");
        fs::create_dir(server.home("target")).expect("a folder");
        for name in ["file", "folder/inner"] {
            fs::write(outside.join(name), b"outside").expect("a file");
            set_mode(outside.join(name), 0o640);
            set_time(&outside.join(name), 1_000_000_000);
        }
        for name in ["folder", "empty", ""] {
            set_time(&outside.join(name), 1_100_000_000);
        }
        server.give_away();
        let near = tempfile::tempdir().expect("a folder");
        let tree = near.path().join("tree");
        fs::create_dir_all(tree.join("sub")).expect("folders");
        for name in ["plain", "sub/other"] {
            fs::write(tree.join(name), b"inside!").expect("a file");
            set_time(&tree.join(name), 1_200_000_000);
        }
        for (name, target) in leading_out(&outside) {
            symlink(target, tree.join(name)).expect("a link");
        }
        Some(Self { server, near, expected })
    }

    fn near(&self, name: &str) -> PathBuf {
        self.near.path().join(name)
    }

    fn target(&self, name: &str) -> PathBuf {
        self.server.home("target").join(name)
    }

    /// Makes a link in the target, as its user.
    fn plant(&self, name: &str, to: &str) {
        let path = self.target(name);
        if path.symlink_metadata().is_ok_and(|there| there.is_dir()) {
            fs::remove_dir_all(&path).expect("a folder");
        } else {
            let _ = fs::remove_file(&path);
        }
        symlink(to, path).expect("a link");
        self.server.give_away();
    }

    fn outside(&self, name: &str) -> String {
        self.server.home("outside").join(name).display().to_string()
    }

    /// Copies, and checks that nothing outside of the target has changed and nothing of ours is left.
    fn copy(&self, options: &[&str], from: &str, to: &str) -> Output {
        let before = look(&self.server.home("outside"));
        let mut command = sealane(&["cp", "-r", "--far-end", "sftp", "--timeout", "20", "-F"]);
        command.arg(self.server.config()).args(options).args([from, to]);
        let output = command.env("XDG_STATE_HOME", self.near("state")).output().expect("it starts");
        let after = look(&self.server.home("outside"));
        assert!(before == after, "{options:?}: outside of the target: {before:?} {after:?}");
        let left: Vec<_> = look(&self.server.home("target")).into_keys().collect();
        let is_ours = |path: &&PathBuf| path.to_string_lossy().contains(".sealane-");
        assert_eq!(left.iter().find(is_ours), None, "{}", text(&output.stderr));
        output
    }

    /// Pushes the tree. Fails unless every link has arrived, or was refused by name where the server cannot make it.
    fn push(&self, options: &[&str]) -> String {
        let tree = self.near("tree").display().to_string();
        let output = self.copy(&[&["-T"], options].concat(), &tree, "far:target/tree");
        let said = text(&output.stderr).to_owned();
        let sent = look(&self.near("tree"));
        let arrived = look(&self.target("tree"));
        for (path, (kind, mode, seconds, content)) in &sent {
            let name = path.strip_prefix(self.near("tree")).expect("it is below").to_owned();
            let there = arrived.get(&self.target("tree").join(&name));
            if *kind == 'l' && !self.expected.makes {
                assert!(there.is_none() && said.contains(&*name.to_string_lossy()), "{name:?}: {said}");
                continue;
            }
            let there = there.unwrap_or_else(|| panic!("{name:?} is missing: {said} {}", self.server.log()));
            assert_eq!((there.0, &there.3), (*kind, content), "{name:?}: {said}");
            if *kind == 'f' && self.expected.keeps_modes {
                assert_eq!((there.1, there.2), (*mode, *seconds), "{name:?}: {said}");
            }
            if *kind == 'l' && self.expected.dates {
                assert_eq!(there.2, *seconds, "{name:?}: {said}");
            }
        }
        let expected = if self.expected.makes { Some(0) } else { Some(1) };
        assert_eq!(output.status.code(), expected, "{said} {}", self.server.log());
        said
    }

    /// A pull brings the same links.
    fn links_come_back(&self) {
        let back = self.near("back").display().to_string();
        let output = self.copy(&["-T"], "far:target/tree", &back);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said} {}", self.server.log());
        let texts = |tree: &Path| {
            let links = look(tree).into_iter().filter(|(_, seen)| seen.0 == 'l');
            links.map(|(path, seen)| (path.file_name().map(OsStr::to_owned), seen.3)).collect::<Vec<_>>()
        };
        assert_eq!(texts(&self.near("tree")), texts(&self.near("back")), "{said}");
    }

    /// Links are made, found again, and replaced by other links, by files, and where files were.
    fn links_are_made_and_replaced(&self) {
        self.push(&[]);
        self.push(&[]);
        if !self.expected.makes {
            return;
        }
        // Some oddities let folders hold themselves.
        if self.expected.deletes {
            self.links_come_back();
        }
        let changed = |name: &str| {
            let path = self.near("tree").join(name);
            fs::remove_file(&path).expect("it is there");
            path
        };
        symlink(self.outside("folder"), changed("to-file")).expect("a link");
        symlink("plain", changed("to-folder")).expect("a link");
        fs::write(changed("to-file-by-steps"), b"a file now").expect("a file");
        fs::write(changed("up"), vec![b'x'; 3_000_000]).expect("a file");
        symlink(self.outside("file"), changed("sub/other")).expect("a link");
        self.push(&[]);
        fs::write(changed("nowhere"), b"one more").expect("a file");
        symlink("up", changed("itself")).expect("a link");
        self.push(&["--checksum"]);
    }

    /// A link under the name of a file or folder is not followed.
    fn links_in_the_way_are_not_followed(&self) {
        for name in ["to-file", "to-folder", "to-empty", "to-file-by-steps", "up", "itself", "nowhere"] {
            let _ = fs::remove_file(self.near("tree").join(name));
        }
        let _ = fs::remove_file(self.near("tree/plain-link"));
        let _ = fs::remove_file(self.near("tree/sub/other"));
        fs::write(self.near("tree/sub/other"), b"inside!").expect("a file");
        // This file differs from the one outside by its mode only.
        fs::write(self.near("tree/same"), b"outside").expect("a file");
        set_time(&self.near("tree/same"), 1_000_000_000);
        fs::create_dir_all(self.target("tree")).expect("a folder");
        for (name, to) in [("plain", "file"), ("same", "file"), ("sub", "folder")] {
            self.plant(&format!("tree/{name}"), &self.outside(to));
        }
        let tree = self.near("tree").display().to_string();
        let output = self.copy(&["-T", "-p"], &tree, "far:target/tree");
        let said = text(&output.stderr);
        // The folder is never entered; files replace links where that is safe.
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("sub") && said.contains("link"), "{said}");
        for name in ["plain", "same"] {
            let is_link = fs::symlink_metadata(self.target("tree").join(name)).expect("it").is_symlink();
            assert!(!is_link || said.contains(name), "{name}: {said}");
            assert!(!is_link || !self.expected.replaces || name == "same", "{name}: {said}");
        }
        let _ = fs::remove_file(self.target("tree/sub"));
        let _ = fs::remove_file(self.target("tree/plain"));
        let _ = fs::remove_file(self.target("tree/same"));
    }

    /// `--delete` and backups mean links themselves.
    fn deleting_and_backups_mean_links(&self) {
        let tree = self.near("tree").display().to_string();
        fs::create_dir_all(self.target("tree/extra/deep")).expect("folders");
        for (name, to) in [("tree/a", "file"), ("tree/b", "folder"), ("tree/extra/deep/c", "empty")] {
            self.plant(name, &self.outside(to));
        }
        let output = self.copy(&["-T", "--delete"], &tree, "far:target/tree");
        let said = text(&output.stderr);
        for name in ["a", "b", "extra/deep/c"] {
            let is_there = fs::symlink_metadata(self.target("tree").join(name)).is_ok();
            assert_eq!(is_there, !self.expected.deletes, "{name}: {said}");
        }
        assert_eq!(output.status.success(), self.expected.deletes, "{said}");
        let _ = fs::remove_dir_all(self.target("tree"));
        fs::create_dir_all(self.target("tree/sub")).expect("folders");
        self.plant("tree/plain", &self.outside("file"));
        let output = self.copy(&["-T", "--backup"], &tree, "far:target/tree");
        let said = text(&output.stderr);
        let kept = fs::read_link(self.target("tree/plain~")).ok();
        match self.expected.backs_up {
            true => assert_eq!(kept, Some(self.outside("file").into()), "{said}"),
            false => assert!(kept.is_none() && said.contains("plain"), "{said}"),
        }
    }

    fn all(&self) {
        self.links_are_made_and_replaced();
        self.links_in_the_way_are_not_followed();
        self.deleting_and_backups_mean_links();
    }
}

#[track_caller]
fn on(maker: Maker, expected: Expected) {
    if let Some(scene) = Scene::set(maker, expected) {
        scene.all();
    }
}

#[test]
fn links_on_openssh() {
    on(Maker::OpenSsh, ALL);
}

#[test]
fn links_on_dropbear() {
    on(Maker::Dropbear, ALL);
}

/// It follows links that it renames or looks at.
#[test]
fn links_on_proftpd() {
    on(Maker::ProFtpd, Expected { dates: false, backs_up: false, ..ALL });
}

#[test]
fn links_on_asyncssh() {
    on(Maker::AsyncSsh(""), Expected { dates: false, ..ALL });
}

#[test]
fn links_on_a_server_that_takes_paths_in_the_drafts_order() {
    on(Maker::AsyncSsh("link-first"), Expected { dates: false, ..ALL });
}

#[test]
fn links_on_a_server_that_hides_them() {
    on(Maker::AsyncSsh("hides-links"), Expected { dates: false, deletes: false, ..ALL });
}

#[test]
fn links_on_a_server_that_removes_what_they_point_to() {
    on(Maker::AsyncSsh("removes-targets"), Expected { dates: false, deletes: false, ..ALL });
}

#[test]
fn links_on_paramiko() {
    on(Maker::Paramiko, Expected { dates: false, ..ALL });
}

/// It has no links.
#[test]
fn links_on_go() {
    let expected = Expected { makes: false, keeps_modes: false, ..ALL };
    if let Some(scene) = Scene::set(Maker::Rclone, expected) {
        scene.links_are_made_and_replaced();
    }
}
