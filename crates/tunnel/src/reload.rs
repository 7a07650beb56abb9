//! The files of a running gateway, which are read again when they change: the site file, and the credentials of peers that
//! speak IKE.
//!
//! A gateway has given up the right to read them, so its keeper reads them ([`watched`](crate::watched)), and hands the
//! content on. [`Files`] decides what has changed.
//!
//! Guarantees: nothing changes unless all of them are good
//! and the host takes the change; a peer whose lines and files are as before notices nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use sealane_engine::debug_only;
use sealane_ike::Peer;
use sealane_ipsec::policy::PeerId;
use sealane_port::Room;

use crate::{
    credentials::{Contents, Reader},
    host::{Wanted, keeper::Keeper},
    keying::ike::configured_peer,
    outward,
    site::{Keys, PeerSite, Site},
};

/// The interval between looks at the files.
const LOOK: Duration = Duration::from_secs(1);

/// The changes of a reload.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Peers that are not there any more.
    pub removed: Vec<PeerId>,
    /// Peers whose credentials have changed, once for each way in which clients prove themselves.
    pub renewed: Vec<(PeerId, Peer)>,
    /// New peers, likewise.
    pub added: Vec<(PeerId, PeerSite, Vec<Peer>)>,
}

impl Changes {
    /// Returns whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.renewed.is_empty() && self.added.is_empty()
    }

    /// Returns the changes in words.
    fn words(&self) -> String {
        let count = |count: usize, what: &str| (count > 0).then(|| format!("{count} {what}"));
        let renewed: BTreeSet<PeerId> = self.renewed.iter().map(|(id, _)| *id).collect();
        let parts = [
            count(self.added.len(), "added"),
            count(self.removed.len(), "removed"),
            count(renewed.len(), "with other credentials"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() {
            "no peer has changed".to_owned()
        } else {
            format!("peers: {}", parts.join(", "))
        }
    }
}

/// The places of peers in a running gateway.
pub trait Places {
    /// Returns the number of peers that can be added.
    fn room(&self) -> usize;
    /// Adds a peer, which is possible.
    fn add(&mut self, peer: &PeerSite) -> PeerId;
    /// Lets a peer that was removed come back.
    fn restore(&mut self, id: PeerId);
}

/// The files as they are in use.
pub struct Files {
    path: PathBuf,
    own_key: Option<PathBuf>,
    /// The site in use.
    site: Site,
    /// The places of its peers.
    places: Vec<PeerId>,
    /// Peers that were removed, with their places: one that comes back as it was has its place again.
    gone: Vec<(PeerId, PeerSite)>,
    digests: BTreeMap<PathBuf, [u8; 32]>,
    room: Room,
    look_at: Instant,
    /// The stamp of what is in use; `None` at first, because the files may have changed since they were read.
    stamp: Option<String>,
    /// A stamp that differs from the one in use: the files are read once it does not change any more.
    newer: Option<String>,
}

debug_only!(Files { path });

fn digests(contents: &Contents) -> BTreeMap<PathBuf, [u8; 32]> {
    contents.iter().map(|(path, content)| (path.clone(), *blake3::hash(content).as_bytes())).collect()
}

/// Returns the first property beside the peers that takes a restart to change.
fn fixed(old: &Site, new: &Site) -> Option<&'static str> {
    let differs = [
        (old.device != new.device, "device"),
        (old.listen != new.listen, "listen"),
        (old.encapsulation != new.encapsulation, "encapsulation"),
        (old.is_direct != new.is_direct, "direct"),
        (old.protocol != new.protocol, "protocol"),
        (old.addresses != new.addresses, "addresses"),
        (old.mtu != new.mtu, "mtu"),
        (old.identity != new.identity, "identity"),
        (old.hooks != new.hooks, "up, down, dns or dns-search"),
        (old.fails_open != new.fails_open, "fail-open"),
        (old.ml_dsa != new.ml_dsa, "ml-dsa"),
        (old.queueing != new.queueing, "queueing"),
        (old.queues != new.queues, "queues"),
        (old.pool != new.pool, "pool"),
        (old.tcp_ports() != new.tcp_ports(), "tcp"),
        (old.takes_resolvers() != new.takes_resolvers(), "peer-dns"),
    ];
    let named = differs.into_iter().find(|(differs, _)| *differs).map(|(_, name)| name);
    // A property that the list does not know takes a restart, too.
    let bare = |site: &Site| Site { peers: Vec::new(), ..site.clone() };
    named.or_else(|| (bare(old) != bare(new)).then_some("a property beside the peers"))
}

