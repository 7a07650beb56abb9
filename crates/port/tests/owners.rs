//! Namespaces of tests and benchmarks go with their owner, however it ends. The test starts this program again as an
//! owner, and needs root.

#[path = "../../../testing/namespaces.rs"]
mod namespaces;
#[path = "../../../testing/skip.rs"]
mod skip;

use rustix::process::{Pid, Signal, kill_process};
use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio, id},
    thread,
    time::{Duration, Instant},
};

/// The name of the namespace that this program makes as an owner.
const NAME: &str = "SEALANE_TEST_OWNED_NAMESPACE";

fn place(name: &str) -> PathBuf {
    Path::new("/run/netns").join(name)
}

/// Starts an owner, and returns it once its namespace is there.
fn owner(name: &str) -> Child {
    let mut command = Command::new(env::current_exe().expect("a test has a path"));
    command.args(["--exact", "namespaces_go_with_their_owner", "--nocapture"]).env(NAME, name);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts again");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.ends_with("made")), "the owner made no namespace");
    assert!(place(name).exists());
    child
}

/// Waits until a namespace is gone, for as long as removals may take on a busy machine.
fn gone(name: &str) -> bool {
    let deadline = Instant::now() + Duration::from_secs(60);
    while place(name).exists() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(10));
    }
    !place(name).exists()
}

#[test]
fn namespaces_go_with_their_owner() {
    if let Ok(name) = env::var(NAME) {
        namespaces::add(&name).expect("a namespace");
        // A process in the namespace goes too.
        let mut inner = namespaces::command(&name, "sleep").arg("600").spawn().expect("ip is there");
        println!("made");
        let _ = inner.wait();
        return;
    }
    let Some(()) = skip::unless(namespaces::missing(&[])) else { return };
    // An owner that ended together with its shell left this one.
    let left = format!("sll{}", id());
    namespaces::add(&left).expect("a namespace");
    fs::write(Path::new("/run/sealane-namespaces").join(&left), "4294967295 0\n").expect("a record");
    for (round, signal) in [Signal::INT, Signal::TERM, Signal::KILL].into_iter().enumerate() {
        let name = format!("slo{}-{round}", id());
        let mut child = owner(&name);
        assert!(!place(&left).exists(), "the next owner removes what is left");
        kill_process(Pid::from_child(&child), signal).expect("it runs");
        child.wait().expect("it ends");
        assert!(gone(&name), "{signal:?} leaves the namespace");
    }
}
