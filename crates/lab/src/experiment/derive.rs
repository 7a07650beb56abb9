//! Figures that are computed from others: gains over one lane, fairness, shares.
//!
//! Guarantees: a figure that cannot be computed is absent, never zero; a ratio has an interval if both sides have
//! samples.

use super::{Cell, RESAMPLING_SEED, Runs, Value};
use crate::stats::{CONFIDENCE, mean, ratio_of_medians};

/// Gives each cell the value `id`: its `measure` over that of the cell with the same place but `first` on the axis
/// `along`.
pub fn over_first(cells: &mut [Cell], along: &str, first: &str, measure: &str, id: &str) {
    let base = |cell: &Cell| {
        let mut place = cell.at.clone();
        place.insert(along.to_owned(), first.to_owned());
        cells.iter().position(|other| other.at == place)
    };
    let bases: Vec<Option<usize>> = cells.iter().map(base).collect();
    give_over(cells, &bases, measure, id);
}

/// Gives each cell the value `id`: its `measure` over that of the cell at its index in `bases`, and the runs behind that.
pub fn give_over(cells: &mut [Cell], bases: &[Option<usize>], measure: &str, id: &str) {
    let of = |(cell, base): (&Cell, &Option<usize>)| -> Option<(Value, Runs)> {
        let base = &cells[(*base)?];
        Some((over(cell, base, measure)?, base.runs()))
    };
    let found: Vec<Option<(Value, Runs)>> = cells.iter().zip(bases).map(of).collect();
    for (cell, found) in cells.iter_mut().zip(found) {
        let Some((value, runs)) = found else { continue };
        cell.values.insert(id.to_owned(), value);
        cell.behind = cell.behind + runs;
    }
}

/// Returns one cell's measure over another's.
pub fn over(top: &Cell, bottom: &Cell, measure: &str) -> Option<Value> {
    let (above, below) = (top.samples_of(measure), bottom.samples_of(measure));
    if above.len() > 1 && below.len() > 1 {
        let (value, interval) = ratio_of_medians(&above, &below, CONFIDENCE, RESAMPLING_SEED)?;
        return Some(Value::Range { value, low: interval.low, high: interval.high });
    }
    if let (Some(above), Some(below)) = (top.values.get(measure), bottom.values.get(measure)) {
        return ratio(above, below);
    }
    ratio(&top.figure(measure)?.into(), &bottom.figure(measure)?.into())
}

/// Returns one figure over another. Of two ranges the result has the widest range that they allow.
pub fn ratio(top: &Value, bottom: &Value) -> Option<Value> {
    let value = top.number()? / bottom.number().filter(|below| *below > 0.0)?;
    Some(match (top, bottom) {
        (&Value::Range { low, high, .. }, &Value::Range { low: least, high: most, .. }) if least > 0.0 => {
            Value::Range { value, low: low / most, high: high / least }
        }
        _ => Value::Number(value),
    })
}

/// Returns the mean of figures, by the scale that `to` leads to and `from` leads back from; `None` if there are none.
pub fn mean_on(values: &[Value], to: fn(f64) -> f64, from: fn(f64) -> f64) -> Option<Value> {
    let of = |end: fn(&Value) -> Option<f64>| {
        let numbers: Option<Vec<f64>> = values.iter().map(|value| end(value).map(to)).collect();
        mean(&numbers?).map(from)
    };
    let value = of(Value::number)?;
    let low = of(|value| match value {
        Value::Range { low, .. } => Some(*low),
        _ => None,
    });
    let high = of(|value| match value {
        Value::Range { high, .. } => Some(*high),
        _ => None,
    });
    Some(match (low, high) {
        (Some(low), Some(high)) => Value::Range { value, low, high },
        _ => Value::Number(value),
    })
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
    fn ratios_and_means_of_ranges_are_ranges() {
        let range = |value, low, high| Value::Range { value, low, high };
        let (top, bottom) = (range(8.0, 6.0, 9.0), range(2.0, 1.0, 3.0));
        assert_eq!(ratio(&top, &bottom), Some(range(4.0, 2.0, 9.0)));
        assert_eq!(ratio(&top, &2.0.into()), Some(Value::Number(4.0)));
        assert_eq!(ratio(&top, &range(1.0, 0.0, 2.0)), Some(Value::Number(8.0)));
        assert_eq!(ratio(&top, &0.0.into()), None);
        let cell = |value: &Value| Cell::new([("x", "y")]).with("r", value.clone());
        assert_eq!(over(&cell(&top), &cell(&bottom), "r"), ratio(&top, &bottom));
        let mean_of = |values: &[Value]| mean_on(values, |x| x, |x| x);
        assert_eq!(mean_of(&[top.clone(), bottom]), Some(range(5.0, 3.5, 6.0)));
        assert_eq!(mean_of(&[top, 2.0.into()]), Some(Value::Number(5.0)));
        assert_eq!(mean_of(&[]), None);
        let geometric = mean_on(&[range(4.0, 1.0, 9.0), range(9.0, 1.0, 9.0)], f64::ln, f64::exp);
        let Some(Value::Range { value, low, high }) = geometric else { panic!("{geometric:?}") };
        assert!([value - 6.0, low - 1.0, high - 9.0].iter().all(|difference| difference.abs() < 1e-9));
    }

    #[test]
    fn fairness() {
        assert_eq!((jain(&[3.0, 3.0, 3.0]), max_over_min(&[3.0, 3.0])), (Some(1.0), Some(1.0)));
        assert_eq!((jain(&[1.0, 0.0]), max_over_min(&[1.0, 0.0])), (Some(0.5), None));
        assert_eq!((jain(&[1.0]), jain(&[0.0, 0.0]), max_over_min(&[])), (None, None, None));
    }
}
