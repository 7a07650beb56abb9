//! One connection: an `ssh -s HOST sftp`, its client, and the tasks that wait for replies.

use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, VecDeque},
    future::poll_fn,
    io::{self, IoSlice, Read},
    iter,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    rc::Rc,
    task::{Poll, Waker},
    time::{Duration, Instant},
};

use futures_util::{future::join, lock::Mutex};
use rustix::io::Errno;
use sealane_peer::{ChannelError, RemoteProcess};
use sealane_sftp::{
    Access, Attributes, Client, Extension, FileKind, Handle, Limits, Malformed, Name, Outgoing, PacketInHand,
    REQUESTS_MAX, Reply, Request, RequestId, Status, StatusCode,
};

use crate::{
    error::{Error, ErrorKind},
    sftp::source::Source,
};

/// The maximum number of bytes in flight on one connection: ssh's own window is 2 MiB (OpenSSH, `channels.h`), and
/// pipes precede it.
pub(super) const UNDER_WAY_BYTES: usize = 4 << 20;
/// The maximum number of names in one folder, and of folders that wait to be listed.
pub(super) const NAMES_MAX: usize = 1 << 20;
/// The maximum number of open files on one connection.
const HANDLES_MAX: usize = 2048;
/// The number of open files that keep a server on a short path busy. Requests for more only wait at the server, whose
/// buffers grow at a cost: with 1,024, OpenSSH's server takes more than twice the time per file.
const HANDLES_SHORT_PATH: usize = 128;
/// The number on a path of which the round trip is not known.
const HANDLES_UNKNOWN_PATH: usize = 256;
/// The number of small files that OpenSSH's server completes in a second, about, beside a second server on two
/// processors. More files under way only wait in its buffers.
const FILES_PER_SECOND: f64 = 8_000.0;
/// The round trips during which a small file is open: until its handle has come, and until it is closed.
const ROUND_TRIPS_OPEN: f64 = 2.0;
/// The number of requests for one open file that do not wait for room: content in a few packets, owner, mode and times,
/// synchronization, closing, and a look at the existing entry.
const REQUESTS_AT_ONCE_MAX: usize = 8;
/// Half of the requests in flight wait for room; those that do not must fit beside them.
const _: () = assert!(HANDLES_MAX * REQUESTS_AT_ONCE_MAX <= REQUESTS_MAX / 2);
/// The number of descriptors that the server needs for itself.
const HANDLES_SPARED: usize = 8;
/// The number of pieces passed to the kernel at once.
const PIECES_MAX: usize = 64;
/// The number of bytes received before other connections have their turn.
const TURN_BYTES: usize = 1 << 20;
/// The memory that one list of names may take.
const LIST_BYTES_MAX: usize = 128 << 20;
/// The memory that each of several simultaneous lists may take.
const SHORT_LIST_BYTES_MAX: usize = 4 << 20;
/// The mode of a link of which nothing else is known.
const LINK_MODE: u32 = 0o120_777;
/// The time that a child has to report why it has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The reason why a request has no good reply.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// The connection is lost, together with its requests in flight.
    Lost,
    /// The server says so.
    Said(Status),
}

impl Fault {
    pub(super) fn code(&self) -> Option<StatusCode> {
        match self {
            Self::Lost => None,
            Self::Said(status) => Some(status.code),
        }
    }
}

#[derive(Default)]
struct Slot {
    reply: Option<Result<Reply, Fault>>,
    waker: Option<Waker>,
}

/// A reply that is to come.
pub(super) struct Pending(Rc<RefCell<Slot>>);

