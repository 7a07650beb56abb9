//! Claims as shapes, and their verdicts from samples.
//!
//! Guarantees: "holds" and "does not hold" are reported only when the whole interval lies on one side: the 90 %
//! interval of samples, or the range of a figure over stated guesses. Every other verdict is "not decidable", with
//! the reason. A claim with a cell of which other work disturbed more than a third of the runs is never decided, and says so.

use super::{Cell, Coordinates, RESAMPLING_SEED, Runs, Value, find};
use crate::stats::{
    CONFIDENCE, Interval, SAMPLES_FOR_CONFIDENCE, bootstrap, median, median_interval, ratio_of_medians,
};
use serde::{Deserialize, Serialize};

/// A statement about cells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// The claim in words.
    pub statement: String,
    /// The source of the claim, such as "G13" or "target".
    pub source: String,
    /// The id of the measure that is compared.
    pub metric: String,
    /// The claim in numbers.
    pub shape: Shape,
    /// The reason why this run does not decide the claim, although it has the cells: the claim is about another size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unjudged: Option<String>,
    /// The figure was fitted to the bound, or follows from inputs that were copied from the paper: that it holds is no finding.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_by_construction: bool,
}

impl Claim {
    /// Returns a claim about a measure of the cells that the shape names.
    pub fn new((statement, source): (impl Into<String>, &str), measure: &str, shape: Shape) -> Self {
        Self {
            statement: statement.into(),
            source: source.to_owned(),
            metric: measure.to_owned(),
            shape,
            unjudged: None,
            is_by_construction: false,
        }
    }

    /// Returns the claim as one that holds by a fit or by its inputs, and so is no finding where it holds.
    #[must_use]
    pub fn by_construction(self) -> Self {
        Self { is_by_construction: true, ..self }
    }

    /// Returns the claim, whose statement names a size, for a run with the size `found`: it is only judged from the
    /// size `needed` on, which the full profile has. `words` gives a size in words.
    #[must_use]
    pub fn judged_from(self, found: u64, needed: u64, words: impl Fn(u64) -> String) -> Self {
        let reason = || {
            let (found, needed) = (words(found), words(needed));
            format!("this run has {found}; `--profile full` has {needed}")
        };
        Self { unjudged: (found < needed).then(reason), ..self }
    }

    /// Returns the claim that a cell's measure, over another's, lies within bounds.
    pub fn ratio(
        (statement, source): (impl Into<String>, &str),
        measure: &str,
        (numerator, denominator): (Coordinates, Coordinates),
        (low, high): (Option<f64>, Option<f64>),
    ) -> Self {
        Self::new((statement, source), measure, Shape::Ratio { numerator, denominator, low, high })
    }

    /// Returns the claim that a cell's measure lies within bounds.
    pub fn bound(
        (statement, source): (impl Into<String>, &str),
        measure: &str,
        cell: Coordinates,
        (low, high): (Option<f64>, Option<f64>),
    ) -> Self {
        Self::new((statement, source), measure, Shape::Bound { cell, low, high })
    }
}

/// A claim in numbers. Ratios are of medians.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "shape")]
pub enum Shape {
    /// `numerator / denominator` lies within the bounds; `None` is no bound.
    Ratio {
        /// The cell of the numerator.
        numerator: Coordinates,
        /// The cell of the denominator.
        denominator: Coordinates,
        /// The lower bound.
        low: Option<f64>,
        /// The upper bound.
        high: Option<f64>,
    },
    /// The exponent of `metric` over `x` (slope of the logarithms, least squares) lies within the bounds.
    Slope {
        /// The abscissa and the cell of each point.
        points: Vec<(f64, Coordinates)>,
        /// The lower bound.
        low: f64,
        /// The upper bound.
        high: f64,
    },
    /// A figure lies within the bounds. If the measure is not a ratio, the bounds are those of a paper or a machine.
    Bound {
        /// The place of the cell that the figure is from.
        cell: Coordinates,
        /// The lower bound.
        low: Option<f64>,
        /// The upper bound.
        high: Option<f64>,
    },
    /// The figures of the parts alone add up to the whole: `whole / (parts − common)` lies within the bounds.
    Sum {
        /// Cells that are added.
        parts: Vec<Coordinates>,
        /// The share that is contained in several parts and counts once.
        common: Vec<Coordinates>,
        /// The combination of the parts.
        whole: Coordinates,
        /// The lower bound.
        low: f64,
        /// The upper bound.
        high: f64,
    },
    /// One ratio over another lies within the bounds.
    RatioOfRatios {
        /// The two cells of the ratio in the numerator.
        numerator: [Coordinates; 2],
        /// The two cells of the ratio in the denominator.
        denominator: [Coordinates; 2],
        /// The lower bound.
        low: Option<f64>,
        /// The upper bound.
        high: Option<f64>,
    },
}

