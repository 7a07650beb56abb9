//! Keeps data streams open, at the end that connects and at the end that is connected to.
//!
//! Guarantees: a stream that was cut is opened again while the others continue; attempts are bounded in time; a
//! stream that cannot be opened is abandoned and its content is sent on the others. A far end that ssh reaches needs no open
//! port: the first stream goes inside ssh, sealed as it would be beside it, where little is to be sent or no address answers soon;
//! it comes out as soon as one does, and if none does, it stays, and the user is told once. A sender that connects does not
//! wait for the answer to a stream's first join if it encrypts: its records go behind the join.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs},
    ops::Range,
    os::fd::AsFd,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU16, Ordering::Relaxed},
    },
    thread::{self, Scope},
    time::{Duration, Instant},
};

use crossbeam_channel::Sender;
use rustix::event::{PollFd, PollFlags};
use sealane_peer::{AddressFamily, RemoteCommand, RemoteProcess, Sharing, SshCommand, StderrMode};

use crate::{
    error::{Error, ErrorKind},
    growth::Growth,
    proto::{
        join::{JOINED_BYTES, Join, Joined, Prover},
        keys::TransferKeys,
    },
    session::{carriage::Seat, line::Lines},
    socket::{self, Socket},
    summary::Notice,
    transfer::complaints::complain,
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

/// The time that the addresses of a far end have to answer before it is clear that the data must go inside ssh. A lost first
/// packet is sent again after a second.
const STRAIGHT_PATIENCE: Duration = Duration::from_secs(2);
/// The time after which the data begins inside ssh: more than the longest round trips.
const INSIDE_AFTER: Duration = Duration::from_millis(400);
/// The time in which it should be known whether there is much to be sent.
const KNOWN_AFTER: Duration = Duration::from_millis(150);
/// The stream that may go inside the control channel.
const INSIDE: u16 = 0;

/// The connecting end's way to the port that accepts its streams.
#[derive(Debug)]
pub(crate) enum Route {
    /// TCP to one of these addresses.
    Direct(Vec<SocketAddr>),
    /// Inside ssh.
    ThroughSsh(Inside),
    /// TCP to one of these addresses, and inside ssh if none of them answers.
    Either {
        addresses: Vec<SocketAddr>,
        /// Why there are no addresses.
        unresolved: Option<String>,
        inside: Inside,
        way: Way,
    },
}

/// The ways inside ssh.
#[derive(Debug)]
pub(crate) struct Inside {
    /// The way of the first stream inside the control channel, which needs nothing else, unless the channel's messages are
    /// for somebody else.
    pub(crate) seat: Option<Seat>,
    pub(crate) relays: Relays,
}

impl Inside {
    /// `is_sole`: each further stream would be a login.
    fn connect(&self, stream: u16, is_sole: bool) -> Result<Socket, Error> {
        match self.seat(stream) {
            Some(seat) => {
                seat.connect().map_err(|error| Error::io("cannot open a stream inside ssh", &error))
            }
            None => self.relays.connect(is_sole || stream == INSIDE),
        }
    }

    fn seat(&self, stream: u16) -> Option<&Seat> {
        self.seat.as_ref().filter(|_| stream == INSIDE)
    }
}

/// Processes on the far host, started by ssh for each stream, that pass bytes on to the port there.
#[derive(Debug)]
pub(crate) struct Relays {
    command: Box<SshCommand>,
    /// The connection that is logged in already, if there is one: a single stream shares it, others would not gain from that.
    sharing: Sharing,
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
    /// Inside ssh until an address answers.
    Begun,
    Straight {
        /// The first stream is still inside ssh.
        begun_inside: bool,
    },
    /// Inside ssh, in this stream alone: each further one would be a login.
    Inside { stream: u16, notice: Option<Notice> },
}

impl Way {
    fn choice(&self) -> MutexGuard<'_, Choice> {
        self.0.lock().expect("no thread panics holding the choice")
    }

    /// An address has answered. Returns false if the data goes inside ssh meanwhile: then nobody waits for this connection.
    fn went_straight(&self) -> bool {
        let mut choice = self.choice();
        if matches!(*choice, Choice::Open | Choice::Begun) {
            *choice = Choice::Straight { begun_inside: matches!(*choice, Choice::Begun) };
        }
        matches!(*choice, Choice::Straight { .. })
    }
}

impl Relays {
    /// Returns the way through ssh to this port.
    pub(crate) fn new(mut command: Box<SshCommand>, sharing: Sharing, port: u16) -> Self {
        command.stderr = StderrMode::Relay(Arc::new(complain));
        Self { command, sharing, port, processes: Mutex::default() }
    }