impl Pending {
    pub(super) async fn reply(self) -> Result<Reply, Fault> {
        poll_fn(|context| {
            let mut slot = self.0.borrow_mut();
            match slot.reply.take() {
                Some(reply) => Poll::Ready(reply),
                None => {
                    slot.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Waits for the reply to a request that is answered by a status.
    pub(super) async fn done(self) -> Result<(), Fault> {
        done(self.reply().await?)
    }
}

/// Returns the fault for a status other than OK; the client has excluded unexpected replies.
fn said(reply: Reply) -> Fault {
    match reply {
        Reply::Status(status) => Fault::Said(status),
        _ => Fault::Lost,
    }
}

fn done(reply: Reply) -> Result<(), Fault> {
    match reply {
        Reply::Status(status) if status.code == StatusCode::Ok => Ok(()),
        reply => Err(said(reply)),
    }
}

/// Returns the number of open files that keep a server busy over a path with this round trip.
fn useful_handles(round_trip: Duration) -> usize {
    let under_way = round_trip.as_secs_f64() * ROUND_TRIPS_OPEN * FILES_PER_SECOND;
    (HANDLES_SHORT_PATH + under_way as usize).min(HANDLES_MAX)
}

/// The permission to have one more file open.
pub(super) struct Leave<'a>(&'a Link);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.handles_free.set(self.0.handles_free.get() + 1);
        if let Some(waker) = self.0.for_handles.borrow_mut().pop_front() {
            waker.wake();
        }
    }
}

/// One connection to the far host, or one more channel of one.
pub(super) struct Link {
    pub(super) index: usize,
    /// Whether it is a connection of its own, and not one more channel of another one.
    pub(super) is_own: bool,
    /// Whether it is a channel of a connection that is logged in.
    is_logged_in: bool,
    socket: UnixStream,
    process: RefCell<RemoteProcess>,
    client: RefCell<Client>,
    waiting: RefCell<HashMap<RequestId, Rc<RefCell<Slot>>>>,
    /// The data of requests that come from files, in the order of the requests.
    sources: RefCell<VecDeque<Source>>,
    for_room: RefCell<Vec<Waker>>,
    /// The first to come is the first to go on: a batch is done only with its last file.
    for_handles: RefCell<VecDeque<Waker>>,
    handles_free: Cell<usize>,
    lost: RefCell<Option<Error>>,
    heard: Cell<Instant>,
    /// The time of the first byte from the server.
    first_heard: Cell<Option<Instant>>,
    round_trip: Cell<Option<Duration>>,
    /// Held by the list of names that may be long.
    long_list: Rc<Mutex<()>>,
    host: String,
}

impl Link {
    /// Returns the connection of a child that was just started.
    pub(super) fn new(
        index: usize,
        (is_own, is_logged_in): (bool, bool),
        process: RemoteProcess,
        long_list: Rc<Mutex<()>>,
        host: &str,
    ) -> io::Result<Rc<Self>> {
        let socket = process.socket().try_clone()?;
        socket.set_nonblocking(true)?;
        Ok(Rc::new(Self {
            index,
            is_own,
            is_logged_in,
            socket,
            process: RefCell::new(process),
            client: RefCell::new(Client::new()),
            waiting: RefCell::default(),
            sources: RefCell::default(),
            for_room: RefCell::default(),
            for_handles: RefCell::default(),
            handles_free: Cell::new(0),
            lost: RefCell::default(),
            heard: Cell::new(Instant::now()),
            first_heard: Cell::default(),
            round_trip: Cell::default(),
            long_list,
            host: host.to_owned(),
        }))
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.borrow().is_some()
    }

    /// Returns whether the server has greeted; its limits may still be on their way.
    pub(super) fn is_greeted(&self) -> bool {
        self.client.borrow().server().is_some()
    }

    /// Returns the time from the server's greeting to the answer to the request that follows it, or the one that a
    /// caller has measured at a server that gets no such request; `None` if neither is known.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.round_trip.get()
    }

    /// Sets the round trip to a server that tells no limits.
    pub(super) fn set_round_trip(&self, round_trip: Duration) {
        self.round_trip.set(Some(round_trip));
    }

    /// Returns the reason why the connection is unusable.
    pub(super) fn reason(&self) -> Option<Error> {
        self.lost.borrow().clone()
    }

    pub(super) fn has(&self, extension: Extension) -> bool {
        self.client.borrow().server().is_some_and(|server| server.has(extension))
    }

    /// Returns whether the server behaves as OpenSSH's, which handles requests for one file in their order, as the
    /// protocol demands, and makes a folder with the attributes of the request. Go's pkg/sftp does neither.
    pub(super) fn behaves_as_openssh(&self) -> bool {
        self.has(Extension::Limits)
    }

    /// Returns whether a request with the path of a link is known to mean what it means to OpenSSH's server: LSTAT,
    /// REMOVE and renaming mean the link itself. It is known of servers with all of that server's extensions.
    pub(super) fn treats_links_as_openssh(&self) -> bool {
        Extension::ALL.into_iter().all(|extension| self.has(extension))
    }

    pub(super) fn limits(&self) -> Limits {
        self.client.borrow().server().map(|server| server.limits).unwrap_or_default()
    }

    pub(super) fn bytes_under_way(&self) -> usize {
        self.client.borrow().bytes_under_way()
    }

    pub(super) fn wants_to_send(&self) -> bool {
        self.client.borrow().wants_to_send()
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Waits until the server has greeted.
    pub(super) async fn greeted(&self) -> Result<(), Error> {
        poll_fn(|context| {
            if let Some(error) = self.reason() {
                return Poll::Ready(Err(error));
            }
            if self.is_greeted() {
                return Poll::Ready(Ok(()));
            }
            self.for_room.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    fn ask(&self, id: RequestId) -> Pending {
        let slot = Rc::default();
        self.waiting.borrow_mut().insert(id, Rc::clone(&slot));
        Pending(slot)
    }

    /// Sends a request at once, as one of several consecutive ones for one file.
    pub(super) fn begin(&self, request: &Request<'_>) -> Pending {
        if self.is_lost() {
            return Pending(Rc::new(RefCell::new(Slot { reply: Some(Err(Fault::Lost)), waker: None })));
        }
        self.note_beginning();
        let id = self.client.borrow_mut().request(request);
        self.ask(id)
    }

    /// Silence is measured from the time when a reply is owed.
    fn note_beginning(&self) {
        if self.client.borrow().requests_under_way() == 0 {
            self.heard.set(Instant::now());
        }
    }

    async fn room(&self) {
        poll_fn(|context| {
            // Half of the room is for requests that follow others at once.
            if self.is_lost() || self.client.borrow().requests_under_way() < REQUESTS_MAX / 2 {
                return Poll::Ready(());
            }
            self.for_room.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Waits until something has arrived, or the connection is lost.
    pub(super) async fn change(&self) {
        let mut has_waited = false;
        poll_fn(|context| {
            if std::mem::replace(&mut has_waited, true) || self.is_lost() {
                return Poll::Ready(());
            }
            self.for_room.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Waits for the permission to open a file.
    pub(super) async fn leave(&self) -> Leave<'_> {
        poll_fn(|context| {
            let free = self.handles_free.get();
            if free > 0 {
                self.handles_free.set(free - 1);
                return Poll::Ready(Leave(self));
            }
            self.for_handles.borrow_mut().push_back(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Sends a request once there is room for it.
    pub(super) async fn call(&self, request: &Request<'_>) -> Result<Reply, Fault> {
        self.room().await;
        self.begin(request).reply().await
    }

    /// Sends a request that is answered by a status.
    pub(super) async fn act(&self, request: &Request<'_>) -> Result<(), Fault> {
        done(self.call(request).await?)
    }

    /// Returns a packet to be filled with data of a file.
    pub(super) fn packet(&self, handle: &Handle, offset: u64, data_bytes: usize) -> PacketInHand {
        self.client.borrow_mut().packet(handle, offset, data_bytes)
    }

    /// Writes the data of a packet.
    pub(super) async fn write(&self, packet: PacketInHand) -> Result<Pending, Fault> {
        self.room().await;
        Ok(self.write_now(packet))
    }

    /// Writes `length` bytes of a file at this end, from `source`.
    pub(super) async fn write_from(
        &self,
        handle: &Handle,
        offset: u64,
        length: usize,
        source: Source,
    ) -> Result<Pending, Fault> {
        self.room().await;
        if self.is_lost() {
            return Err(Fault::Lost);
        }
        self.note_beginning();
        let id = self.client.borrow_mut().write_from(handle, offset, length);
        self.sources.borrow_mut().push_back(source);
        Ok(self.ask(id))
    }

    /// Does the same at once, for a packet of a file whose other requests follow immediately.
    pub(super) fn write_now(&self, packet: PacketInHand) -> Pending {
        if self.is_lost() {
            return Pending(Rc::new(RefCell::new(Slot { reply: Some(Err(Fault::Lost)), waker: None })));
        }
        self.note_beginning();
        let id = self.client.borrow_mut().send(packet);
        self.ask(id)
    }

    /// Returns the attributes of an entry, `None` if there is none of this name. Of a link only its kind is known if the
    /// server tells the attributes of what it points to.
    pub(super) async fn lstat(&self, path: &[u8]) -> Result<Option<Attributes>, Fault> {
        self.room().await;
        let looked = self.begin(&Request::Lstat { path });
        if self.treats_links_as_openssh() {
            return found(looked.reply().await?);
        }
        // ProFTPD follows links here. Only a link can be read as one.
        let read = self.begin(&Request::ReadLink { path }).reply();
        let (looked, read) = join(looked.reply(), read).await;
        let looked = found(looked?);
        match read? {
            Reply::Names(names) if names.iter().all(|text| text.name != path) => {
                let of_link = looked.ok().flatten().filter(|found| found.kind() == FileKind::Symlink);
                let hidden = Attributes { mode: Some(LINK_MODE), ..Attributes::default() };
                Ok(Some(of_link.unwrap_or(hidden)))
            }
            _ => looked,
        }
    }

    /// Returns the attributes of an entry with links followed, `None` if that does not exist.
    pub(super) async fn stat(&self, path: &[u8]) -> Result<Option<Attributes>, Fault> {
        found(self.call(&Request::Stat { path }).await?)
    }

    pub(super) async fn open(&self, path: &[u8], access: Access) -> Result<Handle, Fault> {
        // Nobody else may read an incomplete file.
        let mode = (access == Access::Create).then_some(0o600);
        let attributes = Attributes { mode, ..Attributes::default() };
        match self.call(&Request::Open { path, access, attributes }).await? {
            Reply::Handle(handle) => Ok(handle),
            reply => Err(said(reply)),
        }
    }

    pub(super) async fn path_of(&self, request: &Request<'_>) -> Result<Vec<u8>, Fault> {
        match self.call(request).await? {
            Reply::Names(mut names) if names.len() == 1 => Ok(names.remove(0).name),
            reply => Err(said(reply)),
        }
    }

    /// Returns all names of a directory except `.` and `..`, at most `names_max`; `None` if there are more, or more than
    /// memory is meant for. Only one directory at a time may have a long list.
    pub(super) async fn list(&self, path: &[u8], names_max: usize) -> Result<Option<Vec<Name>>, Fault> {
        let _leave = self.leave().await;
        let handle = match self.call(&Request::OpenDirectory { path }).await? {
            Reply::Handle(handle) => handle,
            reply => return Err(said(reply)),
        };
        let outcome = self.list_open(&handle, names_max).await;
        self.act(&Request::Close { handle: &handle }).await.ok();
        outcome
    }

    async fn list_open(&self, handle: &Handle, names_max: usize) -> Result<Option<Vec<Name>>, Fault> {
        let mut names = Vec::new();
        // Names that are left out count too: a server may have nothing else, for ever.
        let (mut count, mut bytes) = (0, 0);
        let mut long = None;
        loop {
            let more = match self.call(&Request::ReadDirectory { handle }).await? {
                // A server that has no more names and does not report it would never end.
                Reply::Names(more) if more.is_empty() => return Ok(Some(names)),
                Reply::Names(more) => more,
                Reply::Status(status) if status.code == StatusCode::EndOfFile => return Ok(Some(names)),
                reply => return Err(said(reply)),
            };
            count += more.len();
            bytes += more.iter().map(|found| found.name.len() + size_of::<Name>()).sum::<usize>();
            if count > names_max || bytes > LIST_BYTES_MAX {
                return Ok(None);
            }
            names.extend(more.into_iter().filter(|found| found.name != b"." && found.name != b".."));
            if bytes > SHORT_LIST_BYTES_MAX && long.is_none() {
                long = Some(self.long_list.lock().await);
            }
        }
    }

    /// Sends as much as the kernel accepts.
    pub(super) fn flush(&self) {
        while !self.is_lost() {
            let Some(sent) = self.send() else { return };
            match sent {
                Ok(sent) => {
                    self.client.borrow_mut().transmitted(sent);
                    self.heard.set(Instant::now());
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Err(_) => self.ended(),
            }
        }
    }

    /// Sends some of the next bytes, if there are any, and returns how many.
    fn send(&self) -> Option<Result<usize, Errno>> {
        let client = self.client.borrow();
        let mut outgoing = client.poll_transmit();
        Some(match outgoing.next()? {
            Outgoing::Data { bytes } => self.send_data(bytes),
            Outgoing::Bytes(first) => {
                let further = outgoing.map_while(|piece| match piece {
                    Outgoing::Bytes(bytes) => Some(bytes),
                    Outgoing::Data { .. } => None,
                });
                let pieces = iter::once(first).chain(further).take(PIECES_MAX);
                rustix::io::writev(&self.socket, &pieces.map(IoSlice::new).collect::<Vec<_>>())
            }
        })
    }

    /// Sends some of the `left` bytes that are left of the next file's data.
    fn send_data(&self, left: usize) -> Result<usize, Errno> {
        let mut sources = self.sources.borrow_mut();
        let source = sources.front_mut().expect("each request for data of a file has its source");
        let sent = source.send(&self.socket, left)?;
        if sent == left {
            sources.pop_front();
        }
        Ok(sent)
    }

    /// Receives the available bytes, and distributes the replies.
    pub(super) fn receive(&self, scratch: &mut [u8]) {
        let mut received = 0;
        while received < TURN_BYTES && !self.is_lost() {
            let mut client = self.client.borrow_mut();
            let knew_limits = client.knows_limits();
            let (read, taken) = match client.space() {
                Some(space) => {
                    let read = (&self.socket).read(space);
                    let taken = client.filled(*read.as_ref().unwrap_or(&0));
                    (read, taken)
                }
                None => {
                    let read = (&self.socket).read(scratch);
                    let taken = client.handle(&scratch[..*read.as_ref().unwrap_or(&0)]);
                    (read, taken)
                }
            };
            drop(client);
            match (read, taken) {
                (Err(error), _) if error.kind() == io::ErrorKind::WouldBlock => return,
                (Err(error), _) if error.kind() == io::ErrorKind::Interrupted => {}
                (Ok(0) | Err(_), _) => self.ended(),
                (Ok(read), Ok(())) => {
                    received += read;
                    let now = Instant::now();
                    self.heard.set(now);
                    self.first_heard.set(self.first_heard.get().or(Some(now)));
                    if !knew_limits && self.client.borrow().knows_limits() {
                        self.learn_limits();
                    }
                    self.hand_out();
                }
                (Ok(_), Err(malformed)) => {
                    self.hand_out();
                    self.confused(&malformed);
                }
            }
        }
    }

    /// Ends the child, for a caller that has all replies.
    pub(super) fn end(&self) {
        self.process.borrow().terminate();
    }

    /// The server has reported its limits, or that it has none.
    fn learn_limits(&self) {
        let heard = self.first_heard.get().filter(|_| self.has(Extension::Limits));
        self.round_trip.set(heard.map(|heard| heard.elapsed()));
        let handles = (self.limits().handles as usize).saturating_sub(HANDLES_SPARED);
        let useful = self.round_trip().map_or(HANDLES_UNKNOWN_PATH, useful_handles);
        self.handles_free.set(handles.clamp(1, useful));
        self.for_handles.borrow_mut().drain(..).for_each(Waker::wake);
    }

    fn confused(&self, malformed: &Malformed) {
        let was_greeted = self.is_greeted();
        let message = match was_greeted {
            true => format!("the SFTP server of {} breaks the protocol: {malformed}", self.host),
            false => format!("{} does not answer as an SFTP server: {malformed}", self.host),
        };
        self.fail(Error::protocol(message));
    }

    fn hand_out(&self) {
        loop {
            let reply = self.client.borrow_mut().poll_reply();
            let Some((id, reply)) = reply else { break };
            self.settle(id, Ok(reply));
        }
        self.for_room.borrow_mut().drain(..).for_each(Waker::wake);
    }

    fn settle(&self, id: RequestId, reply: Result<Reply, Fault>) {
        let Some(slot) = self.waiting.borrow_mut().remove(&id) else { return };
        let mut slot = slot.borrow_mut();
        slot.reply = Some(reply);
        if let Some(waker) = slot.waker.take() {
            waker.wake();
        }
    }

    /// Takes back a used buffer of data.
    pub(super) fn recycle(&self, buffer: Vec<u8>) {
        self.client.borrow_mut().recycle(buffer);
    }

    pub(super) fn check_silence(&self, timeout: Duration) {
        let owes = self.client.borrow().requests_under_way() > 0;
        if owes && self.heard.get().elapsed() > timeout {
            let message = format!("{} is silent; is it stopped, or the network down?", self.host);
            self.fail(Error::new(ErrorKind::TimedOut, message));
        }
    }

    /// Handles the end of the child, whose status may give the reason.
    fn ended(&self) {
        let host = &self.host;
        let was_greeted = self.is_greeted();
        let status = match self.process.borrow_mut().wait(Instant::now() + LAST_WORDS) {
            Err(ChannelError::ChildFailed { status, .. }) => status.code(),
            Ok(_) => Some(0),
            Err(_) => None,
        };
        let error = match (status, was_greeted) {
            (Some(255) | None, false) if !self.is_logged_in => {
                Error::new(ErrorKind::Connect, format!("ssh could not reach {host} or log in"))
            }
            (_, false) => {
                let message = format!(
                    "{host} offers no SFTP: its sshd has no subsystem of that name, or another program answers"
                );
                Error::new(ErrorKind::Connect, message)
            }
            // OpenSSH's server exits with this status after a malformed packet.
            (Some(11), true) => {
                Error::protocol(format!("the SFTP server of {host} did not understand a request"))
            }
            (_, true) => Error::new(ErrorKind::Disconnected, format!("the connection to {host} was lost")),
        };
        self.fail(error);
    }

    /// Makes the connection unusable: all tasks that wait for a reply get the error.
    pub(super) fn fail(&self, error: Error) {
        self.lost.borrow_mut().get_or_insert(error);
        let ids: Vec<_> = self.waiting.borrow().keys().copied().collect();
        ids.into_iter().for_each(|id| self.settle(id, Err(Fault::Lost)));
        self.client.borrow_mut().abandon();
        self.sources.borrow_mut().clear();
        self.for_room.borrow_mut().drain(..).for_each(Waker::wake);
        self.for_handles.borrow_mut().drain(..).for_each(Waker::wake);
    }
}

fn found(reply: Reply) -> Result<Option<Attributes>, Fault> {
    match reply {
        Reply::Attributes(attributes) => Ok(Some(attributes)),
        Reply::Status(status) if status.code == StatusCode::NoSuchFile => Ok(None),
        reply => Err(said(reply)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_files_are_open_on_a_longer_path_up_to_a_bound() {
        let useful = [0, 20, 100, 10_000].map(|ms| useful_handles(Duration::from_millis(ms)));
        assert_eq!(useful, [HANDLES_SHORT_PATH, 448, 1728, HANDLES_MAX]);
    }
}
