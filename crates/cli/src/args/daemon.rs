//! Arguments of `sealane serve` where it is a daemon.

use crate::units;
use clap::Args;
use sealane_copy::Level;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub(super) const LONG_ABOUT: &str = "\
Serve a folder to peers whose keys are known.

Every peer proves its key, the one that `sealane id` prints there. The file of authorised peers lists the keys that are \
let in, each with a name and its rights; `sealane authorise` adds a line:

  sealane1:...  ada@laptop  rights=read,write

Rights are `read`, `write`, `delete` (for `sealane cp --delete`), `owner` (set the owner of its files), `set-id` (make \
files that run as their owner or group), `devices` (for `sealane cp -D`) and `privileges` (for `sealane cp -X`: capabilities \
and other attributes that only root sets). Without `owner` and `set-id` the peer's files lose their owner or these bits, and its \
`sealane cp` says so; copies that need another right are refused. A peer whose key begins with sealane2: proves it by Ed25519 \
and by ML-DSA-65 (`sealane id --hybrid`). More words on the line restrict the peer: path=/folder, rate=100M, connections=4. Nothing outside the \
folder can be read or written, by any path or link.

After Ctrl-C, SIGTERM or SIGHUP running transfers end and no new ones are accepted. A second signal interrupts them; the \
same commands continue them later.";

pub(super) const USAGE: &str = "sealane serve [OPTIONS] --listen <ADDR> DIRECTORY";

/// Arguments of a daemon.
#[derive(Debug, Args)]
pub struct DaemonArgs {
    /// The folder that peers see as the root
    #[arg(required_unless_present_any = ["stdio", "relay"], conflicts_with_all = ["stdio", "relay"])]
    pub directory: Option<PathBuf>,
    /// Address and port to listen on, as in 0.0.0.0:7522 or [::]:7522; with port 0 a free one is taken and printed
    #[arg(long, value_name = "ADDR", required_unless_present_any = ["stdio", "relay"], conflicts_with_all = ["stdio", "relay"])]
    pub listen: Option<SocketAddr>,
    /// Let peers read, but not write
    #[arg(long)]
    pub read_only: bool,
    /// File of authorised peers; by default the one in your configuration folder
    #[arg(long, visible_alias = "authorized-peers", value_name = "FILE")]
    pub authorised_peers: Option<PathBuf>,
    /// File of the daemon's identity; by default the one in your configuration folder, made if missing
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
    /// Refuse transfers below this level
    #[arg(long, value_parser = super::level(), default_value = "private")]
    pub minimum_level: Level,
    /// Take and send no compressed data: a peer that asks for it is refused, one that asks for --compress=auto copies without
    #[arg(long)]
    pub no_compression: bool,
    /// Print the log as JSON, one object a line, on standard output
    #[arg(long)]
    pub json: bool,
    /// Transfers at one time; more are refused. One peer may use 7 of 8, or what its line sets as connections=
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096), default_value = "64")]
    pub max_connections: u16,
    /// Limit the rate of each peer, over all its transfers, in bytes a second, as in 100M, 1G or 10MiB/s
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    pub limit_rate: Option<u64>,
    /// Mode bits to clear in everything that is written, as in 027. By default modes are kept as sent, and folders made on
    /// the way get the umask that the daemon was started with
    #[arg(long, value_name = "MASK", value_parser = units::umask)]
    pub umask: Option<u32>,
    /// Drop a peer that has been silent for this time
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "60s")]
    pub idle_timeout: Duration,
    /// Drop a connection that has not proved a key within this time
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "10s")]
    pub handshake_timeout: Duration,
}
