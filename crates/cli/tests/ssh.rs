//! Copies over a real sshd, in both directions, with the data beside ssh and inside it.

mod program;
#[path = "../../../testing/sshd.rs"]
mod sshd;

use program::terminal::Terminal;
use program::{Ends, or_skip, pattern, sealane, skip, text, write, write_script};
use sshd::PrivateSshd;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

const LARGE_BYTES: usize = 5_000_011;

struct Scene {
    sshd: PrivateSshd,
    folder: tempfile::TempDir,
}

impl Scene {
    fn set() -> Option<Self> {
        let sshd = or_skip(PrivateSshd::start())?;
        let folder = tempfile::tempdir().expect("a folder");
        let tree = folder.path().join("tree");
        fs::create_dir_all(tree.join("sub")).expect("folders");
        write(&tree.join("small"), b"small");
        write(&tree.join("sub/large"), &pattern(LARGE_BYTES));
        Some(Self { sshd, folder })
    }

    fn place(&self, name: &str) -> String {
        format!("{}:{}", PrivateSshd::HOST, self.folder.path().join(name).display())
    }

    fn local(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn copy(&self, program: &str, options: &[&str], from: &str, to: &str) -> Output {
        let mut command = sealane(&["cp", "-r", "--json", "--timeout", "20", "--remote-program", program]);
        command.arg("-F").arg(self.sshd.client_config());
        command.args(options).args([from, to]).output().expect("the program starts")
    }
}

fn same(one: &Path, other: &Path) {
    for name in ["small", "sub/large"] {
        let read = |path: &Path| fs::read(path.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(read(one) == read(other), "{name} differs");
    }
}

#[test]
fn trees_go_both_ways_over_ssh() {
    let Some(scene) = Scene::set() else { return };
    let program = env!("CARGO_BIN_EXE_sealane");
    let at = |name: &str| scene.folder.path().join(name);
    for (number, options) in
        [&[][..], &["--through-ssh"], &["--through-ssh", "--streams", "2"]].into_iter().enumerate()
    {
        let (sent, fetched) = (format!("sent{number}"), format!("fetched{number}"));
        scene.copy(program, options, &scene.local("tree"), &scene.place(&sent)).ends(0);
        same(&at("tree"), &at(&sent));
        scene.copy(program, options, &scene.place("tree"), &scene.local(&fetched)).ends(0);
        same(&at("tree"), &at(&fetched));
    }
}

#[test]
fn a_far_shell_that_greets_is_named() {
    let Some(scene) = Scene::set() else { return };
    let greeting = scene.folder.path().join("greets");
    let script =
        format!("#!/bin/sh\necho 'Welcome, and good luck'\nexec {} \"$@\"\n", env!("CARGO_BIN_EXE_sealane"));
    write_script(&greeting, &script);
    let output = scene.copy(&scene.local("greets"), &[], &scene.local("tree"), &scene.place("never")).ends(3);
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(said.contains("Welcome, and good luck") && said.contains(".bashrc"), "{said}");
    assert!(!said.contains("exceeds the limit"), "{said}");
}

#[test]
fn patterns_and_lists_are_met_over_ssh() {
    let Some(scene) = Scene::set() else { return };
    let program = env!("CARGO_BIN_EXE_sealane");
    let at = |name: &str| scene.folder.path().join(name);
    for name in ["a.log", "b.log", "$(touch made).log", "c.txt", "x y.log"] {
        write(&at("tree").join(name), name.as_bytes());
    }
    scene.copy(program, &[], &scene.place("tree/*.log"), &scene.local("logs")).ends(0);
    let mut names: Vec<_> = fs::read_dir(at("logs"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["$(touch made).log", "a.log", "b.log", "x y.log"]);
    assert!(!at("made").exists() && !at("tree/made").exists(), "a shell has seen a name");
    write(&at("list"), b"sub/large\nc.txt\n");
    let options = ["--files-from", &scene.local("list")];
    scene.copy(program, &options, &scene.place("tree"), &scene.local("listed")).ends(0);
    assert!(at("listed/c.txt").exists() && !at("listed/small").exists());
    assert_eq!(fs::read(at("listed/sub/large")).ok(), fs::read(at("tree/sub/large")).ok());
}

#[test]
fn from_one_far_end_to_another_through_here() {
    let Some(scene) = Scene::set() else { return };
    let program = env!("CARGO_BIN_EXE_sealane");
    let at = |name: &str| scene.folder.path().join(name);
    for number in 0..40 {
        write(&at("tree").join(format!("few{number}")), &pattern(number * 1000));
    }
    for (number, options) in
        [&[][..], &["-3", "--through-ssh", "--streams", "2"], &["--level", "clear"]].into_iter().enumerate()
    {
        let target = format!("between{number}");
        let output = scene.copy(program, options, &scene.place("tree"), &scene.place(&target)).ends(0);
        same(&at("tree"), &at(&target));
        let done = program::events(&output.stdout).pop().expect("an event");
        assert_eq!((done["event"].as_str(), done["files"].as_u64()), (Some("done"), Some(44)), "{done}");
    }
    // The same command finds everything in place; a mirror deletes; a dry run reports.
    write(&at("between0/extra"), b"extra");
    let mirror = |more: &[&str]| {
        let options = [&["-T", "--delete"][..], more].concat();
        let output = scene.copy(program, &options, &scene.place("tree"), &scene.place("between0")).ends(0);
        program::events(&output.stdout).pop().expect("an event")
    };
    let dry = mirror(&["-n"]);
    assert!(at("between0/extra").exists() && dry["deleted"] == 1, "{dry}");
    let done = mirror(&[]);
    assert!(!at("between0/extra").exists() && done["deleted"] == 1 && done["skipped"] == 43, "{done}");
    // A failure at one end is reported by this one, and the other is not left waiting.
    for (from, to) in [("no-such", "x"), ("tree", "tree/small/x")] {
        let output = scene.copy(program, &[], &scene.place(from), &scene.place(to));
        assert_ne!(output.status.code(), Some(0));
        let said = text(&output.stdout);
        assert!(said.contains("no-such") || said.contains("small"), "{said}");
    }
    scene.copy(program, &["--digest"], &scene.place("tree"), &scene.place("x")).ends(2);
}

/// Returns the processes whose command line contains all of these words.
fn running(words: &[&str]) -> Vec<i32> {
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_it = |number: &i32| {
        let line = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        words.iter().all(|word| line.contains(word)) && !line.contains("ssh ") && !line.starts_with("sh ")
    };
    numbers.filter(is_it).collect()
}

#[test]
fn streams_between_far_ends_are_opened_again() {
    let Some(scene) = Scene::set() else { return };
    // The program gets a name of its own, by which its processes are found.
    let program = scene.folder.path().join("sealane-relayed");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sealane"), &program).expect("a link");
    let program = program.to_str().expect("UTF-8");
    let mut command = sealane(&["cp", "-r", "--json", "--timeout", "20", "--remote-program", program]);
    command.args(["--through-ssh", "--streams", "2", "--limit-rate", "1500K", "-F"]);
    command.arg(scene.sshd.client_config()).args([scene.place("tree"), scene.place("cut")]);
    let child = command.spawn().expect("the program starts");
    let give_up = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let mut killed = 0;
    while killed < 3 && std::time::Instant::now() < give_up {
        let partly = fs::metadata(scene.folder.path().join("cut")).is_ok();
        if let (true, Some(&number)) = (partly, running(&[program, "--relay"]).first()) {
            let process = rustix::process::Pid::from_raw(number).expect("a process");
            killed +=
                u32::from(rustix::process::kill_process(process, rustix::process::Signal::KILL).is_ok());
        }
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
    let output = child.wait_with_output().expect("it ends").ends(0);
    assert!(killed > 0, "nothing was cut");
    let events = program::events(&output.stdout);
    assert!(events.iter().any(|event| event["event"] == "stream_reopened"), "{events:?}");
    same(&scene.folder.path().join("tree"), &scene.folder.path().join("cut"));
}

/// Makes an ssh to the test's own server, with this folder as the home.
fn ssh_at_home(scene: &Scene, home: &Path) -> std::path::PathBuf {
    let wrapper = scene.folder.path().join("ssh-at-home");
    let script = format!(
        "#!/bin/bash\nfor word; do case $word in -G | -N) exec ssh -F {config} \"$@\";; esac; done\nexec ssh -F {config} \"${{@:1:$#-1}}\" \
         \"HOME={home}; export HOME; cd; PATH=/usr/bin:/bin; ${{@: -1}}\"\n",
        config = scene.sshd.client_config().display(),
        home = home.display(),
    );
    write_script(&wrapper, &script);
    wrapper
}

#[test]
fn a_far_end_without_the_program_is_given_it() {
    let Some(scene) = Scene::set() else { return };
    let at = |name: &str| scene.folder.path().join(name);
    let home = at("home");
    fs::create_dir(&home).expect("a folder");
    let ssh = ssh_at_home(&scene, &home);
    let command = |options: &[&str], to: &str| {
        let mut command = sealane(&["cp", "-r", "--timeout", "20"]);
        command
            .args(options)
            .arg(at("tree"))
            .arg(format!("{}:{to}", PrivateSshd::HOST))
            .env("SEALANE_SSH", &ssh);
        command
    };
    // Without the option, the message names it.
    command(&[], "one").complains(3, &["--install-far-end"]);
    let installed = home.join(".local/bin/sealane");
    // With the option, the program asks. If there is nobody to ask, nothing happens. (`setsid` leaves no terminal.)
    let mut alone = std::process::Command::new("setsid");
    let asked = command(&["--install-far-end"], "one");
    alone.arg("--wait").arg(asked.get_program()).args(asked.get_args());
    alone.env("HOME", "/nonexistent").env("SEALANE_SSH", &ssh).stdin(std::process::Stdio::null());
    let output = alone.ends(2);
    assert!(text(&output.stderr).contains("--yes") && !installed.exists(), "{}", text(&output.stderr));
    // A bare Enter means no.
    for (keys, answered) in [(&b"\r"[..], false), (b"y\r", true)] {
        let mut terminal = Terminal::start(&command(&["--install-far-end"], "asked"), 80);
        terminal.wait_for("[y/N] ");
        assert!(terminal.written().contains("~/.local/bin/sealane on"), "{:?}", terminal.written());
        terminal.press(keys);
        let (code, written) = terminal.end();
        assert_eq!(code, Some(if answered { 0 } else { 2 }), "{written}");
        assert_eq!(installed.exists(), answered, "{written}");
    }
    same(&at("tree"), &home.join("asked"));
    // It is found without a message.
    command(&[], "found").ends(0);
    same(&at("tree"), &home.join("found"));
    let bytes = |path: &Path| fs::read(path).expect("a file");
    assert!(bytes(&installed) == bytes(Path::new(&program::path())), "it is this program");
    assert_eq!(fs::metadata(&installed).expect("a file").permissions().mode() & 0o777, 0o755);
    // An installed program is not copied again.
    let before = fs::metadata(&installed).and_then(|found| found.modified()).expect("a time");
    command(&["--install-far-end"], "again").complains(0, &["already"]);
    assert_eq!(before, fs::metadata(&installed).and_then(|found| found.modified()).expect("a time"));
    // A program of another version, or one that does not run, is replaced.
    write(&installed, b"#!/bin/sh\necho sealane 0.0.0\n");
    command(&["--install-far-end", "--yes"], "newer").ends(0);
    same(&at("tree"), &home.join("newer"));
    // A program that is carried for the host's processor goes instead of this one.
    let carried = at("far-ends");
    fs::create_dir(&carried).expect("a folder");
    let for_here = carried.join(std::env::consts::ARCH);
    write(&for_here, &[bytes(Path::new(&program::path())), b"carried".to_vec()].concat());
    fs::remove_file(&installed).expect("a file");
    let mut given = command(&["--install-far-end", "--yes"], "carried");
    given.env("SEALANE_FAR_ENDS", &carried).ends(0);
    assert!(bytes(&installed) == bytes(&for_here), "it is the one that is carried");
    same(&at("tree"), &home.join("carried"));
    // A full or read-only folder is reported, and nothing is left there.
    fs::remove_dir_all(home.join(".local")).expect("a folder");
    write(&home.join(".local"), b"in the way");
    command(&["--install-far-end", "-y"], "never").complains(5, &["could not be written"]);
}

/// Presses the keys that complete a line in a shell. Returns the text on the screen after that.
fn completed(shell: &[&str], setup: &str, ssh: &Path, line: &str, wanted: &str) -> String {
    let mut command = std::process::Command::new(shell[0]);
    command.args(&shell[1..]).env("SEALANE_SSH", ssh).env("PS1", "> ").env("HOME", "/nonexistent");
    let path = format!(
        "{}:{}",
        Path::new(env!("CARGO_BIN_EXE_sealane")).parent().expect("a folder").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    command.env("PATH", path).env("INPUTRC", "/dev/null");
    let mut terminal = Terminal::start(&command, 200);
    terminal.press(format!("{setup}; echo rea''dy\r").as_bytes());
    terminal.wait_for("ready");
    terminal.press(format!("{line}\t").as_bytes());
    program::eventually(|| terminal.written().contains(wanted));
    let written = terminal.written();
    terminal.press(b"\x15\rexit\r");
    written
}

#[test]
fn paths_at_a_far_end_are_completed() {
    let Some(scene) = Scene::set() else { return };
    let home = scene.folder.path().join("home");
    fs::create_dir_all(home.join("docu/inner")).expect("a folder");
    fs::create_dir_all(home.join("with space")).expect("a folder");
    write(&home.join("docu/inner/unmistakable.txt"), b"text");
    let ssh = ssh_at_home(&scene, &home);
    let host = PrivateSshd::HOST;
    let bash = &["bash", "--norc", "--noprofile", "-i"][..];
    let zsh = &["zsh", "-f", "-i"][..];
    let bash_setup = "bind 'set enable-bracketed-paste off'; source <(sealane completions bash)";
    let zsh_setup = "unsetopt zle_bracketed_paste; autoload -Uz compinit && compinit -u -D; source <(sealane completions zsh)";
    for (shell, setup) in [(bash, bash_setup), (zsh, zsh_setup)] {
        if std::process::Command::new(shell[0]).arg("--version").output().is_err() {
            skip(format!("there is no {}", shell[0]));
            continue;
        }
        for (typed, wanted) in [
            (format!("{host}:doc"), format!("{host}:docu/")),
            (format!("{host}:docu/inner/unm"), format!("{host}:docu/inner/unmistakable.txt")),
            (format!("{host}:~/docu/in"), format!("{host}:~/docu/inner/")),
            (format!("{host}:{}/do", home.display()), format!("{host}:{}/docu/", home.display())),
            (format!("{host}:with"), format!("{host}:with\\ space/")),
        ] {
            let line = format!("sealane cp -r {typed}");
            let written = completed(shell, setup, &ssh, &line, &wanted);
            assert!(written.contains(&wanted), "{}: {typed}: {written:?}", shell[0]);
        }
        // Names on this host are completed as usual.
        let written = completed(shell, setup, &ssh, "sealane cp --remove-sou", "--remove-source-files");
        assert!(written.contains("--remove-source-files"), "{}: {written:?}", shell[0]);
    }
}

/// A stand-in for ssh, whose hosts are this one and listen at 127.0.0.2, while their name stands for another address.
struct Firewalled {
    folder: tempfile::TempDir,
}

impl Firewalled {
    fn set(address: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let ssh = folder.path().join("ssh");
        let script = format!(
            "#!/bin/sh\ncase \" $* \" in *' -G '*) echo 'hostname {address}'; exit;; *' -N '*) exit 1;; esac\n\
             echo login >>{}\nfor line; do :; done\n\
             export SSH_CONNECTION='127.0.0.1 1 127.0.0.2 22'\nexec sh -c \"$line\"\n",
            folder.path().join("logins").display()
        );
        write_script(&ssh, &script);
        let tree = folder.path().join("tree");
        fs::create_dir_all(tree.join("sub")).expect("folders");
        write(&tree.join("small"), b"small");
        write(&tree.join("sub/large"), &pattern(LARGE_BYTES));
        Self { folder }
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn place(&self, name: &str) -> String {
        format!("far:{}", self.at(name).display())
    }

    /// Copies, and returns the events.
    fn copy(&self, options: &[&str], from: &str, to: &str) -> Vec<serde_json::Value> {
        let _ = fs::remove_file(self.at("logins"));
        let mut command = sealane(&["cp", "-r", "--json", "--timeout", "20", "--remote-program"]);
        command.arg(env!("CARGO_BIN_EXE_sealane")).env("SEALANE_SSH", self.at("ssh"));
        let output = command.args(options).args([from, to]).output().expect("the program starts");
        let said = format!("{} {}", text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{options:?} {from} {to}: {said}");
        program::events(&output.stdout)
    }

    fn logins(&self) -> usize {
        fs::read_to_string(self.at("logins")).expect("logins").lines().count()
    }
}

/// Returns the notes that the data goes inside ssh, after a check that the level is the one asked for.
fn notes(events: &[serde_json::Value], level: &str) -> usize {
    let agreed = events.iter().find(|event| event["event"] == "agreed").expect("an agreement");
    assert_eq!(agreed["level"], level);
    events.iter().filter(|event| event["event"] == "through_ssh").count()
}

#[test]
fn where_no_port_answers_the_data_goes_inside_ssh_at_the_same_level() {
    // Nobody listens there: the answer is a refusal.
    let scene = Firewalled::set("127.0.0.3");
    let tree = scene.at("tree").display().to_string();
    let local = |name: &str| scene.at(name).display().to_string();
    for (number, options) in
        [&["--level", "private"][..], &["--level", "clear", "--streams", "4"]].iter().enumerate()
    {
        let (sent, fetched) = (format!("sent{number}"), format!("fetched{number}"));
        let events = scene.copy(options, &tree, &scene.place(&sent));
        same(&scene.at("tree"), &scene.at(&sent));
        // One login carries everything, however many streams were asked for.
        assert_eq!((notes(&events, options[1]), scene.logins()), (1, 1), "{events:?}");
        let events = scene.copy(options, &scene.place("tree"), &local(&fetched));
        same(&scene.at("tree"), &scene.at(&fetched));
        assert_eq!((notes(&events, options[1]), scene.logins()), (1, 1), "{events:?}");
    }
    // A list needs no stream.
    for (from, to) in [(&tree, &scene.place("listed")), (&scene.place("tree"), &local("listed"))] {
        let events = scene.copy(&["-n"], from, to);
        assert_eq!((notes(&events, "private"), scene.logins()), (0, 1), "{events:?}");
        assert!(events.iter().any(|event| event["event"] == "would_send"), "{events:?}");
    }
    // Between two far ends.
    let events = scene.copy(&["--streams", "2"], &scene.place("tree"), &scene.place("moved"));
    same(&scene.at("tree"), &scene.at("moved"));
    assert_eq!(notes(&events, "private"), 2, "{events:?}");
    // A name that nobody can resolve, as behind a jump host.
    let scene = Firewalled::set("no-such-host.invalid");
    let events = scene.copy(&[], &scene.at("tree").display().to_string(), &scene.place("sent"));
    same(&scene.at("tree"), &scene.at("sent"));
    assert_eq!(notes(&events, "private"), 1, "{events:?}");
}

#[test]
fn where_a_port_is_silent_the_data_goes_inside_ssh() {
    use rustix::net::{AddressFamily, SocketType, bind, connect, listen, socket};
    use std::net::SocketAddr;
    // A listener with a full queue answers no further connection. Its port is free at the far end's own address.
    let silent = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    let address: SocketAddr = "127.0.0.3:0".parse().expect("an address");
    bind(&silent, &address).expect("an address");
    listen(&silent, 0).expect("a listener");
    let name = rustix::net::getsockname(&silent).expect("a name");
    let address = SocketAddr::try_from(name).expect("an address of the internet");
    let fillers: Vec<_> = (0..3)
        .map(|_| {
            let filler = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
            rustix::io::ioctl_fionbio(&filler, true).expect("a mode");
            // It is under way, or in the queue.
            let _ = connect(&filler, &address);
            filler
        })
        .collect();
    let scene = Firewalled::set("127.0.0.3");
    let ports = format!("{0}-{0}", address.port());
    // It lasts longer than the patience with the port.
    let options = ["--data-ports", &ports, "--limit-rate", "1M"];
    let events = scene.copy(&options, &scene.at("tree").display().to_string(), &scene.place("sent"));
    same(&scene.at("tree"), &scene.at("sent"));
    assert_eq!((notes(&events, "private"), scene.logins()), (1, 1), "{events:?}");
    drop(fillers);
}

#[test]
fn what_a_far_shell_writes_controls_no_terminal() {
    let scene = Firewalled::set("127.0.0.2");
    let script = fs::read_to_string(scene.at("ssh")).expect("a script");
    let writes = script.replace("exec sh", "printf '\\033[2Jwelcome\\n' >&2\nexec sh");
    assert_ne!(script, writes);
    write(&scene.at("ssh"), writes.as_bytes());
    let tree = scene.at("tree").display().to_string();
    for (from, to) in [
        (scene.place("tree"), scene.place("moved")),
        (tree, scene.place("sent")),
        (scene.place("tree"), scene.at("fetched").display().to_string()),
    ] {
        for options in [&[][..], &["--far-end", "sealane"], &["--through-ssh"]] {
            let mut command = sealane(&["cp", "-r", "--timeout", "20", "--remote-program"]);
            command.arg(env!("CARGO_BIN_EXE_sealane")).env("SEALANE_SSH", scene.at("ssh"));
            let output = command.args(options).args([&from, &to]).ends(0);
            let said = text(&output.stderr);
            assert!(
                said.contains("welcome") && !said.contains('\u{1b}'),
                "{options:?} {from} {to}: {said:?}"
            );
        }
    }
}

#[test]
fn a_link_that_leads_nowhere_keeps_no_other_match_away() {
    let scene = Firewalled::set("127.0.0.2");
    for name in ["a.log", "b.log"] {
        write(&scene.at("tree").join(name), name.as_bytes());
    }
    std::os::unix::fs::symlink("gone", scene.at("tree/0.log")).expect("a link");
    std::os::unix::fs::symlink("a.log", scene.at("tree/c.log")).expect("a link");
    let mut command = sealane(&["cp", "--json", "--timeout", "20", "--remote-program"]);
    command.arg(env!("CARGO_BIN_EXE_sealane")).env("SEALANE_SSH", scene.at("ssh"));
    let output = command.arg(scene.place("tree/*.log")).arg(scene.at("logs")).ends(1);
    let failed = program::events(&output.stdout).into_iter().filter(|event| event["event"] == "entry_failed");
    let failed: Vec<_> = failed.map(|event| event["reason"].to_string()).collect();
    assert!(failed.len() == 1 && failed[0].contains("0.log"), "{failed:?}");
    for (name, content) in [("a.log", "a.log"), ("b.log", "b.log"), ("c.log", "a.log")] {
        assert_eq!(fs::read(scene.at("logs").join(name)).expect(name), content.as_bytes());
    }
}
