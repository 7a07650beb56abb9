//! `sealane engine` as people use it: the engine in one process, its clients in others.

mod program;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use program::{Ends, Running, eventually, say, secret, set_mode, wait_for};

struct Engine {
    child: Running,
    folder: tempfile::TempDir,
}

impl Engine {
    fn start(folder: tempfile::TempDir, more: &[&str]) -> Self {
        let socket = folder.path().join("socket");
        let _ = fs::remove_file(&socket);
        let errors = fs::File::create(folder.path().join("errors")).expect("a file");
        let mut command = serve(folder.path());
        Self::of(folder, command.args(KEYS).args(more).stderr(errors))
    }

    /// Starts an engine by this command, and waits for its answer.
    fn of(folder: tempfile::TempDir, command: &mut Command) -> Self {
        let engine = Self { folder, child: Running(command.spawn().expect("it starts")) };
        wait_for("the engine's answer", || engine.engine(&["status"]).status.success());
        engine
    }

    fn engine(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sealane"));
        command.arg("engine").args(arguments).env("SEALANE_ENGINE", self.folder.path().join("socket"));
        command.current_dir(self.folder.path()).output().expect("it runs")
    }

    #[track_caller]
    fn good(&self, arguments: &[&str]) -> String {
        let output = self.engine(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Ends the process with SIGTERM, and returns its folder.
    fn end(mut self) -> tempfile::TempDir {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, rustix::process::Signal::TERM).expect("it runs");
        assert!(self.child.wait().expect("it ends").success());
        self.folder
    }
}

/// Returns the command `sealane engine serve` for a folder.
fn serve(folder: &Path) -> Command {
    let passphrase = folder.join("passphrase");
    if !passphrase.exists() {
        secret(&passphrase, "a passphrase\n");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_sealane"));
    command.args(["engine", "serve", "--passphrase-file", "passphrase", "--audit", "audit", "--allow-swap"]);
    command.current_dir(folder).env("SEALANE_ENGINE", "socket");
    command
}

/// The folder of the keys.
const KEYS: [&str; 2] = ["--keys", "keys"];

#[test]
fn an_engine_keeps_keys_and_says_what_it_does() {
    let engine = Engine::start(tempfile::tempdir().expect("a folder"), &["--workers", "2"]);
    let kinds =
        [("web", "rsa-2048"), ("mail", "p256"), ("ed", "ed25519"), ("x", "x25519"), ("pq", "ml-dsa-65")];
    for (name, kind) in kinds {
        assert!(engine.good(&["keys", "generate", name, kind]).starts_with("-----BEGIN PUBLIC KEY-----\n"));
    }
    assert_eq!(
        engine.good(&["keys", "list"]),
        "ed ed25519\nmail p256\npq ml-dsa-65\nweb rsa-2048\nx x25519\n"
    );
    assert!(engine.good(&["check"]).lines().all(|line| line.ends_with(" works")));
    let reference = engine.good(&["keys", "reference", "web"]);
    assert!(reference.starts_with("-----BEGIN SEALANE ENGINE KEY-----\n"), "{reference}");
    engine.engine(&["keys", "generate", "web", "p256"]).ends(2);
    let public = engine.good(&["keys", "public", "web"]);
    let engine = Engine::start(engine.end(), &[]);
    assert_eq!(engine.good(&["keys", "public", "web"]), public);
    assert!(engine.good(&["check", "--json"]).lines().all(|line| line.contains("\"works\":true")));
    let status: serde_json::Value = serde_json::from_str(&engine.good(&["status", "--json"])).expect("JSON");
    assert_eq!((&status["keys"], &status["done"]["sign-pkcs1"]), (&5.into(), &1.into()));
    assert!(engine.good(&["stats"]).contains("sealane_engine_done_total{operation=\"sign-pkcs1\"} 1\n"));
    engine.good(&["keys", "remove", "mail"]);
    let folder = engine.end();
    assert!(!folder.path().join("keys/mail.key").exists());
    let audit = fs::read_to_string(folder.path().join("audit")).expect("an audit log");
    let events: Vec<serde_json::Value> =
        audit.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let count = |name: &str| events.iter().filter(|event| event["event"] == name).count();
    assert_eq!((count("started"), count("generated"), count("removed"), count("ended")), (2, 5, 1, 2));
    assert!(!audit.contains("a passphrase"));
}

#[test]
fn an_engine_that_cannot_start_says_whose_turn_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let (passphrase, policy) = (folder.path().join("passphrase"), folder.path().join("policy"));
    let refused = |arguments: &[&str], code: i32, words: &str| {
        let keys = if arguments.contains(&"--keys") { &[][..] } else { &KEYS };
        let output = serve(folder.path()).args(keys).args(arguments).output().expect("it runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(code) && errors.contains(words), "{errors}");
    };
    fs::write(&policy, "[[allow]]\nusers = ['root']\nuses = ['read']\n").expect("a file");
    refused(&["--policy", "policy"], 2, "unknown variant `read`");
    let plain = folder.path().join("plain");
    fs::write(&plain, "precious").expect("a file");
    refused(&["--socket", "plain"], 5, "plain is not a socket, and stays");
    assert_eq!(fs::read_to_string(&plain).expect("it stays"), "precious");
    let open = folder.path().join("open");
    fs::create_dir(&open).expect("a folder");
    for mode in [0o777, 0o1777, 0o770] {
        set_mode(&open, mode);
        refused(&["--keys", "open"], 5, "others than its owner");
    }
    fs::write(&passphrase, "\n").expect("a file");
    refused(&[], 2, "an empty passphrase protects nothing");
    set_mode(&passphrase, 0o644);
    refused(&[], 2, "can be read by others");
    fs::remove_file(&passphrase).expect("a file");
    let engine = Engine::start(folder, &[]);
    let second = serve(engine.folder.path()).args(KEYS).output().expect("it runs");
    assert!(String::from_utf8_lossy(&second.stderr).contains("another engine has the keys"));
    let folder = engine.end();
    fs::write(folder.path().join("passphrase"), "another\n").expect("a file");
    let wrong = serve(folder.path()).args(KEYS).ends(2);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("the passphrase does not open the keys"));
    let nobody = Command::new(env!("CARGO_BIN_EXE_sealane"))
        .args(["engine", "status", "--socket"])
        .arg(folder.path().join("nothing"))
        .ends(3);
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("is `sealane engine serve` running?"));
}

