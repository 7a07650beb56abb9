//! The terms of a transfer.

use sealane_engine::Suite;
use sealane_lanes::Placement;

use crate::{
    options::{Compression, Delta, Level},
    proto::message::LANES_MAX,
    summary::Agreement,
};

/// The default for the maximum number of streams that a path may turn out to benefit from. Up to this number every
/// stream has buffers of full size.
pub(crate) const STREAMS_DEFAULT_MAX: u16 = 16;

/// The agreed terms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) level: Level,
    pub(crate) suite: Suite,
    /// Streams at first.
    pub(crate) streams: u16,
    /// The maximum number of streams that the path may turn out to benefit from.
    pub(crate) streams_max: u16,
    /// Lanes at this end.
    pub(crate) lanes: u16,
    pub(crate) placement: Placement,
    /// `None` until the far end has answered.
    pub(crate) compression: Compression,
    pub(crate) delta: Delta,
}

impl Terms {
    /// Returns the terms that are reported to the observer.
    pub(crate) fn agreement(&self) -> Agreement {
        Agreement {
            level: self.level,
            suite: Some(self.suite),
            streams: self.streams,
            lanes: self.lanes,
            placement: self.placement,
        }
    }
}

/// Returns the number of processors that this process may use.
pub(crate) fn processors() -> u16 {
    sealane_lanes::available_lanes().min(usize::from(LANES_MAX)) as u16
}
