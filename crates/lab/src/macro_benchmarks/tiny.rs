//! A thousand tiny transfers (R17, figure 13), each by a curl of its own: in clear, by HTTPS, and through tunnels with
//! keys from files, from our gateways' calls, and from IKE.
//!
//! Guarantees: the time that a tunnel takes to agree on keys is measured apart, and added once to a thousand pages.

use super::{Bench, Connection, Run, SECONDS, Turn, at_most, sample};
use crate::LabError;
use crate::error::unavailable;
use crate::experiment::{
    Cell, Claim, Coordinates, Drawn, Experiment, Found, Measure, Outcome, Plot, View, at,
};
use crate::peers::tiny_pages;
use crate::tunnel::Topology;
use crate::tunnel::between::{self, Between, Keys};
use crate::tunnel::net::{Ground, Links, Net};
use crate::tunnel::traffic::missing_for_web;
use crate::tunnel::{CLEAR, DEFAULT_SUITE, NATIVE, OWN};
use std::time::Instant;

/// The study's number of pages.
const PAGES: u32 = 1000;
/// The most by which IPsec makes a page slower.
const IPSEC_MORE: f64 = 1.10;
/// The two ends of the most by which negotiated keys may differ from manual ones.
const KEYS: [f64; 2] = [0.97, 1.03];

const AXES: [&str; 4] = ["service", "between", "suite", "keys"];

/// The sources of keys, as in results: a clear connection has none.
const NO_KEYS: &str = "none";
const FILES: &str = "files";
const NEGOTIATED: [(Keys, &str); 2] = [(Keys::Calls, "calls"), (Keys::Ike, "IKE")];

/// Returns the connections with the sources of their keys.
fn with_keys(connections: Vec<Connection>) -> Vec<(Connection, &'static str)> {
    let keyed = |connection: Connection| {
        let keys = if matches!(connection.between, Between::Clear) { NO_KEYS } else { FILES };
        (connection, keys)
    };
    let mut all: Vec<(Connection, &str)> = connections.into_iter().map(keyed).collect();
    let default = all.iter().find(|(connection, _)| connection.name == [OWN, DEFAULT_SUITE]).cloned();
    for (keys, name) in NEGOTIATED {
        let negotiated = default.clone().map(|(connection, _)| Connection {
            between: match connection.between {
                Between::Ours(ours) => Between::Ours(between::Ours { keys, ..ours }),
                other => other,
            },
            ..connection
        });
        all.extend(negotiated.map(|connection| (connection, name)));
    }
    all
}

/// Returns the seconds until the first answer through the tunnel, keys included.
fn first_answer(net: &Net) -> Result<f64, LabError> {
    let started = Instant::now();
    let words = format!("-q -c 1 -i 0.01 -w 20 {}", net.server);
    let ping = net.command(0, "ping", &words).output();
    match ping {
        Ok(ping) if ping.status.success() => Ok(started.elapsed().as_secs_f64()),
        _ => Err(unavailable("the hosts do not reach each other")),
    }
}