/// A name that is planted in the place of a file that is about to be written leads nowhere.
#[test]
fn an_engine_writes_through_no_link() {
    let folder = tempfile::tempdir().expect("a folder");
    let (keys, victim) = (folder.path().join("keys"), folder.path().join("victim"));
    fs::create_dir(&keys).expect("a folder");
    fs::write(&victim, "precious").expect("a file");
    std::os::unix::fs::symlink(&victim, keys.join(".web.key.new")).expect("a link");
    let engine = Engine::start(folder, &[]);
    engine.good(&["keys", "generate", "web", "p256"]);
    assert_eq!(fs::read_to_string(&victim).expect("it stays"), "precious");
    assert_eq!(engine.good(&["keys", "list"]), "web p256\n");
}

#[test]
fn a_hang_up_has_policy_and_log_read_and_opened_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = rustix::process::geteuid().as_raw();
    let admin = format!("[[allow]]\nusers = [{own}, 'a-user-who-was-deleted']\nadmin = true\n");
    let uses = "keys = ['web*']\nuses = ['sign']\n";
    fs::write(folder.path().join("policy"), &admin).expect("a file");
    let engine = Engine::start(folder, &["--policy", "policy", "--audit-uses"]);
    let path = |name: &str| engine.folder.path().join(name);
    let told = || fs::read_to_string(path("errors")).expect("what it says");
    assert!(told().contains("which this host does not have"), "a warning: {}", told());
    engine.good(&["keys", "generate", "web", "p256"]);
    assert_eq!(engine.engine(&["keys", "test", "web"]).status.code(), Some(2));
    let comes = |what: &str, is_so: &dyn Fn() -> bool| assert!(eventually(is_so), "{what}: {}", told());
    let hang_up = || {
        let process = rustix::process::Pid::from_child(&engine.child);
        rustix::process::kill_process(process, rustix::process::Signal::HUP).expect("it runs");
    };
    fs::rename(path("audit"), path("audit.1")).expect("it is renamed, as by logrotate");
    fs::write(path("policy"), format!("{admin}{uses}")).expect("a file");
    hang_up();
    comes("the new policy", &|| engine.engine(&["keys", "test", "web"]).status.success());
    comes("the new log", &|| {
        fs::read_to_string(path("audit")).is_ok_and(|log| log.contains("\"event\":\"used\",\"user\":"))
    });
    assert!(fs::read_to_string(path("audit.1")).expect("the old log").contains("\"generated\""));
    fs::write(path("policy"), "nonsense").expect("a file");
    hang_up();
    comes("a complaint", &|| told().contains("the policy stays the old one"));
    assert_eq!(engine.good(&["keys", "test", "web"]), "web p256 works\n");
    let reference = engine.engine(&["keys", "reference", "web"]);
    let own = Command::new("id").arg("-un").output().expect("it runs").stdout;
    let own = String::from_utf8(own).expect("UTF-8");
    let uri = sealane_client::Uri::of_pem(&String::from_utf8_lossy(&reference.stdout)).expect("a reference");
    assert!(uri.socket.is_some_and(|path| path.is_absolute()));
    let errors = String::from_utf8_lossy(&reference.stderr).into_owned();
    assert!(errors.contains(&format!("web may be used by {own}")), "{errors}");
    let pem = engine.folder.path().join("next.pem");
    let made = Command::new("openssl").args(["genpkey", "-algorithm", "ED25519", "-out"]).arg(&pem).output();
    if made.is_ok_and(|output| output.status.success()) {
        // The key was tried twice since it may be used.
        let counted = engine.good(&["stats", "--keys"]);
        for line in [
            "# TYPE sealane_engine_key_uses_total counter\nsealane_engine_key_uses_total{key=\"web\"} 2\n",
            "sealane_engine_done_total{operation=\"sign-ecdsa\"} 2\n",
            "sealane_engine_refused_total{reason=\"not-allowed\"} 0\n",
            "# TYPE sealane_engine_audit_lines_left_out_total counter\nsealane_engine_audit_lines_left_out_total 0\n",
        ] {
            assert!(counted.contains(line), "{counted}");
        }
        assert!(!engine.good(&["stats"]).contains("key_uses"));
        assert_eq!(engine.engine(&["keys", "import", "web", "next.pem"]).status.code(), Some(2));
        engine.good(&["keys", "import", "web", "next.pem", "--replace"]);
        assert_eq!(engine.good(&["keys", "list"]), "web ed25519\n");
        assert!(engine.good(&["status"]).contains("the key that web has replaced is open 0 times"));
        engine.good(&["keys", "remove", "web", "--previous"]);
        let openssl = |arguments: &[&str]| {
            let mut command = Command::new("openssl");
            let status = command.args(arguments).current_dir(engine.folder.path()).status();
            assert!(status.expect("it runs").success(), "{arguments:?}");
        };
        for name in ["next", "other"] {
            let (key, out) = (format!("{name}.pem"), format!("{name}.crt"));
            openssl(&["genpkey", "-algorithm", "ED25519", "-out", "other.pem"]);
            openssl(&["req", "-x509", "-key", &key, "-subj", "/CN=localhost", "-out", &out]);
        }
        assert_eq!(engine.engine(&["keys", "certificate", "web"]).status.code(), Some(2));
        assert_eq!(engine.engine(&["keys", "certificate", "web", "other.crt"]).status.code(), Some(2));
        engine.good(&["keys", "certificate", "web", "next.crt"]);
        let kept = fs::read_to_string(path("next.crt")).expect("a certificate");
        assert_eq!(engine.good(&["keys", "certificate", "web"]), kept);
        engine.good(&["keys", "import", "both", "other.pem", "--certificate", "other.crt"]);
        assert!(path("keys/both.crt").exists());
        engine.good(&["keys", "remove", "both"]);
        engine.good(&["keys", "certificate", "web", "--remove"]);
        assert!(!path("keys/both.crt").exists() && !path("keys/web.crt").exists());
        let counted = engine.good(&["stats", "--keys"]);
        assert!(counted.contains("sealane_engine_key_uses_total{key=\"web\"} 0\n"), "{counted}");
    }
}

