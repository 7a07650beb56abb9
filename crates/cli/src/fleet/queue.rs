//! Queues on NATS servers: the identity of this process towards them, and the authorities that it trusts.

use crate::args::{CpArgs, FleetWorkArgs, QueueTrustArgs};
use crate::environment;
use sealane_fleet::nats::{Keeping, NatsCoordinatorQueue, NatsQueue, Server};
use sealane_fleet::{CoordinatorQueue, FleetError, OpenQueue};
use sealane_peer::{Identity, KnownPeers, QueueTls, ServerTrust};
use std::path::{Path, PathBuf};

/// Returns the queue of `sealane cp --queue`, if one is asked for.
pub(super) fn coordinators(arguments: &CpArgs) -> Result<Option<OpenQueue>, FleetError> {
    let CpArgs { queue, identity, known_peers, accept_new, .. } = arguments;
    open(queue.as_ref(), Trust::of(identity, known_peers, *accept_new))
}

/// The identity of this process towards a queue, and its trust in the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trust<'a> {
    identity: Option<&'a Path>,
    known_peers: Option<&'a Path>,
    accept_new: bool,
}

impl<'a> Trust<'a> {
    fn of(identity: &'a Option<PathBuf>, known_peers: &'a Option<PathBuf>, accept_new: bool) -> Self {
        Self { identity: identity.as_deref(), known_peers: known_peers.as_deref(), accept_new }
    }
}

impl<'a> From<&'a QueueTrustArgs> for Trust<'a> {
    fn from(arguments: &'a QueueTrustArgs) -> Self {
        Self::of(&arguments.identity, &arguments.known_peers, arguments.accept_new)
    }
}

/// Returns the queue on a server, if there is one.
pub(super) fn open(server: Option<&Server>, trust: Trust<'_>) -> Result<Option<OpenQueue>, FleetError> {
    let Some(server) = server.cloned() else { return Ok(None) };
    let tls = tls(&server, trust)?;
    let open = move |run: &str, journal| {
        let queue = NatsCoordinatorQueue::open(&server, tls.as_ref(), run, journal, Keeping::default())?;
        Ok(Box::new(queue) as Box<dyn CoordinatorQueue>)
    };
    Ok(Some(Box::new(open)))
}

/// Returns the queue of `sealane fleet work`.
pub(super) fn worker(arguments: &FleetWorkArgs, server: &Server, run: &str) -> Result<NatsQueue, FleetError> {
    let tls = tls(server, Trust::from(&arguments.trust))?;
    NatsQueue::connect(server, tls.as_ref(), run, None)
}

/// Returns the TLS configuration for a server, or `None` if the server's address is on this host.
fn tls(server: &Server, trust: Trust<'_>) -> Result<Option<QueueTls>, FleetError> {
    let Trust { identity, known_peers, accept_new } = trust;
    if !server.is_protected {
        return Ok(None);
    }
    let identity = match identity {
        Some(path) => Identity::load(path)?,
        None => Identity::load_or_create(&environment::config_file(Identity::FILE_NAME)?)?,
    };
    let known = match known_peers {
        Some(path) => path.to_owned(),
        None => environment::config_file(KnownPeers::FILE_NAME)?,
    };
    let trust = if accept_new { ServerTrust::accept_new(known) } else { ServerTrust::pinned(known) };
    Ok(Some(QueueTls::new(server.address.clone(), &identity, trust)?))
}
