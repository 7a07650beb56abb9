//! Copy programs over SSH: scp, sftp, rsync, rclone, tar through a pipe, and the product itself beside them.
//!
//! Guarantees: all of them use one private server, started once, and the same cipher if it can be chosen; key
//! exchange and start of the remote program are part of each run.

use super::client::{Client, Far, measure};
use super::tool::{BOTH, Found, Installed, SharedSshd, Tool};
use super::{Kind, OWN_OVER_SSH, Peer, PrivateSshd, Skipped, Version, Workload, version::version};
use crate::LabError;
use crate::experiment::Sample;
use crate::program::Level;
use crate::surroundings::Surroundings;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// Every program but the product. Every entry has `ssh`, because some programs start it themselves.
pub(super) const TOOLS: [&Tool; 6] = [
    &Tool { name: "scp", programs: &["scp", "ssh"], version: of_the_server, run: scp, ..RSYNC },
    &Tool { name: "sftp", programs: &["sftp", "ssh"], version: of_the_server, run: sftp, ..RSYNC },
    &RSYNC,
    &RCLONE,
    // By default rclone reads both copies again to compare their MD5.
    &Tool { name: "rclone-sftp-unchecked", run: |found, workload| rclone(found, workload, false), ..RCLONE },
    &Tool { name: "tar-ssh", kinds: &[Kind::Tree], programs: &["tar", "ssh"], run: tar, ..RSYNC },
];

const RSYNC: Tool = Tool {
    name: "rsync-ssh",
    level: Level::Private,
    kinds: BOTH,
    leaves_a_copy: true,
    programs: &["rsync", "ssh"],
    version: |found| through_the_server(found, "--version"),
    run: rsync,
};

const RCLONE: Tool = Tool {
    name: "rclone-sftp",
    programs: &["rclone", "ssh"],
    version: |found| through_the_server(found, "version"),
    run: |found, workload| rclone(found, workload, true),
    ..RSYNC
};

const OWN: Tool = Tool { name: OWN_OVER_SSH, programs: &["ssh"], run: own_copy, ..RSYNC };

/// Returns the product, started over ssh as the others are: its login and its far end are part of each run.
pub(crate) fn own(surroundings: &Arc<Surroundings>, program: &Path) -> Box<dyn Peer> {
    Box::new(Installed::new(&OWN, surroundings, &SharedSshd::default()).by(program))
}

/// Returns whether a peer of this name logs in by ssh.
pub(crate) fn is_over_ssh(name: &str) -> bool {
    TOOLS.into_iter().chain([&OWN]).any(|tool| tool.name == name)
}

fn through_the_server(found: &Found, argument: &str) -> Result<Version, Skipped> {
    found.sshd()?;
    version(found.program(), argument)
}

/// scp and sftp have no version of their own.
fn of_the_server(found: &mut Found) -> Result<Version, Skipped> {
    found.sshd().map(|sshd| sshd.version().clone())
}

fn run(found: &Found, clients: Vec<Client>, workload: &Workload) -> Result<Sample, LabError> {
    measure(clients, Far::Stays(sshd(found)?.server()), workload)
}

fn sshd(found: &Found) -> Result<&PrivateSshd, LabError> {
    found.sshd().map_err(|skipped| LabError::Unavailable(skipped.reason))
}

fn remote(path: &Path) -> OsString {
    let mut text = OsString::from(format!("{}:", PrivateSshd::HOST));
    text.push(path);
    text
}

fn scp(found: &Found, workload: &Workload) -> Result<Sample, LabError> {
    let mut command = sshd(found)?.command(found.program());
    command.args(["-q", "-r", "--"]).arg(workload.source()).arg(remote(workload.target()));
    run(found, vec![Client::new(command)], workload)
}

fn sftp(found: &Found, workload: &Workload) -> Result<Sample, LabError> {
    let mut command = sshd(found)?.command(found.program());
    command.args(["-q", "-b", "-", PrivateSshd::HOST]);
    let batch = format!("put -R {} {}\n", sftp_word(workload.source())?, sftp_word(workload.target())?);
    run(found, vec![Client::with_input(command, batch)], workload)
}

