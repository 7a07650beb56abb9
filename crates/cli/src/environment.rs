//! The environment: read here and nowhere below.

use anyhow::Context as _;
use sealane_engine::Implementations;
use sealane_peer::{PeerError, SshAddresses};
use sealane_transform::Kernels;
use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

/// `SEALANE_TIER` and `SEALANE_ISA`: the kernels that compute.
pub(crate) fn kernels() -> anyhow::Result<Kernels> {
    Ok(Kernels::select(named("SEALANE_TIER")?, named("SEALANE_ISA")?)?)
}

/// Those, and `SEALANE_AEAD`: whose AEADs.
pub(crate) fn implementations() -> anyhow::Result<Implementations> {
    Ok(Implementations { kernels: kernels()?, aead: named("SEALANE_AEAD")? })
}

/// `$XDG_CONFIG_HOME/sealane`, or `$HOME/.config/sealane`, if one of the two names an absolute folder: relative values are
/// ignored, as the XDG base directory specification demands.
pub(crate) fn config_dir() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")));
    base.map(|base| base.join("sealane"))
}

/// A file in that folder.
pub(crate) fn config_file(name: &str) -> Result<PathBuf, PeerError> {
    config_dir().map(|folder| folder.join(name)).ok_or(PeerError::NoConfigDir)
}

/// `SEALANE_SSH`: another program instead of `ssh`.
pub(crate) fn ssh_program() -> Option<OsString> {
    env::var_os("SEALANE_SSH").filter(|program| !program.is_empty())
}

/// `SSH_CONNECTION`: the ends of the ssh connection that started this program.
pub(crate) fn ssh_addresses() -> SshAddresses {
    env::var("SSH_CONNECTION").map(|words| SshAddresses::parse(&words)).unwrap_or_default()
}

/// What a variable says, if it is there and not empty.
fn named<T: FromStr>(name: &str) -> anyhow::Result<Option<T>>
where
    T::Err: Error + Send + Sync + 'static,
{
    let word = env::var(name).ok().filter(|word| !word.is_empty());
    word.map(|word| word.parse().with_context(|| name.to_owned())).transpose()
}
