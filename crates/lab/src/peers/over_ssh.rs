//! Copy programs over SSH: scp, sftp, rsync, rclone, tar through a pipe, and the product itself beside them.
//!
//! Guarantees: all of them use one private server, started once, and the same cipher if it can be chosen; key
//! exchange and start of the remote program are part of each run.

use super::client::{Client, Far, measure};
use super::tool::{BOTH, Found, Installed, SharedSshd, Tool};
use super::{
    Kind, OWN_OVER_SFTP, OWN_OVER_SSH, OWN_PULLS, Peer, PrivateSshd, Skipped, Version, Workload,
    version::version,
};
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
    &SCP,
    &SFTP,
    &RSYNC,
    &RCLONE,
    // By default rclone reads both copies again to compare their MD5.
    &Tool { name: "rclone-sftp-unchecked", run: |found, workload| rclone(found, workload, false), ..RCLONE },
    &Tool { name: "tar-ssh", kinds: &[Kind::Tree], programs: &["tar", "ssh"], run: tar, ..RSYNC },
];

/// scp, which speaks SFTP since OpenSSH 9.
pub(crate) const SCP: Tool = Tool {
    name: "scp",
    programs: &["scp", "ssh"],
    version: of_the_server,
    run: |found, workload| scp(found, workload, &["-q", "-r", "--"]),
    ..RSYNC
};

/// scp with the protocol of 2002.
pub(crate) const SCP_OLD: Tool =
    Tool { name: "scp -O", run: |found, workload| scp(found, workload, &["-O", "-q", "-r", "--"]), ..SCP };

pub(crate) const SFTP: Tool =
    Tool { name: "sftp", programs: &["sftp", "ssh"], version: of_the_server, run: sftp, ..RSYNC };

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

/// The product, whose program must be given by [`Installed::by`].
pub(crate) const OWN: Tool = Tool { name: OWN_OVER_SSH, programs: &["ssh"], run: own_copy, ..RSYNC };

/// The product over SFTP, as with a far end that has only sshd; the number of connections is fixed, or its own choice.
const OWN_SFTP: Tool =
    Tool { name: OWN_OVER_SFTP, run: |found, workload| sftp_push(found, workload, &[]), ..OWN };

/// The same with fixed numbers of connections.
const OWN_SFTP_BY: [&Tool; 5] = [
    &Tool { name: "sealane cp, SFTP, 1", run: sftp_by::<1>, ..OWN },
    &Tool { name: "sealane cp, SFTP, 2", run: sftp_by::<2>, ..OWN },
    &Tool { name: "sealane cp, SFTP, 4", run: sftp_by::<4>, ..OWN },
    &Tool { name: "sealane cp, SFTP, 8", run: sftp_by::<8>, ..OWN },
    &Tool { name: "sealane cp, SFTP, 16", run: sftp_by::<16>, ..OWN },
];

/// Copies in the other direction, and scp as its users run it.
const OWN_PULL: Tool = Tool { name: OWN_PULLS, run: sftp_pull, ..OWN };
const SCP_PULL: Tool = Tool { name: "scp, pull", run: scp_pull, ..SCP };
/// The list of ciphers is ssh's own: the plus adds one that it has already.
const SCP_BY_DEFAULT: Tool = Tool {
    name: "scp, default cipher",
    run: |found, workload| scp(found, workload, &["-o", "Ciphers=+aes128-ctr", "-q", "-r", "--"]),
    ..SCP
};

/// Returns the product, started over ssh as the others are: its login and its far end are part of each run.
pub(crate) fn own(surroundings: &Arc<Surroundings>, program: &Path) -> Box<dyn Peer> {
    Box::new(Installed::new(&OWN, surroundings, &SharedSshd::default()).by(program))
}

/// Returns the product over SFTP: by its own choice of connections, then by each fixed number.
pub(crate) fn own_over_sftp(surroundings: &Arc<Surroundings>, program: &Path) -> Vec<Box<dyn Peer>> {
    let sshd = SharedSshd::default();
    let peer = |tool| Box::new(Installed::new(tool, surroundings, &sshd).by(program)) as Box<dyn Peer>;
    [&OWN_SFTP].into_iter().chain(OWN_SFTP_BY).map(peer).collect()
}

/// Returns the product over SFTP in both directions, with one, two and eight connections, and the tools that it is
/// compared with.
pub(crate) fn beside_sftp(surroundings: &Arc<Surroundings>, program: &Path) -> Vec<Box<dyn Peer>> {
    let sshd = SharedSshd::default();
    let installed = |tool| Installed::new(tool, surroundings, &sshd);
    let own = [&OWN_SFTP, OWN_SFTP_BY[0], OWN_SFTP_BY[1], OWN_SFTP_BY[3], &OWN_PULL];
    let own = own.into_iter().map(|tool| installed(tool).by(program));
    let others = [TOOLS[0], &SCP_BY_DEFAULT, &SCP_PULL, &RSYNC].into_iter().map(installed);
    own.chain(others).map(|peer| Box::new(peer) as Box<dyn Peer>).collect()
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

/// Returns the private server.
pub(super) fn sshd(found: &Found) -> Result<&PrivateSshd, LabError> {
    found.sshd().map_err(|skipped| LabError::Unavailable(skipped.reason))
}

/// Returns a path on the server's host.
pub(super) fn remote(path: &Path) -> OsString {
    let mut text = OsString::from(format!("{}:", PrivateSshd::HOST));
    text.push(path);
    text
}

fn scp(found: &Found, workload: &Workload, options: &[&str]) -> Result<Sample, LabError> {
    let mut command = sshd(found)?.command(found.program());
    command.args(options).arg(workload.source()).arg(remote(workload.target()));
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
    let mut command = found.client();
    command.env("SEALANE_SSH", &found.programs[1]);
    command.args(["cp", "-q", "-r", "--no-resume", "-F"]).arg(sshd(found)?.client_config());
    command.arg("--remote-program").arg(found.program());
    command.arg("--").arg(workload.source()).arg(remote(&workload.target().join("")));
    run(found, vec![Client::new(command)], workload)
}

fn sftp_by<const STREAMS: u8>(found: &Found, workload: &Workload) -> Result<Sample, LabError> {
    sftp_push(found, workload, &["--streams", &STREAMS.to_string()])
}

fn sftp_push(found: &Found, workload: &Workload, options: &[&str]) -> Result<Sample, LabError> {
    let mut command = over_sftp(found)?;
    command.args(options).arg("--").arg(workload.source()).arg(remote(&workload.target().join("")));
    run(found, vec![Client::new(command)], workload)
}

fn sftp_pull(found: &Found, workload: &Workload) -> Result<Sample, LabError> {
    let mut command = over_sftp(found)?;
    command.arg("--").arg(remote(workload.source())).arg(workload.target().join(""));
    run(found, vec![Client::new(command)], workload)
}

fn over_sftp(found: &Found) -> Result<Command, LabError> {
    let mut command = Command::new(found.program());
    command.env("SEALANE_SSH", &found.programs[1]);
    command.args(["cp", "-q", "-r", "--no-resume", "--far-end", "sftp", "-F"]);
    command.arg(sshd(found)?.client_config());
    Ok(command)
}

fn scp_pull(found: &Found, workload: &Workload) -> Result<Sample, LabError> {
    let mut command = sshd(found)?.command(found.program());
    command.args(["-q", "-r", "--"]).arg(remote(workload.source())).arg(workload.target());
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
