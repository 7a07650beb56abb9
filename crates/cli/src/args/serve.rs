//! Arguments of `sealane serve`.

use crate::units;
use clap::Args;
use sealane_copy::Level;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub(super) const LONG_ABOUT: &str = "\
Serve a folder to peers whose keys are known.

Every peer proves the key that `sealane id` prints at its side, and that key must be listed in the file of authorised \
peers, with a name and what it may do:

  sealane1:...  ada@laptop  rights=read,write

`rights=read,write,delete,owner,set-id` also lets it delete what its source does not have (`sealane cp --delete`), say whose \
its files are, and make files that run as their owner or group; without the last two words both are dropped, and its \
`sealane cp` says so. Further words on the line restrict it: path=/folder, rate=100M, connections=4. Nothing outside the folder can be read \
or written, by no path and over no link.

Ctrl-C, SIGTERM and SIGHUP let the transfers under way end and take up no new ones; a second one ends them too, and \
the same commands go on with them later.";

pub(super) const USAGE: &str = "sealane serve [OPTIONS] --listen <ADDR> DIRECTORY";

/// Arguments of `sealane serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The folder that peers see as their root
    #[arg(required_unless_present_any = ["stdio", "relay"], conflicts_with_all = ["stdio", "relay"])]
    pub directory: Option<PathBuf>,
    /// Address and port to listen on, as in 0.0.0.0:7522 or [::]:7522; port 0 takes a free one and prints it
    #[arg(long, value_name = "ADDR", required_unless_present_any = ["stdio", "relay"], conflicts_with_all = ["stdio", "relay"])]
    pub listen: Option<SocketAddr>,
    /// Let peers read only
    #[arg(long)]
    pub read_only: bool,
    /// The file of authorised peers, instead of the one in your configuration folder
    #[arg(long, visible_alias = "authorized-peers", value_name = "FILE")]
    pub authorised_peers: Option<PathBuf>,
    /// The daemon's identity, instead of the one in your configuration folder, which is made where it is missing
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
    /// Refuse transfers below this level
    #[arg(long, value_parser = super::level(), default_value = "private")]
    pub minimum_level: Level,
    /// Allow outdated algorithms, which no longer protect
    #[arg(long)]
    pub allow_legacy: bool,
    /// Let peers measure: throw away what they send, hold in memory what they fetch, start lanes beyond the processors
    #[arg(long)]
    pub measuring: bool,
    /// Say what happens in lines of JSON on standard output
    #[arg(long)]
    pub json: bool,
    /// Transfers at the same time; more are refused. A peer whose line has no connections= gets 7 of 8
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096), default_value = "64")]
    pub max_connections: u16,
    /// At most so many bytes a second for each peer, over all its transfers, as in 100M, 1G or 10MiB/s
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    pub limit_rate: Option<u64>,
    /// Mode bits that nothing written here gets, as in 027; without it modes are kept as sent, and folders that nobody
    /// described get the umask that the daemon was started with
    #[arg(long, value_name = "MASK", value_parser = units::umask)]
    pub umask: Option<u32>,
    /// Drop a peer that is silent for so long
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "60s")]
    pub idle_timeout: Duration,
    /// Drop a connection that has not proved its key after so long
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "10s")]
    pub handshake_timeout: Duration,
    /// Serve one transfer on standard input and output, as `sealane cp` asks for over ssh
    #[arg(long, hide = true, conflicts_with = "relay")]
    pub stdio: bool,
    /// Join standard input and output with a port of this host, for data streams inside ssh
    #[arg(long, value_name = "PORT", hide = true, value_parser = clap::value_parser!(u16).range(1..))]
    pub relay: Option<u16>,
}
