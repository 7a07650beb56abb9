//! `sealane tunnel` with gateways that speak IKEv2: strongSwan as a process of its own, in either role, and another
//! gateway of ours.

#[path = "tunnel_ike/addresses.rs"]
mod addresses;
#[path = "tunnel_ike/clients.rs"]
mod clients;
#[path = "tunnel_ike/forwarding.rs"]
mod forwarding;
#[path = "tunnel_ike/kernel.rs"]
mod kernel;
#[path = "tunnel_ike/ml_dsa.rs"]
mod ml_dsa;
mod network;
#[path = "tunnel_ike/plain.rs"]
mod plain;
mod program;
#[path = "tunnel_ike/queues.rs"]
mod queues;
#[path = "tunnel_ike/reload.rs"]
mod reload;
#[path = "tunnel_ike/shares.rs"]
mod shares;
#[path = "tunnel_ike/soak.rs"]
mod soak;
#[path = "tunnel_ike/tcp.rs"]
mod tcp;
#[path = "tunnel_ike/traces.rs"]
mod traces;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use clients::install;
use network::Net;
use network::namespaces::ip;
use network::strongswan::{self, StrongSwan};
use program::{pattern, set_mode, text, unless, wait_for, without};

const PSK: &str = "0123456789abcdef0123456789abcdef";
/// Inner addresses: ours and the peer's.
const INNER: [&str; 2] = ["10.91.1.1", "10.91.2.1"];

/// Makes two hosts with a cable between them, `a` at 10.90.0.1 and `b` at 10.90.0.2, for gateways of ours; if that cannot
/// be, the test is skipped.
fn own_hosts(tag: &str) -> Option<Net> {
    unless(network::missing())?;
    let net = Net::new(tag, &["a", "b"]);
    net.link([("a", "o0", "10.90.0.1/24"), ("b", "o0", "10.90.0.2/24")], 1500);
    secret(net.folder.path(), "psk", &format!("{PSK}\n"));
    Some(net)
}

/// Makes the same hosts for a gateway of ours and a strongSwan on `b`, unless it is `missing`.
fn two_hosts(tag: &str, missing: fn() -> Option<String>) -> Option<Net> {
    unless(missing())?;
    let net = own_hosts(tag)?;
    // strongSwan's routes require an address in its own network.
    ip(&format!("-n {} address add {}/32 dev lo", net.name("b"), INNER[1]));
    Some(net)
}

/// Makes `a` at 192.168.7.2, behind a router `r` that translates addresses, and `b` at 10.90.0.2; if that cannot be, the
/// test is skipped.
fn behind_nat(tag: &str) -> Option<Net> {
    let net = Net::new(tag, &["a", "r", "b"]);
    net.link([("a", "o0", "192.168.7.2/24"), ("r", "i0", "192.168.7.1/24")], 1500);
    net.link([("r", "i1", "10.90.0.1/24"), ("b", "o0", "10.90.0.2/24")], 1500);
    ip(&format!("-n {} route add default via 192.168.7.1", net.name("a")));
    ip(&format!("-n {} address add {}/32 dev lo", net.name("b"), INNER[1]));
    let rules = [
        "add table ip nat",
        "add chain ip nat out { type nat hook postrouting priority 100 ; }",
        "add rule ip nat out oifname i1 masquerade random",
    ];
    net.filter("r", "address translation", &rules)?;
    Some(net)
}

fn secret(folder: &Path, name: &str, content: &str) {
    program::secret(folder.join(name), content);
}

/// Returns our site file without its first lines; `peer` and `ike` are added to the peer's table and to its `ike`
/// table.
fn site(peer: &str, ike: &str) -> String {
    format!(
        "listen = \"0.0.0.0:4500\"\naddresses = [\"{}/24\"]\n[[peers]]\nname = \"branch\"\nnetworks = [\"10.91.2.0/24\"]\n{peer}\n\
         [peers.ike]\nid = \"branch.example\"\nlocal-id = \"hq.example\"\n{ike}\n",
        INNER[0]
    )
}

