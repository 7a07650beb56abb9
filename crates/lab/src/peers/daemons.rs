//! Peers with servers of their own: rsync's daemon, FTP, HTTP and HTTPS; and iperf3, which moves the same number of bytes
//! from memory to memory: the bare speed of the path.
//!
//! Guarantees: servers listen on one address and serve one directory; they are ready before the clock starts and are
//! ended after it stops; HTTPS uses TLS 1.3 with AES-128-GCM and a certificate made for the run, which the client
//! checks.

use super::client::{Client, Far, measure, run_to_end};
use super::server::Server;
use super::tool::{BOTH, Found, Installed, Tool, by_itself};
use super::{Hosts, Kind, Version, Workload, version::version};
use crate::LabError;
use crate::experiment::Sample;
use crate::program::Level;
use crate::scratch::Scratch;
use crate::skipped::Skipped;
use crate::surroundings::Surroundings;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SETUP_LIMIT: Duration = Duration::from_secs(20);

/// The workload's name on a web server, and a page of one opening and one closing tag.
const SERVED: &str = "content";
const TINY: (&str, &str) = ("tiny.html", "<html></html>");

/// rsync with its daemon: no encryption, no identity of the server.
pub(super) const RSYNC: Tool = Tool {
    name: "rsync-daemon",
    level: Level::Clear,
    kinds: BOTH,
    leaves_a_copy: true,
    programs: &["rsync"],
    version: by_itself,
    run: rsync,
};

/// curl from a server with TLS: nginx, or OpenSSL's server if nginx is missing.
pub(crate) const CURL_HTTPS: Tool = Tool {
    name: "curl-https",
    level: Level::Private,
    kinds: &[Kind::File],
    leaves_a_copy: true,
    programs: &["curl", "openssl"],
    version: web_version,
    run: |found, workload| curl(found, workload, true),
};

/// curl from a web server without encryption.
pub(crate) const CURL_HTTP: Tool = Tool {
    name: "curl-http",
    level: Level::Clear,
    run: |found, workload| curl(found, workload, false),
    ..CURL_HTTPS
};

/// curl from vsftpd, without encryption and without a login.
pub(crate) const FTP: Tool = Tool {
    name: "ftp",
    programs: &["curl", "vsftpd"],
    version: by_itself,
    run: |found, workload| {
        let ftp = Ftp::serve(found, workload.source())?;
        let mut command = found.client();
        command.args(CURL).arg("--output").arg(workload.copy()).arg(&ftp.url);
        measure(vec![Client::new(command)], Far::Stays(&ftp.server), workload)
    },
    ..CURL_HTTP
};

/// wget of a whole tree from a web server without encryption, page after page, as it follows the links.
pub(crate) const WGET_HTTP: Tool = Tool {
    name: "wget-http",
    level: Level::Clear,
    kinds: &[Kind::Tree],
    programs: &["wget", "openssl"],
    run: |found, workload| wget(found, workload, false),
    ..CURL_HTTPS
};

/// The same from a server with TLS.
pub(crate) const WGET_HTTPS: Tool = Tool {
    name: "wget-https",
    level: Level::Private,
    run: |found, workload| wget(found, workload, true),
    ..WGET_HTTP
};

/// Options of curl that read no configuration of the user; `-q` must come first.
const CURL: [&str; 6] = ["-q", "--silent", "--show-error", "--fail", "--noproxy", "*"];

/// One stream of TCP without files at its ends.
pub(super) const IPERF3: Tool = Tool {
    name: "iperf3",
    level: Level::Clear,
    kinds: &[Kind::File],
    leaves_a_copy: false,
    programs: &["iperf3"],
    version: by_itself,
    run: iperf3,
};

fn write(path: &Path, text: &str) -> Result<(), LabError> {
    fs::write(path, text).map_err(LabError::file("cannot write", path))
}

