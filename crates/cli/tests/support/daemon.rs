//! A daemon behind a proxy: data that are sent to [`Served::place`] pass through the proxy, data streams included.

use super::proxy::{Proxy, Tamper};
use crate::program::{Ends, Running, sealane, text, write};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// A daemon, its user's home, and a proxy in front of it.
pub(crate) struct Served {
    child: Running,
    folder: TempDir,
    pub(crate) address: SocketAddr,
    pub(crate) proxy: Proxy,
}

fn identify(home: &Path) -> String {
    fs::create_dir(home).expect("a folder");
    let output = sealane(&["id"]).env("HOME", home).ends(0);
    text(&output.stdout).trim().to_owned()
}

impl Served {
    /// Starts with an empty root.
    pub(crate) fn start(tamper: Option<Arc<dyn Tamper>>) -> Self {
        Self::set(tamper, &[])
    }

    /// Starts with an empty root, and with these arguments.
    pub(crate) fn serving(arguments: &[&str]) -> Self {
        Self::set(None, arguments)
    }

    fn set(tamper: Option<Arc<dyn Tamper>>, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        identify(&path("server"));
        let user = identify(&path("user"));
        write(&path("authorised"), format!("{user} user rights=read,write\n").as_bytes());
        fs::create_dir(path("root")).expect("a folder");
        let any = "127.0.0.1:0".parse().expect("an address");
        let (child, address) = spawn(folder.path(), any, arguments);
        let proxy = Proxy::start(address, tamper);
        Self { child, folder, address, proxy }
    }

    /// Returns the folder that peers see.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// Returns the home of a user who may read and write.
    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("user")
    }

    /// Returns the location of a path in the root, through the proxy.
    pub(crate) fn place(&self, path: &str) -> String {
        format!("sealane://{}/{path}", self.proxy.address)
    }

    /// Authorises a key in its text form.
    pub(crate) fn authorise(&self, key: &str, name: &str) {
        self.authorise_to(key, name, "read,write");
    }

    /// Authorises a key with these rights.
    pub(crate) fn authorise_to(&self, key: &str, name: &str, rights: &str) {
        let path = self.folder.path().join("authorised");
        let before = fs::read_to_string(&path).expect("the list of peers");
        write(&path, format!("{before}{key} {name} rights={rights}\n").as_bytes());
    }

    /// Gives the user of [`Self::home`] these rights and no others.
    pub(crate) fn grant(&self, rights: &str) {
        let path = self.folder.path().join("authorised");
        let before = fs::read_to_string(&path).expect("the list of peers");
        let user = |line: &str| match line.split_once(" user rights=") {
            Some((key, _)) => format!("{key} user rights={rights}\n"),
            None => format!("{line}\n"),
        };
        write(&path, before.lines().map(user).collect::<String>().as_bytes());
    }

    /// Returns whether the daemon runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().expect("its status").is_none()
    }

    /// Returns the maximum memory that the daemon has used.
    pub(crate) fn peak_bytes(&self) -> u64 {
        super::run::peak_bytes(self.child.id())
    }

    /// Returns the daemon's output.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Kills the daemon without a warning and starts another on the same port.
    pub(crate) fn kill_and_restart(&mut self) {
        // Its port is free when it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        (self.child, _) = spawn(self.folder.path(), self.address, &[]);
    }
}

fn spawn(folder: &Path, listen: SocketAddr, arguments: &[&str]) -> (Running, SocketAddr) {
    let mut command = sealane(&["serve", "--minimum-level", "safe", "--listen", &listen.to_string()]);
    command.arg(folder.join("root")).arg("--authorised-peers").arg(folder.join("authorised"));
    command.args(arguments);
    let log = fs::File::options().create(true).append(true).open(folder.join("log")).expect("a file");
    let mut child =
        command.env("HOME", folder.join("server")).stderr(log).spawn().expect("the program starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let address = line.trim().strip_prefix("listening on ").and_then(|address| address.parse().ok());
    let Some(address) = address else {
        panic!("the daemon did not start: {}", fs::read_to_string(folder.join("log")).unwrap_or_default());
    };
    (Running(child), address)
}
