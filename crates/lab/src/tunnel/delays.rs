//! The delay of a packet beside load: through no tunnel, the rival's and ours with either queue, before links of several rates.
//!
//! Guarantees: all connections take turns run by run on links of the same rate; congestion control is the asked one, and not the
//! host's; a connection, link or load that cannot be had here is named.

use super::between::{Between, Keys, Ours};
use super::net::{Limit, Net};
use super::traffic::{self, BESIDE_MS, LOAD_TIME, iperf3, round_trips_us};
use super::{CLEAR, DEFAULT_SUITE, OWN, RIVAL, foreign};
use crate::LabError;
use crate::error::unavailable;
use crate::experiment::{
    Cell, Coordinates, Experiment, Found, Measure, Outcome, Plan, Profile, Repetition, Sample, View, at, by,
};
use crate::load::Watch;
use crate::request::{CongestionControl, Request};
use crate::scratch::Scratch;
use crate::studies;
use crate::topology::Topology;
use std::collections::BTreeMap;
use std::io::Write;
use std::thread;

/// The loads, by their names as parts of the family.
pub(super) const LOADS: [&str; 3] = ["loaded", "loaded-32", "loaded-flood"];

/// The links, by their names in results. A queue before the link holds 512 KiB, as in a router: a twentieth of a second at 100 Mb/s.
const LINKS: [(&str, Option<Limit>); 4] = [
    ("20 Mb/s", Some(Limit { megabits: 20, burst_kib: 16 })),
    ("100 Mb/s", Some(Limit { megabits: 100, burst_kib: 32 })),
    ("1 Gb/s", Some(Limit { megabits: 1000, burst_kib: 128 })),
    ("unlimited", None),
];
/// The link and the load of a short profile.
const SHORT: (&str, &str) = ("100 Mb/s", LOADS[0]);
/// The rounds of a short profile, which makes no claim about delays.
const SHORT_ROUNDS: usize = 3;

const AXES: [&str; 4] = ["between", "queue", "link", "load"];

/// A connection between the hosts.
struct Way {
    between: &'static str,
    queue: &'static str,
    kind: Between,
}

/// Returns the connections to compare.
fn ways(foreign: &[foreign::Peer]) -> Vec<Way> {
    let ours = |queue, way| Way {
        between: OWN,
        queue,
        kind: Between::Ours(Ours { way, keys: Keys::Manual, ..Ours::of(DEFAULT_SUITE) }),
    };
    let mut ways = vec![Way { between: CLEAR.0, queue: "-", kind: Between::Clear }];
    let rival = foreign.iter().filter(|peer| peer.name == RIVAL.0);
    ways.extend(rival.map(|peer| Way {
        between: RIVAL.0,
        queue: "-",
        kind: Between::Foreign(peer.kind.clone()),
    }));
    ways.push(ours("fifo", "queueing = \"fifo\"\n"));
    ways.push(ours("fq-codel", "queueing = \"fq-codel\"\n"));
    ways
}

/// Returns iperf3's arguments for a load.
fn words(load: &str, limit: Option<Limit>, control: CongestionControl) -> String {
    match load {
        "loaded-32" => format!("-P 32 -C {}", control.name()),
        // Three times of what the link carries.
        "loaded-flood" => {
            format!(
                "-u -l 1300 -b {}",
                limit.map_or_else(|| "0".to_owned(), |limit| format!("{}M", 3 * limit.megabits))
            )
        }
        _ => format!("-P 4 -C {}", control.name()),
    }
}

/// Returns the value below which `percent` of the sorted values are.
fn quantile(sorted: &[f64], percent: usize) -> Option<f64> {
    sorted.get((sorted.len() * percent / 100).min(sorted.len().checked_sub(1)?)).copied()
}

