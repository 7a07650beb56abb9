//! The lies: each is one thing that no honest peer sends, with its expected result.
//!
//! No file named `*.lie` may ever appear under that name, and files named `*.true` only with the content [`TRUTH`].

use super::{Liar, Line, hello};
use sealane_copy::proto::compression::Compressor;
use sealane_copy::proto::entry::{Announcement, Closing, Entry, encode, path_hash};
use sealane_copy::proto::message::{
    Complete, Finished, FolderDigest, Have, Held, List, MasterSecret, Message, Numbered, Partial, Piece,
    Request,
};
use sealane_copy::proto::record::{DATA_BYTES_MAX, HEADER_BYTES, Kind};
use sealane_copy::{
    Backup, Change, ChangeKind, Deletion, Differences, Dropped, Following, Level, Ownership, Pattern,
};
use sealane_tree::{Kind as EntryKind, LinkTarget, Metadata, RelativePath, Special, Timestamp, Xattr};
use std::time::Duration;

/// The content of all files named `*.true`.
pub(crate) const TRUTH: &[u8] = b"true";

/// The expected result of a lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The honest end gives up and reports it.
    Refused,
    /// The lie does no harm; nothing else is required.
    Harmless,
    /// The transfer completes: the message was not a lie, only unusual.
    Believed,
}
use Fate::{Believed, Harmless, Refused};

