//! The location of a file: here, behind ssh, or behind a daemon, in the spellings that users of scp know.
//!
//! | text | meaning |
//! |---|---|
//! | `a`, `/a`, `./a:b`, `dir/a:b`, `:a` | local: no colon, or something before it that no host name has |
//! | `host:path`, `user@host:path`, `[v6]:path` | over ssh; `path` is relative to the home directory there |
//! | `ssh://[user@]host[:port]/path` | over ssh; the path is absolute, `/~/` at its front means the home directory |
//! | `scp://[user@]host[:port]/path` | over ssh; the path is relative to the home directory, `//` at its front makes it absolute |
//! | `sealane://host[:port]/path` | a daemon; the path is below what the daemon serves |
//!
//! `~` and `~/` at the front of a path over ssh mean the home directory. In the URL forms the path is
//! percent-decoded; in the others it is taken literally. Paths are bytes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::address::HostPort;
use crate::error::PeerError;

/// The longest host name that DNS can carry.
const MAX_HOST_BYTES: usize = 253;

impl FromStr for HostPort {
    type Err = PeerError;

    /// Parses `host:port` and `[v6]:port`; the default port is [`DEFAULT_PORT`](crate::DEFAULT_PORT).
    fn from_str(text: &str) -> Result<Self, PeerError> {
        let fault = |fault| PeerError::Location { text: text.to_owned(), fault };
        let (host, port) = split_authority(text.as_bytes()).map_err(fault)?;
        Ok(Self::folded(&host, port))
    }
}

/// The location of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// On this machine.
    Local(PathBuf),
    /// On a machine that ssh reaches.
    Ssh {
        /// The user there, if it differs from ssh's own choice.
        user: Option<String>,
        /// A host as ssh's configuration names it, maybe an alias.
        host: String,
        /// The port, if it differs from ssh's own choice.
        port: Option<u16>,
        /// The path there; one without a leading slash is relative to the home directory.
        path: Vec<u8>,
    },
    /// A machine that runs our daemon.
    Daemon {
        /// The address at which the daemon listens.
        address: HostPort,
        /// The path there, beginning with a slash.
        path: Vec<u8>,
    },
}

impl Location {
    /// Parses a location of the command line.
    ///
    /// # Errors
    /// Fails if it is empty, or if it is remote and its user, host, port or percent-encoding is malformed.
    pub fn parse(text: &OsStr) -> Result<Self, PeerError> {
        let bytes = text.as_bytes();
        let fault = |fault| PeerError::Location { text: text.to_string_lossy().into_owned(), fault };
        if bytes.is_empty() {
            return Err(fault("empty"));
        }
        if bytes.contains(&0) {
            return Err(fault("a path has no NUL byte"));
        }
        if let Some(rest) = strip_scheme(bytes, b"ssh://") {
            return ssh_url(rest).map_err(fault);
        }
        if let Some(rest) = strip_scheme(bytes, b"scp://") {
            return scp_url(rest).map_err(fault);
        }
        if let Some(rest) = strip_scheme(bytes, b"sealane://") {
            return daemon_url(rest).map_err(fault);
        }
        if let Some((_, advice)) = FOREIGN.iter().find(|(scheme, _)| strip_scheme(bytes, scheme).is_some()) {
            return Err(fault(advice));
        }
        let Some(colon) = remote_colon(bytes) else {
            return Ok(Self::Local(text.into()));
        };
        let (authority, path) = (&bytes[..colon], &bytes[colon + 1..]);
        let (user, host) = split_user(authority).map_err(fault)?;
        let host = match host.strip_prefix(b"[").and_then(|h| h.strip_suffix(b"]")) {
            Some(inner) => inner,
            None => host,
        };
        let host = host_text(host).map_err(fault)?;
        if is_home_of_another(path) {
            return Err(fault(
                "`~NAME` is not resolved: write the path of that folder, or ./~NAME for a name that begins so",
            ));
        }
        Ok(Self::Ssh { user, host, port: None, path: from_home(path) })
    }
}

