//! strongSwan as the other end, a process of its own in a network namespace, with real sockets between.
//!
//! Its log has every secret, so that what we derive is compared with what it derives, byte for byte.

mod common;
#[path = "../../../testing/skip.rs"]
mod skip;

use std::{
    fs,
    io::ErrorKind,
    net::{IpAddr, SocketAddr, UdpSocket},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use common::{End, key, network, peer};
use sealane_ike::{
    Expect, Identity, Install, Offer, Peer, Prove, Settings,
    certificate::Authorities,
    crypto::{Encryption, Prf, sign::SigningKey},
    keys::{ChildKeys, IkeKeys, KeyPlan, Nonces, seed},
    wire::{HEADER_BYTES, Header, Spis},
};
use zeroize::Zeroizing;

/// How long anything may take on a machine that does other things too. Nothing is measured by it.
const PATIENCE: Duration = Duration::from_secs(30);

fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output =
        Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    let told =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(told) } else { Err(format!("{program} {}: {told}", arguments.join(" "))) }
}

/// Two namespaces with a link between them, ours and strongSwan's; gone when it is dropped.
struct Namespaces {
    ours: String,
    theirs: String,
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in [&self.ours, &self.theirs] {
            let _ = run("ip", &["netns", "delete", name]);
        }
    }
}

const OURS: &str = "10.80.0.1";
const THEIRS: &str = "10.80.0.2";

impl Namespaces {
    fn new(case: &str) -> Result<Self, String> {
        let name = |end: &str| format!("ike{end}{}{case}", std::process::id());
        let made = Self { ours: name("a"), theirs: name("b") };
        for name in [&made.ours, &made.theirs] {
            run("ip", &["netns", "add", name])?;
            run("ip", &["-n", name, "link", "set", "lo", "up"])?;
        }
        let (ours, theirs) = (made.ours.as_str(), made.theirs.as_str());
        let veth =
            ["link", "add", "ike0", "netns", ours, "type", "veth", "peer", "name", "ike1", "netns", theirs];
        run("ip", &veth)?;
        for (name, link, address) in [(ours, "ike0", OURS), (theirs, "ike1", THEIRS)] {
            run("ip", &["-n", name, "address", "add", &format!("{address}/24"), "dev", link])?;
            run("ip", &["-n", name, "link", "set", link, "up"])?;
        }
        // strongSwan's routes begin at an address in its network.
        run("ip", &["-n", theirs, "address", "add", "10.81.2.1/32", "dev", "lo"])?;
        Ok(made)
    }

    /// Sockets in our namespace; the thread that opens them is not needed any more.
    fn sockets(&self) -> [UdpSocket; 2] {
        let path = format!("/run/netns/{}", self.ours);
        let opened = std::thread::spawn(move || {
            let namespace = fs::File::open(path).expect("the namespace was made");
            let kind = Some(rustix::thread::LinkNameSpaceType::Network);
            rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(&namespace), kind)
                .expect("root may enter it");
            [500, 4500].map(|port| {
                let socket = UdpSocket::bind((OURS, port)).expect("nobody else is in the namespace");
                socket.set_nonblocking(true).expect("a socket takes that");
                socket
            })
        });
        opened.join().expect("sockets were opened")
    }
}

/// strongSwan, ended when it is dropped.
struct Charon {
    process: Child,
    folder: tempfile::TempDir,
    namespaces: Namespaces,
}

