//! The daemon as its users meet it: keys made and listed, files sent and fetched, strangers refused, a clean end.

mod program;

use program::{pattern, sealane, text, write};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::Duration;

/// A daemon on a free port of this host; stopped when dropped.
struct Daemon {
    child: Child,
    address: String,
}

impl Daemon {
    fn start(home: &Path, root: &Path, arguments: &[&str]) -> Self {
        let mut command = sealane(&["serve"]);
        command.arg(root).args(["--listen", "127.0.0.1:0"]).args(arguments).env("HOME", home);
        let mut child = command.spawn().expect("the program starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let Some(address) = line.trim().strip_prefix("listening on ") else {
            let output = child.wait_with_output().expect("it ends");
            panic!("the daemon did not start: {}", text(&output.stderr));
        };
        Self { address: address.to_owned(), child }
    }

    fn place(&self, path: &str) -> String {
        format!("sealane://{}/{path}", self.address)
    }

    fn stop(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("it runs");
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It fails only where the daemon has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn at_home(home: &Path, arguments: &[&str]) -> Command {
    let mut command = sealane(arguments);
    command.env("HOME", home);
    command
}

/// The key of the user whose home this is, made where there is none.
fn key(home: &Path) -> String {
    let output = at_home(home, &["id"]).output().expect("the program starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let key = text(&output.stdout).trim().to_owned();
    assert!(key.starts_with("sealane1:"), "{key}");
    key
}

#[test]
fn an_identity_is_made_once() {
    let home = tempfile::tempdir().expect("a folder");
    assert_eq!(key(home.path()), key(home.path()));
    let other = tempfile::tempdir().expect("a folder");
    assert_ne!(key(home.path()), key(other.path()));
}

#[test]
fn known_peers_send_and_fetch_and_strangers_do_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    for name in ["server", "user", "stranger", "root"] {
        fs::create_dir(path(name)).expect("a folder");
    }
    key(&path("server"));
    write(&path("authorised"), format!("{} user rights=read,write\n", key(&path("user"))).as_bytes());
    key(&path("stranger"));
    let authorised = path("authorised");
    let arguments = ["--authorised-peers", authorised.to_str().expect("UTF-8"), "--minimum-level", "safe"];
    let daemon = Daemon::start(&path("server"), &path("root"), &arguments);

    write(&path("a"), &pattern(400_000));
    let copy = |home: &str, arguments: &[&str], from: &str, to: &str| {
        let mut command = at_home(&path(home), &["cp"]);
        command.args(arguments).args([from, to]).output().expect("the program starts")
    };
    let (local, back) = (path("a"), path("back"));
    let (local, back) = (local.to_str().expect("UTF-8"), back.to_str().expect("UTF-8"));

    let unknown = copy("user", &[], local, &daemon.place("a"));
    assert_eq!(unknown.status.code(), Some(3), "a daemon never met is trusted: {}", text(&unknown.stderr));
    let sent = copy("user", &["--accept-new"], local, &daemon.place("a"));
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    assert!(fs::read(path("root/a")).expect("the copy") == pattern(400_000));
    let fetched = copy("user", &[], &daemon.place("a"), back);
    assert_eq!(fetched.status.code(), Some(0), "{}", text(&fetched.stderr));
    assert!(fs::read(back).expect("the copy") == pattern(400_000));
    let piped = copy("user", &[], &daemon.place("a"), "-");
    assert_eq!(piped.status.code(), Some(0), "{}", text(&piped.stderr));
    assert!(piped.stdout == pattern(400_000));

    fs::create_dir(path("fetched")).expect("a folder");
    let fetched = path("fetched");
    let missing = copy("user", &[], &daemon.place("missing"), fetched.to_str().expect("UTF-8"));
    assert_eq!(missing.status.code(), Some(5), "{}", text(&missing.stderr));
    assert_eq!(fs::read_dir(fetched).expect("a folder").count(), 0, "a journal is left of nothing");

    std::os::unix::fs::symlink("/", path("root/out")).expect("a link");
    for outside in ["../a", "out/etc/hostname"] {
        let refused = copy("user", &[], &daemon.place(outside), back);
        assert_eq!(refused.status.code(), Some(3));
        let said = text(&refused.stderr);
        assert!(said.contains("leads out of the folder that is served"), "{said}");
    }

    let weak = copy("user", &["--level", "clear"], local, &daemon.place("weak"));
    assert_eq!(weak.status.code(), Some(3), "the minimum level was not held: {}", text(&weak.stderr));
    let strange = copy("stranger", &["--accept-new"], local, &daemon.place("strange"));
    assert_eq!(strange.status.code(), Some(3), "a stranger was let in: {}", text(&strange.stderr));
    assert!(!path("root/weak").exists() && !path("root/strange").exists());

    assert_eq!(daemon.stop(), Some(0));
}

#[test]
fn who_is_one_too_many_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    for (rights, arguments) in
        [("rights=write connections=1", &[] as &[&str]), ("rights=write", &["--max-connections=1"])]
    {
        for name in ["server", "user", "root"] {
            fs::create_dir_all(path(name)).expect("a folder");
        }
        key(&path("server"));
        let authorised = path("server/.config/sealane/authorised-peers");
        write(&authorised, format!("{} user {rights}\n", key(&path("user"))).as_bytes());
        let daemon = Daemon::start(&path("server"), &path("root"), arguments);
        write(&path("a"), &pattern(4_000_000));
        let copy = |arguments: &[&str], to: &str| {
            let mut command = at_home(&path("user"), &["cp", "--accept-new"]);
            command.args(arguments).arg(path("a")).arg(daemon.place(to));
            command
        };
        let mut first = copy(&["--limit-rate", "1M"], "slow").spawn().expect("the program starts");
        while fs::read_dir(path("root")).expect("a folder").count() == 0 {
            sleep(Duration::from_millis(5));
        }
        let second = copy(&[], "refused").output().expect("the program starts");
        assert_eq!(second.status.code(), Some(3));
        let said = text(&second.stderr);
        assert!(said.contains("are taken now (limit 1)"), "{said}");
        first.kill().expect("it runs");
        first.wait().expect("it ends");
        // The daemon hears of it a moment later.
        let is_served = || copy(&[], "a").output().expect("the program starts").status.success();
        assert!((0..100).any(|_| is_served() || {
            sleep(Duration::from_millis(50));
            false
        }));
        assert_eq!(daemon.stop(), Some(0));
        fs::remove_dir_all(path("root")).expect("it goes");
    }
}

#[test]
fn strangers_are_no_more_than_a_bounded_number() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    for name in ["home", "root"] {
        fs::create_dir(path(name)).expect("a folder");
    }
    write(
        &path("home/.config/sealane/authorised-peers"),
        format!("{} me rights=write\n", key(&path("home"))).as_bytes(),
    );
    let daemon = Daemon::start(&path("home"), &path("root"), &[]);
    write(&path("a"), &pattern(1000));
    // They begin as a data stream does, and say no more.
    let strangers: Vec<_> = (0..300)
        .map(|_| {
            let mut stranger = TcpStream::connect(&daemon.address).expect("it listens");
            stranger.write_all(&[sealane_peer::DATA_FIRST_BYTE]).expect("it is open");
            stranger.set_read_timeout(Some(Duration::from_millis(1))).expect("a time-out");
            stranger
        })
        .collect();
    sleep(Duration::from_millis(300));
    let is_open = |mut stranger: &TcpStream| matches!(stranger.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock);
    assert_eq!(strangers.iter().filter(|stranger| is_open(stranger)).count(), 256);
    drop(strangers);
    let mut copy = at_home(&path("home"), &["cp", "--accept-new"]);
    let copied = copy.arg(path("a")).arg(daemon.place("a")).output().expect("the program starts");
    assert_eq!(copied.status.code(), Some(0), "{}", text(&copied.stderr));
    assert_eq!(daemon.stop(), Some(0));
}

#[test]
fn a_daemon_that_cannot_start_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = at_home(folder.path(), &["serve"])
        .arg(folder.path().join("nothing"))
        .args(["--listen", "127.0.0.1:0"])
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
    assert!(!output.stderr.is_empty());
}
