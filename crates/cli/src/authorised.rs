//! The peers that daemons accept: `sealane authorise`, and their part of `sealane peers`.

use crate::args::{AuthoriseArgs, AuthorisedArgs};
use crate::environment;
use crate::exit::ExitStatus;
use crate::failure::{Failure, print};
use crate::text;
use anyhow::anyhow;
use sealane_peer::{AuthorisedPeer, AuthorisedPeers, PeerError, PublicKey, TrustFault};
use serde_json::json;
use std::fmt::Write as _;
use std::num::NonZeroU64;
use std::path::PathBuf;

fn usage(error: anyhow::Error) -> Failure {
    Failure::new(ExitStatus::Usage, error)
}

fn io_failed(error: PeerError) -> Failure {
    Failure::new(ExitStatus::Io, error)
}

/// Returns the list of authorised peers that the arguments mean.
fn list(arguments: &AuthorisedArgs) -> Result<PathBuf, Failure> {
    if !arguments.daemon {
        let given = arguments.authorised_peers.clone();
        return given
            .map_or_else(|| environment::config_file(AuthorisedPeers::FILE_NAME), Ok)
            .map_err(io_failed);
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
pub(crate) fn add(arguments: AuthoriseArgs) -> Result<(), Failure> {
    let path = list(&arguments.list)?;
    let key: PublicKey = arguments.key.parse().map_err(|fault| {
        usage(anyhow!("{:?} is not a key as `sealane id` prints it: {fault}", arguments.key))
    })?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._@-".contains(&byte);
    if !(1..=64).contains(&arguments.name.len()) || !arguments.name.bytes().all(is_plain) {
        return Err(usage(anyhow!(
            "{:?} is not a name for a peer: a name has 1 to 64 letters, digits, dots, dashes, underscores and @ signs, as in \
             ada@laptop; rights follow it as one word, as in read,write",
            arguments.name
        )));
    }
    // Parsing a line with nothing but the rights gives the error for malformed rights.
    let line = format!("{key} {} rights={}", arguments.name, arguments.rights);
    let parsed = AuthorisedPeers::parse(line.as_bytes()).map_err(|error| usage(anyhow::Error::new(error)))?;
    let only = parsed.iter().next().filter(|peer| peer.name == arguments.name);
    let only = only.cloned().ok_or_else(|| {
        usage(anyhow!("{:?} is not a list of rights, such as read,write", arguments.rights))
    })?;
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

/// Removes the peer with this name or key.
pub(crate) fn remove(arguments: &AuthorisedArgs, name: &str) -> Result<(), Failure> {
    let path = list(arguments)?;
    let peers = AuthorisedPeers::load(&path).map_err(io_failed)?;
    let found = peers.iter().find(|peer| peer.name == name || peer.key.to_string() == name);
    let found = found.ok_or_else(|| usage(anyhow!("there is no peer {name} in {}", path.display())))?;
    AuthorisedPeers::remove(&path, &found.key).map_err(io_failed)?;
    print(&format!("removed {}\n", found.name))
}

/// Returns the peers as text for people, or as lines of JSON.
pub(crate) fn listed(arguments: &AuthorisedArgs, json: bool) -> Result<String, Failure> {
    let path = list(arguments)?;
    let peers = AuthorisedPeers::load(&path).map_err(io_failed)?;
    let mut said = String::new();
    // Writing to a string succeeds.
    if !json {
        let _ = writeln!(said, "Authorised peers ({}):", path.display());
    }
    for peer in peers.iter() {
        let line = peer.to_string();
        let (_, rights) = line.split_once(" rights=").unwrap_or_default();
        let (name, key) = (&peer.name, peer.key.to_string());
        let _ = match json {
            true => writeln!(said, "{}", json!({"peer": name, "key": key, "rights": rights})),
            false => writeln!(said, "  {name:<20} {rights}\n    {key}"),
        };
    }
    if peers.iter().next().is_none() && !json {
        let option = if arguments.daemon { " --daemon" } else { "" };
        let _ = writeln!(said, "  none; `sealane authorise{option} KEY NAME` adds one");
    }
    Ok(said)
}
