//! Certificates of a store, and what programs do with keys beside TLS: they decrypt mail, print keys, and sign for old protocols.

use super::*;

#[test]
fn a_store_has_the_certificates_of_its_key() {
    if !have(&["openssl"]) {
        return;
    }
    let world = World::new();
    let path = world.certificate("ec");
    let text = fs::read_to_string(&path).unwrap();
    let chain = sealane_client::key::all_of_pem("CERTIFICATE", &text, 9);
    let uri = world.uri("ec");
    let mut client = world.engine.client();
    let found = world.command("openssl").args(["storeutl", "-certs", &uri]).output().unwrap();
    assert!(!String::from_utf8_lossy(&found.stdout).contains("BEGIN CERTIFICATE"));
    client.certify("ec", &chain).unwrap();
    let all = world.openssl(&["storeutl", &uri]).stdout;
    let certificates = world.openssl(&["storeutl", "-certs", &uri]).stdout;
    for told in [&all, &certificates] {
        assert!(String::from_utf8_lossy(told).contains(text.trim()), "{}", String::from_utf8_lossy(told));
    }
    assert!(String::from_utf8_lossy(&certificates).contains("Total found: 1"));
    let shown = world.openssl(&["x509", "-in", &uri, "-noout", "-subject"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("localhost"));
}

#[test]
fn mail_is_decrypted_and_keys_are_printed() {
    if !have(&["openssl"]) {
        return;
    }
    let world = World::new();
    fs::write(world.path("message"), "a message\n").unwrap();
    for (name, printed) in [("rsa", "Public-Key: (2048 bit"), ("ec", "NIST CURVE: P-256"), ("ed", "ED25519")]
    {
        let told = world.openssl(&["pkey", "-in", &world.uri(name), "-text_pub", "-noout"]).stdout;
        assert!(
            String::from_utf8_lossy(&told).contains(printed),
            "{name}: {}",
            String::from_utf8_lossy(&told)
        );
        let told = world.openssl(&["pkey", "-in", &world.uri(name), "-text", "-pubout", "-noout"]).stdout;
        assert!(
            String::from_utf8_lossy(&told).contains(printed),
            "{name}: {}",
            String::from_utf8_lossy(&told)
        );
    }
    for name in ["rsa", "ec"] {
        let certificate = world.certificate(name);
        for digest in ["sha256", "sha384"] {
            let agreeing: &[&str] = match name {
                "ec" => &["-keyopt", &format!("ecdh_kdf_md:{digest}")],
                _ => &[],
            };
            let encrypting =
                ["cms", "-encrypt", "-aes128", "-in", "message", "-out", "sealed", "-recip", &certificate];
            good(world.plain("openssl").current_dir(world.folder.path()).args(encrypting).args(agreeing));
            let (key, reference) = (world.uri(name), world.path(&format!("{name}.key")));
            for key in [&key, &reference] {
                let decrypting = ["cms", "-decrypt", "-in", "sealed", "-recip", &certificate, "-inkey", key];
                let told = world.openssl(&decrypting).stdout;
                assert_eq!(String::from_utf8_lossy(&told).trim(), "a message", "{name} {digest}");
            }
        }
        let signing = [
            "cms",
            "-sign",
            "-in",
            "message",
            "-signer",
            &certificate,
            "-inkey",
            &world.uri(name),
            "-out",
            "signed",
        ];
        world.openssl(&signing);
        let verifying = ["cms", "-verify", "-in", "signed", "-CAfile", &certificate, "-purpose", "any"];
        good(world.plain("openssl").current_dir(world.folder.path()).args(verifying));
    }
}

#[test]
fn old_hashes_are_signed_by_rsa_for_old_protocols() {
    if !have(&["openssl"]) {
        return;
    }
    let world = World::new();
    fs::write(world.path("message"), "a message\n").unwrap();
    for hash in ["-md5", "-md5-sha1"] {
        let (key, public) = (world.uri("rsa"), world.path("rsa.pub"));
        world.openssl(&["dgst", hash, "-sign", &key, "-out", "signature", "message"]);
        let verifying = ["dgst", hash, "-verify", &public, "-signature", "signature", "message"];
        good(world.plain("openssl").current_dir(world.folder.path()).args(verifying));
        world.openssl(&verifying);
    }
    // TLS 1.0 has a key exchange that is signed with both.
    let certificate = world.certificate("rsa");
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    let mut server = world.command("openssl");
    let old = ["-tls1", "-cipher", "DEFAULT@SECLEVEL=0"];
    server.args(["s_server", "-accept", &address, "-cert", &certificate, "-key", &world.path("rsa.key")]);
    let mut server = turning_server({
        server.args(old);
        server
    });
    let mut client = world.plain("openssl");
    client.args(["s_client", "-connect", &address, "-CAfile", &certificate, "-verify_return_error"]);
    client.args(["-quiet", "-no_ign_eof"]).args(old);
    let (answer, errors) = converse(client);
    server.wait().unwrap();
    assert_eq!(answer, "egassem a", "{errors}");
}
