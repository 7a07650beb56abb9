//! Tests whole runs of the lab with stand-ins for the product: reported figures, detected failures, and remaining
//! files.

use sealane_lab::experiment::{Profile, Role, Verdict};
use sealane_lab::program::End;
use sealane_lab::report::{Files, Report, outcomes_text};
use sealane_lab::request::{Copies, Request};
use sealane_lab::site;
use sealane_lab::studies::{self, Family, listed};
use sealane_lab::times::Times;
use std::path::{Path, PathBuf};

fn fake(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake").join(name)
}

struct Directories {
    work: tempfile::TempDir,
    report: tempfile::TempDir,
}

fn directories() -> Directories {
    Directories { work: tempfile::tempdir().unwrap(), report: tempfile::tempdir().unwrap() }
}

fn copies(places: &Directories) -> Copies {
    Copies {
        peers: false,
        file_bytes_max: Some(1 << 20),
        tree: Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")),
        tree_bytes_max: 1 << 20,
        ends: vec![End::Send],
        work_directory: Some(places.work.path().to_owned()),
        ..Copies::default()
    }
}

fn quick_run(program: &str, places: &Directories) -> (Report, String) {
    let request =
        Request { program: Some(fake(program)), seed: 1, copies: copies(places), ..Request::default() };
    let mut progress = Vec::new();
    let written = Files::prepare(places.report.path(), "report").unwrap();
    let report = (Family::of("lab quick").run)(&request, &mut progress).unwrap();
    report.write(&written).unwrap();
    let read = Report::from_json(&std::fs::read_to_string(&written.json).unwrap()).unwrap();
    assert!(read == report, "the file holds another report");
    assert!(std::fs::read_to_string(&written.html).unwrap().contains("What protection costs"));
    assert_eq!(std::fs::read_dir(places.work.path()).unwrap().count(), 0, "something was left behind");
    (report, String::from_utf8(progress).unwrap())
}

#[test]
fn quick_copies_compares_kills_and_resumes() {
    let places = directories();
    let (report, progress) = quick_run("sealane", &places);
    assert!(report.is_sound(), "{:#?}", report.checks);
    // The checks are four levels of a file, four of a tree, and one kill.
    assert_eq!(report.checks.len(), 9);
    let resumed = report.checks.iter().find(|check| check.what.contains("SIGKILL")).unwrap();
    assert!(resumed.found.starts_with("512 KiB of 1.00 MiB were kept"), "{}", resumed.found);
    assert_eq!(report.outcomes.len(), 2);
    for outcome in &report.outcomes {
        assert_eq!(outcome.cells.len(), 4);
        assert!(outcome.cells.iter().all(|cell| cell.samples.len() == 3 && cell.failure.is_none()));
    }
    assert!(report.tiles.iter().any(|tile| tile.label == "Kept after a kill" && tile.value == "50.0"));
    assert!(progress.contains("sealane cp --level private"));
}

#[test]
fn quick_notices_a_changed_byte() {
    let places = directories();
    let (report, _) = quick_run("corrupting", &places);
    assert!(!report.is_sound());
    let file = report.checks.iter().find(|check| check.what == "sealane cp --level private").unwrap();
    assert!(file.found.contains("1048575"), "{}", file.found);
    assert!(report.outcomes[0].cells.iter().all(|cell| cell.samples.is_empty()));
}

#[test]
fn quick_notices_a_lowered_level() {
    let places = directories();
    let (report, _) = quick_run("lowering", &places);
    assert!(!report.is_sound());
    let of = |level: &str| {
        let cells = &report.outcomes[0].cells;
        cells.iter().find(|cell| cell.at["level"] == level).unwrap().failure.clone()
    };
    assert_eq!(of("clear"), None);
    assert!(of("private").unwrap().contains("level private was asked for, clear was in force"));
}

#[test]
fn quick_reports_a_product_that_does_not_work() {
    let places = directories();
    let (report, _) = quick_run("crashing", &places);
    assert!(!report.is_sound());
    assert!(report.checks.iter().all(|check| check.found.contains("on fire")), "{:#?}", report.checks);
}

