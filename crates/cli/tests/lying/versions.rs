//! Lies about versions of files: of senders that ask for signatures and copy ranges, and of receivers that sign.

use super::lies::{Fate, Lie, TRUTH, announcement, finished, path};
use super::{Liar, Line, hear};
use sealane_copy::proto::entry::{Closing, Copied, path_hash};
use sealane_copy::proto::message::{
    Cut, Have, Message, PIECES_SIGNED_MAX, SPAN_BYTES_MAX, Sign, Span, VERSIONS_MAX, VersionHeld,
};
use sealane_copy::proto::record::Kind;

use Fate::{Harmless, Refused};

/// The length of the version that the target has under `asked/old.bin`.
pub(crate) const OLD_BYTES: u64 = 1_000_000;

fn version(file: u32, name: &str) -> Message {
    Message::Version { file, path: path(name), elsewhere: None }
}

fn span(start: u64, bytes: u64, cut: Cut) -> Span {
    Span { start, bytes, cut }
}

fn sign(file: u32, spans: Vec<Span>) -> Message {
    Message::Sign(Sign { file, number: 7, spans })
}

/// Opens the version of `asked/old.bin` for file 1, and announces that file with this size.
fn open(liar: &mut Liar, line: &mut Line, bytes: u64) {
    liar.tell(&version(1, "asked/old.bin"));
    await_message(liar, |message| {
        matches!(message, Message::VersionSize { file: 1, bytes: Some(OLD_BYTES) })
    });
    line.say(Kind::Open, 1, 0, &announcement("asked/old.bin", bytes));
}

/// Waits for a message of the honest end.
fn await_message(liar: &mut Liar, is_it: impl Fn(&Message) -> bool) {
    while let Some((message, _)) = hear(&mut liar.channel) {
        if is_it(&message) {
            return;
        }
    }
    panic!("the honest end does not answer");
}

fn copy(line: &mut Line, to: u64, from: u64, bytes: u64) {
    line.say(Kind::Copy, 1, to, &Copied { from, bytes });
}

