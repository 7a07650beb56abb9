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
    net::{IpAddr, SocketAddr, TcpListener},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::atomic::AtomicBool,
    thread,
    time::Instant,
};

use sealane_engine::{Engine, EngineChoice, Implementations};
use sealane_ipsec::{key_maker::KeyMaker, policy::PeerId, suite::Suite};
use sealane_lanes::Bells;
use sealane_peer::{Identity, PeerError};
use sealane_port::tun::{Options, Tun};

use self::{
    directions::Directions,
    ends::{Ends, Parties},
    housekeeping::{Caller, Housekeeper, Minder, speak_ike},
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
    let Settings { site, is_reload_wanted, lanes, allowed, implementations, .. } = *settings;
    let Settings { engine, control_folder, identity, .. } = *settings;
    let begun = Instant::now();
    control::refuse_second(control_folder, &site.device).map_err(GatewayError::Control)?;
    let peers = peers(site, begun)?;
    let threads = Lanes::default();
    let (negotiated, files) = read_files(settings, begun)?;
    let manuals = manuals(settings, &peers, begun)?;
    // The keeper is started first, before there is anything that it could inherit. It is dropped last, so a gateway
    // that does not start leaves nothing behind.
    let keeper = start_keeper(settings)?;
    let calls = calls(site, identity, implementations, &peers, &threads)?;
    names::look_up_first(site, &peers);
    let (device, tuns) = open_device(site)?;
    let (mark, warnings) = set_up_host(site, &device, &keeper, control_folder)?;
    let calls = calls.map(|calls| if mark.is_some() { calls.marked_by(&keeper) } else { calls });
    let parties = Parties { have_calls: calls.is_some(), speak_ike: !negotiated.is_empty(), mark };
    let Ends { handles, from_streams, heard, dummies, called, streams, spoken } =
        Ends::open(site, tuns, parties)?;
    let paths = Paths::new(mark, begun);
    // The device is ours, so no other gateway creates this socket.
    let bind = || Listener::bind(control_folder, &site.device).map_err(GatewayError::Control);
    let bound = give_up_privileges(bind)?;
    let engine = engine.make(implementations).map_err(GatewayError::Engine)?;
    let lanes = lanes.map_or_else(|| lanes_of(site, &*engine), NonZeroUsize::get);
    let mut directions = Directions::new(handles, &peers, &*engine, lanes).map_err(GatewayError::Engine)?;
    let queue = engine.queue(NonZeroUsize::MIN).map_err(GatewayError::Engine)?;
    let dummies = RefCell::new(Dummies::new(queue, dummies, site));
    let streamed = server(&peers, &*engine, (streams, from_streams), mark.map(|_| &keeper), &threads)?;
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
            begin_calls(scope, &threads, calls, called, &say);
        }
        up(&device);
        warnings.iter().for_each(|warning| say(warning));
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
        let housekeeper = Housekeeper {
            control: &control,
            keeper: &keeper,
            peers: &peers,
            threads: &threads,
            files,
            is_reload_wanted,
            minder: Minder::new(site, &peers, &heard, paths, &dummies),
            ike,
        };
        let status = || Status::of(&device, site.listen.to_string(), begun, cpu_s(), &peers);
        threads.guard("housekeeping", || {
            housekeeper.keep(&mut makers, is_ended, status, &say);
            Ok(())
        });
        drop(control);
        end(&threads, &keeper, &device, &say)
    })
}

/// Returns the state of the peers of `site`, with the streams by which they may come.
fn peers(site: &Site, begun: Instant) -> Result<Peers, GatewayError> {
    let peers = Peers::new(site, begun, Bells::new(1).map_err(GatewayError::Lane)?);
    match site.tcp_ports().is_empty() {
        true => Ok(peers),
        false => Ok(peers.with_streams(Streams::new().map_err(GatewayError::Lane)?)),
    }
}