/// Runs a load, with round trips beside it.
fn beside(net: &Net, seconds: u32, words: &str) -> Result<Sample, LabError> {
    let (watch, daemons) = (Watch::begin(), net.cpu_seconds());
    let figures = thread::scope(|scope| {
        let busy_ms = (1000 * seconds).saturating_sub(2 * LOAD_TIME.as_millis() as u32);
        let times = scope.spawn(move || {
            thread::sleep(LOAD_TIME);
            round_trips_us(net, (busy_ms / BESIDE_MS).max(50), BESIDE_MS)
        });
        let mut figures = iperf3(net, seconds, words)?;
        let mut times = times.join().ok()??;
        times.sort_by(f64::total_cmp);
        for (measure, percent) in [("p50_ms", 50), ("p99_ms", 99)] {
            figures.insert(measure.to_owned(), quantile(&times, percent)? / 1e3);
        }
        if let Some(gigabits) = figures.remove("gbit_per_s") {
            // A segment has about 1,300 bytes of data.
            let segments = gigabits * 1e9 * f64::from(seconds) / 8.0 / 1300.0;
            if let Some(again) = figures.remove("retransmissions") {
                figures.insert("per_million".to_owned(), 1e6 * again / segments.max(1.0));
            }
            figures.insert("mbit_per_s".to_owned(), 1e3 * gigabits);
        }
        Some(figures)
    });
    let found: BTreeMap<String, f64> = figures.ok_or_else(|| unavailable("no result"))?;
    let is_disturbed = watch.is_disturbed(net.cpu_seconds() - daemons);
    Ok(Sample::new(Found::Values(found), is_disturbed))
}

/// Measures what is asked for.
pub(super) fn outcomes(
    request: &Request,
    foreign: &[foreign::Peer],
    (repetition, seconds): (Repetition, u32),
    progress: &mut dyn Write,
) -> Result<Vec<Outcome>, LabError> {
    let is_short =
        matches!(request.profile, Profile::Smoke | Profile::Quick) && request.hosts.between.is_empty();
    // Most of a second is a connection's beginning.
    let seconds = seconds.max(if is_short { 2 } else { 3 });
    let rounds = if is_short { repetition.rounds.min(SHORT_ROUNDS) } else { repetition.rounds };
    let repetition = Repetition { rounds, ..repetition };
    let control = request.hosts.congestion_control.unwrap_or(CongestionControl::Cubic);
    let mut skipped = Vec::new();
    if is_short {
        let (link, load) = SHORT;
        let why =
            "a short profile has other links, loads and queues through connections that --between names";
        skipped.push(format!("all but {load} at {link}: {why}"));
    }
    let program = request.program()?;
    let scratch = Scratch::create(&request.surroundings, None, 0)?;
    let (mut nets, mut places, mut cells) = (Vec::new(), Vec::<Coordinates>::new(), Vec::new());
    let is_asked = |way: &Way| match is_short {
        true => way.queue != "fifo",
        false => {
            request.hosts.between.is_empty() || request.hosts.between.iter().any(|asked| asked == way.between)
        }
    };
    for way in ways(foreign).into_iter().filter(is_asked) {
        let net =
            Net::up(&program.path, scratch.path(), Topology::HostHost, &way.kind).and_then(traffic::carries);
        let net = match net {
            Ok(net) => net,
            Err(error) => {
                skipped.push(format!("{}, {}: {error}", way.between, way.queue));
                continue;
            }
        };
        for (name, limit) in LINKS.into_iter().filter(|(name, _)| !is_short || *name == SHORT.0) {
            if let Err(error) = net.limit(limit) {
                skipped.push(format!("{}, {name}: {error}", way.between));
                continue;
            }
            let is_wanted = |load: &&str| request.wants(&[load]) && (!is_short || *load == SHORT.1);
            for load in LOADS.into_iter().filter(is_wanted) {
                places.push(at(AXES.into_iter().zip([way.between, way.queue, name, load])));
                cells.push((nets.len(), limit, words(load, limit, control)));
            }
        }
        nets.push(net);
    }
    let mut sampler = by(|cell: usize| {
        let (net, limit, words) = &cells[cell];
        nets[*net].limit(*limit)?;
        beside(&nets[*net], seconds, words)
    });
    let plan = Plan::of_cells("delays", repetition, places, request.seed);
    let cells = plan.measure(&mut sampler, progress)?;
    skipped
        .extend(cells.iter().filter_map(|cell| Some(format!("{}: {}", cell.name(), cell.failure.as_ref()?))));
    let mut outcomes = tables(&cells, control);
    if let Some(first) = outcomes.first_mut() {
        first.skipped = skipped;
    }
    for outcome in &mut outcomes {
        (outcome.seed, outcome.experiment.repetition) = (request.seed, repetition);
    }
    Ok(outcomes)
}

