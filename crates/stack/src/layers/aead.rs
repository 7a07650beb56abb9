//! `aes-128-gcm`, `aes-256-gcm`, `chacha20-poly1305`: a header of 8 bytes with the packet's number, which is
//! authenticated and makes the nonce, and the tag behind the packet.
//!
//! Guarantees: a nonce is derived from the packet's number, which is given once, before work fans out; a packet that
//! was altered goes no further.

use std::sync::Arc;

use sealane_engine::{Job, Protection};
use sealane_transform::{Aead, Algorithm};

use crate::{
    Kind, Layer, Overhead, Way,
    layers::{Sessions, add_jobs, end_jobs},
    spec::no_arguments,
};
use sealane_port::{Batch, Verdict};

const TAG_BYTES: usize = 16;

pub(crate) const KIND: Kind = Kind {
    names: || aeads().map(|(name, _)| name).collect(),
    make: |layer, context| {
        no_arguments(layer)?;
        let (_, aead) = aeads().find(|(name, _)| *name == layer.name).expect("one of the names above");
        Ok(Arc::new(AeadLayer { sessions: Sessions::new(layer, context, Protection::Aead(aead))? }))
    },
};

fn aeads() -> impl Iterator<Item = (String, Aead)> {
    Algorithm::all().filter_map(|algorithm| match algorithm {
        Algorithm::Aead(aead) => Some((algorithm.to_string(), aead)),
        _ => None,
    })
}

#[derive(Debug)]
struct AeadLayer {
    sessions: Sessions,
}

impl Layer for AeadLayer {
    fn overhead(&self) -> Overhead {
        Overhead { head_bytes: 8, tail_bytes: TAG_BYTES }
    }

    fn enter(&self, way: Way, batch: &mut Batch) {
        add_jobs(batch, way, self.sessions.of(way), |packet, number| {
            let (clear, body, tag, number) = match way {
                Way::Down => {
                    let body = packet.all();
                    let clear = packet.header(number.to_be_bytes())?;
                    (clear, body, packet.trailer(TAG_BYTES)?, number.to_be_bytes())
                }
                Way::Up => {
                    let (clear, number) = packet.behead::<8>()?;
                    let tag = packet.untrail(TAG_BYTES)?;
                    (clear, packet.all(), tag, number)
                }
            };
            let mut iv = [0; 16];
            iv[4..12].copy_from_slice(&number);
            Ok(Job { clear, body, tag, iv, ..Job::default() })
        });
    }

    fn leave(&self, _way: Way, batch: &mut Batch) {
        end_jobs(batch, &self.sessions, Verdict::Forged, |_| Ok(()));
    }
}
