//! The process's memory: neither swapped, nor dumped, nor read by another process.

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};
use std::io;

/// Forbids core dumps, and other processes of the same user to look into this one.
///
/// # Errors
/// What the kernel says.
pub fn forbid_dumps() -> io::Result<()> {
    let maximum = getrlimit(Resource::Core).maximum;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum })?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// Keeps all memory of now and later out of swap, as it is touched.
///
/// # Errors
/// A limit (RLIMIT_MEMLOCK) that is too low, above all.
pub fn lock_memory() -> io::Result<()> {
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)?;
    Ok(())
}
