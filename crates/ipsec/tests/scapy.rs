//! Exchanges packets of every suite that scapy supports with a real scapy process, in both directions, and has tshark
//! check ours.

mod common;
#[path = "../../../testing/scapy.rs"]
mod scapy;
#[path = "../../../testing/skip.rs"]
mod skip;

use std::{fs, process::Command};

use common::{ends, parameters, protect, unprotect};
use scapy::Scapy;
use sealane_ipsec::{
    ah::Alignment,
    association::{Mode, Outbound, Parameters, Protocol},
    frame::{Ends, Outer},
    sequence::SequenceBits,
    suite::Suite,
};
use sealane_wire::{Ipv4Fields, Ipv6Fields, Sum, UdpFields, protocol};
use serde_json::{Value, json};
use skip::skip;

/// Starts scapy; `None` if it is not here.
fn start() -> Option<Scapy> {
    let has = |python: &&str| {
        let check = Command::new(python).args(["-c", "import scapy.layers.ipsec, cryptography"]).output();
        check.is_ok_and(|output| output.status.success())
    };
    let python = ["/usr/bin/python3", "python3"].into_iter().find(has)?;
    Scapy::start(python, concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scapy_peer.py"))
}

fn answer_to(scapy: &mut Scapy, ask: &Value) -> Value {
    serde_json::from_str(&scapy.ask(&ask.to_string())).expect("scapy answers in JSON")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(word: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&word[at..at + 2], 16).expect("hexadecimal");
    (0..word.len()).step_by(2).map(digit).collect()
}

/// Returns scapy's names of encryption and integrity; scapy has no GMAC in AH.
fn names(protocol: Protocol, suite: Suite) -> Option<(&'static str, &'static str)> {
    if protocol == Protocol::Ah && suite.is_combined() {
        return None;
    }
    let name = suite.to_string();
    let (encryption, integrity) = match name.split_once('+') {
        Some(both) => both,
        None if suite.is_combined() => (&*name, ""),
        None => ("", &*name),
    };
    let encryption = match encryption {
        "" => "",
        "null" => "NULL",
        "des-cbc" => "DES",
        "3des-cbc" => "3DES",
        "chacha20-poly1305" => "CHACHA20-POLY1305",
        aes if aes.ends_with("-cbc") => "AES-CBC",
        aes if aes.ends_with("-ctr") => "AES-CTR",
        aes if aes.ends_with("-gcm") => "AES-GCM",
        aes if aes.contains("-ccm") => "AES-CCM",
        // scapy has it since version 2.6.
        aes if aes.ends_with("-gmac") => "AES-NULL-GMAC",
        _ => return None,
    };
    let integrity = match integrity {
        "" => "",
        "hmac-md5-96" => "HMAC-MD5-96",
        "hmac-sha1-96" => "HMAC-SHA1-96",
        "hmac-sha256-128" => "SHA2-256-128",
        "hmac-sha384-192" => "SHA2-384-192",
        "hmac-sha512-256" => "SHA2-512-256",
        _ => return None,
    };
    Some((encryption, integrity))
}

/// Returns a UDP datagram.
fn packet(is_ipv6: bool, payload: &[u8]) -> Vec<u8> {
    let udp_bytes = 8 + payload.len();
    let mut udp = vec![0; 8];
    UdpFields { source_port: 4321, destination_port: 1234 }
        .write(&mut udp, payload.len())
        .expect("there is room");
    udp.extend_from_slice(payload);
    let mut packet = vec![0; if is_ipv6 { 40 } else { 20 }];
    let pseudo = if is_ipv6 {
        let fields = Ipv6Fields {
            traffic_class: 0,
            flow_label: 0,
            next_header: protocol::UDP,
            hop_limit: 64,
            source: "fd00::1".parse().expect("an address"),
            destination: "fd00::2".parse().expect("an address"),
        };
        fields.write(&mut packet, udp_bytes).expect("there is room");
        sealane_wire::Ipv6::parse(&[&packet[..], &udp].concat()[..])
            .expect("an IPv6 packet")
            .pseudo_sum(protocol::UDP, udp_bytes)
    } else {
        let fields = Ipv4Fields {
            traffic_class: 0,
            identification: 1,
            dont_fragment: false,
            time_to_live: 64,
            protocol: protocol::UDP,
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 0, 2].into(),
        };
        fields.write(&mut packet, udp_bytes).expect("there is room");
        sealane_wire::Ipv4::parse(&[&packet[..], &udp].concat()[..]).expect("an IPv4 packet").pseudo_sum()
    };
    let checksum = pseudo_checksum(pseudo, &udp);
    udp[6..8].copy_from_slice(&checksum.to_be_bytes());
    packet.extend_from_slice(&udp);
    packet
}

