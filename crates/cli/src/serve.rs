//! `sealane serve`: the two modes in which `sealane cp` starts the far end over ssh, and the way to the daemon.

use crate::args::ServeArgs;
#[cfg(feature = "serve")]
use crate::daemon;
use crate::environment;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::signals;
use sealane_copy::{ModeRules, StdioOptions};
use sealane_peer::ServeLeave;

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
    return daemon::run(arguments, implementations, create_with_exact_modes());
    #[cfg(not(feature = "serve"))]
    Err(Failure::new(
        ExitStatus::Usage,
        anyhow::anyhow!(
            "this build of sealane has no daemon: it copies, and is the far end of copies over ssh"
        ),
    ))
}

/// From here on files are created with the requested modes, which saves a system call for each file that arrives.
/// Only a server may do so: `sealane cp` starts ssh, whose own children must keep the user's mask. Returns the
/// previous mask, which still applies to folders without a description.
fn create_with_exact_modes() -> u32 {
    rustix::process::umask(rustix::fs::Mode::empty()).as_raw_mode()
}

fn failed(error: sealane_copy::Error) -> Failure {
    Failure::new(ExitStatus::of_kind(error.kind()), error)
}
