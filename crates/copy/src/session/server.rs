//! The far side of a transfer.
//!
//! Guarantees: a request is checked before anything is opened; the client gets the reason of a refusal.

mod asked;

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use crossbeam_channel::{Sender, bounded};
use sealane_engine::{Implementations, Inline};
use sealane_lanes::{CpuClock, Limiter};
use sealane_peer::Channel;

use crate::{
    error::{Error, ErrorKind},
    names,
    options::{MeasuredEnd, ModeRules},
    proto::{
        join::Prover,
        keys::TransferKeys,
        message::{Accept, DataPath, Hello, LANES_MAX, Message, Numbers, Request, Role},
    },
    receive::permit::Permit,
    send::work::PACK_ENTRIES,
    session::{
        accept::{Expected, Registry, bind},
        agree::{self, Policy},
        budget::{Budget, Reservation},
        carriage::{Carriage, Part},
        control::{Control, Notices},
        door::{self, Bounds, NoReception},
        line::Lines,
        messages,
        open::watch,
        sending::SendingSide,
    },
    shared::Threads,
    summary::{Notice, Progress},
    transfer::{
        NOTICES_MAX,
        ends::{FLIGHT_BYTES, Plan, open_files_max},
        filters::walk_options,
        outcome::Outcome,
        place::{Confinement, ResolvedTarget, Sought},
        receiving::{ReceivingSide, this_boot},
        terms::Terms,
    },
};

use asked::{Asked, rights, target, terms};

/// The number of simultaneous unproved connections to a transfer's own port.
const STRANGERS_MAX: usize = 128;
const JOIN_TIMEOUT: Duration = Duration::from_secs(10);
/// The number of descriptors that every transfer opens: its channel, bells, journal, lock and folders.
const CHANNEL_DESCRIPTORS: usize = 16;
/// The number of descriptors that a lane keeps open: a bell, its most recent folders, a file.
const LANE_DESCRIPTORS: usize = 12;
/// The number of descriptors that a walk keeps open.
const WALK_DESCRIPTORS: usize = 32;
/// The address space of a thread, with the reserve of its allocator.
const THREAD_BYTES: usize = 4 << 20;
/// The number of threads of a transfer besides its lanes.
const THREADS: usize = 5;
/// The memory of a transfer besides buffers and threads.
const SPARE_BYTES: usize = 32 << 20;
/// The number of files that a peer may have begun even if descriptors are scarce.
const OPEN_FILES_MIN: usize = 64;
/// The shortest timeout, whatever the client requests, unless the operator's is shorter.
const TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// The rules of a server for one transfer.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) policy: Policy,
    pub(crate) may_read: bool,
    pub(crate) may_write: bool,
    pub(crate) confinement: Option<Confinement>,
    /// The common limiter of all transfers of the peer.
    pub(crate) rate: Option<Arc<Limiter>>,
    pub(crate) timeout_max: Duration,
    /// The implementations of the cipher suites.
    pub(crate) implementations: Implementations,
    /// The owner of the journals: a name given by one peer never refers to another's journal.
    pub(crate) peer: Option<[u8; 32]>,
    pub(crate) modes: ModeRules,
    /// The peer may set the owners of its files.
    pub(crate) may_own: bool,
    /// The peer may make devices, pipes and sockets.
    pub(crate) may_make_specials: bool,
    /// The peer may set extended attributes of `security.` and `trusted.`.
    pub(crate) may_set_privileges: bool,
    /// The peer may delete entries that its source does not have.
    pub(crate) may_delete: bool,
}

impl Rules {
    /// Returns the name of the journal here for the name that the peer gives.
    fn journal(&self, asked: [u8; 16]) -> [u8; 16] {
        let Some(peer) = &self.peer else { return this_boot(asked) };
        let mut own = [0; 16];
        blake3::Hasher::new_keyed(peer).update(&asked).finalize_xof().fill(&mut own);
        this_boot(own)
    }
}

/// The ways in which a server accepts data streams.
pub(crate) enum Doors<'a> {
    /// A separate listener for each transfer, on the address by which the client reached this host, if known.
    Own { reached: Option<IpAddr> },
    /// The daemon's listener, which finds transfers in the registry, and the daemon's descriptors, of which each
    /// transfer reserves some.
    Shared { registry: &'a Registry, port: u16, budget: &'a Budget },
}

/// The facts of a transfer for a log.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) role: Option<Role>,
    pub(crate) paths: Vec<Vec<u8>>,
    pub(crate) terms: Option<Terms>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) outcome: Option<Outcome>,
}

