//! The messages about a transfer: for people on standard error, for programs as lines of JSON.
//!
//! Guarantees: failures are always reported, also under `--quiet`; a line that nobody reads stops no transfer.

use crate::event_log::EventLog;
use crate::events::Event;
use crate::exit::ExitStatus;
use crate::itemised::itemised;
use crate::once;
use crate::options::Reporting;
use crate::progress::{Meter, facts, rate_text};
use crate::text::{complain, digest_line, printable, say};
use crate::units::bytes_text;
use sealane_copy::{Dropped, Error, ErrorKind, Notice, Progress, Summary, suite_name};
use sealane_peer::{Location, chain};
use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// The kind of a transfer in which only some files arrived. The library reports it as a success that contains
/// failures.
const PARTIAL: &str = "partial";

const GIBIBYTE: f64 = (1_u64 << 30) as f64;

/// Below this amount the start of two processes is most of the CPU time, so the cost per byte would be meaningless.
const COST_BYTES_MIN: u64 = 64 << 20;

/// The end of an interrupted transfer, shared with the thread that receives the signal.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    begun: AtomicBool,
    claimed: AtomicBool,
}

impl Ending {
    /// Both ends have agreed.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(SeqCst)
    }

    /// Returns whether the caller reports the end, which is true for the first call only.
    pub(crate) fn claim(&self) -> bool {
        !self.claimed.swap(true, SeqCst)
    }
}

/// Reports one transfer.
pub(crate) struct Reporter {
    reporting: Reporting,
    /// The target as given, safe for a terminal.
    target: String,
    /// Somebody looks at standard error.
    watched: bool,
    meter: Meter,
    ending: Arc<Ending>,
    /// The far host, if the copy uses SFTP because that host has no sealane.
    lacks_sealane: OnceLock<String>,
    log: Option<EventLog>,
}

impl Reporter {
    /// Starts to report the transfer to `target` that `progress` counts.
    pub(crate) fn start(
        reporting: Reporting,
        target: String,
        progress: &Arc<Progress>,
        start: &Event,
        log: Option<EventLog>,
    ) -> Self {
        if let Some(log) = &log {
            log.add(start);
        }
        let watched = io::stderr().is_terminal() && !reporting.quiet && !reporting.dry_run;
        let meter = if reporting.json {
            emit(reporting, start);
            Meter::lines(progress.clone(), Instant::now(), move |event| emit(reporting, event))
        } else if watched {
            Meter::bar(progress.clone())
        } else {
            Meter::silent()
        };
        let (ending, lacks_sealane) = (Arc::default(), OnceLock::new());
        Self { reporting, target, watched, meter, ending, lacks_sealane, log }
    }

    /// Returns the state that decides who reports the end.
    pub(crate) fn ending(&self) -> Arc<Ending> {
        self.ending.clone()
    }

    /// Reports an event during the transfer.
    pub(crate) fn notice(&self, notice: &Notice) {
        if matches!(notice, Notice::Agreed(_)) {
            self.ending.begun.store(true, SeqCst);
        }
        let event = || Event::of(notice, self.reporting.pushes);
        if let Some(log) = &self.log {
            log.add(&event());
            if self.is_for_the_log_alone(notice) {
                return;
            }
        }
        if self.reporting.json {
            emit(self.reporting, &event());
            return;
        }
        match notice {
            Notice::Agreed(agreement) => self.meter.agreed(agreement),
            Notice::EntryFailed { reason, .. } => self.meter.suspend(|| complain(format_args!("{reason}"))),
            Notice::OverSftp { host } if !self.reporting.quiet => {
                // Only the first notice counts: there is one far host.
                let _ = self.lacks_sealane.set(host.clone());
            }
            _ => {}
        }
        if let Some(line) = self.result_line(notice) {
            self.meter.suspend(|| result(self.reporting, &line));
        }
        if let Some(line) = self.remark(notice) {
            self.line(&line);
        }
    }

