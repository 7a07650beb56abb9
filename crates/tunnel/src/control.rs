//! The control socket, through which `sealane tunnel status`, `stats` and `down` query and end a running gateway.
//!
//! Guarantees: only the user who started the gateway, and root, can connect (the socket has mode 0600 from its
//! creation, in a folder that nobody else can write to); a client that sends nothing, too much, or a byte now and
//! then, or reads slowly, costs the gateway at most a second, and its packets nothing.

use std::{
    fs, io,
    io::{Read as _, Write as _},
    os::unix::{
        fs::DirBuilderExt as _,
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags},
    fs::Mode,
    process::{PidfdFlags, umask},
};
use sealane_peer::check_trusted_folder;
use serde::{Deserialize, Serialize};

use crate::status::Status;

/// The maximum length of a question in bytes.
const ASK_BYTES_MAX: usize = 1024;
/// The maximum length of an answer in bytes: a status with the maximum number of peers.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// The time limit of one client, for question and answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// The time limit for a gateway's answer; its housekeeper may be busy.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);
/// The time limit for a gateway to end after it has answered that it will.
const END_PATIENCE: Duration = Duration::from_secs(60);
/// The interval between checks whether it has ended.
const LOOK: Duration = Duration::from_millis(10);

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// Asks for the status.
    Status,
    /// Asks the gateway to read its site file, and the files that it names, again.
    Reload,
    /// Asks the gateway to end.
    Down,
}

/// An answer to an [`Ask`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The answer to [`Ask::Status`].
    Status(Status),
    /// The files are in use; the messages say what has changed.
    Reloaded(Vec<String>),
    /// The files are not good, and nothing has changed.
    Refused(String),
    /// The gateway ends.
    Ending,
}

/// Returns the folder of the control sockets of this user's gateways.
pub fn folder() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/run/sealane");
    }
    PathBuf::from(format!("/run/user/{}/sealane", rustix::process::geteuid().as_raw()))
}

/// Returns the socket of the gateway with this device.
pub fn path(folder: &Path, device: &str) -> PathBuf {
    folder.join(format!("tunnel-{device}.sock"))
}

/// The listening end; the socket file is removed when it is dropped.
#[derive(Debug)]
pub struct Listener {
    listener: UnixListener,
    path: PathBuf,
}

/// Makes the folder of control sockets, if it is missing.
///
/// # Errors
/// Fails if the system refuses.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Checks that no gateway with this device answers in `folder`, and that nobody else could put a socket there. A
/// missing folder passes.
///
/// # Errors
/// Fails if such a gateway answers or somebody else could put a socket there.
pub fn refuse_second(folder: &Path, device: &str) -> io::Result<()> {
    check_trusted_folder(folder)
        .map_err(|error| io::Error::other(format!("its folder is not safe: {error}")))?;
    if UnixStream::connect(path(folder, device)).is_err() {
        return Ok(());
    }
    let message =
        format!("a gateway with device {device} is running: `sealane tunnel down {device}` ends it");
    Err(io::Error::new(io::ErrorKind::AddrInUse, message))
}

impl Listener {
    /// Listens in `folder`, which is created if it is missing.
    ///
    /// # Errors
    /// Fails if a gateway with this device answers there already, if somebody else could put a socket there, or if
    /// the system refuses.
    pub fn bind(folder: &Path, device: &str) -> io::Result<Self> {
        make_folder(folder)?;
        refuse_second(folder, device)?;
        let path = path(folder, device);
        // A gateway that was killed has left it.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // The mask applies to the whole process, which makes no other files at this moment.
        let mask = umask(Mode::from_raw_mode(0o177));
        let bound = UnixListener::bind(&path);
        umask(mask);
        let listener = bound?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, path })
    }

    /// Returns the socket, for polling.
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// Answers one waiting client, if there is one. Errors of the client are ignored.
    pub fn answer(&self, answer: impl FnOnce(Ask) -> Answer) {
        let Ok((stream, _)) = self.listener.accept() else { return };
        let _ = serve(&stream, answer);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn serve(stream: &UnixStream, answer: impl FnOnce(Ask) -> Answer) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let deadline = Instant::now() + PATIENCE;
    // A question ends with the end of the line.
    let text = read_until(stream, deadline, ASK_BYTES_MAX, |bytes| bytes.ends_with(b"\n"))?;
    let ask: Ask = serde_json::from_slice(&text)?;
    let mut reply = serde_json::to_vec(&answer(ask))?;
    reply.push(b'\n');
    write_all(stream, deadline, &reply)
}

