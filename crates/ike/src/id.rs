//! Numbers of IKE SAs and of their children.

/// An IKE SA, independent of its keys: it keeps this number when it is rekeyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IkeId(pub(crate) u64);

/// A pair of ESP or AH associations. A rekeyed child has another number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChildId(pub(crate) u64);