    /// Returns whether the copy tells this only because there is a log.
    fn is_for_the_log_alone(&self, notice: &Notice) -> bool {
        matches!(notice, Notice::Changed(_) | Notice::Deleted { .. })
            && !self.reporting.verbose
            && !self.reporting.dry_run
    }

    /// Returns the line that a notice is worth among the results, which are printed under `--quiet`, too.
    fn result_line(&self, notice: &Notice) -> Option<Vec<u8>> {
        let line = match notice {
            Notice::WouldSend { change, .. } if !self.reporting.verbose => {
                format!("{}\n", printable(&change.path))
            }
            Notice::Changed(change) | Notice::WouldSend { change, .. } => {
                format!("{} {}\n", itemised(change, self.reporting.pushes), printable(&change.path))
            }
            Notice::Deleted { path } => format!("*deleting   {}\n", printable(path)),
            Notice::Digest { path, digest } => return Some(digest_line(path, digest)),
            _ => return None,
        };
        Some(line.into_bytes())
    }

    /// Returns the line that a notice is worth on standard error, for people who want as many words as these.
    fn remark(&self, notice: &Notice) -> Option<String> {
        let Reporting { quiet, verbose, .. } = self.reporting;
        let bytes_text = |bytes: u64| bytes_text(bytes as f64);
        match notice {
            Notice::OverSftp { host } if !quiet => Some(format!("{host} has no sealane; copying over SFTP")),
            Notice::Agreed(agreement) if verbose => Some(facts(agreement)),
            Notice::ThroughSsh { host, reason } if !quiet => Some(format!(
                "sealane: note: the data goes inside ssh, protected as it would be beside it, because no data port of {host} \
                 answers ({reason}); --through-ssh saves the attempt, --data-ports names ports that are open",
            )),
            Notice::StreamReopened { stream, bytes } if verbose => Some(format!(
                "stream {stream} was lost and opened again; {} are sent again",
                bytes_text(*bytes)
            )),
            Notice::Resuming { bytes } if verbose || self.watched && *bytes > 0 => {
                Some(format!("continuing; {} are there already", bytes_text(*bytes)))
            }
            Notice::BegunAgain { path } if !quiet => Some(format!(
                "sealane: {}: what an earlier copy left of it differs from the source, and is sent again",
                printable(path)
            )),
            Notice::Left { path } if !quiet => Some(left(path)),
            Notice::OwnersNotKept
            | Notice::PrivilegesNotKept
            | Notice::NotToldOverSftp { .. }
            | Notice::NotCompressed => self.shortfall(notice),
            Notice::OverSftp { .. }
            | Notice::Agreed(_)
            | Notice::ThroughSsh { .. }
            | Notice::StreamReopened { .. }
            | Notice::Resuming { .. }
            | Notice::BegunAgain { .. }
            | Notice::Left { .. } => None,
            // Results and failures are no remarks.
            Notice::WouldSend { .. }
            | Notice::Changed(_)
            | Notice::Deleted { .. }
            | Notice::Digest { .. }
            | Notice::EntryFailed { .. } => None,
        }
    }

    /// Returns the line about something that was asked for and is left out, for whoever has not heard it yet.
    fn shortfall(&self, notice: &Notice) -> Option<String> {
        let text = match notice {
            // A job of cron hears nothing of it: it would hear the same every night.
            Notice::OwnersNotKept if self.watched && !once::was_told("owners", &self.host()) => {
                "warning: owners are not kept, because the receiving user may not give files away; --owner makes that a failure \
                 (this is said once for each host)"
            }
            Notice::PrivilegesNotKept if !self.reporting.quiet => {
                "warning: attributes of security. and trusted., capabilities among them, are not kept, because the receiving \
                 user is not root"
            }
            Notice::NotToldOverSftp { hard_links, xattrs } if !self.reporting.quiet => {
                let what = match (*hard_links, *xattrs) {
                    (true, true) => {
                        "hard links become files of their own, and extended attributes are not copied"
                    }
                    (true, false) => "hard links become files of their own",
                    _ => "extended attributes are not copied",
                };
                return Some(format!("sealane: warning: {what}, because an SFTP server does not tell them"));
            }
            Notice::NotCompressed if self.reporting.verbose => {
                "nothing is compressed, because the far end takes no compressed data (--no-compression)"
            }
            _ => return None,
        };
        Some(format!("sealane: {text}"))
    }

