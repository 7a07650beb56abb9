//! `sealane peers`: the known daemons, and the peers that daemons of this user accept.

use crate::args::PeersArgs;
#[cfg(feature = "serve")]
use crate::authorised;
use crate::environment;
use crate::exit::ExitStatus;
use crate::failure::{Failure, print};
use anyhow::anyhow;
use sealane_peer::{HostPort, KnownPeers, PeerError};
use serde_json::json;
use std::fmt::Write as _;

fn usage(error: impl Into<anyhow::Error>) -> Failure {
    Failure::new(ExitStatus::Usage, error)
}

fn failed(error: PeerError) -> Failure {
    Failure::new(ExitStatus::Io, error)
}

/// Lists peers and daemons, or removes one from its list.
pub(crate) fn run(arguments: &PeersArgs) -> Result<(), Failure> {
    #[cfg(feature = "serve")]
    if let Some(name) = &arguments.remove {
        return authorised::remove(&arguments.authorised, name);
    }
    let given = arguments.known_peers.clone();
    let known = given.map_or_else(|| environment::config_file(KnownPeers::FILE_NAME), Ok).map_err(failed)?;
    if let Some(address) = &arguments.forget {
        let address: HostPort = address.parse().map_err(|error: PeerError| usage(error))?;
        return match KnownPeers::remove(&known, &address).map_err(failed)? {
            0 => Err(usage(anyhow!("there is no key of {address} in {}", known.display()))),
            _ => print(&format!("forgot {address}\n")),
        };
    }
    #[cfg(feature = "serve")]
    let mut said = authorised::listed(&arguments.authorised, arguments.json)?;
    #[cfg(not(feature = "serve"))]
    let mut said = String::new();
    let daemons = KnownPeers::load(&known).map_err(failed)?;
    // Writing to a string succeeds.
    if !arguments.json {
        let _ = writeln!(said, "Known daemons ({}):", known.display());
    }
    for daemon in daemons.iter() {
        let (address, key) = (daemon.address.to_string(), daemon.key.to_string());
        let _ = match arguments.json {
            true => writeln!(said, "{}", json!({"daemon": address, "key": key})),
            false => writeln!(said, "  {address}\n    {key}"),
        };
    }
    if daemons.iter().next().is_none() && !arguments.json {
        let _ = writeln!(said, "  none; `sealane cp --accept-new` adds a daemon");
    }
    print(&said)
}
