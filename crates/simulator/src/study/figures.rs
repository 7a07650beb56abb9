//! Tables and figures, as rows of numbers.

use super::bench::{Bench, Cell, faster_memory, percent};
use super::coverage::coverage;
use super::figure::{Figure, Kind};
use super::guesses::tables_in;
use crate::lower::Optimisation;
use crate::machine::Home;
use crate::placement::{Parallelism, Placement};
use crate::program::Classes;
use crate::traced_kernel::short;

/// Engines and threads of Fig 8.
const ENGINES: [u64; 5] = [1, 2, 4, 6, 8];
const THREADS: [u64; 4] = [1, 2, 4, 8];

fn names(bench: &Bench<'_>) -> Vec<String> {
    bench.works().iter().map(|work| short(work.name).to_owned()).collect()
}

pub(super) fn owned(columns: &[&str]) -> Vec<String> {
    columns.iter().map(|&column| column.to_owned()).collect()
}

/// Returns all figures of the paper, from a bench whose first three machines are the paper's.
pub fn all(bench: &mut Bench<'_>) -> Vec<Figure> {
    let mut figures = vec![coverage(), placed(bench)];
    for (machine, name) in [(0, "IXP1200"), (1, "IXP2400"), (2, "IXP2800")] {
        figures.push(code_mix(bench, machine, name));
    }
    figures.extend([mix(bench), throughput(bench), tables(bench)]);
    for (machine, name) in [(0, "IXP1200"), (1, "IXP2400"), (2, "IXP2800")] {
        figures.push(pipeline(bench, machine, name));
    }
    for (machine, name) in [(0, "IXP1200"), (2, "IXP2800")] {
        figures.push(breakdown(bench, machine, name));
    }
    figures.push(levels(bench));
    for (parallelism, name) in [(Parallelism::Flow, "flow-level"), (Parallelism::Block, "block-level")] {
        for threads in THREADS {
            figures.push(scaling(bench, parallelism, name, threads));
        }
    }
    figures.push(bursts(bench));
    figures.push(gains(bench));
    figures
}

pub(super) const CLASSES: [&str; 8] =
    ["simple", "complex", "jump", "branch", "immediate", "load", "store", "other"];

/// Shares of [`CLASSES`], in per cent.
pub(super) fn shares(found: &Classes) -> Vec<Option<f64>> {
    let classes = [
        found.simple,
        found.complex,
        found.jump,
        found.branch,
        found.immediate,
        found.load,
        found.store,
        found.other,
    ];
    classes.map(|count| Some(percent(count, found.total()))).to_vec()
}

pub(super) fn mean_row(rows: &[(String, Vec<Option<f64>>)]) -> (String, Vec<Option<f64>>) {
    let count = rows.len().max(1) as f64;
    let mean = |at: usize| Some(rows.iter().filter_map(|(_, row)| row[at]).sum::<f64>() / count);
    ("mean".to_owned(), (0..CLASSES.len()).map(mean).collect())
}

/// Returns the placement at level 1 and above on the IXP2800, by the number of flows that an engine has.
fn placed(bench: &Bench<'_>) -> Figure {
    let mut rows = Vec::new();
    for (work, name) in names(bench).into_iter().enumerate() {
        for (size, flows) in [((1, 1), "1 flow"), ((1, 8), "8 flows"), ((8, 8), "8 × 8 flows")] {
            let placement =
                Placement::new(&bench.works()[work], &bench.machines[2], true, size, Parallelism::Flow);
            if placement.bytes.iter().sum::<u64>() > 0 {
                let bytes = placement.bytes.map(|bytes| Some(bytes as f64));
                rows.push((format!("{name}, {flows}"), bytes.to_vec()));
            }
        }
    }
    Figure {
        title: "Where keys and tables lie from level 1 on, IXP2800".to_owned(),
        note: "Bytes of one flow. RC4's and Blowfish's tables for 8 flows, 8 × 1024 and 8 × 4096 bytes, fit no local memory \
            of 2560; the paper is silent, so what is left over goes to scratch and SRAM.",
        kind: Kind::Table,
        columns: owned(&["local", "scratch", "SRAM", "DRAM"]),
        rows,
    }
}

