//! Keys of gateways: permissions of the files that hold or name them, and sequence numbers and forgeries under keys
//! from files.

mod network;
mod program;

use std::fs;
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::unix::fs::chown;
use std::os::unix::net::UnixListener;
use std::process::Output;
use std::thread;
use std::time::Duration;

use network::pair::{OUTER, Pair};
use network::{missing, namespaces};
use program::{Ends, eventually, sealane, secret, set_mode, text, unless, wait_for};

const CBC: (&str, usize) = ("aes-128-cbc+hmac-sha256-128", 48);

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A site file with two peers whose keys are in files, in a folder of its own.
struct Manual {
    folder: tempfile::TempDir,
}

impl Manual {
    fn new() -> Self {
        let manual = Self { folder: tempfile::tempdir().expect("a folder") };
        let mut site = "device = \"sl0\"\nlisten = \"127.0.0.1:4500\"\n".to_owned();
        for peer in 0..2 {
            site += &format!(
                "[[peers]]\nname = \"p{peer}\"\nnetworks = [\"10.9{peer}.0.0/16\"]\n[peers.manual]\nsuite = \"{}\"\n\
                 send = {{ spi = {1}, key-file = \"send{peer}.key\" }}\n\
                 receive = {{ spi = {1}, key-file = \"receive{peer}.key\" }}\n",
                CBC.0,
                300 + peer
            );
            for (name, byte) in [("send", 16 + peer), ("receive", 32 + peer)] {
                manual.write(&format!("{name}{peer}.key"), &format!("{byte:02x}").repeat(CBC.1));
            }
        }
        manual.write("site.toml", &site);
        manual
    }

    fn write(&self, name: &str, content: &str) {
        secret(self.folder.path().join(name), content);
    }

    fn check(&self) -> Output {
        let site = self.folder.path().join("site.toml");
        sealane(&["tunnel", "check", site.to_str().expect("UTF-8")]).output().expect("it runs")
    }
}

#[track_caller]
fn refused(output: &Output, words: &[&str]) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    words.iter().for_each(|word| assert!(said.contains(word), "{said}"));
}

#[test]
fn a_site_file_that_others_could_write_is_refused() {
    let manual = Manual::new();
    let (folder, site) = (manual.folder.path(), manual.folder.path().join("site.toml"));
    assert!(manual.check().status.success());
    for (path, wrong, right) in [(&*site, 0o666, 0o600), (&site, 0o620, 0o600), (folder, 0o777, 0o700)] {
        set_mode(path, wrong);
        refused(&manual.check(), &["not safe", "go-w", &path.display().to_string()]);
        let up = sealane(&["tunnel", "up", site.to_str().expect("UTF-8")]).output().expect("it runs");
        refused(&up, &["not safe", "go-w"]);
        set_mode(path, right);
    }
    if is_root() {
        chown(&site, Some(64_321), None).expect("we are root");
        refused(&manual.check(), &["belongs to user 64321"]);
        chown(&site, Some(0), None).expect("we are root");
    }
    assert!(manual.check().status.success());
}

#[cfg(feature = "serve")]
#[test]
fn lists_of_peers_in_a_folder_that_others_could_write_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let deep = folder.path().join("deep");
    fs::create_dir(&deep).expect("a folder");
    let (list, served) = (deep.join("list"), folder.path().join("identity"));
    fs::write(&list, "").expect("a list");
    let identity = served.to_str().expect("UTF-8");
    assert!(sealane(&["id", "--identity", identity]).output().expect("it runs").status.success());
    set_mode(&deep, 0o777);
    let list = list.to_str().expect("UTF-8");
    let peers =
        sealane(&["peers", "--authorised-peers", list, "--known-peers", list]).output().expect("it runs");
    assert_eq!(peers.status.code(), Some(5), "{}", text(&peers.stderr));
    let arguments =
        ["serve", identity, "--listen", "127.0.0.1:0", "--identity", identity, "--authorised-peers", list];
    sealane(&arguments).complains(5, &["go-w", "deep"]);
}

