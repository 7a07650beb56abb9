//! Tests that Wireshark, with `docs/digest.lua`, finds in a stack's packets every header down to the application's
//! bytes.

mod over;
#[path = "../../../testing/skip.rs"]
mod skip;

use over::{plan, room, run, seen, sent_by, stack};
use sealane_lanes::Placement;
use sealane_port::capture::{Tapped, Writer};
use sealane_port::link::Clock;
use sealane_port::memory::{Cable, Collect, Source};
use sealane_stack::ends;
use sealane_stack::{Crew, End, Ends, FlowPlan, Plan};
use sealane_wire::pcap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Sends twelve messages through `text`, and captures the packets that the sender put on the wire.
fn capture(text: &str, path: &Path) {
    let link = match text.rsplit('/').next() {
        Some("fddi") => pcap::Link::Fddi,
        Some("ether") => pcap::Link::Ethernet,
        _ => pcap::Link::Ip,
    };
    let stacks = [stack(text, End::Near, 0), stack(text, End::Far, 0)];
    let (one, other) = Cable::pair(room(&stacks[0]), 1000);
    let tapped = Tapped::new(one, Writer::new(File::create(path).unwrap(), link).unwrap());
    let ((received, sent), (there, back)) = (ends(tapped).unwrap(), ends(other).unwrap());
    let [near, far] = stacks;
    let source = ends(Source::new(vec![vec![7; 1000]; 12], room(&near), 3)).unwrap().0;
    let (out, collect) = seen(Collect::new(100));
    let clock = Clock::still();
    let crew = |flow| {
        let plan = Plan { batches: 32, ..plan(Placement::Packet, 1) };
        Crew::with_clock(plan, vec![flow], clock.clone()).unwrap()
    };
    let near = crew(FlowPlan {
        stack: near,
        down: Ends { source: Some(Box::new(source)), sink: Some(Box::new(sent)) },
        up: Ends { source: Some(Box::new(received)), sink: None },
    });
    let far = crew(FlowPlan {
        stack: far,
        down: Ends { source: None, sink: Some(Box::new(back)) },
        up: Ends { source: Some(Box::new(there)), ..sent_by(collect) },
    });
    run([&near, &far], 1, &[0], &clock);
    assert_eq!(out.lock().unwrap().packets.concat().len(), 12_000, "{text}");
}

/// Returns the fields of the packets that match a filter, one line per packet.
fn tshark(path: &Path, filter: &str, fields: &[&str]) -> Vec<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/digest.lua");
    let mut command = Command::new("tshark");
    command.arg("-X").arg(format!("lua_script:{}", script.display())).arg("-r").arg(path);
    for preference in ["tcp.check_checksum:TRUE", "udp.check_checksum:TRUE", "ip.check_checksum:TRUE"] {
        command.args(["-o", preference]);
    }
    command.args(["-Y", filter, "-T", "fields"]);
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    let output = command.output().expect("tshark runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn tshark_decodes_every_layer() {
    if Command::new("tshark").arg("--version").output().is_err() {
        return skip::skip("no tshark");
    }
    let file = |name: &str| -> PathBuf {
        std::env::temp_dir().join(format!("sealane-{}-{name}.pcap", std::process::id()))
    };
    let cases = [
        ("tcp/md5/ip/fddi", "fddi:llc:ip:sealane-digest:tcp", 16, 1000),
        ("null/tcp/md5/ip/fddi", "fddi:llc:ip:sealane-digest:tcp", 16, 1004),
        // 1000 bytes are padded to 1008, behind a block with the number, behind the length.
        ("des/tcp/md5/ip/ether", "eth:ethertype:ip:sealane-digest:tcp", 16, 1020),
        ("tcp/hmac-sha256/ipv6/ether", "eth:ethertype:ipv6:sealane-digest:tcp", 32, 1000),
        ("udp/md5/ip/ether", "eth:ethertype:ip:sealane-digest:udp", 16, 1008),
        ("udp/md5/ip", "raw:ip:sealane-digest:udp", 16, 1008),
    ];
    for (number, (text, protocols, digest_bytes, bytes)) in cases.into_iter().enumerate() {
        let path = file(&number.to_string());
        capture(text, &path);
        let is_tcp = text.contains("tcp");
        let (filter, length, checksum) = if is_tcp {
            ("sealane-digest && tcp.len > 0", "tcp.len", "tcp.checksum.status")
        } else {
            ("sealane-digest && udp", "udp.length", "udp.checksum.status")
        };
        let fields = ["frame.protocols", "sealane-digest.bytes", length, checksum];
        let lines = tshark(&path, filter, &fields);
        assert_eq!(lines.len(), 12, "{text}");
        for line in lines {
            let [found, digest, length, checksum] = line.split('\t').collect::<Vec<_>>()[..] else {
                panic!("{text}: {line}");
            };
            assert!(found.starts_with(protocols), "{text}: {found}");
            assert_eq!((digest, length), (&*digest_bytes.to_string(), &*bytes.to_string()), "{text}");
            assert_eq!(checksum, "1", "{text}: the checksum is right");
        }
        assert_eq!(tshark(&path, "_ws.malformed", &["frame.number"]), [""; 0], "{text}");
        std::fs::remove_file(&path).unwrap();
    }
}
