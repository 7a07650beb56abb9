//! `sealane id`: the public key by which daemons know this user.

use crate::args::IdArgs;
use crate::environment;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::text;
use sealane_peer::{Identity, PeerError};
use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt as _;

/// Prints the public key on one line, ready to be appended to a file of authorised peers.
pub(crate) fn run(arguments: &IdArgs) -> Result<(), Failure> {
    let failed = |error| Failure::new(ExitStatus::Io, anyhow::Error::new(error));
    let path = match &arguments.identity {
        Some(path) => path.clone(),
        None if arguments.system => environment::system_identity(),
        None => environment::config_file(Identity::FILE_NAME).map_err(failed)?,
    };
    if let (true, Some(folder)) = (arguments.system, path.parent()) {
        // Services of other users than root have files there as well.
        let made = DirBuilder::new().recursive(true).mode(0o755).create(folder);
        made.map_err(|source| failed(PeerError::File { doing: "create", path: folder.into(), source }))?;
    }
    let is_new = !path.exists();
    let identity = Identity::load_or_create(&path).map_err(failed)?;
    if is_new {
        text::complain(format_args!("made a new identity: {}", path.display()));
    }
    let text = match arguments.certificate {
        true => identity.certificate_pem().map_err(failed)?,
        false => format!("{}\n", identity.public_key()),
    };
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Failure::output)
}
