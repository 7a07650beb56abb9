//! Turns cells into runs of the program: random files of a fitting size, one timed copy, a sample.
//!
//! Guarantees: the clock covers the program from its start to its end, or the measured end's work; what it says was in force is what was asked;
//! memory is warm and load beside the run is noted (see [`crate::load`]).

use crate::LabError;
use crate::experiment::{CPU_PER_GIB, Coordinates, Copied, RATE, Runner, Sample};
use crate::load::{MachineTime, is_disturbed, warm_memory};
use crate::program::{CopyRequest, End, Finished, Program};
use crate::report::number::{bytes, quantity};
use crate::scratch::Scratch;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A cell and how to run it.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    /// Its place.
    pub(crate) at: Coordinates,
    /// What the program is asked.
    pub(crate) request: CopyRequest,
    /// Cells of a group copy the same number of bytes, so that they can be compared.
    pub(crate) group: &'static str,
}

/// Runs copies of random files whose receiver discards them.
pub(crate) struct DiscardRunner<'a> {
    pub(crate) program: &'a Program,
    pub(crate) scratch: &'a Scratch,
    pub(crate) cells: &'a [Planned],
    /// Bytes for each group.
    pub(crate) sizes: BTreeMap<&'static str, u64>,
    /// How long each run warms up, and how long it lasts at least; one copy if `None`.
    pub(crate) run_seconds: Option<(f64, f64)>,
    pub(crate) progress: &'a mut dyn Write,
    pub(crate) label: &'a str,
}

/// Smallest workload: below it start-up is all there is.
const BYTES_MIN: u64 = 4 << 20;

impl DiscardRunner<'_> {
    /// Chooses for each group a power of two of bytes that its first cell copies in about `seconds`, up to `bytes_max`.
    pub(crate) fn fit_sizes(&mut self, seconds: f64, bytes_max: u64) -> Result<(), LabError> {
        let mut sizes = BTreeMap::new();
        for cell in self.cells {
            if sizes.contains_key(cell.group) {
                continue;
            }
            let mut size = BYTES_MIN.min(bytes_max.max(1));
            loop {
                let file = self.scratch.random_file("pilot", size, size)?;
                // A group whose pilot fails still gets a size: its cells will say what failed.
                let Ok(finished) = self.program.copy(&cell.request, &[file], &self.target()) else { break };
                let taken = finished.done.seconds.max(1e-3);
                if taken >= seconds / 4.0 || size >= bytes_max {
                    let wanted = (size as f64 * seconds / taken) as u64;
                    size = power_of_two_below(wanted).clamp(BYTES_MIN.min(bytes_max), bytes_max);
                    break;
                }
                size = (size * 4).min(bytes_max);
            }
            sizes.insert(cell.group, size);
        }
        crate::scratch::remove(&self.scratch.path().join("pilot"))?;
        self.sizes = sizes;
        Ok(())
    }

    /// The sizes in words, for the report.
    pub(crate) fn workload(&self) -> String {
        let mut groups: Vec<(&str, u64)> = self.sizes.iter().map(|(&group, &size)| (group, size)).collect();
        groups.sort_by_key(|&(_, size)| std::cmp::Reverse(size));
        let sizes: Vec<String> =
            groups.iter().map(|(group, size)| format!("{} ({group})", bytes(*size))).collect();
        format!(
            "One file of random bytes, new in each round, discarded by the receiver: {}.",
            sizes.join(", ")
        )
    }

    /// One copy after another, at least for `seconds`, as one run; none for none.
    fn copies(&self, cell: usize, seconds: f64) -> Result<(Copied, String, bool), LabError> {
        let planned = &self.cells[cell];
        let size = self.sizes.get(planned.group).copied().unwrap_or(BYTES_MIN);
        let sources = [self.file(size)];
        let mut all: Option<(Copied, String, bool)> = None;
        let began = Instant::now();
        while all.is_none() && seconds > 0.0 || began.elapsed().as_secs_f64() < seconds {
            let measured =
                measure(self.program, &planned.request, &sources, &self.target(), Some(size), 64 << 20)?;
            let (mut copied, tier, is_disturbed) = measured;
            // The program counts from the first byte of data where one end is measured: what the other end sealed before is
            // no part of it. A namespace made first is no part of it either.
            copied.wall_seconds = copied.program_seconds.unwrap_or(copied.wall_seconds);
            copied.cpu_seconds = match planned.request.end {
                Some(End::Send) => copied.cpu_local_seconds,
                Some(End::Receive) => copied.cpu_remote_seconds,
                _ => None,
            }
            .unwrap_or(copied.cpu_seconds);
            match &mut all {
                Some((sum, _, any)) => {
                    *sum += copied;
                    *any |= is_disturbed;
                }
                None => all = Some((copied, tier, is_disturbed)),
            }
        }
        Ok(all.unwrap_or_default())
    }

    fn file(&self, size: u64) -> PathBuf {
        self.scratch.path().join(format!("random-{size}"))
    }

    fn target(&self) -> PathBuf {
        self.scratch.path().join("discarded")
    }
}

