//! The study as tables for a terminal and as a page: the paper's number, ours, and the sentence between them.

use super::{Cell, Direction, Pair, Study, paper, predict, sentences};
use crate::LabError;
use crate::report::number::{bytes, quantity};
use crate::speed::{Section, SpeedPage, Table, chart};
use std::path::Path;

/// What the page says of itself.
const SUMMARY: &str = "The stacks of Nahum et al. (NDSS 1996) on this machine: any layers over a TCP that lanes share, fed \
    by drivers in memory. Setups that are compared took turns in short slices of one run; medians count.";

/// All that a study says.
pub fn sections(study: &Study) -> Vec<Section> {
    let of = |ids: &[&str]| study.cells.iter().filter(|cell| ids.contains(&cell.id)).collect::<Vec<_>>();
    let mut sections = Vec::new();
    let mut push = |section: Option<Section>| sections.extend(section);
    push(rates(
        "packets",
        "Packet-level parallelism, one connection (N26, N27)",
        &[
            "The paper on one of its processors, sending: 138, 18, 4.6 (text; its Table 1 gives 3.65) and 1.5 Mb/s; with MD5 8 \
         times that on twelve, with DES and 3DES nearly twelve times, without either next to nothing.",
            "Why ours differs: a processor of today computes MD5 and DES 30 to 100 times as fast, and at tier best many packets \
         at a time, while TCP's turn has become shorter still: it holds no copy, no checksum and no digest. Tiers reference \
         and native stand for the paper's processors, on which cryptography decides.",
        ],
        &of(&["N26", "N27"]),
    ));
    push(latencies("What layers add on one lane (N28, Table 1)", &paper::TABLE_1, &of(&["N26", "N27"])));
    push(latencies(
        "What layers add on one lane, twelve connections (N33, Table 2)",
        &paper::TABLE_2,
        &of(&["N31", "N32"]),
    ));
    push(sums(study));
    push(pairs(&study.pairs));
    push(locks(&of(&["N20"])));
    if !study.pairs.is_empty() {
        push(Some(predict::section(
            "model",
            "The paper's lock, extrapolated (N29)",
            &[
                "TCP's lock at 200 Mb/s, 164 µs a packet, and Table 1's latencies, event by event.",
                "The paper read 8 times at twelve processors with MD5 and expected the lock to saturate at about 16 with MD5 and \
             30 with DES. Its own figures give 10.6 and 55: the latency over the lock's share of it. So what stopped at 8 was \
             not the lock alone; the paper names the memory bus.",
            ],
            &predict::of_paper(predict::LANES_MAX),
        )));
    }
    if !study.predictions.is_empty() {
        push(Some(predict::section(
            "signatures",
            "A signature for each packet (N3, N29)",
            &[
                "The paper expects packets signed with RSA to gain linearly. A prediction: TCP/IP as measured here on one lane, and \
             an RSA signature of 2048 bits by AWS-LC, measured alone, outside of TCP's turn; no layer signs packets.",
                "Why it is so: the cap is what a packet costs over its time in TCP's turn, and a signature costs far \
             more than that turn.",
            ],
            &study.predictions,
        )));
    }
    push(rates(
        "udp",
        "UDP, one connection (N30)",
        &[
            "The paper (not shown there): without cryptography one connection speeds up much better over UDP than over TCP, with it \
         the difference disappears.",
            "Why ours is alike: over UDP nothing is taken in turn but the order at both ends, over TCP its state as well; either \
         is short beside a cipher.",
        ],
        &of(&["N30"]),
    ));
    push(rates(
        "connections",
        "Connection-level parallelism, twelve connections (N31, N32)",
        &[
            "The paper: good speedup without cryptography, linear with any; with DES 50 Mb/s on twelve processors, whether by \
         packets or by connections.",
            "Why ours is alike: a connection's lane shares nothing with the others but the caches and the memory.",
        ],
        &of(&["N31", "N32"]),
    ));
    push(connections(&of(&["N34"])));
    push(parts(&of(&["N36"])));
    push(passes(study));
    push(sentences::section(&study.sentences));
    if !study.refused.is_empty() {
        let mut table = Table::new("What is not measured, and why", &[], &["what"], 1);
        table.rows = study.refused.iter().map(|line| vec![line.clone()]).collect();
        sections.push(Section::plain(table));
    }
    sections
}

