//! The far side of a transfer, and the two sides of work that client and server share.
//!
//! Guarantees: a request is judged before anything is opened; what is refused is explained to the client.

use std::{
    fs::File,
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use crossbeam_channel::{Sender, bounded};
use rustix::fs::{Mode, OFlags, open};
use sealane_peer::Channel;
use sealane_tree::{Filter, Kind, Rule, Target, WalkOptions};

use crate::{
    cpu::CpuClock,
    error::{Error, ErrorKind},
    journal::{Journal, JournalError, State as JournalState},
    options::{Level, Pattern, Preserve, Sink},
    proto::{
        entry::{Announcement, Entry},
        join::Prover,
        keys::TransferKeys,
        message::{Accept, DataPath, Have, Message, Request, Role},
    },
    receive::{files::Destination, lane::Receiving},
    send::{
        fill::Possessions,
        work::{Bytes, SendFile},
    },
    session::{
        accept::{Closing, Registry, accept, bind},
        agree::{self, Policy, Terms},
        client::{NOTICES_MAX, master},
        control::{self, Control, Notices, Outcome},
        ends::{self, POSSESSIONS_MAX, Plan},
        line::Lines,
        open::watch,
        place::{self, Confinement, Place},
    },
    summary::{Notice, Progress},
};

/// How long a journal that another run holds is waited for.
const IN_USE_PATIENCE: Duration = Duration::from_secs(3);

/// Turns the user's filters into a walk.
pub(crate) fn walk_options(
    recursive: bool,
    one_file_system: bool,
    preserve: &Preserve,
    patterns: &[Pattern],
) -> Result<WalkOptions, Error> {
    let rule = |pattern: &Pattern| match pattern {
        Pattern::Include(glob) => Rule::Include(glob.clone()),
        Pattern::Exclude(glob) => Rule::Exclude(glob.clone()),
    };
    let filter = Filter::new(patterns.iter().map(rule))
        .map_err(|error| Error::new(ErrorKind::Usage, crate::error::chain(&error)))?;
    Ok(WalkOptions { recursive, one_file_system, owner: preserve.owner, xattrs: preserve.xattrs, filter })
}

/// The end that sends, client or server.
pub(crate) struct SendingSide<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) paths: &'a [Vec<u8>],
    /// What the target calls the only source.
    pub(crate) name: Option<&'a [u8]>,
    pub(crate) confinement: Option<&'a Confinement>,
    pub(crate) walk: WalkOptions,
    /// The only source is standard input.
    pub(crate) standard_input: bool,
    pub(crate) notices: Sender<Notice>,
}

impl SendingSide<'_> {
    pub(crate) fn run(
        self,
        control: &mut Control<'_>,
        keep: impl FnOnce(&Lines) + Send,
    ) -> Result<Outcome, Error> {
        let sources = if self.standard_input {
            None
        } else {
            Some(place::sources(self.paths, self.name, self.confinement)?)
        };
        let possessions = possessions(control)?;
        let resumed: u64 = possessions.partial.values().flatten().map(|range| range.end - range.start).sum();
        if resumed > 0 || !possessions.done.is_empty() {
            let _ = self.notices.try_send(Notice::Resuming { bytes: resumed });
        }
        let sending = ends::sending(self.plan, possessions, self.notices, control.progress.clone())?;
        let sending = Arc::new(sending);
        let mut source = match sources {
            Some(sources) => sources,
            None => {
                sending.filling.queue.push_file(standard_input(&sending.filling.queue, self.name)?);
                place::no_sources()
            }
        };
        for (path, error) in source.missing.drain(..) {
            sending.filling.failed(path, error.message);
        }
        let walk = (!self.standard_input).then(|| source.source.walk(self.walk));
        control.send_all(&sending, walk, || source.source.reader(), keep)
    }
}

fn standard_input(queue: &crate::send::work::Queue, name: Option<&[u8]>) -> Result<Arc<SendFile>, Error> {
    let name = name.ok_or_else(|| {
        Error::new(
            ErrorKind::Usage,
            "standard input needs a target with a file name; the target is a directory",
        )
    })?;
    let path = sealane_tree::RelativePath::new(name).map_err(sealane_tree::Error::from)?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let metadata = sealane_tree::Metadata {
        mode: 0o644,
        modified: sealane_tree::Timestamp { seconds: now.as_secs() as i64, nanoseconds: now.subsec_nanos() },
        ..sealane_tree::Metadata::default()
    };
    let entry = Entry { path, kind: Kind::File, metadata, digest: None };
    let input = std::io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .map_err(|error| Error::io("cannot read standard input", &error))?;
    let announcement = Announcement { entry, growing: true };
    let bytes = Bytes::Pipe(Mutex::new(input.into()));
    Ok(Arc::new(SendFile::new(
        queue.next_file(),
        announcement,
        bytes,
        std::iter::once(0..u64::MAX),
        Vec::new(),
        None,
    )))
}

