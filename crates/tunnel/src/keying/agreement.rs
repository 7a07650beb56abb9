//! What two gateways say to each other on an authenticated channel to make a pair of associations.
//!
//! ```text
//! caller                             called
//! Offer { spi, kind }   ─────────►
//!                       ◄─────────   Answer::Taken { spi } or Answer::Refused
//! Ready                 ─────────►
//! ```
//!
//! Each names the index under which it wants to receive. The keys come from the channel's exporter, bound to both indices and
//! the kind, so nothing secret is said here. `Ready` says that the caller receives: the called end may send.
//!
//! Guarantees: any bytes are a message or an error; nothing is allocated for what they claim.

use sealane_ipsec::association::Kind;
use zeroize::Zeroizing;

/// What an offer begins with: the protocol and its version.
const MAGIC: &[u8; 16] = b"sealane tunnel 1";
/// The longest text of a kind.
const KIND_BYTES_MAX: usize = 64;
/// Label of the channel's exporter (RFC 8446, section 7.5).
pub(crate) const EXPORTER_LABEL: &[u8] = b"EXPORTER-sealane-tunnel-1";

/// The caller's wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Where the caller will receive.
    pub spi: u32,
    /// How packets are to be protected, both ways.
    pub kind: Kind,
}

/// What the called end says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It receives, under this index.
    Taken {
        /// Where it receives.
        spi: u32,
    },
    /// It does not.
    Refused(Refusal),
}

/// Why an offer is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Another kind stands in its file.
    #[error("its site file names another suite, protocol or mode for us")]
    Suite,
    /// Offers come faster than associations are used up.
    #[error("we have asked too often")]
    TooOften,
    /// It is calling us at this moment.
    #[error("it is calling us at this moment")]
    Busy,
}

/// The caller receives.
pub(crate) const READY: &[u8] = b"\x02";

/// Bytes that make no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer speaks another protocol, or another version of it")]
pub struct NotUnderstood;

/// An index that a packet may name (RFC 4303, section 2.1).
fn spi(bytes: [u8; 4]) -> Result<u32, NotUnderstood> {
    Some(u32::from_be_bytes(bytes)).filter(|&spi| spi >= 0x100).ok_or(NotUnderstood)
}

impl Offer {
    /// As it travels.
    pub fn to_bytes(self) -> Vec<u8> {
        [&MAGIC[..], &self.spi.to_be_bytes(), self.kind.to_string().as_bytes()].concat()
    }

    /// Reads an offer.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(bytes: &[u8]) -> Result<Self, NotUnderstood> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(NotUnderstood)?;
        let (&index, name) = rest.split_first_chunk().ok_or(NotUnderstood)?;
        if name.len() > KIND_BYTES_MAX {
            return Err(NotUnderstood);
        }
        let name = str::from_utf8(name).map_err(|_| NotUnderstood)?;
        Ok(Self { spi: spi(index)?, kind: name.parse().map_err(|_| NotUnderstood)? })
    }
}

impl Answer {
    /// As it travels.
    pub fn to_bytes(self) -> Vec<u8> {
        match self {
            Self::Taken { spi } => [&[1][..], &spi.to_be_bytes()].concat(),
            Self::Refused(Refusal::Suite) => vec![0, 1],
            Self::Refused(Refusal::TooOften) => vec![0, 2],
            Self::Refused(Refusal::Busy) => vec![0, 3],
        }
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(bytes: &[u8]) -> Result<Self, NotUnderstood> {
        match *bytes {
            [1, a, b, c, d] => Ok(Self::Taken { spi: spi([a, b, c, d])? }),
            [0, 1] => Ok(Self::Refused(Refusal::Suite)),
            [0, 2] => Ok(Self::Refused(Refusal::TooOften)),
            [0, 3] => Ok(Self::Refused(Refusal::Busy)),
            _ => Err(NotUnderstood),
        }
    }
}

/// What the exporter's output is bound to beside the channel.
pub(crate) fn context(offer: Offer, called_spi: u32) -> Vec<u8> {
    [offer.to_bytes(), called_spi.to_be_bytes().to_vec()].concat()
}

/// Key material of both directions.
pub struct Material {
    /// From the caller to the called.
    pub(crate) forth: Zeroizing<Vec<u8>>,
    /// From the called to the caller.
    pub(crate) back: Zeroizing<Vec<u8>>,
}

impl std::fmt::Debug for Material {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Material").finish_non_exhaustive()
    }
}

impl Material {
    /// Cuts an exporter's output of twice [`Suite::material_bytes`](sealane_ipsec::suite::Suite::material_bytes).
    pub(crate) fn of(exported: &Zeroizing<Vec<u8>>) -> Self {
        let (forth, back) = exported.split_at(exported.len() / 2);
        Self { forth: Zeroizing::new(forth.to_vec()), back: Zeroizing::new(back.to_vec()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let offer = Offer { spi: 0x1234_5678, kind: "ah transport hmac-sha256-128".parse().expect("a kind") };
        assert_eq!(Offer::parse(&offer.to_bytes()), Ok(offer));
        let offer = Offer { spi: 0x1234_5678, kind: "aes-256-gcm".parse().expect("a kind") };
        assert_eq!(Offer::parse(&offer.to_bytes()), Ok(offer));
        for answer in [
            Answer::Taken { spi: 0x100 },
            Answer::Refused(Refusal::Suite),
            Answer::Refused(Refusal::TooOften),
            Answer::Refused(Refusal::Busy),
        ] {
            assert_eq!(Answer::parse(&answer.to_bytes()), Ok(answer));
        }
    }

    #[test]
    fn nothing_else_is_a_message() {
        let good = Offer { spi: 0x100, kind: "aes-256-gcm".parse().expect("a kind") }.to_bytes();
        for length in 0..good.len() {
            assert_eq!(Offer::parse(&good[..length]), Err(NotUnderstood), "{length}");
        }
        let long = [&good[..20], &[b'a'; 10_000]].concat();
        let other = [b"sealane tunnel 2", &good[16..]].concat();
        let reserved = [&good[..16], &[0, 0, 0, 0xff], &good[20..]].concat();
        for bytes in [&long[..], &other, &reserved, &[0xff; 31]] {
            assert_eq!(Offer::parse(bytes), Err(NotUnderstood));
        }
        for bytes in [&[][..], &[0], &[0, 0], &[0, 4], &[1, 0, 0, 0, 0xff], &[1, 0, 0, 1], &[2], &[1; 6]] {
            assert_eq!(Answer::parse(bytes), Err(NotUnderstood));
        }
    }
}
