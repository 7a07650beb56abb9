//! The receiving end: streams, lanes, files.

pub(crate) mod apply;
pub(crate) mod files;
pub(crate) mod lane;
pub(crate) mod line;
pub(crate) mod movable;
pub(crate) mod permit;
pub(crate) mod prune;
pub(crate) mod strays;
pub(crate) mod stream;
