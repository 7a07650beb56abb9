//! strongSwan as a process, and our end with real sockets.

#![allow(dead_code, reason = "each program uses some of it")]

#[path = "../../../../testing/namespaces.rs"]
pub(crate) mod namespaces;
#[path = "../../../../testing/running.rs"]
mod running;
#[path = "../../../../testing/charon.rs"]
mod settings;
#[path = "../../../../testing/wait.rs"]
mod wait;

use std::{
    fs,
    io::ErrorKind,
    net::{IpAddr, SocketAddr, UdpSocket},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use sealane_ike::{
    Expect, Identity, Offer, Peer, Prove, Settings,
    certificate::Authorities,
    crypto::sign::SigningKey,
    wire::{HEADER_BYTES, Header, Spis},
};

use crate::{
    common::{End, key, network, peer},
    skip,
};

pub(crate) use running::Running;
pub(crate) use wait::wait_for;

/// Time limit for any step, on a machine that does other things too. It is not used for measurements.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output =
        Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    let told =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(told) } else { Err(format!("{program} {}: {told}", arguments.join(" "))) }
}

/// Two namespaces with a link between them, ours and strongSwan's; they are removed when the value is dropped.
pub(crate) struct Namespaces {
    pub(crate) ours: String,
    pub(crate) theirs: String,
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in [&self.ours, &self.theirs] {
            namespaces::remove(name);
        }
    }
}

/// The folder in which `cargo xtask peers` unpacks a strongSwan with ML-KEM.
const NEWER: &str = "/usr/local/lib/sealane-peers/strongswan";
pub(crate) const OURS: &str = "10.80.0.1";
pub(crate) const THEIRS: &str = "10.80.0.2";

impl Namespaces {
    pub(crate) fn new(case: &str) -> Result<Self, String> {
        let name = |end: &str| format!("ike{end}{}{case}", std::process::id());
        let made = Self { ours: name("a"), theirs: name("b") };
        for name in [&made.ours, &made.theirs] {
            namespaces::add(name)?;
        }
        let (ours, theirs) = (format!("{OURS}/24"), format!("{THEIRS}/24"));
        let end =
            |namespace, device, addresses| namespaces::End { namespace, device, addresses, settings: "" };
        namespaces::cable([end(&made.ours, "ike0", &[&ours]), end(&made.theirs, "ike1", &[&theirs])])?;
        // strongSwan's routes require an address in its own network.
        namespaces::try_ip(&format!("-n {} address add 10.81.2.1/32 dev lo", made.theirs))?;
        Ok(made)
    }

    /// Opens sockets in our namespace.
    pub(crate) fn sockets(&self) -> [UdpSocket; 2] {
        self.sockets_at(OURS)
    }

    /// Opens sockets at an address in our namespace; the thread that opens them ends afterwards.
    pub(crate) fn sockets_at(&self, address: &str) -> [UdpSocket; 2] {
        let open = |port| {
            let socket = UdpSocket::bind((address, port)).expect("nobody else is in the namespace");
            socket.set_nonblocking(true).expect("a socket takes that");
            socket
        };
        namespaces::inside(&self.ours, || [500, 4500].map(open))
    }
}

/// A strongSwan process.
pub(crate) struct Charon {
    process: Running,
    folder: tempfile::TempDir,
    namespaces: Namespaces,
}

impl Charon {
    /// Starts it with the text of its connections; `prepare` first puts files into its folder.
    pub(crate) fn start(case: &str, connections: &str, prepare: impl FnOnce(&Path)) -> Option<Self> {
        Self::start_from(None, case, connections, prepare)
    }

    /// Starts the newer strongSwan that `cargo xtask peers` unpacks, if it is there.
    pub(crate) fn start_newer(case: &str, connections: &str, prepare: impl FnOnce(&Path)) -> Option<Self> {
        if !Path::new(NEWER).join("usr/sbin/swanctl").exists() {
            skip::skip(format!("no strongSwan in {NEWER}"));
            return None;
        }
        Self::start_from(Some(NEWER), case, connections, prepare)
    }

