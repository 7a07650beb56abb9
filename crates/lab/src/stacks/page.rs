//! The study in the lab's frame: the paper's number, ours, and the sentence between them.
//!
//! Guarantees: tables, claims and the JSON of a run say the same figures; a claim stands below the table whose cells it is
//! about.

use super::{Pass, STACKS, Study, message_us, paper, predict, sentences};
use crate::experiment::{
    Cell, ClaimResult, Drawn, Experiment, Measure, Outcome, Plot, RATE, Role, Sample, Value, View, Written,
};
use crate::report::number::{bytes, quantity};
use crate::report::{Report, Tile};
use crate::stats::Interval;

/// Where the paper's figures are.
pub(super) const PAPER: &str = "Nahum, Yates, O'Malley, Orman, Schroeppel: Parallelized Network Security Protocols \
    (NDSS 1996), on twelve MIPS R4400 of 100 MHz, packets of 4 KB";

/// What the page says of itself.
const SUMMARY: &str = "The stacks of Nahum et al. (NDSS 1996) on this machine: any layers over a TCP that lanes share, fed \
    by drivers in memory. Setups that are compared took turns in short slices of one run; medians count.";

/// How rows are told apart.
const AXES: [&str; 4] = ["stack", "way", "tier", "lanes"];
/// The tier of rows that the paper printed.
const PAPERS_TIER: &str = "the paper";

/// All that a study says.
pub fn report(study: &Study) -> Report {
    let all = All::of(study);
    let mut outcomes = Vec::new();
    let mut notes = vec![
        "The paper on one of its processors, sending: 138, 18, 4.6 (text; its Table 1 gives 3.65) and 1.5 Mb/s; with MD5 8 \
         times that on twelve, with DES and 3DES nearly twelve times, without either next to nothing."
            .to_owned(),
    ];
    notes.extend(since_then(study));
    notes.push(
        "Tiers reference and native stand for the paper's processors; at tier best many packets are computed at a time. TCP's \
         turn holds no copy, no checksum and no digest."
            .to_owned(),
    );
    outcomes.extend(all.rates(
        ("packets", "N26, N27", "Packet-level parallelism, one connection"),
        &notes.iter().map(String::as_str).collect::<Vec<_>>(),
        published(&paper::PACKETS),
    ));
    for (id, title, covers, rows) in [
        ("latency", "What layers add on one lane (Table 1)", ["N28", "N26", "N27"], &paper::TABLE_1),
        (
            "latency-12",
            "What layers add, twelve connections (Table 2)",
            ["N33", "N31", "N32"],
            &paper::TABLE_2,
        ),
    ] {
        outcomes.extend(all.latencies((id, covers, title), rows));
    }
    outcomes.extend(all.sums());
    outcomes.extend(all.pairs());
    outcomes.extend(all.locks());
    if !study.pairs.is_empty() {
        outcomes.push(predict::outcome(
            ("model", "N29", "The paper's lock, extrapolated"),
            &[
                "TCP's lock at 200 Mb/s, 164 µs a packet, and Table 1's latencies, event by event: a prediction.",
                "The paper read 8 times at twelve processors with MD5 and expected the lock to saturate at about 16 with MD5 \
                 and 30 with DES. Its own figures give 10.6 and 55: the latency over the lock's share of it. By these the lock \
                 alone does not stop at 8.",
            ],
            &predict::of_paper(predict::LANES_MAX),
        ));
    }
    if !study.predictions.is_empty() {
        outcomes.push(predict::outcome(
            ("signatures", "N29", "A signature for each packet"),
            &[
                "The paper expects packets signed with RSA to gain linearly (N3). A prediction: TCP/IP as measured here on one \
                 lane, and an RSA signature of 2048 bits by AWS-LC, measured alone, outside of TCP's turn; no layer signs \
                 packets.",
                "The cap is what a packet costs over its time in TCP's turn.",
            ],
            &study.predictions,
        ));
    }
    outcomes.extend(all.rates(
        ("udp", "N30", "UDP beside TCP, one connection"),
        &[
            "The paper (not shown there): without cryptography one connection speeds up much better over UDP than over TCP, \
             with it the difference disappears.",
            "Over UDP nothing is taken in turn but the order at both ends, over TCP its state as well. Datagrams go through in \
             trains of up to 32, TCP's segments, of which a window holds few, in batches of up to 8. Whether ours is as the \
             paper's, the claims below say.",
        ],
        Vec::new(),
    ));
    outcomes.extend(all.rates(
        ("connections", "N31, N32", "Connection-level parallelism, twelve connections"),
        &[
            "The paper: good speedup without cryptography, linear with any; with DES 50 Mb/s on twelve processors, whether by \
             packets or by connections.",
            "Here a connection's lane shares nothing with the others but the caches and the memory.",
        ],
        published(&paper::CONNECTIONS),
    ));
    outcomes.extend(all.fairness());
    outcomes.extend(all.parts());
    outcomes.extend(all.passes());
    let mut report = Report::new("sealane lab stacks", "Parallel protocol stacks", SUMMARY, outcomes);
    report.tiles = tiles(study);
    report.skipped.clone_from(&study.refused);
    report.sources = vec![PAPER.to_owned()];
    report
}

