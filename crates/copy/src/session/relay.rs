//! A transfer between two far ends, through this host: both are servers, and this end is the client of each.
//!
//! Guarantees: messages between the ends are passed on unchanged after they have been checked; data is passed on
//! sealed, and never opened here; both ends have accepted the same level, suite and streams; whichever end is lost or
//! gives up, the other is informed.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::event::PollFlags;
use sealane_engine::record::Secret;
use sealane_peer::{Channel, StderrMode};

use crate::{
    error::{Error, ErrorKind},
    options::{MeasuredEnd, Options, Ownership, Preserve, Sink, Wishes},
    proto::{
        join::{JOINED_BYTES, Join, Joined, Prover},
        keys::TransferKeys,
        message::{Accept, Complete, Finished, Hello, Message, Request, Role},
    },
    send::{line::SEGMENT_BYTES, removal::Removed},
    session::{
        agree, messages,
        open::{Route, Wish},
        reach::{LINGER, reach},
    },
    shared::NO_THREAD,
    socket::{Socket, Wire},
    summary::{Notice, Observer, Summary},
    transfer::{
        Transfer,
        complaints::complain,
        far_place::FarPlace,
        outcome::Outcome,
        roles::{list_messages, usage},
        terms::{Terms, processors},
    },
};

/// The number of bytes passed on at once.
const BUFFER_BYTES: usize = 256 << 10;
/// The time that a direction waits before it checks whether the transfer continues.
const PULSE: Duration = Duration::from_millis(500);
/// The number of frames of one end that are handled before the other end has its turn.
const FRAMES_A_TURN: usize = 64;
/// The time to wait for messages when neither end has any.
const LULL: Duration = Duration::from_millis(5);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// The two ends of one stream.
type Pair = (Arc<Socket>, Arc<Socket>);

/// One data stream.
#[derive(Debug, Default)]
struct Line {
    /// The number of the current or last opening.
    generation: AtomicU32,
    /// The number of times that smaller segments are to be tried.
    narrowed: AtomicU8,
    open: Mutex<Option<Pair>>,
}

impl Line {
    fn hang_up(&self, generation: u32) {
        if self.generation.load(SeqCst) != generation {
            return;
        }
        if let Some((one, other)) = &*self.open.lock().expect("no thread panics holding a stream") {
            one.shutdown();
            other.shutdown();
        }
    }
}

/// All streams of one transfer.
struct Lines<'a> {
    lines: Vec<Line>,
    from: Route,
    to: Route,
    prover: Prover,
    transfer: [u8; 16],
    timeout: Duration,
    is_over: AtomicBool,
    /// The number of abandoned streams, and the reason of the last.
    lost: AtomicUsize,
    reason: Mutex<Option<Error>>,
    tell: &'a (dyn Fn(Notice) + Sync),
}

/// Copies from one far end to another.
pub(crate) fn copy(transfer: &Transfer<'_>, observer: &mut dyn Observer) -> Result<Summary, Error> {
    let Transfer { sources, target, options, .. } = *transfer;
    let from = FarPlace::of(&sources[0]);
    if sources.iter().any(|source| FarPlace::of(source) != from) {
        return Err(usage("all sources must be on the same host"));
    }
    let to = FarPlace::of(target);
    make_sense(&from, &to, options)?;
    let reach = |place: &FarPlace| {
        if let FarPlace::Ssh { user, host, port } = place {
            let patience = Transfer { far: place, ..*transfer }.patience();
            options.remote.log_in(user.clone(), host.clone(), *port, patience)?;
        }
        // Nothing that a far shell writes controls the terminal.
        reach(place, options, StderrMode::Relay(Arc::new(complain)))
    };
    let mut sender = reach(&from).map_err(|error| naming(error, &from))?;
    let mut receiver = match reach(&to) {
        Ok(receiver) => receiver,
        Err(error) => return Err(naming(give_up(error, [sender]), &to)),
    };
    let relay = Relay { to: Transfer { far: &to, role: Role::Push, ..*transfer }, from: &from };
    match relay.run(&mut sender, &mut receiver, observer) {
        Ok(summary) => {
            for channel in [sender, receiver] {
                let _ = channel.close(Instant::now() + LINGER);
            }
            Ok(summary)
        }
        Err(error) => Err(give_up(error, [sender, receiver])),
    }
}

