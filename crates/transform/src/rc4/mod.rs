//! RC4. It is broken; it is here because the papers measure it. A job starts at the beginning of its key's stream.

pub(crate) mod reference;
pub(crate) mod single;
#[cfg(target_arch = "x86_64")]
pub(crate) mod ways;

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::descriptor::{Alone, CipherDescriptor, CipherWays, LeastBytes, PeerNames, no_instructions};
use crate::facts::{ByteOrder, Facts, KeyBytes, Limits, Standing};
use crate::isa::{Isa, Tier};
use crate::job::Buffer;
use crate::modes::{Direction, Mode};
use crate::order::WaysCost;
use crate::schedule::Schedule;
use crate::word::{Counted, Event, end_block};

/// RC4 as the catalogue knows it.
pub(crate) static RC4: CipherDescriptor = CipherDescriptor {
    name: "rc4",
    facts: Facts {
        block_bytes: 1,
        rounds: 1,
        key_bytes: KeyBytes { min: 1, max: 256, usual: 16 },
        iv_bytes: 0,
        output_bytes: 0,
        table_bytes: 256,
        working_set_bytes: 1024,
        chained: true,
        byte_order: ByteOrder::Bytes,
        standing: Standing::Broken,
        limits: Limits::NONE,
        source: "Rivest 1987; RFC 6229 (vectors)",
    },
    expand: |key| Some(Schedule::Rc4(Key::new(key))),
    alone: |_, tier, _, _| -> Alone { if tier == Tier::Reference { by_reference } else { unrolled } },
    has_instructions: no_instructions,
    #[cfg(target_arch = "x86_64")]
    ways: Some(CipherWays {
        cost: |_, _, isa, _| match isa {
            Isa::Portable => None,
            Isa::Avx2 | Isa::Avx512 => Some(WaysCost { few: 4, fixed_bytes: 304, job_bytes: 12 }),
        },
        least_bytes: LeastBytes { chained: 0, free: 448 },
        cut: None,
        run: |features, _, _, jobs, order, hand_over| {
            if let Some(proof) = features.avx2 {
                crate::cipher_ways::run_jobs(&mut ways::Rc4Ways::new(proof), jobs, order, hand_over);
            }
        },
    }),
    #[cfg(not(target_arch = "x86_64"))]
    ways: None,
    trace,
    words: |key| {
        let Schedule::Rc4(key) = key else { return None };
        Some((Vec::new(), key.permutation.map(u32::from).to_vec()))
    },
    peers: PeerNames::NONE.openssl("RC4").rust_crypto("rc4"),
    promises: &[],
};

fn by_reference(key: &Schedule, _: Mode, _: Direction, _: &[u8; 16], data: &mut Buffer<'_>) {
    if let Schedule::Rc4(key) = key {
        reference::plain(key, data.copied_in_place());
    }
}

fn unrolled(key: &Schedule, _: Mode, _: Direction, _: &[u8; 16], data: &mut Buffer<'_>) {
    if let Schedule::Rc4(key) = key {
        single::one(key, data.copied_in_place());
    }
}

/// Bytes of the stream between two ends of a block.
const TRACED_PIECE: usize = 64;

fn trace(key: &Schedule, data: &mut [u8], sink: &mut dyn FnMut(Event)) {
    let Schedule::Rc4(key) = key else { return };
    reference::in_pieces::<Counted>(key, data, TRACED_PIECE, || end_block(sink));
    if !data.len().is_multiple_of(TRACED_PIECE) {
        end_block(sink);
    }
}

/// The permutation after key scheduling.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
#[repr(align(32))]
pub(crate) struct Key {
    /// It is aligned, so that no vector of it crosses a cache line.
    pub(crate) permutation: [u8; 256],
}

impl Key {
    /// Schedules 1 to 256 bytes.
    pub(crate) fn new(key: &[u8]) -> Self {
        let mut permutation: [u8; 256] = core::array::from_fn(|i| i as u8);
        let mut j = 0u8;
        for (i, byte) in key.iter().cycle().take(256).enumerate() {
            j = j.wrapping_add(permutation[i]).wrapping_add(*byte);
            permutation.swap(i, usize::from(j));
        }
        Self { permutation }
    }
}
