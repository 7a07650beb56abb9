//! Tukey's fences. They identify samples that a reader should examine.
//!
//! Guarantees: nothing here removes a sample; a report that shows an outlier also counts it.

use super::quantile_of_sorted;
use serde::{Deserialize, Serialize};

/// The quartiles and the four fences around them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fences {
    /// First quartile minus 3 interquartile ranges.
    pub low_severe: f64,
    /// First quartile minus 1.5 interquartile ranges.
    pub low_mild: f64,
    /// Third quartile plus 1.5 interquartile ranges.
    pub high_mild: f64,
    /// Third quartile plus 3 interquartile ranges.
    pub high_severe: f64,
}

/// The distance of a sample beyond the fences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutlierKind {
    /// More than 3 interquartile ranges below.
    LowSevere,
    /// 1.5 to 3 below.
    LowMild,
    /// 1.5 to 3 above.
    HighMild,
    /// More than 3 above.
    HighSevere,
}

/// A sample outside the fences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outlier {
    /// Its place among the samples.
    pub index: usize,
    /// The distance beyond the fences.
    pub kind: OutlierKind,
}

/// Returns the fences of `samples`; `None` for fewer than four, whose quartiles are meaningless.
pub fn fences(samples: &[f64]) -> Option<Fences> {
    if samples.len() < 4 {
        return None;
    }
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let first = quantile_of_sorted(&sorted, 0.25)?;
    let third = quantile_of_sorted(&sorted, 0.75)?;
    let range = third - first;
    Some(Fences {
        low_severe: first - 3.0 * range,
        low_mild: first - 1.5 * range,
        high_mild: third + 1.5 * range,
        high_severe: third + 3.0 * range,
    })
}

/// Returns every sample outside the fences, in order.
pub fn outliers(samples: &[f64]) -> Vec<Outlier> {
    let Some(fences) = fences(samples) else { return Vec::new() };
    let kind_of = |value: f64| {
        if value < fences.low_severe {
            Some(OutlierKind::LowSevere)
        } else if value > fences.high_severe {
            Some(OutlierKind::HighSevere)
        } else if value < fences.low_mild {
            Some(OutlierKind::LowMild)
        } else if value > fences.high_mild {
            Some(OutlierKind::HighMild)
        } else {
            None
        }
    };
    let samples = samples.iter().enumerate();
    samples.filter_map(|(index, &value)| Some(Outlier { index, kind: kind_of(value)? })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_the_far_samples_and_how_far() {
        // Sorted, the samples are -9 1 2 3 4 5 6 7 100. The quartiles are 2 and 6, the range 4, the mild fences -4
        // and 12, the severe ones -10 and 18.
        let samples = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 100.0, -9.0];
        let found = outliers(&samples);
        let quartiles = fences(&samples).unwrap();
        assert_eq!((quartiles.low_mild, quartiles.high_mild), (-4.0, 12.0));
        assert_eq!(
            found,
            [
                Outlier { index: 7, kind: OutlierKind::HighSevere },
                Outlier { index: 8, kind: OutlierKind::LowMild }
            ]
        );
    }

    #[test]
    fn three_samples_have_no_fences() {
        assert_eq!(fences(&[1.0, 2.0, 300.0]), None);
        assert!(outliers(&[1.0, 2.0, 300.0]).is_empty());
    }

    proptest! {
        #[test]
        fn moving_and_scaling_keeps_the_verdict(samples in prop::collection::vec(-100_i32..100, 4..30)) {
            // The values are whole numbers and powers of two, so that rounding cannot move a sample across a fence.
            let plain: Vec<f64> = samples.iter().map(|&value| f64::from(value)).collect();
            let moved: Vec<f64> = plain.iter().map(|value| value * 4.0 + 1024.0).collect();
            prop_assert_eq!(outliers(&plain), outliers(&moved));
        }
    }
}