fn make_sense(from: &FarPlace, to: &FarPlace, options: &Options) -> Result<(), Error> {
    let is_ssh = |place: &FarPlace| matches!(place, FarPlace::Ssh { .. });
    if !is_ssh(from) || !is_ssh(to) {
        return Err(usage(
            "between two remote places both must be reached by ssh; with a daemon, run sealane on the other host",
        ));
    }
    if options.wishes.digest
        || options.wishes.sink == Sink::Null
        || options.wishes.measured_end != MeasuredEnd::Both
    {
        return Err(usage(
            "--digest and --sink need an end on this host; run sealane on one of the two hosts",
        ));
    }
    Ok(())
}

fn naming(error: Error, place: &FarPlace) -> Error {
    match place {
        FarPlace::Ssh { host, .. } => error.naming(host),
        _ => error,
    }
}

/// Sends the ends the reason.
fn give_up<const N: usize>(error: Error, channels: [Channel; N]) -> Error {
    for mut channel in channels {
        messages::abort(&mut channel, &error);
        let _ = channel.close(Instant::now() + LINGER);
    }
    error
}

struct Relay<'a> {
    /// The transfer as requested from the receiving end.
    to: Transfer<'a>,
    from: &'a FarPlace,
}

impl Relay<'_> {
    fn run(
        &self,
        sender: &mut Channel,
        receiver: &mut Channel,
        observer: &mut dyn Observer,
    ) -> Result<Summary, Error> {
        let options = self.to.options;
        let from = Transfer { far: self.from, role: Role::Pull, ..self.to };
        let (from_host, to_host) = (from.resolve_in_background()?, self.to.resolve_in_background()?);
        let Agreed { terms, owner, sent, received, transfer, secret } =
            self.agree(&from, sender, receiver, observer)?;
        observer.notice(Notice::Agreed(terms.agreement()));
        let keys = TransferKeys::relayed(options.implementations, &secret, &transfer);
        let (notices, told) = crossbeam_channel::unbounded();
        let tell = move |notice| {
            // The receiver is gone once the transfer is over.
            let _ = notices.send(notice);
        };
        let lines = Lines {
            lines: (0..terms.streams).map(|_| Line::default()).collect(),
            from: from.route(sender, sent.data_port, from_host, None)?,
            to: self.to.route(receiver, received.data_port, to_host, None)?,
            prover: Prover::new(&keys.join(), terms.level),
            transfer,
            timeout: options.wishes.timeout,
            is_over: AtomicBool::new(false),
            lost: AtomicUsize::new(0),
            reason: Mutex::default(),
            tell: &tell,
        };
        let outcome = thread::scope(|scope| {
            // A list needs none.
            let streams = if options.wishes.dry_run { 0 } else { terms.streams };
            for stream in 0..streams {
                let lines = &lines;
                let started = thread::Builder::new()
                    .name("stream".into())
                    .spawn_scoped(scope, move || lines.keep(stream));
                if let Err(error) = started {
                    lines.end();
                    return Err(Error::io(NO_THREAD, &error));
                }
            }
            let mut talk =
                Talk { relay: self, lines: &lines, observer, finished: None, complete: None, removed: None };
            let outcome = talk.run(sender, receiver, || told.try_iter().collect());
            lines.end();
            outcome
        })?;
        let far_cpu_us = outcome.complete.cpu_us.saturating_add(outcome.finished.cpu_us);
        Ok(self.to.summary(self.to.report(&terms, owner, outcome, far_cpu_us)))
    }

    /// Greets both ends, and asks the receiver first: the sender is asked for what the receiver takes.
    fn agree(
        &self,
        from: &Transfer<'_>,
        sender: &mut Channel,
        receiver: &mut Channel,
        observer: &mut dyn Observer,
    ) -> Result<Agreed, Error> {
        let options = self.to.options;
        let suite = agree::suite(options)?;
        let sends = greet(sender, from, processors())?;
        // The receiver provides buffers for batches that lanes of the other end have in flight.
        let receives = greet(receiver, &self.to, sends.processors)?;
        let terms = self.to.terms(suite, sends.processors.min(receives.processors));
        let terms = Terms { streams_max: terms.streams, ..terms };
        let request = Request {
            globs: self.to.has_globs(),
            into_directory: self.to.takes_several() || self.to.has_globs(),
            relayed: true,
            ..self.to.request(&terms, None, true)?
        };
        let (preserve, transfer, secret) =
            (request.wishes.preserve.clone(), request.transfer, request.secret.clone());
        let (compression, delta) = (request.wishes.compression, request.wishes.delta);
        let received = self.to.ask(receiver, request)?;
        let owner = options.wishes.preserve.owner.where_it(received.may_own);
        if owner != options.wishes.preserve.owner {
            observer.notice(Notice::OwnersNotKept);
        }
        let privileges = preserve.privileges && received.may_set_privileges;
        if privileges != options.wishes.preserve.privileges {
            observer.notice(Notice::PrivilegesNotKept);
        }
        let asked = from.request(&terms, None, true)?;
        let sent = Request {
            wishes: Wishes {
                preserve: Preserve { owner, privileges, ..preserve },
                // The sender makes what the receiver takes.
                compression: received.compression,
                delta: received.delta,
                ..asked.wishes
            },
            transfer,
            secret: secret.clone(),
            name: received.name.clone(),
            numbers: received.numbers.clone(),
            relayed: true,
            ..asked
        };
        let sent = from.ask(sender, sent)?;
        self.to.hold_to(&terms, (compression, delta), &received)?;
        self.to.hold_to(&terms, (received.compression, received.delta), &sent)?;
        if sent.compression != compression {
            observer.notice(Notice::NotCompressed);
        }
        let secret = secret.as_ref().ok_or_else(|| Error::protocol("a request without a secret"))?;
        let secret = Secret::new(*secret.expose());
        Ok(Agreed { terms, owner, sent, received, transfer, secret })
    }
}