const ENDPOINT: &str = "endpoint = \"10.90.0.2:4500\"\n";

/// Returns strongSwan's connections: its proposals, how either end proves its identity, and additional settings of
/// the connection and of the child.
fn connections(proposals: [&str; 2], local: &str, remote: &str, more: &str, child: &str) -> String {
    let [ike, esp] = proposals;
    format!(
        "connections {{
    t {{
        version = 2
        local_addrs = 10.90.0.2
        proposals = {ike}
        encap = yes
        {more}
        local {{
            {local}
            id = branch.example
        }}
        remote {{
            {remote}
            id = hq.example
        }}
        children {{
            c {{
                local_ts = 10.91.2.0/24
                remote_ts = 10.91.1.0/24
                esp_proposals = {esp}
                {child}
            }}
        }}
    }}
}}
secrets {{
    ike-1 {{
        id-1 = hq.example
        id-2 = branch.example
        secret = \"{PSK}\"
    }}
}}
"
    )
}

/// Returns strongSwan's connections with proofs by the shared key.
fn by_psk(proposals: [&str; 2], more: &str, child: &str) -> String {
    connections(proposals, "auth = psk", "auth = psk", more, child)
}

/// Reads what the program at `place` among those of the hosts says, until it has said these words.
fn wait_for_words(net: &mut Net, place: usize, words: &str) {
    let stderr = net.children[place].stderr.as_mut().expect("a pipe");
    let (mut said, mut byte) = (Vec::new(), [0]);
    while !String::from_utf8_lossy(&said).contains(words) {
        stderr.read_exact(&mut byte).expect("it says more");
        said.push(byte[0]);
    }
}

/// Returns the packets that our gateway has dropped for these reasons.
fn dropped(net: &Net, host: &str, reasons: &[&str]) -> Vec<serde_json::Value> {
    let status = net.status(host);
    let drops = status["drops"].as_array().expect("a list");
    drops.iter().filter(|drop| reasons.iter().any(|reason| drop[0] == *reason)).cloned().collect()
}

/// Returns the SPIs under which our gateway sends.
fn spis(net: &Net, host: &str) -> Vec<u64> {
    net.spis(host, "out")
}

/// Returns the IKE SAs of our gateway with its first peer.
fn sas(net: &Net, host: &str) -> Vec<serde_json::Value> {
    net.status(host)["peers"][0]["ike"].as_array().expect("a list").clone()
}

/// Sends `bytes` from our inner host to the peer's and compares them.
fn transfer(net: &Net, bytes: usize) {
    transfer_to(net, "a", ("b", INNER[1]), &pattern(bytes));
}

/// Sends `content` from one host to another at this address and compares it.
fn transfer_to(net: &Net, from: &str, (to, address): (&str, &str), content: &[u8]) {
    let listener = net.inside(to, || TcpListener::bind((address, 0)).expect("a port"));
    let at = listener.local_addr().expect("a port");
    let near = net.inside(from, || TcpStream::connect(at).expect("the other end"));
    network::stream(near, &listener, content);
}

/// Starts two gateways of ours, each with the site file that `site` returns for its end.
fn both(net: &mut Net, site: impl Fn(usize) -> String) {
    for (end, host) in ["a", "b"].into_iter().enumerate() {
        net.gateway(host, 1400, &site(end));
    }
}

/// Starts `b`, which is called and knows no endpoint, and then `a`, which calls it.
fn called(net: &mut Net, site: impl Fn(usize) -> String) {
    net.gateway("b", 1400, &site(1).replace("endpoint", "#"));
    net.gateway("a", 1400, &site(0));
}

