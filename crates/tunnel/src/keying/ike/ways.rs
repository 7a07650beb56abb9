//! Our source addresses towards the peers of IKE SAs.
//!
//! Guarantees: the kernel is asked only after a change of its routes or addresses or of an IKE SA's path, and then
//! once for each pair of addresses.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
};

use sealane_ike::{IkeId, Path};

/// Returns our source address for packets to a remote address: the given one, if it is still ours, or that of the route.
pub type OwnAddress<'a> = Box<dyn Fn(IpAddr, Option<IpAddr>) -> Option<IpAddr> + 'a>;
/// Returns whether an answer of [`OwnAddress`] may differ from those before the last call.
pub type RoutesChange<'a> = Box<dyn Fn() -> bool + 'a>;

/// The source addresses that the kernel would choose.
pub(super) struct Ways<'a> {
    own_address: OwnAddress<'a>,
    routes_change: RoutesChange<'a>,
    /// A path has not been compared with the routes yet.
    is_path_new: bool,
}

impl<'a> Ways<'a> {
    pub(super) fn new(own_address: OwnAddress<'a>, routes_change: RoutesChange<'a>) -> Self {
        Self { own_address, routes_change, is_path_new: false }
    }

    /// Returns our address for packets to `remote`, which is `called` if that is still ours; `None` if no route leads
    /// there.
    pub(super) fn own_address(&self, remote: IpAddr, called: Option<IpAddr>) -> Option<IpAddr> {
        (self.own_address)(remote, called).map(|own| own.to_canonical())
    }

    /// Notes that an IKE SA has another path.
    pub(super) fn note_path(&mut self) {
        self.is_path_new = true;
    }

    /// Returns the IKE SAs whose packets would leave from another address than that of their path, with that address. What
    /// a peer has called (`true`) stays as long as it is ours.
    pub(super) fn moved(
        &mut self,
        paths: impl Iterator<Item = (IkeId, Path, bool)>,
    ) -> Vec<(IkeId, SocketAddr)> {
        // Both are called: the first reads the events.
        let is_changed = (self.routes_change)() | std::mem::take(&mut self.is_path_new);
        if !is_changed {
            return Vec::new();
        }
        let mut known = BTreeMap::new();
        let moved = paths.filter_map(|(ike, path, is_called)| {
            let (remote, called) = (path.remote.ip(), is_called.then_some(path.local.ip()));
            let own = (*known.entry((remote, called)).or_insert_with(|| self.own_address(remote, called)))?;
            (own != path.local.ip()).then(|| (ike, SocketAddr::new(own, path.local.port())))
        });
        moved.collect()
    }
}