impl Drop for Charon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Charon {
    /// Starts it with the text of its connections; files go into its folder first.
    fn start(case: &str, connections: &str, prepare: impl FnOnce(&Path)) -> Option<Self> {
        let namespaces = match Namespaces::new(case) {
            Ok(namespaces) => namespaces,
            Err(problem) => {
                skip::skip(format!("no network namespaces: {problem}"));
                return None;
            }
        };
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        for sub in ["x509", "x509ca", "private"] {
            fs::create_dir_all(at.join("swanctl").join(sub)).expect("a folder");
        }
        prepare(&at.join("swanctl"));
        let shown = at.display();
        let configuration = format!(
            "charon-systemd {{
                load = random nonce openssl pem pkcs1 pkcs8 x509 revocation pubkey constraints kdf hmac kernel-libipsec kernel-netlink socket-default vici
                plugins {{
                    vici {{
                        socket = unix://{shown}/vici
                    }}
                    kernel-libipsec {{
                        allow_peer_ts = yes
                    }}
                }}
                journal {{
                    default = -1
                }}
                filelog {{
                    f {{
                        path = {shown}/log
                        flush_line = yes
                        default = 1
                        ike = 4
                        chd = 4
                    }}
                }}
            }}
"
        );
        fs::write(at.join("strongswan.conf"), configuration).expect("a file");
        fs::write(at.join("swanctl/swanctl.conf"), connections).expect("a file");
        let out = fs::File::create(at.join("out")).expect("a file");
        let process = Command::new("ip")
            .args(["netns", "exec", &namespaces.theirs, "charon-systemd"])
            .env("STRONGSWAN_CONF", at.join("strongswan.conf"))
            .stdout(out.try_clone().expect("a file"))
            .stderr(out)
            .stdin(Stdio::null())
            .spawn()
            .expect("ip was found before");
        let charon = Self { process, folder, namespaces };
        wait_for("strongSwan's control socket", || charon.path("vici").exists());
        charon.control(&["--load-all"]).expect("its configuration is right");
        Some(charon)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn control(&self, arguments: &[&str]) -> Result<String, String> {
        let uri = format!("unix://{}", self.path("vici").display());
        let output = Command::new("ip")
            .args(["netns", "exec", &self.namespaces.theirs, "swanctl"])
            .args(arguments)
            .args(["--uri", &uri])
            .env("STRONGSWAN_CONF", self.path("strongswan.conf"))
            .env("SWANCTL_DIR", self.path("swanctl"))
            .output()
            .expect("swanctl was found before");
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() { Ok(told) } else { Err(told + &String::from_utf8_lossy(&output.stderr)) }
    }

    /// A command that ends only when our end has done its part.
    fn control_beside(&self, arguments: &'static [&'static str]) -> Child {
        let uri = format!("unix://{}", self.path("vici").display());
        Command::new("ip")
            .args(["netns", "exec", &self.namespaces.theirs, "swanctl"])
            .args(arguments)
            .args(["--uri", &uri])
            .env("STRONGSWAN_CONF", self.path("strongswan.conf"))
            .env("SWANCTL_DIR", self.path("swanctl"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("swanctl was found before")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Values that its log has under a label, in order.
    fn logged(&self, label: &str) -> Vec<Vec<u8>> {
        let mut values: Vec<Vec<u8>> = Vec::new();
        let mut is_open = false;
        for line in self.log().lines() {
            // "TIME NN[SUB] TEXT"
            let text = line.split_once("] ").map_or("", |(_, text)| text);
            if text.contains(" => ") {
                is_open = text.starts_with(&format!("{label} => "));
                if is_open {
                    values.push(Vec::new());
                }
            } else if let (true, Some((_, dump))) = (is_open, text.split_once(": ")) {
                let bytes = dump
                    .split(' ')
                    .take(16)
                    .map_while(|word| (word.len() == 2).then(|| u8::from_str_radix(word, 16).ok()).flatten());
                values.last_mut().expect("a label opened it").extend(bytes);
            } else {
                is_open = false;
            }
        }
        values
    }
}

/// Our end with its sockets.
struct Driver {
    end: End,
    sockets: [UdpSocket; 2],
    /// Of the newest message.
    spis: Spis,
}

impl Driver {
    fn new(charon: &Charon, peer: Peer) -> Self {
        let seed = u64::from(std::process::id());
        Self {
            end: End::new(Settings::default(), vec![peer], seed),
            sockets: charon.namespaces.sockets(),
            spis: Spis { initiator: 0, responder: 0 },
        }
    }

    /// Runs until something is so; panics with strongSwan's log if it never is.
    #[track_caller]
    fn until(&mut self, charon: &Charon, what: &str, mut is_so: impl FnMut(&End) -> bool) {
        let start = Instant::now();
        let mut buffer = [0; 65_536];
        loop {
            self.end.take_events();
            while let Some(transmit) = self.end.endpoint.poll_transmit() {
                let socket = &self.sockets[usize::from(transmit.path.local.port() == 4500)];
                socket.send_to(&transmit.bytes, transmit.path.remote).expect("the link is up");
            }
            if is_so(&self.end) {
                return;
            }
            if start.elapsed() > PATIENCE {
                let End { down, failed, refused, .. } = &self.end;
                let log: Vec<String> =
                    charon.log().lines().filter(|line| !line.contains(": ")).map(str::to_owned).collect();
                panic!("{what} did not happen: {down:?} {failed:?} {refused:?}\n{}", log.join("\n"));
            }
            let mut is_idle = true;
            for (socket, port) in self.sockets.iter().zip([500, 4500]) {
                match socket.recv_from(&mut buffer) {
                    Ok((length, from)) => {
                        is_idle = false;
                        let message = &buffer[..length];
                        let message = message.strip_prefix(&[0; 4]).unwrap_or(message);
                        if message.len() > HEADER_BYTES
                            && let Ok(header) = Header::parse(message)
                        {
                            self.spis = header.spis;
                        }
                        let to = SocketAddr::new(OURS.parse().unwrap(), port);
                        self.end.endpoint.handle(&buffer[..length], from, to, Instant::now());
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => panic!("receiving: {error}"),
                }
            }
            let now = Instant::now();
            if self.end.endpoint.poll_timeout().is_some_and(|at| at <= now) {
                self.end.endpoint.handle_timeout(now);
            }
            if is_idle {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }

    /// Runs until a command of strongSwan's has ended.
    fn until_done(&mut self, charon: &Charon, mut command: Child) {
        self.until(charon, "the end of a command", |_| command.try_wait().expect("it was started").is_some());
    }
}

fn has_strongswan() -> bool {
    for program in ["ip", "charon-systemd", "swanctl"] {
        let found =
            ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].iter().any(|at| Path::new(at).join(program).exists());
        if !found {
            skip::skip(format!("no {program}"));
            return false;
        }
    }
    if !rustix::process::getuid().is_root() {
        skip::skip("network namespaces take root");
        return false;
    }
    true
}

/// Our configuration of strongSwan as a peer.
fn configured(ike: &str, esp: &str) -> Peer {
    let address = |text: &str| -> IpAddr { text.parse().unwrap() };
    let mut peer = peer(0);
    peer.local = Some(address(OURS));
    peer.remote = Some(address(THEIRS));
    peer.local_identity = Identity::from_text("p1.example");
    peer.remote_identity = Some(Identity::from_text("p2.example"));
    peer.prove = Prove::SharedKey(key("0123456789abcdef0123456789abcdef"));
    peer.expect = Expect::SharedKey(key("0123456789abcdef0123456789abcdef"));
    peer.proposals = vec![Offer::ike(ike).unwrap()];
    peer.children[0].local = vec![network("10.81.1.0/24")];
    peer.children[0].remote = vec![network("10.81.2.0/24")];
    peer.children[0].proposals = vec![Offer::esp(esp).unwrap()];
    peer.always_encapsulate = true;
    peer
}

/// strongSwan's configuration of us.
fn connections(ike: &str, esp: &str, auth: &str) -> String {
    format!(
        "connections {{
    t {{
        version = 2
        local_addrs = {THEIRS}
        remote_addrs = {OURS}
        proposals = {ike}
        encap = yes
        local {{
            {auth}
            id = p2.example
        }}
        remote {{
            auth = {}
            id = p1.example
        }}
        children {{
            c {{
                local_ts = 10.81.2.0/24
                remote_ts = 10.81.1.0/24
                esp_proposals = {esp}
            }}
        }}
    }}
}}
secrets {{
    ike-1 {{
        id-1 = p1.example
        id-2 = p2.example
        secret = \"0123456789abcdef0123456789abcdef\"
    }}
}}
",
        if auth.contains("psk") { "psk" } else { "pubkey" }
    )
}

/// Compares a child's keys with those that strongSwan says that it has.
fn compare_child(charon: &Charon, child: &Install, is_initiator: bool) {
    let of =
        |label: &str| charon.logged(label).last().unwrap_or_else(|| panic!("{label} in the log")).clone();
    let keys = [of("encryption initiator key"), of("encryption responder key")];
    let (sent, received) = (&child.outbound.material, &child.inbound.material);
    let expected = if is_initiator { [sent, received] } else { [received, sent] };
    for (logged, ours) in keys.iter().zip(expected) {
        assert!(ours.starts_with(logged), "a child's key");
    }
}

/// Computes the keys of the first IKE SA and its first child anew from strongSwan's shared secret and nonces, and compares each
/// with the log: SKEYSEED, SK_d, SK_pi, SK_pr, and the child's material.
fn compare_first(charon: &Charon, driver: &Driver, plan: KeyPlan, child: &Install) {
    let first =
        |label: &str| charon.logged(label).first().unwrap_or_else(|| panic!("{label} in the log")).clone();
    let shared = Zeroizing::new(first("shared Diffie Hellman secret"));
    let both = first("seed");
    let (initiator, responder) = both.split_at(both.len() / 2);
    let nonces = Nonces { initiator: initiator.to_vec(), responder: responder.to_vec() };
    let skeyseed = seed(plan.prf, &nonces, &shared);
    assert_eq!(*skeyseed, first("SKEYSEED"));
    let keys = IkeKeys::derive(plan, &skeyseed, &nonces, driver.spis).expect("the algorithms fit");
    assert_eq!(*keys.derive, first("Sk_d secret"));
    assert_eq!(*keys.proof_initiator, first("Sk_pi secret"));
    assert_eq!(*keys.proof_responder, first("Sk_pr secret"));
    let material = ChildKeys::derive(plan.prf, &keys.derive, &nonces, &[], child.suite.material_bytes());
    assert_eq!(*material.from_initiator, *child.outbound.material);
    assert_eq!(*material.from_responder, *child.inbound.material);
}

#[test]
fn with_a_shared_key_we_begin_rekey_probe_and_end() {
    if !has_strongswan() {
        return;
    }
    let text = connections("aes256gcm16-prfsha384-x25519", "aes256gcm16-x25519", "auth = psk");
    let Some(charon) = Charon::start("i", &text, |_| {}) else { return };
    let peer = configured("aes256gcm16-prfsha384-x25519", "aes256gcm16-x25519");
    let mut driver = Driver::new(&charon, peer);
    driver.end.endpoint.initiate(0, Some(0), None, Instant::now()).expect("it is configured");
    driver.until(&charon, "the first child", |end| end.children.len() == 1);
    let child = driver.end.only_child().clone();
    assert!(child.is_encapsulated && child.path.remote.port() == 4500);
    wait_for("strongSwan's child", || {
        charon.control(&["--list-sas"]).is_ok_and(|told| told.contains("INSTALLED"))
    });
    compare_child(&charon, &child, true);
    let plan = KeyPlan { encryption: Encryption::Aes256Gcm, integrity: None, prf: Prf::HmacSha384 };
    compare_first(&charon, &driver, plan, &child);

    // A child's new keys, at our wish and at strongSwan's.
    driver.end.endpoint.rekey_child(child.child, Instant::now());
    driver.until(&charon, "a child of ours in the first one's place", |end| {
        end.children.len() == 1 && end.only_child().child != child.child
    });
    let second = driver.end.only_child().clone();
    compare_child(&charon, &second, true);
    let command = charon.control_beside(&["--rekey", "--child", "c"]);
    driver.until_done(&charon, command);
    driver.until(&charon, "a child of strongSwan's in its place", |end| {
        end.children.len() == 1 && end.only_child().child != second.child && end.only_child().is_outbound_live
    });
    compare_child(&charon, &driver.end.only_child().clone(), false);

    // The IKE SA's new keys, likewise; then each has to hold for a probe and for another child.
    let ike = driver.end.ike();
    driver.end.endpoint.rekey(ike, Instant::now());
    driver.until(&charon, "new keys of the IKE SA", |end| end.rekeyed == 1);
    let command = charon.control_beside(&["--rekey", "--ike", "t"]);
    driver.until_done(&charon, command);
    driver.until(&charon, "newer keys of the IKE SA", |end| end.rekeyed == 2);
    driver.end.endpoint.probe(ike, Instant::now());
    let third = driver.end.only_child().child;
    driver.end.endpoint.rekey_child(third, Instant::now());
    driver.until(&charon, "a child under the newest keys", |end| {
        end.children.len() == 1 && end.only_child().child != third
    });

    driver.end.endpoint.close(ike, Instant::now());
    driver.until(&charon, "the end", |end| end.up.is_empty());
    assert_eq!(driver.end.down, [sealane_ike::Reason::Closed]);
    wait_for("strongSwan's end", || {
        charon.control(&["--list-sas"]).is_ok_and(|told| !told.contains("ESTABLISHED"))
    });
}

#[test]
fn with_a_shared_key_strongswan_begins_and_ends() {
    if !has_strongswan() {
        return;
    }
    let text = connections("aes256-sha256-modp2048", "aes256-sha256-modp2048", "auth = psk");
    let Some(charon) = Charon::start("r", &text, |_| {}) else { return };
    let mut driver = Driver::new(&charon, configured("aes256-sha256-modp2048", "aes256-sha256-modp2048"));
    let command = charon.control_beside(&["--initiate", "--child", "c"]);
    driver.until(&charon, "a child of strongSwan's", |end| end.children.len() == 1);
    driver.until_done(&charon, command);
    compare_child(&charon, &driver.end.only_child().clone(), false);
    let command = charon.control_beside(&["--terminate", "--ike", "t"]);
    driver.until(&charon, "its end", |end| end.up.is_empty());
    driver.until_done(&charon, command);
    assert_eq!(driver.end.down, [sealane_ike::Reason::DeletedByPeer]);
}

#[test]
fn another_key_exchange_is_taken_where_strongswan_wants_it() {
    if !has_strongswan() {
        return;
    }
    let text = connections("aes128gcm16-prfsha256-ecp256", "aes128gcm16-ecp256", "auth = psk");
    let Some(charon) = Charon::start("k", &text, |_| {}) else { return };
    let peer = configured("aes128gcm16-prfsha256-x25519-ecp256", "aes128gcm16-x25519-ecp256");
    let mut driver = Driver::new(&charon, peer);
    driver.end.endpoint.initiate(0, Some(0), None, Instant::now()).expect("it is configured");
    driver.until(&charon, "the first child", |end| end.children.len() == 1);
    let first = driver.end.only_child().child;
    driver.end.endpoint.rekey_child(first, Instant::now());
    driver.until(&charon, "a child with the other key exchange", |end| {
        end.children.len() == 1 && end.only_child().child != first
    });
}

#[test]
fn certificates_prove_who_both_ends_are() {
    if !has_strongswan() {
        return;
    }
    for (case, kind) in
        [("c", &["ED25519"][..]), ("d", &["EC", "-pkeyopt", "ec_paramgen_curve:P-256"]), ("e", &["RSA"])]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name).display().to_string();
        if let Err(problem) = certificates(&at, kind) {
            return skip::skip(format!("no certificates: {problem}"));
        }
        let text = connections(
            "aes256gcm16-prfsha384-x25519",
            "aes256gcm16",
            "auth = pubkey\n            certs = p2.crt",
        );
        let started = Charon::start(case, &text, |swanctl| {
            for (name, to) in [("ca.crt", "x509ca"), ("p2.crt", "x509"), ("p2.key", "private")] {
                fs::copy(at(name), swanctl.join(to).join(name)).expect("a file");
            }
        });
        let Some(charon) = started else { return };
        let mut peer = configured("aes256gcm16-prfsha384-x25519", "aes256gcm16");
        let key = fs::read(at("p1.der")).expect("it was made");
        peer.prove = Prove::Signature {
            key: Arc::new(SigningKey::from_pkcs8(&key).expect("a key")),
            certificates: vec![fs::read(at("p1.crt.der")).expect("it was made")],
        };
        let authority = fs::read(at("ca.crt.der")).expect("it was made");
        peer.expect = Expect::Certificate(Arc::new(Authorities::new(&[authority]).expect("a certificate")));
        let mut driver = Driver::new(&charon, peer);
        driver.end.endpoint.initiate(0, Some(0), None, Instant::now()).expect("it is configured");
        driver.until(&charon, "the first child", |end| end.children.len() == 1);
        let ike = driver.end.ike();
        driver.end.endpoint.close(ike, Instant::now());
        driver.until(&charon, "the end", |end| end.up.is_empty());
        let command = charon.control_beside(&["--initiate", "--child", "c"]);
        driver.until(&charon, "a child of strongSwan's", |end| end.children.len() == 1);
        driver.until_done(&charon, command);
    }
}

