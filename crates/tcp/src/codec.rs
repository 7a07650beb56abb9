//! Encodes and decodes headers, over the views of `sealane-wire`. The checksum is left to the caller, who knows the
//! addresses and computes it outside the lock.

use crate::Seq;
use crate::segment::{Flags, Header, Options, SackBlocks, Timestamps};
use sealane_wire::{Malformed, Tcp, TcpFields, TcpFlags, TcpOption};

/// The length of the longest header: 20 bytes and 40 of options.
pub const HEADER_BYTES_MAX: usize = 60;
const OPTIONS_BYTES_MAX: usize = 40;

/// The ports of a segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Ports {
    /// The sender's port.
    pub source: u16,
    /// The receiver's port.
    pub destination: u16,
}

/// Reads a segment's ports and header, and returns the offset of its payload as well. Malformed options end the
/// reading of options, and unknown options are left out.
///
/// # Errors
/// Fails if there is no whole header.
pub fn decode(segment: &[u8]) -> Result<(Ports, Header, usize), Malformed> {
    let tcp = Tcp::parse(segment)?;
    let mut options = Options::default();
    for option in tcp.options().map_while(Result::ok) {
        match option {
            TcpOption::MaxSegmentBytes(mss) => options.mss = Some(mss),
            TcpOption::WindowScale(scale) => options.window_scale = Some(scale),
            TcpOption::SackPermitted => options.sack_permitted = true,
            TcpOption::Timestamps { value, echo } => options.timestamps = Some(Timestamps { value, echo }),
            TcpOption::Sack(bytes) => options.sack = blocks(bytes),
            TcpOption::NoOperation | TcpOption::Other { .. } => {}
        }
    }
    let ports = Ports { source: tcp.source_port(), destination: tcp.destination_port() };
    let header = Header {
        seq: Seq(tcp.sequence_number()),
        ack: Seq(tcp.acknowledgment_number()),
        flags: Flags(tcp.flags().0),
        window: tcp.window(),
        options,
    };
    Ok((ports, header, tcp.header_bytes()))
}

fn blocks(bytes: &[u8]) -> SackBlocks {
    let mut blocks = SackBlocks::default();
    for &[a, b, c, d, e, f, g, h] in bytes.as_chunks().0 {
        blocks.push(Seq(u32::from_be_bytes([a, b, c, d])), Seq(u32::from_be_bytes([e, f, g, h])));
    }
    blocks
}

/// Writes a header to the front of `into` and returns its length; its checksum and its urgent pointer are zero.
///
/// # Errors
/// Fails if `into` is too short, or there are more than 40 bytes of options: a header that a connection made has
/// fewer.
pub fn encode(ports: Ports, header: &Header, into: &mut [u8]) -> Result<usize, Malformed> {
    let mut bytes = [0; OPTIONS_BYTES_MAX];
    let length = encode_options(&header.options, &mut bytes)?;
    let fields = TcpFields {
        source_port: ports.source,
        destination_port: ports.destination,
        sequence_number: header.seq.0,
        acknowledgment_number: header.ack.0,
        flags: TcpFlags(header.flags.0),
        window: header.window,
        urgent_pointer: 0,
    };
    fields.write(into, &bytes[..length])
}

/// Writes options so that each ends at a multiple of four bytes, as RFC 7323's appendix A lays them out.
fn encode_options(options: &Options, into: &mut [u8; OPTIONS_BYTES_MAX]) -> Result<usize, Malformed> {
    let Options { mss, window_scale, sack_permitted, timestamps, sack } = *options;
    let mut length = 0;
    let mut put = |padding: usize, option: TcpOption<'_>| -> Result<(), Malformed> {
        for _ in 0..padding {
            length += TcpOption::NoOperation.write(&mut into[length..])?;
        }
        length += option.write(&mut into[length..])?;
        Ok(())
    };
    if let Some(mss) = mss {
        put(0, TcpOption::MaxSegmentBytes(mss))?;
    }
    if let Some(scale) = window_scale {
        put(1, TcpOption::WindowScale(scale))?;
    }
    if sack_permitted {
        put(2, TcpOption::SackPermitted)?;
    }
    if let Some(Timestamps { value, echo }) = timestamps {
        put(2, TcpOption::Timestamps { value, echo })?;
    }
    if !sack.is_empty() {
        let mut bytes = [0; 8 * SackBlocks::MAX];
        for (place, (from, to)) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(&*sack) {
            place[..4].copy_from_slice(&from.0.to_be_bytes());
            place[4..].copy_from_slice(&to.0.to_be_bytes());
        }
        put(2, TcpOption::Sack(&bytes[..8 * sack.len()]))?;
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(options: Options) -> Header {
        Header {
            seq: Seq(0x0102_0304),
            ack: Seq(0xfffe_fdfc),
            flags: Flags::ACK | Flags::PSH,
            window: 700,
            options,
        }
    }

    const PORTS: Ports = Ports { source: 443, destination: 50_000 };

    #[track_caller]
    fn check(options: Options, header_bytes: usize) {
        let mut buffer = [0xaa; HEADER_BYTES_MAX];
        assert_eq!(encode(PORTS, &header(options), &mut buffer), Ok(header_bytes));
        assert_eq!(decode(&buffer[..header_bytes]), Ok((PORTS, header(options), header_bytes)));
        assert!(decode(&buffer[..header_bytes - 1]).is_err());
        assert!(encode(PORTS, &header(options), &mut buffer[..header_bytes - 1]).is_err());
    }

    #[test]
    fn what_is_written_is_read() {
        check(Options::default(), 20);
        let timestamps = Some(Timestamps { value: 1, echo: 0x8000_0000 });
        let mss = Some(1460);
        let syn =
            Options { mss, window_scale: Some(14), sack_permitted: true, timestamps, ..Options::default() };
        check(syn, 44);
        let mut sack = SackBlocks::default();
        for block in 1..=3 {
            sack.push(Seq(block * 1000), Seq(block * 1000 + 1));
            check(Options { timestamps, sack, ..Options::default() }, 36 + 8 * block as usize);
        }
        sack.push(Seq(9), Seq(10));
        check(Options { sack, ..Options::default() }, 56);
        let too_many = header(Options { timestamps, sack, ..Options::default() });
        assert!(encode(PORTS, &too_many, &mut [0; 100]).is_err());
    }

    #[test]
    fn options_that_make_no_sense_are_left_out() {
        let read = |options: &[u8]| {
            let mut segment = [[0; 20].as_slice(), options].concat();
            segment.resize(segment.len().next_multiple_of(4), 0);
            segment[12] = ((segment.len() / 4) << 4) as u8;
            decode(&segment).expect("a whole header").1.options
        };
        // The cases are: an unknown option before a known one; a wrong length; a cut option; length 0; the
        // end-of-options mark.
        assert_eq!(read(&[30, 3, 7, 2, 4, 1, 2]).mss, Some(258));
        assert_eq!(read(&[2, 3, 1, 3, 3, 9]).window_scale, Some(9));
        assert_eq!(read(&[8, 10, 0, 0]), Options::default());
        assert_eq!(read(&[2, 0, 1, 2, 3, 3, 9]), Options::default());
        assert_eq!(read(&[0, 3, 3, 9]), Options::default());
        assert_eq!(read(&[[5, 34].as_slice(), &[1; 32]].concat()).sack.len(), SackBlocks::MAX);
    }
}
