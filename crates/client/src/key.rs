//! Keys from the view of a client: a name, a kind, the public half. There is no type for the private half.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use zeroize::Zeroizing;

/// The kinds of private keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyKind {
    /// RSA for signatures and decryption with any padding (RFC 8017).
    Rsa {
        /// The length of the modulus in bits: 2,048 to 8,192 in steps of 8.
        bits: u16,
    },
    /// The curve P-256.
    P256,
    /// The curve P-384.
    P384,
    /// Ed25519 for signatures (RFC 8032).
    Ed25519,
    /// X25519 for agreements (RFC 7748).
    X25519,
    /// The curve P-521.
    P521,
    /// RSA for signatures by RSASSA-PSS alone (`rsassaPss`; RFC 4055, 1.2).
    RsaPss {
        /// The length of the modulus in bits, as for RSA.
        bits: u16,
        /// The parameters that its signatures must have, if the key names some.
        limits: Option<PssLimits>,
    },
    /// ML-DSA for signatures (FIPS 204).
    MlDsa(MlDsaSet),
}

/// The parameter sets of ML-DSA (FIPS 204, table 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MlDsaSet {
    /// Security category 2.
    MlDsa44,
    /// Security category 3.
    MlDsa65,
    /// Security category 5.
    MlDsa87,
}

/// The length of a message's representative mu in bytes (FIPS 204, algorithm 7, line 6), which ML-DSA signs.
pub const MU_BYTES: usize = 64;

/// The length of the longest context of a message in bytes (FIPS 204, algorithm 2).
pub const CONTEXT_BYTES_MAX: usize = 255;

impl MlDsaSet {
    /// All sets, the smallest first.
    pub const ALL: [Self; 3] = [Self::MlDsa44, Self::MlDsa65, Self::MlDsa87];

    /// Returns the length of a public key in bytes (FIPS 204, table 2).
    pub const fn public_bytes(self) -> usize {
        match self {
            Self::MlDsa44 => 1312,
            Self::MlDsa65 => 1952,
            Self::MlDsa87 => 2592,
        }
    }

    /// Returns the length of a signature in bytes.
    pub const fn signature_bytes(self) -> usize {
        match self {
            Self::MlDsa44 => 2420,
            Self::MlDsa65 => 3309,
            Self::MlDsa87 => 4627,
        }
    }

    /// Returns the name in the standard.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MlDsa44 => "ML-DSA-44",
            Self::MlDsa65 => "ML-DSA-65",
            Self::MlDsa87 => "ML-DSA-87",
        }
    }
}

/// The parameters in a key for RSASSA-PSS alone (RFC 4055, 3.3), by which its signatures are bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PssLimits {
    /// The hash of messages.
    pub hash: crate::hash::Hash,
    /// The hash of the mask.
    pub mask: crate::hash::Hash,
    /// The least length of the salt in bytes.
    pub salt_bytes: u16,
}

impl PssLimits {
    /// The parameters that are meant where a key's sequence of parameters is empty (RFC 8017, A.2.3).
    pub const DEFAULT: Self =
        Self { hash: crate::hash::Hash::Sha1, mask: crate::hash::Hash::Sha1, salt_bytes: 20 };

    /// Returns whether a signature with these parameters keeps to them.
    pub fn allow(self, hash: crate::hash::Hash, mask: crate::hash::Hash, salt_bytes: u16) -> bool {
        (self.hash, self.mask) == (hash, mask) && salt_bytes >= self.salt_bytes
    }
}

impl fmt::Display for PssLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, mask by {}, salt of {} bytes or more", self.hash, self.mask, self.salt_bytes)
    }
}

impl KeyKind {
    /// Returns the first version of the protocol with keys of this kind: clients of a version before are told of none.
    pub fn version(self) -> u16 {
        match self {
            Self::Rsa { .. } | Self::P256 | Self::P384 | Self::Ed25519 | Self::X25519 => 1,
            Self::P521 | Self::RsaPss { .. } | Self::MlDsa(_) => 2,
        }
    }

