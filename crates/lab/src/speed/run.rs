//! A plan of measurements of messages and of public-key operations, and its run.
//!
//! Guarantees: a plan exists only if its request can be met; rows come one by one in the plan's order, as they are
//! measured; a stop ends the run between two slices.

use super::public_key::{self, PublicKeyOptions, PublicKeyRow};
use super::{Row, Rule, SpeedError, SpeedOptions, plan, ticks_per_ns};
use crate::LabError;
use crate::error::unavailable;
use crate::report::number::quantity;
use serde::Serialize;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// One measured line.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Line {
    /// A rate of messages.
    Messages(Row),
    /// A rate of public-key operations.
    Operations(PublicKeyRow),
}

/// A line to come.
#[derive(Clone, Debug)]
enum Cell {
    Messages(plan::Cell),
    Operations(public_key::Cell),
}

/// A plan that can be run, because it has been checked.
#[derive(Debug)]
pub struct Plan {
    cells: Vec<(Cell, Rule)>,
}

impl Plan {
    /// Makes the plan of every cell of messages.
    ///
    /// # Errors
    /// Fails if a tier, instruction set, peer or amount of memory is not available.
    pub fn of_messages(options: &SpeedOptions) -> Result<Self, SpeedError> {
        let cells = plan::cells(options)?.into_iter();
        Ok(Self { cells: cells.map(|cell| (Cell::Messages(cell), options.rule)).collect() })
    }

    /// Makes the plan of every cell of public-key operations.
    ///
    /// # Errors
    /// Fails if a tier, instruction set or peer is not available, or if too many operations are asked for at a time.
    pub fn of_operations(options: &PublicKeyOptions) -> Result<Self, SpeedError> {
        let cells = public_key::cells(options)?.into_iter();
        Ok(Self { cells: cells.map(|cell| (Cell::Operations(cell), options.rule)).collect() })
    }

    /// Returns the plan that has the cells of `other` after its own.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.cells.extend(other.cells);
        self
    }

    /// Returns the number of cells.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Returns whether there is nothing to measure.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Returns an estimate of the duration: the slices, and for messages the time to prepare and warm up. The time to
    /// make keys of operations depends on the algorithm.
    pub fn estimate(&self) -> Duration {
        const PREPARATION_SECONDS: f64 = 0.005;
        let seconds = |(cell, rule): &(Cell, Rule)| {
            let (peer, preparation) = match cell {
                Cell::Messages(cell) => (cell.peer, PREPARATION_SECONDS),
                Cell::Operations(cell) => (cell.peer, 0.0),
            };
            f64::from(1 + u8::from(peer.is_some())) * rule.side_seconds() + preparation
        };
        Duration::from_secs_f64(self.cells.iter().map(seconds).sum())
    }

    /// Measures cell by cell and passes each line to `tell` as it is measured. Stops between slices once `stop` is
    /// set, and returns whether all was measured.
    ///
    /// # Errors
    /// Fails if an algorithm does not accept a length, an operation is refused or has a wrong answer, the system
    /// refuses a thread, or `tell` fails.
    pub fn run<E: From<SpeedError>>(
        &self,
        stop: &AtomicBool,
        mut tell: impl FnMut(Line) -> Result<(), E>,
    ) -> Result<bool, E> {
        let has_messages = self.cells.iter().any(|(cell, _)| matches!(cell, Cell::Messages(_)));
        let ticks = if has_messages { ticks_per_ns() } else { None };
        for (cell, rule) in &self.cells {
            if stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let line = match cell {
                Cell::Messages(cell) => cell.measure(*rule, ticks, stop)?.map(Line::Messages),
                Cell::Operations(cell) => cell.measure(*rule, stop)?.map(Line::Operations),
            };
            let Some(line) = line else { return Ok(false) };
            tell(line)?;
        }
        Ok(true)
    }

    /// Returns every line; `what` names them, and `rest` says what else takes time.
    ///
    /// # Errors
    /// Fails as [`Self::run`] does, or if progress cannot be written.
    fn lines(&self, [what, rest]: [&str; 2], progress: &mut dyn Write) -> Result<Vec<Line>, LabError> {
        if !self.is_empty() {
            let seconds = quantity(self.estimate().as_secs_f64());
            writeln!(progress, "{} {what}, about {seconds} s{rest}", self.len())?;
        }
        let mut lines = Vec::with_capacity(self.len());
        self.run::<SpeedError>(&AtomicBool::new(false), |line| {
            lines.push(line);
            Ok(())
        })
        .map_err(unavailable)?;
        Ok(lines)
    }
}

/// Returns every requested row of messages.
pub(super) fn messages(options: &SpeedOptions, progress: &mut dyn Write) -> Result<Vec<Row>, LabError> {
    let plan = Plan::of_messages(options).map_err(unavailable)?;
    let row = |line| match line {
        Line::Messages(row) => Some(row),
        Line::Operations(_) => None,
    };
    Ok(plan.lines(["measurements", ""], progress)?.into_iter().filter_map(row).collect())
}

/// Returns every requested row of public-key operations.
pub(super) fn operations(
    options: &PublicKeyOptions,
    progress: &mut dyn Write,
) -> Result<Vec<PublicKeyRow>, LabError> {
    let plan = Plan::of_operations(options).map_err(unavailable)?;
    let row = |line| match line {
        Line::Operations(row) => Some(row),
        Line::Messages(_) => None,
    };
    let words = ["public-key measurements", " and the time to make keys"];
    Ok(plan.lines(words, progress)?.into_iter().filter_map(row).collect())
}
