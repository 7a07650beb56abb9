//! The far host: its connections, their setup, and paths as its server resolves them.
//!
//! Guarantees: the first login is the user's own, with ssh's prompts and configuration; the second is made alone, and
//! at most eight of the others at a time; a refused login is not retried.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use futures_util::{
    StreamExt,
    future::{Either, join, select},
    lock::Mutex,
    stream::FuturesUnordered,
};
use sealane_peer::{RemoteCommand, Sharing, SshCommand, StderrMode};
use sealane_sftp::{Extension, Filesystem, Reply, Request, StatusCode};
use std::pin::pin;

use crate::{
    error::{Error, ErrorKind},
    growth::LONG_PATH,
    login::Login,
    sftp::{
        adding::Adding,
        link::{Fault, Link},
        reactor::Reactor,
        sums::{LENGTH_BYTES_MIN, SCRIPT, Sum, Sums},
    },
    summary::Progress,
    transfer::{complaints::complain, terms::STREAMS_DEFAULT_MAX},
};

/// The maximum number of simultaneous logins: half of the number from which sshd refuses some (MaxStartups
/// 10:30:100).
const LOGINS_MAX: usize = 8;
/// The number of connections that are added on a short path without being requested.
const SHORT_PATH_MAX: u16 = 4;
/// The window of a channel of ssh, in bytes (OpenSSH, `channels.h`).
const CHANNEL_WINDOW: u64 = 2 << 20;
/// The content for which one more channel is opened.
const CHANNEL_BYTES_MIN: u64 = 8 * CHANNEL_WINDOW;
/// The number of entries for which one more channel is opened: each file takes three round trips, and a server
/// completes those of one channel one after the other.
const CHANNEL_ENTRIES_MIN: u64 = 2000;
/// The interval between two checks of the need for more connections.
const LOOK: Duration = Duration::from_millis(50);

/// The reason why an entry, or the whole transfer, did not succeed.
#[derive(Clone, Debug)]
pub(super) enum Trouble {
    /// The connection is lost: its unfinished work must be repeated on another.
    Lost,
    /// This entry cannot be copied, for a reason that names it.
    Entry(String),
    /// The transfer is over.
    Fatal(Error),
}

/// The way to reach a far host, and its connections.
pub(super) struct Far {
    pub(super) reactor: Reactor,
    pub(super) host: String,
    login: Arc<Login>,
    first: RefCell<Option<Rc<Link>>>,
    /// A second connection that was begun as soon as the first had logged in.
    second: RefCell<Option<Rc<Link>>>,
    next: Cell<usize>,
    /// Wall time of the first login.
    login_time: Cell<Duration>,
    timeout: Duration,
    /// The program for digests there: the outer option is set once it was looked for.
    sums: Mutex<Option<Option<Rc<Sums>>>>,
    /// Held by the list of names that may be long, whatever connection it comes by.
    long_list: Rc<Mutex<()>>,
    progress: Arc<Progress>,
}

impl Far {
    /// Opens the first channel or connection, and waits for the greeting as long as the user may need to log in. If several
    /// connections are `asked` for, the second begins its login then.
    pub(super) fn connect(
        login: Arc<Login>,
        host: &str,
        asked: Option<u16>,
        progress: &Arc<Progress>,
        timeout: Duration,
        patience: Duration,
    ) -> Result<Rc<Self>, Error> {
        let far = Rc::new(Self {
            reactor: Reactor::new(progress.clone(), timeout),
            host: host.to_owned(),
            login,
            first: RefCell::default(),
            second: RefCell::default(),
            next: Cell::new(0),
            login_time: Cell::default(),
            timeout,
            sums: Mutex::default(),
            long_list: Rc::default(),
            progress: progress.clone(),
        });
        let began = Instant::now();
        far.reactor.run(async {
            let first = far.first()?;
            let waited = pin!(far.reactor.sleep(patience));
            match select(pin!(first.greeted()), waited).await {
                Either::Left((greeted, _)) => greeted?,
                Either::Right(_) => {
                    let message =
                        format!("{} does not answer; is it stopped, or the network down?", far.host);
                    return Err(Error::new(ErrorKind::TimedOut, message));
                }
            }
            far.login_time.set(far.login.time().unwrap_or_default() + began.elapsed());
            if asked.is_some_and(|asked| asked > 1) {
                *far.second.borrow_mut() = far.start(far.login.apart(), true).ok();
            }
            if !first.has(Extension::Limits) {
                let asked = Instant::now();
                let home = Request::RealPath { path: b"." };
                first.path_of(&home).await.map_err(|fault| far.error(&first, "its home folder", fault))?;
                first.set_round_trip(asked.elapsed());
            }
            *far.first.borrow_mut() = Some(first);
            Ok(())
        })?;
        Ok(far)
    }

