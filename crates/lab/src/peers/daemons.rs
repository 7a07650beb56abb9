//! Copies from and to servers of their own: rsync's daemon, and HTTPS.
//!
//! Guarantees: servers listen on 127.0.0.1 and serve one directory; they are up before the clock starts and are ended
//! after it stops; HTTPS uses TLS 1.3 with AES-128-GCM and a certificate made for the run, which the client checks.

use super::client::{Client, Far, measure, run_to_end};
use super::server::Server;
use super::{Kind, Peer, PeerRun, Skipped, Version, Workload, version::version};
use crate::LabError;
use crate::program::Level;
use crate::scratch::Scratch;
use crate::surroundings::Surroundings;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

const SETUP_LIMIT: Duration = Duration::from_secs(20);

/// What the HTTPS server calls the workload.
const SERVED: &str = "content";

fn write(path: &Path, text: &str) -> Result<(), LabError> {
    fs::write(path, text).map_err(LabError::file("cannot write", path))
}

/// A path that servers' configurations can hold: they have no way to quote line ends or quotes.
fn quotable(path: &Path) -> Result<&str, LabError> {
    path.to_str()
        .filter(|text| !text.contains(['"', '\n', '$', ';', '{', '}', '%', '\\']))
        .ok_or_else(|| LabError::Unavailable(format!("{} cannot stand in a configuration", path.display())))
}

/// rsync to its daemon: no encryption, no identity of the server.
#[derive(Debug)]
pub(super) struct RsyncDaemon {
    surroundings: Arc<Surroundings>,
    program: PathBuf,
}

impl RsyncDaemon {
    pub(super) fn new(surroundings: &Arc<Surroundings>) -> Self {
        Self { surroundings: Arc::clone(surroundings), program: PathBuf::new() }
    }
}

impl Peer for RsyncDaemon {
    fn name(&self) -> &'static str {
        "rsync-daemon"
    }

    fn level(&self) -> Level {
        Level::Clear
    }

    fn carries(&self, _kind: Kind) -> bool {
        true
    }

    fn probe(&mut self) -> Result<Version, Skipped> {
        self.program = self.surroundings.program("rsync")?;
        version(&self.program, "--version")
    }

    fn run(&mut self, workload: &Workload) -> Result<PeerRun, LabError> {
        let directory = Scratch::create(&self.surroundings, None, 0)?;
        let (config, secrets) = (directory.path().join("rsyncd.conf"), directory.path().join("secrets"));
        // Anyone on this machine can reach the port, so the module asks for a password of this run.
        let password = password()?;
        write(&secrets, &format!("lab:{password}\n"))?;
        let text = rsyncd_config(workload.target(), &secrets)?;
        write(&config, &text)?;
        let client_secret = directory.path().join("password");
        write(&client_secret, &password)?;
        for file in [&secrets, &client_secret] {
            // rsync refuses a password that others may read.
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            fs::set_permissions(file, mode).map_err(LabError::file("cannot protect", file))?;
        }
        let (server, port) = Server::listening("rsync --daemon", |port| {
            let mut words: Vec<OsString> = vec![self.program.clone().into_os_string()];
            let port = port.to_string();
            let arguments =
                ["--daemon", "--no-detach", "--address", "127.0.0.1", "--port", &port, "--config"];
            words.extend(arguments.map(OsString::from));
            words.push(config.clone().into_os_string());
            Ok(words)
        })?;
        let mut command = Command::new(&self.program);
        command.args(["-r", "--whole-file", "--password-file"]).arg(&client_secret);
        command.arg("--").arg(workload.source()).arg(format!("rsync://lab@127.0.0.1:{port}/lab/"));
        measure(vec![Client::new(command)], Far::Stays(&server), workload)
    }
}

