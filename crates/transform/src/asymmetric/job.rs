//! Jobs: an operation with its whole context, and its outcome.

use core::fmt;

use zeroize::Zeroizing;

use super::{ASYMMETRIC_WINDOW, Answer, Task, WaysCosts};
use crate::algorithm::Asymmetric;
use crate::isa::{Features, Isa};

/// The reason for which an operation has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// The input is not one that the operation accepts: a length, a number that is too large, a point that is not on
    /// the curve or of low order.
    #[error("the operation does not accept this input")]
    BadInput,
    /// The signature was not made by that key over that message.
    #[error("the signature is not valid")]
    NotVerified,
    /// The result of a private operation failed its check, and was discarded: the machine computed wrongly.
    #[error("the machine computed a wrong result, which was discarded")]
    Fault,
}

/// Defines the enum of all folders' operations.
macro_rules! operations {
    (asymmetric { $($folder:ident($name:ident) { $($rest:tt)* })* }) => {
        /// An operation of a public-key algorithm, with its keys and its input.
        pub enum AsymmetricOperation {
            $(
                #[doc = concat!("An operation of the module `", stringify!($folder), "`.")]
                $name(crate::$folder::Operation),
            )*
        }

        $(
            impl From<crate::$folder::Operation> for AsymmetricOperation {
                fn from(operation: crate::$folder::Operation) -> Self {
                    Self::$name(operation)
                }
            }
        )*

        impl AsymmetricOperation {
            /// Returns the algorithm and the step: operations in which both are equal share a batch.
            pub fn class(&self) -> (Asymmetric, u8) {
                match self { $( Self::$name(task) => task.class(), )* }
            }

            /// Returns the same operation with new random bytes, if these decide how long it takes: one such says
            /// little about others.
            pub fn renewed(&self) -> Option<Self> {
                match self { $( Self::$name(task) => task.renewed().map(Self::$name), )* }
            }

            pub(crate) fn costs(&self, isa: Isa) -> Option<WaysCosts> {
                match self { $( Self::$name(task) => task.costs(isa), )* }
            }

            pub(crate) fn reference(&self) -> Answer {
                match self { $( Self::$name(task) => task.reference(), )* }
            }

            pub(crate) const fn has_generic(&self) -> bool {
                match self { $( Self::$name(_) => <crate::$folder::Operation as Task>::HAS_GENERIC, )* }
            }

            pub(crate) fn generic(&self) -> Answer {
                match self { $( Self::$name(task) => task.generic(), )* }
            }

            pub(crate) fn native(&self) -> Answer {
                match self { $( Self::$name(task) => task.native(), )* }
            }

            /// Computes as many operations of the first one's class as a call takes, with the widest ways of these
            /// features. An operation of another class has no answer.
            #[cfg(target_arch = "x86_64")]
            pub(crate) fn ways(features: Features, operations: &[&Self], answers: &mut [Answer]) {
                match operations.first() {
                    $(
                        Some(Self::$name(_)) => {
                            let tasks: arrayvec::ArrayVec<_, ASYMMETRIC_WINDOW> = operations
                                .iter()
                                .filter_map(|operation| match operation {
                                    Self::$name(task) => Some(task),
                                    #[allow(unreachable_patterns)]
                                    _ => None,
                                })
                                .collect();
                            match (features.avx512, features.avx2) {
                                (Some(token), _) => Task::ways(token, &tasks, answers),
                                (None, Some(token)) => Task::narrow_ways(token, &tasks, answers),
                                (None, None) => {}
                            }
                        }
                    )*
                    None => {}
                }
            }
        }
    };
}
asymmetrics!(operations);

impl fmt::Debug for AsymmetricOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (algorithm, step) = self.class();
        write!(f, "AsymmetricOperation({}, step {step})", algorithm.name())
    }
}

/// An operation and its outcome.
pub struct AsymmetricJob {
    operation: AsymmetricOperation,
    outcome: Option<Answer>,
}

impl fmt::Debug for AsymmetricJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = self.outcome.as_ref().map(|outcome| outcome.as_ref().map(|answer| answer.len()));
        f.debug_struct("AsymmetricJob")
            .field("operation", &self.operation)
            .field("answer_bytes", &outcome)
            .finish()
    }
}

impl AsymmetricJob {
    /// Makes a job that has not run.
    pub fn new(operation: impl Into<AsymmetricOperation>) -> Self {
        Self { operation: operation.into(), outcome: None }
    }

    /// Returns the operation as it was given, also after it has run.
    pub const fn operation(&self) -> &AsymmetricOperation {
        &self.operation
    }

    /// Returns whether the job has run.
    pub const fn is_done(&self) -> bool {
        self.outcome.is_some()
    }

    /// Returns the answer, or the refusal; `None` if the job has not run.
    pub fn answer(&self) -> Option<Result<&[u8], Refusal>> {
        self.outcome.as_ref().map(|outcome| outcome.as_deref().map(Vec::as_slice).map_err(|refusal| *refusal))
    }

    /// Takes the answer out. A job that has not run is refused as [`Refusal::Fault`].
    ///
    /// # Errors
    /// Fails with the operation's refusal.
    pub fn into_answer(self) -> Result<Zeroizing<Vec<u8>>, Refusal> {
        self.outcome.unwrap_or(Err(Refusal::Fault))
    }

    /// Forgets the outcome, so that the job runs again.
    pub fn reset(&mut self) {
        self.outcome = None;
    }

    pub(crate) fn finish(&mut self, answer: Answer) {
        self.outcome = Some(answer);
    }
}
