//! The two programs find each other: `sealane` starts `sealane-lab` for studies, and `sealane-lab` measures `sealane`.
//!
//! Guarantees: both are of one build, or the start is refused with words; a program beside the running one comes before those
//! in `PATH`.

use std::env;
use std::path::{Path, PathBuf};

/// The name of the program of studies.
pub const LABORATORY: &str = "sealane-lab";

/// The name of the product.
pub const PRODUCT: &str = "sealane";

/// The option by which `sealane` tells `sealane-lab` its own build.
pub const BUILD_OPTION: &str = "--for-build";

/// Returns the version of this build, and the commit if it is known: `0.1.0 at 0123456789ab`, with `+changes` if the tree
/// differed from it.
pub fn build() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match commit() {
        Some(commit) => format!("{version} at {commit}"),
        None => version.to_owned(),
    }
}

/// Returns the commit from which this build was made, with `+changes` if the tree differed from it.
pub fn commit() -> Option<&'static str> {
    Some(env!("SEALANE_COMMIT")).filter(|commit| !commit.is_empty())
}

/// Returns the program `name` beside the running one, or else in `PATH`.
pub fn find(name: &str) -> Option<PathBuf> {
    let own = env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent).map(|folder| folder.join(name));
    let path = env::var_os("PATH").unwrap_or_default();
    let mut places = beside.into_iter().chain(env::split_paths(&path).map(|folder| folder.join(name)));
    places.find(|place| place.is_file())
}
