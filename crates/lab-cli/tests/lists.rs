//! The program accepts every command that its lists name: those of the studies, and those in the words about the papers' rows.
//! A command prints what its row says that it prints.

#[path = "../../cli/tests/program/mod.rs"]
mod program;

use program::{Ends, events, sealane, text};
use sealane_lab::inventory::ROWS;
use std::collections::BTreeSet;

/// The commands that are run, as they take less than a second, each with a part of what it prints.
const RUN: [(&str, &str); 2] = [
    ("sealane md5 -t -c 60 -l 100000", "36023ea6e959c9e678702bdba0f95ff8"),
    ("sealane lab run network-processor --machine IXP2800 --print-machine", "name = \"IXP2800\""),
];

/// Checks a command by the parser of the program that it is for.
#[track_caller]
fn check(command: &str) {
    // A shell ends the words at its own signs and removes the quotes.
    let shell = ["#", "|", ">", "<"];
    let words: Vec<&str> = command
        .split(' ')
        .take_while(|word| !shell.contains(word))
        .map(|word| word.trim_matches('\''))
        .collect();
    let arguments = match words[..] {
        ["sealane", "lab", ref rest @ ..] => rest.to_vec(),
        ["sealane", "speed", ..] => words[1..].to_vec(),
        // The product's parser reads all words before it comes to the last one, which keeps the command from running.
        ["sealane", ref rest @ ..] => {
            let output = sealane(&[rest, &["--help"]].concat()).output().expect("the program starts");
            return assert!(output.status.success(), "{command}: {}", text(&output.stderr));
        }
        _ => panic!("{command}"),
    };
    let parsed = sealane_lab_cli::command().try_get_matches_from([&["sealane-lab"], &arguments[..]].concat());
    assert!(parsed.is_ok(), "{command}: {}", parsed.unwrap_err());
}

/// Returns the commands between backticks.
fn named(words: &str) -> impl Iterator<Item = &str> {
    words.split('`').skip(1).step_by(2).filter(|piece| piece.starts_with("sealane "))
}

#[test]
fn the_list_of_studies_names_commands_that_parse() {
    let output = sealane(&["lab", "list", "--json"]).output().expect("the program starts");
    let listed = events(&output.stdout);
    assert!(listed.len() > 60, "{} studies", listed.len());
    for study in &listed {
        check(&format!("sealane {}", study["command"].as_str().expect("a command")));
        check(&format!("sealane lab run {}", study["id"].as_str().expect("an id")));
    }
}

#[test]
fn the_rows_of_the_papers_name_commands_that_parse() {
    let named: BTreeSet<&str> =
        ROWS.iter().flat_map(|row| [row.says, row.means, row.absent]).flat_map(named).collect();
    for (command, _) in RUN {
        assert!(named.contains(command), "{command} is named by no row: {named:?}");
    }
    named.into_iter().for_each(check);
}

#[test]
fn what_a_row_says_is_printed() {
    for (command, part) in RUN {
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        let output = sealane(&words).ends(0);
        assert!(text(&output.stdout).contains(part), "{command}: {}", text(&output.stdout));
    }
}

/// A sceptical reader measures one claim again, and sees that one alone.
#[test]
fn one_claim_is_measured_again_and_printed_alone() {
    let run = |words: &str| {
        let output = sealane(&["lab", "run", "O2", "--claim", words]).ends(0);
        (text(&output.stdout).to_owned(), text(&output.stderr).to_owned())
    };
    let (told, _) = run("2 CARDS, 32 threads");
    let claims: Vec<&str> = told.lines().filter(|line| line.contains("threads, 16,384 bytes")).collect();
    assert!(claims.len() == 1 && claims[0].contains("2 cards"), "{told}");
    assert!(!told.contains("MB/s") && (told.contains("holds") || told.contains("does not hold")), "{told}");
    let (told, complaint) = run("the moon");
    assert!(
        told.trim().is_empty() && complaint.contains("no claim has the words the moon"),
        "{told} {complaint}"
    );
}

/// The home of a user who has none is not made, whoever runs the program.
#[test]
fn a_home_that_does_not_exist_is_not_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path().join("home");
    for arguments in [&["lab", "run", "O2", "--json"][..], &["lab", "list"]] {
        let mut command = sealane(arguments);
        command.env("HOME", &home).env_remove("XDG_STATE_HOME").ends(0);
    }
    assert!(!home.exists());
}

/// A study that was run here has the time that it took; the others have estimates by the pace of this machine.
#[test]
fn the_list_tells_the_times_of_this_machine() {
    let state = tempfile::tempdir().expect("a folder");
    let run = |arguments: &[&str]| {
        let output =
            sealane(arguments).env("XDG_STATE_HOME", state.path()).output().expect("the program starts");
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        output.stdout
    };
    let basis = |id: &str| {
        let listed = events(&run(&["lab", "list", "--json"]));
        let study = listed.into_iter().find(|study| study["id"] == id).expect("a study");
        study["basis"].as_str().expect("a basis").to_owned()
    };
    assert_eq!(basis("O2"), "elsewhere");
    run(&["lab", "run", "O2", "--json"]);
    assert_eq!([basis("O2"), basis("N26")], ["measured", "pace"]);
    assert!(text(&run(&["lab", "list"])).contains("measured here"));
}
