//! Arguments of `sealane tunnel`.

use clap::{Args, Subcommand};
use std::num::NonZeroUsize;
use std::path::PathBuf;

pub(super) const LONG_ABOUT: &str = "\
Join networks by IPsec in user space: ESP in UDP through a TUN device, on kernels that have no IPsec, with every packet of an \
association in order however many cores work on it.

A gateway is described by a site file:

  device = \"sl0\"
  listen = \"0.0.0.0:4500\"
  addresses = [\"10.91.1.1/24\"]

  [[peers]]
  name = \"branch\"
  endpoint = \"198.51.100.7:4500\"
  networks = [\"10.91.2.0/24\"]
  key = \"sealane1:...\"

The key is what `sealane id` prints on the peer, as the user who runs the gateway there. The ends agree on the packets' keys by
TLS 1.3 on the TCP port of the same number, anew every ten minutes. A peer without an endpoint calls, and is answered. A peer may
also have a `suite` (aes-256-gcm if it does not say), `rekey-seconds`, and a replay `window`; a gateway an `identity` file.

A peer that is another implementation has keys from files instead:

  [peers.manual]
  suite = \"aes-128-cbc+hmac-sha256-128\"
  send = { spi = 0x1001, key-file = \"to-branch.key\" }
  receive = { spi = 0x2001, key-file = \"from-branch.key\" }

Key files hold hexadecimal digits and are readable by their owner alone; one end's send is the other's receive.

`encapsulation = \"none\"` beside `listen` sends ESP as protocol 50 instead of in UDP; `protocol = \"ah\"` beside that one \
authenticates packets by AH (protocol 51) and hides nothing: it covers the outer addresses, so the gateway listens on one of them \
and no NAT may be in between.

`mode = \"transport\"` in a peer joins two hosts: `networks` is the peer's one address inside, and ours is the one in `addresses`. \
The inner header does not travel, so a packet is 20 or 40 bytes shorter; fragments and IPv4 options are not taken. The addresses \
inside must not be those outside.

Where a link on the way takes less than the tunnel's packets, hosts inside are told by ICMP what fits; no message from outside \
narrows a tunnel below 576 bytes (IPv4) or 1,280 (IPv6), nor for longer than the kernel believes it, ten minutes.";

/// Arguments of `sealane tunnel`.
#[derive(Debug, Args)]
pub struct TunnelArgs {
    /// What to do
    #[command(subcommand)]
    pub command: TunnelCommand,
}

/// What can be done with tunnels.
#[derive(Debug, Subcommand)]
pub enum TunnelCommand {
    /// Bring a gateway up, and run it until Ctrl-C, SIGTERM or `sealane tunnel down`
    Up(TunnelUpArgs),
    /// End a gateway
    Down(TunnelDeviceArgs),
    /// Show peers, associations and drops of the gateways that run
    Status(TunnelStatusArgs),
    /// Print the counters of the gateways that run, in Prometheus's text format
    Stats(TunnelDeviceArgs),
    /// Check a site file and its key files, and change nothing
    Check(TunnelCheckArgs),
}

/// Arguments of `sealane tunnel up`.
#[derive(Debug, Args)]
pub struct TunnelUpArgs {
    /// The site file
    pub site: PathBuf,
    /// Lanes for each direction; one is the fastest until it fills its core
    #[arg(long, value_name = "N", default_value = "1")]
    pub lanes: NonZeroUsize,
    /// What is allowed
    #[command(flatten)]
    pub allowed: TunnelAllowedArgs,
    /// The folder of the control socket, instead of /run/sealane
    #[arg(long, value_name = "DIR", env = "SEALANE_RUN")]
    pub run: Option<PathBuf>,
}

/// What is allowed that is not safe in general.
#[derive(Clone, Copy, Debug, Args)]
pub struct TunnelAllowedArgs {
    /// Allow suites whose nonces are counted under keys from files: for laboratories and tests with other implementations
    #[arg(long)]
    pub allow_manual_counter: bool,
    /// Allow broken algorithms (DES, 3DES, MD5), which no longer protect
    #[arg(long)]
    pub allow_legacy: bool,
}

/// Arguments that name a gateway.
#[derive(Debug, Args)]
pub struct TunnelDeviceArgs {
    /// The gateway's device; may be left out where one gateway runs
    pub device: Option<String>,
    /// The folder of the control socket, instead of /run/sealane
    #[arg(long, value_name = "DIR", env = "SEALANE_RUN")]
    pub run: Option<PathBuf>,
}

/// Arguments of `sealane tunnel status`.
#[derive(Debug, Args)]
pub struct TunnelStatusArgs {
    /// Which gateway
    #[command(flatten)]
    pub which: TunnelDeviceArgs,
    /// Print one JSON object a gateway
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `sealane tunnel check`.
#[derive(Debug, Args)]
pub struct TunnelCheckArgs {
    /// The site file
    pub site: PathBuf,
    /// What is allowed
    #[command(flatten)]
    pub allowed: TunnelAllowedArgs,
}
