//! Packets for stacks, each preceded by its length in two bytes.

/// Stacks that packets are sent up.
pub const STACKS: &[&str] = &[
    "tcp/ip/fddi",
    "null/tcp/md5/ip/fddi",
    "des/tcp/md5/ip/fddi",
    "md5/tcp/ipv6/ether",
    "des/udp/hmac-md5/ip/ether",
    "etm(aes-128-ctr,hmac-sha256)/sequence/ipv6/ether(9000)",
    "rc4/aes-128-gcm/seal3/ip",
];

/// Returns the packets in `data`, at most 64; the last may be cut.
pub fn packets(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = data;
    let packet = move || {
        let (&length, behind) = rest.split_first_chunk()?;
        let (packet, behind) = behind.split_at(behind.len().min(u16::from_be_bytes(length).min(4000).into()));
        rest = behind;
        Some(packet)
    };
    std::iter::from_fn(packet).take(64)
}
