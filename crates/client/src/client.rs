//! Blocking calls, for one thread, over a connection that is made again after a restart of the service.
//!
//! **Guarantees:** a call returns one result. If the service ends meanwhile, or closes the connection because another client needs
//! its place, the job is submitted once more over a new one: a signature that nobody has seen is worthless, so making another
//! one does no harm. A key that was imported again after its removal is opened again; one that was replaced goes on as it was, for
//! those who have its public half.

use crate::channel::Channel;
use crate::channel::DEADLINE;
use crate::error::{ClientError, Refusal};
use crate::hash::Hash;
use crate::job::{Operation, Status};
use crate::key::{Key, KeyInfo, KeyKind, Source};
use crate::setup::{Ask, Report, Secret, ServiceStatus, Told};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// The number of times that a call is made at least, while connections end. It is made for as long as the client is patient: a
/// service that is killed again and again, and starts slowly, ends more connections than any fixed number.
const ATTEMPTS: usize = 4;

/// The pause before another attempt to connect.
const PAUSE: Duration = Duration::from_millis(5);

/// A connection to the service, for one thread.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    program: String,
    patience: Duration,
    channel: Channel,
    /// The handles in this connection, by the identities of the keys.
    handles: HashMap<Vec<u8>, u32>,
}

/// Returns the name and the public half of a key: another key may get the name once this one is removed.
fn identity(info: &KeyInfo) -> Vec<u8> {
    [info.name.as_bytes(), &[0], &info.public].concat()
}

impl Client {
    /// Connects to the service that listens at `path`, which writes `program` into its log.
    ///
    /// # Errors
    /// Fails with [`ClientError::Unreachable`], or if the service refuses.
    pub fn connect(path: &Path, program: &str) -> Result<Self, ClientError> {
        Self::connect_within(path, program, DEADLINE)
    }

    /// Does the same, but gives a service up that does not answer within `patience`, now and later.
    ///
    /// # Errors
    /// Fails with [`ClientError::Unreachable`], or if the service refuses.
    pub fn connect_within(path: &Path, program: &str, patience: Duration) -> Result<Self, ClientError> {
        let channel = connected(path, program, patience)?;
        let (path, program) = (path.to_owned(), program.to_owned());
        Ok(Self { path, program, patience, channel, handles: HashMap::new() })
    }

    /// Returns the service's name and version.
    pub fn service(&self) -> &str {
        self.channel.service()
    }

    /// Opens the key of this name.
    ///
    /// # Errors
    /// Fails if there is no such key, or none for this user, or if the connection ends.
    pub fn open(&mut self, name: &str) -> Result<Key, ClientError> {
        self.open_by(Source::Name(name.to_owned()))
    }

    /// Opens a key.
    ///
    /// # Errors
    /// Fails if there is no such key, or none for this user, or if the connection ends.
    pub fn open_by(&mut self, source: Source) -> Result<Key, ClientError> {
        self.again(|client| {
            let (handle, info) = client.channel.open(source.clone())?;
            client.handles.insert(identity(&info), handle);
            Ok(Key { info })
        })
    }

    /// Lends the service a private key, PKCS#8 in DER, until the connection ends. The key is gone when the service
    /// restarts.
    ///
    /// # Errors
    /// Fails if the bytes are not a key, or the connection ends.
    pub fn lend(&mut self, pkcs8: &[u8]) -> Result<Key, ClientError> {
        self.again(|client| {
            let (handle, info) = client.channel.lend(pkcs8)?;
            client.handles.insert(identity(&info), handle);
            Ok(Key { info })
        })
    }

