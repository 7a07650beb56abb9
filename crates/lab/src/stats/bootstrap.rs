//! Intervals by resampling, for medians and for ratios of medians.
//!
//! Guarantees: the result depends on the samples and the seed alone; the interval contains the estimate; below
//! [`super::SAMPLES_FOR_CONFIDENCE`] samples the result is the widest possible interval instead of a false narrow
//! one.

use super::{Interval, SAMPLES_FOR_CONFIDENCE, median, median_in_place, quantile_of_sorted};
use crate::rng::Rng;

/// Resamples drawn for an interval. The ends of a 90 % interval are then based on about 100 values each.
const RESAMPLES: usize = 2_000;

/// Returns the two-sided percentile interval at `confidence` of `statistic` over resamples drawn by `draw`.
///
/// `draw` fills one resample from the generator and returns its statistic. The interval is widened where needed to
/// contain `estimate`, the statistic of the samples themselves.
pub fn bootstrap(
    estimate: f64,
    confidence: f64,
    seed: u64,
    mut draw: impl FnMut(&mut Rng) -> Option<f64>,
) -> Option<Interval> {
    let mut rng = Rng::new(seed);
    let mut values: Vec<f64> =
        (0..RESAMPLES).filter_map(|_| draw(&mut rng)).filter(|value| value.is_finite()).collect();
    values.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - confidence) / 2.0;
    Some(Interval {
        low: quantile_of_sorted(&values, tail)?.min(estimate),
        high: quantile_of_sorted(&values, 1.0 - tail)?.max(estimate),
    })
}

/// Returns the interval of the median; `None` for no samples.
pub fn median_interval(samples: &[f64], confidence: f64, seed: u64) -> Option<Interval> {
    let estimate = median(samples)?;
    if samples.len() < SAMPLES_FOR_CONFIDENCE {
        return Some(range(samples));
    }
    let mut buffer = vec![0.0; samples.len()];
    bootstrap(estimate, confidence, seed, |rng| resampled_median(samples, &mut buffer, rng))
}

/// Returns `median(numerator) / median(denominator)` and its interval, with each side resampled on its own.
///
/// Returns `None` if a side is empty or the denominator's median is not positive, as that of rates and times is.
pub fn ratio_of_medians(
    numerator: &[f64],
    denominator: &[f64],
    confidence: f64,
    seed: u64,
) -> Option<(f64, Interval)> {
    let bottom = median(denominator)?;
    if bottom.is_nan() || bottom <= 0.0 {
        return None;
    }
    let estimate = median(numerator)? / bottom;
    if numerator.len().min(denominator.len()) < SAMPLES_FOR_CONFIDENCE {
        let (top, bottom) = (range(numerator), range(denominator));
        let low = top.low / bottom.high;
        let high = if bottom.low > 0.0 { top.high / bottom.low } else { f64::MAX };
        return Some((estimate, Interval { low, high }));
    }
    let mut top = vec![0.0; numerator.len()];
    let mut bottom = vec![0.0; denominator.len()];
    let interval = bootstrap(estimate, confidence, seed, |rng| {
        Some(resampled_median(numerator, &mut top, rng)? / resampled_median(denominator, &mut bottom, rng)?)
    })?;
    Some((estimate, interval))
}

fn resampled_median(samples: &[f64], buffer: &mut [f64], rng: &mut Rng) -> Option<f64> {
    for slot in buffer.iter_mut() {
        *slot = samples[rng.below(samples.len())];
    }
    median_in_place(buffer)
}

fn range(samples: &[f64]) -> Interval {
    Interval {
        low: samples.iter().copied().fold(f64::INFINITY, f64::min),
        high: samples.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use proptest::prelude::{ProptestConfig, prop, prop_assert, prop_assert_eq, proptest};

    #[test]
    fn few_samples_give_their_whole_range() {
        let interval = median_interval(&[3.0, 1.0, 2.0], 0.9, 5).unwrap();
        assert_eq!(interval, Interval { low: 1.0, high: 3.0 });
        let (ratio, interval) = ratio_of_medians(&[2.0, 4.0], &[1.0, 2.0], 0.9, 5).unwrap();
        assert_eq!(ratio, 2.0);
        assert_eq!(interval, Interval { low: 1.0, high: 4.0 });
    }

    #[test]
    fn no_ratio_over_nothing() {
        assert_eq!(ratio_of_medians(&[1.0], &[], 0.9, 1), None);
        assert_eq!(ratio_of_medians(&[1.0], &[0.0], 0.9, 1), None);
    }

    /// 90 % intervals of the median of normal samples must hold the true median in about 90 % of trials. The percentile
    /// bootstrap of a median is known to be slightly conservative here.
    #[test]
    fn covers_as_often_as_it_promises() {
        let mut rng = Rng::new(99);
        let mut inside = 0;
        let trials = 100;
        for trial in 0..trials {
            let samples: Vec<f64> = (0..15).map(|_| normal(&mut rng)).collect();
            let interval = median_interval(&samples, 0.9, trial).unwrap();
            inside += u32::from(interval.contains(0.0));
        }
        assert!((82..=100).contains(&inside), "{inside} of {trials}");
    }

    /// Returns the sum of twelve uniforms less six: mean 0, variance 1, a sufficient approximation of normal.
    fn normal(rng: &mut Rng) -> f64 {
        (0..12).map(|_| rng.next_u64() as f64 / u64::MAX as f64).sum::<f64>() - 6.0
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn scaling_one_side_scales_the_ratio(
            samples in prop::collection::vec(1.0_f64..1e6, 5..20),
            factor in 0.1_f64..10.0,
            seed: u64,
        ) {
            let scaled: Vec<f64> = samples.iter().map(|value| value * factor).collect();
            let (ratio, interval) = ratio_of_medians(&scaled, &samples, 0.9, seed).unwrap();
            prop_assert!((ratio / factor - 1.0).abs() < 1e-9);
            prop_assert!(interval.contains(ratio));
            let (again, same) = ratio_of_medians(&scaled, &samples, 0.9, seed).unwrap();
            prop_assert_eq!(ratio, again);
            prop_assert_eq!(interval, same);
        }

        #[test]
        fn equal_samples_leave_no_doubt(value in 1.0_f64..1e6, count in 5_usize..20, seed: u64) {
            let interval = median_interval(&vec![value; count], 0.9, seed).unwrap();
            prop_assert_eq!(interval, Interval { low: value, high: value });
        }
    }
}
