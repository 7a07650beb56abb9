//! `sealane speed` and `sealane md5 -t` as other programs see them: their lines, refusals and exit statuses.

#[path = "../../cli/tests/program/mod.rs"]
mod program;

use program::terminal::{Terminal, lines};
use program::{Ends, sealane, text};
use sealane_transform::{Algorithm, Isa, Kernels, Tier};
use serde_json::Value;
use std::process::{Command, Output};
use std::time::Duration;

const FIELDS: [&str; 14] = [
    "algorithm",
    "mode",
    "direction",
    "tier",
    "isa",
    "bytes",
    "lanes",
    "batch",
    "mb_per_s",
    "ns_per_message",
    "cycles_per_byte",
    "peer",
    "peer_mb_per_s",
    "ratio",
];

fn speed(arguments: &[&str]) -> Output {
    let mut command = sealane(&["speed", "--seconds", "0.01"]);
    command.args(arguments).output().expect("the program starts")
}

#[track_caller]
fn rows(output: &Output) -> Vec<Value> {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    let rows: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for row in &rows {
        check(row);
    }
    rows
}

/// Checks the schema of a line.
#[track_caller]
fn check(row: &Value) {
    let fields: Vec<&str> = row.as_object().expect("an object").keys().map(String::as_str).collect();
    let mut expected = FIELDS.to_vec();
    expected.sort_unstable();
    assert_eq!(fields, expected, "{row}");
    let algorithm: Algorithm = row["algorithm"].as_str().expect("a name").parse().expect("of the catalogue");
    let direction = row["direction"].as_str();
    assert_eq!(direction.is_none(), matches!(algorithm, Algorithm::Digest(_) | Algorithm::Gmac(_)), "{row}");
    assert!(direction.is_none_or(|way| ["encrypt", "decrypt", "seal", "open"].contains(&way)), "{row}");
    assert!(row["mode"].as_str().is_none_or(|mode| ["ecb", "cbc", "ctr", "gcm"].contains(&mode)), "{row}");
    assert!(row["tier"].as_str().expect("a tier").parse::<Tier>().is_ok(), "{row}");
    assert!(row["isa"].as_str().expect("an instruction set").parse::<Isa>().is_ok(), "{row}");
    for count in ["bytes", "lanes", "batch"] {
        assert!(row[count].as_u64().is_some_and(|count| count > 0), "{row}");
    }
    for figure in ["mb_per_s", "ns_per_message"] {
        assert!(row[figure].as_f64().is_some_and(|figure| figure > 0.0), "{row}");
    }
    let has_peer = row["peer"].is_string();
    assert_eq!(row["peer_mb_per_s"].is_f64(), has_peer, "{row}");
    assert_eq!(row["ratio"].is_f64(), has_peer, "{row}");
}

/// A public-key operation has a line for 1, 8 and 64 at a time, beside messages and other libraries.
#[test]
fn public_key_operations_have_lines_of_their_own() {
    let fields = [
        "algorithm",
        "batch",
        "isa",
        "lanes",
        "ops_per_s",
        "peer",
        "peer_ops_per_s",
        "ratio",
        "step",
        "tier",
        "us_per_operation",
    ];
    let output = speed(&["x25519", "md5", "--vs", "aws-lc", "--bytes", "64", "--json"]).ends(0);
    let lines = text(&output.stdout);
    let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let (operations, messages): (Vec<&Value>, Vec<&Value>) =
        rows.iter().partition(|row| row["algorithm"] == "x25519");
    assert!(!messages.is_empty());
    let agreements: Vec<&&Value> = operations.iter().filter(|row| row["step"] == "agree").collect();
    let batches: Vec<_> = agreements.iter().map(|row| row["batch"].as_u64()).collect();
    assert_eq!(batches, [Some(1), Some(8), Some(64)]);
    for row in operations {
        let found: Vec<&str> = row.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(found, fields, "{row}");
        let figure = |name: &str| row[name].as_f64().expect("a number");
        assert!((figure("ops_per_s") * figure("us_per_operation") / 1e6 - 1.0).abs() < 1e-6, "{row}");
        assert!(
            (figure("ratio") * figure("peer_ops_per_s") / figure("ops_per_s") - 1.0).abs() < 1e-6,
            "{row}"
        );
        assert_eq!(row["peer"], "aws-lc-rs");
    }
    let output = speed(&["x25519", "--batch", "1,2"]).ends(0);
    let table = text(&output.stdout);
    assert!(table.contains("Operations side by side") && !table.contains("messages stay"), "{table}");
    speed(&["x25519", "--batch", "2048"]).complains(2, &["at most 1024"]);
}

