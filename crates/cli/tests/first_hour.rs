//! The first hour, as `docs/first-hour.md` shows it: two hosts with an sshd and a daemon between them, what works and what
//! is refused. The session runs anew, and what differs from the document in more than numbers and keys is told.
//!
//! With `SEALANE_WRITE_SESSION=1` the document is written instead (`cargo xtask session` does).

mod program;

use program::{path, skip, text};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const HEAD: &str = "# The first hour\n\n\
    A session on two hosts, `laptop` and `server`. `cargo xtask session` writes this file, and a test repeats the session\n\
    and compares the output. The progress bar is left out.\n";

fn document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/first-hour.md")
}

/// What is the same each time: without numbers, keys and digests.
fn stable(transcript: &str) -> Vec<String> {
    let word = |word: &str| {
        let is_key = word.contains("sealane1:");
        let is_hex = |part: &str| part.len() == 4 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_fingerprint = word.len() > 20 && word.trim_end_matches(')').split('-').all(is_hex);
        let is_digest = word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        match is_key || is_digest || is_fingerprint {
            true => "KEY".to_owned(),
            false => {
                let digits = word.chars().map(|c| if c.is_ascii_digit() { '0' } else { c });
                let mut shown: String = digits.collect();
                while shown.contains("00") || shown.contains("0.0") {
                    shown = shown.replace("00", "0").replace("0.0", "0");
                }
                shown
            }
        }
    };
    let line = |line: &str| line.split_whitespace().map(word).collect::<Vec<_>>().join(" ");
    transcript.lines().map(line).collect()
}

/// The session as Markdown: chapters as headings, the rest in blocks.
fn markdown(said: &str) -> String {
    let mut page = HEAD.to_owned();
    for chapter in said.split("\n# ").skip(1) {
        let (heading, lines) = chapter.split_once('\n').unwrap_or((chapter, ""));
        let lines = [concat!("/", "home/ada"), concat!("/", "home/eve"), concat!("/", "root")]
            .iter()
            .fold(lines.to_owned(), |lines, home| lines.replace(home, "~"));
        page.push_str(&format!("\n## {heading}\n\n```\n{}\n```\n", lines.trim()));
    }
    page
}

#[test]
fn the_first_hour_is_as_documented() {
    let tools = ["unshare", "ip", "sshd", "ssh", "ssh-keygen", "timeout", "cmp"];
    let has = |tool: &&str| {
        let found =
            Command::new("sh").args(["-c", &format!("command -v {tool}")]).stdout(Stdio::null()).status();
        found.is_ok_and(|status| status.success())
    };
    if let Some(missing) = tools.iter().find(|tool| !has(tool)) {
        return skip(&format!("there is no {missing}"));
    }
    let isolated = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--net", "--pid", "--fork", "--kill-child"]).args(arguments);
        command
    };
    let may =
        isolated(&["sh", "-c", "mount --make-rprivate / && mount -t tmpfs tmpfs /srv && ip link set lo up"]);
    if !{ may }.output().is_ok_and(|output| output.status.success()) {
        return skip("namespaces of one's own take root");
    }
    let scratch = tempfile::tempdir().expect("a folder");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/first_hour/session.sh");
    let program = fs::canonicalize(path()).expect("the program");
    let mut session = isolated(&["bash"]);
    session.arg(script).arg(program).arg(scratch.path()).stdin(Stdio::null()).env_remove("XDG_CONFIG_HOME");
    let output = session.output().expect("it starts");
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", text(&output.stderr));
    let page = markdown(said);
    if std::env::var_os("SEALANE_WRITE_SESSION").is_some() {
        return fs::write(document(), page).expect("the document can be written");
    }
    let shown = fs::read_to_string(document()).expect("the document");
    let (shown, now) = (stable(&shown), stable(&page));
    for (number, (shown, now)) in shown.iter().zip(&now).enumerate() {
        assert_eq!(
            now,
            shown,
            "line {} of docs/first-hour.md; `cargo xtask session` writes it anew\n{said}",
            number + 1
        );
    }
    assert_eq!(now.len(), shown.len(), "docs/first-hour.md has another length\n{said}");
}