/// Returns the time left. Limits per read and per write alone would let a client that sends a byte now and then go on
/// for ever.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    // A timeout of zero would mean no limit to the socket.
    if left < Duration::from_millis(1) { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Reads until the end, or until `is_whole` returns true.
fn read_until(
    mut stream: &UnixStream,
    deadline: Instant,
    bytes_max: usize,
    is_whole: impl Fn(&[u8]) -> bool,
) -> io::Result<Vec<u8>> {
    let (mut text, mut chunk) = (Vec::new(), [0; 4096]);
    while !is_whole(&text) {
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(bytes) if text.len() + bytes > bytes_max => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("more than {bytes_max} bytes"),
                ));
            }
            Ok(bytes) => text.extend_from_slice(&chunk[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(text)
}

fn write_all(mut stream: &UnixStream, deadline: Instant, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(deadline)?))?;
        match stream.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Sends a question to the gateway with this device.
///
/// # Errors
/// Fails if no such gateway runs, or if it does not answer.
pub fn ask(folder: &Path, device: &str, ask: Ask) -> io::Result<Answer> {
    let stream = UnixStream::connect(path(folder, device))?;
    let deadline = Instant::now() + ANSWER_PATIENCE;
    let mut question = serde_json::to_vec(&ask)?;
    question.push(b'\n');
    write_all(&stream, deadline, &question)?;
    Ok(serde_json::from_slice(&read_until(&stream, deadline, ANSWER_BYTES_MAX, |_| false)?)?)
}

/// Waits until a gateway that has answered that it ends has done so, and removes its socket if it could not: a
/// gateway that has become another user is not allowed to.
///
/// # Errors
/// Fails if the gateway still answers, or if the system refuses.
fn wait_for_end(folder: &Path, device: &str) -> io::Result<()> {
    let path = path(folder, device);
    let deadline = Instant::now() + END_PATIENCE;
    loop {
        match UnixStream::connect(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => return Ok(()),
            },
            Err(error) => return Err(error),
            Ok(_) if Instant::now() >= deadline => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => thread::sleep(LOOK),
        }
    }
}

