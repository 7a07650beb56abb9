//! What layers add to a packet's time on one lane (Tables 1 and 2; N28, N33), and whether their costs add up.
//!
//! Guarantees: every figure is of setups that took turns; the paper's figures are as printed.

use super::parts::PAPERS_TIER;
use super::rig::{Direction, Setup};
use super::{Bench, DES_ALONE, PAPER, STACKS, paper};
use crate::LabError;
use crate::experiment::{Cell, Claim, Experiment, Measure, Outcome, Role, Shape};
use sealane_transform::Tier;

/// Measures latencies on one lane, and their excess over those without the layers above TCP/IP, beside the paper's.
pub(super) fn latencies(
    bench: &Bench<'_>,
    id: &str,
    title: &str,
    [covers, send_id, receive_id]: [&str; 3],
    rows: &[paper::Latency],
) -> Option<Outcome> {
    let measures = vec![
        Measure::published("paper_us", "paper: µs", PAPER),
        Measure::published("paper_more", "more", PAPER),
        Measure::published("paper_times", "times TCP/IP", PAPER),
        Measure::cost("us", "ours: µs", "µs").derived(),
        Measure::cost("more", "more", "µs").derived(),
        Measure::times("times", "times TCP/IP"),
    ];
    let mut cells = Vec::new();
    let ways = [("send", send_id), ("receive", receive_id)];
    for ((way, id), row) in rows.iter().flat_map(|row| ways.map(|way| (way, row))) {
        let of_paper = |row: &paper::Latency| if way == "send" { row.send_us } else { row.receive_us };
        let own = |cell: &&Cell, stack: &str| {
            cell.at["id"] == id && cell.at["stack"] == stack && cell.at["lanes"] == "1"
        };
        let bare =
            bench.cells.iter().find(|cell| own(cell, rows[0].stack)).and_then(|cell| cell.figure("us"));
        for cell in bench.cells.iter().filter(|cell| own(cell, row.stack)) {
            let (Some(us), Some(bare)) = (cell.figure("us"), bare) else { continue };
            let (paper, paper_bare) = (of_paper(row), of_paper(&rows[0]));
            cells.push(
                Cell::new([("stack", row.stack), ("tier", &*cell.at["tier"]), ("way", way)])
                    .with("paper_us", paper)
                    .with("paper_more", paper - paper_bare)
                    .with("paper_times", paper / paper_bare)
                    .with("us", us)
                    .with("more", us - bare)
                    .with("times", us / bare),
            );
        }
    }
    let notes = [
        "Microseconds of a packet of 4 KB on one lane, what that is more than without the layers above TCP/IP, and how many \
         times TCP/IP's.",
        "The paper's processors had 100 MHz; its TCP's turn held copies and checksums, ours holds neither.",
    ];
    let experiment = Experiment::new(id, covers, title, &["stack", "tier", "way"], measures).notes(&notes);
    let experiment = Experiment { paper: PAPER.to_owned(), ..experiment };
    (!cells.is_empty()).then(|| Outcome::new(experiment, cells))
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
            Claim { statement, source: "N28".to_owned(), metric: "us".to_owned(), shape }
        };
        cells.chunks_exact(stacks.len()).map(claim).collect()
    }))
}
