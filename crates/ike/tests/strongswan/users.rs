//! Road warriors: strongSwan as gateway and as client, with EAP-MSCHAPv2 and EAP-TLS, and with addresses from a pool.

use std::{net::IpAddr, path::Path, sync::Arc};

use sealane_ike::{
    EapClient, EapServer, EapTls, Expect, Families, Identity, Peer, Pool, Prove, Settings, TlsIdentity, Users,
};
use zeroize::Zeroizing;

use crate::{
    charon::{Charon, Driver, EC, Files, OURS, THEIRS, configured, wait_for},
    common::network,
    skip,
};

const IKE: &str = "aes256gcm16-prfsha384-x25519";
const ESP: &str = "aes256gcm16";

fn tls(files: &Files) -> EapTls {
    let identity = TlsIdentity::new(&files.read("p1.der"), &[files.read("p1.crt.der")]).expect("a key");
    EapTls { identity, authorities: files.authorities() }
}

/// Returns strongSwan's configuration as a gateway for users.
fn gateway(method: &str) -> String {
    format!(
        "connections {{
    rw {{
        version = 2
        local_addrs = {THEIRS}
        remote_addrs = %any
        proposals = {IKE}
        encap = yes
        pools = rw
        send_cert = always
        local {{
            auth = pubkey
            certs = p2.crt
            id = p2.example
        }}
        remote {{
            auth = {method}
            id = %any
            eap_id = %any
        }}
        children {{
            c {{
                local_ts = 10.81.2.0/24
                esp_proposals = {ESP}
            }}
        }}
    }}
}}
pools {{
    rw {{
        addrs = 10.99.0.0/24
        dns = 10.81.2.53
    }}
}}
secrets {{
    eap-1 {{
        id = alice
        secret = \"correct horse\"
    }}
}}
"
    )
}

/// Returns strongSwan's configuration as a user.
fn client(local: &str) -> String {
    format!(
        "connections {{
    rw {{
        version = 2
        local_addrs = {THEIRS}
        remote_addrs = {OURS}
        proposals = {IKE}
        encap = yes
        vips = 0.0.0.0
        local {{
            {local}
        }}
        remote {{
            auth = pubkey
            id = p1.example
        }}
        children {{
            c {{
                remote_ts = 10.81.1.0/24
                esp_proposals = {ESP}
            }}
        }}
    }}
}}
secrets {{
    eap-1 {{
        id = alice
        secret = \"correct horse\"
    }}
}}
"
    )
}

/// Returns the setting for the highest version of TLS that strongSwan uses.
fn tls_version(version: &str) -> String {
    format!("tls {{\n    version_max = {version}\n}}\n")
}

/// Starts one of the two versions of strongSwan.
type Start = fn(&str, &str, &dyn Fn(&Path)) -> Option<Charon>;

const OLDER: Start = |case, connections, prepare| Charon::start(case, connections, prepare);
const NEWER: Start = |case, connections, prepare| Charon::start_newer(case, connections, prepare);

fn we_are_the_user(start: Start, case: &str, method: &str, more: &str, prove: impl FnOnce(&Files) -> Prove) {
    let Some(files) = Files::new(EC) else { return };
    let Some(charon) = start(case, &gateway(method), &|swanctl| files.install(swanctl, more)) else {
        return;
    };
    let mut peer = configured(IKE, ESP);
    peer.prove = prove(&files);
    peer.expect = files.expect();
    peer.asks_for = Families { ipv4: true, ipv6: false };
    peer.children[0].local = vec![network("0.0.0.0/0")];
    let mut driver = Driver::new(&charon, peer);
    driver.begin(&charon);
    let given = &driver.end.configured[0];
    let address = given.addresses[0];
    assert_eq!(given.dns, ["10.81.2.53".parse::<IpAddr>().unwrap()]);
    assert_eq!(driver.end.only_child().local, [network(&format!("{address}/32"))]);
    assert!(network("10.99.0.0/24").contains(&network(&format!("{address}/32"))));
    wait_for("strongSwan's child", || {
        charon.control(&["--list-sas"]).is_ok_and(|told| told.contains("INSTALLED"))
    });
    // Rekeying works as usual.
    driver.renew_child(&charon, "a child in its place");
    driver.close(&charon);
}