    /// Reports the outcome. `signal` is the one that asked for the end, if any.
    pub(crate) fn finish(mut self, outcome: Result<Summary, Error>, signal: Option<u8>) -> ExitStatus {
        self.meter.finish();
        let told_already = !self.ending.claim();
        match (outcome, signal) {
            (Ok(summary), _) => self.done(&summary),
            // Any failure is a consequence of the signal: a terminal sends it to ssh as well.
            (Err(_), Some(signal)) => {
                if !told_already {
                    interrupted(self.reporting);
                    self.how_to_go_on();
                }
                ExitStatus::Interrupted { signal }
            }
            (Err(error), None) => {
                self.failed(error.kind().name(), &chain(&error));
                if worth_resuming(error.kind()) {
                    self.how_to_go_on();
                }
                ExitStatus::of_kind(error.kind())
            }
        }
    }

    /// Prints which remains of the transfer exist, and how to continue from them.
    fn how_to_go_on(&self) {
        let Reporting { json, resumable, .. } = self.reporting;
        if json || !resumable || !self.ending.has_begun() {
            return;
        }
        complain(format_args!(
            "run the same command again to continue where it stopped\nWhat has arrived so far is in {} or beside it: \
             complete files under their names, incomplete ones as .sealane-*.part, and a .sealane-*.journal (see `sealane cp \
             --help`)",
            self.target
        ));
    }

    /// Reports a failure.
    pub(crate) fn failed(&self, kind: &'static str, message: &str) {
        if let Some(log) = &self.log {
            log.add(&Event::Error { kind, message: message.to_owned() });
        }
        if self.reporting.json {
            emit(self.reporting, &Event::Error { kind, message: message.to_owned() });
        } else {
            complain(format_args!("{message}"));
        }
    }

    fn done(&self, summary: &Summary) -> ExitStatus {
        let done = Event::Done { dry_run: self.reporting.dry_run, summary: summary.clone() };
        if let Some(log) = &self.log {
            log.add(&done);
        }
        if self.reporting.json {
            emit(self.reporting, &done);
        } else if self.reporting.dry_run {
            if !self.reporting.quiet {
                say(&totals(summary, &self.target));
            }
        } else if self.reporting.stats {
            stats(summary).lines().for_each(say);
        } else if self.watched {
            say(&closing_line(summary));
        }
        if let Some(host) = self.lacks_sealane.get()
            && self.watched
            && !once::was_told("slower", host)
        {
            self.line(&format!(
                "without sealane at {host} this copy was slower, kept times to the second, and did not compare contents \
                 there; --install-far-end copies the program to {host} (this is said once for each host)"
            ));
        }
        let mut status = ExitStatus::Success;
        if let Some(what) = lost(&summary.dropped) {
            self.failed(PARTIAL, &what);
            status = ExitStatus::Partial;
        }
        if summary.undeleted > 0 {
            let undeleted = summary.undeleted;
            self.failed(PARTIAL, &format!("{undeleted} {} could not be deleted", entries(undeleted)));
            status = ExitStatus::Partial;
        }
        if summary.unremoved > 0 {
            let unremoved = summary.unremoved;
            let what = format!("{unremoved} {} of the source could not be removed", entries(unremoved));
            self.failed(PARTIAL, &what);
            status = ExitStatus::Partial;
        }
        if summary.failed > 0 {
            let failed = summary.failed;
            self.failed(PARTIAL, &format!("{failed} {} could not be copied", entries(failed)));
            status = ExitStatus::Partial;
        }
        status
    }

