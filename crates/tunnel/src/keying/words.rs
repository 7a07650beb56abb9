//! Messages about calls that fail.
//!
//! Guarantees: every message is about a tunnel, although the errors are worded for copies, and names the end whose
//! site file has to be changed; unknown callers cannot fill the log.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use sealane_peer::{ChannelError, PeerError, PublicKey, chain};

/// Returns the message about a failed call to a peer.
pub(super) fn of_call(error: &PeerError) -> String {
    match error {
        PeerError::WrongServer { address, found, known, .. } => format!(
            "the gateway at {address} has the key {found}, but our site file says {known}; somebody may be intercepting the call, \
             or the peer has a new key: compare it with what `sealane id` prints there, then change its `key` in our site file"
        ),
        PeerError::NotTls { address } => {
            format!(
                "what listens at {address} is no sealane gateway; is this its `endpoint`, with the port of its `listen`?"
            )
        }
        PeerError::Channel(error) => of_channel(error),
        error => chain(error),
    }
}

/// Returns the message about a call that failed after the connection.
pub(super) fn of_channel(error: &ChannelError) -> String {
    match error {
        ChannelError::Refused { ours } => format!(
            "its gateway does not know our key; its site file needs a peer with\n  key = \"{ours}\"\nfor us (this is what \
             `sealane id` prints here)"
        ),
        ChannelError::Unknown { ours } => {
            format!("it called us and did not take our key; its site file needs key = \"{ours}\" for us")
        }
        ChannelError::WrongProtocol => {
            "what listens there speaks TLS but is no gateway of this version; is this its `endpoint`, rather than a \
             `sealane serve`?"
                .to_owned()
        }
        ChannelError::Altered { source } => {
            format!("the call was altered on its way, or the other end is no sealane gateway ({source})")
        }
        ChannelError::NoHybrid => {
            "the other gateway is an older version, which cannot verify our hybrid key: install the same version at both ends, or \
             give this one an `identity` of Ed25519 alone"
                .to_owned()
        }
        error => chain(error),
    }
}

/// The maximum number of lines of one kind at once; one more may follow each [`PAUSE`].
const LINES_MAX: u32 = 8;
/// The time after which one more line may be logged.
const PAUSE: Duration = Duration::from_secs(10);

/// The limit of lines of one kind. Each kind has its own, so that strangers hide nothing about those who are known.
#[derive(Debug)]
pub(super) struct LineLimit {
    left: u32,
    since: Option<Instant>,
    unsaid: u64,
}

impl LineLimit {
    /// Returns an unused limit.
    pub(super) fn new() -> Self {
        Self { left: LINES_MAX, since: None, unsaid: 0 }
    }

    /// Returns the line about a caller from `from` that showed `key`; `None` after too many lines.
    pub(super) fn of(&mut self, from: SocketAddr, key: PublicKey, now: Instant) -> Option<String> {
        let message =
            format!("refused a call from {from}: no peer in the site file has the key that it showed, {key}");
        self.line(&message, now)
    }

    /// Returns the line with this message; `None` after too many lines.
    pub(super) fn line(&mut self, message: &str, now: Instant) -> Option<String> {
        let since = *self.since.get_or_insert(now);
        let earned = now.saturating_duration_since(since).as_secs() / PAUSE.as_secs();
        if earned > 0 {
            self.left = u32::try_from(earned).unwrap_or(u32::MAX).saturating_add(self.left).min(LINES_MAX);
            self.since = Some(now);
        }
        let Some(left) = self.left.checked_sub(1) else {
            self.unsaid += 1;
            return None;
        };
        self.left = left;
        let unsaid = match std::mem::take(&mut self.unsaid) {
            0 => String::new(),
            count => format!(" ({count} more since the last such line)"),
        };
        Some(format!("{message}{unsaid}"))
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use sealane_peer::HostPort;

    use super::*;

    fn address() -> HostPort {
        HostPort { host: "vpn.example.org".to_owned(), port: 4500 }
    }

    #[test]
    fn no_message_speaks_of_another_face() {
        let [one, other] = [1, 2].map(|byte| PublicKey::from_bytes([byte; 32]));
        let wrong = |place: &str| PeerError::WrongServer {
            address: address(),
            found: one,
            known: other,
            place: place.into(),
        };
        let cases = [
            (wrong("the command line"), "change its `key` in our site file"),
            (PeerError::NotTls { address: address() }, "no sealane gateway"),
            (ChannelError::Refused { ours: one }.into(), "its site file needs"),
            (ChannelError::Unknown { ours: one }.into(), "its site file needs"),
            (ChannelError::WrongProtocol.into(), "no gateway of this version"),
            (ChannelError::NoHybrid.into(), "an `identity` of Ed25519 alone"),
            (ChannelError::NotOwner.into(), "does not own the key that it shows"),
            (ChannelError::NoKey.into(), "same version at both ends"),
            (ChannelError::Closed.into(), "closed"),
            (
                PeerError::Connect { address: address(), source: io::ErrorKind::ConnectionRefused.into() },
                "cannot connect to vpn.example.org:4500: connection refused",
            ),
            (
                PeerError::Resolve { address: address(), source: io::ErrorKind::NotFound.into() },
                "cannot resolve vpn.example.org:4500: ",
            ),
        ];
        for (error, says) in cases {
            let text = of_call(&error);
            assert!(text.contains(says), "{text}");
            for word in ["authorise", "accept-new", "daemon", "peers --forget", "command line"] {
                assert!(!text.contains(word), "{word}: {text}");
            }
        }
    }

    #[test]
    fn strangers_fill_no_log() {
        let (mut refusals, mut now) = (LineLimit::new(), Instant::now());
        let (from, key) = ("198.51.100.9:1234".parse().expect("an address"), PublicKey::from_bytes([3; 32]));
        let said = (0..10_000).filter_map(|_| refusals.of(from, key, now)).count();
        assert_eq!(said, LINES_MAX as usize);
        now += PAUSE;
        let line = refusals.of(from, key, now).expect("one more");
        let unsaid = 10_000 - u64::from(LINES_MAX);
        assert!(line.contains("198.51.100.9:1234") && line.contains(&key.to_string()), "{line}");
        assert!(line.contains(&format!("({unsaid} more")), "{line}");
        assert_eq!(refusals.of(from, key, now), None);
        now += 1000 * PAUSE;
        assert_eq!((0..100).filter_map(|_| refusals.of(from, key, now)).count(), LINES_MAX as usize);
    }
}
