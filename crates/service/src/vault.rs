//! Keys at rest: a folder with a file per key, sealed under a passphrase.
//!
//! The file `seal` contains the salt and cost of scrypt, and a sealed word by which a wrong passphrase is detected.
//! `NAME.key` is a key's PKCS#8 under AES-256-GCM, bound to its name; `NAME.crt` has its certificates as PEM, which are no secret.
//! **Guarantees:** files are written whole or not
//! at all, and are readable by their owner only; a file that was changed, moved or renamed is an error, never another
//! key; the private bytes are in clear only in buffers that are zeroed.

use rustix::fs::{FlockOperation, flock};
use sealane_asymmetric::{PrivateKey, SCRYPT_LOG_N, Sealer, random};
use sealane_client::key::{all_of_pem, is_name, pem};
use sealane_client::setup::{CHAIN_BYTES_MAX, CHAIN_MAX};
use sealane_peer::{PeerError, check_trusted_folder};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The maximum number of keys in one vault.
pub const KEYS_MAX: usize = 4096;

/// The maximum length of a file in bytes: an RSA key of 8,192 bits has 4,700.
const FILE_BYTES_MAX: u64 = 16_384;

const SEAL: &str = "seal";
const SEAL_MAGIC: &[u8] = b"sealane engine seal 1\n";
const KEY_MAGIC: &[u8] = b"sealane engine key 1\n";
const SALT_BYTES: usize = 16;
const SUFFIX: &str = ".key";
const CERTIFICATES_SUFFIX: &str = ".crt";
const CERTIFICATE_LABEL: &str = "CERTIFICATE";

/// The maximum length of a file with certificates in bytes.
const CERTIFICATES_FILE_BYTES_MAX: u64 = 2 * CHAIN_BYTES_MAX as u64;

/// The end of the name of a key that another one has replaced; no key's own name has its first character.
const PREVIOUS: &str = "~previous";