impl Shape {
    /// Returns the bounds of the figure.
    pub fn bounds(&self) -> (Option<f64>, Option<f64>) {
        match self {
            Self::Ratio { low, high, .. }
            | Self::Bound { low, high, .. }
            | Self::RatioOfRatios { low, high, .. } => (*low, *high),
            Self::Slope { low, high, .. } | Self::Sum { low, high, .. } => (Some(*low), Some(*high)),
        }
    }

    /// Returns the cells of the claim.
    pub fn places(&self) -> Vec<&Coordinates> {
        match self {
            Self::Ratio { numerator, denominator, .. } => vec![numerator, denominator],
            Self::Slope { points, .. } => points.iter().map(|(_, place)| place).collect(),
            Self::Bound { cell, .. } => vec![cell],
            Self::Sum { parts, common, whole, .. } => parts.iter().chain(common).chain([whole]).collect(),
            Self::RatioOfRatios { numerator, denominator, .. } => {
                numerator.iter().chain(denominator).collect()
            }
        }
    }

    /// Returns its figure from the figures of [`Self::places`]; `None` if it is undefined.
    fn of(&self, figures: &[f64]) -> Option<f64> {
        let over = |top: f64, bottom: f64| (bottom > 0.0).then(|| top / bottom);
        match (self, figures) {
            (Self::Ratio { .. }, &[top, bottom]) => over(top, bottom),
            (Self::Bound { .. }, &[value]) => Some(value),
            (Self::RatioOfRatios { .. }, &[top, bottom, other_top, other_bottom]) => {
                over(over(top, bottom)?, over(other_top, other_bottom)?)
            }
            (Self::Sum { parts, .. }, [summands @ .., whole]) => {
                let (parts, common) = summands.split_at_checked(parts.len())?;
                over(*whole, parts.iter().sum::<f64>() - common.iter().sum::<f64>())
            }
            (Self::Slope { points, .. }, figures) => {
                let abscissae: Vec<f64> = points.iter().map(|(x, _)| x.ln()).collect();
                let logarithms: Vec<f64> = figures.iter().map(|value| value.ln()).collect();
                least_squares_slope(&abscissae, &logarithms)
            }
            _ => None,
        }
        .filter(|value| value.is_finite())
    }
}

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole interval agrees.
    Holds,
    /// The whole interval agrees, as it must: the figure was fitted to the claim, or its inputs were.
    ByConstruction,
    /// The whole interval disagrees.
    DoesNotHold,
    /// The interval spans the bound, or there are too few samples.
    NotDecidable,
    /// Other work disturbed too many of a cell's runs.
    MachineBusy,
    /// A required cell has no samples.
    NotMeasured,
    /// The claim is about a size that this run does not have.
    NotJudged,
}

impl Verdict {
    /// Returns the verdict in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::ByConstruction => "fitted or by construction",
            Self::DoesNotHold => "does not hold",
            Self::NotDecidable => "not decidable",
            Self::MachineBusy => "not decidable here: the machine was busy",
            Self::NotMeasured => "not measured",
            Self::NotJudged => "not judged at this size",
        }
    }
}

/// A claim with its verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimResult {
    /// The claim that was checked.
    pub claim: Claim,
    /// The verdict by the samples of this run.
    pub verdict: Verdict,
    /// The figure of the shape: a ratio, an exponent.
    pub estimate: Option<f64>,
    /// Its 90 % interval.
    pub interval: Option<Interval>,
    /// A remark on the verdict; may be empty.
    pub note: String,
}

