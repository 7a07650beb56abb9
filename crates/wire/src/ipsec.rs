//! The layouts of ESP (RFC 4303) and AH (RFC 4302).

use crate::bytes::{fields, put_u16, put_u32};
use crate::malformed::{Malformed, at_least};

/// Bytes of ESP's header: SPI and sequence number.
pub const ESP_BYTES: usize = 8;
/// Bytes of AH before the check value.
pub const AH_BYTES: usize = 12;

/// An ESP packet.
#[derive(Debug, Clone, Copy)]
pub struct Esp<B>(B);

impl<B: AsRef<[u8]>> Esp<B> {
    /// Returns a view of `packet`.
    ///
    /// # Errors
    /// Fails if the packet is cut short.
    pub fn parse(packet: B) -> Result<Self, Malformed> {
        at_least("ESP", packet.as_ref(), ESP_BYTES)?;
        Ok(Self(packet))
    }

    fields! {
        /// Returns the security parameters index.
        spi: u32 = u32_at(0);
        /// Returns the sequence number's low 32 bits.
        sequence_number: u32 = u32_at(4);
    }

    /// Returns the bytes behind the header: IV, ciphertext, check value.
    pub fn payload(&self) -> &[u8] {
        &self.0.as_ref()[ESP_BYTES..]
    }
}

/// The fields of ESP's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EspFields {
    /// Security parameters index.
    pub spi: u32,
    /// The sequence number's low 32 bits.
    pub sequence_number: u32,
}

impl EspFields {
    /// Writes the header to the front of `into`.
    ///
    /// # Errors
    /// Fails if `into` is too short.
    pub fn write(&self, into: &mut [u8]) -> Result<(), Malformed> {
        at_least("ESP", into, ESP_BYTES)?;
        put_u32(into, 0, self.spi);
        put_u32(into, 4, self.sequence_number);
        Ok(())
    }
}

/// The trailer of the payload under ESP's encryption: padding, its length, and the payload's protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EspTrailer {
    /// Bytes of padding; they count 1, 2, 3 and so on (RFC 4303 section 2.4).
    pub padding_bytes: u8,
    /// Protocol of the payload, see [`crate::protocol`].
    pub next_header: u8,
}

impl EspTrailer {
    /// Returns the shortest trailer that brings `payload_bytes` to a multiple of `align`, a power of two of at most
    /// 128.
    #[must_use]
    pub fn for_payload(payload_bytes: usize, align: usize, next_header: u8) -> Self {
        let padding_bytes = (payload_bytes + 2).wrapping_neg() & (align - 1) & 0x7f;
        Self { padding_bytes: padding_bytes as u8, next_header }
    }

    /// Returns the length in bytes of padding, length field and protocol field.
    #[must_use]
    pub fn total_bytes(self) -> usize {
        usize::from(self.padding_bytes) + 2
    }

    /// Splits decrypted bytes into payload and trailer.
    ///
    /// # Errors
    /// Fails if the bytes are fewer than their trailer says, or the padding does not count 1, 2, 3 and so on.
    pub fn split(decrypted: &[u8]) -> Result<(&[u8], Self), Malformed> {
        let Some((rest, &[padding_bytes, next_header])) = decrypted.split_last_chunk::<2>() else {
            return Err(Malformed::Short { header: "ESP trailer", need: 2, have: decrypted.len() });
        };
        let trailer = Self { padding_bytes, next_header };
        at_least("ESP trailer", decrypted, trailer.total_bytes())?;
        let (payload, padding) = rest.split_at(rest.len() - usize::from(padding_bytes));
        if let Some((_, &value)) = (1..=u8::MAX).zip(padding).find(|&(count, &byte)| byte != count) {
            return Err(Malformed::Field { header: "ESP trailer", field: "padding", value: value.into() });
        }
        Ok((payload, trailer))
    }

    /// Writes the trailer to the front of `into`.
    ///
    /// # Errors
    /// Fails if `into` is too short.
    pub fn write(self, into: &mut [u8]) -> Result<(), Malformed> {
        at_least("ESP trailer", into, self.total_bytes())?;
        let (padding, rest) = into.split_at_mut(self.padding_bytes.into());
        for (byte, count) in padding.iter_mut().zip(1..) {
            *byte = count;
        }
        rest[..2].copy_from_slice(&[self.padding_bytes, self.next_header]);
        Ok(())
    }
}

/// An AH packet: the header and its payload.
#[derive(Debug, Clone, Copy)]
pub struct Ah<B>(B);

impl<B: AsRef<[u8]>> Ah<B> {
    /// Returns a view of `packet`.
    ///
    /// # Errors
    /// Fails if the packet is cut short, or its length field is less than the fixed fields need.
    pub fn parse(packet: B) -> Result<Self, Malformed> {
        let bytes = packet.as_ref();
        at_least("AH", bytes, AH_BYTES)?;
        let header_bytes = (usize::from(bytes[1]) + 2) * 4;
        if header_bytes < AH_BYTES {
            return Err(Malformed::Field { header: "AH", field: "payload length", value: bytes[1].into() });
        }
        at_least("AH", bytes, header_bytes)?;
        Ok(Self(packet))
    }

    fields! {
        /// Returns the security parameters index.
        spi: u32 = u32_at(4);
        /// Returns the sequence number's low 32 bits.
        sequence_number: u32 = u32_at(8);
        /// Returns the protocol of the payload, see [`crate::protocol`].
        next_header: u8 = u8_at(0);
    }

    /// Returns the length in bytes of the header, its check value and its padding.
    pub fn header_bytes(&self) -> usize {
        (usize::from(self.0.as_ref()[1]) + 2) * 4
    }

    /// Returns the check value with its padding.
    pub fn check_value(&self) -> &[u8] {
        &self.0.as_ref()[AH_BYTES..self.header_bytes()]
    }

    /// Returns the bytes behind the header.
    pub fn payload(&self) -> &[u8] {
        &self.0.as_ref()[self.header_bytes()..]
    }
}

/// The fields of AH's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AhFields {
    /// Protocol of the payload, see [`crate::protocol`].
    pub next_header: u8,
    /// Bytes of the check value with its padding, a multiple of 4, at most 1,016.
    pub check_value_bytes: usize,
    /// Security parameters index.
    pub spi: u32,
    /// The sequence number's low 32 bits.
    pub sequence_number: u32,
}

impl AhFields {
    /// Writes the header with a check value of zeros to the front of `into`.
    ///
    /// # Errors
    /// Fails if `into` is too short, or the header cannot state the length of the check value.
    pub fn write(&self, into: &mut [u8]) -> Result<(), Malformed> {
        let words = self.check_value_bytes / 4;
        let length = u8::try_from(words + 1).ok().filter(|_| self.check_value_bytes.is_multiple_of(4));
        let length = length.ok_or(Malformed::Field {
            header: "AH",
            field: "check value length",
            value: self.check_value_bytes as u32,
        })?;
        at_least("AH", into, AH_BYTES + self.check_value_bytes)?;
        into[0] = self.next_header;
        into[1] = length;
        put_u16(into, 2, 0);
        put_u32(into, 4, self.spi);
        put_u32(into, 8, self.sequence_number);
        into[AH_BYTES..AH_BYTES + self.check_value_bytes].fill(0);
        Ok(())
    }
}