/// By how much less time a packet takes on one lane than on the paper's processor, and TCP's turn: of this run's figures.
fn since_then(study: &Study) -> Option<String> {
    let one = |stack: &str, tier: &str| {
        let is_it = |cell: &&super::Cell| {
            cell.id == "N26"
                && cell.stack == stack
                && cell.lanes == 1
                && (stack == STACKS[0] || cell.tier == tier)
        };
        study.cells.iter().find(is_it)
    };
    let bare = one(STACKS[0], "")?;
    let times: Vec<f64> = paper::TABLE_1[1..]
        .iter()
        .filter_map(|row| Some(row.send_us / message_us(one(row.stack, "native")?.mb_per_s)))
        .collect();
    let (least, most) = (times.iter().copied().reduce(f64::min)?, times.iter().copied().reduce(f64::max)?);
    let range = match [least, most].map(quantity) {
        [least, most] if least == most => least,
        [least, most] => format!("{least} to {most}"),
    };
    Some(format!(
        "Sending on one lane, packets with MD5 or DES take 1/{range} of the time in the paper's Table 1 at tier native, TCP/IP \
         alone 1/{}, and TCP's turn 1/{} of its 164 µs.",
        quantity(paper::TABLE_1[0].send_us / message_us(bare.mb_per_s)),
        quantity(paper::LOCKED_US * 1e3 / bare.locked_ns.max(1e-9)),
    ))
}

/// Predictions as they are shown.
pub fn predicted(predictions: &[super::Prediction]) -> Report {
    let notes = [
        "Lanes that share TCP's lock on one connection, event by event: a prediction. Hand-over and spread (what a turn, and \
         what the rest of a packet's way, cost more on two lanes that share one connection) are measured on two lanes.",
    ];
    let outcome = predict::outcome(("predicted", "N29", "Lanes on one connection"), &notes, predictions);
    let summary =
        "What more lanes would gain: one lane measured on this machine, or the paper's table, and the model.";
    Report::new("sealane lab predict", "Lanes that share one connection", summary, vec![outcome])
}

/// What a reader should take home.
fn tiles(study: &Study) -> Vec<Tile> {
    let of = |stack: &str, is_it: &dyn Fn(&&super::Cell) -> bool| {
        let cells = study.cells.iter().filter(|cell| cell.id == "N26" && cell.stack == stack);
        cells.filter(is_it).max_by_key(|cell| cell.lanes)
    };
    let tile = |label: String, value: String, unit: &str, detail: &str| Tile {
        label,
        value,
        unit: unit.to_owned(),
        detail: detail.to_owned(),
    };
    let mut tiles = Vec::new();
    if let Some(bare) = of(STACKS[0], &|cell| cell.lanes == 1) {
        let turn = quantity(bare.locked_ns);
        tiles.push(tile("TCP's turn for a message of 4 KB".to_owned(), turn, "ns", "the paper: 164 µs"));
    }
    for (stack, detail) in [(STACKS[1], "the paper: 8 on 12"), (STACKS[2], "the paper: nearly 12 on 12")] {
        let native = of(stack, &|cell| cell.tier == "native" && cell.lanes > 1);
        if let Some((cell, times)) = native.and_then(|cell| Some((cell, cell.speedup?))) {
            let label = format!("{stack} on {} lanes, tier native", cell.lanes);
            tiles.push(tile(label, format!("{times:.2}"), "times one", detail));
        }
    }
    tiles
}

