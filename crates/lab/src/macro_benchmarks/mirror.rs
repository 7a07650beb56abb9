//! A mirror of a site by wget (R20, figure 15): 728 files of 21,882,048 bytes in all, in clear, by HTTPS, and through
//! tunnels.
//!
//! Guarantees: the tree has exactly the study's number of files and bytes, or a stated part of both; every copy of the
//! tree is compared with it.

use super::{Bench, SECONDS, Turn, at_most, copy, measures, sample};
use crate::LabError;
use crate::experiment::{Cell, Claim, Drawn, Experiment, Outcome, Plot, View, at};
use crate::peers::{WGET_HTTP, WGET_HTTPS, Workload};
use crate::rng::Rng;
use crate::tunnel::Topology;
use crate::tunnel::net::{Ground, Links};
use crate::tunnel::{CLEAR, NATIVE};
use std::fs;
use std::path::Path;

/// The study's files and bytes.
const FILES: usize = 728;
const BYTES: usize = 21_882_048;
/// Files in a folder.
const FOLDER_FILES: usize = 40;

const AXES: [&str; 3] = ["service", "between", "suite"];

/// Returns the lengths of `files` files of `bytes` bytes in all: most are short, some are long, as pages and archives.
fn lengths(files: usize, bytes: usize) -> Vec<usize> {
    // The n-th longest file is 1/n as long as the longest.
    let harmonic: f64 = (1..=files).map(|rank| 1.0 / rank as f64).sum();
    let mut lengths: Vec<usize> =
        (1..=files).map(|rank| (bytes as f64 / harmonic / rank as f64) as usize).collect();
    let rest = bytes - lengths.iter().sum::<usize>();
    if let Some(longest) = lengths.first_mut() {
        *longest += rest;
    }
    lengths
}

/// Writes `files` files of `bytes` bytes in all, in folders of about [`FOLDER_FILES`].
fn write_tree(root: &Path, files: usize, bytes: usize, seed: u64) -> Result<(), LabError> {
    let mut rng = Rng::new(seed);
    for (index, length) in lengths(files, bytes).into_iter().enumerate() {
        let folder = root.join(format!("part{:02}", index % files.div_ceil(FOLDER_FILES)));
        fs::create_dir_all(&folder).map_err(LabError::file("cannot create", &folder))?;
        let mut content = vec![0; length];
        rng.fill(&mut content);
        // No file is a page with links, so that wget follows those of the server's lists alone.
        let path = folder.join(format!("file{index:03}.bin"));
        fs::write(&path, content).map_err(LabError::file("cannot write", path))?;
    }
    Ok(())
}

/// Measures the mirror.
pub(super) fn outcomes(bench: &mut Bench<'_>) -> Result<Vec<Outcome>, LabError> {
    let part = bench.sized(26, 1, 1);
    let (files, bytes) = (FILES / part, BYTES / part);
    let root = Bench::served(&bench.memory, "site")?;
    write_tree(&root, files, bytes, bench.request.seed)?;
    let workload = &Workload::new(&root, &bench.memory.path().join("mirror"))?;
    let ground = Ground { topology: Topology::HostHost, links: Links::Gigabit, is_confined: false };
    let connections = bench.few_connections();
    let nets = bench.nets(ground, connections);
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for (connection, net, sshd) in &nets {
        let [between, suite] = connection.name;
        let services = [&WGET_HTTP, &WGET_HTTPS];
        let services = &services[..if between == CLEAR.0 { 2 } else { 1 }];
        for tool in services {
            let Some(mut installed) = bench.installed(tool, net, sshd) else { continue };
            let place = at(AXES.into_iter().zip([tool.name, between, suite]));
            let turn = move || {
                let taken = sample(Some(net), || copy(&mut installed, workload))?;
                workload.verify()?;
                Ok(taken)
            };
            turns.push((place, Box::new(turn)));
        }
    }
    let cells = bench.take_turns("mirror", turns)?;
    let https = at(AXES.into_iter().zip([WGET_HTTPS.name, CLEAR.0, CLEAR.1]));
    let claim = |cell: &Cell| -> Claim {
        let statement =
            format!("{}: the mirror through IPsec takes no longer than by HTTPS.", cell.at["suite"]);
        at_most("R20", statement, SECONDS, [cell.at.clone(), https.clone()], 1.0)
    };
    let claims = cells.iter().filter(|cell| cell.at["between"] == NATIVE).map(claim).collect();
    let title = format!("A mirror of {files} files, {bytes} bytes, by wget, links of 1 Gb/s");
    let notes = [
        "The paper's figure 15 is lost; its text has the files and bytes. Lists of the folders, by which wget finds the files, \
         are fetched besides.",
    ];
    let plots =
        vec![Plot::new(Drawn::Bars, "suite", SECONDS, &["service", "between"]).titled("Elapsed time")];
    let experiment = Experiment::new("mirror", "R20", &title, &AXES, measures());
    Ok(bench.outcome(experiment.notes(&notes).shown(View::Cells, plots), cells, claims).into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_has_the_studys_files_and_bytes() {
        let lengths = lengths(FILES, BYTES);
        assert_eq!((lengths.len(), lengths.iter().sum::<usize>()), (728, 21_882_048));
        assert!(lengths.iter().all(|&length| length > 0));
        let folder = tempfile::tempdir().unwrap();
        write_tree(folder.path(), 45, 100_000, 1).unwrap();
        let workload = Workload::new(folder.path(), folder.path()).unwrap();
        assert_eq!((workload.files(), workload.bytes()), (45, 100_000));
    }
}