fn pseudo_checksum(pseudo: Sum, udp: &[u8]) -> u16 {
    pseudo.bytes(udp).checksum()
}

fn ask(what: &str, parameters: &Parameters, outer_v6: bool, number: u64, packet: &[u8]) -> Option<Value> {
    let (encryption, integrity) = names(parameters.protocol, parameters.suite)?;
    let material = common::material(parameters.suite);
    let (key, integrity_key) = match (encryption, integrity) {
        (_, "") => (&material[..], &[][..]),
        ("" | "NULL", _) => (&[][..], &material[..]),
        _ => {
            let integrity_bytes = match integrity {
                "HMAC-MD5-96" => 16,
                "HMAC-SHA1-96" => 20,
                "SHA2-256-128" => 32,
                "SHA2-384-192" => 48,
                _ => 64,
            };
            material.split_at(material.len() - integrity_bytes)
        }
    };
    let (source, destination) =
        if outer_v6 { ("2001:db8::1", "2001:db8::2") } else { ("192.0.2.1", "192.0.2.2") };
    Some(json!({
        "do": what, "protocol": parameters.protocol.name(), "spi": parameters.spi,
        "mode": if parameters.mode == Mode::Tunnel { "tunnel" } else { "transport" },
        "encryption": encryption, "key": hex(key), "check_bytes": parameters.suite.check_bytes(), "integrity": integrity, "integrity_key": hex(integrity_key),
        "esn": parameters.sequence == SequenceBits::Extended, "number": number,
        "source": source, "destination": destination, "packet": hex(packet),
    }))
}

fn outer(is_ipv6: bool) -> Outer {
    let address = |word: &str| word.parse().expect("an address");
    let ends = if is_ipv6 {
        Ends::V6 { source: address("2001:db8::1"), destination: address("2001:db8::2") }
    } else {
        Ends::V4 { source: [192, 0, 2, 1].into(), destination: [192, 0, 2, 2].into() }
    };
    Outer { ends, hop_limit: 64, dont_fragment: false, identification: 1 }
}

/// Removes the differences that a hop or a rewrite of the packet causes.
fn settled(mut packet: Vec<u8>) -> Vec<u8> {
    if packet[0] >> 4 == 4 {
        packet[8] = 0;
        packet[10..12].fill(0);
    } else {
        packet[7] = 0;
    }
    packet
}

#[test]
fn scapy_opens_ours_and_we_open_its() {
    let Some(mut scapy) = start() else { return skip("no python3 with scapy and cryptography") };
    let suites = Suite::all_esp().map(|suite| (Protocol::Esp, suite));
    let suites = suites.chain(Suite::all_ah().map(|suite| (Protocol::Ah, suite)));
    let (mut opened, mut missing) = (0, Vec::new());
    for (protocol, suite) in suites {
        for mode in [Mode::Tunnel, Mode::Transport] {
            for sequence in [SequenceBits::Short, SequenceBits::Extended] {
                for is_ipv6 in [false, true] {
                    let parameters = parameters(protocol, mode, suite, sequence);
                    let is_extended = sequence == SequenceBits::Extended;
                    // scapy 2.5 does not authenticate the high half behind an ESP packet, contrary to RFC 4303,
                    // section 2.2.1.
                    if is_extended && protocol == Protocol::Esp && !suite.is_combined() {
                        continue;
                    }
                    let number = if is_extended { (3 << 32) + 7 } else { 7 };
                    let inner = packet(is_ipv6, b"what one end says the other hears");
                    let what = format!("{parameters:?} v6: {is_ipv6}");
                    let Some(mut asked) = ask("unprotect", &parameters, is_ipv6, number, &[]) else {
                        missing.push(format!("{} {suite}", protocol.name()));
                        continue;
                    };
                    let (outbound, inbound) = ends(parameters, number);
                    if is_extended {
                        inbound.window().accept(number - 1);
                    }
                    let sent = protect(&outbound, &inner, &outer(is_ipv6), Alignment::Rfc).expect(&what);
                    asked["packet"] = json!(hex(&sent));
                    let answer = answer_to(&mut scapy, &asked);
                    if let Some(reason) = answer.get("skipped") {
                        missing.push(format!("{suite}: {reason}"));
                        continue;
                    }
                    let plain = answer["packet"].as_str().unwrap_or_else(|| panic!("{what}: {answer}"));
                    assert_eq!(settled(unhex(plain)), settled(inner.clone()), "{what}");

                    let asked =
                        ask("protect", &parameters, is_ipv6, number, &inner).expect("it was asked before");
                    let answer = answer_to(&mut scapy, &asked);
                    let sealed = answer["packet"].as_str().unwrap_or_else(|| panic!("{what}: {answer}"));
                    let arrived = unprotect(&inbound, &unhex(sealed));
                    let arrived = arrived.unwrap_or_else(|reason| panic!("{what}: {reason:?} {sealed}"));
                    assert_eq!(settled(arrived), settled(inner), "{what}");
                    opened += 1;
                }
            }
        }
    }
    missing.sort();
    missing.dedup();
    println!("{opened} associations both ways; scapy lacks {}", missing.join(", "));
    assert!(opened >= 150, "{opened} associations");
}

