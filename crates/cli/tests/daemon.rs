//! The daemon as its users see it: keys made and listed, files sent and fetched, strangers refused, a clean end.

mod hybrid;
mod program;

use program::{Ends, Running, eventually, pattern, sealane, text, wait_for, write};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::{self, sleep};
use std::time::Duration;
use tempfile::TempDir;

/// A daemon on a free port of this host; stopped when dropped.
struct Daemon {
    child: Running,
    address: String,
}

impl Daemon {
    fn start(home: &Path, root: &Path, arguments: &[&str]) -> Self {
        let mut command = sealane(&["serve"]);
        command.arg(root).args(["--listen", "127.0.0.1:0"]).args(arguments).env("HOME", home);
        Self::of(command)
    }

    fn of(mut command: Command) -> Self {
        let mut child = command.spawn().expect("the program starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let Some(address) = line.trim().strip_prefix("listening on ") else {
            let output = child.wait_with_output().expect("it ends");
            panic!("the daemon did not start: {}", text(&output.stderr));
        };
        Self { address: address.to_owned(), child: Running(child) }
    }

    /// Returns the current number of its threads.
    fn threads(&self) -> usize {
        fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("threads").count()
    }

    /// Sets the daemon's limit of `resource`.
    fn limit(&self, resource: Resource, most: Option<u64>) {
        let limit = Rlimit { current: most, maximum: None };
        prlimit(Some(Pid::from_child(&self.child)), resource, limit).expect("it runs");
    }

    /// Ends the daemon, and returns its log.
    fn log(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("it runs");
        let mut said = String::new();
        self.child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("UTF-8");
        assert_eq!(self.child.wait().expect("it ends").code(), Some(0), "{said}");
        said
    }

    fn place(&self, path: &str) -> String {
        format!("sealane://{}/{path}", self.address)
    }

    fn stop(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("it runs");
        self.child.wait().expect("it ends").code()
    }
}

fn at_home(home: &Path, arguments: &[&str]) -> Command {
    let mut command = sealane(arguments);
    command.env("HOME", home);
    command
}

/// Returns the key of the user with this home, after making it if there is none.
fn key(home: &Path) -> String {
    let output = at_home(home, &["id"]).ends(0);
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
    copy("user", &["--accept-new"], local, &daemon.place("a")).ends(0);
    assert!(fs::read(path("root/a")).expect("the copy") == pattern(400_000));
    copy("user", &[], &daemon.place("a"), back).ends(0);
    assert!(fs::read(back).expect("the copy") == pattern(400_000));
    let piped = copy("user", &[], &daemon.place("a"), "-").ends(0);
    assert!(piped.stdout == pattern(400_000));

    fs::create_dir(path("fetched")).expect("a folder");
    let fetched = path("fetched");
    copy("user", &[], &daemon.place("missing"), fetched.to_str().expect("UTF-8")).ends(5);
    assert_eq!(fs::read_dir(fetched).expect("a folder").count(), 0, "a journal is left of nothing");

    std::os::unix::fs::symlink("/", path("root/out")).expect("a link");
    for (outside, why) in
        [("../a", "leads out of the served folder"), ("out/etc/hostname", "goes over a symbolic link")]
    {
        copy("user", &[], &daemon.place(outside), back).complains(3, &[why]);
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
        let first = Running(copy(&["--limit-rate", "1M"], "slow").spawn().expect("the program starts"));
        wait_for("a file", || fs::read_dir(path("root")).expect("a folder").count() > 0);
        copy(&[], "refused").complains(3, &["are taken now (limit 1)"]);
        drop(first);
        // The daemon notices the disconnection a moment later.
        let is_served = || copy(&[], "a").output().expect("the program starts").status.success();
        wait_for("a place for the next", is_served);
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
    let copy = |to: &str| {
        let mut copy = at_home(&path("home"), &["cp", "--accept-new"]);
        copy.arg(path("a")).arg(daemon.place(to)).output().expect("the program starts")
    };
    assert_eq!(copy("first").status.code(), Some(0));
    // Only the daemon's own threads remain after the thread of that transfer has ended.
    assert!(eventually(|| daemon.threads() == 2), "{} threads", daemon.threads());
    // They begin as a data stream does, and send nothing more.
    let strangers: Vec<_> = (0..300)
        .map(|_| {
            let mut stranger = TcpStream::connect(&daemon.address).expect("it listens");
            stranger.write_all(&[sealane_peer::DATA_FIRST_BYTE]).expect("it is open");
            stranger.set_read_timeout(Some(Duration::from_millis(1))).expect("a time-out");
            stranger
        })
        .collect();
    let is_open = |mut stranger: &TcpStream| matches!(stranger.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock);
    let open = || strangers.iter().filter(|stranger| is_open(stranger)).count();
    assert!(eventually(|| open() == 64), "an address has more or less than its share: {}", open());
    assert_eq!(daemon.threads(), 2, "strangers cost threads");
    // The copy runs while they are connected, and from the same address.
    copy("a").ends(0);
    drop(strangers);
    assert_eq!(daemon.stop(), Some(0));
}

#[test]
fn a_daemon_that_cannot_start_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = at_home(folder.path(), &["serve"])
        .arg(folder.path().join("nothing"))
        .args(["--listen", "127.0.0.1:0"])
        .ends(5);
    assert!(!output.stderr.is_empty());
}

