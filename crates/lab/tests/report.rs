//! Tests whole reports: a fixed report renders to a fixed text, reads back equal, and its page is safe and complete.

mod sample;
#[path = "../../../testing/skip.rs"]
mod skip;

use sealane_lab::report::{Report, to_html, to_text};
use sealane_lab::site;
use sealane_lab::times::Times;
use std::path::Path;
use std::process::Command;

/// Compares with the file beside this test; run with `SEALANE_BLESS=1` to accept an intended change.
fn golden(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("SEALANE_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, found).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(wanted == found, "{name} differs; SEALANE_BLESS=1 accepts:\n{found}");
}

#[test]
fn the_terminal_tables_are_as_agreed() {
    golden("report.txt", &to_text(&sample::report(), Some(120)));
}

#[test]
fn the_json_reads_back_equal() {
    let report = sample::report();
    let json = report.to_json().unwrap();
    assert!(Report::from_json(&json).unwrap() == report, "the report changed on its way through JSON");
    let older = json.replacen("\"format\": 2", "\"format\": 99", 1);
    assert!(Report::from_json(&older).is_err());
    assert!(Report::from_json("{}").is_err());
}

/// To look at the page, run `SEALANE_SHOW=FILE cargo test`.
#[test]
fn the_page_carries_everything_and_loads_nothing() {
    let report = sample::report();
    let html = to_html(&report).unwrap();
    if let Some(path) = std::env::var_os("SEALANE_SHOW") {
        std::fs::write(path, &html).unwrap();
    }
    let without_licence_links =
        html.replace("http://www.w3.org", "").replace("https://github.com/leeoniya/uPlot", "");
    for loading in ["src=", "@import", "url(http", "<link", "fetch(", "XMLHttpRequest", "https://"] {
        assert!(!without_licence_links.contains(loading), "{loading}");
    }
    for outcome in &report.outcomes {
        assert!(html.contains(&outcome.experiment.title));
        for claim in &outcome.claims {
            assert!(html.contains(claim.verdict.words()));
        }
    }
    // The study's Opteron row, and one of ours, appear in a table and not only in a drawing.
    assert!(html.contains("class=\"n\">196"));
    assert!(html.contains("This machine, legacy suites, sender measured"));
}

#[test]
fn no_text_becomes_markup() {
    const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=alert(1)>";
    let mut report = sample::report();
    report.title = HOSTILE.to_owned();
    report.machine.cpu_model = Some(HOSTILE.to_owned());
    report.skipped = vec![HOSTILE.to_owned()];
    for outcome in &mut report.outcomes {
        outcome.experiment.title = HOSTILE.to_owned();
        outcome.experiment.workload = HOSTILE.to_owned();
        for cell in &mut outcome.cells {
            cell.failure = Some(HOSTILE.to_owned());
        }
    }
    let html = to_html(&report).unwrap();
    assert!(!html.contains("<img"));
    assert!(!html.contains("<script>alert"));
    assert_eq!(html.matches("</script>").count(), 4);
    // The data element still contains the same report.
    let start = html.find("id=\"report\">").unwrap() + "id=\"report\">".len();
    let end = start + html[start..].find("</script>").unwrap();
    assert!(Report::from_json(&html[start..end]).unwrap() == report);
}

/// Builds a site of a report; returns its folder, which goes with the first value.
fn site_of(report: &Report) -> (tempfile::TempDir, std::path::PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    std::fs::create_dir(&from).unwrap();
    std::fs::write(from.join("sealane-sample.json"), report.to_json().unwrap()).unwrap();
    site::build(&from, &[], &to, &Times::default()).unwrap();
    (place, to)
}

#[test]
fn the_site_has_a_page_for_each_study_and_loads_nothing() {
    let (_place, site) = site_of(&sample::report());
    let read = |name: &str| std::fs::read_to_string(site.join(name)).unwrap();
    let index = read("index.html");
    for study in sealane_lab::studies::listed() {
        let page = read(&format!("{}.html", study.id.to_lowercase()));
        for loading in ["src=", "@import", "url(http", "<link", "fetch(", "XMLHttpRequest"] {
            assert!(!page.contains(loading), "{}: {loading}", study.id);
        }
        let command = format!("sealane lab run {}", study.id);
        assert!(page.contains(&command) && index.contains(&format!(">{}</a>", study.id)), "{}", study.id);
        let has_result = ["G11", "G12", "G13"].contains(&study.id);
        assert_eq!(page.contains("There is no result yet"), !has_result, "{}", study.id);
        // The command stands beside every study; those without a result come after all results.
        let (results, missing) = index.split_once("<section id=\"missing\">").unwrap();
        assert_eq!(results.contains(&command), has_result, "{}", study.id);
        assert_eq!(missing.contains(&command), !has_result, "{}", study.id);
        assert!(page.contains(study.needs), "{}", study.id);
    }
    // The failed claim is on the index, with its study.
    let (_, failed) = index.split_once("id=\"failed\"").unwrap();
    let (failed, _) = failed.split_once("</section>").unwrap();
    assert!(failed.contains("more than twice is expected") && failed.contains("g11.html"), "{failed}");
    // A row without a study has its reason, and the paper's figures stand beside ours.
    assert!(index.contains("no Opteron had hyper-threading"));
    let page = read("g13.html");
    assert!(page.contains("As published") && page.contains("data/sealane-sample.json"));
    assert!(read("glossary.html").contains("token bucket"));
}

/// A figure, a claim and a study that stand on disturbed runs are marked on every page that shows them, and no others.
#[test]
fn what_stands_on_disturbed_runs_is_marked() {
    let pages = |report: &Report| {
        let (_place, site) = site_of(report);
        ["index.html", "g13.html"].map(|name| std::fs::read_to_string(site.join(name)).unwrap())
    };
    const WORDS: [&str; 3] = ["the machine was busy", "on disturbed runs", "†"];
    let body = |page: &str| page.split_once("<body").unwrap().1.to_owned();
    for page in pages(&sample::report()) {
        assert!(WORDS.iter().all(|words| !body(&page).contains(words)));
    }
    let busy = sample::busy_report();
    for page in pages(&busy) {
        assert!(WORDS.iter().all(|words| body(&page).contains(words)), "{page}");
    }
    let [index, study] = pages(&busy);
    assert!(index.contains("1 claim could not be decided because the machine was busy"));
    assert!(index.contains("<small>2 of 87 cells † on disturbed runs</small>"), "{index}");
    assert!(study.contains("<sup title=\"on disturbed runs\">†</sup>"));
    assert!(to_text(&busy, Some(120)).contains("† Other work disturbed more than a third"));
}

#[test]
fn the_sites_claims_can_be_computed_again() {
    let (_place, site) = site_of(&sample::busy_report());
    let recompute = |count: &str| {
        let script = Path::new("recompute.py");
        Command::new("python3").current_dir(&site).arg(script).args([".", count, "7"]).output()
    };
    let Ok(output) = recompute("1000") else { return skip::skip("no python3") };
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    for (verdict, count) in [("by-construction", 1), ("machine-busy", 1), ("does-not-hold", 3)] {
        assert_eq!(told.matches(&format!(", {verdict}: as on the site")).count(), count, "{told}");
    }
    // A site that lies is found out.
    let claims = std::fs::read_to_string(site.join("claims.json")).unwrap();
    std::fs::write(site.join("claims.json"), claims.replace("\"estimate\": 1", "\"estimate\": 7")).unwrap();
    let output = recompute("1000").unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stdout).contains("DIFFERS: the site has 7"));
}
