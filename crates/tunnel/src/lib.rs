//! The tunnel daemon: IPsec in user space between networks.
//!
//! - [`site::Site`] is the site file; [`key_file`] and [`counter_file`] are the files beside it.
//! - [`gateway::run`] opens the device and the socket ([`outside`]) and starts lanes: [`outward`] plans, seals and
//!   sends; [`inward`] opens and accepts. Decisions on packets are made by `ipsec`; the cryptography is done by an
//!   engine.
//! - [`host`] makes and reverts a gateway's changes to its host; [`device`] decides the settings of its device.
//! - [`queue`] has packets that wait for the socket or for the device, in flows that take turns; [`peer_lines`] tells which of them
//!   wait for the same peer.
//! - [`path`] computes the maximum length of packets to a peer, and sends it to the senders inside.
//! - [`pipeline`] distributes a direction's loads over lanes; [`in_memory`] runs it from memory to memory, to measure one end
//!   by itself. [`beside`] joins the queues of a device that has several.
//! - [`endpoint`] is the address of a peer, and rules out impossible ones; [`news`] logs changes of peers' states.
//! - [`keying`] makes associations with peers that are known by their keys or speak IKE; the secrets and certificates
//!   of the latter are [`credentials`]. [`manual`] makes associations from files.
//! - [`pki`] makes certificates for gateways, and [`profile`] files by which phones and laptops connect to them.
//! - [`reload`] reads the files of a running gateway again when they change.
//! - [`control`] is the socket for queries to a running gateway, and [`status`] its answers; [`privilege`] gives up
//!   the gateway's rights before that.
//!
//! The protocols are in `sealane-ipsec`, the system calls on packets in `sealane-port`.
#![forbid(unsafe_code)]

pub mod belief;
pub mod beside;
pub mod control;
pub mod counter_file;
pub mod credentials;
pub mod device;
pub mod discovery;
pub mod endpoint;
pub mod gateway;
pub mod heard_file;
pub mod host;
pub mod in_memory;
pub mod inward;
pub mod keep_alive;
pub mod key_file;
pub mod keying;
pub mod lanes;
pub mod manual;
pub mod names;
pub mod news;
pub mod outside;
pub mod outward;
pub mod path;
pub mod peer_lines;
pub mod peer_state;
pub mod peers;
pub mod pipeline;
pub mod pki;
pub mod privilege;
pub mod profile;
pub mod queue;
pub mod queueing;
pub mod reload;
pub mod site;
pub mod status;
pub mod strays;
pub mod streams;
pub mod watched;
