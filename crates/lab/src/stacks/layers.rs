//! Layers on lanes (N7, N36): assignments by the measured cost of each layer, in turn, and all that cut the stack into
//! pieces of neighbours.
//!
//! Guarantees: an assignment uses every lane for which there is a layer; equal assignments are measured once.

use super::assignments::{is_layers, name};
use super::rig::Setup;
use super::{ALIKE, Bench};
use crate::LabError;
use crate::experiment::{Cell, Claim, RATE, find};
use sealane_lanes::{Assignment, Placement};

/// Returns the lane of each layer: the dearest first, each to the lane with the least so far. A layer without a cost of
/// its own stays with its neighbour, so that no packet changes lanes for it. Lanes are numbered as the layers reach them.
fn by_cost(costs: &[f64], lanes: usize) -> Vec<usize> {
    let mut dearest: Vec<usize> = (0..costs.len()).filter(|&layer| costs[layer] > 0.0).collect();
    dearest.sort_by(|&one, &other| costs[other].total_cmp(&costs[one]));
    let (mut loads, mut owners) = (vec![0.0; lanes], vec![None; costs.len()]);
    for layer in dearest {
        let lane = (0..lanes).min_by(|&one, &other| f64::total_cmp(&loads[one], &loads[other])).unwrap_or(0);
        loads[lane] += costs[layer];
        owners[layer] = Some(lane);
    }
    let mut before = owners.iter().flatten().next().copied().unwrap_or(0);
    for owner in &mut owners {
        before = *owner.get_or_insert(before);
    }
    let mut seen = Vec::new();
    let number = |lane| {
        seen.iter().position(|one| *one == lane).unwrap_or_else(|| {
            seen.push(lane);
            seen.len() - 1
        })
    };
    owners.into_iter().flatten().map(number).collect()
}

/// Returns every assignment of neighbours to `lanes`, or to a lane for each layer if there are more lanes.
fn cuts(layers: usize, lanes: usize) -> Vec<Vec<usize>> {
    let pieces = lanes.min(layers);
    // Bit n stands for a cut below layer n.
    let is_cut = |mask: u32, layer: usize| mask >> layer & 1 == 1;
    let masks =
        (0..1_u32 << layers.saturating_sub(1)).filter(|mask| mask.count_ones() as usize + 1 == pieces);
    let owners =
        |mask| (0..layers).map(|layer| (0..layer).filter(|&above| is_cut(mask, above)).count()).collect();
    masks.map(owners).collect()
}

/// Returns the layers' costs in µs per packet on one lane: what the whole takes more than the stack without the layer.
/// The transport has the rest, with the headers below it.
fn costs(bench: &mut Bench<'_>, one: &Setup) -> Result<Option<Vec<f64>>, LabError> {
    let layers: Vec<&str> = one.stack.split('/').collect();
    let Some(transport) = layers.iter().position(|layer| ["tcp", "udp"].contains(layer)) else {
        return Ok(None);
    };
    let optional = |layer: &str| layer.contains("des") || layer.contains("md5");
    let without = |at: usize| {
        let rest = layers.iter().enumerate().filter(|(layer, _)| *layer != at).map(|(_, name)| *name);
        Setup { stack: rest.collect::<Vec<_>>().join("/"), ..one.clone() }
    };
    let removed: Vec<usize> = (0..layers.len()).filter(|&at| optional(layers[at])).collect();
    let setups = std::iter::once(one.clone()).chain(removed.iter().map(|&at| without(at)));
    let cells = bench.take_turns(&setups.map(|setup| ("costs", setup)).collect::<Vec<_>>())?;
    let times: Option<Vec<f64>> = cells.iter().map(|cell| cell.figure("us")).collect();
    let Some([whole, rest @ ..]) = times.as_deref() else { return Ok(None) };
    let mut costs = vec![0.0; layers.len()];
    for (&at, less) in removed.iter().zip(rest) {
        costs[at] = f64::max(whole - less, 0.0);
    }
    costs[transport] = f64::max(whole - costs.iter().sum::<f64>(), 0.0);
    Ok(Some(costs))
}

