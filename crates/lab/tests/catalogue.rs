//! Tests that every algorithm of the catalogue is measured, with its facts, although they are not listed for that;
//! and that every quick study gives a table.

use std::sync::atomic::AtomicBool;

use sealane_lab::experiment::Profile;
use sealane_lab::request::Request;
use sealane_lab::speed::{Length, Line, Plan, Rule, SpeedError, SpeedOptions, rates};
use sealane_lab::studies::{self, Family};
use sealane_transform::{Algorithm, Direction};

#[test]
fn every_algorithm_is_measured() {
    let options = SpeedOptions {
        algorithms: Algorithm::all().collect(),
        tiers: vec![None],
        lengths: vec![Length::Equal(64)],
        batches: vec![3],
        directions: vec![Direction::Encrypt, Direction::Decrypt],
        rule: Rule::Slices { seconds: 0.001 },
        ..SpeedOptions::default()
    };
    let mut found = Vec::new();
    let tell = |line| -> Result<(), SpeedError> {
        let Line::Messages(row) = line else { panic!("no operation was asked for: {line:?}") };
        found.push(row);
        Ok(())
    };
    assert!(Plan::of_messages(&options).unwrap().run(&AtomicBool::new(false), tell).unwrap());
    let table = format!("{:?}", rates(&found));
    for algorithm in Algorithm::all() {
        let name = algorithm.to_string();
        let own: Vec<_> = found.iter().filter(|row| row.algorithm == name).collect();
        // `null` processes no bytes.
        assert!(!own.is_empty() && own.iter().all(|row| row.ns_per_message > 0.0), "{name}");
        assert!(table.contains(&format!("\"{name}\"")), "{name} and its tables' bytes");
        println!("measured {name}");
    }
}

#[test]
fn every_short_study_has_a_table() {
    let request = Request { profile: Profile::Smoke, lanes: vec![1, 2], ..Request::default() };
    let short: Vec<&str> =
        studies::listed().iter().filter(|study| study.seconds == 1).map(|study| study.id).collect();
    for run in studies::runs(&short, &request) {
        let report = (run.family.run)(&run.request, &mut std::io::sink()).unwrap();
        assert!(!report.outcomes.is_empty(), "{}", run.name);
        for outcome in &report.outcomes {
            assert!(!outcome.cells.is_empty(), "{}", outcome.experiment.title);
            println!("has a table: {}", outcome.experiment.title);
        }
    }
    assert_eq!(Family::of("lab stacks").command, "lab stacks");
}