/// The terms that both ends have accepted.
struct Agreed {
    terms: Terms,
    /// The owners that the receiver can keep.
    owner: Ownership,
    sent: Accept,
    received: Accept,
    transfer: [u8; 16],
    secret: Secret,
}

impl Transfer<'_> {
    /// Sends a request, and waits for the answer.
    fn ask(&self, channel: &mut Channel, request: Request) -> Result<Accept, Error> {
        messages::send(channel, &Message::Request(Box::new(request)))?;
        for paths in list_messages(self.options.listed.as_deref()) {
            messages::send(channel, &Message::Listed(paths.to_vec()))?;
        }
        Ok(self.answer(channel, |abort| naming(abort.into(), self.far))?.0)
    }
}

/// Greets one end on behalf of the other, which has this many processors.
fn greet(channel: &mut Channel, transfer: &Transfer<'_>, processors: u16) -> Result<Hello, Error> {
    let ours = match agree::hello() {
        Message::Hello(hello) => Message::Hello(Hello { processors, ..hello }),
        other => other,
    };
    messages::send(channel, &ours)?;
    let greeting = messages::receive(channel, Instant::now() + transfer.patience());
    greeting.and_then(|(message, _)| agree::greet(message)).map_err(|error| naming(error, transfer.far))
}

/// The exchange of messages between the ends.
struct Talk<'a, 'b> {
    relay: &'a Relay<'a>,
    lines: &'a Lines<'a>,
    observer: &'b mut dyn Observer,
    finished: Option<Finished>,
    complete: Option<Complete>,
    removed: Option<Removed>,
}

