//! Packs of small entries: every entry stays within its bounds, every content has the announced size and place, and a
//! pack that is written again has the same contents.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_copy::proto::entry::{Entry, Malformed, Pack};
use sealane_fuzz::{check_entry, decoded, encoded, frugally};

fuzz_target!(|body: &[u8]| {
    // This is an entry by itself, as in an announcement.
    if let Some(entry) = decoded::<Entry>(body) {
        check_entry(&entry);
    }
    let items: Vec<Result<(Entry, &[u8]), Malformed>> = frugally(body.len(), || Pack::new(body).collect());
    let mut again = Vec::new();
    let mut entries = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let Ok((entry, content)) = item else {
            assert_eq!(index + 1, items.len(), "nothing follows what is malformed");
            break;
        };
        check_entry(entry);
        assert_eq!(content.len() as u64, entry.content_bytes());
        again.extend(encoded(entry, body.len()));
        again.extend_from_slice(content);
        entries.push((entry, *content));
    }
    assert!(again.len() <= body.len());
    let reread: Vec<_> = Pack::new(&again).collect();
    assert_eq!(reread.len(), entries.len());
    for (reread, (entry, content)) in reread.iter().zip(entries) {
        let (entry_again, content_again) = reread.as_ref().expect("what was written is well formed");
        assert_eq!((entry_again, *content_again), (entry, content));
        assert_eq!(entry_again.identity(), entry.identity());
    }
});
