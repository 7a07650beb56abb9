//! Road warriors: clients with addresses of a pool, strongSwan and ours, in either role.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::network::namespaces::ip;
use crate::network::strongswan::{self, StrongSwan};
use crate::network::{self, Net};
use crate::program::{Ends, sealane, skip, text, unless, wait_for};
use crate::{INNER, P256, certificates, sas, secret, wait_for_words};

/// The addresses of our gateway on its cables to two clients.
pub(super) const GATEWAY: [&str; 2] = ["10.90.0.1", "10.90.3.1"];

/// Makes a gateway `a` with a cable to each of two hosts `b` and `c`, and certificates for `hq.example` and
/// `branch.example`; if that cannot be, or something is `missing`, the test is skipped.
pub(super) fn three_hosts(tag: &str, missing: fn() -> Option<String>) -> Option<Net> {
    unless(missing())?;
    let net = Net::new(tag, &["a", "b", "c"]);
    net.link([("a", "o0", "10.90.0.1/24"), ("b", "o0", "10.90.0.2/24")], 1500);
    net.link([("a", "o1", "10.90.3.1/24"), ("c", "o0", "10.90.3.2/24")], 1500);
    let folder = net.folder.path();
    certificates(folder, P256)?;
    secret(folder, "users", "# name:password\nalice:correct horse\nbob:battery staple\n");
    secret(folder, "password", "correct horse\n");
    Some(net)
}

/// Returns the site of our gateway for clients.
pub(super) fn gateway(ways: &str) -> String {
    format!(
        "listen = \"0.0.0.0:4500\"\naddresses = [\"{}/24\", \"fd91:1::1/64\"]\n\
         [pool]\nnetworks = [\"10.99.0.0/24\", \"fd99::/64\"]\ndns = [\"10.91.1.53\"]\ndomains = [\"corp.example\"]\n\
         [[peers]]\nname = \"clients\"\n[peers.ike]\nany = true\nlocal-id = \"hq.example\"\n\
         local-networks = [\"10.91.1.0/24\", \"fd91:1::/64\"]\nprivate-key = \"hq.key\"\ncertificate = \"hq.crt\"\n{ways}\n",
        INNER[0]
    )
}

/// Returns strongSwan's configuration as a client of the gateway at `remote`.
pub(super) fn client(remote: &str, local: &str, password: &str) -> String {
    format!(
        "connections {{
    rw {{
        version = 2
        remote_addrs = {remote}
        encap = yes
        vips = 0.0.0.0
        local {{
            {local}
        }}
        remote {{
            auth = pubkey
            id = hq.example
        }}
        children {{
            c {{
                remote_ts = 10.91.1.0/24
            }}
        }}
    }}
}}
secrets {{
    eap-1 {{
        id = alice
        secret = \"{password}\"
    }}
}}
"
    )
}

/// Puts the files of the authority and of `name` into strongSwan's folders.
pub(super) fn install(folder: &Path, swanctl: &Path, name: &str) {
    let (certificate, key) = (format!("{name}.crt"), format!("{name}.key"));
    for (name, to) in [("ca.crt", "x509ca"), (&*certificate, "x509"), (&*key, "private")] {
        fs::copy(folder.join(name), swanctl.join(to).join(name)).expect("a file");
    }
}

/// Makes profiles in the folder, with a program that needs no rights.
fn profiles(folder: &Path) -> Vec<String> {
    fs::write(
        folder.join("clients.toml"),
        format!("device = \"sl0\"\n{}", gateway("users-file = \"users\"")),
    )
    .expect("a site file");
    let path = |name: &str| folder.join(name).display().to_string();
    let arguments = [
        "tunnel",
        "profile",
        &path("clients.toml"),
        "alice",
        "--name",
        "A & B",
        "--device",
        "Phone",
        "--folder",
        &path(""),
    ];
    let output = sealane(&arguments).ends(0);
    let again = sealane(&arguments).output().expect("it runs");
    assert!(!again.status.success() && text(&again.stderr).contains("exists"), "{}", text(&again.stderr));
    text(&output.stdout).lines().map(str::to_owned).collect()
}

/// Prints what a property list has, as a foreign reader finds it.
const READ: &str = "
import json, plistlib, sys
whole = plistlib.load(open(sys.argv[1], 'rb'))
root, vpn = whole['PayloadContent']
print(json.dumps({
    'types': [whole['PayloadType'], root['PayloadType'], vpn['PayloadType']],
    'name': vpn['UserDefinedName'],
    'ike': vpn['IKEv2'],
    'primary': vpn['IPv4']['OverridePrimary'],
    'authority': root['PayloadContent'].hex(),
    'ids': len({part['PayloadUUID'] for part in (whole, root, vpn)}),
}))
";

