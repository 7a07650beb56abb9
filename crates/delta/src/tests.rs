//! Both levels in memory, against the obvious: whatever is edited, the new version comes out of the old one and what is sent.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn key() -> Key {
    Key::new(&[7; 32])
}

/// Cuts a range of a version, read in one piece.
fn cut(version: &[u8], range: std::ops::Range<u64>, how: (Cut, u64)) -> Vec<Piece> {
    let mut found = Vec::new();
    let mut next = range.start;
    let fill = |at: u64, room: &mut [u8]| {
        assert_eq!(at, next, "each byte is read once, in order");
        next = at + room.len() as u64;
        assert!(next.is_multiple_of(FILL_BYTES as u64) || next == range.end);
        room.copy_from_slice(&version[at as usize..][..room.len()]);
        Ok::<(), ()>(())
    };
    pieces(range.clone(), how, &key(), &mut Vec::new(), fill, |piece| found.push(piece)).unwrap();
    found
}

/// Cuts a range of a version like the pieces of another.
fn cut_like(old: &[Piece], version: &[u8], range: std::ops::Range<u64>, mean_log2: u8) -> Vec<Piece> {
    let mut found = Vec::new();
    let fill = |at: u64, room: &mut [u8]| {
        room.copy_from_slice(&version[at as usize..][..room.len()]);
        Ok::<(), ()>(())
    };
    let room = &mut Vec::new();
    pieces_like(old, range.clone(), mean_log2, &key(), room, fill, |piece| found.push(piece)).unwrap();
    let mut at = range.start;
    for piece in &found {
        assert_eq!(piece.start, at);
        assert_eq!(piece.hash, key().hash(&version[at as usize..piece.end() as usize]));
        at = piece.end();
    }
    assert_eq!(at, range.end);
    found
}

/// Returns the pieces of spans of the old version as the other end gets them.
fn sign(old: &[u8], spans: &[Span]) -> Vec<Vec<Piece>> {
    let mut bytes = Vec::new();
    let mut expected = Vec::new();
    for span in spans {
        let found = cut(old, span.range(), (span.cut, 0));
        assert!(found.len() <= span.pieces_max().unwrap());
        pack(span, &found, &mut bytes);
        expected.push(found);
    }
    let told = unpack(spans, &bytes).unwrap();
    assert_eq!(told, expected);
    for length in [0, bytes.len() / 2, bytes.len().saturating_sub(1)] {
        assert!(unpack(spans, &bytes[..length]).is_err() || bytes.len() == length);
    }
    assert!(unpack(spans, &[&bytes[..], &[0]].concat()).is_err());
    told
}

fn spans(bytes: u64, segment: u64, cut: Cut) -> Vec<Span> {
    let starts = (0..bytes).step_by(segment as usize);
    starts.map(|start| Span { start, bytes: segment.min(bytes - start), cut }).collect()
}

/// The cost of making the new version of the old one.
#[derive(Debug, Default)]
struct Cost {
    /// Bytes of signatures.
    signed: usize,
    /// Bytes of the new version that are sent.
    sent: u64,
}

/// Builds the new version of the old one as two ends do, with segments of this length, and checks that it is right.
fn rebuild(old: &[u8], new: &[u8], segment: u64) -> Cost {
    let (old_bytes, new_bytes) = (old.len() as u64, new.len() as u64);
    let coarse = Cut::Content(mean_log2(old_bytes));
    let asked = spans(old_bytes, segment, coarse);
    let told = sign(old, &asked);
    let mut cost = Cost { signed: told.iter().map(|told| 19 * told.len()).sum(), sent: 0 };
    let index = Index::new(told.into_iter().flatten().collect());
    let mut built = vec![None; new.len()];
    let mut put = |to: u64, content: &[u8]| {
        for (byte, at) in content.iter().zip(to as usize..) {
            assert_eq!(built[at].replace(*byte), None, "each byte comes once");
        }
    };
    for Span { start, bytes, .. } in spans(new_bytes, segment, coarse) {
        let range = start..start + bytes;
        let pieces = cut_like(index.within(&range), new, range, mean_log2(old_bytes));
        for part in compare(&index, &pieces, old_bytes) {
            match part {
                Part::Copy { to, from, bytes } => put(to, &old[from as usize..][..bytes as usize]),
                Part::New { to, old: like } => {
                    let mut at = to.start;
                    for pair in pairs(&to, &like) {
                        assert_eq!(pair.to.start, at);
                        at = pair.to.end;
                        let [told] = &sign(old, &[pair.old])[..] else { panic!("one span was asked for") };
                        cost.signed += 19 * told.len();
                        let index = Index::new(told.clone());
                        let pieces = cut(new, pair.to.clone(), (pair.old.cut, pair.shift()));
                        for part in compare(&index, &pieces, old_bytes) {
                            match part {
                                Part::Copy { to, from, bytes } => {
                                    put(to, &old[from as usize..][..bytes as usize]);
                                }
                                Part::New { to, .. } => {
                                    cost.sent += to.end - to.start;
                                    put(to.start, &new[to.start as usize..to.end as usize]);
                                }
                            }
                        }
                    }
                    cost.sent += to.end - at;
                    put(at, &new[at as usize..to.end as usize]);
                }
            }
        }
    }
    let built: Vec<u8> = built.into_iter().map(|byte| byte.expect("no byte is left out")).collect();
    assert!(built == new);
    cost
}

