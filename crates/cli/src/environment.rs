//! The environment, which only this module and `sealane_terminal` read.

pub(crate) use sealane_terminal::environment::*;

use sealane_peer::{AuthorisedPeers, Identity, PeerError};
use std::env;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};

/// The folder for the files of the system's services.
const SYSTEM_FOLDER: &str = "/etc/sealane";

/// The identity of the daemon that the package runs as a service.
const DAEMON_IDENTITY: &str = "/var/lib/sealane/identity";

/// Returns the identity of this system's services.
pub(crate) fn system_identity() -> PathBuf {
    Path::new(SYSTEM_FOLDER).join(Identity::FILE_NAME)
}

/// Returns the identity of the daemon that the package runs as a service.
pub(crate) fn daemon_identity() -> PathBuf {
    DAEMON_IDENTITY.into()
}

/// Returns the list of the peers that this daemon lets in.
pub(crate) fn daemon_authorised_peers() -> PathBuf {
    Path::new(SYSTEM_FOLDER).join(AuthorisedPeers::FILE_NAME)
}

/// Returns the identity of a gateway without one in its site file: the system's for root, unless root has an earlier
/// one of its own and the system has none; the user's own for all other users.
pub(crate) fn gateway_identity() -> Result<PathBuf, PeerError> {
    let own = config_file(Identity::FILE_NAME);
    if !rustix::process::geteuid().is_root() {
        return own;
    }
    let system = system_identity();
    Ok(own.ok().filter(|own| own.exists() && !system.exists()).unwrap_or(system))
}

/// Returns the program's arguments, without its own name.
pub(crate) fn arguments() -> Vec<OsString> {
    env::args_os().skip(1).collect()
}

/// Notifies systemd through `NOTIFY_SOCKET` that this service is ready (sd_notify(3)), if systemd waits for that.
pub(crate) fn tell_ready() -> io::Result<()> {
    let Some(name) = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return Ok(()) };
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(&name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(b"READY=1\n", &address).map(drop)
}

/// Returns the sockets that systemd has opened for this service (`LISTEN_FDS`, sd_listen_fds(3)).
pub(crate) fn given_sockets() -> io::Result<Vec<OwnedFd>> {
    let number = |name| env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    match number("LISTEN_FDS") {
        Some(count) if number("LISTEN_PID") == Some(std::process::id()) => sealane_service::given(count),
        _ => Ok(Vec::new()),
    }
}
