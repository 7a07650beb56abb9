//! The figures that the page's script draws, as plain numbers.
//!
//! Guarantees: every number here stands in a table of the page, or is the ratio of two that do.

use super::tables::{at_or_any, combinations, words_of};
use crate::experiment::{Cell, Coordinates, Drawn, Measure, Outcome, Plot, Role, Value, derive};
use serde::Serialize;

/// One chart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Chart {
    /// Element it is drawn into.
    pub(crate) id: String,
    /// How it is drawn.
    pub(crate) kind: Drawn,
    /// Heading.
    pub(crate) title: String,
    /// Name of the abscissa.
    pub(crate) x_label: String,
    /// Name and unit of the ordinate.
    pub(crate) y_label: String,
    /// Labels along the abscissa.
    pub(crate) labels: Vec<String>,
    /// What is drawn over them.
    pub(crate) series: Vec<Series>,
}

/// One line, or one bar in each group; `null` where there is no sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) median: Vec<Option<f64>>,
    pub(crate) low: Vec<Option<f64>>,
    pub(crate) high: Vec<Option<f64>>,
}

/// More lines or bars than these nobody tells apart.
const SERIES_MAX: usize = 24;

impl Series {
    fn push(&mut self, figure: Option<[f64; 3]>) {
        self.median.push(figure.map(|figure| figure[0]));
        self.low.push(figure.map(|figure| figure[1]));
        self.high.push(figure.map(|figure| figure[2]));
    }

    fn points(&self) -> usize {
        self.median.iter().flatten().count()
    }
}

/// The charts of one outcome; `prefix` makes their ids unique on the page.
pub(crate) fn of_outcome(outcome: &Outcome, prefix: &str) -> Vec<Chart> {
    let mut charts: Vec<Chart> =
        outcome.experiment.plots.iter().flat_map(|plot| charts_of(outcome, plot)).collect();
    for (number, chart) in charts.iter_mut().enumerate() {
        chart.id = format!("{prefix}-{number}");
    }
    charts
}

fn charts_of(outcome: &Outcome, plot: &Plot) -> Vec<Chart> {
    let places = combinations(outcome, &plot.plots, Role::Own);
    places.iter().filter_map(|place| chart(outcome, plot, place)).collect()
}

fn chart(outcome: &Outcome, plot: &Plot, place: &Coordinates) -> Option<Chart> {
    let experiment = &outcome.experiment;
    let is_own = |cell: &&Cell| cell.role == Role::Own;
    let has_label = |value: &&String| {
        outcome.cells.iter().filter(is_own).any(|cell| cell.at.get(&plot.over) == Some(value))
    };
    let labels: Vec<String> = experiment.values(&plot.over).iter().filter(has_label).cloned().collect();
    let measures: Vec<Measure> = plot.measures.iter().map(|id| experiment.measure(id)).collect();
    // Axes on which all agree need no mention.
    let axes: Vec<String> =
        plot.series.iter().filter(|axis| experiment.values(axis).len() > 1).cloned().collect();
    let lines = combinations(outcome, &axes, Role::Own);
    let cell = |line: &Coordinates, label: &String| {
        let mut place: Coordinates = place.clone();
        place.extend(line.clone());
        place.insert(plot.over.clone(), label.clone());
        at_or_any(outcome, &place, Role::Own)
    };
    let divisor = plot
        .divisor
        .as_ref()
        .and_then(|name| lines.iter().find(|line| line.values().any(|value| value == name)));
    let mut series = Vec::new();
    for line in &lines {
        for measure in &measures {
            let mut words = vec![words_of(experiment, line, &axes).replace(", ", " ")];
            if measures.len() > 1 || words[0].is_empty() {
                words.push(measure.name.clone());
            }
            let mut one = Series { name: words.join(" ").trim().to_owned(), ..Series::default() };
            for label in &labels {
                let own = cell(line, label);
                let figure = match divisor {
                    None => own.and_then(|cell| figure(cell, &measure.id)),
                    Some(divisor) => own
                        .zip(cell(divisor, label))
                        .and_then(|(top, bottom)| range(&derive::over(top, bottom, &measure.id)?)),
                };
                one.push(figure);
            }
            series.push(one);
        }
    }
    // A point makes no line; where there is no line at all, points are what there is.
    let most = series.iter().map(Series::points).max().unwrap_or(0);
    let least = if plot.drawn == Drawn::Lines { most.min(2) } else { 1 }.max(1);
    series.retain(|one| one.points() >= least);
    if series.is_empty() || series.len() > SERIES_MAX {
        return None;
    }
    let words = words_of(experiment, place, &plot.plots);
    let title =
        [&*plot.title, &*words].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ");
    let unit = || measures.first().map_or_else(String::new, |measure| measure.unit.clone());
    Some(Chart {
        id: String::new(),
        kind: plot.drawn,
        title: if title.is_empty() { experiment.title.clone() } else { title },
        x_label: if plot.drawn == Drawn::Lines { plot.over.clone() } else { String::new() },
        y_label: plot.divisor.as_ref().map_or_else(unit, |name| format!("times {name}")),
        labels,
        series,
    })
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
