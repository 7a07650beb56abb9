//! [`HostPort`]: the address of a daemon.

use std::fmt;

/// The default TCP port of a daemon.
pub const DEFAULT_PORT: u16 = 7522;

/// A host and a TCP port, printed as `host:port` or `[v6]:port`.
///
/// Host names compare without regard to case because parsing folds them to lower case.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// A name or an address, an IPv6 one without brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
}

impl HostPort {
    /// Makes the address of a host of this name; a missing port is [`DEFAULT_PORT`].
    pub(crate) fn folded(host: &str, port: Option<u16>) -> Self {
        Self { host: host.to_ascii_lowercase(), port: port.unwrap_or(DEFAULT_PORT) }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}
