//! What people run over SSH: scp, sftp, rsync, rclone, tar through a pipe, and the product itself beside them.
//!
//! Guarantees: all of them use one private server, started once, and the same cipher where they let one choose; key
//! exchange and start of the remote program are part of each run.

use super::client::{Client, Far, measure};
use super::{Kind, Peer, PeerRun, PrivateSshd, Skipped, Version, Workload, version::version};
use crate::LabError;
use crate::program::Level;
use crate::surroundings::Surroundings;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

/// The server they share, or why there is none.
type Shared = Arc<OnceLock<Result<PrivateSshd, Skipped>>>;

/// All of them, sharing a server.
pub(super) fn all(surroundings: &Arc<Surroundings>) -> Vec<Box<dyn Peer>> {
    let shared = Shared::default();
    Way::ALL
        .into_iter()
        .map(|way| {
            let sshd = Arc::clone(&shared);
            let surroundings = Arc::clone(surroundings);
            Box::new(OverSsh { way, surroundings, sshd, program: PathBuf::new(), ssh: PathBuf::new() })
                as Box<dyn Peer>
        })
        .collect()
}

/// The product, started over ssh as the others are: its login and its far end are part of each run.
pub(crate) fn own(surroundings: &Arc<Surroundings>, program: &Path) -> Box<dyn Peer> {
    Box::new(OverSsh {
        way: Way::Own,
        surroundings: Arc::clone(surroundings),
        sshd: Shared::default(),
        program: program.to_owned(),
        ssh: PathBuf::new(),
    })
}

/// Whether a peer of this name logs in by ssh.
pub(crate) fn is_over_ssh(name: &str) -> bool {
    Way::ALL.into_iter().chain([Way::Own]).any(|way| way.name() == name)
}

/// A way of copying through a session of SSH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Scp,
    Sftp,
    Rsync,
    /// By default rclone reads both copies again to compare their MD5.
    Rclone,
    RcloneUnchecked,
    Tar,
    /// `sealane cp`.
    Own,
}

impl Way {
    /// Of other programs.
    const ALL: [Self; 6] =
        [Self::Scp, Self::Sftp, Self::Rsync, Self::Rclone, Self::RcloneUnchecked, Self::Tar];

    fn name(self) -> &'static str {
        match self {
            Self::Scp => "scp",
            Self::Sftp => "sftp",
            Self::Rsync => "rsync-ssh",
            Self::Rclone => "rclone-sftp",
            Self::RcloneUnchecked => "rclone-sftp-unchecked",
            Self::Tar => "tar-ssh",
            Self::Own => super::OWN_OVER_SSH,
        }
    }

    fn program(self) -> &'static str {
        match self {
            Self::Scp => "scp",
            Self::Sftp => "sftp",
            Self::Rsync => "rsync",
            Self::Rclone | Self::RcloneUnchecked => "rclone",
            Self::Tar => "tar",
            Self::Own => "sealane",
        }
    }
}

#[derive(Debug)]
struct OverSsh {
    way: Way,
    surroundings: Arc<Surroundings>,
    sshd: Shared,
    program: PathBuf,
    ssh: PathBuf,
}

impl Peer for OverSsh {
    fn name(&self) -> &'static str {
        self.way.name()
    }

    fn level(&self) -> Level {
        Level::Private
    }

    fn carries(&self, kind: Kind) -> bool {
        self.way != Way::Tar || kind == Kind::Tree
    }

    fn probe(&mut self) -> Result<Version, Skipped> {
        if self.way != Way::Own {
            self.program = self.surroundings.program(self.way.program())?;
        }
        self.ssh = self.surroundings.program("ssh")?;
        let sshd = self
            .sshd
            .get_or_init(|| PrivateSshd::start(&self.surroundings))
            .as_ref()
            .map_err(Clone::clone)?;
        match self.way {
            // They have no version of their own.
            Way::Scp | Way::Sftp => Ok(sshd.version().clone()),
            Way::Rclone | Way::RcloneUnchecked => version(&self.program, "version"),
            Way::Rsync | Way::Tar | Way::Own => version(&self.program, "--version"),
        }
    }

    fn run(&mut self, workload: &Workload) -> Result<PeerRun, LabError> {
        let Some(Ok(sshd)) = self.sshd.get() else {
            return Err(LabError::Unavailable(format!("{} was not probed", self.name())));
        };
        measure(self.clients(sshd, workload)?, Far::Stays(sshd.server()), workload)
    }
}

