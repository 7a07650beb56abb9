//! A symmetric cipher in the order of OpenSSL's calls: a key and an initialisation vector, together or one after the
//! other, then parameters, then bytes in parts; or whole records of TLS, one per call.
//!
//! **Guarantees:** a vector of GCM and ChaCha20-Poly1305 protects one text: after a text or a failure they need
//! another. Nothing is decrypted without a tag that is compared.

use crate::counters::Counted;
use crate::library::{Cipher, DIGEST_BYTES_MAX, Kind, Mode, Text, unpad};
use crate::reason::Reason;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

/// The maximum length of GCM's vector in bytes, as OpenSSL has it.
const IV_BYTES_MAX: usize = 128;
/// The length of a tag in bytes.
pub(crate) const TAG_BYTES: usize = 16;
/// The length in bytes of what TLS 1.2 authenticates before a record.
const HEADER_BYTES: usize = 13;
/// The length in bytes of the part of GCM's vector that TLS 1.2 sends with each record (RFC 5288, 3).
const EXPLICIT_BYTES: usize = 8;
/// SSL 3.0, whose padding is not offered.
const SSL3: i64 = 0x300;
/// TLS 1.0, whose records begin without a vector.
const TLS1: i64 = 0x301;

/// The place of an AEAD's vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Iv {
    Missing,
    /// It is here, and goes to the cipher with the first bytes.
    Waiting,
    InUse,
    /// It has protected a text.
    Spent,
}

/// How records of TLS 1.0 to 1.2 are protected by CBC.
#[derive(Clone, Copy, Debug, Default)]
struct CbcRecords {
    /// The protocol's version; 0 for texts that are no records.
    version: i64,
    code_bytes: usize,
}

/// A cipher that is being used.
pub(crate) struct Ciphering {
    place: usize,
    kind: Kind,
    cipher: Cipher,
    encrypts: bool,
    has_key: bool,
    pads: bool,
    iv: [u8; IV_BYTES_MAX],
    iv_bytes: usize,
    state: Iv,
    tag: [u8; TAG_BYTES],
    tag_bytes: usize,
    /// The header of the record that follows, and the length of its content.
    record: Option<([u8; HEADER_BYTES], usize)>,
    /// Whether records have vectors of a fixed part and a counter.
    counts_records: bool,
    cbc: CbcRecords,
    /// A copy of the next block's vector, for callers that take a pointer.
    next_iv: [u8; 16],
    /// The authentication code of the last record that CBC has decrypted.
    code: Zeroizing<Vec<u8>>,
}

impl Ciphering {
    /// Makes the cipher at a place in [`Kind::ALL`].
    pub(crate) fn new(place: usize) -> Result<Self, Reason> {
        let kind = *Kind::ALL.get(place).ok_or(Reason::Unsupported)?;
        Ok(Self {
            place,
            kind,
            cipher: Cipher::new(kind)?,
            encrypts: true,
            has_key: false,
            pads: true,
            iv: [0; IV_BYTES_MAX],
            iv_bytes: kind.iv_bytes(),
            state: Iv::Missing,
            tag: [0; TAG_BYTES],
            tag_bytes: 0,
            record: None,
            counts_records: false,
            cbc: CbcRecords::default(),
            next_iv: [0; 16],
            code: Zeroizing::default(),
        })
    }

    /// Returns a copy that goes on from the same state.
    pub(crate) fn duplicate(&self) -> Result<Self, Reason> {
        Ok(Self { cipher: self.cipher.duplicate()?, code: self.code.clone(), ..*self })
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }

    pub(crate) fn iv_bytes(&self) -> usize {
        self.iv_bytes
    }

    pub(crate) fn pads(&self) -> bool {
        self.pads
    }

    /// Returns the vector as it was given.
    pub(crate) fn iv(&self) -> &[u8] {
        &self.iv[..self.iv_bytes]
    }

    /// Returns how many bytes of CTR's present block were used.
    pub(crate) fn used(&self) -> u32 {
        self.cipher.next_iv().1
    }

    /// Returns the vector for the next block, in memory of this value.
    pub(crate) fn keep_next_iv(&mut self) -> &[u8] {
        self.next_iv = self.cipher.next_iv().0;
        &self.next_iv
    }

    fn count(&self) {
        Counted::cipher(self.place).add();
    }

