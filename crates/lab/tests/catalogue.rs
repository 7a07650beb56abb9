//! Every algorithm of the catalogue is measured, and its facts stand beside: nobody has to list them for that.

use std::sync::atomic::AtomicBool;

use sealane_lab::speed::{Length, Plan, Rule, SpeedError, SpeedOptions, rates};
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
    let tell = |measurement| -> Result<(), SpeedError> {
        found.push(measurement);
        Ok(())
    };
    assert!(Plan::new(&options).unwrap().run(&AtomicBool::new(false), tell).unwrap());
    let table = format!("{:?}", rates(&found));
    for algorithm in Algorithm::all() {
        let name = algorithm.to_string();
        let own: Vec<_> = found.iter().filter(|one| one.algorithm == algorithm).collect();
        // `null` has no bytes to speak of.
        assert!(!own.is_empty() && own.iter().all(|one| one.row.ns_per_message > 0.0), "{name}");
        assert!(table.contains(&format!("\"{name}\"")), "{name} and its tables' bytes");
        println!("measured {name}");
    }
}
