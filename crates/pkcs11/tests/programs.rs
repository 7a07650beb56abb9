//! Unchanged programs use keys of the service by the module: OpenSC's pkcs11-tool, GnuTLS's p11tool, p11-kit, and OpenSSH
//! against a private sshd. OpenSSL, without the module, checks the results.

#[path = "../../service/tests/common/mod.rs"]
mod common;
#[path = "programs/made.rs"]
mod made;
#[path = "../../../testing/running.rs"]
mod running;
#[path = "../../../testing/skip.rs"]
mod skip;
#[path = "../../../testing/wait.rs"]
mod wait;

use common::{Engine, KINDS};
use running::Running;
use sealane_asymmetric::PrivateKey;
use sealane_client::{KeyKind, key};
use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The time that a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(30);

/// The user and the group that own nothing.
const NOBODY: u32 = 65534;

/// Returns the path of the tested library.
fn library() -> PathBuf {
    common::library("libsealane_pkcs11.so")
}

/// Returns whether programs are here; reports a skipped test if not.
fn have(programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| Command::new(program).arg("--version").output().is_err());
    if let Some(missing) = missing {
        skip::skip(format_args!("no {missing}"));
    }
    missing.is_none()
}

/// A service with a key of each kind, its public halves as files, and a message with its digest.
struct World {
    folder: tempfile::TempDir,
    engine: Engine,
}

impl World {
    fn new(policy: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engine = Engine::start(folder.path(), policy);
        let keys = engine.give_keys();
        let world = Self { folder, engine };
        for (name, key) in keys {
            fs::write(world.path(&format!("{name}.der")), key.public()).unwrap();
        }
        fs::write(world.path("message"), "a message").unwrap();
        good(
            Command::new("openssl")
                .args(["dgst", "-sha256", "-binary", "-out"])
                .args(["digest", "message"].map(|name| world.path(name))),
        );
        world
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).into_os_string().into_string().unwrap()
    }

    /// Returns a command that finds the service.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env("SEALANE_ENGINE", &self.engine.socket)
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs pkcs11-tool with the module, which must succeed.
    #[track_caller]
    fn tool(&self, arguments: &[&str]) -> String {
        let output = good(self.command("pkcs11-tool").arg("--module").arg(library()).args(arguments));
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    /// Returns the identifier of a key, by which pkcs11-tool chooses one.
    fn id(&self, name: &str) -> String {
        let objects = self.tool(&["--list-objects"]);
        let label = format!("  label:      {name}\n  ID:         ");
        let (_, rest) = objects.split_once(&label).unwrap_or_else(|| panic!("{objects}"));
        rest.lines().next().unwrap().trim().to_owned()
    }

    /// Returns the number of jobs that the service has done.
    fn done(&self) -> u64 {
        self.engine.client().status().unwrap().done.values().sum()
    }
}

#[track_caller]
fn good(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}{}", String::from_utf8_lossy(&output.stdout));
    output
}

#[test]
fn opensc_lists_keys_and_reads_public_halves() {
    if !have(&["pkcs11-tool", "openssl"]) {
        return;
    }
    let world = World::new(None);
    let slots = world.tool(&["--list-slots"]);
    assert!(slots.contains("token label        : Sealane engine"), "{slots}");
    let mechanisms = world.tool(&["--list-mechanisms"]);
    for name in ["RSA-PKCS-PSS", "SHA256-RSA-PKCS", "RSA-PKCS-OAEP", "ECDSA-SHA256", "EDDSA"] {
        assert!(mechanisms.contains(name), "{name}: {mechanisms}");
    }
    let objects = world.tool(&["--list-objects"]);
    for (name, _) in KINDS {
        assert_eq!(objects.matches(&format!("label:      {name}\n")).count(), 2, "{objects}");
    }
    // Keys may have been imported.
    assert!(!objects.contains("never extractable") && objects.contains("sensitive"), "{objects}");
    for name in ["rsa", "ec"] {
        let out = world.path("read");
        world.tool(&["--read-object", "--type", "pubkey", "--label", name, "--output-file", &out]);
        assert_eq!(fs::read(&out).unwrap(), fs::read(world.path(&format!("{name}.der"))).unwrap(), "{name}");
    }
    // A PIN is not needed, and does no harm.
    world.tool(&["--login", "--pin", "1234", "--list-objects"]);
    let random = world.path("random");
    world.tool(&["--generate-random", "40", "--output-file", &random]);
    assert_eq!(fs::read(&random).unwrap().len(), 40);
    world.tool(&["--test-fork"]);
    let tested = world.tool(&["--test", "--login", "--pin", "1234"]);
    assert!(tested.contains("No errors\n"), "{tested}");
}

