//! Studies shared by many hosts: their cells as jobs, the result of each, and the reports of all.
//!
//! Guarantees: all hosts have the same build of the program; a report states the machines that its samples come from, and
//! each sample the host that took it; a host that cannot take a cell gives the reason.

use crate::LabError;
use crate::experiment::Profile;
use crate::experiment::assign::{self, Taken, Task};
use crate::machine::Machine;
use crate::report::Report;
use crate::request::{Copies, Request};
use crate::studies::{self, Planned};
use crate::surroundings::Surroundings;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

/// The studies and their parameters, which every host must know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The build of the program.
    pub build: String,
    /// Ids of the studies.
    pub ids: Vec<String>,
    /// The thoroughness.
    pub profile: Profile,
    /// The seed of orders and contents.
    pub seed: u64,
    /// Whether to compare with installed programs.
    pub peers: bool,
    /// The size of the largest file to copy; by default each study's own choice.
    pub file_bytes_max: Option<u64>,
}

/// One cell in one round of one of the studies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Job {
    /// The index of the command that answers some of the studies.
    pub run: usize,
    /// The cell and the round.
    pub task: Task,
}

/// The result of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// The job that this is the result of.
    pub job: Job,
    /// The host, by the name that it was started with.
    pub host: String,
    /// The sample.
    pub taken: Taken,
}

/// Encodes an order, a job or a result.
pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("these have no part that cannot be written")
}

/// Reads one of them.
///
/// # Errors
/// The bytes are none.
pub fn decode<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<T, LabError> {
    serde_json::from_slice(bytes)
        .map_err(|error| LabError::Unavailable(format!("a message about a study cannot be read: {error}")))
}

impl Order {
    fn runs(&self, surroundings: &Arc<Surroundings>) -> Vec<Planned> {
        let request = Request {
            surroundings: Arc::clone(surroundings),
            profile: self.profile,
            seed: self.seed,
            copies: Copies { peers: self.peers, file_bytes_max: self.file_bytes_max, ..Copies::default() },
            ..Request::default()
        };
        studies::runs(&self.ids, &request)
    }

    /// Returns all jobs.
    ///
    /// # Errors
    /// A study cannot be run here.
    pub fn jobs(&self, surroundings: &Arc<Surroundings>) -> Result<Vec<Job>, LabError> {
        let mut jobs = Vec::new();
        for (run, Planned { family, request, .. }) in self.runs(surroundings).iter().enumerate() {
            let tasks = assign::list(|| (family.run)(request, &mut io::sink()))?;
            jobs.extend(tasks.into_iter().map(|task| Job { run, task }));
        }
        Ok(jobs)
    }

    /// Returns a worker of this host, by the name that it was started with.
    pub fn worker(&self, surroundings: &Arc<Surroundings>, host: &str) -> Worker {
        Worker { runs: self.runs(surroundings), host: host.to_owned() }
    }

    /// Returns the names of the runs' files, each with the run's report of these results.
    ///
    /// # Errors
    /// A study cannot be run here.
    pub fn reports(
        &self,
        surroundings: &Arc<Surroundings>,
        all: Vec<Done>,
        progress: &mut dyn Write,
    ) -> Result<Vec<(String, Report)>, LabError> {
        let mut reports = Vec::new();
        for (run, Planned { family, request, name, .. }) in self.runs(surroundings).into_iter().enumerate() {
            let mut machines = BTreeMap::new();
            let mut taken = BTreeMap::new();
            for done in all.iter().filter(|done| done.job.run == run) {
                machines.insert(done.host.clone(), done.taken.machine.clone());
                taken.insert(done.job.task.clone(), done.taken.clone());
            }
            let mut report = assign::fill(taken, || (family.run)(&request, progress))?;
            report.method.push(told(&machines));
            report.hosts = machines;
            reports.push((name, report));
        }
        Ok(reports)
    }
}

/// A host that does jobs. Its runs are planned once.
#[derive(Debug)]
pub struct Worker {
    runs: Vec<Planned>,
    host: String,
}

impl Worker {
    /// Does a job.
    pub fn take(&self, job: Job) -> Done {
        let mut taken = match self.runs.get(job.run) {
            Some(Planned { family, request, .. }) => {
                assign::take(&job.task, || (family.run)(request, &mut io::sink()))
            }
            None => Taken { failure: Some("there is no such study".to_owned()), ..Taken::default() },
        };
        for sample in taken.sample.iter_mut().chain(&mut taken.disturbed) {
            sample.host = Some(self.host.clone());
        }
        Done { job, host: self.host.clone(), taken }
    }
}

/// Returns a sentence about the machines.
fn told(machines: &BTreeMap<String, Machine>) -> String {
    let one = |(host, machine): (&String, &Machine)| {
        let model = machine.cpu_model.as_deref().unwrap_or("unknown CPU");
        let kernel = machine.kernel.as_deref().unwrap_or("unknown kernel");
        format!("{host} ({model}, {} cores, {kernel})", machine.cores)
    };
    let hosts: Vec<_> = machines.iter().map(one).collect();
    format!(
        "Samples were taken on {} hosts, each cell of each round by whichever was free: {}. Ratios between cells of different \
         hosts include the difference of the hosts.",
        hosts.len(),
        hosts.join("; ")
    )
}
