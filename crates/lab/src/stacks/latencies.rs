//! The time that layers add to a packet on one lane (Tables 1 and 2; N28, N33), and whether their costs add up.
//!
//! Guarantees: every figure is of setups that took turns; the paper's figures are as printed.

use super::paper::PAPERS_TIER;
use super::rig::{Direction, Setup};
use super::{Bench, DES_ALONE, STACKS, paper};
use crate::LabError;
use crate::experiment::{Cell, Claim, Experiment, Measure, Outcome, Role, Shape, Value, derive};
use crate::report::number::ratio;
use crate::studies::NDSS_TITLE;
use sealane_transform::Tier;

/// The tables of the paper, and the studies of the cells beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    /// Table 1, packets of one connection.
    One,
    /// Table 2, twelve connections.
    Two,
}

impl Table {
    fn rows(self) -> &'static [paper::Latency] {
        match self {
            Self::One => &paper::TABLE_1,
            Self::Two => &paper::TABLE_2,
        }
    }

    /// Returns the id of the cells in one direction.
    fn cells(self, direction: Direction) -> &'static str {
        super::ids(direction)[usize::from(self == Self::Two)]
    }
}

/// The tolerance of Table 2 over Table 1: the paper's own figures of one connection lie up to 13 % from those of twelve
/// (TCP/IP received) without a reason in its text, and a tenth is what the lab calls alike.
const TOLERANCE: f64 = 0.1;

/// Returns the paper's time with twelve connections over its time with one. Table 1 has no 3DES with MD5: its 3DES and
/// what MD5 adds there stand for it.
fn paper_over(row: &paper::Latency, direction: Direction) -> Option<f64> {
    let of = |row: &paper::Latency| match direction {
        Direction::Send => row.send_us,
        Direction::Receive => row.receive_us,
    };
    let [bare, digest, .., triple] = &paper::TABLE_1;
    let one = match paper::TABLE_1.iter().find(|one| one.stack == row.stack) {
        Some(one) => of(one),
        None if row.stack == STACKS[4] => of(triple) + of(digest) - of(bare),
        None => return None,
    };
    Some(of(row) / one)
}

/// Measures latencies on one lane, and their excess over those without the layers above TCP/IP, beside the paper's. With
/// twelve connections, beside those with one.
pub(super) fn latencies(bench: &Bench<'_>, table: Table) -> Option<Outcome> {
    let mut measures = vec![
        Measure::published("paper_us", "paper: µs", NDSS_TITLE),
        Measure::published("paper_more", "more", NDSS_TITLE),
        Measure::published("paper_times", "times TCP/IP", NDSS_TITLE),
        Measure::cost("us", "ours: µs", "µs").derived(),
        Measure::cost("more", "more", "µs").derived(),
        Measure::times("times", "times TCP/IP"),
    ];
    if table == Table::Two {
        measures.push(Measure::published("paper_over", "paper: over one connection", NDSS_TITLE).decimals(2));
        measures.push(Measure::times("over", "ours: over one connection"));
    }
    let rows = table.rows();
    let (mut cells, mut claims) = (Vec::new(), Vec::new());
    for (direction, row) in rows.iter().flat_map(|row| Direction::ALL.map(|direction| (direction, row))) {
        let of_paper = |row: &paper::Latency| match direction {
            Direction::Send => row.send_us,
            Direction::Receive => row.receive_us,
        };
        let is_own = |cell: &&Cell, table: Table, stack: &str| {
            cell.at["id"] == table.cells(direction) && cell.at["stack"] == stack && cell.at["lanes"] == "1"
        };
        let own = |table: Table, stack: &'static str| {
            bench.cells.iter().filter(move |cell| is_own(cell, table, stack))
        };
        let bare = own(table, rows[0].stack).next().and_then(|cell| cell.figure("us"));
        for cell in own(table, row.stack) {
            let (Some(us), Some(bare)) = (cell.figure("us"), bare) else { continue };
            let (paper, paper_bare) = (of_paper(row), of_paper(&rows[0]));
            let tier = &*cell.at["tier"];
            let mut latency = Cell::new([("stack", row.stack), ("tier", tier), ("way", direction.name())])
                .with("paper_us", paper)
                .with("paper_more", paper - paper_bare)
                .with("paper_times", paper / paper_bare)
                .with("us", us)
                .with("more", us - bare)
                .with("times", us / bare)
                .behind(cell.runs());
            let one = own(Table::One, row.stack).find(|one| one.at["tier"] == tier);
            if let (Table::Two, Some(one), Some(paper)) = (table, one, paper_over(row, direction)) {
                let over = derive::over(cell, one, "us");
                // The paper's processors had neither instructions nor lanes for ciphers.
                if tier == "native" || row.stack == STACKS[0] {
                    let ours = over.as_ref().and_then(Value::number);
                    claims.extend(ours.map(|ours| over_one(&latency, paper, ours)));
                }
                latency = latency.with("paper_over", paper).with_some("over", over).behind(one.runs());
            }
            cells.push(latency);
        }
    }
    let mut notes = vec![
        "Microseconds of a packet of 4 KB on one lane, what that is more than without the layers above TCP/IP, and how many \
         times TCP/IP's.",
        "The paper's processors had 100 MHz; its TCP's turn held copies and checksums, ours holds neither.",
    ];
    let (id, covers, title) = match table {
        Table::One => ("latency", "N28", "What layers add on one lane (Table 1)"),
        Table::Two => ("latency-12", "N33", "What layers add, twelve connections (Table 2)"),
    };
    if table == Table::Two {
        notes.push(
            "Over one connection: the paper's Table 2 over its Table 1, and the same of ours, whose cells took turns. Table 1 has no \
             3DES with MD5; its 3DES and what MD5 adds there stand for it.",
        );
    }
    let experiment = Experiment::new(id, covers, title, &["stack", "tier", "way"], measures);
    let experiment = experiment.of(NDSS_TITLE).notes(&notes).claiming(claims);
    (!cells.is_empty()).then(|| Outcome::new(experiment, cells))
}

