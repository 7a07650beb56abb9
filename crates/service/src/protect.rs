//! Protection of the process's memory: it is neither swapped, nor dumped, nor read by another process.

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};
use std::io;

/// Forbids core dumps, and prevents other processes of the same user from reading this one's memory.
///
/// # Errors
/// Fails if the kernel does.
pub fn forbid_dumps() -> io::Result<()> {
    let maximum = getrlimit(Resource::Core).maximum;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum })?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// Keeps all present and later memory out of swap, from its first use on.
///
/// # Errors
/// Fails in particular if a limit (RLIMIT_MEMLOCK) is too low.
pub fn lock_memory() -> io::Result<()> {
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)?;
    Ok(())
}

/// Raises the number of descriptors that the process may have as far as the system lets it, and returns it. A service manager
/// sets a low limit for programs that use select(2), which this is not.
pub(crate) fn raise_descriptors() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let limit = if raised.is_ok() { maximum } else { current };
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}