/// The test runs the whole catalogue in every tier.
#[test]
fn everything_has_a_rate_in_every_tier() {
    let output = speed(&["-a", "all", "--tier", "all", "--bytes", "64", "--batch", "32", "--json"]);
    let rows = rows(&output);
    for algorithm in Algorithm::all() {
        let name = algorithm.to_string();
        let tiers: Vec<&str> = rows
            .iter()
            .filter(|row| row["algorithm"] == name.as_str())
            .map(|row| row["tier"].as_str().expect("checked"))
            .collect();
        assert!(tiers.contains(&"reference") || tiers.contains(&"generic"), "{name}: {tiers:?}");
        let mut once = tiers.clone();
        once.dedup();
        assert_eq!(once, tiers, "{name} has a tier twice");
    }
}

#[test]
fn instruction_sets_can_be_forced() {
    let machine = Kernels::select(None, None).expect("what the machine has").isa();
    for isa in Isa::ALL {
        let output = speed(&[
            "-a",
            "md5,sha256,des-cbc,aes-128-cbc,aes-128-gcm",
            "--isa",
            isa.name(),
            "--bytes",
            "256",
            "--json",
        ]);
        if isa <= machine {
            let rows = rows(&output);
            assert_eq!(rows.len(), 5);
            assert!(rows.iter().all(|row| row["isa"] == isa.name()));
        } else {
            assert_eq!(output.status.code(), Some(2));
            assert!(text(&output.stderr).contains(isa.name()));
        }
    }
}

#[test]
fn lists_make_a_grid_and_lengths_fit() {
    let output = speed(&[
        "-a",
        "md5,aes-128-cbc",
        "--bytes",
        "100,1000",
        "--lanes",
        "1,2",
        "--batch",
        "4,8",
        "--direction",
        "both",
        "--json",
    ]);
    let rows = rows(&output);
    // A digest has one direction, a cipher two.
    assert_eq!(rows.len(), 8 + 16);
    let lengths = |name: &str| -> Vec<u64> {
        let found = rows.iter().filter(|row| row["algorithm"] == name);
        let mut lengths: Vec<u64> = found.map(|row| row["bytes"].as_u64().expect("checked")).collect();
        lengths.sort_unstable();
        lengths.dedup();
        lengths
    };
    assert_eq!(lengths("md5"), [100, 1000]);
    assert_eq!(lengths("aes-128-cbc"), [96, 992]);
}

#[test]
fn ragged_batches_stand_beside_equal_ones() {
    let output = speed(&["-a", "aes-128-cbc,md5", "--imix", "--tier", "batch"]).ends(0);
    let table = text(&output.stdout);
    assert!(table.contains("imix") && table.contains("What ragged batches keep"), "{table}");
    let output = speed(&["-a", "md5", "--imix", "--batch", "24", "--json"]);
    let bytes: Vec<u64> = rows(&output).iter().map(|row| row["bytes"].as_u64().expect("checked")).collect();
    assert_eq!(bytes, [352, 354]);
}

#[test]
fn caches_can_be_left() {
    for cache in ["hot", "l2", "out"] {
        rows(&speed(&["-a", "touch", "--cache", cache, "--bytes", "1408", "--json"]));
    }
}

