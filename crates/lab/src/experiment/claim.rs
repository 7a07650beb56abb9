//! Claims as shapes, and whether the samples bear them out.
//!
//! Guarantees: "holds" and "does not hold" are said only when the whole 90 % interval lies on one side; everything else
//! is "not decidable", and says why.

use super::{Cell, Coordinates, Metric, RESAMPLING_SEED, find};
use crate::rng::Rng;
use crate::stats::{CONFIDENCE, Interval, SAMPLES_FOR_CONFIDENCE, bootstrap, median, ratio_of_medians};
use serde::{Deserialize, Serialize};

/// A statement about cells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// In words, for people.
    pub statement: String,
    /// Where it was made, such as "G13" or "target".
    pub source: String,
    /// What is compared.
    pub metric: Metric,
    /// In numbers.
    pub shape: Shape,
}

/// What a claim says in numbers. Ratios are of medians.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "shape")]
pub enum Shape {
    /// `numerator / denominator` lies within the bounds; an absent bound is none.
    Ratio {
        /// Cell above the line.
        numerator: Coordinates,
        /// Cell below the line.
        denominator: Coordinates,
        /// At least this.
        low: Option<f64>,
        /// At most this.
        high: Option<f64>,
    },
    /// Each cell reaches at least `1 - tolerance` of the one before.
    Ascending {
        /// Cells in the claimed order, least first.
        cells: Vec<Coordinates>,
        /// Relative slack, e.g. 0.05.
        tolerance: f64,
    },
    /// The exponent of `metric` over `x` (slope of the logarithms, least squares) lies within the bounds.
    Slope {
        /// Abscissa and cell.
        points: Vec<(f64, Coordinates)>,
        /// At least this.
        low: f64,
        /// At most this.
        high: f64,
    },
}

/// Whether a claim is borne out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole interval agrees.
    Holds,
    /// The whole interval disagrees.
    DoesNotHold,
    /// The interval spans the bound, or there are too few samples.
    NotDecidable,
    /// A cell it needs has no samples.
    NotMeasured,
}

impl Verdict {
    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::DoesNotHold => "does not hold",
            Self::NotDecidable => "not decidable",
            Self::NotMeasured => "not measured",
        }
    }
}

/// A claim with its verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimResult {
    /// The claim.
    pub claim: Claim,
    /// The verdict.
    pub verdict: Verdict,
    /// The figure the shape is about: a ratio, the least ratio of neighbours, an exponent.
    pub estimate: Option<f64>,
    /// Its 90 % interval.
    pub interval: Option<Interval>,
    /// What a reader should know about the verdict; may be empty.
    pub note: String,
}

/// Checks `claim` on `cells`.
pub fn check(claim: &Claim, cells: &[Cell]) -> ClaimResult {
    let finding = match &claim.shape {
        Shape::Ratio { numerator, denominator, low, high } => {
            values(cells, claim.metric, [numerator, denominator])
                .and_then(|sides| ratio(&sides[0], &sides[1], *low, *high))
        }
        Shape::Ascending { cells: places, tolerance } => {
            values(cells, claim.metric, places).and_then(|samples| ascending(&samples, *tolerance))
        }
        Shape::Slope { points, low, high } => {
            values(cells, claim.metric, points.iter().map(|(_, place)| place))
                .and_then(|samples| slope(points, &samples, *low, *high))
        }
    };
    let finding = finding.unwrap_or_else(|note| Finding {
        verdict: Verdict::NotMeasured,
        estimate: None,
        interval: None,
        note,
    });
    ClaimResult {
        claim: claim.clone(),
        verdict: finding.verdict,
        estimate: finding.estimate,
        interval: finding.interval,
        note: finding.note,
    }
}

struct Finding {
    verdict: Verdict,
    estimate: Option<f64>,
    interval: Option<Interval>,
    note: String,
}

impl Finding {
    fn new(estimate: f64, interval: Interval, low: f64, high: f64, count: usize) -> Self {
        let (verdict, note) = if count < SAMPLES_FOR_CONFIDENCE {
            let note = format!("{count} samples cannot give a 90 % interval, {SAMPLES_FOR_CONFIDENCE} can");
            (Verdict::NotDecidable, note)
        } else if interval.low >= low && interval.high <= high {
            (Verdict::Holds, String::new())
        } else if interval.high < low || interval.low > high {
            (Verdict::DoesNotHold, String::new())
        } else {
            (Verdict::NotDecidable, "the interval spans the bound".to_owned())
        };
        Self { verdict, estimate: Some(estimate), interval: Some(interval), note }
    }
}

