//! The statistics behind every figure: medians first, intervals always, outliers reported and never dropped.
//!
//! Guarantees: functions of their arguments alone (resampling takes a seed), no panics on empty or non-finite input,
//! and intervals that contain their estimate.

mod bootstrap;
mod student;
mod tukey;

pub use bootstrap::{bootstrap, median_interval, ratio_of_medians};
pub use student::{mean_interval, t_cdf, t_quantile};
pub use tukey::{Fences, Outlier, OutlierKind, fences, outliers};

use serde::{Deserialize, Serialize};

/// The confidence of every interval in a report, two-sided: 90 %.
pub const CONFIDENCE: f64 = 0.90;

/// The number of samples that a median needs before its interval can have [`CONFIDENCE`].
///
/// Without assumptions about the distribution, the widest interval, minimum to maximum, covers the median with
/// probability `1 - 2^(1-n)`: 0.75 for three samples, 0.875 for four, 0.9375 for five.
pub const SAMPLES_FOR_CONFIDENCE: usize = 5;

/// A closed range with its estimate inside.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Returns whether `value` lies in the range, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// The summary of one cell's samples for tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of samples.
    pub count: usize,
    /// Smallest sample.
    pub min: f64,
    /// The middle sample, or the mean of the two middle ones.
    pub median: f64,
    /// Largest sample.
    pub max: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// The sample standard deviation (n − 1); 0 for one sample.
    pub deviation: f64,
    /// The 90 % interval of the mean by the t distribution; needs two samples.
    pub mean_interval: Option<Interval>,
    /// The 90 % bootstrap interval of the median; below [`SAMPLES_FOR_CONFIDENCE`] it is minimum to maximum.
    pub median_interval: Interval,
    /// Samples beyond Tukey's fences, by position. The outliers, which are part of every other figure here.
    pub outliers: Vec<Outlier>,
}

impl Summary {
    /// Summarises the finite values of `samples`; `None` if there are none.
    pub fn of(samples: &[f64], seed: u64) -> Option<Self> {
        let finite: Vec<f64> = samples.iter().copied().filter(|value| value.is_finite()).collect();
        let median = median(&finite)?;
        Some(Self {
            count: finite.len(),
            min: finite.iter().copied().fold(f64::INFINITY, f64::min),
            median,
            max: finite.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            mean: mean(&finite)?,
            deviation: deviation(&finite),
            mean_interval: mean_interval(&finite, CONFIDENCE),
            median_interval: median_interval(&finite, CONFIDENCE, seed)?,
            outliers: outliers(&finite),
        })
    }
}

/// The statistic that represents several samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Centre {
    /// The median, with an interval by resampling.
    #[default]
    Median,
    /// The mean, with an interval by Student's t.
    Mean,
}

impl Centre {
    /// Returns the statistic of these samples; `None` if there are none.
    pub fn of(self, samples: &[f64]) -> Option<f64> {
        match self {
            Self::Median => median(samples),
            Self::Mean => mean(samples),
        }
    }

    /// Returns its interval at [`CONFIDENCE`].
    pub fn interval(self, samples: &[f64], seed: u64) -> Option<Interval> {
        match self {
            Self::Median => median_interval(samples, CONFIDENCE, seed),
            Self::Mean => mean_interval(samples, CONFIDENCE),
        }
    }
}

/// Returns the arithmetic mean; `None` for no samples.
pub fn mean(samples: &[f64]) -> Option<f64> {
    (!samples.is_empty()).then(|| samples.iter().sum::<f64>() / samples.len() as f64)
}

/// Returns the sample standard deviation (n − 1); 0 for fewer than two samples.
pub fn deviation(samples: &[f64]) -> f64 {
    let Some(mean) = mean(samples) else { return 0.0 };
    if samples.len() < 2 {
        return 0.0;
    }
    let squares: f64 = samples.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (samples.len() - 1) as f64).sqrt()
}