/// Writes a page.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, seconds: f64, sections: Vec<Section>) -> Result<(), LabError> {
    let page = SpeedPage::new("Parallel protocol stacks", seconds, sections);
    page.by("sealane lab stacks", SUMMARY).write(path)
}

fn or_dash(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.decimals$}"))
}

/// Rates and speedups, plotted over lanes where there are several.
fn rates(id: &str, title: &str, notes: &[&str], cells: &[&Cell]) -> Option<Section> {
    if cells.is_empty() {
        return None;
    }
    let columns = [
        "stack",
        "way",
        "tier",
        "lanes",
        "MB/s",
        "90 %",
        "times one lane",
        "TCP's turn, ns",
        "found busy",
        "hand-offs",
        "switches/s",
        "depth",
        "lane balance",
    ];
    let mut table = Table::new(title, notes, &columns, 3);
    table.notes.push(
        "Turn, busy turns (the lane goes on with other work) and hand-offs are for each message of 4 KB; depth is the most \
         batches that one had to wait for; balance is the idlest lane's bytes over the busiest's."
            .to_owned(),
    );
    for cell in cells {
        table.rows.push(vec![
            cell.stack.clone(),
            cell.direction.name().to_owned(),
            cell.tier.to_owned(),
            cell.lanes.to_string(),
            quantity(cell.mb_per_s),
            cell.interval.map_or_else(
                || "–".to_owned(),
                |interval| format!("{}…{}", quantity(interval.low), quantity(interval.high)),
            ),
            or_dash(cell.speedup, 2),
            quantity(cell.locked_ns),
            format!("{:.2}", cell.lock_wait),
            format!("{:.2}", cell.hand_offs),
            quantity(cell.switches_per_s),
            cell.reorder_depth.to_string(),
            or_dash(cell.lane_balance, 2),
        ]);
    }
    let mut lanes: Vec<usize> = cells.iter().map(|cell| cell.lanes).collect();
    lanes.sort_unstable();
    lanes.dedup();
    if lanes.len() < 2 {
        return Some(Section::plain(table));
    }
    let charts = Direction::ALL.iter().filter_map(|&direction| {
        let mut series: Vec<(String, Vec<Option<f64>>)> = Vec::new();
        for cell in cells.iter().filter(|cell| cell.direction == direction && cell.tier != "reference") {
            let name = format!("{} {}", cell.stack, cell.tier);
            let at = series.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
                series.push((name, vec![None; lanes.len()]));
                series.len() - 1
            });
            let place = lanes.iter().position(|&count| count == cell.lanes).expect("one of all");
            series[at].1[place] = cell.speedup;
        }
        let labels = lanes.iter().map(usize::to_string).collect();
        let title = format!("Speedup, {}", direction.name());
        let plot = chart(
            &format!("{id}-{}", direction.name()),
            "lines",
            (&title, "lanes", "times one lane"),
            labels,
            series,
        );
        (!plot.series.is_empty()).then_some(plot)
    });
    Some(Section::plotted(table, charts.collect()))
}

/// Microseconds of a message of 4 KB.
fn us(cell: &Cell) -> f64 {
    super::message_us(cell.mb_per_s)
}

fn find<'a>(cells: &[&'a Cell], stack: &str, direction: Direction, tier: &str) -> Option<&'a Cell> {
    let is_it = |cell: &&&Cell| {
        let has_tiers = stack != super::STACKS[0];
        cell.stack == stack
            && cell.direction == direction
            && cell.lanes == 1
            && (!has_tiers || cell.tier == tier)
    };
    cells.iter().find(is_it).copied()
}

fn latencies(title: &str, rows: &[paper::Latency], cells: &[&Cell]) -> Option<Section> {
    let columns = [
        "stack",
        "tier",
        "paper: send µs",
        "more",
        "receive µs",
        "more",
        "ours: send µs",
        "more",
        "receive µs",
        "more",
    ];
    let notes = [
        "Microseconds of a packet of 4 KB on one lane, and what that is more than without the layers above TCP/IP.",
        "Why ours differ: 100 MHz then; the proportions of tier reference are the paper's question, those of best today's.",
    ];
    let mut table = Table::new(title, &notes, &columns, 2);
    for tier in ["reference", "native", "best"] {
        for row in rows {
            let own = |direction| find(cells, row.stack, direction, tier).map(us);
            let base = |direction| find(cells, rows[0].stack, direction, tier).map(us);
            let mut line = vec![row.stack.to_owned(), tier.to_owned()];
            for (us, base) in [(row.send_us, rows[0].send_us), (row.receive_us, rows[0].receive_us)] {
                line.extend([quantity(us), quantity(us - base)]);
            }
            if own(Direction::Send).is_none() && own(Direction::Receive).is_none() {
                continue;
            }
            for direction in Direction::ALL {
                let more = own(direction).zip(base(direction)).map(|(own, base)| own - base);
                line.extend([or_dash(own(direction), 2), or_dash(more, 2)]);
            }
            table.rows.push(line);
        }
    }
    (!table.rows.is_empty()).then(|| Section::plain(table))
}

