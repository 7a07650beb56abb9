//! The parts of the study: setups that take turns, claims about them, and the table with the paper's figures.
//!
//! Guarantees: tables, claims and JSON give the same figures; a claim is shown below the table of its cells; every
//! sentence about a figure of this run is a claim that can fail.

use super::bounds::{at_least, ratio};
use super::granularity;
use super::latencies::{Table, latencies, sums};
use super::model::FITTED_MAX;
use super::rig::{Direction, Setup, THREADS, has_tiers};
use super::signatures::{signatures, signed};
use super::speedups;
use super::{
    ALIKE, Bench, CONNECTIONS, LONG_BYTES, MODERN, PAIR, STACKS, THREADS_ID, TREES, assignments, ids,
    lanes_of, layers, paper, passes, predict, published, rate,
};
use crate::LabError;
use crate::experiment::{
    ANY, Cell, Claim, Drawn, Experiment, Measure, Outcome, Plot, Profile, RATE, Role, Shape, View, derive,
    find,
};
use crate::report::number::quantity;
use crate::studies::NDSS_TITLE;
use sealane_lanes::Placement;
use sealane_transform::Tier;

/// The parts that are not measured, with the reasons.
pub(super) const REFUSED: [&str; 3] = [
    "CBC encryption by blocks: each block of CBC is enciphered with the one before it, so its pieces wait for one another. \
     Opening is the other way round: each needs only ciphertext.",
    "The function of sealing by encrypt-then-MAC: the authenticator reads what the cipher has written. When a packet is \
     opened both read the same ciphertext, at once.",
    "A tree of digests (BLAKE3's) over one packet of 4 KB by blocks: it has four leaves and a bit, less than one vector, \
     which takes hardly longer than one leaf. Over links of 64 KiB a packet is cut.",
];

/// Returns the cell with other values on some axes.
fn other<'c>(cells: &'c [Cell], cell: &Cell, others: &[(&str, &str)]) -> Option<&'c Cell> {
    find(cells, &cell.elsewhere(others))
}

