//! A gateway: a device, a socket, and the lanes between them.
//!
//! Guarantees: packets of one direction leave in the order of their arrival, whatever the number of lanes; a lane
//! without work sleeps in the kernel; lanes run before the housekeeper; queues between lanes are bounded; when the
//! process ends in order, or does not start, nothing is left behind; when it ends otherwise, the routes that keep
//! packets from leaving in clear remain.

use std::{
    cell::RefCell,
    io,
    net::{IpAddr, SocketAddr, TcpListener},
    num::NonZeroUsize,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
    process::{self, Command},
    rc::Rc,
    sync::{
        Arc,
        atomic::{
            AtomicBool,
            Ordering::{Relaxed, SeqCst},
        },
    },
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags},
    process::{getpriority_process, setpriority_process},
    thread::gettid,
};
use sealane_engine::{Engine, EngineChoice, Implementations};
use sealane_ike::{Assignment, Random};
use sealane_ipsec::{
    counters::DropReason, database::Request, key_maker::KeyMaker, policy::PeerId, suite::Suite,
};
use sealane_lanes::Bells;
use sealane_peer::{Identity, PeerError};
use sealane_port::{
    Port,
    tun::{Options, Tun},
};

use crate::{
    control::{self, Answer, Ask, Listener},
    discovery::Paths,
    host::{HostError, Wanted, keeper::Keeper},
    inward::{Acceptor, Arrival, Opener},
    keep_alive::KeepAlive,
    keying::{
        calls::Calls,
        carrier::{Carrier, IKE_PORT, Routes},
        ike::{self, Ike, IkeError},
        makers::Makers,
    },
    lanes::{Lanes, while_doing},
    manual::{Allowed, ManualError, Manuals},
    names::{self, Names},
    news::News,
    outside::Outside,
    outward::{self, Dummies, Load, Router, Sealer},
    path::Answers,
    peer_lines::PeerLines,
    peers::{Peers, policies},
    pipeline::{Behind, LOADS, Pipeline},
    privilege,
    queue::{
        counters::Counters,
        inward::Sink,
        outward::{LINES_MAX, Source},
    },
    reload::{Changes, Files, Places},
    site::{Encapsulation, Keys, PeerSite, Site},
    status::Status,
    streams::{Inward, Server, Streams},
    watched::Watched,
};

/// The interval at which the housekeeper checks the peers and whether the gateway is to end.
const TICK: Duration = Duration::from_millis(100);

/// The additional niceness of the housekeeper, and of the threads that it starts for calls: lanes run before it where processors are
/// scarce, so that a flood of strangers costs few packets, and the housekeeper still gets a quarter of a processor.
const HOUSEKEEPING_NICENESS: i32 = 5;

