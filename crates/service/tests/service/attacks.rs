//! Attacks by which another user of the host could stop the service, done by threads and processes that are not honest.

use super::common::Engine;
use super::{Bare, skip};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, send, socketpair};
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, splice};
use sealane_client::ring::{Direction, Head, Producer};
use sealane_client::setup::{Ask, Told, VERSION};
use sealane_client::{Hash, KeyKind, socket};
use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

/// Has the service ring a client that waits, again and again.
fn have_it_ring(bare: &Bare, times: u64) {
    let mut requests = Producer::new(Direction::Requests);
    for tag in 0..times {
        bare.memory.bells().client_is_about_to_wait();
        if requests.push(&bare.memory, Head { tag, ..Head::default() }, &[]).is_err() {
            break;
        }
        requests.publish(&bare.memory);
        bare.ring();
        thread::yield_now();
    }
}

/// Asserts that others are served.
#[track_caller]
fn serves(engine: &Engine) {
    let mut honest = engine.client();
    let key = honest.open("web").expect("it is found");
    for _ in 0..50 {
        honest.sign(&key, Hash::Sha256, &[1; 32]).expect("it is signed");
    }
}

fn engine_with_key(folder: &std::path::Path) -> Engine {
    let engine = Engine::start(folder, None);
    engine.client().generate("web", KeyKind::P256).expect("a key");
    engine
}

/// Whoever splices from a pipe into a socket that is full holds the pipe's lock until somebody takes what is in the socket.
#[test]
fn a_bell_that_is_spliced_holds_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_with_key(folder.path());
    let bare = Arc::new(Bare::connect(&engine));
    let (full, _other) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    while send(&full, &[0; 4096], SendFlags::DONTWAIT).is_ok() {}
    let (from_pipe, to_pipe) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    rustix::fs::fcntl_setfl(&to_pipe, rustix::fs::OFlags::NONBLOCK).unwrap();
    while rustix::io::write(&to_pipe, &[0; 4096]).is_ok() {}
    rustix::fs::fcntl_setfl(&to_pipe, rustix::fs::OFlags::empty()).unwrap();
    // The client's end waits if its client wants it to.
    rustix::fs::fcntl_setfl(&bare.bell, rustix::fs::OFlags::empty()).unwrap();
    let ways: [OwnedFd; 2] = [full, to_pipe];
    for way in ways {
        let bare = Arc::clone(&bare);
        thread::spawn(
            move || while splice(&bare.bell, None, &way, None, 1 << 16, SpliceFlags::empty()).is_ok() {},
        );
    }
    have_it_ring(&bare, 100);
    serves(&engine);
    // The threads end with their pipes and sockets.
    drop((from_pipe, _other));
}

/// Reads from the bell, which is its standard input, into memory whose pages come when this process says so: never.
const SLOW_MEMORY: &str = r#"
import ctypes, fcntl, mmap, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
fault = libc.syscall(323, os.O_CLOEXEC)
if fault < 0:
    print("skip", flush=True)
    sys.exit()
memory = mmap.mmap(-1, 1 << 16)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
fcntl.ioctl(fault, 0xc018aa3f, struct.pack("QQQ", 0xaa, 0, 0))
fcntl.ioctl(fault, 0xc020aa00, struct.pack("QQQQ", address, 1 << 16, 1, 0))
print("reads", flush=True)
os.set_blocking(0, True)
libc.read(0, ctypes.c_void_p(address), 1 << 16)
"#;

/// Whoever reads a pipe into memory that comes from a slow file system holds its lock meanwhile.
#[test]
fn a_bell_that_is_read_into_slow_memory_holds_up_nobody() {
    if !cfg!(target_arch = "x86_64") || !rustix::process::geteuid().is_root() {
        return skip::say("only root may have slow memory, by a system call of x86-64");
    }
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_with_key(folder.path());
    let bare = Bare::connect(&engine);
    let bell = bare.bell.as_fd().try_clone_to_owned().unwrap();
    let mut command = Command::new("python3");
    let started = command.args(["-c", SLOW_MEMORY]).stdin(bell).stdout(Stdio::piped()).spawn();
    let Ok(mut attacker) = started else { return skip::skip("no python3") };
    let mut word = String::new();
    let mut told = std::io::BufReader::new(attacker.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut told, &mut word).unwrap();
    if word == "reads\n" {
        have_it_ring(&bare, 100);
        serves(&engine);
    } else {
        skip::say("no userfaultfd");
    }
    attacker.kill().unwrap();
    attacker.wait().unwrap();
}