/// The values of each place's cell, or which one is missing.
fn values<'a>(
    cells: &[Cell],
    metric: Metric,
    places: impl IntoIterator<Item = &'a Coordinates>,
) -> Result<Vec<Vec<f64>>, String> {
    let samples_of = |place: &Coordinates| {
        let name = || place.values().cloned().collect::<Vec<_>>().join(" ");
        let cell = find(cells, place).ok_or_else(|| format!("no cell {}", name()))?;
        let values = cell.values(metric);
        if values.is_empty() {
            let reason = cell.failure.clone().unwrap_or_else(|| "it was not run".to_owned());
            return Err(format!("{}: {reason}", name()));
        }
        Ok(values)
    };
    places.into_iter().map(samples_of).collect()
}

fn ratio(top: &[f64], bottom: &[f64], low: Option<f64>, high: Option<f64>) -> Result<Finding, String> {
    let (estimate, interval) = ratio_of_medians(top, bottom, CONFIDENCE, RESAMPLING_SEED)
        .ok_or_else(|| "the lower cell's median is not positive".to_owned())?;
    let low = low.unwrap_or(f64::NEG_INFINITY);
    let high = high.unwrap_or(f64::INFINITY);
    Ok(Finding::new(estimate, interval, low, high, top.len().min(bottom.len())))
}

/// The verdict on an order is the verdict on its weakest step: one step that fails breaks it, one in doubt leaves it
/// in doubt.
fn ascending(samples: &[Vec<f64>], tolerance: f64) -> Result<Finding, String> {
    let steps: Result<Vec<Finding>, String> =
        samples.windows(2).map(|pair| ratio(&pair[1], &pair[0], Some(1.0 - tolerance), None)).collect();
    let rank = |finding: &Finding| match finding.verdict {
        Verdict::DoesNotHold => 0,
        Verdict::NotMeasured => 1,
        Verdict::NotDecidable => 2,
        Verdict::Holds => 3,
    };
    let estimate = |finding: &Finding| finding.estimate.unwrap_or(f64::INFINITY);
    let weakest = steps?
        .into_iter()
        .min_by(|left, right| rank(left).cmp(&rank(right)).then(estimate(left).total_cmp(&estimate(right))));
    weakest.ok_or_else(|| "an order needs two cells".to_owned())
}

fn slope(
    points: &[(f64, Coordinates)],
    samples: &[Vec<f64>],
    low: f64,
    high: f64,
) -> Result<Finding, String> {
    let abscissae: Vec<f64> = points.iter().map(|(x, _)| x.ln()).collect();
    let fitted = |medians: &[f64]| {
        let logarithms: Vec<f64> = medians.iter().map(|value| value.ln()).collect();
        least_squares_slope(&abscissae, &logarithms)
    };
    let medians: Vec<f64> = samples.iter().filter_map(|values| median(values)).collect();
    let undefined = || "a slope needs two different abscissae and positive values".to_owned();
    let estimate = fitted(&medians).filter(|value| value.is_finite()).ok_or_else(undefined)?;
    let draw = |rng: &mut Rng| {
        let resampled: Vec<f64> = samples
            .iter()
            .filter_map(|values| {
                let drawn: Vec<f64> = values.iter().map(|_| values[rng.below(values.len())]).collect();
                median(&drawn)
            })
            .collect();
        fitted(&resampled)
    };
    let interval = bootstrap(estimate, CONFIDENCE, RESAMPLING_SEED, draw).ok_or_else(undefined)?;
    let count = samples.iter().map(Vec::len).min().unwrap_or(0);
    Ok(Finding::new(estimate, interval, low, high, count))
}

fn least_squares_slope(x: &[f64], y: &[f64]) -> Option<f64> {
    let count = x.len() as f64;
    let (mean_x, mean_y) = (x.iter().sum::<f64>() / count, y.iter().sum::<f64>() / count);
    let spread: f64 = x.iter().map(|x| (x - mean_x).powi(2)).sum();
    let joint: f64 = x.iter().zip(y).map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    (spread > 0.0).then(|| joint / spread)
}

#[cfg(test)]
mod tests {
    use super::super::{Sample, at};
    use super::*;
    use proptest::prelude::{ProptestConfig, prop_assert, proptest};

    /// A cell whose rates in MB/s are `rates`.
    fn cell(name: &str, rates: &[f64]) -> Cell {
        let sample =
            |&rate: &f64| Sample { bytes: 1_000_000_000, wall_seconds: 1_000.0 / rate, ..Sample::default() };
        Cell { at: at([("mode", name)]), samples: rates.iter().map(sample).collect(), ..Cell::default() }
    }

    fn claim(shape: Shape) -> Claim {
        Claim { statement: "s".to_owned(), source: "test".to_owned(), metric: Metric::Rate, shape }
    }

    fn ratio_of_b_to_a(low: Option<f64>, high: Option<f64>) -> Claim {
        let (numerator, denominator) = (at([("mode", "b")]), at([("mode", "a")]));
        claim(Shape::Ratio { numerator, denominator, low, high })
    }

