//! The committed records of real machines: a site is made from them as they lie there, they stand side by side, and whatever is
//! disturbed in them decides no claim.

#[path = "../../../testing/skip.rs"]
mod skip;

use sealane_lab::experiment::{ClaimResult, Found, Outcome, Profile, Shape, Verdict, find};
use sealane_lab::report::Report;
use sealane_lab::site;
use sealane_lab::times::Times;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The record of 16 processors.
const SIXTEEN: &str = "sapphire-rapids-16";
/// A record of all studies, on two processors.
const ALL: &str = "zen4-2";

/// Returns the folder of a record; `None` if nothing here expands it.
fn record(name: &str) -> Option<PathBuf> {
    if Command::new("xz").arg("--version").output().is_err() {
        skip::skip("xz is missing");
        return None;
    }
    Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results").join(name))
}

/// Returns the record's reports by the names of their files; files that are no reports are left out.
fn reports(folder: &Path) -> BTreeMap<String, Report> {
    let of = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().expect("a name");
        let name = name.strip_suffix(".json.xz")?.to_owned();
        let output = Command::new("xz").arg("-dc").arg(entry.path()).output().expect("xz runs");
        let report = Report::from_json(std::str::from_utf8(&output.stdout).expect("a text")).ok()?;
        Some((name, report))
    };
    fs::read_dir(folder).expect("the record").filter_map(|entry| of(entry.expect("an entry"))).collect()
}

/// Writes reports as a record.
fn write(folder: &Path, reports: &BTreeMap<String, Report>) {
    fs::create_dir_all(folder).expect("a folder");
    for (name, report) in reports {
        fs::write(folder.join(format!("{name}.json")), report.to_json().expect("JSON")).expect("a file");
    }
}

/// The claims of a site, with the files of their data.
fn claims(site: &Path) -> Vec<(String, ClaimResult)> {
    let text = fs::read_to_string(site.join("claims.json")).expect("the claims");
    let all: Vec<serde_json::Value> = serde_json::from_str(&text).expect("JSON");
    let claim = |value: serde_json::Value| {
        let data = value["data"].as_str().expect("a file").to_owned();
        (data, serde_json::from_value(value).expect("a claim"))
    };
    all.into_iter().map(claim).collect()
}

/// Returns the row of `machines.html` with this sentence.
fn row<'a>(page: &'a str, sentence: &str) -> Vec<&'a str> {
    let sentence = &*sentence.replace('\'', "&#39;");
    page.split("<tr").filter(|row| row.contains(sentence)).collect()
}

/// Copies a site to where `SEALANE_SHOW` says, to look at it.
fn show(site: &Path) {
    if let Some(folder) = std::env::var_os("SEALANE_SHOW") {
        let copied = Command::new("cp").arg("-rT").arg(site).arg(folder).status().expect("cp runs");
        assert!(copied.success());
    }
}

/// A site is made of the compressed files, and every claim that it decides is computed from samples of the record.
#[test]
fn a_site_is_made_of_each_committed_record() {
    // Rates of kernels are lines of their own, and no report.
    for (name, measured_min, others) in [(SIXTEEN, 10, &["speed.json.xz"][..]), (ALL, 70, &[])] {
        let Some(from) = record(name) else { return };
        let place = tempfile::tempdir().expect("a folder");
        let built = site::build(&from, &[], &place.path().join("site"), &Times::default()).expect("a site");
        assert!(built.measured > measured_min, "{built:?}");
        assert_eq!(built.skipped.len(), others.len(), "{:?}", built.skipped);
        for (skipped, other) in built.skipped.iter().zip(others) {
            assert!(skipped.contains(other) && skipped.contains("no report"), "{skipped}");
        }
        assert!(!place.path().join("site/machines.html").exists());
        assert!(claims(&place.path().join("site")).iter().any(|(_, one)| one.verdict == Verdict::Holds));
    }
}

/// Changes what one claim of a report found, by the times of one of its cells, and returns the claim's sentence.
fn turn_one_over(report: &mut Report) -> String {
    // Another report of the record has newer figures of the twelve connections.
    for outcome in report.outcomes.iter_mut().filter(|outcome| outcome.experiment.id == "packets") {
        let holds = |result: &&ClaimResult| {
            let claim = &result.claim;
            let is_of_samples = |place| {
                find(&outcome.cells, place).is_some_and(|cell| !cell.values.contains_key(&claim.metric))
            };
            result.verdict == Verdict::Holds
                && matches!(claim.shape, Shape::Ratio { .. })
                && claim.shape.places().into_iter().all(is_of_samples)
        };
        let Some(result) = outcome.claims.iter().find(holds).cloned() else { continue };
        let Shape::Ratio { numerator, low, .. } = &result.claim.shape else { continue };
        let factor = if low.is_some() { 0.1 } else { 10.0 };
        let Some(place) = find(&outcome.cells, numerator).map(|cell| cell.at.clone()) else { continue };
        let cell = outcome.cells.iter_mut().find(|cell| cell.at == place).expect("it was found");
        for sample in &mut cell.samples {
            match &mut sample.found {
                Found::Copy(copied) => copied.wall_seconds /= factor,
                Found::Values(values) => values.values_mut().for_each(|value| *value *= factor),
            }
        }
        return result.claim.statement;
    }
    panic!("no claim holds")
}

