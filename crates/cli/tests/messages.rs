//! Messages about failures: they name the place, the end, and the next step.

mod program;

use program::terminal::Terminal;
use program::{Ends, events, sealane, set_mode, text, write, write_script};
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
        // The program may have ended already.
        let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n");
        std::thread::sleep(std::time::Duration::from_secs(1));
    });
    let mut command = sealane(&["cp", "--accept-new"]);
    command.arg(&source).arg(format!("sealane://{address}/there")).env("HOME", folder.path());
    let output = command.ends(3);
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
    let output = sealane(&["cp"]).arg(&source).arg("/proc").ends(5);
    let said = text(&output.stderr);
    for part in ["sealane: cannot keep a journal in /proc", "--no-resume"] {
        assert!(said.contains(part), "no {part} in {said}");
    }
    assert!(!said.contains("far end"), "both ends are here: {said}");
}

#[test]
fn what_fails_at_a_far_end_is_told_with_its_name_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let into = folder.path().join("into");
    std::fs::create_dir(&into).expect("a folder");
    let ssh = stand_in(folder.path(), "exec sh -c \"$last\"");
    let mut command = sealane(&["cp", "--remote-program"]);
    // The kernel's own file has another size than it reports, so nobody can copy it.
    command.arg(program::path()).arg("there:/proc/version").arg(&into);
    let output = command.env("SEALANE_SSH", &ssh).ends(1);
    let said = text(&output.stderr);
    assert!(said.starts_with("sealane: there: /proc/version: its content has another size"), "{said}");
    assert_eq!(std::fs::read_dir(&into).expect("a folder").count(), 0, "a journal of nothing");
}

/// Makes a stand-in for ssh that runs `does` at the far end, which is on this host; `$last` is the command.
fn stand_in(folder: &std::path::Path, does: &str) -> std::path::PathBuf {
    let ssh = folder.join("ssh");
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = -G ]; then echo 'hostname 127.0.0.1'; exit 0; fi\n\
         case \" $* \" in *' -N '*) exit 1;; esac\nfor last; do :; done\n{does}\n"
    );
    write_script(&ssh, &script);
    ssh
}

#[test]
fn a_far_end_that_is_lost_says_how_to_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("file");
    write(&source, &program::pattern(20_000_000));
    let into = folder.path().join("into");
    std::fs::create_dir(&into).expect("a folder");
    // The far end is killed after data has arrived, and ssh reports that it lost the connection.
    let does = format!(
        "exec 3<&0\nsh -c \"exec $last\" <&3 &\nfar=$!\nuntil ls -A {into} | grep -q part; do sleep 0.05; done\n\
         kill -9 $far\nexit 255",
        into = into.display()
    );
    let ssh = stand_in(folder.path(), &does);
    let mut command = sealane(&["cp", "--limit-rate", "2M", "--timeout", "5", "--remote-program"]);
    command.arg(program::path()).arg(&source).arg(format!("there:{}", into.display()));
    command
        .env("SEALANE_SSH", &ssh)
        .complains(3, &["run the same command again to continue where it stopped"]);
}

#[test]
fn a_journal_in_a_source_is_told_only_while_its_copy_is_under_way() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("tree")).expect("a folder");
    write(&at("tree/file"), b"content");
    let journal = at("tree").join(format!(".sealane-{}.journal", "7".repeat(32)));
    write(&journal, b"of a copy that is over");
    let copy = |to: &str| {
        let mut command = sealane(&["cp", "-r"]);
        let output = command.arg(at("tree")).arg(at(to)).output().expect("the program starts");
        assert!(at(to).join("file").exists(), "{}", text(&output.stderr));
        assert!(!at(to).join(journal.file_name().expect("a name")).exists());
        (output.status.code(), text(&output.stderr).to_owned())
    };
    assert_eq!(copy("one"), (Some(0), String::new()));
    let held = std::fs::File::open(&journal).expect("a file");
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).expect("a lock");
    let (code, said) = copy("two");
    assert_eq!(code, Some(1));
    assert!(said.contains("is the journal of a copy that is under way"), "{said}");
}

#[test]
fn a_target_that_may_not_be_written_advises_nothing_that_fails_as_well() {
    use std::os::unix::process::CommandExt;
    if !rustix::process::geteuid().is_root() {
        return program::skip("only root can be somebody else");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("file");
    write(&source, b"content");
    // Other users have to reach the folder, the source and the program.
    set_mode(folder.path(), 0o755);
    let program = folder.path().join("sealane");
    std::fs::copy(program::path(), &program).expect("a copy");
    set_mode(&program, 0o755);
    let run = |arguments: &[&str], to: &std::path::Path| {
        let mut command = std::process::Command::new(&program);
        command.arg("cp").args(arguments).arg(&source).arg(to).uid(65534).gid(65534);
        command.env("HOME", "/nonexistent").current_dir("/").output().expect("the program starts")
    };
    let closed = folder.path().join("closed");
    std::fs::create_dir(&closed).expect("a folder");
    set_mode(&closed, 0o755);
    let output = run(&[], &closed).ends(5);
    let said = text(&output.stderr);
    assert!(said.contains("cannot write to") && !said.contains("--no-resume"), "{said}");
    // A user without the right to give files away is told so once, at a terminal alone, and everything else is copied.
    let into = folder.path().join("into");
    std::fs::create_dir(&into).expect("a folder");
    std::os::unix::fs::chown(&into, Some(65534), Some(65534)).expect("an owner");
    let output = run(&["-a"], &into).ends(0);
    let said = text(&output.stderr);
    assert!(said.is_empty(), "{said}");
    for count in [1, 0] {
        let mut command = std::process::Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program).args(["cp", "-a"]);
        command.arg(&source).arg(&into).env("HOME", "/nonexistent").env("XDG_STATE_HOME", into.join("state"));
        let (code, written) = Terminal::start(&command, 200).end();
        assert_eq!(code, Some(0), "{written}");
        assert_eq!(written.matches("sealane: warning: owners are not kept").count(), count, "{written}");
    }
    assert_eq!(run(&["-a", "--owner"], &into).status.code(), Some(1));
}

