//! The figures that the page's script draws, as plain numbers.
//!
//! Guarantees: every number here also appears in a table of the page, or is the ratio of two that do.

use super::tables::{at_or_any, combinations, words_of};
use crate::experiment::{
    ANY, Cell, Coordinates, Drawn, MEGABITS, Measure, Outcome, Plot, RATE, Role, Value, derive,
};
use serde::Serialize;

/// One chart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Chart {
    /// The id of the element into which it is drawn.
    pub(crate) id: String,
    /// The kind of chart.
    pub(crate) kind: Drawn,
    /// Heading.
    pub(crate) title: String,
    /// Name of the abscissa.
    pub(crate) x_label: String,
    /// Name and unit of the ordinate.
    pub(crate) y_label: String,
    /// Labels along the abscissa.
    pub(crate) labels: Vec<String>,
    /// The data over the labels.
    pub(crate) series: Vec<Series>,
    /// Whether the ordinate is logarithmic.
    pub(crate) is_logarithmic: bool,
}

/// One line, or one bar per group; `null` if there is no sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// Whether the figures are published ones.
    pub(crate) is_published: bool,
    /// Whether the line shows perfect scaling.
    pub(crate) is_ideal: bool,
    pub(crate) median: Vec<Option<f64>>,
    pub(crate) low: Vec<Option<f64>>,
    pub(crate) high: Vec<Option<f64>>,
    /// Whether all figures stand for every chart of the plot, as those of a stack without tiers.
    #[serde(skip)]
    pub(crate) is_common: bool,
    /// Whether the figure stands on disturbed runs.
    pub(crate) doubtful: Vec<bool>,
}

impl Chart {
    /// Returns whether a figure stands on disturbed runs, and so has a mark.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.series.iter().any(|one| one.doubtful.contains(&true))
    }
}

/// The maximum of lines or bars that a reader can distinguish.
const SERIES_MAX: usize = 24;

impl Series {
    fn push(&mut self, figure: Option<[f64; 3]>, is_doubtful: bool) {
        self.doubtful.push(is_doubtful && figure.is_some());
        self.median.push(figure.map(|figure| figure[0]));
        self.low.push(figure.map(|figure| figure[1]));
        self.high.push(figure.map(|figure| figure[2]));
    }

    fn points(&self) -> usize {
        self.median.iter().flatten().count()
    }
}

/// Returns the charts of one outcome; `prefix` makes their ids unique on the page.
pub(crate) fn of_outcome(outcome: &Outcome, prefix: &str) -> Vec<Chart> {
    let mut charts: Vec<Chart> =
        outcome.experiment.plots.iter().flat_map(|plot| charts_of(outcome, plot)).collect();
    for (number, chart) in charts.iter_mut().enumerate() {
        chart.id = format!("{prefix}-{number}");
    }
    charts
}

/// Returns the charts of a plot: ours, then the paper's own unless its points are drawn into ours.
fn charts_of(outcome: &Outcome, plot: &Plot) -> Vec<Chart> {
    let roles: &[Role] = if plot.published { &[Role::Own] } else { &[Role::Own, Role::Published] };
    let of_role = |&role: &Role| {
        let places = combinations(outcome, &plot.plots, role);
        let chart = |place: &Coordinates| chart(outcome, plot, place, role);
        let mut charts: Vec<Chart> = places.iter().filter_map(chart).collect();
        // A chart of points says nothing that the table does not if others have lines.
        if plot.drawn == Drawn::Lines && charts.iter().any(has_line) {
            charts.retain(has_line);
        }
        charts
    };
    roles.iter().flat_map(of_role).collect()
}

fn has_line(chart: &Chart) -> bool {
    let is_own = |one: &&Series| !one.is_published && !one.is_ideal && !one.is_common;
    chart.series.iter().filter(is_own).any(|one| one.points() > 1)
}

/// Returns the measures of a plot whose chart shows figures of one role.
fn measures(outcome: &Outcome, plot: &Plot, shown: Role) -> Vec<Measure> {
    let is_printed = |id: &str| {
        let mut cells = outcome.cells.iter().filter(|cell| cell.role == Role::Published);
        cells.any(|cell| cell.values.contains_key(id))
    };
    // Papers print megabits.
    let in_megabits = |id: &str| shown == Role::Published && id == RATE && !is_printed(id);
    let of = |id: &String| outcome.experiment.measure(if in_megabits(id) { MEGABITS } else { id });
    plot.measures.iter().map(of).collect()
}

/// The source of a chart's series.
struct Source<'a> {
    outcome: &'a Outcome,
    plot: &'a Plot,
    /// The values that the whole chart has.
    place: &'a Coordinates,
    /// The role whose places decide which series there are.
    shown: Role,
    /// The axes by which series differ.
    axes: Vec<String>,
    measures: Vec<Measure>,
    /// The line that others are divided by.
    divisor: Option<Coordinates>,
}

