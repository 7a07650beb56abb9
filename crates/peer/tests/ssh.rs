//! Tests the real ssh program without a server: its configuration, our arguments, its failure.

#[path = "../../../testing/skip.rs"]
mod skip;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sealane_peer::{
    AddressFamily, Channel, ChannelError, PeerError, RemoteCommand, ServeLeave, SshCommand, StderrMode,
    ssh_resolved_host,
};

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

/// ssh with nothing but this configuration.
fn ssh(dir: &Path, host: &str, config: &str) -> Option<SshCommand> {
    let have = Command::new("ssh").arg("-V").stderr(Stdio::null()).status().is_ok_and(|s| s.success());
    if !have {
        skip::skip("ssh is not installed");
        return None;
    }
    let path = dir.join("config");
    std::fs::write(&path, config).unwrap();
    let mut ssh = SshCommand::new(host);
    ssh.program = "ssh".into();
    ssh.config = Some(path);
    ssh.stderr = StderrMode::Relay(Arc::new(|_| ()));
    Some(ssh)
}

#[test]
fn aliases_are_resolved() {
    let dir = tempfile::tempdir().unwrap();
    let config = "Host Alias\n  HostName 192.0.2.7\nHost behind\n  HostName 192.0.2.8\n  ProxyJump gate\n";
    for (host, want, proxied) in [
        ("Alias", "192.0.2.7", false),
        ("behind", "192.0.2.8", true),
        ("plain.example", "plain.example", false),
    ] {
        let Some(mut ssh) = ssh(dir.path(), host, config) else { return };
        // The command has every option that we may pass, so that ssh itself shows whether it accepts them.
        ssh.family = Some(AddressFamily::V4);
        ssh.port = Some(2222);
        ssh.user = Some("me".into());
        ssh.identity_files = vec!["/nonexistent/id".into()];
        ssh.options = vec!["BatchMode=yes".into()];
        let resolved = ssh_resolved_host(&ssh, soon()).unwrap();
        assert_eq!((&*resolved.host, resolved.proxied), (want, proxied));
    }
    let Some(mut ssh) = ssh(dir.path(), "plain", "") else { return };
    ssh.jump = Some("gate".into());
    assert!(ssh_resolved_host(&ssh, soon()).unwrap().proxied);
    let Some(ssh) = self::ssh(dir.path(), "plain", "NoSuchOption yes\n") else { return };
    assert!(matches!(ssh_resolved_host(&ssh, soon()), Err(PeerError::SshConfig { .. })));
}

#[test]
fn a_connection_that_fails_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    // Nobody listens on this port: it was bound and released.
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let Some(mut ssh) = ssh(dir.path(), "127.0.0.1", "BatchMode yes\n") else { return };
    ssh.port = Some(port);
    let mut channel =
        Channel::from_child(ssh.spawn(RemoteCommand::Serve(ServeLeave::default())).unwrap()).unwrap();
    let error = channel.recv(soon()).unwrap_err();
    assert!(
        matches!(&error, ChannelError::ChildFailed { status, .. } if status.code() == Some(255)),
        "{error}"
    );
    assert!(error.to_string().contains("ssh could not reach 127.0.0.1"), "{error}");

    let mut relay = ssh.spawn(RemoteCommand::Relay { port: 1 }).unwrap();
    let error = relay.wait(soon()).unwrap_err();
    assert!(matches!(error, ChannelError::ChildFailed { .. }), "{error}");
}
