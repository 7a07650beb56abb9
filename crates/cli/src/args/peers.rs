//! Arguments of `sealane peers`.

#[cfg(feature = "serve")]
use super::AuthorisedArgs;
use clap::Args;
use std::path::PathBuf;

/// Arguments of `sealane peers`.
#[derive(Debug, Args)]
pub struct PeersArgs {
    /// Remove this authorised peer, given by name or key
    #[cfg(feature = "serve")]
    #[arg(long, value_name = "NAME", conflicts_with = "forget")]
    pub remove: Option<String>,
    /// Forget the key of this daemon, given as host:port
    #[arg(long, value_name = "DAEMON")]
    pub forget: Option<String>,
    /// Print JSON, one object a line for each peer and daemon
    #[arg(long)]
    pub json: bool,
    /// The list of authorised peers.
    #[cfg(feature = "serve")]
    #[command(flatten)]
    pub authorised: AuthorisedArgs,
    /// File of known daemons; by default the one in your configuration folder
    #[arg(long, value_name = "FILE")]
    pub known_peers: Option<PathBuf>,
}
