//! Announcements of large files stay within their bounds, and are the same after being written again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_copy::proto::entry::Announcement;
use sealane_fuzz::{check_entry, decoded};

fuzz_target!(|body: &[u8]| {
    if let Some(announcement) = decoded::<Announcement>(body) {
        check_entry(&announcement.entry);
    }
});
