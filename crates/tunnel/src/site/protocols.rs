//! The protocols of packets outside: `listen`, `encapsulation`, `protocol` and `direct`.
//!
//! Guarantees: what is accepted can be sent and received together.

use std::net::SocketAddr;

use sealane_ipsec::association::Protocol;
use toml::Spanned;

use super::{Encapsulation, RawSite, SiteError, Text, choice, faults::socket_address};

/// The protocols of a gateway's packets.
pub(super) struct Protocols {
    pub(super) listen: SocketAddr,
    pub(super) encapsulation: Encapsulation,
    pub(super) protocol: Protocol,
    /// Packets pass IP by.
    pub(super) is_direct: bool,
}

/// Reads them.
pub(super) fn read(place: &Text<'_>, raw: &RawSite) -> Result<Protocols, SiteError> {
    let listen = socket_address(place, &raw.listen)?;
    let encapsulation = choice(
        place,
        raw.encapsulation.as_ref(),
        &[("udp", Encapsulation::Udp), ("none", Encapsulation::None)],
        "an encapsulation is \"udp\" or \"none\"",
    )?;
    let protocol = choice(
        place,
        raw.protocol.as_ref(),
        &[("esp", Protocol::Esp), ("ah", Protocol::Ah)],
        "a protocol is \"esp\" or \"ah\"",
    )?;
    let direct = raw.direct.as_ref().filter(|word| *word.get_ref());
    let protocols = Protocols { listen, encapsulation, protocol, is_direct: direct.is_some() };
    protocols.fit_ah(place, raw)?;
    direct.map_or(Ok(()), |word| protocols.fit_direct(place, word))?;
    Ok(protocols)
}

impl Protocols {
    /// Checks that AH, if it is the protocol, finds the outer addresses that it covers.
    fn fit_ah(&self, place: &Text<'_>, raw: &RawSite) -> Result<(), SiteError> {
        let (Protocol::Ah, Some(word)) = (self.protocol, &raw.protocol) else { return Ok(()) };
        if self.encapsulation == Encapsulation::Udp {
            let message = "AH does not travel in UDP (RFC 3948): say encapsulation = \"none\" too";
            return Err(place.error(Some(word.span().start), message));
        }
        if self.listen.ip().is_unspecified() {
            let message = "AH covers the gateway's address: listen on that one, not on all";
            return Err(place.error(Some(raw.listen.span().start), message));
        }
        Ok(())
    }

    /// Checks that packets are of the kind that the device takes itself, as `word` asks for.
    fn fit_direct(&self, place: &Text<'_>, word: &Spanned<bool>) -> Result<(), SiteError> {
        let is_esp = self.encapsulation == Encapsulation::None && self.protocol == Protocol::Esp;
        if is_esp && self.listen.is_ipv4() {
            return Ok(());
        }
        let message = "only ESP as a protocol of its own goes directly, over IPv4: say encapsulation = \"none\" too, and listen \
                       on an IPv4 address";
        Err(place.error(Some(word.span().start), message))
    }
}