#[test]
fn a_host_that_answers_without_end_is_not_given_the_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("file");
    write(&source, b"content");
    let ssh = stand_in(folder.path(), "exec yes");
    let mut command = sealane(&["cp", "--install-far-end", "--yes"]);
    command.arg(&source).arg("there:into").env("SEALANE_SSH", &ssh);
    command.complains(3, &["ssh to there", "more than 65536 bytes"]);
}

#[test]
fn a_dry_run_says_so_to_programs_and_changes_read_alike_for_everybody() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, target) = (folder.path().join("file"), folder.path().join("copy"));
    write(&source, b"content");
    let run = |options: &[&str]| {
        let mut command = sealane(&["cp"]);
        let output = command.args(options).arg(&source).arg(&target).ends(0);
        output.stdout
    };
    let told = events(&run(&["-n", "--json"]));
    assert_eq!((&told[0]["event"], &told[0]["dry_run"]), (&"start".into(), &true.into()), "{told:?}");
    let done = told.last().expect("an event");
    assert_eq!((&done["event"], &done["dry_run"]), (&"done".into(), &true.into()), "{told:?}");
    let change = told.iter().find(|event| event["event"] == "would_send").expect("a change");
    let itemised = change["itemised"].as_str().expect("text").to_owned();
    let shown = run(&["-nv"]);
    assert_eq!(text(&shown).split(' ').next(), Some(itemised.as_str()), "{}", text(&shown));
    let told = events(&run(&["--json"]));
    assert!([&told[0], &told[told.len() - 1]].iter().all(|event| event["dry_run"] == false), "{told:?}");
}

#[test]
fn what_other_programs_understand_is_refused_with_what_to_write() {
    for (place, said) in [
        ("rsync://host/module/file", "HOST:PATH"),
        ("sftp://host/file", "ssh://HOST/PATH"),
        ("file:///tmp/file", "the path alone"),
        ("host:~other/file", "~NAME"),
    ] {
        sealane(&["cp", place, "."]).complains(2, &[said]);
    }
}

/// The files of a daemon that is a service are in folders of the system, which are others here, as long as the shell lives.
#[test]
fn the_files_of_a_service_are_named_without_their_paths() {
    let key = "sealane1:aaaqeayeaudaocajbifqydiob4ibceqtcqkrmfyydenbwha5dyp5kszg";
    let script = "set -e; mkdir -p /etc/sealane /var/lib/sealane 2>/dev/null
        mount -t tmpfs tmpfs /etc/sealane; mount -t tmpfs tmpfs /var/lib/sealane
        for command in 'authorise --daemon $KEY ada' 'id --daemon'; do
            if eval $PROGRAM $command; then echo 'it was done'; exit 9; fi
        done
        test -z \"$(ls /etc/sealane /var/lib/sealane | grep -v :)\"
        echo '# nobody' >/etc/sealane/authorised-peers; chmod 644 /etc/sealane/authorised-peers
        $PROGRAM id --identity /var/lib/sealane/identity >$HOME/key 2>/dev/null || exit 8
        chown 65534 /var/lib/sealane/identity
        $PROGRAM authorise --daemon $KEY ada read,write 2>&1; $PROGRAM peers --daemon
        cat /etc/sealane/authorised-peers; stat -c %a /etc/sealane/authorised-peers
        $PROGRAM id --daemon | cmp - $HOME/key && echo 'the same key'";
    let mut command = std::process::Command::new("unshare");
    command.args(["-m", "sh", "-c", script]).env("PROGRAM", program::path()).env("KEY", key);
    let folder = tempfile::tempdir().expect("a folder");
    command.env("HOME", folder.path()).env_remove("XDG_CONFIG_HOME");
    let output = command.output().expect("unshare of util-linux starts");
    let (out, said) = (text(&output.stdout), text(&output.stderr));
    if said.contains("Operation not permitted") || said.contains("permission denied") {
        return program::skip("mounts take root");
    }
    assert!(output.status.success(), "{out} {said}");
    assert!(said.contains("no daemon is installed as a service here"), "{said}");
    assert!(said.contains("systemctl start sealane"), "{said}");
    assert!(out.contains("added to /etc/sealane/authorised-peers") && out.contains("the same key"), "{out}");
    assert!(
        out.contains("Authorised peers (/etc/sealane/authorised-peers):") && out.contains("\n644\n"),
        "{out}"
    );
    // Nothing went into the files of the user.
    assert!(!folder.path().join(".config/sealane/authorised-peers").exists());
}
