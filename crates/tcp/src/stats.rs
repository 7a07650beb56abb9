//! Counters of one connection.

/// The counts of a connection since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Segments that arrived.
    pub received_segments: u64,
    /// Segments sent, those sent again included.
    pub sent_segments: u64,
    /// Payload bytes delivered.
    pub delivered_bytes: u64,
    /// Payload bytes sent for the first time.
    pub sent_bytes: u64,
    /// Segments sent again.
    pub resent_segments: u64,
    /// Timeouts of the retransmission timer.
    pub timeouts: u64,
    /// Losses found by acknowledgements.
    pub fast_recoveries: u64,
    /// Acknowledgements that were duplicates (RFC 5681, section 2).
    pub duplicate_acks: u64,
    /// Segments that arrived before their turn.
    pub early_segments: u64,
    /// Payloads that were not needed.
    pub refused_segments: u64,
    /// Segments that PAWS rejected as old duplicates (RFC 7323, section 5).
    pub paws_segments: u64,
    /// Challenge acknowledgements sent (RFC 5961).
    pub challenges: u64,
    /// Answers that the limiter suppressed.
    pub suppressed: u64,
    /// Probes of a closed window, and of an idle connection.
    pub probes: u64,
}
