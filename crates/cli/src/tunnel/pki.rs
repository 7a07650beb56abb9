//! `sealane tunnel pki`: makes a certificate authority of one's own, and certificates for gateways and users.
//!
//! Guarantees: only their owner can read private keys; no file is overwritten.

use crate::args::TunnelPkiArgs;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::text;
use anyhow::{Context as _, anyhow};
use sealane_tunnel::key_file;
use sealane_tunnel::pki::{Authority, CERTIFICATE_DAYS, Issued, KeyKind};
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The files of the authority.
const AUTHORITY: [&str; 2] = ["ca.key", "ca.crt"];
/// The maximum length of a file of a private key in bytes.
const KEY_BYTES_MAX: usize = 1 << 16;

fn usage(error: anyhow::Error) -> Failure {
    Failure::new(ExitStatus::Usage, error)
}

fn failed(error: anyhow::Error) -> Failure {
    Failure::new(ExitStatus::Io, error)
}

/// Makes missing files, and prints the names of the files.
pub(super) fn run(arguments: &TunnelPkiArgs) -> Result<(), Failure> {
    let folder = &arguments.folder;
    for name in &arguments.names {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
        if !(1..=253).contains(&name.len())
            || !name.bytes().all(is_plain)
            || name.starts_with(['.', '-'])
            || name == "ca"
        {
            return Err(usage(anyhow!("{name:?} is not the name of a host, such as vpn.example.org")));
        }
    }
    if !arguments.addresses.is_empty() && arguments.names.len() != 1 {
        return Err(usage(anyhow!("--address belongs to one gateway: name one at a time")));
    }
    for user in &arguments.users {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._@".contains(&byte);
        if !(1..=64).contains(&user.len())
            || !user.bytes().all(is_plain)
            || user.starts_with(['.', '-'])
            || user == "ca"
            || arguments.names.contains(user)
        {
            return Err(usage(anyhow!(
                "{user:?} is not the name of a user, such as alice or alice@example.org"
            )));
        }
    }
    let files = |name: &str| [folder.join(format!("{name}.key")), folder.join(format!("{name}.crt"))];
    let all = arguments.names.iter().chain(&arguments.users);
    let existing = all.flat_map(|name| files(name)).find(|path| path.exists());
    if let Some(path) = existing {
        return Err(usage(anyhow!("{} exists: remove it to make another one", path.display())));
    }
    let make = fs::DirBuilder::new().recursive(true).mode(0o755).create(folder);
    make.with_context(|| format!("cannot make the folder {}", folder.display())).map_err(failed)?;
    let mut made = Vec::new();
    let kind = match (arguments.rsa, arguments.ml_dsa) {
        (true, _) => KeyKind::Rsa,
        (_, true) => KeyKind::MlDsa,
        _ => KeyKind::Ecdsa,
    };
    let authority = authority(folder, kind, &mut made)?;
    for name in &arguments.names {
        let issued =
            authority.issue(name, &arguments.addresses, kind).map_err(|error| usage(error.into()))?;
        write(&issued, files(name), &mut made)?;
    }
    for user in &arguments.users {
        let issued = authority.issue_user(user, kind).map_err(|error| usage(error.into()))?;
        write(&issued, files(user), &mut made)?;
    }
    text::complain(format_args!(
        "keep {} where no gateway is; {} is for all peers. Certificates are valid for {CERTIFICATE_DAYS} days",
        folder.join(AUTHORITY[0]).display(),
        folder.join(AUTHORITY[1]).display(),
    ));
    super::print(&made.iter().map(|path| format!("{}\n", path.display())).collect::<String>())
}

/// Returns the authority of the folder, which is created if there is none.
fn authority(folder: &Path, kind: KeyKind, made: &mut Vec<PathBuf>) -> Result<Authority, Failure> {
    let [key, certificate] = AUTHORITY.map(|name| folder.join(name));
    match (key.exists(), certificate.exists()) {
        (true, _) => {
            let text = key_file::read_secret(&key, KEY_BYTES_MAX).map_err(|error| usage(error.into()))?;
            let text = text.as_ref().and_then(|text| str::from_utf8(text).ok());
            let no_key = || usage(anyhow!("{} holds no private key in PEM", key.display()));
            Authority::load(text.ok_or_else(no_key)?).map_err(|error| usage(error.into()))
        }
        (false, true) => {
            let (key, certificate) = (key.display(), certificate.display());
            Err(usage(anyhow!(
                "{certificate} is there, but {key} is not: bring it, or choose another folder"
            )))
        }
        (false, false) => {
            let (authority, issued) = Authority::create(kind).map_err(|error| failed(error.into()))?;
            write(&issued, [key, certificate], made)?;
            Ok(authority)
        }
    }
}

fn write(issued: &Issued, [key, certificate]: [PathBuf; 2], made: &mut Vec<PathBuf>) -> Result<(), Failure> {
    for (path, text, mode) in [(key, &*issued.key, 0o600), (certificate, &issued.certificate, 0o644)] {
        let written =
            OpenOptions::new().write(true).create_new(true).mode(mode).open(&path).and_then(|mut file| {
                file.write_all(text.as_bytes())?;
                file.sync_all()
            });
        written.with_context(|| format!("cannot write {}", path.display())).map_err(failed)?;
        made.push(path);
    }
    Ok(())
}
