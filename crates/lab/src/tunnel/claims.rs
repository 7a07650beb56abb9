//! The claims of the 2002 study about ttcp and round trips, each with the paper's figure (R13, R14).
//!
//! Guarantees: a statement names the paper's figure and the reason of its tolerance; a claim is made only where its
//! cells were measured, and only about a topology that the paper's sentence is about.

use super::{AXES, CARD, CLEAR, NATIVE, PROCESSOR, TRIPLE_DES, Topology};
use crate::experiment::{Cell, Claim, Coordinates, Role, Shape, at, find};

/// The paper's shares of clear by test.
const SHARES: [(&str, f64); 2] = [("ttcp-64", 0.40), ("ttcp-8192", 0.30)];
/// The paper prints two round figures above a plot without values: half of the distance between them, over the smaller.
const SHARE_TOLERANCE: f64 = 0.17;
/// The sum of three links of 100 Mb/s in Gb/s.
const THREE_LINKS_GBIT: f64 = 0.3;
/// Tests between those of 64 and of 8,192 bytes, in which the paper saw its anomaly.
const AROUND_512: [&str; 3] = ["ttcp-64", "ttcp-512", "ttcp-1024"];

fn place(peer: &str, suite: &str, test: &str) -> Coordinates {
    at(AXES.into_iter().zip([peer, suite, test]))
}

/// The paper's sentence about shares is about two hosts, and it calls two gateways similar.
fn has_shares(topology: Topology) -> bool {
    matches!(topology, Topology::HostHost | Topology::Gateways)
}

/// Returns the paper's shares of the tests that were run.
pub(super) fn published(shares: &[Cell], topology: Topology) -> Vec<Cell> {
    let is_run = |test: &str| shares.iter().any(|cell| cell.at["test"] == test);
    SHARES
        .into_iter()
        .filter(|(test, _)| has_shares(topology) && is_run(test))
        .map(|(test, share)| {
            let place = AXES.into_iter().zip(["the study of 2002", "software IPsec", test]);
            // It is drawn as a bar beside ours.
            Cell::new(place).with("share", share).of_role(Role::Own)
        })
        .collect()
}

/// Returns the claims about shares of clear.
pub(super) fn of_shares(shares: &[Cell], topology: Topology) -> Vec<Claim> {
    let is_asked = |cell: &&Cell| has_shares(topology) && [NATIVE, CARD].contains(&&*cell.at["between"]);
    let claim = |cell: &Cell| {
        let (_, share) = SHARES.into_iter().find(|(test, _)| *test == cell.at["test"])?;
        if cell.at["between"] == CARD {
            let statement = format!(
                "{}, {}: with a simulated card of 2003, less goes through than in clear: “not enough” for encryption everywhere.",
                cell.at["test"], cell.at["suite"]
            );
            let bounds = (None, Some(1.0));
            return Some(Claim::bound((statement, "R22"), "share", cell.at.clone(), bounds));
        }
        let statement = format!(
            "{}, {}: software IPsec leaves {share:.2} of clear, within 17 % because the paper rounds to tens.",
            cell.at["test"], cell.at["suite"]
        );
        let bounds = [1.0 - SHARE_TOLERANCE, 1.0 + SHARE_TOLERANCE].map(|by| Some(by * share));
        Some(Claim::bound((statement, "R14"), "share", cell.at.clone(), bounds.into()))
    };
    shares.iter().filter(is_asked).filter_map(claim).collect()
}

/// Returns the claims about the rates of the table `id`.
pub(super) fn of_rates(cells: &[Cell], id: &str, topology: Topology) -> Vec<Claim> {
    if id != "throughput" {
        return Vec::new();
    }
    let measure = "gbit_per_s";
    let has = |place: &Coordinates| find(cells, place).is_some();
    let mut claims = Vec::new();
    // A card beside a processor of its own time.
    let suite = TRIPLE_DES;
    let (card, software) = (place(CARD, suite, "ttcp-8192"), place(PROCESSOR, suite, "ttcp-8192"));
    if has_shares(topology) && has(&card) && has(&software) {
        let statement = format!(
            "ttcp-8192, {suite}: hardware more than doubles software IPsec; a simulated card of 2003 beside a simulated processor of its time."
        );
        let long = [card, software];
        let short = [CARD, PROCESSOR].map(|peer| place(peer, suite, "ttcp-64"));
        let places = (long[0].clone(), long[1].clone());
        claims.push(Claim::ratio((statement, "R14"), measure, places, (Some(2.0), None)));
        if short.iter().all(has) {
            let statement = format!(
                "{suite}: hardware improves writes of 8,192 bytes by more than writes of 64: the paper's gain is largest for \
                 large packets."
            );
            let shape =
                Shape::RatioOfRatios { numerator: long, denominator: short, low: Some(1.0), high: None };
            claims.push(Claim::new((statement, "R14"), measure, shape));
        }
    }
    if !has_shares(topology) {
        for (test, source) in [("ttcp-8192", "R13, figure 8"), ("tcp1", "R10, figure 4")] {
            let clear = place(CLEAR.0, CLEAR.1, test);
            if has(&clear) {
                let statement = format!(
                    "{test}, clear: three hosts fill their links, at least 270 of 300 Mb/s: headers and acknowledgements take a \
                     tenth at most."
                );
                let bounds = (Some(0.9 * THREE_LINKS_GBIT), None);
                claims.push(Claim::bound((statement, source), measure, clear, bounds));
            }
        }
    }
    for cell in cells.iter().filter(|cell| cell.at["test"] == AROUND_512[1]) {
        let [peer, suite, _] = AXES.map(|axis| &*cell.at[axis]);
        let [before, own, after] = AROUND_512.map(|test| place(peer, suite, test));
        let is_asked = [NATIVE, CLEAR.0].contains(&peer) && topology == Topology::HostHost;
        if is_asked && has(&before) && has(&after) {
            for (other, words) in [(before, "64"), (after, "1,024")] {
                let statement = format!(
                    "{peer}, {suite}: writes of 512 bytes are slower than writes of {words}, by the 5 % that the eye sees in \
                     the paper's plot (its anomaly, where it suspected the alignment of buffers)."
                );
                claims.push(Claim::ratio(
                    (statement, "R13"),
                    measure,
                    (own.clone(), other),
                    (None, Some(0.95)),
                ));
            }
        }
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(peer: &str, suite: &str, test: &str) -> Cell {
        Cell { at: place(peer, suite, test), ..Cell::default() }
    }

    #[test]
    fn claims_are_about_the_topologies_of_their_sentences() {
        let tests = ["ttcp-64", "ttcp-512", "ttcp-1024", "ttcp-8192"];
        let cells: Vec<Cell> =
            [(CLEAR.0, CLEAR.1), (NATIVE, TRIPLE_DES), (CARD, TRIPLE_DES), (PROCESSOR, TRIPLE_DES)]
                .into_iter()
                .flat_map(|(peer, suite)| tests.map(|test| cell(peer, suite, test)))
                .collect();
        let count =
            |topology| (of_rates(&cells, "throughput", topology).len(), of_shares(&cells, topology).len());
        assert_eq!(count(Topology::HostHost), (2 + 4, 4));
        assert_eq!(count(Topology::Gateways), (2, 4));
        assert_eq!(count(Topology::RoadWarrior), (1, 0));
        assert!(of_rates(&cells, "packets", Topology::HostHost).is_empty());
        assert_eq!(published(&cells, Topology::Gateways).len(), 2);
        assert!(published(&cells, Topology::RoadWarrior).is_empty());
    }
}
