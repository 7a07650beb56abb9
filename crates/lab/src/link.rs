//! Runs a command behind an emulated link: delay, rate, loss, reordering and duplication on the way from this host to
//! itself.
//!
//! The command runs in a network namespace of its own, in which packets for 127.0.0.0/8 do not take the loopback
//! device: they leave by a TUN device, pass [`sealane_port::link`], and return by the same device. So every program
//! that connects to 127.0.0.1 uses the link, without being aware of it, and without netem in the kernel.
//!
//! Guarantees: the network outside is not touched; root is not needed where users may create namespaces; the device
//! and the namespace disappear when the last process behind the link ends, even if it was killed; the command
//! replaces this process, so its exit status and signals are its own.

use crate::LabError;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::AsFd as _;
use rustix::io::{FdFlags, fcntl_setfd};
use sealane_lanes::Clock;
use sealane_port::Batch;
use sealane_port::link::{Emulated, Link};
use sealane_port::tun::{Options, Tun};
use sealane_port::{Port as _, Room};
use std::convert::Infallible;
use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The device's name, in a namespace that has no other.
const DEVICE: &str = "link0";

/// Packets have Ethernet's size. The loopback device keeps only IPv4, so that `localhost` means 127.0.0.1. Each half of
/// a round trip passes the device once.
const SET_UP: &str = "\
ip link set dev lo up
ip link set dev \"$1\" mtu 1500 txqueuelen 10000 up
cd /proc/sys/net
echo 1 > ipv6/conf/lo/disable_ipv6 2>/dev/null || :
echo 1 > ipv4/conf/\"$1\"/route_localnet
echo 1 > ipv4/conf/\"$1\"/accept_local
echo 0 > ipv4/conf/\"$1\"/rp_filter
echo 0 > ipv4/conf/all/rp_filter
ip route add 127.0.0.0/8 dev \"$1\" src 127.0.0.1 table 100
ip rule add pref 10 lookup local
ip rule add pref 5 iif lo to 127.0.0.0/8 lookup 100
ip rule del pref 0";

/// Runs a program in the background with the input of the shell, which would otherwise give it an empty one.
const IN_THE_BACKGROUND: &str = "exec 3<&0; \"$@\" <&3 3<&- &";

/// The least queueing time of the link, as in a router.
const QUEUE_MIN: Duration = Duration::from_millis(10);
const QUEUE_BYTES_MIN: u64 = 256 << 10;
/// The maximum of bytes under way if no rate is given.
const QUEUE_BYTES_MAX: u64 = 256 << 20;

/// Properties of the link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkOptions {
    /// The time for the way there and back.
    pub round_trip: Duration,
    /// Bytes per second, both directions together; `None` means as fast as this host moves packets.
    pub bytes_per_second: Option<u64>,
    /// The share of packets that are lost, 0 to 1.
    pub loss: f64,
    /// The share of packets that are delayed by up to a tenth of the round trip, 0 to 1.
    pub reorder: f64,
    /// The share of packets that arrive twice, 0 to 1.
    pub duplicate: f64,
    /// The seed of the random decisions.
    pub seed: u64,
}

impl LinkOptions {
    /// Returns the link in one direction.
    fn one_way(&self) -> Link {
        let delay = self.round_trip / 2;
        let queue_bytes = self.bytes_per_second.map_or(QUEUE_BYTES_MAX, |rate| {
            let held = (delay + delay.max(QUEUE_MIN)).as_secs_f64() * rate as f64;
            (held as u64).clamp(QUEUE_BYTES_MIN, QUEUE_BYTES_MAX)
        });
        Link {
            delay,
            bytes_per_second: self.bytes_per_second,
            loss: self.loss,
            reorder: self.reorder,
            lateness: (self.round_trip / 10).max(Duration::from_millis(1)),
            duplicate: self.duplicate,
            queue_bytes: queue_bytes as usize,
            seed: self.seed,
        }
    }

    /// Returns the arguments of `sealane-lab` for the same link, so that one process can hand it to the next.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let share = |share: f64| format!("{}%", share * 100.0);
        let mut words = vec!["link".into()];
        let mut option = |name: &str, value: String| words.extend([name.into(), value.into()]);
        option("--rtt", format!("{}us", self.round_trip.as_micros()));
        if let Some(rate) = self.bytes_per_second {
            option("--rate", rate.to_string());
        }
        option("--loss", share(self.loss));
        option("--reorder", share(self.reorder));
        option("--duplicate", share(self.duplicate));
        option("--seed", self.seed.to_string());
        words
    }
}

/// One of the three processes, each of which starts the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// The process that the user started; it becomes the next one, in a namespace of its own.
    #[default]
    Outside,
    /// The process that starts the last one and becomes the command.
    Inside,
    /// The process that is the link until the last process behind it has ended.
    Link,
}

impl Stage {
    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Outside => "outside",
            Self::Inside => "inside",
            Self::Link => "link",
        }
    }
}

/// Checks whether `unshare` grants `words`, by a command that does nothing; otherwise returns `refusal` and the
/// reason.
pub(crate) fn probe(words: &[&str], refusal: &str) -> Result<(), String> {
    let output = Command::new("unshare")
        .args(words)
        .arg("true")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start unshare: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let reason = String::from_utf8_lossy(&output.stderr);
    let reason = reason.lines().next().unwrap_or("no reason given");
    Err(format!("{refusal} ({reason})"))
}

