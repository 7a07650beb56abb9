//! The client's side of a transfer: the implementation of `sealane cp`.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU16, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crossbeam_channel::{Sender, bounded};
use sealane_engine::Suite;
use sealane_lanes::{CpuClock, Placement};
use sealane_peer::{Channel, ChannelError, Location, Sharing, StderrMode, ssh_resolved_host};
use zeroize::Zeroizing;

use crate::{
    error::{Error, ErrorKind},
    names,
    options::{Compression, Delta, FarEndChoice, MeasuredEnd, Options, Ownership, Preserve, Sink, Wishes},
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
        relay,
        sending::SendingSide,
    },
    sftp,
    shared::NO_THREAD,
    summary::{CpuSeconds, Notice, Observer, Progress, Summary},
    transfer::{
        NOTICES_MAX, Transfer,
        complaints::{Complaints, complain},
        ends::{Plan, open_files_max},
        far_place::{FarPlace, far_path},
        filters::walk_options,
        outcome::Outcome,
        own_process_cpu_seconds,
        place::{Place, Sought},
        random,
        roles::{Roles, is_standard_stream, list_messages, make_sense, roles},
        terms::{STREAMS_DEFAULT_MAX, Terms, processors},
    },
};

/// The maximum length of the sources' names in one request in bytes: a frame has room for more.
const NAMES_BYTES_MAX: usize = 512 << 10;

/// Copies `sources` to `target`. If both are remote, sealed data passes through this host unchanged.
///
/// A source or target that is the local path `-` is standard input or output.
///
/// # Errors
/// Fails if the transfer as a whole failed. Entries that failed individually are counted in the summary and reported
/// to the observer.
pub fn copy(
    sources: &[Location],
    target: &Location,
    options: &Options,
    progress: &Arc<Progress>,
    observer: &mut dyn Observer,
) -> Result<Summary, Error> {
    let started = Instant::now();
    make_sense(sources, target, options)?;
    let far_host = &OnceLock::new();
    let (role, far) = match roles(sources, target)? {
        Roles::Here { role, far } => (role, far),
        Roles::Neither => {
            let (role, far) = (Role::Push, &FarPlace::of(target));
            return relay::copy(
                &Transfer { sources, target, options, progress, role, far, started, far_host },
                observer,
            );
        }
    };
    let transfer = Transfer { sources, target, options, progress, role, far: &far, started, far_host };
    if options.remote.far_end == FarEndChoice::Sftp && !matches!(far, FarPlace::Here | FarPlace::Daemon(_)) {
        return sftp::copy(&transfer, None, observer);
    }
    let complaints = Arc::new(Complaints::default());
    let mut is_logged_in = false;
    let stderr = match &far {
        FarPlace::Ssh { user, host, port } => {
            let (user, host) = (user.clone(), host.clone());
            is_logged_in = options.remote.log_in(user, host, *port, transfer.patience())?.is_shared();
            match options.remote.far_end {
                FarEndChoice::Auto => complaints.clone().held(is_logged_in),
                // Nothing that a far shell writes controls the terminal.
                FarEndChoice::Sealane | FarEndChoice::Sftp => StderrMode::Relay(Arc::new(complain)),
            }
        }
        FarPlace::Here | FarPlace::Daemon(_) => StderrMode::Inherit,
    };
    let mut channel = reach(&far, options, stderr)?;
    let outcome = transfer.run(&mut channel, (&complaints, is_logged_in), observer);
    match outcome {
        Ok(summary) => {
            // The transfer is complete; a lingering far end is not awaited.
            let _ = channel.close(Instant::now() + Duration::from_secs(2));
            Ok(summary)
        }
        Err(Ended::Absent(error)) if options.remote.far_end == FarEndChoice::Auto => {
            drop(channel);
            sftp::copy(&transfer, Some(error), observer)
        }
        Err(Ended::Absent(error) | Ended::Failed(error)) => {
            complaints.tell();
            messages::abort(&mut channel, &error);
            // Unread messages of the far end would reset the connection, and it might never receive the reason.
            if !matches!(error.kind, ErrorKind::TimedOut | ErrorKind::Disconnected) {
                let _ = channel.close(Instant::now() + LINGER);
            }
            Err(if far == FarPlace::Here { error.of_this_host() } else { error })
        }
    }
}

/// A request, and its encoding as it crossed the channel.
struct OwnRequest {
    request: Request,
    frame: Zeroizing<Vec<u8>>,
}

/// The ways in which a transfer ends early.
enum Ended {
    /// ssh has logged in, and no sealane answers there.
    Absent(Error),
    Failed(Error),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Transfer<'_> {
    fn run(
        &self,
        channel: &mut Channel,
        (complaints, is_logged_in): (&Complaints, bool),
        observer: &mut dyn Observer,
    ) -> Result<Summary, Ended> {
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
        Ok(self.run_greeted(channel, &terms, asked, own_place, route_host, observer)?)
    }

