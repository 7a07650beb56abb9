//! Digests of far files, computed at the far host by its own program where the account has a shell.
//!
//! Guarantees: names of files travel on standard input, never in a command; an answer belongs to the file that was
//! asked for at that place in the order; everything that is received is bounded. Without such a program, or with one
//! that answers nonsense, there are no digests, and the caller reads the file back.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    future::poll_fn,
    io::{ErrorKind as IoKind, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    rc::Rc,
    task::{Poll, Waker},
};

use aws_lc_rs::digest::{Context, SHA256};
use sealane_peer::RemoteProcess;
use sealane_tree::OpenFile;

use crate::content;

/// The text for the far shell: it names the program and the folder that relative names start from, then answers each
/// line, the name of a file, by a line that starts with the file's digest.
pub(super) const SCRIPT: &str = "sh -c 'if command -v b3sum >/dev/null; then s=b3sum; \
    elif command -v sha256sum >/dev/null; then s=sha256sum; else exit 1; fi; \
    echo \"sealane $s $(pwd -P)\"; \
    while IFS= read -r f; do $s <\"$f\" || echo -; done'";
/// A shorter file is read back sooner than a process is started for it.
pub(super) const LENGTH_BYTES_MIN: u64 = 1 << 20;
/// The longest line that is accepted.
const LINE_BYTES_MAX: usize = 8 << 10;
/// A file whose digest everybody knows. As a first request it also ends an SFTP server that was started in place of a
/// shell: as the length of a packet its name is too long.
const EMPTY: &[u8] = b"/dev/null";

/// The far host's program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Program {
    Blake3,
    Sha256,
}

impl Program {
    /// Returns the digest of no bytes.
    fn of_nothing(self) -> [u8; 32] {
        match self {
            Self::Blake3 => *blake3::hash(b"").as_bytes(),
            Self::Sha256 => sha256(Context::new(&SHA256)),
        }
    }
}

fn sha256(context: Context) -> [u8; 32] {
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

/// A far file's digest.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Sum {
    Blake3([u8; 32]),
    Sha256([u8; 32]),
}

impl Sum {
    /// Returns the BLAKE3 digest of a near file of this length if the far one has the same content.
    pub(super) fn matching(
        self,
        file: &OpenFile,
        size_bytes: u64,
        is_over: impl Fn() -> bool,
    ) -> Option<[u8; 32]> {
        let mut other = match self {
            Self::Blake3(_) => None,
            Self::Sha256(_) => Some(Context::new(&SHA256)),
        };
        let each = |bytes: &[u8]| other.iter_mut().for_each(|context| context.update(bytes));
        let digest = content::digest_beside(file, size_bytes, is_over, each)?;
        let is_same = match (self, other) {
            (Self::Sha256(far), Some(near)) => far == sha256(near),
            (Self::Blake3(far), _) => far == digest,
            (Self::Sha256(_), None) => false,
        };
        is_same.then_some(digest)
    }
}

#[derive(Default)]
struct Answer {
    /// The outer option is set once there is an answer.
    line: Option<Option<[u8; 32]>>,
    waker: Option<Waker>,
}

/// The program under way, and the requests to it.
pub(super) struct Sums {
    socket: UnixStream,
    /// It ends when this is dropped.
    _process: RemoteProcess,
    outbox: RefCell<VecDeque<u8>>,
    inbox: RefCell<Vec<u8>>,
    /// Those who wait, in the order of their requests.
    waiting: RefCell<VecDeque<Rc<RefCell<Answer>>>>,
    greeting: RefCell<Option<Vec<u8>>>,
    for_greeting: RefCell<Vec<Waker>>,
    program: Cell<Option<Program>>,
    is_over: Cell<bool>,
}

impl Sums {
    pub(super) fn new(process: RemoteProcess) -> std::io::Result<Rc<Self>> {
        let socket = process.socket().try_clone()?;
        socket.set_nonblocking(true)?;
        Ok(Rc::new(Self {
            socket,
            _process: process,
            outbox: RefCell::default(),
            inbox: RefCell::default(),
            waiting: RefCell::default(),
            greeting: RefCell::default(),
            for_greeting: RefCell::default(),
            program: Cell::new(None),
            is_over: Cell::new(false),
        }))
    }

