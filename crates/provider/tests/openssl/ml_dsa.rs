//! ML-DSA with OpenSSL 3.5 and later: keys in all its forms are imported, and its programs sign by the engine what they verify alone.

use super::{World, converse, free_port, good, have, newer, skip, turning_server, wait_for};
use sealane_asymmetric::PrivateKey;
use sealane_client::{ClientError, KeyKind, MlDsaSet, Refusal, Uri, key};
use std::fs;
use std::path::Path;

/// A name of OpenSSL's, and the key's name at the engine.
const SETS: [(&str, &str); 3] =
    [("ML-DSA-44", "ml-dsa-44"), ("ML-DSA-65", "ml-dsa-65"), ("ML-DSA-87", "ml-dsa-87")];

/// The forms in which OpenSSL writes private keys, and the option that says so.
const FORMS: [&str; 5] = ["seed-only", "priv-only", "seed-priv", "bare-seed", "bare-priv"];

/// Returns worlds of OpenSSLs with ML-DSA, whose services have a key of each set.
fn worlds() -> impl Iterator<Item = World> {
    let folders = if have(&["openssl"]) { newer::folders() } else { Vec::new() };
    folders.into_iter().map(Some).map(World::of).map(|mut world| {
        let mut client = world.engine.client();
        for ((_, name), set) in SETS.into_iter().zip(MlDsaSet::ALL) {
            let key = PrivateKey::generate(KeyKind::MlDsa(set)).unwrap();
            client.import(name, &key.to_pkcs8().unwrap(), None).unwrap();
            let uri = Uri { name: name.to_owned(), socket: Some(world.engine.socket.clone()) };
            fs::write(world.path(&format!("{name}.key")), uri.to_pem()).unwrap();
            let public = key::pem("PUBLIC KEY", key.public());
            fs::write(world.path(&format!("{name}.pub")), public).unwrap();
            world.keys.push((name, key));
        }
        world
    })
}

#[test]
fn keys_of_openssl_are_imported_in_every_form() {
    for world in worlds() {
        let plain = |arguments: &[&str]| good(world.plain("openssl").args(arguments));
        let mut client = world.engine.client();
        for (set, kind) in SETS {
            let (first, sealed) = (world.path("first.pem"), world.path("sealed.pem"));
            plain(&["genpkey", "-algorithm", set, "-out", &first]);
            let public = plain(&["pkey", "-in", &first, "-pubout"]).stdout;
            for form in FORMS {
                let name = format!("{set}-{form}");
                let (pem, option) = (world.path(&name), format!("ml-dsa.output_formats={form}"));
                plain(&["pkey", "-in", &first, "-out", &pem, "-provparam", &option]);
                let bytes = fs::read(&pem).unwrap();
                let info = client.import(&name, &bytes, None).unwrap();
                assert_eq!(key::pem("PUBLIC KEY", &info.public).as_bytes(), public, "{name}");
                assert_eq!(info.kind.to_string(), kind);
                client.remove(&name).unwrap();
                // AWS-LC decrypts, and reads forms of the standard alone.
                if form.starts_with("bare-") {
                    continue;
                }
                plain(&[
                    "pkcs8",
                    "-topk8",
                    "-in",
                    &pem,
                    "-out",
                    &sealed,
                    "-passout",
                    "pass:word",
                    "-provparam",
                    &option,
                ]);
                let bytes = fs::read(&sealed).unwrap();
                let info = client.import(&name, &bytes, Some("word")).unwrap();
                assert_eq!(key::pem("PUBLIC KEY", &info.public).as_bytes(), public, "{name}, encrypted");
                let wrong = client.import("wrong", &bytes, Some("sword"));
                assert!(matches!(wrong, Err(ClientError::Refused(Refusal::BadKey))), "{wrong:?}");
            }
        }
        // The halves of two keys.
        let two = ["one", "two"].map(|name| {
            let path = world.path(name);
            plain(&["genpkey", "-algorithm", "ML-DSA-44", "-outform", "DER", "-out", &path]);
            fs::read(path).unwrap()
        });
        let at = two[0].len() - 2560;
        let mixed = [&two[0][..at], &two[1][at..]].concat();
        let error = client.import("mixed", &mixed, None).unwrap_err();
        assert!(error.to_string().contains("are those of different keys"), "{error}");
    }
}