/// Serves one transfer over an open channel.
pub(crate) fn serve(
    channel: &mut Channel,
    rules: &Rules,
    doors: &Doors<'_>,
    account: &mut Account,
) -> Result<(), Error> {
    messages::send(channel, &agree::hello())?;
    let deadline = Instant::now() + rules.timeout_max;
    let hello = agree::greet(messages::receive(channel, deadline)?.0)?;
    let served = serve_greeted(channel, &hello, rules, doors, account);
    if let Err(error) = &served {
        messages::abort(channel, error);
    }
    served
}

fn serve_greeted(
    channel: &mut Channel,
    hello: &Hello,
    rules: &Rules,
    doors: &Doors<'_>,
    account: &mut Account,
) -> Result<(), Error> {
    let asked = Asked::receive(channel, Instant::now() + rules.timeout_max)?;
    let request = &asked.request;
    account.role = Some(request.role);
    account.paths.clone_from(&request.paths);
    let terms = terms(request, hello, rules, doors)?;
    account.terms = Some(terms);
    rights(request, rules)?;
    check_privileges(request, rules)?;
    names::check(&request.numbers)?;
    let mut plan = plan(request, &terms, hello, rules);
    if request.role == Role::Pull {
        plan.changes = Arc::new(names::changes(&plan.wishes.preserve, &request.numbers, &request.transfer)?);
    }
    let _reservation = reserve(channel, request, &mut plan, rules, doors)?;
    spare_memory(&plan)?;
    let deadline = Instant::now() + rules.timeout_max;
    let place = target(request, rules)?;
    let entrance = Entrance::open(request, doors)?;
    // This precedes the answer: the client's streams may arrive very quickly.
    let registration = entrance
        .registry
        .announce(request.transfer)
        .ok_or_else(|| Error::protocol("the transfer's name is in use"))?;
    let accept = accept(request, &plan, rules, place.as_ref(), entrance.port);
    let keys = answer(channel, &asked, rules, accept, deadline)?;
    plan.folders_key = Some(keys.folders());
    plan.delta_key = Some(keys.delta());
    let join_key = keys.join();
    let prover = Prover::new(&join_key, terms.level);
    let (notices, pending) = bounded(NOTICES_MAX);
    let part = entrance.own.as_ref().and_then(own_port).map_or(Part::None, Part::PassesOn);
    let mut control = Control {
        channel,
        notices: Notices::Peer,
        pending,
        progress: account.progress.clone(),
        timeout: plan.wishes.timeout,
        clock: CpuClock::default(),
        told: Vec::new(),
        far: None,
        hears_changes: false,
        removes_sources: plan.removes_sources(),
        ends_first: matches!(doors, Doors::Own { .. }) && !request.relayed && !plan.removes_sources(),
        prune: None,
        carriage: Carriage::new(part),
    };
    let timeout = plan.wishes.timeout;
    let keep = move |lines: &Lines| {
        let expected = registration.expect(lines.clone(), keys, prover);
        entrance.keep(lines, timeout, &expected);
    };
    let outcome = match request.role {
        Role::Push => receiving_side(&asked, &plan, rules, place, notices).run(&mut control, keep)?,
        Role::Pull => sending_side(&asked, &plan, rules, notices)?.run(&mut control, keep)?,
    };
    account.outcome = Some(outcome);
    Ok(())
}

/// The place where data streams arrive.
struct Entrance {
    /// The listener of this transfer alone, if it has one.
    own: Option<TcpListener>,
    registry: Registry,
    port: u16,
}

impl Entrance {
    fn open(request: &Request, doors: &Doors<'_>) -> Result<Self, Error> {
        let reached = match doors {
            Doors::Shared { registry, port, .. } => {
                return Ok(Self { own: None, registry: (*registry).clone(), port: *port });
            }
            Doors::Own { reached } => *reached,
        };
        let own =
            bind(own_address(request.data_path, reached), request.wishes.data_ports).map_err(|error| {
                Error::new(ErrorKind::Connect, format!("cannot listen for data streams: {error}"))
            })?;
        let registry =
            Registry::new().map_err(|error| Error::io("cannot make an event descriptor", &error))?;
        let port = own.local_addr().map_or(0, |address| address.port());
        Ok(Self { own: Some(own), registry, port })
    }

    /// Admits streams until the transfer is over.
    fn keep(&self, lines: &Lines, timeout: Duration, expected: &Expected) {
        let mut newest = vec![0; usize::from(lines.count())];
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            if let Some(listener) = &self.own {
                let is_over = &is_over;
                let threads = Threads::new(scope, lines.stop(), lines.bells());
                threads.start("door", move || {
                    listen(listener, &self.registry, lines, || is_over.load(SeqCst));
                });
            }
            watch(lines, timeout, || expected.take_up(&mut newest));
            is_over.store(true, SeqCst);
            self.registry.ring();
        });
    }
}

