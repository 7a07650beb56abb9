//! Valid site files, and the errors of invalid ones.

use super::*;

const GOOD: &str = r#"
device = "sl0"
listen = "0.0.0.0:4500"
addresses = ["10.91.1.1/24", "fd91:1::1/64"]

[[peers]]
name = "branch"
endpoint = "198.51.100.7:4500"
networks = ["10.91.2.0/24", "fd91:2::/64"]

[peers.manual]
suite = "aes-128-cbc+hmac-sha256-128"
send = { spi = 0x1001, key-file = "to-branch.key" }
receive = { spi = 0x2001, key-file = "/keys/from-branch.key" }
"#;

fn parse(text: &str) -> Result<Site, SiteError> {
    Site::parse(Path::new("/etc/sealane/site.toml"), text)
}

#[test]
fn a_good_file_is_understood() {
    let site = parse(GOOD).expect("a good file");
    assert_eq!((site.device.as_str(), site.mtu), ("sl0", MTU_DEFAULT));
    assert_eq!(site.addresses[1], ("fd91:1::1".parse().expect("an address"), 64));
    let peer = &site.peers[0];
    assert_eq!(peer.window_packets, 4096);
    let Keys::Manual(manual) = &peer.keys else { panic!("it has keys from files") };
    assert_eq!(manual.send.file, Path::new("/etc/sealane/to-branch.key"));
    assert_eq!(manual.receive, ManualKey { spi: 0x2001, file: "/keys/from-branch.key".into() });
}

#[test]
fn a_peer_is_known_by_its_key_in_four_lines() {
    let key = PublicKey::from_bytes([7; 32]);
    let (head, _) = GOOD.split_once("[peers.manual]").expect("a manual table");
    let good = format!("{head}key = \"{key}\"\n");
    let keys = |text: &str| match parse(text).expect("a good file").peers.remove(0).keys {
        Keys::Peer(keys) => keys,
        Keys::Manual(_) | Keys::Ike(_) => panic!("it has a key"),
    };
    assert_eq!(keys(&good).key, key);
    assert_eq!((keys(&good).suite.to_string(), keys(&good).rekey.as_secs()), ("aes-256-gcm".into(), 600));
    let other = keys(&format!("{good}suite = \"chacha20-poly1305\"\nrekey-seconds = 30\n"));
    assert_eq!((other.suite.to_string(), other.rekey.as_secs()), ("chacha20-poly1305".into(), 30));
    for (more, says) in [
        ("rekey-seconds = 0", "from 1 to 86400"),
        ("suite = \"hmac-sha256-128\"", "null+hmac"),
        (
            "[peers.manual]\nsuite = \"null\"\nsend = { spi = 300, key-file = \"a\" }\nreceive = { spi = 300, key-file = \"b\" }",
            "keys twice",
        ),
    ] {
        let error = parse(&format!("{good}{more}\n")).expect_err(more);
        assert!(error.to_string().contains(says), "{error}");
    }
    let mistyped = parse(&good.replace("sealane1:", "sealane1:x")).expect_err("it is mistyped");
    assert_eq!(mistyped.at, Some((11, 7)), "{mistyped}");
    assert!(parse(&good.replace("key =", "suite =")).is_err());
    let twice = format!("{good}[[peers]]\nname = \"b\"\nnetworks = [\"10.5.0.0/16\"]\nkey = \"{key}\"\n");
    assert!(parse(&twice).expect_err("one key twice").to_string().contains("\"branch\"'s already"));
    let identity = parse(&good.replacen("device", "identity = \"own\"\ndevice", 1)).expect("a good file");
    assert_eq!(identity.identity.as_deref(), Some(Path::new("/etc/sealane/own")));
}

#[test]
fn a_peer_has_a_name_and_is_kept_alive() {
    let named = GOOD.replace("198.51.100.7:4500\"", "Branch.example.org:4500\"\nkeepalive = 25");
    let peer = parse(&named).expect("a good file").peers.remove(0);
    assert_eq!(
        peer.endpoint.map(|endpoint| endpoint.to_string()).as_deref(),
        Some("branch.example.org:4500")
    );
    assert_eq!(peer.keep_alive, Some(Duration::from_secs(25)));
    assert_eq!(parse(GOOD).expect("a good file").peers[0].keep_alive, None);
    let none = parse(&named.replace("= 25", "= 0")).expect("a good file");
    assert_eq!(none.peers[0].keep_alive, Some(Duration::ZERO));
}

