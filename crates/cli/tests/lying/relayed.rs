//! Lies of far ends whose transfer a client relays: each is told by one end, and the other is the honest program.

use super::lies::{change, complete, finished};
use super::{Fate, hello};
use sealane_copy::proto::message::{Abort, Accept, Have, Message, Numbers, Request};
use sealane_copy::{ErrorKind, Level};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};

use Fate::{Harmless, Refused};

/// A far end that lies. It sends frames that it builds itself, through a program that forwards bytes.
pub(crate) struct FarLiar {
    stream: TcpStream,
    /// Listens for data streams, and never accepts one.
    data: TcpListener,
    pub(crate) request: Option<Request>,
}

impl FarLiar {
    /// Waits for the client that connects to `listener`.
    pub(crate) fn meet(listener: &TcpListener) -> io::Result<Self> {
        let (stream, _) = listener.accept()?;
        stream.set_read_timeout(Some(super::PATIENCE))?;
        Ok(Self { stream, data: TcpListener::bind("127.0.0.1:0")?, request: None })
    }

    /// Sends a message. Returns `false` if the client has closed the connection.
    pub(crate) fn tell(&mut self, message: &Message) -> bool {
        self.raw(&message.encode())
    }

    pub(crate) fn raw(&mut self, frame: &[u8]) -> bool {
        let length = u32::try_from(frame.len()).expect("a frame is short").to_le_bytes();
        self.stream.write_all(&[&length, frame].concat()).is_ok()
    }

    fn hear(&mut self) -> Option<Message> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).ok()?;
        let mut frame = vec![0; u32::from_le_bytes(length) as usize];
        self.stream.read_exact(&mut frame).ok()?;
        Some(Message::decode(&frame).expect("the honest end keeps to the protocol"))
    }

    /// Negotiates as an honest end does, except that `edit` changes its answer. Returns `false` if the client gives
    /// up.
    pub(crate) fn agree(&mut self, edit: impl FnOnce(&mut Accept)) -> bool {
        self.tell(&hello());
        loop {
            match self.hear() {
                Some(Message::Request(request)) => {
                    let mut accept = Accept {
                        level: request.wishes.level,
                        suite: request.suite,
                        streams: request.streams.unwrap_or(1),
                        streams_max: request.streams_max.or(request.streams).unwrap_or(1),
                        lanes: 1,
                        compression: request.wishes.compression,
                        delta: request.wishes.delta,
                        data_port: self.data.local_addr().expect("an address").port(),
                        name: Some(b"asked".to_vec()),
                        may_own: true,
                        may_set_privileges: false,
                        numbers: Numbers::default(),
                    };
                    self.request = Some(*request);
                    edit(&mut accept);
                    return self.tell(&Message::Accept(accept));
                }
                Some(Message::Hello(_) | Message::Listed(_)) => {}
                Some(other) => panic!("{other:?} instead of a request"),
                None => return false,
            }
        }
    }

    /// Reads until the client closes the connection.
    pub(crate) fn end(mut self) {
        while self.hear().is_some() {}
    }
}

/// A lie: its name, its expected result, and the function that tells it.
pub(crate) type RelayedLie = (&'static str, Fate, fn(&mut FarLiar));

/// An answer that differs from the request: its name, and its change.
pub(crate) type Bargain = (&'static str, fn(&mut Accept));

/// Answers that differ from the request.
pub(crate) const BARGAINS: &[Bargain] = &[
    ("a lower level", |accept| accept.level = Level::Clear),
    ("another suite", |accept| accept.suite = 250),
    ("more streams", |accept| accept.streams = u16::MAX),
];

/// Lies of the end that sends.
pub(crate) const SENDERS: &[RelayedLie] = &[
    ("what a receiver has", Refused, |liar| {
        liar.tell(&Message::Have(Have::default()));
    }),
    ("a receiver's last word", Refused, |liar| {
        liar.tell(&complete(u64::MAX));
    }),
    ("entries removed before the end", Refused, |liar| {
        liar.tell(&Message::Removed { removed: u64::MAX, unremoved: u64::MAX });
    }),
    ("a change", Refused, |liar| {
        liar.tell(&Message::Changed(change(b"\x1b[2J")));
    }),
    ("two ends", Refused, |liar| {
        liar.tell(&finished(u64::MAX));
        liar.tell(&finished(0));
    }),
    ("a request of its own", Refused, |liar| {
        let request = liar.request.clone().expect("it was asked");
        liar.tell(&Message::Request(Box::new(request)));
    }),
    ("a stream that there is not", Refused, |liar| {
        liar.tell(&Message::StreamLost { stream: u16::MAX, generation: u32::MAX, narrowed: u8::MAX });
    }),
    ("a message of garbage", Refused, |liar| {
        liar.raw(&[0xff; 1000]);
    }),
    ("names that nobody asked for", Refused, |liar| {
        liar.tell(&Message::Known(vec![[7; 16]; 1000]));
    }),
    ("failures that a terminal obeys", Harmless, |liar| {
        for _ in 0..100 {
            let (path, reason) = (b"\x1b[2J\r\n".repeat(100), "\x1b]0;x\x07\n".repeat(100));
            liar.tell(&Message::EntryFailed { path, reason });
        }
        liar.tell(&Message::Abort(Abort { kind: ErrorKind::Io, message: "\x1b[2J".repeat(100) }));
    }),
];

/// Lies of the end that receives.
pub(crate) const RECEIVERS: &[RelayedLie] = &[
    ("a sender's last word", Refused, |liar| {
        liar.tell(&finished(0));
    }),
    ("names of what it does not send", Refused, |liar| {
        liar.tell(&Message::Known(vec![[7; 16]]));
    }),
    ("everything in place before anything was sent", Refused, |liar| {
        liar.tell(&Message::HaveEnd);
        liar.tell(&complete(u64::MAX));
    }),
    ("entries that it has removed", Refused, |liar| {
        liar.tell(&Message::Removed { removed: 0, unremoved: 0 });
    }),
    ("a stream that there is not", Refused, |liar| {
        liar.tell(&Message::StreamLost { stream: u16::MAX, generation: 0, narrowed: 0 });
    }),
    ("changes and deletions that a terminal obeys", Harmless, |liar| {
        liar.tell(&Message::HaveEnd);
        for _ in 0..100 {
            liar.tell(&Message::Changed(change(b"\x1b[2J")));
            liar.tell(&Message::WouldChange { change: change(b"\x1b[2J"), bytes: u64::MAX });
            liar.tell(&Message::Deleted { path: b"\x1b[2J".repeat(1000) });
        }
        liar.raw(&[0xff; 10]);
    }),
    ("an empty message", Refused, |liar| {
        liar.raw(&[]);
    }),
];