    /// Starts the first channel or connection.
    fn first(&self) -> Result<Rc<Link>, Error> {
        let mut ssh = self.login.command();
        if self.login.is_shared() {
            // Nothing is asked here any more.
            ssh.stderr = StderrMode::Relay(Arc::new(complain));
        }
        self.start(ssh, true)
    }

    /// Starts one more connection, or one more channel of the first connection.
    fn start(&self, ssh: SshCommand, is_own: bool) -> Result<Rc<Link>, Error> {
        let index = self.next.replace(self.next.get() + 1);
        let process = ssh.spawn(RemoteCommand::Sftp)?;
        let is_logged_in = matches!(ssh.sharing, Sharing::Through(_));
        let link = Link::new(index, (is_own, is_logged_in), process, self.long_list.clone(), &self.host);
        let link = link.map_err(|error| Error::io("cannot use a connection", &error))?;
        self.reactor.add(link.clone());
        Ok(link)
    }

    /// Returns the command for one more process on the shared connection; `None` if there is none.
    fn through(&self) -> Option<SshCommand> {
        let mut ssh = self.login.command();
        ssh.stderr = StderrMode::Relay(Arc::new(|_| ()));
        self.login.is_shared().then_some(ssh)
    }

    /// Returns the digest of a far file by the far host's own program, if it is long and the account has a shell with
    /// such a program.
    pub(super) async fn sum(&self, path: &[u8], size_bytes: u64) -> Option<Sum> {
        if size_bytes < LENGTH_BYTES_MIN {
            return None;
        }
        let sums = {
            let mut sums = self.sums.lock().await;
            match &*sums {
                Some(found) => found.clone(),
                None => sums.insert(self.find_sums().await).clone(),
            }
        };
        sums?.sum(path).await
    }

    async fn find_sums(&self) -> Option<Rc<Sums>> {
        let link = self.any().ok()?;
        let home = link.path_of(&Request::RealPath { path: b"." }).await.ok()?;
        // ProFTPD ends a connection that asks for a command.
        let through = self.through().filter(|_| link.behaves_as_openssh());
        let ssh = through.unwrap_or_else(|| self.login.apart());
        let sums = Sums::new(ssh.spawn(RemoteCommand::Script(SCRIPT)).ok()?).ok()?;
        self.reactor.add_sums(sums.clone());
        let waited = pin!(self.reactor.sleep(self.timeout));
        let is_there = match select(pin!(sums.greeted(&home)), waited).await {
            Either::Left((is_there, _)) => is_there,
            Either::Right(_) => false,
        };
        if !is_there {
            sums.end();
        }
        is_there.then_some(sums)
    }

    /// Adds connections up to `asked`, or by default for as long as they are worth their logins, and a channel where it
    /// helps.
    pub(super) async fn grow(&self, asked: Option<u16>, processors: u16) {
        join(self.widen(asked), self.add_connections(asked, processors)).await;
    }

    /// Opens one more channel of the first connection on a long path, whose windows and servers it doubles without a
    /// login, once there is enough content to fill them.
    async fn widen(&self, asked: Option<u16>) {
        let is_long = self.round_trip() >= LONG_PATH && asked != Some(1);
        let Some(ssh) = self.through().filter(|_| is_long) else { return };
        loop {
            let (found, moved) = self.content();
            let entries = self.progress.files_found.load(Relaxed);
            let entries_left = entries.saturating_sub(self.progress.files_done.load(Relaxed));
            if found.saturating_sub(moved) >= CHANNEL_BYTES_MIN || entries_left >= CHANNEL_ENTRIES_MIN {
                break;
            }
            self.reactor.sleep(LOOK).await;
        }
        // Without it the copy goes on as before.
        let _ = self.start(ssh, false);
    }

