//! The environment as `sealane_terminal` reads it, and the files of the system's services.

pub(crate) use sealane_terminal::environment::*;

#[cfg(feature = "serve")]
use sealane_peer::AuthorisedPeers;
#[cfg(feature = "tunnel")]
use sealane_peer::Identity;
#[cfg(any(feature = "serve", feature = "tunnel"))]
use std::path::{Path, PathBuf};

/// The folder for the files of the system's services.
#[cfg(any(feature = "serve", feature = "tunnel"))]
const SYSTEM_FOLDER: &str = "/etc/sealane";

/// The identity of the daemon that the package runs as a service.
#[cfg(feature = "serve")]
const DAEMON_IDENTITY: &str = "/var/lib/sealane/identity";

/// Returns the identity of this system's services.
#[cfg(feature = "tunnel")]
pub(crate) fn system_identity() -> PathBuf {
    Path::new(SYSTEM_FOLDER).join(Identity::FILE_NAME)
}

/// Returns the identity of the daemon that the package runs as a service.
#[cfg(feature = "serve")]
pub(crate) fn daemon_identity() -> PathBuf {
    DAEMON_IDENTITY.into()
}

/// Returns the list of the peers that this daemon lets in.
#[cfg(feature = "serve")]
pub(crate) fn daemon_authorised_peers() -> PathBuf {
    Path::new(SYSTEM_FOLDER).join(AuthorisedPeers::FILE_NAME)
}
