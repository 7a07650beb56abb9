//! Lanes: the threads that do the work.
//!
//! Guarantees: all lanes have ended when [`run_lanes`] returns; the panic of a lane is passed on to the caller, so
//! that the other lanes do not wait for ever.

use std::thread;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Whether lanes are bound to processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pinning {
    /// Lane *n* runs on the *n*th processor that this process may use.
    Pinned,
    /// The scheduler chooses. This is better if the other end of the path runs on the same machine.
    Free,
}

/// Returns the number of processors that this process may use, at least 1.
pub fn available_lanes() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Runs `work` once on each of `lanes` threads, with the lane's number, until all have returned.
///
/// # Errors
/// Fails if the system cannot start another thread; lanes that have started are waited for, so `work` must end by
/// itself once `abandon` was called.
pub fn run_lanes<T: Send>(
    lanes: usize,
    pinning: Pinning,
    abandon: impl FnOnce(),
    work: impl Fn(usize) -> T + Sync,
) -> std::io::Result<Vec<T>> {
    let work = &work;
    thread::scope(|scope| {
        let mut handles = Vec::with_capacity(lanes);
        for lane in 0..lanes {
            let spawned =
                thread::Builder::new().name(format!("lane-{lane}")).spawn_scoped(scope, move || {
                    if pinning == Pinning::Pinned {
                        pin(lane);
                    }
                    work(lane)
                });
            match spawned {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    abandon();
                    return Err(error);
                }
            }
        }
        let join = |handle: thread::ScopedJoinHandle<'_, T>| {
            handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        Ok(handles.into_iter().map(join).collect())
    })
}

/// Binds the calling thread to one processor. A failure is ignored, because it affects only the speed.
fn pin(lane: usize) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    if let Some(&cpu) = processors.get(lane % processors.len().max(1)) {
        let mut one = CpuSet::new();
        one.set(cpu);
        let _ = sched_setaffinity(None, &one);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    #[test]
    fn every_lane_runs_once_and_returns_in_order() {
        let count = AtomicUsize::new(0);
        let lanes = run_lanes(
            5,
            Pinning::Pinned,
            || unreachable!("threads can be had"),
            |lane| {
                count.fetch_add(1, Relaxed);
                lane * 10
            },
        );
        assert_eq!(lanes.unwrap(), [0, 10, 20, 30, 40]);
        assert_eq!(count.into_inner(), 5);
    }
}
