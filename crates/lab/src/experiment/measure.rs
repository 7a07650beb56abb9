//! Measures: the meaning of a figure, its unit, the better direction, its origin and its format.
//!
//! Guarantees: the format of a figure depends on its measure alone, and is the same on a terminal and on a page.

use crate::report::number::{count, gain, quantity};
use serde::{Deserialize, Serialize};

/// The better direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// Higher is better, as for rates.
    High,
    /// Lower is better, as for times and costs.
    Low,
    /// Neither direction is better, as for bytes of tables.
    #[default]
    Neither,
}

/// The format of a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Written {
    /// Three significant digits.
    #[default]
    Quantity,
    /// This number of digits after the point.
    Decimals(u8),
    /// A ratio as a gain in per cent: `+145 %`.
    Gain,
    /// Per cent with this number of digits.
    PerCent(u8),
}

/// The origin of a figure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Computed from samples of this run.
    #[default]
    Measured,
    /// Computed from other figures of this run.
    Derived,
    /// Predicted by a model.
    Predicted,
    /// Published elsewhere, in this source.
    Published(String),
}

/// A kind of figure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measure {
    /// The key in [`super::Cell::values`], or that of a figure computed from samples, such as [`RATE`].
    pub id: String,
    /// The heading; mostly the unit.
    pub name: String,
    /// The unit; empty for pure numbers.
    pub unit: String,
    /// The better direction.
    pub better: Better,
    /// The format.
    pub written: Written,
    /// The source of the figure: samples, other figures, a model or a publication.
    pub origin: Origin,
}

/// 10⁶ bytes per second of wall time.
pub const RATE: &str = "rate";
/// 10⁶ bits per second of wall time.
pub const MEGABITS: &str = "megabits";
/// CPU seconds of all processes per GiB.
pub const CPU_PER_GIB: &str = "cpu-per-gib";
/// Wall seconds.
pub const WALL: &str = "wall";

impl Measure {
    /// Returns a measured quantity without unit, for which neither direction is better.
    pub fn new(id: &str, name: &str) -> Self {
        Self { id: id.to_owned(), name: name.to_owned(), ..Self::default() }
    }

    /// Returns the measure of a rate in MB/s with a name.
    pub fn rate(id: &str, name: &str) -> Self {
        Self { unit: "MB/s".to_owned(), better: Better::High, ..Self::new(id, name) }
    }

    /// Returns the measure of a quantity of which more is better.
    pub fn gain(id: &str, name: &str, unit: &str) -> Self {
        Self { better: Better::High, ..Self::new(id, name) }.unit(unit)
    }

    /// Returns the measure of 10⁶ bits per second.
    pub fn megabits() -> Self {
        Self::gain(MEGABITS, "Mb/s", "Mb/s")
    }

    /// Returns the measure of a ratio with two decimals.
    pub fn times(id: &str, name: &str) -> Self {
        Self { better: Better::High, ..Self::new(id, name) }.unit("times").derived().decimals(2)
    }

    /// Returns the measure of a cost.
    pub fn cost(id: &str, name: &str, unit: &str) -> Self {
        Self { better: Better::Low, ..Self::new(id, name) }.unit(unit)
    }

    /// Returns the measure of a whole number.
    pub fn count(id: &str, name: &str) -> Self {
        Self::new(id, name).decimals(0)
    }

    /// Returns the measure of a published figure.
    pub fn published(id: &str, name: &str, source: &str) -> Self {
        Self { origin: Origin::Published(source.to_owned()), ..Self::new(id, name) }
    }

    /// Returns the measure with this unit.
    #[must_use]
    pub fn unit(self, unit: &str) -> Self {
        Self { unit: unit.to_owned(), ..self }
    }

    /// Returns the measure with this number of digits after the point.
    #[must_use]
    pub fn decimals(self, digits: u8) -> Self {
        self.written(Written::Decimals(digits))
    }

    /// Returns the measure with this format.
    #[must_use]
    pub fn written(self, written: Written) -> Self {
        Self { written, ..self }
    }

    /// Returns the measure as one computed from other figures.
    #[must_use]
    pub fn derived(self) -> Self {
        Self { origin: Origin::Derived, ..self }
    }

    /// Returns the measure as one predicted by a model.
    #[must_use]
    pub fn predicted(self) -> Self {
        Self { origin: Origin::Predicted, ..self }
    }

    /// Returns whether the figures are published ones.
    pub fn is_published(&self) -> bool {
        matches!(self.origin, Origin::Published(_))
    }

    /// Returns the text of a figure of this measure; a dash if it is not a number.
    pub fn write(&self, value: f64) -> String {
        match self.written {
            _ if !value.is_finite() => "–".to_owned(),
            Written::Quantity => quantity(value),
            Written::Decimals(0) => count(value),
            Written::Decimals(digits) => format!("{value:.*}", usize::from(digits)),
            Written::Gain => gain(value),
            Written::PerCent(digits) => format!("{:.*} %", usize::from(digits), value * 100.0),
        }
    }
}

/// Returns the measures of every run of a program.
pub fn of_runs() -> Vec<Measure> {
    vec![
        Measure::rate(RATE, "MB/s"),
        Measure::cost(CPU_PER_GIB, "CPU s/GiB", "CPU s/GiB"),
        Measure::cost(WALL, "s", "s"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_written_by_its_measure() {
        let rate = Measure::rate("r", "MB/s");
        assert_eq!((rate.write(1234.6), rate.write(f64::NAN)), ("1,235".to_owned(), "–".to_owned()));
        assert_eq!(Measure::times("t", "times").write(1.956), "1.96");
        assert_eq!(Measure::count("n", "bytes").write(2176.0), "2176");
        assert_eq!(rate.clone().written(Written::Gain).write(2.45), "+145 %");
        assert_eq!(rate.written(Written::PerCent(1)).write(-0.0204), "-2.0 %");
    }
}
