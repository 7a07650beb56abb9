//! Records at build time the commit, by which the programs recognise one build.

use std::process::Command;

fn main() {
    // A build from a source archive has no repository; the build is then named by its version alone.
    let commit = first_line(Command::new("git").args(["rev-parse", "--short=12", "HEAD"]));
    let is_dirty =
        first_line(Command::new("git").args(["status", "--porcelain", "--untracked-files=no"])).is_some();
    let commit = commit.map(|commit| if is_dirty { commit + "+changes" } else { commit });
    println!("cargo::rustc-env=SEALANE_COMMIT={}", commit.unwrap_or_default());
    // "+changes" is only true if it is determined again whenever a source or the commit changes.
    println!("cargo::rerun-if-changed=..");
    if let Some(log) = first_line(Command::new("git").args(["rev-parse", "--git-path", "logs/HEAD"])) {
        println!("cargo::rerun-if-changed={log}");
    }
}

fn first_line(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}