/// Returns bytes that look random.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut content);
    content
}

/// One edit of a version.
#[derive(Clone, Debug)]
enum Edit {
    Insert(usize, usize, u64),
    Delete(usize, usize),
    Move(usize, usize, usize),
    Overwrite(usize, usize, u64),
    Zero(usize, usize),
    Truncate(usize),
    Repeat(usize, usize),
}

impl Edit {
    fn apply(&self, version: &mut Vec<u8>) {
        let length = version.len();
        let range = |at: usize, bytes: usize| {
            let start = at % (length + 1);
            start..(start + bytes).min(length)
        };
        match *self {
            Self::Insert(at, bytes, seed) => drop(version.splice(range(at, 0), noise(seed, bytes))),
            Self::Delete(at, bytes) => drop(version.drain(range(at, bytes))),
            Self::Move(at, bytes, to) => {
                let taken: Vec<u8> = version.drain(range(at, bytes)).collect();
                let to = to % (version.len() + 1);
                version.splice(to..to, taken);
            }
            Self::Overwrite(at, bytes, seed) => {
                let range = range(at, bytes);
                let content = noise(seed, range.len());
                version[range].copy_from_slice(&content);
            }
            Self::Zero(at, bytes) => version[range(at, bytes)].fill(0),
            Self::Truncate(at) => version.truncate(at % (length + 1)),
            Self::Repeat(at, bytes) => {
                let taken = version[range(at, bytes)].to_vec();
                version.extend(taken);
            }
        }
    }
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let (at, bytes, seed) = (0_usize..2_000_000, 1_usize..200_000, 0_u64..1000);
    let edit = prop_oneof![
        (at.clone(), bytes.clone(), seed.clone()).prop_map(|(at, bytes, seed)| Edit::Insert(at, bytes, seed)),
        (at.clone(), 1_usize..5, seed.clone()).prop_map(|(at, bytes, seed)| Edit::Insert(at, bytes, seed)),
        (at.clone(), bytes.clone()).prop_map(|(at, bytes)| Edit::Delete(at, bytes)),
        (at.clone(), bytes.clone(), at.clone()).prop_map(|(at, bytes, to)| Edit::Move(at, bytes, to)),
        (at.clone(), 1_usize..5000, seed).prop_map(|(at, bytes, seed)| Edit::Overwrite(at, bytes, seed)),
        (at.clone(), bytes.clone()).prop_map(|(at, bytes)| Edit::Zero(at, bytes)),
        at.clone().prop_map(Edit::Truncate),
        (at, bytes).prop_map(|(at, bytes)| Edit::Repeat(at, bytes)),
    ];
    prop::collection::vec(edit, 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_new_version_comes_out_of_any_old_one(seed in 0_u64..1000, bytes in 0_usize..1_500_000, edits in edits(), short: bool) {
        let old = noise(seed, bytes);
        let mut new = old.clone();
        edits.iter().for_each(|edit| edit.apply(&mut new));
        let segment = if short { 256 << 10 } else { SPAN_BYTES_MAX };
        rebuild(&old, &new, segment);
        rebuild(&new, &old, segment);
    }

    #[test]
    fn pieces_end_where_the_definition_says(seed in 0_u64..1000, bytes in 0_usize..80_000, zeros in 0_usize..40_000) {
        let mut content = noise(seed, bytes);
        let length = content.len();
        content[length.saturating_sub(zeros)..].fill(0);
        for mean_log2 in [12, 14] {
            let cutter = Cutter::new(mean_log2).unwrap();
            let mut rest = &content[..];
            while !rest.is_empty() {
                let first = cutter.first(rest);
                prop_assert_eq!(first, cutter.first_by_definition(rest));
                prop_assert!(first == rest.len() || (cutter.least_bytes()..=cutter.most_bytes()).contains(&first));
                rest = &rest[first..];
            }
        }
    }

    #[test]
    fn an_index_finds_what_a_list_does(old in prop::collection::vec(0_u8..20, 0..60), new in prop::collection::vec(0_u8..30, 0..60)) {
        let piece = |(at, &byte): (usize, &u8)| Piece { start: 10 * at as u64, bytes: 10, hash: [byte; 16] };
        let pieces: Vec<_> = old.iter().enumerate().map(piece).collect();
        let index = Index::new(pieces.clone());
        let by_hash: BTreeMap<_, _> = pieces.iter().rev().map(|piece| (piece.hash, piece.start)).collect();
        for (at, byte) in new.iter().enumerate() {
            let hash = [*byte; 16];
            let expected = match pieces.get(at) {
                Some(piece) if piece.hash == hash => Some(piece.start),
                _ => by_hash.get(&hash).copied(),
            };
            prop_assert_eq!(index.find(&hash, at).map(|number| index.start(number)), expected);
        }
    }

    #[test]
    fn any_bytes_unpack_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), start in 0_u64..5000, length in 1_u64..100_000, grid: bool) {
        let cut = if grid { Cut::Grid } else { Cut::Content(12) };
        let span = Span { start, bytes: length, cut };
        if let Ok(all) = unpack(&[span], &bytes) {
            let mut again = Vec::new();
            pack(&span, &all[0], &mut again);
            prop_assert_eq!(again, bytes);
        }
    }
}