    /// Waits for the program's name and an answer that shows that it works, in a shell that starts from `home` like
    /// the SFTP server: otherwise the same name might mean another file. Returns whether there are digests.
    pub(super) async fn greeted(&self, home: &[u8]) -> bool {
        let first = self.ask(EMPTY);
        poll_fn(|context| {
            if self.is_over.get() || self.greeting.borrow().is_some() {
                return Poll::Ready(());
            }
            self.for_greeting.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
        let program = self.greeting.borrow().as_deref().and_then(|greeting| understood(greeting, home));
        let Some(program) = program else {
            self.end();
            return false;
        };
        let is_right = answered(&first).await == Some(program.of_nothing());
        if is_right {
            self.program.set(Some(program));
        } else {
            self.end();
        }
        is_right
    }

    /// Returns the digest of a far file; `None` if the program gives none.
    pub(super) async fn sum(&self, path: &[u8]) -> Option<Sum> {
        // A line ends where such a name goes on.
        if path.contains(&b'\n') || path.contains(&0) {
            return None;
        }
        let program = self.program.get()?;
        let digest = answered(&self.ask(path)).await?;
        Some(match program {
            Program::Blake3 => Sum::Blake3(digest),
            Program::Sha256 => Sum::Sha256(digest),
        })
    }

    fn ask(&self, path: &[u8]) -> Rc<RefCell<Answer>> {
        let answer = Rc::<RefCell<Answer>>::default();
        if self.is_over.get() {
            answer.borrow_mut().line = Some(None);
            return answer;
        }
        self.waiting.borrow_mut().push_back(answer.clone());
        let mut outbox = self.outbox.borrow_mut();
        outbox.extend(path);
        outbox.push_back(b'\n');
        answer
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    pub(super) fn wants_to_send(&self) -> bool {
        !self.outbox.borrow().is_empty()
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends as much as fits, and takes what has arrived.
    pub(super) fn turn(&self) {
        let mut outbox = self.outbox.borrow_mut();
        while !outbox.is_empty() {
            match (&self.socket).write(outbox.as_slices().0) {
                Ok(sent) => drop(outbox.drain(..sent)),
                Err(error) if error.kind() == IoKind::Interrupted => {}
                Err(error) if error.kind() == IoKind::WouldBlock => break,
                Err(_) => {
                    drop(outbox);
                    return self.end();
                }
            }
        }
        drop(outbox);
        let mut bytes = [0; 4096];
        while !self.is_over.get() {
            match (&self.socket).read(&mut bytes) {
                Ok(0) => return self.end(),
                Ok(read) => self.take(&bytes[..read]),
                Err(error) if error.kind() == IoKind::Interrupted => {}
                Err(error) if error.kind() == IoKind::WouldBlock => return,
                Err(_) => return self.end(),
            }
        }
    }

    fn take(&self, bytes: &[u8]) {
        self.inbox.borrow_mut().extend_from_slice(bytes);
        loop {
            let line: Vec<u8> = {
                let mut inbox = self.inbox.borrow_mut();
                match inbox.iter().position(|&byte| byte == b'\n') {
                    Some(end) => inbox.drain(..=end).take(end).collect(),
                    None if inbox.len() > LINE_BYTES_MAX => break,
                    None => return,
                }
            };
            if self.greeting.borrow().is_none() {
                *self.greeting.borrow_mut() = Some(line);
                self.for_greeting.borrow_mut().drain(..).for_each(Waker::wake);
                continue;
            }
            let Some(waiting) = self.waiting.borrow_mut().pop_front() else { break };
            settle(&waiting, digest_of(&line));
        }
        // A line without end, or one that nobody asked for.
        self.end();
    }

    /// There are no more digests.
    pub(super) fn end(&self) {
        self.is_over.set(true);
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        self.outbox.borrow_mut().clear();
        self.for_greeting.borrow_mut().drain(..).for_each(Waker::wake);
        while let Some(waiting) = self.waiting.borrow_mut().pop_front() {
            settle(&waiting, None);
        }
    }
}

fn settle(answer: &RefCell<Answer>, digest: Option<[u8; 32]>) {
    let mut answer = answer.borrow_mut();
    answer.line = Some(digest);
    if let Some(waker) = answer.waker.take() {
        waker.wake();
    }
}

async fn answered(answer: &RefCell<Answer>) -> Option<[u8; 32]> {
    poll_fn(|context| {
        let mut answer = answer.borrow_mut();
        match answer.line.take() {
            Some(digest) => Poll::Ready(digest),
            None => {
                answer.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    })
    .await
}

/// Returns the program that a greeting names, if it starts from `home`.
fn understood(greeting: &[u8], home: &[u8]) -> Option<Program> {
    let rest = greeting.strip_prefix(b"sealane ")?;
    let (program, start) = match rest.strip_prefix(b"b3sum ") {
        Some(start) => (Program::Blake3, start),
        None => (Program::Sha256, rest.strip_prefix(b"sha256sum ")?),
    };
    (start == home).then_some(program)
}

/// Returns the digest at the start of a line.
fn digest_of(line: &[u8]) -> Option<[u8; 32]> {
    let (digits, rest) = line.split_at_checked(64)?;
    if !matches!(rest.first(), None | Some(b' ')) {
        return None;
    }
    let mut digest = [0; 32];
    for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16);
        *byte = (digit(0)? * 16 + digit(1)?) as u8;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_and_digests_are_understood_or_refused() {
        assert_eq!(understood(b"sealane b3sum /srv/u", b"/srv/u"), Some(Program::Blake3));
        assert_eq!(understood(b"sealane sha256sum /", b"/"), Some(Program::Sha256));
        for (greeting, home) in [
            (&b"Welcome"[..], &b"/"[..]),
            (b"sealane b3sum /srv/u", b"/"),
            (b"sealane md5sum /", b"/"),
            (b"sealane b3sum", b""),
            (b"", b""),
        ] {
            assert_eq!(understood(greeting, home), None);
        }
        let empty = b"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(digest_of(&[empty, &b"  -"[..]].concat()), Some(Program::Sha256.of_nothing()));
        assert_eq!(digest_of(empty), Some(Program::Sha256.of_nothing()));
        for line in [&b"-"[..], b"", &empty[1..], &[empty, &b"00"[..]].concat(), &b"x".repeat(64)] {
            assert_eq!(digest_of(line), None);
        }
    }
}