    /// Returns the length of a coordinate of its curve in bytes, for the curves of ECDSA.
    pub fn coordinate_bytes(self) -> Option<usize> {
        match self {
            Self::P256 => Some(32),
            Self::P384 => Some(48),
            Self::P521 => Some(66),
            Self::Rsa { .. } | Self::RsaPss { .. } | Self::Ed25519 | Self::X25519 | Self::MlDsa(_) => None,
        }
    }

    /// Returns the length of the modulus in bits, for RSA and RSA-PSS.
    pub fn modulus_bits(self) -> Option<u16> {
        match self {
            Self::Rsa { bits } | Self::RsaPss { bits, .. } => Some(bits),
            _ => None,
        }
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rsa { bits } => write!(f, "rsa-{bits}"),
            Self::RsaPss { bits, limits: None } => write!(f, "rsa-pss-{bits}"),
            Self::RsaPss { bits, limits: Some(limits) } => write!(f, "rsa-pss-{bits} ({limits})"),
            Self::P256 => f.write_str("p256"),
            Self::P384 => f.write_str("p384"),
            Self::P521 => f.write_str("p521"),
            Self::Ed25519 => f.write_str("ed25519"),
            Self::X25519 => f.write_str("x25519"),
            Self::MlDsa(MlDsaSet::MlDsa44) => f.write_str("ml-dsa-44"),
            Self::MlDsa(MlDsaSet::MlDsa65) => f.write_str("ml-dsa-65"),
            Self::MlDsa(MlDsaSet::MlDsa87) => f.write_str("ml-dsa-87"),
        }
    }
}

/// The error for a text that is not a kind of key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no kind of key; there are rsa-2048 (to rsa-8192), rsa-pss-2048, p256, p384, p521, ed25519, x25519, ml-dsa-44, ml-dsa-65 and ml-dsa-87"
)]
pub struct UnknownKind(String);

impl FromStr for KeyKind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        let kind = match text {
            "p256" => Some(Self::P256),
            "p384" => Some(Self::P384),
            "p521" => Some(Self::P521),
            "ed25519" => Some(Self::Ed25519),
            "x25519" => Some(Self::X25519),
            "ml-dsa-44" => Some(Self::MlDsa(MlDsaSet::MlDsa44)),
            "ml-dsa-65" => Some(Self::MlDsa(MlDsaSet::MlDsa65)),
            "ml-dsa-87" => Some(Self::MlDsa(MlDsaSet::MlDsa87)),
            other => {
                let pss = other.strip_prefix("rsa-pss-");
                pss.or_else(|| other.strip_prefix("rsa-"))
                    .and_then(|bits| bits.parse::<u16>().ok())
                    .filter(|bits| (2048..=8192).contains(bits) && bits % 8 == 0)
                    .map(|bits| match pss {
                        Some(_) => Self::RsaPss { bits, limits: None },
                        None => Self::Rsa { bits },
                    })
            }
        };
        kind.ok_or_else(|| UnknownKind(text.to_owned()))
    }
}

/// The maximum length of a key's name in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// Returns whether a text may name a key: letters, digits, `-`, `_` and `.`, the first one a letter or a digit. The
/// name is also used as a file name.
pub fn is_name(text: &str) -> bool {
    text.len() <= NAME_BYTES_MAX
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// The facts about a key that its users may know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyInfo {
    /// The name; empty for a key that a connection has lent.
    pub name: String,
    /// The kind, which decides the operations that the key takes.
    pub kind: KeyKind,
    /// SubjectPublicKeyInfo (RFC 5280, 4.1.2.7) in DER.
    pub public: Vec<u8>,
}

/// A key that a client has opened. Any client of the same user may use it, and opens it again if necessary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The description of the key.
    pub info: KeyInfo,
}

/// The ways in which a client refers to a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// The key's name.
    Name(String),
    /// The key's public half, a SubjectPublicKeyInfo in DER.
    Public(Vec<u8>),
}

/// A reference to a key in files and on command lines: `sealane:NAME`, or `sealane:NAME?socket=/path` for a service
/// other than the system's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uri {
    /// The key's name.
    pub name: String,
    /// The socket of its service, if it is not [`crate::SOCKET`].
    pub socket: Option<PathBuf>,
}