/// Reserves descriptors of a daemon, and bounds the files that the peer may have begun by its share of them.
fn reserve<'a>(
    channel: &mut Channel,
    request: &Request,
    plan: &mut Plan,
    rules: &Rules,
    doors: &Doors<'a>,
) -> Result<Option<Reservation<'a>>, Error> {
    let Doors::Shared { budget, .. } = doors else { return Ok(None) };
    let peer = rules.peer.unwrap_or_default();
    plan.open_files_max = plan.open_files_max.min((budget.share() / 4).max(OPEN_FILES_MIN));
    let need = descriptors(request, plan, budget.share());
    budget.reserve(peer, need, || wait(channel)).map(Some)
}

/// Answers that the request is accepted. Returns the keys, which depend on the bytes of both messages.
fn answer(
    channel: &mut Channel,
    asked: &Asked,
    rules: &Rules,
    accept: Accept,
    deadline: Instant,
) -> Result<TransferKeys, Error> {
    let accept_frame = Message::Accept(accept).encode();
    let Asked { request, frame, .. } = asked;
    let master = agree::master(channel, request)?;
    let keys = match request.relayed {
        true => TransferKeys::relayed(rules.implementations, &master, &request.transfer),
        false => TransferKeys::new(rules.implementations, &master, frame, &accept_frame),
    };
    channel.send(&accept_frame, deadline)?;
    Ok(keys)
}

fn accept(
    request: &Request,
    plan: &Plan,
    rules: &Rules,
    place: Option<&ResolvedTarget>,
    data_port: u16,
) -> Accept {
    let terms = &plan.terms;
    Accept {
        level: terms.level,
        suite: terms.suite.code(),
        streams: terms.streams,
        streams_max: terms.streams_max,
        lanes: terms.lanes,
        compression: terms.compression,
        delta: terms.delta,
        data_port,
        name: place.and_then(|place| place.name.clone()),
        may_own: may_own(rules),
        may_set_privileges: may_set_privileges(rules),
        numbers: match request.role {
            Role::Push if rules.may_own && plan.wishes.preserve.asks_for_numbers() => {
                names::told(&request.transfer)
            }
            _ => Numbers::default(),
        },
    }
}

fn receiving_side<'a>(
    asked: &'a Asked,
    plan: &'a Plan,
    rules: &Rules,
    place: Option<ResolvedTarget>,
    notices: Sender<Notice>,
) -> ReceivingSide<'a> {
    let request = &asked.request;
    let names = request.names.iter().map(Vec::as_slice);
    let name = place.as_ref().and_then(|place| place.name.as_deref());
    let (recursive, hard_links) = (request.wishes.recursive, request.wishes.preserve.hard_links);
    let permit = match &asked.listed {
        Some(listed) => Permit::listed(listed, recursive, hard_links),
        // Between two servers, only the sender knows the matches of patterns.
        None if name.is_none() && request.globs => Permit::matching(names, recursive, hard_links),
        None if name.is_none() && request.names.is_empty() => Permit::unnamed(recursive, hard_links),
        None => Permit::new(name, names, recursive, hard_links),
    };
    ReceivingSide {
        plan,
        permit: permit.with_specials(request.wishes.preserve.specials),
        modes: rules.modes,
        may_own: rules.may_own,
        place,
        standard_output: None,
        notices,
    }
}

fn sending_side<'a>(
    asked: &'a Asked,
    plan: &'a Plan,
    rules: &'a Rules,
    notices: Sender<Notice>,
) -> Result<SendingSide<'a>, Error> {
    let request = &asked.request;
    let sought = Sought {
        paths: &request.paths,
        name: request.name.as_deref(),
        following: request.wishes.following,
        globs: request.globs,
        listed: asked.listed.as_deref(),
    };
    let walk = walk_options(plan)?;
    let confinement = rules.confinement.as_ref();
    Ok(SendingSide { plan, sought, confinement, walk, standard_input: false, notices })
}

/// Sends a client the message that it must wait, and checks whether it still does.
fn wait(channel: &mut Channel) -> Result<(), Error> {
    messages::send(channel, &Message::Waiting)?;
    match channel.recv(Instant::now())?.map(|frame| Message::decode(&frame)) {
        None => Ok(()),
        Some(Ok(Message::Abort(abort))) => Err(abort.into()),
        Some(_) => Err(Error::protocol("the client speaks out of turn")),
    }
}

/// Refuses a transfer if memory is insufficient: running out of it later would end the process.
fn spare_memory(plan: &Plan) -> Result<(), Error> {
    let need = FLIGHT_BYTES + THREAD_BYTES * (usize::from(plan.terms.lanes) + THREADS) + SPARE_BYTES;
    Vec::<u8>::new().try_reserve_exact(need).map_err(|_| {
        let message =
            format!("there is no memory here for one more transfer, which takes up to {need} bytes");
        Error::new(ErrorKind::Refused, message)
    })
}

