//! `sealane authorise` and `sealane peers`: the peers that daemons accept, and the known daemons.

use crate::args::{AuthoriseArgs, PeersArgs};
use crate::environment;
use crate::exit::ExitStatus;
use crate::failure::{Failure, print};
use crate::text;
use anyhow::anyhow;
use sealane_peer::{AuthorisedPeer, AuthorisedPeers, HostPort, KnownPeers, PeerError, PublicKey, TrustFault};
use serde_json::json;
use std::fmt::Write as _;
use std::num::NonZeroU64;
use std::path::PathBuf;

fn usage(error: anyhow::Error) -> Failure {
    Failure::new(ExitStatus::Usage, error)
}

fn io_failed(error: PeerError) -> Failure {
    Failure::new(ExitStatus::Io, anyhow::Error::new(error))
}

/// Returns the given file, or the file of this name in the user's configuration.
fn or_default(given: Option<&PathBuf>, name: &str) -> Result<PathBuf, Failure> {
    given.map_or_else(|| environment::config_file(name), |path| Ok(path.clone())).map_err(io_failed)
}

/// Returns the list of authorised peers that the arguments mean.
fn list(given: Option<&PathBuf>, is_daemons: bool) -> Result<PathBuf, Failure> {
    if !is_daemons {
        return or_default(given, AuthorisedPeers::FILE_NAME);
    }
    let path = environment::daemon_authorised_peers();
    // One that is made here could not be read by the daemon, which runs as another user.
    match path.exists() {
        true => Ok(path),
        false => {
            Err(usage(anyhow!("no daemon is installed as a service here: there is no {}", path.display())))
        }
    }
}

/// Adds a peer to the list.
pub(crate) fn authorise(arguments: AuthoriseArgs) -> Result<(), Failure> {
    let path = list(arguments.authorised_peers.as_ref(), arguments.daemon)?;
    let key: PublicKey = arguments.key.parse().map_err(|fault| {
        usage(anyhow!("{:?} is not a key as `sealane id` prints it: {fault}", arguments.key))
    })?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._@-".contains(&byte);
    if !(1..=64).contains(&arguments.name.len()) || !arguments.name.bytes().all(is_plain) {
        return Err(usage(anyhow!(
            "{:?} is no name for a peer: a name has 1 to 64 letters, digits, dots, dashes, underscores and @ signs, as in \
             ada@laptop; rights follow it as one word, as in read,write",
            arguments.name
        )));
    }
    // Parsing a line with nothing but the rights gives the error for malformed rights.
    let line = format!("{key} {} rights={}", arguments.name, arguments.rights);
    let parsed = AuthorisedPeers::parse(line.as_bytes()).map_err(|error| usage(anyhow::Error::new(error)))?;
    let only = parsed.iter().next().filter(|peer| peer.name == arguments.name);
    let only = only.cloned().ok_or_else(|| usage(anyhow!("{:?} are no rights", arguments.rights)))?;
    // A restriction stays until the peer is removed: a change of the rights must not lift it.
    let change = |old: Option<&AuthorisedPeer>| AuthorisedPeer {
        path: arguments.path.or_else(|| old?.path.clone()),
        rate_bytes_per_s: arguments.limit_rate.and_then(NonZeroU64::new).or_else(|| old?.rate_bytes_per_s),
        connections: arguments.connections.or_else(|| old?.connections),
        ..only
    };
    let (old, peer) = AuthorisedPeers::set(&path, &key, change).map_err(|error| match error {
        PeerError::TrustLine { fault: TrustFault::Duplicate { field: "name", .. }, .. } => usage(anyhow!(
            "another key has the name {} in {}: choose another name, or `sealane peers --remove {}` first",
            arguments.name,
            path.display(),
            arguments.name
        )),
        PeerError::TrustLine { fault: TrustFault::Duplicate { field: "key", first_line }, .. } => usage(anyhow!(
            "the key has another name in line {first_line} of {}: give that name to change its rights, or `sealane peers \
             --remove` it first",
            path.display()
        )),
        error => io_failed(error),
    })?;
    match old {
        None => text::complain(format_args!("added to {}:", path.display())),
        Some(old) => text::complain(format_args!("changed in {}, where it was\n{old}", path.display())),
    }
    print(&format!("{peer}\n"))
}

/// Lists peers and daemons, or removes one from its list.
pub(crate) fn run(arguments: &PeersArgs) -> Result<(), Failure> {
    let authorised = list(arguments.authorised_peers.as_ref(), arguments.daemon)?;
    let known = or_default(arguments.known_peers.as_ref(), KnownPeers::FILE_NAME)?;
    if let Some(name) = &arguments.remove {
        let peers = AuthorisedPeers::load(&authorised).map_err(io_failed)?;
        let found = peers.iter().find(|peer| peer.name == *name || peer.key.to_string() == *name);
        let found =
            found.ok_or_else(|| usage(anyhow!("there is no peer {name} in {}", authorised.display())))?;
        AuthorisedPeers::remove(&authorised, &found.key).map_err(io_failed)?;
        return print(&format!("removed {}\n", found.name));
    }
    if let Some(address) = &arguments.forget {
        let address: HostPort =
            address.parse().map_err(|error: PeerError| usage(anyhow::Error::new(error)))?;
        return match KnownPeers::remove(&known, &address).map_err(io_failed)? {
            0 => Err(usage(anyhow!("there is no key of {address} in {}", known.display()))),
            _ => print(&format!("forgot {address}\n")),
        };
    }
    let peers = AuthorisedPeers::load(&authorised).map_err(io_failed)?;
    let daemons = KnownPeers::load(&known).map_err(io_failed)?;
    let mut said = String::new();
    // Writing to a string succeeds.
    if arguments.json {
        for peer in peers.iter() {
            let line = peer.to_string();
            let (_, rights) = line.split_once(" rights=").unwrap_or_default();
            let key = peer.key.to_string();
            let _ = writeln!(said, "{}", json!({"peer": peer.name, "key": key, "rights": rights}));
        }
        for daemon in daemons.iter() {
            let (address, key) = (daemon.address.to_string(), daemon.key.to_string());
            let _ = writeln!(said, "{}", json!({"daemon": address, "key": key}));
        }
        return print(&said);
    }
    let _ = writeln!(said, "Authorised peers ({}):", authorised.display());
    for peer in peers.iter() {
        let line = peer.to_string();
        let (_, rights) = line.split_once(" rights=").unwrap_or_default();
        let _ = writeln!(said, "  {:<20} {rights}\n    {}", peer.name, peer.key);
    }
    if peers.iter().next().is_none() {
        let option = if arguments.daemon { " --daemon" } else { "" };
        let _ = writeln!(said, "  none; `sealane authorise{option} KEY NAME` adds one");
    }
    let _ = writeln!(said, "Known daemons ({}):", known.display());
    for daemon in daemons.iter() {
        let _ = writeln!(said, "  {}\n    {}", daemon.address, daemon.key);
    }
    if daemons.iter().next().is_none() {
        let _ = writeln!(said, "  none; `sealane cp --accept-new` adds a daemon");
    }
    print(&said)
}
