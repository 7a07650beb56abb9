//! The far end of ssh: a transfer on standard input and output, or a data stream relayed through them.

use std::{
    fs::File,
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, TcpStream},
    os::fd::AsFd,
    thread,
    time::{Duration, Instant},
};

use sealane_engine::Implementations;
use sealane_peer::{Channel, ServeLeave, SshAddresses};

use crate::{
    error::Error,
    options::{Level, ModeRules},
    session::{
        agree::Policy,
        server::{Account, Doors, Rules, serve},
    },
};

/// The options of a far end on standard input and output.
#[derive(Clone, Copy, Debug, Default)]
pub struct StdioOptions {
    /// The implementations of the cipher suites.
    pub implementations: Implementations,
    /// The permissions given by the caller.
    pub leave: ServeLeave,
    /// The user's umask, if the process has set its own to 0.
    pub modes: ModeRules,
    /// The addresses of the ssh connection, if there is one.
    pub ssh: SshAddresses,
}

/// Serves one transfer on standard input and output, at the far end of ssh or as a local child.
///
/// # Errors
/// Fails if the transfer fails; the client has been informed.
pub fn serve_stdio(options: StdioOptions) -> Result<(), Error> {
    let StdioOptions { implementations, leave, modes, ssh } = options;
    let mut channel = Channel::stdio(ssh.client)?;
    let rules = Rules {
        policy: Policy {
            minimum_level: Level::Clear,
            allow_legacy: leave.allow_legacy,
            measuring: leave.measuring,
            compression: true,
        },
        may_read: true,
        may_write: true,
        confinement: None,
        rate: None,
        timeout_max: Duration::from_secs(24 * 3600),
        implementations,
        peer: None,
        modes,
        may_own: true,
        may_make_specials: true,
        may_set_privileges: true,
        may_delete: true,
    };
    let served = serve(&mut channel, &rules, &Doors::Own { reached: ssh.server }, &mut Account::default());
    if served.is_err() {
        // Unread messages of the client would reset the connection, and it might never receive the reason.
        let _ = channel.close(Instant::now() + Duration::from_secs(2));
    }
    served
}

/// Passes bytes between standard input and output and a port of this host: one data stream carried by ssh. `reached` is the
/// address by which ssh's client reached this host: a transfer whose streams were to come beside ssh listens there.
///
/// # Errors
/// Fails if the port cannot be reached or the connection breaks.
pub fn serve_relay(port: u16, reached: Option<IpAddr>) -> Result<(), Error> {
    let failed = |error: std::io::Error| Error::io("cannot relay a data stream", &error);
    let connect = |address: IpAddr| TcpStream::connect((address, port));
    let stream = match (connect(Ipv4Addr::LOCALHOST.into()), reached) {
        (Err(_), Some(reached)) => connect(reached),
        (outcome, _) => outcome,
    };
    let stream = stream.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    let back = stream.try_clone().map_err(failed)?;
    // The descriptors are used directly: the standard library's output would wait for the end of a line.
    let mut input = File::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(failed)?);
    let mut output = File::from(std::io::stdout().as_fd().try_clone_to_owned().map_err(failed)?);
    // The end of either direction ends the process: a half-open stream is of no use to a transfer.
    let pumping = |name: &str| thread::Builder::new().name(name.to_owned());
    let outward = pumping("outward").spawn(move || pump(back, &mut output)).map_err(failed)?;
    let inward = pumping("inward").spawn(move || pump(&mut input, stream)).map_err(failed)?;
    while !outward.is_finished() && !inward.is_finished() {
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Passes bytes on as they arrive. (`std::io::copy` would splice, and a pipe spliced into a socket delays short
/// messages in the expectation of more.)
fn pump(mut from: impl Read, mut to: impl Write) -> std::io::Result<()> {
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => to.write_all(&buffer[..length])?,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
