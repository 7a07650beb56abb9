//! `sealane tunnel profile`: writes the files by which a user's devices connect to a gateway.
//!
//! Guarantees: no file is overwritten; the files hold no secret, except for the private key of a user's certificate, under a
//! password that is in none of them.

use crate::args::TunnelProfileArgs;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::text;
use anyhow::{Context as _, anyhow};
use sealane_tunnel::profile::{Names, Profile, UserFiles};
use sealane_tunnel::site::Site;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;

/// Writes the files, and prints their names.
pub(super) fn run(arguments: &TunnelProfileArgs) -> Result<(), Failure> {
    let TunnelProfileArgs { site, user, certificate, private_key, server, name, device, ca, folder } =
        arguments;
    let site = Site::load(site).map_err(super::usage)?;
    let names =
        Names { user, server: server.as_deref(), connection: name.as_deref(), device: device.as_deref() };
    let (profile, password) = match (certificate, private_key) {
        (Some(certificate), Some(private_key)) => {
            let files = UserFiles { certificate, private_key };
            let made = Profile::with_certificate(&site, names, ca.as_deref(), files);
            made.map(|(profile, password)| (profile, Some(password))).map_err(super::usage)?
        }
        _ => (Profile::new(&site, names, ca.as_deref()).map_err(super::usage)?, None),
    };
    let mode = if password.is_some() { 0o600 } else { 0o644 };
    // A user's name may have characters that file names should not have.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
    let stem: String = user.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    let stem = stem.trim_start_matches(['.', '-']);
    if stem.is_empty() {
        return Err(super::usage(anyhow!("{user:?} is not the name of a file")));
    }
    let stem = &device.as_ref().map_or_else(|| stem.to_owned(), |device| format!("{stem}-{device}"));
    let files = [
        (folder.join(format!("{stem}.mobileconfig")), profile.apple()),
        (folder.join(format!("{stem}.ps1")), profile.windows()),
        (folder.join(format!("{stem}.sswan")), profile.android()),
    ];
    if let Some((path, _)) = files.iter().find(|(path, _)| path.exists()) {
        return Err(super::usage(anyhow!("{} exists: remove it to make another one", path.display())));
    }
    for (path, content) in &files {
        let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
        let written = file.and_then(|mut file| file.write_all(content.as_bytes()));
        written
            .with_context(|| format!("cannot write {}", path.display()))
            .map_err(|error| Failure::new(ExitStatus::Io, error))?;
    }
    if let Some(password) = password {
        text::complain(format_args!(
            "devices ask for {} when they import the certificate: tell it to {user} in another way than the files",
            *password
        ));
    }
    super::print(&files.iter().map(|(path, _)| format!("{}\n", path.display())).collect::<String>())
}