/// Sends bytes between the ends in both directions at once for this time, at up to 4 MB per second, and compares
/// them. Returns the number of times that our gateway changed the SPI under which it sends.
fn load(net: &Net, time: Duration) -> usize {
    let serve = |host: &str, inner: &str| net.inside(host, || TcpListener::bind((inner, 0)).expect("a port"));
    let listeners = [serve("b", INNER[1]), serve("a", INNER[0])];
    let at: Vec<_> = listeners.iter().map(|listener| listener.local_addr().expect("a port")).collect();
    let near = [("a", at[0]), ("b", at[1])]
        .map(|(host, at)| net.inside(host, || TcpStream::connect(at).expect("the other end")));
    let until = Instant::now() + time;
    let piece = pattern(40_000);
    let (mut seen, mut changes) = (spis(net, "a"), 0);
    thread::scope(|scope| {
        for (mut near, listener) in near.into_iter().zip(&listeners) {
            let piece = &piece;
            let sent = scope.spawn(move || {
                let mut pieces = 0;
                while Instant::now() < until {
                    near.write_all(piece).expect("the other end reads");
                    pieces += 1;
                    thread::sleep(Duration::from_millis(10));
                }
                pieces
            });
            scope.spawn(move || {
                let (mut far, _) = listener.accept().expect("a connection");
                far.set_read_timeout(Some(Duration::from_secs(30))).expect("a stream");
                let mut got = Vec::new();
                far.read_to_end(&mut got).expect("all of it");
                let pieces: usize = sent.join().expect("no panic");
                assert_eq!(got.len(), pieces * piece.len());
                assert!(got.chunks(piece.len()).all(|got| got == &piece[..]), "other bytes");
            });
        }
        while Instant::now() < until {
            thread::sleep(Duration::from_millis(200));
            let now = spis(net, "a");
            changes += usize::from(now != seen);
            seen = now;
        }
    });
    changes
}

#[test]
fn strongswan_is_joined_by_a_shared_key_and_associations_get_successors_under_load() {
    let Some(mut net) = two_hosts("ki", strongswan::missing) else { return };
    let text = by_psk(["aes256gcm16-prfsha384-x25519", "aes256gcm16-x25519"], "", "");
    let far = StrongSwan::start(&mut net, "b", &text, |_| {});
    let rekeys = "rekey-seconds = 2\n";
    net.gateway(
        "a",
        1400,
        &site(&format!("{ENDPOINT}{rekeys}"), "psk-file = \"psk\"\nike-rekey-seconds = 3"),
    );
    net.wait_for_ping("a", INNER[1]);
    let status = net.status("a");
    let ike = &status["peers"][0]["ike"][0];
    assert_eq!(ike["identity"], "branch.example", "{status}");
    assert_eq!(ike["algorithms"], "aes256gcm16-prfsha384");
    assert_eq!(ike["children"][0]["traffic"], "10.91.1.0/24 === 10.91.2.0/24");
    assert!(ike["rekey_s"].is_u64() && status["peers"][0]["endpoint"] == "10.90.0.2:4500", "{status}");
    let changes = load(&net, Duration::from_secs(8));
    assert!(changes >= 2, "{changes} successors\n{}", far.log());
    let lost = dropped(&net, "a", &["no_association", "expired", "unknown_spi", "selector_mismatch"]);
    let early = |drop: &serde_json::Value| drop[0] == "no_association";
    assert!(lost.iter().all(early), "{lost:?}\n{}", far.log());
    assert!(far.log().contains("rekeyed between"), "{}", far.log());
    // The peer is told that we end.
    net.down("a");
    wait_for("strongSwan's end", || !far.associations(&net).contains("ESTABLISHED"));
}

