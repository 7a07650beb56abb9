//! The two hosts that transport mode joins.
//!
//! Guarantees: each end has one address inside, of one family, and with AH of the outer one's.

use std::net::{IpAddr, SocketAddr};

use sealane_ipsec::selector::Prefix;

use super::{SiteError, Text};

/// The addresses inside of an association in transport mode; both are of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// Our own.
    pub local: IpAddr,
    /// The peer's.
    pub remote: IpAddr,
}

/// Returns the two hosts of transport mode.
pub(super) fn hosts(
    place: &Text<'_>,
    at: usize,
    networks: &[Prefix],
    outside: Option<SocketAddr>,
    addresses: &[(IpAddr, u8)],
) -> Result<Hosts, SiteError> {
    let fail = |message: String| Err(place.error(Some(at), message));
    let &[network] = networks else {
        return fail("transport mode joins two hosts: networks has one address, the peer's".to_owned());
    };
    let remote = network.address();
    if network != Prefix::host(remote) {
        return fail(format!("transport mode joins two hosts: {network} is more than one"));
    }
    let mut own = addresses.iter().filter(|(address, _)| address.is_ipv4() == remote.is_ipv4());
    let (Some(&(local, _)), None) = (own.next(), own.next()) else {
        return fail(format!("transport mode needs one address of our own that can stand beside {remote}"));
    };
    if outside.is_some_and(|outside| outside.is_ipv4() != remote.is_ipv4()) {
        return fail(format!(
            "AH keeps a packet's header in transport mode: {remote} is of another family than listen"
        ));
    }
    Ok(Hosts { local, remote })
}