#[test]
fn the_study_runs_every_cell_and_decides_its_claims() {
    let places = directories();
    let request = Request {
        program: Some(fake("sealane")),
        only: ["g11", "providers"].map(str::to_owned).to_vec(),
        seed: 2,
        copies: copies(&places),
        ..Request::default()
    };
    let mut progress = Vec::new();
    let report = (Family::of("lab transfer").run)(&request, &mut progress).unwrap();
    let grid = &report.outcomes[0];
    let own: Vec<_> = grid.cells.iter().filter(|cell| cell.role == Role::Own).collect();
    assert_eq!((own.len(), grid.cells.len()), (30, 30 + 3 * 16));
    assert!(own.iter().all(|cell| cell.samples.len() == 5), "{:#?}", grid.skipped);
    assert!(grid.claims.iter().all(|claim| claim.verdict != Verdict::NotMeasured));
    let kernels = &report.outcomes[1];
    assert_eq!(kernels.cells.len(), 16);
    assert!(kernels.claims.iter().all(|claim| claim.verdict != Verdict::NotMeasured));
    assert_eq!(std::fs::read_dir(places.work.path()).unwrap().count(), 0);
    assert!(String::from_utf8(progress).unwrap().contains("round 5 of 5"));
}

/// Studies without a claim: figures of this machine alone, beside no paper.
const WITHOUT_CLAIMS: &[&str] = &["quick", "public-key", "kernels"];

/// The paper's figures stand beside ours, and claims are about cells that were measured.
fn check_stacks(report: &Report) {
    let text = outcomes_text(report, None);
    for words in ["the paper", "near linear", "paper: µs", "times separate", "layer: des | tcp+md5+ip+fddi"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    for claim in report.outcomes.iter().flat_map(|outcome| &outcome.claims) {
        // In the profile smoke a cell's cost may be less than that of the cell that is taken from it.
        let is_open =
            ["cannot give a 90 % interval", "is not positive"].iter().any(|why| claim.note.contains(why))
                || claim.claim.metric == "jain";
        assert!(is_open || claim.estimate.is_some(), "{}: {}", claim.claim.statement, claim.note);
    }
}

/// Every study that needs neither root nor an installed program runs in the profile smoke. The site of their reports has
/// a page with a table, and with claims, for each.
#[test]
fn every_study_delivers_its_tables_and_claims() {
    let places = directories();
    let request = Request {
        program: Some(fake("sealane")),
        profile: Profile::Smoke,
        lanes: vec![1, 2],
        seed: 3,
        copies: copies(&places),
        ..Request::default()
    };
    // Tunnels and cards are run by their own tests, and `tools` and `sftp` by a test of the program; the others need
    // installed programs, or links.
    let elsewhere = |id: &str, command: &str| {
        let commands = ["lab run tunnel", "lab run macro", "lab run cards"];
        let ids = [
            "links", "streams", "sftp", "tools", "repeat", "delta", "compress", "G17", "G18", "G19", "G20",
            "B21",
        ];
        commands.iter().any(|own| command.starts_with(own)) && id != "A10" || ids.contains(&id)
    };
    let listed = listed();
    let ids: Vec<&str> =
        listed.iter().filter(|one| !elsewhere(one.id, &one.command)).map(|one| one.id).collect();
    for run in studies::runs(&ids, &request) {
        let report = (run.family.run)(&run.request, &mut std::io::sink()).unwrap();
        if run.family.command == "lab stacks" {
            check_stacks(&report);
        }
        let written = Files::prepare(places.report.path(), &run.name).unwrap();
        report.write(&written).unwrap();
    }
    let site = places.work.path().join("site");
    let built = site::build(places.report.path(), &[], &site, &Times::default()).unwrap();
    assert!(built.skipped.is_empty(), "{built:?}");
    for id in &ids {
        assert!(!built.missing.contains(id), "{id} has no table");
    }
    let claims = std::fs::read_to_string(site.join("claims.json")).unwrap();
    let without: Vec<&&str> =
        ids.iter().filter(|id| !claims.contains(&format!("\"study\": \"{id}\""))).collect();
    assert_eq!(without, WITHOUT_CLAIMS.iter().collect::<Vec<_>>());
}
