//! Keeps data streams open, at the end that connects and at the end that is connected to.
//!
//! Guarantees: a stream that was cut is opened again while the others continue; attempts are bounded in time; a
//! stream that cannot be opened is abandoned and its content is sent on the others. Where no address of a far end that ssh
//! reaches answers, one stream goes inside ssh, sealed as it would be beside it, and the user is told once. A sender that connects does not
//! wait for the answer to a stream's first join if it encrypts: its records go behind the join.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs},
    ops::Range,
    os::fd::AsFd,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU16, Ordering::Relaxed},
    },
    thread::{self, Scope},
    time::{Duration, Instant},
};

use crossbeam_channel::Sender;
use rustix::event::{PollFd, PollFlags};
use sealane_peer::{AddressFamily, RemoteCommand, RemoteProcess, SshCommand};

use crate::{
    error::{Error, ErrorKind},
    growth::Growth,
    proto::{
        join::{JOINED_BYTES, Join, Joined, Prover},
        keys::TransferKeys,
    },
    session::line::Lines,
    socket::{self, Socket},
    summary::Notice,
};

/// The index of this thread's bell among the control bells.
const KEEPER: usize = 1;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The pause before a stream that was cut is opened again by a login.
const LOGIN_PAUSE: Duration = Duration::from_millis(500);
const CONNECT_TIMEOUT_MAX: Duration = Duration::from_secs(10);
/// While streams are added, streams that are cut must wait.
const ADDING_TIMEOUT_MAX: Duration = Duration::from_secs(2);
/// The number of a stream's first opening.
const FIRST: u32 = 1;
/// The longest sleep of this thread.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// The time that the addresses of a far end have to answer before the data goes inside ssh. A lost first packet is sent
/// again after a second.
const STRAIGHT_PATIENCE: Duration = Duration::from_secs(2);

/// The connecting end's way to the port that accepts its streams.
#[derive(Debug)]
pub(crate) enum Route {
    /// TCP to one of these addresses.
    Direct(Vec<SocketAddr>),
    /// Inside ssh.
    ThroughSsh(Relays),
    /// TCP to one of these addresses, and inside ssh if none of them answers.
    Either {
        addresses: Vec<SocketAddr>,
        /// Why there are no addresses.
        unresolved: Option<String>,
        relays: Relays,
        way: Way,
    },
}

/// Processes on the far host, started by ssh for each stream, that pass bytes on to the port there.
#[derive(Debug)]
pub(crate) struct Relays {
    command: Box<SshCommand>,
    port: u16,
    processes: Mutex<Vec<RemoteProcess>>,
}

/// The way that the streams of one transfer take: decided once, by the first stream that knows.
#[derive(Debug, Default)]
pub(crate) struct Way(Mutex<Choice>);

#[derive(Debug, Default)]
enum Choice {
    #[default]
    Open,
    Straight,
    /// Inside ssh, in this stream alone: each further one would be a login.
    Inside {
        stream: u16,
        notice: Option<Notice>,
    },
}

impl Way {
    fn choice(&self) -> MutexGuard<'_, Choice> {
        self.0.lock().expect("no thread panics holding the choice")
    }
}

impl Relays {
    /// Returns the way through ssh to this port.
    pub(crate) fn new(command: Box<SshCommand>, port: u16) -> Self {
        Self { command, port, processes: Mutex::default() }
    }

    fn connect(&self) -> Result<Socket, Error> {
        let process = self.command.spawn(RemoteCommand::Relay { port: self.port })?;
        let copy = process.as_fd().try_clone_to_owned();
        let socket = copy.and_then(Socket::new);
        let socket = socket.map_err(|error| Error::io("cannot use the connection to ssh", &error))?;
        self.processes.lock().expect("no thread panics holding the processes").push(process);
        Ok(socket)
    }
}

impl Route {
    /// Returns the direct route to a port on a host by name.
    pub(crate) fn direct(host: &str, port: u16, family: Option<AddressFamily>) -> Result<Self, Error> {
        Ok(Self::Direct(resolve(host, port, family)?))
    }