/// Returns every requested table, in the order of the page.
pub(super) fn all(bench: &mut Bench<'_>) -> Result<Vec<Outcome>, LabError> {
    let request = bench.request;
    let mut rest = Vec::new();
    type Part = fn(&mut Bench<'_>) -> Result<Option<Outcome>, LabError>;
    let parts: [(&str, Part); 10] = [
        ("N28", sums),
        ("N20", locks),
        ("N29", signed),
        ("N29", signatures),
        ("N30", udp),
        ("N30", udp_over_tcp),
        ("N34", fairness),
        ("N36", units),
        ("N36", granularity::outcome),
        ("A12", passes::outcome),
    ];
    for (id, part) in parts {
        if request.wants(&[id]) {
            rest.extend(part(bench)?);
        }
    }
    let model = || {
        predict::outcome(
            ("model", "N29", "The paper's lock, extrapolated"),
            &[
                "TCP's lock at 200 Mb/s, 164 µs a packet, and Table 1's latencies, event by event: a prediction for as many processors \
                 as the paper speaks of, which nothing here tests.",
                "The paper read 8 times at twelve processors with MD5 and expected the lock to saturate at about 16 with MD5 \
                 and 30 with DES. Its own figures give 10.6 and 55: the latency over the lock's share of it. By these the lock \
                 alone does not stop at 8.",
            ],
            &predict::of_paper(predict::PAPERS_LANES_MAX),
        )
    };
    let mut outcomes: Vec<Outcome> = [
        packets(bench),
        latencies(bench, Table::One),
        latencies(bench, Table::Two),
        pairs(bench),
        request.wants(&["N29"]).then(model),
        connections(bench),
        threads(bench),
    ]
    .into_iter()
    .flatten()
    .collect();
    outcomes.extend(rest);
    Ok(outcomes)
}

/// Notes on the counters of lanes.
const FOR_EACH: &str = "Turn, busy turns (the lane goes on with other work) and hand-offs are for each message of 4 KB; depth \
    is the most batches that one had to wait for; balance is the idlest lane's bytes over the busiest's.";

fn counters(ids: &[&str]) -> impl Iterator<Item = Measure> {
    let all = [
        Measure::cost("locked_ns", "TCP's turn, ns", "ns"),
        Measure::new("lock_wait", "found busy").decimals(2),
        Measure::new("map_wait", "waits for the map").decimals(3),
        Measure::new("hand_offs", "hand-offs").decimals(2),
        Measure::new("switches_per_s", "switches/s"),
        Measure::count("reorder_depth", "depth"),
        Measure::new("lane_balance", "lane balance").decimals(2),
    ];
    all.into_iter().filter(|measure| ids.contains(&&*measure.id)).collect::<Vec<_>>().into_iter()
}

/// Returns an experiment of rates and speedups over lanes: absolute, as the paper draws them, and relative to one
/// lane.
fn over_lanes((id, covers, title): (&str, &str, &str), notes: &[&str]) -> Experiment {
    let mut measures = vec![rate(), Measure::times("times", "times one lane")];
    measures.extend(counters(&[
        "locked_ns",
        "lock_wait",
        "hand_offs",
        "switches_per_s",
        "reorder_depth",
        "lane_balance",
    ]));
    // The rates of the stacks of one tier differ a hundredfold.
    let of = |measure, title| {
        Plot::new(Drawn::Lines, "lanes", measure, &["stack"]).titled(title).each("way").each("tier")
    };
    let plots = vec![
        of(RATE, "Rate").with_published().logarithmic(),
        of("times", "Speedup").with_published().with_ideal(),
    ];
    let experiment = Experiment::new(id, covers, title, &["stack", "way", "tier", "lanes"], measures);
    experiment.method(&[FOR_EACH]).notes(notes).shown(View::Cells, plots)
}

/// Measures packets of one connection (N26, N27).
fn packets(bench: &Bench<'_>) -> Option<Outcome> {
    let since = since_then(bench);
    let mut notes = vec![
        "The paper on one of its processors, sending: 138, 18, 4.6 (text; its Table 1 gives 3.65) and 1.5 Mb/s; with MD5 8 \
         times that on twelve, with DES and 3DES nearly twelve times, without either next to nothing.",
        "Tiers reference and native stand for the paper's processors; at tier best many packets are computed at a time. TCP's \
         turn holds no copy, no checksum and no digest.",
    ];
    notes.extend(since.as_deref());
    let experiment = over_lanes(("packets", "N26, N27", "Packet-level parallelism, one connection"), &notes);
    bench.outcome(experiment, &["N26", "N27"], published(&paper::PACKETS), |cells| {
        let mut claims = Vec::new();
        for pair in bench.cells.iter().filter(|cell| cell.at["id"] == PAIR && cell.at["by"] == "packet") {
            let id = if pair.at["way"] == "send" { "N26" } else { "N27" };
            let many = other(cells, pair, &[("id", id)]);
            let one = other(cells, pair, &[("id", id), ("lanes", "1")]);
            if pair.at["stack"] == STACKS[0]
                && let (Some(many), Some(one)) = (many, one)
            {
                let statement = format!(
                    "{}, {}: {} lanes on one connection stay below the cap, (unlocked + locked) / locked.",
                    STACKS[0], pair.at["way"], pair.at["lanes"]
                );
                claims.push(ratio("N29", statement, RATE, [many, one], (None, pair.figure("cap"))));
            }
        }
        for (direction, id) in Direction::ALL.into_iter().zip(["N26", "N27"]) {
            let rows = |lanes: usize| stacks_of(cells, id, direction, &STACKS[..4], lanes);
            claims.extend(gains(id, &rows(bench.most_lanes()), bench.most_lanes()));
            claims.extend(minimal(id, cells, direction, bench.most_lanes()));
            claims.extend(three_times(id, &rows(1)));
            // The paper says so of 3-DES alone where packets are received.
            let papers =
                if direction == Direction::Send { "very close to linear" } else { "essentially linear" };
            let is_linear = |cell: &&&Cell| {
                STACKS[3] == cell.at["stack"] || direction == Direction::Send && STACKS[2] == cell.at["stack"]
            };
            let rows = rows(bench.most_lanes());
            claims
                .extend(rows.iter().filter(is_linear).filter_map(|cell| speedups::linear(id, papers, cell)));
        }
        claims
    })
}

/// Returns the cells of these stacks in order, as the paper's processors ran them; those without tiers as they are.
fn stacks_of<'c>(
    cells: &'c [Cell],
    id: &str,
    direction: Direction,
    stacks: &[&str],
    lanes: usize,
) -> Vec<&'c Cell> {
    let lanes = lanes.to_string();
    let of = |stack: &str| {
        let tier = if has_tiers(stack) { "native" } else { ANY };
        let place =
            [("id", id), ("stack", stack), ("tier", tier), ("way", direction.name()), ("lanes", &*lanes)];
        find(cells, &crate::experiment::at(place))
    };
    stacks.iter().filter_map(|stack| of(stack)).collect()
}