/// Lies of a client that may write and read. The target has `asked/old.bin`, and a link `asked/out` that leads outside.
pub(crate) const OF_COMPARERS: &[Lie] = &[
    ("a version of what was not asked for", Refused, |liar, _| liar.tell(&version(1, "given"))),
    ("a version of what a link leads to", Harmless, |liar, _| {
        liar.tell(&version(1, "asked/out/secret"));
        await_message(liar, |message| matches!(message, Message::VersionSize { file: 1, bytes: None }));
        liar.tell(&finished(0));
    }),
    ("a version of a folder, of a link and of nothing", Harmless, |liar, _| {
        for (file, name) in [(1, "asked"), (2, "asked/out"), (3, "asked/none")] {
            liar.tell(&version(file, name));
            await_message(
                liar,
                |message| matches!(message, Message::VersionSize { file: told, bytes: None } if *told == file),
            );
        }
        liar.tell(&finished(0));
    }),
    ("a version elsewhere that was not told", Refused, |liar, _| {
        let elsewhere = Some(path_hash(&path("asked/old.bin")));
        liar.tell(&Message::Version { file: 1, path: path("asked/new.bin"), elsewhere });
    }),
    ("a version twice", Refused, |liar, _| {
        liar.tell(&version(1, "asked/old.bin"));
        liar.tell(&version(1, "asked/old.bin"));
    }),
    ("more versions than may be open", Refused, |liar, _| {
        (0..=VERSIONS_MAX as u32).for_each(|file| liar.tell(&version(file, "asked/old.bin")));
    }),
    ("a signature of a version that is not open", Harmless, |liar, _| {
        liar.tell(&sign(1, vec![span(0, 1, Cut::Grid)]));
        await_message(liar, |message| matches!(message, Message::Signature { number: 7, pieces: None }));
        liar.tell(&finished(0));
    }),
    ("a signature of nothing", Refused, |liar, line| {
        open(liar, line, 5000);
        liar.tell(&sign(1, vec![span(0, 0, Cut::Grid)]));
    }),
    ("a signature of all there could be", Refused, |liar, line| {
        open(liar, line, 5000);
        liar.tell(&sign(1, vec![span(0, u64::MAX, Cut::Grid)]));
    }),
    ("a signature of what is beyond the version's end", Refused, |liar, line| {
        open(liar, line, 5000);
        liar.tell(&sign(1, vec![span(OLD_BYTES - 10, 11, Cut::Grid)]));
    }),
    ("a signature by a cut that does not exist", Refused, |liar, line| {
        open(liar, line, 5000);
        liar.tell(&sign(1, vec![span(0, 5000, Cut::Content(0))]));
    }),
    ("a signature of more pieces than fit a message", Refused, |liar, line| {
        open(liar, line, 5000);
        liar.tell(&sign(1, vec![span(0, 1, Cut::Grid); PIECES_SIGNED_MAX]));
    }),
    ("one range signed without end", Refused, |liar, line| {
        open(liar, line, 5000);
        // Each is small enough; nobody takes the answers.
        for _ in 0..1000 {
            liar.tell(&sign(1, vec![span(0, OLD_BYTES, Cut::Content(12)); 20]));
        }
    }),
    ("a version of a file that is longer than any that is compared", Refused, |liar, line| {
        // A longer one yet is refused by file systems.
        open(liar, line, 5 << 40);
    }),
    ("a copy of a version that is not open", Refused, |_, line| {
        line.say(Kind::Open, 1, 0, &announcement("asked/a.lie", 5000));
        copy(line, 0, 0, 5000);
    }),
    ("a copy of the version of another file", Refused, |liar, line| {
        liar.tell(&version(1, "asked/old.bin"));
        await_message(liar, |message| matches!(message, Message::VersionSize { .. }));
        line.say(Kind::Open, 1, 0, &announcement("asked/a.lie", 5000));
    }),
    ("a copy of what is beyond the version's end", Refused, |liar, line| {
        open(liar, line, 2 * OLD_BYTES);
        copy(line, 0, 1, OLD_BYTES);
    }),
    ("a copy from as far as there is", Refused, |liar, line| {
        open(liar, line, 5000);
        copy(line, 0, u64::MAX, 5);
    }),
    ("a copy beyond the end of its file", Refused, |liar, line| {
        open(liar, line, 5000);
        copy(line, 4999, 0, 2);
    }),
    ("a copy to as far as there is", Refused, |liar, line| {
        open(liar, line, 5000);
        copy(line, u64::MAX, 0, 2);
    }),
    ("a copy that is longer than any", Refused, |liar, line| {
        open(liar, line, 2 * SPAN_BYTES_MAX);
        copy(line, 0, 0, SPAN_BYTES_MAX + 1);
    }),
    ("a copy of garbage", Refused, |liar, line| {
        open(liar, line, 5000);
        line.send(Kind::Copy, 1, 0, &[0xff; 40]);
    }),
    ("a file that is copied and has another digest", Harmless, |liar, line| {
        open(liar, line, 5000);
        copy(line, 0, 0, 5000);
        line.say(Kind::Close, 1, 0, &Closing::Complete { size_bytes: 5000, digest: Some([7; 32]) });
        await_message(liar, |message| matches!(message, Message::Settled { file: 1, again: true }));
        liar.tell(&finished(0));
    }),
    ("a file that is copied and has no digest", Harmless, |liar, line| {
        open(liar, line, 5000);
        copy(line, 0, 0, 5000);
        line.say(Kind::Close, 1, 0, &Closing::Complete { size_bytes: 5000, digest: None });
        await_message(liar, |message| matches!(message, Message::Settled { file: 1, again: true }));
        liar.tell(&finished(0));
    }),
    ("a file that is copied over what was sent", Harmless, |liar, line| {
        open(liar, line, 8);
        line.send(Kind::Data, 1, 0, TRUTH);
        copy(line, 0, 0, 8);
        copy(line, 0, 8, 8);
        line.send(Kind::Data, 1, 4, TRUTH);
        liar.tell(&finished(8));
    }),
    ("a receiver's answers", Refused, |liar, _| {
        liar.tell(&Message::Settled { file: 1, again: true });
    }),
];

