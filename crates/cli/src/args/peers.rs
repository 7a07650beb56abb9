//! Arguments of `sealane authorise` and `sealane peers`.

use crate::units;
use clap::Args;
use std::num::NonZeroU32;
use std::path::PathBuf;

pub(super) const AUTHORISE_LONG_ABOUT: &str = "\
Let a peer into the daemons of this user, or with --daemon into the one that the package runs as a service. This adds a line to the file of authorised peers, or changes the line that the key \
has; running daemons notice. `--path` and limits that a line has stay unless they are given anew.

KEY is what `sealane id` prints at the peer, NAME is what the daemon's log calls it. Rights are separated by commas: `read` \
(the default), `write`, `delete` (for `sealane cp --delete`), and with `write` also `owner` (set the owner of its files), \
`set-id` (make files that run as their owner or group), `devices` (make devices, pipes and sockets) and `privileges` (set \
capabilities and other attributes of security. and trusted.).";

/// Arguments of `sealane authorise`.
#[derive(Debug, Args)]
pub struct AuthoriseArgs {
    /// The peer's public key, sealane1:... or sealane2:...
    pub key: String,
    /// The name for logs, as in ada@laptop
    pub name: String,
    /// Rights, as in read,write,delete
    #[arg(default_value = "read")]
    pub rights: String,
    /// The only folder that the peer may use, as an absolute path below the folder that is served
    #[arg(long, value_name = "FOLDER")]
    pub path: Option<PathBuf>,
    /// Limit its rate, in bytes a second, as in 100M
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    pub limit_rate: Option<u64>,
    /// Limit its connections at one time
    #[arg(long, value_name = "N")]
    pub connections: Option<NonZeroU32>,
    /// File of authorised peers; by default the one in your configuration folder
    #[arg(long, visible_alias = "authorized-peers", value_name = "FILE")]
    pub authorised_peers: Option<PathBuf>,
    /// The peers of the daemon that runs as a service, in /etc/sealane/authorised-peers
    #[arg(long, conflicts_with = "authorised_peers")]
    pub daemon: bool,
}

/// Arguments of `sealane peers`.
#[derive(Debug, Args)]
pub struct PeersArgs {
    /// Remove this authorised peer, given by name or key
    #[arg(long, value_name = "NAME", conflicts_with = "forget")]
    pub remove: Option<String>,
    /// Forget the key of this daemon, given as host:port
    #[arg(long, value_name = "DAEMON")]
    pub forget: Option<String>,
    /// Print JSON, one object a line for each peer and daemon
    #[arg(long)]
    pub json: bool,
    /// File of authorised peers; by default the one in your configuration folder
    #[arg(long, visible_alias = "authorized-peers", value_name = "FILE")]
    pub authorised_peers: Option<PathBuf>,
    /// The peers of the daemon that runs as a service, in /etc/sealane/authorised-peers
    #[arg(long, conflicts_with = "authorised_peers")]
    pub daemon: bool,
    /// File of known daemons; by default the one in your configuration folder
    #[arg(long, value_name = "FILE")]
    pub known_peers: Option<PathBuf>,
}
