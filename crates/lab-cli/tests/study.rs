//! Tests of `sealane lab fleet`: a study that hosts share gives the cells of one that a host takes alone.

#[path = "../../cli/tests/hosts/mod.rs"]
#[allow(dead_code)]
mod hosts;
#[path = "../../cli/tests/program/mod.rs"]
mod program;
#[path = "../../../testing/sshd.rs"]
mod sshd;
#[path = "../../cli/tests/support/mod.rs"]
mod support;

use hosts::Scene;
use program::{events, sealane};
use std::collections::BTreeSet;

/// The cells of a report's experiments, each with the number of its samples, and the hosts that took them.
fn sampled(report: &serde_json::Value) -> (Vec<(String, String, usize)>, BTreeSet<String>) {
    let (mut cells, mut hosts) = (Vec::new(), BTreeSet::new());
    for outcome in report["outcomes"].as_array().expect("outcomes") {
        for cell in outcome["cells"].as_array().expect("cells") {
            let samples = cell["samples"].as_array().expect("samples");
            let id = outcome["experiment"]["id"].to_string();
            cells.push((id, cell["at"].to_string(), samples.len()));
            hosts.extend(samples.iter().filter_map(|sample| Some(sample["host"].as_str()?.to_owned())));
        }
    }
    (cells, hosts)
}

#[test]
fn a_study_is_shared_between_hosts() {
    let Some(scene) = Scene::set() else { return };
    let study = ["lab", "fleet", "run", "N36", "--profile", "smoke", "--seed", "5", "--json"];
    let run = |more: &[&str]| {
        let mut command = sealane(&[&study, more].concat());
        command.env("XDG_STATE_HOME", scene.at("state"));
        let output = command.output().expect("the program starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{said}");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a report");
        (report, said)
    };
    let (alone, _) = run(&[]);
    let (program, config) = (env!("CARGO_BIN_EXE_sealane-lab"), scene.config.display().to_string());
    let (shared, said) = run(&["--hosts", "src[1-2]", "-F", &config, "--remote-program", program]);
    let ((mut one, here), (mut other, hosts)) = (sampled(&alone), sampled(&shared));
    // Each run names the assignment of layers by its own costs too, which is measured only if it is one of the others.
    for cells in [&mut one, &mut other] {
        cells.retain(|(.., samples)| *samples > 0);
    }
    assert!(!one.is_empty());
    assert_eq!(one, other, "{said}");
    assert_eq!(here, BTreeSet::from(["here".to_owned()]));
    assert!(!hosts.is_empty() && hosts.iter().all(|host| host == "src1" || host == "src2"), "{hosts:?}");
    let machines = shared["hosts"].as_object().expect("machines");
    assert!(
        machines.keys().eq(&hosts) && machines.values().all(|machine| machine["cores"].as_u64() > Some(0))
    );
    let runs = events(&scene.fleet(&["status", "--json"]).stdout);
    assert!(runs.iter().all(|run| run["state"] == "done" && run["files"] == run["files_found"]), "{runs:?}");
}