/// Reads what the receiver has.
fn possessions(control: &mut Control<'_>) -> Result<Possessions, Error> {
    let mut possessions = Possessions::default();
    loop {
        let deadline = Instant::now() + control.timeout;
        match control::receive(control.channel, deadline)?.0 {
            Message::Have(Have { done, partial }) => {
                possessions.done.extend(done);
                for partial in partial {
                    let ranges: Vec<_> = partial.ranges.into_iter().map(|(start, end)| start..end).collect();
                    let ordered = ranges.windows(2).all(|pair| pair[0].end <= pair[1].start);
                    if !ordered || ranges.iter().any(|range| range.start >= range.end) {
                        return Err(Error::protocol("the receiver's account of what it has makes no sense"));
                    }
                    possessions.partial.insert(partial.identity, ranges);
                }
                if possessions.done.len() + possessions.partial.len() > 2 * POSSESSIONS_MAX {
                    return Err(Error::protocol("the receiver claims to have more than can be kept in mind"));
                }
            }
            Message::HaveEnd => return Ok(possessions),
            Message::Abort(abort) => return Err(abort.into()),
            _ => return Err(Error::protocol("the receiver does not say what it has")),
        }
    }
}

/// The end that receives, client or server.
pub(crate) struct ReceivingSide<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) place: Option<Place>,
    pub(crate) standard_output: Option<OwnedFd>,
    pub(crate) journal: Option<[u8; 16]>,
    pub(crate) update: bool,
    /// This end's own limit, in bytes per second.
    pub(crate) rate: Option<u64>,
    pub(crate) notices: Sender<Notice>,
}

impl ReceivingSide<'_> {
    pub(crate) fn run(
        self,
        control: &mut Control<'_>,
        keep: impl FnOnce(&Lines) + Send,
    ) -> Result<Outcome, Error> {
        let plan = self.plan;
        let writes = plan.sink == Sink::Files && !plan.dry_run;
        let mut journal = None;
        let mut update = None;
        let destination = match (self.standard_output, &self.place) {
            (Some(output), _) => Destination::Output(Mutex::new(output.into())),
            (None, Some(place)) if writes => {
                let options = ends::target_options(&plan.preserve, self.journal);
                let target = Target::open(&place.root, options).map_err(|error| place.explain(error))?;
                journal = self.journal.map(|name| open_journal(&target, name)).transpose()?;
                if journal.as_ref().is_some_and(|(journal, _)| journal.is_resumed()) {
                    target.expect_leftovers();
                }
                update = self.update.then(|| target.clone());
                Destination::Tree { target, sole: place.name.clone() }
            }
            (None, place) => {
                // A dry run looks at the target, if it is there, but makes nothing.
                let existing =
                    place.as_ref().filter(|place| plan.dry_run && self.update && place.root.is_dir());
                let options = ends::target_options(&plan.preserve, None);
                update = existing.map(|place| Target::open(&place.root, options)).transpose()?;
                Destination::Null
            }
        };
        let progress = control.progress.clone();
        let receiving =
            Arc::new(ends::receiving(plan, destination, journal, self.rate, self.notices, progress)?);
        let told = ends::possessions(&receiving.files.resumable, update.as_ref(), |message| {
            control::send(control.channel, &message)
        });
        let outcome = told.and_then(|()| control.receive_all(&receiving, keep));
        if let Err(error) = &outcome {
            give_up(&receiving, error);
        }
        outcome
    }
}

/// Leaves what a failed transfer has made so that the same command can go on, or, without a journal, as good as it
/// will ever be.
fn give_up(receiving: &Receiving, error: &Error) {
    let files = &receiving.files;
    let Some(journal) = &files.journal else {
        files.close_all(true);
        files.abandon_folders();
        return;
    };
    // What was verified may be continued; after an alteration nothing is trusted.
    let altered = error.kind == ErrorKind::Integrity;
    files.close_all(altered);
    // Once a byte has come, even a journal that says nothing tells the next run that what it finds was made here.
    let untouched = receiving.first_byte.get().is_none() && journal.is_unused();
    // The reason why the transfer failed is the one to tell.
    let _ = if untouched {
        journal.remove()
    } else if altered {
        journal.forget()
    } else {
        Ok(())
    };
}

