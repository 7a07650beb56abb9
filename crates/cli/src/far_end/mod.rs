//! `sealane cp --install-far-end`: copies the program over ssh to a far end that does not have it.
//!
//! Guarantees: nothing is copied without the user's agreement, or if the far host already has the program in this
//! version; a host that sends nothing, or too much, is given up; the copy gets its name only after it has run there
//! and reported this version; no name or path of the user's is passed to the far shell.

mod carried;
mod exchange;

use crate::options::{Plan, Reporting};
use crate::text::{printable, say};
use anyhow::{Context, anyhow};
use exchange::Answer;
use sealane_copy::{ErrorKind, Location, RemoteOptions};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::time::Duration;

/// The path of the copy, for the far shell.
const PROGRAM: &str = "~/.local/bin/sealane";
/// The program's answer to `--version`.
const VERSION: &str = concat!("sealane ", env!("CARGO_PKG_VERSION"));
/// The start of every line that is meant for this program: a far shell may print a greeting.
const MARK: &str = "sealane-far-end:";
/// The minimum time that a host may be silent: a user who is asked for a password may take as long as sshd waits.
const PATIENCE: Duration = Duration::from_secs(120);

/// Prints the host's system and the copies of this program there. The far shell sees one word, because it need not be
/// a POSIX shell.
const LOOK: &str = r#"sh -c 'echo "sealane-far-end:host $(uname -s) $(uname -m)"; for p in sealane "$HOME/.local/bin/sealane"; do v=$("$p" --version 2>/dev/null </dev/null) && echo "sealane-far-end:has $p $v"; done; exit 0'"#;

/// Reads the program from standard input: SIZE bytes, which must run there and print VERSION; otherwise nothing
/// remains.
const TAKE: &str = r#"sh -c 'set -e; umask 077; mkdir -p "$HOME/.local/bin"; cd "$HOME/.local/bin"; new=".sealane-new.$$"; trap "rm -f $new" EXIT; cat > "$new"; if [ "$(wc -c < "$new")" -ne SIZE ]; then echo "sealane-far-end:short"; exit 1; fi; chmod 755 "$new"; v=$("./$new" --version 2>&1 </dev/null) || v="$v (status $?)"; if [ "$v" != "VERSION" ]; then echo "sealane-far-end:says $v"; exit 1; fi; mv -f "$new" sealane; echo "sealane-far-end:done"'"#;

/// The kind of failure, and the error.
type Failed = (ErrorKind, anyhow::Error);

fn failed(kind: ErrorKind) -> impl Fn(anyhow::Error) -> Failed {
    move |error| (kind, error)
}

/// Ensures that the far ends of a plan have the program, and records its path in the plan.
pub(crate) fn install(plan: &mut Plan, is_agreed: bool) -> Result<(), Failed> {
    let mut hosts: Vec<(Option<String>, String, Option<u16>)> = Vec::new();
    for place in plan.sources.iter().chain([&plan.target]) {
        if let Location::Ssh { user, host, port, .. } = place {
            let found = (user.clone(), host.clone(), *port);
            if !hosts.contains(&found) {
                hosts.push(found);
            }
        }
    }
    if hosts.is_empty() {
        return Err((ErrorKind::Usage, anyhow!("--install-far-end needs a far end that is reached by ssh")));
    }
    for (user, host, port) in hosts {
        let patience = plan.options.wishes.timeout.max(PATIENCE);
        let far = Far { remote: &plan.options.remote, user, host, port, reporting: plan.reporting, patience };
        let program = far.provide(is_agreed)?;
        plan.options.remote.found_programs.extend(program.map(|program| (far.host, program.to_owned())));
    }
    Ok(())
}

struct Far<'a> {
    remote: &'a RemoteOptions,
    user: Option<String>,
    host: String,
    port: Option<u16>,
    reporting: Reporting,
    /// The maximum time of silence.
    patience: Duration,
}

/// The description that a far host gives of itself.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    system: String,
    processor: String,
    /// Whether this version is in its PATH.
    in_path: bool,
    /// Whether this version is at the path to which the program would be copied.
    in_place: bool,
}

impl Found {
    fn parse(answer: &str) -> Self {
        let mut found = Self::default();
        for line in answer.lines().filter_map(|line| line.split_once(MARK).map(|(_, said)| said)) {
            match line.split_once(' ') {
                Some(("host", host)) => {
                    let mut words = host.split_whitespace().map(str::to_owned);
                    found.system = words.next().unwrap_or_default();
                    found.processor = words.next().unwrap_or_default();
                }
                Some(("has", program)) if program.ends_with(&format!(" {VERSION}")) => {
                    let is_bare = program.starts_with("sealane ");
                    found.in_path |= is_bare;
                    found.in_place |= !is_bare;
                }
                _ => {}
            }
        }
        found
    }

    /// Returns whether programs for this system run there, on its processor.
    fn is_ours(&self) -> bool {
        self.system.eq_ignore_ascii_case(std::env::consts::OS)
    }
}

