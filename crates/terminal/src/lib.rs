//! The manners that Sealane's programs share: words on a terminal, amounts, exit statuses, signals, the environment, and
//! documents made from the definitions of arguments.
//!
//! Guarantees: no control character of foreign text reaches a terminal; a status other than 0 means that a part of the request
//! was not done; only [`environment`] reads the environment.

#![forbid(unsafe_code)]

pub mod documents;
pub mod environment;
pub mod exit;
pub mod failure;
#[cfg(feature = "fleet")]
pub mod fleet;
pub mod help;
pub mod laboratory;
pub mod queue;
pub mod signals;
pub mod text;
pub mod units;