fn open_journal(target: &Target, name: [u8; 16]) -> Result<(Journal, JournalState), Error> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(target.root(), flags, Mode::empty())
        .map_err(|error| Error::io("cannot open the target", &error.into()))?;
    let in_use = |error: &std::io::Error| matches!(JournalError::of(error), Some(JournalError::InUse { .. }));
    // The far end of a run that was killed a moment ago may still be on its way out.
    let give_up = Instant::now() + IN_USE_PATIENCE;
    let opened = loop {
        match Journal::open(root.as_fd(), this_boot(name)) {
            Err(error) if in_use(&error) && Instant::now() < give_up => {
                thread::sleep(Duration::from_millis(20));
            }
            opened => break opened,
        }
    };
    let (journal, mut state) = opened.map_err(|error| {
        if in_use(&error) {
            Error::new(
                ErrorKind::Refused,
                "the same copy is running already; wait for it, or use --no-resume to run beside it",
            )
        } else {
            Error::io("cannot open the journal in the target directory", &error)
        }
    })?;
    ends::check_presence(target, &mut state);
    Ok((journal, state))
}

/// The journal's name for as long as this kernel runs. What a kernel had not written when it crashed is lost,
/// but a journal might claim it; so after a reboot the copy starts anew.
pub(crate) fn this_boot(name: [u8; 16]) -> [u8; 16] {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let mut mixed = [0; 16];
    blake3::Hasher::new().update(&name).update(&boot).finalize_xof().fill(&mut mixed);
    mixed
}

/// What a server is bound to, for one transfer.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) policy: Policy,
    pub(crate) may_read: bool,
    pub(crate) may_write: bool,
    pub(crate) confinement: Option<Confinement>,
    pub(crate) rate: Option<u64>,
    pub(crate) timeout_max: Duration,
}

/// Where a server takes up data streams.
pub(crate) enum Doors<'a> {
    /// A listener of its own for each transfer.
    Own,
    /// The daemon's listener, which looks transfers up here.
    Shared { registry: &'a Registry, port: u16 },
}

/// Serves one transfer over an open channel.
pub(crate) fn serve(channel: &mut Channel, rules: &Rules, doors: &Doors<'_>) -> Result<(), Error> {
    control::send(channel, &agree::hello())?;
    let deadline = Instant::now() + rules.timeout_max;
    agree::greet(control::receive(channel, deadline)?.0)?;
    let served = serve_greeted(channel, rules, doors, deadline);
    if let Err(error) = &served {
        control::abort(channel, error);
    }
    served
}

fn serve_greeted(
    channel: &mut Channel,
    rules: &Rules,
    doors: &Doors<'_>,
    deadline: Instant,
) -> Result<(), Error> {
    let (request, request_frame) = match control::receive(channel, deadline)? {
        (Message::Request(request), frame) => (*request, frame),
        (Message::Abort(abort), _) => return Err(abort.into()),
        _ => return Err(Error::protocol("the client makes no request")),
    };
    let terms = agree::judge(&request, rules.policy, agree::processors())?;
    let permitted = match request.role {
        Role::Push => rules.may_write,
        Role::Pull => rules.may_read,
    };
    if !permitted {
        let what = if request.role == Role::Push { "write" } else { "read" };
        return Err(Error::new(ErrorKind::Refused, format!("this peer has no right to {what} here")));
    }
    let plan = plan(&request, &terms, rules);
    let writes = request.role == Role::Push && request.sink == Sink::Files;
    let place = match request.paths.as_slice() {
        [path] if writes => Some(place::target(
            path,
            request.into_directory,
            request.journal.map(this_boot),
            rules.confinement.as_ref(),
        )?),
        [_] => None,
        [_, ..] if request.role == Role::Pull => None,
        _ => return Err(Error::protocol("a request needs a path, and a target only one")),
    };
    let own = match doors {
        Doors::Own => Some(own_door(&request).map_err(|error| {
            Error::new(ErrorKind::Connect, format!("cannot listen for data streams: {error}"))
        })?),
        Doors::Shared { .. } => None,
    };
    let (registry, port) = match (doors, &own) {
        (Doors::Shared { registry, port }, _) => ((*registry).clone(), *port),
        (Doors::Own, own) => {
            let address = own.as_ref().and_then(|(listener, _)| listener.local_addr().ok());
            (Registry::default(), address.map_or(0, |address| address.port()))
        }
    };
    let accept = Accept {
        level: terms.level,
        suite: terms.suite.code(),
        streams: terms.streams,
        lanes: terms.lanes,
        data_port: port,
        name: place.as_ref().and_then(|place| place.name.clone()),
    };
    // Before the answer: the client's streams may be quicker than we.
    let registration = registry
        .announce(request.transfer)
        .ok_or_else(|| Error::protocol("the transfer's name is in use"))?;
    let accept_frame = Message::Accept(accept).encode();
    let keys = TransferKeys::new(&master(channel, &request)?, &request_frame, &accept_frame);
    channel.send(&accept_frame, deadline)?;
    let join_key = keys.join();
    let prover = Prover::new((terms.level > Level::Clear).then_some(&join_key));
    let (notices, pending) = bounded(NOTICES_MAX);
    let mut control = Control {
        channel,
        notices: Notices::Peer,
        pending,
        progress: Arc::new(Progress::default()),
        timeout: plan.timeout,
        clock: CpuClock::default(),
    };
    let timeout = plan.timeout;
    let keep = move |lines: &Lines| {
        registration.expect(lines.clone(), keys, prover);
        thread::scope(|scope| {
            if let Some((listener, closing)) = &own {
                let registry = &registry;
                scope.spawn(move || listen(listener, registry, closing, lines));
            }
            watch(lines, timeout);
            if let Some((_, closing)) = &own {
                closing.close();
            }
        });
    };
    match request.role {
        Role::Push => {
            let side = ReceivingSide {
                plan: &plan,
                place,
                standard_output: None,
                journal: request.journal,
                update: request.update,
                rate: rules.rate,
                notices,
            };
            side.run(&mut control, keep)?
        }
        Role::Pull => {
            let side = SendingSide {
                plan: &plan,
                paths: &request.paths,
                name: request.name.as_deref(),
                confinement: rules.confinement.as_ref(),
                walk: walk_options(
                    request.recursive,
                    request.one_file_system,
                    &request.preserve,
                    &request.patterns,
                )?,
                standard_input: false,
                notices,
            };
            side.run(&mut control, keep)?
        }
    };
    Ok(())
}

