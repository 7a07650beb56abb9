//! A process that maintains the host's state for its gateway, and the gateway's end of the connection to it.
//!
//! The gateway gives up its capabilities before it reads packets of strangers. This process never reads such packets,
//! and keeps CAP_NET_ADMIN: to restore routes that vanish, to create the marked sockets of calls, and to remove
//! everything at the end. It exchanges lines of JSON with the gateway over a socket pair, and ends with it.
//!
//! Guarantees: when the gateway ends without a message, the closing routes stay, or everything is removed if the
//! gateway was not up yet; every wait for an answer has a deadline; the length of a line is bounded.

use std::{
    io::{self, IoSlice, IoSliceMut, Read as _, Write as _},
    mem::{self, MaybeUninit},
    net::{IpAddr, Shutdown, SocketAddr, TcpStream},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags},
    io::Errno,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sockopt,
    },
    thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs},
};
use serde::{Deserialize, Serialize};

use super::{
    HostError, Wanted, firewall, forwarding,
    netlink::{Events, Kernel},
    plan::{self, Step},
    refused,
};
use crate::{
    device,
    watched::{Bundle, Watched},
};

/// The maximum length of a line in bytes: it contains the networks of the longest site file.
const LINE_BYTES_MAX: usize = 64 << 20;
/// The maximum number of addresses that peers give.
const ASSIGNED_MAX: usize = 64;
/// The time limit for an answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Changes come in groups, which are handled together.
const GROUPED: Duration = Duration::from_millis(100);
/// The minimum time between repairs, so that a program that removes routes again and again does not keep this process
/// busy.
const BETWEEN: Duration = Duration::from_secs(1);

#[derive(Debug, Serialize, Deserialize)]
enum Order {
    /// Prepare the host.
    SetUp {
        /// The state.
        wanted: Wanted,
        /// The folder of the control socket, where the changes that the kernel does not remember are noted.
        folder: PathBuf,
    },
    /// The gateway is up: from now on the closing routes outlive it.
    Keep,
    /// Create a TCP socket with the gateway's mark.
    Socket {
        /// The socket's family.
        is_v4: bool,
    },
    /// Give the device these addresses beside those of the site, in place of earlier ones of this kind.
    Assign(Vec<IpAddr>),
    /// Read this site file and the files of credentials that it names whenever that is ordered.
    Watch(Watched),
    /// Say what the files look like from outside: the answer differs from the one before if one of them has changed.
    Stamp,
    /// Read the files.
    Read,
    /// Maintain this state of the host instead.
    Change(Wanted),
    /// Remove everything.
    Restore,
}

#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    /// The order was executed; the messages are for the operator.
    Done(Vec<String>),
    /// The content of the files.
    Read(Bundle),
    /// The order was refused, with the reason.
    Refused(String),
}

/// The gateway's end of the connection.
#[derive(Debug)]
pub struct Keeper {
    ends: Mutex<Ends>,
}

#[derive(Debug)]
struct Ends {
    child: Child,
    stream: UnixStream,
    is_over: bool,
}

