//! A signature for each packet (N3, N29): measured alone, and added to TCP/IP by the model.
//!
//! Guarantees: a claim is made only about cells that were measured; a prediction is named so.

use super::asymmetric::PACKETS;
use super::bounds::{at_least, ratio};
use super::model::BEYOND_MAX;
use super::{Bench, asymmetric, predict};
use crate::LabError;
use crate::experiment::{Cell, Claim, Drawn, Experiment, MEGABITS, Measure, Outcome, Plot, View, find};

/// The scheme against quantum computers.
const POST_QUANTUM: &str = asymmetric::SCHEMES[3];
/// The locked part of the paper's TCP in Mb/s (N29).
const LOCKED_MEGABITS: f64 = 200.0;

/// Measures a signature for each packet (N3, N29).
pub(super) fn signed(bench: &mut Bench<'_>) -> Result<Option<Outcome>, LabError> {
    let cells = asymmetric::measure(bench)?;
    bench.cells.extend(cells);
    let measures = vec![
        Measure::gain(PACKETS, "packets/s", "packets/s"),
        Measure::megabits(),
        Measure::times("times", "times one lane"),
    ];
    let notes = [
        "The paper gives no figure: it expects packets signed with RSA to gain linearly by processors (N29), because a \
         signature on each packet costs more than all else (N3: senders of multicast). Its locked TCP carries 200 Mb/s.",
        "Mb/s is the line that is filled by packets of that length, each with its SHA-256 and a signature, or a verification, \
         of its own; so many at a time are handed over together. RSA's steps are those on the encoded digest.",
        "A signature of ML-DSA-65 has 3,309 bytes, Ed25519's and ECDSA's 64, RSA's 256: it fits into no Ethernet packet, and fills four \
         fifths of the paper's. So its line of 1,500 bytes is one whose signatures go elsewhere, such as one for several packets. Its keys \
         are prepared, and a signature takes 5.1 attempts in the mean.",
    ];
    let axes = ["scheme", "way", "bytes", "batch", "lanes"];
    let plots = vec![
        Plot::new(Drawn::Lines, "lanes", PACKETS, &["scheme", "batch"]).each("way").logarithmic(),
        Plot::new(Drawn::Lines, "lanes", "times", &["scheme", "batch"])
            .titled("Speedup")
            .each("way")
            .with_ideal(),
    ];
    let experiment =
        Experiment::new("signed", "N29", "A signature for each packet, measured", &axes, measures)
            .notes(&notes)
            .shown(View::Cells, plots);
    let most = bench.most_lanes();
    let outcome = bench.outcome(experiment, &[asymmetric::SIGNED], Vec::new(), |cells| {
        asymmetric::SCHEMES.iter().flat_map(|scheme| of_signatures(cells, scheme, most)).collect()
    });
    Ok(outcome.map(|outcome| outcome.in_words("batch", |batch| format!("{batch} at a time"))))
}

/// Returns the claims about signatures for packets of 4 KB by one scheme.
fn of_signatures(cells: &[Cell], scheme: &str, most: usize) -> Vec<Claim> {
    let cell = |way: &str, batch: &str, lanes: usize| {
        let lanes = lanes.to_string();
        let place = [("scheme", scheme), ("way", way), ("bytes", "4096"), ("batch", batch)];
        find(cells, &crate::experiment::at(place.into_iter().chain([("lanes", &*lanes)])))
    };
    let mut claims = Vec::new();
    for way in ["sign", "verify"] {
        let Some((alone, together)) = cell(way, "1", 1).zip(cell(way, "8", 1)) else { continue };
        let statement = format!("{scheme}, {way}: eight at a time are no slower than one after the other.");
        claims.push(ratio("N3", statement, PACKETS, [together, alone], at_least(0.95)));
        if let Some(lanes) = cell(way, "8", most).filter(|_| most > 1) {
            let statement = format!(
                "{scheme}, {way}: {most} lanes gain at least {:.2} times one, nearly linear, as the paper expects.",
                0.9 * most as f64
            );
            claims.push(ratio("N29", statement, PACKETS, [lanes, together], at_least(0.9 * most as f64)));
        }
        if way == "sign" && scheme == POST_QUANTUM {
            let statement = format!(
                "{scheme}: signing packets of 4 KB, eight at a time, one lane is faster than the paper's locked TCP (200 Mb/s)."
            );
            let bounds = at_least(LOCKED_MEGABITS);
            claims.push(Claim::bound((statement, "N29"), MEGABITS, together.at.clone(), bounds));
        }
        if way == "sign" && scheme == asymmetric::SCHEMES[0] {
            for (cell, words, bounds) in [
                (alone, "one at a time, one lane is slower than", (None, Some(LOCKED_MEGABITS))),
                (together, "eight at a time, one lane is faster than", at_least(LOCKED_MEGABITS)),
            ] {
                let statement =
                    format!("{scheme}: signing packets of 4 KB, {words} the paper's locked TCP (200 Mb/s).");
                claims.push(Claim::bound((statement, "N29"), MEGABITS, cell.at.clone(), bounds));
            }
        }
    }
    if let Some((sign, verify)) = cell("sign", "8", 1).zip(cell("verify", "8", 1)) {
        let statement = match scheme {
            "rsa-2048" => format!("{scheme}: receivers verify at least ten times what a sender signs."),
            POST_QUANTUM => format!("{scheme}: receivers verify at least twice what a sender signs."),
            _ => format!("{scheme}: a sender signs more than a receiver verifies."),
        };
        let (cells, least) = match scheme {
            "rsa-2048" => ([verify, sign], 10.0),
            POST_QUANTUM => ([verify, sign], 2.0),
            _ => ([sign, verify], 1.0),
        };
        claims.push(ratio("N3", statement, PACKETS, cells, at_least(least)));
    }
    claims
}

/// Models TCP/IP as measured on one lane, and a signature outside of TCP's turn (N29).
pub(super) fn signatures(bench: &mut Bench<'_>) -> Result<Option<Outcome>, LabError> {
    let Some(costs) = bench.bare else { return Ok(None) };
    let notes = [
        "The paper expects packets signed with RSA to gain linearly (N3). A prediction: TCP/IP as measured here on one to four \
         lanes, and the signature of a packet as measured alone, outside of TCP's turn, one or eight at a time; no layer signs packets, so nothing \
         tests it, and it ends at four times the lanes that were measured.",
        "The cap is what a packet costs over its time in TCP's turn.",
    ];
    let signatures = asymmetric::signature_ns(&bench.cells);
    let curves = predict::with_signatures(costs, &signatures, BEYOND_MAX * bench.most_lanes());
    let title = ("signatures", "N29", "A signature for each packet, extrapolated");
    Ok((!signatures.is_empty()).then(|| predict::outcome(title, &notes, &curves)))
}
