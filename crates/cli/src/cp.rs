//! `sealane cp`: plan, copy, report.

use crate::args::CpArgs;
use crate::events::Event;
use crate::exit::ExitStatus;
use crate::failure::chain;
use crate::options::Plan;
use crate::report::{self, Reporter};
use crate::signals::Interrupts;
use sealane_copy::{Notice, Progress};
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// Copies, and says how it went.
pub(crate) fn run(arguments: CpArgs) -> ExitStatus {
    let (json, start) = (arguments.json, start(&arguments));
    let plan = match Plan::new(arguments) {
        Ok(plan) => plan,
        Err(error) => {
            report::refuse(json, &start, &chain(&error));
            return ExitStatus::Usage;
        }
    };
    let progress = Arc::new(Progress::default());
    let reporter = Reporter::start(plan.reporting, &progress, &start);
    let interrupts = Interrupts::listen({
        let progress = progress.clone();
        move || progress.cancel.store(true, SeqCst)
    });
    let interrupts = match interrupts {
        Ok(interrupts) => interrupts,
        Err(error) => {
            reporter.failed("io", &format!("listening for signals: {error}"));
            return ExitStatus::Io;
        }
    };
    let mut observer = |notice: Notice| reporter.notice(&notice);
    let outcome = sealane_copy::copy(&plan.sources, &plan.target, &plan.options, &progress, &mut observer);
    reporter.finish(outcome, interrupts.received())
}

fn start(arguments: &CpArgs) -> Event {
    let text = |path: &OsString| path.to_string_lossy().into_owned();
    let (target, sources) = arguments.paths.split_last().expect("the definition asks for at least one path");
    Event::Start {
        version: env!("CARGO_PKG_VERSION"),
        level: arguments.level.name(),
        sources: sources.iter().map(text).collect(),
        target: text(target),
    }
}