/// Returns the claim that twelve connections cost as much more than one as in the paper (N33).
fn over_one(latency: &Cell, paper: f64, ours: f64) -> Claim {
    let [stack, tier, way] = ["stack", "tier", "way"].map(|axis| &*latency.at[axis]);
    let statement = format!(
        "{stack}, {tier}, {way}: with twelve connections a packet takes {} of its time with one in the paper, here {}, {} of the \
         paper's; within a tenth, because the paper's two tables differ by up to 13 % themselves.",
        ratio(paper),
        ratio(ours),
        ratio(ours / paper)
    );
    let bounds = [1.0 - TOLERANCE, 1.0 + TOLERANCE].map(|by| Some(by * paper));
    Claim::bound((statement, "N33"), "over", latency.at.clone(), bounds.into())
}

/// Measures each layer alone and both together, in turns (N28).
pub(super) fn sums(bench: &mut Bench<'_>) -> Result<Option<Outcome>, LabError> {
    let stacks = [STACKS[0], STACKS[1], DES_ALONE, STACKS[2]];
    for direction in Direction::ALL {
        bench.beside_the_first(
            "sum",
            stacks.map(|stack| Setup::new(stack, direction, Some(Tier::Native))).into(),
        )?;
    }
    let measures = vec![Measure::cost("us", "µs", "µs").decimals(2)];
    let cells = paper::TABLE_1[..3].iter().map(|row| {
        let place = [("way", "send"), ("tier", PAPERS_TIER), ("stack", row.stack)];
        Cell::new(place).with("us", row.send_us).of_role(Role::Published)
    });
    let experiment = Experiment::new("sums", "N28", "Whether costs add up", &["tier", "way", "stack"], measures)
        .notes(&["One lane, tier native, in alternating slices. A layer's work touches nothing of another's but the packet."]);
    Ok(bench.outcome(experiment, &["sum"], cells.collect(), |cells| {
        let claim = |four: &[Cell]| {
            let [bare, digest, cipher, whole] = [0, 1, 2, 3].map(|at| four[at].at.clone());
            let statement = format!(
                "{}, native: MD5 and DES together cost what each costs alone, within 5 %.",
                whole["way"]
            );
            let shape =
                Shape::Sum { parts: vec![digest, cipher], common: vec![bare], whole, low: 0.95, high: 1.05 };
            Claim::new((statement, "N28"), "us", shape)
        };
        cells.chunks_exact(stacks.len()).map(claim).collect()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_tables_give_these_ratios() {
        let of = |direction| {
            paper::TABLE_2.each_ref().map(|row| (100.0 * paper_over(row, direction).unwrap()).round() / 100.0)
        };
        assert_eq!(of(Direction::Send), [0.96, 1.02, 0.97, 1.01]);
        assert_eq!(of(Direction::Receive), [1.13, 1.04, 0.98, 1.03]);
    }
}
