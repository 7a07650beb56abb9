//! Traces of an algorithm's reference kernel, operation by operation.
//!
//! As in NPCryptBench, only kernels are traced: keys are expanded and messages padded before. AES is traced in the
//! form that the paper stores, with tables of 4 + 1 KB; the reference kernel computes the entries of these.

use crate::algorithm::{Algorithm, Cipher, Digest};
use crate::descriptor::{Making, words_to_bytes};
use crate::key::{CipherKey, DigestKey};
use crate::word::{Event, Mix, begin, end_block, sites};

/// NPCryptBench's algorithms, in its order of kinds: digests, streams, blocks.
pub const TEN: [&str; 10] = [
    "md5",
    "sha1",
    "rc4",
    "seal3",
    "aes-128-ecb",
    "des-ecb",
    "rc5-r16-ecb",
    "rc6-ecb",
    "blowfish-ecb",
    "idea-ecb",
];

/// Encrypts or digests `bytes` bytes (whole blocks; a partial one is left out) in ECB under a fixed key, and reports
/// the kernel's operations to `sink`, block by block. Returns the output: the message, or the words of the digest's
/// state. Returns `None` for algorithms without a counting kernel (AEADs, null and touch).
pub fn trace(algorithm: Algorithm, bytes: usize, mut sink: impl FnMut(Event)) -> Option<Vec<u8>> {
    let mut data = message(bytes);
    begin();
    match algorithm {
        Algorithm::Digest(digest) => absorb(digest, &data, &mut sink),
        Algorithm::Cipher(Cipher::Null) | Algorithm::Aead(_) | Algorithm::Gmac(_) => None,
        Algorithm::Cipher(cipher) => {
            let key = CipherKey::new(cipher, &key(algorithm)).ok()?;
            (cipher.descriptor().trace)(key.schedule(), &mut data, &mut sink);
            Some(data)
        }
    }
}

/// Returns the operation of each place of a kernel's source, once, in the order of their first times: the kernel's
/// code as it is written, with loops not unrolled and functions not inlined. In all else it does as [`trace`].
pub fn code_sites(algorithm: Algorithm, bytes: usize) -> Option<Vec<Event>> {
    trace(algorithm, bytes, |_| ())?;
    Some(sites())
}

/// Counts the operations that [`trace`] reports, by class.
pub fn instruction_mix(algorithm: Algorithm, bytes: usize) -> Option<Mix> {
    let mut mix = Mix::default();
    trace(algorithm, bytes, |event| mix.add(event))?;
    Some(mix)
}

pub(crate) fn message(bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect()
}

pub(crate) fn key(algorithm: Algorithm) -> Vec<u8> {
    (0..algorithm.facts().key_bytes.usual).map(|i| (i * 59 + 7) as u8).collect()
}

