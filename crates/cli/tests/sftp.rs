//! Copies over a real sshd whose host has no sealane.

#[path = "sftp/compared.rs"]
mod compared;
#[path = "sftp/links.rs"]
mod links;
#[path = "sftp/logins.rs"]
mod logins;
#[path = "sftp/odd.rs"]
mod odd;
mod program;
#[path = "sftp/servers.rs"]
mod servers;
#[path = "../../../testing/sshd.rs"]
mod sshd;

use program::{Ends, or_skip, pattern, sealane, text, wait_for, write};
use sshd::PrivateSshd;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Output, Stdio};

struct Scene {
    sshd: PrivateSshd,
    folder: tempfile::TempDir,
}

impl Scene {
    fn set() -> Option<Self> {
        let sshd = or_skip(PrivateSshd::start())?;
        let folder = tempfile::tempdir().expect("a folder");
        let tree = folder.path().join("tree");
        fs::create_dir_all(tree.join("sub")).expect("folders");
        write(&tree.join("small"), b"small");
        write(&tree.join("sub/large"), &pattern(5_000_011));
        Some(Self { sshd, folder })
    }

    fn far(&self, name: &str) -> String {
        format!("{}:{}", PrivateSshd::HOST, self.near(name))
    }

    fn near(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn copy(&self, options: &[&str], from: &str, to: &str) -> Output {
        let mut command = sealane(&["cp", "-r", "--timeout", "20", "-F"]);
        command.arg(self.sshd.client_config()).args(options).args([from, to]);
        command.env("XDG_STATE_HOME", self.near("state")).output().expect("the program starts")
    }

    #[track_caller]
    fn same(&self, one: &str, other: &str) {
        for name in ["small", "sub/large"] {
            let read = |tree: &str| {
                fs::read(Path::new(&self.near(tree)).join(name))
                    .unwrap_or_else(|error| panic!("{name}: {error}"))
            };
            assert!(read(one) == read(other), "{name} differs");
        }
    }
}

#[test]
fn a_host_with_only_sshd_is_copied_to_and_from() {
    let Some(scene) = Scene::set() else { return };
    for (number, options) in
        [&[][..], &["--streams", "4"], &["--far-end", "sftp", "--fsync"]].into_iter().enumerate()
    {
        let (sent, fetched) = (format!("sent{number}"), format!("fetched{number}"));
        for (from, to) in [(scene.near("tree"), scene.far(&sent)), (scene.far(&sent), scene.near(&fetched))] {
            let output = scene.copy(options, &from, &to).ends(0);
            let said = text(&output.stderr);
            assert_eq!(said.contains("has no sealane; copying over SFTP"), number < 2, "{said}");
            // Nobody is there to take advice.
            assert!(!said.contains("--install-far-end"), "{said}");
        }
        scene.same("tree", &sent);
        scene.same("tree", &fetched);
    }
    // At a terminal the advice comes once for each host.
    for is_first in [true, false] {
        let mut command = sealane(&["cp", "-r", "-F"]);
        command.arg(scene.sshd.client_config()).args([scene.near("tree"), scene.far("told")]);
        command.env("XDG_STATE_HOME", scene.near("state"));
        let (code, written) = program::terminal::Terminal::start(&command, 200).end();
        assert_eq!((code, written.contains("--install-far-end")), (Some(0), is_first), "{written}");
    }
    // The lines of JSON say it too.
    let output = scene.copy(&["--json"], &scene.near("tree"), &scene.far("json"));
    let events = program::events(&output.stdout);
    assert!(events.iter().any(|event| event["event"] == "over_sftp"), "{events:?}");
    let done = events.last().expect("an event");
    assert_eq!(
        (done["event"].as_str(), done["suite"].as_str(), done["files"].as_u64()),
        (Some("done"), Some("ssh"), Some(4))
    );
    scene
        .copy(&["--far-end", "sealane"], &scene.near("tree"), &scene.far("never"))
        .complains(3, &["not installed"]);
    let output = scene.copy(&["--level", "safe"], &scene.near("tree"), &scene.far("never"));
    assert!(text(&output.stderr).contains("--level safe needs it there"), "{}", text(&output.stderr));
    assert!(!output.status.success() && !Path::new(&scene.near("never")).exists());
}

#[test]
fn what_an_sftp_server_does_not_tell_is_said_once() {
    let Some(scene) = Scene::set() else { return };
    let said = |options: &[&str], from: &str, to: &str| {
        let output = scene.copy(options, from, to).ends(0);
        text(&output.stderr).to_string()
    };
    let what = "hard links become files of their own, and extended attributes are not copied";
    let fetched = said(&["-a"], &scene.far("tree"), &scene.near("fetched"));
    assert_eq!(fetched.matches(what).count(), 1, "{fetched}");
    scene.same("tree", "fetched");
    let plain = said(&[], &scene.far("tree"), &scene.near("plain"));
    assert!(!plain.contains("does not tell"), "{plain}");
}

#[test]
fn an_account_that_may_only_transfer_files_is_copied_to_and_from() {
    let Some(scene) = Scene::set() else { return };
    let key = scene.sshd.user_key().with_extension("pub");
    let public = fs::read_to_string(&key).expect("a key");
    write(&key, format!("restrict,command=\"internal-sftp\" {public}").as_bytes());
    for (options, to) in [(&[][..], "sent"), (&["--checksum"], "sent"), (&["--streams", "3"], "again")] {
        for (from, to) in [(scene.near("tree"), scene.far(to)), (scene.far("sent"), scene.near("fetched"))] {
            scene.copy(&[&["-T"], options].concat(), &from, &to).ends(0);
        }
        scene.same("tree", to);
        scene.same("tree", "fetched");
    }
}

#[test]
fn the_cipher_is_told() {
    let Some(scene) = Scene::set() else { return };
    for streams in ["1", "3"] {
        let options = ["--stats", "--streams", streams, "-o", "Ciphers=aes256-ctr"];
        let output = scene.copy(&options, &scene.near("tree"), &scene.far("sent"));
        let said = text(&output.stderr).to_owned() + text(&output.stdout);
        assert!(said.contains("suite      ssh, aes256-ctr\n") && !said.contains("kex"), "{said}");
    }
}

#[test]
fn a_login_that_is_refused_is_told() {
    let Some(scene) = Scene::set() else { return };
    for far_end in ["auto", "sftp"] {
        let options = ["--far-end", far_end, "-o", "PubkeyAuthentication=no", "-o", "BatchMode=yes"];
        let output = scene.copy(&options, &scene.near("tree"), &scene.far("never")).ends(3);
        let said = text(&output.stderr);
        assert!(said.contains("log in") && !said.contains("not installed"), "{said}");
    }
}

#[test]
fn a_file_that_changes_under_way_gets_no_name() {
    let Some(scene) = Scene::set() else { return };
    const BYTES: usize = 12_000_000;
    let source = scene.folder.path().join("changing");
    let sent = scene.folder.path().join("sent");
    for (kept_bytes, reason) in [
        // Most of the rest is missing.
        (1000, "it became shorter while it was read"),
        (BYTES - 5, "it changed while it was read; copy it again"),
    ] {
        write(&source, &pattern(BYTES));
        let mut command = sealane(&["cp", "-q", "--far-end", "sftp", "--limit-rate", "4M", "-F"]);
        command.arg(scene.sshd.client_config()).args([scene.near("changing"), scene.far("sent")]);
        let copy = command.env("XDG_STATE_HOME", scene.near("state")).stderr(Stdio::piped()).spawn();
        let copy = copy.expect("the program starts");
        // Some of the content has arrived under a temporary name.
        let has_begun = || {
            fs::read_dir(scene.folder.path()).expect("a folder").flatten().any(|entry| {
                let is_part = entry.file_name().as_encoded_bytes().ends_with(b".part");
                is_part && entry.metadata().is_ok_and(|there| there.blocks() > 0)
            })
        };
        wait_for("a part", has_begun);
        let changed = fs::File::options().write(true).open(&source).expect("the source");
        changed.set_len(kept_bytes as u64).expect("a shorter file");
        changed.write_all_at(b"other", kept_bytes as u64).expect("other bytes");
        let output = copy.wait_with_output().expect("an end").ends(1);
        let said = text(&output.stderr);
        assert!(said.contains(&format!("changing: {reason}")) && !said.contains("panicked"), "{said}");
        assert!(!sent.exists(), "{said}");
    }
    scene.copy(&["-q", "--far-end", "sftp"], &scene.near("changing"), &scene.far("sent")).ends(0);
    assert!(fs::read(&source).expect("the source") == fs::read(&sent).expect("its copy"));
}