impl<'a> Source<'a> {
    fn new(outcome: &'a Outcome, plot: &'a Plot, place: &'a Coordinates, shown: Role) -> Self {
        // Axes with the same value for all need no mention.
        let differ = |axis: &&String| outcome.experiment.values(axis).len() > 1;
        let axes: Vec<String> = plot.series.iter().filter(differ).cloned().collect();
        let divisor = plot.divisor.as_ref().and_then(|name| {
            let lines = combinations(outcome, &axes, shown);
            lines.into_iter().find(|line| line.values().any(|value| value == name))
        });
        let measures = measures(outcome, plot, shown);
        Self { outcome, plot, place, shown, axes, measures, divisor }
    }

    /// Returns whether published figures tell an axis: it is not the papers' if none has one of our values, as with tiers.
    fn is_shared(&self, axis: &String) -> bool {
        let of = |role: Role| {
            let cells = self.outcome.cells.iter().filter(move |cell| cell.role == role);
            cells.filter_map(|cell| cell.at.get(axis))
        };
        of(Role::Published).any(|value| value == ANY || of(Role::Own).any(|own| own == value))
    }

    /// Returns the cell of a line at a value of the abscissa.
    fn cell(&self, line: &Coordinates, label: &str, role: Role) -> Option<&'a Cell> {
        let mut place: Coordinates = self.place.clone();
        place.retain(|axis, _| role == self.shown || self.is_shared(axis));
        place.extend(line.clone());
        place.insert(self.plot.over.clone(), label.to_owned());
        at_or_any(self.outcome, &place, role)
    }

    /// Returns all series of a role.
    fn series(&self, role: Role, labels: &[String]) -> Vec<Series> {
        let lines = combinations(self.outcome, &self.axes, role);
        let of_line = |line: &Coordinates| {
            self.measures.iter().map(|measure| self.one(line, measure, role, labels)).collect()
        };
        lines.iter().flat_map::<Vec<Series>, _>(of_line).collect()
    }

    /// Returns the series of one line and measure.
    fn one(&self, line: &Coordinates, measure: &Measure, role: Role, labels: &[String]) -> Series {
        let mut words = vec![words_of(&self.outcome.experiment, line, &self.axes).replace(", ", " ")];
        if self.measures.len() > 1 || words[0].is_empty() {
            words.push(measure.name.clone());
        }
        let name = words.join(" ").trim().to_owned();
        let is_published = role != self.shown;
        let mut one = Series { name, is_published, is_common: true, ..Series::default() };
        for label in labels {
            let found = self.cell(line, label, role);
            one.is_common &= found.is_none_or(|cell| {
                self.plot.plots.iter().any(|axis| cell.at.get(axis).is_some_and(|value| value == ANY))
            });
            let below = self.divisor.as_ref().and_then(|divisor| self.cell(divisor, label, role));
            let figure = match self.divisor {
                None => found.and_then(|cell| figure(cell, &measure.id)),
                Some(_) => {
                    found.zip(below).and_then(|(top, bottom)| range(&derive::over(top, bottom, &measure.id)?))
                }
            };
            one.push(figure, found.into_iter().chain(below).any(Cell::is_doubtful));
        }
        one
    }
}

/// Returns one chart of our figures, with the paper's points if the plot has them, or of published figures alone.
fn chart(outcome: &Outcome, plot: &Plot, place: &Coordinates, shown: Role) -> Option<Chart> {
    let experiment = &outcome.experiment;
    let both = [Role::Own, Role::Published];
    let roles: &[Role] = if plot.published { &both } else { &[shown] };
    let mut labels = labels(outcome, plot, roles);
    let source = Source::new(outcome, plot, place, shown);
    let mut series: Vec<Series> = roles.iter().flat_map(|&role| source.series(role, &labels)).collect();
    // A single point makes no line; if there is no line at all, points are shown, and a published point stands alone.
    let most = series.iter().map(Series::points).max().unwrap_or(0);
    let least = if plot.drawn == Drawn::Lines { most.min(2) } else { 1 }.max(1);
    series.retain(|one| one.points() >= if one.is_published { 1 } else { least });
    if series.iter().all(|one| one.is_published) || series.len() > SERIES_MAX {
        return None;
    }
    if plot.drawn == Drawn::Lines {
        drop_empty(&mut labels, &mut series);
    }
    series.extend(plot.ideal.then(|| ideal(&labels)).flatten());
    let words = words_of(experiment, place, &plot.plots);
    let is_unsaid = shown == Role::Published && !words.contains("as published");
    let origin = if is_unsaid { "as published" } else { "" };
    let title = [&*plot.title, &*words, origin]
        .into_iter()
        .filter(|text| !text.is_empty())
        .collect::<Vec<_>>()
        .join(", ");
    let unit = || source.measures.first().map_or_else(String::new, |measure| measure.unit.clone());
    Some(Chart {
        id: String::new(),
        kind: plot.drawn,
        title: if title.is_empty() { experiment.title.clone() } else { title },
        x_label: if plot.drawn == Drawn::Lines { plot.over.clone() } else { String::new() },
        y_label: plot.divisor.as_ref().map_or_else(unit, |name| format!("times {name}")),
        labels,
        series,
        is_logarithmic: plot.logarithmic,
    })
}

