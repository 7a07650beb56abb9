//! Tests of the client against OpenSSH's own server, on a socket and without ssh.

#[path = "../../../testing/running.rs"]
mod running;
#[path = "../../../testing/skip.rs"]
mod skip;

use running::Running;
use sealane_sftp::{
    Access, Attributes, Client, Extension, FileKind, Handle, Outgoing, Reply, Request, RequestId, StatusCode,
    Times,
};
use std::collections::{HashMap, VecDeque};
use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

const SERVERS: [&str; 2] = ["/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server"];

struct Session {
    client: Client,
    socket: UnixStream,
    _child: Running,
    /// The data of requests whose packets do not hold them.
    data: VecDeque<u8>,
    replies: HashMap<RequestId, Reply>,
}

impl Session {
    fn start() -> Option<Self> {
        let Some(server) = SERVERS.into_iter().find(|server| Path::new(server).exists()) else {
            skip::skip("OpenSSH's sftp-server is not installed");
            return None;
        };
        let (socket, theirs) = UnixStream::pair().unwrap();
        let theirs_too = theirs.try_clone().unwrap();
        let child = Command::new(server)
            .stdin(OwnedFd::from(theirs))
            .stdout(OwnedFd::from(theirs_too))
            .spawn()
            .unwrap();
        let (client, data, replies) = (Client::new(), VecDeque::new(), HashMap::new());
        let mut session = Self { client, socket, _child: Running(child), data, replies };
        while !session.client.knows_limits() {
            session.turn();
        }
        Some(session)
    }

    fn turn(&mut self) {
        let mut outgoing = Vec::new();
        for piece in self.client.poll_transmit() {
            match piece {
                Outgoing::Bytes(bytes) => outgoing.extend_from_slice(bytes),
                Outgoing::Data { bytes } => outgoing.extend(self.data.drain(..bytes)),
            }
        }
        self.socket.write_all(&outgoing).unwrap();
        self.client.transmitted(outgoing.len());
        let mut bytes = [0; 20_000];
        // The two ways of receiving alternate.
        let read = match self.client.space() {
            Some(space) => {
                let read = self.socket.read(space).unwrap();
                self.client.filled(read).unwrap();
                read
            }
            None => {
                let read = self.socket.read(&mut bytes).unwrap();
                self.client.handle(&bytes[..read]).unwrap();
                read
            }
        };
        assert_ne!(read, 0, "the server has ended");
        self.replies.extend(std::iter::from_fn(|| self.client.poll_reply()));
    }

    fn wait(&mut self, id: RequestId) -> Reply {
        loop {
            if let Some(reply) = self.replies.remove(&id) {
                return reply;
            }
            self.turn();
        }
    }

    fn ask(&mut self, request: &Request<'_>) -> Reply {
        let id = self.client.request(request);
        self.wait(id)
    }

    fn open(&mut self, path: &[u8], access: Access) -> Handle {
        let attributes = Attributes { mode: Some(0o600), ..Attributes::default() };
        match self.ask(&Request::Open { path, access, attributes }) {
            Reply::Handle(handle) => handle,
            reply => panic!("{reply:?}"),
        }
    }

    #[track_caller]
    fn check(&mut self, request: &Request<'_>, expected: StatusCode) {
        match self.ask(request) {
            Reply::Status(status) => assert_eq!(status.code, expected, "{request:?}"),
            reply => panic!("{request:?}: {reply:?}"),
        }
    }
}

