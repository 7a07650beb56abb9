//! The ways to reach a far end.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use sealane_peer::{
    Application, Channel, HostPort, Identity, KnownPeers, PeerError, RemoteCommand, ServeLeave, ServerTrust,
    SshCommand, StderrMode, connect_tls_by, spawn_local,
};

use crate::{
    error::Error,
    options::{MeasuredEnd, Options, Sink},
    transfer::far_place::FarPlace,
};

/// The time that a far end has to end after it was informed of a failure.
pub(super) const LINGER: Duration = Duration::from_secs(1);

/// The way to reach the far end.
pub(super) enum Far {
    /// A child process on this machine.
    Child,
    Ssh(Box<SshCommand>),
    Daemon(HostPort),
}

/// Returns the way to reach the far end at `place`.
pub(super) fn far(place: &FarPlace, options: &Options) -> Far {
    match place {
        FarPlace::Here => Far::Child,
        FarPlace::Daemon(address) => Far::Daemon(address.clone()),
        FarPlace::Ssh { user, host, port } => {
            Far::Ssh(Box::new(options.remote.ssh_command(user.clone(), host.clone(), *port)))
        }
    }
}

/// Returns the permissions of the far end that we start.
fn leave(options: &Options) -> ServeLeave {
    let measuring = options.wishes.measured_end != MeasuredEnd::Both || options.wishes.sink == Sink::Null;
    ServeLeave { allow_legacy: options.wishes.allow_legacy, measuring }
}

/// Connects to the far end at `place`.
///
/// # Errors
/// Fails if no program can be started there, or if the far end cannot be reached or is not trusted.
pub(super) fn reach(place: &FarPlace, options: &Options, stderr: StderrMode) -> Result<Channel, Error> {
    let deadline = Instant::now() + options.wishes.timeout;
    match far(place, options) {
        Far::Child => Ok(Channel::from_child(spawn_local(None, leave(options), &StderrMode::Inherit)?)?),
        Far::Ssh(mut command) => {
            if let FarPlace::Ssh { user, host, port } = place {
                command.sharing = options.remote.sharing(user.clone(), host.clone(), *port);
            }
            command.stderr = stderr;
            let serve = RemoteCommand::Serve(leave(options));
            Ok(Channel::from_child(command.spawn(serve)?)?)
        }
        Far::Daemon(address) => {
            let identity = match &options.remote.identity {
                Some(path) => Identity::load(path)?,
                None => Identity::load_or_create(&default_file(options, Identity::FILE_NAME)?)?,
            };
            let known = match &options.remote.known_peers {
                Some(path) => path.clone(),
                None => default_file(options, KnownPeers::FILE_NAME)?,
            };
            let trust = match options.remote.accept_new {
                true => ServerTrust::accept_new(known),
                false => ServerTrust::pinned(known),
            };
            let connected = connect_tls_by(
                Application::Copy,
                options.remote.family,
                &address,
                &identity,
                &trust,
                deadline,
            );
            connected.map_err(|error| Error::from(error).naming(&address.to_string()))
        }
    }
}

fn default_file(options: &Options, name: &str) -> Result<PathBuf, PeerError> {
    options.remote.config_dir.as_ref().map(|folder| folder.join(name)).ok_or(PeerError::NoConfigDir)
}
