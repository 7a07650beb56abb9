//! Arguments of `sealane id`.

use clap::Args;
#[cfg(feature = "nats")]
use clap::ValueEnum;
use std::path::PathBuf;

/// Arguments of `sealane id`.
#[derive(Debug, Args)]
pub struct IdArgs {
    /// File of the identity; by default the one in your configuration folder
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
    /// The identity of this system's tunnels, /etc/sealane/identity
    #[cfg(feature = "tunnel")]
    #[arg(long, conflicts_with = "identity")]
    pub system: bool,
    /// The identity of the daemon that runs as a service, /var/lib/sealane/identity
    #[cfg(feature = "serve")]
    #[arg(long, conflicts_with_all = ["identity", "hybrid"])]
    #[cfg_attr(feature = "tunnel", arg(conflicts_with = "system"))]
    pub daemon: bool,
    /// Make a hybrid identity if there is none yet: peers then demand signatures of Ed25519 and of ML-DSA-65 (FIPS 204), so that a
    /// quantum computer that breaks one of them gains nothing. Its public key begins with `sealane2:`; older versions refuse it.
    /// An identity that exists stays as it is
    #[arg(long)]
    pub hybrid: bool,
    /// Print a certificate of the key instead, in PEM: for a NATS server, and for its list of clients
    #[cfg(feature = "nats")]
    #[arg(long, conflicts_with = "hybrid")]
    #[cfg_attr(feature = "serve", arg(conflicts_with = "daemon"))]
    pub certificate: bool,
    /// Print the rights of the key at a NATS server instead, an entry of `authorization.users` in its configuration: as a
    /// `worker` of runs, or as a `coordinator` that starts them
    #[cfg(feature = "nats")]
    #[arg(long, value_name = "ROLE", conflicts_with_all = ["certificate", "hybrid"])]
    #[cfg_attr(feature = "serve", arg(conflicts_with = "daemon"))]
    pub queue_rights: Option<QueueRole>,
}

/// The part of a key in runs whose queue is a NATS server.
#[cfg(feature = "nats")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum QueueRole {
    /// It takes part in runs: it copies, and gives no orders.
    Worker,
    /// It starts runs.
    Coordinator,
}
