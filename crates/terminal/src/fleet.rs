//! The part that every program of a fleet has: it finds the runs of this host, and works for a queue.

use crate::environment;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::queue::WorkArgs;
use sealane_fleet::{FleetError, Runs, Tasks};

/// Returns the failure of a command because of a fleet's error.
pub fn failure(error: FleetError) -> Failure {
    Failure::new(ExitStatus::of_kind(error.kind()), error)
}

/// Returns the runs that were started on this host.
///
/// # Errors
/// Fails if nothing says where the user's state is kept.
pub fn runs() -> Result<Runs, Failure> {
    let state = environment::state_dir().ok_or_else(|| {
        let error = anyhow::anyhow!("runs are kept below your home folder, and HOME names none that exists");
        Failure::new(ExitStatus::Usage, error)
    })?;
    Ok(Runs::below(&state))
}

/// Does `tasks` for a run whose queue is elsewhere, or else for the process that started this one.
///
/// # Errors
/// Fails if the queue is not reached or refuses, or if this host is not fit for the run.
pub fn work(arguments: WorkArgs, tasks: &Tasks<'_>) -> Result<ExitStatus, Failure> {
    #[cfg(feature = "nats")]
    if let (Some(server), Some(run), Some(key)) = (&arguments.queue, &arguments.run, arguments.key) {
        let queue = crate::queue::worker(server, run, &arguments.trust).map_err(failure)?;
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let host = arguments.host.unwrap_or(host);
        let outcome = sealane_fleet::work_from(&queue, host, std::process::id(), key, tasks);
        return outcome.map(|()| ExitStatus::Success).map_err(failure);
    }
    #[cfg(not(feature = "nats"))]
    let WorkArgs {} = arguments;
    match sealane_fleet::work(environment::ssh_addresses(), tasks) {
        Ok(()) => Ok(ExitStatus::Success),
        // The failure has been reported, or the coordinator is gone.
        Err(error @ (FleetError::Unfit(_) | FleetError::Channel(_))) => {
            Err(Failure::Told { status: ExitStatus::of_kind(error.kind()) })
        }
        Err(error) => Err(failure(error)),
    }
}
