//! The engines: where batches run.
//!
//! Guarantees: an engine changes a batch exactly as [`Batch::run`] does; queues are bounded and a full one
//! hands the batch back to its owner; every batch taken is given back, also when its submitter lags.

use std::{
    num::NonZeroUsize,
    thread::{self, JoinHandle},
};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};

use super::Batch;

/// Runs batches.
pub trait Engine: Send + Sync {
    /// The name used in reports.
    fn name(&self) -> &'static str;

    /// Runs `batch` to its end and hands it back.
    fn run(&self, batch: Batch) -> Batch;
}

/// Computes on the calling lane.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inline;

impl Engine for Inline {
    fn name(&self) -> &'static str {
        "inline"
    }

    fn run(&self, mut batch: Batch) -> Batch {
        batch.run();
        batch
    }
}

/// A pool of worker lanes shared by any number of submitters.
#[derive(Debug)]
pub struct Lanes {
    submit: Option<Sender<Work>>,
    workers: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Work {
    batch: Batch,
    done: Sender<Batch>,
}

/// One submitter's queue of finished batches, in the order in which they finished.
#[derive(Debug)]
pub struct Completions {
    done: Sender<Batch>,
    finished: Receiver<Batch>,
    in_flight: usize,
    in_flight_max: usize,
}

impl Completions {
    /// The next finished batch, waiting for it; `None` when nothing is under way.
    pub fn wait(&mut self) -> Option<Batch> {
        if self.in_flight == 0 {
            return None;
        }
        let batch = self.finished.recv().expect("we hold a sender ourselves, so the queue stays open");
        self.in_flight -= 1;
        Some(batch)
    }

    /// The next finished batch, if there is one already.
    pub fn poll(&mut self) -> Option<Batch> {
        let batch = self.finished.try_recv().ok()?;
        self.in_flight -= 1;
        Some(batch)
    }

    /// Batches submitted and not yet handed back.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }
}

impl Lanes {
    /// Starts `lanes` workers behind a queue of `queue_batches`.
    ///
    /// # Errors
    /// When the system has no more threads to give.
    pub fn new(lanes: NonZeroUsize, queue_batches: NonZeroUsize) -> std::io::Result<Self> {
        let (submit, queue) = bounded::<Work>(queue_batches.get());
        let workers = (0..lanes.get())
            .map(|lane| {
                let queue = queue.clone();
                thread::Builder::new().name(format!("engine-{lane}")).spawn(move || {
                    for Work { mut batch, done } in queue {
                        batch.run();
                        // The submitter may be gone; then nobody wants the batch.
                        let _ = done.send(batch);
                    }
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { submit: Some(submit), workers })
    }

    /// A queue that holds up to `in_flight_max` finished batches of one submitter.
    pub fn completions(&self, in_flight_max: NonZeroUsize) -> Completions {
        let (done, finished) = bounded(in_flight_max.get());
        Completions { done, finished, in_flight: 0, in_flight_max: in_flight_max.get() }
    }

    /// Queues `batch`.
    ///
    /// # Errors
    /// Hands the batch back when either queue is full: the submitter first takes what has finished.
    pub fn submit(&self, batch: Batch, completions: &mut Completions) -> Result<(), Batch> {
        if completions.in_flight == completions.in_flight_max {
            return Err(batch);
        }
        let submit = self.submit.as_ref().expect("the queue is closed only by drop");
        match submit.try_send(Work { batch, done: completions.done.clone() }) {
            Ok(()) => {
                completions.in_flight += 1;
                Ok(())
            }
            Err(TrySendError::Full(work) | TrySendError::Disconnected(work)) => Err(work.batch),
        }
    }
}

impl Engine for Lanes {
    fn name(&self) -> &'static str {
        "lanes"
    }

    fn run(&self, batch: Batch) -> Batch {
        let (done, finished) = bounded(1);
        let submit = self.submit.as_ref().expect("the queue is closed only by drop");
        submit.send(Work { batch, done }).expect("workers live as long as the pool");
        finished.recv().expect("a worker hands back every batch it takes")
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.submit = None;
        for worker in self.workers.drain(..) {
            // A worker that panicked has already said so on standard error.
            let _ = worker.join();
        }
    }
}