/// The beginnings of addresses that other programs understand, and what to write here. Otherwise they would be paths on a
/// host of that name.
const FOREIGN: &[(&[u8], &str)] = &[
    (
        b"rsync://",
        "rsync's daemons are not spoken to: write HOST:PATH, which goes over ssh, or sealane://HOST/PATH",
    ),
    (b"sftp://", "write HOST:PATH or ssh://HOST/PATH; --far-end sftp uses the SFTP server there"),
    (b"file://", "write the path alone"),
    (b"http://", "web servers are not spoken to: write HOST:PATH, which goes over ssh"),
    (b"https://", "web servers are not spoken to: write HOST:PATH, which goes over ssh"),
    (b"ftp://", "FTP servers are not spoken to: write HOST:PATH, which goes over ssh"),
];

/// Returns whether a path begins in the home folder of a user by name, which only a shell there could resolve.
fn is_home_of_another(path: &[u8]) -> bool {
    path.strip_prefix(b"~").is_some_and(|rest| rest.first().is_some_and(|&byte| byte != b'/'))
}

/// Returns the position of the colon that ends the host, by scp's rule: a slash before it makes the whole text a
/// local path, a leading colon as well, and colons within brackets belong to an IPv6 address.
fn remote_colon(bytes: &[u8]) -> Option<usize> {
    // The form is `user@[v6]:path`, but only if the text before the bracket could be a user.
    let start = bytes.windows(2).position(|pair| pair == b"@[").map_or(0, |at| at + 1);
    let bracketed = |from: usize| {
        let close = bytes[from..].windows(2).position(|w| w == b"]:")?;
        let inside = &bytes[from..from + close];
        (!inside.contains(&b'/')).then_some(from + close + 1)
    };
    if bytes.first() == Some(&b'[') {
        return bracketed(0);
    }
    if bytes.get(start) == Some(&b'[') && !bytes[..start].contains(&b'/') && !bytes[..start].contains(&b':') {
        return bracketed(start);
    }
    match bytes.iter().position(|&b| b == b':' || b == b'/') {
        Some(0) | None => None,
        Some(at) => (bytes[at] == b':').then_some(at),
    }
}

fn ssh_url(rest: &[u8]) -> Result<Location, &'static str> {
    let (authority, path) = split_path(rest);
    let (user, host) = split_user(authority)?;
    let (host, port) = split_authority(host)?;
    let path = percent_decode(path)?;
    let path = match path.strip_prefix(b"/~/") {
        Some(home) => home_if_empty(home),
        None if path.is_empty() || path == b"/~" => b".".to_vec(),
        None => path,
    };
    Ok(Location::Ssh { user, host, port, path })
}

/// As in scp, the slash after the host is not part of the path.
fn scp_url(rest: &[u8]) -> Result<Location, &'static str> {
    let (authority, path) = split_path(rest);
    let (user, host) = split_user(authority)?;
    let (host, port) = split_authority(host)?;
    let path = percent_decode(path)?;
    let path = from_home(path.strip_prefix(b"/").unwrap_or(&path));
    Ok(Location::Ssh { user, host, port, path })
}

fn daemon_url(rest: &[u8]) -> Result<Location, &'static str> {
    let (authority, path) = split_path(rest);
    if authority.contains(&b'@') {
        return Err("a daemon knows its users by their keys, not by names");
    }
    let (host, port) = split_authority(authority)?;
    let path = percent_decode(path)?;
    let path = if path.is_empty() { b"/".to_vec() } else { path };
    Ok(Location::Daemon { address: HostPort::folded(&host, port), path })
}

fn strip_scheme<'a>(bytes: &'a [u8], scheme: &[u8]) -> Option<&'a [u8]> {
    let (front, rest) = bytes.split_at_checked(scheme.len())?;
    front.eq_ignore_ascii_case(scheme).then_some(rest)
}

