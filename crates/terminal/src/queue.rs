//! The identity of a program towards a queue of a fleet, its trust in the queue, and queues on NATS servers.

use clap::Args;
#[cfg(feature = "nats")]
use sealane_fleet::nats::Server;
#[cfg(feature = "nats")]
use sealane_peer::PublicKey;
use std::path::PathBuf;

/// The identity towards a queue, and the trust in it.
#[derive(Clone, Debug, Args)]
pub struct QueueTrustArgs {
    /// File of your identity, whose certificate the queue knows; by default the one in your configuration folder
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
    /// File of known queues and their keys; by default the one in your configuration folder
    #[arg(long, value_name = "FILE")]
    pub known_peers: Option<PathBuf>,
    /// Trust the key of a new queue, and remember it
    #[arg(long)]
    pub accept_new: bool,
}

/// The arguments of a worker: the queue, the run, and the identity towards the queue.
#[derive(Debug, Args)]
pub struct WorkArgs {
    /// The queue, as tls://HOST[:PORT]
    #[cfg(feature = "nats")]
    #[arg(long, value_name = "QUEUE", requires_all = ["run", "key"])]
    pub queue: Option<Server>,
    /// The run to work for, as `sealane cp --queue` and `sealane fleet status` print it
    #[cfg(feature = "nats")]
    #[arg(long, value_name = "RUN", requires = "queue")]
    pub run: Option<String>,
    /// The key of the run, as `sealane cp --queue` and `sealane fleet status` print it
    #[cfg(feature = "nats")]
    #[arg(long, value_name = "KEY", requires = "queue")]
    pub key: Option<PublicKey>,
    /// Name of this host in reports; by default its own name
    #[cfg(feature = "nats")]
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// The identity towards the queue, and the trust in it.
    #[cfg(feature = "nats")]
    #[command(flatten)]
    pub trust: QueueTrustArgs,
}

#[cfg(feature = "nats")]
pub use nats::{open, worker};

#[cfg(feature = "nats")]
mod nats {
    use super::QueueTrustArgs;
    use crate::environment;
    use sealane_fleet::nats::{Keeping, NatsCoordinatorQueue, NatsQueue, Server};
    use sealane_fleet::{CoordinatorQueue, FleetError, OpenQueue};
    use sealane_peer::{Identity, KnownPeers, QueueTls, ServerTrust};

    /// Returns a coordinator's queue on a server, if there is one.
    ///
    /// # Errors
    /// Fails if the identity or the list of known queues cannot be read.
    pub fn open(server: Option<&Server>, trust: &QueueTrustArgs) -> Result<Option<OpenQueue>, FleetError> {
        let Some(server) = server.cloned() else { return Ok(None) };
        let tls = tls(&server, trust)?;
        let open = move |run: &str, journal| {
            let queue = NatsCoordinatorQueue::open(&server, tls.as_ref(), run, journal, Keeping::default())?;
            Ok(Box::new(queue) as Box<dyn CoordinatorQueue>)
        };
        Ok(Some(Box::new(open)))
    }

    /// Returns the queue of a worker.
    ///
    /// # Errors
    /// Fails if the identity or the list of known queues cannot be read, or the server refuses or does not answer.
    pub fn worker(server: &Server, run: &str, trust: &QueueTrustArgs) -> Result<NatsQueue, FleetError> {
        let tls = tls(server, trust)?;
        NatsQueue::connect(server, tls.as_ref(), run, None)
    }

    /// Returns the TLS configuration for a server, or `None` if the server's address is on this host.
    fn tls(server: &Server, trust: &QueueTrustArgs) -> Result<Option<QueueTls>, FleetError> {
        if !server.is_protected {
            return Ok(None);
        }
        let identity = match &trust.identity {
            Some(path) => Identity::load(path)?,
            None => Identity::load_or_create(&environment::config_file(Identity::FILE_NAME)?)?,
        };
        let known = match &trust.known_peers {
            Some(path) => path.to_owned(),
            None => environment::config_file(KnownPeers::FILE_NAME)?,
        };
        let trust =
            if trust.accept_new { ServerTrust::accept_new(known) } else { ServerTrust::pinned(known) };
        Ok(Some(QueueTls::new(server.address.clone(), &identity, trust)?))
    }
}