/// Checks `claim` on `cells`.
pub fn check(claim: &Claim, cells: &[Cell]) -> ClaimResult {
    let evidence: Result<Vec<Evidence>, String> =
        claim.shape.places().into_iter().map(|place| evidence(cells, &claim.metric, place)).collect();
    let finding = evidence.and_then(|evidence| finding(&claim.shape, &evidence));
    let Finding { mut verdict, estimate, interval, mut note } = finding.unwrap_or_else(|note| Finding {
        verdict: Verdict::NotMeasured,
        estimate: None,
        interval: None,
        note,
    });
    if verdict == Verdict::Holds && claim.is_by_construction {
        verdict = Verdict::ByConstruction;
    }
    if let Some(busy) = busy(claim, cells)
        && matches!(verdict, Verdict::Holds | Verdict::DoesNotHold | Verdict::NotDecidable)
    {
        (verdict, note) = (Verdict::MachineBusy, busy);
    }
    if let Some(reason) = claim.unjudged.as_ref().filter(|_| verdict != Verdict::NotMeasured) {
        (verdict, note) = (Verdict::NotJudged, reason.clone());
    }
    ClaimResult { claim: claim.clone(), verdict, estimate, interval, note }
}

/// Returns the words about a cell of the claim whose runs are too many's that other work disturbed.
fn busy(claim: &Claim, cells: &[Cell]) -> Option<String> {
    let cells = claim.shape.places().into_iter().filter_map(|place| find(cells, place));
    let Runs { taken, disturbed } = cells.map(Cell::runs).find(|runs| runs.are_doubtful())?;
    Some(format!("in {disturbed} of {taken} runs of a cell"))
}

struct Finding {
    verdict: Verdict,
    estimate: Option<f64>,
    interval: Option<Interval>,
    note: String,
}

/// A cell's figures of a measure.
enum Evidence {
    Samples(Vec<f64>),
    Range { value: f64, interval: Interval },
}

impl Evidence {
    fn figure(&self) -> f64 {
        match self {
            Self::Samples(samples) => median(samples).unwrap_or(f64::NAN),
            Self::Range { value, .. } => *value,
        }
    }

    fn interval(&self) -> Interval {
        match self {
            Self::Samples(samples) => median_interval(samples, CONFIDENCE, RESAMPLING_SEED)
                .unwrap_or(Interval { low: f64::NAN, high: f64::NAN }),
            Self::Range { interval, .. } => *interval,
        }
    }

    /// Returns the number of samples; the maximum for a range, which covers all guesses.
    fn count(&self) -> usize {
        match self {
            Self::Samples(samples) => samples.len(),
            Self::Range { .. } => usize::MAX,
        }
    }
}

/// Returns the figures of the cell at `place`, or the reason why there are none.
fn evidence(cells: &[Cell], measure: &str, place: &Coordinates) -> Result<Evidence, String> {
    let name = || place.values().cloned().collect::<Vec<_>>().join(" ");
    let cell = find(cells, place).ok_or_else(|| format!("no cell {}", name()))?;
    if let Some(&Value::Range { value, low, high }) = cell.values.get(measure) {
        return Ok(Evidence::Range { value, interval: Interval { low, high } });
    }
    let samples = cell.samples_of(measure);
    if samples.is_empty() {
        let reason = cell.failure.clone().unwrap_or_else(|| "it was not run".to_owned());
        return Err(format!("{}: {reason}", name()));
    }
    Ok(Evidence::Samples(samples))
}

/// The maximum of intervals whose ends are combined with each other; more than that are varied one by one.
const COMBINED_MAX: usize = 8;