/// Measures a stack by layers on `lanes`, beside one lane and packets on as many. Returns the claims' material: the name
/// of the assignment by cost.
pub(super) fn measure(bench: &mut Bench<'_>, one: &Setup, lanes: usize) -> Result<Option<String>, LabError> {
    let layers = one.stack.split('/').count();
    let packet = Setup { lanes, ..one.clone() };
    let mut assignments: Vec<Vec<usize>> = Vec::new();
    let spread = costs(bench, one)?.map(|costs| by_cost(&costs, lanes));
    let in_turn = (0..layers).map(|layer| layer % lanes).collect();
    // The assignment by cost is the last one: hosts that share the study may disagree on it, and number the others alike.
    for owners in [in_turn].into_iter().chain(cuts(layers, lanes)).chain(spread.clone()) {
        if !assignments.contains(&owners) {
            assignments.push(owners);
        }
    }
    let assignments: Vec<Assignment> =
        assignments.iter().filter_map(|owners| Assignment::new(owners)).collect();
    let of = |&assignment: &Assignment| Setup { placement: Placement::Layer(assignment), ..packet.clone() };
    let setups = [one.clone(), packet.clone()].into_iter().chain(assignments.iter().map(of)).collect();
    bench.beside_the_first("N36", setups)?;
    let by_cost = spread.and_then(|owners| Assignment::new(&owners));
    Ok(by_cost.map(|assignment| name(assignment, &one.stack, lanes)))
}

/// Returns the claims about the assignment by cost in one direction.
pub(super) fn claims(cells: &[Cell], way: &str, by: &str) -> Vec<Claim> {
    let mut claims = Vec::new();
    for cell in cells.iter().filter(|cell| cell.at["by"] == by && cell.at["way"] == way) {
        let [stack, lanes] = ["stack", "lanes"].map(|axis| &*cell.at[axis]);
        let about = format!("{stack}, {way}, {lanes} lanes, {by}");
        let mut claim = |statement: String, other: &Cell, bounds| {
            let places = (cell.at.clone(), other.at.clone());
            claims.push(Claim::ratio((statement, "N36"), RATE, places, bounds));
        };
        // A pipeline of layers is as slow as its slowest layer.
        if let Some(packets) = find(cells, &cell.elsewhere(&[("by", "packet")])) {
            claim(format!("{about}: slower than by packet."), packets, (None, Some(1.0)));
        }
        let is_alike = |other: &&Cell| {
            is_layers(&other.at["by"])
                && ["stack", "way", "lanes"].iter().all(|axis| other.at[*axis] == cell.at[*axis])
        };
        let rate = |cell: &&Cell| cell.figure(RATE).unwrap_or(0.0);
        let best = cells.iter().filter(is_alike).max_by(|one, other| rate(one).total_cmp(&rate(other)));
        if let Some(best) = best.filter(|best| best.at["by"] != by) {
            let statement =
                format!("{about}, spread by measured cost: as fast as the best spread, within 10 %.");
            claim(statement, best, ALIKE);
        }
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dearest_layer_has_a_lane_to_itself() {
        let costs = [700.0, 20.0, 150.0, 0.0, 0.0];
        assert_eq!(by_cost(&costs, 2), [0, 1, 1, 1, 1]);
        assert_eq!(by_cost(&costs, 3), [0, 1, 2, 2, 2]);
        assert_eq!(by_cost(&[1.0, 9.0, 0.0], 2), [0, 1, 1]);
        assert_eq!(by_cost(&[0.0, 5.0], 1), [0, 0]);
    }

    #[test]
    fn cuts_are_all_pieces_of_neighbours() {
        assert_eq!(cuts(3, 2), [[0, 1, 1], [0, 0, 1]]);
        assert_eq!(cuts(3, 1), [[0, 0, 0]]);
        assert_eq!(cuts(2, 5), [[0, 1]]);
        assert_eq!(cuts(5, 3).len(), 6);
    }

    #[test]
    fn names_give_the_layers_of_each_lane() {
        let assigned = Assignment::new(&[0, 1, 1]).unwrap();
        assert_eq!(name(assigned, "des/tcp/ip", 2), "layer: des | tcp+ip");
        assert_eq!(name(Assignment::IN_TURN, "des/tcp/ip", 2), "layer: des+ip | tcp");
        assert!(is_layers("layer: des") && !is_layers("packet"));
    }
}