    /// Returns the host that receives.
    fn host(&self) -> String {
        match Location::parse(OsStr::new(&self.target)) {
            Ok(Location::Ssh { host, .. }) => host,
            Ok(Location::Daemon { address, .. }) => address.to_string(),
            _ => "this host".to_owned(),
        }
    }

    /// Prints a line for people, beside the progress bar.
    pub(crate) fn line(&self, line: &str) {
        self.meter.suspend(|| say(line));
    }
}

/// Messages of copies between many hosts.
#[cfg(feature = "fleet")]
impl Reporter {
    /// Complains, beside the progress bar.
    pub(crate) fn complain(&self, message: &str) {
        self.meter.suspend(|| complain(format_args!("{}", printable(message.as_bytes()))));
    }

    /// Warns of something after which the copy goes on, beside the progress bar.
    pub(crate) fn warn(&self, message: &str) {
        self.complain(&format!("warning: {message}"));
    }

    /// Prints an event for programs that read lines of JSON; people get other messages.
    pub(crate) fn tell(&self, event: &Event) {
        if self.reporting.json {
            emit(self.reporting, event);
        }
    }

    /// Returns whether messages for people are requested.
    pub(crate) fn is_for_people(&self) -> bool {
        !self.reporting.json && !self.reporting.quiet
    }
}

/// Returns the words about the remains of another copy at the target.
fn left(path: &[u8]) -> String {
    let path_text = printable(path);
    match path.ends_with(b".part") {
        true => format!(
            "sealane: an interrupted copy has left the unfinished file {path_text}; run that copy again, or remove it"
        ),
        false => format!(
            "sealane: an interrupted copy of other sources, or from another host, has left {path_text} and unfinished files \
             (.sealane-*.part); run that copy again, or remove them"
        ),
    }
}

/// Returns whether the same command can do better after a failure of this kind.
fn worth_resuming(kind: ErrorKind) -> bool {
    // Once a copy has begun, a far end that can no longer be reached is lost.
    matches!(
        kind,
        ErrorKind::Cancelled
            | ErrorKind::TimedOut
            | ErrorKind::Disconnected
            | ErrorKind::Connect
            | ErrorKind::DiskFull
    )
}

/// Reports that a signal asked for the end.
pub(crate) fn interrupted(reporting: Reporting) {
    if reporting.json {
        let kind = ErrorKind::Cancelled.name();
        emit(reporting, &Event::Error { kind, message: "interrupted".to_owned() });
    } else {
        complain(format_args!("interrupted"));
    }
}

/// Reports invalid arguments, or the reason why a copy does not begin. No data flows, so standard output is free.
pub(crate) fn refuse(json: bool, start: &Event, kind: ErrorKind, message: &str) {
    if json {
        let error = Event::Error { kind: kind.name(), message: message.to_owned() };
        write_result(false, format!("{}{}", start.line(), error.line()).as_bytes());
    } else {
        complain(format_args!("{message}"));
    }
}

fn emit(reporting: Reporting, event: &Event) {
    result(reporting, event.line().as_bytes());
}

fn result(reporting: Reporting, line: &[u8]) {
    write_result(reporting.stdout_is_data, line);
}

/// Writes a result to standard output, or to standard error if standard output carries the data. If the reader has
/// closed the pipe, the transfer continues.
fn write_result(stdout_is_data: bool, line: &[u8]) {
    let _ = if stdout_is_data {
        io::stderr().write_all(line)
    } else {
        let mut stdout = io::stdout().lock();
        stdout.write_all(line).and_then(|()| stdout.flush())
    };
}

/// Returns the requested attributes that could not be kept, if any.
fn lost(dropped: &Dropped) -> Option<String> {
    let counts = [
        (dropped.owners, "owner"),
        (dropped.privileges, "set-id bit"),
        (dropped.xattrs, "extended attribute"),
        (dropped.capabilities, "capability"),
    ];
    let lost: Vec<_> = counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| match (count, what) {
            (1, what) => format!("1 {what}"),
            (count, "capability") => format!("{count} capabilities"),
            (count, what) => format!("{count} {what}s"),
        })
        .collect();
    (!lost.is_empty()).then(|| {
        format!(
            "the target did not keep {}: the user there may not set them, the peer's line in authorised-peers does not \
             allow them, or the file system, or SFTP, does not support them",
            lost.join(", ")
        )
    })
}

