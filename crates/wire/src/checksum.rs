//! The Internet checksum (RFC 1071): over pieces, over the pseudo-headers of TCP and UDP, and updates for a changed
//! field.

use sealane_checksum::{internet_sum, internet_sum_copying};
use std::net::{Ipv4Addr, Ipv6Addr};

/// An unfinished one's complement sum of 16-bit words. Every piece but the last has an even length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum(u32);

impl Sum {
    /// Returns the sum of no words.
    #[must_use]
    pub const fn new() -> Self {
        Self(0)
    }

    /// Adds one word.
    #[must_use]
    pub const fn word(self, word: u16) -> Self {
        // The carry is added at once, so that no number of words overflows.
        let sum = self.0 + word as u32;
        Self((sum & 0xffff) + (sum >> 16))
    }

    /// Adds two words.
    #[must_use]
    pub const fn double(self, words: u32) -> Self {
        self.word((words >> 16) as u16).word(words as u16)
    }

    /// Adds bytes; an odd last byte counts as padded with zero.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        self.word(internet_sum(bytes))
    }

    /// Adds bytes and copies them to `into`, which has the same length.
    #[must_use]
    pub fn copying(self, bytes: &[u8], into: &mut [u8]) -> Self {
        self.word(internet_sum_copying(bytes, into))
    }

    /// Adds a sum.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        self.word(other.folded())
    }

    /// Returns the sum of the pseudo-header over IPv4 (RFC 9293 section 3.1); `upper_bytes` is the length of header
    /// and data.
    #[must_use]
    pub fn pseudo_ipv4(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, upper_bytes: usize) -> Self {
        Self::new()
            .bytes(&source.octets())
            .bytes(&destination.octets())
            .word(protocol.into())
            .double(upper_bytes as u32)
    }

    /// Returns the sum of the pseudo-header over IPv6 (RFC 8200 section 8.1); `upper_bytes` is the length of header
    /// and data.
    #[must_use]
    pub fn pseudo_ipv6(source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, upper_bytes: usize) -> Self {
        Self::new()
            .bytes(&source.octets())
            .bytes(&destination.octets())
            .word(protocol.into())
            .double(upper_bytes as u32)
    }

    /// Returns the sum so far, not complemented, as a device that is to finish the checksum expects it in the field.
    #[must_use]
    pub const fn folded(self) -> u16 {
        let sum = (self.0 & 0xffff) + (self.0 >> 16);
        sum as u16
    }

    /// Returns the checksum: the complement of the sum.
    #[must_use]
    pub const fn checksum(self) -> u16 {
        !self.folded()
    }

    /// Returns the checksum as UDP carries it: all ones instead of 0, which means "no checksum" (RFC 768).
    #[must_use]
    pub const fn checksum_udp(self) -> u16 {
        match self.checksum() {
            0 => 0xffff,
            checksum => checksum,
        }
    }

    /// Returns whether the words added, a right checksum included, sum to all ones.
    #[must_use]
    pub const fn is_right(self) -> bool {
        self.folded() == 0xffff
    }
}

/// Returns the checksum after one of the words that it covers has changed (RFC 1624 section 3, equation 3).
#[must_use]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    Sum::new().word(!checksum).word(!old).word(new).checksum()
}
