//! Locations on the command line: a host or user contains nothing that could be an option or that a shell interprets,
//! and a location written in its other spellings is read as the same one.

#![no_main]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use libfuzzer_sys::fuzz_target;
use sealane_fuzz::{frugally, percent_encoded};
use sealane_peer::{HostPort, Location};

const MAX_NAME_BYTES: usize = 253;

fuzz_target!(|text: &[u8]| {
    let Ok(location) = frugally(text.len(), || Location::parse(OsStr::from_bytes(text))) else { return };
    match &location {
        Location::Local(path) => {
            assert_eq!(path.as_os_str().as_bytes(), text);
            assert!(!text.is_empty() && !text.contains(&0));
        }
        Location::Ssh { user, host, port, path } => {
            check_name(host);
            assert_ne!(*port, Some(0));
            assert!(!path.is_empty() && !path.contains(&0));
            let mut authority = String::new();
            if let Some(user) = user {
                check_name(user);
                assert!(!user.contains([':', '/']) && !user.ends_with('\\'));
                authority = format!("{user}@");
            }
            let digits = port.map(|port| format!(":{port}")).unwrap_or_default();
            let url = format!("ssh://{authority}[{host}]{digits}/~/");
            same(&[url.as_bytes(), &percent_encoded(path)].concat(), &location);
            if port.is_none() && !authority.trim_end_matches('@').contains('@') {
                same(&[format!("{authority}[{host}]:").as_bytes(), path].concat(), &location);
            }
        }
        Location::Daemon { address, path } => {
            check_name(&address.host);
            assert_ne!(address.port, 0);
            assert!(path.starts_with(b"/") && !path.contains(&0));
            assert_eq!(address.to_string().parse::<HostPort>().as_ref().ok(), Some(address));
            let url = format!("sealane://{address}");
            same(&[url.as_bytes(), &percent_encoded(path)].concat(), &location);
        }
    }
});

/// Checks that a host or user is allowed among the arguments of a program, and in front of a shell.
fn check_name(name: &str) {
    assert!((1..=MAX_NAME_BYTES).contains(&name.len()) && !name.starts_with('-'));
    let is_risky = |c: char| c.is_whitespace() || c.is_control() || "'\"`;&|<>(){}[]*?!#~/".contains(c);
    assert!(!name.contains(is_risky));
}

fn same(text: &[u8], location: &Location) {
    let again = Location::parse(OsStr::from_bytes(text));
    assert_eq!(again.as_ref().ok(), Some(location), "spelt {:?}", String::from_utf8_lossy(text));
}