/// The error for a text that is not a reference to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a reference to a key is sealane:NAME, or sealane:NAME?socket=/PATH")]
pub struct NoUri;

impl Uri {
    /// The scheme, with its colon.
    const SCHEME: &str = "sealane:";
}

impl FromStr for Uri {
    type Err = NoUri;

    fn from_str(text: &str) -> Result<Self, NoUri> {
        let rest = text.strip_prefix(Self::SCHEME).ok_or(NoUri)?;
        let (name, socket) = match rest.split_once('?') {
            None => (rest, None),
            Some((name, query)) => {
                let path = query.strip_prefix("socket=").filter(|path| path.starts_with('/')).ok_or(NoUri)?;
                (name, Some(PathBuf::from(path)))
            }
        };
        if !is_name(name) || text.contains('\0') || text.len() > URI_BYTES_MAX {
            return Err(NoUri);
        }
        Ok(Self { name: name.to_owned(), socket })
    }
}

/// The label of a PEM file that refers to a key.
pub const PEM_LABEL: &str = "SEALANE ENGINE KEY";

/// The maximum length of a reference in bytes.
const URI_BYTES_MAX: usize = 512;

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", Self::SCHEME, self.name)?;
        self.socket.as_ref().map_or(Ok(()), |socket| write!(f, "?socket={}", socket.display()))
    }
}

impl Uri {
    /// Returns a PEM file that programs accept in place of a private key: it contains the reference, and no secret.
    pub fn to_pem(&self) -> String {
        pem(PEM_LABEL, &self.to_der())
    }

    /// Returns the content of such a file: a sequence of one text in DER, because programs that read PEM files expect
    /// DER in them.
    pub fn to_der(&self) -> Vec<u8> {
        element(SEQUENCE, &element(UTF8_STRING, self.to_string().as_bytes()))
    }

    /// Returns the reference in such bytes.
    ///
    /// # Errors
    /// Fails if the bytes are not a reference.
    pub fn of_der(der: &[u8]) -> Result<Self, NoUri> {
        let text = content(SEQUENCE, der).and_then(|inner| content(UTF8_STRING, inner)).ok_or(NoUri)?;
        std::str::from_utf8(text).map_err(|_| NoUri)?.parse()
    }

    /// Returns the first reference in a PEM file, which may contain other texts before and after it.
    ///
    /// # Errors
    /// Fails if there is none.
    pub fn of_pem(text: &str) -> Result<Self, NoUri> {
        Self::of_der(&of_pem(PEM_LABEL, text).filter(|der| der.len() <= 2 * URI_BYTES_MAX).ok_or(NoUri)?)
    }
}

const SEQUENCE: u8 = 0x30;
const UTF8_STRING: u8 = 0x0c;

/// Returns an element in DER (X.690), whose length has two bytes; contents are at most slightly longer than
/// [`URI_BYTES_MAX`] bytes.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u16).to_be_bytes();
    [&[tag, 0x82], &length[..], content].concat()
}

/// Returns the content of an element that fills all of the bytes, with its length in any form.
fn content(tag: u8, bytes: &[u8]) -> Option<&[u8]> {
    let (length, content) = match bytes {
        [found, first @ 0..=0x7f, content @ ..] if *found == tag => (usize::from(*first), content),
        [found, 0x81, length, content @ ..] if *found == tag => (usize::from(*length), content),
        [found, 0x82, high, low, content @ ..] if *found == tag => {
            (usize::from(u16::from_be_bytes([*high, *low])), content)
        }
        _ => return None,
    };
    (content.len() == length).then_some(content)
}

/// Returns the bytes as PEM (RFC 7468) under a label.
pub fn pem(label: &str, bytes: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in base64(bytes).as_bytes().chunks(64) {
        text.extend(line.iter().map(|byte| char::from(*byte)));
        text.push('\n');
    }
    text + &format!("-----END {label}-----\n")
}

/// The maximum length of the digits of a PEM text that is read.
const PEM_DIGITS_MAX: usize = 1 << 16;

