//! Compares the cost of a copy with the product's own kernels, with a library, and with one record after the other.

use super::copies::{Copies, Grid, Planned};
use super::grid::{Protection, RECORD_BY_RECORD, protection, request};
use super::modes::Mode;
use crate::LabError;
use crate::experiment::{Axis, CPU_PER_GIB, Claim, Coordinates, Experiment, Outcome, Repetition, View, at};
use crate::program::{End, Level};
use sealane_lanes::Placement;
use std::io::Write;

/// The name of the product's default.
const DEFAULT: &str = "as cp chooses";

/// Ways to run an AEAD's records, and the variable that forces each.
const AEAD: [(&str, [&str; 2]); 2] =
    [("own kernels", ["SEALANE_AEAD", "sealane"]), ("AWS-LC", ["SEALANE_AEAD", "aws-lc"])];

/// Ways to run the suites of 2007, which no library here supports.
const LEGACY: [(&str, [&str; 2]); 1] = [("record by record", RECORD_BY_RECORD)];

const SUITES: [Protection; 6] = [
    of_suite(Level::Private, "modern", "aes-128-gcm"),
    of_suite(Level::Private, "modern", "aes-256-gcm"),
    of_suite(Level::Private, "modern", "chacha20-poly1305"),
    of_suite(Level::Safe, "modern", "aes-128-gmac"),
    of_suite(Level::Private, "legacy", "3des-cbc-hmac-sha1"),
    of_suite(Level::Safe, "legacy", "hmac-sha1"),
];

const fn of_suite(level: Level, suite_axis: &'static str, suite: &'static str) -> Protection {
    protection(level, suite_axis, Some(suite), suite)
}

/// Runs the study.
pub(super) fn outcomes(copies: &Copies<'_>, progress: &mut dyn Write) -> Result<Vec<Outcome>, LabError> {
    Ok(vec![copies.run(kernels(copies.repetition), progress)?])
}

/// Returns the grid of every suite by every way to run it, with both ends in full.
fn kernels(repetition: Repetition) -> Grid {
    let mode = Mode { name: "", lanes: 2, streams: 2, placement: Placement::Connection };
    let (mut cells, mut claims) = (Vec::new(), Vec::new());
    for protection in &SUITES {
        let suite = protection.group;
        let others: &[_] = if protection.suite_axis == "legacy" { &LEGACY } else { &AEAD };
        let ways = others.iter().map(|&(name, variable)| (name, Some(variable)));
        for (name, variable) in [(DEFAULT, None)].into_iter().chain(ways) {
            let mut request = request(End::Both, protection, &mode);
            request.environment =
                variable.map(|variable| variable.map(str::to_owned).into()).into_iter().collect();
            cells.push(Planned { at: place(suite, name), request, group: suite });
        }
        claims.extend(others.iter().map(|(other, _)| {
            let statement = format!("{suite}: what cp chooses costs no more CPU than {other}, within 10 %");
            let places = (place(suite, DEFAULT), place(suite, other));
            Claim::ratio((statement, "target"), CPU_PER_GIB, places, (None, Some(1.1)))
        }));
    }
    let ways = [DEFAULT].into_iter().chain(AEAD.map(|way| way.0)).chain(LEGACY.map(|way| way.0));
    Grid {
        experiment: Experiment {
            axes: vec![Axis::new("suite", SUITES.map(|suite| suite.group)), Axis::new("run by", ways)],
            repetition,
            view: View::bars("suite", "run by", DEFAULT),
            ..Experiment::new("kernels", "providers", "Whose kernels seal the records", &[], Vec::new())
        }
        .claiming(claims)
        .method(&[
            "Two streams on two lanes, both ends in full, the receiver discards. The product's kernels take the records of a batch \
             together; AWS-LC, and what is called “record by record”, take one after the other.",
        ]),
        cells,
        ..Grid::default()
    }
}

fn place(suite: &str, way: &str) -> Coordinates {
    at([("suite", suite), ("run by", way)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Profile;

    #[test]
    fn every_claim_is_about_cells_that_are_measured() {
        let plan = kernels(Profile::Quick.repetition());
        let measured = |place: &Coordinates| plan.cells.iter().any(|cell| cell.at == *place);
        assert_eq!(plan.experiment.claims.len(), 4 * 2 + 2);
        for claim in &plan.experiment.claims {
            assert!(claim.shape.places().into_iter().all(measured), "{}", claim.statement);
        }
    }
}