/// The error of a vault.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// A file cannot be used.
    #[error("cannot {doing} {}", path.display())]
    File {
        /// The failed action.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Others can change the folder, or one above it.
    #[error(transparent)]
    Place(#[from] PeerError),
    /// Others may write to the folder.
    #[error("others than its owner may write to {}: chmod 700 it", path.display())]
    Exposed {
        /// The folder.
        path: PathBuf,
    },
    /// Another service uses the folder.
    #[error("another engine has the keys in {}", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// The passphrase is wrong for these keys.
    #[error("the passphrase does not open the keys in {}", path.display())]
    Passphrase {
        /// The folder.
        path: PathBuf,
    },
    /// The passphrase is empty.
    #[error("an empty passphrase protects nothing")]
    NoPassphrase,
    /// A file was changed, or is not a key.
    #[error("{} is damaged, or not a key of this engine: restore it from a backup, or remove it", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// There are too many keys.
    #[error("{} has more than {KEYS_MAX} keys", path.display())]
    TooMany {
        /// The folder.
        path: PathBuf,
    },
}

/// A key of a vault.
#[derive(Debug)]
pub struct Kept {
    /// The name of the key; a previous one has the name of its successor.
    pub name: String,
    /// Whether another key of this name has replaced it.
    pub is_previous: bool,
    /// The key itself, no longer sealed.
    pub key: PrivateKey,
}

/// An open folder of keys.
#[derive(Debug)]
pub struct Vault {
    folder: PathBuf,
    sealer: Sealer,
    /// It holds the lock.
    _lock: File,
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> VaultError {
    move |source| VaultError::File { doing, path: path.to_owned(), source }
}

impl Vault {
    /// Opens the folder, which is made if it is missing, with the passphrase with which it was first opened.
    ///
    /// # Errors
    /// Fails if the passphrase is another one, if another service uses the folder, or if a file cannot be read.
    pub fn open(folder: &Path, passphrase: &[u8]) -> Result<Self, VaultError> {
        if passphrase.is_empty() {
            return Err(VaultError::NoPassphrase);
        }
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(failed("make", folder))?;
        check_trusted_folder(folder)?;
        let lock = File::open(folder).map_err(failed("open", folder))?;
        let facts = lock.metadata().map_err(failed("read", folder))?;
        // Anybody may have put files into a folder like /tmp.
        if facts.mode() & 0o022 != 0 {
            return Err(VaultError::Exposed { path: folder.to_owned() });
        }
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(VaultError::InUse { path: folder.to_owned() });
        }
        let path = folder.join(SEAL);
        let (found, is_new) = match read(&path) {
            Ok(found) => (found, false),
            Err(VaultError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                (Self::new_seal(folder, passphrase)?, true)
            }
            Err(error) => return Err(error),
        };
        let damaged = || VaultError::Damaged { path: path.clone() };
        let (head, word) = found.split_at_checked(SEAL_MAGIC.len() + SALT_BYTES + 1).ok_or_else(damaged)?;
        let rest = head.strip_prefix(SEAL_MAGIC).ok_or_else(damaged)?;
        let (salt, log_n) = rest.split_at(SALT_BYTES);
        let sealer = Sealer::new(passphrase, salt, log_n[0]).map_err(|_| damaged())?;
        if sealer.open(head, word).is_err() {
            return Err(VaultError::Passphrase { path: folder.to_owned() });
        }
        if is_new {
            write(folder, SEAL, &found)?;
        }
        Ok(Self { folder: folder.to_owned(), sealer, _lock: lock })
    }

    fn new_seal(folder: &Path, passphrase: &[u8]) -> Result<Vec<u8>, VaultError> {
        let salt = random::<SALT_BYTES>();
        let head = [SEAL_MAGIC, &salt, &[SCRYPT_LOG_N]].concat();
        let damaged = |_| VaultError::Damaged { path: folder.join(SEAL) };
        let sealer = Sealer::new(passphrase, &salt, SCRYPT_LOG_N).map_err(damaged)?;
        let word = sealer.seal(&head, &[]).map_err(damaged)?;
        Ok([head, word].concat())
    }

    /// Returns all keys.
    ///
    /// # Errors
    /// Fails if a file is not a key of this vault: the service must not start as if that key did not exist.
    pub fn keys(&self) -> Result<Vec<Kept>, VaultError> {
        let mut keys = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed("read", &self.folder))? {
            let path = entry.map_err(failed("read", &self.folder))?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(SUFFIX)) else {
                continue;
            };
            let (own, is_previous) = match name.strip_suffix(PREVIOUS) {
                Some(own) => (own, true),
                None => (name, false),
            };
            // Such a file was being written when the service ended.
            if !is_name(own) {
                continue;
            }
            if keys.len() == 2 * KEYS_MAX {
                return Err(VaultError::TooMany { path: self.folder.clone() });
            }
            let damaged = || VaultError::Damaged { path: path.clone() };
            let sealed = read(&path)?;
            let sealed = sealed.strip_prefix(KEY_MAGIC).ok_or_else(damaged)?;
            let pkcs8 = self.sealer.open(&associated(name), sealed).map_err(|_| damaged())?;
            let key = PrivateKey::of_pkcs8(&pkcs8).map_err(|_| damaged())?;
            keys.push(Kept { name: own.to_owned(), is_previous, key });
        }
        Ok(keys)
    }

    /// Stores a key.
    ///
    /// # Errors
    /// Fails if the file system does.
    pub fn store(&self, name: &str, key: &PrivateKey) -> Result<(), VaultError> {
        self.put(name, "", key)
    }

    /// Stores the key that another one of this name replaces.
    ///
    /// # Errors
    /// Fails if the file system does.
    pub fn store_previous(&self, name: &str, key: &PrivateKey) -> Result<(), VaultError> {
        self.put(name, PREVIOUS, key)
    }

    fn put(&self, name: &str, which: &str, key: &PrivateKey) -> Result<(), VaultError> {
        let path = self.path(name, which);
        let damaged = |_| VaultError::Damaged { path: path.clone() };
        let pkcs8 = key.to_pkcs8().map_err(damaged)?;
        let full = format!("{name}{which}");
        let sealed = self.sealer.seal(&associated(&full), &pkcs8).map_err(damaged)?;
        write(&self.folder, &format!("{full}{SUFFIX}"), &[KEY_MAGIC, &sealed].concat())
    }

    /// Deletes a key.
    ///
    /// # Errors
    /// Fails if the file system does.
    pub fn remove(&self, name: &str) -> Result<(), VaultError> {
        self.delete(name, "")
    }

    /// Returns the certificates of a key, which may be none.
    ///
    /// # Errors
    /// Fails if the file system does, or if the file was not written by [`Vault::store_certificates`].
    pub fn certificates(&self, name: &str) -> Result<Vec<Vec<u8>>, VaultError> {
        let path = self.certificates_path(name);
        match read_up_to(&path, CERTIFICATES_FILE_BYTES_MAX) {
            Err(VaultError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(Vec::new())
            }
            Err(error) => Err(error),
            Ok(text) => {
                let text = String::from_utf8(text).unwrap_or_default();
                let chain = all_of_pem(CERTIFICATE_LABEL, &text, CHAIN_MAX + 1);
                if chain.is_empty() { Err(VaultError::Damaged { path }) } else { Ok(chain) }
            }
        }
    }

    /// Stores the certificates of a key, in the place of those before; with none, there are none any more.
    ///
    /// # Errors
    /// Fails if the file system does.
    pub fn store_certificates(&self, name: &str, chain: &[Vec<u8>]) -> Result<(), VaultError> {
        let path = self.certificates_path(name);
        if chain.is_empty() {
            return match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", &path)(error)),
                _ => sync(&self.folder),
            };
        }
        let text: String = chain.iter().map(|der| pem(CERTIFICATE_LABEL, der)).collect();
        write(&self.folder, &format!("{name}{CERTIFICATES_SUFFIX}"), text.as_bytes())
    }

    fn certificates_path(&self, name: &str) -> PathBuf {
        assert!(is_name(name), "names are checked where they come in");
        self.folder.join(format!("{name}{CERTIFICATES_SUFFIX}"))
    }

    /// Deletes the key that another one of this name has replaced.
    ///
    /// # Errors
    /// Fails if the file system does.
    pub fn remove_previous(&self, name: &str) -> Result<(), VaultError> {
        self.delete(name, PREVIOUS)
    }

    fn delete(&self, name: &str, which: &str) -> Result<(), VaultError> {
        let path = self.path(name, which);
        fs::remove_file(&path).map_err(failed("remove", &path))?;
        sync(&self.folder)
    }

    fn path(&self, name: &str, which: &str) -> PathBuf {
        assert!(is_name(name), "names are checked where they come in");
        self.folder.join(format!("{name}{which}{SUFFIX}"))
    }
}

