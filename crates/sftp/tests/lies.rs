//! Tests with a dishonest server: whatever it sends is a valid reply to the request, or refused, in bounded memory.

use proptest::prelude::*;
use sealane_sftp::{
    Access, Attributes, Client, Extension, Handle, Limits, Malformed, PACKET_BYTES_MAX, Reply, Request,
    StatusCode,
};

fn string(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

fn packet(code: u8, fields: &[&[u8]]) -> Vec<u8> {
    let body = [&[code][..], &fields.concat()].concat();
    string(&body)
}

fn version(extensions: &[(&str, &str)]) -> Vec<u8> {
    let mut fields = 3_u32.to_be_bytes().to_vec();
    for (name, version) in extensions {
        fields.extend(string(name.as_bytes()));
        fields.extend(string(version.as_bytes()));
    }
    packet(2, &[&fields])
}

/// Returns a client that has been greeted by a server without extensions; its first request has number 0.
fn greeted() -> Client {
    let mut client = Client::new();
    client.handle(&version(&[])).unwrap();
    client
}

fn status(id: u32, code: u32) -> Vec<u8> {
    packet(101, &[&id.to_be_bytes(), &code.to_be_bytes(), &string(b"why"), &string(b"en")])
}

fn handle_of(client: &mut Client, id: u32) -> Handle {
    client.request(&Request::Open { path: b"x", access: Access::Read, attributes: Attributes::default() });
    client.handle(&packet(102, &[&id.to_be_bytes(), &string(b"h")])).unwrap();
    match client.poll_reply() {
        Some((_, Reply::Handle(handle))) => handle,
        reply => panic!("{reply:?}"),
    }
}

#[test]
fn what_a_server_says_of_itself_is_believed_within_bounds() {
    let limits = |read: u64, write: u64, handles: u64| {
        let mut client = Client::new();
        client.handle(&version(&[Extension::Limits.announced(), ("posix-rename@openssh.com", "7")])).unwrap();
        assert_eq!(client.server().unwrap().limits, Limits::default(), "its limits are still to come");
        assert!(!client.knows_limits());
        let fields = [u64::MAX, read, write, handles].map(u64::to_be_bytes).concat();
        client.handle(&packet(201, &[&0_u32.to_be_bytes(), &fields])).unwrap();
        let server = *client.server().unwrap();
        assert!(client.knows_limits());
        assert!(server.has(Extension::Limits) && !server.has(Extension::PosixRename), "another version");
        server.limits
    };
    let most = 255 * 1024;
    assert_eq!(limits(u64::MAX, 1, u64::MAX), Limits { read_bytes: most, write_bytes: 4096, handles: 4096 });
    assert_eq!(limits(0, 0, 0), Limits::default());
    assert_eq!(greeted().server().unwrap().limits, Limits::default());
    let mut client = Client::new();
    client.handle(&version(&[Extension::Limits.announced()])).unwrap();
    client.handle(&status(0, 8)).unwrap();
    assert!(client.knows_limits() && greeted().knows_limits() && !Client::new().knows_limits());
    assert_eq!(client.server().unwrap().limits, Limits::default());
    for greeting in [
        packet(2, &[&4_u32.to_be_bytes()]),
        packet(2, &[]),
        packet(101, &[&[0; 8]]),
        b"This service allows sftp connections only.\n".to_vec(),
        version(&[]).split_at(4).0.iter().copied().chain([0; 9]).collect(),
    ] {
        assert!(Client::new().handle(&greeting).is_err(), "{greeting:?}");
    }
}

#[test]
fn lengths_are_bounded_before_anything_is_kept() {
    for bytes in [0, PACKET_BYTES_MAX as u32 + 1, u32::MAX] {
        let mut client = greeted();
        let broken = Err(Malformed::PacketLength { bytes: bytes as usize });
        assert_eq!(client.handle(&bytes.to_be_bytes()), broken);
        // Nothing that follows has a meaning.
        assert_eq!(client.handle(&status(0, 0)), broken);
    }
    let mut client = greeted();
    client.request(&Request::OpenDirectory { path: b"x" });
    let long = packet(102, &[&0_u32.to_be_bytes(), &string(&[7; 257])]);
    assert!(matches!(client.handle(&long), Err(Malformed::Long { .. })));
    let mut client = greeted();
    let handle = handle_of(&mut client, 0);
    client.request(&Request::ReadDirectory { handle: &handle });
    let names = packet(104, &[&1_u32.to_be_bytes(), &u32::MAX.to_be_bytes()]);
    assert!(matches!(client.handle(&names), Err(Malformed::Short { .. })));
}

/// Bytes that belong to nothing would be kept as long as the reply.
#[test]
fn what_follows_the_last_field_of_a_reply_is_refused() {
    let attributes = 0_u32.to_be_bytes();
    let name = |name: &[u8]| [string(name), string(b"for people"), attributes.to_vec()].concat();
    let one = 1_u32.to_be_bytes();
    let id = 1_u32.to_be_bytes();
    let handle = handle_of(&mut greeted(), 0);
    let requests: [(Request<'_>, Vec<u8>, &str); 6] = [
        (Request::Lstat { path: b"x" }, packet(105, &[&id, &attributes]), "list of attributes"),
        (Request::RealPath { path: b"x" }, packet(104, &[&id, &one, &name(b"/x")]), "list of names"),
        (Request::ReadDirectory { handle: &handle }, packet(104, &[&id, &one, &name(b"x")]), "list of names"),
        (Request::OpenDirectory { path: b"x" }, packet(102, &[&id, &string(b"h")]), "handle"),
        (
            Request::Read { handle: &handle, offset: 0, length_bytes: 8 },
            packet(103, &[&id, &string(b"1")]),
            "data",
        ),
        (Request::Remove { path: b"x" }, status(1, 0), "status"),
    ];
    for (request, reply, what) in requests {
        for more in [0, 1, 250_000] {
            let mut client = greeted();
            handle_of(&mut client, 0);
            client.request(&request);
            let mut reply = reply.clone();
            reply.resize(reply.len() + more, 0);
            let length = reply.len() as u32 - 4;
            reply[..4].copy_from_slice(&length.to_be_bytes());
            let expected = if more == 0 { Ok(()) } else { Err(Malformed::Trailing { what, bytes: more }) };
            assert_eq!(client.handle(&reply), expected, "{what}");
        }
    }
}

#[test]
fn names_that_no_folder_can_have_are_refused() {
    let reply = |length: usize| {
        let name = [string(&vec![b'n'; length]), string(b""), 0_u32.to_be_bytes().to_vec()].concat();
        packet(104, &[&1_u32.to_be_bytes(), &1_u32.to_be_bytes(), &name])
    };
    let handle = handle_of(&mut greeted(), 0);
    for (request, most) in
        [(Request::ReadDirectory { handle: &handle }, 765), (Request::ReadLink { path: b"x" }, 4096)]
    {
        for (length, is_taken) in [(most, true), (most + 1, false), (250_000, false)] {
            let mut client = greeted();
            handle_of(&mut client, 0);
            client.request(&request);
            assert_eq!(client.handle(&reply(length)).is_ok(), is_taken, "{request:?} {length}");
        }
    }
}

#[test]
fn replies_that_answer_nothing_are_refused() {
    let mut client = greeted();
    let handle = handle_of(&mut client, 0);
    let read = |client: &mut Client| {
        client.request(&Request::Read { handle: &handle, offset: 0, length_bytes: 8 });
    };
    for (reply, expected) in [
        (status(7, 0), Malformed::Unasked { id: 7 }),
        (packet(103, &[&1_u32.to_be_bytes(), &string(&[0; 9])]), Malformed::Amount { bytes: 9, asked: 8 }),
        (packet(103, &[&1_u32.to_be_bytes(), &string(&[])]), Malformed::Amount { bytes: 0, asked: 8 }),
        (packet(102, &[&1_u32.to_be_bytes(), &string(b"h")]), Malformed::Unfit { code: 102, asked: 5 }),
        // A success without the requested bytes.
        (status(1, 0), Malformed::Unfit { code: 101, asked: 5 }),
        (packet(99, &[&1_u32.to_be_bytes()]), Malformed::Type { code: 99 }),
        (packet(103, &[&1_u32.to_be_bytes(), &[0, 0, 0, 8, 1]]), Malformed::Short { what: "data" }),
    ] {
        let mut client = greeted();
        handle_of(&mut client, 0);
        read(&mut client);
        assert_eq!(client.handle(&reply), Err(expected));
    }
    // The same reply, twice.
    read(&mut client);
    client.handle(&status(1, 1)).unwrap();
    assert!(
        matches!(client.poll_reply(), Some((_, Reply::Status(status))) if status.code == StatusCode::EndOfFile)
    );
    assert_eq!(client.handle(&status(1, 1)), Err(Malformed::Unasked { id: 1 }));
}

proptest! {
    /// The same bytes mean the same however they are cut; any bytes are replies or an error.
    #[test]
    fn any_bytes_in_any_pieces(
        mut stream in prop::collection::vec(
            prop_oneof![
                (0_u32..6, 0_u32..10).prop_map(|(id, code)| status(id, code)),
                (0_u32..6, prop::collection::vec(any::<u8>(), 0..40))
                    .prop_map(|(id, body)| packet(103, &[&id.to_be_bytes(), &string(&body)])),
                (100_u8..106, 0_u32..6, prop::collection::vec(any::<u8>(), 0..40))
                    .prop_map(|(code, id, body)| packet(code, &[&id.to_be_bytes(), &body])),
                prop::collection::vec(any::<u8>(), 0..12),
            ],
            0..8,
        ).prop_map(|packets| packets.concat()),
        cuts in prop::collection::vec(1_usize..9, 1..200),
    ) {
        stream.truncate(200);
        let client = || {
            let mut client = greeted();
            let handle = handle_of(&mut client, 0);
            for _ in 0..2 {
                client.request(&Request::Read { handle: &handle, offset: 0, length_bytes: 32 });
                client.request(&Request::Lstat { path: b"x" });
                client.request(&Request::ReadDirectory { handle: &handle });
            }
            client
        };
        let mut whole = client();
        let outcome = whole.handle(&stream);
        let mut cut = client();
        let mut rest = &stream[..];
        let mut pieces = Ok(());
        for length in cuts.into_iter().cycle() {
            if rest.is_empty() || pieces.is_err() {
                break;
            }
            let (piece, after) = rest.split_at(length.min(rest.len()));
            pieces = cut.handle(piece);
            rest = after;
        }
        prop_assert_eq!(outcome, pieces);
        let replies = |client: &mut Client| std::iter::from_fn(|| client.poll_reply()).collect::<Vec<_>>();
        prop_assert_eq!(replies(&mut whole), replies(&mut cut));
        prop_assert!(whole.requests_under_way() <= 6);
    }
}
