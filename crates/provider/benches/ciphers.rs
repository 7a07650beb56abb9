//! Measures ciphers through the provider beside OpenSSL's own, by `openssl speed`, in turns, with this machine's OpenSSL
//! and with newer ones, 3.5 and the newest, if `cargo xtask peers` has brought them; and ML-KEM-768, which OpenSSL has since 3.5. Run it with
//! `cargo bench -p sealane-provider --bench ciphers [SECONDS [NAME...]]`: that is the time of each of four runs per row, and
//! the rows whose names begin so.
//!
//! The provider's counters show that it computed; a row fails if they do not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `openssl speed`'s names.
const ALGORITHMS: [&str; 5] =
    ["aes-128-gcm", "aes-256-gcm", "chacha20-poly1305", "aes-128-cbc", "aes-128-ctr"];
const LENGTHS: [u32; 4] = [16, 1024, 8192, 16_384];

/// An OpenSSL: this machine's, or one in a folder.
type Version = Option<&'static str>;

fn main() {
    let mut words = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let seconds: u32 = words.next().map_or(1, |text| text.parse().expect("a number of whole seconds"));
    let names: Vec<String> = words.collect();
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| name.starts_with(&**wanted));
    let folder = std::env::temp_dir().join(format!("sealane-ciphers-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let config = format!(
        "openssl_conf = all\n[all]\nproviders = providers\nalg_section = preferred\n[providers]\ndefault = their\n\
         sealane = ours\n[their]\nactivate = 1\n[ours]\nmodule = {}\nactivate = 1\ncounters = {}\n[preferred]\n\
         default_properties = ?provider=sealane\n",
        library().display(),
        folder.join("counters").display()
    );
    fs::write(folder.join("openssl.cnf"), config).expect("a file");
    for version in std::iter::once(None).chain(NEWER.map(Some)) {
        let Some(mut command) = openssl(version) else {
            println!(
                "no OpenSSL in {version:?} (`cargo xtask peers` brings it): nothing is measured with it"
            );
            continue;
        };
        let output = command.arg("version").output().expect("openssl");
        print!("MB/s of its own and of the provider in turns, and the ratio of their medians, with ");
        print!("{}", String::from_utf8_lossy(&output.stdout));
        for algorithm in ALGORITHMS.into_iter().filter(|name| is_wanted(name)) {
            for length in LENGTHS {
                let run =
                    |is_ours: bool| speed(version, algorithm, length, seconds, is_ours.then_some(&*folder));
                let [a1, b1, a2, b2] = [run(false), run(true), run(false), run(true)];
                let ratio = (b1 + b2) / (a1 + a2);
                println!(
                    "{algorithm:<18} {length:>6} B  {a1:>9.1} {b1:>9.1} {a2:>9.1} {b2:>9.1}   {ratio:.3}"
                );
            }
        }
        if version.is_some() && is_wanted("ml-kem-768") {
            kem(version, seconds, &folder);
        }
    }
    let _ = fs::remove_dir_all(&folder);
}

/// The folders of newer OpenSSLs, their libraries and the loaders that go with them.
const NEWER: [&str; 2] =
    ["/usr/local/lib/sealane-peers/openssl-3.5/usr", "/usr/local/lib/sealane-peers/strongswan/usr"];

/// Returns the program, if it is here.
fn openssl(version: Version) -> Option<Command> {
    let Some(folder) = version else { return Some(Command::new("openssl")) };
    let libraries = format!("{folder}/lib/{}-linux-gnu", std::env::consts::ARCH);
    let loader = ["ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"]
        .map(|name| Path::new(&libraries).join(name))
        .into_iter()
        .find(|loader| loader.exists() && Path::new(folder).join("bin/openssl").exists())?;
    let mut command = Command::new(loader);
    command.args(["--library-path", &libraries]).arg(format!("{folder}/bin/openssl"));
    Some(command)
}

/// Prints operations of ML-KEM-768 a second by a newer OpenSSL.
fn kem(version: Version, seconds: u32, folder: &Path) {
    let run = |is_ours: bool| -> [f64; 3] {
        let mut command = openssl(version).expect("it was there");
        command.args(["speed", "-mr", "-seconds", &seconds.to_string(), "ML-KEM-768"]);
        command.env("OPENSSL_CONF", if is_ours { folder.join("openssl.cnf") } else { "/dev/null".into() });
        let _ = fs::remove_file(folder.join("counters"));
        let output = command.output().expect("openssl");
        let told = String::from_utf8_lossy(&output.stdout);
        // The line is +F9:NUMBER:KEYS:ENCAPSULATIONS:DECAPSULATIONS, each a second.
        let rates = told.lines().find(|line| line.starts_with("+F9:")).unwrap_or_default().rsplit(':');
        let mut rates: Vec<f64> = rates.take(3).filter_map(|rate| rate.parse().ok()).collect();
        rates.reverse();
        let counted = fs::read_to_string(folder.join("counters")).unwrap_or_default();
        assert_eq!(counted.contains("\"decapsulate\":"), is_ours, "{counted}");
        rates.try_into().unwrap_or_else(|_| panic!("ML-KEM-768: {told}"))
    };
    println!("ML-KEM-768, operations a second, in the same turns:");
    let [a1, b1, a2, b2] = [run(false), run(true), run(false), run(true)];
    for (at, name) in ["keygen", "encapsulate", "decapsulate"].into_iter().enumerate() {
        let ratio = (b1[at] + b2[at]) / (a1[at] + a2[at]);
        println!(
            "{name:<18}           {:>9.0} {:>9.0} {:>9.0} {:>9.0}   {ratio:.3}",
            a1[at], b1[at], a2[at], b2[at]
        );
    }
}

/// Returns the path of the library, which cargo builds before this program.
fn library() -> PathBuf {
    let deps = std::env::current_exe().expect("a program").parent().expect("a folder").to_owned();
    let name = "libsealane_provider.so";
    let places = [deps.join(name), deps.parent().expect("a folder").join(name)];
    places.into_iter().find(|path| path.exists()).expect("cargo builds the library before its benchmarks")
}

/// Returns the megabytes that one core computes a second.
fn speed(version: Version, algorithm: &str, length: u32, seconds: u32, ours: Option<&Path>) -> f64 {
    let mut command = openssl(version).expect("it was there");
    command.args(["speed", "-mr", "-seconds", &seconds.to_string(), "-bytes", &length.to_string()]);
    command.args(["-evp", algorithm]).env("OPENSSL_CONF", "/dev/null");
    if let Some(folder) = ours {
        command.env("OPENSSL_CONF", folder.join("openssl.cnf"));
        let _ = fs::remove_file(folder.join("counters"));
    }
    let output = command.output().expect("openssl");
    let told = String::from_utf8_lossy(&output.stdout);
    // The line is +F:NUMBER:NAME:BYTES PER SECOND.
    let rate = told.lines().find(|line| line.starts_with("+F:")).and_then(|line| line.rsplit(':').next());
    let rate: f64 = rate.and_then(|rate| rate.parse().ok()).unwrap_or_else(|| panic!("{algorithm}: {told}"));
    if let Some(folder) = ours {
        let counted = fs::read_to_string(folder.join("counters")).unwrap_or_default();
        assert!(counted.to_lowercase().contains(&format!("\"{algorithm}\"")), "{algorithm}: {counted}");
    }
    rate / 1e6
}