impl Keeper {
    /// Starts `program`, which must call [`run`] with its standard input.
    ///
    /// # Errors
    /// Fails if it cannot be started.
    pub fn start(mut program: Command) -> io::Result<Self> {
        let (near, far) = UnixStream::pair()?;
        near.set_read_timeout(Some(PATIENCE))?;
        near.set_write_timeout(Some(PATIENCE))?;
        let child = program.stdin(OwnedFd::from(far)).stdout(Stdio::null()).spawn()?;
        Ok(Self { ends: Mutex::new(Ends { child, stream: near, is_over: false }) })
    }

    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().expect("nobody panics asking")
    }

    fn ask(&self, order: &Order) -> Result<(Vec<String>, Option<OwnedFd>), HostError> {
        self.ends().ask(order).and_then(|(answer, socket)| match answer {
            Answer::Done(notes) => Ok((notes, socket)),
            Answer::Refused(message) => Err(HostError::Keeper(message)),
            Answer::Read(_) => Err(HostError::Keeper("it answers another order".to_owned())),
        })
    }

    /// Makes the process remember the files of a gateway, which cannot read them itself once it has given up its rights.
    ///
    /// # Errors
    /// Fails if the process is gone.
    pub fn watch(&self, watched: &Watched) -> Result<(), HostError> {
        self.ask(&Order::Watch(watched.clone())).map(drop)
    }

    /// Returns a text that differs from the one before if one of the files has changed.
    ///
    /// # Errors
    /// Fails if the process is gone.
    pub fn stamp(&self) -> Result<String, HostError> {
        self.ask(&Order::Stamp).map(|(notes, _)| notes.concat())
    }

    /// Reads the files.
    ///
    /// # Errors
    /// Fails with the reason why one of them is refused, or if the process is gone.
    pub fn read(&self) -> Result<Bundle, HostError> {
        match self.ends().ask(&Order::Read)?.0 {
            Answer::Read(bundle) => Ok(bundle),
            Answer::Refused(message) => Err(HostError::Keeper(message)),
            Answer::Done(_) => Err(HostError::Keeper("it answers another order".to_owned())),
        }
    }

    /// Maintains this state of the host in place of the earlier one.
    ///
    /// # Errors
    /// Fails if something on the host conflicts, or if the kernel refuses.
    pub fn change(&self, wanted: &Wanted) -> Result<Vec<String>, HostError> {
        self.ask(&Order::Change(wanted.clone())).map(|(notes, _)| notes)
    }

    /// Prepares the host. `folder` is the one of the control socket, and exists. Returns messages for the operator.
    ///
    /// # Errors
    /// Fails if something on the host conflicts, or if the kernel refuses. Nothing has changed then.
    pub fn set_up(&self, wanted: &Wanted, folder: &Path) -> Result<Vec<String>, HostError> {
        let order = Order::SetUp { wanted: wanted.clone(), folder: folder.to_owned() };
        self.ask(&order).map(|(notes, _)| notes)
    }

    /// Makes the closing routes outlive the gateway from now on.
    ///
    /// # Errors
    /// Fails if the process is gone.
    pub fn keep(&self) -> Result<(), HostError> {
        self.ask(&Order::Keep).map(drop)
    }

    /// Gives the device these addresses beside those of the site, in place of earlier ones of this kind.
    ///
    /// # Errors
    /// Fails if the kernel refuses, or if the process is gone.
    pub fn assign(&self, addresses: &[IpAddr]) -> Result<(), HostError> {
        self.ask(&Order::Assign(addresses.to_vec())).map(drop)
    }

    /// Connects a socket that carries the gateway's mark, within `patience`.
    ///
    /// # Errors
    /// Fails if there is no such socket, or no connection.
    pub fn connect(&self, to: &SocketAddr, patience: Duration) -> io::Result<TcpStream> {
        let until = Instant::now() + patience;
        let (_, socket) = self.ask(&Order::Socket { is_v4: to.is_ipv4() }).map_err(io::Error::other)?;
        let socket = socket.ok_or_else(|| io::Error::other("no socket came with the answer"))?;
        match rustix::net::connect(&socket, to) {
            Err(Errno::INPROGRESS) => {}
            done => done?,
        }
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let mut polled = [PollFd::new(&socket, PollFlags::OUT)];
            // The wait also ends at a signal.
            sealane_lanes::wait(&mut polled, left)?;
            if !polled[0].revents().is_empty() {
                break;
            }
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        sockopt::socket_error(&socket)??;
        let stream = TcpStream::from(socket);
        stream.set_nonblocking(false)?;
        Ok(stream)
    }

    /// Returns whether the process has ended; the routes are then no longer maintained.
    pub fn is_gone(&self) -> bool {
        !matches!(self.ends().child.try_wait(), Ok(None))
    }

    /// Removes all changes to the host.
    ///
    /// # Errors
    /// Fails if the kernel refuses, or if the process is gone; `sealane tunnel down` tries again.
    pub fn restore(&self) -> Result<(), HostError> {
        let mut ends = self.ends();
        if mem::replace(&mut ends.is_over, true) {
            return Ok(());
        }
        let done = ends.ask(&Order::Restore).and_then(|(answer, _)| match answer {
            Answer::Refused(message) => Err(HostError::Keeper(message)),
            _ => Ok(()),
        });
        // The process ends by itself now, unless it is gone.
        let _ = ends.stream.shutdown(Shutdown::Both);
        let _ = ends.child.wait();
        done
    }
}