/// Reasons why a gateway does not start, or ends.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The device cannot be opened.
    #[error("cannot open the device {device}: {source}{}", hint(source))]
    Tun {
        /// The name of the device.
        device: String,
        /// The cause.
        source: io::Error,
    },
    /// The gateway's own key cannot be read.
    #[error("cannot read the gateway's own key: {0}")]
    Identity(#[from] PeerError),
    /// A peer has this gateway's own key.
    #[error(
        "peer {peer:?} has the key of this gateway itself ({}); give it the one that `sealane id` prints at the peer",
        identity.display()
    )]
    OwnKey {
        /// The peer's name in the site file.
        peer: String,
        /// The file of our own key.
        identity: PathBuf,
    },
    /// The privileges cannot be given up.
    #[error("cannot give away privileges: {0}")]
    Privileges(#[source] io::Error),
    /// The configuration of a peer that speaks IKE cannot be used.
    #[error(transparent)]
    Ike(#[from] IkeError),
    /// A socket cannot be bound.
    #[error("cannot listen on {listen}: {source}{}", listen_hint(*listen, source))]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The process that maintains the host's state cannot be started.
    #[error("cannot start the process that keeps the host's routes: {0}")]
    Keeper(#[source] io::Error),
    /// The host's state does not allow the gateway.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A peer's associations cannot be made.
    #[error(transparent)]
    Manual(#[from] ManualError),
    /// The control socket cannot be created.
    #[error("cannot make the control socket: {0}")]
    Control(#[source] io::Error),
    /// The system cannot start a thread.
    #[error("cannot start a lane: {0}")]
    Lane(#[source] io::Error),
    /// The engine cannot be started.
    #[error("cannot start the engine: {0}")]
    Engine(#[source] io::Error),
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; it takes CAP_NET_ADMIN: run as root, or give the container that capability"
        }
        io::ErrorKind::NotFound => {
            "; there is no /dev/net/tun: load the module tun, or give the container the device"
        }
        io::ErrorKind::ResourceBusy => "; another process has it",
        _ => "",
    }
}

fn listen_hint(listen: SocketAddr, error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse if listen.port() == IKE_PORT => {
            "; another program that speaks IKE has it, such as strongSwan: stop that one first"
        }
        _ => "",
    }
}

/// The settings of a gateway.
#[derive(Debug)]
pub struct Settings<'a> {
    /// The site file, with the gateway's properties and peers.
    pub site: &'a Site,
    /// The path of the site file, which is read again when it changes.
    pub path: &'a Path,
    /// Somebody wants the site file, and the files that it names, to be read again.
    pub is_reload_wanted: &'a AtomicBool,
    /// The number of lanes per direction; by default as many as the slowest suite needs.
    pub lanes: Option<NonZeroUsize>,
    /// The unsafe options that are allowed.
    pub allowed: Allowed,
    /// The implementations of the algorithms.
    pub implementations: Implementations,
    /// The engine that seals and opens packets. It is started after the capabilities are given up, so that its
    /// threads have none.
    pub engine: &'a EngineChoice,
    /// The folder of the control socket.
    pub control_folder: &'a Path,
    /// The file of the gateway's own key, if the site file does not name one.
    pub identity: Option<&'a Path>,
    /// Makes the command that runs [`keeper::run`](crate::host::keeper::run).
    pub keeper: fn() -> Command,
}

/// Returns the number of lanes per direction for the slowest of the site's suites on `engine`.
fn lanes_of(site: &Site, engine: &dyn Engine) -> usize {
    let protections = site.peers.iter().flat_map(PeerSite::suites).map(Suite::protection);
    let byte_ns = protections
        .filter_map(|protection| engine.cost(protection))
        .map(|cost| cost.job_ns(INNER_BYTES_TYPICAL) / INNER_BYTES_TYPICAL as f64);
    let cpus = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    lanes_for(byte_ns.fold(0.0, f64::max), cpus)
}

/// The length of a long packet in bytes, by which suites are compared.
const INNER_BYTES_TYPICAL: usize = 1400;
/// The time that the slower of a lane's two system calls takes per byte, in nanoseconds: one lane receives while
/// another sends. (16 CPUs of a Sapphire Rapids host; docs/measurements.md has the rates by lanes.)
const CALL_BYTE_NS: f64 = 0.3;
/// The largest number of lanes that is chosen by default.
const LANES_MAX: usize = 8;

/// Returns the number of lanes per direction that keep the system calls busy while a suite needs `byte_ns` nanoseconds
/// per byte: 1 for a fast one, so that lanes need not wake each other. Half of the CPUs are left to the other direction.
fn lanes_for(byte_ns: f64, cpus: usize) -> usize {
    let wanted = 1 + (byte_ns / CALL_BYTE_NS) as usize;
    wanted.min(cpus / 2).clamp(1, LANES_MAX)
}

/// Runs a gateway until the control socket asks it to end or `is_ended`, which is called several times per second,
/// returns true. Until `heed` is called, the process can be ended without leaving anything behind; from then on the
/// caller must make `is_ended` return true after a signal. `up` is called when packets flow; `resolve` is called with
/// the resolvers that peers have given by now, and the domains that they know; `say` is called with messages for the
/// operator.
///
/// # Errors
/// Fails if the gateway does not start. A thread that fails later ends the process as `sealane tunnel down` does,
/// with status 1.
pub fn run(
    settings: &Settings<'_>,
    is_ended: impl Fn() -> bool,
    heed: impl FnOnce(),
    up: impl FnOnce(&str),
    resolve: impl Fn(&[IpAddr], &[String]),
    say: impl Fn(&str) + Sync,
) -> Result<(), GatewayError> {
    let Settings { site, path, is_reload_wanted, lanes, allowed, implementations, .. } = *settings;
    let Settings { engine, control_folder, identity, keeper, .. } = *settings;
    let begun = Instant::now();
    control::refuse_second(control_folder, &site.device).map_err(GatewayError::Control)?;
    let bells = Bells::new(1).map_err(GatewayError::Lane)?;
    let peers = Peers::new(site, begun, bells);
    let tcp_ports = site.tcp_ports();
    let peers = match tcp_ports.is_empty() {
        true => peers,
        false => peers.with_streams(Streams::new().map_err(GatewayError::Lane)?),
    };
    let threads = Lanes::default();
    let (negotiated, contents) = ike::configured(site, identity)?;
    let mut files = Files::new(path, identity, site, &contents, begun);
    drop(contents);
    let mut manuals = Manuals::default();
    for (id, peer) in (0..).map(PeerId).zip(&site.peers) {
        manuals.install(implementations, &peers, id, peer, allowed, begun)?;
    }
    // The keeper is started first, before there is anything that it could inherit. It is dropped last, so a gateway
    // that does not start leaves nothing behind.
    let keeper = Keeper::start(keeper()).map_err(GatewayError::Keeper)?;
    keeper.watch(&Watched::new(path, site, identity))?;
    let calls = calls(site, identity, implementations, &peers, &threads)?;
    names::look_up_first(site, &peers);
    let tun_error = |source| GatewayError::Tun { device: site.device.clone(), source };
    let options = Options { room: outward::room(site), ..Options::new(&site.device) };
    let tun = Tun::open(&options).map_err(tun_error)?.remove(0);
    let device = tun.name().to_owned();
    let wanted = Wanted::of(site, &device);
    let mark = wanted.mark();
    let calls = calls.map(|calls| if mark.is_some() { calls.marked_by(&keeper) } else { calls });
    control::make_folder(control_folder).map_err(GatewayError::Control)?;
    let warnings = keeper.set_up(&wanted, control_folder)?;
    let listen_error = |source| GatewayError::Listen { listen: site.listen, source };
    let outside = Outside::open(site, mark).map_err(listen_error)?;
    let siblings = match site.queueing.is_fq_codel() {
        true => siblings(&outside, site.peers.len(), mark),
        false => Vec::new(),
    };
    let called = calls.is_some().then(|| listen(site.listen, mark)).transpose().map_err(listen_error)?;
    // Calls come on the port of `listen`; the first byte of a connection tells what it is.
    let tcp_ports = tcp_ports.into_iter().filter(|port| called.is_none() || *port != site.listen.port());
    let mut stream_listeners = Vec::new();
    for port in tcp_ports {
        let at = SocketAddr::new(site.listen.ip(), port);
        let listener = listen(at, mark).map_err(|source| GatewayError::Listen { listen: at, source })?;
        stream_listeners.push(listener);
    }
    let paths = Paths::new(mark, begun);
    let ((tun_in, tun_out), (from_peers, to_peers)) = (tun.split(), outside.split());
    let (tun_out, to_inside) = tun_out.split();
    let (tun_out, from_streams) = tun_out.split();
    let (mut to_peers, dummies_out) = to_peers.split();
    to_peers.send_directly(site).map_err(listen_error)?;
    let (dummies_out, heard) = dummies_out.split();
    let (heard, gauge) = heard.split();
    let (siblings, gauges): (Vec<_>, Vec<_>) = siblings.into_iter().map(Outside::split).unzip();
    let (siblings, siblings_heard): (Vec<_>, Vec<_>) = siblings.into_iter().map(Outside::split).unzip();
    let to_peers: Vec<Outside> = [to_peers].into_iter().chain(siblings).collect();
    let gauges: Vec<Outside> = [gauge].into_iter().chain(gauges).collect();
    let (heard, letters_out) = heard.split();
    let letters_out = (site.encapsulation == Encapsulation::Udp).then_some(letters_out);
    let speaks_ike = |letters_out| -> Result<(Carrier, Arc<Routes>), (SocketAddr, io::Error)> {
        let ike_listen = SocketAddr::new(site.listen.ip(), IKE_PORT);
        let routes = Routes::open(site.listen.ip(), mark).map_err(|error| (ike_listen, error))?;
        let routes = Arc::new(routes);
        Ok((Carrier::open(site.listen, letters_out, mark)?, routes))
    };
    let spoken = (!negotiated.is_empty()).then(|| speaks_ike(letters_out)).transpose();
    let spoken = spoken.map_err(|(listen, source)| GatewayError::Listen { listen, source })?;
    // The device is ours, so no other gateway creates this socket.
    let bind = || Listener::bind(control_folder, &site.device).map_err(GatewayError::Control);
    let account = privilege::account().map_err(GatewayError::Privileges)?;
    // Another user is not allowed to create a socket in root's folder.
    let bound = account.map(|_| bind()).transpose()?;
    privilege::give_up(account).map_err(GatewayError::Privileges)?;
    let engine = engine.make(implementations).map_err(GatewayError::Engine)?;
    let lanes = lanes.map_or_else(|| lanes_of(site, &*engine), NonZeroUsize::get);
    let router = Router::new(&peers).answering(Answers::new(Box::new(to_inside)));
    let waits = Arc::new(AtomicBool::new(false));
    let (source, sink) = match site.queueing.is_fq_codel() {
        true => {
            from_peers.report_times();
            let lines = PeerLines::new(&peers, gauges.len());
            (Source::by_flows(tun_in, gauges, lines), Sink::by_flows(tun_out, Arc::clone(&waits)))
        }
        false => (Source::in_order(tun_in), Sink::in_order(tun_out)),
    };
    let outward = Pipeline::new(lanes, Load::new, (source, router), to_peers);
    let inward = Pipeline::new(lanes, Arrival::new, from_peers, (sink, Acceptor::new(&peers)));
    let queues: Vec<_> = (0..2 * lanes)
        .map(|_| engine.queue(LOADS))
        .collect::<Result<_, _>>()
        .map_err(GatewayError::Engine)?;
    let dummies = engine.queue(NonZeroUsize::MIN).map_err(GatewayError::Engine)?;
    let streamed = match peers.streams() {
        Some(streams) => {
            let queue = engine.queue(LOADS).map_err(GatewayError::Engine)?;
            let inward = Inward::new(&peers, queue, from_streams);
            let marks = mark.map(|_| &keeper);
            Some(Server::new(&peers, streams, stream_listeners, marks, &threads, inward))
        }
        None => None,
    };
    let dummies = RefCell::new(Dummies::new(dummies, dummies_out, site));
    heed();
    // A gateway that keeps its user creates the socket only now, so that an earlier signal leaves none behind.
    let control = bound.map_or_else(bind, Ok)?;
    keeper.keep()?;
    thread::scope(|scope| {
        let mut queues = queues.into_iter();
        for lane in 0..lanes {
            let (seal, open) = (queues.next(), queues.next());
            let mut sealer = Sealer::new(seal.expect("two queues a lane"), site.listen.ip());
            let mut opener = Opener::new(&peers, open.expect("two queues a lane"));
            let (outward, inward, peers, waits) = (&outward, &inward, &peers, &*waits);
            let life = move || {
                outward.run(
                    &mut sealer,
                    |(source, _)| source.fd(),
                    |(source, router), load| {
                        let [waiting, _] = peers.waiting();
                        let received = source.receive(waiting, &mut load.batch);
                        received.map_err(while_doing("reading from the device"))?;
                        router.plan(load, Instant::now());
                        Ok(())
                    },
                    |outsides, load| {
                        outward::send(peers, outsides, load).map_err(while_doing("sending to a peer"))
                    },
                )
            };
            threads.begin(scope, format!("out-{lane}"), life);
            let life = move || {
                inward.run_before(
                    &mut opener,
                    Waiting { peers, waits },
                    |outside| outside.fd(),
                    |outside, arrival, may_wait| {
                        let received = match may_wait {
                            true => outside.receive(&mut arrival.batch),
                            false => outside.receive_now(&mut arrival.batch),
                        };
                        received.map_err(while_doing("receiving from peers"))?;
                        (arrival.source, arrival.traffic_class) = outside.last();
                        arrival.time = Instant::now();
                        (arrival.waited, arrival.was_last) = outside.waited();
                        Ok(())
                    },
                    |(sink, acceptor), arrival| {
                        acceptor.accept(arrival);
                        write(peers, sink, |sink, waiting| sink.send(waiting, arrival))
                    },
                )
            };
            threads.begin(scope, format!("in-{lane}"), life);
        }
        if let Some(server) = streamed {
            threads.begin(scope, "streams".to_owned(), move || server.run(scope));
        }
        if let (Some(calls), Some(called)) = (&calls, &called) {
            let say = &say;
            let life = move || {
                calls.hold_strangers(scope, called, say);
                Ok(())
            };
            threads.begin(scope, "calls".to_owned(), life);
        }
        up(&device);
        warnings.iter().for_each(|warning| say(warning));
        let status = || Status::of(&device, site.listen.to_string(), begun, cpu_s(), &peers);
        let mut makers: Vec<Box<dyn KeyMaker + '_>> = vec![Box::new(manuals)];
        let heard: Vec<&Outside> = [&heard].into_iter().chain(&siblings_heard).collect();
        let minder = RefCell::new(Minder::new(site, &peers, heard, paths, &dummies));
        if let Some(calls) = &calls {
            let (peers, say, requests, dummies) = (&peers, &say, Vec::new(), &dummies);
            let look_at = Instant::now();
            makers.push(Box::new(Caller { calls, scope, peers, say, dummies, requests, look_at }));
        }
        let mut shared = None;
        let carrier = spoken.map(|(carrier, routes)| {
            let asked = Arc::clone(&routes);
            let own_address = Box::new(move |remote, called| asked.own_address(remote, called));
            let routes_change = Box::new(move || routes.may_have_changed());
            let (keeper, resolve) = (&keeper, &resolve);
            let host = Box::new(move |given: &Assignment| {
                resolve(&given.dns, &given.domains);
                keeper.assign(&given.addresses).map_err(|error| error.to_string())
            });
            let (settings, random) = (ike::settings(site, allowed.legacy), Random::system());
            let negotiated =
                ike::Negotiated { peers: negotiated, settings, random, own_address, routes_change, host };
            let ike = Ike::new(&peers, site, implementations, negotiated, Instant::now());
            let ike = ike::Shared(Rc::new(RefCell::new(ike)));
            shared = Some(ike.clone());
            makers.push(Box::new(ike));
            carrier
        });
        let mut makers = Makers::new(makers, carrier, &peers);
        // If this is refused, a flood takes time from the lanes. The program's own niceness counts, too.
        let niceness = getpriority_process(None).unwrap_or_default() + HOUSEKEEPING_NICENESS;
        let _ = setpriority_process(Some(gettid()), niceness);
        threads.guard("housekeeping", || {
            let is_ended = || {
                if keeper.is_gone() {
                    // Nobody would restore routes that vanish, or remove them at the end.
                    threads.fail("keeping the host's routes", "its process has ended");
                }
                is_ended() || threads.failure().is_some()
            };
            let mind = |now| minder.borrow_mut().look(now, &say);
            let reload = |is_asked: bool, now| {
                let is_asked = is_asked | is_reload_wanted.swap(false, SeqCst);
                let is_wanted = is_asked | files.have_changed(&keeper, now);
                let ike = shared.as_ref();
                let outcome = is_wanted.then(|| reload(&mut files, &keeper, &peers, &minder, ike, now))?;
                // Files that are the same again are worth no words, unless somebody asked.
                let is_worth = is_asked || !matches!(outcome, Ok((_, true)));
                is_worth.then(|| outcome.map(|(words, _)| words))
            };
            keep(&control, &mut makers, &peers, (mind, reload), is_ended, status, &say);
            Ok(())
        });
        // After a failure the closing routes remain.
        if threads.failure().is_none()
            && let Err(error) = keeper.restore()
        {
            threads.fail("taking back what was set", &error.to_string());
        }
        drop(control);
        let failure = threads.failure();
        failure.iter().for_each(|failure| {
            say(&format!("{failure}; `sealane tunnel down {device}` takes away what is left on this host"));
        });
        // The lanes sleep in system calls on descriptors that are closed only when the process ends.
        process::exit(i32::from(failure.is_some()))
    })
}

/// Reads a gateway's files again, and carries out what has changed. Returns words for the operator, and whether nothing has
/// changed.
fn reload(
    files: &mut Files,
    keeper: &Keeper,
    peers: &Peers,
    minder: &RefCell<Minder<'_>>,
    ike: Option<&ike::Shared<'_>>,
    now: Instant,
) -> Result<(Vec<String>, bool), String> {
    let (changes, words) = files.read(keeper, &mut LivePlaces(peers))?;
    changes.removed.iter().for_each(|&id| peers.set_removed(id, true));
    peers.database().set_policies(policies(files.peers()));
    minder.borrow_mut().follow(&changes);
    let is_empty = changes.is_empty();
    ike.iter().for_each(|ike| ike.0.borrow_mut().reload(changes.clone(), now));
    Ok((words, is_empty))
}

/// The places of a running gateway's peers.
struct LivePlaces<'a>(&'a Peers);

impl Places for LivePlaces<'_> {
    fn room(&self) -> usize {
        self.0.room()
    }

    fn add(&mut self, peer: &PeerSite) -> PeerId {
        self.0.add(peer).expect("the room was asked for")
    }

    fn restore(&mut self, id: PeerId) {
        self.0.set_removed(id, false);
    }
}