/// Drops the values of the abscissa at which this chart has no point, such as those of points that a paper has for another
/// chart.
fn drop_empty(labels: &mut Vec<String>, series: &mut [Series]) {
    for at in (0..labels.len()).rev() {
        if series.iter().all(|one| one.median[at].is_none()) {
            labels.remove(at);
            for one in &mut *series {
                one.median.remove(at);
                one.low.remove(at);
                one.high.remove(at);
                one.doubtful.remove(at);
            }
        }
    }
}

/// Returns the values of the abscissa that cells have: in the order of the axis, or by number if published ones lie
/// between.
fn labels(outcome: &Outcome, plot: &Plot, roles: &[Role]) -> Vec<String> {
    let mut labels: Vec<String> = outcome.experiment.values(&plot.over).to_vec();
    let has = |cell: &&Cell| roles.contains(&cell.role);
    let known: Vec<&String> =
        outcome.cells.iter().filter(has).filter_map(|cell| cell.at.get(&plot.over)).collect();
    labels.retain(|value| known.contains(&value));
    let before = labels.len();
    labels.extend(known.into_iter().filter(|value| plot.published && value.parse::<f64>().is_ok()).cloned());
    if labels.len() > before {
        let number = |label: &str| label.parse::<f64>().unwrap_or(0.0);
        labels.sort_by(|one, other| number(one).total_cmp(&number(other)));
        labels.dedup();
    }
    labels
}

/// Returns the line of perfect scaling, on which twice the abscissa is twice the ordinate.
fn ideal(labels: &[String]) -> Option<Series> {
    let numbers: Vec<f64> = labels.iter().map(|label| label.parse().ok()).collect::<Option<_>>()?;
    let first = *numbers.first()?;
    let mut ideal = Series { name: "ideal".to_owned(), is_ideal: true, ..Series::default() };
    numbers.iter().for_each(|number| ideal.push(Some([number / first; 3]), false));
    (numbers.len() > 1).then_some(ideal)
}

fn figure(cell: &Cell, measure: &str) -> Option<[f64; 3]> {
    let value = cell.figure(measure)?;
    let interval = cell.interval(measure);
    Some(interval.map_or([value; 3], |interval| [value, interval.low, interval.high]))
}

