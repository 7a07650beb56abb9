//! The display of a running transfer: a bar on a terminal, lines of JSON for a program, nothing otherwise.
//!
//! Guarantees: drawing reads counters and never blocks a lane; nothing is drawn before the first entry or byte has
//! moved, so that no bar hides a question of ssh; no line is wider than the terminal; the bar is removed before
//! anything else is written.

use crate::events::Event;
use crate::units::bytes_text;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use sealane_copy::{Agreement, Progress, ProgressSnapshot, suite_name};
use sealane_engine::Suite;
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The interval between drawings of the bar: it looks alive at a negligible cost.
const BAR_PERIOD: Duration = Duration::from_millis(100);

/// The interval between progress lines for programs.
const LINE_PERIOD: Duration = Duration::from_millis(250);

/// The number of periods over which the displayed rate is averaged: 3 s.
const RATE_PERIODS: usize = 30;

/// The width if the terminal does not report one.
const COLUMNS: usize = 80;

/// The minimum width of the bar: a narrower one is less informative than the numbers beside it.
const BAR_COLUMNS_MIN: usize = 8;

/// Shows progress on a thread of its own until it is dropped.
pub(crate) struct Meter {
    bar: Option<ProgressBar>,
    /// The negotiated properties, in a line of its own above the bar.
    facts: Arc<OnceLock<String>>,
    ticker: Option<(SyncSender<()>, JoinHandle<()>)>,
}

impl Meter {
    /// Shows nothing.
    pub(crate) fn silent() -> Self {
        Self { bar: None, facts: Arc::default(), ticker: None }
    }

    /// Draws a bar on standard error, once something has moved.
    pub(crate) fn bar(progress: Arc<Progress>) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(ProgressStyle::with_template("{msg}").expect("the template is valid"));
        let facts = Arc::<OnceLock<String>>::default();
        let mut pace = Pace::default();
        let ticker = tick(BAR_PERIOD, {
            let (bar, facts) = (bar.clone(), facts.clone());
            move || {
                let snapshot = progress.snapshot();
                let Some(facts) = facts.get().filter(|_| has_begun(&snapshot)) else { return };
                pace.add(Instant::now(), snapshot.bytes_moved, snapshot.files_done);
                bar.set_message(lines(facts, &snapshot, &pace, columns()));
            }
        });
        Self { bar: Some(bar), facts, ticker }
    }

    /// Passes a progress event to `emit` four times per second.
    pub(crate) fn lines(
        progress: Arc<Progress>,
        started: Instant,
        emit: impl Fn(&Event) + Send + 'static,
    ) -> Self {
        let event = move || Event::progress(&progress.snapshot(), started.elapsed().as_secs_f64());
        Self { bar: None, facts: Arc::default(), ticker: tick(LINE_PERIOD, move || emit(&event())) }
    }

    /// Shows the negotiated properties above the bar.
    pub(crate) fn agreed(&self, agreed: &Agreement) {
        // There is one agreement.
        let _ = self.facts.set(facts(agreed));
    }

    /// Runs `write` while the bar is hidden.
    pub(crate) fn suspend(&self, write: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Stops, and clears the bar.
    pub(crate) fn finish(&mut self) {
        if let Some((stop, thread)) = self.ticker.take() {
            drop(stop);
            // The thread panics only because of a defect in the drawing library, which must not fail the transfer.
            let _ = thread.join();
        }
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Calls `act` every `period` until the returned end of the channel is dropped. If no thread can be started, nothing
/// is shown.
fn tick(
    period: Duration,
    mut act: impl FnMut() + Send + 'static,
) -> Option<(SyncSender<()>, JoinHandle<()>)> {
    let (stop, stopped) = mpsc::sync_channel::<()>(0);
    let ticker = move || {
        while stopped.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
            act();
        }
    };
    let thread = thread::Builder::new().name("progress".to_owned()).spawn(ticker).ok()?;
    Some((stop, thread))
}

/// Returns whether data flows. Before that ssh may still ask questions, also for each stream through it.
fn has_begun(snapshot: &ProgressSnapshot) -> bool {
    snapshot.bytes_moved > 0 || snapshot.files_done > 0 || comparing(snapshot).is_some()
}

/// Returns what is looked at before anything is sent, while it is.
fn comparing(snapshot: &ProgressSnapshot) -> Option<String> {
    let (checked, of) = snapshot.checked;
    if checked < of {
        let (checked, of) = (bytes_text(checked as f64), bytes_text(of as f64));
        return Some(format!("comparing what an earlier copy left: {checked} of {of}"));
    }
    snapshot.is_comparing.then(|| "looking at what the target has".to_owned())
}

/// The rate of the last periods.
#[derive(Debug, Default)]
struct Pace {
    /// The samples: a time, and the number of bytes that had moved and of entries that were done by then.
    samples: VecDeque<(Instant, u64, u64)>,
}

impl Pace {
    fn add(&mut self, now: Instant, bytes_moved: u64, files_done: u64) {
        self.samples.push_back((now, bytes_moved, files_done));
        if self.samples.len() > RATE_PERIODS {
            self.samples.pop_front();
        }
    }

    /// Returns `None` until there are two samples to compare.
    fn bytes_per_second(&self) -> Option<f64> {
        self.per_second(|&(_, bytes, _)| bytes)
    }

    /// Does the same for entries.
    fn files_per_second(&self) -> Option<f64> {
        self.per_second(|&(_, _, files)| files)
    }

    fn per_second(&self, count: impl Fn(&(Instant, u64, u64)) -> u64) -> Option<f64> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        let seconds = last.0.duration_since(first.0).as_secs_f64();
        (seconds > 0.0).then(|| count(last).saturating_sub(count(first)) as f64 / seconds)
    }
}

