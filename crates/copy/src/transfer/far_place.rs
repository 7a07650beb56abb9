//! Hosts and paths of locations, as sent by one end of a transfer to the other.

use std::os::unix::ffi::OsStrExt;

use sealane_peer::{HostPort, Location};

/// The host of a location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FarPlace {
    Here,
    Ssh { user: Option<String>, host: String, port: Option<u16> },
    Daemon(HostPort),
}

impl FarPlace {
    pub(crate) fn of(location: &Location) -> Self {
        match location {
            Location::Local(_) => Self::Here,
            Location::Ssh { user, host, port, .. } => {
                Self::Ssh { user: user.clone(), host: host.clone(), port: *port }
            }
            Location::Daemon { address, .. } => Self::Daemon(address.clone()),
        }
    }

    /// Returns its name in messages; `None` for this host.
    pub(crate) fn name(&self) -> Option<String> {
        match self {
            Self::Here => None,
            Self::Ssh { host, .. } => Some(host.clone()),
            Self::Daemon(address) => Some(address.to_string()),
        }
    }

    /// Returns a message of this place, with its name as the prefix.
    pub(crate) fn says(&self, what: String) -> String {
        self.name().map_or_else(|| what.clone(), |name| format!("{name}: {what}"))
    }
}

pub(crate) fn far_path(location: &Location) -> Vec<u8> {
    match location {
        Location::Local(path) => path.as_os_str().as_bytes().to_vec(),
        Location::Ssh { path, .. } | Location::Daemon { path, .. } => path.clone(),
    }
}