/// A daemon's home with its root, and a user with all rights.
struct Scene {
    folder: TempDir,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let scene = Self { folder };
        for name in ["server", "user", "root"] {
            fs::create_dir(scene.path(name)).expect("a folder");
        }
        key(&scene.path("server"));
        let line = format!("{} ada@laptop rights=read,write\n", key(&scene.path("user")));
        write(&scene.authorised(), line.as_bytes());
        write(&scene.path("a"), &pattern(400_000));
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn authorised(&self) -> PathBuf {
        self.path("server/.config/sealane/authorised-peers")
    }

    fn serve(&self, arguments: &[&str]) -> Daemon {
        Daemon::start(&self.path("server"), &self.path("root"), arguments)
    }

    fn copy(&self, arguments: &[&str]) -> Command {
        let mut command = at_home(&self.path("user"), &["cp", "--accept-new"]);
        command.args(arguments);
        command
    }

    /// Sends a file to `target`.
    fn send(&self, arguments: &[&str], target: &str) -> Output {
        self.copy(arguments).arg(self.path("a")).arg(target).output().expect("the program starts")
    }
}

#[test]
fn a_patience_of_less_than_a_second_serves() {
    let scene = Scene::new();
    let daemon = scene.serve(&["--idle-timeout", "500ms"]);
    scene.send(&[], &daemon.place("a")).ends(0);
    assert!(!daemon.log().contains("panicked"));
}

#[test]
fn a_daemon_measures_only_where_it_was_started_to() {
    let scene = Scene::new();
    write(&scene.path("root/b"), &pattern(400_000));
    for (arguments, status) in [(&[] as &[&str], 3), (&["--measuring"], 0)] {
        let said = if status == 0 { "" } else { "--measuring" };
        let daemon = scene.serve(arguments);
        scene.send(&["--sink", "null"], &daemon.place("a")).complains(status, &[said]);
        scene.send(&["--end", "send"], &daemon.place("a")).complains(status, &[said]);
        let mut held = scene.copy(&["--end", "receive", "--lanes", "64"]);
        held.args([daemon.place("b").as_str(), "-"]).complains(status, &[said]);
        assert_eq!(daemon.stop(), Some(0));
    }
}

