//! Packets in a stream (RFC 9329, section 3): the prefix "IKETCP" once, then each packet behind its length.
//!
//! Guarantees: any bytes are packets or an error; what is kept of an unfinished packet is bounded by the limit given; packets that
//! arrive whole are not copied here.

/// The first bytes of a stream, from the end that has connected.
pub const PREFIX: [u8; 6] = *b"IKETCP";
/// The bytes of a packet's length, which count themselves.
pub const LENGTH_BYTES: usize = 2;
/// The maximum length of a packet in bytes.
pub const PACKET_BYTES_MAX: usize = u16::MAX as usize - LENGTH_BYTES;

/// Reasons why a stream cannot be read any further: where the next packet begins is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The stream begins otherwise.
    #[error("it does not begin with IKETCP")]
    Prefix,
    /// A length does not count itself.
    #[error("a packet's length is {0}")]
    Length(u16),
    /// A packet is longer than those of strangers may be.
    #[error("a stranger's packet has {0} bytes")]
    TooLong(u16),
}

/// The reader of one stream.
#[derive(Debug)]
pub struct Frames {
    /// The bytes of an unfinished packet with its length, or of the prefix.
    held: Vec<u8>,
    expects_prefix: bool,
    /// The maximum length of a packet, with the bytes of the length.
    most_bytes: usize,
}

impl Frames {
    /// Returns the reader of a new stream, which begins with the prefix if `expects_prefix`. Packets, with the bytes of
    /// their length, have at most `most_bytes` bytes.
    pub fn new(expects_prefix: bool, most_bytes: usize) -> Self {
        Self { held: Vec::new(), expects_prefix, most_bytes }
    }

    /// Allows packets of any length from now on.
    pub fn allow_any_length(&mut self) {
        self.most_bytes = usize::MAX;
    }

    /// Returns the number of bytes that are kept until their packet is complete.
    pub fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// Returns the bytes of the next unit, if `bytes` tell it: the prefix, or a packet with its length.
    fn unit(&self, bytes: &[u8]) -> Result<Option<usize>, Fault> {
        if self.expects_prefix {
            let known = bytes.len().min(PREFIX.len());
            return if bytes[..known] == PREFIX[..known] {
                Ok(Some(PREFIX.len()))
            } else {
                Err(Fault::Prefix)
            };
        }
        let Some(length) = bytes.first_chunk().map(|length| u16::from_be_bytes(*length)) else {
            return Ok(None);
        };
        match usize::from(length) {
            0 | 1 => Err(Fault::Length(length)),
            unit if unit > self.most_bytes => Err(Fault::TooLong(length)),
            unit => Ok(Some(unit)),
        }
    }

