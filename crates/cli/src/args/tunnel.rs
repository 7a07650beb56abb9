//! Arguments of `sealane tunnel`.

use clap::{Args, Subcommand};
use sealane_engine::EngineChoice;
use std::num::NonZeroUsize;
use std::path::PathBuf;

pub(super) const LONG_ABOUT: &str = "\
Join networks by IPsec in user space: ESP in UDP through a TUN device. The kernel needs no IPsec. Packets of an \
association stay in order on any number of cores.

A gateway is described by a site file:

  device = \"sl0\"
  listen = \"0.0.0.0:4500\"
  addresses = [\"10.91.1.1/24\"]

  [[peers]]
  name = \"branch\"
  endpoint = \"198.51.100.7:4500\"
  networks = [\"10.91.2.0/24\"]
  key = \"sealane1:...\"

The key is what `sealane id` prints at the peer, for the user who runs the gateway there. The ends agree on the packets' \
keys by TLS 1.3, on the TCP port of the same number, and renew them every ten minutes. A peer without an endpoint is \
expected to call. An endpoint may be a host name, which is looked up again when the peer is silent. If a NAT is found on the way, \
the gateway behind it keeps its mapping by a byte after 25 silent seconds; `keepalive = 10` in a peer changes the time, and 0 \
stops it. A peer may also have a `suite` (default aes-256-gcm), `rekey-seconds`, and a replay `window`; a gateway \
may have an `identity` file.

A peer that is another implementation has keys from files instead:

  [peers.manual]
  suite = \"aes-128-cbc+hmac-sha256-128\"
  send = { spi = 0x1001, key-file = \"to-branch.key\" }
  receive = { spi = 0x2001, key-file = \"from-branch.key\" }

Key files contain hexadecimal digits and must be readable by their owner only. The send entry of one end is the receive \
entry of the other.

`encapsulation = \"none\"` beside `listen` sends ESP as IP protocol 50 instead of in UDP. `direct = true` as well \
hands those packets to the network device itself: about 1.4 times the rate over IPv4 and Ethernet, but the firewall's rules \
for output, address translation and IPsec policies of this host do not apply to them. `status` counts them. With \
`protocol = \"ah\"`, packets are authenticated by AH (protocol 51) and not encrypted. AH covers the outer addresses, so the \
gateway must listen on one of its addresses, and there must be no NAT on the way.

`mode = \"transport\"` in a peer joins two hosts: `networks` is the one inside address of the peer, and ours is the one in \
`addresses`. The inner header is not sent, which saves 20 or 40 bytes a packet; fragments and IPv4 options are not \
supported. The inside addresses must differ from the outside ones.

`up` adds routes to the networks, and never replaces one that exists: it refuses, and names it. A network that contains an \
end point of a peer, such as the default routes 0.0.0.0/0 and ::/0, gets a routing table of its own, and rules that lead \
everything there but the packets of the gateway itself. `check` says what will happen on this host. While the gateway is down or \
was killed, packets for the networks are unreachable (`fail-open = true` beside `listen` lets them leave in clear by other \
routes); `down` takes that away too. Packets that arrive in clear and claim to come from the networks are dropped, by a table of \
nftables.

If a link on the way takes only smaller packets, hosts inside are told by ICMP what fits: never less than 576 bytes (IPv4) or \
1,280 (IPv6), and for ten minutes at a time. Over IPv4 routers are believed that quote a packet of ours, by its SPI and number; \
one that quotes too little to tell is believed down to 1,280 bytes outside. All other messages are counted as `foreign` in \
`status`, and change nothing.";

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
    /// Start a gateway, and run it until Ctrl-C, SIGTERM or `sealane tunnel down`
    Up(TunnelUpArgs),
    /// Stop a gateway, or take away what one that was killed has left on this host
    Down(TunnelDeviceArgs),
    /// Show peers, associations and dropped packets of running gateways
    Status(TunnelStatusArgs),
    /// Print the counters of running gateways in Prometheus's text format
    Stats(TunnelDeviceArgs),
    /// Check a site file and its key files, and say what `up` would do on this host, without changing anything
    Check(TunnelCheckArgs),
    /// Keep the host's routes for a gateway, which starts this itself
    #[command(hide = true)]
    KeepHost,
}

/// Arguments of `sealane tunnel up`.
#[derive(Debug, Args)]
pub struct TunnelUpArgs {
    /// The site file
    pub site: PathBuf,
    /// Lanes for each direction; more than one pays only when one fills its core
    #[arg(long, value_name = "N", default_value = "1")]
    pub lanes: NonZeroUsize,
    /// The engine of this end
    #[arg(long, value_name = "ENGINE", default_value_t, help = super::engine_help())]
    pub engine: EngineChoice,
    /// What is allowed
    #[command(flatten)]
    pub allowed: TunnelAllowedArgs,
    /// Folder of the control socket; by default /run/sealane
    #[arg(long, value_name = "DIR", env = "SEALANE_RUN")]
    pub run: Option<PathBuf>,
}

/// What is allowed that is not safe in general.
#[derive(Clone, Copy, Debug, Args)]
pub struct TunnelAllowedArgs {
    /// Allow suites that count nonces, such as AES-GCM, with keys from files; for tests with other implementations
    #[arg(long)]
    pub allow_manual_counter: bool,
    /// Allow broken algorithms (DES, 3DES, MD5), which are no longer secure
    #[arg(long)]
    pub allow_legacy: bool,
}

/// Arguments that name a gateway.
#[derive(Debug, Args)]
pub struct TunnelDeviceArgs {
    /// The gateway's device; not needed if only one gateway runs
    pub device: Option<String>,
    /// Folder of the control socket; by default /run/sealane
    #[arg(long, value_name = "DIR", env = "SEALANE_RUN")]
    pub run: Option<PathBuf>,
}

/// Arguments of `sealane tunnel status`.
#[derive(Debug, Args)]
pub struct TunnelStatusArgs {
    /// Which gateway
    #[command(flatten)]
    pub which: TunnelDeviceArgs,
    /// Print JSON, one object a line for each gateway
    #[arg(long)]
    pub json: bool,
    /// Say what each counter of dropped packets means
    #[arg(long, conflicts_with = "json")]
    pub explain: bool,
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