impl Runner for DiscardRunner<'_> {
    fn prepare(&mut self, content_seed: u64) -> Result<(), LabError> {
        let mut sizes: Vec<u64> = self.sizes.values().copied().collect();
        sizes.sort_unstable();
        sizes.dedup();
        for size in sizes {
            self.scratch.random_file(&format!("random-{size}"), size, content_seed ^ size)?;
        }
        Ok(())
    }

    fn sample(&mut self, cell: usize) -> Result<Sample, LabError> {
        let (warm_up_seconds, seconds) = self.run_seconds.unwrap_or_default();
        self.copies(cell, warm_up_seconds)?;
        let (copied, tier, is_disturbed) = self.copies(cell, seconds.max(f64::MIN_POSITIVE))?;
        Ok(Sample { tier, is_disturbed, ..Sample::copied(copied) })
    }

    fn round_done(&mut self, round: isize, rounds: usize) -> Result<(), LabError> {
        let name = if round < 0 { "warm-up".to_owned() } else { format!("round {} of {rounds}", round + 1) };
        writeln!(self.progress, "  {}: {name} done ({} cells)", self.label, self.cells.len())?;
        Ok(self.progress.flush()?)
    }
}

/// One timed copy, the implementation that ran, and whether other load disturbed it. `bytes` is what must arrive, if known; `warm_bytes` is touched and freed before.
pub(crate) fn measure(
    program: &Program,
    request: &CopyRequest,
    sources: &[PathBuf],
    target: &Path,
    bytes: Option<u64>,
    warm_bytes: u64,
) -> Result<(Copied, String, bool), LabError> {
    warm_memory(warm_bytes);
    let before = MachineTime::now();
    let finished = program.copy(request, sources, target)?;
    let after = MachineTime::now();
    check_promises(request, &finished, bytes)?;
    let Finished { done, wall, .. } = finished;
    let cpu_seconds = done.cpu_seconds.local + done.cpu_seconds.remote;
    let passed = before.zip(after).map(|(before, after)| after.since(before)).unwrap_or_default();
    let other_cpu_seconds = (passed.busy_seconds - cpu_seconds).max(0.0);
    let copied = Copied {
        bytes: done.bytes,
        files: done.files,
        wall_seconds: wall.as_secs_f64(),
        program_seconds: Some(done.seconds),
        cpu_local_seconds: Some(done.cpu_seconds.local),
        cpu_remote_seconds: Some(done.cpu_seconds.remote),
        cpu_seconds,
        other_cpu_seconds,
        stolen_seconds: passed.stolen_seconds,
        resent_bytes: done.resent_bytes,
    };
    Ok((copied, done.tier, is_disturbed(other_cpu_seconds, passed.stolen_seconds, wall)))
}

/// A figure under the wrong name is worse than none: a copy that lowered its level, changed its suite or lost bytes is
/// a failure here even if the program called it a success.
fn check_promises(request: &CopyRequest, finished: &Finished, bytes: Option<u64>) -> Result<(), LabError> {
    let done = &finished.done;
    let broken = |what: &str, wanted: String, found: String| LabError::Copy {
        kind: "promise".to_owned(),
        message: format!("{what} {wanted} was asked for, {found} was in force"),
    };
    if let Some(level) = request.level.filter(|level| level.name() != done.level) {
        return Err(broken("level", level.name().to_owned(), done.level.clone()));
    }
    if let Some(suite) = request.suite.as_ref().filter(|suite| **suite != done.suite) {
        return Err(broken("suite", suite.clone(), done.suite.clone()));
    }
    for (what, wanted, found) in
        [("streams", request.streams, done.streams), ("lanes", request.lanes, done.lanes)]
    {
        if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
            return Err(broken(what, wanted.to_string(), found.to_string()));
        }
    }
    if let Some(bytes) = bytes.filter(|bytes| *bytes != done.bytes) {
        return Err(broken("bytes", bytes.to_string(), done.bytes.to_string()));
    }
    Ok(())
}

fn power_of_two_below(value: u64) -> u64 {
    1 << value.max(1).ilog2()
}

/// A rate for a progress line.
pub(crate) fn rate_words(sample: &Sample) -> String {
    let words = |measure| sample.value(measure).map_or_else(|| "–".to_owned(), quantity);
    format!("{} MB/s, {} CPU s/GiB", words(RATE), words(CPU_PER_GIB))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Done, Level};
    use std::time::Duration;

    #[test]
    fn a_figure_under_the_wrong_name_is_refused() {
        let request = CopyRequest {
            level: Some(Level::Private),
            suite: Some("aes-128-gcm".to_owned()),
            streams: Some(2),
            ..CopyRequest::default()
        };
        let done = Done {
            level: "private".to_owned(),
            suite: "aes-128-gcm".to_owned(),
            streams: 2,
            bytes: 10,
            ..Done::default()
        };
        let check = |change: fn(&mut Done)| {
            let mut done = done.clone();
            change(&mut done);
            let finished = Finished { done, wall: Duration::from_secs(1) };
            check_promises(&request, &finished, Some(10)).map_err(|error| error.to_string())
        };
        assert_eq!(check(|_| {}), Ok(()));
        assert!(check(|done| done.level = "clear".to_owned()).unwrap_err().contains("clear"));
        assert!(check(|done| done.suite = "blake3".to_owned()).is_err());
        assert!(check(|done| done.streams = 1).is_err());
        assert!(check(|done| done.bytes = 9).unwrap_err().contains("bytes 10"));
    }

    #[test]
    fn powers_of_two() {
        assert_eq!([0, 1, 2, 3, 1023, 1024].map(power_of_two_below), [1, 1, 2, 2, 512, 1024]);
    }
}
