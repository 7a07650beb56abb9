//! `known-peers`: a file that is accepted reads back the same from its printed form, and every entry is a host that
//! is allowed on a command line.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use sealane_fuzz::{KEYS, frugally, keys, with_keys};
use sealane_peer::{HostPort, KnownPeer, KnownPeers, PublicKey};

const MAX_ENTRIES: usize = 8192;
const MAX_HOST_BYTES: usize = 253;

static TEXT_KEYS: LazyLock<[String; KEYS]> = LazyLock::new(keys);

fuzz_target!(|input: &[u8]| {
    check(input);
    check(&with_keys(input, &TEXT_KEYS));
});

fn check(text: &[u8]) {
    let Ok(known) = frugally(text.len(), || KnownPeers::parse(text)) else { return };
    let entries: Vec<&KnownPeer> = known.iter().collect();
    assert!(entries.len() <= MAX_ENTRIES);
    let mut printed = String::new();
    for KnownPeer { address, key } in &entries {
        let HostPort { host, port } = address;
        assert!((1..=MAX_HOST_BYTES).contains(&host.len()) && *port != 0);
        assert!(!host.starts_with('-') && !host.bytes().any(|byte| byte.is_ascii_uppercase()));
        assert_eq!(address.to_string().parse::<HostPort>().as_ref().ok(), Some(address));
        assert_eq!(key.to_string().parse::<PublicKey>().as_ref(), Ok(key));
        assert!(known.keys(address).any(|candidate| candidate == *key));
        printed.push_str(&format!("{address} {key}\n"));
    }
    let again = KnownPeers::parse(printed.as_bytes()).expect("what we print, we can read");
    assert!(again.iter().eq(entries));
}
