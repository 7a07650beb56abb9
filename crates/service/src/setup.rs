//! Answers set-up messages, according to the grant of the user that the kernel reports.
//!
//! **Guarantees:** a user without a grant learns nothing else; a key that a user may not use does not exist for it;
//! names are checked before they become files; every list has a bound.

use crate::audit::{Audit, Event};
use crate::chores::{Chore, Chores, Done, Kind, What};
use crate::connection::{Handle, StoredKey};
use crate::policy::{Grant, Policy};
use crate::record::RecordKey;
use crate::scheduler::Id;
use crate::vault::{KEYS_MAX, Kept, Vault};
use crate::workers::Shared;
use sealane_asymmetric::PrivateKey;
use sealane_client::job::Use;
use sealane_client::key::is_name;
use sealane_client::setup::{Ask, KEYS_PER_LIST, KEYS_PER_REPORT, Report, ServiceStatus, Told, USERS_MAX};
use sealane_client::{KeyInfo, Refusal, Source};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// The maximum number of clients in a status.
const CLIENTS_MAX: usize = 64;

/// The client that sent a message.
#[derive(Debug)]
pub(crate) struct Asker {
    pub(crate) id: Id,
    pub(crate) user: u32,
    pub(crate) process: i32,
    /// The version of the protocol that it speaks.
    pub(crate) version: u16,
    pub(crate) grant: Grant,
    /// Whether a chore is under way for it.
    pub(crate) has_chore: bool,
}

/// Facts of the service that do not change.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) service: String,
    pub(crate) start: Instant,
    pub(crate) workers: usize,
    pub(crate) memory_locked: bool,
    pub(crate) sealed_by: String,
}

/// The keys, and the means to change them.
#[derive(Debug)]
pub(crate) struct Keys {
    by_name: BTreeMap<String, Arc<StoredKey>>,
    by_public: HashMap<Vec<u8>, Arc<StoredKey>>,
    /// Those that others have replaced. They are found by their public halves alone.
    previous: BTreeMap<String, Arc<StoredKey>>,
    /// The names of keys that are being made.
    reserved: BTreeSet<String>,
    vault: Arc<Vault>,
    pub(crate) chores: Chores,
}

impl Keys {
    pub(crate) fn new(keys: Vec<Kept>, vault: Arc<Vault>, chores: Chores) -> Self {
        let mut all = Self {
            by_name: BTreeMap::new(),
            by_public: HashMap::new(),
            previous: BTreeMap::new(),
            reserved: BTreeSet::new(),
            vault,
            chores,
        };
        let (previous, present): (Vec<_>, Vec<_>) = keys.into_iter().partition(|kept| kept.is_previous);
        for Kept { name, key, .. } in previous {
            all.insert_previous(stored(name, key));
        }
        for Kept { name, key, .. } in present {
            all.insert(stored(name, key));
        }
        all
    }

    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    fn insert(&mut self, key: Arc<StoredKey>) {
        self.by_public.insert(key.info.public.clone(), Arc::clone(&key));
        self.by_name.insert(key.info.name.clone(), key);
    }

