//! A service on a thread of a test, and helper functions for it. Tests of the libraries that reach the service include this file
//! with `#[path]`.

// A test program may need only a part.
#![allow(dead_code)]

use sealane_asymmetric::PrivateKey;
use sealane_client::{Client, KeyKind, key};
use sealane_service::policy::Names;
use sealane_service::service::bind_at;
use sealane_service::{Audit, Kernels, Policy, Service, ServiceError, Settings, Stop, Vault, VaultError};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{env, fs};

/// Opens a vault or a socket. A child that another test starts shares the descriptors of this process, and with them locks
/// and listeners of an earlier service, until the child has become its program.
fn once_free<T, E: std::fmt::Debug>(open: impl Fn() -> Result<T, E>, is_in_use: fn(&E) -> bool) -> T {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        match open() {
            Err(error) if is_in_use(&error) && Instant::now() < until => {
                thread::sleep(Duration::from_millis(5))
            }
            opened => return opened.expect("a service has its folder"),
        }
    }
}

/// Opens the keys of a service in this folder.
pub(crate) fn vault(folder: &Path) -> Vault {
    let keys = folder.join("keys");
    once_free(|| Vault::open(&keys, b"a passphrase"), |error| matches!(error, VaultError::InUse { .. }))
}

/// Listens at the socket of a service that has ended.
pub(crate) fn listener(socket: &Path) -> OwnedFd {
    once_free(|| bind_at(socket), |error| matches!(error, ServiceError::InUse { .. }))
}

/// Returns the settings of a service for tests.
pub(crate) fn settings(listener: OwnedFd, vault: Vault, policy: Policy) -> Settings {
    Settings {
        listeners: vec![listener],
        vault,
        policy,
        workers: 2,
        kernels: Kernels::best(),
        audit: Audit::nowhere(),
        audits_uses: false,
        memory_locked: false,
        sealed_by: "a test".to_owned(),
    }
}

/// A running service. It ends when the value is dropped.
pub(crate) struct Engine {
    pub(crate) socket: PathBuf,
    folder: PathBuf,
    policy: Option<String>,
    running: Option<(Stop, JoinHandle<()>)>,
}

impl Engine {
    /// Starts the service in a new folder, for a user who may do everything.
    pub(crate) fn fresh() -> (tempfile::TempDir, Self) {
        let folder = tempfile::tempdir().expect("a folder");
        let engine = Self::start(folder.path(), None);
        (folder, engine)
    }

    /// Starts the service in a folder that outlives it. Without a policy, the user of this process may do everything.
    pub(crate) fn start(folder: &Path, policy: Option<&str>) -> Self {
        let socket = folder.join("socket");
        let mut engine =
            Self { socket, folder: folder.to_owned(), policy: policy.map(str::to_owned), running: None };
        engine.start_again();
        engine
    }

    pub(crate) fn start_again(&mut self) {
        self.start_at(listener(&self.socket));
    }

    /// Starts the service with a socket at which somebody has listened for it.
    pub(crate) fn start_at(&mut self, listener: OwnedFd) {
        let policy = match &self.policy {
            Some(text) => Policy::parse(text, &Names::default()).expect("a policy"),
            None => Policy::of_users(&[rustix::process::geteuid().as_raw()]),
        };
        let stop = Stop::new().expect("a switch");
        let settings = settings(listener, vault(&self.folder), policy);
        let service = Service::start(settings, &stop).expect("a service");
        let thread = thread::spawn(move || service.run().expect("it serves"));
        self.running = Some((stop, thread));
    }

    /// Gives the running service another policy.
    pub(crate) fn change_policy(&self, text: &str) {
        let policy = Policy::parse(text, &Names::default()).expect("a policy");
        self.running.as_ref().expect("it runs").0.change_policy(policy);
    }

    pub(crate) fn stop(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            stop.stop();
            thread.join().expect("it ends");
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(&self.socket, "a test").expect("a client")
    }

    /// Gives the service a key of each of [`KINDS`], and puts its public half into NAME.pub in the folder.
    pub(crate) fn give_keys(&self) -> Vec<(&'static str, PrivateKey)> {
        let mut client = self.client();
        let give = |(name, kind)| {
            let key = PrivateKey::generate(kind).expect("a key");
            client.import(name, &key.to_pkcs8().expect("PKCS#8"), None).expect("it is kept");
            let public = key::pem("PUBLIC KEY", key.public());
            fs::write(self.folder.join(format!("{name}.pub")), public).expect("a file");
            (name, key)
        };
        KINDS.map(give).into()
    }
}

/// The keys of [`Engine::give_keys`].
pub(crate) const KINDS: [(&str, KeyKind); 3] =
    [("rsa", KeyKind::Rsa { bits: 2048 }), ("ec", KeyKind::P256), ("ed", KeyKind::Ed25519)];

/// Returns the path of a library that programs load, where cargo has put it before the tests of its crate.
pub(crate) fn library(file: &str) -> PathBuf {
    let deps = env::current_exe().expect("a test").parent().expect("a folder").to_owned();
    let places = [deps.join(file), deps.parent().expect("a folder").join(file)];
    places.into_iter().find(|path| path.exists()).expect("cargo builds the library before its tests")
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns the user of this process.
pub(crate) fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}
