//! libreswan as the responder, a process of its own in a network namespace.
//!
//! It gives the child to the kernel. Where that has no ESP, the child is refused and the IKE SA stands, so that what is
//! tried is IKE alone: both proofs, probes and new keys.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use sealane_ike::{Prove, Reason, wire::NotifyType};

use crate::{
    charon::{
        Driver, EC, Files, Foreign, Namespaces, OURS, Running, THEIRS, configured, has_namespaces, run,
        wait_for,
    },
    common::key,
    skip,
};

/// The folder in which `cargo xtask peers` unpacks it.
const ROOT: &str = "/usr/local/lib/sealane-peers/libreswan";
/// The proposal that it is configured with, in our words.
const PROPOSAL: &str = "aes256gcm16-prfsha384-x25519";

/// A running libreswan, whose files are in a folder of its own.
struct Libreswan {
    _process: Running,
    folder: tempfile::TempDir,
    namespaces: Namespaces,
}

impl Foreign for Libreswan {
    fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    fn said(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

/// Returns whether it can run here; if not, the test is skipped.
fn has_libreswan() -> bool {
    if !Path::new(ROOT).join("usr/libexec/ipsec/pluto").exists() {
        skip::skip(format!("no libreswan in {ROOT}"));
        return false;
    }
    has_namespaces()
}

/// Returns a program of libreswan's root, with its libraries.
fn program(name: &str, arguments: &[&str]) -> Result<String, String> {
    let libraries = format!("LD_LIBRARY_PATH={}", libraries());
    run("env", &[&[libraries.as_str(), &format!("{ROOT}/usr/bin/{name}")], arguments].concat())
}

fn libraries() -> String {
    format!("{ROOT}/usr/lib/{}-linux-gnu", std::env::consts::ARCH)
}

impl Libreswan {
    /// Starts it with how both ends prove themselves, in the words of ipsec.conf(5); `prepare` fills its database of
    /// certificates.
    fn start(case: &str, proof: &str, prepare: impl FnOnce(&str) -> Result<(), String>) -> Option<Self> {
        let namespaces = skip::without("network namespaces", Namespaces::new(case))?;
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name).display().to_string();
        for sub in ["nss", "run"] {
            fs::create_dir(at(sub)).expect("a folder");
        }
        let database = format!("sql:{}", at("nss"));
        let made = program("certutil", &["-N", "-d", &database, "--empty-password"]);
        skip::without("database of certificates", made.and_then(|_| prepare(&database)))?;
        let configuration = format!(
            "config setup
conn t
    auto=add
    ikev2=insist
    {proof}
    left={THEIRS}
    leftid=@p2.example
    leftsubnet=10.81.2.0/24
    right={OURS}
    rightid=@p1.example
    rightsubnet=10.81.1.0/24
    ike=aes_gcm256-sha2_384;dh31
    esp=aes_gcm256
    encapsulation=yes
"
        );
        fs::write(at("ipsec.conf"), configuration).expect("a file");
        let secret = "@p1.example @p2.example : PSK \"0123456789abcdef0123456789abcdef\"\n";
        fs::write(at("ipsec.secrets"), secret).expect("a file");
        let out = fs::File::create(at("out")).expect("a file");
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &namespaces.theirs, "unshare", "--mount", "sh", "-c"]);
        // It runs its helpers from a place that it was built with.
        command.args([
            "mount --bind \"$0/usr/libexec\" /usr/libexec && exec /usr/libexec/ipsec/pluto \"$@\"",
            ROOT,
            "--nofork",
            "--config",
            &at("ipsec.conf"),
            "--secretsfile",
            &at("ipsec.secrets"),
            "--nssdir",
            &at("nss"),
            "--rundir",
            &at("run"),
            "--logfile",
            &at("log"),
        ]);
        command.env("LD_LIBRARY_PATH", libraries());
        command.stdin(Stdio::null()).stdout(out.try_clone().expect("a file")).stderr(out);
        let process = command.spawn().expect("ip was found before");
        let own = Self { _process: Running(process), folder, namespaces };
        wait_for("libreswan's taking its configuration", || {
            own.said().contains("\"t\": added") && own.said().contains("loading secrets")
        });
        Some(own)
    }
}

/// Negotiates as the initiator, gives the IKE SA new keys, probes the peer, and ends.
fn join_and_end(libreswan: &Libreswan, mut driver: Driver) {
    driver.end.endpoint.initiate(0, Some(0), None, Instant::now()).expect("it is configured");
    driver.until(libreswan, "an IKE SA, and an answer about the child", |end| {
        end.up.len() == 1 && (end.children.len() == 1 || end.failed.len() == 1)
    });
    let ike = driver.end.ike();
    driver.end.endpoint.rekey(ike, Instant::now());
    driver.until(libreswan, "new keys of the IKE SA", |end| end.rekeyed == 1);
    driver.end.endpoint.probe(ike, Instant::now());
    driver.close(libreswan);
    assert_eq!(driver.end.down, [Reason::Closed], "{}", libreswan.said());
}

#[test]
fn libreswan_is_joined_by_a_shared_key() {
    if !has_libreswan() {
        return;
    }
    let Some(libreswan) = Libreswan::start("lp", "authby=secret", |_| Ok(())) else { return };
    join_and_end(&libreswan, Driver::new(&libreswan, configured(PROPOSAL, "aes256gcm16")));
    // Another key is refused, with the reason.
    let mut peer = configured(PROPOSAL, "aes256gcm16");
    peer.prove = Prove::SharedKey(key("another key, of about the same length"));
    let mut driver = Driver::new(&libreswan, peer);
    driver.end.endpoint.initiate(0, Some(0), None, Instant::now()).expect("it is configured");
    driver.until(&libreswan, "a refusal", |end| !end.down.is_empty());
    assert_eq!(driver.end.down, [Reason::Refused { kind: NotifyType::AUTHENTICATION_FAILED }]);
}

#[test]
fn libreswan_is_joined_by_certificates() {
    if !has_libreswan() {
        return;
    }
    for (case, kind, proof) in [("lr", &["RSA"][..], "rsasig"), ("le", EC, "ecdsa")] {
        let Some(files) = Files::new(kind) else { return };
        let proof = format!("authby={proof}\n    leftcert=p2\n    leftsendcert=always\n    rightca=%same");
        let started = Libreswan::start(case, &proof, |database| import(&|name| files.path(name), database));
        let Some(libreswan) = started else { return };
        let mut peer = configured(PROPOSAL, "aes256gcm16");
        (peer.prove, peer.expect) = (files.prove(), files.expect());
        join_and_end(&libreswan, Driver::new(&libreswan, peer));
    }
}

/// Puts the authority, and the certificate of the far end with its key, into a database.
fn import(at: &dyn Fn(&str) -> String, database: &str) -> Result<(), String> {
    let (bundle, certificate, key) = (at("p2.p12"), at("p2.crt"), at("p2.key"));
    let export = ["pkcs12", "-export", "-name", "p2", "-passout", "pass:", "-out", &bundle];
    run("openssl", &[&export[..], &["-in", &certificate, "-inkey", &key]].concat())?;
    program("pk12util", &["-i", &bundle, "-d", database, "-W", "", "-K", ""])?;
    program("certutil", &["-A", "-a", "-n", "ca", "-t", "CT,,", "-i", &at("ca.crt"), "-d", database])?;
    Ok(())
}
