//! What is shown while a transfer runs: a bar on a terminal, lines of JSON for a program, nothing otherwise.
//!
//! Guarantees: drawing reads counters and never holds up a lane; the bar is gone before anything else is written.

use crate::events::{Agreed, Event};
use crate::units::bytes_text;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use sealane_copy::{Progress, ProgressSnapshot};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Often enough to look alive, seldom enough to cost nothing.
const BAR_PERIOD: Duration = Duration::from_millis(100);

/// What a program that reads the lines can use.
const LINE_PERIOD: Duration = Duration::from_millis(250);

/// What was agreed has a line of its own, so that the bar has room on a terminal of 80 columns.
const TEMPLATE: &str = "{prefix}\n{spinner} {decimal_bytes} of {decimal_total_bytes} [{wide_bar:.cyan/blue}] {decimal_bytes_per_sec} {msg}";

/// Shows progress on a thread of its own until it is dropped.
pub(crate) struct Meter {
    bar: Option<ProgressBar>,
    ticker: Option<(SyncSender<()>, JoinHandle<()>)>,
}

impl Meter {
    /// Shows nothing.
    pub(crate) fn silent() -> Self {
        Self { bar: None, ticker: None }
    }

    /// Draws a bar on standard error.
    pub(crate) fn bar(progress: Arc<Progress>) -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        bar.set_prefix("connecting");
        bar.set_style(ProgressStyle::with_template(TEMPLATE).expect("the template is valid"));
        let ticker = tick(BAR_PERIOD, {
            let bar = bar.clone();
            move || draw(&bar, &progress.snapshot())
        });
        Self { bar: Some(bar), ticker }
    }

    /// Hands a progress event to `emit` four times a second.
    pub(crate) fn lines(
        progress: Arc<Progress>,
        started: Instant,
        emit: impl Fn(&Event) + Send + 'static,
    ) -> Self {
        let event = move || Event::progress(&progress.snapshot(), started.elapsed().as_secs_f64());
        Self { bar: None, ticker: tick(LINE_PERIOD, move || emit(&event())) }
    }

    /// Shows what was agreed above the bar.
    pub(crate) fn agreed(&self, agreed: &Agreed) {
        if let Some(bar) = &self.bar {
            bar.set_prefix(facts(agreed));
        }
    }

    /// Runs `write` while no bar is in the way.
    pub(crate) fn suspend(&self, write: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Stops, and leaves nothing on the screen.
    pub(crate) fn finish(&mut self) {
        if let Some((stop, thread)) = self.ticker.take() {
            drop(stop);
            // It panics only by a defect of the drawing library, which must not fail the transfer.
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

/// Calls `act` every `period` until the returned end of the channel is dropped. Without a thread nothing is shown.
fn tick(period: Duration, act: impl Fn() + Send + 'static) -> Option<(SyncSender<()>, JoinHandle<()>)> {
    let (stop, stopped) = mpsc::sync_channel::<()>(0);
    let ticker = move || {
        while stopped.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
            act();
        }
    };
    let thread = thread::Builder::new().name("progress".to_owned()).spawn(ticker).ok()?;
    Some((stop, thread))
}

fn draw(bar: &ProgressBar, snapshot: &ProgressSnapshot) {
    bar.set_length(snapshot.bytes_found.max(snapshot.bytes_moved));
    bar.set_position(snapshot.bytes_moved);
    // While the scan finds more, nobody knows.
    let left = snapshot.scan_complete.then(|| format!(", {:#} left", HumanDuration(bar.eta())));
    bar.set_message(format!("{}{}", count(snapshot), left.unwrap_or_default()));
}

/// Entries done of those found; a `+` says that there will be more.
fn count(snapshot: &ProgressSnapshot) -> String {
    let more = if snapshot.scan_complete { "" } else { "+" };
    format!("{}/{}{more}", snapshot.files_done, snapshot.files_found)
}

/// What was agreed, in few words.
pub(crate) fn facts(agreed: &Agreed) -> String {
    let plural = |count: u16, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    let Agreed { level, suite, streams, lanes, placement } = agreed;
    // `clear null` would say the same thing twice.
    let suite = if *suite == "null" { String::new() } else { format!(" {suite}") };
    format!("{level}{suite}, {}, {} by {placement}", plural(*streams, "stream"), plural(*lanes, "lane"))
}

/// Bytes over seconds, as a rate for people.
pub(crate) fn rate_text(bytes: u64, seconds: f64) -> String {
    // A transfer without duration has no rate.
    if seconds > 0.0 { format!("{}/s", bytes_text(bytes as f64 / seconds)) } else { "-".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    fn agreed(level: &'static str, suite: &'static str, streams: u16) -> Agreed {
        Agreed { level, suite, streams, lanes: 2, placement: "packet" }
    }

    #[test]
    fn facts_are_few_words() {
        assert_eq!(
            facts(&agreed("private", "aes-256-gcm", 4)),
            "private aes-256-gcm, 4 streams, 2 lanes by packet"
        );
        assert_eq!(facts(&agreed("clear", "null", 1)), "clear, 1 stream, 2 lanes by packet");
    }

    #[test]
    fn a_scan_that_goes_on_is_marked() {
        let mut snapshot = ProgressSnapshot { files_done: 1, files_found: 3, ..Default::default() };
        assert_eq!(count(&snapshot), "1/3+");
        snapshot.scan_complete = true;
        assert_eq!(count(&snapshot), "1/3");
    }

    #[test]
    fn the_bar_follows_the_counters_and_never_runs_over() {
        let bar = ProgressBar::hidden();
        let snapshot = ProgressSnapshot { bytes_found: 10, bytes_moved: 20, ..Default::default() };
        draw(&bar, &snapshot);
        assert_eq!((bar.position(), bar.length()), (20, Some(20)));
    }

    #[test]
    fn the_template_is_valid() {
        ProgressStyle::with_template(TEMPLATE).expect("the template is valid");
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
        let mut meter = Meter { bar: None, ticker };
        while ticks.load(SeqCst) == 0 {
            thread::yield_now();
        }
        meter.finish();
        assert_eq!(Arc::strong_count(&ticks), 1, "the thread is gone with what it held");
    }
}
