//! How evenly connections share a rate (N34), and when their shares allow to say so.

use super::driver::SEGMENTS;
use super::rig::Slice;
use crate::experiment::derive;
use crate::stats::{CONFIDENCE, Interval, SAMPLES_FOR_CONFIDENCE, bootstrap};

/// Batches that a connection has had on average, at least: of fewer the shares say how long a run was, not how fair.
const BATCHES_OF_A_SHARE: u64 = 10;

/// The interval of Jain's index over the shares of all slices, which are drawn anew again and again.
pub(super) fn jain_interval(slices: &[Slice]) -> Option<Interval> {
    let connections = slices.first()?.shares.len();
    let messages: u64 = slices.iter().map(|slice| slice.messages).sum();
    let wanted = BATCHES_OF_A_SHARE * SEGMENTS as u64 * connections as u64;
    if messages < wanted || slices.len() < SAMPLES_FOR_CONFIDENCE {
        return None;
    }
    let jain = |drawn: &mut dyn FnMut(usize) -> usize| {
        let mut shares = vec![0.0; connections];
        for at in 0..slices.len() {
            let slice = &slices[drawn(at)];
            shares.iter_mut().zip(&slice.shares).for_each(|(sum, share)| *sum += *share as f64);
        }
        derive::jain(&shares)
    };
    let all = jain(&mut |at| at)?;
    bootstrap(all, CONFIDENCE, 1, |rng| jain(&mut |_| rng.below(slices.len())))
}

#[cfg(test)]
mod tests {
    use super::super::{sentences, tests::study};
    use super::*;
    use crate::experiment::Verdict;

    /// A run of 220 batches cannot have given one to each of 384 connections, however fair its lanes are.
    #[test]
    fn too_few_batches_give_no_verdict_on_fairness() {
        let slices = |messages: u64, connections: usize| {
            let slice = Slice {
                messages,
                shares: vec![messages / connections as u64; connections],
                ..Slice::default()
            };
            vec![slice; 5]
        };
        assert_eq!(jain_interval(&slices(352, 384)), None);
        let interval = jain_interval(&slices(384 * 80, 384)).unwrap();
        assert!((interval.low, interval.high) == (1.0, 1.0), "{interval:?}");
        assert_eq!(jain_interval(&slices(384 * 80, 384)[..2]), None);
        let mut undecided = study();
        undecided.cells.iter_mut().for_each(|cell| cell.jain_interval = None);
        let fair =
            sentences(&undecided).into_iter().find(|one| one.statement.contains("no less fair")).unwrap();
        assert_eq!(fair.verdict, Verdict::NotDecidable);
    }
}