/// Returns the facts in one line.
fn closing_line(done: &Summary) -> String {
    if done.bytes == 0 {
        // Without content there is no rate.
        let changed = match done.files {
            0 => "nothing to copy".to_owned(),
            files => format!("{files} {} without content", entries(files)),
        };
        return format!("{changed}{}, in {:.1} s, {}", up_to_date(done), done.seconds, done.level);
    }
    format!(
        "{} in {:.1} s ({}), {} {}, {}",
        bytes_text(done.bytes as f64),
        done.seconds,
        rate_text(done.bytes, done.seconds),
        done.files,
        entries(done.files),
        done.level
    )
}

/// Returns the result of a dry run in one line.
fn totals(done: &Summary, target: &str) -> String {
    let skipped = up_to_date(done);
    let deleted = match done.deleted {
        0 => String::new(),
        deleted => format!(", and delete {deleted}"),
    };
    format!(
        "would copy {} {}, {}, to {target}{skipped}{deleted}; nothing was changed",
        done.files,
        entries(done.files),
        bytes_text(done.bytes as f64)
    )
}

/// Returns the number of entries that were left unchanged, if any.
fn up_to_date(done: &Summary) -> String {
    match done.skipped {
        0 => String::new(),
        skipped => format!(", {skipped} up to date"),
    }
}

fn entries(count: u64) -> &'static str {
    if count == 1 { "entry" } else { "entries" }
}