#[test]
fn a_file_is_written_read_and_named() {
    let Some(mut session) = Session::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &[u8]| [folder.path().as_os_str().as_bytes(), b"/", name].concat();
    let server = *session.client.server().unwrap();
    assert!(Extension::ALL.into_iter().all(|extension| server.has(extension)), "{server:?}");
    let most = server.limits.write_bytes as usize;
    assert_eq!((most, server.limits.read_bytes), (255 * 1024, 255 * 1024));

    // Many simultaneous writes of the maximum length, with their data in the packet and beside it, and a hole.
    let content: Vec<u8> = (0..5 * most + 77).map(|index| (index / 3) as u8).collect();
    let (part, name) = (at(b"\xff\xfe part"), at(b"name"));
    let handle = session.open(&part, Access::Create);
    let mut writes = Vec::new();
    for (index, chunk) in content.chunks(most).enumerate() {
        let offset = (index * most) as u64;
        writes.push(match index % 3 {
            0 => {
                let mut packet = session.client.packet(&handle, offset, chunk.len());
                packet.data_mut().copy_from_slice(chunk);
                session.client.send(packet)
            }
            _ => {
                session.data.extend(chunk);
                session.client.write_from(&handle, offset, chunk.len())
            }
        });
    }
    assert!(session.client.bytes_under_way() > content.len());
    for id in writes {
        assert!(matches!(session.wait(id), Reply::Status(status) if status.code == StatusCode::Ok));
    }
    assert_eq!(session.client.bytes_under_way(), 0);
    let times = Times { accessed: 1, modified: 1_000_000_000 };
    let whole_bytes = content.len() as u64 + 100_000;
    let size_bytes = Some(whole_bytes);
    let attributes = Attributes { size_bytes, mode: Some(0o640), times: Some(times), owner: None };
    session.check(&Request::FsetStat { handle: &handle, attributes }, StatusCode::Ok);
    session.check(&Request::Fsync { handle: &handle }, StatusCode::Ok);
    session.check(&Request::Close { handle: &handle }, StatusCode::Ok);
    fs::write(folder.path().join("name"), b"old").unwrap();
    session.check(&Request::Rename { from: &part, to: &name }, StatusCode::Failure);
    session.check(&Request::PosixRename { from: &part, to: &name }, StatusCode::Ok);
    let found = fs::metadata(folder.path().join("name")).unwrap();
    assert_eq!(
        (found.mode() & 0o7777, found.mtime(), Some(found.size())),
        (0o640, 1_000_000_000, size_bytes)
    );

    let handle = session.open(&name, Access::Read);
    let mut reads = Vec::new();
    for offset in (0..content.len()).step_by(most) {
        let (offset, length_bytes) = (offset as u64, most as u32);
        reads.push(session.client.request(&Request::Read { handle: &handle, offset, length_bytes }));
    }
    let mut read = Vec::new();
    for id in reads {
        match session.wait(id) {
            Reply::Data(data) => {
                read.extend_from_slice(&data);
                session.client.recycle(data.into_buffer());
            }
            reply => panic!("{reply:?}"),
        }
    }
    assert!(read[..content.len()] == content && read[content.len()..].iter().all(|&byte| byte == 0));
    let offset = whole_bytes;
    session.check(&Request::Read { handle: &handle, offset, length_bytes: 9 }, StatusCode::EndOfFile);
}

#[test]
fn folders_links_and_what_is_not_there() {
    let Some(mut session) = Session::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &[u8]| [folder.path().as_os_str().as_bytes(), b"/", name].concat();
    let attributes = Attributes { mode: Some(0o1700), ..Attributes::default() };
    session.check(&Request::MakeDirectory { path: &at(b"sub"), attributes }, StatusCode::Ok);
    let mode = fs::metadata(folder.path().join("sub")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o1700);
    session.check(&Request::SymbolicLink { target: b"no where", link: &at(b"link") }, StatusCode::Ok);
    assert_eq!(fs::read_link(folder.path().join("link")).unwrap(), Path::new("no where"));
    let attributes = Attributes { times: Some(Times { accessed: 5, modified: 6 }), ..Attributes::default() };
    session.check(&Request::LsetStat { path: &at(b"link"), attributes }, StatusCode::Ok);
    match session.ask(&Request::ReadLink { path: &at(b"link") }) {
        Reply::Names(names) => assert_eq!(names[0].name, b"no where"),
        reply => panic!("{reply:?}"),
    }
    for number in 0..250 {
        fs::write(folder.path().join("sub").join(number.to_string()), b"x").unwrap();
    }
    session.check(&Request::HardLink { from: &at(b"sub/1"), to: &at(b"sub/other") }, StatusCode::Ok);
    let handle = match session.ask(&Request::OpenDirectory { path: &at(b"sub") }) {
        Reply::Handle(handle) => handle,
        reply => panic!("{reply:?}"),
    };
    let mut names = Vec::new();
    loop {
        match session.ask(&Request::ReadDirectory { handle: &handle }) {
            Reply::Names(more) => names.extend(more),
            Reply::Status(status) => {
                assert_eq!(status.code, StatusCode::EndOfFile);
                break;
            }
            reply => panic!("{reply:?}"),
        }
    }
    session.check(&Request::Close { handle: &handle }, StatusCode::Ok);
    assert_eq!(names.len(), 253);
    let found = names.iter().find(|found| found.name == b"other").unwrap();
    assert_eq!((found.attributes.kind(), found.attributes.size_bytes), (FileKind::File, Some(1)));
    match session.ask(&Request::Lstat { path: &at(b"link") }) {
        Reply::Attributes(found) => {
            assert_eq!((found.kind(), found.times.unwrap().modified), (FileKind::Symlink, 6));
        }
        reply => panic!("{reply:?}"),
    }
    session.check(&Request::Stat { path: &at(b"link") }, StatusCode::NoSuchFile);
    session.check(&Request::RemoveDirectory { path: &at(b"sub") }, StatusCode::Failure);
    session.check(&Request::Remove { path: &at(b"sub/other") }, StatusCode::Ok);
    session.check(&Request::Close { handle: &handle }, StatusCode::NoSuchFile);
    match session.ask(&Request::StatVfs { path: &at(b"") }) {
        Reply::Filesystem(found) => assert!(found.available_bytes > 0 && !found.is_read_only),
        reply => panic!("{reply:?}"),
    }
    match session.ask(&Request::RealPath { path: b"." }) {
        Reply::Names(names) => {
            assert_eq!(names[0].name, std::env::current_dir().unwrap().as_os_str().as_bytes())
        }
        reply => panic!("{reply:?}"),
    }
}