impl Far<'_> {
    fn say(&self, message: &str) {
        if !self.reporting.quiet && !self.reporting.json {
            say(&format!("sealane: {message}"));
        }
    }

    /// Returns the program's path at the far host; `None` means that it is in the PATH.
    fn provide(&self, is_agreed: bool) -> Result<Option<&'static str>, Failed> {
        let host = &self.host;
        let found = self.run(LOOK, Vec::new()).map_err(failed(ErrorKind::Connect))?;
        let found = Found::parse(&found.output);
        if found.in_path || found.in_place {
            let place = if found.in_path { "in its PATH" } else { "in ~/.local/bin" };
            self.say(&format!("{host} already has {VERSION}, {place}"));
            return Ok((!found.in_path).then_some(PROGRAM));
        }
        let program = match found.is_ours() {
            true => carried::program(&found.processor).map_err(failed(ErrorKind::Io))?,
            false => None,
        };
        let Some(program) = program else {
            let there = match found.system.is_empty() {
                true => "does not say what it is".to_owned(),
                false => printable(format!("is {} on {}", found.system, found.processor).as_bytes()),
            };
            let ours = format!("{} on {}", std::env::consts::OS, std::env::consts::ARCH);
            let error = anyhow!(
                "{host} {there}; this program is for {ours}, and there is none for that host beside it: build sealane there"
            );
            return Err((ErrorKind::Usage, error));
        };
        let bytes = program.len();
        if !is_agreed {
            agree(&format!("Copy {VERSION} ({} MB) to {PROGRAM} on {host}?", bytes.div_ceil(1_000_000)))?;
        }
        let script = TAKE.replace("SIZE", &bytes.to_string()).replace("VERSION", VERSION);
        let answer = self.run(&script, program).map_err(failed(ErrorKind::Connect))?;
        let said = &answer.output;
        let told = |what: &str| said.lines().find_map(|line| line.split_once(&format!("{MARK}{what}")));
        if let Some((_, said)) = told("says") {
            let said = printable(said.trim().as_bytes());
            let error = anyhow!(
                "the program does not run on {host}, and was removed again: {said}; `cargo xtask static` makes one \
                 that needs no libraries"
            );
            return Err((ErrorKind::Io, error));
        }
        if told("done").is_none() {
            let why = printable(answer.errors.trim().as_bytes());
            return Err((ErrorKind::Io, anyhow!("{PROGRAM} on {host} could not be written: {why}")));
        }
        self.say(&format!("{VERSION} is now in ~/.local/bin on {host}, where later copies find it"));
        Ok(Some(PROGRAM))
    }

    /// Runs one of our scripts at the far host.
    fn run(&self, script: &str, input: Vec<u8>) -> anyhow::Result<Answer> {
        let login = self.remote.log_in(self.user.clone(), self.host.clone(), self.port, self.patience)?;
        let ssh = login.command();
        let answer = exchange::run(ssh.script(script)?, input, self.patience);
        let answer = answer.with_context(|| format!("ssh to {}", self.host))?;
        match answer.status.code() {
            Some(255) | None => {
                let why = printable(answer.errors.trim().as_bytes());
                Err(anyhow!("ssh could not reach {}, log in, or keep the connection: {why}", self.host))
            }
            Some(_) => Ok(answer),
        }
    }
}

/// Asks on the terminal, regardless of standard input.
fn agree(question: &str) -> Result<(), Failed> {
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty");
    let Ok(mut terminal) = terminal else {
        let error = anyhow!("there is no terminal to ask on; add --yes to agree");
        return Err((ErrorKind::Usage, error));
    };
    let mut line = String::new();
    let read = terminal.write_all(format!("{question} [y/N] ").as_bytes()).and_then(|()| {
        let mut answer = BufReader::new(terminal.try_clone()?).take(64);
        answer.read_line(&mut line)
    });
    read.context("asking on the terminal").map_err(failed(ErrorKind::Io))?;
    match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err((ErrorKind::Usage, anyhow!("nothing was installed or copied"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_host_says_is_found_among_what_its_shell_says() {
        let (system, processor) = ("Linux", std::env::consts::ARCH);
        let answer = format!(
            "Welcome!\n{MARK}host {system} {processor}\n{MARK}has sealane sealane 0.0.1\n{MARK}has /srv/a/.local/bin/sealane {VERSION}\n"
        );
        let found = Found::parse(&answer);
        assert!(found.is_ours() && found.processor == processor && found.in_place && !found.in_path);
        assert!(Found::parse(&format!("{MARK}has sealane {VERSION}")).in_path);
        assert!(!Found::parse(&format!("{MARK}host Minix {processor}")).is_ours());
        assert!(!Found::parse("nothing").is_ours() && !Found::parse(&format!("{MARK}host")).is_ours());
    }

    #[test]
    fn scripts_are_one_word_for_the_far_shell() {
        for script in [LOOK, TAKE] {
            let inner =
                script.strip_prefix("sh -c '").and_then(|rest| rest.strip_suffix('\'')).expect("quoted");
            assert!(!inner.contains('\'') && script.contains(MARK));
        }
        assert!(TAKE.contains("SIZE") && TAKE.contains("VERSION"));
    }
}
