//! The instructions of docs/daemon.md, executed literally: two users, four commands.

mod program;

use program::{Ends, Running, path, text, write};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Returns the lines `user$ command` of a section, without comments.
fn session(markdown: &str, heading: &str) -> Vec<(String, String)> {
    let (_, section) = markdown.split_once(&format!("\n## {heading}\n")).expect("the section is there");
    let section = section.split("\n## ").next().unwrap_or_default();
    let lines = section.lines().filter_map(|line| line.split_once("$ "));
    let command = |line: &str| line.split(" #").next().unwrap_or_default().trim().to_owned();
    lines.map(|(user, line)| (user.to_owned(), command(line))).collect()
}

/// Returns the command for a shell's line in the home of a user, with the program under test in the path.
fn shell(folder: &Path, user: &str, line: &str) -> Command {
    let programs = folder.join("programs");
    let mut command = Command::new("sh");
    let search = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    command.args(["-c", line]).current_dir(folder.join(user)).env("HOME", folder.join(user));
    command.env("PATH", search).env_remove("XDG_CONFIG_HOME").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_daemon_takes_four_commands() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    for name in ["programs", "laptop/data", "server", "srv"] {
        fs::create_dir_all(at(name)).expect("a folder");
    }
    std::os::unix::fs::symlink(path(), at("programs/sealane")).expect("a link");
    write(&at("laptop/data/file"), b"text");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/daemon.md");
    let lines = session(&fs::read_to_string(page).expect("the page"), "A daemon in four commands");
    assert!((1..=4).contains(&lines.len()), "{lines:?}");
    let served = at("srv").display().to_string();
    let (mut key, mut address, mut daemon) = (String::new(), String::new(), None);
    for (user, line) in lines {
        let line = line.replace("KEY", &key).replace("/srv/data", &served);
        let line = line.replace("0.0.0.0:7522", "127.0.0.1:0").replace("//host/", &format!("//{address}/"));
        if line.starts_with("sealane serve") {
            let mut child = shell(folder.path(), &user, &format!("exec {line}")).spawn().expect("it starts");
            let mut said = String::new();
            BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut said).expect("a line");
            let listening = said.trim().strip_prefix("listening on ").map(str::to_owned);
            let Some(listening) = listening else {
                let output = child.wait_with_output().expect("it ends");
                panic!("{line}: {said}{}", text(&output.stderr));
            };
            (address, daemon) = (listening, Some(Running(child)));
            continue;
        }
        let output = shell(folder.path(), &user, &line).ends(0);
        if line == "sealane id" {
            key = text(&output.stdout).trim().to_owned();
        }
    }
    assert!(daemon.is_some());
    assert_eq!(fs::read_to_string(at("srv/data/file")).expect("it has arrived"), "text");
    // The operator sees the peers that the daemon accepts, the user sees the known daemons, and either can remove an
    // entry.
    let list = |user: &str, line: &str| {
        let output = shell(folder.path(), user, line).output().expect("it starts");
        (output.status.code(), text(&output.stdout).to_owned() + text(&output.stderr))
    };
    let (code, said) = list("server", "sealane peers");
    assert!(
        code == Some(0) && said.contains("ada@laptop") && said.contains("read,write") && said.contains(&key),
        "{said}"
    );
    let (_, said) = list("laptop", "sealane peers --json");
    assert!(said.contains(&format!("\"daemon\":\"{address}\"")), "{said}");
    assert_eq!(list("laptop", &format!("sealane peers --forget {address}")).0, Some(0));
    assert_eq!(list("server", "sealane peers --remove ada@laptop").0, Some(0));
    let (code, said) = list("laptop", &format!("sealane cp -r --accept-new data sealane://{address}/"));
    assert!(code != Some(0) && said.contains("sealane authorise"), "{said}");
}

#[test]
fn who_cannot_be_let_in_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir_all(folder.path().join("server")).expect("a folder");
    fs::create_dir_all(folder.path().join("programs")).expect("a folder");
    std::os::unix::fs::symlink(path(), folder.path().join("programs/sealane")).expect("a link");
    let run = |line: &str| shell(folder.path(), "server", line).output().expect("it starts");
    let key = text(&run("sealane id").stdout).trim().to_owned();
    let other = text(&run("sealane id --identity other").stdout).trim().to_owned();
    for (line, status) in [
        ("sealane authorise nonsense ada".to_owned(), 2),
        (format!("sealane authorise {key} ada readd"), 2),
        (format!("sealane authorise {key} 'ada b rights=read,write #'"), 2),
        (format!("sealane authorise {key} ada owner"), 2),
        (
            format!("sealane authorise {key} ada read,delete --path /srv/a --limit-rate 10M --connections 2"),
            0,
        ),
        (format!("sealane authorise {key} eve"), 2),
        (format!("sealane authorise {other} ada"), 2),
        (format!("sealane authorise {key} 'ada laptop'"), 2),
    ] {
        let output = run(&line);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{line}: {said}");
        let is_name = line.ends_with(" eve") || line.ends_with("laptop'") || line.contains(&other);
        assert!(!is_name || said.contains("name"), "{line}: {said}");
    }
    let listed = |rights: &str| {
        let said = run("sealane peers");
        let said = text(&said.stdout).to_owned();
        assert!(said.contains(rights) && !said.contains("eve"), "{said}");
    };
    listed("read,delete path=/srv/a rate=10000000 connections=2");
    // The rights change; restrictions of the peer remain unless they are given again.
    let again = run(&format!("sealane authorise {key} ada read,write --connections 3"));
    assert!(again.status.success() && text(&again.stderr).contains("changed in"), "{}", text(&again.stderr));
    listed("read,write path=/srv/a rate=10000000 connections=3");
}
