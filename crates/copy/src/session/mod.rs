//! A transfer from its first message to its last: agreement, streams, control, at either end.

mod accept;
pub(crate) mod agree;
mod authorisation;
pub(crate) mod budget;
mod carriage;
pub(crate) mod claims;
pub(crate) mod client;
pub(crate) mod complaints;
pub(crate) mod control;
pub(crate) mod daemon;
mod door;
pub(crate) mod ends;
pub(crate) mod far_place;
pub(crate) mod leftovers;
mod line;
mod messages;
mod open;
pub(crate) mod place;
pub(crate) mod receiving;
mod relay;
pub(crate) mod resumption;
pub(crate) mod roles;
pub(crate) mod sending;
pub(crate) mod sense;
pub(crate) mod server;
pub(crate) mod stdio;
pub(crate) mod transfer;
