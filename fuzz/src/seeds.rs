//! The seeds serve their purpose: parsers accept them, except for the few that show refused input. A seed in an older
//! format would only test the first check.

#[path = "../../crates/tcp/tests/common/hostile.rs"]
mod hostile;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::packets::packets;
use crate::public_keys::{ALL, agree};
use crate::scripts::{acknowledgements, batches, rules};
use crate::sftp::converse;
use crate::{keys, with_keys};
use sealane_cli::reread_any;
use sealane_copy::proto::compression::Expander;
use sealane_copy::proto::entry::{Announcement, Closing, Copied, Pack, decode};
use sealane_copy::proto::join::{self, JOIN_BYTES};
use sealane_copy::proto::message::{Message, Sign};
use sealane_copy::proto::record::{DATA_BYTES_MAX, split_records};
use sealane_peer::{AuthorisedPeers, Framer, Identity, KnownPeers, Location, PublicKey, client_share};
use sealane_simulator::Machine;
use sealane_stack::Spec;
use sealane_tree::{Filter, RelativePath, Rule};
use sealane_wire::gso::Pieces;
use sealane_wire::virtio::Virtio;
use sealane_wire::{Ethernet, Fddi, Ipv4, Ipv6};

/// Checks that a parser accepts the seeds of `target` except those named in `refused`.
fn check(target: &str, refused: &[&str], is_understood: impl Fn(&[u8]) -> bool) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
    let mut seeds = 0;
    for seed in std::fs::read_dir(&directory).unwrap() {
        let seed = seed.unwrap();
        let name = seed.file_name().into_string().unwrap();
        let is_meant_to_be = !refused.contains(&name.as_str());
        assert_eq!(is_understood(&std::fs::read(seed.path()).unwrap()), is_meant_to_be, "{target}/{name}");
        seeds += 1;
    }
    assert!(seeds > refused.len(), "{target}");
}

#[test]
fn seeds_of_data_streams() {
    check("records", &["unknown-kind", "too-long"], |bytes| {
        split_records(&bytes[1..], &mut Vec::new()).is_ok()
    });
    check("pack", &["cut"], |bytes| Pack::new(bytes).all(|item| item.is_ok()));
    check("announcement", &[], |bytes| decode::<Announcement>("announcement", bytes).is_ok());
    check("closing", &[], |bytes| decode::<Closing>("closing", bytes).is_ok());
    check("compression", &["window", "cut", "too-long"], |bytes| {
        let mut room = vec![0; DATA_BYTES_MAX];
        Expander::new().unwrap().expand(bytes, &mut room).is_ok()
    });
    check("signature", &["cut", "hole-without-end", "too-long"], |bytes| {
        let (choice, bytes) = bytes.split_first_chunk().unwrap();
        sealane_delta::unpack(&crate::spans(choice), bytes).is_ok()
    });
    check("copied", &[], |bytes| {
        decode::<Copied>("copied range", bytes).is_ok() || decode::<Sign>("request", bytes).is_ok()
    });
    check("receiver", &[], |bytes| batches(&bytes[1..]).1.is_empty());
    check("acknowledgements", &["altered", "noise", "other-kind"], |bytes| {
        acknowledgements(&bytes[1..]).is_honest
    });
    check("join", &["altered"], |bytes| join::decode(bytes.first_chunk::<JOIN_BYTES>().unwrap()).is_some());
}

#[test]
fn seeds_of_public_keys() {
    for algorithm in ALL {
        let refused: &[_] = match algorithm.target {
            "public_keys_x25519" | "public_keys_ed25519" | "public_keys_ml_dsa" | "public_keys_ml_kem" => &[],
            _ => &["no-key"],
        };
        check(algorithm.target, refused, |bytes| agree(algorithm, bytes) > 0);
    }
}

#[test]
fn seeds_of_control_channels() {
    check("message", &[], |frame| Message::decode(frame).is_ok());
    let refused =
        ["not-asked", "too-long", "other-version", "unfit", "more-than-asked", "more-after-an-error"];
    check("sftp", &refused, |bytes| converse(&bytes[1..], usize::from(bytes[0]) + 1).outcome.is_ok());
    check("frames", &["too-long"], |bytes| Framer::new().push(&bytes[1..]).is_ok());
    check("client_hello", &["cut", "other-group"], |bytes| client_share(bytes).is_some());
    check("shown_keys", &["cut", "public-pem"], |bytes| {
        PublicKey::from_spki(bytes).is_some() || Identity::from_pem(bytes).is_some()
    });
}

#[test]
fn seeds_of_files_and_arguments() {
    let keys = keys();
    // The target corrects their checks; without that, not even the first entry counts.
    check("journal", &[], |bytes| bytes.starts_with(b"sealane3") && sealane_copy::replay_any(bytes) == 0);
    check("machine", &[], |bytes| Machine::parse(std::str::from_utf8(bytes).unwrap()).is_ok());
    check("known_peers", &["bad"], |bytes| KnownPeers::parse(&with_keys(bytes, &keys)).is_ok());
    check("authorised_peers", &["twice", "up"], |bytes| {
        AuthorisedPeers::parse(&with_keys(bytes, &keys)).is_ok()
    });
    check("check_list", &["improper"], |bytes| {
        bytes.split(|&byte| byte == b'\n').any(|line| reread_any(line) > 0)
    });
    check("filter", &["bad"], |bytes| {
        Filter::new(rules(bytes).1.into_iter().map(|(_, pattern)| Rule::Exclude(pattern.to_owned()))).is_ok()
    });
    check("fleet", &["backwards", "no-line"], sealane_fleet::fuzzing::understands);
    check("location", &[], |bytes| Location::parse(OsStr::from_bytes(bytes)).is_ok());
    check("stack_spec", &["open"], |bytes| {
        std::str::from_utf8(bytes).is_ok_and(|text| text.parse::<Spec>().is_ok())
    });
    check("relative_path", &["dots", "absolute"], |bytes| RelativePath::new(bytes).is_ok());
}

