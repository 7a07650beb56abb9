//! The lab's reports: the program checks that a report can be written before anything is measured, and a report that
//! is lost does not lose the measurements.

#[path = "../../cli/tests/program/mod.rs"]
mod program;
#[path = "../../../testing/sshd.rs"]
mod sshd;

use program::{Ends, or_skip, sealane, text};
use serde_json::Value;
use sshd::PrivateSshd;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Output;
use std::thread;

/// Every command that writes a report.
const STUDIES: &[&[&str]] = &[
    &["lab", "quick", "--no-peers", "--size", "1M"],
    &["lab", "transfer", "--no-peers", "--size", "1M", "--only", "providers"],
    &["lab", "stacks", "--only", "N30"],
    &["lab", "predict", "--stack", "tcp/md5/ip/fddi"],
    &["lab", "network-processor"],
    &["lab", "network-processor", "--machine", "IXP1200", "-a", "md5"],
    &["lab", "network-processor", "--compilers"],
    &["lab", "tunnel", "--seconds", "1", "--rounds", "1"],
    &["lab", "macro", "--profile", "smoke"],
    &["lab", "cards", "--profile", "smoke"],
    &["speed", "--seconds", "0.01", "-a", "null"],
    &["speed", "--story", "--only", "tables"],
];

/// Commands that take less than a second, and write a page.
const SHORT: &[&[&str]] = &[
    &["lab", "network-processor", "--machine", "IXP1200", "-a", "md5"],
    &["speed", "--seconds", "0.01", "-a", "null"],
    &["speed", "--story", "--only", "tables"],
];

fn run(study: &[&str], report: &Path) -> Output {
    let mut command = sealane(study);
    command.arg("--report").arg(report).output().expect("the program starts")
}

#[test]
fn nothing_is_measured_where_the_report_cannot_be_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "no folder").expect("a file");
    for study in STUDIES {
        let output = run(study, &file.join("report"));
        let (told, complaint) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(5), "{study:?}: {complaint}");
        // There is one line, and no progress before it.
        assert!(told.is_empty(), "{study:?} has measured: {told}");
        assert_eq!(complaint.lines().count(), 1, "{study:?}: {complaint}");
        assert!(complaint.contains("the report"), "{study:?}: {complaint}");
    }
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "something was left behind");
}

#[test]
fn missing_folders_are_made() {
    let folder = tempfile::tempdir().expect("a folder");
    for (number, study) in SHORT.iter().enumerate() {
        let page = folder.path().join(number.to_string()).join("a/b/page.html");
        let output = run(study, &page);
        assert_eq!(output.status.code(), Some(0), "{study:?}: {}", text(&output.stderr));
        assert!(fs::read_to_string(&page).is_ok_and(|page| page.contains("</html>")), "{study:?}");
    }
}

/// A full disk is noticed only when the report is written.
#[test]
fn tables_are_printed_though_the_report_is_lost() {
    for study in SHORT {
        let output = run(study, Path::new("/dev/full"));
        assert_eq!(output.status.code(), Some(5), "{study:?}: {}", text(&output.stderr));
        assert!(text(&output.stdout).lines().count() > 2, "{study:?}: {}", text(&output.stdout));
    }
    let folder = tempfile::tempdir().expect("a folder");
    symlink("/dev/full", folder.path().join("sealane-report.html")).expect("a link");
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let quick = ["lab", "quick", "--no-peers", "--size", "1M", "--tree", tree.to_str().expect("UTF-8")];
    let output = run(&quick, folder.path()).complains(5, &["sealane-report.html"]);
    assert!(text(&output.stdout).contains("What protection costs on this machine"));
}

/// A reader such as `head` leaves before everything is printed, here before the program starts.
#[test]
fn reports_are_written_though_the_reader_has_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let unread = |study: &[&str], report: &Path| {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = sealane(study);
        command.arg("--report").arg(report).stdout(writer).ends(0);
    };
    let stacks = &["lab", "stacks", "--only", "N30", "--profile", "smoke", "--json"][..];
    let in_json = [SHORT[0], SHORT[1]].map(|study| [study, &["--json"]].concat());
    let studies = [stacks].into_iter().chain(in_json.iter().map(Vec::as_slice)).chain(SHORT.iter().copied());
    for (number, study) in studies.enumerate() {
        let page = folder.path().join(format!("{number}.html"));
        unread(study, &page);
        assert!(fs::read_to_string(&page).is_ok_and(|page| page.contains("</html>")), "{study:?}");
    }
    // The second command's report is written although the first one's tables could not be printed.
    let results = folder.path().join("results");
    unread(&["lab", "run", "B8", "N30", "--profile", "smoke", "--json"], &results);
    for name in ["sealane-speed-story.json", "sealane-stacks.json"] {
        let page = results.join(name).with_extension("html");
        assert!(results.join(name).exists() && page.exists(), "{name}");
    }
}

/// The site of a study that ran, and of nothing.
#[test]
fn a_site_is_made_of_stored_results() {
    let folder = tempfile::tempdir().expect("a folder");
    let [results, site] = ["results", "site"].map(|name| folder.path().join(name));
    let build =
        || sealane(&["lab", "site"]).arg(&site).arg("--from").arg(&results).output().expect("it starts");
    fs::create_dir(&results).expect("a folder");
    build().complains(5, &["sealane lab run all --report"]);
    let output = sealane(&["lab", "run", "B8", "--profile", "smoke", "--report"]).arg(&results).output();
    output.expect("it starts").complains(0, &["sealane lab site DIR --from"]);
    let output = build().ends(0);
    assert!(text(&output.stdout).contains("index.html: 2 studies with results"), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("no result yet: `sealane lab run N20"), "{}", text(&output.stderr));
    let page = fs::read_to_string(site.join("b8.html")).expect("a page");
    assert!(page.contains("Table bytes") && page.contains("data/sealane-speed-story.json"));
}

/// Copies beside installed programs, and to hosts with sshd alone: the parts of the study of copies that the lab's own
/// tests leave out, because they need the real program and sshd. Both mostly wait for logins, so they run side by side.
#[test]
fn copies_are_measured_beside_installed_programs() {
    let Some(_) = or_skip(PrivateSshd::start()) else { return };
    let run = |part: &str| {
        let study = ["lab", "transfer", "--profile", "smoke", "--size", "64K", "--only", part];
        sealane(&study).args(["--seed", "1", "--json", "--no-report"]).output().expect("it starts")
    };
    let outputs = thread::scope(|scope| {
        let sftp = scope.spawn(|| run("sftp"));
        [run("tools"), sftp.join().expect("no panic")]
    });
    let outcomes: Vec<Value> = outputs
        .iter()
        .flat_map(|output| {
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
            let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            report["outcomes"].as_array().expect("outcomes").clone()
        })
        .collect();
    let measured = |id: &str, tool: &str| {
        let of_id = outcomes.iter().filter(|outcome| outcome["experiment"]["id"] == id);
        let mut cells = of_id.flat_map(|outcome| outcome["cells"].as_array().expect("cells"));
        cells.any(|cell| cell["at"]["tool"] == tool && !cell["samples"].as_array().expect("runs").is_empty())
    };
    for (id, tools) in [
        ("file", &["sealane cp", "scp", "rsync-ssh"][..]),
        ("sftp-file", &["sealane cp, SFTP", "sealane cp, SFTP, pull", "scp"]),
        ("sftp-tree", &["sealane cp, SFTP", "scp"]),
    ] {
        for tool in tools {
            assert!(measured(id, tool), "{id} has no run of {tool}: {}", text(&outputs[1].stderr));
        }
    }
}
