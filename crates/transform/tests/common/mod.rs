//! Helpers of the test programs.

use sealane_transform::{Isa, Kernels, Tier};

/// Returns every tier of every instruction set that this machine has, and the automatic choice on each.
pub(crate) fn every_kernel() -> Vec<(String, Kernels)> {
    let tiers = Tier::ALL.map(Some).into_iter().chain([None]);
    tiers
        .flat_map(|tier| Isa::ALL.map(|isa| (tier, isa)))
        .filter_map(|(tier, isa)| {
            let kernels = Kernels::select(tier, Some(isa)).ok()?;
            Some((format!("{tier:?} on {isa}"), kernels))
        })
        .collect()
}