fn code_mix(bench: &Bench<'_>, machine: usize, name: &str) -> Figure {
    let names = names(bench);
    let row = |(work, name)| (name, shares(&bench.code(machine, work)));
    let mut rows: Vec<_> = names.into_iter().enumerate().map(row).collect();
    rows.push(mean_row(&rows));
    Figure {
        title: format!("Fig 2: static instruction mix, {name}, level 0"),
        note: "Per cent of the places of our kernels' source that do something, functions not inlined, loops not unrolled; \
            the dynamic mix is Table V's. The paper's bars are lost.",
        kind: Kind::Stacked,
        columns: owned(&CLASSES),
        rows,
    }
}

/// Compares large tables in scratch, as in Table IV, and in SRAM, because the text says "external".
fn tables(bench: &Bench<'_>) -> Figure {
    const LARGE: [&str; 3] = ["aes", "blowfish", "seal3"];
    let names = names(bench);
    let works: Vec<usize> = (0..names.len()).filter(|&work| LARGE.contains(&names[work].as_str())).collect();
    let mut rows: Vec<(String, Vec<Option<f64>>)> =
        works.iter().map(|&work| (names[work].clone(), Vec::new())).collect();
    for home in [Home::Scratch, Home::Sram] {
        let mut machines = bench.machines[1..3].to_vec();
        machines.iter_mut().for_each(|machine| tables_in(machine, &LARGE, home));
        let mut bench = Bench::new(machines, bench.works());
        for (row, &work) in rows.iter_mut().zip(&works) {
            let (older, newer) = (bench.rate(Cell::raw(0, work)), bench.rate(Cell::raw(1, work)));
            let idle = bench.run(Cell::raw(1, work)).share(|states| states.idle);
            let gain = 100.0 * (newer / older.max(f64::MIN_POSITIVE) - 1.0);
            row.1.extend([older, newer, gain, idle].map(Some));
        }
    }
    let columns = ["scratch", "SRAM"].into_iter().flat_map(|home| {
        [
            format!("{home}: IXP2400"),
            format!("{home}: IXP2800"),
            format!("{home}: gain %"),
            format!("{home}: idle %"),
        ]
    });
    Figure {
        title: "Large tables in scratch or in SRAM, IXP2X00, level 0".to_owned(),
        note: "Mb/s, the gain from IXP2400 to IXP2800, whose clock is 133 % higher, and idle cycles of the IXP2800. Table IV \
            has AES's and Blowfish's tables in scratch and SEAL's in SRAM; the text calls AES's external, and says that SEAL \
            alone gains as the clock does, which needs them the other way round.",
        kind: Kind::Table,
        columns: columns.collect(),
        rows,
    }
}

/// Returns the paper's three gains under sets of guesses that affect them.
fn gains(bench: &Bench<'_>) -> Figure {
    let mut rows = Vec::new();
    for entry in [4, 1] {
        for (channels, command) in [(3, 0), (3, 14), (3, 28), (1, 0), (1, 14), (1, 28)] {
            let mut machine = bench.machines[2].clone();
            (machine.dram.channels, machine.dram.command_cycles) = (channels, command);
            machine.rc4_entry_bytes = entry;
            let mut faster = machine.clone();
            faster_memory(&mut faster);
            let mut bench = Bench::new(vec![machine, faster], bench.works());
            let count = bench.works().len();
            let mut mean = |to: (usize, Optimisation, u64), from: (Optimisation, u64)| {
                let gain = |work| {
                    let base = Cell::raw(0, work).at(from.0, from.1, from.1);
                    bench.gain(Cell::raw(to.0, work).at(to.1, to.2, to.2), base)
                };
                Some(100.0 * ((0..count).map(gain).sum::<f64>() / count.max(1) as f64 - 1.0))
            };
            let row = vec![
                mean((0, Optimisation::Overlapped, 1), (Optimisation::Raw, 1)),
                mean((0, Optimisation::Bursts, 8), (Optimisation::Overlapped, 8)),
                mean((1, Optimisation::Overlapped, 8), (Optimisation::Overlapped, 8)),
            ];
            rows.push((format!("{channels}, {command}, {entry}"), row));
        }
    }
    rows.push(("the paper".to_owned(), vec![Some(145.0), Some(72.1), Some(14.5)]));
    Figure {
        title: "The paper's three gains under sets of guesses, IXP2800".to_owned(),
        note: "Per cent, means over ten. A row is DRAM channels used, cycles of a DRAM command, and bytes of an entry of \
            RC4's table.",
        kind: Kind::Table,
        columns: owned(&["level 2 over 0", "level 3 over 2", "faster memory"]),
        rows,
    }
}

