//! Every study of the papers that the lab repeats, by the id under which it is filed.
//!
//! Guarantees: an id names one study; each study says by what command it is run, and the command line checks that the
//! command exists.

use crate::experiment::{Cell, Experiment, Measure, Outcome};
use serde::Serialize;

/// One table, figure or claim of a paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Study {
    /// Stable between versions.
    pub id: &'static str,
    /// The paper, by author and year.
    pub paper: &'static str,
    /// What is found out.
    pub title: &'static str,
    /// What runs it: words after `sealane`. Those of one study that differ in `--only` alone are run together.
    pub command: &'static str,
    /// About how long the quick profile takes on two cores, seconds.
    pub seconds: u32,
}

const NDSS: &str = "Nahum et al. 1996";
const GRIDFTP: &str = "Bresnahan et al. 2007";
const COSTS: &str = "Miltchev et al. 2002";
const NPCRYPTBENCH: &str = "Yue et al. 2006";
const ATOMIC: &str = "ISI 1995";
const OWN: &str = "beyond the papers";

const fn study(
    id: &'static str,
    paper: &'static str,
    title: &'static str,
    command: &'static str,
    seconds: u32,
) -> Study {
    Study { id, paper, title, command, seconds }
}

/// All of them, paper by paper.
pub const STUDIES: &[Study] = &[
    study(
        "N20",
        NDSS,
        "one lock or several, order kept or not, active map or packet filter",
        "lab stacks --only N20",
        5,
    ),
    study("N26", NDSS, "sending, packets of one connection on all lanes", "lab stacks --only N26", 15),
    study("N27", NDSS, "receiving, packets of one connection on all lanes", "lab stacks --only N27", 15),
    study("N28", NDSS, "Table 1: what each layer adds to a packet's time", "lab stacks --only N28", 30),
    study("N29", NDSS, "where the lock of one connection stops the gain", "lab stacks --only N29", 30),
    study("N30", NDSS, "UDP beside TCP", "lab stacks --only N30", 20),
    study("N31", NDSS, "sending, 12 connections shared out over all lanes", "lab stacks --only N31", 15),
    study("N32", NDSS, "receiving, 12 connections shared out over all lanes", "lab stacks --only N32", 15),
    study("N33", NDSS, "Table 2: the same as N28 with 12 connections", "lab stacks --only N33", 30),
    study(
        "N34",
        NDSS,
        "12 to 384 connections: threads each, or lanes for all; fairness",
        "lab stacks --only N34",
        45,
    ),
    study("N36", NDSS, "layers, functions and blocks as units of concurrency", "lab stacks --only N36", 5),
    study(
        "G10",
        GRIDFTP,
        "one and two threads by one and two streams, four levels",
        "lab transfer --only G10",
        180,
    ),
    study("G11", GRIDFTP, "the same: the first machine's table", "lab transfer --only G11", 180),
    study("G12", GRIDFTP, "the same: the second machine's table", "lab transfer --only G12", 180),
    study("G13", GRIDFTP, "the same: the third machine's table", "lab transfer --only G13", 180),
    study("G16", GRIDFTP, "many threads, many streams", "lab transfer --only G16", 120),
    study(
        "G18",
        GRIDFTP,
        "a link of 1 Gb/s: what each level carries on one lane and on two",
        "lab transfer --only G18",
        120,
    ),
    study(
        "R10",
        COSTS,
        "three hosts on links of 100 Mb/s: associations with the gateway and with the last host",
        "lab tunnel --topology road-warrior,road-warrior-ends --only tcp1,rtt",
        300,
    ),
    study(
        "R11",
        COSTS,
        "four of five variables: what is run, algorithm, topology, lanes or not",
        "lab tunnel --only tcp1,tiny,large",
        900,
    ),
    study("R12", COSTS, "no encryption, AES by key length, DES, 3DES", "lab tunnel --only ttcp-8192", 600),
    study(
        "R13",
        COSTS,
        "ttcp from host to host and between gateways, by suite and size of writes",
        "lab tunnel --only ttcp-64,ttcp-512,ttcp-1024,ttcp-1470,ttcp-8192",
        900,
    ),
    study(
        "R14",
        COSTS,
        "the same tunnels with TCP, UDP and pings of today",
        "lab tunnel --only tcp1,tcp4,udp1400,udp64,rtt,rtt-loaded",
        900,
    ),
    study(
        "R16",
        COSTS,
        "200 MB by HTTP, by HTTPS, and by HTTP through tunnels",
        "lab tunnel --only large",
        600,
    ),
    study("R17", COSTS, "1,000 tiny transfers: clear, through tunnels, HTTPS", "lab tunnel --only tiny", 900),
    study(
        "R22",
        COSTS,
        "faster networks: what remains of clear, by suite",
        "lab tunnel --only tcp1,tcp4",
        600,
    ),
    study(
        "R15",
        COSTS,
        "one large file, beside scp, sftp, rsync, HTTPS and others",
        "lab transfer --only R15",
        120,
    ),
    study(
        "B6",
        NPCRYPTBENCH,
        "Table I: protocols that the ten algorithms cover",
        "lab network-processor",
        20,
    ),
    study(
        "B13",
        NPCRYPTBENCH,
        "Table IV: bytes of tables in near and in far memory, beside ours",
        "speed --story --only tables",
        1,
    ),
    study("B15", NPCRYPTBENCH, "instruction mix of the code as it is written", "lab network-processor", 20),
    study(
        "B16",
        NPCRYPTBENCH,
        "Table V: instruction mix of the code as it runs",
        "lab network-processor",
        20,
    ),
    study("B18", NPCRYPTBENCH, "throughput of one thread on three machines", "lab network-processor", 20),
    study("B19", NPCRYPTBENCH, "what engines do: execute, abort, idle", "lab network-processor", 20),
    study("B20", NPCRYPTBENCH, "cycles by kind of instruction", "lab network-processor", 20),
    study(
        "B21",
        NPCRYPTBENCH,
        "compilers and their options: throughput, size",
        "lab network-processor --compilers",
        10,
    ),
    study(
        "B22",
        NPCRYPTBENCH,
        "levels 1 to 3 on this processor; flows, messages and blocks at once (also B24)",
        "speed --story --only ladder,flows,batches,blocks,shared-message",
        45,
    ),
    study("B24", NPCRYPTBENCH, "engines by threads, flows and blocks", "lab network-processor", 20),
    study(
        "B25",
        NPCRYPTBENCH,
        "level 3: what larger bursts gain, beside a faster memory",
        "lab network-processor",
        20,
    ),
    study("A10", ATOMIC, "AH by components: header, touching, arithmetic", "lab tunnel --only ah", 10),
    study("A12", ATOMIC, "one pass over the data or several", "lab stacks --only A12", 5),
    study(
        "B8",
        NPCRYPTBENCH,
        "Table II: tables and working sets beside the paper's",
        "speed --story --only tables",
        1,
    ),
    study(
        "B17",
        NPCRYPTBENCH,
        "instruction mix of our kernels beside CommBench",
        "speed --story --only mix",
        1,
    ),
    study(
        "A2",
        ATOMIC,
        "MD5 and others from the caches and from memory (also A9)",
        "speed --story --only caches",
        15,
    ),
    study(
        "kernels",
        OWN,
        "what to use on this machine: AEADs, hashes and MACs, one message and many",
        "speed",
        20,
    ),
    study(
        "providers",
        OWN,
        "a copy by own kernels, AWS-LC, and record by record",
        "lab transfer --only providers",
        60,
    ),
    study("links", OWN, "one file through links with delay and loss", "lab transfer --only links", 190),
];