/// Some peers are always available, and one may not be.
#[test]
fn peers_are_measured_in_the_same_run() {
    let found = rows(&speed(&[
        "-a",
        "sha1,aes-128-gcm,rc6-cbc,seal3",
        "--vs",
        "aws-lc-rs,rustcrypto",
        "--direction",
        "both",
        "--bytes",
        "64",
        "--batch",
        "16",
        "--json",
    ]));
    let peers = |name: &str| -> Vec<Option<&str>> {
        found.iter().filter(|row| row["algorithm"] == name).map(|row| row["peer"].as_str()).collect()
    };
    assert_eq!(peers("sha1"), [Some("aws-lc-rs"), Some("rustcrypto")]);
    assert_eq!(peers("aes-128-gcm"), [Some("aws-lc-rs"), Some("aws-lc-rs")]);
    assert_eq!(peers("rc6-cbc"), [Some("rustcrypto"), Some("rustcrypto")]);
    assert_eq!(peers("seal3"), [None, None]);

    let output = speed(&["-a", "md5,des-cbc", "--vs", "openssl", "--bytes", "64", "--batch", "16", "--json"]);
    if output.status.code() == Some(5) {
        assert!(text(&output.stderr).contains("openssl"), "{}", text(&output.stderr));
        return program::skip(text(&output.stderr).trim());
    }
    assert_eq!(rows(&output)[0]["peer"], "openssl");
}

/// A reader of the table must know how a peer was measured, and what it lacks.
#[test]
fn a_table_says_how_peers_run_and_what_they_lack() {
    let output =
        speed(&["seal3", "md5", "--vs", "rustcrypto,aws-lc-rs", "--bytes", "64", "--batch", "16"]).ends(0);
    let table = text(&output.stdout);
    for said in ["beside rustcrypto, aws-lc-rs; –", "to rustcrypto, aws-lc-rs one by one"] {
        assert!(table.contains(said), "no {said:?} in {table}");
    }
    let lacking = table.lines().find(|line| line.starts_with(" seal3 ")).expect("a line of SEAL");
    assert!(lacking.contains('–') && !table.contains("one by one: it"), "{table}");
    assert!(!text(&speed(&["seal3", "--bytes", "64"]).stdout).contains("beside"));
}

#[test]
fn a_peer_that_cannot_be_had_is_told_of() {
    let output = speed(&["-a", "sha1", "--vs", "ipsec-mb", "--bytes", "64", "--json"]);
    if output.status.code() == Some(0) {
        assert_eq!(rows(&output)[0]["peer"], "ipsec-mb");
        return;
    }
    assert_eq!(output.status.code(), Some(5));
    assert!(output.stdout.is_empty() && text(&output.stderr).contains("ipsec-mb"));
}

