//! `sealane cp`: plan, copy, report.

use crate::args::CpArgs;
use crate::environment;
use crate::event_log::EventLog;
use crate::events::Event;
use crate::exit::ExitStatus;
use crate::far_end;
use crate::listed;
use crate::options::Plan;
use crate::report::{self, Reporter};
use crate::signals::Interrupts;
use crate::text::printable;
use sealane_copy::{ErrorKind, Notice, Progress};
use sealane_peer::chain;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::process;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;

/// The time that a transfer that has not begun may take to notice that a signal asked for its end.
const GRACE: Duration = Duration::from_millis(300);

/// Copies, and reports the result.
pub(crate) fn run(arguments: CpArgs) -> ExitStatus {
    let (json, start) = (arguments.json, start(&arguments));
    let target = arguments.paths.last().map(|target| printable(target.as_bytes())).unwrap_or_default();
    let list = arguments.files_from.clone().map(|path| (path, arguments.from0));
    let installing = arguments.install_far_end.then_some(arguments.yes);
    let log = arguments.log_file.as_deref().map(EventLog::open).transpose();
    let log = match log {
        Ok(log) => log,
        Err(error) => {
            report::refuse(json, &start, ErrorKind::Io, &error);
            return ExitStatus::Io;
        }
    };
    let mut plan = match Plan::new(arguments) {
        Ok(plan) => plan,
        Err(error) => {
            report::refuse(json, &start, ErrorKind::Usage, &chain(&error));
            return ExitStatus::Usage;
        }
    };
    plan.options.remote.ssh_program = environment::ssh_program();
    plan.options.remote.config_dir = environment::config_dir();
    plan.options.remote.state_dir = environment::state_dir();
    plan.options.implementations = match environment::implementations() {
        Ok(implementations) => implementations,
        Err(error) => {
            report::refuse(json, &start, ErrorKind::Usage, &chain(error.as_ref()));
            return ExitStatus::Usage;
        }
    };
    if let Some((path, by_zero)) = list {
        plan.options.listed = match listed::read(&path, by_zero) {
            Ok(listed) => Some(listed),
            Err(error) => {
                report::refuse(json, &start, ErrorKind::Usage, &chain(&error));
                return ExitStatus::Usage;
            }
        };
    }
    if let Some(is_agreed) = installing
        && let Err((kind, error)) = far_end::install(&mut plan, is_agreed)
    {
        report::refuse(json, &start, kind, &chain(error.as_ref()));
        return ExitStatus::of_kind(kind);
    }
    let progress = Arc::new(Progress::default());
    let reporter = Reporter::start(plan.reporting, target, &progress, &start, log);
    let interrupts = Interrupts::listen({
        let (progress, ending, reporting) = (progress.clone(), reporter.ending(), plan.reporting);
        move |signal| {
            progress.cancel.store(true, SeqCst);
            // Before the far end has answered there is nothing to end in order, and the answer may take long.
            if !ending.has_begun() {
                thread::sleep(GRACE);
                if ending.claim() {
                    report::interrupted(reporting);
                    process::exit(ExitStatus::Interrupted { signal }.code().into());
                }
            }
        }
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

pub(crate) fn start(arguments: &CpArgs) -> Event {
    let text = |path: &OsString| path.to_string_lossy().into_owned();
    let (target, sources) = arguments.paths.split_last().expect("the definition asks for at least one path");
    Event::Start {
        version: env!("CARGO_PKG_VERSION"),
        level: arguments.level.name(),
        sources: sources.iter().map(text).collect(),
        target: text(target),
        dry_run: arguments.dry_run,
    }
}
