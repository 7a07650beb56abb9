//! A report with every kind of content. Its figures are invented.

use sealane_lab::experiment::{
    Axis, Cell, Claim, Coordinates, Copied, Drawn, Experiment, MEGABITS, Outcome, Pivot, Plot, Profile, RATE,
    Role, Sample, View, at, check,
};
use sealane_lab::machine::Machine;
use sealane_lab::report::{Check, FORMAT, Report, Tile};
use sealane_lab::rng::Rng;
use std::collections::BTreeMap;

const LEVELS: [&str; 4] = ["clear", "authenticated", "safe", "private"];

pub(crate) fn report() -> Report {
    Report {
        format: FORMAT,
        program: "sealane lab".to_owned(),
        title: "What security costs on this machine".to_owned(),
        summary: "One file and one tree, at four levels of protection, beside the tools installed here."
            .to_owned(),
        created: "2026-11-21T08:00:00Z".to_owned(),
        seconds: 97.3,
        profile: Some(Profile::Quick),
        machine: Machine {
            cpu_model: Some("Example CPU 3000".to_owned()),
            cores: 2,
            cpu_features: vec!["aes".to_owned(), "vaes".to_owned()],
            memory_bytes: Some(24 << 30),
            kernel: Some("Linux 6.18 x86_64".to_owned()),
            congestion_control: Some("bbr".to_owned()),
            version: "0.1.0".to_owned(),
            commit: Some("0123456789ab".to_owned()),
            ..Machine::default()
        },
        hosts: BTreeMap::new(),
        tiles: vec![
            tile("Private, one file", "1,640", "MB/s", "2.8 × the best peer at this level"),
            tile("What encryption adds", "0.14", "CPU s/GiB", "0.97 clear, 1.11 private"),
            tile("Resent after a kill", "1.00", "MiB", "of 1.00 GiB"),
        ],
        checks: vec![
            Check { what: "Tree, private".to_owned(), found: "4,211 files equal".to_owned(), is_good: true },
            Check { what: "File, clear".to_owned(), found: "differs".to_owned(), is_good: false },
        ],
        outcomes: vec![bars(), grid(), lines()],
        method: vec!["Both ends ran here, on loopback TCP.".to_owned()],
        limits: vec!["No delay, no loss, no disk.".to_owned()],
        skipped: vec!["hpnscp: not installed".to_owned()],
        sources: vec!["slides, 2007".to_owned()],
        conclusions: Vec::new(),
    }
}

/// Returns the report with the same figures, of which other work disturbed those of the denominators of its claims, and with
/// one of its claims by construction.
#[allow(dead_code)]
pub(crate) fn busy_report() -> Report {
    let mut report = report();
    let Outcome { experiment, cells, claims, .. } = &mut report.outcomes[1];
    let doubtful = ["Single P1", "Single P2"];
    let is_in = |cell: &&mut Cell| {
        cell.at["suite"] == "legacy" && cell.at["level"] == "private" && cell.at["end"] == "send"
    };
    for cell in cells.iter_mut().filter(is_in).filter(|cell| doubtful.contains(&&*cell.at["mode"])) {
        cell.samples.iter_mut().for_each(|sample| sample.is_disturbed = true);
    }
    experiment.claims[0].is_by_construction = true;
    *claims = experiment.claims.iter().map(|claim| check(claim, cells)).collect();
    report
}

fn tile(label: &str, value: &str, unit: &str, detail: &str) -> Tile {
    let [label, value, unit, detail] = [label, value, unit, detail].map(str::to_owned);
    Tile { label, value, unit, detail }
}

fn cell(place: Coordinates, rate: f64, cpu_per_gib: f64, rng: &mut Rng) -> Cell {
    let samples = (0..6).map(|round| {
        let factor = 0.96 + 0.08 * (rng.below(1000) as f64 / 1000.0);
        let copied = Copied {
            bytes: 1 << 30,
            files: 1,
            wall_seconds: f64::from(1 << 30) / 1e6 / rate / factor,
            cpu_seconds: cpu_per_gib * factor,
            ..Copied::default()
        };
        Sample { round, ..Sample::copied(copied, false) }
    });
    Cell { at: place, samples: samples.collect(), ..Cell::default() }
}

fn experiment(id: &str, title: &str, axes: Vec<Axis>, view: View, plots: Vec<Plot>) -> Experiment {
    Experiment {
        id: id.to_owned(),
        covers: "G11–G13".to_owned(),
        paper: "Harnessing Multicore Processors for High Speed Secure Transfer (2007)".to_owned(),
        title: title.to_owned(),
        method: vec!["Loopback TCP, congestion control as the machine has it.".to_owned()],
        axes,
        workload: "1.00 GiB of random bytes.".to_owned(),
        repetition: Profile::Quick.repetition(),
        view,
        plots,
        ..Experiment::default()
    }
}

fn outcome(mut experiment: Experiment, cells: Vec<Cell>, claims: Vec<Claim>) -> Outcome {
    experiment.claims.clone_from(&claims);
    let claims = claims.iter().map(|claim| check(claim, &cells)).collect();
    Outcome {
        experiment,
        seed: 42,
        started: "2026-11-21T08:00:00Z".to_owned(),
        seconds: 30.0,
        cells,
        claims,
        skipped: vec!["through a shaped link: needs root".to_owned()],
    }
}