    fn start_from(
        root: Option<&str>,
        case: &str,
        connections: &str,
        prepare: impl FnOnce(&Path),
    ) -> Option<Self> {
        if !has_strongswan() {
            return None;
        }
        let namespaces = skip::without("network namespaces", Namespaces::new(case))?;
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        for sub in ["swanctl/x509", "swanctl/x509ca", "swanctl/private", "more"] {
            fs::create_dir_all(at.join(sub)).expect("a folder");
        }
        prepare(&at.join("swanctl"));
        // The log has every secret, except in measurements.
        let (level, secrets) = if at.join("more/quiet.conf").exists() { (-1, -1) } else { (1, 4) };
        let path = |name: &str| at.join(name).display().to_string();
        let configuration = settings::Settings {
            load: "random nonce openssl pem pkcs1 pkcs8 x509 revocation pubkey constraints kdf hmac eap-identity eap-mschapv2 \
                   eap-tls kernel-libipsec kernel-netlink socket-default vici",
            socket: &path("vici"),
            log: &path("log"),
            levels: &format!("default = {level}\n            ike = {secrets}\n            chd = {secrets}"),
            plugins: "kernel-libipsec {\n            allow_peer_ts = yes\n        }",
            more: &format!("include {}", path("more/*.conf")),
        };
        fs::write(at.join("strongswan.conf"), configuration.text()).expect("a file");
        fs::write(at.join("swanctl/swanctl.conf"), connections).expect("a file");
        let out = fs::File::create(at.join("out")).expect("a file");
        let program = if root.is_none() { "charon-systemd" } else { "unshare" };
        let mut command = namespaces::command(&namespaces.theirs, program);
        if let Some(root) = root {
            // It runs in a root of its own, but with this machine's temporary files, which contain its configuration.
            command.args([
                "--mount",
                "sh",
                "-c",
                "mount --bind /dev $0/dev && mount -t proc proc $0/proc && mount --bind /tmp $0/tmp && mount -t tmpfs run $0/run \
                 && exec chroot $0 /usr/sbin/charon-systemd",
                root,
            ]);
        }
        let process = command
            .env("STRONGSWAN_CONF", at.join("strongswan.conf"))
            .stdout(out.try_clone().expect("a file"))
            .stderr(out)
            .stdin(Stdio::null())
            .spawn()
            .expect("ip was found before");
        let charon = Self { process: Running(process), folder, namespaces };
        wait_for("strongSwan's control socket", || charon.path("vici").exists());
        // The socket exists a moment before the process listens on it.
        wait_for("strongSwan's taking its configuration", || charon.control(&["--load-all"]).is_ok());
        Some(charon)
    }