#[test]
fn little_is_sent_of_what_changed_little() {
    let old = noise(1, 8 << 20);
    let check = |what: &str, new: &[u8], sent_max: u64, signed_max: usize| {
        let cost = rebuild(&old, new, SPAN_BYTES_MAX);
        assert!(cost.sent <= sent_max && cost.signed <= signed_max, "{what}: {cost:?}");
    };
    let all = 19 * (8 << 20) / (48 << 10);
    check("nothing changed", &old, 0, all);
    check("a byte before all", &[&[1], &old[..]].concat(), 20 << 10, all + 4000);
    let mut new = old.clone();
    (0..20).for_each(|block| Edit::Overwrite(4096 * (block * 97 + 3), 4096, block as u64).apply(&mut new));
    check("twenty blocks", &new, 20 * 4096, all + 20 * 19 * 80);
    let grown = [&old[..], &noise(2, 400_000)].concat();
    check("what grew", &grown, 420_000, all + 4000);
    let mut moved = old[5 << 20..].to_vec();
    moved.extend_from_slice(&old[..5 << 20]);
    // At each joint, one piece may be lost.
    check("halves that changed places", &moved, 256 << 10, all + 8000);
    let mut gone = old.clone();
    gone.drain(3_000_000..3_300_000);
    check("a part that is gone", &gone, 40 << 10, all + 12_000);
    assert_eq!(rebuild(&[], &old, SPAN_BYTES_MAX).sent, 8 << 20);
    assert_eq!(rebuild(&old, &[], SPAN_BYTES_MAX).sent, 0);
}

#[test]
fn blocks_lie_on_the_old_grid_wherever_they_are() {
    let old = noise(3, 1 << 20);
    // All is 100 bytes further on, and one block of the old grid has changed, so that no piece is left whole.
    let mut new = [&noise(4, 100), &old[..]].concat();
    let changed = noise(5, 4096);
    new[100 + 40 * 4096..][..4096].copy_from_slice(&changed);
    let cost = rebuild(&old, &new, SPAN_BYTES_MAX);
    assert!(cost.sent <= 4096 + (40 << 10), "{cost:?}");
}

#[test]
fn holes_are_told_and_not_cut() {
    let span = Span { start: 4096, bytes: 1 << 20, cut: Cut::Content(16) };
    let piece = |start, bytes| Piece { start, bytes, hash: [start as u8; 16] };
    for pieces in [
        vec![],
        vec![piece(4096, 100)],
        vec![piece(5000, 100), piece(5100, 7), piece(70_000, 20_000)],
        vec![piece(4096 + (1 << 20) - 10, 10)],
    ] {
        let mut bytes = Vec::new();
        pack(&span, &pieces, &mut bytes);
        assert_eq!(unpack(&[span], &bytes), Ok(vec![pieces]));
    }
    let hole = |bytes: u64| [&[0; 3][..], &bytes.to_le_bytes()].concat();
    for bad in [hole(0), hole((1 << 20) + 1), hole(u64::MAX), [hole(1), hole((1 << 20) - 1)].concat()] {
        assert_eq!(unpack(&[span], &bad), Err(Malformed));
    }
    assert_eq!(unpack(&[span], &hole(1 << 20)), Ok(vec![vec![]]));
    let long = [&(4_u32 * 65_536 + 1).to_le_bytes()[..3], &[0; 16]].concat();
    assert_eq!(unpack(&[span], &long), Err(Malformed));
}

