//! A module of PKCS#11 2.40 whose one token is the engine service: `ssh`, GnuTLS, OpenSC and other programs that load
//! such modules use keys that stay in the service.
//!
//! The module has one slot. Its token is the service that listens at the socket that `SEALANE_ENGINE` names, or at
//! [`sealane_client::SOCKET`]; while nobody listens there, the slot has no token. Each key is a private and a public
//! object, both labelled with the key's name; its certificates are objects as well. Private operations go to the service; verification, digests and random
//! numbers are computed in process by AWS-LC. The service knows its callers by their users, so no PIN is needed, and
//! any is accepted.
//!
//! **Guarantees:** a panic never crosses into C; all functions may be called by several threads at once, and threads
//! with different sessions do not wait for each other; a forked process has to initialise the module again, and uses no
//! connection of its parent; sessions, connections and the lengths of parts are bounded; no bytes of the service's
//! private keys are here.

#![deny(unsafe_code)]

mod attribute;
mod certificate;
mod connections;
mod ffi;
mod making;
mod mechanism;
mod module;
mod object;
mod operation;
mod refused;
mod secret;
mod session;