/// Returns sockets beside `outside` for the lines of peers, as many as make a power of two with it.
fn siblings(outside: &Outside, peers: usize, mark: Option<u32>) -> Vec<Outside> {
    // A few more, for peers that are added to the running gateway.
    let lines = (peers + SPARE_LINES).next_power_of_two().min(LINES_MAX);
    let siblings = outside.siblings(lines - 1, mark);
    if siblings.len() + 1 == lines { siblings } else { Vec::new() }
}

/// The lines for peers that are added to a running gateway.
const SPARE_LINES: usize = 4;

/// The packets that wait for the device.
struct Waiting<'a> {
    peers: &'a Peers,
    waits: &'a AtomicBool,
}

impl<'a> Behind<(Sink, Acceptor<'a>)> for Waiting<'_> {
    fn waits(&self) -> bool {
        self.waits.load(Relaxed)
    }

    fn serve(&mut self, (sink, _): &mut (Sink, Acceptor<'a>)) -> io::Result<()> {
        write(self.peers, sink, Sink::serve)
    }
}

/// Writes packets into the device, and counts those that it does not take.
fn write(
    peers: &Peers,
    sink: &mut Sink,
    how: impl FnOnce(&mut Sink, &Counters) -> io::Result<()>,
) -> io::Result<()> {
    let ([_, waiting], refused) = (peers.waiting(), sink.refused_packets());
    how(sink, waiting).map_err(while_doing("writing to the device"))?;
    peers.drops().add(DropReason::NoRoom, sink.refused_packets() - refused);
    Ok(())
}

