//! Measures full TLS handshakes of unchanged servers: the key in the server, whose OpenSSL signs, and in the service.
//! Run it with `cargo bench -p sealane-provider --bench handshakes -- [SECONDS] [KIND]`: the time of each run, and the kind
//! of the key, rsa-2048 unless it is named. ML-DSA takes OpenSSL 3.5 (`cargo xtask peers`), and nginx alone is measured with it.
//!
//! Clients (`openssl s_time`) share the machine with the servers, so the figure to compare is the server's CPU time per
//! handshake, of all its processes; the service's is shown beside it, and the ratio of the rates at the end. Groups are X25519 alone, then OpenSSL's usual ones.

use sealane_asymmetric::PrivateKey;
use sealane_client::{Client, KeyKind, Uri, key};
use sealane_service::service::bind_at;
use sealane_service::{Audit, Kernels, Policy, Service, Settings, Stop, Vault};
use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The number of clients.
const CLIENTS: usize = 16;

/// The folder of a newer OpenSSL.
const NEWER: &str = "/usr/local/lib/sealane-peers/openssl-3.5/usr";

/// A server, and how it is started: its configuration and its command.
struct Server {
    name: &'static str,
    program: &'static str,
    workers: usize,
    configure: fn(&World, &Run) -> Command,
}

const SERVERS: [Server; 3] = [
    Server { name: "nginx, 2 workers", program: "/usr/sbin/nginx", workers: 2, configure: nginx },
    Server { name: "nginx, 16 workers", program: "/usr/sbin/nginx", workers: 16, configure: nginx },
    Server { name: "HAProxy", program: "/usr/sbin/haproxy", workers: 2, configure: haproxy },
];

/// One way to run a server.
struct Run {
    workers: usize,
    port: u16,
    in_service: bool,
    groups: Option<&'static str>,
}

/// The files of the benchmark.
struct World {
    folder: PathBuf,
    /// The folder of the OpenSSL with which programs run, unless it is this machine's.
    newer: Option<&'static str>,
}

impl World {
    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// Returns a command that runs a program, by the loader of a newer OpenSSL if that is wanted.
    fn command(&self, program: &str) -> Command {
        let Some(newer) = self.newer else { return Command::new(program) };
        let libraries = format!("{newer}/lib/x86_64-linux-gnu");
        let mut command = Command::new(format!("{libraries}/ld-linux-x86-64.so.2"));
        command.args(["--library-path", &format!("{libraries}:/usr/lib/x86_64-linux-gnu")]);
        let own = Path::new(newer).join("bin").join(program);
        command.arg(if own.exists() { own } else { Path::new("/usr/bin").join(program) });
        command
    }