fn bars() -> Outcome {
    let mut rng = Rng::new(1);
    let rates = [1725.0, 1740.0, 1650.0, 1610.0];
    let mut cells: Vec<Cell> = LEVELS
        .iter()
        .zip(rates)
        .map(|(level, rate)| {
            cell(at([("level", *level), ("tool", "sealane")]), rate, 1700.0 / rate, &mut rng)
        })
        .collect();
    cells.push(cell(at([("level", "private"), ("tool", "scp 9.2 (aes128-gcm)")]), 419.0, 3.65, &mut rng));
    cells.push(cell(at([("level", "private"), ("tool", "WDT 1.32 (aes128gcm)")]), 1328.0, 1.42, &mut rng));
    cells.push(cell(at([("level", "clear"), ("tool", "cp (no network)")]), 2196.0, 0.49, &mut rng));
    cells.push(cell(at([("level", "clear"), ("tool", "rsync daemon")]), 850.0, 1.85, &mut rng));
    let view = View::Bars { groups: "level".to_owned(), names: "tool".to_owned(), own: "sealane".to_owned() };
    let axes = vec![Axis::new("level", LEVELS), Axis::new("tool", ["sealane"])];
    outcome(experiment("file", "One file, beside other tools", axes, view, Vec::new()), cells, Vec::new())
}

fn grid() -> Outcome {
    let mut rng = Rng::new(2);
    let modes = ["Single P1", "Single P2", "Pool P1", "Pool P2", "Packet P1"];
    let mut cells = Vec::new();
    for end in ["send", "receive"] {
        for (mode, gain) in modes.iter().zip([1.0, 1.03, 0.99, 1.91, 1.87]) {
            for (level, suite, rate) in [
                ("clear", "none", 2400.0),
                ("authenticated", "none", 2380.0),
                ("safe", "modern", 2300.0),
                ("private", "modern", 2016.0),
                ("safe", "legacy", 690.0),
                ("private", "legacy", 26.4),
            ] {
                let gain = if suite == "none" { 1.0 + (gain - 1.0) * 0.6 } else { gain };
                let place = at([("end", end), ("suite", suite), ("mode", mode), ("level", level)]);
                cells.push(cell(place, rate * gain, 1000.0 / rate, &mut rng));
            }
        }
    }
    let private =
        |mode: &'static str| at([("end", "send"), ("suite", "legacy"), ("mode", mode), ("level", "private")]);
    let ratio = |statement: &str, source, top, bottom, low, high| {
        Claim::ratio((statement, source), RATE, (private(top), private(bottom)), (low, high))
    };
    let claims = vec![
        ratio(
            "Private, sender: two streams on two lanes give 1.7 times one",
            "G13",
            "Pool P2",
            "Pool P1",
            Some(1.7),
            None,
        ),
        ratio(
            "Private, sender: one lane gains nothing from two streams",
            "G13",
            "Single P2",
            "Single P1",
            Some(0.9),
            Some(1.1),
        ),
        ratio(
            "Private, sender: more than twice is expected",
            "target",
            "Pool P2",
            "Pool P1",
            Some(2.1),
            None,
        ),
        ratio("Private, sender: in doubt", "target", "Pool P2", "Pool P1", Some(1.92), None),
        ratio("Private, sender: never run", "target", "Packet P2", "Pool P1", Some(1.9), None),
    ];
    for (mode, megabits) in modes.iter().zip([100.0, 101.0, 100.0, 196.0]) {
        let place = at([("end", "as published"), ("suite", "Opteron"), ("mode", mode), ("level", "private")]);
        cells.push(Cell { at: place, ..Cell::default() }.with(MEGABITS, megabits).of_role(Role::Published));
    }
    let words = |suite: &str| match suite {
        "Opteron" => suite.to_owned(),
        suite => format!("This machine, {suite} suites"),
    };
    let end_words = |end: &str| match end {
        "send" => "sender measured".to_owned(),
        "receive" => "receiver measured".to_owned(),
        other => other.to_owned(),
    };
    let axes = vec![
        Axis::new("end", ["send", "receive", "as published"]).in_words(end_words),
        Axis::new("suite", ["none", "modern", "legacy", "Opteron"]).in_words(words),
        Axis::new("mode", modes),
        Axis::new("level", LEVELS),
    ];
    let blocks = ["suite", "end"].map(str::to_owned).to_vec();
    let ratios = [("Pool P2", "Pool P1"), ("Single P2", "Single P1"), ("Packet P1", "Single P1")];
    let view = View::Pivot(Pivot {
        rows: vec!["mode".to_owned()],
        columns: "level".to_owned(),
        measure: MEGABITS.to_owned(),
        blocks: blocks.clone(),
        times: None,
        ratios: ratios.map(|(top, bottom)| (top.to_owned(), bottom.to_owned())).to_vec(),
    });
    let plots = vec![Plot {
        plots: blocks,
        divisor: Some("Single P1".to_owned()),
        ..Plot::new(Drawn::Bars, "level", RATE, &["mode"])
    }];
    outcome(experiment("grid", "Threads and streams at four levels", axes, view, plots), cells, claims)
}

fn lines() -> Outcome {
    let mut rng = Rng::new(3);
    let mut cells = Vec::new();
    for lanes in ["1", "2", "4", "8"] {
        for streams in ["1", "2", "4", "8", "16"] {
            let cores = f64::min(2.0, f64::min(lanes.parse().unwrap(), streams.parse().unwrap()));
            cells.push(cell(at([("lanes", lanes), ("streams", streams)]), 27.0 * cores, 30.0, &mut rng));
        }
    }
    cells[3].failure = Some("the copy failed (refused): too many streams".to_owned());
    cells[3].samples.clear();
    let axes = vec![Axis::new("lanes", [1, 2, 4, 8]), Axis::new("streams", [1, 2, 4, 8, 16])];
    let view = View::pivot(&["lanes"], "streams", RATE);
    let plots = vec![Plot::new(Drawn::Lines, "streams", RATE, &["lanes"])];
    outcome(experiment("counts", "Many threads, many streams", axes, view, plots), cells, Vec::new())
}
