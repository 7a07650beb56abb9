//! Unchanged programs use keys that they do not have: `openssl`, curl and nginx, as real processes, with the provider
//! beside OpenSSL's own, and with OpenSSL's own provider at the other end. What the provider computes in process is
//! compared with OpenSSL's own, and with OpenSSL's own vectors.

#[path = "openssl/certified.rs"]
mod certified;
#[path = "../../service/tests/common/mod.rs"]
mod common;
#[path = "openssl/killed.rs"]
mod killed;
mod libcrypto;
#[path = "openssl/ml_dsa.rs"]
mod ml_dsa;
#[path = "openssl/newer.rs"]
mod newer;
#[path = "openssl/pss.rs"]
mod pss;
#[path = "../../../testing/running.rs"]
mod running;
#[path = "../../../testing/skip.rs"]
mod skip;
#[path = "openssl/vectors.rs"]
mod vectors;

use common::{Engine, KINDS};
use libcrypto::{Case, LibCrypto, Side};
use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq};
use proptest::test_runner::TestRunner;
use rustix::process::{Pid, Signal};
use sealane_asymmetric::PrivateKey;
use sealane_client::{KeyKind, Uri};
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The time that a program may take to start or to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the path of the tested library.
fn library() -> PathBuf {
    common::library("libsealane_provider.so")
}

/// Returns whether programs are available; reports a skipped test if not.
fn have(programs: &[&str]) -> bool {
    for program in programs {
        let found = Command::new(program).arg(if *program == "openssl" { "version" } else { "-V" }).output();
        if !found.as_ref().is_ok_and(|output| output.status.success()) {
            skip::skip(format_args!("no {program}"));
            return false;
        }
        if *program == "openssl" && !found.is_ok_and(|output| output.stdout.starts_with(b"OpenSSL 3")) {
            skip::skip("no OpenSSL 3");
            return false;
        }
    }
    true
}

/// A service with a key of each kind, and files that refer to them.
struct World {
    folder: tempfile::TempDir,
    engine: Engine,
    keys: Vec<(&'static str, PrivateKey)>,
    /// The folder of another OpenSSL, with which programs run.
    libraries: Option<&'static str>,
}

impl World {
    fn new() -> Self {
        Self::of(None)
    }

    /// Returns a world of this machine's OpenSSL, and one of each newer that is here.
    fn all() -> impl Iterator<Item = Self> {
        std::iter::once(None).chain(newer::folders().into_iter().map(Some)).map(Self::of)
    }

    fn of(libraries: Option<&'static str>) -> Self {
        let (folder, engine) = Engine::fresh();
        let keys = engine.give_keys();
        for (name, _) in &keys {
            let uri = Uri { name: (*name).to_owned(), socket: Some(engine.socket.clone()) };
            fs::write(folder.path().join(format!("{name}.key")), uri.to_pem()).unwrap();
        }
        let config = format!(
            "openssl_conf = all\n[all]\nproviders = providers\n[providers]\ndefault = their\nsealane = ours\n\
             [their]\nactivate = 1\n[ours]\nmodule = {}\nactivate = 1\n[req]\ndistinguished_name = name\n[name]\n",
            library().display()
        );
        fs::write(folder.path().join("openssl.cnf"), &config).unwrap();
        let preferred = config.replace("[all]\n", "[all]\nalg_section = preferred\n")
            + "[preferred]\ndefault_properties = ?provider=sealane\n";
        fs::write(folder.path().join("preferred.cnf"), preferred).unwrap();
        Self { folder, engine, keys, libraries }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).into_os_string().into_string().unwrap()
    }

    fn uri(&self, name: &str) -> String {
        format!("sealane:{name}?socket={}", self.engine.socket.display())
    }

    /// Returns a command that runs a program without the provider.
    fn plain(&self, program: &str) -> Command {
        match self.libraries {
            None => Command::new(program),
            Some(folder) => newer::with_libraries(folder, program),
        }
    }

