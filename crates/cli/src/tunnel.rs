//! `sealane tunnel`: gateways brought up, asked and ended.

use crate::args::{
    TunnelAllowedArgs, TunnelArgs, TunnelCheckArgs, TunnelCommand, TunnelDeviceArgs, TunnelStatusArgs,
    TunnelUpArgs,
};
use crate::environment;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::signals::Interrupts;
use crate::text;
use anyhow::{Context as _, anyhow};
use sealane_engine::Inline;
use sealane_peer::Identity;
use sealane_tunnel::control::{self, Answer, Ask};
use sealane_tunnel::gateway::{self, GatewayError, Settings};
use sealane_tunnel::key_file;
use sealane_tunnel::manual::{self, Allowed};
use sealane_tunnel::site::{Keys, Site};
use sealane_tunnel::status::Status;
use std::cell::RefCell;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Runs one of the commands.
pub(crate) fn run(arguments: &TunnelArgs) -> Result<(), Failure> {
    match &arguments.command {
        TunnelCommand::Up(arguments) => up(arguments),
        TunnelCommand::Down(arguments) => down(arguments),
        TunnelCommand::Status(arguments) => status(arguments),
        TunnelCommand::Stats(arguments) => print(&asked(arguments)?.prometheus()),
        TunnelCommand::Check(arguments) => check(arguments),
    }
}

fn usage(error: impl Into<anyhow::Error>) -> Failure {
    Failure::new(ExitStatus::Usage, error)
}

fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Failure::output)
}

fn allowed(arguments: TunnelAllowedArgs) -> Allowed {
    Allowed { manual_counter: arguments.allow_manual_counter, legacy: arguments.allow_legacy }
}

fn folder(given: Option<&PathBuf>) -> PathBuf {
    given.cloned().unwrap_or_else(control::folder)
}

fn up(arguments: &TunnelUpArgs) -> Result<(), Failure> {
    let implementations = environment::implementations().map_err(usage)?;
    let site = Site::load(&arguments.site).map_err(usage)?;
    let ended = Arc::new(AtomicBool::new(false));
    let folder = folder(arguments.run.as_ref());
    let identity = environment::config_file(Identity::FILE_NAME).ok();
    let settings = Settings {
        site: &site,
        lanes: arguments.lanes,
        allowed: allowed(arguments.allowed),
        implementations,
        control_folder: &folder,
        identity: identity.as_deref(),
    };
    let listening = RefCell::new(None);
    let heed = || {
        let flag = Arc::clone(&ended);
        // Only now: its thread would keep the capabilities that the gateway has given away.
        match Interrupts::listen(move |_| flag.store(true, SeqCst)) {
            Ok(interrupts) => *listening.borrow_mut() = Some(interrupts),
            Err(error) => text::complain(format_args!("signals end the gateway at once: {error}")),
        }
    };
    let up = |device: &str| {
        text::say(&format!("{device} is up, {} peers, listening on {}", site.peers.len(), site.listen));
    };
    let say = |message: &str| text::complain(format_args!("{message}"));
    let engine = Inline::new(implementations);
    gateway::run(&settings, &engine, || ended.load(SeqCst), heed, up, say).map_err(|error| {
        let status = match error {
            GatewayError::Manual(_) | GatewayError::Identity(_) => ExitStatus::Usage,
            _ => ExitStatus::Io,
        };
        Failure::new(status, error)
    })
}

/// The device that is meant: the one named, or the only one that runs.
fn device(arguments: &TunnelDeviceArgs) -> Result<String, Failure> {
    if let Some(device) = &arguments.device {
        return Ok(device.clone());
    }
    let mut running = control::running(&folder(arguments.run.as_ref()));
    match running.len() {
        1 => Ok(running.remove(0)),
        0 => Err(Failure::new(ExitStatus::Connection, none_is_running())),
        _ => Err(usage(anyhow!("several gateways are running: name one of {}", running.join(", ")))),
    }
}

/// What is said where no gateway is found. Those of root are seen by root alone.
fn none_is_running() -> anyhow::Error {
    if rustix::process::geteuid().is_root() {
        return anyhow!("no gateway is running here");
    }
    anyhow!(
        "you have no gateway running here; gateways mostly run as root, and only root can ask them: try again with sudo"
    )
}

fn ask(arguments: &TunnelDeviceArgs, question: Ask) -> Result<Answer, Failure> {
    let device = device(arguments)?;
    control::ask(&folder(arguments.run.as_ref()), &device, question)
        .with_context(|| format!("cannot ask the gateway with device {device}"))
        .map_err(|error| Failure::new(ExitStatus::Connection, error))
}

fn asked(arguments: &TunnelDeviceArgs) -> Result<Status, Failure> {
    match ask(arguments, Ask::Status)? {
        Answer::Status(status) => Ok(status),
        Answer::Ending => {
            Err(Failure::new(ExitStatus::Connection, anyhow!("the gateway answered something else")))
        }
    }
}

fn status(arguments: &TunnelStatusArgs) -> Result<(), Failure> {
    let status = asked(&arguments.which)?;
    if arguments.json {
        let line = serde_json::to_string(&status).map_err(|error| Failure::new(ExitStatus::Io, error))?;
        return print(&format!("{line}\n"));
    }
    print(&if arguments.explain { status.explained() } else { status.text() })
}

fn down(arguments: &TunnelDeviceArgs) -> Result<(), Failure> {
    ask(arguments, Ask::Down).map(drop)
}

fn check(arguments: &TunnelCheckArgs) -> Result<(), Failure> {
    let site = Site::load(&arguments.site).map_err(usage)?;
    for peer in &site.peers {
        manual::check(peer, allowed(arguments.allowed)).map_err(usage)?;
        let Keys::Manual(keys) = &peer.keys else { continue };
        for key in [&keys.send, &keys.receive] {
            key_file::read(&key.file, keys.suite.material_bytes())
                .with_context(|| format!("peer {:?}", peer.name))
                .map_err(usage)?;
        }
    }
    print(&format!("{}: good, {} peers\n", arguments.site.display(), site.peers.len()))
}