fn own_door(request: &Request) -> std::io::Result<(TcpListener, Closing)> {
    Ok((bind(own_address(request.data_path), request.data_ports)?, Closing::new()?))
}

fn listen(listener: &TcpListener, registry: &Registry, closing: &Closing, lines: &Lines) {
    if let Err(error) = accept(listener, registry, closing) {
        lines.stop().fail(Error::io("cannot accept data streams", &error), lines.bells());
    }
}

fn plan(request: &Request, terms: &Terms, rules: &Rules) -> Plan {
    let limit_rate = match (request.limit_rate, rules.rate) {
        (Some(asked), Some(own)) => Some(asked.min(own)),
        (asked, own) => asked.or(own),
    };
    Plan {
        terms: *terms,
        limit_rate,
        measured_end: request.measured_end,
        digest: request.digest,
        dry_run: request.dry_run,
        fsync: request.fsync,
        preserve: request.preserve.clone(),
        sink: request.sink,
        timeout: Duration::from_millis(request.timeout_ms).clamp(Duration::from_secs(1), rules.timeout_max),
    }
}

/// The address to listen on for the data streams of one transfer: as narrow as the path allows.
fn own_address(data_path: DataPath) -> SocketAddr {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let ip = match data_path {
        DataPath::Loopback | DataPath::Relay => loopback,
        // The third word of SSH_CONNECTION is the address that the client reached us by.
        DataPath::Direct => std::env::var("SSH_CONNECTION")
            .ok()
            .and_then(|words| words.split(' ').nth(2)?.parse().ok())
            .unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
    };
    SocketAddr::new(ip, 0)
}

/// Serves one transfer on standard input and output: what runs at the far end of ssh, or as a local child.
///
/// # Errors
/// As the transfer's; the client has been told.
pub fn serve_stdio() -> Result<(), Error> {
    let mut channel = Channel::stdio()?;
    let rules = Rules {
        policy: Policy { minimum_level: Level::Clear, allow_legacy: true },
        may_read: true,
        may_write: true,
        confinement: None,
        rate: None,
        timeout_max: Duration::from_secs(24 * 3600),
    };
    let served = serve(&mut channel, &rules, &Doors::Own);
    let _ = channel.close(Instant::now() + Duration::from_secs(2));
    served
}

/// Passes bytes between standard input and output and a port of this host: one data stream carried by ssh.
///
/// # Errors
/// When the port cannot be reached or the connection breaks.
pub fn serve_relay(port: u16) -> Result<(), Error> {
    let failed = |error: std::io::Error| Error::io("cannot relay a data stream", &error);
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    let back = stream.try_clone().map_err(failed)?;
    // Straight on the descriptors: the standard library's output would wait for a line to end.
    let mut input = File::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(failed)?);
    let mut output = File::from(std::io::stdout().as_fd().try_clone_to_owned().map_err(failed)?);
    // Either direction's end ends the process: a half-open stream is of no use to a transfer.
    let outward = thread::spawn(move || pump(back, &mut output));
    let inward = thread::spawn(move || pump(&mut input, stream));
    while !outward.is_finished() && !inward.is_finished() {
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Passes bytes on as they come. (`std::io::copy` would splice, and a pipe spliced into a socket holds back short
/// messages in the expectation of more.)
fn pump(mut from: impl Read, mut to: impl Write) -> std::io::Result<()> {
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => to.write_all(&buffer[..length])?,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