/// Cuts before the first slash.
fn split_path(rest: &[u8]) -> (&[u8], &[u8]) {
    rest.split_at(rest.iter().position(|&b| b == b'/').unwrap_or(rest.len()))
}

/// Cuts `user@host` at the last `@`, as scp does: a user name may contain one, a host may not.
fn split_user(authority: &[u8]) -> Result<(Option<String>, &[u8]), &'static str> {
    let Some(at) = authority.iter().rposition(|&b| b == b'@') else {
        return Ok((None, authority));
    };
    let user = std::str::from_utf8(&authority[..at]).map_err(|_| "the user is not text")?;
    check_user(user)?;
    Ok((Some(user.to_owned()), &authority[at + 1..]))
}

/// Reads `host`, `host:port`, `[v6]` and `[v6]:port`.
fn split_authority(bytes: &[u8]) -> Result<(String, Option<u16>), &'static str> {
    let (host, port) = if let Some(rest) = bytes.strip_prefix(b"[") {
        let close = rest.iter().position(|&b| b == b']').ok_or("a `[` without `]`")?;
        let (host, after) = (&rest[..close], &rest[close + 1..]);
        match after {
            [] => (host, None),
            [b':', port @ ..] => (host, Some(port)),
            _ => return Err("only `:port` may follow `]`"),
        }
    } else {
        match bytes.iter().position(|&b| b == b':') {
            Some(at) => (&bytes[..at], Some(&bytes[at + 1..])),
            None => (bytes, None),
        }
    };
    let port = port.map(port_number).transpose()?;
    Ok((host_text(host)?, port))
}

fn port_number(digits: &[u8]) -> Result<u16, &'static str> {
    let fault = "a port is a number from 1 to 65535";
    // `parse` alone would accept a plus sign.
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(fault);
    }
    std::str::from_utf8(digits).ok().and_then(|d| d.parse().ok()).filter(|&p| p != 0).ok_or(fault)
}

/// Returns a host as it is written, if it is valid: ssh's configuration distinguishes `Alias` from `alias`.
fn host_text(bytes: &[u8]) -> Result<String, &'static str> {
    let host = std::str::from_utf8(bytes).map_err(|_| "the host is not text")?;
    check_host(host)?;
    Ok(host.to_owned())
}

/// Checks that a host may stand on ssh's command line and in a trust file: it is not an option, and has no character
/// that a shell or a `ProxyCommand` would interpret.
pub(crate) fn check_host(host: &str) -> Result<(), &'static str> {
    if host.is_empty() {
        return Err("the host is missing");
    }
    if host.len() > MAX_HOST_BYTES {
        return Err("the host is too long");
    }
    if host.starts_with('-') {
        return Err("a host does not begin with a dash");
    }
    // These are names, addresses with a zone (`fe80::1%eth0`), aliases, and names beyond ASCII.
    let fine = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%' | '+' | '=' | ',');
    if host.chars().all(fine) { Ok(()) } else { Err("a host has no such characters") }
}

/// Checks that a user may stand on ssh's command line.
pub(crate) fn check_user(user: &str) -> Result<(), &'static str> {
    if user.is_empty() {
        return Err("the user is missing");
    }
    if user.len() > MAX_HOST_BYTES {
        return Err("the user is too long");
    }
    if user.starts_with('-') {
        return Err("a user does not begin with a dash");
    }
    // A backslash in the middle is a Windows domain; at the end it could escape the next character.
    let fine = |c: char| {
        c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '@' | '+' | '\\' | '$' | '=' | ',' | '%')
    };
    if user.chars().all(fine) && !user.ends_with('\\') {
        Ok(())
    } else {
        Err("a user has no such characters")
    }
}

/// Returns the path without the `~` that stands for the directory where every path begins.
fn from_home(path: &[u8]) -> Vec<u8> {
    match path.strip_prefix(b"~/") {
        Some(rest) => home_if_empty(&rest[rest.iter().take_while(|&&byte| byte == b'/').count()..]),
        None if path == b"~" => home_if_empty(b""),
        None => home_if_empty(path),
    }
}