    /// Returns the content found so far and the part of it that has arrived, in bytes.
    fn content(&self) -> (u64, u64) {
        (self.progress.bytes_found.load(Relaxed), self.progress.bytes_moved.load(Relaxed))
    }

    async fn add_connections(&self, asked: Option<u16>, processors: u16) {
        match asked {
            Some(asked) => {
                self.log_in(1, asked).await;
            }
            None if self.round_trip() >= LONG_PATH => self.add_while_it_helps(STREAMS_DEFAULT_MAX).await,
            // On a short path processors are the limit.
            None => self.add_while_it_helps(processors.div_ceil(2).clamp(2, SHORT_PATH_MAX)).await,
        }
    }

    /// Adds connections for as long as they raise the rate and are worth their logins.
    async fn add_while_it_helps(&self, most: u16) {
        let (round_trip, login) = (self.round_trip(), self.login_time.get());
        // A connection on a long path has two channels.
        let window = (round_trip >= LONG_PATH).then_some(2 * CHANNEL_WINDOW);
        let mut adding = Adding::new(Instant::now(), most, round_trip, login, window);
        while let Some(pause) = adding.next_look() {
            self.reactor.sleep(pause).await;
            let (found, moved) = self.content();
            let count = adding.count();
            let more = adding.look(Instant::now(), moved, found.saturating_sub(moved));
            if more > 0 {
                match self.log_in(count, count + more).await {
                    true => adding.came(Instant::now(), self.content().1),
                    false => adding.refused(),
                }
            }
        }
    }

    /// Adds connections to `count` until there are `wanted`. Returns false if a login was refused; then no more are
    /// tried.
    async fn log_in(&self, mut count: u16, wanted: u16) -> bool {
        while count < wanted {
            // The second login shows whether logins succeed without the user.
            let logins = if count == 1 { 1 } else { usize::from(wanted - count).min(LOGINS_MAX) };
            let started: FuturesUnordered<_> = (0..logins).map(|_| self.further()).collect();
            let came = started.filter(|came| std::future::ready(*came)).count().await;
            count += came as u16;
            if came < logins {
                return false;
            }
        }
        true
    }

    /// Adds one connection; returns false if that fails.
    async fn further(&self) -> bool {
        let begun = self.second.take().map_or_else(|| self.start(self.login.apart(), true), Ok);
        match begun {
            Ok(link) => link.greeted().await.is_ok(),
            Err(_) => false,
        }
    }

    /// Returns the round trip to the far host, as far as its server has answered.
    fn round_trip(&self) -> Duration {
        self.first.borrow().as_ref().and_then(|first| first.round_trip()).unwrap_or_default()
    }

    /// Returns the connection with the least in flight.
    pub(super) fn link(&self) -> Option<Rc<Link>> {
        let usable = |link: &Rc<Link>| link.is_greeted();
        self.reactor.live().into_iter().filter(usable).min_by_key(|link| link.bytes_under_way())
    }

    /// Returns the same for callers whose transfer is over without a connection.
    pub(super) fn any(&self) -> Result<Rc<Link>, Error> {
        self.link().ok_or_else(|| self.lost())
    }

    /// Returns the reason why there is no connection any more.
    pub(super) fn lost(&self) -> Error {
        let first = self.first.borrow().as_ref().and_then(|link| link.reason());
        first.unwrap_or_else(|| {
            Error::new(ErrorKind::Disconnected, format!("every connection to {} was lost", self.host))
        })
    }

    /// Ends all connections after a transfer that has succeeded, without waiting for the far servers to end, unless the
    /// user's configuration shares them with other programs.
    pub(super) fn end(&self) {
        if self.login.is_shared() {
            self.reactor.live().iter().for_each(|link| link.end());
        }
    }

    /// Returns whether the user has requested the end.
    pub(super) fn is_cancelled(&self) -> bool {
        self.progress.cancel.load(Relaxed)
    }

    /// Returns whether a usable connection has been lost.
    pub(super) fn has_lost(&self) -> bool {
        self.reactor.has_lost()
    }

    /// Returns the cipher that protects what goes to the far host, if ssh has told it.
    pub(super) fn cipher(&self) -> Option<String> {
        self.login.cipher()
    }