    const STEADY: [f64; 6] = [100.0, 101.0, 99.0, 100.0, 100.5, 99.5];

    fn times(factor: f64) -> Vec<f64> {
        STEADY.iter().map(|rate| rate * factor).collect()
    }

    #[test]
    fn a_clear_ratio_is_decided_both_ways() {
        let cells = [cell("a", &STEADY), cell("b", &times(1.9))];
        let result = check(&ratio_of_b_to_a(Some(1.7), None), &cells);
        assert_eq!(result.verdict, Verdict::Holds);
        assert!((result.estimate.unwrap() - 1.9).abs() < 1e-9);
        assert_eq!(check(&ratio_of_b_to_a(Some(2.1), None), &cells).verdict, Verdict::DoesNotHold);
        assert_eq!(check(&ratio_of_b_to_a(Some(0.9), Some(1.1)), &cells).verdict, Verdict::DoesNotHold);
    }

    #[test]
    fn an_interval_across_the_bound_decides_nothing() {
        let cells = [cell("a", &STEADY), cell("b", &[150.0, 160.0, 165.0, 175.0, 180.0, 190.0])];
        let result = check(&ratio_of_b_to_a(Some(1.7), None), &cells);
        assert_eq!(result.verdict, Verdict::NotDecidable);
        assert!(result.note.contains("spans"));
    }

    #[test]
    fn few_samples_decide_nothing() {
        let cells = [cell("a", &[100.0, 100.0]), cell("b", &[300.0, 300.0])];
        let result = check(&ratio_of_b_to_a(Some(1.7), None), &cells);
        assert_eq!(result.verdict, Verdict::NotDecidable);
        assert!(result.note.contains("2 samples"), "{}", result.note);
    }

    #[test]
    fn missing_cells_are_named() {
        let mut failed = cell("a", &[]);
        failed.failure = Some("no such suite".to_owned());
        let result = check(&ratio_of_b_to_a(Some(1.7), None), &[failed, cell("b", &STEADY)]);
        assert_eq!(result.verdict, Verdict::NotMeasured);
        assert_eq!(result.note, "a: no such suite");
        let result = check(&ratio_of_b_to_a(Some(1.7), None), &[cell("a", &STEADY)]);
        assert_eq!(result.note, "no cell b");
    }

    #[test]
    fn an_order_is_as_good_as_its_weakest_step() {
        let cells = [cell("a", &STEADY), cell("b", &times(1.5)), cell("c", &times(1.48))];
        let order = |tolerance| {
            let cells = ["a", "b", "c"].map(|name| at([("mode", name)])).to_vec();
            claim(Shape::Ascending { cells, tolerance })
        };
        let result = check(&order(0.05), &cells);
        assert_eq!(result.verdict, Verdict::Holds);
        assert!((result.estimate.unwrap() - 1.48 / 1.5).abs() < 1e-9);
        assert_eq!(check(&order(-0.2), &cells).verdict, Verdict::DoesNotHold);
        let one = claim(Shape::Ascending { cells: vec![at([("mode", "a")])], tolerance: 0.0 });
        assert_eq!(check(&one, &cells).verdict, Verdict::NotMeasured);
    }

    #[test]
    fn a_linear_speedup_has_exponent_one() {
        let cells = [cell("1", &STEADY), cell("2", &times(2.0)), cell("4", &times(4.0))];
        let points = [1.0, 2.0, 4.0].map(|x| (x, at([("mode", &*format!("{x}"))]))).to_vec();
        let result = check(&claim(Shape::Slope { points: points.clone(), low: 0.9, high: 1.1 }), &cells);
        assert_eq!(result.verdict, Verdict::Holds);
        assert!((result.estimate.unwrap() - 1.0).abs() < 1e-9);
        let flat = claim(Shape::Slope { points, low: -0.1, high: 0.1 });
        assert_eq!(check(&flat, &cells).verdict, Verdict::DoesNotHold);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// A verdict never contradicts its own interval.
        #[test]
        fn verdicts_follow_their_intervals(
            top in proptest::collection::vec(50.0_f64..150.0, 1..9),
            bottom in proptest::collection::vec(50.0_f64..150.0, 1..9),
            bound in 0.5_f64..2.0,
        ) {
            let cells = [cell("a", &bottom), cell("b", &top)];
            let result = check(&ratio_of_b_to_a(Some(bound), None), &cells);
            let interval = result.interval.unwrap();
            prop_assert!(interval.contains(result.estimate.unwrap()));
            match result.verdict {
                Verdict::Holds => prop_assert!(interval.low >= bound),
                Verdict::DoesNotHold => prop_assert!(interval.high < bound),
                Verdict::NotDecidable => {
                    prop_assert!(top.len().min(bottom.len()) < 5 || interval.contains(bound));
                }
                Verdict::NotMeasured => prop_assert!(false),
            }
        }
    }
}