    fn key(&self, run: &Run) -> String {
        self.path(if run.in_service { "reference.key" } else { "plain.key" })
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let seconds = arguments.iter().find_map(|text| text.parse().ok()).unwrap_or(5);
    let kind = arguments.iter().find(|text| text.parse::<u64>().is_err());
    let kind = kind.map_or(KeyKind::Rsa { bits: 2048 }, |text| text.parse().expect("a kind of key"));
    let is_new = matches!(kind, KeyKind::MlDsa(_));
    let newer = is_new.then_some(NEWER);
    if newer.is_some_and(|newer| !Path::new(newer).exists()) {
        return println!("no OpenSSL 3.5 in {NEWER}: `cargo xtask peers` brings it");
    }
    let folder = std::env::temp_dir().join(format!("sealane-handshakes-{}", std::process::id()));
    let world = World { folder, newer };
    fs::create_dir_all(&world.folder).expect("a folder");
    let socket = world.folder.join("socket");
    let settings = Settings {
        listeners: vec![bind_at(&socket).expect("a socket")],
        vault: Vault::open(&world.folder.join("keys"), b"a benchmark").expect("a vault"),
        policy: Policy::of_users(&[rustix::process::geteuid().as_raw()]),
        workers: 1,
        kernels: Kernels::best(),
        audit: Audit::nowhere(),
        audits_uses: false,
        memory_locked: false,
        sealed_by: "a benchmark".to_owned(),
    };
    let stop = Stop::new().expect("a switch");
    let service = Service::start(settings, &stop).expect("a service");
    let running = thread::spawn(move || service.run());
    prepare(&world, &socket, kind);
    for server in SERVERS.into_iter().filter(|server| !is_new || server.program.ends_with("nginx")) {
        if !Path::new(server.program).exists() {
            println!("{}: not installed", server.name);
            continue;
        }
        for groups in [Some("X25519"), None] {
            println!("{}, {kind}, {}:", server.name, groups.unwrap_or("usual groups"));
            let (mut costs, mut rates) = ([0.0; 2], [0.0; 2]);
            // The two ways take turns.
            for in_service in [false, true, false, true] {
                let run = Run { workers: server.workers, port: free_port(), in_service, groups };
                let [rate, server_us, service_us] = measure(&world, &server, &run, seconds);
                costs[usize::from(in_service)] += server_us;
                rates[usize::from(in_service)] += rate;
                let way = if in_service { "key in the service" } else { "key in the server " };
                println!(
                    "  {way}  {rate:>7.0} handshakes/s  {server_us:>6.1} us of the server's CPU each, and \
                     {service_us:>6.1} us of the service's"
                );
            }
            let (cost, rate) = (costs[1] / costs[0], rates[1] / rates[0]);
            println!("  server's CPU: {cost:.3} x, handshakes: {rate:.3} x");
        }
    }
    stop.stop();
    running.join().expect("no panic").expect("it serves");
    let _ = fs::remove_dir_all(&world.folder);
}

/// Makes the key in both forms, its certificate, and OpenSSL's configuration.
fn prepare(world: &World, socket: &Path, kind: KeyKind) {
    let key = PrivateKey::generate(kind).expect("a key");
    let der = key.to_pkcs8().expect("PKCS#8");
    fs::write(world.path("plain.key"), key::pem("PRIVATE KEY", &der)).expect("a file");
    let mut client = Client::connect(socket, "bench").expect("a client");
    client.import("web", &der, None).expect("a key");
    let uri = Uri { name: "web".to_owned(), socket: Some(socket.to_owned()) };
    fs::write(world.path("reference.key"), uri.to_pem()).expect("a file");
    let mut request = world.command("openssl");
    request.args(["req", "-x509", "-new", "-key", &world.path("plain.key"), "-subj", "/CN=localhost"]);
    assert!(request.args(["-out", &world.path("web.crt")]).status().expect("openssl").success());
    let config = format!(
        "openssl_conf = all\n[all]\nproviders = providers\n[providers]\ndefault = their\nsealane = ours\n[their]\n\
         activate = 1\n[ours]\nmodule = {}\nactivate = 1\n",
        library().display()
    );
    fs::write(world.path("openssl.cnf"), config).expect("a file");
}

fn library() -> PathBuf {
    let deps = std::env::current_exe().expect("a program").parent().expect("a folder").to_owned();
    let name = "libsealane_provider.so";
    let places = [deps.join(name), deps.parent().expect("a folder").join(name)];
    places.into_iter().find(|path| path.exists()).expect("cargo builds the library before its benchmarks")
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("a port").port()
}

fn nginx(world: &World, run: &Run) -> Command {
    let curves = run.groups.map_or(String::new(), |groups| format!("ssl_ecdh_curve {groups};"));
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let config = format!(
        "daemon off; {user} worker_processes {}; pid nginx.pid; error_log nginx.log; env OPENSSL_CONF;\n\
         events {{ worker_connections 1024; }}\nhttp {{ access_log off; client_body_temp_path body;\n\
         proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;\n\
         server {{ listen 127.0.0.1:{} ssl reuseport; ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache off; ssl_session_tickets off; {curves}\n\
         ssl_certificate web.crt; ssl_certificate_key {};\nlocation / {{ return 200 served; }} }} }}\n",
        run.workers,
        run.port,
        world.key(run)
    );
    fs::write(world.path("nginx.conf"), config).expect("a file");
    let mut command = world.command("/usr/sbin/nginx");
    command.args(["-p", &world.path(""), "-c", &world.path("nginx.conf"), "-e", &world.path("nginx.log")]);
    command
}

fn haproxy(world: &World, run: &Run) -> Command {
    let curves = run.groups.map_or(String::new(), |groups| format!(" curves {groups}"));
    // HAProxy reads certificate and key from one file.
    let mut pem = fs::read(world.path("web.crt")).expect("a file");
    pem.write_all(&fs::read(world.key(run)).expect("a file")).expect("memory");
    fs::write(world.path("web.pem"), pem).expect("a file");
    let config = format!(
        "global\n  nbthread {}\n  ssl-mode-async\n  tune.ssl.cachesize 0\ndefaults\n  mode http\n  timeout client 10s\n\
         \x20 timeout server 10s\n  timeout connect 5s\nfrontend web\n\
         \x20 bind 127.0.0.1:{} ssl crt {} no-tls-tickets{curves}\n  http-request return status 200\n",
        run.workers,
        run.port,
        world.path("web.pem")
    );
    fs::write(world.path("haproxy.cfg"), config).expect("a file");
    let mut command = Command::new("/usr/sbin/haproxy");
    command.args(["-db", "-f", &world.path("haproxy.cfg")]);
    command
}

/// Returns the handshakes per second, and the microseconds of CPU per handshake of the server and of the service.
fn measure(world: &World, server: &Server, run: &Run, seconds: u64) -> [f64; 3] {
    let mut command = (server.configure)(world, run);
    command.current_dir(&world.folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if run.in_service {
        command.env("OPENSSL_CONF", world.path("openssl.cnf"));
    }
    let mut child = command.spawn().expect("a server");
    let start = Instant::now();
    while TcpStream::connect(("127.0.0.1", run.port)).is_err() {
        assert!(start.elapsed() < Duration::from_secs(20), "{} does not listen", server.name);
        thread::sleep(Duration::from_millis(20));
    }
    let (server_before, own_before) = (cpu_us(&family(&child)), cpu_us(&[std::process::id()]));
    let clients: Vec<Child> = (0..CLIENTS)
        .map(|_| {
            let mut client = world.command("openssl");
            client.args(["s_time", "-new", "-time", &seconds.to_string()]);
            client.args(["-connect", &format!("127.0.0.1:{}", run.port)]).env_remove("OPENSSL_CONF");
            client.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("openssl")
        })
        .collect();
    let began = Instant::now();
    let handshakes: f64 = clients.into_iter().map(connections).sum();
    let took = began.elapsed().as_secs_f64();
    let (server_us, own_us) =
        (cpu_us(&family(&child)) - server_before, cpu_us(&[std::process::id()]) - own_before);
    let _ = rustix::process::kill_process(
        rustix::process::Pid::from_child(&child),
        rustix::process::Signal::TERM,
    );
    let _ = child.wait();
    assert!(handshakes > 0.0, "{}: no handshake", server.name);
    [handshakes / took, server_us / handshakes, own_us / handshakes]
}

/// Returns the number of connections that a client has made, from its line `N connections in T real seconds`.
fn connections(client: Child) -> f64 {
    let output = client.wait_with_output().expect("openssl");
    let told = String::from_utf8_lossy(&output.stdout);
    let line = told.lines().find(|line| line.contains("connections in") && line.contains("real seconds"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
}

/// Returns a process and its children.
fn family(child: &Child) -> Vec<u32> {
    let own = child.id();
    let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap_or_default();
    std::iter::once(own).chain(children.split_whitespace().filter_map(|number| number.parse().ok())).collect()
}

/// Returns the microseconds of CPU that processes have used.
fn cpu_us(processes: &[u32]) -> f64 {
    let of_thread = |path: PathBuf| -> Option<f64> {
        fs::read_to_string(path.join("schedstat")).ok()?.split_whitespace().next()?.parse::<f64>().ok()
    };
    let threads =
        |process: &u32| fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let ns: f64 = processes.iter().flat_map(threads).filter_map(|entry| of_thread(entry.path())).sum();
    ns / 1000.0
}