#[test]
fn openssl_signs_with_keys_of_the_engine() {
    for world in worlds() {
        let plain = |arguments: &[&str]| good(world.plain("openssl").args(arguments));
        let (message, signature) = (world.path("message"), world.path("signature"));
        fs::write(&message, "a message").unwrap();
        for (set, name) in SETS {
            let public = world.path(&format!("{name}.pub"));
            let printed = world.openssl(&["pkey", "-in", &world.uri(name), "-pubout"]);
            assert_eq!(printed.stdout, fs::read(&public).unwrap(), "{set}");
            let before = world.done();
            for key in [world.uri(name), world.path(&format!("{name}.key"))] {
                for options in
                    [&[][..], &["-pkeyopt", "context-string:a context", "-pkeyopt", "deterministic:1"]]
                {
                    let signing =
                        ["pkeyutl", "-sign", "-rawin", "-inkey", &key, "-in", &message, "-out", &signature];
                    world.openssl(&[&signing, options].concat());
                    let verifying =
                        ["pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", &public, "-in", &message];
                    let context = options.get(..2).unwrap_or_default();
                    plain(&[&verifying[..], &["-sigfile", &signature], context].concat());
                    let ours = world
                        .command("openssl")
                        .args([&verifying[..], &["-sigfile", &signature], context].concat())
                        .output();
                    assert!(ours.unwrap().status.success(), "{set}");
                }
            }
            assert_eq!(world.done(), before + 4, "the service has signed");
            let certificate = world.certificate(name);
            plain(&["verify", "-CAfile", &certificate, &certificate]);
            let shown =
                String::from_utf8(plain(&["x509", "-in", &certificate, "-noout", "-text"]).stdout).unwrap();
            assert!(shown.contains(&format!("Signature Algorithm: {set}")), "{shown}");
            let request = world.path("request");
            let key = world.uri(name);
            world.openssl(&["req", "-new", "-key", &key, "-subj", "/CN=another", "-out", &request]);
            plain(&["req", "-in", &request, "-verify", "-noout"]);
            // It certifies another's key.
            let signed = world.path("signed");
            let authority = world.path("authority");
            let extension = "basicConstraints=critical,CA:TRUE";
            world.openssl(&[
                "req", "-x509", "-new", "-key", &key, "-subj", "/CN=ca", "-addext", extension, "-out",
                &authority,
            ]);
            world.openssl(&[
                "x509", "-req", "-in", &request, "-CA", &authority, "-CAkey", &key, "-out", &signed,
            ]);
            plain(&["verify", "-CAfile", &authority, &signed]);
        }
    }
}

#[test]
fn messages_are_signed_by_cms() {
    for world in worlds() {
        let (message, signed) = (world.path("message"), world.path("signed"));
        fs::write(&message, "a message").unwrap();
        for (set, name) in SETS {
            let certificate = world.certificate(name);
            let key = world.uri(name);
            let signing = [
                "cms",
                "-sign",
                "-binary",
                "-nodetach",
                "-md",
                "sha512",
                "-outform",
                "DER",
                "-in",
                &message,
                "-signer",
                &certificate,
                "-inkey",
                &key,
                "-out",
                &signed,
            ];
            let theirs = world.path("theirs.pem");
            // Versions without RFC 9882 cannot sign with a key of their own either.
            good(world.plain("openssl").args(["genpkey", "-algorithm", set, "-out", &theirs]));
            let own = world.path("own.crt");
            good(
                world
                    .plain("openssl")
                    .args(["req", "-x509", "-new", "-key", &theirs, "-subj", "/CN=own", "-out", &own]),
            );
            let trial = [
                "cms", "-sign", "-binary", "-md", "sha512", "-outform", "DER", "-in", &message, "-signer",
                &own, "-inkey", &theirs, "-out", &signed,
            ];
            if !world.plain("openssl").args(trial).output().unwrap().status.success() {
                skip::skip(format_args!("{:?}: no CMS with {set}", world.libraries));
                continue;
            }
            world.openssl(&signing);
            let mut verifying = world.plain("openssl");
            verifying.args([
                "cms",
                "-verify",
                "-binary",
                "-inform",
                "DER",
                "-in",
                &signed,
                "-CAfile",
                &certificate,
                "-purpose",
                "any",
            ]);
            assert_eq!(good(&mut verifying).stdout, b"a message", "{set}");
        }
    }
}

