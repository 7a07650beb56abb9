//! Answers set-up messages, according to the grant of the user that the kernel reports.
//!
//! **Guarantees:** a user without a grant learns nothing else; a key that a user may not use does not exist for it;
//! names are checked before they become files; every list has a bound.

use crate::audit::{Audit, Event};
use crate::chores::{Chore, Chores, Done, Kind, What};
use crate::connection::{Handle, StoredKey};
use crate::inquiries::Inquiries;
use crate::inquiry::{self, ByName, Chains, Inquiry};
use crate::policy::{Grant, Policy};
use crate::record::RecordKey;
use crate::scheduler::Id;
use crate::vault::{KEYS_MAX, Kept, Vault};
use crate::workers::Shared;
use sealane_asymmetric::{PrivateKey, PublicKey, der};
use sealane_client::job::Use;
use sealane_client::key::is_name;
use sealane_client::setup::{Ask, CHAIN_BYTES_MAX, CHAIN_MAX, Told, USERS_MAX};
use sealane_client::{KeyInfo, Refusal, Source};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The client that sent a message.
#[derive(Debug)]
pub(crate) struct Asker {
    pub(crate) id: Id,
    pub(crate) user: u32,
    pub(crate) process: i32,
    /// The version of the protocol that it speaks.
    pub(crate) version: u16,
    pub(crate) grant: Grant,
    /// Whether another thread makes an answer for it.
    pub(crate) has_chore: bool,
}

/// The keys, and the means to change them.
#[derive(Debug)]
pub(crate) struct Keys {
    /// Shared with questions that are being answered.
    by_name: ByName,
    by_public: HashMap<Vec<u8>, Arc<StoredKey>>,
    /// Those that others have replaced. They are found by their public halves alone.
    previous: ByName,
    /// The certificates of keys, that of the key itself first.
    certificates: Chains,
    /// The names of keys that are being made.
    reserved: BTreeSet<String>,
    vault: Arc<Vault>,
    pub(crate) chores: Chores,
    pub(crate) inquiries: Inquiries,
}

impl Keys {
    pub(crate) fn new(keys: Vec<Kept>, vault: Arc<Vault>, chores: Chores, inquiries: Inquiries) -> Self {
        let (by_name, previous, certificates) = Default::default();
        let (by_public, reserved) = (HashMap::new(), BTreeSet::new());
        let mut all = Self { by_name, by_public, previous, certificates, reserved, vault, chores, inquiries };
        let (previous, present): (Vec<_>, Vec<_>) = keys.into_iter().partition(|kept| kept.is_previous);
        for Kept { name, key, .. } in previous {
            all.insert_previous(stored(name, key));
        }
        for Kept { name, key, .. } in present {
            all.insert(stored(name, key));
        }
        all.read_certificates();
        all
    }

    /// Reads the certificates of all keys. One that cannot be used is said, and left out: keys sign without it.
    fn read_certificates(&mut self) {
        let mut found = BTreeMap::new();
        for (name, key) in &*self.by_name {
            let chain = self.vault.certificates(name).map_err(|error| error.to_string());
            let chain = chain.and_then(|chain| {
                let is_right = chain.is_empty() || is_chain_of(key, &chain);
                if is_right {
                    Ok(chain)
                } else {
                    Err(format!("the certificate of {name} is for another key"))
                }
            });
            match chain {
                Ok(chain) if chain.is_empty() => {}
                Ok(chain) => drop(found.insert(name.clone(), chain)),
                Err(why) => {
                    let _ = writeln!(io::stderr(), "sealane: {why}; it is left out");
                }
            }
        }
        self.certificates = Arc::new(found);
    }

