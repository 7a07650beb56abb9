//! Measures: what a figure is, in which unit, which way is better, where it comes from and how it is written.
//!
//! Guarantees: a figure is written by its measure alone, the same on a terminal and on a page.

use crate::report::number::{count, gain, quantity};
use serde::{Deserialize, Serialize};

/// Which way is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// As of rates.
    High,
    /// As of times and costs.
    Low,
    /// Neither, as of bytes of tables.
    #[default]
    Neither,
}

/// How a figure is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Written {
    /// With three significant digits.
    #[default]
    Quantity,
    /// With so many digits after the point.
    Decimals(u8),
    /// A ratio as a gain in per cent: `+145 %`.
    Gain,
    /// Per cent with so many digits.
    PerCent(u8),
}

/// Where a figure comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// From samples of this run.
    #[default]
    Measured,
    /// Computed of other figures of this run.
    Derived,
    /// From a model.
    Predicted,
    /// Printed elsewhere: where.
    Published(String),
}

/// A kind of figure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measure {
    /// Key in [`super::Cell::values`], or of what is computed of samples: [`RATE`] and its kin.
    pub id: String,
    /// Heading; mostly the unit.
    pub name: String,
    /// Unit; empty for pure numbers.
    pub unit: String,
    /// Which way is better.
    pub better: Better,
    /// How it is written.
    pub written: Written,
    /// Where it comes from.
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
    /// A measured quantity without unit; neither way is better.
    pub fn new(id: &str, name: &str) -> Self {
        Self { id: id.to_owned(), name: name.to_owned(), ..Self::default() }
    }

    /// A rate in MB/s, under a name.
    pub fn rate(id: &str, name: &str) -> Self {
        Self { unit: "MB/s".to_owned(), better: Better::High, ..Self::new(id, name) }
    }

    /// How many times something else, with two decimals.
    pub fn times(id: &str, name: &str) -> Self {
        Self { better: Better::High, ..Self::new(id, name) }.unit("times").derived().decimals(2)
    }

    /// Something that costs.
    pub fn cost(id: &str, name: &str, unit: &str) -> Self {
        Self { better: Better::Low, ..Self::new(id, name) }.unit(unit)
    }

    /// A whole number.
    pub fn count(id: &str, name: &str) -> Self {
        Self::new(id, name).decimals(0)
    }

    /// A column of a paper.
    pub fn published(id: &str, name: &str, source: &str) -> Self {
        Self { origin: Origin::Published(source.to_owned()), ..Self::new(id, name) }
    }

    /// With this unit.
    #[must_use]
    pub fn unit(self, unit: &str) -> Self {
        Self { unit: unit.to_owned(), ..self }
    }

    /// Written with so many digits after the point.
    #[must_use]
    pub fn decimals(self, digits: u8) -> Self {
        self.written(Written::Decimals(digits))
    }

    /// Written so.
    #[must_use]
    pub fn written(self, written: Written) -> Self {
        Self { written, ..self }
    }

    /// Computed of other figures.
    #[must_use]
    pub fn derived(self) -> Self {
        Self { origin: Origin::Derived, ..self }
    }

    /// From a model.
    #[must_use]
    pub fn predicted(self) -> Self {
        Self { origin: Origin::Predicted, ..self }
    }

    /// Whether it was printed elsewhere.
    pub fn is_published(&self) -> bool {
        matches!(self.origin, Origin::Published(_))
    }

    /// A figure of this measure; a dash where it is no number.
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

/// What every run of a program is measured by.
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