    /// Starts a text. A key or vector that is absent stays that of the last text, or comes later.
    pub(crate) fn start(
        &mut self,
        encrypts: bool,
        key: Option<&[u8]>,
        iv: Option<&[u8]>,
    ) -> Result<(), Reason> {
        if key.is_some_and(|key| key.len() != self.kind.key_bytes) {
            return Err(Reason::KeyLength);
        }
        if let Some(iv) = iv {
            self.set_iv_bytes(iv.len())?;
            self.iv[..iv.len()].copy_from_slice(iv);
            self.state = Iv::Waiting;
        }
        self.encrypts = encrypts;
        self.has_key |= key.is_some();
        if encrypts {
            self.tag_bytes = 0;
        }
        if !self.kind.is_aead() {
            self.cbc = CbcRecords::default();
            self.code.clear();
            self.cipher.set_padding(self.pads);
            if iv.is_some() {
                self.count();
            }
            return Ok(self.cipher.start(encrypts, key, iv)?);
        }
        self.record = None;
        if key.is_some() {
            self.cipher.start(encrypts, key, None)?;
            if self.state == Iv::InUse {
                self.state = Iv::Spent;
            }
        }
        Ok(())
    }

    /// Gives the cipher its vector.
    fn begin(&mut self) -> Result<(), Reason> {
        if !self.has_key {
            return Err(Reason::NoKey);
        }
        Ok(self.cipher.start(self.encrypts, None, Some(&self.iv[..self.iv_bytes]))?)
    }

    /// Gives the cipher its vector with the first bytes of an AEAD's text.
    fn ready(&mut self) -> Result<(), Reason> {
        match self.state {
            Iv::InUse => Ok(()),
            Iv::Waiting => {
                self.begin()?;
                self.state = Iv::InUse;
                Ok(())
            }
            Iv::Missing | Iv::Spent => Err(Reason::NoVector),
        }
    }

    /// Transforms the next bytes, a record of TLS, or an AEAD's associated data, which have no place to be written
    /// to. Returns how many bytes were written.
    pub(crate) fn update(&mut self, text: &Text) -> Result<usize, Reason> {
        if self.record.is_some() && !text.has_no_output() {
            let outcome = self.aead_record(text);
            self.state = Iv::Spent;
            return outcome;
        }
        if self.cbc.version > 0 {
            return self.cbc_record(text);
        }
        if self.kind.is_aead() {
            self.ready()?;
            if text.has_no_output() {
                text.with_input(|data| self.cipher.authenticate(data))?;
                return Ok(text.length());
            }
        } else if !self.has_key {
            return Err(Reason::NoKey);
        }
        Ok(self.cipher.update(text)?)
    }

    /// Ends a text; returns how many bytes were written.
    pub(crate) fn finish(&mut self, out: &Text) -> Result<usize, Reason> {
        if !self.kind.is_aead() {
            if !self.has_key {
                return Err(Reason::NoKey);
            }
            return self.cipher.finish(out).map_err(|_| Reason::NotDecrypted);
        }
        self.ready()?;
        self.count();
        self.state = Iv::Spent;
        self.close().map(|()| 0)
    }

    /// Makes or compares the tag.
    fn close(&mut self) -> Result<(), Reason> {
        if !self.encrypts && self.tag_bytes == 0 {
            return Err(Reason::NoTag);
        }
        if self.encrypts {
            self.cipher.finish_aead(&mut self.tag)?;
            self.tag_bytes = TAG_BYTES;
            return Ok(());
        }
        let mut tag = [0; TAG_BYTES];
        self.cipher.finish_aead(&mut tag)?;
        let is_right = tag[..self.tag_bytes].ct_eq(&self.tag[..self.tag_bytes]);
        if is_right.into() { Ok(()) } else { Err(Reason::NotDecrypted) }
    }

    /// Transforms bytes without any buffering, or ends a text if there are no bytes.
    pub(crate) fn transform(&mut self, text: &Text) -> Result<usize, Reason> {
        if text.has_no_input() { self.finish(text) } else { self.update(text) }
    }

    pub(crate) fn set_padding(&mut self, pads: bool) {
        self.pads = pads;
        self.cipher.set_padding(pads);
    }

    /// Sets the length of the vector that follows.
    pub(crate) fn set_iv_bytes(&mut self, bytes: usize) -> Result<(), Reason> {
        if bytes == self.iv_bytes {
            return Ok(());
        }
        match self.kind.mode {
            Mode::Gcm if (1..=IV_BYTES_MAX).contains(&bytes) => {}
            _ => return Err(Reason::VectorLength),
        }
        self.iv_bytes = bytes;
        // A vector of another length is no vector.
        self.state = Iv::Missing;
        Ok(())
    }

