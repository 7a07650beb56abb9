//! The environment that all programs read: kernels, folders of the user, and ssh.

use anyhow::Context as _;
use sealane_engine::Implementations;
use sealane_peer::{PeerError, SshAddresses};
use sealane_transform::Kernels;
use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

/// Returns the kernels that `SEALANE_TIER` and `SEALANE_ISA` select.
pub fn kernels() -> anyhow::Result<Kernels> {
    Ok(Kernels::select(named("SEALANE_TIER")?, named("SEALANE_ISA")?)?)
}

/// Returns the kernels, and the AEAD implementations that `SEALANE_AEAD` selects.
pub fn implementations() -> anyhow::Result<Implementations> {
    Ok(Implementations { kernels: kernels()?, aead: named("SEALANE_AEAD")? })
}

/// Returns `$XDG_CONFIG_HOME/sealane`, or `$HOME/.config/sealane`, if one of the two names an absolute folder:
/// relative values are ignored, as the XDG base directory specification demands.
pub fn config_dir() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")));
    base.map(|base| base.join("sealane"))
}

/// Returns `$XDG_STATE_HOME/sealane`, or `$HOME/.local/state/sealane`, by the same rule. A home that does not exist, as that of
/// a user of a service, names none: root would else make it.
pub fn state_dir() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || absolute("HOME").filter(|home| home.is_dir()).map(|home| home.join(".local/state"));
    absolute("XDG_STATE_HOME").or_else(home).map(|base| base.join("sealane"))
}

/// Returns a file in that folder.
pub fn config_file(name: &str) -> Result<PathBuf, PeerError> {
    config_dir().map(|folder| folder.join(name)).ok_or(PeerError::NoConfigDir)
}

/// Returns the program's arguments, without its own name.
pub fn arguments() -> Vec<OsString> {
    env::args_os().skip(1).collect()
}

/// Returns the program that `SEALANE_SSH` names instead of `ssh`.
pub fn ssh_program() -> Option<OsString> {
    env::var_os("SEALANE_SSH").filter(|program| !program.is_empty())
}

/// Returns the ends of the ssh connection that started this program (`SSH_CONNECTION`).
pub fn ssh_addresses() -> SshAddresses {
    env::var("SSH_CONNECTION").map(|words| SshAddresses::parse(&words)).unwrap_or_default()
}

/// Parses the value of a variable, if it is set and not empty.
fn named<T: FromStr>(name: &str) -> anyhow::Result<Option<T>>
where
    T::Err: Error + Send + Sync + 'static,
{
    let word = env::var(name).ok().filter(|word| !word.is_empty());
    word.map(|word| word.parse().with_context(|| name.to_owned())).transpose()
}
