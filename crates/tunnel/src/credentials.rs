//! The credential files of gateways that speak IKE: shared secrets, private keys, certificates, public keys.
//!
//! Guarantees: a secret that others may read is refused, and so is a trust file that others may write; secrets are
//! wiped when they are dropped, and no message shows a part of one.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    fmt::Display,
    io::Read as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls_pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer,
    pem::{self, PemObject},
};
use sealane_ike::{
    EapClient, EapServer, EapTls, Expect, Identity, Prove, TlsIdentity, Users, certificate::Authorities,
    crypto::sign::SigningKey,
};
use sealane_peer::{PeerError, open_trusted};
use zeroize::Zeroizing;

use crate::{
    key_file::{self, KeyFileError},
    site::ike::{IkePeer, Known, Proof, Trust, UserSecret},
};

/// The maximum length of a file of certificates or of a private key in bytes.
const FILE_BYTES_MAX: usize = 1 << 20;
/// The maximum length of a shared secret in bytes.
const SHARED_BYTES_MAX: usize = 1024;
/// The minimum length: a secret that can be guessed can be found by anybody who has seen one negotiation (RFC 7296,
/// section 2.15).
const SHARED_BYTES_MIN: usize = 16;

/// The maximum length of a user's name, and of a password, in bytes.
const USER_BYTES_MAX: usize = 255;

/// The beginning of a SubjectPublicKeyInfo of Ed25519 in DER (RFC 8410, section 4); the key's 32 bytes follow.
const ED25519: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// Reasons why a credential file is refused.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// A secret is not safe.
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    /// A file of certificates or public keys cannot be read, or others could change it.
    #[error("{}: {source}", path.display())]
    Trust {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: Box<PeerError>,
    },
    /// The file has the wrong content.
    #[error("{}: {problem}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// A description of the fault.
        problem: String,
    },
}

/// Our proof of identity to a peer, and the proof that we expect from it.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// Our proof.
    pub prove: Prove,
    /// The proof that the peer must give.
    pub expect: Expect,
}

/// The content of files, wiped when it is dropped.
pub type Contents = BTreeMap<PathBuf, Zeroizing<Vec<u8>>>;

/// The files that are read: those of this host, or those that another process has read.
#[derive(Default)]
pub(crate) struct Files {
    given: Option<Contents>,
    /// The files that have been read.
    read: RefCell<Contents>,
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Files({})", self.read.borrow().len())
    }
}

impl Files {
    /// Returns the content of a file, which `read` reads unless it is given.
    fn content(
        &self,
        path: &Path,
        read: impl FnOnce(&Path) -> Result<Zeroizing<Vec<u8>>, CredentialError>,
    ) -> Result<Zeroizing<Vec<u8>>, CredentialError> {
        let bytes = match &self.given {
            Some(given) => given.get(path).cloned().ok_or_else(|| content(path, "it has not been read"))?,
            None => read(path)?,
        };
        self.read.borrow_mut().insert(path.to_owned(), bytes.clone());
        Ok(bytes)
    }

    /// Returns the content of a secret's file.
    fn secret(&self, path: &Path) -> Result<Zeroizing<Vec<u8>>, CredentialError> {
        self.content(path, |path| {
            key_file::read_secret(path, FILE_BYTES_MAX)?
                .ok_or_else(|| content(path, format_args!("it has more than {FILE_BYTES_MAX} bytes")))
        })
    }

    /// Returns the content of a public file that decides which peers are trusted.
    fn public(&self, path: &Path) -> Result<Zeroizing<Vec<u8>>, CredentialError> {
        self.content(path, |path| public(path).map(Zeroizing::new))
    }
}

/// Reads credentials; authority files that peers share are read once.
#[derive(Debug, Default)]
pub struct Reader {
    files: Files,
    authorities: HashMap<Trust, Arc<Authorities>>,
    /// The file of the gateway's own key, as `sealane id` makes it.
    own_key: Option<PathBuf>,
}

