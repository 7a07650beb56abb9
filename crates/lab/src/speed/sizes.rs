//! The bytes of keys and tables of NPCryptBench's ten algorithms, beside its Tables II (B8) and IV (B13).
//!
//! Guarantees: every figure is counted and the same on every host; the paper's are as printed; a claim has no tolerance,
//! because bytes are counted, but where the paper prints a limit.

use crate::experiment::{Cell, Claim, Coordinates, Experiment, Measure, Outcome, Value, View};
use crate::report::number::ratio;
use crate::studies::NPCRYPTBENCH_TITLE;
use sealane_simulator::{Home, Machine, Parallelism, Placement, TracedKernel};
use sealane_transform::Algorithm;

/// A count of bytes as the paper prints it.
#[derive(Clone, Copy, Debug)]
enum Printed {
    Exactly(u32),
    LessThan(u32),
}

use Printed::{Exactly, LessThan};

impl Printed {
    fn words(self) -> String {
        match self {
            Exactly(bytes) => bytes.to_string(),
            LessThan(bytes) => format!("< {bytes}"),
        }
    }

    fn bounds(self) -> (Option<f64>, Option<f64>) {
        match self {
            Exactly(bytes) => (Some(f64::from(bytes)), Some(f64::from(bytes))),
            LessThan(bytes) => (None, Some(f64::from(bytes) - 1.0)),
        }
    }
}

/// An algorithm's bytes: of tables by Table II, then by Table IV in the fastest memory and beyond, on the IXP1200
/// (scratch and SRAM) and on the IXP2X00 (local memory and scratch).
struct Sizes {
    name: &'static str,
    tables: Printed,
    placed: [[Printed; 2]; 2],
}

const fn alike(name: &'static str, tables: u32, fast: u32, beyond: u32) -> Sizes {
    let placed = [Exactly(fast), Exactly(beyond)];
    Sizes { name, tables: Exactly(tables), placed: [placed, placed] }
}

/// The ten, in the order of the other tables.
const TEN: [Sizes; 10] = [
    alike("md5", 0, 0, 0),
    alike("sha1", 0, 0, 0),
    Sizes {
        name: "rc4",
        tables: Exactly(256),
        placed: [[Exactly(0), Exactly(1024)], [Exactly(1024), Exactly(0)]],
    },
    Sizes {
        name: "seal3",
        tables: LessThan(4096),
        placed: [[Exactly(0), LessThan(4096)], [Exactly(4), LessThan(4096)]],
    },
    alike("aes-128-ecb", 4096, 176, 5120),
    alike("des-ecb", 512, 2176, 0),
    alike("rc5-r16-ecb", 0, 136, 0),
    alike("rc6-ecb", 0, 176, 0),
    alike("blowfish-ecb", 4096, 72, 4096),
    alike("idea-ecb", 0, 208, 0),
];

/// The machines of Table IV, and the names of their two memories.
const MACHINES: [(&str, [&str; 2]); 2] =
    [("ixp1200", ["scratch", "SRAM"]), ("ixp2800", ["local", "scratch or SRAM"])];

const BYTES: &str = "bytes";

fn measures(paper: &str) -> Vec<Measure> {
    vec![
        Measure::count(BYTES, "bytes").unit("bytes").predicted(),
        Measure::published("printed", paper, NPCRYPTBENCH_TITLE),
        Measure::times("over", "times the paper's").predicted(),
    ]
}

/// Returns the cell and the claim of a count beside the printed one.
fn counted(place: Coordinates, what: &str, source: &str, bytes: f64, printed: Printed) -> (Cell, Claim) {
    let over = match printed {
        Exactly(paper) if paper > 0 => Some(bytes / f64::from(paper)),
        _ => None,
    };
    let times = over.map_or_else(String::new, |over| format!(", {} times that", ratio(over)));
    let statement = format!(
        "{what}: the paper has {} bytes, ours {bytes}{times}; without tolerance, because bytes are counted.",
        printed.words()
    );
    let claim = Claim::bound((statement, source), BYTES, place.clone(), printed.bounds());
    let cell = Cell { at: place, ..Cell::default() }
        .with(BYTES, Value::exact(bytes))
        .with("printed", &*printed.words())
        .with_some("over", over.map(Value::exact));
    (cell, claim)
}

fn outcome(experiment: Experiment, counted: Vec<(Cell, Claim)>) -> Outcome {
    let (cells, claims) = counted.into_iter().unzip();
    Outcome::new(experiment.of(NPCRYPTBENCH_TITLE).claiming(claims).shown(View::Cells, Vec::new()), cells)
}

