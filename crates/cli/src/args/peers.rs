//! Arguments of `sealane authorise` and `sealane peers`.

use crate::units;
use clap::Args;
use std::num::NonZeroU32;
use std::path::PathBuf;

pub(super) const AUTHORISE_LONG_ABOUT: &str = "\
Let a peer into the daemons of this user: add a line to the file of authorised peers, which a daemon that runs reads anew.

KEY is what `sealane id` prints at the peer's side, NAME is what the daemon's log calls it. Rights are words between \
commas: `read` (the default), `write`, `delete` (what its source does not have may go), and with `write` also `owner` and \
`set-id` (it may say whose its files are, and make files that run as their owner).";

/// Arguments of `sealane authorise`.
#[derive(Debug, Args)]
pub struct AuthoriseArgs {
    /// The peer's public key, sealane1:...
    pub key: String,
    /// What logs call it, as in ada@laptop
    pub name: String,
    /// What it may do, as in read,write,delete
    #[arg(default_value = "read")]
    pub rights: String,
    /// The only folder that it sees, as the peer would name it: absolute, below what is served
    #[arg(long, value_name = "FOLDER")]
    pub path: Option<PathBuf>,
    /// At most so many bytes a second, as in 100M
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    pub limit_rate: Option<u64>,
    /// Connections at one time
    #[arg(long, value_name = "N")]
    pub connections: Option<NonZeroU32>,
    /// The file of authorised peers, instead of the one in your configuration folder
    #[arg(long, visible_alias = "authorized-peers", value_name = "FILE")]
    pub authorised_peers: Option<PathBuf>,
}

/// Arguments of `sealane peers`.
#[derive(Debug, Args)]
pub struct PeersArgs {
    /// Let this peer in no more, by its name or key
    #[arg(long, value_name = "NAME", conflicts_with = "forget")]
    pub remove: Option<String>,
    /// Forget the key of this daemon, given as host:port
    #[arg(long, value_name = "DAEMON")]
    pub forget: Option<String>,
    /// Print an object for each peer and daemon
    #[arg(long)]
    pub json: bool,
    /// The file of authorised peers, instead of the one in your configuration folder
    #[arg(long, visible_alias = "authorized-peers", value_name = "FILE")]
    pub authorised_peers: Option<PathBuf>,
    /// The file of known daemons, instead of the one in your configuration folder
    #[arg(long, value_name = "FILE")]
    pub known_peers: Option<PathBuf>,
}