/// Returns the claims that the gain of lanes rises with the cost of cryptography, step by step (N26, N27).
fn gains(id: &str, rows: &[&Cell], lanes: usize) -> Vec<Claim> {
    if lanes == 1 {
        return Vec::new();
    }
    let step = |pair: &[&Cell]| {
        let [less, more] = [pair[0], pair[1]].map(|cell| &*cell.at["stack"]);
        let statement = format!(
            "{}: {more} gains no less by {lanes} lanes than {less}, within 10 %: the paper's gain rises with the cost of \
             cryptography, and both DES and 3DES are “near linear”.",
            pair[0].at["way"]
        );
        ratio(id, statement, "times", [pair[1], pair[0]], (ALIKE.0, None))
    };
    rows.windows(2).map(step).collect()
}

/// The part of a perfect gain that is still called minimal. The paper gives no figure; a tenth of the way to linear is
/// less than its plot shows for MD5 by a factor of six.
const MINIMAL: f64 = 0.1;

/// Returns the claim that TCP/IP alone gains next to nothing by lanes (N26).
fn minimal(id: &str, cells: &[Cell], direction: Direction, lanes: usize) -> Option<Claim> {
    let most = stacks_of(cells, id, direction, &STACKS[..1], lanes).first().copied()?;
    let one = stacks_of(cells, id, direction, &STACKS[..1], 1).first().copied()?;
    let high = 1.0 + MINIMAL * (lanes - 1) as f64;
    let statement = format!(
        "{}, {}: {lanes} lanes on one connection gain next to nothing (the paper: “minimal”), at most {high:.2} times one.",
        STACKS[0], most.at["way"]
    );
    (lanes > 1).then(|| ratio(id, statement, RATE, [most, one], (None, Some(high))))
}

/// Returns the claim that triple DES takes three times as long as DES (N28): the paper's figures give 0.98 of that.
fn three_times(id: &str, rows: &[&Cell]) -> Option<Claim> {
    let [bare, digest, both, triple] = rows else { return None };
    // 3DES with TCP/IP, beside three times what DES adds, and TCP/IP once.
    let [bare, digest, both, whole] = [bare, digest, both, triple].map(|cell| cell.at.clone());
    let statement = format!(
        "{}, native: 3DES takes three times as long as DES, within 10 %, because its permutations at both ends are made once.",
        whole["way"]
    );
    let parts = vec![both.clone(), both.clone(), both, bare];
    let common = vec![digest.clone(), digest.clone(), digest];
    let shape = Shape::Sum { parts, common, whole, low: 0.9, high: 1.1 };
    Some(Claim::new((statement, &*format!("{id}, N28")), "us", shape))
}

/// Returns a comparison with the paper's processor, from this run's figures: of the time of a packet on one lane, and
/// of TCP's turn.
fn since_then(bench: &Bench<'_>) -> Option<String> {
    let one = |stack: &str, tier: &str| {
        let place = [("id", "N26"), ("stack", stack), ("tier", tier), ("lanes", "1")];
        find(&bench.cells, &crate::experiment::at(place))
    };
    let bare = one(STACKS[0], ANY)?;
    let times: Option<Vec<f64>> = paper::TABLE_1[1..]
        .iter()
        .map(|row| Some(row.send_us / one(row.stack, "native")?.figure("us")?))
        .collect();
    let times = times?;
    let [least, most] =
        [times.iter().copied().reduce(f64::min)?, times.iter().copied().reduce(f64::max)?].map(quantity);
    let range = if least == most { least } else { format!("{least} to {most}") };
    Some(format!(
        "Sending on one lane, packets with MD5 or DES take 1/{range} of the time in the paper's Table 1 at tier native, TCP/IP \
         alone 1/{}, and TCP's turn 1/{} of its 164 µs.",
        quantity(paper::TABLE_1[0].send_us / bare.figure("us")?),
        quantity(paper::LOCKED_US * 1e3 / bare.figure("locked_ns")?.max(1e-9)),
    ))
}