fn absorb(digest: Digest, data: &[u8], sink: &mut dyn FnMut(Event)) -> Option<Vec<u8>> {
    match &digest.descriptor().making {
        Making::Hash(hash) | Making::Hmac(hash) => {
            let mut state = [0; 8];
            for block in data.as_chunks().0 {
                (hash.traced)(&mut state, block);
                end_block(sink);
            }
            Some(words_to_bytes(&state))
        }
        Making::Own(own) => {
            let key = DigestKey::new(digest, &key(Algorithm::Digest(digest))).ok()?;
            (own.trace)(&key, data, sink)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::Kernels;
    use crate::isa::Tier;
    use crate::job::{Buffer, CipherJob};
    use crate::word::{MemoryAccess, Region};
    use crate::{md5, sha1};
    use std::collections::{BTreeMap, BTreeSet};

    fn events(name: &str, bytes: usize) -> Vec<Event> {
        let mut events = Vec::new();
        trace(name.parse().unwrap(), bytes, |event| events.push(event)).unwrap();
        events
    }

    /// These are NPCryptBench's findings: the mix is ALU-heavy and branch-light; AES touches memory more than MD5.
    #[test]
    fn shapes_of_table_v() {
        let mix = |name: &str| instruction_mix(name.parse().unwrap(), 4096).unwrap();
        let memory = |mix: &Mix| (mix.load + mix.store) as f64 / mix.total() as f64;
        for name in TEN {
            let mix = mix(name);
            let total = mix.total() as f64;
            let alu = (mix.simple_alu + mix.complex_alu) as f64 / total;
            assert!(alu > 0.4, "{name}: {alu} {mix:?}");
            assert!((mix.branch + mix.jump) as f64 / total < 0.15, "{name} {mix:?}");
        }
        assert!(memory(&mix("aes-128-ecb")) > 2.0 * memory(&mix("md5")));
        assert!(["rc5-ecb", "rc6-ecb", "idea-ecb"].iter().all(|name| mix(name).complex_alu > 0));
        assert!(["aes-128-ecb", "des-ecb"].iter().all(|name| mix(name).complex_alu == 0));
    }

    /// A loop's body counts once: more blocks are not more code. RC5's round by hand has two keys, two XORs, two
    /// rotations, two sums and a branch; before it are two loads, two keys and two sums, after it two stores.
    #[test]
    fn code_is_what_is_written() {
        for name in TEN {
            let sites = |bytes| code_sites(name.parse().unwrap(), bytes).unwrap();
            let few = sites(2048);
            assert_eq!(few.len(), sites(4096).len(), "{name}");
            assert!((5..250).contains(&few.len()), "{name}: {}", few.len());
            assert!(few.len() < events(name, 64).len(), "{name}");
        }
        let sites = code_sites("rc5-r16-ecb".parse().unwrap(), 64).unwrap();
        let count = |wanted: fn(&Event) -> bool| sites.iter().filter(|event| wanted(event)).count();
        assert_eq!(count(|event| matches!(event, Event::Rotate)), 2);
        assert_eq!(count(|event| matches!(event, Event::Simple)), 2 + 4);
        // The closure that reads the key is one place.
        assert_eq!(count(|event| matches!(event, Event::Load { .. })), 2 + 1);
        assert_eq!(count(|event| matches!(event, Event::Store { .. })), 2);
        assert_eq!(count(|event| matches!(event, Event::Branch { .. })), 1);
    }

    /// The distinct bytes of keys and tables are those of Table IV, with entries of 4 bytes.
    #[test]
    fn table_iv_follows_from_traces() {
        let expected = [
            ("md5", 0, 0),
            ("sha1", 0, 0),
            ("rc4", 0, 1024),
            ("aes-128-ecb", 176, 5120),
            ("des-ecb", 128, 2048),
            ("rc5-r16-ecb", 136, 0),
            ("rc6-ecb", 176, 0),
            ("blowfish-ecb", 72, 4096),
            ("idea-ecb", 208, 0),
        ];
        let touched = |name: &str, bytes: usize| {
            let mut entries: BTreeMap<bool, BTreeSet<(Region, u32)>> = BTreeMap::new();
            for event in events(name, bytes) {
                if let Event::Load { place: MemoryAccess { region, offset, .. }, .. } = event {
                    match region {
                        Region::Key => entries.entry(false).or_default().insert((region, offset)),
                        Region::Table(_) => entries.entry(true).or_default().insert((region, offset)),
                        Region::Message | Region::State => continue,
                    };
                }
            }
            [false, true].map(|is_table| 4 * entries.get(&is_table).map_or(0, BTreeSet::len))
        };
        for (name, key, table) in expected {
            assert_eq!(touched(name, 16384), [key, table], "{name}");
        }
        let [key, tables] = touched("seal3", 8192);
        assert!(key == 0 && (3072..4096).contains(&tables), "{tables}");
    }

    #[test]
    fn traced_kernels_make_what_reference_kernels_make() {
        let kernels = Kernels::select(Some(Tier::Reference), None).unwrap();
        for name in TEN {
            let algorithm: Algorithm = name.parse().unwrap();
            let out = trace(algorithm, 3072, |_| ()).unwrap();
            let mut data = message(3072);
            match algorithm {
                Algorithm::Cipher(cipher) => {
                    let key = CipherKey::new(cipher, &key(algorithm)).unwrap();
                    // SEAL's index 1.
                    let iv = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
                    let mut jobs = [CipherJob::new(&key, &iv, Buffer::in_place(&mut data))];
                    assert_eq!(kernels.encrypt(cipher, &mut jobs), 0);
                    assert_eq!(out, data, "{name}");
                }
                _ => {
                    let mut state = [0; 8];
                    match name {
                        "md5" => md5::reference::blocks(&mut state, &data),
                        _ => sha1::reference::blocks(&mut state, &data),
                    }
                    assert_eq!(out, state.map(u32::to_le_bytes).as_flattened(), "{name}");
                }
            }
        }
    }

    /// A load is used at most once, after it is issued; an address depends on earlier loads.
    #[test]
    fn loads_are_used_after_they_are_issued() {
        for name in TEN {
            let (mut last, mut open) = (0, BTreeSet::new());
            for event in events(name, 2048) {
                match event {
                    Event::Load { load, after, .. } => {
                        assert_eq!(load, last + 1, "{name}");
                        assert!(after < load && !open.contains(&after), "{name}");
                        last = load;
                        open.insert(load);
                    }
                    Event::Use { load } => assert!(open.remove(&load), "{name}: {load}"),
                    _ => {}
                }
            }
            assert!(open.is_empty(), "{name}: {open:?}");
        }
    }

    #[test]
    fn a_round_of_des_loads_two_words_of_key_and_eight_entries() {
        let events = events("des-ecb", 8);
        let loads = |wanted: fn(&Region) -> bool| {
            let of = |event: &&Event| matches!(event, Event::Load { place, .. } if wanted(&place.region));
            events.iter().filter(of).count()
        };
        assert_eq!(loads(|region| *region == Region::Key), 32);
        assert_eq!(loads(|region| *region == Region::Table("SP")), 128);
        assert_eq!(events.last(), Some(&Event::BlockEnd));
    }
}