impl OverSsh {
    fn clients(&self, sshd: &PrivateSshd, workload: &Workload) -> Result<Vec<Client>, LabError> {
        let (source, target) = (workload.source(), workload.target());
        let remote = |path: &Path| {
            let mut text = OsString::from(format!("{}:", PrivateSshd::HOST));
            text.push(path);
            text
        };
        let mut command = match self.way {
            Way::Scp | Way::Sftp => sshd.command(&self.program),
            _ => Command::new(&self.program),
        };
        match self.way {
            Way::Scp => {
                command.args(["-q", "-r", "--"]).arg(source).arg(remote(target));
            }
            Way::Sftp => {
                command.args(["-q", "-b", "-", PrivateSshd::HOST]);
                let batch = format!("put -R {} {}\n", sftp_word(source)?, sftp_word(target)?);
                return Ok(vec![Client::with_input(command, batch)]);
            }
            Way::Rsync => {
                // Whole files: a difference to an empty target is only work. `-s`: no remote shell reads the paths.
                command.args(["-r", "--whole-file", "-s", "-e"]).arg(self.shell(sshd)?);
                command.arg("--").arg(source).arg(remote(&target.join("")));
            }
            Way::Rclone | Way::RcloneUnchecked => {
                command.arg("--config").arg(sshd.empty_file());
                command.args(["--quiet", "--sftp-host", "127.0.0.1", "--sftp-port"]);
                command.arg(sshd.port().to_string());
                command.arg("--sftp-key-file").arg(sshd.user_key());
                command.arg("--sftp-known-hosts-file").arg(sshd.known_hosts());
                if self.way == Way::RcloneUnchecked {
                    command.args(["--ignore-checksum", "--sftp-disable-hashcheck"]);
                }
                let mut to = OsString::from(":sftp:");
                to.push(workload.copy());
                let action = if workload.kind() == Kind::File { "copyto" } else { "copy" };
                command.arg(action).arg(source).arg(to);
            }
            Way::Own => {
                command.env("SEALANE_SSH", &self.ssh);
                command.args(["cp", "-q", "-r", "--no-resume", "-F"]).arg(sshd.client_config());
                command.arg("--remote-program").arg(&self.program);
                command.arg("--").arg(source).arg(remote(&target.join("")));
            }
            Way::Tar => {
                let (Some(parent), Some(name)) = (source.parent(), source.file_name()) else {
                    return Err(LabError::Unavailable(format!("{} has no name", source.display())));
                };
                command.arg("-C").arg(parent).args(["-cf", "-", "--"]).arg(name);
                let mut unpack = sshd.command(&self.ssh);
                unpack.args([PrivateSshd::HOST, "tar", "-xf", "-", "-C"]);
                unpack.arg(format!("'{}'", plain(target, '\'')?));
                return Ok(vec![Client::new(command), Client::new(unpack)]);
            }
        }
        Ok(vec![Client::new(command)])
    }

    /// rsync splits its remote shell at blanks and honours quotes.
    fn shell(&self, sshd: &PrivateSshd) -> Result<String, LabError> {
        let config = sshd.client_config();
        Ok(format!("'{}' -F '{}'", plain(&self.ssh, '\'')?, plain(&config, '\'')?))
    }
}

/// A path that can stand between two `quote`s.
fn plain(path: &Path, quote: char) -> Result<&str, LabError> {
    path.to_str()
        .filter(|text| !text.contains([quote, '\n']))
        .ok_or_else(|| LabError::Unavailable(format!("{} cannot be quoted", path.display())))
}

/// A path as a word of sftp's batch file, whose patterns must not match anything else.
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
        for peer in all(&Arc::default()) {
            assert!(peer.carries(Kind::Tree));
            assert_eq!(peer.carries(Kind::File), peer.name() != "tar-ssh");
        }
    }
}