/// Whole files are sent, because a comparison with an empty target is wasted work. With `-s`, no remote shell reads
/// the paths. rsync splits its remote shell at blanks and honours quotes.
fn rsync(found: &Found, workload: &Workload) -> Result<Sample, LabError> {
    let config = sshd(found)?.client_config();
    let shell = format!("'{}' -F '{}'", plain(&found.programs[1], '\'')?, plain(&config, '\'')?);
    let mut command = found.client();
    command.args(["-r", "--whole-file", "-s", "-e", &shell, "--"]);
    command.arg(workload.source()).arg(remote(&workload.target().join("")));
    run(found, vec![Client::new(command)], workload)
}

fn rclone(found: &Found, workload: &Workload, compares: bool) -> Result<Sample, LabError> {
    let sshd = sshd(found)?;
    let mut command = found.client();
    command.arg("--config").arg(sshd.empty_file());
    command.args(["--quiet", "--sftp-host", "127.0.0.1", "--sftp-port", &sshd.port().to_string()]);
    command.arg("--sftp-key-file").arg(sshd.user_key());
    command.arg("--sftp-known-hosts-file").arg(sshd.known_hosts());
    if !compares {
        command.args(["--ignore-checksum", "--sftp-disable-hashcheck"]);
    }
    let mut to = OsString::from(":sftp:");
    to.push(workload.copy());
    let action = if workload.kind() == Kind::File { "copyto" } else { "copy" };
    command.arg(action).arg(workload.source()).arg(to);
    run(found, vec![Client::new(command)], workload)
}

fn tar(found: &Found, workload: &Workload) -> Result<Sample, LabError> {
    let source = workload.source();
    let (Some(parent), Some(name)) = (source.parent(), source.file_name()) else {
        return Err(LabError::Unavailable(format!("{} has no name", source.display())));
    };
    let mut pack = found.client();
    pack.arg("-C").arg(parent).args(["-cf", "-", "--"]).arg(name);
    let mut unpack = sshd(found)?.command(&found.programs[1]);
    unpack.args([PrivateSshd::HOST, "tar", "-xf", "-", "-C"]);
    unpack.arg(format!("'{}'", plain(workload.target(), '\'')?));
    run(found, vec![Client::new(pack), Client::new(unpack)], workload)
}

fn own_copy(found: &Found, workload: &Workload) -> Result<Sample, LabError> {
    let mut command = Command::new(found.program());
    command.env("SEALANE_SSH", &found.programs[1]);
    command.args(["cp", "-q", "-r", "--no-resume", "-F"]).arg(sshd(found)?.client_config());
    command.arg("--remote-program").arg(found.program());
    command.arg("--").arg(workload.source()).arg(remote(&workload.target().join("")));
    run(found, vec![Client::new(command)], workload)
}

/// Returns a path that can be enclosed in two `quote`s.
fn plain(path: &Path, quote: char) -> Result<&str, LabError> {
    path.to_str()
        .filter(|text| !text.contains([quote, '\n']))
        .ok_or_else(|| LabError::Unavailable(format!("{} cannot be quoted", path.display())))
}

/// Returns a path as a word of sftp's batch file, whose patterns must not match other paths.
fn sftp_word(path: &Path) -> Result<String, LabError> {
    let mut word = String::from("\"");
    for character in plain(path, '"')?.chars() {
        if matches!(character, '\\' | '*' | '?' | '[') {
            word.push('\\');
        }
        word.push(character);
    }
    word.push('"');
    Ok(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_sftp_hold_any_usual_path() {
        assert_eq!(sftp_word(Path::new("/a b/c*[d]?")).unwrap(), "\"/a b/c\\*\\[d]\\?\"");
        assert!(sftp_word(Path::new("/a\"b")).is_err());
        assert!(plain(Path::new("/it's"), '\'').is_err());
    }

    #[test]
    fn only_tar_needs_a_tree() {
        for tool in TOOLS {
            assert!(tool.kinds.contains(&Kind::Tree));
            assert_eq!(tool.kinds.contains(&Kind::File), tool.name != "tar-ssh");
        }
    }
}
