//! Writes manual pages and completions, which the program generates from its own argument definitions. They are not
//! committed, so they cannot be outdated.

use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};

const SHELLS: [(&str, &str); 3] = [("bash", "sealane"), ("zsh", "_sealane"), ("fish", "sealane.fish")];

/// Writes one page for the program and one for each of its commands.
pub(crate) fn man(root: &Path, directory: &Path) -> Result<()> {
    let directory = std::path::absolute(directory).context("resolving the target folder")?;
    let status = program(root).arg("man").arg(&directory).status().context("running cargo")?;
    ensure!(status.success(), "`sealane man` failed: {status}");
    Ok(())
}

/// Writes one completion file per shell, under the name that the shell expects.
pub(crate) fn completions(root: &Path, directory: &Path) -> Result<()> {
    let directory = std::path::absolute(directory).context("resolving the target folder")?;
    std::fs::create_dir_all(&directory).with_context(|| format!("creating {}", directory.display()))?;
    for (shell, file) in SHELLS {
        let output = program(root)
            .args(["completions", shell])
            .stderr(Stdio::inherit())
            .output()
            .context("running cargo")?;
        ensure!(output.status.success(), "`sealane completions {shell}` failed: {}", output.status);
        let path = directory.join(file);
        std::fs::write(&path, output.stdout).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

fn program(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(["run", "--quiet", "--package", "sealane", "--"]);
    command
}
