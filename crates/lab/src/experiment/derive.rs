//! Figures that are computed from others: gains over one lane, fairness, shares.
//!
//! Guarantees: a figure that cannot be computed is absent, never zero; a ratio has an interval if both sides have
//! samples.

use super::{Cell, RESAMPLING_SEED, Value};
use crate::stats::{CONFIDENCE, ratio_of_medians};

/// Gives each cell the value `id`: its `measure` over that of the cell with the same place but `first` on the axis
/// `along`.
pub fn over_first(cells: &mut [Cell], along: &str, first: &str, measure: &str, id: &str) {
    let base = |cell: &Cell, cells: &[Cell]| {
        let mut place = cell.at.clone();
        place.insert(along.to_owned(), first.to_owned());
        cells.iter().find(|other| other.at == place).and_then(|other| over(cell, other, measure))
    };
    let found: Vec<Option<Value>> = cells.iter().map(|cell| base(cell, cells)).collect();
    for (cell, value) in cells.iter_mut().zip(found) {
        cell.values.extend(value.map(|value| (id.to_owned(), value)));
    }
}

/// Returns one cell's measure over another's.
pub fn over(top: &Cell, bottom: &Cell, measure: &str) -> Option<Value> {
    let (above, below) = (top.samples_of(measure), bottom.samples_of(measure));
    if above.len() > 1 && below.len() > 1 {
        let (value, interval) = ratio_of_medians(&above, &below, CONFIDENCE, RESAMPLING_SEED)?;
        return Some(Value::Range { value, low: interval.low, high: interval.high });
    }
    let (above, below) = (top.figure(measure)?, bottom.figure(measure)?);
    (below > 0.0).then(|| Value::Number(above / below))
}

/// Returns Jain's index of fairness: 1 if all shares are equal, 1/n if one share is everything.
pub fn jain(shares: &[f64]) -> Option<f64> {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    (shares.len() > 1 && squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// Returns the ratio of the largest to the smallest.
pub fn max_over_min(shares: &[f64]) -> Option<f64> {
    let max = shares.iter().copied().fold(0.0, f64::max);
    let min = shares.iter().copied().fold(f64::INFINITY, f64::min);
    (shares.len() > 1 && min > 0.0).then(|| max / min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_are_over_the_first_of_the_same_place() {
        let cell = |name: &str, lanes: &str, rate: f64| {
            Cell::new([("algorithm", name), ("lanes", lanes)]).with("r", rate)
        };
        let mut cells = [cell("a", "1", 10.0), cell("a", "2", 19.0), cell("b", "2", 5.0)];
        over_first(&mut cells, "lanes", "1", "r", "times");
        assert_eq!(cells.each_ref().map(|cell| cell.figure("times")), [Some(1.0), Some(1.9), None]);
    }

    #[test]
    fn fairness() {
        assert_eq!((jain(&[3.0, 3.0, 3.0]), max_over_min(&[3.0, 3.0])), (Some(1.0), Some(1.0)));
        assert_eq!((jain(&[1.0, 0.0]), max_over_min(&[1.0, 0.0])), (Some(0.5), None));
        assert_eq!((jain(&[1.0]), jain(&[0.0, 0.0]), max_over_min(&[])), (None, None, None));
    }
}