fn mix(bench: &mut Bench<'_>) -> Figure {
    let names = names(bench);
    let row = |(work, name)| (name, shares(&bench.run(Cell::raw(2, work)).instructions));
    let mut rows: Vec<_> = names.into_iter().enumerate().map(row).collect();
    rows.push(mean_row(&rows));
    let paper = [78.9, 5.9, 0.1, 1.9, 3.3, 7.0, 0.5, 2.4];
    rows.push(("NPCryptBench 1.01".to_owned(), paper.map(Some).to_vec()));
    Figure {
        title: "Table V: dynamic instruction mix, IXP2800, level 0".to_owned(),
        note: "Per cent of instructions.",
        kind: Kind::Stacked,
        columns: owned(&CLASSES),
        rows,
    }
}

fn throughput(bench: &mut Bench<'_>) -> Figure {
    let names = names(bench);
    let row =
        |(work, name)| (name, [0, 1, 2].map(|machine| Some(bench.rate(Cell::raw(machine, work)))).to_vec());
    Figure {
        title: "Fig 3: throughput at level 0, one thread of one engine".to_owned(),
        note: "Mb/s of our kernels on our machines: the paper's own rates are lost.",
        kind: Kind::Bars,
        columns: owned(&["IXP1200", "IXP2400", "IXP2800"]),
        rows: names.into_iter().enumerate().map(row).collect(),
    }
}

fn pipeline(bench: &mut Bench<'_>, machine: usize, name: &str) -> Figure {
    let names = names(bench);
    let row = |(work, name)| {
        let found = bench.run(Cell::raw(machine, work));
        let shares = [found.share(|s| s.executing), found.share(|s| s.aborted), found.share(|s| s.idle)];
        (name, shares.map(Some).to_vec())
    };
    Figure {
        title: format!("Fig 4: an engine's states, {name}, level 0"),
        note: "Per cent of cycles.",
        kind: Kind::Stacked,
        columns: owned(&["executing", "aborted", "idle"]),
        rows: names.into_iter().enumerate().map(row).collect(),
    }
}

fn breakdown(bench: &mut Bench<'_>, machine: usize, name: &str) -> Figure {
    let names = names(bench);
    let row = |(work, name)| (name, bench.run(Cell::raw(machine, work)).breakdown().map(Some).to_vec());
    Figure {
        title: format!("Fig 5: where the time goes, {name}, level 0"),
        note: "Per cent of cycles by type of instruction; waits, and what swaps lose, are memory's.",
        kind: Kind::Stacked,
        columns: owned(&["ALU", "branch", "immediate and other", "memory"]),
        rows: names.into_iter().enumerate().map(row).collect(),
    }
}

fn levels(bench: &mut Bench<'_>) -> Figure {
    let names = names(bench);
    let row = |(work, name)| {
        let rates = Optimisation::ALL.map(|level| bench.rate(Cell::raw(2, work).at(level, 1, 1)));
        let gain = 100.0 * (rates[2] / rates[0].max(f64::MIN_POSITIVE) - 1.0);
        (name, rates.into_iter().chain([gain]).map(Some).collect())
    };
    Figure {
        title: "Levels on one thread, IXP2800".to_owned(),
        note: "Mb/s, and the gain of level 2 over level 0; the paper's mean is +145 %.",
        kind: Kind::Table,
        columns: owned(&["level 0", "level 1", "level 2", "level 3", "gain %"]),
        rows: names.into_iter().enumerate().map(row).collect(),
    }
}