#[test]
fn profiles_are_read_by_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let Some(()) = certificates(folder, P256) else { return };
    secret(folder, "users", "alice:correct horse\n");
    let made = profiles(folder);
    assert_eq!(made.len(), 3, "{made:?}");
    let Ok(output) = Command::new("python3").args(["-c", READ, &made[0]]).output() else {
        return skip("no python3");
    };
    assert!(output.status.success(), "{}", text(&output.stderr));
    let read: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let types = ["Configuration", "com.apple.security.root", "com.apple.vpn.managed"];
    assert_eq!(read["types"], serde_json::json!(types));
    assert_eq!((&read["name"], &read["ids"], &read["primary"]), (&"A & B".into(), &3.into(), &0.into()));
    let ike = &read["ike"];
    for (key, value) in [
        ("RemoteAddress", "hq.example"),
        ("RemoteIdentifier", "hq.example"),
        ("AuthName", "alice"),
        // The user's devices differ in it.
        ("LocalIdentifier", "phone.alice"),
        ("AuthenticationMethod", "None"),
        ("CertificateType", "ECDSA256"),
    ] {
        assert_eq!(ike[key], value, "{read}");
    }
    for association in ["IKESecurityAssociationParameters", "ChildSecurityAssociationParameters"] {
        assert_eq!(ike[association]["EncryptionAlgorithm"], "AES-256-GCM");
        assert_eq!(ike[association]["DiffieHellmanGroup"], 20);
    }
    let output = Command::new("openssl")
        .args(["x509", "-in", "ca.crt", "-outform", "der"])
        .current_dir(folder)
        .output()
        .expect("it ran before");
    assert_eq!(read["authority"], crate::program::hex(&output.stdout));
}

/// Runs OpenSSL in a folder.
pub(super) fn openssl(folder: &Path, arguments: &str) {
    let output = Command::new("openssl").args(arguments.split(' ')).current_dir(folder).output();
    let output = output.expect("it ran before");
    assert!(output.status.success(), "openssl {arguments}: {}", text(&output.stderr));
}

#[test]
fn a_user_imports_a_certificate_and_connects() {
    let Some(mut net) = three_hosts("ku", strongswan::users_are_missing) else { return };
    let folder = net.folder.path().to_owned();
    let path = |name: &str| folder.join(name).display().to_string();
    let user = "alice@example.org";
    sealane(&["tunnel", "pki", &path("people"), "--user", user]).ends(0);
    let site = gateway("users-ca = \"people/ca.crt\"");
    fs::write(folder.join("clients.toml"), format!("device = \"sl0\"\n{site}")).expect("a site file");
    let files = [path(&format!("people/{user}.crt")), path(&format!("people/{user}.key"))];
    let [certificate, key] = &files;
    let arguments = ["tunnel", "profile", &path("clients.toml"), user, "--folder", &path("")];
    let with = ["--certificate", certificate, "--private-key", key];
    let output = sealane(&[&arguments[..], &with].concat()).ends(0);
    let said = text(&output.stderr);
    let (_, rest) = said.split_once("devices ask for ").expect("the password is told");
    let password = rest.split(' ').next().expect("a word");
    // Another program imports what the profile for Android holds.
    let profile = fs::read(folder.join(format!("{user}.sswan"))).expect("it was made");
    let profile: serde_json::Value = serde_json::from_slice(&profile).expect("JSON");
    fs::write(folder.join("bundle"), profile["local"]["p12"].as_str().expect("a text")).expect("a file");
    openssl(&folder, "base64 -d -A -in bundle -out imported.p12");
    let import = format!("pkcs12 -legacy -in imported.p12 -passin pass:{password}");
    openssl(&folder, &format!("{import} -nokeys -out imported.crt"));
    openssl(&folder, &format!("{import} -nocerts -nodes -out imported.key"));
    net.gateway("a", 1400, &site);
    let local = format!(
        "auth = eap-tls\n            certs = imported.crt\n            id = {user}\n            eap_id = {user}"
    );
    let configuration = client(GATEWAY[0], &local, "-");
    let client =
        StrongSwan::start(&mut net, "b", &configuration, |swanctl| install(&folder, swanctl, "imported"));
    client.control(&net, "--initiate --child c");
    net.wait_for_ping("b", INNER[0]);
    assert_eq!(net.status("a")["peers"][0]["ike"][0]["user"], user);
}

pub(super) const ALICE: &str = "auth = eap-mschapv2\n            id = alice\n            eap_id = alice";