#[test]
fn seeds_of_packets() {
    check("tcp_segments", &[], |bytes| hostile::converse(bytes) >= 2);
    check("wire_headers", &[], |bytes| {
        Ipv4::parse(bytes).is_ok()
            || Ipv6::parse(bytes).is_ok_and(|ip| ip.upper().is_ok())
            || Ethernet::parse(bytes).is_ok_and(|frame| Ipv4::parse(frame.payload()).is_ok())
            || Fddi::parse(bytes).is_ok_and(|frame| Ipv4::parse(frame.payload()).is_ok())
    });
    check("stack_packets", &[], |bytes| {
        let packets: Vec<_> = packets(&bytes[2..]).collect();
        packets.len() > 1
            && packets.iter().all(|packet| {
                Fddi::parse(packet).is_ok_and(|frame| Ipv4::parse(frame.payload()).is_ok())
                    || Ethernet::parse(packet).is_ok_and(|frame| {
                        Ipv4::parse(frame.payload()).is_ok() || Ipv6::parse(frame.payload()).is_ok()
                    })
            })
    });
    // A run of packets is for the other half of the target.
    check("gso_packets", &["run"], |bytes| {
        Virtio::parse(bytes).is_ok_and(|(header, packet)| Pieces::of(header, packet).is_ok())
    });
}

#[test]
fn seeds_of_ipsec() {
    check("ipsec_packets", &[], |bytes| sealane_ipsec::frame::named(&bytes[1..]).is_some());
}

#[test]
fn seeds_of_ike() {
    use sealane_ike::wire::{PayloadType, payload::parse_all};
    check("ike_payloads", &["critical", "cut"], |bytes| {
        parse_all(PayloadType(bytes[0]), &bytes[1..]).is_ok_and(|payloads| !payloads.is_empty())
    });
    check("ike_names", &["cut", "host"], |bytes| {
        use sealane_ike::{Identity, wire::Identification};
        let is_name = |identity: &Identity| matches!(identity, Identity::DistinguishedName(_));
        let wire = Identification { kind: 9, data: bytes.to_vec() };
        let in_der = Identity::from_wire(&wire).is_ok_and(|name| name.to_string().contains('='));
        in_der || str::from_utf8(bytes).is_ok_and(|text| is_name(&Identity::from_text(text)))
    });
    check("ike_peer", &["incomplete-fragments"], |bytes| crate::ike::follow(bytes) > 0);
}

#[test]
fn seeds_of_the_engine_service() {
    use sealane_client::Uri;
    use sealane_client::setup::{Ask, Told, decode};
    use sealane_service::{Policy, policy::Names};
    check("engine_setup", &["unknown-field", "cut", "uri-long"], |bytes| {
        let names = Names::of("www:x:33:33::/:/bin/false\n", "www:x:33:\n");
        let is_text = |text: &str| {
            text.parse::<Uri>().is_ok() || Uri::of_pem(text).is_ok() || Policy::parse(text, &names).is_ok()
        };
        decode::<Ask>(bytes).is_ok()
            || decode::<Told>(bytes).is_ok()
            || str::from_utf8(bytes).is_ok_and(is_text)
    });
    check("engine_ml_dsa_keys", &["mixed"], |bytes| {
        sealane_asymmetric::PrivateKey::of_pkcs8(&bytes[1..]).is_ok()
    });
    check("engine_ring", &[], |steps| {
        steps.len() % 8 == 0 && steps.iter().step_by(8).any(|action| action % 4 == 2)
    });
}

#[test]
fn seeds_of_tunnels() {
    check("tunnel_streams", &["length-0", "length-1", "other-protocol", "too-long"], |bytes| {
        use sealane_tunnel::streams::frames::Frames;
        let mut packets = 0;
        let read = Frames::new(true, 16 << (bytes[1] % 13)).push(&bytes[2..], |_| packets += 1);
        read.is_ok() && packets > 0
    });
    check("tunnel_files", &["unknown-field", "shared-key", "one-table"], |bytes| {
        use sealane_tunnel::keying::agreement::{Answer, Offer};
        use sealane_tunnel::{counter_file, privilege};
        if privilege::find(bytes, privilege::USER).is_ok_and(|account| account.is_some()) {
            return true;
        }
        if counter_file::parse(bytes).is_some() {
            return true;
        }
        let has_passwords = |text| sealane_tunnel::credentials::parse_users(text).is_ok();
        if str::from_utf8(bytes).is_ok_and(has_passwords) {
            return true;
        }
        let is_site = |text| sealane_tunnel::site::Site::parse(Path::new("site.toml"), text).is_ok();
        Offer::parse(bytes).is_ok()
            || Answer::parse(bytes).is_ok()
            || str::from_utf8(bytes).is_ok_and(is_site)
    });
}
