//! A question whose answer takes a look at all keys or clients, as a value that has all that its answer depends on.
//!
//! **Guarantees:** a key that a user may not use does not exist for it, and a client is told of no kind of key that its version
//! does not know; every answer has a bound.

use crate::audit::Audit;
use crate::connection::StoredKey;
use crate::policy::Grant;
use crate::scheduler::Id;
use crate::workers::Shared;
use sealane_client::KeyInfo;
use sealane_client::setup::{
    CHAIN_BYTES_MAX, KEYS_PER_LIST, KEYS_PER_REPORT, PUBLIC_BYTES_PER_LIST, Report, ServiceStatus, Told,
};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The maximum number of clients in a status.
const CLIENTS_MAX: usize = 64;

/// Facts of the service that do not change.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) service: String,
    pub(crate) start: Instant,
    pub(crate) workers: usize,
    pub(crate) memory_locked: bool,
    pub(crate) sealed_by: String,
    pub(crate) audit: Arc<Audit>,
}

/// Keys by name, as they are at some time.
pub(crate) type ByName = Arc<BTreeMap<String, Arc<StoredKey>>>;

/// Certificates by the names of their keys.
pub(crate) type Chains = Arc<BTreeMap<String, Vec<Vec<u8>>>>;

/// A question with all that its answer depends on.
#[derive(Debug)]
pub(crate) struct Inquiry {
    pub(crate) id: Id,
    pub(crate) user: u32,
    /// The version of the protocol that the client speaks.
    pub(crate) version: u16,
    pub(crate) grant: Grant,
    pub(crate) keys: ByName,
    pub(crate) previous: ByName,
    pub(crate) certificates: Chains,
    pub(crate) what: What,
}

/// The kinds of questions.
#[derive(Debug)]
pub(crate) enum What {
    /// Keys whose names come after this one.
    List { after: String },
    /// The certificates of a key, or of keys whose names come after this one.
    Certificates { only: Option<String>, after: String },
    /// The status, without counters by name.
    Status,
    /// The status with counters, also of keys whose names come after this one.
    Report { after: String },
}

impl Inquiry {
    fn is_visible(&self, name: &str) -> bool {
        self.grant.is_admin() || !self.grant.uses(name).is_empty()
    }

    /// Returns the keys after a name that the user may see.
    fn behind<'a>(
        &'a self,
        after: &str,
        most: usize,
    ) -> impl Iterator<Item = (&'a String, &'a Arc<StoredKey>)> {
        let behind = self.keys.range::<str, _>((Bound::Excluded(after), Bound::Unbounded));
        let is_known = |key: &StoredKey| key.info.kind.version() <= self.version;
        behind.filter(move |(name, key)| is_known(key) && self.is_visible(name)).take(most)
    }

    /// Returns the next keys that the user may see, as many as fit into a message, and one at least if there is one.
    fn list(&self, after: &str) -> Vec<KeyInfo> {
        let mut bytes = 0;
        let next = self.behind(after, KEYS_PER_LIST).map(|(_, key)| &key.info);
        let fitting = next.take_while(|info| {
            let had = bytes;
            bytes += info.public.len();
            had == 0 || bytes <= PUBLIC_BYTES_PER_LIST
        });
        fitting.cloned().collect()
    }

    /// Returns the next certificates of keys that the user may see, one chain at least if there is one.
    fn chains(&self, only: Option<&str>, after: &str) -> BTreeMap<String, Vec<Vec<u8>>> {
        let mut bytes = 0;
        let behind = self.certificates.range::<str, _>((Bound::Excluded(after), Bound::Unbounded));
        let wanted = behind.filter(|(name, _)| only.is_none_or(|only| only == *name));
        let visible = wanted.filter(|(name, _)| self.is_visible(name));
        let fitting = visible.take_while(|(_, chain)| {
            let had = bytes;
            bytes += chain.iter().map(Vec::len).sum::<usize>();
            had == 0 || bytes <= CHAIN_BYTES_MAX
        });
        fitting.map(|(name, chain)| (name.clone(), chain.clone())).collect()
    }

    pub(crate) fn answer(&self, shared: &Shared, facts: &Facts) -> Told {
        match &self.what {
            What::List { after } => Told::Keys(self.list(after)),
            What::Certificates { only, after } => Told::Certificates(self.chains(only.as_deref(), after)),
            What::Status => Told::Status(Box::new(status(self, shared, facts))),
            What::Report { after } => Told::Report(Box::new(report(self, after, shared, facts))),
        }
    }
}

/// Returns the status with all counters: of keys, those that the user may use or manage.
fn report(asked: &Inquiry, after: &str, shared: &Shared, facts: &Facts) -> Report {
    let counters = &shared.counters;
    let count = |name: &str, count: &AtomicU64| (name.to_owned(), count.load(Ordering::Relaxed));
    let found: Vec<_> = asked.behind(after, KEYS_PER_REPORT).collect();
    // Its places in both lists do not count as open.
    let is_open = |key: &Arc<StoredKey>| Arc::strong_count(key).saturating_sub(2) as u64;
    Report {
        status: status(asked, shared, facts),
        counts: [
            count("connections_refused", &counters.connections_refused),
            count("connections_closed_idle", &counters.connections_idle),
            ("audit_lines_left_out".to_owned(), facts.audit.left_out()),
        ]
        .into(),
        previous: found
            .iter()
            .filter_map(|(name, _)| Some(((*name).clone(), is_open(asked.previous.get(*name)?))))
            .collect(),
        keys: found.into_iter().map(|(name, key)| count(name, &key.used)).collect(),
    }
}

/// Returns the status: all of it for a user that may manage keys; for others the facts of the service, and their own client's part
/// of the list.
fn status(asked: &Inquiry, shared: &Shared, facts: &Facts) -> ServiceStatus {
    let (mut clients, connections) = {
        let scheduler = shared.scheduler();
        (scheduler.status(CLIENTS_MAX), scheduler.connections() as u64)
    };
    clients.retain(|client| asked.grant.is_admin() || client.user == asked.user);
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
    if !asked.grant.is_admin() {
        let visible = asked.keys.keys().filter(|name| asked.is_visible(name)).count() as u64;
        let connections = facts.clients.iter().map(|client| client.connections).sum();
        return ServiceStatus { keys: visible, connections, ..facts };
    }
    ServiceStatus {
        keys: asked.keys.len() as u64,
        connections,
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