/// Reads the files that the site file names. Returns the peers that negotiate, and the files for when they change.
fn read_files(
    settings: &Settings<'_>,
    begun: Instant,
) -> Result<(Vec<(PeerId, sealane_ike::Peer)>, Files), GatewayError> {
    let Settings { site, path, identity, .. } = *settings;
    let (negotiated, contents) = ike::configured(site, identity)?;
    Ok((negotiated, Files::new(path, identity, site, &contents, begun)))
}

/// Returns the maker of the associations whose keys come from files, which it has installed.
fn manuals(settings: &Settings<'_>, peers: &Peers, begun: Instant) -> Result<Manuals, GatewayError> {
    let mut manuals = Manuals::default();
    for (id, peer) in (0..).map(PeerId).zip(&settings.site.peers) {
        manuals.install(settings.implementations, peers, id, peer, settings.allowed, begun)?;
    }
    Ok(manuals)
}

/// Starts the process that keeps the host's state, and tells it which files the gateway reads again.
fn start_keeper(settings: &Settings<'_>) -> Result<Keeper, GatewayError> {
    let Settings { site, path, identity, keeper, .. } = *settings;
    let keeper = Keeper::start(keeper()).map_err(GatewayError::Keeper)?;
    keeper.watch(&Watched::new(path, site, identity))?;
    Ok(keeper)
}

/// Opens the queues of the device. Returns its name, and the handles that read and the one that writes.
fn open_device(site: &Site) -> Result<(String, (Vec<Tun>, Tun)), GatewayError> {
    let queues = site.queues.get().into();
    let options = Options { room: outward::room(site), queues, ..Options::new(&site.device) };
    let tuns = Tun::open_queues(&options)
        .map_err(|source| GatewayError::Tun { device: site.device.clone(), source })?;
    Ok((tuns.1.name().to_owned(), tuns))
}

/// Has the keeper set on the host what the site wants beside its device. Returns the mark that packets carry outside, if they carry one,
/// and warnings for the operator.
fn set_up_host(
    site: &Site,
    device: &str,
    keeper: &Keeper,
    control_folder: &Path,
) -> Result<(Option<u32>, Vec<String>), GatewayError> {
    let wanted = Wanted::of(site, device);
    control::make_folder(control_folder).map_err(GatewayError::Control)?;
    Ok((wanted.mark(), keeper.set_up(&wanted, control_folder)?))
}

/// Gives the capabilities up, and becomes the other user if there is one for gateways: then the control socket is returned, which that
/// user is not allowed to create in root's folder.
fn give_up_privileges(
    bind: impl FnOnce() -> Result<Listener, GatewayError>,
) -> Result<Option<Listener>, GatewayError> {
    let account = privilege::account().map_err(GatewayError::Privileges)?;
    let bound = account.map(|_| bind()).transpose()?;
    privilege::give_up(account).map_err(GatewayError::Privileges)?;
    Ok(bound)
}

/// Returns the server of the peers' streams, if any may come: they come at the listeners, and their packets go to the device.
fn server<'a>(
    peers: &'a Peers,
    engine: &dyn Engine,
    (listeners, device): (Vec<TcpListener>, Tun),
    marks: Option<&'a Keeper>,
    threads: &'a Lanes,
) -> Result<Option<Server<'a>>, GatewayError> {
    let Some(streams) = peers.streams() else { return Ok(None) };
    let queue = engine.queue(LOADS).map_err(GatewayError::Engine)?;
    let inward = Inward::new(peers, queue, device);
    Ok(Some(Server::new(peers, streams, listeners, marks, threads, inward)))
}

/// Starts the thread that takes calls at `called`.
fn begin_calls<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    threads: &'scope Lanes,
    calls: &'scope Calls<'_>,
    called: &'scope TcpListener,
    say: &'scope (impl Fn(&str) + Sync),
) {
    let life = move || {
        calls.hold_strangers(scope, called, say);
        Ok(())
    };
    threads.begin(scope, "calls".to_owned(), life);
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
