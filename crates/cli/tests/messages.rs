//! What a failure says: which place, at which end, and what to do next.

mod program;

use program::{sealane, text, write};
use std::io::Write;
use std::net::TcpListener;

#[test]
fn a_port_of_something_else_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("file");
    write(&source, b"content");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let _server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the program connects");
        // The program may be gone already.
        let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n");
        std::thread::sleep(std::time::Duration::from_secs(1));
    });
    let mut command = sealane(&["cp", "--accept-new"]);
    command.arg(&source).arg(format!("sealane://{address}/there")).env("HOME", folder.path());
    let output = command.output().expect("the program starts");
    assert_eq!(output.status.code(), Some(3));
    let said = text(&output.stderr);
    for part in [&address.to_string(), "does not speak TLS", "sealane serve", "host:path"] {
        assert!(said.contains(part), "no {part} in {said}");
    }
    assert!(!said.contains("InvalidContentType"), "{said}");
}

#[test]
fn a_target_that_takes_no_journal_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("file");
    write(&source, b"content");
    let output = sealane(&["cp"]).arg(&source).arg("/proc").output().expect("the program starts");
    assert_eq!(output.status.code(), Some(5));
    let said = text(&output.stderr);
    for part in ["sealane: cannot keep a journal in /proc", "--no-resume"] {
        assert!(said.contains(part), "no {part} in {said}");
    }
    assert!(!said.contains("far end"), "both ends are here: {said}");
}
