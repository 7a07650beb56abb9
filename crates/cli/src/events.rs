//! The lines of JSON that `--json` prints: one object per line, each with its `event`.
//!
//! Guarantees: the first line is `start`; the last one is `done` after a success and `error` after a failure (after
//! `done`, if some files failed and the others arrived). Keys are never renamed and never change their unit; new ones
//! may be added.

use crate::itemised::itemised;
use crate::text;
use sealane_copy::{Agreement, Notice, ProgressSnapshot, Summary};
use serde::Serialize;

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The transfer was asked for.
    Start {
        /// Version of the program.
        version: &'static str,
        /// Level asked for.
        level: &'static str,
        /// Sources as given.
        sources: Vec<String>,
        /// Target as given.
        target: String,
        /// With `--dry-run`: nothing is changed.
        dry_run: bool,
    },
    /// The far host has no sealane, and its SFTP server is used instead.
    OverSftp {
        /// The host, as it was given.
        host: String,
    },
    /// Both ends agreed on how to proceed.
    Agreed(Agreement),
    /// The far host's data port was not reached, and the data goes inside ssh, with the same protection.
    ThroughSsh {
        /// The host, as it was given.
        host: String,
        /// Why it was not reached.
        reason: String,
    },
    /// Between many hosts: the identifier of the run, an argument of `sealane fleet`.
    Run {
        /// Its name.
        run: String,
        /// Its key, an argument of `sealane fleet work`.
        key: String,
        /// The number of shares that an earlier invocation has finished.
        done: u64,
    },
    /// Between many hosts: a host no longer takes part.
    LeftOut {
        /// Which.
        host: String,
        /// Why.
        reason: String,
    },
    /// Between many hosts: a host takes part from now on.
    Joined {
        /// Which.
        host: String,
    },
    /// The progress, about four times per second.
    Progress {
        /// Content bytes moved.
        bytes: u64,
        /// Content bytes found so far.
        bytes_found: u64,
        /// Entries finished.
        files: u64,
        /// Entries found so far.
        files_found: u64,
        /// Whether the source has been scanned completely.
        scan_complete: bool,
        /// Seconds since the start.
        seconds: f64,
    },
    /// One entry could not be copied; the rest goes on.
    EntryFailed {
        /// The path of the entry below the source or the target, as that was given.
        #[serde(flatten)]
        path: PathText,
        /// Why, in words that name it.
        reason: String,
    },
    /// A data stream was cut and opened again.
    StreamReopened {
        /// The number of the parallel stream, from 0.
        stream: u16,
        /// Content bytes sent again.
        bytes: u64,
    },
    /// An earlier run left work that is not repeated.
    Resuming {
        /// Content bytes already at the target.
        bytes: u64,
    },
    /// An unfinished file of an earlier run differs from the source, and is sent again.
    BegunAgain {
        /// The file's name.
        #[serde(flatten)]
        path: PathText,
    },
    /// An interrupted copy of other sources has left something in the target.
    Left {
        /// The name of its journal or lease.
        #[serde(flatten)]
        path: PathText,
    },
    /// With `--dry-run`: an entry that would be sent.
    WouldSend {
        /// Which, relative to the target.
        #[serde(flatten)]
        path: PathText,
        /// Content bytes.
        bytes: u64,
        /// The change that it would make, in the form of `rsync -i`, as if it had been received.
        itemised: String,
    },
    /// With `--archive`: owners are not kept, because the receiving user may not give files away.
    OwnersNotKept,
    /// With `--xattrs`: attributes of `security.` and `trusted.`, capabilities among them, are not kept, because the receiving
    /// user is not root.
    PrivilegesNotKept,
    /// With `--compress=auto`: the far end takes or makes no compressed data.
    NotCompressed,
    /// From a host without sealane: its SFTP server does not report attributes that were to be kept.
    NotToldOverSftp {
        /// Hard links; each of their names becomes a file of its own.
        hard_links: bool,
        /// Extended attributes.
        xattrs: bool,
    },
    /// With `--verbose`: an entry was made or replaced at the target.
    Changed {
        /// Which, relative to the target.
        #[serde(flatten)]
        path: PathText,
        /// The change in the form of `rsync -i`, as in the text for people.
        itemised: String,
    },
    /// With `--verbose` or `--dry-run`: an entry that the source does not have was deleted at the target; with
    /// `--dry-run`, it would be.
    Deleted {
        /// Which, relative to the target.
        #[serde(flatten)]
        path: PathText,
    },
    /// With `--digest`: a file that is in place.
    Digest {
        /// Which, relative to the target.
        #[serde(flatten)]
        path: PathText,
        /// The digest of the content in hexadecimal digits.
        blake3: String,
    },
    /// The transfer's facts.
    Done {
        /// With `--dry-run`: nothing was changed, and the numbers are those of a copy.
        dry_run: bool,
        /// The facts.
        #[serde(flatten)]
        summary: Summary,
    },
    /// The transfer failed.
    Error {
        /// One of a fixed set of names.
        kind: &'static str,
        /// In words.
        message: String,
    },
}