#[test]
fn the_log_has_a_line_for_every_transfer() {
    let scene = Scene::new();
    let daemon = scene.serve(&["--minimum-level", "safe"]);
    scene.send(&[], &daemon.place("a")).ends(0);
    let mut back = scene.copy(&["--level", "safe"]);
    back.arg(daemon.place("a")).arg(scene.path("back")).ends(0);
    scene.send(&["--level", "clear"], &daemon.place("weak")).ends(3);
    let log = daemon.log();
    let lines: Vec<_> = log.lines().filter(|line| line.contains(" ada@laptop 127.0.0.1:")).collect();
    let [sent, fetched, refused] = lines[..] else { panic!("{log}") };
    for (line, parts) in [
        (sent, &["received \"/a\", private ", ": 400000 bytes, 1 entries in ", " s: done"] as &[&str]),
        (fetched, &["sent \"/a\", safe aes-128-gmac: 400000 bytes", " s: done"]),
        (refused, &["received \"/weak\", not agreed: 0 bytes", "at least safe is required"]),
    ] {
        assert!(parts.iter().all(|part| line.contains(part)), "{line}");
        assert!(line.starts_with("20") && line[..20].ends_with('Z'), "{line}");
    }
}

#[test]
fn the_log_has_an_object_for_every_transfer() {
    let scene = Scene::new();
    let mut command = at_home(&scene.path("server"), &["serve", "--json", "--listen", "127.0.0.1:0"]);
    let mut child = Running(command.arg(scene.path("root")).spawn().expect("the program starts"));
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut object =
        || -> Value { serde_json::from_str(&lines.next().expect("a line").expect("UTF-8")).expect("JSON") };
    let listening = object();
    let address = listening["address"].as_str().expect("an address");
    scene.send(&[], &format!("sealane://{address}/a")).ends(0);
    let transfer = object();
    for (name, value) in [
        ("event", Value::from("transfer")),
        ("peer", "ada@laptop".into()),
        ("direction", "received".into()),
        ("level", "private".into()),
        ("bytes", 400_000.into()),
        ("outcome", "done".into()),
    ] {
        assert_eq!(transfer[name], value, "{name}");
    }
}

#[test]
fn a_list_of_peers_that_breaks_is_said_to_those_it_concerns() {
    let scene = Scene::new();
    let daemon = scene.serve(&[]);
    scene.send(&[], &daemon.place("a")).ends(0);
    let good = fs::read(scene.authorised()).expect("a file");
    write(&scene.authorised(), &[&good[..], b"nonsense\n"].concat());
    scene.send(&[], &daemon.place("b")).complains(3, &["cannot read its list of authorised peers"]);
    write(&scene.authorised(), &good);
    scene.send(&[], &daemon.place("b")).ends(0);
    let log = daemon.log();
    assert!(log.contains("authorised-peers:2:") && log.contains("is in order again"), "{log}");
}

#[test]
fn what_a_daemon_lacks_is_said_at_its_start() {
    let scene = Scene::new();
    let mut file = at_home(&scene.path("server"), &["serve", "--listen", "127.0.0.1:0"]);
    file.arg(scene.path("a")).complains(5, &["is not a folder"]);
    write(&scene.authorised(), b"nonsense\n");
    let mut broken = at_home(&scene.path("server"), &["serve", "--listen", "127.0.0.1:0"]);
    broken.arg(scene.path("root")).complains(5, &["authorised-peers:1:"]);
    fs::remove_file(scene.authorised()).expect("it goes");
    let log = scene.serve(&[]).log();
    assert!(log.contains("nobody is authorised yet") && log.contains("authorised-peers"), "{log}");
    assert!(log.contains("sealane authorise KEY NAME read,write"), "{log}");
    // If the daemon has a list of its own, the advice names that list.
    let list = scene.path("list");
    write(&list, b"");
    let log = scene.serve(&["--authorised-peers", list.to_str().expect("UTF-8")]).log();
    let advice = format!("sealane authorise --authorised-peers {} KEY NAME read,write", list.display());
    assert!(log.contains(&advice), "{log}");
}