/// Returns a table of each measure.
fn tables(cells: &[Cell], control: CongestionControl) -> Vec<Outcome> {
    let about = format!(
        "Round trips of ping every {BESIDE_MS} ms beside four or 32 connections of TCP ({}), or datagrams of three times what the link \
         carries. Links are limited by tbf at both ends, with 512 KiB before it. Suite of ours: {DEFAULT_SUITE}.",
        control.name()
    );
    [
        ("delays-p50", "Delay beside load, half of the packets", Measure::cost("p50_ms", "p50", "ms")),
        ("delays-p99", "Delay beside load, 99 % of the packets", Measure::cost("p99_ms", "p99", "ms")),
        ("delays-rates", "What the load carries", Measure::new("mbit_per_s", "Mb/s").unit("Mb/s")),
        (
            "delays-again",
            "Segments sent again",
            Measure::cost("per_million", "of a million", "of a million").decimals(0),
        ),
    ]
    .into_iter()
    .filter_map(|(id, title, measure)| {
        let own: Vec<Cell> =
            cells.iter().filter(|cell| !cell.samples_of(&measure.id).is_empty()).cloned().collect();
        let view = View::pivot(&[AXES[2], AXES[0], AXES[1]], AXES[3], &measure.id);
        let experiment = Experiment::new(id, "delays", title, &AXES, vec![measure]);
        let experiment = experiment.of(studies::OWN).notes(&[&about]).shown(view, Vec::new());
        (!own.is_empty()).then(|| Outcome::new(experiment, own))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_sorted_values() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(quantile(&values, 50), Some(101.0));
        assert_eq!(quantile(&values, 99), Some(199.0));
        assert_eq!(quantile(&[7.0], 99), Some(7.0));
        assert_eq!(quantile(&[], 50), None);
    }

    #[test]
    fn loads_name_their_congestion_control_and_floods_their_rate() {
        let limit = LINKS[1].1;
        assert_eq!(words("loaded", limit, CongestionControl::Cubic), "-P 4 -C cubic");
        assert_eq!(words("loaded-32", None, CongestionControl::Bbr), "-P 32 -C bbr");
        assert_eq!(words("loaded-flood", limit, CongestionControl::Bbr), "-u -l 1300 -b 300M");
        assert_eq!(words("loaded-flood", None, CongestionControl::Cubic), "-u -l 1300 -b 0");
    }

    #[test]
    fn a_table_has_a_row_for_each_link_and_connection() {
        let cell = |queue: &str, p50: f64| Cell {
            samples: vec![Sample::of([("p50_ms", p50), ("p99_ms", 4.0 * p50), ("mbit_per_s", 93.0)], false)],
            ..Cell::new(AXES.into_iter().zip([OWN, queue, "100 Mb/s", "loaded"]))
        };
        let outcomes = tables(&[cell("fifo", 130.0), cell("fq-codel", 2.3)], CongestionControl::Cubic);
        assert_eq!(outcomes.len(), 3, "there are no segments sent again");
        let text: String =
            outcomes.iter().map(|outcome| crate::report::outcome_text(outcome, None)).collect();
        assert!(text.contains("cubic") && text.contains("fq-codel") && text.contains("2.3"), "{text}");
    }
}
