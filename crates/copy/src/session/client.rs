//! The client's side of a transfer whose far end is a sealane.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crossbeam_channel::{Sender, bounded};
use sealane_engine::Suite;
use sealane_lanes::{CpuClock, Placement};
use sealane_peer::{Channel, ChannelError, Sharing, StderrMode, ssh_resolved_host};
use zeroize::Zeroizing;

use crate::{
    error::{Error, ErrorKind},
    far_end::{FarEnd, Unbegun},
    names,
    options::{Compression, Delta, FarEndChoice, MeasuredEnd, Ownership, Preserve, Sink, Wishes},
    proto::{
        join::Prover,
        keys::TransferKeys,
        message::{
            Abort, Accept, DataPath, Hello, LANES_MAX, MasterSecret, Message, Numbers, Request, Role,
            STREAMS_MAX,
        },
    },
    receive::permit::{ITSELF, last_component},
    session::{
        agree,
        carriage::{Carriage, Part, Seat},
        control::{Control, Notices},
        line::Lines,
        messages,
        open::{Connector, Inside, Relays, Route},
        reach::{Far, LINGER, far, reach},
        sending::SendingSide,
    },
    shared::NO_THREAD,
    summary::{Notice, Observer, Summary},
    transfer::{
        NOTICES_MAX, Transfer,
        complaints::{Complaints, complain},
        ends::{Plan, open_files_max},
        far_place::{FarPlace, far_path},
        filters::walk_options,
        outcome::{Outcome, Report},
        place::ResolvedTarget,
        random,
        roles::{is_standard_stream, list_messages},
        terms::{STREAMS_DEFAULT_MAX, Terms, processors},
    },
};

/// The maximum length of the sources' names in one request in bytes: a frame has room for more.
const NAMES_BYTES_MAX: usize = 512 << 10;

/// A request, and its encoding as it crossed the channel.
struct OwnRequest {
    request: Request,
    frame: Zeroizing<Vec<u8>>,
}

/// A sealane at the far end: a daemon, one that ssh starts there, or a child of this process for a copy within this host.
pub(crate) struct Sealane<'a> {
    transfer: &'a Transfer<'a>,
    channel: Channel,
    introduced: Introduced,
}

