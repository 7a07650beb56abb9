//! Engines chosen by a text that names the engine and its parameters: `inline`, `lanes:4`.
//!
//! Guarantees: a text that parses stands for an engine that can be made, unless the system refuses the resources; the
//! text that is printed parses again.

use std::{fmt, io, str::FromStr, sync::Arc};

use crate::{
    Engine, Implementations, Scheduler, Trust, inline,
    kind::{Kind, Make, Parse},
    lanes, process, scheduler,
};

/// The kinds that a user of the product can choose: an engine is added by its file and an entry here.
pub const KINDS: &[Kind] = {
    let [hybrid, round_robin, by_size, fail_over] = scheduler::KINDS;
    &[inline::KIND, lanes::KIND, process::KIND, hybrid, round_robin, by_size, fail_over]
};

/// An engine that a user has chosen.
#[derive(Clone)]
pub struct EngineChoice {
    text: String,
    make: Arc<Make>,
}

/// The error for a text that names no engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown engine {text:?}; choose one of {forms}")]
pub struct UnknownEngine {
    /// The text that was given.
    pub text: String,
    /// The forms of the texts that there are.
    pub forms: String,
}

impl EngineChoice {
    /// Returns the engine that `text` names among `kinds`.
    ///
    /// # Errors
    /// Fails if none of them has such a text.
    pub fn among(kinds: &[Kind], text: &str) -> Result<Self, UnknownEngine> {
        let unknown = || {
            let forms = kinds.iter().map(|kind| kind.form).collect::<Vec<_>>().join(", ");
            UnknownEngine { text: text.to_owned(), forms }
        };
        parse(kinds, text).map(|make| Self { text: text.to_owned(), make }).ok_or_else(unknown)
    }

    /// Makes the engine. Its software uses `implementations` to measure the costs of jobs. An engine that is not
    /// trusted is wrapped in a [`Scheduler`], so that the program goes on when it fails.
    ///
    /// # Errors
    /// Fails if the system refuses the engine's resources, such as threads.
    pub fn make(&self, implementations: impl Into<Implementations>) -> io::Result<Arc<dyn Engine>> {
        let engine = (self.make)(implementations.into())?;
        Ok(match engine.trust() {
            Trust::Full => engine,
            Trust::Checked { .. } => Arc::new(Scheduler::guard(engine)),
        })
    }
}

impl FromStr for EngineChoice {
    type Err = UnknownEngine;

    /// Returns the engine that `text` names among [`KINDS`].
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::among(KINDS, text)
    }
}

fn parse(kinds: &[Kind], text: &str) -> Option<Arc<Make>> {
    let (kind, argument) = kind_and_argument(kinds, text)?;
    match kind.parse {
        Parse::Alone(parse) => parse(argument),
        Parse::Over(parse) => parse(argument, &|text| member(kinds, text)),
    }
}

/// Parses one engine of a list such as `inline,lanes:2`; an engine over others would need brackets there.
fn member(kinds: &[Kind], text: &str) -> Option<Arc<Make>> {
    let (kind, argument) = kind_and_argument(kinds, text)?;
    match kind.parse {
        Parse::Alone(parse) => parse(argument),
        Parse::Over(_) => None,
    }
}

fn kind_and_argument<'a>(kinds: &'a [Kind], text: &'a str) -> Option<(&'a Kind, Option<&'a str>)> {
    let (name, argument) = match text.split_once(':') {
        Some((name, argument)) => (name, Some(argument)),
        None => (text, None),
    };
    Some((kinds.iter().find(|kind| kind.name == name)?, argument))
}

impl Default for EngineChoice {
    /// Returns the engine of the calling lane, which hands nothing over and wakes no thread.
    fn default() -> Self {
        inline::KIND.name.parse().expect("a kind's name is a text of it")
    }
}

impl fmt::Display for EngineChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for EngineChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EngineChoice").field(&self.text).finish()
    }
}

impl PartialEq for EngineChoice {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for EngineChoice {}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, num::NonZeroUsize};

    use super::*;
    use crate::Work;

    #[test]
    fn texts_name_engines_that_run() {
        for text in [
            "inline",
            "lanes",
            "lanes:1",
            "lanes:3",
            "lanes:3:50",
            "service",
            "service:/nowhere",
            "fail-over:service:/nowhere,inline",
            "hybrid:inline,lanes",
            "round-robin:lanes:1,lanes:2,inline",
            "by-size:1024:lanes,inline",
            "fail-over:lanes:2:10,inline",
        ] {
            let choice: EngineChoice = text.parse().unwrap();
            assert_eq!(choice.to_string(), text);
            let engine = choice.make(Implementations::default()).unwrap();
            assert_eq!(engine.name(), text.split(':').next().unwrap());
            let mut queue = engine.queue(NonZeroUsize::MIN).unwrap();
            assert_eq!(queue.submit(&mut VecDeque::from([Work::default()])), 1);
        }
        assert_eq!(EngineChoice::default(), "inline".parse().unwrap());
        for kind in KINDS {
            assert!(kind.form.starts_with(kind.name));
        }
    }

    #[test]
    fn other_texts_are_told_what_there_is() {
        let beyond = format!("lanes:{}", u64::from(u32::MAX) + 1);
        let many = format!("hybrid:{}", ["inline"; 17].join(","));
        for text in [
            "",
            "inlin",
            "inline:1",
            "lanes:",
            "lanes:0",
            "lanes:-1",
            "lanes:x",
            "lanes:1025",
            "lanes:1:",
            "lanes:1:10001",
            "service:",
            "card",
            "hybrid",
            "hybrid:inline",
            "hybrid:inline,",
            "hybrid:inline,hybrid:lanes,inline",
            "by-size:lanes,inline",
            "by-size:x:lanes,inline",
            &beyond,
            &many,
        ] {
            let error = text.parse::<EngineChoice>().unwrap_err();
            assert_eq!(error.text, text);
            assert!(error.to_string().contains("inline, lanes[:N[:MICROSECONDS]]"), "{error}");
        }
    }
}