impl Ends {
    fn ask(&mut self, order: &Order) -> Result<(Answer, Option<OwnedFd>), HostError> {
        let gone = |error: &dyn std::fmt::Display| {
            HostError::Keeper(format!("the process that keeps the host's routes does not answer: {error}"))
        };
        let mut line = serde_json::to_vec(order).map_err(|error| gone(&error))?;
        line.push(b'\n');
        self.stream.write_all(&line).map_err(|error| gone(&error))?;
        let (answer, socket) = hear(&self.stream).map_err(|error| gone(&error))?;
        Ok((serde_json::from_slice(&answer).map_err(|error| gone(&error))?, socket))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // A caller that needs the result calls it before.
        let _ = self.restore();
    }
}

/// Reads one line, and the descriptor that came with it.
fn hear(stream: &UnixStream) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    let (mut line, mut socket) = (Vec::new(), None);
    let mut chunk = [0; 4096];
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let into = &mut [IoSliceMut::new(&mut chunk)];
        let received = rustix::net::recvmsg(stream, into, &mut control, RecvFlags::CMSG_CLOEXEC)?.bytes;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(sockets) = message {
                socket = sockets.last().or(socket);
            }
        }
        if received == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.extend(&chunk[..received]);
        if line.last() == Some(&b'\n') {
            return Ok((line, socket));
        }
        if line.len() > LINE_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

/// The state of a host while a gateway runs.
struct Kept {
    kernel: Kernel,
    wanted: Wanted,
    /// The index of the gateway's device.
    device: u32,
    /// The addresses in `wanted` that a peer has given.
    assigned: Vec<(IpAddr, u8)>,
    /// The steps done, which are to be undone.
    done: Vec<Step>,
    /// The settings of forwarding that were off.
    forwarded: forwarding::Record,
    folder: PathBuf,
    has_new_table: bool,
    is_kept: bool,
    is_up: bool,
    routes: Events,
    tables: Option<firewall::Events>,
    /// The time of the next check for vanished parts.
    look: Option<Instant>,
    looked: Instant,
}

impl Kept {
    /// Prepares the host, or leaves it unchanged.
    fn set_up(wanted: Wanted, folder: PathBuf) -> Result<(Self, Vec<String>), HostError> {
        let mut kernel = Kernel::open().map_err(refused("ask the kernel for its routes"))?;
        let routes = Events::open().map_err(refused("listen to the kernel's changes"))?;
        let mut state = kernel.state(&wanted).map_err(refused("read the kernel's routes"))?;
        let missing = || HostError::Keeper(format!("the device {} is not there", wanted.device));
        let device = state.device.ok_or_else(missing)?;
        state.is_up = true;
        let plan = plan::plan(&wanted, &state);
        if !plan.conflicts.is_empty() {
            return Err(HostError::Conflict(plan.conflicts));
        }
        let gso_packet_bytes = (!device::forwards()).then_some(wanted.gso_packet_bytes);
        let set_up = kernel.set_up(device, wanted.mtu, gso_packet_bytes);
        set_up.map_err(refused(format!("set up the device {}", wanted.device)))?;
        let forwarded = forwarding::Record::begin(&folder, &wanted.device);
        let mut kept = Self {
            kernel,
            wanted,
            folder,
            device,
            assigned: Vec::new(),
            done: Vec::new(),
            forwarded,
            has_new_table: false,
            is_kept: false,
            is_up: true,
            routes,
            tables: None,
            look: None,
            looked: Instant::now(),
        };
        for step in plan.steps {
            if let Err(error) = kept.kernel.apply(&step) {
                // The refusal is more important than an error of undoing the steps.
                let _ = kept.undo();
                return Err(refused(step.to_string())(error));
            }
            kept.done.push(step);
        }
        let mut notes = plan.warnings;
        notes.extend(kept.forward());
        match firewall::set(&kept.wanted) {
            Ok(is_new) => {
                kept.has_new_table = is_new;
                kept.tables = firewall::Events::open().ok();
            }
            Err(error) => notes.push(firewall::missing(&error)),
        }
        Ok((kept, notes))
    }

    /// Turns forwarding on. Returns words for the operator.
    fn forward(&mut self) -> Vec<String> {
        self.forwarded.turn_on(&self.wanted, &mut self.kernel).into_iter().collect()
    }

