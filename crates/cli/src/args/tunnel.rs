//! Arguments of `sealane tunnel`.

use clap::{Args, Subcommand};
use sealane_engine::{EngineChoice, KINDS};
use sealane_terminal::help::engines;
use std::net::IpAddr;
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

The key is what `sudo sealane id --system` prints at the peer. `sealane tunnel new` writes this file and the one of the peer. \
The ends agree on the packets' \
keys by TLS 1.3, on the TCP port of the same number, and renew them every ten minutes. A peer without an endpoint is \
expected to call. An endpoint may be a host name, which is looked up again when the peer is silent. If a NAT is found on the way, \
the gateway behind it keeps its mapping by a byte after 25 silent seconds; `keepalive = 10` in a peer changes the time, and 0 \
stops it. A peer may also have a `suite` (default aes-256-gcm), `rekey-seconds`, and a replay `window`.

A gateway's own key is in \
/etc/sealane/identity, or in the file that `identity` names; without root, in the configuration folder of the user. `sealane id \
--system --hybrid` makes one that is proved by ML-DSA-65 as well, against quantum computers; its public key begins with sealane2:.

A site file decides whom the gateway trusts, so it and the folders that it is in must belong to you or to root, and nobody else \
may write to them.

`up` and `down` are lists of shell commands, run with your rights when packets flow and when the gateway has ended; \
SEALANE_DEVICE is the name of the device. If one of `up` fails, the gateway ends. `dns = [\"10.91.2.53\"]` has this host \
ask that resolver while the gateway is up, by `resolvectl` or `resolvconf`; `dns-search = [\"corp.example\"]` beside it asks \
there only for names in that domain.

A peer that is another implementation, such as strongSwan, is spoken with by IKEv2, on UDP ports 500 and 4500:

  [peers.ike]
  id = \"branch.example\"
  local-id = \"hq.example\"
  psk-file = \"branch.psk\"

`id` is who the peer is, and `local-id` who we are to it: host names, mail addresses or IP addresses, or distinguished names \
such as \"C=CH, O=Example, CN=vpn.example\", in the order of the certificate. `local-networks` are the \
networks on our side, by default those of `addresses`. In place of `psk-file`, the file of a shared secret, there may be \
`private-key` with our `certificate`, and `ca`, the file of the authority that answers for the peer, or the peer's \
`public-key`; all are PEM. `crls` are lists of certificates that the authority has revoked. With `key = \"sealane1:...\"`, which \
`sealane id` prints at the peer, both ends have no other files than their identities. `proposals` and `esp-proposals` (`ah-proposals` with `protocol = \"ah\"`) are lists in strongSwan's words, such as \
\"aes256gcm16-prfsha384-x25519-ke1_mlkem768\" and \"aes256gcm16-x25519\"; by default the strongest that both ends have is taken. \
Associations are renewed after `rekey-seconds` in the peer, an IKE SA after `ike-rekey-seconds` in the table (default four hours). \
`status` shows what was agreed on, and the log says which proposal or identity did not match.

