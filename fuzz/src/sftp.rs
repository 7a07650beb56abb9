//! A conversation with an SFTP server that may send anything, for the target `sftp` and for its seeds.

use sealane_sftp::{Access, Attributes, Client, Handle, Malformed, Reply, Request};

/// Requests that are under way when the server's answers begin, in the order of their numbers.
pub const REQUESTS: u32 = 10;
/// Bytes that a read requests.
const READ_BYTES: u32 = 4096;

/// The result of a conversation.
#[derive(Debug)]
pub struct Conversation {
    /// An error if the server's bytes were not understood to the end.
    pub outcome: Result<(), Malformed>,
    /// The server's answers.
    pub replies: Vec<Reply>,
    /// Requests that were not answered.
    pub unanswered: usize,
}

/// Returns the length of the packet at the front, including its length field.
fn packet_bytes(stream: &[u8]) -> usize {
    let length = stream.first_chunk().map_or(0, |length| u32::from_be_bytes(*length) as usize);
    length.saturating_add(4).min(stream.len())
}

/// Lets a server send `stream`, in pieces of `piece_bytes` after its version message.
pub fn converse(mut stream: &[u8], piece_bytes: usize) -> Conversation {
    let mut client = Client::new();
    let mut outcome = Ok(());
    while !client.knows_limits() && outcome.is_ok() && !stream.is_empty() {
        let (packet, rest) = stream.split_at(packet_bytes(stream));
        outcome = client.handle(packet);
        stream = rest;
    }
    if client.server().is_some() {
        // The first answer has to be a handle, which the other requests use.
        let open = Request::Open { path: b"x", access: Access::Read, attributes: Attributes::default() };
        client.request(&open);
        let (packet, rest) = stream.split_at(packet_bytes(stream));
        outcome = client.handle(packet);
        stream = rest;
        if let Some((_, Reply::Handle(handle))) = client.poll_reply() {
            ask(&mut client, &handle);
        }
        for piece in stream.chunks(piece_bytes) {
            outcome = outcome.and_then(|()| client.handle(piece));
        }
    }
    let replies = std::iter::from_fn(|| client.poll_reply()).map(|(_, reply)| reply).collect();
    Conversation { outcome, replies, unanswered: client.requests_under_way() }
}

fn ask(client: &mut Client, handle: &Handle) {
    let attributes = Attributes::default();
    let requests = [
        Request::Read { handle, offset: 0, length_bytes: READ_BYTES },
        Request::Lstat { path: b"x" },
        Request::OpenDirectory { path: b"x" },
        Request::ReadDirectory { handle },
        Request::ReadLink { path: b"x" },
        Request::StatVfs { path: b"x" },
        Request::FsetStat { handle, attributes },
        Request::PosixRename { from: b"x", to: b"y" },
        Request::ExpandPath { path: b"~" },
        Request::Close { handle },
    ];
    assert_eq!(requests.len(), REQUESTS as usize);
    for request in &requests {
        let _ = client.request(request);
    }
}