#[test]
fn one_key_in_two_files_is_found() {
    let manual = Manual::new();
    let one = format!("{:02X}", 16).repeat(CBC.1);
    // The key is a copy, or is written in another way; it is in one peer, or in two.
    for (name, content) in [
        ("receive0.key", one.clone()),
        ("receive1.key", format!("{one}\n")),
        ("send1.key", one.as_bytes().chunks(2).map(|pair| format!("{} ", text(pair))).collect()),
    ] {
        let good = fs::read_to_string(manual.folder.path().join(name)).expect("a key file");
        manual.write(name, &content);
        refused(&manual.check(), &["hold the same key", "send0.key", name]);
        manual.write(name, &good);
    }
    assert!(manual.check().status.success());
}

#[test]
fn a_gateway_looks_at_keys_and_counters_before_it_is_up() {
    let Some(()) = unless(missing()) else { return };
    let mut pair = Pair::new("kc", CBC.0, CBC.1, "1");
    pair.kill(0);
    let folder = pair.folders[0].path().to_owned();
    let (key, counter) = (folder.join("receive.key"), folder.join("send.key.counter"));
    let up = |pair: &Pair| pair.output(0, &["up", &pair.site(0)]);
    let (own, other) = (fs::read(folder.join("send.key")).expect("a key"), fs::read(&key).expect("a key"));
    fs::write(&key, own).expect("a key file");
    refused(&up(&pair), &["hold the same key"]);
    fs::write(&key, other).expect("a key file");
    let good = fs::read(&counter).expect("a counter file");
    fs::write(&counter, "").expect("a counter file");
    refused(&up(&pair), &["damaged", "make a new key"]);
    fs::write(&counter, good).expect("a counter file");
    for wrong in [0o666, 0o660, 0o606] {
        set_mode(&counter, wrong);
        refused(&up(&pair), &["counter file is not safe", "go-w"]);
    }
    set_mode(&counter, 0o600);
    chown(&counter, Some(64_321), None).expect("we are root");
    refused(&up(&pair), &["counter file is not safe", "belongs to user 64321"]);
    chown(&counter, Some(0), None).expect("we are root");
    pair.up(0);
    assert!(pair.ping("56"));
}

#[test]
fn a_run_folder_that_others_could_write_into_is_refused() {
    let Some(()) = unless(missing()) else { return };
    let mut pair = Pair::new("kr", CBC.0, CBC.1, "1");
    pair.kill(0);
    let (run, site) = (pair.run_folder(0), pair.site(0));
    set_mode(&run, 0o777);
    let output = pair.output(0, &["up", &site]).ends(5);
    let said = text(&output.stderr);
    assert!(said.contains("control socket") && said.contains("go-w"), "{said}");
    set_mode(&run, 0o700);
    chown(&run, Some(64_321), None).expect("we are root");
    let said = pair.output(0, &["up", &site]).stderr;
    assert!(text(&said).contains("belongs to user 64321"), "{}", text(&said));
    chown(&run, Some(0), None).expect("we are root");
    pair.up(0);
}

#[test]
fn no_words_of_a_gateway_move_the_cursor() {
    let folder = tempfile::tempdir().expect("a folder");
    let evil = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}\r";
    let status = serde_json::json!({"status": {
        "device": format!("sl9{evil}"), "listen": evil, "up_s": 1, "cpu_s": 0.1,
        "peers": [{
            "name": evil, "endpoint": evil, "silent_s": 1.0, "mtu_bytes": 1400, "sent_packets": 1, "sent_bytes": 1,
            "received_packets": 1, "received_bytes": 1, "associations": [],
        }],
        "drops": [[evil, 3]], "path_messages": [[evil, 3]],
    }});
    let listener = UnixListener::bind(folder.path().join("tunnel-sl9.sock")).expect("a socket");
    let answer = serde_json::to_vec(&status).expect("JSON");
    let commands: [&[&str]; 3] = [&["status", "sl9"], &["stats", "sl9"], &["status", "sl9", "--json"]];
    thread::spawn(move || {
        for (mut stream, _) in std::iter::from_fn(|| listener.accept().ok()) {
            // A question that is left unread would reset the connection.
            let question = stream.read(&mut [0; 100]);
            question.and_then(|_| stream.write_all(&answer)).expect("it asks and listens");
        }
    });
    for command in commands {
        let arguments = [&["tunnel"], command, &["--run", folder.path().to_str().expect("UTF-8")]].concat();
        let output = sealane(&arguments).ends(0);
        let said = text(&output.stdout);
        let is_bad = |c: char| c.is_control() && c != '\n';
        assert!(!said.is_empty() && !said.contains(is_bad), "{command:?}: {said:?}");
        if command.contains(&"--json") {
            let read: serde_json::Value = serde_json::from_str(said).expect("JSON");
            assert_eq!(read["peers"][0]["name"], evil);
        } else {
            assert!(!said.contains('\u{202e}'), "{command:?}: {said:?}");
        }
    }
}