    /// Sets the tag that the decrypted text must have, or only its length.
    pub(crate) fn set_tag(&mut self, tag: Option<&[u8]>, length: usize) -> Result<(), Reason> {
        if !(1..=TAG_BYTES).contains(&length) {
            return Err(Reason::TagLength);
        }
        if let Some(tag) = tag {
            if self.encrypts {
                return Err(Reason::Unsupported);
            }
            self.tag[..length].copy_from_slice(tag);
            self.tag_bytes = length;
        }
        Ok(())
    }

    /// Returns the first bytes of the tag of a text that was encrypted.
    pub(crate) fn tag(&self, length: usize) -> Result<&[u8], Reason> {
        let is_there = self.encrypts && self.tag_bytes > 0;
        self.tag.get(..length).filter(|_| is_there && length > 0).ok_or(Reason::NoTag)
    }

    /// Takes the header of the next record of TLS 1.2; returns how much longer it gets by its tag.
    pub(crate) fn set_header(&mut self, header: &[u8]) -> Result<usize, Reason> {
        let mut header: [u8; HEADER_BYTES] = header.try_into().map_err(|_| Reason::BadContent)?;
        let length = usize::from(u16::from_be_bytes([header[11], header[12]]));
        let overhead = match (self.kind.mode, self.encrypts) {
            (Mode::Gcm, true) => EXPLICIT_BYTES,
            (Mode::Gcm, false) => EXPLICIT_BYTES + TAG_BYTES,
            (Mode::ChaCha20Poly1305, true) => 0,
            (Mode::ChaCha20Poly1305, false) => TAG_BYTES,
            _ => return Err(Reason::Unsupported),
        };
        let content = length.checked_sub(overhead).ok_or(Reason::BadContent)?;
        header[11..].copy_from_slice(&(content as u16).to_be_bytes());
        self.record = Some((header, content));
        Ok(TAG_BYTES)
    }

    /// Sets the part of records' vectors that stays: GCM's is followed by a counter, ChaCha20's is mixed with the
    /// record's number.
    pub(crate) fn set_fixed_iv(&mut self, fixed: &[u8]) -> Result<(), Reason> {
        match self.kind.mode {
            Mode::Gcm if fixed.len() >= 4 && fixed.len() + EXPLICIT_BYTES <= self.iv_bytes => {
                if self.encrypts {
                    let end = self.iv_bytes;
                    aws_lc_rs::rand::fill(&mut self.iv[fixed.len()..end]).map_err(|_| Reason::Failed)?;
                }
                self.iv[..fixed.len()].copy_from_slice(fixed);
                self.counts_records = true;
            }
            Mode::ChaCha20Poly1305 if fixed.len() == self.kind.iv_bytes() => {
                self.iv[..fixed.len()].copy_from_slice(fixed);
                self.counts_records = true;
            }
            _ => return Err(Reason::VectorLength),
        }
        self.state = Iv::Waiting;
        Ok(())
    }

