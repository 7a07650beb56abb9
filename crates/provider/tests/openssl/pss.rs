//! Keys for RSA-PSS alone, made by `openssl genpkey`: the engine keeps them to their parameters, whoever asks.

use super::*;

/// The options with which a key is made, and whether they bind it to SHA-256, that for the mask, and a salt of 32 bytes.
const KEYS: [(&str, &[&str], bool); 2] = [
    ("free", &[], false),
    (
        "bound",
        &["rsa_pss_keygen_md:sha256", "rsa_pss_keygen_mgf1_md:sha256", "rsa_pss_keygen_saltlen:32"],
        true,
    ),
];

/// Returns a world with the keys, whose private halves only the engine has.
fn world_with_keys() -> World {
    let world = World::new();
    fs::write(world.path("message"), "a message\n").unwrap();
    for (name, options, _) in KEYS {
        let secret = world.path("secret.pem");
        let options = options.iter().chain(&["rsa_keygen_bits:2048"]).flat_map(|option| ["-pkeyopt", option]);
        good(
            world.plain("openssl").args(["genpkey", "-algorithm", "RSA-PSS", "-out", &secret]).args(options),
        );
        let public = world.path(&format!("{name}.pub"));
        good(world.plain("openssl").args(["pkey", "-in", &secret, "-pubout", "-out", &public]));
        world.engine.client().import(name, &fs::read(&secret).unwrap(), None).unwrap();
        fs::remove_file(secret).unwrap();
        let uri: Uri = world.uri(name).parse().unwrap();
        fs::write(world.path(&format!("{name}.key")), uri.to_pem()).unwrap();
    }
    world
}

#[test]
fn a_key_for_pss_alone_signs_what_its_parameters_allow() {
    if !have(&["openssl"]) {
        return;
    }
    let world = world_with_keys();
    for (name, _, is_bound) in KEYS {
        let (key, reference) = (world.uri(name), world.path(&format!("{name}.key")));
        let public = world.path(&format!("{name}.pub"));
        for (digest, options, is_allowed) in [
            ("sha256", &["rsa_pss_saltlen:digest"][..], true),
            ("sha256", &["rsa_pss_saltlen:40", "rsa_mgf1_md:sha256"], true),
            ("sha256", &["rsa_pss_saltlen:31"], !is_bound),
            ("sha256", &["rsa_mgf1_md:sha512"], !is_bound),
            ("sha384", &["rsa_pss_saltlen:digest"], !is_bound),
            ("sha256", &["rsa_padding_mode:pkcs1"], false),
            ("sha256", &["rsa_padding_mode:x931"], false),
        ] {
            let options: Vec<&str> = options.iter().flat_map(|option| ["-pkeyopt", option]).collect();
            let signing =
                ["pkeyutl", "-sign", "-rawin", "-digest", digest, "-in", "message", "-out", "signature"];
            for key in [&key, &reference] {
                let output =
                    world.command("openssl").args(signing).args(["-inkey", key]).args(&options).output();
                let output = output.unwrap();
                let told = String::from_utf8_lossy(&output.stderr);
                assert_eq!(output.status.success(), is_allowed, "{name} {digest} {options:?}: {told}");
            }
            if is_allowed {
                // OpenSSL's own code, and ours.
                for mut command in [world.plain("openssl"), world.command("openssl")] {
                    let verifying = ["pkeyutl", "-verify", "-rawin", "-digest", digest, "-in", "message"];
                    let whose = ["-sigfile", "signature", "-pubin", "-inkey", &public];
                    good(command.current_dir(world.folder.path()).args(verifying).args(whose).args(&options));
                }
            }
        }
        let told = world.openssl(&["pkey", "-in", &key, "-text_pub", "-noout"]).stdout;
        let told = String::from_utf8_lossy(&told).into_owned();
        assert!(told.contains("PSS parameter restrictions"), "{told}");
        assert_eq!(told.contains("Minimum Salt Length: 32"), is_bound, "{told}");
        let ours = world.openssl(&["pkey", "-in", &key, "-pubout"]).stdout;
        assert_eq!(String::from_utf8_lossy(&ours), fs::read_to_string(&public).unwrap());
        let mut decrypting = world.command("openssl");
        decrypting.args(["pkeyutl", "-decrypt", "-in", "signature", "-inkey", &key]);
        assert!(!decrypting.output().unwrap().status.success());
    }
}

/// TLS 1.3 has signatures of its own for such keys (RFC 8446, 4.2.3), and so has TLS 1.2.
#[test]
fn a_server_has_a_certificate_of_a_key_for_pss_alone() {
    if !have(&["openssl"]) {
        return;
    }
    let world = world_with_keys();
    for (name, ..) in KEYS {
        let certificate = world.certificate(name);
        for version in ["-tls1_3", "-tls1_2"] {
            let address = format!("127.0.0.1:{}", free_port());
            let done = world.done();
            let mut server = world.command("openssl");
            let reference = world.path(&format!("{name}.key"));
            server.args(["s_server", "-accept", &address, "-cert", &certificate, "-key", &reference]);
            let mut server = turning_server(server);
            let mut client = world.plain("openssl");
            client.args(["s_client", "-connect", &address, "-CAfile", &certificate, "-verify_return_error"]);
            client.args(["-quiet", "-no_ign_eof", "-sigalgs", "rsa_pss_pss_sha256", version]);
            let (answer, errors) = converse(client);
            server.wait().unwrap();
            assert_eq!(answer, "egassem a", "{name} {version}: {errors}");
            assert!(world.done() > done, "the engine has signed");
        }
    }
}

/// A program that prefers the provider makes keys by it, with the same options.
#[test]
fn keys_are_made_with_their_parameters() {
    if !have(&["openssl"]) {
        return;
    }
    let world = World::new();
    for (name, options, is_bound) in KEYS {
        let made = world.path(&format!("{name}.pem"));
        let mut command = world.command("openssl");
        command.env("OPENSSL_CONF", world.path("preferred.cnf"));
        command.args(["genpkey", "-algorithm", "RSA-PSS", "-out", &made, "-pkeyopt", "rsa_keygen_bits:3072"]);
        good(command.args(options.iter().flat_map(|option| ["-pkeyopt", option])));
        let told = good(world.plain("openssl").args(["pkey", "-in", &made, "-noout", "-text_pub"])).stdout;
        let told = String::from_utf8_lossy(&told).into_owned();
        assert!(told.contains("Public-Key: (3072 bit)"), "{told}");
        assert_eq!(told.contains("Minimum Salt Length: 32"), is_bound, "{told}");
        assert_eq!(told.contains("No PSS parameter restrictions"), !is_bound, "{told}");
    }
}
