//! A transfer from its first message to its last: agreement, streams, control, at either end.

mod accept;
pub(crate) mod agree;
pub(crate) mod budget;
pub(crate) mod client;
mod control;
pub(crate) mod daemon;
mod door;
pub(crate) mod ends;
mod line;
mod open;
pub(crate) mod place;
mod receiving;
mod relay;
mod roll;
mod sending;
pub(crate) mod sense;
pub(crate) mod server;
pub(crate) mod stdio;
