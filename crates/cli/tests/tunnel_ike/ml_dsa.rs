//! Gateways of ours that prove who they are by certificates of ML-DSA, which `sealane tunnel pki` makes.

use std::process::Command;

use super::{INNER, own_hosts, own_site, transfer, wait_for_words};
use crate::network::Net;
use crate::program::{Ends, text};

fn pki(net: &Net, arguments: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sealane"));
    command.args(["tunnel", "pki", "."]).args(arguments).current_dir(net.folder.path());
    command.output().expect("it runs")
}

fn gateway(net: &mut Net, end: usize, allowed: bool) {
    let own = ["hq.example", "branch.example"][end];
    let proof = format!("private-key = \"{own}.key\"\ncertificate = \"{own}.crt\"\nca = \"ca.crt\"");
    let text = own_site(end, "rekey-seconds = 2\n").replace("psk-file = \"psk\"", &proof);
    net.gateway(["a", "b"][end], 1400, &format!("ml-dsa = {allowed}\n{text}"));
}

#[test]
fn certificates_of_ml_dsa_join_two_gateways_of_ours() {
    let Some(mut net) = own_hosts("md") else { return };
    pki(&net, &["--ml-dsa", "hq.example", "branch.example"]).ends(0);
    // A second call adds to the authority that is there, and other keys are not mixed with it.
    pki(&net, &["--ml-dsa", "more.example"]).ends(0);
    let output = pki(&net, &["other.example"]);
    assert!(output.status.code() == Some(2) && text(&output.stderr).contains("add --ml-dsa"));
    gateway(&mut net, 0, true);
    gateway(&mut net, 1, true);
    net.wait_for_ping("a", INNER[1]);
    transfer(&net, 200_000);
    let ike = &net.status("a")["peers"][0]["ike"][0];
    assert_eq!(ike["identity"], "branch.example", "{ike}");
}

#[test]
fn a_gateway_without_the_option_says_what_it_takes() {
    let Some(mut net) = own_hosts("mo") else { return };
    pki(&net, &["--ml-dsa", "hq.example", "branch.example"]).ends(0);
    gateway(&mut net, 0, true);
    gateway(&mut net, 1, false);
    wait_for_words(&mut net, 1, "`ml-dsa = true` beside `listen` allows it");
}
