//! Lies of daemons in their acceptance, and of clients that may have a target's extra files deleted.

use super::lies::{Fate, Lie, announcement, directory, file, finished, pack, path, symlink};
use sealane_copy::Level;
use sealane_copy::proto::entry::{Entry, listed_hash, path_hash};
use sealane_copy::proto::message::{Accept, Message, Numbered};
use sealane_copy::proto::record::Kind;

use Fate::{Harmless, Refused};

/// The last number is nobody's.
const NUMBERED: Numbered = Numbered { name: [7; 8], id: u32::MAX };

/// A lie in a daemon's acceptance: its name, its expected result, and its change to an honest answer.
pub(crate) type Offer = (&'static str, Fate, fn(&mut Accept));

/// Answers that no honest daemon gives.
pub(crate) const OFFERS: &[Offer] = &[
    ("a lower level", Refused, |accept| accept.level = Level::Clear),
    ("another suite", Refused, |accept| accept.suite = accept.suite.wrapping_add(1)),
    ("a suite that there is not", Refused, |accept| accept.suite = 250),
    ("no stream", Refused, |accept| accept.streams = 0),
    ("more streams than were asked for", Refused, |accept| accept.streams = u16::MAX),
    ("lanes without number", Harmless, |accept| accept.lanes = u16::MAX),
    ("no lane", Harmless, |accept| accept.lanes = 0),
    ("no port", Harmless, |accept| accept.data_port = 0),
    ("somebody else's port", Harmless, |accept| accept.data_port = 1),
    ("a name that climbs", Harmless, |accept| accept.name = Some(b"../escaped.lie".to_vec())),
    ("an empty name", Harmless, |accept| accept.name = Some(Vec::new())),
    ("a name with a NUL", Harmless, |accept| accept.name = Some(b"a\0b".to_vec())),
    ("a name that a terminal obeys", Harmless, |accept| accept.name = Some(b"\x1b[2J".repeat(1000))),
    ("no owners", Harmless, |accept| accept.may_own = false),
    ("attributes that nobody asked for", Harmless, |accept| accept.may_set_privileges = true),
    ("a number for many names", Harmless, |accept| accept.numbers.users = vec![NUMBERED; 8192]),
    ("more users than can be kept in memory", Refused, |accept| accept.numbers.users = vec![NUMBERED; 8193]),
    ("more groups than can be kept in memory", Refused, |accept| {
        accept.numbers.groups = vec![NUMBERED; 50_000]
    }),
];

fn known(paths: &[&str], listed: &[&str]) -> Message {
    let paths = paths.iter().map(|text| path_hash(&path(text)));
    Message::Known(paths.chain(listed.iter().map(|text| listed_hash(text.as_bytes()))).collect())
}

fn send(line: &mut super::Line, entries: &[(Entry, &[u8])]) {
    line.send(Kind::Pack, 0, 0, &pack(entries));
}

/// Lies of a client that may delete everything in the target that its source, `asked`, does not have. The target has
/// `asked` with a file `keep`, a folder `full` and a link `out` that leads outside the served folder, and
/// `beside.true` beside it.
pub(crate) const OF_MIRRORS: &[Lie] = &[
    ("all of the target is listed", Harmless, |liar, _| {
        liar.tell(&known(&[], &["", ".", "..", "/", "asked/..", "../outside"]));
        liar.tell(&finished(0));
    }),
    ("what a link leads to is listed", Harmless, |liar, _| {
        liar.tell(&known(&["asked", "asked/out"], &["asked", "asked/out", "asked/out/secret"]));
        liar.tell(&finished(0));
    }),
    ("more names than can be kept in memory", Harmless, |liar, _| {
        for number in 0..300_u32 {
            let mut hash = [7; 16];
            hash[..4].copy_from_slice(&number.to_le_bytes());
            liar.tell(&Message::Known(vec![hash; 16 << 10]));
        }
        liar.tell(&known(&["asked"], &["asked"]));
        liar.tell(&finished(0));
    }),
    ("names after the end", Harmless, |liar, _| {
        liar.tell(&finished(0));
        for _ in 0..1000 {
            liar.tell(&known(&["asked"], &["asked"]));
        }
    }),
    ("a folder for a link that leads out, and files in it", Harmless, |liar, line| {
        send(
            line,
            &[
                (file("asked/out/secret", 4), b"true"),
                (directory("asked/out"), b""),
                (symlink("asked/out/link", b"../../../../outside"), b""),
                (file("asked/out/link/escaped.lie", 4), b"true"),
            ],
        );
        liar.tell(&known(&["asked", "asked/out"], &["asked"]));
        liar.tell(&finished(4));
    }),
    ("a link for a folder, and files in what it leads to", Harmless, |liar, line| {
        send(
            line,
            &[
                (symlink("asked/full", b"../../../outside"), b""),
                (file("asked/full/escaped.lie", 4), b"true"),
                (symlink("asked/full", b"../../../outside"), b""),
            ],
        );
        liar.tell(&known(&["asked", "asked/full"], &["asked", "asked/full"]));
        liar.tell(&finished(4));
    }),
    ("one name for a folder, a link and a file, again and again", Harmless, |liar, line| {
        for _ in 0..50 {
            send(
                line,
                &[
                    (directory("asked/keep"), b""),
                    (file("asked/keep/a.true", 4), b"true"),
                    (symlink("asked/keep", b"out"), b""),
                    (file("asked/keep", 4), b"true"),
                    (directory("asked/keep/a.true"), b""),
                    (file("asked/keep/a.true/b.lie", 4), b"true"),
                ],
            );
        }
        line.say(Kind::Open, 1, 0, &announcement("asked/keep/large.lie", 1 << 20));
        liar.tell(&known(&["asked", "asked/keep"], &["asked"]));
    }),
    ("a folder with the name of an unfinished file", Harmless, |liar, line| {
        send(
            line,
            &[
                (directory("asked/.sealane-0123456789abcdef.part"), b""),
                (file("asked/.sealane-0123456789abcdef.part/a.lie", 4), b"true"),
                (file("asked/keep/.sealane-0123456789abcdef.part/a.lie", 4), b"true"),
            ],
        );
        liar.tell(&finished(8));
    }),
    ("something for the folder that holds all", Harmless, |liar, line| {
        send(line, &[(file("asked", 4), b"true")]);
        liar.tell(&known(&["asked"], &["asked"]));
        liar.tell(&finished(4));
    }),
];
