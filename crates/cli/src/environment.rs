//! Variables that say whose code computes, and which of it: read here and nowhere below.

use anyhow::Context as _;
use sealane_engine::Implementations;
use sealane_transform::Kernels;
use std::env;
use std::error::Error;
use std::str::FromStr;

/// `SEALANE_TIER` and `SEALANE_ISA`: the kernels that compute.
pub(crate) fn kernels() -> anyhow::Result<Kernels> {
    Ok(Kernels::select(named("SEALANE_TIER")?, named("SEALANE_ISA")?)?)
}

/// Those, and `SEALANE_AEAD`: whose AEADs.
pub(crate) fn implementations() -> anyhow::Result<Implementations> {
    Ok(Implementations { kernels: kernels()?, aead: named("SEALANE_AEAD")? })
}

/// What a variable says, if it is there and not empty.
fn named<T: FromStr>(name: &str) -> anyhow::Result<Option<T>>
where
    T::Err: Error + Send + Sync + 'static,
{
    let word = env::var(name).ok().filter(|word| !word.is_empty());
    word.map(|word| word.parse().with_context(|| name.to_owned())).transpose()
}
