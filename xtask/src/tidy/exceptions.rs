//! What departs from a rule, and why. Everything here is data; a line that nothing needs any more is a finding.

/// Paths from the workspace root, each with its reason.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List(pub(crate) &'static [(&'static str, &'static str)]);

impl List {
    pub(crate) fn names(self, path: &str) -> bool {
        self.0.iter().any(|&(listed, _)| listed == path)
    }
}

/// One list for each rule that has exceptions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exceptions {
    /// Leaf modules that hold the crate's `unsafe`.
    pub(crate) unsafe_files: List,
    /// Files whose parts guarantee one thing together.
    pub(crate) long_files: List,
    /// Files that must name a home folder.
    pub(crate) home_paths: List,
}

impl Exceptions {
    #[cfg(test)]
    pub(crate) const NONE: Self =
        Self { unsafe_files: List(&[]), long_files: List(&[]), home_paths: List(&[]) };
}

/// The exceptions in force.
pub(crate) const CURRENT: Exceptions =
    Exceptions { unsafe_files: List(&[]), long_files: List(&[]), home_paths: List(&[]) };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exception_is_listed_once_and_says_why() {
        for list in [CURRENT.unsafe_files, CURRENT.long_files, CURRENT.home_paths] {
            for (index, (path, why)) in list.0.iter().enumerate() {
                assert!(why.len() > 10, "{path} says too little");
                assert!(list.0[..index].iter().all(|(other, _)| other != path), "{path} is listed twice");
            }
        }
    }
}
