//! The crate's errors, with their details in fields: while reaching a peer ([`PeerError`]) and on an established
//! channel ([`ChannelError`]).

use std::error::Error;
use std::io;
use std::path::PathBuf;

use crate::address::HostPort;
use crate::frame::{FrameError, MAX_FRAME_BYTES};
use crate::key::{KeyFault, PublicKey};
use crate::name::PeerName;

/// A peer could not be reached, or may not be trusted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// The channel, or the attempt to make one, failed.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// A file could not be read or written.
    #[error("cannot {doing} {}", path.display())]
    File {
        /// A verb in plain words.
        doing: &'static str,
        /// Which file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Neither `XDG_CONFIG_HOME` nor `HOME` names a directory.
    #[error("neither XDG_CONFIG_HOME nor HOME says where the configuration is")]
    NoConfigDir,
    /// The key file can be read or written by others.
    #[error("{} may be used by others than its owner (mode {mode:04o}); `chmod 600` it, or make a new key if others had access", path.display())]
    IdentityExposed {
        /// The key file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The key file belongs to another user.
    #[error("{} belongs to user {uid}, not to you", path.display())]
    IdentityForeign {
        /// The key file.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// The key file does not contain a key of ours in PKCS#8 PEM.
    #[error(
        "{} is not a private key in PEM (PKCS#8), of Ed25519 or of Ed25519 and ML-DSA-65 together", path.display()
    )]
    IdentityMalformed {
        /// The key file.
        path: PathBuf,
    },
    /// A hybrid identity was asked for, and the file has a key of Ed25519 alone.
    #[error(
        "{} has a key of Ed25519 alone, which stays as it is. Make a hybrid one in another file (`--identity FILE`), let the \
         peers add its key to their files, then put that file in this one's place", path.display()
    )]
    IdentityNotHybrid {
        /// The key file.
        path: PathBuf,
    },
    /// A program that knows certificates alone is to be shown a hybrid key.
    #[error(
        "the hybrid key {key} has no certificate: no program that reads certificates, such as a NATS server, knows such keys. Use \
         an identity of Ed25519 there: `--identity FILE`, where `sealane id` makes it"
    )]
    NoCertificate {
        /// Our key.
        key: PublicKey,
    },
    /// The cryptographic library failed; it gives no reason.
    #[error("the cryptographic library cannot {doing}")]
    Crypto {
        /// A verb in plain words.
        doing: &'static str,
    },
    /// A line of a trust file is malformed.
    #[error("{}:{line}: {fault}", path.as_deref().unwrap_or_else(|| "<text>".as_ref()).display())]
    TrustLine {
        /// The file, if the text came from one.
        path: Option<PathBuf>,
        /// Line number, from 1.
        line: usize,
        /// The fault of the line.
        fault: TrustFault,
    },
    /// Other users can write to a trust file, and so decide whom we trust.
    #[error("{} may be written by others than its owner (mode {mode:04o}); `chmod go-w` it", path.display())]
    TrustExposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A trust file belongs to another user, who so decides whom we trust.
    #[error("{} belongs to user {uid}, neither to you nor to root", path.display())]
    TrustForeign {
        /// The file.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// A trust file stayed locked by another process.
    #[error("{} is locked by another process", path.display())]
    TrustLocked {
        /// The lock file.
        path: PathBuf,
    },
    /// The server's key is not among the known ones.
    #[error(
        "the server {address} is not known; its key is\n  {key}\n  (fingerprint {})\n\
         Compare it with what `sealane id` prints on the server (`sudo sealane id --daemon` where it is a service), then connect \
         once with --accept-new, or add the line \
         `{address} {key}` to {}",
        key.fingerprint(), file.display()
    )]
    UnknownServer {
        /// The address that we connected to.
        address: HostPort,
        /// The key that the server proved to own.
        key: PublicKey,
        /// The file in which the key would make the server known.
        file: PathBuf,
    },
    /// The server shows another key than the known one.
    #[error(
        "the server {address} has the key\n  {found}\nbut the known one is\n  {known}\n\
         Someone may be intercepting the connection, or the server has a new key. If you are sure of the latter, \
         `sealane peers --forget {address}` and connect once with --accept-new, or replace its line in {place}"
    )]
    WrongServer {
        /// The address that we connected to.
        address: HostPort,
        /// The key it showed.
        found: PublicKey,
        /// One that it should have shown.
        known: PublicKey,
        /// File and line of the known key.
        place: Box<str>,
    },
    /// A client's key is not authorised.
    #[error("the client key {key} is not in the list of authorised peers")]
    NotAuthorised {
        /// The key that the client showed.
        key: PublicKey,
    },
    /// The name of a host could not be resolved.
    #[error("cannot resolve {address}")]
    Resolve {
        /// The requested address.
        address: HostPort,
        /// The resolver's error.
        source: io::Error,
    },
    /// No address of a host could be connected to.
    #[error("cannot connect to {address}")]
    Connect {
        /// The requested address.
        address: HostPort,
        /// The error of the last attempt.
        source: io::Error,
    },
    /// The program that listens there speaks another protocol.
    #[error(
        "the server at {address} does not speak TLS; is this the address and port that `sealane serve` printed? \
         (An ssh server is reached as `host:path`.)"
    )]
    NotTls {
        /// The address that we connected to.
        address: HostPort,
    },
    /// A location cannot be understood.
    #[error("`{text}`: {fault}")]
    Location {
        /// The location, lossily as text.
        text: String,
        /// The fault of the location.
        fault: &'static str,
    },
    /// ssh would mistake a host, user or option on its command line for something else.
    #[error("the ssh {what} `{text}` is refused: {fault}")]
    SshArgument {
        /// Which argument.
        what: &'static str,
        /// The argument that is refused, as text.
        text: String,
        /// Why it is refused.
        fault: &'static str,
    },
    /// A program could not be started.
    #[error("cannot start {program}")]
    Spawn {
        /// Which program.
        program: String,
        /// The system's error.
        source: io::Error,
    },
    /// `ssh -G` gave no host name.
    #[error("`ssh -G` does not say which host `{host}` is: {said}")]
    SshConfig {
        /// The host asked for.
        host: String,
        /// ssh's own message, or the missing part of its answer.
        said: String,
    },
}