/// Returns the middle value, or the mean of the two middle ones; `None` for no samples.
pub fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    median_in_place(&mut sorted)
}

/// Does the same as [`median`] in a buffer whose order may change, because resampling calls it thousands of times.
fn median_in_place(samples: &mut [f64]) -> Option<f64> {
    samples.sort_unstable_by(f64::total_cmp);
    let middle = samples.len() / 2;
    match samples.len() {
        0 => None,
        count if count % 2 == 1 => Some(samples[middle]),
        _ => Some(midpoint(samples[middle - 1], samples[middle])),
    }
}

/// Halves before it adds, so that two huge values do not overflow; clamps, so that rounding keeps the result between
/// them.
fn midpoint(low: f64, high: f64) -> f64 {
    (low / 2.0 + high / 2.0).clamp(low, high)
}

/// Returns the value below which the fraction `p` of the sorted samples lies, by linear interpolation (R's type 7).
pub fn quantile_of_sorted(sorted: &[f64], p: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = p.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    let part = place - below as f64;
    // The form `a * (1 - part) + b * part` is avoided because it rounds two equal samples to a third value.
    Some(sorted[below] + (sorted[above] - sorted[below]) * part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn agrees_with_values_worked_by_hand() {
        let samples = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        let summary = Summary::of(&samples, 1).unwrap();
        assert_eq!(summary.mean, 5.0);
        assert_eq!(summary.median, 4.5);
        assert!((summary.deviation - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!((summary.min, summary.max), (2.0, 9.0));
        assert_eq!(quantile_of_sorted(&[1.0, 2.0, 3.0, 4.0], 0.25), Some(1.75));
    }

    #[test]
    fn a_centre_is_a_median_or_a_mean_and_has_its_interval() {
        let samples = [1.0, 2.0, 3.0, 4.0, 15.0];
        assert_eq!((Centre::Median.of(&samples), Centre::Mean.of(&samples)), (Some(3.0), Some(5.0)));
        assert_eq!(Centre::Median.interval(&samples, 1), median_interval(&samples, CONFIDENCE, 1));
        assert_eq!(Centre::Mean.interval(&samples, 1), mean_interval(&samples, CONFIDENCE));
        assert_ne!(Centre::Mean.interval(&samples, 1), Centre::Median.interval(&samples, 1));
    }

    #[test]
    fn says_nothing_about_nothing() {
        assert_eq!(Summary::of(&[], 1), None);
        assert_eq!(Summary::of(&[f64::NAN, f64::INFINITY], 1), None);
        assert_eq!(median(&[]), None);
        let one = Summary::of(&[3.0], 1).unwrap();
        assert_eq!(one.mean_interval, None);
        assert_eq!(one.median_interval, Interval { low: 3.0, high: 3.0 });
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn summaries_keep_their_order(samples in prop::collection::vec(-1e9_f64..1e9, 1..40), seed: u64) {
            let summary = Summary::of(&samples, seed).unwrap();
            prop_assert!(summary.min <= summary.median && summary.median <= summary.max);
            prop_assert!(summary.min - 1e-3 <= summary.mean && summary.mean <= summary.max + 1e-3);
            prop_assert!(summary.median_interval.contains(summary.median));
            prop_assert!(summary.min <= summary.median_interval.low);
            prop_assert!(summary.median_interval.high <= summary.max);
            if let Some(interval) = summary.mean_interval {
                prop_assert!(interval.contains(summary.mean));
            }
        }

        #[test]
        fn the_median_splits_the_samples(samples in prop::collection::vec(-1e9_f64..1e9, 1..40)) {
            let middle = median(&samples).unwrap();
            let half = samples.len().div_ceil(2);
            prop_assert!(samples.iter().filter(|&&value| value <= middle).count() >= half);
            prop_assert!(samples.iter().filter(|&&value| value >= middle).count() >= half);
        }
    }
}