#[test]
fn records_stand_side_by_side_and_what_cannot_be_compared_is_marked() {
    let Some(from) = record(SIXTEEN) else { return };
    let place = tempfile::tempdir().expect("a folder");
    let usual = reports(&from);
    let mut other = usual.clone();
    let sentence = turn_one_over(other.get_mut("stacks").expect("its report"));
    for report in other.values_mut() {
        report.machine.cpu_model = Some("Another One".to_owned());
    }
    other.get_mut("stacks-udp").expect("its report").profile = Some(Profile::Smoke);
    other.get_mut("stacks-connections").expect("its report").machine.is_debug_build = true;
    write(&place.path().join("other"), &other);
    // A later release on the first processor.
    let mut later = usual.clone();
    later.retain(|name, _| name == "stacks");
    let report = later.get_mut("stacks").expect("its report");
    assert_eq!(turn_one_over(report), sentence);
    report.machine.version = "9.9.9".to_owned();
    report.created = "2031-01-01T00:00:00Z".to_owned();
    write(&place.path().join("later"), &later);
    let site = place.path().join("site");
    let add = ["other", "later"].map(|name| place.path().join(name));
    site::build(&from, &add, &site, &Times::default()).expect("a site");
    show(&site);
    let page = fs::read_to_string(site.join("machines.html")).expect("the page");
    let (differ, all) = page.split_once("All claims of several records").expect("two parts");
    for part in [differ, all] {
        let rows = row(part, &sentence);
        assert_eq!(rows.len(), 1, "{sentence}");
        assert!(rows[0].contains(">holds<") && rows[0].contains(">does not hold<"), "{}", rows[0]);
        assert!(rows[0].contains("on the same processor: “holds” with 0.1.0"), "{}", rows[0]);
        assert!(rows[0].contains("then “does not hold” with 9.9.9"), "{}", rows[0]);
    }
    assert!(page.contains("Another One") && page.contains("of these alike"), "no summary");
    let marked = |words: &str| row(all, &format!("not comparable: {words}")).len();
    assert!(marked("built without optimisation") > 0 && marked("the profile smoke") > 0);
    // Rows that may not be compared are not among those that differ.
    assert_eq!(row(differ, "not comparable").len(), 0);
    // Each record's data are files of the site, and each verdict names its own.
    for (data, _) in claims(&site) {
        assert!(site.join(&data).exists(), "{data}");
    }
    for name in ["data/stacks.json", "data/other-stacks.json", "data/later-stacks.json"] {
        assert!(claims(&site).iter().any(|(data, _)| data == name), "{name}");
    }
    let index = fs::read_to_string(site.join("index.html")).expect("the index");
    assert!(index.contains("3 records side by side"));
}

/// The same sentence about another number of lanes is shown beside ours, and not compared.
#[test]
fn sentences_with_other_numbers_are_not_compared() {
    let Some(from) = record(SIXTEEN) else { return };
    let place = tempfile::tempdir().expect("a folder");
    let mut other = reports(&from);
    other.retain(|name, _| name == "stacks");
    let outcome = &mut other.get_mut("stacks").expect("its report").outcomes[0];
    let [result, ..] = &mut outcome.claims[..] else { panic!("no claim") };
    let sentence = result.claim.statement.clone();
    assert!(sentence.contains(|character: char| character.is_ascii_digit()), "{sentence}");
    let digit = sentence.chars().find(char::is_ascii_digit).expect("it was seen");
    result.claim.statement = sentence.replacen(digit, "77", 1);
    write(&place.path().join("other"), &other);
    let site = place.path().join("site");
    site::build(&from, &[place.path().join("other")], &site, &Times::default()).expect("a site");
    let page = fs::read_to_string(site.join("machines.html")).expect("the page");
    let rows = row(&page, &sentence);
    assert_eq!(rows.len(), 1, "{sentence}");
    assert!(rows[0].contains("not comparable: the sentence has other numbers"), "{}", rows[0]);
}

/// On a machine that was never quiet no claim is decided, whatever its study: neither what holds nor what does not.
#[test]
fn a_record_of_a_busy_machine_decides_nothing() {
    let Some(from) = record(SIXTEEN) else { return };
    let place = tempfile::tempdir().expect("a folder");
    let mut busy = reports(&from);
    let outcomes = |reports: &mut BTreeMap<String, Report>, with: &mut dyn FnMut(&mut Outcome)| {
        reports.values_mut().flat_map(|report| &mut report.outcomes).for_each(with);
    };
    outcomes(&mut busy, &mut |outcome| {
        for cell in &mut outcome.cells {
            cell.samples.iter_mut().for_each(|sample| sample.is_disturbed = true);
            cell.behind.disturbed = cell.behind.taken;
        }
    });
    write(&place.path().join("busy"), &busy);
    let decided = |from: &Path, name: &str| {
        let site = place.path().join(name);
        site::build(from, &[], &site, &Times::default()).expect("a site");
        let claims = claims(&site).into_iter().map(|(_, one)| one);
        claims.filter(|one| matches!(one.verdict, Verdict::Holds | Verdict::DoesNotHold)).collect::<Vec<_>>()
    };
    let (quiet, busy) = (decided(&from, "quiet"), decided(&place.path().join("busy"), "of-the-busy"));
    assert!(quiet.len() > 20, "{}", quiet.len());
    assert!(busy.is_empty(), "{busy:#?}");
}
