//! `md5`, `inet`, `hmac-sha256` and every other digest and MAC of the catalogue: a trailer over the whole packet. One
//! that takes a nonce has a header of 8 bytes with the packet's number.
//!
//! Guarantees: a packet that was changed goes no further; one without a key shows damage only, not intent.

use std::sync::Arc;

use sealane_engine::{Job, Mac, Protection, Span};
use sealane_transform::Digest;

use crate::{
    Batch, Kind, Layer, Room, Verdict, Way,
    layers::{Sessions, add_jobs, end_jobs},
    spec::no_arguments,
};

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
        Ok(Arc::new(DigestLayer { sessions, tag_bytes: tag_bytes.into(), has_nonce, verdict }))
    },
};

fn digests() -> impl Iterator<Item = Digest> {
    Digest::ALL.into_iter().filter(|digest| digest.output_bytes() > 0)
}

#[derive(Debug)]
struct DigestLayer {
    sessions: Sessions,
    tag_bytes: usize,
    has_nonce: bool,
    verdict: Verdict,
}

impl Layer for DigestLayer {
    fn room(&self) -> Room {
        Room { head_bytes: if self.has_nonce { 8 } else { 0 }, tail_bytes: self.tag_bytes }
    }

    fn enter(&self, way: Way, batch: &mut Batch) {
        add_jobs(batch, way, self.sessions.of(way), |packet, number| {
            let mut iv = [0; 16];
            let (clear, tag) = match way {
                Way::Down => {
                    if self.has_nonce {
                        packet.header(number.to_be_bytes())?;
                        iv[4..12].copy_from_slice(&number.to_be_bytes());
                    }
                    (packet.all(), packet.trailer(self.tag_bytes)?)
                }
                Way::Up => {
                    let tag = packet.untrail(self.tag_bytes)?;
                    let clear = packet.all();
                    if self.has_nonce {
                        iv[4..12].copy_from_slice(&packet.behead::<8>()?.1);
                    }
                    (clear, tag)
                }
            };
            Ok(Job { clear, body: Span::new(clear.end() as u32, 0), tag, iv, ..Job::default() })
        });
    }

    fn leave(&self, _way: Way, batch: &mut Batch) {
        end_jobs(batch, self.verdict, |_| Ok(()));
    }
}