#[test]
fn clients_with_passwords_and_certificates_get_addresses_and_reach_the_network() {
    let Some(mut net) = three_hosts("kw", strongswan::users_are_missing) else { return };
    let folder = net.folder.path().to_owned();
    net.gateway("a", 1400, &gateway("users-file = \"users\"\nusers-ca = \"ca.crt\""));
    let alice = client(GATEWAY[0], ALICE, "correct horse");
    let alice = StrongSwan::start(&mut net, "b", &alice, |swanctl| install(&folder, swanctl, "branch"));
    let local = "auth = eap-tls\n            certs = branch.crt\n            id = branch.example\n            eap_id = branch.example";
    let branch = client(GATEWAY[1], local, "-");
    let branch = StrongSwan::start(&mut net, "c", &branch, |swanctl| install(&folder, swanctl, "branch"));
    alice.control(&net, "--initiate --child c");
    branch.control(&net, "--initiate --child c");
    net.wait_for_ping("b", INNER[0]);
    net.wait_for_ping("c", INNER[0]);
    let status = net.status("a");
    let all = status["peers"][0]["ike"].as_array().expect("a list").clone();
    let field = |name: &str| all.iter().map(|ike| ike[name].clone()).collect::<Vec<_>>();
    assert_eq!(field("user"), ["alice", "branch.example"], "{status}");
    let addresses = [["10.99.0.1"], ["10.99.0.2"]].map(|all| serde_json::json!(all));
    assert_eq!(field("addresses"), addresses, "{status}");
    assert_eq!(all[1]["children"][0]["traffic"], "10.91.1.0/24 === 10.99.0.2/32");
    assert_eq!(status["peers"][0]["endpoint"], serde_json::Value::Null);
    // Each client is reached at its own address.
    net.wait_for_ping("a", "10.99.0.1");
    net.wait_for_ping("a", "10.99.0.2");
    // A client that comes back has its address again, whoever came in between.
    alice.control(&net, "--terminate --ike rw");
    wait_for("alice's end", || sas(&net, "a").len() == 1);
    alice.control(&net, "--initiate --child c");
    net.wait_for_ping("b", INNER[0]);
    assert!(alice.associations(&net).contains("10.99.0.1"), "{}", alice.log());
    net.wait_for_ping("c", INNER[0]);
    let lost = crate::dropped(&net, "a", &["unknown_spi", "selector_mismatch"]);
    assert!(lost.is_empty(), "{lost:?}");
}

#[test]
fn two_devices_of_one_user_do_not_cut_each_other_off() {
    let Some(mut net) = three_hosts("d1", strongswan::users_are_missing) else { return };
    let folder = net.folder.path().to_owned();
    net.gateway("a", 1400, &gateway("users-file = \"users\""));
    // Each says that no earlier IKE SA of alice is left (INITIAL_CONTACT), which is true of itself.
    let mut devices = Vec::new();
    for (host, at) in [("b", GATEWAY[0]), ("c", GATEWAY[1])] {
        let text = client(at, ALICE, "correct horse");
        let device = StrongSwan::start(&mut net, host, &text, |swanctl| install(&folder, swanctl, "branch"));
        device.control(&net, "--initiate --child c");
        net.wait_for_ping(host, INNER[0]);
        devices.push((host, device));
    }
    let told = |device: &StrongSwan| device.log().contains("N(INIT_CONTACT)");
    assert!(devices.iter().all(|(_, device)| told(device)), "{}", devices[0].1.log());
    let all = sas(&net, "a");
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(all.iter().all(|ike| ike["user"] == "alice"), "{all:?}");
    for (host, device) in &devices {
        net.wait_for_ping(host, INNER[0]);
        assert!(device.associations(&net).contains("INSTALLED"), "{}", device.log());
    }
    // The first one is restarted: it is replaced, and the other one is not.
    net.children.remove(net.children.len() - 2);
    let text = client(GATEWAY[0], ALICE, "correct horse");
    let again = StrongSwan::start(&mut net, "b", &text, |_| {});
    again.control(&net, "--initiate --child c");
    wait_for_words(&mut net, 0, "the IKE SA with alice at 10.90.0.2:4500 is over");
    assert_eq!(sas(&net, "a").len(), 2);
    net.wait_for_ping("c", INNER[0]);
}

