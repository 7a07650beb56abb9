//! Samples: the result of one run of one cell.

use super::{CPU_PER_GIB, MEGABITS, RATE, WALL};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::AddAssign;

/// One run of one cell: a child process from start to end, or a slice of a unit in this process.
///
/// There is no usual value: whoever takes a sample says whether other load disturbed it, and a stored one that does not say so
/// is not read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The counts.
    #[serde(flatten)]
    pub found: Found,
    /// Seed of the random content.
    pub seed: u64,
    /// The round of the run, from 0; warm-up rounds are not counted.
    pub round: usize,
    /// Whether other load disturbed it.
    pub is_disturbed: bool,
    /// The implementation that ran, as the program names it.
    pub tier: String,
    /// The host that took it, if many hosts share the study.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// The counts of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Found {
    /// A copy, with its bytes, files and times.
    Copy(Copied),
    /// Anything else, by measure.
    Values(BTreeMap<String, f64>),
}

impl Default for Found {
    fn default() -> Self {
        Self::Values(BTreeMap::new())
    }
}

/// The counts of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Copied {
    /// Bytes of content copied.
    pub bytes: u64,
    /// Files copied.
    pub files: u64,
    /// The wall time from which rates are computed: that of the whole program, or of the measured end's work.
    pub wall_seconds: f64,
    /// The wall time as measured by the program, if it does.
    pub program_seconds: Option<f64>,
    /// CPU time of this end, if known separately.
    pub cpu_local_seconds: Option<f64>,
    /// CPU time of the far end, if known separately.
    pub cpu_remote_seconds: Option<f64>,
    /// CPU time of all processes of the measured ends.
    pub cpu_seconds: f64,
    /// CPU time others used meanwhile.
    pub other_cpu_seconds: f64,
    /// The time that the hypervisor gave to others meanwhile.
    pub stolen_seconds: f64,
    /// Bytes sent more than once.
    pub resent_bytes: u64,
}

/// Adds a subsequent copy, so that both count as one run.
impl AddAssign for Copied {
    fn add_assign(&mut self, other: Self) {
        let sum = |one: Option<f64>, other: Option<f64>| one.zip(other).map(|(one, other)| one + other);
        self.bytes += other.bytes;
        self.files += other.files;
        self.wall_seconds += other.wall_seconds;
        self.program_seconds = sum(self.program_seconds, other.program_seconds);
        self.cpu_local_seconds = sum(self.cpu_local_seconds, other.cpu_local_seconds);
        self.cpu_remote_seconds = sum(self.cpu_remote_seconds, other.cpu_remote_seconds);
        self.cpu_seconds += other.cpu_seconds;
        self.other_cpu_seconds += other.other_cpu_seconds;
        self.stolen_seconds += other.stolen_seconds;
        self.resent_bytes += other.resent_bytes;
    }
}

impl Copied {
    /// Returns the value of [`RATE`] or another measure of copies; not finite if time or bytes are zero.
    pub fn value(&self, measure: &str) -> Option<f64> {
        let rate = self.bytes as f64 / 1e6 / self.wall_seconds;
        match measure {
            RATE => Some(rate),
            MEGABITS => Some(rate * 8.0),
            // No copy uses zero CPU time: the value is unknown.
            CPU_PER_GIB if self.cpu_seconds == 0.0 => None,
            CPU_PER_GIB => Some(self.cpu_seconds / (self.bytes as f64 / f64::from(1 << 30))),
            WALL => Some(self.wall_seconds),
            _ => None,
        }
    }
}

impl Sample {
    /// Returns the sample of these counts.
    pub fn new(found: Found, is_disturbed: bool) -> Self {
        Self { found, seed: 0, round: 0, is_disturbed, tier: String::new(), host: None }
    }

    /// Returns the sample of a copy.
    pub fn copied(copied: Copied, is_disturbed: bool) -> Self {
        Self::new(Found::Copy(copied), is_disturbed)
    }

    /// Returns the sample of a slice, which has one figure.
    pub fn slice(measure: &str, value: f64, is_disturbed: bool) -> Self {
        Self::of([(measure, value)], is_disturbed)
    }

    /// Returns the sample with these figures by measure.
    pub(crate) fn of<'a>(values: impl IntoIterator<Item = (&'a str, f64)>, is_disturbed: bool) -> Self {
        let values = values.into_iter().map(|(measure, value)| (measure.to_owned(), value));
        Self::new(Found::Values(values.collect()), is_disturbed)
    }

    /// Sets a figure. The figures of a copy follow from its counts and stay.
    pub(crate) fn set(&mut self, measure: &str, value: f64) {
        if let Found::Values(values) = &mut self.found {
            values.insert(measure.to_owned(), value);
        }
    }

    /// Returns its value of a measure, if that is a number.
    pub fn value(&self, measure: &str) -> Option<f64> {
        match &self.found {
            Found::Copy(copied) => copied.value(measure),
            Found::Values(values) => values.get(measure).copied(),
        }
        .filter(|value| value.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs read these.
    #[test]
    fn a_copy_in_json_has_these_fields_in_this_order() {
        let copied = Copied { bytes: 2, wall_seconds: 0.5, program_seconds: Some(0.25), ..Copied::default() };
        let sample = Sample { seed: 7, tier: "batch".to_owned(), ..Sample::copied(copied, false) };
        let text = serde_json::to_string(&sample).unwrap();
        let expected = "{\"bytes\":2,\"files\":0,\"wall_seconds\":0.5,\"program_seconds\":0.25,\
                        \"cpu_local_seconds\":null,\"cpu_remote_seconds\":null,\"cpu_seconds\":0.0,\
                        \"other_cpu_seconds\":0.0,\"stolen_seconds\":0.0,\"resent_bytes\":0,\"seed\":7,\"round\":0,\
                        \"is_disturbed\":false,\"tier\":\"batch\"}";
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<Sample>(&text).unwrap(), sample);
    }

    #[test]
    fn a_slice_reads_back_equal() {
        let sample = Sample { round: 3, ..Sample::slice("mb_per_s", 12.5, true) };
        let text = serde_json::to_string(&sample).unwrap();
        assert!(text.starts_with("{\"mb_per_s\":12.5,"), "{text}");
        assert_eq!(serde_json::from_str::<Sample>(&text).unwrap(), sample);
        assert_eq!((sample.value("mb_per_s"), sample.value(RATE)), (Some(12.5), None));
        let silent = text.replace("\"is_disturbed\":true,", "");
        assert!(silent != text && serde_json::from_str::<Sample>(&silent).is_err(), "{silent}");
    }
}