/// A study's cell in the frame.
pub(super) fn framed(cell: &super::Cell) -> Cell {
    let by = match (cell.id, cell.placement) {
        ("N34", "connection") => "processor-per-connection",
        (_, placement) => placement,
    };
    let [connections, lanes] = [cell.connections, cell.lanes].map(|count| count.to_string());
    let place = [
        ("id", cell.id),
        ("stack", &*cell.stack),
        ("way", cell.direction.name()),
        ("tier", cell.tier),
        ("lanes", &*lanes),
        ("by", by),
        ("connections", &*connections),
        ("order", if cell.keeps_order { "kept" } else { "as it comes" }),
    ];
    let sample = |(round, (rate, is_disturbed)): (usize, (&f64, &bool))| Sample {
        is_disturbed: *is_disturbed,
        ..Sample::slice(RATE, *rate, round)
    };
    let mut framed = Cell::new(place)
        .with_some("times", cell.speedup)
        .with("locked_ns", cell.locked_ns)
        .with("lock_wait", cell.lock_wait)
        .with("map_wait", cell.map_wait)
        .with("hand_offs", cell.hand_offs)
        .with("switches_per_s", cell.switches_per_s)
        .with("reorder_depth", cell.reorder_depth as f64)
        .with_some("lane_balance", cell.lane_balance)
        .with_some(
            "jain",
            cell.jain.map(|jain| cell.jain_interval.map_or(Value::Number(jain), |ends| range(jain, ends))),
        )
        .with_some("max_over_min", cell.max_over_min);
    framed.centre = cell.centre;
    framed.samples = cell.samples.iter().zip(&cell.disturbed).enumerate().map(sample).collect();
    framed.disturbed = vec![Sample { is_disturbed: true, ..Sample::default() }; cell.repeated];
    framed
}

/// A figure with its interval.
pub(super) fn range(value: f64, interval: Interval) -> Value {
    Value::Range { value, low: interval.low, high: interval.high }
}

/// The paper's rows.
fn published(rates: &[paper::Rate]) -> Vec<Cell> {
    let cell = |row: &paper::Rate| {
        let lanes = row.processors.to_string();
        let place = [("stack", row.stack), ("way", "send"), ("tier", PAPERS_TIER), ("lanes", &*lanes)];
        let cell = Cell::new(place).with_some(RATE, row.megabits.map(|megabits| megabits / 8.0));
        cell.with("times", row.times).of_role(Role::Published)
    };
    rates.iter().map(cell).collect()
}

fn rate() -> Measure {
    Measure::rate(RATE, "MB/s")
}

/// What a turn, a busy turn and the like are for.
const FOR_EACH: &str = "Turn, busy turns (the lane goes on with other work) and hand-offs are for each message of 4 KB; depth \
    is the most batches that one had to wait for; balance is the idlest lane's bytes over the busiest's.";

/// What lanes counted.
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
    let is_wanted: Vec<bool> = all.iter().map(|measure| ids.contains(&&*measure.id)).collect();
    all.into_iter().zip(is_wanted).filter_map(|(measure, is_wanted)| is_wanted.then_some(measure))
}

fn experiment((id, covers, title): (&str, &str, &str), axes: &[&str], measures: Vec<Measure>) -> Experiment {
    Experiment { paper: PAPER.to_owned(), ..Experiment::new(id, covers, title, axes, measures) }
}