    /// Keeps a key that another one of its name has replaced, in the place of the one before.
    fn insert_previous(&mut self, key: Arc<StoredKey>) {
        self.by_public.insert(key.info.public.clone(), Arc::clone(&key));
        if let Some(before) = self.previous.insert(key.info.name.clone(), key) {
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
        if let Some(old) = self.by_name.remove(&info.name) {
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
        self.vault.remove(name).map_err(|error| Refusal::Storage { why: error.to_string() })?;
        if let Some(key) = self.by_name.remove(name) {
            self.forget(&key);
        }
        Ok(())
    }

    fn remove_previous(&mut self, name: &str) -> Result<(), Refusal> {
        if !self.previous.contains_key(name) {
            return Err(Refusal::NoSuchKey);
        }
        self.vault.remove_previous(name).map_err(|error| Refusal::Storage { why: error.to_string() })?;
        if let Some(key) = self.previous.remove(name) {
            self.forget(&key);
        }
        Ok(())
    }
}

fn stored(name: String, key: PrivateKey) -> Arc<StoredKey> {
    let info = KeyInfo { name, kind: key.kind(), public: key.public().to_vec() };
    Arc::new(StoredKey { info, key, removed: AtomicBool::new(false), used: AtomicU64::new(0) })
}

/// The reaction to a message.
pub(crate) enum Answered {
    /// This message must be sent.
    Now(Told),
    /// A chore will produce the answer.
    Later,
}

/// Answers a message other than the first one.
pub(crate) fn answer(
    ask: Ask,
    asker: &mut Asker,
    keys: &mut Keys,
    policy: &Policy,
    shared: &Shared,
    facts: &Facts,
    audit: &Audit,
) -> Answered {
    match answered(ask, asker, keys, policy, shared, facts, audit) {
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
    facts: &Facts,
    audit: &Audit,
) -> Result<Answered, Refusal> {
    if asker.has_chore {
        return Err(Refusal::Unexpected);
    }
    let told = match ask {
        Ask::Hello { .. } => return Err(Refusal::Unexpected),
        Ask::Open(source) => {
            let key = keys.find(&source).ok_or(Refusal::NoSuchKey)?;
            let uses = asker.grant.uses(&key.info.name);
            if uses.is_empty() {
                return Err(Refusal::NoSuchKey);
            }
            let name = key.info.name.clone();
            let told = open(asker.id, Arc::clone(key), uses, shared)?;
            audit.write(&Event::Opened { user: asker.user, process: asker.process, key: name });
            told
        }
        Ask::Lend { pkcs8 } => {
            if !asker.grant.may_lend() {
                return Err(Refusal::NotAllowed);
            }
            return chore(asker, keys, String::new(), What::Lend { pkcs8 });
        }
        Ask::Session { cipher, key } => {
            if !asker.grant.may_lend() {
                return Err(Refusal::NotAllowed);
            }
            let key = RecordKey::new(cipher, &key.0).ok_or(Refusal::BadKey)?;
            let handle = give_handle(asker.id, Handle::Record(Arc::new(key)), shared)?;
            Told::Session { handle }
        }
        Ask::Close { handle } => {
            shared.scheduler().close(asker.id, handle);
            Told::Done
        }
        Ask::List { after } => {
            let behind = keys.by_name.range::<str, _>((Bound::Excluded(after.as_str()), Bound::Unbounded));
            let usable =
                behind.filter(|(name, _)| asker.grant.is_admin() || !asker.grant.uses(name).is_empty());
            Told::Keys(usable.take(KEYS_PER_LIST).map(|(_, key)| key.info.clone()).collect())
        }
        Ask::Generate { name, kind } => return chore(asker, keys, name, What::Generate(kind)),
        Ask::Import { name, bytes, passphrase } => {
            return chore(asker, keys, name, What::Import { bytes, passphrase });
        }
        Ask::Replace { name, bytes, passphrase } => {
            let old = keys.by_name.get(&name).cloned();
            return chore(asker, keys, name, What::Replace { bytes, passphrase, old });
        }
        Ask::RemovePrevious { name } => {
            if !asker.grant.is_admin() {
                return Err(Refusal::NotAdmin);
            }
            keys.remove_previous(&name)?;
            audit.write(&Event::Removed { user: asker.user, key: format!("{name} (previous)") });
            Told::Done
        }
        Ask::Remove { name } => {
            if !asker.grant.is_admin() {
                return Err(Refusal::NotAdmin);
            }
            keys.remove(&name)?;
            audit.write(&Event::Removed { user: asker.user, key: name });
            Told::Done
        }
        Ask::Status => Told::Status(Box::new(status(asker, keys, shared, facts))),
        Ask::Report { after } => Told::Report(Box::new(report(&after, asker, keys, shared, facts))),
        Ask::Users { name } => {
            if !asker.grant.is_admin() {
                return Err(Refusal::NotAdmin);
            }
            let (users, groups) = policy.users_of(&name);
            let some = |all: BTreeSet<u32>| all.into_iter().take(USERS_MAX).collect();
            Told::Users { users: some(users), groups: some(groups) }
        }
    };
    Ok(Answered::Now(told))
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
    if is_kept && !asker.grant.is_admin() {
        return Err(Refusal::NotAdmin);
    }
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

/// Returns the status with all counters: of keys, those that the user may use or manage.
fn report(after: &str, asker: &Asker, keys: &Keys, shared: &Shared, facts: &Facts) -> Report {
    let is_visible = |name: &str| asker.grant.is_admin() || !asker.grant.uses(name).is_empty();
    let counters = &shared.counters;
    let count = |name: &str, count: &AtomicU64| (name.to_owned(), count.load(Ordering::Relaxed));
    let behind = keys.by_name.range::<str, _>((Bound::Excluded(after), Bound::Unbounded));
    let found: Vec<_> = behind.filter(|(name, _)| is_visible(name)).take(KEYS_PER_REPORT).collect();
    // Its places in both lists do not count as open.
    let is_open = |key: &Arc<StoredKey>| Arc::strong_count(key).saturating_sub(2) as u64;
    Report {
        status: status(asker, keys, shared, facts),
        counts: [
            count("connections_refused", &counters.connections_refused),
            count("connections_closed_idle", &counters.connections_idle),
        ]
        .into(),
        previous: found
            .iter()
            .filter_map(|(name, _)| Some(((*name).clone(), is_open(keys.previous.get(*name)?))))
            .collect(),
        keys: found.into_iter().map(|(name, key)| count(name, &key.used)).collect(),
    }
}

/// Returns the status: all of it for a user that may manage keys; for others the facts of the service, and their own client's part
/// of the list.
fn status(asker: &Asker, keys: &Keys, shared: &Shared, facts: &Facts) -> ServiceStatus {
    let scheduler = shared.scheduler();
    let mut clients = scheduler.status(CLIENTS_MAX);
    clients.retain(|client| asker.grant.is_admin() || client.user == asker.user);
    let counters = &shared.counters;
    let facts = ServiceStatus {
        service: facts.service.clone(),
        up_seconds: facts.start.elapsed().as_secs(),
        workers: facts.workers as u32,
        memory_locked: facts.memory_locked,
        sealed_by: facts.sealed_by.clone(),
        clients,
        ..ServiceStatus::default()
    };
    if !asker.grant.is_admin() {
        let visible = keys.by_name.keys().filter(|name| !asker.grant.uses(name).is_empty()).count() as u64;
        let connections = facts.clients.iter().map(|client| client.connections).sum();
        return ServiceStatus { keys: visible, connections, ..facts };
    }
    ServiceStatus {
        keys: keys.len() as u64,
        connections: scheduler.connections() as u64,
        done: counters.done(),
        refused: counters.refused(),
        lies: counters.lies.load(Ordering::Relaxed),
        wakes: counters.wakes.load(Ordering::Relaxed),
        batches: counters.batches.load(Ordering::Relaxed),
        divided: counters.divided.load(Ordering::Relaxed),
        busy_ns: counters.busy_ns.load(Ordering::Relaxed),
        ..facts
    }
}