    /// Has the service compute `operation` with `key`; the content is described at [`Operation`].
    ///
    /// # Errors
    /// Fails with [`ClientError::Job`] and the service's reason, or if the connection ends.
    pub fn call(
        &mut self,
        key: &Key,
        operation: Operation,
        content: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, ClientError> {
        self.again(|client| {
            let handle = client.handle(key)?;
            match client.channel.call(handle, operation, content)? {
                // A key that was removed may be there again.
                Err(status @ (Status::Removed | Status::UnknownKey)) => {
                    client.handles.remove(&identity(&key.info));
                    let _ = client.channel.ask(&Ask::Close { handle });
                    let handle = match client.handle(key) {
                        Err(ClientError::Refused(Refusal::NoSuchKey)) => {
                            return Err(ClientError::Job(status));
                        }
                        handle => handle?,
                    };
                    client.channel.call(handle, operation, content)?.map_err(ClientError::Job)
                }
                answer => answer.map_err(ClientError::Job),
            }
        })
    }

    /// Signs a digest with an RSA or ECDSA key: RSASSA-PKCS1-v1_5, RSASSA-PSS with a key for it alone, or ECDSA in DER.
    ///
    /// # Errors
    /// Fails as [`Client::call`] does.
    pub fn sign(&mut self, key: &Key, hash: Hash, digest: &[u8]) -> Result<Vec<u8>, ClientError> {
        let operation = match key.info.kind {
            KeyKind::Rsa { .. } => Operation::SignPkcs1(Some(hash)),
            KeyKind::RsaPss { limits, .. } => Operation::sign_pss(hash, limits),
            _ => Operation::SignEcdsa,
        };
        self.call(key, operation, digest).map(|signature| signature.to_vec())
    }

    /// Returns all keys that this user may use, ordered by name.
    ///
    /// # Errors
    /// Fails if the service refuses, or the connection ends.
    pub fn keys(&mut self) -> Result<Vec<KeyInfo>, ClientError> {
        let mut all: Vec<KeyInfo> = Vec::new();
        loop {
            let after = all.last().map(|last| last.name.clone()).unwrap_or_default();
            match self.ask(&Ask::List { after: after.clone() })? {
                Told::Keys(keys) if keys.is_empty() => return Ok(all),
                Told::Keys(keys) if keys.iter().all(|key| key.name > after) => all.extend(keys),
                _ => return Err(ClientError::Protocol { what: "its list of keys" }),
            }
        }
    }

    /// Has the service make a key and keep it.
    ///
    /// # Errors
    /// Fails if the service refuses, or the connection ends.
    pub fn generate(&mut self, name: &str, kind: KeyKind) -> Result<KeyInfo, ClientError> {
        self.made(&Ask::Generate { name: name.to_owned(), kind })
    }

    /// Gives the service a private key to keep: PEM, or PKCS#8 or PKCS#12 in DER.
    ///
    /// # Errors
    /// Fails if the service refuses, or the connection ends.
    pub fn import(
        &mut self,
        name: &str,
        bytes: &[u8],
        passphrase: Option<&str>,
    ) -> Result<KeyInfo, ClientError> {
        let passphrase = passphrase.map(|text| Secret(text.as_bytes().to_vec()));
        self.made(&Ask::Import { name: name.to_owned(), bytes: Secret(bytes.to_vec()), passphrase })
    }

    /// Does the same under a name that another key may have, which stays usable for those who have its public half.
    ///
    /// # Errors
    /// Fails if the service refuses, or the connection ends.
    pub fn replace(
        &mut self,
        name: &str,
        bytes: &[u8],
        passphrase: Option<&str>,
    ) -> Result<KeyInfo, ClientError> {
        let passphrase = passphrase.map(|text| Secret(text.as_bytes().to_vec()));
        self.made(&Ask::Replace { name: name.to_owned(), bytes: Secret(bytes.to_vec()), passphrase })
    }

    /// Has the service delete the key that another one of this name has replaced.
    ///
    /// # Errors
    /// Fails if the service refuses, or the connection ends.
    pub fn remove_previous(&mut self, name: &str) -> Result<(), ClientError> {
        match self.channel.ask(&Ask::RemovePrevious { name: name.to_owned() })? {
            Told::Done => Ok(()),
            _ => Err(ClientError::Protocol { what: "its answer to a removal" }),
        }
    }

    /// Has the service keep certificates in DER beside a key, that of the key first, in the place of those before.
    ///
    /// # Errors
    /// Fails if the service refuses, or the connection ends.
    pub fn certify(&mut self, name: &str, chain: &[Vec<u8>]) -> Result<(), ClientError> {
        match self.ask(&Ask::Certify { name: name.to_owned(), chain: chain.to_vec() })? {
            Told::Done => Ok(()),
            _ => Err(ClientError::Protocol { what: "its answer to certificates" }),
        }
    }

    /// Returns the certificates of a key in DER, that of the key first; none if there are none, or if this user may not use the key.
    ///
    /// # Errors
    /// Fails if the service refuses, or the connection ends.
    pub fn certificates_of(&mut self, name: &str) -> Result<Vec<Vec<u8>>, ClientError> {
        match self.ask(&Ask::Certificates { only: Some(name.to_owned()), after: String::new() })? {
            Told::Certificates(mut chains) => Ok(chains.remove(name).unwrap_or_default()),
            _ => Err(ClientError::Protocol { what: "its certificates" }),
        }
    }

    /// Returns the certificates of all keys that this user may use, by the keys' names.
    ///
    /// # Errors
    /// Fails if the service refuses, or the connection ends.
    pub fn certificates(&mut self) -> Result<BTreeMap<String, Vec<Vec<u8>>>, ClientError> {
        let mut all = BTreeMap::new();
        loop {
            let last = all.last_key_value().map(|(name, _): (&String, &Vec<Vec<u8>>)| name.clone());
            let after = last.unwrap_or_default();
            match self.ask(&Ask::Certificates { only: None, after: after.clone() })? {
                Told::Certificates(chains) if chains.is_empty() => return Ok(all),
                Told::Certificates(chains) if chains.keys().all(|name| *name > after) => all.extend(chains),
                _ => return Err(ClientError::Protocol { what: "its certificates" }),
            }
        }
    }

    /// Has the service delete a key permanently.
    ///
    /// # Errors
    /// Fails if the service refuses, or the connection ends.
    pub fn remove(&mut self, name: &str) -> Result<(), ClientError> {
        match self.channel.ask(&Ask::Remove { name: name.to_owned() })? {
            Told::Done => Ok(()),
            _ => Err(ClientError::Protocol { what: "its answer to a removal" }),
        }
    }

    /// Returns the status of the service.
    ///
    /// # Errors
    /// Fails if the service refuses, or the connection ends.
    pub fn status(&mut self) -> Result<ServiceStatus, ClientError> {
        self.report().map(|report| report.status)
    }

    /// Returns the status of the service with all counters.
    ///
    /// # Errors
    /// Fails if the service refuses, or the connection ends.
    pub fn report(&mut self) -> Result<Report, ClientError> {
        let mut whole: Option<Report> = None;
        loop {
            let last = whole.as_ref().and_then(|whole| whole.keys.last_key_value());
            let after = last.map(|(name, _)| name.clone()).unwrap_or_default();
            let is_new = |report: &Report| report.keys.keys().all(|name| *name > after);
            match (self.ask(&Ask::Report { after: after.clone() })?, &mut whole) {
                (Told::Report(report), Some(whole)) if report.keys.is_empty() => {
                    return Ok(std::mem::take(whole));
                }
                (Told::Report(report), Some(whole)) if is_new(&report) => {
                    whole.keys.extend(report.keys);
                    whole.previous.extend(report.previous);
                }
                (Told::Report(report), None) if report.keys.is_empty() => return Ok(*report),
                (Told::Report(report), None) => whole = Some(*report),
                _ => return Err(ClientError::Protocol { what: "its status" }),
            }
        }
    }

    /// Returns the numbers of the users who may use a key, and of groups whose processes may; only who manages keys may ask.
    ///
    /// # Errors
    /// Fails if the service refuses, or the connection ends.
    pub fn users_of(&mut self, name: &str) -> Result<(Vec<u32>, Vec<u32>), ClientError> {
        match self.ask(&Ask::Users { name: name.to_owned() })? {
            Told::Users { users, groups } => Ok((users, groups)),
            _ => Err(ClientError::Protocol { what: "its list of users" }),
        }
    }

    fn made(&self, ask: &Ask) -> Result<KeyInfo, ClientError> {
        match self.channel.ask(ask)? {
            Told::Key { info, .. } => Ok(info),
            _ => Err(ClientError::Protocol { what: "its answer to a new key" }),
        }
    }

    /// Sends a message that may be sent twice, and returns the answer.
    fn ask(&mut self, ask: &Ask) -> Result<Told, ClientError> {
        self.again(|client| client.channel.ask(ask))
    }

    fn handle(&mut self, key: &Key) -> Result<u32, ClientError> {
        let identity = identity(&key.info);
        if let Some(handle) = self.handles.get(&identity) {
            return Ok(*handle);
        }
        let by_public = || Source::Public(key.info.public.clone());
        let by_name = match key.info.name.as_str() {
            "" => by_public(),
            name => Source::Name(name.to_owned()),
        };
        let mut found = self.channel.open(by_name);
        // Another key has the name by now. The one that this program knows may still be there.
        let is_other = found.as_ref().is_ok_and(|(_, info)| info.public != key.info.public);
        if is_other && let Ok((handle, info)) = found {
            self.channel.ask(&Ask::Close { handle })?;
            found = match self.channel.open(by_public()) {
                Err(ClientError::Refused(Refusal::NoSuchKey)) => {
                    return Err(ClientError::OtherKey { name: info.name });
                }
                found => found,
            };
        }
        let (handle, info) = found?;
        if info.public != key.info.public {
            return Err(ClientError::OtherKey { name: info.name });
        }
        self.handles.insert(identity, handle);
        Ok(handle)
    }

    /// Makes a call, and makes it again over a new connection each time that one ends.
    fn again<T>(
        &mut self,
        mut call: impl FnMut(&mut Self) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let (since, mut attempts) = (Instant::now(), 0);
        loop {
            attempts += 1;
            match call(self) {
                Err(ClientError::Ended) if attempts < ATTEMPTS || since.elapsed() < self.patience => {}
                outcome => return outcome,
            }
            self.channel = connected(&self.path, &self.program, self.patience)?;
            self.handles.clear();
        }
    }
}

/// Returns a new connection. One that ends before the service has let it in is made again, for as long as the client is patient.
fn connected(path: &Path, program: &str, patience: Duration) -> Result<Channel, ClientError> {
    let since = Instant::now();
    loop {
        match Channel::connect_within(path, program, patience) {
            Err(ClientError::Ended) if since.elapsed() < patience => thread::sleep(PAUSE),
            outcome => return outcome,
        }
    }
}