impl Talk<'_, '_> {
    fn run(
        &mut self,
        sender: &mut Channel,
        receiver: &mut Channel,
        mut notices: impl FnMut() -> Vec<Notice>,
    ) -> Result<Outcome, Error> {
        let options = self.relay.to.options;
        let mut heard = Instant::now();
        let mut blocked_since = None;
        loop {
            if self.relay.to.progress.cancel.load(Relaxed) {
                return Err(Error::new(ErrorKind::Cancelled, "interrupted"));
            }
            notices().into_iter().for_each(|notice| self.observer.notice(notice));
            let mut some = false;
            for _ in 0..FRAMES_A_TURN {
                let Some(frame) = self.heard(sender, self.relay.from)? else { break };
                (some, heard) = (true, Instant::now());
                if self.hear_sender(&frame)? && self.complete.is_none() {
                    let passed = receiver.send(&frame, Instant::now() + options.wishes.timeout);
                    // A receiver may have said its last and be gone, which is noticed when it is heard.
                    if self.finished.is_none() {
                        passed?;
                    }
                }
            }
            let to = self.relay.to.far;
            for _ in 0..FRAMES_A_TURN {
                if self.complete.is_some() {
                    break;
                }
                let Some(frame) = self.heard(receiver, to)? else { break };
                (some, heard) = (true, Instant::now());
                if self.hear_receiver(&frame)? {
                    sender.send(&frame, Instant::now() + options.wishes.timeout)?;
                }
                if self.complete.is_some() {
                    // This was its last message.
                    break;
                }
            }
            if let Some(outcome) = self.outcome() {
                return Ok(outcome);
            }
            if some {
                continue;
            }
            if heard.elapsed() > options.wishes.timeout {
                return Err(Error::new(
                    ErrorKind::TimedOut,
                    "both far ends are silent; is the network down?",
                ));
            }
            // Ends that have finished close their ports before they report it.
            if self.finished.is_none() && self.lines.lost.load(SeqCst) == self.lines.lines.len() {
                let since: &mut Instant = blocked_since.get_or_insert_with(Instant::now);
                if since.elapsed() > LINGER {
                    let reason =
                        self.lines.reason.lock().expect("no thread panics holding the reason").take();
                    return Err(reason.unwrap_or_else(|| Error::protocol("no data stream is open")));
                }
            }
            // The next message is handled after a short delay.
            thread::sleep(LULL);
        }
    }

    /// Returns the next frame of an end, if there is one. A continuous flow of messages does not prevent the user
    /// from stopping the transfer.
    fn heard(&self, channel: &mut Channel, place: &FarPlace) -> Result<Option<Vec<u8>>, Error> {
        if self.relay.to.progress.cancel.load(Relaxed) {
            return Err(Error::new(ErrorKind::Cancelled, "interrupted"));
        }
        channel.recv(Instant::now()).map_err(|error| naming(Error::from(error), place))
    }

    /// Returns the outcome once both ends have said their last.
    fn outcome(&self) -> Option<Outcome> {
        let (finished, complete) = (self.finished.clone()?, self.complete.clone()?);
        let options = self.relay.to.options;
        let removed = match options.wishes.upkeep.remove_sources && !options.wishes.dry_run {
            true => self.removed?,
            false => Removed::default(),
        };
        Some(Outcome { finished, complete, removed })
    }

    fn hang_up(&self, stream: u16, generation: u32, narrowed: u8) -> Result<(), Error> {
        let line = self.lines.lines.get(usize::from(stream));
        let line = line.ok_or_else(|| Error::protocol("a stream was lost that there is not"))?;
        line.narrowed.fetch_max(narrowed, SeqCst);
        line.hang_up(generation);
        Ok(())
    }

    fn understood(frame: &[u8]) -> Result<Message, Error> {
        Message::decode(frame).map_err(|error| Error::protocol(error.to_string()))
    }