/// A signature by a mechanism: the key, pkcs11-tool's options, the file that it signs, and OpenSSL's options to verify.
struct Way {
    key: &'static str,
    signing: &'static [&'static str],
    input: &'static str,
    verifying: &'static [&'static str],
}

const PSS: &[&str] = &[
    "-in",
    "digest",
    "-pkeyopt",
    "digest:sha256",
    "-pkeyopt",
    "rsa_padding_mode:pss",
    "-pkeyopt",
    "rsa_pss_saltlen:32",
];

const WAYS: [Way; 9] = [
    Way { key: "rsa", signing: &["RSA-PKCS"], input: "message", verifying: &["-in", "message"] },
    Way {
        key: "rsa",
        signing: &["SHA256-RSA-PKCS"],
        input: "message",
        verifying: &["-in", "digest", "-pkeyopt", "digest:sha256"],
    },
    Way {
        key: "rsa",
        signing: &["SHA384-RSA-PKCS"],
        input: "message",
        verifying: &["-in", "message", "-rawin", "-digest", "sha384"],
    },
    Way {
        key: "rsa",
        signing: &["SHA512-RSA-PKCS"],
        input: "message",
        verifying: &["-in", "message", "-rawin", "-digest", "sha512"],
    },
    Way {
        key: "rsa",
        signing: &["RSA-PKCS-PSS", "--hash-algorithm", "SHA256", "--mgf", "MGF1-SHA256", "--salt-len", "32"],
        input: "digest",
        verifying: PSS,
    },
    Way {
        key: "rsa",
        signing: &["SHA256-RSA-PKCS-PSS", "--mgf", "MGF1-SHA256", "--salt-len", "32"],
        input: "message",
        verifying: PSS,
    },
    Way { key: "ec", signing: &["ECDSA"], input: "digest", verifying: &["-in", "digest"] },
    Way { key: "ec", signing: &["ECDSA-SHA256"], input: "message", verifying: &["-in", "digest"] },
    Way { key: "ed", signing: &["EDDSA"], input: "message", verifying: &["-in", "message", "-rawin"] },
];

#[test]
fn openssl_verifies_what_opensc_signs_by_each_mechanism() {
    if !have(&["pkcs11-tool", "openssl"]) {
        return;
    }
    let world = World::new(None);
    for Way { key, signing, input, verifying } in WAYS {
        let before = world.done();
        let format = if key == "ec" { "sequence" } else { "rs" };
        let id = world.id(key);
        let common = ["--input-file", input, "--id", &id, "--signature-format", format];
        let arguments = [&["--mechanism"], signing, &common[..]].concat();
        world.tool(&[&["--sign", "--output-file", "signature"], &arguments[..]].concat());
        assert_eq!(world.done(), before + 1, "{signing:?}: the service has signed");
        let public = format!("{key}.pub");
        let openssl = ["pkeyutl", "-verify", "-pubin", "-inkey", &public, "-sigfile", "signature"];
        good(world.command("openssl").args(openssl).args(verifying));
        // The module verifies in process.
        let told = world.tool(&[&["--verify", "--signature-file", "signature"], &arguments[..]].concat());
        assert!(told.contains("Signature is valid"), "{signing:?}: {told}");
        assert_eq!(world.done(), before + 1);
    }
}