fn password() -> Result<String, LabError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| LabError::Unavailable(format!("no random bytes: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// As root the daemon would otherwise write as `nobody`, who may not enter the lab's directory.
fn rsyncd_config(target: &Path, secrets: &Path) -> Result<String, LabError> {
    let (target, secrets) = (quotable(target)?, quotable(secrets)?);
    let owner = if rustix::process::geteuid().is_root() { "uid = 0\ngid = 0\n" } else { "" };
    Ok(format!(
        "use chroot = no\n{owner}log file = /dev/null\n[lab]\npath = {target}\nread only = no\n\
         auth users = lab\nsecrets file = {secrets}\n"
    ))
}

/// curl from a server with TLS: nginx, or OpenSSL's own where that is missing.
#[derive(Debug)]
pub(super) struct CurlHttps {
    surroundings: Arc<Surroundings>,
    curl: PathBuf,
    openssl: PathBuf,
    nginx: Option<PathBuf>,
}

impl CurlHttps {
    pub(super) fn new(surroundings: &Arc<Surroundings>) -> Self {
        let surroundings = Arc::clone(surroundings);
        Self { surroundings, curl: PathBuf::new(), openssl: PathBuf::new(), nginx: None }
    }

    fn make_certificate(&self, at: &Path) -> Result<(), LabError> {
        let mut command = Command::new(&self.openssl);
        command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
        command.args(["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]);
        command.arg("-keyout").arg(at.join("key.pem")).arg("-out").arg(at.join("cert.pem"));
        run_to_end(Client::new(command), SETUP_LIMIT).map(drop)
    }

    fn serve(&self, at: &Path, root: &Path) -> Result<(Server, u16), LabError> {
        match &self.nginx {
            Some(nginx) => {
                let (at_text, root) = (quotable(at)?, quotable(root)?);
                Server::listening("nginx", |port| {
                    let config = at.join("nginx.conf");
                    write(&config, &nginx_config(at_text, root, port))?;
                    let mut words = vec![nginx.clone().into_os_string(), "-e".into(), "stderr".into()];
                    words.extend(["-p".into(), at.as_os_str().to_owned(), "-c".into(), config.into()]);
                    Ok(words)
                })
            }
            None => Server::listening("openssl s_server", |port| {
                // It serves its current directory; the shell changes there and becomes it.
                let script = "cd \"$1\" && shift && exec \"$@\"";
                let mut words: Vec<OsString> = ["/bin/sh", "-c", script, "sh"].map(OsString::from).to_vec();
                words.extend([root.as_os_str().to_owned(), self.openssl.clone().into_os_string()]);
                words.extend(["s_server", "-quiet", "-WWW", "-tls1_3", "-accept"].map(OsString::from));
                words.push(format!("127.0.0.1:{port}").into());
                words.extend(["-cert".into(), at.join("cert.pem").into_os_string()]);
                words.extend(["-key".into(), at.join("key.pem").into_os_string()]);
                Ok(words)
            }),
        }
    }
}

impl Peer for CurlHttps {
    fn name(&self) -> &'static str {
        "curl-https"
    }

    fn level(&self) -> Level {
        Level::Private
    }

    fn carries(&self, kind: Kind) -> bool {
        kind == Kind::File
    }

    fn probe(&mut self) -> Result<Version, Skipped> {
        self.curl = self.surroundings.program("curl")?;
        self.openssl = self.surroundings.program("openssl")?;
        self.nginx = self.surroundings.program("nginx").ok();
        let client = version(&self.curl, "--version")?;
        let server = match &self.nginx {
            Some(nginx) => version(nginx, "-v")?,
            None => version(&self.openssl, "version")?,
        };
        // "curl 7.88.1 (x86_64-...) libcurl/... ..." up to the bracket says it.
        let client = client.0.split(" (").next().unwrap_or_default().to_owned();
        Ok(Version(format!("{client}, {}", server.0)))
    }

    fn run(&mut self, workload: &Workload) -> Result<PeerRun, LabError> {
        let directory = Scratch::create(&self.surroundings, None, 0)?;
        self.make_certificate(directory.path())?;
        // One link is all that is served, under a name that needs no escapes.
        let root = directory.empty_directory("served")?;
        symlink(workload.source(), root.join(SERVED))
            .map_err(LabError::file("cannot link", root.join(SERVED)))?;
        let (server, port) = self.serve(directory.path(), &root)?;
        let mut command = Command::new(&self.curl);
        // `-q` comes first: the user's own configuration is not read.
        command.args(["-q", "--silent", "--show-error", "--fail", "--noproxy", "*", "--http1.1"]);
        command.args(["--tlsv1.3", "--tls13-ciphers", "TLS_AES_128_GCM_SHA256", "--cacert"]);
        command.arg(directory.path().join("cert.pem")).arg("--output").arg(workload.copy());
        command.arg(format!("https://127.0.0.1:{port}/{SERVED}"));
        measure(vec![Client::new(command)], Far::Stays(&server), workload)
    }
}

fn nginx_config(at: &str, root: &str, port: u16) -> String {
    format!(
        "daemon off;\nmaster_process off;\nworker_processes 1;\npid \"{at}/pid\";\nerror_log stderr;\n\
         events {{ worker_connections 64; }}\nhttp {{\n  access_log off;\n  sendfile on;\n  \
         client_body_temp_path \"{at}/body\";\n  proxy_temp_path \"{at}/proxy\";\n  \
         fastcgi_temp_path \"{at}/fastcgi\";\n  uwsgi_temp_path \"{at}/uwsgi\";\n  scgi_temp_path \"{at}/scgi\";\n  \
         server {{\n    listen 127.0.0.1:{port} ssl;\n    ssl_certificate \"{at}/cert.pem\";\n    \
         ssl_certificate_key \"{at}/key.pem\";\n    ssl_protocols TLSv1.3;\n    root \"{root}\";\n  }}\n}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::tests::{a_file, copies};

    #[test]
    fn paths_that_would_be_syntax_are_refused() {
        assert!(rsyncd_config(Path::new("/a\n[all]"), Path::new("/s")).is_err());
        assert!(quotable(Path::new("/a b")).is_ok());
        assert_ne!(password().unwrap(), password().unwrap());
    }

    #[test]
    fn openssl_serves_where_nginx_is_missing() {
        let mut peer = CurlHttps::new(&Arc::default());
        if let Err(skipped) = peer.probe() {
            crate::skip::skip(&skipped.reason);
            return;
        }
        peer.nginx = None;
        let (_directory, workload) = a_file();
        copies(&mut peer, &workload);
    }
}