    /// Returns the request of this client, which does not depend on anything that the far end says.
    fn own_request(
        &self,
        suite: Suite,
        own: Option<&Place>,
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
    ) -> Result<Hello, Ended> {
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
            FarPlace::Ssh { .. } if is_absence(&error) => Ended::Absent(error.into()),
            _ => Ended::Failed(error.into()),
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

    fn run_greeted(
        &self,
        channel: &mut Channel,
        terms: &Terms,
        asked: OwnRequest,
        own_place: Option<Place>,
        route_host: Option<JoinHandle<Result<String, Error>>>,
        observer: &mut dyn Observer,
    ) -> Result<Summary, Error> {
        let options = self.options;
        let clock = CpuClock::default();
        let (accept, accept_frame) = self.answer(channel, Error::from)?;
        let OwnRequest { request, frame } = &asked;
        let terms = self.hold_to(terms, (request.wishes.compression, request.wishes.delta), &accept)?;
        let keys = self.keys(channel, request, frame, &accept_frame)?;
        let preserve = self.preserved(request, &accept);
        self.tell_agreement(&terms, request, &preserve, observer);
        let seat = matches!(self.far, FarPlace::Ssh { .. }).then(Seat::default);
        let route = self.route(channel, accept.data_port, route_host, seat.clone())?;
        let (notices, pending) = bounded(NOTICES_MAX);
        let plan = self.plan(&terms, preserve, request, &accept, &keys)?;
        let join_key = keys.join();
        let prover = Prover::new(&join_key, terms.level);
        let opened = AtomicU16::new(0);
        let has_input = self.sources.iter().any(is_standard_stream);
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
            progress: self.progress.clone(),
            timeout: options.wishes.timeout,
            clock,
            told: Vec::new(),
            far: self.far.name(),
            hears_changes: self.role == Role::Push
                && (options.wishes.upkeep.delete.is_some()
                    || options.wishes.upkeep.itemise
                    || options.wishes.dry_run),
            removes_sources: plan.removes_sources(),
            ends_first: false,
            prune: None,
            carriage: Carriage::new(seat.map_or(Part::None, Part::Opens)),
        };
        let paths: Vec<_> = self.sources.iter().map(far_path).collect();
        let (outcome, far_cpu_us) = match self.role {
            Role::Push => {
                let side = self.sending_side(&plan, &paths, accept.name.as_deref(), notices)?;
                let outcome = side.run(&mut control, keep)?;
                let far_cpu_us = outcome.complete.cpu_us;
                (outcome, far_cpu_us)
            }
            Role::Pull => {
                let outcome = self.receiving_side(&plan, own_place, notices)?.run(&mut control, keep)?;
                let far_cpu_us = outcome.finished.cpu_us;
                (outcome, far_cpu_us)
            }
        };
        let terms = Terms { streams: opened.load(Relaxed).max(1), ..terms };
        Ok(self.summary(&terms, plan.wishes.preserve.owner, &outcome, far_cpu_us))
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

    /// Tells the user the terms, and which wishes are not met.
    fn tell_agreement(
        &self,
        terms: &Terms,
        request: &Request,
        preserve: &Preserve,
        observer: &mut dyn Observer,
    ) {
        observer.notice(Notice::Agreed(terms.agreement()));
        if preserve.owner != self.options.wishes.preserve.owner {
            observer.notice(Notice::OwnersNotKept);
        }
        if preserve.privileges != self.options.wishes.preserve.privileges {
            observer.notice(Notice::PrivilegesNotKept);
        }
        if terms.compression != request.wishes.compression {
            observer.notice(Notice::NotCompressed);
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
        let options = self.options;
        let (following, listed) = (options.wishes.following, options.listed.as_deref());
        Ok(SendingSide {
            plan,
            sought: Sought { paths, name, following, globs: false, listed },
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
        own: Option<&Place>,
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

    /// `owner` is the effective ownership option, `far_cpu_us` the CPU time of the other ends in microseconds.
    pub(super) fn summary(
        &self,
        terms: &Terms,
        owner: Ownership,
        outcome: &Outcome,
        far_cpu_us: u64,
    ) -> Summary {
        let Outcome { finished, complete, .. } = outcome;
        let seconds = match self.options.wishes.measured_end {
            MeasuredEnd::Both => self.started.elapsed().as_secs_f64(),
            MeasuredEnd::Send => finished.active_us as f64 / 1e6,
            MeasuredEnd::Receive => complete.active_us as f64 / 1e6,
        };
        // Only the receiver of a dry run knows the changes.
        let dry_run = self.options.wishes.dry_run;
        Summary {
            bytes: if dry_run { complete.bytes } else { finished.bytes },
            files: if dry_run { complete.files } else { complete.files.min(finished.files) },
            skipped: finished.skipped.saturating_add(complete.unchanged),
            failed: finished.failed + complete.failed,
            deleted: complete.deleted,
            undeleted: complete.undeleted,
            removed: outcome.removed.removed,
            unremoved: outcome.removed.unremoved,
            dropped: self.asked_for(complete.dropped, owner),
            seconds,
            cpu_seconds: CpuSeconds {
                local: own_process_cpu_seconds(),
                remote: Some(far_cpu_us as f64 / 1e6),
            },
            resent_bytes: finished.resent_bytes,
            resumed_bytes: finished.resumed_bytes,
            spared_bytes: finished.spared_bytes,
            matched_bytes: finished.matched_bytes,
            level: terms.level,
            suite: Some(terms.suite),
            streams: terms.streams,
            lanes: terms.lanes,
            placement: terms.placement,
            tier: self.options.implementations.name(terms.suite.protection()).into(),
        }
    }
}
