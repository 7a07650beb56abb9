//! Documents that are sessions: a script runs their commands anew, and the test reports the first line that differs
//! from the document in more than numbers and keys.
//!
//! A script prints `# HEADING` after an empty line for a chapter, `> TEXT` for a line of prose, and all other lines
//! as they are shown.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::program::{Ends, path, skip, text};

/// A document and the script that writes it.
pub(crate) struct Session {
    /// The document's path in `docs`.
    pub(crate) document: &'static str,
    /// The script's path in the folder of tests.
    pub(crate) script: &'static str,
    /// The text above the first chapter.
    pub(crate) head: &'static str,
    /// The text below the last chapter.
    pub(crate) tail: &'static str,
    /// Programs that the script runs.
    pub(crate) tools: &'static [&'static str],
}

/// Returns the stable part of a line: without numbers, keys and digests.
fn stable(line: &str) -> String {
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
    line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

/// Returns a script's output as Markdown: chapters as headings, prose unchanged, the rest in blocks.
fn markdown(head: &str, said: &str) -> String {
    let mut page = head.to_owned();
    let (mut block, mut is_prose) = (Vec::new(), false);
    let mut is_after_blank = true;
    let close = |page: &mut String, block: &mut Vec<&str>| {
        let lines = block.join("\n");
        if !lines.trim().is_empty() {
            page.push_str(&format!("\n```\n{}\n```\n", lines.trim_matches('\n')));
        }
        block.clear();
    };
    for line in said.lines() {
        // A comment in a file that is shown follows another line.
        let heading = line.strip_prefix("# ").filter(|_| is_after_blank);
        is_after_blank = line.is_empty();
        if let Some(heading) = heading {
            close(&mut page, &mut block);
            page.push_str(&format!("\n## {heading}\n"));
            is_prose = false;
        } else if let Some(prose) = line.strip_prefix("> ") {
            close(&mut page, &mut block);
            page.push_str(&format!("{}{prose}\n", if is_prose { "" } else { "\n" }));
            is_prose = true;
        } else {
            is_prose = false;
            block.push(line);
        }
    }
    close(&mut page, &mut block);
    [concat!("/", "home/ada"), concat!("/", "home/eve"), concat!("/", "root")]
        .iter()
        .fold(page, |page, home| page.replace(home, "~"))
}

impl Session {
    fn path(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(self.document)
    }

    /// Runs the session and compares it with the document, or, with `SEALANE_WRITE_SESSION=1`, writes the document.
    pub(crate) fn holds(&self) {
        let has = |tool: &&&str| {
            let found =
                Command::new("sh").args(["-c", &format!("command -v {tool}")]).stdout(Stdio::null()).status();
            found.is_ok_and(|status| status.success())
        };
        if let Some(missing) = self.tools.iter().find(|tool| !has(tool)) {
            return skip(format!("there is no {missing}"));
        }
        let isolated = |arguments: &[&str]| {
            let mut command = Command::new("unshare");
            command.args(["--mount", "--net", "--pid", "--fork", "--kill-child"]).args(arguments);
            command
        };
        let may = isolated(&[
            "sh",
            "-c",
            "mount --make-rprivate / && mount -t tmpfs tmpfs /srv && ip link set lo up",
        ]);
        if !{ may }.output().is_ok_and(|output| output.status.success()) {
            return skip("namespaces of one's own take root");
        }
        let scratch = tempfile::tempdir().expect("a folder");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(self.script);
        let program = fs::canonicalize(path()).expect("the program");
        let mut session = isolated(&["bash"]);
        session.arg(script).arg(program).arg(scratch.path());
        session.stdin(Stdio::null()).env_remove("XDG_CONFIG_HOME");
        let output = session.ends(0);
        let said = text(&output.stdout);
        let mut page = markdown(self.head, said);
        if !self.tail.is_empty() {
            page = format!("{page}\n{}", self.tail);
        }
        if std::env::var_os("SEALANE_WRITE_SESSION").is_some() {
            return fs::write(self.path(), page).expect("the document can be written");
        }
        let document = fs::read_to_string(self.path()).expect("the document");
        let (shown, now): (Vec<_>, Vec<_>) =
            (document.lines().map(stable).collect(), page.lines().map(stable).collect());
        let name = self.document;
        for (number, (shown, now)) in shown.iter().zip(&now).enumerate() {
            assert_eq!(
                now,
                shown,
                "line {} of docs/{name}; `cargo xtask session` writes it anew\n{said}",
                number + 1
            );
        }
        assert_eq!(now.len(), shown.len(), "docs/{name} has another length\n{said}");
    }
}