/// Listens for calls of peers.
fn listen(at: SocketAddr, mark: Option<u32>) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(at)?;
    // The connections inherit the mark.
    mark.map_or(Ok(()), |mark| sealane_port::set_mark(&listener, mark))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Makes associations by calls.
struct Caller<'scope, 'env, 'peers, 'here, S> {
    calls: &'scope Calls<'peers>,
    scope: &'scope thread::Scope<'scope, 'env>,
    peers: &'scope Peers,
    say: &'scope S,
    dummies: &'here RefCell<Dummies>,
    requests: Vec<Request>,
    /// The time of the next check of the traffic by the peers' keys.
    look_at: Instant,
}

impl<S: Fn(&str) + Sync> KeyMaker for Caller<'_, '_, '_, '_, S> {
    fn request(&mut self, request: Request, _: Instant) {
        self.requests.push(request);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.look_at)
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.look_at = now + TICK;
        for peer in self.calls.poll(self.scope, &self.requests, now, self.say) {
            // The lanes detect errors of the socket.
            let _ = self.dummies.borrow_mut().send(self.peers, peer);
        }
        self.requests.clear();
    }
}

/// The housekeeper's tasks for peers, except for keys: it measures paths, looks up names, keeps NATs' mappings, and
/// logs changes.
struct Minder<'here> {
    peers: &'here Peers,
    /// The sockets, which report packets that were too long.
    outsides: Vec<&'here Outside>,
    paths: Paths,
    dummies: &'here RefCell<Dummies>,
    names: Names,
    news: News,
    keep_alives: Vec<KeepAlive>,
}

