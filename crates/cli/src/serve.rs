//! `sealane serve`: the daemon, and the two modes in which `sealane cp` starts the far end over ssh.

use crate::args::ServeArgs;
use crate::environment;
use crate::exit::ExitStatus;
use crate::failure::Failure;
#[cfg(feature = "serve")]
use crate::log::Log;
use crate::signals;
#[cfg(feature = "serve")]
use crate::{signals::Interrupts, text};
#[cfg(feature = "serve")]
use sealane_copy::{Daemon, DaemonEvent, DaemonOptions};
use sealane_copy::{ModeRules, StdioOptions};
#[cfg(feature = "serve")]
use sealane_engine::Implementations;
use sealane_peer::ServeLeave;
#[cfg(feature = "serve")]
use sealane_peer::{AuthorisedPeers, Identity};
#[cfg(feature = "serve")]
use std::path::PathBuf;
#[cfg(feature = "serve")]
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};

/// Serves until a signal asks for the end, or the one transfer is over.
pub(crate) fn run(arguments: ServeArgs) -> Result<(), Failure> {
    if let Some(port) = arguments.relay {
        return sealane_copy::serve_relay(port, environment::ssh_addresses().server).map_err(failed);
    }
    let implementations =
        environment::implementations().map_err(|error| Failure::new(ExitStatus::Usage, error))?;
    sealane_copy::raise_descriptor_limit();
    if arguments.stdio {
        let umask = create_with_exact_modes();
        signals::leave_terminal_to_client().map_err(|error| Failure::new(ExitStatus::Io, error))?;
        // The client reports failures of this end to its user; a second message on the same terminal would only
        // confuse.
        let leave = ServeLeave { allow_legacy: arguments.allow_legacy, measuring: arguments.measuring };
        let modes = ModeRules { removed: 0, umask };
        let options = StdioOptions { implementations, leave, modes, ssh: environment::ssh_addresses() };
        return sealane_copy::serve_stdio(options)
            .map_err(|error| Failure::Told { status: ExitStatus::of_kind(error.kind()) });
    }
    #[cfg(feature = "serve")]
    return daemon(arguments, implementations);
    #[cfg(not(feature = "serve"))]
    Err(Failure::new(
        ExitStatus::Usage,
        anyhow::anyhow!(
            "this build of sealane has no daemon: it copies, and is the far end of copies over ssh"
        ),
    ))
}

/// Serves a folder until a signal asks for the end.
#[cfg(feature = "serve")]
fn daemon(arguments: ServeArgs, implementations: Implementations) -> Result<(), Failure> {
    let (Some(root), Some(listen)) = (arguments.directory, arguments.listen) else {
        unreachable!("the definition asks for a folder and an address unless --stdio or --relay is there")
    };
    let umask = create_with_exact_modes();
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
        allow_legacy: arguments.allow_legacy,
        implementations,
        measuring: arguments.measuring,
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
    daemon.run(&stop, &|event| log.event(event)).map_err(failed)?;
    text::complain(format_args!("stopped"));
    Ok(())
}

/// From here on files are created with the requested modes, which saves a system call for each file that arrives.
/// Only a server may do so: `sealane cp` starts ssh, whose own children must keep the user's mask. Returns the
/// previous mask, which still applies to folders without a description.
fn create_with_exact_modes() -> u32 {
    rustix::process::umask(rustix::fs::Mode::empty()).as_raw_mode()
}

#[cfg(feature = "serve")]
/// Returns the daemon's identity: the given one, or the user's own, which is created if it does not exist.
fn identity(given: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let is_given = given.is_some();
    let path = or_default(given, Identity::FILE_NAME)?;
    if !is_given {
        Identity::load_or_create(&path).map_err(|error| Failure::new(ExitStatus::Io, error))?;
    }
    Ok(path)
}

#[cfg(feature = "serve")]
/// Returns the given file, or the file of this name in the user's configuration.
fn or_default(given: Option<PathBuf>, name: &str) -> Result<PathBuf, Failure> {
    let default = || environment::config_file(name);
    given.map_or_else(default, Ok).map_err(|error| Failure::new(ExitStatus::Io, error))
}

fn failed(error: sealane_copy::Error) -> Failure {
    Failure::new(ExitStatus::of_kind(error.kind()), error)
}