/// Returns the width of the terminal on standard error.
fn columns() -> usize {
    terminal_size::terminal_size_of(io::stderr()).map_or(COLUMNS, |(width, _)| usize::from(width.0))
}

/// Returns the negotiated properties and the progress line below them, both cut to `columns`.
fn lines(facts: &str, snapshot: &ProgressSnapshot, pace: &Pace, columns: usize) -> String {
    // A full last column would make some terminals wrap the line.
    let columns = columns.saturating_sub(1);
    let facts: String = facts.chars().take(columns).collect();
    format!("{facts}\n{}", line(snapshot, pace, columns))
}

/// Returns the line of a copy that moves no content, such as one of files that the target has.
fn files_line(snapshot: &ProgressSnapshot, pace: &Pace, columns: usize) -> String {
    let rate = pace.files_per_second().map(|rate| format!("{rate:.0} files/s"));
    let parts = [Some(format!("{} files", count(snapshot))), rate, time_left(snapshot, pace)];
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    text.chars().take(columns).collect()
}

/// Returns the numbers that fit, the most important ones first, and a bar in the remaining columns.
fn line(snapshot: &ProgressSnapshot, pace: &Pace, columns: usize) -> String {
    if let Some(comparing) = comparing(snapshot) {
        return comparing.chars().take(columns).collect();
    }
    if snapshot.bytes_moved == 0 && snapshot.bytes_found == 0 {
        return files_line(snapshot, pace, columns);
    }
    let rate = pace.bytes_per_second();
    let total = snapshot.bytes_found.max(snapshot.bytes_moved);
    let more = if snapshot.scan_complete { "" } else { "+" };
    let moved = format!("{} of {}{more}", bytes_text(snapshot.bytes_moved as f64), bytes_text(total as f64));
    let rate_shown = rate.map(|rate| format!("{}/s", bytes_text(rate)));
    let wanted = [rate_shown, time_left(snapshot, pace), Some(count(snapshot))];
    let mut text = String::new();
    let width = |text: &str| text.chars().count();
    let mut left = columns.saturating_sub(width(&moved));
    for part in wanted.into_iter().flatten() {
        let part = format!("{}{part}", if text.is_empty() { " " } else { ", " });
        if width(&part) > left {
            break;
        }
        left -= width(&part);
        text.push_str(&part);
    }
    // A blank and two brackets.
    let bar = left.checked_sub(3).filter(|&bar| bar >= BAR_COLUMNS_MIN).map_or_else(String::new, |bar| {
        let share = snapshot.bytes_moved as f64 / total.max(1) as f64;
        let done = ((bar as f64 * share) as usize).min(bar);
        format!(" [{}{}]", "#".repeat(done), "-".repeat(bar - done))
    });
    format!("{moved}{bar}{text}").chars().take(columns).collect()
}

