//! The credential files of gateways that speak IKE: shared secrets, private keys, certificates, public keys.
//!
//! Guarantees: a secret that others may read is refused, and so is a trust file that others may write; secrets are
//! wiped when they are dropped, and no message shows a part of one.

use std::{
    collections::HashMap,
    io::Read as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls_pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer,
    pem::{self, PemObject},
};
use sealane_ike::{Expect, Prove, certificate::Authorities, crypto::sign::SigningKey};
use sealane_peer::{PeerError, open_trusted};
use zeroize::Zeroizing;

use crate::{
    key_file::{self, KeyFileError},
    site::ike::{Known, Proof},
};

/// The maximum length of a file of certificates or of a private key in bytes.
const FILE_BYTES_MAX: usize = 1 << 20;
/// The maximum length of a shared secret in bytes.
const SHARED_BYTES_MAX: usize = 1024;
/// The minimum length: a secret that can be guessed can be found by anybody who has seen one negotiation (RFC 7296,
/// section 2.15).
const SHARED_BYTES_MIN: usize = 16;

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

/// Reads credentials; authority files that peers share are read once.
#[derive(Debug, Default)]
pub struct Reader {
    authorities: HashMap<PathBuf, Arc<Authorities>>,
}

fn content(path: &Path, problem: impl ToString) -> CredentialError {
    CredentialError::Content { path: path.to_owned(), problem: problem.to_string() }
}

/// Returns the content of a secret's file.
fn secret(path: &Path) -> Result<Zeroizing<Vec<u8>>, CredentialError> {
    key_file::read_secret(path, FILE_BYTES_MAX)?
        .ok_or_else(|| content(path, format_args!("it has more than {FILE_BYTES_MAX} bytes")))
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

fn certificates(path: &Path) -> Result<Vec<Vec<u8>>, CredentialError> {
    let bytes = public(path)?;
    let all: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&bytes).collect();
    let all = all.map_err(|error| content(path, error))?;
    if all.is_empty() {
        return Err(content(path, "there is no certificate in it (PEM, BEGIN CERTIFICATE)"));
    }
    Ok(all.into_iter().map(|certificate| certificate.to_vec()).collect())
}

fn shared(path: &Path) -> Result<Zeroizing<Vec<u8>>, CredentialError> {
    let text = secret(path)?;
    let end = text.iter().rposition(|byte| !byte.is_ascii_whitespace()).map_or(0, |last| last + 1);
    let secret = Zeroizing::new(text[..end].to_vec());
    if !(SHARED_BYTES_MIN..=SHARED_BYTES_MAX).contains(&secret.len()) || secret.contains(&b'\n') {
        let problem = format!(
            "a shared secret is one line of {SHARED_BYTES_MIN} to {SHARED_BYTES_MAX} bytes; make one by `(umask 077; openssl rand \
             -base64 32 > {})`",
            path.display()
        );
        return Err(content(path, problem));
    }
    Ok(secret)
}

fn private_key(path: &Path) -> Result<SigningKey, CredentialError> {
    let text = secret(path)?;
    let problem = || {
        let problem = format!(
            "it is not a private key in PKCS #8 and PEM (BEGIN PRIVATE KEY) of Ed25519, ECDSA on P-256 or P-384, or RSA of 2,048 bits \
             or more; `openssl pkcs8 -topk8 -nocrypt -in {} -out NEW` writes one",
            path.display()
        );
        content(path, problem)
    };
    let key = PrivatePkcs8KeyDer::from_pem_slice(&text).map_err(|_| problem())?;
    SigningKey::from_pkcs8(key.secret_pkcs8_der()).map_err(|_| problem())
}

impl Reader {
    /// Reads the credential files of a peer.
    ///
    /// # Errors
    /// Fails if one of them is refused.
    pub fn read(&mut self, proof: &Proof) -> Result<Credentials, CredentialError> {
        let (private, certificate, peer) = match proof {
            Proof::Shared(path) => {
                let secret = shared(path)?;
                let prove = Prove::SharedKey(secret.clone());
                return Ok(Credentials { prove, expect: Expect::SharedKey(secret) });
            }
            Proof::Keys { private, certificate, peer } => (private, certificate, peer),
        };
        let prove = Prove::Signature {
            key: Arc::new(private_key(private)?),
            certificates: certificate.as_deref().map(certificates).transpose()?.unwrap_or_default(),
        };
        let expect = match peer {
            Known::Authorities(path) => Expect::Certificate(self.authorities(path)?),
            Known::PublicKey(path) => {
                let key = SubjectPublicKeyInfoDer::from_pem_slice(&public(path)?)
                    .map_err(|_| content(path, "there is no public key in it (PEM, BEGIN PUBLIC KEY)"))?;
                Expect::PublicKeys(vec![key.to_vec()])
            }
        };
        Ok(Credentials { prove, expect })
    }

    fn authorities(&mut self, path: &Path) -> Result<Arc<Authorities>, CredentialError> {
        if let Some(known) = self.authorities.get(path) {
            return Ok(Arc::clone(known));
        }
        let read = Authorities::new(&certificates(path)?).map_err(|error| content(path, error))?;
        let read = Arc::new(read);
        self.authorities.insert(path.to_owned(), Arc::clone(&read));
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

    #[test]
    fn a_shared_secret_is_one_line_that_nobody_else_reads() {
        let folder = tempfile::tempdir().expect("a folder");
        let read = |mode, text: &str| {
            let path = file(folder.path(), "psk", mode, text);
            Reader::default().read(&Proof::Shared(path))
        };
        let good = "0123456789abcdef0123456789abcdef";
        for text in [good.to_owned(), format!("{good}\n"), format!("{good}\r\n")] {
            let Ok(Credentials { prove: Prove::SharedKey(secret), .. }) = read(0o600, &text) else {
                panic!("{text:?}")
            };
            assert_eq!(&secret[..], good.as_bytes());
        }
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
        let proof = Proof::Keys {
            private: junk.clone(),
            certificate: Some(junk.clone()),
            peer: Known::Authorities(junk.clone()),
        };
        let error = Reader::default().read(&proof).expect_err("junk").to_string();
        assert!(error.contains("openssl pkcs8 -topk8"), "{error}");
        let error = certificates(&junk).expect_err("junk").to_string();
        assert!(error.contains("BEGIN CERTIFICATE"), "{error}");
        let open = file(folder.path(), "open", 0o666, "-----BEGIN CERTIFICATE-----\n");
        let error = certificates(&open).expect_err("others may write").to_string();
        assert!(error.contains("go-w"), "{error}");
    }
}
