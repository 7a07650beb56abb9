//! TCP in place of UDP (RFC 9329): `tcp = true` of a peer, or the port of the called end, such as `tcp = 443`.

use serde::Deserialize;

use super::{Encapsulation, Keys, RawPeer, Site, SiteError, Text};

#[derive(Clone, Copy, Deserialize)]
#[serde(untagged)]
pub(super) enum RawTcp {
    May(bool),
    Port(u16),
}

/// Returns the port of TCP, if the peer may be reached by it.
pub(super) fn read(
    place: &Text<'_>,
    raw: &RawPeer,
    keys: &Keys,
    site: &Site,
) -> Result<Option<u16>, SiteError> {
    let Some(word) = &raw.tcp else { return Ok(None) };
    let port = match *word.get_ref() {
        RawTcp::May(false) => return Ok(None),
        RawTcp::May(true) => site.listen.port(),
        RawTcp::Port(port) => port,
    };
    let message = if !matches!(keys, Keys::Ike(_)) {
        "TCP carries IKE and ESP of peers with [peers.ike] (RFC 9329)"
    } else if site.encapsulation != Encapsulation::Udp {
        "TCP takes the place of UDP: leave out `encapsulation`"
    } else if port == 0 {
        "`tcp` is true, or the port where the called end listens, such as 443"
    } else {
        return Ok(Some(port));
    };
    Err(place.error(Some(word.span().start), message))
}

impl Site {
    /// Returns the TCP ports on which peers come that no UDP reaches: the one of `listen`, and others that are named for peers
    /// that we do not call. They are in order.
    pub fn tcp_ports(&self) -> Vec<u16> {
        let named = self.peers.iter().filter_map(|peer| {
            let port = peer.tcp?;
            Some(if peer.endpoint.is_some() { self.listen.port() } else { port })
        });
        let mut ports: Vec<u16> = named.collect();
        if !ports.is_empty() {
            ports.push(self.listen.port());
        }
        ports.sort_unstable();
        ports.dedup();
        ports
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn site(peers: &[&str]) -> Result<Site, SiteError> {
        let mut text =
            "device = \"sl0\"\nlisten = \"0.0.0.0:4500\"\naddresses = [\"10.1.0.1/24\"]\n".to_owned();
        for (at, peer) in peers.iter().enumerate() {
            text += &format!(
                "[[peers]]\nname = \"p{at}\"\nnetworks = [\"10.2.{at}.0/24\"]\n{peer}\n[peers.ike]\nid = \"i{at}\"\n\
                 local-id = \"us\"\npsk-file = \"psk\"\n"
            );
        }
        Site::parse(Path::new("site.toml"), &text)
    }

    #[test]
    fn ports_are_those_of_called_ends() {
        let endpoint = "endpoint = \"192.0.2.1:4500\"";
        for (peers, ports) in [
            (&[""][..], &[][..]),
            (&["tcp = false"], &[]),
            (&["tcp = true"], &[4500]),
            (&["tcp = 443", "tcp = true"], &[443, 4500]),
            (&[&format!("{endpoint}\ntcp = 443")], &[4500]),
        ] {
            assert_eq!(site(peers).expect("a good site file").tcp_ports(), ports, "{peers:?}");
        }
        let called = site(&[&format!("{endpoint}\ntcp = 443")]).expect("a good site file");
        assert_eq!(called.peers[0].tcp, Some(443));
        for bad in ["tcp = 0", "tcp = \"yes\"", "tcp = 70000"] {
            assert!(site(&[bad]).is_err(), "{bad}");
        }
    }
}
