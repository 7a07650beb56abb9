//! nginx goes on while its engine is killed and started again, as a service manager with a socket unit does it: the listening socket
//! stays, and who connects meanwhile waits.

use super::running::Running;
use super::{PATIENCE, World, common, free_port, have, nginx, skip, wait_for};
use sealane_client::Client;
use sealane_service::service::bind_at;
use sealane_service::{Policy, Service, Stop};
use std::env;
use std::fs;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The variable by which this program, started again, is an engine: its value is the folder. The listening socket is its standard
/// input.
const FOLDER: &str = "SEALANE_TEST_ENGINE";

/// The variable with the length of the test in seconds; each has a kill.
const SECONDS: &str = "SEALANE_SOAK_ENGINE_SECONDS";

/// The number of programs that make handshakes without a pause.
const CLIENTS: usize = 4;

/// The number of worker processes of `nginx`.
const WORKERS: usize = 2;

#[test]
fn an_engine_of_a_process_of_its_own() {
    let Some(folder) = env::var_os(FOLDER) else { return };
    let listener = std::io::stdin().as_fd().try_clone_to_owned().expect("a socket");
    let vault = common::vault(Path::new(&folder));
    let settings = common::settings(listener, vault, Policy::of_users(&[common::user()]));
    Service::start(settings, &Stop::new().expect("a switch")).expect("a service").run().expect("it serves");
}

/// The engine is this program itself, which listens at a socket that stays when it ends.
fn start_engine(folder: &Path, listener: BorrowedFd<'_>) -> Running {
    let mut command = Command::new(env::current_exe().expect("a program"));
    command.args(["--exact", "killed::an_engine_of_a_process_of_its_own", "--nocapture"]);
    let socket: OwnedFd = listener.try_clone_to_owned().expect("a descriptor");
    command.env(FOLDER, folder).stdin(socket).stdout(Stdio::null()).stderr(Stdio::inherit());
    Running(command.spawn().expect("it starts"))
}

fn workers(nginx: &Child) -> String {
    fs::read_to_string(format!("/proc/{0}/task/{0}/children", nginx.id())).expect("its children")
}

/// The workers once all have begun: nginx listens before it makes them.
fn workers_begun(nginx: &Child, count: usize) -> String {
    let start = Instant::now();
    loop {
        let workers = workers(nginx);
        if workers.split_whitespace().count() >= count {
            return workers;
        }
        assert!(start.elapsed() < PATIENCE, "nginx has the workers {workers:?}, not {count}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn no_handshake_fails_while_the_engine_is_killed_every_second() {
    if !have(&["openssl"]) {
        return;
    }
    if !Path::new("/usr/sbin/nginx").exists() {
        return skip::skip("no nginx");
    }
    let seconds: u32 = env::var(SECONDS).map_or(3, |text| text.parse().expect("a number of seconds"));
    let mut world = World::new();
    let port = free_port();
    world.certificate("rsa");
    world.engine.stop();
    let folder = world.folder.path().to_owned();
    let listener = bind_at(&world.engine.socket).expect("a socket");
    let mut engine = start_engine(&folder, listener.as_fd());
    let nginx = nginx(&world, port, "rsa");
    wait_for(port);
    let workers_before = workers_begun(&nginx.0, WORKERS);
    let address = format!("127.0.0.1:{port}");
    let time = (seconds + 1).to_string();
    // It ends with a failure at the first handshake that fails.
    let clients: Vec<Child> = (0..CLIENTS)
        .map(|_| {
            let mut client = Command::new("openssl");
            client.args(["s_time", "-new", "-time", &time, "-connect", &address, "-CAfile", "rsa.crt"]);
            client.current_dir(&folder).env_remove("OPENSSL_CONF").stdin(Stdio::null());
            client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("openssl")
        })
        .collect();
    let mut signed = Vec::new();
    for _ in 0..seconds {
        thread::sleep(Duration::from_secs(1));
        let status = Client::connect(&world.engine.socket, "a test").and_then(|mut client| client.status());
        signed.push(status.map_or(0, |status| status.done.values().sum::<u64>()));
        drop(engine);
        engine = start_engine(&folder, listener.as_fd());
    }
    let mut handshakes = 0;
    for client in clients {
        let output = client.wait_with_output().expect("it ends");
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let log = fs::read_to_string(world.path("nginx.log")).unwrap_or_default();
        assert!(output.status.success(), "{told}{errors}{log}");
        let made = told.lines().find(|line| line.contains("connections in") && line.contains("real seconds"));
        let made = made.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        handshakes += made.expect("a number of connections");
    }
    // One more, by the engine that was started last.
    let start = Instant::now();
    while Client::connect(&world.engine.socket, "a test").is_err() {
        assert!(start.elapsed() < PATIENCE, "the engine does not answer");
    }
    assert!(signed.iter().all(|count| *count > 0), "each engine signs before it is killed: {signed:?}");
    assert!(handshakes >= signed.iter().sum::<u64>() / 2, "{handshakes} {signed:?}");
    assert_eq!(workers(&nginx.0), workers_before, "no worker ended");
    println!("{handshakes} handshakes, {seconds} kills; signatures by then: {signed:?}");
}