#[test]
fn a_device_has_one_queue_unless_the_file_says_otherwise() {
    assert_eq!(parse(GOOD).expect("a good file").queues.get(), 1);
    let with = |more: &str| parse(&GOOD.replacen("addresses", &format!("{more}\naddresses"), 1));
    assert_eq!(with("queues = 16").expect("a good file").queues.get(), 16);
    assert_eq!(with("queues = 1\nencapsulation = \"none\"").expect("a good file").queues.get(), 1);
    // Each queue has an association with a peer that speaks IKE, and the file may say otherwise.
    let (head, _) = GOOD.split_once("[peers.manual]").expect("a manual table");
    for (queues, more, children) in [(1, "", 1), (4, "", 4), (4, "children = 2", 2), (4, "children = 8", 8)] {
        let ike =
            "[peers.ike]\nid = \"b\"\nlocal-id = \"a\"\npsk-file = \"k\"\nlocal-networks = [\"10.7.0.0/16\"]";
        let text = format!("{head}{ike}\n{more}\n").replacen(
            "addresses",
            &format!("queues = {queues}\naddresses"),
            1,
        );
        let site = parse(&text).expect("a good file");
        let Keys::Ike(ike) = &site.peers[0].keys else { panic!("it speaks IKE") };
        assert_eq!(ike.children, children, "{queues} queues, {more:?}");
    }
}

