//! Inputs that describe a peer's actions, for protocols whose bytes are sealed and cannot be guessed.

use sealane_copy::Suite;
use sealane_copy::proto::record::{HEADER_BYTES, Header, Kind, seal};
use sealane_engine::Implementations;
use sealane_engine::record::{Association, Secret};

/// A receiver's records, and the expected result at the sender.
#[derive(Debug, Default)]
pub struct Told {
    /// The bytes as they arrive.
    pub wire: Vec<u8>,
    /// The counts of the records before the first altered one.
    pub counts: Vec<u64>,
    /// Whether no record was altered.
    pub is_honest: bool,
}

/// Returns the keys that seal and open acknowledgements.
pub fn acknowledgement_keys() -> Association {
    Association::new(Implementations::default(), Suite::Aes128Gcm, Secret::new([7; 32]))
}

/// Reads a script of acknowledgements: honest records, altered ones, other kinds, and noise.
pub fn acknowledgements(mut script: &[u8]) -> Told {
    let mut keys = acknowledgement_keys();
    let mut told = Told { is_honest: true, ..Told::default() };
    while let Some((&what, rest)) = script.split_first() {
        script = rest;
        match what % 4 {
            0 | 1 => {
                let Some((count, rest)) = script.split_first_chunk::<4>() else { break };
                script = rest;
                told.record(&mut keys, u64::from(u32::from_le_bytes(*count)), |_| ());
            }
            2 => {
                let Some(([at, change], rest)) = script.split_first_chunk::<2>() else { break };
                script = rest;
                told.record(&mut keys, 9, |record| {
                    let length = record.len();
                    record[usize::from(*at) % length] ^= change;
                });
            }
            _ if what & 4 == 0 => {
                let (noise, rest) = script.split_at(script.len().min(usize::from(what >> 3)));
                script = rest;
                told.wire.extend_from_slice(noise);
                told.is_honest &= noise.is_empty();
            }
            _ => {
                told.wire.extend(seal(&mut keys, Kind::Pack, 0, 9, &[]));
                told.is_honest = false;
            }
        }
    }
    told
}

impl Told {
    fn record(&mut self, keys: &mut Association, count: u64, alter: impl FnOnce(&mut [u8])) {
        let honest = seal(keys, Kind::Acknowledge, 0, count, &[]);
        let mut record = honest.clone();
        alter(&mut record);
        self.is_honest &= record == honest;
        if self.is_honest {
            self.counts.push(count);
        }
        self.wire.extend(record);
    }
}

/// Opened records that arrive together.
#[derive(Debug)]
pub struct Batch<'a> {
    /// The lane that they arrive on, of two.
    pub lane: usize,
    /// Headers and bodies.
    pub records: Vec<(Header, &'a [u8])>,
}

/// Reads batches, each a byte (its lane and number of records) followed by the records as on the wire, without tags.
/// Returns them, and the bytes from a record on that is cut off or invalid.
pub fn batches(mut script: &[u8]) -> (Vec<Batch<'_>>, &[u8]) {
    let mut batches = Vec::new();
    while let Some((&control, mut rest)) = script.split_first() {
        let mut records = Vec::new();
        for _ in 0..=(control >> 1) % 8 {
            let header = rest.first_chunk::<HEADER_BYTES>().and_then(|bytes| Header::decode(bytes).ok());
            let Some(header) = header else { return (batches, script) };
            let end = HEADER_BYTES + header.body_bytes;
            let Some(body) = rest.get(HEADER_BYTES..end) else { return (batches, script) };
            records.push((header, body));
            rest = &rest[end..];
        }
        batches.push(Batch { lane: usize::from(control % 2), records });
        script = rest;
    }
    (batches, script)
}

/// Reads a path and include and exclude rules, one per line. An include rule begins with `+`, an exclude rule with
/// any other character.
pub fn rules(script: &[u8]) -> (&[u8], Vec<(bool, &str)>) {
    let mut lines = script.split(|&byte| byte == b'\n');
    let path = lines.next().unwrap_or_default();
    let rules = lines.take(16).filter_map(|line| {
        let (&sign, pattern) = line.split_first()?;
        Some((sign == b'+', str::from_utf8(pattern).ok()?))
    });
    (path, rules.collect())
}
