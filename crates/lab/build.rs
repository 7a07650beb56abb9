//! Records at build time the compiler and the commit, which a report must name later.

use std::process::Command;

fn main() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    emit("SEALANE_RUSTC", first_line(Command::new(rustc).arg("--version")));
    // A build from a source archive has no repository; the report then omits the commit.
    let commit = first_line(Command::new("git").args(["rev-parse", "--short=12", "HEAD"]));
    let is_dirty =
        first_line(Command::new("git").args(["status", "--porcelain", "--untracked-files=no"])).is_some();
    emit("SEALANE_COMMIT", commit.map(|commit| if is_dirty { commit + "+changes" } else { commit }));
    // "+changes" is only true if it is determined again whenever a source or the commit changes.
    println!("cargo::rerun-if-changed=..");
    if let Some(log) = first_line(Command::new("git").args(["rev-parse", "--git-path", "logs/HEAD"])) {
        println!("cargo::rerun-if-changed={log}");
    }
}

fn emit(name: &str, value: Option<String>) {
    println!("cargo::rustc-env={name}={}", value.unwrap_or_default());
}

fn first_line(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}