/// The group of the processes in the test. In /proc, processes that are not dumpable belong to root's group instead.
const GROUP: &str = "64322";

/// Waits until `top` and its descendants, as far as they run this program, belong to root's group in /proc.
#[track_caller]
fn none_is_dumpable(top: u32, least: usize) {
    use std::os::unix::fs::MetadataExt;
    let groups = || {
        let mut found = vec![top];
        let mut at = 0;
        while at < found.len() {
            let process = found[at];
            let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
            for task in tasks {
                let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
                found.extend(children.split_whitespace().filter_map(|word| word.parse::<u32>().ok()));
            }
            at += 1;
        }
        let ours = |process: &&u32| {
            fs::read_to_string(format!("/proc/{process}/comm")).is_ok_and(|name| name.trim() == "sealane")
        };
        let group = |process: &u32| Some(fs::metadata(format!("/proc/{process}/stat")).ok()?.gid());
        found.iter().filter(ours).filter_map(group).collect::<Vec<_>>()
    };
    let are_roots = |groups: &[u32]| groups.len() >= least && groups.iter().all(|&group| group == 0);
    assert!(eventually(|| are_roots(&groups())), "{:?}", groups());
}

#[cfg(feature = "serve")]
#[test]
fn copies_and_daemons_leave_no_core_dump() {
    if !is_root() {
        return program::skip("another group takes root");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let program = program::path();
    let start = |arguments: &[&str]| {
        let mut command = std::process::Command::new("setpriv");
        command.args([&format!("--regid={GROUP}"), "--clear-groups"]).arg(&program).args(arguments);
        command.env("HOME", folder.path()).env_remove("XDG_CONFIG_HOME");
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
        command.stderr(std::process::Stdio::null()).spawn().expect("setpriv (util-linux) runs")
    };
    fs::write(at("peers"), "").expect("a list");
    let (identity, peers, copy) = (at("identity"), at("peers"), at("copy"));
    let daemon = ["serve", &identity, "--listen", "127.0.0.1:0", "--identity", &identity];
    let daemon = [&daemon[..], &["--authorised-peers", &peers]].concat();
    sealane(&["id", "--identity", &identity]).ends(0);
    let folder_served = folder.path().to_str().expect("UTF-8");
    let daemon: Vec<&str> =
        daemon.iter().enumerate().map(|(at, word)| if at == 1 { folder_served } else { word }).collect();
    // The copy reads a pipe that stays open, and has a second process for its other end.
    for (arguments, least) in [(&daemon[..], 1), (&["cp", "-", &copy], 2), (&["serve", "--stdio"], 1)] {
        let mut child = start(arguments);
        none_is_dumpable(child.id(), least);
        child.kill().expect("it runs");
        child.wait().expect("it ends");
    }
}

#[test]
fn gateways_leave_no_core_dump() {
    let Some(()) = unless(missing()) else { return };
    let mut pair = Pair::new("kd", CBC.0, CBC.1, "1");
    pair.kill(0);
    let run = pair.run_folder(0);
    let mut command = namespaces::command(&pair.names[0], "setpriv");
    command.args([&format!("--regid={GROUP}"), "--clear-groups"]);
    command.arg(program::path()).args(["tunnel", "up", &pair.site(0)]).env("SEALANE_RUN", run);
    let mut child = command.spawn().expect("it starts");
    let socket = pair.run_folder(0).join("tunnel-sl0.sock");
    wait_for("the control socket", || socket.exists());
    none_is_dumpable(child.id(), 1);
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}

#[test]
fn a_key_whose_numbers_are_used_protects_nothing_more() {
    let Some(()) = unless(missing()) else { return };
    let mut pair = Pair::new("ke", CBC.0, CBC.1, "1");
    pair.kill(0);
    let counter = pair.folders[0].path().join("send.key.counter");
    fs::write(&counter, format!("{:020}\n", u32::MAX - 5)).expect("a counter file");
    pair.up(0);
    for number in 0..6 {
        assert!(pair.ping("56"), "number {number} of the last six");
    }
    for _ in 0..2 {
        let before = pair.dropped(0, "sequence_exhausted");
        assert!(!pair.ping("56"), "there is no number for it");
        assert!(pair.dropped(0, "sequence_exhausted") > before, "{}", pair.status(0));
    }
    // The peer has seen nothing twice.
    for reason in ["replay_duplicate", "replay_too_old", "bad_integrity"] {
        assert_eq!(pair.dropped(1, reason), 0, "{reason}");
    }
    pair.kill(0);
    refused(&pair.output(0, &["up", &pair.site(0)]), &["used all its sequence numbers"]);
}

#[test]
fn extended_numbers_go_on_where_the_short_ones_end() {
    let Some(()) = unless(missing()) else { return };
    let mut pair = Pair::new("kx", CBC.0, CBC.1, "2");
    for end in [0, 1] {
        pair.kill(end);
        let extended = "[peers.manual]\nextended-sequence-numbers = true\n";
        assert!(pair.edit_site(end, "[peers.manual]\n", extended));
        let counter = pair.folders[end].path().join("send.key.counter");
        fs::write(&counter, format!("{:020}\n", (1u64 << 32) - 8000)).expect("a counter file");
    }
    pair.up(0);
    pair.up(1);
    assert!(pair.ping("56"));
    // The transfer takes some 12,000 packets, and half as many acknowledgements.
    pair.transfer(16 << 20);
    assert!(pair.ping("1300"));
    let sent = pair.status(0)["peers"][0]["sent_packets"].as_u64().expect("a count");
    assert!(sent > 8000, "{sent} packets do not reach the end of the short numbers");
    let reasons = ["bad_integrity", "replay_duplicate", "replay_too_old", "sequence_exhausted"];
    pair.none_dropped("extended numbers", &reasons);
}

#[test]
fn a_counter_that_was_rolled_back_is_heard_by_nobody() {
    let Some(()) = unless(missing()) else { return };
    let mut pair = Pair::new("kb", CBC.0, CBC.1, "1");
    let counter = pair.folders[0].path().join("send.key.counter");
    for _ in 0..3 {
        assert!(pair.ping("56"));
    }
    pair.kill(0);
    // An old copy of the disk would have this counter: the numbers that follow have already been sent.
    fs::write(&counter, format!("{:020}\n", 1)).expect("a counter file");
    pair.up(0);
    for _ in 0..3 {
        assert!(!pair.ping("56"), "its number was used");
    }
    assert_eq!(
        pair.dropped(1, "replay_duplicate") + pair.dropped(1, "replay_too_old"),
        3,
        "{}",
        pair.status(1)
    );
    // Nonces made from the counter would have been repeated, so such a suite requires the user's explicit consent.
    assert!(pair.edit_site(0, CBC.0, "aes-128-ctr+hmac-sha256-128"));
    refused(&pair.output(0, &["check", &pair.site(0)]), &["--allow-manual-counter"]);
}

#[test]
fn a_keyed_gateway_that_was_rolled_back_agrees_on_new_keys() {
    let Some(()) = unless(missing()) else { return };
    let mut pair = Pair::keyed("kv", "", true);
    let folder = pair.folders[0].path().to_owned();
    let copy = |name: &str| fs::read(folder.join(name)).expect("a file");
    let disk = ["identity", "site.toml"].map(|name| (name, copy(name)));
    let mut spis = Vec::new();
    for _ in 0..2 {
        pair.wait_for_ping();
        spis.push(pair.outbound_spi(0));
        pair.kill(0);
        // Everything on the disk is from before the first start.
        let names: Vec<_> = fs::read_dir(&folder).expect("a folder").flatten().collect();
        for entry in names.iter().filter(|entry| entry.path().is_file()) {
            fs::remove_file(entry.path()).expect("it goes");
        }
        for (name, content) in &disk {
            fs::write(folder.join(name), content).expect("a file");
            set_mode(folder.join(name), 0o600);
        }
        pair.up(0);
    }
    pair.wait_for_ping();
    spis.push(pair.outbound_spi(0));
    spis.sort_unstable();
    spis.dedup();
    assert_eq!(spis.len(), 3, "each start has keys of its own: {spis:?}");
    for reason in ["replay_duplicate", "replay_too_old"] {
        assert_eq!(pair.dropped(1, reason), 0, "{reason}");
    }
}

#[test]
fn a_forger_learns_nothing_from_chained_blocks() {
    let Some(()) = unless(missing()) else { return };
    for (tag, suite, material_bytes, block, check_bytes) in
        [("ka", "aes-128-cbc+hmac-sha256-128", 48, 16, 16), ("kf", "aes-256-cbc+hmac-sha512-256", 96, 16, 32)]
    {
        let mut pair = Pair::new(tag, suite, material_bytes, "1");
        pair.kill(1);
        // The socket takes the peer's place, and receives its packets.
        let socket = pair.inside(1, || UdpSocket::bind((OUTER[1], 4500)).expect("a port"));
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
        let genuine: Vec<Vec<u8>> = (0..2)
            .map(|_| {
                assert!(!pair.ping("56"));
                let mut datagram = [0; 2000];
                let bytes = socket.recv(&mut datagram).expect("a packet");
                datagram[..bytes].to_vec()
            })
            .collect();
        drop(socket);
        pair.up(1);
        let [one, other] = &genuine[..] else { unreachable!("there are two") };
        assert_eq!(one.len(), other.len());
        let blocks_end = one.len() - check_bytes;
        let mut forged = Vec::new();
        // Every byte behind the index is altered, in the lowest and the highest bit; padding and its length are in
        // the last block.
        for at in 4..one.len() {
            for bit in [0x01, 0x80] {
                let mut packet = one.clone();
                packet[at] ^= bit;
                // A sequence number of 0 is invalid, which is noticed before anything is computed.
                if packet[4..8] != [0; 4] {
                    forged.push(packet);
                }
            }
        }
        // These are the questions to a padding oracle: all values of the byte before the last block's last one.
        for value in 1..=255 {
            let mut packet = one.clone();
            packet[blocks_end - block - 1] ^= value;
            forged.push(packet);
        }
        // The forgeries have blocks of another packet, blocks in another order, one block less, or one more.
        for at in (8..blocks_end).step_by(block) {
            let mut packet = one.clone();
            packet[at..at + block].copy_from_slice(&other[at..at + block]);
            forged.push(packet);
            let mut packet = one.clone();
            packet.drain(at..at + block);
            forged.push(packet);
            let mut packet = one.clone();
            let copied = one[at..at + block].to_vec();
            packet.splice(at..at, copied);
            forged.push(packet);
        }
        let sender = pair.inside(0, || UdpSocket::bind((OUTER[0], 0)).expect("a port"));
        let total = |pair: &Pair| {
            let status = pair.status(1);
            let drops = status["drops"].as_array().expect("a list").clone();
            drops.iter().map(|drop| drop[1].as_u64().expect("a count")).sum::<u64>()
        };
        let received =
            |pair: &Pair| pair.status(1)["peers"][0]["received_packets"].as_u64().expect("a count");
        let (before, bad_before) = (total(&pair), pair.dropped(1, "bad_integrity"));
        for (number, packet) in forged.iter().enumerate() {
            sender.send_to(packet, (OUTER[1], 4500)).expect("it is sent");
            // No more are sent at once than a socket holds.
            if number % 50 == 49 || number + 1 == forged.len() {
                let are_counted = eventually(|| total(&pair) - before > number as u64);
                assert!(are_counted, "{number}: {}", pair.status(1));
            }
        }
        // All of them are dropped for the same reason, whatever the padding would have been.
        assert_eq!(pair.dropped(1, "bad_integrity") - bad_before, forged.len() as u64, "{}", pair.status(1));
        assert_eq!(received(&pair), 0);
        // The window has not moved: the packets from which the forgeries were made are still new.
        for packet in &genuine {
            sender.send_to(packet, (OUTER[1], 4500)).expect("it is sent");
        }
        assert!(eventually(|| received(&pair) >= 2), "{}", pair.status(1));
    }
}
