//! What can go wrong, in fields: while reaching a peer ([`PeerError`]) and on a channel that stands ([`ChannelError`]).

use std::io;
use std::path::PathBuf;

use crate::channel::PeerName;
use crate::frame::{FrameError, MAX_FRAME_BYTES};
use crate::key::{KeyFault, PublicKey};
use crate::location::HostPort;

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
        /// What the system said.
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
    /// The key file holds no Ed25519 key in PKCS#8 PEM.
    #[error("{} is not an Ed25519 private key in PEM (PKCS#8)", path.display())]
    IdentityMalformed {
        /// The key file.
        path: PathBuf,
    },
    /// The cryptographic library refused; it has no more to say.
    #[error("the cryptographic library cannot {doing}")]
    Crypto {
        /// A verb in plain words.
        doing: &'static str,
    },
    /// A line of a trust file cannot be understood.
    #[error("{}:{line}: {fault}", path.as_deref().unwrap_or_else(|| "<text>".as_ref()).display())]
    TrustLine {
        /// The file, if the text came from one.
        path: Option<PathBuf>,
        /// Line number, from 1.
        line: usize,
        /// What is wrong with it.
        fault: TrustFault,
    },
    /// Others may write to a trust file, and so decide whom we trust.
    #[error("{} may be written by others than its owner (mode {mode:04o}); `chmod go-w` it", path.display())]
    TrustExposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A trust file belongs to somebody else, who so decides whom we trust.
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
         Compare it with what `sealane id` prints on the server, then connect once with --accept-new, or add the line \
         `{address} {key}` to {}",
        key.fingerprint(), file.display()
    )]
    UnknownServer {
        /// Where we connected.
        address: HostPort,
        /// The key it proved to be about to use.
        key: PublicKey,
        /// The file that would make it known.
        file: PathBuf,
    },
    /// The server shows another key than the known one.
    #[error(
        "the server {address} has the key\n  {found}\nbut the known one is\n  {known}\n\
         Someone may be intercepting the connection, or the server has a new key. If you are sure of the latter, \
         `sealane peers --forget {address}` and connect once with --accept-new, or replace its line in {place}"
    )]
    WrongServer {
        /// Where we connected.
        address: HostPort,
        /// The key it showed.
        found: PublicKey,
        /// One that it should have shown.
        known: PublicKey,
        /// Where the known key is written.
        place: String,
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
        /// What was asked for.
        address: HostPort,
        /// What the resolver said.
        source: io::Error,
    },
    /// No address of a host could be connected to.
    #[error("cannot connect to {address}")]
    Connect {
        /// What was asked for.
        address: HostPort,
        /// What the last attempt said.
        source: io::Error,
    },
    /// What listens there speaks something else.
    #[error(
        "the server at {address} does not speak TLS; is this the address and port that `sealane serve` printed? \
         (An ssh server is reached as `host:path`.)"
    )]
    NotTls {
        /// Where we connected.
        address: HostPort,
    },
    /// A location cannot be understood.
    #[error("`{text}`: {fault}")]
    Location {
        /// The location, lossily as text.
        text: String,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// A host, user or option would be mistaken for something else on ssh's command line.
    #[error("the ssh {what} `{text}` is refused: {fault}")]
    SshArgument {
        /// Which argument.
        what: &'static str,
        /// Its text.
        text: String,
        /// Why it is refused.
        fault: &'static str,
    },
    /// A program could not be started.
    #[error("cannot start {program}")]
    Spawn {
        /// Which program.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// `ssh -G` gave no host name.
    #[error("`ssh -G` does not say which host `{host}` is: {said}")]
    SshConfig {
        /// The host asked for.
        host: String,
        /// Its complaint, or what was missing.
        said: String,
    },
}

/// Why a line of a trust file is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrustFault {
    /// The file is larger than any honest one.
    #[error("the file exceeds {limit_bytes} bytes")]
    FileTooLong {
        /// The limit.
        limit_bytes: usize,
    },
    /// More entries than the limit.
    #[error("more than {limit} entries")]
    TooManyEntries {
        /// The limit.
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
    /// Something follows where nothing may.
    #[error("unexpected `{text}`")]
    Unexpected {
        /// What follows.
        text: String,
    },
    /// A field's value is wrong.
    #[error("{field}=: {fault}")]
    Value {
        /// Which field.
        field: &'static str,
        /// What is wrong.
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
        /// Where it was first.
        first_line: usize,
    },
    /// The peer's name has characters that would disturb messages and logs.
    #[error("a name is 1 to 64 of the characters A-Z a-z 0-9 . _ @ -")]
    Name,
}

/// A channel broke, ended, or was used for what it cannot do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The other end closed in order, between two frames.
    #[error("the other end closed the connection")]
    Closed,
    /// The other end vanished without closing, or within a frame.
    #[error("the connection was cut off")]
    Truncated,
    /// The deadline passed.
    #[error("no progress in time while {doing}")]
    Deadline {
        /// What was going on.
        doing: &'static str,
    },
    /// The other end broke the framing.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A program that was started prints text where frames belong: its shell greets, or it is another program.
    #[error(
        "{from} prints text before sealane starts: \"{text}\"\nIt comes from a script that the shell there runs at \
         every start (.bashrc, .zshenv, .cshrc), or from a forced command. Let it print on terminals only: begin the \
         script with `case $- in *i*) ;; *) return ;; esac`. `ssh HOST true` must print nothing"
    )]
    Banner {
        /// Who printed it.
        from: PeerName,
        /// The beginning of it, on one line and without control characters.
        text: String,
    },
    /// The caller wants to send more than a frame holds.
    #[error("a frame holds {MAX_FRAME_BYTES} bytes, not {len_bytes}")]
    SendTooLong {
        /// The body's length in bytes.
        len_bytes: usize,
    },
    /// An earlier error left the stream within a frame; it cannot be used any more.
    #[error("the connection broke before")]
    Poisoned,
    /// The server does not accept our key.
    #[error(
        "the server does not accept your key; its operator can add it with\n  sealane authorise {ours} NAME read,write"
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
    /// What arrives is not what the other end sent: its tag is wrong, or it is no message at all.
    #[error(
        "the control connection was altered on the way, or the other end is not a sealane daemon ({source})"
    )]
    Altered {
        /// What TLS found.
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
    /// The other end does not know the only key exchange that we take.
    #[error(
        "the other end does not offer the key exchange X25519MLKEM768, which sealane requires: install the same version at both \
         ends"
    )]
    NoKeyExchange,
    /// Only TLS has an exporter.
    #[error("this channel has no key exporter; it may carry secrets itself")]
    NoExporter,
    /// A child process ended with an error.
    #[error("{program} ended with {}: {meaning}", status.to_string().replacen("status: ", "status ", 1))]
    ChildFailed {
        /// What was started.
        program: String,
        /// Its exit status.
        status: std::process::ExitStatus,
        /// What that usually means.
        meaning: String,
    },
    /// The system said no.
    #[error("{doing}")]
    Io {
        /// What was going on.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl ChannelError {
    pub(crate) fn io(doing: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }
}