impl<'a> FarEnd<'a> for Sealane<'a> {
    fn begin(transfer: &'a Transfer<'a>) -> Result<Self, Unbegun> {
        let complaints = Arc::new(Complaints::default());
        let (stderr, is_logged_in) = transfer.log_in(&complaints)?;
        let mut channel = reach(transfer.far, transfer.options, stderr)?;
        match transfer.introduce(&mut channel, &complaints, is_logged_in) {
            Ok(introduced) => Ok(Self { transfer, channel, introduced }),
            Err(Unbegun::Absent(error)) if transfer.options.remote.far_end == FarEndChoice::Auto => {
                Err(Unbegun::Absent(error))
            }
            Err(error) => {
                complaints.tell();
                Err(give_up(transfer.far, channel, error.into()).into())
            }
        }
    }

    fn run(&mut self, observer: &mut dyn Observer) -> Result<Report, Error> {
        let transfer = self.transfer;
        let channel = &mut self.channel;
        let Introduced { asked, terms, own_place, route_host } = &mut self.introduced;
        let options = transfer.options;
        let clock = CpuClock::default();
        let (accept, accept_frame) = transfer.answer(channel, Error::from)?;
        let OwnRequest { request, frame } = &*asked;
        let terms = transfer.hold_to(terms, (request.wishes.compression, request.wishes.delta), &accept)?;
        let keys = transfer.keys(channel, request, frame, &accept_frame)?;
        let preserve = transfer.preserved(request, &accept);
        transfer.tell_agreement(terms.agreement(), &preserve, observer);
        if terms.compression != request.wishes.compression {
            observer.notice(Notice::NotCompressed);
        }
        let seat = matches!(transfer.far, FarPlace::Ssh { .. }).then(Seat::default);
        let route = transfer.route(channel, accept.data_port, route_host.take(), seat.clone())?;
        let (notices, pending) = bounded(NOTICES_MAX);
        let plan = transfer.plan(&terms, preserve, request, &accept, &keys)?;
        let join_key = keys.join();
        let prover = Prover::new(&join_key, terms.level);
        let opened = AtomicU16::new(0);
        let has_input = transfer.sources.iter().any(is_standard_stream);
        let connector_notices = notices.clone();
        let keep = |lines: &Lines| {
            // A list needs no stream.
            if options.wishes.dry_run {
                return;
            }
            Connector {
                lines,
                keys: &keys,
                prover: &prover,
                transfer: request.transfer,
                route,
                timeout: options.wishes.timeout,
                notices: connector_notices,
                first: terms.streams,
                may_be_little: options.streams.is_none() && !has_input,
                opened: &opened,
            }
            .run();
        };
        let mut control = Control {
            channel,
            notices: Notices::User(observer),
            pending,
            progress: transfer.progress.clone(),
            timeout: options.wishes.timeout,
            clock,
            told: Vec::new(),
            far: transfer.far.name(),
            hears_changes: transfer.role == Role::Push
                && (options.wishes.upkeep.delete.is_some()
                    || options.wishes.upkeep.itemise
                    || options.wishes.dry_run),
            removes_sources: plan.removes_sources(),
            ends_first: false,
            prune: None,
            carriage: Carriage::new(seat.map_or(Part::None, Part::Opens)),
        };
        let paths: Vec<_> = transfer.sources.iter().map(far_path).collect();
        let (outcome, far_cpu_us) = match transfer.role {
            Role::Push => {
                let side = transfer.sending_side(&plan, &paths, accept.name.as_deref(), notices)?;
                let outcome = side.run(&mut control, keep)?;
                let far_cpu_us = outcome.complete.cpu_us;
                (outcome, far_cpu_us)
            }
            Role::Pull => {
                let side = transfer.receiving_side(&plan, own_place.take(), notices)?;
                let outcome = side.run(&mut control, keep)?;
                let far_cpu_us = outcome.finished.cpu_us;
                (outcome, far_cpu_us)
            }
        };
        let terms = Terms { streams: opened.load(Relaxed).max(1), ..terms };
        Ok(transfer.report(&terms, plan.wishes.preserve.owner, outcome, far_cpu_us))
    }

    fn end(self, outcome: Result<Summary, Error>) -> Result<Summary, Error> {
        match outcome {
            Ok(summary) => {
                // The transfer is complete; a lingering far end is not awaited.
                let _ = self.channel.close(Instant::now() + Duration::from_secs(2));
                Ok(summary)
            }
            Err(error) => Err(give_up(self.transfer.far, self.channel, error)),
        }
    }
}

/// Tells the far end why the copy ends, and returns the error as the user is to read it.
fn give_up(far: &FarPlace, mut channel: Channel, error: Error) -> Error {
    messages::abort(&mut channel, &error);
    // Unread messages of the far end would reset the connection, and it might never receive the reason.
    if !matches!(error.kind, ErrorKind::TimedOut | ErrorKind::Disconnected) {
        let _ = channel.close(Instant::now() + LINGER);
    }
    if *far == FarPlace::Here { error.of_this_host() } else { error }
}

/// A transfer that the far end has heard of and greeted.
struct Introduced {
    asked: OwnRequest,
    /// The terms as far as they follow from the greeting.
    terms: Terms,
    /// The place where this end writes, if it receives files.
    own_place: Option<ResolvedTarget>,
    /// Finds out the address of the far host.
    route_host: Option<JoinHandle<Result<String, Error>>>,
}