/// Returns the bytes of the first PEM text with this label; `None` if there is none, or if it is encrypted by PEM's own means.
pub fn of_pem(label: &str, text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let (_, rest) = text.split_once(&format!("-----BEGIN {label}-----"))?;
    let (body, _) = rest.split_once("-----END")?;
    let digits = body.bytes().filter(|byte| !byte.is_ascii_whitespace()).take(PEM_DIGITS_MAX);
    of_base64(&Zeroizing::new(digits.collect::<Vec<_>>())).map(Zeroizing::new)
}

/// Returns the bytes of all PEM texts with this label, up to `most` of them.
pub fn all_of_pem(label: &str, text: &str, most: usize) -> Vec<Vec<u8>> {
    let begin = format!("-----BEGIN {label}-----");
    let starts = text.match_indices(&begin).map(|(at, _)| &text[at..]);
    starts.filter_map(|text| Some(of_pem(label, text)?.to_vec())).take(most).collect()
}

/// The digits of RFC 4648, section 4.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let word = three.iter().fold(0, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for place in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * place) & 63) as usize];
            text.push(if place > three.len() { '=' } else { char::from(digit) });
        }
    }
    text
}

fn of_base64(digits: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(digits.len());
    let padding = digits.iter().rev().take_while(|digit| **digit == b'=').count();
    if !digits.len().is_multiple_of(4) || padding > 2 {
        return None;
    }
    for four in digits[..digits.len() - padding].chunks(4) {
        let mut word = 0;
        for digit in four {
            word = word << 6 | DIGITS.iter().position(|other| other == digit)? as u32;
        }
        word <<= 6 * (4 - four.len());
        bytes.extend(&word.to_be_bytes()[1..four.len()]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_come_back_from_their_names() {
        let names = ["rsa-2048", "rsa-8192", "rsa-pss-3072", "p256", "p384", "p521", "ed25519", "x25519"];
        for text in names.into_iter().chain(["ml-dsa-44", "ml-dsa-65", "ml-dsa-87"]) {
            assert_eq!(text.parse::<KeyKind>().unwrap().to_string(), text);
        }
        for text in ["rsa-1024", "rsa-2049", "rsa-65535", "rsa-pss-1024", "rsa-pss-", "rsa", "", "P256"] {
            assert!(text.parse::<KeyKind>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_reference_names_a_key_and_perhaps_a_socket() {
        let uri: Uri = "sealane:web".parse().unwrap();
        assert_eq!(uri, Uri { name: "web".to_owned(), socket: None });
        let uri: Uri = "sealane:web.1?socket=/run/x/socket".parse().unwrap();
        assert_eq!(uri.socket.unwrap(), PathBuf::from("/run/x/socket"));
        for text in
            ["web", "sealane:", "sealane:../web", "sealane:.web", "sealane:web?socket=x", "sealane:web?x=1"]
        {
            assert_eq!(text.parse::<Uri>(), Err(NoUri), "{text}");
        }
    }

    #[test]
    fn the_longest_reference_comes_back_from_its_pem_and_a_longer_one_is_none() {
        let of_length = |bytes: usize| format!("{:m<bytes$}", "sealane:web?socket=/");
        let longest: Uri = of_length(URI_BYTES_MAX).parse().unwrap();
        assert_eq!(Uri::of_pem(&longest.to_pem()), Ok(longest));
        assert_eq!(of_length(URI_BYTES_MAX + 1).parse::<Uri>(), Err(NoUri));
    }

    #[test]
    fn a_reference_comes_back_from_its_pem() {
        for name in ["w", "we", "web", "web1", "a-name-that-takes-more-than-one-line-of-base64.1234567890"] {
            for socket in [None, Some(PathBuf::from("/run/x/socket"))] {
                let uri = Uri { name: name.to_owned(), socket };
                let pem = format!("# a comment\n{}trailing", uri.to_pem());
                assert_eq!(Uri::of_pem(&pem), Ok(uri));
            }
        }
        for text in
            ["", "-----BEGIN SEALANE ENGINE KEY-----", "-----BEGIN SEALANE ENGINE KEY-----\n=\n-----END"]
        {
            assert_eq!(Uri::of_pem(text), Err(NoUri));
        }
    }
}
