//! HMAC in the order of OpenSSL's calls: a hash and a key in either order, then bytes; or the header of a TLS record
//! and its bytes, whose last ones are padding of a secret length.

use crate::counters::Counted;
use crate::library::{HEADER_BYTES, Hash, Mac};
use crate::reason::Reason;
use zeroize::Zeroizing;

/// A record of TLS that CBC has decrypted.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// The length of the record with code and padding, which is no secret.
    bytes: usize,
    header: Option<[u8; HEADER_BYTES]>,
    code: Option<[u8; 64]>,
}

/// HMAC that is being used.
#[derive(Default)]
pub(crate) struct Authenticating {
    hash: Option<Hash>,
    /// A key that waits for its hash.
    key: Option<Zeroizing<Vec<u8>>>,
    mac: Option<Mac>,
    record: Option<Record>,
}

impl Authenticating {
    /// Returns a copy that goes on from the same state.
    pub(crate) fn duplicate(&self) -> Result<Self, Reason> {
        let mac = self.mac.as_ref().map(Mac::duplicate).transpose()?;
        Ok(Self { hash: self.hash, key: self.key.clone(), mac, record: self.record })
    }

    /// Sets the hash by OpenSSL's name.
    pub(crate) fn set_hash(&mut self, name: &str) -> Result<(), Reason> {
        let hash = Hash::of_name(name).ok_or(Reason::Unsupported)?;
        if let Some(mac) = self.mac.take_if(|mac| !mac.hash().is(&hash)) {
            self.key = Some(Zeroizing::new(mac.key().to_vec()));
        }
        self.hash = Some(hash);
        self.join()
    }

    pub(crate) fn set_key(&mut self, key: &[u8]) -> Result<(), Reason> {
        self.key = Some(Zeroizing::new(key.to_vec()));
        self.record = None;
        self.join()
    }

    /// Starts once both are here.
    fn join(&mut self) -> Result<(), Reason> {
        if let Some(hash) = self.hash
            && let Some(key) = self.key.take()
        {
            self.mac = Some(Mac::new(hash, &key)?);
        }
        Ok(())
    }

    fn mac(&mut self) -> Result<&mut Mac, Reason> {
        self.mac.as_mut().ok_or(Reason::NoKey)
    }

    /// Begins a message.
    pub(crate) fn start(&mut self, key: Option<&[u8]>) -> Result<(), Reason> {
        self.record = None;
        match key {
            Some(key) => {
                self.set_key(key)?;
                self.mac().map(|_| ())
            }
            None => Ok(self.mac()?.start()?),
        }
    }

    /// Expects the header and the content of a record that has this length with code and padding.
    pub(crate) fn set_record_bytes(&mut self, bytes: usize) {
        self.record = (bytes > 0).then_some(Record { bytes, header: None, code: None });
    }

    /// Returns the length of the record whose content comes next, with code and padding.
    pub(crate) fn expects(&self) -> Option<usize> {
        self.record.as_ref().filter(|record| record.header.is_some()).map(|record| record.bytes)
    }

    /// Adds a part of the message, or the header of a record.
    pub(crate) fn update(&mut self, part: &[u8]) -> Result<(), Reason> {
        if let Some(record) = &mut self.record {
            record.header = Some(part.try_into().map_err(|_| Reason::BadContent)?);
            return Ok(());
        }
        Ok(self.mac()?.update(part)?)
    }

    /// Authenticates the header and the first `length` bytes of a record.
    pub(crate) fn update_record(&mut self, bytes: &[u8], length: usize) -> Result<(), Reason> {
        let mac = self.mac.as_ref().ok_or(Reason::NoKey)?;
        let record = self.record.as_mut().ok_or(Reason::BadContent)?;
        let header = record.header.as_ref().ok_or(Reason::BadContent)?;
        record.code = Some(mac.of_record(header, bytes, length)?);
        Ok(())
    }

    /// Returns the code.
    pub(crate) fn finish(&mut self) -> Result<Zeroizing<Vec<u8>>, Reason> {
        Counted::HMAC.add();
        let record = self.record;
        let mac = self.mac()?;
        let code = match record {
            Some(record) => record.code.ok_or(Reason::BadContent)?,
            None => mac.finish()?,
        };
        Ok(Zeroizing::new(code[..mac.hash().bytes].to_vec()))
    }

    /// Returns the hash, once it is known.
    pub(crate) fn hash(&self) -> Option<Hash> {
        self.hash
    }
}
