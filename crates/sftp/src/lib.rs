//! SFTP version 3 (draft-ietf-secsh-filexfer-02) with OpenSSH's extensions (its file PROTOCOL, section 4) for
//! clients: a codec, and [`Client`], a value that turns requests into bytes and bytes into replies. It reads no
//! socket, no file and no clock.
//!
//! Invariants: a reply is matched to a request in flight, and has a form that answers it; no packet and no buffer is
//! longer than [`PACKET_BYTES_MAX`]; a server's statements about itself are accepted within bounds.

#![forbid(unsafe_code)]

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod attributes;
mod client;
mod reply;
mod request;
mod server;
mod wire;

pub use attributes::{Attributes, FileKind, Owner, Times};
pub use client::{Client, Outgoing, PacketInHand, REQUESTS_MAX, RequestId};
pub use reply::{Data, Filesystem, HANDLE_BYTES_MAX, Handle, Name, Reply, Status, StatusCode};
pub use request::{Access, Request};
pub use server::{Extension, Limits, Server};
pub use wire::{Malformed, PACKET_BYTES_MAX};
