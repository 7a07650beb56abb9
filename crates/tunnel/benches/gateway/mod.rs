//! This program as a gateway: a benchmark starts itself again as the ends of its tunnels.

use std::{
    env, fs, io, num::NonZeroUsize, os::fd::AsFd as _, os::unix::fs::PermissionsExt as _, path::Path,
    process::Command,
};

use sealane_engine::{EngineChoice, Implementations};
use sealane_tunnel::{
    gateway::{self, Settings},
    host::keeper,
    manual::Allowed,
    site::Site,
};

/// Returns this program with arguments.
pub(crate) fn own(arguments: &[&str]) -> Vec<String> {
    let program = env::current_exe().expect("a bench has a path").to_string_lossy().into_owned();
    std::iter::once(program).chain(arguments.iter().map(ToString::to_string)).collect()
}

/// Writes a file that nobody else may read.
pub(crate) fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("a file in a temporary folder");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("a mode");
}

/// Runs a gateway, or the process that keeps its host's state, if the arguments ask for that. Returns whether they did.
pub(crate) fn has_run(arguments: &[&str]) -> bool {
    match arguments {
        ["gateway", site] => run(Path::new(site)),
        ["keep-host"] => {
            let gateway = io::stdin().as_fd().try_clone_to_owned().expect("a gateway has started it");
            keeper::run(gateway, |message| eprintln!("{message}")).expect("the host is kept");
        }
        _ => return false,
    }
    true
}

fn run(path: &Path) {
    let site = Site::load(path).expect("a site of this bench");
    let is_reload_wanted = std::sync::atomic::AtomicBool::new(false);
    let settings = Settings {
        path,
        is_reload_wanted: &is_reload_wanted,
        site: &site,
        lanes: Some(NonZeroUsize::MIN),
        allowed: Allowed { manual_counter: false, legacy: false },
        implementations: Implementations::default(),
        engine: &EngineChoice::default(),
        control_folder: &path.with_file_name("run"),
        identity: None,
        keeper: || {
            let mut command = Command::new("/proc/self/exe");
            command.arg("keep-host");
            command
        },
    };
    let say = |message: &str| eprintln!("{message}");
    gateway::run(&settings, || false, || (), |_| (), |_, _| (), say).expect("it comes up");
}
