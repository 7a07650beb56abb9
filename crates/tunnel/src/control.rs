//! The control socket: what `sealane tunnel status`, `stats` and `down` ask a running gateway.
//!
//! Guarantees: only the user who brought the gateway up, and root, can ask (the socket has mode 0600 from its first moment, in a
//! folder into which nobody else can write); a client that says nothing, too much, or a byte now and then, or reads slowly, costs the
//! gateway a second at most, and its packets nothing.

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

/// The longest question, in bytes.
const ASK_BYTES_MAX: usize = 1024;
/// The longest answer, in bytes: a status of the most peers.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// The time of one client, for question and answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// The time of a gateway to answer, whose housekeeper may be at other work.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);
/// The time of a gateway to end, once it has said that it does.
const END_PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at whether it has.
const LOOK: Duration = Duration::from_millis(10);

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// How it is.
    Status,
    /// To end.
    Down,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// How it is.
    Status(Status),
    /// It ends.
    Ending,
}

/// Where gateways of this user have their sockets.
pub fn folder() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/run/sealane");
    }
    PathBuf::from(format!("/run/user/{}/sealane", rustix::process::geteuid().as_raw()))
}

/// The socket of the gateway with this device.
pub fn path(folder: &Path, device: &str) -> PathBuf {
    folder.join(format!("tunnel-{device}.sock"))
}

/// The listening end; the socket file goes with it.
#[derive(Debug)]
pub struct Listener {
    listener: UnixListener,
    path: PathBuf,
}

/// Looks whether no gateway with this device answers in `folder`, and nobody else could put a socket there. A folder that is
/// missing has neither.
///
/// # Errors
/// One does, or somebody could.
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
    /// Listens in `folder`, which is made if it is missing.
    ///
    /// # Errors
    /// A gateway with this device answers there already, somebody else could put a socket there, or the system says no.
    pub fn bind(folder: &Path, device: &str) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        refuse_second(folder, device)?;
        let path = path(folder, device);
        // Left by one that was killed.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // The mask holds for the whole process, and this is no moment at which it makes other files.
        let mask = umask(Mode::from_raw_mode(0o177));
        let bound = UnixListener::bind(&path);
        umask(mask);
        let listener = bound?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, path })
    }

    /// The socket, for polling.
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// Answers one client that waits, if there is one. A client's faults are its own.
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
    // A question ends with its line.
    let text = read_until(stream, deadline, ASK_BYTES_MAX, |bytes| bytes.ends_with(b"\n"))?;
    let ask: Ask = serde_json::from_slice(&text)?;
    let mut reply = serde_json::to_vec(&answer(ask))?;
    reply.push(b'\n');
    write_all(stream, deadline, &reply)
}

/// The time that is left: every read and write has its own limit, which alone would let a byte now and then go on for ever.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    // No time at all would mean any time to the socket.
    if left < Duration::from_millis(1) { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Reads until the end, or until `is_whole` says so.
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

/// Asks the gateway with this device.
///
/// # Errors
/// None is running, or it does not answer.
pub fn ask(folder: &Path, device: &str, ask: Ask) -> io::Result<Answer> {
    let stream = UnixStream::connect(path(folder, device))?;
    let deadline = Instant::now() + ANSWER_PATIENCE;
    let mut question = serde_json::to_vec(&ask)?;
    question.push(b'\n');
    write_all(&stream, deadline, &question)?;
    Ok(serde_json::from_slice(&read_until(&stream, deadline, ANSWER_BYTES_MAX, |_| false)?)?)
}

/// Waits until the gateway that said that it ends has done so, and takes away its socket where it could not do that itself: one
/// that has become another user may not.
///
/// # Errors
/// It still answers, or the system says no.
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
/// None is running, it does not answer, or it does not end.
pub fn end(folder: &Path, device: &str) -> io::Result<()> {
    let stream = UnixStream::connect(path(folder, device))?;
    let gateway = rustix::net::sockopt::socket_peercred(&stream)?.pid;
    // Without it (before Linux 5.3) the answer has to do.
    let gateway = rustix::process::pidfd_open(gateway, PidfdFlags::empty());
    drop(stream);
    ask(folder, device, Ask::Down)?;
    let until = Instant::now() + END_PATIENCE;
    while let Ok(gateway) = &gateway {
        let left = until.saturating_duration_since(Instant::now());
        let mut polled = [PollFd::new(gateway, PollFlags::IN)];
        // It also comes back for a signal.
        sealane_stack::wait(&mut polled, left)?;
        if !polled[0].revents().is_empty() {
            break;
        }
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    wait_for_end(folder, device)
}

/// Devices of this user's gateways that run.
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
        // Were each byte to start the time anew, all that a question may have would come.
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
        // The socket of a gateway that may not take it away itself.
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
        // The look above left a connection without a question.
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
