//! Measures ciphers through the provider beside OpenSSL's own, by `openssl speed`, in turns; and ML-KEM-768, which OpenSSL has
//! since 3.5, by a newer OpenSSL if `cargo xtask peers` has brought one. Run it with
//! `cargo bench -p sealane-provider --bench ciphers [SECONDS]`: that is the time of each of four runs per row.
//!
//! The provider's counters show that it computed; a row fails if they do not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const ALGORITHMS: [&str; 5] =
    ["aes-128-gcm", "aes-256-gcm", "chacha20-poly1305", "aes-128-cbc", "aes-128-ctr"];
const LENGTHS: [u32; 4] = [16, 1024, 8192, 16_384];

fn main() {
    let seconds = std::env::args().skip(1).find(|argument| argument != "--bench");
    let seconds: u32 = seconds.map_or(1, |text| text.parse().expect("a number of whole seconds"));
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
    println!("MB/s of OpenSSL's own and of the provider in turns, and the ratio of their medians:");
    for algorithm in ALGORITHMS {
        for length in LENGTHS {
            let run = |is_ours: bool| speed(algorithm, length, seconds, is_ours.then_some(folder.as_path()));
            let [a1, b1, a2, b2] = [run(false), run(true), run(false), run(true)];
            let ratio = (b1 + b2) / (a1 + a2);
            println!("{algorithm:<18} {length:>6} B  {a1:>9.1} {b1:>9.1} {a2:>9.1} {b2:>9.1}   {ratio:.3}");
        }
    }
    kem(seconds, &folder);
    let _ = fs::remove_dir_all(&folder);
}

/// The folder of a newer OpenSSL, its libraries and the loader that goes with them.
const NEWER: &str = "/usr/local/lib/sealane-peers/strongswan/usr";

/// Prints operations of ML-KEM-768 a second by the newer OpenSSL.
fn kem(seconds: u32, folder: &Path) {
    let libraries = format!("{NEWER}/lib/{}-linux-gnu", std::env::consts::ARCH);
    let Some(loader) = ["ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"]
        .map(|name| Path::new(&libraries).join(name))
        .into_iter()
        .find(|loader| loader.exists() && Path::new(NEWER).join("bin/openssl").exists())
    else {
        println!("no newer OpenSSL (`cargo xtask peers` brings it): ML-KEM is not measured");
        return;
    };
    let run = |is_ours: bool| -> [f64; 3] {
        let mut command = Command::new(&loader);
        command.args(["--library-path", &libraries]).arg(format!("{NEWER}/bin/openssl"));
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
fn speed(algorithm: &str, length: u32, seconds: u32, ours: Option<&Path>) -> f64 {
    let mut command = Command::new("openssl");
    command.args(["speed", "-mr", "-seconds", &seconds.to_string(), "-bytes", &length.to_string()]);
    command.args(["-evp", algorithm]).env_remove("OPENSSL_CONF");
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