/// Sends a socket whose close waits for a peer that takes nothing, as another user, again and again.
const LINGERS: &str = r#"
import array, socket, struct, sys, time
listener = socket.create_server(("127.0.0.1", 0))
held = []
def lingering():
    near = socket.create_connection(listener.getsockname())
    near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
    near.setblocking(False)
    try:
        while True: near.send(bytes(65536))
    except BlockingIOError:
        return near
sent = 0
for attempt in range(8):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(sys.argv[1])
    near = lingering()
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [near.fileno()]))]
    try:
        connection.sendmsg([bytes([0, 1, 2, 0])], rights)
        sent += 1
    except OSError:
        # It would linger here.
        near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
    near.close()
    held.append(connection)
print("sent", sent, flush=True)
sys.stdin.read()
"#;

#[test]
fn sockets_that_linger_hold_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_with_key(folder.path());
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.path(), mode).unwrap();
    // A stranger if this is root, and otherwise somebody whom the policy names.
    let is_root = rustix::process::geteuid().is_root();
    let mut command = Command::new(if is_root { "setpriv" } else { "python3" });
    if is_root {
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3"]);
    }
    command.args(["-c", LINGERS]).arg(&engine.socket);
    let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut attacker) = started else { return skip::skip("no setpriv, or no python3") };
    let mut word = String::new();
    let mut told = std::io::BufReader::new(attacker.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut told, &mut word).unwrap();
    assert!(word.starts_with("sent "), "{word}");
    serves(&engine);
    attacker.kill().unwrap();
    attacker.wait().unwrap();
}

/// Whoever is let in is dropped for what it sends, before that is received.
#[test]
fn open_files_in_messages_are_not_received() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_with_key(folder.path());
    let connection = socket::connect_to(&engine.socket).unwrap();
    let hello = Ask::Hello { lowest: VERSION, highest: VERSION, program: String::new() };
    let (near, far) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    let sent = socket::send(&connection, &hello, &[near.as_fd()], SendFlags::empty());
    drop(near);
    if sent.is_ok() {
        let told = socket::receive::<Told>(&connection, RecvFlags::empty());
        assert!(!matches!(told, Ok(Some(_))), "{told:?}");
    }
    // It was closed.
    drop(connection);
    assert_eq!(rustix::io::read(&far, &mut [0u8; 1][..]), Ok(0));
    serves(&engine);
}

/// Strangers who say nothing take no place.
#[test]
fn strangers_take_no_place() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::start(folder.path(), Some("[[allow]]\nusers = [4242]\nkeys = ['*']\n"));
    let mut silent = Vec::new();
    for _ in 0..500 {
        silent.push(socket::connect_to(&engine.socket).unwrap());
    }
    for connection in silent {
        let told = socket::receive::<Told>(&connection, RecvFlags::empty()).unwrap();
        let is_refused = matches!(told, Some((Told::Refused(sealane_client::Refusal::NotAllowed), _)));
        assert!(is_refused, "{told:?}");
    }
}

/// Whoever asks for the status without end gets an answer to each question, one at a time, and holds up nobody; what is asked over
/// connections that are gone is not answered.
#[test]
fn questions_without_end_hold_up_nobody() {
    const QUESTIONS: usize = 20;
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_with_key(folder.path());
    let asks = || {
        let bare = Bare::connect(&engine);
        for at in 0..QUESTIONS {
            let after = String::new();
            let ask = if at % 2 == 0 { Ask::Report { after } } else { Ask::List { after } };
            socket::send(&bare.socket, &ask, &[], SendFlags::empty()).unwrap();
        }
        bare
    };
    let gone: Vec<Bare> = (0..32).map(|_| asks()).collect();
    drop(gone);
    let waiting: Vec<Bare> = (0..32).map(|_| asks()).collect();
    serves(&engine);
    for bare in waiting {
        let mut answered = 0;
        for _ in 0..QUESTIONS {
            match socket::receive::<Told>(&bare.socket, RecvFlags::empty()).unwrap().unwrap().0 {
                Told::Report(_) | Told::Keys(_) => answered += 1,
                Told::Refused(sealane_client::Refusal::Unexpected) => {}
                other => panic!("{other:?}"),
            }
        }
        assert!(answered > 0);
    }
    assert_eq!(engine.client().report().unwrap().keys["web"], 50);
}
