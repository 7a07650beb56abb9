//! Measures ciphers and digests through the provider beside OpenSSL's own, by `openssl speed`, in turns. Run it with
//! `cargo bench -p sealane-provider --bench ciphers [SECONDS]`: that is the time of each of four runs per row.
//!
//! The provider's counters show that it computed; a row fails if they do not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const ALGORITHMS: [&str; 7] =
    ["aes-128-gcm", "aes-256-gcm", "chacha20-poly1305", "aes-128-cbc", "aes-128-ctr", "sha256", "sha3-256"];
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
    let _ = fs::remove_dir_all(&folder);
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
        let plain = |text: &str| text.to_lowercase().replace("sha2-", "sha");
        assert!(plain(&counted).contains(&format!("\"{algorithm}\"")), "{algorithm}: {counted}");
    }
    rate / 1e6
}
