//! `sealane cp` on a terminal: prompts of ssh, Ctrl-C, bars, and the final screen.

mod program;

use program::terminal::{CTRL_C, Terminal, lines};
use program::{Ends, events, pattern, sealane, text, utf8, write, write_script};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

const LARGE_BYTES: usize = 12_000_000;

/// Returns `sealane cp` to a far end behind a stand-in for ssh, which asks on the terminal and runs its command on
/// this host. As ssh does, it closes its connection when the terminal interrupts it.
fn over_ssh(folder: &Path, arguments: &[&str]) -> Command {
    let script = folder.join("ssh");
    let text = "#!/bin/sh\n\
                [ \"$1\" = -G ] && { echo hostname 127.0.0.1; exit; }\n\
                case \" $* \" in *' -N '*) exit 1;; esac\n\
                trap 'kill $far 2>/dev/null; exit 255' INT\n\
                printf 'password: ' >/dev/tty; read answer </dev/tty\n\
                for last; do :; done\n\
                exec 3<&0\n\
                setsid sh -c \"exec $last\" <&3 & far=$!\n\
                wait $far\n";
    write_script(&script, text);
    let program = env!("CARGO_BIN_EXE_sealane");
    let mut command = sealane(&["cp", "--remote-program", program]);
    command.args(arguments).env("SEALANE_SSH", script);
    command
}

fn large_file(folder: &Path) -> (PathBuf, PathBuf) {
    let (source, target) = (folder.join("large"), folder.join("copy"));
    write(&source, &pattern(LARGE_BYTES));
    (source, target)
}

/// Returns the number of names of the program's leftovers.
fn leftovers(folder: &Path) -> usize {
    let names = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    names.filter(|name| name.as_bytes().starts_with(b".sealane-")).count()
}

#[test]
fn what_ssh_asks_stays_on_the_screen() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, target) = large_file(folder.path());
    let command = over_ssh(folder.path(), &[utf8(&source), &format!("far:{}", target.display())]);
    let mut terminal = Terminal::start(&command, 80);
    terminal.wait_for("password: ");
    // The pause covers several periods of a bar.
    sleep(Duration::from_millis(700));
    let written = terminal.written();
    assert_eq!(written, "password: ", "something was drawn over the prompt");
    terminal.press(b"secret\n");
    let (code, written) = terminal.end();
    assert_eq!(code, Some(0), "{written}");
    assert!(fs::read(&target).expect("the copy") == pattern(LARGE_BYTES));
    let last = lines(&written).pop().expect("a last line");
    assert!(last.starts_with("12.0 MB in ") && last.ends_with("1 entry, private"), "{last:?}");
}

#[test]
fn an_interrupted_prompt_is_an_interruption() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, target) = large_file(folder.path());
    let command = over_ssh(folder.path(), &[utf8(&source), &format!("far:{}", target.display())]);
    let mut terminal = Terminal::start(&command, 80);
    terminal.wait_for("password: ");
    terminal.press(CTRL_C);
    let (code, written) = terminal.end();
    assert_eq!(code, Some(130), "{written}");
    assert_eq!(written.matches("sealane: interrupted").count(), 1, "{written}");
    assert!(!written.contains("same command") && !written.contains("exit status"), "{written}");
    assert_eq!(leftovers(folder.path()), 0);
}

/// Ctrl-C is sent to all processes in the foreground, to ssh and to a local far end as well.
#[test]
fn ctrl_c_says_what_is_left_and_how_to_go_on() {
    for remote in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let (source, target) = large_file(folder.path());
        let there = if remote { format!("far:{}", target.display()) } else { utf8(&target).to_owned() };
        let command = |rate: &'static str| {
            let arguments = ["--limit-rate", rate, utf8(&source), &there];
            if remote {
                return over_ssh(folder.path(), &arguments);
            }
            let mut command = sealane(&["cp"]);
            command.args(arguments);
            command
        };
        let mut terminal = Terminal::start(&command("4M"), 80);
        if remote {
            terminal.wait_for("password: ");
            terminal.press(b"secret\n");
        }
        // The copy is then under way for about a second.
        terminal.wait_for("4.");
        terminal.press(CTRL_C);
        let (code, written) = terminal.end();
        assert_eq!(code, Some(130), "{written}");
        let end = written.split_once("sealane: interrupted").expect("it says so").1;
        for said in ["run the same command again", &there, ".sealane-*.part", ".sealane-*.journal"] {
            assert!(end.contains(said), "no {said} in {end}");
        }
        assert!(!written.contains("ended with") && !written.contains("exit status"), "{written}");
        assert!(!target.exists());
        // The far end may need a moment to end; the next run waits for it.
        let mut terminal = Terminal::start(&command("1G"), 80);
        if remote {
            terminal.wait_for("password: ");
            terminal.press(b"secret\n");
        }
        let (code, written) = terminal.end();
        assert_eq!(code, Some(0), "{written}");
        assert!(written.contains("continuing; "), "{written}");
        assert!(fs::read(&target).expect("the copy") == pattern(LARGE_BYTES));
        assert_eq!(leftovers(folder.path()), 0);
    }
}