#[test]
fn strongswan_begins_and_rekeys_and_ends() {
    let Some(mut net) = two_hosts("kr", strongswan::missing) else { return };
    let more = "remote_addrs = 10.90.0.1\n        rekey_time = 3s\n        over_time = 30s";
    let child = "rekey_time = 2s\n                rand_time = 0s\n                life_time = 30s";
    let text = by_psk(["aes256-sha256-modp2048", "aes256-sha256"], more, child);
    let far = StrongSwan::start(&mut net, "b", &text, |_| {});
    let ike = "psk-file = \"psk\"\nesp-proposals = [\"aes256gcm16\", \"aes256-sha256\"]";
    net.gateway("a", 1400, &site("", ike));
    far.control(&net, "--initiate --child c");
    net.wait_for_ping("b", INNER[0]);
    assert_eq!(net.status("a")["peers"][0]["associations"][0]["suite"], "aes-256-cbc+hmac-sha256-128");
    let changes = load(&net, Duration::from_secs(8));
    assert!(changes >= 2, "{changes} successors\n{}", far.log());
    let lost = dropped(&net, "a", &["expired", "unknown_spi", "selector_mismatch"]);
    assert!(lost.is_empty(), "{lost:?}\n{}", far.log());
    far.control(&net, "--terminate --ike t");
    wait_for("our end", || spis(&net, "a").is_empty());
    assert_eq!(net.status("a")["peers"][0]["ike"], serde_json::json!([]));
}

/// The first association of an IKE SA takes no key exchange of its own, so ends that differ about one find out at the first
/// rekeying. strongSwan refuses in either case.
#[test]
fn ends_that_differ_about_pfs_stay_joined_and_say_so() {
    for (tag, ours, theirs) in
        [("p1", "aes256gcm16-x25519", "aes256gcm16"), ("p2", "aes256gcm16", "aes256gcm16-ecp256")]
    {
        let Some(mut net) = two_hosts(tag, strongswan::missing) else { return };
        let text = by_psk(["aes256gcm16-prfsha384-x25519", theirs], "", "");
        let far = StrongSwan::start(&mut net, "b", &text, |_| {});
        let ike = format!("psk-file = \"psk\"\nesp-proposals = [\"{ours}\"]");
        net.gateway("a", 1400, &site(&format!("{ENDPOINT}rekey-seconds = 2\n"), &ike));
        net.wait_for_ping("a", INNER[1]);
        let changes = load(&net, Duration::from_secs(7));
        assert!(changes >= 2, "{changes} successors\n{}", far.log());
        // strongSwan sends under the first association of an IKE SA before its answer has come.
        let lost = dropped(&net, "a", &["expired"]);
        assert!(lost.is_empty(), "{lost:?}\n{}", far.log());
        wait_for_words(&mut net, 1, &format!("our proposals are {ours}"));
        wait_for_words(&mut net, 1, "PFS");
        wait_for("the end of what was replaced", || sas(&net, "a").len() == 1);
    }
}

/// A kind of keys, in the words of `openssl genpkey`.
const P256: &str = "EC -pkeyopt ec_paramgen_curve:P-256";

/// Makes an authority and the certificates of both ends, in PEM; if that cannot be, the test is skipped.
fn certificates(folder: &Path, kind: &str) -> Option<()> {
    without("certificates", try_certificates(folder, kind))
}

