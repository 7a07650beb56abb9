//! Compares two builds of the program, to detect kernels that have become slower.
//!
//! Guarantees: the two take turns, algorithm by algorithm, so that other load affects both; a cell counts as slower
//! only if it was so in two measurements, the second of which is longer; cells that cannot be compared are named.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use serde_json::Value;

/// The share by which a cell may seem slower, because no measurement is exact.
const SLACK: f64 = 0.03;

/// The number of runs of each program, over every cell and over those that seemed slower: an interval from the least
/// to the most of five contains the median with a probability of 94 %.
const ROUNDS: usize = 5;

/// The seconds per cell of a run, in either measurement.
const SECONDS: [&str; 2] = ["0.01", "0.1"];

/// Algorithm, direction, messages and bytes.
type CellKey = (String, String, u64, u64);

/// A cell's rates in MB/s, of the old program and of the new one, run by run.
type Rates = BTreeMap<CellKey, [Vec<f64>; 2]>;

/// Prints the ratios of `new` to `old` per kernel, and fails if one is slower.
pub(crate) fn run(programs: [&str; 2], names: &[&str]) -> anyhow::Result<()> {
    let all = ["all"];
    let lists = programs.map(|program| {
        measure(
            program,
            if names.is_empty() { &all } else { names },
            &["--bytes", "64", "--batch", "1"],
            "0.001",
        )
    });
    let [old, new] = lists;
    // Only algorithms of both can be compared, and the older program may refuse unknown names.
    let new = algorithms(&new?);
    let old = match old {
        Ok(rows) => algorithms(&rows),
        Err(_) if !names.is_empty() => new.clone(),
        Err(error) => return Err(error),
    };
    let (both, others): (Vec<_>, Vec<_>) = new.into_iter().partition(|name| old.contains(name));
    let (mut cells, mut slower) = (0, Vec::new());
    for name in &both {
        let rates = compare(programs, name)?;
        cells += rates.len();
        slower.extend(tell(&rates));
    }
    if !others.is_empty() {
        println!("only one of the programs has {}", others.join(", "));
    }
    println!("{cells} cells; {} slower by more than 3 %", slower.len());
    anyhow::ensure!(slower.is_empty(), "slower:\n{}", slower.join("\n"));
    Ok(())
}

/// Returns the rates of an algorithm; those of cells that seemed slower are of the second measurement.
fn compare(programs: [&str; 2], name: &str) -> anyhow::Result<Rates> {
    let all = ["--bytes", "64,352,1408", "--batch", "1,8,64,512"];
    let mut rates = alternate(programs, name, &all, SECONDS[0])?;
    let suspects: Vec<CellKey> = rates
        .iter()
        .filter(|(_, rates)| middle(rates).0 < 1.0 - SLACK)
        .map(|(place, _)| place.clone())
        .collect();
    for place in suspects {
        let (_, _, batch, bytes) = &place;
        let cell = ["--bytes", &bytes.to_string(), "--batch", &batch.to_string()];
        let again = alternate(programs, name, &cell, SECONDS[1])?;
        rates.extend(again.into_iter().filter(|(found, _)| *found == place));
    }
    Ok(rates)
}

fn algorithms(rows: &[(CellKey, f64)]) -> Vec<String> {
    let mut names: Vec<String> = rows.iter().map(|((name, ..), _)| name.clone()).collect();
    names.dedup();
    names
}

/// Runs both programs in turn; each is first in every other round.
fn alternate(programs: [&str; 2], name: &str, cells: &[&str], seconds: &str) -> anyhow::Result<Rates> {
    let mut rates = Rates::new();
    for round in 0..ROUNDS {
        for turn in [round % 2, 1 - round % 2] {
            for (place, rate) in measure(programs[turn], &[name], cells, seconds)? {
                rates.entry(place).or_default()[turn].push(rate);
            }
        }
    }
    Ok(rates)
}

/// Runs a program once.
fn measure(
    program: &str,
    names: &[&str],
    cells: &[&str],
    seconds: &str,
) -> anyhow::Result<Vec<(CellKey, f64)>> {
    let output = Command::new(program)
        .arg("speed")
        .args(names)
        .args(cells)
        .args(["--direction", "both", "--json", "--seconds", seconds])
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("{program} speed"))?;
    anyhow::ensure!(output.status.success(), "{program} speed {}: {}", names.join(","), output.status);
    let text = String::from_utf8(output.stdout)?;
    text.lines().map(|line| row(line).with_context(|| format!("{program} speed: {line}"))).collect()
}

/// Returns a line of `sealane speed --json`.
fn row(line: &str) -> anyhow::Result<(CellKey, f64)> {
    let row: Value = serde_json::from_str(line)?;
    let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let count = |key: &str| row[key].as_u64().with_context(|| format!("no {key}"));
    let rate = row["mb_per_s"].as_f64().context("no mb_per_s")?;
    Ok(((text("algorithm"), text("direction"), count("batch")?, count("bytes")?), rate))
}

/// Returns the median of the ratios of the new rates to the old ones, the least and the most.
fn middle([old, new]: &[Vec<f64>; 2]) -> (f64, f64, f64) {
    let mut ratios: Vec<f64> = new.iter().zip(old).map(|(new, old)| new / old).collect();
    ratios.sort_by(f64::total_cmp);
    let at = |at: usize| ratios.get(at).copied().unwrap_or(f64::NAN);
    (at(ratios.len() / 2), at(0), at(ratios.len().saturating_sub(1)))
}

/// Prints the cells, and returns the lines of those that are slower.
fn tell(rates: &Rates) -> Vec<String> {
    let mut slower = Vec::new();
    for ((name, direction, batch, bytes), rates) in rates {
        let (median, least, most) = middle(rates);
        let line = format!(
            "{:32} {batch:>4} x {bytes:>5}  {median:.3} ({least:.3} to {most:.3})",
            format!("{name} {direction}").trim_end()
        );
        println!("{line}");
        if most < 1.0 - SLACK {
            slower.push(line);
        }
    }
    slower
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    /// Returns a program that prints the lines of a table for each algorithm.
    fn program(folder: &Path, name: &str, lines: &str) -> String {
        let path = folder.join(name);
        fs::write(&path, format!("#!/bin/sh\ncat <<'END'\n{lines}END\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn line(rate: f64) -> String {
        format!("{{\"algorithm\":\"md5\",\"direction\":null,\"batch\":8,\"bytes\":64,\"mb_per_s\":{rate}}}\n")
    }

    #[test]
    fn what_is_slower_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let old = program(folder.path(), "old", &line(1000.0));
        let [same, slow] =
            [("same", 980.0), ("slow", 960.0)].map(|(name, rate)| program(folder.path(), name, &line(rate)));
        run([&old, &same], &[]).unwrap();
        let complaint = run([&old, &slow], &["md5"]).unwrap_err().to_string();
        assert!(complaint.contains("md5") && complaint.contains("0.960"), "{complaint}");
    }

    #[test]
    fn a_program_that_fails_is_named() {
        let complaint =
            format!("{:#}", run(["/nonexistent/sealane", "/nonexistent/sealane"], &[]).unwrap_err());
        assert!(complaint.contains("/nonexistent/sealane"), "{complaint}");
    }
}