/// The reason why a line of a trust file is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrustFault {
    /// The file is larger than the limit.
    #[error("the file exceeds {limit_bytes} bytes")]
    FileTooLong {
        /// The maximum size of such a file.
        limit_bytes: usize,
    },
    /// More entries than the limit.
    #[error("more than {limit} entries")]
    TooManyEntries {
        /// The maximum number of entries of such a file.
        limit: usize,
    },
    /// The line is not printable ASCII.
    #[error("only printable ASCII is allowed (write other bytes of a path as %XX)")]
    NotAscii,
    /// The key is missing or wrong.
    #[error(transparent)]
    Key(#[from] KeyFault),
    /// The `host:port` is missing or wrong.
    #[error("expected `host:port` or `[v6]:port`")]
    Address,
    /// A field is missing.
    #[error("the {field} is missing")]
    Missing {
        /// Which one.
        field: &'static str,
    },
    /// There is text where none is allowed.
    #[error("unexpected `{text}`")]
    Unexpected {
        /// The superfluous text.
        text: String,
    },
    /// A field's value is wrong.
    #[error("{field}=: {fault}")]
    Value {
        /// Which field.
        field: &'static str,
        /// The fault of the value.
        fault: &'static str,
    },
    /// A field is given twice.
    #[error("{field}= is given twice")]
    Twice {
        /// Which one.
        field: &'static str,
    },
    /// The key or the name has an entry already.
    #[error("the same {field} is on line {first_line}")]
    Duplicate {
        /// `key` or `name`.
        field: &'static str,
        /// The line of the first entry.
        first_line: usize,
    },
    /// The peer's name has characters that would disturb messages and logs.
    #[error("a name is 1 to 64 of the characters A-Z a-z 0-9 . _ @ -")]
    Name,
}

