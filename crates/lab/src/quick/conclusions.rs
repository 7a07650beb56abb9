//! The three sentences for somebody who reads nothing else: the price of private here, the limit, and the next step.
//!
//! Guarantees: each sentence is made from this run's figures; a sentence without figures is left out; figures of
//! disturbed runs say so.

use super::{doubt, own};
use crate::experiment::{CPU_PER_GIB, Outcome, RATE};
use crate::program::Level;
use crate::report::number::{quantity, ratio};

/// The share of the cores from which on the processor is the limit.
const BUSY_MIN: f64 = 0.8;
/// The share of clear's rate from which on protection is not felt.
const ALIKE_MIN: f64 = 0.9;

/// Returns the sentences about the copy of a file on a machine with `cores`.
pub(super) fn conclusions(file: &Outcome, cores: usize) -> Vec<String> {
    let figure = |level, metric| own(file, level, metric).map(|summary| summary.median);
    let private = figure(Level::Private, RATE).zip(figure(Level::Private, CPU_PER_GIB));
    let clear = figure(Level::Clear, RATE).zip(figure(Level::Clear, CPU_PER_GIB));
    let (Some((rate, cpu)), Some((clear_rate, clear_cpu))) = (private, clear) else { return Vec::new() };
    let doubt = doubt(file, &[Level::Private, Level::Clear]);
    let share = rate / clear_rate;
    let more = if cpu > clear_cpu {
        format!("{} CPU seconds per GiB more", quantity(cpu - clear_cpu))
    } else {
        "no more CPU time that this run could tell from noise".to_owned()
    };
    // Both ends run here, so that their time together over the copy's own is the number of busy cores.
    let busy = cpu * rate * 1e6 / f64::from(1 << 30);
    let is_busy = busy >= BUSY_MIN * cores as f64;
    let limit = if is_busy {
        format!(
            "The processor is the limit: both ends together keep {} of {cores} cores busy.",
            quantity(busy)
        )
    } else {
        format!(
            "The processor is not the limit: both ends together keep {} of {cores} cores busy, and wait the rest of the \
             time for memory, the system, or each other.",
            quantity(busy)
        )
    };
    let next = match (doubt.is_empty(), share >= ALIKE_MIN, is_busy) {
        (false, ..) => "Run this again when nothing else runs.".to_owned(),
        (true, true, _) => "There is no reason here to copy without protection: leave the level as it is.".to_owned(),
        (true, false, true) => {
            "Copy between two hosts, where each end has its own cores; if the rate is still below the network's, \
             `sealane speed` names the fastest algorithm here."
                .to_owned()
        }
        (true, false, false) => {
            "Try `sealane cp --streams 4`, and `sealane lab run transfer --only G16`, which varies streams and threads.".to_owned()
        }
    };
    vec![
        format!(
            "Private copies {} MB/s here, {} times what clear does, for {more}{doubt}.",
            quantity(rate),
            ratio(share)
        ),
        limit,
        next,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Cell, Copied, Experiment, Sample};
    use crate::peers::OWN;

    /// Returns the outcome of a GiB at two levels: wall and CPU seconds of each.
    fn outcome(private: (f64, f64), clear: (f64, f64), is_disturbed: bool) -> Outcome {
        let cell = |level: Level, (wall_seconds, cpu_seconds)| {
            let copied = Copied { bytes: 1 << 30, wall_seconds, cpu_seconds, ..Copied::default() };
            let sample = Sample::copied(copied, is_disturbed);
            Cell { samples: vec![sample; 3], ..Cell::new([("level", level.name()), ("tool", OWN)]) }
        };
        let cells = vec![cell(Level::Private, private), cell(Level::Clear, clear)];
        Outcome::new(Experiment::new("file", "", "", &["level", "tool"], Vec::new()), cells)
    }

    #[test]
    fn three_sentences_follow_from_the_figures() {
        let told = |private, clear, is_disturbed| conclusions(&outcome(private, clear, is_disturbed), 2);
        let costly = told((1.0, 1.9), (0.5, 0.9), false);
        assert_eq!(costly.len(), 3);
        assert!(costly[0].contains("0.50 times") && costly[0].contains("1.00 CPU seconds"), "{costly:?}");
        assert!(costly[1].starts_with("The processor is the limit") && costly[1].contains("1.90 of 2"));
        assert!(costly[2].contains("two hosts"));
        let free = told((1.0, 0.5), (1.0, 0.5), false);
        assert!(
            free[0].contains("noise") && free[1].contains("not the limit") && free[2].contains("no reason")
        );
        let waiting = told((1.0, 0.5), (0.5, 0.4), false);
        assert!(waiting[2].contains("--streams"), "{waiting:?}");
        let disturbed = told((1.0, 1.9), (0.5, 0.9), true);
        assert!(disturbed[0].contains("disturbed every run") && disturbed[2].contains("again"));
        assert!(conclusions(&Outcome::default(), 2).is_empty());
    }
}