#[test]
fn help_says_how_long_leftovers_stay_and_how_to_remove_them() {
    let output = sealane(&["cp", "--help"]).output().expect("the program starts");
    let help = text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    for said in ["and removes all of these when it completes", "-name '.sealane-*' -delete"] {
        assert!(help.contains(said), "no {said:?} in {help}");
    }
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for columns in [40, 80] {
        let folder = tempfile::tempdir().expect("a folder");
        let (source, target) = large_file(folder.path());
        let arguments = ["cp", "--limit-rate", "8M", utf8(&source), utf8(&target)];
        let (code, written) = Terminal::start(&sealane(&arguments), columns).end();
        assert_eq!(code, Some(0), "{written}");
        let columns = usize::from(columns);
        // Each time two lines are drawn, both padded with blanks to the terminal's width.
        let frames: Vec<_> =
            lines(&written).into_iter().filter(|line| line.contains(" of 12.0 MB")).collect();
        assert!(frames.len() > 2, "{written:?}");
        let bars: Vec<String> = frames.iter().map(|frame| frame.chars().skip(columns).collect()).collect();
        for bar in &bars {
            assert!(
                bar.starts_with(|c: char| c.is_ascii_digit()),
                "{bar:?} is not at a line's start: {written:?}"
            );
            assert!(bar.chars().count() < columns, "{bar:?} is wider than {columns}");
        }
        let is_told = |bars: &[String]| bars.iter().any(|bar| bar.contains(" left"));
        assert!(is_told(&bars) && !bars.iter().any(|bar| bar.contains(" 0s left")), "{bars:?}");
    }
}

#[test]
fn what_an_earlier_run_left_is_no_progress_of_this_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, target) = large_file(folder.path());
    let arguments = ["cp", "--limit-rate", "4M", utf8(&source), utf8(&target)];
    let mut terminal = Terminal::start(&sealane(&arguments), 80);
    terminal.wait_for("4.");
    terminal.press(CTRL_C);
    assert_eq!(terminal.end().0, Some(130));
    let output = sealane(&[&arguments[..], &["--json"]].concat()).ends(0);
    let events = events(&output.stdout);
    let kept = events.last().expect("a last line")["resumed_bytes"].as_u64().expect("a number");
    assert!(kept > 0);
    for event in events.iter().filter(|event| event["event"] == "progress") {
        for number in ["bytes", "bytes_found"] {
            assert!(event[number].as_u64() <= Some(LARGE_BYTES as u64 - kept), "{kept} of {event}");
        }
    }
}

#[test]
fn a_dry_run_says_what_would_happen_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, target) = (folder.path().join("tree"), folder.path().join("copy"));
    fs::create_dir(&source).expect("a folder");
    write(&source.join("one"), &pattern(1500));
    let arguments = ["cp", "-rn", "--stats", utf8(&source), utf8(&target)];
    let (code, written) = Terminal::start(&sealane(&arguments), 200).end();
    assert_eq!(code, Some(0), "{written}");
    let total = format!("would copy 2 entries, 1.50 kB, to {}; nothing was changed", target.display());
    let mut found: Vec<_> = written.lines().map(|line| line.trim_end().to_owned()).collect();
    assert_eq!(found.pop().as_deref(), Some(&*total), "{written:?}");
    found.sort();
    assert_eq!(found.len(), 2, "{written:?}");
    assert!(found[1].ends_with("one"), "{written:?}");
    assert!(!target.exists());
}