One peer may stand for many clients, such as phones and laptops, which get addresses of a pool:

  [pool]
  networks = [\"10.99.0.0/24\", \"fd99::/64\"]
  dns = [\"10.91.1.53\"]
  domains = [\"corp.example\"]

  [[peers]]
  name = \"clients\"

  [peers.ike]
  any = true
  local-id = \"vpn.example.org\"
  local-networks = [\"10.91.1.0/24\"]
  private-key = \"vpn.example.org.key\"
  certificate = \"vpn.example.org.crt\"
  users-file = \"users\"

`users-file` has lines of NAME:PASSWORD, and only its owner may read it (EAP-MSCHAPv2). `users-ca` is the authority of users with \
certificates (EAP-TLS), and `ca` that of clients which prove themselves by certificates without EAP. `local-networks` are what clients \
reach; 0.0.0.0/0 and ::/0 send all their traffic here. `sealane tunnel profile` writes what their devices need. Windows and \
Apple's systems with an RSA certificate of the gateway sign with SHA-1, which takes `--allow-legacy`; ECDSA needs no such thing.

To be a client, a peer's table has `virtual-addresses = true`: the device gets the addresses that the peer gives, one for each family of \
`networks`. `user` with `password-file`, or with `private-key` and `certificate`, proves us by EAP, and `ca` answers for the \
peer. With `peer-dns = true`, this host asks the resolvers that the peer names, by `resolvectl` or `resolvconf`.

A peer may have keys from files instead:

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
supported. The inside addresses may be the outside ones, as other gateways require; the peer's `endpoint` then says which \
address that is.

`up` adds routes to the networks, and never replaces one that exists: it refuses, and names it. A network that contains an \
end point of a peer, such as the default routes 0.0.0.0/0 and ::/0, gets a routing table of its own, and rules that lead \
everything there but the packets of the gateway itself. `check` says what will happen on this host. While the gateway is down or \
was killed, packets for the networks are unreachable (`fail-open = true` beside `listen` lets them leave in clear by other \
routes); `down` takes that away too. Packets that arrive in clear and claim to come from the networks are dropped, by a table of \
nftables.

`tcp = true` in a peer with `ike`, at both ends, lets IKE and ESP go in a TCP connection (RFC 9329) where a network lets no UDP pass: \
the end with an `endpoint` connects to port 4500 after three seconds without an answer, and goes by UDP again when that passes. `tcp = 443` \
names another port of the called end. TCP inside TCP is slower, and packets that would wait longer than 2 ms are dropped.

While the gateway is up, this host forwards packets between the device and its interfaces towards `local-networks`, if those are \
more than the gateway's own; `forwarding = true` or `false` beside `listen` says otherwise. With `masquerade = true`, packets of \
clients of the pool leave by other interfaces with this host's address.

With `ml-dsa = true` beside `listen` at both ends, keys and certificates of ML-DSA (FIPS 204) prove who the ends of `ike` are, against \
quantum computers as well; `sealane tunnel pki --ml-dsa` makes them. The standard for IKE is a draft, so it is off otherwise, and a \
key of ML-DSA is refused.

Packets that the link does not take yet wait in the gateway, where flows take turns, those that send little first, and one whose \
packets wait for long is told so by ECN or loses one (FQ-CoDel, RFC 8290): so a call does not feel a download beside it. \
`queueing = \"fifo\"` beside `listen` leaves packets in their order. `rate = \"95Mbit\"` in a peer keeps to the rate of a modem \
behind this host. `status` shows the times. `queues = 4` beside `listen` gives the device so many queues, each with lanes and, for a \
peer with `ike`, an association of its own: for hosts with more than four processors and many flows.

If a link on the way takes only smaller packets, hosts inside are told by ICMP what fits: never less than 576 bytes (IPv4) or \
1,280 (IPv6), and for ten minutes at a time. Over IPv4 routers are believed that quote a packet of ours, by its SPI and number; \
one that quotes too little to tell is believed down to 1,280 bytes outside. All other messages are counted as `foreign` in \
`status`, and change nothing.";

const NEW_LONG_ABOUT: &str = "\
Write the site files of both ends of a new tunnel: PEER.toml for this host, and NAME.toml for the peer. Neither file holds a \
secret: each end makes its own key by `sudo sealane id --system`, and the peer's is given here as --peer-key.

Each end has one address inside, by which its own packets go; networks behind it are named by --networks and --peer-networks. \
At least one end needs an endpoint, the address and port at which the other end reaches it.

  sudo sealane tunnel new hq branch --folder /etc/sealane --peer-key sealane1:... \\
      --endpoint 192.0.2.1:4500 --address 10.91.0.1 --networks 10.91.1.0/24 \\
      --peer-endpoint 198.51.100.7:4500 --peer-address 10.91.0.2 --peer-networks 10.91.2.0/24
  scp /etc/sealane/hq.toml root@branch:/etc/sealane/
  sudo systemctl enable --now sealane-tunnel@branch";

const PKI_LONG_ABOUT: &str = "\
Make certificates by which gateways prove who they are in IKE. The authority is made in FOLDER at first, as ca.key and ca.crt; for \
each NAME a private key and its certificate are, as NAME.key and NAME.crt. A name is the host name that clients connect to.

  sealane tunnel pki pki vpn.example.org branch.example.org

The site file of vpn.example.org then has, in the table `ike` of a peer:

  private-key = \"vpn.example.org.key\"
  certificate = \"vpn.example.org.crt\"
  ca = \"ca.crt\"

Certificates have what Windows, macOS, iOS and Android look for: the name in full, and the purposes of a server and of IKE.";

const PROFILE_LONG_ABOUT: &str = "\
Write the files by which a user's devices connect to a gateway: USER.mobileconfig for iOS and macOS, USER.ps1 for Windows 10 and 11, \
USER.sswan for strongSwan's app on Android. They hold the certificate of the gateway's authority, the algorithms, and the name of the \
user, who is asked for the password; so they are no secret, but whoever installs a changed one trusts another gateway.

  sealane tunnel profile /etc/sealane/clients.toml alice --name Office --device phone

A user has files for each device: the gateway tells devices apart by the names in their files, and lets eight of a user in at once. \
A .mobileconfig is opened on the device, or sent by mail. The script is run in a PowerShell of an administrator. A .sswan is opened \
in the app. The site needs a peer that stands for clients; see `sealane tunnel --help`.";

/// Arguments of `sealane tunnel`.
#[derive(Debug, Args)]
pub struct TunnelArgs {
    /// The command, with its own arguments.
    #[command(subcommand)]
    pub command: TunnelCommand,
}

/// The commands for tunnels.
#[derive(Debug, Subcommand)]
pub enum TunnelCommand {
    /// Start a gateway, and run it until Ctrl-C, SIGTERM or `sealane tunnel down`
    Up(TunnelUpArgs),
    /// Stop a gateway, or remove what a killed one has left on this host
    Down(TunnelDeviceArgs),
    /// Make a running gateway read its site file, and the files of credentials that it names, again; it does so by itself, too
    Reload(TunnelReloadArgs),
    /// Show peers, associations and dropped packets of running gateways
    Status(TunnelStatusArgs),
    /// Print the counters of running gateways in Prometheus's text format
    Stats(TunnelDeviceArgs),
    /// Check a site file and its key files, and show what `up` would do on this host, without changing anything
    Check(TunnelCheckArgs),
    /// Maintain the host's routes for a gateway, which starts this command itself
    #[command(hide = true)]
    KeepHost,
    /// Write the site files of both ends of a new tunnel
    #[command(long_about = NEW_LONG_ABOUT)]
    New(Box<TunnelNewArgs>),
    /// Make a certificate authority and certificates for gateways, for peers that speak IKE
    #[command(long_about = PKI_LONG_ABOUT)]
    Pki(TunnelPkiArgs),
    /// Write the files by which a user's phones and laptops connect to a gateway
    #[command(long_about = PROFILE_LONG_ABOUT)]
    Profile(TunnelProfileArgs),
}

/// Arguments of `sealane tunnel profile`.
#[derive(Debug, Args)]
pub struct TunnelProfileArgs {
    /// The site file of the gateway
    pub site: PathBuf,
    /// A user in the `users-file` of the site, or the one whom `--certificate` names
    pub user: String,
    /// The user's certificate, if the user has one in place of a password; with --private-key
    #[arg(long, value_name = "FILE", requires = "private_key")]
    pub certificate: Option<PathBuf>,
    /// The private key of that certificate
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub private_key: Option<PathBuf>,
    /// The name or address at which devices reach the gateway; by default its `local-id`
    #[arg(long, value_name = "HOST")]
    pub server: Option<String>,
    /// The name of the connection that the user sees; by default that of the gateway
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The device that the files are for, a word that is unique among the user's devices; by default a random one
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// The certificate of the authority of the gateway; by default ca.crt beside the gateway's certificate
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// The folder for the files
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub folder: PathBuf,
}

/// Arguments of `sealane tunnel pki`.
#[derive(Debug, Args)]
pub struct TunnelPkiArgs {
    /// The folder for the authority and the files that it issues
    pub folder: PathBuf,
    /// Host names of the gateways that get certificates
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// An address at which clients reach the gateway, in addition to its name; may be repeated
    #[arg(long = "address", value_name = "ADDRESS")]
    pub addresses: Vec<IpAddr>,
    /// A user who gets a certificate, a word or a mail address; may be repeated
    #[arg(long = "user", value_name = "USER")]
    pub users: Vec<String>,
    /// Make RSA keys, which iOS needs if it is configured by hand; the default is ECDSA
    #[arg(long)]
    pub rsa: bool,
    /// Make keys of ML-DSA-65 (FIPS 204) for gateways of ours with `ml-dsa = true`, in a folder of their own
    #[arg(long, conflicts_with_all = ["rsa", "users"])]
    pub ml_dsa: bool,
}

/// Arguments of `sealane tunnel up`.
#[derive(Debug, Args)]
pub struct TunnelUpArgs {
    /// The site file
    pub site: PathBuf,
    /// Lanes for each direction; by default 1 for fast suites, and more for slow ones where CPUs are
    #[arg(long, value_name = "N")]
    pub lanes: Option<NonZeroUsize>,
    /// The engine of this end
    #[arg(long, value_name = "ENGINE", default_value_t, help = engines(KINDS))]
    pub engine: EngineChoice,
    /// The unsafe options that are allowed
    #[command(flatten)]
    pub allowed: TunnelAllowedArgs,
    /// Folder of the control socket; by default /run/sealane
    #[arg(long, value_name = "DIR", env = "SEALANE_RUN")]
    pub run: Option<PathBuf>,
    /// The gateway was started by a process that runs the site's commands: it reports on standard output that it is
    /// up, and ends with that process
    #[arg(long, hide = true)]
    pub supervised: bool,
}

/// Options that are not safe in general.
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

/// Arguments of `sealane tunnel reload`.
#[derive(Debug, Args)]
pub struct TunnelReloadArgs {
    /// The gateway
    #[command(flatten)]
    pub which: TunnelDeviceArgs,
    /// The site file, in place of the device that it names
    #[arg(long, value_name = "FILE", conflicts_with = "device")]
    pub site: Option<PathBuf>,
}

/// Arguments of `sealane tunnel status`.
#[derive(Debug, Args)]
pub struct TunnelStatusArgs {
    /// The gateway
    #[command(flatten)]
    pub which: TunnelDeviceArgs,
    /// Print JSON, one object per line for each gateway
    #[arg(long)]
    pub json: bool,
    /// Show the meaning of each counter of dropped packets
    #[arg(long, conflicts_with = "json")]
    pub explain: bool,
}

/// Arguments of `sealane tunnel check`.
#[derive(Debug, Args)]
pub struct TunnelCheckArgs {
    /// The site file
    pub site: PathBuf,
    /// The unsafe options that are allowed
    #[command(flatten)]
    pub allowed: TunnelAllowedArgs,
}

/// Arguments of `sealane tunnel new`.
#[derive(Debug, Args)]
pub struct TunnelNewArgs {
    /// The name of this host in the peer's file, and of that file
    pub name: String,
    /// The name of the peer in this host's file, and of that file
    pub peer: String,
    /// The peer's public key, which `sudo sealane id --system` prints there
    #[arg(long, value_name = "KEY")]
    pub peer_key: String,
    /// The endpoint at which the peer reaches this host, as in 192.0.2.1:4500; not needed if only this host calls
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub endpoint: Option<String>,
    /// The endpoint at which this host reaches the peer; not needed if only the peer calls
    #[arg(long, value_name = "ADDRESS:PORT", required_unless_present = "endpoint")]
    pub peer_endpoint: Option<String>,
    /// This host's address inside the tunnel
    #[arg(long, value_name = "ADDRESS")]
    pub address: IpAddr,
    /// The peer's address inside the tunnel
    #[arg(long, value_name = "ADDRESS")]
    pub peer_address: IpAddr,
    /// Networks behind this host, separated by commas
    #[arg(long, value_name = "NETWORKS", value_delimiter = ',')]
    pub networks: Vec<String>,
    /// Networks behind the peer; 0.0.0.0/0,::/0 for everything
    #[arg(long, value_name = "NETWORKS", value_delimiter = ',')]
    pub peer_networks: Vec<String>,
    /// The device's name at both ends
    #[arg(long, value_name = "DEVICE", default_value = "sl0")]
    pub device: String,
    /// The folder for the files
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub folder: PathBuf,
    /// The file of this host's identity; by default that of its tunnels
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
}