impl<'here> Minder<'here> {
    fn new(
        site: &Site,
        peers: &'here Peers,
        outsides: Vec<&'here Outside>,
        paths: Paths,
        dummies: &'here RefCell<Dummies>,
    ) -> Self {
        let keep_alives = vec![KeepAlive::default(); site.peers.len()];
        let (names, news) = (Names::new(site), News::new(peers, site.encapsulation));
        Self { peers, outsides, paths, dummies, names, news, keep_alives }
    }

    /// Notes which peers have come and gone.
    fn follow(&mut self, changes: &Changes) {
        changes.removed.iter().for_each(|&id| self.names.remove(id));
        changes.added.iter().for_each(|(id, peer, _)| self.names.add(*id, peer));
        self.keep_alives.resize_with(self.peers.iter().count(), KeepAlive::default);
    }

    fn look(&mut self, now: Instant, say: impl Fn(&str)) {
        self.peers.waiting().into_iter().for_each(Counters::pass);
        self.paths.look(self.peers, now);
        self.outsides.iter().for_each(|outside| self.paths.hear(self.peers, outside, now));
        self.news.look(self.peers, now, &say);
        self.names.look(self.peers, now, &say);
        for ((id, peer), keep_alive) in self.peers.iter().zip(&mut self.keep_alives) {
            if keep_alive.is_due(peer.keep_alive(), peer.sent.read().0, now) {
                // The lanes detect errors of the socket.
                let _ = self.dummies.borrow_mut().keep_alive(self.peers, id);
            }
        }
    }
}