    /// Keeps certificates beside a key, or removes those that are there.
    fn certify(&mut self, name: &str, chain: Vec<Vec<u8>>) -> Result<(), Refusal> {
        let key = self.by_name.get(name).ok_or(Refusal::NoSuchKey)?;
        let bytes: usize = chain.iter().map(Vec::len).sum();
        let is_small = chain.len() <= CHAIN_MAX && bytes <= CHAIN_BYTES_MAX;
        let is_right = chain.is_empty() || is_small && is_chain_of(key, &chain);
        if !is_right {
            return Err(Refusal::OtherCertificate);
        }
        let stored = self.vault.store_certificates(name, &chain);
        stored.map_err(|error| Refusal::Storage { why: error.to_string() })?;
        let all = Arc::make_mut(&mut self.certificates);
        if chain.is_empty() {
            all.remove(name)
        } else {
            all.insert(name.to_owned(), chain)
        };
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    fn insert(&mut self, key: Arc<StoredKey>) {
        self.by_public.insert(key.info.public.clone(), Arc::clone(&key));
        Arc::make_mut(&mut self.by_name).insert(key.info.name.clone(), key);
    }

    /// Keeps a key that another one of its name has replaced, in the place of the one before.
    fn insert_previous(&mut self, key: Arc<StoredKey>) {
        self.by_public.insert(key.info.public.clone(), Arc::clone(&key));
        let before = Arc::make_mut(&mut self.previous).insert(key.info.name.clone(), key);
        if let Some(before) = before {
            self.forget(&before);
        }
    }

    /// Makes all handles of a key invalid. The same key may be there under another name.
    fn forget(&mut self, key: &Arc<StoredKey>) {
        key.removed.store(true, Ordering::Release);
        if self.by_public.get(&key.info.public).is_some_and(|other| Arc::ptr_eq(other, key)) {
            self.by_public.remove(&key.info.public);
            let all = self.previous.values().chain(self.by_name.values());
            if let Some(other) = all
                .filter(|other| !Arc::ptr_eq(other, key))
                .find(|other| other.info.public == key.info.public)
            {
                self.by_public.insert(key.info.public.clone(), Arc::clone(other));
            }
        }
    }

    fn find(&self, source: &Source) -> Option<&Arc<StoredKey>> {
        match source {
            Source::Name(name) => self.by_name.get(name),
            Source::Public(der) => self.by_public.get(der),
        }
    }

    /// Reserves the name for a key that is to be made, perhaps in the place of another one.
    fn reserve(&mut self, name: &str, replaces: bool) -> Result<(), Refusal> {
        if !is_name(name) {
            return Err(Refusal::BadName);
        }
        if !replaces && self.by_name.contains_key(name) || self.reserved.contains(name) {
            return Err(Refusal::Exists);
        }
        if self.by_name.len() + self.reserved.len() >= KEYS_MAX {
            return Err(Refusal::Limit { what: "keys".to_owned() });
        }
        self.reserved.insert(name.to_owned());
        Ok(())
    }

    /// Adds a key that was made, and returns the answer.
    pub(crate) fn settle(&mut self, done: Done, shared: &Shared, audit: &Audit) -> Told {
        if done.kind == Kind::Lend {
            // The client may use its own key in any way.
            let uses = [Use::Sign, Use::Decrypt, Use::Derive].into();
            let given = done.outcome.and_then(|key| open(done.id, stored(String::new(), key), uses, shared));
            return given.unwrap_or_else(Told::Refused);
        }
        self.reserved.remove(&done.name);
        let key = match done.outcome {
            Ok(key) => key,
            Err(refusal) => return Told::Refused(refusal),
        };
        let key = stored(done.name, key);
        let (user, name, kind) = (done.user, key.info.name.clone(), key.info.kind.to_string());
        audit.write(&match done.kind {
            Kind::Import => Event::Imported { user, key: name, kind },
            Kind::Replace => Event::Replaced { user, key: name, kind },
            _ => Event::Generated { user, key: name, kind },
        });
        let info = key.info.clone();
        // Certificates are for the public half. What cannot be deleted is left out at the next start.
        if self.certificates.get(&info.name).is_some_and(|chain| !is_chain_of(&key, chain)) {
            let _ = self.certify(&info.name, Vec::new());
        }
        if let Some(old) = Arc::make_mut(&mut self.by_name).remove(&info.name) {
            self.insert_previous(old);
        }
        self.insert(key);
        Told::Key { handle: u32::MAX, info }
    }

    fn remove(&mut self, name: &str) -> Result<(), Refusal> {
        if !self.by_name.contains_key(name) {
            return Err(Refusal::NoSuchKey);
        }
        if self.previous.contains_key(name) {
            self.remove_previous(name)?;
        }
        if self.certificates.contains_key(name) {
            self.certify(name, Vec::new())?;
        }
        self.vault.remove(name).map_err(|error| Refusal::Storage { why: error.to_string() })?;
        if let Some(key) = Arc::make_mut(&mut self.by_name).remove(name) {
            self.forget(&key);
        }
        Ok(())
    }

    fn remove_previous(&mut self, name: &str) -> Result<(), Refusal> {
        if !self.previous.contains_key(name) {
            return Err(Refusal::NoSuchKey);
        }
        self.vault.remove_previous(name).map_err(|error| Refusal::Storage { why: error.to_string() })?;
        if let Some(key) = Arc::make_mut(&mut self.previous).remove(name) {
            self.forget(&key);
        }
        Ok(())
    }
}

/// Returns whether these are certificates, the first one of them for this key.
fn is_chain_of(key: &StoredKey, chain: &[Vec<u8>]) -> bool {
    let parts: Option<Vec<_>> = chain.iter().map(|der| der::of_certificate(der)).collect();
    let first = parts.and_then(|parts| PublicKey::of_der(parts.first()?.public).ok());
    first.is_some_and(|public| public.der() == key.info.public)
}

fn stored(name: String, key: PrivateKey) -> Arc<StoredKey> {
    let info = KeyInfo { name, kind: key.kind(), public: key.public().to_vec() };
    Arc::new(StoredKey { info, key, removed: AtomicBool::new(false), used: AtomicU64::new(0) })
}

/// The reaction to a message.
pub(crate) enum Answered {
    /// This message must be sent.
    Now(Told),
    /// Another thread will produce the answer.
    Later,
}

/// Answers a message other than the first one.
pub(crate) fn answer(
    ask: Ask,
    asker: &mut Asker,
    keys: &mut Keys,
    policy: &Policy,
    shared: &Shared,
    audit: &Audit,
) -> Answered {
    match answered(ask, asker, keys, policy, shared, audit) {
        Ok(answered) => answered,
        Err(refusal) => {
            audit.write(&Event::Refused {
                user: asker.user,
                process: asker.process,
                why: refusal.to_string(),
            });
            Answered::Now(Told::Refused(refusal))
        }
    }
}

fn answered(
    ask: Ask,
    asker: &mut Asker,
    keys: &mut Keys,
    policy: &Policy,
    shared: &Shared,
    audit: &Audit,
) -> Result<Answered, Refusal> {
    if asker.has_chore {
        return Err(Refusal::Unexpected);
    }
    let told = match ask {
        Ask::Hello { .. } => return Err(Refusal::Unexpected),
        Ask::Open(source) => open_known(&source, asker, keys, shared, audit)?,
        Ask::Lend { pkcs8 } => {
            require(asker.grant.may_lend(), Refusal::NotAllowed)?;
            return chore(asker, keys, String::new(), What::Lend { pkcs8 });
        }
        Ask::Session { cipher, key } => {
            require(asker.grant.may_lend(), Refusal::NotAllowed)?;
            let key = RecordKey::new(cipher, &key.0).ok_or(Refusal::BadKey)?;
            let handle = give_handle(asker.id, Handle::Record(Arc::new(key)), shared)?;
            Told::Session { handle }
        }
        Ask::Close { handle } => {
            shared.scheduler().close(asker.id, handle);
            Told::Done
        }
        Ask::List { after } => return Ok(inquire(asker, keys, inquiry::What::List { after })),
        Ask::Certificates { only, after } => {
            return Ok(inquire(asker, keys, inquiry::What::Certificates { only, after }));
        }
        Ask::Certify { name, chain } => {
            require(asker.grant.is_admin(), Refusal::NotAdmin)?;
            let certificates = chain.len();
            keys.certify(&name, chain)?;
            audit.write(&Event::Certified { user: asker.user, key: name, certificates });
            Told::Done
        }
        Ask::Status => return Ok(inquire(asker, keys, inquiry::What::Status)),
        Ask::Report { after } => return Ok(inquire(asker, keys, inquiry::What::Report { after })),
        Ask::Generate { name, kind } => return chore(asker, keys, name, What::Generate(kind)),
        Ask::Import { name, bytes, passphrase } => {
            return chore(asker, keys, name, What::Import { bytes, passphrase });
        }
        Ask::Replace { name, bytes, passphrase } => {
            let old = keys.by_name.get(&name).cloned();
            return chore(asker, keys, name, What::Replace { bytes, passphrase, old });
        }
        Ask::RemovePrevious { name } => {
            require(asker.grant.is_admin(), Refusal::NotAdmin)?;
            keys.remove_previous(&name)?;
            audit.write(&Event::Removed { user: asker.user, key: format!("{name} (previous)") });
            Told::Done
        }
        Ask::Remove { name } => {
            require(asker.grant.is_admin(), Refusal::NotAdmin)?;
            keys.remove(&name)?;
            audit.write(&Event::Removed { user: asker.user, key: name });
            Told::Done
        }
        Ask::Users { name } => {
            require(asker.grant.is_admin(), Refusal::NotAdmin)?;
            let (users, groups) = policy.users_of(&name);
            let some = |all: BTreeSet<u32>| all.into_iter().take(USERS_MAX).collect();
            Told::Users { users: some(users), groups: some(groups) }
        }
    };
    Ok(Answered::Now(told))
}

/// Refuses what is not allowed.
fn require(is_allowed: bool, otherwise: Refusal) -> Result<(), Refusal> {
    if is_allowed { Ok(()) } else { Err(otherwise) }
}

/// Opens a key that the user may use, and whose kind the client knows; for others it does not exist.
fn open_known(
    source: &Source,
    asker: &Asker,
    keys: &Keys,
    shared: &Shared,
    audit: &Audit,
) -> Result<Told, Refusal> {
    let key = keys.find(source).ok_or(Refusal::NoSuchKey)?;
    let uses = asker.grant.uses(&key.info.name);
    require(!uses.is_empty() && key.info.kind.version() <= asker.version, Refusal::NoSuchKey)?;
    let name = key.info.name.clone();
    let told = open(asker.id, Arc::clone(key), uses, shared)?;
    audit.write(&Event::Opened { user: asker.user, process: asker.process, key: name });
    Ok(told)
}

fn open(id: Id, key: Arc<StoredKey>, uses: BTreeSet<Use>, shared: &Shared) -> Result<Told, Refusal> {
    let info = key.info.clone();
    let handle = give_handle(id, Handle::Private { key, uses }, shared)?;
    Ok(Told::Key { handle, info })
}

fn give_handle(id: Id, handle: Handle, shared: &Shared) -> Result<u32, Refusal> {
    shared.scheduler().open(id, handle).ok_or_else(|| Refusal::Limit { what: "open keys".to_owned() })
}

fn chore(asker: &mut Asker, keys: &mut Keys, name: String, what: What) -> Result<Answered, Refusal> {
    let is_kept = !matches!(what, What::Lend { .. });
    require(!is_kept || asker.grant.is_admin(), Refusal::NotAdmin)?;
    if let What::Generate(kind) = &what
        && kind.to_string().parse() != Ok(*kind)
    {
        return Err(Refusal::BadKey);
    }
    if is_kept {
        keys.reserve(&name, matches!(what, What::Replace { .. }))?;
    }
    let added = keys.chores.add(Chore { id: asker.id, user: asker.user, name: name.clone(), what });
    if added.is_err() {
        keys.reserved.remove(&name);
    }
    added?;
    asker.has_chore = true;
    Ok(Answered::Later)
}

/// Hands a question over to the thread that answers it.
fn inquire(asker: &mut Asker, keys: &Keys, what: inquiry::What) -> Answered {
    keys.inquiries.add(Inquiry {
        id: asker.id,
        user: asker.user,
        version: asker.version,
        grant: asker.grant.clone(),
        keys: Arc::clone(&keys.by_name),
        previous: Arc::clone(&keys.previous),
        certificates: Arc::clone(&keys.certificates),
        what,
    });
    asker.has_chore = true;
    Answered::Later
}
