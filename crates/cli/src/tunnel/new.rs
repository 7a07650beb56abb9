//! `sealane tunnel new`: writes the site files of both ends of a new tunnel.
//!
//! Guarantees: `sealane tunnel up` accepts every file that is written here; no file is overwritten; no private key
//! leaves this host, and it receives none of the peer's.

use crate::args::TunnelNewArgs;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::text;
use anyhow::{Context as _, anyhow};
use sealane_peer::{Identity, PublicKey};
use sealane_tunnel::site::Site;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The port of ESP in UDP (RFC 3948), for an end that is not called.
const PORT: u16 = 4500;

/// One end as the other sees it.
struct End<'a> {
    name: &'a str,
    key: PublicKey,
    endpoint: Option<&'a str>,
    address: IpAddr,
    networks: &'a [String],
}

impl End<'_> {
    /// Returns the address on which this end listens: the port at which it is reached, in the family in which the two
    /// ends meet.
    fn listen(&self, other: &End<'_>) -> String {
        let is_v6 = |endpoint: &str| endpoint.starts_with('[');
        let port =
            self.endpoint.and_then(|endpoint| endpoint.rsplit_once(':')).map(|(_, port)| port.to_owned());
        let host = match self.endpoint.or(other.endpoint).is_some_and(is_v6) {
            true => "[::]",
            false => "0.0.0.0",
        };
        format!("{host}:{}", port.unwrap_or_else(|| PORT.to_string()))
    }

    /// Returns the content of this end's site file.
    fn file(&self, device: &str, other: &End<'_>) -> String {
        let bits = |address: IpAddr| if address.is_ipv4() { 32 } else { 128 };
        let own = format!("{}/{}", other.address, bits(other.address));
        let behind = other.networks.iter().filter(|network| **network != own);
        let networks: Vec<&String> = [&own].into_iter().chain(behind).collect();
        let mut file = format!(
            "# The gateway of {} to {}.\ndevice = {device:?}\nlisten = {:?}\naddresses = [\"{}/{}\"]\n\n[[peers]]\nname = {:?}\n\
             key = \"{}\"\n",
            self.name,
            other.name,
            self.listen(other),
            self.address,
            bits(self.address),
            other.name,
            other.key,
        );
        if !self.networks.is_empty() {
            // Hosts behind this end are reached through it. The line goes before the first table.
            file = file.replacen("\n\n", "\nforwarding = true\n\n", 1);
        }
        if let Some(endpoint) = other.endpoint {
            // Writing to a string succeeds.
            let _ = writeln!(file, "endpoint = {endpoint:?}");
        }
        let _ = writeln!(file, "networks = {networks:?}");
        file
    }
}

fn usage(error: impl Into<anyhow::Error>) -> Failure {
    Failure::new(ExitStatus::Usage, error)
}

/// Writes both files and names the next step.
pub(super) fn run(arguments: &TunnelNewArgs) -> Result<(), Failure> {
    for name in [&arguments.name, &arguments.peer] {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if !(1..=64).contains(&name.len()) || !name.bytes().all(is_plain) || name.starts_with(['.', '-']) {
            return Err(usage(anyhow!(
                "{name:?} names a file and a service: it has 1 to 64 letters, digits, dots, dashes or underscores, and begins \
                 with a letter or digit"
            )));
        }
    }
    if arguments.name == arguments.peer {
        return Err(usage(anyhow!(
            "both ends are called {:?}: each needs a name of its own",
            arguments.name
        )));
    }
    let key = arguments.peer_key.parse().map_err(|fault| {
        usage(anyhow!("{:?} is not a key as `sealane id` prints it: {fault}", arguments.peer_key))
    })?;
    let io_failed = |error: anyhow::Error| Failure::new(ExitStatus::Io, error);
    let identity = match &arguments.identity {
        Some(path) => path.clone(),
        None => super::gateway_identity().map_err(|error| io_failed(error.into()))?,
    };
    let own = Identity::load_or_create(&identity).map_err(|error| io_failed(error.into()))?.public_key();
    if own == key {
        return Err(usage(anyhow!(
            "that is the key of this host itself ({}): give the one that `sudo sealane id --system` prints at the peer",
            identity.display()
        )));
    }
    let here = End {
        name: &arguments.name,
        key: own,
        endpoint: arguments.endpoint.as_deref(),
        address: arguments.address,
        networks: &arguments.networks,
    };
    let there = End {
        name: &arguments.peer,
        key,
        endpoint: arguments.peer_endpoint.as_deref(),
        address: arguments.peer_address,
        networks: &arguments.peer_networks,
    };
    let place = |name: &str| arguments.folder.join(format!("{name}.toml"));
    let mut ours = here.file(&arguments.device, &there);
    if arguments.identity.is_some() {
        let absolute = std::path::absolute(&identity)
            .context("cannot find out where the identity is")
            .map_err(io_failed)?;
        // The line goes before the first table, which would include it otherwise.
        ours = ours.replacen("\n\n", &format!("\nidentity = {absolute:?}\n\n"), 1);
    }
    // A file is named after the other end of its tunnel.
    let theirs = there.file(&arguments.device, &here);
    let files: [(PathBuf, String); 2] = [(place(there.name), ours), (place(here.name), theirs)];
    for (path, file) in &files {
        let checked = Site::parse(path, file);
        checked.map_err(|error| usage(anyhow!("these arguments do not make a tunnel: {}", error.message)))?;
        if path.exists() {
            let message = anyhow!("{} exists: remove it, or choose another name or --folder", path.display());
            return Err(usage(message));
        }
    }
    for (path, file) in &files {
        write(path, file).with_context(|| format!("cannot write {}", path.display())).map_err(io_failed)?;
    }
    let [(ours, _), (theirs, _)] = &files;
    text::complain(format_args!(
        "wrote {} for this host, and {} for {}: copy it to /etc/sealane there, then start both ends",
        ours.display(),
        theirs.display(),
        there.name
    ));
    super::print(&format!("{}\n{}\n", ours.display(), theirs.display()))
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
