//! `sealane serve`: the daemon.

use crate::args::ServeArgs;
use crate::environment;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::log::Log;
use crate::{signals::Interrupts, text};
use sealane_copy::{Daemon, DaemonEvent, DaemonOptions, ModeRules};
use sealane_engine::Implementations;
use sealane_peer::{AuthorisedPeers, Identity};
use std::path::PathBuf;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};

/// Serves a folder until a signal asks for the end. `umask` applies to folders without a description.
pub(crate) fn run(arguments: ServeArgs, implementations: Implementations, umask: u32) -> Result<(), Failure> {
    let ServeArgs { daemon: arguments, allow_legacy, measuring, .. } = arguments;
    let (Some(root), Some(listen)) = (arguments.directory, arguments.listen) else {
        unreachable!("the definition asks for a folder and an address unless --stdio or --relay is there")
    };
    let modes = match arguments.umask {
        Some(umask) => ModeRules { removed: umask, umask },
        None => ModeRules { removed: 0, umask },
    };
    let options = DaemonOptions {
        modes,
        root,
        listen,
        read_only: arguments.read_only,
        authorised_peers: or_default(arguments.authorised_peers, AuthorisedPeers::FILE_NAME)?,
        identity: identity(arguments.identity)?,
        minimum_level: arguments.minimum_level,
        connections_max: arguments.max_connections.into(),
        limit_rate: arguments.limit_rate,
        idle_timeout: arguments.idle_timeout,
        handshake_timeout: arguments.handshake_timeout,
        allow_legacy,
        implementations,
        measuring,
        compression: !arguments.no_compression,
    };
    let list = options.authorised_peers.clone();
    // The path as given, so that the command does not edit another file.
    let is_default = environment::config_file(AuthorisedPeers::FILE_NAME).is_ok_and(|path| path == list);
    let is_service = list == environment::daemon_authorised_peers();
    // No peer is involved yet, so every failure is a local one.
    let daemon = Daemon::bind(options).map_err(|error| Failure::new(ExitStatus::Io, error))?;
    // The signals are handled before the daemon announces itself.
    let stop = Arc::new(AtomicBool::new(false));
    let interrupts = Interrupts::listen({
        let stop = stop.clone();
        move |_| stop.store(true, SeqCst)
    });
    // This is dropped after the daemon's end, so that a second signal still ends a daemon that waits for its peers.
    let _interrupts = interrupts.map_err(|error| Failure::new(ExitStatus::Io, error))?;
    let log = Log { json: arguments.json };
    log.started(&daemon).map_err(Failure::output)?;
    if daemon.authorised_count() == 0 {
        let list = list.display();
        let option = match (is_default, is_service) {
            (true, _) => String::new(),
            (false, true) => " --daemon".to_owned(),
            (false, false) => format!(" --authorised-peers {list}"),
        };
        log.event(DaemonEvent::Warning(format!(
            "nobody is authorised yet in {list}; let each peer in with the key that `sealane id` prints there:\n\
             sealane authorise{option} KEY NAME read,write"
        )));
    }
    let served = daemon.run(&stop, &|event| log.event(event));
    served.map_err(|error| Failure::new(ExitStatus::of_kind(error.kind()), error))?;
    text::complain(format_args!("stopped"));
    Ok(())
}

/// Returns the daemon's identity: the given one, or the user's own, which is created if it does not exist.
fn identity(given: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let is_given = given.is_some();
    let path = or_default(given, Identity::FILE_NAME)?;
    if !is_given {
        Identity::load_or_create(&path).map_err(|error| Failure::new(ExitStatus::Io, error))?;
    }
    Ok(path)
}

/// Returns the given file, or the file of this name in the user's configuration.
fn or_default(given: Option<PathBuf>, name: &str) -> Result<PathBuf, Failure> {
    let default = || environment::config_file(name);
    given.map_or_else(default, Ok).map_err(|error| Failure::new(ExitStatus::Io, error))
}