/// A path in JSON, which has no bytes: as text, and also in hexadecimal if the text is inexact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PathText {
    path: String,
    /// All bytes in hexadecimal digits, only if they are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
}

impl PathText {
    /// Returns the path that these bytes name.
    pub fn new(bytes: &[u8]) -> Self {
        match str::from_utf8(bytes) {
            Ok(path) => Self { path: path.to_owned(), path_hex: None },
            Err(_) => {
                Self { path: String::from_utf8_lossy(bytes).into_owned(), path_hex: Some(text::hex(bytes)) }
            }
        }
    }
}

impl Event {
    /// Returns the line, with its line break.
    pub fn line(&self) -> String {
        let mut line = serde_json::to_string(self).expect("events hold nothing that JSON lacks");
        line.push('\n');
        line
    }

    /// Returns a progress event, `seconds` after the start.
    pub fn progress(snapshot: &ProgressSnapshot, seconds: f64) -> Self {
        Self::Progress {
            bytes: snapshot.bytes_moved,
            bytes_found: snapshot.bytes_found,
            files: snapshot.files_done,
            files_found: snapshot.files_found,
            scan_complete: snapshot.scan_complete,
            seconds,
        }
    }
}

impl Event {
    /// Returns the event of a notice. Changes are itemised as sent if data leaves this machine (`pushes`).
    pub(crate) fn of(notice: &Notice, pushes: bool) -> Self {
        match notice {
            Notice::OverSftp { host } => Self::OverSftp { host: host.clone() },
            Notice::Agreed(agreement) => Self::Agreed(agreement.clone()),
            Notice::ThroughSsh { host, reason } => {
                Self::ThroughSsh { host: host.clone(), reason: reason.clone() }
            }
            Notice::EntryFailed { path, reason } => {
                Self::EntryFailed { path: PathText::new(path), reason: reason.clone() }
            }
            Notice::StreamReopened { stream, bytes } => {
                Self::StreamReopened { stream: *stream, bytes: *bytes }
            }
            Notice::Resuming { bytes } => Self::Resuming { bytes: *bytes },
            Notice::Left { path } => Self::Left { path: PathText::new(path) },
            Notice::BegunAgain { path } => Self::BegunAgain { path: PathText::new(path) },
            Notice::WouldSend { change, bytes } => Self::WouldSend {
                path: PathText::new(&change.path),
                bytes: *bytes,
                itemised: itemised(change, pushes),
            },
            Notice::OwnersNotKept => Self::OwnersNotKept,
            Notice::PrivilegesNotKept => Self::PrivilegesNotKept,
            Notice::NotCompressed => Self::NotCompressed,
            Notice::NotToldOverSftp { hard_links, xattrs } => {
                Self::NotToldOverSftp { hard_links: *hard_links, xattrs: *xattrs }
            }
            Notice::Changed(change) => {
                Self::Changed { path: PathText::new(&change.path), itemised: itemised(change, pushes) }
            }
            Notice::Deleted { path } => Self::Deleted { path: PathText::new(path) },
            Notice::Digest { path, digest } => {
                Self::Digest { path: PathText::new(path), blake3: text::hex(digest) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::summary;
    use sealane_copy::{Change, ChangeKind, Differences};
    use serde_json::{Value, json};

    #[track_caller]
    fn check(event: &Event, expected: &Value) {
        let line = event.line();
        assert!(line.ends_with('\n') && line.matches('\n').count() == 1, "{line:?}");
        assert_eq!(&serde_json::from_str::<Value>(&line).expect("JSON"), expected);
    }

    #[test]
    fn done_has_every_fact_under_its_name() {
        check(
            &Event::Done { dry_run: false, summary: summary() },
            &json!({
                "event": "done", "dry_run": false, "bytes": 2_147_483_648_u64, "files": 3, "skipped": 1, "failed": 0, "deleted": 4,
                "undeleted": 0, "removed": 2, "unremoved": 0, "seconds": 2.0,
                "cpu_seconds": {"local": 1.0, "remote": 1.5}, "resent_bytes": 0, "resumed_bytes": 5, "spared_bytes": 6,
                "matched_bytes": 7, "level": "private",
                "suite": "aes-256-gcm", "streams": 2, "lanes": 2, "placement": "connection", "tier": "native",
            }),
        );
    }

    #[test]
    fn an_error_has_a_kind_and_words() {
        check(
            &Event::Error { kind: "refused", message: "a \"quoted\"\nword".to_owned() },
            &json!({"event": "error", "kind": "refused", "message": "a \"quoted\"\nword"}),
        );
    }

    #[test]
    fn notices_keep_their_fields() {
        let (kind, differences) = (ChangeKind::File, Differences::NEW);
        let change = Change { path: b"\xff".to_vec(), kind, differences };
        for (notice, expected) in [
            (
                Notice::EntryFailed { path: b"d/f".to_vec(), reason: "no".into() },
                json!({"event": "entry_failed", "path": "d/f", "reason": "no"}),
            ),
            (
                Notice::StreamReopened { stream: 1, bytes: 7 },
                json!({"event": "stream_reopened", "stream": 1, "bytes": 7}),
            ),
            (Notice::OverSftp { host: "h".into() }, json!({"event": "over_sftp", "host": "h"})),
            (
                Notice::ThroughSsh { host: "h".into(), reason: "no".into() },
                json!({"event": "through_ssh", "host": "h", "reason": "no"}),
            ),
            (
                Notice::NotToldOverSftp { hard_links: true, xattrs: false },
                json!({"event": "not_told_over_sftp", "hard_links": true, "xattrs": false}),
            ),
            (Notice::NotCompressed, json!({"event": "not_compressed"})),
            (Notice::Resuming { bytes: 9 }, json!({"event": "resuming", "bytes": 9})),
            (Notice::Left { path: b"j".to_vec() }, json!({"event": "left", "path": "j"})),
            (Notice::BegunAgain { path: b"f".to_vec() }, json!({"event": "begun_again", "path": "f"})),
            (
                Notice::WouldSend { change, bytes: 1 },
                json!({"event": "would_send", "path": "\u{fffd}", "path_hex": "ff", "bytes": 1,
                       "itemised": "<f+++++++++"}),
            ),
            (Notice::Deleted { path: b"d/old".to_vec() }, json!({"event": "deleted", "path": "d/old"})),
            (
                Notice::Digest { path: b"f".to_vec(), digest: [0x0a; 32] },
                json!({"event": "digest", "path": "f", "blake3": "0a".repeat(32)}),
            ),
        ] {
            check(&Event::of(&notice, true), &expected);
        }
    }

    #[test]
    fn progress_tells_what_is_found_and_what_is_moved() {
        let snapshot = ProgressSnapshot {
            bytes_found: 4,
            files_found: 3,
            bytes_moved: 2,
            files_done: 1,
            checked: (0, 0),
            is_comparing: false,
            scan_complete: false,
        };
        check(
            &Event::progress(&snapshot, 0.5),
            &json!({"event": "progress", "bytes": 2, "bytes_found": 4, "files": 1, "files_found": 3,
                    "scan_complete": false, "seconds": 0.5}),
        );
    }
}
