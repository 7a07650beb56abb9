//! The far side of a transfer.
//!
//! Guarantees: a request is judged before anything is opened; what is refused is explained to the client.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use crossbeam_channel::bounded;
use sealane_engine::Implementations;
use sealane_peer::Channel;
use sealane_stack::CpuClock;

use crate::{
    error::{Error, ErrorKind},
    options::{Level, Sink},
    proto::{
        join::Prover,
        keys::TransferKeys,
        message::{Accept, DataPath, Message, Request, Role},
    },
    session::{
        accept::{Closing, Registry, accept, bind},
        agree::{self, Policy, Terms},
        control::{self, Control, NOTICES_MAX, Notices},
        ends::Plan,
        line::Lines,
        open::watch,
        place::{self, Confinement},
        receiving::{ReceivingSide, this_boot},
        sending::{SendingSide, walk_options},
    },
    summary::Progress,
};

/// What a server is bound to, for one transfer.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) policy: Policy,
    pub(crate) may_read: bool,
    pub(crate) may_write: bool,
    pub(crate) confinement: Option<Confinement>,
    pub(crate) rate: Option<u64>,
    pub(crate) timeout_max: Duration,
    /// Whose code seals and opens.
    pub(crate) implementations: Implementations,
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
    let master = agree::master(channel, &request)?;
    let keys = TransferKeys::new(rules.implementations, &master, &request_frame, &accept_frame);
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
        told: Vec::new(),
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
