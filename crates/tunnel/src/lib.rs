//! The tunnel daemon: IPsec in user space between networks.
//!
//! - [`site::Site`] is the site file; [`key_file`] and [`counter_file`] are the files beside it.
//! - [`gateway::run`] opens the device and the socket ([`outside`]) and starts lanes: [`outward`] plans, seals and sends,
//!   [`inward`] opens and accepts. What is said of packets is decided by `ipsec`; what is done to them by an engine.
//! - [`host`] is what a gateway changes of its host, and how that is taken back; [`device`] what it asks of its device.
//! - [`path`] is how long packets to a peer may be, and who is told.
//! - [`way`] is how lanes share a direction; [`alone`] runs it between memory and memory, to measure one end by itself.
//! - [`endpoint`] is where a peer is reached, and what can be no such place; [`news`] is what is told of peers.
//! - [`keying`] makes associations with peers that are known by their keys or speak IKE, whose secrets and certificates are
//!   [`credentials`]; [`manual`] makes them from files.
//! - [`pki`] makes certificates for gateways.
//! - [`control`] is how a running gateway is asked; [`status`] what it answers; [`privilege`] what it gives away before that.
//!
//! The protocols are in `sealane-ipsec`, the system calls on packets in `sealane-port`.
#![forbid(unsafe_code)]

pub mod alone;
pub mod control;
pub mod counter_file;
pub mod credentials;
pub mod device;
pub mod discovery;
pub mod endpoint;
pub mod gateway;
pub mod heard_file;
pub mod host;
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
pub mod peers;
pub mod pki;
pub mod privilege;
pub mod site;
pub mod status;
pub mod way;
