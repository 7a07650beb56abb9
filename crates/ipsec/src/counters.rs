//! Reasons for which packets are dropped, and a counter for each.
//!
//! Guarantees: every packet that a tunnel does not pass on is counted under exactly one reason; counting takes no lock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The reason for which a packet was dropped. The auditable events of RFC 4303, section 4, and RFC 4301, section 4.4,
/// are among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The packet is not an IP packet, or its headers contradict its length.
    Malformed,
    /// No association has this SPI.
    UnknownSpi,
    /// The integrity check failed.
    BadIntegrity,
    /// The sequence number was seen before.
    Duplicate,
    /// The sequence number is below the replay window.
    TooOld,
    /// The padding is not 1, 2, 3, … (RFC 4303, section 2.4), or longer than the packet.
    BadPadding,
    /// The packet from the tunnel is not one that its association may carry (RFC 4301, section 5.2).
    SelectorMismatch,
    /// A policy discards the packet.
    Discarded,
    /// No policy matches.
    NoPolicy,
    /// A policy requires protection, and there is no association yet.
    NoAssociation,
    /// A hard lifetime has passed.
    Expired,
    /// The sequence numbers are exhausted.
    NumbersExhausted,
    /// The packet is larger than the path allows and must not be fragmented.
    TooBig,
    /// The packet is a fragment where fragments are not accepted.
    Fragment,
    /// The packet's own hop limit is exhausted.
    HopLimit,
    /// The congestion marks inside and outside contradict each other (RFC 6040, section 4.2).
    CongestionMark,
    /// The packet would be sent into the tunnel that it came out of.
    Loop,
    /// A queue or the device had no room.
    NoRoom,
}

impl DropReason {
    /// All reasons.
    pub const ALL: [Self; 18] = [
        Self::Malformed,
        Self::UnknownSpi,
        Self::BadIntegrity,
        Self::Duplicate,
        Self::TooOld,
        Self::BadPadding,
        Self::SelectorMismatch,
        Self::Discarded,
        Self::NoPolicy,
        Self::NoAssociation,
        Self::Expired,
        Self::NumbersExhausted,
        Self::TooBig,
        Self::Fragment,
        Self::HopLimit,
        Self::CongestionMark,
        Self::Loop,
        Self::NoRoom,
    ];

    /// Returns the reason's name in statistics and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::UnknownSpi => "unknown_spi",
            Self::BadIntegrity => "bad_integrity",
            Self::Duplicate => "replay_duplicate",
            Self::TooOld => "replay_too_old",
            Self::BadPadding => "bad_padding",
            Self::SelectorMismatch => "selector_mismatch",
            Self::Discarded => "policy_discard",
            Self::NoPolicy => "no_policy",
            Self::NoAssociation => "no_association",
            Self::Expired => "expired",
            Self::NumbersExhausted => "sequence_exhausted",
            Self::TooBig => "too_big",
            Self::Fragment => "fragment",
            Self::HopLimit => "hop_limit",
            Self::CongestionMark => "congestion_mark",
            Self::Loop => "loop",
            Self::NoRoom => "no_room",
        }
    }
}

impl DropReason {
    /// Returns the meaning of the reason for an operator, and the remedy if there is one, on one line.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Malformed => "not an IP packet, or one whose headers contradict its length",
            Self::UnknownSpi => {
                "no association has this index: a stranger's, or from before a restart or rekey"
            }
            Self::BadIntegrity => "forged or damaged on the way, or the peer's key file differs from ours",
            Self::Duplicate => "came twice: the network doubled it, or somebody replays it",
            Self::TooOld => "came too late for the replay window: a larger `window` takes more disorder",
            Self::BadPadding => "genuine, but padded as no ESP packet is: the other implementation errs",
            Self::SelectorMismatch => "from an address that is not in the peer's `networks` here",
            Self::Discarded => "a policy says discard",
            Self::NoPolicy => "no peer has the destination in its `networks`",
            Self::NoAssociation => "no keys are agreed with the peer yet, or it is not known where it is",
            Self::Expired => "the keys were too old, and no successor could be agreed: see the calls' errors",
            Self::NumbersExhausted => "the key has used all its sequence numbers: make a new key",
            Self::TooBig => "longer than the path takes; the sender was told by ICMP",
            Self::Fragment => "a fragment, which transport mode does not take",
            Self::HopLimit => "had no hops left",
            Self::CongestionMark => "congestion marks inside and outside contradict each other (RFC 6040)",
            Self::Loop => "the tunnel's own packet, which a route led back into its device",
            Self::NoRoom => {
                "the kernel took it neither for the network nor for the device: queues full, or no way there"
            }
        }
    }
}

/// A counter for each reason.
#[derive(Debug, Default)]
pub struct Drops([AtomicU64; DropReason::ALL.len()]);

impl Drops {
    /// Counts one packet.
    pub fn count(&self, reason: DropReason) {
        self.add(reason, 1);
    }

    /// Counts `packets`.
    pub fn add(&self, reason: DropReason, packets: u64) {
        self.0[reason as usize].fetch_add(packets, Relaxed);
    }

    /// Returns the number of packets dropped for `reason`.
    pub fn of(&self, reason: DropReason) -> u64 {
        self.0[reason as usize].load(Relaxed)
    }

    /// Returns all reasons with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.into_iter().map(|reason| (reason, self.of(reason)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_own_place_and_name() {
        let drops = Drops::default();
        for (index, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
            drops.add(reason, index as u64);
        }
        assert!(drops.iter().enumerate().all(|(index, (reason, count))| {
            count == index as u64
                && DropReason::ALL.iter().filter(|other| other.name() == reason.name()).count() == 1
                && DropReason::ALL.iter().filter(|other| other.meaning() == reason.meaning()).count() == 1
        }));
    }
}
