//! The ends of programs, as tests expect them. A failure shows the command and what it printed.

use std::process::{Command, Output};

use super::text;

/// A program that ends, or has ended.
pub(crate) trait Ends: Sized {
    /// Returns its output. It must end with this status.
    #[track_caller]
    fn ends(self, status: i32) -> Output;

    /// Does the same, and looks for words among its complaints.
    #[track_caller]
    fn complains(self, status: i32, words: &[&str]) -> Output {
        let output = self.ends(status);
        let said = text(&output.stderr);
        words.iter().for_each(|word| assert!(said.contains(word), "no {word:?} in {said}"));
        output
    }
}

impl Ends for &mut Command {
    #[track_caller]
    fn ends(self, status: i32) -> Output {
        let output = self.output().expect("the program starts");
        assert_eq!(output.status.code(), Some(status), "{self:?}: {}", said(&output));
        output
    }
}

impl Ends for Output {
    #[track_caller]
    fn ends(self, status: i32) -> Output {
        assert_eq!(self.status.code(), Some(status), "{}", said(&self));
        self
    }
}

/// Returns everything that a program has printed.
fn said(output: &Output) -> String {
    format!("{} {}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
