//! The program as called from a shell: its output and its exit status, before any file moves.

mod program;

use program::{Ends, sealane, text};
use std::process::Stdio;

#[test]
fn the_definition_is_sound() {
    sealane_cli::command().debug_assert();
}

#[test]
fn help_and_version_are_results() {
    for arguments in [
        &["--help"][..],
        &["-h"],
        &["cp", "--help"],
        &["help", "cp"],
        &["serve", "-h"],
        &["speed", "--help"],
        &["md5", "-h"],
        &["--version"],
    ] {
        let output = sealane(arguments).ends(0);
        assert!(text(&output.stdout).contains("sealane") && output.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn the_help_lists_the_exit_statuses() {
    let output = sealane(&["cp", "--help"]).output().expect("the program starts");
    let help = text(&output.stdout);
    for (code, meaning) in sealane_cli::exit::EXIT_STATUSES {
        let first_words: Vec<&str> = meaning.split(' ').take(3).collect();
        assert!(
            help.contains(&format!("{code:>3}  {}", first_words.join(" "))),
            "{code} is missing:\n{help}"
        );
    }
}

/// Two screens of 50 lines: the options that most copies need; `--help` and the manual page have all.
#[test]
fn the_short_help_of_cp_fits_two_screens() {
    let output = sealane(&["cp", "-h"]).output().expect("the program starts");
    let help = text(&output.stdout);
    assert!(help.lines().count() <= 100, "{} lines:\n{help}", help.lines().count());
    assert!(help.contains("--delete") && help.contains("--digest") && !help.contains("--movers"), "{help}");
}

#[test]
fn flags_of_other_tools_get_a_tip() {
    for (flag, tip) in [
        ("--bwlimit=100", "--limit-rate"),
        ("--progress", "progress is shown on a terminal"),
        ("-e", "-P, -i, -o, -F and -J"),
        ("--del", "--delete deletes last"),
        ("-C", "use -z"),
    ] {
        sealane(&["cp", flag, "a", "b"]).complains(2, &[tip]);
    }
}

#[test]
fn what_makes_no_sense_is_a_usage_error() {
    for arguments in [
        &[][..],
        &["cp"],
        &["cp", "a"],
        &["cp", "a", "b", "--level", "secret"],
        &["cp", "a", "b", "--suite", "rot13"],
        &["cp", "a", "b", "--streams", "0"],
        &["cp", "a", "b", "--streams", "65"],
        &["cp", "a", "b", "--limit-rate", "fast"],
        &["cp", "a", "b", "--data-ports", "9-8"],
        &["cp", "a", "b", "--quiet", "--verbose"],
        &["cp", "-r", "-", "b"],
        &["cp", "a", "b", "--level", "safe", "--suite", "hmac-sha1"],
        &["serve"],
        &["serve", "dir"],
        &["serve", "dir", "--listen", "nowhere"],
        &["serve", "dir", "--stdio"],
        &["serve", "--stdio", "--relay", "1"],
        &["completions", "command.com"],
        &["no-such-command"],
    ] {
        let output = sealane(arguments).ends(2);
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_usage_error_is_json_where_json_was_asked_for() {
    let output = sealane(&["cp", "--json", "-r", "-", "b"]).ends(2);
    let lines: Vec<serde_json::Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["event"], "start");
    assert_eq!((&lines[1]["event"], &lines[1]["kind"]), (&"error".into(), &"usage".into()));
    assert!(lines[1]["message"].as_str().is_some_and(|message| message.contains("pipe")));
}

#[test]
fn the_names_of_things_have_no_control_characters_left() {
    let output = sealane(&["cp", "-r", "-", "\x1b[2J"]).output().expect("the program starts");
    assert!(!output.stderr.contains(&0x1b));
}

#[test]
fn completions_and_pages_are_written() {
    let output = sealane(&["completions", "bash"]).ends(0);
    assert!(text(&output.stdout).contains("_sealane"));

    let folder = tempfile::tempdir().expect("a folder");
    let target = folder.path().join("new/man");
    let status = sealane(&["man"]).arg(&target).status().expect("the program starts");
    assert!(status.success());
    assert!(std::fs::read_to_string(target.join("sealane-cp.1")).expect("a page").contains("EXIT STATUS"));
}

#[test]
fn pages_that_cannot_be_written_are_an_input_output_error() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    sealane(&["man"]).arg(file.path()).ends(5);
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let mut child =
        sealane(&["completions", "zsh"]).stdout(Stdio::piped()).spawn().expect("the program starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends").ends(0);
    assert!(output.stderr.is_empty());
}

#[test]
fn a_program_is_told_of_wrong_arguments_in_json() {
    for arguments in
        [&["cp", "--json", "--levle", "safe", "a", "b"][..], &["speed", "--json", "--lanes", "x"]]
    {
        let output = sealane(arguments).ends(2);
        assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
        let events = program::events(&output.stdout);
        assert_eq!((&events[0]["event"], &events[0]["kind"]), (&"error".into(), &"usage".into()));
        assert!(events[0]["message"].as_str().is_some_and(|said| said.contains(arguments[2])), "{events:?}");
    }
}

#[test]
fn help_explains_the_levels_and_gives_examples() {
    let output = sealane(&["cp", "--help"]).output().expect("the program starts");
    for said in
        ["clear: ", "authenticated: ", "safe: ", "private: ", "Examples:", "sealane cp -rn data host:/srv/"]
    {
        assert!(text(&output.stdout).contains(said), "no {said:?} in {}", text(&output.stdout));
    }
}