/// Compares lanes that work together with independent lanes (N26, N27, N31, N32), and with the model.
fn pairs(bench: &Bench<'_>) -> Option<Outcome> {
    let measures = vec![
        Measure::times("ratio", "over independent").decimals(3),
        Measure::rate("predicted", "predicted MB/s").predicted(),
        Measure::times("reached", "measured over predicted").decimals(3),
        Measure::new(predict::BASIS, "lanes"),
        Measure::new("cap", "cap").unit("times one lane").decimals(1).derived(),
    ];
    let notes = [
        "A stack whose lanes work together against as many stacks of one lane each, in alternating slices: 1 is perfect, and \
         what the machine does beside meets both.",
        "Predictions are the model's, fitted to each stack on one to four lanes: there what was measured over it says how well it \
         fits, and on more lanes, which the fit has not seen, whether it is right. By connections, lanes beyond the twelve have \
         nothing to do. The cap is (unlocked + locked) / locked: what no number of lanes passes on one connection.",
    ];
    let title = ("pairs", "N26, N27, N29, N31, N32", "Lanes together against lanes apart");
    let axes = ["stack", "by", "way", "tier", "lanes"];
    let experiment = Experiment::new(title.0, title.1, title.2, &axes, measures).notes(&notes);
    bench.outcome(experiment, &[PAIR], Vec::new(), |cells| {
        let mut claims = Vec::new();
        for cell in cells {
            let [stack, by, way, tier, lanes] = axes.map(|axis| &*cell.at[axis]);
            let direction = Direction::ALL[usize::from(way == "receive")];
            let source = ids(direction)[usize::from(by != "packet")];
            let mut bound = |source, statement, measure, bounds| {
                claims.push(Claim::bound((statement, source), measure, cell.at.clone(), bounds));
            };
            if tier == "native" {
                let statement = format!(
                    "{stack}, {way}, native: {lanes} lanes by {by} lose at most a tenth to independent stacks, which the lab calls \
                     alike in every study."
                );
                bound(source, statement, "ratio", (ALIKE.0, None));
            }
            if lanes_of(cell) > FITTED_MAX {
                let statement = format!(
                    "{stack}, {way}, {tier}: {lanes} lanes by {by} reach what the model, fitted on one to four, predicts, within 10 %."
                );
                bound("N29", statement, "reached", ALIKE);
            }
        }
        claims
    })
}

/// Compares twelve connections (N31, N32), which do not matter if cryptography dominates (N35).
fn connections(bench: &Bench<'_>) -> Option<Outcome> {
    let notes = [
        "The paper: good speedup without cryptography, linear with any; with DES 50 Mb/s on twelve processors, whether by \
         packets or by connections.",
        "Here a connection's lane shares nothing with the others but the caches and the memory.",
    ];
    let experiment =
        over_lanes(("connections", "N31, N32", "Connection-level parallelism, twelve connections"), &notes);
    let most = bench.most_lanes();
    bench
        .outcome(experiment, &["N26", "N27", "N31", "N32"], published(&paper::CONNECTIONS), |cells| {
            let widest = |cell: &&Cell| {
                lanes_of(cell) == most
                    && cell.at["tier"] == "native"
                    && STACKS[3..].contains(&&*cell.at["stack"])
            };
            let mut claims = Vec::new();
            for connection in cells.iter().filter(widest).filter(|cell| cell.at["by"] == "connection") {
                let way = &*connection.at["way"];
                let id = if way == "send" { "N26" } else { "N27" };
                let Some(packet) =
                    other(cells, connection, &[("id", id), ("by", "packet"), ("connections", "1")])
                else {
                    continue;
                };
                let stack = &connection.at["stack"];
                let statement = format!(
                    "{stack}, {way}, native: by packets and by connections, the same rate within 10 %."
                );
                claims.push(ratio(id, statement, RATE, [packet, connection], ALIKE));
            }
            for (direction, id) in Direction::ALL.into_iter().zip(["N31", "N32"]) {
                let with = [STACKS[1], STACKS[2], STACKS[4]];
                let rows = stacks_of(cells, id, direction, &with, most);
                claims.extend(
                    rows.into_iter().filter_map(|cell| speedups::linear(id, "essentially linear", cell)),
                );
            }
            let bare =
                |id: &str, direction| stacks_of(cells, id, direction, &STACKS[..1], most).first().copied();
            claims.extend(bare("N31", Direction::Send).and_then(|cell| speedups::good("N31", cell)));
            if let (Some(send), Some(receive)) =
                (bare("N31", Direction::Send), bare("N32", Direction::Receive))
            {
                let statement = format!(
                    "{}, {most} lanes: receiving is faster than sending, as in the paper.",
                    STACKS[0]
                );
                claims.push(ratio("N32", statement, RATE, [receive, send], at_least(1.0)));
                if most > 1 {
                    let statement = format!(
                        "{}: receiving gains more by {most} lanes than sending, as in the paper.",
                        STACKS[0]
                    );
                    claims.push(ratio("N32", statement, "times", [receive, send], at_least(1.0)));
                }
            }
            claims
        })
        .map(|mut outcome| {
            outcome.cells.retain(|cell| cell.role == Role::Published || cell.at["by"] == "connection");
            outcome
        })
        .filter(|outcome| outcome.cells.iter().any(|cell| cell.role == Role::Own))
}

