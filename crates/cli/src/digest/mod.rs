//! `sealane md5` and the related commands: digests of files, computed and checked, with the messages of md5sum.
//!
//! Guarantees: results come in the order of the names; a file that cannot be read is reported and does not keep the
//! others from being digested; memory does not grow with the size of a file.

mod check;
mod files;
mod line;

#[doc(hidden)]
pub use line::reread_any;

use crate::args::{DigestArgs, Md5Args};
use crate::environment;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::laboratory;
use crate::text;
use aws_lc_rs::digest;
use sealane_transform::Digest;
use std::ffi::OsString;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// A digest that files can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Side by side by `transform`.
    Together(Digest),
    /// By AWS-LC, one message after the other.
    Library(Library),
    /// Side by side by `transform` if a file is read at once, or by chunks of a long one.
    Keccak(Digest),
    /// By the blake3 crate, which has parts of one message side by side.
    Blake3,
}

/// A digest that is computed by a library only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    Sha384,
    Sha512,
}

impl Library {
    fn algorithm(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha384 => &digest::SHA384,
            Self::Sha512 => &digest::SHA512,
        }
    }
}

impl Kind {
    pub(crate) const MD5: Self = Self::Together(Digest::Md5);
    pub(crate) const SHA1: Self = Self::Together(Digest::Sha1);
    pub(crate) const SHA224: Self = Self::Together(Digest::Sha224);
    pub(crate) const SHA256: Self = Self::Together(Digest::Sha256);
    pub(crate) const SHA384: Self = Self::Library(Library::Sha384);
    pub(crate) const SHA512: Self = Self::Library(Library::Sha512);
    pub(crate) const SHA3_224: Self = Self::Keccak(Digest::Sha3_224);
    pub(crate) const SHA3_256: Self = Self::Keccak(Digest::Sha3_256);
    pub(crate) const SHA3_384: Self = Self::Keccak(Digest::Sha3_384);
    pub(crate) const SHA3_512: Self = Self::Keccak(Digest::Sha3_512);
    pub(crate) const KT128: Self = Self::Keccak(Digest::Kt128);
    pub(crate) const KT256: Self = Self::Keccak(Digest::Kt256);

    /// All digests that files can have.
    const ALL: [Self; 13] = [
        Self::MD5,
        Self::SHA1,
        Self::SHA224,
        Self::SHA256,
        Self::SHA384,
        Self::SHA512,
        Self::SHA3_224,
        Self::SHA3_256,
        Self::SHA3_384,
        Self::SHA3_512,
        Self::KT128,
        Self::KT256,
        Self::Blake3,
    ];

    fn bytes(self) -> usize {
        match self {
            Self::Together(digest) | Self::Keccak(digest) => digest.output_bytes(),
            Self::Library(library) => library.algorithm().output_len(),
            Self::Blake3 => blake3::OUT_LEN,
        }
    }

    /// Returns the name in lines of the BSD style.
    fn tag(self) -> &'static str {
        match self {
            Self::Together(Digest::Md5) => "MD5",
            Self::Together(Digest::Sha1) => "SHA1",
            Self::Together(Digest::Sha224) => "SHA224",
            Self::Together(_) => "SHA256",
            Self::Keccak(Digest::Sha3_224) => "SHA3-224",
            Self::Keccak(Digest::Sha3_256) => "SHA3-256",
            Self::Keccak(Digest::Sha3_384) => "SHA3-384",
            Self::Keccak(Digest::Sha3_512) => "SHA3-512",
            Self::Keccak(Digest::Kt128) => "KT128",
            Self::Keccak(_) => "KT256",
            Self::Library(Library::Sha384) => "SHA384",
            Self::Library(Library::Sha512) => "SHA512",
            Self::Blake3 => "BLAKE3",
        }
    }
}

/// The result for a file.
type Found = Result<Vec<u8>, io::Error>;

/// Runs `sealane md5`, which is also the time trial.
pub(crate) fn md5(arguments: &Md5Args) -> Result<ExitStatus, Failure> {
    if arguments.time_trial { time_trial(arguments) } else { run(Kind::MD5, &arguments.digest) }
}

/// Digests or checks.
pub(crate) fn run(kind: Kind, arguments: &DigestArgs) -> Result<ExitStatus, Failure> {
    let kernels = environment::kernels().map_err(|error| Failure::new(ExitStatus::Usage, error))?;
    let names = match &*arguments.files {
        [] => vec![PathBuf::from("-")],
        some => some.to_vec(),
    };
    if arguments.check {
        return check::run(kind, &kernels, arguments, &names);
    }
    let style = line::Style { tag: arguments.tag, zero: arguments.zero, binary: arguments.binary };
    let mut output = Output::new();
    let mut failed = false;
    files::digest(kind, &kernels, &names, |index, found, more| {
        let name = &names[index];
        match found {
            Ok(digest) => {
                output.write(&line::compose(kind, style, name.as_os_str().as_bytes(), &digest), more)
            }
            Err(error) => {
                failed = true;
                output.flush()?;
                complain(name, &error);
                Ok(())
            }
        }
    })?;
    output.flush()?;
    Ok(if failed { ExitStatus::Partial } else { ExitStatus::Success })
}

/// Standard output, flushed when no further result is ready.
struct Output(BufWriter<io::Stdout>);

impl Output {
    fn new() -> Self {
        Self(BufWriter::new(io::stdout()))
    }

    fn write(&mut self, bytes: &[u8], more: bool) -> Result<(), Failure> {
        self.0.write_all(bytes).map_err(Failure::output)?;
        if more { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.0.flush().map_err(Failure::output)
    }
}

fn complain(name: &Path, error: &io::Error) {
    text::complain(format_args!("{}: {error}", text::printable(name.as_os_str().as_bytes())));
}

/// Lets the laboratory run the trial. With -t the driver's `-c` is a number and not a switch, and so the number is where a file
/// would be.
fn time_trial(arguments: &Md5Args) -> Result<ExitStatus, Failure> {
    let wrong = |error: anyhow::Error| Failure::new(ExitStatus::Usage, error);
    let number = |text: &OsString| text.to_str().and_then(|text| text.parse::<u32>().ok());
    let given: Vec<OsString> = arguments.digest.files.iter().map(|file| file.clone().into()).collect();
    let count = match (&*given, arguments.digest.check, arguments.count) {
        ([], false, count) => count,
        ([number_text], true, None) => match number(number_text) {
            Some(count) if count > 0 => Some(count),
            _ => return Err(wrong(anyhow::anyhow!("with -t, -c takes the number of blocks, 1 or more"))),
        },
        _ => return Err(wrong(anyhow::anyhow!("with -t no files are read, and -c takes one number"))),
    };
    let mut words: Vec<OsString> = vec!["-t".into()];
    for (name, value) in [("-c", count.map(u64::from)), ("-l", arguments.length)] {
        if let Some(value) = value {
            words.extend([name.into(), value.to_string().into()]);
        }
    }
    for (name, is_given) in
        [("-s", arguments.skip_initialisation), ("-r", arguments.random), ("-d", arguments.double_buffer)]
    {
        words.extend(is_given.then(|| name.into()));
    }
    laboratory::start_command("md5", words)
}
