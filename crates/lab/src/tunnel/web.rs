//! A web server on the last host, in clear and under TLS: tiny pages and one large file.
//!
//! Guarantees: it ends with its value; both ways serve the same bytes from the same process.

use super::net::{Net, run, unavailable, write_private};
use crate::LabError;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Files of a run of `tiny`: one opening and one closing tag.
pub(super) const TINY_FILES: u32 = 1000;
const TINY: &str = "<html></html>";
/// The study's large file.
pub(super) const LARGE_BYTES: u64 = 200_000_000;
/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running server.
pub(super) struct Web {
    child: Child,
    scheme: &'static str,
    host: &'static str,
}

/// What is not here, if anything.
pub(super) fn missing() -> Option<&'static str> {
    [("curl", "--version"), ("nginx", "-v"), ("openssl", "version")]
        .into_iter()
        .find(|(program, argument)| !super::has(program, argument))
        .map(|(program, _)| program)
}

/// Everything in one process, so that what it serves costs alike.
fn config(at: &str, host: &str) -> String {
    let folders: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("  {kind}_temp_path \"{at}/{kind}\";\n"))
        .concat();
    format!(
        "daemon off;\nmaster_process off;\npid \"{at}/pid\";\nerror_log stderr;\nevents {{ worker_connections 64; }}\nhttp {{\n  \
         access_log off;\n  sendfile on;\n{folders}  server {{\n    listen {host}:80;\n    listen {host}:443 ssl;\n    \
         ssl_certificate \"{at}/cert.pem\";\n    ssl_certificate_key \"{at}/key.pem\";\n    ssl_protocols TLSv1.3;\n    \
         location /tiny {{ default_type text/html; return 200 \"{TINY}\"; }}\n    location /large {{ root \"{at}\"; }}\n  }}\n}}\n"
    )
}

impl Web {
    /// Starts it; its files go to `folder`, which all servers of a study may share.
    pub(super) fn start(net: &Net, folder: &Path, is_tls: bool) -> Result<Self, LabError> {
        let at = folder.join("web");
        let text = at.to_str().filter(|text| !text.contains(['"', '\n', '$', ';', '{', '}', '\\', ' ']));
        let text = text.ok_or_else(|| unavailable("the scratch folder cannot stand in a configuration"))?;
        if !at.exists() {
            fs::create_dir_all(&at).map_err(LabError::file("cannot create", &at))?;
            let made = format!(
                "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=host -keyout {text}/key.pem \
                 -out {text}/cert.pem"
            );
            run("openssl", &made)?;
            let large = at.join("large");
            let file = File::create(&large).and_then(|file| file.set_len(LARGE_BYTES));
            file.map_err(LabError::file("cannot make", &large))?;
        }
        let path: PathBuf = at.join(format!("{}.conf", net.server));
        write_private(&path, &config(text, net.server))?;
        let mut command = net.server("nginx", "-e stderr");
        command.arg("-p").arg(&at).arg("-c").arg(&path);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|source| LabError::Start { program: "nginx".into(), source })?;
        let scheme = if is_tls { "https" } else { "http" };
        let web = Self { child, scheme, host: net.server };
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if web.curl(net, "tiny", "-o /dev/null").status().is_ok_and(|status| status.success()) {
                return Ok(web);
            }
            thread::sleep(Duration::from_millis(20));
        }
        Err(unavailable("nginx does not answer"))
    }

    fn curl(&self, net: &Net, what: &str, options: &str) -> Command {
        let mut command = net.client(0, "curl", &format!("-s -k -m 60 {options}"));
        command.arg(format!("{}://{}/{what}", self.scheme, self.host));
        command.stderr(Stdio::null());
        command
    }

    /// A thousand tiny files, each by a curl of its own: files a second.
    pub(super) fn tiny(&self, net: &Net) -> Option<f64> {
        let script = format!(
            "i=0; while [ $i -lt {TINY_FILES} ]; do curl -s -k -m 5 -o /dev/null {}://{}/tiny || exit 1; i=$((i+1)); done",
            self.scheme, self.host
        );
        let start = Instant::now();
        let status = net.client(0, "sh", "-c").arg(script).status().ok()?;
        status.success().then(|| f64::from(TINY_FILES) / start.elapsed().as_secs_f64())
    }

    /// The large file: bytes a second, as curl says.
    pub(super) fn large(&self, net: &Net) -> Option<f64> {
        let output =
            self.curl(net, "large", "-o /dev/null -w %{size_download}:%{speed_download}").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (bytes, rate) = text.trim().split_once(':')?;
        let is_whole = output.status.success() && bytes.parse() == Ok(LARGE_BYTES);
        rate.parse().ok().filter(|_| is_whole)
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
