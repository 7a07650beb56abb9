//! Writes manual pages and completions, which the program generates from its own argument definitions. They are not
//! committed, so they cannot be outdated.

use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};

/// The programs, by package and name.
const PROGRAMS: [(&str, &str); 2] = [("sealane", "sealane"), ("sealane-lab-cli", "sealane-lab")];

/// Shells, with what their files of completions have before and after the program's name.
const SHELLS: [(&str, &str, &str); 3] = [("bash", "", ""), ("zsh", "_", ""), ("fish", "", ".fish")];

/// Writes one page for each program and one for each of its commands.
pub(crate) fn man(root: &Path, directory: &Path) -> Result<()> {
    let directory = std::path::absolute(directory).context("resolving the target folder")?;
    for (package, name) in PROGRAMS {
        let status = program(root, package).arg("man").arg(&directory).status().context("running cargo")?;
        ensure!(status.success(), "`{name} man` failed: {status}");
    }
    Ok(())
}

/// Writes one completion file per shell, under the name that the shell expects.
pub(crate) fn completions(root: &Path, directory: &Path) -> Result<()> {
    let directory = std::path::absolute(directory).context("resolving the target folder")?;
    std::fs::create_dir_all(&directory).with_context(|| format!("creating {}", directory.display()))?;
    for ((package, name), (shell, before, after)) in
        PROGRAMS.into_iter().flat_map(|program| SHELLS.map(|shell| (program, shell)))
    {
        let output = program(root, package)
            .args(["completions", shell])
            .stderr(Stdio::inherit())
            .output()
            .context("running cargo")?;
        ensure!(output.status.success(), "`{name} completions {shell}` failed: {}", output.status);
        let path = directory.join(format!("{before}{name}{after}"));
        std::fs::write(&path, output.stdout).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

fn program(root: &Path, package: &str) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(["run", "--quiet", "--package", package, "--"]);
    command
}
