//! The words between systemd and a service: readiness, and the sockets that it has opened.

use std::env;
use std::io;
#[cfg(feature = "engine")]
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Notifies systemd through `NOTIFY_SOCKET` that this service is ready (sd_notify(3)), if systemd waits for that.
pub(crate) fn tell_ready() -> io::Result<()> {
    let Some(name) = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return Ok(()) };
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(&name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(b"READY=1\n", &address).map(drop)
}

#[cfg(feature = "engine")]
/// Returns the sockets that systemd has opened for this service (`LISTEN_FDS`, sd_listen_fds(3)).
pub(crate) fn given_sockets() -> io::Result<Vec<OwnedFd>> {
    let number = |name| env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    match number("LISTEN_FDS") {
        Some(count) if number("LISTEN_PID") == Some(std::process::id()) => sealane_service::given(count),
        _ => Ok(Vec::new()),
    }
}
