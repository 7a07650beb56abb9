//! Places on many hosts: `src[1-4]:/data`, `node[01-03,07]:/data`, `@FILE:/data`.
//!
//! Guarantees: a pattern stands for at most [`HOSTS_MAX`] places, each once, in the order written; numbers keep their
//! leading zeros, as in Slurm; a list that changes is read again, and one that can no longer be read keeps its last
//! content.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::SystemTime;

use crate::error::{FleetError, Result};

/// The maximum number of hosts of one pattern or list.
pub const HOSTS_MAX: usize = 10_000;
/// The maximum length of a list of hosts, in bytes.
const LIST_BYTES_MAX: u64 = 1 << 20;
/// The maximum length of a place, in bytes.
const PLACE_BYTES_MAX: usize = 4608;

/// Places on one or many hosts, as given on the command line.
#[derive(Debug, Clone)]
pub struct Places {
    given: Vec<u8>,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    /// A fixed set.
    Fixed(Vec<Vec<u8>>),
    /// One host for each line of a file, and the text after the host.
    Listed { file: PathBuf, rest: Vec<u8>, read: Option<(SystemTime, u64)>, hosts: Vec<Vec<u8>> },
}

impl Places {
    /// Returns whether a source or target stands for places on several hosts.
    pub fn is_many(text: &OsStr) -> bool {
        let bytes = text.as_bytes();
        file_of(bytes).is_some() || bracket(bytes).is_some()
    }

    /// Parses a place that may be a pattern or a list.
    ///
    /// # Errors
    /// Fails if the pattern is malformed or stands for too many hosts, or if the list cannot be read or is empty.
    pub fn parse(text: &OsStr) -> Result<Self> {
        let given = text.as_bytes().to_vec();
        if let Some((file, rest)) = file_of(&given) {
            let file = PathBuf::from(OsStr::from_bytes(file));
            let kind = Kind::Listed { file, rest: rest.to_vec(), read: None, hosts: Vec::new() };
            let mut places = Self { given, kind };
            places.read()?;
            return Ok(places);
        }
        let expanded = expand(&given).map_err(|why| fault(&given, why))?;
        Ok(Self { given, kind: Kind::Fixed(expanded) })
    }

    /// Returns the text as given.
    pub fn given(&self) -> &[u8] {
        &self.given
    }

    /// Returns the places that it currently stands for.
    pub fn texts(&self) -> Vec<Vec<u8>> {
        match &self.kind {
            Kind::Fixed(places) => places.clone(),
            Kind::Listed { rest, hosts, .. } => hosts.iter().map(|host| [host, &rest[..]].concat()).collect(),
        }
    }

    /// Reads a list again if it has changed, and returns whether it now stands for other places.
    pub fn refresh(&mut self) -> bool {
        let before = self.texts();
        // An editor may just be replacing it: the last content applies until there is a new one.
        let _ = self.read();
        self.texts() != before
    }

    fn read(&mut self) -> Result<()> {
        let Kind::Listed { file, read, hosts, .. } = &mut self.kind else { return Ok(()) };
        let unreadable = || FleetError::file("cannot read the list of hosts", &*file);
        let stamp = fs::metadata(&*file).and_then(|found| Ok((found.modified()?, found.len())));
        let stamp = stamp.map_err(unreadable())?;
        if *read == Some(stamp) {
            return Ok(());
        }
        let mut bytes = Vec::new();
        let opened = fs::File::open(&*file);
        opened.and_then(|list| list.take(LIST_BYTES_MAX + 1).read_to_end(&mut bytes)).map_err(unreadable())?;
        let found = parse_list(&bytes).map_err(|why| fault(&self.given, why))?;
        *hosts = found;
        *read = Some(stamp);
        Ok(())
    }
}

fn fault(text: &[u8], fault: impl Into<String>) -> FleetError {
    FleetError::Hosts { text: String::from_utf8_lossy(text).into_owned(), fault: fault.into() }
}

/// Splits `@FILE:rest` into the file, and the rest with its colon.
fn file_of(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let named = bytes.strip_prefix(b"@")?;
    let colon = named
        .windows(2)
        .position(|pair| pair == b":/" || pair == b":~")
        .or_else(|| named.iter().position(|&byte| byte == b':'))?;
    (colon > 0).then(|| named.split_at(colon))
}