    /// Returns the route straight to a host, as far as it is known, with the way through ssh beside it.
    pub(crate) fn either(host: Result<String, Error>, family: Option<AddressFamily>, relays: Relays) -> Self {
        let resolved = host.and_then(|host| resolve(&host, relays.port, family));
        let (addresses, unresolved) = match resolved {
            Ok(addresses) => (addresses, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        Self::Either { addresses, unresolved, relays, way: Way::default() }
    }

    /// Connects one stream. `goes_on` returns whether anything is still to be sent.
    pub(crate) fn connect(
        &self,
        stream: u16,
        timeout: Duration,
        segment_bytes: Option<u16>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Socket, Error> {
        match self {
            Self::Direct(addresses) => {
                let patience = timeout.min(CONNECT_TIMEOUT_MAX);
                socket::connect_any(addresses, patience, segment_bytes, goes_on)
                    .map_err(|(address, error)| unreachable(address.map(|address| (address, error))))
            }
            Self::ThroughSsh(relays) => relays.connect(),
            Self::Either { addresses, unresolved, relays, way } => {
                let patience = match &*way.choice() {
                    Choice::Open => timeout.min(STRAIGHT_PATIENCE),
                    Choice::Straight => timeout.min(CONNECT_TIMEOUT_MAX),
                    Choice::Inside { stream: carrier, .. } if *carrier == stream => Duration::ZERO,
                    Choice::Inside { .. } => return Err(unreachable(None)),
                };
                if patience.is_zero() {
                    return relays.connect();
                }
                let error = match socket::connect_any(addresses, patience, segment_bytes, goes_on) {
                    Ok(socket) => {
                        let mut choice = way.choice();
                        if matches!(*choice, Choice::Open) {
                            *choice = Choice::Straight;
                        }
                        return Ok(socket);
                    }
                    Err((address, error)) => unreachable(address.map(|address| (address, error))),
                };
                // A far end with nothing to send or to receive closes its port.
                if !goes_on() {
                    return Err(error);
                }
                {
                    let mut choice = way.choice();
                    if !matches!(*choice, Choice::Open) {
                        return Err(error);
                    }
                    let reason = unresolved.clone().unwrap_or_else(|| error.to_string());
                    let notice = Some(Notice::ThroughSsh { host: relays.command.host.clone(), reason });
                    *choice = Choice::Inside { stream, notice };
                }
                relays.connect()
            }
        }
    }

    /// Returns whether the stream may be opened on this route at all.
    pub(crate) fn carries(&self, stream: u16) -> bool {
        match self {
            Self::Direct(_) | Self::ThroughSsh(_) => true,
            Self::Either { way, .. } => match &*way.choice() {
                Choice::Inside { stream: carrier, .. } => *carrier == stream,
                Choice::Open | Choice::Straight => true,
            },
        }
    }

    /// Returns whether a stream that is opened again is a login.
    fn logs_in(&self) -> bool {
        match self {
            Self::Direct(_) => false,
            Self::ThroughSsh(_) => true,
            Self::Either { way, .. } => matches!(*way.choice(), Choice::Inside { .. }),
        }
    }

    /// Returns the note for the user that the data goes inside ssh, once.
    pub(crate) fn note(&self) -> Option<Notice> {
        let Self::Either { way, .. } = self else { return None };
        match &mut *way.choice() {
            Choice::Inside { notice, .. } => notice.take(),
            Choice::Open | Choice::Straight => None,
        }
    }

    /// Adds advice for the case that no stream can be opened this way.
    pub(crate) fn explain(&self, error: Error) -> Error {
        let blocked = "The data streams go straight to the far host and seem to be blocked";
        match (error.kind, self) {
            (ErrorKind::Connect, Self::Direct(_)) => {
                Error::new(ErrorKind::Connect, format!("{error}\n{blocked}"))
            }
            (ErrorKind::Connect, Self::Either { .. }) => Error::new(
                ErrorKind::Connect,
                format!(
                    "{error}\n{blocked}, and none could be opened inside ssh either. Open a range of ports there and name it \
                     with --data-ports LOW-HIGH"
                ),
            ),
            _ => error,
        }
    }
}

fn resolve(host: &str, port: u16, family: Option<AddressFamily>) -> Result<Vec<SocketAddr>, Error> {
    let addresses = (host, port).to_socket_addrs().map_err(|error| {
        Error::new(ErrorKind::Connect, format!("cannot resolve {host} for the data streams: {error}"))
    })?;
    let fits = |found: &SocketAddr| family.is_none_or(|family| family.has(found.ip()));
    Ok(addresses.filter(fits).collect())
}

fn unreachable(last: Option<(SocketAddr, io::Error)>) -> Error {
    let reason = match last {
        Some((address, error)) if error.kind() == io::ErrorKind::TimedOut => {
            format!("{address}: it does not answer")
        }
        Some((address, error)) => format!("{address}: {error}"),
        None => "it has no address".to_owned(),
    };
    Error::new(ErrorKind::Connect, format!("cannot open a data stream to {reason}"))
}

/// The connecting end of all streams of one transfer.
#[derive(Debug)]
pub(crate) struct Connector<'a> {
    pub(crate) lines: &'a Lines,
    pub(crate) keys: &'a TransferKeys,
    pub(crate) prover: &'a Prover,
    pub(crate) transfer: [u8; 16],
    pub(crate) route: Route,
    pub(crate) timeout: Duration,
    pub(crate) notices: Sender<Notice>,
    /// The number of streams opened at first; the path decides the number of others.
    pub(crate) first: u16,
    /// The number of streams that have been opened, for the summary.
    pub(crate) opened: &'a AtomicU16,
}

impl Connector<'_> {
    /// Opens the first streams, then more for as long as they raise the rate, and reopens cut ones, until the
    /// transfer stops.
    pub(crate) fn run(&self) {
        let streams = self.first;
        let began = Instant::now();
        let failures = self.open_all(0..streams, self.timeout);
        let cost = began.elapsed();
        let mut growth = Growth::new(streams, self.lines.count(), self.lines.round_trip(), cost);
        // A far end that was informed of this closes its port, and if there was nothing to send, before any stream is
        // open.
        if self.lines.is_done() || self.lines.stop().is_set() {
            return;
        }
        // A stream that was connected and then cut is opened again like any other; a blocked stream is not needed,
        // unless all are blocked.
        let blocked = failures.len() == usize::from(streams)
            && failures.iter().all(|(_, error)| error.kind != ErrorKind::Disconnected);
        let fatal = |(_, error): &(u16, Error)| blocked || error.kind == ErrorKind::Integrity;
        if let Some((_, error)) = failures.into_iter().find(fatal) {
            self.lines.stop().fail(self.route.explain(error), self.lines.bells());
            self.lines.control().ring();
            return;
        }
        let mut is_settled = false;
        while !self.lines.stop().is_set() {
            let streams = growth.wanted();
            let is_carried = |stream: &u16| self.route.carries(*stream);
            if !is_settled && !(0..self.lines.count()).all(|stream| is_carried(&stream)) {
                // No lane waits for a stream that will not be opened, and none is added.
                let others = (0..self.lines.count()).filter(|stream| !is_carried(stream));
                others.for_each(|stream| self.lines.abandon(stream));
                self.lines.bells().ring();
                growth.refused();
                is_settled = true;
            }
            if (0..streams).all(|stream| self.lines.is_abandoned(stream)) {
                // The others will not be opened either, so no lane must wait for them.
                (streams..self.lines.count()).for_each(|stream| self.lines.abandon(stream));
                self.lines.bells().ring();
            }
            self.lines.control().announce(KEEPER);
            let is_cut = |stream: &u16| self.lines.is_cut(*stream) && is_carried(stream);
            let cut: Vec<u16> = (0..streams).filter(is_cut).collect();
            if cut.is_empty() {
                sleep(self.lines, growth.next_look().unwrap_or(LONGEST_SLEEP));
            }
            self.lines.control().awake(KEEPER);
            if cut.is_empty() && growth.next_look().is_some() && !self.lines.stop().is_set() {
                self.grow(&mut growth);
            }
            thread::scope(|scope| {
                for stream in cut {
                    beside(scope, move || self.reopen(stream));
                }
            });
        }
    }

    fn grow(&self, growth: &mut Growth) {
        let before = growth.wanted();
        let wanted = growth.look(Instant::now(), self.lines.sight());
        if wanted == before {
            return;
        }
        let failures = self.open_all(before..wanted, self.timeout.min(ADDING_TIMEOUT_MAX));
        match failures.iter().map(|(stream, _)| *stream).min() {
            None => growth.came(Instant::now()),
            // It is opened again like a stream that was cut.
            Some(_) => growth.refused(),
        }
    }

    /// Opens streams for the first time, in parallel. Returns the failures.
    fn open_all(&self, streams: Range<u16>, timeout: Duration) -> Vec<(u16, Error)> {
        let failures = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for stream in streams {
                let failures = &failures;
                let open = move || match self.open(stream, FIRST, timeout) {
                    Ok(_) => {
                        self.opened.fetch_add(1, Relaxed);
                    }
                    Err(error) => {
                        failures.lock().expect("no thread panics holding the failures").push((stream, error));
                    }
                };
                beside(scope, open);
            }
        });
        failures.into_inner().expect("no thread panics holding the failures")
    }

    fn open(&self, stream: u16, generation: u32, timeout: Duration) -> Result<u64, Error> {
        let deadline = Instant::now() + timeout;
        let taken = self.lines.prepare(stream);
        let goes_on = || !self.lines.is_done() && !self.lines.stop().is_set();
        let segment_bytes = self.lines.segment_bytes(stream);
        let socket = self.route.connect(stream, timeout, segment_bytes, &goes_on)?;
        if let Some(note) = self.route.note() {
            let _ = self.notices.send(note);
        }
        let last = self.lines.generation(stream);
        let join = Join { transfer: self.transfer, stream, generation, last, taken };
        let message = self.prover.join(&join);
        let not_taken_up = |error: io::Error| {
            let kind = match error.kind() {
                io::ErrorKind::TimedOut => ErrorKind::Connect,
                _ => ErrorKind::Disconnected,
            };
            Error::new(kind, format!("data stream {stream} was not taken up: {error}"))
        };
        socket.send_all(&message, deadline).map_err(not_taken_up)?;
        // Later openings need the answer: it says what arrived on the last one.
        if generation == FIRST && self.lines.may_go_unanswered() {
            let awaited = self.prover.awaited(message);
            self.lines.install_unanswered(self.keys, stream, generation, socket, awaited);
            return Ok(0);
        }
        let mut answer = [0; JOINED_BYTES];
        // A far end that has stopped answers nothing, and the transfer may end for that reason meanwhile.
        let is_wanted = || !self.lines.stop().is_set();
        socket.recv_exact(&mut answer, deadline, &is_wanted).map_err(not_taken_up)?;
        match self.prover.verify_joined(&message, &answer) {
            Some(Joined { accepted: true, taken }) => {
                Ok(self.lines.install(self.keys, stream, generation, socket, last, taken))
            }
            Some(Joined { accepted: false, .. }) => {
                Err(Error::new(ErrorKind::Refused, format!("data stream {stream} was refused")))
            }
            None => Err(Error::new(
                ErrorKind::Integrity,
                format!("whoever answers on the data port for stream {stream} is not the peer"),
            )),
        }
    }

    fn reopen(&self, stream: u16) {
        let give_up = Instant::now() + self.timeout;
        let mut pause = FIRST_PAUSE;
        let mut generation = self.lines.generation(stream);
        // A pause ends with the transfer.
        let pause_for = |time: Duration| {
            let until = Instant::now() + time;
            while !self.lines.stop().is_set() && Instant::now() < until {
                thread::sleep(FIRST_PAUSE.min(until.saturating_duration_since(Instant::now())));
            }
        };
        if self.route.logs_in() {
            // A far end that has finished hangs up shortly before it says so.
            pause_for(LOGIN_PAUSE);
        }
        while !self.lines.stop().is_set() {
            // The peer may have accepted an attempt without our knowledge, so its number is used up.
            generation += 1;
            let left = give_up.saturating_duration_since(Instant::now());
            match self.open(stream, generation, left) {
                Ok(bytes) => {
                    let _ = self.notices.send(Notice::StreamReopened { stream, bytes });
                    return;
                }
                Err(error) if error.kind == ErrorKind::Integrity => {
                    self.lines.stop().fail(error, self.lines.bells());
                    return;
                }
                Err(_) if left.is_zero() => {
                    self.lines.abandon(stream);
                    self.lines.bells().ring();
                    return;
                }
                Err(_) => pause_for(pause.min(left)),
            }
            pause = (pause * 2).min(Duration::from_secs(2));
        }
    }
}