/// A lie of an end that has joined: its name, its expected result, and the function that tells it.
pub(crate) type Lie = (&'static str, Fate, fn(&mut Liar, &mut Line));

pub(crate) fn path(text: &str) -> RelativePath {
    RelativePath::new(text.as_bytes()).expect("it is a path")
}

fn entry(name: &str, kind: EntryKind, size_bytes: u64) -> Entry {
    let modified = Timestamp { seconds: 1_000_000_000, nanoseconds: 0 };
    let metadata = Metadata { mode: 0o644, size_bytes, modified, ..Metadata::default() };
    Entry { path: path(name), kind, metadata, digest: None }
}

pub(crate) fn directory(name: &str) -> Entry {
    entry(name, EntryKind::Directory, 0)
}

pub(crate) fn file(name: &str, size_bytes: u64) -> Entry {
    entry(name, EntryKind::File, size_bytes)
}

pub(crate) fn announcement(name: &str, size_bytes: u64) -> Announcement {
    Announcement { entry: file(name, size_bytes), growing: false }
}

fn whole(size_bytes: u64) -> Closing {
    Closing::Complete { size_bytes, digest: None }
}

fn encoded(entry: &Entry) -> Vec<u8> {
    let mut bytes = vec![0; 32 << 10];
    let length = encode(entry, &mut bytes).expect("it fits");
    bytes.truncate(length);
    bytes
}

pub(crate) fn pack(entries: &[(Entry, &[u8])]) -> Vec<u8> {
    entries.iter().flat_map(|(entry, content)| [encoded(entry), content.to_vec()].concat()).collect()
}

/// Returns an entry with a path, or another name of it, that an honest end cannot even encode.
fn misnamed(name: &[u8]) -> Vec<u8> {
    let stand_in = vec![b'#'; name.len()];
    let mut bytes = encoded(&file(std::str::from_utf8(&stand_in).expect("ASCII"), TRUTH.len() as u64));
    let at = bytes.windows(name.len()).position(|window| window == stand_in).expect("the name is there");
    bytes[at..at + name.len()].copy_from_slice(name);
    bytes.extend_from_slice(TRUTH);
    bytes
}

fn compressed(body: &[u8]) -> Vec<u8> {
    let mut room = vec![0; body.len() + 100];
    let length = Compressor::new().expect("memory").compress(1, body, &mut room).expect("it fits");
    room.truncate(length);
    room
}

pub(crate) fn symlink(name: &str, to: &[u8]) -> Entry {
    let target = LinkTarget::new(to.to_vec()).expect("it is a target");
    entry(name, EntryKind::Symlink { target }, 0)
}

pub(crate) fn finished(bytes: u64) -> Message {
    Message::Finished(Finished {
        bytes,
        files: bytes,
        resent_bytes: bytes,
        skipped: bytes,
        failed: bytes,
        unfit: bytes,
        resumed_bytes: bytes,
        spared_bytes: bytes,
        matched_bytes: bytes,
        active_us: bytes,
        cpu_us: bytes,
    })
}

pub(crate) fn complete(bytes: u64) -> Message {
    let dropped = Dropped { owners: bytes, privileges: bytes, xattrs: bytes, capabilities: bytes };
    Message::Complete(Complete {
        bytes,
        files: bytes,
        unchanged: bytes,
        failed: bytes,
        deleted: bytes,
        undeleted: bytes,
        dropped,
        active_us: bytes,
        cpu_us: bytes,
    })
}

pub(crate) fn change(path: &[u8]) -> Change {
    let differences = Differences {
        is_new: true,
        gives_way: true,
        target: true,
        size: true,
        time: true,
        mode: true,
        owner: true,
        group: true,
        xattrs: true,
    };
    Change { path: path.repeat(1000), kind: ChangeKind::File, differences }
}

/// Lies of an end that was asked for a pattern, `asked*`, or for a list with the names `asked/a` and `asked1`.
pub(crate) const OF_SELECTORS: &[Lie] = &[
    ("what does not fit the pattern", Refused, |_, line| {
        line.send(Kind::Pack, 0, 0, &pack(&[(file("other.lie", 4), TRUTH)]));
    }),
    ("a hidden name", Refused, |_, line| {
        line.send(Kind::Pack, 0, 0, &pack(&[(file(".asked.lie", 4), TRUTH)]));
    }),
    ("a path that climbs out of the pattern", Refused, |_, line| {
        line.send(Kind::Pack, 0, 0, &misnamed(b"../asked.lie"));
    }),
    ("an absolute path that fits a pattern", Refused, |_, line| {
        line.send(Kind::Pack, 0, 0, &misnamed(b"/tmp/escaped.lie"));
    }),
    ("what is in a folder that was not descended into", Refused, |_, line| {
        line.send(Kind::Pack, 0, 0, &pack(&[(file("asked1/b.lie", 4), TRUTH)]));
    }),
    ("a folder beside", Refused, |_, line| {
        line.send(Kind::Pack, 0, 0, &pack(&[(entry("beside.lie", EntryKind::Directory, 0), b"")]));
    }),
    ("a file where a folder was to be", Refused, |_, line| {
        line.send(Kind::Pack, 0, 0, &pack(&[(file("asked/b.lie", 4), TRUTH)]));
    }),
];

/// Lies of an end that sends.
pub(crate) const OF_SENDERS: &[Lie] = &[
    ("a small file that was not asked for", Refused, |_, line| {
        line.send(Kind::Pack, 0, 0, &pack(&[(file(".bashrc_.lie", 4), TRUTH)]));
    }),
    ("a large file that was not asked for", Refused, |_, line| {
        line.say(Kind::Open, 1, 0, &announcement(".bashrc_.lie", 1000));
    }),
    ("a hard link to what was not asked for", Refused, |_, line| {
        let to = EntryKind::HardLink { to: path("given") };
        line.send(Kind::Pack, 0, 0, &pack(&[(entry("asked/a.lie", to, 0), b"")]));
    }),
    ("a device that nobody asked for", Refused, |_, line| {
        let device = EntryKind::Special(Special::BlockDevice { major: 8, minor: 0 });
        line.send(Kind::Pack, 0, 0, &pack(&[(entry("asked/device.lie", device, 0), b"")]));
    }),
    ("a pipe announced as a large file", Refused, |_, line| {
        let entry = entry("asked/a.lie", EntryKind::Special(Special::Pipe), 1 << 20);
        line.say(Kind::Open, 1, 0, &Announcement { entry, growing: true });
    }),
    ("capabilities that nobody asked for", Harmless, |liar, line| {
        let mut program = file("asked/program", 4);
        program.metadata.xattrs = ["security.capability", "trusted.overlay.opaque"]
            .map(|name| Xattr { name: name.into(), value: vec![1; 20] })
            .into();
        line.send(Kind::Pack, 0, 0, &pack(&[(program, TRUTH)]));
        liar.tell(&finished(4));
    }),
    ("data of a file that was never announced", Refused, |_, line| {
        line.send(Kind::Data, 7, 0, TRUTH);
    }),
    ("a hole in a file that was never announced", Refused, |_, line| {
        line.say(Kind::Hole, 7, 0, &9u64);
    }),
    ("a range kept of a file that was never announced", Refused, |_, line| {
        line.say(Kind::Kept, 7, 0, &9u64);
    }),
    ("a range kept that nobody claims to have", Refused, |_, line| {
        line.say(Kind::Open, 1, 0, &announcement("asked/a.lie", 1000));
        line.say(Kind::Kept, 1, 0, &1000u64);
    }),
    ("a range kept that is as large as there is", Refused, |_, line| {
        line.say(Kind::Open, 1, 0, &announcement("asked/a.lie", 1000));
        line.say(Kind::Kept, 1, 5, &u64::MAX);
    }),
    ("a compressed pack, although nobody agreed to compress", Refused, |_, line| {
        line.send(Kind::CompressedPack, 0, 0, &compressed(&pack(&[(file("asked/a.lie", 4), TRUTH)])));
    }),
    ("compressed data, although nobody agreed to compress", Refused, |_, line| {
        line.say(Kind::Open, 1, 0, &announcement("asked/a.lie", 1000));
        line.send(Kind::CompressedData, 1, 0, &compressed(&[7; 1000]));
    }),
    ("a closing before the opening", Refused, |_, line| {
        line.say(Kind::Close, 7, 0, &whole(0));
    }),
    ("a number as large as there is", Refused, |_, line| {
        line.send(Kind::Data, u32::MAX, u64::MAX, TRUTH);
    }),
    ("a folder announced as a file", Refused, |_, line| {
        let entry = entry("asked/a.lie", EntryKind::Directory, 0);
        line.say(Kind::Open, 1, 0, &Announcement { entry, growing: false });
    }),
    ("a link announced as a file", Refused, |_, line| {
        let entry = symlink("asked/a.lie", b"../../outside");
        line.say(Kind::Open, 1, 0, &Announcement { entry, growing: false });
    }),
    ("one number for two files", Refused, |_, line| {
        line.say(Kind::Open, 1, 0, &announcement("asked/a.lie", 1000));
        line.say(Kind::Open, 1, 0, &announcement("asked/b.lie", 2000));
    }),
    ("a file announced twice with two sizes", Refused, |_, line| {
        line.say(Kind::Open, 1, 0, &announcement("asked/a.lie", 1000));
        line.say(Kind::Open, 1, 0, &announcement("asked/a.lie", 2000));
    }),
    ("a file as large as there is", Harmless, |liar, line| {
        line.say(Kind::Open, 1, 0, &announcement("asked/a.lie", u64::MAX));
        line.send(Kind::Data, 1, u64::MAX - 2, TRUTH);
        liar.tell(&finished(0));
    }),
    ("a file of exabytes that is one hole", Harmless, |liar, line| {
        line.say(Kind::Open, 1, 0, &announcement("asked/a.lie", 1 << 62));
        line.say(Kind::Hole, 1, 0, &(1u64 << 62));
        line.say(Kind::Close, 1, 0, &whole((1 << 62) + 1));
        liar.tell(&finished(0));
    }),
    ("data beyond the end of its file", Harmless, |liar, line| {
        line.say(Kind::Open, 1, 0, &announcement("asked/a.lie", 3));
        line.send(Kind::Data, 1, 0, TRUTH);
        std::thread::sleep(Duration::from_millis(300));
        liar.tell(&finished(3));
    }),
    ("data at an offset as large as there is", Refused, |_, line| {
        line.say(Kind::Open, 1, 0, &announcement("asked/a.lie", 1000));
        line.send(Kind::Data, 1, u64::MAX, TRUTH);
    }),
    ("a hole beyond the end of its file", Refused, |_, line| {
        line.say(Kind::Open, 1, 0, &announcement("asked/a.lie", 1000));
        line.say(Kind::Hole, 1, 500, &501u64);
    }),
    ("a hole as large as there is", Refused, |_, line| {
        line.say(Kind::Open, 1, 0, &announcement("asked/a.lie", 1000));
        line.say(Kind::Hole, 1, 1, &u64::MAX);
    }),
    ("a hole without a length", Refused, |_, line| {
        line.say(Kind::Open, 1, 0, &announcement("asked/a.lie", 1000));
        line.send(Kind::Hole, 1, 0, b"");
    }),
    ("the same range with two contents", Harmless, |liar, line| {
        line.say(Kind::Open, 1, 0, &announcement("asked/a.lie", 8));
        line.send(Kind::Data, 1, 0, b"fals");
        line.send(Kind::Data, 1, 0, TRUTH);
        liar.tell(&finished(8));
    }),
    ("a closing that names another size", Harmless, |liar, line| {
        line.say(Kind::Open, 1, 0, &announcement("asked/a.lie", 8));
        line.send(Kind::Data, 1, 0, b"truetrue");
        line.say(Kind::Close, 1, 0, &whole(9));
        liar.tell(&finished(8));
    }),
    ("a closing before the data, and no data", Refused, |liar, line| {
        line.say(Kind::Open, 1, 0, &announcement("asked/a.lie", 8));
        line.say(Kind::Close, 1, 0, &whole(8));
        std::thread::sleep(Duration::from_millis(300));
        liar.tell(&finished(8));
    }),
    ("a closing of garbage", Refused, |_, line| {
        line.say(Kind::Open, 1, 0, &announcement("asked/a.lie", 8));
        line.send(Kind::Close, 1, 0, &[0xff; 40]);
    }),
    ("a closing and then more data", Harmless, |liar, line| {
        line.say(Kind::Open, 1, 0, &announcement("asked/a.true", 4));
        line.send(Kind::Data, 1, 0, TRUTH);
        line.say(Kind::Close, 1, 0, &whole(4));
        line.send(Kind::Data, 1, 0, b"fals");
        line.say(Kind::Close, 1, 0, &whole(4));
        liar.tell(&finished(4));
    }),
    ("an abandoned file that goes on", Harmless, |liar, line| {
        line.say(Kind::Open, 1, 0, &announcement("asked/a.lie", 8));
        line.say(Kind::Close, 1, 0, &Closing::Abandoned { reason: "\x1b[2Jno".repeat(1000) });
        line.send(Kind::Data, 1, 0, b"truetrue");
        line.say(Kind::Close, 1, 0, &whole(8));
        liar.tell(&finished(8));
    }),
    ("an end with a file unfinished", Refused, |liar, line| {
        line.say(Kind::Open, 1, 0, &announcement("asked/a.lie", 1000));
        line.send(Kind::Data, 1, 0, TRUTH);
        std::thread::sleep(Duration::from_millis(300));
        liar.tell(&finished(1000));
    }),
    ("an end of impossible numbers", Harmless, |liar, _| liar.tell(&finished(u64::MAX))),
    ("more files open than anybody needs", Harmless, |_, line| {
        for number in 0..20_000 {
            line.say(Kind::Open, number, 0, &announcement(&format!("asked/{number}.lie"), 1000));
        }
    }),
    ("a pack of garbage", Refused, |_, line| line.send(Kind::Pack, 0, 0, &[0xff; 4096])),
    ("a pack whose content is missing", Refused, |_, line| {
        line.send(Kind::Pack, 0, 0, &encoded(&file("asked/a.lie", 1000)));
    }),
    ("a pack with a file of exabytes", Refused, |_, line| {
        line.send(Kind::Pack, 0, 0, &encoded(&file("asked/a.lie", u64::MAX)));
    }),
    ("a name that climbs", Refused, |_, line| line.send(Kind::Pack, 0, 0, &misnamed(b"../escaped.lie"))),
    ("a name that climbs midway", Refused, |_, line| {
        line.send(Kind::Pack, 0, 0, &misnamed(b"asked/../../a.lie"));
    }),
    ("an absolute name", Refused, |_, line| line.send(Kind::Pack, 0, 0, &misnamed(b"/tmp/escaped.lie"))),
    ("a name with a NUL", Refused, |_, line| line.send(Kind::Pack, 0, 0, &misnamed(b"asked/a.lie\0b"))),
    ("a name that is a dot", Refused, |_, line| line.send(Kind::Pack, 0, 0, &misnamed(b"."))),
    ("a name that ends in a slash", Refused, |_, line| line.send(Kind::Pack, 0, 0, &misnamed(b"asked/"))),
    ("a file behind a link that leads out", Harmless, |liar, line| {
        let body = pack(&[
            (symlink("asked/link", b"../../../outside"), b""),
            (file("asked/link/escaped.lie", 4), TRUTH),
        ]);
        line.send(Kind::Pack, 0, 0, &body);
        line.say(Kind::Open, 1, 0, &announcement("asked/link/large.lie", 1 << 20));
        line.send(Kind::Data, 1, 0, TRUTH);
        liar.tell(&finished(4));
    }),
    ("a link in place of the folder that is written", Harmless, |liar, line| {
        line.say(Kind::Open, 1, 0, &announcement("asked/sub/a.lie", 1 << 20));
        let body = pack(&[(symlink("asked/sub", b"../../../outside"), b"")]);
        line.send(Kind::Pack, 0, 0, &body);
        line.send(Kind::Data, 1, 0, TRUTH);
        liar.tell(&finished(4));
    }),
    ("a hard link to what is outside", Harmless, |liar, line| {
        let body = pack(&[
            (symlink("asked/out", b"../../../outside"), b""),
            (entry("asked/same.lie", EntryKind::HardLink { to: path("asked/out/secret") }, 0), b""),
        ]);
        line.send(Kind::Pack, 0, 0, &body);
        liar.tell(&finished(0));
    }),
    ("a hard link to itself", Harmless, |liar, line| {
        let body = pack(&[(entry("asked/a.lie", EntryKind::HardLink { to: path("asked/a.lie") }, 0), b"")]);
        line.send(Kind::Pack, 0, 0, &body);
        liar.tell(&finished(0));
    }),
    ("a file where a folder is, a folder where a file is", Harmless, |liar, line| {
        let body = pack(&[
            (entry("asked/x", EntryKind::Directory, 0), b""),
            (file("asked/x", 4), TRUTH),
            (file("asked/y", 4), TRUTH),
            (entry("asked/y", EntryKind::Directory, 0), b""),
            (file("asked/y/a.true", 4), TRUTH),
        ]);
        line.send(Kind::Pack, 0, 0, &body);
        liar.tell(&finished(0));
    }),
    ("an acknowledgement instead of data", Refused, |_, line| {
        line.send(Kind::Acknowledge, 0, 9, b"");
    }),
    ("a record of a kind that is none", Refused, |_, line| {
        let mut record = line.seal(Kind::Data, 1, 0, TRUTH);
        record[0] = 99;
        line.raw(&record);
    }),
    ("a record that is too long", Refused, |_, line| {
        let mut record = line.seal(Kind::Data, 1, 0, TRUTH);
        record[1..4].fill(0xff);
        line.raw(&record);
    }),
    ("a record that was sealed for another place", Refused, |_, line| {
        let first = line.seal(Kind::Pack, 0, 0, &pack(&[(file("asked/a.lie", 4), TRUTH)]));
        let second = line.seal(Kind::Pack, 0, 0, &pack(&[(file("asked/b.lie", 4), TRUTH)]));
        line.raw(&second);
        line.raw(&first);
    }),
    ("a record with another file in its header", Refused, |_, line| {
        line.say(Kind::Open, 1, 0, &announcement("asked/a.lie", 4));
        let mut record = line.seal(Kind::Data, 2, 0, TRUTH);
        record[4] = 1;
        line.raw(&record);
    }),
    ("half a record and then nothing", Harmless, |_, line| {
        let record = line.seal(Kind::Data, 1, 0, &[0; DATA_BYTES_MAX]);
        line.raw(&record[..HEADER_BYTES + 100]);
    }),
    ("a receiver's last word", Refused, |liar, _| liar.tell(&complete(0))),
    ("what a receiver has, told by the sender", Refused, |liar, _| {
        liar.tell(&Message::Have(Have::default()))
    }),
    ("names that nobody asked for", Refused, |liar, _| liar.tell(&Message::Known(vec![[7; 16]; 1000]))),
    ("a deletion, told by the sender", Refused, |liar, _| {
        liar.tell(&Message::Deleted { path: b"asked/a".to_vec() })
    }),
    ("what it would send, when nobody asked for a dry run", Refused, |liar, _| {
        liar.tell(&Message::WouldSend(Box::new(file("asked/a.lie", 4))));
    }),
    ("attributes of what was not asked for", Refused, |_, line| {
        line.send(Kind::Pack, 0, 0, &pack(&[(entry("given", EntryKind::Attributes, 3_000_000), b"")]));
    }),
    ("attributes of what is behind a link, and of nothing", Harmless, |liar, line| {
        let body = pack(&[
            (symlink("asked/out", b"../../../outside"), b""),
            (entry("asked/out/secret", EntryKind::Attributes, 6), b""),
            (entry("asked/out", EntryKind::Attributes, 0), b""),
            (entry("asked/nothing", EntryKind::Attributes, u64::MAX), b""),
        ]);
        line.send(Kind::Pack, 0, 0, &body);
        liar.tell(&finished(0));
    }),
    ("attributes announced as a large file", Refused, |_, line| {
        let entry = entry("asked/a.lie", EntryKind::Attributes, 1 << 20);
        line.say(Kind::Open, 1, 0, &Announcement { entry, growing: false });
    }),
    ("a second greeting", Refused, |liar, _| liar.tell(&hello())),
    ("a second request", Refused, |liar, _| {
        let again = Message::Request(Box::new(liar.request.clone()));
        liar.tell(&again);
    }),
    ("entries removed before the end", Refused, |liar, _| {
        liar.tell(&Message::Removed { removed: 1, unremoved: u64::MAX })
    }),
    ("a message of garbage", Refused, |liar, _| {
        let _ = liar.channel.send(&[0xff; 1000], super::soon());
    }),
    ("an empty message", Refused, |liar, _| {
        let _ = liar.channel.send(&[], super::soon());
    }),
    ("ever more found than there can be", Harmless, |liar, _| {
        for _ in 0..2000 {
            liar.tell(&Message::Found { bytes: u64::MAX, files: u64::MAX, complete: true });
        }
        liar.tell(&finished(0));
    }),
    ("failures by the thousand, with names that a terminal obeys", Harmless, |liar, _| {
        for _ in 0..2000 {
            let (path, reason) = (b"\x1b[2J\r\n".repeat(100), "\x1b]0;x\x07\n".repeat(100));
            liar.tell(&Message::EntryFailed { path, reason });
        }
        liar.tell(&finished(0));
    }),
];

/// Lies of an end that receives.
pub(crate) const OF_RECEIVERS: &[Lie] = &[
    ("more taken over than was sent", Harmless, |liar, line| {
        line.send(Kind::Acknowledge, 0, u64::MAX, b"");
        liar.tell(&Message::Taken { bytes: u64::MAX, files: u64::MAX });
    }),
    ("a change that nobody asked for", Refused, |liar, _| {
        liar.tell(&Message::Changed(change(b"\x1b[2J")));
    }),
    ("a change that would be, when nobody asked for a dry run", Refused, |liar, _| {
        liar.tell(&Message::WouldChange { change: change(b"asked/a"), bytes: u64::MAX });
    }),
    ("what it would send, told by a receiver", Refused, |liar, _| {
        liar.tell(&Message::WouldSend(Box::new(file("asked/a.lie", 4))));
    }),
    ("a deletion that nobody asked for", Refused, |liar, _| {
        liar.tell(&Message::Deleted { path: b"\x1b[2J".repeat(1000) });
    }),
    ("names of what it does not send", Refused, |liar, _| liar.tell(&Message::Known(vec![[7; 16]]))),
    ("less and less taken over", Harmless, |_, line| {
        line.read();
        for taken in (0..100).rev() {
            line.send(Kind::Acknowledge, 0, taken, b"");
        }
    }),
    ("data instead of an acknowledgement", Refused, |_, line| {
        line.read();
        line.send(Kind::Data, 1, 0, TRUTH);
    }),
    ("an acknowledgement with a body", Refused, |_, line| {
        line.read();
        line.send(Kind::Acknowledge, 0, 1, &[0; 1000]);
    }),
    ("an acknowledgement that is not authentic", Refused, |_, line| {
        line.read();
        let mut record = line.seal(Kind::Acknowledge, 0, 1, b"");
        record[8] ^= 1;
        line.raw(&record);
    }),
    ("an acknowledgement of a kind that is none", Refused, |_, line| {
        line.read();
        line.raw(&[0xff; 100]);
    }),
    ("an account of data inside the channel", Refused, |liar, _| {
        liar.tell(&Message::Carried { opening: 7, bytes: u32::MAX });
    }),
    ("the end before the end", Refused, |liar, _| liar.tell(&complete(u64::MAX))),
    ("a sender's last word", Refused, |liar, _| liar.tell(&finished(0))),
    ("what it has, when nobody asks any more", Refused, |liar, _| liar.tell(&Message::HaveEnd)),
    ("a message of garbage", Refused, |liar, _| {
        let _ = liar.channel.send(&[0xff; 1000], super::soon());
    }),
];

/// A server that sends may lose a stream between its last message and the receiver's.
pub(crate) const LOST_LATE: Lie = ("a stream that is lost after the end", Believed, |liar, _| {
    liar.tell(&finished(0));
    liar.tell(&Message::StreamLost { stream: 0, generation: 1, narrowed: 0 });
});

/// A receiver's claim about the data that it has.
pub(crate) type Claim = (&'static str, Fate, fn(&mut Liar));

fn pieces(ranges: &[(u64, u64)]) -> Vec<Piece> {
    ranges.iter().map(|&(start, end)| Piece { start, end, hash: Some([7; 32]) }).collect()
}

fn partial(ranges: &[(u64, u64)]) -> Message {
    let partial = Partial { identity: [7; 16], pieces: pieces(ranges) };
    Message::Have(Have { partial: vec![partial], ..Have::default() })
}

fn folders(count: usize, digest: u8) -> Message {
    Message::Folders(vec![FolderDigest { path: [7; 16], digest: [digest; 16] }; count])
}

/// Tells of one folder, which the sender has as well, in another state.
fn differing(liar: &mut Liar) {
    liar.tell(&folders(0, 0));
    let folder = FolderDigest { path: path_hash(&path("asked")), digest: [9; 16] };
    liar.tell(&Message::Folders(vec![folder]));
    liar.tell(&Message::FoldersEnd);
}

/// Returns a list of files that there are not.
fn list(folder: u32) -> List {
    let held = |number| Held { identity: [number; 16], attributes: [number; 8] };
    List { folder, done: (0..100).map(held).collect(), ..List::default() }
}

/// Lies of a sender about the folders that differ: the receiver has two.
pub(crate) const ANSWERS: &[Claim] = &[
    ("a folder that was never told", Refused, |liar| liar.tell(&Message::Differ(vec![2]))),
    ("a folder of the greatest number", Refused, |liar| liar.tell(&Message::Differ(vec![u32::MAX]))),
    ("a folder twice", Refused, |liar| {
        liar.tell(&Message::Differ(vec![0]));
        liar.tell(&Message::Differ(vec![0]));
    }),
    ("one folder twice in a message", Refused, |liar| liar.tell(&Message::Differ(vec![1, 0, 1]))),
    ("more folders than may be asked for at once", Refused, |liar| {
        liar.tell(&Message::Differ((0..5000).collect()));
    }),
    ("a folder that is gone, where nothing is deleted", Refused, |liar| liar.tell(&Message::Gone(vec![0]))),
    ("the end of everything instead of an answer", Refused, |liar| liar.tell(&finished(0))),
    ("its own folders instead of an answer", Refused, |liar| liar.tell(&folders(0, 0))),
];

/// Lies about data that the receiver already has.
pub(crate) const CLAIMS: &[Claim] = &[
    ("a range that ends before it starts", Refused, |liar| liar.tell(&partial(&[(65536, 3)]))),
    ("an empty range", Refused, |liar| liar.tell(&partial(&[(0, 0)]))),
    ("ranges out of order", Refused, |liar| liar.tell(&partial(&[(65536, 131_072), (0, 5)]))),
    ("ranges that overlap", Refused, |liar| liar.tell(&partial(&[(0, 65537), (65536, 131_072)]))),
    ("a range of everything there could be", Refused, |liar| liar.tell(&partial(&[(0, u64::MAX)]))),
    ("a range within a group", Refused, |liar| liar.tell(&partial(&[(5, 65536)]))),
    ("a range beyond the end of any file", Harmless, |liar| {
        liar.tell(&partial(&[(1 << 62, (1 << 62) + 9)]));
        liar.tell(&Message::HaveEnd);
    }),
    ("a file that is both done and begun", Harmless, |liar| {
        let held = Held { identity: [7; 16], attributes: [0xff; 8] };
        let partial = vec![Partial { identity: [7; 16], pieces: pieces(&[(0, 1 << 16)]) }];
        liar.tell(&Message::Have(Have { done: vec![held; 100], partial, ..Have::default() }));
        liar.tell(&Message::HaveEnd);
    }),
    ("the same file begun twice, differently", Harmless, |liar| {
        liar.tell(&partial(&[(0, 1 << 16)]));
        liar.tell(&partial(&[(1 << 16, 1 << 20)]));
        liar.tell(&Message::HaveEnd);
    }),
    ("folders that do not begin with none", Refused, |liar| liar.tell(&folders(1, 0))),
    ("the end of folders that did not begin", Refused, |liar| liar.tell(&Message::FoldersEnd)),
    ("claims amid folders and lists, and no end", Refused, |liar| {
        differing(liar);
        let held = Held { identity: [7; 16], attributes: [0xff; 8] };
        liar.tell(&Message::Have(Have { done: vec![held; 100], ..Have::default() }));
        liar.tell(&Message::HaveEnd);
    }),
    ("files of a folder before it is asked for", Refused, |liar| {
        liar.tell(&folders(0, 0));
        liar.tell(&Message::Lists(std::iter::once(list(0)).collect()));
    }),
    ("folders again after their end", Refused, |liar| {
        liar.tell(&folders(0, 0));
        liar.tell(&Message::FoldersEnd);
        liar.tell(&folders(0, 0));
    }),
    ("files of a folder that it was not asked for", Refused, |liar| {
        differing(liar);
        liar.tell(&Message::Lists(std::iter::once(list(1)).collect()));
    }),
    ("files of one folder twice", Refused, |liar| {
        differing(liar);
        liar.tell(&Message::Lists([list(0), list(0)].into_iter().collect()));
    }),
    ("files of a folder that nobody has", Harmless, |liar| {
        differing(liar);
        liar.tell(&Message::Lists(std::iter::once(list(0)).collect()));
    }),
    ("folders amid the files of folders", Refused, |liar| {
        differing(liar);
        liar.tell(&folders(0, 0));
    }),
    ("one folder told many times", Harmless, |liar| {
        liar.tell(&folders(0, 0));
        for number in 0..100 {
            liar.tell(&folders(2048, number));
        }
        liar.tell(&Message::FoldersEnd);
    }),
    ("data instead of what it has", Refused, |liar| liar.tell(&finished(0))),
    ("a request instead of what it has", Refused, |liar| {
        let again = Message::Request(Box::new(liar.request.clone()));
        liar.tell(&again);
    }),
];

/// A request that no honest client makes.
pub(crate) type Demand = (&'static str, Fate, fn(&mut Request));

/// Requests that lie, or ask for something impossible.
pub(crate) const DEMANDS: &[Demand] = &[
    ("no stream", Refused, |request| request.streams = Some(0)),
    ("more users than can be kept in memory", Refused, |request| {
        request.wishes.preserve.owner = Ownership::Kept;
        request.numbers.users = vec![Numbered { name: [7; 8], id: 7 }; 8193];
    }),
    ("more groups than can be kept in memory, for nothing", Refused, |request| {
        request.numbers.groups = vec![Numbered { name: [7; 8], id: 7 }; 50_000];
    }),
    ("more streams than anybody has", Refused, |request| request.streams = Some(u16::MAX)),
    ("more streams in the end than anybody has", Refused, |request| request.streams_max = Some(u16::MAX)),
    ("fewer streams in the end than at first", Refused, |request| request.streams_max = Some(1)),
    ("no lane", Refused, |request| request.lanes = Some(0)),
    ("more lanes than anybody has", Refused, |request| request.lanes = Some(u16::MAX)),
    ("a suite that there is not", Refused, |request| request.suite = 250),
    ("a level beneath what is served", Refused, |request| request.wishes.level = Level::Clear),
    ("no path", Refused, |request| request.paths.clear()),
    ("a path that climbs", Harmless, |request| request.paths = vec![b"../../outside/escaped.lie".to_vec()]),
    ("a path that climbs midway", Harmless, |request| request.paths = vec![b"asked/../../outside".to_vec()]),
    ("an absolute path", Harmless, |request| request.paths = vec![b"/etc/hostname".to_vec()]),
    ("a path with a NUL", Refused, |request| request.paths = vec![b"a\0b".to_vec()]),
    ("an empty path", Harmless, |request| request.paths = vec![Vec::new()]),
    ("a path of 64 KiB", Refused, |request| request.paths = vec![vec![b'a'; 64 << 10]]),
    ("paths by the ten thousand", Refused, |request| request.paths = vec![b"none".to_vec(); 10_000]),
    ("a name that climbs", Harmless, |request| request.name = Some(b"../escaped.lie".to_vec())),
    ("an empty name", Harmless, |request| request.name = Some(Vec::new())),
    ("a name with a NUL", Harmless, |request| request.name = Some(b"a\0b".to_vec())),
    ("no time at all", Harmless, |request| request.wishes.timeout = Duration::ZERO),
    ("all the time there is", Harmless, |request| request.wishes.timeout = Duration::MAX),
    ("no rate", Harmless, |request| request.wishes.limit_rate = Some(0)),
    ("ports the wrong way round", Harmless, |request| request.wishes.data_ports = Some((9, 1))),
    ("a pattern that is none", Harmless, |request| {
        request.wishes.patterns = vec![Pattern::Exclude("[".into()), Pattern::Include("{a,{b".into())];
    }),
    ("patterns by the thousand", Harmless, |request| {
        request.wishes.patterns = vec![Pattern::Exclude("{a,b,c}*{d,e,f}*{g,h}".into()); 2000];
    }),
    ("a backup that climbs", Refused, |request| {
        request.wishes.upkeep.backup = Some(Backup { suffix: b"/../escaped.lie".to_vec(), folder: None });
    }),
    ("a backup of the same name", Refused, |request| {
        request.wishes.upkeep.backup = Some(Backup { suffix: Vec::new(), folder: None });
    }),
    ("a pattern that climbs", Harmless, |request| {
        (request.globs, request.paths) = (true, vec![b"../*".to_vec(), b"*/../../*".to_vec()]);
    }),
    ("patterns that look everywhere", Harmless, |request| {
        (request.globs, request.paths) = (true, vec![b"*/*/*/*/../../*/*".to_vec(); 1000]);
    }),
    ("links to wherever they lead", Harmless, |request| request.wishes.following = Following::Everywhere),
    ("more lists than there may be", Refused, |request| request.listed = Some(u16::MAX)),
    ("a list that never comes", Harmless, |request| request.listed = Some(1)),
    ("a list below many sources", Refused, |request| {
        (request.listed, request.paths) = (Some(1), vec![b"given".to_vec(); 2]);
    }),
    ("to be relayed without a secret", Refused, |request| request.relayed = true),
    ("to be relayed by a secret that nobody else has", Harmless, |request| {
        (request.relayed, request.secret) = (true, Some(MasterSecret::new([0; 32])));
    }),
    ("to remove what links lead to", Refused, |request| {
        request.wishes.following = Following::Roots;
        request.wishes.upkeep.remove_sources = true;
    }),
    ("to delete without the right to", Harmless, |request| {
        request.wishes.upkeep.delete = Some(Deletion { entries_max: Some(u64::MAX), excluded: true });
        request.wishes.upkeep.remove_sources = true;
    }),
    ("to make devices and give capabilities without the right to", Harmless, |request| {
        request.wishes.preserve.specials = true;
        request.wishes.preserve.privileges = true;
    }),
    ("to delete without folders", Harmless, |request| {
        request.wishes.recursive = false;
        request.wishes.upkeep.delete = Some(Deletion::default());
    }),
    ("to compare contents, and tell all", Harmless, |request| {
        request.wishes.upkeep.checksum = true;
        request.wishes.upkeep.itemise = true;
    }),
    ("a secret where there is no need of one", Harmless, |request| {
        request.secret = Some(MasterSecret::new([0; 32]))
    }),
];