/// Returns the bytes of tables beside Table II, with what an association keeps hot.
pub(super) fn tables() -> Outcome {
    let rows = TEN.iter().filter_map(|Sizes { name, tables, .. }| {
        let facts = name.parse::<Algorithm>().ok()?.facts();
        let place = crate::experiment::at([("algorithm", *name)]);
        let what = format!("{name}, tables");
        let (cell, claim) = counted(place, &what, "B8, Table II", facts.table_bytes as f64, *tables);
        Some((cell.with("working set", facts.working_set_bytes as f64), claim))
    });
    let mut measures = measures("Table II");
    measures.push(Measure::count("working set", "working set").unit("bytes"));
    let experiment = Experiment::new("tables", "B8", "Table bytes", &["algorithm"], measures).notes(&[
        "Constant or key-dependent tables of the reference form, and what an association keeps hot, keys included.",
        "The paper's AES looks words up in four tables of 256 words; the reference form here has the cipher's two boxes of 256 \
         bytes, and Table IV is that of the form with words.",
    ]);
    outcome(experiment, rows.collect())
}

/// Returns the bytes of keys and tables in the two nearest memories beside Table IV, as the simulator places them at
/// level 0.
pub(super) fn placed() -> Outcome {
    let mut all = Vec::new();
    for Sizes { name, placed, .. } in &TEN {
        let Some(work) = TracedKernel::new(name) else { continue };
        for ((machine, memories), printed) in MACHINES.into_iter().zip(placed) {
            let Some(model) = Machine::built_in(machine) else { continue };
            let found = Placement::new(&work, &model, false, (1, 1), Parallelism::Flow).bytes;
            let of = |homes: &[Home]| homes.iter().map(|&home| found[home as usize] as f64).sum::<f64>();
            let [near, far] = match machine {
                "ixp1200" => [of(&[Home::Local, Home::Scratch]), of(&[Home::Sram, Home::Dram])],
                _ => [of(&[Home::Local]), of(&[Home::Scratch, Home::Sram, Home::Dram])],
            };
            for ((memory, bytes), printed) in memories.into_iter().zip([near, far]).zip(printed) {
                let axes = ["algorithm", "machine", "memory"].into_iter();
                let place = crate::experiment::at(axes.zip([*name, &model.name, memory]));
                let what = format!("{name}, {}, {memory}", model.name);
                // The simulator places data as the table says, so agreement is its input.
                let (cell, claim) = counted(place, &what, "B13, Table IV", bytes, *printed);
                all.push((cell, claim.by_construction()));
            }
        }
    }
    let title = "Keys and tables in near and in far memory, level 0";
    let axes = ["algorithm", "machine", "memory"];
    let experiment = Experiment::new("placement", "B13", title, &axes, measures("Table IV")).notes(&[
        "Bytes of one flow that the traces of the reference kernels touch, in the memories that the simulated machines give \
         them. The paper has scratch and SRAM on the IXP1200, local memory and scratch on the IXP2X00.",
    ]);
    outcome(experiment, all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Verdict;

    /// Each count is decided, and those that the simulator's placement is fitted to are met.
    #[test]
    fn every_count_has_a_claim_that_is_decided() {
        let [tables, placed] = [tables(), placed()];
        assert_eq!((tables.claims.len(), placed.claims.len()), (10, 40));
        for (result, met) in tables
            .claims
            .iter()
            .map(|result| (result, Verdict::Holds))
            .chain(placed.claims.iter().map(|result| (result, Verdict::ByConstruction)))
        {
            assert!([met, Verdict::DoesNotHold].contains(&result.verdict), "{result:?}");
        }
        let of = |outcome: &Outcome, name: &str| {
            let result = outcome.claims.iter().find(|result| result.claim.statement.starts_with(name));
            (result.unwrap().verdict, result.unwrap().estimate)
        };
        assert_eq!(of(&tables, "rc4, "), (Verdict::Holds, Some(256.0)));
        assert_eq!(of(&placed, "aes-128-ecb, IXP1200, SRAM"), (Verdict::ByConstruction, Some(5120.0)));
        let (cell, claim) =
            counted(crate::experiment::at([("algorithm", "x")]), "x", "B8", 512.0, Exactly(4096));
        let experiment = Experiment::new("x", "", "X", &["algorithm"], measures("Table II"));
        let missed = outcome(experiment, vec![(cell, claim)]);
        assert_eq!(missed.claims[0].verdict, Verdict::DoesNotHold);
        assert!(missed.claims[0].claim.statement.contains("0.12 times that"), "{missed:?}");
    }
}