/// Runs the work in a separate thread, or, if the system has none to spare, in this one.
fn beside<'scope>(scope: &'scope Scope<'scope, '_>, work: impl Fn() + Copy + Send + 'scope) {
    if thread::Builder::new().name("opener".into()).spawn_scoped(scope, work).is_err() {
        work();
    }
}

/// At the end that is connected to: accepts streams (`take_up` returns whether there were any), and abandons those
/// that stay away for too long. A stream that was never opened is missed only while there is no other.
pub(crate) fn watch(lines: &Lines, timeout: Duration, mut take_up: impl FnMut() -> bool) {
    let mut cut_since: Vec<Option<Instant>> = vec![None; usize::from(lines.count())];
    while !lines.stop().is_set() {
        lines.control().announce(KEEPER);
        if !take_up() {
            sleep(lines, LONGEST_SLEEP);
        }
        lines.control().awake(KEEPER);
        let is_connected = lines.is_connected();
        for (stream, since) in (0u16..).zip(&mut cut_since) {
            let is_spare = is_connected && lines.generation(stream) == 0;
            if is_spare || !lines.is_cut(stream) {
                *since = None;
            } else if since.get_or_insert_with(Instant::now).elapsed() > timeout {
                lines.abandon(stream);
                lines.bells().ring();
            }
        }
    }
}

