//! Newer OpenSSLs: their own programs, and others of this machine with their libraries.

use super::{World, converse, free_port, good, have, skip, turning_server};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The folders of newer OpenSSLs (`cargo xtask peers`): 3.5, which is supported for years, and the newest.
const NEWER: [&str; 2] =
    ["/usr/local/lib/sealane-peers/openssl-3.5/usr", "/usr/local/lib/sealane-peers/strongswan/usr"];

/// Returns a command that runs a program with the libraries of a newer OpenSSL, by the loader that goes with them. Its `openssl`
/// is its own, because that of 3.0 relies on what 3.5 has changed; other programs are this machine's.
pub(crate) fn with_libraries(folder: &str, program: &str) -> Command {
    let libraries = format!("{folder}/lib/x86_64-linux-gnu");
    let mut command = Command::new(format!("{libraries}/ld-linux-x86-64.so.2"));
    command.args(["--library-path", &format!("{libraries}:/usr/lib/x86_64-linux-gnu")]);
    let own = Path::new(folder).join("bin").join(program);
    command.arg(if own.exists() { own } else { Path::new("/usr/bin").join(program) });
    command
}

/// Returns the folders of newer OpenSSLs that are here; reports a skipped test for each that is not.
pub(crate) fn folders() -> Vec<&'static str> {
    let is_newer = |folder: &&str| {
        let output = with_libraries(folder, "openssl").arg("version").output();
        let version = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let is_newer = version
            .is_ok_and(|version| version.starts_with("OpenSSL 3.") && !version.starts_with("OpenSSL 3.0."));
        if !is_newer {
            skip::skip(format_args!("no newer OpenSSL in {folder}"));
        }
        is_newer
    };
    NEWER.into_iter().filter(is_newer).collect()
}

/// ML-KEM is in TLS since OpenSSL 3.5.
#[test]
fn a_newer_openssl_agrees_by_ml_kem() {
    if have(&["openssl"]) {
        folders().into_iter().map(Some).map(World::of).for_each(|world| agrees_by_ml_kem(&world));
    }
}

fn agrees_by_ml_kem(world: &World) {
    let certificate = world.certificate("ec");
    for group in ["X25519MLKEM768", "MLKEM512", "MLKEM768", "MLKEM1024", "SecP384r1MLKEM1024"] {
        for ours_serves in [true, false] {
            let (counting, counters) = world.counting();
            let accept = format!("127.0.0.1:{}", free_port());
            let (mut server, mut client) = (world.command("openssl"), world.plain("openssl"));
            (if ours_serves { &mut server } else { &mut client }).env("OPENSSL_CONF", &counting);
            let reference = world.path("ec.key");
            server.args(["s_server", "-accept", &accept, "-cert", &certificate, "-key", &reference]);
            server.args(["-groups", group]);
            let mut server = turning_server(server);
            client.args(["s_client", "-connect", &accept, "-groups", group]);
            client.args(["-CAfile", &certificate, "-verify_return_error", "-quiet", "-no_ign_eof"]);
            let (answer, errors) = converse(client);
            server.wait().unwrap();
            assert_eq!(answer, "egassem a", "{group}, ours serves: {ours_serves}: {errors}");
            let counted = fs::read_to_string(&counters).unwrap_or_default();
            let operation = if ours_serves { "\"encapsulate\":" } else { "\"decapsulate\":" };
            assert!(counted.contains(operation), "{group}, ours serves: {ours_serves}: {counted}");
        }
    }
}

/// The program's own benchmark fetches what it measures by name; the counters show who has computed.
#[test]
fn openssls_benchmark_runs_by_the_provider() {
    if !have(&["openssl"]) {
        return;
    }
    for world in World::all() {
        for (what, counted) in [(&["-evp", "aes-128-gcm"][..], "AES-128-GCM"), (&["ed25519"], "verify")] {
            let (counting, counters) = world.counting();
            let mut speed = world.command("openssl");
            speed.args(["speed", "-mr", "-seconds", "1", "-bytes", "1024"]).args(what);
            let told = good(speed.env("OPENSSL_CONF", counting)).stdout;
            assert!(String::from_utf8_lossy(&told).contains("+F"), "{what:?}");
            let counted_all = fs::read_to_string(counters).unwrap_or_default();
            assert!(counted_all.contains(&format!("\"{counted}\":")), "{what:?}: {counted_all}");
        }
    }
}