/// Returns a path that servers' configurations can hold: they cannot quote line ends or quotes.
fn quotable(path: &Path) -> Result<&str, LabError> {
    path.to_str()
        .filter(|text| !text.contains(['"', '\n', '$', ';', '{', '}', '%', '\\']))
        .ok_or_else(|| LabError::Unavailable(format!("{} cannot stand in a configuration", path.display())))
}

/// Returns a program and its arguments.
fn words(program: &Path, arguments: &[&str]) -> Vec<OsString> {
    [program.as_os_str()].into_iter().chain(arguments.iter().map(AsRef::as_ref)).map(OsString::from).collect()
}

fn rsync(found: &Found, workload: &Workload) -> Result<Sample, LabError> {
    let directory = Scratch::create(&found.surroundings, None, 0)?;
    let [config, secrets, own_secret] =
        ["rsyncd.conf", "secrets", "password"].map(|name| directory.path().join(name));
    // Every user of this machine can reach the port, so the module requires a password of this run.
    let password = password()?;
    write(&config, &rsyncd_config(workload.target(), &secrets)?)?;
    for (file, text) in [(&secrets, format!("lab:{password}\n")), (&own_secret, password)] {
        write(file, &text)?;
        // rsync refuses a password file that others may read.
        let mode = fs::Permissions::from_mode(0o600);
        fs::set_permissions(file, mode).map_err(LabError::file("cannot protect", file))?;
    }
    let (server, port) = Server::listening(&found.hosts, "rsync --daemon", |port| {
        let port = port.to_string();
        let arguments =
            ["--daemon", "--no-detach", "--address", &found.hosts.address, "--port", &port, "--config"];
        let mut words = words(found.program(), &arguments);
        words.push(config.clone().into_os_string());
        Ok(words)
    })?;
    let mut command = found.client();
    command.args(["-r", "--whole-file", "--password-file"]).arg(&own_secret);
    command.arg("--").arg(workload.source()).arg(format!("rsync://lab@{}:{port}/lab/", found.hosts.address));
    measure(vec![Client::new(command)], Far::Stays(&server), workload)
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

fn iperf3(found: &Found, workload: &Workload) -> Result<Sample, LabError> {
    let address = &*found.hosts.address;
    let (server, port) = Server::listening(&found.hosts, "iperf3 --server", |port| {
        let arguments = ["--server", "--one-off", "--bind", address, "--port", &port.to_string()];
        Ok(words(found.program(), &arguments))
    })?;
    let mut command = found.client();
    command.args(["--client", address, "--port", &port.to_string()]);
    command.args(["--bytes", &workload.bytes().to_string()]);
    measure(vec![Client::new(command)], Far::Ends(server), workload)
}

/// nginx is the third program, if it is installed.
fn web_version(found: &mut Found) -> Result<Version, Skipped> {
    let client = version(found.program(), "--version")?;
    let server = match found.surroundings.program("nginx") {
        Ok(nginx) => {
            let server = version(&nginx, "-v")?;
            found.programs.push(nginx);
            server
        }
        Err(_) => version(&found.programs[1], "version")?,
    };
    // In "curl 7.88.1 (x86_64-...) libcurl/... ..." the text before the bracket is sufficient.
    let client = client.0.split(" (").next().unwrap_or_default().to_owned();
    Ok(Version(format!("{client}, {}", server.0)))
}

/// An FTP server of one file.
pub(crate) struct Ftp {
    // The server is dropped before its files.
    pub(crate) server: Server,
    _directory: Scratch,
    /// The file's address.
    pub(crate) url: String,
}

impl Ftp {
    /// Serves `source`, whose name needs no escapes, and whose folders the user `ftp` may read.
    pub(crate) fn serve(found: &Found, source: &Path) -> Result<Self, LabError> {
        let directory = Scratch::create(&found.surroundings, None, 0)?;
        let empty = directory.empty_directory("empty")?;
        let (folder, name) = source
            .parent()
            .zip(source.file_name())
            .ok_or_else(|| LabError::Unavailable(format!("{} has no name", source.display())))?;
        let address = &*found.hosts.address;
        let (server, port) = Server::listening(&found.hosts, "vsftpd", |port| {
            let config = directory.path().join("vsftpd.conf");
            write(&config, &vsftpd_config(quotable(folder)?, quotable(&empty)?, address, port))?;
            Ok(words(&found.programs[1], &[quotable(&config)?]))
        })?;
        let url = format!("ftp://{address}:{port}/{}", quotable(Path::new(name))?);
        Ok(Self { server, _directory: directory, url })
    }
}

/// vsftpd's filter of system calls kills its children on kernels that are newer than the filter.
fn vsftpd_config(root: &str, empty: &str, address: &str, port: u16) -> String {
    format!(
        "listen=YES\nlisten_address={address}\nlisten_port={port}\nbackground=NO\nanonymous_enable=YES\n\
         local_enable=NO\nanon_root={root}\nno_anon_password=YES\nuse_sendfile=YES\nseccomp_sandbox=NO\n\
         secure_chroot_dir={empty}\n"
    )
}

/// A web server of one file or tree, under a name that needs no escapes, and of a tiny page.
pub(crate) struct Web {
    // The server is dropped before its files.
    pub(crate) server: Server,
    directory: Scratch,
    /// The base of its addresses.
    url: String,
}

impl Web {
    pub(crate) fn serve(found: &Found, source: Option<&Path>, is_tls: bool) -> Result<Self, LabError> {
        let directory = Scratch::create(&found.surroundings, None, 0)?;
        let (at, address) = (directory.path(), &*found.hosts.address);
        let root = directory.empty_directory("served")?;
        write(&root.join(TINY.0), TINY.1)?;
        if let Some(source) = source {
            symlink(source, root.join(SERVED)).map_err(LabError::file("cannot link", root.join(SERVED)))?;
        }
        let mut command = Command::new(&found.programs[1]);
        command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
        command.args(["-nodes", "-days", "2"]);
        command.args(["-subj", "/CN=localhost", "-addext", &format!("subjectAltName=IP:{address}")]);
        command.arg("-keyout").arg(at.join("key.pem")).arg("-out").arg(at.join("cert.pem"));
        run_to_end(Client::new(command), SETUP_LIMIT)?;
        let served = match found.programs.get(2) {
            Some(nginx) => Server::listening(&found.hosts, "nginx", |port| {
                let config = at.join("nginx.conf");
                write(&config, &nginx_config(quotable(at)?, quotable(&root)?, address, port, is_tls))?;
                let mut words = words(nginx, &["-e", "stderr", "-p"]);
                words.extend([at.as_os_str().to_owned(), "-c".into(), config.into()]);
                Ok(words)
            }),
            None if is_tls => Server::listening(&found.hosts, "openssl s_server", |port| {
                // The program serves its current directory; the shell changes there and becomes the program.
                let script = "cd \"$1\" && shift && exec \"$@\"";
                let mut all = words(Path::new("/bin/sh"), &["-c", script, "sh"]);
                all.push(root.clone().into_os_string());
                let listen = format!("{address}:{port}");
                let arguments = ["s_server", "-quiet", "-WWW", "-tls1_3", "-accept", &listen];
                all.extend(words(&found.programs[1], &arguments));
                all.extend(["-cert".into(), at.join("cert.pem").into_os_string()]);
                all.extend(["-key".into(), at.join("key.pem").into_os_string()]);
                Ok(all)
            }),
            None => Err(LabError::Unavailable("no `nginx` in PATH".to_owned())),
        };
        let (server, port) = served?;
        let scheme = if is_tls { "https" } else { "http" };
        Ok(Self { server, url: format!("{scheme}://{address}:{port}"), directory })
    }

    /// Returns the arguments of a curl that checks the certificate.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let tls = ["--http1.1", "--tlsv1.3", "--tls13-ciphers", "TLS_AES_128_GCM_SHA256", "--cacert"];
        let mut words: Vec<OsString> = CURL.into_iter().chain(tls).map(OsString::from).collect();
        words.push(self.certificate().into_os_string());
        words
    }

    /// Returns the server's certificate.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.directory.path().join("cert.pem")
    }

    /// Returns the address of the file or tree.
    pub(crate) fn content(&self) -> String {
        format!("{}/{SERVED}", self.url)
    }
}