fn associated(name: &str) -> Vec<u8> {
    [KEY_MAGIC, name.as_bytes()].concat()
}

fn read(path: &Path) -> Result<Vec<u8>, VaultError> {
    read_up_to(path, FILE_BYTES_MAX)
}

fn read_up_to(path: &Path, most: u64) -> Result<Vec<u8>, VaultError> {
    let mut content = Vec::new();
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let file = file.map_err(failed("open", path))?;
    file.take(most + 1).read_to_end(&mut content).map_err(failed("read", path))?;
    if content.len() as u64 > most {
        return Err(VaultError::Damaged { path: path.to_owned() });
    }
    Ok(content)
}

/// Writes a file whole: first under another name, which is then renamed.
fn write(folder: &Path, name: &str, content: &[u8]) -> Result<(), VaultError> {
    let (path, beside) = (folder.join(name), folder.join(format!(".{name}.new")));
    // One of these names is left over from a service that was killed; a link is not followed, and goes as well.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(failed("remove", &beside)(error));
        }
        _ => {}
    }
    let flags = libc::O_NOFOLLOW;
    let written =
        OpenOptions::new().write(true).create_new(true).custom_flags(flags).mode(0o600).open(&beside);
    let written = written.and_then(|mut file| file.write_all(content).and_then(|()| file.sync_all()));
    written.and_then(|()| fs::rename(&beside, &path)).map_err(failed("write", &path))?;
    sync(folder)
}

fn sync(folder: &Path) -> Result<(), VaultError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed("write", folder))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_client::KeyKind;

    fn names(vault: &Vault) -> Vec<String> {
        let mut names: Vec<_> = vault.keys().unwrap().into_iter().map(|kept| kept.name).collect();
        names.sort();
        names
    }

    #[test]
    fn keys_come_back_with_the_passphrase_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        let vault = Vault::open(&path, b"one").unwrap();
        assert!(matches!(Vault::open(&path, b"one"), Err(VaultError::InUse { .. })));
        let key = PrivateKey::generate(KeyKind::P256).unwrap();
        vault.store("web", &key).unwrap();
        vault.store("mail", &PrivateKey::generate(KeyKind::Ed25519).unwrap()).unwrap();
        drop(vault);
        assert!(matches!(Vault::open(&path, b"two"), Err(VaultError::Passphrase { .. })));
        assert!(matches!(Vault::open(&path, b""), Err(VaultError::NoPassphrase)));
        let vault = Vault::open(&path, b"one").unwrap();
        assert_eq!(names(&vault), ["mail", "web"]);
        let found = vault.keys().unwrap().into_iter().find(|kept| kept.name == "web").unwrap().key;
        assert_eq!(found.public(), key.public());
        vault.remove("web").unwrap();
        assert_eq!(names(&vault), ["mail"]);
        let text = fs::read(path.join("mail.key")).unwrap();
        let pkcs8 = vault.keys().unwrap()[0].key.to_pkcs8().unwrap();
        assert!(!text.windows(16).any(|window| pkcs8.windows(16).any(|clear| clear == window)));
    }

    #[test]
    fn a_file_that_was_changed_or_renamed_is_no_key() {
        let folder = tempfile::tempdir().unwrap();
        let vault = Vault::open(folder.path(), b"one").unwrap();
        vault.store("web", &PrivateKey::generate(KeyKind::X25519).unwrap()).unwrap();
        let (web, mail) = (folder.path().join("web.key"), folder.path().join("mail.key"));
        let good = fs::read(&web).unwrap();
        fs::write(&mail, &good).unwrap();
        assert!(matches!(vault.keys(), Err(VaultError::Damaged { path }) if path == mail));
        fs::remove_file(&mail).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(&web, bad).unwrap();
            assert!(matches!(vault.keys(), Err(VaultError::Damaged { .. })), "byte {at}");
        }
        fs::write(&web, vec![0; FILE_BYTES_MAX as usize + 1]).unwrap();
        assert!(matches!(vault.keys(), Err(VaultError::Damaged { .. })));
        fs::write(&web, good).unwrap();
        assert_eq!(names(&vault), ["web"]);
    }
}