/// Lies of a client that may write and read, and whose files are written over. The target has `asked/old.bin` and `asked/other.bin`,
/// which are alike, and links that lead outside: `asked/out` to a folder, and `asked/secret` to a file.
pub(crate) const OF_OVERWRITERS: &[Lie] = &[
    ("a part that moves within what is written over", Refused, |liar, line| {
        open(liar, line, OLD_BYTES);
        copy(line, 0, 100, 50);
    }),
    ("a part that moves up within what is written over", Refused, |liar, line| {
        open(liar, line, OLD_BYTES);
        copy(line, OLD_BYTES - 50, 0, 50);
    }),
    ("a part behind the end of what is written over", Refused, |liar, line| {
        open(liar, line, 2 * OLD_BYTES);
        copy(line, OLD_BYTES - 10, OLD_BYTES - 10, 20);
    }),
    ("a part behind what was cut off", Refused, |liar, line| {
        open(liar, line, 600_000);
        copy(line, 599_990, 599_990, 20);
    }),
    ("a part of what was cut off", Harmless, |liar, line| {
        open(liar, line, 600_000);
        copy(line, 0, 0, 600_000);
        line.say(Kind::Close, 1, 0, &Closing::Complete { size_bytes: 600_000, digest: Some([7; 32]) });
        await_message(liar, |message| matches!(message, Message::Settled { file: 1, again: true }));
        liar.tell(&finished(0));
    }),
    ("another content than that of the digest, written over", Harmless, |liar, line| {
        open(liar, line, OLD_BYTES);
        line.send(Kind::Data, 1, 0, TRUTH);
        copy(line, 4, 4, OLD_BYTES - 4);
        line.say(Kind::Close, 1, 0, &Closing::Complete { size_bytes: OLD_BYTES, digest: Some([7; 32]) });
        await_message(liar, |message| matches!(message, Message::Settled { file: 1, again: true }));
        liar.tell(&finished(4));
    }),
    ("a file that is written over twice at a time", Refused, |liar, line| {
        open(liar, line, OLD_BYTES);
        line.say(Kind::Open, 1, 0, &announcement("asked/old.bin", OLD_BYTES - 1));
    }),
    ("a link that is written over", Harmless, |_, line| {
        line.say(Kind::Open, 1, 0, &announcement("asked/secret", 8));
        line.send(Kind::Data, 1, 0, TRUTH);
        line.send(Kind::Data, 1, 4, TRUTH);
        line.say(Kind::Close, 1, 0, &Closing::Complete { size_bytes: 8, digest: None });
    }),
    ("a file that a link leads to, written over", Harmless, |_, line| {
        line.say(Kind::Open, 1, 0, &announcement("asked/out/secret", 8));
        line.send(Kind::Data, 1, 0, TRUTH);
    }),
    ("a folder that is written over", Harmless, |_, line| {
        line.say(Kind::Open, 1, 0, &announcement("asked/folder", 8));
        line.send(Kind::Data, 1, 0, TRUTH);
    }),
    ("data behind the end of what is written over", Harmless, |liar, line| {
        open(liar, line, OLD_BYTES);
        line.send(Kind::Data, 1, OLD_BYTES - 1, TRUTH);
    }),
    ("a file as long as there is, written over", Harmless, |_, line| {
        line.say(Kind::Open, 1, 0, &announcement("asked/old.bin", i64::MAX as u64));
        line.send(Kind::Data, 1, 1 << 62, TRUTH);
    }),
];