/// Measures the paper's own scheme by connections, a thread for each (N21, N31 to N33), beside lanes that have several each.
fn threads(bench: &Bench<'_>) -> Option<Outcome> {
    let measures = vec![
        rate(),
        Measure::times("times", "times one processor"),
        Measure::cost("us", "µs a packet", "µs"),
        Measure::times("over_lanes", "over lanes by connection"),
    ];
    let notes = [
        "The paper's test bed by connections has a thread for each of twelve connections, on one to twelve processors; ours has a          lane for each processor, which asks its connections in turn. Here both are measured: twelve threads that may use so many          processors, over as many lanes.",
    ];
    let axes = ["stack", "way", "tier", "lanes"];
    let title = "A thread for each of twelve connections, on few processors";
    let mut experiment = Experiment::new("threads", "N31, N32, N33", title, &axes, measures).notes(&notes);
    experiment.plots = vec![
        Plot::new(Drawn::Lines, "lanes", "times", &["stack"]).titled("Speedup").each("way").with_ideal(),
    ];
    let most = bench.most_lanes();
    let outcome = bench.outcome(experiment, &[THREADS_ID], Vec::new(), |cells| {
        let mut claims = Vec::new();
        for cell in cells.iter().filter(|cell| lanes_of(cell) == most && has_tiers(&cell.at["stack"])) {
            let id = if cell.at["way"] == "send" { "N31" } else { "N32" };
            if [STACKS[1], STACKS[2], STACKS[4]].contains(&&*cell.at["stack"]) {
                claims.extend(speedups::linear(id, "essentially linear", cell));
            }
            let by_lanes = [("id", id), ("by", "connection")];
            if let Some(lanes) = other(&bench.cells, cell, &by_lanes) {
                let statement = format!(
                    "{}, {}, native: twelve threads on {most} processors are as fast as {most} lanes, within 10 %.",
                    cell.at["stack"], cell.at["way"]
                );
                let bounds = ALIKE;
                if derive::over(cell, lanes, RATE).is_some() {
                    claims.push(Claim::bound((statement, id), "over_lanes", cell.at.clone(), bounds));
                }
            }
        }
        claims
    })?;
    let mut cells = outcome.cells;
    for cell in &mut cells {
        let id = if cell.at["way"] == "send" { "N31" } else { "N32" };
        let Some(lanes) = other(&bench.cells, cell, &[("id", id), ("by", "connection")]) else { continue };
        if let Some(ratio) = derive::over(cell, lanes, RATE) {
            *cell = cell.clone().with("over_lanes", ratio).behind(lanes.runs());
        }
    }
    Some(Outcome::new(outcome.experiment, cells))
}