fn curl(found: &Found, workload: &Workload, is_tls: bool) -> Result<Sample, LabError> {
    let web = Web::serve(found, Some(workload.source()), is_tls)?;
    let mut command = found.client();
    command.args(web.arguments()).arg("--output").arg(workload.copy()).arg(web.content());
    measure(vec![Client::new(command)], Far::Stays(&web.server), workload)
}

/// Lists of folders are fetched, followed and removed, so that the copy equals the tree.
fn wget(found: &Found, workload: &Workload, is_tls: bool) -> Result<Sample, LabError> {
    let web = Web::serve(found, Some(workload.source()), is_tls)?;
    let mut command = found.client();
    command.args(["--no-config", "--no-proxy", "--no-verbose", "--recursive", "--no-parent", "--level=inf"]);
    command.args(["--no-host-directories", "--cut-dirs=1", "--reject=index.html*", "--directory-prefix"]);
    command.arg(workload.copy()).arg("--ca-certificate").arg(web.certificate());
    command.arg(format!("{}/", web.content()));
    measure(vec![Client::new(command)], Far::Stays(&web.server), workload)
}

/// Fetches `count` tiny pages by HTTP or HTTPS, each with a client of its own; returns pages per second.
pub(crate) fn tiny_pages(
    hosts: &Hosts,
    surroundings: &Arc<Surroundings>,
    (count, is_tls): (u32, bool),
) -> Result<f64, LabError> {
    let unavailable = |skipped: Skipped| LabError::Unavailable(skipped.reason);
    let found = Installed::between(&CURL_HTTPS, surroundings, hosts.clone()).map_err(unavailable)?.found;
    let web = Web::serve(&found, None, is_tls)?;
    let mut command = hosts.client("/bin/sh");
    command
        .args(["-c", "i=0; while [ $i -lt \"$0\" ]; do \"$@\" || exit 1; i=$((i+1)); done"])
        .arg(count.to_string());
    command.arg(found.program()).args(web.arguments()).args(["--max-time", "5", "--output", "/dev/null"]);
    command.arg(format!("{}/{}", web.url, TINY.0));
    let started = Instant::now();
    run_to_end(Client::new(command), super::RUN_LIMIT)?;
    Ok(f64::from(count) / started.elapsed().as_secs_f64())
}

/// Everything runs in one process, so that costs are comparable.
fn nginx_config(at: &str, root: &str, address: &str, port: u16, is_tls: bool) -> String {
    let folders: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("  {kind}_temp_path \"{at}/{kind}\";\n"))
        .concat();
    let tls = if is_tls { " ssl" } else { "" };
    format!(
        "daemon off;\nmaster_process off;\nworker_processes 1;\npid \"{at}/pid\";\nerror_log stderr;\n\
         events {{ worker_connections 64; }}\nhttp {{\n  access_log off;\n  sendfile on;\n  autoindex on;\n{folders}  \
         server {{\n    listen {address}:{port}{tls};\n    ssl_certificate \"{at}/cert.pem\";\n    \
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
        let mut peer = match Installed::between(&CURL_HTTPS, &Arc::default(), Hosts::default()) {
            Ok(peer) => peer,
            Err(skipped) => return crate::skip::skip(&skipped.reason),
        };
        peer.found.programs.truncate(2);
        let (_directory, workload) = a_file();
        copies(&mut peer, &workload);
    }
}