fn home_if_empty(path: &[u8]) -> Vec<u8> {
    if path.is_empty() { b".".to_vec() } else { path.to_vec() }
}

/// Undoes `%XX`. A NUL byte is refused: no path has one.
pub(crate) fn percent_decode(bytes: &[u8]) -> Result<Vec<u8>, &'static str> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
        let (&[hi, lo], after) = rest.split_first_chunk::<2>().ok_or("two hex digits follow a `%`")?;
        let (Some(hi), Some(lo)) = (digit(hi), digit(lo)) else {
            return Err("two hex digits follow a `%`");
        };
        out.push(hi << 4 | lo);
        rest = after;
    }
    if out.contains(&0) { Err("a path has no NUL byte") } else { Ok(out) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::DEFAULT_PORT;
    use proptest::prelude::*;

    fn ssh(user: &str, host: &str, port: u16, path: &str) -> Option<Location> {
        Some(Location::Ssh {
            user: (!user.is_empty()).then(|| user.to_owned()),
            host: host.to_owned(),
            port: (port != 0).then_some(port),
            path: path.as_bytes().to_vec(),
        })
    }

    fn daemon(host: &str, port: u16, path: &str) -> Option<Location> {
        let address = HostPort { host: host.to_owned(), port };
        Some(Location::Daemon { address, path: path.as_bytes().to_vec() })
    }

    fn local(path: &str) -> Option<Location> {
        Some(Location::Local(path.into()))
    }

    #[test]
    fn table() {
        let table: &[(&str, Option<Location>)] = &[
            ("", None),
            ("file", local("file")),
            ("/abs/file", local("/abs/file")),
            ("./a:b", local("./a:b")),
            ("dir/a:b", local("dir/a:b")),
            ("/a:b", local("/a:b")),
            (":a", local(":a")),
            ("-", local("-")),
            ("a@b", local("a@b")),
            ("a/b@[c]:d", local("a/b@[c]:d")),
            ("[a]", local("[a]")),
            ("[a/b]:c", local("[a/b]:c")),
            ("host:path", ssh("", "host", 0, "path")),
            ("Host:Path", ssh("", "Host", 0, "Path")),
            ("host:", ssh("", "host", 0, ".")),
            ("host:/a:b", ssh("", "host", 0, "/a:b")),
            ("user@host:p/q", ssh("user", "host", 0, "p/q")),
            ("dom\\user@host:p", ssh("dom\\user", "host", 0, "p")),
            ("user@mail@host:p", ssh("user@mail", "host", 0, "p")),
            ("host:user@other", ssh("", "host", 0, "user@other")),
            ("a@b@[::1]:x", ssh("a@b", "::1", 0, "x")),
            ("host:a@[b]:c", ssh("", "host", 0, "a@[b]:c")),
            ("[::1]:p", ssh("", "::1", 0, "p")),
            ("u@[fe80::1%eth0]:/p", ssh("u", "fe80::1%eth0", 0, "/p")),
            ("[host]:p", ssh("", "host", 0, "p")),
            ("host:~", ssh("", "host", 0, ".")),
            ("host:~/", ssh("", "host", 0, ".")),
            ("host:~//a", ssh("", "host", 0, "a")),
            ("host:~/a b", ssh("", "host", 0, "a b")),
            ("host:~other/x", None),
            ("host:~other", None),
            ("host:./~other", ssh("", "host", 0, "./~other")),
            ("rsync://host/x", None),
            ("SFTP://host/x", None),
            ("file:///x", None),
            ("rsync:/x", ssh("", "rsync", 0, "/x")),
            ("scp://u@host:22/rel/x", ssh("u", "host", 22, "rel/x")),
            ("scp://host//abs", ssh("", "host", 0, "/abs")),
            ("scp://host", ssh("", "host", 0, ".")),
            ("scp://host/~/x", ssh("", "host", 0, "x")),
            ("scp://-v/x", None),
            ("ssh://host/abs", ssh("", "host", 0, "/abs")),
            ("SSH://u@host:2222/a%20b", ssh("u", "host", 2222, "/a b")),
            ("ssh://host/~/rel", ssh("", "host", 0, "rel")),
            ("ssh://host/~/", ssh("", "host", 0, ".")),
            ("ssh://host", ssh("", "host", 0, ".")),
            ("ssh://[::1]:22/x", ssh("", "::1", 22, "/x")),
            ("sealane://host/p", daemon("host", DEFAULT_PORT, "/p")),
            ("sealane://Host:99", daemon("host", 99, "/")),
            ("sealane://[::1]:99/%2Fx", daemon("::1", 99, "//x")),
            ("-oProxyCommand=x:y", None),
            ("u@-host:y", None),
            ("-u@host:y", None),
            ("@host:y", None),
            ("u@:y", None),
            ("ho st:y", None),
            ("$(x):y", None),
            ("`x`:y", None),
            ("a;b:y", None),
            ("ssh://", None),
            ("ssh://host:0/x", None),
            ("ssh://host:65536/x", None),
            ("ssh://host:+1/x", None),
            ("ssh://host:/x", None),
            ("ssh://[::1/x", None),
            ("ssh://[::1]x/x", None),
            ("ssh://host/%0", None),
            ("ssh://host/%00", None),
            ("ssh://host/%zz", None),
            ("ssh://-v/x", None),
            ("sealane://u@host/x", None),
            ("sealane:///x", None),
        ];
        for (text, want) in table {
            let got = Location::parse(OsStr::new(text));
            assert_eq!(got.as_ref().ok(), want.as_ref(), "{text}: {got:?}");
        }
    }

    #[test]
    fn paths_are_bytes() {
        let got = Location::parse(OsStr::from_bytes(b"h:\xff\xfe")).unwrap();
        assert_eq!(
            got,
            Location::Ssh { user: None, host: "h".into(), port: None, path: b"\xff\xfe".to_vec() }
        );
        assert!(Location::parse(OsStr::from_bytes(b"\xff:x")).is_err());
    }

    #[test]
    fn host_port_text() {
        for (text, want) in
            [("a:1", "a:1"), ("[::1]:2", "[::1]:2"), ("A.b", "a.b:7522"), ("[::1]", "[::1]:7522")]
        {
            assert_eq!(text.parse::<HostPort>().unwrap().to_string(), want);
        }
        for text in ["", ":1", "a:", "a:b", "::1", "a b:1", "-a:1"] {
            assert!(text.parse::<HostPort>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), scheme in 0usize..3) {
            let mut text = [&b""[..], b"ssh://", b"sealane://"][scheme].to_vec();
            text.extend(bytes);
            let _ = Location::parse(OsStr::from_bytes(&text));
        }

        #[test]
        fn a_remote_host_is_never_an_option(text in "[-@:/\\[\\]a. ]{1,12}") {
            if let Ok(Location::Ssh { user, host, .. }) = Location::parse(OsStr::new(&text)) {
                prop_assert!(!host.starts_with('-') && !host.is_empty());
                prop_assert!(!user.is_some_and(|u| u.starts_with('-')));
            }
        }

        #[test]
        fn slash_first_is_local(front in "[a-z@\\[\\].]{0,5}", back in "[a-z:@\\[\\]]{0,9}") {
            let text = format!("{front}/{back}");
            prop_assert_eq!(Location::parse(OsStr::new(&text)).unwrap(), Location::Local(text.into()));
        }

        #[test]
        fn host_port_round_trip(host in "[a-z][a-z0-9.-]{0,20}|[0-9a-f:]{2,20}", port in 1u16..) {
            let address = HostPort { host, port };
            prop_assert_eq!(address.to_string().parse::<HostPort>().unwrap(), address);
        }
    }
}