/// The peers in use and those that were, by which the peers of the file as it is now are recognised.
struct InUse<'a> {
    by_name: BTreeMap<&'a str, (PeerId, &'a PeerSite)>,
    gone: &'a [(PeerId, PeerSite)],
}

impl<'a> InUse<'a> {
    fn of(files: &'a Files) -> Self {
        let by_name = files.peers().map(|(id, peer)| (&*peer.name, (id, peer))).collect();
        Self { by_name, gone: &files.gone }
    }

    /// Returns the place of a peer that is as it was.
    fn same(&self, peer: &PeerSite) -> Option<PeerId> {
        self.by_name.get(&*peer.name).filter(|(_, own)| *own == peer).map(|(id, _)| *id)
    }

    /// Returns the place of a peer that comes back as it was.
    fn returns(&self, peer: &PeerSite) -> Option<PeerId> {
        self.gone.iter().find(|(_, own)| own == peer).map(|(id, _)| *id)
    }
}

fn is_ike(peer: &PeerSite) -> bool {
    matches!(peer.keys, Keys::Ike(_))
}

impl Files {
    /// Returns the files of a gateway that starts; `contents` is what was read.
    pub fn new(path: &Path, own_key: Option<&Path>, site: &Site, contents: &Contents, now: Instant) -> Self {
        Self {
            path: path.to_owned(),
            own_key: own_key.map(Path::to_owned),
            places: (0..site.peers.len() as u32).map(PeerId).collect(),
            gone: Vec::new(),
            digests: digests(contents),
            room: outward::room(site),
            site: site.clone(),
            look_at: now + LOOK,
            stamp: None,
            newer: None,
        }
    }

    /// Returns the peers in use.
    pub fn peers(&self) -> impl Iterator<Item = (PeerId, &PeerSite)> {
        self.places.iter().copied().zip(&self.site.peers)
    }

    /// Looks at the files, if that is due. Returns whether they have changed and seem to be complete.
    pub fn have_changed(&mut self, keeper: &Keeper, now: Instant) -> bool {
        if now < self.look_at {
            return false;
        }
        self.look_at = now + LOOK;
        // A keeper that is gone ends the gateway elsewhere.
        let Ok(stamp) = keeper.stamp() else { return false };
        if self.stamp.as_ref() == Some(&stamp) {
            self.newer = None;
            return false;
        }
        if self.newer.as_ref() == Some(&stamp) {
            self.stamp = self.newer.take();
            return true;
        }
        self.newer = Some(stamp);
        false
    }