/// Parses the hosts of a list: one per line, patterns too; empty lines and those that begin with `#` are ignored.
pub fn parse_list(bytes: &[u8]) -> std::result::Result<Vec<Vec<u8>>, String> {
    if bytes.len() as u64 > LIST_BYTES_MAX {
        return Err("a list of hosts is no longer than 1 MiB".into());
    }
    let mut hosts: Vec<Vec<u8>> = Vec::new();
    for line in bytes.split(|&byte| byte == b'\n') {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        if line.contains(&b'/') || line.contains(&0) {
            return Err(format!("{:?} is no host", String::from_utf8_lossy(line)));
        }
        // The colon makes it a place, so that brackets are those of a pattern.
        for place in expand(&[line, b":"].concat())? {
            let host = place[..place.len() - 1].to_vec();
            hosts.push(host);
        }
        if hosts.len() > HOSTS_MAX {
            return Err(format!("more than {HOSTS_MAX} hosts"));
        }
    }
    let mut seen = std::collections::HashSet::new();
    hosts.retain(|host| seen.insert(host.clone()));
    match hosts.is_empty() {
        true => Err("it names no host".into()),
        false => Ok(hosts),
    }
}

/// Returns the part of a place that may hold patterns: the host, up to the colon or slash that ends it. An IPv6
/// address in brackets is not a pattern.
fn host_bytes(bytes: &[u8]) -> std::ops::Range<usize> {
    let start = [&b"ssh://"[..], b"scp://", b"sealane://"]
        .into_iter()
        .find(|scheme| bytes.get(..scheme.len()).is_some_and(|front| front.eq_ignore_ascii_case(scheme)))
        .map_or(0, <[u8]>::len);
    let rest = &bytes[start..];
    let mut depth = 0_u32;
    for (at, &byte) in rest.iter().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' => depth = depth.saturating_sub(1),
            b'/' if depth == 0 => return if start > 0 { start..start + at } else { 0..0 },
            b':' if depth == 0 => return start..start + at,
            _ => {}
        }
    }
    if start > 0 { start..bytes.len() } else { 0..0 }
}

/// Returns the start and end of the first pair of brackets in the host that holds numbers.
fn bracket(bytes: &[u8]) -> Option<(usize, usize)> {
    let host = host_bytes(bytes);
    let mut from = host.start;
    while let Some(open) = bytes[from..host.end].iter().position(|&byte| byte == b'[').map(|at| from + at) {
        let close = open + bytes[open..host.end].iter().position(|&byte| byte == b']')?;
        let inner = &bytes[open + 1..close];
        // An address has colons.
        if !inner.is_empty() && !inner.contains(&b':') {
            return Some((open, close));
        }
        from = close + 1;
    }
    None
}

/// Returns all places that one stands for.
pub fn expand(text: &[u8]) -> std::result::Result<Vec<Vec<u8>>, String> {
    if text.len() > PLACE_BYTES_MAX {
        return Err("it is too long".into());
    }
    let mut places = vec![text.to_vec()];
    // Each round expands the first pattern of every place.
    for _ in 0..8 {
        let mut next = Vec::new();
        let mut is_done = true;
        for place in &places {
            let Some((open, close)) = bracket(place) else {
                next.push(place.clone());
                continue;
            };
            is_done = false;
            for number in numbers(&place[open + 1..close])? {
                next.push([&place[..open], number.as_bytes(), &place[close + 1..]].concat());
                if next.len() > HOSTS_MAX {
                    return Err(format!("it stands for more than {HOSTS_MAX} hosts"));
                }
            }
        }
        places = next;
        if is_done {
            let mut seen = std::collections::HashSet::new();
            places.retain(|place| seen.insert(place.clone()));
            return Ok(places);
        }
    }
    Err("it has too many brackets".into())
}

