//! Tunnels step by step, as shown in `docs/tunnels.md`: all its commands, between hosts that are namespaces of this
//! one. `cargo xtask session` writes the document.

mod program;
mod session;

use session::Session;

#[test]
fn tunnels_are_as_documented() {
    let session = Session {
        document: "tunnels.md",
        script: "tunnels/session.sh",
        head: "# Tunnels step by step\n\n\
               Sessions between hosts: `hq` and `branch` are gateways with networks behind them, `laptop` is elsewhere each day,\n\
               `home` is behind a router that translates addresses, and `office` has a strongSwan. `cargo xtask session` writes\n\
               this file, and a test repeats every command and compares the output. `sealane tunnel --help` explains the files.\n",
        // The tests of `tunnel_host.rs` check its statements.
        tail: include_str!("tunnels/host.md"),
        tools: &[
            "unshare",
            "ip",
            "sshd",
            "ssh",
            "ssh-keygen",
            "ping",
            "nft",
            "setpriv",
            "openssl",
            "charon-systemd",
            "swanctl",
        ],
    };
    session.holds();
}