/// Returns the maximum number of descriptors that a transfer opens, limited to its share: if that is too small,
/// single files fail.
fn descriptors(request: &Request, plan: &Plan, share: usize) -> usize {
    let lanes = usize::from(plan.terms.lanes);
    let streams = usize::from(plan.terms.streams_max);
    let files = match request.role {
        Role::Push => plan.open_files_max,
        Role::Pull => WALK_DESCRIPTORS + lanes * PACK_ENTRIES,
    };
    let fixed = CHANNEL_DESCRIPTORS + streams + 2 * request.paths.len();
    fixed + (files + lanes * LANE_DESCRIPTORS).min(share.saturating_sub(fixed))
}

/// Returns the address at which this host reaches its own listener.
fn own_port(listener: &TcpListener) -> Option<SocketAddr> {
    let mut address = listener.local_addr().ok()?;
    if address.ip().is_unspecified() {
        address.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    Some(address)
}

fn listen(listener: &TcpListener, registry: &Registry, lines: &Lines, is_over: impl Fn() -> bool) {
    // The port belongs to one client, whose streams arrive all at once.
    let per_address = STRANGERS_MAX / 4 * 3;
    let bounds = Bounds { all: STRANGERS_MAX, per_address, timeout: JOIN_TIMEOUT };
    if let Err(error) = door::run(listener, registry, bounds, &NoReception, is_over) {
        lines.stop().fail(Error::io("cannot accept data streams", &error), lines.bells());
    }
}

/// Returns whether entries can get their original owners.
fn may_own(rules: &Rules) -> bool {
    rules.may_own && sealane_tree::may_give_away()
}

/// Returns whether entries can get extended attributes that only root sets.
fn may_set_privileges(rules: &Rules) -> bool {
    rules.may_set_privileges && sealane_tree::may_set_privileges()
}

/// Refuses a request to make what the peer has no right to make.
fn check_privileges(request: &Request, rules: &Rules) -> Result<(), Error> {
    let preserve = &request.wishes.preserve;
    let lacked = match request.role {
        Role::Push if preserve.specials && !rules.may_make_specials => {
            "this peer has no right to make devices, pipes and sockets here (`devices` in its line)"
        }
        Role::Push if preserve.privileges && !rules.may_set_privileges => {
            "this peer has no right to set extended attributes of security. and trusted., capabilities among them, here \
             (`privileges` in its line)"
        }
        _ => return Ok(()),
    };
    Err(Error::new(ErrorKind::Refused, lacked))
}

fn plan(request: &Request, terms: &Terms, hello: &Hello, rules: &Rules) -> Plan {
    let far_lanes = match request.wishes.measured_end {
        MeasuredEnd::Both => hello.processors.min(LANES_MAX),
        MeasuredEnd::Send | MeasuredEnd::Receive => LANES_MAX,
    };
    let mut wishes = request.wishes.clone();
    if request.role == Role::Push {
        wishes.preserve.owner = wishes.preserve.owner.where_it(may_own(rules));
        wishes.preserve.privileges &= may_set_privileges(rules);
    }
    // A daemon may be stricter than any peer.
    wishes.timeout = wishes.timeout.max(TIMEOUT_MIN).min(rules.timeout_max);
    Plan {
        shared_rate: rules.rate.clone(),
        open_files_max: open_files_max(far_lanes, terms.streams_max),
        ..Plan::of(wishes, *terms, Arc::new(Inline::new(rules.implementations)))
    }
}

/// Returns the address to listen on for the data streams of one transfer: as narrow as the path allows.
fn own_address(data_path: DataPath, reached: Option<IpAddr>) -> SocketAddr {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let ip = match data_path {
        DataPath::Loopback | DataPath::Relay => loopback,
        DataPath::Direct => reached.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
    };
    SocketAddr::new(ip, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Level;

    fn rules(peer: Option<[u8; 32]>, timeout_max: Duration) -> Rules {
        Rules {
            policy: Policy {
                minimum_level: Level::Clear,
                allow_legacy: false,
                measuring: false,
                compression: true,
            },
            may_read: true,
            may_write: true,
            confinement: None,
            rate: None,
            timeout_max,
            implementations: Implementations::default(),
            peer,
            modes: ModeRules::default(),
            may_own: false,
            may_make_specials: false,
            may_set_privileges: false,
            may_delete: false,
        }
    }

    #[test]
    fn a_journal_is_of_the_peer_that_names_it() {
        let name = |peer| rules(peer, Duration::MAX).journal([7; 16]);
        assert_eq!(name(Some([1; 32])), name(Some([1; 32])));
        assert_ne!(name(Some([1; 32])), name(Some([2; 32])));
        assert_eq!(name(None), this_boot([7; 16]));
    }
}
