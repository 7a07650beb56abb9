//! `sealane tunnel`: starts, queries and ends gateways.

mod hooks;
mod new;
mod pki;
mod profile;

use crate::args::{
    TunnelAllowedArgs, TunnelArgs, TunnelCheckArgs, TunnelCommand, TunnelDeviceArgs, TunnelReloadArgs,
    TunnelStatusArgs, TunnelUpArgs,
};
use crate::environment;
use crate::exit::ExitStatus;
use crate::failure::{self, Failure};
use crate::signals::{self, Interrupts};
use crate::{systemd, text};
use anyhow::{Context as _, anyhow};
use rustix::process::getppid;
use sealane_peer::{Identity, PeerError};
use sealane_tunnel::control::{self, Answer, Ask};
use sealane_tunnel::gateway::{self, GatewayError, Settings};
use sealane_tunnel::host::{self, HostError, Wanted, keeper};
use sealane_tunnel::keying::ike;
use sealane_tunnel::manual::{self, Allowed, Seen};
use sealane_tunnel::site::{Keys, Site};
use sealane_tunnel::status::Status;
use std::cell::RefCell;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Runs one of the commands.
pub(crate) fn run(arguments: &TunnelArgs) -> Result<(), Failure> {
    match &arguments.command {
        TunnelCommand::Up(arguments) => up(arguments),
        TunnelCommand::Down(arguments) => down(arguments),
        TunnelCommand::Reload(arguments) => reload(arguments),
        TunnelCommand::Status(arguments) => status(arguments),
        TunnelCommand::Stats(arguments) => print(&asked(arguments)?.prometheus()),
        TunnelCommand::Check(arguments) => check(arguments),
        TunnelCommand::KeepHost => keep_host(),
        TunnelCommand::New(arguments) => new::run(arguments),
        TunnelCommand::Pki(arguments) => pki::run(arguments),
        TunnelCommand::Profile(arguments) => profile::run(arguments),
    }
}

fn usage(error: impl Into<anyhow::Error>) -> Failure {
    Failure::new(ExitStatus::Usage, error)
}

/// Prints lines, which may contain text of the owner of a gateway's socket.
fn print(text: &str) -> Result<(), Failure> {
    failure::print(&text::lines(text))
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
    let folder = folder(arguments.run.as_ref());
    if (!site.hooks.is_empty() || site.takes_resolvers()) && !arguments.supervised {
        return hooks::supervise(&site, &folder, environment::arguments());
    }
    let supervisor = arguments.supervised.then(getppid);
    let ended = Arc::new(AtomicBool::new(false));
    let identity = gateway_identity().ok();
    let is_reload_wanted = Arc::new(AtomicBool::new(false));
    let settings = Settings {
        site: &site,
        path: &arguments.site,
        is_reload_wanted: &is_reload_wanted,
        lanes: arguments.lanes,
        allowed: allowed(arguments.allowed),
        implementations,
        engine: &arguments.engine,
        control_folder: &folder,
        identity: identity.as_deref(),
        keeper,
    };
    let listening = RefCell::new(None);
    let take_signals = || {
        let flag = Arc::clone(&ended);
        // Signals are handled only now: an earlier thread would keep the capabilities that the gateway has given up.
        let reload = Arc::clone(&is_reload_wanted);
        let stop = move |_| flag.store(true, SeqCst);
        match Interrupts::listen_beside_hangup(stop, move || reload.store(true, SeqCst)) {
            Ok(interrupts) => *listening.borrow_mut() = Some(interrupts),
            Err(error) => text::complain(format_args!(
                "signals will end the gateway at once, because they cannot be handled: {error}"
            )),
        }
    };
    let up = |device: &str| {
        text::say(&format!("{device} is up, {}, listening on {}", peers(&site), site.listen));
        let told = match arguments.supervised {
            true => print(&format!("{}{device}\n", hooks::UP)).map_err(|_| io::ErrorKind::BrokenPipe.into()),
            false => systemd::tell_ready(),
        };
        if let Err(error) = told {
            text::complain(format_args!("cannot tell the service manager that the gateway is up: {error}"));
        }
    };
    let is_ended = || ended.load(SeqCst) || supervisor.is_some_and(|supervisor| getppid() != supervisor);
    let resolve = |servers: &[IpAddr], domains: &[String]| {
        // Only a supervised gateway has somebody who may change resolvers.
        if arguments.supervised && print(&hooks::resolvers_line(servers, domains)).is_err() {
            text::complain(format_args!("cannot hand on the resolvers of the peer"));
        }
    };
    let say = |message: &str| text::complain(format_args!("{message}"));
    gateway::run(&settings, is_ended, take_signals, up, resolve, say).map_err(|error| {
        let status = match error {
            GatewayError::Manual(_)
            | GatewayError::Identity(_)
            | GatewayError::Ike(_)
            | GatewayError::OwnKey { .. } => ExitStatus::Usage,
            _ => ExitStatus::Io,
        };
        Failure::new(status, error)
    })
}

/// Returns the command that runs a gateway's keeper: this very program, even if its file has been replaced.
fn keeper() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["tunnel", "keep-host"]);
    command
}

fn keep_host() -> Result<(), Failure> {
    let fault = |error: io::Error| Failure::new(ExitStatus::Io, error);
    signals::leave_all_to_client().map_err(fault)?;
    let stream = io::stdin().as_fd().try_clone_to_owned().map_err(fault)?;
    keeper::run(stream, |message| text::complain(format_args!("{message}"))).map_err(fault)
}

