//! Arguments of `sealane serve`, which is a daemon or, as `sealane cp` starts it, the far end of one copy.

#[cfg(feature = "serve")]
use super::DaemonArgs;
use clap::Args;
#[cfg(not(feature = "serve"))]
use std::ffi::OsString;

/// Arguments of `sealane serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The arguments of a daemon.
    #[cfg(feature = "serve")]
    #[command(flatten)]
    pub daemon: DaemonArgs,
    /// Arguments of a daemon, which this build has not
    #[cfg(not(feature = "serve"))]
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub daemon: Vec<OsString>,
    /// Allow outdated algorithms, which are no longer secure
    #[arg(long)]
    pub allow_legacy: bool,
    /// Let peers measure: data sent may be discarded, data fetched held in memory, lanes outnumber processors
    #[arg(long)]
    pub measuring: bool,
    /// Serve one transfer on standard input and output, as `sealane cp` asks for over ssh
    #[arg(long, hide = true, conflicts_with = "relay")]
    pub stdio: bool,
    /// Join standard input and output with a port of this host, for data streams inside ssh
    #[arg(long, value_name = "PORT", hide = true, value_parser = clap::value_parser!(u16).range(1..))]
    pub relay: Option<u16>,
}