#[test]
fn opensc_decrypts_what_openssl_encrypts() {
    if !have(&["pkcs11-tool", "openssl"]) {
        return;
    }
    let world = World::new(None);
    let oaep_of_openssl = [
        "-pkeyopt",
        "rsa_padding_mode:oaep",
        "-pkeyopt",
        "rsa_oaep_md:sha256",
        "-pkeyopt",
        "rsa_mgf1_md:sha256",
    ];
    let oaep = ["RSA-PKCS-OAEP", "--hash-algorithm", "SHA256", "--mgf", "MGF1-SHA256"];
    let id = world.id("rsa");
    for (theirs, ours) in [(&[][..], &["RSA-PKCS"][..]), (&oaep_of_openssl, &oaep)] {
        let encrypting =
            ["pkeyutl", "-encrypt", "-pubin", "-inkey", "rsa.pub", "-in", "message", "-out", "ciphertext"];
        good(world.command("openssl").args(encrypting).args(theirs));
        let files = ["--decrypt", "--id", &id, "--input-file", "ciphertext", "--output-file", "plaintext"];
        world.tool(&[&files[..], &["--mechanism"], ours].concat());
        assert_eq!(fs::read(world.path("plaintext")).unwrap(), b"a message", "{ours:?}");
    }
}

#[test]
fn gnutls_lists_keys_and_signs() {
    if !have(&["p11tool", "openssl"]) {
        return;
    }
    let world = World::new(None);
    let p11tool = |arguments: &[&str]| {
        let output = good(world.command("p11tool").arg("--provider").arg(library()).args(arguments));
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let tokens = p11tool(&["--list-tokens"]);
    assert!(tokens.contains("token=Sealane%20engine"), "{tokens}");
    let objects = p11tool(&["--list-all", "pkcs11:token=Sealane%20engine"]);
    for (name, _) in KINDS {
        let url = format!("object={name};type=private");
        assert!(objects.contains(&url), "{objects}");
        // p11tool tests a signature of a digest, which Ed25519 has not.
        if name != "ed" {
            let before = world.done();
            let told = p11tool(&["--test-sign", &format!("pkcs11:token=Sealane%20engine;{url}")]);
            assert!(told.contains("ok"), "{name}: {told}");
            assert!(world.done() > before, "{name}: the service has signed");
        }
        let public = p11tool(&["--export-pubkey", &format!("pkcs11:token=Sealane%20engine;{url}")]);
        let expected = fs::read_to_string(world.path(&format!("{name}.pub"))).unwrap();
        assert!(public.contains(expected.trim()), "{name}: {public}");
    }
}

#[test]
fn gnutls_certifies_and_serves_with_keys_of_the_service() {
    if !have(&["certtool", "gnutls-serv", "openssl"]) {
        return;
    }
    let world = World::new(None);
    let template = "cn = localhost\ndns_name = localhost\nexpiration_days = 9\nsigning_key\ntls_www_server\n";
    fs::write(world.path("template"), template).unwrap();
    for (name, _) in KINDS {
        let key = format!("pkcs11:token=Sealane%20engine;object={name};type=private");
        let by_module = |program: &str, arguments: &[&str]| {
            let mut command = world.command(program);
            command.arg("--provider").arg(library()).args(arguments);
            command
        };
        let certifying = ["--generate-self-signed", "--template", "template", "--load-privkey", &key];
        good(&mut by_module("certtool", &[&certifying[..], &["--outfile", "certificate"]].concat()));
        let (_server, port) = serve(&world.path("server.log"), |port, log| {
            let port = port.to_string();
            let serving = ["--http", "--port", &port, "--x509keyfile", &key, "--x509certfile", "certificate"];
            let mut server = by_module("gnutls-serv", &serving);
            server.stdout(Stdio::null()).stderr(log).spawn().unwrap()
        });
        let before = world.done();
        let address = format!("127.0.0.1:{port}");
        let client = ["s_client", "-connect", &address, "-CAfile", "certificate", "-verify_return_error"];
        let output = good(world.command("openssl").args(client));
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(told.contains("Verify return code: 0"), "{name}: {told}");
        assert_eq!(world.done(), before + 1, "{name}: the service has signed");
    }
}

/// p11-kit loads the module by a file that names it, as the package has one. It reads users' files only if the user is
/// not root.
#[test]
fn p11_kit_finds_the_module_by_its_file() {
    if !have(&["p11-kit", "setpriv", "openssl"]) {
        return;
    }
    let is_root = common::user() == 0;
    let user = if is_root { NOBODY } else { common::user() };
    let policy = format!(
        "[[allow]]\nusers = [{}]\nkeys = [\"*\"]\nuses = [\"sign\"]\nadmin = true\n\
         [[allow]]\nusers = [{NOBODY}]\nkeys = [\"ec\"]\nuses = [\"sign\"]\n",
        common::user()
    );
    let world = World::new(Some(&policy));
    let modules = world.folder.path().join("home/.config/pkcs11/modules");
    fs::create_dir_all(&modules).unwrap();
    let module = world.path("module.so");
    fs::copy(library(), &module).unwrap();
    fs::write(modules.join("sealane.module"), format!("module: {module}\n")).unwrap();
    for open in [world.folder.path(), module.as_ref()] {
        fs::set_permissions(open, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let as_user = |arguments: &[&str]| {
        let mut command = world.command(if is_root { "setpriv" } else { "env" });
        if is_root {
            let user = user.to_string();
            command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
        }
        command.args(arguments).env("HOME", world.path("home")).env_remove("XDG_CONFIG_HOME");
        let output = good(&mut command);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let listed = as_user(&["p11-kit", "list-modules"]);
    assert!(listed.contains("sealane: "), "{listed}");
    assert!(listed.contains("token: Sealane engine"), "{listed}");
    if is_root && have(&["p11tool"]) {
        // The policy lets that user see one key.
        let objects = as_user(&["p11tool", "--list-all", "pkcs11:token=Sealane%20engine"]);
        assert!(objects.contains("object=ec;") && !objects.contains("object=rsa;"), "{objects}");
    }
}

/// Starts a server on a free port of the loopback address, and waits until it listens. A server that ends at once is
/// started on another port, because somebody else may have taken the first one. Fails with the words of its log.
fn serve(log: &str, start: impl Fn(u16, File) -> Child) -> (Running, u16) {
    let begun = Instant::now();
    for _ in 0..5 {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut server = Running(start(port, File::create(log).unwrap()));
        while server.try_wait().unwrap().is_none() {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return (server, port);
            }
            let words = || fs::read_to_string(log).unwrap();
            assert!(begun.elapsed() < PATIENCE, "nobody listens on port {port}: {}", words());
            thread::sleep(Duration::from_millis(20));
        }
    }
    panic!("the server ends: {}", fs::read_to_string(log).unwrap());
}

/// Starts an OpenSSH server on a free port of the loopback address, which knows the keys of the file `authorised`.
/// Returns it with its port; `None` if this user cannot start one.
fn private_sshd(world: &World) -> Option<(Running, u16)> {
    let sshd = ["/usr/sbin/sshd", "/usr/bin/sshd"].into_iter().find(|path| fs::metadata(path).is_ok())?;
    if common::user() == 0 {
        // The server refuses to start as root without it.
        fs::create_dir_all("/run/sshd").ok()?;
    }
    let keygen = ["-q", "-t", "ed25519", "-N", "", "-f", "host"];
    good(world.command("ssh-keygen").args(keygen));
    let config = format!(
        "ListenAddress 127.0.0.1\nHostKey \"{}\"\nAuthorizedKeysFile \"{}\"\nPidFile none\n\
         AuthenticationMethods publickey\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
         PermitRootLogin prohibit-password\nPermitUserRC no\nStrictModes no\nUsePAM no\nPrintMotd no\n",
        world.path("host"),
        world.path("authorised")
    );
    fs::write(world.path("sshd_config"), config).unwrap();
    Some(serve(&world.path("sshd.log"), |port, log| {
        let mut command = world.command(sshd);
        command.args(["-D", "-e", "-f", "sshd_config", "-p", &port.to_string()]);
        command.stdout(Stdio::null()).stderr(log).spawn().unwrap()
    }))
}

#[test]
fn ssh_logs_in_with_keys_that_are_in_the_service() {
    if !have(&["ssh", "ssh-keygen", "ssh-agent", "openssl"]) {
        return;
    }
    let world = World::new(None);
    let module = library();
    let printed = good(world.command("ssh-keygen").arg("-D").arg(&module)).stdout;
    let printed = String::from_utf8_lossy(&printed).into_owned();
    let Some((_server, port)) = private_sshd(&world) else {
        return skip::skip("no sshd");
    };
    let host = fs::read_to_string(world.path("host.pub")).unwrap();
    fs::write(world.path("known"), format!("[127.0.0.1]:{port} {host}")).unwrap();
    let ssh = |options: &[&str]| {
        let mut command = world.command("ssh");
        command.args(["-F", "/dev/null", "-T", "-p", &port.to_string()]).args(options);
        let known = format!("UserKnownHostsFile={}", world.path("known"));
        for option in [known.as_str(), "StrictHostKeyChecking=yes", "BatchMode=yes", "IdentityFile=none"] {
            command.args(["-o", option]);
        }
        command.args(["127.0.0.1", "echo arrived"]).output().unwrap()
    };
    let by_module = ["-o", "IdentityAgent=none", "-I", module.to_str().unwrap()];
    let login = |line: &str| {
        fs::write(world.path("authorised"), format!("{line}\n")).unwrap();
        ssh(&by_module)
    };
    for kind in ["ssh-rsa ", "ecdsa-sha2-nistp256 "] {
        let line = printed.lines().find(|line| line.starts_with(kind)).expect("the key is listed");
        let before = world.done();
        let output = login(line);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.stdout, b"arrived\n", "{kind}: {errors}");
        assert!(world.done() > before, "{kind}: the service has signed");
    }
    // The same by an agent, whose helper loads the module.
    let allowed = format!("{}/*", module.canonicalize().unwrap().parent().unwrap().display());
    let mut agent = world.command("ssh-agent");
    agent.args(["-D", "-a", "agent", "-P", &allowed]).stdout(Stdio::null()).stderr(Stdio::null());
    let _agent = Running(agent.spawn().unwrap());
    wait::wait_for("the agent", || fs::metadata(world.path("agent")).is_ok());
    let mut adding = world.command("ssh-add");
    adding.arg("-s").arg(&module).env("SSH_AUTH_SOCK", world.path("agent"));
    // The agent asks for a PIN, for which any text will do.
    good(adding.env("SSH_ASKPASS", "/bin/true").env("SSH_ASKPASS_REQUIRE", "force"));
    let line = printed.lines().find(|line| line.starts_with("ecdsa-")).expect("the key is listed");
    fs::write(world.path("authorised"), format!("{line}\n")).unwrap();
    let before = world.done();
    let agent = format!("IdentityAgent={}", world.path("agent"));
    let output = ssh(&["-o", &agent]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.stdout, b"arrived\n", "by an agent: {errors}");
    assert!(world.done() > before, "by an agent: the service has signed");
    // A server that does not know the service's keys lets nobody in.
    let stranger = PrivateKey::generate(KeyKind::P256).unwrap();
    fs::write(world.path("stranger.pub"), key::pem("PUBLIC KEY", stranger.public())).unwrap();
    let other = good(world.command("ssh-keygen").args(["-i", "-m", "PKCS8", "-f", "stranger.pub"])).stdout;
    let refused = login(String::from_utf8_lossy(&other).trim());
    assert!(!refused.status.success() && refused.stdout.is_empty());
}
