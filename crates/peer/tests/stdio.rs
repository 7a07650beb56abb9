//! Tests a real child that speaks frames on its standard input and output: this very program, started again.
//!
//! The test harness prints to standard output, which the child needs for frames, so the test has no harness.

use std::io::Read;
use std::time::{Duration, Instant};

use sealane_peer::{Channel, ChannelError, ChannelKind, PeerName, ServeLeave, StderrMode, spawn_local};

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args == ["serve", "--stdio"] {
        serve();
    } else if args.iter().any(|arg| arg == "--list") {
        // cargo-nextest asks every test program for this list.
        if !args.iter().any(|arg| arg == "--ignored") {
            println!("stdio: test");
        }
    } else {
        frames_and_nothing_else();
        println!("test stdio ... ok");
    }
}

/// Echoes frames, and tries to print between them.
fn serve() {
    let mut channel = Channel::stdio(None).unwrap();
    assert_eq!(channel.kind(), ChannelKind::Stdio);
    assert!(channel.may_carry_secrets());
    println!("a stray message");
    let mut input = Vec::new();
    std::io::stdin().read_to_end(&mut input).unwrap();
    assert_eq!(input, b"", "standard input is not the channel any more");
    loop {
        match channel.recv(soon()) {
            Ok(Some(frame)) if frame == b"fail" => std::process::exit(3),
            Ok(frame) => channel.send(&frame.expect("the parent is alive"), soon()).unwrap(),
            Err(ChannelError::Closed) => break channel.close(soon()).unwrap(),
            Err(error) => panic!("{error}"),
        }
    }
}

fn frames_and_nothing_else() {
    let (line, lines) = std::sync::mpsc::channel();
    let stderr =
        StderrMode::Relay(std::sync::Arc::new(move |text: &str| line.send(text.to_owned()).unwrap()));
    let mut channel =
        Channel::from_child(spawn_local(None, ServeLeave::default(), &stderr).unwrap()).unwrap();
    assert_eq!((channel.kind(), channel.peer()), (ChannelKind::Local, &PeerName::Local));
    for len in [0, 1, 4096, 1 << 20] {
        let frame = vec![5; len];
        channel.send(&frame, soon()).unwrap();
        assert!(channel.recv(soon()).unwrap() == Some(frame), "{len} bytes");
    }
    channel.close(soon()).unwrap();
    assert_eq!(lines.recv_timeout(Duration::from_secs(20)).unwrap(), "a stray message");

    let mut channel =
        Channel::from_child(spawn_local(None, ServeLeave::default(), &stderr).unwrap()).unwrap();
    channel.send(b"fail", soon()).unwrap();
    let error = channel.recv(soon()).unwrap_err();
    assert!(
        matches!(&error, ChannelError::ChildFailed { status, .. } if status.code() == Some(3)),
        "{error}"
    );
}