/// Returns the device that the arguments name, or that of the only running gateway.
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

/// Returns the error that no gateway was found. Only root sees the gateways that run as root.
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
        Answer::Ending | Answer::Reloaded(_) | Answer::Refused(_) => Err(Failure::new(
            ExitStatus::Connection,
            anyhow!("the gateway gave an unexpected answer: is it another version?"),
        )),
    }
}

fn status(arguments: &TunnelStatusArgs) -> Result<(), Failure> {
    let status = asked(&arguments.which)?;
    if arguments.json {
        let line = serde_json::to_string(&status).map_err(|error| Failure::new(ExitStatus::Io, error))?;
        return failure::print(&format!("{}\n", text::json(&line)));
    }
    print(&if arguments.explain { status.explained() } else { status.text() })
}

fn down(arguments: &TunnelDeviceArgs) -> Result<(), Failure> {
    let folder = folder(arguments.run.as_ref());
    let running = control::running(&folder);
    let is_running = match &arguments.device {
        Some(device) => running.contains(device),
        None => !running.is_empty(),
    };
    if is_running {
        let device = device(arguments)?;
        return control::end(&folder, &device)
            .and_then(|()| hooks::wait_until_undone(&folder, &device))
            .with_context(|| format!("cannot end the gateway with device {device}"))
            .map_err(|error| Failure::new(ExitStatus::Connection, error));
    }
    let left = host::take_away(arguments.device.as_deref(), &folder).map_err(|error| {
        let error =
            anyhow!("no gateway is running here, and what one may have left cannot be taken away: {error}");
        Failure::new(ExitStatus::Connection, error)
    })?;
    if left.is_empty() {
        return Err(Failure::new(ExitStatus::Connection, anyhow!("no gateway is running here")));
    }
    text::say(&format!(
        "no gateway is running here; steps that cleaned up after one that was killed:\n{}",
        left.join("\n")
    ));
    Ok(())
}

fn reload(arguments: &TunnelReloadArgs) -> Result<(), Failure> {
    let device = match &arguments.site {
        // An error of the file is said here, too.
        Some(site) => Some(Site::load(site).map_err(usage)?.device),
        None => arguments.which.device.clone(),
    };
    let which = TunnelDeviceArgs { device, run: arguments.which.run.clone() };
    match ask(&which, Ask::Reload)? {
        Answer::Reloaded(words) => print(&words.iter().map(|words| format!("{words}\n")).collect::<String>()),
        Answer::Refused(message) => Err(usage(anyhow!("nothing is changed: {message}"))),
        Answer::Status(_) | Answer::Ending => Err(Failure::new(
            ExitStatus::Connection,
            anyhow!("the gateway gave an unexpected answer: is it another version?"),
        )),
    }
}

/// Returns the number of the site's peers, in words.
fn peers(site: &Site) -> String {
    match site.peers.len() {
        1 => "1 peer".to_owned(),
        count => format!("{count} peers"),
    }
}

fn check(arguments: &TunnelCheckArgs) -> Result<(), Failure> {
    let site = Site::load(&arguments.site).map_err(usage)?;
    let mut seen = Seen::default();
    for peer in &site.peers {
        manual::check(peer, allowed(arguments.allowed)).map_err(usage)?;
        seen.read(peer).map_err(usage)?;
    }
    ike::configured(&site, gateway_identity().ok().as_deref()).map(drop).map_err(usage)?;
    print(&format!("{}: good, {}\n", arguments.site.display(), peers(&site)))?;
    own_key(&site)?;
    let plan = match host::forecast(&Wanted::of(&site, &site.device), &host::doors(&site)) {
        Ok(plan) => plan,
        Err(error) => return print(&format!("cannot tell what `up` would do on this host: {error}\n")),
    };
    let lines: String = plan
        .notes
        .iter()
        .map(|note| format!("- {note}\n"))
        .chain(plan.warnings.iter().map(|note| format!("! {note}\n")))
        .collect();
    print(&format!("on this host:\n{lines}"))?;
    if plan.conflicts.is_empty() {
        return Ok(());
    }
    Err(Failure::new(ExitStatus::Io, HostError::Conflict(plan.conflicts)))
}

/// Prints the gateway's own key, if it has peers that need it.
fn own_key(site: &Site) -> Result<(), Failure> {
    if !site.peers.iter().any(|peer| matches!(peer.keys, Keys::Peer(_))) {
        return Ok(());
    }
    let path = match &site.identity {
        Some(path) => path.clone(),
        None => gateway_identity().map_err(usage)?,
    };
    if !path.exists() {
        return print(&format!(
            "this gateway has no key yet: it is made in {} by its first start\n",
            path.display()
        ));
    }
    let identity = Identity::load(&path).map_err(usage)?;
    gateway::refuse_own_key(site, &identity, &path).map_err(usage)?;
    print(&format!("this gateway's key: {} ({})\n", identity.public_key(), path.display()))
}

/// Returns the identity of a gateway without one in its site file: the system's for root, unless root has an earlier
/// one of its own and the system has none; the user's own for all other users.
fn gateway_identity() -> Result<PathBuf, PeerError> {
    let own = environment::config_file(Identity::FILE_NAME);
    if !rustix::process::geteuid().is_root() {
        return own;
    }
    let system = environment::system_identity();
    Ok(own.ok().filter(|own| own.exists() && !system.exists()).unwrap_or(system))
}