#[test]
fn a_policy_is_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("policy");
    fs::write(
        &path,
        "[[allow]]\nusers = ['root', 'nobody-has-this-name']\nkeys = ['web-*']\nuses = ['sign']\n",
    )
    .expect("a file");
    let mut check = Command::new(env!("CARGO_BIN_EXE_sealane"));
    let output = check.args(["engine", "check", "--policy"]).arg(&path).output().expect("it runs");
    let (told, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && told.contains("user root: may sign with web-*"), "{told}{errors}");
    assert!(errors.contains("\"nobody-has-this-name\", which this host does not have"), "{errors}");
}

/// A client in another namespace of processes, such as a container's or the host's, has no number of a process here.
#[test]
fn a_client_in_another_namespace_of_processes_is_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let may = Command::new("unshare").args(["--pid", "--fork", "true"]).status();
    if !may.is_ok_and(|status| status.success()) {
        return say("no namespaces of processes for this user");
    }
    let mut inside = Command::new("unshare");
    inside.args(["--pid", "--fork", "--kill-child"]).arg(env!("CARGO_BIN_EXE_sealane"));
    let outside = serve(folder.path());
    inside.args(outside.get_args()).args(KEYS).current_dir(folder.path()).env("SEALANE_ENGINE", "socket");
    let errors = fs::File::create(folder.path().join("errors")).expect("a file");
    let engine = Engine::of(folder, inside.stderr(errors));
    engine.good(&["keys", "generate", "web", "p256"]);
    assert_eq!(engine.good(&["keys", "test", "web"]), "web p256 works\n");
    let audit = fs::read_to_string(engine.folder.path().join("audit")).expect("an audit log");
    assert!(audit.contains("\"process\":0,"), "{audit}");
}