fn sleep(lines: &Lines, patience: Duration) {
    let bell = lines.control().fd(KEEPER);
    // A transfer that ended rings before this thread could announce; the stop is then noticed at once.
    if !lines.stop().is_set() {
        let _ = sealane_lanes::wait(&mut [PollFd::new(&bell, PollFlags::IN)], patience);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::{Ipv4Addr, TcpListener},
        sync::Arc,
    };

    use sealane_engine::record::Secret;

    use super::*;
    use crate::{
        options::Level,
        send::scan,
        session::ends::{self, Plan},
    };

    /// Returns the error of a sending end all of whose streams were refused.
    fn refused(has_sent_all: bool) -> Option<Error> {
        let plan = Plan::bare();
        let (notices, _) = crossbeam_channel::bounded(1);
        let sending = ends::sending(&plan, Default::default(), notices.clone(), Arc::default()).unwrap();
        if has_sent_all {
            scan::finish(&sending);
        }
        let lines = Lines::Send(Arc::new(sending));
        let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        Connector {
            lines: &lines,
            keys: &TransferKeys::new(Default::default(), &Secret::new([0; 32]), b"request", b"accept"),
            prover: &Prover::new(&Secret::new([0; 32]), Level::Clear),
            transfer: [0; 16],
            route: Route::Direct(vec![closed]),
            timeout: plan.timeout,
            notices,
            first: plan.terms.streams,
            opened: &AtomicU16::new(0),
        }
        .run();
        lines.stop().reason()
    }

    /// The kernel accepts the connection of a far end that is stopped, and nobody answers.
    #[test]
    fn an_opening_that_nobody_answers_ends_with_the_transfer() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let far = listener.local_addr().unwrap();
        let hour = Duration::from_secs(3600);
        let socket = socket::connect_any(&[far], hour, None, &|| true).unwrap();
        let looks = AtomicU16::new(0);
        let goes_on = || looks.fetch_add(1, Relaxed) < 3;
        let answer = socket.recv_exact(&mut [0; 4], Instant::now() + hour, &goes_on);
        assert_eq!(answer.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
        // Nor does a connection that does not come about outlast it.
        assert!(socket::connect_any(&[far], hour, None, &|| false).is_err());
    }

    #[test]
    fn blocked_streams_fail_a_transfer_only_while_something_is_to_be_sent() {
        assert_eq!(refused(false).unwrap().kind, ErrorKind::Connect);
        assert!(refused(true).is_none());
    }
}
