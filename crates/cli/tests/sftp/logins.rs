//! Logins: one for each copy, with its prompts when they come, at servers of any kind.

use super::program::terminal::Terminal;
use super::program::{Ends, pattern, sealane, skip, text, write_script};
use super::servers::{Maker, PASSWORD, Server};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const TREE: [(&str, usize); 3] = [("one", 5), ("sub/two", 70_000), ("sub/three", 0)];

/// Makes a tree, and returns a folder for the program's state.
fn plant(at: &Path) -> std::path::PathBuf {
    fs::create_dir_all(at.join("tree/sub")).expect("folders");
    for (name, bytes) in TREE {
        fs::write(at.join("tree").join(name), pattern(bytes)).expect("a file");
    }
    at.join("state")
}

#[track_caller]
fn same(one: &Path, other: &Path, said: &str) {
    for (name, bytes) in TREE {
        for root in [one, other] {
            let found = fs::read(root.join(name)).unwrap_or_else(|error| panic!("{name}: {error}: {said}"));
            assert!(found == pattern(bytes), "{name}: {said}");
        }
    }
}

/// Returns the number of logins that an OpenSSH has noted.
fn logins(server: &Server) -> usize {
    server.log().lines().filter(|line| line.starts_with("Accepted ")).count()
}

/// These servers run no command, or end a connection that asks for one.
#[test]
fn servers_that_run_no_commands_are_copied_to_and_from() {
    for maker in [Maker::ProFtpd, Maker::AsyncSsh(""), Maker::Paramiko, Maker::Rclone, Maker::Dropbear] {
        let Some(server) = Server::start(maker) else { continue };
        let near = tempfile::tempdir().expect("a folder");
        let state = plant(near.path());
        let tree = near.path().join("tree").display().to_string();
        let back = near.path().join("back").display().to_string();
        // Without a folder for its state the program shares no connection.
        for (number, state) in [Some(&state), None].into_iter().enumerate() {
            // A server may remember what was there.
            let sent = format!("far:tree{number}");
            for (from, to) in [(&*tree, &*sent), (&*sent, &*back)] {
                let mut command = sealane(&["cp", "-rT", "-F"]);
                command.arg(server.config()).args([from, to]).env_remove("XDG_STATE_HOME");
                command.envs(state.map(|state| ("XDG_STATE_HOME", state)));
                let output = command.ends(0);
                let said = text(&output.stderr);
                assert!(said.contains("copying over SFTP"), "{maker:?}: {said}");
                assert!(!said.contains("request failed"), "{maker:?}: {said}");
            }
            same(&near.path().join("tree"), &server.home(&format!("tree{number}")), "");
            same(&near.path().join("tree"), &near.path().join("back"), "");
            fs::remove_dir_all(near.path().join("back")).expect("its copy");
        }
        let left = fs::read_dir(state.join("sealane")).expect("a folder").count();
        assert_eq!(left, 0, "neither a socket nor a journal is left");
    }
}

#[test]
fn one_login_serves_the_search_and_the_copy() {
    let Some(server) = Server::start(Maker::OpenSsh) else { return };
    let near = tempfile::tempdir().expect("a folder");
    let state = plant(near.path());
    let mut command = sealane(&["cp", "-rT", "-F"]);
    command.arg(server.config()).arg(near.path().join("tree")).arg("far:tree");
    let output = command.env("XDG_STATE_HOME", &state).ends(0);
    let said = text(&output.stderr);
    assert!(said.contains("has no sealane; copying over SFTP"), "{said}");
    same(&near.path().join("tree"), &server.home("tree"), said);
    assert_eq!(logins(&server), 1, "{}", server.log());
}

/// Takes a port of this address such that nobody can connect to it, although nobody is refused. Returns what keeps it so.
fn silence(address: &str) -> (u16, Vec<rustix::fd::OwnedFd>) {
    use rustix::net::{AddressFamily, SocketType, bind, connect, getsockname, listen, socket};
    let new = || socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    let silent = new();
    let any: std::net::SocketAddr = format!("{address}:0").parse().expect("an address");
    bind(&silent, &any).expect("an address");
    listen(&silent, 0).expect("a listener");
    let name = getsockname(&silent).expect("a name");
    let name = std::net::SocketAddr::try_from(name).expect("an address of the internet");
    let mut kept = vec![silent];
    for _ in 0..3 {
        let filler = new();
        rustix::io::ioctl_fionbio(&filler, true).expect("a mode");
        // It is under way, or in the queue.
        let _ = connect(&filler, &name);
        kept.push(filler);
    }
    (name.port(), kept)
}