/// Makes the same with OpenSSL.
fn try_certificates(folder: &Path, kind: &str) -> Result<(), String> {
    let openssl = |arguments: &str| {
        let output = Command::new("openssl")
            .args(arguments.split(' '))
            .current_dir(folder)
            .output()
            .map_err(|error| format!("openssl: {error}"))?;
        let said = || format!("openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
        if output.status.success() { Ok(()) } else { Err(said()) }
    };
    openssl(&format!("genpkey -algorithm {kind} -out ca.key"))?;
    openssl(
        "req -x509 -new -key ca.key -subj /CN=CA -days 30 -addext basicConstraints=critical,CA:TRUE -out ca.crt",
    )?;
    for name in ["hq", "branch"] {
        openssl(&format!("genpkey -algorithm {kind} -out {name}.key"))?;
        openssl(&format!("req -new -key {name}.key -subj /CN={name}.example -out request"))?;
        let extensions =
            format!("subjectAltName=DNS:{name}.example\nextendedKeyUsage=serverAuth,clientAuth\n");
        fs::write(folder.join("extensions"), extensions).map_err(|error| error.to_string())?;
        openssl(&format!(
            "x509 -req -in request -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile extensions -out {name}.crt"
        ))?;
        openssl(&format!("pkey -in {name}.key -pubout -out {name}.pub"))?;
        let mode = fs::Permissions::from_mode(0o600);
        fs::set_permissions(folder.join(format!("{name}.key")), mode).map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[test]
fn strongswan_is_joined_by_certificates_from_behind_a_nat() {
    let Some(()) = unless(strongswan::missing()) else { return };
    let Some(mut net) = behind_nat("kn") else { return };
    let folder = net.folder.path().to_owned();
    let Some(()) = certificates(&folder, P256) else { return };
    let local = "auth = pubkey\n            certs = branch.crt";
    let proposals = ["aes256gcm16-prfsha384-x25519", "aes256gcm16"];
    let text = connections(proposals, local, "auth = pubkey", "remote_addrs = %any", "");
    let far = StrongSwan::start(&mut net, "b", &text, |swanctl| install(&folder, swanctl, "branch"));
    let ike = "private-key = \"hq.key\"\ncertificate = \"hq.crt\"\nca = \"ca.crt\"";
    net.gateway("a", 1400, &site(ENDPOINT, ike));
    net.wait_for_ping("a", INNER[1]);
    let said = far.associations(&net);
    assert!(said.contains("hq.example") && said.contains("INSTALLED"), "{said}");
    transfer(&net, 1 << 20);
}

/// strongSwan has an association for each of its networks, as many gateways do, and takes the first that fits a request.
#[test]
fn each_network_of_a_peer_with_an_association_for_each_is_reached() {
    let Some(mut net) = two_hosts("nn", strongswan::missing) else { return };
    ip(&format!("-n {} address add 10.91.3.1/32 dev lo", net.name("b")));
    let text = by_psk(["aes256gcm16-prfsha384-x25519", "aes256gcm16"], "", "");
    let second = "            d {\n                local_ts = 10.91.3.0/24\n                remote_ts = 10.91.1.0/24\n\
                  \u{20}               esp_proposals = aes256gcm16\n            }\n            c {";
    let far = StrongSwan::start(&mut net, "b", &text.replace("            c {", second), |_| {});
    let own = site(ENDPOINT, "psk-file = \"psk\"")
        .replace("[\"10.91.2.0/24\"]", "[\"10.91.2.0/24\", \"10.91.3.0/24\"]");
    net.gateway("a", 1400, &own);
    for to in [INNER[1], "10.91.3.1", INNER[1], "10.91.3.1"] {
        net.wait_for_ping("a", to);
    }
    let said = far.associations(&net);
    assert!(said.matches("INSTALLED").count() == 2, "{said}");
}

/// strongSwan's identity is the subject of its certificate unless it is told another one.
#[test]
fn strongswan_is_known_by_the_subject_of_its_certificate() {
    let Some(mut net) = two_hosts("dn", strongswan::missing) else { return };
    let folder = net.folder.path().to_owned();
    let Some(()) = certificates(&folder, P256) else { return };
    let local = "auth = pubkey\n            certs = branch.crt";
    let proposals = ["aes256gcm16-prfsha384-x25519", "aes256gcm16"];
    let text = connections(proposals, local, "auth = pubkey", "remote_addrs = %any", "");
    let text = text
        .replace("            id = branch.example\n", "")
        .replace("id = hq.example", "id = \"CN=hq.example\"");
    StrongSwan::start(&mut net, "b", &text, |swanctl| install(&folder, swanctl, "branch"));
    let ike = "private-key = \"hq.key\"\ncertificate = \"hq.crt\"\nca = \"ca.crt\"";
    let own = site(ENDPOINT, ike).replace("\"branch.example\"", "\"CN=branch.example\"");
    net.gateway("a", 1400, &own.replace("\"hq.example\"", "\"cn=hq.example\""));
    net.wait_for_ping("a", INNER[1]);
    assert_eq!(net.status("a")["peers"][0]["ike"][0]["identity"], "CN=branch.example");
}

#[test]
fn strongswan_is_joined_by_public_keys_without_certificates() {
    let Some(mut net) = two_hosts("kp", strongswan::missing) else { return };
    let folder = net.folder.path().to_owned();
    let Some(()) = certificates(&folder, "ED25519") else { return };
    let (local, remote) =
        ("auth = pubkey\n            pubkeys = branch.pub", "auth = pubkey\n            pubkeys = hq.pub");
    // These are our own proposals; the first has ML-KEM, which older versions do not know.
    let proposals = ["aes256gcm16-prfsha384-x25519,default", "aes256gcm16,default"];
    let text = connections(proposals, local, remote, "remote_addrs = %any", "");
    StrongSwan::start(&mut net, "b", &text, |swanctl| {
        fs::create_dir(swanctl.join("pubkey")).expect("a folder");
        for (name, to) in [("hq.pub", "pubkey"), ("branch.pub", "pubkey"), ("branch.key", "private")] {
            fs::copy(folder.join(name), swanctl.join(to).join(name)).expect("a file");
        }
    });
    net.gateway("a", 1400, &site(ENDPOINT, "private-key = \"hq.key\"\npublic-key = \"branch.pub\""));
    net.wait_for_ping("a", INNER[1]);
    transfer(&net, 1 << 20);
}

/// Returns the site file of the gateway at `end` of two that are ours.
fn own_site(end: usize, rest: &str) -> String {
    let names = ["hq.example", "branch.example"];
    let network = |end: usize| format!("10.91.{}.0/24", end + 1);
    format!(
        "listen = \"0.0.0.0:4500\"\naddresses = [\"{}/24\"]\n[[peers]]\nname = \"other\"\nnetworks = [\"{}\"]\n\
         endpoint = \"10.90.0.{}:4500\"\n{rest}\n[peers.ike]\nid = \"{}\"\nlocal-id = \"{}\"\npsk-file = \"psk\"\n",
        INNER[end],
        network(1 - end),
        2 - end,
        names[1 - end],
        names[end],
    )
}

#[test]
fn two_gateways_of_ours_speak_ike_and_find_each_other_again() {
    let Some(mut net) = own_hosts("ko") else { return };
    both(&mut net, |end| own_site(end, "rekey-seconds = 2\n"));
    net.wait_for_ping("a", INNER[1]);
    assert!(load(&net, Duration::from_secs(5)) >= 1);
    // The other gateway has lost its state, and says so.
    net.children.pop().expect("it runs");
    net.gateway("b", 1400, &own_site(1, ""));
    net.wait_for_ping("b", INNER[0]);
    // Our end moves; the other one follows.
    net.readdress("a", "10.90.0.1");
    wait_for("the new address", || net.status("b")["peers"][0]["endpoint"] == "10.90.0.77:4500");
    net.wait_for_ping("a", INNER[1]);
    net.wait_for_ping("b", INNER[0]);
}

#[test]
fn two_gateways_that_begin_at_once_keep_one_ike_sa() {
    let Some(mut net) = own_hosts("kt") else { return };
    // Neither end reaches the other until both try.
    let name = net.name("a");
    ip(&format!("-n {name} link set o0 down"));
    both(&mut net, |end| own_site(end, ""));
    ip(&format!("-n {name} link set o0 up"));
    net.wait_for_ping("a", INNER[1]);
    wait_for("one IKE SA", || (sas(&net, "a").len(), sas(&net, "b").len()) == (1, 1));
    net.wait_for_ping("b", INNER[0]);
}

#[test]
fn gateways_know_each_other_by_the_keys_of_their_identities() {
    let Some(mut net) = own_hosts("kk") else { return };
    let keys = ["a", "b"].map(|host| net.key(host));
    both(&mut net, |end| {
        own_site(end, "").replace("psk-file = \"psk\"", &format!("key = \"{}\"", keys[1 - end]))
    });
    net.wait_for_ping("a", INNER[1]);
}

#[test]
fn a_newer_strongswan_has_post_quantum_keys_in_all_exchanges() {
    let Some(mut net) = two_hosts("kq", strongswan::newer_is_missing) else { return };
    let proposals = ["aes256gcm16-prfsha384-x25519-ke1_mlkem768", "aes256gcm16-x25519-ke1_mlkem768"];
    let text = by_psk(proposals, "remote_addrs = %any", "");
    let far = StrongSwan::start_newer(&mut net, "b", &text);
    let ike =
        "psk-file = \"psk\"\nike-rekey-seconds = 3\nesp-proposals = [\"aes256gcm16-x25519-ke1_mlkem768\"]";
    net.gateway("a", 1400, &site(&format!("{ENDPOINT}rekey-seconds = 2\n"), ike));
    net.wait_for_ping("a", INNER[1]);
    let changes = load(&net, Duration::from_secs(6));
    assert!(changes >= 1, "{changes} successors\n{}", far.log());
    // Its only proposals have ML-KEM: for the IKE SA, for a child's rekeying and for the IKE SA's.
    let log = far.log();
    assert!(log.contains("parsed IKE_INTERMEDIATE request"), "{log}");
    assert!(log.matches("parsed IKE_FOLLOWUP_KE request").count() >= 2, "{log}");
    assert!(far.log().contains("rekeyed between"), "{}", far.log());
}

#[test]
fn strongswan_moves_to_another_address_and_its_traffic_goes_on() {
    let Some(mut net) = two_hosts("km", strongswan::missing) else { return };
    let text = by_psk(["aes256gcm16-prfsha384-x25519", "aes256gcm16"], "remote_addrs = 10.90.0.1", "");
    let text = text.replace("local_addrs = 10.90.0.2", "local_addrs = %any");
    let far = StrongSwan::start(&mut net, "b", &text, |_| {});
    net.gateway("a", 1400, &site("", "psk-file = \"psk\""));
    far.control(&net, "--initiate --child c");
    net.wait_for_ping("b", INNER[0]);
    net.readdress("b", "10.90.0.2");
    let endpoint = || net.status("a")["peers"][0]["endpoint"].to_string();
    wait_for("the new address", || endpoint().starts_with("\"10.90.0.77:"));
    net.wait_for_ping("b", INNER[0]);
    assert_eq!(sas(&net, "a").len(), 1);
}

#[test]
fn the_log_says_what_does_not_match() {
    let Some(mut net) = own_hosts("kl") else { return };
    called(&mut net, |end| match end {
        0 => own_site(0, ""),
        _ => own_site(1, "").replace("id = \"hq.example\"", "id = \"else.example\""),
    });
    for (place, says) in
        [(0, "expected is else.example (towards branch.example)"), (1, "AUTHENTICATION_FAILED")]
    {
        wait_for_words(&mut net, place, says);
    }
    // An error in a secret is reported before anything is begun.
    let path = net.folder.path().join("second.toml");
    fs::write(&path, format!("device = \"sl1\"\n{}", own_site(0, ""))).expect("a site file");
    let check = || {
        let output = net.tunnel("a", "check").arg(&path).output().expect("it runs");
        (output.status.success(), format!("{}{}", text(&output.stdout), text(&output.stderr)))
    };
    let (_, said) = check();
    assert!(said.contains("good, 1 peer") && !said.contains("this gateway's key"), "{said}");
    set_mode(net.folder.path().join("psk"), 0o644);
    let (is_good, said) = check();
    assert!(!is_good && said.contains("chmod 600"), "{said}");
}