    /// Returns whether the frame is passed on to the receiver.
    fn hear_sender(&mut self, frame: &[u8]) -> Result<bool, Error> {
        let progress = self.relay.to.progress;
        match Self::understood(frame)? {
            Message::Abort(abort) => return Err(naming(abort.into(), self.relay.from)),
            Message::Found { bytes, files, complete } => {
                progress.bytes_found.store(bytes, Relaxed);
                progress.files_found.store(files, Relaxed);
                progress.files_measured.store(files, Relaxed);
                progress.scan_complete.store(complete, Relaxed);
            }
            Message::Known(_) | Message::Differ(_) | Message::Gone(_) | Message::DifferEnd => {}
            Message::Version { .. } | Message::Sign(_) => {}
            Message::Finished(finished) if self.finished.is_none() => self.finished = Some(finished),
            Message::Removed { removed, unremoved } if self.complete.is_some() => {
                self.removed = Some(Removed { removed, unremoved });
                return Ok(false);
            }
            Message::EntryFailed { path, reason } => {
                let reason = self.relay.from.says(reason);
                self.observer.notice(Notice::EntryFailed { path, reason });
                return Ok(false);
            }
            Message::WouldSend(_) => {}
            Message::StreamLost { stream, generation, narrowed } => {
                self.hang_up(stream, generation, narrowed)?;
                return Ok(false);
            }
            _ => {
                return Err(naming(
                    Error::protocol("an unexpected message from the sender"),
                    self.relay.from,
                ));
            }
        }
        Ok(true)
    }

    /// Returns whether the frame is passed on to the sender.
    fn hear_receiver(&mut self, frame: &[u8]) -> Result<bool, Error> {
        let progress = self.relay.to.progress;
        match Self::understood(frame)? {
            Message::Abort(abort) => return Err(naming(abort.into(), self.relay.to.far)),
            Message::Have(_) | Message::HaveEnd | Message::Folders(_) | Message::FoldersEnd => {}
            Message::Lists(_) => {}
            Message::VersionSize { .. } | Message::Signature { .. } | Message::Settled { .. } => {}
            Message::Taken { bytes, files } => {
                progress.bytes_moved.store(bytes, Relaxed);
                progress.files_done.store(files, Relaxed);
            }
            Message::Complete(complete) if self.finished.is_some() => self.complete = Some(complete),
            Message::EntryFailed { path, reason } => {
                let reason = self.relay.to.far.says(reason);
                self.observer.notice(Notice::EntryFailed { path, reason });
                return Ok(false);
            }
            Message::Changed(change) => {
                self.observer.notice(Notice::Changed(change));
                return Ok(false);
            }
            Message::WouldChange { change, bytes } => {
                self.observer.notice(Notice::WouldSend { change, bytes });
                return Ok(false);
            }
            Message::Deleted { path } => {
                self.observer.notice(Notice::Deleted { path });
                return Ok(false);
            }
            Message::Left { path } => {
                self.observer.notice(Notice::Left { path });
                return Ok(false);
            }
            Message::StreamLost { stream, generation, narrowed } => {
                self.hang_up(stream, generation, narrowed)?;
                return Ok(false);
            }
            _ => {
                return Err(naming(
                    Error::protocol("an unexpected message from the receiver"),
                    self.relay.to.far,
                ));
            }
        }
        Ok(true)
    }
}