/// A channel broke, ended, or was used for an operation that it does not support.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The other end closed in an orderly way, between two frames.
    #[error("the other end closed the connection")]
    Closed,
    /// The other end vanished without closing, or within a frame.
    #[error("the connection was cut off")]
    Truncated,
    /// The deadline passed.
    #[error("no progress in time while {doing}")]
    Deadline {
        /// The operation under way.
        doing: &'static str,
    },
    /// The other end broke the framing.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A program that was started prints text in place of frames: its shell prints a greeting, or it is another
    /// program.
    #[error(
        "{from} prints text before sealane starts: \"{text}\"\nIt comes from a script that the shell there runs at \
         every start (.bashrc, .zshenv, .cshrc), or from a forced command. Let it print on terminals only: begin the \
         script with `case $- in *i*) ;; *) return ;; esac`. `ssh HOST true` must print nothing"
    )]
    Banner {
        /// The peer that printed it.
        from: PeerName,
        /// The beginning of the text, on one line and without control characters.
        text: String,
    },
    /// The caller wants to send more bytes than a frame holds.
    #[error("a frame holds {MAX_FRAME_BYTES} bytes, not {len_bytes}")]
    SendTooLong {
        /// The body's length in bytes.
        len_bytes: usize,
    },
    /// An earlier error cut the stream within a frame, so the channel cannot be used any more.
    #[error("the connection broke before")]
    Poisoned,
    /// The server does not accept our key.
    #[error(
        "the server does not accept your key; its operator can add it with\n  sealane authorise {ours} NAME read,write\n\
         or, where the daemon runs as a service, with\n  sudo sealane authorise --daemon {ours} NAME read,write"
    )]
    Refused {
        /// The key we showed.
        ours: PublicKey,
    },
    /// The client does not accept our key.
    #[error(
        "the client does not know this daemon's key; the user there must compare it with\n  {ours}\n\
         and add it to the known peers, or connect once with --accept-new"
    )]
    Unknown {
        /// The key we showed.
        ours: PublicKey,
    },
    /// The bytes that arrive are not those that the other end sent: a tag is wrong, or they are not a message.
    #[error(
        "the control connection was altered on the way, or the other end is not a sealane daemon ({source})"
    )]
    Altered {
        /// The error of TLS.
        source: rustls::Error,
    },
    /// TLS failed.
    #[error("TLS: {0}")]
    Tls(#[source] rustls::Error),
    /// The other end speaks TLS but not our protocol.
    #[error(
        "the other end speaks another protocol: it is an older or newer sealane, or one end is `sealane tunnel` and the other \
         `sealane cp` or `sealane serve`; look at the port, and install the same version at both ends"
    )]
    WrongProtocol,
    /// The other end does not support the only key exchange that we accept.
    #[error(
        "the other end does not offer the key exchange X25519MLKEM768, which sealane requires: install the same version at both \
         ends"
    )]
    NoKeyExchange,
    /// The other end cannot verify our hybrid key.
    #[error(
        "the other end is an older sealane, which cannot verify this end's hybrid identity: install the same version at both ends, \
         or use an identity of Ed25519 alone here (`--identity FILE`)"
    )]
    NoHybrid,
    /// The other end's signature of the handshake is not one of the key that it shows.
    #[error(
        "the other end does not own the key that it shows, or only half of it: its signature of this connection is not valid. Someone \
         may be posing as the peer; if that is out of the question, the peer's identity file is damaged"
    )]
    NotOwner,
    /// The other end shows bytes that are no key of ours.
    #[error(
        "the other end shows no key that this version knows: it is another program or a newer sealane. Install the same version at \
         both ends"
    )]
    NoKey,
    /// Only a TLS channel has an exporter.
    #[error("this channel has no key exporter; it may carry secrets itself")]
    NoExporter,
    /// A child process ended with an error.
    #[error("{program} ended with {}: {meaning}", status.to_string().replacen("status: ", "status ", 1))]
    ChildFailed {
        /// The program that was started.
        program: String,
        /// Its exit status.
        status: std::process::ExitStatus,
        /// The usual meaning of that status.
        meaning: String,
    },
    /// The system said no.
    #[error("{doing}")]
    Io {
        /// The operation under way.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl ChannelError {
    pub(crate) fn io(doing: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }
}

/// Returns an error and its causes in one line. A cause that the preceding text already contains is left out.
pub fn chain(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(found) = cause {
        let text = found.to_string();
        if !line.contains(&text) {
            line = format!("{line}: {text}");
        }
        cause = found.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_tells_each_cause_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("{words}")]
        struct Told {
            words: &'static str,
            source: Option<Box<Self>>,
        }
        let told = |words, source| Told { words, source: Option::map(source, Box::new) };
        let opening = told("opening a.txt", Some(told("no such file", None)));
        assert_eq!(chain(&told("copying", Some(opening))), "copying: opening a.txt: no such file");
        let whole = told("opening a.txt: no such file", Some(told("no such file", None)));
        assert_eq!(chain(&whole), "opening a.txt: no such file");
    }
}