/// Returns the calls for peers that are known by their keys, if there are such peers.
fn calls<'a>(
    site: &Site,
    identity: Option<&Path>,
    implementations: Implementations,
    peers: &'a Peers,
    lanes: &'a Lanes,
) -> Result<Option<Calls<'a>>, GatewayError> {
    if !site.peers.iter().any(|peer| matches!(peer.keys, Keys::Peer(_))) {
        return Ok(None);
    }
    let path = site.identity.as_deref().or(identity).ok_or(PeerError::NoConfigDir)?;
    let identity = Identity::load_or_create(path)?;
    refuse_own_key(site, &identity, path)?;
    Ok(Some(Calls::new(site, identity, implementations, peers, lanes)))
}

/// Checks that no peer of `site` has this gateway's own key, which is in the file `path`.
///
/// # Errors
/// Fails if a peer has it.
pub fn refuse_own_key(site: &Site, identity: &Identity, path: &Path) -> Result<(), GatewayError> {
    let own = identity.public_key();
    let is_own = |peer: &&PeerSite| matches!(&peer.keys, Keys::Peer(keys) if keys.key == own);
    match site.peers.iter().find(is_own) {
        Some(peer) => Err(GatewayError::OwnKey { peer: peer.name.clone(), identity: path.to_owned() }),
        None => Ok(()),
    }
}

