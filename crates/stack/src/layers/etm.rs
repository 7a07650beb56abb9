//! `etm(CIPHER,MAC)`: enciphers, then authenticates, for example `etm(des,hmac-md5)`. The packet has the format of
//! the cipher's own layer, followed by the MAC's tag.
//!
//! Guarantees: a packet that was altered goes no further, and none of its content is interpreted. To open a packet,
//! the MAC and the cipher are two functions that two lanes may run at the same time.

use std::sync::Arc;

use sealane_engine::{Job, Mac, Protection, Session, Span};
use sealane_port::{Batch, Verdict};
use sealane_transform::{Cipher, Digest};

use crate::{
    Context, Kind, Layer, LayerSpec, Overhead, SpecError, Way,
    layers::{
        Sessions, add_jobs,
        cipher::{self, Form},
        end_jobs,
    },
};

pub(crate) const KIND: Kind =
    Kind { names: || vec!["etm".to_owned()], make: |layer, context| make(layer, context) };

fn make(layer: &LayerSpec, context: &Context) -> Result<Arc<dyn Layer>, SpecError> {
    let found = match layer.arguments.as_slice() {
        [cipher, mac] => cipher::by_name(cipher).zip(mac_by_name(mac)),
        _ => None,
    };
    let (cipher, mac) = found.ok_or_else(|| SpecError::Arguments {
        layer: layer.to_string(),
        takes: "(CIPHER,MAC) of the catalogue, a MAC with a key and without a nonce".to_owned(),
    })?;
    let tag_bytes = mac.output_bytes() as u8;
    let protection = Protection::EncryptThenMac { cipher, mac, tag_bytes };
    let sessions = Sessions::new(layer, context, protection)?;
    let (mac_key, cipher_key) = (mac.key_bytes(), cipher.facts().key_bytes.usual);
    let material = context.material(layer, Way::Up, protection.key_bytes());
    let alone = |protection, material: &[u8]| {
        Session::with(context.implementations, protection, material)
            .map(Arc::new)
            .map_err(|error| SpecError::Key { layer: layer.to_string(), error })
    };
    // A session's material consists of the cipher's key, then the MAC's.
    let opening = [
        alone(Protection::Mac { mac, tag_bytes }, &material[cipher_key..cipher_key + mac_key])?,
        alone(Protection::Cipher(cipher), &material[..cipher_key])?,
    ];
    Ok(Arc::new(EtmLayer { sessions, opening, form: Form::of(cipher), tag_bytes: tag_bytes.into(), cipher }))
}

fn mac_by_name(name: &str) -> Option<Mac> {
    let has_key = |digest: &Digest| digest.facts().key_bytes.max > 0 && digest.facts().iv_bytes == 0;
    Digest::ALL.into_iter().filter(has_key).find(|digest| digest.name() == name).map(Mac::Digest)
}

#[derive(Debug)]
struct EtmLayer {
    sessions: Sessions,
    /// The MAC and the cipher alone, for the way up.
    opening: [Arc<Session>; 2],
    form: Form,
    tag_bytes: usize,
    cipher: Cipher,
}

impl Layer for EtmLayer {
    fn overhead(&self) -> Overhead {
        self.form.overhead().and(Overhead { head_bytes: 0, tail_bytes: self.tag_bytes })
    }

    fn enter(&self, way: Way, batch: &mut Batch) {
        let granule = self.cipher.granule_bytes() as u32;
        add_jobs(batch, way, self.sessions.of(way), |packet, number| {
            let mut tag = Span::default();
            if way == Way::Up {
                tag = packet.untrail(self.tag_bytes)?;
            }
            let (clear, body, iv) = self.form.lay_out(packet, way, number)?;
            if way == Way::Down {
                tag = packet.trailer(self.tag_bytes)?;
            }
            if body.len % granule != 0 {
                return Err(Verdict::Malformed);
            }
            Ok(Job { clear, body, tag, iv, ..Job::default() })
        });
    }

    fn leave(&self, way: Way, batch: &mut Batch) {
        end_jobs(batch, &self.sessions, Verdict::Forged, |packet| match way {
            Way::Down => Ok(()),
            Way::Up => self.form.strip(packet),
        });
    }

    fn functions(&self, way: Way) -> Option<[&Arc<Session>; 2]> {
        let [mac, cipher] = &self.opening;
        (way == Way::Up).then_some([mac, cipher])
    }
}
