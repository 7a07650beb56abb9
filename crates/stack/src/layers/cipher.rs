//! `des`, `aes-128-ctr`, `rc4` and every other cipher of the catalogue; a block cipher without a mode uses CBC. No
//! packet is authenticated: the layer is for measurement, and for use above a layer that authenticates.
//!
//! In CBC the packet's number is the first enciphered block, under an IV of zeros, so that the next block is chained
//! to a block that nobody can predict (NIST SP 800-38A, appendix C, first method). CTR and SEAL have the number in a
//! header of 8 bytes. ECB and RC4 have no number: each packet starts from the same state, as in the papers. Packets
//! are padded as in RFC 5652, section 6.3, if the mode needs whole blocks.

use std::sync::Arc;

use sealane_engine::{Job, Protection, Span};
use sealane_transform::{Cipher, Mode};

use crate::{
    Kind, Layer, Overhead, Way,
    layers::{Layout, Sessions, add_jobs, end_jobs},
    spec::no_arguments,
};
use sealane_port::{Batch, Verdict};

pub(crate) const KIND: Kind = Kind {
    names: || ciphers().map(|(name, _)| name).collect(),
    make: |layer, context| {
        no_arguments(layer)?;
        let cipher = by_name(&layer.name).expect("one of the names above");
        let sessions = Sessions::new(layer, context, Protection::Cipher(cipher))?;
        Ok(Arc::new(CipherLayer { sessions, form: Form::of(cipher) }))
    },
};

/// Returns all ciphers with the names that a stack may use: the catalogue's and its aliases.
fn ciphers() -> impl Iterator<Item = (String, Cipher)> {
    let names = |cipher: Cipher| [Some(cipher.to_string()), cipher.alias().map(str::to_owned)];
    Cipher::all()
        .filter(|cipher| *cipher != Cipher::Null)
        .flat_map(move |cipher| names(cipher).into_iter().flatten().map(move |name| (name, cipher)))
}

/// Returns the cipher with a name.
pub(super) fn by_name(name: &str) -> Option<Cipher> {
    name.parse().ok().filter(|cipher| *cipher != Cipher::Null)
}

/// The packet format of a cipher.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    granule: usize,
    number: Number,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    None,
    /// The number is enciphered, as a block of this many bytes.
    Block(usize),
    /// The number is in clear, and at the front of an IV of this many bytes.
    Header(usize),
}

impl Form {
    pub(super) fn of(cipher: Cipher) -> Self {
        let facts = cipher.facts();
        let number = match cipher {
            Cipher::Block(_, Mode::Cbc) => Number::Block(facts.block_bytes),
            Cipher::Block(_, Mode::Ctr) | Cipher::Seal3 => Number::Header(facts.iv_bytes),
            Cipher::Block(_, Mode::Ecb) | Cipher::Rc4 | Cipher::Null => Number::None,
        };
        Self { granule: cipher.granule_bytes(), number }
    }

    pub(super) fn overhead(self) -> Overhead {
        let head_bytes = match self.number {
            Number::None => 0,
            Number::Block(bytes) => bytes,
            Number::Header(_) => 8,
        };
        Overhead { head_bytes, tail_bytes: if self.granule > 1 { self.granule } else { 0 } }
    }

    /// Returns the clear bytes in front of the body, the body, and the IV.
    pub(super) fn lay_out(
        self,
        packet: &mut Layout<'_>,
        way: Way,
        number: u64,
    ) -> Result<(Span, Span, [u8; 16]), Verdict> {
        let mut iv = [0; 16];
        let mut header = None;
        if way == Way::Down {
            packet.pad(self.granule)?;
        }
        let body_alone = packet.all();
        match (self.number, way) {
            (Number::Block(16), Way::Down) => drop(packet.header(u128::from(number).to_be_bytes())?),
            (Number::Block(_), Way::Down) => drop(packet.header(number.to_be_bytes())?),
            (Number::Header(_), Way::Down) => header = Some(packet.header(number.to_be_bytes())?),
            (Number::Header(_), Way::Up) => header = Some(packet.behead::<8>()?.0),
            (Number::None, _) | (Number::Block(_), Way::Up) => {}
        }
        let (Number::Header(iv_bytes), Some(clear)) = (self.number, header) else {
            let body = packet.all();
            return Ok((Span::new(body.start, 0), body, iv));
        };
        let mut value = [0; 8];
        value.copy_from_slice(&packet.bytes[clear.range()]);
        let value = u64::from_be_bytes(value);
        match iv_bytes {
            // This is SEAL's index.
            4 => iv[..4].copy_from_slice(&(value as u32).to_be_bytes()),
            // Blocks of 8 bytes are counted in the low 16 bits, which are sufficient for packets of 512 KiB.
            8 => iv[..8].copy_from_slice(&(value << 16).to_be_bytes()),
            _ => iv[..8].copy_from_slice(&value.to_be_bytes()),
        }
        let body = if way == Way::Down { body_alone } else { packet.all() };
        Ok((clear, body, iv))
    }

    /// Removes the number and the padding from a deciphered packet.
    pub(super) fn strip(self, packet: &mut Layout<'_>) -> Result<(), Verdict> {
        if let Number::Block(bytes) = self.number {
            packet.packet.pull_front(bytes).ok_or(Verdict::Malformed)?;
        }
        packet.unpad(self.granule)
    }
}

#[derive(Debug)]
struct CipherLayer {
    sessions: Sessions,
    form: Form,
}

impl Layer for CipherLayer {
    fn overhead(&self) -> Overhead {
        self.form.overhead()
    }

    fn enter(&self, way: Way, batch: &mut Batch) {
        add_jobs(batch, way, self.sessions.of(way), |packet, number| {
            let (_, body, iv) = self.form.lay_out(packet, way, number)?;
            Ok(Job {
                clear: Span::new(body.start, 0),
                body,
                tag: Span::new(body.end() as u32, 0),
                iv,
                ..Job::default()
            })
        });
    }

    fn leave(&self, way: Way, batch: &mut Batch) {
        end_jobs(batch, &self.sessions, Verdict::Malformed, |packet| match way {
            Way::Down => Ok(()),
            Way::Up => self.form.strip(packet),
        });
    }
}