/// A study in the frame: its cells, and what is claimed of them.
struct All<'a> {
    study: &'a Study,
    cells: Vec<Cell>,
    claims: Vec<(&'static str, ClaimResult)>,
}

impl<'a> All<'a> {
    fn of(study: &'a Study) -> Self {
        let cells = sentences::evidence(study);
        let claims = sentences::checked(study, &cells);
        Self { study, cells, claims }
    }

    /// The cells of these ids, the paper's before them, and the claims about them; nothing where there is none.
    fn outcome(&self, mut experiment: Experiment, ids: &[&str], published: Vec<Cell>) -> Option<Outcome> {
        let is_own = |cell: &&Cell| cell.at.get("id").is_some_and(|id| ids.contains(&&**id));
        let own: Vec<Cell> = self.cells.iter().filter(is_own).cloned().collect();
        if own.is_empty() {
            return None;
        }
        for axis in experiment.axes.iter_mut().filter(|axis| axis.name == "lanes") {
            let mut lanes: Vec<usize> =
                own.iter().filter_map(|cell| cell.at.get("lanes")?.parse().ok()).collect();
            lanes.sort_unstable();
            lanes.dedup();
            axis.values = lanes.iter().map(usize::to_string).collect();
        }
        let mut outcome = Outcome::new(experiment, published.into_iter().chain(own).collect());
        let claims = self.claims.iter().filter(|(about, _)| ids.contains(about));
        outcome.claims = claims.map(|(_, result)| result.clone()).collect();
        Some(outcome)
    }

    /// Rates and speedups, plotted over lanes where there are several.
    fn rates(
        &self,
        (id, covers, title): (&str, &str, &str),
        notes: &[&str],
        published: Vec<Cell>,
    ) -> Option<Outcome> {
        let mut measures = vec![rate(), Measure::times("times", "times one lane")];
        measures.extend(counters(&[
            "locked_ns",
            "lock_wait",
            "hand_offs",
            "switches_per_s",
            "reorder_depth",
            "lane_balance",
        ]));
        let plot =
            Plot::new(Drawn::Lines, "lanes", "times", &["stack", "tier"]).titled("Speedup").each("way");
        let experiment = experiment((id, covers, title), &AXES, measures).notes(notes);
        let mut experiment = experiment.shown(View::Cells, vec![plot]);
        experiment.method = vec![FOR_EACH.to_owned()];
        self.outcome(experiment, &covers.split(", ").collect::<Vec<_>>(), published)
    }

    /// Latencies on one lane, and what they are more than without the layers above TCP/IP, beside the paper's.
    fn latencies(
        &self,
        (id, [own_id, send_id, receive_id], title): (&str, [&str; 3], &str),
        rows: &[paper::Latency],
    ) -> Option<Outcome> {
        let measures = vec![
            Measure::published("paper_us", "paper: µs", PAPER),
            Measure::published("paper_more", "more", PAPER),
            Measure::published("paper_times", "times TCP/IP", PAPER),
            Measure::cost("us", "ours: µs", "µs").derived(),
            Measure::cost("more", "more", "µs").derived(),
            Measure::times("times", "times TCP/IP"),
        ];
        let mut cells = Vec::new();
        for tier in ["reference", "native", "best"] {
            for row in rows {
                for (way, id, paper_us, paper_bare_us) in [
                    ("send", send_id, row.send_us, rows[0].send_us),
                    ("receive", receive_id, row.receive_us, rows[0].receive_us),
                ] {
                    let own = |stack: &str| {
                        let is_it = |cell: &&super::Cell| {
                            cell.id == id
                                && cell.stack == stack
                                && cell.lanes == 1
                                && (stack == STACKS[0] || cell.tier == tier)
                        };
                        self.study.cells.iter().find(is_it).map(|cell| message_us(cell.mb_per_s))
                    };
                    let Some((us, bare_us)) = own(row.stack).zip(own(rows[0].stack)) else { continue };
                    // TCP/IP has no tiers.
                    if row.stack == STACKS[0] && tier != "reference" {
                        continue;
                    }
                    let tier = if row.stack == STACKS[0] { "any" } else { tier };
                    cells.push(
                        Cell::new([("stack", row.stack), ("tier", tier), ("way", way)])
                            .with("paper_us", paper_us)
                            .with("paper_more", paper_us - paper_bare_us)
                            .with("paper_times", paper_us / paper_bare_us)
                            .with("us", us)
                            .with("more", us - bare_us)
                            .with("times", us / bare_us),
                    );
                }
            }
        }
        let notes = [
            "Microseconds of a packet of 4 KB on one lane, what that is more than without the layers above TCP/IP, and how many \
             times TCP/IP's.",
            "The paper's processors had 100 MHz; its TCP's turn held copies and checksums, ours holds neither.",
        ];
        let experiment = experiment((id, own_id, title), &["stack", "tier", "way"], measures).notes(&notes);
        (!cells.is_empty()).then(|| Outcome::new(experiment, cells))
    }

