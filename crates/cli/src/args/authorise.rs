//! Arguments of `sealane authorise`.

use crate::units;
use clap::Args;
use std::num::NonZeroU32;
use std::path::PathBuf;

pub(super) const LONG_ABOUT: &str = "\
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
    /// The file that the line goes into.
    #[command(flatten)]
    pub list: AuthorisedArgs,
}

/// The list of authorised peers that is meant.
#[derive(Debug, Args)]
pub struct AuthorisedArgs {
    /// File of authorised peers; by default the one in your configuration folder
    #[arg(long, visible_alias = "authorized-peers", value_name = "FILE")]
    pub authorised_peers: Option<PathBuf>,
    /// The peers of the daemon that runs as a service, in /etc/sealane/authorised-peers
    #[arg(long, conflicts_with = "authorised_peers")]
    pub daemon: bool,
}
