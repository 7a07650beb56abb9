//! Certificates that programs find beside keys, keys that they make, and secrets that they agree on.

use super::*;

/// Gives the service a key that `openssl` made, with its certificate and that of its issuer.
fn certified(world: &World, name: &str, key: &[&str]) {
    let openssl = |arguments: &[&str]| good(world.command("openssl").args(arguments));
    for (who, subject) in [("root", "/CN=root"), (name, "/CN=localhost")] {
        openssl(&[&["genpkey", "-out", &format!("{who}.pem"), "-quiet"], key].concat());
        if who == "root" {
            openssl(&[
                "req", "-x509", "-key", "root.pem", "-out", "root.crt", "-subj", subject, "-days", "9",
            ]);
        } else {
            let (pem, csr) = (format!("{who}.pem"), format!("{who}.csr"));
            openssl(&["req", "-new", "-key", &pem, "-out", &csr, "-subj", subject]);
            let out = format!("{who}.crt");
            let signing =
                ["x509", "-req", "-in", &csr, "-CA", "root.crt", "-CAkey", "root.pem", "-days", "9"];
            openssl(&[&signing[..], &["-CAcreateserial", "-out", &out]].concat());
        }
    }
    let mut client = world.engine.client();
    client.import(name, &fs::read(world.path(&format!("{name}.pem"))).unwrap(), None).unwrap();
    let read = |file: &str| fs::read_to_string(world.path(file)).unwrap();
    let text = read(&format!("{name}.crt")) + &read("root.crt");
    client.certify(name, &key::all_of_pem("CERTIFICATE", &text, 9)).unwrap();
}

#[test]
fn opensc_reads_certificates_and_makes_keys_and_secrets() {
    if !have(&["pkcs11-tool", "openssl"]) {
        return;
    }
    let world = World::new(None);
    certified(&world, "web", &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-521"]);
    let id = world.id("web");
    world.tool(&["--read-object", "--type", "cert", "--id", &id, "--output-file", "read.der"]);
    good(world.command("openssl").args(["x509", "-in", "web.crt", "-outform", "DER", "-out", "web.der"]));
    assert_eq!(fs::read(world.path("read.der")).unwrap(), fs::read(world.path("web.der")).unwrap());
    let objects = world.tool(&["--list-objects", "--type", "cert"]);
    assert!(objects.contains("CN=root") && objects.contains("CN=localhost"), "{objects}");
    world.tool(&["--keypairgen", "--key-type", "EC:prime256v1", "--label", "made"]);
    let id = world.id("made");
    let signing = ["--sign", "--mechanism", "ECDSA-SHA256", "--signature-format", "sequence", "--id", &id];
    world.tool(&[&signing[..], &["--input-file", "message", "--output-file", "signature"]].concat());
    let reading = ["--read-object", "--type", "pubkey", "--id", &id, "--output-file", "made.der"];
    world.tool(&reading);
    let verifying = ["dgst", "-sha256", "-verify", "made.der", "-keyform", "DER", "-signature", "signature"];
    good(world.command("openssl").args(verifying).arg("message"));
    // OpenSSL agrees on the same secret.
    let openssl = |arguments: &[&str]| good(world.command("openssl").args(arguments));
    openssl(&["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "peer.pem"]);
    openssl(&["pkey", "-in", "peer.pem", "-pubout", "-outform", "DER", "-out", "peer.der"]);
    openssl(&["pkey", "-pubin", "-inform", "DER", "-in", "made.der", "-out", "made.pub"]);
    openssl(&["pkeyutl", "-derive", "-inkey", "peer.pem", "-peerkey", "made.pub", "-out", "theirs"]);
    let deriving = ["--derive", "--mechanism", "ECDH1-DERIVE", "--id", &id, "--input-file", "peer.der"];
    world.tool(&[&deriving[..], &["--output-file", "ours"]].concat());
    assert_eq!(fs::read(world.path("ours")).unwrap(), fs::read(world.path("theirs")).unwrap());
}

#[test]
fn java_lists_keys_that_have_certificates() {
    if !have(&["keytool", "openssl"]) {
        return;
    }
    let world = World::new(None);
    certified(&world, "web", &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]);
    let config = format!("name = Sealane\nlibrary = {}\nslotListIndex = 0\n", library().display());
    fs::write(world.path("java.cfg"), config).unwrap();
    let mut keytool = world.command("keytool");
    keytool.args(["-list", "-v", "-keystore", "NONE", "-storetype", "PKCS11", "-storepass", "1234"]);
    keytool.args(["-providerClass", "sun.security.pkcs11.SunPKCS11", "-providerArg", "java.cfg"]);
    let told = String::from_utf8_lossy(&good(&mut keytool).stdout).into_owned();
    for line in
        ["Alias name: web", "Entry type: PrivateKeyEntry", "Certificate chain length: 2", "CN=localhost"]
    {
        assert!(told.contains(line), "{line}: {told}");
    }
}