#[test]
fn tls_authenticates_both_ends_by_ml_dsa() {
    for world in worlds() {
        for (_, name) in SETS {
            let certificate = world.certificate(name);
            let reference = world.path(&format!("{name}.key"));
            for ours_serves in [true, false] {
                let accept = format!("127.0.0.1:{}", free_port());
                let before = world.done();
                let mut server = if ours_serves { world.command("openssl") } else { world.plain("openssl") };
                // The other end has a key of its own, of the same set.
                let (theirs, own) = (world.path("theirs.pem"), world.path("own.crt"));
                let set = name.to_uppercase();
                good(world.plain("openssl").args(["genpkey", "-algorithm", &set, "-out", &theirs]));
                good(
                    world
                        .plain("openssl")
                        .args(["req", "-x509", "-new", "-key", &theirs, "-subj", "/CN=own", "-out", &own]),
                );
                let (serving, asking) = if ours_serves {
                    ((&certificate, &reference), (&own, &theirs))
                } else {
                    ((&own, &theirs), (&certificate, &reference))
                };
                server.args([
                    "s_server", "-accept", &accept, "-cert", serving.0, "-key", serving.1, "-Verify", "1",
                    "-CAfile", asking.0,
                ]);
                let mut server = turning_server(server);
                let mut client = if ours_serves { world.plain("openssl") } else { world.command("openssl") };
                client
                    .args(["s_client", "-connect", &accept, "-cert", asking.0, "-key", asking.1, "-tls1_3"]);
                client.args(["-CAfile", serving.0, "-verify_return_error", "-quiet", "-no_ign_eof"]);
                let (answer, errors) = converse(client);
                server.wait().unwrap();
                assert_eq!(answer, "egassem a", "{name}, ours serves: {ours_serves}: {errors}");
                assert_eq!(world.done(), before + 1, "{name}: the service has signed");
            }
        }
    }
}

/// Starts nginx with the libraries of a newer OpenSSL, and has its certificate's key in the engine.
#[test]
fn nginx_serves_a_certificate_of_ml_dsa() {
    if !Path::new("/usr/sbin/nginx").exists() {
        return skip::skip("no nginx");
    }
    for world in worlds() {
        let (port, certificate) = (free_port(), world.certificate("ml-dsa-65"));
        let nginx = super::nginx(&world, port, "ml-dsa-65");
        wait_for(port);
        let before = world.done();
        for _ in 0..10 {
            let mut client = world.plain("openssl");
            let address = format!("127.0.0.1:{port}");
            client.args(["s_client", "-connect", &address, "-CAfile", &certificate, "-verify_return_error"]);
            let output = good(client.args(["-servername", "localhost"]).stdin(std::process::Stdio::null()));
            let told = String::from_utf8_lossy(&output.stdout);
            assert!(told.contains("Verify return code: 0") && told.contains("mldsa65"), "{told}");
        }
        assert_eq!(world.done(), before + 10, "the service has signed");
        let (_, key) = world.keys.iter().find(|(name, _)| *name == "ml-dsa-65").unwrap();
        super::has_no_secret(nginx.0.id(), &certificate, key);
    }
}

/// Keys of the program itself, where the provider is preferred.
#[test]
fn keys_of_the_program_are_used_by_the_provider() {
    for world in worlds() {
        let config = world.path("preferred.cnf");
        let run =
            |arguments: &[&str]| good(world.command("openssl").env("OPENSSL_CONF", &config).args(arguments));
        let plain = |arguments: &[&str]| good(world.plain("openssl").args(arguments));
        let (message, signature) = (world.path("message"), world.path("signature"));
        fs::write(&message, "a message").unwrap();
        let before = world.done();
        for (set, _) in SETS {
            let (ours, theirs) = (world.path("ours"), world.path("theirs"));
            run(&["genpkey", "-algorithm", set, "-out", &ours]);
            plain(&["genpkey", "-algorithm", set, "-out", &theirs]);
            for key in [&ours, &theirs] {
                let signing =
                    ["pkeyutl", "-sign", "-rawin", "-inkey", key, "-in", &message, "-out", &signature];
                let verifying =
                    ["pkeyutl", "-verify", "-rawin", "-inkey", key, "-in", &message, "-sigfile", &signature];
                run(&signing);
                plain(&verifying);
                plain(&signing);
                run(&verifying);
                assert!(PrivateKey::import(&fs::read(key).unwrap(), None).is_ok());
            }
        }
        assert_eq!(world.done(), before, "the service has nothing to do with these");
    }
}
