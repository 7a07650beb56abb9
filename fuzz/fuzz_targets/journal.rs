//! Journals: replaying any file yields a state that survives being written down, and reports exactly the entries
//! before the first bad one.
//!
//! No fuzzer guesses a hash, so each input is also replayed with its magic and all checks corrected.

#![no_main]

use std::collections::HashSet;

use libfuzzer_sys::fuzz_target;
use sealane_copy::replay_any;

const MAGIC: &[u8; 8] = b"sealane2";
const FRONT_BYTES: usize = 8;
const BODY_BYTES_MAX: usize = 1 + 16 + 8 + 4 + 128 * 1024;

fuzz_target!(|input: &[u8]| {
    replay_any(input);
    let mut journal = input.to_vec();
    let Some(settled) = put_right(&mut journal) else { return };
    assert_eq!(replay_any(&journal), settled);
});

/// Corrects magic and checks. Returns the number of entries of a transfer that the journal then reports. This is the
/// slow twin of the replay: an entry counts once it was begun or done, whatever later entries say about it, and a
/// directory counts once.
fn put_right(journal: &mut [u8]) -> Option<usize> {
    let (magic, mut rest) = journal.split_first_chunk_mut::<8>()?;
    *magic = *MAGIC;
    let mut settled: HashSet<[u8; 16]> = HashSet::new();
    let mut opened: HashSet<Vec<u8>> = HashSet::new();
    while rest.len() >= FRONT_BYTES {
        let (front, behind) = rest.split_at_mut(FRONT_BYTES);
        let length = u32::from_le_bytes(front[..4].try_into().ok()?);
        let body_bytes = length as usize;
        if body_bytes > BODY_BYTES_MAX || body_bytes > behind.len() {
            break;
        }
        let (body, behind) = behind.split_at_mut(body_bytes);
        let hash = blake3::Hasher::new().update(&length.to_le_bytes()).update(body).finalize();
        front[4..].copy_from_slice(&hash.as_bytes()[..4]);
        if body.first() == Some(&4) {
            if !(5..=5 + 128 * 1024).contains(&body_bytes) {
                break;
            }
            opened.insert(body[5..].to_vec());
            rest = behind;
            continue;
        }
        let Some((kind, identity)) =
            body.split_first().and_then(|(kind, rest)| Some((kind, rest.first_chunk()?)))
        else {
            break;
        };
        let settles = match kind {
            1 if body_bytes >= 29 => {
                let temp_name_bytes = u32::from_le_bytes(body[25..29].try_into().ok()?) as usize;
                if temp_name_bytes > body_bytes - 29 {
                    break;
                }
                true
            }
            2 if body_bytes == 33 => false,
            3 if (17..=17 + 128 * 1024).contains(&body_bytes) => true,
            _ => break,
        };
        if settles {
            settled.insert(*identity);
        }
        rest = behind;
    }
    Some(settled.len() + opened.len())
}
