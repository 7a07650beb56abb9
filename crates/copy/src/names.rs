//! Users and groups by name: a receiver tells the numbers of its names, and a sender renumbers what it reads, so that everything
//! that is compared and sent has the receiver's numbers.
//!
//! Guarantees: names do not travel, but keyed hashes of them, and those of a receiver to a sender that may set owners only; a
//! name that the receiver does not have keeps its number, and so does root; tables are bounded. Names come from the files of the
//! system, and then from directory services, as far as these list them.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io::{BufRead, BufReader, Read},
    path::Path,
};

use sealane_tree::{Changes, Renumbering};

use crate::{
    directory,
    error::{Error, ErrorKind},
    options::{Preserve, Principal},
    proto::message::{Numbered, Numbers},
};

/// The system's databases, which are files in `/etc`, and what directory services list.
const USERS: &str = "passwd";
const GROUPS: &str = "group";

/// The bytes that are read of such a file.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// The number of users, or groups, that are told.
const NUMBERS_MAX: usize = 8192;

/// Returns the names of a database, with their numbers, those in its file first; each name once.
fn read(database: &str) -> Vec<(Vec<u8>, u32)> {
    let mut names = Vec::new();
    if let Ok(file) = File::open(Path::new("/etc").join(database)) {
        let lines = BufReader::new(file.take(FILE_BYTES_MAX)).split(b'\n');
        names.extend(lines.map_while(Result::ok).filter_map(|line| parse(&line)));
    }
    let listed = directory::list(database, FILE_BYTES_MAX).unwrap_or_default();
    names.extend(listed.split(|&byte| byte == b'\n').filter_map(parse));
    let mut seen = HashSet::new();
    names.retain(|(name, _)| seen.insert(name.clone()));
    names
}

fn parse(line: &[u8]) -> Option<(Vec<u8>, u32)> {
    let mut fields = line.split(|&byte| byte == b':');
    let (name, number) = (fields.next()?, fields.nth(1)?);
    let number = std::str::from_utf8(number).ok()?.parse().ok()?;
    // The last number means nobody, and lines with a sign belong to a directory service.
    let is_name = !name.is_empty() && !matches!(name[0], b'#' | b'+' | b'-') && number != u32::MAX;
    is_name.then(|| (name.to_vec(), number))
}

fn hash(transfer: &[u8; 16], name: &[u8]) -> [u8; 8] {
    let key = blake3::derive_key("sealane 2026-11 names of users and groups", transfer);
    let mut hash = [0; 8];
    blake3::Hasher::new_keyed(&key).update(name).finalize_xof().fill(&mut hash);
    hash
}

/// Returns what a receiver tells of its users and groups.
pub(crate) fn told(transfer: &[u8; 16]) -> Numbers {
    let numbered = |database| {
        let names = read(database).into_iter().take(NUMBERS_MAX);
        names.map(|(name, id)| Numbered { name: hash(transfer, &name), id }).collect()
    };
    Numbers { users: numbered(USERS), groups: numbered(GROUPS) }
}

/// Checks the table of a far end.
///
/// # Errors
/// It is longer than any that is told.
pub(crate) fn check(numbers: &Numbers) -> Result<(), Error> {
    match numbers.users.len().max(numbers.groups.len()) > NUMBERS_MAX {
        true => Err(Error::protocol("the far end tells more users or groups than can be kept in memory")),
        false => Ok(()),
    }
}

/// Returns the changes of what a sender reads, for a receiver with these numbers.
///
/// # Errors
/// The receiver has no user or group that all entries are to get, or tells more than anybody has.
pub(crate) fn changes(preserve: &Preserve, numbers: &Numbers, transfer: &[u8; 16]) -> Result<Changes, Error> {
    check(numbers)?;
    let modes = preserve.mode_changes.clone();
    if !preserve.owner.is_wanted() && !preserve.acls {
        return Ok(Changes { modes, ..Changes::default() });
    }
    let renumbering = |told: &[Numbered], database, given: &Option<Principal>, what| {
        // The first of two equal hashes counts.
        let there: HashMap<_, _> = told.iter().rev().map(|numbered| (numbered.name, numbered.id)).collect();
        let number = |name: &[u8]| there.get(&hash(transfer, name)).copied();
        let all = match given {
            None => None,
            Some(Principal::Number(id)) => Some(*id),
            Some(Principal::Name(name)) => Some(number(name.as_bytes()).ok_or_else(|| {
                let message = format!("--chown: there is no {what} {name:?} at the target's host");
                Error::new(ErrorKind::Usage, message)
            })?),
        };
        let mut others = HashMap::new();
        if all.is_none() && !preserve.numeric_ids && !there.is_empty() {
            // The first of several names of one number counts, which the system gives too.
            for (name, id) in read(database).into_iter().rev().filter(|&(_, id)| id != 0) {
                match number(&name) {
                    Some(other) => others.insert(id, other),
                    None => others.remove(&id),
                };
            }
        }
        Ok::<_, Error>(Renumbering { others, all })
    };
    Ok(Changes {
        modes,
        users: renumbering(&numbers.users, USERS, &preserve.user, "user")?,
        groups: renumbering(&numbers.groups, GROUPS, &preserve.group, "group")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Ownership;

    const TRANSFER: [u8; 16] = [3; 16];

    fn kept() -> Preserve {
        Preserve { owner: Ownership::Kept, ..Preserve::default() }
    }

    #[test]
    fn lines_without_a_name_or_number_are_passed_over() {
        assert_eq!(parse(b"ada:x:1000:1000:Ada:/:/bin/sh"), Some((b"ada".to_vec(), 1000)));
        for line in ["", "#ada:x:1:", "+::::::", "ada:x:", "ada:x:-1:", "ada:x:4294967295:", ":x:5:", "ada"] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn a_name_gets_the_number_that_the_receiver_has_for_it() {
        let Some((name, id)) = read(USERS).into_iter().find(|&(_, id)| id != 0) else { return };
        let numbered = |name: &[u8], id| Numbered { name: hash(&TRANSFER, name), id };
        let users = vec![numbered(&name, 77_777), numbered(&name, 1), numbered(b"root", 5)];
        let told = Numbers { users, groups: Vec::new() };
        let users = |preserve: &Preserve| changes(preserve, &told, &TRANSFER).unwrap().users;
        assert_eq!(users(&kept()).others.get(&id), Some(&77_777));
        assert_eq!(users(&kept()).others.get(&0), None, "root stays root");
        assert!(users(&Preserve { numeric_ids: true, ..kept() }).others.is_empty());
        assert!(users(&Preserve::default()).others.is_empty());
        let by_name = String::from_utf8(name).unwrap();
        let given = Preserve { user: Some(Principal::Name(by_name)), ..kept() };
        assert_eq!(users(&given).all, Some(77_777));
        let nobody = Preserve { group: Some(Principal::Name("no such".into())), ..kept() };
        assert_eq!(changes(&nobody, &told, &TRANSFER).unwrap_err().kind, ErrorKind::Usage);
        // Another transfer's hashes are of no use.
        assert!(changes(&kept(), &told, &[4; 16]).unwrap().users.others.is_empty());
    }

    #[test]
    fn tables_are_bounded() {
        let users = vec![Numbered { name: [0; 8], id: 1 }; NUMBERS_MAX + 1];
        let told = Numbers { users, groups: Vec::new() };
        assert_eq!(changes(&kept(), &told, &TRANSFER).unwrap_err().kind, ErrorKind::Protocol);
    }
}