/// The host's name stands for an address at which no data port answers: some refuse, and one is silent.
#[test]
fn where_only_ssh_comes_through_one_login_carries_everything() {
    let Some(server) = Server::start(Maker::OpenSsh) else { return };
    let near = tempfile::tempdir().expect("a folder");
    let at = near.path();
    let state = plant(at);
    fs::create_dir(at.join("few")).expect("a folder");
    fs::write(at.join("few/six"), b"bytes!").expect("a file");
    fs::write(at.join("tree/large"), pattern(5_000_011)).expect("a file");
    let program = server.at("sealane");
    fs::copy(super::program::path(), &program).expect("a copy");
    let proxy = format!("ProxyCommand=python3 {} %p 0", server.at("delay.py").display());
    let (silent, _kept) = silence("127.0.0.3");
    let silent = format!("{silent}-{silent}");
    let refusing = &[][..];
    let silent = &["--data-ports", &silent][..];
    let copy = |options: &[&str], from: &str, to: &str| -> (usize, String) {
        let before = logins(&server);
        let mut command =
            sealane(&["cp", "-rT", "--timeout", "20", "-o", "HostName=127.0.0.3", "-o", &proxy, "-F"]);
        command.arg(server.config()).arg("--remote-program").arg(&program).args(options).args([from, to]);
        let output = command.env("XDG_STATE_HOME", &state).ends(0);
        let said = text(&output.stderr).to_owned();
        (logins(&server) - before, said)
    };
    let here = |name: &str| at.join(name).display().to_string();
    let note = "the data goes inside ssh";
    for (number, blocked) in [refusing, silent].into_iter().enumerate() {
        // A copy that needs no second connection is not told of its absence.
        for (options, sent, is_told) in [
            (&["-n"][..], "tree", false),
            (&[], "few", false),
            (&["--through-ssh"], "tree", false),
            (&[], "tree", true),
            (&["--level", "clear", "--streams", "3"], "tree", true),
        ] {
            let options = [blocked, options].concat();
            let is_list = options.contains(&"-n");
            let far = format!("sent{number}");
            let _ = fs::remove_dir_all(server.home(&far));
            let _ = fs::remove_dir_all(at.join("back"));
            let check = |from: &str, to: &str| {
                let (count, said) = copy(&options, from, to);
                let notes = said.matches(note).count();
                assert_eq!(count, 1, "{options:?} {from}: {said}");
                // A short copy is over before it is clear that a silent port stays silent.
                let is_quick = number == 1 && notes == 0;
                assert!(notes == usize::from(is_told) || is_quick, "{options:?} {from}: {said}");
            };
            check(&here(sent), &format!("far:{far}"));
            assert_ne!(server.home(&far).exists(), is_list, "{options:?}");
            if is_list {
                continue;
            }
            check(&format!("far:{far}"), &here("back"));
            for name in ["six", "large", "sub/two"] {
                let read = |root: &Path| fs::read(root.join(name)).ok();
                let original = read(&at.join(sent));
                assert!(original == read(&server.home(&far)) && original == read(&at.join("back")), "{name}");
            }
        }
    }
}

#[test]
fn a_password_is_asked_for_once() {
    let Some(server) = Server::start(Maker::OpenSsh) else { return };
    if Command::new("sshpass").arg("-V").output().is_err() {
        return skip("there is no sshpass");
    }
    let near = tempfile::tempdir().expect("a folder");
    let state = plant(near.path());
    for options in [&[][..], &["--far-end", "sftp"], &["--install-far-end", "--yes"]] {
        let before = logins(&server);
        // It types the password once, and fails at the second question.
        let mut command = Command::new("sshpass");
        command.args(["-p", PASSWORD]).arg(super::program::path()).args(["cp", "-rT", "-F"]);
        command.arg(server.config()).args(["-o", "PreferredAuthentications=password"]);
        command.args(options).arg(near.path().join("tree")).arg("far:tree");
        command.env("XDG_STATE_HOME", &state).env("HOME", "/nonexistent");
        let output = command.ends(0);
        let said = text(&output.stderr);
        assert_eq!(logins(&server), before + 1, "{options:?}: {said}");
    }
}

#[test]
fn a_login_s_lines_appear_when_they_come() {
    let near = tempfile::tempdir().expect("a folder");
    let at = near.path();
    let state = plant(at);
    fs::create_dir(at.join("bin")).expect("a folder");
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = -G ]; then printf 'hostname far\\ncontrolpath none\\n'; exit; fi\n\
         echo 'Touch the key.' >&2\nwhile [ ! -e {0}/touched ]; do sleep 0.02; done\nexit 255\n",
        at.display()
    );
    write_script(at.join("bin/ssh"), &script);
    let search = std::env::var("PATH").unwrap_or_default();
    for state in [Some(&state), None] {
        let mut command = sealane(&["cp", "-rT"]);
        command.arg(at.join("tree")).arg("far:tree").env_remove("XDG_STATE_HOME");
        command.envs(state.map(|state| ("XDG_STATE_HOME", state)));
        command.env("PATH", format!("{}:{search}", at.join("bin").display())).stdout(Stdio::null());
        let mut child = command.spawn().expect("it starts");
        let stderr = child.stderr.take().expect("a pipe");
        let (told, lines) = mpsc::channel();
        let reader = thread::spawn(move || {
            BufReader::new(stderr).lines().map_while(Result::ok).for_each(|line| drop(told.send(line)));
        });
        let first = lines.recv_timeout(Duration::from_secs(20));
        fs::write(at.join("touched"), b"").expect("a file");
        let status = child.wait().expect("its end");
        reader.join().expect("it only reads");
        assert_eq!(first.as_deref(), Ok("Touch the key."), "{state:?}");
        assert_eq!(status.code(), Some(3), "{state:?}: {:?}", lines.try_iter().collect::<Vec<_>>());
        fs::remove_file(at.join("touched")).expect("it is there");
    }
}

#[test]
fn ssh_s_debugging_stays_off_the_terminal() {
    let Some(server) = Server::start(Maker::OpenSsh) else { return };
    let near = tempfile::tempdir().expect("a folder");
    let state = plant(near.path());
    for options in [&["-q"][..], &["--streams", "2"], &["--far-end", "sftp"]] {
        let mut command = sealane(&["cp", "-rT", "-F"]);
        command.arg(server.config()).args(options).arg(near.path().join("tree")).arg("far:tree");
        command.env("XDG_STATE_HOME", &state);
        let (status, written) = Terminal::start(&command, 100).end();
        assert_eq!(status, Some(0), "{written}");
        assert!(!written.contains("debug") && !written.contains("kex"), "{options:?}: {written}");
    }
}
