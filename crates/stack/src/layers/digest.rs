//! `md5`, `inet`, `hmac-sha256` and every other digest and MAC of the catalogue: a header over the whole packet.
//!
//! The header resembles that of AH (RFC 4302), and its protocol number over IP is [`crate::DIGEST_PROTOCOL`]:
//!
//! | bytes | content |
//! |---|---|
//! | 1 | protocol number of the next header, as over IP |
//! | 1 | length of the digest |
//! | 1 | length of the packet's number: 8 with a MAC that takes a nonce, otherwise 0 |
//! | 1 | zero |
//! | 0 or 8 | the packet's number |
//! | n | the digest over header and packet, with its own bytes counted as zero |
//!
//! Both ends know the algorithm. `docs/digest.lua` is a Wireshark dissector for the header.
//!
//! Guarantees: a packet that was changed goes no further; a digest without a key only detects accidental changes.

use std::sync::Arc;

use sealane_engine::{Job, Mac, Protection, Span};

use crate::{
    Kind, Layer, Overhead, Way,
    layers::{Sessions, add_jobs, end_jobs},
    network::{self, digests},
    spec::no_arguments,
};
use sealane_port::{Batch, Verdict};

/// The number of bytes before the packet's number or the digest.
const FIXED_BYTES: usize = 4;

pub(crate) const KIND: Kind = Kind {
    names: || digests().map(|digest| digest.name().to_owned()).collect(),
    make: |layer, context| {
        no_arguments(layer)?;
        let digest = digests().find(|digest| digest.name() == layer.name).expect("one of the names above");
        let tag_bytes = digest.output_bytes() as u8;
        let protection = Protection::Mac { mac: Mac::Digest(digest), tag_bytes };
        let has_nonce = digest.facts().iv_bytes > 0;
        let verdict = if digest.facts().key_bytes.max > 0 { Verdict::Forged } else { Verdict::Damaged };
        let sessions = Sessions::new(layer, context, protection)?;
        let next = network::protocol_above(context);
        Ok(Arc::new(DigestLayer { sessions, next, tag_bytes, has_nonce, verdict }))
    },
};

#[derive(Debug)]
struct DigestLayer {
    sessions: Sessions,
    /// The protocol number of the layer above.
    next: u8,
    tag_bytes: u8,
    has_nonce: bool,
    verdict: Verdict,
}

impl DigestLayer {
    /// Returns the position of the digest within the header.
    fn tag_at(&self) -> usize {
        FIXED_BYTES + if self.has_nonce { 8 } else { 0 }
    }

    fn header_bytes(&self) -> usize {
        self.tag_at() + usize::from(self.tag_bytes)
    }
}

impl Layer for DigestLayer {
    fn overhead(&self) -> Overhead {
        Overhead { head_bytes: self.header_bytes(), tail_bytes: 0 }
    }

    fn enter(&self, way: Way, batch: &mut Batch) {
        add_jobs(batch, way, self.sessions.of(way), |packet, number| {
            let mut iv = [0; 16];
            let fixed = [self.next, self.tag_bytes, (self.tag_at() - FIXED_BYTES) as u8, 0];
            let clear = match way {
                Way::Down => {
                    let header = packet.packet.push_front(self.header_bytes()).ok_or(Verdict::TooLong)?;
                    let header = &mut packet.bytes[header.range()];
                    header[..FIXED_BYTES].copy_from_slice(&fixed);
                    if self.has_nonce {
                        header[FIXED_BYTES..][..8].copy_from_slice(&number.to_be_bytes());
                        iv[4..12].copy_from_slice(&number.to_be_bytes());
                    }
                    packet.all()
                }
                Way::Up => {
                    let clear = packet.all();
                    let header = packet.packet.pull_front(self.header_bytes()).ok_or(Verdict::Malformed)?;
                    let header = &packet.bytes[header.range()];
                    if header[..FIXED_BYTES] != fixed {
                        return Err(Verdict::Malformed);
                    }
                    if self.has_nonce {
                        iv[4..12].copy_from_slice(&header[FIXED_BYTES..][..8]);
                    }
                    clear
                }
            };
            let tag = Span::new(clear.start + self.tag_at() as u32, self.tag_bytes.into());
            Ok(Job { clear, body: Span::new(clear.end() as u32, 0), tag, iv, ..Job::default() })
        });
    }

    fn leave(&self, _way: Way, batch: &mut Batch) {
        end_jobs(batch, &self.sessions, self.verdict, |_| Ok(()));
    }
}