/// `1-4`, `01-03,07`, `a,b`.
fn numbers(inner: &[u8]) -> std::result::Result<Vec<String>, String> {
    let inner = str::from_utf8(inner).map_err(|_| "hosts are text".to_owned())?;
    let mut all = Vec::new();
    for part in inner.split(',') {
        let part = part.trim();
        let is_number = |text: &str| {
            !text.is_empty() && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        match part.split_once('-') {
            Some((low, high)) if is_number(low) && is_number(high) => {
                let width = if low.starts_with('0') { low.len() } else { 0 };
                let (low, high): (u32, u32) = (low.parse().unwrap_or(0), high.parse().unwrap_or(0));
                if low > high {
                    return Err(format!("{part} counts backwards"));
                }
                if (high - low) as usize >= HOSTS_MAX {
                    return Err(format!("it stands for more than {HOSTS_MAX} hosts"));
                }
                all.extend((low..=high).map(|number| format!("{number:0width$}")));
            }
            _ if !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                all.push(part.to_owned())
            }
            _ => return Err(format!("{part:?} is neither a number nor a range, as in [1-4] or [01-03,07]")),
        }
        if all.len() > HOSTS_MAX {
            return Err(format!("it stands for more than {HOSTS_MAX} hosts"));
        }
    }
    Ok(all)
}

/// Returns the host of a place as the user wrote it: the part before its path.
pub fn shown_host(place: &[u8]) -> String {
    let host = host_bytes(place);
    let text = if host.is_empty() { place } else { &place[host] };
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(text: &str) -> Vec<String> {
        let places = Places::parse(OsStr::new(text)).expect("it is a place");
        places.texts().iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect()
    }

    #[test]
    fn patterns_are_those_of_slurm() {
        assert_eq!(all("src[1-3]:/d"), ["src1:/d", "src2:/d", "src3:/d"]);
        assert_eq!(all("u@n[08-10,3]x:/d"), ["u@n08x:/d", "u@n09x:/d", "u@n10x:/d", "u@n3x:/d"]);
        assert_eq!(all("r[1-2]n[a,b]:d"), ["r1na:d", "r1nb:d", "r2na:d", "r2nb:d"]);
        assert_eq!(all("sealane://d[1-2]:7522/in"), ["sealane://d1:7522/in", "sealane://d2:7522/in"]);
        assert_eq!(all("h:/a[1-2]"), ["h:/a[1-2]"]);
        assert_eq!(all("[::1]:/d"), ["[::1]:/d"]);
        assert_eq!(all("h[1,1]:/d"), ["h1:/d"]);
        for (text, is_many) in [
            ("src[1-3]:/d", true),
            ("h:/a[1]", false),
            ("[::1]:/d", false),
            ("dir/a[1]:b", false),
            ("a[1]", false),
            ("@l:/d", true),
            ("@l", false),
        ] {
            assert_eq!(Places::is_many(OsStr::new(text)), is_many, "{text}");
        }
        for text in ["h[3-1]:/d", "h[1-99999]:/d", "h[-]:/d", "h[1-3][1-3000]:/d", "h[a b]:/d", "h[1;2]:/d"] {
            let error = Places::parse(OsStr::new(text));
            assert!(text == "h[1-3][1-3000]:/d" || error.is_err(), "{text}");
        }
        assert!(expand(b"h[1-9999][1-9999]:/d").is_err());
    }

    #[test]
    fn a_list_is_read_again_when_it_changes() {
        let folder = tempfile::tempdir().expect("a folder");
        let list = folder.path().join("hosts");
        fs::write(&list, "one\n\n# comment\nn[1-2]\none\n").expect("a file");
        let text = format!("@{}:/in", list.display());
        let mut places = Places::parse(OsStr::new(&text)).expect("it is a list");
        assert_eq!(places.texts(), [&b"one:/in"[..], b"n1:/in", b"n2:/in"]);
        assert!(!places.refresh());
        fs::write(&list, "two\n").expect("a file");
        assert!(places.refresh());
        assert_eq!(places.texts(), [b"two:/in"]);
        fs::remove_file(&list).expect("it is there");
        assert!(!places.refresh());
        assert_eq!(places.texts(), [b"two:/in"]);
        fs::write(&list, "#\n").expect("a file");
        assert!(!places.refresh() && Places::parse(OsStr::new(&text)).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_places_or_an_error(text in "[a-z0-9:/@\\[\\],-]{0,40}") {
            if let Ok(places) = expand(text.as_bytes()) {
                prop_assert!(!places.is_empty() && places.len() <= HOSTS_MAX);
                prop_assert!(places.iter().all(|place| bracket(place).is_none()));
            }
        }
    }
}