#[test]
fn spans_that_make_no_sense_have_no_pieces() {
    let span = |start, bytes, cut| Span { start, bytes, cut };
    for bad in [
        span(0, 0, Cut::Grid),
        span(0, SPAN_BYTES_MAX + 1, Cut::Grid),
        span(u64::MAX, 5, Cut::Grid),
        span(FILE_BYTES_MAX, 1, Cut::Grid),
        span(0, 5, Cut::Content(11)),
        span(0, 5, Cut::Content(22)),
        span(0, 5, Cut::Content(255)),
    ] {
        assert_eq!(bad.pieces_max(), None, "{bad:?}");
    }
    assert!(span(FILE_BYTES_MAX - 5, 5, Cut::Content(21)).pieces_max().is_some());
}

#[test]
fn the_longest_file_has_a_bounded_number_of_pieces() {
    assert_eq!(mean_log2(0), 16);
    assert_eq!(mean_log2(256 << 20), 16);
    assert_eq!(mean_log2(1 << 40), 20);
    for size_log2 in 16..=42 {
        for size in [(1_u64 << size_log2) - 1, 1 << size_log2] {
            assert!(size >> mean_log2(size) <= 1 << 21, "{size}");
        }
    }
}

#[test]
fn an_index_of_a_million_pieces_takes_no_more_than_forty_mebibytes() {
    let pieces = (0..1_u64 << 20).map(|at| {
        let mut hash = [0; HASH_BYTES];
        hash[..8].copy_from_slice(&at.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
        Piece { start: at << 20, bytes: 1 << 20, hash }
    });
    let index = Index::new(pieces.collect());
    assert_eq!(index.count(), 1 << 20);
    assert!(index.memory_bytes() <= 40 << 20, "{}", index.memory_bytes());
}

#[test]
fn a_version_is_cut_like_the_old_one_where_it_is_the_same() {
    let old = noise(6, 6 << 20);
    let told = cut(&old, 0..old.len() as u64, (Cut::Content(16), 0));
    let whole = 0..old.len() as u64;
    assert_eq!(cut_like(&told, &old, whole.clone(), 16), told);
    assert_eq!(cut_like(&[], &old, whole.clone(), 16), told, "without an old one, by content");
    // Changes that leave every end in its place, in one piece and in two that follow each other.
    let mut new = old.clone();
    for number in [5, 20, 21, told.len() - 1] {
        new[told[number].start as usize + 100] ^= 1;
    }
    let ends = |pieces: &[Piece]| pieces.iter().map(Piece::end).collect::<Vec<_>>();
    let found = cut_like(&told, &new, whole.clone(), 16);
    assert_eq!(ends(&found), ends(&told));
    let differ = (0..told.len()).filter(|&number| found[number].hash != told[number].hash);
    assert_eq!(differ.collect::<Vec<_>>(), [5, 20, 21, told.len() - 1]);
    // A part that moved is found again, and then cut like the old one: the same as by content.
    let new = [&noise(7, 1000), &old[..2 << 20], &noise(8, 100_000), &old[1 << 20..]].concat();
    let range = 0..new.len() as u64;
    assert_eq!(cut_like(&told, &new, range.clone(), 16), cut(&new, range, (Cut::Content(16), 0)));
}

#[test]
fn old_pieces_that_lie_make_no_short_or_long_ones() {
    // The content is known to the liar, and so are the hashes of all its parts.
    let content = vec![0; 8 << 20];
    for bytes in [1, 7, 16_383, 300_000, (1 << 24) - 1] {
        let hash = key().hash(&content[..bytes.min(content.len())]);
        let piece = |number| Piece { start: number * bytes as u64, bytes: bytes as u32, hash };
        let lie: Vec<_> = (0..2000).map(piece).collect();
        let found = cut_like(&lie, &content, 0..content.len() as u64, 16);
        let (_, shorter) = found.split_last().unwrap();
        assert!(shorter.iter().all(|piece| (16_384..=262_144).contains(&piece.bytes)), "{bytes}");
    }
}

#[test]
fn a_hash_depends_on_key_length_and_content() {
    let hash = |secret: u8, content: &[u8]| Key::new(&[secret; 32]).hash(content);
    let all = [
        hash(1, b""),
        hash(1, &[0]),
        hash(1, &[0; 16]),
        hash(1, &[0; 17]),
        hash(1, &[1]),
        hash(2, &[0]),
        hash(2, b""),
    ];
    let distinct: std::collections::BTreeSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len());
    assert_eq!(hash(1, &[0; 17]), all[3]);
}
