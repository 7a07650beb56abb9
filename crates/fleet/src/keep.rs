//! Work under a lease that is extended meanwhile.
//!
//! Guarantees: the queue hears of the work twice per second; when the queue is lost, the work is asked to end.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use sealane_copy::Progress;

use crate::error::{FleetError, Result};
use crate::queue::{Lease, Queue, Weight};

/// The interval at which a worker reports its progress.
pub(crate) const TELL: Duration = Duration::from_millis(500);

/// Runs `work` while its lease is extended in the queue. When the queue is lost, the work is cancelled.
///
/// # Errors
/// The queue is lost.
pub(crate) fn keeping<T>(
    queue: &dyn Queue,
    lease: &Lease,
    work: impl FnOnce(&Arc<Progress>) -> T,
) -> Result<T> {
    let progress = Arc::new(Progress::default());
    thread::scope(|scope| {
        let (done, is_done) = channel::<()>();
        let teller = thread::Builder::new().name("teller".into());
        let told = &progress;
        let teller = teller.spawn_scoped(scope, move || {
            while is_done.recv_timeout(TELL) == Err(RecvTimeoutError::Timeout) {
                let moved =
                    Weight { files: told.files_done.load(Relaxed), bytes: told.bytes_moved.load(Relaxed) };
                if let Err(error) = queue.extend(lease, moved) {
                    told.cancel.store(true, SeqCst);
                    return Err(error);
                }
            }
            Ok(())
        });
        let teller = teller.map_err(FleetError::Thread)?;
        let result = work(&progress);
        drop(done);
        let told = teller.join().unwrap_or_else(|_| Err(FleetError::Protocol("the teller panicked".into())));
        told.map(|()| result)
    })
}