    fn finish<'b>(&mut self, unit: &'b [u8]) -> Option<&'b [u8]> {
        if std::mem::take(&mut self.expects_prefix) {
            return None;
        }
        // A packet without a byte means nothing.
        Some(&unit[LENGTH_BYTES..]).filter(|packet| !packet.is_empty())
    }

    /// Reads the next bytes of the stream, and passes the packets that are complete to `take`.
    ///
    /// # Errors
    /// Fails if the stream cannot be read any further. Packets before the fault have been passed on.
    pub fn push(&mut self, mut bytes: &[u8], mut take: impl FnMut(&[u8])) -> Result<(), Fault> {
        while !self.held.is_empty() && !bytes.is_empty() {
            let wanted = self.unit(&self.held)?.unwrap_or(LENGTH_BYTES);
            let more = (wanted - self.held.len()).min(bytes.len());
            self.held.extend_from_slice(&bytes[..more]);
            bytes = &bytes[more..];
            if self.unit(&self.held)? == Some(self.held.len()) {
                let mut unit = std::mem::take(&mut self.held);
                self.finish(&unit).into_iter().for_each(&mut take);
                // The next unfinished packet finds the room of this one.
                unit.clear();
                self.held = unit;
            }
        }
        while !bytes.is_empty() {
            match self.unit(bytes)?.and_then(|unit| bytes.split_at_checked(unit)) {
                Some((unit, rest)) => {
                    self.finish(unit).into_iter().for_each(&mut take);
                    bytes = rest;
                }
                None => {
                    self.held.extend_from_slice(bytes);
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Returns the length in front of a packet of so many bytes; `None` if it is too long.
pub fn length(packet_bytes: usize) -> Option<[u8; LENGTH_BYTES]> {
    Some(u16::try_from(packet_bytes.checked_add(LENGTH_BYTES)?).ok()?.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(packet: &[u8]) -> Vec<u8> {
        [&length(packet.len()).expect("short enough")[..], packet].concat()
    }

    /// Returns the packets of a stream that arrives in pieces of so many bytes, and its fault.
    fn read(stream: &[u8], piece_bytes: usize) -> (Vec<Vec<u8>>, Option<Fault>) {
        let (mut frames, mut packets) = (Frames::new(true, usize::MAX), Vec::new());
        for piece in stream.chunks(piece_bytes) {
            if let Err(fault) = frames.push(piece, |packet| packets.push(packet.to_vec())) {
                return (packets, Some(fault));
            }
        }
        (packets, None)
    }

    #[test]
    fn packets_are_the_same_in_whatever_pieces_they_arrive() {
        let packets: Vec<Vec<u8>> =
            [1, 2, 28, 1400, 1, PACKET_BYTES_MAX, 3].iter().map(|&bytes| vec![bytes as u8; bytes]).collect();
        let mut stream = PREFIX.to_vec();
        packets.iter().for_each(|packet| stream.extend(framed(packet)));
        for piece_bytes in [1, 2, 3, 5, 7, 100, 1402, 65_536, stream.len()] {
            assert_eq!(read(&stream, piece_bytes), (packets.clone(), None), "{piece_bytes}");
        }
        // An unfinished packet is no packet.
        assert_eq!(read(&stream[..stream.len() - 1], 9).0.len(), packets.len() - 1);
    }

    #[test]
    fn what_is_no_stream_of_packets_is_refused() {
        for piece_bytes in [1, 2, 1000] {
            let of = |parts: &[&[u8]]| read(&parts.concat(), piece_bytes);
            for bad in [&b"IKETCX"[..], b"\x16\x03\x01", b"ike", b"GET / HTTP/1.0"] {
                assert_eq!(of(&[bad]), (Vec::new(), Some(Fault::Prefix)), "{bad:?}");
            }
            for length in [0u16, 1] {
                let (packets, fault) = of(&[&PREFIX, &framed(b"first"), &length.to_be_bytes(), b"x"]);
                assert_eq!((packets, fault), (vec![b"first".to_vec()], Some(Fault::Length(length))));
            }
            // Without a byte of its own it is skipped.
            assert_eq!(of(&[&PREFIX, &[0, 2], &framed(b"x")]), (vec![b"x".to_vec()], None));
        }
        assert_eq!(length(PACKET_BYTES_MAX), Some([0xff, 0xff]));
        assert_eq!(length(PACKET_BYTES_MAX + 1), None);
    }

    #[test]
    fn a_strangers_unfinished_packet_is_kept_up_to_the_limit() {
        let mut frames = Frames::new(true, 1000);
        let never = |_: &[u8]| unreachable!("no packet is complete");
        frames.push(&PREFIX, never).expect("a prefix");
        assert_eq!(frames.push(&[0x03, 0xe9], never), Err(Fault::TooLong(1001)));
        let mut frames = Frames::new(false, 1000);
        for byte in [0x03, 0xe8].into_iter().chain([7; 997]) {
            frames.push(&[byte], never).expect("a packet of 1,000 bytes");
        }
        assert_eq!(frames.held_bytes(), 999);
        let mut packets = 0;
        frames.push(&[7], |packet| packets += packet.len()).expect("its last byte");
        assert_eq!((packets, frames.held_bytes()), (998, 0));
        frames.push(&[0xff], never).expect("half a length");
        assert_eq!(frames.push(&[0xff], never), Err(Fault::TooLong(0xffff)));
        let mut frames = Frames::new(false, 1000);
        frames.allow_any_length();
        frames.push(&[0xff, 0xff], never).expect("somebody who is known");
    }
}