fn content(path: &Path, problem: impl Display) -> CredentialError {
    CredentialError::Content { path: path.to_owned(), problem: problem.to_string() }
}

/// Returns the content of a public file that decides which peers are trusted.
fn public(path: &Path) -> Result<Vec<u8>, CredentialError> {
    let trust = |error| CredentialError::Trust { path: path.to_owned(), source: Box::new(error) };
    let file = open_trusted(path).map_err(trust)?;
    let mut bytes = Vec::new();
    let read = file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| content(path, error))?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(content(path, format_args!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

/// Returns the certificates in a file, in DER.
///
/// # Errors
/// Fails if the file is refused.
pub(crate) fn certificates(files: &Files, path: &Path) -> Result<Vec<Vec<u8>>, CredentialError> {
    let bytes = files.public(path)?;
    let all: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&bytes).collect();
    let all = all.map_err(|error| content(path, error))?;
    if all.is_empty() {
        return Err(content(path, "there is no certificate in it (PEM, BEGIN CERTIFICATE)"));
    }
    Ok(all.into_iter().map(|certificate| certificate.to_vec()).collect())
}

/// Returns the lists of revoked certificates in a file, in DER. The file may hold one in DER, or some in PEM.
fn revocations(files: &Files, path: &Path) -> Result<Vec<Vec<u8>>, CredentialError> {
    let bytes = files.public(path)?;
    // A SEQUENCE in DER begins with this byte, which no PEM begins with.
    if bytes.first() == Some(&0x30) {
        return Ok(vec![bytes.to_vec()]);
    }
    let all: Result<Vec<_>, pem::Error> = CertificateRevocationListDer::pem_slice_iter(&bytes).collect();
    let all = all.map_err(|error| content(path, error))?;
    if all.is_empty() {
        return Err(content(
            path,
            "there is no list of revoked certificates in it (PEM, BEGIN X509 CRL, or DER)",
        ));
    }
    Ok(all.into_iter().map(|list| list.to_vec()).collect())
}

/// Returns the only line of a secret's file, without its end.
fn line(text: &[u8]) -> &[u8] {
    let line = text.strip_suffix(b"\n").unwrap_or(text);
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn password(files: &Files, path: &Path) -> Result<Zeroizing<String>, CredentialError> {
    let text = files.secret(path)?;
    let line = str::from_utf8(line(&text)).ok();
    let password = line.filter(|line| (1..=USER_BYTES_MAX).contains(&line.len()) && !line.contains('\n'));
    let problem =
        || content(path, format_args!("a password is one line of 1 to {USER_BYTES_MAX} bytes in UTF-8"));
    password.map(|password| Zeroizing::new(password.to_owned())).ok_or_else(problem)
}

/// Reads the file of users with their passwords.
///
/// # Errors
/// Fails if the file is refused.
pub(crate) fn users(files: &Files, path: &Path) -> Result<Users, CredentialError> {
    let text = files.secret(path)?;
    let text = str::from_utf8(&text).map_err(|_| content(path, "it is not UTF-8"))?;
    parse_users(text).map_err(|problem| content(path, problem))
}

/// Reads users with their passwords: lines of NAME:PASSWORD, empty lines, and lines that begin with `#`.
///
/// # Errors
/// Describes the fault, without any part of a password.
pub fn parse_users(text: &str) -> Result<Users, String> {
    let mut users = Users::default();
    for (at, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let fits = |word: &str| (1..=USER_BYTES_MAX).contains(&word.len());
        let is_name = |name: &str| fits(name) && !name.chars().any(char::is_control);
        let user = line.split_once(':').filter(|(name, password)| is_name(name) && fits(password));
        // The line itself is not shown, because it may have a password.
        let Some((name, password)) = user else {
            return Err(format!("line {at}: a user is NAME:PASSWORD, each of 1 to {USER_BYTES_MAX} bytes"));
        };
        if users.contains(name) {
            return Err(format!("line {at}: {name:?} is there twice"));
        }
        users.insert(name, password);
    }
    if users.is_empty() {
        return Err("there is no user in it: a line is NAME:PASSWORD".to_owned());
    }
    Ok(users)
}

/// Returns a secret that may be written as other programs do: 0s and base64, or 0x and hexadecimal digits.
fn decoded(path: &Path, text: &[u8]) -> Result<Zeroizing<Vec<u8>>, CredentialError> {
    let read = match text.split_first_chunk::<2>() {
        Some((b"0s", rest)) => data_encoding::BASE64.decode(rest),
        Some((b"0x", rest)) => data_encoding::HEXLOWER_PERMISSIVE.decode(rest),
        _ => return Ok(Zeroizing::new(text.to_vec())),
    };
    let problem =
        "a secret that begins with 0s is base64, and one that begins with 0x hexadecimal; this one is not";
    read.map(Zeroizing::new).map_err(|_| content(path, problem))
}

fn shared(files: &Files, path: &Path) -> Result<Zeroizing<Vec<u8>>, CredentialError> {
    let text = files.secret(path)?;
    let end = text.iter().rposition(|byte| !byte.is_ascii_whitespace()).map_or(0, |last| last + 1);
    let line = &text[..end];
    let secret = decoded(path, line)?;
    // Decoded bytes may be any.
    if !(SHARED_BYTES_MIN..=SHARED_BYTES_MAX).contains(&secret.len()) || line.contains(&b'\n') {
        let problem = format!(
            "a shared secret is one line of {SHARED_BYTES_MIN} to {SHARED_BYTES_MAX} bytes; make one by `(umask 077; openssl rand \
             -base64 32 > {})`",
            path.display()
        );
        return Err(content(path, problem));
    }
    Ok(secret)
}

/// Returns a private key, PKCS #8 in DER.
pub(crate) fn private_der(files: &Files, path: &Path) -> Result<Zeroizing<Vec<u8>>, CredentialError> {
    let text = files.secret(path)?;
    let key = PrivatePkcs8KeyDer::from_pem_slice(&text).map_err(|_| no_key(path))?;
    Ok(Zeroizing::new(key.secret_pkcs8_der().to_vec()))
}

fn private_key(files: &Files, path: &Path) -> Result<SigningKey, CredentialError> {
    SigningKey::from_pkcs8(&private_der(files, path)?).map_err(|_| no_key(path))
}

fn no_key(path: &Path) -> CredentialError {
    content(
        path,
        format_args!(
            "it is not a private key in PKCS #8 and PEM (BEGIN PRIVATE KEY) of Ed25519, ECDSA on P-256 or P-384, RSA of 2,048 bits \
             or more, or ML-DSA; `openssl pkcs8 -topk8 -nocrypt -in {} -out NEW` writes one. IKE has no hybrid keys (`sealane id \
             --hybrid`): give such a gateway a `private-key` for IKE",
            path.display()
        ),
    )
}

/// Returns a key with its certificate, for TLS.
fn tls(files: &Files, private: &Path, certificate: &Path) -> Result<TlsIdentity, CredentialError> {
    TlsIdentity::new(&private_der(files, private)?, &certificates(files, certificate)?)
        .map_err(|_| no_key(private))
}

impl Reader {
    /// Returns a reader; `own_key` is the file of the gateway's own key, as `sealane id` makes it.
    pub fn new(own_key: Option<&Path>) -> Self {
        Self { own_key: own_key.map(Path::to_owned), ..Self::default() }
    }

    /// Returns a reader of files that another process has read.
    pub(crate) fn of(contents: Contents, own_key: Option<&Path>) -> Self {
        Self { files: Files { given: Some(contents), ..Files::default() }, ..Self::new(own_key) }
    }

    /// Returns what has been read.
    pub fn into_contents(self) -> Contents {
        self.files.read.into_inner()
    }

    /// Reads the credential files of a peer. An entry for clients that may prove themselves in several ways has
    /// several.
    ///
    /// # Errors
    /// Fails if one of them is refused.
    pub fn read(&mut self, peer: &IkePeer) -> Result<Vec<Credentials>, CredentialError> {
        let one = |prove, expect| Ok(vec![Credentials { prove, expect }]);
        match &peer.proof {
            Proof::Shared(path) => {
                let secret = shared(&self.files, path)?;
                one(Prove::SharedKey(secret.clone()), Expect::SharedKey(secret))
            }
            Proof::Keys { private, certificate, peer } => {
                let private = private.as_deref().or(self.own_key.as_deref());
                let own = Path::new("/etc/sealane/identity");
                let missing =
                    || content(own, "the gateway has no key of its own: `sealane id --system` makes one");
                let prove = Prove::Signature {
                    key: Arc::new(private_key(&self.files, private.ok_or_else(missing)?)?),
                    certificates: match certificate {
                        Some(certificate) => certificates(&self.files, certificate)?,
                        None => Vec::new(),
                    },
                };
                let expect = match peer {
                    Known::Authorities(trust) => Expect::Certificate(self.authorities(trust)?),
                    Known::PublicKey(path) => {
                        let problem = "there is no public key in it (PEM, BEGIN PUBLIC KEY)";
                        let key = SubjectPublicKeyInfoDer::from_pem_slice(&self.files.public(path)?)
                            .map_err(|_| content(path, problem))?;
                        Expect::PublicKeys(vec![key.to_vec()])
                    }
                    Known::Key(key) => {
                        let key = key.ed25519().expect("a site file with another key is refused");
                        Expect::PublicKeys(vec![[&ED25519[..], key].concat()])
                    }
                };
                one(prove, expect)
            }
            Proof::User { name, secret, server } => {
                let authorities = self.authorities(server)?;
                let user = name.clone();
                let client = match secret {
                    UserSecret::Password(path) => {
                        EapClient::Password { user, password: password(&self.files, path)? }
                    }
                    UserSecret::Certificate { private, certificate } => {
                        let tls = EapTls {
                            identity: tls(&self.files, private, certificate)?,
                            authorities: Arc::clone(&authorities),
                        };
                        let server = Identity::from_text(peer.id.as_deref().unwrap_or_default());
                        EapClient::Certificate { user, tls, server }
                    }
                };
                one(Prove::Eap(client), Expect::Certificate(authorities))
            }
            Proof::Clients { private, certificate, users: passwords, users_trust, trust } => {
                let key = Arc::new(private_key(&self.files, private)?);
                let prove = Prove::Signature { key, certificates: certificates(&self.files, certificate)? };
                let mut all = Vec::new();
                if passwords.is_some() || users_trust.is_some() {
                    let authorities =
                        users_trust.as_ref().map(|trust| self.authorities(trust)).transpose()?;
                    let files = &self.files;
                    let tls = |authorities| {
                        let identity = tls(files, private, certificate)?;
                        Ok::<_, CredentialError>(EapTls { identity, authorities })
                    };
                    let server = EapServer {
                        users: match passwords {
                            Some(passwords) => users(files, passwords)?,
                            None => Users::default(),
                        },
                        tls: authorities.map(tls).transpose()?,
                    };
                    all.push(Credentials { prove: prove.clone(), expect: Expect::Eap(Arc::new(server)) });
                }
                if let Some(trust) = trust {
                    all.push(Credentials { prove, expect: Expect::Certificate(self.authorities(trust)?) });
                }
                Ok(all)
            }
        }
    }

    fn authorities(&mut self, trust: &Trust) -> Result<Arc<Authorities>, CredentialError> {
        if let Some(known) = self.authorities.get(trust) {
            return Ok(Arc::clone(known));
        }
        let path = &trust.authorities;
        let mut read =
            Authorities::new(&certificates(&self.files, path)?).map_err(|error| content(path, error))?;
        for path in &trust.revocations {
            read = read
                .with_revocations(&revocations(&self.files, path)?)
                .map_err(|error| content(path, error))?;
        }
        let read = Arc::new(read);
        self.authorities.insert(trust.clone(), Arc::clone(&read));
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    fn file(folder: &Path, name: &str, mode: u32, text: &str) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
        path
    }

    fn peer(proof: Proof) -> IkePeer {
        IkePeer {
            id: Some("a.example".to_owned()),
            local_id: "b.example".to_owned(),
            local_networks: Vec::new(),
            asks_for: sealane_ike::Families::default(),
            takes_resolvers: false,
            proof,
            proposals: Vec::new(),
            child_proposals: Vec::new(),
            children: 1,
            rekey: std::time::Duration::ZERO,
            ike_rekey: std::time::Duration::ZERO,
        }
    }

    #[test]
    fn users_are_lines_that_no_message_shows() {
        let folder = tempfile::tempdir().expect("a folder");
        let read = |text: &str| users(&Files::default(), &file(folder.path(), "users", 0o600, text));
        let good = read("# comment\n\nalice:correct horse\nDOMAIN\\bob:a:b\r\n").expect("good users");
        assert!(good.contains("alice") && good.contains("DOMAIN\\bob") && !good.contains("bob"));
        for (text, says) in [
            ("", "no user"),
            ("alice correct", "line 1"),
            ("alice:", "line 1"),
            (":correct", "line 1"),
            ("alice:a\nalice:correct", "twice"),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(says) && !error.contains("correct"), "{error}");
        }
        let open = file(folder.path(), "open", 0o644, "alice:correct");
        assert!(
            users(&Files::default(), &open).expect_err("others read it").to_string().contains("chmod 600")
        );
        let read = |text: &str| password(&Files::default(), &file(folder.path(), "password", 0o600, text));
        assert_eq!(read("correct horse\n").expect("a password").as_str(), "correct horse");
        assert!(read("").is_err() && read("a\nb").is_err());
    }

    #[test]
    fn a_revoked_certificate_proves_nothing() {
        use rcgen::{
            BasicConstraints, CertificateParams, CertificateRevocationListParams, IsCa, Issuer, KeyIdMethod,
            KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber,
        };
        let key = || KeyPair::generate().expect("a key");
        let mut root = CertificateParams::new(Vec::new()).expect("parameters");
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        root.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let root_key = key();
        let certificate = root.self_signed(&root_key).expect("a certificate").pem();
        let issuer = Issuer::new(root, root_key);
        let issue = |name: &str, serial: u64| {
            let mut own = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
            own.serial_number = Some(SerialNumber::from(serial));
            own.signed_by(&key(), &issuer).expect("a certificate").der().to_vec()
        };
        let (good, bad) = (issue("good.example", 7), issue("bad.example", 8));
        let list = |serials: &[u64]| {
            let revoked = serials.iter().map(|&serial| RevokedCertParams {
                serial_number: SerialNumber::from(serial),
                revocation_time: rcgen::date_time_ymd(2020, 1, 1),
                reason_code: None,
                invalidity_date: None,
            });
            let parameters = CertificateRevocationListParams {
                this_update: rcgen::date_time_ymd(2020, 1, 1),
                next_update: rcgen::date_time_ymd(4000, 1, 1),
                crl_number: SerialNumber::from(1),
                issuing_distribution_point: None,
                revoked_certs: revoked.collect(),
                key_identifier_method: KeyIdMethod::Sha256,
            };
            parameters.signed_by(&issuer).expect("a list")
        };
        let folder = tempfile::tempdir().expect("a folder");
        let authorities = file(folder.path(), "ca.crt", 0o644, &certificate);
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock");
        let revoked = list(&[8, 9]);
        let pem = file(folder.path(), "pem", 0o644, &revoked.pem().expect("a list"));
        let der = folder.path().join("der");
        fs::write(&der, revoked.der()).expect("a file");
        fs::set_permissions(&der, fs::Permissions::from_mode(0o644)).expect("a mode");
        for (lists, is_bad_taken) in [(vec![], true), (vec![pem.clone()], false), (vec![der], false)] {
            let trust = Trust { authorities: authorities.clone(), revocations: lists };
            let read = Reader::default().authorities(&trust).expect("good files");
            let verify =
                |der: &[u8], name: &str| read.verify(&[der], &Identity::from_text(name), now).map(|_| ());
            assert_eq!(verify(&good, "good.example"), Ok(()), "{trust:?}");
            assert_eq!(verify(&bad, "bad.example").is_ok(), is_bad_taken, "{trust:?}");
        }
        let trust = Trust { authorities: authorities.clone(), revocations: vec![authorities] };
        let error = Reader::default().authorities(&trust).expect_err("a certificate is no list").to_string();
        assert!(error.contains("X509 CRL"), "{error}");
    }

    #[test]
    fn a_shared_secret_is_one_line_that_nobody_else_reads() {
        let folder = tempfile::tempdir().expect("a folder");
        let read = |mode, text: &str| {
            let path = file(folder.path(), "psk", mode, text);
            Reader::default().read(&peer(Proof::Shared(path))).map(|mut all| all.remove(0))
        };
        let good = "0123456789abcdef0123456789abcdef";
        for text in [good.to_owned(), format!("{good}\n"), format!("{good}\r\n")] {
            let Ok(Credentials { prove: Prove::SharedKey(secret), .. }) = read(0o600, &text) else {
                panic!("{text:?}")
            };
            assert_eq!(&secret[..], good.as_bytes());
        }
        // These are forms of other programs.
        for text in [
            "0sMDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n",
            &format!(
                "0x{}",
                "3031323334353637383961626364656630".to_owned() + "313233343536373839616263646566"
            ),
        ] {
            let Ok(Credentials { prove: Prove::SharedKey(secret), .. }) = read(0o600, text) else {
                panic!("{text:?}")
            };
            assert_eq!(&secret[..], good.as_bytes());
        }
        // Bytes that stand for the end of a line in text are as good as others.
        assert!(read(0o600, &format!("0x{}", "0a".repeat(16))).is_ok());
        let error = read(0o600, "0s0123456789abcdef!").expect_err("no base64").to_string();
        assert!(error.contains("is base64") && !error.contains("abcdef"), "{error}");
        let error = read(0o640, good).expect_err("others may read it").to_string();
        assert!(error.contains("chmod 600"), "{error}");
        for text in ["", "short", &format!("{good}\n{good}\n"), &"a".repeat(2000)] {
            let error = read(0o600, text).expect_err(text).to_string();
            assert!(error.contains("openssl rand") && !error.contains(good), "{error}");
        }
    }

    #[test]
    fn other_files_say_what_they_should_hold() {
        let folder = tempfile::tempdir().expect("a folder");
        let junk = file(
            folder.path(),
            "junk",
            0o600,
            "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n",
        );
        let trust = Trust { authorities: junk.clone(), revocations: Vec::new() };
        let proof = Proof::Keys {
            private: Some(junk.clone()),
            certificate: Some(junk.clone()),
            peer: Known::Authorities(trust),
        };
        let error = Reader::default().read(&peer(proof)).expect_err("junk").to_string();
        assert!(error.contains("openssl pkcs8 -topk8"), "{error}");
        let error = certificates(&Files::default(), &junk).expect_err("junk").to_string();
        assert!(error.contains("BEGIN CERTIFICATE"), "{error}");
        let open = file(folder.path(), "open", 0o666, "-----BEGIN CERTIFICATE-----\n");
        let error = certificates(&Files::default(), &open).expect_err("others may write").to_string();
        assert!(error.contains("go-w"), "{error}");
    }
}