    /// Gives the device these addresses, in place of those that were assigned before.
    fn assign(&mut self, addresses: &[IpAddr]) -> Result<(), HostError> {
        // They come from a peer, by way of a process that reads packets of strangers.
        let is_for_hosts =
            |address: &IpAddr| !(address.is_unspecified() || address.is_multicast() || address.is_loopback());
        if addresses.len() > ASSIGNED_MAX || !addresses.iter().all(is_for_hosts) {
            return Err(HostError::Keeper(format!(
                "a peer gives addresses that are no host's: {addresses:?}"
            )));
        }
        let bits = |address: &IpAddr| if address.is_ipv4() { 32 } else { 128 };
        let all: Vec<_> = addresses.iter().map(|address| (*address, bits(address))).collect();
        // An address of the site stays, whatever a peer gives.
        let site = |own: &Self, address: &(IpAddr, u8)| {
            own.wanted.addresses.contains(address) && !own.assigned.contains(address)
        };
        let new: Vec<_> = all.into_iter().filter(|address| !site(self, address)).collect();
        let old = mem::replace(&mut self.assigned, new.clone());
        self.wanted.addresses.retain(|address| !old.contains(address));
        self.wanted.addresses.extend(&new);
        let step = |&(address, bits): &(IpAddr, u8)| Step::AddAddress { device: self.device, address, bits };
        let gone: Vec<Step> = old.iter().filter(|address| !new.contains(address)).map(step).collect();
        let added: Vec<Step> = new.iter().filter(|address| !old.contains(address)).map(step).collect();
        // The new ones come first, so that a connection finds one address at any time.
        for step in added {
            self.kernel.apply(&step).map_err(refused(step.to_string()))?;
            self.done.push(step);
        }
        for step in gone {
            self.done.retain(|done| *done != step);
            let undone = step.undone();
            self.kernel.apply(&undone).map_err(refused(undone.to_string()))?;
        }
        Ok(())
    }

    /// Changes what is maintained: adds what is new, and takes away the routes and rules that are not wanted any more.
    fn change(&mut self, wanted: Wanted) -> Result<Vec<String>, HostError> {
        if wanted.device != self.wanted.device || wanted.mark() != self.wanted.mark() {
            return Err(HostError::Keeper("the routes of the new site file take a restart".to_owned()));
        }
        let mut wanted = wanted;
        let given = self.assigned.iter().copied().filter(|own| !wanted.addresses.contains(own));
        let given: Vec<_> = given.collect();
        wanted.addresses.extend(given);
        let state = self.kernel.state(&wanted).map_err(refused("read the kernel's routes"))?;
        let plan = plan::plan(&wanted, &state);
        if !plan.conflicts.is_empty() {
            return Err(HostError::Conflict(plan.conflicts));
        }
        // New routes come before the end of stale ones.
        let mut taken: Vec<Step> = Vec::new();
        for step in plan.steps {
            if let Err(error) = self.kernel.apply(&step) {
                for undone in taken.iter().rev().map(Step::undone) {
                    // The refusal is more important than an error of undoing the steps.
                    let _ = self.kernel.apply(&undone);
                }
                return Err(refused(step.to_string())(error));
            }
            taken.push(step);
        }
        for step in taken {
            let undone = step.undone();
            match step {
                Step::DeleteAddress { .. } | Step::DeleteRoute(_) | Step::DeleteRule(_) => {
                    self.done.retain(|done| *done != undone);
                }
                _ => self.done.push(step),
            }
        }
        let mut notes = plan.warnings;
        self.wanted = wanted;
        notes.extend(self.forward());
        if let Err(error) = firewall::set(&self.wanted) {
            notes.push(firewall::missing(&error));
        }
        Ok(notes)
    }

    /// Restores the host to its earlier state.
    fn undo(&mut self) -> Result<(), HostError> {
        let mut first = Ok(());
        self.forwarded.undo();
        for step in self.done.drain(..).rev() {
            let undone = step.undone();
            let done = self.kernel.apply(&undone).map_err(refused(undone.to_string()));
            first = first.and(done);
        }
        if self.has_new_table {
            let gone =
                firewall::take_away(self.wanted.number()).map_err(refused("take away the firewall table"));
            let gone = gone.map(drop);
            first = first.and(gone);
        }
        first
    }