    fn note(&self, reason: String) -> Notice {
        Notice::ThroughSsh { host: self.command.host.clone(), reason }
    }

    fn connect(&self, is_shared: bool) -> Result<Socket, Error> {
        let mut command = self.command.clone();
        if is_shared {
            command.sharing = self.sharing.clone();
        }
        let process = command.spawn(RemoteCommand::Relay { port: self.port })?;
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

    /// Returns the route straight to a host, as far as it is known, with the way inside ssh beside it.
    pub(crate) fn either(host: Result<String, Error>, family: Option<AddressFamily>, inside: Inside) -> Self {
        let resolved = host.and_then(|host| resolve(&host, inside.relays.port, family));
        let (addresses, unresolved) = match resolved {
            Ok(addresses) => (addresses, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        Self::Either { addresses, unresolved, inside, way: Way::default() }
    }

    /// Connects one stream. `wish` tells what is still to be sent.
    pub(crate) fn connect(
        &self,
        stream: u16,
        timeout: Duration,
        segment_bytes: Option<u16>,
        wish: &dyn Fn() -> Wish,
    ) -> Result<Socket, Error> {
        let goes_on = || wish() != Wish::Nothing;
        let straight = |addresses: &[SocketAddr], patience, goes_on: &dyn Fn() -> bool| {
            let patience = timeout.min(patience);
            let connected = socket::connect_any(addresses, patience, segment_bytes, goes_on);
            connected.map_err(|(address, error)| {
                let is_silent = error.kind() == io::ErrorKind::TimedOut && address.is_some();
                (is_silent, unreachable(address.map(|address| (address, error))))
            })
        };
        let (addresses, unresolved, inside, way) = match self {
            Self::Direct(addresses) => {
                return straight(addresses, CONNECT_TIMEOUT_MAX, &goes_on).map_err(|(_, error)| error);
            }
            Self::ThroughSsh(inside) => return inside.connect(stream, false),
            Self::Either { addresses, unresolved, inside, way } => (addresses, unresolved, inside, way),
        };
        let has_seat = inside.seat(stream).is_some();
        let patience = match &*way.choice() {
            Choice::Open if has_seat => INSIDE_AFTER,
            Choice::Begun if has_seat => Duration::ZERO,
            Choice::Open | Choice::Begun => STRAIGHT_PATIENCE,
            Choice::Straight { .. } => CONNECT_TIMEOUT_MAX,
            Choice::Inside { stream: carrier, .. } if *carrier == stream => Duration::ZERO,
            Choice::Inside { .. } => return Err(unreachable(None)),
        };
        if patience.is_zero() {
            return inside.connect(stream, true);
        }
        // The rest, which the others send, is not worth a connection either.
        let is_small = || inside.seat.is_some() && wish() == Wish::Little;
        // Once another stream has gone straight, this one does too: its lane may hold content already.
        let is_worth = || {
            goes_on()
                && match *way.choice() {
                    Choice::Open | Choice::Begun => !is_small(),
                    Choice::Straight { .. } => true,
                    Choice::Inside { .. } => false,
                }
        };
        let (is_silent, error) = match straight(addresses, patience, &is_worth) {
            Ok(socket) if way.went_straight() => return Ok(socket),
            Ok(_) => return Err(unreachable(None)),
            Err(failed) => failed,
        };
        // If all addresses refuse at once, little may have been found so far.
        let known_by = Instant::now() + KNOWN_AFTER;
        while has_seat && wish() == Wish::Unknown && Instant::now() < known_by {
            thread::sleep(Duration::from_millis(1));
        }
        // A far end with nothing to send or to receive closes its port.
        if !goes_on() {
            return Err(error);
        }
        {
            let mut choice = way.choice();
            if !matches!(*choice, Choice::Open) || (inside.seat.is_some() && !has_seat) {
                return Err(error);
            }
            let reason = unresolved.clone().unwrap_or_else(|| error.to_string());
            *choice = match is_small() {
                true => Choice::Inside { stream, notice: None },
                false if has_seat && is_silent => Choice::Begun,
                false => Choice::Inside { stream, notice: Some(inside.relays.note(reason)) },
            };
        }
        inside.connect(stream, true)
    }

    /// After the stream has begun inside ssh: waits whether an address answers, and decides the way.
    fn settle(&self, wish: &dyn Fn() -> Wish) {
        let Self::Either { addresses, inside, way, .. } = self else { return };
        let is_open = || wish() != Wish::Nothing && matches!(*way.choice(), Choice::Begun);
        if !is_open() {
            return;
        }
        match socket::connect_any(addresses, STRAIGHT_PATIENCE, None, &is_open) {
            Ok(_) => {
                let _ = way.went_straight();
            }
            Err((address, error)) if is_open() => {
                let reason = unreachable(address.map(|address| (address, error))).to_string();
                let notice = Some(inside.relays.note(reason));
                *way.choice() = Choice::Inside { stream: INSIDE, notice };
            }
            Err(_) => {}
        }
    }

    /// Returns whether the first stream has to come out of ssh, once.
    fn comes_out(&self) -> bool {
        let Self::Either { way, .. } = self else { return false };
        match &mut *way.choice() {
            Choice::Straight { begun_inside } => std::mem::take(begun_inside),
            _ => false,
        }
    }

    /// Returns whether the stream may be opened on this route at all.
    pub(crate) fn carries(&self, stream: u16) -> bool {
        match self {
            Self::Direct(_) | Self::ThroughSsh(_) => true,
            Self::Either { way, .. } => match &*way.choice() {
                Choice::Inside { stream: carrier, .. } => *carrier == stream,
                Choice::Open | Choice::Begun | Choice::Straight { .. } => true,
            },
        }
    }

    /// Returns whether opening this stream again is a login.
    fn logs_in(&self, stream: u16) -> bool {
        match self {
            Self::Direct(_) => false,
            Self::ThroughSsh(inside) => inside.seat(stream).is_none(),
            Self::Either { inside, way, .. } => {
                matches!(*way.choice(), Choice::Inside { .. }) && inside.seat(stream).is_none()
            }
        }
    }

    /// Returns the note for the user that the data goes inside ssh, once.
    pub(crate) fn note(&self) -> Option<Notice> {
        let Self::Either { way, .. } = self else { return None };
        match &mut *way.choice() {
            Choice::Inside { notice, .. } => notice.take(),
            Choice::Open | Choice::Begun | Choice::Straight { .. } => None,
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

/// The content still to be sent, as far as it matters to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Nothing,
    /// Entries are still being found.
    Unknown,
    /// So little that no connection is worth its cost.
    Little,
    Much,
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
    /// Whether little content may go in one stream inside ssh.
    pub(crate) may_be_little: bool,
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
        if self.route.comes_out() {
            // It comes out of ssh like a stream that was cut.
            self.lines.lost(INSIDE, self.lines.generation(INSIDE), 0);
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

    fn wish(&self) -> Wish {
        if self.lines.is_done() || self.lines.stop().is_set() {
            return Wish::Nothing;
        }
        match self.lines.is_small() {
            _ if !self.may_be_little => Wish::Much,
            None => Wish::Unknown,
            Some(true) => Wish::Little,
            Some(false) => Wish::Much,
        }
    }

    /// Tells the user that the data goes inside ssh, if it does.
    fn tell(&self) {
        if let Some(note) = self.route.note() {
            let _ = self.notices.send(note);
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
                        if stream == INSIDE {
                            self.route.settle(&|| self.wish());
                            self.tell();
                        }
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
        let segment_bytes = self.lines.segment_bytes(stream);
        let socket = self.route.connect(stream, timeout, segment_bytes, &|| self.wish())?;
        // A stream inside ssh needs the control thread.
        self.lines.control().ring();
        self.tell();
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

    /// Opens a stream again that was cut, or for the first time one that failed to open.
    fn reopen(&self, stream: u16) {
        let give_up = Instant::now() + self.timeout;
        let mut pause = FIRST_PAUSE;
        let mut generation = self.lines.generation(stream);
        // One that was not worth a connection, before another one went straight, has not been open yet, and nothing is lost.
        let was_open = generation >= FIRST;
        // A pause ends with the transfer.
        let pause_for = |time: Duration| {
            let until = Instant::now() + time;
            while !self.lines.stop().is_set() && Instant::now() < until {
                thread::sleep(FIRST_PAUSE.min(until.saturating_duration_since(Instant::now())));
            }
        };
        if self.route.logs_in(stream) {
            // A far end that has finished hangs up shortly before it says so.
            pause_for(LOGIN_PAUSE);
        }
        while !self.lines.stop().is_set() {
            // The peer may have accepted an attempt without our knowledge, so its number is used up.
            generation += 1;
            let left = give_up.saturating_duration_since(Instant::now());
            match self.open(stream, generation, left) {
                Ok(bytes) if was_open => {
                    let _ = self.notices.send(Notice::StreamReopened { stream, bytes });
                    return;
                }
                Ok(_) => {
                    self.opened.fetch_add(1, Relaxed);
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
    use std::net::{Ipv4Addr, TcpListener};

    use sealane_engine::record::Secret;

    use super::*;
    use crate::{
        options::Level,
        send::scan,
        transfer::ends::{self, Plan},
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
            timeout: plan.wishes.timeout,
            notices,
            first: plan.terms.streams,
            may_be_little: false,
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