    /// Whether what layers cost alone adds up to what they cost together.
    fn sums(&self) -> Option<Outcome> {
        let us = |id: &str, name: &str| Measure::cost(id, name, "µs").decimals(2);
        let measures = vec![
            us("bare", "TCP/IP µs"),
            us("digest", "MD5 more"),
            us("cipher", "DES more"),
            us("sum", "sum"),
            us("both", "DES and MD5 together"),
            Measure::times("ratio", "together over sum").decimals(3),
        ];
        let published = Cell::new([("way", "send"), ("tier", PAPERS_TIER)])
            .with("bare", 236.0)
            .with("digest", "about 1500")
            .with("cipher", "about 7200")
            .with("sum", "about 8940")
            .with("both", 8982.0)
            .of_role(Role::Published);
        let notes = [
            "One lane, tier native, in alternating slices. A layer's work touches nothing of another's but the packet.",
        ];
        let axes = ["tier", "way"];
        let experiment = experiment(("sums", "N28", "Whether costs add up"), &axes, measures).notes(&notes);
        self.outcome(experiment, &["sum"], vec![published])
    }

    /// Lanes together against lanes apart, and the model.
    fn pairs(&self) -> Option<Outcome> {
        let measures = vec![
            Measure::times("ratio", "over independent").decimals(3),
            Measure::rate("predicted", "predicted MB/s").predicted(),
            Measure::times("reached", "measured over predicted").decimals(3),
            Measure::new("cap", "cap").unit("times one lane").decimals(1).derived(),
        ];
        let mut notes = vec![
            "A stack whose lanes work together against as many stacks of one lane each, in alternating slices: 1 is perfect, \
             and what the machine does beside meets both."
                .to_owned(),
            "Predictions are the model's, from the independent stacks' costs and what sharing costs TCP/IP on two lanes, which \
             therefore has no prediction. The cap is (unlocked + locked) / locked: what no number of lanes passes on one \
             connection."
                .to_owned(),
        ];
        let is_bare =
            |pair: &&super::Pair| pair.stack == STACKS[0] && pair.placement == "packet" && pair.lanes == 2;
        for pair in self.study.pairs.iter().filter(is_bare) {
            notes.push(format!(
                "{}, {}: (unlocked + locked) / locked is {:.1}, so no number of lanes makes one connection faster than {:.1} \
                 times one lane.",
                pair.stack,
                pair.direction.name(),
                pair.cap,
                pair.cap
            ));
        }
        let axes = ["stack", "by", "way", "tier", "lanes"];
        let title = ("pairs", "N26, N27, N29, N31, N32", "Lanes together against lanes apart");
        let experiment = Experiment { notes, ..experiment(title, &axes, measures) };
        self.outcome(experiment, &["pair"], Vec::new())
    }

