//! OpenSSL's own vectors, run by OpenSSL's own program.

use super::{World, good, skip};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// OpenSSL's own test program and its vectors, built from its source (`cargo xtask peers`).
const EVP_TEST: &str = "/usr/local/lib/sealane-peers/openssl";

/// The files of vectors, what the names of their counters contain, and the values of the first lines of stanzas whose
/// algorithms are offered, in small letters.
const VECTORS: [(&str, &[&str], &[&str]); 6] = [
    (
        "evpciph_aes_common.txt",
        &["AES"],
        &[
            "aes-128-gcm",
            "aes-192-gcm",
            "aes-256-gcm",
            "aes-128-cbc",
            "aes-192-cbc",
            "aes-256-cbc",
            "aes-128-ctr",
            "aes-192-ctr",
            "aes-256-ctr",
        ],
    ),
    ("evpciph_chacha.txt", &["ChaCha"], &["chacha20-poly1305"]),
    ("evppkey_ecx.txt", &["derive", "sign", "verify"], &["25519", "wyche"]),
    ("evppkey_rsa_common.txt", &["sign", "verify", "crypt"], &["rsa-2048"]),
    ("evppkey_ecdsa.txt", &["sign", "verify"], &["p-256", "p-384"]),
    ("evppkey_ecdh.txt", &["derive"], &["prime256v1", "secp384r1"]),
];

/// The beginnings of the first lines of stanzas that are tests.
const KINDS_OF_STANZAS: [&str; 6] = ["Cipher", "Derive", "Sign", "Verify", "Encrypt", "Decrypt"];

/// With every version, every stanza of these files passes where the provider is preferred, and it has computed those of its algorithms.
#[test]
fn openssls_own_vectors_pass() {
    let folder = Path::new(EVP_TEST);
    if !folder.join("evp_test").exists() {
        return skip::skip("no evp_test of OpenSSL's (`cargo xtask peers` builds it)");
    }
    World::all().for_each(|world| vectors_pass(&world, folder));
}

fn vectors_pass(world: &World, folder: &Path) {
    let program = folder.join("evp_test").into_os_string().into_string().unwrap();
    let mut report = String::new();
    for (file, counters_of_it, offered) in VECTORS {
        let path = folder.join(file);
        let is_offered = |line: &&str| {
            let first =
                line.split_once('=').map(|(_, value)| value.trim().to_lowercase()).unwrap_or_default();
            offered.iter().any(|name| first == *name || (file.contains("pkey") && first.contains(name)))
        };
        let text = fs::read_to_string(&path).unwrap();
        let first_lines = text.split("\n\n").filter_map(|stanza| {
            stanza.lines().find(|line| !line.starts_with('#') && !line.trim().is_empty())
        });
        let tests = first_lines
            .filter(|line| KINDS_OF_STANZAS.iter().any(|kind| line.starts_with(kind)))
            .filter(is_offered)
            .count();
        let (counting, counters) = world.counting();
        let output = world.plain(&program).args(["-config", &counting]).arg(&path).output().unwrap();
        let told =
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        let errors = told.lines().filter(|line| line.contains("rror") || line.contains("xpected"));
        assert!(output.status.success(), "{file}: {}", errors.collect::<Vec<_>>().join("\n"));
        let counted = fs::read_to_string(&counters).unwrap_or_default();
        let operations: usize = counted
            .trim_matches(['{', '}', '\n'])
            .split(',')
            .skip(1)
            .filter(|entry| counters_of_it.iter().any(|counter| entry.contains(counter)))
            .filter_map(|entry| entry.rsplit(':').next()?.parse::<usize>().ok())
            .sum();
        assert!(tests > 0 && operations >= tests, "{file}: {tests} tests, but {counted}");
        let all = told.lines().find(|line| line.contains("Completed")).unwrap_or_default();
        let _ = write!(report, "\n  {file}: {tests} stanzas of ours, {operations} operations;{all}");
    }
    let version = good(world.plain("openssl").arg("version")).stdout;
    let version = String::from_utf8_lossy(&version);
    skip::say(format_args!("nothing; OpenSSL's own vectors pass with {}:{report}", version.trim_end()));
}
