//! `sealane lab tunnel` between namespaces: connections that the lab itself makes carry traffic, and what they cannot
//! carry is left out.

#[path = "../../cli/tests/program/mod.rs"]
mod program;

use program::{Ends, sealane, skip, text, unless};
use serde_json::Value;
use std::process::Command;

/// Returns the reason why such a lab cannot run here.
fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("namespaces and TUN devices take root".to_owned());
    }
    let is_missing = |program: &&str| {
        let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
        !found.is_ok_and(|found| found.status.success())
    };
    let absent = ["ip", "iperf3", "ping", "timeout", "ethtool"].into_iter().find(is_missing);
    absent.map(|program| format!("{program} is missing"))
}

/// Runs a test through connections between two hosts. Returns the connections with a rate above zero.
fn carrying(test: &str, between: &str) -> Vec<String> {
    let output = sealane(&["lab", "tunnel", "--topology", "host-host", "--only", test, "--between", between])
        .args(["--rounds", "1", "--seconds", "1", "--json"])
        .ends(0);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let outcomes = report["outcomes"].as_array().expect("tables");
    let rates = outcomes.iter().filter(|outcome| outcome["experiment"]["id"] == "throughput");
    let cells = rates.flat_map(|outcome| outcome["cells"].as_array().expect("cells"));
    let carry = cells.filter(|cell| cell["samples"][0]["gbit_per_s"].as_f64().is_some_and(|rate| rate > 0.0));
    let mut names: Vec<String> =
        carry.filter_map(|cell| cell["at"]["between"].as_str().map(str::to_owned)).collect();
    names.sort_unstable();
    assert!(!names.is_empty(), "{}", text(&output.stderr));
    names
}

#[test]
fn own_arrangements_of_tunnels_carry() {
    let Some(()) = unless(missing()) else { return };
    let names = carrying("tcp1", "null-gso,sealane-4-children,sealane-direct");
    assert_eq!(names, ["null-gso", "sealane-4-children", "sealane-direct"]);
    // GSO packets as they are do not pass a link that splits GSO packets.
    assert_eq!(carrying("tcp1-no-segmentation", "null-gso,sealane-esp"), ["sealane-esp"]);
}
/// The lab's macro benchmarks in their shortest form: each part that has its programs here has its table.
#[test]
fn the_macro_benchmarks_have_a_table_for_each_part() {
    let Some(()) = unless(missing()) else { return };
    let tables = [
        ("nginx", &["http-gigabit-memory", "tiny"][..]),
        ("sshd", &["ftp-gigabit-memory"]),
        ("wget", &["mirror"]),
        ("primes", &["sieve"]),
        ("sshfs", &["build"]),
    ];
    let output = sealane(&["lab", "macro", "--profile", "smoke", "--json"]).ends(0);
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    let outcomes = report["outcomes"].as_array().expect("outcomes");
    let skipped = report["skipped"].to_string();
    let find = |id: &&str| outcomes.iter().find(|outcome| outcome["experiment"]["id"] == **id);
    for (program, ids) in tables {
        for id in ids {
            let Some(outcome) = find(id) else {
                assert!(skipped.contains(&format!("`{program}`")), "no {id}: {skipped}");
                skip(format!("{id}: no {program}"));
                continue;
            };
            let cells = outcome["cells"].as_array().expect("cells");
            assert!(cells.len() > 1, "{outcome}");
            assert!(cells.iter().all(|cell| cell["failure"].is_null()), "{outcome}");
            // The sentences about ftp are about suites that the shortest form does not have.
            let has_claims = !outcome["claims"].as_array().expect("claims").is_empty();
            assert!(has_claims || id.starts_with("ftp"), "{id}");
        }
    }
}