#[test]
fn a_client_with_a_wrong_password_gets_nothing() {
    let Some(mut net) = three_hosts("kx", strongswan::users_are_missing) else { return };
    let folder = net.folder.path().to_owned();
    net.gateway("a", 1400, &gateway("users-file = \"users\""));
    let text = client(GATEWAY[0], ALICE, "wrong");
    let alice = StrongSwan::start(&mut net, "b", &text, |swanctl| install(&folder, swanctl, "branch"));
    let output = alice.try_control(&net, "--initiate --child c");
    assert!(!output.status.success());
    // The line is for people and for programs such as fail2ban, which look for the address.
    wait_for_words(
        &mut net,
        0,
        "authentication failed from 10.90.0.2 for \"alice\": there is no user \"alice\", or",
    );
    let status = net.status("a");
    assert_eq!(status["peers"][0]["ike"], serde_json::json!([]), "{status}");
    assert_eq!(status["peers"][0]["associations"], serde_json::json!([]), "{status}");
}

/// Returns strongSwan's configuration as a gateway for users.
const POOL_OF_STRONGSWAN: &str = "connections {
    rw {
        version = 2
        remote_addrs = %any
        encap = yes
        pools = rw
        send_cert = always
        local {
            auth = pubkey
            certs = branch.crt
            id = branch.example
        }
        remote {
            auth = eap-mschapv2
            id = %any
            eap_id = %any
        }
        children {
            c {
                local_ts = 10.91.2.0/24
            }
        }
    }
}
pools {
    rw {
        addrs = 10.99.0.0/24
        dns = 10.91.2.53
    }
}
secrets {
    eap-1 {
        id = alice
        secret = \"correct horse\"
    }
}
";

/// Returns the addresses of the gateway's device in `host`.
fn addresses(net: &Net, host: &str) -> String {
    text(&net.run(host, "ip", "-brief address show dev sl0").stdout).to_owned()
}

#[test]
fn we_are_a_client_of_strongswans_pool() {
    let Some(mut net) = three_hosts("ky", strongswan::users_are_missing) else { return };
    ip(&format!("-n {} address add {}/32 dev lo", net.name("b"), INNER[1]));
    let folder = net.folder.path().to_owned();
    let far =
        StrongSwan::start(&mut net, "b", POOL_OF_STRONGSWAN, |swanctl| install(&folder, swanctl, "branch"));
    let site = "listen = \"0.0.0.0:4500\"\n[[peers]]\nname = \"branch\"\nendpoint = \"10.90.0.2:4500\"\n\
                networks = [\"10.91.2.0/24\"]\n[peers.ike]\nid = \"branch.example\"\nvirtual-addresses = true\n\
                user = \"alice\"\npassword-file = \"password\"\nca = \"ca.crt\"\n";
    net.gateway("a", 1400, site);
    net.wait_for_ping("a", INNER[1]);
    assert!(addresses(&net, "a").contains("10.99.0.1/32"), "{}", addresses(&net, "a"));
    let status = net.status("a");
    assert_eq!(status["peers"][0]["ike"][0]["addresses"], serde_json::json!(["10.99.0.1"]), "{status}");
    // The address ends with the IKE SA, and comes back with the next one.
    far.control(&net, "--terminate --ike rw");
    wait_for("another IKE SA", || far.log().matches("assigning virtual IP").count() >= 2);
    net.wait_for_ping("a", INNER[1]);
    assert_eq!(addresses(&net, "a").matches("/32").count(), 1, "{}", addresses(&net, "a"));
}

#[test]
fn we_are_a_client_of_our_own_pool_with_addresses_of_both_families() {
    let Some(mut net) = three_hosts("kz", network::missing) else { return };
    net.gateway("a", 1400, &gateway("users-file = \"users\"\nca = \"ca.crt\""));
    let site = |end: usize, proof: &str| {
        format!(
            "listen = \"0.0.0.0:4500\"\n[[peers]]\nname = \"hq\"\nendpoint = \"{}:4500\"\n\
             networks = [\"10.91.1.0/24\", \"fd91:1::/64\"]\n[peers.ike]\nid = \"hq.example\"\nvirtual-addresses = true\n\
             ca = \"ca.crt\"\n{proof}\n",
            GATEWAY[end]
        )
    };
    let certificate =
        "local-id = \"branch.example\"\nprivate-key = \"branch.key\"\ncertificate = \"branch.crt\"";
    net.gateway("b", 1400, &site(0, certificate));
    net.gateway("c", 1400, &site(1, "user = \"alice\"\npassword-file = \"password\""));
    for host in ["b", "c"] {
        net.wait_for_ping(host, INNER[0]);
        net.wait_for_ping(host, "fd91:1::1");
        let addresses = addresses(&net, host);
        assert!(addresses.contains("10.99.0.") && addresses.contains("fd99::"), "{addresses}");
    }
    // The host is as before when the gateway ends.
    net.down("b");
    wait_for("the lease's end", || sas(&net, "a").len() == 1);
    net.wait_for_ping("c", INNER[0]);
}