/// Ends the gateway with this device, and waits until its process, and with it the device, is gone.
///
/// # Errors
/// Fails if no such gateway runs, or if it does not answer or does not end.
pub fn end(folder: &Path, device: &str) -> io::Result<()> {
    let stream = UnixStream::connect(path(folder, device))?;
    let gateway = rustix::net::sockopt::socket_peercred(&stream)?.pid;
    // Without it (before Linux 5.3) the answer has to suffice.
    let gateway = rustix::process::pidfd_open(gateway, PidfdFlags::empty());
    drop(stream);
    ask(folder, device, Ask::Down)?;
    let until = Instant::now() + END_PATIENCE;
    while let Ok(gateway) = &gateway {
        let left = until.saturating_duration_since(Instant::now());
        let mut polled = [PollFd::new(gateway, PollFlags::IN)];
        // The wait also ends at a signal.
        sealane_lanes::wait(&mut polled, left)?;
        if !polled[0].revents().is_empty() {
            break;
        }
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    wait_for_end(folder, device)
}

/// Returns the devices of this user's running gateways.
pub fn running(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut devices: Vec<String> = entries
        .filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            let device = name.strip_prefix("tunnel-")?.strip_suffix(".sock")?;
            UnixStream::connect(path(folder, device)).is_ok().then(|| device.to_owned())
        })
        .collect();
    devices.sort();
    devices
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use super::*;

    #[test]
    fn a_byte_now_and_then_gains_no_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = Listener::bind(folder.path(), "sl9").expect("a socket");
        let mode = fs::metadata(path(folder.path(), "sl9")).expect("a socket").mode();
        assert_eq!(mode & 0o7777, 0o600);
        let mut client = UnixStream::connect(path(folder.path(), "sl9")).expect("it listens");
        let sent = thread::scope(|scope| {
            let sender = scope.spawn(move || {
                let mut sent = 0;
                while client.write_all(b" ").is_ok() {
                    sent += 1;
                    thread::sleep(PATIENCE / 10);
                }
                sent
            });
            listener.answer(|_| unreachable!("it is no question"));
            sender.join().expect("no panic")
        });
        // If each byte restarted the time limit, the whole of a long question would arrive.
        assert!(sent < 100, "{sent} bytes");
    }

    #[test]
    fn a_reader_that_does_not_read_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = Listener::bind(folder.path(), "sl9").expect("a socket");
        let mut client = UnixStream::connect(path(folder.path(), "sl9")).expect("it listens");
        client.write_all(b"\"status\"\n").expect("it listens");
        let status = Status {
            device: "x".repeat(64 << 20),
            listen: String::new(),
            up_s: 0,
            cpu_s: 0.0,
            peers: Vec::new(),
            drops: Vec::new(),
            path_messages: Vec::new(),
            queues: Vec::new(),
        };
        listener.answer(|_| Answer::Status(status));
        let mut reply = Vec::new();
        client.read_to_end(&mut reply).expect("it was cut off");
        assert!(reply.len() < 64 << 20);
    }

    #[test]
    fn a_folder_that_others_can_write_into_is_not_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let run = folder.path().join("run");
        fs::create_dir(&run).expect("a folder");
        for mode in [0o777, 0o770] {
            fs::set_permissions(&run, fs::Permissions::from_mode(mode)).expect("a mode");
            let error = Listener::bind(&run, "sl9").expect_err("others may write").to_string();
            assert!(error.contains("go-w"), "{error}");
        }
        fs::set_permissions(&run, fs::Permissions::from_mode(0o755)).expect("a mode");
        let _listener = Listener::bind(&run, "sl9").expect("a socket");
        // The socket of a gateway that is not allowed to remove it itself.
        let left = UnixListener::bind(path(&run, "sl8")).expect("a socket");
        drop(left);
        wait_for_end(&run, "sl8").expect("nobody listens");
        wait_for_end(&run, "sl7").expect("there never was one");
        assert!(!path(&run, "sl8").exists() && path(&run, "sl9").exists());
    }

    #[test]
    fn a_gateway_is_asked_and_ends() {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = Listener::bind(folder.path(), "sl9").expect("a socket");
        assert_eq!(running(folder.path()), ["sl9"]);
        // The check above left a connection without a question.
        listener.answer(|_| unreachable!("nothing was asked"));
        assert!(Listener::bind(folder.path(), "sl9").is_err());
        listener.answer(|_| unreachable!("nothing was asked"));
        thread::scope(|scope| {
            let client = scope.spawn(|| ask(folder.path(), "sl9", Ask::Down));
            while !client.is_finished() {
                listener.answer(|asked| {
                    assert_eq!(asked, Ask::Down);
                    Answer::Ending
                });
            }
            assert_eq!(client.join().expect("no panic").expect("an answer"), Answer::Ending);
        });
        drop(listener);
        assert!(running(folder.path()).is_empty());
        assert!(ask(folder.path(), "sl9", Ask::Status).is_err());
    }

    #[test]
    fn garbage_is_no_question() {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = Listener::bind(folder.path(), "sl9").expect("a socket");
        for text in [&b""[..], b"\n", b"{}\n", b"\"up\"\n", &[0xff; 5000]] {
            let mut stream = UnixStream::connect(path(folder.path(), "sl9")).expect("it listens");
            let _ = stream.write_all(text);
            stream.shutdown(std::net::Shutdown::Write).expect("a stream");
            listener.answer(|_| unreachable!("it is no question"));
        }
    }
}
