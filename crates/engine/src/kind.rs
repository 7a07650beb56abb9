//! [`Kind`]: the facts by which an engine is chosen by a text.

use std::{io, sync::Arc};

use crate::{Engine, Implementations};

/// Makes an engine whose software uses the given implementations.
pub type Make = dyn Fn(Implementations) -> io::Result<Arc<dyn Engine>> + Send + Sync;

/// A kind of engine that a user can choose.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The name with which its texts begin.
    pub name: &'static str,
    /// The form of its texts, for a help text, such as `lanes[:N]`.
    pub form: &'static str,
    /// A description for a help text.
    pub about: &'static str,
    /// The parser of its texts.
    pub parse: Parse,
}

/// The parser of the text behind a kind's name and a colon; it returns `None` if the text makes no sense.
#[derive(Clone, Copy, Debug)]
pub enum Parse {
    /// The text describes one engine.
    Alone(fn(Option<&str>) -> Option<Arc<Make>>),
    /// The text names further engines, which the function that is handed over parses from the text of each.
    Over(fn(Option<&str>, &ParsePart<'_>) -> Option<Arc<Make>>),
}

/// Parses the text of an engine that is part of another one; such an engine has no parts itself.
pub type ParsePart<'a> = dyn Fn(&str) -> Option<Arc<Make>> + 'a;
