//! `authorised-peers`: a file that is accepted reads back the same from its printed form, no key and no name occurs
//! twice, and no peer is confined to a directory that could be left.

#![no_main]

use std::collections::HashSet;
use std::path::Component;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use sealane_fuzz::{KEYS, keys, with_keys, within};
use sealane_peer::{AuthorisedPeer, AuthorisedPeers, PublicKey};

const MAX_ENTRIES: usize = 8192;
const MAX_NAME_BYTES: usize = 64;
/// Bytes allocated per byte of the file: a line holds a key of 65 characters, and makes three entries of tables that
/// double.
const ALLOCATED_PER_BYTE: usize = 40;
const ALLOCATED_AT_LEAST_BYTES: usize = 4096;

static TEXT_KEYS: LazyLock<[String; KEYS]> = LazyLock::new(keys);

fuzz_target!(|input: &[u8]| {
    check(input);
    check(&with_keys(input, &TEXT_KEYS));
});

fn check(text: &[u8]) {
    let limit_bytes = ALLOCATED_AT_LEAST_BYTES + ALLOCATED_PER_BYTE * text.len();
    let Ok(authorised) = within(limit_bytes, || AuthorisedPeers::parse(text)) else { return };
    let entries: Vec<&AuthorisedPeer> = authorised.iter().collect();
    assert!(entries.len() <= MAX_ENTRIES);
    let (mut keys, mut names) = (HashSet::<PublicKey>::new(), HashSet::new());
    let mut printed = String::new();
    for entry in &entries {
        assert!(keys.insert(entry.key) && names.insert(&entry.name));
        assert_eq!(authorised.find(&entry.key), Some(*entry));
        assert!((1..=MAX_NAME_BYTES).contains(&entry.name.len()));
        assert!(entry.rights.read || entry.rights.write);
        if let Some(path) = &entry.path {
            assert!(path.is_absolute());
            assert!(!path.components().any(|component| component == Component::ParentDir));
        }
        let line = entry.to_string();
        assert!(line.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()), "one line, no tricks");
        printed.push_str(&line);
        printed.push('\n');
    }
    let again = AuthorisedPeers::parse(printed.as_bytes()).expect("what we print, we can read");
    assert!(again.iter().eq(entries));
}