/// Tells the honest end that there is a version of its file, and hears which number that has.
pub(crate) fn claim(liar: &mut Liar) -> u32 {
    let versions = vec![VersionHeld { path: path_hash(&path("given")), bytes: 3_000_000, traits: None }];
    liar.tell(&Message::Have(Have { versions, ..Have::default() }));
    liar.tell(&Message::HaveEnd);
    while let Some((message, _)) = hear(&mut liar.channel) {
        if let Message::Version { file, .. } = message {
            return file;
        }
    }
    panic!("the honest end asks for no version");
}

/// Tells a size, and hears the number of the first request for a signature.
fn size(liar: &mut Liar, bytes: u64) -> u32 {
    liar.tell(&Message::VersionSize { file: 0, bytes: Some(bytes) });
    while let Some((message, _)) = hear(&mut liar.channel) {
        if let Message::Sign(sign) = message {
            return sign.number;
        }
    }
    panic!("the honest end asks for no signature");
}

fn tell_pieces(liar: &mut Liar, number: u32, pieces: Option<Vec<u8>>) {
    liar.tell(&Message::Signature { number, pieces });
}

/// Lies of a server that has a version of the file `given` with 3,000,000 random bytes, which has the number 0.
pub(crate) const OF_SIGNERS: &[Lie] = &[
    ("the size of a version that was not asked for", Refused, |liar, _| {
        liar.tell(&Message::VersionSize { file: 99, bytes: Some(5) });
    }),
    ("a size twice", Refused, |liar, _| {
        size(liar, 3_000_000);
        liar.tell(&Message::VersionSize { file: 0, bytes: Some(5) });
    }),
    ("a version of everything there could be", Harmless, |liar, _| {
        liar.tell(&Message::VersionSize { file: 0, bytes: Some(u64::MAX) });
    }),
    ("a version of nothing", Harmless, |liar, _| {
        liar.tell(&Message::VersionSize { file: 0, bytes: Some(0) });
    }),
    ("a signature that was not asked for", Refused, |liar, _| {
        let number = size(liar, 3_000_000);
        tell_pieces(liar, number + 7, Some(Vec::new()));
    }),
    ("a signature twice", Refused, |liar, _| {
        let number = size(liar, 3_000_000);
        (0..2).for_each(|_| tell_pieces(liar, number, None));
    }),
    ("a signature of garbage", Refused, |liar, _| {
        let number = size(liar, 3_000_000);
        tell_pieces(liar, number, Some(vec![0xff; 100_000]));
    }),
    ("a signature that ends early", Refused, |liar, _| {
        let number = size(liar, 3_000_000);
        tell_pieces(liar, number, Some(Vec::new()));
    }),
    ("a signature of one hole without end", Refused, |liar, _| {
        let number = size(liar, 3_000_000);
        tell_pieces(liar, number, Some([[0; 3].as_slice(), &u64::MAX.to_le_bytes()].concat()));
    }),
    ("a signature of pieces that nobody has", Harmless, |liar, line| {
        let number = size(liar, 3_000_000);
        let piece = [&100_000_u32.to_le_bytes()[..3], &[7; 16]].concat();
        tell_pieces(liar, number, Some(piece.repeat(30)));
        line.read();
    }),
    ("a version that is gone after its size", Harmless, |liar, line| {
        let number = size(liar, 3_000_000);
        tell_pieces(liar, number, None);
        line.read();
    }),
    ("a file that is settled before it came", Harmless, |liar, line| {
        size(liar, 3_000_000);
        liar.tell(&Message::Settled { file: 0, again: true });
        line.read();
    }),
    ("a file that is settled twice", Refused, |liar, _| {
        size(liar, 3_000_000);
        (0..2).for_each(|_| liar.tell(&Message::Settled { file: 0, again: true }));
    }),
    ("a file that is settled and was not compared", Refused, |liar, _| {
        liar.tell(&Message::Settled { file: 0, again: false });
    }),
    ("a sender's questions", Refused, |liar, _| {
        liar.tell(&sign(0, vec![span(0, 1, Cut::Grid)]));
    }),
];