impl Transfer<'_> {
    /// Logs in where that is needed. Returns where the far end's standard error goes, and whether this host is logged in.
    fn log_in(&self, complaints: &Arc<Complaints>) -> Result<(StderrMode, bool), Error> {
        let FarPlace::Ssh { user, host, port } = self.far else { return Ok((StderrMode::Inherit, false)) };
        let remote = &self.options.remote;
        let login = remote.log_in(user.clone(), host.clone(), *port, self.patience())?;
        let stderr = match remote.far_end {
            FarEndChoice::Auto => complaints.clone().held(login.is_shared()),
            // Nothing that a far shell writes controls the terminal.
            FarEndChoice::Sealane | FarEndChoice::Sftp => StderrMode::Relay(Arc::new(complain)),
        };
        Ok((stderr, login.is_shared()))
    }

    /// Sends the request, and hears the far end's greeting.
    fn introduce(
        &self,
        channel: &mut Channel,
        complaints: &Complaints,
        is_logged_in: bool,
    ) -> Result<Introduced, Unbegun> {
        let suite = agree::suite(self.options)?;
        agree::check_count("--streams", self.options.streams, STREAMS_MAX)?;
        agree::check_count("--lanes", self.options.lanes, LANES_MAX)?;
        let own_place = self.own_place()?;
        let route_host = self.resolve_in_background()?;
        let request = self.own_request(suite, own_place.as_ref(), channel.may_carry_secrets())?;
        let message = Message::Request(Box::new(request));
        let frame = Zeroizing::new(message.encode());
        let Message::Request(request) = message else { unreachable!("it was made two lines above") };
        let asked = OwnRequest { frame, request: *request };
        let hello = self.greet(channel, &asked, || is_logged_in || complaints.tell_of_no_commands())?;
        complaints.tell();
        let terms = self.terms(suite, hello.processors);
        Ok(Introduced { asked, terms, own_place, route_host })
    }

    /// Returns the request of this client, which does not depend on anything that the far end says.
    fn own_request(
        &self,
        suite: Suite,
        own: Option<&ResolvedTarget>,
        may_carry_secrets: bool,
    ) -> Result<Request, Error> {
        let options = self.options;
        let mut owner = options.wishes.preserve.owner;
        if self.role == Role::Pull {
            owner = owner.where_it(sealane_tree::may_give_away());
        }
        let asked = self.streams();
        let privileges = options.wishes.preserve.privileges
            && (self.role == Role::Push || sealane_tree::may_set_privileges());
        let mut request = self.request(&self.terms(suite, processors()), own, may_carry_secrets)?;
        request.wishes.preserve = Preserve { owner, privileges, ..request.wishes.preserve };
        request.streams = asked;
        request.streams_max = self.may_grow().then(|| STREAMS_DEFAULT_MAX.max(asked.unwrap_or(1)));
        request.packet_placement = options.placement.map(|placement| placement == Placement::Packet);
        if self.role == Role::Pull && request.wishes.preserve.asks_for_numbers() {
            request.numbers = names::told(&request.transfer);
        }
        Ok(request)
    }

    /// Sends everything that needs no answer: the greeting, the request and the list that belongs to it. Returns the
    /// far end's greeting.
    fn greet(
        &self,
        channel: &mut Channel,
        asked: &OwnRequest,
        is_logged_in: impl Fn() -> bool,
    ) -> Result<Hello, Unbegun> {
        let is_absence = |error: &ChannelError| match error {
            ChannelError::Banner { .. } | ChannelError::Closed | ChannelError::Truncated => true,
            ChannelError::Frame(_) => true,
            // ssh's own failures have this status, and once it has logged in there is one: the server runs no commands.
            ChannelError::ChildFailed { status, .. } => {
                status.code().is_some_and(|code| code != 255 || is_logged_in())
            }
            _ => false,
        };
        let ended = |error: ChannelError| match self.far {
            FarPlace::Ssh { .. } if is_absence(&error) => Unbegun::Absent(error.into()),
            _ => Unbegun::Failed(error.into()),
        };
        // While the user logs in, the far end reads nothing.
        let mut send = |frame: &[u8]| channel.send(frame, Instant::now() + self.patience()).map_err(ended);
        send(&agree::hello().encode())?;
        send(&asked.frame)?;
        for paths in list_messages(self.options.listed.as_deref()) {
            send(&Message::Listed(paths.to_vec()).encode())?;
        }
        let frame = channel.recv(Instant::now() + self.patience()).map_err(ended)?;
        let frame = frame.ok_or_else(messages::silent)?;
        let message = Message::decode(&frame).map_err(|error| Error::protocol(error.to_string()))?;
        Ok(agree::greet(message)?)
    }

    /// Returns the attributes that are kept: those that were asked for, as far as the receiver may set them.
    fn preserved(&self, request: &Request, accept: &Accept) -> Preserve {
        let owner = match self.role {
            Role::Push => request.wishes.preserve.owner.where_it(accept.may_own),
            Role::Pull => request.wishes.preserve.owner,
        };
        let may_set_privileges = self.role == Role::Pull || accept.may_set_privileges;
        let privileges = request.wishes.preserve.privileges && may_set_privileges;
        Preserve { owner, privileges, ..self.options.wishes.preserve.clone() }
    }

    /// Waits for the answer to the request, as long as the far end says that it will come; `refused` turns a refusal into an
    /// error.
    pub(super) fn answer(
        &self,
        channel: &mut Channel,
        refused: impl FnOnce(Abort) -> Error,
    ) -> Result<(Accept, Vec<u8>), Error> {
        loop {
            match messages::receive(channel, Instant::now() + self.options.wishes.timeout)? {
                (Message::Accept(accept), frame) => return Ok((accept, frame)),
                (Message::Waiting, _) if !self.progress.cancel.load(Relaxed) => {}
                (Message::Waiting, _) => return Err(Error::new(ErrorKind::Cancelled, "interrupted")),
                (Message::Abort(abort), _) => return Err(refused(abort)),
                _ => return Err(Error::protocol("the far end neither accepts nor refuses")),
            }
        }
    }

    /// Returns the plan of this end, with its engine.
    fn plan(
        &self,
        terms: &Terms,
        preserve: Preserve,
        request: &Request,
        accept: &Accept,
        keys: &TransferKeys,
    ) -> Result<Plan, Error> {
        let options = self.options;
        let engine = options.engine.make(options.implementations);
        let engine = engine
            .map_err(|error| Error::io(&format!("cannot start the engine {}", options.engine), &error))?;
        let changes = match self.role {
            Role::Push => Arc::new(names::changes(&preserve, &accept.numbers, &request.transfer)?),
            Role::Pull => Arc::default(),
        };
        Ok(Plan {
            changes,
            open_files_max: open_files_max(accept.lanes, terms.streams_max),
            folders_key: Some(keys.folders()),
            delta_key: Some(keys.delta()),
            ..Plan::of(Wishes { preserve, ..options.wishes.clone() }, *terms, engine)
        })
    }

    /// Returns the sending side at this end of a push to `name`.
    fn sending_side<'a>(
        &'a self,
        plan: &'a Plan,
        paths: &'a [Vec<u8>],
        name: Option<&'a [u8]>,
        notices: Sender<Notice>,
    ) -> Result<SendingSide<'a>, Error> {
        Ok(SendingSide {
            plan,
            sought: self.sought(paths, name),
            confinement: None,
            walk: walk_options(plan)?,
            standard_input: self.sources.iter().any(is_standard_stream),
            notices,
        })
    }

    /// Runs `ssh -G` in parallel with the greeting, because it takes a moment.
    pub(super) fn resolve_in_background(&self) -> Result<Option<JoinHandle<Result<String, Error>>>, Error> {
        let Far::Ssh(command) = far(self.far, self.options) else { return Ok(None) };
        if self.options.through_ssh {
            return Ok(None);
        }
        let deadline = Instant::now() + self.options.wishes.timeout;
        let thread = thread::Builder::new().name("resolver".into());
        let started = thread.spawn(move || Ok(ssh_resolved_host(&command, deadline)?.host));
        started.map(Some).map_err(|error| Error::io(NO_THREAD, &error))
    }

    /// Returns the number of streams at first, unless it depends on the processors of both ends.
    fn streams(&self) -> Option<u16> {
        match self.options.streams {
            _ if is_standard_stream(self.target) => Some(1),
            None if self.options.through_ssh => Some(1),
            asked => asked,
        }
    }

    /// Returns whether the path may turn out to benefit from more streams than there are at first.
    fn may_grow(&self) -> bool {
        self.streams().is_none() && self.options.wishes.measured_end == MeasuredEnd::Both
    }

    pub(super) fn terms(&self, suite: Suite, peer_processors: u16) -> Terms {
        let options = self.options;
        let processors = processors();
        let in_order = is_standard_stream(self.target);
        let streams = self.streams().unwrap_or_else(|| agree::default_streams(processors, peer_processors));
        let streams_max = match self.may_grow() {
            true => STREAMS_DEFAULT_MAX.max(streams),
            false => streams,
        };
        let lanes = match options.lanes {
            _ if in_order => 1,
            Some(asked) => agree::lanes(asked, processors, options.wishes.measured_end),
            None if options.placement == Some(Placement::Packet) => processors,
            None => agree::default_lanes(streams, processors),
        };
        let placement = options.placement.unwrap_or_else(|| agree::default_placement(streams, lanes));
        let (level, compression, delta) = (options.wishes.level, Compression::None, Delta::Never);
        Terms { level, suite, streams, streams_max, lanes, placement, compression, delta }
    }

    pub(super) fn request(
        &self,
        terms: &Terms,
        own: Option<&ResolvedTarget>,
        may_carry_secrets: bool,
    ) -> Result<Request, Error> {
        let options = self.options;
        let in_order = is_standard_stream(self.target);
        let paths = match self.role {
            Role::Push => vec![far_path(self.target)],
            Role::Pull => self.sources.iter().map(far_path).collect(),
        };
        let data_path = match self.far {
            FarPlace::Here => DataPath::Loopback,
            FarPlace::Ssh { .. } if options.through_ssh => DataPath::Relay,
            FarPlace::Ssh { .. } | FarPlace::Daemon(_) => DataPath::Direct,
        };
        let compression = match data_path {
            _ if options.wishes.measured_end != MeasuredEnd::Both => Compression::None,
            DataPath::Loopback => Compression::None,
            DataPath::Direct | DataPath::Relay => options.wishes.compression,
        };
        let delta = match (options.wishes.delta, data_path) {
            _ if !self.may_compare() => Delta::Never,
            // Reading is as fast as sending.
            (Delta::Auto, DataPath::Loopback) => Delta::Never,
            (delta, _) => delta,
        };
        Ok(Request {
            transfer: random()?,
            role: self.role,
            paths,
            name: own.and_then(|place| place.name.clone()),
            names: self.names(),
            into_directory: self.takes_several(),
            wishes: Wishes { compression, delta, ..options.wishes.clone() },
            suite: terms.suite.code(),
            streams: Some(terms.streams),
            streams_max: Some(terms.streams_max),
            lanes: if in_order { Some(1) } else { options.lanes },
            packet_placement: Some(terms.placement == Placement::Packet),
            secret: if may_carry_secrets { Some(MasterSecret::new(random()?)) } else { None },
            data_path,
            journal: self.journal_name(),
            globs: self.role == Role::Pull && self.has_globs(),
            listed: options.listed.as_ref().map(|listed| list_messages(Some(listed)).count() as u16),
            relayed: false,
            numbers: Numbers::default(),
        })
    }

    /// Returns whether files may be compared with other versions: not where nothing is written, or a part of a file, or where
    /// there is no file.
    fn may_compare(&self) -> bool {
        let options = self.options;
        let has_streams = is_standard_stream(self.target) || self.sources.iter().any(is_standard_stream);
        let writes = options.wishes.sink == Sink::Files && options.wishes.measured_end == MeasuredEnd::Both;
        writes && !options.wishes.dry_run && options.wishes.portion.is_none() && !has_streams
    }

    /// Returns the names of the sources of a push, unless they are too long for a request.
    fn names(&self) -> Vec<Vec<u8>> {
        if self.role == Role::Pull || self.options.listed.is_some() {
            return Vec::new();
        }
        let name = |source| last_component(&far_path(source)).unwrap_or(ITSELF).to_vec();
        let names: Vec<_> = self.sources.iter().map(name).collect();
        // The sum includes the bytes that give the length of each.
        let bytes: usize = names.iter().map(|name| name.len() + 2).sum();
        if bytes <= NAMES_BYTES_MAX { names } else { Vec::new() }
    }

    /// Checks that the answer is as requested, though the far end may permit fewer streams.
    pub(super) fn hold_to(
        &self,
        terms: &Terms,
        (compression, delta): (Compression, Delta),
        accept: &Accept,
    ) -> Result<Terms, Error> {
        names::check(&accept.numbers)?;
        let fits = (terms.streams..=terms.streams_max).contains(&accept.streams_max);
        let answered = (accept.level, accept.suite, accept.streams);
        let is_compressed_so = accept.compression == compression
            || (compression, accept.compression) == (Compression::Auto, Compression::None);
        let is_compared_so = accept.delta == delta || (delta, accept.delta) == (Delta::Auto, Delta::Never);
        if !fits
            || !is_compressed_so
            || !is_compared_so
            || answered != (terms.level, terms.suite.code(), terms.streams)
        {
            return Err(Error::new(
                ErrorKind::Refused,
                "the far end answered with a different level, suite, compression, use of deltas or number of streams than requested",
            ));
        }
        let (compression, delta) = (accept.compression, accept.delta);
        Ok(Terms { streams_max: accept.streams_max, compression, delta, ..*terms })
    }

    fn keys(
        &self,
        channel: &Channel,
        request: &Request,
        request_frame: &[u8],
        accept_frame: &[u8],
    ) -> Result<TransferKeys, Error> {
        let master = agree::master(channel, request)?;
        Ok(TransferKeys::new(self.options.implementations, &master, request_frame, accept_frame))
    }

    pub(super) fn route(
        &self,
        channel: &Channel,
        port: u16,
        host: Option<JoinHandle<Result<String, Error>>>,
        seat: Option<Seat>,
    ) -> Result<Route, Error> {
        match far(self.far, self.options) {
            Far::Child => Route::direct("127.0.0.1", port, None),
            Far::Daemon(_) => {
                let address = channel.remote_addr();
                let mut address = address.ok_or_else(|| Error::protocol("the daemon has no address"))?;
                address.set_port(port);
                Ok(Route::Direct(vec![address]))
            }
            Far::Ssh(command) => {
                let remote = &self.options.remote;
                let sharing = match self.far {
                    FarPlace::Ssh { user, host, port } => remote.sharing(user.clone(), host.clone(), *port),
                    FarPlace::Here | FarPlace::Daemon(_) => Sharing::Configured,
                };
                let inside = Inside { seat, relays: Relays::new(command, sharing, port) };
                match host {
                    Some(host) => {
                        let host = host.join().map_err(|_| Error::protocol("cannot run `ssh -G`"))?;
                        Ok(Route::either(host, remote.family, inside))
                    }
                    None => Ok(Route::ThroughSsh(inside)),
                }
            }
        }
    }

    /// Returns what this transfer has done; `owner` is the effective ownership option, `far_cpu_us` the CPU time of the other
    /// ends in microseconds.
    pub(super) fn report(
        &self,
        terms: &Terms,
        owner: Ownership,
        outcome: Outcome,
        far_cpu_us: u64,
    ) -> Report {
        let tier = self.options.implementations.name(terms.suite.protection()).into();
        Report { outcome, owner, agreement: terms.agreement(), tier, far_cpu_us: Some(far_cpu_us) }
    }
}
