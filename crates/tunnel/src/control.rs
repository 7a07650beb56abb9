//! The control socket: what `sealane tunnel status`, `stats` and `down` ask a running gateway.
//!
//! Guarantees: only the gateway's own user and root can ask (the socket has mode 0600 in a folder of mode 0700); a client that
//! says nothing, too much, or reads slowly costs the gateway a second at most, and its packets nothing.

use std::{
    fs, io,
    io::{Read as _, Write as _},
    os::unix::{
        fs::{DirBuilderExt as _, PermissionsExt as _},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::status::Status;

/// The longest question, in bytes.
const ASK_BYTES_MAX: u64 = 1024;
/// The longest answer, in bytes: a status of the most peers.
const ANSWER_BYTES_MAX: u64 = 256 << 20;
/// What one client may take.
const PATIENCE: Duration = Duration::from_secs(1);

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

/// Looks whether no gateway with this device answers in `folder`.
///
/// # Errors
/// One does.
pub fn refuse_second(folder: &Path, device: &str) -> io::Result<()> {
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
    /// A gateway with this device answers there already, or the system says no.
    pub fn bind(folder: &Path, device: &str) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        refuse_second(folder, device)?;
        let path = path(folder, device);
        // Left by one that was killed.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
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
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut text = Vec::new();
    let mut reader = stream.take(ASK_BYTES_MAX);
    // A question ends with its line; a byte at a time costs nothing at a few bytes.
    let mut byte = [0];
    while reader.read(&mut byte)? == 1 && byte != *b"\n" {
        text.push(byte[0]);
    }
    let ask: Ask = serde_json::from_slice(&text)?;
    let mut reply = serde_json::to_vec(&answer(ask))?;
    reply.push(b'\n');
    (&*stream).write_all(&reply)
}

/// Asks the gateway with this device.
///
/// # Errors
/// None is running, or it does not answer.
pub fn ask(folder: &Path, device: &str, ask: Ask) -> io::Result<Answer> {
    let stream = UnixStream::connect(path(folder, device))?;
    stream.set_read_timeout(Some(10 * PATIENCE))?;
    let mut question = serde_json::to_vec(&ask)?;
    question.push(b'\n');
    (&stream).write_all(&question)?;
    let mut reply = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut reply)?;
    Ok(serde_json::from_slice(&reply)?)
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
    use super::*;

    #[test]
    fn a_gateway_is_asked_and_ends() {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = Listener::bind(folder.path(), "sl9").expect("a socket");
        assert_eq!(running(folder.path()), ["sl9"]);
        // The look above left a connection without a question.
        listener.answer(|_| unreachable!("nothing was asked"));
        assert!(Listener::bind(folder.path(), "sl9").is_err());
        listener.answer(|_| unreachable!("nothing was asked"));
        std::thread::scope(|scope| {
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
