//! Parsers, for the fuzzer; and lies, for tests.

use crate::work::{Report, WorkKind};
use crate::{announcement, hosts, journal, wire, work};

/// Parses the rest of the bytes with the parser that the first byte selects, and returns whether it succeeded.
pub fn understands(bytes: &[u8]) -> bool {
    let Some((&parser, bytes)) = bytes.split_first() else { return false };
    match parser {
        b'p' => hosts::expand(bytes).is_ok_and(|places| {
            assert!(!places.is_empty() && places.len() <= hosts::HOSTS_MAX);
            true
        }),
        b'l' => hosts::parse_list(bytes).is_ok(),
        b'j' => journal::parse_line(bytes).is_some(),
        b'm' => wire::read_any(bytes),
        b'w' => work::read_any(bytes),
        b'a' => announcement::read_any(bytes),
        _ => false,
    }
}

/// For tests: the report of a host that was asked to look at targets, and says that these are the targets.
pub fn lying_look(targets: &[&str]) -> Vec<u8> {
    let targets = targets.iter().map(|target| target.as_bytes().to_vec()).collect();
    Report { kind: WorkKind::Look, host: "liar".into(), targets, ..Report::default() }.encode()
}
