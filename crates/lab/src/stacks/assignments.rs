//! The names of placements that give the layers of a stack to lanes.

use std::collections::BTreeMap;

use sealane_lanes::{Assignment, Placement};

/// The word for layers in the names of placements.
const LAYERS: &str = "layer";

/// Returns the name of an assignment: the layers of each lane.
pub(super) fn name(assignment: Assignment, stack: &str, lanes: usize) -> String {
    let mut of_lanes: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for (layer, name) in stack.split('/').enumerate() {
        let lane = (0..lanes).find(|&lane| {
            let at = sealane_lanes::At { layer, ..Default::default() };
            Placement::Layer(assignment).may_run(lane, lanes, at)
        });
        of_lanes.entry(lane.unwrap_or(0)).or_default().push(name);
    }
    let pieces: Vec<String> = of_lanes.into_values().map(|layers| layers.join("+")).collect();
    format!("{LAYERS}: {}", pieces.join(" | "))
}

/// Returns whether a placement's name is that of layers.
pub(super) fn is_layers(by: &str) -> bool {
    by.starts_with(LAYERS)
}