#[test]
fn errors_point_at_the_line() {
    for (from, to, at, says) in [
        ("addresses", "queues = 0\naddresses", (4, 10), "from 1 to 16"),
        ("addresses", "queues = 17\naddresses", (4, 10), "from 1 to 16"),
        ("addresses", "encapsulation = \"none\"\nqueues = 2\naddresses", (5, 10), "by UDP alone"),
        ("sl0", "a/b", (2, 10), "1 to 15 letters"),
        ("0.0.0.0:4500", "0.0.0.0", (3, 10), "write \"0.0.0.0:4500\""),
        ("0.0.0.0:4500", "::", (3, 10), "write \"[::]:4500\""),
        ("0.0.0.0:4500", "[::1]", (3, 10), "write \"[::1]:4500\""),
        ("0.0.0.0:4500", "everywhere", (3, 10), "such as 0.0.0.0:4500"),
        ("198.51.100.7:4500", "198.51.100.7", (8, 12), "write \"198.51.100.7:4500\""),
        ("[[peers]]", "[peers]", (6, 1), "double brackets"),
        ("[[peers]]", " [peers] # one", (6, 1), "double brackets"),
        ("\"branch\"", "\"\"", (7, 8), "1 to 64 bytes"),
        ("\"branch\"", "\"a\\u001b[2J\"", (7, 8), "no control characters"),
        ("10.91.2.0/24", "10.91.1.0/24", (9, 13), "\"10.91.1.1/32\""),
        ("10.91.2.0/24", "10.91.1.1/32", (9, 13), "own address"),
        ("fd91:2::/64", "fd91:1::/64", (9, 29), "\"fd91:1::1/128\""),
        ("10.91.1.1/24", "10.91.1.1/33", (4, 14), "with its network"),
        ("10.91.2.0/24", "10.91.2.1/24", (9, 13), "did you mean 10.91.2.0/24?"),
        ("aes-128-cbc", "aes-129-cbc", (12, 9), "unknown suite"),
        ("aes-128-cbc+hmac", "hmac", (12, 9), "null+hmac-sha256-128"),
        ("0x1001", "0xff", (13, 16), "reserved"),
        ("endpoint", "endpiont", (8, 1), "unknown field"),
        ("198.51.100.7:4500", "branch:x", (8, 12), "such as 198.51.100.7:4500, [2001:db8::7]:4500 or"),
        ("endpoint", "keepalive = 3601\nendpoint", (8, 13), "from 1 to 3600 seconds, or 0"),
        ("addresses", "encapsulation = \"tcp\"\naddresses", (4, 17), "\"udp\" or \"none\""),
        ("addresses", "protocol = \"ha\"\naddresses", (4, 12), "\"esp\" or \"ah\""),
        ("addresses", "protocol = \"ah\"\naddresses", (4, 12), "encapsulation = \"none\""),
        ("addresses", "direct = true\naddresses", (4, 10), "encapsulation = \"none\""),
        (
            "addresses",
            "encapsulation = \"none\"\nprotocol = \"ah\"\naddresses",
            (3, 10),
            "listen on that one",
        ),
        ("endpoint", "mode = \"tarnsport\"\nendpoint", (8, 8), "\"tunnel\" or \"transport\""),
        ("endpoint", "mode = \"transport\"\nendpoint", (8, 8), "has one address"),
        ("/keys/from-branch.key", "to-branch.key", (6, 1), "a key of its own"),
    ] {
        let error = parse(&GOOD.replacen(from, to, 1)).expect_err(from);
        assert_eq!(error.at, Some(at), "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn transport_mode_joins_two_hosts() {
    let good = GOOD.replace(
        "networks = [\"10.91.2.0/24\", \"fd91:2::/64\"]",
        "mode = \"transport\"\nnetworks = [\"10.91.2.1/32\"]",
    );
    let site = parse(&good).expect("a good file");
    let [local, remote] = ["10.91.1.1", "10.91.2.1"].map(|word| word.parse().expect("an address"));
    assert_eq!(site.peers[0].hosts, Some(Hosts { local, remote }));
    assert_eq!(site.peers[0].kind().to_string(), "transport aes-128-cbc+hmac-sha256-128");
    for (from, to, says) in [
        ("10.91.2.1/32", "10.91.2.0/24", "more than one"),
        ("10.91.1.1/24", "fd91:3::1/64", "one address of our own"),
        ("10.91.1.1/24\"", "10.91.1.1/24\", \"10.91.1.2/24\"", "one address of our own"),
    ] {
        let error = parse(&good.replacen(from, to, 1)).expect_err(from);
        assert!(error.to_string().contains(says) && error.at == Some((9, 8)), "{error}");
    }
    // The hosts may be joined by their outer addresses: such a network gets a routing table of its own.
    let outer = good.replace("10.91.2.1/32", "198.51.100.7/32").replace("10.91.1.1/24", "192.0.2.1/32");
    let site = parse(&outer).expect("a good file");
    let [local, remote] = ["192.0.2.1", "198.51.100.7"].map(|word| word.parse().expect("an address"));
    assert_eq!(site.peers[0].hosts, Some(Hosts { local, remote }));
    assert!(crate::host::Wanted::of(&site, "sl0").is_apart(site.peers[0].networks[0]));
    let ah = good
        .replace("addresses", "encapsulation = \"none\"\nprotocol = \"ah\"\naddresses")
        .replace("aes-128-cbc+", "")
        .replace("0.0.0.0", "192.0.2.1");
    assert_eq!(parse(&ah).expect("a good file").peers[0].kind().to_string(), "ah transport hmac-sha256-128");
    let error = parse(&ah.replace("192.0.2.1", "[2001:db8::1]")).expect_err("IPv4 inside");
    assert!(error.to_string().contains("another family"), "{error}");
    let error = parse(&ah.replace("suite = \"", "suite = \"null+")).expect_err("a suite of ESP");
    assert!(error.to_string().contains("no suite of AH"), "{error}");
}

#[test]
fn a_rate_takes_a_queue() {
    let at = |queueing: &str, rate: &str| {
        let text = GOOD.replace("addresses = ", &format!("queueing = \"{queueing}\"\naddresses = "));
        parse(&text.replace("name = \"branch\"", &format!("name = \"branch\"\nrate = \"{rate}\"")))
    };
    assert!(parse(GOOD).expect("a good file").queueing.is_fq_codel(), "the default");
    let site = at("fq-codel", "95Mbit").expect("a good file");
    assert_eq!(site.peers[0].rate.map(|rate| rate.get()), Some(95_000_000 / 8));
    for (queueing, rate, says) in [
        ("fifo", "95Mbit", "takes a queue"),
        ("fq-codel", "95", "with a unit"),
        ("fair", "95Mbit", "\"fq-codel\" or \"fifo\""),
    ] {
        let error = at(queueing, rate).expect_err("a fault").to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn peers_do_not_share_names_indices_or_networks() {
    let peers = GOOD.find("[[peers]]").expect("a peer");
    let twice = |changes: &[(&str, &str)]| {
        let second = changes.iter().fold(GOOD[peers..].to_owned(), |text, (from, to)| text.replace(from, to));
        parse(&format!("{GOOD}\n{second}"))
    };
    let apart =
        [("branch", "other"), ("0x2001", "0x2002"), ("10.91.2.0", "10.91.3.0"), ("fd91:2::", "fd91:3::")];
    assert_eq!(twice(&apart).expect("two peers").peers.len(), 2);
    for left_out in 0..3 {
        let changes: Vec<_> = apart
            .into_iter()
            .enumerate()
            .filter(|&(at, _)| at != left_out)
            .map(|(_, change)| change)
            .collect();
        let error = twice(&changes).expect_err("they share something");
        assert_eq!(error.at.map(|(line, _)| line), Some(16), "{error}");
    }
}

/// Every site file in the documents is one, and names nothing that is not there.
#[test]
fn site_files_in_the_documents_are_good() {
    let documents = [
        ("tunnels.md", include_str!("../../../../docs/tunnels.md")),
        ("gateway.md", include_str!("../../../../docs/gateway.md")),
    ];
    let mut count = 0;
    for (name, text) in documents {
        let blocks = text.split("```toml\n").skip(1).filter_map(|rest| rest.split_once("```"));
        // Other programs have files in TOML, too.
        for (block, _) in blocks.filter(|(block, _)| block.contains("[[peers]]")) {
            let block = block.replace("sealane1:…", &PublicKey::from_bytes([7; 32]).to_string());
            let read = Site::parse(Path::new("/site.toml"), &block);
            assert!(read.is_ok(), "{name}: {}\n{block}", read.expect_err("it is refused"));
            count += 1;
        }
    }
    assert!(count >= 2, "{count} site files");
}