/// Moves this process into a network namespace of its own, and becomes `command`, a program and its arguments, behind a
/// link. `program` is the running program. Returns only if something failed.
///
/// # Errors
/// Fails if no namespace or device can be created, or the command cannot be started.
pub fn behind(program: &Path, options: &LinkOptions, command: &[OsString]) -> Result<Infallible, LabError> {
    // Root keeps all its rights, which an ssh server needs; other users become root of the new namespace.
    let mut words = vec!["--net"];
    if !rustix::process::geteuid().is_root() {
        words.insert(0, "--map-root-user");
    }
    probe(&words, "no network namespace can be made here").map_err(LabError::Unavailable)?;
    let mut unshare = Command::new("unshare");
    unshare.args(words).arg("--").arg(program).args(options.words());
    unshare.args(["--stage", Stage::Inside.name(), "--"]).args(command);
    Err(LabError::Unavailable(format!("cannot start unshare: {}", unshare.exec())))
}

/// Starts the link in this namespace, which must be a new one, and becomes `command`.
///
/// # Errors
/// Fails as [`behind`] does.
pub fn inside(program: &Path, options: &LinkOptions, command: &[OsString]) -> Result<Infallible, LabError> {
    let unavailable = |what: &str, error: io::Error| LabError::Unavailable(format!("{what}: {error}"));
    let (first, rest) = command.split_first().expect("the command line demands one");
    // The shell ends at once, so that the command has no unknown child. The link has a process group of its own,
    // because the terminal's signals are for the command.
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", IN_THE_BACKGROUND, "sh"]).arg(program).args(options.words());
    shell.args(["--stage", Stage::Link.name(), "--", "link"]);
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    let mut shell = shell.spawn().map_err(|error| unavailable("cannot start the link", error))?;
    let (lives, ready) = (shell.stdin.take(), shell.stdout.take());
    shell.wait().map_err(|error| unavailable("cannot start the link", error))?;
    let mut said = [0; READY.len()];
    // The link has already reported the reason of a failure.
    ready
        .expect("it was piped")
        .read_exact(&mut said)
        .map_err(|_| LabError::Unavailable("the link could not be made".to_owned()))?;
    // Every process behind the link holds this end of a pipe; when none does, the link ends.
    let lives = lives.expect("it was piped");
    fcntl_setfd(&lives, FdFlags::empty())
        .map_err(|error| unavailable("cannot keep the link", error.into()))?;
    let error = Command::new(first).args(rest).exec();
    drop(lives);
    Err(LabError::Unavailable(format!("cannot start {}: {error}", Path::new(first).display())))
}

/// The link's message that packets can pass.
const READY: &[u8] = b"ready\n";

/// Creates the device, reports that on standard output, and serves as the link until standard input ends.
///
/// # Errors
/// Fails if the device cannot be created, or the kernel refuses packets.
pub fn be_the_link(options: &LinkOptions) -> Result<(), LabError> {
    let failed = |error: io::Error| LabError::Unavailable(format!("the link: {error}"));
    let device = Options { is_nonblocking: true, ..Options::new(DEVICE) };
    let tun = Tun::open(&device).map_err(failed)?.pop().expect("one queue was asked for");
    let output = Command::new("/bin/sh")
        .args(["-ec", SET_UP, "sh", tun.name()])
        .stdin(Stdio::null())
        .output()
        .map_err(failed)?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        return Err(LabError::Unavailable(format!("the link cannot be set up: {}", reason.trim())));
    }
    let mut port = Emulated::new(tun, options.one_way(), Clock::Real, Room::NONE);
    let mut batch = Batch::new(4 * 65_536, 256);
    let mut stdout = io::stdout();
    stdout.write_all(READY).and_then(|()| stdout.flush()).map_err(failed)?;
    loop {
        batch.clear();
        match port.receive(&mut batch) {
            Ok(0) => return Ok(()),
            Ok(_) => send(&mut port, &batch).map_err(failed)?,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if !wait(&port).map_err(failed)? {
                    return Ok(());
                }
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Packets that the device does not accept at once are lost, as on any link whose far end is busy.
fn send(port: &mut Emulated<Tun>, batch: &Batch) -> io::Result<()> {
    match port.send(batch, 0) {
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
        _ => Ok(()),
    }
}

/// Waits for a packet from the device or for one that is due. Returns `false` if standard input has ended.
fn wait(port: &Emulated<Tun>) -> io::Result<bool> {
    let timeout = port.poll_timeout().map(|due| due.saturating_duration_since(Instant::now()));
    let timeout = timeout.map(|left| left.try_into().expect("links have delays of seconds"));
    let stdin = io::stdin();
    let device = port.fd().expect("a device has a descriptor");
    let mut waited = [
        PollFd::from_borrowed_fd(device, PollFlags::IN),
        PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN),
    ];
    match poll(&mut waited, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(waited[1].revents().is_empty()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_holds_what_is_under_way_and_more() {
        let options = LinkOptions {
            round_trip: Duration::from_millis(100),
            bytes_per_second: Some(125_000_000),
            loss: 0.001,
            reorder: 0.0,
            duplicate: 0.0,
            seed: 7,
        };
        let link = options.one_way();
        assert_eq!(link.delay, Duration::from_millis(50));
        assert_eq!(link.queue_bytes, 12_500_000);
        let slow = LinkOptions { bytes_per_second: Some(1000), ..options };
        assert_eq!(slow.one_way().queue_bytes, QUEUE_BYTES_MIN as usize);
        let words: Vec<String> =
            options.words().into_iter().map(|word| word.into_string().unwrap()).collect();
        assert!(words.join(" ").contains("--rtt 100000us --rate 125000000 --loss 0.1%"), "{words:?}");
    }
}
