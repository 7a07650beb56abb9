//! `sealane id`: the public key by which other hosts know this user, or a service of this system.

use crate::args::IdArgs;
use crate::environment;
use crate::exit::ExitStatus;
use crate::failure::{Failure, print};
use crate::text;
use sealane_peer::{Identity, PeerError};
#[cfg(feature = "tunnel")]
use std::fs::DirBuilder;
#[cfg(feature = "tunnel")]
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

/// Prints the public key on one line, ready to be appended to a file of authorised peers.
pub(crate) fn run(arguments: &IdArgs) -> Result<(), Failure> {
    #[cfg(feature = "serve")]
    if arguments.daemon {
        return daemons_key();
    }
    let path = place(arguments).map_err(failed)?;
    let is_new = !path.exists();
    let identity = match arguments.hybrid {
        true => Identity::load_or_create_hybrid(&path),
        false => Identity::load_or_create(&path),
    };
    let identity = identity.map_err(failed)?;
    if is_new {
        let kind = if arguments.hybrid { "hybrid identity" } else { "identity" };
        text::complain(format_args!("made a new {kind}: {}", path.display()));
    }
    #[cfg(feature = "nats")]
    if let Some(text) = for_queue(arguments, &identity).map_err(failed)? {
        return print(&text);
    }
    print(&format!("{}\n", identity.public_key()))
}

fn failed(error: PeerError) -> Failure {
    Failure::new(ExitStatus::Io, error)
}

/// Returns the file of the identity that the arguments mean.
fn place(arguments: &IdArgs) -> Result<PathBuf, PeerError> {
    #[cfg(feature = "tunnel")]
    if arguments.system {
        let path = environment::system_identity();
        if let Some(folder) = path.parent() {
            // Services of other users than root have files there as well.
            let made = DirBuilder::new().recursive(true).mode(0o755).create(folder);
            made.map_err(|source| PeerError::File { doing: "create", path: folder.into(), source })?;
        }
        return Ok(path);
    }
    arguments.identity.clone().map_or_else(|| environment::config_file(Identity::FILE_NAME), Ok)
}

/// Prints the public key of the daemon that runs as a service. Only the daemon makes one: it must be able to read it.
#[cfg(feature = "serve")]
fn daemons_key() -> Result<(), Failure> {
    let path = environment::daemon_identity();
    let key = Identity::public_key_in(&path).map_err(|error| {
        let advice = match &error {
            PeerError::File { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                "the daemon makes its key when it starts for the first time: `sudo systemctl start sealane`"
            }
            PeerError::File { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
                "only root may look: `sudo sealane id --daemon`"
            }
            _ => "the daemon cannot use it either",
        };
        Failure::new(ExitStatus::Io, anyhow::Error::new(error).context(advice))
    })?;
    print(&format!("{key}\n"))
}

/// Returns what the server of a queue must know of the key, if that is asked for: a certificate, or rights.
#[cfg(feature = "nats")]
fn for_queue(arguments: &IdArgs, identity: &Identity) -> Result<Option<String>, PeerError> {
    use crate::args::QueueRole;
    use sealane_fleet::nats::{Role, rights};
    if arguments.certificate {
        return identity.certificate_pem().map(Some);
    }
    let role = match arguments.queue_rights {
        None => return Ok(None),
        Some(QueueRole::Worker) => Role::Worker,
        Some(QueueRole::Coordinator) => Role::Coordinator,
    };
    // A queue's server knows its clients by certificates.
    identity.certificate()?;
    Ok(Some(rights(&identity.public_key(), role)))
}