/// Compares one connection's lock with those of several, with order restored or not (N20). Only received packets are
/// left out of order: the driver that accepts sent packets keeps no segment for later, as none of its packets is
/// late.
fn locks(bench: &mut Bench<'_>) -> Result<Option<Outcome>, LabError> {
    let lanes = bench.most_lanes();
    for stack in [STACKS[0], MODERN] {
        for direction in Direction::ALL {
            let one = Setup { lanes, ..Setup::new(stack, direction, None) };
            let several = Setup { connections: CONNECTIONS, ..one.clone() };
            let apart = Setup { placement: Placement::Connection, ..several.clone() };
            let mut setups = vec![one.clone(), several, apart];
            if direction == Direction::Receive {
                setups.push(Setup { keeps_order: false, ..one });
            }
            bench.beside_the_first("N20", setups)?;
        }
    }
    let mut measures = vec![rate(), Measure::times("times", "times the first")];
    measures.extend(counters(&["locked_ns", "lock_wait", "map_wait", "reorder_depth"]));
    let notes = [
        "The paper's test bed by packets locks TCP's state and each protocol's active map, which says whose packet it is; its \
         test bed by connections has a packet filter and no lock.",
        "By packets all lanes share one map behind one lock, taken once a batch; by connections each lane reads a table that \
         never changes. Busy turns and waits are for each message of 4 KB.",
    ];
    let axes = ["stack", "way", "by", "connections", "order", "lanes"];
    let experiment = Experiment::new("locks", "N20", "Locks and order", &axes, measures).notes(&notes);
    Ok(bench.outcome(experiment, &["N20"], Vec::new(), |cells| {
        let is_one = |cell: &&Cell| {
            cell.at["by"] == "packet" && cell.at["connections"] == "1" && cell.at["order"] == "kept"
        };
        let mut claims = Vec::new();
        for one in cells.iter().filter(is_one) {
            let what = format!("{}, {}", one.at["stack"], one.at["way"]);
            if let Some(several) = other(cells, one, &[("connections", "12")]) {
                let statement =
                    format!("{what}: by packet, twelve connections' locks are faster than one's.");
                claims.push(ratio("N20", statement, RATE, [several, one], at_least(1.0)));
            }
            if let Some(unordered) = other(cells, one, &[("order", "as it comes")]) {
                let statement = format!(
                    "{what}: with order restored no slower than where TCP has to put segments in order."
                );
                claims.push(ratio("N20", statement, RATE, [one, unordered], at_least(1.0)));
            }
        }
        claims
    }))
}

/// Compares UDP with TCP (N30).
fn udp(bench: &mut Bench<'_>) -> Result<Option<Outcome>, LabError> {
    for direction in Direction::ALL {
        for stack in STACKS {
            let over = |transport: &str| {
                let one = Setup::new(&stack.replace("tcp", transport), direction, Some(Tier::Native));
                bench.lanes.iter().map(|&lanes| ("N30", Setup { lanes, ..one.clone() })).collect::<Vec<_>>()
            };
            // Both take turns, so that other load affects both.
            let setups = [over("udp"), over("tcp")].concat();
            let mut cells = bench.take_turns(&setups)?;
            let each = bench.lanes.len();
            super::over(&mut cells, |at| Some(at / each * each));
            bench.cells.extend(cells);
        }
    }
    let notes = [
        "The paper (not shown there): without cryptography one connection speeds up much better over UDP than over TCP, with \
         it the difference disappears.",
        "Over UDP nothing is taken in turn but the order at both ends, over TCP its state as well. Datagrams go through in \
         bursts of up to 32, TCP's segments, of which a window holds few, in batches of up to 8. Whether ours is as the \
         paper's, the claims below say.",
    ];
    let most = bench.most_lanes().to_string();
    let experiment = over_lanes(("udp", "N30", "UDP beside TCP, one connection"), &notes);
    // Ten lines say less than their five ratios, which the next table draws.
    let experiment = Experiment { plots: Vec::new(), ..experiment };
    Ok(bench.outcome(experiment, &["N30"], Vec::new(), |cells| {
        let mut claims = Vec::new();
        for udp in cells.iter().filter(|cell| cell.at["lanes"] == most && cell.at["stack"].contains("udp")) {
            let (over_udp, way) = (&*udp.at["stack"], &*udp.at["way"]);
            let stack = over_udp.replace("udp", "tcp");
            let Some(tcp) = other(cells, udp, &[("stack", &stack)]) else { continue };
            if most != "1" && (stack == STACKS[0] || STACKS[2..].contains(&&*stack)) {
                let over_one = |cell: &Cell| [cell.at.clone(), cell.elsewhere(&[("lanes", "1")])];
                let (numerator, denominator) = (over_one(udp), over_one(tcp));
                let (words, (low, high)) = if stack == STACKS[0] {
                    ("without cryptography one connection gains more by lanes over UDP", at_least(1.0))
                } else {
                    ("with cryptography the gain over UDP is that over TCP, within 10 %", ALIKE)
                };
                let statement = format!("{stack}, {way}: {words}.");
                let shape = Shape::RatioOfRatios { numerator, denominator, low, high };
                claims.push(Claim::new((statement, "N30"), RATE, shape));
            }
            if STACKS[2..].contains(&&*stack) {
                let statement = format!(
                    "{over_udp}, {way}, native: over UDP one connection is as fast as over TCP, within 10 %."
                );
                claims.push(ratio("N30", statement, RATE, [udp, tcp], ALIKE));
            }
        }
        claims
    }))
}