/// Whether what layers cost alone adds up to what they cost together.
fn sums(study: &Study) -> Option<Section> {
    let columns =
        ["way", "TCP/IP µs", "MD5 more", "DES more", "sum", "DES and MD5 together", "together over sum"];
    let notes = [
        "One lane, tier native, in alternating slices. The paper: MD5 about 1500 µs, DES about 7200 µs, together 8746 µs (sum \
         8700).",
    ];
    let mut table = Table::new("Whether costs add up (N28)", &notes, &columns, 1);
    for direction in Direction::ALL {
        let Some(cells) = study.parts_of_a_sum(direction) else { continue };
        let [bare, digest, cipher, both] = cells.map(us);
        let sum = digest + cipher - bare;
        let values = [bare, digest - bare, cipher - bare, sum, both].map(|value| format!("{value:.2}"));
        let mut row = vec![direction.name().to_owned()];
        row.extend(values);
        row.push(format!("{:.3}", both / sum));
        table.rows.push(row);
    }
    (!table.rows.is_empty()).then(|| Section::plain(table))
}

/// One lock or several, and what order costs.
fn locks(cells: &[&Cell]) -> Option<Section> {
    let columns = [
        "stack",
        "way",
        "by",
        "connections",
        "order",
        "lanes",
        "MB/s",
        "times the first",
        "TCP's turn, ns",
        "found busy",
        "waits for the map",
        "depth",
    ];
    let notes = [
        "The paper's test bed by packets locks TCP's state and each protocol's active map, which says whose packet it is; \
         its test bed by connections has a packet filter and no lock.",
        "By packets all lanes share one map behind one lock, taken once a batch; by connections each lane reads a table that \
         never changes. Busy turns and waits are for each message of 4 KB.",
    ];
    let mut table = Table::new("Locks and order (N20, N21)", &notes, &columns, 3);
    for cell in cells {
        table.rows.push(vec![
            cell.stack.clone(),
            cell.direction.name().to_owned(),
            cell.placement.to_owned(),
            cell.connections.to_string(),
            if cell.keeps_order { "kept" } else { "as it comes" }.to_owned(),
            cell.lanes.to_string(),
            quantity(cell.mb_per_s),
            or_dash(cell.speedup, 2),
            quantity(cell.locked_ns),
            format!("{:.2}", cell.lock_wait),
            format!("{:.3}", cell.map_wait),
            cell.reorder_depth.to_string(),
        ]);
    }
    (!table.rows.is_empty()).then(|| Section::plain(table))
}

fn pairs(pairs: &[Pair]) -> Option<Section> {
    let columns = [
        "stack",
        "by",
        "way",
        "tier",
        "lanes",
        "over independent",
        "90 %",
        "predicted MB/s",
        "measured is off by",
        "cap",
    ];
    let notes = [
        "A stack whose lanes work together against as many stacks of one lane each, in alternating slices: 1 is perfect, and \
         what the machine does beside meets both.",
        "Predictions are the model's, from the independent stacks' costs and what sharing costs TCP/IP on two lanes, which \
         therefore has no prediction. The cap is (unlocked + locked) \
         / locked: what no number of lanes passes on one connection.",
    ];
    let mut table = Table::new("Lanes together against lanes apart", &notes, &columns, 4);
    let is_bare =
        |pair: &&Pair| pair.stack == super::STACKS[0] && pair.placement == "packet" && pair.lanes == 2;
    for pair in pairs.iter().filter(is_bare) {
        table.notes.push(format!(
            "{}, {}: (unlocked + locked) / locked is {:.1}, so no number of lanes makes one connection faster than {:.1} times \
             one lane.",
            pair.stack,
            pair.direction.name(),
            pair.cap,
            pair.cap
        ));
    }
    for pair in pairs {
        let error = pair.error.map_or_else(|| "–".to_owned(), |error| format!("{:+.1} %", error * 100.0));
        table.rows.push(vec![
            pair.stack.clone(),
            pair.placement.to_owned(),
            pair.direction.name().to_owned(),
            pair.tier.to_owned(),
            pair.lanes.to_string(),
            format!("{:.3}", pair.ratio),
            format!("{:.3}…{:.3}", pair.interval.low, pair.interval.high),
            pair.predicted_mb_per_s.map_or_else(|| "–".to_owned(), quantity),
            error,
            format!("{:.1}", pair.cap),
        ]);
    }
    (!table.rows.is_empty()).then(|| Section::plain(table))
}

