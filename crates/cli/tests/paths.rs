//! A path through network namespaces of the test's own, and the treatment of large packets on it.

#[path = "../../../testing/namespaces.rs"]
mod namespaces;
mod program;
mod support;

use namespaces::{End, try_ip};
use program::{Running, or_skip, sealane, text, wait_for, write};
use rustix::process::geteuid;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use support::Chance;
use support::run::Run;

const NAMES: [&str; 4] = ["client", "near", "far", "daemon"];
const DAEMON: &str = "10.9.3.1:7777";

/// Four hosts in a row. They are removed when the value is dropped.
struct Chain(Vec<String>);

impl Chain {
    fn make() -> Result<Self, String> {
        if !geteuid().is_root() {
            return Err("network namespaces take root".to_owned());
        }
        let mut chain = Self(Vec::new());
        for name in NAMES {
            let name = format!("sealane-{}-{name}", std::process::id());
            chain.0.push(name.clone());
            namespaces::add(&name)?;
        }
        let [client, near, far, daemon] = &chain.0[..] else { unreachable!("there are four") };
        for ends in [
            [(client, "right0", "10.9.1.1/24"), (near, "left0", "10.9.1.2/24")],
            [(near, "right1", "10.9.2.1/24"), (far, "left1", "10.9.2.2/24")],
            [(far, "right2", "10.9.3.2/24"), (daemon, "left2", "10.9.3.1/24")],
        ] {
            let addresses = ends.map(|(.., address)| [address]);
            let end = |at: usize| {
                let (namespace, device, addresses) = (ends[at].0, ends[at].1, &addresses[at]);
                // Packets then have the size that they would have on a wire.
                End { namespace, device, addresses, settings: "gso_max_segs 1" }
            };
            namespaces::cable([end(0), end(1)])?;
        }
        for (host, gateway) in
            [(client, "10.9.1.2"), (near, "10.9.2.2"), (far, "10.9.2.1"), (daemon, "10.9.3.2")]
        {
            try_ip(&format!("-n {host} route add default via {gateway}"))?;
        }
        for router in [near, far] {
            namespaces::forward(router)?;
        }
        Ok(chain)
    }

    /// Drops packets of more than `bytes` between the two hosts in the middle, in one direction, without a
    /// notification.
    fn narrow(&self, push: bool, bytes: u32) {
        let (host, device) = if push { (&self.0[2], "left1") } else { (&self.0[1], "right1") };
        namespaces::ip(&format!("-n {host} link set dev {device} mtu {bytes}"));
    }

    fn within(&self, host: usize, command: &Command) -> Command {
        let program = command.get_program().to_str().expect("a path in UTF-8");
        let mut within = namespaces::command(&self.0[host], program);
        within.args(command.get_args());
        within.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        within
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        for name in &self.0 {
            namespaces::remove(name);
        }
    }
}

fn identify(home: &Path) -> String {
    fs::create_dir(home).expect("a folder");
    let output = sealane(&["id"]).env("HOME", home).output().expect("the program starts");
    text(&output.stdout).trim().to_owned()
}

#[test]
fn a_path_that_swallows_large_packets_gets_small_ones() {
    let Some(chain) = or_skip(Chain::make()) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let utf8 = |name: &str| path(name).to_str().expect("UTF-8").to_owned();
    let user = identify(&path("user"));
    identify(&path("server"));
    write(&path("authorised"), format!("{user} user rights=read,write\n").as_bytes());
    fs::create_dir(path("root")).expect("a folder");
    let serve =
        sealane(&["serve", "--listen", DAEMON, &utf8("root"), "--authorised-peers", &utf8("authorised")]);
    let daemon = chain.within(3, &serve).env("HOME", path("server")).spawn().expect("it starts");
    let _daemon = Running(daemon);
    let content = Chance::new(9).bytes(6_000_000);
    write(&path("source"), &content);
    let copy = |push: bool| {
        let far = format!("sealane://{DAEMON}/copy");
        let (from, to) = if push { (utf8("source"), far) } else { (far, utf8("copy")) };
        let options = ["--accept-new", "--timeout", "8", "--limit-rate", "2M"];
        let mut command = sealane(&["cp", "--json"]);
        command.args(options).args([&from, &to]);
        let mut command = chain.within(0, &command);
        command.env("HOME", path("user"));
        let mut run = Run::of(command);
        run.wait_for_bytes(500_000);
        chain.narrow(push, 1300);
        let ended = run.end().expect("it ends");
        chain.narrow(push, 1500);
        let target = if push { path("root").join("copy") } else { path("copy") };
        assert_eq!(ended.code, Some(0), "push {push}: {ended:?}");
        assert!(fs::read(target).expect("the copy") == content, "push {push}");
        ended.events.iter().any(|event| event["event"] == "stream_reopened")
    };
    // The daemon needs a moment until it listens.
    let listens = || {
        let mut probe = sealane(&["cp", "--accept-new", "--dry-run", &utf8("source")]);
        probe.arg(format!("sealane://{DAEMON}/probe"));
        let output = chain.within(0, &probe).env("HOME", path("user")).output().expect("it starts");
        output.status.success()
    };
    wait_for("the daemon's answer", listens);
    assert!(copy(true), "no stream was opened again");
    assert!(copy(false), "no stream was opened again");
}
