//! `sealane id`: the public key by which daemons know this user.

use crate::args::IdArgs;
use crate::environment;
use crate::exit::ExitStatus;
use crate::failure::{Failure, print};
use crate::text;
use sealane_peer::{Identity, PeerError};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;

/// Prints the public key on one line, ready to be appended to a file of authorised peers.
pub(crate) fn run(arguments: &IdArgs) -> Result<(), Failure> {
    let failed = |error| Failure::new(ExitStatus::Io, anyhow::Error::new(error));
    let path = match &arguments.identity {
        Some(path) => path.clone(),
        None if arguments.system => environment::system_identity(),
        None if arguments.daemon => return daemons_key(),
        None => environment::config_file(Identity::FILE_NAME).map_err(failed)?,
    };
    if let (true, Some(folder)) = (arguments.system, path.parent()) {
        // Services of other users than root have files there as well.
        let made = DirBuilder::new().recursive(true).mode(0o755).create(folder);
        made.map_err(|source| failed(PeerError::File { doing: "create", path: folder.into(), source }))?;
    }
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
    let text = match arguments.certificate {
        true => identity.certificate_pem().map_err(failed)?,
        false => match rights(arguments, &identity) {
            // A queue's server knows its clients by certificates.
            Some(rights) => identity.certificate().map(|_| rights).map_err(failed)?,
            None => format!("{}\n", identity.public_key()),
        },
    };
    print(&text)
}

/// Prints the public key of the daemon that runs as a service. Only the daemon makes one: it must be able to read it.
fn daemons_key() -> Result<(), Failure> {
    let path = environment::daemon_identity();
    let key = Identity::public_key_in(&path).map_err(|error| {
        let advice = match &error {
            PeerError::File { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "the daemon makes its key when it starts for the first time: `sudo systemctl start sealane`"
            }
            PeerError::File { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "only root may look: `sudo sealane id --daemon`"
            }
            _ => "the daemon cannot use it either",
        };
        Failure::new(ExitStatus::Io, anyhow::Error::new(error).context(advice))
    })?;
    print(&format!("{key}\n"))
}

/// Returns the rights of the key at a queue, if they are asked for.
#[cfg(feature = "nats")]
fn rights(arguments: &IdArgs, identity: &Identity) -> Option<String> {
    use crate::args::QueueRole;
    use sealane_fleet::nats::Role;
    let role = match arguments.queue_rights? {
        QueueRole::Worker => Role::Worker,
        QueueRole::Coordinator => Role::Coordinator,
    };
    Some(sealane_fleet::nats::rights(&identity.public_key(), role))
}

#[cfg(not(feature = "nats"))]
fn rights(_: &IdArgs, _: &Identity) -> Option<String> {
    None
}
