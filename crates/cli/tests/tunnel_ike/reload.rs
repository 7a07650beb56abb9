//! Gateways whose site file, users and lists of revoked certificates change while they run.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::clients::{ALICE, GATEWAY, client, gateway, install, openssl, three_hosts};
use super::{INNER, dropped, sas, secret, wait_for_words};
use crate::network::Net;
use crate::network::strongswan::{self, StrongSwan};
use crate::program::{text, wait_for};

/// Makes a list of revoked certificates of the authority, which revokes these too.
pub(super) fn list(folder: &Path, revoked: &[&str]) {
    let openssl = |arguments: &str| openssl(folder, arguments);
    if !folder.join("index").exists() {
        fs::write(folder.join("index"), "").expect("a file");
        fs::write(folder.join("number"), "01\n").expect("a file");
        let settings = "[ca]\ndefault_ca=own\n[own]\ndatabase=index\ncrlnumber=number\ndefault_md=sha256\ndefault_crl_days=5\n";
        fs::write(folder.join("ca.conf"), settings).expect("a file");
    }
    let ca = "ca -config ca.conf -cert ca.crt -keyfile ca.key -batch";
    revoked.iter().for_each(|name| openssl(&format!("{ca} -revoke {name}")));
    openssl(&format!("{ca} -gencrl -out new.crl"));
    fs::rename(folder.join("new.crl"), folder.join("list.crl")).expect("one folder");
}

fn reload(net: &Net) -> Output {
    net.tunnel("a", "reload").output().expect("it runs")
}

#[test]
fn credentials_and_peers_that_change_come_and_go_and_the_others_notice_nothing() {
    let Some(mut net) = three_hosts("rl", strongswan::users_are_missing) else { return };
    let folder = net.folder.path().to_owned();
    list(&folder, &[]);
    let site = gateway("users-file = \"users\"\nca = \"ca.crt\"\ncrls = [\"list.crl\"]");
    net.gateway("a", 1400, &site);
    let configuration = client(GATEWAY[0], ALICE, "correct horse");
    let alice = StrongSwan::start(&mut net, "b", &configuration, |own| install(&folder, own, "branch"));
    let local = "auth = pubkey\n            certs = branch.crt\n            id = branch.example";
    let configuration = client(GATEWAY[1], local, "-");
    let branch = StrongSwan::start(&mut net, "c", &configuration, |own| install(&folder, own, "branch"));
    for (client, host) in [(&alice, "b"), (&branch, "c")] {
        client.control(&net, "--initiate --child c");
        net.wait_for_ping(host, INNER[0]);
    }
    // Alice's packets go on all the time.
    let mut ping = net.command("b", "ping", &format!("-i 0.05 {}", INNER[0]));
    let ping = ping.stdout(Stdio::piped()).spawn().expect("it starts");
    let alices = |net: &Net| sas(net, "a").into_iter().find(|ike| ike["user"] == "alice");
    let spi = alices(&net).expect("she is there")["children"][0]["inbound_spi"].clone();

    // A new list revokes a certificate: its owner is told, and does not come back.
    list(&folder, &["branch.crt"]);
    wait_for("the end of a revoked certificate", || sas(&net, "a").len() == 1);
    wait_for("a DELETE", || branch.log().contains("received DELETE for IKE_SA"));
    assert!(!branch.try_control(&net, "--initiate --child c").status.success());

    // A file that is not good changes nothing, and the gateway says so.
    secret(&folder, "users", "no colon\n");
    wait_for_words(&mut net, 0, "nothing is changed: ");
    let output = reload(&net);
    let said = text(&output.stderr).to_owned();
    assert!(!output.status.success() && said.contains("a user is NAME:PASSWORD"), "{said}");
    secret(&folder, "users", "alice:correct horse\nbob:battery staple\n");

    // A peer is added, and its packets have a way; it goes again.
    let more = "[[peers]]\nname = \"branch\"\nnetworks = [\"10.91.2.0/24\"]\n[peers.ike]\nid = \"branch.example\"\n\
                local-id = \"hq.example\"\nlocal-networks = [\"10.91.1.0/24\"]\nprivate-key = \"hq.key\"\n\
                certificate = \"hq.crt\"\npublic-key = \"branch.pub\"\n";
    let path = folder.join("a.toml");
    let before = fs::read_to_string(&path).expect("it is there");
    let routes = |net: &Net| text(&net.run("a", "ip", "route show 10.91.2.0/24").stdout).to_owned();
    fs::write(&path, format!("{before}{more}")).expect("a file");
    let output = reload(&net);
    assert!(text(&output.stdout).contains("peers: 1 added"), "{output:?}");
    assert!(routes(&net).contains("dev sl0"), "{}", routes(&net));
    assert_eq!(net.status("a")["peers"][1]["name"], "branch");
    fs::write(&path, &before).expect("a file");
    // SIGHUP has the same effect as the command.
    kill_process(Pid::from_child(&net.children[0]), Signal::HUP).expect("it runs");
    wait_for_words(&mut net, 0, "1 removed");
    assert_eq!(routes(&net), "");
    assert_eq!(net.status("a")["peers"].as_array().map(Vec::len), Some(1));
    // The gateway says which changes take a restart.
    fs::write(&path, before.replace("10.99.0.0/24", "10.98.0.0/24")).expect("a file");
    let said = text(&reload(&net).stderr).to_owned();
    assert!(said.contains("pool has changed, which takes a restart"), "{said}");
    fs::write(&path, &before).expect("a file");

    // Alice has lost nothing so far.
    let own = alices(&net).expect("she is there");
    assert_eq!(own["children"][0]["inbound_spi"], spi, "{own}");
    kill_process(Pid::from_child(&ping), Signal::INT).expect("it runs");
    let said = ping.wait_with_output().expect("it ends").stdout;
    assert!(text(&said).contains(" 0% packet loss"), "{}", text(&said));
    let lost = dropped(&net, "a", &["no_association", "unknown_spi", "expired", "selector_mismatch"]);
    assert!(lost.is_empty(), "{lost:?}");

    // She is removed: she is told, and does not come back.
    secret(&folder, "users", "bob:battery staple\n");
    wait_for("alice's end", || sas(&net, "a").is_empty());
    wait_for("a DELETE", || alice.log().contains("received DELETE for IKE_SA"));
    assert!(!alice.try_control(&net, "--initiate --child c").status.success());
}