    /// Removes everything that belongs to the gateway, whoever has set it.
    fn restore(&mut self) -> Result<(), HostError> {
        self.has_new_table = true;
        let first = self.undo();
        let rest = super::take_away(Some(&self.wanted.device), &self.folder).map(drop);
        first.and(rest)
    }

    /// Reads the events about changes.
    fn hear(&mut self, now: Instant, say: &impl Fn(&str)) {
        if self.routes.concern(self.device) && self.is_kept && self.look.is_none() {
            self.look = Some((now + GROUPED).max(self.looked + BETWEEN));
        }
        let number = self.wanted.number();
        if self.tables.as_ref().is_some_and(|tables| tables.is_gone(number)) && self.is_kept {
            match firewall::set(&self.wanted) {
                Ok(_) => say("the firewall table had vanished, and is set again"),
                Err(error) => say(&format!("the firewall table has vanished: {}", firewall::missing(&error))),
            }
        }
        if self.look.is_some_and(|look| look <= now) {
            (self.look, self.looked) = (None, now);
            if let Err(error) = self.set_again(say) {
                say(&format!("what has vanished of the device {} stays so: {error}", self.wanted.device));
            }
        }
    }

    /// Restores vanished routes, rules, addresses and tables.
    fn set_again(&mut self, say: &impl Fn(&str)) -> Result<(), HostError> {
        let state = self.kernel.state(&self.wanted).map_err(refused("read the kernel's routes"))?;
        if state.device != Some(self.device) {
            return Ok(());
        }
        let device = &self.wanted.device;
        if state.is_up != self.is_up {
            self.is_up = state.is_up;
            let closes = if self.wanted.fails_open { "go by other routes" } else { "are unreachable" };
            match state.is_up {
                true => say(&format!("the device {device} is up again")),
                false => say(&format!(
                    "the device {device} was set down: packets for its networks {closes} until it is up"
                )),
            }
        }
        for step in plan::plan(&self.wanted, &state).steps {
            let vanished = match &step {
                Step::AddRoute(route) => format!("the route {route}"),
                Step::AddRule(rule) => format!("the rule {rule}"),
                Step::AddAddress { address, bits, .. } if state.is_up => {
                    format!("the address {address}/{bits}")
                }
                // Steps for other things concern additions of others.
                _ => continue,
            };
            self.kernel.apply(&step).map_err(refused(step.to_string()))?;
            say(&format!("{vanished} had vanished, and is set again"));
            if !self.done.contains(&step) {
                self.done.push(step);
            }
        }
        Ok(())
    }
}

/// Maintains the host for the gateway at the other end of `stream`, until the gateway orders the end or ends. `say`
/// is called with messages for the operator.
///
/// # Errors
/// Fails if the system refuses a resource that this process itself needs.
pub fn run(stream: OwnedFd, say: impl Fn(&str)) -> io::Result<()> {
    let one = CapabilitySet::NET_ADMIN;
    // A user without the capability may have a device that was made for them; the kernel then refuses the other
    // changes.
    let kept = CapabilitySets { effective: one, permitted: one, inheritable: CapabilitySet::empty() };
    let none =
        CapabilitySets { effective: CapabilitySet::empty(), permitted: CapabilitySet::empty(), ..kept };
    set_capabilities(None, kept).or_else(|_| set_capabilities(None, none))?;
    set_no_new_privs(true)?;
    let mut stream = UnixStream::from(stream);
    let mut host: Option<Kept> = None;
    let mut watched: Option<Watched> = None;
    let mut line = Vec::new();
    loop {
        if wait(&stream, host.as_ref())? {
            let mut chunk = [0; 65_536];
            // A read error is treated as the end of the stream.
            let received = stream.read(&mut chunk).unwrap_or_default();
            line.extend(&chunk[..received]);
            if received == 0 || line.len() > LINE_BYTES_MAX {
                ended(host.as_mut(), &say);
                return Ok(());
            }
            if line.last() == Some(&b'\n') {
                let order = serde_json::from_slice(&line)?;
                line.clear();
                if obey(&stream, order, &mut host, &mut watched)? {
                    return Ok(());
                }
            }
        }
        if let Some(host) = &mut host {
            host.hear(Instant::now(), &say);
        }
    }
}