fn connections(cells: &[&Cell]) -> Option<Section> {
    let columns = [
        "stack",
        "threads by",
        "tier",
        "connections",
        "threads",
        "MB/s",
        "Jain's index",
        "max / min",
        "switches/s",
    ];
    let notes = [
        "The paper (figure 11): without cryptography a thread for each connection gives more in all, a thread for each \
         processor is fairer; with cryptography the difference disappears.",
        "Why ours is alike: a lane asks its connections in turn, so they get the same, but each finds its buffers and its state \
         gone from the caches; a thread has one connection to itself for as long as the scheduler lets it run, so few of many \
         get anything within a slice.",
    ];
    let mut table = Table::new("Connections (N34)", &notes, &columns, 3);
    for cell in cells {
        let by = if cell.placement == "connection" { "processor" } else { "connection" };
        table.rows.push(vec![
            cell.stack.clone(),
            by.to_owned(),
            cell.tier.to_owned(),
            cell.connections.to_string(),
            cell.lanes.to_string(),
            quantity(cell.mb_per_s),
            or_dash(cell.jain, 3),
            or_dash(cell.max_over_min, 2),
            quantity(cell.switches_per_s),
        ]);
    }
    (!table.rows.is_empty()).then(|| Section::plain(table))
}

fn parts(cells: &[&Cell]) -> Option<Section> {
    let columns = [
        "stack",
        "by",
        "way",
        "lanes",
        "MB/s",
        "times one lane",
        "hand-offs",
        "found busy",
        "switches/s",
        "depth",
    ];
    let notes = [
        "Tier native, one connection. The paper draws layers and packets, and names functions and blocks.",
        "Layers gain at most what the dearest leaves of the whole, and every packet changes lanes. Functions gain on \
         opening: authenticator and cipher read the same ciphertext. Blocks gain where a mode lets them: ECB and CTR both \
         ways, CBC when it is opened, so the two ends of one connection may cut it differently. BLAKE3 is a tree: its \
         subtrees are pieces too, in the rows over links of 64 KiB, whose messages fill a packet; the others have 4 KB.",
    ];
    let mut table = Table::new("Layers, functions and blocks (N7, N10, N11, N36)", &notes, &columns, 3);
    for cell in cells {
        table.rows.push(vec![
            cell.stack.clone(),
            cell.placement.to_owned(),
            cell.direction.name().to_owned(),
            cell.lanes.to_string(),
            quantity(cell.mb_per_s),
            or_dash(cell.speedup, 2),
            format!("{:.2}", cell.hand_offs),
            format!("{:.2}", cell.lock_wait),
            quantity(cell.switches_per_s),
            cell.reorder_depth.to_string(),
        ]);
    }
    (!table.rows.is_empty()).then(|| Section::plain(table))
}

fn passes(study: &Study) -> Option<Section> {
    let columns =
        ["layers", "packets", "one layer after another, MB/s", "one packet after another, MB/s", "gain"];
    let notes = [
        "ATOMIC-2's proposal: digest and checksum both touch every byte, so do both at once. Packets of 4 KB, kernels of one \
         message at a time.",
        "Why it gains little: a digest is bound by its own steps, not by memory; the gain is seen where all layers are light \
         and the packets do not fit into the caches.",
    ];
    let mut table = Table::new("Integrated layer processing (A12)", &notes, &columns, 1);
    for pass in &study.passes {
        table.rows.push(vec![
            pass.layers.to_owned(),
            bytes(pass.bytes as u64),
            quantity(pass.separate_mb_per_s),
            quantity(pass.fused_mb_per_s),
            format!("{:.2}", pass.gain()),
        ]);
    }
    (!table.rows.is_empty()).then(|| Section::plain(table))
}