    /// Reads the files, and changes the host. Returns what else is to be changed, with words for the operator. After an error
    /// everything is as before.
    ///
    /// # Errors
    /// Fails with a message for the operator.
    pub fn read(
        &mut self,
        keeper: &Keeper,
        places: &mut dyn Places,
    ) -> Result<(Changes, Vec<String>), String> {
        let bundle = keeper.read().map_err(|error| error.to_string())?;
        // A change after this is noticed later.
        let contents = bundle.contents()?;
        let site = Site::parse(&self.path, &bundle.site).map_err(|error| error.to_string())?;
        let used = InUse::of(self);
        let kept: BTreeSet<PeerId> = site.peers.iter().filter_map(|peer| used.same(peer)).collect();
        if let Some(why) = self.takes_restart(&site, &used, &kept) {
            return Err(format!("{}: {why}", self.path.display()));
        }
        let is_new = |peer: &&PeerSite| used.same(peer).is_none() && used.returns(peer).is_none();
        if site.peers.iter().filter(is_new).count() > places.room() {
            return Err("there is no room for more peers: restart the gateway".to_owned());
        }
        // Everything is read before anything changes.
        let digests = digests(&contents);
        let made = self.made(&site, &used, contents, &digests)?;
        let wanted = Wanted::of(&site, &self.site.device);
        // The keeper repairs by itself what has vanished, and says so.
        let notes = match wanted == Wanted::of(&self.site, &self.site.device) {
            true => Vec::new(),
            false => keeper.change(&wanted).map_err(|error| error.to_string())?,
        };
        let mut changes = Changes::default();
        changes.removed.extend(self.places.iter().filter(|id| !kept.contains(id)));
        let mut ids = Vec::new();
        for (peer, made) in site.peers.iter().zip(made) {
            let id = match (used.same(peer), used.returns(peer)) {
                (Some(id), _) => {
                    changes.renewed.extend(made.into_iter().flatten().map(|peer| (id, peer)));
                    ids.push(id);
                    continue;
                }
                (None, Some(id)) => {
                    places.restore(id);
                    id
                }
                (None, None) => places.add(peer),
            };
            changes.added.push((id, peer.clone(), made.unwrap_or_default()));
            ids.push(id);
        }
        let gone = self.peers().filter(|(id, _)| !kept.contains(id)).map(|(id, peer)| (id, peer.clone()));
        let gone: Vec<_> = gone.collect();
        self.gone.retain(|(id, _)| !ids.contains(id));
        self.gone.extend(gone);
        (self.site, self.places, self.digests) = (site, ids, digests);
        let words = format!("{} is read again; {}", self.path.display(), changes.words());
        Ok((changes, std::iter::once(words).chain(notes).collect()))
    }

    /// Returns the reason why a running gateway cannot change to `site`, of whose peers `kept` are as they were.
    fn takes_restart(&self, site: &Site, used: &InUse<'_>, kept: &BTreeSet<PeerId>) -> Option<String> {
        if let Some(what) = fixed(&self.site, site) {
            return Some(format!("{what} has changed, which takes a restart"));
        }
        let fixed = site.peers.iter().find(|peer| !is_ike(peer) && used.same(peer).is_none());
        let lost = self.peers().find(|(id, peer)| !is_ike(peer) && !kept.contains(id)).map(|(_, peer)| peer);
        if let Some(peer) = fixed.or(lost) {
            return Some(format!(
                "peer {:?} has changed, and peers with `key` or keys from files take a restart",
                peer.name
            ));
        }
        let has_ike = |site: &Site| site.peers.iter().any(is_ike);
        let room = outward::room(site);
        let fits = room.headroom_bytes <= self.room.headroom_bytes
            && room.align_bytes <= self.room.align_bytes
            && room.tailroom_bytes <= self.room.tailroom_bytes;
        (!fits || has_ike(site) && !has_ike(&self.site))
            .then(|| "its new proposals, or its first peer with `ike`, take a restart".to_owned())
    }

    /// Returns for each peer of `site` what IKE has to know of it, if the peer or one of its files is another than before.
    fn made(
        &self,
        site: &Site,
        used: &InUse<'_>,
        contents: Contents,
        digests: &BTreeMap<PathBuf, [u8; 32]>,
    ) -> Result<Vec<Option<Vec<Peer>>>, String> {
        let own_key = site.identity.as_deref().or(self.own_key.as_deref());
        let has_new_files = |peer: &PeerSite| match &peer.keys {
            Keys::Ike(ike) => {
                ike.proof.files(own_key).iter().any(|path| self.digests.get(path) != digests.get(path))
            }
            _ => false,
        };
        let mut reader = Reader::of(contents, own_key);
        let of_peer = |peer: &PeerSite| {
            let is_needed = is_ike(peer) && (used.same(peer).is_none() || has_new_files(peer));
            let of_peer = is_needed.then(|| configured_peer(site, peer, &mut reader));
            of_peer.transpose().map_err(|error| error.to_string())
        };
        site.peers.iter().map(of_peer).collect()
    }
}