/// Returns the time for the bytes, or for the entries, whichever takes longer; it is a lower bound while the scan goes on.
fn time_left(snapshot: &ProgressSnapshot, pace: &Pace) -> Option<String> {
    let seconds = |left: u64, rate: Option<f64>| {
        let rate = rate.filter(|&rate| rate > 0.0)?;
        (left > 0).then(|| left as f64 / rate)
    };
    let bytes = seconds(snapshot.bytes_found.saturating_sub(snapshot.bytes_moved), pace.bytes_per_second());
    let files = seconds(snapshot.files_found.saturating_sub(snapshot.files_done), pace.files_per_second());
    let seconds = bytes.into_iter().chain(files).reduce(f64::max)?;
    let seconds = Duration::try_from_secs_f64(seconds.max(1.0)).ok()?;
    let more = if snapshot.scan_complete { "" } else { "+" };
    Some(format!("{:#}{more} left", HumanDuration(seconds)))
}

/// Returns the number of entries done and found; a `+` means that the scan continues.
fn count(snapshot: &ProgressSnapshot) -> String {
    let more = if snapshot.scan_complete { "" } else { "+" };
    format!("{}/{}{more}", snapshot.files_done.min(snapshot.files_found), snapshot.files_found)
}

/// Returns the negotiated properties in a few words.
pub(crate) fn facts(agreed: &Agreement) -> String {
    let plural = |count: u16, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    let Agreement { level, suite, streams, lanes, placement } = agreed;
    let suite = match suite {
        // `clear null` would be redundant.
        Some(Suite::Null) => String::new(),
        suite => format!(" {}", suite_name(*suite)),
    };
    format!("{level}{suite}, {}, {} by {placement}", plural(*streams, "stream"), plural(*lanes, "lane"))
}