#[test]
fn what_cannot_be_measured_is_a_usage_error() {
    for (arguments, word) in [
        (&["-a", "md4"][..], "'md5'"),
        (&["-a", "aes-128-gxm"], "'aes-128-gcm'"),
        (&["--tier", "fast"], "native"),
        (&["--isa", "sse9"], "avx2"),
        (&["--vs", "libressl"], "openssl"),
        (&["--cache", "l3"], "l2"),
        (&["--lanes", "0"], "1..=1024"),
        (&["--batch", "65537"], "65536"),
        (&["--bytes", "0"], "more than zero"),
        (&["-a", "md5", "--bytes", "1G"], "at most"),
        (&["-a", "seal3", "--bytes", "1M", "--batch", "4"], "seal3 takes no messages"),
        (&["--story", "--json"], "cannot be used with"),
        (&["--only", "caches"], "--story"),
        (&["--story", "--only", "table"], "'tables'"),
        (&["--profile", "paper"], "cannot be used with"),
    ] {
        let output = speed(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
        // If JSON was requested, the message is in JSON.
        let said = if arguments.contains(&"--json") { &output.stdout } else { &output.stderr };
        assert!(text(said).contains(word), "{arguments:?}: {}", text(said));
    }
    for seconds in ["0", "-1", "nan", "inf", "soon", "4000"] {
        sealane(&["speed", "--seconds", seconds]).ends(2);
    }
}

#[test]
fn tables_of_the_story_are_told_by_themselves() {
    let output = sealane(&["speed", "--story", "--only", "TABLES,mix"]).ends(0);
    let told = text(&output.stdout);
    assert!(told.contains("Dynamic instruction mix") && told.contains("Table bytes"), "{told}");
    // Neither table measures anything, and the other tables are not printed.
    assert!(!told.contains("measurement") && !told.contains("Tier over tier"), "{told}");
}

#[test]
fn one_line_is_one_line() {
    let heading = |bytes: &str| text(&speed(&["md5", "--bytes", bytes]).stdout).to_owned();
    assert!(heading("64").starts_with("1 line, about "), "{}", heading("64"));
    assert!(heading("64,128").starts_with("2 lines, about "), "{}", heading("64,128"));
}

#[test]
fn a_report_is_one_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("speed.html");
    let path = path.to_str().expect("UTF-8");
    let output = speed(&["-a", "md5", "--bytes", "64,256", "--vs", "rustcrypto", "--report", path]).ends(0);
    let page = std::fs::read_to_string(path).expect("the page");
    for part in ["uPlot", "Cost of a message", "rustcrypto", "Machine and build"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(text(&output.stdout).contains("Cost of a message"));
    speed(&["-a", "null", "--report", "/dev/null/page.html"]).ends(5);
}

#[test]
fn an_interrupt_ends_it_at_once_and_keeps_what_was_measured() {
    let mut command = sealane(&["speed", "--seconds", "60", "-a", "md5", "--bytes", "64,256"]);
    let mut child = command.spawn().expect("the program starts");
    std::thread::sleep(Duration::from_millis(500));
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    let sent = sent.is_ok_and(|status| status.success());
    if !sent {
        child.kill().expect("it can be stopped");
    }
    let output = child.wait_with_output().expect("it ends");
    if !sent {
        return program::skip("there is no kill(1)");
    }
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("stopped after 0 of 2"), "{}", text(&output.stderr));
}

#[test]
fn names_are_arguments_and_the_table_fits_a_terminal() {
    let run = |more: &[&str]| {
        let mut command = sealane(&["speed", "--seconds", "0.01", "--bytes", "64", "--tier", "all"]);
        let output = command.args(more).ends(0);
        text(&output.stdout).to_owned()
    };
    let names = ["md5", "des-cbc", "chacha20-poly1305", "--direction", "both"];
    let table = run(&names);
    assert!(table.contains("\n md5 ") && table.contains(" decrypt "), "{table}");
    let widest = |table: &str| table.lines().map(|line| line.chars().count()).max();
    assert!(widest(&table) <= Some(80), "{table}");
    let wide = run(&[&names[..], &["--wide"]].concat());
    assert!(wide.contains(" set") && wide.contains("\n des-cbc "), "{wide}");
    assert!(widest(&wide) <= Some(140), "{wide}");
}

/// Returns the lines that a program prints on a terminal of 80 columns, without progress.
fn on_80_columns(arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" \"$@\" 2>/dev/null"]).arg(program::path()).args(arguments);
    program::without_the_users_own(&mut command);
    let (status, written) = Terminal::start(&command, 80).end();
    assert_eq!(status, Some(0), "{written}");
    lines(&written)
}

/// A user who names no algorithm wants to know which one to use.
#[test]
fn without_a_name_an_advice_comes_first() {
    let told = on_80_columns(&["speed", "--seconds", "0.001"]);
    let place = |word: &str| {
        told.iter().position(|line| line.contains(word)).unwrap_or_else(|| panic!("{word}: {told:#?}"))
    };
    let (advice, others) = (place("What to use on this machine"), place("What only old protocols ask for"));
    for name in ["aes-256-gcm", "chacha20-poly1305", "sha512", "blake3", "hmac-sha256", "aes-128-gmac"] {
        let place = place(name);
        assert!(advice < place && place < others, "{name} is no advice: {told:#?}");
    }
    for (name, why) in [("md5", "broken"), ("3des-cbc", "legacy"), ("aes-128-ctr", "needs a MAC")] {
        let place = told.iter().position(|line| line.contains(name) && line.contains(why));
        assert!(place > Some(others), "{name}: {told:#?}");
    }
    assert!(told.iter().all(|line| line.chars().count() <= 80), "{told:#?}");
    // There is a rate for one message and one for many, and no empty cell.
    let row = &told[place("aes-256-gcm")];
    let rates =
        row.split_whitespace().filter(|word| word.starts_with(|first: char| first.is_ascii_digit())).count();
    assert_eq!(rates, 4, "{row}");
    assert!(!told.iter().any(|line| line.contains('–')), "{told:#?}");
}