/// Returns a capture of raw IP packets (link type 101).
fn capture(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 101] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    for packet in packets {
        for word in [0, 0, packet.len() as u32, packet.len() as u32] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        file.extend_from_slice(packet);
    }
    file
}

#[test]
fn tshark_decrypts_ours_and_finds_the_check_values_right() {
    if Command::new("tshark").arg("--version").output().is_err() {
        return skip("no tshark");
    }
    for (name, encryption, integrity) in [
        ("aes-128-gcm", "AES-GCM with 16 octet ICV [RFC4106]", "NULL"),
        ("aes-256-gcm", "AES-GCM with 16 octet ICV [RFC4106]", "NULL"),
        ("aes-128-cbc+hmac-sha256-128", "AES-CBC [RFC3602]", "HMAC-SHA-256-128 [RFC4868]"),
        ("3des-cbc+hmac-sha1-96", "TripleDES-CBC [RFC2451]", "HMAC-SHA-1-96 [RFC2404]"),
    ] {
        let suite: Suite = name.parse().expect("a suite");
        let parameters = parameters(Protocol::Esp, Mode::Tunnel, suite, SequenceBits::Short);
        let (outbound, _): (Outbound, _) = ends(parameters, 1);
        let inner = packet(false, b"hello tshark");
        let sent: Vec<Vec<u8>> = (0..3)
            .map(|_| protect(&outbound, &inner, &outer(false), Alignment::Rfc).expect("it is protected"))
            .collect();
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("esp.pcap");
        fs::write(&path, capture(&sent)).expect("a capture is written");
        let material = common::material(suite);
        let integrity_bytes = if suite.is_combined() { 0 } else { material.len() - suite_cipher_bytes(name) };
        let (key, integrity_key) = material.split_at(material.len() - integrity_bytes);
        let quoted =
            |bytes: &[u8]| if bytes.is_empty() { String::new() } else { format!("0x{}", hex(bytes)) };
        let line = format!(
            "\"IPv4\",\"192.0.2.1\",\"192.0.2.2\",\"0x00001234\",\"{encryption}\",\"{}\",\"{integrity}\",\"{}\"\n",
            quoted(key),
            quoted(integrity_key),
        );
        fs::write(folder.path().join("esp_sa"), line).expect("keys are written");
        let output = Command::new("tshark")
            .env("WIRESHARK_CONFIG_DIR", folder.path())
            .args([
                "-o",
                "esp.enable_encryption_decode:TRUE",
                "-o",
                "esp.enable_authentication_check:TRUE",
                "-V",
                "-r",
            ])
            .arg(&path)
            .output()
            .expect("tshark runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text.matches("[correct]").count(), 3, "{name}: {text}");
        assert_eq!(text.matches("Dst Port: 1234").count(), 3, "{name}: {text}");
    }
}

fn suite_cipher_bytes(name: &str) -> usize {
    if name.starts_with("3des") { 24 } else { 16 }
}