/// Returns bytes over seconds as a readable rate.
pub(crate) fn rate_text(bytes: u64, seconds: f64) -> String {
    // A transfer without duration has no rate.
    if seconds > 0.0 { format!("{}/s", bytes_text(bytes as f64 / seconds)) } else { "-".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_copy::Level;
    use sealane_lanes::Placement;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    fn agreed(level: Level, suite: Suite, streams: u16) -> Agreement {
        Agreement { level, suite: Some(suite), streams, lanes: 2, placement: Placement::Packet }
    }

    #[test]
    fn facts_are_few_words() {
        assert_eq!(
            facts(&agreed(Level::Private, Suite::Aes256Gcm, 4)),
            "private aes-256-gcm, 4 streams, 2 lanes by packet"
        );
        assert_eq!(facts(&agreed(Level::Clear, Suite::Null, 1)), "clear, 1 stream, 2 lanes by packet");
    }

    #[test]
    fn a_scan_that_goes_on_is_marked() {
        let mut snapshot = ProgressSnapshot { files_done: 1, files_found: 3, ..Default::default() };
        assert_eq!(count(&snapshot), "1/3+");
        snapshot.scan_complete = true;
        assert_eq!(count(&snapshot), "1/3");
    }

    /// Returns the pace of two samples that are a second apart.
    fn pace(bytes: u64, files: u64) -> Pace {
        let (mut pace, start) = (Pace::default(), Instant::now());
        pace.add(start, 0, 0);
        pace.add(start + Duration::from_secs(1), bytes, files);
        pace
    }

    fn midway() -> ProgressSnapshot {
        ProgressSnapshot {
            bytes_found: 1_200_000_000,
            bytes_moved: 300_000_000,
            files_found: 44_029,
            files_done: 12_345,
            checked: (0, 0),
            is_comparing: false,
            scan_complete: true,
        }
    }

    #[test]
    fn a_line_fits_whatever_the_width() {
        let facts = "private chacha20-poly1305, 64 streams, 64 lanes by connection";
        for columns in 0..200 {
            for scan_complete in [false, true] {
                let snapshot = ProgressSnapshot { scan_complete, ..midway() };
                for line in lines(facts, &snapshot, &pace(511_000_000, 9), columns).lines() {
                    assert!(line.chars().count() < columns.max(1), "{columns}: {line}");
                }
            }
        }
    }

    #[test]
    fn what_is_wanted_most_is_shown_first() {
        let shown = |columns| line(&midway(), &pace(100_000_000, 100_000), columns);
        assert_eq!(
            shown(79),
            "300 MB of 1.20 GB [#######---------------------] 100 MB/s, 9s left, 12345/44029"
        );
        assert_eq!(shown(39), "300 MB of 1.20 GB 100 MB/s, 9s left");
        assert_eq!(shown(20), "300 MB of 1.20 GB");
    }

    #[test]
    fn what_is_left_is_told_only_where_it_is_known() {
        let shown = |snapshot: &ProgressSnapshot, pace: &Pace| line(snapshot, pace, 100);
        let fast = pace(100_000_000, 1_000_000);
        assert!(shown(&midway(), &fast).contains(" 9s left"));
        let found_so_far = ProgressSnapshot { scan_complete: false, ..midway() };
        assert!(shown(&found_so_far, &fast).contains(" 9s+ left"));
        assert!(!shown(&midway(), &Pace::default()).contains("left"));
        assert!(!shown(&midway(), &pace(0, 0)).contains("left"));
        let all = ProgressSnapshot { bytes_moved: 1_200_000_000, ..midway() };
        assert!(shown(&all, &pace(0, 1_000)).contains(" 32s left"), "entries are still to be finished");
        assert!(shown(&midway(), &pace(100_000_000, 1_000)).contains(" 32s left"), "entries take longer");
    }

    #[test]
    fn files_that_need_no_content_are_counted() {
        let snapshot = ProgressSnapshot {
            files_found: 100_000,
            files_done: 20_000,
            scan_complete: true,
            ..Default::default()
        };
        assert_eq!(line(&snapshot, &pace(0, 8_000), 79), "20000/100000 files, 8000 files/s, 10s left");
    }

    #[test]
    fn what_is_read_again_is_shown_while_it_is() {
        let checked = |bytes| ProgressSnapshot { checked: (bytes, 2_000_000_000), ..Default::default() };
        let shown = "comparing what an earlier copy left: 1.00 GB of 2.00 GB";
        assert_eq!(line(&checked(1_000_000_000), &Pace::default(), 79), shown);
        assert_eq!(line(&checked(2_000_000_000), &Pace::default(), 79).find("comparing"), None);
        let looking = ProgressSnapshot { is_comparing: true, ..Default::default() };
        assert_eq!(line(&looking, &Pace::default(), 79), "looking at what the target has");
    }

    #[test]
    fn a_bar_never_runs_over() {
        let snapshot = ProgressSnapshot { bytes_found: 10, bytes_moved: 20, ..Default::default() };
        assert!(line(&snapshot, &Pace::default(), 60).starts_with("20 B of 20 B+ [#####"));
    }

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let mut pace = Pace::default();
        assert_eq!(pace.bytes_per_second(), None);
        let start = Instant::now();
        for period in 0..100 {
            let bytes = if period < 60 { 1_000_000_000 } else { 1_000_000_000 + 10 * (period - 60) };
            pace.add(start + BAR_PERIOD * period as u32, bytes, 0);
        }
        assert_eq!(pace.bytes_per_second(), Some(100.0));
    }

    #[test]
    fn a_rate_needs_a_duration() {
        assert_eq!(rate_text(3_000_000_000, 2.0), "1.50 GB/s");
        assert_eq!(rate_text(3, 0.0), "-");
    }

    #[test]
    fn a_dropped_meter_stops_its_thread() {
        let ticks = Arc::new(AtomicU64::new(0));
        let counted = ticks.clone();
        let ticker = tick(Duration::from_millis(1), move || {
            counted.fetch_add(1, SeqCst);
        });
        let mut meter = Meter { bar: None, facts: Arc::default(), ticker };
        while ticks.load(SeqCst) == 0 {
            thread::yield_now();
        }
        meter.finish();
        assert_eq!(Arc::strong_count(&ticks), 1, "the thread is gone with what it held");
    }
}