/// All of them for people.
pub fn table() -> Outcome {
    let columns = ["id", "paper", "what", "sealane ..."];
    let experiment = Experiment::new(
        "studies",
        "",
        "Studies",
        &columns,
        vec![Measure::count("seconds", "about, s")],
    )
    .notes(&[
        "The papers' studies that `sealane lab run ID...` repeats here; a time is that of the quick profile.",
    ]);
    let cell = |study: &Study| {
        let place = columns.into_iter().zip([study.id, study.paper, study.title, study.command]);
        Cell::new(place).with("seconds", f64::from(study.seconds))
    };
    Outcome::new(experiment, STUDIES.iter().map(cell).collect())
}

/// The ids, in order.
pub fn ids() -> Vec<&'static str> {
    STUDIES.iter().map(|study| study.id).collect()
}

/// The commands that run the studies of `ids`, each once, as words after `sealane`. Ids that are unknown are passed over.
pub fn commands(ids: &[impl AsRef<str>]) -> Vec<Vec<String>> {
    let mut commands: Vec<(Vec<&str>, Vec<&str>)> = Vec::new();
    let is_asked = |study: &&Study| ids.iter().any(|id| id.as_ref().eq_ignore_ascii_case(study.id));
    for study in STUDIES.iter().filter(is_asked) {
        let (words, only) = study.command.split_once(" --only ").unwrap_or((study.command, ""));
        let words: Vec<&str> = words.split(' ').collect();
        let place = commands.iter().position(|(other, _)| *other == words).unwrap_or_else(|| {
            commands.push((words, Vec::new()));
            commands.len() - 1
        });
        if !only.is_empty() {
            commands[place].1.push(only);
        }
    }
    let joined = |(words, only): (Vec<&str>, Vec<&str>)| {
        let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        if !only.is_empty() {
            words.extend(["--only".to_owned(), only.join(",")]);
        }
        words
    };
    commands.into_iter().map(joined).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_one_study_and_every_part_has_one() {
        let ids = ids();
        for (index, id) in ids.iter().enumerate() {
            assert!(!ids[..index].contains(id), "{id} twice");
        }
        for part in crate::stacks::IDS.iter().chain(&crate::transfer::IDS) {
            assert!(ids.contains(part), "{part} is not listed");
        }
        let told: Vec<&str> = STUDIES
            .iter()
            .filter_map(|study| study.command.strip_prefix("speed --story --only "))
            .flat_map(|only| only.split(','))
            .collect();
        for part in crate::speed::PARTS {
            assert!(told.contains(&part), "{part} is not listed");
        }
    }

    #[test]
    fn studies_of_one_command_run_together() {
        let words = |ids: &[&str]| -> Vec<String> {
            commands(ids).into_iter().map(|words| words.join(" ")).collect()
        };
        assert_eq!(
            words(&["n26", "B16", "N34", "B18"]),
            ["lab stacks --only N26,N34", "lab network-processor"]
        );
        assert_eq!(
            words(&["B21", "B8", "A2"]),
            ["lab network-processor --compilers", "speed --story --only tables,caches"]
        );
        assert!(words(&["X1"]).is_empty());
    }
}