fn range(value: &Value) -> Option<[f64; 3]> {
    match value {
        Value::Number(value) => Some([*value; 3]),
        Value::Range { value, low, high } => Some([*value, *low, *high]),
        Value::Text(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Experiment, Sample};

    /// The paper's points stand beside ours, at their own places, and the ideal line passes through the first.
    #[test]
    fn printed_points_and_the_ideal_line_are_drawn_beside_ours() {
        let cell = |lanes: &str, rate: f64| Cell::new([("lanes", lanes)]).with(RATE, rate);
        let cells = vec![cell("1", 10.0), cell("2", 19.0), cell("12", 50.0).of_role(Role::Published)];
        let plot = Plot::new(Drawn::Lines, "lanes", RATE, &[]).with_published().with_ideal();
        let experiment = Experiment::new("x", "", "X", &["lanes"], vec![Measure::rate(RATE, "MB/s")]);
        let outcome = Outcome::new(experiment.shown(crate::experiment::View::Cells, vec![plot]), cells);
        let chart = of_outcome(&outcome, "c").remove(0);
        assert_eq!(chart.labels, ["1", "2", "12"]);
        let medians: Vec<_> = chart.series.iter().map(|one| one.median.clone()).collect();
        assert_eq!(medians[0], [Some(10.0), Some(19.0), None]);
        assert_eq!(medians[1], [None, None, Some(50.0)]);
        assert_eq!(medians[2], [Some(1.0), Some(2.0), Some(12.0)]);
        assert!(chart.series[1].is_published && chart.series[2].is_ideal);
    }

    /// A paper's points are of no tier of ours, and are drawn beside each; but only in their own direction.
    #[test]
    fn printed_points_stand_in_the_charts_of_every_tier() {
        let cell = |tier: &str, way: &str, lanes: &str| {
            Cell::new([("stack", "x"), ("tier", tier), ("way", way), ("lanes", lanes)]).with(RATE, 10.0)
        };
        let mut cells = vec![cell("the paper", "send", "12").of_role(Role::Published)];
        for way in ["send", "receive"] {
            for tier in ["native", "best"] {
                cells.extend(["1", "2"].map(|lanes| cell(tier, way, lanes)));
            }
        }
        let plot = Plot::new(Drawn::Lines, "lanes", RATE, &["stack"]).with_published();
        let plot = plot.each("way").each("tier");
        let axes = ["stack", "tier", "way", "lanes"];
        let experiment = Experiment::new("x", "", "X", &axes, vec![Measure::rate(RATE, "MB/s")]);
        let outcome = Outcome::new(experiment.shown(crate::experiment::View::Cells, vec![plot]), cells);
        let charts = of_outcome(&outcome, "c");
        let points = |chart: &Chart| chart.series.iter().map(Series::points).sum::<usize>();
        let found: Vec<(&str, usize)> = charts.iter().map(|chart| (&*chart.title, points(chart))).collect();
        let tiers = ["native", "best"];
        let expected =
            tiers.map(|tier| [(format!("send, {tier}"), 3), (format!("receive, {tier}"), 2)]).concat();
        let expected: Vec<(&str, usize)> = expected.iter().map(|(title, count)| (&**title, *count)).collect();
        assert_eq!(found, expected);
        // The paper's point has a place only in its own direction.
        assert_eq!([0, 1].map(|at: usize| charts[at].labels.len()), [3, 2]);
    }

    /// A point on disturbed runs has a mark, and so has its ratio to one that has none.
    #[test]
    fn disturbed_points_are_marked() {
        let cell = |stack: &str, lanes: &str, disturbed: usize| {
            let samples = (0..5).map(|round| Sample::slice(RATE, 10.0, round < disturbed)).collect();
            Cell { samples, ..Cell::new([("stack", stack), ("lanes", lanes)]) }
        };
        let cells = vec![cell("x", "1", 1), cell("x", "2", 3), cell("y", "1", 0), cell("y", "2", 0)];
        let plot = Plot::new(Drawn::Lines, "lanes", RATE, &["stack"]);
        let divided = Plot { divisor: Some("x".to_owned()), ..plot.clone() };
        let experiment =
            Experiment::new("x", "", "X", &["stack", "lanes"], vec![Measure::rate(RATE, "MB/s")]);
        let outcome =
            Outcome::new(experiment.shown(crate::experiment::View::Cells, vec![plot, divided]), cells);
        let charts = of_outcome(&outcome, "c");
        let marks = |chart: &Chart| {
            chart.series.iter().map(|one| (one.name.clone(), one.doubtful.clone())).collect::<Vec<_>>()
        };
        let named =
            |x: [bool; 2], y: [bool; 2]| vec![("x".to_owned(), x.to_vec()), ("y".to_owned(), y.to_vec())];
        assert_eq!(marks(&charts[0]), named([false, true], [false, false]));
        assert_eq!(marks(&charts[1]), named([false, true], [false, true]));
        assert!(charts.iter().all(Chart::is_doubtful));
    }

    /// The paper's figures have a chart of their own beside ours if they are not drawn into ours.
    #[test]
    fn the_papers_own_chart_stands_beside_ours() {
        let cell = |end: &str, mode: &str| Cell::new([("end", end), ("mode", mode)]);
        let cells = vec![
            cell("send", "P1").with(RATE, 10.0),
            cell("send", "P2").with(RATE, 20.0),
            cell("as published", "P1").with(MEGABITS, 100.0).of_role(Role::Published),
            cell("as published", "P2").with(MEGABITS, 196.0).of_role(Role::Published),
        ];
        let plot = Plot::new(Drawn::Bars, "mode", RATE, &[]).each("end");
        let experiment = Experiment::new("x", "", "X", &["end", "mode"], vec![Measure::rate(RATE, "MB/s")]);
        let outcome = Outcome::new(experiment.shown(crate::experiment::View::Cells, vec![plot]), cells);
        let charts = of_outcome(&outcome, "c");
        let found: Vec<_> =
            charts.iter().map(|chart| (&*chart.title, &*chart.y_label, &chart.series[0].median)).collect();
        let [ours, papers] = [[10.0, 20.0], [100.0, 196.0]].map(|medians| medians.map(Some).to_vec());
        assert_eq!(found, [("send", "MB/s", &ours), ("as published", "Mb/s", &papers)]);
    }
}
