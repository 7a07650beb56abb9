//! Tests of the order in which the main thread does its work, one turn at a time.

#[path = "../../../../testing/skip.rs"]
mod skip;

use super::*;
use crate::policy::Names;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

/// The user who floods, and the number of his connections: fewer than the kernel holds for a listener.
const OTHER: u32 = 65_534;
const FLOOD: usize = 100;

/// Connects so often, says hello, and keeps silent.
const FLOODS: &str = r#"
import socket, sys
held = []
for number in range(int(sys.argv[2])):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(sys.argv[1])
    connection.send(bytes.fromhex(sys.argv[3]))
    held.append(connection)
print("ready", flush=True)
sys.stdin.read()
"#;

fn start(folder: &Path) -> Service {
    let own = rustix::process::geteuid().as_raw();
    let policy = format!("[[allow]]\nusers = [{own}, {OTHER}]\nkeys = ['*']\nuses = ['sign']\n");
    let settings = Settings {
        listeners: vec![bind_at(&folder.join("socket")).expect("a socket")],
        vault: Vault::open(&folder.join("keys"), b"a passphrase").expect("a vault"),
        policy: Policy::parse(&policy, &Names::default()).expect("a policy"),
        workers: 1,
        kernels: Kernels::best(),
        audit: Audit::nowhere(),
        audits_uses: false,
        memory_locked: false,
        sealed_by: "a test".to_owned(),
    };
    Service::start(settings, &Stop::new().expect("a switch")).expect("a service")
}

fn inside(service: &Service, user: u32) -> usize {
    let own = service.connections.values().filter(|connection| connection.peer.user == user);
    own.filter(|connection| connection.inside.is_some()).count()
}

/// Whoever comes after a hundred connections of another user is let in after a few of them.
#[test]
fn a_flood_of_one_user_delays_another_one_by_few_of_it() {
    let own = rustix::process::geteuid();
    if !own.is_root() {
        return skip::say("only root may start a process of another user");
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut service = start(folder.path());
    let socket = folder.path().join("socket");
    let hello = Ask::Hello { lowest: VERSION, highest: VERSION, program: String::new() };
    let bytes = sealane_client::setup::encode(&hello).unwrap();
    let hexadecimal: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &OTHER.to_string(), "--regid", &OTHER.to_string(), "--clear-groups"]);
    command.args(["/usr/bin/python3", "-c", FLOODS]).arg(&socket);
    command.args([FLOOD.to_string(), hexadecimal]);
    let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut other) = started else { return skip::skip("no setpriv") };
    let mut word = String::new();
    BufReader::new(other.stdout.take().unwrap()).read_line(&mut word).unwrap();
    assert_eq!(word, "ready\n");
    let honest = socket::connect_to(&socket).unwrap();
    socket::send(&honest, &hello, &[], SendFlags::empty()).unwrap();
    while inside(&service, own.as_raw()) == 0 {
        assert!(service.turn().unwrap());
    }
    // One for each turn in which those before in the kernel's row are accepted, and one for its own turn.
    let before = inside(&service, OTHER);
    assert!(before <= FLOOD / ACCEPTED_AT_ONCE + 3, "{before} of {FLOOD}");
    // Nobody is refused for it.
    while inside(&service, OTHER) < FLOOD {
        assert!(service.turn().unwrap());
    }
    assert_eq!(service.shared.counters.connections_refused.load(Relaxed), 0);
    other.kill().unwrap();
    other.wait().unwrap();
}
