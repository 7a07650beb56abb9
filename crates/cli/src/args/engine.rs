//! Arguments of `sealane engine`.

use clap::{Args, Subcommand};
use sealane_client::{KeyKind, SOCKET};
use std::num::NonZeroUsize;
use std::path::PathBuf;

pub(super) const LONG_ABOUT: &str = "\
Keep private keys in a process of their own, and compute with them for the programs that its policy names. A web server whose \
memory leaks gives no key away: it never had one.

`serve` is the engine. Programs reach it through a Unix socket, where the kernel says who they are, and send jobs through memory \
that both share. Keys are made or imported with `keys`, and never leave the engine again. On disk they are sealed under a passphrase.

The policy file says who may use which key for what:

  [[allow]]
  users = [\"www-data\"]
  keys = [\"web-*\"]
  uses = [\"sign\"]

Further words of an entry: `groups`; `uses` may also have `decrypt` and `derive`; `rate` (jobs a second) and `connections` limit each of \
the users; `lend = true` lets them bring keys of their own; `admin = true` lets them manage keys. Whom no entry names is refused. Without a \
policy file, root and the user of the engine may do everything. `check --policy FILE` says who may do what; SIGHUP (`systemctl reload \
sealane-engine`) has the engine read the file again, and open its audit log again.

OpenSSL 3 programs use a key through the provider `sealane-provider`: `sealane:NAME` where they take a URI, and the file that \
`sealane engine keys reference NAME` prints where they take a PEM file.";

/// Arguments of `sealane engine`.
#[derive(Debug, Args)]
pub struct EngineArgs {
    /// The command, with its own arguments.
    #[command(subcommand)]
    pub command: EngineCommand,
}

/// The commands for engines.
#[derive(Debug, Subcommand)]
pub enum EngineCommand {
    /// Run the engine until Ctrl-C or SIGTERM
    Serve(EngineServeArgs),
    /// Show what the engine does, and for whom
    Status(EngineStatusArgs),
    /// Print the engine's counters in Prometheus's text format
    Stats(EngineStatsArgs),
    /// Make, import, list and remove keys
    Keys(EngineKeysArgs),
    /// Check a policy file, or try every key that you may use
    Check(EngineCheckArgs),
}

/// Which engine.
#[derive(Debug, Args)]
pub struct EngineSocketArgs {
    /// The engine's socket
    #[arg(long, value_name = "PATH", env = "SEALANE_ENGINE", default_value = SOCKET)]
    pub socket: PathBuf,
}

/// Arguments of `sealane engine stats`.
#[derive(Debug, Args)]
pub struct EngineStatsArgs {
    /// Which engine
    #[command(flatten)]
    pub socket: EngineSocketArgs,
    /// Count the operations with each key as well
    #[arg(long)]
    pub keys: bool,
}

/// Arguments of `sealane engine serve`.
#[derive(Debug, Args)]
pub struct EngineServeArgs {
    /// Socket to listen on; a service manager's socket takes its place
    #[command(flatten)]
    pub socket: EngineSocketArgs,
    /// Folder of the sealed keys; it is made if missing
    #[arg(long, value_name = "DIR", default_value = "/var/lib/sealane-engine")]
    pub keys: PathBuf,
    /// File of the passphrase that seals the keys; only its owner may read it
    #[arg(long, value_name = "FILE", required_unless_present = "keyring", conflicts_with = "keyring")]
    pub passphrase_file: Option<PathBuf>,
    /// Take the passphrase from the kernel's keyring, where `keyctl padd user NAME @u < FILE` has put it
    #[arg(long, value_name = "NAME")]
    pub keyring: Option<String>,
    /// The policy file
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Threads that compute; by default one for each core
    #[arg(long, value_name = "N")]
    pub workers: Option<NonZeroUsize>,
    /// Append a line of JSON to this file for each client let in or refused, and each change of keys
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,
    /// Append a line for each operation with a key as well
    #[arg(long, requires = "audit")]
    pub audit_uses: bool,
    /// Run even if memory cannot be locked, so that keys may reach the swap device
    #[arg(long)]
    pub allow_swap: bool,
}

/// Arguments of `sealane engine status`.
#[derive(Debug, Args)]
pub struct EngineStatusArgs {
    /// Which engine
    #[command(flatten)]
    pub socket: EngineSocketArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `sealane engine keys`.
#[derive(Debug, Args)]
pub struct EngineKeysArgs {
    /// The command, with its own arguments.
    #[command(subcommand)]
    pub command: EngineKeysCommand,
}

/// The commands for keys.
#[derive(Debug, Subcommand)]
pub enum EngineKeysCommand {
    /// List the keys that you may use
    List(EngineStatusArgs),
    /// Make a key, and print its public half
    Generate {
        /// Which engine
        #[command(flatten)]
        socket: EngineSocketArgs,
        /// The key's name
        name: String,
        /// rsa-2048 to rsa-8192, rsa-pss-2048 to rsa-pss-8192, p256, p384, p521, ed25519, x25519, ml-dsa-44, ml-dsa-65 or ml-dsa-87
        kind: KeyKind,
    },
    /// Hand a private key over to the engine: PEM, PKCS#8 or PKCS#12. Your file stays; delete it when all works
    Import {
        /// Which engine
        #[command(flatten)]
        socket: EngineSocketArgs,
        /// The key's name
        name: String,
        /// The file; `-` is standard input
        file: PathBuf,
        /// File of the passphrase, if the key is encrypted
        #[arg(long, value_name = "FILE")]
        passphrase_file: Option<PathBuf>,
        /// Take the name over from another key. That one stays for servers that still have its certificate, until `keys remove
        /// --previous` or the next replacement
        #[arg(long)]
        replace: bool,
        /// PEM file with the key's certificate, and those that lead to a root, for programs that look for it by PKCS#11 or a store
        #[arg(long, value_name = "FILE")]
        certificate: Option<PathBuf>,
    },
    /// Print the certificates that are kept beside a key, or keep others
    Certificate {
        /// Which engine
        #[command(flatten)]
        socket: EngineSocketArgs,
        /// The key's name
        name: String,
        /// PEM file with the key's certificate first, and those that lead to a root, to be kept in the place of those before
        file: Option<PathBuf>,
        /// Keep none any more
        #[arg(long, conflicts_with = "file")]
        remove: bool,
    },
    /// Try a key: sign once, or agree on a secret.
    Test {
        /// Which engine
        #[command(flatten)]
        socket: EngineSocketArgs,
        /// The key's name
        name: String,
        /// Try it as this user, which only root may
        #[arg(long, value_name = "USER")]
        user: Option<String>,
    },
    /// Print a key's public half as PEM
    Public {
        /// Which engine
        #[command(flatten)]
        socket: EngineSocketArgs,
        /// The key's name
        name: String,
    },
    /// Print a PEM file that refers to a key, for programs that take a file and use the OpenSSL provider
    Reference {
        /// Which engine
        #[command(flatten)]
        socket: EngineSocketArgs,
        /// The key's name
        name: String,
    },
    /// Delete a key for ever
    Remove {
        /// Which engine
        #[command(flatten)]
        socket: EngineSocketArgs,
        /// The key's name
        name: String,
        /// Delete only the key that another one has replaced
        #[arg(long)]
        previous: bool,
    },
}

/// Arguments of `sealane engine check`.
#[derive(Debug, Args)]
pub struct EngineCheckArgs {
    /// Which engine
    #[command(flatten)]
    pub socket: EngineSocketArgs,
    /// Say who may do what by this policy file instead, without an engine
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Print JSON, one object a line
    #[arg(long)]
    pub json: bool,
}
