//! Background traffic of a constant rate: a client that copies a large file, held to the rate by itself.
//!
//! Guarantees: client and server end when the traffic is dropped; the copy is removed by its owner.

use super::daemons::{Ftp, Web};
use super::over_ssh::{remote, sshd};
use super::tool::Found;
use super::{
    CURL_HTTP, CURL_HTTPS, FTP, Installed, OWN_OVER_SSH, Peer as _, PrivateSshd, SCP, SFTP, Server, Workload,
};
use crate::LabError;
use crate::process_tree::Tree;
use std::ffi::OsString;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Traffic between two hosts.
pub(crate) struct Constant<'a> {
    client: Child,
    // The server ends after its client.
    server: Far<'a>,
}

/// The server of the traffic.
enum Far<'a> {
    Web(Web),
    Ftp(Ftp),
    Ssh(&'a PrivateSshd),
}

impl Far<'_> {
    fn server(&self) -> &Server {
        match self {
            Self::Web(web) => &web.server,
            Self::Ftp(ftp) => &ftp.server,
            Self::Ssh(sshd) => sshd.server(),
        }
    }
}

impl<'a> Constant<'a> {
    /// Starts to copy the workload by the tool. The source must be so large that the copy outlasts the traffic.
    pub(crate) fn start(
        tool: &'a Installed,
        workload: &Workload,
        bytes_per_second: u64,
    ) -> Result<Self, LabError> {
        let found = &tool.found;
        let (server, mut command) = Self::client(found, tool.name(), workload, bytes_per_second)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let client = command
            .spawn()
            .map_err(|source| LabError::Start { program: found.program().to_owned(), source })?;
        Ok(Self { client, server })
    }

    fn client(
        found: &'a Found,
        tool: &str,
        workload: &Workload,
        bytes_per_second: u64,
    ) -> Result<(Far<'a>, Command), LabError> {
        let curl = |arguments: Vec<OsString>, url: String| {
            let mut command = found.client();
            command.args(arguments).arg("--limit-rate").arg(bytes_per_second.to_string());
            command.arg("--output").arg(workload.copy()).arg(url);
            command
        };
        let source = remote(workload.source());
        let kilobits = (bytes_per_second / 125).to_string();
        Ok(match tool {
            name if name == CURL_HTTP.name || name == CURL_HTTPS.name => {
                let web = Web::serve(found, Some(workload.source()), name == CURL_HTTPS.name)?;
                let command = curl(web.arguments(), web.content());
                (Far::Web(web), command)
            }
            name if name == FTP.name => {
                let ftp = Ftp::serve(found, workload.source())?;
                let command = curl(vec!["-q".into(), "--silent".into()], ftp.url.clone());
                (Far::Ftp(ftp), command)
            }
            name if name == SCP.name || name == SFTP.name => {
                let sshd = sshd(found)?;
                let mut command = sshd.command(found.program());
                command.args(["-q", "-l", &kilobits]).arg(source).arg(workload.copy());
                (Far::Ssh(sshd), command)
            }
            OWN_OVER_SSH => {
                let sshd = sshd(found)?;
                let mut command = found.client();
                command.env("SEALANE_SSH", &found.programs[1]).args(["cp", "-q", "--no-resume"]);
                command.arg("--limit-rate").arg(bytes_per_second.to_string()).arg("-F");
                command.arg(sshd.client_config()).arg("--remote-program").arg(found.program());
                command.arg("--").arg(source).arg(workload.copy());
                (Far::Ssh(sshd), command)
            }
            other => return Err(LabError::Unavailable(format!("{other} has no limit of its rate"))),
        })
    }

    /// Returns the CPU time of both ends so far.
    pub(crate) fn cpu(&self) -> Duration {
        Tree::of(self.client.id()).cpu() + self.server.server().cpu()
    }

    /// Fails if the traffic has ended.
    pub(crate) fn check(&mut self) -> Result<(), LabError> {
        match self.client.try_wait() {
            Ok(None) => Ok(()),
            _ => Err(LabError::Unavailable("the traffic in the background ended too early".to_owned())),
        }
    }
}

impl Drop for Constant<'_> {
    fn drop(&mut self) {
        Tree::of(self.client.id()).kill();
        // The process was killed; an error cannot be handled.
        let _ = self.client.wait();
    }
}