    /// One lock or several, and what order costs.
    fn locks(&self) -> Option<Outcome> {
        let mut measures = vec![rate(), Measure::times("times", "times the first")];
        measures.extend(counters(&["locked_ns", "lock_wait", "map_wait", "reorder_depth"]));
        let notes = [
            "The paper's test bed by packets locks TCP's state and each protocol's active map, which says whose packet it is; \
             its test bed by connections has a packet filter and no lock.",
            "By packets all lanes share one map behind one lock, taken once a batch; by connections each lane reads a table \
             that never changes. Busy turns and waits are for each message of 4 KB.",
        ];
        let axes = ["stack", "way", "by", "connections", "order", "lanes"];
        let title = ("locks", "N20", "Locks and order");
        self.outcome(experiment(title, &axes, measures).notes(&notes), &["N20"], Vec::new())
    }

    /// Threads for connections against threads for processors.
    fn fairness(&self) -> Option<Outcome> {
        let mut measures = vec![
            rate(),
            Measure::new("jain", "Jain's index").decimals(3).derived(),
            Measure::new("max_over_min", "max / min").decimals(2).derived(),
        ];
        measures.extend(counters(&["switches_per_s"]));
        let notes = [
            "The paper (figure 11): without cryptography a thread for each connection gives more in all, a thread for each \
             processor is fairer; with cryptography the difference disappears.",
            "A lane asks its connections in turn; a thread has one connection to itself for as long as the scheduler lets it \
             run.",
        ];
        let axes = ["stack", "by", "tier", "connections", "lanes"];
        let title = ("fairness", "N34", "Connections");
        self.outcome(experiment(title, &axes, measures).notes(&notes), &["N34"], Vec::new())
    }

    /// The other units of concurrency.
    fn parts(&self) -> Option<Outcome> {
        let mut measures = vec![rate(), Measure::times("times", "times one lane")];
        measures.extend(counters(&["lock_wait", "hand_offs", "switches_per_s", "reorder_depth"]));
        let notes = [
            "Tier native, one connection. The paper draws layers and packets, and names functions and blocks.",
            "Layers gain at most what the slowest one leaves of the whole, and every packet changes lanes. Functions gain on \
             opening: authenticator and cipher read the same ciphertext. Blocks gain where a mode lets them: ECB and CTR both \
             ways, CBC when it is opened, so the two ends of one connection may cut it differently. BLAKE3 is a tree: its \
             subtrees are pieces too, in the rows over links of 64 KiB, whose messages fill a packet; the others have 4 KB.",
        ];
        let axes = ["stack", "by", "way", "lanes"];
        let title = ("parts", "N36", "Layers, functions and blocks");
        self.outcome(experiment(title, &axes, measures).notes(&notes), &["N36"], Vec::new())
    }

    /// Integrated layer processing.
    fn passes(&self) -> Option<Outcome> {
        let measures = vec![
            Measure::rate("separate", "one layer after another, MB/s"),
            Measure::rate("fused", "one packet after another, MB/s"),
            Measure::times("gain", "gain").written(Written::Decimals(2)),
            Measure::rate("one-loop", "one loop over the data, MB/s"),
            Measure::times("one-loop-gain", "gain of one loop").written(Written::Decimals(2)),
        ];
        let notes = [
            "ATOMIC-2's proposal: digest and checksum both touch every byte, so do both at once. Packets of 4 KB, kernels of \
             one message at a time; one loop does all steps over pieces of 512 bytes, and has no ciphers.",
        ];
        let title = ("passes", "A12", "Integrated layer processing");
        let mut experiment = experiment(title, &["layers", "packets"], measures).notes(&notes);
        experiment.paper = "ATOMIC-2: fast security (ISI, 1995)".to_owned();
        self.outcome(experiment, &["A12"], Vec::new())
    }
}

/// A pass in the frame.
pub(super) fn pass(pass: &Pass) -> Cell {
    Cell::new([("id", "A12"), ("layers", pass.layers), ("packets", &*bytes(pass.bytes as u64))])
        .with("separate", pass.separate_mb_per_s)
        .with("fused", pass.fused_mb_per_s)
        .with("gain", range(pass.gain, pass.interval))
        .with_some("one-loop", pass.one_loop.map(|one| one.mb_per_s))
        .with_some("one-loop-gain", pass.one_loop.map(|one| range(one.gain, one.interval)))
}