    /// Returns the number of usable connections.
    pub(super) fn streams(&self) -> u16 {
        self.reactor.live().iter().filter(|link| link.is_own && link.is_greeted()).count() as u16
    }

    /// Returns a fault as the failure of the whole transfer.
    pub(super) fn error(&self, link: &Link, what: &str, fault: Fault) -> Error {
        match fault {
            Fault::Lost => link.reason().unwrap_or_else(|| self.lost()),
            Fault::Said(status) => {
                let text = String::from_utf8_lossy(&status.message).escape_debug().to_string();
                let said = match status.code {
                    StatusCode::Failure if !text.is_empty() => text,
                    code => code.to_string(),
                };
                Error::new(ErrorKind::Io, format!("{}: {what}: {said}", self.host))
            }
        }
    }

    /// Returns a fault with an entry. `root` lies on the file system in question.
    pub(super) async fn trouble(
        &self,
        link: &Link,
        root: &[u8],
        doing: &str,
        shown: impl std::fmt::Display,
        fault: Fault,
    ) -> Trouble {
        let code = match fault {
            Fault::Lost => return Trouble::Lost,
            Fault::Said(status) => status.code,
        };
        // The single status stands for many reasons; one of them affects every other entry as well.
        if code == StatusCode::Failure && is_full(link, root).await {
            let message = format!("{shown}: cannot {doing}: no room is left on {}", self.host);
            return Trouble::Fatal(Error::new(ErrorKind::DiskFull, message));
        }
        Trouble::Entry(format!("{shown}: cannot {doing}: {} says: {code}", self.host))
    }

    /// Returns whether the account may change owners, as root may: SFTP names no user, but reveals the owner of the
    /// home folder.
    pub(super) async fn may_give_files_away(&self) -> Result<bool, Error> {
        match self.any()?.lstat(b".").await {
            Ok(home) => Ok(home.and_then(|home| home.owner).is_some_and(|owner| owner.uid == 0)),
            Err(Fault::Lost) => Err(self.lost()),
            Err(Fault::Said(_)) => Ok(false),
        }
    }

    /// Returns a path for requests to the server: `~` is a home folder.
    pub(super) async fn expand(&self, path: &[u8]) -> Result<Vec<u8>, Error> {
        let path = if path.is_empty() { b"." } else { path };
        let Some(rest) = path.strip_prefix(b"~") else { return Ok(path.to_vec()) };
        let link = self.any()?;
        let shown = String::from_utf8_lossy(path).escape_debug().to_string();
        let (home, rest) = match rest.iter().position(|&byte| byte == b'/') {
            Some(0) => (Request::RealPath { path: b"." }, &rest[1..]),
            None if rest.is_empty() => (Request::RealPath { path: b"." }, rest),
            slash if link.has(Extension::ExpandPath) => {
                let name = &path[..slash.map_or(path.len(), |slash| slash + 1)];
                (Request::ExpandPath { path: name }, slash.map_or(&[][..], |slash| &rest[slash + 1..]))
            }
            // If nobody has such a home, it is a name like any other.
            _ => return Ok(path.to_vec()),
        };
        let mut expanded = link.path_of(&home).await.map_err(|fault| self.error(&link, &shown, fault))?;
        if !rest.is_empty() {
            expanded.push(b'/');
            expanded.extend_from_slice(rest);
        }
        Ok(expanded)
    }
}

/// Returns whether a file system is full, as far as its server reports it.
async fn is_full(link: &Link, path: &[u8]) -> bool {
    /// File systems reserve some room, and others write meanwhile.
    const ROOM_BYTES_MIN: u64 = 1 << 20;
    let found = file_system(link, path).await;
    found.is_some_and(|found| !found.is_read_only && found.available_bytes < ROOM_BYTES_MIN)
}

/// Returns whether nothing can be written to a file system, as far as its server reports it.
pub(super) async fn is_read_only(link: &Link, path: &[u8]) -> bool {
    file_system(link, path).await.is_some_and(|found| found.is_read_only)
}

async fn file_system(link: &Link, path: &[u8]) -> Option<Filesystem> {
    if !link.has(Extension::StatVfs) {
        return None;
    }
    match link.call(&Request::StatVfs { path }).await {
        Ok(Reply::Filesystem(found)) => Some(found),
        _ => None,
    }
}
