//! How long studies take on this machine, from the runs that were made on it: for the list, for a site, and for the time left.
//!
//! Guarantees: a time says what it stands on; a file that cannot be read is as if nothing had been run; the file has a bounded
//! number of runs.

use crate::LabError;
use crate::experiment::Profile;
use crate::request::Request;
use crate::studies::{self, Basis, Listed, Planned};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process;

/// The most runs that are remembered.
const RUNS_MAX: usize = 1_000;

/// The time of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Time {
    seconds: f64,
    basis: Basis,
}

/// A run that was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Taken {
    /// The words after `sealane`.
    command: String,
    profile: Profile,
    seconds: f64,
    /// The estimate for the quick profile.
    estimate: f64,
}

/// The runs that were made on this machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    runs: BTreeMap<String, Taken>,
}

/// Returns what makes two runs the same.
fn key(run: &Planned) -> String {
    let Planned { family, request, .. } = run;
    let mut parts: Vec<String> = request.only.iter().map(|part| part.to_ascii_lowercase()).collect();
    parts.sort();
    let topologies: Vec<&str> = request.hosts.topologies.iter().map(|topology| topology.name()).collect();
    let lanes: Vec<String> = request.lanes.iter().map(usize::to_string).collect();
    let words =
        [family.command, request.profile.name(), &parts.join(","), &topologies.join(","), &lanes.join(",")];
    words.join("|")
}

impl Times {
    /// Reads the runs of this machine.
    pub fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_default();
        serde_json::from_str(&text)
            .ok()
            .filter(|times: &Self| times.runs.len() <= RUNS_MAX)
            .unwrap_or_default()
    }

    /// Writes them, and makes the folder. Another program that reads them finds all of the old ones or all of the new ones.
    ///
    /// # Errors
    /// Fails if the folder or the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), LabError> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(LabError::file("cannot make", folder))?;
        }
        let text = serde_json::to_string(self).map_err(|error| LabError::Render(error.to_string()))?;
        // Whoever reads it meanwhile finds the old file or the new one.
        let fresh = path.with_extension(format!("{}.new", process::id()));
        let written = fs::write(&fresh, text + "\n").and_then(|()| fs::rename(&fresh, path));
        written.inspect_err(|_| _ = fs::remove_file(&fresh)).map_err(LabError::file("cannot write", path))
    }

    /// Notes the time of a run that came to its end.
    pub fn note(&mut self, run: &Planned, seconds: f64) {
        let key = key(run);
        if self.runs.len() >= RUNS_MAX && !self.runs.contains_key(&key) {
            return;
        }
        let command = run.family.command.to_owned();
        let (profile, estimate) = (run.request.profile, f64::from(run.seconds));
        self.runs.insert(key, Taken { command, profile, seconds, estimate });
    }

    /// Returns how much longer than estimated runs of a profile took here, those of one command or all.
    fn pace(&self, profile: Profile, command: Option<&str>) -> Option<f64> {
        let is_asked =
            |run: &&Taken| run.profile == profile && command.is_none_or(|command| run.command == command);
        let (seconds, estimate) =
            self.runs.values().filter(is_asked).fold((0.0, 0.0), |(seconds, estimate), run| {
                (seconds + run.seconds, estimate + run.estimate)
            });
        (estimate > 0.0).then(|| seconds / estimate)
    }

    fn time(&self, run: &Planned) -> Time {
        let profile = run.request.profile;
        if let Some(taken) = self.runs.get(&key(run)) {
            return Time { seconds: taken.seconds, basis: Basis::Measured };
        }
        let estimate = f64::from(run.seconds);
        let pace = self.pace(profile, Some(run.family.command)).or_else(|| self.pace(profile, None));
        match pace {
            Some(pace) => Time { seconds: pace * estimate, basis: Basis::Pace },
            None => Time { seconds: estimate, basis: Basis::Elsewhere },
        }
    }

    /// Returns the seconds that a run takes here, and whether they are known for its profile.
    pub fn of(&self, run: &Planned) -> (f64, bool) {
        let Time { seconds, basis } = self.time(run);
        (seconds, basis != Basis::Elsewhere || run.request.profile == Profile::Quick)
    }

    /// Returns every study, with its time in the quick profile here.
    pub fn listed(&self) -> Vec<Listed> {
        let listed = |study: Listed| {
            let request = Request { profile: Profile::Quick, ..Request::default() };
            match &studies::runs(&[study.id], &request)[..] {
                [run] => {
                    let Time { seconds, basis } = self.time(run);
                    Listed { seconds: seconds.ceil() as u32, basis, ..study }
                }
                _ => study,
            }
        };
        studies::listed().into_iter().map(listed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(ids: &[&str]) -> Vec<Planned> {
        studies::runs(ids, &Request { profile: Profile::Quick, ..Request::default() })
    }

    fn told(times: &Times, id: &str) -> (u32, Basis) {
        let study = times.listed().into_iter().find(|study| study.id == id).unwrap();
        (study.seconds, study.basis)
    }

    /// A study that was run here has its own time; any other has the estimate by the pace of this machine.
    #[test]
    fn times_are_those_of_this_machine() {
        let mut times = Times::default();
        let estimated =
            |id: &str| studies::listed().into_iter().find(|study| study.id == id).unwrap().seconds;
        assert_eq!(told(&times, "N34"), (estimated("N34"), Basis::Elsewhere));
        let [n34] = &runs(&["N34"])[..] else { panic!("one command") };
        times.note(n34, 3.0 * f64::from(n34.seconds));
        assert_eq!(told(&times, "N34"), (3 * estimated("N34"), Basis::Measured));
        assert_eq!(told(&times, "N36"), (3 * estimated("N36"), Basis::Pace));
        assert_eq!(told(&times, "B16"), (3 * estimated("B16"), Basis::Pace));
        // A command's own pace says more than that of all.
        let [b21] = &runs(&["B21"])[..] else { panic!("one command") };
        times.note(b21, f64::from(b21.seconds) / 2.0);
        assert_eq!(told(&times, "N36"), (3 * estimated("N36"), Basis::Pace));
        assert_eq!(told(&times, "B21"), (estimated("B21").div_ceil(2), Basis::Measured));
        // The last run counts, whatever the spelling of its parts.
        let mut again = n34.clone();
        again.request.only = vec!["n34".to_owned()];
        times.note(&again, 7.0);
        assert_eq!(told(&times, "N34"), (7, Basis::Measured));
        let full =
            Planned { request: Request { profile: Profile::Full, ..n34.request.clone() }, ..n34.clone() };
        assert_eq!((times.of(&full).1, times.of(n34)), (false, (7.0, true)));
    }

    #[test]
    fn a_file_is_read_back_and_a_broken_one_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sealane/times.json");
        let mut times = Times::default();
        times.note(&runs(&["N34"])[0], 12.5);
        times.write(&path).unwrap();
        assert_eq!(Times::read(&path), times);
        fs::write(&path, "{").unwrap();
        assert_eq!(Times::read(&path), Times::default());
        assert_eq!(Times::read(&folder.path().join("absent")), Times::default());
    }
}