    /// Returns a command that runs a program with the provider.
    fn command(&self, program: &str) -> Command {
        let mut command = self.plain(program);
        command
            .env("OPENSSL_CONF", self.path("openssl.cnf"))
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs `openssl` with the provider, which must succeed.
    #[track_caller]
    fn openssl(&self, arguments: &[&str]) -> Output {
        good(self.command("openssl").args(arguments))
    }

    /// Returns the path of a certificate that a key signs for itself, made by `openssl req`.
    fn certificate(&self, name: &str) -> String {
        let path = self.path(&format!("{name}.crt"));
        if !Path::new(&path).exists() {
            let subject = "/CN=localhost";
            let key = self.uri(name);
            let names = "subjectAltName=DNS:localhost";
            let request =
                ["req", "-x509", "-new", "-key", &key, "-subj", subject, "-addext", names, "-out", &path];
            self.openssl(&request);
        }
        path
    }

    /// Returns a configuration that prefers the provider, and a new file for its counters.
    fn counting(&self) -> (String, String) {
        let (path, counters) = (self.path("counting.cnf"), self.path("counters"));
        let _ = fs::remove_file(&counters);
        let config = fs::read_to_string(self.path("preferred.cnf")).unwrap();
        fs::write(&path, config.replace("[ours]\n", &format!("[ours]\ncounters = {counters}\n"))).unwrap();
        (path, counters)
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
    let status = output.status;
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(status.success(), "{command:?}: {status}: {errors}{told}");
    output
}

/// A process that ends when the value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // SIGTERM is used instead of SIGKILL, so that nginx also ends its workers.
        let _ = rustix::process::kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn wait_for(port: u16) {
    let start = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(start.elapsed() < PATIENCE, "nobody listens on port {port}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns how many times the writable memory of a process contains these bytes: a key could only be there.
fn occurrences(process: u32, needle: &[u8]) -> usize {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    let mut memory = File::open(format!("/proc/{process}/mem")).unwrap();
    let mut count = 0;
    for line in maps.lines().filter(|line| !line.contains("[v")) {
        let Some((range, rest)) = line.split_once(' ') else { continue };
        let Some((from, to)) = range.split_once('-').filter(|_| rest.starts_with("rw")) else { continue };
        let (from, to) = (u64::from_str_radix(from, 16).unwrap(), u64::from_str_radix(to, 16).unwrap());
        let mut bytes = Vec::new();
        memory.seek(SeekFrom::Start(from)).unwrap();
        // A page beyond the end of its file cannot be read.
        let _ = (&mut memory).take(to - from).read_to_end(&mut bytes);
        // Most pages contain only zeros.
        let pages = bytes.chunks(4096).enumerate().filter(|(_, page)| page.iter().any(|byte| *byte != 0));
        for (index, _) in pages {
            let from = index * 4096;
            let until = (from + 4096 + needle.len() - 1).min(bytes.len());
            count += bytes[from..until].windows(needle.len()).filter(|window| *window == needle).count();
        }
    }
    count
}

/// Returns pieces of a private key in the forms that programs use: most significant byte first, or last.
fn secrets(key: &PrivateKey) -> Vec<Vec<u8>> {
    let der = key.to_pkcs8().unwrap();
    // The piece is from the middle of RSA's primes, or of the scalar, by its place in the structure.
    let from = match key.kind() {
        KeyKind::Rsa { .. } => der.len() - 700,
        KeyKind::P256 => 40,
        _ => der.len() - 30,
    };
    let piece = der[from..from + 24].to_vec();
    let reversed = piece.iter().rev().copied().collect();
    vec![piece, reversed]
}

/// Asserts that the search finds the public key, and no secret.
fn has_no_secret(process: u32, certificate: &str, key: &PrivateKey) {
    let public = &key.public()[key.public().len() - 24..];
    assert!(fs::metadata(certificate).is_ok());
    assert!(occurrences(process, public) > 0, "the search finds nothing");
    for secret in secrets(key) {
        assert_eq!(occurrences(process, &secret), 0, "the private key is in the memory of process {process}");
    }
}

#[test]
fn the_search_finds_a_key_that_is_in_memory() {
    let key = PrivateKey::generate(KeyKind::P256).unwrap();
    let held = key.to_pkcs8().unwrap();
    assert!(occurrences(std::process::id(), &secrets(&key)[0]) > 0);
    drop(held);
}

#[test]
fn openssl_signs_decrypts_and_agrees_with_keys_by_reference() {
    if have(&["openssl"]) {
        World::all().for_each(|world| signs_decrypts_and_agrees(&world));
    }
}

/// Every version's results are checked by this machine's.
fn signs_decrypts_and_agrees(world: &World) {
    let (message, signature) = (world.path("message"), world.path("signature"));
    fs::write(&message, "a message").unwrap();
    for (name, _) in KINDS {
        let public = world.path(&format!("{name}.pub"));
        let printed = world.openssl(&["pkey", "-in", &world.uri(name), "-pubout"]);
        assert_eq!(printed.stdout, fs::read(&public).unwrap(), "{name}");
        let certificate = world.certificate(name);
        good(Command::new("openssl").args(["verify", "-CAfile", &certificate, &certificate]));
        let shown = world.openssl(&["x509", "-in", &certificate, "-noout", "-pubkey"]);
        assert_eq!(shown.stdout, fs::read(&public).unwrap(), "{name}");
        let before = world.done();
        for key in [world.uri(name), world.path(&format!("{name}.key"))] {
            let raw: &[&str] = if name == "ed" { &["-rawin"] } else { &["-rawin", "-digest", "sha256"] };
            let signing = ["pkeyutl", "-sign", "-inkey", &key, "-in", &message, "-out", &signature];
            world.openssl(&[&signing, raw].concat());
            let verifying =
                ["pkeyutl", "-verify", "-pubin", "-inkey", &public, "-in", &message, "-sigfile", &signature];
            good(Command::new("openssl").args([&verifying, raw].concat()));
        }
        assert_eq!(world.done(), before + 2, "the service has signed");
    }
    let public = world.path("rsa.pub");
    for padding in [
        &["-pkeyopt", "rsa_padding_mode:pkcs1"][..],
        &["-pkeyopt", "rsa_padding_mode:oaep", "-pkeyopt", "rsa_oaep_md:sha256"],
    ] {
        let ciphertext = world.path("ciphertext");
        let encrypting =
            ["pkeyutl", "-encrypt", "-pubin", "-inkey", &public, "-in", &message, "-out", &ciphertext];
        good(Command::new("openssl").args([&encrypting, padding].concat()));
        let decrypting = ["pkeyutl", "-decrypt", "-inkey", &world.uri("rsa"), "-in", &ciphertext];
        assert_eq!(world.openssl(&[&decrypting, padding].concat()).stdout, b"a message");
    }
    let peer = world.path("peer.key");
    let curve = "ec_paramgen_curve:P-256";
    good(Command::new("openssl").args(["genpkey", "-algorithm", "EC", "-pkeyopt", curve, "-out", &peer]));
    let peer_public = world.path("peer.pub");
    good(Command::new("openssl").args(["pkey", "-in", &peer, "-pubout", "-out", &peer_public]));
    let theirs = good(Command::new("openssl").args([
        "pkeyutl",
        "-derive",
        "-inkey",
        &peer,
        "-peerkey",
        &world.path("ec.pub"),
    ]));
    let ours = world.openssl(&["pkeyutl", "-derive", "-inkey", &world.uri("ec"), "-peerkey", &peer_public]);
    assert_eq!(ours.stdout, theirs.stdout);
    assert_eq!(ours.stdout.len(), 32);
}

#[test]
fn what_is_wrong_is_said_in_openssls_words() {
    if !have(&["openssl"]) {
        return;
    }
    let mut world = World::new();
    let missing =
        world.command("openssl").args(["pkey", "-in", &world.uri("none"), "-noout"]).output().unwrap();
    assert!(!missing.status.success());
    let errors = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(errors.contains("the engine has no such key"), "{errors}");
    // A private half is never exported.
    let exported = world.command("openssl").args(["pkey", "-in", &world.uri("rsa")]).output().unwrap();
    assert!(!exported.status.success() && !String::from_utf8_lossy(&exported.stdout).contains("PRIVATE"));
    // A reference without a socket means that of the environment.
    let named = |key: &str, socket: &Path| {
        let mut command = world.command("openssl");
        command.env("SEALANE_ENGINE", socket).env("SEALANE_ENGINE_DEADLINE_MS", "200");
        command.args(["pkey", "-in", key, "-noout"]).output().unwrap()
    };
    let found = named("sealane:rsa", &world.engine.socket);
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    // A service that accepts and says nothing.
    let hangs = world.folder.path().join("hangs");
    let _listener = sealane_service::service::bind_at(&hangs).unwrap();
    let late = named("sealane:rsa", &hangs);
    let errors = String::from_utf8_lossy(&late.stderr).into_owned();
    assert!(!late.status.success() && errors.contains("the engine did not answer in time"), "{errors}");
    world.engine.stop();
    let gone = world.command("openssl").args(["pkey", "-in", &world.uri("rsa"), "-noout"]).output().unwrap();
    let errors = String::from_utf8_lossy(&gone.stderr).into_owned();
    assert!(errors.contains("cannot reach the engine"), "{errors}");
}

#[test]
fn a_tls_server_and_its_client_have_no_key_in_their_memory() {
    if have(&["openssl", "curl"]) {
        World::all().for_each(|world| serves_without_keys_in_memory(&world));
    }
}

fn serves_without_keys_in_memory(world: &World) {
    for (name, key) in &world.keys {
        let certificate = world.certificate(name);
        let port = free_port();
        let mut server = world.command("openssl");
        let reference = world.path(&format!("{name}.key"));
        let accept = format!("127.0.0.1:{port}");
        server.args(["s_server", "-accept", &accept, "-cert", &certificate, "-key", &reference, "-www"]);
        server.args(["-verify", "1", "-CAfile", &certificate, "-quiet"]);
        let server = Running(server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        wait_for(port);
        for version in ["-tls1_2", "-tls1_3"] {
            let before = world.done();
            let mut client = Command::new("openssl");
            client.args([
                "s_client",
                "-connect",
                &accept,
                version,
                "-CAfile",
                &certificate,
                "-verify_return_error",
            ]);
            let output = good(client.args(["-servername", "localhost"]).stdin(Stdio::null()));
            assert!(
                String::from_utf8_lossy(&output.stdout).contains("Verify return code: 0"),
                "{name} {version}"
            );
            assert_eq!(world.done(), before + 1, "{name} {version}: the service has signed");
        }
        // curl uses the same certificate, by its reference, because the server requests one.
        if *name != "ed" {
            let before = world.done();
            let url = format!("https://localhost:{port}/");
            let mut curl = world.command("curl");
            curl.args(["-sS", "--cacert", &certificate, "--cert", &certificate, "--key", &reference, &url]);
            let page = good(curl.env("no_proxy", "*"));
            assert!(String::from_utf8_lossy(&page.stdout).contains("s_server"), "{name}");
            assert_eq!(world.done(), before + 2, "{name}: the service has signed for both");
        }
        has_no_secret(server.0.id(), &certificate, key);
    }
}

#[test]
fn a_server_that_runs_handshakes_as_jobs_goes_on_meanwhile() {
    if !have(&["openssl"]) {
        return;
    }
    let world = World::new();
    let certificate = world.certificate("rsa");
    let port = free_port();
    let accept = format!("127.0.0.1:{port}");
    let reference = world.path("rsa.key");
    let mut server = world.command("openssl");
    server.args([
        "s_server",
        "-async",
        "-accept",
        &accept,
        "-cert",
        &certificate,
        "-key",
        &reference,
        "-www",
        "-quiet",
    ]);
    let _server = Running(server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    wait_for(port);
    let before = world.done();
    for version in ["-tls1_2", "-tls1_3"] {
        let mut client = Command::new("openssl");
        client.args([
            "s_client",
            "-connect",
            &accept,
            version,
            "-CAfile",
            &certificate,
            "-verify_return_error",
        ]);
        let output = good(client.stdin(Stdio::null()));
        assert!(String::from_utf8_lossy(&output.stdout).contains("Verify return code: 0"), "{version}");
    }
    assert_eq!(world.done(), before + 2);
    // These are its connection for keys, and the one that its jobs share.
    assert_eq!(world.engine.client().status().unwrap().connections, 3);
}

/// Starts nginx with two workers, a key by its reference, and its certificate.
fn nginx(world: &World, port: u16, name: &str) -> Running {
    let user = if common::user() == 0 { "user root;" } else { "" };
    let config = format!(
        "daemon off;\n{user}\nworker_processes 2;\npid nginx.pid;\nerror_log nginx.log;\nevents {{}}\nhttp {{\n\
         access_log off;\nclient_body_temp_path body;\nproxy_temp_path proxy;\nfastcgi_temp_path fastcgi;\n\
         uwsgi_temp_path uwsgi;\nscgi_temp_path scgi;\nserver {{\nlisten 127.0.0.1:{port} ssl;\nssl_protocols TLSv1.2 TLSv1.3;\nssl_certificate {name}.crt;\n\
         ssl_certificate_key {name}.key;\nlocation / {{ return 200 served; }}\n}}\n}}\n"
    );
    fs::write(world.path("nginx.conf"), config).unwrap();
    let mut nginx = world.command("/usr/sbin/nginx");
    nginx.args(["-p", &world.path(""), "-c", &world.path("nginx.conf"), "-e", &world.path("nginx.log")]);
    Running(nginx.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

#[test]
fn nginx_serves_without_the_key_and_through_a_restart_of_the_service() {
    if !have(&["openssl", "curl"]) || !Path::new("/usr/sbin/nginx").exists() {
        if !Path::new("/usr/sbin/nginx").exists() {
            skip::skip("no nginx");
        }
        return;
    }
    let mut world = World::new();
    let (port, certificate) = (free_port(), world.certificate("rsa"));
    let nginx = nginx(&world, port, "rsa");
    wait_for(port);
    let fetch = || {
        let mut curl = Command::new("curl");
        let url = format!("https://localhost:{port}/");
        curl.args(["-sS", "--max-time", "20", "--cacert", &certificate, &url])
            .env("no_proxy", "*")
            .output()
            .unwrap()
    };
    let before = world.done();
    for _ in 0..10 {
        let page = fetch();
        assert_eq!(page.stdout, b"served", "{}", String::from_utf8_lossy(&page.stderr));
    }
    assert_eq!(world.done(), before + 10, "the service has signed");
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", nginx.0.id())).unwrap();
    let workers: Vec<u32> = children.split_whitespace().map(|number| number.parse().unwrap()).collect();
    assert_eq!(workers.len(), 2);
    for process in workers.iter().chain([&nginx.0.id()]) {
        has_no_secret(*process, &certificate, &world.keys[0].1);
    }
    world.engine.stop();
    assert!(!fetch().status.success(), "a handshake without a key");
    world.engine.start_again();
    for _ in 0..4 {
        let page = fetch();
        assert_eq!(page.stdout, b"served", "{}", String::from_utf8_lossy(&page.stderr));
    }
}

#[test]
fn keys_of_the_program_itself_work_where_the_provider_is_preferred() {
    if !have(&["openssl"]) {
        return;
    }
    let world = World::new();
    let run = |arguments: &[&str]| {
        let config = world.path("preferred.cnf");
        good(world.command("openssl").env("OPENSSL_CONF", config).args(arguments))
    };
    let plain = |arguments: &[&str]| good(Command::new("openssl").args(arguments));
    let (message, signature) = (world.path("message"), world.path("signature"));
    File::create(&message).unwrap().write_all(b"a message").unwrap();
    let before = world.done();
    for (name, generate) in [
        ("rsa", &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"][..]),
        ("ec", &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]),
        ("ed", &["-algorithm", "ED25519"]),
    ] {
        let (ours, theirs) = (world.path(&format!("{name}.ours")), world.path(&format!("{name}.theirs")));
        run(&[&["genpkey", "-out", &ours], generate].concat());
        plain(&[&["genpkey", "-out", &theirs], generate].concat());
        for key in [&ours, &theirs] {
            let raw: &[&str] = if name == "ed" { &["-rawin"] } else { &["-rawin", "-digest", "sha256"] };
            let options: &[&[&str]] = match name {
                "rsa" => &[&[], &["-pkeyopt", "rsa_padding_mode:pss", "-pkeyopt", "rsa_pss_saltlen:digest"]],
                _ => &[&[]],
            };
            for option in options {
                let signing = ["pkeyutl", "-sign", "-inkey", key, "-in", &message, "-out", &signature];
                let verifying =
                    ["pkeyutl", "-verify", "-inkey", key, "-in", &message, "-sigfile", &signature];
                // Each side verifies the other's signatures.
                run(&[&signing, raw, option].concat());
                plain(&[&verifying, raw, option].concat());
                plain(&[&signing, raw, option].concat());
                run(&[&verifying, raw, option].concat());
            }
        }
        assert_eq!(
            run(&["pkey", "-in", &theirs, "-pubout"]).stdout,
            plain(&["pkey", "-in", &theirs, "-pubout"]).stdout
        );
    }
    assert_eq!(world.done(), before, "the service has nothing to do with these");
}

/// The offered ciphers: name, length of the key, length of the vector, whether it authenticates.
const CIPHERS: [(&str, usize, usize, bool); 10] = [
    ("AES-128-GCM", 16, 12, true),
    ("AES-192-GCM", 24, 12, true),
    ("AES-256-GCM", 32, 12, true),
    ("AES-128-CBC", 16, 16, false),
    ("AES-192-CBC", 24, 16, false),
    ("AES-256-CBC", 32, 16, false),
    ("AES-128-CTR", 16, 16, false),
    ("AES-192-CTR", 24, 16, false),
    ("AES-256-CTR", 32, 16, false),
    ("ChaCha20-Poly1305", 32, 12, true),
];

fn libcrypto() -> Option<LibCrypto> {
    let found = LibCrypto::load(&library());
    if found.is_none() {
        skip::skip("no OpenSSL 3");
    }
    found
}

#[test]
fn ciphers_do_what_openssls_own_do() {
    let Some(libcrypto) = libcrypto() else { return };
    let bytes = |most| proptest::collection::vec(any::<u8>(), 0..most);
    let secrets = proptest::collection::vec(any::<u8>(), 32 + 128);
    let shape = (0..CIPHERS.len(), 1..=128usize, any::<[bool; 4]>());
    let cuts = proptest::collection::vec(0..70usize, 0..5);
    let input = (shape, secrets, bytes(100), bytes(300), cuts);
    let config = ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() };
    TestRunner::new(config)
        .run(&input, |((cipher, iv_bytes, [in_place, pads, in_steps, usual]), secrets, data, text, cuts)| {
            let (name, key_bytes, usual_bytes, authenticates) = CIPHERS[cipher];
            let is_gcm = name.ends_with("GCM");
            let iv_bytes = if is_gcm && !usual { iv_bytes } else { usual_bytes };
            let case = Case {
                name,
                encrypts: true,
                key: &secrets[..key_bytes],
                iv: &secrets[32..32 + iv_bytes],
                data: authenticates.then_some(&data[..]),
                tag: &[],
                text: &text,
                cuts: &cuts,
                in_place,
                pads,
                in_steps,
            };
            let ours = libcrypto.cipher(Side::Ours, &case);
            prop_assert_eq!(&ours, &libcrypto.cipher(Side::Theirs, &case));
            let Some(sealed) = ours else {
                prop_assert!(name.ends_with("CBC") && !pads && text.len() % 16 != 0);
                return Ok(());
            };
            let back = Case { encrypts: false, tag: &sealed.tag, text: &sealed.text, ..case };
            let opened = libcrypto.cipher(Side::Ours, &back);
            prop_assert_eq!(&opened, &libcrypto.cipher(Side::Theirs, &back));
            prop_assert_eq!(&opened.expect("it opens").text, &text);
            if authenticates {
                let mut changed = sealed.tag.clone();
                changed[usize::from(secrets[0]) % 16] ^= 1;
                let forged = Case { tag: &changed, ..back };
                prop_assert!(libcrypto.cipher(Side::Ours, &forged).is_none());
            }
            Ok(())
        })
        .unwrap();
}

/// Runs a client of TLS that sends a line; returns the line that comes back, and its messages.
fn converse(mut client: Command) -> (String, String) {
    let client = client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut client = client.spawn().unwrap();
    let mut input = client.stdin.take().unwrap();
    // A handshake that fails shows in the answer.
    let _ = input.write_all(b"a message\n");
    let (mut answer, mut errors) = (String::new(), String::new());
    BufReader::new(client.stdout.take().unwrap()).read_line(&mut answer).unwrap();
    drop(input);
    client.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    client.wait().unwrap();
    (answer.trim_end().to_owned(), errors)
}

/// Starts a server that turns lines around, for one connection, and returns it once it listens.
fn turning_server(mut command: Command) -> Child {
    command.args(["-rev", "-naccept", "1"]);
    let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("ACCEPT")), "the server listens");
    thread::spawn(move || lines.for_each(drop));
    server
}

/// A suite of TLS, the cipher in it, and options of both ends.
struct Suite {
    key: &'static str,
    options: &'static [&'static str],
    cipher: &'static str,
}

/// Without encryption before authentication (`-no_etm`), OpenSSL has ciphers of its own for SHA-1 and SHA-256.
const SUITES: [Suite; 10] = [
    Suite { key: "ec", options: &["-ciphersuites", "TLS_AES_128_GCM_SHA256"], cipher: "AES-128-GCM" },
    Suite { key: "rsa", options: &["-ciphersuites", "TLS_AES_256_GCM_SHA384"], cipher: "AES-256-GCM" },
    Suite {
        key: "ed",
        options: &["-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256"],
        cipher: "ChaCha20-Poly1305",
    },
    Suite {
        key: "ec",
        options: &["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"],
        cipher: "AES-128-GCM",
    },
    Suite {
        key: "rsa",
        options: &["-tls1_2", "-cipher", "ECDHE-RSA-AES256-GCM-SHA384"],
        cipher: "AES-256-GCM",
    },
    Suite {
        key: "rsa",
        options: &["-tls1_2", "-cipher", "ECDHE-RSA-CHACHA20-POLY1305"],
        cipher: "ChaCha20-Poly1305",
    },
    Suite { key: "rsa", options: &["-tls1_2", "-cipher", "ECDHE-RSA-AES128-SHA"], cipher: "AES-128-CBC" },
    Suite { key: "rsa", options: &["-tls1_2", "-cipher", "ECDHE-RSA-AES128-SHA256"], cipher: "AES-128-CBC" },
    Suite { key: "ec", options: &["-tls1_2", "-cipher", "ECDHE-ECDSA-AES256-SHA384"], cipher: "AES-256-CBC" },
    Suite {
        key: "rsa",
        options: &["-tls1_2", "-no_etm", "-cipher", "ECDHE-RSA-AES256-SHA384"],
        cipher: "AES-256-CBC",
    },
];

#[test]
fn tls_works_with_each_suite_where_the_provider_is_preferred() {
    if !have(&["openssl"]) {
        return;
    }
    let world = World::new();
    for suite in &SUITES {
        let certificate = world.certificate(suite.key);
        // TLS 1.2 takes a certificate's curve only if its group is offered.
        let group = if suite.key == "ec" { "P-256" } else { "X25519" };
        for ours_serves in [true, false] {
            let (counting, counters) = world.counting();
            let port = free_port();
            let accept = format!("127.0.0.1:{port}");
            let mut server = world.command("openssl");
            let mut client = Command::new("openssl");
            (if ours_serves { &mut server } else { &mut client }).env("OPENSSL_CONF", &counting);
            let reference = world.path(&format!("{}.key", suite.key));
            server.args(["s_server", "-accept", &accept, "-cert", &certificate, "-key", &reference]);
            let mut server = turning_server(server);
            client.args(["s_client", "-connect", &accept, "-groups", group]).args(suite.options);
            client.args(["-CAfile", &certificate, "-verify_return_error", "-quiet", "-no_ign_eof"]);
            let (answer, errors) = converse(client);
            server.wait().unwrap();
            let what = format!("{:?} {group}, ours serves: {ours_serves}", suite.options);
            assert_eq!(answer, "egassem a", "{what}: {errors}");
            let counted = fs::read_to_string(&counters).unwrap_or_default();
            assert!(counted.contains(&format!("\"{}\":", suite.cipher)), "{what}: {counted}");
            assert!(counted.contains("\"derive\":"), "{what}: {counted}");
        }
    }
}
