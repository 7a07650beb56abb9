//! A gateway: a device, a socket, and the lanes between them.
//!
//! Guarantees: packets of one direction leave in the order of their arrival, whatever the number of lanes; a lane
//! without work sleeps in the kernel; lanes run before the housekeeper; queues between lanes are bounded; when the
//! process ends in order, or does not start, nothing is left behind; when it ends otherwise, the routes that keep
//! packets from leaving in clear remain.

mod directions;
mod ends;
mod housekeeping;

use std::{
    cell::RefCell,
    io,
    net::{IpAddr, SocketAddr},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
    time::Instant,
};

use rustix::{
    process::{getpriority_process, setpriority_process},
    thread::gettid,
};
use sealane_engine::{Engine, EngineChoice, Implementations};
use sealane_ipsec::{key_maker::KeyMaker, policy::PeerId, suite::Suite};
use sealane_lanes::Bells;
use sealane_peer::{Identity, PeerError};
use sealane_port::tun::{Options, Tun};

use self::{
    directions::Directions,
    ends::{Ends, Parties},
    housekeeping::{Caller, Minder, keep, reload, speak_ike},
};
use crate::{
    control::{self, Listener},
    discovery::Paths,
    host::{HostError, Wanted, keeper::Keeper},
    keying::{
        calls::Calls,
        carrier::IKE_PORT,
        ike::{self, IkeError},
        makers::Makers,
    },
    lanes::Lanes,
    manual::{Allowed, ManualError, Manuals},
    names,
    outward::{self, Dummies},
    peers::Peers,
    pipeline::LOADS,
    privilege,
    reload::Files,
    site::{Keys, PeerSite, Site},
    status::Status,
    streams::{Inward, Server, Streams},
    watched::Watched,
};

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
        io::ErrorKind::InvalidInput => {
            "; if somebody has made it before, it was made for one queue, or for several: remove it, or change `queues`"
        }
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
/// returns true. Until `take_signals` is called, the process can be ended without leaving anything behind; from then on the
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
    take_signals: impl FnOnce(),
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
    let queues = site.queues.get().into();
    let options = Options { room: outward::room(site), queues, ..Options::new(&site.device) };
    let tuns = Tun::open_queues(&options).map_err(tun_error)?;
    let device = tuns.1.name().to_owned();
    let wanted = Wanted::of(site, &device);
    let mark = wanted.mark();
    let calls = calls.map(|calls| if mark.is_some() { calls.marked_by(&keeper) } else { calls });
    control::make_folder(control_folder).map_err(GatewayError::Control)?;
    let warnings = keeper.set_up(&wanted, control_folder)?;
    let parties = Parties { have_calls: calls.is_some(), speak_ike: !negotiated.is_empty(), tcp_ports, mark };
    let Ends { handles, from_streams, heard, dummies, called, streams, spoken } =
        Ends::open(site, tuns, parties)?;
    let paths = Paths::new(mark, begun);
    // The device is ours, so no other gateway creates this socket.
    let bind = || Listener::bind(control_folder, &site.device).map_err(GatewayError::Control);
    let account = privilege::account().map_err(GatewayError::Privileges)?;
    // Another user is not allowed to create a socket in root's folder.
    let bound = account.map(|_| bind()).transpose()?;
    privilege::give_up(account).map_err(GatewayError::Privileges)?;
    let engine = engine.make(implementations).map_err(GatewayError::Engine)?;
    let lanes = lanes.map_or_else(|| lanes_of(site, &*engine), NonZeroUsize::get);
    let mut directions = Directions::new(handles, &peers, &*engine, lanes).map_err(GatewayError::Engine)?;
    let queue = engine.queue(NonZeroUsize::MIN).map_err(GatewayError::Engine)?;
    let dummies = RefCell::new(Dummies::new(queue, dummies, site));
    let streamed = match peers.streams() {
        Some(all) => {
            let queue = engine.queue(LOADS).map_err(GatewayError::Engine)?;
            let inward = Inward::new(&peers, queue, from_streams);
            let marks = mark.map(|_| &keeper);
            Some(Server::new(&peers, all, streams, marks, &threads, inward))
        }
        None => None,
    };
    take_signals();
    // A gateway that keeps its user creates the socket only now, so that an earlier signal leaves none behind.
    let control = bound.map_or_else(bind, Ok)?;
    keeper.keep()?;
    thread::scope(|scope| {
        directions.begin(scope, &threads, site.listen.ip());
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
        let minder = RefCell::new(Minder::new(site, &peers, &heard, paths, &dummies));
        let mut makers: Vec<Box<dyn KeyMaker + '_>> = vec![Box::new(manuals)];
        if let Some(calls) = &calls {
            makers.push(Box::new(Caller::new(calls, scope, &peers, &say, &dummies)));
        }
        let (carrier, routes) = spoken.unzip();
        let negotiated = (negotiated, allowed.legacy);
        let ike = routes
            .map(|routes| speak_ike(site, (&peers, implementations), negotiated, routes, &keeper, &resolve));
        makers.extend(ike.iter().map(|ike| Box::new(ike.clone()) as _));
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
                let outcome =
                    is_wanted.then(|| reload(&mut files, &keeper, &peers, &minder, ike.as_ref(), now))?;
                // Files that are the same again are worth no words, unless somebody asked.
                let is_worth = is_asked || !matches!(outcome, Ok((_, true)));
                is_worth.then(|| outcome.map(|(words, _)| words))
            };
            let status = || Status::of(&device, site.listen.to_string(), begun, cpu_s(), &peers);
            keep(&control, &mut makers, &peers, (mind, reload), is_ended, status, &say);
            Ok(())
        });
        drop(control);
        end(&threads, &keeper, &device, &say)
    })
}

/// Takes back what the gateway has set on the host, and ends the process: lanes sleep in system calls on descriptors that are closed
/// only then. After a failure the routes remain that close the way for packets in clear.
fn end(threads: &Lanes, keeper: &Keeper, device: &str, say: impl Fn(&str)) -> ! {
    if threads.failure().is_none()
        && let Err(error) = keeper.restore()
    {
        threads.fail("taking back what was set", &error.to_string());
    }
    let failure = threads.failure();
    failure.iter().for_each(|failure| {
        say(&format!("{failure}; `sealane tunnel down {device}` takes away what is left on this host"));
    });
    process::exit(i32::from(failure.is_some()))
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