/// Returns the verdict on a shape's figure.
fn finding(shape: &Shape, evidence: &[Evidence]) -> Result<Finding, String> {
    let undefined = || match shape {
        Shape::Slope { .. } => "a slope needs two different abscissae and positive values".to_owned(),
        _ => "the lower cell's median is not positive".to_owned(),
    };
    let figures: Vec<f64> = evidence.iter().map(|one| one.figure()).collect();
    let estimate = shape.of(&figures).ok_or_else(undefined)?;
    let samples: Vec<&[f64]> = evidence
        .iter()
        .filter_map(|one| match one {
            Evidence::Samples(samples) => Some(&samples[..]),
            Evidence::Range { .. } => None,
        })
        .collect();
    let interval = match samples[..] {
        [top, bottom] if matches!(shape, Shape::Ratio { .. }) => {
            ratio_of_medians(top, bottom, CONFIDENCE, RESAMPLING_SEED).map(|(_, interval)| interval)
        }
        _ if samples.len() == figures.len() => bootstrap(estimate, CONFIDENCE, RESAMPLING_SEED, |rng| {
            let medians = samples.iter().map(|samples| {
                let drawn: Vec<f64> = samples.iter().map(|_| samples[rng.below(samples.len())]).collect();
                median(&drawn)
            });
            shape.of(&medians.collect::<Option<Vec<f64>>>()?)
        }),
        _ => Some(over_ends(shape, estimate, &figures, evidence)),
    };
    let interval = interval.ok_or_else(undefined)?;
    let count = evidence.iter().map(|one| one.count()).min().unwrap_or(0);
    let (low, high) = shape.bounds();
    let (low, high) = (low.unwrap_or(f64::NEG_INFINITY), high.unwrap_or(f64::INFINITY));
    let (verdict, note) = if count < SAMPLES_FOR_CONFIDENCE {
        let samples = if count == 1 { "sample" } else { "samples" };
        let note = format!("{count} {samples} cannot give a 90 % interval, {SAMPLES_FOR_CONFIDENCE} can");
        (Verdict::NotDecidable, note)
    } else if interval.low >= low && interval.high <= high {
        (Verdict::Holds, String::new())
    } else if interval.high < low || interval.low > high {
        (Verdict::DoesNotHold, String::new())
    } else {
        let what = if samples.is_empty() { "range" } else { "interval" };
        (Verdict::NotDecidable, format!("the {what} spans the bound"))
    };
    Ok(Finding { verdict, estimate: Some(estimate), interval: Some(interval), note })
}