fn strongswan_is_the_user(start: Start, case: &str, local: &str, more: &str, expected: &str) {
    let Some(files) = Files::new(EC) else { return };
    let Some(charon) = start(case, &client(local), &|swanctl| files.install(swanctl, more)) else {
        return;
    };
    let mut users = Users::default();
    users.insert("alice", "correct horse");
    let mut peer: Peer = configured(IKE, ESP);
    (peer.remote, peer.remote_identity) = (None, None);
    peer.prove = files.prove();
    peer.expect = Expect::Eap(Arc::new(EapServer { users, tls: Some(tls(&files)) }));
    peer.pool = Some(0);
    peer.children[0].remote = vec![network("10.98.0.0/24")];
    let address = |text: &str| -> IpAddr { text.parse().unwrap() };
    let pool = Pool {
        addresses: vec![(address("10.98.0.10"), address("10.98.0.20"))],
        dns: vec![address("10.81.1.53")],
        domains: vec!["corp.example".to_owned()],
    };
    let settings = Settings { pools: vec![pool], ..Settings::default() };
    let mut driver = Driver::with_settings(&charon, peer, settings);
    driver.begun_by(&charon);
    assert_eq!(driver.end.users, [expected]);
    assert_eq!(driver.end.only_child().remote, [network("10.98.0.10/32")]);
    let told = charon.control(&["--list-sas"]).expect("it runs");
    assert!(told.contains("10.98.0.10"), "{told}");
    assert!(charon.log().contains("installing new virtual IP 10.98.0.10"));
    // Rekeying works as usual.
    let command = charon.control_beside(&["--rekey", "--child", "c"]);
    let child = driver.end.only_child().child;
    driver.until_done(&charon, command);
    driver.until(&charon, "a child in its place", |end| {
        end.children.len() == 1 && end.only_child().child != child
    });
    let command = charon.control_beside(&["--terminate", "--ike", "rw"]);
    driver.until(&charon, "its end", |end| end.up.is_empty());
    driver.until_done(&charon, command);
}

fn password(_: &Files) -> Prove {
    Prove::Eap(EapClient::Password {
        user: "alice".to_owned(),
        password: Zeroizing::new("correct horse".to_owned()),
    })
}

fn certificate(files: &Files) -> Prove {
    let server = Identity::from_text("p2.example");
    Prove::Eap(EapClient::Certificate { user: "p1.example".to_owned(), tls: tls(files), server })
}

/// Returns whether strongSwan has its plugin for passwords, which Debian has in a separate package.
fn has_passwords() -> bool {
    let has = Path::new("/usr/lib/ipsec/plugins/libstrongswan-eap-mschapv2.so").exists();
    if !has {
        skip::skip("no libcharon-extauth-plugins".to_owned());
    }
    has
}

#[test]
fn a_password_proves_us_to_strongswan_which_gives_an_address() {
    if !has_passwords() {
        return;
    }
    we_are_the_user(OLDER, "u", "eap-mschapv2", "", password);
}

#[test]
fn a_password_proves_strongswan_to_us_and_it_gets_an_address() {
    if !has_passwords() {
        return;
    }
    let local = "auth = eap-mschapv2\n            id = alice\n            eap_id = alice";
    strongswan_is_the_user(OLDER, "v", local, "", "alice");
}

/// TLS 1.3 in EAP according to RFC 9190 requires a newer strongSwan: version 5.9 omits the commitment as server, and
/// crashes on it as client.
#[test]
fn a_certificate_proves_us_to_strongswan_by_eap_tls() {
    we_are_the_user(OLDER, "w", "eap-tls", &tls_version("1.2"), certificate);
    we_are_the_user(NEWER, "x", "eap-tls", &tls_version("1.3"), certificate);
}

#[test]
fn a_certificate_proves_strongswan_to_us_by_eap_tls() {
    let local = "auth = eap-tls\n            certs = p2.crt\n            id = p2.example\n            eap_id = p2.example";
    strongswan_is_the_user(OLDER, "y", local, &tls_version("1.2"), "p2.example");
    strongswan_is_the_user(NEWER, "z", local, &tls_version("1.3"), "p2.example");
}
