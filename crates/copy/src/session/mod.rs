//! A transfer from its first message to its last: agreement, streams, control, at either end.

mod accept;
pub(crate) mod agree;
mod authorisation;
pub(crate) mod budget;
mod carriage;
pub(crate) mod client;
pub(crate) mod control;
pub(crate) mod daemon;
mod door;
mod folders;
mod line;
mod messages;
mod open;
mod reach;
pub(crate) mod receiving;
pub(crate) mod relay;
pub(crate) mod sending;
pub(crate) mod server;
pub(crate) mod stdio;
mod survey;