/// Handles the end of a gateway that has sent no message.
fn ended(host: Option<&mut Kept>, say: &impl Fn(&str)) {
    match host {
        Some(host) if !host.is_kept => {
            if let Err(error) = host.undo() {
                say(&format!("the gateway did not come up, and not all is as before: {error}"));
            }
        }
        Some(host) => {
            host.forwarded.undo();
            if host.wanted.fails_open {
                return;
            }
            say(&format!(
                "the gateway with device {0} ended without a word: packets for its networks are unreachable until \
             `sealane tunnel up` or `sealane tunnel down {0}`",
                host.wanted.device
            ));
        }
        None => {}
    }
}

/// Waits until there is something to do. Returns whether the gateway has sent something.
fn wait(stream: &UnixStream, host: Option<&Kept>) -> io::Result<bool> {
    let mut polled = vec![PollFd::new(stream, PollFlags::IN)];
    if let Some(host) = host {
        polled.push(PollFd::from_borrowed_fd(host.routes.as_fd(), PollFlags::IN));
        polled
            .extend(host.tables.iter().map(|tables| PollFd::from_borrowed_fd(tables.as_fd(), PollFlags::IN)));
    }
    let look = host.and_then(|host| host.look);
    let patience = look.map_or(PATIENCE, |look| look.saturating_duration_since(Instant::now()));
    sealane_lanes::wait(&mut polled, patience)?;
    Ok(!polled[0].revents().is_empty())
}

/// Executes an order of the gateway. Returns whether it was the last.
fn obey(
    stream: &UnixStream,
    order: Order,
    host: &mut Option<Kept>,
    watched: &mut Option<Watched>,
) -> io::Result<bool> {
    let is_last = matches!(order, Order::Restore);
    let mut socket = None;
    let mut bundle = None;
    let outcome = match (order, host.as_mut()) {
        (Order::Watch(files), _) if watched.is_none() => {
            *watched = Some(files);
            Ok(Vec::new())
        }
        (Order::Stamp, _) => Ok(watched.iter().map(Watched::stamp).collect()),
        (Order::Read, _) => match watched.as_mut().map(Watched::read) {
            Some(Ok(read)) => {
                bundle = Some(read);
                Ok(Vec::new())
            }
            Some(Err(message)) => Err(HostError::Keeper(message)),
            None => Err(HostError::Keeper("no files are named".to_owned())),
        },
        (Order::Change(wanted), Some(host)) => host.change(wanted),
        (Order::SetUp { wanted, folder }, None) => Kept::set_up(wanted, folder).map(|(kept, notes)| {
            *host = Some(kept);
            notes
        }),
        (Order::Keep, Some(host)) => {
            host.is_kept = true;
            Ok(Vec::new())
        }
        (Order::Socket { is_v4 }, Some(host)) => marked(is_v4, host.wanted.number())
            .map(|made| {
                socket = Some(made);
                Vec::new()
            })
            .map_err(refused("make a socket with the gateway's mark")),
        (Order::Assign(addresses), Some(host)) => host.assign(&addresses).map(|()| Vec::new()),
        (Order::Restore, Some(host)) => host.restore().map(|()| Vec::new()),
        (Order::Restore, None) => Ok(Vec::new()),
        _ => Err(HostError::Keeper("this is not the time for that order".to_owned())),
    };
    let answer = match (outcome, bundle) {
        (Err(error), _) => Answer::Refused(error.to_string()),
        (Ok(_), Some(bundle)) => Answer::Read(bundle),
        (Ok(notes), None) => Answer::Done(notes),
    };
    let mut line = serde_json::to_vec(&answer)?;
    line.push(b'\n');
    let sockets = socket.as_ref().map(|socket| [socket.as_fd()]);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if let Some(sockets) = &sockets {
        control.push(SendAncillaryMessage::ScmRights(sockets));
    }
    // A socket is sent with a short line, in one call.
    let sent = rustix::net::sendmsg(stream, &[IoSlice::new(&line)], &mut control, SendFlags::NOSIGNAL)?;
    let mut stream = stream;
    stream.write_all(&line[sent..])?;
    Ok(is_last)
}

/// Returns a non-blocking TCP socket with the gateway's mark.
fn marked(is_v4: bool, mark: u32) -> io::Result<OwnedFd> {
    let family = if is_v4 { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sealane_port::set_mark(&socket, mark)?;
    Ok(socket)
}