fn scaling(bench: &mut Bench<'_>, parallelism: Parallelism, name: &str, threads: u64) -> Figure {
    let names = names(bench);
    let row = |(work, name): (usize, String)| {
        let can = parallelism == Parallelism::Flow || bench.works()[work].is_divisible;
        let cell = Cell { parallelism, ..Cell::raw(2, work) };
        let rate = |engines| can.then(|| bench.rate(cell.at(Optimisation::Overlapped, engines, threads)));
        (name, ENGINES.map(rate).to_vec())
    };
    let rows = names.into_iter().enumerate().map(row).collect();
    let engines = if threads == 1 { "one thread" } else { "threads" };
    let count = if threads == 1 { String::new() } else { format!("{threads} ") };
    Figure {
        title: format!("Fig 8: {name} parallelism, {count}{engines} an engine, IXP2800, level 2"),
        note: "Mb/s over engines.",
        kind: Kind::Lines,
        columns: ENGINES.map(|engines| engines.to_string()).to_vec(),
        rows,
    }
}

fn bursts(bench: &mut Bench<'_>) -> Figure {
    let mut machine = bench.machines[2].clone();
    faster_memory(&mut machine);
    let mut faster = Bench::new(vec![machine], bench.works());
    let names = names(bench);
    let row = |(work, name)| {
        let cell = Cell::raw(2, work);
        let base = bench.rate(cell.at(Optimisation::Overlapped, 8, 8));
        let bursts = bench.rate(cell.at(Optimisation::Bursts, 8, 8));
        let clock = faster.rate(Cell::raw(0, work).at(Optimisation::Overlapped, 8, 8));
        let gain = |rate: f64| Some(100.0 * (rate / base.max(f64::MIN_POSITIVE) - 1.0));
        (name, vec![gain(bursts), gain(clock)])
    };
    Figure {
        title: "Fig 9: bursts against faster memory, IXP2800, 8 engines of 8 threads".to_owned(),
        note: "Gains over level 2 in per cent; the paper's means are 72.1 and 14.5.",
        kind: Kind::Bars,
        columns: owned(&["larger bursts (level 3)", "faster memory"]),
        rows: names.into_iter().enumerate().map(row).collect(),
    }
}

/// Returns the rates, states and channels of one machine for the works of a bench, one row each; the machine is the
/// bench's first.
pub fn one(
    bench: &mut Bench<'_>,
    level: Optimisation,
    engines: u64,
    threads: u64,
    parallelism: Parallelism,
) -> Figure {
    let machine = bench.machines[0].name.clone();
    let names = names(bench);
    let row = |(work, name): (usize, String)| {
        if parallelism == Parallelism::Block && !bench.works()[work].is_divisible {
            return (name, vec![None; 7]);
        }
        let found = bench.run(Cell { parallelism, ..Cell::raw(0, work) }.at(level, engines, threads));
        let shares = [found.share(|s| s.executing), found.share(|s| s.aborted), found.share(|s| s.idle)];
        let all = [found.megabits_per_s].into_iter().chain(shares).chain(found.busy);
        (name, all.map(Some).collect())
    };
    let kind = if parallelism == Parallelism::Flow { "flow" } else { "block" };
    Figure {
        note: "Mb/s; per cent of the engines' cycles; per cent of the time that channels are taken.",
        kind: Kind::Table,
        columns: owned(&["Mb/s", "executing", "aborted", "idle", "scratch", "SRAM", "DRAM"]),
        rows: names.into_iter().enumerate().map(row).collect(),
        title: format!("{machine}, level {}, {engines} × {threads}, {kind}-level", level as u8),
    }
}
