//! Tests whole reports: a fixed report renders to a fixed text, reads back equal, and its page is safe and complete.

mod sample;

use sealane_lab::report::{Report, to_html, to_text};

/// Compares with the file beside this test; run with `SEALANE_BLESS=1` to accept an intended change.
fn golden(name: &str, found: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
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
    assert!(html.contains("<td class=\"n\">196"));
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
