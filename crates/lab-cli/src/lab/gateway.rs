//! `sealane lab gateway`: a gateway of `sealane tunnel` whose engine only studies can choose, for `lab tunnel`.
//!
//! Guarantees: everything but the engine is the product's own; the site file's hooks are not run.

use crate::args::GatewayArgs;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::signals::{self, Interrupts};
use crate::text;
use sealane_terminal::environment;
use sealane_tunnel::gateway::{self, Settings};
use sealane_tunnel::host::keeper;
use sealane_tunnel::manual::Allowed;
use sealane_tunnel::site::Site;
use std::cell::RefCell;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// The command by which this program, started again, restores the host after the gateway.
const KEEP_HOST: &str = "keep-host";

/// Runs a gateway until it is told to end.
pub(super) fn run(arguments: &GatewayArgs) -> Result<ExitStatus, Failure> {
    let usage = |error: anyhow::Error| Failure::new(ExitStatus::Usage, error);
    let site = Site::load(&arguments.site).map_err(|error| usage(error.into()))?;
    let ended = Arc::new(AtomicBool::new(false));
    let settings = Settings {
        site: &site,
        path: &arguments.site,
        is_reload_wanted: &AtomicBool::new(false),
        lanes: arguments.lanes,
        allowed: Allowed { manual_counter: arguments.allow_manual_counter, legacy: arguments.allow_legacy },
        implementations: environment::implementations().map_err(usage)?,
        engine: &arguments.engine,
        control_folder: &arguments.run,
        identity: None,
        keeper,
    };
    let listening = RefCell::new(None);
    let take_signals = || {
        let flag = Arc::clone(&ended);
        match Interrupts::listen(move |_| flag.store(true, SeqCst)) {
            Ok(interrupts) => *listening.borrow_mut() = Some(interrupts),
            Err(error) => text::complain(format_args!("signals end the gateway at once: {error}")),
        }
    };
    let up = |device: &str| text::say(&format!("{device} is up, listening on {}", site.listen));
    let say = |message: &str| text::complain(format_args!("{message}"));
    let resolve = |_: &[IpAddr], _: &[String]| ();
    gateway::run(&settings, || ended.load(SeqCst), take_signals, up, resolve, say)
        .map(|()| ExitStatus::Success)
        .map_err(|error| Failure::new(ExitStatus::Io, error))
}

/// Returns the command that runs a gateway's keeper.
fn keeper() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg(KEEP_HOST);
    command
}

/// Restores the host once the gateway at standard input has ended.
pub(super) fn keep_host() -> Result<ExitStatus, Failure> {
    let fault = |error: io::Error| Failure::new(ExitStatus::Io, error);
    signals::leave_all_to_client().map_err(fault)?;
    let stream = io::stdin().as_fd().try_clone_to_owned().map_err(fault)?;
    keeper::run(stream, |message| text::complain(format_args!("{message}"))).map_err(fault)?;
    Ok(ExitStatus::Success)
}