/// The stacks whose ratios are drawn, by their cryptography.
const KINDS: [(&str, &str); 3] =
    [("none", STACKS[0]), ("a digest", STACKS[1]), ("a digest and a cipher", STACKS[4])];

/// Draws UDP over TCP (N30): one line for each kind of cryptography, where the paper speaks of a difference that disappears.
fn udp_over_tcp(bench: &mut Bench<'_>) -> Result<Option<Outcome>, LabError> {
    let axes = ["cryptography", "way", "lanes"];
    let mut cells = Vec::new();
    for (kind, stack) in KINDS {
        let over_udp = stack.replace("tcp", "udp");
        for udp in bench.cells.iter().filter(|cell| cell.at["id"] == "N30" && cell.at["stack"] == over_udp) {
            let Some(tcp) = other(&bench.cells, udp, &[("stack", stack)]) else { continue };
            let place = axes.into_iter().zip([kind, &*udp.at["way"], &*udp.at["lanes"]]);
            let ratio = derive::over(udp, tcp, RATE);
            cells.push(Cell::new(place).with_some("over_tcp", ratio).behind(udp.runs() + tcp.runs()));
        }
    }
    let title = "UDP over TCP by the cost of cryptography, one connection";
    let measures = vec![Measure::times("over_tcp", "UDP over TCP")];
    let experiment = Experiment::new("udp-over-tcp", "N30", title, &axes, measures);
    let plot = Plot::new(Drawn::Lines, "lanes", "over_tcp", &axes[..1]).titled("Rate over TCP's").each("way");
    let experiment = experiment.of(NDSS_TITLE).shown(View::Cells, vec![plot]);
    Ok((!cells.is_empty()).then(|| Outcome::new(experiment, cells)))
}

/// Compares threads for connections with threads for processors (N34).
fn fairness(bench: &mut Bench<'_>) -> Result<Option<Outcome>, LabError> {
    let lanes = bench.most_lanes();
    let usual = bench.timing;
    let counts: &[usize] = match bench.request.profile {
        Profile::Smoke => &[CONNECTIONS],
        // The ends of the paper's axis.
        Profile::Quick => &[CONNECTIONS, 384],
        Profile::Full | Profile::Paper => &[CONNECTIONS, 96, 384],
    };
    for (stack, tier) in [(STACKS[0], None), (STACKS[4], Some(Tier::Native)), (MODERN, None)] {
        for &connections in counts {
            bench.timing = usual.of_connections(connections);
            let one = Setup {
                connections,
                placement: Placement::Connection,
                ..Setup::new(stack, Direction::Send, tier)
            };
            let threads = Setup { is_apart: true, ..one.clone() };
            bench.beside_the_first("N34", vec![Setup { lanes, ..one }, threads])?;
        }
    }
    bench.timing = usual;
    let mut measures = vec![
        rate(),
        Measure::new("jain", "Jain's index").decimals(3),
        Measure::new("max_over_min", "max / min").decimals(2),
    ];
    measures.extend(counters(&["switches_per_s"]));
    let notes = [
        "The paper (figure 11): without cryptography a thread for each connection gives more in all, a thread for each processor \
         is fairer; with cryptography the difference disappears.",
        "By connection, a lane asks its connections in turn; a thread has one connection to itself for as long as the scheduler \
         lets it run. How fair a slice was is said only where each connection had ten batches.",
    ];
    let axes = ["stack", "by", "tier", "connections", "lanes"];
    let plots = vec![
        Plot::new(Drawn::Lines, "connections", RATE, &["by"]).titled("Rate").each("stack"),
        Plot::new(Drawn::Lines, "connections", "jain", &["by"]).titled("Jain's index").each("stack"),
    ];
    let experiment = Experiment::new("fairness", "N34", "Connections", &axes, measures).notes(&notes);
    Ok(bench.outcome(experiment.shown(View::Cells, plots), &["N34"], Vec::new(), |cells| {
        let mut claims = Vec::new();
        for threads in cells.iter().filter(|cell| cell.at["by"] == THREADS) {
            let [stack, tier, connections] = ["stack", "tier", "connections"].map(|axis| &*threads.at[axis]);
            let lanes = lanes.to_string();
            let Some(processors) = other(cells, threads, &[("by", "connection"), ("lanes", &lanes)]) else {
                continue;
            };
            let (what, bounds) = match (tier, stack == STACKS[0]) {
                ("native", _) => ("with cryptography both give the same in all, within 10 %", ALIKE),
                (_, true) => {
                    ("without cryptography a thread for each connection gives more in all", at_least(1.0))
                }
                _ => continue,
            };
            let statement = format!("{stack}, {connections} connections: {what}.");
            claims.push(ratio("N34", statement, RATE, [threads, processors], bounds));
            let statement = format!(
                "{stack}, {connections} connections: a thread for each processor is no less fair (Jain)."
            );
            claims.push(ratio("N34", statement, "jain", [processors, threads], at_least(1.0)));
        }
        claims
    }))
}