#[test]
fn a_daemon_is_not_told_to_authorise_its_own_key() {
    let scene = Scene::new();
    let daemon = scene.serve(&[]);
    let mut wary = at_home(&scene.path("user"), &["cp"]);
    wary.arg(scene.path("a")).arg(daemon.place("a")).complains(3, &["is not known"]);
    // The client's message is still on its way when the client ends.
    sleep(Duration::from_millis(300));
    let log = daemon.log();
    assert!(log.contains("does not know this daemon's key"), "{log}");
    assert!(!log.contains("NAME rights="), "{log}");
}

#[test]
fn clients_wait_for_descriptors() {
    let scene = Scene::new();
    let mut command = Command::new("prlimit");
    command.args(["--nofile=300:300", env!("CARGO_BIN_EXE_sealane"), "serve", "--listen", "127.0.0.1:0"]);
    command
        .arg(scene.path("root"))
        .env("HOME", scene.path("server"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if Command::new("prlimit").arg("--version").output().is_err() {
        return program::skip("prlimit is not there");
    }
    let daemon = Daemon::of(command);
    let copies: Vec<_> = (0..12)
        .map(|copy| {
            let mut command = scene.copy(&["--streams", "64"]);
            command.arg(scene.path("a")).arg(daemon.place(&format!("copy-{copy}")));
            command.spawn().expect("the program starts")
        })
        .collect();
    let ended: Vec<_> = copies.into_iter().map(|copy| copy.wait_with_output().expect("it ends")).collect();
    let log = daemon.log();
    for output in ended {
        assert_eq!(output.status.code(), Some(0), "{}; {log}", text(&output.stderr));
    }
    assert_eq!(log.matches(": done").count(), 12, "{log}");
}

#[test]
fn a_daemon_without_memory_for_threads_refuses_and_lives() {
    let scene = Scene::new();
    let daemon = scene.serve(&[]);
    scene.send(&[], &daemon.place("a")).ends(0);
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.child.id())).expect("a process");
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).expect("a size");
    let size: u64 = size.trim().trim_end_matches(" kB").parse().expect("a number");
    for spare_kib in [1 << 10, 4 << 10, 16 << 10, 32 << 10] {
        daemon.limit(Resource::As, Some((size + spare_kib) << 10));
        let ended = scene.send(&["--streams", "64"], &daemon.place("b"));
        assert!(matches!(ended.status.code(), Some(0 | 3 | 5)), "{spare_kib} KiB: {}", text(&ended.stderr));
    }
    daemon.limit(Resource::As, None);
    scene.send(&[], &daemon.place("c")).ends(0);
    let log = daemon.log();
    assert!(!log.contains("panicked"), "{log}");
}

#[test]
fn an_altered_control_channel_is_a_matter_of_integrity() {
    let scene = Scene::new();
    let daemon = scene.serve(&[]);
    for at in [200, 1500] {
        let address = altering(&daemon.address, at);
        scene.send(&[], &format!("sealane://{address}/a")).complains(4, &["was altered on the way"]);
    }
    assert_eq!(daemon.stop(), Some(0));
}

/// Forwards one connection, and changes byte number `at` of the reply.
fn altering(daemon: &str, at: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let daemon = daemon.to_owned();
    thread::spawn(move || {
        let (client, _) = listener.accept().expect("a client");
        let server = TcpStream::connect(daemon).expect("it listens");
        let (mut up_from, mut up_to) =
            (client.try_clone().expect("a copy"), server.try_clone().expect("a copy"));
        thread::spawn(move || std::io::copy(&mut up_from, &mut up_to));
        let (mut server, mut client) = (server, client);
        let mut buffer = [0; 4096];
        let mut passed = 0;
        while let Ok(read @ 1..) = server.read(&mut buffer) {
            if (passed..passed + read).contains(&at) {
                buffer[at - passed] ^= 1;
            }
            passed += read;
            if client.write_all(&buffer[..read]).is_err() {
                return;
            }
        }
    });
    address
}
