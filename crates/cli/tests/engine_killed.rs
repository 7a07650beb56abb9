//! `cp` and `tunnel` whose engine is a service that is killed and started again at random.

mod network;
mod program;

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use network::missing;
use network::pair::{INNER, Manner, Pair, TUNNEL};
use program::{Ends, events, pattern, sealane, secret, unless, wait_for, write};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use sealane_client::Client;

/// The least number of kills, and the least number of services that have sealed something.
const KILLS: usize = 5;
const SEALING: usize = 2;
/// The time after which a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// A service that is killed and started again by a thread.
struct Victim {
    folder: tempfile::TempDir,
    child: Mutex<Option<Child>>,
}

/// The kills so far, and the number of services that had sealed something by then.
#[derive(Clone, Copy, Debug, Default)]
struct Killed {
    all: usize,
    sealing: usize,
}

impl Victim {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        secret(folder.path().join("passphrase"), "a passphrase\n");
        let victim = Self { folder, child: Mutex::new(None) };
        victim.start_again();
        victim
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn engine(&self) -> String {
        format!("service:{}", self.socket().display())
    }

    fn start_again(&self) {
        let arguments =
            ["engine", "serve", "--socket", "socket", "--keys", "keys", "--passphrase-file", "passphrase"];
        let mut command = sealane(&arguments);
        command.args(["--allow-swap", "--workers", "1"]).current_dir(self.folder.path());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        *self.child.lock().expect("no panic") = Some(child);
        wait_for("the engine's answer", || Client::connect(&self.socket(), "a test").is_ok());
    }

    /// Returns the number of records that the service has sealed since its start.
    fn sealed(&self) -> u64 {
        let status = Client::connect(&self.socket(), "a test").and_then(|mut client| client.status());
        status.map_or(0, |status| status.done.get("seal").copied().unwrap_or(0))
    }

    fn kill(&self) {
        if let Some(mut child) = self.child.lock().expect("no panic").take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Kills the service and starts it again, at random times, until `is_over`.
    fn suffer(&self, is_over: &AtomicBool, killed: &Mutex<Killed>) {
        let mut random = SplitMix64::seed_from_u64(1);
        let mut pause = |most_ms: u64| thread::sleep(Duration::from_millis(random.next_u64() % most_ms));
        while !is_over.load(SeqCst) {
            // Every second service is killed at work. A program that was refused asks at growing intervals whether there
            // is a service again, so that takes a while.
            let since = Instant::now();
            let is_at_work = killed.lock().expect("no panic").all.is_multiple_of(2);
            while is_at_work && self.sealed() == 0 && since.elapsed() < PATIENCE / 4 && !is_over.load(SeqCst)
            {
                thread::sleep(Duration::from_millis(5));
            }
            pause(300);
            let has_sealed = self.sealed() > 0;
            self.kill();
            {
                let mut killed = killed.lock().expect("no panic");
                killed.all += 1;
                killed.sealing += usize::from(has_sealed);
            }
            pause(60);
            self.start_again();
        }
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Calls `act` while the service is killed again and again, until that was often enough.
fn while_killed(victim: &Victim, mut act: impl FnMut()) -> Killed {
    let (is_over, killed) = (AtomicBool::new(false), Mutex::new(Killed::default()));
    let start = Instant::now();
    thread::scope(|scope| {
        /// Ends the other thread also if `act` panics.
        struct Over<'a>(&'a AtomicBool);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(true, SeqCst);
            }
        }
        let over = Over(&is_over);
        scope.spawn(|| victim.suffer(&is_over, &killed));
        loop {
            act();
            let killed = *killed.lock().expect("no panic");
            if killed.all >= KILLS && killed.sealing >= SEALING {
                break;
            }
            assert!(start.elapsed() < PATIENCE, "{killed:?}");
        }
        drop(over);
    });
    killed.into_inner().expect("no panic")
}

fn copy(engine: &str, source: &Path, target: &Path) {
    let arguments =
        ["cp", "--json", "--level", "private", "--streams", "2", "--lanes", "2", "--engine", engine];
    let output = sealane(&arguments).arg(source).arg(target).ends(0);
    let events = events(&output.stdout);
    let done = events.last().expect("a last line");
    // A record that was sealed wrongly or twice, or came in another order, would have broken a stream.
    assert_eq!((&done["event"], &done["resent_bytes"]), (&"done".into(), &0.into()), "{done}");
}

#[test]
fn a_copy_is_identical_while_its_engine_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, target) = (folder.path().join("a"), folder.path().join("b"));
    let content = pattern(24_000_003);
    write(&source, &content);
    let victim = Victim::start();
    let mut copies = 0;
    let killed = while_killed(&victim, || {
        copy(&victim.engine(), &source, &target);
        assert!(fs::read(&target).expect("the copy") == content, "copy {copies}");
        fs::remove_file(&target).expect("the copy");
        copies += 1;
    });
    println!("{copies} copies, {killed:?}");
}

#[test]
fn packets_keep_their_order_while_their_engine_is_killed() {
    /// Datagrams under way: so few that no queue overflows.
    const BURST: u32 = 32;
    let Some(()) = unless(missing()) else { return };
    let victim = Victim::start();
    // With fair queueing a queue that stands while there is no engine may lose a packet.
    let manner = Manner { site: "queueing = \"fifo\"\n", ..TUNNEL };
    let mut pair = Pair::new_as("v", "aes-128-gcm", 20, "2", manner);
    pair.change_engine(victim.engine());
    let [near, far] =
        [0, 1].map(|end| pair.inside(end, || UdpSocket::bind((INNER[end], 0)).expect("a port")));
    near.connect(far.local_addr().expect("an address")).expect("an address");
    far.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    let (mut sent, mut got) = (0u32, 0u32);
    let mut datagram = pattern(1200);
    let mut found = vec![0; 2000];
    let killed = while_killed(&victim, || {
        for _ in 0..BURST {
            datagram[..4].copy_from_slice(&sent.to_be_bytes());
            assert_eq!(near.send(&datagram).expect("it is sent"), datagram.len());
            sent += 1;
        }
        while got < sent {
            let length = far.recv(&mut found).unwrap_or_else(|error| panic!("datagram {got}: {error}"));
            datagram[..4].copy_from_slice(&got.to_be_bytes());
            assert!(found[..length] == datagram, "datagram {got}: {:?}", &found[..4]);
            got += 1;
        }
    });
    let reasons = ["bad_integrity", "malformed", "replay_duplicate", "replay_too_old", "no_room"];
    pair.none_dropped(format!("{killed:?}"), &reasons);
    println!("{got} datagrams, {killed:?}");
}
