//! The loads of the software engines' queues: works over a buffer, and public-key operations.

use crate::{Direction, Software, Work, copies::Joined, copies::hull_bytes};

/// The maximum numbers of jobs and bytes of a small work: a larger one fills a kernel's ways by itself.
const SMALL_JOBS: usize = 16;
const SMALL_BYTES: usize = 16 << 10;
/// The numbers of jobs and bytes up to which works are gathered.
const BATCH_JOBS: f32 = 128.0;
const BATCH_BYTES: f32 = 65_536.0;

/// A load of an engine's queue.
pub(crate) trait Load: Send + Sized + 'static {
    /// The memory that a thread keeps to run loads.
    type Runner: Default + Send;
    /// Loads that are equal in this may share a batch.
    type Class: PartialEq;

    /// Returns its part of a full batch, which is 1; `None` if it makes a batch alone.
    fn share(&self) -> Option<f32>;

    /// Returns the class of its batch.
    fn class(&self) -> Self::Class;

    /// Runs loads of one submitter.
    fn run(loads: &mut [Self], runner: &mut Self::Runner);

    /// Runs loads that were gathered from several submitters.
    fn run_gathered(loads: &mut [Self], runner: &mut Self::Runner);
}

/// Runs works alone, or copied into one.
#[derive(Default)]
pub(crate) struct WorkRunner {
    software: Software,
    joined: Joined,
}

impl Load for Work {
    type Runner = WorkRunner;
    type Class = Direction;

    fn share(&self) -> Option<f32> {
        let (jobs, bytes) = (self.jobs.len(), hull_bytes(self));
        let is_small = jobs <= SMALL_JOBS && bytes <= SMALL_BYTES;
        is_small.then(|| (jobs as f32 / BATCH_JOBS).max(bytes as f32 / BATCH_BYTES))
    }

    fn class(&self) -> Direction {
        self.direction
    }

    fn run(loads: &mut [Self], runner: &mut WorkRunner) {
        loads.iter_mut().for_each(|work| runner.software.run(work));
    }

    fn run_gathered(loads: &mut [Self], runner: &mut WorkRunner) {
        match loads {
            [work] => runner.software.run(work),
            works => {
                let mut works: Vec<&mut Self> = works.iter_mut().collect();
                runner.joined.run(&mut works, &mut runner.software);
            }
        }
    }
}