    /// Returns the process's number.
    pub(crate) fn process(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn control(&self, arguments: &[&str]) -> Result<String, String> {
        let uri = format!("unix://{}", self.path("vici").display());
        let output = namespaces::command(&self.namespaces.theirs, "swanctl")
            .args(arguments)
            .args(["--uri", &uri])
            .env("STRONGSWAN_CONF", self.path("strongswan.conf"))
            .env("SWANCTL_DIR", self.path("swanctl"))
            .output()
            .expect("swanctl was found before");
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() { Ok(told) } else { Err(told + &String::from_utf8_lossy(&output.stderr)) }
    }

    /// Starts a command that ends only after our end has done its part.
    pub(crate) fn control_beside(&self, arguments: &'static [&'static str]) -> Child {
        let uri = format!("unix://{}", self.path("vici").display());
        namespaces::command(&self.namespaces.theirs, "swanctl")
            .args(arguments)
            .args(["--uri", &uri])
            .env("STRONGSWAN_CONF", self.path("strongswan.conf"))
            .env("SWANCTL_DIR", self.path("swanctl"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("swanctl was found before")
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Returns the values that its log has under a label, in order.
    pub(crate) fn logged(&self, label: &str) -> Vec<Vec<u8>> {
        let mut values: Vec<Vec<u8>> = Vec::new();
        let mut is_open = false;
        for line in self.log().lines() {
            // The line has the form "TIME NN[SUB] TEXT".
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

/// A foreign end in a namespace of its own.
pub(crate) trait Foreign {
    fn namespaces(&self) -> &Namespaces;
    /// Returns its log without secrets.
    fn said(&self) -> String;
}

impl Foreign for Charon {
    fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    fn said(&self) -> String {
        let log = self.log();
        log.lines().filter(|line| !line.contains(": ")).collect::<Vec<_>>().join("\n")
    }
}

/// Our end with its sockets.
pub(crate) struct Driver {
    pub(crate) end: End,
    sockets: [UdpSocket; 2],
    /// The local address of the sockets.
    address: IpAddr,
    /// The SPIs of the newest message.
    pub(crate) spis: Spis,
}

impl Driver {
    pub(crate) fn new(foreign: &dyn Foreign, peer: Peer) -> Self {
        Self::with_settings(foreign, peer, Settings::default())
    }

    pub(crate) fn with_settings(foreign: &dyn Foreign, peer: Peer, settings: Settings) -> Self {
        let seed = u64::from(std::process::id());
        Self {
            end: End::new(settings, vec![peer], seed),
            sockets: foreign.namespaces().sockets(),
            address: OURS.parse().expect("an address"),
            spis: Spis { initiator: 0, responder: 0 },
        }
    }

    /// Runs until a condition holds; panics with the foreign end's log if that does not happen.
    #[track_caller]
    pub(crate) fn until(&mut self, foreign: &dyn Foreign, what: &str, mut is_so: impl FnMut(&End) -> bool) {
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
                panic!("{what} did not happen: {down:?} {failed:?} {refused:?}\n{}", foreign.said());
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
                        let to = SocketAddr::new(self.address, port);
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

    /// Continues from another address of ours.
    pub(crate) fn move_to(&mut self, foreign: &dyn Foreign, address: &str) {
        self.sockets = foreign.namespaces().sockets_at(address);
        self.address = address.parse().expect("an address");
    }

    /// Begins an IKE SA, and runs until it has its first child.
    #[track_caller]
    pub(crate) fn begin(&mut self, foreign: &dyn Foreign) {
        self.end.endpoint.initiate(0, Some(0), None, Instant::now()).expect("it is configured");
        self.until(foreign, "the first child", |end| end.children.len() == 1);
    }

    /// Has strongSwan begin, and runs until both ends have the child.
    #[track_caller]
    pub(crate) fn begun_by(&mut self, charon: &Charon) {
        let command = charon.control_beside(&["--initiate", "--child", "c"]);
        self.until(charon, "a child of strongSwan's", |end| end.children.len() == 1);
        self.until_done(charon, command);
    }

    /// Renews the keys of the only child, and runs until another one is in its place.
    #[track_caller]
    pub(crate) fn renew_child(&mut self, foreign: &dyn Foreign, what: &str) {
        let first = self.end.only_child().child;
        self.end.endpoint.rekey_child(first, Instant::now());
        self.until(foreign, what, |end| end.children.len() == 1 && end.only_child().child != first);
    }

    /// Ends the IKE SA.
    #[track_caller]
    pub(crate) fn close(&mut self, foreign: &dyn Foreign) {
        let ike = self.end.ike();
        self.end.endpoint.close(ike, Instant::now());
        self.until(foreign, "the end", |end| end.up.is_empty());
    }

    /// Runs until a command of strongSwan has ended.
    #[track_caller]
    pub(crate) fn until_done(&mut self, foreign: &dyn Foreign, mut command: Child) {
        self.until(foreign, "the end of a command", |_| {
            command.try_wait().expect("it was started").is_some()
        });
    }
}

pub(crate) fn has_strongswan() -> bool {
    for program in ["ip", "charon-systemd", "swanctl"] {
        let found =
            ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].iter().any(|at| Path::new(at).join(program).exists());
        if !found {
            skip::skip(format!("no {program}"));
            return false;
        }
    }
    has_namespaces()
}

/// Returns whether namespaces can be made; if not, the test is skipped.
pub(crate) fn has_namespaces() -> bool {
    let is_root = rustix::process::getuid().is_root();
    if !is_root {
        skip::skip("network namespaces take root");
    }
    is_root
}

/// Returns our configuration of strongSwan as a peer.
pub(crate) fn configured(ike: &str, esp: &str) -> Peer {
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

/// Returns strongSwan's configuration of our end.
pub(crate) fn connections(ike: &str, esp: &str, auth: &str) -> String {
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

/// Certificates of an authority and of both ends, in files.
pub(crate) struct Files(tempfile::TempDir);

impl Files {
    /// Makes them; the words are those of `openssl genpkey` for a kind of key.
    pub(crate) fn new(kind: &[&str]) -> Option<Self> {
        let files = Self(tempfile::tempdir().expect("a folder"));
        skip::without("certificates", certificates(&|name| files.path(name), kind))?;
        Some(files)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).expect("it was made")
    }

    /// Puts strongSwan's files into its folders, with additional configuration.
    pub(crate) fn install(&self, swanctl: &Path, more: &str) {
        for (name, to) in [("ca.crt", "x509ca"), ("p2.crt", "x509"), ("p2.key", "private")] {
            fs::copy(self.path(name), swanctl.join(to).join(name)).expect("a file");
        }
        fs::write(swanctl.with_file_name("more").join("more.conf"), more).expect("a file");
    }

    pub(crate) fn authorities(&self) -> Arc<Authorities> {
        Arc::new(Authorities::new(&[self.read("ca.crt.der")]).expect("a certificate"))
    }

    /// Returns our proof.
    pub(crate) fn prove(&self) -> Prove {
        Prove::Signature {
            key: Arc::new(SigningKey::from_pkcs8(&self.read("p1.der")).expect("a key")),
            certificates: vec![self.read("p1.crt.der")],
        }
    }

    /// Returns what we expect of strongSwan.
    pub(crate) fn expect(&self) -> Expect {
        Expect::Certificate(self.authorities())
    }
}

/// An elliptic curve's keys, in the words of `openssl genpkey`.
pub(crate) const EC: &[&str] = &["EC", "-pkeyopt", "ec_paramgen_curve:P-256"];

/// Makes an authority and two ends' certificates with OpenSSL, in PEM and DER.
pub(crate) fn certificates(at: &dyn Fn(&str) -> String, kind: &[&str]) -> Result<(), String> {
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
