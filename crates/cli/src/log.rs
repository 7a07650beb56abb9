//! The daemon's log: a line for every transfer and every refusal, with its time.
//!
//! Guarantees: no text from a peer becomes a line of its own or reaches a terminal as a control sequence; a log that
//! cannot be written stops nothing. Keys of `--json` are never renamed and never change their unit; new ones may be
//! added.

use crate::events::PathText;
use crate::text;
use sealane_copy::{Daemon, DaemonEvent, TransferRecord};
use sealane_terminal::text::utc_now;
use serde_json::{Value, json};
use std::io::{self, Write};

/// The destination of the daemon's messages: lines on standard error, or with `--json` on standard output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Log {
    pub(crate) json: bool,
}

impl Log {
    /// Logs the addresses on which the daemon listens, for callers that asked for port 0, and its public key. Nobody
    /// needs to read it.
    pub(crate) fn started(self, daemon: &Daemon) -> io::Result<()> {
        let address = daemon.local_addr().map_err(io::Error::other)?;
        let key = daemon.public_key();
        let line = match self.json {
            true => json!({"event": "listening", "address": address, "key": key.to_string()}).to_string(),
            false => format!("listening on {address}"),
        };
        let mut stdout = io::stdout().lock();
        match writeln!(stdout, "{line}").and_then(|()| stdout.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
            _ => {}
        }
        if !self.json {
            text::say(&format!("key {key}"));
        }
        Ok(())
    }

    /// Logs an event.
    pub(crate) fn event(self, event: DaemonEvent) {
        let time = utc_now();
        if self.json {
            let mut stdout = io::stdout().lock();
            // The reader of the log may have left.
            let _ = writeln!(stdout, "{}", object(&time, &event)).and_then(|()| stdout.flush());
        } else {
            text::say(&format!("{time} {}", words(&event)));
        }
    }
}

fn words(event: &DaemonEvent) -> String {
    match event {
        DaemonEvent::Refused { address, peer: Some(peer), error } => {
            format!("{peer} {address} refused: {error}")
        }
        DaemonEvent::Refused { address, peer: None, error } => format!("{address} refused: {error}"),
        DaemonEvent::Warning(message) => format!("warning: {message}"),
        DaemonEvent::Transfer(record) => transfer_words(record),
    }
}

fn transfer_words(record: &TransferRecord) -> String {
    let TransferRecord { peer, address, bytes, files, failed, seconds, .. } = record;
    let direction = if record.received { "received" } else { "sent" };
    if record.paths.is_empty() {
        let reason = record.error.as_ref().map_or_else(|| "it left".to_owned(), ToString::to_string);
        return format!("{peer} {address} made no request: {reason}");
    }
    let paths: Vec<_> = record.paths.iter().map(|path| format!("\"{}\"", text::printable(path))).collect();
    let paths = paths.join(" ");
    let protection = record
        .protection
        .map_or_else(|| "not agreed".to_owned(), |(level, suite)| format!("{level} {suite}"));
    let outcome = match &record.error {
        Some(error) => format!("failed: {error}"),
        None if *failed > 0 => format!("done, except {failed} entries"),
        None => "done".to_owned(),
    };
    format!(
        "{peer} {address} {direction} {paths}, {protection}: {bytes} bytes, {files} entries in {seconds:.3} s: {outcome}"
    )
}

fn object(time: &str, event: &DaemonEvent) -> Value {
    match event {
        DaemonEvent::Refused { address, peer, error } => json!({
            "event": "refused", "time": time, "address": address, "peer": peer,
            "kind": error.kind().name(), "message": error.to_string(),
        }),
        DaemonEvent::Warning(message) => json!({"event": "warning", "time": time, "message": message}),
        DaemonEvent::Transfer(record) => json!({
            "event": "transfer", "time": time, "peer": record.peer, "address": record.address,
            "direction": if record.received { "received" } else { "sent" },
            "paths": record.paths.iter().map(|path| PathText::new(path)).collect::<Vec<_>>(),
            "level": record.protection.map(|(level, _)| level.name()),
            "suite": record.protection.map(|(_, suite)| suite.name()),
            "bytes": record.bytes, "files": record.files, "failed": record.failed, "seconds": record.seconds,
            "outcome": match (&record.error, record.failed) {
                (Some(_), _) => "failed",
                (None, 0) => "done",
                (None, _) => "partial",
            },
            "kind": record.error.as_ref().map(|error| error.kind().name()),
            "message": record.error.as_ref().map(ToString::to_string),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_copy::{Error, ErrorKind, Level, Suite};

    fn record() -> TransferRecord {
        TransferRecord {
            peer: "ada@laptop".into(),
            address: "192.0.2.1:4711".parse().expect("an address"),
            received: true,
            paths: vec![b"in\x1b[2J\nada".to_vec()],
            protection: Some((Level::Private, Suite::Aes128Gcm)),
            bytes: 5,
            files: 1,
            failed: 0,
            seconds: 0.25,
            error: None,
        }
    }

    #[test]
    fn a_transfer_is_one_line_with_all_its_facts() {
        let line = words(&DaemonEvent::Transfer(record()));
        assert_eq!(
            line,
            "ada@laptop 192.0.2.1:4711 received \"in\\u{1b}[2J\\nada\", private aes-128-gcm: 5 bytes, 1 entries in \
             0.250 s: done"
        );
        let error = Error::new(ErrorKind::Refused, "no");
        let refused = TransferRecord { protection: None, error: Some(error), ..record() };
        assert!(
            words(&DaemonEvent::Transfer(refused.clone()))
                .ends_with("not agreed: 5 bytes, 1 entries in 0.250 s: failed: no")
        );
        let object = object("now", &DaemonEvent::Transfer(refused));
        assert_eq!(
            (&object["outcome"], &object["kind"], &object["level"]),
            (&"failed".into(), &"refused".into(), &Value::Null)
        );
    }
}