/// Returns the CPU time of this process in seconds.
fn cpu_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Runs the housekeeper, which answers questions and has keys made until the gateway is to end.
fn keep(
    control: &Listener,
    makers: &mut Makers<'_>,
    peers: &Peers,
    (mut mind, mut reload): (
        impl FnMut(Instant),
        impl FnMut(bool, Instant) -> Option<Result<Vec<String>, String>>,
    ),
    is_ended: impl Fn() -> bool,
    status: impl Fn() -> Status,
    say: impl Fn(&str),
) {
    let (mut is_ending, mut is_more) = (false, false);
    let mut mind_at = Instant::now();
    let tell = |outcome: &Result<Vec<String>, String>| match outcome {
        Ok(words) => words.iter().for_each(|words| say(words)),
        Err(error) => say(&format!("nothing is changed: {error}")),
    };
    while !is_ending && !is_ended() {
        let bells = peers.bells();
        bells.announce(0);
        let is_waiting = is_more || peers.mailbox().is_some_and(|mailbox| !mailbox.is_empty());
        let until = makers.poll_timeout().map_or(mind_at, |at| at.min(mind_at));
        let wait = match is_waiting {
            true => Duration::ZERO,
            false => until.saturating_duration_since(Instant::now()),
        };
        let socket = control.listener().as_fd();
        let [ike, other] = makers.carrier().map(Carrier::fds).unwrap_or_default();
        let all = [Some(socket), Some(bells.fd(0)), ike, other];
        let mut polled = all.map(|fd| PollFd::from_borrowed_fd(fd.unwrap_or(socket), PollFlags::IN));
        let count = all.iter().flatten().count();
        // A poll that fails is repeated.
        let is_polled = sealane_lanes::wait(&mut polled[..count], wait).unwrap_or_default();
        let is_ready = |at: usize| is_polled && !polled[at].revents().is_empty();
        let (is_asked, is_rung) = (is_ready(0), is_ready(1));
        bells.awake(0);
        if is_asked {
            control.answer(|ask| match ask {
                Ask::Status => Answer::Status(status()),
                Ask::Reload => {
                    let outcome = reload(true, Instant::now()).unwrap_or_else(|| Ok(Vec::new()));
                    tell(&outcome);
                    match outcome {
                        Ok(words) => Answer::Reloaded(words),
                        Err(error) => Answer::Refused(error),
                    }
                }
                Ask::Down => {
                    is_ending = true;
                    Answer::Ending
                }
            });
        }
        let now = Instant::now();
        let is_due = now >= mind_at;
        if is_due {
            mind_at = now + TICK;
            mind(now);
            reload(false, now).iter().for_each(tell);
            peers.database().request_due(now);
        }
        if is_due || is_rung {
            makers.hand_on_requests(now);
        }
        is_more = makers.turn(now, &say);
    }
    makers.close(&say);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_suites_have_more_lanes_and_half_of_the_cpus_at_most() {
        for (byte_ns, cpus, lanes) in
            [(0.15, 16, 1), (0.5, 16, 2), (2.2, 16, 8), (90.0, 16, 8), (2.2, 4, 2), (2.2, 2, 1), (2.2, 1, 1)]
        {
            assert_eq!(lanes_for(byte_ns, cpus), lanes, "{byte_ns} ns per byte on {cpus} CPUs");
        }
    }
}