impl Lines<'_> {
    /// Ends every stream, because the transfer is over.
    fn end(&self) {
        self.is_over.store(true, SeqCst);
        for line in &self.lines {
            line.hang_up(line.generation.load(SeqCst));
        }
    }

    /// Opens a stream, passes its bytes on, and reopens it when it is cut.
    fn keep(&self, stream: u16) {
        let line = &self.lines[usize::from(stream)];
        let (mut generation, mut last) = (0, 0);
        let (mut pause, mut give_up) = (FIRST_PAUSE, Instant::now() + self.timeout);
        while !self.is_over.load(SeqCst) {
            // An end may have accepted an attempt without our knowledge, so its number is used up.
            generation += 1;
            match self.open(line, stream, generation, last) {
                Ok(pair) => {
                    if last > 0 {
                        (self.tell)(Notice::StreamReopened { stream, bytes: 0 });
                    }
                    last = generation;
                    line.generation.store(generation, SeqCst);
                    *line.open.lock().expect("no thread panics holding a stream") = Some(pair.clone());
                    // The thread that ended the transfer meanwhile has not seen this pair.
                    if self.is_over.load(SeqCst) {
                        line.hang_up(generation);
                    }
                    self.pass_on(&pair);
                    *line.open.lock().expect("no thread panics holding a stream") = None;
                    (pause, give_up) = (FIRST_PAUSE, Instant::now() + self.timeout);
                }
                // A port that was never reached is blocked, and stays so.
                Err(error)
                    if Instant::now() >= give_up
                        || error.kind == ErrorKind::Integrity
                        || (last == 0 && error.kind == ErrorKind::Connect) =>
                {
                    *self.reason.lock().expect("no thread panics holding the reason") = Some(error);
                    self.lost.fetch_add(1, SeqCst);
                    return;
                }
                Err(_) => {
                    thread::sleep(pause);
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }

    /// The receiver reports its records of the last opening, which are passed to the sender.
    fn open(&self, line: &Line, stream: u16, generation: u32, last: u32) -> Result<Pair, Error> {
        let narrowed = usize::from(line.narrowed.load(SeqCst));
        let segment_bytes =
            narrowed.checked_sub(1).map(|step| SEGMENT_BYTES[step.min(SEGMENT_BYTES.len() - 1)]);
        let connect = |route: &Route, taken: u64| {
            let deadline = Instant::now() + self.timeout;
            let goes_on = || !self.is_over.load(SeqCst);
            let wish = || if goes_on() { Wish::Much } else { Wish::Nothing };
            let socket = route.connect(stream, self.timeout, segment_bytes, &wish);
            let socket = socket.map_err(|error| route.explain(error))?;
            route.note().into_iter().for_each(self.tell);
            let message =
                self.prover.join(&Join { transfer: self.transfer, stream, generation, last, taken });
            let mut answer = [0; JOINED_BYTES];
            let exchanged = socket
                .send_all(&message, deadline)
                .and_then(|()| socket.recv_exact(&mut answer, deadline, &goes_on));
            exchanged.map_err(|error| {
                let message = format!("data stream {stream} was not taken up: {error}");
                Error::new(ErrorKind::Disconnected, message)
            })?;
            match self.prover.verify_joined(&message, &answer) {
                Some(Joined { accepted: true, taken }) => Ok((Arc::new(socket), taken)),
                Some(Joined { accepted: false, .. }) => {
                    Err(Error::new(ErrorKind::Refused, format!("data stream {stream} was refused")))
                }
                None => {
                    let message =
                        format!("whoever answers on the data port for stream {stream} is not the peer");
                    Err(Error::new(ErrorKind::Integrity, message))
                }
            }
        };
        let (receiver, taken) = connect(&self.to, 0)?;
        let (sender, _) = connect(&self.from, taken)?;
        Ok((sender, receiver))
    }

    /// Passes bytes on in both directions, until one of them ends.
    fn pass_on(&self, (one, other): &Pair) {
        thread::scope(|scope| {
            let back = thread::Builder::new().name("back".into()).spawn_scoped(scope, || {
                self.pump(other, one);
            });
            match back {
                Ok(_) => self.pump(one, other),
                // Without the other direction nothing would ever be acknowledged.
                Err(_) => one.shutdown(),
            }
            other.shutdown();
        });
    }

    fn pump(&self, from: &Socket, to: &Socket) {
        let mut buffer = vec![0; BUFFER_BYTES];
        let passed = |buffer: &mut [u8]| -> std::io::Result<bool> {
            let Some(length) = from.try_recv(buffer)? else {
                from.ready(PollFlags::IN, PULSE)?;
                return Ok(true);
            };
            let mut rest = &buffer[..length];
            while !rest.is_empty() && !self.is_over.load(SeqCst) {
                match to.try_send(rest)? {
                    Some(sent) => rest = &rest[sent..],
                    None => to.ready(PollFlags::OUT, PULSE)?,
                }
            }
            Ok(length > 0)
        };
        let mut goes_on = true;
        while goes_on && !self.is_over.load(SeqCst) {
            goes_on = passed(&mut buffer).unwrap_or(false);
        }
        from.shutdown();
        to.shutdown();
    }
}
