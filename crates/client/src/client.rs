//! Blocking calls, for one thread, over a connection that is made again after a restart of the service.
//!
//! **Guarantee:** a call returns one result. If the service ends meanwhile, the job is submitted once more to the new
//! one: a signature that nobody has seen is worthless, so making another one does no harm.

use crate::channel::Channel;
use crate::error::ClientError;
use crate::job::{Hash, Operation};
use crate::key::{Key, KeyInfo, KeyKind, Source};
use crate::setup::{Ask, Secret, ServiceStatus, Told};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// A connection to the service, for one thread.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    program: String,
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
        let channel = Channel::connect(path, program)?;
        Ok(Self { path: path.to_owned(), program: program.to_owned(), channel, handles: HashMap::new() })
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
            client.channel.call(handle, operation, content)?.map_err(ClientError::Job)
        })
    }

    /// Signs a digest with an RSA or ECDSA key: RSASSA-PKCS1-v1_5, or ECDSA in DER.
    ///
    /// # Errors
    /// Fails as [`Client::call`] does.
    pub fn sign(&mut self, key: &Key, hash: Hash, digest: &[u8]) -> Result<Vec<u8>, ClientError> {
        let operation = match key.info.kind {
            KeyKind::Rsa { .. } => Operation::SignPkcs1(Some(hash)),
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
        match self.ask(&Ask::Status)? {
            Told::Status(status) => Ok(*status),
            _ => Err(ClientError::Protocol { what: "its status" }),
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
        let source = match key.info.name.as_str() {
            "" => Source::Public(key.info.public.clone()),
            name => Source::Name(name.to_owned()),
        };
        let (handle, info) = self.channel.open(source)?;
        if info.public != key.info.public {
            return Err(ClientError::OtherKey { name: info.name });
        }
        self.handles.insert(identity, handle);
        Ok(handle)
    }

    /// Makes a call, and makes it once more over a new connection if the service has ended.
    fn again<T>(
        &mut self,
        mut call: impl FnMut(&mut Self) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        match call(self) {
            Err(ClientError::Ended) => {
                self.channel = Channel::connect(&self.path, &self.program)?;
                self.handles.clear();
                call(self)
            }
            outcome => outcome,
        }
    }
}