/// Returns the facts as a block of lines.
fn stats(done: &Summary) -> String {
    let per_gibibyte = |seconds: f64| match done.bytes {
        ..COST_BYTES_MIN => "-".to_owned(),
        bytes => format!("{:.2}", seconds * GIBIBYTE / bytes as f64),
    };
    let rows = [
        ("bytes", format!("{} ({})", done.bytes, bytes_text(done.bytes as f64))),
        (
            "entries",
            format!(
                "{} copied, {} skipped, {} deleted, {} failed",
                done.files, done.skipped, done.deleted, done.failed
            ),
        ),
        ("seconds", format!("{:.3}", done.seconds)),
        ("rate", rate_text(done.bytes, done.seconds)),
        (
            "CPU s",
            match done.cpu_seconds.remote {
                Some(remote) => format!("{:.3} here, {remote:.3} at the far end", done.cpu_seconds.local),
                None => format!("{:.3} here, not told by the far end", done.cpu_seconds.local),
            },
        ),
        (
            "CPU s/GiB",
            format!(
                "{} here, {} at the far end",
                per_gibibyte(done.cpu_seconds.local),
                done.cpu_seconds.remote.map_or_else(|| "-".to_owned(), per_gibibyte)
            ),
        ),
        (
            "again",
            format!(
                "{} bytes sent twice, {} kept from an earlier run{}{}",
                done.resent_bytes,
                done.resumed_bytes,
                match done.spared_bytes {
                    0 => String::new(),
                    spared => format!(", {spared} spared by compression"),
                },
                match done.matched_bytes {
                    0 => String::new(),
                    matched => format!(", {matched} found in other versions"),
                }
            ),
        ),
        ("level", done.level.to_string()),
        ("suite", format!("{}, {}", suite_name(done.suite), done.tier)),
        ("streams", done.streams.to_string()),
        ("lanes", format!("{} by {}", done.lanes, done.placement)),
    ];
    rows.map(|(name, value)| format!("{name:<10} {value}\n")).concat()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use sealane_copy::{CpuSeconds, Level};
    use sealane_engine::Suite;
    use sealane_lanes::Placement;

    /// Returns a transfer with a value for every fact.
    pub(crate) fn summary() -> Summary {
        Summary {
            bytes: 1 << 31,
            files: 3,
            skipped: 1,
            failed: 0,
            deleted: 4,
            undeleted: 0,
            removed: 2,
            unremoved: 0,
            dropped: Dropped::default(),
            seconds: 2.0,
            cpu_seconds: CpuSeconds { local: 1.0, remote: Some(1.5) },
            resent_bytes: 0,
            resumed_bytes: 5,
            spared_bytes: 6,
            matched_bytes: 7,
            level: Level::Private,
            suite: Some(Suite::Aes256Gcm),
            streams: 2,
            lanes: 2,
            placement: Placement::Connection,
            tier: "native".into(),
        }
    }

    #[test]
    fn stats_tell_every_fact() {
        let expected = "\
bytes      2147483648 (2.15 GB)
entries    3 copied, 1 skipped, 4 deleted, 0 failed
seconds    2.000
rate       1.07 GB/s
CPU s      1.000 here, 1.500 at the far end
CPU s/GiB  0.50 here, 0.75 at the far end
again      0 bytes sent twice, 5 kept from an earlier run, 6 spared by compression, 7 found in other versions
level      private
suite      aes-256-gcm, native
streams    2
lanes      2 by connection
";
        assert_eq!(stats(&summary()), expected);
    }

    #[test]
    fn a_tiny_transfer_has_no_cost_per_byte() {
        for bytes in [0, 1000, COST_BYTES_MIN - 1] {
            let tiny = Summary { bytes, seconds: 0.0, ..summary() };
            let text = stats(&tiny);
            assert!(text.contains("CPU s/GiB  - here, - at the far end"), "{text}");
            assert!(text.contains("rate       -\n"), "{text}");
        }
    }

    #[test]
    fn a_dry_run_ends_with_its_totals() {
        let found = Summary { files: 1, bytes: 1500, skipped: 0, deleted: 0, ..summary() };
        let expected = "would copy 1 entry, 1.50 kB, to there; nothing was changed";
        assert_eq!(totals(&found, "there"), expected);
        let found = Summary { skipped: 3, ..found };
        assert!(totals(&found, "there").contains("to there, 3 up to date; "));
        let found = Summary { deleted: 2, ..found };
        assert!(totals(&found, "there").contains(" 3 up to date, and delete 2; "));
    }

    #[test]
    fn the_closing_line_is_short() {
        assert_eq!(closing_line(&summary()), "2.15 GB in 2.0 s (1.07 GB/s), 3 entries, private");
        let same = Summary { bytes: 0, files: 0, skipped: 7, ..summary() };
        assert_eq!(closing_line(&same), "nothing to copy, 7 up to date, in 2.0 s, private");
        let bare = Summary { bytes: 0, files: 2, skipped: 0, ..summary() };
        assert_eq!(closing_line(&bare), "2 entries without content, in 2.0 s, private");
    }

    #[test]
    fn partial_success_is_no_success() {
        let reporting = Reporting {
            json: false,
            quiet: true,
            verbose: false,
            stats: false,
            dry_run: false,
            pushes: false,
            stdout_is_data: false,
            resumable: true,
        };
        let progress = Arc::new(Progress::default());
        let start = Event::Resuming { bytes: 0 };
        let tell = |outcome, signal| {
            Reporter::start(reporting, "there".to_owned(), &progress, &start, None).finish(outcome, signal)
        };
        assert_eq!(tell(Ok(Summary { failed: 2, ..summary() }), None), ExitStatus::Partial);
        let dropped = Dropped { privileges: 1, ..Dropped::default() };
        assert_eq!(tell(Ok(Summary { dropped, ..summary() }), None), ExitStatus::Partial);
        assert_eq!(tell(Ok(summary()), None), ExitStatus::Success);
        // The message of an ssh that received the same Ctrl-C is not shown to the user.
        let ssh = || Err(Error::new(ErrorKind::Connect, "ssh ended with exit status 255"));
        assert_eq!(tell(ssh(), None), ExitStatus::Connection);
        assert_eq!(tell(ssh(), Some(2)), ExitStatus::Interrupted { signal: 2 });
    }
}
