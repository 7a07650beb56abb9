//! Frequent mistakes in site files, each with its remedy.

use std::net::{IpAddr, SocketAddr};

use sealane_ipsec::selector::Prefix;
use toml::Spanned;

use super::{PORT_DEFAULT, PeerSite, RawPeer, SiteError, Text};

/// Returns the error for a file that contains `[peers]`, if this one does.
pub(super) fn one_table(place: &Text<'_>) -> Option<SiteError> {
    let mut at = 0;
    for line in place.text.split_inclusive('\n') {
        if line.split('#').next().is_some_and(|words| words.trim() == "[peers]") {
            let message = "a peer begins with [[peers]], in double brackets, because there may be several";
            return Some(place.error(Some(at), message));
        }
        at += line.len();
    }
    None
}

/// Returns an address with its port.
pub(super) fn socket_address(place: &Text<'_>, word: &Spanned<String>) -> Result<SocketAddr, SiteError> {
    let text = word.get_ref();
    text.parse().map_err(|_| {
        let bare = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let message = match bare {
            Ok(address) => {
                format!("{text:?} has no port: write \"{}\"", SocketAddr::new(address, PORT_DEFAULT))
            }
            Err(_) => {
                format!("{text:?} is not an IP address with a port, such as 0.0.0.0:4500 or [::]:4500")
            }
        };
        place.error(Some(word.span().start), message)
    })
}

/// Refuses a peer's network that is this gateway's own.
pub(super) fn own_network(
    place: &Text<'_>,
    raw: &RawPeer,
    peer: &PeerSite,
    addresses: &[(IpAddr, u8)],
) -> Result<(), SiteError> {
    for (&network, word) in peer.networks.iter().zip(&raw.networks) {
        for &(address, bits) in addresses {
            let fail = |message: String| Err(place.error(Some(word.span().start), message));
            if network == Prefix::host(address) {
                return fail(format!("{address} is this gateway's own address: name the peer's networks"));
            }
            if network == Prefix::containing(address, bits) {
                return fail(format!(
                    "{network} is this gateway's own network, by {address}/{bits} in addresses: name the peer's; if the peer's \
                     network is to contain this gateway, give it the one address \"{}\"",
                    Prefix::host(address)
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

    use crate::site::Site;

    #[test]
    fn a_file_that_others_could_write_is_not_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let deep = folder.path().join("deep");
        fs::create_dir(&deep).expect("a folder");
        let path = deep.join("site.toml");
        fs::write(&path, "device = \"sl0\"\nlisten = \"0.0.0.0:4500\"\n").expect("a site file");
        let set =
            |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
        Site::load(&path).expect("a good file");
        for (entry, mode, good) in [(&path, 0o666, 0o644), (&path, 0o664, 0o640), (&deep, 0o777, 0o755)] {
            set(entry, mode);
            let error = Site::load(&path).expect_err("others may write").to_string();
            assert!(error.contains("go-w") && error.contains(&entry.display().to_string()), "{error}");
            set(entry, good);
        }
        Site::load(&path).expect("a good file");
        let error = Site::load(&folder.path().join("none")).expect_err("there is none").to_string();
        assert!(error.contains("none: No such file"), "{error}");
    }
}