#[test]
fn ratios_of_one_message_stand_beside_those_of_many() {
    let output = speed(&["md5", "--vs", "rustcrypto", "--bytes", "64"]).ends(0);
    let table = text(&output.stdout);
    assert!(table.contains("Ratios by messages at a time"), "{table}");
    let heading = table.lines().find(|line| line.contains("1 message ") && line.contains("512 messages"));
    assert!(heading.is_some(), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    // Without a library to compare with, none is mentioned.
    let alone = text(&speed(&["md5", "--bytes", "64"]).stdout).to_owned();
    assert!(!alone.contains("peer") && !alone.contains("ratio") && !alone.contains('–'), "{alone}");
}

/// A number that is split over two lines would be read as two numbers.
#[test]
fn tables_of_the_lab_fit_80_columns_without_breaking_numbers() {
    let wide = |arguments: &[&str]| {
        let output = sealane(arguments).ends(0);
        text(&output.stdout).to_owned()
    };
    let numbers = |text: &str| -> Vec<String> {
        let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && !word.contains('/');
        text.split_whitespace().filter(is_number).map(str::to_owned).collect()
    };
    for arguments in
        [&["lab", "list"][..], &["lab", "network-processor", "--machine", "IXP1200", "-a", "md5"]]
    {
        let told = on_80_columns(arguments);
        assert!(told.iter().all(|line| line.chars().count() <= 80), "{arguments:?}: {told:#?}");
        let known = numbers(&wide(arguments));
        for number in numbers(&told.join("\n")) {
            assert!(known.contains(&number), "{arguments:?}: {number} is part of a number: {told:#?}");
        }
    }
    let told = on_80_columns(&["lab", "predict", "--stack", "tcp/md5/ip/fddi"]);
    assert!(told.iter().all(|line| line.chars().count() <= 80), "{told:#?}");
}

/// `sealane md5 -t` is done by this program.
#[test]
fn the_time_trial_is_that_of_atomic_2() {
    for arguments in [
        &["md5", "-t", "-c", "60", "-l", "100000"][..],
        &["md5", "-c", "60", "-l", "100000", "-t"],
        &["md5", "-t", "--count", "60", "--length", "100000", "-d"],
    ] {
        let output = sealane(arguments).ends(0);
        let report = text(&output.stdout);
        assert!(report.starts_with("MD5 time trial. Digesting 60 100000-byte blocks"), "{report}");
        assert!(report.contains("\nDigest = 36023ea6e959c9e678702bdba0f95ff8\n"), "{report}");
        for part in ["\nTime = ", " U : ", " S :: ", "\nSpeed = ", " bits/sec\n", "\nminflt ", " nivcsw "] {
            assert!(report.contains(part), "{part}: {report}");
        }
    }
    let all = ["md5", "-t", "-c", "60", "-l", "100000", "-s", "-r", "-d"];
    let output = sealane(&all).output().expect("the program starts");
    assert!(text(&output.stdout).contains("36023ea6e959c9e678702bdba0f95ff8"), "{}", text(&output.stderr));
    for arguments in [
        &["md5", "-t", "file"][..],
        &["md5", "-t", "-c", "many"],
        &["md5", "-t", "-c", "0"],
        &["md5", "-t", "-c", "1", "2"],
        &["md5", "-l", "5"],
        &["md5", "-t", "--tag"],
        &["sha1", "-t"],
    ] {
        sealane(arguments).ends(2);
    }
}