    /// Returns the last bytes of the vector of the next text, and counts on.
    pub(crate) fn generate_iv(&mut self, out: &mut [u8]) -> Result<(), Reason> {
        if self.kind.mode != Mode::Gcm || !self.counts_records || !self.encrypts {
            return Err(Reason::NoVector);
        }
        let end = self.iv_bytes;
        self.begin()?;
        let start = end.checked_sub(out.len()).ok_or(Reason::VectorLength)?;
        out.copy_from_slice(&self.iv[start..end]);
        let counter = &mut self.iv[end - EXPLICIT_BYTES..end];
        let next = counter.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte)).wrapping_add(1);
        counter.copy_from_slice(&next.to_be_bytes());
        self.state = Iv::InUse;
        Ok(())
    }

    /// Sets the last bytes of the vector of the text that follows.
    pub(crate) fn set_explicit_iv(&mut self, explicit: &[u8]) -> Result<(), Reason> {
        if self.kind.mode != Mode::Gcm || !self.counts_records || self.encrypts {
            return Err(Reason::NoVector);
        }
        let end = self.iv_bytes;
        let start =
            end.checked_sub(explicit.len()).filter(|_| !explicit.is_empty()).ok_or(Reason::VectorLength)?;
        self.iv[start..end].copy_from_slice(explicit);
        self.begin()?;
        self.state = Iv::InUse;
        Ok(())
    }

    /// Encrypts or decrypts a record of TLS 1.2 (RFC 5288, RFC 7905): the vector's explicit part, content and tag,
    /// where they are.
    fn aead_record(&mut self, text: &Text) -> Result<usize, Reason> {
        let (header, content) = self.record.take().ok_or(Reason::BadContent)?;
        let explicit = if self.kind.mode == Mode::Gcm { EXPLICIT_BYTES } else { 0 };
        let is_whole = text.length() == explicit + content + TAG_BYTES && text.capacity() >= text.length();
        if !is_whole || !text.is_in_place() {
            return Err(Reason::BadContent);
        }
        match (self.kind.mode, self.encrypts) {
            (Mode::Gcm, true) => {
                let mut iv = [0; EXPLICIT_BYTES];
                self.generate_iv(&mut iv)?;
                text.write(0, &iv)?;
            }
            (Mode::Gcm, false) => self.set_explicit_iv(&text.read::<EXPLICIT_BYTES>(0)?)?,
            _ => {
                let mut nonce: [u8; 12] = self.iv().try_into().map_err(|_| Reason::VectorLength)?;
                nonce[4..].iter_mut().zip(header).for_each(|(byte, number)| *byte ^= number);
                self.cipher.start(self.encrypts, None, Some(&nonce))?;
            }
        }
        self.count();
        let body = text.part(explicit, content)?;
        if !self.encrypts {
            self.tag = text.read(explicit + content)?;
            self.tag_bytes = TAG_BYTES;
        }
        self.cipher.authenticate(&header)?;
        self.cipher.update(&body)?;
        if let Err(reason) = self.close() {
            body.erase(content);
            return Err(reason);
        }
        if self.encrypts {
            text.write(explicit + content, &self.tag)?;
            return Ok(text.length());
        }
        Ok(content)
    }

    /// Sets the version of TLS whose records follow. It matters for CBC alone, but OpenSSL tells all ciphers.
    pub(crate) fn set_version(&mut self, version: i64) -> Result<(), Reason> {
        if self.kind.mode != Mode::Cbc {
            return Ok(());
        }
        if version <= SSL3 {
            return Err(Reason::Unsupported);
        }
        self.cbc.version = version;
        self.cipher.set_padding(false);
        Ok(())
    }

    /// Sets the length of the authentication code in records; 0 if it is not encrypted (RFC 7366).
    ///
    /// # Errors
    /// Fails if no hash has codes of this length.
    pub(crate) fn set_code_bytes(&mut self, bytes: usize) -> Result<(), Reason> {
        self.cbc.code_bytes = bytes;
        if bytes <= DIGEST_BYTES_MAX { Ok(()) } else { Err(Reason::Unsupported) }
    }

    /// Returns the authentication code of the record that was decrypted last.
    pub(crate) fn code(&self) -> &[u8] {
        &self.code
    }

    /// Encrypts or decrypts a record of TLS 1.0 to 1.2 where it is (RFC 5246, 6.2.3.2), and pads it, or separates its
    /// content from code and padding. A wrong padding shows only in a code that does not verify.
    fn cbc_record(&mut self, text: &Text) -> Result<usize, Reason> {
        if !text.is_in_place() || !self.has_key {
            return Err(Reason::BadContent);
        }
        let block = self.kind.block_bytes();
        self.count();
        if self.encrypts {
            let padding = block - text.length() % block;
            text.write(text.length(), &[padding as u8 - 1; 16][..padding])?;
            return Ok(self.cipher.update(&text.longer(padding)?)?);
        }
        if !text.length().is_multiple_of(block) {
            return Err(Reason::BadContent);
        }
        self.cipher.update(text)?;
        let explicit = if self.cbc.version == TLS1 { 0 } else { block };
        let content = text.part(explicit, text.length().checked_sub(explicit).ok_or(Reason::BadContent)?)?;
        let found = content.with_input(|record| unpad(record, self.cbc.code_bytes))?;
        self.code.clear();
        self.code.extend_from_slice(&found.code[..self.cbc.code_bytes]);
        // Without a code inside, the record was authenticated before, and its padding is no secret.
        if self.cbc.code_bytes == 0 && !bool::from(found.is_good) {
            return Err(Reason::NotDecrypted);
        }
        Ok(found.length)
    }
}