/// Returns the range of the figure if every cell's figure is at one end of its interval or the other.
fn over_ends(shape: &Shape, estimate: f64, figures: &[f64], evidence: &[Evidence]) -> Interval {
    let ends: Vec<Interval> = evidence.iter().map(|one| one.interval()).collect();
    let mut interval = Interval { low: estimate, high: estimate };
    let mut look = |figures: &[f64]| {
        if let Some(value) = shape.of(figures) {
            interval = Interval { low: interval.low.min(value), high: interval.high.max(value) };
        }
    };
    if ends.len() <= COMBINED_MAX {
        for choice in 0..1_u32 << ends.len() {
            let end =
                |(at, ends): (usize, &Interval)| if choice >> at & 1 == 0 { ends.low } else { ends.high };
            look(&ends.iter().enumerate().map(end).collect::<Vec<_>>());
        }
    } else {
        for (at, ends) in ends.iter().enumerate() {
            for end in [ends.low, ends.high] {
                let mut figures = figures.to_vec();
                figures[at] = end;
                look(&figures);
            }
        }
    }
    interval
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
    use super::super::{Copied, Experiment, Measure, Sample, at, derive};
    use super::*;
    use proptest::prelude::{ProptestConfig, prop_assert, proptest};

    /// Returns a cell whose rates in MB/s are `rates`.
    fn cell(name: &str, rates: &[f64]) -> Cell {
        let sample = |&rate: &f64| {
            let wall_seconds = 1_000.0 / rate;
            Sample::copied(Copied { bytes: 1_000_000_000, wall_seconds, ..Copied::default() }, false)
        };
        Cell { at: at([("mode", name)]), samples: rates.iter().map(sample).collect(), ..Cell::default() }
    }

    fn claim(shape: Shape) -> Claim {
        Claim::new(("s", "test"), "rate", shape)
    }

    fn ratio_of_b_to_a(low: Option<f64>, high: Option<f64>) -> Claim {
        let (numerator, denominator) = (at([("mode", "b")]), at([("mode", "a")]));
        claim(Shape::Ratio { numerator, denominator, low, high })
    }

    const STEADY: [f64; 6] = [100.0, 101.0, 99.0, 100.0, 100.5, 99.5];

    fn times(factor: f64) -> Vec<f64> {
        STEADY.iter().map(|rate| rate * factor).collect()
    }

    /// The figure is shown all the same, and a cell that is missing is still missing.
    #[test]
    fn a_claim_about_another_size_is_not_judged() {
        let cells = [cell("a", &STEADY), cell("b", &times(1.9))];
        let at = |found| {
            ratio_of_b_to_a(Some(1.7), None).judged_from(found, 10_000, |count| format!("{count} files"))
        };
        let result = check(&at(500), &cells);
        assert_eq!((result.verdict, result.estimate.is_some()), (Verdict::NotJudged, true));
        assert_eq!(result.note, "this run has 500 files; `--profile full` has 10000 files");
        assert_eq!(check(&at(10_000), &cells).verdict, Verdict::Holds);
        assert_eq!(check(&at(500), &cells[..1]).verdict, Verdict::NotMeasured);
        let text = serde_json::to_string(&at(10_000)).unwrap();
        assert!(!text.contains("unjudged"), "{text}");
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

    /// A fit that is missed is told like any other claim.
    #[test]
    fn a_fit_that_is_met_is_no_finding() {
        let cells = [cell("a", &STEADY), cell("b", &times(1.9))];
        let verdict = |low| check(&ratio_of_b_to_a(Some(low), None).by_construction(), &cells).verdict;
        assert_eq!([1.7, 2.1].map(verdict), [Verdict::ByConstruction, Verdict::DoesNotHold]);
    }

    /// The figures of a busy machine are shown, and decide nothing; a third of disturbed runs leaves the median alone.
    #[test]
    fn a_busy_machine_decides_nothing() {
        let disturbed = |count: usize| {
            let mut cells = [cell("a", &STEADY), cell("b", &times(1.9))];
            cells[1].samples.iter_mut().take(count).for_each(|sample| sample.is_disturbed = true);
            cells
        };
        let verdict = |low: f64, count| check(&ratio_of_b_to_a(Some(low), None), &disturbed(count));
        assert_eq!(verdict(1.7, 2).verdict, Verdict::Holds);
        for low in [1.7, 2.1] {
            let result = verdict(low, 3);
            assert_eq!((result.verdict, &*result.note), (Verdict::MachineBusy, "in 3 of 6 runs of a cell"));
            assert!(result.estimate.is_some());
        }
    }

    /// Whoever computes a figure and forgets its runs gets no verdict: else a busy machine would decide.
    #[test]
    fn a_figure_that_hides_its_runs_decides_nothing() {
        let cells = [Cell { at: at([("mode", "b")]), ..Cell::default() }
            .with("times", Value::Range { value: 1.9, low: 1.8, high: 2.0 })];
        let claim = Claim::bound(("s", "test"), "times", at([("mode", "b")]), (Some(1.7), None));
        let verdict = |measure: Measure, cells: &[Cell]| {
            Experiment { measures: vec![measure], ..Experiment::default() }.decide(&claim, cells).verdict
        };
        let times = || Measure::times("times", "");
        assert_eq!(verdict(times(), &cells), Verdict::NotDecidable);
        assert_eq!(verdict(times().predicted(), &cells), Verdict::Holds);
        let told = [cells[0].clone().behind(Runs { taken: 10, disturbed: 1 })];
        assert_eq!(verdict(times(), &told), Verdict::Holds);
        let exact = [cells[0].clone().with("times", Value::exact(1.9))];
        assert_eq!(verdict(times(), &exact), Verdict::Holds);
    }

    /// A gain over a cell that was disturbed is as doubtful as that cell.
    #[test]
    fn what_is_computed_from_disturbed_runs_decides_nothing() {
        let mut cells = [cell("a", &STEADY), cell("b", &times(1.9))];
        let claim = Claim::bound(("s", "test"), "times", at([("mode", "b")]), (Some(1.7), None));
        let verdict = |cells: &mut [Cell; 2]| {
            derive::over_first(cells, "mode", "a", "rate", "times");
            check(&claim, cells).verdict
        };
        assert_eq!(verdict(&mut cells.clone()), Verdict::Holds);
        cells[0].samples.iter_mut().for_each(|sample| sample.is_disturbed = true);
        assert_eq!(verdict(&mut cells), Verdict::MachineBusy);
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
    fn a_linear_speedup_has_exponent_one() {
        let cells = [cell("1", &STEADY), cell("2", &times(2.0)), cell("4", &times(4.0))];
        let points = [1.0, 2.0, 4.0].map(|x| (x, at([("mode", &*format!("{x}"))]))).to_vec();
        let result = check(&claim(Shape::Slope { points: points.clone(), low: 0.9, high: 1.1 }), &cells);
        assert_eq!(result.verdict, Verdict::Holds);
        assert!((result.estimate.unwrap() - 1.0).abs() < 1e-9);
        let flat = claim(Shape::Slope { points, low: -0.1, high: 0.1 });
        assert_eq!(check(&flat, &cells).verdict, Verdict::DoesNotHold);
    }

    #[test]
    fn costs_that_add_up_are_a_sum() {
        let [bare, digest, cipher, both] = [("bare", 1.0), ("digest", 3.0), ("cipher", 8.0), ("both", 10.1)]
            .map(|(name, factor)| cell(name, &times(factor)));
        let place = |name: &str| at([("mode", name)]);
        let sum = |low, high| {
            let (parts, common) = (vec![place("digest"), place("cipher")], vec![place("bare")]);
            claim(Shape::Sum { parts, common, whole: place("both"), low, high })
        };
        let cells = [bare, digest, cipher, both];
        let result = check(&sum(0.95, 1.05), &cells);
        assert_eq!(result.verdict, Verdict::Holds, "{result:?}");
        assert!((result.estimate.unwrap() - 1.01).abs() < 1e-9);
        assert_eq!(check(&sum(1.2, 1.4), &cells).verdict, Verdict::DoesNotHold);
    }

    #[test]
    fn gains_are_compared_as_ratios_of_ratios() {
        let cells =
            [("a1", 1.0), ("a2", 1.9), ("b1", 1.0), ("b2", 1.2)].map(|(name, by)| cell(name, &times(by)));
        let place = |name: &str| at([("mode", name)]);
        let shape = |low| Shape::RatioOfRatios {
            numerator: [place("a2"), place("a1")],
            denominator: [place("b2"), place("b1")],
            low: Some(low),
            high: None,
        };
        let result = check(&claim(shape(1.5)), &cells);
        assert_eq!(result.verdict, Verdict::Holds, "{result:?}");
        assert_eq!(check(&claim(shape(1.7)), &cells).verdict, Verdict::DoesNotHold);
    }

    #[test]
    fn a_range_over_guesses_decides_where_it_lies_on_one_side() {
        let ranged = |name: &str, value: f64, low: f64, high: f64| {
            Cell { at: at([("mode", name)]), ..Cell::default() }
                .with("gain", Value::Range { value, low, high })
        };
        let cells = [ranged("a", 2.0, 1.5, 3.0), ranged("b", 4.0, 4.0, 4.0)];
        let verdict = |shape| check(&Claim { metric: "gain".to_owned(), ..claim(shape) }, &cells);
        let bound = |low, high| Shape::Bound { cell: at([("mode", "a")]), low, high };
        assert_eq!(verdict(bound(Some(1.5), None)).verdict, Verdict::Holds);
        assert_eq!(verdict(bound(None, Some(1.0))).verdict, Verdict::DoesNotHold);
        let open = verdict(bound(Some(2.5), None));
        assert_eq!((open.verdict, &*open.note), (Verdict::NotDecidable, "the range spans the bound"));
        let (numerator, denominator) = (at([("mode", "b")]), at([("mode", "a")]));
        let ratio = verdict(Shape::Ratio { numerator, denominator, low: Some(1.3), high: None });
        assert_eq!(ratio.verdict, Verdict::Holds);
        assert_eq!(ratio.interval, Some(Interval { low: 4.0 / 3.0, high: 4.0 / 1.5 }));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Checks that a verdict never contradicts its own interval.
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
                Verdict::ByConstruction
                | Verdict::MachineBusy
                | Verdict::NotMeasured
                | Verdict::NotJudged => prop_assert!(false),
            }
        }
    }
}
