//! The sending end: scan, queue, lanes, streams.

pub(crate) mod acknowledgements;
pub(crate) mod batch;
pub(crate) mod compare;
pub(crate) mod compress;
pub(crate) mod equal;
pub(crate) mod fill;
pub(crate) mod lane;
pub(crate) mod line;
pub(crate) mod manifest;
pub(crate) mod moved;
mod pack;
mod ranges;
pub(crate) mod removal;
pub(crate) mod scan;
pub(crate) mod stream;
pub(crate) mod window;
pub(crate) mod work;