/// Compares layers, functions and blocks (N36), each where it can gain, with one lane and with packets.
fn units(bench: &mut Bench<'_>) -> Result<Option<Outcome>, LabError> {
    let lanes = bench.most_lanes();
    let native = Some(Tier::Native);
    let mut by_cost = Vec::new();
    if lanes > 1 {
        for direction in Direction::ALL {
            let one = Setup::new(STACKS[2], direction, native);
            by_cost.extend(layers::measure(bench, &one, lanes)?.map(|by| (direction.name(), by)));
        }
    }
    let cases = [
        ("etm(des,hmac-md5)/tcp/ip/fddi", Direction::Receive, Placement::Function),
        ("des-ecb/tcp/ip/fddi", Direction::Send, Placement::Block),
        ("aes-128-ctr/tcp/ip/fddi", Direction::Send, Placement::Block),
        ("des/tcp/ip/fddi", Direction::Receive, Placement::Block),
    ];
    let short = cases.map(|(stack, direction, placement)| (Setup::new(stack, direction, native), placement));
    let long = TREES.iter().flat_map(|stack| {
        Direction::ALL.map(|direction| {
            (Setup { message_bytes: LONG_BYTES, ..Setup::new(stack, direction, native) }, Placement::Block)
        })
    });
    for (one, placement) in short.into_iter().chain(long) {
        let packet = Setup { lanes, ..one.clone() };
        let parts = Setup { placement, ..packet.clone() };
        bench.beside_the_first("N36", vec![one, packet, parts])?;
    }
    let mut measures = vec![rate(), Measure::times("times", "times one lane")];
    measures.extend(counters(&["lock_wait", "hand_offs", "switches_per_s", "reorder_depth"]));
    let notes = [
        "Tier native, one connection. The paper draws layers and packets, and names functions and blocks.",
        "Layers gain at most what the slowest one leaves of the whole, and every packet changes lanes. They are spread by their \
         measured cost, given to lanes in turn, and cut in every way into neighbours; a bar stands between lanes. Functions gain on \
         opening: authenticator and cipher read the same ciphertext. Blocks gain where a mode lets them: ECB and CTR both ways, \
         CBC when it is opened, so the two ends of one connection may cut it differently. BLAKE3 is a tree: its subtrees are \
         pieces too, in the rows over links of 64 KiB, whose messages fill a packet; the others have 4 KB.",
    ];
    let axes = ["stack", "by", "way", "lanes"];
    let experiment =
        Experiment::new("parts", "N36", "Layers, functions and blocks", &axes, measures).notes(&notes);
    Ok(bench.outcome(experiment, &["N36"], Vec::new(), |cells| {
        let mut claims = Vec::new();
        let is_of_parts = |cell: &&Cell| {
            lanes_of(cell) > 1 && cell.at["by"] != "packet" && !assignments::is_layers(&cell.at["by"])
        };
        for cell in cells.iter().filter(is_of_parts) {
            let [stack, by, way, lanes] = axes.map(|axis| &*cell.at[axis]);
            let Some(compared) = other(cells, cell, &[("by", "packet"), ("lanes", "1")]) else {
                continue;
            };
            let (what, bounds) = if stack.starts_with("aes") {
                // With instructions for AES, encryption is finished before another lane has its copy, so a packet
                // stays whole.
                ("are as fast as one, within 10 %", at_least(0.9))
            } else {
                ("are faster than one", at_least(1.0))
            };
            let statement = format!("{stack}, {way}: {lanes} lanes by {by} {what}.");
            claims.push(ratio("N36", statement, RATE, [cell, compared], bounds));
        }
        claims.extend(by_cost.iter().flat_map(|(way, by)| layers::claims(cells, way, by)));
        claims
    }))
}