/// An authority and two ends, in PEM and DER, by OpenSSL.
fn certificates(at: &dyn Fn(&str) -> String, kind: &[&str]) -> Result<(), String> {
    for name in ["ca", "p1", "p2"] {
        let key = at(&format!("{name}.key"));
        let new = [&["genpkey", "-algorithm"][..], kind, &["-out", &key]].concat();
        run("openssl", &new)?;
        run(
            "openssl",
            &[
                "pkcs8",
                "-topk8",
                "-nocrypt",
                "-in",
                &key,
                "-outform",
                "DER",
                "-out",
                &at(&format!("{name}.der")),
            ],
        )?;
    }
    let (ca_key, ca) = (at("ca.key"), at("ca.crt"));
    let basic = "basicConstraints=critical,CA:TRUE";
    run(
        "openssl",
        &[
            "req", "-x509", "-new", "-key", &ca_key, "-subj", "/CN=CA", "-days", "30", "-addext", basic,
            "-out", &ca,
        ],
    )?;
    for name in ["p1", "p2"] {
        let (key, request, certificate) =
            (at(&format!("{name}.key")), at("request"), at(&format!("{name}.crt")));
        let subject = format!("/CN={name}.example");
        run("openssl", &["req", "-new", "-key", &key, "-subj", &subject, "-out", &request])?;
        let extensions = at("extensions");
        fs::write(
            &extensions,
            format!("subjectAltName=DNS:{name}.example\nextendedKeyUsage=serverAuth,clientAuth\n"),
        )
        .map_err(|error| error.to_string())?;
        let signed = ["-req", "-in", &request, "-CA", &ca, "-CAkey", &ca_key, "-CAcreateserial"];
        let out = ["-days", "30", "-extfile", &extensions, "-out", &certificate];
        run("openssl", &[&["x509"][..], &signed, &out].concat())?;
    }
    for name in ["ca", "p1", "p2"] {
        let (pem, der) = (at(&format!("{name}.crt")), at(&format!("{name}.crt.der")));
        run("openssl", &["x509", "-in", &pem, "-outform", "DER", "-out", &der])?;
    }
    Ok(())
}