/// Measures the pages.
pub(super) fn outcomes(bench: &mut Bench<'_>) -> Result<Vec<Outcome>, LabError> {
    if let Some(why) = missing_for_web(&bench.request.surroundings) {
        bench.skipped.push(format!("tiny: {why}"));
        return Ok(Vec::new());
    }
    let pages = bench.sized(20, 100, PAGES);
    let ground = Ground { topology: Topology::HostHost, links: Links::Gigabit, is_confined: false };
    let mut nets = Vec::new();
    for (connection, keys) in with_keys(bench.few_connections()) {
        let net = Net::up(&bench.program.path, bench.memory.path(), ground, &connection.between);
        match net.and_then(|net| Ok((first_answer(&net)?, net))) {
            Ok((first_s, net)) => nets.push((connection, keys, first_s, net)),
            Err(error) => {
                bench.skipped.push(format!("tiny, {}, {keys}: {error}", connection.name.join(", ")));
            }
        }
    }
    let surroundings = &bench.request.surroundings;
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for (connection, keys, first_s, net) in &nets {
        let [between, suite] = connection.name;
        let is_clear = between == CLEAR.0;
        for (service, is_tls) in [("http", false), ("https", true)] {
            if is_tls && !is_clear {
                continue;
            }
            let place = at(AXES.into_iter().zip([service, between, suite, *keys]));
            let turn = move || {
                let mut taken = sample(Some(net), || {
                    let per_second = tiny_pages(&net.hosts(0), surroundings, (pages, is_tls))?;
                    Ok(Run { seconds: f64::from(pages) / per_second, bytes: 0, cpu_s: 0.0 })
                })?;
                if let Found::Values(values) = &mut taken.found {
                    let page_s = values[SECONDS] / f64::from(pages);
                    values.remove("cpu_s");
                    values.insert("page_ms".to_owned(), 1e3 * page_s);
                    values.insert("thousand_s".to_owned(), f64::from(PAGES) * page_s + first_s);
                    values.insert("first_ms".to_owned(), 1e3 * first_s);
                }
                Ok(taken)
            };
            turns.push((place, Box::new(turn)));
        }
    }
    let cells = bench.take_turns("tiny", turns)?;
    let measures = vec![
        Measure::cost("page_ms", "ms a page", "ms"),
        Measure::cost("first_ms", "ms to the first answer", "ms"),
        Measure::cost("thousand_s", "s for 1,000, keys included", "s"),
        Measure::cost("tunnel_cpu_s", "CPU s: tunnel", "s"),
        Measure::cost("system_cpu_s", "machine", "s"),
    ];
    let notes = [
        "The paper (figure 13): IPsec adds 10 % to HTTP, keys by isakmpd are as good as keys by hand over so many transfers, and \
         HTTPS pays for a handshake each time.",
        "Each page has a curl of its own, whose start is part of its time; the paper's 10 % is of that too.",
    ];
    let plots = vec![
        Plot::new(Drawn::Bars, "suite", "page_ms", &["service", "between", "keys"]).titled("Time of a page"),
    ];
    let experiment = Experiment::new("tiny", "R17", "Tiny transfers, links of 1 Gb/s", &AXES, measures);
    let claims = claims(&cells, pages);
    Ok(bench.outcome(experiment.notes(&notes).shown(View::Cells, plots), cells, claims).into_iter().collect())
}

fn place(service: &str, between: &str, suite: &str, keys: &str) -> Coordinates {
    at(AXES.into_iter().zip([service, between, suite, keys]))
}

/// Returns the claims about a run of so many pages.
fn claims(cells: &[Cell], pages: u32) -> Vec<Claim> {
    let clear = place("http", CLEAR.0, CLEAR.1, NO_KEYS);
    let https = place("https", CLEAR.0, CLEAR.1, NO_KEYS);
    let mut claims = Vec::new();
    for cell in cells.iter().filter(|cell| cell.at["between"] == NATIVE) {
        let suite = &cell.at["suite"];
        let statement = format!(
            "{suite}: a page takes at most 10 % longer than in clear, and half a per cent, because the paper rounds."
        );
        claims.push(at_most(
            "R17, figure 13",
            statement,
            "page_ms",
            [cell.at.clone(), clear.clone()],
            IPSEC_MORE + 0.005,
        ));
        let statement = format!("{suite}: a page through IPsec takes no longer than by HTTPS.");
        claims.push(at_most("R17, figure 13", statement, "page_ms", [cell.at.clone(), https.clone()], 1.0));
    }
    for (_, keys) in NEGOTIATED {
        let statement = format!(
            "1,000 pages with keys by {keys}, agreement included, take what they take with keys from files, within 3 %: \
             “practically no difference”."
        );
        let of = |keys: &str| place("http", OWN, DEFAULT_SUITE, keys);
        let bounds = KEYS.map(Some).into();
        let claim = Claim::ratio((statement, "R17"), "thousand_s", (of(keys), of(FILES)), bounds);
        claims.push(claim.judged_from(pages.into(), PAGES.into(), |count| format!("{count} pages")));
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::find;

    /// Clear connections alone have no keys, and every claim finds the cells of its sources of keys.
    #[test]
    fn every_source_of_keys_has_its_cells() {
        let connections = with_keys(Connection::all());
        let has_none = |(connection, keys): &&(Connection, &str)| {
            assert_eq!(
                *keys == NO_KEYS,
                matches!(connection.between, Between::Clear),
                "{:?}",
                connection.name
            );
            *keys == NO_KEYS
        };
        assert_eq!(connections.iter().filter(has_none).count(), 1);
        let mut cells: Vec<Cell> = Vec::new();
        for (connection, keys) in &connections {
            let [between, suite] = connection.name;
            for service in if *keys == NO_KEYS { &["http", "https"][..] } else { &["http"] } {
                cells.push(Cell { at: place(service, between, suite, keys), ..Cell::default() });
            }
        }
        let claims = claims(&cells, PAGES);
        assert!(claims.len() > NEGOTIATED.len());
        for claim in &claims {
            assert!(claim.unjudged.is_none());
            for place in claim.shape.places() {
                assert!(find(&cells, place).is_some(), "{}: {place:?}", claim.statement);
            }
        }
    }
}
