//! The memory of a copy by the number of its streams (G8).
//!
//! Guarantees: a figure is the kernel's count of the greatest resident memory of the larger end, read until the end's last
//! milliseconds; the receiver discards, so that no file is part of it.

use super::copies::Copies;
use super::grid::{PAPER, Protection, protection, request};
use super::modes::Mode;
use crate::LabError;
use crate::experiment::{
    Axis, Claim, Coordinates, Drawn, Experiment, Measure, Outcome, Plan, Plot, Repetition, Sample, View, at,
    by,
};
use crate::load::Watch;
use crate::process_tree::Tree;
use crate::program::{End, Level};
use crate::report::number::counted;
use sealane_lanes::Placement;
use std::io::Write;
use std::path::Path;
use std::process::id;
use std::thread;
use std::time::Duration;

/// The part's name, which is that of the paper's row.
pub(super) const PART: &str = "G8";

const STREAMS: [u32; 5] = [1, 2, 4, 8, 16];
const LANES: u32 = 2;
const PRIVATE: Protection = protection(Level::Private, "modern", Some("aes-128-gcm"), "modern private");
/// A file that is many times what is under way.
const BYTES: u64 = 128 << 20;
/// The time between two looks at the ends.
const STEP: Duration = Duration::from_millis(2);
/// The measure.
const PEAK: &str = "peak_mb";
/// The most that sixteen streams may take over one: a tenth, which is what the lab calls alike.
const ALIKE: f64 = 1.1;

fn place(streams: u32) -> Coordinates {
    at([("streams", &*streams.to_string())])
}

/// Copies by so many streams, and watches the memory of both ends.
fn watched(copies: &Copies<'_>, source: &Path, streams: u32) -> Result<Sample, LabError> {
    let mode = Mode { name: "", lanes: LANES, streams, placement: Placement::Connection };
    let request = request(End::Both, &PRIVATE, &mode);
    let target = copies.scratch.path().join("discarded");
    let sources = [source.to_owned()];
    let watch = Watch::begin();
    // The usage of an ended child counts the memory of the process that started it, so the ends are watched.
    let (finished, peak_bytes) = thread::scope(|scope| {
        let copy = scope.spawn(|| copies.program.copy(&request, &sources, &target));
        let mut peak_bytes = 0;
        while !copy.is_finished() {
            peak_bytes = Tree::of(id()).peak_bytes_below_root().unwrap_or(0).max(peak_bytes);
            thread::sleep(STEP);
        }
        let ended = copy.join();
        (ended.unwrap_or_else(|_| Err(LabError::Unavailable("a copy panicked".to_owned()))), peak_bytes)
    });
    let sample = Sample::slice(PEAK, peak_bytes as f64 / 1e6, watch.is_disturbed(0.0));
    Ok(Sample { tier: finished?.done.tier, ..sample })
}

/// Runs the study.
pub(super) fn outcomes(copies: &Copies<'_>, progress: &mut dyn Write) -> Result<Vec<Outcome>, LabError> {
    let bytes = BYTES.min(copies.bytes_max);
    let source = copies.scratch.random_file("memory", bytes, copies.request.seed)?;
    let experiment = experiment(copies.repetition);
    writeln!(progress, "{}", experiment.title)?;
    let places = STREAMS.map(place).to_vec();
    let plan = Plan::new(experiment, places, copies.request.seed);
    let outcome = plan.run(&mut by(|cell| watched(copies, &source, STREAMS[cell])), progress, |_| ())?;
    crate::scratch::remove(&source)?;
    Ok(vec![outcome])
}

fn experiment(repetition: Repetition) -> Experiment {
    let [one, .., most] = STREAMS;
    let statement = format!(
        "{most} streams take at most a tenth more memory than one, on {LANES} lanes: what is under way depends on rate and round \
         trip, not on streams"
    );
    let claim = Claim::ratio((statement, "G8"), PEAK, (place(most), place(one)), (None, Some(ALIKE)));
    let measure = Measure::cost(PEAK, "MB", "MB");
    Experiment {
        repetition,
        axes: vec![Axis::new("streams", STREAMS).in_words(|streams| {
            streams.parse().map_or_else(|_| streams.to_owned(), |count: u32| counted(count, "stream"))
        })],
        ..Experiment::new("memory", PART, "Memory by streams", &[], vec![measure])
    }
    .of(PAPER)
    .claiming(vec![claim])
    .notes(&[
        "The greatest resident memory of the larger end, private with AES-128-GCM on two lanes. The study: buffers are a matter of \
         round trip times rate, which streams divide among themselves.",
    ])
    .shown(View::Cells, vec![Plot::new(Drawn::Lines, "streams", PEAK, &[])])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Cell, Profile, Verdict, check};

    #[test]
    fn memory_that_grows_with_streams_is_a_miss() {
        let claim = &experiment(Profile::Quick.repetition()).claims[0];
        let verdict = |grown: f64| {
            let cell = |streams: u32, peak: f64| Cell {
                at: place(streams),
                samples: vec![Sample::slice(PEAK, peak, false); 5],
                ..Cell::default()
            };
            check(claim, &[cell(1, 20.0), cell(16, 20.0 * grown)]).verdict
        };
        assert_eq!([1.05, 1.5].map(verdict), [Verdict::Holds, Verdict::DoesNotHold]);
    }
}
